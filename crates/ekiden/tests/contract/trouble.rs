//! The real client in trouble, as far as a well-behaved run can meet it: an order that comes with
//! the last words, a turn that ends without a handoff, a handoff with faults, a key that is refused.

use std::time::Duration;

use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Status, Usage};
use serde_json::json;

use crate::project::{course, expect_exit};
use crate::stage::{Stage, write_all};

/// Runs one session of the real client against a model, and gives the words of its course.
fn one_session(
    what: &str,
    code: i32,
    model: impl FnMut(&Request, &str) -> Reply + Send + 'static,
) -> Option<(Vec<String>, String, MessagesApi)> {
    let stage = Stage::set(what, model)?;
    let out = expect_exit(stage.ekiden().args(["run", "Make one item.", "-m", "1"]), code);
    Some((course(&stage.project.log(), 1), out, stage.api))
}

fn words(course: &[String], start: &str) -> usize {
    course.iter().filter(|word| word.starts_with(start)).count()
}

// shows: REL-02
#[test]
fn an_order_during_the_last_words_becomes_a_turn_of_its_own() {
    let model = |request: &Request, dir: &str| -> Reply {
        let ordered = request.text().contains("ekiden: please hand over now");
        match (ordered, request.tool_results().len()) {
            (false, _) => Message::text("All is well.").using(Usage::context(130_000)).into(),
            (true, 0) => write_all(dir, 3).using(Usage::context(131_000)).into(),
            (true, _) => Message::text("Handed over.").using(Usage::context(132_000)).into(),
        }
    };
    let Some((course, out, _api)) = one_session("an order during the last words", 0, model) else { return };
    assert!(out.contains("complete"), "{out}");
    assert_eq!(words(&course, "say ekiden: please hand over"), 1, "{course:?}");
    assert_eq!(words(&course, "turn_ended"), 2, "{course:?}");
}

// defect: W14, W15
// shows: REL-05, HND-08
#[test]
fn a_turn_that_ends_early_is_told_to_go_on_and_then_asked() {
    let model = |request: &Request, dir: &str| -> Reply {
        let told_to_go_on = request.text().contains("your turn ended without a handoff");
        let asked = request.text().contains("ekiden: the handoff in");
        match (told_to_go_on, asked, request.tool_results().len()) {
            (_, true, 0) => write_all(dir, 3).into(),
            (_, _, 0) => Message::text("I will do it tomorrow.").into(),
            (_, _, _) => Message::text("Now it is done.").into(),
        }
    };
    let Some((course, _, api)) = one_session("a turn that ends early", 0, model) else { return };
    let text = api.main_requests().last().unwrap().text();
    assert!(text.contains("your turn ended without a handoff"), "{text}");
    assert!(text.contains("ekiden: the handoff in"), "{text}");
    assert!(words(&course, "stop_asked") >= 3, "{course:?}");
    assert_eq!(course.last().unwrap(), "ended \"completed\"");
}

// shows: REL-04
#[test]
fn a_fault_is_told_by_name_place_and_remedy_and_mended() {
    let model = |request: &Request, dir: &str| -> Reply {
        let asked = request.text().contains("ekiden: the handoff in");
        let file = |text: &str| json!({"file_path": format!("{dir}/PROGRESS.md"), "content": text});
        match (asked, request.tool_results().len()) {
            (false, 0) => Message::call("Write", file("STATUS: MAYBE\n\n## Done\n\nall\n")).into(),
            (true, 1) => write_all(dir, 3).into(),
            (_, _) => Message::text("Done.").into(),
        }
    };
    let Some((_, _, api)) = one_session("a handoff with faults", 0, model) else { return };
    let text = api.main_requests().last().unwrap().text();
    assert!(text.contains("PROGRESS.md"), "{text}");
    assert!(text.contains("no heading \"## Stopped at\". Name the file"), "{text}");
}

// shows: REL-05, REL-06, REL-28
#[test]
fn a_session_that_never_hands_over_is_rescued() {
    let model = |_: &Request, _: &str| -> Reply { Message::text("No.").into() };
    let Some((course, out, _api)) = one_session("a session that never hands over", 3, model) else { return };
    assert!(out.contains("rescue handoff"), "{out}");
    assert_eq!(words(&course, "say ekiden: the handoff in"), 2, "{course:?}");
}

// shows: CHK-005, REL-05
#[test]
fn a_deaf_agent_is_refused_interrupted_asked_and_rescued() {
    let model = |_: &Request, _: &str| -> Reply {
        Message::call("Bash", json!({"command": "ls"})).using(Usage::context(145_000)).into()
    };
    let Some((course, out, api)) = one_session("a deaf agent", 3, model) else { return };
    assert!(out.contains("rescue handoff"), "{out}");
    assert_eq!(words(&course, "refusals_spent"), 2, "{course:?}");
    assert_eq!(words(&course, "say ekiden: please hand over"), 1, "{course:?}");
    assert_eq!(words(&course, "say ekiden: the handoff in"), 1, "{course:?}");
    assert!(api.main_requests().len() < 20, "a deaf agent goes on and on");
}

// shows: REL-10
#[test]
fn a_refused_key_stops_the_run_with_a_hint() {
    let model = |_: &Request, _: &str| -> Reply {
        Reply::from(Status::error(401, "authentication_error", "invalid x-api-key"))
    };
    let Some((course, out, _api)) = one_session("a refused key", 69, model) else { return };
    assert!(course.last().unwrap().contains("authentication_failed"), "{course:?}");
    assert!(out.contains("login"), "{out}");
}

/// The conversation goes on where it was cut off: the same id, a new attempt, a note instead of the
/// prompt.
// shows: RUN-10, RUN-11
#[test]
fn a_killed_ekiden_resumes_the_clients_conversation() {
    let model = |request: &Request, dir: &str| -> Reply {
        let resumed = request.text().contains("has resumed this conversation");
        match (resumed, request.tool_results().len()) {
            (false, 0) => Message::call("Bash", json!({"command": "ls"})).into(),
            (false, _) => Reply::Stall,
            (true, 0 | 1) => write_all(dir, 3).into(),
            (true, _) => Message::text("Done.").into(),
        }
    };
    let Some(stage) = Stage::set("kill -9 of ekiden and resume", model) else { return };
    let mut running = stage.ekiden().args(["run", "Make one item."]).spawn().unwrap();
    let cut =
        stage.api.wait_for(Duration::from_secs(60), |request| !request.tool_results().is_empty()).unwrap();
    running.kill().unwrap();
    running.wait().unwrap();

    expect_exit(stage.ekiden().arg("resume"), 0);
    let last = stage.api.main_requests().pop().unwrap();
    assert_eq!(last.conversation(), cut.conversation());
    let ends: Vec<String> =
        course(&stage.project.log(), 1).into_iter().filter(|word| word.starts_with("ended")).collect();
    assert_eq!(ends, ["ended \"engine_lost\"", "ended \"completed\""]);
}
