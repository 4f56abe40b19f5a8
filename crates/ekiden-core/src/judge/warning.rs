//! Warnings about a session that is over.

use serde::{Deserialize, Serialize};

use super::{Repeat, WeakenedTest};
use crate::ids::SessionNumber;

/// Something that a person should look at; the run continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Warning {
    /// A session's notes are almost those of an earlier one.
    Repeated {
        session: SessionNumber,
        /// What it repeats, and how often in a row by now.
        repeat: Repeat,
        /// Repeats in a row that end the run.
        repeats_max: u32,
    },
    /// Nothing moved in a session.
    Idle {
        session: SessionNumber,
        /// Sessions in a row of which that is true.
        in_a_row: u32,
        /// How many end the run.
        sessions_max: u32,
    },
    /// Items that were open are gone without a tick.
    ItemsVanished {
        /// The session that left them out.
        session: SessionNumber,
        items: Vec<String>,
        count: usize,
    },
    /// An item of a list was not finished by so many sessions, and is left to a person.
    ItemSetAside {
        /// The last of them.
        session: SessionNumber,
        item: String,
        tries: u32,
    },
    /// The verification passes, but tests say less than before.
    TestsWeakened {
        /// The session that is over.
        session: SessionNumber,
        tests: Vec<WeakenedTest>,
    },
    /// The verification passes, and nobody knows whether tests say less than before.
    TestsUnread {
        /// The session that is over.
        session: SessionNumber,
        why: String,
    },
    /// Core Knowledge is larger than its share of a prompt.
    KnowledgeCut {
        /// Facts that the next session is not given.
        left_out: usize,
        facts: usize,
    },
}

impl Warning {
    /// Notes that are alike mean nothing while the work moves; only programs are told of them.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Repeated { repeat, .. } if repeat.in_a_row == 0)
    }
}
