//! The report of a run: at its end, and made anew.

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Environment, items};
use crate::plan;
use crate::running::{Running, wait_until};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

fn report(environment: &Environment, name: &str) -> String {
    let run = &environment.runs()[0];
    environment.read(&format!(".ekiden/runs/{run}/{name}"))
}

// shows: REL-27
#[test]
fn a_run_leaves_its_report() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(3));
    let said = environment
        .run(&[&RUN[..], &["--verify", "test -e item-3.txt"]].concat())
        .expect(0);
    assert!(said.stdout.contains("report     .ekiden/runs/"), "{said}");
    let markdown = environment.normal_text(&report(&environment, "report.md"));
    let is_when = |line: &&str| line.starts_with("- when: ");
    let (when, rest): (Vec<&str>, Vec<&str>) = markdown.lines().partition(is_when);
    assert_eq!(when.len(), 1);
    expect_test::expect_file!["fixtures/report.md"].assert_eq(&(rest.join("\n") + "\n"));
    let html = report(&environment, "report.html");
    assert!(
        html.starts_with("<!doctype html>") && html.contains("polyline"),
        "{html}"
    );
    assert!(
        !html.contains("<script") && !html.contains("href"),
        "{html}"
    );
}

// shows: REL-27
#[test]
fn a_run_that_works_has_a_report_when_it_is_asked_for() {
    let environment = Environment::with_git();
    let run = waiting(&environment);
    let said = environment.run(&["report", "--json"]).expect(0);
    let said: Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(said["html"].as_str().unwrap().ends_with("report.html"));
    assert!(
        report(&environment, "report.md")
            .contains("**still at work when this was written; the figures are as of ")
    );
    environment.write("go", "");
    run.end().expect(0);
    assert!(report(&environment, "report.md").contains("**complete (not verified)**"));
}

// shows: REL-27
#[test]
fn a_last_session_writes_a_debrief_when_it_is_asked_for() {
    let environment = Environment::with_git();
    environment.write("task.md", &format!("Make the three items.\n\n{}", items(3)));
    environment.run(&RUN).expect(0);
    let said = environment
        .run(&["report", "--debrief", "--json"])
        .expect(0);
    let said: Value = serde_json::from_str(said.stdout.lines().last().unwrap()).unwrap();
    assert!(said["debrief"].as_str().unwrap().ends_with("DEBRIEF.md"));
    let written = environment.read("DEBRIEF.md");
    assert!(
        written.starts_with("## Summary\n\nMake the three items."),
        "{written}"
    );
    expect_test::expect![[r"
        --- standard error
        error: DEBRIEF.md exists already
        hint: it was left as it is; move it away
        --- exit code 74"]]
    .assert_eq(&environment.told(&["report", "--debrief"]));
    assert_eq!(environment.runs().len(), 1, "the session is of no run");
    // It is the run's, also where it is asked for below its work dir.
    std::fs::remove_file(environment.dir().join("DEBRIEF.md")).unwrap();
    environment.write("sub/a.txt", "");
    environment
        .run_in("project/sub", &["report", "--debrief"])
        .expect(0);
    assert!(environment.exists("DEBRIEF.md") && !environment.exists("sub/DEBRIEF.md"));
    let inside = environment.with("EKIDEN_RUN", "7f3a0b1c");
    inside.run(&["report", "--debrief"]).expect(77);
}

// shows: REL-27, SEC-10
#[test]
fn a_debrief_of_a_moved_state_takes_the_flag_that_it_is_told() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    environment.shell("cp -a . ../moved");
    let debrief = |flags: &[&str]| {
        let args = [&["report", "--debrief"], flags].concat();
        environment.run_in("moved", &args)
    };
    let said = debrief(&[]).expect(78);
    assert!(said.stderr.contains("`--trust-state` trusts it"), "{said}");
    debrief(&["--trust-state"]).expect(0);
    assert!(environment.path("moved/DEBRIEF.md").exists());
}

/// A run that waits for the file `go`.
fn waiting(environment: &Environment) -> Running {
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(2).replacen("echo made", waits, 1));
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    run
}

/// Both forms of the newest run's report; each says all of this.
fn says(environment: &Environment, parts: &[&str]) {
    let html = report(environment, "report.html");
    for part in parts {
        let markdown = report(environment, "report.md");
        assert!(markdown.contains(part), "{part}: {markdown}");
        let bare = part.trim_matches('*').replace('`', "");
        let escaped = bare.replace('&', "&amp;");
        assert!(
            html.replace("<code>", "")
                .replace("</code>", "")
                .contains(&escaped),
            "{bare}: {html}"
        );
    }
    // Nothing of it is elsewhere.
    assert!(
        html.trim_end().ends_with("</html>") && !html.contains(" src=") && !html.contains("href")
    );
}

// shows: REL-27
#[test]
fn of_a_run_that_was_killed_the_report_says_so_and_how_to_go_on() {
    let environment = Environment::with_git();
    let run = waiting(&environment);
    // The session still works.
    environment.run(&["pause"]).expect(0);
    run.signal(Signal::KILL);
    run.end().expect(137);
    assert_eq!(
        report(&environment, "report.md"),
        "",
        "it had no time for one"
    );
    environment.run(&["report"]).expect(0);
    says(
        &environment,
        &[
            "**ekiden was killed while it worked**",
            "ekiden resume",
            "session 1",
        ],
    );
}

// shows: REL-27
#[test]
fn of_a_run_that_waits_or_was_killed_in_a_pause_the_report_says_that() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(9));
    let mut run = environment.start(&[&RUN[..], &["--pause", "3600"]].concat());
    run.wait_for("session 2 begins in");
    environment.run(&["report"]).expect(0);
    let text = report(&environment, "report.md");
    assert!(text.contains("**waiting until "), "{text}");
    environment.run(&["pause"]).expect(0);
    run.signal(Signal::KILL);
    run.end().expect(137);
    environment.run(&["report"]).expect(0);
    says(
        &environment,
        &[
            "**ekiden was killed while the run was paused**",
            "ekiden resume",
        ],
    );
}

// shows: REL-27
#[test]
fn a_run_that_was_stopped_leaves_its_report() {
    let environment = Environment::with_git();
    let run = waiting(&environment);
    environment.run(&["stop", "--now"]).expect(0);
    run.end();
    says(
        &environment,
        &[
            "**stopped (130): at once, as you asked**",
            "ekiden resume",
            "Item 2",
        ],
    );
}

// shows: REL-27
#[test]
fn a_run_that_asks_leaves_its_question_in_the_report() {
    let environment = Environment::with_git().with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    let act = "[[act]]\nsession = 2\nat = \"prompt\"\ndo = { question = \"Keep it?\" }\n";
    environment.write("scenario.toml", act);
    environment.write("task.md", &items(9));
    environment.run(&RUN).expect(4);
    says(
        &environment,
        &[
            "**blocked (4): session 2 needs your input**",
            "Keep it?",
            "ekiden answer",
            "Item 9",
        ],
    );
}

// shows: REL-27
#[test]
fn a_plan_leaves_a_report_of_its_stages_and_their_trouble() {
    let environment = plan::repository();
    let stages = [
        plan::stage("A", "", "echo made > a.txt", "test -e a.txt"),
        plan::stage(
            "B",
            "needs = [\"A\"]\nretries = 0",
            "true",
            "test -e never.txt",
        ),
        plan::stage("C", "needs = [\"B\"]", "true", "true"),
        plan::stage("D", "needs = [\"A\"]", "true", "true"),
    ];
    environment.write("plan.toml", &plan::plan(&stages));
    environment.commit_all();
    let said = environment.run(&plan::EXECUTE);
    assert_ne!(said.code, 0, "{said}");
    says(
        &environment,
        &[
            "Stage A",
            "Stage D",
            "session 3 asks",
            "1 other stage blocked",
            "2 of 4 stages",
            "ekiden answer",
        ],
    );
    let markdown = report(&environment, "report.md");
    assert_eq!(markdown.matches("asks:").count(), 1, "{markdown}");
    let html = report(&environment, "report.html");
    assert!(
        html.contains("class=\"graph\"") || html.contains("The plan, by state"),
        "{html}"
    );
}

// shows: REL-27
#[test]
fn of_a_damaged_log_the_report_has_what_can_be_read() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    environment.run(&RUN).expect(0);
    let log = format!(".ekiden/runs/{}/log.jsonl", environment.runs()[0]);
    let text = environment.read(&log);
    let lines: Vec<&str> = text.lines().collect();
    let half = lines.len() / 2;
    let damaged = [&lines[..half], &["{\"seq\":0}"], &lines[half..]].concat();
    environment.write(&log, &(damaged.join("\n") + "\n"));
    let before = report(&environment, "report.md");
    let said = environment.run(&["report"]).expect(0);
    assert!(
        said.stderr.contains("part of the log that could be read"),
        "{said}"
    );
    assert!(said.stdout.contains("/report-partial.html\n"), "{said}");
    let partial = report(&environment, "report-partial.md");
    let head = format!("**its log can be read only up to record {}**", half - 1);
    for part in [&head, "Not all of the log could be read", "### session 1"] {
        assert!(partial.contains(part), "{part}: {partial}");
    }
    assert!(!partial.contains("ekiden resume"), "{partial}");
    assert_eq!(report(&environment, "report.md"), before, "it stays");
}

// shows: REL-27
#[test]
fn a_report_that_cannot_be_written_changes_nothing_else() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(2));
    environment.run(&RUN).expect(0);
    let place = format!(".ekiden/runs/{}/report.html", environment.runs()[0]);
    environment.shell(&format!("rm {place} && mkdir -p {place}/in-the-way"));
    let again = environment.run(&["continue", "Once more."]).expect(4);
    assert!(
        again.stderr.contains("the report is not written: cannot"),
        "{again}"
    );
    assert!(!again.stdout.contains("report     "), "{again}");
}

/// What an agent wrote as it died stands in the headline.
// shows: REL-27, MEM-12
#[test]
fn what_an_agent_wrote_on_standard_error_is_no_more_than_words_in_a_report() {
    let environment = Environment::new().with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    let secret = ["ghp_", "x8K2mQ9vT4bN7cR1", "wZ5yL0pF3hJ6dS8gA2eU"].concat();
    let says = format!(
        "--x cannot be used with root/sudo privileges, {secret} **see** <https://evil.example/x> ![i](https://evil.example/p.png)"
    );
    let act = format!(
        "[[act]]\nat = 'start'\ndo = {{ sh = \"echo '{says}' >&2\" }}\n\n[[act]]\nat = 'start'\ndo = {{ exit = 3 }}\n"
    );
    environment.write("scenario.toml", &act);
    environment.write("task.md", &items(1));
    let said = environment.run(&RUN).expect(78);
    let last = said
        .stdout
        .lines()
        .find(|line| line.contains("failed ("))
        .unwrap();
    assert!(
        last.contains("privileges, [masked: github token]"),
        "{said}"
    );
    let (markdown, html) = (
        report(&environment, "report.md"),
        report(&environment, "report.html"),
    );
    assert!(
        !markdown.contains(&secret) && !html.contains(&secret),
        "{markdown}"
    );
    let headline = markdown
        .lines()
        .find(|line| line.starts_with("**"))
        .unwrap();
    assert!(
        headline.contains(
            "`--x cannot be used with root/sudo privileges, [masked: github token] **see** <https"
        ),
        "{headline}"
    );
}

// shows: REL-27
#[test]
fn the_commands_in_a_report_name_their_run() {
    let environment = Environment::new();
    environment.write("task.md", &items(9));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let first = environment.runs()[0].clone();
    environment
        .run(&[&RUN[..], &["-m", "1", "--new"]].concat())
        .expect(3);
    let markdown = report(&environment, "report.md");
    let command = format!("- `ekiden resume {} -m 1` continues it", &first[..4]);
    assert!(markdown.contains(&command), "{markdown}");
}
