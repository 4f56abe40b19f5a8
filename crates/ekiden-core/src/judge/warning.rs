//! Warnings about a finished session.

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
        /// What it repeats, and how often in a row so far.
        repeat: Repeat,
        /// Repeats in a row that end the run.
        repeats_max: u32,
    },
    /// Nothing moved in a session.
    Idle {
        session: SessionNumber,
        /// The number of such sessions in a row.
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
    /// So many sessions did not finish an item of a list, and a person has to decide.
    ItemSetAside {
        /// The last of them.
        session: SessionNumber,
        item: String,
        tries: u32,
    },
    /// The verification passes, but tests are weaker than before.
    TestsWeakened {
        session: SessionNumber,
        tests: Vec<WeakenedTest>,
    },
    /// The verification passes, and nobody knows whether tests are weaker than before.
    TestsUnread { session: SessionNumber, why: String },
    /// What is checked out no longer contains commits that it contained before the session.
    CommitsDropped {
        session: SessionNumber,
        count: u32,
        /// The newest of them.
        commit: String,
    },
    /// Git's stash has entries that were not there when the relay began.
    Stashed { session: SessionNumber, count: u32 },
    /// Core Knowledge is larger than its share of a prompt.
    KnowledgeCut {
        /// Facts that the next session does not get.
        left_out: usize,
        facts: usize,
    },
}

impl Warning {
    /// Similar notes mean nothing while the work moves; only programs get this warning.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Repeated { repeat, .. } if repeat.in_a_row == 0)
    }
}
