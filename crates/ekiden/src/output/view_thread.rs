//! The live view while it is shown, and the keys that a person presses there.
//!
//! It has its own thread, which nobody waits for: the code that feeds the board continues meanwhile.
//! Another thread sends each key's request to the run, as a command in another terminal would send it.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ekiden_agent::SignalFlag;
use ekiden_agent::background::Detach;
use ekiden_engine::clock::{Clock, SystemClock};
use jiff::tz::TimeZone;

use super::board::Board;
use super::full::{self, Full, Open, Pressed};
use super::keys::{self, Heard, Keys};
use super::line::{Line, Tone};
use super::prompting::{Key, Prompting, Wanted};
use super::view::{self, Frame};
use super::{Output, ROWS_KEPT};

/// How often it is drawn while no key is pressed.
const PAUSE: Duration = Duration::from_millis(200);

/// The only thread that may panic alone.
pub const VIEW_THREAD: &str = "view";

/// A person's request is done, or why it cannot be.
type Done = Result<(), String>;
/// Carries out a person's request.
pub type Do = Arc<dyn Fn(Wanted) -> Done + Send + Sync>;

/// Shows a text until a person has read it.
pub type Read = fn(&str) -> Done;

/// How a person leaves a run alone.
pub enum Leave {
    /// The watching process ends, and learns that here.
    Watching(SignalFlag),
    /// The run continues without this terminal.
    Detach(Detach),
    Never,
}

/// A request that needs the screen as it was before.
#[derive(Debug, Clone, Copy)]
enum Then {
    Suspend,
    Read,
    Leave,
}

/// What a run and its view share.
pub struct Shown<'a> {
    pub output: &'a mut Output,
    pub board: Board,
    pub frame: Vec<Line>,
    /// The view has the whole screen, or a pager has it.
    pub is_full: bool,
}

/// Where a person can press keys.
pub struct Controls {
    keys: Keys,
    prompting: Prompting,
    act: Do,
    open: Open,
    leave: Leave,
    read: Read,
    then: Option<Then>,
    /// The full-screen view, while it is shown.
    full: Option<Full>,
    done: (Sender<Done>, Receiver<Done>),
}

impl Controls {
    /// `None` without a terminal to read from.
    pub fn take(leave: Leave, act: Do, open: Open, read: Read) -> Option<Self> {
        let key = match leave {
            Leave::Watching(_) => Some("q leave"),
            Leave::Detach(_) => Some("d detach"),
            Leave::Never => None,
        };
        Some(Self {
            keys: Keys::take()?,
            prompting: Prompting::new(key),
            act,
            open,
            leave,
            read,
            then: None,
            full: None,
            done: mpsc::channel(),
        })
    }

    fn press(&mut self, pressed: Vec<Key>, board: &Board, has_room: bool) {
        let Some(summary) = &board.summary else {
            return;
        };
        for key in pressed {
            if key == Key::Suspend {
                self.then = Some(Then::Suspend);
            }
            if let Some(full) = self.full.as_mut().filter(|_| self.prompting.is_idle()) {
                let pressed = full.press(key);
                if pressed == Pressed::Back {
                    self.full = None;
                }
                if pressed != Pressed::Other {
                    self.prompting.clear_told();
                    continue;
                }
            }
            match self.prompting.press(key, summary) {
                None => {}
                Some(Wanted::Full) if !has_room => {
                    self.prompting.tell(Tone::Attention, full::NEEDS_ROOM);
                }
                Some(Wanted::Full) => self.full = Some(Full::new(Arc::clone(&self.open))),
                Some(Wanted::Read) => self.then = Some(Then::Read),
                Some(Wanted::Leave) => {
                    self.then = Some(Then::Leave);
                    return;
                }
                Some(wanted) => {
                    let (act, done) = (Arc::clone(&self.act), self.done.0.clone());
                    // An engine that does not answer blocks nothing here.
                    thread::spawn(move || done.send(act(wanted)));
                }
            }
        }
    }

    /// What to do before the next frame.
    fn is_wanted(&mut self) -> Option<Then> {
        let is_alone = matches!(&self.leave, Leave::Detach(detach) if detach.is_alone());
        let leaves = is_alone.then_some(Then::Leave);
        leaves.or(self.then.take())
    }

    /// Does it; `None` if nobody is here any more.
    fn attend(mut self, then: Then, shown: &Mutex<Shown<'_>>, board: &Board) -> Option<Self> {
        match then {
            Then::Suspend => {
                lock(shown).clear();
                self.keys.suspend();
            }
            Then::Read => {
                lock(shown).clear();
                lock(shown).cover(true);
                let summary = board.summary.as_ref();
                let handoff = summary.and_then(|summary| summary.handoff.as_deref());
                let read = self.keys.lend(|| (self.read)(handoff.unwrap_or_default()));
                lock(shown).cover(false);
                let _ = self.done.0.send(read);
            }
            Then::Leave => match self.leave {
                Leave::Detach(detach) => {
                    lock(shown).clear();
                    lock(shown).output.forget_terminal();
                    drop(self.keys);
                    // If it cannot leave, it continues as if the terminal were gone.
                    let _ = detach.leave();
                    return None;
                }
                Leave::Watching(ref left) => {
                    let done = std::mem::replace(&mut self.done, mpsc::channel());
                    if let Some(why) = last_refusal(done, left) {
                        lock(shown).output.warn(&why);
                    }
                    left.raise();
                }
                Leave::Never => {}
            },
        }
        Some(self)
    }

    fn tell_what_was_refused(&mut self) {
        let refused = self.done.1.try_iter().filter_map(Result::err).last();
        if let Some(why) = refused {
            self.prompting.tell(Tone::Attention, why);
        }
    }
}

/// Why the last request of those under way was refused. A person can leave before they are done.
fn last_refusal((own, done): (Sender<Done>, Receiver<Done>), left: &SignalFlag) -> Option<String> {
    // Now each request under way has an end, and nobody else.
    drop(own);
    let mut refused = None;
    while !left.is_raised() {
        match done.recv_timeout(PAUSE) {
            Ok(done) => refused = done.err().or(refused),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    refused
}

/// From now on a panic ends the process, except a panic of the view, which [`show`] reports.
pub fn end_on_panic() {
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |fault| {
        if thread::current().name() != Some(VIEW_THREAD) {
            told(fault);
            process::abort();
        }
    }));
}

/// Shows the view until the other end of `stopped` is closed. If a view panics, only the view is gone.
pub fn show(shown: &Mutex<Shown<'_>>, controls: Option<Controls>, stopped: &OwnedFd) {
    let showing = AssertUnwindSafe(|| show_until(shown, controls, stopped));
    if let Err(fault) = panic::catch_unwind(showing) {
        let mut shown = lock(shown);
        shown.fill(false);
        shown.frame.clear();
        shown.draw();
        let why = words_of(fault.as_ref());
        let text = format!("the live view failed and is left out; the run continues: {why}");
        shown.output.warn(&text);
    }
}

fn words_of(fault: &(dyn Any + Send)) -> &str {
    let text = fault.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| fault.downcast_ref::<&str>().copied())
        .unwrap_or("unknown error")
}

fn show_until(shown: &Mutex<Shown<'_>>, mut controls: Option<Controls>, stopped: &OwnedFd) {
    let zone = TimeZone::system();
    loop {
        if let Some(controls) = &mut controls {
            controls.tell_what_was_refused();
        }
        let board = draw(shown, controls.as_mut(), &zone);
        if let Some(then) = controls.as_mut().and_then(Controls::is_wanted) {
            controls = controls.and_then(|here| here.attend(then, shown, &board));
            if controls.is_none() {
                return;
            }
        }
        let keys = controls.as_mut().map(|controls| &mut controls.keys);
        match keys::wait(keys, stopped, PAUSE) {
            Heard::Stopped => {
                lock(shown).fill(false);
                return;
            }
            Heard::Nothing => {}
            Heard::Keys(pressed) => {
                if let Some(controls) = &mut controls {
                    let (columns, rows) = lock(shown).output.size();
                    let has_room = full::has_room(columns, rows + ROWS_KEPT);
                    controls.press(pressed, &board, has_room);
                }
            }
        }
    }
}

/// Draws the current state. The lines are made while others can still print.
fn draw(shown: &Mutex<Shown<'_>>, mut controls: Option<&mut Controls>, zone: &TimeZone) -> Board {
    let (board, size) = {
        let shown = lock(shown);
        (shown.board.clone(), shown.output.size())
    };
    let frame = Frame {
        now: SystemClock.now(),
        zone,
        columns: size.0,
        rows: size.1,
    };
    let (columns, rows) = (size.0, size.1 + ROWS_KEPT);
    if let Some(controls) = controls.as_deref_mut()
        && let Some(full) = &mut controls.full
        && let Some(summary) = &board.summary
        && full::has_room(columns, rows)
    {
        full.look(summary);
        controls.prompting.is_full = true;
        controls.keys.takes_suspend = true;
        let keys = controls.prompting.lines(summary, columns);
        let line = view::line(&board, frame).unwrap_or_default();
        let lines = full.rows(columns, rows, line, keys);
        let mut shown = lock(shown);
        shown.fill(true);
        shown.output.draw_full(&lines);
        fail_if_a_test_wants("full", &lines);
        return board;
    }
    if let Some(controls) = controls.as_deref_mut() {
        controls.prompting.is_full = false;
        controls.keys.takes_suspend = false;
    }
    let prompting = controls.as_deref().map(|controls| &controls.prompting);
    let lines = view::lines(&board, prompting, frame);
    let mut shown = lock(shown);
    shown.fill(false);
    shown.frame = lines;
    shown.draw();
    fail_if_a_test_wants("lines", &shown.frame);
    board
}

/// At the worst moment: something is drawn, and the lock for printing is held.
fn fail_if_a_test_wants(what: &str, frame: &[Line]) {
    let is_wanted = || std::env::var_os("TEST_EKIDEN_VIEW_FAILS").is_some_and(|view| view == what);
    assert!(
        !cfg!(debug_assertions) || frame.is_empty() || !is_wanted(),
        "as a test wants"
    );
}

impl Shown<'_> {
    /// Nothing moves until the next frame, and everything is printed.
    fn clear(&mut self) {
        self.fill(false);
        self.frame.clear();
        self.output.erase();
        self.output.settle();
    }

    /// A pager has the screen.
    fn cover(&mut self, is_covered: bool) {
        self.is_full = is_covered;
        match is_covered {
            true => self.output.hold(),
            false => self.output.release(),
        }
    }

    fn fill(&mut self, is_full: bool) {
        if std::mem::replace(&mut self.is_full, is_full) != is_full {
            self.output.fill(is_full);
        }
    }

    /// Draws what the view shows, above which something may have been printed.
    pub fn draw(&mut self) {
        if self.output.is_held() {
            return;
        }
        match self.frame.is_empty() {
            true => self.output.erase(),
            false => self.output.draw(&self.frame),
        }
    }
}

/// A view that panicked leaves nothing half done.
pub fn lock<'s, 'a>(shown: &'s Mutex<Shown<'a>>) -> MutexGuard<'s, Shown<'a>> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}
