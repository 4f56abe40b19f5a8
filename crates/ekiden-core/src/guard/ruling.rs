//! The answer to an agent's hook, as a pure function.
//!
//! Three fences, in order:
//! 1. State and published files belong to the engine: no tool of the agent writes them.
//! 2. The handoff directory is always open to Read, Write and Edit of the main thread, whatever the
//!    permission mode; subagents never write there.
//! 3. At L3 no other call passes on the main thread (a shell never does).
//!
//! Everything else follows the agent's own rules: the ruling is [`Ruling::Pass`].

use std::path::{Component, Path, PathBuf};

use crate::guard::levels::{Level, Profile};

/// What an agent asks at a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookInput {
    /// A tool is about to run.
    PreTool {
        tool: ToolUse,
        /// A subagent asks, not the main thread.
        subagent: bool,
    },
    /// The turn is about to end.
    Stop { background: bool },
    /// The client is about to summarise the conversation.
    PreCompact,
    /// A hook that changes nothing here.
    Other,
}

/// What a tool would do. Paths are absolute; the caller has resolved symbolic links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolUse {
    Read(PathBuf),
    /// Write or edit a file.
    Write(PathBuf),
    /// Run a command in a shell.
    Shell(String),
    /// Schedule work for later, which would be lost in an unattended session.
    Schedule,
    /// Write a handoff by a skill or tool made for it.
    Handoff,
    /// A tool of ekiden's MCP server; one of them writes the handoff.
    Own {
        handoff: bool,
    },
    Other,
}

/// What the guard knows about the session when a hook asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardView {
    /// Whose session is watched: a person's session may schedule work and summarise itself.
    pub profile: Profile,
    pub level: Level,
    /// Where the agent writes its handoff; absolute, links resolved.
    pub handoff_dir: PathBuf,
    /// Directories that only the engine writes; absolute, links resolved.
    pub engine_dirs: Vec<PathBuf>,
    /// What is still missing of the handoff, for the text of a refusal.
    pub missing: String,
}

/// The answer to a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// No opinion: the agent's own rules decide.
    Pass,
    /// Let the call run without asking anybody.
    Allow,
    /// Refuse the call, for this reason.
    Deny(Denial),
    /// Prevent it: used for compaction.
    Block,
}

/// Why a call is refused; the text that the agent reads is in [`crate::prompt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The session is handing off (L3).
    HandingOff {
        missing: String,
    },
    /// The file belongs to ekiden.
    EngineOwned,
    SubagentHandoff,
    /// Nothing may be scheduled for later in an unattended session.
    Unattended,
    /// A reviewer only reads, and never what sessions wrote about themselves.
    ReadOnly,
}

pub fn ruling(view: &GuardView, input: &HookInput) -> Ruling {
    match input {
        HookInput::PreTool { tool, subagent } => tool_ruling(view, tool, *subagent),
        HookInput::PreCompact => match view.profile {
            Profile::Relay | Profile::Review => Ruling::Block,
            Profile::Watch => Ruling::Pass,
        },
        HookInput::Stop { .. } | HookInput::Other => Ruling::Pass,
    }
}

/// A reviewer's tool: its permission mode asks about everything that is not listed here. A search names a
/// directory, and may name it behind `**`.
fn reading_ruling(view: &GuardView, tool: &ToolUse) -> Ruling {
    let mut ours = view.engine_dirs.iter().chain([&view.handoff_dir]);
    let mut is_ours = |path: &Path| {
        let path = without_dots(path);
        ours.any(|dir| path.starts_with(dir))
            || path.iter().any(|part| part == ".ekiden" || part == ".git")
    };
    let reads = matches!(tool, ToolUse::Read(path) if !is_ours(path));
    match reads || *tool == ToolUse::Other {
        true => Ruling::Pass,
        false => Ruling::Deny(Denial::ReadOnly),
    }
}

fn tool_ruling(view: &GuardView, tool: &ToolUse, subagent: bool) -> Ruling {
    if view.profile == Profile::Review {
        return reading_ruling(view, tool);
    }
    match tool {
        ToolUse::Write(path) if within(path, &view.handoff_dir) => {
            if subagent {
                Ruling::Deny(Denial::SubagentHandoff)
            } else {
                Ruling::Allow
            }
        }
        ToolUse::Read(path) if within(path, &view.handoff_dir) && !subagent => Ruling::Allow,
        ToolUse::Write(path) if view.engine_dirs.iter().any(|dir| within(path, dir)) => {
            Ruling::Deny(Denial::EngineOwned)
        }
        ToolUse::Shell(command) if names_engine_state(view, command) => {
            Ruling::Deny(Denial::EngineOwned)
        }
        ToolUse::Schedule if view.profile == Profile::Relay => Ruling::Deny(Denial::Unattended),
        ToolUse::Handoff if view.profile == Profile::Watch => Ruling::Pass,
        ToolUse::Own { handoff: true } if subagent => Ruling::Deny(Denial::SubagentHandoff),
        ToolUse::Own { handoff } if *handoff || view.level != Level::L3 => Ruling::Allow,
        ToolUse::Read(_)
        | ToolUse::Write(_)
        | ToolUse::Shell(_)
        | ToolUse::Schedule
        | ToolUse::Handoff
        | ToolUse::Own { .. }
        | ToolUse::Other => {
            if view.level == Level::L3 && !subagent {
                Ruling::Deny(Denial::HandingOff {
                    missing: view.missing.clone(),
                })
            } else {
                Ruling::Pass
            }
        }
    }
}

/// A path inside `dir`, by its text: `..` is resolved, so that it cannot lead out unnoticed.
fn within(path: &Path, dir: &Path) -> bool {
    let clean = without_dots(path);
    clean.starts_with(dir) && clean != dir
}

/// The path with `.` and `..` resolved by its text, and without a `/` at its end.
pub fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}

/// A fence, not a wall: it refuses a command that names the state directory, but not an obfuscated one. The
/// log's own checks and the published files' hashes catch what gets through.
fn names_engine_state(view: &GuardView, command: &str) -> bool {
    command.contains(".git/ekiden")
        || view.engine_dirs.iter().any(|dir| {
            !view.handoff_dir.starts_with(dir)
                && dir.to_str().is_some_and(|dir| command.contains(dir))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(level: Level) -> GuardView {
        GuardView {
            profile: Profile::Relay,
            level,
            handoff_dir: "/w/.ekiden/handoff".into(),
            engine_dirs: vec!["/w/.ekiden".into(), "/w/.git/ekiden/root".into()],
            missing: "NEXT_PROMPT.md".into(),
        }
    }

    fn write(path: &str) -> ToolUse {
        ToolUse::Write(path.into())
    }

    fn ask(level: Level, tool: ToolUse, subagent: bool) -> Ruling {
        ruling(&view(level), &HookInput::PreTool { tool, subagent })
    }

    // shows: AGT-13
    #[test]
    fn the_handoff_is_always_open_and_nothing_else_of_ekiden() {
        for level in [Level::L0, Level::L2, Level::L3] {
            assert_eq!(
                ask(level, write("/w/.ekiden/handoff/PROGRESS.md"), false),
                Ruling::Allow
            );
            for closed in [
                "/w/.ekiden/PROGRESS.md",
                "/w/.ekiden/config.toml",
                "/w/.ekiden/handoff/../PROGRESS.md",
                "/w/.git/ekiden/root/runs/x/log.jsonl",
            ] {
                assert_eq!(
                    ask(level, write(closed), false),
                    Ruling::Deny(Denial::EngineOwned),
                    "{closed}"
                );
            }
            let shell = ToolUse::Shell("rm -r .git/ekiden".into());
            assert_eq!(ask(level, shell, false), Ruling::Deny(Denial::EngineOwned));
        }
        // The state may lie elsewhere.
        let view = GuardView {
            engine_dirs: vec!["/s/ekiden".into()],
            ..view(Level::L0)
        };
        let asked = |command: &str| {
            let tool = ToolUse::Shell(command.into());
            let subagent = false;
            ruling(&view, &HookInput::PreTool { tool, subagent })
        };
        assert_eq!(asked("rm -r /s/ekiden"), Ruling::Deny(Denial::EngineOwned));
        assert_eq!(asked("rm -r /s/other"), Ruling::Pass);
        // Prompts name results of earlier stages that are there.
        for level in [Level::L0, Level::L2] {
            let result = ToolUse::Read("/w/.git/ekiden/root/runs/x/stages/A/handoff.md".into());
            assert_eq!(ask(level, result, false), Ruling::Pass);
        }
    }

    // shows: REL-38
    #[test]
    fn a_reviewer_reads_and_searches_everything_but_what_sessions_left() {
        let view = GuardView {
            profile: Profile::Review,
            engine_dirs: vec!["/w/.ekiden".into(), "/s/ekiden".into()],
            ..view(Level::L0)
        };
        let ask = |path: &str| {
            let tool = ToolUse::Read(path.into());
            let subagent = false;
            ruling(&view, &HookInput::PreTool { tool, subagent })
        };
        for open in ["/w", "/w/src/a.rs", "/w/**/*.md", "/w/.github", "/s"] {
            assert_eq!(ask(open), Ruling::Pass, "{open}");
        }
        for closed in [
            "/w/.ekiden",
            "/w/.ekiden/runs",
            "/w/src/../.ekiden/PROGRESS.md",
            "/w/**/.ekiden/*.md",
            "/w/.git",
            "/w/.git/ekiden",
            "/s/ekiden",
        ] {
            assert_eq!(ask(closed), Ruling::Deny(Denial::ReadOnly), "{closed}");
        }
    }

    // shows: AGT-13
    #[test]
    fn subagents_never_write_the_handoff() {
        let tool = write("/w/.ekiden/handoff/PROGRESS.md");
        assert_eq!(
            ask(Level::L0, tool, true),
            Ruling::Deny(Denial::SubagentHandoff)
        );
    }

    // shows: CHK-005
    #[test]
    fn at_l3_only_the_handoff_passes_on_the_main_thread() {
        let shell = || ToolUse::Shell("cargo test".into());
        let refused = Ruling::Deny(Denial::HandingOff {
            missing: "NEXT_PROMPT.md".into(),
        });
        assert_eq!(ask(Level::L2, shell(), false), Ruling::Pass);
        assert_eq!(ask(Level::L3, shell(), false), refused);
        assert_eq!(ask(Level::L3, write("/w/src/main.rs"), false), refused);
        assert_eq!(ask(Level::L3, shell(), true), Ruling::Pass);
        assert_eq!(
            ask(
                Level::L3,
                ToolUse::Read("/w/.ekiden/handoff/PROGRESS.md".into()),
                false
            ),
            Ruling::Allow
        );
    }

    // shows: CHK-005, CHK-10
    #[test]
    fn a_persons_session_may_schedule_summarise_and_always_hand_off() {
        let watched = GuardView {
            profile: Profile::Watch,
            ..view(Level::L3)
        };
        let ask = |view: &GuardView, tool| {
            ruling(
                view,
                &HookInput::PreTool {
                    tool,
                    subagent: false,
                },
            )
        };
        assert_eq!(ruling(&watched, &HookInput::PreCompact), Ruling::Pass);
        assert_eq!(ask(&watched, ToolUse::Handoff), Ruling::Pass);
        let own = |handoff| ask(&watched, ToolUse::Own { handoff });
        assert_eq!(own(true), Ruling::Allow, "also at L3");
        assert!(matches!(own(false), Ruling::Deny(_)));
        assert!(matches!(
            ask(&watched, ToolUse::Schedule),
            Ruling::Deny(Denial::HandingOff { .. })
        ));
        let calm = GuardView {
            level: Level::L2,
            ..watched
        };
        assert_eq!(ask(&calm, ToolUse::Schedule), Ruling::Pass);
    }

    #[test]
    fn compaction_is_blocked_and_a_stop_is_not_judged_here() {
        assert_eq!(
            ruling(&view(Level::L0), &HookInput::PreCompact),
            Ruling::Block
        );
        assert_eq!(
            ruling(&view(Level::L3), &HookInput::Stop { background: false }),
            Ruling::Pass
        );
    }
}
