//! The agent's tools by name: what a call would do, and to what.

use std::path::{Path, PathBuf};

use ekiden_core::guard;
use serde_json::Value;

use crate::client_settings::is_ekiden;
use crate::excerpt;
use crate::limits;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    Read,
    /// Writes or edits a file.
    Edit,
    /// Runs a command in a shell.
    Shell,
    Subagent,
    Schedule,
    Other,
}

impl ToolKind {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The id that its result will name.
    pub id: String,
    pub name: String,
    pub kind: ToolKind,
    /// The path, command, pattern or address, at most [`limits::TARGET_BYTES_MAX`] bytes; may be
    /// empty.
    pub target: String,
}

impl Call {
    pub fn new(id: String, name: String, input: &Value) -> Self {
        Self {
            id,
            kind: ToolKind::of(&name),
            name,
            target: target(input),
        }
    }
}

/// What a call is about, cut to a line.
fn target(input: &Value) -> String {
    let found = telling(input).map(|value| excerpt::of_json(value, limits::TARGET));
    found.unwrap_or_default()
}

/// The most informative member of a call's input: the first of these that it has.
pub(crate) fn telling(input: &Value) -> Option<&Value> {
    let members = [
        "file_path",
        "notebook_path",
        "command",
        "pattern",
        "url",
        "query",
        "path",
        "description",
        "skill",
    ];
    let mut found = members.iter().map(|member| &input[*member]);
    found.find(|value| !value.is_null())
}

/// What the guard judges. `cwd` makes paths absolute; the caller resolves links.
pub(crate) fn guarded(name: &str, input: &Value, cwd: &Path) -> guard::ToolUse {
    let file = input["file_path"]
        .as_str()
        .or(input["notebook_path"].as_str())
        .map(|path| cwd.join(path));
    let command = input["command"].as_str().map(str::to_owned);
    let used = match ToolKind::of(name) {
        ToolKind::Read => file.map(guard::ToolUse::Read),
        ToolKind::Edit => file.map(guard::ToolUse::Write),
        ToolKind::Shell => command.map(guard::ToolUse::Shell),
        ToolKind::Schedule => Some(guard::ToolUse::Schedule),
        ToolKind::Other if writes_handoff(name, input) => Some(guard::ToolUse::Handoff),
        ToolKind::Other if name == "Grep" => Some(searched(input, "glob", cwd)),
        ToolKind::Other if name == "Glob" => Some(searched(input, "pattern", cwd)),
        ToolKind::Other => own_tool(name),
        ToolKind::Subagent => None,
    };
    used.unwrap_or(guard::ToolUse::Other)
}

/// A search reads its directory, as far as a pattern for names does not lead into another.
fn searched(input: &Value, names: &str, cwd: &Path) -> guard::ToolUse {
    let parts = [&input["path"], &input[names]].into_iter();
    let path = parts.filter_map(Value::as_str).collect::<PathBuf>();
    guard::ToolUse::Read(cwd.join(path))
}

/// The guard's skills, by the names under which they are installed.
fn writes_handoff(tool: &str, input: &Value) -> bool {
    let skill = input["skill"].as_str().unwrap_or_default();
    let name = skill
        .strip_prefix("ekiden-")
        .or_else(|| skill.strip_prefix("ekiden:"))
        .unwrap_or(skill);
    tool == "Skill" && GUARD_COMMANDS.contains(&name)
}

/// A tool of our MCP server that the guard itself must allow. A plugin cannot bring a permission rule for its
/// tools, and `write_handoff` must also work at L3.
fn own_tool(name: &str) -> Option<guard::ToolUse> {
    let of_plugin = name.strip_prefix("mcp__plugin_ekiden_ekiden__");
    let handoff = [of_plugin, name.strip_prefix("mcp__ekiden__")].contains(&Some("write_handoff"));
    (handoff || of_plugin.is_some()).then_some(guard::ToolUse::Own { handoff })
}

/// The commands of the guard that an agent runs, also as skills.
const GUARD_COMMANDS: [&str; 3] = ["checkpoint", "handoff", "orient"];

/// Whether a shell line only runs one of the guard's commands.
pub fn runs_guard(line: &str) -> bool {
    let is_plain = !line.contains(['&', '|', ';', '<', '>', '$', '`', '(', '\n']);
    let words = shlex::split(line).unwrap_or_default();
    let named = words.first().is_some_and(|word| is_ekiden(word));
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let of_loop = word(1) == "ralph" && word(2) == "checkpoint";
    is_plain && named && (GUARD_COMMANDS.contains(&word(1)) || of_loop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(json: &str) -> Value {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_target_is_what_the_call_is_about() {
        for (json, target) in [
            (
                r#"{"file_path":"/w/a.rs","content":"fn main() {}"}"#,
                "/w/a.rs",
            ),
            (
                r#"{"command":"cargo test","description":"run"}"#,
                "cargo test",
            ),
            (r#"{"pattern":"fn .*","path":"src"}"#, "fn .*"),
            (r#"{"description":"sub","prompt":"do it"}"#, "sub"),
            (r#"{"unknown":[1,2]}"#, ""),
        ] {
            assert_eq!(super::target(&input(json)), target);
        }
        let long = format!(r#"{{"command":"{}"}}"#, "x ".repeat(500));
        assert!(target(&input(&long)).len() <= limits::TARGET_BYTES_MAX);
    }

    #[test]
    fn the_guard_sees_absolute_paths() {
        let cwd = Path::new("/w");
        let guarded = |name, json| super::guarded(name, &input(json), cwd);
        assert_eq!(
            guarded("Edit", r#"{"file_path":"a/b"}"#),
            guard::ToolUse::Write("/w/a/b".into())
        );
        assert_eq!(
            guarded("NotebookEdit", r#"{"notebook_path":"/n.ipynb"}"#),
            guard::ToolUse::Write("/n.ipynb".into())
        );
        assert_eq!(
            guarded("Read", r#"{"file_path":"/etc/x"}"#),
            guard::ToolUse::Read("/etc/x".into())
        );
        assert_eq!(
            guarded("Bash", r#"{"command":"ls"}"#),
            guard::ToolUse::Shell("ls".into())
        );
        for (name, json, path) in [
            ("Grep", r#"{"pattern":"x","path":".ekiden"}"#, "/w/.ekiden"),
            (
                "Grep",
                r#"{"pattern":"x","glob":".ekiden/**"}"#,
                "/w/.ekiden/**",
            ),
            ("Grep", r#"{"pattern":"x"}"#, "/w"),
            (
                "Glob",
                r#"{"pattern":"*.md","path":"/w/.ekiden"}"#,
                "/w/.ekiden/*.md",
            ),
            ("Glob", r#"{"pattern":"/s/**"}"#, "/s/**"),
        ] {
            assert_eq!(
                guarded(name, json),
                guard::ToolUse::Read(path.into()),
                "{json}"
            );
        }
        assert_eq!(guarded("CronCreate", "{}"), guard::ToolUse::Schedule);
        assert_eq!(
            guarded("Skill", r#"{"skill":"ekiden:handoff"}"#),
            guard::ToolUse::Handoff
        );
        assert_eq!(
            guarded("Skill", r#"{"skill":"review"}"#),
            guard::ToolUse::Other
        );
        assert_eq!(
            guarded("Write", r#"{"content":"x"}"#),
            guard::ToolUse::Other
        );
        assert_eq!(
            guarded("mcp__plugin_ekiden_ekiden__search", "{}"),
            guard::ToolUse::Own { handoff: false }
        );
        assert_eq!(
            guarded("mcp__ekiden__write_handoff", "{}"),
            guard::ToolUse::Own { handoff: true }
        );
        assert_eq!(guarded("mcp__ekiden__search", "{}"), guard::ToolUse::Other);
        assert_eq!(
            guarded("mcp__x__Write", r#"{"file_path":"/a"}"#),
            guard::ToolUse::Other
        );
    }

    // shows: CHK-005
    #[test]
    fn the_guards_own_commands_are_known() {
        for line in [
            "ekiden handoff",
            "'/opt/my tools/ekiden' handoff --new",
            "/opt/ekiden-0.2 handoff",
            "ekiden checkpoint --estimate 'a task'",
        ] {
            assert!(runs_guard(line), "{line}");
        }
        for line in [
            "ekiden run task.md",
            "ekiden handoff && make",
            "ekiden handoff $(make)",
            "make handoff",
            "",
        ] {
            assert!(!runs_guard(line), "{line}");
        }
    }
}
