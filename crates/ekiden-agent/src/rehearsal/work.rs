//! The agent's mind: what it does next, and what it makes of what it reads. Pure.
//!
//! ```text
//! prompt ─► Working ─► HandingOver ─► Over
//!             │ ▲  order, or nothing left   │
//!             │ └────────── go on ──────────┤
//!             └───────────► HandingOver ◄───┘ order, ask again
//! ```
//!
//! It goes through the items in their order, those that failed in an earlier session last. Items
//! that fail are left to the next session. Commands come from the task alone.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use super::checklist::{self, Item, Script};
use super::command::Ran;
use super::handoff::{self, Account};
use super::prompt::Prompt;
use super::protocol::Protocol;
use super::scenario::Revision;

const ORDER: &str = "please hand over now";
const ASK_AGAIN: &str = "ekiden: the handoff in";
const HANDING_OVER: &str = "handing over";

/// An item of the task and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) item: Item,
    pub(super) state: State,
    /// It failed in an earlier session.
    pub(super) failed_before: bool,
    /// The command that comes next, or that failed.
    pub(super) at: usize,
    took: Vec<Duration>,
}

/// What became of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing yet, or not all of it.
    Open,
    /// An earlier session or the user ticked it.
    DoneBefore,
    /// Its commands exited with 0 in this session, after these times.
    Done(Vec<Duration>),
    /// A command of it failed in this session.
    Failed(Failure),
}

/// How a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Its exit code; none if it was not run.
    pub(super) code: Option<i32>,
    /// The last line that it wrote, or why it was not run.
    pub(super) last_line: String,
}

/// What the agent does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Move {
    /// It says something and calls a tool.
    Call { words: String, tool: Tool },
    /// It says something and ends its turn.
    End { words: String },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tool {
    /// Runs commands.
    Run(Script),
    /// Looks at the work dir.
    Look,
    /// Writes a file.
    Write { path: PathBuf, content: String },
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The commands ended.
    Ran(Ran),
    /// The tool did what it should.
    Fine,
    /// The tool could not do it.
    Failed(String),
    /// The host refused the call.
    Denied(String),
}

/// The agent's mind.
pub(super) struct Work {
    protocol: Protocol,
    dir: PathBuf,
    prompt: Prompt,
    entries: Vec<Entry>,
    redone: bool,
    vetoed_again: bool,
    phase: Phase,
    /// How a scenario wants the handoff to differ.
    pub(super) revision: Revision,
}

enum Phase {
    /// No prompt was read.
    Idle,
    /// At the items; the one in hand.
    Working(Option<usize>),
    /// At the handoff; the files still to write.
    HandingOver(VecDeque<(String, String)>),
    /// The handoff is written.
    Over,
}

impl Entry {
    pub(super) fn new(item: Item, state: State, failed_before: bool) -> Self {
        Self { item, state, failed_before, at: 0, took: Vec::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_) | State::DoneBefore)
    }

    /// It is open and was not tried to its end in this session.
    pub(super) fn untried(&self) -> bool {
        self.state == State::Open
    }

    /// It was tried to its end in this session.
    pub(super) fn tried(&self) -> bool {
        matches!(self.state, State::Done(_) | State::Failed(_))
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        match &self.state {
            State::Failed(failure) => Some(failure),
            State::Open | State::DoneBefore | State::Done(_) => None,
        }
    }

    /// The command in hand ended well; the item is done after its last one.
    fn passed(&mut self, took: Option<Duration>) {
        self.took.extend(took);
        self.at += usize::from(took.is_some());
        if self.at == self.item.scripts.len() {
            self.state = State::Done(std::mem::take(&mut self.took));
        }
    }

    fn failed(&mut self, code: Option<i32>, output: &str) {
        let last_line = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(no output)");
        self.state = State::Failed(Failure { code, last_line: last_line.trim().to_owned() });
    }
}

impl Work {
    /// A mind that has read its standing text and nothing else.
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

    /// Reads a message, or the reason why its turn may not end.
    pub(super) fn read(&mut self, blocks: &[String]) {
        let text = blocks.join("\n");
        if let Some(prompt) = Prompt::read(blocks, self.protocol.status_file()) {
            self.begin(prompt);
        } else if matches!(self.phase, Phase::Idle) {
            // Without a task there is nothing to order.
        } else if text.contains(ORDER) || text.starts_with(ASK_AGAIN) || !self.can_work() {
            self.hand_over();
        } else {
            self.phase = Phase::Working(None);
        }
    }

    /// What comes next.
    pub(super) fn next(&mut self) -> Move {
        if let Phase::Working(in_hand) = self.phase {
            match in_hand.filter(|place| self.entries[*place].untried()).or_else(|| self.next_item()) {
                Some(place) => {
                    self.phase = Phase::Working(Some(place));
                    return self.work_on(place);
                }
                None => self.hand_over(),
            }
        }
        match &mut self.phase {
            Phase::HandingOver(files) => match files.pop_front() {
                Some((name, content)) => {
                    let path = self.dir.join(&self.protocol.handoff_dir).join(&name);
                    Move::Call { words: format!("Handing over: {name}"), tool: Tool::Write { path, content } }
                }
                None => {
                    self.phase = Phase::Over;
                    Move::End { words: "The handoff is written.".to_owned() }
                }
            },
            Phase::Idle => Move::End { words: "There is no task in this conversation.".to_owned() },
            Phase::Working(_) | Phase::Over => Move::End { words: "Nothing else is to do here.".to_owned() },
        }
    }

    /// Takes note of what the last call came to.
    pub(super) fn saw(&mut self, outcome: &Outcome) {
        let Phase::Working(Some(place)) = self.phase else { return };
        let entry = &mut self.entries[place];
        match outcome {
            Outcome::Ran(ran) if ran.code == 0 => entry.passed(Some(ran.took)),
            Outcome::Ran(ran) => entry.failed(Some(ran.code), &ran.output),
            Outcome::Fine => entry.passed(None),
            Outcome::Denied(reason) if reason.contains(HANDING_OVER) => self.hand_over(),
            Outcome::Denied(reason) | Outcome::Failed(reason) => entry.failed(None, reason),
        }
    }

    fn begin(&mut self, prompt: Prompt) {
        let items = checklist::items(&prompt.task);
        let again = prompt.veto && !prompt.notes.redone;
        self.redone = prompt.notes.redone || prompt.veto;
        self.vetoed_again = prompt.veto && prompt.notes.redone;
        let ticks = prompt.notes.ticks(&items);
        let entry = |(item, ticked): (Item, bool)| {
            let failed_before = prompt.notes.failed(&item);
            let done = ticked && (!again || item.ticked);
            Entry::new(item, if done { State::DoneBefore } else { State::Open }, failed_before)
        };
        let merges = prompt.conflicts.iter().map(|file| Entry::new(merge_of(file), State::Open, false));
        self.entries = merges.chain(items.into_iter().zip(ticks).map(entry)).collect();
        self.prompt = prompt;
        self.phase = Phase::Working(None);
    }

    fn hand_over(&mut self) {
        let account = Account {
            entries: &self.entries,
            known: &self.prompt.known,
            check: self.prompt.check,
            redone: self.redone,
            vetoed_again: self.vetoed_again,
        };
        let files = self.revision.of(handoff::files(&self.protocol, &account));
        self.phase = Phase::HandingOver(files.into());
    }

    fn can_work(&self) -> bool {
        self.next_item().is_some()
    }

    /// One that is half done comes first, one that failed before comes last.
    fn next_item(&self) -> Option<usize> {
        let find = |wanted: fn(&Entry) -> bool| {
            self.entries.iter().position(|entry| entry.untried() && !self.vetoed_again && wanted(entry))
        };
        find(|entry| entry.at > 0).or_else(|| find(|entry| !entry.failed_before)).or_else(|| find(|_| true))
    }

    fn work_on(&self, place: usize) -> Move {
        let entry = &self.entries[place];
        let name = &entry.item.name;
        match entry.item.scripts.get(entry.at) {
            Some(script) => Move::Call { words: format!("Item: {name}"), tool: Tool::Run(script.clone()) },
            None => Move::Call { words: format!("Item: {name} (nothing to run)"), tool: Tool::Look },
        }
    }
}

/// An agent without a model keeps both sides of every conflict.
fn merge_of(file: &str) -> Item {
    let quoted = format!("'{}'", file.replace('\'', r"'\''"));
    let text = format!(
        "sed -i -e '/^|\\{{7,\\}} /,/^=\\{{7,\\}}$/d' -e '/^<\\{{7,\\}} /d' -e '/^=\\{{7,\\}}$/d' -e '/^>\\{{7,\\}} /d' -- {quoted}"
    );
    Item {
        name: format!("both sides of {file}"),
        ticked: false,
        scripts: vec![Script { shell: "sh", text }],
        check: None,
    }
}
