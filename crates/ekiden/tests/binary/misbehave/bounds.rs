//! Runs that a rule or a limit brings to their end, whatever the agent does.

use rustix::process::Signal;

use crate::environment::{Environment, items};

use super::course::{course, play, stage, told, words};

/// The whole of a file of the handoff, in these sessions.
fn writes(session: u32, file: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        "[[act]]\nsession = {session}\nat = 'start'\n\
         do = {{ edit = {{ file = '{file}', put = {text} }} }}\n"
    )
}

/// The course of sessions that try an item that fails, and say `state` of it.
fn never_done(state: impl Fn(u32) -> String, args: &[&str]) -> String {
    let of = |session| {
        let progress = "STATUS: IN_PROGRESS\n\n## Done\n\nlooked at the items\n\n## Stopped at\n\nItem 1\n\n\
                        ## Issues\n\nnone\n";
        let next = format!(
            "## Task\n\nMake the items.\n\n## State\n\n{}\n\n## Resume at\n\nItem 1\n\n## What works\n\n`ls`\n\n\
             ## What to avoid\n\nnothing so far\n\n## How to verify\n\n`ls` shows them\n",
            state(session)
        );
        writes(session, "PROGRESS.md", progress) + &writes(session, "NEXT_PROMPT.md", &next)
    };
    let stage = stage(1, &(1..=8).map(of).collect::<String>());
    stage.write(
        "task.md",
        "Make the items.\n\n- [ ] Item 1\n\n  ```sh\n  false\n  ```\n",
    );
    play(&stage, args)
}

const STATE: &str = "The items are looked at one after the other.\nEach has a command of its own.\nThe first \
                     one comes first, then the others.\nNothing else is in the way.";

// shows: REL-13
#[test]
fn the_same_notes_again_and_again() {
    insta::assert_snapshot!(never_done(|_| STATE.to_owned(), &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff next="Item 1" session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff next="Item 1" session=2 warnings=["NEXT_PROMPT.md: the same as last time. Write what this session changed and learned."]
    judged kind="repeated" repeat={"in_a_row":1,"of":1,"percent":100} repeats_max=3 session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="handoff" session=3
    handoff next="Item 1" session=3 warnings=["NEXT_PROMPT.md: the same as last time. Write what this session changed and learned."]
    judged kind="repeated" repeat={"in_a_row":2,"of":2,"percent":100} repeats_max=3 session=3
    session_started attempt=1 conversation="fresh" session=4
    attempt_ended attempt=1 cause="completed" left="handoff" session=4
    handoff next="Item 1" session=4 warnings=["NEXT_PROMPT.md: the same as last time. Write what this session changed and learned."]
    judged kind="repeated" repeat={"in_a_row":3,"of":3,"percent":100} repeats_max=3 session=4
    run_ended exit_code=3 outcome={"kind":"stuck","percent":100,"repeats":3} sessions=4
    --- exit code 3
    "#);
}

/// The same notes but for a number, as agents write them that go round in circles.
// shows: REL-13
#[test]
fn the_same_notes_but_for_a_number() {
    let state = |session| format!("{STATE}\nAttempt {session} of many.");
    insta::assert_snapshot!(never_done(state, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff next="Item 1" session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff next="Item 1" session=2
    judged kind="repeated" repeat={"in_a_row":1,"of":1,"percent":100} repeats_max=3 session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="handoff" session=3
    handoff next="Item 1" session=3
    judged kind="repeated" repeat={"in_a_row":2,"of":2,"percent":100} repeats_max=3 session=3
    session_started attempt=1 conversation="fresh" session=4
    attempt_ended attempt=1 cause="completed" left="handoff" session=4
    handoff next="Item 1" session=4
    judged kind="repeated" repeat={"in_a_row":3,"of":3,"percent":100} repeats_max=3 session=4
    run_ended exit_code=3 outcome={"kind":"stuck","percent":100,"repeats":3} sessions=4
    --- exit code 3
    "#);
}

/// Other words each time, and nothing moves.
// shows: REL-14
#[test]
fn other_words_and_nothing_moves() {
    let words = [
        "alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel",
    ];
    let state = |session: u32| {
        let word = words[session as usize - 1];
        format!(
            "{word} was read\n{word} is next\nwhat is known of {word}\n{word} has a form\nsee {word}\n{word}"
        )
    };
    insta::assert_snapshot!(never_done(state, &["--stall-sessions", "2"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff next="Item 1" session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff next="Item 1" session=2
    judged in_a_row=1 kind="idle" session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="handoff" session=3
    handoff next="Item 1" session=3
    judged in_a_row=2 kind="idle" session=3
    run_ended exit_code=3 outcome={"kind":"stalled","sessions":2} problems={"idle":[2,3]} sessions=3
    --- exit code 3
    "#);
}

/// A claim that the verification denies is never taken, and the run does not go on for ever.
// shows: REL-07, REL-14
#[test]
fn a_claim_that_is_never_true() {
    insta::assert_snapshot!(course(2, "", &["--verify", "false"]), @r#"
    run_started
    first_check command="false" result={"code":1,"kind":"failed"}
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    attempt_ended attempt=1 cause="completed" left="completion" session=1
    handoff facts=1 items_done=2 session=1
    check command="false" result={"code":1,"kind":"failed"} session=1 veto=true
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    attempt_ended attempt=1 cause="completed" left="completion" session=2
    handoff facts=2 items_done=2 session=2
    check command="false" result={"code":1,"kind":"failed"} session=2 veto=true
    judged in_a_row=1 kind="idle" session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="question" session=3
    handoff facts=2 items_done=2 next="The questions under the issues of this session." session=3
    check command="false" result={"code":1,"kind":"failed"} session=3
    run_ended exit_code=4 facts=2 items_done=2 outcome={"kind":"blocked","question":"- Every command of the task exits with 0, twice over, and the check still fails. What is missing in the task, or wrong in the check?\n- After a failed check everything was done over once."} problems={"idle":[2],"vetoes":[1,2]} sessions=3
    --- exit code 4
    "#);
}

/// The order comes before or while the first item is worked on, and the session hands off with what it has.
///
/// The agent's first command lasts until the agent has read the order, which its second `queued` says (the
/// first is the prompt's): so the order joins the turn after item 1, however slow the machine is.
// shows: AGT-09
#[test]
fn the_time_of_a_session_is_up() {
    let ordered = "until [ $(grep -c '\"queued\"' .ekiden/state/runs/*/sessions/1/events.jsonl) -ge 2 ]; \
                   do sleep 0.02; done";
    let ordered = serde_json::to_string(ordered).unwrap();
    let scenario = format!("[[act]]\nsession = 1\nat = 'call 1'\ndo = {{ run = {ordered} }}\n");
    let course = course(3, &scenario, &["--session-timeout", "1ms", "-m", "1"]);
    // The agent tells its window at its start: before or after the order, as the machine is quick.
    let course = course.replacen("window\n", "", 1);
    insta::assert_snapshot!(course, @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    time_up session=1 timeout_ms=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=1 items_open=2 next="The item \"Item 2\", with `echo made > item-2.txt`." session=1
    run_ended exit_code=3 facts=1 items_done=1 items_open=2 outcome={"kind":"session_limit"} sessions=1
    --- exit code 3
    "#);
}

/// An agent that is deaf to the order: its turn is ended when all is spent, so that it tells its exact cost,
/// and what it has not written is rescued.
const DEAF: &str = "[[act]]\nat = 'prompt'\ndo = 'ignore_messages'\n";

/// A large window, so that only a budget ends a session; the price is known from a run before.
fn roomy(scenario: &str) -> Environment {
    let stage = stage(1, "")
        .with("EKIDEN_REHEARSAL_PRICE", "1000")
        .with("EKIDEN_REHEARSAL_WINDOW", "400000");
    stage
        .run(&["run", "task.md", "--agent", "rehearsal"])
        .expect(0);
    std::fs::remove_file(stage.dir().join("item-1.txt")).unwrap();
    stage.write("scenario.toml", scenario);
    stage.write("task.md", &items(60));
    stage
}

// shows: REL-22
#[test]
fn the_money_of_a_session_is_spent() {
    insta::assert_snapshot!(play(&roomy(DEAF), &["--new", "--session-budget", "280", "-m", "2"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    spend estimated=true mark="nearly" measure="money" session=1
    level level="L1" session=1
    spend estimated=true mark="spent" measure="money" session=1
    attempt_ended attempt=1 cause="budget_spent" left="nothing" session=1
    rescue cause="budget_spent" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    session_started attempt=1 conversation="fresh" session=2
    spend estimated=true mark="nearly" measure="money" session=2
    level level="L1" session=2
    spend estimated=true mark="spent" measure="money" session=2
    attempt_ended attempt=1 cause="budget_spent" left="nothing" session=2
    rescue cause="budget_spent" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=2
    judged in_a_row=1 kind="idle" session=2
    run_ended exit_code=3 outcome={"kind":"session_limit"} problems={"idle":[2],"rescues":[1,2]} sessions=2
    --- standard error
    warning: task.md may take up to 8 sessions, and may have 2; `-m 8` allows more
    --- exit code 3
    "#);
}

// shows: REL-22
#[test]
fn the_money_of_a_run_is_spent() {
    let course = play(&roomy(DEAF), &["--new", "--run-budget", "280"]);
    // What the runs before cost is never the same.
    let (before, rest) = course.split_once("such work costs ").unwrap();
    let (_, after) = rest.split_once(" here").unwrap();
    insta::assert_snapshot!(format!("{before}such work costs COST here{after}"), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    spend estimated=true mark="nearly" measure="money" session=1
    level level="L1" session=1
    spend estimated=true mark="spent" measure="money" session=1
    attempt_ended attempt=1 cause="budget_spent" left="nothing" session=1
    rescue cause="budget_spent" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    run_ended exit_code=3 outcome={"budget":{"micro_usd":280000000,"tokens":null},"kind":"budget_spent","spent":"SPENT"} problems={"rescues":[1]} sessions=1
    --- standard error
    warning: such work costs COST here, and the budget is $280.00; `ekiden estimate` says why
    --- exit code 3
    "#);
}

// shows: REL-22
#[test]
fn the_tokens_of_a_session_are_used() {
    insta::assert_snapshot!(play(&roomy(""), &["--new", "--session-tokens", "60k", "-m", "2"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    spend estimated=true mark="nearly" measure="tokens" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=12 items_open=48 next="The item \"Item 13\", with `echo made > item-13.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    spend estimated=true mark="nearly" measure="tokens" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=2 items_done=24 items_open=36 next="The item \"Item 25\", with `echo made > item-25.txt`." session=2
    judged kind="repeated" repeat={"in_a_row":0,"of":1,"percent":100} repeats_max=3 session=2
    run_ended exit_code=3 facts=2 items_done=24 items_open=36 outcome={"kind":"session_limit"} sessions=2
    --- standard error
    warning: task.md may take up to 8 sessions, and may have 2; `-m 8` allows more
    --- exit code 3
    "#);
}

// shows: REL-22
#[test]
fn the_tokens_of_a_run_are_used_by_a_deaf_agent() {
    insta::assert_snapshot!(play(&roomy(DEAF), &["--new", "--run-tokens", "60k"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    spend estimated=true mark="nearly" measure="tokens" session=1
    spend estimated=true mark="spent" measure="tokens" session=1
    attempt_ended attempt=1 cause="budget_spent" left="nothing" session=1
    rescue cause="budget_spent" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    run_ended exit_code=3 outcome={"budget":{"micro_usd":null,"tokens":60000},"kind":"budget_spent","spent":"SPENT"} problems={"rescues":[1]} sessions=1
    --- exit code 3
    "#);
}

/// Killed attempts are paid for as well.
// shows: REL-22
#[test]
fn attempts_that_die_use_up_the_run() {
    let dies = "[[act]]\nat = 'call 2'\ndo = { die = 9 }\n";
    insta::assert_snapshot!(course(7, dies, &["--run-tokens", "25k"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause={"killed":{"signal":9}} estimated=true left="nothing" session=1
    rescue cause={"killed":{"signal":9}} faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    run_ended estimated=true exit_code=3 outcome={"budget":{"micro_usd":null,"tokens":25000},"kind":"budget_spent","spent":"SPENT"} problems={"crashes":[1],"rescues":[1]} sessions=1
    --- exit code 3
    "#);
}

// shows: REL-12
#[test]
fn a_usage_limit_that_nobody_wants_to_wait_for() {
    let limit = "[[act]]\nsession = 1\nattempt = 1\nat = 'call 2'\n\
                 do = { limit = 60 }\n";
    let stage = stage(4, limit);
    let before = play(&stage, &["--on-rate-limit", "stop"]);
    insta::assert_snapshot!(before, @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause={"rate_limited":{"kind":"five_hour","resets_at":"TIME"}} goes_on=true left="nothing" session=1 subscription=true
    run_ended exit_code=3 outcome={"kind":"rate_limited","until":"TIME"} subscription=true
    --- exit code 3
    "#);
    let after = told(&stage, &stage.run(&["resume", "--json"]));
    insta::assert_snapshot!(after, @r#"
    run_resumed ekiden="0.1.0"
    session_started attempt=2 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=2 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="completion" session=2
    handoff facts=2 items_done=4 session=2
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} sessions=2 subscription=true
    --- exit code 0
    "#);
}

// shows: REL-12
#[test]
fn no_session_begins_in_quiet_hours() {
    let stage = stage(1, "");
    let hour = u64::try_from(jiff::Timestamp::now().as_second()).unwrap() / 3600;
    let quiet = format!("{:02}:00-{:02}:00", (hour + 23) % 24, (hour + 2) % 24);
    let mut run = stage.start(&words(&["--quiet-hours", &quiet]));
    run.wait_for("\"event\":\"waiting\"");
    run.signal(Signal::INT);
    insta::assert_snapshot!(told(&stage, &run.end()), @r#"
    run_started
    waiting attempt=1 session=1 why="quiet_hours"
    stop_requested request={"how":"gently"}
    run_ended exit_code=3 outcome={"kind":"stopped","request":{"how":"gently"}}
    --- exit code 3
    "#);
    assert!(!stage.exists("item-1.txt"));
    let after = told(
        &stage,
        &stage.run(&["resume", "--quiet-hours", "none", "--json"]),
    );
    insta::assert_snapshot!(after, @r#"
    run_resumed ekiden="0.1.0"
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause="completed" left="completion" session=1
    handoff facts=1 items_done=1 session=1
    run_ended facts=1 items_done=1 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
}

/// A tool may write what it likes.
// shows: AGT-08
#[test]
fn a_command_that_floods() {
    let flood =
        "[[act]]\nsession = 1\nat = 'call 2'\ndo = { run = 'yes ekiden | head -c 30000000' }\n";
    insta::assert_snapshot!(course(2, flood, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    attempt_ended attempt=1 cause="completed" left="completion" session=1
    handoff facts=1 items_done=2 session=1
    run_ended facts=1 items_done=2 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
}

/// What ignores SIGTERM, left its session, or holds the agent's output open ends as well.
// shows: RUN-10
#[test]
fn background_children_that_will_not_go() {
    let children = r#"
[[act]]
session = 1
at = "call 1"
do = { run = "(trap '' TERM HUP; exec sleep 1000) & (setsid sh -c 'trap \"\" TERM; sleep 1000' &) > /dev/null 2>&1; nohup sleep 1000 > /dev/null 2>&1 & true" }
"#;
    insta::assert_snapshot!(course(2, children, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    attempt_ended attempt=1 cause="completed" left="completion" session=1
    handoff facts=1 items_done=2 session=1
    run_ended facts=1 items_done=2 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
}

/// The task is frozen: an agent that rewrites it is told of, and works on at the task that it was given.
// shows: REL-01, REL-17, RUN-12
#[test]
fn the_task_is_edited() {
    for (deed, left) in [
        ("echo '- [ ] Item 99' >> .ekiden/TASK.md", true),
        ("rm .ekiden/TASK.md", false),
        (
            "rm .ekiden/TASK.md; ln -s ../item-1.txt .ekiden/TASK.md",
            true,
        ),
    ] {
        let scenario =
            format!("[[act]]\nsession = 1\nat = 'call 2'\ndo = {{ run = \"{deed}\" }}\n");
        let stage = stage(4, &scenario);
        let course = play(&stage, &[]);
        assert!(
            course.contains(" touched=[\"TASK.md\"]\n"),
            "{deed}: {course}"
        );
        assert!(course.ends_with("--- exit code 0"), "{deed}: {course}");
        assert_eq!(
            stage.read(".ekiden/TASK.md"),
            stage.read("task.md"),
            "{deed}"
        );
        assert_eq!(kept(&stage), left, "{deed}");
    }
}

/// What stood in place of the task is kept beside session 1.
fn kept(stage: &Environment) -> bool {
    stage.session(1).join("left/TASK.md").exists()
}
