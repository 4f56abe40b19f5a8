//! What a rescue handoff can tell of a session: a bounded fold over its events.
//!
//! It is kept while the session runs, and can be made again from the saved stream after a crash of
//! the engine. Facts only: nothing is inferred, and nothing grows with the session's length.

use std::collections::VecDeque;
use std::io::{self, Read};

use crate::limits;
use crate::lines::{Line, LineSplitter};
use crate::rules::rule_for;
use crate::stream::{Assistant, Block, ClientEvent, RateLimitInfo, RateLimitStatus, ToolResult};
use crate::tools::{Call, ToolKind};

/// The traces that a session left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The last edit, of a subagent too.
    pub last_edit: Option<Touch>,
    /// The last call of the main thread.
    pub last_call: Option<Touch>,
    /// The last words of the main thread, cut if long.
    pub last_words: String,
    /// The last commands that succeeded, oldest first.
    pub succeeded: VecDeque<String>,
    /// The last commands that failed, oldest first.
    pub failed: VecDeque<FailedCommand>,
    /// Rules that would have let the refused calls run, each once.
    pub denied: Vec<String>,
    /// The limit that requests are refused by since the last response.
    pub limit: Option<RateLimitInfo>,
    /// The context before the last compaction, in tokens.
    pub compacted: Option<u64>,
    /// How much there was of what.
    pub counts: TraceCounts,
    open_calls: VecDeque<Call>,
}

/// A call and what it was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// The tool.
    pub tool: String,
    /// The path, command or pattern.
    pub target: String,
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCommand {
    /// The command.
    pub command: String,
    /// Its exit code; none if it was refused or cut off.
    pub exit: Option<i32>,
    /// The last line that it wrote.
    pub last_line: String,
}

/// How much there was of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceCounts {
    /// Calls of tools, of subagents too.
    pub calls: u64,
    /// Turns that ended.
    pub turns: u64,
    /// Subagents that began.
    pub subagents: u64,
    /// Lines that were not what they should be.
    pub malformed: u64,
    /// Lines that were too long to read.
    pub oversized: u64,
}

impl Trace {
    /// The trace of a saved stream.
    ///
    /// # Errors
    ///
    /// If reading fails. Lines that cannot be understood are counted, as a cut last line is.
    pub fn from_stream(stream: impl Read) -> io::Result<Self> {
        Self::from_stream_with(stream, |_| {})
    }

    /// The same, with a look at each event.
    ///
    /// # Errors
    ///
    /// As [`Trace::from_stream`].
    pub fn from_stream_with(stream: impl Read, mut look: impl FnMut(&ClientEvent)) -> io::Result<Self> {
        let mut trace = Self::default();
        each_line(stream, |line| {
            let event = ClientEvent::of(line);
            look(&event);
            trace.observe(&event);
        })?;
        Ok(trace)
    }

    /// The trace of a transcript: the same but for what only a stream has, such as turns.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub fn from_transcript(transcript: impl Read) -> io::Result<Self> {
        let mut trace = Self::default();
        each_line(transcript, |line| trace.observe(&ClientEvent::of_transcript(line)))?;
        Ok(trace)
    }

    /// Takes the next event.
    pub fn observe(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::Assistant(response) if !response.synthetic => self.response(response),
            ClientEvent::ToolResults(results) => results.results.iter().for_each(|one| self.result(one)),
            ClientEvent::Result(_) => self.counts.turns += 1,
            ClientEvent::TaskStarted { subagent, .. } => self.counts.subagents += u64::from(*subagent),
            ClientEvent::PermissionDenied { tool_use_id, tool } => self.refused(tool_use_id, tool),
            ClientEvent::RateLimit(info) if info.status == RateLimitStatus::Rejected => {
                self.limit = Some(info.clone());
            }
            ClientEvent::RateLimit(_) => self.limit = None,
            ClientEvent::CompactBoundary { pre_tokens, .. } => self.compacted = Some(*pre_tokens),
            ClientEvent::Malformed => self.counts.malformed += 1,
            ClientEvent::Oversized { .. } => self.counts.oversized += 1,
            ClientEvent::Assistant(_)
            | ClientEvent::Init { .. }
            | ClientEvent::Lifecycle { .. }
            | ClientEvent::ApiRetry { .. }
            | ClientEvent::Compacting
            | ClientEvent::ModelFallback { .. }
            | ClientEvent::ModelRefused
            | ClientEvent::TaskFinished { .. }
            | ClientEvent::HookFinished { .. }
            | ClientEvent::ConversationReset
            | ClientEvent::HookCallback { .. }
            | ClientEvent::CanUseTool { .. }
            | ClientEvent::UnknownRequest { .. }
            | ClientEvent::ControlResponse { .. }
            | ClientEvent::ControlCancel { .. }
            | ClientEvent::Ignored => {}
        }
    }

    fn response(&mut self, response: &Assistant) {
        self.limit = None;
        for block in &response.blocks {
            match block {
                Block::Text(words) if response.main_thread && !words.trim().is_empty() => {
                    self.last_words.clone_from(words);
                }
                Block::Text(_) => {}
                Block::Call(call) => self.call(call, response.main_thread),
            }
        }
    }

    fn call(&mut self, call: &Call, main_thread: bool) {
        self.counts.calls += 1;
        if main_thread {
            self.last_call = Some(touch(call));
        }
        keep(&mut self.open_calls, call.clone(), limits::OPEN_CALLS_MAX);
    }

    /// The client's own rules refused a call. Our refusals give no such event.
    fn refused(&mut self, tool_use_id: &str, tool: &str) {
        let call = self.open_calls.iter().find(|call| call.id == tool_use_id);
        let rule = call.map_or_else(|| tool.to_owned(), rule_for);
        if self.denied.len() < limits::RULES_KEPT && !self.denied.contains(&rule) {
            self.denied.push(rule);
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let Some(place) = self.open_calls.iter().position(|call| call.id == result.tool_use_id) else {
            return;
        };
        let Some(call) = self.open_calls.remove(place) else { return };
        match (call.kind, result.is_error) {
            (ToolKind::Edit, false) => self.last_edit = Some(touch(&call)),
            (ToolKind::Shell, false) => keep(&mut self.succeeded, call.target, limits::COMMANDS_KEPT),
            (ToolKind::Shell, true) => {
                keep(&mut self.failed, failed_command(call.target, result), limits::FAILURES_KEPT);
            }
            (
                ToolKind::Edit | ToolKind::Read | ToolKind::Subagent | ToolKind::Schedule | ToolKind::Other,
                _,
            ) => {}
        }
    }
}

fn each_line(mut stream: impl Read, mut hear: impl FnMut(Line<'_>)) -> io::Result<()> {
    let mut splitter = LineSplitter::new();
    let mut chunk = vec![0; limits::LINE_BUFFER_KEPT];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => splitter.push(&chunk[..read], &mut hear),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    splitter.finish(&mut hear);
    Ok(())
}

fn touch(call: &Call) -> Touch {
    Touch { tool: call.name.clone(), target: call.target.clone() }
}

fn failed_command(command: String, result: &ToolResult) -> FailedCommand {
    let exit = result.excerpt.lines().next().and_then(|first| first.strip_prefix("Exit code "));
    let last_line = result.excerpt.lines().rev().find(|line| !line.trim().is_empty());
    FailedCommand {
        command,
        exit: exit.and_then(|code| code.trim().parse().ok()),
        last_line: last_line.unwrap_or_default().trim().to_owned(),
    }
}

/// Appends, and forgets the oldest above `most`.
fn keep<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(new);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fixtures;

    fn observed(events: impl IntoIterator<Item = ClientEvent>) -> Trace {
        let mut trace = Trace::default();
        for event in events {
            trace.observe(&event);
        }
        trace
    }

    fn shell(id: u32, answer: &str, is_error: bool) -> [ClientEvent; 2] {
        let call = format!(
            r#"{{"type":"assistant","message":{{"id":"m{id}","model":"x","content":[{{"type":"tool_use","id":"t{id}","name":"Bash","input":{{"command":"run {id}"}}}}]}},"parent_tool_use_id":null}}"#
        );
        let result = serde_json::json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": format!("t{id}"), "is_error": is_error, "content": answer}]}});
        [ClientEvent::parse(call.as_bytes()), ClientEvent::parse(result.to_string().as_bytes())]
    }

    // shows: REL-06
    #[test]
    fn a_trace_tells_what_was_done() {
        let trace = observed(fixtures::events("tools.jsonl"));
        expect![[r#"
            Trace {
                last_edit: Some(
                    Touch {
                        tool: "Write",
                        target: "/home/dev/project/x.txt",
                    },
                ),
                last_call: Some(
                    Touch {
                        tool: "Agent",
                        target: "sub",
                    },
                ),
                last_words: "Look.",
                succeeded: [
                    "echo hi; env | grep -i claude | sort",
                ],
                failed: [
                    FailedCommand {
                        command: "exit 3",
                        exit: Some(
                            3,
                        ),
                        last_line: "Exit code 3",
                    },
                ],
                denied: [],
                limit: None,
                compacted: None,
                counts: TraceCounts {
                    calls: 5,
                    turns: 0,
                    subagents: 1,
                    malformed: 0,
                    oversized: 0,
                },
                open_calls: [
                    Call {
                        id: "toolu_fakee528f196cfd24f73",
                        name: "Agent",
                        kind: Subagent,
                        target: "sub",
                    },
                ],
            }
        "#]]
        .assert_debug_eq(&trace);
    }

    #[test]
    fn a_saved_stream_gives_the_same_trace() {
        for name in fixtures::STREAMS {
            let saved = fixtures::lines(name);
            let saved: Vec<_> = saved.iter().filter(|line| !line.contains("to_client")).cloned().collect();
            let saved = saved.join("\n");
            assert_eq!(Trace::from_stream(saved.as_bytes()).unwrap(), observed(fixtures::events(name)));
        }
    }

    #[test]
    fn only_the_last_commands_are_kept() {
        let good = observed((0..20).flat_map(|id| shell(id, "ok", false)));
        assert_eq!(good.succeeded.len(), limits::COMMANDS_KEPT);
        assert_eq!(good.succeeded.back().map(String::as_str), Some("run 19"));
        let bad = observed((0..20).flat_map(|id| shell(id, "Exit code 101\nerror: x\n\n", true)));
        assert_eq!(bad.failed.len(), limits::FAILURES_KEPT);
        let last = bad.failed.back().unwrap();
        assert_eq!((last.exit, last.last_line.as_str()), (Some(101), "error: x"));
    }

    #[test]
    fn calls_without_results_do_not_pile_up() {
        let trace = observed((0..1000).map(|id| shell(id, "", false)[0].clone()));
        assert_eq!(trace.open_calls.len(), limits::OPEN_CALLS_MAX);
        assert_eq!(trace.counts.calls, 1000);
    }

    /// The members of a transcript's lines stand in another order and have other names around them.
    // shows: REL-06, AGT-02
    #[test]
    fn a_transcript_tells_the_same() {
        let call = |id: u32, more: &str| {
            format!(
                r#"{{"parentUuid":null{more},"message":{{"id":"m{id}","model":"x","content":[{{"type":"tool_use","id":"t{id}","name":"Bash","input":{{"command":"run {id}"}}}}]}},"type":"assistant"}}"#
            )
        };
        let result = |id: u32, text: &str, is_error: bool| {
            format!(
                r#"{{"isSidechain":false,"type":"user","message":{{"content":[{{"tool_use_id":"t{id}","type":"tool_result","content":"{text}","is_error":{is_error}}}]}},"toolUseResult":{{}}}}"#
            )
        };
        let lines = [
            r#"{"type":"api-request","params":{"model":"x"}}"#.to_owned(),
            call(1, ""),
            result(1, "ok", false),
            r#"{"isSidechain":false,"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":167000}}"#.to_owned(),
            call(2, r#","isSidechain":true"#),
            call(3, ""),
            result(3, "Exit code 2\\nno", true),
            call(4, "")[..40].to_owned(),
        ];
        let trace = Trace::from_transcript(lines.join("\n").as_bytes()).unwrap();
        assert_eq!(trace.succeeded, ["run 1"]);
        let failed = FailedCommand { command: "run 3".into(), exit: Some(2), last_line: "no".into() };
        assert_eq!(trace.failed, [failed]);
        assert_eq!((trace.compacted, trace.counts.calls, trace.counts.malformed), (Some(167_000), 2, 0));
    }

    /// As it was recorded of a subscription in the client's own interface.
    // shows: REL-11, AGT-02
    #[test]
    fn a_transcript_tells_the_limit_and_its_reset() {
        let limited = r#"{"parentUuid":null,"isSidechain":false,"type":"assistant","message":{"id":"m2","model":"<synthetic>","content":[{"type":"text","text":"You've hit your 5-hour limit"}]},"apiError":"usage_limit_reached","apiErrorParams":{"rate_limit_info":{"status":"rejected","resetsAt":2000000000,"rateLimitType":"five_hour","isUsingOverage":false}},"error":"rate_limit","isApiErrorMessage":true}"#;
        let fine = r#"{"parentUuid":null,"type":"assistant","message":{"id":"m3","model":"x","content":[]}}"#;
        let limit = |lines: &[&str]| Trace::from_transcript(lines.join("\n").as_bytes()).unwrap().limit;
        assert_eq!(limit(&[fine, limited]).and_then(|limit| limit.resets_at), Some(2_000_000_000));
        assert_eq!(limit(&[limited, fine]), None, "it is lifted");
    }

    // shows: AGT-08
    #[test]
    fn malformed_lines_are_counted() {
        let trace =
            Trace::from_stream(&b"{\"type\":\"assistant\"\nnode: warning\n{\"type\":\"new\"}\n"[..]).unwrap();
        assert_eq!(trace.counts.malformed, 2);
    }
}
