//! The texts of a relay that are published.

use ekiden_core::handoff::HandoffFile;
use ekiden_core::prompt::Notes;
use ekiden_core::relay::Relay;

pub(super) fn published_texts(relay: &Relay) -> [(HandoffFile, String); 3] {
    let (progress, next_prompt) = match relay.last().map(|last| &last.notes) {
        Some(Notes::Handoff { progress, next_prompt } | Notes::Continuation { progress, next_prompt }) => {
            (progress.clone(), next_prompt.clone())
        }
        Some(Notes::Rescue { text }) => (String::new(), text.clone()),
        None => (String::new(), String::new()),
    };
    [
        (HandoffFile::Progress, ended_by_newline(progress)),
        (HandoffFile::NextPrompt, ended_by_newline(next_prompt)),
        (HandoffFile::Knowledge, relay.knowledge().render()),
    ]
}

/// A text file ends with a newline, also if the agent's did not.
fn ended_by_newline(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
