//! Runs a verification: its commands one after the other, then a check for its files.

use std::collections::BTreeMap;
use std::path::Path;

use ekiden_agent::child::{ChildEnd, ChildSpec};
use ekiden_agent::{keeper, task};
use ekiden_core::event::{Check, CheckOutcome};
use ekiden_core::limits;
use ekiden_core::manifest::Verification;
use tokio::time::Instant;

use crate::error::EngineError;
use crate::git::{Cancelled, Git, never};
use crate::globs;
use crate::runtime::{runtime, system};
use ekiden_core::text::in_full;

/// Runs a verification outside of any run, to its end. Panics within a runtime.
pub fn check_now(dir: &Path, verification: &Verification) -> Result<Check, EngineError> {
    runtime()?.block_on(check(dir, verification))
}

/// The same within a runtime. If the future is dropped, the command is ended.
pub async fn check(dir: &Path, verification: &Verification) -> Result<Check, EngineError> {
    let keeper = keeper::executable().map_err(system("find this program"))?;
    let sh = |command: &str| ChildSpec {
        args: vec!["-c".into(), command.into()],
        ..ChildSpec::new(&keeper, "sh", dir)
    };
    let (check, _) = run(sh, dir, verification, never()).await;
    Ok(check)
}

/// Which of these paths git ignores, so that a check after a merge does not find them, each with the file and line of
/// the rule. Panics within a runtime.
pub fn ignored(dir: &Path, paths: &[&str]) -> Result<BTreeMap<String, String>, EngineError> {
    let keeper = keeper::executable().map_err(system("find this program"))?;
    let ignored = runtime()?.block_on(Git::new(keeper, dir.to_owned()).ignored(paths));
    Ok(ignored.into_iter().collect())
}

/// Runs a verification in `dir`, each command as `sh` makes it. Returns the result, without its tree, and as much
/// of the output as is kept.
pub(crate) async fn run(
    sh: impl Fn(&str) -> ChildSpec,
    dir: &Path,
    verification: &Verification,
    mut cancelled: Cancelled,
) -> (Check, String) {
    let started = Instant::now();
    let mut output = String::new();
    let outcome = tokio::select! {
        outcome = all(sh, dir, verification, &mut output) => outcome,
        _ = cancelled.changed() => CheckOutcome::Cancelled,
    };
    if outcome == CheckOutcome::Cancelled {
        output.clear();
    }
    (
        Check {
            outcome,
            tree: None,
            duration: started.elapsed().into(),
            tail: tail(&output),
        },
        output,
    )
}

async fn all(
    sh: impl Fn(&str) -> ChildSpec,
    dir: &Path,
    verification: &Verification,
    output: &mut String,
) -> CheckOutcome {
    let several = verification.commands().count() > 1;
    let until = Instant::now() + verification.timeout.into();
    for (command, code) in verification.commands() {
        if several {
            output.push_str(&format!("$ {command}\n"));
        }
        let left = until.saturating_duration_since(Instant::now()).into();
        let outcome = match task::run_task(sh(command), left, limits::VERIFY_LOG_BYTES).await {
            Ok(done) => {
                output.push_str(&done.tail);
                let ended = outcome(&done.end, done.timed_out, code);
                let is_missing = matches!(ended, CheckOutcome::Failed { code: 126 | 127 });
                match missing_program(&done.tail).filter(|_| is_missing) {
                    Some(program) => CheckOutcome::NoProgram { program },
                    None => ended,
                }
            }
            Err(error) => CheckOutcome::NotRun {
                error: in_full(&error),
            },
        };
        if outcome != CheckOutcome::Passed {
            return outcome;
        }
    }
    files(dir, &verification.files, output).await
}

async fn files(dir: &Path, names: &[String], output: &mut String) -> CheckOutcome {
    let (dir, names) = (dir.to_owned(), names.to_vec());
    let found = tokio::task::spawn_blocking(move || globs::unmatched(&dir, &names)).await;
    match found.unwrap_or_else(|panic| Err(panic.to_string())) {
        Ok(missing) if missing.is_empty() => CheckOutcome::Passed,
        Ok(missing) => {
            output.push_str(&format!(
                "these files are not there: {}\n",
                missing.join(", ")
            ));
            CheckOutcome::Failed { code: 1 }
        }
        Err(error) => CheckOutcome::NotRun { error },
    }
}

fn outcome(end: &ChildEnd, timed_out: bool, wanted: i32) -> CheckOutcome {
    match end {
        _ if timed_out => CheckOutcome::TimedOut,
        ChildEnd::Exited(code) if *code == wanted => CheckOutcome::Passed,
        ChildEnd::Exited(code) => CheckOutcome::Failed { code: *code },
        ChildEnd::Signaled(signal) => CheckOutcome::Failed { code: 128 + signal },
        ChildEnd::NotStarted(error) => CheckOutcome::NotRun {
            error: error.clone(),
        },
        ChildEnd::KeeperLost => CheckOutcome::NotRun {
            error: "its keeper was killed".to_owned(),
        },
    }
}

/// The program that the shell cannot find, unless it is named by a path: the work may be about to create that.
/// `sh: 1: pytets: not found`, `sh: line 1: pytets: command not found`.
fn missing_program(output: &str) -> Option<String> {
    let of_shell = |line: &str| {
        let (shell, rest) = line.split_once(": ")?;
        let rest = rest
            .strip_suffix(": command not found")
            .or(rest.strip_suffix(": not found"))?;
        let (_, program) = rest.rsplit_once(": ").unwrap_or(("", rest));
        let is_shell = shell == "sh" || shell.ends_with("/sh");
        (is_shell && !program.contains('/')).then(|| program.to_owned())
    };
    output.lines().rev().find_map(of_shell)
}

/// The last lines of an output, within what a record may hold.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let first = lines.len().saturating_sub(limits::VERIFY_TAIL_LINES);
    let text = lines[first..].join("\n");
    let from = text.len().saturating_sub(limits::VERIFY_TAIL_BYTES);
    text[text.ceil_char_boundary(from)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shells_own_words_name_a_missing_program() {
        let missing = |output: &str| missing_program(output);
        assert_eq!(
            missing("/usr/bin/sh: 1: pytets: not found\n").as_deref(),
            Some("pytets")
        );
        let of_bash = "collecting\nsh: line 1: pytets: command not found\n";
        assert_eq!(missing(of_bash).as_deref(), Some("pytets"));
        assert_eq!(missing("sh: 1: ./made.sh: not found\n"), None);
        assert_eq!(
            missing("./check.sh: line 3: pytest: command not found\n"),
            None
        );
    }

    // shows: REL-07
    #[test]
    fn a_check_that_timed_out_has_not_passed_however_it_ended() {
        let exited = ChildEnd::Exited(0);
        assert_eq!(outcome(&exited, false, 0), CheckOutcome::Passed);
        assert_eq!(outcome(&exited, true, 0), CheckOutcome::TimedOut);
        assert_eq!(outcome(&exited, false, 3), CheckOutcome::Failed { code: 0 });
        let killed = ChildEnd::Signaled(15);
        assert_eq!(outcome(&killed, true, 143), CheckOutcome::TimedOut);
    }

    // shows: REL-07
    #[test]
    fn a_tail_is_bounded_in_lines_and_bytes() {
        let many: String = (0..100).map(|n| format!("line {n}\n")).collect();
        assert_eq!(tail(&many).lines().count(), limits::VERIFY_TAIL_LINES);
        assert!(tail(&many).ends_with("line 99"));
        let long = "ä".repeat(limits::VERIFY_TAIL_BYTES);
        assert!(tail(&long).len() <= limits::VERIFY_TAIL_BYTES);
        assert_eq!(tail(""), "");
    }
}
