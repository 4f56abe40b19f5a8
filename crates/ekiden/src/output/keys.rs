//! Keys that a person presses at the terminal, read one by one and without echo.
//!
//! Nothing else changes: ctrl-c, ctrl-z and ctrl-\ stay signals, as without a live view. A process in the
//! background reads and sets nothing, since that would suspend the whole process. At the end the terminal
//! gets its old settings back, even if the process that took them is killed: see [`restorer`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

use super::prompting::{Key, Move};

const BYTES_MAX: usize = 4096;
/// Shows the cursor and leaves a full screen, which does nothing if there is none. Then it erases from the start of the
/// line on.
const LEAVE_SCREEN: &str = "\u{1b}[?25h\u{1b}[?1047l\r\u{1b}[J";
/// The terminal marks what is pasted. WHY: a line break in it is not Enter, and no letter after it is a key.
const MARK_PASTES: &str = "\u{1b}[?2004h";
const MARK_NO_PASTES: &str = "\u{1b}[?2004l";
const PASTE_BEGINS: &str = "\u{1b}[200~";
const PASTE_ENDS: &str = "\u{1b}[201~";
/// A longer paste has lost its end.
const PASTE_BYTES_MAX: usize = 1 << 20;
/// A signal that has no key.
const NO_KEY: u8 = if cfg!(target_os = "macos") { 0xff } else { 0 };

pub struct Keys {
    before: Termios,
    /// Whether ctrl-z is a key: in the full-screen view, which must be left before the process is
    /// suspended.
    pub takes_suspend: bool,
    /// The start of an incomplete character or paste.
    begun: Vec<u8>,
}

/// What arrived during the wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    Keys(Vec<Key>),
    Nothing,
    /// The wait is no longer wanted.
    Stopped,
}

impl Keys {
    /// Takes over the keys of standard input, if it is a terminal.
    pub fn take() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let keys = Self {
            before,
            takes_suspend: false,
            begun: Vec::new(),
        };
        keys.settle();
        restore_on_panic(keys.before.clone());
        Some(keys)
    }

    /// After a suspension the shell restores a program's mode, so this is checked again and again.
    fn settle(&self) {
        let Ok(mut mode) = tcgetattr(stdin()) else {
            return;
        };
        let suspend = match self.takes_suspend {
            true => NO_KEY,
            false => self.before.special_codes[SpecialCodeIndex::VSUSP],
        };
        let ours = LocalModes::ICANON | LocalModes::ECHO;
        let is_other = mode.special_codes[SpecialCodeIndex::VSUSP] != suspend;
        if (mode.local_modes.intersects(ours) || is_other) && is_in_foreground() {
            mode.local_modes.remove(ours);
            mode.special_codes[SpecialCodeIndex::VSUSP] = suspend;
            let _ = tcsetattr(stdin(), OptionalActions::Now, &mode);
            tell(MARK_PASTES);
        }
    }

    /// Gives the terminal to a program. There ctrl-c and ctrl-\ are not signals: they would stop the run.
    pub fn lend<T>(&self, program: impl FnOnce() -> T) -> T {
        let mut mode = self.before.clone();
        for signal in [SpecialCodeIndex::VINTR, SpecialCodeIndex::VQUIT] {
            mode.special_codes[signal] = NO_KEY;
        }
        set(&mode);
        let done = program();
        set(&self.before);
        self.settle();
        done
    }

    /// Suspends this process, as ctrl-z does elsewhere, until it is continued.
    pub fn suspend(&self) {
        set(&self.before);
        let _ = kill_current_process_group(Signal::TSTP);
    }

    fn read(&mut self) -> Heard {
        let mut bytes = [0; BYTES_MAX];
        match rustix::io::read(stdin(), &mut bytes) {
            Ok(count @ 1..) => {
                self.begun.extend_from_slice(&bytes[..count]);
                Heard::Keys(keys_of(&mut self.begun))
            }
            Ok(0) | Err(_) => Heard::Nothing,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        set(&self.before);
    }
}

fn set(mode: &Termios) {
    if is_in_foreground() {
        let _ = tcsetattr(stdin(), OptionalActions::Now, mode);
        tell(MARK_NO_PASTES);
    }
}

/// A terminal that takes nothing, as after ctrl-s, is told nothing: the run must not wait for it.
fn tell(mark: &str) {
    let mut fds = [PollFd::from_borrowed_fd(stdout(), PollFlags::OUT)];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    if polled.is_ok() && fds[0].revents().contains(PollFlags::OUT) {
        let _ = rustix::io::write(stdout(), mark.as_bytes());
    }
}

/// Waits for keys, until the other end of `stopped` is closed, or this long.
pub fn wait(keys: Option<&mut Keys>, stopped: &OwnedFd, length: Duration) -> Heard {
    let length = Timespec::try_from(length).unwrap_or_default();
    let keys = keys.filter(|_| is_in_foreground());
    let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
    if let Some(keys) = &keys {
        keys.settle();
        fds.push(PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
    }
    if poll(&mut fds, Some(&length)).is_err() {
        return Heard::Nothing;
    }
    if !fds[0].revents().is_empty() {
        return Heard::Stopped;
    }
    let is_ready = fds.get(1).map(PollFd::revents);
    match (keys, is_ready) {
        (Some(keys), Some(ready)) if ready.contains(PollFlags::IN) && is_in_foreground() => {
            keys.read()
        }
        // A terminal that is gone is always ready.
        (Some(_), Some(ready)) if !ready.is_empty() => {
            std::thread::sleep(Duration::from_millis(200));
            Heard::Nothing
        }
        _ => Heard::Nothing,
    }
}

/// Only then may the terminal be read and set.
fn is_in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// Remembers the terminal's mode. The returned function sets it again, after a process that was killed while it used
/// the terminal, perhaps all of the screen.
pub fn restorer() -> impl FnOnce() {
    let before = tcgetattr(stdin()).ok();
    move || {
        before.iter().for_each(set);
        let _ = rustix::io::write(stdout(), LEAVE_SCREEN.as_bytes());
    }
}

/// If a panic ends the process at once, nothing is dropped.
fn restore_on_panic(before: Termios) {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            set(&before);
            if super::IS_FULL.swap(false, Ordering::Relaxed) {
                let _ = rustix::io::write(stdout(), super::LEAVE_FULL.as_bytes());
            }
            told(panic);
        }));
    });
}

/// The keys of these bytes. The bytes of an incomplete character or paste stay.
fn keys_of(bytes: &mut Vec<u8>) -> Vec<Key> {
    if let Some(begin) = place_of(PASTE_BEGINS, bytes) {
        return keys_around_paste(bytes, begin);
    }
    // The rest of it comes with the next read.
    if bytes.len() > 1 && PASTE_BEGINS.as_bytes().starts_with(bytes) {
        return Vec::new();
    }
    // An arrow or a function key: not part of any text.
    if bytes.len() > 1 && bytes[0] == 0x1b {
        let keys = arrows(bytes);
        bytes.clear();
        return keys;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    };
    let taken = text.len().min(bytes.len());
    bytes.drain(..taken);
    text.chars().filter_map(key_of).collect()
}

/// The same where a paste begins.
fn keys_around_paste(bytes: &mut Vec<u8>, begin: usize) -> Vec<Key> {
    let end = match place_of(PASTE_ENDS, &bytes[begin..]) {
        Some(length) => begin + length,
        None if bytes.len() < PASTE_BYTES_MAX => return Vec::new(),
        None => bytes.len(),
    };
    let mut before: Vec<u8> = bytes.drain(..end).collect();
    bytes.drain(..PASTE_ENDS.len().min(bytes.len()));
    let text = before.split_off(begin).split_off(PASTE_BEGINS.len());
    let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
    let mut keys = keys_of(&mut before);
    keys.extend(text.chars().filter_map(|c| match c {
        '\r' | '\n' => Some(Key::Pasted('\n')),
        '\t' => Some(Key::Pasted(' ')),
        c => (!c.is_control()).then_some(Key::Pasted(c)),
    }));
    keys.extend(keys_of(bytes));
    keys
}

fn place_of(mark: &str, bytes: &[u8]) -> Option<usize> {
    let mut windows = bytes.windows(mark.len());
    windows.position(|window| window == mark.as_bytes())
}

/// One key, or the same held down.
fn arrows(bytes: &[u8]) -> Vec<Key> {
    let sequences = String::from_utf8_lossy(bytes);
    let arrow = |sequence| match sequence {
        "[A" | "OA" => Some(Key::Move(Move::Up)),
        "[B" | "OB" => Some(Key::Move(Move::Down)),
        "[C" | "OC" => Some(Key::Move(Move::Right)),
        "[D" | "OD" => Some(Key::Move(Move::Left)),
        "[5~" => Some(Key::Move(Move::PageUp)),
        "[6~" => Some(Key::Move(Move::PageDown)),
        _ => None,
    };
    sequences.split('\u{1b}').filter_map(arrow).collect()
}

fn key_of(c: char) -> Option<Key> {
    match c {
        '\r' | '\n' => Some(Key::Enter),
        '\u{7f}' | '\u{8}' => Some(Key::Backspace),
        '\u{1b}' => Some(Key::Escape),
        '\u{1a}' => Some(Key::Suspend),
        c if c.is_control() => None,
        c => Some(Key::Char(c)),
    }
}

/// A pipe whose reading end shows that the other was closed.
pub fn stopping() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = io::pipe()?;
    Ok((reading.into(), writing.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-01
    #[test]
    fn bytes_are_keys_and_a_cut_character_waits_for_its_rest() {
        let keys = |bytes: &[u8]| keys_of(&mut bytes.to_vec());
        assert_eq!(
            keys(b"p\r\x7f\x1b"),
            [Key::Char('p'), Key::Enter, Key::Backspace, Key::Escape]
        );
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(
            keys(b"\x1b[A\x1b[6~\x1b[F"),
            [Move::Up, Move::PageDown].map(Key::Move)
        );
        assert_eq!(keys(b"\x01\x02"), []);
        let mut begun = b"\xc3".to_vec();
        assert_eq!(keys_of(&mut begun), []);
        begun.push(0xa9);
        assert_eq!(keys_of(&mut begun), [Key::Char('é')]);
        assert!(begun.is_empty());
    }

    // shows: UIX-01
    #[test]
    fn a_paste_is_text_whatever_is_in_it() {
        let pasted = |text: &str| text.chars().map(Key::Pasted).collect::<Vec<_>>();
        let mut bytes = b"m\x1b[200~no\rstop\r\n\xc3".to_vec();
        assert_eq!(keys_of(&mut bytes), [], "its end is missing");
        bytes.extend(b"\xa9\x1b[31m\t.\x1b[201~\rp");
        let mut keys = vec![Key::Char('m')];
        keys.extend(pasted("no\nstop\né[31m ."));
        keys.extend([Key::Enter, Key::Char('p')]);
        assert_eq!(keys_of(&mut bytes), keys);
        assert_eq!(bytes, b"");

        let mut endless = b"\x1b[200~".to_vec();
        endless.resize(PASTE_BYTES_MAX, b'x');
        assert_eq!(keys_of(&mut endless).len(), PASTE_BYTES_MAX - 6);
        assert_eq!(endless, b"");

        let mut cut = b"\x1b[20".to_vec();
        assert_eq!(keys_of(&mut cut), [], "its beginning is cut");
        cut.extend(b"0~s\x1b[201~");
        assert_eq!(keys_of(&mut cut), pasted("s"));

        let mut stray = b"\x1b[201~\x1b[200~a\x1b[201~".to_vec();
        assert_eq!(keys_of(&mut stray), pasted("a"));
    }
}
