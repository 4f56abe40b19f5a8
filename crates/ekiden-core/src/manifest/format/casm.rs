//! CASM's manifest, as its planner writes it.
//!
//! Its types of validation have fixed commands. They are a stage's own there, so they are not made checks
//! of the whole project: a stage that only lays out directories has no types to check.
//!
//! One session works after the other there. So two of them may write the same file without a word on which
//! comes first; they get an edge in the order in which CASM takes them.

use super::{blank, empty, globs, lines, stages, validation_command, words};
use crate::limits::TURNS_MAX_MAX;
use crate::manifest::document::{Format, Stage, Validation};
use crate::manifest::draft::{Draft, DraftStage, Ids, RawNeed};
use crate::manifest::fault::Findings;
use crate::manifest::node::Node;
use crate::manifest::path;
use crate::manifest::shape::{Field, Kind, Shape, Spot, View};

/// What CASM runs for `type_check`.
pub(in crate::manifest) const TYPE_CHECK: &str = "npx tsc --noEmit";
/// What CASM runs for `test`.
pub(in crate::manifest) const TEST: &str = "npm test";

/// Where CASM looks for the architecture that it shows its sessions, the first one first.
pub(in crate::manifest) const ARCHITECTURES: [&str; 3] =
    ["ARCHITECTURE.md", "architecture.md", "docs/architecture.md"];

const TYPES: &[&str] = &["command", "file_exists", "type_check", "test", "none"];

const TOP: Shape = Shape {
    open: true,
    fields: &[
        Field::needed("project", Kind::Line, ""),
        Field::new("total_sessions", Kind::Whole(0, i64::MAX), ""),
        Field::new("architecture_file", Kind::Prose, ""),
        Field::needed("sessions", Kind::Tables(&SESSION), ""),
    ],
};

const SESSION: Shape = Shape {
    open: true,
    fields: &[
        Field::needed("id", Kind::Words, ""),
        Field::needed("name", Kind::Line, ""),
        Field::new("description", Kind::Prose, ""),
        Field::needed("depends_on", Kind::Lines, ""),
        Field::new("context_files", Kind::Globs, ""),
        Field::new("output_files", Kind::Outputs, ""),
        Field::needed("validation", Kind::Table(&VALIDATION), ""),
        Field::new("estimated_tokens", Kind::Whole(0, i64::MAX), ""),
        Field::new("max_turns", Kind::Whole(1, TURNS_MAX_MAX as i64), ""),
        Field::needed("prompt", Kind::Words, ""),
    ],
};

const VALIDATION: Shape = Shape {
    open: true,
    fields: &[
        Field::needed("type", Kind::Choice(TYPES), ""),
        Field::new("command", Kind::Prose, ""),
        Field::new("files", Kind::Globs, ""),
        Field::new("expected_exit_code", Kind::Whole(0, 255), ""),
    ],
};

pub(super) fn read(root: &Node, findings: &mut Findings) -> Draft {
    let view = View::of(root, &TOP, "", findings);
    let mut document = empty(Format::Casm, view.text("project").unwrap_or_default());
    // Not read there when sessions work, so a path that is none is no fault.
    document.architecture = view.path("architecture_file");
    let sessions = view.nodes("sessions");
    if let (Some(said), Some(node)) = (view.whole::<usize>("total_sessions"), view.node("total_sessions"))
        && said != sessions.len()
    {
        let text = format!("total_sessions is {said}, but there are {} sessions", sessions.len());
        findings.say(node.line, &text);
    }
    let stages = stages(sessions, &SESSION, "id", findings, stage);
    Draft { document, stages, ids: Ids::Made }
}

fn stage(view: &View<'_>, findings: &mut Findings) -> DraftStage {
    let prompt = words(view, "prompt", findings);
    let outputs = view.globs("output_files", path::writable, findings);
    let stage = Stage {
        context: globs(view, "context_files", findings),
        validation: validation(view, &outputs, findings),
        turns_max: view.whole("max_turns"),
        estimate_tokens: view.whole("estimated_tokens"),
        ..blank(view, view.text("name").unwrap_or_default(), prompt)
    };
    let needs = lines(view, "depends_on", findings).into_iter().map(RawNeed::plain).collect();
    DraftStage::new(stage, view, "id", needs, outputs)
}

/// `outputs` are what must exist where `file_exists` does not say.
fn validation(stage: &View<'_>, outputs: &[Spot<String>], findings: &mut Findings) -> Validation {
    let Some(node) = stage.node("validation") else { return Validation::None };
    let view = View::of(node, &VALIDATION, &format!("{}: validation", stage.who), findings);
    match view.spot("type").map(|spot| spot.value) {
        Some("command") => {
            let exit_code = view.whole("expected_exit_code").unwrap_or(0);
            Validation::Command { command: validation_command(&view, findings), exit_code }
        }
        Some("file_exists") => match globs(&view, "files", findings) {
            files if files.is_empty() && outputs.is_empty() => Validation::None,
            files if files.is_empty() => {
                Validation::Files(outputs.iter().map(|spot| spot.value.clone()).collect())
            }
            files => Validation::Files(files),
        },
        Some("type_check") => Validation::TypeCheck,
        Some("test") => Validation::Test,
        Some(_) | None => Validation::None,
    }
}
