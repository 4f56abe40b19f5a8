//! Classifies a batch of tool calls.
//!
//! It guesses from the words in the commands, so it can be wrong. A missed boundary delays the checkpoint by
//! a minute; a false one takes it a minute early.

use crate::guard::test_command::runs_tests;

/// The result of a batch of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Batch {
    /// Whether the tests passed; `None` if none ran.
    pub tests: Option<bool>,
    /// Something was finished: a commit or a pull request made, an item closed.
    pub finished: bool,
    /// The agent wrote into the document of the last checkpoint.
    pub filled: bool,
}

impl Batch {
    /// The work can be interrupted here.
    pub fn is_boundary(self) -> bool {
        self.finished || self.tests == Some(true)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchCall {
    /// The command, if it was a shell's.
    pub command: String,
    /// The file, if one was written.
    pub written: String,
    /// It failed, according to its response.
    pub failed: bool,
    /// An item of the session's list was closed by it.
    pub closed_item: bool,
}

/// Words at the beginning of a command that finishes a piece of work.
const FINISHING_COMMANDS: [&str; 5] = [
    "git commit",
    "git merge",
    "git push",
    "gh pr create",
    "glab mr create",
];

/// Judges a batch. `document` is the last checkpoint's document, as a path that a tool would use.
pub fn judge_batch(calls: &[BatchCall], document: Option<&str>) -> Batch {
    let mut batch = Batch::default();
    for call in calls {
        if runs_tests(&call.command) {
            batch.tests = Some(!call.failed && batch.tests != Some(false));
        }
        batch.finished |=
            !call.failed && (call.closed_item || runs(&call.command, &FINISHING_COMMANDS));
        batch.filled |=
            !call.failed && document.is_some_and(|document| call.written.ends_with(document));
    }
    batch
}

fn runs(line: &str, commands: &[&str]) -> bool {
    line.split(['\n', ';', '|', '&', '(']).any(|part| {
        let part = behind_variables(part);
        commands.iter().any(|command| {
            part.strip_prefix(command)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':', ')']))
        })
    })
}

/// A command without its variables: `RUST_LOG=debug cargo test`.
fn behind_variables(command: &str) -> &str {
    let mut rest = command.trim();
    while let Some((word, behind)) = rest.split_once(' ')
        && word.contains('=')
        && !word.starts_with('-')
    {
        rest = behind.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &str, failed: bool) -> Batch {
        let call = BatchCall {
            command: command.to_owned(),
            failed,
            ..BatchCall::default()
        };
        judge_batch(&[call], None)
    }

    // shows: CHK-08
    #[test]
    fn a_test_run_is_known_by_its_command() {
        for command in [
            "cargo test",
            "cd app && RUST_LOG=debug cargo test -p core 2>&1",
            "npm run test:unit",
            "python3 -m pytest -x tests/",
            "(go test ./...)",
        ] {
            assert_eq!(shell(command, false).tests, Some(true), "{command}");
            assert_eq!(shell(command, true).tests, Some(false), "{command}");
        }
        for command in [
            "cat tests.md",
            "cargo tree",
            "echo pytest",
            "pytest -q 2>&1 | tail -3",
            "git log --grep 'cargo test'",
        ] {
            assert_eq!(shell(command, false).tests, None, "{command}");
        }
    }

    // shows: CHK-08
    #[test]
    fn a_commit_a_pull_request_and_a_closed_item_finish_something() {
        assert!(shell("git add -A && git commit -m done", false).is_boundary());
        assert!(shell("gh pr create --fill", false).is_boundary());
        assert!(
            !shell("git commit -m done", true).is_boundary(),
            "it failed"
        );
        assert!(!shell("git status", false).is_boundary());
        let item = BatchCall {
            closed_item: true,
            ..BatchCall::default()
        };
        assert!(judge_batch(&[item], None).is_boundary());
    }

    #[test]
    fn one_failing_test_run_of_several_is_a_failure() {
        let run = |failed| BatchCall {
            command: "cargo test".to_owned(),
            failed,
            ..BatchCall::default()
        };
        assert_eq!(
            judge_batch(&[run(true), run(false)], None).tests,
            Some(false)
        );
    }

    #[test]
    fn the_document_is_known_by_the_end_of_its_path() {
        let calls = [BatchCall {
            written: "/home/dev/project/.ekiden/handoffs/2026-11-21-1400.md".to_owned(),
            ..BatchCall::default()
        }];
        assert!(judge_batch(&calls, Some(".ekiden/handoffs/2026-11-21-1400.md")).filled);
        assert!(!judge_batch(&calls, Some(".ekiden/handoffs/2026-11-21-1401.md")).filled);
    }
}
