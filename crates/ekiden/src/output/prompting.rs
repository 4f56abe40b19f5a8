//! The last line of the live view: the available keys, a question, or the text being typed.
//!
//! Keys go in, and the person's request comes out. Nothing here reads a terminal or steers a run.

use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::steering::Steering;
use textwrap::core::display_width;

use super::line::{Line, Tone, one_line};
use super::summary::Summary;

/// More than anything that can be sent: a person can still cut it down.
const TYPED_BYTES_MAX: usize = 64 * 1024;
/// Enough for a refusal on a terminal of 60 columns.
const TOLD_ROWS_MAX: usize = 4;

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
    Stopping,
    Typing(About, String),
}

/// What is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    Message,
    Limits,
    /// To a stage, and the question as it was when the person began.
    Answer(StageId, String),
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

    /// A person has seen the result of the last request.
    pub fn clear_told(&mut self) {
        self.told = None;
    }

    pub fn press(&mut self, key: Key, summary: &Summary) -> Option<Wanted> {
        // What arrives while somebody types stays until they are done.
        if self.is_idle() || matches!(key, Key::Enter | Key::Escape) {
            self.clear_told();
        }
        match std::mem::take(&mut self.state) {
            State::Idle => self.begin(key, summary),
            State::Stopping => match key {
                Key::Char('y' | 'Y') => Some(Wanted::Steer(Steering::Stop { now: false })),
                Key::Char(_) | Key::Pasted(_) | Key::Enter | Key::Backspace | Key::Escape => None,
                Key::Move(_) | Key::Suspend => None,
            },
            State::Typing(about, text) => self.typed(about, text, key, summary),
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
                if let Some((stage, question)) = summary.asked.first() {
                    self.state = typing(About::Answer(stage.clone(), question.clone()));
                }
            }
            Key::Char(_) | Key::Pasted(_) | Key::Enter | Key::Backspace | Key::Escape => {}
            Key::Move(_) | Key::Suspend => {}
        }
        None
    }

    fn typed(
        &mut self,
        about: About,
        mut text: String,
        key: Key,
        summary: &Summary,
    ) -> Option<Wanted> {
        match key {
            Key::Escape => return None,
            Key::Enter if text.trim().is_empty() => return None,
            Key::Enter => match about.refusal(text.trim(), summary) {
                None => return Some(about.wanted(text.trim().to_owned())),
                Some(why) => self.tell(Tone::Attention, why),
            },
            Key::Char(c) | Key::Pasted(c) if text.len() < TYPED_BYTES_MAX => text.push(c),
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

    /// The keys, on as many lines as they need, or what is there instead.
    pub(super) fn lines(&self, summary: &Summary, columns: usize) -> Vec<Line> {
        let instead = self.instead_of_keys(columns);
        if !instead.is_empty() {
            return instead;
        }
        let rows = rows_of(&self.keys(summary), columns);
        let line = |row| Line::new(Tone::Quiet, format!("  {row}"));
        rows.into_iter().map(line).collect()
    }

    /// The result of the last request, and the question or the typed text.
    pub(super) fn instead_of_keys(&self, columns: usize) -> Vec<Line> {
        let told = self.told.iter().flat_map(|(tone, text)| {
            let rows = Line::new(*tone, one_line(text)).broken(columns.saturating_sub(3));
            let rows = rows.into_iter().take(TOLD_ROWS_MAX);
            rows.map(|row| Line::new(*tone, format!("  {}", row.plain())))
        });
        told.chain(self.line(columns)).collect()
    }

    /// The question or the typed text, of which the end is shown if not all of it fits.
    fn line(&self, columns: usize) -> Option<Line> {
        match &self.state {
            State::Idle => None,
            State::Stopping => {
                let line = Line::new(Tone::Attention, "  stop, after a handoff? ");
                Some(line.with(Tone::Quiet, "y stops, any other key does not"))
            }
            State::Typing(about, text) => {
                let label = about.label();
                let text = text.replace('\n', " ");
                let end = end_of(&text, columns.saturating_sub(label.len() + 5));
                let hint = if text.is_empty() { about.hint() } else { "" };
                let line = Line::new(Tone::Attention, format!("  {label} "))
                    .with(Tone::Plain, format!("{end}▏"))
                    .with(Tone::Quiet, hint);
                Some(line)
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

/// As much of the end of a text as fits these columns.
fn end_of(text: &str, columns: usize) -> &str {
    let mut width = 0;
    let fits = |(_, c): &(usize, char)| {
        width += display_width(c.encode_utf8(&mut [0; 4]));
        width <= columns
    };
    let first = text.char_indices().rev().take_while(fits).last();
    first.map_or("", |(at, _)| &text[at..])
}

impl About {
    /// Why a text cannot be sent.
    fn refusal(&self, text: &str, summary: &Summary) -> Option<String> {
        let chars = text.chars().count();
        if chars > limits::OPERATOR_CHARS_MAX {
            let max = limits::OPERATOR_CHARS_MAX;
            return Some(format!("{chars} characters; at most {max} fit"));
        }
        match self {
            Self::Message | Self::Limits => None,
            Self::Answer(stage, question) => {
                let mut asked = summary.asked.iter();
                let is_asked = asked.any(|(by, asked)| (by, asked) == (stage, question));
                (!is_asked).then(|| "this question was answered, or has changed".to_owned())
            }
        }
    }

    fn wanted(self, words: String) -> Wanted {
        match self {
            Self::Message => Wanted::Steer(Steering::Instruct { words }),
            Self::Answer(stage, _) => Wanted::Steer(Steering::Answer { stage, words }),
            Self::Limits => Wanted::Limits(words),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Message => "to the next session:".to_owned(),
            Self::Limits => "limits:".to_owned(),
            Self::Answer(stage, _) => format!("answer {stage}:"),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Limits => "  such as -m 20; esc changes nothing",
            Self::Message | Self::Answer(..) => "  enter sends, esc does not",
        }
    }
}
