//! The input of a hook.
//!
//! A callback of the control protocol and a hook process get the same input.

use std::path::{Path, PathBuf};

use ekiden_core::guard::HookInput;
use ekiden_core::guard::watch::BatchCall;
use ekiden_core::observation::without_private;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::done;
use crate::excerpt;
use crate::json;
use crate::limits;
use crate::stream::ApiErrorKind;
use crate::tools::guarded;

/// The events at which the client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum HookEvent {
    /// A tool is about to run.
    PreToolUse,
    /// The turn is about to end.
    Stop,
    /// The conversation is about to be summarised.
    PreCompact,
    /// A prompt begins a turn.
    UserPromptSubmit,
    PostToolUse,
    /// All tools of a response have run.
    PostToolBatch,
    /// A conversation begins or continues.
    SessionStart,
    SessionEnd,
    StopFailure,
    /// Nothing is running. Only the guard's own function inside the client reports this.
    Idle,
    #[default]
    #[serde(other)]
    Other,
}

impl HookEvent {
    /// The client's name of the event.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::Stop => "Stop",
            Self::PreCompact => "PreCompact",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolBatch => "PostToolBatch",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::StopFailure => "StopFailure",
            Self::Idle => "Idle",
            Self::Other => "Other",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCall {
    pub event: HookEvent,
    /// What the guard judges. The caller resolves links in paths.
    pub input: HookInput,
    pub session_id: String,
    /// The subagent that asks; none on the main thread.
    pub agent_id: Option<String>,
    pub tool: String,
    /// The address that it fetches; empty for most tools.
    pub url: String,
    pub tool_use_id: String,
    /// At a Stop: the last words, cut if long.
    pub last_words: String,
    /// At a Stop: how much work is still running in the background.
    pub background_tasks: usize,
    /// At a prompt: its beginning and end, without `<private>` spans.
    pub prompt: String,
    /// Where the client keeps the conversation.
    pub transcript: PathBuf,
    /// At a failure: what kind.
    pub failure: ApiErrorKind,
    pub cwd: PathBuf,
    /// At a start: how the client says that it starts. Before a compaction: what the client says triggered it. At the
    /// end: why it ends, according to the client.
    pub source: String,
    /// The client's permission mode, such as `plan`; empty if it does not say.
    pub mode: String,
    /// After a batch of tools: its calls.
    pub calls: Vec<BatchCall>,
    /// The context as the client itself counts it; only from a function inside the client.
    pub context: Option<ClientContext>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ClientContext {
    /// In use, in tokens; none before the first response.
    pub tokens: Option<u64>,
    /// The model's window, in tokens.
    pub window: u64,
}

impl Default for HookCall {
    fn default() -> Self {
        Self::of(&Value::Null)
    }
}

impl HookCall {
    /// Reads a hook's input. Unreadable input counts as a call of an unknown event: it is answered like
    /// any other, since silence would stop the agent.
    pub fn parse(json: &str) -> Self {
        Self::of(&json::parse(json.as_bytes()).unwrap_or_default())
    }

    pub(crate) fn of(hook: &Value) -> Self {
        let event = json::field(&hook["hook_event_name"]);
        let text = |name: &str| json::text(&hook[name]);
        let cut = |name: &str| excerpt::of_text(&text(name), limits::WORDS);
        let agent_id: Option<String> = json::field(&hook["agent_id"]);
        let background_tasks = json::elements(&hook["background_tasks"]).len();
        let input = match event {
            HookEvent::PreToolUse => HookInput::PreTool {
                tool: guarded(
                    &text("tool_name"),
                    &hook["tool_input"],
                    Path::new(&text("cwd")),
                ),
                subagent: agent_id.is_some(),
            },
            HookEvent::Stop => HookInput::Stop {
                background: background_tasks > 0,
            },
            HookEvent::PreCompact => HookInput::PreCompact,
            HookEvent::UserPromptSubmit
            | HookEvent::PostToolUse
            | HookEvent::PostToolBatch
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::StopFailure
            | HookEvent::Idle
            | HookEvent::Other => HookInput::Other,
        };
        Self {
            event,
            input,
            session_id: text("session_id"),
            agent_id,
            tool: text("tool_name"),
            url: json::text(&hook["tool_input"]["url"]),
            tool_use_id: text("tool_use_id"),
            last_words: cut("last_assistant_message"),
            background_tasks,
            prompt: excerpt::of_text(&without_private(&text("prompt")), limits::WORDS),
            transcript: text("transcript_path").into(),
            // At another event `error` is the text of a tool, not a kind.
            failure: if event == HookEvent::StopFailure {
                json::field(&hook["error"])
            } else {
                ApiErrorKind::default()
            },
            cwd: text("cwd").into(),
            source: text(match event {
                HookEvent::PreCompact => "trigger",
                HookEvent::SessionEnd => "reason",
                HookEvent::PreToolUse
                | HookEvent::PostToolUse
                | HookEvent::PostToolBatch
                | HookEvent::UserPromptSubmit
                | HookEvent::SessionStart
                | HookEvent::Stop
                | HookEvent::StopFailure
                | HookEvent::Idle
                | HookEvent::Other => "source",
            }),
            mode: text("permission_mode"),
            calls: done::calls(&hook["tool_calls"]),
            context: json::field(&hook["context"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::guard::ToolUse;

    use super::*;
    use crate::tests as fixtures;

    fn calls(event: HookEvent) -> Vec<HookCall> {
        let all = fixtures::lines("hooks.jsonl")
            .into_iter()
            .map(|line| HookCall::parse(&line));
        all.filter(|call| call.event == event).collect()
    }

    // shows: AGT-01
    #[test]
    fn a_tool_is_judged_with_its_thread() {
        let calls = calls(HookEvent::PreToolUse);
        let shell = |command: &str, subagent| HookInput::PreTool {
            tool: ToolUse::Shell(command.to_owned()),
            subagent,
        };
        assert_eq!(
            calls[0].input,
            shell("echo hi; env | grep -i claude | sort", false)
        );
        assert_eq!(calls[1].input, shell("echo sub", true));
        assert_eq!(calls[1].agent_id.as_deref(), Some("aef5f2207734f4487"));
    }

    #[test]
    fn a_stop_tells_what_still_runs() {
        let calls = calls(HookEvent::Stop);
        assert_eq!(calls[0].input, HookInput::Stop { background: false });
        assert_eq!(calls[0].last_words, "fake: script is over");
        assert_eq!(calls[1].input, HookInput::Stop { background: true });
        assert_eq!(calls[1].background_tasks, 1);
    }

    #[test]
    fn the_other_moments_have_their_names() {
        assert_eq!(calls(HookEvent::PreCompact)[0].input, HookInput::PreCompact);
        assert_eq!(
            calls(HookEvent::UserPromptSubmit)[0].prompt,
            "Do the thing\n"
        );
        assert_eq!(calls(HookEvent::Other).len(), 9);
        assert_eq!(
            calls(HookEvent::StopFailure)[0].failure,
            ApiErrorKind::RateLimit
        );
        assert!(calls(HookEvent::SessionStart)[0].transcript.is_absolute());
    }

    #[test]
    fn an_odd_input_is_still_a_call() {
        for odd in ["", "[]", "3", r#"{"hook_event_name":7}"#] {
            assert_eq!(HookCall::parse(odd), HookCall::default());
        }
        let odd = HookCall::parse(
            r#"{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":[]}"#,
        );
        assert_eq!(
            odd.input,
            HookInput::PreTool {
                tool: ToolUse::Other,
                subagent: false
            }
        );
    }
}
