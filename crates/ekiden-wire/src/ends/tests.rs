use serde_json::Value;

use ekiden_core::ends::{EndCause, EndClass, LimitKind};

use super::table::timestamp;
use super::*;
use crate::stream::TerminalReason;
use crate::tests as fixtures;

fn result(reason: TerminalReason) -> TurnResult {
    TurnResult {
        is_error: true,
        num_turns: 1,
        terminal_reason: Some(reason),
        ..TurnResult::default()
    }
}

fn ended(events: &[ClientEvent], exit: Option<Exit>) -> Observed {
    let mut seen = Observed::default();
    for event in events {
        seen.observe(event);
    }
    if let Some(exit) = exit {
        seen.exited(exit, "error: the reason\n");
    }
    seen
}

fn init() -> ClientEvent {
    ClientEvent::parse(br#"{"type":"system","subtype":"init","session_id":"s"}"#)
}

fn api_error(kind: &str) -> ClientEvent {
    ClientEvent::parse(
        format!(r#"{{"type":"assistant","message":{{"id":"m","model":"<synthetic>"}},"error":"{kind}"}}"#)
            .as_bytes(),
    )
}

fn callback() -> ClientEvent {
    ClientEvent::parse(
        br#"{"type":"control_request","request_id":"h1","request":{"subtype":"hook_callback","callback_id":"x","input":{}}}"#,
    )
}

/// The cause of each measured result, by its case.
fn expected(case: &str) -> EndCause {
    match case {
        "success" | "permission_denied" | "compaction_reactive" | "structured_output" => {
            EndCause::Completed
        }
        "max_turns" => EndCause::TurnLimit,
        "max_budget" => EndCause::BudgetSpent,
        "api_401" => EndCause::AuthenticationFailed,
        "api_429_retry_after_3600" | "subscription_5h_limit" => EndCause::RateLimited {
            resets_at: None,
            kind: LimitKind::Unknown,
        },
        "api_529" => EndCause::Overloaded,
        "prompt_too_long_single"
        | "precompact_blocked_then_blocking_limit"
        | "compaction_thrash" => EndCause::ContextFull,
        "resume_unknown_session" => EndCause::NeverStarted(
            "No conversation found with session ID: 11111111-1111-1111-1111-111111111111"
                .to_owned(),
        ),
        "stop_hook_continue_false"
        | "post_tool_use_continue_false"
        | "user_prompt_submit_blocked" => EndCause::HookStopped,
        "sigint" => EndCause::Interrupted,
        other => panic!("no expectation for {other}"),
    }
}

// shows: AGT-08
#[test]
fn every_measured_result_has_its_cause() {
    let lines = fixtures::lines("results.jsonl");
    assert_eq!(lines.len(), 18);
    for line in lines {
        let notes: Value = serde_json::from_str(&line).unwrap();
        let case = notes["_case"].as_str().unwrap();
        let exit = i32::try_from(notes["_exit_code"].as_i64().unwrap()).unwrap();
        let seen = ended(
            &[ClientEvent::parse(line.as_bytes())],
            Some(Exit::Code(exit)),
        );
        assert_eq!(cause(&seen), expected(case), "{case}");
    }
}

// shows: REL-10
#[test]
fn every_measured_api_error_has_its_cause() {
    let mut seen = std::collections::BTreeMap::<String, Observed>::new();
    for line in fixtures::lines("api-errors.jsonl") {
        let notes: Value = serde_json::from_str(&line).unwrap();
        let case = notes["_case"].as_str().unwrap().to_owned();
        seen.entry(case)
            .or_default()
            .observe(&ClientEvent::parse(line.as_bytes()));
    }
    let cause_of = |case: &str| {
        let mut seen = seen[case].clone();
        seen.observe(&ClientEvent::Result(Box::new(TurnResult {
            api_error_status: seen.api_error.and_then(|error| error.status),
            ..result(TerminalReason::ApiError)
        })));
        cause(&seen)
    };
    assert_eq!(cause_of("e_529"), EndCause::Overloaded);
    assert_eq!(cause_of("e_drop"), EndCause::ServerError);
    assert_eq!(cause_of("e_credit"), EndCause::BillingFailed);
    assert_eq!(cause_of("e_404"), EndCause::ModelNotFound);
}

/// Claude Code 2.1.197, as it was measured: `completed`, with the error and the status of the service.
// shows: REL-10, REL-11, RUN-20
#[test]
fn an_older_clients_api_errors_have_the_same_causes() {
    let cause_of = |kind: &str, status: u16| {
        let events = [
            init(),
            ClientEvent::parse(br#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":2000000000,"rateLimitType":"five_hour"}}"#),
            api_error(kind),
            ClientEvent::parse(
                format!(r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"num_turns":1,"stop_reason":"stop_sequence","terminal_reason":"completed"}}"#).as_bytes(),
            ),
        ];
        cause(&ended(&events, Some(Exit::Code(1))))
    };
    assert_eq!(
        cause_of("authentication_failed", 401),
        EndCause::AuthenticationFailed
    );
    let limited = EndCause::RateLimited {
        resets_at: Some(timestamp(2_000_000_000)),
        kind: LimitKind::FiveHour,
    };
    assert_eq!(cause_of("rate_limit", 429), limited);
    assert_eq!(cause_of("server_error", 529), EndCause::Overloaded);
}

/// Claude Code 2.1.332, as it was measured, with a reset that has passed by the local clock.
// shows: REL-11, RUN-20
#[test]
fn a_limit_without_an_event_of_its_own_is_known_by_the_message_about_it() {
    let events = [
        init(),
        ClientEvent::parse(br#"{"type":"assistant","message":{"id":"m1","model":"<synthetic>","content":[{"type":"text","text":"You've hit your 5-hour limit"}],"usage":{"input_tokens":0,"output_tokens":0}},"parent_tool_use_id":null,"error":"rate_limit","is_api_error_message":true,"api_error_status":429,"api_error":"usage_limit_reached","api_error_params":{"rate_limit_info":{"status":"rejected","resetsAt":1700000000,"rateLimitType":"five_hour","isUsingOverage":false}},"api_error_type":"rate_limit_error"}"#),
        ClientEvent::parse(br#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"num_turns":1,"stop_reason":"stop_sequence","terminal_reason":"api_error"}"#),
    ];
    let limited = EndCause::RateLimited {
        resets_at: Some(timestamp(1_700_000_000)),
        kind: LimitKind::FiveHour,
    };
    assert_eq!(cause(&ended(&events, Some(Exit::Code(1)))), limited);
}

/// 2.1.197 gives no reason where the budget is spent.
// shows: AGT-08, RUN-20
#[test]
fn an_older_clients_spent_budget_is_told_by_the_name_of_its_result() {
    let line = br#"{"type":"result","subtype":"error_max_budget_usd","is_error":true,"num_turns":1,"stop_reason":"tool_use","errors":["Reached maximum budget ($1e-7)"]}"#;
    let seen = ended(&[init(), ClientEvent::parse(line)], Some(Exit::Code(1)));
    assert_eq!(cause(&seen), EndCause::BudgetSpent);
}

// defect: W3
// shows: REL-10
#[test]
fn every_measured_rate_limit_event_has_its_effect() {
    let limited = |secs: Option<u64>, kind| EndCause::RateLimited {
        resets_at: secs.map(timestamp),
        kind,
    };
    let expected = [
        limited(None, LimitKind::Unknown), // A warning names a reset, but is not what refused.
        limited(None, LimitKind::Unknown),
        limited(None, LimitKind::Unknown),
        limited(Some(1_795_242_891), LimitKind::FiveHour),
        limited(Some(1_795_332_926), LimitKind::SevenDay),
        limited(None, LimitKind::Unknown),
    ];
    let events = fixtures::events("rate-limits.jsonl");
    assert_eq!(events.len(), expected.len());
    for (event, expected) in events.into_iter().zip(expected) {
        let failure = ClientEvent::Result(Box::new(result(TerminalReason::ApiError)));
        let refused = ended(
            &[event.clone(), api_error("rate_limit"), failure],
            Some(Exit::Code(1)),
        );
        assert_eq!(cause(&refused), expected, "{event:?}");
        let fine = TurnResult {
            is_error: false,
            ..result(TerminalReason::Completed)
        };
        let passed = ended(
            &[event, ClientEvent::Result(Box::new(fine))],
            Some(Exit::Code(0)),
        );
        assert_eq!(
            cause(&passed),
            EndCause::Completed,
            "an event alone ends nothing"
        );
    }
}

// defect: W4
// shows: REL-10
#[test]
fn prose_that_mentions_a_limit_changes_nothing() {
    let line = br#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":1,
        "result":"API Error: 429. You've hit your 5-hour limit, resets 6:34am","errors":["rate_limit"]}"#;
    assert_eq!(
        cause(&ended(&[ClientEvent::parse(line)], Some(Exit::Code(0)))),
        EndCause::Completed
    );
}

// shows: REL-10
#[test]
fn the_kind_of_an_api_error_decides_before_its_status() {
    for (kind, status, expected) in [
        ("billing_error", 400, EndCause::BillingFailed),
        ("max_output_tokens", 200, EndCause::OutputLimit),
        ("invalid_request", 413, EndCause::InvalidRequest),
        ("overloaded", 500, EndCause::Overloaded),
        ("server_error", 500, EndCause::ServerError),
        ("a_new_kind", 403, EndCause::AuthenticationFailed),
        ("a_new_kind", 418, EndCause::InvalidRequest),
        ("oauth_org_not_allowed", 400, EndCause::AuthenticationFailed),
        (
            "cloud_credential_error",
            500,
            EndCause::AuthenticationFailed,
        ),
        ("account_on_hold", 403, EndCause::AccountOnHold),
        ("verification_required", 403, EndCause::AccountOnHold),
    ] {
        let failure = TurnResult {
            api_error_status: Some(status),
            ..result(TerminalReason::ApiError)
        };
        let seen = ended(
            &[api_error(kind), ClientEvent::Result(Box::new(failure))],
            None,
        );
        assert_eq!(cause(&seen), expected, "{kind} {status}");
    }
}

/// Claude Code 2.1.329, as it was measured: the service says `model_context_window_exceeded`.
// shows: REL-10
#[test]
fn an_answer_that_the_context_window_cut_is_a_full_context() {
    let line = br#"{"type":"assistant","message":{"id":"m1","model":"<synthetic>","content":[{"type":"text","text":"API Error: The model has reached its context window limit."}],"usage":{"input_tokens":0,"output_tokens":0}},"parent_tool_use_id":null,"error":"max_output_tokens","is_api_error_message":true,"api_error":"max_output_tokens","api_error_params":{"cut":"context_window"}}"#;
    let failure = ClientEvent::Result(Box::new(result(TerminalReason::ApiError)));
    let seen = ended(&[ClientEvent::parse(line), failure], Some(Exit::Code(1)));
    assert_eq!(cause(&seen), EndCause::ContextFull);
}

#[test]
fn an_error_of_an_earlier_turn_does_not_explain_a_later_one() {
    let failure = ClientEvent::Result(Box::new(result(TerminalReason::ApiError)));
    let seen = ended(
        &[api_error("billing_error"), failure.clone(), init(), failure],
        None,
    );
    assert_eq!(cause(&seen), EndCause::ServerError);
}

#[test]
fn a_refusal_is_known_by_its_stop_reason() {
    let refusal = TurnResult {
        stop_reason: Some("refusal".to_owned()),
        ..result(TerminalReason::ApiError)
    };
    assert_eq!(
        cause(&ended(&[ClientEvent::Result(Box::new(refusal))], None)),
        EndCause::Refused
    );
}

// shows: AGT-08
#[test]
fn an_end_without_a_result_is_told_by_the_exit() {
    for (events, exit, expected) in [
        (
            vec![init()],
            Exit::Code(143),
            EndCause::Killed { signal: 15 },
        ),
        (
            vec![init()],
            Exit::Signal(9),
            EndCause::Killed { signal: 9 },
        ),
        (vec![init()], Exit::Code(1), EndCause::Crashed { exit: 1 }),
        (
            vec![],
            Exit::Code(1),
            EndCause::NeverStarted("error: the reason".to_owned()),
        ),
        (
            vec![init()],
            Exit::Code(0),
            EndCause::Protocol("it exited without a result".to_owned()),
        ),
        (
            vec![init(), callback()],
            Exit::Code(0),
            EndCause::UnansweredCallback,
        ),
        (vec![init()], Exit::EngineLost, EndCause::EngineLost),
    ] {
        assert_eq!(cause(&ended(&events, Some(exit))), expected);
    }
}

/// As 2.1.197 and 2.1.329 say it.
// shows: RUN-20, AGT-08
#[test]
fn a_client_that_refuses_its_flags_is_not_started_again() {
    let said = |stderr: &str| {
        let mut seen = Observed::default();
        seen.exited(Exit::Code(1), stderr);
        cause(&seen)
    };
    for stderr in [
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
        "error: unknown option '--no-such-flag'",
        "error: option '--permission-mode <mode>' argument 'nonsense' is invalid.",
    ] {
        assert_eq!(said(stderr), EndCause::NotTaken(stderr.to_owned()));
    }
    let other = "Error: ENOSPC: no space left on device";
    assert_eq!(said(other), EndCause::NeverStarted(other.to_owned()));
    assert_eq!(
        said(" \n"),
        EndCause::NeverStarted("exit code 1".to_owned())
    );
    let mut seen = ended(&[init()], None);
    seen.exited(Exit::Code(1), "error: unknown option '-x'");
    assert_eq!(cause(&seen), EndCause::Crashed { exit: 1 });
}

#[test]
fn a_subagent_that_goes_on_opens_no_turn() {
    let said =
        br#"{"type":"assistant","message":{"id":"m","model":"x"},"parent_tool_use_id":"t1"}"#;
    let fine = TurnResult {
        is_error: false,
        ..result(TerminalReason::Completed)
    };
    let events = [
        init(),
        ClientEvent::Result(Box::new(fine)),
        ClientEvent::parse(said),
    ];
    assert_eq!(
        cause(&ended(&events, Some(Exit::Code(0)))),
        EndCause::Completed
    );
}

#[test]
fn a_result_of_an_earlier_turn_is_not_the_end() {
    let fine = TurnResult {
        is_error: false,
        ..result(TerminalReason::Completed)
    };
    let seen = ended(
        &[init(), ClientEvent::Result(Box::new(fine)), init()],
        Some(Exit::Signal(9)),
    );
    assert_eq!(seen.last_result(), None);
    assert_eq!(cause(&seen), EndCause::Killed { signal: 9 });
}

fn fine() -> ClientEvent {
    ClientEvent::Result(Box::new(TurnResult {
        is_error: false,
        ..result(TerminalReason::Completed)
    }))
}

// shows: AGT-08
#[test]
fn an_unanswered_callback_is_not_a_success() {
    let subagent = br#"{"type":"control_request","request_id":"h2","request":{"subtype":"hook_callback","input":{"agent_id":"a"}}}"#;
    assert_eq!(
        cause(&ended(&[init(), callback(), fine()], None)),
        EndCause::UnansweredCallback
    );
    let beside = ended(&[init(), ClientEvent::parse(subagent), fine()], None);
    assert_eq!(
        cause(&beside),
        EndCause::Completed,
        "a subagent in the background asks"
    );
    let mut answered = ended(&[init(), callback()], None);
    answered.callback_answered("h1");
    answered.observe(&fine());
    assert_eq!(cause(&answered), EndCause::Completed);
}

/// An answer that came too late looks given from our side; the client says that it was not.
// shows: AGT-08
#[test]
fn a_callback_that_the_client_gave_up_is_unanswered() {
    let cancel = |id: &str| {
        ClientEvent::parse(
            format!(r#"{{"type":"control_cancel_request","request_id":"{id}"}}"#).as_bytes(),
        )
    };
    let cause_with = |id: &str, prepare: fn(&mut Observed)| {
        let mut seen = Observed::default();
        [init(), callback()]
            .iter()
            .for_each(|event| seen.observe(event));
        seen.callback_answered("h1");
        prepare(&mut seen);
        [cancel(id), fine()]
            .iter()
            .for_each(|event| seen.observe(event));
        cause(&seen)
    };
    assert_eq!(cause_with("h1", |_| {}), EndCause::UnansweredCallback);
    assert_eq!(cause_with("another", |_| {}), EndCause::Completed);
    assert_ne!(
        cause_with("h1", Observed::interrupt_sent),
        EndCause::UnansweredCallback
    );
}

#[test]
fn an_interrupt_of_ours_and_a_client_that_gives_up_differ() {
    let aborted = || ClientEvent::Result(Box::new(result(TerminalReason::AbortedStreaming)));
    assert_eq!(
        cause(&ended(&[aborted()], Some(Exit::Code(1)))),
        EndCause::AutoModeBlocked
    );
    let mut ours = ended(&[], None);
    ours.interrupt_sent();
    ours.observe(&aborted());
    assert_eq!(cause(&ours), EndCause::Interrupted);
    ours.observe(&init());
    ours.observe(&aborted());
    assert_eq!(
        cause(&ours),
        EndCause::AutoModeBlocked,
        "the interrupt was for the turn before"
    );
}

#[test]
fn what_we_did_ourselves_comes_first() {
    let fine = TurnResult {
        is_error: false,
        ..result(TerminalReason::Completed)
    };
    let killed = |reason| {
        let mut seen = ended(&[init(), ClientEvent::Result(Box::new(fine.clone()))], None);
        seen.ended_by_us(reason);
        seen.ended_by_us(EndedByUs::Operator);
        seen.exited(Exit::Signal(9), "");
        cause(&seen)
    };
    assert_eq!(killed(EndedByUs::Done), EndCause::Completed);
    assert_eq!(killed(EndedByUs::Silent), EndCause::Silent);
    assert_eq!(killed(EndedByUs::Operator), EndCause::Stopped);
    let mut mid_turn = ended(&[init()], Some(Exit::Code(143)));
    mid_turn.ended_by_us(EndedByUs::Done);
    assert_eq!(cause(&mid_turn), EndCause::Stopped);
}

#[test]
fn a_good_result_does_not_hide_a_bad_exit() {
    let fine = TurnResult {
        is_error: false,
        ..result(TerminalReason::Completed)
    };
    let seen = ended(&[ClientEvent::Result(Box::new(fine))], Some(Exit::Code(7)));
    assert_eq!(cause(&seen), EndCause::Crashed { exit: 7 });
}

#[test]
fn reasons_beside_the_service_have_their_causes() {
    for (reason, expected) in [
        (TerminalReason::ImageError, EndCause::InvalidRequest),
        (TerminalReason::ModelError, EndCause::ServerError),
        (
            TerminalReason::MalformedToolUseExhausted,
            EndCause::UnreadableCalls,
        ),
    ] {
        assert_eq!(
            cause(&ended(
                &[ClientEvent::Result(Box::new(result(reason)))],
                None
            )),
            expected
        );
    }
}

#[test]
fn an_unknown_reason_is_named() {
    let odd = result(TerminalReason::Other("moon_phase".to_owned()));
    assert_eq!(
        cause(&ended(&[ClientEvent::Result(Box::new(odd))], None)),
        EndCause::Protocol("unknown reason `moon_phase`".to_owned())
    );
}

/// What follows from a cause, for the manual.
fn consequence(cause: &EndCause) -> String {
    let again = if cause.spoils_conversation() {
        ", in a fresh conversation"
    } else {
        ""
    };
    match cause.class() {
        EndClass::Fine => "the files decide".to_owned(),
        EndClass::Left => "ends the run, resumably".to_owned(),
        EndClass::Wait => "waits; then the same session again".to_owned(),
        EndClass::Retry => format!("the same session again{again}; three attempts"),
        EndClass::Stop(hint) => format!("ends the run: {hint}"),
        EndClass::TooLate => "the session is over; a rescue handoff".to_owned(),
    }
}

/// `UPDATE_EXPECT=1` writes it anew.
// shows: AGT-08
#[test]
fn the_manual_shows_the_table() {
    const BEGIN: &str = "| what is seen | cause | then |\n| --- | --- | --- |\n";
    let manual = include_str!("../../../../docs/agents.md");
    let (before, rest) = manual.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let rows: Vec<String> = TABLE
        .iter()
        .map(|row| {
            format!(
                "| {} | {} | {} |",
                row.sign,
                row.example().to_string().replace(" 0)", " N)"),
                consequence(&row.example())
            )
        })
        .collect();
    let expected = format!("{before}{BEGIN}{}\n\n{after}", rows.join("\n"));
    expect_test::expect_file!["../../../../docs/agents.md"].assert_eq(&expected);
}
