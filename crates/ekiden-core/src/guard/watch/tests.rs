//! Sessions as lines: what happens at which use, and what the guard does.
//!
//! `check(given, moments)` plays moments of a session and writes one line for each: the use in percent,
//! the event, what was recorded and what was told.

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::*;
use crate::guard::checkpoint::CheckpointReason;
use crate::guard::{Level, Profile, Reading, Window};
use crate::time::{Millis, Timestamp};

const FILLED: WatchEvent = WatchEvent::Filled { used_tokens: 0 };

struct Session {
    watch: Watch,
    now: Timestamp,
    percent: u64,
    settings: WatchSettings,
    seen: String,
}

impl Session {
    fn new() -> Self {
        let settings = WatchSettings {
            levels: Profile::Watch.levels(),
            reminder: true,
            refuse: true,
        };
        Self {
            watch: Watch::default(),
            now: Timestamp(0),
            percent: 0,
            settings,
            seen: String::new(),
        }
    }

    fn reading(&self) -> Reading {
        let window = Window {
            model_tokens: 133_000,
            compaction_tokens: None,
            reserve_tokens: 33_000,
            cap_tokens: None,
        };
        Reading {
            used_tokens: self.percent * 1000,
            window,
            samples: Vec::new(),
        }
    }

    fn at(&mut self, percent: u64, event: &Trigger) -> &mut Self {
        self.percent = percent;
        self.now = self.now + Millis::from_secs(10);
        let decision = decide(
            &self.watch,
            self.settings,
            event,
            Some(&self.reading()),
            self.now,
        );
        let _ = writeln!(self.seen, "{percent}% {}: {}", name(event), line(&decision));
        for event in decision.events {
            self.is(event);
        }
        self
    }

    /// Something that a process recorded.
    fn is(&mut self, event: WatchEvent) -> &mut Self {
        self.watch.apply(&WatchRecord {
            time: self.now,
            event,
        });
        self
    }

    fn written(&mut self, reason: CheckpointReason) -> &mut Self {
        self.is(WatchEvent::Taken(Taken {
            reason,
            document: "h.md".to_owned(),
            used_tokens: self.percent * 1000,
            commit: None,
            modified_files: Vec::new(),
            issue: None,
        }))
    }

    fn shows(&self, expected: &Expect) {
        expected.assert_eq(&self.seen);
    }
}

fn name(event: &Trigger) -> String {
    match event {
        Trigger::AfterBatch(Batch {
            tests: Some(passed),
            ..
        }) => format!("batch, tests {passed}"),
        Trigger::AfterBatch(Batch { finished: true, .. }) => "batch, finished".to_owned(),
        Trigger::AfterBatch(Batch { filled: true, .. }) => "batch, filled".to_owned(),
        Trigger::AfterBatch(_) => "batch".to_owned(),
        Trigger::Begins(source) => format!("begins {source:?}"),
        Trigger::Stops { background } => format!("stops, background {background}"),
        Trigger::Prompt
        | Trigger::BeforeTool
        | Trigger::Refuses
        | Trigger::Holds
        | Trigger::Idles
        | Trigger::Compacts
        | Trigger::Ends => format!("{event:?}"),
    }
}

fn line(decision: &Decision) -> String {
    let mut parts: Vec<String> = Vec::new();
    for event in &decision.events {
        let json = serde_json::to_value(event).expect("it serialises");
        parts.push(json["event"].as_str().expect("a name").to_owned());
    }
    parts.extend(decision.alerts.iter().map(|alert| format!("{alert:?}")));
    parts.extend(decision.refuse.then(|| "refuse".to_owned()));
    parts.extend(decision.begin.map(|reason| format!("begin {reason}")));
    parts.extend(decision.load.then(|| "load".to_owned()));
    parts.join(", ")
}

fn batch() -> Trigger {
    Trigger::AfterBatch(Batch::default())
}

fn tests(passed: bool) -> Trigger {
    Trigger::AfterBatch(Batch {
        tests: Some(passed),
        ..Batch::default()
    })
}

fn finished() -> Trigger {
    Trigger::AfterBatch(Batch {
        finished: true,
        ..Batch::default()
    })
}

// shows: MON-004, CHK-002
#[test]
fn a_level_is_told_once_and_l1_does_nothing_else() {
    Session::new()
        .at(68, &batch())
        .at(71, &batch())
        .at(72, &batch())
        .at(73, &Trigger::Prompt)
        .shows(&expect![[r"
        68% batch: 
        71% batch: crossed, Level { percent: 71, handoff: Later }
        72% batch: 
        73% Prompt: 
    "]]);
}

// shows: MON-004
#[test]
fn of_several_levels_at_once_the_highest_is_told() {
    Session::new()
        .at(30, &batch())
        .at(96, &batch())
        .shows(&expect![[r"
        30% batch: 
        96% batch: crossed, writing, Level { percent: 96, handoff: Now }, begin L3
    "]]);
}

// shows: CHK-003, CHK-08
#[test]
fn a_due_checkpoint_waits_three_batches_for_a_boundary() {
    let mut session = Session::new();
    session
        .at(86, &batch())
        .at(86, &batch())
        .at(87, &batch())
        .at(87, &batch());
    session
        .written(CheckpointReason::Level2)
        .at(88, &batch())
        .at(88, &batch());
    session.shows(&expect![[r#"
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        86% batch: waited
        87% batch: waited
        87% batch: waited, writing, begin L2
        88% batch: told, Written { reason: Level2, document: "h.md" }
        88% batch: 
    "#]]);
}

// shows: CHK-08
#[test]
fn a_turn_that_was_interrupted_is_a_boundary() {
    let mut session = Session::new();
    session.at(86, &batch());
    assert!(session.watch.waits_for_idleness(session.settings));
    session.at(86, &Trigger::Idles);
    assert!(!session.watch.waits_for_idleness(session.settings));
    session.written(CheckpointReason::Level2);
    assert!(session.watch.waits_for_idleness(session.settings));
    session.at(86, &Trigger::Idles);
    assert!(!session.watch.waits_for_idleness(session.settings));
    session.shows(&expect![[r#"
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        86% Idles: writing, begin L2
        86% Idles: told, Written { reason: Level2, document: "h.md" }
    "#]]);
}

// shows: CHK-08
#[test]
fn a_boundary_takes_it_at_once() {
    Session::new().at(86, &finished()).shows(&expect![[r"
        86% batch, finished: crossed, due, writing, Level { percent: 86, handoff: Soon }, begin L2
    "]]);
    Session::new()
        .at(86, &batch())
        .at(86, &tests(true))
        .shows(&expect![[r"
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        86% batch, tests true: waited, writing, begin L2
    "]]);
    Session::new()
        .at(86, &batch())
        .at(86, &Trigger::Stops { background: true })
        .shows(&expect![[r"
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        86% stops, background true: writing, begin L2
    "]]);
}

// shows: CHK-08
#[test]
fn it_does_not_come_while_tests_fail_but_for_90_percent() {
    let mut session = Session::new();
    session.at(86, &tests(false));
    for _ in 0..8 {
        session.at(87, &batch());
    }
    session.at(88, &finished()).at(90, &batch());
    session.shows(&expect![[r"
        86% batch, tests false: tested, crossed, due, Level { percent: 86, handoff: Soon }
        87% batch: waited
        87% batch: waited
        87% batch: waited
        87% batch: waited
        87% batch: waited
        87% batch: waited
        87% batch: waited
        87% batch: waited
        88% batch, finished: waited
        90% batch: waited, writing, begin L2
    "]]);
    Session::new()
        .at(86, &tests(false))
        .at(86, &Trigger::Stops { background: false })
        .shows(&expect![[r"
        86% batch, tests false: tested, crossed, due, Level { percent: 86, handoff: Soon }
        86% stops, background false: writing, begin L2
    "]]);
}

// shows: CHK-08
#[test]
fn a_due_checkpoint_waits_a_minute_at_most() {
    let mut session = Session::new();
    session.at(86, &batch());
    session.now = session.now + Millis::from_secs(61);
    session.at(86, &batch()).shows(&expect![[r"
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        86% batch: waited, writing, begin L2
    "]]);
}

// shows: CHK-07
#[test]
fn a_person_may_put_it_off_up_to_90_percent_but_not_l3() {
    let until_90 = || WatchEvent::Deferred { until_percent: 99 };
    let mut session = Session::new();
    session.at(86, &batch()).is(until_90());
    assert_eq!(session.watch.word(), "Deferred");
    session.at(88, &batch()).at(90, &batch()).shows(&expect![[r"
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        88% batch: 
        90% batch: due, writing, Level { percent: 90, handoff: Soon }, begin L2
    "]]);
    Session::new()
        .is(until_90())
        .at(86, &batch())
        .at(96, &batch())
        .shows(&expect![[r"
        86% batch: crossed, Level { percent: 86, handoff: Waits(90) }
        96% batch: crossed, writing, Level { percent: 96, handoff: Now }, begin L3
    "]]);
}

// shows: CHK-09
#[test]
fn what_lies_ahead_moves_the_handoff() {
    let expected = |ahead: u64, used: u64| WatchEvent::Expected {
        ahead_tokens: ahead,
        used_tokens: used,
    };
    Session::new()
        .is(expected(60_000, 50_000))
        .at(60, &batch())
        .at(70, &batch())
        .shows(&expect![[r"
            60% batch: 
            70% batch: crossed, due, Level { percent: 70, handoff: Soon }
        "]]);
    Session::new()
        .is(expected(20_000, 80_000))
        .at(80, &batch())
        .at(86, &batch())
        .at(90, &batch())
        .shows(&expect![[r"
            80% batch: crossed, Level { percent: 80, handoff: Later }
            86% batch: crossed, Level { percent: 86, handoff: Waits(90) }
            90% batch: due, writing, Level { percent: 90, handoff: Soon }, begin L2
        "]]);
    let mut used_up = Session::new();
    used_up
        .is(expected(10_000, 30_000))
        .at(86, &batch())
        .shows(&expect![[r"
            86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        "]]);
}

// shows: CHK-005
#[test]
fn at_l3_one_call_is_refused_and_the_next_one_runs() {
    let mut session = Session::new();
    session.at(96, &batch()).written(CheckpointReason::Level3);
    assert!(session.watch.refuses(session.settings));
    session.at(96, &Trigger::Refuses).at(96, &Trigger::Refuses);
    assert!(!session.watch.refuses(session.settings));
    session.shows(&expect![[r#"
        96% batch: crossed, writing, Level { percent: 96, handoff: Now }, begin L3
        96% Refuses: refused, Refused, refuse
        96% Refuses: 
    "#]]);
}

// shows: CHK-005
#[test]
fn at_l3_a_prompt_a_filled_document_or_a_setting_lets_every_call_run() {
    let at_l3 = || {
        let mut session = Session::new();
        session.at(96, &batch()).written(CheckpointReason::Level3);
        session
    };
    let mut prompted = at_l3();
    prompted.at(96, &Trigger::Prompt).at(96, &Trigger::Refuses);
    prompted.shows(&expect![[r#"
        96% batch: crossed, writing, Level { percent: 96, handoff: Now }, begin L3
        96% Prompt: released, told, Written { reason: Level3, document: "h.md" }
        96% Refuses: 
    "#]]);
    let mut filled = at_l3();
    filled.is(FILLED).at(96, &Trigger::Refuses);
    assert!(!filled.watch.refuses(filled.settings));
    let mut advised = at_l3();
    advised.settings.refuse = false;
    assert!(!advised.watch.refuses(advised.settings));
    let mut begun_with = Session::new();
    begun_with.at(96, &Trigger::Prompt);
    assert!(
        !begun_with.watch.refuses(begun_with.settings),
        "a person's own prompt"
    );
}

// shows: HND-006, CHK-003
#[test]
fn a_handoff_that_the_person_asked_for_covers_l2() {
    let mut session = Session::new();
    session.at(80, &batch()).written(CheckpointReason::Manual);
    session
        .is(FILLED)
        .at(86, &batch())
        .at(90, &batch())
        .at(91, &batch());
    session.shows(&expect![[r#"
        80% batch: crossed, Level { percent: 80, handoff: Later }
        86% batch: crossed, Level { percent: 86, handoff: Written }
        90% batch: 
        91% batch: due, writing, Level { percent: 91, handoff: Soon }, begin L2
    "#]]);
}

// shows: CHK-10
#[test]
fn a_compaction_is_preceded_by_one_checkpoint() {
    let mut session = Session::new();
    session
        .at(60, &Trigger::Compacts)
        .at(60, &Trigger::Compacts);
    session
        .written(CheckpointReason::Compaction)
        .at(60, &Trigger::Compacts)
        .at(61, &Trigger::Compacts);
    session.shows(&expect![[r"
        60% Compacts: writing, begin compaction
        60% Compacts: 
        60% Compacts: 
        61% Compacts: writing, begin compaction
    "]]);
}

// shows: CHK-10, CHK-003
#[test]
fn a_document_of_a_cancelled_compaction_is_a_handoff_once_the_context_is_full() {
    let mut session = Session::new();
    session
        .at(60, &Trigger::Compacts)
        .written(CheckpointReason::Compaction)
        .at(61, &Trigger::Prompt)
        .at(84, &batch())
        .at(84, &Trigger::Compacts)
        .written(CheckpointReason::Compaction)
        .at(86, &batch())
        .at(86, &batch());
    session.shows(&expect![[r#"
        60% Compacts: writing, begin compaction
        61% Prompt: 
        84% batch: crossed, Level { percent: 84, handoff: Later }
        84% Compacts: writing, begin compaction
        86% batch: crossed, told, Level { percent: 86, handoff: Written }, Written { reason: Level2, document: "h.md" }
        86% batch: 
    "#]]);
    let mut low = Session::new();
    low.at(60, &Trigger::Compacts)
        .written(CheckpointReason::Compaction)
        .at(86, &batch())
        .at(86, &finished())
        .written(CheckpointReason::Level2)
        .at(86, &batch());
    low.shows(&expect![[r#"
        60% Compacts: writing, begin compaction
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        86% batch, finished: waited, writing, begin L2
        86% batch: told, Written { reason: Level2, document: "h.md" }
    "#]]);
}

// shows: MON-004, HND-07
#[test]
fn after_a_compaction_the_levels_are_told_again() {
    let mut session = Session::new();
    session
        .at(86, &finished())
        .written(CheckpointReason::Level2);
    session
        .at(20, &Trigger::Begins(Source::Compact))
        .at(20, &batch())
        .at(71, &batch())
        .at(86, &finished());
    session.shows(&expect![[r#"
        86% batch, finished: crossed, due, writing, Level { percent: 86, handoff: Soon }, begin L2
        20% begins Compact: rearmed, load
        20% batch: told, Written { reason: Compaction, document: "h.md" }
        71% batch: crossed, Level { percent: 71, handoff: Later }
        86% batch, finished: crossed, due, writing, Level { percent: 86, handoff: Soon }, begin L2
    "#]]);
    let mut unseen = Session::new();
    unseen
        .at(86, &finished())
        .written(CheckpointReason::Level2)
        .at(30, &Trigger::Prompt)
        .at(72, &batch());
    unseen.shows(&expect![[r#"
        86% batch, finished: crossed, due, writing, Level { percent: 86, handoff: Soon }, begin L2
        30% Prompt: rearmed, told, Written { reason: Compaction, document: "h.md" }
        72% batch: crossed, Level { percent: 72, handoff: Later }
    "#]]);
}

// shows: CHK-10, CHK-003
#[test]
fn a_document_of_before_a_compaction_ends_no_turn_after_it() {
    let written_late = |session: &mut Session| {
        session
            .at(96, &batch())
            .at(20, &Trigger::Begins(Source::Compact))
            .written(CheckpointReason::Level3);
    };
    let mut session = Session::new();
    written_late(&mut session);
    session.at(20, &batch()).at(20, &batch());
    assert!(!session.watch.refuses(session.settings));
    // What was written at 96% covers nothing of what comes after.
    session.at(86, &finished()).shows(&expect![[r#"
        96% batch: crossed, writing, Level { percent: 96, handoff: Now }, begin L3
        20% begins Compact: rearmed, load
        20% batch: told, Written { reason: Compaction, document: "h.md" }
        20% batch: 
        86% batch, finished: crossed, due, writing, Level { percent: 86, handoff: Soon }, begin L2
    "#]]);

    let mut told = Session::new();
    told.at(96, &batch()).written(CheckpointReason::Level3);
    told.at(96, &Trigger::Prompt)
        .at(20, &Trigger::Begins(Source::Compact))
        .at(20, &batch())
        .at(20, &batch());
    told.shows(&expect![[r#"
        96% batch: crossed, writing, Level { percent: 96, handoff: Now }, begin L3
        96% Prompt: released, told, Written { reason: Level3, document: "h.md" }
        20% begins Compact: rearmed, load
        20% batch: told, Written { reason: Compaction, document: "h.md" }
        20% batch: 
    "#]]);
}

// shows: CHK-10, CHK-09
#[test]
fn a_document_of_before_a_compaction_below_l1_covers_nothing_after_it() {
    let expected = WatchEvent::Expected {
        ahead_tokens: 60_000,
        used_tokens: 64_000,
    };
    let mut session = Session::new();
    session
        .at(64, &Trigger::Compacts)
        .written(CheckpointReason::Compaction)
        .at(20, &Trigger::Begins(Source::Compact))
        .is(FILLED)
        .is(expected)
        .at(70, &batch());
    session.shows(&expect![[r"
        64% Compacts: writing, begin compaction
        20% begins Compact: rearmed, load
        70% batch: crossed, due, Level { percent: 70, handoff: Soon }
    "]]);
    let mut late = Session::new();
    late.at(64, &Trigger::Compacts)
        .at(20, &Trigger::Begins(Source::Compact))
        .written(CheckpointReason::Compaction);
    assert!(late.watch.last.is_some_and(|last| last.outdated));
}

// shows: CHK-11
#[test]
fn a_turn_that_ends_without_a_handoff_is_remarked_upon_once() {
    let stop = |background| Trigger::Stops { background };
    Session::new()
        .at(50, &stop(false))
        .at(51, &stop(true))
        .at(51, &stop(false))
        .at(60, &stop(false))
        .shows(&expect![[r"
            50% stops, background false: 
            51% stops, background true: 
            51% stops, background false: reminded, NoHandoff { percent: 51 }
            60% stops, background false: 
        "]]);
    let mut off = Session::new();
    off.settings.reminder = false;
    off.at(60, &stop(false)).shows(&expect![[r"
        60% stops, background false: 
    "]]);
}

// shows: HND-07
#[test]
fn a_fresh_conversation_is_given_the_handoff_and_a_resumed_one_is_not() {
    let begins = |source| Trigger::Begins(source);
    Session::new()
        .at(0, &begins(Source::Startup))
        .at(0, &begins(Source::Clear))
        .at(0, &begins(Source::Resume))
        .shows(&expect![[r"
            0% begins Startup: load
            0% begins Clear: load
            0% begins Resume: 
        "]]);
}

#[test]
fn a_writer_that_died_is_told_once_and_a_later_need_tries_again() {
    let mut session = Session::new();
    session.at(86, &finished());
    session.now = session.now + Millis::from_secs(121);
    session
        .at(86, &batch())
        .at(86, &batch())
        .at(86, &Trigger::Compacts);
    session.shows(&expect![[r"
        86% batch, finished: crossed, due, writing, Level { percent: 86, handoff: Soon }, begin L2
        86% batch: failed, told, Failed
        86% batch: 
        86% Compacts: writing, begin compaction
    "]]);
}

#[test]
fn a_session_that_is_left_with_a_checkpoint_due_takes_it() {
    Session::new()
        .at(86, &batch())
        .at(86, &Trigger::Ends)
        .shows(&expect![[r"
        86% batch: crossed, due, Level { percent: 86, handoff: Soon }
        86% Ends: writing, begin L2
    "]]);
}

// shows: RLP-003
#[test]
fn a_session_is_handed_off_once_its_document_is_filled_in_or_a_minute_old() {
    let mut session = Session::new();
    session
        .at(86, &batch())
        .at(86, &Trigger::Stops { background: false });
    let later = |session: &Session, secs| session.now + Millis::from_secs(secs);
    assert!(
        !session.watch.is_handed_off(later(&session, 600)),
        "it is being written"
    );
    session.written(CheckpointReason::Level2);
    assert!(!session.watch.is_handed_off(later(&session, 30)));
    assert!(session.watch.is_handed_off(later(&session, 60)));
    session.is(FILLED);
    assert!(session.watch.is_handed_off(session.now));
    session.is(WatchEvent::Rearmed { level: Level::L0 });
    assert!(
        !session.watch.is_handed_off(later(&session, 600)),
        "there is room again"
    );
    let mut asked = Session::new();
    asked.at(40, &batch()).written(CheckpointReason::Manual);
    asked.is(FILLED);
    assert!(
        !asked.watch.is_handed_off(asked.now),
        "nobody wants it to end"
    );
}

// shows: HND-07
#[test]
fn a_document_is_used_up_by_a_session_that_works() {
    let mut session = Session::new();
    session.is(WatchEvent::Loaded {
        document: "h.md".to_owned(),
    });
    session
        .at(1, &Trigger::Prompt)
        .at(2, &batch())
        .at(3, &batch());
    session.shows(&expect![[r"
        1% Prompt: 
        2% batch: consumed
        3% batch: 
    "]]);
}

/// What was done after the agent wrote it is not in it.
// shows: CHK-10, AGT-18
#[test]
fn a_document_stands_for_its_conversation_only_if_little_was_done_since() {
    let mut session = Session::new();
    session.at(95, &batch()).written(CheckpointReason::Level3);
    let stands = |session: &mut Session, percent| {
        session.percent = percent;
        session.watch.document_stands(Some(&session.reading()))
    };
    assert!(!stands(&mut session, 95), "nobody filled it in");
    session.is(WatchEvent::Filled {
        used_tokens: 96_000,
    });
    assert!(stands(&mut session, 101));
    assert!(!stands(&mut session, 102));
    assert!(stands(&mut session, 97));
    session.at(97, &Trigger::Prompt);
    assert!(!stands(&mut session, 97), "the prompt is not in it");
}
