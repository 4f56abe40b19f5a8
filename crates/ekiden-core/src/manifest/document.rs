//! A manifest as its file says it, whatever the format: before settings are applied, free of faults.
//!
//! What a file leaves out is left out here too. So the same document can be shown, approved and resolved:
//! [`Document::into_manifest`] fills in the rest and makes what a run is started with.

use super::fault::Fault;
use super::{Need, OnFail};
use crate::handoff::Marker;
use crate::ids::StageId;

/// A value and the line where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot<T> {
    /// The line, from 1.
    pub line: u32,
    /// What stands there.
    pub value: T,
}

impl Spot<&str> {
    /// The same, kept.
    #[must_use]
    pub fn owned(self) -> Spot<String> {
        Spot { line: self.line, value: self.value.to_owned() }
    }
}

/// A manifest without faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Which format the file had.
    pub format: Format,
    /// What the plan is for.
    pub project: String,
    /// More about it; empty if nothing was said.
    pub description: String,
    /// The architecture document, from the work dir.
    pub architecture: Option<Spot<String>>,
    /// Commands that hold for every stage.
    pub checks: Checks,
    /// Stages that may work at the same time.
    pub jobs: Option<u32>,
    /// What a worktree needs.
    pub worktree: Worktree,
    /// The stages, in the order of the file.
    pub stages: Vec<Stage>,
    /// What is no fault and may be a slip: whoever starts it should see it.
    pub slips: Vec<Fault>,
}

/// Which format a manifest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// ekiden's own.
    Ekiden,
    /// What CASM writes.
    Casm,
    /// A pipeline of cleave.
    Cleave,
}

/// Commands that must end with 0 after every stage, for `sh -c`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checks {
    /// The types fit.
    pub type_check: Option<String>,
    /// The code is as it should be.
    pub lint: Option<String>,
    /// The tests pass.
    pub test: Option<String>,
}

/// What a new worktree needs before a stage works in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Files that git does not know, from the work dir; may be globs.
    pub copy: Vec<String>,
    /// A command for `sh -c`.
    pub setup: Option<String>,
}

/// A stage as its file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The line where it stands.
    pub line: u32,
    /// Its id.
    pub id: StageId,
    /// What people call it.
    pub name: String,
    /// More about it, for people; empty if nothing was said.
    pub description: String,
    /// What it is to do.
    pub prompt: Prompt,
    /// The stages that it needs.
    pub needs: Vec<Need>,
    /// Files that its agent should see first; may be globs.
    pub context: Vec<String>,
    /// Files that it is to make or change; may be globs.
    pub outputs: Vec<String>,
    /// When it is done.
    pub validation: Validation,
    /// What its failure means for the others.
    pub on_fail: OnFail,
    /// How often it is tried again.
    pub retries: Option<u32>,
    /// Sessions that it may take.
    pub sessions_max: Option<u32>,
    /// Responses of the model in one session before it hands off.
    pub turns_max: Option<u32>,
    /// Tokens that it is thought to take.
    pub estimate_tokens: Option<u64>,
    /// Tokens that one session of it may take.
    pub session_tokens: Option<u64>,
    /// What one session of it may spend, in millionths of a US dollar.
    pub budget: Option<u64>,
    /// Its own model.
    pub model: Option<Spot<String>>,
    /// Its own agent, by name.
    pub agent: Option<Spot<String>>,
    /// The word by which its agent claims to be done.
    pub marker: Option<Marker>,
    /// What it learns is not told to other stages, nor theirs to it.
    pub knowledge_apart: bool,
}

/// What a stage is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// In these words.
    Words(String),
    /// As a file says. In a pipeline of cleave its path is from the pipeline's directory, or else from the
    /// work dir; in ours the other way round.
    File(Spot<String>),
}

/// When a stage is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validation {
    /// A command ends as expected.
    Command {
        /// For `sh -c`.
        command: String,
        /// The exit code that means done.
        exit_code: i32,
    },
    /// Each of these globs finds a file.
    Files(Vec<String>),
    /// The project's type check passes.
    TypeCheck,
    /// The project's linter passes.
    Lint,
    /// The project's tests pass.
    Test,
    /// Nothing of its own.
    None,
}
