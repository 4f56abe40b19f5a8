//! How the client is started in its own interface: its command line, and the settings text with our hooks.

use std::path::{Path, PathBuf};

use ekiden_core::prompt;
use ekiden_core::relay::Prompt;
use ekiden_wire::client_settings;
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
/// Tells the mod where the engine is.
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
    let theirs = status_line_of(&files).filter(|_| !spec.agent.permissions.isolated);
    let settings = settings(ekiden, socket, theirs);
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

/// The settings text: hooks that ask this process, and the status line.
fn settings(ekiden: &Path, socket: &Path, theirs: Option<Value>) -> Value {
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
    let words = [ekiden.as_str(), ROLE, &socket, Asker::StatusLine.name()];
    if let Some(line) = status_line(&words.map(quoted).join(" "), theirs) {
        settings["statusLine"] = line;
    }
    settings
}

/// Our status line, and the user's below it. The client tells nobody else what the session costs. One of unknown
/// form stays alone.
fn status_line(ours: &str, theirs: Option<Value>) -> Option<Value> {
    let Some(mut line) = theirs else {
        return Some(json!({"type": "command", "command": ours}));
    };
    let command = line["command"].as_str();
    let command = command.filter(|_| line["type"] == "command")?;
    let both = format!(
        "input=$(cat); printf %s \"$input\" | {ours}; printf %s \"$input\" | {{ {command}\n}}"
    );
    line["command"] = format!("sh -c {}", quoted(&both)).into();
    Some(line)
}

/// A word for the shell, which runs status lines.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The client's settings files, in which a user may have a status line, highest first.
fn settings_files(dir: &Path, account: Option<&str>) -> Vec<PathBuf> {
    let project = dir.join(".claude");
    let mut files = vec![
        project.join("settings.local.json"),
        project.join("settings.json"),
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

fn status_line_of(files: &[PathBuf]) -> Option<Value> {
    files.iter().find_map(|file| {
        let settings = client_settings::read(&std::fs::read(file).ok()?)?;
        let line = settings.get("statusLine")?;
        Some(line.clone()).filter(|line| !line.is_null())
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test prepares its directory")]
mod tests {
    use super::*;

    // shows: AGT-02
    #[test]
    fn the_hooks_lead_back_to_this_program() {
        let settings = settings(Path::new("/bin/it's"), Path::new("/s/sock"), None);
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
        // If the user has switched all hooks off, they stay off.
        assert_eq!(settings.get("disableAllHooks"), None);
    }

    /// Only a status line is told what a session costs, so without ours no budget would hold.
    // shows: AGT-02, REL-22
    #[test]
    fn a_status_line_of_the_users_own_stands_below_ours() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("settings.json");
        assert_eq!(status_line_of(std::slice::from_ref(&file)), None);
        let mine =
            json!({"type": "command", "command": "tr a-z A-Z; echo it\\'s # mine", "padding": 2});
        let text = json!({"statusLine": mine}).to_string();
        std::fs::write(&file, format!("\u{feff}{text}")).expect("written");
        let theirs = status_line_of(&[dir.path().join("none"), file]);
        assert_eq!(theirs, Some(mine));
        let both = status_line("sed s/x/ours/", theirs).expect("its form is known");
        assert_eq!(both["padding"], 2);
        let shell = format!(
            "echo 'x y' | {}",
            both["command"].as_str().expect("a command")
        );
        let said = std::process::Command::new("sh")
            .args(["-c", &shell])
            .output();
        let said = said.expect("a shell").stdout;
        assert_eq!(String::from_utf8_lossy(&said), "ours yX Yit's\n");
        for odd in [
            json!({"type": "http", "command": "x"}),
            json!("x"),
            json!({}),
        ] {
            assert_eq!(status_line("ours", Some(odd)), None);
        }
    }
}
