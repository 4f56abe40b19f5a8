//! The settings that bound a session's time and a run's money: rows of the same table.

use ekiden_core::limits;
use ekiden_core::time::Millis;

use super::form;
use super::setting::{Row, Setting, Takes, UsedBy};

/// How long a session works.
pub static SESSION_TIMEOUT: Setting<Millis> = Setting {
    row: Row {
        default: Some("30m"),
        takes: Takes::One("DURATION"),
        used_by: UsedBy::RunAndResume,
        doc: "How long a session works before it is told to hand off, such as 45m, 2h; 0 for no limit",
        ..Row::flag("session_timeout", "session-timeout", "EKIDEN_SESSION_TIMEOUT")
    },
    read: form::duration_or_none,
};

/// Responses of the model in a session.
pub static MAX_TURNS: Setting<u32> = Setting {
    row: Row {
        takes: Takes::One("N"),
        used_by: UsedBy::RunAndResume,
        doc: "Responses of the model before a session is told to hand off; 0 for no limit",
        ..Row::flag("max_turns", "max-turns", "EKIDEN_MAX_TURNS")
    },
    read: |text| {
        let number = form::number(text, 0..=u64::from(limits::TURNS_MAX_MAX))?;
        u32::try_from(number).map_err(|error| error.to_string())
    },
};

/// What a session may cost.
pub static SESSION_BUDGET: Setting<u64> = Setting {
    row: Row {
        takes: Takes::One("USD"),
        used_by: UsedBy::RunAndResume,
        doc: "What one session may cost, in US dollars; it is told to hand off at 90 %",
        ..Row::flag("session_budget", "session-budget", "EKIDEN_SESSION_BUDGET")
    },
    read: form::dollars,
};

/// What a run may cost.
pub static RUN_BUDGET: Setting<u64> = Setting {
    row: Row {
        takes: Takes::One("USD"),
        used_by: UsedBy::RunAndResume,
        doc: "What all sessions of a run may cost, in US dollars, those before a resume included",
        ..Row::flag("run_budget", "run-budget", "EKIDEN_RUN_BUDGET")
    },
    read: form::dollars,
};

/// Tokens of a session.
pub static SESSION_TOKENS: Setting<u64> = Setting {
    row: Row {
        takes: Takes::One("TOKENS"),
        used_by: UsedBy::RunAndResume,
        doc: "Tokens that one session may use, cache reads not counted, such as 400k, 2M; for subscriptions",
        ..Row::flag("session_tokens", "session-tokens", "EKIDEN_SESSION_TOKENS")
    },
    read: form::tokens,
};

/// Tokens of a run.
pub static RUN_TOKENS: Setting<u64> = Setting {
    row: Row {
        takes: Takes::One("TOKENS"),
        used_by: UsedBy::RunAndResume,
        doc: "Tokens that all sessions of a run may use, cache reads not counted",
        ..Row::flag("run_tokens", "run-tokens", "EKIDEN_RUN_TOKENS")
    },
    read: form::tokens,
};
