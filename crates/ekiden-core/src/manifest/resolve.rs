//! From a document to what a run is started with.
//!
//! Files and settings are the caller's business, so it brings the defaults and two questions: what a
//! prompt's file says, and which agent is meant by a name and a model. What it cannot answer becomes a
//! fault at the stage's line.

use super::document::{Checks, Document, Prompt, Stage, Validation};
use super::fault::{Fault, Faults, Findings, quoted};
use super::format::{casm, task_fault};
use super::{Manifest, Part, PlanRules, Stage as RunStage, Take, Verification};
use crate::budget::Budget;
use crate::settings::AgentSpec;
use crate::text::clean;
use crate::time::Millis;

/// What holds for a stage that does not say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// How long a verification may take.
    pub timeout: Millis,
    /// How often a failed stage is tried again.
    pub retries: u32,
    /// Sessions that a stage may take.
    pub sessions_max: u32,
    /// Responses of the model in one session before it hands off.
    pub turns_max: u32,
    /// Tokens that one session may take before it hands off.
    pub session_tokens: u64,
}

/// What a document cannot know.
pub trait Surroundings {
    /// What a prompt's file says. The error fits after the file's name: `does not exist`.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    fn prompt(&mut self, file: &str) -> Result<String, String>;

    /// The agent of a stage that names an agent, a model or both. The error fits after the stage's name.
    ///
    /// # Errors
    ///
    /// Why there is no such agent.
    fn agent(&mut self, name: Option<&str>, model: Option<&str>) -> Result<AgentSpec, String>;
}

impl Document {
    /// What a run is started with.
    ///
    /// # Errors
    ///
    /// Everything that the surroundings could not answer, and prompts of files that are empty or too long.
    pub fn into_manifest(
        self,
        plan: PlanRules,
        defaults: &Defaults,
        around: &mut impl Surroundings,
    ) -> Result<Manifest, Faults> {
        let mut findings = Findings::default();
        let checks = self.checks;
        let resolve = |stage: Stage| resolved(stage, &checks, defaults, around, &mut findings);
        let stages = self.stages.into_iter().map(resolve).collect();
        findings.or(Manifest { stages, plan: Some(Box::new(plan)) })
    }
}

impl Stage {
    /// The objective check of done, if there is one: its own validation, then the project's checks, then its
    /// outputs, which must be there.
    #[must_use]
    pub fn verification(&self, checks: &Checks, timeout: Millis) -> Option<Verification> {
        let mut files = match &self.validation {
            Validation::Files(files) => files.clone(),
            Validation::Command { .. }
            | Validation::TypeCheck
            | Validation::Lint
            | Validation::Test
            | Validation::None => Vec::new(),
        };
        let named = |output: &&String| !files.contains(output);
        let missing: Vec<String> = self.outputs.iter().filter(named).cloned().collect();
        files.extend(missing);
        let (command, exit_code) = self.validation.command(checks);
        let mut beside: Vec<String> = Vec::new();
        for check in checks.all() {
            let own = check == command && exit_code == 0;
            if !own && !beside.iter().any(|other| other == check) {
                beside.push(check.to_owned());
            }
        }
        let checked = !(command.is_empty() && beside.is_empty() && files.is_empty());
        checked.then_some(Verification { command, timeout, exit_code, beside, files })
    }
}

impl Validation {
    /// Its command and the exit code that means done; empty if it runs none.
    fn command(&self, checks: &Checks) -> (String, i32) {
        let or = |check: &Option<String>, other: &str| check.clone().unwrap_or_else(|| other.to_owned());
        match self {
            Self::Command { command, exit_code } => (command.clone(), *exit_code),
            Self::TypeCheck => (or(&checks.type_check, casm::TYPE_CHECK), 0),
            Self::Test => (or(&checks.test, casm::TEST), 0),
            Self::Lint => (checks.lint.clone().unwrap_or_default(), 0),
            Self::Files(_) | Self::None => (String::new(), 0),
        }
    }
}

impl Checks {
    /// The commands, in the order in which they run.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [&self.type_check, &self.lint, &self.test].into_iter().flatten().map(String::as_str)
    }
}

fn resolved(
    stage: Stage,
    checks: &Checks,
    defaults: &Defaults,
    around: &mut impl Surroundings,
    findings: &mut Findings,
) -> RunStage {
    let who = format!("stage {}", quoted(stage.id.as_str()));
    let mut refuse = |what: String| findings.add(Fault::new(stage.line, &format!("{who}: {what}")));
    let verification = stage.verification(checks, defaults.timeout);
    let task = task(stage.prompt, around).unwrap_or_else(|what| {
        refuse(what);
        String::new()
    });
    let own_agent = stage.agent.is_some() || stage.model.is_some();
    let agent = own_agent.then(|| around.agent(stage.agent.as_deref(), stage.model.as_deref()));
    let agent = agent.transpose().unwrap_or_else(|what| {
        refuse(what);
        None
    });
    let session = Budget { micro_usd: stage.budget, tokens: None };
    let part = Part {
        needs: stage.needs,
        context: stage.context,
        outputs: stage.outputs,
        on_fail: stage.on_fail,
        retries: stage.retries.unwrap_or(defaults.retries),
        estimate_tokens: stage.estimate_tokens.unwrap_or(0),
        agent: agent.map(Box::new),
        session,
        session_tokens: Some(stage.session_tokens.unwrap_or(defaults.session_tokens)),
        turns_max: Some(stage.turns_max.unwrap_or(defaults.turns_max)),
        marker: stage.marker,
        knowledge_apart: stage.knowledge_apart,
        take: Take::Run,
    };
    let sessions_max = stage.sessions_max.unwrap_or(defaults.sessions_max);
    RunStage {
        id: stage.id,
        task,
        task_name: stage.name,
        verification,
        claim_needed: true,
        sessions_max,
        part,
    }
}

/// The words of a prompt, or what is wrong with its file.
fn task(prompt: Prompt, around: &mut impl Surroundings) -> Result<String, String> {
    let file = match prompt {
        Prompt::Words(words) => return Ok(words),
        Prompt::File(file) => file,
    };
    let what = |what: String| format!("prompt {} {what}", quoted(&file));
    let words = clean(&around.prompt(&file).map_err(what)?).text.trim_end().to_owned();
    match task_fault(&words) {
        Some(fault) => Err(what(fault)),
        None => Ok(words),
    }
}
