//! Follows a run that works elsewhere by reading its files: for `attach`, `log -f` and `status --watch`.
//!
//! It keeps nothing open and asks the engine nothing. Each look checks the length of the log and the lock.
//! It reads each record once, and each byte of the event streams of the sessions at work once.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use ekiden_agent::SignalFlag;
use ekiden_core::budget::Spend;
use ekiden_core::ids::{AttemptId, RunId, StageId};
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::history::{self, Follower};
use ekiden_engine::remote_run;
use ekiden_engine::session_archive::{Part, SessionArchive};
use ekiden_engine::workspace::Workspace;
use ekiden_wire::lines::{Line, LineSplitter};
use ekiden_wire::saved::Saved;
use ekiden_wire::spending::SpendEstimate;
use ekiden_wire::stream::{Block, ClientEvent};
use ekiden_wire::trace::Trace;
use ekiden_wire::usage::ContextMeter;

use super::run_status::RunStatus;
use crate::failure::Failure;
use crate::output::activity::PIECE_BYTES;
use crate::output::board::Board;
use crate::output::live::Live;
use crate::output::relay_progress::{Activity, Seen};
use crate::output::summary::Summary;
use crate::output::work_dirs::WorkDirs;

/// How often to look at a run that is shown.
const PAUSE: Duration = Duration::from_millis(250);

/// A run, and how it stood at the last look.
pub(super) struct Follow {
    workspace: Workspace,
    log: Follower,
    log_bytes: u64,
    pub(super) status: RunStatus,
    tails: Tails,
}

impl Follow {
    /// Reads what there is; `see` sees each record with the run after it.
    pub(super) fn begin(
        workspace: &Workspace,
        run: &RunId,
        mut see: impl FnMut(&Record, &Run),
    ) -> Result<Self, Failure> {
        // Checked before the log, so that the last records of a run that ends are not missed.
        let holder = history::holder(workspace);
        let log_bytes = history::log_bytes(workspace, run)?;
        let mut board = Board::default();
        let (summary, log) = history::follow(workspace, run, |record, run| {
            board.follow(record, run);
            see(record, run);
        })?;
        board.summary = Some(Summary::of(&summary.run));
        let mut followed = Self {
            workspace: workspace.clone(),
            log,
            log_bytes,
            status: RunStatus::new(summary, board, holder),
            tails: Tails::default(),
        };
        followed.look_at_work();
        Ok(followed)
    }

    /// Looks again; `see` sees the records that are new.
    pub(super) fn look(&mut self, mut see: impl FnMut(&Record, &Run)) -> Result<(), Failure> {
        let status = &mut self.status;
        status.look_who_holds(history::holder(&self.workspace));
        let bytes = history::log_bytes(&self.workspace, status.summary.id())?;
        if bytes != self.log_bytes {
            self.log_bytes = bytes;
            let board = &mut status.board;
            self.log.read_on(&mut status.summary, |record, run| {
                board.follow(record, run);
                see(record, run);
            })?;
            board.summary = Some(Summary::of(&status.summary.run));
        }
        self.look_at_work();
        Ok(())
    }

    /// Shows what happens, until nobody works on the run any more or the person has left.
    pub(super) fn show_on(
        &mut self,
        live: &mut Live<'_>,
        left: &SignalFlag,
    ) -> Result<(), Failure> {
        let is_left = |live: &Live<'_>| left.is_raised() || live.shown().output.is_unread();
        while self.status.is_held() && !is_left(live) {
            live.look(SystemClock.now(), &self.status.board);
            thread::sleep(PAUSE);
            self.look(|record, run| live.print_record(record, run))?;
        }
        Ok(())
    }

    fn look_at_work(&mut self) {
        if self.status.is_held() {
            let RunStatus { summary, board, .. } = &mut self.status;
            self.tails.look(&self.workspace, &summary.run, board);
        }
    }
}

/// The ends of the event streams of the sessions at work.
#[derive(Default)]
pub(super) struct Tails(BTreeMap<StageId, Tail>);

impl Tails {
    /// Takes in what the sessions at work are doing.
    pub(super) fn look(&mut self, workspace: &Workspace, run: &Run, board: &mut Board) {
        if run.header().fleet.is_some() {
            return see_elsewhere(workspace, run, board);
        }
        let is_plan = run.header().is_plan();
        let mut before = std::mem::take(&mut self.0);
        let at_work = run.live();
        for (stage, relay, attempt) in
            at_work.filter_map(|(stage, relay)| Some((stage, relay, relay.attempt()?.0)))
        {
            let is_same = |tail: &Tail| tail.attempt.session == attempt.session;
            let tail = before.remove(stage).filter(is_same);
            let kind = relay.agent().kind;
            let new = || {
                Tail::new(
                    attempt,
                    SpendEstimate::new(run.prices(), kind.price_unknown()),
                )
            };
            let mut tail = tail.unwrap_or_else(new);
            let of_stage = is_plan.then_some(stage);
            let header = run.header();
            let archive = SessionArchive::of(workspace, &header.run, of_stage, attempt.session);
            let work_dirs = WorkDirs::of(header);
            let is_plain = !kind.takes_messages();
            tail.read_on(&archive, is_plain, |target| {
                work_dirs.shorten(of_stage, target)
            });
            if let Some(moving) = board.relay(stage) {
                moving.see(&tail.seen(), SystemClock.now());
            }
            self.0.insert(stage.clone(), tail);
        }
    }
}

/// The same of sessions on other machines, whose streams come with their handoffs.
fn see_elsewhere(workspace: &Workspace, run: &Run, board: &mut Board) {
    for (stage, at_work) in remote_run::at_work(workspace, &run.header().run) {
        let attempt = run.relay(&stage).and_then(Relay::attempt);
        let progress = board.relay(&stage);
        let Some(progress) =
            progress.filter(|_| attempt.is_some_and(|(id, _)| id == at_work.attempt))
        else {
            continue;
        };
        let text = match at_work.doing.as_str() {
            "" => format!("on {}", at_work.host),
            doing => format!("on {}: {doing}", at_work.host),
        };
        let seen = Seen {
            usage_tokens: at_work.usage_tokens,
            spend: at_work.spend,
            // A worker does not say. The end of its attempt does.
            subscription: false,
            subagents: at_work.subagents,
            activity: Some(&Activity { text, since: None }),
        };
        progress.see(&seen, SystemClock.now());
    }
}

/// The end of a session's event stream.
struct Tail {
    attempt: AttemptId,
    read_bytes: u64,
    splitter: LineSplitter,
    saved: Saved,
    context: ContextMeter,
    spending: SpendEstimate,
    spend: Spend,
    trace: Trace,
    activity: Option<Activity>,
}

impl Tail {
    fn new(attempt: AttemptId, spending: SpendEstimate) -> Self {
        Self {
            attempt,
            read_bytes: 0,
            splitter: LineSplitter::new(),
            saved: Saved::default(),
            context: ContextMeter::default(),
            spending,
            spend: Spend::default(),
            trace: Trace::default(),
            activity: None,
        }
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            usage_tokens: self.context.context_tokens,
            spend: self.spend,
            subscription: self.spending.subscription,
            subagents: self.trace.subagents(),
            activity: self.activity.as_ref(),
        }
    }

    /// Reads what was added. It is only shown, so a stream that cannot be read is one that says nothing. `is_plain`: it is a
    /// program's own output.
    fn read_on(
        &mut self,
        archive: &SessionArchive,
        is_plain: bool,
        shorten: impl Fn(&str) -> String,
    ) {
        let stream = archive.reader(Part::Events, self.attempt.attempt, self.read_bytes);
        let Ok(Some(mut stream)) = stream else {
            return;
        };
        // Nobody knows when the existing part was written.
        let before = self.read_bytes;
        let since = (before > 0).then(|| SystemClock.now());
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            self.read_bytes += count as u64;
            let (context, trace, activity) =
                (&mut self.context, &mut self.trace, &mut self.activity);
            let (saved, spending) = (&mut self.saved, &mut self.spending);
            self.splitter.push(&piece[..count], |line| {
                if let Line::Whole(line) = line
                    && is_plain
                    && !line.trim_ascii().is_empty()
                {
                    let text = String::from_utf8_lossy(line).into_owned();
                    *activity = Some(Activity { text, since });
                }
                saved.read(line, |event| {
                    context.observe(event);
                    spending.observe(event);
                    trace.observe(event);
                    if let Some(text) = doing(event, &shorten) {
                        *activity = Some(Activity { text, since });
                    }
                });
            });
        }
        if self.read_bytes > before {
            self.spend = self.spending.spend();
        }
    }
}

/// What an agent says or does in an event.
fn doing(event: &ClientEvent, shorten: impl Fn(&str) -> String) -> Option<String> {
    let ClientEvent::Assistant(response) = event else {
        return None;
    };
    response.blocks.last().map(|block| match block {
        Block::Call(call) => format!("{} {}", call.name, shorten(&call.target)),
        Block::Text(words) => words.clone(),
    })
}
