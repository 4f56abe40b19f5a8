//! The last line of the live view: the available keys, a question, or the text being typed.
//!
//! Keys go in, and the person's request comes out. Nothing here reads a terminal or steers a run.

use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::steering::Steering;

use super::line::{Line, Tone, one_line};
use super::summary::Summary;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// Text that was pasted. It is never a key, so it does nothing where nothing is typed.
    Pasted(char),
    Enter,
    Backspace,
    Escape,
    Move(Move),
    /// ctrl-z in the full-screen view.
    Suspend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
}

/// What a person wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    Steer(Steering),
    /// Limits as typed for `ekiden limits`.
    Limits(String),
    /// Read the newest handoff.
    Read,
    /// Leave the run alone.
    Leave,
    /// See sessions and their streams on the whole screen.
    Full,
}

#[derive(Debug, Default)]
pub struct Prompting {
    state: State,
    /// The key that leaves without ending anything, and what it does.
    leave: Option<&'static str>,
    /// The view has the whole screen, and uses some keys itself.
    pub is_full: bool,
    /// The result of the last request.
    told: Option<(Tone, String)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// Should the run stop?
    Stopping,
    Typing(About, String),
}

/// What is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    Message,
    Limits,
    Answer(StageId),
}

impl Prompting {
    pub fn new(leave: Option<&'static str>) -> Self {
        Self {
            leave,
            ..Self::default()
        }
    }

    /// The result of a request.
    pub fn tell(&mut self, tone: Tone, text: impl Into<String>) {
        self.told = Some((tone, text.into()));
    }

    /// Takes a key.
    pub fn press(&mut self, key: Key, summary: &Summary) -> Option<Wanted> {
        self.told = None;
        match std::mem::take(&mut self.state) {
            State::Idle => self.begin(key, summary),
            State::Stopping => match key {
                Key::Char('y' | 'Y') => Some(Wanted::Steer(Steering::Stop { now: false })),
                Key::Char(_) | Key::Pasted(_) | Key::Enter | Key::Backspace | Key::Escape => None,
                Key::Move(_) | Key::Suspend => None,
            },
            State::Typing(about, text) => self.typed(about, text, key),
        }
    }

    fn begin(&mut self, key: Key, summary: &Summary) -> Option<Wanted> {
        let typing = |about| State::Typing(about, String::new());
        match key {
            Key::Char('p') if summary.is_paused => return Some(Wanted::Steer(Steering::Unpause)),
            Key::Char('p') => return Some(Wanted::Steer(Steering::Pause)),
            Key::Char('n') => return Some(Wanted::Steer(Steering::HandOff)),
            Key::Char(c) if self.leave.is_some_and(|key| key.starts_with(c)) => {
                return Some(Wanted::Leave);
            }
            Key::Char('o') if summary.handoff.is_some() => return Some(Wanted::Read),
            Key::Char('f') => return Some(Wanted::Full),
            Key::Char('s') => self.state = State::Stopping,
            Key::Char('l') => self.state = typing(About::Limits),
            Key::Char('m') => self.state = typing(About::Message),
            Key::Char('a') => {
                if let Some((stage, _)) = summary.asked.first() {
                    self.state = typing(About::Answer(stage.clone()));
                }
            }
            Key::Char(_) | Key::Pasted(_) | Key::Enter | Key::Backspace | Key::Escape => {}
            Key::Move(_) | Key::Suspend => {}
        }
        None
    }

    fn typed(&mut self, about: About, mut text: String, key: Key) -> Option<Wanted> {
        match key {
            Key::Escape => return None,
            Key::Enter if text.trim().is_empty() => return None,
            Key::Enter => return Some(about.wanted(text.trim().to_owned())),
            Key::Char(c) | Key::Pasted(c) if text.chars().count() < limits::OPERATOR_CHARS_MAX => {
                text.push(c);
            }
            Key::Backspace => drop(text.pop()),
            Key::Char(_) | Key::Pasted(_) => {}
            Key::Move(_) | Key::Suspend => {}
        }
        self.state = State::Typing(about, text);
        None
    }

    /// There is no question, and nothing is being typed.
    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// The keys, on as many lines as they need, or the question, the message or the typed text.
    pub(super) fn lines(&self, summary: &Summary, columns: usize) -> Vec<Line> {
        if let Some(line) = self.instead_of_keys(columns) {
            return vec![line];
        }
        let rows = rows_of(&self.keys(summary), columns);
        let line = |row| Line::new(Tone::Quiet, format!("  {row}"));
        rows.into_iter().map(line).collect()
    }

    /// The question, the message or the typed text, if there is one.
    pub(super) fn instead_of_keys(&self, columns: usize) -> Option<Line> {
        (self.state != State::Idle || self.told.is_some()).then(|| self.line(columns))
    }

    /// Shows the end of the typed text if not all of it fits.
    fn line(&self, columns: usize) -> Line {
        match (&self.state, &self.told) {
            (State::Idle, told) => {
                let (tone, text) = told
                    .as_ref()
                    .map_or((Tone::Quiet, ""), |(tone, text)| (*tone, text));
                Line::new(tone, format!("  {}", one_line(text)))
            }
            (State::Stopping, _) => Line::new(Tone::Attention, "  stop, after a handoff? ")
                .with(Tone::Quiet, "y stops, any other key does not"),
            (State::Typing(about, text), _) => {
                let label = about.label();
                let room = columns.saturating_sub(label.len() + 5);
                let hidden = text.chars().count().saturating_sub(room);
                let end: String = text.chars().skip(hidden).collect();
                let end = end.replace('\n', " ");
                let hint = if text.is_empty() { about.hint() } else { "" };
                Line::new(Tone::Attention, format!("  {label} "))
                    .with(Tone::Plain, format!("{end}▏"))
                    .with(Tone::Quiet, hint)
            }
        }
    }

    fn keys(&self, summary: &Summary) -> Vec<&'static str> {
        let pause = match summary.is_paused {
            true => "p unpause",
            false => "p pause",
        };
        let has = |shown: bool, key| shown.then_some(key);
        let keys = [
            has(!summary.asked.is_empty(), "a answer"),
            Some(pause),
            has(!self.is_full, "n next"),
            Some("s stop"),
            self.leave.filter(|_| !self.is_full),
            has(!self.is_full, "f full screen"),
            Some("l limits"),
            Some("m message"),
            has(summary.handoff.is_some(), "o handoff"),
        ];
        keys.into_iter().flatten().collect()
    }
}

/// The keys row by row; none is cut off.
fn rows_of(keys: &[&str], columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for key in keys {
        match rows.last_mut() {
            // Two columns before them, two between them, and the last one of the terminal stays free.
            Some(row) if row.len() + key.len() + 5 <= columns => row.push_str(&format!("  {key}")),
            _ => rows.push((*key).to_owned()),
        }
    }
    rows
}

impl About {
    fn wanted(self, words: String) -> Wanted {
        match self {
            Self::Message => Wanted::Steer(Steering::Instruct { words }),
            Self::Answer(stage) => Wanted::Steer(Steering::Answer { stage, words }),
            Self::Limits => Wanted::Limits(words),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Message => "to the next session:".to_owned(),
            Self::Limits => "limits:".to_owned(),
            Self::Answer(stage) => format!("answer {stage}:"),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Limits => "  such as -m 20; esc changes nothing",
            Self::Message | Self::Answer(_) => "  enter sends, esc does not",
        }
    }
}
