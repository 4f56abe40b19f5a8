//! A run as it happens: the lines of its records, and the line that moves.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use ekiden_agent::attempt::Activity;
use ekiden_agent::background::Begun;
use ekiden_core::agent::Interface;
use ekiden_core::budget::Spend;
use ekiden_core::effect::Effect;
use ekiden_core::guard::Window;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::text::in_full;
use ekiden_core::time::Timestamp;
use ekiden_engine::EngineError;
use ekiden_engine::notify::FleetNotices;
use ekiden_engine::observer::Observer;
use ekiden_engine::workspace::Workspace;
use ekiden_otel::Telemetry;
use jiff::tz::TimeZone;

use super::Output;
use super::activity;
use super::board::Board;
use super::entry::Entry;
use super::json::fields;
use super::keys;
use super::line::Line;
use super::relay_progress::{self, RelayProgress};
use super::reporter::Reporter;
use super::shown_work_dir::ShownWorkDir;
use super::summary::Summary;
use super::view_thread::{self, Controls, Shown};
use super::work_dirs::WorkDirs;
use crate::memory::observer::Recorder;
use crate::report;
use crate::tracker::Feed;

/// The most columns that a stage's id takes before each line.
const STAGE_COLUMNS_MAX: usize = 12;

/// Watches a run and prints what happens.
pub struct Live<'a> {
    shown: Arc<Mutex<Shown<'a>>>,
    reporter: Reporter,
    json: bool,
    /// Also shows what the agent says and does. Lines for programs do not have that, since the log does
    /// not.
    verbose: bool,
    run: Option<RunId>,
    /// In a plan, the columns for a stage's id before each line.
    stage_columns: Option<usize>,
    work_dirs: WorkDirs,
    /// The live view is shown beside this, and does the drawing.
    has_view: bool,
    now: Timestamp,
    /// Why a person's input cannot be carried out.
    typed: Option<Receiver<String>>,
    pub reports: Reports,
    pub telemetry: Option<Telemetry>,
    /// Of a run that a fleet carries out.
    pub notices: Option<FleetNotices>,
    /// Writes to the issue that the run works on.
    pub tracker: Option<Feed>,
    pub memory: Option<Recorder>,
    /// Somebody waits until the run has begun; after that nobody reads what it prints.
    pub begun: Option<Begun>,
}

/// What happens to the report of a run that ends.
#[derive(Debug)]
pub enum Reports {
    Unknown,
    /// We work on the run, so we write it.
    WriteIn(Workspace),
    /// The process that works on the run writes it.
    FindIn(Workspace),
}

impl<'a> Live<'a> {
    /// A view of a run that starts or continues. `ids` are the runs that its short id must differ from.
    pub fn new(output: &'a mut Output, json: bool, verbose: bool, ids: Vec<RunId>) -> Self {
        let shown = Shown {
            output,
            board: Board::default(),
            frame: Vec::new(),
            is_full: false,
        };
        Self {
            shown: Arc::new(Mutex::new(shown)),
            reporter: Reporter::new(ids, TimeZone::system()),
            json,
            verbose: verbose && !json,
            run: None,
            stage_columns: None,
            work_dirs: WorkDirs::default(),
            has_view: false,
            now: Timestamp::default(),
            typed: None,
            reports: Reports::Unknown,
            telemetry: None,
            notices: None,
            tracker: None,
            memory: None,
            begun: None,
        }
    }

    pub fn is_in(&mut self, there: ShownWorkDir) {
        self.reporter.there = there;
    }

    /// A person types to the run here; `typed` yields what cannot be carried out.
    pub fn guide(&mut self, typed: Receiver<String>) {
        self.reporter.guided = true;
        self.typed = Some(typed);
    }

    /// Takes in a record that an earlier process has already printed.
    pub fn catch_up(&mut self, record: &Record, run: &Run) {
        self.reporter.entries(record, run);
        self.tell_issue(record, run);
    }

    /// Queues what the issue should hear about a record.
    fn tell_issue(&mut self, record: &Record, run: &Run) {
        let Some(tracker) = &mut self.tracker else {
            return;
        };
        let timeline = self.reporter.settled(run);
        let failed = timeline.and_then(|timeline| tracker.recorded(record, run, timeline));
        failed.iter().for_each(|failed| self.warn(failed));
    }

    /// Prints a line that is not from the log.
    pub fn line(&mut self, line: &Line) {
        self.shown().output.line(line);
    }

    /// Tells people something that is not from the log.
    pub fn message(&mut self, text: &str) {
        self.shown().output.message(&format!("{text}\n"));
    }

    /// Draws a board for a person who watches from another process.
    pub fn look(&mut self, now: Timestamp, board: &Board) {
        self.now = now;
        self.shown().board.clone_from(board);
        self.draw();
    }

    pub fn shown(&self) -> MutexGuard<'_, Shown<'a>> {
        view_thread::lock(&self.shown)
    }

    /// Shows the live view while `drive` works, if there is a screen for it. `controls` is where a person
    /// presses keys.
    pub fn with_view<T>(
        &mut self,
        controls: impl FnOnce() -> Option<Controls>,
        drive: impl FnOnce(&mut Self) -> T,
    ) -> T {
        // A command that waits for a background run to begin has the terminal.
        let is_alone = self.typed.is_none() && self.begun.is_none();
        let has_place = !self.json && is_alone && self.shown().output.has_screen();
        let Some((stopped, stop)) = keys::stopping().ok().filter(|_| has_place) else {
            return drive(self);
        };
        let (controls, shown) = (controls(), Arc::clone(&self.shown));
        let done = thread::scope(|scope| {
            let show = move || view_thread::show(&shown, controls, &stopped);
            let view = thread::Builder::new().name(view_thread::VIEW_THREAD.to_owned());
            let view = view.spawn_scoped(scope, show);
            self.has_view = view.is_ok();
            let done = drive(self);
            drop(stop);
            // Its result changes nothing for the run.
            let _ = view.map(thread::ScopedJoinHandle::join);
            done
        });
        self.has_view = false;
        self.shown().output.erase();
        done
    }

    pub fn print_record(&mut self, record: &Record, run: &Run) {
        let fault = self.look_for_report(record, run).err();
        self.now = record.time;
        let has_view = self.has_view;
        let mut shown = self.shown();
        shown.board.follow(record, run);
        if has_view {
            shown.board.summary = Some(Summary::of(run));
        }
        drop(shown);
        if self.run.is_none() {
            let header = run.header();
            self.run = Some(header.run.clone());
            self.work_dirs = WorkDirs::of(header);
            let ids = header.manifest.stages.iter();
            let longest = ids.map(|stage| stage.id.as_str().len()).max();
            let columns = longest.unwrap_or(0).min(STAGE_COLUMNS_MAX);
            self.stage_columns = header.manifest.plan.as_ref().map(|_| columns);
        }
        for entry in self.reporter.entries(record, run) {
            self.print(record.time, &entry);
        }
        if let Some(fault) = fault {
            self.warn(&format!(
                "the report is not written: cannot {}",
                in_full(&fault)
            ));
        }
    }

    /// Waits a moment for what is not sent, and reports what is left of the telemetry.
    pub fn finish_sending(&mut self) {
        let unsent = self.telemetry.take().and_then(Telemetry::finish);
        unsent.iter().for_each(|unsent| self.warn(unsent));
        let failed = self.notices.take().map(FleetNotices::finish);
        failed.iter().flatten().for_each(|why| self.warn(why));
        let unsent = self.tracker.take().and_then(Feed::finish);
        unsent.iter().for_each(|unsent| self.warn(unsent));
    }

    fn print(&self, time: Timestamp, entry: &Entry) {
        let mut shown = self.shown();
        if let Some(run) = self.run.as_ref().filter(|_| self.json) {
            shown.output.json(&entry.json(time, run));
            return;
        }
        for line in &entry.lines {
            shown.output.line(self.of(entry.stage.as_ref(), line));
        }
    }

    /// A line of a stage; in a plan, under its id.
    fn of(&self, stage: Option<&StageId>, line: &Line) -> Line {
        match stage.zip(self.stage_columns) {
            Some((stage, columns)) => line.clone().under(stage.as_str(), columns),
            None => line.clone(),
        }
    }

    fn draw(&self) {
        let mut shown = self.shown();
        if self.json || shown.output.is_held() || !shown.output.has_screen() {
            return;
        }
        if self.has_view {
            return shown.draw();
        }
        let line = shown.board.line(self.now, &self.reporter.zone);
        // A moving line would overwrite what is being typed.
        match line.filter(|_| self.typed.is_none()) {
            Some(line) => shown.output.draw(&[line]),
            None => shown.output.erase(),
        }
    }

    /// Changes what is shown of a stage's session.
    fn show(&self, stage: &StageId, change: impl FnOnce(&mut RelayProgress)) {
        let mut shown = self.shown();
        if let Some(progress) = shown.board.relay(stage)
            && progress.is_working()
        {
            change(progress);
            drop(shown);
            // The view draws when it is time to.
            if !self.has_view {
                self.draw();
            }
        }
    }

    /// The report follows once the outcome is recorded. Nothing else depends on it.
    fn look_for_report(&mut self, record: &Record, run: &Run) -> Result<(), EngineError> {
        let is_end = |effect: &Effect| matches!(effect, Effect::EndRun { .. });
        if !record.effects.iter().any(is_end) {
            return Ok(());
        }
        let run = &run.header().run;
        self.reporter.report = match &self.reports {
            Reports::Unknown => None,
            Reports::WriteIn(workspace) => {
                Some(report::write(workspace, run, &self.reporter.ids)?.html)
            }
            Reports::FindIn(workspace) => report::wait_for(workspace, run),
        };
        Ok(())
    }
}

impl Observer for Live<'_> {
    fn recorded(&mut self, record: &Record, run: &Run) {
        if let Some(begun) = self.begun.take() {
            begun.report();
        }
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.recorded(record, run);
        }
        if let Some(notices) = &mut self.notices {
            notices.recorded(record, run);
        }
        let forgets = |memory: &mut Recorder| memory.recorded(record, run);
        if let Some(why) = self.memory.as_mut().and_then(forgets) {
            self.warn(&why);
        }
        // The agent's own interface and we must not print at the same time.
        if run.header().settings.agent.interface == Interface::Headless {
            self.shown().output.print_beside();
        }
        let taken = takes_terminal(run);
        let mut shown = self.shown();
        if !taken && !shown.is_full {
            shown.output.release();
        }
        drop(shown);
        self.print_record(record, run);
        self.tell_issue(record, run);
        if taken {
            self.shown().output.hold();
        }
        self.draw();
    }

    fn activity(&mut self, stage: &StageId, activity: &Activity) {
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.activity(stage, activity);
        }
        let (text, activity) = match activity {
            Activity::Warning(text) => return self.warn(text),
            Activity::ToolEnded { .. } => return,
            Activity::Subagents(count) => {
                return self.show(stage, |progress| progress.subagents = *count);
            }
            Activity::Tool { call, name, target } => {
                let target = self.work_dirs.shorten(Some(stage), target);
                let text = format!("{name} {target}");
                let (call, name) = (call.clone(), name.clone());
                (text, Activity::Tool { call, name, target })
            }
            Activity::Words(words) => (words.clone(), activity.clone()),
            Activity::Retry { attempt, error } => {
                let text = format!("asking the service again ({attempt}): {error}");
                (text, activity.clone())
            }
        };
        // In its own interface the agent shows what it does.
        let mut shown = self.shown();
        if self.verbose && !shown.output.is_held() {
            let lines = activity::lines(&activity);
            let lines = lines.iter().map(|line| self.of(Some(stage), line));
            lines.for_each(|line| shown.output.line(line));
        }
        drop(shown);
        let since = Some(self.now);
        self.show(stage, |progress| {
            progress.activity = Some(relay_progress::Activity { text, since });
        });
    }

    fn usage(&mut self, stage: &StageId, usage_tokens: u64, window: Window) {
        let now = self.now;
        if let Some(memory) = &mut self.memory {
            memory.usage(stage, window);
        }
        self.show(stage, |progress| progress.uses(usage_tokens, window, now));
    }

    fn spend(&mut self, stage: &StageId, spend: Spend, subscription: bool) {
        self.show(stage, |progress| {
            progress.spend = spend;
            progress.subscription = subscription;
        });
    }

    fn warn(&mut self, text: &str) {
        if self.json && self.run.is_some() {
            self.print(
                self.now,
                &Entry::new("warning").fields(fields! { "text": text }),
            );
        } else {
            self.shown().output.warn(text);
        }
        self.draw();
    }

    fn tick(&mut self, now: Timestamp) {
        self.now = now;
        if let Some(tracker) = &mut self.tracker {
            tracker.tick(now);
        }
        let failed = self.notices.as_mut().map(FleetNotices::failed);
        failed.iter().flatten().for_each(|why| self.warn(why));
        let refused: Vec<String> = self.typed.iter().flat_map(Receiver::try_iter).collect();
        refused.iter().for_each(|why| self.warn(why));
        self.draw();
    }
}

/// An agent's own interface has the terminal, or is about to get it.
fn takes_terminal(run: &Run) -> bool {
    let interface = run.header().settings.agent.interface;
    interface == Interface::Terminal && run.relays().any(|(_, relay)| relay.attempt().is_some())
}
