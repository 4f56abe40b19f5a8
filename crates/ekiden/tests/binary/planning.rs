//! Planning without a model: an idea becomes a document, a manifest, and work that is done.

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::Environment;
use crate::running::wait_until;

const IDEA: &str = "# Tea\n\nA shop for tea.\n\n- [ ] Brew tea\n\n  ```sh\n  echo tea > tea.txt\n  ```\n  ```check\n  test -s tea.txt\n  \
                    ```\n- [ ] Serve it (after: 1)\n\n  ```sh\n  cp tea.txt table.txt\n  ```\n";

fn project() -> Environment {
    let environment = Environment::with_git();
    for (key, value) in [
        ("user.name", "Test"),
        ("user.email", "test@example.invalid"),
    ] {
        environment.git(&["config", key, value]);
    }
    environment.write("idea.md", IDEA);
    environment
}

fn rehearsal(args: &[&'static str]) -> Vec<&'static str> {
    [args, &["--agent", "rehearsal"]].concat()
}

// shows: PLN-01, PLN-18
#[test]
fn an_idea_becomes_a_plan_that_is_carried_out() {
    let environment = project();
    insta::assert_snapshot!(environment.told(&rehearsal(&["plan", "idea.md"])), @r"
    session 1 · writes architecture.md
    session 2 · splits architecture.md into stages
      written   plan.json

    A shop for tea. · 2 stages, at most 3 at a time, each in a worktree
    wave 1
      S01  Brew tea
    wave 2
      S02  Serve it   needs S01 · no validation
    commands that it runs
      test -s tea.txt   (S01)

    next  ekiden execute plan.json --agent rehearsal
    --- exit code 0
    ");
    assert!(
        environment
            .read("architecture.md")
            .starts_with("## Summary\n\nA shop for tea.\n")
    );
    insta::assert_snapshot!(environment.told(&rehearsal(&["execute", "plan.json"])), @r"
    --- standard error
    error: this plan runs 1 command of its own, and nobody approved it
    hint: `ekiden execute plan.json --dry-run` shows it
    hint: run it once on a terminal and answer yes, or add `--yes`
    --- exit code 78
    ");
    assert!(
        !environment.exists("tea.txt"),
        "nothing runs before somebody approved it"
    );
    environment
        .run(&rehearsal(&["execute", "plan.json", "--yes"]))
        .expect(0);
    assert_eq!(environment.read("table.txt"), "tea\n");
}

// shows: PLN-01
#[test]
fn what_exists_is_left_as_it_is() {
    let environment = project();
    environment.write("architecture.md", "mine\n");
    insta::assert_snapshot!(environment.told(&rehearsal(&["plan", "idea.md"])), @r"
    --- standard error
    error: architecture.md exists already
    hint: it was left as it is; `--force` writes over it
    hint: `ekiden split architecture.md --agent rehearsal` continues from the document
    --- exit code 74
    ");
    assert_eq!(environment.read("architecture.md"), "mine\n");
    environment.write("plan.json", "mine\n");
    environment
        .run(&rehearsal(&["split", "architecture.md"]))
        .expect(74);
    assert_eq!(environment.read("plan.json"), "mine\n");
    environment
        .run(&rehearsal(&["plan", "idea.md", "--force"]))
        .expect(0);
    assert!(
        environment
            .read("architecture.md")
            .starts_with("## Summary")
    );
}

// shows: PLN-01
#[test]
fn what_continues_from_a_document_elsewhere_works_from_here() {
    let environment = project();
    environment.run(&rehearsal(&["plan", "idea.md"])).expect(0);
    let plan = ["plan", "Make tea.", "-d", "../project", "-o", "new.json"];
    let said = environment.run_in("other", &rehearsal(&plan)).expect(74);
    let dir = environment.dir().to_string_lossy().into_owned();
    let split = format!("split {dir}/architecture.md -o new.json --agent rehearsal -d {dir}");
    let hint = format!("hint: `ekiden {split}` continues from the document\n");
    assert!(said.stderr.contains(&hint), "{said}");
    let words: Vec<&str> = split.split(' ').collect();
    environment.run_in("other", &words).expect(0);
    assert!(environment.path("other/new.json").exists());
}

/// No session is held for a plan that could not be written, or not be carried out.
// shows: PLN-01, PLN-04
#[test]
fn what_stands_in_the_way_is_told_before_the_first_session() {
    let environment = project();
    insta::assert_snapshot!(environment.told(&rehearsal(&["plan", "idea.md", "-o", "./architecture.md"])), @r"
    --- standard error
    error: the manifest would be written over the document, architecture.md
    hint: name another `--output`
    --- exit code 2
    ");
    insta::assert_snapshot!(environment.told(&rehearsal(&["plan", "idea.md", "-o", "tea.TOML"])), @r"
    --- standard error
    error: cannot write tea.TOML: the manifest is JSON
    hint: name it tea.json
    --- exit code 2
    ");
    environment.shell("ln -s elsewhere.json plan.json");
    let plan = rehearsal(&["plan", "idea.md", "--force"]);
    insta::assert_snapshot!(environment.told(&plan), @r"
    --- standard error
    error: plan.json is a link, and ekiden does not write through links
    hint: it was left as it is; remove it
    hint: `--output` names another manifest
    --- exit code 74
    ");
    environment.shell("rm plan.json");
    environment.shell("ln -s elsewhere.md architecture.md");
    insta::assert_snapshot!(environment.told(&plan), @r"
    --- standard error
    error: architecture.md is a link, and ekiden does not write through links
    hint: it was left as it is; remove it
    hint: `ekiden split architecture.md --force --agent rehearsal` continues from the document
    --- exit code 74
    ");
    environment.shell("rm architecture.md");
    environment.shell("mkdir plan.json");
    insta::assert_snapshot!(environment.told(&plan), @r"
    --- standard error
    error: plan.json is a directory
    hint: it was left as it is; move it away
    hint: `--output` names another manifest
    --- exit code 74
    ");
    environment.shell("rmdir plan.json");
    environment.run(&rehearsal(&["plan", "idea.md"])).expect(0);
    let split = [
        "split",
        "architecture.md",
        "-o",
        "architecture.md",
        "--force",
    ];
    environment.run(&rehearsal(&split)).expect(2);
    environment.commit_all();
    insta::assert_snapshot!(environment.told(&rehearsal(&["build", "idea.md", "--force", "--yes"])), @r"
    --- standard error
    error: git tracks architecture.md, plan.json, so a new plan would be an uncommitted change
    hint: stages work from the last commit and would not see it
    hint: `ekiden plan IDEA --force --agent rehearsal`, `git commit`, then `ekiden execute plan.json --agent rehearsal`
    --- exit code 78
    ");
    let build = ["build", "Make tea.", "-d", "../project", "-o", "new.json"];
    let said = environment.run_in("other", &rehearsal(&[&build[..], &["--yes"]].concat()));
    let there = environment.dir();
    let at = format!("--agent rehearsal -d {}", there.display());
    let instead = format!(
        "`ekiden plan IDEA --force -o new.json {at}`, `git commit`, then `ekiden execute new.json {at}`"
    );
    assert!(said.stderr.contains(&instead), "{said}");
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    environment
        .run(&rehearsal(&["build", "idea.md", "--force", "--dry-run"]))
        .expect(0);
}

/// Another run may be anything: a plan of this idea, or something else.
// shows: RUN-12, PLN-04
#[test]
fn an_unfinished_run_and_a_git_without_a_name_are_told_before_the_first_session() {
    let environment = project();
    environment.run(&rehearsal(&["run", "Make tea."])).expect(4);
    insta::assert_snapshot!(environment.told(&rehearsal(&["build", "idea.md", "--yes"])), @r"
    --- standard error
    error: a run is unfinished here: RUN
    hint: `ekiden answer` answers its question and continues it
    hint: `--new` starts a new run and keeps that one as it is
    --- exit code 1
    ");
    environment.git(&["config", "user.useConfigOnly", "true"]);
    environment.git(&["config", "--unset", "user.email"]);
    let said = environment.run(&rehearsal(&["build", "idea.md", "--yes", "--new"]));
    let said = said.expect(78).stderr;
    assert!(said.contains("git has no name and email for you"), "{said}");
    assert!(!environment.exists("architecture.md"));
    environment.git(&["config", "user.email", "test@example.invalid"]);
    environment.run(&rehearsal(&["plan", "idea.md"])).expect(0);
    let dry_run = ["execute", "plan.json", "--dry-run"];
    let shown = environment.run(&rehearsal(&dry_run)).expect(0);
    let told = "it could not start now: a run of another task is unfinished here";
    assert!(shown.stderr.contains(told), "{shown}");
    let build = ["build", "idea.md", "--yes", "--force", "--new"];
    environment.run(&rehearsal(&build)).expect(0);
}

// shows: PLN-02
#[test]
fn a_document_is_split_wherever_the_manifest_goes() {
    let environment = project();
    environment.write(
        "docs/design.md",
        "## Summary\n\nTea.\n\n- [ ] Brew\n\n```sh\ntouch tea\n```\n",
    );
    environment.write("plans/keep", "");
    let said = environment
        .run(&rehearsal(&[
            "split",
            "docs/design.md",
            "-o",
            "plans",
            "--json",
        ]))
        .expect(0);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(told["plan"]["waves"][0][0]["name"], "Brew");
    let manifest: Value = serde_json::from_str(&environment.read("plans/plan.json")).unwrap();
    assert_eq!(manifest["architecture"], "docs/design.md");
    environment
        .run(&rehearsal(&["split", "docs/design.md", "-o", "tea.yml"]))
        .expect(0);
    environment
        .run(&rehearsal(&[
            "split",
            "docs/design.md",
            "-o",
            "docs/../tea.json",
        ]))
        .expect(0);
    assert!(environment.exists("tea.json"));
    environment
        .run(&rehearsal(&["split", "none.md", "-o", "x.json"]))
        .expect(66);
    environment
        .run(&rehearsal(&[
            "split",
            "docs/design.md",
            "-o",
            "nowhere/x.json",
        ]))
        .expect(66);
}

// shows: PLN-04
#[test]
fn building_plans_asks_and_carries_out() {
    let environment = project();
    environment
        .run(&rehearsal(&["build", "idea.md", "--dry-run"]))
        .expect(0);
    assert!(environment.exists("plan.json") && !environment.exists("tea.txt"));
    let again = environment
        .run(&rehearsal(&["build", "idea.md", "--force"]))
        .expect(78);
    assert!(
        again.stderr.contains("nobody approved it"),
        "{}",
        again.stderr
    );
    // As its hint says: what was planned is not planned again.
    environment
        .run(&rehearsal(&["execute", "plan.json", "--yes"]))
        .expect(0);
    assert_eq!(environment.read("table.txt"), "tea\n");
}

// shows: PLN-01, RUN-07
#[test]
fn what_cannot_be_planned_says_why_and_creates_nothing() {
    let environment = project();
    environment.write("empty.md", " \n");
    let told = |args: &[&'static str]| {
        let said = environment.told(args);
        assert!(
            !environment.exists(".ekiden") && !environment.exists(".git/ekiden"),
            "{args:?}"
        );
        said
    };
    insta::assert_snapshot!(told(&rehearsal(&["plan", "tidy"])), @r"
    --- standard error
    error: there is no file `tidy`
    hint: name the idea by a file, `-` for standard input, or more than one word in quotes
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&rehearsal(&["plan", "empty.md"])), @r"
    --- standard error
    error: the idea is empty: empty.md
    hint: write down what to do and how to check that it is done
    --- exit code 65
    ");
    insta::assert_snapshot!(told(&["plan", "idea.md", "--agent-command", "cat"]), @r"
    --- standard error
    error: agent `cat` cannot plan: its answers cannot be checked against a schema
    hint: name another with `--agent`, or write the manifest yourself (docs/manifests.md)
    --- exit code 78
    ");
}

// shows: PLN-01
#[test]
fn planning_ends_with_its_cause_and_holds_the_work_dir() {
    let environment = project();
    let act = "[[act]]\nat = \"prompt\"\ndo = { exit = 7 }\n";
    environment.write("crash.toml", act);
    let environment = environment.with("EKIDEN_REHEARSAL_SCENARIO", "crash.toml");
    let said = environment.run(&rehearsal(&["plan", "idea.md"])).expect(1);
    assert!(
        said.stderr.contains("the session stopped: "),
        "{}",
        said.stderr
    );

    environment.write("crash.toml", "[[act]]\nat = \"prompt\"\ndo = \"hang\"\n");
    let mut planning = environment.start(&rehearsal(&["plan", "idea.md", "--force"]));
    planning.wait_for("session 1");
    let said = environment.run(&rehearsal(&["run", "idea.md"])).expect(75);
    assert!(
        said.stderr.contains("it plans, or has just begun; `kill "),
        "{said}"
    );
    planning.signal(rustix::process::Signal::INT);
    planning.end().expect(130);
}

// shows: PLN-01, REL-22
#[test]
fn a_budget_and_a_timeout_hold_for_planning_too() {
    let environment = project().with("EKIDEN_REHEARSAL_STEP_MS", "3000");
    let said = environment
        .run(&rehearsal(&["plan", "idea.md", "--session-timeout", "1s"]))
        .expect(3);
    assert!(
        said.stderr
            .contains("the session stopped: the session's time is up"),
        "{}",
        said.stderr
    );
    let environment = environment.with("EKIDEN_REHEARSAL_STEP_MS", "500");
    let said = environment
        .run(&rehearsal(&["plan", "idea.md", "--session-tokens", "100"]))
        .expect(3);
    assert!(
        said.stderr
            .contains("the session stopped: the session's budget is spent"),
        "{}",
        said.stderr
    );
    assert!(!environment.exists("plan.json"));
}

/// The price is unknown until the turn ends, so its cost comes with the answer.
// shows: PLN-01, REL-22
#[test]
fn a_plan_that_is_paid_is_written_and_its_cost_is_shown() {
    let environment = project().with("EKIDEN_REHEARSAL_PRICE", "3");
    let document = "## Summary\n\nTea.\n\n- [ ] Brew\n\n```sh\ntouch tea\n```\n";
    environment.write("design.md", document);
    let split = ["split", "design.md", "--run-budget", "0.01"];
    let said = environment.run(&rehearsal(&split)).expect(0);
    assert!(said.stdout.contains(" of $0.01 so far\n"), "{said}");
    assert!(environment.exists("plan.json"));
}

// shows: PLN-04, REL-22
#[test]
fn a_run_that_is_built_gets_what_planning_left_of_its_budget() {
    let environment = project().with("EKIDEN_REHEARSAL_PRICE", "3");
    let build = ["build", "idea.md", "--yes", "--run-budget"];
    let said = environment.run(&rehearsal(&[&build[..], &["0.06"]].concat()));
    said.expect(3);
    assert!(environment.runs().is_empty());
    let build = [&build[..], &["9", "--force"]].concat();
    let said = environment.run(&rehearsal(&build)).expect(0).stdout;
    assert!(said.contains(" of $9.00 so far\n"), "{said}");
    assert!(said.contains(", at most $8.8"), "{said}");
}

/// Nobody has seen it, whatever it runs.
// shows: PLN-04
#[test]
fn a_new_plan_without_commands_is_approved_too() {
    let environment = project();
    let idea = "Tea.\n\n- [ ] Brew tea\n\n  ```sh\n  echo tea > tea.txt\n  ```\n";
    environment.write("idea.md", idea);
    let said = environment.run(&rehearsal(&["build", "idea.md"]));
    let said = said.expect(78);
    assert!(
        said.stderr.contains("error: nobody approved this plan\n"),
        "{said}"
    );
    assert!(environment.exists("plan.json") && environment.runs().is_empty());
}

/// Each stage is a sub-issue, and closed when it is done.
// shows: TRK-07, SHD-003
#[test]
fn a_plan_works_on_an_issue_and_its_stages_are_sub_issues() {
    let environment = project().with("EKIDEN_TRACKER_KIND", "local");
    environment.run(&["issue", "new", "Sell tea"]).expect(0);
    let build = [
        "build",
        "idea.md",
        "--issue",
        "sell-tea",
        "--sub-issues",
        "--yes",
    ];
    environment.run(&rehearsal(&build)).expect(0);
    wait_until("all is written", || {
        let said = environment.run(&["tracker", "status", "--json"]).expect(0);
        said.stdout.contains("\"waiting\":[]")
    });
    let shown = environment.run(&["issue", "show", "sell-tea"]).expect(0);
    assert!(shown.stdout.contains("Sub-issues: 2 of 2 done"), "{shown}");
    let issue = environment.read(".issues/sell-tea.md");
    assert!(issue.contains("Stage S02 · Session 1"), "{issue}");
    let child = environment.read(".issues/s01-brew-tea.md");
    assert!(
        child.contains("title: S01 Brew tea\nstate: done\n"),
        "{child}"
    );
    // Nothing begins for an issue that is not there.
    let execute = [
        "execute",
        "plan.json",
        "--issue",
        "sell-te",
        "--yes",
        "--new",
    ];
    let said = environment.run(&rehearsal(&execute)).expect(66);
    let why = "error: cannot read issue sell-te: local: sell-te is not there";
    assert!(said.stderr.starts_with(why), "{said}");
}

// shows: PLN-01, AGT-06, AGT-14
#[test]
fn a_usage_limit_is_waited_for_unless_somebody_wants_the_end() {
    let environment = project().with("EKIDEN_REHEARSAL_SCENARIO", "limit.toml");
    environment.write(
        "limit.toml",
        "[[act]]\nat = \"prompt\"\ndo = { limit = 3600 }\n",
    );
    let mut planning = environment.start(&rehearsal(&["build", "idea.md"]));
    planning.wait_for("5-hour");
    planning.signal(Signal::INT);
    let said = planning.end().expect(130);
    assert!(
        said.stdout.contains("session 2 begins 30s later, in 1h"),
        "{said}"
    );
    assert!(
        said.stderr
            .contains("planning was stopped; nothing of it is left running"),
        "{said}"
    );

    let said = environment
        .run(&rehearsal(&["build", "idea.md", "--on-rate-limit", "stop"]))
        .expect(3);
    assert!(said.stderr.contains("the session stopped: "), "{said}");
    // Planning tries it again; a run would wait.
    let found = environment.run(&rehearsal(&["doctor"])).expect(0);
    assert!(found.stdout.contains("warning  limit"), "{found}");
    let said = environment
        .run(&rehearsal(&["build", "idea.md", "--max-wait", "10m"]))
        .expect(3);
    assert!(
        said.stderr
            .contains("run the same command again; the limit is lifted "),
        "{said}"
    );
    assert!(!environment.exists("architecture.md"));
}
