//! Lists of items, worked through one a session.

use expect_test::expect;
use rustix::process::Signal;
use serde_json::Value;

use crate::environment::Environment;
use crate::processes::expect_nothing_alive;

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
        next  fill them in, then  ekiden ralph run --verify 'COMMAND' --agent rehearsal
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

/// Killed twice and stopped by a limit once on the way.
// shows: RLP-09, DUR-03
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
          item      1: item 1 · about 6% of the context
          window    40k tokens (rehearsal), hands off at 24k
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    passed in TIME
        session 2 · CLOCK
          item      2: item 2 · about 26% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    failed in TIME
        session 3 · CLOCK
          item      2: item 2 · about 26% of the context
          USAGE  handed off after TIME · 7 tool calls
          next      The next item of the list.
          note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
          verify    failed in TIME
        session 4 · CLOCK
          item      2: item 2 · about 26% of the context
          USAGE  handed off after TIME · 7 tool calls
          next      The next item of the list.
          note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
          verify    failed in TIME
          ! set aside after 3 sessions: item 2
        session 5 · CLOCK
          item      3: item 3 · about 26% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    failed in TIME
        session 6 · CLOCK
          item      4: item 4 · about 26% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          verify    failed in TIME

        blocked (4): session 6 needs your input · 6 sessions · TIME · 4 files not committed
          All else is done. 3 sessions each did not finish these items of fix_plan.md:
          - item 2
        in full    .ekiden/PROGRESS.md
        trouble    1 item set aside (session 4)
        knowledge  4 facts in .ekiden/KNOWLEDGE.md
        report     .ekiden/runs/RUN/report.html
        answer     ekiden answer 'TEXT'     or: ekiden answer   (opens your editor)
        --- exit code 4"#]].assert_eq(&environment.told(&[&RUN[..], &check].concat()));
    expect![[r#"
          list      3 of 4 items done
          ! set aside, 3 sessions did not finish it: item 2
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
fn an_item_that_is_deleted_is_told_and_done_all_the_same() {
    let deletes =
        "[[act]]\nsession = 1\nat = \"stop\"\ndo = { sh = \"sed -i '/item 3/d' fix_plan.md\" }\n";
    let environment = with_scenario(project(&list(3)), deletes);
    let told = environment.told(&RUN);
    assert!(told.contains("item 3"), "{told}");
    expect![[r#"
        run RUN · relay, at most 9 sessions · rehearsal, hands off at 60% · PROMPT.md
        session 1 · CLOCK
          item      1: item 1 · about 6% of the context
          window    40k tokens (rehearsal), hands off at 24k
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
          ! 1 item gone without a tick in session 1: item 3
        session 2 · CLOCK
          item      2: item 2 · about 26% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.
        session 3 · CLOCK
          item      3: item 3 · about 26% of the context
          USAGE  handed off after TIME · 4 tool calls
          next      The next item of the list.

        complete (not verified) · 3 sessions · TIME · 3 files not committed
        trouble    1 session removed items unticked (session 1)
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
    environment
        .run(&[&RUN[..], &["-m", "200"]].concat())
        .expect(0);
    let ticked = environment.read("fix_plan.md").matches("- [x] ").count();
    assert_eq!(ticked, 2 + 100);
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

// shows: RLP-006, RLP-10
#[test]
fn an_item_is_estimated_and_a_large_one_gets_the_hint() {
    let environment = project("- [ ] port big.txt\n- [ ] a small one\n");
    environment.write("big.txt", &"words of it\n".repeat(5_000));
    let told = environment.told(&RUN);
    let sizes: Vec<&str> = told.lines().filter(|line| line.contains("item ")).collect();
    expect![[r#"
          item      1: port big.txt · about 36% of the context
          next      The next item of the list.
          item      2: a small one · about 26% of the context
          next      The next item of the list."#]]
    .assert_eq(&sizes.join("\n"));
    let hinted = |session: u32| {
        environment
            .kept(session, "prompt.md")
            .contains("Give bulky work to subagents")
    };
    assert!(hinted(1) && !hinted(2));
}
