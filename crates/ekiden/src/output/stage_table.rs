//! The stages of a plan as a table: CASM's, with what a relay knows beside it.

use ekiden_core::ids::StageId;
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::time::Millis;
use serde::Serialize;

use super::line::{Line, Tone, one_line};
use super::phrase;

/// The most that a row shows of a stage's name, in characters.
const NAME_CHARS_MAX: usize = 40;

/// A stage of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageRow {
    id: StageId,
    name: String,
    state: StageWord,
    sessions: u32,
    tries: u32,
    #[serde(rename = "running_ms")]
    running: Millis,
    tokens: u64,
    cost_micro_usd: u64,
    needs: Vec<StageId>,
    /// Why it is where it is, if that needs words.
    why: Option<String>,
}

/// Where a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum StageWord {
    Waiting,
    Ready,
    Preparing,
    Running,
    Merging,
    Interrupted,
    Done,
    Failed,
    Skipped,
    Blocked,
    LeftOut,
}

/// The stages of a run, in the order of the manifest; none where it is a single relay.
#[must_use]
pub fn rows(run: &Run) -> Vec<StageRow> {
    if run.header().manifest.plan.is_none() {
        return Vec::new();
    }
    run.plan().states().map(|(stage, state)| row(run, stage, state)).collect()
}

fn row(run: &Run, id: &StageId, state: &StageState) -> StageRow {
    let stage = run.stage(id);
    let tally = run.relay(id).map(Relay::tally).unwrap_or_default();
    let (state, why) = word(run, id, state);
    StageRow {
        id: id.clone(),
        name: stage.map(|stage| one_line(&stage.task_name)).unwrap_or_default(),
        state,
        sessions: tally.sessions,
        tries: run.plan().tries(id),
        running: tally.running,
        tokens: run.relay(id).map(|relay| relay.spend().tokens).unwrap_or_default(),
        cost_micro_usd: run.relay(id).map(|relay| relay.spend().micro_usd).unwrap_or_default(),
        needs: stage
            .map(|stage| stage.part.needs.iter().map(|need| need.stage.clone()).collect())
            .unwrap_or_default(),
        why,
    }
}

fn word(run: &Run, id: &StageId, state: &StageState) -> (StageWord, Option<String>) {
    match state {
        StageState::Waiting => {
            let needs = run.stage(id).into_iter().flat_map(|stage| &stage.part.needs);
            let open = needs.filter(|need| !run.plan().is_done(&need.stage)).map(|need| need.stage.as_str());
            (StageWord::Waiting, Some(format!("needs {}", open.collect::<Vec<_>>().join(", "))))
        }
        StageState::Ready => (StageWord::Ready, None),
        StageState::Preparing => (StageWord::Preparing, None),
        StageState::Working => (StageWord::Running, run.relay(id).map(doing)),
        StageState::Merging => (StageWord::Merging, None),
        StageState::Interrupted(outcome) => (StageWord::Interrupted, Some(phrase::ended(outcome))),
        StageState::Over(end) => match end {
            StageEnd::Done => (StageWord::Done, None),
            StageEnd::Failed(outcome) => (StageWord::Failed, Some(phrase::ended(outcome))),
            StageEnd::Skipped(outcome) => (StageWord::Skipped, Some(phrase::ended(outcome))),
            StageEnd::Blocked { by } => (StageWord::Blocked, Some(format!("by {by}"))),
            StageEnd::LeftOut { with } => {
                (StageWord::LeftOut, with.as_ref().map(|with| format!("needs {with}")))
            }
        },
    }
}

fn doing(relay: &Relay) -> String {
    format!("session {}, {}", relay.session(), phrase::doing(relay))
}

/// The line above the table: how many stages are where.
#[must_use]
pub fn summary(rows: &[StageRow]) -> String {
    let count = |wanted: StageWord| rows.iter().filter(|row| row.state == wanted).count();
    let mut parts = vec![phrase::count(rows.len() as u64, "stage")];
    let words = [
        StageWord::Done,
        StageWord::Running,
        StageWord::Preparing,
        StageWord::Merging,
        StageWord::Ready,
        StageWord::Waiting,
        StageWord::Interrupted,
        StageWord::Failed,
        StageWord::Blocked,
        StageWord::Skipped,
        StageWord::LeftOut,
    ];
    parts.extend(
        words
            .into_iter()
            .filter(|word| count(*word) > 0)
            .map(|word| format!("{} {}", count(word), word.text())),
    );
    parts.join(" · ")
}

/// The table for people, a line for each stage.
#[must_use]
pub fn lines(rows: &[StageRow]) -> Vec<Line> {
    let wide = |of: fn(&StageRow) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let (ids, words) = (wide(|row| row.id.as_str().len()), wide(|row| row.state.text().len()));
    let names = wide(|row| row.shown_name().chars().count());
    rows.iter().map(|row| row.line(ids, words, names)).collect()
}

impl StageRow {
    fn shown_name(&self) -> String {
        ekiden_core::text::short(&self.name, NAME_CHARS_MAX)
    }

    fn line(&self, ids: usize, words: usize, names: usize) -> Line {
        let time = match self.running.as_secs() {
            0 => String::new(),
            secs => format!("{}:{:02}", secs / 60, secs % 60),
        };
        let tokens = if self.tokens == 0 { String::new() } else { phrase::tokens(self.tokens) };
        let mut rest = Vec::new();
        if self.tries > 1 {
            rest.push(format!("try {}", self.tries));
        }
        rest.extend(self.why.clone());
        let name = self.shown_name();
        let gap = " ".repeat(names.saturating_sub(name.chars().count()));
        Line::new(Tone::Plain, format!("  {:<ids$}  ", self.id.as_str()))
            .with(self.state.tone(), format!("{:<words$}", self.state.text()))
            .with(Tone::Plain, format!("  {time:>6}  {tokens:>6}  {name}"))
            .with(
                Tone::Quiet,
                if rest.is_empty() { String::new() } else { format!("{gap}  {}", rest.join(", ")) },
            )
    }
}

impl StageWord {
    fn text(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Ready => "ready",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Merging => "merging",
            Self::Interrupted => "interrupted",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Blocked => "blocked",
            Self::LeftOut => "left out",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Done => Tone::Done,
            Self::Failed => Tone::Failed,
            Self::Blocked | Self::Skipped | Self::Interrupted => Tone::Attention,
            Self::Waiting | Self::Ready | Self::LeftOut => Tone::Quiet,
            Self::Preparing | Self::Running | Self::Merging => Tone::Plain,
        }
    }
}
