//! Which dialect an agent speaks that does not speak Claude Code's.

use std::fs::File;

use ekiden_core::agent::AgentKind;
use ekiden_core::effect::StartMode;
use ekiden_wire::acp::Acp;
use ekiden_wire::codex::Codex;
use ekiden_wire::lines::read_lines;
use ekiden_wire::rpc::{Dialect, Start};
use ekiden_wire::saved::Saved;

use crate::attempt::AttemptSpec;
use crate::leads_to::leads_to;

/// The dialect of an attempt that begins.
pub(super) fn of_attempt(spec: &AttemptSpec) -> Option<Box<dyn Dialect>> {
    let resume = match spec.mode {
        StartMode::Fresh => None,
        StartMode::Resume => Some(named_before(spec).unwrap_or_default()),
    };
    let start = Start {
        dir: spec.dir.clone(),
        permissions: spec.agent.permissions.clone(),
        model: spec.agent.model.clone(),
        resume,
        resolve: Some(leads_to),
    };
    match spec.agent.kind {
        AgentKind::Acp => Some(Box::new(Acp::new(start))),
        AgentKind::Codex => Some(Box::new(Codex::new(start))),
        AgentKind::Claude | AgentKind::Rehearsal | AgentKind::Exec => None,
    }
}

/// What the agent called the conversation in an earlier attempt at this session.
fn named_before(spec: &AttemptSpec) -> Option<String> {
    let mut saved = Saved::default();
    let stream = File::open(&spec.events_file).ok()?;
    read_lines(stream, |line| saved.read(line, |_| {})).ok()?;
    saved.conversation().map(str::to_owned)
}
