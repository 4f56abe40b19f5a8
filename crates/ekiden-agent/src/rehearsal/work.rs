//! The mind of a relay session: what it does next, and what it makes of what it reads. Pure.
//!
//! ```text
//! prompt ─► Working ─► HandingOff ─► Over
//!             │ ▲  order, or nothing left  │
//!             │ └────────── go on ─────────┤
//!             └───────────► HandingOff ◄───┘ order, ask again
//! ```
//!
//! It works through the items in order, and takes those that failed in an earlier session last. Items that fail
//! are left to the next session. Commands come from the task alone.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::checklist::{self, Item, Script};
use super::prompt::Prompt;
use super::scenario::Revision;
use super::tool::{Outcome, Tool};
use super::turn::{Mind, Move};

/// What a refusal says while a session hands off.
const REFUSED_BY_HANDOFF: &str = "so only Read, Write and Edit in";

/// An item of the task and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) item: Item,
    pub(super) state: State,
    /// It failed in an earlier session.
    pub(super) failed_before: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It was not tried in this session.
    Open,
    /// An earlier session or the user ticked it.
    DoneBefore,
    /// Its command exited with 0 in this session, after this time. None: it has no command.
    Done(Option<Duration>),
    /// Its command failed in this session.
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Its exit code; none if it did not run.
    pub(super) code: Option<i32>,
    /// The last line of its output, or why it did not run.
    pub(super) last_line: String,
}

/// What a relay's fixed instructions say about the handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Protocol {
    /// Where the files go, as seen from the work dir.
    pub(super) dir: String,
    /// The STATUS of a finished task.
    pub(super) done: String,
}

pub(super) struct Work {
    pub(super) protocol: Protocol,
    dir: PathBuf,
    pub(super) prompt: Prompt,
    pub(super) entries: Vec<Entry>,
    /// Everything was redone once after a failed check.
    pub(super) redone: bool,
    /// The check still failed after that.
    pub(super) vetoed_again: bool,
    phase: Phase,
    /// How a scenario changes the files.
    pub(super) revision: Revision,
}

enum Phase {
    Idle,
    /// Working on the items; holds the current one.
    Working(Option<usize>),
    /// Handing off; holds the files still to write.
    HandingOff(VecDeque<(String, String)>),
    Over,
}

impl Protocol {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let between = |start, end| Some(text.split_once(start)?.1.split_once(end)?.0);
        let dir = between("write these files in ", " yourself");
        let statuses = between("STATUS:", " (all done");
        let done = statuses.and_then(|statuses| statuses.split_whitespace().next_back());
        Ok(Self {
            dir: dir.ok_or(Error::Protocol("where the files go"))?.to_owned(),
            done: done
                .ok_or(Error::Protocol("the STATUS of a task that is done"))?
                .to_owned(),
        })
    }
}

impl Entry {
    pub(super) fn new(item: Item, state: State, failed_before: bool) -> Self {
        Self {
            item,
            state,
            failed_before,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_) | State::DoneBefore)
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    fn work_on(&self) -> Move {
        let name = &self.item.name;
        let nothing = || Script {
            shell: "sh",
            text: "ls".to_owned(),
        };
        let note = match self.item.script {
            Some(_) => "",
            None => " (nothing to run)",
        };
        Move::Call {
            words: format!("Item: {name}{note}"),
            tool: Tool::Run(self.item.script.clone().unwrap_or_else(nothing)),
        }
    }

    fn saw(&mut self, outcome: &Outcome) {
        let (code, output) = match outcome {
            Outcome::Ran(ran) if ran.code == 0 => {
                self.state = State::Done(self.item.script.as_ref().map(|_| ran.took));
                return;
            }
            Outcome::Written => return,
            Outcome::Ran(ran) => (Some(ran.code), &ran.output),
            Outcome::Denied(reason) | Outcome::Failed(reason) => (None, reason),
        };
        let last_line = output.lines().rev().find(|line| !line.trim().is_empty());
        self.state = State::Failed(Failure {
            code,
            last_line: last_line.unwrap_or("(no output)").trim().to_owned(),
        });
    }
}

impl Mind for Work {
    fn read(&mut self, blocks: &[String]) {
        if let Some(prompt) = Prompt::read(blocks) {
            self.begin(prompt);
        } else if matches!(self.phase, Phase::Idle) {
            // Without a task there is nothing to hand off.
        } else if blocks.iter().any(|text| text.contains(&self.protocol.dir))
            || self.next_item().is_none()
        {
            // The message asks for the handoff, or to correct it: only these messages name the directory.
            self.hand_off();
        } else {
            self.phase = Phase::Working(None);
        }
    }

    fn next(&mut self) -> Move {
        if let Phase::Working(_) = self.phase {
            match self.next_item() {
                Some(place) if self.revision.question.is_none() => {
                    self.phase = Phase::Working(Some(place));
                    return self.entries[place].work_on();
                }
                Some(_) | None => self.hand_off(),
            }
        }
        let words = match &mut self.phase {
            Phase::HandingOff(files) => match files.pop_front() {
                Some((name, content)) => {
                    let path = self.dir.join(&self.protocol.dir).join(&name);
                    let words = format!("Handing off: {name}");
                    let tool = Tool::Write { path, content };
                    return Move::Call { words, tool };
                }
                None => {
                    self.phase = Phase::Over;
                    "The handoff is written."
                }
            },
            Phase::Idle => "There is no task in this conversation.",
            Phase::Working(_) | Phase::Over => "There is nothing else to do.",
        };
        Move::End {
            words: words.to_owned(),
        }
    }

    fn saw(&mut self, outcome: &Outcome) {
        let Phase::Working(Some(place)) = self.phase else {
            return;
        };
        match outcome {
            Outcome::Denied(reason) if reason.contains(REFUSED_BY_HANDOFF) => self.hand_off(),
            Outcome::Ran(_) | Outcome::Written | Outcome::Failed(_) | Outcome::Denied(_) => {
                self.entries[place].saw(outcome);
            }
        }
    }

    fn revision(&mut self) -> Option<&mut Revision> {
        Some(&mut self.revision)
    }
}

impl Work {
    /// A mind that has read only its fixed instructions.
    pub(super) fn new(protocol: Protocol, dir: PathBuf) -> Self {
        Self {
            protocol,
            dir,
            prompt: Prompt::default(),
            entries: Vec::new(),
            redone: false,
            vetoed_again: false,
            phase: Phase::Idle,
            revision: Revision::default(),
        }
    }

    fn begin(&mut self, prompt: Prompt) {
        let mut items = prompt.items();
        if let Some(item) = &prompt.item {
            items = vec![checklist::of_list(items, item, prompt.which)];
        }
        let again = prompt.item.is_some() || prompt.veto && !prompt.notes.redone;
        self.redone = prompt.notes.redone || prompt.veto;
        self.vetoed_again = prompt.veto && prompt.notes.redone;
        let ticks = prompt.notes.ticks(&items);
        let entry = |(item, ticked): (Item, bool)| {
            let failed_before = prompt.notes.failed(&item);
            let state = if ticked && (!again || item.ticked) {
                State::DoneBefore
            } else {
                State::Open
            };
            Entry::new(item, state, failed_before)
        };
        let merges = prompt.conflicts.iter().map(|file| merge_of(file));
        let merges = merges.map(|item| Entry::new(item, State::Open, false));
        let items = items.into_iter().zip(ticks).map(entry);
        self.entries = merges.chain(items).collect();
        self.prompt = prompt;
        self.phase = Phase::Working(None);
    }

    fn hand_off(&mut self) {
        let mut files = self.files();
        self.revision.apply(&mut files);
        self.phase = Phase::HandingOff(files.into());
    }

    /// Items that failed before come last.
    fn next_item(&self) -> Option<usize> {
        let open = |(_, entry): &(usize, &Entry)| entry.is_open() && !self.vetoed_again;
        let open = self.entries.iter().enumerate().filter(open);
        open.min_by_key(|(_, entry)| entry.failed_before)
            .map(|(place, _)| place)
    }
}

/// An agent without a model keeps both sides of every merge conflict.
fn merge_of(file: &str) -> Item {
    let quoted = format!("'{}'", file.replace('\'', r"'\''"));
    let text = format!(
        "sed -i -e '/^|\\{{7,\\}} /,/^=\\{{7,\\}}$/d' -e '/^<\\{{7,\\}} /d' -e '/^=\\{{7,\\}}$/d' -e '/^>\\{{7,\\}} /d' -- {quoted}"
    );
    Item {
        name: format!("both sides of {file}"),
        ticked: false,
        script: Some(Script { shell: "sh", text }),
        check: None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ekiden_core::handoff::Marker;
    use ekiden_core::prompt::{Ordering, ProtocolSlots, protocol};

    use super::*;

    /// The text that a run gives its sessions.
    pub(in crate::rehearsal) fn text() -> String {
        let marker = Marker::try_from("ALL_FILES_PROCESSED".to_owned()).unwrap();
        let slots = ProtocolSlots {
            handoff_dir: ".ekiden/handoff",
            marker: &marker,
            ordering: Ordering::Message,
        };
        protocol(&slots)
    }

    // shows: AGT-05
    #[test]
    fn the_text_says_what_a_handoff_needs() {
        let protocol = Protocol::parse(&text()).unwrap();
        assert_eq!(protocol.dir, ".ekiden/handoff");
        assert_eq!(protocol.done, "ALL_FILES_PROCESSED");
        for said in ["write these files in", "STATUS: ", "all done"] {
            assert!(
                Protocol::parse(&text().replace(said, "")).is_err(),
                "{said}"
            );
        }
    }
}
