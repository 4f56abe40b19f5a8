//! Ids that cannot be built invalid.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidId {
    pub text: String,
    pub expected: &'static str,
}

/// Defines an id made of text: only valid texts become one, in logs and files too.
macro_rules! text_id {
    ($id:ident, $expected:expr, $is_valid:expr) => {
        impl $id {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $id {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                let is_valid: fn(&str) -> bool = $is_valid;
                match is_valid(&text) {
                    true => Ok(Self(text.into())),
                    false => Err(InvalidId {
                        text,
                        expected: $expected,
                    }),
                }
            }
        }

        impl FromStr for $id {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.to_owned().try_into()
            }
        }

        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.as_str().to_owned()
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Defines a number that counts from 1.
macro_rules! number_id {
    ($id:ident) => {
        impl $id {
            pub const FIRST: Self = Self(1);

            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }

            pub fn get(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// One execution of a manifest: eight lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

text_id!(RunId, "a run id (8 hexadecimal digits)", |text| {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == RunId::DIGITS && text.bytes().all(digit)
});

impl RunId {
    pub const DIGITS: usize = 8;

    pub fn from_bits(bits: u32) -> Self {
        Self(format!("{bits:08x}"))
    }
}

/// A stage of a manifest: letters, digits, `-`, `_` and `.`, so that it can be part of a file name. Copies
/// share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StageId(Arc<str>);

text_id!(
    StageId,
    "a stage id (letters, digits, `-`, `_`, `.`; at most 64, the first a letter, a digit or `_`)",
    |text| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        // It is also part of branch names and command lines.
        let starts = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
        let ends = !text.ends_with('.') && !text.ends_with(".lock") && !text.contains("..");
        text.len() <= 64 && text.bytes().all(fits) && starts && ends
    }
);

impl StageId {
    /// The only stage of a manifest that `ekiden run` makes.
    pub fn only() -> Self {
        Self(Arc::from("main"))
    }
}

/// A message to an engine, by an id that its sender chose: letters, digits and `-`, so that it can be part of
/// a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MessageId(String);

text_id!(
    MessageId,
    "a message id (letters, digits, `-`; at most 64)",
    |text| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=64).contains(&text.len()) && text.bytes().all(fits)
    }
);

impl From<Uuid> for MessageId {
    fn from(id: Uuid) -> Self {
        Self(id.to_string())
    }
}

/// The number of a session in its relay, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct SessionNumber(u32);

number_id!(SessionNumber);

impl FromStr for SessionNumber {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text.parse() {
            Ok(number) if number > 0 => Ok(Self(number)),
            Ok(_) | Err(_) => Err(InvalidId {
                text: text.to_owned(),
                expected: "a session number (1 or more)",
            }),
        }
    }
}

impl TryFrom<u32> for SessionNumber {
    type Error = InvalidId;

    fn try_from(number: u32) -> Result<Self, InvalidId> {
        number.to_string().parse()
    }
}

impl From<SessionNumber> for u32 {
    fn from(number: SessionNumber) -> Self {
        number.0
    }
}

/// The number of an attempt at one session, from 1: a crash or a rate limit makes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptNumber(u32);

number_id!(AttemptNumber);

/// One child process that tries to run a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    pub session: SessionNumber,
    pub attempt: AttemptNumber,
}

impl AttemptId {
    pub fn first(session: SessionNumber) -> Self {
        Self {
            session,
            attempt: AttemptNumber::FIRST,
        }
    }

    /// The next attempt at the same session.
    pub fn again(self) -> Self {
        Self {
            attempt: self.attempt.next(),
            ..self
        }
    }

    /// The conversation id that a fresh attempt gets. It follows from run, stage and attempt, so that a
    /// restarted engine finds the same transcript.
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
    /// The id of the n-th message that an attempt sends into this conversation. A resumed client drops a
    /// message whose id the conversation already has, so each attempt has different ids.
    pub fn message(self, attempt: AttemptId, number: u32) -> String {
        Uuid::new_v5(&self.0, format!("{attempt}/{number}").as_bytes()).to_string()
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An effect in the log: the record that ordered it and its place in that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId {
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
        assert_ne!(
            one.conversation(&run, &main),
            one.conversation(&run, &other)
        );
        assert_ne!(
            one.conversation(&run, &main),
            one.again().conversation(&run, &main)
        );
    }
}
