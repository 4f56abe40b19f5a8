//! What an agent can do, by what it says of itself when it starts, and by what we measured.

use serde_json::Value;

/// Agents in which a second prompt joins the running turn: the turn's next request contains it.
const JOINING: [&str; 2] = ["OpenCode", "@agentclientprotocol/claude-agent-acp"];
/// Agents that report their own guess as the use of their context, far from what the service counts.
const GUESSING: [&str; 1] = ["Copilot"];
/// Agents whose tokens of a turn are only those of its last call (measured with opencode 1.18.33).
const TELLING_THE_LAST_CALL: [&str; 1] = ["OpenCode"];

/// Resumes a conversation, and replays it.
pub(super) const LOAD: &str = "session/load";

#[derive(Debug, Clone, Default)]
pub(super) struct Able {
    pub(super) joining: Joining,
    /// The request that resumes a conversation, if there is one.
    pub(super) resume: Option<&'static str>,
    /// The service counted what the agent reports about its context.
    pub(super) is_trusted: bool,
    /// What it reports as the tokens of a turn are those of one call.
    pub(super) tells_last_call: bool,
}

/// How a message gets into a running turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Joining {
    /// By a separate request.
    Steer,
    /// As a second prompt.
    Prompt,
    /// It does not: the turn is ended between two calls, and the message opens the next one. What a second
    /// prompt does is not defined there; in our measurements it waits, begins the call again or loses results.
    #[default]
    Cancel,
}

/// What the user chose among the agent's offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Model,
    Mode,
}

impl Able {
    /// Reads the answer to `initialize`.
    pub(super) fn of(told: &Value) -> Self {
        let name = told["agentInfo"]["name"].as_str().unwrap_or_default();
        let can = &told["agentCapabilities"];
        let queues = can["_meta"]["claudeCode"]["promptQueueing"] == true;
        let joining = match JOINING.contains(&name) || queues {
            _ if told["_meta"]["steering"]["supported"] == true => Joining::Steer,
            true => Joining::Prompt,
            false => Joining::Cancel,
        };
        let resumes = can["sessionCapabilities"]["resume"].is_object();
        let loads = can["loadSession"] == true;
        Self {
            joining,
            resume: match resumes {
                // It does not replay the whole conversation.
                true => Some("session/resume"),
                false => loads.then_some(LOAD),
            },
            is_trusted: !GUESSING.contains(&name),
            tells_last_call: TELLING_THE_LAST_CALL.contains(&name),
        }
    }
}
