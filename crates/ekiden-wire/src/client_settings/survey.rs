//! What the client sees of the guard in a settings file.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::BYTE_ORDER_MARK;
use super::commands::GuardCommand;

/// The plugin's name, before the name of the marketplace that it came from.
const PLUGIN_PREFIX: &str = "ekiden@";

/// A position in a text, counted from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What the client sees of the guard in one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// The events at which our hook is called, and the programs that are called.
    pub hooks: BTreeMap<String, Vec<String>>,
    /// The program of the status line, if it is ours.
    pub status_line: Option<String>,
    /// The file sets a status line, ours or another.
    pub has_status_line: bool,
    pub plugin: bool,
}

impl Survey {
    /// Reads a file as the client does. None if the client would ignore it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let settings = read(bytes)?;
        Some(Self {
            hooks: hooks(&settings),
            status_line: ours(&settings["statusLine"]).map(|ours| ours.program().to_owned()),
            has_status_line: !settings["statusLine"].is_null(),
            plugin: settings["enabledPlugins"]
                .as_object()
                .is_some_and(|plugins| {
                    plugins
                        .iter()
                        .any(|(name, on)| name.starts_with(PLUGIN_PREFIX) && *on == true)
                }),
        })
    }

    pub fn programs_at(&self, event: &str) -> impl Iterator<Item = &str> {
        self.hooks
            .get(event)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// Every program named, each once.
    pub fn programs(&self) -> Vec<&str> {
        let hooks = self.hooks.values().flatten();
        let mut all: Vec<&str> = hooks.chain(&self.status_line).map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The settings in a file, as the client reads them. None if the client would ignore the file.
pub fn read(bytes: &[u8]) -> Option<Value> {
    serde_json::from_str(without_mark(std::str::from_utf8(bytes).ok()?)).ok()
}

/// Where the client stops reading, if it does: then nothing in the file has an effect. The client treats an
/// empty file as missing.
pub fn load_fault(text: &str) -> Option<Position> {
    let text = without_mark(text);
    if text.trim().is_empty() {
        return None;
    }
    let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err()?;
    Some(Position {
        line: error.line(),
        column: error.column(),
    })
}

fn hooks(settings: &Value) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (at, groups) in settings["hooks"].as_object().into_iter().flatten() {
        let groups = groups.as_array().into_iter().flatten();
        let entries = groups
            .filter_map(|group| group["hooks"].as_array())
            .flatten();
        for command in entries.filter_map(ours) {
            match command {
                GuardCommand::Hook { program, event } if event == *at => {
                    found.entry(event).or_default().push(program);
                }
                GuardCommand::Hook { .. } | GuardCommand::StatusLine { .. } => {}
            }
        }
    }
    found
}

fn ours(entry: &Value) -> Option<GuardCommand> {
    GuardCommand::parse(entry["command"].as_str()?)
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}
