//! A name with a value: in a shell, a settings file, JSON, code, on a command line.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::looks::{self, Written};

/// How much of a name is read before or after the word that found it, in characters.
const NAME_CHARS_MAX: usize = 40;
/// How much of a value is judged, in characters. The rest is treated the same.
const VALUE_CHARS_MAX: usize = 200;
/// Words after `token` and the like in names whose value only describes a secret.
const ABOUT: &[&str] = &[
    "age", "at", "budget", "class", "count", "counts", "dir", "endpoint", "env", "error",
    "expires", "expiry", "file", "files", "format", "header", "hint", "id", "ids", "index", "kind",
    "label", "length", "limit", "max", "min", "name", "names", "path", "pattern", "policy",
    "prompt", "provider", "ref", "regex", "rule", "rules", "size", "source", "store", "stream",
    "ttl", "type", "types", "uri", "url", "usage", "used", "var", "version",
];
/// Words before `token` that make it a place in a list, or a number.
const PLACES: &[&str] = &["next", "page", "continuation", "cursor", "fencing", "sync"];

/// The text between a name and its value: the sign, a type, a quote. A quote may be escaped, and more than once.
static SIGN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = concat!(
        r#"^(?:\\{0,7}["'`]|[\])]){0,3}([ \t]{0,3}(?:=>|:=|={1,3}|[:>,(])[ \t]{0,3})"#,
        r"(?:&?(?:'static )?[Ss]tr(?:ing)?[ ]?=[ ]?)?",
        r#"([bru]?\\{0,7}["'`])?"#,
    );
    Regex::new(pattern).expect("a test compiles it")
});
/// The same on a command line, after `--password`.
static BLANK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"^([ \t]{1,2})(\\{0,7}["'`])?"#).expect("a test compiles it"));

pub(super) struct Assignment {
    /// Where the value begins.
    value: usize,
    pub(super) written: Written,
}

impl Assignment {
    /// The assignment to the name that contains this word.
    pub(super) fn read(text: &str, word: Range<usize>) -> Option<Self> {
        // The quote before a word may be part of the match.
        let first = word.start + usize::from(!text[word.clone()].starts_with(is_name));
        let before = text[..first].bytes().rev().take(NAME_CHARS_MAX);
        let start = first - before.take_while(|byte| is_name((*byte).into())).count();
        let end = word.end + looks::run(&text[word.end..], NAME_CHARS_MAX, is_name);
        if is_about(
            &text[start..first],
            &text[word.clone()],
            &text[word.end..end],
        ) {
            return None;
        }
        let name = &text[start..end];
        let rest = &text[end..text.floor_char_boundary(end + NAME_CHARS_MAX)];
        let found = SIGN.captures(rest);
        let flag = || BLANK.captures(rest).filter(|_| name.starts_with("--"));
        let found = found.or_else(flag)?;
        let sign = found.get(1)?.as_str();
        let written = if found.get(2).is_some() {
            Written::Quoted
        } else if sign.contains([',', '(']) {
            return None;
        } else if sign == "=" && !name.contains(|c: char| c.is_ascii_lowercase()) {
            Written::InShell
        } else {
            Written::Bare
        };
        let value = end + found.get(0)?.end();
        Some(Self { value, written })
    }

    /// The value, as far as it is judged.
    pub(super) fn value(&self, text: &str) -> Option<Range<usize>> {
        let rest = &text[self.value..];
        let length = looks::run(rest, VALUE_CHARS_MAX, |c| self.is_in_value(c));
        let value = self.value..self.value + length;
        let is_quoted = self.written == Written::Quoted;
        // Words in quotes are a sentence, and a quote that ends a JSON string has no value after it.
        let is_sentence = rest[length..].starts_with(' ') && !looks::is_cut(&rest[length..]);
        let is_outside = rest.starts_with([':', ',', ']', '}']);
        let is_type = rest[length..].trim_start().starts_with('=') && !is_padded(&rest[length..]);
        let is_value = match is_quoted {
            true => !is_sentence && !is_outside,
            false => !is_type,
        };
        is_value.then_some(value)
    }

    /// The length of the rest of a value that was too long to be judged whole.
    pub(super) fn rest(&self, text: &str) -> usize {
        looks::run(text, usize::MAX, |c| c == '=' || self.is_in_value(c))
    }

    fn is_in_value(&self, c: char) -> bool {
        let ends = match self.written {
            Written::Quoted | Written::InShell => "\"'`\\…",
            Written::Bare => "\"'`\\…,;()[]{}&<>|=",
        };
        !c.is_whitespace() && !c.is_control() && !ends.contains(c)
    }
}

/// The text after a value is the end of its base64: `=` or `==`, not followed by another value.
fn is_padded(rest: &str) -> bool {
    let behind = rest.trim_start_matches('=');
    let length = rest.len() - behind.len();
    let ends = |c: char| c.is_whitespace() || ",;)]}&\\".contains(c);
    (1..=2).contains(&length) && behind.chars().next().is_none_or(ends)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The name describes a secret, or something else: `tokens`, `passed`, `secretName`, `next_token`.
fn is_about(before: &str, word: &str, after: &str) -> bool {
    let is_upper = word.ends_with(|c: char| c.is_ascii_uppercase());
    let goes_on = |c: char| c.is_ascii_alphabetic() && c.is_ascii_uppercase() == is_upper;
    let after_lower = after.to_ascii_lowercase();
    let is_longer = after.starts_with(goes_on)
        && !["key", "value"]
            .iter()
            .any(|more| after_lower.starts_with(more));
    is_longer
        || words(after).any(|word| ABOUT.contains(&word.as_str()))
        || words(before)
            .last()
            .is_some_and(|word| PLACES.contains(&word.as_str()))
}

/// The words of a name, in lower case: for `next_page`, `next-page`, `nextPage`.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || was_lower && c.is_ascii_uppercase() {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            words
                .last_mut()
                .expect("there is one")
                .push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words.into_iter().filter(|word| !word.is_empty())
}
