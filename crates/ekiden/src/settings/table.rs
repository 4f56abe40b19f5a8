//! The settings, each once: name, flag, variable, key, default, form, one line of help.
//!
//! The command line, the environment, the settings files, `ekiden config show` and
//! `docs/settings.md` are all made from [`TABLE`]; nothing about a setting is said anywhere else.

use ekiden_core::bounds::OnRateLimit;
use ekiden_core::guard::Levels;
use ekiden_core::handoff::Marker;
use ekiden_core::limits;
use ekiden_core::quiet::QuietHours;
use ekiden_core::time::Millis;

pub use super::bounds::{MAX_TURNS, RUN_BUDGET, RUN_TOKENS, SESSION_BUDGET, SESSION_TIMEOUT, SESSION_TOKENS};
use super::form;
pub use super::guard::{GUARD_ISSUE, GUARD_LEVELS, GUARD_REMINDER, GUARD_WIP};
pub use super::setting::{AnySetting, Joins, Row, Setting, Takes, Trust, UsedBy};

/// All settings, in the order of help and of `ekiden config show`.
pub static TABLE: &[&dyn AnySetting] = &[
    &MAX_SESSIONS,
    &WORK_DIR,
    &PAUSE,
    &COMPLETION_MARKER,
    &VERIFY,
    &VERIFY_TIMEOUT,
    &GIT_COMMIT,
    &BRANCH,
    &AGENT,
    &AGENT_COMMAND,
    &MODEL,
    &PERMISSION_MODE,
    &SKIP_PERMISSIONS,
    &ALLOWED_TOOL,
    &SAFE_MODE,
    &ISOLATED,
    &TUI,
    &SUBAGENTS,
    &LEVELS,
    &CAP_TOKENS,
    &SESSION_TIMEOUT,
    &MAX_TURNS,
    &SESSION_BUDGET,
    &RUN_BUDGET,
    &SESSION_TOKENS,
    &RUN_TOKENS,
    &MAX_WAIT,
    &ON_RATE_LIMIT,
    &QUIET_HOURS,
    &STALL_SESSIONS,
    &RESEARCH,
    &NOTIFY,
    &GUARD_WIP,
    &GUARD_ISSUE,
    &GUIDED,
    &VERBOSE,
    &JSON,
    &STATE_DIR,
    &GUARD_LEVELS,
    &GUARD_REMINDER,
];

/// Sessions that a run may take.
pub static MAX_SESSIONS: Setting<u32> = Setting {
    row: Row {
        short: Some('m'),
        default: Some("10"),
        takes: Takes::One("N"),
        used_by: UsedBy::RunAndResume,
        doc: "Sessions that may begin, counted from here; 1 to 10000",
        ..Row::flag("max_sessions", "max-sessions", "EKIDEN_MAX_SESSIONS")
    },
    read: |text| {
        let number = form::number(text, 1..=u64::from(limits::SESSIONS_MAX_MAX))?;
        u32::try_from(number).map_err(|error| error.to_string())
    },
};

/// Where the run works.
pub static WORK_DIR: Setting<String> = Setting {
    row: Row {
        short: Some('d'),
        in_files: false,
        default: Some("."),
        takes: Takes::One("DIR"),
        used_by: UsedBy::All,
        doc: "Where the agent works",
        ..Row::flag("work_dir", "work-dir", "EKIDEN_WORK_DIR")
    },
    read: form::text,
};

/// The pause between two sessions.
pub static PAUSE: Setting<Millis> = Setting {
    row: Row {
        short: Some('p'),
        default: Some("0"),
        takes: Takes::One("SECONDS"),
        used_by: UsedBy::RunAndResume,
        doc: "Pause between two sessions, in seconds; 0 to 3600",
        ..Row::flag("pause", "pause", "EKIDEN_PAUSE")
    },
    read: |text| form::seconds(text, 0..=3600),
};

/// The word that claims completion.
pub static COMPLETION_MARKER: Setting<Marker> = Setting {
    row: Row {
        short: Some('c'),
        default: Some("ALL_COMPLETE"),
        takes: Takes::One("WORD"),
        doc: "The STATUS word by which the agent says that all is done",
        ..Row::flag("completion_marker", "completion-marker", "EKIDEN_COMPLETION_MARKER")
    },
    read: form::marker,
};

/// The objective check of done.
pub static VERIFY: Setting<String> = Setting {
    row: Row {
        takes: Takes::One("COMMAND"),
        trust: Trust::User,
        doc: "Shell command whose exit code 0 means done; it may run more than once",
        ..Row::flag("verify", "verify", "EKIDEN_VERIFY")
    },
    read: form::text,
};

/// How long the check may take.
pub static VERIFY_TIMEOUT: Setting<Millis> = Setting {
    row: Row {
        default: Some("120"),
        takes: Takes::One("SECONDS"),
        doc: "How long the verification may take, in seconds; 1 to 86400",
        ..Row::flag("verify_timeout", "verify-timeout", "EKIDEN_VERIFY_TIMEOUT")
    },
    read: |text| form::seconds(text, 1..=86_400),
};

/// Commits after each session.
pub static GIT_COMMIT: Setting<bool> = Setting {
    row: Row {
        short: Some('g'),
        default: Some("false"),
        takes: Takes::Nothing { off: "no-git-commit" },
        doc: "Commit after each session what it changed; the repository's hooks run",
        ..Row::flag("git_commit", "git-commit", "EKIDEN_GIT_COMMIT")
    },
    read: form::switch,
};

/// The branch that the run works on.
pub static BRANCH: Setting<String> = Setting {
    row: Row {
        takes: Takes::One("NAME"),
        doc: "Work on this branch, made from where you are if there is none",
        ..Row::flag("branch", "branch", "EKIDEN_BRANCH")
    },
    read: form::text,
};

/// Who works.
pub static AGENT: Setting<String> = Setting {
    row: Row {
        default: Some("claude"),
        takes: Takes::One("NAME"),
        trust: Trust::User,
        doc: "Who works: claude, rehearsal (free, without a model), or one of your own [agents.NAME]",
        ..Row::flag("agent", "agent", "EKIDEN_AGENT")
    },
    read: form::text,
};

/// The agent's program.
pub static AGENT_COMMAND: Setting<Vec<String>> = Setting {
    row: Row {
        takes: Takes::One("COMMAND"),
        joins: Joins::Words,
        trust: Trust::User,
        doc: "The agent's program and arguments; without --agent beside it, any program that reads a \
              prompt on its standard input",
        ..Row::flag("agent_command", "agent-command", "EKIDEN_AGENT_COMMAND")
    },
    read: form::command,
};

/// The model.
pub static MODEL: Setting<String> = Setting {
    row: Row {
        takes: Takes::One("MODEL"),
        doc: "The model, by the agent's own name for it",
        ..Row::flag("model", "model", "EKIDEN_MODEL")
    },
    read: form::text,
};

/// The agent's permission mode.
pub static PERMISSION_MODE: Setting<String> = Setting {
    row: Row {
        takes: Takes::One("MODE"),
        used_by: UsedBy::Watching,
        trust: Trust::User,
        doc: "The agent's permission mode, by its own name, such as acceptEdits",
        ..Row::flag("permission_mode", "permission-mode", "EKIDEN_PERMISSION_MODE")
    },
    read: form::text,
};

/// No permission is asked for.
pub static SKIP_PERMISSIONS: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-skip-permissions" },
        used_by: UsedBy::Watching,
        trust: Trust::User,
        doc: "Let the agent do everything without asking",
        ..Row::flag("skip_permissions", "skip-permissions", "EKIDEN_SKIP_PERMISSIONS")
    },
    read: form::switch,
};

/// The agent's own interface.
pub static TUI: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-tui" },
        trust: Trust::User,
        doc: "Show the agent in its own interface, where you can type at any time (Claude Code on a terminal)",
        ..Row::flag("tui", "tui", "EKIDEN_TUI")
    },
    read: form::switch,
};

/// Tools that may run.
pub static ALLOWED_TOOL: Setting<Vec<String>> = Setting {
    row: Row {
        takes: Takes::Many("RULE"),
        joins: Joins::Lines,
        used_by: UsedBy::Watching,
        trust: Trust::User,
        doc: "A tool that may run without asking, such as 'Bash(git:*)'; can be given more than once",
        ..Row::flag("allowed_tool", "allowed-tool", "EKIDEN_ALLOWED_TOOL")
    },
    read: form::lines,
};

/// The delegation hint.
pub static SUBAGENTS: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-subagents" },
        doc: "Ask each session to give bulky work to subagents",
        ..Row::flag("subagents", "subagents", "EKIDEN_SUBAGENTS")
    },
    read: form::switch,
};

/// The agent's own rules decide, whatever else is set.
pub static SAFE_MODE: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-safe-mode" },
        used_by: UsedBy::Watching,
        trust: Trust::User,
        doc: "Let the agent do only what its own rules allow, over any other mode or skipping that is set",
        ..Row::flag("safe_mode", "safe-mode", "EKIDEN_SAFE_MODE")
    },
    read: form::switch,
};

/// The user's own settings of the agent are left out.
pub static ISOLATED: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-isolated" },
        trust: Trust::User,
        doc: "Leave out your own settings, hooks, plugins and MCP servers of the agent, and the project's",
        ..Row::flag("isolated", "isolated", "EKIDEN_ISOLATED")
    },
    read: form::switch,
};

/// Where the levels begin.
pub static LEVELS: Setting<Levels> = Setting {
    row: Row {
        default: Some("50,60,70"),
        takes: Takes::One("A,B,C"),
        joins: Joins::Commas,
        doc: "Percent of the usable window that warn, order the handoff, force it",
        ..Row::flag("levels", "levels", "EKIDEN_LEVELS")
    },
    read: form::levels,
};

/// The most of a window that is used.
pub static CAP_TOKENS: Setting<u64> = Setting {
    row: Row {
        default: Some("200000"),
        takes: Takes::One("TOKENS"),
        doc: "The most of a large window that is used, in tokens; 0 for all of it",
        ..Row::flag("context.cap_tokens", "context-cap-tokens", "EKIDEN_CONTEXT_CAP_TOKENS")
    },
    read: |text| form::number(text, 0..=100_000_000),
};

/// What a usage limit leads to.
pub static ON_RATE_LIMIT: Setting<OnRateLimit> = Setting {
    row: Row {
        default: Some("wait"),
        takes: Takes::One("WHAT"),
        used_by: UsedBy::RunAndResume,
        doc: "What a usage limit leads to: wait until it resets, or stop the run",
        ..Row::flag("on_rate_limit", "on-rate-limit", "EKIDEN_ON_RATE_LIMIT")
    },
    read: form::on_rate_limit,
};

/// When no session starts.
pub static QUIET_HOURS: Setting<QuietHours> = Setting {
    row: Row {
        takes: Takes::One("HOURS"),
        joins: Joins::Commas,
        used_by: UsedBy::RunAndResume,
        doc: "Local times in which no session starts, such as 22:00-07:00; none for no such times",
        ..Row::flag("quiet_hours", "quiet-hours", "EKIDEN_QUIET_HOURS")
    },
    read: form::quiet_hours,
};

/// The longest wait for a usage limit.
pub static MAX_WAIT: Setting<Millis> = Setting {
    row: Row {
        default: Some("6h"),
        takes: Takes::One("DURATION"),
        used_by: UsedBy::RunAndResume,
        doc: "The longest wait for a usage limit, such as 90s, 5m, 6h; 0s to stop at once",
        ..Row::flag("max_wait", "max-wait", "EKIDEN_MAX_WAIT")
    },
    read: form::duration,
};

/// Sessions without progress that end the run.
pub static STALL_SESSIONS: Setting<u32> = Setting {
    row: Row {
        default: Some("3"),
        takes: Takes::One("N"),
        used_by: UsedBy::RunAndResume,
        doc: "Sessions in a row without progress that end the run; 0 for any number",
        ..Row::flag("stall_sessions", "stall-sessions", "EKIDEN_STALL_SESSIONS")
    },
    read: |text| {
        let number = form::number(text, 0..=u64::from(limits::SESSIONS_MAX_MAX))?;
        u32::try_from(number).map_err(|error| error.to_string())
    },
};

/// The task is to find something out.
pub static RESEARCH: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-research" },
        used_by: UsedBy::RunAndResume,
        doc: "The task is to find something out: unchanged files are no stall",
        ..Row::flag("research", "research", "EKIDEN_RESEARCH")
    },
    read: form::switch,
};

/// Notifications.
pub static NOTIFY: Setting<bool> = Setting {
    row: Row {
        default: Some("true"),
        takes: Takes::Nothing { off: "no-notify" },
        doc: "Desktop notification when the run ends or waits for a limit; --no-notify for none",
        ..Row::flag("notify", "notify", "EKIDEN_NOTIFY")
    },
    read: form::switch,
};

/// Somebody sits there.
pub static GUIDED: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-guided" },
        used_by: UsedBy::Watching,
        trust: Trust::User,
        doc: "Count down 10 s between sessions: enter holds it, to tell the next session something, change \
              limits or quit; on a terminal",
        ..Row::flag("guided", "guided", "EKIDEN_GUIDED")
    },
    read: form::switch,
};

/// What the agent says and does.
pub static VERBOSE: Setting<bool> = Setting {
    row: Row {
        short: Some('v'),
        default: Some("false"),
        takes: Takes::Nothing { off: "no-verbose" },
        used_by: UsedBy::Watching,
        doc: "Tell as well what the agent says and which tools it calls; --json does not hold it",
        ..Row::flag("verbose", "verbose", "EKIDEN_VERBOSE")
    },
    read: form::switch,
};

/// Output for programs.
pub static JSON: Setting<bool> = Setting {
    row: Row {
        default: Some("false"),
        takes: Takes::Nothing { off: "no-json" },
        used_by: UsedBy::All,
        doc: "Print versioned JSON instead of lines for people",
        ..Row::flag("json", "json", "EKIDEN_JSON")
    },
    read: form::switch,
};

/// Where state is kept.
pub static STATE_DIR: Setting<String> = Setting {
    row: Row {
        long: None,
        in_files: false,
        takes: Takes::One("DIR"),
        used_by: UsedBy::None,
        doc: "Where runs are kept, instead of in the repository's git directory or .ekiden/state",
        ..Row::flag("state_dir", "", "EKIDEN_STATE_DIR")
    },
    read: form::text,
};

/// The setting of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn AnySetting> {
    TABLE.iter().copied().find(|setting| setting.row().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-03
    #[test]
    fn every_default_is_a_value() {
        for setting in TABLE {
            if let Some(default) = setting.row().default {
                assert_eq!(setting.check(default), Ok(()), "{}", setting.row().name);
            }
        }
    }

    // shows: RUN-03
    #[test]
    fn names_flags_and_variables_agree() {
        for setting in TABLE {
            let row = setting.row();
            let words = row.name.replace('.', "_");
            assert_eq!(row.env, format!("EKIDEN_{}", words.to_uppercase()));
            if let Some(long) = row.long {
                assert_eq!(long, words.replace('_', "-"));
            }
            assert!(!row.doc.is_empty() && !row.doc.ends_with('.'), "{}", row.name);
        }
    }

    fn default<T>(setting: &Setting<T>) -> T {
        (setting.read)(setting.row.default.unwrap()).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_model() {
        assert_eq!(default(&MAX_SESSIONS), limits::SESSIONS_MAX_DEFAULT);
        assert_eq!(default(&VERIFY_TIMEOUT), limits::VERIFY_TIMEOUT_DEFAULT);
        assert_eq!(default(&MAX_WAIT), limits::WAIT_MAX_DEFAULT);
        assert_eq!(default(&STALL_SESSIONS), limits::STALL_SESSIONS_DEFAULT);
        assert_eq!(default(&SESSION_TIMEOUT), limits::SESSION_TIMEOUT_DEFAULT);
        assert_eq!(default(&ON_RATE_LIMIT), OnRateLimit::default());
        assert_eq!(default(&CAP_TOKENS), limits::RELAY_CAP_TOKENS);
        assert_eq!(default(&LEVELS), ekiden_core::guard::Profile::Relay.levels());
        assert_eq!(default(&COMPLETION_MARKER), Marker::default());
    }
}
