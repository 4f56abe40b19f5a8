//! What a hook answers: the same JSON from a callback of the control protocol and from a hook process.
//!
//! The texts that an agent reads are parameters; they come from the catalogue of prompts.

use serde_json::{Value, json};

use crate::hooks::HookEvent;

/// No opinion: the client's own rules decide.
#[must_use]
pub fn pass() -> Value {
    json!({})
}

/// To a `PreToolUse`: the call runs without a question, or is refused for a reason that the agent
/// reads.
#[must_use]
pub fn permission(allowed: bool, reason: &str) -> Value {
    json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": if allowed { "allow" } else { "deny" },
        "permissionDecisionReason": reason,
    }})
}

/// To a Stop or a compaction: it is held off, for this reason.
#[must_use]
pub fn block(reason: &str) -> Value {
    json!({"decision": "block", "reason": reason})
}

/// A text that the agent reads beside what it was about to read anyway.
#[must_use]
pub fn context(event: HookEvent, text: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": event.name(), "additionalContext": text}})
}
