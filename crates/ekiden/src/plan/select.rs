//! Which stages a run carries out: `--from`, `--only`, `--skip`.

use std::collections::BTreeSet;

use ekiden_core::ids::StageId;
use ekiden_core::manifest::graph::Graph;
use ekiden_core::manifest::{Manifest, Need, Stage, Take};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::one_line;

#[derive(Debug, Default)]
pub struct Selection<'a> {
    /// Everything that this stage needs, directly or not, was done already.
    pub from: Option<&'a str>,
    /// Only these; what they need was done already.
    pub only: &'a [String],
    /// Not these, nor the stages that need them.
    pub skip: &'a [String],
}

/// Marks the stages of a manifest.
pub fn select(manifest: &mut Manifest, selection: &Selection<'_>) -> Result<(), Failure> {
    refuse_contradictions(selection)?;
    if let Some(from) = selection.from {
        let from = BTreeSet::from([place(manifest, from)?]);
        for at in needed_by(manifest, &from, |_| true) {
            manifest.stages[at].part.take = Take::Assume;
        }
    }
    if !selection.only.is_empty() {
        let only = places(manifest, selection.only)?;
        let needed = needed_by(manifest, &only, |need| !need.optional);
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
    let is_assumed = |stage: &&Stage| stage.part.take == Take::Assume;
    let mut assumed = manifest.stages.iter().filter(is_assumed);
    if let Some(stage) = assumed.find(|stage| stage.verification.is_none()) {
        let (id, flag) = (&stage.id, selection.from.map_or("--only", |_| "--from"));
        let text = format!(
            "stage {id} has neither validation nor outputs, so nothing can show that it was done"
        );
        let hint = format!("give it a validation, or run it as well: `{flag} {id}`");
        return Err(Failure::new(Exit::Usage, text).hint(hint));
    }
    let left_out = left_out(manifest);
    let runs = |stage: &Stage| stage.part.take == Take::Run && !left_out.contains(&stage.id);
    if selection.skip.is_empty() || manifest.stages.iter().any(runs) {
        return Ok(());
    }
    let text = "`--skip` leaves out every stage: those that it names, and those that need them";
    Err(Failure::new(Exit::Usage, text).hint("`--dry-run` without `--skip` shows what needs what"))
}

/// Refuses a stage that is both wanted and left out.
fn refuse_contradictions(selection: &Selection<'_>) -> Result<(), Failure> {
    let only = selection.only.iter().map(String::as_str);
    let mut wanted = selection.from.into_iter().chain(only);
    let is_skipped = |wanted: &&str| selection.skip.iter().any(|skipped| skipped == wanted);
    let Some(both) = wanted.find(is_skipped) else {
        return Ok(());
    };
    let text = format!("stage `{}` is both selected and skipped", one_line(both));
    Err(Failure::new(Exit::Usage, text).hint("name it in one place"))
}

/// The stages that will not run: those that are left out, and those that need them. Optional needs do not
/// count.
pub fn left_out(manifest: &Manifest) -> BTreeSet<StageId> {
    let mut left_out = BTreeSet::new();
    let order = Graph::of(&manifest.stages).order().unwrap_or_default();
    for stage in order.into_iter().map(|at| &manifest.stages[at]) {
        let mut required = stage.part.needs.iter().filter(|need| !need.optional);
        let is_left_out = match stage.part.take {
            Take::Skip => true,
            Take::Run | Take::Assume => required.any(|need| left_out.contains(&need.stage)),
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
    let first: Vec<&str> = ids().take(20).collect();
    let stages = format!("its stages are: {}", first.join(", "));
    Err(Failure::new(Exit::Usage, text).suggest(name, ids(), &stages))
}

/// All stages that these need, directly or not, by needs that count.
fn needed_by(
    manifest: &Manifest,
    stages: &BTreeSet<usize>,
    counts: fn(&Need) -> bool,
) -> BTreeSet<usize> {
    let graph = Graph::of(&manifest.stages);
    let mut needed = BTreeSet::new();
    let mut next: Vec<usize> = stages.iter().copied().collect();
    while let Some(at) = next.pop() {
        let needs = &manifest.stages[at].part.needs;
        let is_counted = |need: &usize| {
            let id = &manifest.stages[*need].id;
            needs.iter().any(|need| counts(need) && need.stage == *id)
        };
        let places = graph.needs(at).iter().copied().filter(is_counted);
        next.extend(places.filter(|need| needed.insert(*need)));
    }
    needed
}
