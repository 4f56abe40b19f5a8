//! Shows a plan before it runs: waves, estimates, and every command that it would run.

use std::collections::{BTreeSet, HashMap};

use ekiden_core::ids::StageId;
use ekiden_core::manifest::graph::Graph;
use ekiden_core::manifest::{Isolation, Manifest, PlanRules, Stage, Take, Verification};
use ekiden_core::text::clean;
use serde::Serialize;

use super::select::left_out;
use crate::output::json::Fields;
use crate::output::line::{Line, Tone, one_line};
use crate::output::phrase;

/// A command that the plan would run, and for which stages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    pub command: String,
    pub stages: Vec<String>,
}

/// Every command that a plan would run, each once.
pub fn commands(manifest: &Manifest) -> Vec<Command> {
    let left_out = left_out(manifest);
    let setup = match manifest.plan.as_deref().map(|rules| &rules.isolation) {
        Some(Isolation::Worktrees { setup, .. }) => setup.as_deref(),
        Some(Isolation::InPlace) | None => None,
    };
    gathered(
        setup,
        manifest
            .stages
            .iter()
            .filter(|stage| !left_out.contains(&stage.id)),
    )
}

/// Every command in a manifest: the approval is for all of it, no matter which stages run today.
pub fn all_commands(manifest: &Manifest, setup: Option<&str>) -> Vec<Command> {
    gathered(setup, manifest.stages.iter())
}

fn gathered<'a>(setup: Option<&str>, stages: impl Iterator<Item = &'a Stage>) -> Vec<Command> {
    let mut all: Vec<Command> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut add = |command: &str, stage: &str| {
        let place = *places.entry(command.to_owned()).or_insert(all.len());
        if place == all.len() {
            all.push(Command {
                command: command.to_owned(),
                stages: Vec::new(),
            });
        }
        all[place].stages.push(stage.to_owned());
    };
    if let Some(setup) = setup {
        add(setup, "setup");
    }
    for stage in stages {
        let commands = stage.verification.iter().flat_map(Verification::commands);
        commands.for_each(|(command, _)| add(command, stage.id.as_str()));
    }
    all
}

/// The estimate of all stages that would run, in tokens.
fn estimate(manifest: &Manifest) -> u64 {
    let left_out = left_out(manifest);
    let runs = |stage: &&Stage| stage.part.take == Take::Run && !left_out.contains(&stage.id);
    let runs = manifest.stages.iter().filter(runs);
    runs.map(|stage| stage.part.estimate_tokens)
        .fold(0, u64::saturating_add)
}

/// The plan for programs.
pub fn answer(manifest: &Manifest) -> Fields {
    let (rules, left_out) = (manifest.plan.as_deref(), left_out(manifest));
    let text = |of: fn(&PlanRules) -> &String| rules.map(of).map_or("", String::as_str);
    let in_place = |rules: &PlanRules| rules.isolation == Isolation::InPlace;
    let wave = |wave: Vec<&Stage>| -> Vec<Fields> {
        let stages = wave.into_iter();
        stages.map(|stage| stage_answer(stage, &left_out)).collect()
    };
    let waves: Vec<_> = waves(manifest).into_iter().map(wave).collect();
    Fields::versioned()
        .with("project", text(|rules| &rules.project))
        .with("manifest", text(|rules| &rules.file))
        .with("hash", text(|rules| &rules.hash))
        .with("jobs", rules.map_or(1, |rules| rules.jobs))
        .with("worktrees", !rules.is_none_or(in_place))
        .with("estimate_tokens", estimate(manifest))
        .with("waves", waves)
        .with("commands", commands(manifest))
}

fn stage_answer(stage: &Stage, left_out: &BTreeSet<StageId>) -> Fields {
    let needs: Vec<&StageId> = stage.part.needs.iter().map(|need| &need.stage).collect();
    let take = match left_out.contains(&stage.id) {
        true => Take::Skip,
        false => stage.part.take,
    };
    let validation = stage.verification.as_ref().map(Verification::in_lines);
    Fields::default()
        .with("id", &stage.id)
        .with("name", &stage.task_name)
        .with("needs", needs)
        .with("take", take)
        .with("estimate_tokens", stage.part.estimate_tokens)
        .with("sessions_max", stage.sessions_max)
        .with("turns_max", stage.part.turns_max)
        .with("validation", validation)
        .with("outputs", &stage.part.outputs)
}

/// The stages by waves: those of one wave need nothing from each other.
fn waves(manifest: &Manifest) -> Vec<Vec<&Stage>> {
    let waves = Graph::of(&manifest.stages).waves().unwrap_or_default();
    let stages = |wave: Vec<usize>| wave.into_iter().map(|at| &manifest.stages[at]).collect();
    waves.into_iter().map(stages).collect()
}

/// The plan for people: its waves, then its commands, then its estimate.
pub fn lines(manifest: &Manifest) -> Vec<Line> {
    let Some(rules) = manifest.plan.as_deref() else {
        return Vec::new();
    };
    let stages = phrase::count(manifest.stages.len() as u64, "stage");
    let at_once = match rules.isolation {
        Isolation::InPlace => "one at a time in the work dir".to_owned(),
        Isolation::Worktrees { .. } => {
            format!("at most {} at a time, each in a worktree", rules.jobs)
        }
    };
    let head = Line::new(Tone::Plain, one_line(&rules.project))
        .with(Tone::Quiet, format!(" · {stages}, {at_once}"));
    let mut lines = vec![head];
    let width = manifest
        .stages
        .iter()
        .map(|stage| stage.id.as_str().len())
        .max()
        .unwrap_or(0);
    let left_out = left_out(manifest);
    for (number, wave) in waves(manifest).iter().enumerate() {
        lines.push(Line::new(Tone::Quiet, format!("wave {}", number + 1)));
        lines.extend(wave.iter().map(|stage| stage_line(stage, width, &left_out)));
    }
    lines.extend(command_lines("commands that it runs", &commands(manifest)));
    let tokens = estimate(manifest);
    if tokens > 0 {
        let text = format!(
            "about {} tokens in all, as the manifest says",
            phrase::tokens(tokens)
        );
        lines.push(Line::new(Tone::Quiet, text));
    }
    lines
}

/// Commands under a title, word for word and line by line: a person who approves them approves exactly what
/// they read.
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
        Take::Run | Take::Skip | Take::Assume if left_out.contains(&stage.id) => "left out: ",
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
        about.push(format!(
            "about {} tokens",
            phrase::tokens(stage.part.estimate_tokens)
        ));
    }
    if stage.verification.is_none() {
        about.push("no validation".to_owned());
    }
    let gap = if about.is_empty() { "" } else { "   " };
    let about = format!("{gap}{}", about.join(" · "));
    Line::new(
        Tone::Plain,
        format!("  {id:<width$}  {take}{}", one_line(&stage.task_name)),
    )
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
