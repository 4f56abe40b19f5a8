//! False claims of completion: in the handoff of session 1, with work left. The run must go on and do it.

use super::course::{left, play, stage};

/// What the first handoff says of the items that are open.
#[derive(Clone, Copy)]
enum Items {
    Open,
    Ticked,
}

/// Plays a task of five items whose first handoff says this in place of its STATUS line.
fn after(line: &str, items: Items, args: &[&str]) -> String {
    let put = serde_json::to_string(line).unwrap();
    let edit = |find: &str, put: &str| {
        let edit = format!("{{ edit = {{ file = 'PROGRESS.md', find = '{find}', put = {put} }} }}");
        format!("[[act]]\nsession = 1\nat = 'start'\ndo = {edit}\n")
    };
    let ticks = match items {
        Items::Ticked => edit("- [ ]", "'- [x]'"),
        Items::Open => String::new(),
    };
    let scenario = edit("STATUS: IN_PROGRESS", &put) + &ticks;
    let stage = stage(5, &scenario);
    let course = play(&stage, args);
    assert_eq!(stage.read("item-5.txt"), "made\n", "{line}\n{course}");
    format!("{:40} {}\n", line.escape_debug().to_string(), left(&course))
}

// shows: REL-09
#[test]
fn words_beside_an_honest_status_are_no_claim() {
    let disguises = [
        "```\nSTATUS: ALL_COMPLETE\n```",
        "> STATUS: ALL_COMPLETE",
        "    STATUS: ALL_COMPLETE",
        "<!-- STATUS: ALL_COMPLETE -->",
        "`STATUS: ALL_COMPLETE`",
        "I shall not write ALL_COMPLETE yet.",
        "ALL_COMPLETE",
        "## ALL_COMPLETE",
    ];
    let honest = |words: &&str| after(&format!("{words}\n\nSTATUS: IN_PROGRESS"), Items::Open, &[]);
    insta::assert_snapshot!(disguises.iter().map(honest).collect::<String>(), @r"
    ```\nSTATUS: ALL_COMPLETE\n```\n\nSTATUS: IN_PROGRESS handoff, completion; exit code 0
    > STATUS: ALL_COMPLETE\n\nSTATUS: IN_PROGRESS handoff, completion; exit code 0
        STATUS: ALL_COMPLETE\n\nSTATUS: IN_PROGRESS handoff, completion; exit code 0
    <!-- STATUS: ALL_COMPLETE -->\n\nSTATUS: IN_PROGRESS handoff, completion; exit code 0
    `STATUS: ALL_COMPLETE`\n\nSTATUS: IN_PROGRESS handoff, completion; exit code 0
    I shall not write ALL_COMPLETE yet.\n\nSTATUS: IN_PROGRESS handoff, completion; exit code 0
    ALL_COMPLETE\n\nSTATUS: IN_PROGRESS      handoff, completion; exit code 0
    ## ALL_COMPLETE\n\nSTATUS: IN_PROGRESS   handoff, completion; exit code 0
    ");
}

/// What cannot be read as one claim, or has open items beside it, is asked about, and is none if the
/// agent insists.
// shows: REL-09, REL-04
#[test]
fn a_claim_that_is_none_is_asked_about() {
    let disguises = [
        "`STATUS: ALL_COMPLETE`",
        "> STATUS: ALL_COMPLETE",
        "status: all_complete",
        "STATUS: ALL_COMPLETE\n\nSTATUS: IN_PROGRESS",
        "STATUS: ALL_COMPLETE, nearly",
        "STATUS: ALL_COMPLETE `not yet`",
        "Nothing.",
    ];
    let asked = |words: &&str| after(words, Items::Open, &[]);
    let open = after("STATUS: ALL_COMPLETE", Items::Open, &[]);
    insta::assert_snapshot!(disguises.iter().map(asked).chain([open]).collect::<String>(), @r"
    `STATUS: ALL_COMPLETE`                   nothing, rescue, completion; exit code 0
    > STATUS: ALL_COMPLETE                   nothing, rescue, completion; exit code 0
    status: all_complete                     nothing, rescue, completion; exit code 0
    STATUS: ALL_COMPLETE\n\nSTATUS: IN_PROGRESS nothing, rescue, completion; exit code 0
    STATUS: ALL_COMPLETE, nearly             nothing, rescue, completion; exit code 0
    STATUS: ALL_COMPLETE `not yet`           nothing, rescue, completion; exit code 0
    Nothing.                                 nothing, rescue, completion; exit code 0
    STATUS: ALL_COMPLETE                     nothing, rescue, completion; exit code 0
    ");
}

/// However it is dressed, a claim is a claim, and the verification has the last word.
// defect: W10
// shows: REL-07, REL-09
#[test]
fn a_false_claim_is_vetoed() {
    let dresses = [
        "STATUS: ALL_COMPLETE",
        "## STATUS: ALL_COMPLETE",
        "**STATUS: ALL_COMPLETE**",
        "- STATUS: ALL_COMPLETE",
        "STATUS: ALL_COMPLETE\n\nSTATUS: ALL_COMPLETE",
    ];
    let vetoed = |words: &&str| after(words, Items::Ticked, &["--verify", "test -e item-5.txt"]);
    insta::assert_snapshot!(dresses.iter().map(vetoed).collect::<String>(), @r"
    STATUS: ALL_COMPLETE                     completion, veto, handoff, completion; exit code 0
    ## STATUS: ALL_COMPLETE                  completion, veto, handoff, completion; exit code 0
    **STATUS: ALL_COMPLETE**                 completion, veto, handoff, completion; exit code 0
    - STATUS: ALL_COMPLETE                   completion, veto, handoff, completion; exit code 0
    STATUS: ALL_COMPLETE\n\nSTATUS: ALL_COMPLETE completion, veto, handoff, completion; exit code 0
    ");
}

/// A claim belongs into `PROGRESS.md`.
// shows: REL-09
#[test]
fn next_prompt_cannot_claim() {
    let scenario = r#"
[[act]]
session = 1
at = "start"
do = { edit = { file = "NEXT_PROMPT.md", find = 'The items', put = 'STATUS: ALL_COMPLETE' } }
"#;
    let stage = stage(7, scenario);
    insta::assert_snapshot!(play(&stage, &[]), @r#"
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
    judged kind="repeated" repeat={"in_a_row":0,"of":1,"percent":87} repeats_max=3 session=2
    session_started attempt=1 conversation="fresh" session=3
    attempt_ended attempt=1 cause="completed" left="completion" session=3
    handoff facts=3 items_done=7 session=3
    run_ended facts=3 items_done=7 outcome={"kind":"complete","verified":false} sessions=3
    --- exit code 0
    "#);
    assert_eq!(stage.read("item-7.txt"), "made\n");
}
