//! Masks secrets in what ekiden shows or sends: `[masked: github token]`.
//!
//! One pass over the text finds every place where a secret could begin. There, either a pattern for that place
//! decides, or the value behind a name. Both look at a bounded piece of the text, so the time is linear in the text.
//! A pattern is compiled when it is first needed: most processes print nothing that needs one.
//!
//! Invariants:
//! - No quote, escape or line end is replaced, except inside a key that is one string with `\n` for its line ends. So
//!   JSON stays JSON and lines stay lines.
//! - Masking is idempotent and deterministic.
//!
//! What agents read and write is never masked, nor are the files in which ekiden keeps it: see `docs/safety.md`.

mod assignment;
mod looks;
mod rules;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use self::assignment::Assignment;
use self::looks::Written;
use self::rules::{Rule, Shape, Strength};
use crate::text::clean;

/// How a mask begins. It is searched for too, so that what it says is never taken for a name.
const MASK: &str = "[masked: ";
/// How far behind its start a rule looks whether there is a secret.
const NEAR_BYTES: usize = 256;
/// How far it looks for the end of a secret that was found: more than the longest key.
const FAR_BYTES: usize = 32 * 1024;
/// What may come right before a token without being part of its word: `\n`, `%3D`, `\x27`, `\u0027`, or a control
/// sequence of a terminal, raw or written as in JSON.
static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = concat!(
        r"(?:\\[nrt]|(?:%|\\x)[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}",
        r"|(?:\x1b|\\u001[bB]|\\x1b)\[[0-?]*[A-Za-z])$",
    );
    Regex::new(pattern).expect("a test compiles it")
});
/// An escape is shorter.
const ESCAPE_BYTES_MAX: usize = 48;
/// A mask is shorter.
const MASK_BYTES_MAX: usize = 48;

/// What a secret begins with, and its rule. A mask has none.
type Start = (&'static str, Option<usize>);

/// The rules, and a search for what their secrets begin with.
struct Rules {
    rules: Vec<Rule>,
    /// By a hash of a start's first letters, the index in `starts`. Most places are passed over by this alone: they have 0.
    index: Box<[u16; HASHES]>,
    /// The starts whose hash is the same, in the order of the rules. The first list is empty.
    starts: Vec<Vec<Start>>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rules = rules::all();
    let all = rules.iter().enumerate();
    let all =
        all.flat_map(|(index, rule)| rule.starts.iter().map(move |start| (*start, Some(index))));
    let mut index = Box::new([0; HASHES]);
    let mut starts = vec![Vec::new()];
    for (start, rule) in std::iter::once((MASK, None)).chain(all) {
        let first = start.as_bytes().first_chunk();
        let index = &mut index[hash(first.expect("a start has that many letters"))];
        if *index == 0 {
            *index = u16::try_from(starts.len()).expect("there are few starts");
            starts.push(Vec::new());
        }
        starts[usize::from(*index)].push((start, rule));
    }
    Rules {
        rules,
        index,
        starts,
    }
});

/// Hashes of three letters in any case.
const HASHES: usize = 1 << 14;

fn hash([a, b, c]: &[u8; 3]) -> usize {
    let letters = u32::from_le_bytes([*a, *b, *c, 0]) | 0x20_20_20;
    letters.wrapping_mul(0x9E37_79B1) as usize >> 18
}

impl Rules {
    /// The first start from this place on: where it is, and its rule.
    fn find(&self, text: &str, mut from: usize) -> Option<(Range<usize>, Option<usize>)> {
        loop {
            let mut places = text.as_bytes()[from..].array_windows();
            from += places.position(|letters| self.index[hash(letters)] != 0)?;
            let rest = &text.as_bytes()[from..];
            let begins = |(start, _): &&Start| {
                let beginning = rest.get(..start.len());
                beginning.is_some_and(|letters| letters.eq_ignore_ascii_case(start.as_bytes()))
            };
            let index = self.index[hash(rest.first_chunk()?)];
            match self.starts[usize::from(index)].iter().find(begins) {
                Some((start, rule)) => return Some((from..from + start.len(), *rule)),
                None => from += 1,
            }
        }
    }
}

/// A text from outside with all its lines, clean and masked. Cleaned first: an invisible character would hide a secret.
pub fn masked(text: &str) -> String {
    mask(&clean(text).text).into_owned()
}

/// The text with a mask in place of each secret.
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let (mut copied, mut from) = (0, 0);
    while let Some((at, rule)) = RULES.find(text, from) {
        let start = at.start;
        let Some(first) = rule else {
            from = mask_end(text, start).unwrap_or(at.end);
            continue;
        };
        match secret(text, copied, first, at) {
            Some((kind, secret)) => {
                masked.push_str(&text[copied..secret.start]);
                push_mask(&mut masked, kind, &text[secret.clone()]);
                (copied, from) = (secret.end, secret.end);
            }
            // The next start may overlap with this one. All starts are ASCII.
            None => from = start + 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(&text[copied..]);
    Cow::Owned(masked)
}

/// The same for bytes. What is not UTF-8 among them stays.
pub fn mask_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) => match mask(text) {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(masked) => Cow::Owned(masked.into_bytes()),
        },
        Err(_) => {
            let chunks = bytes.utf8_chunks();
            Cow::Owned(chunks.fold(Vec::new(), |mut masked, chunk| {
                masked.extend_from_slice(mask(chunk.valid()).as_bytes());
                masked.extend_from_slice(chunk.invalid());
                masked
            }))
        }
    }
}

/// The end of the mask that begins here.
fn mask_end(text: &str, start: usize) -> Option<usize> {
    let kind = text[start..].strip_prefix(MASK)?;
    let length = kind
        .bytes()
        .take(MASK_BYTES_MAX)
        .position(|byte| byte == b']')?;
    let is_ours = RULES.rules.iter().any(|rule| rule.kind == &kind[..length]);
    is_ours.then_some(start + MASK.len() + length + 1)
}

/// A mask for the secret; one on each line or string where a key has several.
fn push_mask(masked: &mut String, kind: &str, secret: &str) {
    let is_around = |c: char| c.is_whitespace() || "\"'\\,|¦>+-".contains(c);
    let mut pieces = secret.split_inclusive(['\n', '"']).peekable();
    let mut is_first = true;
    while let Some(piece) = pieces.next() {
        let begin = if is_first {
            0
        } else {
            looks::run(piece, usize::MAX, is_around)
        };
        let end = match pieces.peek() {
            Some(_) => piece.trim_end_matches(is_around).len(),
            None => piece.len(),
        };
        if begin < end {
            masked.push_str(&format!(
                "{}{MASK}{kind}]{}",
                &piece[..begin],
                &piece[end..]
            ));
        } else {
            masked.push_str(piece);
        }
        is_first = false;
    }
}

/// The secret whose start was found here: by this rule, or by one of those after it with the same starts. `copied` is
/// where the text begins that no mask covers yet.
fn secret(
    text: &str,
    copied: usize,
    first: usize,
    found: Range<usize>,
) -> Option<(&'static str, Range<usize>)> {
    let rules = &RULES.rules[first..];
    let mut rules = rules
        .iter()
        .take_while(|rule| rule.starts == rules[0].starts);
    rules.find_map(|rule| {
        let secret = match rule.shape {
            Shape::Token(_) => token(text, rule, found.clone()),
            Shape::Part(_, strength) => part(text, rule, strength, found.end),
            Shape::Assigned(strength) => assigned(text, strength, found.clone()),
            Shape::KeyEnd => cut_key(text, copied, found.clone()),
        };
        secret.map(|secret| (rule.kind, secret))
    })
}

/// The beginning of a text.
fn beginning(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A token, with the word that it ends in.
fn token(text: &str, rule: &Rule, found: Range<usize>) -> Option<Range<usize>> {
    if !rule.starts.contains(&&text[found.clone()]) || is_in_word(text, found.start) {
        return None;
    }
    let rest = &text[found.end..];
    let near = beginning(rest, NEAR_BYTES);
    let length = match rule.pattern().find(near) {
        Some(matched) => matched.end(),
        None => looks::cut_token(near)?,
    };
    if looks::stands_for_another(&near[..length]) || looks::is_monotonous(&near[..length]) {
        return None;
    }
    let far = rule.pattern().find(beginning(rest, FAR_BYTES));
    let length = far.map_or(length, |matched| matched.end());
    let end = found.end + length;
    Some(found.start..end + looks::word(&text[end..]))
}

/// The place is inside a word. An escape is not part of a word; a mask replaced the beginning of a word.
fn is_in_word(text: &str, at: usize) -> bool {
    let before = &text[..at];
    match before.bytes().next_back() {
        Some(b']') => is_masked(before),
        Some(b'_') => true,
        Some(byte) => byte.is_ascii_alphanumeric() && !ends_with_escape(before),
        None => false,
    }
}

fn ends_with_escape(text: &str) -> bool {
    let from = text.floor_char_boundary(text.len().saturating_sub(ESCAPE_BYTES_MAX));
    ESCAPE.is_match(&text[from..])
}

/// The text ends with a mask.
fn is_masked(text: &str) -> bool {
    let from = text.floor_char_boundary(text.len().saturating_sub(MASK_BYTES_MAX));
    let start = text[from..].rfind('[');
    start.is_some_and(|start| mask_end(text, from + start) == Some(text.len()))
}

/// The first group of a rule's pattern, if it looks like a secret.
fn part(text: &str, rule: &Rule, strength: Strength, from: usize) -> Option<Range<usize>> {
    let group = |bytes_max| {
        let found = rule
            .pattern()
            .captures(beginning(&text[from..], bytes_max))?;
        Some(from + found.get(1)?.start()..from + found.get(1)?.end())
    };
    let is_secret = looks::is_secret(&text[group(NEAR_BYTES)?], strength, Written::Quoted);
    is_secret.then(|| group(FAR_BYTES))?
}

/// What is left of a key whose beginning was cut off: the lines before its end mark.
fn cut_key(text: &str, copied: usize, mark: Range<usize>) -> Option<Range<usize>> {
    /// The lines of a key are longer, except the last.
    const LINE_BYTES_MIN: usize = 16;
    let label = beginning(&text[mark.end..], NEAR_BYTES)
        .split("-----")
        .next();
    if !label?.contains("PRIVATE KEY") {
        return None;
    }
    let (text, mut key) = (text.as_bytes(), mark.start..mark.start);
    let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let mut rest = &text[copied..mark.start];
    loop {
        while let Some(shorter) = without_line_end(rest) {
            rest = shorter;
        }
        let mut begin = rest
            .iter()
            .rposition(|byte| !is_of_key(byte))
            .map_or(0, |at| at + 1);
        // The letter behind a backslash belongs to the escape.
        begin += usize::from(rest[..begin].ends_with(b"\\")).min(rest.len() - begin);
        let line = begin..rest.len();
        let is_last = key.is_empty() && !line.is_empty();
        if line.len() < LINE_BYTES_MIN && !is_last {
            break;
        }
        let end = if is_last { line.end + copied } else { key.end };
        key = line.start + copied..end;
        rest = &rest[..begin];
    }
    (key.len() >= LINE_BYTES_MIN).then_some(key)
}

/// A text without what may stand between two lines of a key.
fn without_line_end(text: &[u8]) -> Option<&[u8]> {
    let escaped = text.strip_suffix(b"\\n").or(text.strip_suffix(b"\\r"));
    let is_between = |last: &u8| last.is_ascii_whitespace() || b"\"',|>+-".contains(last);
    escaped.or(text
        .split_last()
        .filter(|(last, _)| is_between(last))
        .map(|(_, rest)| rest))
}

/// The value that is assigned to a name.
fn assigned(text: &str, strength: Strength, word: Range<usize>) -> Option<Range<usize>> {
    let assignment = Assignment::read(text, word)?;
    let value = assignment.value(text)?;
    let (looked_at, written) = (&text[value.clone()], assignment.written);
    let is_secret = match looks::is_cut(&text[value.end..]) {
        true => looks::may_begin_secret(looked_at),
        false => looks::is_secret(looked_at, strength, written),
    };
    is_secret.then(|| value.start..value.end + assignment.rest(&text[value.end..]))
}
