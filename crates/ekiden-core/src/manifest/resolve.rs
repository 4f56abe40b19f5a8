//! From a document to what a run is started with.
//!
//! Files and settings are the caller's business, so it brings the defaults and the answers to three
//! questions: what a prompt's file says, what the architecture document says, and which agent is meant by a
//! name and a model. What it cannot answer becomes a fault at the line that asked.

use super::document::{Checks, Document, Format, Prompt, Spot, Stage, Validation};
use super::fault::{Faults, Findings, quoted};
use super::format::{casm, task_fault};
use super::{Manifest, Part, PlanRules, Stage as RunStage, Take, Verification};
use crate::budget::Budget;
use crate::prompt::summary_of;
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
    /// What a prompt's file says; where it is looked for is the format's. The error fits after the file's
    /// name: `does not exist`.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    fn prompt(&mut self, format: Format, file: &str) -> Result<String, String>;

    /// What the architecture document says; nothing if there is no such file.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, although it is there.
    fn architecture(&mut self, file: &str) -> Result<Option<String>, String>;

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
        mut plan: PlanRules,
        defaults: &Defaults,
        around: &mut impl Surroundings,
    ) -> Result<Manifest, Faults> {
        let mut findings = Findings::default();
        if let Some((name, text)) = self.followed(around, &mut findings) {
            plan.architecture = summary_of(&text, &name);
            plan.document = name;
        }
        let (format, checks) = (self.format, self.checks);
        let resolve = |stage: Stage| resolved(stage, (format, &checks), defaults, around, &mut findings);
        let stages = self.stages.into_iter().map(resolve).collect();
        findings.or(Manifest { stages, plan: Some(Box::new(plan)) })
    }

    /// The architecture document that its stages follow, with what it says. CASM shows its sessions the first
    /// of a few usual files and never reads the one that its manifest names, so neither has to be there.
    pub(super) fn followed(
        &self,
        around: &mut dyn Surroundings,
        findings: &mut Findings,
    ) -> Option<(String, String)> {
        let usual: Option<&[&str]> = match self.format {
            Format::Casm => Some(&casm::ARCHITECTURES),
            Format::Ekiden | Format::Cleave => None,
        };
        if let Some(Spot { line, value: name }) = &self.architecture {
            let what = match around.architecture(name) {
                Ok(Some(text)) => return Some((name.clone(), text)),
                Ok(None) if usual.is_some() => None,
                Ok(None) => Some("does not exist".to_owned()),
                Err(what) => Some(what),
            };
            what.iter()
                .for_each(|what| findings.say(*line, &format!("architecture {} {what}", quoted(name))));
        }
        let found = |name: &&str| Some(((*name).to_owned(), around.architecture(name).ok()??));
        usual.unwrap_or_default().iter().find_map(found)
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

/// What the surroundings answer to a stage.
#[derive(Default)]
pub(super) struct Answers {
    task: String,
    agent: Option<AgentSpec>,
}

impl Answers {
    /// Asks for them; what is not answered is told of `who`.
    pub(super) fn to(
        format: Format,
        stage: &Stage,
        who: &str,
        around: &mut dyn Surroundings,
        findings: &mut Findings,
    ) -> Self {
        let mut answers = Self::default();
        match task(format, &stage.prompt, around) {
            Ok(task) => answers.task = task,
            Err(Spot { line, value }) => findings.say(line, &format!("{who}: {value}")),
        }
        let (name, model) = (stage.agent.as_ref(), stage.model.as_ref());
        let words = |spot: Option<&Spot<String>>| spot.map(|spot| spot.value.clone());
        if let Some(asked) = name.or(model) {
            match around.agent(words(name).as_deref(), words(model).as_deref()) {
                Ok(agent) => answers.agent = Some(agent),
                Err(what) => findings.say(asked.line, &format!("{who}: {what}")),
            }
        }
        answers
    }
}

fn resolved(
    stage: Stage,
    (format, checks): (Format, &Checks),
    defaults: &Defaults,
    around: &mut dyn Surroundings,
    findings: &mut Findings,
) -> RunStage {
    let who = format!("stage {}", quoted(stage.id.as_str()));
    let Answers { task, agent } = Answers::to(format, &stage, &who, around, findings);
    let verification = stage.verification(checks, defaults.timeout);
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
fn task(format: Format, prompt: &Prompt, around: &mut dyn Surroundings) -> Result<String, Spot<String>> {
    let Spot { line, value: file } = match prompt {
        Prompt::Words(words) => return Ok(words.clone()),
        Prompt::File(file) => file,
    };
    let refused = |what: String| Spot { line: *line, value: format!("prompt {} {what}", quoted(file)) };
    let words = clean(&around.prompt(format, file).map_err(refused)?).text.trim_end().to_owned();
    match task_fault(&words) {
        Some(fault) => Err(refused(fault)),
        None => Ok(words),
    }
}
