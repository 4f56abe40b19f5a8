//! A relay beside others: their spending, their usage limits, retries, and merge conflicts.
//!
//! A single relay shares nothing, and nothing here changes it.

use super::{Baseline, Next, Phase, Relay};
use crate::agent::AgentSpec;
use crate::budget::{AgentSpends, Budget, Spend};
use crate::effect::RelayEffect;
use crate::knowledge::Knowledge;
use crate::outcome::WaitCause;
use crate::prompt::{PromptSection, StageContext};
use crate::time::Timestamp;

/// A relay's place in a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// What it gets to know about the project.
    pub(super) context: StageContext,
    /// Sections for every session until the stage is retried or merged; the one of a retry until a session has handed off.
    pub(super) sections: Vec<PromptSection>,
    /// The merge conflict that this stage is resolving; a retry still has to.
    conflict: Option<PromptSection>,
}

/// The effect of a run's other relays on this one: empty for a single relay. It follows from their states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedLimits {
    pub spent: Spend,
    /// What the working ones may still spend.
    pub reserved: Spend,
    /// Both by agent, if agents have their own budgets.
    pub spent_by: AgentSpends,
    pub reserved_by: AgentSpends,
    /// The number of sessions in which they spent it.
    pub sessions: u32,
    /// How many relays share the rest: this one, and those that may begin a session beside it. None for a single one.
    pub sharers: u32,
    /// The end of a usage limit that one of them hit.
    pub held_until: Option<Timestamp>,
}

impl Member {
    pub fn new(context: StageContext) -> Self {
        Self {
            context,
            sections: Vec::new(),
            conflict: None,
        }
    }
}

impl Relay {
    /// Adds other stages' knowledge, unless the relay has begun.
    pub(crate) fn learn(&mut self, knowledge: &Knowledge) {
        if self.phase == Phase::Planned {
            self.knowledge.learn(knowledge);
        }
    }

    /// The last attempt at the stage failed: begins another in the same work tree, with the notes of its last
    /// session, or with the review that its claim waits for. Sessions count afresh; what was spent stays spent.
    pub(crate) fn retry(&mut self, at: Timestamp, section: PromptSection) -> Vec<RelayEffect> {
        if let Phase::Ended {
            next: Next::Review(Some(_)),
            ..
        } = self.phase
        {
            self.count_anew();
            return self.begin(at);
        }
        let conflict = self.member.as_ref();
        let conflict = conflict.and_then(|member| member.conflict.clone());
        self.begin_anew(at, conflict.into_iter().chain([section]).collect())
    }

    /// A session has handed off since the retry: its notes say more of the tree than how the attempt before ended.
    pub(super) fn forget_retry(&mut self) {
        if let Some(member) = &mut self.member {
            let is_retry = |section: &PromptSection| matches!(section, PromptSection::Retry { .. });
            member.sections.retain(|section| !is_retry(section));
        }
    }

    /// The stage's work conflicts with that of others: its next session resolves the conflict, with the notes
    /// of the last.
    pub(crate) fn resolve_conflict(
        &mut self,
        at: Timestamp,
        section: PromptSection,
    ) -> Vec<RelayEffect> {
        // It passed before the other side was merged in.
        self.seen.check = None;
        self.seen.baseline = Baseline::Unknown;
        if let Some(member) = &mut self.member {
            member.conflict = Some(section.clone());
        }
        self.begin_anew(at, vec![section])
    }

    fn begin_anew(&mut self, at: Timestamp, of_stage: Vec<PromptSection>) -> Vec<RelayEffect> {
        self.sections.retain(PromptSection::stands);
        if let Some(member) = &mut self.member {
            member.sections = of_stage;
        }
        self.count_anew();
        self.start_first(at)
    }

    fn count_anew(&mut self) {
        self.crashes_in_a_row = 0;
        self.review_rounds = 0;
        self.session_limit.from = self.session_limit.over;
        self.seen.judge_anew(&self.stage.task);
    }

    /// Others have reserved a part of the run's budget that they may return.
    pub(super) fn is_reserved(&self) -> bool {
        let reserved = self.shared.reserved;
        reserved.micro_usd > 0 || reserved.tokens > 0
    }

    /// The unspent part of the run's budget, including reserved parts.
    pub(super) fn unspent_of_run(&self) -> Budget {
        self.settings.bounds.run.after(self.spent_by_run())
    }

    /// This relay's part of the rest of the run's budget, if others may begin beside it: at least what a
    /// session needs, if that much is left.
    pub(super) fn part_of_run(&self) -> Budget {
        let left = self.unspent_of_run().after(self.shared.reserved);
        left.part(self.shared.sharers, self.least_share())
    }

    /// With less than this of the run's budget, it is not worth beginning a session.
    pub(super) fn least_share(&self) -> Spend {
        let sessions = self.totals.sessions.saturating_add(self.shared.sessions);
        self.spent_by_run().least_share(sessions)
    }

    pub(super) fn spent_by_run(&self) -> Spend {
        self.totals.spend.plus(self.shared.spent)
    }

    /// The end of a usage limit that another relay hit. The relay waits for its own limits itself.
    pub(super) fn held_until(&self, at: Timestamp) -> Option<Timestamp> {
        self.shared.held_until.filter(|until| at < *until)
    }

    /// The agent and the end of its wait for a usage limit that holds other stages of that account, too. A reviewer's
    /// limit does not hold them if other agents can replace the working one.
    pub fn limit_met(&self) -> Option<(AgentSpec, Timestamp)> {
        let alone = self.settings.fallback.is_empty();
        self.waits_for(WaitCause::UsageLimit)
            .filter(|next| alone || next.purpose.is_work())?;
        Some((self.agent().clone(), self.waits_until()?))
    }

    /// What the current session may still spend of its reserved share.
    pub fn set_aside(&self) -> Spend {
        self.at_work().map_or(Spend::default(), |session| {
            session.share.budget.after(session.spend).as_spend()
        })
    }
}
