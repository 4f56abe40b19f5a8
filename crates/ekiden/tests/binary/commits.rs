//! Commits after sessions, in repositories as they are.

use std::path::Path;

use crate::environment::{Environment, items};
use crate::processes::expect_nothing_alive;
use crate::running::wait_until;
use rustix::process::Signal;

const RUN: [&str; 5] = ["run", "task.md", "--agent", "rehearsal", "-g"];

/// A repository whose owner is known to git.
fn repository() -> Environment {
    let environment = Environment::with_git();
    identify(&environment);
    environment
}

fn identify(environment: &Environment) {
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
}

/// A task whose only item does this.
fn item(line: &str) -> String {
    format!("Do it.\n\n- [ ] It\n\n  ```sh\n  {line}\n  ```\n")
}

/// The commits after the first, oldest first, with their files.
fn commits(environment: &Environment) -> String {
    environment.git(&[
        "log",
        "--reverse",
        "--format=%s",
        "--name-only",
        "--diff-merges=first-parent",
    ])
}

fn status(environment: &Environment) -> String {
    environment.git(&["status", "--short"])
}

fn hook(environment: &Environment, name: &str, text: &str) {
    environment.script(&format!(".git/hooks/{name}"), text);
}

/// A session that committed all it did has not changed nothing.
#[test]
fn what_a_session_committed_is_measured_for_the_next() {
    let environment = repository();
    environment.write("task.md", &items(5));
    environment.run(&RUN).expect(0);
    let prompt = environment.kept(2, "prompt.md");
    assert!(
        prompt.contains(" come last:\n¦ A item-1.txt\n¦ A item-2.txt\n"),
        "{prompt}"
    );
}

// shows: REL-18
#[test]
fn a_hook_that_hangs_is_shown_while_it_hangs() {
    let environment = repository();
    environment.write("task.md", &items(1));
    environment.commit_all();
    hook(&environment, "pre-commit", "#!/bin/sh\nsleep 17\n");
    let said = environment.run(&RUN).expect(0);
    assert!(
        said.stderr
            .contains("`git commit` has taken 15s and is ended after 10m"),
        "{said}"
    );
    assert!(commits(&environment).contains("session 1 checkpoint"));
}

/// What a person does after a run is not the work of its follow-up.
// shows: REL-18
#[test]
fn follow_up_work_leaves_what_was_changed_since_out_of_its_commits() {
    let environment = repository();
    environment.write("task.md", &items(1));
    environment.write("mine.txt", "one\n");
    environment.commit_all();
    environment.run(&RUN).expect(0);
    environment.write("mine.txt", "two\n");
    environment.write("new.txt", "a note\n");
    environment.write("more.md", &item("echo x > made.txt"));
    let said = environment.run(&["continue", "-f", "more.md"]).expect(0);
    assert!(
        said.stdout
            .contains("commits after each session; 3 files with earlier changes stay out of it"),
        "{said}"
    );
    let last = environment.git(&["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(last.trim(), "made.txt");
    assert_eq!(status(&environment).lines().count(), 3, "{said}");

    // What a hook refused is the run's own work.
    hook(&environment, "pre-commit", "#!/bin/sh\nexit 1\n");
    environment.write("more.md", &item("echo x > refused.txt"));
    environment.run(&["continue", "-f", "more.md"]).expect(0);
    hook(&environment, "pre-commit", "#!/bin/sh\n");
    environment.write("more.md", &item("echo x > last.txt"));
    environment.run(&["continue", "-f", "more.md"]).expect(0);
    let last = environment.git(&["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(last.trim(), "last.txt\nrefused.txt");
}

// shows: REL-18
#[test]
fn each_session_is_committed_and_what_was_there_before_is_not() {
    let environment = repository();
    environment.write("task.md", &items(5));
    let said = environment.run(&RUN).expect(0);
    insta::assert_snapshot!(environment.normal(&said), @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    commits after each session; 1 file with earlier changes stays out of it
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 5 done
      next      The item "Item 4", with `echo made > item-4.txt`.
      commit    COMMIT, 3 files
    session 2 · CLOCK
      USAGE  says all is done after TIME · 4 tool calls
      items     5 of 5 done
      commit    COMMIT, 2 files

    complete (not verified) · 2 sessions · TIME · 1 file not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- standard error
    warning: this run commits on the default branch `main`; use `--branch NAME` for another
    --- exit code 0
    "#);
    insta::assert_snapshot!(commits(&environment), @r"
    begin
    ekiden: session 1 checkpoint

    item-1.txt
    item-2.txt
    item-3.txt
    ekiden: session 2 checkpoint

    item-4.txt
    item-5.txt
    ");
    insta::assert_snapshot!(status(&environment), @"?? task.md");
    let run = &environment.runs()[0];
    let trailers = environment.git(&["log", "--format=%(trailers:key=Ekiden-Effect,valueonly)"]);
    let trailers: Vec<&str> = trailers.split_whitespace().collect();
    assert!(
        trailers.len() == 2 && trailers.iter().all(|effect| effect.starts_with(run)),
        "{trailers:?}"
    );
    assert!(trailers[0] != trailers[1]);
}

/// `git hash-object` would read what a link leads to, such as a device without an end.
// shows: REL-18
#[test]
fn what_a_link_leads_to_is_not_read() {
    let real = std::env::var("PATH").unwrap_or_default();
    let environment = repository();
    let asked = environment.path("asked");
    let git = format!(
        "echo \"$*\" >> {}\nPATH=${{PATH#*:}} exec git \"$@\"\n",
        asked.display()
    );
    environment.script("../bin/git", &git);
    environment.shell("mkdir inner; echo x > new; ln -s new link; ln -s inner dir");
    let path = format!("{}:{real}", environment.path("bin").display());
    let environment = environment.with("PATH", &path);
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    let asked = std::fs::read_to_string(asked).unwrap();
    let hashed = asked.lines().filter(|line| line.contains("hash-object"));
    let hashed: Vec<&str> = hashed.collect();
    assert!(hashed.iter().any(|line| line.contains("new")), "{asked}");
    let is_link = |line: &&&str| line.contains("link") || line.contains("dir");
    assert_eq!(hashed.iter().find(is_link), None);
}

// shows: REL-18, RUN-17
#[test]
fn a_dirty_tree_is_not_mixed_into_commits() {
    let environment = repository();
    for name in ["staged", "changed", "both", "deleted", "kept"] {
        environment.write(name, "committed\n");
    }
    environment.commit_all();
    for name in ["staged", "changed", "both", "note"] {
        environment.write(name, "mine\n");
    }
    environment.shell("rm deleted; git add staged; mkdir deep; echo mine > deep/note");
    let work =
        "for file in both kept new; do echo its >> $file; done; mkdir -p deep; echo its > deep/new";
    environment.write("task.md", &item(work));
    let said = environment.run(&RUN).expect(0);
    insta::assert_snapshot!(environment.normal(&said), @r"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    commits after each session; 7 files with earlier changes stay out of it
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 3 tool calls
      items     1 of 1 done
      commit    COMMIT, 3 files
      ! not committed, since they had changes before the run, cannot be read, fail in a git filter, or are submodules left behind: both

    complete (not verified) · 1 session · TIME · 7 files not committed
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- standard error
    warning: this run commits on the default branch `main`; use `--branch NAME` for another
    --- exit code 0
    ");
    insta::assert_snapshot!(commits(&environment), @r"
    begin
    begin

    both
    changed
    deleted
    kept
    staged
    ekiden: session 1 checkpoint

    deep/new
    kept
    new
    ");
    insta::assert_snapshot!(status(&environment), @r"
     M both
     M changed
     D deleted
    M  staged
    ?? deep/note
    ?? note
    ?? task.md
    ");
    assert_eq!(environment.git(&["show", ":staged"]), "mine\n");
}

/// A stash that was popped into a conflict, which the session resolves.
// shows: REL-18, RUN-17
#[test]
fn a_conflict_from_before_the_run_stays_out_of_commits_once_it_is_resolved() {
    let environment = repository();
    environment.write("mine", "one\n");
    environment.commit_all();
    environment.shell(
        "echo mine > mine; git stash -q; echo two > mine; git commit -qam two; ! git stash pop -q",
    );
    environment.write(
        "task.md",
        &item("echo both > mine; git add mine; echo x > made"),
    );
    let said = environment.run(&RUN).expect(0);
    assert!(said.stdout.contains("left behind: mine"), "{said}");
    let last = environment.git(&["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(last, "made\n");
    assert_eq!(status(&environment), "M  mine\n?? task.md\n");
}

// shows: REL-18
#[test]
fn a_conflict_that_a_session_leaves_is_not_committed_as_it_is() {
    let environment = repository();
    environment.write("file", "one\n");
    environment.commit_all();
    environment.write(
        "task.md",
        &item("echo its > file; git stash -q; echo two > file; git commit -qam two; git stash pop -q || true"),
    );
    let said = environment.run(&RUN).expect(0);
    let why = "session 1 is not committed: `file` has conflicts that are not resolved";
    assert!(said.stdout.contains(why), "{said}");
    assert_eq!(status(&environment), "UU file\n?? task.md\n");
}

/// A pipe in a file's place, as root reads every file.
// shows: REL-18
#[test]
fn what_git_cannot_read_keeps_nothing_else_out_of_a_commit() {
    let environment = repository();
    environment.write("file", "one\n");
    environment.write("task.md", &item("rm file; mkfifo file; echo x > made"));
    environment.commit_all();
    let said = environment.run(&RUN).expect(0);
    assert!(said.stdout.contains("left behind: file"), "{said}");
    let last = environment.git(&["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(last, "made\n");
}

// shows: RUN-17
#[test]
fn what_the_person_commits_meanwhile_is_a_file_like_any_other() {
    let environment = repository();
    environment.write("mine", "mine\n");
    environment.write(
        "task.md",
        &item("git commit --quiet -m mine mine || git add mine && git commit -qm mine; echo its >> mine"),
    );
    environment.run(&RUN).expect(0);
    insta::assert_snapshot!(commits(&environment), @r"
    begin
    mine

    mine
    ekiden: session 1 checkpoint

    mine
    ");
}

/// Git tells a hook of a commit who made it, and when.
// shows: REL-18
#[test]
fn a_run_that_a_hook_starts_commits_under_its_users_name() {
    let environment = repository();
    environment.write("task.md", &items(1));
    let run = format!(
        "[ -e made ] || {{ touch made; {} {} > /dev/null 2>&1; }}\n",
        env!("CARGO_BIN_EXE_ekiden"),
        RUN.join(" ")
    );
    hook(&environment, "post-commit", &run);
    environment.git(&["add", "task.md"]);
    let date = "--date=2001-02-03T04:05:06Z";
    environment.git(&["commit", "-qm", "x", "--author=Other <o@x>", date]);
    let names = environment.git(&["log", "-2", "--format=%an %as"]);
    let names: Vec<&str> = names.lines().collect();
    assert!(names[0].starts_with("Test 20"), "{names:?}");
    assert!(!names[0].ends_with(" 2001-02-03"), "{names:?}");
    assert_eq!(names[1], "Other 2001-02-03");
}

// shows: REL-18
#[test]
fn a_hook_that_refuses_is_a_warning_and_leaves_no_trace() {
    let environment = repository();
    hook(
        &environment,
        "pre-commit",
        "echo checking\nseq 9\necho 'line 3: no tabs' >&2\nexit 3\n",
    );
    environment.write("task.md", &items(1));
    let said = environment.run(&RUN).expect(0);
    insta::assert_snapshot!(environment.normal(&said), @r"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    commits after each session; 1 file with earlier changes stays out of it
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 3 tool calls
      items     1 of 1 done
      ! session 1 is not committed: a hook refused it
        checking
        1
        …
        8
        9
        line 3: no tabs

    complete (not verified) · 1 session · TIME · 2 files not committed
    problems   1 session not committed (session 1)
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- standard error
    warning: this run commits on the default branch `main`; use `--branch NAME` for another
    --- exit code 0
    ");
    assert_eq!(status(&environment), "?? item-1.txt\n?? task.md\n");
}

/// A hook such as commitlint, which wants its own kind of subject.
// shows: REL-18
#[test]
fn a_hook_that_refuses_the_message_gets_another_subject_from_the_settings() {
    let environment = repository();
    let lint = "head -1 \"$1\" | grep -q '^chore(loop): [a-z]' || { echo no type >&2; exit 1; }\n";
    hook(&environment, "commit-msg", lint);
    environment.write("task.md", &items(5));
    let said = environment.run(&RUN).expect(0);
    assert!(
        said.stdout.contains(
            "! session 1 is not committed: the `commit-msg` hook refused ekiden's message; give it another form in the settings, such as `commit_subject = \"chore: {subject}\"`\n    no type\n"
        ),
        "{said}"
    );
    environment.write("task.md", &items(6));
    let settings = "commit_subject = \"chore(loop): {subject}\"\n";
    environment.write(".ekiden/config.toml", settings);
    environment
        .run(&["run", "task.md", "--agent", "rehearsal", "-g"])
        .expect(0);
    let subject = environment.git(&["log", "-1", "--format=%s"]);
    assert!(
        subject.starts_with("chore(loop): ekiden: session "),
        "{subject}"
    );
}

// shows: REL-18
#[test]
fn the_next_session_reads_what_a_hook_said() {
    let environment = repository();
    let text = "echo 'line 3: no tabs' >&2\n[ -e item-4.txt ]\n";
    hook(&environment, "pre-commit", text);
    environment.write("task.md", &items(9));
    environment.run(&RUN).expect(0);
    let prompts = [1, 2, 3].map(|session| environment.kept(session, "prompt.md"));
    let told = prompts.map(|prompt| prompt.contains("# What the hook said\n\n¦ line 3: no tabs\n"));
    assert_eq!(told, [false, true, false]);
    assert_eq!(status(&environment), "?? task.md\n");
}

// shows: REL-18
#[test]
fn a_hook_that_mends_files_is_heeded() {
    let environment = repository();
    hook(
        &environment,
        "pre-commit",
        "echo mended > item-1.txt; echo 1.1 > version; echo made > gen\ngit add item-1.txt version gen\n",
    );
    environment.write("version", "1.0\n");
    environment.git(&["add", "version"]);
    environment.git(&["commit", "--quiet", "--no-verify", "-m", "version"]);
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    let last = environment.git(&["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(last, "gen\nitem-1.txt\nversion\n");
    assert_eq!(environment.git(&["show", "HEAD:item-1.txt"]), "mended\n");
    assert_eq!(status(&environment), "?? task.md\n");
}

// shows: REL-18
#[test]
fn only_the_work_dirs_subtree_is_committed_in_a_linked_worktree_too() {
    let environment = repository();
    environment.write("apps/web/old", "committed\n");
    environment.write("apps/api/old", "committed\n");
    environment.commit_all();
    environment.git(&["worktree", "add", "--quiet", "-b", "other", "../tree"]);
    environment.write(
        "task.md",
        &item("echo its > ../api/old; echo its > old; echo its > new"),
    );
    let args = [&RUN[..], &["-d", "../tree/apps/web"]].concat();
    environment.run(&args).expect(0);
    let there = |args: &[&str]| environment.git(&[&["-C", "../tree"], args].concat());
    insta::assert_snapshot!(there(&["show", "--format=%s", "--name-only"]), @r"
    ekiden: session 1 checkpoint

    apps/web/new
    apps/web/old
    ");
    assert_eq!(there(&["status", "--short"]), " M apps/api/old\n");
    assert_eq!(
        environment.git(&["log", "--format=%s", "main"]),
        "begin\nbegin\n"
    );
}

// shows: REL-18
#[test]
fn what_lies_outside_of_a_sparse_checkout_is_committed_too() {
    let environment = repository();
    environment.shell("mkdir a b && echo a > a/f && echo b > b/f");
    environment.write(
        "task.md",
        &item("echo more >> a/f; mkdir docs; echo new > docs/new"),
    );
    environment.commit_all();
    environment.git(&["sparse-checkout", "set", "--cone", "a"]);
    environment.run(&RUN).expect(0);
    let commits = commits(&environment);
    assert!(
        commits.contains("checkpoint\n\na/f\ndocs/new\n"),
        "{commits}"
    );
    assert_eq!(environment.git(&["ls-files", "b/f"]), "b/f\n");
}

// shows: REL-18
#[test]
fn a_file_that_became_a_directory_is_committed_with_what_is_in_it() {
    let environment = repository();
    environment.write("conf", "one\n");
    environment.write("link", "two\n");
    environment.commit_all();
    environment.write(".git/info/exclude", "ignored\n");
    let change = "rm conf link && mkdir conf link && echo a > conf/a && echo b > link/ignored";
    environment.write("task.md", &item(change));
    environment.run(&RUN).expect(0);
    insta::assert_snapshot!(environment.git(&["log", "-1", "--format=%s", "--name-status"]), @r"
    ekiden: session 1 checkpoint

    D	conf
    A	conf/a
    ");
    insta::assert_snapshot!(status(&environment), @r"
     D link
    ?? task.md
    ");
}

// shows: REL-18
#[test]
fn a_directory_that_became_a_link_is_committed_as_one() {
    let environment = repository();
    environment.shell("mkdir docs && echo a > docs/a");
    environment.commit_all();
    environment.write("task.md", &item("mv docs pages && ln -s pages docs"));
    environment.run(&RUN).expect(0);
    let committed = ["log", "-1", "--format=%s", "--no-renames", "--name-status"];
    insta::assert_snapshot!(environment.git(&committed), @r"
    ekiden: session 1 checkpoint

    A	docs
    D	docs/a
    A	pages/a
    ");
    assert_eq!(status(&environment), "?? task.md\n");
}

// shows: CHK-004
#[test]
fn a_checkpoint_holds_a_link_in_a_directorys_place_and_what_is_outside_of_a_sparse_checkout() {
    let environment = repository();
    environment.shell("mkdir docs && echo a > docs/a");
    environment.commit_all();
    environment.shell("git sparse-checkout set docs; mv docs pages && ln -s pages docs");
    environment.run(&["checkpoint"]).expect(0);
    let kept = environment.git(&["ls-tree", "-r", "--name-only", "refs/ekiden/wip/manual"]);
    assert_eq!(kept, "docs\npages/a\n");
}

// shows: REL-18
#[test]
fn a_file_that_was_only_taken_out_of_git_is_not_put_back() {
    let environment = repository();
    environment.write(".env", "PORT=1\n");
    environment.commit_all();
    let change = "git rm -q --cached .env && echo .env > .gitignore";
    environment.write("task.md", &item(change));
    environment.run(&RUN).expect(0);
    assert!(commits(&environment).ends_with("checkpoint\n\n.gitignore\n"));
    assert_eq!(status(&environment), "D  .env\n?? task.md\n");
}

// shows: REL-18
#[test]
fn a_submodules_new_commit_is_taken_and_a_repository_inside_is_not() {
    let environment = repository();
    environment.shell(
        "git init -q module && cd module && git -c user.name=a -c user.email=b commit -qm one --allow-empty",
    );
    environment.commit_all();
    let inside = "git -c user.name=a -c user.email=b commit -q --allow-empty -m two";
    environment.write(
        "task.md",
        &item(&format!(
            "(cd module && {inside}); git init -q nested && (cd nested && {inside})"
        )),
    );
    let said = environment.run(&RUN).expect(0);
    insta::assert_snapshot!(commits(&environment), @r"
    begin
    begin

    module
    ekiden: session 1 checkpoint

    module
    ");
    assert_eq!(status(&environment), "?? nested/\n?? task.md\n");
    let told = "! not committed, since they are repositories or have over 1,000 new files";
    assert!(said.stdout.contains(told), "{said}");
    // It is told once.
    environment.write("more.md", &item("true"));
    let said = environment.run(&["continue", "more.md"]).expect(0);
    assert!(!said.stdout.contains("nested/"), "{said}");
}

// shows: REL-18
#[test]
fn a_file_whose_filter_is_missing_keeps_out_only_itself() {
    let environment = repository();
    environment.write(".gitattributes", "data/*.bin filter=missing\n");
    environment.commit_all();
    environment.git(&["config", "filter.missing.required", "true"]);
    environment.git(&["config", "filter.missing.clean", "no-such-program"]);
    let work = "mkdir -p data && echo a > data/a.bin && echo a > data/a.txt";
    environment.write("task.md", &item(work));
    let said = environment.run(&RUN).expect(0);
    assert!(commits(&environment).ends_with("checkpoint\n\ndata/a.txt\n"));
    assert_eq!(status(&environment), "?? data/a.bin\n?? task.md\n");
    assert!(said.stdout.contains("data/a.bin"), "{said}");
}

// shows: REL-18
#[test]
fn a_bare_repository_is_told_in_words() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    environment.git(&["init", "--quiet", "--bare", "bare"]);
    let said = environment.run(&[&RUN[..], &["--work-dir", "bare"]].concat());
    assert!(
        said.stderr
            .contains("this is a bare repository, without files; work in"),
        "{said}"
    );
}

// shows: REL-18
#[test]
fn a_submodule_that_git_hides_is_committed_and_counted() {
    let environment = repository();
    let commit = "git -c user.name=a -c user.email=b commit -q --allow-empty -m";
    environment.shell(&format!("git init -q module && cd module && {commit} one"));
    let hidden = "[submodule \"m\"]\n\tpath = module\n\turl = ./m\n\tignore = all\n";
    environment.write(".gitmodules", hidden);
    environment.commit_all();
    environment.write("task.md", &item(&format!("cd module && {commit} two")));
    let said = environment.run(&RUN).expect(0);
    assert!(said.stdout.contains(", 1 file\n"), "{said}");
}

/// A merge leaves submodules alone. Committing what is checked out in one would undo what the merge brought.
// shows: REL-18
#[test]
fn a_submodule_that_a_merge_left_behind_is_committed_only_where_it_was_added() {
    let environment = repository();
    let commit = "git -c user.name=a -c user.email=b commit -q --allow-empty -m";
    environment.shell(&format!("git init -q module && cd module && {commit} one"));
    environment.commit_all();
    environment.shell(&format!(
        "git switch -qc newer && (cd module && {commit} two) && git commit -qam newer && git switch -q main \
         && cd module && git reset -q --hard HEAD~"
    ));
    let newer = environment.git(&["rev-parse", "newer:module"]);
    environment.write("task.md", &item("git merge -q newer && echo a > a"));
    let said = environment.run(&RUN).expect(0);
    assert_eq!(environment.git(&["rev-parse", "HEAD:module"]), newer);
    assert_eq!(status(&environment), " M module\n?? task.md\n");
    assert!(said.stdout.contains("module"), "{said}");
    environment.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    environment.write("task.md", &item("git merge -q newer && git add module"));
    environment.run(&[&RUN[..], &["--new"]].concat()).expect(0);
    assert_ne!(environment.git(&["rev-parse", "HEAD:module"]), newer);
}

/// `git rm` takes no paths from standard input below the repository's root.
// shows: REL-18
#[test]
fn what_a_hook_refuses_is_not_left_in_the_index_in_a_subdirectory_either() {
    let environment = repository();
    environment.script(".git/hooks/pre-commit", "exit 1");
    environment.shell("mkdir web");
    environment.write("task.md", &item("echo a > a"));
    environment.run(&[&RUN[..], &["--work-dir", "web"]].concat());
    assert_eq!(status(&environment), "?? task.md\n?? web/\n");
}

// shows: REL-18
#[test]
fn a_file_with_the_name_of_a_revision_is_committed() {
    let environment = repository();
    environment.write("task.md", &item("echo made > HEAD"));
    let said = environment.run(&RUN).expect(0);
    assert!(said.stdout.contains(", 1 file\n"), "{said}");
}

// shows: REL-18
#[test]
fn the_first_commit_of_a_repository_can_be_ours() {
    let environment = Environment::new();
    environment.git(&["init", "--quiet", "--initial-branch=main"]);
    identify(&environment);
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    insta::assert_snapshot!(commits(&environment), @r"
    ekiden: session 1 checkpoint

    item-1.txt
    ");
}

// shows: REL-18
#[test]
fn nothing_is_committed_into_a_merge_or_without_a_name() {
    let told = |environment: &Environment| {
        environment.write("task.md", &items(1));
        let said = environment.normal(&environment.run(&RUN).expect(0));
        assert_eq!(commits(environment).lines().count(), 1, "{said}");
        said.lines()
            .filter(|line| line.contains("is not committed"))
            .collect::<String>()
    };
    let environment = repository();
    environment.shell("git rev-parse HEAD > .git/MERGE_HEAD");
    insta::assert_snapshot!(told(&environment), @"  ! session 1 is not committed: a merge is under way");
    let environment = repository();
    environment.shell("mkdir .git/rebase-merge");
    insta::assert_snapshot!(told(&environment), @"  ! session 1 is not committed: a rebase is under way");
    let environment = repository();
    environment.shell("git bisect start");
    insta::assert_snapshot!(told(&environment), @"  ! session 1 is not committed: a bisect is under way");
    let environment = Environment::with_git();
    environment.git(&["config", "user.useConfigOnly", "true"]);
    insta::assert_snapshot!(told(&environment), @"  ! session 1 is not committed: git has no name and email for you; set them: `git config --global user.name NAME`, `git config --global user.email ADDRESS`");
}

// shows: REL-18
#[test]
fn a_locked_repository_is_waited_for() {
    let environment = repository();
    environment.write("task.md", &items(1));
    environment.write(".git/index.lock", "");
    let run = environment.start(&RUN);
    wait_until("the commit", || {
        !environment.runs().is_empty()
            && environment
                .log()
                .iter()
                .any(|record| record.to_string().contains(r#""commit","session""#))
    });
    std::fs::remove_file(environment.dir().join(".git/index.lock")).unwrap();
    run.end().expect(0);
    insta::assert_snapshot!(commits(&environment), @r"
    begin
    ekiden: session 1 checkpoint

    item-1.txt
    ");
}

// shows: REL-18
#[test]
fn a_repository_that_stays_locked_is_left_alone_with_a_warning() {
    let environment = repository();
    environment.write("task.md", &items(1));
    environment.write(".git/index.lock", "");
    let said = environment.run(&RUN).expect(0);
    insta::assert_snapshot!(environment.normal(&said), @r"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    commits after each session; 1 file with earlier changes stays out of it
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 3 tool calls
      items     1 of 1 done
      ! session 1 is not committed: another process has locked the repository; if no git is at work there, `rm PROJECT/.git/index.lock` unlocks it

    complete (not verified) · 1 session · TIME · 2 files not committed
    problems   1 session not committed (session 1)
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- standard error
    warning: this run commits on the default branch `main`; use `--branch NAME` for another
    --- exit code 0
    ");
}

// shows: REL-18
#[test]
fn without_a_repository_a_typed_flag_is_an_error_and_a_setting_is_not() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    insta::assert_snapshot!(environment.told(&RUN), @r"
    --- standard error
    error: cannot commit: the work dir is not in a git repository
    hint: `git init` creates one; if there is a `.git`, `git status` says what is wrong with it
    hint: without `--git-commit` the run needs none
    --- exit code 78
    ");
    assert!(!environment.exists(".ekiden"));
    let environment = environment
        .with("EKIDEN_GIT_COMMIT", "true")
        .with("EKIDEN_BRANCH", "work");
    let said = environment.run(&RUN[..4]).expect(0);
    insta::assert_snapshot!(said.stderr, @r"
    warning: cannot commit: the work dir is not in a git repository
    warning: cannot work on a branch: the work dir is not in a git repository
    ");
}

/// A hook that takes a minute when it runs for the first time, and then makes the file `.git/in-hook`.
const SLOW: &str = "[ -e .git/in-hook ] || { touch .git/in-hook; sleep 60; }\n";

/// One commit for each session, each with a trailer of its own, and nothing left behind.
fn expect_each_once(environment: &Environment, sessions: u32) {
    let expected: Vec<String> = (1..=sessions)
        .map(|session| format!("ekiden: session {session} checkpoint"))
        .collect();
    let subjects = environment.git(&["log", "--reverse", "--format=%s"]);
    assert_eq!(subjects.lines().skip(1).collect::<Vec<_>>(), expected);
    assert_eq!(status(environment), "?? task.md\n");
    assert!(!Path::new(&environment.dir().join(".git/index.lock")).exists());
}

// shows: REL-18, DUR-01, DUR-03
#[test]
fn killed_in_the_middle_of_a_commit_it_is_made_once() {
    for (name, when) in [
        ("pre-commit", ""),
        ("commit-msg", ""),
        // HEAD is moved, and the index is not written yet.
        (
            "reference-transaction",
            "[ $1 = committed ] && grep -q HEAD || exit 0\n",
        ),
        ("post-commit", ""),
    ] {
        let environment = repository();
        environment.write("task.md", &items(5));
        hook(&environment, name, &format!("{when}{SLOW}"));
        let run = environment.start(&RUN);
        wait_until("the hook", || environment.exists(".git/in-hook"));
        run.signal(Signal::KILL);
        run.end().expect(137);
        expect_nothing_alive(&environment);
        // There is something to commit, whether the first commit was made or not.
        environment.write("meanwhile.txt", "mine\n");
        environment.run(&["resume"]).expect(0);
        expect_each_once(&environment, 2);
        let made = environment
            .log()
            .iter()
            .filter(|r| r["event"]["event"]["outcome"]["kind"] == "committed")
            .count();
        assert_eq!(made, 2, "{name}");
    }
}

// shows: REL-18
#[test]
fn a_stop_does_not_wait_for_a_hook_and_the_resume_commits() {
    let environment = repository();
    environment.write("task.md", &items(5));
    hook(&environment, "pre-commit", SLOW);
    let run = environment.start(&RUN);
    wait_until("the hook", || environment.exists(".git/in-hook"));
    run.signal(Signal::TERM);
    run.end().expect(143);
    expect_nothing_alive(&environment);
    assert_eq!(commits(&environment), "begin\n");
    environment.run(&["resume"]).expect(0);
    expect_each_once(&environment, 2);
}
