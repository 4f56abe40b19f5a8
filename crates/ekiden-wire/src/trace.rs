//! What is known of a session for a rescue handoff: a bounded fold over its events.
//!
//! It is kept while the session runs, and can be rebuilt from the saved stream if ekiden crashes. Facts only:
//! nothing is inferred, and nothing grows with the session's length.

use std::io::{self, Read};

use ekiden_core::event::Traces;
use ekiden_core::prompt::{FailedCommand, HANDOFF_DIR};

use crate::done::is_refusal;
use crate::limits;
use crate::lines::read_lines;
use crate::rules::rules_for;
use crate::stream::{Assistant, Block, ClientEvent, RateLimitInfo, RateLimitStatus, ToolResult};
use crate::tools::{Call, ToolKind};

/// What a session did. Edits by subagents count; their calls and words do not. Calls on the handoff say nothing
/// about the work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    pub last: Traces,
    /// The limit by which requests have been refused since the last response.
    pub limit: Option<RateLimitInfo>,
    /// The context before the last compaction, in tokens.
    pub compacted: Option<u64>,
    pub counts: TraceCounts,
    open_calls: Vec<Call>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceCounts {
    /// Tool calls, including those of subagents.
    pub calls: u64,
    pub turns: u64,
    /// Lines that were not what they should be.
    pub malformed: u64,
}

impl Trace {
    /// The trace of a transcript: the same except for what only a stream has, such as turns.
    pub fn from_transcript(transcript: impl Read) -> io::Result<Self> {
        let mut trace = Self::default();
        read_lines(transcript, |line| {
            trace.observe(&ClientEvent::of_transcript(line));
        })?;
        Ok(trace)
    }

    pub fn observe(&mut self, event: &ClientEvent) {
        self.observe_calls(event, |_, _| {});
    }

    /// The same, passing on each finished call and its result.
    pub(crate) fn observe_calls(
        &mut self,
        event: &ClientEvent,
        mut over: impl FnMut(&Call, &ToolResult),
    ) {
        if let ClientEvent::Assistant(response) = event
            && !response.synthetic
        {
            self.response(response);
        } else if let ClientEvent::ToolResults(results) = event {
            for result in results {
                let mut open = self.open_calls.iter();
                if let Some(at) = open.position(|call| call.id == result.tool_use_id) {
                    let call = self.open_calls.remove(at);
                    if !(result.is_error && is_refusal(&result.excerpt)) {
                        over(&call, result);
                        self.over(call, result);
                    }
                }
            }
        } else if let ClientEvent::Result(_) = event {
            self.counts.turns += 1;
        } else if let ClientEvent::PermissionDenied { tool_use_id, tool } = event {
            self.refused(tool_use_id, tool);
        } else if let ClientEvent::RateLimit(info) = event {
            self.limit = (info.status == RateLimitStatus::Rejected).then(|| info.clone());
        } else if let ClientEvent::CompactBoundary { pre_tokens } = event {
            self.compacted = Some(*pre_tokens);
        } else if let ClientEvent::Malformed = event {
            self.counts.malformed += 1;
        }
    }

    pub fn subagents(&self) -> usize {
        let open = self.open_calls.iter();
        open.filter(|call| call.kind == ToolKind::Subagent).count()
    }

    fn response(&mut self, response: &Assistant) {
        self.limit = None;
        for block in &response.blocks {
            match block {
                Block::Text(words) if response.main_thread && !words.trim().is_empty() => {
                    self.last.last_words = Some(words.clone());
                }
                Block::Text(_) => {}
                Block::Call(call) => {
                    self.counts.calls += 1;
                    if response.main_thread && !is_handoff(call) {
                        self.last.last_call = Some(touch(call));
                    }
                    keep(&mut self.open_calls, call.clone(), limits::OPEN_CALLS_MAX);
                }
            }
        }
    }

    /// The client's own rules refused a call. Our refusals do not cause this event.
    fn refused(&mut self, tool_use_id: &str, tool: &str) {
        let call = self.open_calls.iter().find(|call| call.id == tool_use_id);
        self.denied(call.map_or_else(|| vec![tool.to_owned()], rules_for));
    }

    /// The client reports a call that it refused only in the turn's result, which also lists our refusals.
    pub fn refused_without_a_word(&mut self, call: &Call) {
        self.denied(rules_for(call));
    }

    fn denied(&mut self, rules: Vec<String>) {
        let denied = &mut self.last.denied;
        for rule in rules {
            if denied.len() < limits::RULES_KEPT && !denied.contains(&rule) {
                denied.push(rule);
            }
        }
    }

    fn over(&mut self, call: Call, result: &ToolResult) {
        match (call.kind, result.is_error) {
            (ToolKind::Edit, false) if !is_handoff(&call) => {
                let lines = result.lines;
                let lines = lines.map_or(String::new(), |(a, b)| format!(" (lines {a}-{b})"));
                self.last.last_edit = Some(touch(&call) + &lines);
            }
            (ToolKind::Shell, false) => {
                keep(&mut self.last.succeeded, call.target, limits::COMMANDS_KEPT);
            }
            (ToolKind::Shell, true) => {
                let failed = failed_command(call.target, result);
                keep(&mut self.last.failed, failed, limits::FAILURES_KEPT);
            }
            (
                ToolKind::Edit
                | ToolKind::Read
                | ToolKind::Subagent
                | ToolKind::Schedule
                | ToolKind::Other,
                _,
            ) => {}
        }
    }
}

/// The call reads or writes the handoff, which says nothing about the work.
pub(crate) fn is_handoff(call: &Call) -> bool {
    matches!(call.kind, ToolKind::Edit | ToolKind::Read) && call.target.contains(HANDOFF_DIR)
}

fn touch(call: &Call) -> String {
    format!("{} {}", call.name, call.target)
}

fn failed_command(command: String, result: &ToolResult) -> FailedCommand {
    let first = result.excerpt.lines().next().unwrap_or_default();
    FailedCommand {
        command,
        code: first
            .strip_prefix("Exit code ")
            .and_then(|code| code.trim().parse().ok()),
        last_line: last_line(&result.excerpt),
    }
}

/// The last line that is not blank.
pub(crate) fn last_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    lines
        .rfind(|line| !line.is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// The first `file:line` that a text names.
pub(crate) fn first_place(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| c.is_whitespace() || "()[]'\"`,".contains(c));
    words.find_map(|word| {
        let mut parts = word.split(':');
        let (file, line) = (parts.next()?, parts.next()?);
        let extension = file.rsplit_once('.')?.1;
        let is_file = extension.starts_with(char::is_alphabetic);
        let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        (is_file && is_line).then(|| format!("{file}:{line}"))
    })
}

/// Appends, and forgets the oldest above `most`.
pub(crate) fn keep<T>(kept: &mut Vec<T>, new: T, most: usize) {
    if kept.len() == most {
        kept.remove(0);
    }
    kept.push(new);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::lines::Line;
    use crate::saved::Saved;
    use crate::tests as fixtures;

    fn of_saved(stream: &str) -> Trace {
        let (mut trace, mut saved) = (Trace::default(), Saved::default());
        for line in stream.lines() {
            saved.read(Line::Whole(line.as_bytes()), |event| trace.observe(event));
        }
        trace
    }

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
        [
            ClientEvent::parse(call.as_bytes()),
            ClientEvent::parse(result.to_string().as_bytes()),
        ]
    }

    // shows: REL-06
    #[test]
    fn a_trace_tells_what_was_done() {
        let trace = observed(fixtures::events("tools.jsonl"));
        expect![[r#"
            Trace {
                last: Traces {
                    last_edit: Some(
                        "Write /home/dev/project/x.txt",
                    ),
                    last_call: Some(
                        "Agent sub",
                    ),
                    last_words: Some(
                        "Look.",
                    ),
                    succeeded: [
                        "echo hi; env | grep -i claude | sort",
                    ],
                    failed: [
                        FailedCommand {
                            command: "exit 3",
                            code: Some(
                                3,
                            ),
                            last_line: "Exit code 3",
                        },
                    ],
                    denied: [],
                },
                limit: None,
                compacted: None,
                counts: TraceCounts {
                    calls: 5,
                    turns: 0,
                    malformed: 0,
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
            let saved: Vec<_> = saved
                .iter()
                .filter(|line| !line.contains("to_client"))
                .cloned()
                .collect();
            let saved = saved.join("\n");
            assert_eq!(of_saved(&saved), observed(fixtures::events(name)));
        }
    }

    // shows: RLP-001, REL-06
    #[test]
    fn an_edit_is_told_with_its_lines_as_the_client_recorded_them() {
        let call = r#"{"type":"assistant","message":{"id":"m1","model":"x","content":[{"type":"tool_use","id":"t1","name":"Edit","input":{"file_path":"src/a.rs","old_string":"a","new_string":"b"}}]},"parent_tool_use_id":null}"#;
        let hunk =
            |start: u64, lines: u64| serde_json::json!({"newStart": start, "newLines": lines});
        let result = |name: &str, patch: &[serde_json::Value]| {
            let content =
                serde_json::json!([{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]);
            let mut line = serde_json::json!({"type": "user", "message": {"content": content}});
            line[name] = serde_json::json!({"structuredPatch": patch});
            line.to_string()
        };
        let edit = |result: String| {
            let events = [call.as_bytes(), result.as_bytes()].map(ClientEvent::parse);
            observed(events).last.last_edit.unwrap()
        };
        let patch = [hunk(100, 21), hunk(45, 3)];
        assert_eq!(
            edit(result("tool_use_result", &patch)),
            "Edit src/a.rs (lines 45-120)"
        );
        assert_eq!(
            edit(result("toolUseResult", &patch)),
            "Edit src/a.rs (lines 45-120)"
        );
        assert_eq!(edit(result("toolUseResult", &[])), "Edit src/a.rs");
    }

    #[test]
    fn only_the_last_commands_are_kept() {
        let good = observed((0..20).flat_map(|id| shell(id, "ok", false)));
        assert_eq!(good.last.succeeded.len(), limits::COMMANDS_KEPT);
        assert_eq!(
            good.last.succeeded.last().map(String::as_str),
            Some("run 19")
        );
        let bad = observed((0..20).flat_map(|id| shell(id, "Exit code 101\nerror: x\n\n", true)));
        assert_eq!(bad.last.failed.len(), limits::FAILURES_KEPT);
        let last = bad.last.failed.last().unwrap();
        assert_eq!(
            (last.code, last.last_line.as_str()),
            (Some(101), "error: x")
        );
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
        assert_eq!(trace.last.succeeded, ["run 1"]);
        let failed = FailedCommand {
            command: "run 3".into(),
            code: Some(2),
            last_line: "no".into(),
        };
        assert_eq!(trace.last.failed, [failed]);
        assert_eq!(
            (trace.compacted, trace.counts.calls, trace.counts.malformed),
            (Some(167_000), 2, 0)
        );
    }

    /// As it was recorded of a subscription in the client's own interface.
    // shows: REL-11, AGT-02
    #[test]
    fn a_transcript_tells_the_limit_and_its_reset() {
        let limited = r#"{"parentUuid":null,"isSidechain":false,"type":"assistant","message":{"id":"m2","model":"<synthetic>","content":[{"type":"text","text":"You've hit your 5-hour limit"}]},"apiError":"usage_limit_reached","apiErrorParams":{"rate_limit_info":{"status":"rejected","resetsAt":2000000000,"rateLimitType":"five_hour","isUsingOverage":false}},"error":"rate_limit","isApiErrorMessage":true}"#;
        let fine = r#"{"parentUuid":null,"type":"assistant","message":{"id":"m3","model":"x","content":[]}}"#;
        let limit = |lines: &[&str]| {
            Trace::from_transcript(lines.join("\n").as_bytes())
                .unwrap()
                .limit
        };
        assert_eq!(
            limit(&[fine, limited]).and_then(|limit| limit.resets_at),
            Some(2_000_000_000)
        );
        assert_eq!(limit(&[limited, fine]), None, "it is lifted");
    }

    // shows: AGT-08
    #[test]
    fn malformed_lines_are_counted() {
        let trace = of_saved("{\"type\":\"assistant\"\nnode: warning\n{\"type\":\"new\"}\n");
        assert_eq!(trace.counts.malformed, 2);
    }
}
