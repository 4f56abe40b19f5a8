//! Text from outside, made plain: what a person would see, and nothing that hides.
//!
//! Every text that an agent, a file, a tool or a tracker produced goes through [`clean`] before ekiden judges
//! it, keeps it or shows it to another agent, so that all three see the same text. Escape sequences,
//! zero-width, bidirectional and tag characters let a text say one thing to a person and another to a
//! program; old Mac and Unicode line ends let a line begin unnoticed.

/// A text without hidden characters, and the number of removed ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clean {
    /// The text; its only control characters are line feeds and tabs.
    pub text: String,
    pub removed: Hidden,
}

/// Characters that were removed from a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hidden {
    /// Control characters, and escape sequences counted as one each.
    pub controls: usize,
    /// Characters without width: zero-width, bidirectional, tag characters, fillers.
    pub invisible: usize,
}

/// The text with line feeds only, without escape sequences, control and invisible characters.
pub fn clean(text: &str) -> Clean {
    if text
        .bytes()
        .all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~'))
    {
        return Clean {
            text: text.to_owned(),
            removed: Hidden::default(),
        };
    }
    let mut clean = Clean {
        text: String::with_capacity(text.len()),
        removed: Hidden::default(),
    };
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => {
                let _ = rest.next_if_eq(&'\n');
                clean.text.push('\n');
            }
            '\n' | '\t' => clean.text.push(c),
            '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => clean.text.push('\n'),
            '\u{1b}' => {
                skip_escape(&mut rest);
                clean.removed.controls += 1;
            }
            '\u{9b}' => {
                skip_until_final(&mut rest);
                clean.removed.controls += 1;
            }
            c if c.is_control() => clean.removed.controls += 1,
            c if is_invisible(c) => clean.removed.invisible += 1,
            c => clean.text.push(c),
        }
    }
    clean
}

/// The text with every run of white space as one blank, in lower case: for comparing wordings.
pub fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.push_str(word);
    }
    match normal.is_ascii() {
        true => {
            normal.make_ascii_lowercase();
            normal
        }
        false => normal.to_lowercase(),
    }
}

/// The letters and digits of a text in lower case, so that Markdown and quotation marks make no difference.
/// One by one, since most comparisons end with the first.
pub fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .map(|c| match c.is_ascii() {
            true => c.to_ascii_lowercase(),
            false => c.to_lowercase().next().unwrap_or(c),
        })
}

/// Two texts have the same words, in any case and with any white space.
pub fn says_the_same(a: &str, b: &str) -> bool {
    normal(a) == normal(b)
}

/// At most this many characters of the text, with `…` in place of the rest.
pub fn short(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// An error and its causes on one line. A cause that the text before it repeats is left out.
pub fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// A number as people read it: `80,000`.
pub fn grouped(number: u64) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    format!("{},{:03}", grouped(number / 1_000), number % 1_000)
}

/// The last ones, at most this many.
pub(crate) fn last<T>(all: &[T], max: usize) -> &[T] {
    &all[all.len().saturating_sub(max)..]
}

/// The text on one line, clean, of at most this many characters.
pub fn one_line(text: &str, chars_max: usize) -> String {
    short(
        &clean(text)
            .text
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        chars_max,
    )
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips the text after an ESC: a control sequence, a string up to its end, or one character. An unfinished
/// sequence never takes more than its line.
fn skip_escape(rest: &mut Chars<'_>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_until_final(rest);
        }
        Some(']' | 'P' | '_' | '^' | 'X') => skip_string(rest),
        Some(&c) if !c.is_control() && c.is_ascii() => {
            rest.next();
        }
        Some(_) | None => {}
    }
}

/// Skips parameters (`0-9;?` and the like) and the letter that ends a control sequence.
fn skip_until_final(rest: &mut Chars<'_>) {
    while rest
        .next_if(|c| ('\u{20}'..='\u{3f}').contains(c))
        .is_some()
    {}
    let _ = rest.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
}

/// Skips a string that ends with BEL or `ESC \`.
fn skip_string(rest: &mut Chars<'_>) {
    while let Some(c) = rest.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                let _ = rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// A control character, or one without a shape.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Characters without a shape. The two presentation selectors of emoji stay: they hide nothing.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The words of a text in small ASCII letters and digits, joined by dashes: a part of a file's or branch's name.
pub fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

pub fn shell_word(path: &str) -> String {
    let path = clean(path).text.replace('\n', " ");
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if !path.is_empty() && path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(text: &str) -> (String, usize, usize) {
        let Clean { text, removed } = clean(text);
        (text, removed.controls, removed.invisible)
    }

    #[test]
    fn the_same_words_say_the_same_in_any_case_and_spacing() {
        assert!(says_the_same(
            "The build  needs\n`make`",
            "the Build needs `make` "
        ));
        assert!(says_the_same("ΟΔΟΣ", "οδος") && says_the_same("", " \n"));
        assert!(!says_the_same("the build", "the builds") && !says_the_same("a b", "ab"));
        assert!(
            says_the_same("one two ", "one  two")
                && says_the_same("\u{e9}t\u{e9} X", "\u{e9}t\u{e9}  x")
        );
    }

    #[test]
    fn every_kind_of_line_end_becomes_a_line_feed() {
        let (text, ..) = cleaned("a\r\nb\rc\u{2028}d\u{85}e\u{c}f");
        assert_eq!(text, "a\nb\nc\nd\ne\nf");
    }

    #[test]
    fn escapes_controls_and_invisible_characters_go_and_are_counted() {
        assert_eq!(cleaned("\u{1b}[31mred\u{1b}[0m"), ("red".into(), 2, 0));
        assert_eq!(cleaned("\u{1b}]0;title\u{7}text"), ("text".into(), 1, 0));
        assert_eq!(
            cleaned("\u{1b}]8;;http://x\u{1b}\\link"),
            ("link".into(), 1, 0)
        );
        assert_eq!(cleaned("a\u{0}b\u{8}c"), ("abc".into(), 2, 0));
        assert_eq!(
            cleaned("S\u{200b}T\u{202e}A\u{e0041}T"),
            ("STAT".into(), 0, 3)
        );
        assert_eq!(cleaned("\u{feff}STATUS"), ("STATUS".into(), 0, 1));
    }

    #[test]
    fn an_unfinished_escape_never_takes_the_next_line() {
        assert_eq!(cleaned("\u{1b}]0;title\nnext").0, "\nnext");
        assert_eq!(cleaned("\u{1b}[\nnext").0, "\nnext");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "- naïve ⚠\u{fe0f} 日本語\tx\n";
        assert_eq!(cleaned(text), (text.into(), 0, 0));
    }

    proptest! {
        #[test]
        fn cleaning_twice_changes_nothing_more(text in any::<String>()) {
            let once = clean(&text).text;
            prop_assert_eq!(clean(&once), Clean { text: once.clone(), removed: Hidden::default() });
        }

        #[test]
        fn a_short_text_is_short(text in any::<String>(), max in 1usize..50) {
            prop_assert!(short(&text, max).chars().count() <= max);
        }
    }
}
