//! Lists of items, worked through one a session.

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::guard::{SESSION, Watched};
use crate::processes::expect_nothing_alive;
use crate::running::wait_until;

/// A list whose items each write a file and count how often they did.
fn list(count: u32) -> String {
    let item = |n| format!("- [ ] item {n}\n\n  ```sh\n  echo {n} >> done.txt\n  ```\n");
    (1..=count).map(item).collect()
}

fn project(list: &str) -> Environment {
    let environment = Environment::with_git();
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    environment.run(&["ralph", "init"]).expect(0);
    environment.write("fix_plan.md", list);
    environment.commit_all();
    environment
}

fn with_scenario(environment: Environment, scenario: &str) -> Environment {
    let file = environment.path("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    environment.with("EKIDEN_REHEARSAL_SCENARIO", file.to_str().unwrap())
}

const RUN: [&str; 4] = ["ralph", "run", "--agent", "rehearsal"];

fn status(environment: &Environment) -> Value {
    let said = environment.run(&["ralph", "status", "--json"]).expect(0);
    serde_json::from_str(&said.stdout).unwrap()
}

fn open(environment: &Environment) -> usize {
    status(environment)["open"].as_array().unwrap().len()
}

// shows: RLP-09
#[test]
fn init_writes_three_files_and_overwrites_none() {
    let environment = Environment::new();
    environment.write("PROMPT.md", "mine");
    expect![[r#"
        kept, it was there: PROMPT.md
        wrote: fix_plan.md
        wrote: progress.txt
        next  fill them in, then  ekiden ralph run --verify 'COMMAND'
        --- exit code 0"#]]
    .assert_eq(&environment.told(&["ralph", "init"]));
    assert_eq!(environment.read("PROMPT.md"), "mine");
    assert!(environment.read("fix_plan.md").contains("- [ ] "));
    assert!(environment.exists("progress.txt"));
}

// shows: RLP-09
#[test]
fn without_a_list_nothing_begins() {
    let environment = Environment::new();
    expect![[r#"
        --- standard error
        error: there is no PROMPT.md here
        hint: `ekiden ralph init` writes one to fill in
        --- exit code 66"#]]
    .assert_eq(&environment.told(&RUN));
    environment.write("PROMPT.md", "Do it.\n");
    environment.write("fix_plan.md", "Do this, then that.\n");
    expect![[r#"
        --- standard error
        error: fix_plan.md lists no items
        hint: write each as a line of its own: `- [ ] text`
        --- exit code 65"#]]
    .assert_eq(&environment.told(&["ralph", "next"]));
}

// shows: RLP-09
#[test]
fn a_list_that_is_ticked_is_done_once_it_is_verified() {
    let environment = project("- [x] one\n- [x] two\n");
    let run = [&RUN[..], &["--verify", "echo no luck; test -e made"]].concat();
    expect![[r#"
        --- standard error
        error: all 2 items of fix_plan.md are done, but `echo no luck; test -e made` failed in TIME (exit code 1)
        no luck
        hint: add an item that says what is left to do
        --- exit code 1"#]]
    .assert_eq(&environment.told(&run));
    environment.write("made", "");
    environment.run(&run).expect(0);
    assert!(environment.runs().is_empty());
    environment.write("fix_plan.md", &list(2));
    environment
        .run(&[&run[..], &["-m", "1"]].concat())
        .expect(3);
    environment.write("fix_plan.md", "- [x] one\n- [x] two\n");
    let told = environment.told(&run);
    assert!(told.contains("ekiden resume"), "{told}");
    assert!(!told.contains("are done"), "{told}");
    environment.run(&[&run[..], &["--new"]].concat()).expect(0);
}

/// Any program may write it, and the knowledge has nothing to do with it.
// shows: REL-17
#[test]
fn an_edit_of_the_knowledge_counts_though_the_loops_state_is_damaged() {
    let item = "- [ ] one\n\n  ```sh\n  echo '{' > .ekiden/ralph-state.json\n  ```\n";
    let editor = "sed -i '/^## Core/a\\\n\\\n- pinned: mine'";
    let environment = project(&format!("{item}{}", list(2)))
        .with("EDITOR", "false")
        .with("VISUAL", editor);
    let said = environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let warned = "ralph-state.json";
    assert!(said.stderr.contains(warned), "{said}");
    environment.run(&["knowledge", "edit"]).expect(0);
    environment.run(&["resume", "-m", "1"]).expect(3);
    let prompt = environment.kept(2, "prompt.md");
    assert!(prompt.contains("¦ - pinned: mine"), "{prompt}");
    let knowledge = environment.read(".ekiden/KNOWLEDGE.md");
    assert!(knowledge.contains("- pinned: mine"), "{knowledge}");
}

/// The run itself has ticked an item of the list since.
// shows: RLP-09
#[test]
fn a_list_that_is_run_again_is_the_same_task() {
    let environment = project(&list(2));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let said = environment.run(&RUN).expect(3);
    assert!(said.stderr.contains("a run of this task"), "{said}");
    environment.write("PROMPT.md", "Something else.\n");
    let said = environment.run(&RUN).expect(1);
    assert!(said.stderr.contains("a run of another task"), "{said}");
}

/// No session is wasted on an item that a person has dropped, and none waits for one that they added.
// shows: RLP-09, RUN-11
#[test]
fn what_a_person_does_in_the_list_between_sessions_counts_for_the_next_one() {
    let environment = project(&list(3));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let plan = environment.read("fix_plan.md");
    let plan = plan.replace("- [ ] item 2", "- [x] item 2");
    environment.write("fix_plan.md", &format!("{plan}- [ ] item 4\n"));
    let said = environment.run(&["resume", "-m", "9"]).expect(0).stdout;
    let told = "after your edit, fix_plan.md has 2 open of 4";
    assert!(said.contains(told), "{said}");
    assert!(said.contains("4: item 4 ·"), "{said}");
    assert_eq!(environment.read("done.txt"), "1\n3\n");
}

// shows: RLP-09
#[test]
fn numbered_items_are_ticked_where_they_stand() {
    let environment = project("1. [ ] one\n2. [ ] two\n");
    environment.run(&RUN).expect(0);
    let list = environment.read("fix_plan.md");
    assert_eq!(list, "1. [x] one\n2. [x] two\n");
}

/// Killed twice and stopped by a limit once on the way.
// shows: RLP-09, DUR-03, UIX-09
#[test]
fn twenty_five_items_are_done_one_a_session_whatever_happens() {
    let limit = "[[act]]\nsession = 4\nattempt = 1\nat = \"call 1\"\ndo = { limit = 1 }\n";
    let environment = with_scenario(project(&list(25)), limit);
    let check = ["-g", "--verify", "test -e fix_plan.md"];
    let mut run = environment.start(&[&RUN[..], &check].concat());
    for session in ["session 8 ", "session 16 "] {
        run.wait_for(session);
        run.signal(Signal::KILL);
        run.end();
        expect_nothing_alive(&environment);
        run = environment.start(&["resume"]);
    }
    let said = run.end().expect(0);
    assert!(said.stdout.contains("verified complete"), "{said}");
    assert_eq!(open(&environment), 0);
    let mut done: Vec<u32> = (environment.read("done.txt").lines())
        .map(|line| line.parse().unwrap())
        .collect();
    // What was cut off may have been done twice.
    done.dedup();
    assert_eq!(done, Vec::from_iter(1..=25));
    let stats = environment.run(&["stats", "--json"]).expect(0).stdout;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    let ralph = &stats["metrics"]["ralph"];
    assert_eq!(ralph["complete"], json!({"part": 1, "of": 1}), "{stats}");
    assert_eq!(ralph["items"], json!({"part": 25, "of": 25}), "{stats}");
    let subjects = environment.git(&["log", "--format=%s", "--grep=ekiden: session"]);
    assert_eq!(subjects.lines().count(), 25, "{subjects}");
    assert!(environment.read("progress.txt").lines().count() >= 25);
    assert!(
        environment
            .run(&["ralph", "next"])
            .expect(0)
            .stdout
            .starts_with("all 25 items")
    );
}

// shows: RLP-09
#[test]
fn an_item_that_never_verifies_is_set_aside_and_told() {
    let bad = list(4).replace("echo 2 >> done.txt", "test -e mended || touch bad");
    let environment = project(&bad);
    let check = ["--verify", "test ! -e bad"];
    expect![[r#"
        run RUN · relay, at most 12 sessions · rehearsal, hands off at 60% · PROMPT.md
        verification `test ! -e bad` passes already, so all items must be done, too
        session 1 · CLOCK
          item      1: item 1 · 6% to 18% of the context
          window    40k tokens (rehearsal), hands off at 24k
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    passed in TIME
        session 2 · CLOCK
          item      2: item 2 · 28% to 88% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    failed in TIME
        session 3 · CLOCK
          item      2: item 2 · 28% to 88% of the context
          USAGE  handed off after TIME · 7 tool calls
          next      The next item of the list.
          note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
          verify    failed in TIME
        session 4 · CLOCK
          item      2: item 2 · 28% to 88% of the context
          USAGE  handed off after TIME · 7 tool calls
          next      The next item of the list.
          note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
          verify    failed in TIME
          ! session 4: set aside, 3 sessions did not finish it: item 2
        session 5 · CLOCK
          item      3: item 3 · 28% to 88% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    failed in TIME
        session 6 · CLOCK
          item      4: item 4 · 34% to 88% of the context; it is asked to use subagents
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    failed in TIME

        blocked (4): session 6 needs your input · 6 sessions · TIME · 3 of 4 items done · 4 files not committed
          All else is done. 1 left in fix_plan.md, since 3 sessions did not finish them or sessions added them after the first 100. Write what helps below an item's line, or tick it if it is to be dropped; then `ekiden resume` tries them again:
          - item 2
        problems   1 item set aside (session 4)
        knowledge  4 facts in .ekiden/KNOWLEDGE.md
        report     .ekiden/runs/RUN/report.html
        answer     ekiden answer 'TEXT'     or: ekiden answer   (opens your editor)
        --- exit code 4"#]].assert_eq(&environment.told(&[&RUN[..], &check].concat()));
    expect![[r#"
          list      3 of 4 items done
          ! set aside: item 2
          next      `ekiden resume` tries again what was set aside
          loop      6 iterations · 0 checkpoints · context up to 48%
        --- exit code 0"#]]
    .assert_eq(&environment.told(&["ralph", "status"]));
    // A person mends it, and the run goes on.
    environment.shell("rm bad; touch mended");
    environment.run(&["resume"]).expect(0);
}

// shows: RLP-09
#[test]
fn a_list_that_is_ticked_while_the_verification_fails_is_not_complete() {
    let environment = project(&list(1));
    let given = ["-m", "1", "--verify", "test -e never"];
    environment.run(&[&RUN[..], &given].concat()).expect(3);
    let told = environment.told(&["ralph", "status"]);
    assert!(told.contains("but the run is not complete"), "{told}");
}

/// Each has words that are easily taken for those of another item, or for none.
// shows: RLP-09, AGT-05
#[test]
fn every_item_of_an_odd_list_is_done_once() {
    let long = "word ".repeat(60);
    let items = [
        "Перенести заказы",
        "Перенести счета",
        "write tests",
        "see [the spec](docs/spec.md#m1)",
        "write tests",
        "<Modal>",
        "replace <Button/> by `Vec<u8>`",
        &long,
    ];
    let item = |(n, text)| format!("- [ ] {text}\n\n  ```sh\n  echo {n} >> done.txt\n  ```\n");
    let list: String = items.iter().enumerate().map(item).collect();
    let environment = project(&list);
    environment.run(&RUN).expect(0);
    assert_eq!(
        environment.read("done.txt").replace('\n', " "),
        "0 1 2 3 4 5 6 7 "
    );
    assert_eq!(environment.read("fix_plan.md"), list.replace("[ ]", "[x]"));
}

// shows: RLP-09
#[test]
fn an_item_that_was_set_aside_is_done_once_a_person_ticks_it() {
    let environment = project(&list(2).replace("echo 2 >> done.txt", "false"));
    environment.run(&RUN).expect(4);
    let ticked = environment.read("fix_plan.md");
    let ticked = ticked.replace("- [ ] item 2", "- [x] item 2 (by hand)");
    environment.write("fix_plan.md", &ticked);
    let told = environment.told(&["ralph", "status"]);
    let is_done = told.contains("2 of 2 items done") && !told.contains("set aside");
    assert!(is_done, "{told}");
    let said = environment.run(&["resume"]).expect(0).stdout;
    assert!(said.contains(" · 4 sessions · "), "none has begun: {said}");
    assert!(!said.contains("items done"), "all are: {said}");
}

/// The agent deletes an item that nobody has done: it is open, whatever the file says.
// shows: RLP-09
#[test]
fn the_progress_of_a_list_is_what_its_run_counts() {
    let deletes =
        "[[act]]\nsession = 1\nat = \"stop\"\ndo = { sh = \"sed -i '/item 3/d' fix_plan.md\" }\n";
    let environment = with_scenario(project(&list(3)), deletes);
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let counted = status(&environment);
    assert_eq!(counted["done"], json!(["item 1"]));
    assert_eq!(counted["open"], json!(["item 2", "item 3"]));
    // A person may drop it.
    let plan = environment.read("fix_plan.md");
    environment.write("fix_plan.md", &format!("{plan}- [x] item 3\n"));
    assert_eq!(status(&environment)["open"], json!(["item 2"]));
}

// shows: RLP-09
#[test]
fn a_long_list_is_left_out_of_prompts() {
    let item = |n| format!("- [ ] item {n}, which is said at some length\n");
    let environment = project(&(1..=500).map(item).collect::<String>());
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let prompt = environment.kept(1, "prompt.md");
    assert!(prompt.contains("\n¦ item 1, which"), "{prompt}");
    assert!(!prompt.contains("item 2, which"), "{prompt}");
}

/// Follow-up work is no list, nor is what continues from it.
// shows: RLP-09, RUN-16
#[test]
fn a_run_that_goes_back_to_follow_up_work_is_no_list() {
    let environment = project(&list(1));
    environment.run(&RUN).expect(0);
    let run = &environment.runs()[0];
    let more = "More:\n\n- [ ] this\n- [ ] that\n";
    environment.run(&["continue", more]).expect(0);
    let is_list = |session: &str| {
        environment.run(&["resume", run, "-r", session, "-m", "1"]);
        let header = &environment.log()[0];
        header.to_string().contains(r#""items":true"#)
    };
    assert!(is_list("1") && !is_list("2"));
}

// shows: RLP-09
#[test]
fn an_item_that_is_deleted_is_told_and_done_all_the_same() {
    let deletes =
        "[[act]]\nsession = 1\nat = \"stop\"\ndo = { sh = \"sed -i '/item 3/d' fix_plan.md\" }\n";
    let environment = with_scenario(project(&list(3)), deletes);
    let told = environment.told(&RUN);
    assert!(told.contains("item 3"), "{told}");
    expect![[r#"
        run RUN · relay, at most 9 sessions · rehearsal, hands off at 60% · PROMPT.md
        session 1 · CLOCK
          item      1: item 1 · 6% to 18% of the context
          window    40k tokens (rehearsal), hands off at 24k
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          ! session 1: 1 item gone without a tick: item 3
        session 2 · CLOCK
          item      2: item 2 · 28% to 88% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
        session 3 · CLOCK
          item      3: item 3 · 34% to 88% of the context; it is asked to use subagents
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.

        complete (not verified) · 3 sessions · TIME · 3 files not committed
        problems   1 session removed items unticked (session 1)
        knowledge  3 facts in .ekiden/KNOWLEDGE.md
        report     .ekiden/runs/RUN/report.html
        next       git status
        --- exit code 0"#]]
    .assert_eq(&told);
    assert_eq!(environment.read("done.txt"), "1\n2\n3\n");
}

// shows: RLP-09
#[test]
fn agents_add_items_up_to_a_bound() {
    let adds = "[[act]]\nsession = 1\nat = \"stop\"\ndo = { sh = \"for i in $(seq 150); do echo \\\"- [ ] new $i\\\"; done >> fix_plan.md\" }\n";
    let environment = with_scenario(project(&list(2)), adds);
    let said = environment
        .run(&[&RUN[..], &["-m", "200"]].concat())
        .expect(4)
        .stdout;
    assert!(said.contains("50 left in fix_plan.md, since "), "{said}");
    let ticked = environment.read("fix_plan.md").matches("- [x] ").count();
    assert_eq!(ticked, 2 + 100);
}

// shows: RLP-09
#[test]
fn a_pause_lets_agents_add_no_more_items() {
    let adds = "[[act]]\nsession = 1\nat = \"stop\"\ndo = { sh = \"for i in $(seq 150); do echo \\\"- [ ] new $i\\\"; done >> fix_plan.md\" }\n";
    let environment = with_scenario(project(&list(2)), adds);
    let said = environment
        .run(&[&RUN[..], &["-m", "2", "--pause", "1"]].concat())
        .expect(3)
        .stdout;
    assert!(!said.contains("after your edit"), "{said}");
    assert!(said.contains("2 of 152 items done"), "{said}");
}

fn state(environment: &Environment) -> Value {
    serde_json::from_str(&environment.read(".ekiden/ralph-state.json")).unwrap()
}

// shows: RLP-001, RLP-004, RLP-005, RLP-09
#[test]
fn a_run_that_reaches_l2_says_where_to_resume() {
    let fills = "[[act]]\nsession = 2\nat = \"file 1\"\ndo = { fill = 7000 }\n";
    let environment = with_scenario(project(&list(3)), fills);
    let prompt = environment.read("PROMPT.md");
    environment
        .run(&[&RUN[..], &["-m", "2", "-g"]].concat())
        .expect(3);
    let mut state = state(&environment);
    let checkpoint = &mut state["context_checkpoint"];
    assert!(checkpoint["timestamp"].take().is_string());
    expect![[r#"
        {
          "context_checkpoint": {
            "active": true,
            "current_todo_item": "item 3",
            "files_in_progress": [],
            "handoff_file": ".ekiden/NEXT_PROMPT.md",
            "level": "L2",
            "percent_at_checkpoint": 65,
            "progress_on_item": null,
            "resume_summary": "The next item of the list.",
            "timestamp": null
          },
          "context_history": [
            {
              "checkpoint": false,
              "iteration": 1,
              "peak_percent": 45
            },
            {
              "checkpoint": true,
              "iteration": 2,
              "peak_percent": 65
            }
          ],
          "version": 1
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&state).unwrap());
    let resumes = environment.read("PROMPT.md");
    assert!(
        resumes.contains("\n## CONTEXT CHECKPOINT RESUME\n"),
        "{resumes}"
    );
    assert!(
        resumes.contains("- **Handoff**: .ekiden/NEXT_PROMPT.md\n"),
        "{resumes}"
    );
    let left = environment.git(&["status", "--porcelain"]);
    assert_eq!(left, "", "what the run wrote is committed");
    let subjects = environment.git(&["log", "--format=%s", "-n", "2"]);
    expect![[r#"
        ralph: checkpoint iter 2 (L2 at 65%)
        ekiden: session 1 checkpoint
    "#]]
    .assert_eq(&subjects);
    expect![[r#"
          list      2 of 3 items done
          item      item 3
          loop      2 iterations · 1 checkpoint · context up to 65%
          resumes   from the checkpoint (L2 at 65%), .ekiden/NEXT_PROMPT.md
        --- exit code 0"#]]
    .assert_eq(&environment.told(&["ralph", "status"]));
    environment.run(&["resume"]).expect(0);
    assert_eq!(
        environment.read("PROMPT.md"),
        prompt,
        "all is as its author wrote it"
    );
    let status = status(&environment);
    assert_eq!(status["context_checkpoint"]["active"], false);
    assert_eq!(status["context_history"].as_array().unwrap().len(), 3);
}

/// PROMPT.md has a section of ekiden's then, which is no part of the task.
// shows: RLP-004, RLP-09, RUN-16
#[test]
fn the_section_of_a_checkpoint_is_no_part_of_a_task() {
    let fills = "[[act]]\nsession = 2\nat = \"file 1\"\ndo = { fill = 7000 }\n";
    let environment = with_scenario(project(&list(3)), fills);
    environment
        .run(&[&RUN[..], &["-m", "2"]].concat())
        .expect(3);
    let resumes = "CONTEXT CHECKPOINT RESUME";
    assert!(environment.read("PROMPT.md").contains(resumes));
    environment
        .run(&["resume", "--task", "PROMPT.md", "-m", "1"])
        .expect(0);
    let prompt = environment.kept(3, "prompt.md");
    assert!(!prompt.contains(resumes), "{prompt}");
}

// shows: RLP-09
#[test]
fn a_run_whose_task_was_given_anew_is_told_by_its_goal() {
    let environment = project(&list(3));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    environment
        .run(&["resume", "--task", "PROMPT.md", "-m", "1"])
        .expect(3);
    let said = environment.run(&RUN).expect(3);
    assert!(said.stderr.contains("a run of this task"), "{said}");
}

// shows: RLP-006, RLP-10
#[test]
fn an_item_is_estimated_and_a_large_one_gets_the_hint() {
    let environment = project("- [ ] port big.txt\n- [ ] a small one\n");
    environment.write("big.txt", &"words of it\n".repeat(5_000));
    let told = environment.told(&RUN);
    let items = told
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("item "));
    let sizes: Vec<&str> = items.collect();
    expect![[r#"
        item      1: port big.txt · 36% to 123% of the context; it is asked to use subagents
        item      2: a small one · 24% to 88% of the context"#]]
    .assert_eq(&sizes.join("\n"));
    let hinted = |session: u32| {
        environment
            .kept(session, "prompt.md")
            .contains("Give bulky work to subagents")
    };
    assert!(hinted(1) && !hinted(2));
    environment.write("fix_plan.md", "- [ ] port big.txt once more\n");
    let again = environment.told(&[&RUN[..], &["--new"]].concat());
    let again = again.lines().map(str::trim);
    let again = again.filter(|line| line.starts_with("item "));
    expect!["item      1: port big.txt once more · 37% to 123% of the context; it is asked to use subagents"].assert_eq(&again.collect::<Vec<_>>().join("\n"));
}

/// The state of a loop may come with a clone, and so may what its prompt leads to.
// shows: SEC-02, RLP-003
#[test]
fn a_prompt_that_leads_out_of_the_project_is_left_alone() {
    let session = Watched::new();
    let environment = &session.environment;
    environment.run(&["ralph", "init"]).expect(0);
    let theirs = environment.path("home/notes.md");
    let linked = environment.dir().join("PROMPT.md");
    std::fs::rename(&linked, &theirs).unwrap();
    let before = std::fs::read_to_string(&theirs).unwrap();
    std::os::unix::fs::symlink(&theirs, &linked).unwrap();
    let second = json!({"session_id": "second", "source": "startup"});
    session.uses(46).hook("SessionStart", &second);
    let call = json!({"session_id": "second", "tool_calls": [{"tool_name": "Bash", "tool_input": {"command": "git commit -m done"}, "tool_response": "ok"}]});
    session.uses(87).hook("PostToolBatch", &call);
    session.checkpointed_of("second");
    session.hook(
        "SessionEnd",
        &json!({"session_id": "second", "reason": "other"}),
    );
    assert_eq!(state(environment)["context_checkpoint"]["active"], true);
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), before);
}

// shows: MEM-003
#[test]
fn a_prompt_names_the_plugins_tools_where_only_the_plugin_is_there() {
    let session = Watched::new();
    let environment = &session.environment;
    environment.run(&["ralph", "init"]).expect(0);
    let plugin = r#"{"enabledPlugins": {"ekiden@ekiden": true}}"#;
    environment.write(".claude/settings.json", plugin);
    session
        .uses(46)
        .hook("SessionStart", &json!({"source": "startup"}));
    session.uses(87).batch("git commit -m done");
    session.checkpointed();
    session.hook("SessionEnd", &json!({"reason": "other"}));
    let prompt = environment.read("PROMPT.md");
    let tool = "mcp__plugin_ekiden_ekiden__search(";
    assert!(prompt.contains(tool), "{prompt}");
}

/// In the client's own interface a person decides when to go on.
// shows: RLP-004
#[test]
fn no_session_of_a_person_is_ended_by_a_loop() {
    let mut session = Watched::new();
    session.environment = session.environment.with("CLAUDE_CODE_ENTRYPOINT", "cli");
    let environment = &session.environment;
    environment.run(&["ralph", "init"]).expect(0);
    session
        .uses(46)
        .hook("SessionStart", &json!({"source": "startup"}));
    session.uses(87).batch("git commit -m done");
    session.checkpointed();
    let documents = environment.dir().join(".ekiden/handoffs");
    let document = std::fs::read_dir(documents).unwrap().next().unwrap();
    let edit = json!({"tool_calls": [{"tool_name": "Edit", "tool_input": {"file_path": document.unwrap().path(), "old_string": "a", "new_string": "b"}, "tool_response": "ok"}]});
    let filled = session.hook("PostToolBatch", &edit);
    assert_eq!(filled["continue"], Value::Null, "{filled}");
}

/// A loop of a person's own: the hooks of one iteration, then of the next one.
// shows: RLP-002, RLP-003, RLP-004, RLP-005, MEM-003, MEM-07
#[test]
fn a_plain_loop_is_watched_and_its_prompt_says_where_to_resume() {
    let session = Watched::new();
    let environment = &session.environment;
    environment.run(&["ralph", "init"]).expect(0);
    environment.write(
        "fix_plan.md",
        "- [ ] port api\n  - [x] lexer\n  - [ ] parser\n",
    );
    let prompt = environment.read("PROMPT.md");
    environment.run(&["ralph", "next"]).expect(1);
    session
        .uses(45)
        .hook("SessionStart", &json!({"source": "startup"}));
    session.hook("SessionEnd", &json!({"reason": "other"}));
    assert_eq!(
        environment.read("PROMPT.md"),
        prompt,
        "there is nothing to resume"
    );

    let second = json!({"session_id": "second", "source": "startup"});
    session.uses(46).hook("SessionStart", &second);
    let of_second = |event: &str, more: Value| {
        let mut more = more;
        more["session_id"] = "second".into();
        session.hook(event, &more)
    };
    let call = |command: &str| json!({"tool_calls": [{"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": "ok"}]});
    session.uses(87);
    let crossed = of_second("PostToolBatch", call("git commit -m done"));
    assert_eq!(crossed["continue"], Value::Null, "{crossed}");
    session.checkpointed_of("second");
    let told = of_second("PostToolBatch", call("ls"));
    assert_eq!(
        told["continue"],
        Value::Null,
        "the agent fills the document in: {told}"
    );
    let document = environment.path("project/.ekiden/handoffs");
    let document = std::fs::read_dir(document)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let edit = json!({"tool_calls": [{"tool_name": "Edit", "tool_input": {"file_path": document, "old_string": "a", "new_string": "b"}, "tool_response": "ok"}]});
    let filled = of_second("PostToolBatch", edit);
    assert_eq!(filled["continue"], false, "{filled}");
    of_second("SessionEnd", json!({"reason": "other"}));

    let mut state = state(environment);
    let checkpoint = &mut state["context_checkpoint"];
    assert!(checkpoint["timestamp"].take().is_string());
    let file = checkpoint["handoff_file"].take();
    assert!(
        file.as_str().unwrap().starts_with(".ekiden/handoffs/"),
        "{file}"
    );
    expect![[r#"
        {
          "context_checkpoint": {
            "active": true,
            "current_todo_item": "port api",
            "files_in_progress": [
              {
                "lines": null,
                "path": "src/api.rs"
              }
            ],
            "handoff_file": null,
            "level": "L2",
            "percent_at_checkpoint": 87,
            "progress_on_item": "50%",
            "resume_summary": "Review the uncommitted changes in src/api.rs, PROMPT.md, fix_plan.md, 1 more: `git status`.",
            "timestamp": null
          },
          "context_history": [
            {
              "checkpoint": false,
              "iteration": 1,
              "peak_percent": 45,
              "session": "5afeba7c-2d1b-4052-8781-47e7f3b03bf3"
            },
            {
              "checkpoint": true,
              "iteration": 2,
              "peak_percent": 87,
              "session": "second"
            }
          ],
          "open_items": [
            "port api",
            "parser"
          ],
          "version": 1
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&state).unwrap());
    let resumes = environment
        .read("PROMPT.md")
        .replace(file.as_str().unwrap(), "DOCUMENT");
    expect![[r##"
        # Task: <what all the items together are for>
        <!-- ekiden: resume, made at a checkpoint; what you change here is lost -->
        ## CONTEXT CHECKPOINT RESUME

        > This iteration is resuming from a context checkpoint.
        > Previous session hit 87% context (L2 threshold).

        ### Memory Query (Run First)

        Use the memory to retrieve checkpoint context:

        1. Get recent context: mcp__ekiden__get_recent_context(limit=5)
        2. Search checkpoints: mcp__ekiden__search(query="checkpoint L2", type="observations")

        Without these tools, begin with the handoff.

        ### Resume From

        - **File**: src/api.rs
        - **Item**: port api (50% complete)
        - **Handoff**: DOCUMENT

        ### Instructions

        1. DO NOT restart the task from scratch
        2. Read the handoff document first
        3. Continue from where previous session left off
        <!-- /ekiden: resume -->

        Study the specifications in <specs/> and the code in <src/>; know what is there before you write.

        ## How to work

        - fix_plan.md lists the work. Work on the item that you are given, else on its first open one, and on nothing else.
        - Search before you write: the code may exist already. Leave no placeholders; finish what you begin.
        - Run `<command>` after each change. An item is done when it passes.
        - Then tick the item in fix_plan.md, its words unchanged, and add a line to progress.txt: what you did, what you learned.
        - If you find more to do, add it to the end of fix_plan.md as an item. Do not remove lines from it.
    "##]].assert_eq(&resumes);
    let subject = environment.git(&["log", "-1", "--format=%s", "refs/ekiden/wip/second"]);
    assert_eq!(subject, "ralph: checkpoint iter 2 (L2 at 87%)\n");

    let third = json!({"session_id": "third", "source": "startup"});
    session.uses(20).hook("SessionStart", &third);
    session.hook("Stop", &third);
    assert_eq!(environment.read("PROMPT.md"), prompt);
    let left = || {
        let left = environment.run(&["memory", "search", "iteration"]);
        left.expect(0).stdout
    };
    assert!(!left().contains("Iteration 3"), "it may still hand off");
    session.hook(
        "SessionEnd",
        &json!({"session_id": "third", "reason": "other"}),
    );
    let left = left();
    for title in [
        "Iteration 2 handed off: Review the uncommitted changes",
        "Iteration 3 leaves no handoff",
    ] {
        assert_eq!(left.matches(title).count(), 1, "{title} in {left}");
    }
    environment.write(
        "fix_plan.md",
        "- [x] port api\n  - [x] lexer\n  - [x] parser\n",
    );
    environment.run(&["ralph", "next"]).expect(0);
}

/// Each session of a loop is an iteration, and forty of them leave one comment.
// shows: LIN-002
#[test]
fn the_iterations_of_a_loop_share_one_comment_in_their_issue() {
    let mut session = Watched::new();
    session.environment = session.environment.with("EKIDEN_TRACKER_KIND", "local");
    let environment = &session.environment;
    environment.run(&["ralph", "init"]).expect(0);
    environment.write(".issues/ANV-123.md", "---\ntitle: Port\n---\n");
    for id in ["first", "second"] {
        let of_it = |event: &str, mut more: Value| {
            more["session_id"] = id.into();
            session.hook(event, &more)
        };
        of_it("SessionStart", json!({"source": "startup"}));
        session.uses(87);
        let call = json!({"tool_calls": [{"tool_name": "Bash", "tool_input": {"command": "git commit -m done"}, "tool_response": "ok"}]});
        of_it("PostToolBatch", call);
        session.checkpointed_of(id);
        of_it("SessionEnd", json!({"reason": "other"}));
        session.uses(20);
    }
    let issue = || environment.read(".issues/ANV-123.md");
    wait_until("both iterations are told", || {
        issue().contains("### Iteration 2 · L2 at 87%")
    });
    let issue = issue();
    let first = "<details><summary>Iteration 1 · L2 at 87%</summary>";
    assert_eq!(issue.matches(first).count(), 1, "{issue}");
    assert_eq!(issue.matches("<!-- ekiden:").count(), 1, "{issue}");
}

/// The same of a loop that ekiden runs.
// shows: LIN-002
#[test]
fn the_sessions_of_a_list_are_iterations_in_their_issue() {
    let environment = project(&list(2)).with("EKIDEN_TRACKER_KIND", "local");
    environment.write(".issues/ANV-123.md", "---\ntitle: Port\n---\n");
    environment.git(&["switch", "--quiet", "-c", "feat/ANV-123-port"]);
    environment.run(&RUN).expect(0);
    wait_until("the end is told", || {
        environment.read(".issues/ANV-123.md").contains("Run ended")
    });
    let issue = environment.read(".issues/ANV-123.md");
    for told in ["Iteration 1 · ", "Iteration 2 · "] {
        assert_eq!(issue.matches(told).count(), 1, "{issue}");
    }
}

/// The loop of the manual, with a client that does the first open item.
// shows: RLP-003, RLP-09
#[test]
fn a_loop_in_a_shell_ends_when_all_items_are_done() {
    let environment = project(&list(25));
    let done = r#"echo x >> calls; awk '!done && sub(/\[ \]/, "[x]") { done = 1 } 1' fix_plan.md > new && mv new fix_plan.md"#;
    environment.script("claude", &format!("{done}\n"));
    let program = env!("CARGO_BIN_EXE_ekiden");
    environment.shell(&format!(
        "while {program} ralph next; [ $? = 1 ]; do ./claude -p < PROMPT.md; done"
    ));
    assert_eq!(environment.read("calls").lines().count(), 25);
    assert_eq!(open(&environment), 0);
}

// shows: RLP-003, RLP-09
#[test]
fn an_item_that_a_loop_deletes_is_put_back() {
    let environment = project("- [ ] one\n- [ ] two\n");
    environment.run(&["ralph", "next"]).expect(1);
    environment.write("fix_plan.md", "- [x] one\n");
    expect![[r#"
        two
        --- standard error
        warning: put back, it was gone without a tick: two
        --- exit code 1"#]]
    .assert_eq(&environment.told(&["ralph", "next"]));
    assert_eq!(environment.read("fix_plan.md"), "- [x] one\n- [ ] two\n");
    environment.write("fix_plan.md", "# Plan\n\n- [ ] two\n- [ ] two\n");
    environment.run(&["ralph", "next"]).expect(1);
    for less in ["# Plan\n\n- [ ] two\n", "# Plan\n"] {
        environment.write("fix_plan.md", less);
        environment.run(&["ralph", "next"]).expect(1);
        assert_eq!(open(&environment), 2, "{less}");
    }
}

/// A run keeps its own list.
// shows: RLP-003, RLP-09
#[test]
fn what_a_run_has_done_is_not_put_back() {
    let environment = project(&list(2));
    environment.run(&["ralph", "next"]).expect(1);
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    environment.write("fix_plan.md", "- [ ] item 2\n");
    assert_eq!(
        environment.told(&["ralph", "next"]),
        "item 2\n--- exit code 1"
    );
}

// shows: RLP-003, RUN-08
#[test]
fn a_loop_does_not_go_on_while_a_run_works() {
    let environment = project("- [ ] one\n\n  ```sh\n  sleep 60\n  ```\n");
    let mut run = environment.start(&RUN);
    run.wait_for("session 1 ");
    let said = environment.run(&["ralph", "next"]).expect(75);
    assert!(
        said.stderr.contains("another run works in this directory"),
        "{said}"
    );
    run.signal(Signal::KILL);
    run.end();
    expect_nothing_alive(&environment);
}

// shows: RLP-007, RLP-008
#[test]
fn context_and_checkpoint_of_an_iteration() {
    let mut session = Watched::new();
    expect![[r#"
        --- standard error
        error: there is no loop here: .ekiden/ralph-state.json is missing
        hint: `ekiden ralph init` begins one
        --- exit code 66"#]]
    .assert_eq(&session.environment.told(&["ralph", "context"]));
    session.environment.run(&["ralph", "init"]).expect(0);
    session.uses(45).batch("ls");
    session.environment = session.environment.with("CLAUDE_CODE_SESSION_ID", SESSION);
    let projects = session.environment.path("home/.claude/projects/-p");
    std::fs::create_dir_all(&projects).unwrap();
    std::fs::copy(
        session.transcript(),
        projects.join(format!("{SESSION}.jsonl")),
    )
    .unwrap();
    let told = session
        .environment
        .run(&["ralph", "checkpoint"])
        .expect(0)
        .stdout;
    assert!(
        told.contains("PROMPT.md resumes from it in the next iteration"),
        "{told}"
    );
    let prompt = session.environment.read("PROMPT.md");
    assert!(
        prompt.contains("> Previous session was at 45% context.\n"),
        "{prompt}"
    );
    let told = session.environment.told(&["ralph", "context"]);
    assert!(
        told.starts_with("Context     45% L0: 75k of 167k usable tokens"),
        "{told}"
    );
    assert!(told.contains("\niteration 1  45%  checkpoint\n"), "{told}");
}

// shows: RLP-003, RLP-09
#[test]
fn a_loop_goes_on_while_the_verification_fails_and_then_asks() {
    let environment = project("- [x] one\n").with("EKIDEN_VERIFY", "test -e made");
    expect![[r#"
        `test -e made` fails: find out why, and fix that
        --- exit code 1"#]]
    .assert_eq(&environment.told(&["ralph", "next"]));
    let tick = || {
        let list = environment.read("fix_plan.md").replace("[ ]", "[x]");
        environment.write("fix_plan.md", &list);
    };
    for _ in 0..2 {
        tick();
        environment.run(&["ralph", "next"]).expect(1);
    }
    tick();
    expect![[r#"
        --- standard error
        error: all items are ticked, but `test -e made` failed in TIME (exit code 1)
        hint: fix it, or add an item that says how; then start the loop again
        --- exit code 4"#]]
    .assert_eq(&environment.told(&["ralph", "next"]));
    environment.write("made", "");
    environment.run(&["ralph", "next"]).expect(0);
}

// shows: RLP-003, RLP-09
#[test]
fn deleting_the_item_of_a_failed_verification_does_not_count_anew() {
    let environment = project("- [x] one\n").with("EKIDEN_VERIFY", "test -e made");
    environment.run(&["ralph", "next"]).expect(1);
    for try_again in [1, 1, 4] {
        environment.write("fix_plan.md", "- [x] one\n");
        let said = environment.run(&["ralph", "next"]).expect(1);
        assert!(said.stderr.contains("put back"), "{said}");
        let list = environment.read("fix_plan.md").replace("[ ]", "[x]");
        environment.write("fix_plan.md", &list);
        environment.run(&["ralph", "next"]).expect(try_again);
    }
    assert_eq!(state(&environment)["unverified"]["tries"], 3);
    environment.write("made", "");
    environment.run(&["ralph", "next"]).expect(0);
    assert_eq!(state(&environment)["unverified"], Value::Null);
}

// shows: RLP-003, RLP-09
#[test]
fn an_item_is_not_added_inside_of_code() {
    let environment = project("- [x] one\n\n```sh\nmake\n").with("EKIDEN_VERIFY", "test -e made");
    environment.run(&["ralph", "next"]).expect(1);
    assert_eq!(open(&environment), 1);
}

/// Its text is cut in the list, and a tag in it is none of its words there.
// shows: RLP-003, RLP-09
#[test]
fn the_item_of_a_long_verification_is_known_again() {
    let check = format!("test -e made\n\n# `<b>` {}", "long ".repeat(50));
    let environment = project("- [x] one\n").with("EKIDEN_VERIFY", &check);
    for left in [1, 1, 1, 4] {
        let said = environment.run(&["ralph", "next"]).expect(left);
        assert!(!said.stderr.contains("put back"), "{said}");
        let list = environment.read("fix_plan.md").replace("[ ]", "[x]");
        environment.write("fix_plan.md", &list);
    }
    assert_eq!(environment.read("fix_plan.md").lines().count(), 4);
    environment.write("made", "");
    environment.run(&["ralph", "next"]).expect(0);
}

// shows: RLP-003, RLP-09
#[test]
fn what_is_written_while_the_verification_runs_is_kept() {
    let more = "echo '- [x] two' >> fix_plan.md; test -e made";
    let environment = project("- [x] one\n").with("EKIDEN_VERIFY", more);
    environment.run(&["ralph", "next"]).expect(1);
    let list = environment.read("fix_plan.md");
    assert!(list.starts_with("- [x] one\n- [x] two\n- [ ] "), "{list}");
    environment.write("fix_plan.md", &list.replace("[ ]", "[x]"));
    let more = "echo '- [ ] three' >> fix_plan.md";
    let environment = environment.with("EKIDEN_VERIFY", more);
    assert_eq!(
        environment.run(&["ralph", "next"]).expect(1).stdout,
        "three\n"
    );
}

// shows: RLP-003, RLP-09
#[test]
fn an_item_that_is_added_while_the_verification_runs_goes_first_and_counts_no_try() {
    let check = "test ! -e more || cat more >> fix_plan.md; test -e made";
    let environment = project("- [x] one\n").with("EKIDEN_VERIFY", check);
    let next_and_tick = || {
        let said = environment.run(&["ralph", "next"]).expect(1).stdout;
        let list = environment.read("fix_plan.md").replace("[ ]", "[x]");
        environment.write("fix_plan.md", &list);
        said
    };
    for tries in 1..=3 {
        next_and_tick();
        assert_eq!(state(&environment)["unverified"]["tries"], tries);
        environment.write("more", "- [ ] two\n");
        assert_eq!(next_and_tick(), "two\n");
        assert_eq!(state(&environment)["unverified"]["tries"], tries);
        environment.shell("rm more");
    }
    environment.run(&["ralph", "next"]).expect(4);
}

// shows: RLP-003, RLP-09
#[test]
fn a_run_that_is_verified_lets_the_loop_count_anew() {
    let environment = project("- [x] one\n").with("EKIDEN_VERIFY", "test -e made");
    let failed = |more: &str| {
        environment.shell("rm -f made");
        environment.run(&["ralph", "next"]).expect(1);
        assert_eq!(state(&environment)["unverified"]["tries"], 1);
        let list = environment.read("fix_plan.md").replace("[ ]", "[x]");
        environment.write("fix_plan.md", &(list + more));
    };
    failed("");
    environment.write("made", "");
    environment.run(&RUN).expect(0);
    assert_eq!(state(&environment)["unverified"], Value::Null);
    failed("- [ ] two\n\n  ```sh\n  touch made\n  ```\n");
    environment.run(&RUN).expect(0);
    assert_eq!(state(&environment)["unverified"], Value::Null);
}
