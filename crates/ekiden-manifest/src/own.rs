//! ekiden's own format, in TOML or in JSON.
//!
//! These fields are its only definition: the reader refuses what they do not name, and `docs/manifest.schema.json` is
//! generated from them.

use ekiden_core::limits::{JOBS_MAX, RETRIES_MAX, SESSIONS_MAX_MAX, TURNS_MAX_MAX};
use serde_json::{Value as Json, json};

use crate::check::{RawStage, Reader, in_table};
use crate::document::Defaults;
use crate::draft;
use crate::fault::{Fault, Findings, quoted};
use crate::fields::{
    COMMAND, Fields, GLOBS, INSIDE, Kind, LABEL, LINE, MARK, OUTPUTS, WORDS, fields, from,
    schema_of,
};
use crate::tree::{Node, Value};

/// The version of the format.
pub const VERSION: i64 = 1;

const TOP: Fields = fields! {
    /// The version of this format.
    "format"!required: Kind::Whole(1, VERSION);
    /// Where editors find this schema; ekiden does not read it.
    "$schema": LINE;
    /// What the plan is for, in a few words.
    "project"!required: LINE;
    /// A longer description, for people.
    "description": Kind::Prose;
    /// The architecture document. Every stage sees its summary.
    "architecture": INSIDE;
    /// How many stages may work at the same time. Default: the setting `plan.jobs`.
    "jobs": Kind::Whole(1, JOBS_MAX as i64);
    /// Commands that must pass after every stage, in addition to its own validation. Default: the settings of the same names.
    "validation": Kind::Table(CHECKS);
    /// What a stage's worktree needs before the stage begins.
    "worktree": Kind::Table(WORKTREE);
    /// The stages.
    "stage"!required: Kind::Stages(STAGE);
};

/// The commands of the project; their names are kinds of a stage's validation too.
const CHECKS: Fields = fields! {
    /// Checks the types; exit code 0 means that they are correct.
    "type_check": COMMAND;
    /// Runs the linter; exit code 0 means that it found no problem.
    "lint": COMMAND;
    /// Runs the tests; exit code 0 means that they pass.
    "test": COMMAND;
};

const WORKTREE: Fields = fields! {
    /// Files that stages need and git does not track, such as `.env`; may be globs.
    "copy": OUTPUTS;
    /// Prepares a new worktree, such as `npm ci`.
    "setup": COMMAND;
};

const STAGE: Fields = fields! {
    /// Its id: at most 64 letters, digits, `-`, `_` and `.`; the first is a letter, a digit or `_`.
    "id"!required: LINE;
    /// Its name, for people.
    "name"!required: LINE;
    /// A longer description, for people.
    "description": Kind::Prose;
    /// The task, at most 2,000 tokens (6,000 bytes). A stage has either this or `prompt_file`.
    "prompt": WORDS;
    /// A file with the task, relative to the project's directory, or else to the manifest's.
    "prompt_file": INSIDE;
    /// Ids of the stages that must be done first.
    "needs": Kind::List(&Kind::Need(NEED));
    /// Files that its agent sees at the start; may be globs. What is not there is no fault, since an earlier stage may write it; the agent is told, except of globs.
    "context": GLOBS;
    /// Files that the stage creates or changes; may be globs. Each must match a file when the stage is done.
    "outputs": OUTPUTS;
    /// How ekiden checks that the stage is done. Default: `kind = "none"`.
    "validation": Kind::Table(VALIDATION);
    /// After its last try fails: `block` the stages that need it, `stop` the plan, or `skip` the stage. Default: `block`.
    "on_fail": Kind::Choice(&["block", "stop", "skip"]);
    /// How many times ekiden tries a failed stage again. Default: the setting `plan.retries`.
    "retries": Kind::Whole(0, RETRIES_MAX as i64);
    /// How many sessions each try of it may have. Default: the setting `max_sessions`.
    "sessions_max": Kind::Whole(1, SESSIONS_MAX_MAX as i64);
    /// Responses of the model in one session before it hands off. Default: the setting `max_turns` (0: no limit), else 50.
    "turns_max": Kind::Whole(1, TURNS_MAX_MAX as i64);
    /// How many tokens it is expected to take.
    "estimate_tokens": from(0);
    /// The size of the context, in tokens, at which a session hands off, unless a level comes first; not the budget `--session-tokens`. Default: 80,000.
    "session_tokens": from(1);
    /// What one session may cost, in US dollars.
    "session_budget_usd": Kind::Dollars;
    /// The model of this stage.
    "model": LINE;
    /// The agent of this stage, by name.
    "agent": LINE;
    /// In a fleet, the labels that a worker must have to do this stage, such as `gpu`.
    "runs_on": Kind::List(&LABEL);
    /// The word with which its agent claims to be done. Default: the setting `completion_marker`.
    "marker": MARK;
    /// With `true`, a fresh, read-only session judges the stage before it counts as done, whatever the setting `review` says. `false` does not switch off what the setting asks for.
    "review": Kind::Flag;
    /// The reviewer's model, if the stage's own agent reviews it. Default: the setting `models.review`.
    "review_model": LINE;
    /// Whether the stage keeps what it learns to itself, and sees nothing that other stages learned. Default: false.
    "knowledge_apart": Kind::Flag;
};

const NEED: Fields = fields! {
    /// The id of the stage.
    "stage"!required: LINE;
    /// The stage need only be over: it may have failed, or been skipped or left out. If it asks a question, this one waits for the answer, unless its `on_fail` is `"skip"`. Default: false.
    "optional": Kind::Flag;
};

const VALIDATION: Fields = fields! {
    /// What ekiden checks. The last three run the commands of the project's `[validation]`.
    "kind"!required: Kind::Choice(&["none", "command", "files", "type_check", "lint", "test"]);
    /// With `kind = "command"`: the command, for `sh -c`.
    "command": COMMAND;
    /// With `kind = "command"`: the exit code that means done. Default: 0.
    "exit_code": Kind::Whole(0, 255);
    /// With `kind = "files"`: each must match a file; may be globs.
    "files": GLOBS;
};

/// The fields of a validation, and the kind to which each belongs.
const BELONGS: [(&str, &str); 3] = [
    ("command", "command"),
    ("exit_code", "command"),
    ("files", "files"),
];

/// The JSON Schema, as `docs/manifest.schema.json` holds it. Editors use it, and planners' answers are held to
/// it. It cannot say everything: that ids differ, that needs exist and that nothing waits for itself is only
/// found by reading a manifest.
pub fn schema() -> Json {
    let mut schema = schema_of(TOP);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("An ekiden manifest");
    schema["description"] = json!("Stages and the edges between them, in TOML or in JSON.");
    schema
}

/// The table at the top. A newer format is the only fault of its file.
pub(crate) fn read(root: &Node, reader: &mut Reader, defaults: &Defaults) -> Result<Node, Fault> {
    if let Some(version) = root.whole::<i64>("format")
        && version > VERSION
    {
        let line = root.get("format").map(|node| node.line);
        let text = format!("format {version} is newer than this ekiden, which reads {VERSION}");
        return Err(Fault::new(line, &text).hint("update ekiden".to_owned()));
    }
    let top = reader.table(root, "", TOP);
    let own = top.get("validation");
    let is_check = |kind: &str| {
        let mut known = draft::CHECKS.iter().zip(&defaults.checks);
        known.any(|(check, default)| *check == kind && default.is_some())
            || own.is_some_and(|own| own.text(kind).is_some())
    };
    for stage in &reader.stages {
        check_stage(stage, &is_check, &mut reader.findings);
    }
    Ok(top)
}

fn check_stage(stage: &RawStage, is_check: &dyn Fn(&str) -> bool, findings: &mut Findings) {
    let RawStage { who, node } = stage;
    match (node.get("prompt"), node.get("prompt_file")) {
        (Some(prompt), Some(_)) => {
            let text = format!("{who}: prompt and prompt_file exclude each other");
            findings.say(prompt.line, &text);
        }
        (None, None) if !node.has("prompt") && !node.has("prompt_file") => {
            findings.say(node.line, &format!("{who}: \"prompt\" is missing"));
        }
        (Some(_) | None, Some(_) | None) => {}
    }
    let Some(validation) = node.get("validation") else {
        return;
    };
    let Some(kind) = validation.text("kind") else {
        return;
    };
    let who_validation = in_table(who, "validation");
    for (field, only) in BELONGS {
        if let Some(node) = validation.get(field)
            && kind != only
        {
            let text = format!("{who_validation}: {field} belongs to kind {}", quoted(only));
            findings.say(node.line, &text);
        }
    }
    let is_empty = |files: &Node| files.list().is_empty();
    match kind {
        "command" if !validation.has("command") => {
            let text = format!("{who_validation}: \"command\" is missing");
            findings.say(validation.line, &text);
        }
        "files" if !validation.has("files") || validation.get("files").is_some_and(is_empty) => {
            findings.say(
                validation.line,
                &format!("{who_validation}: no files are named"),
            );
        }
        "type_check" | "lint" | "test" if !is_check(kind) => {
            let text = format!("{who}: validation {} has no command", quoted(kind));
            let hint = format!("set {kind} in [validation] at the top");
            findings.add(Fault::new(node.line, &text).hint(hint));
        }
        _ => {}
    }
}

/// The validation of a stage, as our own format writes it.
pub(crate) fn validation(line: u32, fields: Vec<(&str, Value)>) -> Value {
    let mut node = Node {
        line,
        value: Value::Map(Vec::new()),
    };
    for (key, value) in fields {
        node.set(key, value);
    }
    node.value
}
