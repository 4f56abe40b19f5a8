//! How such an agent is started: a table of differences, and one command line.

use std::ffi::OsString;

use ekiden_core::effect::StartMode;
use ekiden_core::limits;
use ekiden_core::settings::AgentKind;

use crate::attempt::AttemptSpec;
use crate::child::{ChildSpec, StdinKind};
use crate::rehearsal;

/// Tools by which an agent would go on later, when nobody listens any more. `Monitor` even gives a
/// second turn without a message of ours and keeps the client alive after its input was closed.
const UNATTENDED_TOOLS: &str = "Monitor,ScheduleWakeup,CronCreate,CronDelete,CronList";
/// Git's state changes all the time and stands before the prompt; ekiden tells it itself.
const SETTINGS: &str = r#"{"includeGitInstructions":false}"#;

/// Holds the answer of a turn to a schema. The rehearsal agent takes it too.
pub(crate) const SCHEMA_ARG: &str = "--json-schema";

/// The child of an attempt.
pub(super) fn child(spec: &mut AttemptSpec) -> ChildSpec {
    let (program, mut args) = program(spec);
    args.extend(conversation_args(spec).into_iter().map(OsString::from));
    let mut env_set: Vec<(OsString, OsString)> =
        spec.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    env_set.extend(kind_env(spec.agent.kind).iter().map(|(name, value)| (name.into(), value.into())));
    ChildSpec {
        keeper: spec.ekiden.clone(),
        program,
        args,
        dir: spec.dir.clone(),
        env_set,
        lock: spec.lock.take(),
        grace: limits::KILL_GRACE,
        stdin: StdinKind::Piped,
    }
}

/// Without a command of its own the rehearsal agent is this very program in another role.
fn program(spec: &AttemptSpec) -> (OsString, Vec<OsString>) {
    match spec.agent.kind {
        AgentKind::Rehearsal if spec.agent.command.is_empty() => {
            (spec.ekiden.clone().into(), vec![rehearsal::ROLE.into()])
        }
        AgentKind::Claude | AgentKind::Rehearsal | AgentKind::Exec => {
            let mut command = spec.agent.command.iter().map(OsString::from);
            (command.next().unwrap_or_default(), command.collect())
        }
    }
}

/// A compaction would lose what the handoff keeps, and work in the background would give turns that
/// nobody asked for.
pub(crate) const CLAUDE_ENV: [(&str, &str); 2] =
    [("DISABLE_AUTO_COMPACT", "1"), ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")];

fn kind_env(kind: AgentKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        AgentKind::Claude => &CLAUDE_ENV,
        AgentKind::Rehearsal | AgentKind::Exec => &[],
    }
}

fn conversation_args(spec: &AttemptSpec) -> Vec<String> {
    let id_flag = match spec.mode {
        StartMode::Fresh => "--session-id",
        StartMode::Resume => "--resume",
    };
    let mut args: Vec<String> =
        ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
            .map(str::to_owned)
            .to_vec();
    args.extend([id_flag.to_owned(), spec.conversation.to_string()]);
    if !spec.protocol.is_empty() {
        args.extend(["--append-system-prompt-file".to_owned(), spec.protocol_file.display().to_string()]);
    }
    if let Some(schema) = &spec.schema {
        args.extend([SCHEMA_ARG.to_owned(), schema.clone()]);
    }
    match spec.agent.kind {
        AgentKind::Claude => {
            args.extend(["--settings".to_owned(), SETTINGS.to_owned()]);
            args.extend(claude_flags(spec));
        }
        AgentKind::Rehearsal => args.extend([rehearsal::ATTEMPT_ARG.to_owned(), spec.attempt.to_string()]),
        AgentKind::Exec => {}
    }
    args
}

/// The client's flags that mean the same headless and in its own interface.
pub(crate) fn claude_flags(spec: &AttemptSpec) -> Vec<String> {
    let permissions = &spec.agent.permissions;
    // Flags that take several values are written with `=`, so that none swallows its neighbour.
    let mut args = vec![format!("--disallowedTools={UNATTENDED_TOOLS}")];
    if let Some(model) = &spec.agent.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    if let Some(mode) = &permissions.mode {
        args.extend(["--permission-mode".to_owned(), mode.clone()]);
    }
    if permissions.isolated {
        args.extend(["--setting-sources".to_owned(), String::new(), "--strict-mcp-config".to_owned()]);
    }
    if permissions.skip {
        args.push("--dangerously-skip-permissions".to_owned());
    }
    args.extend(permissions.allowed_tools.iter().map(|rule| format!("--allowedTools={rule}")));
    args
}
