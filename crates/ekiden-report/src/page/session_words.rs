//! Session by session, in the agent's own words: the newest in full, with their handoffs and what changed in them.

use diffy::{DiffOptions, Hunk, Line as Changed};
use ekiden_core::event::Commit;
use ekiden_core::prompt::Author;
use ekiden_core::text::short;

use super::{Block, Change, Text, View, masked};
use crate::phrase;
use crate::timeline::{Session, Stage, Words};

/// Sessions that the section shows.
const SESSIONS_MAX: usize = 40;
/// How much of their words is shown, in bytes of HTML: a phone can open the page.
const WORDS_BYTES_MAX: usize = 60_000;
/// The same of whole handoffs and their differences.
const HANDOFFS_BYTES_MAX: usize = 80_000;
/// Lines of a handoff that are compared: the time grows with their square.
const LINES_MAX: usize = 400;
const LINE_CHARS_MAX: usize = 400;
/// Lines around a change.
const CONTEXT_LINES: usize = 1;

impl View<'_> {
    pub(super) fn session_words(&self) -> Vec<Block> {
        let all: Vec<(&Stage, &Session)> = self.timeline.sessions().collect();
        let (mut told, mut bytes, mut handoffs) = (Vec::new(), 0, 0);
        for (stage, session) in all.iter().rev().take(SESSIONS_MAX) {
            let mut blocks = self.session_blocks(stage, session);
            bytes += blocks.iter().map(Block::bytes).sum::<usize>();
            if bytes > WORDS_BYTES_MAX && !told.is_empty() {
                break;
            }
            let folded = handoff(stage, session);
            handoffs += folded.iter().map(Block::bytes).sum::<usize>();
            if handoffs <= HANDOFFS_BYTES_MAX {
                blocks.extend(folded);
            }
            told.push(blocks);
        }
        let mut notes = Vec::new();
        let left_out = all.len() - told.len();
        if left_out > 0 {
            let sessions = phrase::count(left_out as u64, "older session");
            notes.push(format!("Left out: {sessions}; `ekiden show N` has each."));
        }
        if handoffs > HANDOFFS_BYTES_MAX {
            notes.push("Only the newest sessions are shown with their whole handoffs.".to_owned());
        }
        let told = told.into_iter().rev().flatten();
        notes.into_iter().map(Block::line).chain(told).collect()
    }

    fn session_blocks(&self, stage: &Stage, session: &Session) -> Vec<Block> {
        let heading = Text::own(self.session(stage, session.number));
        let mut blocks = vec![Block::Heading { text: heading }];
        match &session.words {
            None if session.end().is_none() => {
                blocks.push(Block::line("It has not ended, as far as the log knows."));
            }
            None => blocks.push(Block::line("It left no words.")),
            Some(words) => {
                blocks.extend(by(words).map(Block::line));
                let parts = [
                    ("Done", &words.done),
                    ("Stopped at", &words.stopped_at),
                    ("Issues", &words.issues),
                    ("Found by the review", &words.found),
                ];
                let parts = parts.into_iter();
                blocks.extend(
                    parts.filter_map(|(head, said)| Block::quote(Text::own(head), said.as_ref()?)),
                );
            }
        }
        blocks.extend(session.commit.as_ref().and_then(committed));
        blocks
    }
}

fn committed(commit: &Commit) -> Option<Block> {
    let Commit::Made { id, files, .. } = commit else {
        return None;
    };
    let files = phrase::count((*files).into(), "file");
    let text = Text::own("Committed as ")
        .and_said(&phrase::commit(id))
        .and(format!(", {files}"));
    Some(Block::Line { text })
}

/// The whole handoff, and how it differs from the one before in its stage; both folded.
fn handoff(stage: &Stage, session: &Session) -> Vec<Block> {
    let Some(words) = session
        .words
        .as_ref()
        .filter(|words| !words.whole.is_empty())
    else {
        return Vec::new();
    };
    let text = masked(&words.whole);
    let before = stage.sessions.iter().rev();
    let mut before = before.skip_while(|one| one.number >= session.number);
    let before = before.find_map(|one| Some((one.number, masked(&one.words.as_ref()?.whole))));
    let changes = before.and_then(|(number, before)| {
        let head = format!("What changed since the handoff of session {number}");
        let changes = changes(&before, &text);
        (!changes.is_empty()).then_some(Block::Changes { head, changes })
    });
    let whole = Block::Folded {
        head: "The whole handoff".to_owned(),
        text,
    };
    [whole].into_iter().chain(changes).collect()
}

fn changes(before: &str, after: &str) -> Vec<(Change, String)> {
    let lines = |text: &str| -> String {
        let lines = text.lines().take(LINES_MAX);
        lines
            .map(|line| short(line, LINE_CHARS_MAX) + "\n")
            .collect()
    };
    let (before, after) = (lines(before), lines(after));
    let mut options = DiffOptions::new();
    options.set_context_len(CONTEXT_LINES);
    let patch = options.create_patch(&before, &after);
    let lines = patch.hunks().iter().flat_map(Hunk::lines);
    let changes = lines.map(|line| match line {
        Changed::Context(text) => (Change::Same, *text),
        Changed::Delete(text) => (Change::Removed, *text),
        Changed::Insert(text) => (Change::Added, *text),
    });
    changes
        .map(|(change, text)| (change, text.trim_end_matches('\n').to_owned()))
        .collect()
}

fn by(words: &Words) -> Option<&'static str> {
    match words.by {
        Author::Agent | Author::FollowUp => None,
        Author::Rescue => {
            Some("It left no handoff that can be used; ekiden wrote one from what it saw.")
        }
        Author::Both => Some(
            "Its handoff was not valid; ekiden added to it. What can be read of its own words:",
        ),
    }
}
