//! Calls of tools that have run, as the hook after a batch tells them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::excerpt;
use crate::limits;

/// A call that has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneCall {
    /// The command, if it was a shell's.
    pub command: String,
    /// The file that it wrote, if it wrote one.
    pub written: String,
    /// It failed, as far as its answer says.
    pub failed: bool,
    /// It closed an item of the session's list.
    pub closed_item: bool,
}

/// How the answer of a failed call begins.
const FAILURES: [&str; 4] = ["Exit code ", "Error: ", "Error\n", "<tool_use_error>"];

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawDone<'a> {
    tool_name: String,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_response: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DoneInput<'a> {
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    todos: Option<&'a RawValue>,
}

/// Reads a batch. A call that cannot be read is left out.
pub(crate) fn calls(raw: &RawValue) -> Vec<DoneCall> {
    let calls: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    calls
        .into_iter()
        .filter_map(|call| serde_json::from_str(call.get()).ok())
        .map(|call| done(&call))
        .collect()
}

fn done(call: &RawDone<'_>) -> DoneCall {
    let input = call.tool_input.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let input: DoneInput<'_> = input.unwrap_or_default();
    let writes = matches!(call.tool_name.as_str(), "Write" | "Edit" | "MultiEdit");
    let response = call.tool_response.map(|raw| excerpt::of_json(raw, limits::TARGET)).unwrap_or_default();
    DoneCall {
        command: input.command.and_then(excerpt::whole).unwrap_or_default(),
        written: input.file_path.filter(|_| writes).and_then(excerpt::whole).unwrap_or_default(),
        failed: FAILURES.iter().any(|failure| response.starts_with(failure)),
        closed_item: closes_item(&call.tool_name, &input),
    }
}

fn closes_item(tool: &str, input: &DoneInput<'_>) -> bool {
    let status = input.status.and_then(excerpt::whole);
    match tool {
        "TaskUpdate" => status.as_deref() == Some("completed"),
        "TodoWrite" => input.todos.is_some_and(|todos| todos.get().contains("\"completed\"")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Vec<DoneCall> {
        calls(serde_json::from_str(json).expect("JSON"))
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
        assert_eq!((batch[0].command.as_str(), batch[0].failed), ("cargo test", true));
        assert_eq!((batch[1].written.as_str(), batch[1].failed), ("/w/a.rs", false));
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
