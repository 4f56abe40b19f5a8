//! Commits after sessions.

use expect_test::expect;

use super::{after, check};

// shows: REL-18
#[test]
fn a_session_is_committed_before_tree_and_verification_are_looked_at() {
    check(
        "git commits check",
        "survey verify:fail well commit survey verify:pass",
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, commit 1, archive 1.1
                after 1.1: commit
            commit: publish, survey
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 2.1
        "#]],
    );
}

// shows: REL-18
#[test]
fn a_commit_that_fails_stops_nothing() {
    check(
        "git commits",
        "survey well commit:failed survey well commit:nothing survey",
        expect![[r#"
            publish, survey
            survey: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, commit 1, archive 1.1
                after 1.1: commit
            commit:failed: publish, survey
                after 1.1: survey
            survey: publish, start 2.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish, commit 2, archive 2.1
                after 2.1: commit
            commit:nothing: publish, survey
                after 2.1: survey
            survey: publish, start 3.1
                at work: 3.1
        "#]],
    );
}

// shows: REL-18
#[test]
fn only_the_session_after_a_hooks_refusal_is_told_of_it() {
    let mut track = after("git commits", "survey well commit:refused survey");
    let prompt = track.prompt();
    assert!(
        prompt.contains("# What the hook said\n\n¦ line 3: no tabs\n"),
        "{prompt}"
    );
    assert!(
        prompt.contains("\nA hook refused to commit the last session's work, see"),
        "{prompt}"
    );
    for words in ["well commit survey", "well commit:failed survey"] {
        track.words(words);
        assert!(!track.prompt().contains("hook"), "{}", track.prompt());
    }
}

// shows: TRK-09
#[test]
fn it_is_known_whether_all_that_sessions_did_is_committed() {
    let is_committed = |rules: &str, words: &str| {
        let track = after(rules, words);
        track.relay().is_committed(".issues/")
    };
    let rules = "git judged commits";
    assert!(is_committed(rules, "survey well commit survey"));
    assert!(is_committed(rules, "survey well commit:nothing survey"));
    assert!(!is_committed(rules, "survey well commit:failed survey"));
    assert!(!is_committed(rules, "survey well commit:refused survey"));
    for (before, after, expected) in [
        (":", "open=new", false),
        ("open=old", "open=old", true),
        (":", "open=.issues/12.md", true),
    ] {
        let words = format!("survey:{} well survey:{after}", before.trim_matches(':'));
        let found = is_committed("git judged", &words);
        assert_eq!(found, expected, "{words}");
    }
}

// shows: REL-18
#[test]
fn without_a_repository_nothing_is_committed() {
    check(
        "commits",
        "well",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-18
#[test]
fn a_rescued_session_is_committed_too() {
    check(
        "git commits",
        "survey up works ends:full commit survey",
        expect![[r#"
        publish, survey
        survey: publish, start 1.1
            at work: 1.1
        up: -
        ends:full: publish, commit 1, archive 1.1
            after 1.1: commit
        commit: publish, survey
            after 1.1: survey
        survey: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-18
#[test]
fn an_attempt_that_is_tried_again_is_not_committed() {
    check(
        "git commits",
        "survey up works ends:crash wake",
        expect![[r#"
        publish, survey
        survey: publish, start 1.1
            at work: 1.1
        up: -
        ends:crash: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: REL-18, DUR-01
#[test]
fn a_commit_that_was_cancelled_is_made_by_the_resume() {
    check(
        "git commits check",
        "survey verify:fail well ctrl-c commit:cancelled resume commit survey verify:fail",
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, commit 1, archive 1.1
                after 1.1: commit
            ctrl-c: cancel
            commit:cancelled: publish durably, end
                ended: stopped gently; next: review 1.1
            resume: publish, commit 1
                after 1.1: commit
            commit: publish, survey
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            verify:fail: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-18, DUR-01
#[test]
fn a_commit_that_was_made_is_not_made_again_by_the_resume() {
    check(
        "git commits check",
        "survey verify:fail well sigterm commit resume survey",
        expect![[r#"
        publish, survey
        survey: publish, verify
            before: verification
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, commit 1, archive 1.1
            after 1.1: commit
        sigterm: cancel
        commit: publish durably, end
            ended: stopped now { signal: 15 }; next: review 1.1
        resume: publish, survey
            after 1.1: survey
        survey: publish, verify
            after 1.1: verification
    "#]],
    );
}

// shows: REL-24
#[test]
fn every_fresh_session_is_asked_to_delegate_if_the_user_wants_it() {
    let hint = "Give bulky work to subagents";
    for events in ["", "well", "up ends:crash wake"] {
        assert!(
            after("subagents", events).prompt().contains(hint),
            "{events}"
        );
        assert!(!after("", events).prompt().contains(hint), "{events}");
    }
    assert_eq!(after("subagents", "well").prompt().matches(hint).count(), 1);
}

// shows: MEM-003, MEM-004, MEM-11
#[test]
fn the_first_session_is_told_what_was_left_and_the_later_ones_to_ask() {
    let query = "1. Get recent context: mcp__ekiden__get_recent_context(limit=5)\n\
                 2. Search checkpoints: mcp__ekiden__search(query=\"checkpoint L2\", type=\"observations\")";
    let parts = [
        "### Memory Query (Run First)",
        query,
        "do what follows",
        "continue at",
    ];
    let told = "# From the memory";
    let first = after("memory", "").prompt();
    assert!(
        first.contains(told) && first.contains("\n¦ 0f2a  failure  rounding\n"),
        "{first}"
    );
    assert!(!first.contains(parts[0]));
    let later = after("memory", "well").prompt();
    let places: Vec<_> = parts
        .iter()
        .map(|part| later.find(part).expect(part))
        .collect();
    assert!(places.is_sorted() && !later.contains(told), "{later}");
    let claude_mem = after("claude-mem", "well").prompt();
    assert!(claude_mem.contains("mcp__claude-mem-search__get_recent_context(limit=5)"));
    assert!(!claude_mem.contains("mcp__ekiden__"));
    let vetoed = "verify:fail up works writes:claim turn ends:done verify:fail";
    for (given, events) in [
        ("", "well"),
        ("exec memory", "well"),
        ("memory check", vetoed),
    ] {
        assert!(
            !after(given, events).prompt().contains("Memory Query"),
            "{given}"
        );
    }
}
