//! The settings of the guard over sessions that a person started: rows of the same table.

use ekiden_core::guard::Levels;
use ekiden_core::guard::checkpoint::{Wip, WipError};

use super::form;
use super::setting::{Joins, Row, Setting, Takes, Trust, UsedBy};

/// Where a watched session's uncommitted work goes at a checkpoint.
pub static GUARD_WIP: Setting<Wip> = Setting {
    row: Row {
        long: None,
        default: Some("ref"),
        takes: Takes::One("PLACE"),
        used_by: UsedBy::None,
        // A project that was merely cloned must not have commits made on a branch.
        trust: Trust::User,
        doc: "Where a watched session's uncommitted work goes at a checkpoint: ref (refs/ekiden/wip/), branch, or off",
        ..Row::flag("guard.wip", "", "EKIDEN_GUARD_WIP")
    },
    read: |text| text.parse().map_err(|error: WipError| error.to_string()),
};

/// The issue that watched sessions work on.
pub static GUARD_ISSUE: Setting<String> = Setting {
    row: Row {
        long: None,
        takes: Takes::One("ISSUE"),
        used_by: UsedBy::None,
        doc: "The issue that watched sessions work on, such as ANV-123; else it is told by the branch",
        ..Row::flag("guard.issue", "", "EKIDEN_GUARD_ISSUE")
    },
    read: form::text,
};

/// Where a watched session's levels begin.
pub static GUARD_LEVELS: Setting<Levels> = Setting {
    row: Row {
        long: None,
        default: Some("70,85,95"),
        takes: Takes::One("A,B,C"),
        joins: Joins::Commas,
        used_by: UsedBy::None,
        doc: "Percent of a watched session's usable window that warn, begin the handover, force it",
        ..Row::flag("guard.levels", "", "EKIDEN_GUARD_LEVELS")
    },
    read: form::levels,
};

/// A remark at the end of a turn.
pub static GUARD_REMINDER: Setting<bool> = Setting {
    row: Row {
        long: None,
        default: Some("true"),
        takes: Takes::One("BOOL"),
        used_by: UsedBy::None,
        doc: "Remark once when a watched session stops with more than half of its window used and no handoff",
        ..Row::flag("guard.reminder", "", "EKIDEN_GUARD_REMINDER")
    },
    read: form::switch,
};
