//! What people do to a repository while a plan works in it, and repositories that are not as expected.

use std::time::Duration;

use rustix::process::Signal;

use super::{Diamond, EXECUTE};

// shows: PLN-08
#[test]
fn what_a_person_clears_away_between_kill_and_resume_is_made_again() {
    let diamond = Diamond::new().slow("B").slow("C").ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["B", "C"]);
    run.signal(Signal::KILL);
    run.end().expect(137);
    crate::processes::expect_nothing_alive(&diamond.environment);
    std::fs::remove_dir_all(diamond.worktree_of("B")).unwrap();
    // A is merged there, and nowhere else.
    diamond
        .environment
        .git(&["branch", "--quiet", "-D", &diamond.branch()]);
    diamond.resume().expect(0);
    diamond.expect_complete();
}

// shows: PLN-08
#[test]
fn a_branch_that_was_moved_back_is_told_and_nothing_is_lost() {
    let diamond = Diamond::new().slow("B").slow("C").ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["B", "C"]);
    run.signal(Signal::KILL);
    run.end().expect(137);
    let branch = diamond.branch();
    let tip = diamond.environment.git(&["rev-parse", &branch]);
    diamond
        .environment
        .git(&["branch", "--quiet", "--force", &branch, "main"]);
    let said = diamond.resume().expect(1);
    assert!(
        said.stdout
            .contains(&format!("`git branch -f {branch} {}`", tip.trim())),
        "{said}"
    );
    diamond
        .environment
        .git(&["branch", "--quiet", "--force", &branch, tip.trim()]);
    diamond.resume().expect(0);
    diamond.expect_complete();
}

// shows: PLN-08, PLN-26
#[test]
fn a_branch_that_moved_or_is_not_clean_is_left_as_it_is() {
    for change in [
        "git commit --quiet --allow-empty -m mine",
        "echo mine > plan.toml",
        "git commit --quiet --allow-empty -m mine && git switch --quiet --detach HEAD~1 && : > own",
    ] {
        let diamond = Diamond::new().ready();
        let mut run = diamond.start();
        run.wait_for("A  done");
        diamond.environment.shell(change);
        let head = diamond.environment.git(&["rev-parse", "HEAD"]);
        let said = run.end().expect(5);
        assert!(said.stdout.contains("your branch is unchanged"), "{said}");
        assert_eq!(diamond.environment.git(&["rev-parse", "HEAD"]), head);
        assert!(diamond.worktrees().is_empty());
        // The last line is the command that brings it, and it does.
        let last = said.stdout.lines().last().unwrap();
        let command = last.strip_prefix("next       ").unwrap();
        diamond.environment.shell(&format!("{command} >&2"));
        for file in ["a.txt", "b.txt", "c.txt", "d.txt"] {
            assert!(diamond.environment.exists(file), "{command}");
        }
        let log = diamond.environment.git(&["log", "--format=%s"]);
        let is_there = log.contains("mine") || diamond.environment.read("plan.toml") == "mine\n";
        assert!(is_there, "what the user did is kept: {log}");
    }
}

/// If a hook refuses for a reason that no session can mend, the stage fails; its work is merged as it is when the hook
/// is content.
// shows: PLN-08, PLN-12
#[test]
fn once_a_hook_is_content_the_work_is_merged_without_another_session() {
    let diamond = Diamond::new().ready();
    let gate = diamond.gate("hook");
    let hook = format!(
        "#!/bin/sh\n[ -e {} ] || {{ echo not today; exit 1; }}\n",
        gate.display()
    );
    diamond.environment.write(".git/hooks/pre-commit", &hook);
    diamond.environment.shell("chmod +x .git/hooks/pre-commit");
    let said = diamond.execute().expect(1);
    assert!(
        said.stdout
            .contains("failed (1): 1 stage failed · 3 sessions"),
        "{said}"
    );
    std::fs::write(gate, "").unwrap();
    let said = diamond.resume().expect(0);
    assert!(said.stdout.contains("6 sessions"), "{said}");
    diamond.expect_complete();
}

// shows: PLN-08
#[test]
fn what_git_could_not_commit_is_told_before_anything_begins() {
    let diamond = Diamond::new().head("[worktree]\ncopy = [\".env\"]").ready();
    diamond.environment.write(".env", "SECRET=1\n");
    let said = diamond.execute().expect(78);
    assert!(
        said.stderr
            .contains("`.env` is copied into worktrees, where git would commit it"),
        "{said}"
    );
    assert!(
        said.stderr
            .contains("hint: `.gitignore` or `.git/info/exclude`"),
        "{said}"
    );
    diamond.environment.write(".git/info/exclude", ".env\n");
    diamond
        .environment
        .git(&["config", "--unset", "user.email"]);
    diamond
        .environment
        .git(&["config", "user.useConfigOnly", "true"]);
    let said = diamond.execute().expect(78);
    assert!(
        said.stderr.contains("git has no name and email for you"),
        "{said}"
    );
    assert!(diamond.environment.runs().is_empty());
    diamond
        .environment
        .git(&["config", "user.email", "test@example.invalid"]);
    diamond.execute().expect(0);
    diamond.expect_complete();
    let committed = diamond
        .environment
        .git(&["log", "--all", "--name-only", "--format="]);
    assert!(!committed.contains(".env"), "{committed}");
}

/// Git would commit it by then, and remove it with the worktree that it is in.
// shows: PLN-08, SEC-01
#[test]
fn a_file_that_is_lent_to_worktrees_is_never_committed() {
    for staged in ["true", "git add --all"] {
        let work =
            format!("echo target/ > .gitignore; echo mine > made.env; {staged}; echo A > a.txt");
        let diamond = Diamond::new()
            .head("[worktree]\ncopy = [\"*.env\", \".env\"]")
            .work("A", work);
        let environment = &diamond.environment;
        environment.write(".gitignore", "*.env\n");
        environment.write("plan.toml", &diamond.manifest());
        environment.commit_all();
        environment.write(".env", "SECRET=1\n");
        let said = diamond.execute().expect(0);
        let committed = environment.git(&["log", "--all", "--format=%h", "--", ".env"]);
        assert_eq!(committed, "", "{staged}: {said}");
        assert_eq!(environment.read(".env"), "SECRET=1\n");
        // What a stage made under such a name is its work.
        assert_eq!(environment.read("made.env"), "mine\n");
        environment.shell("rm .env");
        diamond.expect_complete();
    }
}

/// Git overwrites what it ignores when it merges, unless it is told not to.
// shows: PLN-08, PLN-26
#[test]
fn an_ignored_file_of_the_users_is_not_overwritten_by_the_delivery() {
    let work =
        ": > .gitignore; mkdir build; echo theirs | tee local.json build/out; echo A > a.txt"
            .to_owned();
    let diamond = Diamond::new().work("A", work);
    let environment = &diamond.environment;
    environment.write(".gitignore", "local.json\nbuild/\n");
    environment.write("plan.toml", &diamond.manifest());
    environment.commit_all();
    environment.write("local.json", "precious\n");
    environment.write("build/other", "precious\n");
    let said = diamond.execute().expect(5);
    assert_eq!(environment.read("local.json"), "precious\n");
    diamond.follow_last_line(&said);
    assert_eq!(environment.read("local.json"), "theirs\n");
    assert_eq!(environment.read("local.json.before-merge"), "precious\n");
    assert_eq!(environment.read("build/out"), "theirs\n");
    assert_eq!(environment.read("build/other"), "precious\n");
}

/// It did half of what it should; that is somebody's.
// shows: PLN-13
#[test]
fn the_work_of_a_stage_that_was_skipped_stays() {
    let diamond = Diamond::new()
        .check("B", "test -f nowhere".to_owned())
        .rule("B", "retries = 0\nsessions_max = 1\non_fail = \"skip\"");
    let text = diamond
        .manifest()
        .replace("\"B\", \"C\"", "{ stage = \"B\", optional = true }, \"C\"");
    diamond.environment.write("plan.toml", &text);
    diamond.environment.commit_all();
    diamond.execute().expect(0);
    assert_eq!(diamond.environment.read("d.txt"), "D\n");
    assert_eq!(diamond.environment.read("b.txt"), "");
    let branch = format!("{}-B", diamond.branch());
    assert_eq!(
        diamond
            .environment
            .git(&["show", &format!("{branch}:b.txt")]),
        "B\n"
    );
    assert_eq!(diamond.worktrees().len(), 1);
}

/// Commits on no branch are in the worktree's own record alone. What contains the stage's branch is put onto it; this does not.
// shows: PLN-08
#[test]
fn commits_that_a_skipped_stage_made_on_no_branch_stay() {
    let commit =
        "git checkout -q --detach HEAD~1; echo B > b.txt; git add b.txt; git commit -qm precious";
    let diamond = Diamond::new()
        .work("B", commit.to_owned())
        .check("B", "test -f nowhere".to_owned())
        .rule("B", "retries = 0\nsessions_max = 1\non_fail = \"skip\"");
    let text = diamond
        .manifest()
        .replace("\"B\", \"C\"", "{ stage = \"B\", optional = true }, \"C\"");
    diamond.environment.write("plan.toml", &text);
    diamond.environment.commit_all();
    let said = diamond.execute().expect(0);
    assert!(
        said.stderr
            .contains("is kept: it has commits that are on no branch"),
        "{said}"
    );
    let kept = diamond.worktrees().remove(0);
    let last = ["-C", kept.to_str().unwrap(), "log", "-1", "--format=%s"];
    assert_eq!(diamond.environment.git(&last), "precious\n");
}

// shows: PLN-08
#[test]
fn a_plan_works_in_a_subdirectory_with_a_difficult_name_beside_a_submodule() {
    let diamond = Diamond::new();
    let environment = &diamond.environment;
    environment.write("größe & so/app/plan.toml", &diamond.manifest());
    environment.shell(
        "git init --quiet ../other && git -C ../other -c user.name=t -c user.email=t@t commit --quiet \
         --allow-empty -m other && git -c protocol.file.allow=always submodule --quiet add ../other other",
    );
    environment.commit_all();
    let dir = environment.dir().join("größe & so/app");
    let done = environment
        .command(&EXECUTE)
        .current_dir(&dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(
        done.status.code(),
        Some(0),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!(std::fs::read_to_string(dir.join("d.txt")).unwrap(), "D\n");
    diamond.expect_cleared();
}

// shows: PLN-08
#[test]
fn two_plans_work_at_once_in_two_worktrees() {
    let diamond = Diamond::new().ready();
    let environment = &diamond.environment;
    environment.git(&["worktree", "add", "--quiet", "-b", "other", "../other"]);
    let other = environment.path("other");
    let mut second = environment
        .command(&EXECUTE)
        .current_dir(&other)
        .spawn()
        .unwrap();
    diamond.execute().expect(0);
    assert!(second.wait().unwrap().success());
    for dir in [environment.dir(), other] {
        assert_eq!(std::fs::read_to_string(dir.join("d.txt")).unwrap(), "D\n");
    }
    environment.git(&["worktree", "remove", "--force", "../other"]);
    environment.git(&["branch", "--quiet", "-D", "other"]);
    diamond.expect_cleared();
}

/// Git reads the files of every worktree when it adds one, also of one that another git has only begun to make.
// shows: PLN-08
#[test]
fn a_worktree_that_another_git_is_making_is_waited_for() {
    let diamond = Diamond::new().ready();
    let environment = &diamond.environment;
    environment.shell(
        "mkdir -p .git/worktrees/half && cd .git/worktrees/half && echo ../half/.git > gitdir && : > commondir",
    );
    let half = environment.dir().join(".git/worktrees/half");
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        std::fs::remove_dir_all(half).unwrap();
    });
    diamond.execute().expect(0);
    other.join().unwrap();
    diamond.expect_complete();
}

/// A drive that is not mounted looks like a worktree that is gone.
// shows: PLN-08
#[test]
fn a_worktree_of_the_users_that_is_away_stays_theirs() {
    let diamond = Diamond::new().ready();
    let environment = &diamond.environment;
    environment.shell(
        "git worktree add --quiet --detach ../drive && cd ../drive && echo staged > staged && git add staged && \
         mv ../drive ../away",
    );
    diamond.execute().expect(0);
    environment.shell("mv ../away ../drive");
    assert_eq!(
        environment.git(&["-C", "../drive", "status", "--porcelain"]),
        "A  staged\n"
    );
    environment.git(&["worktree", "remove", "--force", "../drive"]);
    diamond.expect_complete();
}

/// Git tells its hooks by variables which repository they are in, and how it was asked to read paths.
// shows: PLN-08, RUN-05
#[test]
fn a_plan_that_a_hook_starts_leaves_the_users_checkout_alone() {
    let diamond = Diamond::new().ready();
    let environment = &diamond.environment;
    let git_dir = environment.dir().join(".git");
    let mut command = environment.command(&EXECUTE);
    command
        .env("GIT_DIR", &git_dir)
        .env("GIT_INDEX_FILE", git_dir.join("index"));
    let done = command
        .env("GIT_WORK_TREE", environment.dir())
        .env("GIT_PREFIX", "")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!(
        environment.git(&["symbolic-ref", "HEAD"]).trim(),
        "refs/heads/main"
    );
    diamond.expect_complete();
}

/// With the state in a repository of its own, such as that of a home directory.
// shows: PLN-08
#[test]
fn a_worktree_without_its_git_file_passes_for_nothing_else() {
    let diamond = Diamond::new();
    let state = diamond.environment.path("state");
    let with_state = |diamond: Diamond| {
        let Diamond {
            environment,
            work,
            checks,
            rules,
            head,
        } = diamond;
        let environment = environment.with("EKIDEN_STATE_DIR", state.to_str().unwrap());
        Diamond {
            environment,
            work,
            checks,
            rules,
            head,
        }
    };
    let work = "rm -f .git; echo B > b.txt".to_owned();
    let diamond = with_state(diamond)
        .work("B", work)
        .rule("B", "retries = 0\nsessions_max = 1")
        .ready();
    let environment = &diamond.environment;
    environment.git(&["init", "--quiet", ".."]);
    environment.git(&[
        "-C",
        "..",
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "outer",
    ]);
    let said = diamond.execute();
    let outer = environment.git(&["-C", "..", "log", "--all", "--format=%s"]);
    assert_eq!(outer, "outer\n", "{said}");
}

// shows: PLN-08, RUN-11
#[test]
fn a_worktree_that_is_not_complete_is_told_and_nothing_in_it_is_lost() {
    let diamond = Diamond::new().slow("B").slow("C").ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["B", "C"]);
    run.signal(Signal::KILL);
    run.end().expect(137);
    crate::processes::expect_nothing_alive(&diamond.environment);
    let tree = diamond.worktree_of("B");
    std::fs::write(tree.join("mine.txt"), "mine").unwrap();
    std::fs::remove_file(tree.join(".git")).unwrap();
    let said = diamond.resume().expect(74);
    let command = format!("rm -rf {}", tree.display());
    assert!(
        said.stderr
            .contains(&format!("`{command}` lets ekiden make it again")),
        "{said}"
    );
    let mine = std::fs::read_to_string(tree.join("mine.txt"));
    assert_eq!(mine.unwrap(), "mine");
    diamond.environment.shell(&command);
    diamond.resume().expect(0);
    diamond.expect_complete();
}

/// Nothing says any more that nobody's work is in there, but that its removal had begun.
// shows: PLN-08, RUN-11
#[test]
fn a_worktree_whose_removal_was_broken_off_is_removed() {
    let diamond = Diamond::new().slow_merge("D").ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["D"]);
    run.signal(Signal::KILL);
    run.end().expect(137);
    crate::processes::expect_nothing_alive(&diamond.environment);
    let tree = diamond.worktree_of("B");
    let file = std::fs::read_to_string(tree.join(".git")).unwrap();
    let git_dir = file.strip_prefix("gitdir: ").unwrap().trim_end();
    std::fs::write(format!("{git_dir}/ekiden-removed"), "").unwrap();
    std::fs::remove_file(tree.join(".git")).unwrap();
    diamond.resume().expect(0);
    diamond.expect_complete();
}

// shows: PLN-08, RUN-11
#[test]
fn locks_that_a_killed_git_left_on_our_branches_are_removed() {
    let diamond = Diamond::new().slow("A").ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["A"]);
    run.signal(Signal::KILL);
    run.end().expect(137);
    crate::processes::expect_nothing_alive(&diamond.environment);
    let whole = format!(".git/refs/heads/{}.lock", diamond.branch());
    // A stage whose worktree was being made for the first time.
    let of_stage = format!(".git/refs/heads/{}-B.lock", diamond.branch());
    diamond.environment.write(&whole, "");
    diamond.environment.write(&of_stage, "");
    // A branch of the user's: nobody but them may unlock it.
    let of_another = ".git/refs/heads/other.lock";
    diamond.environment.write(of_another, "");
    diamond.resume().expect(0);
    let is_there = |name: &str| diamond.environment.dir().join(name).exists();
    let left = [&whole, &of_stage, of_another].map(is_there);
    assert_eq!(left, [false, false, true]);
    diamond.environment.shell(&format!("rm {of_another}"));
    diamond.expect_complete();
}

/// Git was killed while it moved the user's checkout: between the files, or behind the index.
// shows: PLN-08, RUN-11
#[test]
fn a_delivery_that_was_broken_off_is_told_with_the_command() {
    for is_indexed in [false, true] {
        let diamond = Diamond::new().ready();
        let environment = &diamond.environment;
        let gate = diamond.gate("moved");
        let gate = gate.display();
        environment.script(
            ".git/hooks/reference-transaction",
            &format!("[ $1 = prepared ] && grep -q refs/heads/main$ && [ ! -e {gate} ] && touch {gate} && sleep 60\nexit 0\n"),
        );
        let run = diamond.start();
        diamond.wait_for_gates(&["moved"]);
        run.signal(Signal::KILL);
        run.end().expect(137);
        crate::processes::expect_nothing_alive(environment);
        let branch = diamond.branch();
        if !is_indexed {
            environment.shell("git reset --quiet --hard");
            environment.shell(&format!(
                "git checkout {branch} -- a.txt b.txt && git reset --quiet && : > c.txt"
            ));
        }
        environment.write("own.txt", "the user's");
        let said = diamond.resume().expect(5);
        let command = format!("git reset --hard {branch}");
        assert!(
            said.stdout.contains(&format!("`{command}` completes it")),
            "{said}"
        );
        assert_eq!(environment.read("own.txt"), "the user's");
        environment.shell(&format!(
            "{command} && git branch -D {branch} && rm own.txt"
        ));
        diamond.expect_complete();
    }
}

/// What looks like it and is somebody's stays.
// shows: PLN-08, RUN-11
#[test]
fn what_a_person_changed_while_a_delivery_was_broken_off_is_theirs() {
    for change in [
        "echo mine > c.txt",
        "echo mine >> plan.toml",
        "echo mine > a.txt",
    ] {
        let diamond = Diamond::new().ready();
        let environment = &diamond.environment;
        let gate = diamond.gate("moved");
        let gate = gate.display();
        environment.script(
            ".git/hooks/reference-transaction",
            &format!("[ $1 = prepared ] && grep -q refs/heads/main$ && [ ! -e {gate} ] && touch {gate} && sleep 60\nexit 0\n"),
        );
        let run = diamond.start();
        diamond.wait_for_gates(&["moved"]);
        run.signal(Signal::KILL);
        run.end().expect(137);
        crate::processes::expect_nothing_alive(environment);
        environment.shell("git reset --quiet --hard");
        environment.shell(&format!("echo B > b.txt; {change}"));
        let before = environment.git(&["status", "--porcelain"]);
        let said = diamond.resume().expect(5);
        assert!(said.stdout.contains("your branch is unchanged"), "{said}");
        assert_eq!(environment.git(&["status", "--porcelain"]), before);
    }
}

// shows: PLN-08
#[test]
fn what_the_user_has_git_do_when_they_merge_changes_nothing_of_the_delivery() {
    for options in ["--squash", "--no-commit --no-ff", "-s ours"] {
        let diamond = Diamond::new().ready();
        diamond
            .environment
            .git(&["config", "branch.main.mergeOptions", options]);
        diamond.execute().expect(0);
        diamond.expect_complete();
    }
}

// shows: PLN-13
#[test]
fn what_a_skipped_stage_made_stays_whatever_git_shows() {
    let diamond = Diamond::new()
        .check("B", "test -f nowhere".to_owned())
        .rule("B", "retries = 0\nsessions_max = 1\non_fail = \"skip\"");
    let text = diamond
        .manifest()
        .replace("\"B\", \"C\"", "{ stage = \"B\", optional = true }, \"C\"");
    diamond.environment.write("plan.toml", &text);
    diamond.environment.commit_all();
    diamond
        .environment
        .git(&["config", "status.showUntrackedFiles", "no"]);
    // Not even the session can be committed.
    diamond
        .environment
        .script(".git/hooks/pre-commit", "case $PWD in *-B) exit 1;; esac\n");
    diamond.execute().expect(0);
    assert_eq!(
        std::fs::read_to_string(diamond.worktree_of("B").join("b.txt")).unwrap(),
        "B\n"
    );
}

/// What the merge is validated in is furnished again if that failed.
// shows: PLN-08, RUN-11
#[test]
fn a_setup_that_failed_is_made_again() {
    let setup = "[worktree]\nsetup = \"case $PWD in *-?) ;; *) test -e $(git rev-parse --path-format=absolute \
                 --git-common-dir)/../../gate-setup ;; esac && echo made > made.log\"";
    let diamond = Diamond::new()
        .head(setup)
        .check("A", "test -e made.log".to_owned())
        .ready();
    diamond.environment.write(".git/info/exclude", "made.log\n");
    diamond.execute().expect(1);
    let second = "stages/A/sessions/2/prompt.md";
    let prompt = std::fs::read_to_string(diamond.environment.run_dir().join(second)).unwrap();
    assert!(prompt.contains("¦ the worktree's setup"), "{prompt}");
    assert!(!prompt.contains("(exit code 1):"), "{prompt}");
    std::fs::write(diamond.gate("setup"), "").unwrap();
    diamond.resume().expect(0);
    diamond.expect_complete();
}

// shows: PLN-08
#[test]
fn a_branch_named_ekiden_is_told_before_anything_begins() {
    let diamond = Diamond::new().ready();
    diamond.environment.git(&["branch", "ekiden"]);
    let said = diamond.execute().expect(78);
    assert!(said.stderr.contains("there is a branch `ekiden`"), "{said}");
    assert!(
        said.stderr
            .contains("hint: `git branch -m ekiden NEW-NAME`"),
        "{said}"
    );
    assert!(diamond.environment.runs().is_empty());
}

/// As where git-lfs is set up and not installed. A file there has the name of a revision.
// shows: PLN-08
#[test]
fn a_hook_that_fails_behind_a_checkout_stops_no_worktree() {
    let diamond = Diamond::new().ready();
    diamond.environment.write("HEAD", "not git's\n");
    diamond.environment.commit_all();
    diamond.environment.script(
        ".git/hooks/post-checkout",
        "case $1 in 0000*) exit 1;; esac\n",
    );
    diamond.execute().expect(0);
    diamond.expect_complete();
}

// shows: PLN-08, SEC-01, SEC-09
#[test]
fn a_link_that_leads_out_of_the_project_is_not_copied() {
    let diamond = Diamond::new()
        .head("[worktree]\ncopy = [\".env\", \"more\"]")
        .check("A", "test ! -L .env -a -f .env -a -f more/b".to_owned());
    let diamond = diamond.ready();
    diamond
        .environment
        .write(".git/info/exclude", ".env\nreal.env\nmore/\n");
    diamond.environment.shell("ln -s /etc/passwd .env");
    let said = diamond.execute().expect(65);
    assert!(
        said.stderr
            .contains("copy \".env\" leads out of the project, to /etc/passwd"),
        "{said}"
    );
    diamond.environment.shell(
        "echo SECRET=1 > real.env && ln -sf real.env .env && mkdir more && ln -s /etc/passwd more/b",
    );
    let said = diamond.execute().expect(78);
    assert!(
        said.stderr
            .contains("cannot copy `more/b`: it leads out of the project, to /etc/passwd"),
        "{said}"
    );
    diamond
        .environment
        .shell("echo more > more/a && ln -sf a more/b");
    diamond.execute().expect(0);
    diamond.expect_complete();
}
