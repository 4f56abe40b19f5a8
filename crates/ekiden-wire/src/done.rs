//! Tool calls that have run, from the input of the hook after a batch.

use ekiden_core::guard::watch::BatchCall;
use serde_json::Value;

use crate::json;

/// How the response of a failed call begins.
const FAILURES: [&str; 4] = ["Exit code ", "Error: ", "Error\n", "<tool_use_error>"];

/// How the response to a call that was refused begins: by ekiden, a hook, a rule or the person.
const REFUSALS: [&str; 6] = [
    "Not run",
    "<tool_use_error>Not run",
    "PreToolUse:",
    "The user doesn't want to ",
    "Permission to use ",
    "Claude requested permissions ",
];

/// The call did not run, so what it returned says nothing about the work.
pub(crate) fn is_refusal(response: &str) -> bool {
    REFUSALS.iter().any(|words| response.starts_with(words))
}

/// Reads a batch, without the calls that cannot be read or did not run.
pub(crate) fn calls(batch: &Value) -> Vec<BatchCall> {
    json::elements(batch).iter().filter_map(done).collect()
}

fn done(call: &Value) -> Option<BatchCall> {
    let (tool, input) = (call["tool_name"].as_str()?, &call["tool_input"]);
    let response = call["tool_response"].as_str().unwrap_or_default();
    if is_refusal(response) {
        return None;
    }
    let written = match tool {
        "Write" | "Edit" | "MultiEdit" => json::text(&input["file_path"]),
        _ => String::new(),
    };
    Some(BatchCall {
        command: json::text(&input["command"]),
        written,
        failed: FAILURES.iter().any(|failure| response.starts_with(failure)),
        // A whole list (`TodoWrite`) does not tell which item is new in it.
        closed_item: tool == "TaskUpdate" && input["status"] == "completed",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Vec<BatchCall> {
        calls(&serde_json::from_str(json).expect("JSON"))
    }

    // shows: CHK-08
    #[test]
    fn a_batch_tells_what_ran_and_whether_it_failed() {
        let batch = read(
            r#"[{"tool_name":"Bash","tool_input":{"command":"cargo test"},"tool_response":"Exit code 101\nfailed"},
                {"tool_name":"Edit","tool_input":{"file_path":"/w/a.rs","new_string":"x"},"tool_response":"done"},
                {"tool_name":"Read","tool_input":{"file_path":"/w/b.rs"},"tool_response":{"type":"text"}},
                {"tool_name":"TaskUpdate","tool_input":{"taskId":"1","status":"completed"},"tool_response":"ok"}]"#,
        );
        assert_eq!(
            (batch[0].command.as_str(), batch[0].failed),
            ("cargo test", true)
        );
        assert_eq!(
            (batch[1].written.as_str(), batch[1].failed),
            ("/w/a.rs", false)
        );
        assert_eq!(batch[2].written, "");
        assert!(batch[3].closed_item);
    }

    #[test]
    fn a_call_that_was_refused_is_left_out() {
        for words in REFUSALS {
            let call = serde_json::json!({"tool_name": "Bash", "tool_input": {"command": "pytest"}, "tool_response": words});
            assert_eq!(calls(&serde_json::json!([call])), [], "{words}");
        }
    }

    #[test]
    fn a_list_with_a_closed_item_closes_none() {
        let list = read(
            r#"[{"tool_name":"TodoWrite","tool_input":{"todos":[{"status":"completed"},{"status":"pending"}]}}]"#,
        );
        assert!(!list[0].closed_item);
    }

    #[test]
    fn rubbish_is_left_out() {
        for rubbish in ["3", "{}", "[3, null]", r#"[{"tool_name":7}]"#] {
            assert_eq!(read(rubbish), [], "{rubbish}");
        }
    }
}
