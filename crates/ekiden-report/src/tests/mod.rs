//! Whole reports: of runs that go well, of runs that do not, and of texts that want to be more than words.

mod hostile;
mod scenario;

use ekiden_core::effect::Effect;
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::event::{CheckOutcome, Commit, Event, RunResumed, WorktreeEvent};
use ekiden_core::event::{Merge, PreparedWorktree};
use ekiden_core::guard::Level;
use ekiden_core::ids::{EffectId, StageId};
use ekiden_core::time::Timestamp;
use expect_test::expect_file;

use crate::render;
use crate::timeline::State;
use scenario::{Scenario, attempt, complete, handoff, nothing, stages};

fn relay() -> Scenario {
    let mut run = Scenario::relay(Some("pytest -q"));
    run.survey(&[], &[])
        .check(CheckOutcome::Failed { code: 1 }, "847 failed\n")
        .window(1, 1);
    run.pass(300)
        .crosses(1, Level::L1, 101_000)
        .pass(200)
        .crosses(1, Level::L2, 121_000)
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"))
        .survey(&["b51c7aa Convert the fixtures"], &["M tests/conftest.py"])
        .check(
            CheckOutcome::Failed { code: 1 },
            "...\n635 failed, 212 passed\n",
        );
    let resets_at = Some(Timestamp(run.now.0 + 3_600_000));
    let kind = LimitKind::FiveHour;
    run.window(2, 1)
        .ends(
            attempt(2, 1),
            EndCause::RateLimited { resets_at, kind },
            nothing(),
        )
        .wake()
        .ends(attempt(2, 2), EndCause::Completed, nothing())
        .survey(&[], &[])
        .check(CheckOutcome::Failed { code: 1 }, "635 failed, 212 passed\n");
    run.window(3, 1)
        .ends(attempt(3, 1), EndCause::Completed, complete())
        .survey(&["0c44e1d Convert the rest"], &["M tests/test_billing.py"])
        .check(CheckOutcome::Passed, "847 passed\n");
    run
}

// shows: REL-27
#[test]
fn a_relay_with_a_wait_and_a_rescue() {
    let mut run = relay();
    expect_file!["pages/relay.md"].assert_eq(&run.markdown());
    expect_file!["pages/relay.html"].assert_eq(&run.html());
}

// shows: UIX-05
#[test]
fn what_stands_in_main_needs_no_style_and_no_script_of_its_own() {
    let mut run = relay();
    run.timeline();
    let main = render::main(&run.page());
    for part in ["<style", "style=", "<script", "<html", "<main"] {
        assert!(!main.contains(part), "{part} in\n{main}");
    }
    let html = run.html();
    assert!(html.contains(main.trim()) && html.contains(render::STYLE.trim()));
}

// shows: REL-27
#[test]
fn a_run_that_asks_something() {
    let mut run = Scenario::relay(None);
    run.survey(&[], &[])
        .ends(attempt(1, 1), EndCause::Completed, handoff("BLOCKED"))
        .survey(&[], &[]);
    expect_file!["pages/blocked.md"].assert_eq(&run.markdown());
}

// shows: REL-27
#[test]
fn a_run_that_was_killed_in_a_session() {
    let mut run = Scenario::relay(None);
    run.survey(&[], &[])
        .window(1, 1)
        .pass(60)
        .crosses(1, Level::L1, 101_000);
    let markdown = run.markdown();
    assert!(markdown.contains("has not ended"), "{markdown}");
    assert!(
        run.html().contains("polyline"),
        "the log's own points are a curve"
    );
}

fn prepared(run: &mut Scenario, stage: &str) {
    run.event(Event::Worktree {
        stage: stage.parse().unwrap(),
        effect: EffectId { seq: 0, index: 0 },
        event: WorktreeEvent::Prepared {
            worktree: Ok(PreparedWorktree::default()),
        },
    });
}

fn merged(run: &mut Scenario, stage: &str, merge: Merge) {
    run.event(Event::Worktree {
        stage: stage.parse().unwrap(),
        effect: EffectId { seq: 0, index: 0 },
        event: WorktreeEvent::Merged { merge },
    });
}

fn done(files: &[&str]) -> Merge {
    Merge::Done {
        commit: "9fceb02d0ae598e95dc970b74767f19372d61af8".to_owned(),
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        undeclared: Vec::new(),
    }
}

fn made() -> Commit {
    Commit::Made {
        id: "1111111".to_owned(),
        files: 1,
        left_out: Vec::new(),
    }
}

// shows: REL-27
#[test]
fn a_plan_of_six_stages() {
    let mut run = Scenario::plan(stages(&[
        ("S01", &[]),
        ("S02", &["S01"]),
        ("S03", &["S01"]),
        ("S04", &["S02", "S03"]),
        ("S05", &["S03"]),
        ("S06", &["S04", "S05"]),
    ]));
    prepared(&mut run, "S01");
    run.of_stage("S01")
        .survey(&[], &[])
        .check(CheckOutcome::Failed { code: 2 }, "no rule\n")
        .ends(attempt(1, 1), EndCause::Completed, complete());
    run.commit(made())
        .survey(&["1111111 Scaffolding"], &["A setup.py"])
        .check(CheckOutcome::Passed, "");
    merged(&mut run, "S01", done(&["setup.py"]));
    for stage in ["S02", "S03"] {
        prepared(&mut run, stage);
        run.of_stage(stage)
            .survey(&[], &[])
            .check(CheckOutcome::Failed { code: 2 }, "no rule\n");
    }
    run.of_stage("S03")
        .pass(60)
        .ends(attempt(1, 1), EndCause::Completed, complete());
    run.commit(made())
        .survey(&[], &[])
        .check(CheckOutcome::Passed, "");
    merged(
        &mut run,
        "S03",
        Merge::Conflict {
            files: vec!["setup.py".to_owned()],
        },
    );
    let timeline = run.timeline();
    let states: Vec<State> = timeline.stages.iter().map(|stage| stage.state).collect();
    assert_eq!(states[0], State::Done);
    assert_eq!(states[1], State::Working);
    assert_eq!(states[3..], [State::Waiting; 3]);
    expect_file!["pages/plan.md"].assert_eq(&run.markdown());
    let html = run.html();
    assert_eq!(html.matches(r#"class="edge""#).count(), 7);
    assert!(html.contains(r#"class="stage done""#) && html.contains(r#"class="stage working""#));
}

// shows: REL-27
#[test]
fn ten_thousand_sessions_fit_into_a_page() {
    let mut run = Scenario::relay(None);
    run.sessions_max(10_000).survey(&[], &[]);
    for session in 1..=10_000 {
        run.ends(
            attempt(session, 1),
            EndCause::Completed,
            handoff("IN_PROGRESS"),
        )
        .survey(&[], &[]);
    }
    let (markdown, html) = (run.markdown(), run.html());
    assert!(
        markdown.len() < 300_000 && html.len() < 400_000,
        "{} {}",
        markdown.len(),
        html.len()
    );
    assert!(
        markdown.contains("9960 sessions in the middle are left out"),
        "{markdown}"
    );
    let curve = html.split("polyline").nth(1).unwrap();
    assert!(curve.contains(','));
}

// shows: REL-27
#[test]
fn a_run_that_goes_on_has_one_report() {
    let mut run = relay();
    let worked = run.timeline().worked;
    run.pass(36_000)
        .event(Event::RunResumed(RunResumed::default()));
    assert_eq!(run.timeline().worked, worked);
    let ended = run.records.iter().flat_map(|record| &record.effects);
    assert!(
        ended
            .into_iter()
            .any(|effect| matches!(effect, Effect::EndRun { .. }))
    );
    assert_eq!(run.timeline().stages[0].id, StageId::only());
}
