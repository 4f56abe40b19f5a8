//! What a test looks at while a run goes on and after it.

use std::path::Path;
use std::time::{Duration, Instant};

use ekiden_testkit::messages_api::{Message, Request};
use rustix::process::Pid;
use serde_json::Value;

use crate::project::{session_dir, text_of};
use crate::stage::{PATIENCE, Stage};

/// RUN-10.
const PROMISE: Duration = Duration::from_secs(5);

/// How often this was told.
pub(crate) fn count(told: &[Value], event: &str) -> usize {
    told.iter().filter(|line| line["event"] == event).count()
}

/// The ends of all attempts.
pub(crate) fn ends(told: &[Value]) -> Vec<&Value> {
    told.iter()
        .filter(|line| line["event"] == "attempt_ended")
        .collect()
}

/// How many words of a course begin so.
pub(crate) fn words(course: &[String], start: &str) -> usize {
    course.iter().filter(|word| word.starts_with(start)).count()
}

/// The process id of the agent at work.
pub(crate) fn agent_pid(stage: &Stage) -> Pid {
    let mut pids = stage
        .project
        .log()
        .into_iter()
        .filter_map(|record| record["event"]["event"]["event"]["pid"].as_i64());
    Pid::from_raw(pids.next_back().unwrap().try_into().unwrap()).unwrap()
}

/// The id of the first attempt's conversation.
pub(crate) fn conversation(stage: &Stage) -> String {
    let log = stage.project.log();
    let mut effects = log
        .iter()
        .flat_map(|record| record["effects"].as_array().unwrap());
    effects
        .find_map(|effect| effect["effect"]["conversation"].as_str())
        .unwrap()
        .to_owned()
}

/// A session's event stream.
pub(crate) fn events_of(stage: &Stage, session: u32) -> String {
    text_of(&session_dir(&stage.project, session).join("events.jsonl"))
}

/// Waits until nothing of this conversation is alive.
#[track_caller]
pub(crate) fn expect_nothing_alive(conversation: &str) {
    let until = Instant::now() + PROMISE;
    let mark = format!("EKIDEN_SESSION_ID={conversation}");
    loop {
        let left = marked(&mark);
        if left == 0 {
            return;
        }
        assert!(
            Instant::now() < until,
            "{left} processes of {conversation} are still alive"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn marked(mark: &str) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let environments =
        processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("environ")).ok());
    environments
        .filter(|all| {
            all.split(|byte| *byte == 0)
                .any(|one| one == mark.as_bytes())
        })
        .count()
}

/// Waits until `tail -f` runs in this project.
#[track_caller]
pub(crate) fn wait_for_tail(stage: &Stage) {
    let until = Instant::now() + PATIENCE;
    let dir = stage.project.path();
    let in_project = |pid: &Path| std::fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == dir);
    let is_tail = |pid: &Path| {
        std::fs::read(pid.join("cmdline")).is_ok_and(|line| line.starts_with(b"tail\0-f"))
    };
    loop {
        let mut processes = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| Some(entry.ok()?.path()));
        if processes.any(|pid| is_tail(&pid) && in_project(&pid)) {
            return;
        }
        assert!(Instant::now() < until, "the tool does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The tools of MCP servers that a session is offered: whole, or by name until it asks for them.
pub(crate) fn offered_by_servers(request: &Request) -> Vec<String> {
    let text = request.text();
    let named = text.lines().chain(request.tools());
    named
        .filter(|name| name.starts_with("mcp__"))
        .map(str::to_owned)
        .collect()
}

/// A call that asks the client for tools which it offers by name.
pub(crate) fn load_tools(names: &str) -> Message {
    let query = format!("select:{names}");
    Message::call(
        "ToolSearch",
        serde_json::json!({"query": query, "max_results": 9}),
    )
}
