//! The stages of a plan as a table.

use std::collections::BTreeMap;

use ekiden_core::budget::Spend;
use ekiden_core::ids::StageId;
use ekiden_core::manifest::{Need, Stage};
use ekiden_core::outcome::WaitCause;
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::settings::StageUsage;
use ekiden_core::text;
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use textwrap::core::display_width;

use super::board::Board;
use super::json::{Fields, fields};
use super::line::{Line, Tone, one_line};
use super::{outcome, phrase};
use crate::exit::Exit;

/// How much of a stage's name a row shows, in characters.
const NAME_CHARS_MAX: usize = 40;

pub struct Row<'a> {
    id: &'a StageId,
    stage: Option<&'a Stage>,
    relay: Option<&'a Relay>,
    spend: Spend,
    state: State,
    /// Why it is in this state, if that needs an explanation.
    why: Option<String>,
    waits_until: Option<Timestamp>,
    tries: u32,
    /// What it took in another program, which finished it.
    imported: Option<StageUsage>,
}

/// The possible states of a stage, in the order in which the summary counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Done,
    Running,
    Preparing,
    Merging,
    Ready,
    Waiting,
    Interrupted,
    Asks,
    Failed,
    Blocked,
    Skipped,
    LeftOut,
}

impl State {
    fn word(self) -> (Tone, &'static str) {
        match self {
            Self::Done => (Tone::Done, "done"),
            Self::Running => (Tone::Plain, "running"),
            Self::Preparing => (Tone::Plain, "preparing"),
            Self::Merging => (Tone::Plain, "merging"),
            Self::Ready => (Tone::Quiet, "ready"),
            Self::Waiting => (Tone::Quiet, "waiting"),
            Self::Interrupted => (Tone::Attention, "interrupted"),
            Self::Asks => (Tone::Attention, "asks"),
            Self::Failed => (Tone::Failed, "failed"),
            Self::Blocked => (Tone::Attention, "blocked"),
            Self::Skipped => (Tone::Attention, "skipped"),
            Self::LeftOut => (Tone::Quiet, "left out"),
        }
    }
}

/// The stages of a run, in the order of the manifest; empty if it is a single relay.
pub fn rows(run: &Run) -> Vec<Row<'_>> {
    let is_plan = run.header().is_plan();
    let stages = run.plan().states().filter(|_| is_plan);
    let imported = run.header().imported.as_ref();
    stages
        .map(|(id, state)| {
            let (state, why) = state_of(run, id, state);
            Row {
                id,
                stage: run.stage(id),
                relay: run.relay(id),
                spend: run.relay(id).map(Relay::spend).unwrap_or_default(),
                state,
                why,
                waits_until: None,
                tries: run.plan().tries(id),
                imported: imported.and_then(|imported| imported.stages.get(id).copied()),
            }
        })
        .collect()
}

fn state_of(run: &Run, id: &StageId, state: &StageState) -> (State, Option<String>) {
    match state {
        StageState::Waiting => {
            let needs = run.stage(id).into_iter();
            let holds = |need: &&Need| {
                let state = run.plan().state(&need.stage);
                let is_over = need.optional && matches!(state, Some(StageState::Over(_)));
                !is_over && !run.plan().is_done(&need.stage)
            };
            let open = needs.flat_map(|stage| &stage.part.needs).filter(holds);
            let open: Vec<&str> = open.map(|need| need.stage.as_str()).collect();
            (State::Waiting, Some(format!("needs {}", open.join(", "))))
        }
        StageState::Ready => (State::Ready, None),
        StageState::Preparing => (State::Preparing, None),
        StageState::Working => {
            let doing = |relay: &Relay| {
                let (session, doing) = (relay.session(), phrase::doing(relay));
                format!("session {session}, {doing}")
            };
            (State::Running, run.relay(id).map(doing))
        }
        StageState::Merging => (State::Merging, None),
        StageState::Interrupted(how) => (State::Interrupted, Some(outcome::short(how))),
        StageState::Over(end) => match end {
            StageEnd::Done => (State::Done, None),
            StageEnd::Failed(how) => {
                let state = match Exit::of(how) == Exit::Blocked {
                    true => State::Asks,
                    false => State::Failed,
                };
                (state, Some(outcome::short(how)))
            }
            StageEnd::Skipped(how) => (State::Skipped, Some(outcome::short(how))),
            StageEnd::Blocked { by } => (State::Blocked, Some(format!("by {by}"))),
            StageEnd::LeftOut { with } => {
                let with = with.as_ref().map(|with| format!("needs {with}"));
                (State::LeftOut, with)
            }
        },
    }
}

/// A stage in the live view.
#[derive(Debug, Clone)]
pub struct Brief {
    pub id: StageId,
    pub place: StageGroup,
    pub state: (Tone, &'static str),
    pub name: String,
    pub why: Option<String>,
}

/// Where a stage is, seen from the front of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageGroup {
    AtWork,
    /// It waits for a slot.
    Next,
    Waiting,
    Over,
}

/// The line above the table: how many stages are in which state.
pub fn summary(rows: &[Row<'_>]) -> String {
    let mut counts: BTreeMap<State, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.state).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(state, count)| format!(" · {count} {}", state.word().1));
    let stages = phrase::count(rows.len() as u64, "stage");
    format!("{stages}{}", counts.collect::<String>())
}

/// The table for people, a line for each stage.
pub fn lines(rows: &[Row<'_>], now: Timestamp, zone: &TimeZone) -> Vec<Line> {
    let widest = |of: fn(&Row<'_>) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let ids = widest(|row| row.id.as_str().len());
    let states = widest(|row| row.state.word().1.len());
    let names = widest(|row| display_width(&row.name()));
    let until = |row: &Row<'_>| Some(phrase::future(row.waits_until?, now, zone));
    let line = |row: &Row<'_>| row.line(ids, states, names, until(row));
    rows.iter().map(line).collect()
}

impl Row<'_> {
    fn name(&self) -> String {
        let name = self.stage.map(|stage| one_line(&stage.task_name));
        text::short(&name.unwrap_or_default(), NAME_CHARS_MAX)
    }

    /// The run has ended, or ekiden was killed: nothing works on it, whatever the log says.
    pub fn cut_off(mut self) -> Self {
        if matches!(
            self.state,
            State::Running | State::Preparing | State::Merging
        ) {
            (self.state, self.why) = (State::Interrupted, None);
        }
        self
    }

    /// The same with the time until which it waits.
    pub fn held(mut self, run: &Run, now: Timestamp) -> Self {
        self.waits_until = run.stage_waits_until(self.id, now);
        if self.state == State::Ready && self.waits_until.is_some() {
            self.why = Some(phrase::waiting(WaitCause::UsageLimit).to_owned());
        }
        self
    }

    /// The same with what the session at work has spent as far as it was seen.
    pub fn seen(mut self, board: &Board) -> Self {
        self.spend = self.relay.map_or(self.spend, |relay| board.spend_of(relay));
        self
    }

    pub fn brief(&self) -> Brief {
        let place = match self.state {
            State::Running | State::Preparing | State::Merging => StageGroup::AtWork,
            State::Ready => StageGroup::Next,
            State::Waiting => StageGroup::Waiting,
            State::Done
            | State::Interrupted
            | State::Asks
            | State::Failed
            | State::Blocked
            | State::Skipped
            | State::LeftOut => StageGroup::Over,
        };
        Brief {
            id: self.id.clone(),
            place,
            state: self.state.word(),
            name: self.name(),
            why: self.why.clone(),
        }
    }

    pub fn json(&self) -> Fields {
        let totals = self.relay.map(|relay| relay.totals).unwrap_or_default();
        let needs = self.stage.into_iter().flat_map(|stage| &stage.part.needs);
        fields! {
            "id": self.id,
            "name": self.stage.map(|stage| one_line(&stage.task_name)),
            "state": self.state,
            "sessions": totals.sessions,
            "tries": self.tries,
            "running_ms": totals.running,
            "tokens": self.spend.tokens,
            "imported_ms": self.imported.map(|took| took.time),
            "imported_tokens": self.imported.map(|took| took.tokens),
            "cost_micro_usd": self.spend.micro_usd,
            "needs": needs.map(|need| &need.stage).collect::<Vec<_>>(),
            "why": self.why,
            "waits_until": self.waits_until.map(phrase::utc),
            "agents": self.agents(),
        }
    }

    /// The agents that have worked on it, if others can take over.
    fn agents(&self) -> Vec<&str> {
        self.relay.into_iter().flat_map(Relay::worked).collect()
    }

    fn line(&self, ids: usize, states: usize, names: usize, until: Option<String>) -> Line {
        let own = self.relay.map(|relay| relay.totals.running.as_secs());
        let own = (own.unwrap_or(0), self.spend.tokens);
        let imported = self.imported.filter(|_| own == (0, 0));
        let (secs, tokens) = imported.map_or(own, |took| (took.time.as_secs(), took.tokens));
        let time = match secs {
            0 => String::new(),
            secs => format!("{}:{:02}", secs / 60, secs % 60),
        };
        let tokens = match tokens {
            0 => String::new(),
            _ if imported.is_none() => phrase::spent_tokens(self.spend),
            tokens => phrase::tokens(tokens),
        };
        let tries = (self.tries > 1).then(|| format!("try {}", self.tries));
        let imported = imported.map(|_| "before the import".to_owned());
        let by = self.agents();
        let by = (!by.is_empty()).then(|| format!("by {}", one_line(&by.join(", "))));
        let rest = tries.into_iter().chain(imported);
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        let why = self.why.as_ref().map(|why| format!("{why}{until}"));
        let rest = rest.chain(why).chain(by);
        let rest: Vec<String> = rest.collect();
        let name = self.name();
        let gap = " ".repeat(names.saturating_sub(display_width(&name)));
        let rest = match rest.is_empty() {
            true => String::new(),
            false => format!("{gap}  {}", rest.join(", ")),
        };
        let (tone, state) = self.state.word();
        Line::new(Tone::Plain, format!("  {:<ids$}  ", self.id.as_str()))
            .with(tone, format!("{state:<states$}"))
            .with(Tone::Plain, format!("  {time:>6}  {tokens:>6}  {name}"))
            .with(Tone::Quiet, rest)
    }
}
