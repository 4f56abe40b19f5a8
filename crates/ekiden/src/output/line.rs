//! A line for people: parts with a tone, and how it is laid out on a terminal.
//!
//! Each tone has a colour: needs you, failed, done, quiet. There are no others. The text carries the
//! meaning, so nothing is lost without colour.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
pub use ekiden_core::secrets::masked;
use ekiden_core::text;

/// The narrowest terminal that lines are laid out for, in columns.
pub const COLUMNS_MIN: usize = 60;
/// Lines are not wrapped closer than this.
const WRAP_COLUMNS_MIN: usize = 20;
/// How much of a text from outside is shown on one line, in characters.
const FOREIGN_CHARS_MAX: usize = 200;
/// How much of a warning is shown, in characters: the items that it names have up to 200 each.
const WARNING_CHARS_MAX: usize = 1_200;

/// What a part of a line means to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// Only for readers who look for it.
    Quiet,
    /// A person should look at it.
    Attention,
    Failed,
    Done,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Quiet => Style::new().dimmed(),
            Self::Attention => AnsiColor::Yellow.on_default(),
            Self::Failed => AnsiColor::Red.on_default(),
            Self::Done => AnsiColor::Green.on_default(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    parts: Vec<(Tone, String)>,
    /// The indent of continuation lines when the line is too long for the terminal.
    hang: usize,
    /// It has a command to copy, so only the terminal breaks it.
    whole: bool,
}

impl Line {
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self {
            parts: vec![(tone, text.into())],
            hang: 2,
            whole: false,
        }
    }

    /// A line under a session: a label, then a text.
    pub fn labelled(label: &str, tone: Tone, text: impl Into<String>) -> Self {
        Self {
            parts: vec![
                (Tone::Quiet, format!("  {label:<8}  ")),
                (tone, text.into()),
            ],
            hang: 12,
            whole: false,
        }
    }

    /// A line under a session that a person should see.
    pub fn attention(text: impl Into<String>) -> Self {
        Self {
            parts: vec![
                (Tone::Attention, "  ! ".to_owned()),
                (Tone::Plain, text.into()),
            ],
            hang: 4,
            whole: false,
        }
    }

    pub fn next(command: impl Into<String>) -> Self {
        Self::new(Tone::Quiet, "next  ")
            .with(Tone::Plain, command)
            .whole()
    }

    /// The same, for a line with a command.
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    pub fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.parts.push((tone, text.into()));
        self
    }

    /// The same with the parts of another line.
    pub fn joined(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// The same without its indent.
    pub fn trimmed(mut self) -> Self {
        if let Some((_, first)) = self.parts.first_mut() {
            *first = first.trim_start().to_owned();
        }
        self
    }

    /// The same, with continuation lines indented by this many columns.
    pub fn hanging(mut self, columns: usize) -> Self {
        self.hang = columns;
        self
    }

    /// The same, after the name of its stage.
    pub fn under(mut self, stage: &str, columns: usize) -> Self {
        let stage = format!("{stage:<columns$}  ");
        self.hang += stage.len();
        self.parts.insert(0, (Tone::Quiet, stage));
        self
    }

    /// The same without its secrets, and without anything that could act on a terminal.
    pub fn masked(&self) -> Self {
        let parts = self.parts.iter();
        Self {
            parts: parts.map(|(tone, text)| (*tone, masked(text))).collect(),
            hang: self.hang,
            whole: self.whole,
        }
    }

    pub fn plain(&self) -> String {
        self.parts.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The same in pieces of this many columns, for a line of one tone.
    pub fn broken(&self, columns: usize) -> Vec<Self> {
        let tone = self.parts.first().map_or(Tone::Plain, |(tone, _)| *tone);
        let text = self.plain();
        let pieces = textwrap::wrap(&text, columns.max(8));
        pieces
            .into_iter()
            .map(|piece| Self::new(tone, piece))
            .collect()
    }

    pub fn of_diff(mut self) -> Self {
        for (tone, text) in &mut self.parts {
            *tone = match text.chars().next() {
                Some('+') => Tone::Done,
                Some('-') => Tone::Failed,
                Some(_) | None => Tone::Quiet,
            };
        }
        self
    }

    /// The line with escape sequences for its tones, wrapped at blanks to fit the columns.
    pub fn styled(&self, columns: Option<usize>) -> String {
        let styled = self
            .parts
            .iter()
            .fold(String::new(), |mut line, (tone, text)| {
                let style = tone.style();
                // Writing into a string cannot fail.
                let _ = write!(line, "{style}{text}{style:#}");
                line
            });
        match columns {
            Some(columns) if !self.whole => wrap(&styled, columns.max(WRAP_COLUMNS_MIN), self.hang),
            Some(_) | None => styled,
        }
    }

    /// The part of the line that fits the columns, for a line that must not wrap.
    pub fn cut(&self, columns: usize, coloured: bool) -> String {
        let mut left = columns;
        let mut kept = Self::default();
        for (tone, text) in &self.parts {
            let width = textwrap::core::display_width(text);
            if width > left {
                kept.parts.push((*tone, cut(text, left)));
                break;
            }
            left -= width;
            kept.parts.push((*tone, text.clone()));
        }
        if coloured {
            kept.styled(None)
        } else {
            kept.plain()
        }
    }
}

impl From<&Line> for Line {
    fn from(line: &Line) -> Self {
        line.clone()
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// Our symbols in characters that every terminal has, and a `?` for any other: for a locale without UTF-8.
/// Escape sequences consist of such characters already. No character becomes wider: a line that was cut to
/// fit must still fit.
pub fn in_ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => plain.push(c),
            '█' | '▉' | '▊' | '▋' | '▌' => plain.push('#'),
            '▍' | '▎' => plain.push('-'),
            '▕' | '▏' | '┊' => plain.push('|'),
            '·' | '─' | '–' => plain.push('-'),
            '…' => plain.push('.'),
            '≈' => plain.push('~'),
            '←' => plain.push('<'),
            '→' => plain.push('>'),
            '↑' => plain.push('^'),
            '↓' => plain.push('v'),
            _ => plain.push('?'),
        }
    }
    plain
}

/// A text from outside on one line: clean, without line ends, bounded. It is masked before it is cut.
pub fn one_line(text: &str) -> String {
    text::one_line(&masked(text), FOREIGN_CHARS_MAX)
}

/// The same for a warning, which may name several of them.
pub fn warning_line(text: &str) -> String {
    text::one_line(&masked(text), WARNING_CHARS_MAX)
}

fn cut(text: &str, columns: usize) -> String {
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if textwrap::core::display_width(&kept) >= columns {
            kept.pop();
            break;
        }
    }
    if columns > 0 {
        format!("{kept}…")
    } else {
        kept
    }
}

fn wrap(styled: &str, columns: usize, hang: usize) -> String {
    let indent = " ".repeat(hang);
    let options = textwrap::Options::new(columns)
        .subsequent_indent(&indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(styled, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_under_its_own_text() {
        let line = Line::labelled(
            "next",
            Tone::Plain,
            "convert tests/test_billing; the fixtures are in conftest",
        );
        assert_eq!(
            line.plain(),
            "  next      convert tests/test_billing; the fixtures are in conftest"
        );
        let broken = anstream::adapter::strip_str(&line.styled(Some(60))).to_string();
        let (first, rest) = broken.split_once('\n').unwrap();
        assert_eq!(
            first,
            "  next      convert tests/test_billing; the fixtures are in"
        );
        assert_eq!(rest, "            conftest");
        let narrow = anstream::adapter::strip_str(&line.styled(Some(40))).to_string();
        let fits = |line: &str| textwrap::core::display_width(line) <= 40;
        assert!(narrow.lines().all(fits), "{narrow}");
        assert!(!line.styled(None).contains('\n'));
    }

    // shows: UIX-01
    #[test]
    fn a_command_can_be_copied_whole() {
        let command = "ekiden answer -d '/home/me/my projects/one' 'TEXT'";
        let next = Line::next(command).styled(Some(30));
        assert!(next.ends_with(command), "{next}");
        let words = Line::from("see .ekiden/runs/a-name-with-hyphens/report.html").styled(Some(30));
        assert_eq!(words, "see\n  .ekiden/runs/a-name-with-hyphens/report.html");
    }

    #[test]
    fn a_line_that_must_not_be_broken_is_cut() {
        let line = Line::new(Tone::Failed, "one").with(Tone::Plain, " two 日本語");
        assert_eq!(line.cut(40, false), "one two 日本語");
        assert_eq!(line.cut(11, false), "one two 日…");
        assert_eq!(line.cut(5, false), "one …");
        assert_eq!(line.cut(0, false), "");
        assert_eq!(line.cut(40, true), "\u{1b}[31mone\u{1b}[0m two 日本語");
    }

    #[test]
    fn tones_are_few_and_end() {
        assert_eq!(Line::new(Tone::Plain, "x").styled(None), "x");
        assert_eq!(
            Line::new(Tone::Failed, "x").styled(None),
            "\u{1b}[31mx\u{1b}[0m"
        );
    }

    #[test]
    fn without_utf_8_the_symbols_are_plain() {
        assert_eq!(
            in_ascii("▕███▍ ┊┊┊  ▏ 34% · ≈$1 ← → ↑ ↓ \u{1b}[31mé…"),
            "|###- |||  | 34% - ~$1 < > ^ v \u{1b}[31m?."
        );
    }

    // shows: MEM-12
    #[test]
    fn a_secret_is_masked_before_its_line_is_cut() {
        let secret = ["ghp_", "R7wX2mK9pQ4tZ8vB3n", "L6yC1dF5gH0jS9aE2u"].concat();
        let text = format!("{} {secret}", "word ".repeat(36));
        assert!(!one_line(&text).contains("R7wX"), "{}", one_line(&text));
    }

    #[test]
    fn foreign_text_stays_on_its_line() {
        assert_eq!(one_line("a\n\u{1b}[31mb\tc\r\n"), "a b c");
        assert_eq!(
            one_line(&"x".repeat(500)).chars().count(),
            FOREIGN_CHARS_MAX
        );
    }
}
