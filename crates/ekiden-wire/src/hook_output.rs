//! What a hook answers: the same JSON from a callback of the control protocol and from a hook process.
//!
//! The texts that an agent reads are parameters; they come from the catalogue of prompts.

use serde_json::{Value, json};

use crate::hooks::HookEvent;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    Pass,
    /// Let the call run without asking anybody.
    Allow,
    /// Refuse the call, for this reason.
    Deny(String),
    /// Do not let it happen: compaction, or the end of a turn, for this reason.
    Block(String),
}

impl HookAnswer {
    pub fn output(&self) -> Value {
        match self {
            Self::Pass => pass(),
            Self::Allow => permission(true, ""),
            Self::Deny(reason) => permission(false, reason),
            Self::Block(reason) => block(reason),
        }
    }
}

/// No opinion: the client's own rules decide.
pub fn pass() -> Value {
    json!({})
}

/// For a `PreToolUse`: the call runs without a question, or is refused for a reason that the agent
/// reads.
pub fn permission(allowed: bool, reason: &str) -> Value {
    json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": if allowed { "allow" } else { "deny" },
        "permissionDecisionReason": reason,
    }})
}

/// For a Stop or a compaction: it is prevented, for this reason.
pub fn block(reason: &str) -> Value {
    json!({"decision": "block", "reason": reason})
}

/// A text that is added to what the agent reads next.
pub fn context(event: HookEvent, text: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": event.name(), "additionalContext": text}})
}

/// For a `PreToolUse`: the call is refused for a reason that the agent reads, and the person reads another.
pub fn refusal(reason: &str, person: &str) -> Value {
    let mut answer = permission(false, reason);
    answer["systemMessage"] = person.into();
    answer
}

/// A text for the person on the screen and one for the agent; either may be empty.
pub fn messages(event: HookEvent, person: &str, agent: &str) -> Value {
    let mut answer = if agent.is_empty() {
        pass()
    } else {
        context(event, agent)
    };
    if !person.is_empty() {
        answer["systemMessage"] = person.into();
    }
    answer
}

/// The same, and the session ends with it, whatever it was about to do.
pub fn ending(mut answer: Value, why: &str) -> Value {
    answer["continue"] = false.into();
    answer["stopReason"] = why.into();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: MON-004
    #[test]
    fn what_nobody_says_is_not_there() {
        assert_eq!(messages(HookEvent::Stop, "", ""), json!({}));
        assert_eq!(
            messages(HookEvent::Stop, "a", ""),
            json!({"systemMessage": "a"})
        );
        let both = messages(HookEvent::PostToolBatch, "a", "b");
        assert_eq!(both["hookSpecificOutput"]["additionalContext"], "b");
        assert_eq!(both["systemMessage"], "a");
    }
}
