//! Lists of items with the real client: as a run of ekiden, and as a plain loop that the guard watches.

use ekiden_testkit::messages_api::{Message, Reply, Request, Status};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acting::write_all;
use crate::project::expect_exit;
use crate::relay::session_of;
use crate::stage::Stage;

const ITEMS: u32 = 25;

/// This one never verifies.
const BAD: &str = "item 20";

/// Ticks the item in hand, and hands off. Session 5 meets a limit, whose reset is past.
fn model() -> impl FnMut(&Request, &str) -> Reply {
    let mut limits = 0;
    move |request, dir| {
        let text = request.text();
        let session = session_of(&text);
        if session == 5 && request.answers() == 1 && limits == 0 {
            limits += 1;
            let limit = Status::error(429, "rate_limit_error", "limit")
                .header("anthropic-ratelimit-unified-status", "rejected")
                .header("anthropic-ratelimit-unified-reset", "1700000000");
            let claim = "anthropic-ratelimit-unified-representative-claim";
            return limit.header(claim, "five_hour").into();
        }
        let item = text.rsplit("# The item in hand\n\n¦ ").next();
        let item = item.and_then(|item| item.lines().next());
        let item = item.unwrap_or_default();
        let tick = format!("sed -i 's/^- .*{item}$/- [x] {item}/' fix_plan.md");
        let work = match item == BAD {
            true => format!("touch bad && {tick}"),
            false => tick,
        };
        match request.answers() {
            0 => Message::call("Bash", json!({"command": work})).into(),
            1 => write_all(dir, session).into(),
            _ => Message::text("Done.").into(),
        }
    }
}

/// Beside the item that never verifies there are a limit and a kill.
// shows: RLP-09
#[test]
fn the_real_client_works_through_a_list_whatever_happens() {
    let Some(stage) = Stage::set("a list of items with the real client", model()) else {
        return;
    };
    let stage = stage
        .with("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake")
        .without("ANTHROPIC_API_KEY");
    expect_exit(stage.ekiden().args(["ralph", "init"]), 0);
    let list: String = (1..=ITEMS).map(|n| format!("- [ ] item {n}\n")).collect();
    stage.project.write("fix_plan.md", &list);
    let allowed = ["Bash(sed:*)", "Bash(touch:*)"].map(|rule| ["--allowed-tool", rule]);
    let run = ["ralph", "run", "--verify", "test ! -e bad"];
    let mut run = stage.start(&[&run[..], &allowed.concat()].concat());
    let waiting = run.until("waiting");
    assert_eq!(waiting["cause"]["rate_limited"]["kind"], "five_hour");
    while run.until("session_started")["session"] != 10 {}
    run.signal(Signal::KILL);
    run.wait();
    let told = stage.start(&["resume"]).expect_exit(4);
    let list = stage.project.read("fix_plan.md");
    assert_eq!(list.matches("- [x] ").count(), ITEMS as usize, "{list}");
    let is_aside = |line: &&Value| line["kind"] == "item_set_aside";
    let aside: Vec<&Value> = told.iter().filter(is_aside).collect();
    assert_eq!(aside.len(), 1, "{told:#?}");
    assert_eq!(
        (&aside[0]["item"], &aside[0]["tries"]),
        (&BAD.into(), &3.into())
    );
    let status = expect_exit(stage.ekiden().args(["ralph", "status"]), 0);
    assert!(status.contains("24 of 25 items done"), "{status}");
}
