//! `ekiden status --watch`: the newest run, looked at until it is over. And what is seen of the session at work.
//!
//! Nothing is held and nothing is asked of the engine: each second the length of the log and the lock are
//! looked at, and the log is read again only if it has grown. What the session at work does just now comes
//! from the end of its event stream, of which each byte is read once.
//!
//! On a terminal the lines stay where they are and are written over, in one piece, only where they changed.
//! Elsewhere there is a line whenever something has changed.

use std::thread;
use std::time::Duration;

use ekiden_core::ids::{AttemptId, StageId};
use ekiden_core::run::Run;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::history;
use ekiden_engine::session_archive::{Part, SessionArchive};
use ekiden_engine::workspace::Workspace;
use ekiden_wire::lines::LineSplitter;
use ekiden_wire::stream::{Block, ClientEvent};
use ekiden_wire::usage::ContextMeter;
use jiff::tz::TimeZone;

use super::status::RunStatus;
use super::{asked_run, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::activity::PIECE_BYTES;
use crate::output::line::Line;
use crate::output::moving::Moving;

/// How often it is looked.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Watches the newest run to its end: then exits as that run did.
pub(super) fn watch(
    workspace: &Workspace,
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let run = asked_run(workspace, None, output)?;
    let (ids, zone) = (run_ids(workspace)?, TimeZone::system());
    let mut tail = None;
    let (mut printed, mut shown) = (None, Vec::new());
    let mut log_bytes = history::log_bytes(workspace, &run)?;
    let mut status = RunStatus::read(workspace, &run, history::holder(workspace))?;
    loop {
        let over = status.is_over();
        if !over {
            let run = &status.summary.run;
            look_at_work(workspace, run, &mut status.moving, &mut tail);
        }
        let lines = status.lines(&ids, &zone, over);
        let text: Vec<String> = lines.iter().map(Line::plain).collect();
        if json {
            let answer = status.answer();
            if printed.as_ref() != Some(&answer) {
                output.json(&answer);
                printed = Some(answer);
            }
        } else if output.has_screen() && !over {
            let moving = status.moving.line(SystemClock.now(), &zone);
            output.draw(&lines.into_iter().chain(moving).collect::<Vec<_>>());
        } else if shown != text {
            lines.iter().for_each(|line| output.line(line));
            shown = text;
        }
        if over {
            // Where ekiden was killed, the run exits as one that can be resumed.
            let outcome = status.summary.run.outcome();
            return Ok(outcome.map_or(Exit::StoppedEarly, Exit::of));
        }
        thread::sleep(PAUSE);
        let bytes = history::log_bytes(workspace, &run)?;
        if bytes == log_bytes {
            status.look_who_holds(history::holder(workspace));
        } else {
            log_bytes = bytes;
            status = RunStatus::read(workspace, &run, history::holder(workspace))?;
        }
    }
}

/// Takes in what the first session at work is doing. `tail` is what was read of it before.
pub(super) fn look_at_work(
    workspace: &Workspace,
    run: &Run,
    moving: &mut Moving,
    tail: &mut Option<Tail>,
) {
    let at_work = run.live().next();
    let at_work = at_work.and_then(|(stage, relay)| Some((stage, relay.attempt()?.0)));
    let Some((stage, attempt)) = at_work else {
        *tail = None;
        return;
    };
    let stage = run.header().manifest.plan.is_some().then(|| stage.clone());
    let is_same = |tail: &Tail| (tail.attempt.session, &tail.stage) == (attempt.session, &stage);
    let mut now = tail.take().filter(is_same).unwrap_or_else(|| Tail {
        stage: stage.clone(),
        attempt,
        read_bytes: 0,
        splitter: LineSplitter::new(),
        context: ContextMeter::default(),
        usage_tokens: 0,
        activity: None,
    });
    let run = &run.header().run;
    let archive = SessionArchive::of(workspace, run, stage.as_ref(), attempt.session);
    now.read_on(&archive);
    moving.see(now.usage_tokens, now.activity.clone());
    *tail = Some(now);
}

/// The end of a session's event stream.
pub(super) struct Tail {
    /// The stage, where the run is a plan.
    stage: Option<StageId>,
    attempt: AttemptId,
    read_bytes: u64,
    splitter: LineSplitter,
    context: ContextMeter,
    usage_tokens: u64,
    activity: Option<String>,
}

impl Tail {
    /// Reads what was added. It is only shown, so a stream that cannot be read is one that says nothing.
    fn read_on(&mut self, archive: &SessionArchive) {
        let stream = archive.reader(Part::Events, self.attempt.attempt, self.read_bytes);
        let Ok(Some(mut stream)) = stream else {
            return;
        };
        let Self {
            splitter,
            context,
            usage_tokens,
            activity,
            ..
        } = self;
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            self.read_bytes += count as u64;
            splitter.push(&piece[..count], |line| {
                let event = ClientEvent::of(line);
                *usage_tokens = context.observe(&event).unwrap_or(*usage_tokens);
                if let ClientEvent::Assistant(response) = &event
                    && let Some(block) = response.blocks.last()
                {
                    *activity = Some(match block {
                        Block::Call(call) => format!("{} {}", call.name, call.target),
                        Block::Text(words) => words.clone(),
                    });
                }
            });
        }
    }
}
