//! `-v`: what the agent says and does, told in lines that do nothing to a terminal.

use super::course::{expect_harmless, stage};

const SCENARIO: &str = r#"
[[act]]
session = 1
at = "call 1"
do = { say = "I begin.\n\u001b]0;owned\u0007\u001b[2JThen \u001b[31mred\u001b[0m." }
"#;

// shows: RUN-02
#[test]
fn words_and_calls_are_told_on_request() {
    let stage = stage(2, SCENARIO);
    let said = stage
        .run(&["run", "task.md", "--agent", "rehearsal", "-v", "-m", "1"])
        .expect(0);
    expect_harmless(&said.stdout);
    insta::assert_snapshot!(stage.normal(&said), @r"
    run RUN · relay, at most 1 session · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      says      I begin.
                Then red.
      says      Item: Item 1
      Bash      echo made > item-1.txt
      says      Item: Item 2
      Bash      echo made > item-2.txt
      says      Handing off: KNOWLEDGE.md
      Write     .ekiden/handoff/KNOWLEDGE.md
      says      Handing off: PROGRESS.md
      Write     .ekiden/handoff/PROGRESS.md
      says      The handoff is written.
      USAGE  says all is done after TIME · 4 tool calls
      items     2 of 2 done

    complete (not verified) · 1 session · TIME
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       ekiden log RUN
    --- exit code 0
    ");
}

// shows: RUN-02
#[test]
fn lines_for_programs_hold_the_story_alone() {
    let stage = stage(2, SCENARIO);
    let said = stage
        .run(&["run", "task.md", "--agent", "rehearsal", "-v", "--json"])
        .expect(0);
    assert!(!said.stdout.contains("I begin."), "{said}");
}
