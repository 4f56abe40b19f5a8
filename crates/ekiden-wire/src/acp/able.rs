//! What an agent can do, by what it says of itself when it starts, and by what was measured of it.

use serde_json::Value;

/// Agents in which a second prompt joins the turn at work: its next request holds it.
const JOINING: [&str; 2] = ["OpenCode", "@agentclientprotocol/claude-agent-acp"];
/// Agents that tell a guess of their own as the use of their context, far from what the service counts.
const GUESSING: [&str; 1] = ["Copilot"];

/// What an agent can do.
#[derive(Debug, Clone, Default)]
pub(super) struct Able {
    pub(super) joining: Joining,
    /// The request that resumes a conversation, if one does.
    pub(super) resume: Option<&'static str>,
    /// What it tells of its context was counted by the service.
    pub(super) is_trusted: bool,
}

/// How a message gets into a turn at work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Joining {
    /// By a request of its own.
    Steer,
    /// As a second prompt.
    Prompt,
    /// It does not: the turn is ended between two calls, and the message opens the next one. What a second
    /// prompt does there is not defined, and measured it waits, begins the call anew or loses results.
    #[default]
    Cancel,
}

/// What the user chose of what an agent offers.
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
                // It does not tell the whole conversation once more.
                true => Some("session/resume"),
                false => loads.then_some("session/load"),
            },
            is_trusted: !GUESSING.contains(&name),
        }
    }
}
