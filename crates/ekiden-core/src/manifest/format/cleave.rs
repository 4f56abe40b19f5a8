//! cleave's pipeline.
//!
//! There a stage that was skipped counts as met for those that require it. With us a need says so itself,
//! so every need of a stage with `onFail: skip` is optional. Stages work in the order of the file there, in
//! one directory, and most pipelines rely on it: a stage that does not say what it requires follows the one
//! before it.

use std::collections::HashSet;

use super::{blank, empty, lines, marker, stages};
use crate::limits::{RETRIES_MAX, SESSIONS_MAX_MAX};
use crate::manifest::OnFail;
use crate::manifest::document::{Format, Prompt, Stage, Validation};
use crate::manifest::draft::{Draft, DraftStage, Ids, RawNeed};
use crate::manifest::fault::Findings;
use crate::manifest::node::{Node, Value};
use crate::manifest::shape::{Field, Kind, Shape, View};

/// cleave's own default.
const RETRY_MAX: u32 = 1;

const TOP: Shape = Shape {
    open: true,
    fields: &[Field::new("name", Kind::Line, ""), Field::needed("stages", Kind::Tables(&STAGE), "")],
};

const STAGE: Shape = Shape {
    open: true,
    fields: &[
        Field::needed("name", Kind::Line, ""),
        Field::needed("prompt", Kind::Path, ""),
        Field::new("maxSessions", Kind::Whole(1, SESSIONS_MAX_MAX as i64), ""),
        Field::new("completion", Kind::Line, ""),
        Field::new("requires", Kind::Lines, ""),
        Field::new("verify", Kind::Command, ""),
        Field::new("onFail", Kind::Choice(&["stop", "retry", "skip"]), ""),
        Field::new("retryMax", Kind::Whole(0, RETRIES_MAX as i64), ""),
        Field::new("shareKnowledge", Kind::Flag, ""),
    ],
};

pub(super) fn read(root: &Node, findings: &mut Findings) -> Draft {
    let view = View::of(root, &TOP, "", findings);
    let document = empty(Format::Cleave, view.text("name").unwrap_or_else(|| "pipeline".to_owned()));
    let mut stages = stages(view.nodes("stages"), &STAGE, "name", findings, stage);
    let skipped = stages.iter().filter(|stage| stage.stage.on_fail == OnFail::Skip);
    let skipped: HashSet<String> = skipped.map(|stage| stage.id.value.clone()).collect();
    for need in stages.iter_mut().flat_map(|stage| &mut stage.needs) {
        need.optional = skipped.contains(&need.stage);
    }
    Draft { document, stages, ids: Ids::Made }
}

fn stage(view: &View<'_>, findings: &mut Findings) -> DraftStage {
    let (on_fail, retries) = match view.spot("onFail").map(|spot| spot.value) {
        Some("retry") => (OnFail::Stop, view.whole("retryMax").unwrap_or(RETRY_MAX)),
        Some("skip") => (OnFail::Skip, 0),
        Some(_) | None => (OnFail::Stop, 0),
    };
    let command = view.node("verify").map(|_| view.prose("verify"));
    let prompt = view.path("prompt").map_or(Prompt::Words(String::new()), Prompt::File);
    let stage = Stage {
        validation: command.map_or(Validation::None, |command| Validation::Command { command, exit_code: 0 }),
        on_fail,
        retries: Some(retries),
        sessions_max: view.whole("maxSessions"),
        marker: marker(view, "completion", findings),
        knowledge_apart: view.node("shareKnowledge").is_some_and(|node| node.value == Value::Bool(false)),
        ..blank(view, view.text("name").unwrap_or_default(), prompt)
    };
    let needs = lines(view, "requires", findings).into_iter().map(RawNeed::plain).collect();
    let follows = view.node("requires").is_none();
    DraftStage { follows, ..DraftStage::new(stage, view, "name", needs, Vec::new()) }
}
