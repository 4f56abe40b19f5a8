//! Resuming a plan: interrupted and failed stages open again, finished stages stay done.

use std::collections::BTreeSet;

use crate::ids::StageId;
use crate::manifest::{OnFail, Take};
use crate::outcome::Outcome;
use crate::plan::node::Node;
use crate::plan::{Plan, StageEnd, StageState};

impl Plan {
    /// Interrupted and failed stages continue, except those that the plan does without. Anything in progress, such as a
    /// merge or the delivery, is settled by the engine that resumed the run, and is not ordered again. If a question is
    /// answered, stages that wait for an answer to another question stay as they are, and so do the stages that they
    /// block.
    pub fn resume(&mut self, answered: Option<&StageId>) {
        let mut stay = self.done_without();
        self.reopen();
        if let Some(answered) = answered {
            stay.extend(self.still_asks(answered));
            stay.remove(answered);
        }
        for at in 0..self.nodes.len() {
            if !stay.contains(&self.nodes[at].id) {
                self.revive(at);
            }
        }
        self.over = self.nodes.iter().filter(|node| node.is_over()).count();
        self.open();
    }

    /// A stage that ended with a question gets its answer while the plan runs: it continues, with the stages that
    /// wait for it. If only its question halted the plan, the halt ends; otherwise it waits for the resume. False if
    /// it asked nothing, or if the plan has ended.
    pub fn answered(&mut self, stage: &StageId) -> bool {
        if self.now.ended.is_some() || !self.asks(stage) {
            return false;
        }
        let mut revived = self.blocked_by(stage);
        revived.push(stage.clone());
        for at in revived
            .iter()
            .filter_map(|stage| self.place(stage))
            .collect::<Vec<_>>()
        {
            self.revive(at);
        }
        self.lift_halt();
        self.over = self.nodes.iter().filter(|node| node.is_over()).count();
        self.open();
        true
    }

    /// Ends a halt if none of the failures that led to it is left: what it interrupted continues.
    fn lift_halt(&mut self) {
        let halts = |node: &Node| {
            let stops = node.on_fail == OnFail::Stop || node.take == Take::Assume;
            stops && node.now.state.failure().is_some()
        };
        let by_failure = matches!(self.now.halted, Some(Outcome::StagesFailed { .. }));
        if !by_failure || self.nodes.iter().any(halts) {
            return;
        }
        self.now.halted = None;
        for at in 0..self.nodes.len() {
            if let StageState::Interrupted(_) = self.nodes[at].now.state {
                self.revive(at);
            }
        }
    }

    /// The stage ended with a question, and nobody has answered it.
    pub fn asks(&self, stage: &StageId) -> bool {
        self.state(stage).is_some_and(asks)
    }

    /// The same, and its failure matters.
    pub fn needs_you(&self, stage: &StageId) -> bool {
        self.asks(stage) && self.failed().iter().any(|one| one.stage == *stage)
    }

    /// The stages that failed and that the plan does without. One that is done may still be merged.
    fn done_without(&self) -> BTreeSet<StageId> {
        let skipped = self.states().filter(|(_, state)| {
            let failure = state.failure();
            failure.is_some_and(|(outcome, is_skipped)| is_skipped && !outcome.is_of_merge())
        });
        let mut without: BTreeSet<StageId> = skipped.map(|(stage, _)| stage.clone()).collect();
        for matters in self.failed() {
            without.remove(&matters.stage);
        }
        without
    }

    /// The stages that asked a question other than the answered one, and those that they block.
    fn still_asks(&self, answered: &StageId) -> BTreeSet<StageId> {
        let asking = self
            .states()
            .filter(|(stage, state)| asks(state) && *stage != answered);
        let asking = asking.map(|(stage, _)| [vec![stage.clone()], self.blocked_by(stage)]);
        asking.flatten().flatten().collect()
    }

    /// Complete stages continue, with follow-up work.
    pub fn go_on(&mut self) {
        self.reopen();
        for node in &mut self.nodes {
            if node.now.state == StageState::Over(StageEnd::Done) {
                node.now.state = StageState::Working;
                self.over -= 1;
                self.at_work += 1;
            }
        }
    }

    /// Its end is over, and so is what held it or was asked of it before.
    fn reopen(&mut self) {
        self.now.halted = None;
        self.now.stop = None;
        self.now.paused = false;
        for node in &mut self.nodes {
            (node.held_until, node.out) = (None, None);
        }
        self.now.ended = None;
    }

    /// Counts the open needs of each stage that has not begun, and opens the stages without any.
    pub(super) fn open(&mut self) {
        for (_, at) in std::mem::take(&mut self.ready) {
            self.nodes[at].now.state = StageState::Waiting;
        }
        let assumed =
            |node: &&Node| node.take == Take::Assume && node.now.state == StageState::Merging;
        self.unconfirmed = self.nodes.iter().filter(assumed).count();
        for at in 0..self.nodes.len() {
            if self.nodes[at].now.state != StageState::Waiting {
                continue;
            }
            let is_skipped = self.nodes[at].take == Take::Skip;
            let settled = |(at, optional): &(usize, bool)| {
                let (need, lasts) = (&self.nodes[*at], !self.waits_for_answer(*at));
                need.is_done() || need.is_over() && (*optional && lasts || is_skipped)
            };
            let left = self.nodes[at]
                .needs
                .iter()
                .filter(|need| !settled(need))
                .count();
            self.nodes[at].needs_left = left;
        }
        for at in 0..self.nodes.len() {
            if self.nodes[at].now.state != StageState::Waiting {
                continue;
            }
            let is_skipped = self.nodes[at].take == Take::Skip;
            // Handled in turn, so that the stages before and after it keep their order.
            match self.nodes[at].needs_left {
                0 if is_skipped => self.finish(at, StageEnd::LeftOut { with: None }),
                0 => self.make_ready(at),
                _ if is_skipped => {}
                _ => {
                    if let Some(end) = self.end_by_need(at) {
                        self.finish(at, end);
                    }
                }
            }
        }
    }

    /// Resets a stage that is not done, so that a resume continues with it.
    fn revive(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let again = match &node.now.state {
            StageState::Interrupted(_) => StageState::Waiting,
            StageState::Over(end) => match end {
                StageEnd::Failed(outcome) | StageEnd::Skipped(outcome) => {
                    node.now.tries = 1;
                    node.now.mends = 0;
                    // The stage is done; a person may have resolved the conflict, or fixed what git failed
                    // on.
                    if outcome.is_of_merge() {
                        self.now.queue.push_back(at);
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
        self.nodes[at].now.state = again;
    }
}

/// It ended with a question.
fn asks(state: &StageState) -> bool {
    matches!(state.failure(), Some((Outcome::Blocked { .. }, _)))
}
