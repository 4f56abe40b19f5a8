//! A plan that goes on: what was interrupted or failed is opened again, what is done stays done.

use crate::manifest::Take;
use crate::plan::node::Node;
use crate::plan::{Plan, StageEnd, StageState};

impl Plan {
    /// What was interrupted or failed goes on. What is under way, such as a merge or the delivery, is settled by
    /// whoever took the run up, and is not wanted a second time.
    pub fn resume(&mut self) {
        self.halted = None;
        self.stop = None;
        self.paused = false;
        self.held_until = None;
        self.ended = None;
        for at in 0..self.nodes.len() {
            self.revive(at);
        }
        self.over = self.nodes.iter().filter(|node| node.is_over()).count();
        self.open();
    }

    /// Complete stages go on, with follow-up work.
    pub fn go_on(&mut self) {
        self.ended = None;
        for node in &mut self.nodes {
            if node.state == StageState::Over(StageEnd::Done) {
                node.state = StageState::Working;
                self.over -= 1;
                self.at_work += 1;
            }
        }
    }

    /// Counts for each waiting stage what it still needs; opens those that need nothing.
    pub(super) fn open(&mut self) {
        let assumed = |node: &&Node| node.take == Take::Assume && !node.is_over();
        self.unconfirmed = self.nodes.iter().filter(assumed).count();
        for at in 0..self.nodes.len() {
            if self.nodes[at].state != StageState::Waiting {
                continue;
            }
            let is_skipped = self.nodes[at].take == Take::Skip;
            let settled = |(need, optional): &(usize, bool)| match &self.nodes[*need].state {
                StageState::Over(StageEnd::Done) => true,
                StageState::Over(_) => *optional || is_skipped,
                StageState::Waiting
                | StageState::Ready
                | StageState::Preparing
                | StageState::Working
                | StageState::Merging
                | StageState::Interrupted(_) => false,
            };
            let left = self.nodes[at].needs.iter().filter(|need| !settled(need)).count();
            self.nodes[at].needs_left = left;
        }
        for at in 0..self.nodes.len() {
            if self.nodes[at].state != StageState::Waiting || self.nodes[at].needs_left > 0 {
                continue;
            }
            // In its turn, so that what it stood between stays in its order.
            if self.nodes[at].take == Take::Skip {
                self.finish(at, StageEnd::LeftOut { with: None });
            } else {
                self.make_ready(at);
            }
        }
    }

    /// Puts a stage back that is not done, so that a resume goes on with it.
    fn revive(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let again = match &node.state {
            StageState::Interrupted(_) => StageState::Waiting,
            StageState::Over(end) => match end {
                StageEnd::Failed(_) | StageEnd::Skipped(_) => {
                    node.tries = 1;
                    node.mends = 0;
                    // A person may have put together what did not go together, or mended what git
                    // stumbled over. What the stage did is done.
                    if node.is_unmerged {
                        self.queue.push_back(at);
                        StageState::Merging
                    } else {
                        StageState::Waiting
                    }
                }
                StageEnd::Blocked { .. } => StageState::Waiting,
                StageEnd::Done | StageEnd::LeftOut { .. } => return,
            },
            StageState::Waiting
            | StageState::Ready
            | StageState::Preparing
            | StageState::Working
            | StageState::Merging => return,
        };
        self.nodes[at].state = again;
    }
}
