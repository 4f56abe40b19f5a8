//! What people do to a repository while a plan works in it, and repositories that are not as expected.

use super::{Diamond, EXECUTE};
use rustix::process::Signal;

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
    diamond.environment.git(&["branch", "--quiet", "-D", &diamond.branch()]);
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
    diamond.environment.git(&["branch", "--quiet", "--force", &branch, "main"]);
    let said = diamond.resume().expect(1);
    assert!(said.stdout.contains(&format!("`git branch -f {branch} {}`", tip.trim())), "{said}");
    diamond.environment.git(&["branch", "--quiet", "--force", &branch, tip.trim()]);
    diamond.resume().expect(0);
    diamond.expect_complete();
}

// shows: PLN-08
#[test]
fn a_branch_that_moved_or_is_not_clean_is_left_as_it_is() {
    for change in ["git commit --quiet --allow-empty -m mine", "echo mine > plan.toml"] {
        let diamond = Diamond::new().ready();
        let mut run = diamond.start();
        run.wait_for("A  done");
        diamond.environment.shell(change);
        let head = diamond.environment.git(&["rev-parse", "HEAD"]);
        let said = run.end().expect(0);
        let branch = diamond.branch();
        assert!(said.stdout.contains("your branch is left as it is"), "{said}");
        assert!(said.stdout.contains(&format!("`git merge {branch}` takes it over")), "{said}");
        assert_eq!(diamond.environment.git(&["rev-parse", "HEAD"]), head);
        diamond.environment.git(&["show", &format!("{branch}:d.txt")]);
        assert!(diamond.worktrees().is_empty());
    }
}

/// A hook that refuses fails the stage; its work is merged as it is when the hook is content.
// shows: PLN-08, PLN-12
#[test]
fn a_hook_that_refuses_costs_no_second_session() {
    let diamond = Diamond::new().ready();
    let gate = diamond.gate("hook");
    let hook = format!("#!/bin/sh\n[ -e {} ] || {{ echo not today; exit 1; }}\n", gate.display());
    diamond.environment.write(".git/hooks/pre-commit", &hook);
    diamond.environment.shell("chmod +x .git/hooks/pre-commit");
    let said = diamond.execute().expect(1);
    assert!(said.stdout.contains("`git commit` failed: not today"), "{said}");
    std::fs::write(gate, "").unwrap();
    let said = diamond.resume().expect(0);
    assert!(said.stdout.contains("4 sessions"), "{said}");
    diamond.expect_complete();
}

// shows: PLN-08
#[test]
fn what_git_could_not_commit_is_told_before_anything_begins() {
    let diamond = Diamond::new().head("[worktree]\ncopy = [\".env\"]").ready();
    diamond.environment.write(".env", "SECRET=1\n");
    let said = diamond.execute().expect(78);
    assert!(said.stderr.contains("`.env` is copied into worktrees, where git would commit it"), "{said}");
    assert!(said.stderr.contains("hint: `.gitignore` or `.git/info/exclude`"), "{said}");
    diamond.environment.write(".git/info/exclude", ".env\n");
    diamond.environment.git(&["config", "--unset", "user.email"]);
    diamond.environment.git(&["config", "user.useConfigOnly", "true"]);
    let said = diamond.execute().expect(78);
    assert!(said.stderr.contains("git does not know who you are"), "{said}");
    assert!(diamond.environment.runs().is_empty());
    diamond.environment.git(&["config", "user.email", "test@example.invalid"]);
    diamond.execute().expect(0);
    diamond.expect_complete();
    let committed = diamond.environment.git(&["log", "--all", "--name-only", "--format="]);
    assert!(!committed.contains(".env"), "{committed}");
}

/// It did half of what it should; that is somebody's.
// shows: PLN-13
#[test]
fn the_work_of_a_stage_that_was_skipped_stays() {
    let diamond = Diamond::new()
        .check("B", "test -f nowhere".to_owned())
        .rule("B", "retries = 0\nsessions_max = 1\non_fail = \"skip\"");
    let text = diamond.manifest().replace("\"B\", \"C\"", "{ stage = \"B\", optional = true }, \"C\"");
    diamond.environment.write("plan.toml", &text);
    diamond.environment.commit_all();
    diamond.execute().expect(0);
    assert_eq!(diamond.environment.read("d.txt"), "D\n");
    assert_eq!(diamond.environment.read("b.txt"), "");
    let branch = format!("{}-B", diamond.branch());
    assert_eq!(diamond.environment.git(&["show", &format!("{branch}:b.txt")]), "B\n");
    assert_eq!(diamond.worktrees().len(), 1);
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
    let done = environment.command(&EXECUTE).current_dir(&dir).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&done.stderr));
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
    let mut second = environment.command(&EXECUTE).current_dir(&other).spawn().unwrap();
    diamond.execute().expect(0);
    assert!(second.wait().unwrap().success());
    for dir in [environment.dir(), other] {
        assert_eq!(std::fs::read_to_string(dir.join("d.txt")).unwrap(), "D\n");
    }
    environment.git(&["worktree", "remove", "--force", "../other"]);
    environment.git(&["branch", "--quiet", "-D", "other"]);
    diamond.expect_cleared();
}
