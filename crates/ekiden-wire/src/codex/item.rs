//! Codex's items under Claude Code's tool names.

use std::path::Path;

use serde_json::{Value, json};

use crate::hooks::HookCall;
use crate::stream::ToolResult;
use crate::tools::Call;
use crate::{excerpt, json, limits};

/// Shells in which Codex wraps a command.
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];
/// Where they are. A program with such a name elsewhere may be anything.
const SHELL_DIRS: [&str; 6] = [
    "",
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/run/current-system/sw/bin",
];

pub(super) fn call(item: &Value) -> Option<Call> {
    let id = json::text(&item["id"]);
    let (name, input) = match item["type"].as_str()? {
        "commandExecution" => ("Bash".to_owned(), json!({"command": command(item)})),
        "fileChange" => {
            let path = paths(item).into_iter().next();
            ("Edit".to_owned(), json!({"file_path": path}))
        }
        "mcpToolCall" => {
            let text = |name: &str| json::text(&item[name]);
            let name = format!("mcp__{}__{}", text("server"), text("tool"));
            (name, item["arguments"].clone())
        }
        "webSearch" => ("WebSearch".to_owned(), json!({"query": item["query"]})),
        _ => return None,
    };
    Some(Call::new(id, name, &input))
}

pub(super) fn result(item: &Value) -> Option<ToolResult> {
    let call = call(item)?;
    let code = item["exitCode"].as_i64().filter(|code| *code != 0);
    let is_error = code.is_some() || matches!(item["status"].as_str(), Some("failed" | "declined"));
    let output = item["aggregatedOutput"].as_str().unwrap_or_default();
    let output = excerpt::of_text(output, limits::RESULT);
    Some(ToolResult {
        tool_use_id: call.id,
        is_error,
        excerpt: match code {
            Some(code) => format!("Exit code {code}\n{output}"),
            None => output,
        },
        lines: None,
    })
}

/// The files that a change touches.
pub(super) fn paths(item: &Value) -> Vec<String> {
    let changes = json::elements(&item["changes"]).iter();
    let path = |change: &Value| change["path"].as_str().map(str::to_owned);
    let moved = |change: &Value| change["kind"]["move_path"].as_str().map(str::to_owned);
    let paths = changes.flat_map(|change| [path(change), moved(change)]);
    let paths: Vec<String> = paths.flatten().collect();
    // Nobody judges so many one by one.
    match paths.len() <= limits::OPEN_CALLS_MAX {
        true => paths,
        false => Vec::new(),
    }
}

/// The command without the shell that wraps it.
fn command(item: &Value) -> String {
    let line = json::text(&item["command"]);
    let words = shlex::split(&line).unwrap_or_default();
    let is_shell = |word: &String| {
        let mut known = SHELL_DIRS
            .iter()
            .flat_map(|dir| SHELLS.map(|shell| Path::new(dir).join(shell)));
        known.any(|shell| shell.as_os_str() == word.as_str())
    };
    match &words[..] {
        [shell, flag, command] if is_shell(shell) && (flag == "-lc" || flag == "-c") => {
            command.clone()
        }
        _ => line,
    }
}

/// The questions to the guard about a command.
pub(super) fn of_command(id: &str, params: &Value, dir: &Path) -> Vec<HookCall> {
    let input = match params["command"].is_string() {
        true => json!({"command": command(params)}),
        false => json!({}),
    };
    vec![hook(id, "Bash", &input, dir)]
}

/// The questions to the guard about a change of these files; it knows nothing of unknown ones.
pub(super) fn of_change(id: &str, paths: &[String], dir: &Path) -> Vec<HookCall> {
    let edit = |path: &String| hook(id, "Edit", &json!({"file_path": path}), dir);
    match paths {
        [] => vec![hook(id, "Edit", &json!({}), dir)],
        paths => paths.iter().map(edit).collect(),
    }
}

/// The question to the guard about a tool of the user's MCP server. It comes without the id of its call.
pub(super) fn of_mcp(params: &Value, dir: &Path) -> Vec<HookCall> {
    let server = json::text(&params["serverName"]);
    let tool = json::text(&params["_meta"]["tool_name"]);
    vec![hook("", &format!("mcp__{server}__{tool}"), &json!({}), dir)]
}

fn hook(id: &str, tool: &str, input: &Value, dir: &Path) -> HookCall {
    HookCall::of(&json!({
        "hook_event_name": "PreToolUse", "tool_name": tool, "cwd": dir, "tool_input": input,
        "tool_use_id": id,
    }))
}
