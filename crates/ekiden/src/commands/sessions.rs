//! `ekiden sessions`: the sessions of a run, one row each.

use clap::Args;
use ekiden_core::time::Timestamp;
use ekiden_engine::history;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{ReadRun, RunArgs, imported};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::review::check_word;
use crate::output::session::Left;
use crate::output::sessions::Session;
use crate::output::table::{self, Cell, Column, Side};
use crate::output::{Output, phrase, problems};

/// Where the terminal is narrow, the columns of the highest rank go first.
const COLUMNS: [Column; 9] = [
    Column::new("#", Side::Right, 0),
    Column::new("began", Side::Left, 3),
    Column::new("took", Side::Right, 0),
    Column::new("context", Side::Left, 2),
    Column::new("calls", Side::Right, 6),
    Column::new("cost", Side::Right, 4),
    Column::new("items", Side::Right, 5),
    Column::new("verify", Side::Left, 1),
    Column::new("ended", Side::Left, 0),
];

/// List the sessions of a run: when, how long, how full, what it cost, how it ended
///
/// On a narrow terminal the least important columns are left out; `--json` has all of them.
#[derive(Args)]
pub struct SessionsArgs {
    #[command(flatten)]
    of: RunArgs,
}

pub fn sessions(args: &SessionsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let read = ReadRun::of(&args.of, output)?;
    let holder = history::holder(&read.workspace).and_then(|holder| holder.run);
    let at_work = holder.as_ref() == Some(&read.run.header().run);
    let row = |session| Row {
        session,
        state: State::of(session, at_work),
    };
    let rows: Vec<Row<'_>> = read.sessions.all().map(row).collect();
    let (timeline, of) = (
        read.sessions.reporter.timeline.as_ref(),
        read.stage.as_ref(),
    );
    let (earlier, from) = imported::of(&read);
    if read.json {
        let earlier = earlier.iter().map(|number| imported::json(*number, from));
        let sessions: Vec<Fields> = earlier.chain(rows.iter().map(Row::json)).collect();
        let answer = read.json().with("sessions", sessions);
        return output
            .answer_json(&answer.and(timeline.and_then(|timeline| problems::json(timeline, of))));
    }
    let last = rows.last().map(|row| row.session.kept.number);
    let Some(last) = last.or(earlier.last().map(|number| number.get())) else {
        let text = format!("run {}: no session has begun yet", read.id);
        output.line(text);
        return Ok(Exit::Done);
    };
    let (zone, started) = (&read.sessions.reporter.zone, read.run.started_at());
    let earlier = earlier.iter();
    let earlier = earlier.map(|number| imported::cells(*number, from, COLUMNS.len()));
    let own = rows.iter().map(|row| row.cells(started, zone));
    let cells: Vec<Vec<Cell>> = earlier.chain(own).collect();
    let next = format!("ekiden show {last}{}", read.named);
    table::lines(&COLUMNS, &cells, output.columns())
        .into_iter()
        .chain(timeline.and_then(|timeline| problems::line(timeline, of)))
        .chain([Line::next(next)])
        .for_each(|line| output.line(&line));
    Ok(Exit::Done)
}

struct Row<'a> {
    session: Session<'a>,
    state: State,
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

impl State {
    fn of(session: Session<'_>, at_work: bool) -> Self {
        match (session.left(), at_work) {
            (Some(_), _) => Self::Ended,
            (None, true) => Self::AtWork,
            (None, false) => Self::CutOff,
        }
    }
}

impl Row<'_> {
    fn json(&self) -> Fields {
        let (session, Session { told, kept }) = (self.session, self.session);
        let (end, spend) = (session.left(), told.spend());
        let usage_tokens = told.usage().map_or(0, |(tokens, _)| tokens);
        fields! {
            "session": told.number,
            "state": self.state,
            "review": told.is_review,
            "agent": told.agent,
            "began": phrase::utc(told.began),
            "attempts": told.attempts.len(),
            "duration_ms": told.duration(),
            "usage_tokens": usage_tokens,
            "percent": kept.percent,
            "tool_calls": told.is_heard().then_some(told.tool_calls()),
            "cost_micro_usd": spend.micro_usd,
            "cost_estimated": spend.estimated,
            "left": end.map(|(left, _)| left),
            "rescued": told.is_rescued,
            "cause": end.map(|(_, cause)| cause),
            "items_open": told.items.map(|(_, open)| open),
            "items_done": told.items.map(|(done, _)| done),
            "verification": told.check.as_ref().map(|check| &check.outcome),
            "veto": session.is_vetoed(),
        }
    }

    fn cells(&self, started: Timestamp, zone: &TimeZone) -> Vec<Cell> {
        let Session { told, kept } = self.session;
        let (spend, usage) = (told.spend(), told.usage());
        let is_over = self.state == State::Ended;
        let has_ended = is_over || told.attempts.len() > 1;
        let items = told.items.filter(|(done, open)| done + open > 0);
        let cell = |wanted: bool, text: &dyn Fn() -> String| {
            (Tone::Plain, if wanted { text() } else { String::new() })
        };
        let check = told.check.as_ref();
        let (tone, verified) = check.map_or((Tone::Plain, ""), |check| check_word(&check.outcome));
        vec![
            cell(true, &|| told.number.to_string()),
            (Tone::Quiet, phrase::clock(told.began, started, zone)),
            cell(has_ended, &|| phrase::duration(told.duration())),
            cell(usage.is_some(), &|| {
                let (tokens, _) = usage.unwrap_or_default();
                phrase::usage(tokens, kept.percent)
            }),
            cell(is_over && told.is_heard(), &|| {
                told.tool_calls().to_string()
            }),
            cell(spend.micro_usd > 0, &|| {
                phrase::cost(spend.micro_usd, spend.estimated, told.has_subscription())
            }),
            cell(items.is_some(), &|| {
                let (done, open) = items.unwrap_or_default();
                format!("{done}/{}", done + open)
            }),
            (tone, verified.to_owned()),
            self.ended(),
        ]
    }

    fn ended(&self) -> Cell {
        let (tone, mut text) = match (self.state, self.session.left()) {
            (State::AtWork, _) => (Tone::Plain, "at work".to_owned()),
            (State::CutOff, _) | (State::Ended, None) => {
                let text = "cut off; `ekiden resume` continues it";
                (Tone::Attention, text.to_owned())
            }
            (State::Ended, Some((left, cause))) => match left {
                Left::Handoff | Left::Nothing if self.session.told.is_rescued => {
                    (Tone::Attention, format!("rescued: {cause}"))
                }
                Left::Handoff => (Tone::Plain, "handed off".to_owned()),
                Left::Completion if self.session.is_vetoed() => {
                    (Tone::Attention, "says all is done; vetoed".to_owned())
                }
                Left::Completion => (Tone::Plain, "says all is done".to_owned()),
                Left::Question => (Tone::Attention, "needs your input".to_owned()),
                Left::Passed => (Tone::Plain, "review passed".to_owned()),
                Left::Findings => (Tone::Attention, "review found faults".to_owned()),
                Left::Nothing if self.session.told.is_review => (
                    Tone::Attention,
                    format!("review without a verdict: {cause}"),
                ),
                Left::Nothing => (Tone::Attention, cause.to_string()),
            },
        };
        if let Some(agent) = &self.session.told.agent {
            text.push_str(&format!(" · {agent}"));
        }
        if let attempts @ 2.. = self.session.told.attempts.len() {
            text.push_str(&format!(" ({attempts} attempts)"));
        }
        (tone, one_line(&text))
    }
}
