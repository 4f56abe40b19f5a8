//! Which lines are a person's requests.
//!
//! The client writes much into a conversation in the user's name: hook feedback, command output, summaries,
//! notes of finished tasks. A line counts if it is not marked as one of these and its text does not begin as
//! the client's own texts do.

use serde_json::Value;

use crate::{excerpt, json, limits};

/// How texts begin that the client writes in the user's name.
const OF_CLIENT: &[&str] = &[
    "<command-",
    "<local-command-",
    "<task-notification",
    "<system-reminder",
    "<bash-",
    "<user-memory-input",
    "[Request interrupted",
    "Caveat: The messages below were generated",
    "This session is being continued from a previous conversation",
    "Stop hook feedback",
    "The ekiden-mod plugin sent a message:",
];

/// What a person asked in this line, cut if it is long.
pub(super) fn prompt_of(line: &Value) -> Option<String> {
    let marks = ["isSidechain", "isMeta", "isCompactSummary", "isSynthetic"];
    if line["type"] != "user" || marks.iter().any(|mark| line[*mark] == true) {
        return None;
    }
    let content = &line["message"]["content"];
    let blocks = json::elements(content).iter();
    let texts = blocks
        .filter(|block| block["type"] == "text")
        .map(|block| &block["text"]);
    let text = texts
        .chain([content])
        .filter_map(Value::as_str)
        .find(|text| is_of_person(text))?;
    Some(excerpt::of_text(text, limits::PROMPT).trim().to_owned())
}

fn is_of_person(text: &str) -> bool {
    let text = text.trim_start();
    let is_clients = |start: &&str| text.starts_with(start);
    !text.is_empty() && !OF_CLIENT.iter().any(is_clients)
}
