//! What the agent says and does, in permanent lines: live for `run -v`, and for a saved stream.
//!
//! An agent may print anything, so every text is made plain and short: escape sequences are removed, and
//! long text is cut, with a mark. A saved stream may end in the middle of a line, and is read piece by
//! piece. A run keeps the whole stream, for `ekiden show --events`.

use std::io::{self, Read};

use ekiden_agent::attempt::Activity;
use ekiden_wire::lines::read_lines;
use ekiden_wire::saved::Saved;
use ekiden_wire::stream::{Assistant, Block, ClientEvent};

use super::line::{Line, Tone, masked, one_line};
use super::phrase;

/// How many lines of one message are shown live. More would push out ekiden's own output.
const SPEECH_LINES_MAX: usize = 12;
/// The chunk size for reading a stream.
pub const PIECE_BYTES: usize = 64 * 1024;

/// The lines for what happens in a session. Warnings are printed elsewhere, in any case.
pub fn lines(activity: &Activity) -> Vec<Line> {
    match activity {
        Activity::Tool { name, target, .. } => vec![call(name, target)],
        Activity::Words(said) => {
            let mut lines = speech(said);
            let more = lines.len().saturating_sub(SPEECH_LINES_MAX);
            if more > 0 {
                lines.truncate(SPEECH_LINES_MAX);
                let more = format!("({} left out)", phrase::count(more as u64, "line"));
                lines.push(Line::labelled("", Tone::Quiet, more));
            }
            lines
        }
        Activity::Retry { attempt, error } => vec![retry(*attempt, error)],
        Activity::ToolEnded { .. } | Activity::Subagents(_) | Activity::Warning(_) => Vec::new(),
    }
}

/// The lines of a saved stream, one by one.
pub fn of_stream(stream: impl Read, mut show: impl FnMut(Line)) -> io::Result<()> {
    let mut saved = Saved::default();
    read_lines(stream, |line| {
        saved.read(line, |event| {
            of_event(event).into_iter().for_each(&mut show);
        });
    })
}

fn of_event(event: &ClientEvent) -> Vec<Line> {
    let note = |tone, text: &str| vec![Line::labelled("", tone, text)];
    match event {
        ClientEvent::Assistant(response) => of_response(response),
        ClientEvent::ToolResults(results) => {
            let failed = results.iter().filter(|result| result.is_error);
            let texts = failed.map(|result| match one_line(&result.excerpt) {
                text if text.is_empty() => "failed".to_owned(),
                text => format!("failed: {text}"),
            });
            texts
                .map(|text| Line::labelled("", Tone::Failed, text))
                .collect()
        }
        ClientEvent::ApiRetry { attempt, error } => vec![retry(*attempt, &error.to_string())],
        ClientEvent::CompactBoundary { .. } => {
            note(Tone::Attention, "the agent compacted its context")
        }
        ClientEvent::Result(_) => note(Tone::Quiet, "the turn is over"),
        ClientEvent::Notice(text) => note(Tone::Attention, text),
        ClientEvent::Malformed => note(Tone::Quiet, "a line that could not be read"),
        ClientEvent::Init
        | ClientEvent::Context { .. }
        | ClientEvent::Lifecycle { .. }
        | ClientEvent::RateLimit(_)
        | ClientEvent::ModelFallback { .. }
        | ClientEvent::PermissionDenied { .. }
        | ClientEvent::ConversationReset
        | ClientEvent::HookCallback { .. }
        | ClientEvent::CanUseTool { .. }
        | ClientEvent::UnknownRequest { .. }
        | ClientEvent::ControlResponse { .. }
        | ClientEvent::ControlCancel { .. }
        | ClientEvent::Ignored => Vec::new(),
    }
}

fn of_response(response: &Assistant) -> Vec<Line> {
    let is_main = response.main_thread;
    let by = if is_main { "" } else { " (subagent)" };
    let of_block = |block: &Block| match block {
        Block::Call(tool) => vec![call(&tool.name, &format!("{}{by}", one_line(&tool.target)))],
        Block::Text(words) if is_main => speech(words),
        Block::Text(_) => Vec::new(),
    };
    response.blocks.iter().flat_map(of_block).collect()
}

fn call(name: &str, target: &str) -> Line {
    Line::labelled(&one_line(name), Tone::Quiet, one_line(target))
}

/// What the agent said: one line for each non-empty line of it.
fn speech(said: &str) -> Vec<Line> {
    let said = masked(said);
    let labels = std::iter::once("says").chain(std::iter::repeat(""));
    let texts = said.lines().map(one_line).filter(|line| !line.is_empty());
    labels
        .zip(texts)
        .map(|(label, line)| Line::labelled(label, Tone::Plain, line))
        .collect()
}

fn retry(attempt: u32, error: &str) -> Line {
    let text = format!("the service is asked again ({attempt}): {error}");
    Line::labelled("", Tone::Attention, one_line(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-02
    #[test]
    fn what_an_agent_says_and_does_is_told_in_calm_lines() {
        let tool = |name: &str, target: &str| Activity::Tool {
            call: String::new(),
            name: name.to_owned(),
            target: target.to_owned(),
        };
        let long: String = (1..=40).map(|n| format!("point {n}\n")).collect();
        let told = [
            tool("Bash", "pytest -q\u{1b}[31m tests\nrm"),
            Activity::Words(
                "First the tests.\n\n\u{1b}]0;title\u{7}Then \u{1b}[2Jthe rest.\r\n".to_owned(),
            ),
            Activity::Words("\n \n".to_owned()),
            Activity::Words(long),
            Activity::Retry {
                attempt: 2,
                error: "overloaded\u{8}".to_owned(),
            },
            Activity::Warning("told as a warning".to_owned()),
        ];
        let text: Vec<String> = told
            .iter()
            .flat_map(lines)
            .map(|line| line.plain().trim_end().to_owned() + "\n")
            .collect();
        expect_test::expect![[r#"
            told
              Bash      pytest -q tests rm
              says      First the tests.
                        Then the rest.
              says      point 1
                        point 2
                        point 3
                        point 4
                        point 5
                        point 6
                        point 7
                        point 8
                        point 9
                        point 10
                        point 11
                        point 12
                        (28 lines left out)
                        the service is asked again (2): overloaded
        "#]]
        .assert_eq(&format!("told\n{}", text.concat()));
        let endless = lines(&Activity::Words("x".repeat(1_000_000)));
        assert!(endless.len() == 1 && endless[0].plain().chars().count() < 300);
    }

    #[test]
    fn words_calls_and_failures_are_told_and_nothing_acts_on_the_terminal() {
        let stream = concat!(
            r#"{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"First the tests.\nThen \u001b[2Jthe rest."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"pytest -q"}}]},"parent_tool_use_id":null}"#,
            "\n",
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"exit 1\u0007"}]},"parent_tool_use_id":null}"#,
            "\n{\"type\":\"assis",
        );
        let mut told = "told\n".to_owned();
        of_stream(stream.as_bytes(), |line| {
            told.push_str(&(line.plain().trim_end().to_owned() + "\n"));
        })
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

    // shows: MEM-12
    #[test]
    fn a_key_that_goes_over_lines_is_masked() {
        let key = ["-----BEGIN RSA ", "PRIVATE KEY-----\n"].concat();
        let body = "MIIEowIBAAKCAQEAv7Zk3xQm9TbN2cR8wY5uL1pF4hJ6dS0gA7eKqW3zXsVtCbNm\n".repeat(3);
        let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
        let said = Activity::Words(format!("Here it is:\n{key}{body}{end}\nThat was it."));
        let told: String = lines(&said)
            .iter()
            .map(|line| line.masked().plain())
            .collect();
        assert!(told.contains("That was it."), "{told}");
        assert!(!told.contains("MIIEow"), "{told}");
    }
}
