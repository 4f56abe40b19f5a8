//! Our files that an agent is started with: a mod or a plugin, which reports more than the agent's protocol does.

use ekiden_core::agent::{AgentKind, AgentSpec, Interface};

use crate::{stream, terminal};

/// Our files for an agent, by their paths beside the protocol's file.
pub fn own_files(agent: &AgentSpec) -> &'static [(&'static str, &'static str)] {
    match agent.interface {
        Interface::Terminal => &terminal::MOD,
        Interface::Headless if agent.kind == AgentKind::Acp => &stream::OPENCODE_PLUGIN,
        Interface::Headless => &[],
    }
}
