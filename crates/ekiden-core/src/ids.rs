//! Ids that cannot be built invalid.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text is not the id that it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidId {
    /// What was given.
    pub text: String,
    /// What would have been right.
    pub expected: &'static str,
}

/// One execution of a manifest: eight lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// The number of digits in an id.
    pub const DIGITS: usize = 8;

    /// The id made of these random bits.
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self(format!("{bits:08x}"))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == Self::DIGITS && text.bytes().all(digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { text: text.to_owned(), expected: "a run id (8 hexadecimal digits)" })
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stage of a manifest: letters, digits, `-`, `_` and `.`, so that it can stand in a file name.
/// Copies share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StageId(Arc<str>);

impl StageId {
    /// The only stage of a manifest that `ekiden run` makes.
    #[must_use]
    pub fn only() -> Self {
        Self(Arc::from("main"))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for StageId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        // It stands in names of branches too, and on command lines.
        let starts = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
        let ends = !text.ends_with('.') && !text.ends_with(".lock") && !text.contains("..");
        if text.len() <= 64 && text.bytes().all(fits) && starts && ends {
            Ok(Self(Arc::from(text)))
        } else {
            Err(InvalidId {
                text,
                expected: "a stage id (letters, digits, `-`, `_`, `.`; at most 64, the first a letter, a digit or `_`)",
            })
        }
    }
}

impl From<StageId> for String {
    fn from(id: StageId) -> Self {
        id.as_str().to_owned()
    }
}

impl fmt::Display for StageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a session in its relay, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct SessionNumber(u32);

impl SessionNumber {
    /// The first session.
    pub const FIRST: Self = Self(1);

    /// The session after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The plain number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl FromStr for SessionNumber {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let expected = "a session number (1 or more)";
        let wrong = |_| InvalidId { text: text.to_owned(), expected };
        text.parse::<u32>().map_err(wrong)?.try_into()
    }
}

impl TryFrom<u32> for SessionNumber {
    type Error = InvalidId;

    fn try_from(number: u32) -> Result<Self, InvalidId> {
        if number == 0 {
            return Err(InvalidId { text: "0".to_owned(), expected: "a session number (1 or more)" });
        }
        Ok(Self(number))
    }
}

impl From<SessionNumber> for u32 {
    fn from(number: SessionNumber) -> Self {
        number.0
    }
}

impl fmt::Display for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an attempt at one session, from 1: a crash or a rate limit makes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptNumber(u32);

impl AttemptNumber {
    /// The first attempt.
    pub const FIRST: Self = Self(1);

    /// The attempt after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The plain number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One child process that tries to carry out a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The session that it carries out.
    pub session: SessionNumber,
    /// Which try this is.
    pub attempt: AttemptNumber,
}

impl AttemptId {
    /// The first attempt at a session.
    #[must_use]
    pub fn first(session: SessionNumber) -> Self {
        Self { session, attempt: AttemptNumber::FIRST }
    }

    /// The next attempt at the same session.
    #[must_use]
    pub fn again(self) -> Self {
        Self { attempt: self.attempt.next(), ..self }
    }

    /// The conversation id that a fresh attempt gets. It follows from run, stage and attempt, so that a
    /// restarted engine finds the same transcript.
    #[must_use]
    pub fn conversation(self, run: &RunId, stage: &StageId) -> ConversationId {
        let mut name = format!("{run}/{}/{}", self.session, self.attempt);
        if *stage != StageId::only() {
            name = format!("{name}/{stage}");
        }
        ConversationId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()))
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.session, self.attempt)
    }
}

/// The id that the agent knows a conversation by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConversationId(Uuid);

impl ConversationId {
    /// The id of the n-th message that an attempt sends into this conversation. A resumed client
    /// drops a message whose id the conversation already has, so each attempt has ids of its own.
    #[must_use]
    pub fn message(self, attempt: AttemptId, number: u32) -> String {
        Uuid::new_v5(&self.0, format!("{attempt}/{number}").as_bytes()).to_string()
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message to an engine, by an id that its sender chose: letters, digits and `-`, so that it can
/// stand in a file's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MessageId(String);

impl TryFrom<String> for MessageId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if (1..=64).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text))
        } else {
            Err(InvalidId { text, expected: "a message id (letters, digits, `-`; at most 64)" })
        }
    }
}

impl From<MessageId> for String {
    fn from(id: MessageId) -> Self {
        id.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An effect in the log: the record that ordered it and its place in that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId {
    /// The record's sequence number.
    pub seq: u64,
    /// The place among the record's effects, from 0.
    pub index: u32,
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seq, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_refuse_what_they_are_not() {
        assert!("7f3a0b1c".parse::<RunId>().is_ok());
        for bad in ["", "7f3a", "7F3A0B1C", "7f3a0b1g", "../../ab"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        for bad in ["", ".hidden", "a/b", "a b", "-x", "a..b", "a.lock", "a."] {
            assert!(StageId::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        assert!(SessionNumber::try_from(0).is_err());
        for bad in ["", "../../x", "a/b", "a.b", &"a".repeat(65)] {
            assert!(MessageId::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_attempt_has_its_own_conversation() {
        let (run, main) = (RunId::from_bits(7), StageId::only());
        let other = StageId::try_from("S02".to_owned()).unwrap();
        let one = AttemptId::first(SessionNumber::FIRST);
        assert_eq!(one.conversation(&run, &main), one.conversation(&run, &main));
        assert_ne!(one.conversation(&run, &main), one.conversation(&run, &other));
        assert_ne!(one.conversation(&run, &main), one.again().conversation(&run, &main));
    }
}
