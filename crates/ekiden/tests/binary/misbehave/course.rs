//! A run whose agent follows a scenario, and its course in short.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::environment::{Environment, items};
use crate::processes::expect_nothing_alive;
use crate::running::Said;

/// What differs from run to run, or is the same in all of them.
const LEFT_OUT: [&str; 19] = [
    "report",
    "next_command",
    "v",
    "event",
    "time",
    "run",
    "stage",
    "duration_ms",
    "waiting_ms",
    "usage_tokens",
    "percent",
    "tool_calls",
    "tokens",
    "turns",
    "filled_by",
    "until",
    "cost_micro_usd",
    "session_max",
    "sessions_max",
];
/// Events that say the same in every course.
const NAMED_ONLY: [&str; 2] = ["run_started", "window"];

/// A project with a task of so many items, whose agent follows a scenario.
pub(super) fn stage(items_count: u32, scenario: &str) -> Environment {
    on(Environment::new(), items_count, scenario)
}

/// The same in a repository.
pub(super) fn stage_in_git(items_count: u32, scenario: &str) -> Environment {
    on(Environment::with_git(), items_count, scenario)
}

fn on(environment: Environment, items_count: u32, scenario: &str) -> Environment {
    let environment = environment.with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    environment.write("scenario.toml", scenario);
    environment.write("task.md", &items(items_count));
    environment
}

/// Plays a scenario to its end.
pub(super) fn course(items_count: u32, scenario: &str, args: &[&str]) -> String {
    play(&stage(items_count, scenario), args)
}

/// Carries the run of this stage to its end, and tells its course.
pub(super) fn play(stage: &Environment, args: &[&str]) -> String {
    told(stage, &stage.run(&words(args)))
}

/// The command line of a run whose course is told.
pub(super) fn words<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["run", "task.md", "--agent", "rehearsal", "--json"], args].concat()
}

/// The course of a run that is over, after a look at what must hold of every run.
#[track_caller]
pub(super) fn told(stage: &Environment, said: &Said) -> String {
    expect_nothing_alive(stage);
    expect_harmless(&said.stdout);
    expect_harmless(&said.stderr);
    let mut course = String::new();
    for line in said.stdout.lines() {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        course.push_str(&short(line.as_object().unwrap()));
        course.push('\n');
    }
    if !said.stderr.is_empty() {
        let _ = writeln!(course, "--- standard error\n{}", said.stderr.trim_end());
    }
    let ids = stage.runs().into_iter().map(|run| (run, "RUN"));
    let known = [(stage.dir().display().to_string(), "PROJECT")]
        .into_iter()
        .chain(ids);
    let course = known.fold(course, |course, (known, name)| course.replace(&known, name));
    format!("{course}--- exit code {}", said.code)
}

/// A terminal would only show it.
#[track_caller]
pub(super) fn expect_harmless(text: &str) {
    let bad = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(bad, None, "{}", text.escape_debug());
}

/// `attempt_ended attempt=1 cause="completed" …`
fn short(line: &Map<String, Value>) -> String {
    let event = line["event"].as_str().unwrap();
    let mut short = event.to_owned();
    if NAMED_ONLY.contains(&event) {
        return short;
    }
    let told = line
        .iter()
        .filter(|(name, value)| !LEFT_OUT.contains(&name.as_str()) && says(value));
    for (name, value) in told {
        let _ = write!(short, " {name}={}", steady(value));
    }
    short
}

/// The value without what differs from run to run.
fn steady(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let value = match name.as_str() {
                    "resets_at" | "until" if value.is_number() => "TIME".into(),
                    "filled_by" | "usage_tokens" => "TOKENS".into(),
                    "spent" => "SPENT".into(),
                    "limits_ms" => "TIME".into(),
                    _ => steady(value),
                };
                (name.clone(), value)
            };
            Value::Object(
                fields
                    .iter()
                    .filter(|(name, _)| *name != "limits_ms")
                    .map(field)
                    .collect(),
            )
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            value.clone()
        }
    }
}

/// Nothing, none and no are not told.
fn says(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        Value::Number(number) => number.as_u64() != Some(0),
        Value::Bool(true) | Value::String(_) | Value::Object(_) => true,
    }
}

/// What each attempt of a course left, and what the verification said to a claim.
pub(super) fn left(course: &str) -> String {
    let of = |line: &str| {
        let word = |name: &str| {
            line.split(' ')
                .find_map(|word| word.strip_prefix(name))
                .map(str::to_owned)
        };
        match line.split(' ').next()? {
            "attempt_ended" => word("left="),
            "check" => word("veto=").map(|_| "veto".to_owned()),
            "rescue" => Some("rescue".to_owned()),
            _ => None,
        }
    };
    let words: Vec<String> = course
        .lines()
        .filter_map(of)
        .map(|word| word.replace('"', ""))
        .collect();
    format!(
        "{}; {}",
        words.join(", "),
        course
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("--- ")
    )
}
