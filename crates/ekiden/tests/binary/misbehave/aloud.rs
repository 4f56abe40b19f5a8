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
    let said = stage.run(&["run", "task.md", "--agent", "rehearsal", "-v", "-m", "1"]).expect(0);
    expect_harmless(&said.stdout);
    insta::assert_snapshot!(stage.normal(&said), @"");
}

// shows: RUN-02
#[test]
fn lines_for_programs_hold_the_story_alone() {
    let stage = stage(2, SCENARIO);
    let said = stage.run(&["run", "task.md", "--agent", "rehearsal", "-v", "--json"]).expect(0);
    assert!(!said.stdout.contains("I begin."), "{said}");
}
