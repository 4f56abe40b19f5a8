//! A query.

use std::path::{Component, Path};

use ekiden_core::observation::{Observation, ObservationKind};
use ekiden_core::time::Timestamp;

use crate::words::each_word;

/// Further words of a question add nothing.
const GROUPS_MAX: usize = 16;
const PHRASE_WORDS_MAX: usize = 8;
/// A prefix of one letter matches half of all words.
const PREFIX_BYTES_MIN: usize = 2;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Words, `"phrases"`, and `prefixes*`.
    pub text: String,
    pub filter: Filter,
    pub here: Here,
    pub limit: usize,
    pub now: Timestamp,
}

/// Conditions on an observation. An empty one is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub project: Option<String>,
    pub kind: Option<ObservationKind>,
    pub concepts: Vec<String>,
    /// Names or paths, whole or in part.
    pub files: Vec<String>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
}

/// Where the asker works: observations from nearby rank a little higher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Here {
    pub branch: Option<String>,
    pub files: Vec<String>,
}

/// A part of a query: a word, a phrase, or a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) words: Vec<String>,
    pub(crate) is_prefix: bool,
    /// It was in quotation marks: an observation without it is no answer.
    pub(crate) is_needed: bool,
}

pub(crate) fn groups(text: &str) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut add = |words: Vec<String>, is_prefix, is_needed| {
        let group = Group {
            words,
            is_prefix,
            is_needed,
        };
        if !group.words.is_empty() && groups.len() < GROUPS_MAX && !groups.contains(&group) {
            groups.push(group);
        }
    };
    for (index, piece) in text.split('"').enumerate() {
        if index % 2 == 1 {
            add(words(piece), false, true);
            continue;
        }
        for token in piece.split_whitespace() {
            let of_token = words(token);
            let long_enough = of_token
                .last()
                .is_some_and(|word| word.len() >= PREFIX_BYTES_MIN);
            let is_prefix = token.ends_with('*') && of_token.len() == 1 && long_enough;
            if of_token.len() > 1 {
                // An identifier or a path: the whole counts most, and its words count as well.
                add(of_token.clone(), false, false);
            }
            for word in of_token {
                add(vec![word], is_prefix, false);
            }
        }
    }
    groups
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word, _| words.push(word.to_owned()));
    words.truncate(PHRASE_WORDS_MAX);
    words
}

impl Filter {
    /// The same filter, only for these files. Each is an absolute path or any part of a path; observations record
    /// paths relative to the project.
    pub fn about(mut self, files: &[String]) -> Self {
        let project = self.project.as_deref().unwrap_or("/");
        let recorded = |file: &String| {
            let path = Path::new(file);
            let path = path.strip_prefix(project).unwrap_or(path);
            let names = path.components().filter_map(|part| match part {
                Component::Normal(name) => Some(name.to_string_lossy()),
                Component::Prefix(_)
                | Component::RootDir
                | Component::CurDir
                | Component::ParentDir => None,
            });
            names.collect::<Vec<_>>().join("/")
        };
        let recorded = files.iter().map(recorded);
        self.files = recorded.filter(|file| !file.is_empty()).collect();
        self
    }

    pub(crate) fn accepts(&self, found: &Observation) -> bool {
        let file = |wanted: &String| found.files.iter().any(|file| is_within(file, wanted));
        self.project
            .as_ref()
            .is_none_or(|project| *project == found.from.project)
            && self.kind.is_none_or(|kind| kind == found.kind)
            && self
                .concepts
                .iter()
                .all(|name| found.concepts.contains(name))
            && self.files.iter().all(file)
            && self.since.is_none_or(|since| found.time >= since)
            && self.until.is_none_or(|until| found.time < until)
    }
}

/// Whether a path has these components in sequence.
fn is_within(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_matches('/');
    format!("/{path}/").contains(&format!("/{wanted}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_words_phrases_and_prefixes() {
        let shown = |text: &str| -> Vec<String> {
            let all = groups(text);
            let shown = all.iter().map(|group| {
                let star = if group.is_prefix { "*" } else { "" };
                let needed = if group.is_needed { "!" } else { "" };
                format!("{}{star}{needed}", group.words.join(" "))
            });
            shown.collect()
        };
        assert_eq!(shown("Why the keepers wait"), ["keeper", "wait"]);
        assert_eq!(shown("\"attempt lock\" keep*"), ["attempt lock!", "keep*"]);
        assert_eq!(shown("handoff_dir a*"), ["handoff dir", "handoff", "dir"]);
        assert_eq!(shown("the \"of"), [""; 0]);
    }

    #[test]
    fn a_file_is_named_by_whole_components() {
        assert!(is_within("crates/core/src/lock.rs", "lock.rs"));
        assert!(is_within("crates/core/src/lock.rs", "core/src"));
        assert!(!is_within("crates/core/src/lock.rs", "ock.rs"));
    }
}
