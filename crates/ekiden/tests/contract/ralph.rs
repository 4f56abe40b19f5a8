//! Lists of items with the real client: as a run of ekiden, and as a plain loop that the guard watches.

use ekiden_testkit::messages_api::{Message, Reply, Request};
use rustix::process::Signal;
use serde_json::json;

use crate::acting::write_all;
use crate::project::expect_exit;
use crate::relay::session_of;
use crate::stage::Stage;

const ITEMS: u32 = 25;

/// Ticks the item in hand, and hands off.
fn model(request: &Request, dir: &str) -> Reply {
    let text = request.text();
    let item = text.rsplit("# The item in hand\n\n¦ ").next();
    let item = item
        .and_then(|item| item.lines().next())
        .unwrap_or_default();
    let tick = format!("sed -i 's/^- .*{item}$/- [x] {item}/' fix_plan.md");
    match request.answers() {
        0 => Message::call("Bash", json!({"command": tick})).into(),
        1 => write_all(dir, session_of(&text)).into(),
        _ => Message::text("Done.").into(),
    }
}

// shows: RLP-09
#[test]
fn the_real_client_works_through_a_list_though_ekiden_is_killed() {
    let Some(stage) = Stage::set("a list of items with the real client", model) else {
        return;
    };
    expect_exit(stage.ekiden().args(["ralph", "init"]), 0);
    let list: String = (1..=ITEMS).map(|n| format!("- [ ] item {n}\n")).collect();
    stage.project.write("fix_plan.md", &list);
    let mut run = stage.start(&["ralph", "run", "--allowed-tool", "Bash(sed:*)"]);
    while run.until("session_started")["session"] != 10 {}
    run.signal(Signal::KILL);
    run.wait();
    let told = stage.start(&["resume"]).expect_exit(0);
    let list = stage.project.read("fix_plan.md");
    assert_eq!(list.matches("- [x] ").count(), ITEMS as usize, "{list}");
    let mut begun = told
        .iter()
        .filter(|line| line["event"] == "session_started");
    assert!(begun.next_back().unwrap()["session"].as_u64() <= Some(u64::from(ITEMS) + 1));
}
