//! The terminal, and the lines on it that change in place.

use std::io;
use std::sync::atomic::Ordering;

use ekiden_agent::SignalFlag;

use super::beside::Stream;
use super::line::{self, Line};
use super::{IS_FULL, LEAVE_FULL, Output, keys};

/// tmux wraps a row as long as it ever was, unless it was erased whole.
const ERASE_ROW: &str = "\r\u{1b}[2K";
/// Erases what is left of a longer line.
const ERASE_REST: &str = "\u{1b}[K";
const ERASE_BELOW: &str = "\u{1b}[J";

pub struct Screen {
    pub(super) columns: fn() -> Option<usize>,
    /// The shell has the terminal: lines that change in place would erase what other commands print.
    pub(super) in_background: fn() -> bool,
    /// The locale can show more than ASCII.
    pub(super) utf_8: bool,
    /// Lines that became too long for a narrower window take more rows in it. Not every terminal wraps
    /// them.
    pub(super) reflows: bool,
    /// The moving lines above the cursor.
    pub(super) drawn: Vec<String>,
    /// How wide the terminal was then.
    pub(super) columns_drawn: Option<usize>,
    pub(super) full: Vec<String>,
    /// Raised when this process was suspended: the program that had the terminal meanwhile wrote below
    /// those lines.
    pub(super) went_on: Option<SignalFlag>,
}

impl Screen {
    pub(super) fn of_process() -> Self {
        Self {
            columns: stdout_columns,
            in_background: keys::stdout_in_background,
            utf_8: locale_is_utf_8(),
            reflows: reflows(),
            drawn: Vec::new(),
            columns_drawn: None,
            full: Vec::new(),
            went_on: SignalFlag::of_going_on().ok(),
        }
    }

    /// What the terminal can show of a text.
    pub(super) fn in_locale(&self, text: String) -> String {
        if self.utf_8 {
            text
        } else {
            line::in_ascii(&text)
        }
    }

    /// The part of a line that fits, for a line that must not wrap.
    pub(super) fn cut(&self, line: &Line, coloured: bool) -> String {
        let columns = (self.columns)().unwrap_or(line::COLUMNS_MIN);
        self.in_locale(line.masked().cut(columns.saturating_sub(1), coloured))
    }

    /// From below the drawn lines to the first of them.
    pub(super) fn to_first(&self) -> String {
        let columns = (self.columns)().unwrap_or(usize::MAX).max(1);
        let rows = |line: &String| match textwrap::core::display_width(line) {
            width if self.reflows => width.div_ceil(columns).max(1),
            _ => 1,
        };
        match self.drawn.iter().map(rows).sum() {
            0 => String::new(),
            rows => format!("\u{1b}[{rows}A\r"),
        }
    }

    /// Lines that another program wrote below are left where they are.
    pub(super) fn forget_if_suspended(&mut self) {
        if self.went_on.as_ref().is_some_and(SignalFlag::lower) {
            self.drawn.clear();
        }
    }
}

/// By the variables that decide it, the strongest first.
fn locale_is_utf_8() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(set)
        .unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// xterm itself and the console of Linux cut lines off.
fn reflows() -> bool {
    let is_set = |name| std::env::var_os(name).is_some();
    !is_set("XTERM_VERSION") && std::env::var_os("TERM").is_none_or(|term| term != "linux")
}

fn stdout_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

impl Output {
    /// Draws the moving lines over those drawn before. The cursor rests below them, so whatever ends the
    /// program leaves the terminal in order.
    pub fn draw(&mut self, lines: &[Line]) {
        let is_behind = self.writer.is_behind();
        let coloured = self.coloured.0;
        let Some(screen) = self
            .screen
            .as_mut()
            .filter(|screen| !is_behind && !(screen.in_background)())
        else {
            return;
        };
        screen.forget_if_suspended();
        let lines: Vec<String> = lines
            .iter()
            .map(|line| screen.cut(line, coloured))
            .collect();
        if screen.drawn == lines {
            return;
        }
        let mut text = screen.to_first();
        let columns = (screen.columns)();
        let before = std::mem::replace(&mut screen.columns_drawn, columns);
        if before != columns && !screen.drawn.is_empty() {
            // Rows that a terminal has wrapped would join again if it got wider once more.
            text.push_str(ERASE_BELOW);
        }
        for line in &lines {
            text.push_str(&format!("{ERASE_ROW}{line}\n"));
        }
        screen.drawn = lines;
        self.put(Stream::Answer, (text + ERASE_BELOW).as_bytes());
    }

    /// Erases the moving lines.
    pub fn erase(&mut self) {
        let Some(screen) = &mut self.screen else {
            return;
        };
        screen.forget_if_suspended();
        if !screen.drawn.is_empty() {
            let text = screen.to_first() + ERASE_BELOW;
            screen.drawn.clear();
            self.put(Stream::Answer, text.as_bytes());
        }
    }

    /// Gives the whole screen to a view, or restores what was there before. Output in between is held.
    pub fn fill(&mut self, is_full: bool) {
        IS_FULL.store(is_full, Ordering::Relaxed);
        self.screen
            .iter_mut()
            .for_each(|screen| screen.full.clear());
        if is_full {
            self.hold();
            self.put_at_once("\u{1b}[?1049h\u{1b}[?25l");
        } else {
            self.put_at_once(LEAVE_FULL);
            self.release();
        }
    }

    /// Draws all rows of the screen.
    pub fn draw_full(&mut self, lines: &[Line]) {
        let is_behind = self.writer.is_behind();
        let Some(screen) = self
            .screen
            .as_mut()
            .filter(|screen| !is_behind && !(screen.in_background)())
        else {
            return;
        };
        let rows: Vec<String> = lines
            .iter()
            .map(|line| screen.cut(line, self.coloured.0) + ERASE_REST)
            .collect();
        if screen.full == rows {
            return;
        }
        screen.full.clone_from(&rows);
        self.put_at_once(&format!("\u{1b}[H{}{ERASE_BELOW}", rows.join("\r\n")));
    }

    /// Bypasses what is held.
    fn put_at_once(&mut self, text: &str) {
        let held = self.held.take();
        self.put(Stream::Answer, text.as_bytes());
        self.held = held;
    }
}
