//! How the real client's attempts end: each way in which the service can fail has its named cause
//! and its own behaviour.

use ekiden_testkit::messages_api::{Ending, Message, Reply, Request, Status, Usage};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acting::call;
use crate::stage::Stage;

const HAIKU: &str = "claude-haiku-4-5-20251001";
/// When the limits of these tests are lifted, in seconds since 1970.
pub(crate) const RESET: u64 = 2_000_000_000;

/// What a run does after the first attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    /// It ends with this code.
    Exit(i32),
    /// The same session has another attempt.
    Again,
    /// The session is over.
    Over,
}

/// One way to end.
struct Case {
    name: &'static str,
    reply: fn(&Request) -> Reply,
    /// Changes the stage.
    stage: fn(Stage) -> Stage,
    args: &'static [&'static str],
    cause: Value,
    then: Then,
}

impl Case {
    fn new(name: &'static str, reply: fn(&Request) -> Reply, cause: Value, then: Then) -> Self {
        Self {
            name,
            reply,
            stage: |stage| stage,
            args: &[],
            cause,
            then,
        }
    }

    fn on(self, stage: fn(Stage) -> Stage) -> Self {
        Self { stage, ..self }
    }

    fn args(self, args: &'static [&'static str]) -> Self {
        Self { args, ..self }
    }

    fn check(&self) {
        let reply = self.reply;
        let Some(stage) = Stage::set(self.name, move |request, _| reply(request)) else {
            return;
        };
        let stage = (self.stage)(stage);
        let wait = if self.then == Then::Again { "6h" } else { "0s" };
        let mut words = vec!["run", "Make one item.", "-m", "1", "--max-wait", wait];
        words.extend(self.args);
        let mut running = stage.start(&words);
        let ended = running.until("attempt_ended");
        if self.then == Then::Again {
            running.until("waiting");
            running.signal(Signal::TERM);
        }
        let code = match self.then {
            Then::Exit(code) => code,
            Then::Again => 143,
            Then::Over => 3,
        };
        let told = running.expect_exit(code);
        assert_eq!(ended["cause"], self.cause, "{}: {told:#?}", self.name);
    }
}

/// All of them, two at a time.
fn check_all(cases: &[Case]) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| case.check());
        }
    });
}

fn error(code: u16, kind: &str, message: &str) -> Reply {
    Status::error(code, kind, message).into()
}

/// A login by subscription, whose limits the client tells as events.
fn subscribed(stage: Stage) -> Stage {
    stage
        .with("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake")
        .without("ANTHROPIC_API_KEY")
}

/// A subscription's limit, rejected.
pub(crate) fn limit(claim: &str, window: &str) -> Reply {
    let reset = RESET.to_string();
    Status::error(
        429,
        "rate_limit_error",
        "This request would exceed your account's rate limit.",
    )
    .header("anthropic-ratelimit-unified-status", "rejected")
    .header("anthropic-ratelimit-unified-reset", &reset)
    .header("anthropic-ratelimit-unified-representative-claim", claim)
    .header(
        &format!("anthropic-ratelimit-unified-{window}-status"),
        "rejected",
    )
    .header(
        &format!("anthropic-ratelimit-unified-{window}-utilization"),
        "1.0",
    )
    .header(
        &format!("anthropic-ratelimit-unified-{window}-reset"),
        &reset,
    )
    .into()
}

fn limited(kind: &str, resets_at: Option<u64>) -> Value {
    json!({"rate_limited": {"kind": kind, "resets_at": resets_at.map(|secs| secs * 1000)}})
}

// shows: REL-10, REL-11
#[test]
fn each_limit_is_told_by_its_event_and_waited_for() {
    let case = |name, reply, cause| Case::new(name, reply, cause, Then::Exit(3));
    check_all(&[
        case(
            "429",
            |_| error(429, "rate_limit_error", "slow down"),
            limited("unknown", None),
        ),
        case(
            "429 with a late retry",
            |_| {
                Status::error(429, "rate_limit_error", "later")
                    .header("retry-after", "3600")
                    .into()
            },
            limited("unknown", None),
        ),
        case(
            "five hours",
            |_| limit("five_hour", "5h"),
            limited("five_hour", Some(RESET)),
        )
        .on(subscribed),
        case(
            "a week",
            |_| limit("seven_day", "7d"),
            limited("seven_day", Some(RESET)),
        )
        .on(subscribed),
        case(
            "a model",
            |_| limit("seven_day_opus", "7d"),
            limited("seven_day_model", Some(RESET)),
        )
        .on(subscribed),
        case(
            "overage",
            |_| limit("overage", "5h"),
            limited("overage", Some(RESET)),
        )
        .on(subscribed),
        case(
            "429 for a subscriber that is no limit",
            |_| error(429, "rate_limit_error", "slow down"),
            limited("unknown", None),
        )
        .on(subscribed),
        Case::new(
            "529",
            |_| error(529, "overloaded_error", "Overloaded"),
            json!("overloaded"),
            Then::Exit(69),
        ),
    ]);
}

// shows: REL-10
#[test]
fn what_only_a_person_can_mend_ends_the_run() {
    let case = |name, reply, cause: &str| Case::new(name, reply, json!(cause), Then::Exit(69));
    check_all(&[
        case(
            "401",
            |_| error(401, "authentication_error", "invalid x-api-key"),
            "authentication_failed",
        ),
        case(
            "403",
            |_| error(403, "permission_error", "not allowed"),
            "authentication_failed",
        ),
        case(
            "401 for a subscriber",
            |_| error(401, "authentication_error", "expired"),
            "authentication_failed",
        )
        .on(subscribed),
        case(
            "no login",
            |_| Message::text("Who asks?").into(),
            "authentication_failed",
        )
        .on(|stage| stage.without("ANTHROPIC_API_KEY")),
        case(
            "402",
            |_| error(402, "billing_error", "pay"),
            "billing_failed",
        ),
        case(
            "404",
            |_| error(404, "not_found_error", "model: none"),
            "model_not_found",
        ),
        case(
            "an empty account",
            |_| {
                error(
                    400,
                    "invalid_request_error",
                    "Your credit balance is too low to access the Anthropic API.",
                )
            },
            "billing_failed",
        ),
    ]);
}

// shows: REL-10, AGT-08
#[test]
fn an_outage_and_an_odd_answer_are_tried_again() {
    let case = |name, reply, cause: &str| Case::new(name, reply, json!(cause), Then::Again);
    check_all(&[
        case("500", |_| error(500, "api_error", "oops"), "server_error"),
        case("503", |_| error(503, "api_error", "oops"), "server_error"),
        case("dropped", |_| Reply::Drop, "server_error"),
        case(
            "cut",
            |_| Message::text("half").ending(Ending::Drop).into(),
            "server_error",
        ),
        case(
            "an error in the stream",
            |_| {
                Message::text("half")
                    .ending(Ending::Error("overloaded_error"))
                    .into()
            },
            "server_error",
        ),
        case(
            "400",
            |_| error(400, "invalid_request_error", "messages.1: odd"),
            "invalid_request",
        ),
        case(
            "413",
            |_| error(413, "request_too_large", "too large"),
            "invalid_request",
        ),
        case(
            "a refusal",
            |_| {
                Message::text("No.")
                    .ending(Ending::Because("refusal"))
                    .into()
            },
            "refused",
        ),
        case(
            "the output limit",
            |_| {
                Message::text("On")
                    .ending(Ending::Because("max_tokens"))
                    .into()
            },
            "output_limit",
        ),
    ]);
}

fn fills_the_window(request: &Request) -> Reply {
    let context = if request.tool_results().is_empty() {
        30_000
    } else {
        190_000
    };
    call().using(Usage::context(context)).into()
}

/// A first response above L2 leaves no room to work: a relay would hand off for ever.
// shows: REL-31
#[test]
fn a_window_that_is_full_before_the_work_ends_the_run() {
    let reply = |_: &Request| -> Reply { call().using(Usage::context(130_000)).into() };
    Case::new("a full window", reply, json!("interrupted"), Then::Exit(78)).check();
}

// shows: REL-15
#[test]
fn a_session_that_used_up_what_it_had_is_over() {
    let case = |name, reply, cause: &str| Case::new(name, reply, json!(cause), Then::Over);
    check_all(&[
        case(
            "the context",
            |_| {
                error(
                    400,
                    "invalid_request_error",
                    "prompt is too long: 250000 tokens > 200000 maximum",
                )
            },
            "context_full",
        ),
        case("the window", fills_the_window, "context_full").args(&["--model", HAIKU]),
        case("turns", |_| call().into(), "turn_limit")
            .on(|stage| stage.client_arg("--max-turns=1")),
        case("budget", |_| call().into(), "budget_spent")
            .on(|stage| stage.client_arg("--max-budget-usd=0.0000001")),
    ]);
}

// shows: AGT-08
#[test]
fn a_client_that_does_not_know_our_flags_ends_the_run() {
    let cause = json!({"not_taken": "error: unknown option '--no-such-flag'"});
    let reply = |_: &Request| -> Reply { Message::text("Who asks?").into() };
    Case::new("an unknown flag", reply, cause, Then::Exit(78))
        .on(|stage| stage.client_arg("--no-such-flag"))
        .check();
}
