//! A run while it happens: the lines of its records, and the line that moves.

use std::sync::mpsc::Receiver;

use ekiden_agent::attempt::Activity;
use ekiden_agent::background::Begun;
use ekiden_core::agent::Interface;
use ekiden_core::budget::Spend;
use ekiden_core::guard::Window;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_engine::observer::Observer;
use jiff::tz::TimeZone;

use super::Output;
use super::activity;
use super::entry::Entry;
use super::json::fields;
use super::line::Line;
use super::moving::Moving;
use super::reporter::Reporter;

/// The columns that a stage's id has at most before each line.
const STAGE_COLUMNS_MAX: usize = 12;

/// Watches a run and prints what happens.
pub struct Live<'a> {
    output: &'a mut Output,
    reporter: Reporter,
    json: bool,
    /// What the agent says and does is shown as well. Lines for programs do not hold it: the log does not.
    verbose: bool,
    run: Option<RunId>,
    /// In a plan, the columns that a stage's id has before each line.
    stage_columns: Option<usize>,
    /// Paths are shown relative to this.
    work_dir: String,
    moving: Moving,
    now: Timestamp,
    /// What a person typed that cannot be done.
    typed: Option<Receiver<String>>,
    /// Somebody waits until the run has begun, and then nobody reads what it prints.
    pub begun: Option<Begun>,
}

impl<'a> Live<'a> {
    /// A view of a run that begins or goes on. `ids` are the runs that its short id must differ from.
    pub fn new(output: &'a mut Output, json: bool, verbose: bool, ids: Vec<RunId>) -> Self {
        Self {
            output,
            reporter: Reporter::new(ids, TimeZone::system()),
            json,
            verbose: verbose && !json,
            run: None,
            stage_columns: None,
            work_dir: String::new(),
            moving: Moving::default(),
            now: Timestamp::default(),
            typed: None,
            begun: None,
        }
    }

    /// A person types to the run here; `typed` says what of it cannot be done.
    pub fn guide(&mut self, typed: Receiver<String>) {
        self.reporter.guided = true;
        self.typed = Some(typed);
    }

    /// Takes in a record that an earlier process has printed.
    pub fn catch_up(&mut self, record: &Record, run: &Run) {
        self.reporter.entries(record, run);
    }

    /// Prints a line that is not from the log.
    pub fn line(&mut self, line: &Line) {
        self.output.line(line);
    }

    /// Draws what `change` sees of the session at work, for who watches from another process.
    pub fn look(&mut self, now: Timestamp, change: impl FnOnce(&mut Moving)) {
        self.now = now;
        change(&mut self.moving);
        self.draw();
    }

    pub fn print_record(&mut self, record: &Record, run: &Run) {
        self.now = record.time;
        self.moving.follow(record, run);
        if self.run.is_none() {
            let header = run.header();
            self.run = Some(header.run.clone());
            self.work_dir = format!("{}/", header.place.work_dir);
            let ids = header.manifest.stages.iter();
            let longest = ids.map(|stage| stage.id.as_str().len()).max();
            let columns = longest.unwrap_or(0).min(STAGE_COLUMNS_MAX);
            self.stage_columns = header.manifest.plan.as_ref().map(|_| columns);
        }
        for entry in self.reporter.entries(record, run) {
            self.print(record.time, &entry);
        }
    }

    fn print(&mut self, time: Timestamp, entry: &Entry) {
        if let Some(run) = self.run.as_ref().filter(|_| self.json) {
            self.output.json(&entry.json(time, run));
            return;
        }
        for line in &entry.lines {
            match entry.stage.as_ref().zip(self.stage_columns) {
                Some((stage, columns)) => {
                    let line = line.clone().under(stage.as_str(), columns);
                    self.output.line(&line);
                }
                None => self.output.line(line),
            }
        }
    }

    fn draw(&mut self) {
        if self.json || self.output.is_held() || !self.output.has_screen() {
            return;
        }
        // A line that moves would write over what is being typed.
        let typing = self.typed.is_some() && self.moving.is_paused();
        let line = self.moving.line(self.now, &self.reporter.zone);
        match line.filter(|_| !typing) {
            Some(line) => self.output.draw(&[line]),
            None => self.output.erase(),
        }
    }

    /// Changes what is shown of a stage's session, if it is the one that the moving line is about.
    fn show(&mut self, stage: &StageId, change: impl FnOnce(&mut Moving)) {
        if self.moving.is_working() && self.moving.stage.as_ref() == Some(stage) {
            change(&mut self.moving);
            self.draw();
        }
    }
}

impl Observer for Live<'_> {
    fn recorded(&mut self, record: &Record, run: &Run) {
        if let Some(begun) = self.begun.take() {
            begun.report();
        }
        // The agent's own interface and we must not print at the same time.
        if run.header().settings.agent.interface == Interface::Headless {
            self.output.print_beside();
        }
        let taken = takes_terminal(run);
        if !taken {
            self.output.release();
        }
        self.print_record(record, run);
        if taken {
            self.output.hold();
        }
        self.draw();
    }

    fn activity(&mut self, stage: &StageId, activity: &Activity) {
        let activity = match activity {
            Activity::Warning(text) => return self.warn(text),
            Activity::Tool { name, target } => Activity::Tool {
                name: name.clone(),
                target: target.replace(&self.work_dir, ""),
            },
            Activity::Words(_) | Activity::Retry { .. } => activity.clone(),
        };
        // In its own interface the agent shows what it does.
        if self.verbose && !self.output.is_held() {
            let lines = activity::lines(&activity);
            lines.iter().for_each(|line| self.output.line(line));
        }
        let text = match activity {
            Activity::Tool { name, target } => format!("{name} {target}"),
            Activity::Words(words) | Activity::Warning(words) => words,
            Activity::Retry { attempt, error } => {
                format!("asking the service again ({attempt}): {error}")
            }
        };
        self.show(stage, |moving| moving.activity = Some(text));
    }

    fn usage(&mut self, stage: &StageId, usage_tokens: u64, window: Window) {
        self.show(stage, |moving| moving.usage = Some((usage_tokens, window)));
    }

    fn spend(&mut self, stage: &StageId, spend: Spend) {
        self.show(stage, |moving| moving.spend = spend);
    }

    fn warn(&mut self, text: &str) {
        if self.json && self.run.is_some() {
            self.print(
                self.now,
                &Entry::new("warning").fields(fields! { "text": text }),
            );
        } else {
            self.output.warn(text);
        }
        self.draw();
    }

    fn tick(&mut self, now: Timestamp) {
        self.now = now;
        let refused: Vec<String> = self.typed.iter().flat_map(Receiver::try_iter).collect();
        refused.iter().for_each(|why| self.warn(why));
        self.draw();
    }
}

/// An agent's own interface has the terminal, or is about to.
fn takes_terminal(run: &Run) -> bool {
    let interface = run.header().settings.agent.interface;
    interface == Interface::Terminal && run.relays().any(|(_, relay)| relay.attempt().is_some())
}
