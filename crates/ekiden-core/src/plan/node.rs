//! A stage in its plan: its edges, and where it is.

use std::collections::HashMap;

use crate::ids::StageId;
use crate::manifest::{Manifest, OnFail, Take};
use crate::outcome::Outcome;

/// Where a stage is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageState {
    /// It needs others that are not over.
    Waiting,
    /// It needs a slot.
    Ready,
    /// Its ground is being made.
    Preparing,
    /// Its relay works.
    Working,
    /// It is done, and is merged or waits for that.
    Merging,
    /// The run was halted while it worked.
    Interrupted(Outcome),
    /// It is over.
    Over(StageEnd),
}

impl StageState {
    /// How its last try failed, and whether the plan puts up with that.
    #[must_use]
    pub fn failure(&self) -> Option<(&Outcome, bool)> {
        match self {
            Self::Over(StageEnd::Failed(outcome)) => Some((outcome, false)),
            Self::Over(StageEnd::Skipped(outcome)) => Some((outcome, true)),
            Self::Over(StageEnd::Done | StageEnd::Blocked { .. } | StageEnd::LeftOut { .. })
            | Self::Waiting
            | Self::Ready
            | Self::Preparing
            | Self::Working
            | Self::Merging
            | Self::Interrupted(_) => None,
        }
    }
}

/// How a stage is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageEnd {
    /// Done, and part of the whole.
    Done,
    /// Its last try failed.
    Failed(Outcome),
    /// Its last try failed, and the plan says that this does not matter.
    Skipped(Outcome),
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

/// A stage with its edges, by their places.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub id: StageId,
    pub needs: Vec<(usize, bool)>,
    pub dependants: Vec<(usize, bool)>,
    pub needs_left: usize,
    pub state: StageState,
    pub take: Take,
    pub on_fail: OnFail,
    pub retries: u32,
    /// Which try this is, from 1.
    pub tries: u32,
    /// How often it was sent back because it did not merge.
    pub mends: u32,
    /// What it did is done, and could not be merged.
    pub is_unmerged: bool,
    /// It has a ground and a relay.
    pub begun: bool,
    /// Tokens that it is thought to take, 0 if nobody said.
    pub estimate: u64,
    /// Something checks it.
    pub is_verified: bool,
}

impl Node {
    pub(super) fn is_done(&self) -> bool {
        self.state == StageState::Over(StageEnd::Done)
    }

    /// The stage that keeps it from beginning for good.
    pub(super) fn blocked_by(&self) -> Option<&StageId> {
        if let StageState::Over(StageEnd::Blocked { by }) = &self.state { Some(by) } else { None }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, StageState::Over(_))
    }
}

/// The stages of a manifest, and where each id is.
pub(super) fn nodes(manifest: &Manifest) -> (Vec<Node>, HashMap<StageId, usize>) {
    let index: HashMap<StageId, usize> =
        manifest.stages.iter().enumerate().map(|(at, stage)| (stage.id.clone(), at)).collect();
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
            state: StageState::Waiting,
            take: stage.part.take,
            on_fail: stage.part.on_fail,
            retries: stage.part.retries,
            tries: 1,
            mends: 0,
            is_unmerged: false,
            begun: false,
            estimate: stage.part.estimate_tokens,
            is_verified: stage.verification.is_some(),
        })
        .collect();
    for at in 0..nodes.len() {
        for (need, optional) in nodes[at].needs.clone() {
            nodes[need].dependants.push((at, optional));
        }
    }
    (nodes, index)
}
