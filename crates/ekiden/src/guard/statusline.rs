//! `ekiden statusline`: the guard's part of the client's status line, and another program's below it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use ekiden_agent::detached;
use ekiden_core::guard::{Level, LineFormat, Part, Reading};
use ekiden_core::ids::RunId;
use ekiden_core::time::Millis;
use ekiden_store::guard::Figure;
use ekiden_wire::status_line::StatusInput;

use super::Watched;

pub(super) fn run(wrap: Option<&OsStr>) {
    let input = super::input();
    let told = StatusInput::parse(&input);
    let project = &told.project_dir;
    let dir = if project.as_os_str().is_empty() {
        &told.cwd
    } else {
        project
    };
    let watched = Watched::of(&told.session_id, told.transcript.clone(), dir, &told.cwd);
    let is_active = watched
        .as_ref()
        .is_some_and(|watched| keep_figure(watched, &told));
    let mut foreign = wrap.and_then(|command| foreign(command, input.as_bytes(), dir));
    let line = watched.map(|watched| {
        let format = watched.line_format();
        let beside = if format.shows(Part::Wrapped) {
            foreign.take()
        } else {
            None
        };
        line(&watched, &format, &told, is_active, beside.as_deref())
    });
    let mut out = std::io::stdout().lock();
    for text in line.into_iter().chain(foreign) {
        // A client that went away reads no status line.
        let _ = writeln!(out, "{text}");
    }
}

fn line(
    watched: &Watched,
    format: &LineFormat,
    told: &StatusInput,
    is_active: bool,
    beside: Option<&str>,
) -> String {
    let (watch, reading) = (watched.watch(), watched.reading());
    if let Some(reading) = &reading {
        watched.publish(&watch, reading, is_active);
    }
    let levels = watched.settings.levels;
    let percent = reading.as_ref().map(Reading::percent);
    let level = reading
        .as_ref()
        .map_or(Level::L0, |reading| reading.level(levels));
    let text = |part| match part {
        Part::Context => None,
        Part::Checkpoint => Some(format!("CKPT: {}", watch.word())),
        Part::Issue => Some(format!("ISSUE: {}", plain(&watched.issue_name()?))),
        Part::Phase => {
            let stage = || stage_of_branch(&watched.place.branch()?);
            let word = Some(watch.phase_word.clone()).filter(|word| !word.is_empty());
            named("PHASE: ", &word.or_else(stage)?)
        }
        Part::Model => named("", &told.model_name),
        Part::Branch => named("", &watched.place.branch()?),
        Part::Next => {
            let (level, time) = reading.as_ref()?.next_level(levels)?;
            Some(format!("{level} in {time}"))
        }
        Part::Trend => {
            let rate = reading.as_ref()?.trend().tokens_per_minute?;
            Some(format!("{rate:+} tokens/min"))
        }
        Part::Cost => Some(format!("${:.2}", told.cost_usd)),
        Part::Time => Some(Millis(told.duration_ms).to_string()),
        Part::Limits => limits(told),
        Part::Wrapped => beside
            .and_then(|text| text.lines().next())
            .map(str::to_owned),
    };
    let columns = std::env::var("COLUMNS").ok();
    format.render(
        percent,
        level,
        text,
        columns.and_then(|columns| columns.parse().ok()),
    )
}

/// A name comes from a branch or a person, so it can be long.
const NAME_CHARS_MAX: usize = 24;

fn plain(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    shown.take(NAME_CHARS_MAX).collect()
}

fn named(label: &str, text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("{label}{}", plain(text)))
}

/// The stage of a plan whose branch is checked out, `ekiden/RUN-STAGE`.
fn stage_of_branch(branch: &str) -> Option<String> {
    let (run, stage) = branch.strip_prefix("ekiden/")?.split_once('-')?;
    RunId::try_from(run.to_owned()).ok()?;
    Some(stage.to_owned())
}

fn limits(told: &StatusInput) -> Option<String> {
    let windows = [
        ("5h", told.five_hour_percent),
        ("7d", told.seven_day_percent),
    ];
    let known: Vec<String> = windows
        .into_iter()
        .filter_map(|(name, used)| Some(format!("{name}: {:.0}%", used?)))
        .collect();
    (!known.is_empty()).then(|| known.join(" "))
}

/// Keeps what only the status line hears. Returns whether it is new.
fn keep_figure(watched: &Watched, told: &StatusInput) -> bool {
    told.window_tokens
        .is_some_and(|window_tokens| keep(watched, told.used_tokens, window_tokens))
}

/// Keeps what the client itself reports about its context. Returns whether it is new.
pub(super) fn keep(watched: &Watched, used_tokens: Option<u64>, window_tokens: u64) -> bool {
    let same = |old: &Figure| (old.used_tokens, old.window_tokens) == (used_tokens, window_tokens);
    let is_new = !watched.files.figure().as_ref().is_some_and(same);
    if is_new {
        let last = watched.recent().responses.pop();
        let figure = Figure {
            at: watched.now,
            used_tokens,
            window_tokens,
            model: last.map(|last| last.model).unwrap_or_default(),
        };
        watched.or_complain(watched.files.keep_figure(&figure));
    }
    is_new
}

/// How long the previous status line may take. Then the guard's is shown alone.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(4);

/// The output of the previous status line for the same input.
fn foreign(command: &OsStr, input: &[u8], dir: &Path) -> Option<String> {
    let said = detached::filter(command, input, dir, FOREIGN_PATIENCE).ok()?;
    let said = String::from_utf8_lossy(&said);
    let said = said.trim_end_matches('\n');
    (!said.is_empty()).then(|| said.to_owned())
}
