//! The agent's tools by name: what a call would do, and to what.

use std::path::{Path, PathBuf};

use ekiden_core::guard;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::excerpt;
use crate::limits;

/// What kind of thing a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads a file.
    Read,
    /// Writes or edits a file.
    Edit,
    /// Runs a command in a shell.
    Shell,
    /// Starts a subagent.
    Subagent,
    /// Schedules work for later.
    Schedule,
    /// Anything else.
    Other,
}

impl ToolKind {
    /// The kind of the tool of this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "Read" => Self::Read,
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Self::Edit,
            "Bash" | "Monitor" => Self::Shell,
            "Agent" | "Task" => Self::Subagent,
            "ScheduleWakeup" => Self::Schedule,
            _ if name.starts_with("Cron") => Self::Schedule,
            _ => Self::Other,
        }
    }
}

/// A call of a tool, in words that any agent's calls have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The id that its result will name.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What kind of thing it does.
    pub kind: ToolKind,
    /// The path, command, pattern or address, at most [`limits::TARGET_BYTES_MAX`] bytes; may be
    /// empty.
    pub target: String,
}

/// The parts of a call's input that say what it is about. Large parts are skipped over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToolInput<'a> {
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    notebook_path: Option<&'a RawValue>,
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    pattern: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    query: Option<&'a RawValue>,
    #[serde(borrow)]
    path: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    skill: Option<&'a RawValue>,
}

impl ToolInput<'_> {
    fn file(&self) -> Option<&RawValue> {
        self.file_path.or(self.notebook_path)
    }

    /// What the call is about, cut to a line.
    pub(crate) fn target(&self) -> String {
        let rest = [self.pattern, self.url, self.query, self.path, self.description, self.skill];
        let found = self.file().or(self.command).or_else(|| rest.into_iter().flatten().next());
        found.map(|raw| excerpt::of_json(raw, limits::TARGET)).unwrap_or_default()
    }

    /// What the guard judges. Paths become absolute by `cwd`; links are the caller's to resolve.
    pub(crate) fn guarded(&self, name: &str, cwd: &Path) -> guard::ToolUse {
        let file = || self.file().and_then(excerpt::whole).map(|path| absolute(cwd, &path));
        let command = || self.command.and_then(excerpt::whole);
        match ToolKind::of(name) {
            ToolKind::Read => file().map_or(guard::ToolUse::Other, guard::ToolUse::Read),
            ToolKind::Edit => file().map_or(guard::ToolUse::Other, guard::ToolUse::Write),
            ToolKind::Shell => command().map_or(guard::ToolUse::Other, guard::ToolUse::Shell),
            ToolKind::Schedule => guard::ToolUse::Schedule,
            ToolKind::Other if self.writes_handoff(name) => guard::ToolUse::Handoff,
            ToolKind::Subagent | ToolKind::Other => guard::ToolUse::Other,
        }
    }

    /// The skill that writes a handoff, by the names under which it is installed.
    fn writes_handoff(&self, tool: &str) -> bool {
        let skill = self.skill.and_then(excerpt::whole).unwrap_or_default();
        tool == "Skill" && matches!(skill.as_str(), "handoff" | "ekiden-handoff" | "ekiden:handoff")
    }
}

fn absolute(cwd: &Path, path: &str) -> PathBuf {
    cwd.join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(json: &str) -> ToolInput<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_target_is_what_the_call_is_about() {
        for (json, target) in [
            (r#"{"file_path":"/w/a.rs","content":"fn main() {}"}"#, "/w/a.rs"),
            (r#"{"command":"cargo test","description":"run"}"#, "cargo test"),
            (r#"{"pattern":"fn .*","path":"src"}"#, "fn .*"),
            (r#"{"description":"sub","prompt":"do it"}"#, "sub"),
            (r#"{"unknown":[1,2]}"#, ""),
        ] {
            assert_eq!(input(json).target(), target);
        }
        let long = format!(r#"{{"command":"{}"}}"#, "x ".repeat(500));
        assert!(input(&long).target().len() <= limits::TARGET_BYTES_MAX);
    }

    #[test]
    fn the_guard_sees_absolute_paths() {
        let cwd = Path::new("/w");
        let guarded = |name, json| input(json).guarded(name, cwd);
        assert_eq!(guarded("Edit", r#"{"file_path":"a/b"}"#), guard::ToolUse::Write("/w/a/b".into()));
        assert_eq!(
            guarded("NotebookEdit", r#"{"notebook_path":"/n.ipynb"}"#),
            guard::ToolUse::Write("/n.ipynb".into())
        );
        assert_eq!(guarded("Read", r#"{"file_path":"/etc/x"}"#), guard::ToolUse::Read("/etc/x".into()));
        assert_eq!(guarded("Bash", r#"{"command":"ls"}"#), guard::ToolUse::Shell("ls".into()));
        assert_eq!(guarded("CronCreate", "{}"), guard::ToolUse::Schedule);
        assert_eq!(guarded("Skill", r#"{"skill":"ekiden:handoff"}"#), guard::ToolUse::Handoff);
        assert_eq!(guarded("Skill", r#"{"skill":"orient"}"#), guard::ToolUse::Other);
        assert_eq!(guarded("Write", r#"{"content":"x"}"#), guard::ToolUse::Other);
        assert_eq!(guarded("mcp__x__Write", r#"{"file_path":"/a"}"#), guard::ToolUse::Other);
    }
}
