//! `ekiden status --watch`: the newest run, looked at until it is over.
//!
//! Nothing is held and nothing is asked of the engine: each second the length of the log and the lock are
//! looked at, and the log is read again only if it has grown. What the session at work does just now comes
//! from the end of its event stream, of which each byte is read once.
//!
//! On a terminal the lines stay where they are and are written over, in one piece, only where they changed;
//! the cursor rests below them, so there is nothing to restore however it ends. Elsewhere there is a line
//! whenever something has changed.

use std::thread;
use std::time::Duration;

use ekiden_core::event::{Event, RelayEvent};
use ekiden_core::guard::Window;
use ekiden_core::ids::{AttemptNumber, RunId, SessionNumber, StageId};
use ekiden_core::time::Timestamp;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::history::{self, RunSummary};
use ekiden_engine::kept::{Kept, Part};
use ekiden_engine::workspace::Workspace;
use ekiden_wire::lines::LineSplitter;
use ekiden_wire::stream::{Block, ClientEvent};
use ekiden_wire::usage::ContextMeter;
use jiff::tz::TimeZone;

use super::status::{Answer, Row};
use super::{asked_run, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::line::Line;
use crate::output::moving::Doing;
use crate::output::story::Story;

/// How often it is looked.
const PAUSE: Duration = Duration::from_secs(1);
/// The piece in which an event stream is read.
const PIECE_BYTES: usize = 64 * 1024;

/// Watches the newest run to its end: then exits as that run did.
///
/// # Errors
///
/// If there is no run, or its log cannot be read.
pub(super) fn watch(workspace: &Workspace, json: bool, output: &mut Output) -> Result<Exit, Failure> {
    let run = asked_run(workspace, None, output)?;
    let ids = run_ids(workspace)?;
    let zone = TimeZone::system();
    let mut seen = Seen::of(workspace, &run)?;
    let mut told = String::new();
    loop {
        let row = Row::of(&seen.summary, history::holder(workspace).as_ref());
        let over = row.is_over();
        let mut lines = row.lines(&ids, &zone, over);
        if json {
            let answer = output.as_json(&Answer::of(row));
            tell_once(&mut told, answer, output);
        } else if output.has_screen() {
            lines.extend(seen.doing(SystemClock.now(), &zone).filter(|_| !over));
            output.draw_block(&lines);
        } else {
            tell_once(&mut told, lines.iter().map(|line| line.plain() + "\n").collect(), output);
        }
        if over {
            return Ok(seen.exit());
        }
        thread::sleep(PAUSE);
        seen.look_again(workspace)?;
    }
}

/// Tells a text unless it was the last one told.
fn tell_once(told: &mut String, text: String, output: &mut Output) {
    if *told != text {
        output.answer(&text);
        *told = text;
    }
}

/// A run as it was last seen.
struct Seen {
    run: RunId,
    log_bytes: u64,
    summary: RunSummary,
    doing: Doing,
    window: Option<Window>,
    tail: Option<Tail>,
}

impl Seen {
    fn of(workspace: &Workspace, run: &RunId) -> Result<Self, Failure> {
        let log_bytes = history::log_bytes(workspace, run)?;
        let (mut doing, mut window, mut story) = (Doing::Nothing, None, Story::default());
        let summary = history::read(workspace, run, |record, run| {
            if let Event::Stage { event: RelayEvent::WindowChanged { window: now, .. }, .. } = &record.event {
                window = Some(*now);
            }
            story.catch_up(record, run);
            if let Some((_, relay)) = run.live().chain(run.relays()).next() {
                doing =
                    std::mem::replace(&mut doing, Doing::Nothing).after(relay, record.time, story.ended());
            }
        })?;
        Ok(Self { run: run.clone(), log_bytes, summary, doing, window, tail: None })
    }

    /// Takes in what is new.
    fn look_again(&mut self, workspace: &Workspace) -> Result<(), Failure> {
        if history::log_bytes(workspace, &self.run)? != self.log_bytes {
            let tail = self.tail.take();
            *self = Self { tail, ..Self::of(workspace, &self.run)? };
        }
        let run = &self.summary.run;
        // The first of those at work is the one that the line tells of.
        let first = run.live().next();
        let at_work = first.and_then(|(stage, relay)| Some((stage, relay.attempt()?.0.session)));
        let Some((stage, session)) = at_work else {
            self.tail = None;
            return Ok(());
        };
        let stage = run.header().manifest.plan.is_some().then(|| stage.clone());
        let tail = self.tail.take().filter(|tail| (tail.session, &tail.stage) == (session, &stage));
        let mut tail = tail.unwrap_or_else(|| Tail::new(stage.clone(), session));
        tail.read_on(&Kept::of(workspace, &self.run, stage.as_ref(), session));
        if let Doing::Working(work) = &mut self.doing {
            work.usage =
                self.window.filter(|_| tail.usage_tokens > 0).map(|window| (tail.usage_tokens, window));
            work.activity.clone_from(&tail.activity);
        }
        self.tail = Some(tail);
        Ok(())
    }

    fn doing(&self, now: Timestamp, zone: &TimeZone) -> Option<Line> {
        self.doing.line(now, self.summary.run.header().settings.levels, zone)
    }

    /// As the run exited, or, where its engine is gone without an end, as one that can be resumed.
    fn exit(&self) -> Exit {
        self.summary.run.outcome().map_or(Exit::StoppedEarly, Exit::of)
    }
}

/// The end of a session's event stream.
struct Tail {
    /// The stage, where the run is a plan.
    stage: Option<StageId>,
    session: SessionNumber,
    read_bytes: u64,
    splitter: LineSplitter,
    context: ContextMeter,
    usage_tokens: u64,
    activity: Option<String>,
}

impl Tail {
    fn new(stage: Option<StageId>, session: SessionNumber) -> Self {
        Self {
            stage,
            session,
            read_bytes: 0,
            splitter: LineSplitter::new(),
            context: ContextMeter::default(),
            usage_tokens: 0,
            activity: None,
        }
    }

    /// Reads what was added. It is only shown, so a stream that cannot be read is one that says nothing.
    fn read_on(&mut self, kept: &Kept) {
        let Ok(Some(mut stream)) = kept.reader(Part::Events, AttemptNumber::FIRST, self.read_bytes) else {
            return;
        };
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            self.read_bytes += count as u64;
            let (context, usage, activity) = (&mut self.context, &mut self.usage_tokens, &mut self.activity);
            self.splitter.push(&piece[..count], |line| {
                let event = ClientEvent::of(line);
                if let Some(tokens) = context.observe(&event) {
                    *usage = tokens;
                }
                if let Some(now) = activity_of(&event) {
                    *activity = Some(now);
                }
            });
        }
    }
}

fn activity_of(event: &ClientEvent) -> Option<String> {
    let ClientEvent::Assistant(response) = event else { return None };
    response.blocks.last().map(|block| match block {
        Block::Call(call) => format!("{} {}", call.name, call.target),
        Block::Text(words) => words.clone(),
    })
}
