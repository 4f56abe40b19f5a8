//! Which stages a run carries out: `--from`, `--only`, `--skip`.

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::ids::StageId;
use ekiden_core::manifest::graph::Graph;
use ekiden_core::manifest::{Manifest, Take};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::one_line;
use crate::output::phrase;

/// What was asked for.
#[derive(Debug, Default)]
pub struct Selection<'a> {
    /// Everything before this stage was done already.
    pub from: Option<&'a str>,
    /// Only these, and what they need was done already.
    pub only: &'a [String],
    /// Not these, nor what needs them.
    pub skip: &'a [String],
}

/// Marks the stages of a manifest.
///
/// # Errors
///
/// If a stage is unknown.
pub fn select(manifest: &mut Manifest, selection: &Selection<'_>) -> Result<(), Failure> {
    refuse_contradictions(selection)?;
    let graph = Graph::of(&manifest.stages);
    if let Some(from) = selection.from {
        let first = place(manifest, from)?;
        let order = graph.order().unwrap_or_default();
        for at in order.into_iter().take_while(|at| *at != first) {
            manifest.stages[at].part.take = Take::Assume;
        }
    }
    if !selection.only.is_empty() {
        let only = places(manifest, selection.only)?;
        let needed = needed_by(manifest, &only);
        for (at, stage) in manifest.stages.iter_mut().enumerate() {
            stage.part.take = match (only.contains(&at), needed.contains(&at)) {
                (true, _) => Take::Run,
                (false, true) => Take::Assume,
                (false, false) => Take::Skip,
            };
        }
    }
    for at in places(manifest, selection.skip)? {
        manifest.stages[at].part.take = Take::Skip;
    }
    Ok(())
}

/// A stage cannot be wanted and left out.
fn refuse_contradictions(selection: &Selection<'_>) -> Result<(), Failure> {
    let wanted = selection.from.into_iter().chain(selection.only.iter().map(String::as_str));
    match wanted.into_iter().find(|wanted| selection.skip.iter().any(|skipped| skipped == wanted)) {
        Some(both) => {
            let text = format!("stage `{}` is wanted and left out", one_line(both));
            Err(Failure::new(Exit::Usage, text).hint("name it in one place"))
        }
        None => Ok(()),
    }
}

/// The stages that will not run: those that are left out, and what needs them. Optional needs do not count.
#[must_use]
pub fn left_out(manifest: &Manifest) -> BTreeSet<StageId> {
    let mut left_out = BTreeSet::new();
    let order = Graph::of(&manifest.stages).order().unwrap_or_default();
    for stage in order.into_iter().map(|at| &manifest.stages[at]) {
        let needs_one =
            || stage.part.needs.iter().any(|need| !need.optional && left_out.contains(&need.stage));
        let is_left_out = match stage.part.take {
            Take::Skip => true,
            Take::Run => needs_one(),
            Take::Assume => false,
        };
        if is_left_out {
            left_out.insert(stage.id.clone());
        }
    }
    left_out
}

fn places(manifest: &Manifest, names: &[String]) -> Result<BTreeSet<usize>, Failure> {
    names.iter().map(|name| place(manifest, name)).collect()
}

fn place(manifest: &Manifest, name: &str) -> Result<usize, Failure> {
    let ids = || manifest.stages.iter().map(|stage| stage.id.as_str());
    if let Some(at) = ids().position(|id| id == name) {
        return Ok(at);
    }
    let text = format!("there is no stage `{}` in the manifest", one_line(name));
    let failure = Failure::new(Exit::Usage, text);
    Err(match phrase::nearest(name, ids()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(format!("its stages are: {}", ids().take(20).collect::<Vec<_>>().join(", "))),
    })
}

/// Everything that some stages cannot do without, directly or not.
fn needed_by(manifest: &Manifest, stages: &BTreeSet<usize>) -> BTreeSet<usize> {
    let place: BTreeMap<&StageId, usize> =
        manifest.stages.iter().enumerate().map(|(at, stage)| (&stage.id, at)).collect();
    let mut needed = BTreeSet::new();
    let mut next: Vec<usize> = stages.iter().copied().collect();
    while let Some(at) = next.pop() {
        let needs = manifest.stages[at].part.needs.iter().filter(|need| !need.optional);
        let places = needs.filter_map(|need| place.get(&need.stage).copied());
        next.extend(places.filter(|need| needed.insert(*need)));
    }
    needed
}
