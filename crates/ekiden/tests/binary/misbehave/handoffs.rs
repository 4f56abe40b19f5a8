//! Handoffs that are not what they should be, or not there.

use super::course::{course, play, stage, stage_in_git};

const NOTHING: &str = r#"
[[act]]
session = 1
at = "start"
do = { leave_out = ["PROGRESS.md", "NEXT_PROMPT.md", "KNOWLEDGE.md"] }
"#;

// shows: REL-04, REL-05, REL-06
#[test]
fn no_file_at_all() {
    insta::assert_snapshot!(course(4, NOTHING, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    level level="L3" session=1
    attempt_ended attempt=1 cause="completed" left="nothing" session=1
    rescue cause="completed" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=1 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=2
    judged in_a_row=1 kind="idle" session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=2 items_done=4 session=3
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} problems={"idle":[2],"rescues":[1]} sessions=3
    --- exit code 0
    "#);
}

/// At L3 its calls are refused, the turn is interrupted, it is asked once more, and rescued. There is
/// more to do than the calls that it can make before the interrupt reaches it.
// shows: REL-02, REL-05
#[test]
fn the_order_is_ignored_to_the_end() {
    let scenario = r#"
[[act]]
at = "prompt"
do = "ignore_messages"
"#;
    insta::assert_snapshot!(course(60, scenario, &["-m", "1"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    level level="L3" session=1
    attempt_ended attempt=1 cause="interrupted" left="nothing" session=1
    rescue cause="interrupted" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    run_ended exit_code=3 outcome={"kind":"session_limit"} problems={"rescues":[1]} sessions=1
    --- standard error
    warning: task.md may take up to 8 sessions, and may have 1; `-m 8` allows more
    --- exit code 3
    "#);
}

/// A relay would hand off for ever, so it ends at once.
// shows: REL-02
#[test]
fn a_window_that_is_full_before_the_first_item() {
    let scenario = r#"
[[act]]
session = 1
at = "prompt"
do = { fill = 12000 }
"#;
    insta::assert_snapshot!(course(4, scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    window_full level="L3" session=1
    level level="L3" session=1
    attempt_ended attempt=1 cause="interrupted" goes_on=true left="nothing" session=1
    run_ended exit_code=78 outcome={"filled_by":"TOKENS","kind":"window_too_full","usage_tokens":"TOKENS"}
    --- exit code 78
    "#);
}

// shows: REL-04, REL-05
#[test]
fn a_handoff_that_is_mended_when_asked() {
    let scenario = r#"
[[act]]
session = 1
at = "start"
do = { leave_out = ["NEXT_PROMPT.md"] }

[[act]]
session = 1
at = "message 3"
do = "behave"
"#;
    insta::assert_snapshot!(course(7, scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=4 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=2 items_done=6 items_open=1 next="The item \"Item 7\", with `echo made > item-7.txt`." session=2
    judged kind="repeated" repeat={"in_a_row":0,"of":1,"percent":100} repeats_max=3 session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=3 items_done=7 session=3
    run_ended facts=3 items_done=7 outcome={"kind":"complete","verified":false} sessions=3
    --- exit code 0
    "#);
}

// shows: REL-03
#[test]
fn empty_files() {
    let scenario = r#"
[[act]]
session = 1
at = "start"
do = { edit = { file = "PROGRESS.md", put = "" } }

[[act]]
session = 1
at = "start"
do = { edit = { file = "NEXT_PROMPT.md", put = " \n\n" } }
"#;
    insta::assert_snapshot!(course(4, scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    level level="L3" session=1
    attempt_ended attempt=1 cause="completed" left="nothing" session=1
    rescue cause="completed" faults=["PROGRESS.md: the file is empty","NEXT_PROMPT.md: there is no such file"] session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=2 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=2
    judged in_a_row=1 kind="idle" session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=2 items_done=4 session=3
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} problems={"idle":[2],"rescues":[1]} sessions=3
    --- exit code 0
    "#);
}

// shows: REL-03
#[test]
fn a_tiny_file() {
    let scenario = r#"
[[act]]
session = 1
at = "start"
do = { edit = { file = "NEXT_PROMPT.md", put = "Go on." } }
"#;
    insta::assert_snapshot!(course(7, scenario, &[]), @r###"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="nothing" session=1
    rescue cause="completed" faults=["NEXT_PROMPT.md: no heading \"## Task\" on its own line","NEXT_PROMPT.md: no heading \"## State\" on its own line","NEXT_PROMPT.md: no heading \"## Resume at\" on its own line","NEXT_PROMPT.md: no heading \"## What works\" on its own line","NEXT_PROMPT.md: no heading \"## What to avoid\" on its own line","NEXT_PROMPT.md: no heading \"## How to verify\" on its own line","NEXT_PROMPT.md: only 6 characters"] session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=2 items_done=6 items_open=1 next="The item \"Item 7\", with `echo made > item-7.txt`." session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=3 items_done=7 session=3
    run_ended facts=3 items_done=7 outcome={"kind":"complete","verified":false} problems={"rescues":[1]} sessions=3
    --- exit code 0
    "###);
}

/// Bytes that are no text, a NUL, and a file that is a directory.
// shows: REL-03
#[test]
fn damaged_files() {
    let scenario = r#"
[[act]]
session = 1
at = "stop"
do = { run = "printf 'STATUS: ALL_COMPLETE\\377\\376\\000\\n' > .ekiden/handoff/PROGRESS.md" }

[[act]]
session = 2
at = "stop"
do = { run = "rm -f .ekiden/handoff/NEXT_PROMPT.md; mkdir .ekiden/handoff/NEXT_PROMPT.md" }
"#;
    insta::assert_snapshot!(course(7, scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    level level="L3" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=4 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    level level="L3" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=2 items_done=6 items_open=1 next="The item \"Item 7\", with `echo made > item-7.txt`." session=2
    judged kind="repeated" repeat={"in_a_row":0,"of":1,"percent":100} repeats_max=3 session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=3 items_done=7 session=3
    run_ended facts=3 items_done=7 outcome={"kind":"complete","verified":false} sessions=3
    --- exit code 0
    "#);
}

/// What lies there from the session before must not pass for this session's.
// shows: REL-03, HND-08
#[test]
fn a_stale_handoff() {
    let scenario = r#"
[[act]]
session = 2
at = "start"
do = { leave_out = ["PROGRESS.md", "NEXT_PROMPT.md", "KNOWLEDGE.md"] }
"#;
    insta::assert_snapshot!(course(7, scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=4 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=1 cause="completed" left="nothing" session=2
    rescue cause="completed" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=2
    session_started attempt=1 conversation="fresh" session=3
    level level="L1" session=3
    level level="L2" session=3
    attempt_ended attempt=1 cause="completed" left="handoff" session=3
    handoff facts=2 items_done=6 items_open=1 next="The item \"Item 7\", with `echo made > item-7.txt`." session=3
    judged kind="repeated" repeat={"in_a_row":0,"of":1,"percent":100} repeats_max=3 session=3
    session_started attempt=1 conversation="fresh" session=4
    attempt_ended attempt=1 cause="completed" left="completion" session=4
    handoff facts=3 items_done=7 session=4
    run_ended facts=3 items_done=7 outcome={"kind":"complete","verified":false} problems={"rescues":[2]} sessions=4
    --- exit code 0
    "#);
}

// shows: REL-03
#[test]
fn files_beside_the_place() {
    let scenario = r#"
[[act]]
session = 1
at = "start"
do = { leave_out = ["PROGRESS.md", "NEXT_PROMPT.md"] }

[[act]]
session = 1
at = "stop"
do = { run = "echo 'STATUS: ALL_COMPLETE' | tee PROGRESS.md > .ekiden/PROGRESS.md" }
"#;
    let stage = stage(4, scenario);
    insta::assert_snapshot!(play(&stage, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    level level="L3" session=1
    attempt_ended attempt=1 cause="completed" left="nothing" session=1 touched=["PROGRESS.md"]
    rescue cause="completed" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=2 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=2
    judged in_a_row=1 kind="idle" session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=2 items_done=4 session=3
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} problems={"idle":[2],"rescues":[1]} sessions=3
    --- exit code 0
    "#);
    assert_eq!(stage.read("item-4.txt"), "made\n");
}

/// Published files are the engine's: an edit past the hook is told and not taken over.
// shows: REL-17, AGT-13
#[test]
fn published_files_are_edited() {
    let scenario = r#"
[[act]]
session = 2
at = "call 1"
do = { run = "rm .ekiden/TASK.md; echo '- lies' > .ekiden/KNOWLEDGE.md; echo x >> .ekiden/NEXT_PROMPT.md" }
"#;
    let stage = stage_in_git(5, scenario);
    insta::assert_snapshot!(play(&stage, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=2 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    attempt_ended attempt=1 cause="completed" left="completion" session=2 touched=["NEXT_PROMPT.md","KNOWLEDGE.md","TASK.md"]
    handoff facts=2 items_done=5 session=2
    run_ended facts=2 files_changed=7 items_done=5 outcome={"kind":"complete","verified":false} sessions=2
    --- exit code 0
    "#);
    assert!(!stage.read(".ekiden/KNOWLEDGE.md").contains("lies"));
    assert!(stage.read(".ekiden/TASK.md").contains("Item 5"));
}

/// Nobody can write there any more, until the next session begins.
// shows: REL-17, RUN-12
#[test]
fn the_handoff_directory_leads_elsewhere() {
    let scenario = r#"
[[act]]
session = 1
at = "call 1"
do = { run = "rm -rf .ekiden/handoff; ln -s ../item-1.txt .ekiden/handoff" }
"#;
    insta::assert_snapshot!(course(4, scenario, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="nothing" session=1
    rescue cause="completed" faults=["PROGRESS.md: there is no such file","NEXT_PROMPT.md: there is no such file"] session=1
    session_started attempt=1 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=1 cause="completed" left="handoff" session=2
    handoff facts=1 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=2
    judged in_a_row=1 kind="idle" session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=2 items_done=4 session=3
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} problems={"idle":[2],"rescues":[1]} sessions=3
    --- exit code 0
    "#);
}

/// All that is published is gone, and comes back: the truth lies elsewhere.
// shows: REL-17, RUN-12
#[test]
fn everything_published_is_removed() {
    let scenario = r#"
[[act]]
session = 2
attempt = 1
at = "call 1"
do = { run = "rm -rf .ekiden" }

[[act]]
session = 2
attempt = 1
at = "call 2"
do = { die = 9 }
"#;
    let stage = stage_in_git(7, scenario);
    insta::assert_snapshot!(play(&stage, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=4 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause={"killed":{"signal":9}} estimated=true goes_on=true left="nothing" session=2 touched=["PROGRESS.md","NEXT_PROMPT.md","KNOWLEDGE.md","TASK.md"]
    waiting attempt=2 cause={"killed":{"signal":9}} session=2 why="failure"
    session_started attempt=2 conversation="fresh" session=2
    level level="L1" session=2
    level level="L2" session=2
    attempt_ended attempt=2 cause="completed" left="handoff" session=2
    handoff facts=2 items_done=6 items_open=1 next="The item \"Item 7\", with `echo made > item-7.txt`." session=2
    judged kind="repeated" repeat={"in_a_row":0,"of":1,"percent":100} repeats_max=3 session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=3 items_done=7 session=3
    run_ended estimated=true facts=3 files_changed=9 items_done=7 outcome={"kind":"complete","verified":false} problems={"crashes":[2]} sessions=3
    --- exit code 0
    "#);
    assert!(stage.read(".ekiden/TASK.md").contains("Item 7"));
    assert!(stage.read(".ekiden/PROGRESS.md").contains("- [x] Item 7"));
    assert!(stage.exists(".ekiden/status.json"));
}

/// Nothing can be published over a directory, so it is moved aside.
// shows: REL-17
#[test]
fn a_published_file_becomes_a_directory() {
    let scenario = r#"
[[act]]
session = 1
at = "call 1"
do = { run = "rm .ekiden/PROGRESS.md; mkdir -p .ekiden/PROGRESS.md/x" }
"#;
    let stage = stage_in_git(4, scenario);
    insta::assert_snapshot!(play(&stage, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1 touched=["PROGRESS.md"]
    handoff facts=1 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="completion" session=2
    handoff facts=2 items_done=4 session=2
    run_ended facts=2 files_changed=6 items_done=4 outcome={"kind":"complete","verified":false} sessions=2
    --- exit code 0
    "#);
}

// shows: REL-36
#[test]
fn what_cannot_be_written_over_is_called_what_it_is() {
    let file = ".ekiden/handoff/NEXT_PROMPT.md";
    for (command, what) in [
        ("ln -s /etc/hosts", "a symbolic link"),
        ("mkfifo", "a pipe or a device"),
        ("mkdir", "a directory"),
        (r"printf '\200\201' >", "binary data"),
        (r"printf '\377\376h\000' >", "UTF-16 text"),
    ] {
        let scenario = format!(
            "[[act]]\nsession = 1\nat = \"stop\"\ndo = {{ sh = '''rm -rf {file}; {command} {file}''' }}\n"
        );
        let told = course(7, &scenario, &["-m", "1"]);
        let fault = format!("faults=[\"NEXT_PROMPT.md: it was {what}, and was set aside\"]");
        assert!(told.contains(&fault), "{told}");
    }
}
