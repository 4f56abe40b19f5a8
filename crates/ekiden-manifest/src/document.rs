//! A manifest without faults, and the facts that its text alone cannot give.

use ekiden_core::agent::AgentSpec;
use ekiden_core::limits;
use ekiden_core::manifest::Stage;
use ekiden_core::time::Millis;

use crate::fault::Fault;

/// A manifest whose names, files and agents were looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub format: Format,
    pub project: String,
    /// Stages that may work at the same time.
    pub jobs: Option<u32>,
    /// Files from the work dir that git does not track and stages need; may be globs.
    pub copy: Vec<String>,
    /// Prepares a new worktree; a command for `sh -c`.
    pub setup: Option<String>,
    /// The stages, in the order of the file.
    pub stages: Vec<Stage>,
    pub architecture: Option<Architecture>,
    /// Likely typos, which are no faults; the person who starts the plan should see them.
    pub slips: Vec<Fault>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Architecture {
    /// The file, from the work dir.
    pub name: String,
    pub summary: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Ekiden,
    Casm,
    Cleave,
}

/// The values for stages that set nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// How long a verification may take.
    pub timeout: Millis,
    pub retries: u32,
    pub sessions_max: u32,
    /// Responses of the model in one session before it hands off.
    pub turns_max: Option<u32>,
    /// Tokens that one session may take before it hands off.
    pub session_tokens: u64,
    /// The project's commands that check types, lint and test.
    pub checks: [Option<String>; 3],
    /// The model that reviews a stage that wants it.
    pub review_model: Option<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            timeout: limits::VERIFY_TIMEOUT_DEFAULT,
            retries: limits::RETRIES_DEFAULT,
            sessions_max: limits::SESSIONS_MAX_DEFAULT,
            turns_max: Some(limits::STAGE_TURNS_DEFAULT),
            session_tokens: limits::STAGE_SESSION_TOKENS_DEFAULT,
            checks: [const { None }; 3],
            review_model: None,
        }
    }
}

/// A text, and where it was found: relative to the project's directory, if it is in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundText {
    pub name: String,
    pub text: String,
}

/// Files and agents that a manifest names. A failed lookup becomes a fault at the line that asked.
pub trait Surroundings {
    /// The content of a prompt's file; the format says where to look. The error follows the file's name:
    /// `does not exist`.
    fn prompt(&mut self, format: Format, file: &str) -> Result<String, String>;

    /// The architecture document; none if there is no such file.
    fn architecture(&mut self, file: &str) -> Result<Option<FoundText>, String>;

    /// A path or pattern stays in the project, also through links. The error follows the name.
    fn stays_inside(&mut self, path: &str) -> Result<(), String>;

    /// The agent of a stage that names an agent, a model or both. The error follows the stage's name.
    fn agent(&mut self, name: Option<&str>, model: Option<&str>) -> Result<AgentSpec, String>;
}

/// No files and no agents: only the text is read.
pub struct TextAlone;

impl Surroundings for TextAlone {
    fn prompt(&mut self, _: Format, file: &str) -> Result<String, String> {
        Ok(file.to_owned())
    }

    fn architecture(&mut self, name: &str) -> Result<Option<FoundText>, String> {
        Ok(Some(FoundText {
            name: name.to_owned(),
            text: String::new(),
        }))
    }

    fn stays_inside(&mut self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn agent(&mut self, _: Option<&str>, _: Option<&str>) -> Result<AgentSpec, String> {
        Err("no agent can be named here".to_owned())
    }
}
