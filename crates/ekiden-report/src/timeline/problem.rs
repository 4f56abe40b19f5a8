//! Everything that went wrong or looks odd, each with its reason.

use ekiden_core::event::{CheckOutcome, Commit, Merge};
use ekiden_core::judge::{Warning, WeakenedTest, Weakening};
use ekiden_core::time::Timestamp;

use crate::phrase;

/// How much of a commit's id names it for git, as long as nobody looks for a collision.
const COMMIT_CHARS: usize = 12;

/// Something that a person should know.
#[derive(Debug)]
pub struct Problem {
    pub at: Timestamp,
    pub stage: Option<usize>,
    pub session: Option<u32>,
    pub kind: Kind,
    /// In ekiden's words, with names from outside in it.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An attempt left nothing: the agent crashed, fell silent or was refused by the model.
    Failed,
    /// An attempt ended because ekiden itself was killed.
    Lost,
    /// ekiden wrote the handoff, since there was no valid one.
    Rescue,
    /// The verification contradicted the claim that all was done.
    Veto,
    /// A handoff repeats an earlier one, and nothing changed.
    Loop,
    Idle,
    ItemsVanished,
    SetAside,
    TestsWeakened,
    /// Nobody knows whether tests were weakened.
    TestsUnread,
    CommitsDropped,
    Stashed,
    /// The session could not be committed.
    Uncommitted,
    /// The agent summarised its conversation: the handoff came too late.
    Compaction,
    /// The agent was refused so often at L3 that ekiden ended its turn.
    Refusals,
    /// The agent's own permissions refused calls.
    Denied,
    /// Budget, time or turns of a session are used up.
    Spent,
    /// Notes look like an attempt to steer an agent.
    Caution,
    /// The run waited for a failed service.
    Outage,
    /// Knowledge does not fit into a prompt.
    KnowledgeCut,
    /// A stage could not be merged, or got no place to work.
    Merge,
    Retry,
    /// The work tree could not be surveyed.
    Survey,
    /// The log was changed, or another version of ekiden decides.
    Log,
}

impl Kind {
    /// `rescue`, `rescues`
    pub fn count(self, number: usize) -> String {
        let text = match self {
            Self::Failed => "failed attempt(s)",
            Self::Lost => "sudden end(s) of ekiden",
            Self::Rescue => "rescue(s)",
            Self::Veto => "veto(es)",
            Self::Loop => "repeated handoff(s)",
            Self::Idle => "session(s) without progress",
            Self::ItemsVanished => "session(s) removed items unticked",
            Self::SetAside if number == 1 => "item set aside",
            Self::SetAside => "times an item was set aside",
            Self::TestsWeakened => "sign(s) of weakened tests",
            Self::TestsUnread => "session(s) whose tests could not be compared",
            Self::CommitsDropped => "session(s) that dropped commits",
            Self::Stashed if number == 1 => "stash that was left behind",
            Self::Stashed => "stashes that were left behind",
            Self::Uncommitted => "session(s) not committed",
            Self::Compaction => "compaction(s)",
            Self::Refusals => "session(s) that ignored refusals",
            Self::Denied => "session(s) with denied calls",
            Self::Spent => "used-up bound(s)",
            Self::Caution => "suspicious note(s)",
            Self::Outage => "outage(s) of the service",
            Self::KnowledgeCut => "warning(s) of knowledge",
            Self::Merge => "failed merge(s)",
            Self::Retry => "retried stage(s)",
            Self::Survey => "failed survey(s)",
            Self::Log => "note(s) about the log",
        };
        let (word, rest) = text.split_once('(').unwrap_or((text, ""));
        let (plural, rest) = rest.split_once(')').unwrap_or_default();
        let plural = if number == 1 { "" } else { plural };
        format!("{number} {word}{plural}{rest}")
    }
}

/// The text of a judge's warning, with the session that it is about.
pub fn of_warning(warning: &Warning) -> (Kind, Option<u32>, String) {
    match warning {
        Warning::Repeated {
            session,
            repeat,
            repeats_max,
        } => {
            let (of, percent, in_a_row) = (repeat.of, repeat.percent, repeat.in_a_row);
            let why = format!(
                "its handoff repeats session {of}'s ({percent}% alike, nothing else changed): {in_a_row} of {repeats_max}"
            );
            (Kind::Loop, Some(session.get()), why)
        }
        Warning::Idle {
            session,
            in_a_row,
            sessions_max,
        } => {
            let why = format!(
                "it left nothing new in the work tree, the result of the verification or the open items: {in_a_row} of {sessions_max}"
            );
            (Kind::Idle, Some(session.get()), why)
        }
        Warning::ItemsVanished {
            session,
            items,
            count,
        } => {
            let why = vanished(*count, items);
            (Kind::ItemsVanished, Some(session.get()), why)
        }
        Warning::ItemSetAside {
            session,
            item,
            tries,
        } => {
            let why = format!("set aside, {tries} sessions did not finish it: {item}");
            (Kind::SetAside, Some(session.get()), why)
        }
        Warning::TestsWeakened { session, tests } => {
            let each = |test: &WeakenedTest| format!("{}: {}", test.path, weakening(test.how));
            let each: Vec<String> = tests.iter().map(each).collect();
            (Kind::TestsWeakened, Some(session.get()), each.join("; "))
        }
        Warning::TestsUnread { session, why } => {
            let why = format!(
                "the verification passes, but it is not known whether tests were weakened: {why}"
            );
            (Kind::TestsUnread, Some(session.get()), why)
        }
        Warning::CommitsDropped {
            session,
            count,
            commit,
        } => (
            Kind::CommitsDropped,
            Some(session.get()),
            dropped(*count, commit),
        ),
        Warning::Stashed { session, count } => {
            (Kind::Stashed, Some(session.get()), stashed(*count))
        }
        Warning::KnowledgeCut { left_out, facts } => {
            let facts = phrase::count(*facts as u64, "fact");
            let why = format!("a prompt has no room for {left_out} of {facts}");
            (Kind::KnowledgeCut, None, why)
        }
    }
}

fn vanished(count: usize, items: &[String]) -> String {
    let more = match count.saturating_sub(items.len()) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let count = phrase::count(count as u64, "item");
    format!("{count} gone without a tick: {}{more}", items.join("; "))
}

fn dropped(count: u32, newest: &str) -> String {
    let count = phrase::count(u64::from(count), "commit");
    let newest: String = newest.chars().take(COMMIT_CHARS).collect();
    format!(
        "what is checked out no longer contains {count} that it had; `git branch NAME {newest}` keeps them"
    )
}

fn stashed(count: u32) -> String {
    let entries = if count == 1 { "entry" } else { "entries" };
    format!("git's stash has {count} new {entries} since the run began; see `git stash list`")
}

pub fn weakening(how: Weakening) -> String {
    match how {
        Weakening::Deleted => "deleted".to_owned(),
        Weakening::Skipped { marks } => {
            format!("{} to skip tests", phrase::count(marks.into(), "mark"))
        }
        Weakening::FewerAssertions { by } => {
            format!("{} fewer", phrase::count(by.into(), "assertion"))
        }
    }
}

pub(super) fn of_commit(commit: &Commit) -> Option<String> {
    match commit {
        Commit::Made { .. } | Commit::Nothing { .. } | Commit::Cancelled => None,
        Commit::Elsewhere { branch, found } => {
            let found = found.as_deref().unwrap_or("no branch");
            Some(format!(
                "{found} is checked out, and commits go to {branch} only"
            ))
        }
        Commit::Refused { .. } => Some("a hook refused it".to_owned()),
        Commit::Failed { error, .. } => Some(error.clone()),
    }
}

pub(super) fn of_merge(merge: &Merge) -> Option<String> {
    match merge {
        Merge::Done { .. } | Merge::Cancelled => None,
        Merge::Conflict { files } => Some(format!(
            "it changes the same lines as others: {}",
            files.join(", ")
        )),
        Merge::Broken { check } => Some(format!("it merges, but then its validation {check}")),
        Merge::Refused { .. } => Some("a hook refused to commit its work".to_owned()),
        Merge::Failed { error } => Some(format!("it cannot be merged: {error}")),
    }
}

/// A verification, in a word or two.
pub fn check_word(outcome: &CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Passed => "passed",
        CheckOutcome::Failed { .. } => "failed",
        CheckOutcome::TimedOut => "took too long",
        CheckOutcome::NotRun { .. } | CheckOutcome::NoProgram { .. } => "cannot run",
        CheckOutcome::Cancelled => "cancelled",
    }
}
