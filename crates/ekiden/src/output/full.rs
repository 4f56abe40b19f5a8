//! The full-screen view: the sessions on the left, the stream of the selected one on the right.
//!
//! It reads a run's files, within bounds however long they are: of a stream it reads the end, and keeps the
//! last entries. It says what it left out.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use ekiden_core::ids::{RunId, SessionNumber, StageId};
use ekiden_wire::lines::LineSplitter;
use ekiden_wire::reading::{Form, Piece, Reading};

use super::activity::PIECE_BYTES;
use super::line::{Line, Tone, masked, one_line};
use super::patch;
use super::phrase;
use super::prompting::{Key, Move};
use super::summary::Summary;
use super::work_dirs::WorkDirs;

/// How much of the end of a stream is read when a session is selected.
const TAIL_BYTES: u64 = 4 * 1024 * 1024;
/// How much of it is read before the next frame.
const LOOK_BYTES_MAX: u64 = 4 * 1024 * 1024;
const ENTRIES_MAX: usize = 2_000;
/// The smallest terminal for it.
const COLUMNS_MIN: usize = 60;
const ROWS_MIN: usize = 12;
pub const NEEDS_ROOM: &str = "full screen needs 60 columns, 12 rows";

/// A session's stream from a byte on, with its length; `None` if there is none.
pub type Open = Arc<dyn Fn(&SessionRef, u64) -> Option<(Box<dyn Read + Send>, u64)> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// `None` in a run with one relay.
    pub stage: Option<StageId>,
    pub session: SessionNumber,
    pub form: Form,
}

pub struct Full {
    open: Open,
    places: Vec<SessionRef>,
    /// Nothing is selected: the newest is shown.
    chosen: Option<SessionRef>,
    stream: Stream,
    /// The entry that keys act on; `None` follows the end.
    cursor: Option<usize>,
    /// How many rows of that entry are above what is shown.
    skipped: usize,
    search: Option<Search>,
    /// The columns and rows of the stream.
    size: (usize, usize),
}

enum Search {
    Typing(String),
    /// The text, and whether it was found.
    Typed(String, bool),
}

/// What a key did here.
#[derive(Debug, PartialEq, Eq)]
pub enum Pressed {
    Taken,
    /// Go back to the lines.
    Back,
    /// The key means something else.
    Other,
}

/// The end of a stream.
#[derive(Default)]
struct Stream {
    place: Option<SessionRef>,
    read_bytes: u64,
    left_out: u64,
    /// The start of the first line is missing.
    is_torn: bool,
    splitter: LineSplitter,
    reading: Reading,
    entries: VecDeque<Entry>,
    /// Entries that were dropped for newer ones.
    dropped: usize,
    /// The command that prints all of it.
    command: String,
}

struct Entry {
    head: Line,
    /// Shown when it is unfolded.
    rest: Vec<Line>,
    is_open: bool,
}

pub fn has_room(columns: usize, rows: usize) -> bool {
    columns >= COLUMNS_MIN && rows >= ROWS_MIN
}

impl Full {
    pub fn new(open: Open) -> Self {
        Self {
            open,
            places: Vec::new(),
            chosen: None,
            stream: Stream::default(),
            cursor: None,
            skipped: 0,
            search: None,
            size: (COLUMNS_MIN, ROWS_MIN),
        }
    }

    /// Reads what was added.
    pub fn look(&mut self, summary: &Summary) {
        self.places.clone_from(&summary.places);
        // The newest is followed only while its end is shown.
        let read = self.stream.place.as_ref().filter(|_| self.cursor.is_some());
        let place = self.chosen.as_ref().or(read).or(summary.newest.as_ref());
        let Some(place) = place.cloned() else {
            return;
        };
        if self.stream.place.as_ref() != Some(&place) {
            self.stream = Stream::of(place, &summary.run, &self.open);
            (self.cursor, self.skipped) = (None, 0);
            if let Some(Search::Typed(_, is_found)) = &mut self.search {
                *is_found = true;
            }
        }
        let dropped = self.stream.read_on(&self.open, &summary.work_dirs);
        self.cursor = self.cursor.map(|at| at.saturating_sub(dropped));
    }

    pub fn press(&mut self, key: Key) -> Pressed {
        if let Some(Search::Typing(text)) = &mut self.search {
            match key {
                Key::Char(c) => text.push(c),
                Key::Pasted(c) => text.push(if c == '\n' { ' ' } else { c }),
                Key::Backspace => drop(text.pop()),
                Key::Enter => {
                    let words = std::mem::take(text);
                    self.search = (!words.is_empty()).then_some(Search::Typed(words, true));
                    self.find(false);
                }
                Key::Escape => self.search = None,
                Key::Suspend => return Pressed::Back,
                Key::Move(_) => {}
            }
            return Pressed::Taken;
        }
        match key {
            Key::Char('f' | 'q') | Key::Suspend => return Pressed::Back,
            Key::Char('/') => self.search = Some(Search::Typing(String::new())),
            // A handoff is ordered from the lines. Here the key goes to the next match.
            Key::Char('n') => self.find(true),
            Key::Char('N') => self.find(false),
            Key::Char(' ') | Key::Enter => self.unfold(),
            Key::Move(Move::Up) => self.step(-1),
            Key::Move(Move::Down) => self.step(1),
            Key::Move(Move::PageUp) => self.step(-self.page()),
            Key::Move(Move::PageDown) => self.step(self.page()),
            Key::Move(Move::Left) => self.choose(-1),
            Key::Move(Move::Right) => self.choose(1),
            Key::Escape if self.search.is_some() => self.search = None,
            Key::Char(_) | Key::Pasted(_) | Key::Backspace | Key::Escape => return Pressed::Other,
        }
        Pressed::Taken
    }

    /// One row stays in sight.
    fn page(&self) -> isize {
        self.size.1.saturating_sub(1).max(1).cast_signed()
    }

    /// Moves within an entry that is longer than the screen, otherwise to another one.
    fn step(&mut self, by: isize) {
        let last = self.stream.entries.len().saturating_sub(1);
        let at = self.cursor.unwrap_or(last);
        let skipped = self.skipped.saturating_add_signed(by);
        let skipped = skipped.min(self.rows_of(at).len().saturating_sub(self.size.1));
        let to = match skipped == self.skipped {
            true => at.saturating_add_signed(by).min(last),
            false => at,
        };
        self.skipped = if to == at { skipped } else { 0 };
        self.cursor = (to < last || self.skipped > 0).then_some(to);
    }

    fn rows_of(&self, at: usize) -> Vec<Line> {
        let entry = self.stream.entries.get(at);
        entry.map_or_else(Vec::new, |entry| {
            entry.rows(self.size.0, self.cursor == Some(at))
        })
    }

    fn choose(&mut self, by: isize) {
        let shown = self.stream.place.as_ref();
        let at = self.places.iter().position(|place| Some(place) == shown);
        let at = at.unwrap_or(0).saturating_add_signed(by);
        self.chosen = self.places.get(at).or(self.places.last()).cloned();
    }

    fn unfold(&mut self) {
        let last = self.stream.entries.len().saturating_sub(1);
        let entry = self.stream.entries.get_mut(self.cursor.unwrap_or(last));
        entry
            .into_iter()
            .for_each(|entry| entry.is_open = !entry.is_open);
        self.skipped = 0;
    }

    /// The next entry that matches the search, otherwise the one before.
    fn find(&mut self, forwards: bool) {
        let Some(Search::Typed(words, is_found)) = &mut self.search else {
            return;
        };
        let holds = |at: &usize| self.stream.entries[*at].holds(words);
        let count = self.stream.entries.len();
        let at = self.cursor.unwrap_or(count);
        let found = match forwards {
            true => (at + 1..count).chain(0..count.min(at + 1)).find(holds),
            false => (0..count.min(at)).rev().chain((0..count).rev()).find(holds),
        };
        *is_found = found.is_some();
        if let Some(found) = found {
            let words = words.to_lowercase();
            self.cursor = Some(found);
            self.stream.entries[found].is_open = true;
            let mut rows = self.rows_of(found).into_iter();
            let row = rows.position(|row| row.plain().to_lowercase().contains(&words));
            // Unless it is near the beginning, the match is in the middle.
            self.skipped = row.unwrap_or(0).saturating_sub(self.size.1 / 2);
        }
    }

    /// As many rows as the screen has; `now` describes the state of the run, `keys` are those that steer.
    pub fn rows(&mut self, columns: usize, rows: usize, now: Line, keys: Vec<Line>) -> Vec<Line> {
        let width = self.places.iter().map(|place| place.label().len()).max();
        let width = width.unwrap_or(0).clamp(9, columns / 4) + 2;
        let room = rows.saturating_sub(keys.len() + 2);
        self.size = (columns.saturating_sub(width + 4), room);
        let stream = self.stream_rows();
        let shown = self.stream.place.as_ref();
        let at = self.places.iter().position(|place| Some(place) == shown);
        let from = at.unwrap_or(0).saturating_sub(room / 2);
        let mut stream = stream.into_iter();
        let mut lines: Vec<Line> = (from..from + room)
            .map(|row| {
                let place = self.places.get(row);
                let (mark, tone) = match place.is_some() && place == shown {
                    true => ('>', Tone::Plain),
                    false => (' ', Tone::Quiet),
                };
                let label = place.map(SessionRef::label).unwrap_or_default();
                let label: String = label.chars().take(width - 2).collect();
                let left = format!("{mark} {label:<room$}", room = width - 2);
                let left = Line::new(tone, left).with(Tone::Quiet, " ▏ ");
                left.joined(stream.next().unwrap_or_default())
            })
            .collect();
        let (tone, own) = self.own_keys();
        lines.extend([now, Line::new(tone, own)]);
        lines.extend(keys);
        lines
    }

    fn own_keys(&self) -> (Tone, String) {
        match &self.search {
            Some(Search::Typing(text)) => (Tone::Attention, format!("  /{text}▏")),
            Some(Search::Typed(words, is_found)) => {
                let keys = match is_found {
                    true => "n, N next, previous  esc ends",
                    false => "is not here  esc ends",
                };
                (Tone::Attention, format!("  `{}`  {keys}", one_line(words)))
            }
            None => {
                let keys = "  ← → session  ↑ ↓ move  space unfold  / search  f back";
                (Tone::Quiet, keys.to_owned())
            }
        }
    }

    /// The rows around the cursor, otherwise the last ones.
    fn stream_rows(&mut self) -> Vec<Line> {
        let (columns, room) = self.size;
        let entries = self.stream.entries.len();
        let at = self.cursor.unwrap_or(entries.saturating_sub(1));
        let mut chosen = self.rows_of(at);
        self.skipped = self.skipped.min(chosen.len().saturating_sub(room));
        chosen.drain(..self.skipped);
        if chosen.len() > room {
            let kept = room.saturating_sub(1);
            let more = phrase::count((chosen.len() - kept) as u64, "more row");
            chosen.truncate(kept);
            chosen.push(Line::new(Tone::Quiet, format!("     ({more})")));
        }
        let mut rows = VecDeque::from(chosen);
        // A third of the space stays for what comes after.
        let before_room = match self.cursor {
            Some(_) => room * 2 / 3,
            None => room,
        };
        let before = (0..at).rev();
        let before = before.flat_map(|index| self.rows_of(index).into_iter().rev());
        let above = Line::new(Tone::Quiet, self.stream.above()).broken(columns);
        let before = before.chain(above.into_iter().rev());
        for row in before.take(before_room.saturating_sub(rows.len())) {
            rows.push_front(row);
        }
        let after = (at + 1..entries).flat_map(|index| self.rows_of(index));
        rows.extend(after.take(room.saturating_sub(rows.len())));
        rows.into()
    }
}

impl SessionRef {
    fn label(&self) -> String {
        match &self.stage {
            Some(stage) => format!("{stage} {}", self.session),
            None => format!("session {}", self.session),
        }
    }
}

impl Stream {
    /// The stream from the point where its end begins.
    fn of(place: SessionRef, run: &RunId, open: &Open) -> Self {
        let bytes = open(&place, 0).map_or(0, |(_, bytes)| bytes);
        let left_out = bytes.saturating_sub(TAIL_BYTES);
        let reading = Reading::new(place.form, left_out > 0);
        let stage = place.stage.as_ref();
        let stage = stage.map(|stage| format!(" --stage {stage}"));
        let (session, stage) = (place.session, stage.unwrap_or_default());
        Self {
            command: format!("ekiden show {session} {run}{stage} --events --json"),
            place: Some(place),
            read_bytes: left_out,
            left_out,
            is_torn: left_out > 0,
            reading,
            ..Self::default()
        }
    }

    /// Takes in what was added, and returns how many entries were dropped for it. An unreadable stream adds
    /// nothing.
    fn read_on(&mut self, open: &Open, work_dirs: &WorkDirs) -> usize {
        let place = self.place.as_ref();
        let Some((stream, _)) = place.and_then(|place| open(place, self.read_bytes)) else {
            return 0;
        };
        let mut stream = stream.take(LOOK_BYTES_MAX);
        let mut piece = vec![0; PIECE_BYTES];
        let (entries, is_torn) = (&mut self.entries, &mut self.is_torn);
        let reading = &mut self.reading;
        let stage = self.place.as_ref().and_then(|place| place.stage.as_ref());
        let shorten = |text: &str| work_dirs.shorten(stage, text);
        let mut dropped = 0;
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            self.read_bytes += count as u64;
            self.splitter.push(&piece[..count], |line| {
                if std::mem::take(is_torn) {
                    return;
                }
                let new = reading.pieces(line).into_iter();
                entries.extend(new.map(|piece| Entry::of(piece, shorten)));
                let surplus = entries.len().saturating_sub(ENTRIES_MAX);
                entries.drain(..surplus);
                dropped += surplus;
            });
        }
        self.dropped += dropped;
        dropped
    }

    /// What is above the first entry.
    fn above(&self) -> String {
        let left_out = match (self.left_out, self.dropped) {
            (0, 0) if self.entries.is_empty() => return "nothing yet".to_owned(),
            (0, 0) => return "the beginning".to_owned(),
            (0, entries) => entries.to_string(),
            (bytes, _) => format!("{} MB", bytes.div_ceil(1024 * 1024)),
        };
        format!("({left_out} before these left out: {})", self.command)
    }
}

impl Entry {
    fn of(piece: Piece, shorten: impl Fn(&str) -> String) -> Self {
        let label =
            |label: &str, tone, text: &str| Line::labelled(label, tone, one_line(&shorten(text)));
        let (head, rest, is_open) = match piece {
            Piece::Thought(text) => (
                label("thinks", Tone::Quiet, &text),
                texts(Tone::Quiet, &text),
                false,
            ),
            Piece::Said(text) => (
                label("says", Tone::Plain, &text),
                texts(Tone::Plain, &text),
                false,
            ),
            Piece::Called { name, input, edits } if edits.is_empty() => (
                label(&one_line(&name), Tone::Plain, &input),
                texts(Tone::Quiet, &input),
                false,
            ),
            Piece::Called { name, input, edits } => {
                let diff = edits.iter().flat_map(diff).collect();
                (label(&one_line(&name), Tone::Plain, &input), diff, true)
            }
            Piece::Returned {
                is_error: true,
                text,
            } => {
                let head = label("", Tone::Failed, &format!("failed: {text}"));
                (head, texts(Tone::Plain, &text), false)
            }
            Piece::Returned {
                is_error: false,
                text,
            } => (
                label("", Tone::Quiet, &text),
                texts(Tone::Quiet, &text),
                false,
            ),
            Piece::Unread(bytes) => {
                let text = format!("(a line of {bytes} bytes that cannot be read is left out)");
                (label("", Tone::Attention, &text), Vec::new(), false)
            }
        };
        Self {
            head,
            rest,
            is_open,
        }
    }

    fn holds(&self, wanted: &str) -> bool {
        let mut lines = std::iter::once(&self.head).chain(&self.rest);
        let wanted = wanted.to_lowercase();
        lines.any(|line| line.plain().to_lowercase().contains(&wanted))
    }

    fn rows(&self, columns: usize, is_chosen: bool) -> Vec<Line> {
        let mark = if is_chosen { ">" } else { " " };
        let head = Line::new(Tone::Attention, mark).joined(self.head.clone().trimmed());
        let rest = self.rest.iter().filter(|_| self.is_open);
        let rest = rest.flat_map(|line| line.broken(columns.saturating_sub(4)));
        let rest = rest.map(|line| Line::new(Tone::Quiet, "    ").joined(line));
        std::iter::once(head).chain(rest).collect()
    }
}

fn texts(tone: Tone, written: &str) -> Vec<Line> {
    let written = masked(written);
    let lines = written.lines().map(|line| line.replace('\t', "    "));
    lines.map(|line| Line::new(tone, line)).collect()
}

fn diff([old, new]: &[String; 2]) -> Vec<Line> {
    let patch = patch::unified(["", ""], [&masked(old), &masked(new)], 2);
    let lines = texts(Tone::Quiet, &patch).into_iter().skip(2);
    lines.map(Line::of_diff).collect()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use super::*;

    const STREAM: &str = concat!(
        r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"Which file?\nThe parser."},{"type":"text","text":"First the parser."}]}}"#,
        "\n",
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Edit","input":{"file_path":"/p/src/parser.rs","old_string":"a\nb\nc","new_string":"a\nB\nc"}}]}}"#,
        "\n",
        r#"{"type":"user","message":{"content":[{"tool_use_id":"t","content":"updated\u001b[2J\nsecond line"}]}}"#,
        "\n{\"type\":\"torn\n",
    );

    fn place(session: u32) -> SessionRef {
        SessionRef {
            stage: None,
            session: SessionNumber::try_from(session).unwrap(),
            form: Form::Messages,
        }
    }

    fn view(open: Open, form: Form) -> Full {
        let mut full = Full::new(open);
        let shown = SessionRef { form, ..place(2) };
        full.places = vec![place(1), shown.clone()];
        full.stream = Stream::of(shown, &RunId::from_bits(0x7f3a), &full.open);
        let own = "/p/".to_owned();
        full.stream
            .read_on(&full.open, &WorkDirs { own, trees: None });
        full
    }

    fn opening(stream: &'static str) -> Open {
        Arc::new(move |_, from| {
            let rest = &stream.as_bytes()[usize::try_from(from).unwrap()..];
            Some((Box::new(rest), stream.len() as u64))
        })
    }

    fn of(stream: &'static str) -> Full {
        view(opening(stream), Form::Messages)
    }

    fn shown(full: &mut Full, columns: usize) -> String {
        let keys = vec![Line::new(Tone::Quiet, "  p pause  s stop")];
        let rows = full.rows(columns, 16, Line::default(), keys);
        assert_eq!(rows.len(), 16);
        let rows = rows.iter().map(|row| row.cut(columns - 1, false));
        rows.map(|row| row.trim_end().to_owned() + "\n").collect()
    }

    // shows: UIX-01
    #[test]
    fn a_stream_is_shown_as_a_person_reads_it() {
        let screens = [60, 80, 200].map(|columns| shown(&mut of(STREAM), columns));
        expect_test::expect![[r#"
              session 1 ▏ the beginning
            > session 2 ▏  thinks    Which file? The parser.
                        ▏  says      First the parser.
                        ▏  Edit      src/parser.rs
                        ▏     @@ -1,3 +1,3 @@
                        ▏      a
                        ▏     -b
                        ▏     +B
                        ▏      c
                        ▏  updated second line
                        ▏  (a line of 13 bytes that cannot be read is …
                        ▏
                        ▏

              ← → session  ↑ ↓ move  space unfold  / search  f back
              p pause  s stop
              session 1 ▏ the beginning
            > session 2 ▏  thinks    Which file? The parser.
                        ▏  says      First the parser.
                        ▏  Edit      src/parser.rs
                        ▏     @@ -1,3 +1,3 @@
                        ▏      a
                        ▏     -b
                        ▏     +B
                        ▏      c
                        ▏  updated second line
                        ▏  (a line of 13 bytes that cannot be read is left out)
                        ▏
                        ▏

              ← → session  ↑ ↓ move  space unfold  / search  f back
              p pause  s stop
              session 1 ▏ the beginning
            > session 2 ▏  thinks    Which file? The parser.
                        ▏  says      First the parser.
                        ▏  Edit      src/parser.rs
                        ▏     @@ -1,3 +1,3 @@
                        ▏      a
                        ▏     -b
                        ▏     +B
                        ▏      c
                        ▏  updated second line
                        ▏  (a line of 13 bytes that cannot be read is left out)
                        ▏
                        ▏

              ← → session  ↑ ↓ move  space unfold  / search  f back
              p pause  s stop
        "#]]
        .assert_eq(&screens.concat());
    }

    // shows: UIX-01
    #[test]
    fn a_result_is_unfolded_and_words_are_found() {
        let mut full = of(STREAM);
        assert!(!shown(&mut full, 80).contains("    second line"));
        for key in "/SECOND".chars().map(Key::Char) {
            assert_eq!(full.press(key), Pressed::Taken);
        }
        full.press(Key::Enter);
        assert!(shown(&mut full, 80).contains("    second line"));
        full.press(Key::Char(' '));
        assert!(!shown(&mut full, 80).contains("    second line"));
        for key in "/nowhere".chars().map(Key::Char).chain([Key::Enter]) {
            assert_eq!(full.press(key), Pressed::Taken);
        }
        assert!(shown(&mut full, 80).contains("  `nowhere`  is not here  esc ends"));
        full.press(Key::Escape);
        assert_eq!(full.press(Key::Escape), Pressed::Other);
        full.press(Key::Move(Move::Left));
        assert_eq!(full.chosen, Some(place(1)));
        assert_eq!(full.press(Key::Char('p')), Pressed::Other);
        assert_eq!(full.press(Key::Char('f')), Pressed::Back);
    }

    /// Only the end of a stream of a gigabyte is read, and only as much as is kept.
    // shows: UIX-01
    #[test]
    fn a_stream_of_a_gigabyte_is_read_from_near_its_end() {
        const BYTES: u64 = 1 << 30;
        let line = br#"{"type":"assistant","message":{"content":[{"text":"x"}]}}"#;
        let read = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::clone(&read);
        let read_on = Arc::new(
            move |_: &SessionRef, from| -> Option<(Box<dyn Read + Send>, u64)> {
                asked.lock().unwrap().push(from);
                let lines = [line.as_slice(), b"\n"].concat().repeat(1000);
                let lines = io::Cursor::new(lines.repeat(100)).take(BYTES - from);
                Some((Box::new(lines), BYTES))
            },
        );
        let mut full = view(read_on, Form::Messages);
        let read = read.lock().unwrap();
        assert!(
            read[1..].iter().all(|from| BYTES - from <= TAIL_BYTES),
            "{read:?}"
        );
        assert_eq!(full.stream.entries.len(), ENTRIES_MAX);
        assert!(full.stream.read_bytes - full.stream.left_out <= LOOK_BYTES_MAX);
        full.cursor = Some(0);
        let shown = shown(&mut full, 80);
        let left_out = "1020 MB before these left out: ekiden show 2 00007f3a --events";
        assert!(
            shown.contains(left_out) && shown.contains("--json)"),
            "{shown}"
        );
    }

    // shows: UIX-01
    #[test]
    fn the_command_for_all_of_a_stream_names_its_run_and_stage() {
        let of_stage = SessionRef {
            stage: Some("A".to_owned().try_into().unwrap()),
            ..place(3)
        };
        let stream = Stream::of(of_stage, &RunId::from_bits(0x7f3a), &opening(""));
        assert_eq!(
            stream.command,
            "ekiden show 3 00007f3a --stage A --events --json"
        );
    }

    /// Unfolded texts of so many lines.
    fn unfolded(lines: &[usize]) -> Full {
        let text = |(entry, lines): (usize, &usize)| {
            let lines = (0..*lines).map(|line| format!("line {line} of {entry}"));
            let text = lines.collect::<Vec<_>>().join("\\n");
            format!(
                r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
            ) + "\n"
        };
        let stream: String = lines.iter().enumerate().map(text).collect();
        let mut full = of(stream.leak());
        let entries = full.stream.entries.iter_mut();
        entries.for_each(|entry| entry.is_open = true);
        full
    }

    // shows: UIX-01
    #[test]
    fn a_long_entry_pushes_none_out_of_sight_and_is_read_to_its_end() {
        let mut full = unfolded(&[40, 1, 1]);
        full.cursor = Some(1);
        let seen = shown(&mut full, 80);
        assert!(seen.contains("▏ >says      line 0 of 1"), "{seen}");
        assert!(seen.contains("line 39 of 0"), "{seen}");
        full.press(Key::Move(Move::Up));
        let seen = shown(&mut full, 80);
        assert!(seen.contains("▏ >says      line 0 of 0"), "{seen}");
        assert!(seen.contains("(29 more rows)"), "{seen}");
        full.press(Key::Move(Move::Down));
        let seen = shown(&mut full, 80);
        assert!(seen.contains("(28 more rows)"), "{seen}");
        for _ in 0..3 {
            full.press(Key::Move(Move::PageDown));
        }
        let seen = shown(&mut full, 80);
        assert!(seen.contains("line 39 of 0"), "{seen}");
        full.press(Key::Move(Move::Down));
        assert_eq!((full.cursor, full.skipped), (Some(1), 0));
        full.press(Key::Move(Move::Down));
        assert_eq!(full.cursor, None, "follows the end");

        // The last one, which stays while it is read.
        let mut full = unfolded(&[1, 40]);
        let seen = shown(&mut full, 80);
        assert!(seen.contains("(29 more rows)"), "{seen}");
        for _ in 0..9 {
            full.press(Key::Move(Move::PageDown));
        }
        let seen = shown(&mut full, 80);
        assert!(seen.contains("line 39 of 1"), "{seen}");
        for _ in 0..9 {
            full.press(Key::Move(Move::PageUp));
        }
        assert_eq!((full.cursor, full.skipped), (Some(0), 0));
    }

    // shows: UIX-01
    #[test]
    fn what_was_found_is_on_the_screen() {
        let mut full = unfolded(&[30, 40, 2]);
        shown(&mut full, 80);
        for key in "/line 33 of 1".chars().map(Key::Char) {
            full.press(key);
        }
        full.press(Key::Enter);
        let seen = shown(&mut full, 80);
        assert!(seen.contains("     line 33 of 1"), "{seen}");
    }

    /// All rows as they are printed; the last entry unfolded, if it is not.
    fn printed(mut full: Full, unfolds: bool) -> String {
        if unfolds {
            full.press(Key::Char(' '));
        }
        let rows = full.rows(80, 16, Line::default(), Vec::new());
        rows.iter().map(|row| row.masked().plain() + "\n").collect()
    }

    /// As on a narrow terminal, where the token has no room on one line.
    // shows: UIX-01, MEM-12
    #[test]
    fn a_secret_is_masked_before_its_text_is_broken() {
        let (first, second) = (
            "11ABCDEFG0x7Kq2mR9wT4z",
            "Qv8sN3pL6yC1dF5gH0jS9aE2uX7wB4mK8rT6nV3cZ1fD5hG0kJ2lP9oQ4sW",
        );
        let secret = format!("{}{first}_{second}", ["github", "_pat_"].concat());
        let said = format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"It is\n{secret}"}}]}}}}"#
        );
        let edited = format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","name":"Write","input":{{"file_path":"k","content":"It is\n{secret}"}}}}]}}}}"#
        );
        for (stream, unfolds) in [(said, true), (edited, false)] {
            let shown = printed(of((stream + "\n").leak()), unfolds);
            assert!(shown.matches("It is\n").count() > 0, "{shown}");
            assert!(!shown.contains(&first[..8]), "{shown}");
            assert!(!shown.contains(&second[second.len() - 8..]), "{shown}");
        }
    }

    // shows: UIX-01, AGT-06, AGT-15
    #[test]
    fn streams_of_all_agents_are_shown() {
        let prints = printed(view(opening("one\ntwo\n"), Form::Text), false);
        assert!(prints.contains("says      one"), "{prints}");
        // The end of a stream may begin with lines of another agent or another conversation.
        let call = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","kind":"execute","status":"pending","rawInput":{"command":"ls"}}}}"#;
        let thought = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","content":{"text":"hm"}}}}"#;
        let filler = format!("{thought}\n").repeat(50_000);
        let stream = format!("{STREAM}{filler}{call}\n");
        assert!(stream.len() as u64 > TAIL_BYTES);
        let acp = printed(of(stream.leak()), false);
        assert!(acp.contains("Bash      ls"), "{acp}");
    }
}
