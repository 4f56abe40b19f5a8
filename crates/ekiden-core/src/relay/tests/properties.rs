//! Properties that hold for any events in any order.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::track::Track;
use crate::effect::{AttemptEffect, Effect, RelayEffect};
use crate::event::{AttemptEvent, Event, RelayEvent};
use crate::ids::{AttemptId, MessageId};
use crate::record::Record;
use crate::relay::{Phase, ReviewStep};
use crate::steering::Steering;

const GIVEN: &[&str] = &[
    "",
    "git check",
    "check max=1",
    "git pause=5 max=2",
    "git commits notify check",
    "exec check claim",
    "wait=400",
    "fallback=codex,haiku git wait=400",
    "fallback=codex stays judged exec budget=9",
    "judged git check",
    "judged exec stall=1",
    "judged research stall=0",
    "budget=9 each=4 turns=6",
    "timeout=600 quiet=20:30-23:00 no-waiting",
];

/// Everything that can happen, also when it cannot.
const WORDS: &[&str] = &[
    "+90s",
    "works",
    "writes",
    "writes:claim",
    "writes:blocked",
    "writes:half",
    "writes:thin",
    "writes:same",
    "survey",
    "survey:failed",
    "commit",
    "commit:nothing",
    "commit:failed",
    "commit:refused",
    "commit:cancelled",
    "verify:pass",
    "verify:fail",
    "verify:late",
    "verify:missing",
    "verify:cancelled",
    "up",
    "window",
    "L1",
    "L2",
    "L3",
    "spends:1",
    "spends:4",
    "full:L1",
    "full:L2",
    "heard",
    "asks",
    "asks:busy",
    "turn",
    "turn:failed",
    "refused",
    "ends:done",
    "ends:empty",
    "ends:spoke",
    "ends:huge",
    "ends:killed+",
    "ends:crash",
    "ends:crash+",
    "ends:lost",
    "ends:limit=60",
    "ends:limit",
    "ends:limit=past",
    "ends:limit=999999+",
    "ends:overload",
    "ends:full",
    "ends:login",
    "old:up",
    "old:L2",
    "old:heard",
    "old:asks",
    "old:turn",
    "old:refused",
    "old:ends:done",
    "old:ends:crash",
    "wake",
    "tick",
    "woke",
    "ctrl-c",
    "sigterm",
    "resume",
    "resume:1",
    "resume:3",
    "resume:wait=9000",
    "resume:pause=9",
    "resume:task=docs",
    "continue",
    "continue:1",
    "stop",
    "stop!",
    "hand-off",
    "pause",
    "unpause",
    "again:pause",
    "say:leave_the_docs_alone",
    "limit:1",
    "limit:3",
    "limit:budget=30",
    "limit:timeout=9",
    "limit:guided",
    "resume:alone",
    "resume:stall=1",
    "resume:research",
    "tree:a",
    "tree:b",
    "weakens:tests/a.py",
    "unread:lost",
    "writes:same",
    "resume:budget=30",
    "offset:3",
    "offset:-3",
    "published",
    "archived",
    "edited:fact",
    "newer",
    "well",
    "crashes",
];

/// What an agent does while its session lasts.
const TALK: &[&str] = &[
    "works",
    "L1",
    "L2",
    "L3",
    "heard",
    "asks",
    "asks:busy",
    "turn",
    "turn:failed",
    "refused",
    "spends:1",
    "+300s",
    "tick",
    "writes",
    "writes:half",
    "writes:thin",
    "writes:claim",
    "ctrl-c",
];

const ENDS: &[&str] = &[
    "ends:done",
    "ends:crash",
    "ends:limit",
    "ends:lost",
    "ends:full",
    "ends:empty",
    "ends:killed+",
];

/// An attempt from its beginning to its end, and what comes after.
fn attempt() -> impl Strategy<Value = String> {
    (prop::collection::vec(select(TALK), 0..12), select(ENDS))
        .prop_map(|(talk, end)| format!("up {} {end} wake resume", talk.join(" ")))
}

/// Anything, with attempts in between that make sense.
fn anything() -> impl Strategy<Value = String> {
    let word = prop_oneof![attempt(), select(WORDS).prop_map(str::to_owned)];
    prop::collection::vec(word, 0..16).prop_map(|words| words.join(" "))
}

/// How agents behave for ever.
const HABITS: &[&[&str]] = &[
    &["up", "works", "asks", "turn", "heard"],
    &["up", "turn:failed"],
    &["ends:done"],
    &["works", "ends:done"],
    &["ends:empty"],
    &["ends:crash"],
    &["up", "ends:crash+"],
    &["ends:full"],
    &["ends:limit"],
    &["ends:limit=past"],
    &["ends:overload"],
    &["writes", "ends:crash"],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // shows: DUR-01
    #[test]
    fn any_events_fold_to_the_same_state_and_the_same_effects(
        given in select(GIVEN),
        words in anything(),
    ) {
        let mut track = Track::begin(given);
        track.words(&words);
        track.assert_folds();
    }

    // shows: DUR-01, REL-02
    #[test]
    fn the_promises_of_a_relay_hold_for_any_events(
        given in select(GIVEN),
        words in anything(),
    ) {
        let mut track = Track::begin(given);
        track.words(&words);
        let mut promises = Promises::default();
        for record in &track.records {
            promises.hold(record);
        }
    }

    // shows: REL-05, REL-15, REL-23
    #[test]
    fn a_run_ends_whatever_its_agents_do(
        given in select(GIVEN),
        start in prop::collection::vec(prop_oneof![3 => select(TALK), 1 => select(ENDS)], 0..40),
        habit in select(HABITS),
        checks in prop::collection::vec(select(&["fail", "pass", "late", "missing", "cancelled"][..]), 0..10),
    ) {
        let mut track = Track::begin(given);
        let mut deeds = start.iter().chain(habit.iter().cycle());
        let mut checks = checks.iter();
        // The longest are 720 limits of 30 seconds each: that is the longest wait.
        for _ in 0..2000 {
            let word = match next_word(&track) {
                Next::Over => return Ok(()),
                Next::Word(word) => word.to_owned(),
                Next::Check => format!("verify:{}", checks.next().unwrap_or(&"fail")),
                Next::Deed => (*deeds.next().unwrap()).to_owned(),
            };
            track.words(&word);
        }
        prop_assert!(false, "the run does not end:\n{}", track.told());
    }

    // shows: REL-16
    #[test]
    fn core_knowledge_never_loses_a_fact(
        facts in prop::collection::vec("(- |  |corrects \"|pinned: |## Core Knowledge|```|> )?[a-z\":` \n#-]{0,40}", 1..12),
    ) {
        let mut track = Track::begin("max=100");
        let mut known: Vec<String> = Vec::new();
        for fact in facts {
            track.words("up works writes");
            track.learns(&format!("## Core Knowledge\n\n- a plain fact\n- {fact}\n\n## Session Log\n\n- it went on\n"));
            track.words("turn ends:done");
            let knowledge = &track.relay().knowledge;
            let now: Vec<&str> = knowledge.core.iter().map(|fact| fact.text.as_str()).collect();
            let archived: Vec<&str> = knowledge.archived.iter().map(|gone| gone.old.text.as_str()).collect();
            for fact in &known {
                prop_assert!(now.contains(&fact.as_str()) || archived.contains(&fact.as_str()), "{fact}");
            }
            known = now.into_iter().map(str::to_owned).collect();
        }
    }
}

/// What comes next in a world that does what it is told.
enum Next {
    Over,
    Word(&'static str),
    Check,
    Deed,
}

fn next_word(track: &Track) -> Next {
    let told_to_go = |effect: &Effect| {
        matches!(
            effect,
            Effect::Stage {
                effect: RelayEffect::Attempt {
                    effect: AttemptEffect::Close,
                    ..
                } | RelayEffect::Attempt {
                    effect: AttemptEffect::Terminate,
                    ..
                },
                ..
            }
        )
    };
    match &track.relay().phase {
        Phase::Ended { .. } => Next::Over,
        Phase::Waiting { .. } => Next::Word("wake"),
        Phase::Paused { .. } => Next::Word("unpause"),
        Phase::Reviewing {
            step: ReviewStep::Commit,
            ..
        } => Next::Word("commit"),
        Phase::Reviewing {
            step: ReviewStep::Survey | ReviewStep::BeforeReviewer | ReviewStep::AfterReviewer,
            ..
        } => Next::Word("survey"),
        Phase::Reviewing {
            step: ReviewStep::Verification,
            ..
        } => Next::Check,
        Phase::Running(_) if track.effects().iter().any(told_to_go) => Next::Word("ends:done"),
        Phase::Running(_) => Next::Deed,
        Phase::Planned => panic!("a run begins when it is made"),
    }
}

/// What was promised to the agent, the archive and the user, seen from the log alone.
#[derive(Default)]
struct Promises {
    /// The attempt at work, and the one that was started last.
    working: Option<AttemptId>,
    last: Option<AttemptId>,
    undelivered: bool,
    closed: bool,
    ended: bool,
    /// Everything was done when it last ended.
    complete: bool,
    /// A person wants nothing to begin, and what they said so far.
    paused: bool,
    heard: BTreeSet<MessageId>,
}

impl Promises {
    fn hold(&mut self, record: &Record) {
        match &record.event {
            // Each goes on with what the other leaves alone.
            Event::RunResumed(_) => self.ended &= self.complete,
            Event::Continued(_) => self.ended &= !self.complete,
            Event::Stage {
                event:
                    RelayEvent::Attempt {
                        attempt,
                        event: AttemptEvent::MessageDelivered,
                    },
                ..
            } => {
                self.undelivered &= self.working != Some(*attempt);
            }
            Event::Stage {
                event:
                    RelayEvent::Attempt {
                        attempt,
                        event: AttemptEvent::Ended(_),
                    },
                ..
            } => {
                self.working = self.working.filter(|working| working != attempt);
            }
            Event::Steered(steered) if self.heard.insert(steered.message.clone()) => {
                match &steered.steering {
                    Steering::Stop { .. }
                    | Steering::HandOff
                    | Steering::Instruct { .. }
                    | Steering::Answer { .. }
                    | Steering::ChangeLimits(_) => {}
                    Steering::Pause => self.paused = !self.ended,
                    Steering::Unpause => self.paused = false,
                }
            }
            Event::RunStarted(_)
            | Event::LogicChanged { .. }
            | Event::LogAccepted { .. }
            | Event::StopRequested(_)
            | Event::Steered(_)
            | Event::UtcOffsetChanged { .. }
            | Event::Woke
            | Event::Worktree { .. }
            | Event::Delivered { .. }
            | Event::Elsewhere { .. }
            | Event::Stage { .. } => {}
        }
        for effect in &record.effects {
            assert!(!self.ended, "the end is the last effect: {record:?}");
            match effect {
                Effect::EndRun { outcome } => {
                    self.complete = outcome.is_complete();
                    assert_eq!(self.working, None, "the run ends after its agents");
                    self.ended = true;
                    self.paused = false;
                }
                Effect::Stage { effect, .. } => self.of_relay(effect),
                Effect::Worktree { .. } | Effect::Deliver => {
                    panic!("a relay that stands alone has no ground")
                }
            }
        }
    }

    fn of_relay(&mut self, effect: &RelayEffect) {
        match effect {
            RelayEffect::StartAttempt(start) => {
                assert!(!self.paused, "nothing starts in a pause");
                self.starts(start.attempt);
            }
            RelayEffect::Attempt { attempt, effect } => {
                self.reaches(*attempt);
                match effect {
                    AttemptEffect::Say { .. } => {
                        assert!(!self.closed, "nothing is said after the close");
                        assert!(!self.undelivered, "at most one message is undelivered");
                        self.undelivered = true;
                    }
                    AttemptEffect::Close | AttemptEffect::Terminate => self.closed = true,
                    AttemptEffect::AnswerStop { .. } | AttemptEffect::Interrupt => {}
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
        }
    }

    fn starts(&mut self, attempt: AttemptId) {
        assert_eq!(
            self.working, None,
            "an attempt starts when the one before has ended"
        );
        if let Some(last) = self.last {
            let follows =
                attempt == last.again() || attempt == AttemptId::first(last.session.next());
            assert!(follows, "{last} is not followed by {attempt}");
        }
        let heard = std::mem::take(&mut self.heard);
        *self = Self {
            working: Some(attempt),
            last: Some(attempt),
            heard,
            ..Self::default()
        };
    }

    fn reaches(&self, attempt: AttemptId) {
        assert_eq!(
            self.working,
            Some(attempt),
            "only the attempt at work is spoken to"
        );
    }
}
