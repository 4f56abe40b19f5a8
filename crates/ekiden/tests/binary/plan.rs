//! Plans: manifests in every format, carried out by the rehearsal agent.
//!
//! Stages that work side by side tell their lines as they come, so what is compared is what each stage
//! says, and how the tree and the history look afterwards.

use std::fmt::Write as _;

use crate::environment::{Environment, items};
use crate::running::wait_until;

pub(crate) const EXECUTE: [&str; 5] = ["execute", "plan.toml", "--agent", "rehearsal", "--yes"];

/// A repository whose owner is known to git.
pub(crate) fn repository() -> Environment {
    let environment = Environment::with_git();
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    environment
}

/// A stage that runs one line, and whose check is another.
pub(crate) fn stage(id: &str, more: &str, line: &str, check: &str) -> String {
    format!(
        "[[stage]]\nid = \"{id}\"\nname = \"Stage {id}\"\n{more}\nvalidation = {{ kind = \"command\", command = \
         '''{check}''' }}\nprompt = '''\n- [ ] It\n  ```sh\n  {line}\n  ```\n'''\n\n"
    )
}

pub(crate) fn plan(stages: &[String]) -> String {
    format!("format = 1\nproject = \"demo\"\n\n{}", stages.concat())
}

/// What each stage says, in the order of their ids; then what is said of the run.
fn by_stage(told: &str) -> String {
    let mut stages: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    let mut rest = Vec::new();
    for line in told.lines() {
        match line
            .split_once(' ')
            .filter(|(id, _)| id.len() == 1 && id.chars().all(|c| c.is_ascii_uppercase()))
        {
            Some((id, said)) => stages
                .entry(id)
                .or_default()
                .push(said.strip_prefix(' ').unwrap_or(said)),
            None => rest.push(line),
        }
    }
    let mut text = String::new();
    for (id, said) in stages {
        writeln!(text, "{id}").unwrap();
        said.iter()
            .for_each(|line| writeln!(text, "  {line}").unwrap());
    }
    rest.iter()
        .for_each(|line| writeln!(text, "{line}").unwrap());
    text
}

/// The commits of the branch itself. Which of two stages is merged first is chance.
fn subjects(environment: &Environment) -> Vec<String> {
    let log = environment.git(&["log", "--first-parent", "--format=%s"]);
    let mut subjects: Vec<String> = log.lines().map(str::to_owned).collect();
    subjects.sort();
    subjects
}

/// Figures of tokens as `NNk`: prompts hold paths, which differ in length.
fn rounded(told: &str) -> String {
    let word = |word: &str| {
        let number = word
            .strip_suffix('k')
            .is_some_and(|number| number.chars().all(|c| c.is_ascii_digit() || c == '.'));
        let percent = word
            .strip_suffix('%')
            .is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()));
        // A stage takes a second or more on a busy machine only; then its time is told, too.
        let duration = word.split_once(':').is_some_and(|(minutes, seconds)| {
            [minutes, seconds]
                .iter()
                .all(|part| part.parse::<u32>().is_ok())
        });
        if duration {
            return " ".repeat(word.len());
        }
        let digits = |c: char| if c.is_ascii_digit() { 'N' } else { c };
        if number || percent {
            word.chars().map(digits).collect()
        } else {
            word.to_owned()
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let told = told.lines().map(line).collect::<Vec<_>>().join("\n");
    let sessions = ["1 session", "2 sessions", "3 sessions"];
    sessions.iter().fold(told, |told, sessions| {
        told.replace(&format!("{sessions} · TIME · "), &format!("{sessions} · "))
    })
}

// shows: PLN-13
#[test]
fn the_agent_of_the_run_need_not_be_there_if_every_stage_has_another() {
    let environment = repository();
    let stage = stage("A", "agent = \"rehearsal\"", "echo a > a", "test -s a");
    environment.write("plan.toml", &plan(&[stage]));
    let said = environment.run(&["execute", "plan.toml", "--yes", "--safe-mode"]);
    said.expect(0);
}

// shows: PLN-03, PLN-06, PLN-11
#[test]
fn a_dry_run_shows_waves_and_commands_and_starts_nothing() {
    let environment = repository();
    environment.write(
        "plan.toml",
        &plan(&[
            stage("A", "estimate_tokens = 12000", "echo a > a", "test -s a"),
            stage("B", "needs = [\"A\"]", "echo b > b", "test -s b"),
            stage(
                "C",
                "needs = [\"A\"]\nestimate_tokens = 30000",
                "echo c > c",
                "test -s c",
            ),
            stage(
                "D",
                "needs = [\"B\", { stage = \"C\", optional = true }]",
                "echo d > d",
                "test -s d",
            ),
        ]),
    );
    insta::assert_snapshot!(environment.told(&["execute", "plan.toml", "--dry-run"]), @r"
    demo · 4 stages, at most 3 at a time, each in a worktree
    wave 1
      A  Stage A   about 12k tokens
    wave 2
      B  Stage B   needs A
      C  Stage C   needs A · about 30k tokens
    wave 3
      D  Stage D   needs B, C?
    commands that it runs
      test -s a   (A)
      test -s b   (B)
      test -s c   (C)
      test -s d   (D)
    about 42k tokens in all, as the manifest says
    --- standard error
    warning: it could not start now: cannot start a session: agent `claude`: `claude` is not on PATH
    --- exit code 0
    ");
    insta::assert_snapshot!(
        environment.told(&["execute", "plan.toml", "--dry-run", "--only", "C", "--jobs", "1", "--agent", "rehearsal"]), @r"
    demo · 4 stages, at most 1 at a time, each in a worktree
    wave 1
      A  done before: Stage A   about 12k tokens
    wave 2
      B  left out: Stage B   needs A
      C  Stage C   needs A · about 30k tokens
    wave 3
      D  left out: Stage D   needs B, C?
    commands that it runs
      test -s a   (A)
      test -s c   (C)
    about 30k tokens in all, as the manifest says
    --- exit code 0
    ");
    assert!(environment.runs().is_empty());
    let said = environment
        .run(&["execute", "plan.toml", "--dry-run", "--json"])
        .expect(0);
    let answer: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(answer["waves"][1][1]["id"], "C");
    assert_eq!(answer["commands"].as_array().unwrap().len(), 4);
    let turns = |more: &[&str]| {
        let dry_run = ["execute", "plan.toml", "--dry-run", "--json"];
        let said = environment.run(&[&dry_run, more].concat()).expect(0);
        let answer: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        answer["waves"][0][0]["turns_max"].clone()
    };
    assert_eq!(turns(&[]), 50);
    assert_eq!(turns(&["--max-turns", "0"]), serde_json::Value::Null);
    let environment = environment
        .with("EKIDEN_PLAN_JOBS", "2")
        .with("EKIDEN_VALIDATION_LINT", "true")
        .with("EKIDEN_AGENT", "rehearsal")
        .with("EKIDEN_TUI", "true");
    let said = environment.told(&["execute", "plan.toml", "--dry-run"]);
    assert!(
        said.starts_with("demo · 4 stages, at most 2 at a time"),
        "{said}"
    );
    assert!(said.contains("\n  true   (A, B, C, D)\n"), "{said}");
    assert!(
        said.contains("the setting `tui` is for `ekiden run`"),
        "{said}"
    );
}

// shows: PLN-06, SEC-01
#[test]
fn every_fault_is_told_at_once_with_its_line() {
    let environment = repository();
    let text = plan(&[
        stage("A", "needs = [\"B\"]", "true", "true"),
        stage(
            "B",
            "needs = [\"A\", \"Cc\"]\noutputs = [\"../../etc/passwd\"]",
            "true",
            "",
        ),
        stage("A", "", "true", "true"),
        stage("CC", "retries = 99", "true", "true"),
    ]);
    environment.write("plan.toml", &text);
    insta::assert_snapshot!(environment.told(&EXECUTE), @r#"
    --- standard error
    error: plan.toml has 6 faults
      line 4  cycle: A -> B -> A
      line 19  stage "B" needs "Cc", which does not exist       did you mean "CC"?
      line 20  stage "B": outputs "../../etc/passwd" leads out of the project
      line 21  stage "B": validation: command is empty
      line 30  id "A" is already that of another stage
      line 44  stage "CC": retries is 99, but must be a whole number from 0 to 10
    --- exit code 65
    "#);
    assert!(environment.runs().is_empty());
}

// shows: PLN-25
#[test]
fn what_a_plan_names_is_in_the_worktree_though_git_does_not_know_it() {
    let environment = repository();
    let look =
        "grep -q whole .ekiden/context/architecture.md && grep -q noted .ekiden/context/notes/a.md";
    let stage = stage(
        "A",
        "context = [\"notes\"]",
        &format!("{look} && echo a > a"),
        "test -s a",
    );
    environment.write(
        "plan.toml",
        &format!("format = 1\nproject = \"demo\"\narchitecture = \"architecture.md\"\n\n{stage}"),
    );
    environment.commit_all();
    environment.write(
        "architecture.md",
        "# It\n\n## Summary\n\nShort.\n\n## Rest\n\nThe whole.\n",
    );
    environment.write("notes/a.md", "noted\n");
    // An open Emacs leaves the first one.
    environment
        .shell("ln -s me@host.12 notes/.#a.md; ln -s .. notes/up; ln -s /etc/hostname notes/out");
    environment.run(&EXECUTE).expect(0);
    assert_eq!(environment.read("a"), "a\n");
    environment.shell(
        "grep -rq '.ekiden/context/notes/a.md' .ekiden/runs/*/stages/A/sessions/1/prompt.md",
    );
    let committed = environment.git(&["log", "--all", "--name-only", "--format="]);
    assert!(!committed.contains("notes"), "{committed}");
}

// shows: PLN-08, PLN-09, PLN-14, PLN-17
#[test]
fn stages_work_side_by_side_hand_off_and_are_merged() {
    let environment = repository();
    let long = format!(
        "[[stage]]\nid = \"B\"\nname = \"Long\"\nneeds = [\"A\"]\nprompt = '''\n{}'''\n\n",
        items(6)
    );
    environment.write(
        "plan.toml",
        &plan(&[
            stage("A", "outputs = [\"a\"]", "echo a > a", "test -s a"),
            long,
            stage(
                "C",
                "needs = [\"A\"]\ncontext = [\"a\", \"none\"]",
                "cp a c",
                "test -s c",
            ),
            stage(
                "D",
                "needs = [\"B\", \"C\"]\nknowledge_apart = true",
                "cat a c > d",
                "test -s d",
            ),
        ]),
    );
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(0);
    insta::assert_snapshot!(rounded(&by_stage(&environment.normal(&said))), @r#"
    A
      begins · Stage A
      verification `test -s a; these files exist: a` fails now, as it should
      session 1 · CLOCK
        window    NNk tokens (rehearsal), hands off at NNk
        USAGE  says all is done after TIME · 3 tool calls
        items     1 of 1 done
        commit    COMMIT, 1 file
        verify    passed in TIME
        merged    COMMIT, 1 file, valid
      done · 1 session · NNk tokens
    B
      begins · Long
      session 1 · CLOCK
        window    NNk tokens (rehearsal), hands off at NNk
        USAGE  handed off after TIME · 6 tool calls
        items     3 of 6 done
        next      The item "Item 4", with `echo made > item-4.txt`.
        commit    COMMIT, 3 files
      session 2 · CLOCK
        USAGE  says all is done after TIME · 5 tool calls
        items     6 of 6 done
        commit    COMMIT, 3 files
        merged    COMMIT, 6 files
      done · 2 sessions · NNk tokens
    C
      begins · Stage C
      verification `test -s c` fails now, as it should
      session 1 · CLOCK
        window    NNk tokens (rehearsal), hands off at NNk
        USAGE  says all is done after TIME · 3 tool calls
        items     1 of 1 done
        commit    COMMIT, 1 file
        verify    passed in TIME
        merged    COMMIT, 1 file, valid
      done · 1 session · NNk tokens
    D
      begins · Stage D
      verification `test -s d` fails now, as it should
      session 1 · CLOCK
        window    NNk tokens (rehearsal), hands off at NNk
        USAGE  says all is done after TIME · 3 tool calls
        items     1 of 1 done
        commit    COMMIT, 1 file
        verify    passed in TIME
        merged    COMMIT, 1 file, valid
      done · 1 session · NNk tokens
    run RUN · plan, 4 stages, at most 3 at a time · rehearsal, hands off at NN% · demo
    `main` is at COMMIT now, with what all stages made

    complete (3 of 4 stages verified) · 5 sessions · TIME
    knowledge  4 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git log --stat
    --- exit code 0
    "#);
    assert_eq!(
        subjects(&environment),
        [
            "begin",
            "begin",
            "ekiden: A Stage A",
            "ekiden: B Long",
            "ekiden: C Stage C",
            "ekiden: D Stage D"
        ]
    );
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    assert_eq!(environment.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(
        environment
            .git(&["branch", "--format=%(refname:short)"])
            .trim(),
        "main"
    );
    let prompt = |stage: &str| {
        let path = environment
            .run_dir()
            .join("stages")
            .join(stage)
            .join("sessions/1/prompt.md");
        std::fs::read_to_string(path).unwrap()
    };
    let of_c = prompt("C");
    assert!(
        of_c.contains("¦ --- a\n¦ a\n") && of_c.contains("¦ --- A: Stage A"),
        "{of_c}"
    );
    assert!(
        of_c.contains("`echo a > a` works here"),
        "facts of other stages are known: {of_c}"
    );
    let of_d = prompt("D");
    let knows = of_d.split("# What the relay knows").nth(1).unwrap();
    assert!(
        !knows.contains("works here"),
        "unless the stage wants none: {knows}"
    );
    assert!(
        environment
            .read(".ekiden/handoffs/A.md")
            .contains("## Files changed\n\n- a\n")
    );
    insta::assert_snapshot!(rounded(&environment.told(&["status"])), @r"
    RUN  plan   complete   4 stages · 4 done · CLOCK to CLOCK   demo
      A  done             NNk  Stage A
      B  done             NNk  Long
      C  done             NNk  Stage C
      D  done             NNk  Stage D
    next  ekiden log RUN
    --- exit code 0
    ");
    let sessions = environment.told(&["sessions", "--stage", "B"]);
    assert!(sessions.contains("6/6  says all is done"), "{sessions}");
    assert!(
        sessions.contains("next  ekiden show 2 --stage B"),
        "{sessions}"
    );
    insta::assert_snapshot!(environment.told(&["show", "1"]), @r"
    --- standard error
    error: run RUN is a plan: name the stage with `--stage ID`
    hint: `ekiden status` lists its stages
    --- exit code 2
    ");
    let status = environment.run(&["status", "--json"]).expect(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["runs"][0]["stages"][3]["state"], "done");
}

// shows: PLN-12, PLN-13, PLN-16
#[test]
fn a_failed_stage_is_diagnosed_and_goes_on_after_a_repair() {
    let environment = repository();
    let bad = "retries = 1\nsessions_max = 1";
    environment.write(
        "plan.toml",
        &plan(&[
            stage("A", "", "echo a > a", "test -s a"),
            stage("B", bad, "test -e ../ready && echo b > b", "test -s b"),
            stage("C", "needs = [\"B\"]", "cp b c", "test -s c"),
            stage(
                "D",
                "on_fail = \"skip\"\nretries = 0\nsessions_max = 1",
                "exit 3",
                "test -s d",
            ),
            stage(
                "E",
                "needs = [{ stage = \"D\", optional = true }]",
                "echo e > e",
                "test -s e",
            ),
        ]),
    );
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(1);
    let told = environment.normal(&said);
    insta::assert_snapshot!(&told[told.rfind("\n\n").unwrap()..], @r"
    failed (1): 1 stage failed · 5 sessions · TIME · 2 of 5 stages done, 1 skipped
      B  all its sessions are used
      1 other stage blocked by that
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue, once that is repaired:  ekiden resume
    --- exit code 1
    ");
    insta::assert_snapshot!(rounded(&environment.told(&["status"])), @r"
    RUN  plan   failed   5 stages · 2 done · 1 failed · 1 blocked · 1 skipped · CLOCK to CLOCK   demo
      A  done                NNk  Stage A
      B  failed              NNk  Stage B  try 2, all its sessions are used
      C  blocked                  Stage C  by B
      D  skipped             NNk  Stage D  all its sessions are used
      E  done                NNk  Stage E
    next  ekiden resume
    --- exit code 0
    ");
    let diagnosis = environment.read(".ekiden/handoffs/B.md");
    assert!(
        diagnosis.contains("It was tried 2 times.") && diagnosis.contains("Blocked by it: C."),
        "{diagnosis}"
    );
    assert_eq!(
        subjects(&environment).len(),
        2,
        "the branch is left as it is"
    );
    let trees = environment.path("home/.local/state/ekiden/worktrees");
    let tree = trees.read_dir().unwrap().next().unwrap().unwrap().path();
    std::fs::write(tree.join("ready"), "").unwrap();
    let said = environment.run(&["resume"]).expect(0);
    let told = environment.normal(&said);
    insta::assert_snapshot!(&told[told.rfind("\n\n").unwrap()..], @r"
    verified complete · 7 sessions · TIME · 4 of 5 stages done, 1 skipped
    knowledge  4 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git log --stat
    --- exit code 0
    ");
    assert_eq!(environment.read("c"), "b\n");
    assert_eq!(environment.read("a"), "a\n");
}

/// Else stages would work from a commit without them, or in the user's own tree.
// shows: PLN-08
#[test]
fn changes_that_git_cannot_tell_begin_nothing() {
    let environment = repository();
    let stages = [stage("A", "", "echo a > a", "test -s a")];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    environment.write(".git/index", "damaged");
    let said = environment.run(&EXECUTE).expect(78);
    let told = "error: cannot tell what is committed here: `git diff` failed";
    assert!(said.stderr.starts_with(told), "{said}");
    assert!(environment.runs().is_empty() && !environment.exists("a"));
    // A git that fails says nothing about commits either.
    environment.shell("rm .git/index && git reset --quiet && mkdir ../bin");
    environment.script(
        "../bin/git",
        "case \"$*\" in *'--verify --quiet HEAD'*) exit 3 ;; esac\nPATH=${PATH#*:} exec git \"$@\"\n",
    );
    let path = format!(
        "{}:{}",
        environment.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let environment = environment.with("PATH", &path);
    let said = environment.run(&EXECUTE).expect(78);
    assert!(said.stderr.contains("`git rev-parse` failed"), "{said}");
    assert!(environment.runs().is_empty() && !environment.exists("a"));
}

// shows: PLN-03, PLN-16
#[test]
fn from_a_stage_on_what_lies_before_must_be_done() {
    let environment = repository();
    let stages = [
        stage("A", "", "echo a > a", "test -s a"),
        stage("B", "needs = [\"A\"]", "cp a b", "test -s b"),
        stage("C", "needs = [\"B\"]", "cp b c", "test -s c"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let from = |id: &'static str| [&EXECUTE[..], &["--from", id, "--new"]].concat();
    let said = environment.run(&from("C")).expect(1);
    assert!(
        environment
            .normal(&said)
            .contains("it was marked as done and is not: its validation failed"),
        "{}",
        said.stderr
    );
    let lines = "what to do:  see .ekiden/handoffs/A.md\n";
    assert!(said.to_string().contains(lines), "{said}");
    assert!(
        said.to_string()
            .contains("to continue, if the check can pass now:  "),
        "{said}"
    );
    let told = environment.read(".ekiden/handoffs/A.md");
    assert!(
        told.contains("then `ekiden execute plan.toml --new --only C`"),
        "{told}"
    );
    environment.write("a", "by hand\n");
    environment.commit_all();
    environment.run(&from("B")).expect(0);
    assert_eq!(environment.read("c"), "by hand\n");
    let unknown = environment.told(&["execute", "plan.toml", "--from", "BB", "--dry-run"]);
    insta::assert_snapshot!(unknown, @r"
    --- standard error
    error: there is no stage `BB` in the manifest
    hint: its stages are: A, B, C
    --- exit code 2
    ");
}

// shows: PLN-08
#[test]
fn without_git_stages_work_in_place_one_at_a_time() {
    let environment = Environment::new();
    environment.write(
        "plan.toml",
        &plan(&[
            stage("A", "", "echo a > a", "test -s a"),
            stage("B", "", "cp a b", "test -s b"),
            stage("C", "needs = [\"A\"]", "cat a b > c", "test -s c"),
        ]),
    );
    let said = environment.run(&EXECUTE).expect(0);
    insta::assert_snapshot!(environment.normal(&said), @r"
    run RUN · plan, 3 stages, one at a time in the work dir · rehearsal, hands off at 60% · demo
    A  begins · Stage A
    A  verification `test -s a` fails now, as it should
    A  session 1 · CLOCK
    A    window    40k tokens (rehearsal), hands off at 24k
    A    USAGE  says all is done after TIME · 3 tool calls
    A    items     1 of 1 done
    A    verify    passed in TIME
    A  done · 1 session · 18k tokens
    B  begins · Stage B
    B  verification `test -s b` fails now, as it should
    B  session 1 · CLOCK
    B    window    40k tokens (rehearsal), hands off at 24k
    B    USAGE  says all is done after TIME · 3 tool calls
    B    items     1 of 1 done
    B    verify    passed in TIME
    B  done · 1 session · 18k tokens
    C  begins · Stage C
    C  verification `test -s c` fails now, as it should
    C  session 1 · CLOCK
    C    window    40k tokens (rehearsal), hands off at 24k
    C    USAGE  says all is done after TIME · 3 tool calls
    C    items     1 of 1 done
    C    verify    passed in TIME
    C  done · 1 session · 18k tokens

    verified complete · 3 sessions · TIME
    knowledge  3 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       ekiden log RUN
    --- standard error
    warning: the work dir is not in a git repository: stages work in it one at a time, and nothing is merged
    --- exit code 0
    ");
    assert_eq!(environment.read("c"), "a\na\n");
}

// shows: PLN-05
#[test]
fn manifests_of_casm_and_cleave_are_carried_out_as_they_are() {
    let environment = repository();
    environment.write("manifest.json", include_str!("plans/casm.json"));
    environment.write("pipeline.yaml", include_str!("plans/pipeline.yaml"));
    environment.write(
        "stages/one.md",
        "- [ ] One\n  ```sh\n  echo 1 > one\n  ```\n",
    );
    environment.write("stages/two.md", "- [ ] Two\n  ```sh\n  cp one two\n  ```\n");
    environment.commit_all();
    environment
        .run(&["execute", "manifest.json", "--agent", "rehearsal", "--yes"])
        .expect(0);
    assert_eq!(
        (environment.read("src/a"), environment.read("src/b")),
        ("a\n".to_owned(), "a\nb\n".to_owned())
    );
    environment
        .run(&["execute", "pipeline.yaml", "--agent", "rehearsal", "--yes"])
        .expect(0);
    assert_eq!(environment.read("two"), "1\n");
}

// shows: PLN-18
#[test]
fn commands_of_a_plan_run_only_after_an_approval() {
    let environment = repository();
    environment.write(
        "plan.toml",
        &plan(&[stage("A", "", "echo a > a", "test -s a")]),
    );
    environment.commit_all();
    insta::assert_snapshot!(environment.told(&["execute", "plan.toml", "--agent", "rehearsal"]), @r"
    --- standard error
    error: this plan runs 1 command of its own, and nobody approved it
    hint: `ekiden execute plan.toml --dry-run` shows it
    hint: run it once on a terminal and answer yes, or add `--yes`
    --- exit code 78
    ");
    assert!(environment.runs().is_empty());
}

// shows: PLN-08
#[test]
fn changes_that_stages_would_not_see_are_refused() {
    let environment = repository();
    environment.write(
        "plan.toml",
        &plan(&[stage("A", "", "echo a > a", "test -s a")]),
    );
    environment.write("kept", "old\n");
    environment.commit_all();
    environment.write("kept", "new\n");
    insta::assert_snapshot!(environment.told(&EXECUTE), @r"
    --- standard error
    error: there are changes that are not committed: kept
    hint: stages work from the last commit and would not see them
    hint: `git commit` or `git stash` them first
    --- exit code 78
    ");
}

// shows: PLN-22
#[test]
fn checks_of_the_project_hold_for_every_stage() {
    let environment = repository();
    let mut text = plan(&[stage(
        "A",
        "retries = 0\nsessions_max = 1",
        "echo a > a",
        "test -s a",
    )]);
    text = text.replace(
        "\n\n[[stage]]",
        "\n[validation]\nlint = \"test ! -e a\"\n\n[[stage]]",
    );
    environment.write("plan.toml", &text);
    environment.commit_all();
    environment.run(&EXECUTE).expect(1);
    assert!(
        environment
            .read(".ekiden/handoffs/A.md")
            .contains("`test -s a; test ! -e a`: failed")
    );
}

// shows: MEM-004
#[test]
fn the_first_session_of_a_stage_reads_what_was_left_before_the_run() {
    let environment = repository();
    let prompt_of = |file: &str| {
        let line = format!("echo {file} > {file}");
        let stage = stage("A", "", &line, &format!("test -s {file}"));
        environment.write("plan.toml", &plan(&[stage]));
        environment.commit_all();
        environment.run(&EXECUTE).expect(0);
        let path = environment.run_dir().join("stages/A/sessions/1/prompt.md");
        std::fs::read_to_string(path).unwrap()
    };
    assert!(!prompt_of("a").contains("# From the memory"));
    let later = prompt_of("b");
    let told = later.split("# From the memory").nth(1).expect(&later);
    assert!(told.contains("¦ ") && told.contains("echo a > a"), "{told}");
}

// shows: PLN-23
#[test]
fn a_validation_that_passes_before_its_stage_is_told() {
    let environment = repository();
    let validation = "validation = { kind = \"command\", command = \"true\" }";
    let long = format!(
        "[[stage]]\nid = \"A\"\nname = \"A\"\n{validation}\nprompt = '''\n{}'''\n\n",
        items(6)
    );
    environment.write("plan.toml", &plan(&[long]));
    environment.commit_all();
    let told = environment.normal(&environment.run(&EXECUTE).expect(0));
    // It passes behind session 1, too; only the claim of session 2 ends the stage.
    assert_eq!(environment.read("item-6.txt"), "made\n", "{told}");
    assert!(told.contains("A  session 2"), "{told}");
    assert!(
        told.contains(
            "! `true` passes before the work begins: it does not show whether it is done"
        ),
        "{told}"
    );
}

// shows: PLN-21
#[test]
fn a_stage_hands_off_at_its_own_budget_of_tokens() {
    let environment = repository();
    let long = format!(
        "[[stage]]\nid = \"A\"\nname = \"Long\"\nsession_tokens = 20000\nprompt = '''\n{}'''\n\n",
        items(4)
    );
    environment.write("plan.toml", &plan(&[long]));
    environment.commit_all();
    let told = environment.normal(&environment.run(&EXECUTE).expect(0));
    assert!(told.contains("hands off at 20k"), "{told}");
}

// shows: PLN-16
#[test]
fn what_is_meant_for_one_relay_is_refused_for_a_plan() {
    let environment = repository();
    environment.write(
        "plan.toml",
        &plan(&[stage("A", "", "echo a > a", "test -s a")]),
    );
    environment.commit_all();
    environment.run(&EXECUTE).expect(0);
    for words in [
        &["continue", "more of it"][..],
        &["resume", "-r", "1"],
        &["knowledge", "edit"],
    ] {
        let said = environment.run(words);
        assert!(
            said.stderr.contains("is a plan"),
            "{words:?}: {}",
            said.stderr
        );
    }
    // It is complete: nothing continues it.
    for words in [["continue", "more of it"], ["answer", "yes"]] {
        let said = environment.run(&words).to_string();
        assert!(said.contains("`ekiden execute` starts another"), "{said}");
        assert!(
            !said.contains("`ekiden resume") && !said.contains("`ekiden continue"),
            "{said}"
        );
    }
    let resume = ["resume", &environment.runs()[0]];
    let said = environment.run(&resume).expect(66).to_string();
    assert!(
        said.contains("it is complete") && !said.contains("`ekiden continue"),
        "{said}"
    );
    assert!(
        environment
            .told(&["knowledge", "show"])
            .contains("works here")
    );
}

// shows: PLN-12, PLN-17
#[test]
fn where_stages_share_the_work_dir_an_edit_is_taken_by_the_one_that_worked_last() {
    let environment = Environment::new();
    let stages = [
        stage("A", "", "echo a > a", "test -s a"),
        stage("B", "", "test -e ready", "test -e ready"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.run(&EXECUTE).expect(4);
    let published = environment.read(".ekiden/KNOWLEDGE.md");
    environment.write(
        ".ekiden/KNOWLEDGE.md",
        &format!("{published}- Ports below 1024 are taken here.\n"),
    );
    environment.write("ready", "");
    environment.run(&["resume"]).expect(0);
    let edits: Vec<_> = environment
        .log()
        .into_iter()
        .filter(|record| record["event"]["event"]["kind"] == "knowledge_edited")
        .map(|record| record["event"]["stage"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(edits, ["B"], "A is done, and the file is B's by now");
    assert!(
        environment
            .read(".ekiden/KNOWLEDGE.md")
            .contains("Ports below 1024")
    );
}

// shows: PLN-17, RUN-12
#[test]
fn an_edit_of_what_stages_in_worktrees_share_is_kept_as_a_copy() {
    let environment = repository();
    let go = environment.path("go");
    let line = format!("test -e {} && echo b > b", go.display());
    let stages = [
        stage("A", "", "echo a > a", "test -s a"),
        stage("B", "", &line, "test -s b"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    environment.run(&EXECUTE).expect(4);
    let published = environment.read(".ekiden/KNOWLEDGE.md");
    let left = environment.run_dir().join("left");
    assert!(!left.exists(), "it was ours");
    let edited = format!("{published}- Ports below 1024 are taken here.\n");
    environment.write(".ekiden/KNOWLEDGE.md", &edited);
    std::fs::write(go, "").unwrap();
    environment.run(&["resume"]).expect(0);
    assert_ne!(environment.read(".ekiden/KNOWLEDGE.md"), edited);
    let kept = std::fs::read_to_string(left.join("KNOWLEDGE.md")).unwrap();
    assert_eq!(kept, edited);
}

// shows: UIX-03, REL-11
#[test]
fn status_says_until_when_stages_wait_and_whether_all_do() {
    let environment = repository();
    let limit = "[[act]]\nsession = 2\nat = 'prompt'\ndo = { limit = 3600 }\n";
    let scenario = environment.path("scenario.toml");
    std::fs::write(&scenario, limit).unwrap();
    let environment = environment.with("EKIDEN_REHEARSAL_SCENARIO", scenario.to_str().unwrap());
    let go = environment.path("go");
    let long = format!(
        "[[stage]]\nid = \"A\"\nname = \"Long\"\nprompt = '''\n{}'''\n\n",
        items(6)
    );
    let waits = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let stages = [
        long,
        stage("B", "", &waits, "true"),
        stage("C", "", "echo c > c", "test -s c"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let run = environment.start(&[&EXECUTE[..], &["--jobs", "2"]].concat());
    let json = || -> serde_json::Value {
        let status = environment.run(&["status", "--json"]).stdout;
        serde_json::from_str::<serde_json::Value>(&status).unwrap_or_default()["runs"][0].clone()
    };
    wait_until("the limit", || {
        json()["stages"][0]["waits_until"].is_string()
    });
    let one_works = json();
    assert!(one_works["waits_until"].is_null(), "{one_works}");
    assert!(
        one_works["stages"][1]["waits_until"].is_null(),
        "{one_works}"
    );
    assert!(
        one_works["stages"][2]["waits_until"].is_string(),
        "{one_works}"
    );
    let status = environment.run(&["status"]).expect(0).stdout;
    let line = |id: &str| status.lines().find(|line| line.starts_with(id)).unwrap();
    let until = "waiting (usage limit) until ";
    assert!(line("  A  running").contains(until), "{status}");
    assert!(line("  C  ready").contains(until), "{status}");
    std::fs::write(go, "").unwrap();
    wait_until("all to wait", || json()["waits_until"].is_string());
    run.signal(rustix::process::Signal::TERM);
    run.end();
}

// shows: UIX-03, REL-39
#[test]
fn the_rows_of_status_count_what_is_at_work_as_the_sum_does() {
    let environment = repository();
    let [started, go] = ["started", "go"].map(|name| environment.path(name));
    let waits = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done",
        started.display(),
        go.display()
    );
    environment.write("plan.toml", &plan(&[stage("A", "", &waits, "true")]));
    environment.commit_all();
    let run = environment.start(&[&EXECUTE[..], &["--agent-budget", "rehearsal=500"]].concat());
    wait_until("the work", || started.exists());
    let status = environment.run(&["status", "--json"]).expect(0).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let status = &status["runs"][0];
    let sum = &status["tokens"];
    assert!(sum.as_u64() > Some(0), "{status}");
    assert_eq!(status["stages"][0]["tokens"], *sum, "{status}");
    let of_agent = &status["agent_budgets"][0]["spent"]["tokens"];
    assert_eq!(of_agent, sum, "{status}");
    std::fs::write(go, "").unwrap();
    run.end().expect(0);
}

// shows: REL-35
#[test]
fn programs_are_told_what_a_plan_at_work_asks() {
    let environment = repository();
    let act = "[[act]]\nsession = 2\nat = 'prompt'\ndo = { question = 'Keep it?' }\n";
    let scenario = environment.path("scenario.toml");
    std::fs::write(&scenario, act).unwrap();
    let environment = environment.with("EKIDEN_REHEARSAL_SCENARIO", scenario.to_str().unwrap());
    let go = environment.path("go");
    let waits = format!("while [ ! -e {} ]; do sleep 0.02; done", go.display());
    let stages = [
        stage("A", "", "echo one > a.txt", "test -e never"),
        stage("B", "", &waits, "true"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let run = environment.start(&EXECUTE);
    let asked = || {
        let status = environment.run(&["status", "--json"]).stdout;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        status["runs"][0]["asked"].clone()
    };
    let question = "- Keep it?\n- After a failed check everything was done over once.";
    let all = serde_json::json!([{ "stage": "A", "question": question }]);
    wait_until("the question", || asked() == all);
    std::fs::write(go, "").unwrap();
    run.end();
}

// shows: UIX-04, PLN-16
#[test]
fn a_problem_is_named_with_its_stage() {
    let environment = repository();
    // The agent does everything over once.
    let twice = "test \"$(grep -c one a.txt)\" = 2";
    let stages = [
        stage("A", "", "echo one >> a.txt", twice),
        stage("B", "", "echo two > b.txt", "test -s b.txt"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(0);
    let problems = |said: &str| {
        let line = said.lines().find(|line| line.starts_with("problems"));
        line.map(str::to_owned)
    };
    let of_plan = problems(&said.stdout).unwrap();
    assert!(of_plan.ends_with("(session 1 of A)"), "{of_plan}");
    let of_stage = |stage: &str, more: &[&str]| {
        let args = [&["sessions", "--stage", stage], more].concat();
        environment.run(&args).expect(0).stdout
    };
    let of_a = problems(&of_stage("A", &[])).unwrap();
    assert!(of_a.ends_with("(session 1)"), "{of_a}");
    assert_eq!(problems(&of_stage("B", &[])), None);
    assert!(of_stage("A", &["--json"]).contains("\"problems\""));
    assert!(!of_stage("B", &["--json"]).contains("\"problems\""));
}

// shows: PLN-03
#[test]
fn a_run_that_would_leave_out_every_stage_does_not_begin() {
    let environment = repository();
    let needs = "needs = [\"A\"]";
    environment.write(
        "plan.toml",
        &plan(&[
            stage("A", "", "true", "false"),
            stage("B", needs, "true", "false"),
            stage("C", "needs = [\"B\"]", "true", "false"),
        ]),
    );
    environment.commit_all();
    let run = [&EXECUTE[..], &["--skip", "A"]].concat();
    let told = environment.told(&run);
    insta::assert_snapshot!(told, @r"
    --- standard error
    error: `--skip` leaves out every stage: those that it names, and those that need them
    hint: `--dry-run` without `--skip` shows what needs what
    --- exit code 2
    ");
    // What lies between was done before, and needs it.
    let from = [&EXECUTE[..], &["--from", "C", "--skip", "A"]].concat();
    assert_eq!(environment.told(&from), told);
    assert!(environment.runs().is_empty());
}
