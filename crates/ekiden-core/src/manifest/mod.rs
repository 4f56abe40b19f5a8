//! The manifest: stages, and the edges between them.
//!
//! `ekiden run` makes a manifest with one stage that works in place. A plan has many stages, and rules for how they
//! work together. A run keeps its manifest in its first record, with file names resolved, defaults filled in, and no
//! faults. The crate `ekiden-manifest` reads manifests from files.

pub mod graph;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::agent::AgentSpec;
use crate::bounds::Bounds;
use crate::budget::{Budget, lower};
use crate::estimate::Sample;
use crate::handoff::Marker;
use crate::ids::StageId;
use crate::time::Millis;

/// Stages and the edges between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The stages, in the order of the file.
    pub stages: Vec<Stage>,
    /// How they work together; nothing for a single relay in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<PlanRules>>,
}

/// How the stages of a plan work together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRules {
    /// The plan's purpose, for people.
    pub project: String,
    /// Where the manifest came from, for people.
    pub file: String,
    /// SHA-256 of the approved manifest, in hexadecimal.
    pub hash: String,
    /// Stages that may work at the same time; 1 or more.
    pub jobs: u32,
    pub isolation: Isolation,
    /// The summary of the architecture document; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// The place of that document, from the work dir.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub document: String,
}

/// Where the stages of a plan work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Isolation {
    /// All in the work dir, one at a time.
    InPlace,
    /// Each in its own git worktree.
    Worktrees {
        /// The directory of the worktrees, absolute, outside the project.
        dir: String,
        /// The commit at which the run began.
        base: String,
        /// The branch that was checked out then, if there was one: it gets the work of all stages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// Files from the work dir that git does not track and a stage needs; may be globs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        copy: Vec<String>,
        /// Prepares a new worktree; a command for `sh -c`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        setup: Option<String>,
    },
}

/// A goal with its prompt, its validation and its limits. A relay pursues it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    pub id: StageId,
    /// The task in the user's words.
    pub task: String,
    /// Where the task came from, for people: a file's name, `-`, the words themselves, or a stage's name.
    pub task_name: String,
    /// The objective check of done, if there is one.
    pub verification: Option<Verification>,
    /// A passing verification is not enough: the agent must also claim to be done. Always true for the stages
    /// of a plan and for lists of items.
    pub claim_needed: bool,
    /// Sessions that it may take, counted from the start or the last resume.
    pub sessions_max: u32,
    /// Its needs, and the meaning of its failure. Empty for a stage outside a plan.
    #[serde(default, skip_serializing_if = "Part::stands_alone")]
    pub part: Part,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// The stages whose results it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// Files that its agent should see first, from the work dir; may be globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// Files that it is to make or change, from the work dir; may be globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// What its failure means for the others.
    pub on_fail: OnFail,
    /// How often it is tried again after it failed.
    pub retries: u32,
    /// The estimated tokens, 0 without an estimate.
    pub estimate_tokens: u64,
    /// The median for work of this size, learned when the run began, in tokens; 0 if unknown. The scheduler uses it.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub expected_tokens: u64,
    /// If it has items: the usage of items in earlier runs, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items_before: Vec<Sample>,
    /// Its own agent, in place of the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentSpec>>,
    /// The budget of one session, in place of the run's bound.
    pub session: Budget,
    /// The context at which a session gets the order to hand off, in tokens, unless a level comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_tokens: Option<u64>,
    /// Responses of the model before a session gets the order to hand off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_max: Option<u32>,
    /// What a fleet's worker must have to run it: labels, and programs of agents.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub runs_on: BTreeSet<String>,
    /// The word by which its agent claims to be done, in place of the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<Marker>,
    /// A reviewer judges it before it counts as done, whether or not the run wants that for all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub review: bool,
    /// The reviewer's model, where that is its own agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review_model: Option<String>,
    /// Its sessions work through the items of [`crate::relay::ITEMS_FILE`], one each; it is done when all are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub items: bool,
    /// Its knowledge does not go to other stages, nor theirs to it.
    pub knowledge_apart: bool,
    /// Whether this run works on it.
    pub take: Take,
}

/// An edge: this stage needs that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The stage that must be over before.
    pub stage: StageId,
    /// It may have been skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl Manifest {
    /// The check that decides whether a stage's merge counts. After a failed merge, the checks of the stages that it `met`
    /// there count too: the session that resolves a conflict may drop the other side. This leaves out a stage that one
    /// that is `done` builds on, since that one may have changed what the check looks at.
    pub fn merge_verification<'a>(
        &self,
        stage: &Stage,
        met: impl IntoIterator<Item = &'a StageId>,
        done: &BTreeSet<&StageId>,
    ) -> Option<Verification> {
        let done = self.stages.iter().filter(|stage| done.contains(&stage.id));
        let needs = done.flat_map(|stage| &stage.part.needs);
        let built_on: BTreeSet<&StageId> = needs.map(|need| &need.stage).collect();
        let met: BTreeSet<&StageId> = met.into_iter().collect();
        let is_beside = |other: &&Stage| met.contains(&other.id) && !built_on.contains(&other.id);
        let others = self.stages.iter().filter(is_beside);
        let theirs = others.filter_map(|other| other.verification.as_ref());
        theirs.fold(stage.verification.clone(), |all, other| {
            Some(match all {
                Some(all) => all.and(other),
                None => other.clone(),
            })
        })
    }
}

/// What a stage's failure means, after its last try.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFail {
    /// Stages that need it are blocked; the others continue.
    #[default]
    Block,
    Stop,
    /// It counts as skipped: stages that need it only optionally continue.
    Skip,
}

/// Whether a run works on a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    #[default]
    Run,
    /// The user left it out.
    Skip,
    /// It was done before, which its validation has to confirm.
    Assume,
}

/// The objective check that a stage is done: every command ends as expected, and the files exist. It may run
/// more than once on the same tree, so it must be repeatable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The command, for `sh -c`; empty if only files are checked.
    pub command: String,
    pub timeout: Millis,
    /// The exit code that means done.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub exit_code: i32,
    /// Further commands, each of which must end with 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Globs from the work dir, each of which must find a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl Manifest {
    /// A single relay in place.
    pub fn single(stage: Stage) -> Self {
        Self {
            stages: vec![stage],
            plan: None,
        }
    }

    pub fn agents(&self) -> impl Iterator<Item = &AgentSpec> {
        let stages = self.stages.iter();
        stages.filter_map(|stage| stage.part.agent.as_deref())
    }

    /// How many of the run's own agents, of which the first is its main one, no stage has.
    pub fn unused(&self) -> usize {
        usize::from(self.agents().count() == self.stages.len())
    }
}

impl Part {
    /// The stage is not part of a larger plan.
    pub fn stands_alone(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the stage's own bounds of a session. A plan may come with a project: it can lower the user's limits, never
    /// raise them.
    pub(crate) fn lower(&self, bounds: &mut Bounds) {
        bounds.session = bounds.session.within(self.session);
        bounds.turns_max = lower(self.turns_max, bounds.turns_max);
    }
}

impl Verification {
    /// A command whose exit code 0 means done.
    pub fn by_command(command: String, timeout: Millis) -> Self {
        Self {
            command,
            timeout,
            exit_code: 0,
            beside: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Each command with the exit code that it must have, in the order in which they run.
    pub fn commands(&self) -> impl Iterator<Item = (&str, i32)> {
        let own = (!self.command.is_empty()).then_some((self.command.as_str(), self.exit_code));
        own.into_iter()
            .chain(self.beside.iter().map(|command| (command.as_str(), 0)))
    }

    /// Both checks, with each command once.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (command, code) in other.commands() {
            let command = match code {
                0 => command.to_owned(),
                code => format!("( {command}\n)\n[ $? -eq {code} ]"),
            };
            if !self.commands().any(|own| own == (command.as_str(), 0)) {
                self.beside.push(command);
            }
        }
        let files = other.files.iter();
        let new = files.filter(|file| !self.files.contains(file)).cloned();
        self.files.extend(new.collect::<Vec<_>>());
        self.timeout = Millis(self.timeout.0.saturating_add(other.timeout.0));
        self
    }

    /// The checks, on one line for people.
    pub fn in_one_line(&self) -> String {
        self.lines("these files exist").join("; ")
    }

    /// The same for an agent, one line each. Files that must exist are a shell comment, since they are no
    /// command.
    pub fn in_lines(&self) -> String {
        self.lines("# these files must exist").join("\n")
    }

    fn lines(&self, files: &str) -> Vec<String> {
        let commands = self.commands().map(|(command, code)| match code {
            0 => command.to_owned(),
            code => format!("{command}   (must end with exit code {code})"),
        });
        let listed = self.files.join(", ");
        let files = (!listed.is_empty()).then(|| format!("{files}: {listed}"));
        commands.chain(files).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: PLN-08
    #[test]
    fn two_checks_become_one_that_has_each_command_once() {
        let check = |command: &str, exit_code, beside: &str, file: &str| Verification {
            command: command.to_owned(),
            timeout: Millis(5),
            exit_code,
            beside: vec![beside.to_owned()],
            files: vec![file.to_owned()],
        };
        let both = check("one", 0, "make", "a").and(&check("two", 3, "make", "b"));
        let both = both.and(&check("one", 0, "make", "a"));
        let commands: Vec<_> = both.commands().collect();
        let two = "( two\n)\n[ $? -eq 3 ]";
        assert_eq!(commands, [("one", 0), ("make", 0), (two, 0)]);
        assert_eq!(
            (both.files, both.timeout),
            (vec!["a".into(), "b".into()], Millis(15))
        );
    }
}
