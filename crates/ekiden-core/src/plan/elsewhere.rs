//! A plan whose stages a fleet runs. The fleet's history decides, whatever order this plan would have chosen.
//!
//! The fleet's own plan may process two ends in a different order than its history lists them. So the stage that it
//! begins or merges next can differ from the one that is next here.

use std::cmp::Reverse;

use crate::ids::StageId;
use crate::plan::{Plan, StageState};

impl Plan {
    /// The fleet begins or continues this stage.
    pub fn begins_elsewhere(&mut self, stage: &StageId) {
        let Some(at) = self.in_state(stage, &StageState::Ready) else {
            return;
        };
        self.ready.remove(&(Reverse(self.behind[at]), at));
        self.at_work += 1;
        let node = &mut self.nodes[at];
        node.now.state = match node.now.begun {
            true => StageState::Working,
            false => StageState::Preparing,
        };
    }

    pub fn merges_elsewhere(&mut self, stage: &StageId) {
        let Some(at) = self.in_state(stage, &StageState::Merging) else {
            return;
        };
        if self.now.merging == Some(at) {
            return;
        }
        self.now.queue.retain(|waiting| *waiting != at);
        if let Some(other) = self.now.merging.replace(at) {
            self.now.queue.push_front(other);
        }
    }
}
