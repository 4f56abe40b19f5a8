//! What only the whole run shows: sums, states of stages, open questions.

use std::collections::BTreeMap;

use ekiden_core::ids::StageId;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::text::short;

use super::{Standing, State, Timeline, WORDS_CHARS_MAX};

impl Timeline {
    /// Adds what only the whole run shows.
    pub fn settle(&mut self, run: &Run) {
        let relays = || run.relays().map(|(_, relay)| relay);
        let is_plan = self.is_plan;
        let facts = match is_plan {
            true => run.shared_knowledge().core.iter().collect::<Vec<_>>(),
            false => relays()
                .flat_map(|relay| relay.knowledge.core.iter())
                .collect(),
        };
        let from = run.header().from.as_ref();
        let sessions_before = from.map_or(0, |from| from.last.session.get());
        self.task_name = run.task_names();
        let is_merged = run.has_worktrees() && run.outcome().is_some_and(Outcome::is_complete);
        self.standing = Standing {
            outcome: run.outcome().cloned(),
            totals: run.totals(),
            budget: run.budget(),
            agents: run.agent_budgets(),
            facts: facts
                .into_iter()
                .map(|fact| short(&fact.text, WORDS_CHARS_MAX))
                .collect(),
            // A fleet's worker, or a plan's merge, commits a stage's work after its last session was surveyed.
            files_open: relays()
                .filter(|_| self.git && run.header().fleet.is_none() && !is_merged)
                .find_map(|relay| Some(relay.seen.survey.as_ref()?.status.len())),
            sessions_max: run.session_max().saturating_sub(sessions_before),
        };
        let questions: BTreeMap<StageId, String> = run
            .questions()
            .map(|(stage, question)| (stage.clone(), short(question, WORDS_CHARS_MAX)))
            .collect();
        for stage in &mut self.stages {
            (stage.state, stage.why) = state(run, &stage.id);
            stage.tries = run.plan().tries(&stage.id);
            stage.question = questions.get(&stage.id).cloned();
            let items = run.relay(&stage.id).and_then(Relay::open_items);
            stage.items = items.cloned();
        }
    }

    /// ekiden was killed: nothing works on it, whatever the log says.
    pub fn cut_off(&mut self) {
        for stage in &mut self.stages {
            if stage.state == State::Working {
                stage.state = State::Interrupted;
            }
        }
    }
}

fn state(run: &Run, stage: &StageId) -> (State, String) {
    let over = run.outcome().is_some();
    let Some(state) = run.plan().state(stage) else {
        return (State::Waiting, String::new());
    };
    match state {
        StageState::Waiting | StageState::Ready => (State::Waiting, String::new()),
        StageState::Preparing | StageState::Working | StageState::Merging if over => {
            (State::Interrupted, String::new())
        }
        StageState::Preparing | StageState::Working => (State::Working, String::new()),
        StageState::Merging => (State::Working, "merging".to_owned()),
        StageState::Interrupted(outcome) => (State::Interrupted, outcome.to_string()),
        StageState::Over(end) => match end {
            StageEnd::Done => (State::Done, String::new()),
            StageEnd::Failed(outcome) if outcome.asks() => (State::Asks, outcome.to_string()),
            StageEnd::Failed(outcome) => (State::Failed, outcome.to_string()),
            StageEnd::Skipped(outcome) => (State::Skipped, format!("failed: {outcome}")),
            StageEnd::Blocked { by } => (State::Blocked, format!("needs {by}")),
            StageEnd::LeftOut { with: None } => (State::LeftOut, "as you asked".to_owned()),
            StageEnd::LeftOut { with: Some(with) } => (State::LeftOut, format!("needs {with}")),
        },
    }
}
