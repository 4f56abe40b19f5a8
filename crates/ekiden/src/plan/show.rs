//! A plan before it runs: waves, estimates, and every command that it would run.

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::ids::StageId;
use ekiden_core::manifest::graph::Graph;
use ekiden_core::manifest::{Ground, Manifest, Stage, Take, Verification};
use ekiden_core::text::clean;
use serde::Serialize;

use super::select::left_out;
use crate::output::line::{Line, Tone, one_line};
use crate::output::phrase;

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// A plan, for programs.
#[derive(Debug, Serialize)]
pub struct PlanAnswer<'a> {
    v: u32,
    project: &'a str,
    manifest: &'a str,
    hash: &'a str,
    jobs: u32,
    worktrees: bool,
    estimate_tokens: u64,
    waves: Vec<Vec<StageAnswer<'a>>>,
    commands: Vec<Command>,
}

#[derive(Debug, Serialize)]
struct StageAnswer<'a> {
    id: &'a str,
    name: &'a str,
    needs: Vec<&'a str>,
    take: Take,
    estimate_tokens: u64,
    sessions_max: u32,
    turns_max: Option<u32>,
    validation: Option<String>,
    outputs: &'a [String],
}

/// A command that the plan would run, and for which stages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    /// For `sh -c`.
    pub command: String,
    /// What for.
    pub stages: Vec<String>,
}

/// Every command that a plan would run, each once.
#[must_use]
pub fn commands(manifest: &Manifest) -> Vec<Command> {
    let left_out = left_out(manifest);
    let setup = match manifest.plan.as_deref().map(|rules| &rules.ground) {
        Some(Ground::Worktrees { setup, .. }) => setup.as_deref(),
        Some(Ground::InPlace) | None => None,
    };
    gathered(setup, manifest.stages.iter().filter(|stage| !left_out.contains(&stage.id)))
}

/// Every command that stands in a manifest: what is approved is all of it, whichever stages run today.
#[must_use]
pub fn all_commands(manifest: &Manifest, setup: Option<&str>) -> Vec<Command> {
    gathered(setup, manifest.stages.iter())
}

fn gathered<'a>(setup: Option<&'a str>, stages: impl Iterator<Item = &'a Stage>) -> Vec<Command> {
    let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    let of_setup = setup.map(|setup| (setup, "setup"));
    let of_stage = |stage: &'a Stage| {
        let commands = stage.verification.iter().flat_map(Verification::commands);
        commands.map(|(command, _)| (command, stage.id.as_str()))
    };
    for (command, of) in of_setup.into_iter().chain(stages.flat_map(of_stage)) {
        let stages = all.entry(command).or_insert_with(|| {
            order.push(command);
            Vec::new()
        });
        stages.push(of.to_owned());
    }
    let stages = |command: &str| all.get(command).cloned().unwrap_or_default();
    order
        .into_iter()
        .map(|command| Command { command: command.to_owned(), stages: stages(command) })
        .collect()
}

/// What all stages that would run are thought to take, in tokens.
fn estimate(manifest: &Manifest) -> u64 {
    let left_out = left_out(manifest);
    let runs = |stage: &&Stage| stage.part.take == Take::Run && !left_out.contains(&stage.id);
    let runs = manifest.stages.iter().filter(runs);
    runs.map(|stage| stage.part.estimate_tokens).fold(0, u64::saturating_add)
}

/// The plan for programs.
#[must_use]
pub fn answer(manifest: &Manifest) -> PlanAnswer<'_> {
    let (rules, left_out) = (manifest.plan.as_deref(), left_out(manifest));
    PlanAnswer {
        v: JSON_VERSION,
        project: rules.map(|rules| rules.project.as_str()).unwrap_or_default(),
        manifest: rules.map(|rules| rules.file.as_str()).unwrap_or_default(),
        hash: rules.map(|rules| rules.hash.as_str()).unwrap_or_default(),
        jobs: rules.map_or(1, |rules| rules.jobs),
        worktrees: rules.is_some_and(|rules| rules.ground != Ground::InPlace),
        estimate_tokens: estimate(manifest),
        waves: waves(manifest)
            .into_iter()
            .map(|wave| wave.into_iter().map(|stage| stage_answer(stage, &left_out)).collect())
            .collect(),
        commands: commands(manifest),
    }
}

fn stage_answer<'a>(stage: &'a Stage, left_out: &BTreeSet<StageId>) -> StageAnswer<'a> {
    StageAnswer {
        id: stage.id.as_str(),
        name: &stage.task_name,
        needs: stage.part.needs.iter().map(|need| need.stage.as_str()).collect(),
        take: if left_out.contains(&stage.id) { Take::Skip } else { stage.part.take },
        estimate_tokens: stage.part.estimate_tokens,
        sessions_max: stage.sessions_max,
        turns_max: stage.part.turns_max,
        validation: stage.verification.as_ref().map(Verification::told),
        outputs: &stage.part.outputs,
    }
}

/// The stages by waves: those of one wave need nothing of each other.
fn waves(manifest: &Manifest) -> Vec<Vec<&Stage>> {
    let waves = Graph::of(&manifest.stages).waves().unwrap_or_default();
    waves.into_iter().map(|wave| wave.into_iter().map(|at| &manifest.stages[at]).collect()).collect()
}

/// The plan for people: its waves, then its commands, then what it is thought to take.
#[must_use]
pub fn lines(manifest: &Manifest) -> Vec<Line> {
    let Some(rules) = manifest.plan.as_deref() else { return Vec::new() };
    let stages = phrase::count(manifest.stages.len() as u64, "stage");
    let at_once = match rules.ground {
        Ground::InPlace => "one at a time in the work dir".to_owned(),
        Ground::Worktrees { .. } => format!("at most {} at a time, each in a worktree", rules.jobs),
    };
    let head =
        Line::new(Tone::Plain, one_line(&rules.project)).with(Tone::Quiet, format!(" · {stages}, {at_once}"));
    let mut lines = vec![head];
    let width = manifest.stages.iter().map(|stage| stage.id.as_str().len()).max().unwrap_or(0);
    let left_out = left_out(manifest);
    for (number, wave) in waves(manifest).iter().enumerate() {
        lines.push(Line::new(Tone::Quiet, format!("wave {}", number + 1)));
        lines.extend(wave.iter().map(|stage| stage_line(stage, width, &left_out)));
    }
    lines.extend(command_lines("commands that it runs", &commands(manifest)));
    let tokens = estimate(manifest);
    if tokens > 0 {
        let text = format!("about {} tokens in all, as the manifest says", phrase::tokens(tokens));
        lines.push(Line::new(Tone::Quiet, text));
    }
    lines
}

/// Commands under a title, word for word and line by line: whoever approves them approves what they read.
#[must_use]
pub fn command_lines(title: &str, commands: &[Command]) -> Vec<Line> {
    let mut lines = Vec::new();
    if !commands.is_empty() {
        lines.push(Line::new(Tone::Quiet, title));
    }
    for command in commands {
        let clean = clean(&command.command).text;
        let indents = std::iter::once("  ").chain(std::iter::repeat("    "));
        let mut of_command: Vec<Line> = clean
            .trim_end()
            .lines()
            .zip(indents)
            .map(|(line, indent)| Line::new(Tone::Plain, format!("{indent}{line}")))
            .collect();
        if let Some(last) = of_command.pop() {
            of_command.push(last.with(Tone::Quiet, format!("   ({})", some(&command.stages))));
        }
        lines.extend(of_command);
    }
    lines
}

fn stage_line(stage: &Stage, width: usize, left_out: &BTreeSet<StageId>) -> Line {
    let id = stage.id.as_str();
    let take = match stage.part.take {
        Take::Run | Take::Skip if left_out.contains(&stage.id) => "left out: ",
        Take::Run | Take::Skip => "",
        Take::Assume => "done before: ",
    };
    let mut about = Vec::new();
    if !stage.part.needs.is_empty() {
        let needs = stage.part.needs.iter().map(|need| {
            let optional = if need.optional { "?" } else { "" };
            format!("{}{optional}", need.stage)
        });
        about.push(format!("needs {}", needs.collect::<Vec<_>>().join(", ")));
    }
    if stage.part.estimate_tokens > 0 {
        about.push(format!("about {} tokens", phrase::tokens(stage.part.estimate_tokens)));
    }
    if stage.verification.is_none() {
        about.push("no validation".to_owned());
    }
    let about = if about.is_empty() { String::new() } else { format!("   {}", about.join(" · ")) };
    Line::new(Tone::Plain, format!("  {id:<width$}  {take}{}", one_line(&stage.task_name)))
        .with(Tone::Quiet, about)
}

fn some(stages: &[String]) -> String {
    match stages {
        [first, second, third, rest @ ..] if rest.len() > 1 => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        all => all.join(", "),
    }
}
