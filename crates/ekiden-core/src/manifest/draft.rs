//! A manifest on its way from the file to the document: fields are read, names are not yet looked up.
//!
//! Here ids become ids, needs find their stages, and what concerns several stages is checked: ids that are
//! there twice, cycles, outputs that stages at work at the same time would both write. Formats whose stages
//! work one after the other get the edges that keep them in order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::Need;
use super::document::{Document, Format, Spot, Stage};
use super::fault::{Fault, Faults, Findings, quoted};
use super::graph::Graph;
use super::order::{self, Links};
use super::overlap::{self, Output};
use super::resolve::{Answers, Surroundings};
use super::shape::View;
use crate::ids::StageId;
use crate::limits::CYCLE_TOLD_MAX;
use crate::text::one_line;

/// The longest id.
const ID_BYTES_MAX: usize = 64;

/// A manifest whose names are not looked up.
pub(super) struct Draft {
    pub(super) document: Document,
    pub(super) stages: Vec<DraftStage>,
    pub(super) ids: Ids,
}

/// Where ids come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// The file's are ours.
    AsTheyAre,
    /// Ours are made of another format's, which may be any text.
    Made,
}

/// A stage whose id, needs and outputs still are as the file says them.
pub(super) struct DraftStage {
    pub(super) stage: Stage,
    pub(super) who: String,
    pub(super) id: Spot<String>,
    pub(super) needs: Vec<RawNeed>,
    pub(super) outputs: Vec<Spot<String>>,
    /// It says nothing of what it needs, where that means: whatever stands before it.
    pub(super) follows: bool,
}

/// An edge to a name.
pub(super) struct RawNeed {
    pub(super) line: u32,
    pub(super) stage: String,
    pub(super) optional: bool,
}

impl RawNeed {
    pub(super) fn plain(spot: Spot<String>) -> Self {
        Self { line: spot.line, stage: spot.value, optional: false }
    }
}

impl DraftStage {
    pub(super) fn new(
        stage: Stage,
        view: &View<'_>,
        id: &str,
        needs: Vec<RawNeed>,
        outputs: Vec<Spot<String>>,
    ) -> Self {
        let id = view.spot(id).unwrap_or(Spot { line: view.line, value: "" }).owned();
        Self { stage, who: view.who.clone(), id, needs, outputs, follows: false }
    }
}

impl Draft {
    /// The document, if nothing was found to be wrong, here or before, nor by asking those around.
    pub(super) fn into_document(
        mut self,
        mut findings: Findings,
        around: Option<&mut dyn Surroundings>,
    ) -> Result<Document, Faults> {
        if self.stages.is_empty() && findings.is_empty() {
            findings.add(Fault::new(None, "there are no stages"));
        }
        self.name_stages(&mut findings);
        let mut links = self.links(&mut findings);
        let graph = order::graph(&links);
        self.check_cycles(&graph, &mut findings);
        match self.document.format {
            Format::Ekiden => self.check_overlaps(&graph, &mut findings),
            Format::Casm => order::by_outputs(&self.outputs(), &graph, &mut links),
            Format::Cleave => {
                let follows: Vec<bool> = self.stages.iter().map(|stage| stage.follows).collect();
                order::by_the_file(&follows, &graph, &mut links);
            }
        }
        self.link(links);
        if let Some(around) = around {
            self.ask(around, &mut findings);
        }
        let Self { mut document, stages, .. } = self;
        document.stages = stages.into_iter().map(DraftStage::finished).collect();
        document.slips = findings.take_slips();
        findings.or(document)
    }

    /// What the text cannot tell. The answers are asked for again when a run begins, and may be others then.
    fn ask(&self, around: &mut dyn Surroundings, findings: &mut Findings) {
        self.document.followed(around, findings);
        for stage in &self.stages {
            Answers::to(self.document.format, &stage.stage, &stage.who, around, findings);
        }
    }

    /// Gives each stage its id.
    fn name_stages(&mut self, findings: &mut Findings) {
        let mut first: HashMap<String, u32> = HashMap::with_capacity(self.stages.len());
        let made = self.ids == Ids::Made;
        for (stage, number) in self.stages.iter_mut().zip(1_usize..) {
            let Spot { line, value } = &stage.id;
            if value.trim().is_empty() {
                continue;
            }
            let folded = if made { value.clone() } else { value.to_ascii_lowercase() };
            match first.entry(folded) {
                Entry::Occupied(first) => {
                    let text = format!("id {} is already that of line {}", quoted(value), first.get());
                    findings.say(*line, &text);
                }
                Entry::Vacant(vacant) => {
                    vacant.insert(*line);
                }
            }
            let text = if made { made_id(value, number) } else { value.clone() };
            match id_of(text) {
                Ok(id) => stage.stage.id = id,
                Err(what) => findings.say(*line, &what),
            }
        }
        if made && findings.is_empty() {
            part(&mut self.stages);
        }
    }

    /// Looks up what each stage needs.
    fn links(&self, findings: &mut Findings) -> Links {
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(self.stages.len());
        for (stage, place) in self.stages.iter().zip(0..) {
            places.entry(&stage.id.value).or_insert(place);
        }
        let mut links: Links = Vec::with_capacity(self.stages.len());
        for (stage, own) in self.stages.iter().zip(0_usize..) {
            let mut found: Vec<(usize, bool)> = Vec::new();
            for need in &stage.needs {
                match places.get(need.stage.as_str()) {
                    None if need.stage.trim().is_empty() => {
                        findings.say(need.line, &format!("{}: an id that it needs is empty", stage.who));
                    }
                    Some(place) if *place == own => {
                        findings.say(need.line, &format!("{} needs itself", stage.who));
                    }
                    Some(place) => found.push((*place, need.optional)),
                    None => {
                        let near = findings.nearest(&need.stage, ids(&self.stages));
                        findings.add(unknown(stage, need, near));
                    }
                }
            }
            links.push(found);
        }
        order::tidy(&mut links);
        links
    }

    /// Gives each stage its needs.
    fn link(&mut self, links: Links) {
        let own: Vec<StageId> = self.stages.iter().map(|stage| stage.stage.id.clone()).collect();
        let need = |(place, optional): (usize, bool)| Need { stage: own[place].clone(), optional };
        for (stage, found) in self.stages.iter_mut().zip(links) {
            stage.stage.needs = found.into_iter().map(need).collect();
        }
    }

    fn check_cycles(&self, graph: &Graph, findings: &mut Findings) {
        for cycle in graph.cycles() {
            let name = |place: &usize| one_line(&self.stages[*place].id.value, ID_BYTES_MAX);
            let (shown, rest) = cycle.split_at(cycle.len().min(CYCLE_TOLD_MAX));
            let mut words: Vec<String> = shown.iter().map(name).collect();
            if !rest.is_empty() {
                words.push(format!("({} more)", rest.len()));
            }
            words.extend(cycle.first().map(name));
            let line = cycle.first().map(|place| self.stages[*place].stage.line);
            findings.add(Fault::new(line, &format!("cycle: {}", words.join(" -> "))));
        }
    }

    /// Everything that any stage writes.
    fn outputs(&self) -> Vec<Output<'_>> {
        self.stages
            .iter()
            .zip(0..)
            .flat_map(|(stage, place)| stage.outputs.iter().map(move |spot| (spot, place)))
            .map(|(spot, stage)| Output { stage, pattern: &spot.value, line: spot.line })
            .collect()
    }

    fn check_overlaps(&self, graph: &Graph, findings: &mut Findings) {
        for overlap in overlap::find(&self.outputs(), graph) {
            match overlap {
                overlap::Found::Both(one, other) => {
                    let text = format!(
                        "{}: output {} may be written at the same time by {}, line {}",
                        self.stages[other.stage].who,
                        quoted(other.pattern),
                        self.stages[one.stage].who,
                        one.line,
                    );
                    let hint = "let one need the other, or give them different outputs";
                    findings.add(Fault::new(other.line, &text).hint(hint));
                }
                overlap::Found::TooMany => {
                    let text = "outputs: too many globs to compare with each other";
                    findings
                        .add(Fault::new(None, text).hint("begin globs with the directory that they are for"));
                }
            }
        }
    }
}

impl DraftStage {
    fn finished(self) -> Stage {
        let mut outputs: Vec<String> = Vec::with_capacity(self.outputs.len());
        for spot in self.outputs {
            if !outputs.contains(&spot.value) {
                outputs.push(spot.value);
            }
        }
        Stage { outputs, ..self.stage }
    }
}

fn ids(stages: &[DraftStage]) -> impl Iterator<Item = &str> {
    stages.iter().map(|stage| stage.id.value.as_str())
}

fn unknown(stage: &DraftStage, need: &RawNeed, near: Option<String>) -> Fault {
    let text = format!("{} needs {}, which does not exist", stage.who, quoted(&need.stage));
    Fault::new(need.line, &text).hint_if(near)
}

/// An id that can name a file and a branch, or what is wrong with the text.
fn id_of(text: String) -> Result<StageId, String> {
    let lower = text.to_ascii_lowercase();
    if text.contains("..") || text.ends_with('.') || lower.ends_with(".lock") {
        return Err(format!("id {} cannot be part of a branch's name", quoted(&text)));
    }
    StageId::try_from(text).map_err(|error| format!("id {} is not {}", quoted(&error.text), error.expected))
}

/// An id made of any text: what an id may not hold becomes `-`.
fn made_id(text: &str, number: usize) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let mut id: String = text.trim().chars().map(fits).take(ID_BYTES_MAX).collect();
    while id.contains("..") {
        id = id.replace("..", ".");
    }
    let id = id.trim_matches(['.', '-']);
    let id = if id.to_ascii_lowercase().ends_with(".lock") { id.replace('.', "-") } else { id.to_owned() };
    if id.is_empty() { format!("stage-{number}") } else { id }
}

/// Ids that were made of different texts and came out the same, but for case, get a number.
fn part(stages: &mut [DraftStage]) {
    let mut taken: HashSet<String> = HashSet::with_capacity(stages.len());
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for stage in stages {
        let plain = stage.stage.id.as_str().to_owned();
        let mut id = plain.clone();
        while !taken.insert(id.to_ascii_lowercase()) {
            let number = numbers.entry(plain.to_ascii_lowercase()).or_insert(1);
            *number += 1;
            let end = format!("-{number}");
            id = plain.chars().take(ID_BYTES_MAX - end.len()).chain(end.chars()).collect();
        }
        if let Ok(id) = id_of(id) {
            stage.stage.id = id;
        }
    }
}
