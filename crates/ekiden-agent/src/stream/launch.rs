//! How such an agent is started.

use std::collections::BTreeMap;
use std::path::Path;

use ekiden_core::agent::{AgentKind, Permissions};
use ekiden_core::effect::StartMode;
use ekiden_wire::consent::allows_everything;
use serde_json::json;

use crate::attempt::AttemptSpec;
use crate::child::{ChildSpec, StdinKind};
use crate::rehearsal;

/// Tools that no session gets. With most of them an agent would continue later, when ekiden no longer listens;
/// `Monitor` even starts a second turn without a message from us and keeps the client alive after its input was
/// closed. So do the agents of a `Workflow`, whose cost nobody knows until they are done. In another worktree
/// (`EnterWorktree`) ekiden would neither commit nor verify.
const WITHHELD_TOOLS: &str =
    "Monitor,ScheduleWakeup,CronCreate,CronDelete,CronList,Workflow,EnterWorktree";
/// Tools that change something. A read-only session does not get them.
const WRITING_TOOLS: &str = "Bash,Edit,MultiEdit,Write,NotebookEdit";
/// Git's state changes all the time and comes before the prompt; ekiden tells the agent itself.
const SETTINGS: &str = r#"{"includeGitInstructions":false}"#;

/// A compaction would lose what the handoff keeps. Background work would start turns that nobody asked for. And
/// neither a person nor another worktree would find facts in the client's own memory.
pub(crate) const CLAUDE_ENV: [(&str, &str); 3] = [
    ("DISABLE_AUTO_COMPACT", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
];

/// A plugin for opencode, which reports what its protocol does not.
pub(crate) const OPENCODE_PLUGIN: [(&str, &str); 1] =
    [("opencode.js", include_str!("opencode.js"))];
/// Settings for opencode that apply in addition to the user's own files. No other agent knows this variable.
const OPENCODE_SETTINGS: &str = "OPENCODE_CONFIG_CONTENT";
/// By default opencode asks nobody. The last matching rule wins, and these come after all of its settings
/// except those of a single agent. A rule whose name is also in the settings would keep its place there, hence
/// the wildcards.
const OPENCODE_ASKS: (&str, &str) = (
    "OPENCODE_PERMISSION",
    r#"{"?*":"ask","rea?":"allow","glo?":"allow","gre?":"allow","lis?":"allow","todo*":"allow","skil?":"allow"}"#,
);

/// The child of an attempt. Unless it has its own command, the rehearsal agent is this very program in
/// another role.
pub(super) fn child(spec: &mut AttemptSpec) -> ChildSpec {
    let mut args = Vec::new();
    if matches!(spec.agent.kind, AgentKind::Claude | AgentKind::Rehearsal) {
        args = conversation_args(spec);
    }
    let opencode = opencode_settings(&spec.protocol_file);
    let opencode = opencode_env(&spec.agent.permissions, opencode.as_deref());
    let env: &[(&str, &str)] = match spec.agent.kind {
        AgentKind::Claude => {
            args.extend(["--settings".to_owned(), SETTINGS.to_owned()]);
            args.extend(claude_flags(spec));
            &CLAUDE_ENV
        }
        AgentKind::Rehearsal => {
            args.extend([rehearsal::ATTEMPT_ARG.to_owned(), spec.attempt.to_string()]);
            &[]
        }
        AgentKind::Acp => &opencode,
        AgentKind::Codex | AgentKind::Exec => &[],
    };
    if spec.agent.kind == AgentKind::Rehearsal && spec.agent.command.is_empty() {
        let own = [
            spec.ekiden.display().to_string(),
            rehearsal::ROLE.to_owned(),
        ];
        spec.agent.command.extend(own);
    }
    spec.child(args, env, StdinKind::Piped)
}

fn opencode_env<'a>(
    permissions: &Permissions,
    settings: Option<&'a str>,
) -> Vec<(&'static str, &'a str)> {
    let asks = !allows_everything(permissions);
    let settings = settings.map(|settings| (OPENCODE_SETTINGS, settings));
    settings
        .into_iter()
        .chain(asks.then_some(OPENCODE_ASKS))
        .collect()
}

/// The plugin, no compaction, and a turn that continues after a refused call. If the user sets the same
/// variable, their settings win.
fn opencode_settings(protocol_file: &Path) -> Option<String> {
    let plugin = protocol_file.with_file_name(OPENCODE_PLUGIN[0].0);
    let is_free = plugin.is_file() && std::env::var_os(OPENCODE_SETTINGS).is_none();
    // These have another meaning in an address, and a plugin that is not found could keep opencode from starting.
    let path = plugin
        .to_str()
        .filter(|path| !path.contains(['%', '?', '#']));
    let settings = path.map(|path| {
        json!({"plugin": [format!("file://{path}")], "compaction": {"auto": false},
            "experimental": {"continue_loop_on_deny": true}})
    });
    settings
        .filter(|_| is_free)
        .map(|settings| settings.to_string())
}

pub(crate) fn id_flag(mode: StartMode) -> &'static str {
    match mode {
        StartMode::Fresh => "--session-id",
        StartMode::Resume => "--resume",
    }
}

fn conversation_args(spec: &AttemptSpec) -> Vec<String> {
    let mut args: Vec<String> = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        id_flag(spec.mode),
    ]
    .map(str::to_owned)
    .to_vec();
    args.push(spec.conversation.to_string());
    if !spec.protocol.is_empty() {
        let file = spec.protocol_file.display().to_string();
        args.extend(["--append-system-prompt-file".to_owned(), file]);
    }
    if let Some(schema) = &spec.schema {
        args.extend(["--json-schema".to_owned(), schema.clone()]);
    }
    args
}

/// The client's flags that mean the same headless and in its own interface.
pub(crate) fn claude_flags(spec: &AttemptSpec) -> Vec<String> {
    let permissions = &spec.agent.permissions;
    // Flags with several values are written with `=`, so that none swallows its neighbour.
    let mut args = vec![match permissions.read_only {
        true => format!("--disallowedTools={WITHHELD_TOOLS},{WRITING_TOOLS}"),
        false => format!("--disallowedTools={WITHHELD_TOOLS}"),
    }];
    if let Some(model) = &spec.agent.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    if let Some(mode) = &permissions.mode {
        args.extend(["--permission-mode".to_owned(), mode.clone()]);
    }
    if permissions.isolated {
        args.extend(["--setting-sources", ""].map(str::to_owned));
    }
    if permissions.isolated || permissions.read_only {
        args.push("--strict-mcp-config".to_owned());
    }
    if permissions.read_only {
        args.extend(["--permission-mode", "default"].map(str::to_owned));
    }
    if permissions.skip {
        args.push("--dangerously-skip-permissions".to_owned());
    }
    let allowed = permissions.allowed_tools.iter();
    args.extend(allowed.map(|rule| format!("--allowedTools={rule}")));
    if permissions.mcp {
        args.push(format!("--mcp-config={}", own_server(spec)));
        args.push("--allowedTools=mcp__ekiden".to_owned());
    }
    args
}

/// Our MCP server, in the client's format, with the variables that identify the session.
fn own_server(spec: &AttemptSpec) -> String {
    let env: BTreeMap<_, _> = spec.env.iter().cloned().collect();
    // The client starts it, and for the client `/proc/self/exe` is the client itself.
    let program = crate::keeper::path_of_executable().unwrap_or_else(|_| spec.ekiden.clone());
    let server = json!({ "command": program, "args": ["mcp", "--run"], "env": env });
    json!({ "mcpServers": { "ekiden": server } }).to_string()
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test puts the plugin where the engine would"
)]
mod tests {
    use super::*;

    // shows: AGT-17
    #[test]
    fn opencode_gets_the_plugin_where_it_lies_at_an_address() {
        let dir = tempfile::tempdir().unwrap();
        let told = |name: &str, has_plugin: bool| {
            let place = dir.path().join(name);
            std::fs::create_dir_all(&place).unwrap();
            if has_plugin {
                std::fs::write(place.join(OPENCODE_PLUGIN[0].0), OPENCODE_PLUGIN[0].1).unwrap();
            }
            opencode_settings(&place.join("protocol.md"))
        };
        let settings = told("my project", true).unwrap();
        assert!(settings.contains("my project/opencode.js"), "{settings}");
        assert!(settings.contains(r#""auto":false"#), "{settings}");
        assert_eq!(told("issue #7", true), None);
        assert_eq!(told("planning", false), None);
    }

    // shows: AGT-15, REL-38
    #[test]
    fn opencode_asks_for_what_is_not_read_unless_everything_is_allowed() {
        let asks = |mode: Option<&str>, skip| {
            let permissions = Permissions {
                mode: mode.map(str::to_owned),
                skip,
                ..Permissions::default()
            };
            let env = opencode_env(&permissions, None);
            env.iter().any(|(name, rules)| {
                // The last rule that fits counts, so the one that fits everything comes first.
                *name == "OPENCODE_PERMISSION" && rules.starts_with(r#"{"?*":"ask","#)
            })
        };
        assert!(asks(None, false) && asks(Some("acceptEdits"), false));
        assert!(!asks(None, true) && !asks(Some("bypassPermissions"), false));
    }
}
