//! Whole runs: what a person reads about those that go well and those that do not.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions};
use ekiden_core::bounds::Bounds;
use ekiden_core::budget::{Budget, Crossing, Mark, Measure, Prices, Spend};
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::event::{
    AttemptEnded, AttemptEvent, Check, CheckOutcome, Commit, Continued, Counters, Event,
    RelayEvent, RunResumed, Survey, TaskOutcome, Traces,
};
use ekiden_core::guard::{Level, Profile, Window};
use ekiden_core::handoff::{FileText, HandoffFiles, Marker};
use ekiden_core::ids::{AttemptId, AttemptNumber, EffectId, RunId, SessionNumber, StageId};
use ekiden_core::limits;
use ekiden_core::manifest::{Manifest, Part, Stage, Verification};
use ekiden_core::outcome::Outcome;
use ekiden_core::record::{LOGIC, Record};
use ekiden_core::renewal::NewTask;
use ekiden_core::run::Run;
use ekiden_core::settings::{
    CommitPlan, DirtyFile, Imported, LimitsChanged, Place, RunStarted, Settings,
};
use ekiden_core::steering::{Steered, Steering, StopRequest};
use ekiden_core::time::{Millis, Timestamp};
use jiff::tz::TimeZone;

use super::line::{Line, Tone};
use super::outcome::{Description, resume_command};
use super::reporter::Reporter;
use super::session::Left;
use super::sessions::Sessions;
use super::shown_work_dir::ShownWorkDir;
use super::summary::Summary;
use super::{Output, Writer, problems};
use crate::exit::Exit;
use crate::failure::Failure;

mod view;

/// 22:04 in Athens.
const START: Timestamp = Timestamp(1_795_291_440_000);
const EFFECT: EffectId = EffectId { seq: 0, index: 0 };

/// A run that is driven by events, and what is reported about them.
struct Scenario {
    run: Run,
    reporter: Reporter,
    sessions: Sessions,
    now: Timestamp,
    seq: u64,
    lines: Vec<String>,
    json: Vec<String>,
    records: Vec<Record>,
}

impl Scenario {
    fn begin(verification: Option<&str>, git: bool) -> Self {
        Self::begun(header(verification, git))
    }

    /// Without verification or git, but with other settings.
    fn of(change: impl FnOnce(&mut RunStarted)) -> Self {
        let mut header = header(None, false);
        change(&mut header);
        Self::begun(header)
    }

    fn begun(header: RunStarted) -> Self {
        let (run, effects) = Run::begin(START, &header);
        let zone = TimeZone::posix("EET-2EEST,M3.5.0/3,M10.5.0/4").unwrap();
        let mut scenario = Self {
            run,
            reporter: Reporter::new(Vec::new(), zone),
            sessions: Sessions::new(Vec::new(), None),
            now: START,
            seq: 0,
            lines: Vec::new(),
            json: Vec::new(),
            records: Vec::new(),
        };
        scenario.record(Event::RunStarted(Box::new(header)), effects);
        scenario
    }

    fn record(&mut self, event: Event, effects: Vec<ekiden_core::effect::Effect>) {
        self.seq += 1;
        let record = Record {
            seq: self.seq,
            time: self.now,
            logic: LOGIC,
            event,
            effects,
        };
        self.sessions.take(&record, &self.run);
        self.records.push(record.clone());
        for entry in self.reporter.entries(&record, &self.run) {
            self.lines.extend(entry.lines.iter().map(Line::plain));
            let line = entry.json(self.now, &self.run.header().run);
            self.json.push(serde_json::to_string(&line).unwrap());
        }
    }

    fn event(&mut self, event: Event) -> &mut Self {
        let effects = self.run.step(self.now, &event);
        self.record(event, effects);
        self
    }

    fn relay(&mut self, event: RelayEvent) -> &mut Self {
        self.event(Event::Stage {
            stage: StageId::only(),
            event,
        })
    }

    fn pass(&mut self, secs: u64) -> &mut Self {
        self.now = self.now + Millis::from_secs(secs);
        self
    }

    fn wake(&mut self) -> &mut Self {
        self.now = self.run.wakes_at().unwrap();
        self.relay(RelayEvent::Woke)
    }

    fn check(&mut self, outcome: CheckOutcome, tail: &str) -> &mut Self {
        let check = Check {
            outcome,
            tree: None,
            duration: Millis::from_secs(41),
            tail: tail.to_owned(),
        };
        self.pass(41).relay(RelayEvent::Task {
            effect: EFFECT,
            outcome: TaskOutcome::Verified { check },
        })
    }

    fn survey(&mut self, status: &[&str]) -> &mut Self {
        let status = status.iter().map(|line| (*line).to_owned()).collect();
        self.relay(RelayEvent::Task {
            effect: EFFECT,
            outcome: TaskOutcome::Surveyed {
                survey: Ok(Survey {
                    status,
                    ..Survey::default()
                }),
            },
        })
    }

    fn commit(&mut self, commit: Commit) -> &mut Self {
        self.relay(RelayEvent::Task {
            effect: EFFECT,
            outcome: TaskOutcome::Committed { commit },
        })
    }

    fn window(&mut self, session: u32) -> &mut Self {
        let window = Window {
            model_tokens: 1_000_000,
            compaction_tokens: None,
            reserve_tokens: 33_000,
            cap_tokens: Some(200_000),
        };
        let model = Some("opus".to_owned());
        self.relay(RelayEvent::Attempt {
            attempt: attempt(session, 1),
            event: AttemptEvent::WindowChanged { window, model },
        })
    }

    fn ends(&mut self, at: AttemptId, cause: EndCause, files: HandoffFiles) -> &mut Self {
        self.ends_with(122_300, at, cause, files)
    }

    fn ends_with(
        &mut self,
        usage_tokens: u64,
        at: AttemptId,
        cause: EndCause,
        files: HandoffFiles,
    ) -> &mut Self {
        let counters = Counters {
            duration: Millis::from_secs(846),
            tool_calls: 38,
            usage_tokens,
            spend: Spend {
                micro_usd: 1_840_000,
                ..Spend::default()
            },
            ..Counters::default()
        };
        let ended = AttemptEnded {
            cause,
            files,
            touched: Vec::new(),
            misplaced: Vec::new(),
            resumable: true,
            counters,
            traces: Traces::default(),
        };
        self.pass(846).relay(RelayEvent::Attempt {
            attempt: at,
            event: AttemptEvent::Ended(Box::new(ended)),
        })
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }
}

fn header(verification: Option<&str>, git: bool) -> RunStarted {
    let verification = verification.map(|command| {
        Verification::by_command(command.to_owned(), limits::VERIFY_TIMEOUT_DEFAULT)
    });
    let stage = Stage {
        id: StageId::only(),
        task: "Migrate the tests.".to_owned(),
        task_name: "migrate.md".to_owned(),
        verification,
        claim_needed: false,
        sessions_max: 3,
        part: Part::default(),
    };
    RunStarted {
        run: RunId::from_bits(0x7f3a_0b1c),
        from: None,
        imported: None,
        issue: None,
        issue_read: None,
        sub_issues: false,
        pull_request: None,
        fleet: None,
        before: None,
        in_session: false,
        ekiden: "0.1.0".to_owned(),
        place: Place {
            work_dir: "/home/me/project".to_owned(),
            worktree: None,
            git,
            branch: None,
        },
        manifest: Manifest::single(stage),
        settings: Settings {
            marker: Marker::default(),
            levels: Profile::Relay.levels(),
            cap_tokens: Some(limits::RELAY_CAP_TOKENS),
            pause: Millis(0),
            wait_max: limits::WAIT_MAX_DEFAULT,
            judging: None,
            reviewer: None,
            no_review: false,
            agent: AgentSpec {
                name: "claude".to_owned(),
                kind: AgentKind::Claude,
                command: vec!["claude".to_owned()],
                model: Some("opus".to_owned()),
                account: None,
                permissions: Permissions::default(),
                interface: Interface::Headless,
            },
            commit: None,
            notify: true,
            notify_text: false,
            subagents: false,
            guided: false,
            memory: ekiden_core::memory::MemoryUse::default(),
            fallback: ekiden_core::fallback::Fallback::default(),
            bounds: Bounds::default(),
        },
        prices: Prices::default(),
        handoff_spend: Default::default(),
    }
}

fn attempt(session: u32, number: u32) -> AttemptId {
    let mut id = AttemptId::first(SessionNumber::try_from(session).unwrap());
    while id.attempt.get() < number {
        id = id.again();
    }
    assert!(id.attempt >= AttemptNumber::FIRST);
    id
}

fn handoff(status: &str) -> HandoffFiles {
    let progress = format!(
        "STATUS: {status}\n\n## Done\n- 212 of 847 tests: `pytest -q`\n\n## Stopped at\ntests/test_billing\n\n\
         ## Issues\nWhich currency do old invoices have?\n\n## Open items\n- [x] conftest\n- [ ] billing\n"
    );
    let next = "## Task\nThe tests of billing.\n\n## State\nThe fixtures are in conftest.py, and they work with the \
                new client as well as with the old one, which is why both can be run side by side.\n\n\
                ## Resume at\n1. convert tests/test_billing; the fixtures in conftest.py are done\n2. then run all\n\n\
                ## What works\npytest -q tests/test_billing\n\n## What to avoid\nnothing so far\n\n\
                ## How to verify\npytest -q\n";
    HandoffFiles {
        progress: FileText::Text(progress),
        next_prompt: FileText::Text(next.to_owned()),
        knowledge: FileText::Text("## Core Knowledge\n- The client needs a region.\n".to_owned()),
    }
}

fn complete() -> HandoffFiles {
    let text = "STATUS: ALL_COMPLETE\n\n## Done\n- all: `pytest -q`\n\n## Stopped at\nThe end.\n\n## Issues\nnone\n";
    HandoffFiles {
        progress: FileText::Text(text.to_owned()),
        ..HandoffFiles::default()
    }
}

#[test]
fn a_verification_that_was_cancelled_is_neither_a_check_nor_a_veto() {
    let mut scenario = Scenario::begin(Some("pytest"), true);
    scenario
        .survey(&[" M a"])
        .check(CheckOutcome::Failed { code: 1 }, "")
        .ends(attempt(1, 1), EndCause::Completed, complete())
        .survey(&[" M b"])
        .check(CheckOutcome::Cancelled, "");
    let session = scenario.sessions.get(1).unwrap();
    assert!(session.kept.survey.is_some() && matches!(session.left(), Some((Left::Completion, _))));
    assert!(session.told.check.is_none() && !session.is_vetoed());
}

// shows: UIX-02
#[test]
fn a_run_that_goes_well() {
    let mut scenario = Scenario::begin(Some("pytest -q"), true);
    scenario
        .survey(&[])
        .check(CheckOutcome::Failed { code: 1 }, "847 failed\n")
        .window(1);
    scenario
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"))
        .survey(&[" M a", " M b"]);
    scenario
        .check(
            CheckOutcome::Failed { code: 1 },
            "...\n635 failed, 212 passed\n\n",
        )
        .window(2);
    scenario
        .ends(attempt(2, 1), EndCause::Completed, complete())
        .survey(&[" M a", " M b"]);
    scenario.check(CheckOutcome::Passed, "");
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        verification `pytest -q` fails now, so a later pass ends the run
        session 1 · 22:04
          window    1M tokens (opus), 200k usable (context.cap_tokens), hands off at 120k
          61% 122k  handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
          verify    failed in 41s: 635 failed, 212 passed
        session 2 · 22:19
          61% 122k  says all is done after 14m · 38 tool calls · $1.84
          verify    passed in 41s

        verified complete · 2 sessions · 30m · $3.68 · 2 files not committed
        knowledge  1 fact in .ekiden/KNOWLEDGE.md
        next       git status"#]]
    .assert_eq(&scenario.text());
}

// shows: UIX-04
#[test]
fn a_look_at_the_tree_and_a_check_belong_to_the_session_before_or_after_which_they_were() {
    let mut scenario = Scenario::begin(Some("pytest -q"), true);
    scenario
        .survey(&[" M a"])
        .check(CheckOutcome::Failed { code: 1 }, "")
        .ends(attempt(1, 1), EndCause::Completed, complete())
        .survey(&[" M b"])
        .check(CheckOutcome::Passed, "1 passed\n");
    scenario
        .event(Event::Continued(Continued {
            ekiden: "0.1.0".to_owned(),
            task: NewTask {
                text: "More.".to_owned(),
                name: "more.md".to_owned(),
            },
            commit: None,
            limits: LimitsChanged::default(),
        }))
        .survey(&[" M c"])
        .check(CheckOutcome::Failed { code: 1 }, "2 failed\n");
    let kept = |number| scenario.sessions.get(number).unwrap().kept;
    let check = |number| &scenario.sessions.get(number).unwrap().told.check;
    let status = |survey: &Option<Survey>| survey.clone().map(|survey| survey.status.concat());
    assert_eq!(status(&kept(1).survey_before).as_deref(), Some(" M a"));
    assert_eq!(status(&kept(1).survey).as_deref(), Some(" M b"));
    assert!(check(1).as_ref().unwrap().passed());
    assert_eq!(status(&kept(2).survey_before).as_deref(), Some(" M c"));
    assert!(kept(2).survey.is_none() && check(2).is_none());
    let text = scenario.text();
    let after = text.rsplit("continues").next().unwrap();
    assert!(
        after.contains(
            "verification `pytest -q` fails now, so a later pass ends the run\nsession 2"
        ),
        "{text}"
    );
}

// shows: REL-23
#[test]
fn a_run_that_reaches_its_limit_says_how_to_go_on() {
    let mut scenario = Scenario::begin(None, false);
    for session in 1..=3 {
        scenario.ends(
            attempt(session, 1),
            EndCause::Completed,
            handoff("IN_PROGRESS"),
        );
    }
    scenario.pass(36_000);
    scenario.event(Event::RunResumed(RunResumed {
        ekiden: "0.1.0".to_owned(),
        limits: LimitsChanged {
            sessions_max: Some(5),
            ..LimitsChanged::default()
        },
        ..RunResumed::default()
    }));
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          122k      handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
        session 2 · 22:18
          122k      handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
        session 3 · 22:32
          122k      handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done

        stopped (3): session limit reached after 3 of 3 sessions · 42m · $5.52 · 1 of 2 items done
        knowledge  1 fact in .ekiden/KNOWLEDGE.md
        to continue:  ekiden resume -m 3
        run 7f3a continues · Sun 22 Nov 08:46 · up to session 8
        session 4 · Sun 22 Nov 08:46"#]]
    .assert_eq(&scenario.text());
}

// shows: REL-11
#[test]
fn a_wait_outlasts_the_engine_and_is_told_again() {
    let mut scenario = Scenario::begin(None, true);
    scenario.survey(&[]).window(1);
    let limit = EndCause::RateLimited {
        resets_at: None,
        kind: LimitKind::SevenDay,
    };
    scenario
        .ends(attempt(1, 1), limit, HandoffFiles::default())
        .pass(60);
    scenario.event(Event::RunResumed(RunResumed {
        ekiden: "0.1.0".to_owned(),
        ..RunResumed::default()
    }));
    scenario.wake();
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          window    1M tokens (opus), 200k usable (context.cap_tokens), hands off at 120k
          61% 122k  interrupted after 14m · 38 tool calls · $1.84
          ! the weekly limit is reached, and no reset time is known; session 1 continues in 5m
            `ekiden stop` stops the run, `ekiden resume` continues it
        run 7f3a continues · 22:19 · up to session 3
          ! the weekly limit is reached, and no reset time is known; session 1 continues in 4m
            `ekiden stop` stops the run, `ekiden resume` continues it
        session 1 · 22:23 · attempt 2, the same conversation"#]]
    .assert_eq(&scenario.text());
}

#[test]
fn waits_crashes_and_rescues_are_told() {
    let mut scenario = Scenario::begin(None, true);
    scenario.survey(&[]).window(1);
    let limit = EndCause::RateLimited {
        resets_at: Some(START + Millis::from_secs(5 * 3600)),
        kind: LimitKind::FiveHour,
    };
    scenario
        .ends(attempt(1, 1), limit, HandoffFiles::default())
        .wake()
        .window(1);
    scenario
        .ends(
            attempt(1, 2),
            EndCause::Crashed { exit: 1 },
            HandoffFiles::default(),
        )
        .wake();
    let level = RelayEvent::Attempt {
        attempt: attempt(1, 3),
        event: AttemptEvent::LevelCrossed {
            level: Level::L3,
            usage_tokens: 141_000,
            spend: Spend::default(),
            is_done: false,
        },
    };
    scenario.relay(level);
    scenario
        .ends(
            attempt(1, 3),
            EndCause::ContextFull,
            HandoffFiles::default(),
        )
        .survey(&[]);
    scenario.event(Event::StopRequested(StopRequest::Gently));
    scenario.event(Event::StopRequested(StopRequest::Now { signal: 2 }));
    scenario.ends(attempt(2, 1), EndCause::Stopped, HandoffFiles::default());
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          window    1M tokens (opus), 200k usable (context.cap_tokens), hands off at 120k
          61% 122k  interrupted after 14m · 38 tool calls · $1.84
          ! the 5-hour limit is reached until Sun 22 Nov 03:04 EET; session 1 continues 30s later, in 4h 46m
            `ekiden stop` stops the run, `ekiden resume` continues it
        session 1 · Sun 22 Nov 03:04 · attempt 2, the same conversation
          61% 122k  ended without a handoff after 14m · 38 tool calls · $1.84
          ! the agent crashed (exit code 1); session 1 is retried (attempt 3) in 2s
        session 1 · Sun 22 Nov 03:18 · attempt 3, the same conversation
          context   at 141k, 70% of 200k usable (context.cap_tokens): only the handoff may still be written
          61% 122k  ended without a handoff after 14m · 38 tool calls · $1.84
          ! no usable handoff (the context is full: the handoff came too late); rescue handoff written from what ekiden saw (session 1)
        session 2 · Sun 22 Nov 03:32
          ! session 2 is asked to hand off within 2m; ctrl-c again stops at once
          ! stopping at once
          61% 122k  stopped after 14m · 38 tool calls · $1.84

        stopped (130): at once, as you asked · 2 sessions · 5h 43m, of which 4h 46m waiting · $7.36
        problems   1 failed attempt (session 1), 1 rescue (1), limits for 4h 46m (1 time)
        to continue:  ekiden resume"#]].assert_eq(&scenario.text());
}

// shows: UIX-03
#[test]
fn a_wait_that_has_just_begun_has_not_been_waited_for() {
    let mut scenario = Scenario::begin(None, false);
    let limit = EndCause::RateLimited {
        resets_at: Some(START + Millis::from_secs(5 * 3600)),
        kind: LimitKind::FiveHour,
    };
    scenario.ends(attempt(1, 1), limit, HandoffFiles::default());
    let problems = |scenario: &Scenario| {
        let timeline = scenario.sessions.reporter.timeline.as_ref().unwrap();
        problems::line(timeline, None).unwrap().plain()
    };
    let told = problems(&scenario);
    assert_eq!(told, "problems   limits for 0s (1 time)");
    scenario.pass(90);
    scenario.event(Event::Steered(Steered {
        message: "a".to_owned().try_into().unwrap(),
        from: None,
        steering: Steering::Pause,
    }));
    let told = problems(&scenario);
    assert_eq!(told, "problems   limits for 1m 30s (1 time)");
}

// shows: UIX-03
#[test]
fn the_end_tells_the_sessions_that_a_person_allowed_meanwhile() {
    let mut scenario = Scenario::begin(None, false);
    let limits = LimitsChanged {
        sessions_max: Some(7),
        ..LimitsChanged::default()
    };
    scenario.event(Event::Steered(Steered {
        message: "a".to_owned().try_into().unwrap(),
        from: None,
        steering: Steering::ChangeLimits(Box::new(limits)),
    }));
    scenario.ends(attempt(1, 1), EndCause::Completed, complete());
    let end: serde_json::Value = serde_json::from_str(scenario.json.last().unwrap()).unwrap();
    assert_eq!(end["event"], "run_ended");
    assert_eq!(end["session_max"], 7);
    assert_eq!(end["sessions_max"], 7);
}

/// What it said before the first session still holds.
// shows: REL-08
#[test]
fn a_verification_after_a_resume_is_told_plainly_if_it_goes_otherwise_than_the_first() {
    let (passes, fails) = (CheckOutcome::Passed, CheckOutcome::Failed { code: 1 });
    for (first, now, told) in [
        (&fails, &passes, "passed in 41s\n\nverified complete"),
        (&passes, &fails, "failed in 41s (exit code 1)\nsession 2"),
        (&fails, &fails, "fails now, so a later pass ends the run"),
    ] {
        let mut scenario = Scenario::begin(Some("make test"), false);
        scenario.check(first.clone(), "");
        scenario.ends(attempt(1, 1), EndCause::Completed, handoff("BLOCKED"));
        scenario.check(fails.clone(), "");
        scenario.event(Event::RunResumed(RunResumed::default()));
        scenario.check(now.clone(), "");
        let text = scenario.text();
        let again = text.rsplit("`make test` ").next().unwrap();
        assert!(again.starts_with(told), "{text}");
    }
}

/// A stop that came before the handoff was looked at does not hide what it lists.
// shows: UIX-03
#[test]
fn the_end_counts_the_items_of_a_handoff_that_a_stop_overtook() {
    let mut scenario = Scenario::begin(None, true);
    scenario.survey(&[]);
    scenario.event(Event::StopRequested(StopRequest::Now { signal: 2 }));
    scenario.ends(attempt(1, 1), EndCause::Stopped, handoff("IN_PROGRESS"));
    let text = scenario.text();
    assert!(text.contains(" · 1 of 2 items done"), "{text}");
    assert!(Summary::of(&scenario.run).open.is_some());
}

#[test]
fn a_claim_that_the_verification_refutes_is_told() {
    let mut scenario = Scenario::begin(Some("make test"), false);
    scenario.check(CheckOutcome::Passed, "");
    scenario.ends(attempt(1, 1), EndCause::Completed, complete());
    scenario.check(CheckOutcome::TimedOut, "test 3\n");
    scenario.ends(
        attempt(2, 1),
        EndCause::AuthenticationFailed,
        HandoffFiles::default(),
    );
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        verification `make test` passes already, so the agent must also say all is done
        session 1 · 22:04
          122k      says all is done after 14m · 38 tool calls · $1.84
          verify    took too long: over 41s: test 3
          ! session 1 said all is done, but the verification does not pass; its output goes to the next session
        session 2 · 22:19
          122k      ended without a handoff after 14m · 38 tool calls · $1.84

        failed (69): the login is not accepted · 2 sessions · 30m · $3.68
        what to do:  log in with the agent, or set its key
        problems   1 veto (session 1)
        to continue:  ekiden resume"#]].assert_eq(&scenario.text());
}

#[test]
fn a_question_is_shown_whole() {
    let mut scenario = Scenario::begin(None, false);
    scenario.ends(attempt(1, 1), EndCause::Completed, handoff("BLOCKED"));
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          122k      needs your input after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done

        blocked (4): session 1 needs your input · 1 session · 14m · $1.84 · 1 of 2 items done
          Which currency do old invoices have?
        handoff    .ekiden/PROGRESS.md
        knowledge  1 fact in .ekiden/KNOWLEDGE.md
        answer     ekiden answer 'TEXT'     or: ekiden answer   (opens your editor)"#]]
    .assert_eq(&scenario.text());
}

/// PROGRESS.md has the report of the session that claimed to be done.
// shows: REL-35
#[test]
fn a_question_of_ekidens_own_names_no_file_that_does_not_have_it() {
    let mut scenario = Scenario::begin(None, false);
    scenario.ends(attempt(1, 1), EndCause::Completed, handoff("BLOCKED"));
    let described = |question: &str| {
        let question = question.to_owned();
        let (outcome, there) = (Outcome::Blocked { question }, ShownWorkDir::default());
        Description::of(&outcome, &scenario.run, START, &TimeZone::UTC, &there).questions
    };
    let asked = "Which currency do old invoices have?";
    assert_eq!(
        described(asked),
        [&format!("  {asked}"), "handoff    .ekiden/PROGRESS.md"]
    );
    let review = "The work is claimed to be done, but session 2 came to no verdict.";
    assert_eq!(described(review), [format!("  {review}")]);
}

/// In a plan, sessions of other stages work on when the first one finds no room.
// shows: REL-22, PLN-16
#[test]
fn a_spent_budget_is_told_as_of_the_end() {
    let mut scenario = Scenario::begin(None, false);
    scenario.ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    let outcome = Outcome::BudgetSpent {
        spent: Spend::default(),
        budget: Budget {
            micro_usd: Some(1_000_000),
            tokens: None,
        },
        agents: Vec::new(),
    };
    let there = ShownWorkDir::default();
    let said = Description::of(&outcome, &scenario.run, START, &TimeZone::UTC, &there);
    assert!(
        said.why.plain().ends_with(": $1.84 of $1.00"),
        "{:?}",
        said.why
    );
}

/// A run that commits on a branch, with files that are a person's.
fn committing() -> Scenario {
    let mut header = header(None, true);
    header.place.branch = Some("migrate".to_owned());
    let dirty = DirtyFile {
        path: "notes.txt".to_owned(),
        committed: None,
        content: None,
    };
    header.settings.commit = Some(CommitPlan {
        dirty: vec![dirty.clone(), dirty],
        branch: None,
    });
    Scenario::begun(header)
}

// shows: REL-18
#[test]
fn commits_are_told_with_what_stayed_out_and_why_there_is_none() {
    let mut scenario = committing();
    scenario
        .survey(&[])
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    let (id, left_out) = ("1a2b3c4d5e6f".to_owned(), vec!["notes.txt".to_owned()]);
    scenario
        .commit(Commit::Made {
            id,
            files: 12,
            elsewhere: None,
            left_out,
        })
        .survey(&[]);
    scenario.ends(attempt(2, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    let (error, tail) = (
        "git or a hook refused it (exit code 1)",
        "one\n\u{1b}[31mtwo\n\n3\n4\n5\n6\n",
    );
    scenario
        .commit(Commit::Failed {
            error: error.to_owned(),
            tail: tail.to_owned(),
        })
        .survey(&[]);
    scenario.ends(attempt(3, 1), EndCause::Completed, complete());
    scenario
        .commit(Commit::Nothing {
            left_out: Vec::new(),
        })
        .survey(&[]);
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        commits after each session on `migrate`; 2 files with earlier changes stay out of it
        session 1 · 22:04
          122k      handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
          commit    1a2b3c4, 12 files
          ! not committed, since they had changes before the run, cannot be read, fail in a git filter, or are submodules left behind: notes.txt
        session 2 · 22:18
          122k      handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
          note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
          ! session 2 is not committed: git or a hook refused it (exit code 1)
            one
            two
            …
            4
            5
            6
        session 3 · 22:32
          122k      says all is done after 14m · 38 tool calls · $1.84
          commit    nothing to commit

        complete (not verified) · 3 sessions · 42m · $5.52
        problems   1 session not committed (session 2)
        knowledge  1 fact in .ekiden/KNOWLEDGE.md
        next       git log --stat"#]].assert_eq(&scenario.text());
}

// shows: UIX-02
#[test]
fn programs_are_told_everything() {
    let mut scenario = Scenario::begin(Some("pytest -q"), false);
    scenario
        .check(CheckOutcome::Failed { code: 1 }, "x")
        .window(1);
    scenario.ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    scenario.check(CheckOutcome::Passed, "");
    expect_test::expect![[r#"
        {"v":1,"time":"2026-11-21T20:04:00.000Z","run":"7f3a0b1c","event":"run_started","ekiden":"0.1.0","task":"migrate.md","work_dir":"/home/me/project","agent":"claude","model":"opus","session_max":3,"levels":[50,60,70],"verification":"pytest -q","run_budget":{"micro_usd":null,"tokens":null}}
        {"v":1,"time":"2026-11-21T20:04:41.000Z","run":"7f3a0b1c","stage":"main","event":"first_check","command":"pytest -q","result":{"kind":"failed","code":1},"duration_ms":41000,"last_line":"x"}
        {"v":1,"time":"2026-11-21T20:04:41.000Z","run":"7f3a0b1c","stage":"main","event":"session_started","session":1,"attempt":1,"conversation":"fresh"}
        {"v":1,"time":"2026-11-21T20:04:41.000Z","run":"7f3a0b1c","stage":"main","event":"window","session":1,"model":"opus","window_tokens":1000000,"usable_tokens":200000,"handoff_tokens":120000}
        {"v":1,"time":"2026-11-21T20:18:47.000Z","run":"7f3a0b1c","stage":"main","event":"attempt_ended","session":1,"attempt":1,"left":"handoff","cause":"completed","duration_ms":846000,"usage_tokens":122300,"percent":61,"tool_calls":38,"cost_micro_usd":1840000,"estimated":false,"subscription":false,"tokens":0,"turns":0,"touched":[],"misplaced":[],"cautions":[],"malformed_lines":0,"goes_on":false}
        {"v":1,"time":"2026-11-21T20:18:47.000Z","run":"7f3a0b1c","stage":"main","event":"handoff","session":1,"next":"convert tests/test_billing; the fixtures in conftest.py are done","items_open":1,"items_done":1,"warnings":[],"facts":1}
        {"v":1,"time":"2026-11-21T20:19:28.000Z","run":"7f3a0b1c","stage":"main","event":"check","session":1,"command":"pytest -q","result":{"kind":"passed"},"duration_ms":41000,"last_line":null,"veto":false}
        {"v":1,"time":"2026-11-21T20:19:28.000Z","run":"7f3a0b1c","event":"run_ended","outcome":{"kind":"complete","verified":true},"exit_code":0,"sessions":1,"session_max":3,"sessions_max":3,"duration_ms":928000,"waiting_ms":0,"cost_micro_usd":1840000,"estimated":false,"subscription":false,"tokens":0,"items_open":1,"items_done":1,"facts":1,"files_changed":null,"next_command":"ekiden log 7f3a"}"#]].assert_eq(&scenario.json.join("\n"));
}

// shows: UIX-02
#[test]
fn every_event_and_field_is_documented() {
    let document = include_str!("../../../../docs/json.md");
    let mut told = Vec::new();
    let mut scenario = Scenario::begin(Some("x"), false);
    scenario.check(CheckOutcome::Passed, "").window(1);
    let limit = EndCause::RateLimited {
        resets_at: None,
        kind: LimitKind::Unknown,
    };
    scenario
        .ends(attempt(1, 1), limit, HandoffFiles::default())
        .wake();
    scenario.relay(RelayEvent::KnowledgeEdited {
        text: String::new(),
    });
    scenario.relay(RelayEvent::Task {
        effect: EFFECT,
        outcome: TaskOutcome::Surveyed {
            survey: Err("no git".to_owned()),
        },
    });
    let level = RelayEvent::Attempt {
        attempt: attempt(1, 2),
        event: AttemptEvent::LevelCrossed {
            level: Level::L1,
            usage_tokens: 1,
            spend: Spend::default(),
            is_done: false,
        },
    };
    scenario.relay(level).ends(
        attempt(1, 2),
        EndCause::ContextFull,
        HandoffFiles::default(),
    );
    scenario
        .check(CheckOutcome::TimedOut, "")
        .event(Event::StopRequested(StopRequest::Gently));
    scenario
        .ends(attempt(2, 1), EndCause::Completed, handoff("BLOCKED"))
        .check(CheckOutcome::TimedOut, "");
    scenario.event(Event::LogicChanged { seq: 1 });
    scenario.event(Event::RunResumed(RunResumed {
        ekiden: String::new(),
        ..RunResumed::default()
    }));
    let mut other = committing();
    other
        .survey(&[])
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    other.commit(Commit::Nothing {
        left_out: Vec::new(),
    });
    for line in scenario.json.iter().chain(&other.json) {
        let line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        told.push(line["event"].as_str().unwrap().to_owned());
        told.extend(line.keys().cloned());
    }
    for word in &told {
        assert!(document.contains(&format!("`{word}`")), "{word}");
    }
    told.sort();
    told.dedup();
    for event in [
        "rescue",
        "waiting",
        "survey_failed",
        "knowledge_edited",
        "logic_changed",
        "run_resumed",
        "level",
        "commit",
    ] {
        assert!(
            told.iter().any(|word| word == event),
            "the scenario has no {event}"
        );
    }
}

// shows: UIX-02
#[test]
fn every_result_of_a_check_and_a_commit_is_documented() {
    let text = String::new;
    let checks = [
        CheckOutcome::Passed,
        CheckOutcome::Failed { code: 1 },
        CheckOutcome::TimedOut,
        CheckOutcome::NotRun { error: text() },
        CheckOutcome::NoProgram { program: text() },
    ];
    let left_out = Vec::new;
    let commits = [
        Commit::Made {
            id: text(),
            files: 1,
            elsewhere: Some(text()),
            left_out: left_out(),
        },
        Commit::Elsewhere {
            branch: text(),
            found: None,
        },
        Commit::Nothing {
            left_out: left_out(),
        },
        Commit::Refused { tail: text() },
        Commit::Failed {
            error: text(),
            tail: text(),
        },
    ];
    let checks = checks.map(|check| serde_json::to_value(check).unwrap());
    let commits = commits.map(|commit| serde_json::to_value(commit).unwrap());
    let document = include_str!("../../../../docs/json.md");
    for result in checks.iter().chain(&commits) {
        let kind = format!("\"kind\": {}", result["kind"]);
        assert!(document.contains(&kind), "{kind}");
        for name in result.as_object().unwrap().keys() {
            let is_named = [format!("\"{name}\""), format!("`{name}`")];
            let is_named = is_named.iter().any(|name| document.contains(name));
            assert!(is_named, "{name}");
        }
    }
}

/// A writer whose text can be looked at.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

// shows: UIX-02
#[test]
fn the_moving_line_is_erased_before_any_other_and_drawn_only_if_it_moved() {
    let page = Page::default();
    let mut output = Output::to(page.clone(), true);
    let moving = Line::new(Tone::Plain, "moves");
    output.draw(std::slice::from_ref(&moving));
    output.draw(&[moving]);
    output.line("stays");
    output.erase();
    assert_eq!(
        page.text(),
        "\r\u{1b}[2Kmoves\n\u{1b}[J\u{1b}[1A\r\u{1b}[Jstays\n"
    );
}

/// The moving lines are found again in a window that became narrower, where they take more rows.
// shows: UIX-01
#[test]
fn lines_that_were_broken_by_a_narrower_window_are_erased_whole() {
    let page = Page::default();
    let mut output = Output::to(page.clone(), true);
    let line = "x".repeat(50);
    output.draw(&[
        Line::new(Tone::Plain, line.clone()),
        Line::new(Tone::Plain, "short"),
    ]);
    if let Some(screen) = &mut output.screen {
        screen.columns = || Some(20);
    }
    output.erase();
    assert!(page.text().ends_with("short\n\u{1b}[J\u{1b}[4A\r\u{1b}[J"));
}

// shows: UIX-04
#[test]
fn where_the_locale_knows_no_symbols_neither_answers_nor_messages_have_any() {
    let page = Page::default();
    let mut output = Output::to(io::sink(), true);
    output.writer = Writer::Here {
        answer: Box::new(page.clone()),
        messages: Box::new(page.clone()),
    };
    output.screen.as_mut().unwrap().utf_8 = false;
    let line = Line::new(Tone::Plain, "S01 · ≈$1");
    output.line(&line);
    output.message_line(&line);
    assert_eq!(page.text(), "S01 - ~$1\n".repeat(2));
}

// shows: UIX-02
#[test]
fn without_a_terminal_nothing_moves() {
    let page = Page::default();
    let mut output = Output::to(page.clone(), false);
    output.draw(&[Line::new(Tone::Plain, "moves")]);
    assert_eq!(page.text(), "");
}

/// It would erase what the shell's other commands print.
// shows: UIX-02
#[test]
fn in_the_background_nothing_moves() {
    let page = Page::default();
    let mut output = Output::to(page.clone(), true);
    output.screen.as_mut().unwrap().in_background = || true;
    let line = Line::new(Tone::Plain, "moves");
    output.draw(std::slice::from_ref(&line));
    output.draw_full(&[line]);
    output.line("stays");
    assert_eq!(page.text(), "stays\n");
}

// shows: UIX-03
#[test]
fn a_block_is_written_over_in_place_and_only_if_it_changed() {
    let page = Page::default();
    let mut output = Output::to(page.clone(), true);
    let line = |text: &str| Line::new(Tone::Plain, text);
    output.draw(&[line("one"), line("two")]);
    output.draw(&[line("one"), line("two")]);
    assert_eq!(page.text(), "\r\u{1b}[2Kone\n\r\u{1b}[2Ktwo\n\u{1b}[J");
    output.draw(&[line("over")]);
    assert!(
        page.text()
            .ends_with("\u{1b}[J\u{1b}[2A\r\r\u{1b}[2Kover\n\u{1b}[J"),
        "{:?}",
        page.text()
    );
}

// shows: UIX-03
#[test]
fn in_a_window_of_another_width_a_block_is_erased_before_it_is_drawn() {
    let page = Page::default();
    let mut output = Output::to(page.clone(), true);
    output.draw(&[Line::new(Tone::Plain, "one")]);
    output.screen.as_mut().unwrap().columns = || Some(50);
    output.draw(&[Line::new(Tone::Plain, "two")]);
    let text = page.text();
    assert!(
        text.ends_with("\u{1b}[1A\r\u{1b}[J\r\u{1b}[2Ktwo\n\u{1b}[J"),
        "{text:?}"
    );
}

// shows: UIX-04
#[test]
fn what_an_agent_wrote_cannot_act_on_a_terminal() {
    let page = Page::default();
    let mut output = Output::to(page.clone(), false).on_terminal();
    output.foreign("a\u{1b}[2Jb\u{1b}]0;title\u{7}c\u{202e}d\u{9b}31me\r\n\tf".as_bytes());
    assert_eq!(page.text(), "abcde\n\tf\n");
}

// shows: UIX-04
#[test]
fn json_on_a_terminal_is_the_same_json_and_acts_on_nothing() {
    let said = serde_json::json!({ "text": "a\u{9b}31mb\u{202e}c\u{e0041}ä\u{1b}[0m" });
    let page = Page::default();
    let mut output = Output::to(page.clone(), false).on_terminal();
    output.json(&said);
    let text = page.text();
    assert_eq!(
        text,
        "{\"text\":\"a\\u009b31mb\\u202ec\\udb40\\udc41ä\\u001b[0m\"}\n"
    );
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read, said);
}

/// A directory's name, or a value in its settings.
// shows: UIX-04
#[test]
fn what_a_cloned_project_holds_cannot_act_on_a_terminal() {
    let hostile = "a\u{1b}]0;title\u{7}b\u{1b}[8mc";
    let page = Page::default();
    let mut output = Output::nowhere();
    output.coloured = (true, true);
    output.writer = Writer::Here {
        answer: Box::new(page.clone()),
        messages: Box::new(page.clone()),
    };
    output.line(hostile);
    let failure = Failure::new(Exit::Settings, hostile).hint(hostile);
    output.failure(&failure.details([hostile.to_owned()]));
    assert_eq!(page.text().matches("abc").count(), 4, "{:?}", page.text());
}

// shows: MEM-12
#[test]
fn secrets_are_masked_in_all_that_is_printed() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let text = format!("it is {secret} now");
    let line = Line::labelled("says", Tone::Plain, &text);
    let masked = "it is [masked: github token] now";
    let page = Page::default();
    let mut output = Output::to(page.clone(), false);
    output.line(&line);
    output.answer(&format!("{text}\n"));
    output.json(&serde_json::json!({ "text": format!("\n{secret}\"") }));
    output.foreign(&[b"\xff", text.as_bytes(), b"\n"].concat());
    let printed = String::from_utf8_lossy(&page.0.lock().unwrap()).into_owned();
    let json = r#"{"text":"\n[masked: github token]\""}"#;
    let expected = format!("  says      {masked}\n{masked}\n{json}\n\u{fffd}{masked}\n");
    assert_eq!(printed, expected);

    let page = Page::default();
    let mut output = Output::to(page.clone(), true);
    output.draw(&[line]);
    output.foreign(text.as_bytes());
    assert_eq!(page.text().matches(masked).count(), 2, "{:?}", page.text());

    let messages = Page::default();
    let mut output = Output::nowhere();
    output.writer = Writer::Here {
        answer: Box::new(io::sink()),
        messages: Box::new(messages.clone()),
    };
    output.warn(&text);
    output.failure(&Failure::new(Exit::Usage, &text).hint(&text));
    assert_eq!(
        messages.text().matches(masked).count(),
        3,
        "{:?}",
        messages.text()
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error_but_a_full_disk_is() {
    let exit = |kind| {
        let mut output = Output::to(Broken(kind), false);
        output.answer("one\n");
        output.answer("two\n");
        output.finish(Exit::Done).code()
    };
    assert_eq!(exit(io::ErrorKind::BrokenPipe), 0);
    assert_eq!(exit(io::ErrorKind::StorageFull), 74);
    let mut output = Output::to(Broken(io::ErrorKind::BrokenPipe), false);
    assert!(!output.is_unread());
    output.answer("one\n");
    assert!(output.is_unread());
}

// shows: REL-22
#[test]
fn a_budget_is_told_where_it_begins_to_bind_and_how_to_go_on() {
    let mut scenario = Scenario::of(|header| {
        header.settings.bounds.run = Budget {
            micro_usd: Some(2_000_000),
            tokens: None,
        };
    });
    let spend = Spend {
        micro_usd: 1_810_000,
        tokens: 90_000,
        estimated: true,
    };
    let crossing = Crossing {
        mark: Mark::Nearly,
        measure: Measure::Money,
        spend,
        turns: 40,
    };
    scenario.relay(RelayEvent::Attempt {
        attempt: attempt(1, 1),
        event: AttemptEvent::SpendCrossed { crossing },
    });
    scenario.ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions, at most $2.00 · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          budget    ≈$1.81 used; session 1 is asked to hand off
          122k      handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done

        stopped (3): the budget has no room for another session: $1.84 of $2.00 · 1 session · 14m · $1.84 · 1 of 2 items done
        knowledge  1 fact in .ekiden/KNOWLEDGE.md
        to continue:  ekiden resume --run-budget 4"#]].assert_eq(&scenario.text());
    expect_test::expect![[r#"{"v":1,"time":"2026-11-21T20:04:00.000Z","run":"7f3a0b1c","stage":"main","event":"spend","session":1,"mark":"nearly","measure":"money","cost_micro_usd":1810000,"estimated":true,"tokens":90000,"turns":40}"#]].assert_eq(scenario.json.iter().find(|line| line.contains("spend")).unwrap());
}

// shows: REL-22
#[test]
fn a_session_that_has_used_all_is_told_with_a_cost_that_is_a_guess() {
    let mut scenario = Scenario::of(|header| {
        header.settings.bounds.session = Budget {
            micro_usd: Some(2_000_000),
            tokens: None,
        };
    });
    let spend = Spend {
        micro_usd: 2_100_000,
        tokens: 90_000,
        estimated: true,
    };
    for mark in [Mark::Spent, Mark::Beyond] {
        let crossing = Crossing {
            mark,
            measure: Measure::Money,
            spend,
            turns: 40,
        };
        scenario.relay(RelayEvent::Attempt {
            attempt: attempt(1, 1),
            event: AttemptEvent::SpendCrossed { crossing },
        });
    }
    scenario.ends(
        attempt(1, 1),
        EndCause::BudgetSpent,
        HandoffFiles::default(),
    );
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          ! session 1 has used all it may (≈$2.10); its turn is ended
          ! session 1 continued after that (≈$2.10); it is ended
          122k      ended without a handoff after 14m · 38 tool calls · $1.84
          ! no usable handoff (the session's budget is spent); rescue handoff written from what ekiden saw (session 1)
        session 2 · 22:18"#]].assert_eq(&scenario.text());
}

// shows: UIX-11
#[test]
fn a_session_that_hands_off_since_its_time_is_up_says_so_with_the_time_of_day() {
    let mut scenario = Scenario::of(|header| {
        header.settings.bounds.session_timeout = Some(Millis::from_secs(1800));
    });
    scenario.relay(RelayEvent::Attempt {
        attempt: attempt(1, 1),
        event: AttemptEvent::Started { pid: 7 },
    });
    scenario.window(1);
    // The wall clock is set six hours forward.
    scenario.pass(6 * 3600).relay(RelayEvent::Woke);
    scenario.ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          window    1M tokens (opus), 200k usable (context.cap_tokens), hands off at 120k
          time      time limit of 30m reached at Sun 22 Nov 04:04; session 1 is asked to hand off
          61% 122k  handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
        session 2 · Sun 22 Nov 04:18"#]]
    .assert_eq(&scenario.text());
}

// shows: UIX-11
#[test]
fn an_agent_that_cannot_be_asked_to_hand_off_is_not_said_to_be() {
    let mut scenario = Scenario::of(|header| {
        header.settings.agent.kind = AgentKind::Exec;
        header.settings.bounds.session_timeout = Some(Millis::from_secs(1800));
    });
    scenario.relay(RelayEvent::Attempt {
        attempt: attempt(1, 1),
        event: AttemptEvent::Started { pid: 7 },
    });
    scenario.pass(1800).relay(RelayEvent::Woke);
    scenario.event(Event::StopRequested(StopRequest::Gently));
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus) · migrate.md
        session 1 · 22:04
          time      time limit of 30m reached at 22:34; session 1 may finish within 5m; then it is ended
          ! session 1 may finish within 2m; then it is ended; ctrl-c again stops at once"#]]
    .assert_eq(&scenario.text());
}

/// Who looks up the setting would find another number there.
// shows: UIX-02
#[test]
fn a_share_names_the_limit_of_the_stage_if_that_is_the_cap() {
    let mut scenario = Scenario::of(|header| {
        header.manifest.stages[0].part.session_tokens = Some(120_000);
    });
    scenario.window(1);
    let text = scenario.text();
    let window = "200k usable (session_tokens of the stage), hands off at 120k";
    assert!(text.contains(window), "{text}");
}

/// Every percentage has the same base: the usable window.
// shows: UIX-02
#[test]
fn a_share_names_the_cap_where_it_would_surprise() {
    let mut scenario = Scenario::of(|_| {});
    scenario.window(1);
    scenario.relay(RelayEvent::Attempt {
        attempt: attempt(1, 1),
        event: AttemptEvent::BaselineMeasured {
            level: Level::L1,
            usage_tokens: 110_000,
            filled_by: Vec::new(),
        },
    });
    scenario.ends_with(
        231_000,
        attempt(1, 1),
        EndCause::Completed,
        handoff("IN_PROGRESS"),
    );
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          window    1M tokens (opus), 200k usable (context.cap_tokens), hands off at 120k
          ! the first response already takes 55% of 200k usable (context.cap_tokens), 110k tokens
          115% 231k  handed off after 14m · 38 tool calls · $1.84 · more than the 200k usable (context.cap_tokens)
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
        session 2 · 22:18"#]]
    .assert_eq(&scenario.text());
}

// shows: UIX-11
#[test]
fn git_s_log_is_offered_only_where_a_commit_was_made() {
    let next = |commits: &[&str]| {
        let mut scenario = Scenario::begin(None, true);
        scenario
            .survey(&[])
            .ends(attempt(1, 1), EndCause::Completed, complete());
        let commits = commits.iter().map(|line| (*line).to_owned()).collect();
        let survey = Ok(Survey {
            commits,
            ..Survey::default()
        });
        scenario.relay(RelayEvent::Task {
            effect: EFFECT,
            outcome: TaskOutcome::Surveyed { survey },
        });
        scenario.lines.pop().unwrap()
    };
    assert_eq!(next(&[]), "next       ekiden log 7f3a");
    assert_eq!(next(&["1a2b3c4 tests"]), "next       git log --stat");
}

// shows: REL-31
#[test]
fn a_window_that_is_full_from_the_start_is_told_with_what_fills_it() {
    let mut scenario = Scenario::of(|_| {});
    let filled_by = vec![
        ("MCP tools".to_owned(), 81_000),
        ("Memory files".to_owned(), 30_400),
    ];
    let event = |level| RelayEvent::Attempt {
        attempt: attempt(1, 1),
        event: AttemptEvent::BaselineMeasured {
            level,
            usage_tokens: 122_300,
            filled_by: filled_by.clone(),
        },
    };
    scenario.relay(event(Level::L1));
    scenario.relay(event(Level::L2));
    scenario.ends(attempt(1, 1), EndCause::Stopped, HandoffFiles::default());
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          ! the first response already takes 122k tokens: MCP tools 81k, Memory files 30k
          ! the first response already takes 122k tokens: MCP tools 81k, Memory files 30k
          122k      stopped after 14m · 38 tool calls · $1.84

        failed (78): the first response already took 122k tokens: there is no room to work · 1 session · 14m · $1.84
        what fills it: MCP tools 81k, Memory files 30k
        what to do:  give the agent fewer tools, servers and memory files, a shorter task, or, in a new run, more room (--new with --model, --context-cap-tokens or --levels)
        to continue after that:  ekiden resume"#]].assert_eq(&scenario.text());
}

// shows: REL-11
#[test]
fn a_longer_wait_is_suggested_only_where_one_wait_is_too_long() {
    let scenario = Scenario::of(|header| header.settings.wait_max = Millis::from_secs(3600));
    let command = |secs| {
        let until = scenario.now + Millis::from_secs(secs);
        let outcome = Outcome::LimitTooFar { until };
        resume_command(&outcome, &scenario.run, scenario.now, "")
    };
    assert_eq!(command(3601), "ekiden resume --max-wait 2h");
    // Several waits without a known reset time.
    assert_eq!(command(300), "ekiden resume");
}

// shows: RUN-15
#[test]
fn an_imported_run_is_not_said_to_be_stopping() {
    let stop = || Event::StopRequested(StopRequest::Gently);
    let mut scenario = Scenario::of(|header| {
        header.imported = Some(Imported {
            from: ".cleave".to_owned(),
            hash: String::new(),
            sessions: Vec::new(),
            stages: BTreeMap::new(),
        });
    });
    scenario.event(stop());
    assert!(!scenario.text().contains("  ! "), "{}", scenario.text());
    let told = scenario
        .json
        .iter()
        .any(|line| line.contains("stop_requested"));
    assert!(told);
    // Later a person continues it, and asks for it.
    scenario.event(Event::RunResumed(RunResumed::default()));
    scenario.event(stop());
    assert!(scenario.text().contains("  ! "), "{}", scenario.text());
}

// shows: REL-12
#[test]
fn quiet_hours_and_a_limit_that_is_not_waited_for_name_their_time() {
    let mut scenario = Scenario::of(|header| {
        header.settings.bounds.quiet_hours = "22:18-07:00".parse().unwrap();
        header.settings.bounds.utc_offset_secs = 7200;
        header.settings.bounds.on_rate_limit = ekiden_core::bounds::OnRateLimit::Stop;
    });
    scenario
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"))
        .wake();
    let resets_at = Some(scenario.now + Millis::from_secs(3600));
    let kind = ekiden_core::ends::LimitKind::FiveHour;
    scenario.ends(
        attempt(2, 1),
        EndCause::RateLimited { resets_at, kind },
        HandoffFiles::default(),
    );
    expect_test::expect![[r#"
        run 7f3a · relay, at most 3 sessions · claude (opus), hands off at 60% · migrate.md
        session 1 · 22:04
          122k      handed off after 14m · 38 tool calls · $1.84
          items     1 of 2 done
          next      convert tests/test_billing; the fixtures in conftest.py are done
          quiet     session 2 begins at Sun 22 Nov 07:00 EET
        session 2 · Sun 22 Nov 07:00
          122k      interrupted after 14m · 38 tool calls · $1.84

        stopped (3): a usage limit is reached; the next try would be at 08:00 EET · 2 sessions · 9h 10m, of which 8h 42m waiting · $3.68 · 1 of 2 items done
        knowledge  1 fact in .ekiden/KNOWLEDGE.md
        to continue then:  ekiden resume"#]].assert_eq(&scenario.text());
}
