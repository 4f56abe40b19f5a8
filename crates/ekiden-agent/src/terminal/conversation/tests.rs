use ekiden_wire::stream::ApiErrorKind;

use super::*;

const ID: &str = "6f0e5a52-1111-5111-8111-111111111111";

fn conversation() -> Conversation {
    let id = serde_json::from_value(Value::from(ID)).expect("an id");
    Conversation::new(id, 2, "/s/prompt.md".into())
}

fn ask(
    talk: &mut Conversation,
    event: &str,
    more: &str,
    last: Option<(&str, u64)>,
) -> oneshot::Receiver<String> {
    let json = format!(
        r#"{{"session_id":"{ID}","transcript_path":"/t","hook_event_name":"{event}"{more}}}"#
    );
    let (answer, answered) = oneshot::channel();
    let last = last.map(|(id, tokens)| LastResponse {
        message_id: id.to_owned(),
        context_tokens: tokens,
        ..LastResponse::default()
    });
    talk.ask(
        Question {
            asker: Asker::Hook,
            json,
            answer,
        },
        |_| last,
    );
    answered
}

fn reports(talk: &mut Conversation) -> Vec<String> {
    std::iter::from_fn(|| talk.next_report())
        .map(|report| format!("{report:?}"))
        .collect()
}

fn text(mut answer: oneshot::Receiver<String>) -> String {
    answer.try_recv().expect("an answer")
}

// shows: AGT-02, REL-02
#[test]
fn an_order_goes_out_with_the_next_batch_of_tools() {
    let mut talk = conversation();
    let batch = ask(&mut talk, "PostToolBatch", "", Some(("m1", 120_000)));
    assert_eq!(
        reports(&mut talk),
        [
            "Usage { context_tokens: 120000 }",
            r#"Hook { callback: "1", input: Other }"#
        ]
    );
    talk.say("please hand off".to_owned());
    talk.answer("1", &HookAnswer::Pass);
    assert!(text(batch).contains(r#""additionalContext":"please hand off""#));
    assert_eq!(reports(&mut talk), ["Delivered"]);
}

// shows: AGT-02, HND-08
#[test]
fn a_message_that_waits_holds_the_turn_and_else_the_turn_is_over() {
    let mut talk = conversation();
    talk.say("go on".to_owned());
    let stop = ask(&mut talk, "Stop", "", None);
    talk.answer("1", &HookAnswer::Pass);
    assert_eq!(text(stop), r#"{"decision":"block","reason":"go on"}"#);
    let stop = ask(&mut talk, "Stop", "", None);
    talk.answer("2", &HookAnswer::Pass);
    assert_eq!(text(stop), "{}");
    assert_eq!(
        reports(&mut talk).last().map(String::as_str),
        Some("TurnEnded { failed: false }")
    );
}

/// No hook comes any more, so the client is restarted with the message, unless the person continues.
// shows: AGT-02, REL-04
#[test]
fn a_message_that_comes_after_the_turn_waits_for_no_hook() {
    let mut talk = conversation();
    ask(&mut talk, "Stop", "", None);
    talk.answer("1", &HookAnswer::Pass);
    assert!(!talk.is_unheard());
    talk.say("the handoff still needs this".to_owned());
    assert!(talk.is_unheard());
    let prompt = ask(&mut talk, "UserPromptSubmit", "", None);
    assert!(text(prompt).contains("the handoff still needs this"));
    assert!(!talk.is_unheard());
    ask(&mut talk, "Stop", "", None);
    talk.answer("2", &HookAnswer::Pass);
    talk.say("again".to_owned());
    reports(&mut talk);
    assert_eq!(talk.say_anew().as_deref(), Some("again"));
    assert_eq!(reports(&mut talk), ["Delivered"]);
    assert!(!talk.is_unheard());
}

// shows: AGT-18
#[test]
fn the_mod_gets_a_message_once_no_turn_runs_and_may_give_it_back() {
    let mut talk = conversation();
    let asked_by = |talk: &mut Conversation, id: &str, more: &str| {
        let json = format!(r#"{{"session_id":"{id}"{more}}}"#);
        let (answer, answered) = oneshot::channel();
        let asker = Asker::Mod;
        talk.ask(
            Question {
                asker,
                json,
                answer,
            },
            |_| None,
        );
        text(answered)
    };
    let asked = |talk: &mut Conversation, more: &str| asked_by(talk, ID, more);
    talk.say("hand off".to_owned());
    assert_eq!(asked(&mut talk, ""), "{}", "a turn runs");
    talk.answer("0", &HookAnswer::Pass);
    let held = ask(&mut talk, "Stop", "", None);
    talk.answer("1", &HookAnswer::Pass);
    assert!(text(held).contains("hand off"), "the turn's end carries it");
    ask(&mut talk, "Stop", "", None);
    talk.answer("2", &HookAnswer::Pass);
    talk.say("the rest".to_owned());
    assert_eq!(asked_by(&mut talk, "other", ""), "{}", "another client");
    reports(&mut talk);
    assert_eq!(asked(&mut talk, ""), r#"{"submit":"the rest"}"#);
    assert_eq!(asked(&mut talk, ""), "{}", "once");
    assert_eq!(reports(&mut talk), [""; 0], "the client may not take it");

    // The client refused it: it waits for a person, or for a client that is started anew.
    assert_eq!(asked(&mut talk, r#","dropped":"the rest""#), "{}");
    assert_eq!(asked(&mut talk, ""), "{}");
    assert!(talk.is_unheard());
    let prompt = ask(&mut talk, "UserPromptSubmit", "", None);
    assert!(text(prompt).contains("the rest"));
    assert_eq!(reports(&mut talk), ["Delivered"]);

    // The client took it: its hook says so, and does not carry it again.
    ask(&mut talk, "Stop", "", None);
    talk.answer("3", &HookAnswer::Pass);
    talk.say("once more".to_owned());
    assert_eq!(asked(&mut talk, ""), r#"{"submit":"once more"}"#);
    reports(&mut talk);
    let prompt = ask(&mut talk, "UserPromptSubmit", "", None);
    assert_eq!(text(prompt), "{}");
    assert_eq!(reports(&mut talk), ["Delivered"]);

    // It was lost on its way: the client is started anew with it.
    ask(&mut talk, "Stop", "", None);
    talk.answer("4", &HookAnswer::Pass);
    talk.say("at last".to_owned());
    assert_eq!(asked(&mut talk, ""), r#"{"submit":"at last"}"#);
    assert!(talk.is_unheard());
    reports(&mut talk);
    assert_eq!(talk.say_anew().as_deref(), Some("at last"));
    assert_eq!(reports(&mut talk), ["Delivered"]);
    assert!(!talk.is_unheard());
}

#[test]
fn the_prompt_may_be_read_and_what_is_refused_is_refused() {
    let mut talk = conversation();
    let read = r#","tool_name":"Read","tool_input":{"file_path":"/s/prompt.md"}"#;
    let prompt = ask(&mut talk, "PreToolUse", read, None);
    talk.answer("1", &HookAnswer::Pass);
    assert!(text(prompt).contains(r#""permissionDecision":"allow""#));
    let other = ask(
        &mut talk,
        "PreToolUse",
        &read.replace("prompt", "other"),
        None,
    );
    talk.answer("2", &HookAnswer::Deny("no".to_owned()));
    assert!(text(other).contains(r#""permissionDecisionReason":"no""#));
    assert_eq!(talk.tool_calls, 2);
}

/// A hook reports it at once; without hooks the transcript does, once, at the end.
// shows: AGT-04
#[test]
fn a_compaction_is_told_once() {
    let mut talk = conversation();
    let started = ask(
        &mut talk,
        "SessionStart",
        r#","source":"compact""#,
        Some(("m1", 150_000)),
    );
    assert_eq!(text(started), "{}");
    let told = [
        "Usage { context_tokens: 150000 }",
        "Compacted { context_tokens: 150000 }",
    ];
    assert_eq!(reports(&mut talk), told);
    let line =
        r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"preTokens":167000}}"#;
    let trace = Trace::from_transcript(line.as_bytes()).expect("bytes are read");
    talk.ended(ChildEnd::Exited(0), Millis(0), trace.clone());
    assert_eq!(reports(&mut talk), [""; 0]);
    let mut unhooked = conversation();
    unhooked.ended(ChildEnd::Exited(0), Millis(0), trace);
    assert_eq!(
        reports(&mut unhooked),
        ["Compacted { context_tokens: 167000 }"]
    );
}

// shows: HND-08
#[test]
fn another_conversation_is_left_alone() {
    let mut talk = conversation();
    let json = r#"{"session_id":"other","hook_event_name":"Stop"}"#.to_owned();
    let (answer, answered) = oneshot::channel();
    talk.ask(
        Question {
            asker: Asker::Hook,
            json,
            answer,
        },
        |_| None,
    );
    assert_eq!(text(answered), "{}");
    assert_eq!(reports(&mut talk), [""; 0]);
    assert_eq!(talk.transcript, None);
}

/// From then on its hooks name another conversation: no order reaches it, and nothing keeps it from ekiden's files.
// shows: AGT-02, AGT-13
#[test]
fn a_person_who_opens_another_conversation_has_left() {
    for (reason, is_other) in [("clear", true), ("resume", true), ("other", false)] {
        let mut talk = conversation();
        let reason = format!(r#","reason":"{reason}""#);
        assert_eq!(text(ask(&mut talk, "SessionEnd", &reason, None)), "{}");
        assert_eq!(talk.is_other, is_other, "{reason}");
    }
}

// shows: AGT-02
#[test]
fn the_end_is_named_by_who_ended_it() {
    let cause = |ending: Option<Ending>, end| {
        Conversation {
            ending,
            ..conversation()
        }
        .cause(end, None)
    };
    assert_eq!(
        cause(Some(Ending::Done), ChildEnd::Exited(143)),
        EndCause::Completed
    );
    assert_eq!(
        cause(Some(Ending::Stopped), ChildEnd::Exited(143)),
        EndCause::Stopped
    );
    assert_eq!(cause(None, ChildEnd::Exited(0)), EndCause::PersonLeft);
    assert_eq!(
        cause(None, ChildEnd::Exited(143)),
        EndCause::Killed { signal: 15 }
    );
    assert_eq!(
        cause(None, ChildEnd::Exited(1)),
        EndCause::Crashed { exit: 1 }
    );
    assert_eq!(
        cause(None, ChildEnd::Signaled(9)),
        EndCause::Killed { signal: 9 }
    );
    let other = Conversation {
        is_other: true,
        ..conversation()
    };
    assert_eq!(
        other.cause(ChildEnd::Exited(143), None),
        EndCause::PersonLeft
    );
    let failed = Conversation {
        failure: Failure::Known(ApiErrorKind::AuthenticationFailed),
        ending: Some(Ending::Done),
        ..conversation()
    };
    assert_eq!(
        failed.cause(ChildEnd::Exited(143), None),
        EndCause::AuthenticationFailed
    );
}

// shows: REL-11
#[test]
fn the_turn_is_over_when_the_transcript_has_confirmed_the_limit() {
    let mut talk = conversation();
    let failed = "TurnEnded { failed: true }";
    ask(&mut talk, "StopFailure", r#","error":"rate_limit""#, None);
    assert_eq!(reports(&mut talk), [""; 0]);
    assert!(talk.awaits_limit());
    talk.limit_is_known();
    talk.limit_is_known();
    assert_eq!(reports(&mut talk), [failed]);
    talk.ending(Ending::Done);
    let cause = talk.cause(ChildEnd::Exited(143), None);
    assert!(matches!(cause, EndCause::RateLimited { .. }), "{cause:?}");
    ask(&mut talk, "UserPromptSubmit", "", None);
    let cause = talk.cause(ChildEnd::Exited(143), None);
    assert_eq!(cause, EndCause::Completed);
    ask(&mut talk, "StopFailure", r#","error":"overloaded""#, None);
    assert_eq!(reports(&mut talk), [failed]);
    assert!(!talk.awaits_limit());
}

// shows: AGT-02
#[test]
fn without_hooks_a_limit_is_reported_once() {
    let mut talk = conversation();
    talk.limit_seen(true);
    talk.limit_seen(true);
    assert_eq!(reports(&mut talk), ["TurnEnded { failed: true }"]);
    talk.limit_seen(false);
    assert_eq!(talk.failure, Failure::None);
}

// shows: MON-06
#[test]
fn the_window_and_the_cost_come_from_the_status_line() {
    let mut talk = conversation();
    for cost in [1.0, 1.5] {
        let json = format!(
            r#"{{"session_id":"{ID}","model":{{"id":"m"}},"context_window":{{"context_window_size":1000000}},"cost":{{"total_cost_usd":{cost}}}}}"#
        );
        let (answer, answered) = oneshot::channel();
        talk.ask(
            Question {
                asker: Asker::StatusLine,
                json,
                answer,
            },
            |_| None,
        );
        assert_eq!(text(answered), "ekiden · session 2\n");
    }
    assert_eq!(talk.cost_usd, 0.5);
    assert_eq!(
        reports(&mut talk),
        [
            r#"Window { model_tokens: 1000000, compaction_tokens: None, model: Some("m"), filled_by: [] }"#,
            "Spend { spend: Spend { micro_usd: 500000, tokens: 0, estimated: false }, turns: 0, subscription: false }",
        ]
    );
}
