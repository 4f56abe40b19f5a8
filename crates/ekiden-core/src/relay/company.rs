//! A relay beside others: what they spend and learn, another try, and putting together what clashes.
//!
//! A relay that stands alone has no company, and nothing here changes it.

use crate::budget::{Budget, Spend};
use crate::effect::RelayEffect;
use crate::knowledge::Knowledge;
use crate::prompt::{Slot, StageContext};
use crate::relay::{Baseline, Phase, Relay, WaitCause};
use crate::time::Timestamp;

/// What the other relays of a run mean for this one. It follows from their states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Company {
    /// What they have spent, and what those at work may still spend.
    pub spent: Spend,
    /// Among how many what is left is divided: this one, and those that may begin beside it.
    pub sharers: u32,
    /// A usage limit that one of them met lasts until then.
    pub held_until: Option<Timestamp>,
}

impl Default for Company {
    fn default() -> Self {
        Self { spent: Spend::default(), sharers: 1, held_until: None }
    }
}

impl Relay {
    /// It belongs to a plan, and is shown this of the project.
    pub(crate) fn join(&mut self, context: StageContext) {
        self.context = Some(context);
    }

    /// Takes over what the others mean for it.
    pub(crate) fn meet(&mut self, company: Company) {
        self.company = company;
    }

    /// What other stages have learned. Only a relay that has not begun takes it over.
    pub(crate) fn learn(&mut self, knowledge: &Knowledge) {
        if matches!(self.phase, Phase::Planned) {
            self.knowledge.adopt(knowledge);
        }
    }

    /// The last try failed: begins another on the ground as it was left, with nothing of the notes that led
    /// there. Sessions count anew; what was spent stays spent.
    pub(crate) fn try_again(&mut self, at: Timestamp, slot: Slot) -> Vec<RelayEffect> {
        self.last = None;
        self.next_prompt = None;
        let clash = self.clash.clone();
        self.begin_anew(at, clash.into_iter().chain([slot]).collect())
    }

    /// What it did does not go together with what others did: its next session puts that right, with the
    /// notes of the last.
    pub(crate) fn mend(&mut self, at: Timestamp, slot: Slot) -> Vec<RelayEffect> {
        self.baseline = Baseline::Unknown;
        self.clash = Some(slot.clone());
        self.begin_anew(at, vec![slot])
    }

    fn begin_anew(&mut self, at: Timestamp, standing: Vec<Slot>) -> Vec<RelayEffect> {
        self.slots = Vec::new();
        self.standing = standing;
        self.crashes_in_a_row = 0;
        self.quota.from = self.quota.over;
        if let Some(bench) = &mut self.bench {
            bench.renew(&self.stage.task, self.survey.as_ref());
        }
        self.start_first(at)
    }

    /// What is left of the run's budget for this relay, beside the others.
    pub(super) fn left_of_run(&self) -> Budget {
        self.settings.bounds.run.after(self.company.spent).after(self.tally.spend())
    }

    /// Its part of that, where others may begin beside it.
    pub(super) fn part_of_run(&self) -> Budget {
        let part = |left: u64| left / u64::from(self.company.sharers.max(1));
        let left = self.left_of_run();
        Budget { micro_usd: left.micro_usd.map(part), tokens: left.tokens.map(part) }
    }

    /// What the whole run has spent.
    pub(super) fn spent_by_run(&self) -> Spend {
        self.tally.spend().plus(self.company.spent)
    }

    /// Until when a usage limit holds it that another relay met. One of its own it waits for itself.
    pub(super) fn held_until(&self, at: Timestamp) -> Option<Timestamp> {
        self.company.held_until.filter(|until| at < *until)
    }

    /// Until when it waits for a usage limit of its own.
    #[must_use]
    pub fn limited_until(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Waiting { until, cause: WaitCause::UsageLimit, .. } => Some(*until),
            Phase::Waiting { .. }
            | Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => None,
        }
    }

    /// What the session at work may still spend, of what was set aside for it.
    #[must_use]
    pub fn set_aside(&self) -> Spend {
        let Some(session) = self.at_work() else { return Spend::default() };
        let left = session.share.budget.after(session.talk.spend);
        let part = |left: Option<u64>| left.unwrap_or(0);
        Spend { micro_usd: part(left.micro_usd), tokens: part(left.tokens), estimated: false }
    }
}
