//! ekiden's own format, in TOML or in JSON.
//!
//! The tables of fields below are its only definition: the reader refuses what they do not name, and
//! `docs/manifest.schema.json` is made of them.

use super::{empty, globs, marker, stages, words};
use crate::limits::{JOBS_MAX, RETRIES_MAX, SESSIONS_MAX_MAX, TURNS_MAX_MAX};
use crate::manifest::document::{Checks, Format, Prompt, Stage, Validation, Worktree};
use crate::manifest::draft::{Draft, DraftStage, Ids, RawNeed};
use crate::manifest::fault::{Fault, Findings, quoted};
use crate::manifest::node::{Node, Value};
use crate::manifest::shape::{Field, Kind, Shape, View};
use crate::manifest::{OnFail, path};

/// The version of the format that is read and described.
pub(in crate::manifest) const VERSION: i64 = 1;

/// The words of `kind`, the first of which stands for a stage without a validation.
const KINDS: &[&str] = &["none", "command", "files", "type_check", "lint", "test"];
const ON_FAIL: &[&str] = &["block", "stop", "skip"];

/// The top of the file.
pub(in crate::manifest) const TOP: Shape = Shape {
    open: false,
    fields: &[
        Field::needed("format", Kind::Whole(1, VERSION), "The version of this format."),
        Field::new("$schema", Kind::Line, "Where an editor finds this schema; not read."),
        Field::needed("project", Kind::Line, "What the plan is for, in a few words."),
        Field::new("description", Kind::Prose, "More about it, for people."),
        Field::new(
            "architecture",
            Kind::Path,
            "The architecture document; its summary is shown to every stage.",
        ),
        Field::new(
            "jobs",
            Kind::Whole(1, JOBS_MAX as i64),
            "Stages that may work at the same time. Default: 3.",
        ),
        Field::new(
            "validation",
            Kind::Table(&CHECKS),
            "Commands that must pass after every stage, on top of its own validation.",
        ),
        Field::new(
            "worktree",
            Kind::Table(&WORKTREE),
            "What a stage's own worktree needs before it works there.",
        ),
        Field::needed("stage", Kind::Tables(&STAGE), "The stages."),
    ],
};

const CHECKS: Shape = Shape {
    open: false,
    fields: &[
        Field::new("type_check", Kind::Command, "Checks the types; exit code 0 means that they fit."),
        Field::new("lint", Kind::Command, "Runs the linter; exit code 0 means that it is content."),
        Field::new("test", Kind::Command, "Runs the tests; exit code 0 means that they pass."),
    ],
};

const WORKTREE: Shape = Shape {
    open: false,
    fields: &[
        Field::new(
            "copy",
            Kind::Outputs,
            "Files that git does not know and stages need, such as `.env`; may be globs.",
        ),
        Field::new("setup", Kind::Command, "Makes a new worktree ready, such as `npm ci`."),
    ],
};

/// A stage.
pub(in crate::manifest) const STAGE: Shape = Shape {
    open: false,
    fields: &[
        Field::needed(
            "id",
            Kind::Line,
            "Its id: letters, digits, `-`, `_` and `.`, at most 64, the first a letter, a digit or `_`.",
        ),
        Field::needed("name", Kind::Line, "What people call it."),
        Field::new("description", Kind::Prose, "More about it, for people."),
        Field::new(
            "prompt",
            Kind::Words,
            "What to do, at most 2,000 tokens (6,000 bytes). Either this or `prompt_file`.",
        ),
        Field::new(
            "prompt_file",
            Kind::Path,
            "A file that says what to do, from the project's directory, or else from the manifest's.",
        ),
        Field::new("needs", Kind::LinesOr(&NEED), "Ids of the stages that must be done before."),
        Field::new("context", Kind::Globs, "Files that its agent sees first; may be globs."),
        Field::new(
            "outputs",
            Kind::Outputs,
            "Files that it makes or changes; may be globs. Each must find a file when it is done.",
        ),
        Field::new("validation", Kind::Table(&VALIDATION), "When it is done. Default: `kind = \"none\"`."),
        Field::new(
            "on_fail",
            Kind::Choice(ON_FAIL),
            "After its last try: `block` what needs it, `stop` the plan, or `skip` it. Default: `block`.",
        ),
        Field::new("retries", Kind::Whole(0, RETRIES_MAX as i64), "How often it is tried again. Default: 2."),
        Field::new(
            "sessions_max",
            Kind::Whole(1, SESSIONS_MAX_MAX as i64),
            "Sessions that it may take. Default: the setting `max_sessions`.",
        ),
        Field::new(
            "turns_max",
            Kind::Whole(1, TURNS_MAX_MAX as i64),
            "Responses of the model in one session before it hands off. Default: 50.",
        ),
        Field::new("estimate_tokens", Kind::Whole(0, i64::MAX), "Tokens that it is thought to take."),
        Field::new(
            "session_tokens",
            Kind::Whole(1, i64::MAX),
            "Tokens that one session may take before it hands off. Default: 80,000.",
        ),
        Field::new("session_budget_usd", Kind::Dollars, "What one session may spend, in US dollars."),
        Field::new("model", Kind::Line, "Its own model."),
        Field::new("agent", Kind::Line, "Its own agent, by name."),
        Field::new(
            "marker",
            Kind::Line,
            "The word by which its agent claims to be done. Default: the setting `completion_marker`.",
        ),
        Field::new(
            "knowledge_apart",
            Kind::Flag,
            "What it learns is not told to other stages, nor theirs to it. Default: false.",
        ),
    ],
};

/// An edge that says more than an id.
pub(in crate::manifest) const NEED: Shape = Shape {
    open: false,
    fields: &[
        Field::needed("stage", Kind::Line, "The id of the stage."),
        Field::new(
            "optional",
            Kind::Flag,
            "It need only be over: it may have failed, been skipped or left out. Default: false.",
        ),
    ],
};

const VALIDATION: Shape = Shape {
    open: false,
    fields: &[
        Field::needed(
            "kind",
            Kind::Choice(KINDS),
            "What is checked. The last three run the commands of the project's `[validation]`.",
        ),
        Field::new("command", Kind::Prose, "With `kind = \"command\"`: for `sh -c`."),
        Field::new(
            "exit_code",
            Kind::Whole(0, 255),
            "With `kind = \"command\"`: the exit code that means done. Default: 0.",
        ),
        Field::new("files", Kind::Globs, "With `kind = \"files\"`: each must find a file; may be globs."),
    ],
};

pub(super) fn read(root: &Node, findings: &mut Findings) -> Result<Draft, Fault> {
    if let Some(Node { line, value: Value::Whole(version) }) = root.get("format")
        && *version > VERSION
    {
        let text = format!("format {version} is newer than this ekiden, which reads {VERSION}");
        return Err(Fault::new(*line, &text).hint("update ekiden"));
    }
    let view = View::of(root, &TOP, "", findings);
    let mut document = empty(Format::Ekiden, view.text("project").unwrap_or_default());
    document.description = view.prose("description");
    document.architecture = view.path("architecture");
    document.jobs = view.whole("jobs");
    if let Some(node) = view.node("validation") {
        document.checks = checks(&View::of(node, &CHECKS, "validation", findings));
    }
    if let Some(node) = view.node("worktree") {
        document.worktree = worktree(&View::of(node, &WORKTREE, "worktree", findings), findings);
    }
    let mut stages = stages(view.nodes("stage"), &STAGE, "id", findings, stage);
    for stage in &mut stages {
        check_kind(stage, &document.checks, findings);
    }
    Ok(Draft { document, stages, ids: Ids::AsTheyAre })
}

fn command(view: &View<'_>, field: &str) -> Option<String> {
    view.node(field).map(|_| view.prose(field))
}

fn checks(view: &View<'_>) -> Checks {
    Checks {
        type_check: command(view, "type_check"),
        lint: command(view, "lint"),
        test: command(view, "test"),
    }
}

fn worktree(view: &View<'_>, findings: &mut Findings) -> Worktree {
    let copy = view.globs("copy", path::writable, findings);
    Worktree { copy: copy.into_iter().map(|spot| spot.value).collect(), setup: command(view, "setup") }
}

fn stage(view: &View<'_>, findings: &mut Findings) -> DraftStage {
    let stage = Stage {
        context: globs(view, "context", findings),
        validation: validation(view, findings),
        on_fail: on_fail(view.spot("on_fail").map(|spot| spot.value)),
        retries: view.whole("retries"),
        sessions_max: view.whole("sessions_max"),
        turns_max: view.whole("turns_max"),
        estimate_tokens: view.whole("estimate_tokens"),
        session_tokens: view.whole("session_tokens"),
        budget: view.dollars("session_budget_usd"),
        model: view.text_spot("model"),
        agent: view.text_spot("agent"),
        marker: marker(view, "marker", findings),
        knowledge_apart: view.flag("knowledge_apart"),
        ..super::blank(view, view.text("name").unwrap_or_default(), prompt(view, findings))
    };
    let outputs = view.globs("outputs", path::writable, findings);
    DraftStage::new(stage, view, "id", needs(view, findings), outputs)
}

fn prompt(view: &View<'_>, findings: &mut Findings) -> Prompt {
    match (view.node("prompt"), view.path("prompt_file")) {
        (Some(_), None) => words(view, "prompt", findings),
        (None, Some(file)) => Prompt::File(file),
        (Some(node), Some(_)) => {
            view.wrong(node.line, "prompt", "and prompt_file exclude each other", findings);
            words(view, "prompt", findings)
        }
        (None, None) => {
            if !view.misfit("prompt") && !view.misfit("prompt_file") {
                findings.say(view.line, &view.told("\"prompt\" is missing"));
            }
            Prompt::Words(String::new())
        }
    }
}

fn needs(view: &View<'_>, findings: &mut Findings) -> Vec<RawNeed> {
    let mut needs = Vec::new();
    for node in view.nodes("needs") {
        let line = node.line;
        match &node.value {
            Value::Text(stage) => needs.push(RawNeed { line, stage: stage.clone(), optional: false }),
            Value::Map(_) => {
                let need = View::of(node, &NEED, &view.who, findings);
                let optional = need.flag("optional");
                needs.extend(need.text("stage").map(|stage| RawNeed { line, stage, optional }));
            }
            Value::Null
            | Value::Bool(_)
            | Value::Whole(_)
            | Value::Fraction(_)
            | Value::Date
            | Value::List(_) => {
                view.wrong(line, "needs", &format!("holds {}, not an id", node.value.told()), findings);
            }
        }
    }
    needs
}

fn on_fail(word: Option<&str>) -> OnFail {
    match word {
        Some("stop") => OnFail::Stop,
        Some("skip") => OnFail::Skip,
        Some(_) | None => OnFail::Block,
    }
}

fn validation(stage: &View<'_>, findings: &mut Findings) -> Validation {
    let Some(node) = stage.node("validation") else { return Validation::None };
    let who = format!("{}: validation", stage.who);
    let view = View::of(node, &VALIDATION, &who, findings);
    let kind = view.spot("kind").map(|spot| spot.value);
    for (field, only) in [("command", "command"), ("exit_code", "command"), ("files", "files")] {
        if let Some(node) = view.node(field).filter(|_| kind.is_some_and(|kind| kind != only)) {
            view.wrong(node.line, field, &format!("belongs to kind {}", quoted(only)), findings);
        }
    }
    match kind {
        Some("command") => {
            let exit_code = view.whole("exit_code").unwrap_or(0);
            Validation::Command { command: super::validation_command(&view, findings), exit_code }
        }
        Some("files") => Validation::Files(super::validation_files(&view, findings)),
        Some("type_check") => Validation::TypeCheck,
        Some("lint") => Validation::Lint,
        Some("test") => Validation::Test,
        Some(_) | None => Validation::None,
    }
}

/// A kind that runs a command of the project needs that command.
fn check_kind(stage: &DraftStage, checks: &Checks, findings: &mut Findings) {
    let (kind, command) = match stage.stage.validation {
        Validation::TypeCheck => ("type_check", &checks.type_check),
        Validation::Lint => ("lint", &checks.lint),
        Validation::Test => ("test", &checks.test),
        Validation::Command { .. } | Validation::Files(_) | Validation::None => return,
    };
    if command.is_none() {
        let text = format!("{}: validation {} has no command", stage.who, quoted(kind));
        let fault = Fault::new(stage.stage.line, &text);
        findings.add(fault.hint(&format!("set {kind} in [validation] at the top")));
    }
}
