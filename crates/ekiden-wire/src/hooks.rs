//! What the client tells a hook, in the guard's words.
//!
//! The same input reaches a callback of the control protocol and a hook process. Only what a verdict
//! needs is read; a large `tool_input` is skipped over.

use std::path::{Path, PathBuf};

use ekiden_core::guard::HookInput;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::done::{self, DoneCall};
use crate::excerpt;
use crate::limits;
use crate::stream::ApiErrorKind;
use crate::tools::ToolInput;

/// The moments at which the client asks.
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
    /// A tool has run.
    PostToolUse,
    /// All tools of a response have run.
    PostToolBatch,
    /// A conversation begins or goes on.
    SessionStart,
    /// A conversation is left.
    SessionEnd,
    /// The turn failed.
    StopFailure,
    /// Another moment.
    #[default]
    #[serde(other)]
    Other,
}

impl HookEvent {
    /// The client's name of the moment.
    #[must_use]
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
            Self::Other => "Other",
        }
    }
}

/// One call of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCall {
    /// The moment.
    pub event: HookEvent,
    /// What the guard judges. Links in paths are the caller's to resolve.
    pub input: HookInput,
    /// The conversation.
    pub session_id: String,
    /// The subagent that asks; none on the main thread.
    pub agent_id: Option<String>,
    /// The call that is about to run.
    pub tool_use_id: Option<String>,
    /// Its tool.
    pub tool: String,
    /// At a Stop: a hook has held this turn before.
    pub stop_hook_active: bool,
    /// At a Stop: the last words, cut if long.
    pub last_words: String,
    /// At a Stop: how much work still runs in the background.
    pub background_tasks: usize,
    /// At a prompt: its beginning and end.
    pub prompt: String,
    /// Where the client keeps the conversation.
    pub transcript: PathBuf,
    /// At a failure: what kind.
    pub failure: ApiErrorKind,
    /// Where the client works.
    pub cwd: PathBuf,
    /// At a beginning: how the client says that it begins.
    pub source: String,
    /// After a batch of tools: its calls.
    pub calls: Vec<DoneCall>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawHook<'a> {
    hook_event_name: HookEvent,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    agent_id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    stop_hook_active: Option<bool>,
    #[serde(borrow)]
    last_assistant_message: Option<&'a RawValue>,
    background_tasks: Option<Vec<IgnoredAny>>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    transcript_path: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
}

impl Default for HookCall {
    fn default() -> Self {
        RawHook::default().call()
    }
}

impl HookCall {
    /// Reads a hook's input. What cannot be read is a call of an unknown moment: it is answered like
    /// any other, since silence would stop the agent.
    #[must_use]
    pub fn parse(json: &str) -> Self {
        serde_json::from_str::<RawHook<'_>>(json).unwrap_or_default().call()
    }
}

impl RawHook<'_> {
    fn call(&self) -> HookCall {
        HookCall {
            event: self.hook_event_name,
            input: self.input(),
            session_id: text(self.session_id).unwrap_or_default(),
            agent_id: text(self.agent_id),
            tool_use_id: text(self.tool_use_id),
            tool: text(self.tool_name).unwrap_or_default(),
            stop_hook_active: self.stop_hook_active.unwrap_or(false),
            last_words: cut(self.last_assistant_message),
            background_tasks: self.background_count(),
            prompt: cut(self.prompt),
            transcript: text(self.transcript_path).unwrap_or_default().into(),
            failure: self.failure(),
            cwd: text(self.cwd).unwrap_or_default().into(),
            source: text(self.source).unwrap_or_default(),
            calls: self.tool_calls.map(done::calls).unwrap_or_default(),
        }
    }

    fn input(&self) -> HookInput {
        match self.hook_event_name {
            HookEvent::PreToolUse => self.pre_tool(),
            HookEvent::Stop => HookInput::Stop { background: self.background_count() > 0 },
            HookEvent::PreCompact => HookInput::PreCompact,
            HookEvent::UserPromptSubmit
            | HookEvent::PostToolUse
            | HookEvent::PostToolBatch
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::StopFailure
            | HookEvent::Other => HookInput::Other,
        }
    }

    fn pre_tool(&self) -> HookInput {
        let input = self.tool_input.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let input: ToolInput<'_> = input.unwrap_or_default();
        let cwd = text(self.cwd).unwrap_or_default();
        let tool = input.guarded(&text(self.tool_name).unwrap_or_default(), Path::new(&cwd));
        HookInput::PreTool { tool, subagent: self.agent_id.is_some() }
    }

    /// Another moment's `error` is a text of a tool's, and no kind.
    fn failure(&self) -> ApiErrorKind {
        let kind = self.error.filter(|_| self.hook_event_name == HookEvent::StopFailure);
        kind.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    fn background_count(&self) -> usize {
        self.background_tasks.as_ref().map_or(0, Vec::len)
    }
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    raw.and_then(excerpt::whole)
}

fn cut(raw: Option<&RawValue>) -> String {
    raw.map(|raw| excerpt::of_json(raw, limits::WORDS)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ekiden_core::guard::ToolUse;

    use super::*;
    use crate::fixtures;

    fn calls(event: HookEvent) -> Vec<HookCall> {
        let all = fixtures::lines("hooks.jsonl").into_iter().map(|line| HookCall::parse(&line));
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
        assert_eq!(calls[0].input, shell("echo hi; env | grep -i claude | sort", false));
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
        assert_eq!(calls(HookEvent::UserPromptSubmit)[0].prompt, "Do the thing\n");
        assert_eq!(calls(HookEvent::Other).len(), 9);
        assert_eq!(calls(HookEvent::StopFailure)[0].failure, ApiErrorKind::RateLimit);
        assert!(calls(HookEvent::SessionStart)[0].transcript.is_absolute());
    }

    #[test]
    fn an_odd_input_is_still_a_call() {
        for odd in ["", "[]", "3", r#"{"hook_event_name":7}"#] {
            assert_eq!(HookCall::parse(odd), HookCall::default());
        }
        let odd = HookCall::parse(r#"{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":[]}"#);
        assert_eq!(odd.input, HookInput::PreTool { tool: ToolUse::Other, subagent: false });
    }
}
