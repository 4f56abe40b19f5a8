//! Any command as an agent.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use ekiden_agent::attempt::{Activity, AgentCommand, AttemptHandle, AttemptSpec, Report};
use ekiden_agent::start;
use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions};
use ekiden_core::budget::Prices;
use ekiden_core::effect::StartMode;
use ekiden_core::ends::EndCause;
use ekiden_core::event::AttemptEnded;
use ekiden_core::ids::{AttemptId, RunId, SessionNumber, StageId};
use ekiden_core::limits::CLOSE_GRACE;
use ekiden_core::relay::Prompt;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::stage::{ACTOR, PATIENCE};

fn agent(script: &str, dir: &Path) -> (AttemptHandle, mpsc::Receiver<Report>) {
    agent_of(AgentKind::Exec, script, dir)
}

fn agent_of(kind: AgentKind, script: &str, dir: &Path) -> (AttemptHandle, mpsc::Receiver<Report>) {
    let attempt = AttemptId::first(SessionNumber::FIRST);
    let spec = AttemptSpec {
        ekiden: ACTOR.into(),
        agent: AgentSpec {
            name: "script".to_owned(),
            kind,
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            model: None,
            account: None,
            permissions: Permissions::default(),
            interface: Interface::Headless,
        },
        attempt,
        conversation: attempt.conversation(&RunId::from_bits(1), &StageId::only()),
        mode: StartMode::Fresh,
        dir: dir.to_owned(),
        protocol: String::new(),
        protocol_file: dir.join("protocol.md"),
        message: Prompt::Resume(String::new()),
        prompt_file: dir.join("prompt.md"),
        events_file: dir.join("events.jsonl"),
        schema: None,
        prices: Prices::default(),
        env: Vec::new(),
        lock: None,
        raw: Box::new(io::sink()),
    };
    let (sender, reports) = mpsc::channel(64);
    (start(spec, sender), reports)
}

async fn end(reports: &mut mpsc::Receiver<Report>) -> AttemptEnded {
    loop {
        let report = timeout(PATIENCE, reports.recv()).await;
        if let Report::Ended(ended) = report.expect("in time").expect("an end") {
            return *ended;
        }
    }
}

// shows: RUN-09, AGT-08
#[tokio::test]
async fn a_flood_does_not_hold_up_the_end_of_an_agent_that_was_told_to_close() {
    let dir = tempfile::tempdir().unwrap();
    // Lines that are read more slowly than they are written, but not so slowly that the rest takes seconds.
    let (agent, mut reports) = agent_of(AgentKind::Claude, "exec yes flood", dir.path());
    agent.tell(AgentCommand::Close);
    let within = Duration::from(CLOSE_GRACE) + Duration::from_secs(10);
    let ended = timeout(within, end(&mut reports)).await;
    assert_eq!(ended.expect("in time").cause, EndCause::Stopped);
}

#[tokio::test]
async fn the_last_words_of_both_streams_are_in_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let script = "wait_for() { until [ -e $1 ]; do sleep 0.01; done; }
        echo one; wait_for heard-one; echo two >&2; touch said-two; wait_for heard-two; echo three";
    let (_handle, mut reports) = agent(script, dir.path());
    let one = Report::Activity(Activity::Words("one".to_owned()));
    while reports.recv().await.expect("a report") != one {}
    fs::write(at("heard-one"), "").expect("written");
    while !at("said-two").exists() {
        sleep(Duration::from_millis(5)).await;
    }
    // The driver runs on this thread: it reads what is there while this sleeps.
    for _ in 0..3 {
        sleep(Duration::from_millis(5)).await;
    }
    fs::write(at("heard-two"), "").expect("written");

    let ended = end(&mut reports).await;
    assert_eq!(ended.cause, EndCause::Completed);
    assert_eq!(
        ended.traces.last_words.as_deref(),
        Some("one\ntwo\nthree\n")
    );
}

#[tokio::test]
async fn the_last_words_of_both_streams_are_bounded_together() {
    let script = "printf '%3000s' end; printf '%3000s' end >&2";
    let (_handle, mut reports) = agent(script, Path::new("/"));
    let words = end(&mut reports).await.traces.last_words.expect("words");
    assert_eq!(words.len(), 1200);
    assert!(words.ends_with(" end"), "{words:?}");
}
