//! A saved event stream told again: what the agent said and did, a line for each.
//!
//! The stream is the agent's own, so it may be long, cut off in the middle of a line, or hold anything;
//! it is read piece by piece, and every text in it is made plain.

use std::io::{self, Read};

use ekiden_wire::lines::LineSplitter;
use ekiden_wire::stream::{Assistant, Block, ClientEvent};

use super::aloud;
use super::line::{Line, Tone, one_line};

/// The piece in which a stream is read.
const PIECE_BYTES: usize = 64 * 1024;

/// Tells a stream, line by line.
///
/// # Errors
///
/// If reading fails.
pub fn retell(mut stream: impl Read, mut tell: impl FnMut(Line)) -> io::Result<()> {
    let mut splitter = LineSplitter::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut each = |event: &ClientEvent| lines_of(event).into_iter().for_each(&mut tell);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => splitter.push(&piece[..count], |line| each(&ClientEvent::of(line))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    splitter.finish(|line| each(&ClientEvent::of(line)));
    Ok(())
}

fn lines_of(event: &ClientEvent) -> Vec<Line> {
    match event {
        ClientEvent::Assistant(response) => said(response),
        ClientEvent::ToolResults(results) => {
            let failed = results.results.iter().filter(|result| result.is_error);
            failed.map(|result| Line::labelled("", Tone::Failed, failure(&result.excerpt))).collect()
        }
        ClientEvent::ApiRetry { attempt, error, .. } => {
            vec![aloud::retry(*attempt, &error.to_string())]
        }
        ClientEvent::CompactBoundary { .. } => {
            vec![Line::labelled("", Tone::Attention, "the agent compacted its context")]
        }
        ClientEvent::Result(_) => vec![Line::labelled("", Tone::Quiet, "the turn is over")],
        ClientEvent::Malformed | ClientEvent::Oversized { .. } => {
            vec![Line::labelled("", Tone::Quiet, "a line that could not be read")]
        }
        ClientEvent::Init { .. }
        | ClientEvent::Lifecycle { .. }
        | ClientEvent::RateLimit(_)
        | ClientEvent::Compacting
        | ClientEvent::ModelFallback { .. }
        | ClientEvent::ModelRefused
        | ClientEvent::PermissionDenied { .. }
        | ClientEvent::TaskStarted { .. }
        | ClientEvent::TaskFinished { .. }
        | ClientEvent::HookFinished { .. }
        | ClientEvent::ConversationReset
        | ClientEvent::HookCallback { .. }
        | ClientEvent::CanUseTool { .. }
        | ClientEvent::UnknownRequest { .. }
        | ClientEvent::ControlResponse { .. }
        | ClientEvent::ControlCancel { .. }
        | ClientEvent::Ignored => Vec::new(),
    }
}

fn said(response: &Assistant) -> Vec<Line> {
    let mut lines = Vec::new();
    for block in &response.blocks {
        match block {
            Block::Call(call) => {
                let by = if response.main_thread { "" } else { " (subagent)" };
                lines.push(aloud::call(&call.name, &format!("{}{by}", one_line(&call.target))));
            }
            Block::Text(words) if response.main_thread => lines.extend(aloud::words(words)),
            Block::Text(_) => {}
        }
    }
    lines
}

fn failure(excerpt: &str) -> String {
    match one_line(excerpt) {
        text if text.is_empty() => "failed".to_owned(),
        text => format!("failed: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_calls_and_failures_are_told_and_nothing_acts_on_the_terminal() {
        let stream = concat!(
            r#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"First the tests.\nThen \u001b[2Jthe rest."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"pytest -q"}}]},"parent_tool_use_id":null}"#,
            "\n",
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"exit 1\u0007"}]},"parent_tool_use_id":null}"#,
            "\n{\"type\":\"assis",
        );
        let mut told = "told\n".to_owned();
        retell(stream.as_bytes(), |line| told.push_str(&(line.plain().trim_end().to_owned() + "\n")))
            .unwrap();
        expect_test::expect![[r"
            told
              says      First the tests.
                        Then the rest.
              Bash      pytest -q
                        failed: exit 1
                        a line that could not be read
        "]]
        .assert_eq(&told);
    }
}
