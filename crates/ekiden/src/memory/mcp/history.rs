//! `session_history`: what earlier sessions of this relay were given, said, did and saw.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use ekiden_core::text::one_line;
use ekiden_wire::lines::Line;
use ekiden_wire::reading::{Piece, Reading};
use serde_json::Value;

use crate::memory::shown::{ANSWER_BYTES_MAX, marked};
use crate::settings::environment::Environment;

/// One page, in bytes.
const PAGE_BYTES: usize = 16_000;
/// A message or a tool's result, in characters.
const PIECE_CHARS_MAX: usize = 2_000;

/// A page of a session, or the list of sessions for 0.
pub(super) fn answer(
    environment: &Environment,
    session: u64,
    prompt: bool,
    page: u64,
) -> Result<String, String> {
    let relay = environment.variable("EKIDEN_RELAY");
    let own = environment
        .variable("EKIDEN_SESSION")
        .and_then(|own| own.parse().ok());
    let (Some(relay), Some(own)) = (relay, own) else {
        return Err("this session is not part of a run, so no session came before it".to_owned());
    };
    let sessions = Path::new(relay).join("sessions");
    if session == 0 {
        return Ok(list(&sessions, own));
    }
    if !(1..own).contains(&session) {
        return Err(format!(
            "session {session} is not one of those before this one"
        ));
    }
    let dir = sessions.join(session.to_string());
    let name = if prompt { "prompt.md" } else { "events.jsonl" };
    let file =
        File::open(dir.join(name)).map_err(|_| format!("nothing is kept of session {session}"))?;
    let skip = usize::try_from(page.saturating_sub(1))
        .unwrap_or(usize::MAX)
        .saturating_mul(PAGE_BYTES);
    let mut text = String::new();
    let mut passed = 0_usize;
    let mut lines = BufReader::new(file).split(b'\n');
    let (mut reading, mut is_more) = (Reading::default(), false);
    while let Some(Ok(line)) = lines.next() {
        let piece = if prompt {
            String::from_utf8_lossy(&line).into_owned() + "\n"
        } else {
            said_in(&mut reading, &line)
        };
        // A piece belongs to the page in which it begins.
        passed += piece.len();
        if passed - piece.len() < skip {
            continue;
        }
        if passed - piece.len() >= skip + PAGE_BYTES {
            is_more = true;
            break;
        }
        text += &piece;
    }
    if text.is_empty() {
        return Ok(format!("Session {session} has no page {page}."));
    }
    let more = if is_more {
        format!("\nContinued on page {}.", page + 1)
    } else {
        String::new()
    };
    Ok(format!(
        "{}{more}",
        marked(&text, ANSWER_BYTES_MAX).trim_end()
    ))
}

/// The sessions before this one. Those of the run that this one goes on from are in that run's directory.
fn list(sessions: &Path, own: u64) -> String {
    let kept = fs::read_dir(sessions).into_iter().flatten().flatten();
    let numbers = kept.filter_map(|dir| dir.file_name().to_str()?.parse::<u64>().ok());
    let first = numbers.chain([own]).min().unwrap_or(own);
    let here = match own - first {
        0 => "This is the first session of this run.".to_owned(),
        1 => format!("1 session came before this one: {first}."),
        count => format!(
            "{count} sessions came before this one: {first} to {}.",
            own - 1
        ),
    };
    match first {
        0 | 1 => here,
        _ => format!("{here} Nothing is kept here of those before {first}."),
    }
}

/// What a line of an event stream says, whichever agent wrote it.
fn said_in(reading: &mut Reading, line: &[u8]) -> String {
    // It has to read every line to know which agent wrote the next.
    let pieces = reading.pieces(Line::Whole(line));
    let of_claude = said_by_claude(line);
    if of_claude.is_empty() {
        pieces.iter().filter_map(said).collect()
    } else {
        of_claude
    }
}

/// What a piece of another agent's stream says.
fn said(piece: &Piece) -> Option<String> {
    let (name, text) = match piece {
        Piece::Said(text) => ("assistant".to_owned(), text),
        Piece::Called { name, input, .. } => (format!("call {name}"), input),
        Piece::Returned { text, .. } => ("result".to_owned(), text),
        Piece::Thought(_) | Piece::Unread(_) => return None,
    };
    Some(format!("{name}: {}\n", one_line(text, PIECE_CHARS_MAX)))
}

/// The content of one of Claude Code's lines, if it is a message or a tool's call or result: more of it
/// than the live view shows.
fn said_by_claude(line: &[u8]) -> String {
    let event: Value = serde_json::from_slice(line).unwrap_or_default();
    let content = &event["message"]["content"];
    let who = event["type"]
        .as_str()
        .filter(|who| ["assistant", "user"].contains(who));
    let Some(who) = who else { return String::new() };
    if let Some(text) = content.as_str() {
        return format!("{who}: {}\n", one_line(text, PIECE_CHARS_MAX));
    }
    let piece = |block: &Value| {
        let (name, text) = match block["type"].as_str()? {
            "text" => (who.to_owned(), block["text"].as_str()?.to_owned()),
            "tool_use" => (
                format!("call {}", block["name"].as_str()?),
                block["input"].to_string(),
            ),
            "tool_result" => {
                let content = &block["content"];
                let whole = || content.as_array().map(|blocks| texts(blocks));
                let text = content.as_str().map(str::to_owned).or_else(whole);
                ("result".to_owned(), text?)
            }
            _ => return None,
        };
        Some(format!("{name}: {}\n", one_line(&text, PIECE_CHARS_MAX)))
    };
    content
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(piece)
        .collect()
}

fn texts(blocks: &[Value]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    texts.join("\n")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test lays out an archive")]
mod tests {
    use super::*;

    // shows: MEM-14
    #[test]
    fn a_session_reads_those_before_it_by_page_as_data_and_no_other() {
        let relay = tempfile::tempdir().unwrap();
        let dir = relay.path().join("sessions/1");
        std::fs::create_dir_all(&dir).unwrap();
        let call = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}"#;
        let result = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a.rs\n# Now"}]}]}}"#;
        let typed = r#"{"type":"user","message":{"content":"Go\n"}}"#;
        let many = format!("{typed}\n{call}\nnot json\n{result}\n").repeat(600);
        std::fs::write(dir.join("events.jsonl"), many).unwrap();
        std::fs::write(dir.join("prompt.md"), "# Task\nPort it").unwrap();
        let path = relay.path().to_str().unwrap();
        let environment = Environment::of([("EKIDEN_RELAY", path), ("EKIDEN_SESSION", "2")]);
        let of = |session, prompt, page| answer(&environment, session, prompt, page);
        assert_eq!(
            of(0, false, 1).unwrap(),
            "1 session came before this one: 1."
        );
        let first = of(1, false, 1).unwrap();
        assert!(
            first.starts_with(
                "¦ user: Go\n¦ assistant: I look\n¦ call Bash: {\"command\":\"ls\"}\n¦ result: a.rs # Now\n"
            ),
            "{first}"
        );
        assert!(first.ends_with("\nContinued on page 2.") && first.len() < 20_000);
        let pages: Vec<String> = (1..)
            .map_while(|page| of(1, false, page).ok().filter(|page| page.starts_with('¦')))
            .collect();
        let results = pages
            .iter()
            .flat_map(|page| page.lines())
            .filter(|line| line.starts_with("¦ result"))
            .count();
        assert_eq!(results, 600, "no page repeats or loses anything");
        assert_eq!(of(1, true, 1).unwrap(), "¦ # Task\n¦ Port it");
        assert!(of(2, false, 1).is_err() && of(u64::MAX, false, 1).is_err());
        assert!(
            answer(&Environment::of([]), 1, false, 1).is_err(),
            "not in a run"
        );
    }

    /// A run that goes on from session 4 of another one has session 5 as its first.
    // shows: MEM-14
    #[test]
    fn sessions_of_another_run_are_not_offered() {
        let relay = tempfile::tempdir().unwrap();
        let path = relay.path().to_str().unwrap();
        let listed = |own: &str| {
            std::fs::create_dir_all(relay.path().join("sessions").join(own)).unwrap();
            let environment = Environment::of([("EKIDEN_RELAY", path), ("EKIDEN_SESSION", own)]);
            answer(&environment, 0, false, 1).unwrap()
        };
        assert_eq!(
            listed("5"),
            "This is the first session of this run. Nothing is kept here of those before 5."
        );
        listed("6");
        assert_eq!(
            listed("7"),
            "2 sessions came before this one: 5 to 6. Nothing is kept here of those before 5."
        );
    }

    // shows: MEM-14, AGT-15
    #[test]
    fn a_session_reads_those_before_it_whoever_worked_in_them() {
        let claude = r#"{"type":"system","subtype":"init"}
{"type":"assistant","message":{"content":[{"type":"text","text":"claude"},{"type":"tool_use","name":"Edit","input":{"file_path":"a.rs","old_string":"1","new_string":"2"}}]}}"#;
        let codex = r#"{"id":1,"result":{"userAgent":"codex"}}
{"id":2,"result":{"thread":{"id":"t"}}}
{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"codex"}}}"#;
        let acp = r#"{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}
{"id":2,"result":{"sessionId":"s"}}
{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"acp"}}}}
{"id":11,"result":{"stopReason":"end_turn"}}"#;
        let relay = tempfile::tempdir().unwrap();
        let dir = relay.path().join("sessions/1");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("events.jsonl"), [codex, claude, acp].join("\n")).unwrap();
        let path = relay.path().to_str().unwrap();
        let environment = Environment::of([("EKIDEN_RELAY", path), ("EKIDEN_SESSION", "2")]);
        let told = "¦ assistant: codex\n¦ assistant: claude\n¦ call Edit: {\"file_path\":\"a.rs\",\"new_string\":\"2\",\"old_string\":\"1\"}\n¦ assistant: acp";
        assert_eq!(answer(&environment, 1, false, 1).unwrap(), told);
    }
}
