//! Which of its two trades the agent has in a conversation: with a standing text it is a session of a
//! relay, without one it plans.

use super::planner::Planner;
use super::scenario::Revision;
use super::work::{Move, Outcome, Work};

/// The agent's mind.
pub(super) enum Mind {
    /// It works off a task and hands over.
    Relay(Box<Work>),
    /// It plans.
    Planner(Planner),
}

impl Mind {
    /// Reads a message, or the reason why its turn may not end.
    pub(super) fn read(&mut self, blocks: &[String]) {
        match self {
            Self::Relay(work) => work.read(blocks),
            Self::Planner(planner) => planner.read(blocks),
        }
    }

    /// What comes next.
    pub(super) fn next(&mut self) -> Move {
        match self {
            Self::Relay(work) => work.next(),
            Self::Planner(planner) => planner.next(),
        }
    }

    /// Takes note of what the last call came to.
    pub(super) fn saw(&mut self, outcome: &Outcome) {
        match self {
            Self::Relay(work) => work.saw(outcome),
            Self::Planner(planner) => planner.saw(outcome),
        }
    }

    /// The answer of this turn, where it is held to a schema.
    pub(super) fn answer(&self) -> Option<String> {
        match self {
            Self::Relay(_) => None,
            Self::Planner(planner) => planner.answer(),
        }
    }

    /// How a scenario wants a handoff to differ; who hands nothing over has none.
    pub(super) fn revision(&mut self) -> Option<&mut Revision> {
        match self {
            Self::Relay(work) => Some(&mut work.revision),
            Self::Planner(_) => None,
        }
    }
}
