//! A run to which things happen.

use std::collections::BTreeMap;

use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions};
use ekiden_core::bounds::Bounds;
use ekiden_core::budget::{Prices, Spend};
use ekiden_core::effect::Effect;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{
    AttemptEnded, AttemptEvent, Check, CheckOutcome, Commit, Counters, Event, RelayEvent, Survey,
    TaskOutcome, Traces,
};
use ekiden_core::guard::{Level, Profile, Window};
use ekiden_core::handoff::{FileText, HandoffFiles, Marker};
use ekiden_core::ids::{AttemptId, EffectId, RunId, SessionNumber, StageId};
use ekiden_core::limits;
use ekiden_core::manifest::{Isolation, Manifest, Need, Part, PlanRules, Stage, Verification};
use ekiden_core::record::{LOGIC, Record};
use ekiden_core::run::Run;
use ekiden_core::settings::{LimitsChanged, Place, RunStarted, Settings};
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::time::{Millis, Timestamp};
use jiff::tz::TimeZone;

use crate::page::{Heading, Text, Tone};
use crate::{Page, Streams, Timeline, render};

/// 22:04 in Athens.
const START: Timestamp = Timestamp(1_795_291_440_000);
const EFFECT: EffectId = EffectId { seq: 0, index: 0 };

pub(super) struct Scenario {
    run: Run,
    timeline: Timeline,
    pub(super) streams: Streams,
    pub(super) now: Timestamp,
    pub(super) records: Vec<Record>,
    stage: StageId,
    /// What an attempt takes.
    pub(super) spend: Spend,
    /// What each model takes of it.
    pub(super) models: BTreeMap<String, Spend>,
    /// Nobody pays it.
    pub(super) subscription: bool,
}

impl Scenario {
    pub(super) fn relay(verification: Option<&str>) -> Self {
        let mut only = stage(StageId::only(), &[]);
        only.verification = verification.map(check_by);
        only.task_name = "migrate.md".to_owned();
        Self::of(header(Manifest::single(only)))
    }

    pub(super) fn plan(stages: Vec<Stage>) -> Self {
        Self::of(header(Manifest {
            stages,
            plan: Some(Box::new(PlanRules {
                project: "recipes".to_owned(),
                file: "plan.toml".to_owned(),
                hash: String::new(),
                jobs: 3,
                isolation: Isolation::Worktrees {
                    dir: "/tmp/w".to_owned(),
                    base: "b51c7aa".to_owned(),
                    branch: None,
                    copy: Vec::new(),
                    setup: None,
                },
                architecture: String::new(),
                document: String::new(),
            })),
        }))
    }

    pub(super) fn of(header: RunStarted) -> Self {
        let (run, effects) = Run::begin(START, &header);
        let mut scenario = Self {
            timeline: Timeline::new(&run),
            stage: header.manifest.stages[0].id.clone(),
            run,
            streams: Streams::default(),
            now: START,
            spend: Spend {
                micro_usd: 1_840_000,
                tokens: 160_000,
                estimated: false,
            },
            models: BTreeMap::new(),
            subscription: false,
            records: Vec::new(),
        };
        scenario.record(Event::RunStarted(Box::new(header)), effects);
        scenario
    }

    /// What follows happens in this stage.
    pub(super) fn of_stage(&mut self, stage: &str) -> &mut Self {
        self.stage = stage.parse().unwrap();
        self
    }

    fn record(&mut self, event: Event, effects: Vec<Effect>) {
        let record = Record {
            seq: self.records.len() as u64 + 1,
            time: self.now,
            logic: LOGIC,
            event,
            effects,
        };
        self.timeline.take(&record, &self.run);
        self.records.push(record);
    }

    pub(super) fn event(&mut self, event: Event) -> &mut Self {
        let effects = self.run.step(self.now, &event);
        self.record(event, effects);
        self
    }

    pub(super) fn relay_event(&mut self, event: RelayEvent) -> &mut Self {
        let stage = self.stage.clone();
        self.event(Event::Stage { stage, event })
    }

    pub(super) fn attempt(&mut self, session: u32, event: AttemptEvent) -> &mut Self {
        let attempt = attempt(session, 1);
        self.relay_event(RelayEvent::Attempt { attempt, event })
    }

    pub(super) fn pass(&mut self, secs: u64) -> &mut Self {
        self.now = self.now + Millis::from_secs(secs);
        self
    }

    pub(super) fn wake(&mut self) -> &mut Self {
        self.now = self.run.wakes_at().unwrap();
        self.relay_event(RelayEvent::Woke)
    }

    pub(super) fn sessions_max(&mut self, max: u32) -> &mut Self {
        self.steer(Steering::ChangeLimits(Box::new(LimitsChanged {
            sessions_max: Some(max),
            ..LimitsChanged::default()
        })))
    }

    pub(super) fn steer(&mut self, steering: Steering) -> &mut Self {
        let message = format!("{:032x}", self.records.len()).parse().unwrap();
        let from = None;
        self.event(Event::Steered(Steered {
            message,
            from,
            steering,
        }))
    }

    fn task(&mut self, outcome: TaskOutcome) -> &mut Self {
        self.relay_event(RelayEvent::Task {
            effect: EFFECT,
            outcome,
        })
    }

    pub(super) fn check(&mut self, outcome: CheckOutcome, tail: &str) -> &mut Self {
        let check = Check {
            outcome,
            tree: None,
            duration: Millis::from_secs(41),
            tail: tail.to_owned(),
        };
        self.pass(41).task(TaskOutcome::Verified { check })
    }

    pub(super) fn survey(&mut self, commits: &[&str], committed: &[&str]) -> &mut Self {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        // Each look finds another tree, so nothing stalls.
        let survey = Survey {
            tree: self.records.len().to_string(),
            commits: lines(commits),
            committed: lines(committed),
            ..Survey::default()
        };
        self.task(TaskOutcome::Surveyed { survey: Ok(survey) })
    }

    pub(super) fn commit(&mut self, commit: Commit) -> &mut Self {
        self.task(TaskOutcome::Committed { commit })
    }

    pub(super) fn window(&mut self, session: u32, number: u32) -> &mut Self {
        let window = Window {
            model_tokens: 1_000_000,
            compaction_tokens: None,
            reserve_tokens: 33_000,
            cap_tokens: Some(200_000),
        };
        let model = Some("opus".to_owned());
        let attempt = attempt(session, number);
        let event = AttemptEvent::WindowChanged { window, model };
        self.relay_event(RelayEvent::Attempt { attempt, event })
    }

    pub(super) fn crosses(&mut self, session: u32, level: Level, usage_tokens: u64) -> &mut Self {
        let event = AttemptEvent::LevelCrossed {
            level,
            usage_tokens,
            spend: Spend::default(),
            is_done: false,
        };
        self.attempt(session, event)
    }

    pub(super) fn ends(
        &mut self,
        at: AttemptId,
        cause: EndCause,
        files: HandoffFiles,
    ) -> &mut Self {
        self.pass(846).ended(at, cause, files)
    }

    /// It worked for 846 seconds, whenever that was.
    pub(super) fn ended(
        &mut self,
        at: AttemptId,
        cause: EndCause,
        files: HandoffFiles,
    ) -> &mut Self {
        let counters = Counters {
            duration: Millis::from_secs(846),
            tool_calls: 38,
            usage_tokens: 122_300,
            spend: self.spend,
            models: self.models.clone(),
            subscription: self.subscription,
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
        let event = AttemptEvent::Ended(Box::new(ended));
        self.relay_event(RelayEvent::Attempt { attempt: at, event })
    }

    pub(super) fn timeline(&mut self) -> &Timeline {
        self.timeline.settle(&self.run);
        &self.timeline
    }

    pub(super) fn page(&self) -> Page {
        let heading = Heading {
            id: "7f3a".to_owned(),
            tone: Tone::Done,
            headline: Text::own("how it ended"),
            details: Vec::new(),
            next: vec![("shows what it left".to_owned(), "git status".to_owned())],
            left_out: None,
        };
        self.page_of(&heading)
    }

    pub(super) fn page_of(&self, heading: &Heading) -> Page {
        let zone = TimeZone::posix("EET-2EEST,M3.5.0/3,M10.5.0/4").unwrap();
        Page::new(&self.timeline, &self.streams, heading, &zone)
    }

    pub(super) fn markdown(&mut self) -> String {
        self.timeline.settle(&self.run);
        render::markdown(&self.page())
    }

    pub(super) fn html(&mut self) -> String {
        self.timeline.settle(&self.run);
        render::html(&self.page())
    }
}

pub(super) fn stages(all: &[(&str, &[&str])]) -> Vec<Stage> {
    let stages = all.iter().map(|(id, needs)| {
        let mut stage = stage(id.parse().unwrap(), needs);
        stage.verification = Some(check_by("make test"));
        stage.claim_needed = true;
        stage
    });
    stages.collect()
}

fn check_by(command: &str) -> Verification {
    Verification::by_command(command.to_owned(), limits::VERIFY_TIMEOUT_DEFAULT)
}

pub(super) fn stage(id: StageId, needs: &[&str]) -> Stage {
    let needs = needs.iter().map(|need| Need {
        stage: need.parse().unwrap(),
        optional: false,
    });
    Stage {
        task: "Migrate the tests.".to_owned(),
        task_name: format!("part {id}"),
        verification: None,
        claim_needed: false,
        sessions_max: 5,
        part: Part {
            needs: needs.collect(),
            ..Part::default()
        },
        id,
    }
}

pub(super) fn header(manifest: Manifest) -> RunStarted {
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
            git: true,
            branch: None,
        },
        manifest,
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
        handoff_spend: Spend::default(),
    }
}

pub(super) fn attempt(session: u32, number: u32) -> AttemptId {
    let mut id = AttemptId::first(SessionNumber::try_from(session).unwrap());
    while id.attempt.get() < number {
        id = id.again();
    }
    id
}

pub(super) fn nothing() -> HandoffFiles {
    HandoffFiles::default()
}

pub(super) fn handoff(status: &str) -> HandoffFiles {
    with_words(status, "- 212 of 847 tests: `pytest -q`")
}

/// A handoff that holds these words wherever an agent may say something.
pub(super) fn with_words(status: &str, words: &str) -> HandoffFiles {
    let progress = format!(
        "STATUS: {status}\n\n## Done\n{words}\n\n## Stopped at\ntests/test_billing {words}\n\n\
         ## Issues\nWhich currency do old invoices have? {words}\n\n## Open items\n- [x] conftest\n- [ ] billing {words}\n"
    );
    let next = format!(
        "## Task\nThe tests of billing.\n\n## State\nThe fixtures are in conftest.py, and they work with the \
         new client as well as with the old one, which is why both can be run side by side.\n\n\
         ## Resume at\n1. convert tests/test_billing\n2. then run all\n\n\
         ## What works\npytest -q tests/test_billing {words}\n\n## What to avoid\nthe old client {words}\n\n\
         ## How to verify\npytest -q\n"
    );
    HandoffFiles {
        progress: FileText::Text(progress),
        next_prompt: FileText::Text(next),
        knowledge: FileText::Text(format!(
            "## Core Knowledge\n- The client needs a region. {words}\n"
        )),
    }
}

pub(super) fn complete() -> HandoffFiles {
    let text = "STATUS: ALL_COMPLETE\n\n## Done\n- all: `pytest -q`\n\n## Stopped at\nThe end.\n\n## Issues\nnone\n";
    HandoffFiles {
        progress: FileText::Text(text.to_owned()),
        ..HandoffFiles::default()
    }
}
