//! The branch that a run works on, and what is said of the default one.

use crate::environment::{Environment, items};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

fn repository() -> Environment {
    let environment = Environment::with_git();
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    environment.write("file", "of main\n");
    environment.commit_all();
    environment.write("task.md", &items(5));
    environment
}

fn run<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&RUN, args].concat()
}

fn branch(environment: &Environment) -> String {
    environment.git(&["branch", "--show-current"])
}

// shows: RUN-17
#[test]
fn a_run_works_on_its_branch_and_a_resume_goes_back_to_it() {
    let environment = repository();
    environment.write("file", "not committed\n");
    let said = environment
        .run(&run(&["-g", "--branch", "work", "-m", "1"]))
        .expect(3);
    insta::assert_snapshot!(environment.normal(&said), @r#"
    run RUN · relay, at most 1 session · rehearsal, hands off at 60% · task.md
    commits after each session on `work`; 2 files with earlier changes stay out of it
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 5 done
      next      The item "Item 4", with `echo made > item-4.txt`.
      commit    COMMIT, 3 files

    stopped (3): session limit reached after 1 of 1 sessions · TIME · 3 of 5 items done · 2 files not committed
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume -m 1
    --- exit code 3
    "#);
    assert_eq!(branch(&environment), "work\n");
    environment.git(&["switch", "--quiet", "main"]);
    environment.run(&["resume"]).expect(0);
    assert_eq!(branch(&environment), "work\n");
    insta::assert_snapshot!(environment.git(&["log", "--format=%s", "main..work"]), @r"
    ekiden: session 2 checkpoint
    ekiden: session 1 checkpoint
    ");
    assert_eq!(environment.read("file"), "not committed\n");
}

/// A session that checks out another branch is not committed there; the user and the next session are told.
// shows: RUN-17, REL-18
#[test]
fn commits_go_to_the_promised_branch_or_nowhere() {
    let environment = repository();
    let item = |text: &str| format!("- [ ] {text}\n\n  ```sh\n  {text}\n  ```\n");
    let away = item("git switch -q main && echo one > one.txt");
    let between: String = (2..5)
        .map(|n| item(&format!("echo made > {n}.txt")))
        .collect();
    let back = item("git switch -q night && echo two > two.txt");
    environment.write("task.md", &format!("{away}{between}{back}"));
    let said = environment
        .run(&run(&["-g", "--branch", "night"]))
        .expect(0);
    assert!(
        said.stdout.contains(
            "session 1 is not committed: `main` is checked out, and commits of this run go to `night` only"
        ),
        "{said}"
    );
    environment
        .shell("grep -q 'left another branch checked out' .ekiden/runs/*/sessions/2/prompt.md");
    let log = |range: &str| environment.git(&["log", "--format=%s", range]);
    assert!(!log("main").contains("checkpoint"));
    assert_eq!(log("main..night"), "ekiden: session 2 checkpoint\n");
}

// shows: RUN-17
#[test]
fn a_branch_that_a_session_renamed_is_told_as_gone() {
    let environment = repository();
    let item = "- [ ] It\n\n  ```sh\n  git branch -m night other; echo x > made\n  ```\n";
    environment.write("task.md", item);
    let said = environment
        .run(&run(&["-g", "--branch", "night"]))
        .expect(0);
    let told = "session 1 is not committed: its branch `night` is gone; `git switch --create night` makes it again here";
    assert!(said.stdout.contains(told), "{said}");
}

// shows: RUN-17
#[test]
fn a_resume_does_not_make_a_branch_anew_or_work_on_another_in_silence() {
    let environment = repository();
    environment
        .run(&run(&["-g", "--branch", "work", "-m", "1"]))
        .expect(3);
    let last = environment.git(&["rev-parse", "HEAD"]);
    environment.shell("git switch -q main; git branch -qD work");
    let said = environment.run(&["resume"]).expect(78);
    let told = format!(
        "cannot switch to branch `work`: it is gone; `git branch work {}` brings it back",
        last.trim()
    );
    assert!(said.stderr.contains(&told), "{said}");
    environment.git(&["branch", "work", last.trim()]);
    environment.run(&["resume"]).expect(0);

    let environment = repository();
    environment.git(&["switch", "-qc", "work"]);
    environment.run(&run(&["-g", "-m", "1"])).expect(3);
    environment.git(&["switch", "-q", "main"]);
    let said = environment.run(&["resume"]).expect(0);
    let told = "warning: this run began on `work`, and `main` is checked out now\n";
    assert!(said.stderr.contains(told), "{said}");
}

/// A session that ends in a rebase leaves no branch checked out. A resume goes on, as the run would have.
// shows: RUN-17, DUR-01
#[test]
fn a_resume_goes_on_where_a_session_left_a_rebase_under_way() {
    let environment = repository();
    let item = |text: &str| format!("- [ ] Item\n\n  ```sh\n  {text}\n  ```\n");
    let rebase = item(
        "echo a > n; git add n; git commit -qm a; echo b > n; git commit -qam b; \
         GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~2 || true",
    );
    let between = item("true").repeat(3);
    let goes_on = "GIT_EDITOR=true git rebase --continue";
    let back = item(&format!("{goes_on}; {goes_on}"));
    environment.write("task.md", &format!("{rebase}{between}{back}"));
    environment
        .run(&run(&["-g", "--branch", "night", "-m", "1"]))
        .expect(3);
    assert_eq!(branch(&environment), "");
    let said = environment.run(&["resume", "-m", "1"]).expect(0);
    let refused = "warning: cannot switch to branch `night`: cannot switch branch while rebasing";
    assert!(said.stderr.contains(refused), "{said}");
    assert_eq!(branch(&environment), "night\n");
}

/// Where the user named no branch, what is checked out counts.
// shows: REL-18
#[test]
fn a_commit_on_another_branch_than_at_the_start_is_told() {
    let environment = repository();
    let item = "- [ ] It\n\n  ```sh\n  git switch -q --create other; echo x > made\n  ```\n";
    environment.write("task.md", item);
    let said = environment.run(&run(&["-g"])).expect(0);
    let told = said.stdout.lines().find(|line| line.contains("  commit  "));
    assert!(
        told.is_some_and(|line| line.ends_with(", 1 file, on `other`")),
        "{said}"
    );
}

// shows: RUN-17
#[test]
fn a_branch_that_is_there_is_taken() {
    let environment = repository();
    environment.git(&["branch", "work"]);
    environment.run(&run(&["-g", "--branch", "work"])).expect(0);
    assert_eq!(
        environment.git(&["rev-list", "--count", "main..work"]),
        "2\n"
    );
}

// shows: RUN-17
#[test]
fn a_branch_that_cannot_be_taken_is_told_before_anything_is_created() {
    let environment = repository();
    environment.shell(
        "git switch -qc work; echo other > file; git commit -qam other; git switch -q main; echo mine > file",
    );
    let told = |args: &[&str]| {
        let said = environment.told(&run(args));
        assert_eq!(branch(&environment), "main\n");
        assert!(
            !environment.exists(".ekiden") && !environment.exists(".git/ekiden"),
            "{said}"
        );
        said
    };
    insta::assert_snapshot!(told(&["--branch", "work"]), @r"
    --- standard error
    error: cannot switch to branch `work`: it would overwrite file, which is not committed
    hint: resolve that, or switch branches yourself; `git stash` puts changes aside
    --- exit code 78
    ");
    insta::assert_snapshot!(told(&["--branch", "-x y"]), @r"
    --- standard error
    error: cannot work on branch `-x y`: that cannot be a branch's name
    hint: name one such as `migrate`
    --- exit code 78
    ");
    environment.shell("echo 'of main' > file; git worktree add -q ../tree work");
    insta::assert_snapshot!(told(&["--branch", "work"]), @r"
    --- standard error
    error: cannot switch to branch `work`: it is checked out in ROOT/tree
    hint: resolve that, or switch branches yourself; `git stash` puts changes aside
    --- exit code 78
    ");
    environment.shell("git worktree remove --force ../tree; git rev-parse HEAD > .git/MERGE_HEAD");
    insta::assert_snapshot!(told(&["--branch", "work"]), @r"
    --- standard error
    error: cannot switch to branch `work`: a merge is under way
    hint: resolve that, or switch branches yourself; `git stash` puts changes aside
    --- exit code 78
    ");
    environment.shell("rm .git/MERGE_HEAD");
    environment.run(&run(&["--branch", "work"])).expect(0);
    assert_eq!(branch(&environment), "work\n");
}

/// As where git-lfs is set up and not installed.
// shows: RUN-17
#[test]
fn a_hook_that_fails_behind_a_switch_stops_no_run() {
    let environment = repository();
    environment.script(".git/hooks/post-checkout", "exit 2\n");
    environment.run(&run(&["-g", "--branch", "work"])).expect(0);
    assert_eq!(branch(&environment), "work\n");
}

// shows: RUN-17
#[test]
fn a_branch_is_not_taken_for_one_below_its_name() {
    let environment = repository();
    environment.git(&["branch", "feat/login"]);
    let said = environment.told(&run(&["--branch", "feat"]));
    assert!(said.contains("'refs/heads/feat/login' exists"), "{said}");
}

// shows: RUN-17
#[test]
fn the_default_branch_is_warned_of_once() {
    let warnings = |environment: &Environment, args: &[&str]| {
        let said = environment
            .run(&run(&[args, &["--new"]].concat()))
            .expect(0);
        said.stderr
    };
    let environment = repository();
    insta::assert_snapshot!(warnings(&environment, &["-g"]), @"warning: this run commits on the default branch `main`; use `--branch NAME` for another");
    insta::assert_snapshot!(warnings(&environment, &["--skip-permissions"]), @"warning: the agent may do everything without asking on the default branch `main`; use `--branch NAME` for another");
    insta::assert_snapshot!(warnings(&environment, &["-g", "--skip-permissions"]), @"warning: this run commits, and the agent may do everything without asking, on the default branch `main`; use `--branch NAME` for another");
    assert_eq!(warnings(&environment, &[]), "");
    assert_eq!(warnings(&environment, &["-g", "--branch", "work"]), "");
    environment.git(&["switch", "--quiet", "--detach"]);
    insta::assert_snapshot!(warnings(&environment, &["-g"]), @"warning: this run commits on no branch (detached HEAD); use `--branch NAME` to create one");
}

// shows: RUN-17
#[test]
fn the_remote_says_which_branch_is_the_default_one() {
    let environment = repository();
    environment.git(&["update-ref", "refs/remotes/origin/trunk", "HEAD"]);
    environment.git(&[
        "symbolic-ref",
        "refs/remotes/origin/HEAD",
        "refs/remotes/origin/trunk",
    ]);
    assert_eq!(environment.run(&run(&["-g"])).expect(0).stderr, "");
    environment.git(&["switch", "--quiet", "--create", "trunk"]);
    insta::assert_snapshot!(environment.run(&run(&["-g"])).expect(0).stderr, @"warning: this run commits on the default branch `trunk`; use `--branch NAME` for another");
}
