//! A session whose hooks do not report: the user has switched all hooks off, and they stay off.
//!
//! Then only its transcript is left. It is read once a second, as long as no hook has asked. It shows usage and
//! the end of a turn, but gives no way to say anything to the agent.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ekiden_wire::trace::Trace;
use ekiden_wire::transcript::LastResponse;

use super::conversation::Conversation;
use super::launch::config_dir;

/// How much of the end of a transcript is searched for a limit: it is short, and only a few lines of state follow it.
const LAST_WORDS_BYTES: u64 = 64 * 1024;

/// Watches such a session.
#[derive(Debug, Default)]
pub(super) struct Unhooked {
    pub(super) transcript: Option<PathBuf>,
    account: Option<String>,
    /// Its length when this attempt began. Limits reported before that are over.
    earlier_bytes: u64,
    /// The last response of an earlier attempt, which says nothing about this one's hooks or turns.
    earlier: Option<String>,
    warned: bool,
    /// The response that ended the last reported turn.
    reported: String,
}

impl Unhooked {
    /// Watches a conversation whose client is about to start.
    pub(super) fn new(conversation: &str, account: Option<&str>) -> Self {
        let transcript = find_transcript(conversation, account);
        let metadata = transcript.as_ref().and_then(|path| path.metadata().ok());
        let earlier = transcript.as_deref().and_then(last_response);
        Self {
            earlier: earlier.map(|response| response.message_id),
            transcript,
            account: account.map(str::to_owned),
            earlier_bytes: metadata.map_or(0, |metadata| metadata.len()),
            ..Self::default()
        }
    }

    pub(super) fn look(&mut self, conversation: &mut Conversation) {
        if self.transcript.is_none() {
            self.transcript = find_transcript(conversation.id(), self.account.as_deref());
        }
        let Some(transcript) = self.transcript.as_deref() else {
            return;
        };
        conversation.limit_seen(self.has_limit(transcript));
        let response = last_response(transcript);
        let is_new = |response: &LastResponse| self.earlier.as_ref() != Some(&response.message_id);
        let Some(response) = response.filter(is_new) else {
            return;
        };
        if !std::mem::replace(&mut self.warned, true) {
            conversation.warn(
                "the agent's hooks do not report (are they switched off?); this session is watched through \
                 its transcript alone and cannot be ordered to hand off",
            );
        }
        let is_over = response.ends_turn && response.message_id != self.reported;
        if is_over {
            self.reported.clone_from(&response.message_id);
        }
        conversation.used(response);
        conversation.give_up_saying();
        if is_over {
            conversation.turn_seen_over();
        }
    }

    /// Whether a limit is the last thing in the transcript of this attempt.
    pub(super) fn has_limit(&self, transcript: &Path) -> bool {
        let read = || -> io::Result<Trace> {
            let mut transcript = File::open(transcript)?;
            let length = transcript.seek(SeekFrom::End(0))?;
            let from = length
                .saturating_sub(LAST_WORDS_BYTES)
                .max(self.earlier_bytes);
            transcript.seek(SeekFrom::Start(from))?;
            Trace::from_transcript(transcript.take(LAST_WORDS_BYTES))
        };
        read().is_ok_and(|trace| trace.limit.is_some())
    }
}

/// The last response in a transcript. If it cannot be read now, it can be read later.
pub(super) fn last_response(transcript: &Path) -> Option<LastResponse> {
    LastResponse::find(&mut File::open(transcript).ok()?)
        .ok()
        .flatten()
}

/// A conversation's transcript is in its project's directory. How that directory is named is up to the client.
fn find_transcript(conversation: &str, account: Option<&str>) -> Option<PathBuf> {
    let name = format!("{conversation}.jsonl");
    let projects = fs::read_dir(config_dir(account)?.join("projects")).ok()?;
    projects
        .flatten()
        .map(|project| project.path().join(&name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise every resumed session would seem to have no hooks and a finished turn before the client has started.
    // shows: AGT-03, RUN-11
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test writes what the client would"
    )]
    fn a_response_of_an_earlier_attempt_says_nothing_about_this_one() {
        const ID: &str = "6f0e5a52-1111-5111-8111-111111111111";
        let account = tempfile::tempdir().expect("a directory");
        let project = account.path().join("projects/p");
        fs::create_dir_all(&project).expect("a directory");
        let transcript = project.join(format!("{ID}.jsonl"));
        let response = |id: &str| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"{id}","model":"m","stop_reason":"end_turn","usage":{{"input_tokens":10}}}}}}"#
            )
        };
        let (first, second) = (response("m1"), response("m2"));
        fs::write(&transcript, format!("{first}\n")).expect("written");
        let id = serde_json::from_value(ID.into()).expect("an id");
        let mut conversation = Conversation::new(id, 1, "/s/prompt.md".into());
        let mut unhooked = Unhooked::new(ID, account.path().to_str());
        let mut reports = |unhooked: &mut Unhooked| {
            unhooked.look(&mut conversation);
            std::iter::from_fn(|| conversation.next_report()).count()
        };
        assert_eq!(reports(&mut unhooked), 0);
        fs::write(&transcript, format!("{first}\n{second}\n")).expect("written");
        assert_eq!(
            reports(&mut unhooked),
            3,
            "a warning, the use, the turn's end"
        );
    }

    const LIMIT: &str = r#"{"type":"assistant","message":{"id":"m2","model":"<synthetic>","content":[]},"apiErrorParams":{"rate_limit_info":{"status":"rejected","resetsAt":2000000000,"rateLimitType":"five_hour"}},"error":"rate_limit","isApiErrorMessage":true}"#;

    // shows: REL-11
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test writes what the client would"
    )]
    fn a_limit_of_an_earlier_attempt_is_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let transcript = dir.path().join("transcript.jsonl");
        let earlier = format!("{LIMIT}\n");
        fs::write(&transcript, &earlier).expect("written");
        let fresh = Unhooked::default();
        assert!(fresh.has_limit(&transcript));
        let resumed = Unhooked {
            earlier_bytes: earlier.len() as u64,
            ..Unhooked::default()
        };
        assert!(!resumed.has_limit(&transcript));
        fs::write(&transcript, earlier.repeat(2)).expect("written");
        assert!(resumed.has_limit(&transcript));
        assert!(!fresh.has_limit(&dir.path().join("missing")));
    }
}
