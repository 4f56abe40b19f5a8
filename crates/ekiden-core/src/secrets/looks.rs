//! What a secret looks like, and what a placeholder looks like: `$TOKEN`, `<password>`, `config.token`.

use super::rules::Strength;

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Quoted,
    /// `NAME=value`, as in a shell or an `.env`.
    InShell,
    /// Without quotes: it may be code.
    Bare,
}

/// The shortest password and the shortest key that are masked, in bytes. Shorter ones are mostly words.
const WEAK_BYTES_MIN: usize = 6;
const STRONG_BYTES_MIN: usize = 12;
/// The minimum entropy of a key, in bits per character: a word has less, 12 random hexadecimal digits have 3.
const ENTROPY_MIN: f64 = 2.8;
/// Texts that replace a secret in examples, in lower case.
const EXAMPLES: &[&str] = &[
    "example",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "redacted",
    "your",
    "insert",
    "replace",
    "dummy",
    "xxxx",
    "masked",
    "process.env",
    "os.environ",
    "getenv",
    "secrets.",
    "...",
    "${",
    "{{",
    "$(",
    "12345678",
];
/// The same as whole words.
const EXAMPLE_WORDS: &[&str] = &[
    "pass", "password", "passwd", "passw0rd", "pwd", "pw", "secret", "token",
];
/// The beginnings of hashes, which are public.
const HASHES: &[&str] = &[
    "sha1-", "sha256-", "sha384-", "sha512-", "sha1:", "sha256:", "sha512:", "md5:",
];

/// The length in bytes of the run of such characters at the beginning, up to `chars_max` of them.
pub(super) fn run(text: &str, chars_max: usize, is: impl Fn(char) -> bool) -> usize {
    let mut chars = text.char_indices().take(chars_max);
    let end = chars.find(|(_, c)| !is(*c)).map(|(at, _)| at);
    end.unwrap_or_else(|| {
        text.char_indices()
            .nth(chars_max)
            .map_or(text.len(), |(at, _)| at)
    })
}

/// The length in bytes of the word at the beginning.
pub(super) fn word(text: &str) -> usize {
    run(text, usize::MAX, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
    })
}

/// The text before this was cut off for lack of room.
pub(super) fn is_cut(rest: &str) -> bool {
    rest.trim_start_matches(' ').starts_with('…')
}

/// The length of what is left of a cut-off token.
pub(super) fn cut_token(rest: &str) -> Option<usize> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "_-.+/=%".contains(c);
    let length = run(rest, 300, is_token);
    (is_cut(&rest[length..]) && may_begin_secret(&rest[..length])).then_some(length)
}

/// What is left of a cut-off text may belong to a secret.
pub(super) fn may_begin_secret(text: &str) -> bool {
    text.len() >= 4 && text.bytes().any(|byte| byte.is_ascii_digit()) && !stands_for_another(text)
}

/// It is a variable, a form field or an example.
pub(super) fn stands_for_another(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    text.starts_with(['$', '<', '{', '[', '*', '%', '('])
        || EXAMPLES.iter().any(|example| lower.contains(example))
        || EXAMPLE_WORDS.contains(&lower.as_str())
}

/// A few characters, repeated.
pub(super) fn is_monotonous(text: &str) -> bool {
    let mut bytes: Vec<u8> = text.bytes().collect();
    bytes.sort_unstable();
    bytes.dedup();
    bytes.len() < (text.len() / 2).min(7)
}

pub(super) fn is_secret(text: &str, strength: Strength, written: Written) -> bool {
    if stands_for_another(text) || written == Written::Bare && is_code(text) {
        return false;
    }
    match strength {
        Strength::Any => true,
        Strength::Weak | Strength::Strong if text.parse::<f64>().is_ok() => false,
        Strength::Weak => text.len() >= WEAK_BYTES_MIN && is_chosen(text) && !is_code(text),
        Strength::Strong => text.len() >= STRONG_BYTES_MIN && is_random(text),
    }
}

/// Letters with digits or symbols. Not a figure with its unit, a date, a rule or a path.
fn is_chosen(text: &str) -> bool {
    let letters = count(text, char::is_alphabetic);
    let digits = count(text, |c| c.is_ascii_digit());
    let symbols = count(text, |c| "!@#$%^&*+?~".contains(c));
    let is_word = letters + digits + count(text, |c| c == '_') == text.chars().count();
    letters > 0
        && (digits > 0 || symbols > 0 && !text.contains('/'))
        && !(is_word && letters < 4 && text.starts_with(char::is_alphabetic))
        && !(letters <= 3
            && text.starts_with(|c: char| c.is_ascii_digit())
            && symbols == 0
            && digits < 5)
        && !text.contains('|')
        && !is_path(text)
        && !is_date(text)
}

/// Nothing that a person would use as a name: no words with dashes, no version, no path, no hash.
fn is_random(text: &str) -> bool {
    let letters = count(text, |c| c.is_ascii_alphabetic());
    let digits = count(text, |c| c.is_ascii_digit());
    letters > 0
        && (digits > 0 || is_mixed(text))
        && !is_name(text)
        && !is_path(text)
        && !is_date(text)
        && !HASHES.iter().any(|hash| text.starts_with(hash))
        && entropy(text) >= ENTROPY_MIN
}

/// Upper and lower case change so often that there are no words in it.
fn is_mixed(text: &str) -> bool {
    let letters: Vec<bool> = text
        .chars()
        .filter(char::is_ascii_alphabetic)
        .map(|c| c.is_ascii_uppercase())
        .collect();
    let changes = letters.windows(2).filter(|pair| pair[0] != pair[1]).count();
    text.len() >= 16 && changes * 3 > letters.len()
}

/// Words and short numbers with marks between them: `my-app-2024`, `feature/login_2`.
fn is_name(text: &str) -> bool {
    let parts = text.split(['-', '_', '.', '/', ':', '@', '+', ',']);
    parts.into_iter().all(|part| {
        let letters = count(part, |c| c.is_ascii_alphabetic());
        let begin = run(part, usize::MAX, |c| c.is_ascii_alphabetic());
        part.len() - letters <= 4 && (begin == letters || part.len() <= 4) && !is_mixed(part)
    })
}

/// A variable, a field, a type: only words of a programming language.
fn is_code(text: &str) -> bool {
    let parts: Vec<&str> = text
        .split(['.', ':', '-', '>'])
        .filter(|part| !part.is_empty())
        .collect();
    let is_word = |part: &&str| {
        let letters = run(part, usize::MAX, |c| c.is_ascii_alphabetic() || c == '_');
        letters > 0
            && part[letters..].bytes().all(|byte| byte.is_ascii_digit())
            && part.len() - letters <= 3
    };
    match parts.as_slice() {
        // A word and a year are a password.
        [word] => is_word(word) && count(word, |c| c.is_ascii_digit()) < 2,
        parts => parts.iter().all(is_word),
    }
}

fn is_path(text: &str) -> bool {
    let is_below = text.starts_with('/') && text[1..].contains('/') && !is_mixed(text);
    is_below
        || ["./", "../", "~/", "http://", "https://", "file:", "arn:"]
            .iter()
            .any(|start| text.starts_with(start))
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 10
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[7] == b'-'
}

fn count(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.chars().filter(|c| is(*c)).count()
}

/// Shannon entropy of the text by itself, in bits per byte.
#[expect(clippy::cast_precision_loss, reason = "a text of a few hundred bytes")]
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = text.len() as f64;
    let shares = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}
