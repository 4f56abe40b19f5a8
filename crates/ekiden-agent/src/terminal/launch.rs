//! How the client is started in its own interface: its command line, and the settings text with our hooks.

use std::path::{Path, PathBuf};

use ekiden_core::prompt;
use ekiden_core::relay::Prompt;
use ekiden_wire::hooks::HookEvent;
use serde_json::{Map, Value, json};

use super::MOD_DIR;
use super::hook::{Asker, ROLE};
use crate::attempt::AttemptSpec;
use crate::child::{ChildSpec, StdinKind};
use crate::stream::{CLAUDE_ENV, claude_flags, id_flag};

/// The events at which the client should ask us.
const HOOKS: [HookEvent; 8] = [
    HookEvent::SessionStart,
    HookEvent::UserPromptSubmit,
    HookEvent::PreToolUse,
    HookEvent::PostToolBatch,
    HookEvent::PreCompact,
    HookEvent::Stop,
    HookEvent::StopFailure,
    HookEvent::SessionEnd,
];
/// How long the client waits for our hook, in seconds: the engine may be suspended with it.
const HOOK_TIMEOUT_SECS: u32 = 3600;
/// Leads the mod to the engine.
const MOD_VARIABLE: &str = "EKIDEN_TERMINAL";
/// The client's own interface would choose a mode that decides by itself what is allowed, so the mode is always named.
const MODE_DEFAULT: &str = "default";

/// The child of an attempt, which finds `socket` through its hooks.
pub(super) fn child(spec: &mut AttemptSpec, ekiden: &Path, socket: &Path) -> ChildSpec {
    let flags = flags(spec, ekiden, socket);
    let engine = json!({"program": ekiden, "socket": socket}).to_string();
    let [first, second, third] = CLAUDE_ENV;
    let env = [first, second, third, (MOD_VARIABLE, engine.as_str())];
    spec.child(flags, &env, StdinKind::Terminal)
}

fn flags(spec: &AttemptSpec, ekiden: &Path, socket: &Path) -> Vec<String> {
    let files = settings_files(&spec.dir, spec.agent.account.as_deref());
    let settings = settings(ekiden, socket, !has_status_line(&files));
    let mut flags = vec![
        id_flag(spec.mode).to_owned(),
        spec.conversation.to_string(),
        "--append-system-prompt-file".to_owned(),
        spec.protocol_file.display().to_string(),
        "--settings".to_owned(),
        settings.to_string(),
        "--plugin-dir".to_owned(),
        spec.protocol_file
            .with_file_name(MOD_DIR)
            .display()
            .to_string(),
    ];
    if spec.agent.permissions.mode.is_none() && !spec.agent.permissions.skip {
        flags.extend(["--permission-mode".to_owned(), MODE_DEFAULT.to_owned()]);
    }
    flags.extend(claude_flags(spec));
    flags.push(match &spec.message {
        Prompt::Fresh(_) => prompt::read_prompt(&spec.prompt_file.display().to_string()),
        Prompt::Resume(note) => note.clone(),
    });
    flags
}

/// The settings text: hooks that ask this process, and a status line if the user has none.
fn settings(ekiden: &Path, socket: &Path, status_line: bool) -> Value {
    let ekiden = ekiden.display().to_string();
    let socket = socket.display().to_string();
    let args = [ROLE, &socket, Asker::Hook.name()];
    let hook =
        json!({"type": "command", "command": ekiden, "args": args, "timeout": HOOK_TIMEOUT_SECS});
    let hooks: Map<String, Value> = HOOKS
        .iter()
        .map(|event| (event.name().to_owned(), json!([{"hooks": [hook]}])))
        .collect();
    let mut settings = json!({"includeGitInstructions": false, "hooks": hooks});
    if status_line {
        let words = [ekiden.as_str(), ROLE, &socket, Asker::StatusLine.name()];
        let command = words.map(quoted).join(" ");
        settings["statusLine"] = json!({"type": "command", "command": command});
    }
    settings
}

/// A word for the shell, which runs status lines.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The client's settings files, in which a user may have a status line.
fn settings_files(dir: &Path, account: Option<&str>) -> Vec<PathBuf> {
    let project = dir.join(".claude");
    let mut files = vec![
        project.join("settings.json"),
        project.join("settings.local.json"),
    ];
    files.extend(config_dir(account).map(|config| config.join("settings.json")));
    files
}

/// Where the client keeps its settings and transcripts.
pub(crate) fn config_dir(account: Option<&str>) -> Option<PathBuf> {
    if let Some(account) = account {
        return Some(PathBuf::from(account));
    }
    let named = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty());
    named
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".claude")))
}

fn has_status_line(files: &[PathBuf]) -> bool {
    files.iter().any(|file| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let settings: Value = serde_json::from_str(&text).unwrap_or_default();
        settings
            .get("statusLine")
            .is_some_and(|line| !line.is_null())
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test prepares its directory")]
mod tests {
    use super::*;

    // shows: AGT-02
    #[test]
    fn the_hooks_lead_back_to_this_program() {
        let settings = settings(Path::new("/bin/it's"), Path::new("/s/sock"), true);
        let stop = &settings["hooks"]["Stop"][0]["hooks"][0];
        assert_eq!(stop["command"], "/bin/it's");
        assert_eq!(stop["args"], json!(["__hook", "/s/sock", "hook"]));
        assert_eq!(
            settings["hooks"].as_object().map(Map::len),
            Some(HOOKS.len())
        );
        assert_eq!(
            settings["statusLine"]["command"],
            r"'/bin/it'\''s' '__hook' '/s/sock' 'status-line'"
        );
        // Whoever has switched all hooks off keeps them off.
        assert_eq!(settings.get("disableAllHooks"), None);
    }

    #[test]
    fn a_status_line_of_the_users_own_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("settings.json");
        assert!(!has_status_line(std::slice::from_ref(&file)));
        std::fs::write(
            &file,
            r#"{"statusLine":{"type":"command","command":"mine"}}"#,
        )
        .expect("written");
        assert!(has_status_line(&[dir.path().join("none"), file]));
    }
}
