//! How an attempt ended, according to the relay after it.

use ekiden_core::event::AttemptEnded;
use ekiden_core::handoff::{self, Handoff, HandoffFile, Status};
use ekiden_core::ids::SessionNumber;
use ekiden_core::prompt::quote::caution;
use ekiden_core::relay::{Next, Phase, Relay, SessionEnd};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// A handoff; work is left.
    Handoff,
    /// A handoff that says all is done.
    Completion,
    /// A handoff that needs a person's input.
    Question,
    /// A reviewer found nothing against the claim.
    Passed,
    /// A reviewer found faults.
    Findings,
    Nothing,
}

impl Left {
    fn of(status: &Status) -> Self {
        match status {
            Status::InProgress => Self::Handoff,
            Status::Complete => Self::Completion,
            Status::Blocked { .. } => Self::Question,
        }
    }
}

/// How an attempt ended, given its relay's state after it.
#[derive(Debug)]
pub struct AttemptEnd {
    /// The handoff, or the usable part of an invalid one.
    pub handoff: Result<Handoff, Box<Handoff>>,
    pub left: Left,
    /// The same session has another attempt.
    pub goes_on: bool,
    /// There was no handoff, so ekiden writes one.
    pub is_rescued: bool,
}

impl AttemptEnd {
    pub fn of(relay: &Relay, session: SessionNumber, ended: &AttemptEnded) -> Self {
        let review = reviewed(relay);
        // A reviewer that was stopped leaves the claim to be reviewed again.
        let is_reviewer = review.is_some_and(|end| end.attempt.session != session);
        if is_reviewer {
            let inspection = handoff::inspect(&ended.files, &relay.settings.marker);
            return Self {
                handoff: handoff::accept(&ended.files, &inspection),
                left: match relay.found() {
                    Some([]) => Left::Passed,
                    Some(_) => Left::Findings,
                    None => Left::Nothing,
                },
                goes_on: false,
                is_rescued: false,
            };
        }
        let handoff = match review {
            Some(end) => end.handoff.clone(),
            // No review follows, so the relay has read the files and continued.
            None => {
                let inspection = handoff::inspect(&ended.files, &relay.settings.marker);
                handoff::accept(&ended.files, &inspection)
            }
        };
        let is_last = relay
            .last
            .as_ref()
            .is_some_and(|last| last.session == session);
        let is_over = review.is_some() || is_last;
        Self {
            left: match &handoff {
                Ok(handoff) => Left::of(&handoff.status),
                Err(rest) if rest.status != Status::InProgress => Left::of(&rest.status),
                Err(_) => Left::Nothing,
            },
            goes_on: handoff.is_err() && !is_over,
            is_rescued: handoff.is_err() && is_over,
            handoff,
        }
    }
}

/// The session that the relay is looking at, or will look at when it is resumed.
fn reviewed(relay: &Relay) -> Option<&SessionEnd> {
    if let Phase::Reviewing {
        after: Some(end), ..
    }
    | Phase::Ended {
        next: Next::Review(Some(end)),
        ..
    } = &relay.phase
    {
        return Some(end);
    }
    None
}

/// Parts of a handoff that look like attempts to steer an agent.
pub fn cautions(ended: &AttemptEnded) -> Vec<String> {
    let files = HandoffFile::ALL.into_iter();
    let found = caution(files.filter_map(|file| ended.files.get(file).text()));
    let removed = Some(found.removed.to_string()).filter(|removed| !removed.is_empty());
    let removed = removed
        .map(|removed| format!("the agent's notes held {removed}; kept from the next session"));
    let phrases = found.phrases.into_iter().map(|phrase| {
        format!(
            "the agent's notes say \"{phrase}\"; the next session reads it as data, look where it came from"
        )
    });
    removed.into_iter().chain(phrases).collect()
}
