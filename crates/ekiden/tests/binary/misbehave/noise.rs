//! Output that is too much, too slow, or no text.

use crate::running::Said;

use super::course::{course, expect_harmless, play, stage};

fn printing(command: &str) -> String {
    format!("[[act]]\nsession = 1\nat = 'call 2'\ndo = {{ sh = '''{command}''' }}\n")
}

/// One line of 100 MB is passed over, and does not fill the disk.
// shows: AGT-08
#[test]
fn an_endless_line() {
    let scenario = printing(r"head -c 100000000 /dev/zero | tr '\0' x; echo");
    let stage = stage(4, &scenario);
    insta::assert_snapshot!(without_size(&play(&stage, &[])), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    warning text="the event stream is no longer saved: append to `PROJECT/.ekiden/state/runs/RUN/sessions/1/events.jsonl`: it has SIZE bytes; at most 67108864 may be"
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="completion" malformed_lines=1 session=1
    handoff facts=1 items_done=4 session=1
    run_ended facts=1 items_done=4 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
    let kept = stage
        .session(1)
        .join("events.jsonl")
        .metadata()
        .unwrap()
        .len();
    assert!(kept < 70_000_000, "{kept} bytes are kept of the stream");
}

/// How much was there when it became too much differs with the sizes of reads.
fn without_size(course: &str) -> String {
    let (before, after) = course.split_once("it has ").expect("a warning");
    let (_size, after) = after.split_once(" bytes").expect("its size");
    format!("{before}it has SIZE bytes{after}")
}

// shows: AGT-08
#[test]
fn a_million_small_lines() {
    let scenario = printing("yes '[]' | head -n 1000000");
    insta::assert_snapshot!(course(4, &scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="completion" malformed_lines=1000000 session=1
    handoff facts=1 items_done=4 session=1
    run_ended facts=1 items_done=4 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
}

// shows: AGT-08
#[test]
fn a_flood_of_errors() {
    let scenario = printing("yes 'error: no' | head -n 2000000 >&2");
    insta::assert_snapshot!(course(4, &scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="completion" session=1
    handoff facts=1 items_done=4 session=1
    run_ended facts=1 items_done=4 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
}

/// Lines that come in pieces are still lines.
#[test]
fn a_line_in_slow_pieces() {
    let scenario = printing(
        r#"printf '{"type":"sys'; sleep 0.03; printf 'tem","sub'; sleep 0.03; printf 'type":"x"}\n'"#,
    );
    insta::assert_snapshot!(course(4, &scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="completion" session=1
    handoff facts=1 items_done=4 session=1
    run_ended facts=1 items_done=4 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
}

/// Titles, colours, cursor, links, a bell: wherever an agent can put text that ekiden shows.
const ESCAPES: &str = r#"
[[act]]
session = 1
at = "start"
do = { sh = '''printf '\033]0;owned\007\033[2J\n' >&2''' }

[[act]]
session = 1
at = "call 1"
do = { sh = '''printf '\033[31m\033]8;;http://x\007\r\n' ''' }

[[act]]
session = 1
at = "call 1"
do = { say = "\u001b[2J\u009b31m\u202egood\u0007" }

[[act]]
session = 1
at = "call 1"
do = { run = "printf '\\033[2J\\007'; false # \u001b[2J" }

[[act]]
session = 1
at = "start"
do = { edit = { file = "NEXT_PROMPT.md", find = "The item", put = "\u001b[2J\u001b]0;x\u0007The \u202eitem" } }

[[act]]
session = 1
at = "start"
do = { edit = { file = "KNOWLEDGE.md", find = "- ", put = "- \u001b[1m" } }
"#;

// shows: UIX-02
#[test]
fn terminal_escapes_come_to_nothing() {
    let quiet = stage(4, ESCAPES);
    insta::assert_snapshot!(play(&quiet, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" cautions=["the agent's notes held 6 control characters, 2 invisible characters; kept from the next session"] left="handoff" malformed_lines=1 session=1
    handoff facts=1 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="completion" session=2
    handoff facts=2 items_done=4 session=2
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} problems={"cautions":[1]} sessions=2
    --- exit code 0
    "#);
    let stage = stage(4, ESCAPES);
    let shown = stage.run(&["run", "task.md", "--agent", "rehearsal"]);
    insta::assert_snapshot!(stage.normal(&shown), @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 7 tool calls
      ! the agent's notes held 6 control characters, 2 invisible characters; kept from the next session
      note      1 line from the agent could not be read
      items     3 of 4 done
      next      The item "Item 4", with `echo made > item-4.txt`.
    session 2 · CLOCK
      USAGE  says all is done after TIME · 3 tool calls
      items     4 of 4 done

    complete (not verified) · 2 sessions · TIME
    problems   1 suspicious note (session 1)
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       ekiden log RUN
    --- exit code 0
    "#);
    for said in [shown, stage.run(&["status"]), stage.run(&["log"])] {
        let Said { stdout, stderr, .. } = said;
        expect_harmless(&stdout);
        expect_harmless(&stderr);
    }
}
