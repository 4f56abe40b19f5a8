//! Plans where they meet the user: files that git does not know, setups, and results that are not delivered.

use rustix::process::Signal;

use crate::environment::{Environment, items};
use crate::plan::{EXECUTE, plan, repository, stage};
use crate::running::wait_until;

/// The prompt of a stage's session.
fn prompt(environment: &Environment, stage: &str, session: u32) -> String {
    let name = format!("stages/{stage}/sessions/{session}/prompt.md");
    std::fs::read_to_string(environment.run_dir().join(name)).unwrap()
}

// shows: PLN-25
#[test]
fn a_summary_that_is_cut_says_where_the_stage_finds_the_whole() {
    let environment = repository();
    let line = "What the plan says of the whole, in a line.\n";
    let document = format!("## Summary\n\n{}", line.repeat(1_000));
    let head = "architecture = \"whole.md\"\n\n[[stage]]";
    let text = |whole: &str| {
        let line = format!("grep -q END {whole} && echo a >> a");
        let plan = plan(&[stage("A", "", &line, "test -s a")]);
        plan.replacen("[[stage]]", head, 1)
    };
    environment.write("plan.toml", &text(".ekiden/context/whole.md"));
    environment.commit_all();
    environment.write("whole.md", &format!("{document}## END\n"));
    environment.run(&EXECUTE).expect(0);
    let said = "the whole is in .ekiden/context/whole.md]";
    assert!(prompt(&environment, "A", 1).contains(said));
    std::fs::create_dir(environment.dir().join("plans")).unwrap();
    environment.write("plans/plan.toml", &text("plans/whole.md"));
    environment.shell("mv whole.md plans/whole.md");
    environment.commit_all();
    let execute = EXECUTE.map(|word| match word {
        "plan.toml" => "plans/plan.toml",
        word => word,
    });
    environment
        .run(&[&execute[..], &["--new"]].concat())
        .expect(0);
    let prompts = environment.runs().into_iter().map(|run| {
        let run = environment.state().join("runs").join(run);
        std::fs::read_to_string(run.join("stages/A/sessions/1/prompt.md")).unwrap()
    });
    let said = "the whole is in plans/whole.md]";
    assert!(prompts.into_iter().any(|prompt| prompt.contains(said)));
}

// shows: PLN-12
#[test]
fn a_retry_sees_the_notes_of_the_session_that_failed() {
    let environment = repository();
    let more = "retries = 1\nsessions_max = 1";
    environment.write(
        "plan.toml",
        &plan(&[stage("A", more, "echo a > a", "test -e never")]),
    );
    environment.commit_all();
    environment.run(&EXECUTE).expect(1);
    let prompt = prompt(&environment, "A", 2);
    assert!(
        prompt.contains("# Notes of the previous session"),
        "{prompt}"
    );
    assert!(prompt.contains("¦ STATUS: ALL_COMPLETE"), "{prompt}");
    assert!(prompt.contains("# What happened before"), "{prompt}");
    assert!(prompt.contains("The check that failed:"), "{prompt}");
    assert!(!prompt.contains("Resume at"), "it left none: {prompt}");
}

/// What the stage before it made is no work of this one, and what its first session made is.
// shows: PLN-12, PLN-14
#[test]
fn changes_are_measured_from_the_stages_own_beginning() {
    let environment = repository();
    let never = "validation = { kind = \"command\", command = \"test -e never\" }";
    let long = format!(
        "[[stage]]\nid = \"B\"\nname = \"Long\"\nneeds = [\"A\"]\nretries = 1\nsessions_max = 2\n{never}\nprompt = '''\n{}'''\n\n",
        items(6)
    );
    environment.write(
        "plan.toml",
        &plan(&[stage("A", "", "echo a > a", "test -s a"), long]),
    );
    environment.commit_all();
    environment.run(&EXECUTE).expect(1);
    let after = |session: u32, heading: &str| -> String {
        let prompt = prompt(&environment, "B", session);
        let (_, rest) = prompt
            .split_once(heading)
            .unwrap_or_else(|| panic!("{prompt}"));
        let lines = rest.trim_start().lines();
        let listed = lines.take_while(|line| line.starts_with('¦'));
        listed.map(|line| format!("{line}\n")).collect()
    };
    insta::assert_snapshot!(after(2, " come last:\n"), @r"
    ¦ A item-1.txt
    ¦ A item-2.txt
    ¦ A item-3.txt
    ");
    insta::assert_snapshot!(after(3, "Changes of the stage so far:\n"), @r"
    ¦ item-1.txt | 1 +
    ¦ item-2.txt | 1 +
    ¦ item-3.txt | 1 +
    ¦ item-4.txt | 1 +
    ¦ item-5.txt | 1 +
    ¦ item-6.txt | 1 +
    ¦ 6 files changed, 6 insertions(+)
    ");
}

// shows: PLN-08
#[test]
fn a_conflict_is_told_without_a_check_from_before_it() {
    let environment = repository();
    environment.write("f", "one\ntwo\nthree\n");
    let stages = [
        stage("A", "", "sed -i s/two/A/ f", "grep -q A f"),
        stage("B", "", "sleep 2; sed -i s/two/B/ f", "grep -q B f"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    environment.run(&EXECUTE).expect(0);
    let prompt = prompt(&environment, "B", 2);
    assert!(
        prompt.contains("# Two stages changed the same lines"),
        "{prompt}"
    );
    assert!(!prompt.contains("The check:\n"), "{prompt}");
    assert!(
        prompt.contains("Its result, from before the merge:"),
        "{prompt}"
    );
}

// shows: PLN-16
#[test]
fn from_a_stage_on_only_what_it_needs_is_taken_for_done() {
    let environment = repository();
    let stages = [
        stage("A", "", "echo a > a", "test -s a"),
        stage("B", "", "echo b > b", "test -s b"),
        stage("C", "needs = [\"A\"]", "cp a c", "test -s c"),
        stage("D", "needs = [\"B\", \"C\"]", "cat b c > d", "test -s d"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.write("a", "by hand\n");
    environment.commit_all();
    let said = environment.run(&[&EXECUTE[..], &["--from", "C"]].concat());
    let said = said.expect(0);
    assert!(said.stdout.contains("B  begins"), "{said}");
    assert_eq!(environment.read("d"), "b\nby hand\n");
}

// shows: PLN-14
#[test]
fn a_stage_that_nothing_can_confirm_is_not_taken_for_done() {
    let environment = repository();
    let stages = [
        stage("A", "", "echo a > a", "true").replace("validation", "# validation"),
        stage("B", "needs = [\"A\"]", "cp a b", "test -s b"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    insta::assert_snapshot!(environment.told(&[&EXECUTE[..], &["--only", "B"]].concat()), @r"
    --- standard error
    error: stage A has neither validation nor outputs, so nothing can show that it was done
    hint: give it a validation, or run it as well: `--only A`
    --- exit code 2
    ");
    let from = [&EXECUTE[..], &["--from", "B", "--dry-run"]].concat();
    let said = environment.run(&from).expect(2);
    assert!(said.stderr.contains("`--from A`"), "{said}");
}

// shows: RUN-20
#[test]
fn a_validation_that_the_shell_cannot_read_begins_nothing() {
    let environment = repository();
    environment.write(
        "plan.toml",
        &plan(&[stage("A", "", "echo a > a", "test -s a &&")]),
    );
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(78);
    let told = "error: cannot verify by `test -s a &&`: sh: ";
    assert!(said.stderr.contains(told), "{said}");
    assert!(environment.runs().is_empty());
}

/// It is told before the run begins, and costs one session of a stage.
// shows: PLN-12
#[test]
fn a_validation_without_its_program_fails_its_stage_for_good() {
    let environment = repository();
    let stages = [stage("A", "", "echo a > a", "pytets -q")];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let told = "cannot verify by `pytets -q`: `pytets` is not on PATH";
    let shown = environment.run(&[&EXECUTE[..], &["--dry-run"]].concat());
    let shown = shown.expect(0);
    assert!(shown.stderr.contains(told), "{shown}");
    let said = environment.run(&EXECUTE).expect(1);
    assert!(said.stderr.contains(told), "{said}");
    assert!(
        said.stdout.contains("there is no program `pytets`"),
        "{said}"
    );
    let tries = environment.run_dir().join("stages/A/sessions/2");
    assert!(!tries.exists(), "{said}");
}

// shows: PLN-25
#[test]
fn a_file_to_copy_that_does_not_exist_is_refused() {
    let environment = repository();
    let text = plan(&[stage("A", "", "echo a > a", "test -s a")]);
    let copy = "\n[worktree]\ncopy = [\"secrt.env\"]\n";
    environment.write("plan.toml", &format!("{text}{copy}"));
    environment.commit_all();
    insta::assert_snapshot!(environment.told(&EXECUTE), @r"
    --- standard error
    error: cannot start a plan: `copy` names `secrt.env`, and there is no such file
    hint: `[worktree] copy` in the manifest names files of the project; `setup` creates others
    --- exit code 78
    ");
}

// shows: PLN-16
#[test]
fn a_manifest_is_kept_by_its_name_from_the_work_dir() {
    let environment = repository();
    let text = plan(&[stage(
        "A",
        "retries = 0\nsessions_max = 1",
        "true",
        "test -s a",
    )]);
    environment.write("app/plan.toml", &text);
    environment.commit_all();
    let args = [
        "execute",
        "plan.toml",
        "-d",
        "..",
        "--agent",
        "rehearsal",
        "--yes",
    ];
    environment.run_in("project/app", &args).expect(1);
    let diagnosis = environment.read(".ekiden/handoffs/A.md");
    assert!(
        diagnosis.contains("`ekiden execute app/plan.toml --new"),
        "{diagnosis}"
    );
    environment.write("app/plan.toml", &format!("{text}# edited\n"));
    let said = environment.run(&["resume"]).expect(1);
    assert!(said.stderr.contains("app/plan.toml differs from"), "{said}");
}

// shows: PLN-14, PLN-16
#[test]
fn a_stage_that_is_taken_for_done_hands_on_no_diagnosis() {
    let environment = repository();
    let stages = [
        stage("A", "retries = 0\nsessions_max = 1", "true", "test -s a"),
        stage("B", "needs = [\"A\"]", "cp a b", "test -s b"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    environment.run(&EXECUTE).expect(1);
    let diagnosis = environment.read(".ekiden/handoffs/A.md");
    assert!(diagnosis.starts_with("# Stage A failed: "), "{diagnosis}");
    environment.write("a", "by hand\n");
    environment.commit_all();
    let from = [&EXECUTE[..], &["--from", "B", "--new"]].concat();
    environment.run(&from).expect(0);
    assert_eq!(environment.read("b"), "by hand\n");
    environment.shell("! grep -r 'Stage A failed' .ekiden/runs/*/stages/B/sessions");
}

// shows: PLN-26
#[test]
fn the_last_line_brings_what_was_not_delivered() {
    let way = |then: &str| {
        let environment = repository();
        let line = format!(
            "echo made > made; cd {}; {then}",
            environment.dir().display()
        );
        environment.write("plan.toml", &plan(&[stage("A", "", &line, "test -s made")]));
        environment.commit_all();
        let said = environment.run(&EXECUTE).expect(5);
        let last = said.stdout.lines().last().unwrap().to_owned();
        // Nothing can be resumed, and the log ends with the same command.
        let stop = environment.told(&["stop"]);
        let hint = "hint: `ekiden log RUN` ends with the command that brings it there\n";
        assert!(stop.contains(hint), "{stop}");
        let log = environment.run(&["log"]).expect(0).stdout;
        assert_eq!(log.lines().last(), Some(&*last));
        environment.shell(last.trim_start_matches("next").trim());
        assert_eq!(environment.read("made"), "made\n", "{last}");
        environment
    };
    assert_eq!(way("echo mine > made").read("made.before-merge"), "mine\n");
    way("echo mine > mine; git add mine; git commit -qm mine");
    let both = way("echo mine > mine; git add mine; git commit -qm mine; echo mine > made");
    assert_eq!(both.read("made.before-merge"), "mine\n");
    let old = "echo '# old' >> plan.toml; git stash -q";
    let changed = way(&format!("{old}; echo '# mine' >> plan.toml"));
    assert!(changed.read("plan.toml").ends_with("# mine\n"));
    // Typed again later, it brings nothing out of the stash.
    changed.commit_all();
    let status = changed.run(&["status"]).stdout;
    let last = status.lines().last().unwrap();
    changed.shell(last.trim_start_matches("next").trim());
    assert_eq!(changed.git(&["stash", "list"]).lines().count(), 1, "{last}");
    way("git switch -qc other; echo mine > made");
}

// shows: PLN-26, RUN-12
#[test]
fn a_plan_that_is_done_and_not_delivered_is_not_done_again() {
    let environment = repository();
    let line = format!(
        "echo made > made; cd {}; test -e mine || {{ touch mine; git add mine; git commit -qm mine; }}",
        environment.dir().display()
    );
    environment.write("plan.toml", &plan(&[stage("A", "", &line, "test -s made")]));
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(5);
    insta::assert_snapshot!(environment.told(&EXECUTE), @r"
    --- standard error
    error: run RUN has done this plan, and its work is not on your branch
    hint: `ekiden status` names the command that brings it there
    hint: `--new` does all of it again
    --- exit code 5
    ");
    let last = said.stdout.lines().last().unwrap();
    environment.shell(last.trim_start_matches("next").trim());
    environment.run(&EXECUTE).expect(0);
}

// shows: PLN-26
#[test]
fn nothing_is_delivered_while_git_is_in_the_middle_of_something() {
    let environment = repository();
    let line = format!(
        "echo made > made; cd {}; git bisect start",
        environment.dir().display()
    );
    environment.write("plan.toml", &plan(&[stage("A", "", &line, "test -s made")]));
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(5);
    let why = "a bisect is under way, which has to end first";
    assert!(said.stdout.contains(why), "{said}");
    let last = said.stdout.lines().last().unwrap();
    let command = last.trim_start_matches("next").trim();
    assert!(command.starts_with("git merge "), "{said}");
    environment.shell(&format!("git bisect reset; {command}"));
    assert_eq!(environment.read("made"), "made\n");
}

// shows: REL-18, PLN-15
#[test]
fn a_directory_that_a_tool_filled_stays_out_of_commits() {
    let environment = repository();
    let fill = |dir: &str| format!("mkdir {dir}; cd {dir}; seq 1200 | xargs touch; cd ..");
    let line = format!("{}; {}; echo a > a", fill("node_modules"), fill("data"));
    environment.write(
        "plan.toml",
        &plan(&[stage(
            "A",
            "outputs = [\"a\", \"data/\"]",
            &line,
            "test -s a",
        )]),
    );
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(0);
    let told = "! not committed, since they are repositories or have over 1,000 new files (name those in .gitignore, or `git add` them): \
                node_modules/";
    assert!(said.stdout.contains(told), "{said}");
    assert!(
        said.stderr.contains("is kept: it has uncommitted files"),
        "{said}"
    );
    let files = environment.git(&["ls-files"]);
    assert_eq!(
        files
            .lines()
            .filter(|file| file.starts_with("data/"))
            .count(),
        1_200
    );
    assert!(!files.contains("node_modules"), "{files}");
    assert!(environment.exists("a"));
}

// shows: PLN-08
#[test]
fn a_setup_may_need_what_the_first_stage_makes() {
    let environment = repository();
    let stages = [
        stage("A", "", "echo 1 > lock", "test -s made.log"),
        stage(
            "B",
            "needs = [\"A\"]",
            "cp made.log b",
            "test -s made.log && test -s b",
        ),
    ];
    let head = "[worktree]\nsetup = \"cp lock made.log\"\n\n[[stage]]";
    let plan = plan(&stages).replacen("[[stage]]", head, 1);
    // The first stage's session makes it ready itself.
    let plan = plan.replace("echo 1 > lock", "echo 1 > lock; cp lock made.log");
    environment.write("plan.toml", &plan);
    environment.write(".gitignore", "made.log\n");
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(0);
    assert!(
        said.stdout.contains("A    ! begins without its setup: "),
        "{said}"
    );
    assert!(
        !said.stdout.contains("B    ! begins without its setup: "),
        "{said}"
    );
    let prompt = prompt(&environment, "A", 1);
    assert!(prompt.contains("# Setup\n"), "{prompt}");
    assert!(
        prompt.contains("¦ the worktree's setup `cp lock made.log` failed"),
        "{prompt}"
    );
}

/// Both are validated in the same tree, where the setup ran for A.
// shows: PLN-08
#[test]
fn a_stage_may_change_what_the_setup_makes() {
    let environment = repository();
    let work = |number: u32| format!("echo {number} > lock; cp lock made.log");
    let check = "cmp lock made.log";
    let stages = [
        stage("A", "", &work(1), check),
        stage("B", "needs = [\"A\"]", &work(2), check),
    ];
    let head = "[worktree]\nsetup = \"cp lock made.log\"\n\n[[stage]]";
    let plan = plan(&stages).replacen("[[stage]]", head, 1);
    environment.write("plan.toml", &plan);
    environment.write("lock", "0\n");
    environment.write(".gitignore", "made.log\n");
    environment.commit_all();
    let said = environment.run(&EXECUTE).expect(0);
    assert!(!said.stdout.contains("goes back to be fixed"), "{said}");
    assert_eq!(environment.read("lock"), "2\n");
}

/// As after a power cut, if an agent's own git had not synced it.
// shows: PLN-08, RUN-11
#[test]
fn a_merge_that_git_lost_is_told_with_what_helps() {
    let environment = repository();
    let stages = [
        stage("A", "", "echo a > a", "test -s a"),
        stage("B", "retries = 0\nsessions_max = 1", "true", "test -s b"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    environment.run(&EXECUTE).expect(1);
    let merged = format!("ekiden/{}", environment.runs()[0]);
    let commit = environment.git(&["rev-parse", &merged]);
    let (dir, file) = commit.trim().split_at(2);
    environment.shell(&format!("rm -f .git/objects/{dir}/{file}"));
    let said = environment.run(&["resume"]).expect(74);
    let told = format!(
        "git has lost {}, the commit with all that is merged; merge",
        commit.trim()
    );
    assert!(said.stderr.contains(&told), "{said}");
}

// shows: PLN-03
#[test]
fn what_a_plan_does_not_take_is_not_listed_and_settings_for_runs_do_not_stop_it() {
    let environment = repository();
    environment.write(
        "plan.toml",
        &plan(&[stage("A", "", "echo a > a", "test -s a")]),
    );
    environment.commit_all();
    for command in ["execute", "build"] {
        let help = environment.run(&[command, "--help"]).expect(0).stdout;
        for flag in ["--tui", "--guided", "--branch", "--verify "] {
            let is_listed = help.lines().any(|line| line.trim_start().starts_with(flag));
            assert!(!is_listed, "{command} {flag}");
        }
    }
    let refused = environment
        .run(&[&EXECUTE[..], &["--guided"]].concat())
        .expect(78);
    assert!(
        refused.stderr.contains("`ekiden run` takes it"),
        "{refused}"
    );
    environment
        .run(&["config", "set", "guided", "true"])
        .expect(0);
    let said = environment.run(&EXECUTE).expect(0);
    assert!(
        said.stderr
            .contains("the setting `guided` is for `ekiden run`"),
        "{said}"
    );
}

/// Otherwise a second answer would be lost.
// shows: REL-35
#[test]
fn an_answered_stage_that_waits_for_a_slot_asks_nothing() {
    let environment = repository();
    let go = environment.dir().join("go");
    let wait = format!("while ! test -e {}; do sleep 0.1; done", go.display());
    let stages = [
        stage("A", "", "test -e never", "test -s a"),
        stage("B", "", &format!("{wait}; echo b > b"), "test -s b"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let mut run = environment.start(&[&EXECUTE[..], &["--jobs", "1"]].concat());
    run.wait_for("B  session 1");
    let answer = ["answer", "--stage", "A", "once"];
    let status = environment.run(&answer).expect(0).stdout;
    assert!(status.contains("A  ready"), "{status}");
    assert!(!status.contains("A  asks"), "{status}");
    environment.run(&answer).expect(66);
    environment.write("go", "");
    run.end().expect(4);
    let status = environment.read(".ekiden/status.json");
    assert!(status.contains(r#""status": "paused""#), "{status}");
}

// shows: REL-35
#[test]
fn a_stage_is_answered_while_others_work() {
    let environment = repository();
    let go = environment.dir().join("go");
    let line = format!("test -e {} && echo a > a", go.display());
    let stages = [
        stage("A", "", &line, "test -s a"),
        stage("B", "", "sleep 15; echo b > b", "test -s b"),
        stage("C", "needs = [\"A\"]", "cp a c", "test -s c"),
        stage(
            "D",
            "needs = [{ stage = \"A\", optional = true }, \"B\"]",
            "cp b d",
            "test -s d",
        ),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let mut run = environment.start(&EXECUTE);
    run.wait_for("C  blocked by A");
    let status = environment.run(&["status"]).expect(0).stdout;
    assert!(status.contains("A  asks:\n  - failed: It"), "{status}");
    // An optional need that asks is not over.
    assert!(status.contains("Stage D  by A\n"), "{status}");
    assert!(
        status.contains("in full  .ekiden/handoffs/A.md"),
        "{status}"
    );
    let json = environment.run(&["status", "--json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["runs"][0]["stages"][0]["state"], "asks", "{json}");
    let whole = environment.read(".ekiden/handoffs/A.md");
    assert!(whole.starts_with("# Stage A asks you: "), "{whole}");
    assert!(whole.contains("> - failed: It"), "{whole}");
    assert!(whole.contains("`ekiden answer --stage A"), "{whole}");
    assert!(status.contains("next  ekiden answer --stage A"), "{status}");
    environment
        .run(&["answer", "--stage", "A", "look again"])
        .expect(0);
    let asks = || environment.run(&["status"]).stdout.contains("A  asks:");
    wait_until("the second question", asks);
    environment.write("go", "");
    environment
        .run(&["answer", "--stage", "A", "it is there"])
        .expect(0);
    let said = run.end().expect(0);
    assert!(said.stdout.contains("A  answered: it is there"), "{said}");
    let asked = said.stdout.matches("A  needs your input:\n");
    assert_eq!(asked.count(), 2, "{said}");
    let whole = said.stdout.matches("  - failed: It");
    assert!(whole.count() >= 2, "{said}");
    let at = |line: &str| said.stdout.find(line).unwrap();
    assert!(at("A  session 3") < at("B  done"), "{said}");
    assert_eq!(environment.read("c"), "a\n");
    let result = environment.read(".ekiden/handoffs/A.md");
    assert!(result.starts_with("# Stage A: "), "{result}");
}

/// A resume would begin another session that can only ask the same again.
// shows: REL-35, UIX-03
#[test]
fn a_plan_that_ends_with_a_question_is_shown_with_it_and_with_how_to_answer() {
    for signal in [Signal::KILL, Signal::TERM] {
        let environment = repository();
        let stages = [
            stage("A", "", "false", "test -s a"),
            stage("B", "", "sleep 15; echo b > b", "test -s b"),
        ];
        environment.write("plan.toml", &plan(&stages));
        environment.commit_all();
        let mut run = environment.start(&EXECUTE);
        run.wait_for("A  needs your input");
        run.signal(signal);
        let said = run.end().stdout;
        let next = "to continue:  ekiden answer --stage A";
        assert!(signal == Signal::KILL || said.contains(next), "{said}");
        let status = environment.run(&["status"]).expect(0).stdout;
        assert!(status.contains("A  asks:\n  - failed: It"), "{status}");
        assert!(status.contains("next  ekiden answer --stage A"), "{status}");
    }
}

// shows: PLN-25
#[test]
fn more_untracked_context_than_is_copied_refuses_the_plan() {
    let environment = repository();
    let named = stage(
        "A",
        "context = [\"known\", \"notes\"]",
        "echo a > a",
        "test -s a",
    );
    environment.write("plan.toml", &plan(&[named]));
    let files = |dir: &str, count: u32| {
        environment.shell(&format!(
            "mkdir -p {dir}; for i in $(seq {count}); do : > {dir}/$i; done"
        ));
    };
    files("known", 1_500);
    environment.commit_all();
    // What git knows counts for nothing.
    files("notes", 2_001);
    let shown = environment.run(&[&EXECUTE[..], &["--dry-run"]].concat());
    assert!(
        shown.expect(0).stderr.contains("it could not start now"),
        "also if nothing is started"
    );
    insta::assert_snapshot!(environment.told(&EXECUTE), @r"
    --- standard error
    error: cannot start a plan: `context` of stage A names 2001 untracked files, and at most 2000 are copied into a worktree
    hint: `git add` and commit them, or name fewer; what tools make is for `[worktree] setup`
    --- exit code 78
    ");
    assert!(environment.runs().is_empty());
    environment.shell("rm notes/1");
    environment.run(&EXECUTE).expect(0);
    assert_eq!(environment.read("a"), "a\n");
}

/// A retry whose agent does nothing would else be done by the handoff of the attempt before.
// shows: PLN-12, RUN-12
#[test]
fn a_retry_does_not_find_the_handoff_of_the_attempt_before() {
    let environment = repository();
    let seen = environment.path("seen");
    let look = format!("ls -A .ekiden/handoff > '{}'", seen.display());
    let scenario = format!("[[act]]\nsession = 2\nat = 'prompt'\ndo = {{ sh = \"{look}\" }}\n");
    let more = "retries = 1\nsessions_max = 1";
    environment.write(
        "plan.toml",
        &plan(&[stage("A", more, "echo a > a", "test -e never")]),
    );
    environment.write("scenario.toml", &scenario);
    environment.commit_all();
    let environment = environment.with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    environment.run(&EXECUTE).expect(1);
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "");
}

// shows: RUN-12, PLN-16
#[test]
fn an_unfinished_run_of_an_edited_manifest_is_told_apart() {
    let environment = repository();
    let write = |check: &str| {
        environment.write(
            "plan.toml",
            &plan(&[stage("A", "retries = 0", "true", check)]),
        );
    };
    write("false");
    let args = [&EXECUTE[..], &["-m", "1"]].concat();
    environment.run(&args).expect(1);
    insta::assert_snapshot!(environment.told(&EXECUTE), @r"
    --- standard error
    error: a run of this plan is unfinished here: RUN
    hint: `ekiden resume` continues it
    hint: `--new` starts a new run and keeps that one as it is
    --- exit code 3
    ");
    // Before the plan is at the remote.
    let on_fleet = [&EXECUTE[..], &["--on", "fleet"]].concat();
    assert_eq!(environment.told(&on_fleet), environment.told(&EXECUTE));
    write("true");
    insta::assert_snapshot!(environment.told(&EXECUTE), @r"
    --- standard error
    error: a run of this plan is unfinished here: RUN; its manifest has changed since
    hint: `ekiden resume` continues it with the manifest as it was
    hint: `--new` starts a new run with the manifest as it is now, and keeps that one
    --- exit code 1
    ");
    let resumed = environment.run(&["resume"]).stderr;
    let told = "warning: plan.toml differs from the manifest of this run, which keeps to its own; `ekiden execute plan.toml --new` takes it as it is now\n";
    assert!(resumed.contains(told), "{resumed}");
}

// shows: UIX-02, PLN-13, REL-35
#[test]
fn a_plan_that_ends_early_says_which_stages_failed_ask_and_are_left() {
    let environment = repository();
    let ended = |stages: &[String]| {
        environment.write("plan.toml", &plan(stages));
        environment.commit_all();
        let execute = [&EXECUTE[..], &["--jobs", "1", "--new"]].concat();
        let told = environment.run(&execute).stdout;
        let (_, end) = told.split_once("\n\n").unwrap();
        end.to_owned()
    };
    let asks = |more| stage("A", more, "false", "test -s a");
    let fails = "retries = 0\nsessions_max = 1";
    let fails = stage("B", fails, "echo b > b", "test -s none");
    let told = ended(&[asks(""), fails.clone()]);
    assert!(told.starts_with("failed (1): 1 stage failed, 1 needs your input · "));
    let next = "to continue, once that is repaired:  ekiden answer --stage A\n";
    assert!(told.ends_with(next), "{told}");
    let told = ended(&[asks("on_fail = \"stop\""), fails]);
    assert!(told.starts_with("blocked (4): 1 stage needs your input · "));
    let left = "\n  1 other stage left, since that stops the plan\n";
    assert!(told.contains(left), "{told}");
}

// shows: UIX-02, PLN-13, REL-27
#[test]
fn a_plan_counts_the_items_of_all_its_stages_and_a_skipped_one_asks_nothing() {
    let environment = repository();
    let stages = [
        stage("A", "", "echo a > a", "test -s a"),
        stage("B", "", "echo b > b", "test -s b"),
        stage("C", "on_fail = \"skip\"", "false", "test -s c"),
        stage("D", "", "echo d > d", "test -s d"),
    ];
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let told = environment.run(&[&EXECUTE[..], &["--skip", "D", "--json"]].concat());
    let last = told.expect(0).stdout.lines().last().unwrap().to_owned();
    assert!(last.contains(r#""items_open":1,"items_done":2"#), "{last}");
    let status = environment.run(&["status", "--json"]).expect(0).stdout;
    assert!(status.contains(r#""asked":[]"#), "{status}");
    let report = std::fs::read_to_string(environment.run_dir().join("report.md")).unwrap();
    let done = "- done: 2 of 4 stages, 1 skipped, 1 left out\n";
    assert!(report.contains(done), "{report}");
}
