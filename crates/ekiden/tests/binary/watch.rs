//! `status --watch` and `init`.

use serde_json::Value;

use crate::environment::{Environment, items};
use crate::running::wait_until;

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

// shows: UIX-03
#[test]
fn a_run_is_watched_to_its_end_and_its_exit_code_is_ours() {
    let environment = Environment::with_git();
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(4).replacen("echo made", waits, 1));
    let run = environment.start(&[&RUN[..], &["-m", "1"]].concat());
    wait_until("work", || environment.exists("started"));
    let mut watch = environment.start(&["status", "--watch"]);
    let mut programs = environment.start(&["status", "--watch", "--json"]);
    watch.wait_for("   working   task.md");
    programs.wait_for("\"state\":\"running\"");
    environment.write("go", "");
    run.end().expect(3);
    let said = watch.end().expect(3);
    assert!(
        said.stdout
            .ends_with("   all its sessions are used   task.md\nnext  ekiden resume -m 1\n"),
        "{said}"
    );
    let said = programs.end().expect(3);
    let last: Value = serde_json::from_str(said.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["runs"][0]["state"], &last["runs"][0]["exit_code"]),
        (&"stopped".into(), &3.into())
    );
}

// shows: UIX-03
#[test]
fn a_run_that_is_over_is_shown_once() {
    let environment = Environment::with_git();
    insta::assert_snapshot!(environment.told(&["status", "--watch"]), @r"
    --- standard error
    error: cannot find a run here
    hint: `ekiden run TASK` starts one
    --- exit code 66
    ");
    environment.write("task.md", &items(2));
    environment.run(&RUN).expect(0);
    insta::assert_snapshot!(environment.told(&["status", "--watch"]), @r"
    RUN  relay  complete  session 1 of 10 · CLOCK to CLOCK   not verified   task.md
    next  ekiden log RUN
    --- exit code 0
    ");
}

// shows: OPS-06
#[test]
fn a_task_to_fill_in_is_written_once() {
    let environment = Environment::new();
    insta::assert_snapshot!(environment.told(&["init"]), @r"
    wrote task.md: fill it in
    next  ekiden run task.md --verify 'COMMAND' --agent rehearsal
    --- exit code 0
    ");
    let task = environment.read("task.md");
    for part in [
        "# Task",
        "## Structure",
        "## Items",
        "## For each item",
        "## Quality",
        "## Starting point",
    ] {
        assert!(
            task.contains(&format!("{part}\n")),
            "no `{part}` in\n{task}"
        );
    }
    assert_eq!(environment.run(&["init", "-"]).expect(0).stdout, task);
    environment.write("task.md", "mine");
    insta::assert_snapshot!(environment.told(&["init"]), @r"
    --- standard error
    error: task.md exists already and was not changed
    hint: name another file: `ekiden init FILE`
    --- exit code 74
    ");
    assert_eq!(environment.read("task.md"), "mine");
    assert!(!environment.exists(".ekiden"), "init makes nothing else");
}

// shows: UIX-07
#[test]
fn a_task_template_names_the_scripts_that_exist() {
    let environment = Environment::new();
    environment.write("scripts/seed.sh", "#!/bin/sh\n# Fills the test database.\n");
    environment.write("scripts/plain.sh", "echo\n");
    let said = environment.run(&["init", "-"]).expect(0).stdout;
    assert!(
        said.contains(
            "- `scripts/plain.sh`: <what it does>\n\
             - `scripts/seed.sh`: Fills the test database.\n\
             - Use these scripts instead of writing others.\n"
        ),
        "{said}"
    );
}
