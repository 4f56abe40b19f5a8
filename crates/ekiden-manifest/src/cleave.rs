//! cleave's pipeline, in YAML.
//!
//! In cleave, a stage that is skipped on failure counts as met for the stages that require it. So those
//! requirements become optional needs.

use ekiden_core::limits::{RETRIES_MAX, SESSIONS_MAX_MAX};

use crate::check::Reader;
use crate::fields::{COMMAND, Fields, INSIDE, Kind, LINE, MARK, RAW, fields};
use crate::own::validation;
use crate::tree::{Node, Value};

const RETRIES: i64 = 1;

const TOP: Fields = fields! {
    "name" as "project": LINE;
    "stages" as "stage"!required: Kind::Stages(STAGE);
};

const STAGE: Fields = fields! {
    "name" as "id"!required: LINE;
    "prompt" as "prompt_file"!required: INSIDE;
    "maxSessions" as "sessions_max": Kind::Whole(1, SESSIONS_MAX_MAX as i64);
    "completion" as "marker": MARK;
    "requires" as "needs": Kind::List(&RAW);
    "verify": COMMAND;
    "onFail": Kind::Choice(&["stop", "retry", "skip"]);
    "retryMax" as "retries": Kind::Whole(0, RETRIES_MAX as i64);
    "shareKnowledge": Kind::Flag;
};

pub(crate) fn read(root: &Node, reader: &mut Reader) -> Node {
    let mut top = reader.table(root, "", TOP);
    let text = |text: &str| Value::Text(text.to_owned());
    if !top.has("project") {
        top.set("project", text("pipeline"));
    }
    for stage in &mut reader.stages {
        let stage = &mut stage.node;
        if let Some(name) = stage.text("id").map(text) {
            stage.set("name", name);
        }
        if let Some((line, command)) = stage.spot("verify") {
            let fields = vec![("kind", text("command")), ("command", text(command))];
            stage.set("validation", validation(line, fields));
        }
        let (on_fail, retries) = match stage.text("onFail") {
            Some("retry") => ("stop", stage.whole("retries").unwrap_or(RETRIES)),
            Some("skip") => ("skip", 0),
            Some(_) | None => ("stop", 0),
        };
        stage.set("on_fail", text(on_fail));
        stage.set("retries", Value::Whole(retries));
        let shares = stage.get("shareKnowledge").map(|node| node.value.clone());
        let is_apart = shares == Some(Value::Bool(false));
        stage.set("knowledge_apart", Value::Bool(is_apart));
    }
    top
}
