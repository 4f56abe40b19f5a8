//! A stage in its plan: its edges and its state.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::ids::StageId;
use crate::manifest::{Manifest, OnFail, Take};
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// The assumed tokens of a stage without an estimate.
const TOKENS_UNKNOWN: u64 = 50_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// It needs others that are not over.
    Waiting,
    Ready,
    /// Its worktree is being made.
    Preparing,
    Working,
    /// It is done, and is being merged or waits for that.
    Merging,
    /// The run was halted while it worked, or its agent is out.
    Interrupted(Outcome),
    Over(StageEnd),
}

impl StageState {
    /// How its last attempt failed, and whether the plan tolerates that.
    pub fn failure(&self) -> Option<(&Outcome, bool)> {
        let Self::Over(end) = self else {
            return None;
        };
        match end {
            StageEnd::Failed(outcome) => Some((outcome, false)),
            StageEnd::Skipped(outcome) => Some((outcome, true)),
            StageEnd::Done | StageEnd::Blocked { .. } | StageEnd::LeftOut { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageEnd {
    /// Done and merged.
    Done,
    Failed(Outcome),
    /// Its last attempt failed, and the plan says that this does not matter.
    Skipped(Outcome),
    /// It needs a stage that failed.
    Blocked {
        by: StageId,
    },
    /// The user left it out, or a stage that it needs.
    LeftOut {
        with: Option<StageId>,
    },
}

/// A stage with its edges, by their places.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub id: StageId,
    pub needs: Vec<(usize, bool)>,
    pub dependants: Vec<(usize, bool)>,
    pub needs_left: usize,
    pub take: Take,
    pub on_fail: OnFail,
    pub retries: u32,
    /// Its estimated tokens.
    pub estimate: u64,
    /// Until when a usage limit holds it.
    pub held_until: Option<Timestamp>,
    /// Its agent is out: how another stage of that account ended.
    pub out: Option<Outcome>,
    pub now: StageNow,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StageNow {
    pub state: StageState,
    /// The number of this attempt, from 1.
    pub tries: u32,
    /// How often it was sent back because it did not merge.
    pub mends: u32,
    /// It has a worktree and a relay.
    pub begun: bool,
    pub is_verified: bool,
}

impl Node {
    pub(super) fn is_done(&self) -> bool {
        self.now.state == StageState::Over(StageEnd::Done)
    }

    /// The stage that permanently keeps it from beginning.
    pub(super) fn blocked_by(&self) -> Option<&StageId> {
        let StageState::Over(StageEnd::Blocked { by }) = &self.now.state else {
            return None;
        };
        Some(by)
    }

    /// The time until which a usage limit holds it now.
    pub(super) fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.held_until.filter(|until| now < *until)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.now.state, StageState::Over(_))
    }
}

/// The stages of a manifest, and the place of each id.
pub(super) fn nodes(manifest: &Manifest) -> (Vec<Node>, HashMap<StageId, usize>) {
    let index: HashMap<StageId, usize> = manifest
        .stages
        .iter()
        .enumerate()
        .map(|(at, stage)| (stage.id.clone(), at))
        .collect();
    let mut nodes: Vec<Node> = manifest
        .stages
        .iter()
        .map(|stage| Node {
            id: stage.id.clone(),
            needs: stage
                .part
                .needs
                .iter()
                .filter_map(|need| Some((*index.get(&need.stage)?, need.optional)))
                .collect(),
            dependants: Vec::new(),
            needs_left: 0,
            take: stage.part.take,
            on_fail: stage.part.on_fail,
            retries: stage.part.retries,
            estimate: match (stage.part.expected_tokens, stage.part.estimate_tokens) {
                (0, 0) => TOKENS_UNKNOWN,
                (0, estimate) => estimate,
                (expected, _) => expected,
            },
            held_until: None,
            out: None,
            now: StageNow {
                state: StageState::Waiting,
                tries: 1,
                mends: 0,
                begun: false,
                is_verified: stage.verification.is_some(),
            },
        })
        .collect();
    for at in 0..nodes.len() {
        for (need, optional) in nodes[at].needs.clone() {
            nodes[need].dependants.push((at, optional));
        }
    }
    (nodes, index)
}

/// For each stage, the tokens of the longest chain of stages that begins with it.
pub(super) fn tokens_behind(nodes: &[Node]) -> Vec<u64> {
    let mut left: Vec<usize> = nodes.iter().map(|node| node.dependants.len()).collect();
    let mut behind: Vec<u64> = nodes.iter().map(|node| node.estimate).collect();
    let mut next: Vec<usize> = (0..nodes.len()).filter(|at| left[*at] == 0).collect();
    while let Some(at) = next.pop() {
        for (need, _) in &nodes[at].needs {
            let through = behind[at].saturating_add(nodes[*need].estimate);
            behind[*need] = behind[*need].max(through);
            left[*need] -= 1;
            if left[*need] == 0 {
                next.push(*need);
            }
        }
    }
    behind
}
