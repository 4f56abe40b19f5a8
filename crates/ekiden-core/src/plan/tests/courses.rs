use expect_test::{Expect, expect};

use crate::effect::WorktreeEffect;
use crate::ids::StageId;
use crate::manifest::{Isolation, Manifest, Need, OnFail, Part, PlanRules, Stage, Take};
use crate::outcome::Outcome;
use crate::plan::{Plan, PlanDecision};
use crate::steering::StopRequest;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp(1_000);

pub(super) fn id(name: &str) -> StageId {
    StageId::try_from(name.to_owned()).unwrap()
}

/// A stage from `id: need need? option=value`.
fn stage(line: &str) -> Stage {
    let (name, rest) = line.split_once(':').unwrap();
    let mut part = Part::default();
    for word in rest.split_whitespace() {
        match word.split_once('=') {
            Some(("retries", count)) => part.retries = count.parse().unwrap(),
            Some(("expected", count)) => part.expected_tokens = count.parse().unwrap(),
            Some(("tokens", count)) => part.estimate_tokens = count.parse().unwrap(),
            Some(("fail", "skip")) => part.on_fail = OnFail::Skip,
            Some(("fail", "stop")) => part.on_fail = OnFail::Stop,
            Some(("take", "skip")) => part.take = Take::Skip,
            Some(("take", "assume")) => part.take = Take::Assume,
            Some(other) => panic!("{other:?}"),
            None => {
                let optional = word.ends_with('?');
                part.needs.push(Need {
                    stage: id(word.trim_end_matches('?')),
                    optional,
                });
            }
        }
    }
    Stage {
        id: id(name),
        task: "Do it.".to_owned(),
        task_name: name.to_owned(),
        verification: None,
        claim_needed: true,
        sessions_max: 3,
        part,
    }
}

pub(super) fn manifest(jobs: u32, stages: Vec<Stage>) -> Manifest {
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
        jobs,
        isolation: ground,
        architecture: String::new(),
        document: String::new(),
    };
    Manifest {
        stages,
        plan: Some(Box::new(rules)),
    }
}

/// Lets a plan run as the words say, and writes down what it wants. Words: `A+` its ground is ready, `A-`
/// cannot be made, `A.` its relay is done, `A!` fails, `A?` asks, `A=` is answered by a resume,
/// `A^` while others work, `A~` is stopped, `Am` merged, `Ac` conflicts, `An` cannot be merged, `d` delivered, `stop`,
/// `resume`, `pause`, `unpause`, `hold`.
fn course(jobs: u32, stages: &str, words: &str) -> String {
    let mut plan = plan(jobs, stages);
    let mut lines = vec![format!("begin: {}", told(&drain(&mut plan, Vec::new())))];
    for word in words.split_whitespace() {
        let decided = hear(&mut plan, word);
        lines.push(
            format!("{word}: {}", told(&drain(&mut plan, decided)))
                .trim_end()
                .to_owned(),
        );
    }
    lines.join("\n") + "\n"
}

fn plan(jobs: u32, stages: &str) -> Plan {
    let stages = stages
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(stage)
        .collect();
    Plan::new(&manifest(jobs, stages))
}

fn drain(plan: &mut Plan, mut decided: Vec<PlanDecision>) -> Vec<PlanDecision> {
    loop {
        let next = plan.next(NOW);
        if next.is_empty() {
            return decided;
        }
        decided.extend(next);
    }
}

fn hear(plan: &mut Plan, word: &str) -> Vec<PlanDecision> {
    match word {
        "d" => plan.delivered(None),
        "stop" => plan.stop(StopRequest::Gently),
        "resume" => plan.resume(None),
        "pause" => plan.pause(true),
        "unpause" => plan.pause(false),
        "hold" => plan.hold(Timestamp(5_000), 0..plan.stages()),
        _ => {
            let (name, what) = word.split_at(word.len() - 1);
            let stage = id(name);
            return of_stage(plan, &stage, what).into_iter().collect();
        }
    }
    Vec::new()
}

fn of_stage(plan: &mut Plan, stage: &StageId, what: &str) -> Option<PlanDecision> {
    match what {
        "+" => return plan.prepared(stage, Ok(())),
        "-" => return plan.prepared(stage, Err("no room".to_owned())),
        "." => return plan.stage_ended(stage, &Outcome::Complete { verified: true }),
        "!" => return plan.stage_ended(stage, &Outcome::SessionLimit),
        "?" => {
            let question = "Which?".to_owned();
            return plan.stage_ended(stage, &Outcome::Blocked { question });
        }
        "=" => plan.resume(Some(stage)),
        "^" => assert!(plan.answered(stage)),
        "~" => {
            let stopped = Outcome::Stopped {
                request: StopRequest::Gently,
            };
            return plan.stage_ended(stage, &stopped);
        }
        "m" => plan.merged(stage),
        "c" => {
            let files = vec!["a.rs".to_owned()];
            plan.unmerged(stage, Outcome::Unmerged { files });
        }
        "n" => plan.not_merged(stage, "git is gone".to_owned()),
        "x" => plan.merge_cancelled(stage),
        other => panic!("{other}"),
    }
    None
}

fn told(decisions: &[PlanDecision]) -> String {
    let words: Vec<String> = decisions
        .iter()
        .map(|decision| match decision {
            PlanDecision::Worktree(stage, WorktreeEffect::Prepare) => format!("prepare {stage}"),
            PlanDecision::Start(stage) => format!("start {stage}"),
            PlanDecision::Retry {
                stage,
                attempt,
                max,
            } => format!("retry {stage} ({attempt} of {max})"),
            PlanDecision::Worktree(stage, WorktreeEffect::Merge) => format!("merge {stage}"),
            PlanDecision::Worktree(stage, WorktreeEffect::Confirm) => format!("confirm {stage}"),
            PlanDecision::Deliver => "deliver".to_owned(),
            PlanDecision::End(outcome) => format!("end {}", ended(outcome)),
        })
        .collect();
    words.join(", ")
}

fn ended(outcome: &Outcome) -> String {
    if let Outcome::StagesFailed { failed, blocked } = outcome {
        let failed: Vec<_> = failed.iter().map(|one| one.stage.to_string()).collect();
        return format!("failed {}, {blocked} blocked", failed.join(" "));
    }
    let word: String = format!("{outcome:?}")
        .chars()
        .take_while(|c| c.is_alphanumeric())
        .collect();
    word.to_lowercase()
}

#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "so that a call reads like the macro's own"
)]
fn check(jobs: u32, stages: &str, words: &str, expected: Expect) {
    expected.assert_eq(&course(jobs, stages, words));
}

const DIAMOND: &str = "A:\nB: A\nC: A\nD: B C";

// shows: PLN-03, PLN-08
#[test]
fn a_diamond_runs_its_sides_side_by_side() {
    check(
        2,
        DIAMOND,
        "A+ A. Am B+ C+ C. B. Cm Bm D+ D. Dm d",
        expect![[r#"
            begin: prepare A
            A+: start A
            A.: merge A
            Am: prepare B, prepare C
            B+: start B
            C+: start C
            C.: merge C
            B.:
            Cm: merge B
            Bm: prepare D
            D+: start D
            D.: merge D
            Dm: deliver
            d: end complete
        "#]],
    );
}

// shows: PLN-03
#[test]
fn one_job_is_one_stage_at_a_time() {
    check(
        1,
        DIAMOND,
        "A+ A. Am B+ B. Bm C+ C. Cm D+ D. Dm d",
        expect![[r#"
            begin: prepare A
            A+: start A
            A.: merge A
            Am: prepare B
            B+: start B
            B.: merge B, prepare C
            Bm:
            C+: start C
            C.: merge C
            Cm: prepare D
            D+: start D
            D.: merge D
            Dm: deliver
            d: end complete
        "#]],
    );
}

// shows: PLN-12
#[test]
fn a_failed_stage_is_tried_again_then_what_needs_it_is_blocked_and_the_rest_goes_on() {
    check(
        2,
        "A: retries=2\nB: A\nC:\nD: C",
        "A+ C+ A! A! A! C. Cm D+ D. Dm",
        expect![[r#"
            begin: prepare A, prepare C
            A+: start A
            C+: start C
            A!: retry A (2 of 3)
            A!: retry A (3 of 3)
            A!:
            C.: merge C
            Cm: prepare D
            D+: start D
            D.: merge D
            Dm: end failed A, 1 blocked
        "#]],
    );
}

/// It is ready because the stage that it needs optionally was over, and that stage continues.
// shows: PLN-03, PLN-13
#[test]
fn a_ready_stage_waits_again_for_an_optional_need_that_continues() {
    check(
        2,
        "A: fail=stop\nB: A?",
        "A+ A! resume A. Am",
        expect![[r#"
            begin: prepare A
            A+: start A
            A!: end failed A, 0 blocked
            resume: start A
            A.: merge A
            Am: prepare B
        "#]],
    );
    check(
        2,
        "A:\nB:\nC:\nD: A?",
        "A+ B+ A? A^ C+ C. Cm B. Bm A. Am",
        expect![[r#"
            begin: prepare A, prepare B
            A+: start A
            B+: start B
            A?: prepare C
            A^:
            C+: start C
            C.: merge C, start A
            Cm:
            B.: merge B
            Bm:
            A.: merge A
            Am: prepare D
        "#]],
    );
}

/// Otherwise it would work beside what the answer begins, without its result.
// shows: PLN-05, PLN-13
#[test]
fn an_optional_need_that_asks_is_waited_for() {
    check(
        2,
        "A:\nB: A?\nC: A\nD: C?",
        "A+ A? A= A. Am",
        expect![[r#"
        begin: prepare A
        A+: start A
        A?: end failed A, 3 blocked
        A=: start A
        A.: merge A
        Am: prepare C, prepare B
    "#]],
    );
    check(
        2,
        "A:\nB: A?\nX:",
        "A+ X+ A? A^ A. Am X. Xm",
        expect![[r#"
        begin: prepare A, prepare X
        A+: start A
        X+: start X
        A?:
        A^: start A
        A.: merge A
        Am: prepare B
        X.: merge X
        Xm:
    "#]],
    );
    // The plan does without it.
    check(
        2,
        "A: fail=skip\nB: A?",
        "A+ A?",
        expect![[r#"
        begin: prepare A
        A+: start A
        A?: prepare B
    "#]],
    );
}

// shows: PLN-13
#[test]
fn what_needs_a_skipped_stage_goes_on_only_if_the_edge_is_optional() {
    check(
        2,
        "A: fail=skip\nB: A?\nC: A",
        "A+ A! B+ B. Bm",
        expect![[r#"
            begin: prepare A
            A+: start A
            A!: prepare B
            B+: start B
            B.: merge B
            Bm: end failed A, 1 blocked
        "#]],
    );
    check(
        2,
        "A: fail=stop\nB:\nC: B",
        "A+ B+ A! B. Bm",
        expect![[r#"
            begin: prepare B, prepare A
            A+: start A
            B+: start B
            A!:
            B.: merge B
            Bm: end failed A, 0 blocked
        "#]],
    );
}

// shows: PLN-03
#[test]
fn what_the_user_leaves_out_takes_with_it_what_needs_it() {
    check(
        2,
        "A: take=skip\nB: A\nC: A?\nD:",
        "D+ C+ D. C. Dm Cm d",
        expect![[r#"
            begin: prepare C, prepare D
            D+: start D
            C+: start C
            D.: merge D
            C.:
            Dm: merge C
            Cm: deliver
            d: end complete
        "#]],
    );
}

// shows: PLN-03
#[test]
fn what_is_left_out_stays_so_behind_another_one_and_keeps_its_place() {
    check(
        3,
        "A:\nB: A? take=skip\nC: B? take=skip\nD: B? C?",
        "A+ A. Am D+ D. Dm d",
        expect![[r#"
        begin: prepare A
        A+: start A
        A.: merge A
        Am: prepare D
        D+: start D
        D.: merge D
        Dm: deliver
        d: end complete
    "#]],
    );
    check(
        2,
        "A: take=skip\nB: A take=skip",
        "d",
        expect![[r#"
        begin: deliver
        d: end complete
    "#]],
    );
}

// shows: PLN-12, PLN-13
#[test]
fn a_plan_of_which_nothing_is_done_or_something_is_blocked_is_not_complete() {
    check(
        2,
        "A: fail=skip",
        "A+ A!",
        expect![[r#"
        begin: prepare A
        A+: start A
        A!: end failed A, 0 blocked
    "#]],
    );
    check(
        2,
        "A: fail=skip\nB:",
        "A+ B+ A! B. Bm d",
        expect![[r#"
        begin: prepare A, prepare B
        A+: start A
        B+: start B
        A!:
        B.: merge B
        Bm: deliver
        d: end complete
    "#]],
    );
}

// shows: PLN-16
#[test]
fn what_was_done_before_and_needs_a_stage_that_runs_is_confirmed_behind_it() {
    let stages = "A:\nC: A take=assume\nB: C\nD: take=assume";
    check(
        2,
        stages,
        "Dm A+ A. Am Cm B+",
        expect![[r#"
        begin: confirm D
        Dm: prepare A
        A+: start A
        A.: merge A
        Am: confirm C
        Cm: prepare B
        B+: start B
    "#]],
    );
    check(
        2,
        stages,
        "Dm A+ A. Am Cn",
        expect![[r#"
        begin: confirm D
        Dm: prepare A
        A+: start A
        A.: merge A
        Am: confirm C
        Cn: end failed C, 1 blocked
    "#]],
    );
    check(
        2,
        stages,
        "Dm A+ A! resume A. Am Cm",
        expect![[r#"
        begin: confirm D
        Dm: prepare A
        A+: start A
        A!: end failed A, 2 blocked
        resume: start A
        A.: merge A
        Am: confirm C
        Cm: prepare B
    "#]],
    );
}

// shows: PLN-16
#[test]
fn nothing_begins_before_all_is_confirmed_or_if_one_is_not() {
    check(
        3,
        "A: take=assume\nB: A take=assume\nC: A\nD:",
        "Am Bm C+ D+",
        expect![[r#"
        begin: confirm A
        Am: confirm B
        Bm: prepare C, prepare D
        C+: start C
        D+: start D
    "#]],
    );
    check(
        3,
        "A: take=assume\nB: take=assume fail=skip\nC: A\nD:",
        "An Bm resume Am C+",
        expect![[r#"
        begin: confirm A
        An: confirm B
        Bm: end failed A, 1 blocked
        resume: confirm A
        Am: prepare C, prepare D
        C+: start C
    "#]],
    );
}

// shows: PLN-16
#[test]
fn what_is_taken_for_done_is_confirmed_first() {
    check(
        2,
        "A: take=assume\nB: A take=assume\nC: B",
        "Am Bm C+ C. Cm d",
        expect![[r#"
            begin: confirm A
            Am: confirm B
            Bm: prepare C
            C+: start C
            C.: merge C
            Cm: deliver
            d: end complete
        "#]],
    );
    check(
        2,
        "A: take=assume\nB: A",
        "An",
        expect![[r#"
        begin: confirm A
        An: end failed A, 1 blocked
    "#]],
    );
}

// shows: PLN-08
#[test]
fn a_conflict_goes_back_to_the_relay_twice_and_then_to_the_user() {
    check(
        2,
        "A:\nB: A",
        "A+ A. Ac A. Ac A. Ac resume Am B+ B. Bm d",
        expect![[r#"
            begin: prepare A
            A+: start A
            A.: merge A
            Ac: start A
            A.: merge A
            Ac: start A
            A.: merge A
            Ac: end failed A, 1 blocked
            resume: merge A
            Am: prepare B
            B+: start B
            B.: merge B
            Bm: deliver
            d: end complete
        "#]],
    );
}

/// Nobody need resume a plan whose budget is spent to see what was done before.
// shows: PLN-08, PLN-24
#[test]
fn what_is_done_is_merged_before_a_halt_ends_the_plan() {
    check(
        3,
        "A:\nB:\nC:\nD: B",
        "A+ B+ C+ A. C~ B. Am Bm",
        expect![[r#"
            begin: prepare B, prepare A, prepare C
            A+: start A
            B+: start B
            C+: start C
            A.: merge A
            C~:
            B.:
            Am: merge B
            Bm: end stopped
        "#]],
    );
}

/// Git's marks are on its branch by then, and merged again they would conflict with nothing.
// shows: PLN-08
#[test]
fn a_conflict_that_arrives_in_a_halt_goes_back_to_the_relay_in_the_resume() {
    for halt in ["stop", "C~"] {
        let told = course(
            3,
            "A:\nB:\nC:",
            &format!("A+ B+ C+ A. B. Am {halt} Bc resume B."),
        );
        let resumed = told.split("resume: ").nth(1).unwrap();
        assert!(resumed.starts_with("start B"), "{halt}: {told}");
        assert!(resumed.ends_with("B.: merge B\n"), "{halt}: {told}");
    }
}

// shows: PLN-12, PLN-16
#[test]
fn a_resume_leaves_what_the_plan_does_without_unless_it_blocks_others() {
    let stages = "A: fail=skip\nB:\nC:";
    check(
        3,
        stages,
        "A- C+ C. Cm B- resume B+ B. Bm d",
        expect![[r#"
        begin: prepare A, prepare B, prepare C
        A-:
        C+: start C
        C.: merge C
        Cm:
        B-: end failed B, 0 blocked
        resume: prepare B
        B+: start B
        B.: merge B
        Bm: deliver
        d: end complete
    "#]],
    );
    check(
        3,
        stages,
        "A+ A? C+ C. Cm B- A=",
        expect![[r#"
        begin: prepare A, prepare B, prepare C
        A+: start A
        A?:
        C+: start C
        C.: merge C
        Cm:
        B-: end failed B, 0 blocked
        A=: start A, prepare B
    "#]],
    );
    check(
        2,
        "A: fail=skip\nB: A\nC:",
        "A- C+ C. Cm resume",
        expect![[r#"
            begin: prepare A, prepare C
            A-:
            C+: start C
            C.: merge C
            Cm: end failed A, 1 blocked
            resume: prepare A
        "#]],
    );
}

// shows: PLN-12, PLN-16
#[test]
fn a_resume_tries_what_failed_and_keeps_what_is_done() {
    check(
        2,
        "A:\nB:\nC: A B",
        "A- B+ B. Bm resume A+ A. Am C+ C. Cm d resume",
        expect![[r#"
            begin: prepare A, prepare B
            A-:
            B+: start B
            B.: merge B
            Bm: end failed A, 1 blocked
            resume: prepare A
            A+: start A
            A.: merge A
            Am: prepare C
            C+: start C
            C.: merge C
            Cm: deliver
            d: end complete
            resume: end complete
        "#]],
    );
}

// shows: REL-35
#[test]
fn an_answer_starts_only_the_stage_that_asked() {
    check(
        2,
        "A:\nB:\nC: A\nD: B\nE: D",
        "A+ B+ A? B? A= A+ A. Am C+ C. Cm B= B+",
        expect![[r#"
            begin: prepare B, prepare A
            A+: start A
            B+: start B
            A?:
            B?: end failed A B, 3 blocked
            A=: start A
            A+:
            A.: merge A
            Am: prepare C
            C+: start C
            C.: merge C
            Cm: end failed B, 2 blocked
            B=: start B
            B+:
        "#]],
    );
}

/// Else `ekiden answer` would need `--stage` to tell the one question that is shown from one that is not.
// shows: REL-35, PLN-13
#[test]
fn the_question_of_a_skipped_stage_waits_for_an_answer_only_if_its_failure_matters() {
    let asks = |stages, words: &str| {
        let mut plan = plan(2, stages);
        drain(&mut plan, Vec::new());
        for word in words.split_whitespace() {
            let decided = hear(&mut plan, word);
            drain(&mut plan, decided);
        }
        plan.needs_you(&id("A"))
    };
    assert!(!asks("A: fail=skip\nB:\nC: A?", "A+ B+ A?"));
    assert!(asks("A: fail=skip\nB:\nC: A", "A+ B+ A?"));
    assert!(asks("A: fail=skip", "A+ A?"), "nothing is done");
}

// shows: REL-35
#[test]
fn an_answer_ends_the_halt_that_its_question_led_to() {
    check(
        3,
        "A: fail=stop\nB:\nD:",
        "A+ B+ A? D+ A^ D+ A. Am",
        expect![[r#"
            begin: prepare A, prepare B, prepare D
            A+: start A
            B+: start B
            A?:
            D+:
            A^: start A, prepare D
            D+: start D
            A.: merge A
            Am:
        "#]],
    );
    check(
        3,
        "A: fail=stop\nB: fail=stop\nC:",
        "A+ B+ C+ A? B! A^ C. Cm resume",
        expect![[r#"
            begin: prepare A, prepare B, prepare C
            A+: start A
            B+: start B
            C+: start C
            A?:
            B!:
            A^:
            C.: merge C
            Cm: end failed B, 0 blocked
            resume: start A, start B
        "#]],
    );
    check(
        2,
        "A:\nB:\nC:",
        "A+ B+ A? stop A^ B~ resume",
        expect![[r#"
        begin: prepare A, prepare B
        A+: start A
        B+: start B
        A?: prepare C
        stop:
        A^:
        B~:
        resume: start A
    "#]],
    );
}

// shows: REL-35
#[test]
fn a_stage_that_needs_two_that_failed_stays_blocked_when_one_is_answered() {
    let words = "A+ B+ K+ A? B! A^ A. Am K. Km d";
    check(
        3,
        "A:\nB: fail=skip\nC: A B\nD: C\nK:",
        words,
        expect![[r#"
        begin: prepare A, prepare B, prepare K
        A+: start A
        B+: start B
        K+: start K
        A?:
        B!:
        A^: start A
        A.: merge A
        Am:
        K.: merge K
        Km: end failed B, 2 blocked
        d:
    "#]],
    );
    check(
        3,
        "A:\nK:\nX: K take=skip\nB: A X\nC:",
        "A+ K+ C+ A? K. Km A^ A. Am C. Cm",
        expect![[r#"
        begin: prepare K, prepare A, prepare C
        A+: start A
        K+: start K
        C+: start C
        A?:
        K.: merge K
        Km:
        A^: start A
        A.: merge A
        Am:
        C.: merge C
        Cm: deliver
    "#]],
    );
    let stages = "A:\nB:\nD: C\nC: A B";
    check(
        2,
        stages,
        "A+ B+ A? B? A= A+ A. Am B= B. Bm C+",
        expect![[r#"
        begin: prepare A, prepare B
        A+: start A
        B+: start B
        A?:
        B?: end failed A B, 2 blocked
        A=: start A
        A+:
        A.: merge A
        Am: end failed B, 2 blocked
        B=: start B
        B.: merge B
        Bm: prepare C
        C+: start C
    "#]],
    );
}

// shows: PLN-03
#[test]
fn after_a_stop_nothing_begins_and_a_resume_goes_on_where_it_was() {
    check(
        2,
        "A:\nB:\nC: A\nD: B",
        "A+ B+ A. stop B~ Ax resume Am C+",
        expect![[r#"
            begin: prepare A, prepare B
            A+: start A
            B+: start B
            A.: merge A
            stop:
            B~:
            Ax: end stopped
            resume: merge A, start B
            Am: prepare C
            C+: start C
        "#]],
    );
}

/// Otherwise the engine records a wake again and again until the confirmation is over.
// shows: PLN-16
#[test]
fn a_limit_that_is_over_wakes_nobody_who_waits_for_a_confirmation() {
    let stages = ["A:", "C: A take=assume", "B: A"].map(stage);
    let mut plan = Plan::new(&manifest(2, stages.into()));
    drain(&mut plan, Vec::new());
    plan.hold(Timestamp(NOW.0 - 1), 0..3);
    for word in ["A+", "A.", "Am"] {
        let decided = hear(&mut plan, word);
        drain(&mut plan, decided);
    }
    assert_eq!(plan.wakes_at(), None, "C is being confirmed");
    plan.merged(&id("C"));
    assert_eq!(told(&drain(&mut plan, Vec::new())), "prepare B");
}

#[test]
fn a_pause_and_a_limit_hold_what_would_begin() {
    check(
        2,
        "A:\nB: A\nC:",
        "C+ pause C. A+ A. Am unpause",
        expect![[r#"
        begin: prepare A, prepare C
        C+: start C
        pause:
        C.: merge C
        A+: start A
        A.:
        Am:
        unpause:
    "#]],
    );
    check(
        1,
        "A:\nB:",
        "A+ hold A. Am",
        expect![[r#"
        begin: prepare A
        A+: start A
        hold:
        A.: merge A
        Am:
    "#]],
    );
}

// shows: PLN-16, DUR-01
#[test]
fn what_was_under_way_when_an_engine_died_is_wanted_once() {
    check(
        1,
        "A:",
        "A+ A. resume Am resume d",
        expect![[r#"
            begin: prepare A
            A+: start A
            A.: merge A
            resume:
            Am: deliver
            resume:
            d: end complete
        "#]],
    );
}

// shows: PLN-12, EST-004
#[test]
fn what_such_work_took_goes_before_what_was_counted() {
    let stages = "A: tokens=90000 expected=1000\nB: tokens=1000 expected=90000\nC: tokens=50000";
    check(
        2,
        stages,
        "",
        expect![[r#"
        begin: prepare B, prepare C
    "#]],
    );
}
