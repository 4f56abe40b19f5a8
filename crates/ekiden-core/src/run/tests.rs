//! What holds of a plan's run whatever happens, in whatever order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::agent::{AgentKind, AgentSpec, Interface, Permissions, Purpose};
use crate::bounds::{Bounds, BoundsChange, OnRateLimit};
use crate::budget::{Budget, Prices, Spend, SpendMeter, TokenCounts};
use crate::effect::{AttemptEffect, Effect, RelayEffect, StartAttempt, WorktreeEffect};
use crate::ends::{EndCause, LimitKind};
use crate::event::{
    AttemptEnded, AttemptEvent, Check, CheckOutcome, Commit, Counters, Delivery, Elsewhere, Event,
    Merge, PreparedWorktree, RelayEvent, RunResumed, Survey, TaskOutcome, Traces, WorktreeEvent,
};
use crate::guard::Profile;
use crate::handoff::tests::{NEXT_PROMPT, PROGRESS, files};
use crate::handoff::{HandoffFiles, Marker};
use crate::ids::{AttemptId, EffectId, MessageId, RunId, StageId};
use crate::issue::Comment;
use crate::limits;
use crate::manifest::{
    Isolation, Manifest, Need, OnFail, Part, PlanRules, Stage, Take, Verification,
};
use crate::outcome::{Outcome, WaitCause};
use crate::plan::StageState;
use crate::prompt::comment_note;
use crate::record::{LOGIC, Outstanding, Record};
use crate::relay::{Phase, Prompt, Relay};
use crate::run::Run;
use crate::settings::{FleetPlace, Judging, LimitsChanged, Place, RunStarted, Settings};
use crate::steering::{Steered, Steering, StopRequest};
use crate::time::{Millis, Timestamp};

/// What one turn of an agent costs at most.
const TURN_MICRO_USD_MAX: u64 = 4_000_000;
/// More than any of these plans takes.
const STEPS_MAX: usize = 4_000;

/// A small plan: for each stage the earlier ones that it needs, by bits, and its rules.
#[derive(Debug, Clone)]
struct Given {
    stages: Vec<(u8, bool, u32, u8)>,
    jobs: u32,
    budget: Option<u64>,
    /// What the only agent may spend beside that.
    of_agent: Option<u64>,
}

fn given() -> impl Strategy<Value = Given> {
    let stage = (any::<u8>(), any::<bool>(), 0u32..3, 0u8..6);
    let budget = prop_oneof![Just(None), (5u64..80).prop_map(Some)];
    let budgets = (budget.clone(), budget);
    (prop::collection::vec(stage, 1..6), 1u32..4, budgets).prop_map(
        |(stages, jobs, (budget, of_agent))| Given {
            stages,
            jobs,
            budget,
            of_agent,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // shows: DUR-01, PLN-08, PLN-12, PLN-13, PLN-24, REL-11, REL-22
    #[test]
    fn the_promises_of_a_plan_hold_for_any_course(
        given in given(),
        course in prop::collection::vec(any::<u16>(), 0..300),
    ) {
        let mut world = World::begin(&given);
        for word in course {
            world.happens(usize::from(word));
        }
        world.comes_to_its_end();
        world.assert_folds();
    }

    /// Whatever its own run records, its relay is shown as that run has it, and only the fleet's plan moves the plan.
    // shows: FLT-01
    #[test]
    fn a_stage_that_another_machine_carries_out_is_seen_as_its_own_run_tells(
        course in prop::collection::vec(any::<u16>(), 0..100),
    ) {
        let given = Given { stages: vec![(0, false, 1, 0); 1], jobs: 1, budget: None, of_agent: None };
        let mut world = World::begin(&given);
        for word in course {
            world.happens(usize::from(word));
        }
        world.comes_to_its_end();

        let mut header = header(&given);
        let (at, stage) = (world.records[0].time, header.manifest.stages[0].id.clone());
        let (mut own, _) = Run::begin(at, &header);
        let (remote, queue) = ("origin".to_owned(), "ekiden".to_owned());
        header.fleet = Some(FleetPlace { remote, queue, lease_secs: 60, signed: false });
        let (mut seen, _) = Run::begin(at, &header);
        let effect = EffectId { seq: 1, index: 0 };
        let event = WorktreeEvent::Prepared { worktree: Ok(PreparedWorktree::default()) };
        let prepared = seen.step(at, &Event::Worktree { stage: stage.clone(), effect, event });
        assert_eq!(prepared, [], "this machine carries nothing out");
        for (place, record) in world.records.iter().enumerate() {
            if place > 0 {
                own.step(record.time, &record.event);
            }
            let event = record.event.clone().elsewhere(&stage, 1);
            let effects = seen.step(record.time, &event);
            let of_stage = record.effects.iter().filter(|effect| matches!(effect, Effect::Stage { .. }));
            assert!(effects.iter().eq(of_stage), "record {}", record.seq);
            assert_eq!(seen.relay(&stage), own.relay(&stage), "record {}", record.seq);
            assert_eq!(seen.plan().state(&stage), Some(&StageState::Working));
        }
        let outcome = Outcome::Complete { verified: true };
        let event = Elsewhere::Ended { outcome };
        let merge = seen.step(at, &Event::Elsewhere { stage: stage.clone(), event });
        let effect = WorktreeEffect::Merge;
        assert_eq!(merge, [Effect::Worktree { stage: stage.clone(), effect }]);
        // It does not merge, so it is done again.
        let again = world.records[0].event.clone().elsewhere(&stage, 2);
        seen.step(at, &again);
        assert_eq!((seen.totals(), seen.settled()), (own.totals(), own.settled()));
    }
}

// shows: REL-22
#[test]
fn a_price_that_one_stage_learned_holds_for_all() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0); 3],
        jobs: 3,
        budget: None,
        of_agent: None,
    });
    let price = |nano_usd: u64| {
        let mut prices = Prices::default();
        let tokens = TokenCounts {
            input: 1_000,
            ..TokenCounts::default()
        };
        prices.learn("opus", tokens, nano_usd);
        prices
    };
    header.prices = price(400_000);
    let mut world = World::of(&header, 3);
    while world.agents.len() < 3 {
        world.settle(0);
    }
    // The second one was killed before it learned anything.
    for prices in [price(4_000_000), Prices::default()] {
        let (stage, agent) = world.agents.pop_first().unwrap();
        let attempt = agent.attempt;
        let mut ended = AttemptEnded::bare(EndCause::Completed);
        ended.counters.prices = prices;
        let event = AttemptEvent::Ended(Box::new(ended));
        world.hear(&stage, RelayEvent::Attempt { attempt, event });
    }
    assert_eq!(world.run.prices(), price(4_000_000));
}

// shows: REL-38
#[test]
fn a_stage_has_the_reviewer_and_the_model_of_it_that_the_manifest_names() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0); 3],
        jobs: 3,
        budget: None,
        of_agent: None,
    });
    for (stage, (review, model)) in header.manifest.stages.iter_mut().zip([
        (true, Some("haiku")),
        (true, None),
        (false, Some("haiku")),
    ]) {
        stage.part.review = review;
        stage.part.review_model = model.map(str::to_owned);
    }
    header.settings.agent.model = Some("opus".to_owned());
    let models = |header: &RunStarted| -> Vec<Option<String>> {
        let (run, _) = Run::begin(Timestamp(0), header);
        let model = |stage: &Stage| {
            let reviewer = run.settings_of(stage).reviewer?;
            assert!(reviewer.permissions.read_only);
            reviewer.model
        };
        header.manifest.stages.iter().map(model).collect()
    };
    let some = |model: &str| Some(model.to_owned());
    assert_eq!(models(&header), [some("haiku"), some("opus"), None]);
    let mut other = header.settings.agent.clone().read_only();
    (other.name, other.model) = ("codex".to_owned(), some("gpt"));
    header.settings.reviewer = Some(Box::new(other));
    assert_eq!(models(&header), [some("gpt"), some("gpt"), some("gpt")]);
}

// shows: FLT-03
#[test]
fn a_stage_elsewhere_that_spent_its_part_ends_with_the_budget_of_the_plan() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0)],
        jobs: 1,
        budget: Some(20),
        of_agent: None,
    });
    header.fleet = Some(FleetPlace {
        remote: "origin".to_owned(),
        queue: "ekiden".to_owned(),
        lease_secs: 60,
        signed: false,
    });
    let (at, stage) = (Timestamp(0), header.manifest.stages[0].id.clone());
    let (mut run, _) = Run::begin(at, &header);
    let prepared = WorktreeEvent::Prepared {
        worktree: Ok(PreparedWorktree::default()),
    };
    run.step(
        at,
        &Event::Worktree {
            stage: stage.clone(),
            effect: EffectId { seq: 1, index: 0 },
            event: prepared,
        },
    );
    let part = Budget {
        micro_usd: Some(5),
        tokens: None,
    };
    let outcome = Outcome::BudgetSpent {
        spent: Default::default(),
        budget: part,
        agents: Vec::new(),
    };
    let event = Elsewhere::Ended { outcome };
    let over = Event::Elsewhere {
        stage: stage.clone(),
        event,
    };
    run.step(at, &over);
    let told = format!("{:?}", run.plan().state(&stage));
    assert!(told.contains("micro_usd: Some(20000000)"), "{told}");
}

/// Each stage that failed names only those that it alone blocks.
// shows: PLN-12
#[test]
fn a_new_run_after_failures_carries_out_all_that_no_validation_confirms() {
    let mut header = header(&Given {
        stages: vec![
            (0, false, 0, 3),
            (0, false, 0, 3),
            (0b11, false, 0, 3),
            (0, false, 0, 3),
            (0b1000, false, 0, 3),
        ],
        jobs: 5,
        budget: None,
        of_agent: None,
    });
    header.manifest.stages[3].part.take = Take::Assume;
    let at = Timestamp(1_795_291_440_000);
    let diagnosed = |header: &RunStarted| {
        let (mut run, _) = Run::begin(at, header);
        let mut step = |stage: usize, event| {
            let stage = header.manifest.stages[stage].id.clone();
            let effect = EffectId { seq: 1, index: 0 };
            run.step(
                at,
                &Event::Worktree {
                    stage,
                    effect,
                    event,
                },
            );
        };
        let result = Ok(String::new());
        step(3, WorktreeEvent::Confirmed { result });
        for stage in [0, 1] {
            let worktree = Err("no room".to_owned());
            step(stage, WorktreeEvent::Prepared { worktree });
        }
        let tree = "/trees/00007f3a-S0";
        run.diagnosis(&header.manifest.stages[0].id, tree).unwrap()
    };
    let diagnosis = diagnosed(&header);
    let left = "--new --only S0 --only S1 --only S2 --only S4`";
    assert!(diagnosis.contains(left), "{diagnosis}");
    header.manifest.stages[3].verification = None;
    let diagnosis = diagnosed(&header);
    assert!(
        diagnosis.contains("--only S2 --only S3 --only S4`"),
        "{diagnosis}"
    );
    // Nothing that is left needs it now.
    header.manifest.stages[4].part.needs.clear();
    let diagnosis = diagnosed(&header);
    assert!(diagnosis.contains("--only S2 --only S4`"), "{diagnosis}");
}

// shows: PLN-12, PLN-16
#[test]
fn after_a_repair_of_what_was_only_checked_a_new_run_begins() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 3), (0b1, false, 0, 3)],
        jobs: 2,
        budget: None,
        of_agent: None,
    });
    header.manifest.stages[0].part.take = Take::Assume;
    let stage = header.manifest.stages[0].id.clone();
    let diagnosed = |header: &RunStarted| {
        let at = Timestamp(1_795_291_440_000);
        let (mut run, _) = Run::begin(at, header);
        let event = Event::Worktree {
            stage: stage.clone(),
            effect: EffectId { seq: 1, index: 0 },
            event: WorktreeEvent::Confirmed {
                result: Err("its validation failed".to_owned()),
            },
        };
        run.step(at, &event);
        let diagnosis = run.diagnosis(&stage, "/p").unwrap();
        let (_, ways) = diagnosis.split_once("What you can do\n\n").unwrap();
        ways.split("\n\n").next().unwrap().to_owned()
    };
    expect_test::expect![[r"
        - Commit a repair on your branch, then `ekiden execute demo.toml --new --only S1`.
        - If the cause is outside of the repository: `ekiden resume` checks again once it is repaired."]]
    .assert_eq(&diagnosed(&header));
    // Without worktrees it is checked in the work dir itself.
    header.manifest.plan.as_mut().unwrap().isolation = Isolation::InPlace;
    let ways = diagnosed(&header);
    assert!(
        ways.starts_with("- After a repair in `/p`: `ekiden resume` tries again"),
        "{ways}"
    );
}

// shows: PLN-08, PLN-12
#[test]
fn a_diagnosis_quotes_what_failed_in_the_last_merge() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    header.fleet = Some(fleet_place());
    let stage = header.manifest.stages[0].id.clone();
    let effect = EffectId { seq: 1, index: 0 };
    let worktree = |event| Event::Worktree {
        stage: stage.clone(),
        effect,
        event,
    };
    let prepared = worktree(WorktreeEvent::Prepared {
        worktree: Ok(PreparedWorktree::default()),
    });
    let ended = Event::Elsewhere {
        stage: stage.clone(),
        event: Elsewhere::Ended {
            outcome: Outcome::Complete { verified: true },
        },
    };
    let diagnosed = |merge| {
        let merged = worktree(WorktreeEvent::Merged { merge });
        let at = Timestamp(1_795_291_440_000);
        let (mut run, _) = Run::begin(at, &header);
        while run.outcome().is_none() {
            for event in [&prepared, &ended, &merged] {
                run.step(at, event);
            }
        }
        let diagnosis = run.diagnosis(&stage, "/p").unwrap();
        for way in [
            "- After a repair on the workers: `ekiden resume` tries again",
            "first `git merge refs/ekiden/fleet/00007f3a-merged`, which",
            "`ekiden execute demo.toml --on fleet --remote origin --queue ekiden --new --only S0`",
        ] {
            assert!(diagnosis.contains(way), "{diagnosis}");
        }
        let mut sections = diagnosis.split("\n## ").skip(2);
        sections.next().unwrap().to_owned() + sections.next().unwrap_or_default()
    };
    let check = check(false);
    expect_test::expect![[r#"
        The check after the merge

        - `check`: failed in 1ms (exit code 1)

        > the tail
        Try 1

        It ended so: its validation fails on the merge.
    "#]]
    .assert_eq(&diagnosed(Merge::Broken { check }));
    let tail = "line 3: no tabs".to_owned();
    expect_test::expect![[r#"
        What the hook said

        > line 3: no tabs
        Try 1

        It ended so: it cannot be merged: a hook of the repository refused to commit its work.
    "#]]
    .assert_eq(&diagnosed(Merge::Refused { tail }));
    let files = vec!["src/a.rs".to_owned(), "b".to_owned()];
    let told = diagnosed(Merge::Conflict { files });
    let why = "It ended so: it does not merge with other stages: src/a.rs, b.\n";
    assert!(told.contains(why), "{told}");
    // The command that helps is at the end.
    let error = format!("{}`rm -rf /tree`", "a long way ".repeat(40));
    let told = diagnosed(Merge::Failed { error });
    assert!(told.contains("`rm -rf /tree`"), "{told}");
}

/// The fleet takes in what its history tells in one go as it likes.
// shows: FLT-01
#[test]
fn a_fleets_plan_begins_and_merges_in_an_order_of_its_own() {
    let stages = vec![(0, false, 0, 0); 3];
    let given = Given {
        stages,
        jobs: 2,
        budget: None,
        of_agent: None,
    };
    let mut header = header(&given);
    header.fleet = Some(fleet_place());
    let at = Timestamp(1_795_291_440_000);
    let (mut run, _) = Run::begin(at, &header);
    let ids: Vec<StageId> = header
        .manifest
        .stages
        .iter()
        .map(|stage| stage.id.clone())
        .collect();
    let effect = EffectId { seq: 1, index: 0 };
    let worktree = |at: usize, event| Event::Worktree {
        stage: ids[at].clone(),
        effect,
        event,
    };
    let begins = |at| {
        worktree(
            at,
            WorktreeEvent::Prepared {
                worktree: Ok(PreparedWorktree::default()),
            },
        )
    };
    let ended = |at: usize| {
        let event = Elsewhere::Ended {
            outcome: Outcome::Complete { verified: true },
        };
        Event::Elsewhere {
            stage: ids[at].clone(),
            event,
        }
    };
    let merged = |at| {
        let merge = Merge::Done {
            commit: "c".to_owned(),
            files: Vec::new(),
            undeclared: Vec::new(),
        };
        worktree(at, WorktreeEvent::Merged { merge })
    };
    // Two have a place; the third begins before the second, and is merged before the first.
    let events = [
        begins(0),
        begins(2),
        ended(0),
        ended(2),
        merged(2),
        begins(1),
        merged(0),
        ended(1),
        merged(1),
    ];
    let effects: Vec<Effect> = events
        .iter()
        .flat_map(|event| run.step(at, event))
        .collect();
    assert_eq!(effects.last(), Some(&Effect::Deliver), "{effects:?}");
}

// shows: PLN-24, REL-39
#[test]
fn stages_that_begin_together_get_equal_shares() {
    for (budget, of_agent) in [(Some(20), None), (None, Some(20)), (Some(90), Some(20))] {
        let given = Given {
            stages: vec![(0, false, 0, 0); 4],
            jobs: 4,
            budget,
            of_agent,
        };
        let mut world = World::begin(&given);
        while world.outstanding_tasks() > 0 {
            world.settle(0);
        }
        let relays = world.run.relays();
        let shares: Vec<u64> = relays
            .filter_map(|(_, relay)| relay.share()?.budget.micro_usd)
            .collect();
        assert_eq!(shares, [5_000_000; 4]);
    }
}

// shows: PLN-24, REL-22
#[test]
fn another_budget_is_shared_by_all_stages_at_work() {
    for (dollars, share) in [(60, 20_000_000), (12, 4_000_000)] {
        let mut world = World::begin(&Given {
            stages: vec![(0, false, 0, 0); 3],
            jobs: 3,
            budget: Some(20),
            of_agent: None,
        });
        while world.outstanding_tasks() > 0 {
            world.settle(0);
        }
        world.budget = Some(dollars * 1_000_000);
        let run = Budget {
            micro_usd: world.budget,
            tokens: None,
        };
        let bounds = BoundsChange {
            run,
            ..BoundsChange::default()
        };
        world.steer(Steering::ChangeLimits(Box::new(LimitsChanged {
            bounds,
            ..LimitsChanged::default()
        })));
        let relays = world.run.relays();
        let shares: Vec<u64> = relays
            .filter_map(|(_, relay)| relay.share()?.budget.micro_usd)
            .collect();
        assert_eq!(shares, [share; 3]);
    }
}

/// What one stage spends of an agent's budget, no other has; who comes when nothing is left begins with the next agent.
// shows: REL-39, PLN-24
#[test]
fn stages_share_the_budget_of_an_agent_and_go_on_with_the_next() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0); 3],
        jobs: 1,
        budget: None,
        of_agent: Some(10),
    });
    let agent = header.settings.agent.clone();
    header.settings.fallback.agents.push(AgentSpec {
        name: "other".to_owned(),
        account: Some("/home/other".to_owned()),
        ..agent
    });
    let mut world = World::of(&header, 1);
    let mut by = Vec::new();
    while by.len() < 3 {
        let working = world.agents.keys().next().cloned();
        let Some(stage) = working else {
            world.settle(0);
            continue;
        };
        let relay = world.run.relay(&stage).unwrap();
        by.push((
            relay.agent().name.clone(),
            relay.share().unwrap().budget.micro_usd,
        ));
        let spend = Spend {
            micro_usd: 6_000_000 - 1_000_000 * by.len() as u64,
            ..Spend::default()
        };
        world.agents.get_mut(&stage).unwrap().spend = spend;
        while world.agents.contains_key(&stage) {
            world.works(&stage, 0, true);
        }
    }
    let of = |agent: &str, share: Option<u64>| (agent.to_owned(), share);
    assert_eq!(by[0], of("claude", Some(10_000_000)));
    assert_eq!(by[1].0, "claude");
    assert!(by[1].1.unwrap() <= 5_000_000, "{by:?}");
    assert_eq!(by[2], of("other", None), "{by:?}");
}

// shows: PLN-08
#[test]
fn a_stage_meets_only_what_was_merged_after_its_worktree_was_made() {
    let header = header(&Given {
        stages: vec![(0, false, 0, 0); 3],
        jobs: 3,
        budget: None,
        of_agent: None,
    });
    let stages = header.manifest.stages.iter();
    let ids: Vec<StageId> = stages.map(|stage| stage.id.clone()).collect();
    let (mut run, _) = Run::begin(Timestamp(1_795_291_440_000), &header);
    for (stage, commit) in [(&ids[0], "a"), (&ids[1], "b")] {
        run.merges.push((commit.to_owned(), stage.clone()));
        let result = crate::run::StageResult {
            files: vec!["log.md".to_owned()],
            undeclared: Vec::new(),
            text: String::new(),
        };
        run.results.insert(stage.clone(), result);
    }
    for (base, met) in [(None, &ids[..2]), (Some("a"), &ids[1..2]), (Some("b"), &[])] {
        let worktree = Ok(PreparedWorktree {
            base: base.map(str::to_owned),
            ..PreparedWorktree::default()
        });
        run.prepared(&ids[2], &worktree);
        assert_eq!(run.others(&ids[2], &["log.md".to_owned()]), met, "{base:?}");
        assert_eq!(run.others(&ids[2], &[]), met, "{base:?}");
    }
}

/// One that is done and waits for its merge may be sent back to work.
// shows: PLN-13, REL-22
#[test]
fn other_limits_reach_a_stage_that_waits_for_its_merge() {
    let limits = LimitsChanged {
        wait_max: Some(Millis(7)),
        ..LimitsChanged::default()
    };
    let steered = |world: &mut World| {
        world.steer(Steering::ChangeLimits(Box::new(limits.clone())));
    };
    limits_reach_a_stage_that_waits_for_its_merge(&steered);
    let resumed = |world: &mut World| {
        world.step(Event::RunResumed(RunResumed {
            limits: limits.clone(),
            ..RunResumed::default()
        }));
    };
    limits_reach_a_stage_that_waits_for_its_merge(&resumed);
}

fn limits_reach_a_stage_that_waits_for_its_merge(change: &dyn Fn(&mut World)) {
    let given = Given {
        stages: vec![(0, false, 0, 0); 2],
        jobs: 2,
        budget: None,
        of_agent: None,
    };
    let mut world = World::begin(&given);
    let waiting = StageId::try_from("S0".to_owned()).unwrap();
    let merge = |world: &World| {
        let mut tasks = world
            .outstanding
            .iter()
            .filter(|(_, effect)| !is_start(effect));
        tasks.position(|(_, effect)| {
            matches!(
                effect,
                Effect::Worktree {
                    effect: WorktreeEffect::Merge,
                    ..
                }
            )
        })
    };
    let at = loop {
        match (merge(&world), world.outstanding_tasks()) {
            (Some(at), _) => break at,
            (None, 0) => world.works(&waiting, 0, true),
            (None, _) => world.settle(0),
        }
    };
    assert_eq!(world.agents.len(), 1, "the other stage works on");
    change(&mut world);
    let tasks = world.outstanding_tasks();
    let conflict = (13 * 8..14 * 8).find(|how| how % tasks == at);
    world.settle(conflict.unwrap());
    let relay = world.run.relay(&waiting).unwrap();
    assert!(relay.outcome().is_none(), "it is sent back");
    assert_eq!(relay.settings.wait_max, Millis(7));
}

// shows: REL-22
#[test]
fn the_budget_of_an_agent_that_has_no_part_in_a_run_is_not_counted() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    let own = header.settings.agent.name.clone();
    header.settings.bounds.agents = [own.as_str(), "another"]
        .map(|agent| (agent.to_owned(), Budget::default()))
        .into();
    let (run, _) = Run::begin(Timestamp(0), &header);
    let counted = run.agent_budgets().into_iter().map(|agent| agent.agent);
    assert_eq!(counted.collect::<Vec<_>>(), [own]);
}

/// As a person counts them who reads "3 of 4".
#[test]
fn the_sessions_of_a_plan_are_counted_over_its_stages() {
    let mut world = World::begin(&Given {
        stages: vec![(0, false, 0, 0); 2],
        jobs: 2,
        budget: None,
        of_agent: None,
    });
    while world.agents.len() < 2 {
        world.settle(0);
    }
    let sum: u32 = world
        .run
        .relays()
        .map(|(_, relay)| relay.session_max())
        .sum();
    assert_eq!((world.run.session(), world.run.session_max()), (2, sum));
}

/// Only the plan can lower them below what the user gives.
// shows: PLN-13, REL-22
#[test]
fn other_limits_leave_a_stage_its_own_lower_ones() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0); 2],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    let money = |micro_usd| Budget {
        micro_usd: Some(micro_usd),
        tokens: None,
    };
    for stage in &mut header.manifest.stages {
        stage.part.session = money(2_000_000);
        stage.part.turns_max = Some(4);
    }
    let mut world = World::of(&header, 1);
    let begun = StageId::try_from("S0".to_owned()).unwrap();
    while !world.agents.contains_key(&begun) {
        world.settle(0);
    }
    let bounds = BoundsChange {
        session: money(5_000_000),
        turns_max: Some(9),
        ..BoundsChange::default()
    };
    world.steer(Steering::ChangeLimits(Box::new(LimitsChanged {
        bounds,
        ..LimitsChanged::default()
    })));
    let later = world.run.settings_of(&header.manifest.stages[1]).bounds;
    let begun = &world.run.relay(&begun).unwrap().settings.bounds;
    assert_eq!(*begun, later);
    assert_eq!(
        (begun.session, begun.turns_max),
        (money(2_000_000), Some(4))
    );
}

/// The tree is no longer as the attempt before left it, and the notes say where to go on.
// shows: PLN-09, PLN-12
#[test]
fn only_the_first_session_of_a_retry_reads_how_the_attempt_before_ended() {
    let given = Given {
        stages: vec![(0, false, 1, 3)],
        jobs: 1,
        budget: None,
        of_agent: None,
    };
    let mut world = World::begin(&given);
    let stage = StageId::try_from("S0".to_owned()).unwrap();
    let begins = |world: &mut World| {
        while world.agents.is_empty() {
            world.settle(0);
        }
        let prompt = world.run.relay(&stage).and_then(Relay::prompt);
        prompt.unwrap().to_archive()
    };
    let hands_off = |world: &mut World| {
        world.agents.get_mut(&stage).unwrap().files = files(PROGRESS, NEXT_PROMPT, "");
        world.ends(&stage, EndCause::Completed);
    };
    for _ in 0..3 {
        begins(&mut world);
        hands_off(&mut world);
    }
    let first = begins(&mut world);
    assert!(first.contains("# What happened before"), "{first}");
    assert!(
        !first.contains("The check that failed"),
        "it passed: {first}"
    );
    hands_off(&mut world);
    let second = begins(&mut world);
    assert!(!second.contains("What happened before"), "{second}");
    assert!(second.contains("continue at \"Resume at\""), "{second}");
}

/// Only the reviewer's session is missing.
// shows: PLN-12, REL-38
#[test]
fn a_retry_reviews_the_claim_for_which_no_session_was_left() {
    let mut header = reviewed_elsewhere(&Given {
        stages: vec![(0, false, 1, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    header.manifest.stages[0].sessions_max = 1;
    let stage = header.manifest.stages[0].id.clone();
    let mut world = World::of(&header, 1);
    for is_reviewed in [false, true] {
        while world.agents.is_empty() {
            world.settle(0);
        }
        assert_eq!(world.is_reviewed(&stage), is_reviewed);
        world.agents.get_mut(&stage).unwrap().files = files(&all_done(), "", "");
        world.ends(&stage, EndCause::Completed);
    }
    let relay = world.run.relay(&stage).unwrap();
    assert_eq!(relay.last.as_ref().map(|last| last.session), None);
}

// shows: PLN-09
#[test]
fn who_mends_a_merge_reads_which_files_its_own_stage_changed() {
    let mut world = World::begin(&Given {
        stages: vec![(0, false, 0, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    let stage = StageId::try_from("S0".to_owned()).unwrap();
    while world.agents.is_empty() {
        world.settle(0);
    }
    world.agents.get_mut(&stage).unwrap().files = files(&all_done(), "", "");
    world.ends(&stage, EndCause::Completed);
    while world.agents.is_empty() {
        let is_merge = |effect: &Effect| matches!(effect, Effect::Worktree { .. });
        if !world.settle_as(is_merge, 13) {
            world.settle(0);
        }
    }
    let prompt = world.run.relay(&stage).and_then(Relay::prompt);
    let prompt = prompt.unwrap().to_archive();
    let files = "¦ ## Files changed\n¦ \n¦ - src/a.rs\n¦ \n";
    assert!(prompt.contains(files), "{prompt}");
}

/// As on the worker of a fleet.
// shows: PLN-14
#[test]
fn the_result_of_a_stage_in_place_names_the_files_that_it_changed() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0), (0b1, false, 0, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    header.manifest.plan.as_mut().unwrap().isolation = Isolation::InPlace;
    header.manifest.stages[0].part.outputs = vec!["src/".to_owned()];
    let mut world = World::of(&header, 1);
    let stage = StageId::try_from("S0".to_owned()).unwrap();
    while world.agents.is_empty() {
        world.settle(0);
    }
    world.agents.get_mut(&stage).unwrap().files = files(&all_done(), "", "");
    world.ends(&stage, EndCause::Completed);
    while world.run.result(&stage).is_none() {
        world.settle(0);
    }
    assert_eq!(world.run.result(&stage).unwrap().files, ["src/a.rs"]);
}

// shows: REL-16, PLN-17
#[test]
fn what_a_stage_corrects_is_corrected_for_the_stages_after_it() {
    let given = Given {
        stages: vec![(0, false, 0, 0), (0b1, false, 0, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    };
    let mut world = World::begin(&given);
    for (stage, fact) in [
        ("S0", "The port is 8080"),
        ("S1", "corrects \"port is 8080\": the port is 9090"),
    ] {
        let stage = StageId::try_from(stage.to_owned()).unwrap();
        while !world.agents.contains_key(&stage) {
            world.settle(0);
        }
        let knowledge = format!("## Core Knowledge\n- {fact}\n");
        world.agents.get_mut(&stage).unwrap().files = files(&all_done(), "", &knowledge);
        world.ends(&stage, EndCause::Completed);
    }
    world.comes_to_its_end();
    let shared = world.run.shared_knowledge();
    let facts: Vec<&str> = shared.core.iter().map(|fact| &*fact.text).collect();
    assert_eq!(facts, ["the port is 9090"]);
}

// shows: UIX-01
#[test]
fn what_a_plan_is_told_reaches_the_stages_that_begin_later() {
    let given = Given {
        stages: vec![(0, false, 0, 0); 2],
        jobs: 1,
        budget: None,
        of_agent: None,
    };
    let mut world = World::begin(&given);
    let mut tell = |words: String| world.steer(Steering::Instruct { words });
    let comment = Comment {
        author: "eve".to_owned(),
        at: "2026-11-24".to_owned(),
        text: "as long as it may be\n".repeat(200),
    };
    tell("spare the docs".to_owned());
    (0..3).for_each(|_| tell(comment_note(&comment, &[])));
    tell("and the tests".to_owned());
    let later = StageId::try_from("S1".to_owned()).unwrap();
    for _ in 0..STEPS_MAX {
        let relay = world.run.relay(&later);
        if let Some(prompt) = relay.and_then(Relay::prompt) {
            let prompt = format!("{prompt:?}");
            assert!(prompt.contains("spare the docs") && prompt.contains("and the tests"));
            return;
        }
        match world.agents.keys().next().cloned() {
            Some(stage) if world.outstanding_tasks() == 0 => world.works(&stage, 0, true),
            _ => world.settle(0),
        }
    }
    panic!("the second stage never began");
}

/// S0 has asked something, and S1 has the only slot.
fn asked() -> (World, StageId) {
    let given = Given {
        stages: vec![(0, false, 0, 3); 2],
        jobs: 1,
        budget: None,
        of_agent: None,
    };
    let mut header = header(&given);
    header.settings.notify = true;
    let mut world = World::of(&header, 1);
    let stage = StageId::try_from("S0".to_owned()).unwrap();
    while !world.agents.contains_key(&stage) {
        world.settle(0);
    }
    let asks = PROGRESS.replace("IN_PROGRESS", "BLOCKED");
    world.agents.get_mut(&stage).unwrap().files = files(&asks, NEXT_PROMPT, "");
    world.ends(&stage, EndCause::Completed);
    while world.agents.is_empty() {
        world.settle(0);
    }
    assert_eq!(world.run.questions().count(), 1);
    (world, stage)
}

/// Without this, the user would learn of the question only when the plan ends.
// shows: UIX-10
#[test]
fn a_question_is_told_once_when_it_comes_while_other_stages_work() {
    let (mut world, _) = asked();
    let told = "needs_you: blocked: it needs your input";
    assert_eq!(world.notices(), [told]);
    world.comes_to_its_end();
    let at_the_end = "needs_you: blocked: stages need your input";
    assert_eq!(world.notices(), [told, at_the_end]);
}

// shows: UIX-10, FLT-01
#[test]
fn a_question_of_a_stage_on_another_machine_is_told_once_it_has_ended_there() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 3); 2],
        jobs: 2,
        budget: None,
        of_agent: None,
    });
    header.settings.notify = true;
    let stages: Vec<Stage> = header.manifest.stages.clone();
    let at = Timestamp(1_795_291_440_000);
    let mut run = {
        let header = RunStarted {
            fleet: Some(fleet_place()),
            ..header.clone()
        };
        Run::begin(at, &header).0
    };
    let prepared = |stage: &Stage| Event::Worktree {
        stage: stage.id.clone(),
        effect: EffectId { seq: 1, index: 0 },
        event: WorktreeEvent::Prepared {
            worktree: Ok(PreparedWorktree::default()),
        },
    };
    for stage in &stages {
        run.step(at, &prepared(stage));
    }
    header.manifest.plan.as_mut().unwrap().isolation = Isolation::InPlace;
    let told = stages.iter().map(|stage| {
        header.manifest.stages = vec![stage.clone()];
        let begun = Event::RunStarted(Box::new(header.clone()));
        run.step(at, &begun.elsewhere(&stage.id, 1));
        run.step(at, &prepared(stage).elsewhere(&stage.id, 1));
        let question = "which one?".to_owned();
        let outcome = Outcome::Blocked { question };
        let ended = Event::Elsewhere {
            stage: stage.id.clone(),
            event: Elsewhere::Ended { outcome },
        };
        notices(&run.step(at, &ended))
    });
    let told: Vec<String> = told.flatten().collect();
    // With the second one the plan ends, and says so itself.
    let at_the_end = "needs_you: blocked: stages need your input";
    assert_eq!(
        told,
        ["needs_you: blocked: it needs your input", at_the_end]
    );
}

// shows: UIX-10
#[test]
fn a_plan_that_ends_before_any_stage_has_begun_is_told() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 3)],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    header.settings.notify = true;
    let mut world = World::of(&header, 1);
    assert!(world.settle_as(|_| true, 15));
    assert!(world.is_over, "it has no worktree");
    assert_eq!(world.notices(), ["failed: stopped: stages failed"]);
}

fn answer(stage: &StageId) -> Steering {
    Steering::Answer {
        stage: stage.clone(),
        words: "by trigger".to_owned(),
    }
}

/// Another answer would be lost.
// shows: REL-35
#[test]
fn an_answered_stage_that_waits_for_a_slot_asks_nothing() {
    let (mut world, stage) = asked();
    world.steer(answer(&stage));
    assert_eq!(world.run.plan().state(&stage), Some(&StageState::Ready));
    assert_eq!(world.run.questions().count(), 0);
    let words = "drop it".to_owned();
    let another = stage.clone();
    world.steer(Steering::Answer {
        stage: another,
        words,
    });
    let relay = world.run.relay(&stage).unwrap();
    assert!(relay.has_taken("by trigger") && !relay.has_taken("drop it"));
    assert!(!relay.has_taken("trigger"), "only its end is the same");
}

// shows: REL-35
#[test]
fn an_answer_to_a_run_that_is_stopping_waits_for_its_resume() {
    let (mut world, stage) = asked();
    let other = world.agents.keys().next().cloned().unwrap();
    world.step(Event::StopRequested(StopRequest::Gently));
    world.steer(answer(&stage));
    while !world.is_over {
        match world.outstanding_tasks() {
            0 => world.works(&other, 0, true),
            _ => world.settle(0),
        }
    }
    assert!(!world.agents.contains_key(&stage), "nothing begins");
    world.resume();
    while !world.agents.contains_key(&stage) {
        match world.agents.keys().next().cloned() {
            Some(stage) if world.outstanding_tasks() == 0 => world.works(&stage, 0, true),
            _ => world.settle(0),
        }
    }
    let prompt = world.run.relay(&stage).and_then(Relay::prompt);
    assert!(format!("{prompt:?}").contains("by trigger"));
}

/// The wish came while it worked, and it was complete in its grace.
// shows: PLN-08, PLN-16
#[test]
fn a_stop_that_was_resumed_ends_no_stage_later() {
    let given = Given {
        stages: vec![(0, false, 0, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    };
    let mut header = header(&given);
    header.settings.fallback.agents = vec![of_account(&header, "second")];
    let mut world = World::of(&header, given.jobs as usize);
    let stage = StageId::try_from("S0".to_owned()).unwrap();
    let begins = |world: &mut World| {
        while world.agents.is_empty() && !world.is_over {
            world.settle(0);
        }
    };
    let account = |world: &World| {
        world
            .run
            .relay(&stage)
            .unwrap()
            .settings
            .agent
            .account
            .clone()
    };
    begins(&mut world);
    world.ends(&stage, EndCause::AuthenticationFailed);
    begins(&mut world);
    assert!(account(&world).is_some());
    world.works(&stage, 0, true);
    world.step(Event::StopRequested(StopRequest::Gently));
    while !world.is_over {
        match world.outstanding_tasks() {
            0 => world.works(&stage, 0, true),
            _ => world.settle(0),
        }
    }
    let complete = Outcome::Complete { verified: true };
    assert_eq!(world.run.relay(&stage).unwrap().outcome(), Some(&complete));
    world.resume();
    let merges = |effect: &Effect| matches!(effect, Effect::Worktree { effect, .. } if *effect == WorktreeEffect::Merge);
    while !world.settle_as(merges, 13) {
        world.settle(0);
    }
    assert_eq!(account(&world), None, "whoever was out is tried again");
    let mends = world.agents[&stage].attempt.session;
    while world.agents.contains_key(&stage) {
        world.works(&stage, 4, true);
    }
    begins(&mut world);
    assert_eq!(world.run.outcome(), None);
    assert!(world.agents[&stage].attempt.session > mends);
}

// shows: REL-11, REL-38
#[test]
fn a_reviewers_limit_holds_no_work_where_others_can_go_on() {
    let given = Given {
        stages: vec![(0, false, 0, 0); 2],
        jobs: 2,
        budget: None,
        of_agent: None,
    };
    let mut world = World::of(&reviewed_elsewhere(&given), given.jobs as usize);
    let [reviewed, later] = ["S0", "S1"].map(|id| StageId::try_from(id.to_owned()).unwrap());
    while !world.is_reviewed(&reviewed) {
        if !world.settle_as(of(&reviewed), 0) {
            world.works(&reviewed, 0, true);
        }
    }
    let resets_at = Some(world.now + Millis::from_secs(3600));
    let kind = LimitKind::FiveHour;
    world.ends(&reviewed, EndCause::RateLimited { resets_at, kind });
    while world.settle_as(of(&reviewed), 0) {}
    let relay = world.run.relay(&reviewed).unwrap();
    assert!(relay.waits(WaitCause::UsageLimit), "{:?}", relay.phase);
    // Its worktree is made only now.
    while world.settle_as(of(&later), 0) {}
    assert!(world.agents.contains_key(&later));
}

// shows: REL-11, PLN-03
#[test]
fn a_usage_limit_holds_only_the_stages_of_its_account() {
    let given = Given {
        stages: vec![(0, false, 0, 0); 4],
        jobs: 3,
        budget: None,
        of_agent: None,
    };
    let mut header = header(&given);
    let mut other = header.settings.agent.clone();
    other.kind = AgentKind::Rehearsal;
    for stage in &mut header.manifest.stages[1..3] {
        stage.part.agent = Some(Box::new(other.clone()));
    }
    let mut world = World::of(&header, given.jobs as usize);
    let stages = ["S0", "S1", "S2", "S3"].map(|id| StageId::try_from(id.to_owned()).unwrap());
    let [limited, prepared, ready, held] = &stages;
    while !world.agents.contains_key(limited) {
        world.settle_as(of(limited), 0);
    }
    let resets_at = Some(world.now + Millis::from_secs(3600));
    let kind = LimitKind::FiveHour;
    world.ends(limited, EndCause::RateLimited { resets_at, kind });
    // Their worktrees are made only now.
    while world.settle_as(of(prepared), 0) || world.settle_as(of(ready), 0) {}
    assert!(world.agents.contains_key(prepared));
    assert!(world.agents.contains_key(ready));
    while world.outstanding_tasks() > 0 || world.done.len() < 2 {
        if world.outstanding_tasks() > 0 {
            world.settle(0);
        }
        for stage in [prepared, ready] {
            if world.agents.contains_key(stage) {
                world.works(stage, 0, true);
            }
        }
    }
    assert_eq!(world.run.plan().state(held), Some(&StageState::Ready));
    world.wake();
    assert_eq!(world.run.plan().state(held), Some(&StageState::Preparing));
}

// shows: PLN-12, PLN-13
#[test]
fn an_agent_that_is_out_stops_only_the_stages_of_its_account() {
    let given = Given {
        stages: vec![(0, false, 0, 0); 3],
        jobs: 1,
        budget: None,
        of_agent: None,
    };
    let mut header = header(&given);
    let mut other = header.settings.agent.clone();
    other.kind = AgentKind::Rehearsal;
    header.manifest.stages[2].part.agent = Some(Box::new(other));
    header.settings.notify = true;
    let mut world = World::of(&header, given.jobs as usize);
    let stages = ["S0", "S1", "S2"].map(|id| StageId::try_from(id.to_owned()).unwrap());
    let [out, same, others] = &stages;
    while !world.agents.contains_key(out) {
        world.settle(0);
    }
    world.ends(out, EndCause::AuthenticationFailed);
    assert_eq!(world.notices().len(), 1, "the end of the plan may be far");
    world.comes_to_its_end();
    assert_eq!(world.notices().len(), 2);
    assert_eq!(world.done, BTreeSet::from([others.clone()]));
    let cause = EndCause::AuthenticationFailed;
    let outcome = Outcome::AgentFailed { cause };
    assert_eq!(world.run.outcome(), Some(&outcome));
    let state = StageState::Interrupted(outcome);
    assert_eq!(world.run.plan().state(out), Some(&state));
    assert_eq!(world.run.plan().state(same), Some(&state));
    world.resume();
    world.comes_to_its_end();
    assert_eq!(world.done, BTreeSet::from(stages));
}

/// Its next session meets the limit, and that ends the run.
// shows: REL-11
#[test]
fn a_limit_that_is_to_stop_the_run_holds_no_stage() {
    let mut header = header(&Given {
        stages: vec![(0, false, 0, 0)],
        jobs: 1,
        budget: None,
        of_agent: None,
    });
    header.settings.bounds.on_rate_limit = OnRateLimit::Stop;
    let mut world = World::of(&header, 1);
    let stage = StageId::try_from("S0".to_owned()).unwrap();
    while !world.agents.contains_key(&stage) {
        world.settle(0);
    }
    world.works(&stage, 0, true);
    world.works(&stage, 4, true);
    let resets_at = Some(world.now + Millis::from_secs(3600));
    let kind = LimitKind::FiveHour;
    world.ends(&stage, EndCause::RateLimited { resets_at, kind });
    while world.settle_as(of(&stage), 0) {}
    let relay = world.run.relay(&stage).unwrap();
    assert!(world.agents.contains_key(&stage), "{:?}", relay.phase);
    world.ends(&stage, EndCause::RateLimited { resets_at, kind });
    let relay = world.run.relay(&stage).unwrap();
    assert!(
        matches!(relay.outcome(), Some(Outcome::RateLimited { .. })),
        "{:?}",
        relay.phase
    );
}

// shows: REL-11, REL-38
#[test]
fn a_reviewer_does_not_wait_for_agents_that_only_work() {
    let given = Given {
        stages: vec![(0, false, 0, 0); 2],
        jobs: 2,
        budget: None,
        of_agent: None,
    };
    let mut world = World::of(&reviewed_elsewhere(&given), given.jobs as usize);
    let [reviewed, out] = ["S0", "S1"].map(|id| StageId::try_from(id.to_owned()).unwrap());
    while !world.agents.contains_key(&reviewed) {
        assert!(world.settle_as(of(&reviewed), 0));
    }
    for _ in 0..2 {
        while world.settle_as(of(&out), 0) {}
        world.ends(&out, EndCause::Overloaded);
    }
    while world.agents.contains_key(&reviewed) {
        world.works(&reviewed, 0, true);
    }
    while world.settle_as(of(&reviewed), 0) {}
    let relay = world.run.relay(&reviewed).unwrap();
    assert!(world.is_reviewed(&reviewed), "{:?}", relay.phase);
}

/// Stages with a second agent to go on, whose reviewer has an account of its own.
fn reviewed_elsewhere(given: &Given) -> RunStarted {
    let mut header = header(given);
    let reviewer = of_account(&header, "reviewer").read_only();
    header.settings.reviewer = Some(Box::new(reviewer));
    header.settings.fallback.agents = vec![of_account(&header, "second")];
    header
}

fn of_account(header: &RunStarted, name: &str) -> AgentSpec {
    AgentSpec {
        account: Some(format!("/home/{name}")),
        ..header.settings.agent.clone()
    }
}

/// The effects of a stage.
fn of(stage: &StageId) -> impl Fn(&Effect) -> bool + use<'_> {
    move |effect| match effect {
        Effect::Stage { stage: of, .. } | Effect::Worktree { stage: of, .. } => of == stage,
        Effect::Deliver | Effect::EndRun { .. } => false,
    }
}

/// An agent at work, as far as it decides.
struct Agent {
    attempt: AttemptId,
    is_up: bool,
    /// It was told to end its turn or itself.
    is_told: bool,
    /// It was told something that it has not heard.
    has_message: bool,
    spend: Spend,
    turns: u32,
    meter: SpendMeter,
    files: HandoffFiles,
}

/// A run and all around it.
struct World {
    run: Run,
    records: Vec<Record>,
    outstanding: Outstanding,
    now: Timestamp,
    agents: BTreeMap<StageId, Agent>,
    /// Until when a limit holds all that somebody met.
    held: Timestamp,
    done: BTreeSet<StageId>,
    needs: BTreeMap<StageId, Vec<(StageId, bool)>>,
    jobs: usize,
    budget: Option<u64>,
    of_agent: Option<u64>,
    is_over: bool,
    is_paused: bool,
    /// Stages that are to put a conflict right.
    conflicting: BTreeSet<StageId>,
    /// Stages that the budget ended, and what was spent then.
    out_of_budget: BTreeSet<(StageId, u64)>,
}

impl World {
    fn begin(given: &Given) -> Self {
        Self {
            budget: given.budget.map(|dollars| dollars * 1_000_000),
            of_agent: given.of_agent.map(|dollars| dollars * 1_000_000),
            ..Self::of(&header(given), given.jobs as usize)
        }
    }

    fn of(header: &RunStarted, jobs: usize) -> Self {
        let now = Timestamp(1_795_291_440_000);
        let (run, effects) = Run::begin(now, header);
        let of = |stage: &Stage| {
            stage
                .part
                .needs
                .iter()
                .map(|n| (n.stage.clone(), n.optional))
                .collect()
        };
        let mut world = Self {
            run,
            records: Vec::new(),
            outstanding: Outstanding::default(),
            now,
            agents: BTreeMap::new(),
            held: now,
            done: BTreeSet::new(),
            needs: header
                .manifest
                .stages
                .iter()
                .map(|stage| (stage.id.clone(), of(stage)))
                .collect(),
            jobs,
            budget: None,
            of_agent: None,
            is_over: false,
            is_paused: false,
            conflicting: BTreeSet::new(),
            out_of_budget: BTreeSet::new(),
        };
        world.note(Event::RunStarted(Box::new(header.clone())), effects);
        world
    }

    fn notices(&self) -> Vec<String> {
        let effects = self.records.iter().map(|record| &record.effects[..]);
        effects.flat_map(notices).collect()
    }

    /// One of all the things that could happen.
    fn happens(&mut self, word: usize) {
        let (what, how) = (word % 64, word / 64);
        match what {
            0 => self.step(Event::StopRequested(StopRequest::Gently)),
            1 | 2 if self.is_over => self.resume(),
            3 => self.wake(),
            32 => self.steer(Steering::Pause),
            33 | 34 => self.steer(Steering::Unpause),
            4..=31 if self.outstanding_tasks() > 0 => self.settle(how),
            _ if !self.agents.is_empty() => self.agent_acts(what, how),
            _ if self.outstanding_tasks() > 0 => self.settle(how),
            _ => self.wake(),
        }
    }

    fn steer(&mut self, steering: Steering) {
        let message = MessageId::try_from(format!("m-{}", self.records.len())).unwrap();
        self.step(Event::Steered(Steered {
            message,
            from: None,
            steering,
        }));
    }

    /// From now on all goes well, as far as the run lets it.
    fn comes_to_its_end(&mut self) {
        self.steer(Steering::Unpause);
        for step in 0..STEPS_MAX {
            if step % 50 == 49 {
                self.wake();
            } else if self.outstanding_tasks() > 0 {
                self.settle(0);
            } else if let Some(stage) = self.agents.keys().next().cloned() {
                self.works(&stage, 0, step.is_multiple_of(3));
            } else if self.is_over {
                break;
            } else {
                self.wake();
            }
        }
        let last: Vec<_> = self.records.iter().rev().take(4).collect();
        assert!(
            self.is_over,
            "the run does not end: {:?}, {last:#?}",
            self.run.plan().states().collect::<Vec<_>>()
        );
        assert!(self.outstanding.is_empty(), "{:?}", self.outstanding);
        assert!(self.agents.is_empty());
    }

    fn wake(&mut self) {
        if let Some(wakes) = self.run.wakes_at() {
            self.now = self.now.max(wakes);
        }
        for event in self.run.due(self.now) {
            self.step(event);
        }
    }

    fn resume(&mut self) {
        // What somebody waits for who takes a run up again is theirs to know.
        self.held = self.now;
        self.is_over = false;
        let run = self.budget.map(|budget| budget + 20_000_000);
        self.budget = run;
        let run = Budget {
            micro_usd: run,
            tokens: None,
        };
        self.of_agent = self.of_agent.map(|budget| budget + 20_000_000);
        let bounds = BoundsChange {
            run,
            agents: of_agent(self.of_agent),
            ..BoundsChange::default()
        };
        let limits = LimitsChanged {
            bounds,
            ..LimitsChanged::default()
        };
        if self.run.outcome().is_some_and(Outcome::is_complete) {
            self.is_over = true;
            return;
        }
        self.step(Event::RunResumed(RunResumed {
            ekiden: "0.1.0".to_owned(),
            limits,
            ..RunResumed::default()
        }));
    }

    /// Effects whose outcome is not an agent's end.
    fn outstanding_tasks(&self) -> usize {
        self.outstanding
            .iter()
            .filter(|(_, effect)| !is_start(effect))
            .count()
    }

    fn is_reviewed(&self, stage: &StageId) -> bool {
        let phase = self.run.relay(stage).map(|relay| &relay.phase);
        matches!(phase, Some(Phase::Running(session)) if session.attempt.purpose == Purpose::Review)
    }

    /// The first of these is settled in this way, as [`Self::task`] and [`Self::ground`] have it.
    fn settle_as(&mut self, is: impl Fn(&Effect) -> bool, how: usize) -> bool {
        let tasks = self.outstanding.iter();
        let tasks: Vec<&Effect> = tasks
            .map(|(_, effect)| effect)
            .filter(|effect| !is_start(effect))
            .collect();
        let Some(at) = tasks.iter().position(|effect| is(effect)) else {
            return false;
        };
        let how = (how * 8..(how + 1) * 8).find(|how| how % tasks.len() == at);
        self.settle(how.unwrap());
        true
    }

    fn settle(&mut self, how: usize) {
        let tasks: Vec<(EffectId, Effect)> = self
            .outstanding
            .iter()
            .filter(|(_, effect)| !is_start(effect))
            .map(|(id, effect)| (id, effect.clone()))
            .collect();
        let (id, effect) = tasks[how % tasks.len()].clone();
        let event = match effect {
            Effect::Worktree { stage, effect } => Event::Worktree {
                stage,
                effect: id,
                event: self.ground(effect, how / 8),
            },
            Effect::Deliver => {
                let delivery = Delivery::Given {
                    branch: None,
                    commit: "abc".to_owned(),
                };
                Event::Delivered {
                    effect: id,
                    delivery,
                }
            }
            Effect::Stage { stage, effect } => Event::Stage {
                stage,
                event: self.task(id, &effect, how / 8),
            },
            Effect::EndRun { .. } => panic!("an end has no outcome"),
        };
        if let Event::Worktree {
            stage,
            event: WorktreeEvent::Merged { merge },
            ..
        } = &event
        {
            match merge {
                Merge::Conflict { .. } => self.conflicting.insert(stage.clone()),
                Merge::Done { .. }
                | Merge::Broken { .. }
                | Merge::Refused { .. }
                | Merge::Failed { .. } => self.conflicting.remove(stage),
                Merge::Cancelled => false,
            };
        }
        self.step(event);
    }

    fn ground(&self, what: WorktreeEffect, how: usize) -> WorktreeEvent {
        let halted = self.run.is_stopping();
        match what {
            WorktreeEffect::Prepare if how % 16 == 15 => WorktreeEvent::Prepared {
                worktree: Err("no room".to_owned()),
            },
            WorktreeEffect::Prepare => WorktreeEvent::Prepared {
                worktree: Ok(PreparedWorktree::default()),
            },
            WorktreeEffect::Confirm => WorktreeEvent::Confirmed {
                result: Ok(String::new()),
            },
            WorktreeEffect::Merge => {
                let files = vec!["a.rs".to_owned()];
                let merge = match how % 16 {
                    _ if halted && how % 2 == 1 => Merge::Cancelled,
                    12 => Merge::Refused {
                        tail: "no tabs".to_owned(),
                    },
                    13 => Merge::Conflict { files },
                    14 => Merge::Broken {
                        check: check(false),
                    },
                    15 => Merge::Failed {
                        error: "git is gone".to_owned(),
                    },
                    _ => Merge::Done {
                        commit: "abc".to_owned(),
                        files,
                        undeclared: Vec::new(),
                    },
                };
                WorktreeEvent::Merged { merge }
            }
        }
    }

    fn task(&self, effect: EffectId, what: &RelayEffect, how: usize) -> RelayEvent {
        match what {
            RelayEffect::Survey => {
                let changes = self.run.header().settings.reviewer.is_none();
                let changed = self.records.len();
                let tree = format!("tree {}", if changes { changed } else { 0 });
                let survey = Ok(Survey {
                    head: Some("abc".to_owned()),
                    tree,
                    diff_stat: vec![" src/a.rs | 2 +-".to_owned(), " 1 file changed".to_owned()],
                    ..Survey::default()
                });
                RelayEvent::Task {
                    effect,
                    outcome: TaskOutcome::Surveyed { survey },
                }
            }
            RelayEffect::Commit { .. } => RelayEvent::Task {
                effect,
                outcome: TaskOutcome::Committed {
                    commit: Commit::Nothing {
                        left_out: Vec::new(),
                    },
                },
            },
            RelayEffect::Verify => RelayEvent::Task {
                effect,
                outcome: TaskOutcome::Verified {
                    check: check(how % 4 != 3),
                },
            },
            RelayEffect::PublishDurably => RelayEvent::Task {
                effect,
                outcome: TaskOutcome::Published,
            },
            RelayEffect::Archive { .. } => RelayEvent::Task {
                effect,
                outcome: TaskOutcome::Archived,
            },
            RelayEffect::StartAttempt(_)
            | RelayEffect::CancelTasks
            | RelayEffect::Attempt { .. }
            | RelayEffect::Publish
            | RelayEffect::Warn { .. }
            | RelayEffect::Notify { .. } => panic!("{what:?} has no outcome"),
        }
    }

    fn agent_acts(&mut self, what: usize, how: usize) {
        let at = how % self.agents.len();
        let stage = self.agents.keys().nth(at).cloned().unwrap();
        let how = how / 4;
        match what {
            32 if self.agents[&stage].is_up => self.ends(&stage, EndCause::Crashed { exit: 1 }),
            33 => {
                let resets_at = self.now + Millis::from_secs(60 * (1 + how as u64));
                self.held = self.held.max(resets_at);
                self.ends(
                    &stage,
                    EndCause::RateLimited {
                        resets_at: Some(resets_at),
                        kind: LimitKind::FiveHour,
                    },
                );
            }
            34 => self.ends(&stage, EndCause::EngineLost),
            _ => self.works(&stage, how as u64 % 5, what.is_multiple_of(2)),
        }
    }

    /// The agent takes its next step: it begins, makes a turn, hands off, or goes as it was told.
    fn works(&mut self, stage: &StageId, cost: u64, hands_off: bool) {
        let Some(agent) = self.agents.get_mut(stage) else {
            return;
        };
        let attempt = agent.attempt;
        if !agent.is_up {
            agent.is_up = true;
            return self.hear(
                stage,
                RelayEvent::Attempt {
                    attempt,
                    event: AttemptEvent::Started { pid: 4117 },
                },
            );
        }
        if agent.is_told {
            return self.ends(stage, EndCause::Stopped);
        }
        if std::mem::take(&mut agent.has_message) {
            return self.hear(
                stage,
                RelayEvent::Attempt {
                    attempt,
                    event: AttemptEvent::MessageDelivered,
                },
            );
        }
        agent.turns += 1;
        let turn = Spend {
            micro_usd: cost * TURN_MICRO_USD_MAX / 4,
            tokens: 1,
            estimated: false,
        };
        agent.spend = agent.spend.plus(turn);
        if hands_off {
            let all_done = all_done();
            agent.files = files(if cost < 4 { &all_done } else { PROGRESS }, NEXT_PROMPT, "");
        }
        let crossing = agent.meter.take(agent.spend, agent.turns);
        if let Some(crossing) = crossing {
            self.hear(
                stage,
                RelayEvent::Attempt {
                    attempt,
                    event: AttemptEvent::SpendCrossed { crossing },
                },
            );
        }
        let Some(agent) = self.agents.get_mut(stage) else {
            return;
        };
        if hands_off && !agent.is_told {
            let relay = self.run.relay(stage).unwrap();
            let handoff = relay.inspect(&agent.files);
            self.hear(
                stage,
                RelayEvent::Attempt {
                    attempt,
                    event: AttemptEvent::TurnEnded {
                        handoff,
                        tool_calls: 3,
                        failed: false,
                    },
                },
            );
        }
    }

    fn ends(&mut self, stage: &StageId, cause: EndCause) {
        let Some(agent) = self.agents.remove(stage) else {
            return;
        };
        let attempt = agent.attempt;
        let relay = self.run.relay(stage).unwrap();
        let counters = Counters {
            duration: Millis::from_secs(60),
            tool_calls: 3,
            spend: Spend {
                estimated: false,
                ..agent.spend
            },
            turns: agent.turns,
            ..Counters::default()
        };
        let counters = relay.charge(agent.attempt, &cause, counters);
        let ended = AttemptEnded {
            cause: relay.cause_of(agent.attempt, cause),
            files: agent.files,
            touched: Vec::new(),
            misplaced: Vec::new(),
            resumable: false,
            counters,
            traces: Traces {
                last_words: Some("well".to_owned()),
                ..Traces::default()
            },
        };
        self.hear(
            stage,
            RelayEvent::Attempt {
                attempt,
                event: AttemptEvent::Ended(Box::new(ended)),
            },
        );
    }

    fn hear(&mut self, stage: &StageId, event: RelayEvent) {
        self.step(Event::Stage {
            stage: stage.clone(),
            event,
        });
    }

    fn step(&mut self, event: Event) {
        self.now = self.now + Millis(100);
        let effects = self.run.step(self.now, &event);
        self.note(event, effects);
    }

    /// A budget ends a stage only when no session is worth what is left, and the figure is what was spent.
    fn assert_spent(&mut self) {
        let (mut sessions, mut all) = (0, Spend::default());
        for (_, relay) in self.run.relays() {
            sessions += u64::from(relay.totals.sessions);
            all = all.plus(relay.spend());
        }
        for (stage, relay) in self.run.relays() {
            let Some(Outcome::BudgetSpent {
                spent,
                budget,
                agents,
            }) = relay.outcome()
            else {
                continue;
            };
            let of_agent = agents.first();
            let (budget, sessions) = match of_agent {
                Some(of_agent) => (
                    &of_agent.budget,
                    self.run.spent_by.of("claude").attempts.into(),
                ),
                None => (budget, sessions),
            };
            assert_eq!(of_agent.map_or(*spent, |of_agent| of_agent.spent), *spent);
            if !self.out_of_budget.insert((stage.clone(), spent.micro_usd)) {
                continue;
            }
            assert_eq!(
                spent.micro_usd, all.micro_usd,
                "what is reserved is not spent"
            );
            let left = budget
                .after(*spent)
                .micro_usd
                .expect("only money is limited");
            let worth_it = left * limits::SHARE_MIN_PART * sessions.max(1) >= spent.micro_usd;
            assert!(
                left == 0 || !worth_it,
                "{left} of {budget:?} could be spent"
            );
        }
    }

    fn note(&mut self, event: Event, effects: Vec<Effect>) {
        if let Event::Worktree {
            stage,
            event: WorktreeEvent::Merged {
                merge: Merge::Done { .. },
            },
            ..
        } = &event
        {
            assert!(self.done.insert(stage.clone()), "{stage} is done twice");
        }
        self.assert_spent();
        if let Event::Steered(steered) = &event {
            let pauses = steered.steering == Steering::Pause && !self.is_over;
            self.is_paused = pauses || (self.is_paused && steered.steering != Steering::Unpause);
        }
        // The run had ended, and its pause with it.
        self.is_paused &= !matches!(event, Event::RunResumed(_));
        let seq = self.records.len() as u64 + 1;
        let record = Record {
            seq,
            time: self.now,
            logic: LOGIC,
            event,
            effects,
        };
        for effect in &record.effects {
            assert!(!self.is_over, "the end is the last effect: {record:?}");
            self.perform(effect);
        }
        self.outstanding.fold(&record);
        self.records.push(record);
        assert_eq!(self.run.is_paused(), self.is_paused && !self.is_over);
        self.promises_hold();
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::Stage { stage, effect } => match effect {
                RelayEffect::StartAttempt(start) => self.starts(stage, start),
                RelayEffect::Attempt { effect, .. } => {
                    if let Some(agent) = self.agents.get_mut(stage) {
                        match effect {
                            AttemptEffect::Say { .. } => agent.has_message = true,
                            AttemptEffect::AnswerStop { .. } => {}
                            AttemptEffect::Interrupt
                            | AttemptEffect::Close
                            | AttemptEffect::Terminate => agent.is_told = true,
                        }
                    }
                }
                RelayEffect::Survey
                | RelayEffect::Commit { .. }
                | RelayEffect::Verify
                | RelayEffect::CancelTasks
                | RelayEffect::Publish
                | RelayEffect::PublishDurably
                | RelayEffect::Warn { .. }
                | RelayEffect::Notify { .. }
                | RelayEffect::Archive { .. } => {}
            },
            Effect::EndRun { .. } => {
                assert!(self.agents.is_empty(), "the run ends after its agents");
                self.is_over = true;
            }
            Effect::Worktree {
                stage,
                effect: WorktreeEffect::Prepare,
            } => assert!(!self.is_paused, "{stage} is prepared in a pause"),
            Effect::Worktree { .. } | Effect::Deliver => {}
        }
    }

    fn starts(&mut self, stage: &StageId, start: &StartAttempt) {
        assert!(
            self.now >= self.held,
            "{stage} {} begins in a limit",
            start.attempt
        );
        assert!(!self.is_paused, "{stage} begins in a pause");
        for (need, optional) in &self.needs[stage] {
            assert!(
                *optional || self.done.contains(need),
                "{stage} begins before {need}"
            );
        }
        let relay = self.run.relay(stage).unwrap();
        if let (Some(Prompt::Fresh(blocks)), true) =
            (relay.prompt(), self.conflicting.contains(stage))
        {
            let told = blocks
                .to_archive()
                .contains("Where both changed the same lines, git's marks stood");
            assert!(
                told,
                "{stage} {} is not told what it is to put right",
                start.attempt
            );
        }
        let share = relay.share().unwrap();
        let agent = Agent {
            attempt: start.attempt,
            is_up: false,
            is_told: false,
            has_message: false,
            spend: Spend::default(),
            turns: 0,
            meter: SpendMeter::new(share),
            files: HandoffFiles::default(),
        };
        assert!(
            self.agents.insert(stage.clone(), agent).is_none(),
            "{stage} has two agents"
        );
    }

    fn promises_hold(&self) {
        let plan = self.run.plan();
        let busy = plan
            .states()
            .filter(|(_, state)| matches!(state, StageState::Preparing | StageState::Working));
        let busy = busy.count();
        assert_eq!(busy, plan.at_work(), "who holds a section");
        assert!(busy <= self.jobs, "{busy} of {} slots", self.jobs);
        let running = self
            .run
            .live()
            .filter(|(_, relay)| matches!(relay.phase, Phase::Running(_)))
            .count();
        assert_eq!(running, self.agents.len());
        let ended: u64 = self
            .run
            .relays()
            .map(|(_, relay)| relay.totals.spend.micro_usd)
            .sum();
        let open: u64 = self
            .agents
            .values()
            .map(|agent| agent.spend.micro_usd)
            .sum();
        for budget in [self.budget, self.of_agent].into_iter().flatten() {
            let turns = self.most_at_once() * TURN_MICRO_USD_MAX;
            assert!(
                ended + open <= budget + turns,
                "{} of {budget}",
                ended + open
            );
        }
    }

    /// How many sessions may have made their last turn at the same time.
    fn most_at_once(&self) -> u64 {
        self.jobs as u64
    }

    fn assert_folds(&self) {
        let lines: Vec<String> = self
            .records
            .iter()
            .map(|record| serde_json::to_string(record).unwrap())
            .collect();
        let read: Vec<Record> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read, self.records);
        let Event::RunStarted(header) = &read[0].event else {
            panic!("{:?}", read[0])
        };
        let (mut run, effects) = Run::begin(read[0].time, header);
        assert_eq!(effects, read[0].effects);
        for record in &read[1..] {
            assert_eq!(
                run.step(record.time, &record.event),
                record.effects,
                "record {}",
                record.seq
            );
        }
        assert_eq!(run, self.run);
    }
}

/// The report of a session that claims to be done.
fn all_done() -> String {
    let progress = PROGRESS.replace("IN_PROGRESS", "ALL_COMPLETE");
    progress.replace("- [ ]", "- [x]")
}

fn is_start(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Stage {
            effect: RelayEffect::StartAttempt(_),
            ..
        }
    )
}

fn notices(effects: &[Effect]) -> Vec<String> {
    let notices = effects.iter().filter_map(|effect| match effect {
        Effect::Stage {
            effect: RelayEffect::Notify { about, text },
            ..
        } => Some(format!("{about}: {text}")),
        Effect::Stage { .. }
        | Effect::Worktree { .. }
        | Effect::Deliver
        | Effect::EndRun { .. } => None,
    });
    notices.collect()
}

fn fleet_place() -> FleetPlace {
    FleetPlace {
        remote: "origin".to_owned(),
        queue: "ekiden".to_owned(),
        lease_secs: 60,
        signed: false,
    }
}

fn check(passes: bool) -> Check {
    let outcome = if passes {
        CheckOutcome::Passed
    } else {
        CheckOutcome::Failed { code: 1 }
    };
    Check {
        outcome,
        tree: None,
        duration: Millis(1),
        tail: "the tail".to_owned(),
    }
}

fn header(given: &Given) -> RunStarted {
    let ids: Vec<StageId> = (0..given.stages.len())
        .map(|at| StageId::try_from(format!("S{at}")).unwrap())
        .collect();
    let stages = given
        .stages
        .iter()
        .enumerate()
        .map(|(at, rules)| stage(at, rules, &ids))
        .collect();
    let ground = Isolation::Worktrees {
        dir: "/trees".to_owned(),
        base: String::new(),
        branch: None,
        copy: Vec::new(),
        setup: None,
    };
    let rules = PlanRules {
        project: "demo".to_owned(),
        file: "demo.toml".to_owned(),
        hash: String::new(),
        jobs: given.jobs,
        isolation: ground,
        architecture: String::new(),
        document: String::new(),
    };
    let micro_usd = given.budget.map(|dollars| dollars * 1_000_000);
    let bounds = Bounds {
        run: Budget {
            micro_usd,
            tokens: None,
        },
        agents: of_agent(given.of_agent.map(|dollars| dollars * 1_000_000)),
        ..Bounds::default()
    };
    RunStarted {
        run: RunId::from_bits(0x7f3a),
        ekiden: "0.1.0".to_owned(),
        place: Place {
            work_dir: "/p".to_owned(),
            worktree: None,
            git: true,
            branch: None,
        },
        manifest: Manifest {
            stages,
            plan: Some(Box::new(rules)),
        },
        settings: settings(bounds),
        from: None,
        imported: None,
        issue: None,
        issue_read: None,
        sub_issues: false,
        pull_request: None,
        fleet: None,
        before: None,
        in_session: false,
        prices: Prices::default(),
        handoff_spend: Default::default(),
    }
}

fn stage(at: usize, rules: &(u8, bool, u32, u8), ids: &[StageId]) -> Stage {
    let (needs, optional, retries, on_fail) = *rules;
    let need = |stage: &StageId| Need {
        stage: stage.clone(),
        optional,
    };
    let needs = (0..at)
        .filter(|before| (needs >> before) & 1 == 1)
        .map(|before| need(&ids[before]))
        .collect();
    let on_fail = match on_fail {
        0 => OnFail::Stop,
        1 | 2 => OnFail::Skip,
        _ => OnFail::Block,
    };
    Stage {
        id: ids[at].clone(),
        task: "Do it.".to_owned(),
        task_name: ids[at].to_string(),
        verification: Some(Verification::by_command(
            "check".to_owned(),
            limits::VERIFY_TIMEOUT_DEFAULT,
        )),
        claim_needed: false,
        sessions_max: 3,
        part: Part {
            needs,
            retries,
            on_fail,
            ..Part::default()
        },
    }
}

fn of_agent(micro_usd: Option<u64>) -> BTreeMap<String, Budget> {
    let budget = micro_usd.map(|micro_usd| Budget {
        micro_usd: Some(micro_usd),
        tokens: None,
    });
    budget
        .map(|budget| ("claude".to_owned(), budget))
        .into_iter()
        .collect()
}

fn settings(bounds: Bounds) -> Settings {
    Settings {
        marker: Marker::default(),
        levels: Profile::Relay.levels(),
        cap_tokens: None,
        pause: Millis(0),
        wait_max: limits::WAIT_MAX_DEFAULT,
        judging: Some(Judging {
            stall_sessions: 0,
            research: false,
        }),
        bounds,
        reviewer: None,
        no_review: false,
        agent: AgentSpec {
            name: "claude".to_owned(),
            kind: AgentKind::Claude,
            command: vec!["claude".to_owned()],
            model: None,
            account: None,
            permissions: Permissions::default(),
            interface: Interface::Headless,
        },
        commit: None,
        notify: false,
        notify_text: false,
        subagents: false,
        guided: false,
        memory: crate::memory::MemoryUse::default(),
        fallback: crate::fallback::Fallback::default(),
    }
}
