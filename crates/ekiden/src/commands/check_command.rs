//! Checks that the shell can read a verification and that its program exists, before a night is spent on a misspelled one.
//!
//! It looks only for the first word of the line, and only where it is clear what the shell makes of it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use ekiden_agent::child::find_on_path;
use ekiden_agent::detached;
use ekiden_core::manifest::{Manifest, Stage, Take, Verification};

use crate::exit::Exit;
use crate::failure::Failure;

/// Words that the shell itself knows, where `sh` is bash, too.
const OF_THE_SHELL: &[&str] = &[
    "!", ".", ":", "[", "alias", "break", "case", "cd", "command", "continue", "echo", "eval",
    "exec", "exit", "export", "false", "for", "getopts", "if", "let", "local", "printf", "pwd",
    "read", "readonly", "return", "set", "shift", "source", "test", "time", "times", "trap",
    "true", "type", "ulimit", "umask", "unset", "until", "wait", "while", "{",
];
/// What the shell would change in a word, or end it at.
const SPECIAL: &[char] = &[
    '$', '`', '"', '\'', '\\', '*', '?', '[', '(', ')', '{', '}', '<', '>', '|', '&', ';', '~', '#',
];

/// Refuses a verification that the shell cannot read: no work could make it pass.
pub(super) fn parse(verification: &Verification) -> Result<(), Failure> {
    for (command, _) in verification.commands() {
        let args = ["-n".into(), "-c".into(), command.into()];
        // Without a shell the run's own check fails.
        let Ok(read) = detached::run(Path::new("sh"), &args) else {
            continue;
        };
        if !read.status.success() {
            let why = String::from_utf8_lossy(&read.stderr);
            let text = format!("cannot verify by `{command}`: {}", why.trim());
            return Err(Failure::new(Exit::Settings, text).hint("correct the command"));
        }
    }
    Ok(())
}

/// Refuses a verification whose program does not exist. Returns a note about one that the work has to make.
pub(super) fn check(verification: &Verification, dir: &Path) -> Result<Option<String>, Failure> {
    let mut note = None;
    for (command, _) in verification.commands() {
        let Some(program) = program(command) else {
            continue;
        };
        let named = if program.contains('/') {
            dir.join(program)
        } else {
            PathBuf::from(program)
        };
        if find_on_path(&named).is_some() {
            continue;
        }
        let mut hint = "correct `--verify`; name a program that the work will create by its path, such as `./check.sh`".to_owned();
        let why = if !program.contains('/') {
            "is not on PATH"
        } else if named.exists() {
            hint =
                format!("`chmod +x {program}`, or name the program that runs it: `sh {program}`");
            "is not executable"
        } else if is_inside(Path::new(program), dir) {
            note = Some(format!(
                "`{program}` of the verification does not exist yet: the work has to create it"
            ));
            continue;
        } else {
            "does not exist"
        };
        let text = format!("cannot verify by `{command}`: `{program}` {why}");
        return Err(Failure::new(Exit::Settings, text).hint(hint));
    }
    Ok(note)
}

/// The verifications of a plan whose program does not exist. A stage may still install it, so the plan begins.
pub(super) fn of_plan(manifest: &Manifest, dir: &Path) -> BTreeSet<String> {
    let refused = to_run(manifest).filter_map(|verification| check(verification, dir).err());
    refused.map(|failure| failure.error().to_owned()).collect()
}

/// The verifications of a plan's stages that are not skipped.
pub(super) fn to_run(manifest: &Manifest) -> impl Iterator<Item = &Verification> {
    let runs = |stage: &&Stage| stage.part.take != Take::Skip;
    let stages = manifest.stages.iter().filter(runs);
    stages.filter_map(|stage| stage.verification.as_ref())
}

/// The first word that is no assignment, if the shell takes it as it is.
fn program(command: &str) -> Option<&str> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_assignment = |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let mut words = command.split_whitespace();
    let word = words.find(|word| !is_assignment(word) || word.contains(SPECIAL))?;
    let is_plain = !word.contains(SPECIAL) && !OF_THE_SHELL.contains(&word);
    is_plain.then_some(word)
}

/// The path does not lead out of the project.
fn is_inside(path: &Path, dir: &Path) -> bool {
    let path = path.strip_prefix(dir).unwrap_or(path);
    let mut depth = 0_i32;
    path.components().all(|part| {
        depth += match part {
            Component::Normal(_) => 1,
            Component::ParentDir => -1,
            Component::CurDir => 0,
            Component::RootDir | Component::Prefix(_) => i32::MIN / 2,
        };
        depth >= 0
    })
}

#[cfg(test)]
mod tests {
    use ekiden_core::time::Millis;

    use super::*;

    fn told(command: &str) -> Result<Option<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let verification = Verification::by_command(command.to_owned(), Millis(1));
        check(&verification, dir.path()).map_err(|failure| failure.error().to_owned())
    }

    // shows: RUN-07
    #[test]
    fn a_program_that_is_nowhere_is_refused() {
        for command in [
            "pytets -q",
            "CI=1 pytets",
            "/no/such/check",
            "../check.sh",
            "a/../../b",
        ] {
            assert!(told(command).is_err(), "{command}");
        }
        assert_eq!(
            told("pytets -q").unwrap_err(),
            "cannot verify by `pytets -q`: `pytets` is not on PATH"
        );
    }

    // shows: RUN-07
    #[test]
    fn what_the_shell_or_the_work_makes_is_allowed() {
        for command in [
            "sh -c x",
            "cd a && pytets",
            "source .venv/bin/activate && pytets",
            "time pytets",
            "! grep x",
            "$MAKE test",
            "(pytets)",
            "\"my tool\"",
            "",
        ] {
            assert_eq!(told(command), Ok(None), "{command}");
        }
        for command in ["./made.sh -q", "tools/check"] {
            assert!(
                told(command)
                    .unwrap()
                    .unwrap()
                    .contains("does not exist yet"),
                "{command}"
            );
        }
    }
}
