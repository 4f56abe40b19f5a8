//! Turns fields into a manifest and resolves names.
//!
//! It parses ids, matches needs with stages, and asks the caller for files and agents. Then it checks everything that
//! concerns several stages: duplicate ids, cycles, outputs that two stages could write at the same time. CASM and
//! cleave run one stage after the other, so their stages get edges that keep that order where it matters.

use std::collections::{HashMap, HashSet};

use ekiden_core::budget::Budget;
use ekiden_core::handoff::Marker;
use ekiden_core::ids::StageId;
use ekiden_core::limits::CYCLE_TOLD_MAX;
use ekiden_core::manifest::graph::Graph;
use ekiden_core::manifest::{Need, OnFail, Part, Stage, Verification};
use ekiden_core::prompt::summary_of;
use ekiden_core::text::one_line;

use crate::check::{RawStage, in_table};
use crate::document::{Architecture, Defaults, Document, Format, FoundText, Surroundings};
use crate::fault::{Fault, Faults, Findings, quoted};
use crate::fields::task;
use crate::order::{self, Links};
use crate::overlap::{self, Output};
use crate::tree::Node;

const ID_BYTES_MAX: usize = 64;
/// The files in which CASM looks for the architecture for its sessions, in this order.
const ARCHITECTURES: [&str; 3] = ["ARCHITECTURE.md", "architecture.md", "docs/architecture.md"];
/// The checks of a project. Stages can name one as the kind of their validation.
pub(crate) const CHECKS: [&str; 3] = ["type_check", "lint", "test"];

/// Everything in the terms of our own format.
pub(crate) struct Draft {
    pub(crate) format: Format,
    pub(crate) top: Node,
    pub(crate) stages: Vec<RawStage>,
    pub(crate) findings: Findings,
}

impl Draft {
    /// The document, unless a fault was found, here or earlier.
    pub(crate) fn into_document(
        mut self,
        defaults: &Defaults,
        around: &mut dyn Surroundings,
    ) -> Result<Document, Faults> {
        if self.stages.is_empty() && self.findings.is_empty() {
            self.findings.add(Fault::new(None, "there are no stages"));
        }
        let ids = self.stage_ids();
        let mut links = self.links();
        let graph = order::graph(&links);
        self.check_cycles(&graph);
        match self.format {
            Format::Ekiden => self.check_overlaps(&graph),
            Format::Casm => order::by_outputs(&outputs(&self.stages), &graph, &mut links),
            Format::Cleave => {
                let says_nothing = |stage: &RawStage| !stage.node.has("needs");
                let follows: Vec<bool> = self.stages.iter().map(says_nothing).collect();
                order::by_the_file(&follows, &graph, &mut links);
            }
        }
        let architecture = self.architecture(around);
        let top = &self.top;
        let checks = top.get("validation");
        let check = |kind: &&str| checks?.text(kind).map(str::to_owned);
        let mut own = CHECKS.iter().map(check);
        let checks = defaults.checks.clone();
        let checks = checks.map(|default| own.next().flatten().or(default));
        let worktree = top.get("worktree");
        if let Some(worktree) = worktree {
            ask_paths("worktree", worktree, &["copy"], around, &mut self.findings);
        }
        let mut document = Document {
            format: self.format,
            project: top.text("project").unwrap_or_default().to_owned(),
            jobs: top.whole("jobs"),
            copy: worktree.map_or_else(Vec::new, |worktree| worktree.texts("copy")),
            setup: worktree.and_then(|worktree| worktree.text("setup").map(str::to_owned)),
            stages: Vec::with_capacity(self.stages.len()),
            architecture,
            slips: self.findings.take_slips(),
        };
        for ((raw, needs), id) in self.stages.iter().zip(links).zip(&ids) {
            let mut stage = stage_of(raw, id.clone(), &checks, defaults);
            stage.part.needs = needs
                .into_iter()
                .map(|(place, optional)| Need {
                    stage: ids[place].clone(),
                    optional,
                })
                .collect();
            ask(raw, &mut stage, self.format, around, &mut self.findings);
            document.stages.push(stage);
        }
        self.findings.or(document)
    }

    /// The id of each stage. Ids of other formats may be any text; ours are made from them.
    fn stage_ids(&mut self) -> Vec<StageId> {
        let mut seen: HashSet<String> = HashSet::with_capacity(self.stages.len());
        let mut taken: HashSet<String> = HashSet::new();
        let is_ours = self.format == Format::Ekiden;
        let findings = &mut self.findings;
        let mut id = |(stage, number): (&RawStage, usize)| {
            let (line, text) = stage.node.spot("id")?;
            let folded = if is_ours {
                text.to_ascii_lowercase()
            } else {
                text.to_owned()
            };
            if !seen.insert(folded) {
                let text = format!("id {} is already that of another stage", quoted(text));
                findings.say(line, &text);
            }
            let id = if is_ours {
                text.to_owned()
            } else {
                own_id(text, number, &mut taken)
            };
            id_of(id).map_err(|what| findings.say(line, &what)).ok()
        };
        let stages = self.stages.iter().zip(1_usize..);
        stages
            .map(|stage| id(stage).unwrap_or_else(StageId::only))
            .collect()
    }

    /// Looks up what each stage needs.
    fn links(&mut self) -> Links {
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(self.stages.len());
        for (stage, place) in self.stages.iter().zip(0..) {
            if let Some(id) = stage.node.text("id") {
                places.entry(id).or_insert(place);
            }
        }
        let mut links: Links = Vec::with_capacity(self.stages.len());
        for (RawStage { who, node }, own) in self.stages.iter().zip(0_usize..) {
            let mut found: Vec<(usize, bool)> = Vec::new();
            for need in node.get("needs").map_or(&[][..], Node::list) {
                let Some(name) = need.as_text().or_else(|| need.text("stage")) else {
                    continue;
                };
                match places.get(name) {
                    None if name.trim().is_empty() => {
                        let text = format!("{who}: an id that it needs is empty");
                        self.findings.say(need.line, &text);
                    }
                    Some(place) if *place == own => {
                        self.findings.say(need.line, &format!("{who} needs itself"));
                    }
                    Some(place) => {
                        // In cleave a stage that is skipped counts as met.
                        let is_skipped = self.format == Format::Cleave
                            && on_fail(&self.stages[*place].node) == OnFail::Skip;
                        found.push((*place, is_skipped || need.is_true("optional")));
                    }
                    None => {
                        let ids = self.stages.iter().filter_map(|stage| stage.node.text("id"));
                        let near = self.findings.nearest(name, ids);
                        let text = format!("{who} needs {}, which does not exist", quoted(name));
                        self.findings.add(Fault::new(need.line, &text).hint(near));
                    }
                }
            }
            links.push(found);
        }
        order::tidy(&mut links);
        links
    }

    fn check_cycles(&mut self, graph: &Graph) {
        for cycle in graph.cycles() {
            let name = |place: &usize| {
                let id = self.stages[*place].node.text("id");
                one_line(id.unwrap_or_default(), ID_BYTES_MAX)
            };
            let (shown, rest) = cycle.split_at(cycle.len().min(CYCLE_TOLD_MAX));
            let mut words: Vec<String> = shown.iter().map(name).collect();
            if !rest.is_empty() {
                words.push(format!("({} more)", rest.len()));
            }
            words.extend(cycle.first().map(name));
            let line = cycle.first().map(|place| self.stages[*place].node.line);
            let fault = Fault::new(line, &format!("cycle: {}", words.join(" -> ")));
            self.findings.add(fault);
        }
    }

    fn check_overlaps(&mut self, graph: &Graph) {
        let outputs = outputs(&self.stages);
        let overlaps = overlap::find(&outputs, graph);
        for (one, other) in overlaps.pairs {
            let text = format!(
                "{}: output {} may be written at the same time by {}",
                self.stages[other.stage].who,
                quoted(other.pattern),
                self.stages[one.stage].who,
            );
            let hint = "let one need the other, or give them different outputs".to_owned();
            self.findings.add(Fault::new(other.line, &text).hint(hint));
        }
        if overlaps.too_many {
            let text = "outputs: too many globs to compare with each other";
            let hint = "begin globs with the directory that they are for".to_owned();
            self.findings.add(Fault::new(None, text).hint(hint));
        }
    }

    /// The architecture document for the stages. CASM gives its sessions the first of a few usual files and
    /// never reads the one that its manifest names, so neither has to exist.
    fn architecture(&mut self, around: &mut dyn Surroundings) -> Option<Architecture> {
        let of = |found: FoundText| Architecture {
            summary: summary_of(&found.text, &found.name),
            name: found.name,
        };
        let is_casm = self.format == Format::Casm;
        if let Some((line, name)) = self.top.spot("architecture") {
            let what = match around.architecture(name) {
                Ok(Some(found)) => return Some(of(found)),
                Ok(None) if is_casm => None,
                Ok(None) => Some("does not exist".to_owned()),
                Err(what) => Some(what),
            };
            if let Some(what) = what {
                let text = format!("architecture {} {what}", quoted(name));
                self.findings.say(line, &text);
            }
        }
        let usual: &[&str] = if is_casm { &ARCHITECTURES } else { &[] };
        let mut found = |name: &&str| Some(of(around.architecture(name).ok()??));
        usual.iter().find_map(&mut found)
    }
}

/// Everything that any stage writes.
fn outputs(stages: &[RawStage]) -> Vec<Output<'_>> {
    let mut outputs = Vec::new();
    for (RawStage { node, .. }, stage) in stages.iter().zip(0..) {
        outputs.extend(node.spots("outputs").map(|(line, pattern)| Output {
            stage,
            pattern,
            line,
        }));
    }
    outputs
}

fn on_fail(stage: &Node) -> OnFail {
    match stage.text("on_fail") {
        Some("stop") => OnFail::Stop,
        Some("skip") => OnFail::Skip,
        Some(_) | None => OnFail::Block,
    }
}

/// The stage without its needs, its agent and the text of a prompt's file.
fn stage_of(
    RawStage { node, .. }: &RawStage,
    id: StageId,
    checks: &[Option<String>; 3],
    defaults: &Defaults,
) -> Stage {
    let mut seen = HashSet::new();
    let outputs = node.spots("outputs").map(|(_, output)| output.to_owned());
    let outputs: Vec<String> = outputs
        .filter(|output| seen.insert(output.clone()))
        .collect();
    let turns_max = node.whole("turns_max").or(defaults.turns_max);
    let session_tokens = node.whole("session_tokens");
    Stage {
        id,
        task: node.text("prompt").unwrap_or_default().to_owned(),
        task_name: node.text("name").unwrap_or_default().to_owned(),
        verification: verification(node.get("validation"), checks, &outputs, defaults),
        claim_needed: true,
        sessions_max: node.whole("sessions_max").unwrap_or(defaults.sessions_max),
        part: Part {
            context: node.texts("context"),
            outputs,
            on_fail: on_fail(node),
            retries: node.whole("retries").unwrap_or(defaults.retries),
            estimate_tokens: node.whole("estimate_tokens").unwrap_or(0),
            session: Budget {
                micro_usd: node.whole("session_budget_usd"),
                tokens: None,
            },
            session_tokens: Some(session_tokens.unwrap_or(defaults.session_tokens)),
            turns_max,
            marker: node
                .text("marker")
                .and_then(|marker| Marker::try_from(marker.to_owned()).ok()),
            runs_on: node.texts("runs_on").into_iter().collect(),
            review: node.is_true("review"),
            review_model: node
                .text("review_model")
                .map(str::to_owned)
                .or(defaults.review_model.clone()),
            knowledge_apart: node.is_true("knowledge_apart"),
            ..Part::default()
        },
    }
}

/// Everything that is checked when the stage claims to be done: its own validation, the project's checks, and
/// its outputs, which must exist.
fn verification(
    validation: Option<&Node>,
    checks: &[Option<String>; 3],
    outputs: &[String],
    defaults: &Defaults,
) -> Option<Verification> {
    let (mut command, mut exit_code, mut files) = (None, 0, Vec::new());
    if let Some(validation) = validation {
        match validation.text("kind").unwrap_or_default() {
            "command" => {
                command = validation.text("command").map(str::to_owned);
                exit_code = validation.whole("exit_code").unwrap_or(0);
            }
            "files" => files = validation.texts("files"),
            kind => {
                let named = CHECKS.iter().zip(checks).find(|(check, _)| **check == kind);
                command = named.and_then(|(_, command)| command.clone());
            }
        }
    }
    let missing: Vec<String> = outputs
        .iter()
        .filter(|output| !files.contains(output))
        .cloned()
        .collect();
    files.extend(missing);
    let mut beside: Vec<String> = Vec::new();
    for check in checks.iter().flatten() {
        let is_own = exit_code == 0 && command.as_ref() == Some(check);
        if !is_own && !beside.contains(check) {
            beside.push(check.clone());
        }
    }
    let is_checked = command.is_some() || !beside.is_empty() || !files.is_empty();
    is_checked.then(|| Verification {
        command: command.unwrap_or_default(),
        timeout: defaults.timeout,
        exit_code,
        beside,
        files,
    })
}

/// Asks whether the paths in these fields stay in the project.
fn ask_paths(
    who: &str,
    node: &Node,
    fields: &[&str],
    around: &mut dyn Surroundings,
    findings: &mut Findings,
) {
    for field in fields {
        for (line, path) in node.spots(field) {
            if let Err(what) = around.stays_inside(path) {
                let text = format!("{field} {} {what}", quoted(path));
                findings.say(line, &in_table(who, &text));
            }
        }
    }
}

/// Asks for the prompt's file, the agent, and where paths lead.
fn ask(
    RawStage { who, node }: &RawStage,
    stage: &mut Stage,
    format: Format,
    around: &mut dyn Surroundings,
    findings: &mut Findings,
) {
    if let Some((line, file)) = node.spot("prompt_file") {
        match around.prompt(format, file).and_then(|text| task(&text)) {
            Ok(task) => stage.task = task,
            Err(what) => findings.say(line, &format!("{who}: prompt {} {what}", quoted(file))),
        }
    }
    ask_paths(who, node, &["context", "outputs"], around, findings);
    if let Some(validation) = node.get("validation") {
        ask_paths(who, validation, &["files"], around, findings);
    }
    let (agent, model) = (node.spot("agent"), node.spot("model"));
    if let Some((line, _)) = agent.or(model) {
        match around.agent(agent.map(|spot| spot.1), model.map(|spot| spot.1)) {
            Ok(agent) => stage.part.agent = Some(Box::new(agent)),
            Err(what) => findings.say(line, &format!("{who}: {what}")),
        }
    }
}

/// An id that can name a file and a branch, or the reason why the text is not one.
fn id_of(text: String) -> Result<StageId, String> {
    let lower = text.to_ascii_lowercase();
    if text.contains("..") || text.ends_with('.') || lower.ends_with(".lock") {
        let id = quoted(&text);
        return Err(format!("id {id} cannot be part of a branch's name"));
    }
    StageId::try_from(text)
        .map_err(|error| format!("id {} is not {}", quoted(&error.text), error.expected))
}

/// An id made from any text. Characters that an id may not have become `-`.
pub fn made_id(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let letters = text.trim().chars();
    let letters = letters.map(|c| if fits(c) { c } else { '-' });
    let mut id: String = letters.take(ID_BYTES_MAX).collect();
    while id.contains("..") {
        id = id.replace("..", ".");
    }
    match id.trim_matches(['.', '-']) {
        "" => None,
        id if id.to_ascii_lowercase().ends_with(".lock") => Some(id.replace('.', "-")),
        id => Some(id.to_owned()),
    }
}

/// The same for a stage. Its number, or a higher one, makes it unique without regard to case.
fn own_id(text: &str, number: usize, taken: &mut HashSet<String>) -> String {
    let mut id = made_id(text).unwrap_or_else(|| format!("stage-{number}"));
    let mut own = id.clone();
    for number in number.. {
        if taken.insert(own.to_ascii_lowercase()) {
            break;
        }
        let end = format!("-{number}");
        id.truncate(ID_BYTES_MAX - end.len());
        own = format!("{id}{end}");
    }
    own
}
