//! The plan: which stage may run, when, and what its end means for the others.
//!
//! ```text
//! Waiting ─► Ready ─► Preparing ─► Working ─► Merging ─► Over
//!  for its    for a     its         its        with what
//!  needs      place     worktree    relay      the others did
//! ```
//!
//! The plan learns three things about a relay: that it started, that it hit a usage limit, and how it ended. Of a
//! merge it learns the result. The stage of a single relay in place has neither worktree nor merge.
//!
//! Scheduling is greedy: while a slot is free and a stage is ready, the ready stage with the most work behind it
//! starts. So on m slots the plan takes at most 2 - 1/m times as long as with the best order. Handling the end of a
//! stage costs time in proportion to its edges, however large the plan is.
//!
//! Invariants:
//! - a stage starts only when each stage that it needs is done, or over for good if the edge is optional (a question
//!   may still be answered), and every stage that was done before, and needs no stage that runs, is known to be done;
//! - at most `jobs` stages hold a slot; at most one merge is in progress;
//! - after a halt no stage begins, and stages that are over stay over until a resume, unless their question is
//!   answered. What is done is still merged, unless a person stops the run.

mod elsewhere;
mod ends;
mod meaning;
mod node;
mod progress;
mod reviving;
#[cfg(test)]
mod tests;
mod view;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::effect::WorktreeEffect;
use crate::ids::StageId;
use crate::manifest::{Isolation, Manifest, Take};
use crate::outcome::Outcome;
use crate::steering::StopRequest;
use crate::time::Timestamp;

use meaning::{Meaning, meaning};
use node::{Node, nodes, tokens_behind};
pub use node::{StageEnd, StageState};
pub use progress::PlanProgress;
pub use view::StageCounts;

/// How often a stage may be sent back to its relay because it does not merge.
pub const MENDS_MAX: u32 = 2;

/// Which stages of a manifest are where.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    nodes: Vec<Node>,
    /// Only looked up, so its order does not matter.
    index: HashMap<StageId, usize>,
    jobs: usize,
    /// Stages work in worktrees of their own, or in the work dir one after the other.
    in_worktrees: bool,
    /// What they do is merged.
    merges: bool,
    /// Tokens from each stage's beginning to the end of the longest chain behind it, by places.
    behind: Vec<u64>,
    ready: BTreeSet<(Reverse<u64>, usize)>,
    /// Stages that hold a slot.
    at_work: usize,
    over: usize,
    /// Stages that the user says were done and that are being confirmed. Nothing begins before. One that needs a stage
    /// that runs is confirmed after it.
    unconfirmed: usize,
    now: PlanNow,
}

/// Where a plan is, besides where its stages are: what neither its manifest nor they tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PlanNow {
    queue: VecDeque<usize>,
    /// The stage that is being merged, or whose being done is confirmed.
    merging: Option<usize>,
    halted: Option<Outcome>,
    /// Somebody wants the run to stop.
    stop: Option<StopRequest>,
    paused: bool,
    delivery: Delivery,
    ended: Option<Outcome>,
}

/// Whether the user has what all stages made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Delivery {
    /// Not yet.
    Due,
    /// It is being delivered.
    UnderWay,
    /// There is nothing to deliver, or it was delivered.
    #[default]
    Over,
    /// It was not delivered; this command brings it.
    Kept { command: String },
}

/// What the plan wants next. No effect yet: a stage's start is its relay's to carry out, which the plan does
/// not know.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanDecision {
    Worktree(StageId, WorktreeEffect),
    /// Begin this stage's relay, or go on with it.
    Start(StageId),
    /// Let its relay retry, in the work tree as it is.
    Retry {
        stage: StageId,
        /// Which attempt at the stage this is, from 2.
        attempt: u32,
        /// How many there may be.
        max: u32,
    },
    /// Deliver what all stages made.
    Deliver,
    End(Outcome),
}

impl Plan {
    /// The plan of a manifest, nothing begun. The manifest has no cycle and no unknown need: that is
    /// looked at when it is read.
    pub fn new(manifest: &Manifest) -> Self {
        let (nodes, index) = nodes(manifest);
        let rules = manifest.plan.as_deref();
        let jobs = rules.map_or(manifest.stages.len(), |rules| match rules.isolation {
            Isolation::InPlace => 1,
            Isolation::Worktrees { .. } => rules.jobs as usize,
        });
        let merges = rules.is_some_and(|rules| rules.isolation != Isolation::InPlace);
        let mut plan = Self {
            // One at a time no order is quicker, and the manifest's is the one that its author had in mind.
            behind: match jobs {
                0 | 1 => vec![0; nodes.len()],
                _ => tokens_behind(&nodes),
            },
            nodes,
            index,
            jobs: jobs.max(1),
            in_worktrees: rules.is_some(),
            merges,
            ready: BTreeSet::new(),
            at_work: 0,
            over: 0,
            unconfirmed: 0,
            now: PlanNow::default(),
        };
        if merges {
            plan.now.delivery = Delivery::Due;
        }
        plan.open();
        plan
    }

    /// What is to be done now; nothing if all that may run runs.
    pub fn next(&mut self, at: Timestamp) -> Vec<PlanDecision> {
        let mut decisions = Vec::new();
        if !self.is_stopping() {
            decisions.extend(self.next_merge());
        }
        if self.halt().is_none() {
            while let Some(decision) = self.next_stage(at) {
                decisions.push(decision);
            }
        }
        if decisions.is_empty() && self.is_quiet() && self.now.ended.is_none() {
            decisions.push(self.conclude());
        }
        decisions
    }

    /// The worktree of a stage is ready, or could not be made.
    pub fn prepared(
        &mut self,
        stage: &StageId,
        result: Result<(), String>,
    ) -> Option<PlanDecision> {
        let at = self.in_state(stage, &StageState::Preparing)?;
        let out = self.nodes[at].out.clone();
        if let Some(halted) = self.halt().or(out) {
            self.at_work -= 1;
            self.nodes[at].now.state = StageState::Interrupted(halted);
            return None;
        }
        match result {
            Ok(()) => {
                let node = &mut self.nodes[at];
                node.now.state = StageState::Working;
                node.now.begun = true;
                Some(PlanDecision::Start(node.id.clone()))
            }
            Err(why) => {
                self.at_work -= 1;
                let on_worker = false;
                self.fail(at, Outcome::NoWorktree { why, on_worker });
                None
            }
        }
    }

    /// A stage's relay ended.
    pub fn stage_ended(&mut self, stage: &StageId, outcome: &Outcome) -> Option<PlanDecision> {
        let at = self.in_state(stage, &StageState::Working)?;
        let halted = self.halt().is_some() || self.nodes[at].out.is_some();
        let node = &mut self.nodes[at];
        match meaning(outcome) {
            Meaning::Failed if node.now.tries <= node.retries && halted => {
                self.at_work -= 1;
                node.now.state = StageState::Interrupted(outcome.clone());
            }
            Meaning::Failed if node.now.tries <= node.retries => {
                node.now.tries += 1;
                let (attempt, max) = (node.now.tries, node.retries + 1);
                return Some(PlanDecision::Retry {
                    stage: stage.clone(),
                    attempt,
                    max,
                });
            }
            Meaning::Failed | Meaning::FailedForGood => {
                self.at_work -= 1;
                self.fail(at, outcome.clone());
            }
            Meaning::Halt => {
                self.at_work -= 1;
                node.now.state = StageState::Interrupted(outcome.clone());
                self.now.halted.get_or_insert(outcome.clone());
            }
            Meaning::Done => {
                self.at_work -= 1;
                node.now.is_verified = *outcome == Outcome::Complete { verified: true };
                if self.merges {
                    node.now.state = StageState::Merging;
                    self.now.queue.push_back(at);
                } else {
                    self.finish(at, StageEnd::Done);
                }
            }
        }
        None
    }

    /// What a stage did is merged; or, for one that was done before, that is confirmed.
    pub fn merged(&mut self, stage: &StageId) {
        if let Some(at) = self.leave_merge(stage) {
            self.finish(at, StageEnd::Done);
        }
    }

    /// What a stage did does not go together with what others did. True if its relay is to mend that, as
    /// soon as there is a slot. In a halt nothing begins, but what is to be mended is remembered: git's marks
    /// are on its branch by then, and a merge of those would find no conflict. If it may not try again, it ends
    /// with `outcome`.
    pub fn unmerged(&mut self, stage: &StageId, outcome: Outcome) -> bool {
        let Some(at) = self.leave_merge(stage) else {
            return false;
        };
        let stops = self.is_stopping();
        let node = &mut self.nodes[at];
        if node.now.mends >= MENDS_MAX {
            if stops {
                self.now.queue.push_front(at);
            } else {
                self.fail(at, outcome);
            }
            return false;
        }
        node.now.mends += 1;
        self.make_ready(at);
        true
    }

    /// A merge was cancelled: it is due again.
    pub fn merge_cancelled(&mut self, stage: &StageId) {
        if let Some(at) = self.leave_merge(stage) {
            self.now.queue.push_front(at);
        }
    }

    /// A stage cannot be merged for a reason that no agent can mend; or it was not done, though the user
    /// says so.
    pub fn not_merged(&mut self, stage: &StageId, why: String) {
        if let Some(at) = self.leave_merge(stage) {
            let outcome = match self.nodes[at].take {
                Take::Assume => Outcome::NotDone { why },
                Take::Run | Take::Skip => Outcome::NotMerged { why },
            };
            self.fail(at, outcome);
        }
    }

    /// The user has what all stages made, or `kept` is the command that brings it.
    pub fn delivered(&mut self, kept: Option<String>) {
        self.now.delivery = kept.map_or(Delivery::Over, |command| Delivery::Kept { command });
    }

    /// Somebody stops the run: nothing new begins.
    pub fn stop(&mut self, request: StopRequest) {
        if self.now.stop.is_none_or(|before| request.outweighs(before)) {
            self.now.stop = Some(request);
        }
    }

    /// Somebody wants the run to stop.
    pub fn is_stopping(&self) -> bool {
        self.now.stop.is_some()
    }

    /// No more stage begins: it stops, or a stage has failed that stops it.
    pub fn is_halting(&self) -> bool {
        self.now.halted.is_some() || self.is_stopping()
    }

    /// Nothing begins while a person wants a pause.
    pub fn pause(&mut self, paused: bool) {
        self.now.paused = paused;
    }

    /// A usage limit holds these stages, by their places, until then.
    pub fn hold(&mut self, until: Timestamp, stages: impl IntoIterator<Item = usize>) {
        for at in stages {
            let held = &mut self.nodes[at].held_until;
            *held = (*held).max(Some(until));
        }
    }

    /// If this outcome halts the plan, it ends the agent of these stages, by their places, and the others go on.
    pub fn halt_only(&mut self, outcome: &Outcome, stages: impl IntoIterator<Item = usize>) {
        if self
            .now
            .halted
            .take_if(|halted| halted == outcome)
            .is_none()
        {
            return;
        }
        for at in stages {
            self.nodes[at].out = Some(outcome.clone());
            if self.ready.remove(&(Reverse(self.behind[at]), at)) {
                self.make_ready(at);
            }
        }
    }

    /// When a stage may begin that a usage limit holds back.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let waits_for_more = self.now.paused || self.unconfirmed > 0 || self.halt().is_some();
        if waits_for_more || self.at_work >= self.jobs {
            return None;
        }
        let held = self
            .ready
            .iter()
            .filter_map(|(_, at)| self.nodes[*at].held_until);
        held.min()
    }

    /// How many stages could begin now.
    pub fn may_begin(&self) -> usize {
        self.ready.len().min(self.jobs.saturating_sub(self.at_work))
    }

    /// The place of a stage in the manifest.
    pub fn place(&self, stage: &StageId) -> Option<usize> {
        self.index.get(stage).copied()
    }

    fn next_merge(&mut self) -> Option<PlanDecision> {
        if self.now.merging.is_some() {
            return None;
        }
        let at = self.now.queue.pop_front()?;
        self.now.merging = Some(at);
        let node = &self.nodes[at];
        Some(match node.take {
            Take::Assume => PlanDecision::Worktree(node.id.clone(), WorktreeEffect::Confirm),
            Take::Run | Take::Skip => {
                PlanDecision::Worktree(node.id.clone(), WorktreeEffect::Merge)
            }
        })
    }

    fn next_stage(&mut self, now: Timestamp) -> Option<PlanDecision> {
        if self.now.paused || self.unconfirmed > 0 || self.at_work >= self.jobs {
            return None;
        }
        let is_free = |(_, at): &&(_, usize)| self.nodes[*at].held_until(now).is_none();
        let next = self.ready.iter().find(is_free).copied()?;
        self.ready.remove(&next);
        let (_, at) = next;
        self.at_work += 1;
        let node = &mut self.nodes[at];
        if self.in_worktrees && !node.now.begun {
            node.now.state = StageState::Preparing;
            return Some(PlanDecision::Worktree(
                node.id.clone(),
                WorktreeEffect::Prepare,
            ));
        }
        node.now.state = StageState::Working;
        node.now.begun = true;
        Some(PlanDecision::Start(node.id.clone()))
    }

    /// Why nothing new begins, if that is so.
    fn halt(&self) -> Option<Outcome> {
        self.now
            .halted
            .clone()
            .or(self.now.stop.map(|request| Outcome::Stopped { request }))
    }

    /// Stages work or will work, and nobody asked the plan to stop.
    pub fn goes_on(&self) -> bool {
        !self.is_stopping() && !self.is_quiet()
    }

    /// Nothing is at work and nothing will be.
    fn is_quiet(&self) -> bool {
        let waits = self.halt().is_none() && !self.ready.is_empty()
            || !self.is_stopping() && !self.now.queue.is_empty();
        self.at_work == 0
            && self.now.merging.is_none()
            && !waits
            && self.now.delivery != Delivery::UnderWay
    }

    fn leave_merge(&mut self, stage: &StageId) -> Option<usize> {
        let at = *self.index.get(stage)?;
        (self.now.merging == Some(at)).then(|| self.now.merging = None)?;
        Some(at)
    }

    fn in_state(&self, stage: &StageId, state: &StageState) -> Option<usize> {
        self.index
            .get(stage)
            .copied()
            .filter(|at| self.nodes[*at].now.state == *state)
    }
}
