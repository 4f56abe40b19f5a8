//! The guard's command lines in settings files, and how they are recognised.

use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardHook {
    pub event: &'static str,
    /// How long the client waits for it, in seconds. The client's own default is minutes, and a
    /// hook that hangs makes the person wait.
    pub timeout_secs: u32,
}

/// All hooks, in the order in which a session meets them.
///
/// After tools only the batch: it fires once for all calls of a response, including failed ones. A
/// checkpoint before a compaction may take long, since it asks git and writes a document.
pub const GUARD_HOOKS: [GuardHook; 7] = [
    hook("SessionStart", 10),
    hook("UserPromptSubmit", 10),
    hook("PreToolUse", 10),
    hook("PostToolBatch", 10),
    hook("PreCompact", 60),
    hook("Stop", 10),
    hook("SessionEnd", 10),
];

const fn hook(event: &'static str, timeout_secs: u32) -> GuardHook {
    GuardHook {
        event,
        timeout_secs,
    }
}

/// One of our commands in a settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardCommand {
    Hook {
        /// The program, as a path or a name on `PATH`.
        program: String,
        event: String,
    },
    /// `ekiden statusline`, around another status line or alone.
    StatusLine {
        program: String,
        /// The shell command of the status line that was there before.
        wrapped: Option<String>,
    },
}

/// Precedes the program, so that nothing happens if it is missing. The client shows an error at each call of
/// a command that does not exist, and somebody may remove a program without `ekiden setup --remove`.
const IF_THERE: [&str; 3] = ["!", "command", "-v"];

impl GuardCommand {
    /// Reads a shell command. Only exactly what ekiden installs is ours; a command that a person built around
    /// it is not.
    pub fn parse(command: &str) -> Option<Self> {
        let words = shlex::split(command)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let words = match &*words {
            [
                first,
                second,
                third,
                _,
                ">/dev/null",
                "||",
                "exec",
                rest @ ..,
            ] if [*first, *second, *third] == IF_THERE => rest,
            all => all,
        };
        let (&program, rest) = words.split_first()?;
        let program = is_ekiden(program).then(|| program.to_owned())?;
        let wrapped = match rest {
            ["hook", event] => {
                let event = (*event).to_owned();
                return Some(Self::Hook { program, event });
            }
            ["statusline"] => None,
            ["statusline", "--wrap", wrapped] => Some((*wrapped).to_owned()),
            ["statusline", "--wrap", wrapped, ";", "eval", same] if wrapped == same => {
                Some((*wrapped).to_owned())
            }
            _ => return None,
        };
        Some(Self::StatusLine { program, wrapped })
    }

    /// The shell command, or none if a word of it contains a NUL, which no shell accepts. If the program is
    /// missing, it does nothing, except that a wrapped status line is shown alone.
    pub fn text(&self) -> Option<String> {
        let quoted = |word: &str| {
            shlex::try_quote(word)
                .ok()
                .map(std::borrow::Cow::into_owned)
        };
        let program = quoted(self.program())?;
        let rest = match self {
            Self::Hook { event, .. } => format!("hook {}", quoted(event)?),
            Self::StatusLine { wrapped: None, .. } => "statusline".to_owned(),
            Self::StatusLine {
                wrapped: Some(wrapped),
                ..
            } => {
                let wrapped = quoted(wrapped)?;
                format!("statusline --wrap {wrapped} ; eval {wrapped}")
            }
        };
        let [not, command, v] = IF_THERE;
        Some(format!(
            "{not} {command} {v} {program} >/dev/null || exec {program} {rest}"
        ))
    }

    pub fn program(&self) -> &str {
        match self {
            Self::Hook { program, .. } | Self::StatusLine { program, .. } => program,
        }
    }
}

/// A program named `ekiden`, or a version of it beside others (`ekiden-0.2`).
pub(crate) fn is_ekiden(program: &str) -> bool {
    let name = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name == "ekiden" || name.starts_with("ekiden-")
}
