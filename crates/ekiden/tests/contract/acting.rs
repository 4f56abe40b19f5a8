//! What a model of ours does with the real client.

use std::path::Path;

use ekiden_testkit::messages_api::{Message, Reply, Request, ToolResult};
use serde_json::json;

/// A call that changes nothing and needs no leave.
pub(crate) fn call() -> Message {
    Message::call("Bash", json!({"command": "ls"}))
}

/// The handoff was ordered.
pub(crate) fn ordered(request: &Request) -> bool {
    request.text().contains("ekiden: please hand off now")
}

/// The conversation goes on after an attempt that was lost.
pub(crate) fn resumed(request: &Request) -> bool {
    request.text().contains("has resumed this conversation")
}

/// A message that writes a whole handoff. From session 3 on it claims that all is done.
pub(crate) fn write_all(dir: &str, session: u32) -> Message {
    let project = Path::new(dir).ancestors().nth(2).unwrap();
    crate::relay::hand_off(project, session)
}

/// Writes the handoff that claims completion, then ends the turn.
pub(crate) fn finish(request: &Request, dir: &str) -> Reply {
    hand_off(request, dir, 3)
}

/// Writes the handoff that leaves work, then ends the turn.
pub(crate) fn leave_work(request: &Request, dir: &str) -> Reply {
    hand_off(request, dir, 1)
}

fn hand_off(request: &Request, dir: &str, session: u32) -> Reply {
    let wrote = |result: &ToolResult| !result.is_error && result.text.contains("NEXT_PROMPT.md");
    let wrote = request.tool_results().iter().any(wrote);
    if wrote {
        Message::text("Done.").into()
    } else {
        write_all(dir, session).into()
    }
}
