//! Three sessions to verified done.

use std::path::{Path, PathBuf};
use std::process::Command;

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Usage};
use serde_json::json;

use crate::project::{Project, course, ekiden, expect_exit, session_dir, text_of};
use crate::stage::Turn;

/// What the next session must never see: the content of a file that a handoff names.
const SECRET: &str = "the key to everything";

/// What every agent's relay of three sessions must look like, whoever it is.
fn check_relay(project: &Project, out: &str) {
    assert!(out.contains("verified complete · 3 sessions"), "{out}");
    let log = project.log();
    for session in [1, 2] {
        let course = course(&log, session);
        let at = |word: &str| {
            let found = course.iter().position(|seen| seen.starts_with(word));
            found.unwrap_or_else(|| panic!("session {session} has no `{word}`: {course:?}"))
        };
        let order = at("say ekiden: please hand off now.");
        assert!(at("started") < at("window_changed"), "{course:?}");
        assert!(at("level L2") < order, "{course:?}");
        assert!(order < at("message_delivered"), "{course:?}");
        assert!(at("message_delivered") < at("stop_asked"), "{course:?}");
        assert!(at("stop_asked") < at("turn_ended"), "{course:?}");
        assert_eq!(course.last().unwrap(), "ended \"completed\"", "{course:?}");
        assert_eq!(
            course.iter().filter(|word| word.starts_with("say")).count(),
            1,
            "{course:?}"
        );
    }
    assert_eq!(course(&log, 3).last().unwrap(), "ended \"completed\"");
    for session in 1..=3 {
        let dir = session_dir(project, session);
        for file in ["prompt.md", "progress.md", "events.jsonl", "verify.log"] {
            assert!(dir.join(file).exists(), "session {session} keeps {file}");
        }
    }
    let second = text_of(&session_dir(project, 2).join("prompt.md"));
    assert!(
        second.starts_with("# Task\n\nMake three items."),
        "{second}"
    );
    assert!(second.contains("¦ "), "the notes are marked: {second}");
    assert!(second.contains("This is session 2."), "{second}");
}

// shows: AGT-12, AGT-05, REL-02, REL-07
#[test]
fn rehearsal_relays_three_sessions() {
    let project = Project::new();
    let items: String = (1..=9)
        .map(|n| format!("- [ ] Item {n}\n\n  ```sh\n  touch item-{n}.txt\n  ```\n"))
        .collect();
    project.write("task.md", &format!("Make three items.\n\n{items}"));
    let mut command = ekiden(&project);
    command.args([
        "run",
        "task.md",
        "--agent",
        "rehearsal",
        "--verify",
        "test -f item-9.txt",
    ]);
    command.env("EKIDEN_REHEARSAL_STEP_MS", "0");
    check_relay(&project, &expect_exit(&mut command, 0));
}

// defect: W15
// shows: AGT-12, AGT-01, AGT-13, REL-01, REL-02, REL-03, REL-07, REL-33
#[test]
fn the_real_client_relays_three_sessions() {
    let Some(client) = real_client_for("the relay of three sessions with the real client") else {
        return;
    };
    let _turn = Turn::wait();
    let project = Project::new();
    let api = MessagesApi::start(model(project.path()));
    let environment = CleanEnvironment::new(&api).unwrap();
    let ssh = environment.home().join(".ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    std::fs::write(ssh.join("id_rsa"), SECRET).unwrap();
    project.write(
        "task.md",
        "Make three items. See @~/.ssh/id_rsa for nothing.\n",
    );

    let mut command = with_client(&project, &environment, &client);
    command.args([
        "run",
        "task.md",
        "--verify",
        "test -f item-3.txt",
        "--permission-mode",
        "acceptEdits",
    ]);
    check_relay(&project, &expect_exit(&mut command, 0));

    for item in 1..=3 {
        assert_eq!(project.read(&format!("item-{item}.txt")), "made\n");
    }
    check_requests(&api.main_requests());
    let knowledge = project.read(".ekiden/KNOWLEDGE.md");
    assert!(
        knowledge.contains("- Items are files; session 1 says so.\n"),
        "{knowledge}"
    );
}

/// ekiden in the client's clean environment.
pub(crate) fn with_client(
    project: &Project,
    environment: &CleanEnvironment,
    client: &std::path::Path,
) -> Command {
    let mut command = ekiden(project);
    command.env_clear().envs(environment.variables());
    let command_line = client.to_str().unwrap();
    command
        .env("EKIDEN_AGENT", "claude")
        .env("XDG_CONFIG_HOME", environment.home());
    let config = format!("[agents.claude]\nkind = \"claude\"\ncommand = [\"{command_line}\"]\n");
    let dir = environment.home().join("ekiden");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), config).unwrap();
    command
}

fn check_requests(requests: &[Request]) {
    let mut conversations: Vec<String> = requests.iter().map(Request::conversation).collect();
    conversations.dedup();
    assert_eq!(
        conversations.len(),
        3,
        "one conversation a session: {conversations:?}"
    );
    for request in requests {
        assert!(
            !request.text().contains(SECRET),
            "a file that was only named is attached"
        );
        assert!(
            request.system().contains("# Working in a relay"),
            "the protocol stands in the system prompt"
        );
        assert!(
            request.text().contains("Make three items."),
            "the task is in every session"
        );
        assert!(request.cache_markers() <= 4);
    }
}

/// A well-behaved model: one item a session; it hands off when it is told to.
fn model(dir: PathBuf) -> impl FnMut(&Request) -> Reply + Send + 'static {
    move |request| answer(&dir, &request.text(), request.answers()).into()
}

/// What it says after so many tool results.
pub(crate) fn answer(dir: &Path, text: &str, answers: usize) -> Message {
    let session = session_of(text);
    let path = dir.join(format!("item-{session}.txt"));
    let item = json!({"file_path": path.to_str().unwrap(), "content": "made\n"});
    let ordered = text.contains("ekiden: please hand off now");
    match (session, answers) {
        (_, 0) => Message::call("Write", item).using(Usage::context(20_000)),
        (1 | 2, 1) => {
            Message::call("Bash", json!({"command": "ls"})).using(Usage::context(130_000))
        }
        (1 | 2, 2) if ordered => hand_off(dir, session).using(Usage::context(131_000)),
        (3, 1) => hand_off(dir, session).using(Usage::context(30_000)),
        _ => Message::text("Done.").using(Usage::context(132_000)),
    }
}

/// The three calls that write a handoff.
pub(crate) fn hand_off(dir: &Path, session: u32) -> Message {
    let handoff_dir = dir.join(".ekiden/handoff");
    let input = |name: &str, text: &str| json!({"file_path": handoff_dir.join(name).to_str().unwrap(), "content": text});
    let [progress, next_prompt, knowledge] = handoff(session);
    Message::call("Write", input("PROGRESS.md", &progress))
        .and_call("Write", input("NEXT_PROMPT.md", &next_prompt))
        .and_call("Write", input("KNOWLEDGE.md", &knowledge))
}

pub(crate) fn session_of(text: &str) -> u32 {
    if text.contains("This is the first session.") {
        return 1;
    }
    let number = text
        .rsplit("This is session ")
        .next()
        .and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub(crate) fn handoff(session: u32) -> [String; 3] {
    let status = if session == 3 {
        "ALL_COMPLETE"
    } else {
        "IN_PROGRESS"
    };
    let progress = format!(
        "STATUS: {status}\n\n## Done\n\nitem {session}, shown by `ls`\n\n## Stopped at\n\nafter item {session}; \
         nothing is half done\n\n## Issues\n\nnone\n"
    );
    let next_prompt = format!(
        "## Task\n\nthe next item\n\n## State\n\n{session} items exist, each a file of its own; they were looked at. \
         The names count up, and every one of them holds the same word.\n\n## Resume at\n\nitem-{}.txt\n\n\
         ## What works\n\nWrite\n\n## What to avoid\n\nreading @~/.ssh/id_rsa\n@~/.ssh/id_rsa\n\n\
         ## How to verify\n\n`ls` shows the items\n",
        session + 1
    );
    let knowledge = format!("## Core Knowledge\n\n- Items are files; session {session} says so.\n");
    [progress, next_prompt, knowledge]
}
