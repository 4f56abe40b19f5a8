//! A session that is cut off just as its handoff is ordered: the conversation goes on, hands off at once,
//! and nothing that it did is done again.

use std::path::Path;

use ekiden_testkit::messages_api::{Message, Reply, Request, Status, Usage};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::acting::{finish, leave_work, ordered};
use crate::looks::{agent_pid, conversation, count, ends, expect_nothing_alive};
use crate::project::{session_dir, text_of};
use crate::stage::{PATIENCE, Running, Stage};

const ITEMS: [&str; 3] = ["item 1", "item 2", "item 3"];

/// Session 1 does two items, the second of which fills its window over L2, and is answered `cut` when the
/// order reaches it. Then it hands off, and session 2 does what is missing.
fn cut_off_at_the_order(cut: Reply) -> impl FnMut(&Request, &str) -> Reply + Send + 'static {
    let mut cut = Some(cut);
    move |request, dir| {
        let done = text_of(&Path::new(dir).join("../../done.txt"));
        let second = request.text().contains("This is session 2.");
        let next = ITEMS.iter().find(|item| !done.contains(**item));
        match (second || !ordered(request), next) {
            (true, Some(item)) => {
                let context = if *item == ITEMS[1] { 130_000 } else { 30_000 };
                let command = json!({"command": format!("echo '{item}' >> done.txt")});
                Message::call("Bash", command)
                    .using(Usage::context(context))
                    .into()
            }
            (true, None) => finish(request, dir),
            (false, _) => cut.take().unwrap_or_else(|| leave_work(request, dir)),
        }
    }
}

fn stage(what: &str, cut: Reply) -> Option<Stage> {
    Stage::set(what, cut_off_at_the_order(cut))
}

const WORDS: [&str; 4] = ["-m", "2", "--permission-mode", "acceptEdits"];

/// The conversation went on with the order alone, and each item was done once.
#[track_caller]
fn expect_handed_off_once(stage: &Stage, told: &[Value]) {
    assert_eq!(count(told, "handoff"), 2, "{told:#?}");
    assert_eq!(count(told, "rescue"), 0, "{told:#?}");
    assert_eq!(stage.project.read("done.txt"), "item 1\nitem 2\nitem 3\n");
    let requests = stage.api().main_requests();
    let resumed = |request: &&Request| request.conversation() == requests[0].conversation();
    let last = requests.iter().rfind(resumed).unwrap();
    assert!(last.tool_results().len() >= 4, "the conversation is kept");
    let went_on = last.text().contains("has resumed this conversation");
    assert!(ordered(last) && !went_on, "{}", last.text());
    let second = text_of(&session_dir(&stage.project, 2).join("prompt.md"));
    assert!(second.contains("item 1, shown by"), "{second}");
}

// shows: REL-37, REL-11
#[test]
fn a_limit_at_the_order_is_followed_by_the_handoff_alone() {
    let limit = Status::error(429, "rate_limit_error", "limit").into();
    let Some(stage) = stage("a limit at the order", limit) else {
        return;
    };
    let told = stage
        .run(&[&WORDS[..], &["--max-wait", "0s"]].concat())
        .expect_exit(3);
    assert!(ends(&told)[0]["cause"]["rate_limited"].is_object());
    let told = Running::of(stage.ekiden().args(["resume", "--json"])).expect_exit(0);
    expect_handed_off_once(&stage, &told);
}

// shows: REL-37, REL-15
#[test]
fn a_kill_of_the_agent_at_the_order_is_followed_by_the_handoff_alone() {
    let Some(stage) = stage("kill -9 of the agent at the order", Reply::Stall) else {
        return;
    };
    let mut running = stage.run(&WORDS);
    running.until("session_started");
    stage.api().wait_for(PATIENCE, ordered).unwrap();
    stage.wait_for_events("item 2");
    kill_process(agent_pid(&stage), Signal::KILL).unwrap();
    let told = running.expect_exit(0);
    assert_eq!(ends(&told)[0]["cause"], json!({"killed": {"signal": 9}}));
    expect_handed_off_once(&stage, &told);
}

// shows: REL-37, RUN-11
#[test]
fn a_kill_of_ekiden_at_the_order_is_followed_by_the_handoff_alone() {
    let Some(stage) = stage("kill -9 of ekiden at the order", Reply::Stall) else {
        return;
    };
    let mut running = stage.run(&WORDS);
    running.until("session_started");
    stage.api().wait_for(PATIENCE, ordered).unwrap();
    stage.wait_for_events("item 2");
    running.signal(Signal::KILL);
    running.wait();
    expect_nothing_alive(&conversation(&stage));
    let told = Running::of(stage.ekiden().args(["resume", "--json"])).expect_exit(0);
    expect_handed_off_once(&stage, &told);
}
