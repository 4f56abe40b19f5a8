//! The only module that prints.
//!
//! Standard output is the answer: the lines of a run, the rows of a query. Standard error is messages:
//! errors, hints, warnings. Only terminals get colour, and `NO_COLOR` is obeyed. On a terminal one line may
//! move; it is erased before any other is printed, so no trace of it stays.
//!
//! Secrets are masked here, in everything that is printed, and before a line is wrapped or cut.
//!
//! A reader or a terminal that goes away is not an error: later output is dropped, and a run continues. Any
//! other failure to print is reported once, at the end, by [`Output::finish`].

pub mod activity;
mod beside;
pub mod board;
pub mod ending;
mod entry;
pub mod full;
mod growth;
mod handed_off;
pub mod json;
pub mod keys;
pub mod line;
pub mod live;
pub mod outcome;
pub mod patch;
pub mod phrase;
pub mod problems;
pub mod prompting;
pub mod relay_progress;
pub mod reporter;
pub mod review;
mod screen;
pub mod session;
pub mod sessions;
pub mod shown_work_dir;
pub mod stage_table;
mod stages;
pub mod steering;
pub mod summary;
pub mod table;
pub mod view;
pub mod view_thread;
pub mod waits;
pub mod work_dirs;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use anstyle::{AnsiColor, Style};
use ekiden_core::secrets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use self::beside::{BackgroundWriter, Stream};
use self::line::Line;
use self::screen::Screen;
use crate::exit::Exit;
use crate::failure::Failure;

/// Ends a full-screen view.
const LEAVE_FULL: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Rows of the terminal that moving lines leave free.
const ROWS_KEPT: usize = 4;

/// Used if no terminal reports its number of rows.
const ROWS_USUAL: usize = 24;

/// A view of this process has the whole screen. A panic uses this to give it back.
static IS_FULL: AtomicBool = AtomicBool::new(false);

pub struct Output {
    writer: Writer,
    /// The answer may contain escape sequences for colour, and so may messages.
    coloured: (bool, bool),
    /// The answer goes to a terminal of any kind.
    to_terminal: bool,
    /// The terminal that lines move on, if standard output is one.
    screen: Option<Screen>,
    /// Printed when the terminal is free again: meanwhile an agent's own interface or a full-screen view
    /// has it.
    held: Option<Vec<(Stream, Vec<u8>)>>,
    broken: Option<io::Error>,
    /// The work dir that was typed, and how the commands of a text name it.
    work_dir: Option<(String, NameIn)>,
}

type NameIn = fn(&str, &str) -> String;

/// Which thread writes: this one, or a separate one.
enum Writer {
    Here {
        answer: Box<dyn Write + Send>,
        messages: Box<dyn Write + Send>,
    },
    BackgroundWriter(BackgroundWriter),
}

impl Output {
    pub fn of_process() -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let is_coloured = |choice| choice != ColorChoice::Never;
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let screen = (stdout.is_terminal() && !dumb).then(Screen::of_process);
        Self {
            coloured: (
                is_coloured(AutoStream::choice(&stdout)),
                is_coloured(AutoStream::choice(&stderr)),
            ),
            to_terminal: stdout.is_terminal(),
            writer: Writer::here(),
            screen,
            held: None,
            broken: None,
            work_dir: None,
        }
    }

    /// Messages, warnings and hints name this work dir from now on. The answer has text of others, too.
    pub fn name_work_dir(&mut self, dir: Option<String>, name_in: NameIn) {
        self.work_dir = dir.map(|dir| (dir, name_in));
    }

    fn in_work_dir(&self, text: &str) -> String {
        let named = self.work_dir.as_ref();
        named.map_or_else(|| text.to_owned(), |(dir, name_in)| name_in(text, dir))
    }

    /// From now on only [`Output::finish`] waits for the reader. If no thread can be started, everything
    /// stays as it is.
    pub fn print_beside(&mut self) {
        if let Writer::Here { .. } = self.writer
            && let Ok(beside) = BackgroundWriter::start(io::stdout(), io::stderr())
        {
            self.writer = Writer::BackgroundWriter(beside);
        }
    }

    /// Holds back what is printed from now on, until [`Output::release`].
    pub fn hold(&mut self) {
        self.erase();
        self.held.get_or_insert_default();
    }

    pub fn release(&mut self) {
        for (stream, bytes) in self.held.take().unwrap_or_default() {
            self.put(stream, &bytes);
        }
    }

    /// Prints the first and the last of the held lines; between them a line that says how many were left
    /// out.
    pub fn release_last(&mut self, lines_max: usize, left_out: impl FnOnce(usize) -> Line) {
        let mut held = self.held.take().unwrap_or_default();
        let count = held.len().saturating_sub(lines_max);
        // A line about one line would take its place.
        if count > 2 {
            let last = held.split_off(count);
            self.held = Some(held.into_iter().take(1).collect());
            self.release();
            self.line(left_out(count - 1));
            held = last;
        }
        self.held = Some(held);
        self.release();
    }

    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// A line of the answer.
    pub fn line(&mut self, line: impl Into<Line>) {
        let text = self.styled(&line.into());
        self.answer(&text);
    }

    /// A line of the answer for programs.
    pub fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.answer(&(json::shown(text, self.to_terminal) + "\n")),
            Err(error) => self.broken = Some(error.into()),
        }
    }

    /// The whole answer of a command, for programs.
    pub fn answer_json(&mut self, value: &impl Serialize) -> Result<Exit, Failure> {
        self.json(value);
        Ok(Exit::Done)
    }

    /// The answer as it is, with secrets masked.
    pub fn answer(&mut self, text: &str) {
        self.text(Stream::Answer, self.coloured.0, &secrets::mask(text));
    }

    /// Only ekiden's own text. Searching it for secrets would take longer than everything else.
    pub fn help(&mut self, text: &str) {
        self.text(Stream::Answer, self.coloured.0, text);
    }

    /// Text from others: byte for byte except for secrets, and on a terminal without anything that could
    /// act on it or hide.
    pub fn foreign(&mut self, bytes: &[u8]) {
        if self.to_terminal {
            let mut text = ekiden_core::text::clean(&String::from_utf8_lossy(bytes)).text;
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            self.answer(&text);
        } else {
            self.put(Stream::Answer, &secrets::mask_bytes(bytes));
        }
    }

    /// A message as it is, with secrets masked.
    pub fn message(&mut self, text: &str) {
        self.as_it_is(&self.in_work_dir(text));
    }

    /// A line like those of the answer, as a message: for a question to a person.
    pub fn message_line(&mut self, line: &Line) {
        self.as_it_is(&self.styled(line));
    }

    fn as_it_is(&mut self, message: &str) {
        self.text(Stream::Messages, self.coloured.1, &secrets::mask(message));
    }

    fn styled(&self, line: &Line) -> String {
        let text = line.masked().styled(self.columns()) + "\n";
        match &self.screen {
            Some(screen) => screen.in_locale(text),
            // Elsewhere the reader decides what can be shown.
            None => text,
        }
    }

    fn text(&mut self, stream: Stream, coloured: bool, text: &str) {
        self.erase();
        if coloured {
            self.put(stream, text.as_bytes());
        } else {
            self.put(stream, strip_str(text).to_string().as_bytes());
        }
    }

    /// Asks the person at the terminal, who answers with a line.
    pub fn ask(&mut self, question: &str) -> Option<String> {
        self.message(question);
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line).ok()?;
        (read > 0).then_some(line)
    }

    /// Asks for a yes.
    pub fn confirm(&mut self, question: &str) -> bool {
        let answer = self.ask(question).unwrap_or_default();
        matches!(answer.trim(), "y" | "Y" | "yes")
    }

    /// A problem that stops nothing.
    pub fn warn(&mut self, text: &str) {
        let yellow = AnsiColor::Yellow.on_default();
        self.message(&labelled("warning", yellow, &line::warning_line(text)));
    }

    /// Why a command ends without its result.
    pub fn failure(&mut self, failure: &Failure) {
        // A value in the settings of a cloned project may hold what acts on a terminal.
        let clean = |text: &str| ekiden_core::text::clean(text).text;
        let red = AnsiColor::Red.on_default();
        let mut text = labelled("error", red, &clean(failure.error()));
        for line in failure.lines() {
            text.push_str(&format!("{}\n", clean(line)));
        }
        for hint in failure.hints() {
            let hint = clean(&self.in_work_dir(hint));
            text.push_str(&labelled("hint", Style::new().dimmed(), &hint));
        }
        self.as_it_is(&text);
    }

    /// Nobody reads the answer any more, whether or not something was printed since.
    pub fn is_unread(&self) -> bool {
        self.broken.as_ref().is_some_and(nobody_reads) || has_hung_up(&io::stdout())
    }

    /// Part of the answer could not be printed.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// There is a terminal on which lines may move.
    pub fn has_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// Waits until everything is printed, but not forever if a terminal accepts nothing.
    pub fn settle(&mut self) {
        if let Writer::BackgroundWriter(beside) = &mut self.writer
            && let Err(error) = beside.finish(self.to_terminal)
        {
            self.broken.get_or_insert(error);
        }
    }

    /// Nothing moves from now on: we are leaving the terminal.
    pub fn forget_terminal(&mut self) {
        self.screen = None;
    }

    /// Ends printing. Takes the exit that the program would have, and returns the one it should have.
    pub fn finish(mut self, exit: Exit) -> Exit {
        self.erase();
        self.release();
        if let Writer::BackgroundWriter(beside) = &mut self.writer {
            self.broken = beside.end(self.to_terminal, exit).err();
            self.writer = Writer::here();
        }
        match self.broken.take() {
            Some(error) if !nobody_reads(&error) => {
                let failure = Failure::caused(Exit::State, "cannot print the answer", &error);
                self.failure(&failure);
                match exit == Exit::Done {
                    true => failure.exit(),
                    false => exit,
                }
            }
            Some(_) | None => exit,
        }
    }

    /// Where lines wrap: nowhere without a terminal.
    pub fn columns(&self) -> Option<usize> {
        self.screen.as_ref().and_then(|screen| (screen.columns)())
    }

    /// The columns and rows of the terminal.
    pub fn size(&self) -> (usize, usize) {
        let columns = self.columns().unwrap_or(line::COLUMNS_MIN);
        (columns, self.rows())
    }

    /// How many lines a person sees at once, with some space for wrapped and moving lines.
    pub fn rows(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let rows = size.map_or(0, |size| usize::from(size.ws_row));
        let rows = if rows == 0 { ROWS_USUAL } else { rows };
        rows.saturating_sub(ROWS_KEPT)
    }

    /// After a failure to print, the rest of the answer is dropped. If a message cannot be printed, nothing
    /// can report that.
    fn put(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(held) = &mut self.held {
            held.push((stream, bytes.to_vec()));
            return;
        }
        match &mut self.writer {
            Writer::BackgroundWriter(beside) => beside.print(stream, bytes),
            Writer::Here { answer, messages } => match stream {
                Stream::Answer if self.broken.is_some() => {}
                Stream::Answer => self.broken = write(answer, bytes).err(),
                Stream::Messages => drop(write(messages, bytes)),
            },
        }
    }
}

impl Writer {
    fn is_behind(&mut self) -> bool {
        match self {
            Self::BackgroundWriter(beside) => beside.is_behind(),
            Self::Here { .. } => false,
        }
    }

    fn here() -> Self {
        Self::Here {
            answer: Box::new(io::stdout()),
            messages: Box::new(io::stderr()),
        }
    }
}

/// A person sees the question and can answer.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The reader went away, or the terminal did.
fn nobody_reads(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// The other end of the pipe is closed, or the terminal is gone.
fn has_hung_up(stream: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(gone)
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).and_then(|()| to.flush())
}

fn labelled(label: &str, style: Style, text: &str) -> String {
    format!("{style}{label}:{style:#} {text}\n")
}

#[cfg(test)]
impl Output {
    /// An output to this writer, with a screen of 60 columns or without one.
    fn to(answer: impl Write + Send + 'static, has_screen: bool) -> Self {
        let screen = has_screen.then(|| Screen {
            full: Vec::new(),
            columns: || Some(60),
            in_background: || false,
            utf_8: true,
            reflows: true,
            drawn: Vec::new(),
            columns_drawn: None,
            went_on: None,
        });
        let writer = Writer::Here {
            answer: Box::new(answer),
            messages: Box::new(io::sink()),
        };
        Self {
            writer,
            coloured: (false, false),
            to_terminal: false,
            screen,
            held: None,
            broken: None,
            work_dir: None,
        }
    }

    /// The same, as if the answer went to a terminal without a moving line.
    fn on_terminal(self) -> Self {
        Self {
            to_terminal: true,
            ..self
        }
    }

    /// An output that nobody reads.
    pub fn nowhere() -> Self {
        Self::to(io::sink(), false)
    }
}
