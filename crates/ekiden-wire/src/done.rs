//! Tool calls that have run, from the input of the hook after a batch.

use ekiden_core::guard::watch::BatchCall;
use serde_json::Value;

use crate::json;

/// How the response of a failed call begins.
const FAILURES: [&str; 4] = ["Exit code ", "Error: ", "Error\n", "<tool_use_error>"];

/// Reads a batch, without the calls that cannot be read.
pub(crate) fn calls(batch: &Value) -> Vec<BatchCall> {
    json::elements(batch).iter().filter_map(done).collect()
}

fn done(call: &Value) -> Option<BatchCall> {
    let (tool, input) = (call["tool_name"].as_str()?, &call["tool_input"]);
    let response = call["tool_response"].as_str().unwrap_or_default();
    let written = match tool {
        "Write" | "Edit" | "MultiEdit" => json::text(&input["file_path"]),
        _ => String::new(),
    };
    let is_closed = |item: &Value| item["status"] == "completed";
    Some(BatchCall {
        command: json::text(&input["command"]),
        written,
        failed: FAILURES.iter().any(|failure| response.starts_with(failure)),
        closed_item: match tool {
            "TaskUpdate" => is_closed(input),
            "TodoWrite" => json::elements(&input["todos"]).iter().any(is_closed),
            _ => false,
        },
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
    fn rubbish_is_left_out() {
        for rubbish in ["3", "{}", "[3, null]", r#"[{"tool_name":7}]"#] {
            assert_eq!(read(rubbish), [], "{rubbish}");
        }
    }
}
