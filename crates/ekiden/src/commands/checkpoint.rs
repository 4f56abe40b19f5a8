//! `ekiden checkpoint`: makes, shows, estimates or delays the checkpoint of a watched session.

use clap::Args;
use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::estimate::{Advice, Estimate};
use ekiden_core::guard::watch::{Phase, Watch, WatchEvent, WatchRecord};
use ekiden_core::guard::{Level, Reading};
use ekiden_engine::workspace::Workspace;

use super::end_leftovers;
use super::estimate::shown;
use super::task::Task;
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _, current_dir};
use crate::guard::{Watched, take_checkpoint};
use crate::output::json::fields;
use crate::output::{Output, phrase};
use crate::specs::large_spec;

/// Checkpoint a session that you started yourself
///
/// Writes a handoff document into .ekiden/handoffs/ and keeps uncommitted work under refs/ekiden/wip/, so that your
/// branch and index stay as they are. The session is the one that calls this command, otherwise the one that the guard
/// watched last in this directory.
#[derive(Args)]
pub struct CheckpointArgs {
    /// Show how full the session is, and what to do
    #[arg(long, group = "what")]
    status: bool,
    /// Estimate whether a task fits: a file, or the task itself
    #[arg(long, value_name = "TASK", group = "what")]
    estimate: Option<String>,
    /// Postpone the handoff once, until 90% of the usable window or L3, if that is lower
    #[arg(long, group = "what")]
    defer: bool,
    /// Show this word in the status line as the session's phase; "" for none
    #[arg(long, value_name = "WORD", group = "what")]
    phase: Option<String>,
    /// The session, as Claude Code calls it
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn checkpoint(args: &CheckpointArgs, output: &mut Output) -> Result<Exit, Failure> {
    let watched = Watched::for_command(args.session.as_deref())?;
    let is_known = watched.files.is_known() || watched.transcript.is_file();
    if let Some(id) = args.session.as_ref().filter(|_| !is_known) {
        let text = format!("no session `{id}` was watched here");
        return Err(Failure::new(Exit::MissingInput, text));
    }
    let asked = CheckpointCommand::of(&watched, args.json);
    if let Some(word) = &args.phase {
        asked.record(WatchEvent::PhaseNamed { word: word.clone() })?;
        return Ok(Exit::Done);
    }
    match (&args.estimate, args.status, args.defer) {
        (Some(task), ..) => asked.estimate(task, output)?,
        (None, true, _) => {
            watched.refuse_none()?;
            asked.status(output);
        }
        (None, false, true) => asked.defer(output)?,
        (None, false, false) => asked.take(output)?,
    }
    Ok(Exit::Done)
}

/// A session that something is asked about.
pub(super) struct CheckpointCommand<'a> {
    watched: &'a Watched,
    watch: Watch,
    reading: Option<Reading>,
    json: bool,
}

impl<'a> CheckpointCommand<'a> {
    pub(super) fn of(watched: &'a Watched, json: bool) -> Self {
        Self {
            watch: watched.watch(),
            reading: watched.reading(),
            watched,
            json,
        }
    }

    pub(super) fn take(&self, output: &mut Output) -> Result<(), Failure> {
        let watched = self.watched;
        let workspace = Workspace::find(&watched.place.dir, watched.state_dir.as_deref());
        if let Ok(workspace) = workspace {
            end_leftovers(&workspace, output);
        }
        let reading = self.reading.as_ref();
        let request = self.watched.checkpoint(CheckpointReason::Manual, reading);
        let taken = take_checkpoint(&request)?;
        if self.json {
            output.json(&fields! {
                "v": 1,
                "document": taken.document,
                "commit": taken.commit,
                "wip_ref": taken.wip_ref,
                "modified_files": taken.modified_files,
            });
            return Ok(());
        }
        let place = taken
            .wip_ref
            .as_deref()
            .map_or("on the branch".to_owned(), |name| format!("in {name}"));
        let work = match &taken.commit {
            Some(commit) => format!("{} {place}", &commit[..commit.len().min(10)]),
            None if taken.uncommitted => "not kept in git".to_owned(),
            None => "none".to_owned(),
        };
        let orient = self.watched.names_here().orient;
        output.line(format!(
            "Handoff document: {}",
            self.watched.shown(&taken.document)
        ));
        output.line(format!("Work in progress: {work}"));
        output.line(format!(
            "A fresh session continues from it: /clear, then {orient}"
        ));
        Ok(())
    }

    pub(super) fn status(&self, output: &mut Output) {
        let Some(reading) = &self.reading else {
            if self.json {
                output.json(&fields! { "version": "1.0.0" });
            } else {
                let text = "Context     unknown: no response yet";
                output.line(text);
            }
            return;
        };
        if self.json {
            return output.json(&self.watched.state(&self.watch, reading));
        }
        let levels = self.watched.settings.levels;
        let level = reading.level(levels);
        let window = reading.window;
        let [used, usable, whole] = [
            reading.used_tokens,
            window.usable_tokens(),
            window.model_tokens,
        ]
        .map(phrase::tokens);
        let percent = reading.percent();
        output.line(format!(
            "Context     {percent}% {level}: {used} of {usable} usable tokens (window {whole})"
        ));
        if let Some(rate) = reading.trend().tokens_per_minute {
            let next = reading.next_level(levels);
            let next = next.map_or(String::new(), |(level, time)| {
                format!("; {level} in about {time}")
            });
            output.line(format!("Trend       {rate} tokens a minute{next}"));
        }
        let last = self.watch.last.as_ref().map(|last| &last.taken);
        let last = last.map(|last| format!("; last: {} ({})", last.document, last.reason));
        let last = last.unwrap_or_default();
        output.line(format!("Checkpoint  {}{last}", self.watch.word()));
        output.line(format!("Advice      {}", self.advice(level)));
    }

    fn advice(&self, level: Level) -> String {
        let names = self.watched.names_here();
        let now = match level {
            Level::L0 => return "continue".to_owned(),
            Level::L1 => return "finish the current item before you begin anything new".to_owned(),
            Level::L2 => "",
            Level::L3 => " now",
        };
        format!(
            "hand off{now}: {}, then /clear and {}",
            names.handoff, names.orient
        )
    }

    fn defer(&self, output: &mut Output) -> Result<(), Failure> {
        let levels = self.watched.settings.levels;
        let until_percent = levels.latest_percent();
        let is_late = |reading: &Reading| reading.percent() >= u64::from(until_percent);
        let is_late =
            self.watch.armed.level == Level::L3 || self.reading.as_ref().is_some_and(is_late);
        let has_begun = matches!(self.watch.phase, Phase::Writing { .. } | Phase::Done);
        let why = match self.watch.armed.answered && has_begun {
            _ if is_late => "the context is nearly full",
            true => "its document is written, or is being written",
            false => "",
        };
        if !why.is_empty() {
            let text = format!("cannot put the handoff off: {why}");
            return Err(Failure::new(Exit::Unfinished, text).hint(self.advice(Level::L2)));
        }
        self.record(WatchEvent::Deferred { until_percent })?;
        output.line(format!(
            "The handoff is put off until {until_percent}% of the usable window."
        ));
        Ok(())
    }

    fn estimate(&self, task: &str, output: &mut Output) -> Result<(), Failure> {
        let text = Task::read(task, output)?.text;
        let window = match &self.reading {
            Some(reading) => reading.window,
            None => self.watched.window_at_start(),
        };
        let used = self.reading.as_ref().map(|reading| reading.used_tokens);
        let estimate = self.watched.estimate(&text, &window, used);
        if let Some(used_tokens) = used {
            let ahead_tokens = estimate.tokens;
            self.record(WatchEvent::Expected {
                ahead_tokens,
                used_tokens,
            })?;
        }
        if self.json {
            output.json(&estimate);
        } else {
            let large = large_spec(&current_dir()?, task, &window, false);
            // Its parts are listed below.
            let parts = large.is_none().then(|| estimate.shards());
            tell_estimate(&estimate, parts, self.reading.as_ref(), output);
            if let Some(large) = large {
                output.line(large.suggestion());
            }
        }
        Ok(())
    }

    fn record(&self, event: WatchEvent) -> Result<(), Failure> {
        self.watched.refuse_none()?;
        let time = self.watched.now;
        let appended = self.watched.files.append(&[WatchRecord { time, event }]);
        appended.or_fail(Exit::State, "cannot note it in the session's log")
    }
}

fn tell_estimate(
    estimate: &Estimate,
    parts: Option<u64>,
    reading: Option<&Reading>,
    output: &mut Output,
) {
    let (all, percent) = (phrase::tokens(estimate.tokens), estimate.percent);
    let counted = shown::parts(estimate);
    output.line(format!(
        "Estimate    about {all}, {percent}% of the usable window: {counted}"
    ));
    if let Some(reading) = reading {
        let fits = if estimate.fits == Some(true) {
            "it fits"
        } else {
            "it may not fit"
        };
        let left = phrase::tokens(reading.remaining_tokens());
        output.line(format!("Left        {left} tokens: {fits}"));
    }
    let into = parts.map_or(String::new(), |parts| format!(", into {parts} parts"));
    let advice = match estimate.advice {
        Advice::Run => "small enough to run as it is".to_owned(),
        Advice::ConsiderSharding => format!("consider sharding{into}"),
        Advice::ShardFirst => format!("shard it first{into}"),
    };
    output.line(format!("Advice      {advice}"));
    for choice in estimate.choices() {
        output.line(format!("  - {choice}"));
    }
}
