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

/// To a `PreToolUse`: the call is refused for a reason that the agent reads; `stop` ends the turn too, for
/// a reason that the person reads.
#[must_use]
pub fn refusal(reason: &str, stop: Option<&str>) -> Value {
    let mut answer = permission(false, reason);
    if let Some(stop) = stop {
        answer["continue"] = false.into();
        answer["stopReason"] = stop.into();
        answer["systemMessage"] = stop.into();
    }
    answer
}

/// A text for the person on the screen and one for the agent; either may be empty.
#[must_use]
pub fn told(event: HookEvent, person: &str, agent: &str) -> Value {
    let mut answer = if agent.is_empty() { pass() } else { context(event, agent) };
    if !person.is_empty() {
        answer["systemMessage"] = person.into();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: MON-004
    #[test]
    fn what_nobody_says_is_not_there() {
        assert_eq!(told(HookEvent::Stop, "", ""), json!({}));
        assert_eq!(told(HookEvent::Stop, "a", ""), json!({"systemMessage": "a"}));
        let both = told(HookEvent::PostToolBatch, "a", "b");
        assert_eq!(both["hookSpecificOutput"]["additionalContext"], "b");
        assert_eq!(both["systemMessage"], "a");
    }
}
