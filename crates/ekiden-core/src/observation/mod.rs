//! Observations: what a session leaves for later ones, each small enough to be read whole.
//!
//! ```text
//!  records of a run ───► of_record ──┐
//!  checkpoint, prompt,               ├──► Observation: clean, masked, bounded ──► one line of the memory
//!  end of a watched session ► watched┘
//! ```
//!
//! They come from structure alone: headings of handoffs, exit codes, tool calls. No model is asked.
//!
//! Invariants:
//! - *The id follows from content and origin.* The same input offered twice is one observation.
//! - [`Observation::new`] *masks secrets and removes `<private>` spans*.

mod of_record;
pub mod watched;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::sha256_hex;
use crate::limits::{
    OBSERVATION_FILES_MAX, OBSERVATION_TEXT_CHARS_MAX, OBSERVATION_TITLE_CHARS_MAX,
};
use crate::names::names;
use crate::prompt::budget::{Keep, Mark, cut_by_size};
use crate::secrets::{mask, masked};
use crate::text::one_line;
use crate::time::Timestamp;

pub use of_record::of_record;

/// 64 bits of the hash of content and origin; 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObservationId(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationKind {
    /// Files or the state of the work changed; a checkpoint.
    Change,
    Handoff,
    Decision,
    /// A fact that was discovered.
    Discovery,
    Failure,
    Verification,
    Commit,
    /// A person's request.
    Prompt,
    /// The result of a session.
    Summary,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The directory of the project, absolute.
    pub project: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The client's id of the session, or its number in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<String>,
}

/// One thing that a session left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    pub id: ObservationId,
    pub time: Timestamp,
    pub from: Origin,
    #[serde(rename = "type")]
    pub kind: ObservationKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concepts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl Observation {
    /// An observation; none if the title is empty once it is clean. A text that is too long keeps both ends.
    pub fn new(
        from: &Origin,
        time: Timestamp,
        kind: ObservationKind,
        title: &str,
        text: &str,
    ) -> Option<Self> {
        let shown = |text: &str| masked(&without_private(text));
        let (title, text) = (
            one_line(&shown(title), OBSERVATION_TITLE_CHARS_MAX),
            shown(text),
        );
        let mark = Mark::new("", "what the session left");
        let text = cut_by_size(
            text.trim(),
            OBSERVATION_TEXT_CHARS_MAX,
            Keep::Ends,
            mark,
            |text| text.chars().count(),
        );
        let branch = from.branch.as_deref().map(|name| mask(name).into_owned());
        let made = Self {
            id: ObservationId::default(),
            time,
            from: Origin {
                branch,
                ..from.clone()
            },
            kind,
            concepts: Vec::new(),
            files: Vec::new(),
            title,
            text: text.trim().to_owned(),
        };
        (!made.title.is_empty()).then(|| made.identified())
    }

    #[must_use]
    pub fn concept(mut self, concept: &str) -> Self {
        self.concepts.push(concept.to_owned());
        self.identified()
    }

    #[must_use]
    pub fn about(mut self, files: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let files = files.into_iter();
        let names = files.map(|file| one_line(&mask(file.as_ref()), 300));
        self.files = names.take(OBSERVATION_FILES_MAX).collect();
        self.identified()
    }

    /// Removes the files that `is_left_out` names, and the lines of the text that name them; none if the observation
    /// was about those alone.
    pub fn without(mut self, is_left_out: impl Fn(&str) -> bool) -> Option<Self> {
        let (out, rest): (Vec<_>, Vec<_>) =
            self.files.into_iter().partition(|file| is_left_out(file));
        self.files = rest;
        if out.is_empty() {
            return Some(self);
        }
        let names = |line: &str| out.iter().any(|file| line.contains(file.as_str()));
        if self.files.is_empty() || names(&self.title) {
            return None;
        }
        let lines: Vec<&str> = self.text.lines().filter(|line| !names(line)).collect();
        self.text = lines.join("\n");
        Some(self.identified())
    }

    /// The same session has left the same before.
    pub fn repeats(&self, earlier: &Self) -> bool {
        self.from.session == earlier.from.session
            && self.kind == earlier.kind
            && (&self.title, &self.text) == (&earlier.title, &earlier.text)
    }

    fn identified(mut self) -> Self {
        self.id = ObservationId::default();
        let content = serde_json::to_vec(&self).unwrap_or_default();
        let digits = &sha256_hex(&content)[..16];
        self.id = ObservationId(u64::from_str_radix(digits, 16).unwrap_or_default());
        self
    }
}

/// The text without its `<private>` spans. An unclosed span reaches to the end. A span whose beginning is missing,
/// because the text was cut, reaches back to the beginning.
pub fn without_private(text: &str) -> String {
    const TAGS: [&str; 2] = ["<private>", "</private>"];
    let lower = text.to_ascii_lowercase();
    let (mut kept, mut at, mut depth) = (String::new(), 0, 0_u32);
    while let Some((tag, start)) = TAGS
        .iter()
        .filter_map(|tag| Some((*tag, lower[at..].find(tag)? + at)))
        .min_by_key(|(_, start)| *start)
    {
        if depth == 0 {
            kept.push_str(&text[at..start]);
        }
        match (tag == TAGS[0], depth) {
            (true, _) => depth += 1,
            (false, 0) => kept.clear(),
            (false, _) => depth -= 1,
        }
        at = start + tag.len();
    }
    if depth == 0 {
        kept.push_str(&text[at..]);
    }
    kept
}

names!(ObservationKind {
    Change: "change",
    Handoff: "handoff",
    Decision: "decision",
    Discovery: "discovery",
    Failure: "failure",
    Verification: "verification",
    Commit: "commit",
    Prompt: "prompt",
    Summary: "summary",
});

impl fmt::Display for ObservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for ObservationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObservationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let is_whole = text.len() == 16;
        let id = u64::from_str_radix(&text, 16).ok().filter(|_| is_whole);
        id.map(Self)
            .ok_or_else(|| serde::de::Error::custom("an id has 16 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests;
