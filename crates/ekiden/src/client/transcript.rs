//! Where a session of Claude Code keeps its transcript.
//!
//! Hooks get the path from the client; a command that the agent runs knows only the session's id. The
//! client has its own rules for naming the project's directory, so the file is searched for.

use std::path::PathBuf;

use ekiden_agent::terminal::transcript_in;

use super::settings::config_dir;
use crate::settings::environment::Environment;

/// Set for every command that an agent runs: its session.
pub const SESSION_VARIABLE: &str = "CLAUDE_CODE_SESSION_ID";
/// Set for every command that an agent runs.
pub const IN_AGENT_VARIABLE: &str = "CLAUDECODE";

pub fn find(environment: &Environment, session: &str) -> Option<PathBuf> {
    let is_plain = session
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if session.is_empty() || !is_plain {
        return None;
    }
    transcript_in(&config_dir(environment)?, session)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes files")]
mod tests {
    use super::*;

    // shows: CHK-12
    #[test]
    fn a_transcript_is_found_by_its_session_alone() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".claude/projects/-p");
        let made = project.join("0f2f-1.jsonl");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::write(&made, "").unwrap();
        let environment = Environment::of([("HOME", home.path().to_str().unwrap())]);
        assert_eq!(find(&environment, "0f2f-1"), Some(made));
        for other in ["0f2f-2", "", "../0f2f-1", "-p/0f2f-1"] {
            assert_eq!(find(&environment, other), None, "{other}");
        }
    }
}
