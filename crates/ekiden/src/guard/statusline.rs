//! `ekiden statusline`: the guard's part of the client's status line, and another program's below it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;

use ekiden_agent::detached;
use ekiden_core::guard::{Level, Reading, StatusLine};
use ekiden_store::guard::Figure;
use ekiden_wire::status_line::StatusInput;

use super::Scene;

/// Prints the line.
pub(super) fn run(wrap: Option<&OsStr>) {
    let input = super::input();
    let told = StatusInput::parse(&input);
    let project = &told.workspace.project_dir;
    let dir = if project.as_os_str().is_empty() { &told.cwd } else { project };
    let line =
        Scene::of(&told.session_id, told.transcript_path.clone(), dir).map(|scene| line(&scene, &told));
    let foreign = wrap.map(|command| foreign(command, input.as_bytes(), dir));
    let mut out = std::io::stdout().lock();
    for text in line.into_iter().chain(foreign.flatten()) {
        // A client that went away reads no status line.
        let _ = writeln!(out, "{text}");
    }
}

fn line(scene: &Scene, told: &StatusInput) -> String {
    keep_figure(scene, told);
    let (watch, reading) = (scene.watch(), scene.reading());
    if let Some(reading) = &reading {
        scene.publish(&watch, reading);
    }
    let issue = scene.issue_name();
    StatusLine {
        percent: reading.as_ref().map(Reading::percent),
        level: reading.as_ref().map_or(Level::L0, |reading| reading.level(scene.settings.levels)),
        issue: issue.as_deref(),
        checkpoint: watch.word(),
    }
    .render(std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()))
}

/// Keeps what only the status line is told, if it is news.
fn keep_figure(scene: &Scene, told: &StatusInput) {
    let Some(window_tokens) = told.context_window.context_window_size else { return };
    let figure = Figure { at: scene.now, used_tokens: told.context_window.total_input_tokens, window_tokens };
    let same = |old: Figure| Figure { at: figure.at, ..old } == figure;
    if scene.files.figure().is_some_and(same) {
        return;
    }
    if let Err(error) = scene.files.keep_figure(&figure) {
        scene.complain(&error);
    }
}

/// What the status line that stood here before says of the same input.
fn foreign(command: &OsStr, input: &[u8], dir: &Path) -> Option<String> {
    let said = detached::filter(command, input, dir).ok()?;
    let said = String::from_utf8_lossy(&said);
    let said = said.trim_end_matches('\n');
    (!said.is_empty()).then(|| said.to_owned())
}
