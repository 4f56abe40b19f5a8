//! The guard's part of the client's status line.
//!
//! `[CTX: ████████░░ 82% ⚠️ L2] [ISSUE: ANV-123] [CKPT: Ready]`; what is not known is left out, and on a
//! narrow terminal what matters least goes first.

use super::Level;

/// What the line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusLine<'a> {
    /// The use in percent of the usable window; none before the first response.
    pub percent: Option<u64>,
    /// The level of that use.
    pub level: Level,
    /// The issue that the work belongs to.
    pub issue: Option<&'a str>,
    /// Where the checkpoint is, in one word.
    pub checkpoint: &'a str,
}

const CELLS: u64 = 10;
/// The issue's name comes from a branch, so it can be long.
const ISSUE_CHARS_MAX: usize = 24;

impl StatusLine<'_> {
    /// The line, in at most so many columns if the terminal's width is known.
    #[must_use]
    pub fn render(&self, columns: Option<usize>) -> String {
        let issue = self.issue.map(|issue| {
            let cut: String = issue.chars().filter(|c| !c.is_control()).take(ISSUE_CHARS_MAX).collect();
            format!("[ISSUE: {cut}]")
        });
        let checkpoint = Some(format!("[CKPT: {}]", self.checkpoint));
        let forms = [
            [Some(self.context(true)), issue, checkpoint.clone()],
            [Some(self.context(true)), None, checkpoint],
            [Some(self.context(true)), None, None],
            [Some(self.context(false)), None, None],
        ];
        let mut lines =
            forms.map(|parts| parts.into_iter().flatten().collect::<Vec<_>>().join(" ")).into_iter();
        let room = columns.unwrap_or(usize::MAX);
        let shortest = self.context(false);
        lines.find(|line| width(line) <= room).unwrap_or(shortest)
    }

    fn context(&self, bar: bool) -> String {
        let Some(percent) = self.percent else { return "[CTX: --]".to_owned() };
        let mark = match self.level {
            Level::L0 => "",
            Level::L1 => " ⚠️ L1",
            Level::L2 => " ⚠️ L2",
            Level::L3 => " 🔴 L3",
        };
        if !bar {
            return format!("[{percent}%{mark}]");
        }
        let filled = usize::try_from(percent.min(100) * CELLS / 100).unwrap_or_default();
        let empty = usize::try_from(CELLS).unwrap_or_default() - filled;
        format!("[CTX: {}{} {percent}%{mark}]", "█".repeat(filled), "░".repeat(empty))
    }
}

/// The columns that a line takes. The two signs of a level take two each.
fn width(line: &str) -> usize {
    let of = |c: char| match c {
        '\u{fe0f}' => 0,
        '⚠' | '🔴' => 2,
        _ => 1,
    };
    line.chars().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(percent: Option<u64>, level: Level) -> StatusLine<'static> {
        StatusLine { percent, level, issue: Some("ANV-123"), checkpoint: "Ready" }
    }

    // shows: UIX-06, CHK-001
    #[test]
    fn the_line_has_the_form_of_the_spec() {
        let full = |percent, level| line(Some(percent), level).render(None);
        assert_eq!(full(82, Level::L2), "[CTX: ████████░░ 82% ⚠️ L2] [ISSUE: ANV-123] [CKPT: Ready]");
        assert_eq!(full(7, Level::L0), "[CTX: ░░░░░░░░░░ 7%] [ISSUE: ANV-123] [CKPT: Ready]");
        assert_eq!(full(104, Level::L3), "[CTX: ██████████ 104% 🔴 L3] [ISSUE: ANV-123] [CKPT: Ready]");
    }

    // shows: UIX-06
    #[test]
    fn what_is_not_known_is_left_out() {
        let unknown = StatusLine { issue: None, ..line(None, Level::L0) };
        assert_eq!(unknown.render(None), "[CTX: --] [CKPT: Ready]");
    }

    // shows: UIX-06
    #[test]
    fn a_narrow_terminal_gets_what_matters_most() {
        let line = line(Some(86), Level::L2);
        assert_eq!(line.render(Some(50)), "[CTX: ████████░░ 86% ⚠️ L2] [CKPT: Ready]");
        assert_eq!(line.render(Some(30)), "[CTX: ████████░░ 86% ⚠️ L2]");
        assert_eq!(line.render(Some(5)), "[86% ⚠️ L2]");
        let long = StatusLine { issue: Some("a-branch-name-that-nobody-wants-to-read"), ..line };
        assert!(long.render(None).contains("[ISSUE: a-branch-name-that-nobod]"));
    }
}
