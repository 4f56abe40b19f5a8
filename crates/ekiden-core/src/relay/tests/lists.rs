//! A relay that works through a list of items. The words of a survey are the items' states: `o` open, `x` ticked.

use expect_test::expect;

use super::{after, check};
use crate::agent::Purpose;
use crate::outcome::Outcome;

// shows: RLP-09
#[test]
fn the_list_says_when_all_is_done_not_the_agent_nor_a_pass_alone() {
    let track = after(
        "git check list",
        "survey:list=oo verify:fail up works writes:claim turn ends:done survey:list=xo verify:pass",
    );
    assert_eq!(track.relay().outcome(), None, "an item is open");
    let track = after(
        "git check list",
        "survey:list=oo verify:fail well survey:list=xo verify:pass well survey:list=xx verify:pass",
    );
    let complete = Outcome::Complete { verified: true };
    assert_eq!(track.relay().outcome(), Some(&complete));
}

// shows: RLP-09
#[test]
fn an_item_is_set_aside_and_the_rest_goes_on() {
    check(
        "git check judged list",
        "survey:list=oo verify:pass well survey:list=oo verify:pass well survey:list=oo verify:pass \
         well survey:list=oo verify:pass well survey:list=ox verify:pass",
        expect![[r#"
            publish, survey
            survey:list=oo: publish, verify
                before: verification
            verify:pass: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey:list=oo: publish, verify
                after 1.1: verification
            verify:pass: publish, start 2.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish, survey, archive 2.1
                after 2.1: survey
            survey:list=oo: publish, verify
                after 2.1: verification
            verify:pass: warn 2 repeats 1 (100%, 1 of 6), publish, start 3.1
                at work: 3.1
            up: -
            turn: close
            ends:done: publish, survey, archive 3.1
                after 3.1: survey
            survey:list=oo: publish, verify
                after 3.1: verification
            verify:pass: warn 3 repeats 2 (100%, 2 of 6), warn 3 sets aside item 1, publish, start 4.1
                at work: 4.1
            up: -
            turn: close
            ends:done: publish, survey, archive 4.1
                after 4.1: survey
            survey:list=ox: publish, verify
                after 4.1: verification
            verify:pass: warn 4 repeats 3 (100%, 0 of 6), publish durably, end
                ended: blocked; next: 5.1
        "#]],
    );
}

/// Three sessions that change nothing end other runs. Here, six do: the items are not the reason.
// shows: RLP-09
#[test]
fn an_item_that_no_session_moves_is_set_aside_too() {
    let idle = "survey:list=xooo verify:pass up works turn ends:done ";
    let words = |vain: usize| {
        let idle = idle.repeat(vain);
        format!("survey:list=oooo verify:pass well {idle}survey:list=xooo verify:pass")
    };
    let track = after("git check judged list", &words(3));
    assert_eq!(track.relay().outcome(), None);
    let (number, ..) = track.relay().item_in_hand().unwrap();
    assert_eq!(number, 3, "the second is set aside");
    let track = after("git check judged list", &words(5));
    assert_eq!(track.relay().outcome(), None);
    let track = after("git check judged list", &words(6));
    let outcome = track.relay().outcome();
    let is_stuck = matches!(outcome, Some(Outcome::Stuck { .. }));
    assert!(is_stuck, "{outcome:?}");
}

// shows: RLP-006, RLP-10
#[test]
fn the_item_in_hand_is_estimated() {
    let track = after("git list", "survey:list=oo");
    let (number, item, estimate) = track.relay().item_in_hand().unwrap();
    assert_eq!((number, item.text.as_str()), (1, "item 1"));
    assert_eq!(estimate.percent, 6);
}

/// What items took counts for more than what their text and files promise.
// shows: RLP-006, RLP-10
#[test]
fn the_hint_follows_what_earlier_items_took() {
    let mut words = "survey:list=oooooooo".to_owned();
    let is_hinted = |words: &str| {
        let track = after("git list", words);
        let is_hinted = track.prompt().contains("Give bulky work to subagents");
        assert_eq!(is_hinted, track.relay().is_item_large());
        is_hinted
    };
    assert!(!is_hinted(&words));
    for done in 1..7 {
        let list = format!("{}{}", "x".repeat(done), "o".repeat(8 - done));
        words.push_str(&format!(" well survey:list={list}"));
    }
    assert!(is_hinted(&words));
}

/// The conversation filled up with work, and only handed off after the limit.
// shows: RLP-09
#[test]
fn a_session_that_a_limit_cut_off_after_its_edits_is_no_vain_try() {
    let session = " up edits:a.rs L2 ends:limit=90+ wake up writes turn ends:done survey:list=oo";
    let words = format!("survey:list=oo{}", session.repeat(3));
    let track = after("git list", &words);
    let (number, ..) = track.relay().item_in_hand().unwrap();
    assert_eq!(number, 1, "it is not set aside");
    let edited = &track.relay().items.as_ref().unwrap().checkpoint();
    assert_eq!(edited.files_in_progress[0].path, "a.rs");
}

/// The first attempt is cut off, the second one ends the session.
// shows: EST-004
#[test]
fn an_item_counts_all_attempts_at_it() {
    let words = "survey:list=o up works ends:crash+ wake well survey:list=x";
    let track = after("git list", words);
    let past: Vec<_> = track.relay().past_items().collect();
    let [item] = &past[..] else {
        panic!("{past:?}")
    };
    let totals = track.relay().totals;
    assert_eq!((item.took.sessions, totals.sessions), (1, 1));
    assert_eq!(item.took.duration, totals.running);
    assert_eq!(item.took.spend, totals.spend);
}

/// Follow-up work is no item of the list.
#[test]
fn a_new_task_ends_the_list() {
    let track = after(
        "git list",
        "survey:list=o well survey:list=x continue survey:list=x",
    );
    assert!(track.relay().items.is_none());
}

// shows: RLP-09
#[test]
fn no_session_begins_once_a_person_has_ticked_the_last_item() {
    check(
        "git check list pause=60",
        "survey:list=oo verify:pass well survey:list=xo verify:pass list:xx wake verify:pass",
        expect![[r#"
            publish, survey
            survey:list=oo: publish, verify
                before: verification
            verify:pass: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey:list=xo: publish, verify
                after 1.1: verification
            verify:pass: publish durably
                waiting 60s (pause) for 2.1
            list:xx: -
            wake: publish, verify
                before: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 2.1
        "#]],
    );
    let words = "survey:list=oo well survey:list=xo list:xx say:More. wake";
    let track = after("git list pause=60", words);
    assert_eq!(track.relay().session().get(), 2, "other work is wanted");
    let vain = ["well survey:list=oo"; 3].join(" wake ");
    let words = format!("survey:list=oo {vain} list:ox wake");
    let track = after("git list pause=60", &words);
    let relay = track.relay();
    assert!(matches!(relay.outcome(), Some(Outcome::Blocked { .. })));
    assert_eq!(relay.totals.sessions, 3);
}

// shows: RLP-09
#[test]
fn a_check_that_contradicts_a_persons_ticks_goes_to_a_session() {
    let words =
        "survey:list=oo verify:pass well survey:list=xo verify:pass list:xx wake verify:fail";
    let track = after("git check list pause=60", words);
    let prompt = track.prompt();
    for told in [
        "but the check failed",
        "All items of fix_plan.md are ticked:",
    ] {
        assert!(prompt.contains(told), "{prompt}");
    }
}

/// A session without an item had other work, which the list says nothing about.
// shows: RLP-09, REL-38
#[test]
fn a_session_without_an_item_must_say_that_all_is_done() {
    let found = "survey:list=o verify:pass well survey:list=x verify:pass \
                 survey:list=x up answers:fault turn ends:done survey:list=x";
    let again = "up works writes turn ends:done survey:list=x verify:pass";
    let track = after("git check reviewed list", &format!("{found} {again}"));
    assert_eq!(track.relay().purpose(), Purpose::Work, "{}", track.told());
    let claims = "up works writes:claim turn ends:done survey:list=x verify:pass survey:list=x";
    let words = format!("{found} {again} {claims}");
    let track = after("git check reviewed list", &words);
    assert_eq!(track.relay().purpose(), Purpose::Review, "{}", track.told());
}

// shows: AGT-06
#[test]
fn an_agent_that_takes_no_messages_does_one_item_of_a_list() {
    let protocol = |given: &str| after(given, "").relay().protocol();
    let order = "Hand off after you have finished";
    assert!(protocol("exec list").contains(&format!("{order} one of the open items")));
    assert!(protocol("exec").contains(&format!("{order} 3 of the open items")));
}
