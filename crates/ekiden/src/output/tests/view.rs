//! The live view, looked at as text.

use ekiden_core::budget::Spend;
use ekiden_core::event::{PreparedWorktree, WorktreeEvent};
use ekiden_core::manifest::{Isolation, Need, PlanRules};
use ekiden_core::settings::Before;
use ekiden_wire::reading::Form;
use textwrap::core::display_width;

use super::*;
use crate::output::board::Board;
use crate::output::full::Full;
use crate::output::prompting::{Key, Move, Prompting, Wanted};
use crate::output::relay_progress::Activity;
use crate::output::stage_table::{self, StageGroup};
use crate::output::view::{self, Frame};

/// A board that saw what a run did.
struct Watched {
    scenario: Scenario,
    board: Board,
}

impl Watched {
    fn of(scenario: Scenario) -> Self {
        let mut board = Board::default();
        let mut again: Option<Run> = None;
        for record in &scenario.records {
            match (&mut again, &record.event) {
                (None, Event::RunStarted(header)) => {
                    again = Some(Run::begin(record.time, header).0);
                }
                (None, _) => {}
                (Some(run), event) => drop(run.step(record.time, event)),
            }
            board.follow(record, again.as_ref().unwrap());
        }
        board.summary = Some(Summary::of(&scenario.run));
        Self { scenario, board }
    }

    /// A stage's session has done something for a minute.
    fn works(&mut self, stage: &StageId, tokens: u64, text: &str) {
        let now = self.scenario.now;
        let progress = self.board.relay(stage).unwrap();
        let window = Window {
            model_tokens: 200_000,
            compaction_tokens: None,
            reserve_tokens: 0,
            cap_tokens: None,
        };
        progress.uses(tokens / 2, window, now);
        progress.uses(tokens, window, now + Millis::from_secs(60));
        progress.spend = Spend {
            micro_usd: 610_000,
            tokens: 90_000,
            estimated: true,
        };
        progress.activity = Some(Activity {
            text: text.to_owned(),
            since: Some(now + Millis::from_secs(48)),
        });
    }

    fn lines(&self, prompting: Option<&Prompting>, columns: usize, rows: usize) -> Vec<Line> {
        let zone = TimeZone::posix("EET-2EEST,M3.5.0/3,M10.5.0/4").unwrap();
        let frame = Frame {
            now: self.scenario.now + Millis::from_secs(60),
            zone: &zone,
            columns,
            rows,
        };
        view::lines(&self.board, prompting, frame)
    }

    fn shown(&self, prompting: &Prompting, columns: usize) -> String {
        let lines = self.lines(Some(prompting), columns, 24);
        let lines = lines.iter().map(|line| line.cut(columns - 1, false) + "\n");
        format!("{columns}\n{}", lines.collect::<String>())
    }

    fn at_each_width(&self) -> String {
        let prompting = Prompting::new(Some("q leave"));
        [60, 80, 200]
            .map(|columns| self.shown(&prompting, columns))
            .concat()
    }
}

fn relay() -> Watched {
    let mut scenario = Scenario::of(|header| {
        header.settings.bounds.run.micro_usd = Some(20_000_000);
    });
    scenario
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"))
        .window(2);
    Watched::of(scenario)
}

// shows: UIX-01
#[test]
fn a_relay_at_work_is_seen_at_each_width() {
    let mut watched = relay();
    let text = "Bash cargo test --workspace --all-features -- --test-threads=2 the_tests_of_billing_and_of_the_audit";
    watched.works(&StageId::only(), 68_000, text);
    watched.board.relay(&StageId::only()).unwrap().subagents = 2;
    expect_test::expect![[r#"
        60
          2 of 3 ▕███▍ ┊┊┊  ▏ 34% 68k of 200k  +34k a minute  1m
          now       2 subagents · 12s  Bash cargo test --workspace…
          cost      ≈$2.45 of $20.00 · 15m
          learned   The client needs a region.
          open      1 item of 2, next: billing
          p pause  n next  s stop  q leave  f full screen  l limits
          m message  o handoff
        80
          2 of 3 ▕███▍ ┊┊┊  ▏ 34% 68k of 200k  +34k a minute  1m
          now       2 subagents · 12s  Bash cargo test --workspace --all-features -- -…
          cost      ≈$2.45 of $20.00 · 15m
          learned   The client needs a region.
          open      1 item of 2, next: billing
          p pause  n next  s stop  q leave  f full screen  l limits  m message
          o handoff
        200
          2 of 3 ▕███▍ ┊┊┊  ▏ 34% 68k of 200k  +34k a minute  1m
          now       2 subagents · 12s  Bash cargo test --workspace --all-features -- --test-threads=2 the_tests_of_billing_and_of_the_audit
          cost      ≈$2.45 of $20.00 · 15m
          learned   The client needs a region.
          open      1 item of 2, next: billing
          p pause  n next  s stop  q leave  f full screen  l limits  m message  o handoff
    "#]].assert_eq(&watched.at_each_width());
}

// shows: UIX-01
#[test]
fn a_session_that_reports_nothing_is_working_and_not_counted() {
    let exec = Scenario::of(|header| {
        header.settings.agent.kind = AgentKind::Exec;
        header.settings.bounds.run.micro_usd = Some(5_000_000);
    });
    let own = Scenario::of(|header| header.settings.agent.interface = Interface::Terminal);
    let shown = [exec, own].map(|of| Watched::of(of).shown(&Prompting::new(None), 80));
    expect_test::expect![[r#"
        80
          1 of 3  working  1m
          cost      not counted · 1m
          p pause  n next  s stop  f full screen  l limits  m message
        80
          1 of 3  working  1m
          cost      not counted · 1m
          p pause  n next  s stop  f full screen  l limits  m message
    "#]]
    .assert_eq(&shown.concat());
}

// shows: UIX-01
#[test]
fn a_wait_and_a_pause_are_seen() {
    let mut scenario = Scenario::begin(None, false);
    let limited = EndCause::RateLimited {
        resets_at: Some(START + Millis::from_secs(5 * 3600)),
        kind: LimitKind::FiveHour,
    };
    scenario.ends(attempt(1, 1), limited, HandoffFiles::default());
    let waits = Watched::of(scenario);
    let mut paused = relay().scenario;
    paused.event(Event::Steered(Steered {
        message: "a".to_owned().try_into().unwrap(),
        from: None,
        steering: Steering::Pause,
    }));
    let paused = Watched::of(paused);
    let prompting = Prompting::new(Some("d detach"));
    let shown = [waits, paused].map(|watched| watched.shown(&prompting, 80));
    expect_test::expect![[r#"
        80
          1 of 3  waiting 4h 45m, until Sun 22 Nov 03:04:30  the 5-hour limit is reach…
          cost      $1.84 · 15m
          p pause  n next  s stop  d detach  f full screen  l limits  m message
        80
          2 of 3  starting  1m
          cost      $1.84 of $20.00 · 15m
          learned   The client needs a region.
          open      1 item of 2, next: billing
                    paused: nothing new begins
          p unpause  n next  s stop  d detach  f full screen  l limits  m message
          o handoff
    "#]]
    .assert_eq(&shown.concat());
}

/// On a fleet, where a machine may lack what the setup needs.
// shows: FLT-01
#[test]
fn a_setup_that_failed_on_another_machine_is_told() {
    let mut scenario = plan(1);
    let mut theirs = header(None, false);
    theirs.before = Some(Box::new(Before {
        not_set_up: Some("`npm ci` failed (exit code 1)".to_owned()),
        ..Before::default()
    }));
    let event = Event::RunStarted(Box::new(theirs));
    scenario.record(
        event.elsewhere(&"S01".to_owned().try_into().unwrap(), 1),
        Vec::new(),
    );
    let text = scenario.text();
    let told = "! begins without its setup: `npm ci` failed (exit code 1)";
    assert!(text.ends_with(told), "{text}");
}

fn plan(stages: u32) -> Scenario {
    plan_with(stages, |_| ())
}

fn plan_with(stages: u32, change: impl FnOnce(&mut RunStarted)) -> Scenario {
    let only = header(None, false).manifest.stages.remove(0);
    Scenario::of(|header| {
        header.manifest.plan = Some(Box::new(PlanRules {
            project: "recipes".to_owned(),
            file: "plan.toml".to_owned(),
            hash: "0".repeat(64),
            jobs: 4,
            isolation: Isolation::Worktrees {
                dir: "/tmp/worktrees".to_owned(),
                base: "0".repeat(40),
                branch: None,
                copy: Vec::new(),
                setup: None,
            },
            architecture: String::new(),
            document: String::new(),
        }));
        header.manifest.stages = (1..=stages)
            .map(|number| {
                let mut stage = only.clone();
                stage.id = format!("S{number:02}").try_into().unwrap();
                stage.task_name = format!("part {number} of the recipes");
                if number > 4 {
                    let id = format!("S{:02}", number - 4).try_into().unwrap();
                    stage.part.needs = vec![Need {
                        stage: id,
                        optional: false,
                    }];
                }
                stage
            })
            .collect();
        change(header);
    })
}

/// A stage's worktree is there, and its first session begins.
fn begin(scenario: &mut Scenario, stage: &str) {
    let stage: StageId = stage.to_owned().try_into().unwrap();
    scenario.event(Event::Worktree {
        stage: stage.clone(),
        effect: EFFECT,
        event: WorktreeEvent::Prepared {
            worktree: Ok(PreparedWorktree::default()),
        },
    });
    scenario.event(Event::Stage {
        stage,
        event: RelayEvent::Task {
            effect: EFFECT,
            outcome: TaskOutcome::Surveyed {
                survey: Ok(Survey::default()),
            },
        },
    });
}

/// A person steers the run.
fn steer(scenario: &mut Scenario, steering: Steering) {
    scenario.event(Event::Steered(Steered {
        message: format!("m-{}", scenario.seq).try_into().unwrap(),
        from: None,
        steering,
    }));
}

// shows: UIX-01
#[test]
fn a_plan_tells_which_session_has_no_room_for_a_message() {
    let mut scenario = plan(2);
    begin(&mut scenario, "S01");
    let said = ["x".repeat(3_990), "spare the docs".to_owned()];
    for words in said {
        steer(&mut scenario, Steering::Instruct { words });
    }
    let told: Vec<&str> = scenario
        .lines
        .iter()
        .rev()
        .take(2)
        .map(|line| &**line)
        .collect();
    assert_eq!(
        told[0],
        "  ! no room for another message to the next session of S01: spare the docs"
    );
    assert!(
        told[1].contains("the next session of each stage will read: xxx"),
        "{}",
        told[1]
    );
}

// shows: RUN-14
#[test]
fn what_is_asked_of_a_plan_is_asked_of_all_its_sessions() {
    let lines = |stages: &[&str]| {
        let mut scenario = plan(2);
        for stage in stages {
            begin(&mut scenario, stage);
        }
        steer(&mut scenario, Steering::Pause);
        scenario.event(Event::StopRequested(StopRequest::Gently));
        let lines = scenario.lines.iter().map(|line| line.trim());
        let asked: Vec<&str> = lines.filter(|line| line.starts_with('!')).collect();
        asked.join("\n")
    };
    expect_test::expect![[r#"
        ! nothing begins after session 1 of stage S01; `ekiden unpause` takes that back
        ! session 1 of stage S01 is asked to hand off within 2m; ctrl-c again stops at once"#]]
    .assert_eq(&lines(&["S01"]));
    expect_test::expect![[r#"
        ! nothing begins after these sessions; `ekiden unpause` takes that back
        ! each of the 2 sessions is asked to hand off within 2m; ctrl-c again stops at once"#]]
    .assert_eq(&lines(&["S01", "S02"]));
}

// shows: REL-38
#[test]
fn a_reviewer_is_asked_for_its_verdict_and_what_it_leaves_is_not_the_session_s() {
    let mut scenario = Scenario::of(|header| {
        header.settings.reviewer = Some(Box::new(header.settings.agent.clone()));
    });
    scenario.survey(&[]);
    scenario.ends(attempt(1, 1), EndCause::Completed, complete());
    scenario.survey(&["?? work.txt"]).survey(&["?? work.txt"]);
    steer(&mut scenario, Steering::HandOff);
    let asked = scenario.lines.last().unwrap();
    assert_eq!(asked, "  ! session 2 is asked for its verdict");
    let relay = scenario.run.relay(&StageId::only()).unwrap();
    assert_eq!(crate::output::phrase::doing(relay), "reviewing");
    scenario.ends(
        attempt(2, 1),
        EndCause::ContextFull,
        HandoffFiles::default(),
    );
    let survey = Err("git is gone".to_owned());
    scenario.relay(RelayEvent::Task {
        effect: EFFECT,
        outcome: TaskOutcome::Surveyed { survey },
    });
    let text = scenario.text();
    assert!(text.contains("session 2 needs your input"), "{text}");
    scenario.event(Event::RunResumed(RunResumed::default()));
    scenario.survey(&["?? stray.txt"]);
    let first = scenario.sessions.get(1).unwrap().kept;
    let status = &first.survey.as_ref().unwrap().status;
    assert_eq!(status, &["?? work.txt"]);
}

// shows: UIX-01
#[test]
fn a_plan_of_twelve_stages_is_seen_at_each_width() {
    let mut scenario = plan(12);
    for stage in ["S02", "S03", "S04"] {
        begin(&mut scenario, stage);
    }
    let mut watched = Watched::of(scenario);
    let at_work: Vec<StageId> = watched
        .scenario
        .run
        .live()
        .map(|(id, _)| id.clone())
        .collect();
    for (stage, tokens) in at_work.iter().zip([20_000, 68_000, 121_000]) {
        watched.works(stage, tokens, "Bash pytest -q");
    }
    expect_test::expect![[r#"
        60
          12 stages · 3 running · 1 preparing · 8 waiting
          S02  1 of 3 ▕█    ┊┊┊  ▏ 10% 20k  1m  ≈$0.61  Bash pytes…
          S03  1 of 3 ▕███▍ ┊┊┊  ▏ 34% 68k  1m  ≈$0.61  Bash pytes…
          S04  1 of 3 ▕██████┊┊  ▏ 60% 121k  1m  ≈$0.61  Bash pyte…
          S01  preparing  part 1 of the recipes
          S05  waiting    part 5 of the recipes  needs S01
          S06  waiting    part 6 of the recipes  needs S02
          S07  waiting    part 7 of the recipes  needs S03
          S08  waiting    part 8 of the recipes  needs S04
          S09  waiting    part 9 of the recipes  needs S05
          and 3 more stages
          cost      ≈$1.83 · 1m · 4 of 4 slots
          p pause  n next  s stop  q leave  f full screen  l limits
          m message
        80
          12 stages · 3 running · 1 preparing · 8 waiting
          S02  1 of 3 ▕█    ┊┊┊  ▏ 10% 20k  1m  ≈$0.61  Bash pytest -q
          S03  1 of 3 ▕███▍ ┊┊┊  ▏ 34% 68k  1m  ≈$0.61  Bash pytest -q
          S04  1 of 3 ▕██████┊┊  ▏ 60% 121k  1m  ≈$0.61  Bash pytest -q
          S01  preparing  part 1 of the recipes
          S05  waiting    part 5 of the recipes  needs S01
          S06  waiting    part 6 of the recipes  needs S02
          S07  waiting    part 7 of the recipes  needs S03
          S08  waiting    part 8 of the recipes  needs S04
          S09  waiting    part 9 of the recipes  needs S05
          and 3 more stages
          cost      ≈$1.83 · 1m · 4 of 4 slots
          p pause  n next  s stop  q leave  f full screen  l limits  m message
        200
          12 stages · 3 running · 1 preparing · 8 waiting
          S02  1 of 3 ▕█    ┊┊┊  ▏ 10% 20k  1m  ≈$0.61  Bash pytest -q
          S03  1 of 3 ▕███▍ ┊┊┊  ▏ 34% 68k  1m  ≈$0.61  Bash pytest -q
          S04  1 of 3 ▕██████┊┊  ▏ 60% 121k  1m  ≈$0.61  Bash pytest -q
          S01  preparing  part 1 of the recipes
          S05  waiting    part 5 of the recipes  needs S01
          S06  waiting    part 6 of the recipes  needs S02
          S07  waiting    part 7 of the recipes  needs S03
          S08  waiting    part 8 of the recipes  needs S04
          S09  waiting    part 9 of the recipes  needs S05
          and 3 more stages
          cost      ≈$1.83 · 1m · 4 of 4 slots
          p pause  n next  s stop  q leave  f full screen  l limits  m message
    "#]]
    .assert_eq(&watched.at_each_width());
    let summary = watched.board.summary.as_mut().unwrap();
    let stages = summary.plan.iter_mut().flat_map(|plan| &mut plan.stages);
    stages.for_each(|stage| stage.place = StageGroup::Over);
    let shown = watched.shown(&Prompting::new(None), 80);
    assert!(
        shown.contains("8 waiting · removing worktrees\n"),
        "{shown}"
    );
}

/// A stage that asks is shown with its question and the key that answers it.
// shows: UIX-01
#[test]
fn a_plan_that_is_blocked_shows_what_is_asked() {
    let mut scenario = plan(5);
    let ended = AttemptEnded {
        cause: EndCause::Completed,
        files: handoff("BLOCKED"),
        touched: Vec::new(),
        misplaced: Vec::new(),
        resumable: true,
        counters: Counters::default(),
        traces: Traces::default(),
    };
    let stage: StageId = "S01".to_owned().try_into().unwrap();
    begin(&mut scenario, "S01");
    for event in [
        RelayEvent::Attempt {
            attempt: attempt(1, 1),
            event: AttemptEvent::Ended(Box::new(ended)),
        },
        RelayEvent::Task {
            effect: EFFECT,
            outcome: TaskOutcome::Surveyed {
                survey: Ok(Survey::default()),
            },
        },
    ] {
        let stage = stage.clone();
        scenario.event(Event::Stage { stage, event });
    }
    let text = scenario.text();
    let asked = text.split_once("needs your input:").unwrap().1;
    expect_test::expect![[r#"

          Which currency do old invoices have?
          in full  .ekiden/handoffs/S01.md
        blocked by S01"#]]
    .assert_eq(asked);
    let watched = Watched::of(scenario);
    let mut prompting = Prompting::new(Some("d detach"));
    expect_test::expect![[r#"
        80
          5 stages · 3 preparing · 1 asks · 1 blocked
          S02  preparing  part 2 of the recipes
          S03  preparing  part 3 of the recipes
          S04  preparing  part 4 of the recipes
          ! S01 asks: Which currency do old invoices have?
          cost      nothing yet · 1m · 3 of 4 slots
          a answer  p pause  n next  s stop  d detach  f full screen  l limits
          m message  o handoff
    "#]]
    .assert_eq(&watched.shown(&prompting, 80));
    let summary = watched.board.summary.as_ref().unwrap();
    let words = "euros".to_owned();
    assert_eq!(
        press(&mut prompting, "aeuros\n", summary),
        [Wanted::Steer(Steering::Answer {
            stage,
            words: words.clone()
        })]
    );
    // Somebody else answers, and the stage asks again, while this person types.
    let mut now = summary.clone();
    now.asked[0].1 = "Drop the old invoices?".to_owned();
    press(&mut prompting, "aeuros", summary);
    assert_eq!(press(&mut prompting, "\n", &now), []);
    let shown = watched.shown(&prompting, 80);
    let told = "  this question was answered, or has changed\n  answer S01: euros▏\n";
    assert!(shown.ends_with(told), "{shown}");
}

/// By the agents that may work in it, and not by those of the whole run.
// shows: UIX-01, AGT-06
#[test]
fn what_a_stream_is_depends_on_its_stage() {
    let claude = header(None, false).settings.agent;
    let command = AgentSpec {
        kind: AgentKind::Exec,
        name: "mine".to_owned(),
        ..claude.clone()
    };
    let boxed = |agent: &AgentSpec| Some(Box::new(agent.clone()));
    let of_stages = |agent: &AgentSpec, change: &dyn Fn(&mut RunStarted)| {
        let mut scenario = plan_with(2, |header| {
            header.settings.agent = agent.clone();
            change(header);
        });
        for stage in ["S01", "S02"] {
            begin(&mut scenario, stage);
        }
        if let Some(own) = &scenario.run.header().manifest.stages[1].part.agent {
            let begins = format!("session 1 · {} · ", own.label());
            assert!(scenario.text().contains(&begins), "{begins}");
        }
        let places = Summary::of(&scenario.run).places;
        places.iter().map(|place| place.form).collect::<Vec<_>>()
    };
    let [messages, text, either] = [Form::Messages, Form::Text, Form::Either];
    assert_eq!(of_stages(&claude, &|_| ()), [messages; 2]);
    assert_eq!(of_stages(&command, &|_| ()), [text; 2]);
    let other =
        |agent| move |header: &mut RunStarted| header.manifest.stages[1].part.agent = boxed(agent);
    assert_eq!(of_stages(&claude, &other(&command)), [messages, text]);
    assert_eq!(of_stages(&command, &other(&claude)), [text, messages]);
    let reviewed = |header: &mut RunStarted| header.settings.reviewer = boxed(&claude);
    assert_eq!(of_stages(&command, &reviewed), [either; 2]);
    let falls_back =
        |header: &mut RunStarted| header.settings.fallback.agents = vec![command.clone()];
    assert_eq!(of_stages(&claude, &falls_back), [either; 2]);
    let mut scenario = Scenario::of(|header| {
        header.settings.agent.permissions.skip = true;
        header.settings.fallback.agents = vec![command];
    });
    let limited = EndCause::RateLimited {
        resets_at: Some(START + Millis::from_secs(5 * 3600)),
        kind: LimitKind::FiveHour,
    };
    scenario.ends(attempt(1, 1), limited, HandoffFiles::default());
    let (_, relay) = scenario.run.relays().next().unwrap();
    assert_eq!(relay.settings.agent.kind, AgentKind::Exec);
    let places = Summary::of(&scenario.run).places;
    assert!(
        places.iter().all(|place| place.form == either),
        "{places:?}"
    );
}

// shows: UIX-11
#[test]
fn each_session_of_a_plan_is_named_by_its_stage() {
    let mut scenario = plan(12);
    for stage in ["S01", "S02"] {
        begin(&mut scenario, stage);
    }
    let watched = Watched::of(scenario);
    let now = watched.scenario.now + Millis::from_secs(60);
    let lines = watched.board.lines(now, &TimeZone::UTC);
    let starts: Vec<String> = lines
        .iter()
        .map(|line| line.plain()[..8].to_owned())
        .collect();
    assert_eq!(starts, ["S01    1", "S02    1"]);
}

// shows: UIX-01
#[test]
fn a_small_or_narrow_terminal_has_the_one_line_that_moves() {
    let mut watched = relay();
    watched.works(&StageId::only(), 68_000, "Bash pytest -q");
    let prompting = Prompting::new(Some("q leave"));
    let line = watched
        .board
        .line(watched.scenario.now + Millis::from_secs(60), &TimeZone::UTC);
    let one: Vec<Line> = line.into_iter().collect();
    assert_eq!(watched.lines(Some(&prompting), 59, 24), one);
    assert_eq!(watched.lines(Some(&prompting), 20, 24), one);
    assert_eq!(watched.lines(Some(&prompting), 200, 15), one);
    assert!(watched.lines(Some(&prompting), 60, 16).len() > 4);
    let narrow = Watched::of(plan(12)).lines(Some(&prompting), 40, 24);
    assert_eq!(narrow[0].plain(), "  12 stages · 4 preparing · 8 waiting");
}

/// Nothing that an agent wrote acts on the terminal, and no secret is shown.
// shows: UIX-01, MEM-12
#[test]
fn what_an_agent_wrote_is_clean_and_masked_in_the_view() {
    let mut watched = relay();
    let secret = ["ghp_", "R7wX2mK9pQ4tZ8vB3n", "L6yC1dF5gH0jS9aE2u"].concat();
    let hostile = format!("Bash \u{1b}[2J\u{202e}echo\u{7} {secret}\r\nrm -rf /");
    watched.works(&StageId::only(), 68_000, &hostile);
    let page = Page::default();
    let mut output = Output::to(page.clone(), true);
    output.draw(&watched.lines(None, 200, 24));
    let shown = page.text().replace("\u{1b}[2K", "").replace("\u{1b}[J", "");
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
    assert!(!shown.contains(&secret[..12]), "{shown}");
    assert!(shown.contains("echo"), "{shown}");
}

fn press(prompting: &mut Prompting, keys: &str, summary: &Summary) -> Vec<Wanted> {
    let key = |c| match c {
        '\n' => Key::Enter,
        '\u{1b}' => Key::Escape,
        '\u{7f}' => Key::Backspace,
        c => Key::Char(c),
    };
    keys.chars()
        .filter_map(|c| prompting.press(key(c), summary))
        .collect()
}

// shows: UIX-01, REL-25
#[test]
fn keys_want_what_commands_want_and_what_ends_something_is_asked_first() {
    let watched = relay();
    let summary = watched.board.summary.as_ref().unwrap();
    let mut prompting = Prompting::new(Some("q leave"));
    let mut wants = |keys: &str| press(&mut prompting, keys, summary);
    let steers = |steering| vec![Wanted::Steer(steering)];
    assert_eq!(wants("p"), steers(Steering::Pause));
    assert_eq!(wants("n"), steers(Steering::HandOff));
    assert_eq!(wants("sn"), []);
    assert_eq!(wants("s\u{1b}"), []);
    assert_eq!(wants("sy"), steers(Steering::Stop { now: false }));
    let words = "spare the docs".to_owned();
    assert_eq!(
        wants("mspare the pdos\u{7f}\u{7f}\u{7f}\u{7f}docs\n"),
        steers(Steering::Instruct { words })
    );
    assert_eq!(wants("mnothing\u{1b}"), []);
    let mut pastes = |keys: &str, text: &str, end: &str| {
        let mut wanted = press(&mut prompting, keys, summary);
        let pasted = text.chars().map(Key::Pasted);
        wanted.extend(pasted.filter_map(|key| prompting.press(key, summary)));
        wanted.extend(press(&mut prompting, end, summary));
        wanted
    };
    assert_eq!(pastes("", "pnq\nsy", ""), [], "nothing is typed");
    let words = "keep it:\nstop nothing".to_owned();
    let pasted = pastes("mkeep ", "it:\nstop nothing", "\n");
    assert_eq!(pasted, steers(Steering::Instruct { words }));
    let mut wants = |keys: &str| press(&mut prompting, keys, summary);
    assert_eq!(wants("m \n"), []);
    assert_eq!(wants("l-m 20\n"), [Wanted::Limits("-m 20".to_owned())]);
    assert_eq!(wants("a"), [], "nothing is asked");
    assert_eq!(wants("q"), [Wanted::Leave]);
    assert_eq!(wants("o"), [Wanted::Read]);
    let mut at_the_run = Prompting::new(Some("d detach"));
    assert_eq!(press(&mut at_the_run, "q", summary), []);
    assert_eq!(press(&mut at_the_run, "d", summary), [Wanted::Leave]);
}

// shows: UIX-01, REL-25
#[test]
fn what_is_too_long_to_send_stays_to_be_shortened() {
    let watched = relay();
    let summary = watched.board.summary.as_ref().unwrap();
    let mut prompting = Prompting::new(None);
    press(&mut prompting, "m", summary);
    for c in "x".repeat(4_001).chars() {
        assert_eq!(prompting.press(Key::Pasted(c), summary), None);
    }
    assert_eq!(press(&mut prompting, "\n", summary), []);
    let shown = watched.shown(&prompting, 60);
    assert!(
        shown.contains("\n  4001 characters; at most 4000 fit\n  to the next session: x"),
        "{shown}"
    );
    let words = "x".repeat(4_000);
    assert_eq!(
        press(&mut prompting, "\u{7f}\n", summary),
        [Wanted::Steer(Steering::Instruct { words })]
    );
    assert!(!watched.shown(&prompting, 60).contains("4001"));
}

// shows: UIX-01
#[test]
fn a_refusal_that_comes_while_something_is_typed_is_seen() {
    let watched = relay();
    let summary = watched.board.summary.as_ref().unwrap();
    let mut prompting = Prompting::new(None);
    press(&mut prompting, "mspare", summary);
    let why = "not taken: `--max-sessions` must be a whole number from 1 to 10000, not `as many as it takes`";
    prompting.tell(Tone::Attention, why);
    press(&mut prompting, " the docs", summary);
    let shown = watched.shown(&prompting, 60);
    let rows: Vec<&str> = shown.lines().map(str::trim).collect();
    let told = format!("{why} to the next session: spare the docs▏");
    assert!(rows.join(" ").ends_with(&told), "{shown}");
    press(&mut prompting, "\n", summary);
    assert!(!watched.shown(&prompting, 60).contains("not taken"));
}

// shows: UIX-01
#[test]
fn wide_characters_take_two_columns() {
    let watched = relay();
    let summary = watched.board.summary.as_ref().unwrap();
    let mut prompting = Prompting::new(None);
    press(&mut prompting, &format!("m{}!", "語".repeat(60)), summary);
    let shown = watched.shown(&prompting, 60);
    assert!(shown.ends_with("語!▏\n"), "{shown}");

    let scenario = plan_with(6, |header| {
        header.manifest.stages[4].task_name = "注文と請求".to_owned();
    });
    let rows = stage_table::rows(&scenario.run);
    let lines = stage_table::lines(&rows, scenario.now, &TimeZone::UTC);
    let texts: Vec<String> = lines.iter().map(Line::plain).collect();
    let places: Vec<usize> = texts
        .iter()
        .filter_map(|text| Some(display_width(text.split_once("needs")?.0)))
        .collect();
    assert_eq!(places.len(), 2, "{texts:?}");
    assert_eq!(places[0], places[1], "{texts:?}");
}

/// Not the session that waits to begin, whose stream is empty.
// shows: UIX-01
#[test]
fn the_newest_session_is_one_that_has_begun() {
    let newest = |scenario: &Scenario| {
        let newest = Summary::of(&scenario.run).newest;
        newest.map(|newest| newest.session.get())
    };
    let mut scenario = Scenario::begin(None, false);
    steer(&mut scenario, Steering::Pause);
    scenario.ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"));
    assert_eq!(newest(&scenario), Some(1), "session 2 is held");
    let mut scenario = Scenario::begin(None, false);
    let limited = EndCause::RateLimited {
        resets_at: Some(START + Millis::from_secs(5 * 3600)),
        kind: LimitKind::FiveHour,
    };
    scenario.ends(attempt(1, 1), limited, HandoffFiles::default());
    assert_eq!(newest(&scenario), Some(1), "its next attempt waits");
}

/// Who has moved up in a session stays there when the next one begins.
// shows: UIX-01
#[test]
fn the_newest_session_is_followed_only_from_its_end() {
    let mut summary = Summary::of(&relay().scenario.run);
    let line = br#"{"type":"assistant","message":{"content":[{"text":"x"}]}}"#;
    let stream = [line.as_slice(), b"\n"].concat().repeat(100);
    let bytes = stream.len() as u64;
    let mut full = Full::new(Arc::new(move |_, from| {
        let mut rest = io::Cursor::new(stream.clone());
        rest.set_position(from);
        Some((Box::new(rest), bytes))
    }));
    let mut selected = |summary: &Summary, key: Option<Move>| {
        full.look(summary);
        let rows = full.rows(80, 16, Line::default(), Vec::new());
        key.map(|key| full.press(Key::Move(key)));
        let rows: String = rows.iter().map(Line::plain).collect();
        rows.split_once("> session ").unwrap().1[..1].to_owned()
    };
    assert_eq!(selected(&summary, Some(Move::Up)), "2");
    let third = summary.newest.as_mut().unwrap();
    third.session = SessionNumber::try_from(3).unwrap();
    summary.places.extend(summary.newest.clone());
    assert_eq!(selected(&summary, Some(Move::PageDown)), "2");
    assert_eq!(selected(&summary, None), "3");
}

// shows: UIX-01
#[test]
fn what_is_typed_and_what_was_refused_is_seen() {
    let watched = relay();
    let summary = watched.board.summary.as_ref().unwrap();
    let mut prompting = Prompting::new(Some("d detach"));
    let last = |prompting: &Prompting| {
        let shown = watched.shown(prompting, 60);
        shown.lines().last().unwrap().to_owned() + "\n"
    };
    let mut told = "told\n".to_owned();
    for keys in [
        "s",
        "nm",
        "the tests of billing first, and then those of the audit",
        "\u{1b}l",
    ] {
        press(&mut prompting, keys, summary);
        told.push_str(&last(&prompting));
    }
    press(&mut prompting, "\u{1b}", summary);
    prompting.tell(Tone::Attention, "not taken: no limit is named");
    told.push_str(&last(&prompting));
    expect_test::expect![[r#"
        told
          stop, after a handoff? y stops, any other key does not
          to the next session: ▏  enter sends, esc does not
          to the next session:  first, and then those of the audit▏
          limits: ▏  such as -m 20; esc changes nothing
          not taken: no limit is named
    "#]]
    .assert_eq(&told);
}

// shows: UIX-01
#[test]
fn what_was_spent_is_told_in_what_the_budget_limits() {
    let mut scenario = Scenario::of(|header| {
        header.settings.bounds.run.tokens = Some(500_000);
    });
    scenario
        .ends(attempt(1, 1), EndCause::Completed, handoff("IN_PROGRESS"))
        .window(2);
    let cost = |watched: &Watched| {
        let lines = watched.lines(None, 80, 24);
        let mut lines = lines.iter().map(Line::plain);
        lines.find(|line| line.contains("cost")).unwrap()
    };
    let watched = Watched::of(scenario);
    assert_eq!(cost(&watched), "  cost      0 of 500k tokens · 15m");
    let mut paid = relay();
    paid.board.summary.as_mut().unwrap().subscription = true;
    assert_eq!(cost(&paid), "  cost      $1.84 API price of $20.00 · 15m");
    let mut first = relay();
    first.works(&StageId::only(), 68_000, "Bash make");
    first.board.relay(&StageId::only()).unwrap().subscription = true;
    assert_eq!(cost(&first), "  cost      ≈$2.45 API price of $20.00 · 15m");
}
