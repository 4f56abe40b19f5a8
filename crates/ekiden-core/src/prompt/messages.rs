//! Short messages into a session: order, refusal, go on, ask again, resume.
//!
//! The protocol announces them (messages that begin with "ekiden:"). They state facts, and contain nothing
//! that an agent wrote.

use serde::{Deserialize, Serialize};

use super::fill::fill;
use crate::guard::Denial;
use crate::handoff::fault::Fault;
use crate::handoff::status::Marker;
use crate::limits;

pub(super) const ORDER: &str = include_str!("texts/order.md");
pub(super) const GO_ON: &str = include_str!("texts/go_on.md");
pub(super) const ASK_AGAIN: &str = include_str!("texts/ask_again.md");
pub(super) const RESUME: &str = include_str!("texts/resume.md");
pub(super) const READ_PROMPT: &str = include_str!("texts/read_prompt.md");
pub(super) const HANDING_OFF: &str = include_str!("texts/refusal_handing_off.md");
pub(super) const ENGINE_OWNED: &str = include_str!("texts/refusal_engine_owned.md");
pub(super) const SUBAGENT: &str = include_str!("texts/refusal_subagent.md");
pub(super) const SCHEDULED: &str = include_str!("texts/refusal_scheduled.md");
pub(super) const READ_ONLY: &str = include_str!("texts/refusal_read_only.md");

/// The wordings of these messages.
pub(super) const TEXTS: [&str; 11] = [
    ORDER,
    GO_ON,
    ASK_AGAIN,
    RESUME,
    READ_PROMPT,
    HANDING_OFF,
    ENGINE_OWNED,
    SUBAGENT,
    SCHEDULED,
    READ_ONLY,
    REFUSED_IN_PLANNING,
];

pub const NO_COMPACTION: &str =
    "This conversation is not summarised: ekiden hands off to a fresh one instead.";

/// The reason of a denied call in a planning session, which has no handoff.
pub const REFUSED_IN_PLANNING: &str =
    "Not run: this belongs to ekiden, or schedules work for later. Go on without it.";

/// Why a session gets the order to hand off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderReason {
    /// Its context has grown to L2.
    Context,
    /// Its budget is nearly spent.
    Budget,
    Time,
    /// The user wants the next session to continue.
    Asked,
    /// The user wants to stop.
    Operator,
}

/// The reason of a denied permission: in an unattended session nobody can be asked.
pub const UNATTENDED: &str = "Not run: the permissions in force do not cover this, and nobody is here to ask. \
     Take another way, or say under \"Issues\" what you would need.";

/// The last block of a message into a conversation. The client attaches the files that the last block of
/// a turn's first message names, and our constant names none.
pub const SIGNATURE: &str = "(This message is from ekiden, the program that runs this session.)";

impl OrderReason {
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Context => "A fresh conversation will work better from here.",
            Self::Budget => "This session's share of the budget is used.",
            Self::Time => "This session's time is up.",
            Self::Asked => "The operator wants a fresh conversation to go on from here.",
            Self::Operator => "The operator wants to stop here.",
        }
    }
}

/// The handoff order, as a message into the running turn or the reason of a Stop.
pub fn order(reason: OrderReason, handoff_dir: &str, marker: &Marker) -> String {
    let values = [
        ("reason", reason.sentence()),
        ("handoff_dir", handoff_dir),
        ("marker", marker.as_str()),
    ];
    fill(ORDER.trim_end(), &values)
}

/// The reason of a denied call.
pub fn refusal(denial: &Denial, handoff_dir: &str) -> String {
    let (text, missing) = match denial {
        Denial::HandingOff { missing } => (HANDING_OFF, missing.as_str()),
        Denial::EngineOwned => (ENGINE_OWNED, ""),
        Denial::SubagentHandoff => (SUBAGENT, ""),
        Denial::Unattended => (SCHEDULED, ""),
        Denial::ReadOnly => (READ_ONLY, ""),
    };
    let values = [("handoff_dir", handoff_dir), ("missing", missing)];
    fill(text.trim_end(), &values)
}

/// A turn ended early and there is room: go on.
pub fn go_on(marker: &Marker) -> String {
    fill(GO_ON.trim_end(), &[("marker", marker.as_str())])
}

/// The faults of a handoff, the most serious first, at most [`limits::FAULTS_TOLD_MAX`]. It never repeats the
/// whole protocol: correct parts stay.
pub fn ask_again<'a>(faults: impl IntoIterator<Item = &'a Fault>, handoff_dir: &str) -> String {
    let mut faults: Vec<&Fault> = faults.into_iter().collect();
    faults.sort_by_key(|fault| fault.severity());
    let mut text = fill(ASK_AGAIN.trim_end(), &[("handoff_dir", handoff_dir)]);
    for fault in faults.iter().take(limits::FAULTS_TOLD_MAX) {
        text.push_str(&format!("\n- {fault}"));
    }
    text
}

/// The first message after a conversation was resumed.
pub fn resume_note() -> String {
    RESUME.trim_end().to_owned()
}

/// The first message in a client's own interface, where only one line fits: it says where the prompt is.
pub fn read_prompt(file: &str) -> String {
    fill(READ_PROMPT.trim_end(), &[("file", file)])
}
