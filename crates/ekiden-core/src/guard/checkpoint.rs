//! Why the guard takes a checkpoint of a watched session, where it keeps work in progress, and which issue
//! the checkpoint belongs to.

use serde::{Deserialize, Serialize};

use crate::names::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointReason {
    /// The context crossed L2.
    Level2,
    /// The context crossed L3.
    Level3,
    /// The client is about to summarise the conversation.
    Compaction,
    Manual,
    /// The work ahead needs more room than is left.
    Trajectory,
}

/// Where uncommitted work goes at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wip {
    /// To one of ekiden's own refs: branch and index stay as they are.
    #[default]
    Ref,
    /// As a commit on the branch.
    Branch,
    Off,
}

impl CheckpointReason {
    /// Its name with the context, if that is known: `L2 (context at 86%)`.
    pub fn trigger(self, percent: Option<u64>) -> String {
        match percent {
            Some(percent) => format!("{self} (context at {percent}%)"),
            None => self.name().to_owned(),
        }
    }

    /// A sentence for the document, with the current item.
    pub fn sentence(self, percent: Option<u64>, in_hand: Option<&str>) -> String {
        let of_level = match percent {
            Some(percent) => format!("Context reached {percent}% ({self} threshold)"),
            None => format!("Context reached the {self} threshold"),
        };
        let what = match self {
            Self::Level2 | Self::Level3 => &of_level,
            Self::Compaction => "The client was about to summarise the conversation",
            Self::Manual => "The checkpoint was asked for",
            Self::Trajectory => "More lay ahead than there was room for",
        };
        let during = in_hand.map_or(String::new(), |item| format!(" during: {item}"));
        let context = match (self, percent) {
            (Self::Level2 | Self::Level3, _) | (_, None) => String::new(),
            (_, Some(percent)) => format!(", with the context at {percent}%"),
        };
        let stop = if during.ends_with(['.', '!', '?']) {
            ""
        } else {
            "."
        };
        format!("{what}{context}{during}{stop}")
    }
}

names!(CheckpointReason {
    Level2: "L2",
    Level3: "L3",
    Compaction: "compaction",
    Manual: "manual",
    Trajectory: "trajectory",
});

names!(Wip {
    Ref: "ref",
    Branch: "branch",
    Off: "off",
});

/// The message of a commit of work in progress.
pub fn wip_subject(issue: Option<&str>) -> String {
    match issue {
        Some(issue) => format!("[WIP] {issue} - checkpoint"),
        None => "[WIP] checkpoint".to_owned(),
    }
}

/// The issue in a branch's name: `feature/ANV-123-login` is ANV-123, `gh-12` and `fix-#12` are #12. A name
/// like that of a release (`v1-2`, `utf-8`) has none.
pub fn issue_of_branch(branch: &str) -> Option<String> {
    let words = || branch.split(['/', '_', ' ', '.']);
    words()
        .find_map(keyed)
        .or_else(|| words().find_map(numbered))
}

/// Whether an issue has the form of a tracker's key, such as `ANV-123`.
pub fn is_key(issue: &str) -> bool {
    let key = split_key(issue);
    key.is_some_and(|(key, number)| issue.len() == key.len() + 1 + number.len() && shouts(key))
}

/// How many letters begin a key: at least two, at most ten.
const KEY_LETTERS: std::ops::RangeInclusive<usize> = 2..=10;
const DIGITS_MAX: usize = 7;

/// `ANV-123`, also in small letters where the key begins the word (trackers write branches so).
fn keyed(word: &str) -> Option<String> {
    let (key, number) = split_key(word)?;
    let known_other = NO_KEYS.contains(&key.to_ascii_lowercase().as_str());
    // In lower case, a word and a number alone may be anything: `step-2`. With a title it is a key.
    let titled = word.len() > key.len() + 1 + number.len() && number.len() > 1;
    (!known_other && (shouts(key) || titled))
        .then(|| format!("{}-{number}", key.to_ascii_uppercase()))
}

/// The letters and the number that a word of a key's form begins with.
fn split_key(word: &str) -> Option<(&str, &str)> {
    let (key, rest) = word.split_once('-')?;
    let is_key = key.chars().all(|c| c.is_ascii_alphanumeric())
        && key.starts_with(|c: char| c.is_ascii_alphabetic())
        && KEY_LETTERS.contains(&key.len());
    Some((key, digits(rest)?)).filter(|_| is_key)
}

fn shouts(key: &str) -> bool {
    key.chars().all(|c| !c.is_ascii_lowercase())
}

/// Words before a number that are no tracker's keys.
const NO_KEYS: [&str; 12] = [
    "utf", "iso", "sha", "gh", "issue", "issues", "release", "rfc", "python", "node", "step",
    "phase",
];

/// `#12`, `gh-12`, `issue-12`, `12-title`.
fn numbered(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let number = if let Some((_, rest)) = lower.split_once('#') {
        digits(rest)
    } else if let Some(rest) = ["gh-", "issue-"]
        .iter()
        .find_map(|prefix| lower.strip_prefix(prefix))
    {
        digits(rest)
    } else {
        digits(word).filter(|number| word[number.len()..].starts_with('-') && !is_date(word))
    };
    number.map(|number| format!("#{number}"))
}

/// The digits that a text begins with, if what follows ends the number.
fn digits(text: &str) -> Option<&str> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let ends = text[count..]
        .chars()
        .next()
        .is_none_or(|c| !c.is_alphanumeric());
    let number = &text[..count];
    (ends && (1..=DIGITS_MAX).contains(&count) && !number.starts_with('0')).then_some(number)
}

/// `2026-11-21-name`
fn is_date(word: &str) -> bool {
    let mut parts = word.split('-');
    let digits = |part: Option<&str>, len| {
        part.is_some_and(|part| part.len() == len && part.bytes().all(|b| b.is_ascii_digit()))
    };
    digits(parts.next(), 4) && digits(parts.next(), 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: CHK-004
    #[test]
    fn a_branch_tells_its_issue() {
        for (branch, issue) in [
            ("feature/ANV-123-new-feature", Some("ANV-123")),
            ("ANV-123", Some("ANV-123")),
            ("mia/anv-123-login", Some("ANV-123")),
            ("fix-#12", Some("#12")),
            ("gh-12", Some("#12")),
            ("gh-12-title", Some("#12")),
            ("issue-7-title", Some("#7")),
            ("12-title", Some("#12")),
            ("main", None),
            ("release-2", None),
            ("step-2", None),
            ("release/v1-2", None),
            ("utf-8-support", None),
            ("2026-11-21-notes", None),
            ("", None),
            ("-", None),
            ("é-12", None),
        ] {
            assert_eq!(issue_of_branch(branch).as_deref(), issue, "{branch}");
        }
    }

    // shows: CHK-004
    #[test]
    fn a_commit_of_work_in_progress_names_its_issue() {
        assert_eq!(wip_subject(Some("ANV-123")), "[WIP] ANV-123 - checkpoint");
        assert_eq!(wip_subject(None), "[WIP] checkpoint");
    }

    #[test]
    fn a_reason_tells_the_context_where_it_is_known() {
        let all = [
            CheckpointReason::Level2,
            CheckpointReason::Level3,
            CheckpointReason::Compaction,
            CheckpointReason::Manual,
            CheckpointReason::Trajectory,
        ];
        let told = all.map(|reason| {
            format!(
                "{} | {} | {}",
                reason.trigger(Some(86)),
                reason.sentence(Some(86), Some("UserProfile component")),
                reason.sentence(None, None)
            )
        });
        expect_test::expect![[r#"
            L2 (context at 86%) | Context reached 86% (L2 threshold) during: UserProfile component. | Context reached the L2 threshold.
            L3 (context at 86%) | Context reached 86% (L3 threshold) during: UserProfile component. | Context reached the L3 threshold.
            compaction (context at 86%) | The client was about to summarise the conversation, with the context at 86% during: UserProfile component. | The client was about to summarise the conversation.
            manual (context at 86%) | The checkpoint was asked for, with the context at 86% during: UserProfile component. | The checkpoint was asked for.
            trajectory (context at 86%) | More lay ahead than there was room for, with the context at 86% during: UserProfile component. | More lay ahead than there was room for."#]]
        .assert_eq(&told.join("\n"));
    }
}
