//! A run while it happens: the story as it is recorded, and the line that moves.

use std::sync::mpsc::Receiver;

use ekiden_agent::attempt::Activity;
use ekiden_core::budget::Spend;
use ekiden_core::guard::{Levels, Profile, Window};
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::settings::Interface;
use ekiden_core::time::Timestamp;
use ekiden_engine::observer::Observer;
use jiff::tz::TimeZone;

use super::Output;
use super::aloud;
use super::line::Line;
use super::lines::Telling;
use super::moving::Doing;
use super::news::{JSON_VERSION, JsonLine, News};
use super::phrase;
use super::story::{Story, Told};

/// The columns that a stage's id has at most before each line.
const STAGE_COLUMNS_MAX: usize = 12;

/// Watches a run and prints what it has to tell.
pub struct Live<'a> {
    output: &'a mut Output,
    story: Story,
    /// Whether the story is told to programs.
    json: bool,
    /// Whether what the agent says and does is told as well.
    aloud: bool,
    zone: TimeZone,
    others: Vec<RunId>,
    telling: Option<Telling>,
    run: Option<RunId>,
    levels: Levels,
    /// Lines say which stage they are about.
    is_plan: bool,
    /// The longest of the stages' ids, within reason.
    stage_columns: usize,
    /// The stage that the moving line tells of.
    shown: Option<StageId>,
    /// Paths are told from here.
    work_dir: String,
    doing: Doing,
    now: Timestamp,
    /// What happened while the agent's own interface had the terminal.
    held: Option<Vec<Held>>,
    /// What a person typed that cannot be done.
    typed: Option<Receiver<String>>,
}

/// Something to be told later.
enum Held {
    Line(Timestamp, Box<Told>),
    Warning(String),
}

impl<'a> Live<'a> {
    /// A view of a run that begins or goes on. `others` are the runs that its id must differ from.
    #[must_use]
    pub fn new(output: &'a mut Output, json: bool, others: Vec<RunId>) -> Self {
        Self {
            output,
            story: Story::default(),
            json,
            aloud: false,
            zone: TimeZone::system(),
            others,
            telling: None,
            run: None,
            levels: Profile::Relay.levels(),
            is_plan: false,
            stage_columns: 0,
            shown: None,
            work_dir: String::new(),
            doing: Doing::Nothing,
            now: Timestamp::default(),
            held: None,
            typed: None,
        }
    }

    /// A person types to the run here; `typed` tells what of it cannot be done.
    pub fn guide(&mut self, typed: Receiver<String>) {
        self.typed = Some(typed);
    }

    /// The same, which tells as well what the agent says and does, if that is wanted. Lines for programs
    /// do not hold it: it is no part of the story.
    #[must_use]
    pub fn aloud(self, wanted: bool) -> Self {
        Self { aloud: wanted && !self.json, ..self }
    }

    /// Takes in a record that was told before, in another life of the program.
    pub fn catch_up(&mut self, record: &Record, run: &Run) {
        self.story.catch_up(record, run);
    }

    /// Says something that is no part of the story.
    pub fn say(&mut self, line: &Line) {
        self.output.line(line);
    }

    /// Tells what a record has to tell.
    pub fn tell(&mut self, record: &Record, run: &Run) {
        self.now = record.time;
        self.levels = run.header().settings.levels;
        self.run.get_or_insert_with(|| run.header().run.clone());
        if self.telling.is_none() {
            self.work_dir = format!("{}/", run.header().place.work_dir);
            self.is_plan = run.header().manifest.plan.is_some();
            let ids = run.header().manifest.stages.iter().map(|stage| stage.id.as_str().len());
            self.stage_columns = ids.max().unwrap_or(0).min(STAGE_COLUMNS_MAX);
            let telling = Telling::of(run, &self.others, self.zone.clone());
            self.telling = Some(Telling { guided: self.typed.is_some(), ..telling });
        }
        for told in self.story.tell(record, run) {
            self.hold_or_print(record.time, told);
        }
    }

    /// While the agent's own interface has the terminal, nothing is printed on it.
    fn hold_or_print(&mut self, time: Timestamp, told: Told) {
        match &mut self.held {
            Some(held) => held.push(Held::Line(time, Box::new(told))),
            None => self.print(time, &told),
        }
    }

    fn release(&mut self) {
        for held in self.held.take().unwrap_or_default() {
            match held {
                Held::Line(time, told) => self.print(time, &told),
                Held::Warning(text) => self.output.warn(&text),
            }
        }
    }

    fn print(&mut self, time: Timestamp, told: &Told) {
        let Some((run, telling)) = self.run.as_ref().zip(self.telling.as_ref()) else { return };
        if self.json {
            let stage = told.stage.as_ref();
            self.output.json(&JsonLine { v: JSON_VERSION, time, run, stage, news: &told.news });
        } else {
            for line in telling.lines(time, &told.news) {
                let line = match told.stage.as_ref().filter(|_| self.is_plan) {
                    Some(stage) => line.under(stage.as_str(), self.stage_columns),
                    None => line,
                };
                self.output.line(&line);
            }
        }
    }

    fn draw(&mut self) {
        if self.json || self.held.is_some() || !self.output.has_screen() {
            return;
        }
        // A line that moves would write over what is being typed.
        let typing = self.typed.is_some() && matches!(self.doing, Doing::Paused { .. });
        match self.doing.line(self.now, self.levels, &self.zone).filter(|_| !typing) {
            Some(line) => self.output.draw(&line),
            None => self.output.erase(),
        }
    }

    /// In its own interface the agent shows what it does.
    fn tell_aloud(&mut self, activity: &Activity) {
        if self.aloud && self.held.is_none() {
            aloud::lines(activity).iter().for_each(|line| self.output.line(line));
        }
    }

    fn show_activity(&mut self, text: String) {
        if let Doing::Working(work) = &mut self.doing {
            work.activity = Some(text);
            self.draw();
        }
    }
}

impl Observer for Live<'_> {
    fn recorded(&mut self, record: &Record, run: &Run) {
        // The agent's own interface and we must not print at the same time.
        if run.header().settings.agent.interface == Interface::Headless {
            self.output.print_beside();
        }
        let taken = takes_terminal(run);
        if !taken {
            self.release();
        }
        self.tell(record, run);
        if taken {
            self.output.erase();
            self.held.get_or_insert_default();
        }
        if let Some((stage, relay)) = run.live().chain(run.relays()).next() {
            if self.shown.as_ref() != Some(stage) {
                self.shown = Some(stage.clone());
                self.doing = Doing::Nothing;
            }
            self.doing = std::mem::replace(&mut self.doing, Doing::Nothing).after(
                relay,
                record.time,
                self.story.ended(),
            );
        }
        self.draw();
    }

    fn activity(&mut self, stage: &StageId, activity: &Activity) {
        let shown = match activity {
            Activity::Tool { name, target } => {
                let target = target.replace(&self.work_dir, "");
                Activity::Tool { name: name.clone(), target }
            }
            Activity::Words(_) | Activity::Retry { .. } => activity.clone(),
            Activity::Warning(text) => return self.warn(text),
        };
        self.tell_aloud(&shown);
        if self.shown.as_ref() != Some(stage) {
            return;
        }
        self.show_activity(match shown {
            Activity::Tool { name, target } => format!("{name} {target}"),
            Activity::Words(words) | Activity::Warning(words) => words,
            Activity::Retry { attempt, error } => format!("asking the service again ({attempt}): {error}"),
        });
    }

    fn usage(&mut self, stage: &StageId, usage_tokens: u64, window: Window) {
        if let Doing::Working(work) = &mut self.doing
            && self.shown.as_ref() == Some(stage)
        {
            work.usage = Some((usage_tokens, window));
            self.draw();
        }
    }

    fn spend(&mut self, stage: &StageId, spend: Spend) {
        if let Doing::Working(work) = &mut self.doing
            && self.shown.as_ref() == Some(stage)
        {
            work.spend = spend;
            self.draw();
        }
    }

    fn warn(&mut self, text: &str) {
        if self.json && self.run.is_some() {
            let news = News::Warning { text: text.to_owned() };
            self.print(self.now, &Told { stage: None, news });
        } else if let Some(held) = &mut self.held {
            held.push(Held::Warning(text.to_owned()));
        } else {
            self.output.warn(text);
        }
        self.draw();
    }

    fn tick(&mut self, now: Timestamp) {
        self.now = now;
        let troubles: Vec<String> = self.typed.iter().flat_map(Receiver::try_iter).collect();
        troubles.iter().for_each(|trouble| self.warn(trouble));
        self.draw();
    }
}

/// An agent's own interface has the terminal, or is about to.
fn takes_terminal(run: &Run) -> bool {
    let interface = run.header().settings.agent.interface;
    interface == Interface::Terminal && run.relays().any(|(_, relay)| relay.attempt().is_some())
}

impl Telling {
    /// How a run is told to somebody who knows these other runs.
    #[must_use]
    pub fn of(run: &Run, others: &[RunId], zone: TimeZone) -> Self {
        let header = run.header();
        Self {
            run: phrase::short_id(&header.run, others),
            zone,
            started: run.started_at(),
            git: header.place.git,
            guided: false,
        }
    }
}
