//! Whose usage limits an agent's sessions count against.

use std::ffi::OsString;

use ekiden_core::agent::{AgentKind, AgentSpec};
use ekiden_core::hash::sha256_hex;

use crate::terminal::launch::config_dir;

/// What the client accepts instead of its own login, and where it sends it.
const LOGINS: [&str; 8] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CODEX_HOME",
    "OPENAI_API_KEY",
];

/// A name for the agent with its account here: a hash, since keys are part of it.
pub fn login(agent: &AgentSpec) -> String {
    let logins = LOGINS.map(|name| std::env::var_os(name).unwrap_or_default());
    let dir = config_dir(agent.account.as_deref())
        .unwrap_or_default()
        .into_os_string();
    let command = match agent.kind {
        AgentKind::Exec | AgentKind::Acp => agent.command.as_slice(),
        AgentKind::Claude | AgentKind::Rehearsal | AgentKind::Codex => &[],
    };
    let command = command.iter().map(String::as_str).chain(agent.provider());
    let command = command.map(OsString::from);
    let all: Vec<OsString> = command.chain([dir]).chain(logins).collect();
    let (kind, account) = (agent.kind.name(), &agent.account);
    sha256_hex(format!("{kind} {account:?} {all:?}").as_bytes())
}
