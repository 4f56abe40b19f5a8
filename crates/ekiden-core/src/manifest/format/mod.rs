//! The three formats of a manifest, each read into the same draft.
//!
//! A format is told by the keys at its top: `sessions` has CASM, `stages` a pipeline of cleave, everything
//! else is meant to be ours, as is whatever has a list of `stage` or is written in TOML, which neither of
//! the others knows. Other keys tell nothing: those formats are open, so theirs may have any name. What they
//! leave out, and what they mean by what they say, is decided in their own files and nowhere else.

pub(super) mod casm;
pub(super) mod cleave;
pub(super) mod own;

use super::document::{Document, Format, Prompt, Stage, Validation};
use super::draft::{Draft, DraftStage};
use super::fault::{Fault, Findings, quoted};
use super::node::{Node, Value};
use super::shape::{Shape, Spot, View, command_fault};
use super::syntax::Syntax;
use super::{OnFail, path};
use crate::handoff::Marker;
use crate::ids::StageId;
use crate::limits::{STAGE_TASK_TOKENS_MAX, STAGES_MAX};
use crate::prompt::budget::tokens;

/// Which format a tree has. A key counts also with nothing behind it.
pub(super) fn of(root: &Node, syntax: Syntax) -> Format {
    if syntax == Syntax::Toml || root.get("stage").is_some_and(|stage| stage.list().is_some()) {
        Format::Ekiden
    } else if root.has("sessions") {
        Format::Casm
    } else if root.has("stages") {
        Format::Cleave
    } else {
        Format::Ekiden
    }
}

/// The draft of a tree.
pub(super) fn read(root: &Node, syntax: Syntax, findings: &mut Findings) -> Result<Draft, Fault> {
    if !matches!(root.value, Value::Map(_)) {
        return Err(Fault::new(root.line, &format!("a manifest is a table, this is {}", root.value.told())));
    }
    match of(root, syntax) {
        Format::Ekiden => own::read(root, findings),
        Format::Casm => Ok(casm::read(root, findings)),
        Format::Cleave => Ok(cleave::read(root, findings)),
    }
}

/// A document that says nothing yet.
fn empty(format: Format, project: String) -> Document {
    Document {
        format,
        project,
        description: String::new(),
        architecture: None,
        checks: super::document::Checks::default(),
        jobs: None,
        worktree: super::document::Worktree::default(),
        stages: Vec::new(),
        slips: Vec::new(),
    }
}

/// A stage that says nothing yet.
fn blank(view: &View<'_>, name: String, prompt: Prompt) -> Stage {
    Stage {
        line: view.line,
        id: StageId::only(),
        name,
        description: view.prose("description"),
        prompt,
        needs: Vec::new(),
        context: Vec::new(),
        outputs: Vec::new(),
        validation: Validation::None,
        on_fail: OnFail::Block,
        retries: None,
        sessions_max: None,
        turns_max: None,
        estimate_tokens: None,
        session_tokens: None,
        budget: None,
        model: None,
        agent: None,
        marker: None,
        knowledge_apart: false,
    }
}

/// Each stage of a list, as `read` makes it of the table.
fn stages(
    nodes: &[Node],
    shape: &Shape,
    id: &str,
    findings: &mut Findings,
    read: fn(&View<'_>, &mut Findings) -> DraftStage,
) -> Vec<DraftStage> {
    if nodes.len() > STAGES_MAX {
        let line = nodes[STAGES_MAX].line;
        findings.say(line, &format!("{} stages; at most {STAGES_MAX} are read", nodes.len()));
    }
    let mut stages = Vec::new();
    for (node, number) in nodes.iter().take(STAGES_MAX).zip(1..) {
        let named = node.get(id).and_then(Node::text).filter(|id| !id.trim().is_empty());
        let who = named.map_or_else(|| format!("stage {number}"), |id| format!("stage {}", quoted(id)));
        if matches!(node.value, Value::Map(_)) {
            stages.push(read(&View::of(node, shape, &who, findings), findings));
        } else {
            findings.say(node.line, &format!("{who}: must be a table, but is {}", node.value.told()));
        }
    }
    stages
}

/// The words of a prompt, within their bound.
fn words(view: &View<'_>, field: &str, findings: &mut Findings) -> Prompt {
    let words = view.prose(field);
    if let Some(spot) = view.spot(field)
        && let Some(what) = task_fault(&words)
    {
        view.wrong(spot.line, field, &what, findings);
    }
    Prompt::Words(words)
}

/// What is wrong with a task.
pub(super) fn task_fault(words: &str) -> Option<String> {
    let size = tokens(words);
    if words.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    (size > STAGE_TASK_TOKENS_MAX).then(|| {
        format!("has {size} tokens, at most {STAGE_TASK_TOKENS_MAX} fit: move details into a file and name it in the context")
    })
}

/// A field with globs.
fn globs(view: &View<'_>, field: &str, findings: &mut Findings) -> Vec<String> {
    view.globs(field, path::pattern, findings).into_iter().map(|spot| spot.value).collect()
}

/// A list of texts, each of which says something.
fn lines(view: &View<'_>, field: &str, findings: &mut Findings) -> Vec<Spot<String>> {
    view.globs(field, |text| Ok(text.to_owned()), findings)
}

/// A word that claims completion.
fn marker(view: &View<'_>, field: &str, findings: &mut Findings) -> Option<Marker> {
    let spot = view.spot(field)?;
    match Marker::try_from(spot.value.to_owned()) {
        Ok(marker) => Some(marker),
        Err(error) => {
            view.wrong(spot.line, field, &format!("is refused: {error}"), findings);
            None
        }
    }
}

/// The command of a validation, told as a whole: `validation command is empty`.
fn validation_command(view: &View<'_>, findings: &mut Findings) -> String {
    let spot = view.spot("command");
    let (line, text) = spot.map_or((view.line, ""), |spot| (spot.line, spot.value));
    if let Some(what) = command_fault(text).filter(|_| !view.misfit("command")) {
        findings.say(line, &format!("{} command {what}", view.who));
    }
    view.prose("command")
}

/// The files of a validation.
fn validation_files(view: &View<'_>, findings: &mut Findings) -> Vec<String> {
    let files = globs(view, "files", findings);
    if view.nodes("files").is_empty() && !view.misfit("files") {
        findings.say(view.line, &view.told("no files are named"));
    }
    files
}
