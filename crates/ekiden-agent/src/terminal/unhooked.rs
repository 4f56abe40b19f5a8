//! A session whose hooks do not report: the user has switched all hooks off, and they stay off.
//!
//! Then only its transcript is left. It is read once a second, as long as no hook has asked. It shows usage and
//! the end of a turn, but gives no way to say anything to the agent.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
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
    /// How much of it the session's stream has from earlier attempts.
    kept_bytes: u64,
    /// The last response of an earlier attempt, which says nothing about this one's hooks or turns.
    earlier: Option<String>,
    warned: bool,
    /// The response that ended the last reported turn.
    reported: String,
}

impl Unhooked {
    /// Watches a conversation whose client is about to start. `events` is the file of its session's event stream.
    pub(super) fn new(conversation: &str, account: Option<&str>, events: &Path) -> Self {
        let transcript = find_transcript(conversation, account);
        let earlier = transcript.as_deref().and_then(last_response);
        let earlier_bytes = transcript.as_deref().map_or(0, len);
        Self {
            earlier: earlier.map(|response| response.message_id),
            transcript,
            account: account.map(str::to_owned),
            earlier_bytes,
            // An attempt whose engine was killed kept nothing.
            kept_bytes: Some(earlier_bytes)
                .filter(|earlier| *earlier <= len(events))
                .unwrap_or(0),
            ..Self::default()
        }
    }

    /// Keeps what this attempt added to a transcript, and reads it. The last actions are those of the whole
    /// conversation.
    pub(super) fn keep(&self, transcript: &Path, stream: &mut dyn Write) -> io::Result<Trace> {
        let transcript = File::open(transcript)?;
        let from = |start| {
            (&transcript)
                .seek(SeekFrom::Start(start))
                .map(|_| &transcript)
        };
        // If it cannot be kept, it can still be read.
        let _ = io::copy(&mut from(self.kept_bytes)?, stream);
        let whole = Trace::from_transcript(from(0)?)?;
        let mut own = Trace::from_transcript(from(self.earlier_bytes)?)?;
        own.last = whole.last;
        Ok(own)
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

fn len(file: &Path) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

/// The last response in a transcript. If it cannot be read now, it can be read later.
pub(super) fn last_response(transcript: &Path) -> Option<LastResponse> {
    LastResponse::find(&mut File::open(transcript).ok()?)
        .ok()
        .flatten()
}

fn find_transcript(conversation: &str, account: Option<&str>) -> Option<PathBuf> {
    transcript_in(&config_dir(account)?, conversation)
}

/// A conversation's transcript is in its project's directory. How that directory is named is up to the client.
pub fn transcript_in(config_dir: &Path, conversation: &str) -> Option<PathBuf> {
    let name = format!("{conversation}.jsonl");
    let projects = fs::read_dir(config_dir.join("projects")).ok()?;
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
        let events = Path::new("/no/events.jsonl");
        let mut unhooked = Unhooked::new(ID, account.path().to_str(), events);
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

    /// A conversation that is resumed continues its transcript.
    // shows: AGT-02, AGT-04, REL-27
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test writes what the client and its sessions would"
    )]
    fn each_attempt_keeps_and_tells_what_it_added_to_the_transcript() {
        const ID: &str = "6f0e5a52-1111-5111-8111-111111111111";
        let account = tempfile::tempdir().expect("a directory");
        let project = account.path().join("projects/p");
        fs::create_dir_all(&project).expect("a directory");
        let transcript = project.join(format!("{ID}.jsonl"));
        let events = account.path().join("events.jsonl");
        let attempt = |lines: &str| {
            let unhooked = Unhooked::new(ID, account.path().to_str(), &events);
            let before = fs::read_to_string(&transcript).unwrap_or_default();
            fs::write(&transcript, before + lines).expect("written");
            let mut stream = Vec::new();
            let trace = unhooked.keep(&transcript, &mut stream).expect("it is read");
            (trace, String::from_utf8(stream).expect("text"))
        };
        let append = |text: &str| {
            let before = fs::read_to_string(&events).unwrap_or_default();
            fs::write(&events, before + text).expect("written");
        };
        let edit = r#"{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"/w/a"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}
"#;
        let first = format!(
            r#"{edit}{{"type":"system","subtype":"compact_boundary","compactMetadata":{{"preTokens":167000}}}}
{LIMIT}
"#
        );
        let second = r#"{"type":"assistant","message":{"id":"m3","model":"m","content":[{"type":"text","text":"done"}]}}
"#;
        let (trace, kept) = attempt(&first);
        assert_eq!((trace.compacted, kept), (Some(167_000), first.clone()));
        assert!(trace.limit.is_some());

        // The engine of the first attempt was killed.
        let (trace, kept) = attempt(second);
        assert_eq!((trace.compacted, trace.limit.is_some()), (None, false));
        assert_eq!(trace.last.last_edit.as_deref(), Some("Write /w/a"));
        assert_eq!(trace.last.last_words.as_deref(), Some("done"));
        assert_eq!(kept, format!("{first}{second}"));

        append(&kept);
        let (trace, kept) = attempt(second);
        assert_eq!((trace.counts.calls, kept.as_str()), (0, second));
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
