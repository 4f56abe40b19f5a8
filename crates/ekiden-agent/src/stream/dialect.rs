//! Which dialect an agent speaks if it does not speak Claude Code's.

use std::fs::File;

use ekiden_core::agent::AgentKind;
use ekiden_core::effect::StartMode;
use ekiden_core::relay::Prompt;
use ekiden_wire::acp::Acp;
use ekiden_wire::codex::Codex;
use ekiden_wire::lines::read_lines;
use ekiden_wire::rpc::{Dialect, Start};
use ekiden_wire::saved::Saved;

use crate::attempt::AttemptSpec;
use crate::leads_to::leads_to;

pub(super) fn of_attempt(spec: &AttemptSpec) -> Option<Box<dyn Dialect>> {
    let saved = match spec.mode {
        StartMode::Fresh => None,
        StartMode::Resume => Some(saved_before(spec).unwrap_or_default()),
    };
    let named = |saved: &Saved| saved.conversation().unwrap_or_default().to_owned();
    let start = Start {
        dir: spec.dir.clone(),
        permissions: spec.agent.permissions.clone(),
        model: spec.agent.model.clone(),
        resume: saved.as_ref().map(named),
        charged_usd: saved.as_ref().map_or(0.0, Saved::cost_usd),
        resolve: Some(leads_to),
    };
    match spec.agent.kind {
        AgentKind::Acp => Some(Box::new(Acp::new(start))),
        AgentKind::Codex => Some(Box::new(Codex::new(start))),
        AgentKind::Claude | AgentKind::Rehearsal | AgentKind::Exec => None,
    }
}

/// The first message of a conversation. Such an agent has no system prompt from us, so the protocol comes first.
pub(super) fn texts<'a>(protocol: &'a str, message: &'a Prompt) -> Vec<&'a str> {
    match message {
        Prompt::Fresh(prompt) => {
            let protocol = Some(protocol).filter(|protocol| !protocol.is_empty());
            protocol.into_iter().chain(prompt.blocks()).collect()
        }
        Prompt::Resume(text) => vec![text.as_str()],
    }
}

/// What earlier attempts at this session left: the agent's name for the conversation, and its cost.
fn saved_before(spec: &AttemptSpec) -> Option<Saved> {
    let mut saved = Saved::default();
    let stream = File::open(&spec.events_file).ok()?;
    read_lines(stream, |line| saved.read(line, |_| {})).ok()?;
    Some(saved)
}
