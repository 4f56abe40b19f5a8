//! A short summary of a run's records, for the live view.

use ekiden_core::agent::AgentKind;
use ekiden_core::budget::{Budget, Spend};
use ekiden_core::ids::{AttemptNumber, RunId, SessionNumber, StageId};
use ekiden_core::relay::{Phase, Relay};
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_wire::reading::Form;

use super::full::SessionRef;
use super::line::{Line, Tone, one_line};
use super::outcome::question_line;
use super::stage_table::{self, Brief, StageGroup};
use super::work_dirs::WorkDirs;

#[derive(Debug, Clone)]
pub struct Summary {
    pub run: RunId,
    pub started: Timestamp,
    pub work_dirs: WorkDirs,
    /// The spending of sessions that are over.
    pub settled: Spend,
    /// The same, including what is known of those at work.
    pub spend: Spend,
    pub subscription: bool,
    pub budget: Budget,
    /// Nothing new starts.
    pub is_paused: bool,
    /// Messages that the next session will read.
    pub told: usize,
    /// What the sessions of a single relay learned last.
    pub learned: Option<String>,
    pub open: Option<Open>,
    /// The newest handoff's message to the next session.
    pub handoff: Option<String>,
    /// The stages that ask for an answer, each with its question.
    pub asked: Vec<(StageId, String)>,
    pub plan: Option<Plan>,
    /// All sessions, stage by stage.
    pub places: Vec<SessionRef>,
    /// The one at work, otherwise the last of the first stage.
    pub newest: Option<SessionRef>,
}

/// The items that the last handoff left open.
#[derive(Debug, Clone)]
pub struct Open {
    pub count: usize,
    pub done: usize,
    pub first: String,
}

#[derive(Debug, Clone)]
pub struct Plan {
    /// How many stages are in which state.
    pub counts: String,
    pub slots: usize,
    pub slots_taken: usize,
    pub stages: Vec<Brief>,
}

impl Plan {
    pub(super) fn head(&self) -> Line {
        let line = Line::new(Tone::Plain, format!("  {}", self.counts));
        // With many stages that takes a minute.
        let is_over = |stage: &Brief| stage.place == StageGroup::Over;
        match self.stages.iter().all(is_over) {
            true => line.with(Tone::Quiet, " · removing worktrees"),
            false => line,
        }
    }
}

impl Summary {
    pub fn of(run: &Run) -> Self {
        let relays = || run.relays().map(|(_, relay)| relay);
        let totals = run.totals();
        let first = relays().next();
        let rows = stage_table::rows(run);
        Self {
            run: run.header().run.clone(),
            started: run.started_at(),
            work_dirs: WorkDirs::of(run.header()),
            settled: run.settled(),
            spend: totals.spend,
            subscription: totals.subscription,
            budget: run.budget(),
            is_paused: run.is_paused(),
            told: relays().map(|relay| relay.wishes.words.len()).sum(),
            learned: first
                .and_then(|relay| relay.knowledge.core.last())
                .map(|fact| one_line(&fact.text)),
            open: first.and_then(|relay| {
                let items = relay.open_items()?;
                Some(Open {
                    count: items.open.len(),
                    done: items.done.len(),
                    first: one_line(items.open.first()?),
                })
            }),
            handoff: run
                .live()
                .chain(run.relays())
                .find_map(|(_, relay)| relay.last.as_ref()?.next_prompt.clone()),
            asked: run
                .questions()
                .map(|(stage, asked)| (stage.clone(), question_line(asked)))
                .collect(),
            places: run
                .relays()
                .flat_map(|of| places(of, !rows.is_empty()))
                .collect(),
            newest: run
                .live()
                .chain(run.relays())
                .find_map(|of| places(of, !rows.is_empty()).last()),
            plan: (!rows.is_empty()).then(|| Plan {
                counts: stage_table::summary(&rows),
                slots: run.plan().jobs(),
                slots_taken: run.plan().at_work(),
                stages: rows.iter().map(stage_table::Row::brief).collect(),
            }),
        }
    }
}

/// The sessions of a stage, without one that waits to begin.
fn places((stage, relay): (&StageId, &Relay), is_plan: bool) -> impl Iterator<Item = SessionRef> {
    let stage = is_plan.then(|| stage.clone());
    let form = form(relay);
    let newest = relay.session().get();
    let newest = match &relay.phase {
        Phase::Waiting { next, .. } | Phase::Paused { next, .. }
            if next.id.attempt == AttemptNumber::FIRST =>
        {
            newest - 1
        }
        Phase::Planned
        | Phase::Running(_)
        | Phase::Reviewing { .. }
        | Phase::Waiting { .. }
        | Phase::Paused { .. }
        | Phase::Ended { .. } => newest,
    };
    let numbers = 1..=newest;
    let sessions = numbers.filter_map(|number| SessionNumber::try_from(number).ok());
    sessions.map(move |session| SessionRef {
        stage: stage.clone(),
        session,
        form,
    })
}

/// The kind of stream that a stage's sessions have, by the agents that may work in them.
fn form(relay: &Relay) -> Form {
    let mut are_commands = relay.agents().map(|agent| agent.kind == AgentKind::Exec);
    let is_command = are_commands.next() == Some(true);
    match are_commands.all(|other| other == is_command) {
        false => Form::Either,
        true if is_command => Form::Text,
        true => Form::Messages,
    }
}
