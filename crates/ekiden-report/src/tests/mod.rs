//! Whole reports: of runs that go well, of runs that do not, and of texts that want to be more than words.

mod hostile;
mod scenario;

use ekiden_core::agent::{AgentKind, AgentSpec};
use ekiden_core::budget::{Budget, Spend};
use ekiden_core::effect::Effect;
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::event::{
    CheckOutcome, Commit, Delivery, Event, RelayEvent, RunResumed, WorktreeEvent,
};
use ekiden_core::event::{Merge, PreparedWorktree};
use ekiden_core::guard::Level;
use ekiden_core::handoff::{FileText, HandoffFiles, OpenItems};
use ekiden_core::ids::{EffectId, SessionNumber, StageId};
use ekiden_core::manifest::Manifest;
use ekiden_core::outcome::WaitCause;
use ekiden_core::prompt::{Author, Notes};
use ekiden_core::renewal::{LastSession, StartingPoint};
use ekiden_core::settings::{FleetPlace, RunStarted};
use ekiden_core::steering::Steering;
use ekiden_core::time::{Millis, Timestamp};
use expect_test::{expect, expect_file};

use crate::page::Heading;
use crate::render;
use crate::timeline::{Kind, State};
use scenario::{Scenario, attempt, complete, handoff, nothing, stage, stages, with_words};

// shows: UIX-06
#[test]
fn a_session_with_an_open_attempt_has_the_context_of_the_one_before() {
    let mut run = Scenario::relay(None);
    let resets_at = Some(Timestamp(run.now.0 + 3_600_000));
    let kind = LimitKind::FiveHour;
    run.survey(&[], &[])
        .window(1, 1)
        .ends(
            attempt(1, 1),
            EndCause::RateLimited { resets_at, kind },
            nothing(),
        )
        .wake();
    let session = &run.timeline().stages[0].sessions[0];
    assert_eq!(session.attempts.len(), 2);
    assert_eq!(session.usage(), Some((122_300, Some(61))));
}

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

// shows: UIX-05
#[test]
fn a_handoff_stands_beside_what_changed_in_it() {
    let mut run = Scenario::relay(None);
    run.survey(&[], &[]);
    for (session, words) in [(1, "- 212 of 847"), (2, "- 847 of 847")] {
        let files = with_words("IN_PROGRESS", words);
        run.ends(attempt(session, 1), EndCause::Completed, files)
            .survey(&[], &[]);
    }
    let (markdown, html) = (run.markdown(), run.html());
    assert_eq!(
        html.matches("<summary>The whole handoff</summary>").count(),
        2
    );
    let changed = "<summary>What changed since the handoff of session 1</summary>";
    let changes: Vec<&str> = html.split(changed).collect();
    assert_eq!(changes.len(), 2, "{html}");
    let removed = changes[1].find(r#"<span class="removed">- - 212 of 847</span>"#);
    let added = changes[1].find(r#"<span class="added">+ - 847 of 847</span>"#);
    assert!(removed.unwrap() < added.unwrap());
    assert!(!markdown.contains("The whole handoff"));
}

// shows: UIX-05
#[test]
fn knowledge_is_told_by_the_session_that_added_it() {
    let mut run = Scenario::relay(None);
    run.survey(&[], &[]);
    let knows = |fact: &str| {
        let text = format!("## Core Knowledge\n- {fact}\n");
        HandoffFiles {
            knowledge: FileText::Text(text),
            ..handoff("IN_PROGRESS")
        }
    };
    for (session, fact) in [
        (1, "The client needs a region."),
        (2, "The client needs a region."),
        (3, "corrects \"The client needs a region\": It needs none."),
    ] {
        run.ends(attempt(session, 1), EndCause::Completed, knows(fact))
            .survey(&[], &[]);
    }
    let markdown = run.markdown();
    let table = markdown.split("## Knowledge as it grew").nth(1).unwrap();
    expect![[r#"


        1 fact now.

        | learned by | fact |
        |---|---|
        | session 1, no longer held | `The client needs a region.` |
        | session 3 | `It needs none.` |

    "#]]
    .assert_eq(table.split("---\n\n").next().unwrap());
}

// shows: REL-27
#[test]
fn what_subagents_took_counts_for_their_model() {
    let mut run = Scenario::relay(None);
    let spend = Spend {
        micro_usd: 500_000,
        tokens: 10_000,
        estimated: false,
    };
    run.survey(&[], &[]).window(1, 1);
    run.models = [("haiku".to_owned(), spend)].into();
    run.ends(attempt(1, 1), EndCause::Completed, complete());
    let markdown = run.markdown();
    assert!(
        markdown.contains("| `haiku` | 1 | 10k | $0.50 |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| `opus` | 1 | 150k | $1.34 |"),
        "{markdown}"
    );
}

// shows: REL-27
#[test]
fn what_was_paid_is_not_marked_as_the_api_price() {
    let mut run = Scenario::plan(stages(&[("S01", &[]), ("S02", &[])]));
    for (stage, model, subscription) in [("S01", "opus", true), ("S02", "gpt", false)] {
        prepared(&mut run, stage);
        run.models = [(model.to_owned(), run.spend)].into();
        run.subscription = subscription;
        run.of_stage(stage)
            .survey(&[], &[])
            .check(CheckOutcome::Failed { code: 2 }, "")
            .ends(attempt(1, 1), EndCause::Completed, complete());
    }
    let markdown = run.markdown();
    for row in [
        "| `opus` | 1 | 160k | $1.84 API price |",
        "| `gpt` | 1 | 160k | $1.84 |",
    ] {
        assert!(markdown.contains(row), "{row} in\n{markdown}");
    }
    let of_stage = |line: &&str| line.starts_with("| S0") && line.contains('$');
    let costs = markdown.lines().filter(of_stage);
    let paid: Vec<bool> = costs.map(|line| !line.contains("API price")).collect();
    assert_eq!(paid, [false, true, false, true], "{markdown}");
}

// shows: REL-27
#[test]
fn each_agent_that_worked_is_named_and_one_without_a_cost_is_no_model() {
    let mut only = stage(StageId::only(), &[]);
    only.verification = None;
    let mut header = scenario::header(Manifest::single(only));
    // A program cannot be held to permissions.
    header.settings.agent.permissions.skip = true;
    let next = AgentSpec {
        name: "tool".to_owned(),
        kind: AgentKind::Exec,
        model: None,
        ..header.settings.agent.clone()
    };
    header.settings.fallback.agents.push(next);
    let mut run = Scenario::of(header);
    let (resets_at, kind) = (Some(run.now + Millis::from_secs(3600)), LimitKind::FiveHour);
    let limit = EndCause::RateLimited { resets_at, kind };
    run.survey(&[], &[])
        .ends(attempt(1, 1), limit, nothing())
        .survey(&[], &[]);
    run.spend = Spend::default();
    run.ends(attempt(2, 1), EndCause::Completed, complete());
    let markdown = run.markdown();
    let agents = "- agent: 2 sessions of at most 5 · `claude:opus, tool`";
    assert!(markdown.contains(agents), "{markdown}");
    assert!(!markdown.contains("unknown model"), "{markdown}");
}

// shows: REL-27
#[test]
fn a_commit_that_two_sessions_see_counts_once() {
    let mut run = Scenario::relay(None);
    run.survey(&[], &[])
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"))
        .survey(&["b51c7aa One"], &[])
        .ends(attempt(2, 1), EndCause::Completed, complete())
        .survey(&["0c44e1d Two", "b51c7aa One"], &[]);
    let markdown = run.markdown();
    assert!(markdown.contains("- changes: 2 commits"), "{markdown}");
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
        elsewhere: None,
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
    expect_file!["pages/plan.html"].assert_eq(&html);
    assert_eq!(html.matches(r#"class="edge""#).count(), 7);
    assert!(html.contains(r#"class="stage done""#) && html.contains(r#"class="stage working""#));
}

// shows: REL-11, REL-27
#[test]
fn a_plan_waits_only_while_none_of_its_stages_works() {
    let mut run = Scenario::plan(stages(&[("S01", &[]), ("S02", &[])]));
    for stage in ["S01", "S02"] {
        prepared(&mut run, stage);
        run.of_stage(stage)
            .survey(&[], &[])
            .check(CheckOutcome::Failed { code: 2 }, "no rule\n");
    }
    let began = run.now;
    let resets_at = Some(began + Millis::from_secs(3_600));
    let kind = LimitKind::FiveHour;
    let limit = EndCause::RateLimited { resets_at, kind };
    run.of_stage("S01").ends(attempt(1, 1), limit, nothing());
    run.of_stage("S02")
        .ends(attempt(1, 1), EndCause::Completed, complete());
    run.commit(made())
        .survey(&[], &[])
        .check(CheckOutcome::Passed, "");
    let alone = run.now;
    run.of_stage("S01").wake();
    let waited = run.now.since(alone);
    assert_eq!(run.timeline().waited, waited);
    assert!(waited < run.now.since(began));
}

// shows: REL-11, REL-27
#[test]
fn a_stage_that_another_ones_limit_holds_does_not_wait_for_its_own_end() {
    let mut run = Scenario::plan(stages(&[("S01", &[]), ("S02", &[])]));
    let failed = || CheckOutcome::Failed { code: 2 };
    for stage in ["S01", "S02"] {
        prepared(&mut run, stage);
        run.of_stage(stage).survey(&[], &[]).check(failed(), "");
    }
    let resets_at = Some(run.now + Millis::from_secs(3_600));
    let kind = LimitKind::FiveHour;
    let limit = EndCause::RateLimited { resets_at, kind };
    run.of_stage("S01")
        .ends(attempt(1, 1), limit.clone(), nothing());
    run.of_stage("S02")
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    run.commit(made()).survey(&[], &[]).check(failed(), "");
    let waits = run.timeline().waits.iter();
    let waits: Vec<_> = waits
        .map(|wait| (wait.stage, wait.cause, wait.ended_by.clone()))
        .collect();
    let by_limit = WaitCause::UsageLimit;
    assert_eq!(waits, [(0, by_limit, Some(limit)), (1, by_limit, None)]);
}

// shows: REL-27
#[test]
fn each_retry_is_told_also_after_a_resume() {
    let mut all = stages(&[("S01", &[])]);
    all[0].sessions_max = 1;
    all[0].part.retries = 1;
    let mut run = Scenario::plan(all);
    prepared(&mut run, "S01");
    let failed = || CheckOutcome::Failed { code: 2 };
    run.of_stage("S01").survey(&[], &[]).check(failed(), "");
    for session in 1..5 {
        run.ends(
            attempt(session, 1),
            EndCause::Completed,
            handoff("IN_PROGRESS"),
        );
        run.commit(made()).survey(&[], &[]).check(failed(), "");
        if session == 2 {
            run.event(Event::RunResumed(RunResumed::default()));
            run.survey(&[], &[]).check(failed(), "");
        }
    }
    let timeline = run.timeline();
    assert_eq!(timeline.stages[0].sessions.len(), 4);
    let retries = timeline.problems.iter();
    assert_eq!(retries.filter(|one| one.kind == Kind::Retry).count(), 2);
}

// shows: REL-35
#[test]
fn a_stage_that_asks_has_not_failed() {
    let mut run = Scenario::plan(stages(&[("S01", &[])]));
    prepared(&mut run, "S01");
    run.of_stage("S01")
        .survey(&[], &[])
        .check(CheckOutcome::Failed { code: 2 }, "");
    run.ends(attempt(1, 1), EndCause::Completed, handoff("BLOCKED"));
    run.commit(made())
        .survey(&[], &[])
        .check(CheckOutcome::Failed { code: 2 }, "");
    assert_eq!(run.timeline().stages[0].state, State::Asks);
    let markdown = run.markdown();
    assert!(
        markdown.contains("0 of 1 stage, 1 waiting for your answer"),
        "{markdown}"
    );
}

/// A plan of so many stages; each needs the one before the last.
fn plan_of(stages: usize) -> Scenario {
    let ids: Vec<String> = (0..stages).map(|stage| format!("S{stage:03}")).collect();
    let needs: Vec<Vec<&str>> = (0..stages)
        .map(|stage| stage.checked_sub(2).map(|need| ids[need].as_str()))
        .map(|need| need.into_iter().collect())
        .collect();
    let all: Vec<(&str, &[&str])> = ids
        .iter()
        .zip(&needs)
        .map(|(id, needs)| (id.as_str(), needs.as_slice()))
        .collect();
    Scenario::plan(scenario::stages(&all))
}

// shows: UIX-05
#[test]
fn a_graph_says_each_stages_name_and_state_and_of_too_many_only_the_table_does() {
    let html = plan_of(32).html();
    let svg = html.split(r#"<svg class="graph""#).nth(1).unwrap();
    assert_eq!(svg.matches(r#"<g class="stage "#).count(), 32);
    assert_eq!(svg.matches(r#"class="edge""#).count(), 30);
    assert_eq!(svg.matches(">working</text>").count(), 2);
    assert_eq!(svg.matches(">waiting</text>").count(), 30);
    assert!(svg.contains(">part S031</text>"), "{svg}");
    let html = plan_of(101).html();
    assert!(html.contains("The graph of more than 100 stages is not drawn."));
    assert!(html.contains("<td>S100</td>") && !html.contains(r#"class="graph""#));
}

// shows: UIX-05
#[test]
fn a_wide_plan_is_drawn_sideways_and_no_stage_lies_on_another() {
    for (layers, width) in [(4, 3), (3, 9)] {
        let ids: Vec<String> = (0..layers * width).map(|at| format!("S{at:02}")).collect();
        let needs: Vec<Vec<&str>> = (0..ids.len())
            .map(|at| match at < width {
                true => Vec::new(),
                // The other way round than they stand, so that edges cross unless the layers are sorted.
                false => vec![ids[(at / width) * width - 1 - at % width].as_str()],
            })
            .collect();
        let all: Vec<(&str, &[&str])> = ids
            .iter()
            .zip(&needs)
            .map(|(id, needs)| (id.as_str(), needs.as_slice()))
            .collect();
        let svg = crate::graph::graph(Scenario::plan(stages(&all)).timeline()).unwrap();
        let number = |text: &str, name: &str| -> u64 {
            let rest = text.split(&format!(r#" {name}=""#)).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let places: std::collections::BTreeSet<(u64, u64)> = svg
            .split("<rect")
            .skip(1)
            .map(|rect| (number(rect, "x"), number(rect, "y")))
            .collect();
        assert_eq!(places.len(), ids.len(), "{svg}");
        assert!(number(&svg, "width") < 660, "{svg}");
        // Straight edges do not cross: what is across stays the same from its begin to its end.
        for edge in svg.split(r#"<path class="edge" d="M"#).skip(1) {
            let ends: Vec<&str> = edge.split('"').next().unwrap().split(['C', ' ']).collect();
            let across = usize::from(width > 5);
            assert_eq!(ends[across], ends[6 + across], "{edge}");
        }
    }
}

// shows: UIX-05
#[test]
fn what_was_spent_stands_beside_the_budget() {
    let mut header = scenario::header(Manifest::single(stages(&[("S01", &[])]).remove(0)));
    header.settings.bounds.run = Budget {
        micro_usd: Some(2_000_000),
        tokens: Some(1_000_000),
    };
    let mut run = Scenario::of(header);
    run.survey(&[], &[])
        .check(CheckOutcome::Failed { code: 1 }, "")
        .ends(attempt(1, 1), EndCause::Completed, complete());
    let html = run.html();
    assert!(
        html.contains("<dd>$1.84 of $2.00 · 160k of 1M tokens</dd>"),
        "{html}"
    );
    assert!(html.contains(r#"class="nearly""#) && html.contains(">92% of $2.00</text>"));
    assert!(html.contains(r#"class="within""#) && html.contains(">16% of 1M tokens</text>"));
}

fn of_sessions(sessions: u32) -> Scenario {
    let mut run = Scenario::relay(None);
    run.sessions_max(sessions).survey(&[], &[]);
    for session in 1..=sessions {
        // The newest say as much as they may, in signs that HTML writes with six.
        let words = match sessions - session {
            ..=100 => &"'/ ".repeat(3_000),
            _ => "what it did",
        };
        let files = with_words("IN_PROGRESS", &format!("{session} {words}"));
        run.window(session, 1)
            .crosses(session, Level::L2, 121_000)
            .ends(attempt(session, 1), EndCause::Completed, files)
            .survey(&["b51c7aa A commit"], &["M tests/conftest.py"]);
    }
    run
}

// shows: REL-27, UIX-05
#[test]
fn twice_as_many_sessions_fit_into_the_same_page_and_memory() {
    let [mut half, mut run] = [500, 1_000].map(of_sessions);
    let (markdown, html) = (run.markdown(), run.html());
    for (text, half) in [(&markdown, half.markdown()), (&html, half.html())] {
        assert!(text.len() < 300_000, "{}", text.len());
        // Numbers have more digits.
        let most = half.len() + half.len() / 50;
        assert!(text.len() <= most, "{} {}", text.len(), half.len());
    }
    assert!(
        markdown.contains(" older sessions; `ekiden show N`"),
        "{markdown}"
    );
    let curve = html.split("polyline").nth(1).unwrap();
    assert!(curve.contains(','));
    let timeline = run.timeline();
    let speaking = timeline.sessions().filter(|(_, one)| one.words.is_some());
    assert!(speaking.count() < 50, "their words are the most of them");
}

// shows: FLT-03
#[test]
fn how_long_a_fleet_worked_is_told_by_its_server_alone() {
    let id: StageId = "A".parse().unwrap();
    let plan = Scenario::plan(vec![stage(id.clone(), &[])]);
    let Event::RunStarted(header) = &plan.records[0].event else {
        panic!("{:?}", plan.records);
    };
    let fleet = FleetPlace {
        remote: String::new(),
        queue: String::new(),
        lease_secs: 60,
        signed: false,
    };
    let mut run = Scenario::of(RunStarted {
        fleet: Some(fleet),
        ..(**header).clone()
    });
    run.pass(10).steer(Steering::Pause);
    assert_eq!(run.timeline().worked, Millis::from_secs(10));
    // As the clock of its worker says.
    run.pass(3_600).event(Event::Woke.elsewhere(&id, 1));
    // Somebody brings the result on the next day.
    let delivery = Delivery::Given {
        branch: None,
        commit: String::new(),
    };
    let effect = EffectId { seq: 1, index: 0 };
    run.pass(86_400)
        .event(Event::Delivered { effect, delivery });
    assert_eq!(run.timeline().worked, Millis::from_secs(10));
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

// shows: REL-27
#[test]
fn the_session_and_the_wait_in_which_ekiden_was_killed_count() {
    let resumed = || Event::RunResumed(RunResumed::default());
    let mut run = Scenario::relay(None);
    run.survey(&[], &[]).pass(40).window(1, 1);
    run.pass(36_000).event(resumed());
    run.ended(attempt(1, 1), EndCause::EngineLost, nothing());
    assert_eq!(run.timeline().worked, Millis::from_secs(846));
    let limit = EndCause::RateLimited {
        resets_at: Some(run.now + Millis::from_secs(100 + 846)),
        kind: LimitKind::FiveHour,
    };
    run.ends(attempt(1, 2), limit, nothing());
    run.pass(60).event(resumed());
    let timeline = run.timeline();
    let [worked, waited] =
        [timeline.worked, timeline.waited].map(ekiden_core::time::Millis::as_secs);
    assert_eq!((worked, waited), (2 * 846 + 60, 60));
    run.pass(36_000)
        .event(resumed())
        .relay_event(RelayEvent::Woke);
    let timeline = run.timeline();
    let over = timeline.waits[0].over.unwrap();
    assert_eq!(timeline.waited, over.since(timeline.waits[0].from));
    assert_eq!(timeline.waited.as_secs(), 130);
}

// shows: REL-27
#[test]
fn a_bar_is_escaped_where_it_would_end_a_cell_and_nowhere_else() {
    let mut run = Scenario::relay(Some("make 2>&1 | tee log"));
    run.survey(&[], &[])
        .check(CheckOutcome::Failed { code: 1 }, "")
        .window(1, 1);
    run.models = [("one|two".to_owned(), Spend::default())].into();
    run.ends(attempt(1, 1), EndCause::Completed, complete());
    run.timeline();
    let page = run.page_of(&Heading {
        next: vec![(
            "continues it".to_owned(),
            "ekiden resume --allowed-tool 'Bash(a | b)'".to_owned(),
        )],
        ..Heading::default()
    });
    let markdown = render::markdown(&page);
    for part in [
        "- verification: `make 2>&1 | tee log`: failed before the run",
        "- `ekiden resume --allowed-tool 'Bash(a | b)'` continues it",
        "| `one\\|two` | 1 |",
    ] {
        assert!(markdown.contains(part), "{part} in\n{markdown}");
    }
}

// shows: REL-27
#[test]
fn streams_that_were_not_read_are_told_beside_the_calls() {
    let mut run = relay();
    run.streams.left_out = 2;
    let told = "The event streams of 2 sessions were not read, so their calls are missing.";
    let markdown = run.markdown();
    let (_, tools) = markdown.split_once("## Tools and skills").unwrap();
    assert!(tools.contains(told), "{markdown}");
}

/// A run that goes on from session 4 of another one, of which two items were done.
// shows: REL-27
#[test]
fn of_a_run_that_goes_on_from_another_its_own_sessions_count() {
    let mut header = scenario::header(Manifest::single(stages(&[("S01", &[])]).remove(0)));
    let notes = Notes {
        by: Author::Agent,
        progress: String::new(),
        next_prompt: String::new(),
    };
    let items = OpenItems {
        done: vec!["one".to_owned(), "two".to_owned()],
        ..OpenItems::default()
    };
    header.from = Some(Box::new(StartingPoint {
        run: header.run.clone(),
        last: LastSession {
            session: SessionNumber::try_from(4).unwrap(),
            notes,
            open_items: Some(items),
            vanished: Vec::new(),
            next_prompt: None,
        },
        knowledge: String::new(),
        overtaken: false,
        task_changed: false,
    }));
    let mut run = Scenario::of(header);
    assert_eq!(run.timeline().items_before, 2);
    let markdown = run.markdown();
    assert!(
        markdown.contains("- agent: 0 sessions of at most 5 · `claude`"),
        "{markdown}"
    );
    let failed = CheckOutcome::Failed { code: 1 };
    run.survey(&[], &[]).check(failed.clone(), "");
    for session in [5, 6] {
        let (attempt, files) = (attempt(session, 1), handoff("IN_PROGRESS"));
        run.ends(attempt, EndCause::Completed, files)
            .survey(&[], &[])
            .check(failed.clone(), "");
    }
    let costs = crate::svg::costs(run.timeline()).unwrap();
    assert!(costs.contains("<title>5: $1.84</title>"), "{costs}");
    assert!(costs.contains(">7</text>"), "{costs}");
    for session in 7..100 {
        let (attempt, files) = (attempt(session, 1), handoff("IN_PROGRESS"));
        run.ends(attempt, EndCause::Completed, files)
            .survey(&[], &[])
            .check(failed.clone(), "");
    }
    let costs = crate::svg::costs(run.timeline()).unwrap();
    assert!(costs.contains(": $1.84</title>"), "a bar is one session's");
}
