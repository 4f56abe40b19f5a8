//! Which lines are what a person asked.
//!
//! The client writes much into a conversation in the user's name: hook feedback, command output,
//! summaries, notes of finished tasks. A line counts if nothing of that is said of it and its text does
//! not begin as the client's own texts do.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text_of;

#[derive(Deserialize)]
struct UserLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, rename = "isSidechain")]
    side_chain: bool,
    #[serde(default, rename = "isMeta")]
    meta: bool,
    #[serde(default, rename = "isCompactSummary")]
    summary: bool,
    #[serde(default, rename = "isSynthetic")]
    synthetic: bool,
    #[serde(borrow)]
    message: UserMessage<'a>,
}

#[derive(Deserialize)]
struct UserMessage<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct UserBlock<'a> {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

/// How texts begin that the client wrote in the user's name.
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
];

/// What a person asked in this line, cut if it is long.
pub(super) fn prompt_of(line: &[u8]) -> Option<String> {
    memchr::memmem::find(line, b"\"user\"")?;
    let line: UserLine<'_> = serde_json::from_slice(line).ok()?;
    if line.kind != "user" || line.side_chain || line.meta || line.summary || line.synthetic {
        return None;
    }
    let content = line.message.content?;
    let text = if content.get().starts_with('"') {
        text_of(content)
    } else {
        let blocks: Vec<UserBlock<'_>> = serde_json::from_str(content.get()).ok()?;
        let texts = blocks.iter().filter(|block| block.kind == "text").filter_map(|block| block.text);
        texts.map(text_of).find(|text| is_of_person(text))?
    };
    is_of_person(&text).then(|| text.trim().to_owned())
}

fn is_of_person(text: &str) -> bool {
    let text = text.trim_start();
    !text.is_empty() && !OF_CLIENT.iter().any(|beginning| text.starts_with(beginning))
}
