//! `ekiden status --everywhere`: the runs of all projects, and what becomes of projects that go or are not believed.

use serde_json::Value;

use crate::environment::{Environment, items};
use crate::running::wait_until;

const RUN: [&str; 4] = [
    "run",
    "Make it.

- [ ] One

  ```sh
  echo made > one.txt
  ```
",
    "--agent",
    "rehearsal",
];

fn everywhere(environment: &Environment, args: &[&str]) -> Value {
    let args = [&["status", "--everywhere", "--json"], args].concat();
    let answer = environment.run_in("elsewhere", &args).expect(0);
    serde_json::from_str(&answer.stdout).unwrap()
}

fn names(answer: &Value, list: &str) -> Vec<String> {
    let named = |entry: &Value| {
        let path = entry["project"].as_str().unwrap();
        path.rsplit('/').next().unwrap().to_owned()
    };
    answer[list].as_array().unwrap().iter().map(named).collect()
}

// shows: UIX-05
#[test]
fn the_runs_of_all_projects_are_listed_those_at_work_first() {
    let environment = Environment::with_git();
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(1).replacen("echo made", waits, 1));
    let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    for project in ["first", "second", "first"] {
        environment.run_in(project, &RUN).expect(0);
    }
    let told = environment.run_in("elsewhere", &["status", "--everywhere"]);
    let told = environment.normal(&told);
    let lines: Vec<&str> = told
        .lines()
        .map(|line| line.split_once("  relay").map_or(line, |(_, rest)| rest))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    PROJECT
      running  session 1 of 10 · since CLOCK, TIME   working   task.md
    ROOT/first
      complete  session 1 of 10 · CLOCK to CLOCK   not verified   Make it. - [ ] One ```sh echo made > on…
    ROOT/second
      complete  session 1 of 10 · CLOCK to CLOCK   not verified   Make it. - [ ] One ```sh echo made > on…
    ROOT/first
      complete  session 1 of 10 · CLOCK to CLOCK   not verified   Make it. - [ ] One ```sh echo made > on…
    --- exit code 0
    ");
    environment.write("go", "");
    run.end().expect(0);
    let answer = everywhere(&environment, &[]);
    let projects = ["first", "second", "first", "project"];
    assert_eq!(names(&answer, "runs"), projects);
    assert_eq!(answer["runs"][0]["state"], "complete");
    assert_eq!(answer["left_out"], 0);
    // Git's own directory has the same state and is no other project.
    environment.run_in("project/.git", &RUN).expect(66);
    assert_eq!(names(&everywhere(&environment, &[]), "runs"), projects);
}

// shows: UIX-05
#[test]
fn what_is_spent_at_work_is_in_the_text_as_in_the_json() {
    let environment = Environment::new().with("EKIDEN_REHEARSAL_PRICE", "1000");
    environment.run(&RUN).expect(0);
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(1).replacen("echo made", waits, 1));
    let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    let answer = everywhere(&environment, &[]);
    let cost = answer["runs"][0]["cost_micro_usd"].as_f64().unwrap();
    assert!(cost > 0.0, "{answer}");
    let told = environment
        .run(&["status", "--everywhere"])
        .expect(0)
        .stdout;
    let cost = format!("working   ≈${:.2} ", cost / 1_000_000.0);
    assert!(told.contains(&cost), "{cost} in {told}");
    environment.write("go", "");
    run.end().expect(0);
}

// shows: UIX-05
#[test]
fn the_newest_runs_are_shown_and_the_others_counted() {
    let environment = Environment::new();
    environment.run(&RUN).expect(0);
    // The log of a run in a directory with another name is another run's.
    let runs = environment.state().join("runs");
    let run = &environment.runs()[0];
    // The run's own name may be one of them.
    for copy in (10..35).map(|copy| copy.to_string()) {
        if run.starts_with(&copy) {
            continue;
        }
        let copied = format!("cp -r {run} {copy}{}", &run[2..]);
        environment.shell(&format!("cd {} && {copied}", runs.display()));
    }
    let answer = everywhere(&environment, &[]);
    assert_eq!(answer["runs"].as_array().unwrap().len(), 20);
    assert!(answer["left_out"].as_u64().unwrap() >= 5);
    let answer = everywhere(&environment, &["--all"]);
    assert!(answer["runs"].as_array().unwrap().len() >= 25);
    assert_eq!(answer["left_out"], 0);
}

// shows: UIX-05
#[test]
fn a_project_that_is_gone_is_left_out() {
    let environment = Environment::new();
    environment.run(&RUN).expect(0);
    environment.run_in("gone", &RUN).expect(0);
    environment.shell("rm -r ../gone");
    let told = environment.run_in("elsewhere", &["status", "--everywhere"]);
    insta::assert_snapshot!(environment.normal(&told), @r"
    PROJECT
      RUN  relay  complete  session 1 of 10 · CLOCK to CLOCK   not verified   Make it. - [ ] One ```sh echo made > on…
    --- exit code 0
    ");
    assert_eq!(names(&everywhere(&environment, &[]), "unread"), [""; 0]);
}

/// What was moved there is not this project's, and a state that came from elsewhere is not noted by a look.
// shows: UIX-05, SEC-10
#[test]
fn a_state_that_was_not_made_here_is_not_followed() {
    let environment = Environment::new();
    environment.run(&RUN).expect(0);
    environment.run_in("own", &RUN).expect(0);
    environment.shell("rm -r ../own/.ekiden && cp -r .ekiden ../own/.ekiden");
    let answer = everywhere(&environment, &[]);
    assert_eq!(names(&answer, "runs"), ["project"]);
    assert_eq!(names(&answer, "unread"), [""; 0]);
    environment.shell("mkdir ../unpacked && cp -r .ekiden ../unpacked/.ekiden");
    environment.run_in("unpacked", &["status"]).expect(0);
    assert_eq!(everywhere(&environment, &[]), answer);
    environment.shell("rm ~/.local/state/ekiden/projects/$(cat .ekiden/state/id)/place");
    let answer = everywhere(&environment, &[]);
    assert_eq!(names(&answer, "runs"), [""; 0]);
    let unread = answer["unread"].as_array().unwrap().iter();
    let mut why = unread.map(|project| project["why"].as_str().unwrap());
    assert!(why.any(|why| why == "is not read: there is no record that you made it here"));
}

/// A look writes nothing where nothing is new, and a home that cannot be written is no failure.
// shows: UIX-05
#[test]
fn a_work_dir_is_noted_once() {
    let environment = Environment::new();
    environment.run(&RUN).expect(0);
    let note = "cat $HOME/.local/state/ekiden/projects/*/work-dirs.json";
    environment.shell(&format!(
        "{note} > noted; touch -d 2020-01-01 ~/.local/state/ekiden/projects/*/work-dirs.json"
    ));
    environment.run(&["status"]).expect(0);
    environment
        .shell("[ -z \"$(find ~/.local/state/ekiden -name work-dirs.json -newermt 2021-01-01)\" ]");
    environment.shell("rm ~/.local/state/ekiden/projects/*/work-dirs.json");
    environment.run(&["status"]).expect(0);
    // Nothing but the time differs.
    environment.shell(&format!(
        "{note} | sed 's/seen.*//' > again; sed 's/seen.*//' noted | cmp again -"
    ));
    environment.shell("rm ~/.local/state/ekiden/projects/*/work-dirs.json; mkdir ~/.local/state/ekiden/projects/$(cat .ekiden/state/id)/work-dirs.json");
    let said = environment.run(&["status"]).expect(0);
    assert_eq!(said.stderr, "");
}
