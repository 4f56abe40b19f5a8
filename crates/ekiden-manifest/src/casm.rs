//! CASM's manifest, as its planner writes it, in JSON.
//!
//! Its validation types have fixed commands. In CASM they belong to a single stage, so they do not become
//! checks of the whole project: a stage that only creates directories has no types to check.

use ekiden_core::limits::TURNS_MAX_MAX;

use crate::check::{Location, RawStage, Reader, in_table};
use crate::fields::{
    COMMAND, FILLED, Fields, GLOBS, Kind, LINE, OUTPUTS, RAW, WORDS, fields, from,
};
use crate::own::validation;
use crate::path;
use crate::tree::{Node, Value};

/// What CASM runs for `type_check`.
const TYPE_CHECK: &str = "npx tsc --noEmit";
/// What CASM runs for `test`.
const TEST: &str = "npm test";

const TOP: Fields = fields! {
    "project"!required: LINE;
    "total_sessions": from(0);
    "architecture_file" as "architecture": Kind::Prose;
    "sessions" as "stage"!required: Kind::Stages(SESSION);
};

const SESSION: Fields = fields! {
    /// Any text, so that needs can name it as it is written.
    "id"!required: FILLED;
    "name"!required: LINE;
    "description": Kind::Prose;
    "depends_on" as "needs"!required: Kind::List(&RAW);
    "context_files" as "context": GLOBS;
    "output_files" as "outputs": OUTPUTS;
    "validation"!required: Kind::Table(VALIDATION);
    "estimated_tokens" as "estimate_tokens": from(0);
    "max_turns" as "turns_max": Kind::Whole(1, TURNS_MAX_MAX as i64);
    "prompt"!required: WORDS;
};

const VALIDATION: Fields = fields! {
    "type" as "kind"!required: Kind::Choice(&["command", "file_exists", "type_check", "test", "none"]);
    /// For a type that does not use it, it may hold anything; so may `files`.
    "command": RAW;
    "files": Kind::List(&RAW);
    "expected_exit_code" as "exit_code": Kind::Whole(0, 255);
};

pub(crate) fn read(root: &Node, reader: &mut Reader) -> Node {
    let mut top = reader.table(root, "", TOP);
    let count = root.get("sessions").map_or(0, |list| list.list().len());
    if let Some(said) = top.get("total_sessions")
        && let Some(number) = top.whole::<usize>("total_sessions")
        && number != count
    {
        let text = format!("total_sessions is {number}, and `sessions` has {count}");
        reader.findings.say(said.line, &text);
    }
    // CASM does not read it while sessions work, so a wrong path is no fault.
    if let Some(path) = top.text("architecture").map(path::inside) {
        top.set("architecture", path.map_or(Value::Null, Value::Text));
    }
    let mut stages = std::mem::take(&mut reader.stages);
    for stage in &mut stages {
        convert_validation(stage, reader);
    }
    reader.stages = stages;
    top
}

fn convert_validation(stage: &mut RawStage, reader: &mut Reader) {
    let who = in_table(&stage.who, "validation");
    let Some(foreign) = stage.node.get("validation") else {
        return;
    };
    let mut used = |field: &str, kind: &Kind| {
        let place = Location::of(&who, field);
        foreign
            .get(field)
            .map(|node| reader.node(node, place, kind).value)
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let of_command = |command: Value| vec![("kind", text("command")), ("command", command)];
    let ours = match foreign.text("kind") {
        Some("command") => {
            let mut fields = of_command(used("command", &COMMAND).unwrap_or(Value::Null));
            let code = foreign.get("exit_code").map(|node| node.value.clone());
            fields.extend(code.map(|code| ("exit_code", code)));
            if !foreign.has("command") {
                reader.missing(foreign.line, &who, &VALIDATION[1]);
            }
            fields
        }
        Some("file_exists") => {
            let is_named = |files: &Value| matches!(files, Value::List(files) if !files.is_empty());
            let outputs = stage.node.get("outputs").map(|node| node.value.clone());
            let files = used("files", &GLOBS).filter(is_named).or(outputs);
            vec![
                ("kind", text("files")),
                ("files", files.unwrap_or(Value::Null)),
            ]
        }
        Some("type_check") => of_command(text(TYPE_CHECK)),
        Some("test") => of_command(text(TEST)),
        Some(_) | None => Vec::new(),
    };
    let ours = validation(foreign.line, ours);
    stage.node.set("validation", ours);
}
