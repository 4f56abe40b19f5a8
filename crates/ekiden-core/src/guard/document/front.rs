//! The front matter: the part of a document that programs read.
//!
//! Values come from branches and settings. So each value is one line, quoted unless it is plainly a word.

use super::facts::{Facts, Tree, WipState};
use crate::guard::checkpoint::is_key;
use crate::text::one_line;

/// A value, in characters.
const VALUE_CHARS_MAX: usize = 120;

/// The beginning of a document, up to the closing line.
pub(super) fn front_matter(facts: &Facts) -> String {
    let (branch, wip) = match &facts.tree {
        Tree::Git(git) => (git.branch.as_deref(), Some(&git.wip)),
        Tree::NoRepository | Tree::Unknown { .. } => (None, None),
    };
    let issue = facts.issue.as_deref();
    let commit = match wip {
        Some(WipState::Saved { commit, .. }) => Some(commit.as_str()),
        Some(WipState::Off | WipState::Clean | WipState::Failed { .. }) | None => None,
    };
    let percent = facts.percent.map(|percent| format!("{percent}%"));
    let rows = [
        ("session_date", Some(facts.at.date.as_str())),
        ("session_time", Some(&facts.at.time)),
        ("branch", branch),
        ("linear_issues", issue.filter(|issue| is_key(issue))),
        ("issue", issue.filter(|issue| !is_key(issue))),
        (
            "checkpoint_trigger",
            Some(&facts.reason.trigger(facts.percent)),
        ),
        ("context_at_checkpoint", percent.as_deref()),
        ("session", facts.session.as_deref()),
        ("wip_commit", commit),
        ("checkpoint_mark", facts.mark.as_deref()),
    ];
    let rows = rows
        .into_iter()
        .filter_map(|(key, value)| Some(format!("{key}: {}\n", scalar(value?))));
    format!("---\n{}---\n", rows.collect::<String>())
}

/// The value of a key, as it was given.
pub(super) fn value(document: &str, key: &str) -> Option<String> {
    let rows = document
        .strip_prefix("---\n")?
        .lines()
        .take_while(|line| *line != "---");
    let value = rows
        .filter_map(|row| row.split_once(": "))
        .find(|(found, _)| *found == key)?
        .1
        .trim();
    let text = match value.strip_prefix('"') {
        Some(_) => serde_json::from_str(value).unwrap_or_default(),
        None => value.to_owned(),
    };
    Some(one_line(&text, VALUE_CHARS_MAX)).filter(|text| !text.is_empty())
}

/// The document without its front matter.
pub(super) fn body(document: &str) -> &str {
    let behind = document
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---\n"));
    behind.map_or(document, |(_, body)| body)
}

/// A value of one line.
fn scalar(value: &str) -> String {
    let value = one_line(value, VALUE_CHARS_MAX);
    let plain =
        |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '.' | ' ' | '(' | ')' | '%');
    let first = value.chars().next().is_some_and(char::is_alphanumeric);
    // A time is plain too: its colon is followed by no blank.
    let is_time = value.len() == 5 && value.as_bytes()[2] == b':';
    if is_time || (first && value.chars().all(plain) && !value.ends_with(' ')) {
        value
    } else {
        serde_json::Value::from(value).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_as_it_was_given() {
        for text in [
            "feature/ANV-1",
            "#12",
            "a: b",
            "x # y",
            "- [ ]",
            "\"q\"",
            "11:45",
            "L2 (context at 86%)",
        ] {
            let document = format!("---\nkey: {}\n---\n\n# T\n", scalar(text));
            assert_eq!(value(&document, "key").as_deref(), Some(text), "{document}");
            assert_eq!(body(&document), "\n# T\n");
        }
        assert_eq!(scalar("a\n---\nb"), "a --- b");
        assert_eq!(scalar("true: x"), "\"true: x\"");
    }

    #[test]
    fn a_document_without_front_matter_has_no_values() {
        assert_eq!(
            (value("# T\nkey: x\n", "key"), body("# T\n")),
            (None, "# T\n")
        );
        assert_eq!(value("---\nkey: x", "other"), None);
    }
}
