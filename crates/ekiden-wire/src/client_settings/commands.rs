//! The command lines of the guard: what stands in settings files, and how it is known again.

use std::path::Path;

/// A hook that the guard needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardHook {
    /// The client's name of the event.
    pub event: &'static str,
    /// How long the client waits for it, in seconds. WHY: the client's own default is minutes, and a
    /// hook that hangs holds up the person.
    pub timeout_secs: u32,
}

/// All of them, in the order in which a session meets them.
///
/// After tools only the batch: it fires once for all calls of a response, failed ones included. A
/// checkpoint before a compaction may take long, since git is asked and a document is written.
pub const GUARD_HOOKS: [GuardHook; 7] = [
    GuardHook { event: "SessionStart", timeout_secs: 10 },
    GuardHook { event: "UserPromptSubmit", timeout_secs: 10 },
    GuardHook { event: "PreToolUse", timeout_secs: 10 },
    GuardHook { event: "PostToolBatch", timeout_secs: 10 },
    GuardHook { event: "PreCompact", timeout_secs: 60 },
    GuardHook { event: "Stop", timeout_secs: 10 },
    GuardHook { event: "SessionEnd", timeout_secs: 10 },
];

/// A command of ours in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardCommand {
    /// `ekiden hook EVENT`
    Hook {
        /// The program, as a path or a name on `PATH`.
        program: String,
        /// The event.
        event: String,
    },
    /// `ekiden statusline`, around another status line or alone.
    StatusLine {
        /// The program.
        program: String,
        /// The shell command of the status line that was there before.
        wrapped: Option<String>,
    },
}

impl GuardCommand {
    /// Reads a shell command. Anything but exactly what ekiden installs is somebody else's, a command
    /// that a person built around ours included.
    #[must_use]
    pub fn parse(command: &str) -> Option<Self> {
        let words = shlex::split(command)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (&program, rest) = words.split_first()?;
        let program = is_ekiden(program).then(|| program.to_owned())?;
        match rest {
            ["hook", event] => Some(Self::Hook { program, event: (*event).to_owned() }),
            ["statusline"] => Some(Self::StatusLine { program, wrapped: None }),
            ["statusline", "--wrap", wrapped] => {
                Some(Self::StatusLine { program, wrapped: Some((*wrapped).to_owned()) })
            }
            _ => None,
        }
    }

    /// The shell command, or nothing if a word of it holds a NUL, which no shell can be given.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let words = match self {
            Self::Hook { program, event } => vec![program, "hook", event],
            Self::StatusLine { program, wrapped: None } => vec![program, "statusline"],
            Self::StatusLine { program, wrapped: Some(wrapped) } => {
                vec![program, "statusline", "--wrap", wrapped]
            }
        };
        shlex::try_join(words).ok()
    }

    /// The program that it runs.
    #[must_use]
    pub fn program(&self) -> &str {
        match self {
            Self::Hook { program, .. } | Self::StatusLine { program, .. } => program,
        }
    }
}

/// A program named `ekiden`, or a version of it beside others (`ekiden-0.2`).
fn is_ekiden(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "ekiden" || name.starts_with("ekiden-")
}
