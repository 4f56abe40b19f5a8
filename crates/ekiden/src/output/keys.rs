//! Keys that a person presses at the terminal, read one by one and without echo.
//!
//! Nothing else changes: ctrl-c, ctrl-z and ctrl-\ stay signals, as without a live view. A process in the
//! background reads and sets nothing, since that would suspend the whole process. At the end the terminal
//! gets its old settings back, even if the process that took them is killed: see [`restorer`].

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ekiden_agent::SignalFlag;
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
/// The terminal marks what is pasted. A line break in it is not Enter, and no letter after it is a key.
const MARK_PASTES: &str = "\u{1b}[?2004h";
const MARK_NO_PASTES: &str = "\u{1b}[?2004l";
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// The Escape key, and what begins the sequence of another key.
const ESCAPE: u8 = 0x1b;
/// The rest of a sequence comes sooner than this after its first byte, and a person's next key later.
const SEQUENCE_PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// A longer paste has lost its end.
const PASTE_BYTES_MAX: usize = 1 << 20;
/// A signal that has no key.
const NO_KEY: u8 = if cfg!(target_os = "macos") { 0xff } else { 0 };

pub struct Keys {
    before: Termios,
    /// Whether ctrl-z is a key: in the full-screen view, which must be left before the process is
    /// suspended.
    pub takes_suspend: bool,
    /// The start of an incomplete character, sequence or paste.
    begun: Vec<u8>,
    /// The terminal was told to mark pastes, and no other program has had it since.
    marks_pastes: bool,
    /// Raised when this process was suspended.
    went_on: Option<SignalFlag>,
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
        let mut keys = Self {
            before,
            takes_suspend: false,
            begun: Vec::new(),
            marks_pastes: false,
            went_on: SignalFlag::of_going_on().ok(),
        };
        keys.settle();
        restore_on_panic(keys.before.clone());
        Some(keys)
    }

    /// After a suspension the shell restores a program's mode, but not that pastes are marked. So this is checked again
    /// and again.
    fn settle(&mut self) {
        if self.went_on.as_ref().is_some_and(SignalFlag::lower) {
            self.marks_pastes = false;
        }
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
        }
        if !self.marks_pastes && is_in_foreground() {
            self.marks_pastes = tell(MARK_PASTES);
        }
    }

    /// Gives the settings of before back.
    fn restore(&mut self) {
        set(&self.before);
        self.marks_pastes = false;
    }

    /// Gives the terminal to a program. There ctrl-c and ctrl-\ are not signals: they would stop the run.
    pub fn lend<T>(&mut self, program: impl FnOnce() -> T) -> T {
        let mut mode = self.before.clone();
        for signal in [SpecialCodeIndex::VINTR, SpecialCodeIndex::VQUIT] {
            mode.special_codes[signal] = NO_KEY;
        }
        set(&mode);
        let done = program();
        self.restore();
        self.settle();
        done
    }

    /// Suspends this process, as ctrl-z does elsewhere, until it is continued.
    pub fn suspend(&mut self) {
        self.restore();
        let _ = kill_current_process_group(Signal::TSTP);
    }

    fn read(&mut self) -> Heard {
        let mut keys = self.take_in();
        if self.begun == [ESCAPE] && is_ready(stdin(), PollFlags::IN, &SEQUENCE_PATIENCE) {
            keys.extend(self.take_in());
        }
        if self.begun == [ESCAPE] {
            self.begun.clear();
            keys.push(Key::Escape);
        }
        Heard::Keys(keys)
    }

    fn take_in(&mut self) -> Vec<Key> {
        let mut bytes = [0; BYTES_MAX];
        let count = rustix::io::read(stdin(), &mut bytes).unwrap_or(0);
        self.begun.extend_from_slice(&bytes[..count]);
        keys_of(&mut self.begun)
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
fn tell(mark: &str) -> bool {
    is_ready(stdout(), PollFlags::OUT, &Timespec::default())
        && rustix::io::write(stdout(), mark.as_bytes()).is_ok()
}

fn is_ready(terminal: BorrowedFd<'_>, flags: PollFlags, length: &Timespec) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(terminal, flags)];
    poll(&mut fds, Some(length)).is_ok() && fds[0].revents().contains(flags)
}

/// Waits for keys, until the other end of `stopped` is closed, or this long.
pub fn wait(keys: Option<&mut Keys>, stopped: &OwnedFd, length: Duration) -> Heard {
    let length = Timespec::try_from(length).unwrap_or_default();
    let mut keys = keys.filter(|_| is_in_foreground());
    let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
    if let Some(keys) = &mut keys {
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

/// Others have the terminal of standard output. Without one nobody has it.
pub fn stdout_in_background() -> bool {
    tcgetpgrp(stdout()).is_ok_and(|group| group != getpgrp())
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

/// The keys of these bytes. An incomplete character, sequence or paste stays.
fn keys_of(bytes: &mut Vec<u8>) -> Vec<Key> {
    let mut keys = Vec::new();
    while !bytes.is_empty() {
        let (taken, of_piece) = match piece_of(bytes) {
            Some(Piece::Text(end)) => (end, text_keys(&bytes[..end])),
            Some(Piece::Sequence(end)) => (end, arrow(&bytes[1..end]).into_iter().collect()),
            Some(Piece::Paste(end, text)) => (end, pasted_keys(&bytes[PASTE_BEGINS.len()..text])),
            None => break,
        };
        bytes.drain(..taken);
        keys.extend(of_piece);
    }
    keys
}

/// What these bytes begin with, up to a place.
enum Piece {
    Text(usize),
    /// An arrow, a function key, a key with alt.
    Sequence(usize),
    /// The text of the paste ends at the second place.
    Paste(usize, usize),
}

/// None if the rest of it comes with the next read.
fn piece_of(bytes: &[u8]) -> Option<Piece> {
    if bytes[0] != ESCAPE {
        let end = bytes.iter().position(|byte| *byte == ESCAPE);
        let text = &bytes[..end.unwrap_or(bytes.len())];
        let end = match str::from_utf8(text) {
            Err(error) if error.error_len().is_none() && end.is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => text.len(),
        };
        return (end > 0).then_some(Piece::Text(end));
    }
    if !bytes.starts_with(PASTE_BEGINS) {
        return sequence_end(bytes).map(Piece::Sequence);
    }
    let mut windows = bytes.windows(PASTE_ENDS.len());
    match windows.position(|window| window == PASTE_ENDS) {
        Some(end) => Some(Piece::Paste(end + PASTE_ENDS.len(), end)),
        None if bytes.len() < PASTE_BYTES_MAX => None,
        None => Some(Piece::Paste(bytes.len(), bytes.len())),
    }
}

/// Where the sequence ends that these bytes begin with.
fn sequence_end(bytes: &[u8]) -> Option<usize> {
    let parameters = match bytes.get(1)? {
        b'[' if bytes.get(2) == Some(&b'[') => return bytes.get(3).map(|_| 4),
        b'[' => 2,
        b'O' => return bytes.get(2).map(|_| 3),
        // It begins another one.
        &ESCAPE => return Some(1),
        // A key with alt, which may be a letter of several bytes.
        _ => {
            let rest = bytes[2..].iter();
            return Some(2 + rest.take_while(|byte| (0x80..0xc0).contains(*byte)).count());
        }
    };
    let is_final = |byte: &u8| !(0x20..0x40).contains(byte);
    let end = parameters + bytes[parameters..].iter().position(is_final)?;
    // A control character, such as the next Escape, is no part of it.
    Some(end + usize::from(bytes[end] >= 0x40))
}

fn text_keys(text: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(text);
    text.chars().filter_map(key_of).collect()
}

fn pasted_keys(text: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    let key = |c: char| match c {
        '\r' | '\n' => Some(Key::Pasted('\n')),
        '\t' => Some(Key::Pasted(' ')),
        c => (!c.is_control()).then_some(Key::Pasted(c)),
    };
    text.chars().filter_map(key).collect()
}

/// The key of a sequence without its Escape.
fn arrow(sequence: &[u8]) -> Option<Key> {
    let to = match sequence {
        b"[A" | b"OA" => Move::Up,
        b"[B" | b"OB" => Move::Down,
        b"[C" | b"OC" => Move::Right,
        b"[D" | b"OD" => Move::Left,
        b"[5~" => Move::PageUp,
        b"[6~" => Move::PageDown,
        _ => return None,
    };
    Some(Key::Move(to))
}

fn key_of(c: char) -> Option<Key> {
    match c {
        '\r' | '\n' => Some(Key::Enter),
        '\u{7f}' | '\u{8}' => Some(Key::Backspace),
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
            keys(b"p\r\x7f"),
            [Key::Char('p'), Key::Enter, Key::Backspace]
        );
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
    fn a_sequence_is_one_key_whatever_is_around_it_and_wherever_it_is_cut() {
        let left = Key::Move(Move::Left);
        let fix = "fix".chars().map(Key::Char);
        let after: Vec<Key> = fix.clone().chain([left]).collect();
        let before: Vec<Key> = [left].into_iter().chain(fix).collect();
        // With alt, `s` would stop the run if it were a key; so would the end of F1 on a console.
        for (bytes, keys) in [
            (&b"fix\x1b[D"[..], after),
            (b"\x1b[Dfix", before),
            (b"\x1bs\x1b\xc3\xa9\x1b[[A\x1bOP\x1b[1;5C", vec![]),
            (b"\x1b\x1b[D\x1b[1\x1b[D", vec![left, left]),
        ] {
            assert_eq!(keys_of(&mut bytes.to_vec()), keys, "{bytes:?}");
        }
        let mut begun = Vec::new();
        let typed = b"m\x1b[D\x1b[200~sy\x1b[201~\x1b[6~\r".iter();
        let keys: Vec<Key> = typed
            .flat_map(|byte| {
                begun.push(*byte);
                keys_of(&mut begun)
            })
            .collect();
        let pasted = [Key::Pasted('s'), Key::Pasted('y')];
        let all = [&[Key::Char('m'), left], &pasted[..]].concat();
        assert_eq!(
            keys,
            [all, vec![Key::Move(Move::PageDown), Key::Enter]].concat()
        );
    }

    // shows: UIX-01
    #[test]
    fn a_paste_is_text_whatever_is_in_it() {
        let pasted = |text: &str| text.chars().map(Key::Pasted).collect::<Vec<_>>();
        let mut bytes = b"m\x1b[200~no\rstop\r\n\xc3".to_vec();
        assert_eq!(keys_of(&mut bytes), [Key::Char('m')], "its end is missing");
        bytes.extend(b"\xa9\x1b[31m\t.\x1b[201~\rp");
        let mut keys = pasted("no\nstop\né[31m .");
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
