//! Which dialect an agent speaks that does not speak Claude Code's.

use std::fs::File;
use std::path::{Path, PathBuf};

use ekiden_core::agent::AgentKind;
use ekiden_core::effect::StartMode;
use ekiden_wire::acp::Acp;
use ekiden_wire::codex::Codex;
use ekiden_wire::lines::read_lines;
use ekiden_wire::rpc::{Dialect, Start};
use ekiden_wire::saved::Saved;

use crate::attempt::AttemptSpec;

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
        resolve: Some(resolve),
    };
    match spec.agent.kind {
        AgentKind::Acp => Some(Box::new(Acp::new(start))),
        AgentKind::Codex => Some(Box::new(Codex::new(start))),
        AgentKind::Claude | AgentKind::Rehearsal | AgentKind::Exec => None,
    }
}

/// What would be created keeps its name.
fn resolve(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(resolved), ..) => resolved,
        (Err(_), Some(parent), Some(name)) => resolve(parent).join(name),
        (Err(_), ..) => path.to_owned(),
    }
}

/// What the agent called the conversation in an earlier attempt at this session.
fn named_before(spec: &AttemptSpec) -> Option<String> {
    let mut saved = Saved::default();
    let stream = File::open(&spec.events_file).ok()?;
    read_lines(stream, |line| saved.read(line, |_| {})).ok()?;
    saved.conversation().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_and_new_files_keep_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        symlink("/etc", top.join("link")).unwrap();
        assert_eq!(resolve(&top.join("link/new")), Path::new("/etc/new"));
        assert_eq!(resolve(&top.join("new/file")), top.join("new/file"));
    }
}
