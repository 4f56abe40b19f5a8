//! A session whose hooks do not report: the user has switched all hooks off, and they stay off.
//!
//! Then its transcript is all there is. It is looked at once a second, as long as no hook has asked.
//! What the session uses is seen, and the end of a turn; nothing can be said to the agent.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ekiden_wire::trace::Trace;
use ekiden_wire::transcript::LastResponse;

use super::launch::config_dir;
use super::talk::Talk;

/// Where the client's word of a limit is looked for: it is short, and the last thing in a transcript but for
/// a few lines of state.
const LAST_WORDS_BYTES: u64 = 64 * 1024;

/// The watch over such a session.
#[derive(Debug, Default)]
pub(super) struct Unhooked {
    transcript: Option<PathBuf>,
    warned: bool,
    /// The response that ended the last turn that was told.
    told: String,
}

impl Unhooked {
    /// Looks again.
    pub(super) fn look(&mut self, talk: &mut Talk) {
        if self.transcript.is_none() {
            self.transcript = find_transcript(talk.conversation());
        }
        let Some(transcript) = self.transcript.as_deref() else { return };
        if talk.failure().seen(tells_limit(transcript)) {
            talk.turn_failed();
        }
        let Some(response) = last_response(transcript) else { return };
        if !std::mem::replace(&mut self.warned, true) {
            talk.warn(
                "the agent's hooks do not report (are they switched off?); this session is watched through \
                 its transcript alone and cannot be told to hand off",
            );
        }
        let over = response.ends_turn && response.message_id != self.told;
        if over {
            self.told.clone_from(&response.message_id);
        }
        talk.used(response);
        talk.give_up_saying();
        if over {
            talk.turn_seen_over();
        }
    }

    /// The transcript that was found.
    pub(super) fn transcript(&self) -> Option<&Path> {
        self.transcript.as_deref()
    }
}

/// The last response in a transcript. One that cannot be read now can be read later.
pub(super) fn last_response(transcript: &Path) -> Option<LastResponse> {
    LastResponse::find(&mut File::open(transcript).ok()?).ok().flatten()
}

/// A limit is the last that a transcript tells of.
pub(super) fn tells_limit(transcript: &Path) -> bool {
    let read = || -> io::Result<Trace> {
        let mut transcript = File::open(transcript)?;
        let length = transcript.seek(SeekFrom::End(0))?;
        transcript.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
        Trace::from_transcript(transcript.take(LAST_WORDS_BYTES))
    };
    read().is_ok_and(|trace| trace.limit.is_some())
}

/// A conversation's transcript lies in the directory of its project, whose name is the client's own
/// matter.
fn find_transcript(conversation: &str) -> Option<PathBuf> {
    let name = format!("{conversation}.jsonl");
    let projects = fs::read_dir(config_dir()?.join("projects")).ok()?;
    projects.flatten().map(|project| project.path().join(&name)).find(|path| path.is_file())
}
