//! What the real client says of its cost while a turn runs, and what a session loses when its budget is spent: nothing.

use ekiden_testkit::client::is_too_old;
use ekiden_testkit::messages_api::{Reply, Request, Usage};

use crate::acting::{call, leave_work, ordered, write_all};
use crate::looks::{count, events_of};
use crate::stage::{NEW, Stage};

/// Its price depends on the size of the request, and no run has learned it.
const HAIKU: &str = "claude-haiku-5-5";
const SILENT: &str = "it does not say its cost on the way";

// shows: REL-22
#[test]
fn a_budget_ends_by_the_clients_own_figures() {
    let model = |request: &Request, dir: &str| -> Reply {
        match ordered(request) {
            false => call().using(Usage::context(110_000)).into(),
            true => leave_work(request, dir),
        }
    };
    let what = "a budget by the client's figures";
    if is_too_old(NEW, what, SILENT) {
        return;
    }
    let Some(stage) = Stage::set(what, model) else {
        return;
    };
    let args = ["-m", "1", "--model", HAIKU, "--session-budget", "0.08"];
    let told = stage.run(&args).expect_exit(3);
    // 110,000 tokens from the cache cost half a cent; the price that is assumed would be 17.
    let end = told.last().unwrap();
    let spent = end["cost_micro_usd"].as_u64().unwrap();
    assert!((70_000..80_000).contains(&spent), "{spent}: {told:#?}");
    assert_eq!(count(&told, "rescue"), 0, "{told:#?}");
}

// shows: REL-22
#[test]
fn a_handoff_in_the_response_that_spends_the_budget_is_kept() {
    let model = |request: &Request, dir: &str| -> Reply {
        match ordered(request) {
            false => call().using(Usage::context(20_000)).into(),
            true => {
                let mut usage = Usage::context(20_000);
                usage.output = 30_000;
                write_all(dir, 1).using(usage).into()
            }
        }
    };
    let what = "a handoff in the last response";
    if is_too_old(NEW, what, SILENT) {
        return;
    }
    let Some(stage) = Stage::set(what, model) else {
        return;
    };
    let args = ["-m", "1", "--model", HAIKU, "--session-budget", "0.01"];
    let told = stage.run(&args).expect_exit(3);
    assert_eq!(count(&told, "rescue"), 0, "{told:#?}");
    assert!(!events_of(&stage, 1).contains("doesn't want to proceed"));
}
