//! Which stages a run carries out: `--from`, `--only`, `--skip`.

use std::collections::BTreeSet;

use ekiden_core::manifest::graph::Graph;
use ekiden_core::manifest::{Manifest, Take};

use crate::exit::Exit;
use crate::failure::Failure;
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
        let needed = needed_by(&graph, &only);
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

fn places(manifest: &Manifest, names: &[String]) -> Result<BTreeSet<usize>, Failure> {
    names.iter().map(|name| place(manifest, name)).collect()
}

fn place(manifest: &Manifest, name: &str) -> Result<usize, Failure> {
    let ids = || manifest.stages.iter().map(|stage| stage.id.as_str());
    if let Some(at) = ids().position(|id| id == name) {
        return Ok(at);
    }
    let failure = Failure::new(Exit::Usage, format!("there is no stage `{name}` in the manifest"));
    Err(match phrase::nearest(name, ids()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(format!("its stages are: {}", ids().take(20).collect::<Vec<_>>().join(", "))),
    })
}

/// Everything that some stages need, directly or not.
fn needed_by(graph: &Graph, stages: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut needed = BTreeSet::new();
    let mut next: Vec<usize> = stages.iter().copied().collect();
    while let Some(at) = next.pop() {
        next.extend(graph.needs(at).iter().copied().filter(|need| needed.insert(*need)));
    }
    needed
}
