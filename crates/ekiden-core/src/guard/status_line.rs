//! The guard's part of the client's status line.
//!
//! `[CTX: ████████░░ 86% ⚠️ L2] [ISSUE: ANV-123] [CKPT: Ready]`. Unknown parts are left out, and a narrow
//! terminal drops the least important parts first.

use std::fmt;
use std::str::FromStr;

use super::Level;
use crate::names::{UnknownName, names};
use crate::text::clean;

/// A part of the line, most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Context,
    Checkpoint,
    /// The time to the next level at the present growth.
    Next,
    Issue,
    Phase,
    Model,
    Branch,
    Trend,
    Cost,
    Time,
    Limits,
    /// Another program's line, placed among our parts.
    Wrapped,
}

names!(Part {
    Context: "context",
    Checkpoint: "checkpoint",
    Next: "next",
    Issue: "issue",
    Phase: "phase",
    Model: "model",
    Branch: "branch",
    Trend: "trend",
    Cost: "cost",
    Time: "time",
    Limits: "limits",
    Wrapped: "wrapped",
});

const COLOUR: &str = "colour";

/// Which parts are shown, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFormat {
    parts: Vec<Part>,
    /// The context is coloured by its level.
    colour: bool,
}

impl Default for LineFormat {
    fn default() -> Self {
        Self {
            parts: vec![
                Part::Context,
                Part::Next,
                Part::Issue,
                Part::Phase,
                Part::Checkpoint,
            ],
            colour: false,
        }
    }
}

impl FromStr for LineFormat {
    /// A word that is not a part of the line.
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words = || text.split_whitespace();
        let parts = words().filter(|word| *word != COLOUR).map(str::parse);
        let parts: Result<Vec<Part>, UnknownName> = parts.collect();
        let parts = parts.map_err(drop)?;
        let colour = words().any(|word| word == COLOUR);
        Ok(Self { parts, colour })
    }
}

impl fmt::Display for LineFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.parts.iter().map(|part| part.name());
        let names: Vec<&str> = names.chain(self.colour.then_some(COLOUR)).collect();
        f.write_str(&names.join(" "))
    }
}

impl LineFormat {
    pub fn shows(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The line, within `columns` if the terminal's width is known. `percent` is the use of the usable
    /// window, none before the first response; `text` gives the other parts, as far as they are known.
    pub fn render(
        &self,
        percent: Option<u64>,
        level: Level,
        text: impl Fn(Part) -> Option<String>,
        columns: Option<usize>,
    ) -> String {
        let shown = |&part: &Part| {
            let text = if part == Part::Context {
                self.coloured(context(percent, level), level)
            } else if part == Part::Wrapped {
                text(part)?
            } else {
                format!("[{}]", text(part)?)
            };
            Some((part, text))
        };
        let mut parts: Vec<(Part, String)> = self.parts.iter().filter_map(shown).collect();
        loop {
            let texts: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
            let line = texts.join(" ");
            if width(&line) <= columns.unwrap_or(usize::MAX) {
                return line;
            }
            let last = parts.iter().map(|(part, _)| *part).max();
            match last {
                None | Some(Part::Context) => {
                    let mark = percent.map(|percent| format!("[{percent}%{}]", mark(level)));
                    return self.coloured(mark.unwrap_or(line.clone()), level);
                }
                Some(last) => parts.retain(|(part, _)| *part != last),
            }
        }
    }

    fn coloured(&self, text: String, level: Level) -> String {
        let code = match level {
            Level::L0 => "32",
            Level::L1 => "33",
            Level::L2 => "35",
            Level::L3 => "31",
        };
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text
        }
    }
}

const CELLS: u64 = 10;

fn context(percent: Option<u64>, level: Level) -> String {
    let Some(percent) = percent else {
        return "[CTX: --]".to_owned();
    };
    let filled = usize::try_from(percent.min(100) * CELLS / 100).unwrap_or_default();
    let empty = usize::try_from(CELLS).unwrap_or_default() - filled;
    let (filled, empty) = ("█".repeat(filled), "░".repeat(empty));
    format!("[CTX: {filled}{empty} {percent}%{}]", mark(level))
}

fn mark(level: Level) -> &'static str {
    match level {
        Level::L0 => "",
        Level::L1 => " ⚠️ L1",
        Level::L2 => " ⚠️ L2",
        Level::L3 => " 🔴 L3",
    }
}

/// The columns that a line takes, without its colours. The two signs of a level take two each.
fn width(line: &str) -> usize {
    let of = |c: char| match c {
        '\u{fe0f}' => 0,
        '⚠' | '🔴' => 2,
        _ => 1,
    };
    clean(line).text.chars().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: &str, percent: Option<u64>, level: Level, columns: Option<usize>) -> String {
        let known = [
            (Part::Issue, "ISSUE: ANV-123"),
            (Part::Checkpoint, "CKPT: Ready"),
            (Part::Model, "Opus"),
            (Part::Wrapped, "mine"),
        ];
        let text = |part| {
            let found = known.iter().find(|(known, _)| *known == part);
            found.map(|(_, text)| (*text).to_owned())
        };
        let format: LineFormat = format.parse().expect("a format");
        format.render(percent, level, text, columns)
    }

    const USUAL: &str = "context next issue phase checkpoint";

    // shows: UIX-06, CHK-001
    #[test]
    fn the_line_has_the_form_of_the_spec() {
        let full = |percent, level| line(USUAL, Some(percent), level, None);
        assert_eq!(
            full(86, Level::L2),
            "[CTX: ████████░░ 86% ⚠️ L2] [ISSUE: ANV-123] [CKPT: Ready]"
        );
        assert_eq!(
            full(7, Level::L0),
            "[CTX: ░░░░░░░░░░ 7%] [ISSUE: ANV-123] [CKPT: Ready]"
        );
        assert_eq!(
            full(104, Level::L3),
            "[CTX: ██████████ 104% 🔴 L3] [ISSUE: ANV-123] [CKPT: Ready]"
        );
        assert_eq!(LineFormat::default().to_string(), USUAL);
    }

    // shows: UIX-06
    #[test]
    fn what_is_not_known_is_left_out() {
        let unknown = line("context cost branch", None, Level::L0, None);
        assert_eq!(unknown, "[CTX: --]");
    }

    // shows: UIX-06
    #[test]
    fn any_parts_in_any_order_with_a_wrapped_line() {
        let shown = line("model wrapped context colour", Some(96), Level::L3, None);
        assert_eq!(
            shown,
            "[Opus] mine \u{1b}[31m[CTX: █████████░ 96% 🔴 L3]\u{1b}[0m"
        );
        assert_eq!("context weather".parse::<LineFormat>(), Err(()));
    }

    // shows: UIX-06
    #[test]
    fn a_narrow_terminal_gets_what_matters_most() {
        let narrow = |columns| {
            line(
                "issue model context checkpoint",
                Some(86),
                Level::L2,
                Some(columns),
            )
        };
        assert_eq!(narrow(50), "[CTX: ████████░░ 86% ⚠️ L2] [CKPT: Ready]");
        assert_eq!(narrow(30), "[CTX: ████████░░ 86% ⚠️ L2]");
        assert_eq!(narrow(5), "[86% ⚠️ L2]");
    }
}
