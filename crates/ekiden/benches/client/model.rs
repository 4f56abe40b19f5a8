//! The fake models of the bench: one hands off in each session, one reads a file over and over.

use std::path::{Path, PathBuf};

use ekiden_testkit::messages_api::{Message, Reply, Request};
use serde_json::json;

/// Hands off at once, with one item done, so that every session makes progress.
pub(crate) fn hands_off(work: PathBuf) -> impl FnMut(&Request) -> Reply + Send + 'static {
    let mut sessions = 0;
    move |request| match request.tool_results().len() {
        0 => {
            sessions += 1;
            hand_off(&work, sessions, "IN_PROGRESS").into()
        }
        _ => Message::text("Handed off.").into(),
    }
}

/// Reads the task this many times, and is done.
pub(crate) fn reads(work: PathBuf, turns: usize) -> impl FnMut(&Request) -> Reply + Send + 'static {
    let task = work.join("task.md");
    move |request| match request.answers() {
        answers if answers < turns => Message::call("Read", json!({"file_path": task})).into(),
        answers if answers == turns => hand_off(&work, 1, "ALL_COMPLETE").into(),
        _ => Message::text("Done.").into(),
    }
}

fn hand_off(work: &Path, session: u32, status: &str) -> Message {
    let write = |name: &str, text: String| json!({"file_path": work.join(name), "content": text});
    let progress = format!(
        "STATUS: {status}\n\n## Done\n\nitem {session}, shown by `ls`\n\n## Stopped at\n\nafter item {session}; \
         nothing is half done\n\n## Issues\n\nnone\n"
    );
    let next_prompt = format!(
        "## Task\n\nthe next item\n\n## State\n\n{session} items exist, each a file of its own; they were looked \
         at. The names count up, and every one of them holds the same word.\n\n## Resume at\n\nitem-{session}.txt\
         \n\n## What works\n\nWrite\n\n## What to avoid\n\nnothing so far\n\n## How to verify\n\n`ls` shows the items\n"
    );
    Message::call(
        "Write",
        write(&format!("item-{session}.txt"), "made\n".to_owned()),
    )
    .and_call("Write", write(".ekiden/handoff/PROGRESS.md", progress))
    .and_call(
        "Write",
        write(".ekiden/handoff/NEXT_PROMPT.md", next_prompt),
    )
}
