//! `ekiden sessions`: the sessions of a run, a row each.

use clap::Args;
use ekiden_core::ends::EndCause;
use ekiden_core::event::CheckOutcome;
use ekiden_core::ids::RunId;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::history;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Scene, Told, asked_run};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::account::Session;
use crate::output::line::{Line, Tone, one_line};
use crate::output::news::Left;
use crate::output::table::{self, Cell, Column, Side};
use crate::output::trouble::Trouble;
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden sessions                     of the newest run here
  ekiden sessions 7f3a                of the run whose id begins so
  ekiden sessions --json | jq '.sessions[] | select(.rescued)'
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

const COLUMNS: [Column; 9] = [
    Column { head: "#", side: Side::Right, rank: 0 },
    Column { head: "began", side: Side::Left, rank: 3 },
    Column { head: "took", side: Side::Right, rank: 0 },
    Column { head: "context", side: Side::Left, rank: 2 },
    Column { head: "calls", side: Side::Right, rank: 6 },
    Column { head: "cost", side: Side::Right, rank: 4 },
    Column { head: "items", side: Side::Right, rank: 5 },
    Column { head: "verify", side: Side::Left, rank: 1 },
    Column { head: "ended", side: Side::Left, rank: 0 },
];

/// List the sessions of a run: when, how long, how full, what it cost, how it ended
///
/// Where the terminal is narrow, the columns that matter least are left out; `--json` has all of it.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct SessionsArgs {
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The stage, where the run is a plan
    #[arg(long, value_name = "ID")]
    stage: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If there is no such run, or its log cannot be read.
pub fn sessions(args: &SessionsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let run = asked_run(&workspace, args.run.as_deref(), output)?;
    let told = Told::read(&workspace, &run, args.stage.as_deref())?;
    let at_work = history::holder(&workspace).is_some_and(|holder| holder.run.as_ref() == Some(&run));
    let rows: Vec<Row> = told.account.sessions().iter().map(|session| Row::of(session, at_work)).collect();
    if scene.json()? {
        output.json(&Answer { v: JSON_VERSION, run: &run, sessions: &rows, trouble: told.account.trouble() });
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        output.line(&Line::new(Tone::Plain, format!("run {}: no session has begun yet", told.id)));
        return Ok(Exit::Done);
    }
    let (zone, started) = (TimeZone::system(), told.run.started_at());
    let cells: Vec<Vec<Cell>> = rows.iter().map(|row| row.cells(started, &zone)).collect();
    table::lines(&COLUMNS, &cells, output.columns()).iter().for_each(|line| output.line(line));
    told.account.trouble().line().iter().for_each(|line| output.line(line));
    let last = rows.last().map_or(1, |row| row.session);
    output.line(
        &Line::new(Tone::Quiet, "next  ")
            .with(Tone::Plain, format!("ekiden show {last}{}", told.named(args.run.as_deref()))),
    );
    Ok(Exit::Done)
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    v: u32,
    run: &'a RunId,
    sessions: &'a [Row],
    #[serde(skip_serializing_if = "Trouble::is_none")]
    trouble: &'a Trouble,
}

/// One session.
#[derive(Debug, Serialize)]
struct Row {
    session: u32,
    state: State,
    began: String,
    attempts: usize,
    #[serde(rename = "duration_ms")]
    duration: Millis,
    usage_tokens: u64,
    percent: Option<u64>,
    tool_calls: Option<u32>,
    cost_micro_usd: u64,
    cost_estimated: bool,
    left: Option<Left>,
    rescued: bool,
    cause: Option<EndCause>,
    items_open: Option<usize>,
    items_done: Option<usize>,
    verification: Option<CheckOutcome>,
    veto: bool,
    #[serde(skip)]
    began_at: Timestamp,
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// An engine works on it.
    AtWork,
    /// Its last attempt did not end, and no engine works on it.
    CutOff,
    /// Over, or between two attempts.
    Ended,
}

impl Row {
    fn of(session: &Session, at_work: bool) -> Self {
        let (end, check) = (session.ends().next_back(), session.check());
        let handoff = session.handoff();
        Self {
            session: session.number.get(),
            state: match (session.is_open(), at_work) {
                (true, true) => State::AtWork,
                (true, false) => State::CutOff,
                (false, _) => State::Ended,
            },
            began: phrase::utc(session.began()),
            began_at: session.began(),
            attempts: session.attempts.len(),
            duration: session.duration(),
            usage_tokens: end.map_or(0, |end| end.usage_tokens),
            percent: end.and_then(|end| end.percent),
            tool_calls: session.tool_calls(),
            cost_micro_usd: session.cost_micro_usd(),
            cost_estimated: session.is_cost_estimated(),
            left: session.end().map(|end| end.left),
            rescued: session.rescue().is_some(),
            cause: session.end().map(|end| end.cause.clone()),
            items_open: handoff.and_then(|handoff| handoff.items_open),
            items_done: handoff.and_then(|handoff| handoff.items_done),
            verification: check.map(|(check, _)| check.result.clone()),
            veto: check.is_some_and(|(_, veto)| veto),
        }
    }

    fn cells(&self, started: Timestamp, zone: &TimeZone) -> Vec<Cell> {
        let plain = |text: String| (Tone::Plain, text);
        let known = |text: String, is_known: bool| plain(if is_known { text } else { String::new() });
        let context = match (self.usage_tokens, self.percent) {
            (0, _) => String::new(),
            (tokens, Some(percent)) => format!("{percent}% {}", phrase::tokens(tokens)),
            (tokens, None) => phrase::tokens(tokens),
        };
        let items = self.items_done.zip(self.items_open).filter(|(done, open)| done + open > 0);
        vec![
            plain(self.session.to_string()),
            (Tone::Quiet, phrase::clock(self.began_at, started, zone)),
            known(phrase::duration(self.duration), self.state == State::Ended || self.attempts > 1),
            plain(context),
            plain(
                self.tool_calls
                    .filter(|_| self.state == State::Ended)
                    .map(|calls| calls.to_string())
                    .unwrap_or_default(),
            ),
            known(phrase::cost(self.cost_micro_usd, self.cost_estimated, false), self.cost_micro_usd > 0),
            plain(items.map(|(done, open)| format!("{done}/{}", done + open)).unwrap_or_default()),
            self.verified(),
            self.ended(),
        ]
    }

    fn verified(&self) -> Cell {
        match &self.verification {
            None | Some(CheckOutcome::Cancelled) => (Tone::Plain, String::new()),
            Some(CheckOutcome::Passed) => (Tone::Done, "passed".to_owned()),
            Some(CheckOutcome::Failed { .. }) => (Tone::Failed, "failed".to_owned()),
            Some(CheckOutcome::TimedOut) => (Tone::Failed, "too long".to_owned()),
            Some(CheckOutcome::NotRun { .. }) => (Tone::Failed, "not run".to_owned()),
        }
    }

    fn ended(&self) -> Cell {
        let cause = || self.cause.as_ref().map(|cause| one_line(&cause.to_string())).unwrap_or_default();
        let (tone, mut text) = match (self.state, self.left) {
            (State::AtWork, _) => (Tone::Plain, "at work".to_owned()),
            (State::CutOff, _) => (Tone::Attention, "cut off; `ekiden resume` goes on".to_owned()),
            (State::Ended, _) if self.rescued => (Tone::Attention, format!("rescued: {}", cause())),
            (State::Ended, Some(Left::Handoff)) => (Tone::Plain, "handed off".to_owned()),
            (State::Ended, Some(Left::Completion)) if self.veto => {
                (Tone::Attention, "says that all is done; vetoed".to_owned())
            }
            (State::Ended, Some(Left::Completion)) => (Tone::Plain, "says that all is done".to_owned()),
            (State::Ended, Some(Left::Question)) => (Tone::Attention, "asks for a person".to_owned()),
            (State::Ended, Some(Left::Nothing) | None) => (Tone::Attention, cause()),
        };
        if self.attempts > 1 {
            text.push_str(&format!(" ({} attempts)", self.attempts));
        }
        (tone, text)
    }
}
