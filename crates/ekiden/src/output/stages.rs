//! What the stages of a plan have to tell, beside what their relays tell.

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::effect::{Effect, GroundEffect};
use ekiden_core::event::{Delivery, Event, GroundEvent, Merge};
use ekiden_core::ids::StageId;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::time::Millis;
use serde::Serialize;

use super::line::{Line, Tone, one_line};
use super::phrase;

/// Files that are named of many.
const FILES_SHOWN: usize = 5;

/// A plan that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanNews {
    /// Its manifest.
    pub manifest: String,
    /// How many stages it has.
    pub stages: usize,
    /// How many of them may work at the same time.
    pub jobs: usize,
    /// They work in worktrees of their own.
    pub worktrees: bool,
}

/// Something that a stage has to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum StageNews {
    /// It begins.
    Begins {
        /// What it is called.
        name: String,
    },
    /// Its last try failed; it is tried again.
    TriedAgain {
        /// Which try this is, from 2.
        attempt: u32,
        /// How many there may be.
        max: u32,
        /// How the last one failed.
        why: String,
    },
    /// It has no place to work.
    NoGround {
        /// Why.
        why: String,
    },
    /// What it did is part of the whole.
    Merged {
        /// The whole's newest commit.
        commit: String,
        /// How many files it changed.
        files: usize,
        /// Files that it changed and had not declared.
        undeclared: Vec<String>,
    },
    /// It changed the same lines as others did; it is to put that right.
    Conflict {
        /// In these files.
        files: Vec<String>,
    },
    /// It merges, but then its validation fails; it is to put that right.
    MergeBroke {
        /// How the validation ended.
        check: String,
    },
    /// What it did cannot be merged.
    MergeFailed {
        /// Why.
        error: String,
    },
    /// It is over.
    Over(StageOver),
}

/// How a stage is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum StageOver {
    /// Done, and part of the whole.
    Done {
        /// Sessions that it took.
        sessions: u32,
        /// Time that its agents ran.
        #[serde(rename = "running_ms")]
        running: Millis,
        /// What it used of a budget of tokens.
        tokens: u64,
    },
    /// Its last try failed.
    Failed {
        /// How.
        outcome: Outcome,
        /// The plan says that this does not matter.
        skipped: bool,
    },
    /// It needs a stage that failed.
    Blocked {
        /// Which.
        by: StageId,
    },
    /// The user left it out.
    LeftOut {
        /// Or this one, which it needs.
        with: Option<StageId>,
    },
}

/// What was told of the stages so far.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    over: BTreeSet<StageId>,
    tries: BTreeMap<StageId, u32>,
}

impl Stages {
    /// What a record tells of stages. Nothing for a relay that stands alone.
    pub fn tell(&mut self, record: &Record, run: &Run) -> Vec<(StageId, StageNews)> {
        if run.header().manifest.plan.is_none() {
            return Vec::new();
        }
        let mut told = Vec::new();
        match &record.event {
            Event::Ground { stage, event } => {
                told.extend(of_ground(event).map(|news| (stage.clone(), news)));
            }
            Event::Stage { stage, .. } => told.extend(self.tried_again(stage, run)),
            Event::RunResumed(_) => {
                let is_over = |stage: &StageId| matches!(run.plan().state(stage), Some(StageState::Over(_)));
                self.over.retain(is_over);
            }
            Event::RunStarted(_)
            | Event::Continued(_)
            | Event::LogicChanged { .. }
            | Event::UtcOffsetChanged { .. }
            | Event::Woke
            | Event::Delivered { .. }
            | Event::StopRequested(_)
            | Event::Steered(_) => {}
        }
        told.extend(self.new_ends(run));
        for effect in &record.effects {
            if let Effect::Ground { stage, effect: GroundEffect::Prepare } = effect {
                let name = run.stage(stage).map(|stage| one_line(&stage.task_name)).unwrap_or_default();
                told.push((stage.clone(), StageNews::Begins { name }));
            }
        }
        told
    }

    fn tried_again(&mut self, stage: &StageId, run: &Run) -> Option<(StageId, StageNews)> {
        let attempt = run.plan().tries(stage);
        let before = self.tries.insert(stage.clone(), attempt).unwrap_or(1);
        let max = run.stage(stage).map_or(1, |stage| stage.part.retries + 1);
        let why = run.last_failure(stage).map(one_line).unwrap_or_default();
        (attempt > before).then(|| (stage.clone(), StageNews::TriedAgain { attempt, max, why }))
    }

    fn new_ends(&mut self, run: &Run) -> Vec<(StageId, StageNews)> {
        if run.plan().over() == self.over.len() {
            return Vec::new();
        }
        let mut told = Vec::new();
        for (stage, state) in run.plan().states() {
            if let StageState::Over(end) = state
                && self.over.insert(stage.clone())
            {
                told.push((stage.clone(), StageNews::Over(over(end, run.relay(stage)))));
            }
        }
        told
    }
}

fn over(end: &StageEnd, relay: Option<&Relay>) -> StageOver {
    match end {
        StageEnd::Done => {
            let tally = relay.map(Relay::tally).unwrap_or_default();
            StageOver::Done { sessions: tally.sessions, running: tally.running, tokens: tally.tokens }
        }
        StageEnd::Failed(outcome) => StageOver::Failed { outcome: outcome.clone(), skipped: false },
        StageEnd::Skipped(outcome) => StageOver::Failed { outcome: outcome.clone(), skipped: true },
        StageEnd::Blocked { by } => StageOver::Blocked { by: by.clone() },
        StageEnd::LeftOut { with } => StageOver::LeftOut { with: with.clone() },
    }
}

fn of_ground(event: &GroundEvent) -> Option<StageNews> {
    match event {
        GroundEvent::Prepared { ground: Err(why), .. } => Some(StageNews::NoGround { why: one_line(why) }),
        GroundEvent::Prepared { ground: Ok(_), .. } | GroundEvent::Confirmed { .. } => None,
        GroundEvent::Merged { merge, .. } => match merge {
            Merge::Done { commit, files, undeclared } => Some(StageNews::Merged {
                commit: commit.clone(),
                files: files.len(),
                undeclared: undeclared.iter().map(|file| one_line(file)).collect(),
            }),
            Merge::Conflict { files } => {
                Some(StageNews::Conflict { files: files.iter().map(|file| one_line(file)).collect() })
            }
            Merge::Broken { check } => Some(StageNews::MergeBroke { check: one_line(&check.to_string()) }),
            Merge::Failed { error } => Some(StageNews::MergeFailed { error: one_line(error) }),
            Merge::Cancelled => None,
        },
    }
}

/// The lines of one piece of news.
#[must_use]
pub fn lines(news: &StageNews) -> Vec<Line> {
    match news {
        StageNews::Begins { name } => {
            vec![Line::new(Tone::Plain, "begins").with(Tone::Quiet, format!(" · {name}"))]
        }
        StageNews::TriedAgain { attempt, max, why } => {
            vec![Line::attention(format!("failed: {why}; try {attempt} of {max} begins"))]
        }
        StageNews::NoGround { why } => vec![Line::attention(format!("has no place to work: {why}"))],
        StageNews::Merged { commit, files, undeclared } => merged(commit, *files, undeclared),
        StageNews::Conflict { files } => {
            let text =
                format!("changed the same lines as others: {}; it goes back to be put right", some(files));
            vec![Line::attention(text)]
        }
        StageNews::MergeBroke { check } => {
            let text = format!("merges, but then its validation {check}; it goes back to be put right");
            vec![Line::attention(text)]
        }
        StageNews::MergeFailed { error } => vec![Line::attention(format!("cannot be merged: {error}"))],
        StageNews::Over(over) => vec![over_line(over)],
    }
}

fn merged(commit: &str, files: usize, undeclared: &[String]) -> Vec<Line> {
    let commit: String = commit.chars().take(7).collect();
    let files = phrase::count(files as u64, "file");
    let line = Line::labelled("merged", Tone::Plain, format!("{commit}, {files}, valid"));
    let beside = (!undeclared.is_empty())
        .then(|| Line::attention(format!("changed what it had not declared: {}", some(undeclared))));
    std::iter::once(line).chain(beside).collect()
}

fn over_line(over: &StageOver) -> Line {
    match over {
        StageOver::Done { sessions, running, tokens } => {
            let mut figures = format!(" · {}", phrase::count(u64::from(*sessions), "session"));
            if running.as_secs() > 0 {
                figures.push_str(&format!(" · {}", phrase::duration(*running)));
            }
            if *tokens > 0 {
                figures.push_str(&format!(" · {} tokens", phrase::tokens(*tokens)));
            }
            Line::new(Tone::Done, "done").with(Tone::Plain, figures)
        }
        StageOver::Failed { outcome, skipped: false } => {
            Line::new(Tone::Failed, "failed").with(Tone::Plain, format!(": {}", phrase::ended(outcome)))
        }
        StageOver::Failed { outcome, skipped: true } => Line::new(Tone::Attention, "skipped")
            .with(Tone::Plain, format!(", since it failed: {}", phrase::ended(outcome))),
        StageOver::Blocked { by } => {
            Line::new(Tone::Attention, "blocked").with(Tone::Plain, format!(" by {by}"))
        }
        StageOver::LeftOut { with: None } => Line::new(Tone::Quiet, "left out, as you asked"),
        StageOver::LeftOut { with: Some(with) } => {
            Line::new(Tone::Quiet, format!("left out, since it needs {with}"))
        }
    }
}

/// The line of what became of the whole.
#[must_use]
pub fn delivery(delivery: &Delivery) -> Line {
    match delivery {
        Delivery::Given { branch, commit } => {
            let commit: String = commit.chars().take(7).collect();
            let branch = branch
                .as_ref()
                .map_or_else(|| "your checkout".to_owned(), |name| format!("`{}`", one_line(name)));
            Line::new(Tone::Plain, format!("{branch} is at {commit} now, with what all stages made"))
        }
        Delivery::Kept { branch, why } => {
            let branch = one_line(branch);
            Line::attention(format!(
                "your branch is left as it is: {}. What all stages made is on `{branch}`; `git merge {branch}` takes it over",
                one_line(why)
            ))
        }
    }
}

/// Some names of many.
fn some(names: &[String]) -> String {
    let mut shown = names.iter().take(FILES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > FILES_SHOWN {
        shown.push_str(&format!(" and {} more", names.len() - FILES_SHOWN));
    }
    shown
}
