//! The only module that prints.
//!
//! Standard output is the answer: the lines of a run, the rows of a query. Standard error is talk:
//! errors, hints, warnings. Colour goes to terminals only, and `NO_COLOR` is obeyed. On a terminal one
//! line may move; it is erased before any other is printed, so nothing of it stays.
//!
//! A reader that goes away is not an error: what is printed after that is dropped, and a run goes on.
//! Any other failure to print is told once, at the end, by [`Output::finish`].

pub mod account;
pub mod aloud;
mod beside;
pub mod bounds;
pub mod ending;
mod handed;
pub mod judged;
pub mod line;
pub mod lines;
pub mod live;
pub mod moving;
pub mod news;
pub mod patch;
pub mod phrase;
pub mod retell;
pub mod stage_table;
pub mod stages;
pub mod steering;
pub mod story;
pub mod table;
pub mod trouble;
pub mod waits;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use self::beside::{Beside, Stream};
use self::line::Line;
use crate::exit::Exit;
use crate::failure::Failure;

/// Goes to the start of the line and erases it.
const ERASE: &str = "\r\u{1b}[2K";
/// Erases what is left of a longer line.
const ERASE_REST: &str = "\u{1b}[K";
/// Erases what is below.
const ERASE_BELOW: &str = "\u{1b}[J";

/// Where everything is printed.
pub struct Output {
    answer: Box<dyn Write>,
    /// The same without a filter, for bytes that are not ours.
    raw: Box<dyn Write>,
    /// The answer goes to a terminal, of whatever kind.
    to_terminal: bool,
    talk: Box<dyn Write>,
    /// The terminal that the moving line is drawn on, if standard output is one.
    screen: Option<Screen>,
    printing: Printing,
    broken: Option<io::Error>,
}

/// Which thread prints.
enum Printing {
    /// This one, to writers that were given.
    Here,
    /// This one, to the process's own streams.
    HereSoFar,
    /// Another one.
    Beside(Beside),
}

/// A terminal.
struct Screen {
    out: Box<dyn Write>,
    columns: fn() -> Option<usize>,
    coloured: bool,
    /// The locale can show more than ASCII.
    utf_8: bool,
    /// What is drawn on it now.
    drawn: Option<String>,
    /// The lines above the cursor that are written over.
    block: Vec<String>,
}

impl Output {
    /// The process's own output.
    #[must_use]
    pub fn of_process() -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let screen = (stdout.is_terminal() && !dumb).then(|| Screen {
            out: Box::new(io::stdout()),
            columns: stdout_columns,
            coloured: AutoStream::choice(&stdout) != ColorChoice::Never,
            utf_8: locale_is_utf_8(),
            drawn: None,
            block: Vec::new(),
        });
        Self {
            to_terminal: stdout.is_terminal(),
            raw: Box::new(io::stdout()),
            answer: Box::new(AutoStream::auto(stdout)),
            talk: Box::new(AutoStream::auto(stderr)),
            screen,
            printing: Printing::HereSoFar,
            broken: None,
        }
    }

    /// From now on nobody waits for whoever reads, but for [`Output::finish`]. Without another thread
    /// everything stays as it is.
    pub fn print_beside(&mut self) {
        if !matches!(self.printing, Printing::HereSoFar) {
            return;
        }
        let Ok(beside) = Beside::start(io::stdout(), io::stderr()) else { return };
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let handle = |stream| Box::new(beside.handle(stream)) as Box<dyn Write>;
        self.answer = Box::new(AutoStream::new(handle(Stream::Answer), AutoStream::choice(&stdout)));
        self.talk = Box::new(AutoStream::new(handle(Stream::Talk), AutoStream::choice(&stderr)));
        self.raw = Box::new(beside.handle(Stream::Answer));
        if let Some(screen) = &mut self.screen {
            screen.out = Box::new(beside.handle(Stream::Answer));
        }
        self.printing = Printing::Beside(beside);
    }

    /// A line of the answer.
    pub fn line(&mut self, line: &Line) {
        let text = self.in_locale(line.styled(self.columns()));
        self.answer(&format!("{text}\n"));
    }

    /// A line of the answer for programs.
    pub fn json(&mut self, value: &impl Serialize) {
        let text = self.as_json(value);
        self.answer(&text);
    }

    /// The same, not printed yet.
    pub fn as_json(&mut self, value: &impl Serialize) -> String {
        match serde_json::to_string(value) {
            Ok(text) => text + "\n",
            Err(error) => {
                self.broken = Some(error.into());
                String::new()
            }
        }
    }

    /// The answer as it is.
    pub fn answer(&mut self, text: &str) {
        self.erase();
        let printed = self.answer.write_all(text.as_bytes()).and_then(|()| self.answer.flush());
        if let Err(error) = printed {
            self.broken.get_or_insert(error);
            self.answer = Box::new(io::sink());
        }
    }

    /// Talk as it is. Nothing can be told if it cannot be printed.
    pub fn talk(&mut self, text: &str) {
        self.erase();
        let _ = self.talk.write_all(text.as_bytes()).and_then(|()| self.talk.flush());
    }

    /// Something is wrong that stops nothing.
    pub fn warn(&mut self, text: &str) {
        self.talk(&labelled("warning", AnsiColor::Yellow.on_default(), &line::one_line(text)));
    }

    /// Why a command ends without its result.
    pub fn failure(&mut self, failure: &Failure) {
        let mut text = labelled("error", AnsiColor::Red.on_default(), failure.error());
        failure.lines().iter().for_each(|line| text.push_str(&format!("{line}\n")));
        for hint in failure.hints() {
            text.push_str(&labelled("hint", Style::new().dimmed(), hint));
        }
        self.talk(&text);
    }

    /// There is a terminal on which a line may move.
    #[must_use]
    pub fn has_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// Draws the line that moves, in place of the one before.
    pub fn draw(&mut self, line: &Line) {
        let behind = matches!(&self.printing, Printing::Beside(beside) if beside.is_behind());
        let Some(screen) = self.screen.as_mut().filter(|_| !behind) else { return };
        let columns = (screen.columns)().unwrap_or(line::COLUMNS_MIN);
        let text = screen.in_locale(line.cut(columns.saturating_sub(1), screen.coloured));
        if screen.drawn.as_ref() == Some(&text) {
            return;
        }
        screen.show(&format!("\r{text}{ERASE_REST}"));
        screen.drawn = Some(text);
    }

    /// Draws lines that stay in place, over those drawn before. The cursor rests below them, so whatever
    /// ends the program leaves the terminal in order.
    pub fn draw_block(&mut self, lines: &[Line]) {
        let Some(screen) = &mut self.screen else { return };
        let columns = (screen.columns)().unwrap_or(line::COLUMNS_MIN);
        let cut = |line: &Line| screen.in_locale(line.cut(columns.saturating_sub(1), screen.coloured));
        let block: Vec<String> = lines.iter().map(cut).collect();
        if screen.block == block {
            return;
        }
        let mut text = match screen.block.len() {
            0 => String::new(),
            rows => format!("\u{1b}[{rows}A"),
        };
        block.iter().for_each(|line| text.push_str(&format!("\r{line}{ERASE_REST}\n")));
        text.push_str(ERASE_BELOW);
        screen.show(&text);
        screen.block = block;
    }

    /// Erases the line that moves.
    pub fn erase(&mut self) {
        if let Some(screen) = self.screen.as_mut().filter(|screen| screen.drawn.is_some()) {
            screen.drawn = None;
            screen.show(ERASE);
        }
    }

    /// Ends printing: how the program exits if it would have exited so.
    #[must_use]
    pub fn finish(mut self, exit: Exit) -> Exit {
        self.erase();
        if let Printing::Beside(beside) = std::mem::replace(&mut self.printing, Printing::Here) {
            if let Err(error) = beside.finish(self.to_terminal) {
                self.broken.get_or_insert(error);
            }
            self.talk = Box::new(AutoStream::auto(io::stderr()));
        }
        match self.broken.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe && exit == Exit::Done => {
                let failure = Failure::caused(Exit::State, "cannot print the answer", &error);
                self.failure(&failure);
                failure.exit()
            }
            Some(_) | None => exit,
        }
    }

    /// What somebody else wrote: byte for byte, but on a terminal without anything that could act on it or
    /// hide.
    pub fn foreign(&mut self, bytes: &[u8]) {
        if self.to_terminal {
            let mut text = ekiden_core::text::clean(&String::from_utf8_lossy(bytes)).text;
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            return self.answer(&text);
        }
        let printed = self.raw.write_all(bytes).and_then(|()| self.raw.flush());
        if let Err(error) = printed {
            self.broken.get_or_insert(error);
            self.raw = Box::new(io::sink());
        }
    }

    /// Where lines are broken: nowhere without a terminal.
    #[must_use]
    pub fn columns(&self) -> Option<usize> {
        self.screen.as_ref().and_then(|screen| (screen.columns)())
    }
}

impl Output {
    /// What the terminal can show of it. Elsewhere whoever reads it decides.
    fn in_locale(&self, text: String) -> String {
        match &self.screen {
            Some(screen) => screen.in_locale(text),
            None => text,
        }
    }
}

impl Screen {
    fn in_locale(&self, text: String) -> String {
        if self.utf_8 { text } else { line::in_ascii(&text) }
    }

    /// What moves is worth nothing a second later; a failure shows with the next real line.
    fn show(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

fn labelled(label: &str, style: Style, text: &str) -> String {
    format!("{style}{label}:{style:#} {text}\n")
}

/// By the variables that decide it, the strongest first.
fn locale_is_utf_8() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn stdout_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
impl Output {
    /// An output of these writers, with a screen on the same writer as the answer.
    fn to(answer: impl Write + 'static, screen: Option<Box<dyn Write>>) -> Self {
        let screen = screen.map(|out| Screen {
            out,
            columns: || Some(60),
            coloured: false,
            utf_8: true,
            drawn: None,
            block: Vec::new(),
        });
        let (raw, to_terminal) = (Box::new(io::sink()), false);
        Self {
            answer: Box::new(answer),
            raw,
            to_terminal,
            talk: Box::new(io::sink()),
            screen,
            printing: Printing::Here,
            broken: None,
        }
    }

    /// The same, as if the answer went to a terminal without a moving line.
    fn on_terminal(self) -> Self {
        Self { to_terminal: true, ..self }
    }

    /// An output that nobody reads.
    pub fn nowhere() -> Self {
        Self::to(io::sink(), None)
    }
}
