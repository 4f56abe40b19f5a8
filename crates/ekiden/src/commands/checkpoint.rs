//! `ekiden checkpoint`: a watched session's checkpoint, its state, an estimate, a delay.

use std::path::Path;

use clap::Args;
use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::estimate::{Advice, Estimate};
use ekiden_core::guard::watch::{Watch, WatchEvent, WatchRecord};
use ekiden_core::guard::{CheckpointState, Level, Reading, StateOf};
use ekiden_core::limits;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::guard::{Checkpoint, Scene, take_checkpoint};
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};

const EXAMPLES: &str = "\
Examples:
  ekiden checkpoint                       write a handoff document and keep uncommitted work, now
  ekiden checkpoint --status              how full this session is, and what comes next
  ekiden checkpoint --estimate spec.md    whether a task still fits
  ekiden checkpoint --defer               put the handover off, at most to 90 %
";

/// Checkpoint a session that you started yourself
///
/// It writes a handoff document into .ekiden/handoffs/ and keeps uncommitted work under
/// refs/ekiden/wip/, so that your branch and index stay as they are. The session is the one that this
/// is called from, else the one that was watched last in this directory.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct CheckpointArgs {
    /// Show how full the session is, and what is advised
    #[arg(long, group = "what")]
    status: bool,
    /// Estimate whether a task fits: a file, or the task itself
    #[arg(long, value_name = "TASK", group = "what")]
    estimate: Option<String>,
    /// Put the handover off once: until 90 % of the usable window
    #[arg(long, group = "what")]
    defer: bool,
    /// The session, as Claude Code calls it
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does one of the four.
pub fn checkpoint(args: &CheckpointArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::for_command(args.session.as_deref())?;
    let asked = Asked { scene: &scene, watch: scene.watch(), reading: scene.reading(), json: args.json };
    match (&args.estimate, args.status, args.defer) {
        (Some(task), ..) => asked.estimate(task, output),
        (None, true, _) => asked.status(output),
        (None, false, true) => asked.defer(output),
        (None, false, false) => asked.take(output),
    }
}

/// What is asked about a session.
struct Asked<'a> {
    scene: &'a Scene,
    watch: Watch,
    reading: Option<Reading>,
    json: bool,
}

/// The JSON form of a checkpoint.
#[derive(Serialize)]
struct TakenJson<'a> {
    version: u32,
    document: String,
    commit: Option<&'a str>,
    wip_ref: Option<&'a str>,
    modified_files: &'a [String],
}

/// The JSON form of a session without a response.
#[derive(Serialize)]
struct NoReading {
    version: &'static str,
}

impl Asked<'_> {
    fn take(&self, output: &mut Output) -> Result<Exit, Failure> {
        let checkpoint = Checkpoint::of(self.scene, CheckpointReason::Manual, self.reading.as_ref());
        let taken = take_checkpoint(&checkpoint)
            .map_err(|error| Failure::caused(Exit::State, "cannot checkpoint this session", &error))?;
        if self.json {
            output.json(&TakenJson {
                version: 1,
                document: taken.document.display().to_string(),
                commit: taken.commit.as_deref(),
                wip_ref: taken.wip_ref.as_deref(),
                modified_files: &taken.modified_files,
            });
            return Ok(Exit::Done);
        }
        say(output, &format!("Handoff document: {}", self.scene.shown(&taken.document)));
        match (&taken.commit, &taken.wip_ref) {
            (Some(commit), Some(name)) => {
                say(output, &format!("Work in progress: {} in {name}", &commit[..commit.len().min(10)]));
            }
            (Some(commit), None) => {
                say(output, &format!("Work in progress: {} on the branch", &commit[..commit.len().min(10)]));
            }
            (None, _) if taken.uncommitted => say(output, "Work in progress: not kept in git"),
            (None, _) => say(output, "Work in progress: none"),
        }
        let names = self.scene.names(false);
        say(output, &format!("A fresh session goes on from it: /clear, then {}", names.orient));
        Ok(Exit::Done)
    }

    fn status(&self, output: &mut Output) -> Result<Exit, Failure> {
        let Some(reading) = &self.reading else {
            if self.json {
                output.json(&NoReading { version: "1.0.0" });
            } else {
                say(output, "Context     unknown: the session has no response yet");
            }
            return Ok(Exit::Done);
        };
        if self.json {
            output.json(&CheckpointState::new(&StateOf {
                session_id: &self.scene.session,
                watch: &self.watch,
                reading,
                levels: self.scene.settings.levels,
                issue: self.scene.issue_name(),
                now: self.scene.now,
            }));
            return Ok(Exit::Done);
        }
        self.tell_status(reading, output);
        Ok(Exit::Done)
    }

    fn tell_status(&self, reading: &Reading, output: &mut Output) {
        let levels = self.scene.settings.levels;
        let level = reading.level(levels);
        say(
            output,
            &format!(
                "Context     {}% {level}: {} of {} usable tokens (window {})",
                reading.percent(),
                phrase::tokens(reading.used_tokens),
                phrase::tokens(reading.window.usable_tokens()),
                phrase::tokens(reading.window.model_tokens),
            ),
        );
        if let Some(rate) = reading.trend().tokens_per_minute {
            let next = [Level::L1, Level::L2, Level::L3]
                .into_iter()
                .find_map(|level| Some(format!("; {level} in about {}", reading.time_to(levels, level)?)));
            say(output, &format!("Trend       {rate} tokens a minute{}", next.unwrap_or_default()));
        }
        let last =
            self.watch.last.as_ref().map(|last| format!("; last: {} ({})", last.document, last.reason));
        say(output, &format!("Checkpoint  {}{}", self.watch.word(), last.unwrap_or_default()));
        say(output, &format!("Advice      {}", self.advice(level)));
    }

    fn advice(&self, level: Level) -> String {
        let names = self.scene.names(false);
        match level {
            Level::L0 => "go on".to_owned(),
            Level::L1 => "finish the current item before you begin anything new".to_owned(),
            Level::L2 => format!("hand over: {}, then /clear and {}", names.handoff, names.orient),
            Level::L3 => format!("hand over now: {}, then /clear and {}", names.handoff, names.orient),
        }
    }

    fn defer(&self, output: &mut Output) -> Result<Exit, Failure> {
        let level = self.reading.as_ref().map(|reading| reading.level(self.scene.settings.levels));
        if level == Some(Level::L3) || self.watch.level == Level::L3 {
            let refused =
                Failure::new(Exit::NotPermitted, "cannot put the handover off: the context is nearly full");
            return Err(refused.hint(format!("{} writes the handoff", self.scene.names(false).handoff)));
        }
        let until_percent = limits::CHECKPOINT_LATEST_PERCENT;
        self.record(WatchEvent::Deferred { until_percent })?;
        say(output, &format!("The handover is put off until {until_percent}% of the usable window."));
        Ok(Exit::Done)
    }

    fn estimate(&self, task: &str, output: &mut Output) -> Result<Exit, Failure> {
        let text = task_text(task);
        let unread = || self.scene.window(self.scene.files.figure(), "");
        let window = self.reading.as_ref().map_or_else(unread, |reading| reading.window);
        let used = self.reading.as_ref().map(|reading| reading.used_tokens);
        let estimate = self.scene.estimate(&text, &window, used);
        if let Some(used_tokens) = used {
            self.record(WatchEvent::Expected { ahead_tokens: estimate.tokens, used_tokens })?;
        }
        if self.json {
            output.json(&estimate);
        } else {
            tell_estimate(&estimate, self.reading.as_ref(), output);
        }
        Ok(Exit::Done)
    }

    fn record(&self, event: WatchEvent) -> Result<(), Failure> {
        let record = WatchRecord { time: self.scene.now, event };
        self.scene
            .files
            .append(&[record])
            .map_err(|error| Failure::caused(Exit::State, "cannot note it in the session's log", &error))
    }
}

fn tell_estimate(estimate: &Estimate, reading: Option<&Reading>, output: &mut Output) {
    say(
        output,
        &format!(
            "Estimate    about {}, {}% of the usable window: {} for the text, {} for {} it names, {} open items",
            phrase::tokens(estimate.tokens),
            estimate.percent,
            phrase::tokens(estimate.text_tokens),
            phrase::tokens(estimate.file_tokens),
            phrase::files(usize::try_from(estimate.files).unwrap_or(usize::MAX)),
            estimate.items,
        ),
    );
    if let Some(reading) = reading {
        let fits = if estimate.fits == Some(true) { "it fits" } else { "it may not fit" };
        say(output, &format!("Left        {} tokens: {fits}", phrase::tokens(reading.remaining_tokens())));
    }
    let advice = match estimate.advice {
        Advice::Run => "small enough to run as it is".to_owned(),
        Advice::ConsiderSharding => format!("consider sharding, into {} parts", estimate.shards()),
        Advice::ShardFirst => format!("shard it first, into {} parts", estimate.shards()),
    };
    say(output, &format!("Advice      {advice}"));
    for choice in estimate.choices() {
        say(output, &format!("  - {}", choice.sentence()));
    }
}

/// The task itself, or what stands in the file of that name.
fn task_text(task: &str) -> String {
    std::fs::read_to_string(Path::new(task)).unwrap_or_else(|_| task.to_owned())
}

fn say(output: &mut Output, text: &str) {
    output.line(&Line::new(Tone::Plain, text));
}
