//! Files of ours that an agent is started with: a mod or a plugin, by which it tells more than by its protocol.

use ekiden_core::agent::{AgentKind, AgentSpec, Interface};

use crate::{stream, terminal};

/// By their paths beside the protocol's file.
pub fn own_files(agent: &AgentSpec) -> &'static [(&'static str, &'static str)] {
    match agent.interface {
        Interface::Terminal => &terminal::MOD,
        Interface::Headless if agent.kind == AgentKind::Acp => &stream::OPENCODE_PLUGIN,
        Interface::Headless => &[],
    }
}
