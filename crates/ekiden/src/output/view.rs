//! The live view: a few lines below the permanent ones, about everything that is going on.
//!
//! It is made only from a [`Board`] and the size of the terminal. Where there is no room for it, it is the
//! one line that moves.

use ekiden_core::budget::Budget;
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;

use super::board::Board;
use super::line::{COLUMNS_MIN, Line, Tone, one_line};
use super::phrase;
use super::prompting::Prompting;
use super::relay_progress::RelayProgress;
use super::stage_table::{Brief, StageGroup};
use super::summary::{Plan, Summary};

/// On a lower terminal it would push out the permanent lines. The rows that moving lines leave free do not count.
const ROWS_MIN: usize = 16;
/// How many stages of a plan are shown at most.
const STAGES_MAX: usize = 32;

#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub now: Timestamp,
    pub zone: &'a TimeZone,
    pub columns: usize,
    pub rows: usize,
}

/// The lines, none of which may wrap. `prompting` has the keys that can be pressed, if any.
pub fn lines(board: &Board, prompting: Option<&Prompting>, frame: Frame<'_>) -> Vec<Line> {
    let has_room = frame.columns >= COLUMNS_MIN && frame.rows >= ROWS_MIN;
    let Some(summary) = board.summary.as_ref().filter(|_| has_room) else {
        let line = line(board, frame);
        let below = prompting.map(|prompting| prompting.instead_of_keys(frame.columns));
        return line
            .into_iter()
            .chain(below.into_iter().flatten())
            .collect();
    };
    let mut lines = match &summary.plan {
        Some(plan) => of_plan(board, summary, plan, frame),
        None => of_relay(board, summary, frame),
    };
    if lines.is_empty() {
        return lines;
    }
    let is_held = board.first().is_some_and(RelayProgress::is_paused);
    let note = notes(summary, is_held);
    lines.extend((!note.is_empty()).then(|| Line::labelled("", Tone::Attention, note.join(", "))));
    let keys = prompting.map(|prompting| prompting.lines(summary, frame.columns));
    lines.extend(keys.unwrap_or_default());
    lines
}

/// A single line about everything that is going on.
pub fn line(board: &Board, frame: Frame<'_>) -> Option<Line> {
    let plan = board.summary.as_ref().and_then(|of| of.plan.as_ref());
    match plan {
        Some(plan) => Some(plan.head()),
        None => board.line(frame.now, frame.zone),
    }
}

fn of_relay(board: &Board, summary: &Summary, frame: Frame<'_>) -> Vec<Line> {
    let Some(progress) = board.first() else {
        return Vec::new();
    };
    let Some(head) = progress.head(frame.now, frame.zone) else {
        return Vec::new();
    };
    let doing = doing(progress, frame.now);
    let doing = doing.map(|doing| Line::labelled("now", Tone::Plain, doing));
    let learned = summary.learned.as_ref();
    let open = summary.open.as_ref().map(|open| {
        let (items, of) = (
            phrase::count(open.count as u64, "item"),
            open.done + open.count,
        );
        format!("{items} of {of}, next: {}", open.first)
    });
    [
        Some(head),
        doing,
        Some(Line::labelled(
            "cost",
            Tone::Plain,
            cost(board, summary, frame.now),
        )),
        learned.map(|fact| Line::labelled("learned", Tone::Quiet, fact)),
        open.map(|open| Line::labelled("open", Tone::Quiet, open)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_plan(board: &Board, summary: &Summary, plan: &Plan, frame: Frame<'_>) -> Vec<Line> {
    let slots = phrase::count(plan.slots as u64, "slot");
    let cost = cost(board, summary, frame.now);
    let cost = Line::labelled("cost", Tone::Plain, cost)
        .with(Tone::Quiet, format!(" · {} of {slots}", plan.slots_taken));
    let asked = summary.asked.first();
    let asked = asked.map(|(stage, asked)| Line::attention(format!("{stage} asks: {asked}")));
    std::iter::once(plan.head())
        .chain(front(board, plan, frame))
        .chain(asked)
        .chain([cost])
        .collect()
}

/// The stages at work and the next ones, as many as fit.
fn front(board: &Board, plan: &Plan, frame: Frame<'_>) -> Vec<Line> {
    let stages = plan.stages.iter();
    let mut shown: Vec<&Brief> = stages
        .filter(|stage| stage.place != StageGroup::Over)
        .collect();
    let works = |stage: &Brief| board.of(&stage.id).is_some_and(RelayProgress::is_working);
    shown.sort_by_key(|stage| (stage.place, !works(stage)));
    let room = (frame.rows / 2).saturating_sub(3).min(STAGES_MAX);
    let left_out = shown.split_off(room.min(shown.len()));
    let ids = shown.iter().map(|stage| stage.id.as_str().len()).max();
    let ids = ids.unwrap_or(0);
    let mut lines: Vec<Line> = shown
        .into_iter()
        .map(|stage| row(board, stage, ids, frame))
        .collect();
    if !left_out.is_empty() {
        let rest = phrase::count(left_out.len() as u64, "more stage");
        lines.push(Line::new(Tone::Quiet, format!("  and {rest}")));
    }
    lines
}

fn row(board: &Board, stage: &Brief, ids: usize, frame: Frame<'_>) -> Line {
    let line = Line::new(Tone::Quiet, format!("  {:<ids$}  ", stage.id.as_str()));
    let progress = board
        .of(&stage.id)
        .filter(|_| stage.place == StageGroup::AtWork);
    if let Some(doing) = progress.and_then(|progress| progress.line(frame.now, frame.zone)) {
        return line.joined(doing.trimmed());
    }
    let (tone, word) = stage.state;
    let why = stage
        .why
        .as_ref()
        .map(|why| format!("  {why}"))
        .unwrap_or_default();
    line.with(tone, format!("{word:<9}"))
        .with(Tone::Plain, format!("  {}", stage.name))
        .with(Tone::Quiet, why)
}

/// What runs now, and for how long.
fn doing(progress: &RelayProgress, now: Timestamp) -> Option<String> {
    let subagents = match progress.subagents {
        0 => None,
        count => Some(phrase::count(count as u64, "subagent")),
    };
    let activity = progress.activity.as_ref().map(|activity| {
        let since = activity
            .since
            .map(|since| phrase::whole_seconds(now.since(since)));
        let since = since.map(|since| format!("{since}  ")).unwrap_or_default();
        format!("{since}{}", one_line(&activity.text))
    });
    let parts: Vec<String> = subagents.into_iter().chain(activity).collect();
    (progress.is_working() && !parts.is_empty()).then(|| parts.join(" · "))
}

fn cost(board: &Board, summary: &Summary, now: Timestamp) -> String {
    let spend = board.spend(summary.settled, summary.spend);
    let subscription = summary.subscription || board.has_subscription();
    let spent = match (spend.micro_usd, spend.tokens) {
        (0, 0) if board.is_uncounted() => "not counted".to_owned(),
        _ if summary.budget != Budget::default() => {
            phrase::spent_of(spend, subscription, summary.budget)
        }
        (0, 0) => "nothing yet".to_owned(),
        (0, _) => phrase::spent_tokens(spend) + " tokens",
        (cost, _) => phrase::cost(cost, spend.estimated, subscription),
    };
    let took = phrase::duration(now.since(summary.started));
    format!("{spent} · {took}")
}

/// What a person has asked for that has not happened yet.
fn notes(summary: &Summary, is_held: bool) -> Vec<String> {
    let pause = (summary.is_paused && !is_held).then(|| "paused: nothing new begins".to_owned());
    let told = (summary.told > 0 && summary.plan.is_none())
        .then(|| "the next session has a message from you".to_owned());
    pause.into_iter().chain(told).collect()
}
