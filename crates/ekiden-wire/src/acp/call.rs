//! A tool call, as its updates describe it, in Claude Code's names.

use std::path::Path;

use serde_json::{Value, json};

use crate::hooks::HookCall;
use crate::stream::ToolResult;
use crate::tools::Call;
use crate::{excerpt, json, limits};

const PATHS_MAX: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct OpenCall {
    pub(super) id: String,
    pub(super) is_shown: bool,
    /// The size of its output, in bytes.
    pub(super) bytes: u64,
    kind: String,
    title: String,
    status: String,
    command: Option<String>,
    url: Option<String>,
    paths: Vec<String>,
    code: Option<i64>,
    output: String,
}

impl OpenCall {
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Takes over what an update contains; what it leaves out stays.
    pub(super) fn learn(&mut self, update: &Value) {
        let text = |name: &str, into: &mut String| {
            if let Some(text) = update[name].as_str() {
                *into = excerpt::of_text(text, limits::WORDS);
            }
        };
        text("kind", &mut self.kind);
        text("title", &mut self.title);
        text("status", &mut self.status);
        let input = &update["rawInput"];
        if let Some(command) = command(&input["command"]) {
            self.command = Some(command);
        }
        if let Some(url) = input["url"].as_str() {
            self.url = Some(excerpt::of_text(url, limits::WORDS));
        }
        let content = json::elements(&update["content"]);
        let listed = json::elements(&update["locations"]).iter().chain(content);
        let named = ["path", "file_path", "filePath", "absolute_path"];
        let paths = listed.map(|place| &place["path"]);
        for path in paths.chain(named.iter().map(|name| &input[*name])) {
            if let Some(path) = path.as_str()
                && self.paths.len() < PATHS_MAX
                && !self.paths.iter().any(|known| known == path)
            {
                self.paths.push(path.to_owned());
            }
        }
        let raw = &update["rawOutput"];
        let code = [
            &update["_meta"]["terminal_exit"]["exit_code"],
            &raw["metadata"]["exit"],
            &raw["exit_code"],
            &raw["exitCode"],
        ];
        let parts = json::elements(&raw["contents"]).iter();
        let mut code = code.into_iter().chain(parts.map(|part| &part["exitCode"]));
        self.code = code.find_map(Value::as_i64).or(self.code);
        self.learn_output(update);
    }

    /// Each update contains all output so far.
    fn learn_output(&mut self, update: &Value) {
        let content = json::elements(&update["content"]);
        let texts = content
            .iter()
            .filter_map(|one| one["content"]["text"].as_str());
        let texts: Vec<&str> = texts.collect();
        let raw = &update["rawOutput"];
        if !texts.is_empty() {
            self.output = excerpt::of_text(&texts.concat(), limits::RESULT);
        } else if let Some(text) = raw.as_str().or(raw["output"].as_str()) {
            self.output = excerpt::of_text(text, limits::RESULT);
        }
        let told = update["content"]
            .to_string()
            .len()
            .max(raw.to_string().len());
        self.bytes = self.bytes.max(told as u64);
    }

    /// An agent may report neither that a permitted call began nor that a refused one is over.
    pub(super) fn decided(&mut self, may: bool) {
        let status = if may { "in_progress" } else { "failed" };
        status.clone_into(&mut self.status);
    }

    /// We know what it does.
    pub(super) fn is_ready(&self) -> bool {
        let is_named = !self.kind.is_empty() || !self.title.is_empty();
        is_named && (self.status != "pending" || self.command.is_some())
    }

    pub(super) fn is_over(&self) -> bool {
        self.status == "completed" || self.status == "failed"
    }

    fn name(&self) -> &str {
        match self.kind.as_str() {
            "execute" => "Bash",
            "edit" | "delete" | "move" => "Edit",
            "read" => "Read",
            "search" => "Grep",
            "fetch" => "WebFetch",
            "" | "other" => &self.title,
            other => other,
        }
    }

    fn input(&self, path: Option<&String>) -> Value {
        match self.name() {
            "Bash" => json!({"command": self.command, "description": self.title}),
            "Edit" | "Read" => json!({"file_path": path}),
            "WebFetch" => json!({"url": self.url.as_ref().unwrap_or(&self.title)}),
            _ => json!({"description": self.title}),
        }
    }

    pub(super) fn to_call(&self) -> Call {
        let input = self.input(self.paths.first());
        Call::new(self.id.clone(), self.name().to_owned(), &input)
    }

    /// The questions to the guard: for a call with several files, one for each.
    pub(super) fn hooks(&self, dir: &Path) -> Vec<HookCall> {
        let paths: Vec<Option<&String>> = match self.name() {
            // Nobody judges so many one by one.
            "Edit" | "Read" if (1..PATHS_MAX).contains(&self.paths.len()) => {
                self.paths.iter().map(Some).collect()
            }
            _ => vec![None],
        };
        let hook = |path| {
            HookCall::of(&json!({
                "hook_event_name": "PreToolUse", "tool_name": self.name(), "cwd": dir,
                "tool_input": self.input(path), "tool_use_id": self.id,
            }))
        };
        paths.into_iter().map(hook).collect()
    }

    pub(super) fn result(self) -> ToolResult {
        let is_error = self.status == "failed" || self.code.is_some_and(|code| code != 0);
        let excerpt = match self.code.filter(|code| *code != 0) {
            Some(code) => format!("Exit code {code}\n{}", self.output),
            None => self.output,
        };
        ToolResult {
            tool_use_id: self.id,
            is_error,
            excerpt,
            lines: None,
        }
    }
}

/// A command, as a line or as words.
fn command(told: &Value) -> Option<String> {
    let words: Vec<&str> = json::elements(told)
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let line = shlex::try_join(words.iter().copied()).ok();
    let line = line.filter(|line| !line.is_empty());
    told.as_str().map(str::to_owned).or(line)
}
