//! The entries of what follows a session: commit, verification, and warnings about the session.

use ekiden_core::event::{Check, CheckOutcome, Commit};
use ekiden_core::ids::StageId;
use ekiden_core::judge::{Warning, WeakenedTest};
use ekiden_core::relay::{Baseline, ItemList, Relay};

use ekiden_report::timeline::{self, Before};

use super::entry::Entry;
use super::json::fields;
use super::line::{Line, Tone, one_line, warning_line};
use super::phrase;
use super::reporter::Reporter;

/// How many lines are shown of the hooks' output for a refused commit; the log keeps more.
const COMMIT_SAID_SHOWN: usize = 5;
/// How many weakened tests are named; `--json` names them all.
const TESTS_SHOWN_MAX: usize = 8;

impl Reporter {
    pub(super) fn committed(
        &mut self,
        stage: &StageId,
        relay: &Relay,
        commit: &Commit,
    ) -> Option<Entry> {
        let session = match self.before(stage) {
            Before::Reviewing { session, .. } => session,
            Before::Preparing | Before::Otherwise => relay.session().get(),
        };
        let lines = match commit {
            Commit::Made {
                id,
                files,
                elsewhere,
                left_out,
            } => {
                let files = phrase::count((*files).into(), "file");
                let mut text = format!("{}, {files}", phrase::commit(id));
                if let Some(branch) = elsewhere {
                    text.push_str(&format!(", on `{}`", one_line(branch)));
                }
                committed(Tone::Plain, &text, left_out)
            }
            Commit::Nothing { left_out } => committed(Tone::Quiet, "nothing to commit", left_out),
            Commit::Elsewhere { branch, found } => {
                let found = found.as_deref().map_or_else(
                    || "no branch is checked out".to_owned(),
                    |found| format!("`{}` is checked out", one_line(found)),
                );
                let error = format!("{found}, and commits of this run go to `{branch}` only");
                uncommitted(session, &error, "")
            }
            Commit::Refused { tail } => uncommitted(session, "a hook refused it", tail),
            Commit::Failed { error, tail } => uncommitted(session, error, tail),
            Commit::Cancelled => return None,
        };
        let entry = Entry::of_session("commit", session).fields(fields! { "result": commit });
        Some(entry.lines(lines))
    }

    pub(super) fn verified(
        &mut self,
        stage: &StageId,
        relay: &Relay,
        check: &Check,
    ) -> Option<Entry> {
        let verification = relay.stage.verification.as_ref()?;
        if check.outcome == CheckOutcome::Cancelled {
            return None;
        }
        let command = verification.in_one_line();
        let mut lines = check.tail.lines().rev().map(one_line);
        let last_line = lines.find(|line| !line.is_empty());
        let checked = fields! {
            "command": command,
            "result": check.outcome,
            "duration_ms": check.duration,
            "last_line": last_line,
        };
        match self.before(stage) {
            Before::Preparing => {
                let needed = relay.stage.claim_needed;
                let entry = Entry::new("first_check")
                    .fields(checked)
                    .fields(needed.then(|| fields! { "claim_needed": true }));
                Some(entry.line(first_check(&command, check, relay)))
            }
            Before::Reviewing { session, claimed } => {
                let veto = claimed && !check.passed();
                let entry = Entry::of_session("check", session)
                    .fields(checked)
                    .fields(fields! { "veto": veto })
                    .line(check_line(check, last_line.as_deref()));
                if !veto {
                    return Some(entry);
                }
                Some(entry.line(Line::attention(format!(
                    "session {session} said all is done, but the verification does not pass; its output goes to the next session"
                ))))
            }
            Before::Otherwise => None,
        }
    }

    /// Warnings about a session that is over.
    pub(super) fn judged(warning: &Warning) -> Entry {
        let (_, session, why) = timeline::of_warning(warning);
        let lines = if warning.is_harmless() {
            Vec::new()
        } else if let Warning::TestsWeakened { tests, .. } = warning {
            weakened(tests)
        } else {
            let of = session.map_or(String::new(), |session| format!("session {session}: "));
            let why = warning_line(&why);
            let hint = if matches!(warning, Warning::KnowledgeCut { .. }) {
                "; `ekiden knowledge edit` makes room"
            } else {
                ""
            };
            vec![Line::attention(of + &why + hint)]
        };
        let mut entry = Entry::new("judged").fields(warning).lines(lines);
        entry.session = session;
        entry
    }
}

fn committed(tone: Tone, text: &str, left_out: &[String]) -> Vec<Line> {
    let mut lines = vec![Line::labelled("commit", tone, text)];
    let is_dir = |path: &&String| path.ends_with('/');
    let (dirs, files): (Vec<&String>, Vec<&String>) = left_out.iter().partition(is_dir);
    let mut told = |why: &str, paths: &[&String]| {
        if !paths.is_empty() {
            let names: Vec<&str> = paths.iter().map(|path| path.as_str()).collect();
            let names = one_line(&names.join(", "));
            lines.push(Line::attention(format!("{why}: {names}")));
        }
    };
    told(
        "not committed, since they had changes before the run, cannot be read, fail in a git filter, or are submodules left behind",
        &files,
    );
    told(
        "not committed, since they are repositories or have over 1,000 new files (name those in .gitignore, or `git add` them)",
        &dirs,
    );
    lines
}

fn uncommitted(session: u32, error: &str, tail: &str) -> Vec<Line> {
    let error = one_line(error);
    let head = Line::attention(format!("session {session} is not committed: {error}"));
    let mut output: Vec<String> = tail.lines().map(one_line).collect();
    output.retain(|line| !line.is_empty());
    if output.len() > COMMIT_SAID_SHOWN {
        let left_out = 2..output.len() - (COMMIT_SAID_SHOWN - 2);
        drop(output.splice(left_out, ["…".to_owned()]));
    }
    let said = output.iter();
    let said = said.map(|line| Line::new(Tone::Quiet, format!("    {line}")));
    std::iter::once(head).chain(said).collect()
}

/// The verification without a session: before the first, or once a person has ticked the last item of a list.
fn first_check(command: &str, check: &Check, relay: &Relay) -> Line {
    let command = one_line(command);
    let (claim_needed, list) = (relay.stage.claim_needed, relay.items.as_ref());
    let is_list = list.is_some();
    let claim = match is_list {
        true => "so all items must be done, too",
        false => "so the agent must also say all is done",
    };
    let is_over = list.is_some_and(ItemList::is_over);
    // What the first result meant still holds after a resume.
    let is_another = check.passed() != (relay.seen.baseline == Baseline::Passes);
    let what = match &check.outcome {
        CheckOutcome::Passed | CheckOutcome::Failed { .. } if is_over || is_another => {
            check.to_string()
        }
        CheckOutcome::Passed if claim_needed => {
            return Line::attention(format!(
                "`{command}` passes before the work begins: it does not show whether it is done"
            ));
        }
        CheckOutcome::Failed { .. } if claim_needed || is_list => {
            "fails now, as it should".to_owned()
        }
        CheckOutcome::Passed => format!("passes already, {claim}"),
        CheckOutcome::Failed { .. } => "fails now, so a later pass ends the run".to_owned(),
        CheckOutcome::Cancelled => "was cancelled".to_owned(),
        CheckOutcome::TimedOut => {
            let length = phrase::duration(check.duration);
            format!("takes longer than {length} now, {claim}")
        }
        CheckOutcome::NotRun { error } => {
            let text = format!("verification `{command}` cannot run: {}", one_line(error));
            return Line::new(Tone::Failed, text);
        }
        CheckOutcome::NoProgram { program } => {
            let program = one_line(program);
            let text =
                format!("verification `{command}` cannot run: there is no program `{program}`");
            return Line::new(Tone::Failed, text);
        }
    };
    Line::new(Tone::Plain, format!("verification `{command}` {what}"))
}

/// The verification after a session.
fn check_line(check: &Check, last_line: Option<&str>) -> Line {
    let took = phrase::duration(check.duration);
    let last = last_line.map_or(String::new(), |line| format!(": {line}"));
    let rest = match &check.outcome {
        CheckOutcome::Passed => format!(" in {took}"),
        CheckOutcome::Failed { .. } => format!(" in {took}{last}"),
        CheckOutcome::TimedOut => format!(": over {took}{last}"),
        CheckOutcome::NotRun { error } => format!(": {}", one_line(error)),
        CheckOutcome::NoProgram { program } => {
            format!(": there is no program `{}`", one_line(program))
        }
        CheckOutcome::Cancelled => String::new(),
    };
    let (tone, what) = check_word(&check.outcome);
    Line::labelled("verify", tone, what).with(Tone::Plain, rest)
}

/// The result of a verification, in a word or two.
pub fn check_word(outcome: &CheckOutcome) -> (Tone, &'static str) {
    let tone = match outcome {
        CheckOutcome::Passed => Tone::Done,
        CheckOutcome::Cancelled => Tone::Quiet,
        CheckOutcome::Failed { .. }
        | CheckOutcome::TimedOut
        | CheckOutcome::NotRun { .. }
        | CheckOutcome::NoProgram { .. } => Tone::Failed,
    };
    (tone, timeline::check_word(outcome))
}

fn weakened(tests: &[WeakenedTest]) -> Vec<Line> {
    let head = "the verification passes, but tests were weakened since the run began:";
    let mut lines = vec![Line::attention(head)];
    lines.extend(tests.iter().take(TESTS_SHOWN_MAX).map(|test| {
        let how = timeline::weakening(test.how);
        Line::new(Tone::Plain, format!("    {}", one_line(&test.path)))
            .with(Tone::Attention, format!("  {how}"))
    }));
    let more = tests.len().saturating_sub(TESTS_SHOWN_MAX);
    lines.extend((more > 0).then(|| Line::new(Tone::Quiet, format!("    and {more} more"))));
    lines
}
