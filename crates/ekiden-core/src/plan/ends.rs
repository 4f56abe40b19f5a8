//! How a stage ends, what that means for the stages behind it, and how the whole plan ends.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::node::{Node, StageEnd, StageState};
use super::{Delivery, Plan, PlanDecision};
use crate::ids::StageId;
use crate::manifest::{OnFail, Take};
use crate::outcome::{Outcome, StageFailed};

impl Plan {
    pub(super) fn conclude(&mut self) -> PlanDecision {
        let mut outcome = self.outcome();
        if outcome.is_complete() && self.now.delivery == Delivery::Due {
            self.now.delivery = Delivery::UnderWay;
            return PlanDecision::Deliver;
        }
        if let (Outcome::Complete { verified }, Delivery::Kept { command }) =
            (&outcome, &self.now.delivery)
        {
            outcome = Outcome::Undelivered {
                verified: *verified,
                command: command.clone(),
            };
        }
        self.now.ended = Some(outcome.clone());
        PlanDecision::End(outcome)
    }

    fn outcome(&self) -> Outcome {
        let mut failed = self.failed();
        let mut states = self.nodes.iter().map(|node| &node.now.state);
        let out = states.find_map(|state| match state {
            StageState::Interrupted(outcome) => Some(outcome.clone()),
            StageState::Waiting
            | StageState::Ready
            | StageState::Preparing
            | StageState::Working
            | StageState::Merging
            | StageState::Over(_) => None,
        });
        let halt = self.halt().or(out);
        match halt.filter(|_| self.over < self.nodes.len()) {
            // Others may have failed since, and an answer may have ended the failure that came first.
            Some(Outcome::StagesFailed { .. }) if !failed.is_empty() => {}
            Some(halt) => return halt,
            None => {}
        }
        match failed.pop() {
            None => {
                let mut done = self.nodes.iter().filter(|node| node.is_done()).peekable();
                let verified = done.peek().is_some() && done.all(|node| node.now.is_verified);
                Outcome::Complete { verified }
            }
            // A single relay's outcome is that of its run.
            Some(one) if !self.in_worktrees => *one.outcome,
            Some(last) => {
                failed.push(last);
                let blocked = self
                    .nodes
                    .iter()
                    .filter(|node| node.blocked_by().is_some())
                    .count();
                Outcome::StagesFailed {
                    failed,
                    blocked: u32::try_from(blocked).unwrap_or(u32::MAX),
                }
            }
        }
    }

    /// The stages whose failures matter. A failure that the plan tolerates matters if it blocks other stages,
    /// or if the plan is over with nothing done.
    pub(super) fn failed(&self) -> Vec<StageFailed> {
        let blocking: HashSet<&StageId> = self.nodes.iter().filter_map(Node::blocked_by).collect();
        let is_over = self.over == self.nodes.len();
        let nothing_done = is_over && !self.nodes.iter().any(Node::is_done);
        let of_node = |node: &Node| {
            let (outcome, is_skipped) = node.now.state.failure()?;
            let matters = !is_skipped || nothing_done || blocking.contains(&node.id);
            matters.then(|| StageFailed {
                stage: node.id.clone(),
                outcome: Box::new(outcome.clone()),
            })
        };
        self.nodes.iter().filter_map(of_node).collect()
    }

    pub(super) fn fail(&mut self, at: usize, outcome: Outcome) {
        let node = &self.nodes[at];
        let end = match node.on_fail {
            // What the user assumes to be done must be done.
            _ if node.take == Take::Assume => StageEnd::Failed(outcome),
            OnFail::Skip => StageEnd::Skipped(outcome),
            OnFail::Block => StageEnd::Failed(outcome),
            OnFail::Stop => {
                let one = StageFailed {
                    stage: node.id.clone(),
                    outcome: Box::new(outcome.clone()),
                };
                self.halt_by(vec![one]);
                StageEnd::Failed(outcome)
            }
        };
        self.finish(at, end);
    }

    fn halt_by(&mut self, failed: Vec<StageFailed>) {
        if self.in_worktrees {
            self.now
                .halted
                .get_or_insert(Outcome::StagesFailed { failed, blocked: 0 });
        }
    }

    /// A stage is over: stages that wait for it become ready, are blocked, or are left out with it.
    pub(super) fn finish(&mut self, at: usize, end: StageEnd) {
        let mut ends = vec![(at, end)];
        while let Some((at, end)) = ends.pop() {
            let node = &mut self.nodes[at];
            let passes = end == StageEnd::Done;
            let was = std::mem::replace(&mut node.now.state, StageState::Over(end));
            self.over += 1;
            if node.take == Take::Assume && was == StageState::Merging {
                self.confirmed();
            }
            let lasts = !self.waits_for_answer(at);
            let dependants = std::mem::take(&mut self.nodes[at].dependants);
            for &(dependant, optional) in &dependants {
                let node = &mut self.nodes[dependant];
                if node.now.state != StageState::Waiting {
                    continue;
                }
                let is_skipped = node.take == Take::Skip;
                if passes || (optional && lasts) || is_skipped {
                    node.needs_left -= 1;
                    match node.needs_left {
                        0 if is_skipped => ends.push((dependant, StageEnd::LeftOut { with: None })),
                        0 => self.make_ready(dependant),
                        _ => {}
                    }
                } else {
                    let end = self.end_by_need(dependant);
                    ends.extend(end.map(|end| (dependant, end)));
                }
            }
            self.nodes[at].dependants = dependants;
        }
    }

    /// How a waiting stage ends because a stage that it needs is over and not done; none if there is no such stage.
    pub(super) fn end_by_need(&self, at: usize) -> Option<StageEnd> {
        let node = &self.nodes[at];
        let mut required = node.needs.iter().filter_map(|(need, optional)| {
            let is_required = !optional || self.waits_for_answer(*need);
            is_required.then(|| &self.nodes[*need])
        });
        let need = required.find(|need| need.is_over() && !need.is_done())?;
        let is_left_out = matches!(need.now.state, StageState::Over(StageEnd::LeftOut { .. }));
        let by = need.id.clone();
        Some(match is_left_out {
            true => StageEnd::LeftOut { with: Some(by) },
            false => StageEnd::Blocked { by },
        })
    }

    /// It ended with a question or is blocked by a stage that did, and goes on with the answer.
    pub(super) fn waits_for_answer(&self, at: usize) -> bool {
        match &self.nodes[at].now.state {
            StageState::Over(StageEnd::Failed(outcome)) => outcome.asks(),
            StageState::Over(StageEnd::Blocked { by }) => {
                self.place(by).is_some_and(|by| self.waits_for_answer(by))
            }
            StageState::Waiting
            | StageState::Ready
            | StageState::Preparing
            | StageState::Working
            | StageState::Merging
            | StageState::Interrupted(_)
            | StageState::Over(StageEnd::Done | StageEnd::Skipped(_) | StageEnd::LeftOut { .. }) => {
                false
            }
        }
    }

    /// One more stage is now known to have been done before, or not. Nothing begins if one was not.
    fn confirmed(&mut self) {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
        if self.unconfirmed > 0 {
            return;
        }
        let not_done: Vec<_> = self
            .failed()
            .into_iter()
            .filter(|one| self.is_assumed(&one.stage))
            .collect();
        if !not_done.is_empty() {
            self.halt_by(not_done);
        }
    }

    fn is_assumed(&self, stage: &StageId) -> bool {
        self.index
            .get(stage)
            .is_some_and(|at| self.nodes[*at].take == Take::Assume)
    }

    pub(super) fn make_ready(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.take == Take::Assume {
            node.now.state = StageState::Merging;
            self.now.queue.push_back(at);
            self.unconfirmed += 1;
        } else if let Some(outcome) = &node.out {
            node.now.state = StageState::Interrupted(outcome.clone());
        } else {
            node.now.state = StageState::Ready;
            self.ready.insert((Reverse(self.behind[at]), at));
        }
    }
}
