//! The plugin's mod in the real client: the guard as one function inside it, and the shell hooks wherever it is not.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ekiden_testkit::client::is_too_old;
use ekiden_testkit::messages_api::{Message, Reply, Request, Usage};
use serde_json::json;

use crate::guard::{Fixture, Model, SMALL};
use crate::stage::NEW;

const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");

/// A tool that is over long before the client has written the response into its transcript.
fn quick((_, usable): Model, percent: u64) -> Reply {
    let call = Message::call("Bash", json!({"command": "sleep 0"}));
    call.using(Usage::context(usable * percent / 100 + 1))
        .into()
}

fn last((_, usable): Model, percent: u64) -> Reply {
    Message::text("done")
        .using(Usage::context(usable * percent / 100 + 1))
        .into()
}

/// A fixture with the program on `PATH`, in front of which each call is written down. Nothing with a client that knows no
/// mods.
fn fixture(what: &str, replies: impl FnMut(&Request) -> Reply + Send + 'static) -> Option<Fixture> {
    if is_too_old(NEW, what, "there are no mods") {
        return None;
    }
    let mut fixture = Fixture::set(what, SMALL, replies)?;
    let dir = fixture.project.path();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\nexec '{}' \"$@\"\n",
        dir.join("calls").display(),
        env!("CARGO_BIN_EXE_ekiden")
    );
    fixture.project.write("bin/ekiden", &script);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.join("bin/ekiden"), mode).unwrap();
    let path = format!(
        "{}:{}",
        dir.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    fixture.environment = fixture.environment.with("PATH", path);
    Some(fixture)
}

/// How the mod called, event by event.
fn calls_of_mod(fixture: &Fixture) -> Vec<String> {
    let calls = fixture.project.read("calls");
    let of_mod = calls.lines().filter(|call| call.contains("--mod"));
    let event = |call: &str| call.split(' ').nth(1).unwrap_or_default().to_owned();
    of_mod.map(event).collect()
}

/// What the request after so many responses read last, and all before.
fn read_at(fixture: &Fixture, request: usize) -> String {
    fixture.api.main_requests()[request].text()
}

fn with_plugin(fixture: &Fixture, plugin: &Path) -> String {
    let said = fixture.client(
        "List the files.",
        &["--plugin-dir", plugin.to_str().unwrap()],
    );
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// Each level is told in the very next request, however quick the tool; and where nothing is crossed no process starts.
// shows: AGT-18, MON-001, MON-004
#[test]
fn figures_are_exact_and_what_crosses_nothing_starts_no_process() {
    let mut percents = [10, 20, 30, 71, 72, 73].into_iter();
    let replies = move |_: &Request| {
        percents
            .next()
            .map_or_else(|| last(SMALL, 74), |percent| quick(SMALL, percent))
    };
    let Some(fixture) = fixture("exact figures by the mod", replies) else {
        return;
    };
    let out = with_plugin(&fixture, Path::new(PLUGIN));
    assert_eq!(
        calls_of_mod(&fixture),
        ["Watch", "PostToolBatch", "PostToolBatch", "Stop"],
        "{out}"
    );
    let told = "Much of this session's context is in use";
    assert!(!read_at(&fixture, 3).contains(told), "{out}");
    assert!(read_at(&fixture, 4).contains(told), "{out}");
    assert_eq!(
        fixture.log().matches("\"crossed\"").count(),
        1,
        "{}",
        fixture.log()
    );
    assert!(out.contains("\"text\":\"context 71% L1\""), "{out}");
}

// shows: AGT-18, CHK-005
#[test]
fn at_l3_the_very_call_is_refused_and_a_turn_is_held_once() {
    let Some(refused) = fixture("a refusal by the mod", |request| match request.answers() {
        0 => quick(SMALL, 96),
        1 => quick(SMALL, 97),
        _ => last(SMALL, 98),
    }) else {
        return;
    };
    let out = with_plugin(&refused, Path::new(PLUGIN));
    assert!(
        read_at(&refused, 1).contains("Not run, this one time"),
        "{out}"
    );
    let whole = read_at(&refused, 2);
    assert_eq!(whole.matches("Not run, this one time").count(), 1, "{out}");
    drop(refused);

    let Some(held) = fixture("a turn held by the mod", |_| last(SMALL, 96)) else {
        return;
    };
    let out = with_plugin(&held, Path::new(PLUGIN));
    assert_eq!(held.api.main_requests().len(), 2, "{out}");
    assert!(
        read_at(&held, 1).contains("Before this turn ends: the context"),
        "{out}"
    );
}

/// Fills the document that the guard names, then the window.
fn fills_in(place: Arc<Mutex<PathBuf>>) -> impl FnMut(&Request) -> Reply {
    let mut asked = 0;
    move |_| {
        asked += 1;
        match asked {
            1 => Message::call("Bash", json!({"command": "sleep 0"}))
                .using(Usage::context(117_000 * 96 / 100))
                .into(),
            2 => Message::call("Bash", json!({"command": "sleep 2"}))
                .using(Usage::context(117_000 * 97 / 100))
                .into(),
            3 => {
                let dir = place.lock().unwrap().clone();
                let written = std::fs::read_dir(dir.join(".ekiden/handoffs")).unwrap();
                let path = written.flatten().next().unwrap().path();
                let input = json!({"file_path": path, "content": "# Handoff\n\n## Done\n\nitem one\n\n## Decisions\n\nnone\n\n## Blockers\n\nnone\n"});
                let read = json!({"file_path": path});
                let mut message = Message::call("Read", read);
                message = message.and_call("Write", input);
                message.using(Usage::context(117_000 * 98 / 100)).into()
            }
            4 => Message::call("Bash", json!({"command": "sleep 0"}))
                .using(Usage::context(117_000 * 101 / 100))
                .into(),
            _ => Message::text("went on")
                .using(Usage::context(20_000))
                .into(),
        }
    }
}

/// The agent's own document stands in the conversation's place, and nobody is asked for a summary.
// shows: AGT-18, CHK-10
#[test]
fn a_document_that_is_filled_in_replaces_the_summary() {
    let place = Arc::new(Mutex::new(PathBuf::new()));
    let replies = fills_in(Arc::clone(&place));
    let Some(mut fixture) = fixture("a compaction by the mod", replies) else {
        return;
    };
    *place.lock().unwrap() = fixture.project.path();
    fixture.environment = fixture
        .environment
        .with("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "150000");
    let out = with_plugin(&fixture, Path::new(PLUGIN));
    assert_eq!(out.matches("compact_boundary").count(), 1, "{out}");
    let requests = fixture.api.main_requests();
    assert_eq!(requests.len(), 5, "no request for a summary: {out}");
    let read = requests[4].text();
    assert!(
        read.contains("its handoff document stands in its place"),
        "{read}"
    );
    assert!(read.contains("¦ item one"), "{read}");
}

/// A copy of the plugin with another text of the mod; none takes the file away.
fn broken(fixture: &Fixture, text: Option<&str>) -> PathBuf {
    let copy = fixture.project.path().join("plugin");
    let copied = std::process::Command::new("cp")
        .args(["-r", PLUGIN])
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    match text {
        Some(text) => std::fs::write(copy.join("hooks/guard.ts"), text).unwrap(),
        None => std::fs::remove_file(copy.join("hooks/guard.ts")).unwrap(),
    }
    copy
}

/// However the mod fails, the shell hooks do what they do without it, and no call is lost.
// shows: AGT-18, SEC-05
#[test]
fn without_a_sign_of_life_the_shell_hooks_do_everything() {
    let on_call = |body: &str| {
        format!(
            "import type {{ Register }} from 'claude-code'\nexport const register: Register = on => {{\n  \
             on('tool.call', async ($, e, next) => {{ {body} }}).catch(($, e, next) => next(e))\n}}\n"
        )
    };
    let throws = on_call("throw new Error('boom')");
    let hangs = on_call("await new Promise(() => undefined); return next(e)");
    let loops = on_call("for (;;) {}");
    let whole = std::fs::read_to_string(Path::new(PLUGIN).join("hooks/guard.ts")).unwrap();
    // It gives its sign, and dies at the first tool.
    let dies = whole.replace(
        "const watch = e.agentId === undefined ? await watching($) : undefined\n    const { context }",
        "const watch = await watching($)\n    for (;;) {}\n    const { context }",
    );
    assert_ne!(dies, whole);
    let cases: [(&str, Option<&str>); 6] = [
        ("a syntax error", Some("export const register = on => {{")),
        ("a missing file", None),
        ("an error", Some(&throws)),
        ("a hang of 10 s", Some(&hangs)),
        ("an endless loop", Some(&loops)),
        ("a death after the sign of life", Some(&dies)),
    ];
    for (what, text) in cases {
        let replies = |request: &Request| match request.answers() {
            0 => Message::call("Bash", json!({"command": "sleep 0.3"}))
                .using(Usage::context(SMALL.1 * 71 / 100 + 1))
                .into(),
            _ => last(SMALL, 72),
        };
        let Some(fixture) = fixture(what, replies) else {
            return;
        };
        let plugin = broken(&fixture, text);
        let out = with_plugin(&fixture, &plugin);
        let log = fixture.log();
        assert_eq!(
            log.matches("\"crossed\"").count(),
            1,
            "{what}: {log}\n{out}"
        );
        assert_eq!(fixture.api.main_requests().len(), 2, "{what}: {out}");
        let told = "Much of this session's context is in use";
        assert!(read_at(&fixture, 1).contains(told), "{what}: {out}");
    }
}
