//! Runs that go nowhere, and what a person is told of sessions.

use serde_json::Value;

use crate::environment::{Environment, items};

/// Reads its prompt and leaves a handoff; what it says of its session is in `$note`, its claim in
/// `$status`.
pub(crate) const HAND_OVER: &str = r#"
cat > /dev/null
echo working
to=$EKIDEN_HANDOFF
printf '%s\n' "STATUS: $status" '' '## Done' '' "$note" '' '## Stopped at' '' 'nothing is half done' '' \
  '## Issues' '' 'none' > "$to/PROGRESS.md"
printf '%s\n' '## Task' '' 'the second file' '' '## State' '' "One file is there; $note" '' \
  'It has the form of the first one, since both are read by the same program, which knows no other form.' '' \
  '## Resume at' '' 'write the second file' '' '## What works' '' 'cat' '' '## What to avoid' '' \
  'nothing so far' '' '## How to verify' '' '`ls` shows two files' > "$to/NEXT_PROMPT.md"
"#;

fn told(environment: &Environment, script: &str, args: &[&str]) -> String {
    environment.script(
        "agent.sh",
        &format!("status=IN_PROGRESS\nnote='the second is not'\n{script}"),
    );
    environment.told(
        &[
            &["run", "Write two files.", "--agent-command", "./agent.sh"],
            args,
        ]
        .concat(),
    )
}

// shows: REL-13, RUN-06
#[test]
fn handoffs_that_repeat_end_the_run_as_stuck_without_git_too() {
    let environment = Environment::new();
    insta::assert_snapshot!(told(&environment, HAND_OVER, &[]), @r"
    run RUN · relay, at most 10 sessions · agent.sh · Write two files.
    session 1 · CLOCK
      ended     handed off after TIME
      next      write the second file
    session 2 · CLOCK
      ended     handed off after TIME
      next      write the second file
      note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
      ! session 2: its handoff repeats session 1's (100% alike, nothing else changed): 1 of 3
    session 3 · CLOCK
      ended     handed off after TIME
      next      write the second file
      note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
      ! session 3: its handoff repeats session 2's (100% alike, nothing else changed): 2 of 3
    session 4 · CLOCK
      ended     handed off after TIME
      next      write the second file
      note      accepted, though: NEXT_PROMPT.md: the same as last time. Write what this session changed and learned.
      ! session 4: its handoff repeats session 3's (100% alike, nothing else changed): 3 of 3

    stopped (3): stuck: the handoffs repeat each other (100% alike), and nothing changes · 4 sessions · TIME
    what to do:  `ekiden log` shows where it hangs; add --research if files need not change
    report     .ekiden/runs/RUN/report.html
    to continue, once you know why:  ekiden resume
    --- exit code 3
    ");
    assert!(
        environment
            .read(".ekiden/status.json")
            .contains("\"status\": \"stuck\"")
    );
    let log = environment.told(&["log"]);
    assert!(
        log.contains("session 4: its handoff repeats session 3's"),
        "{log}"
    );
    let json = environment.told(&["log", "--json"]);
    assert!(
        json.contains(r#""event":"judged","kind":"repeated""#),
        "{json}"
    );
}

// shows: REL-14
#[test]
fn sessions_that_change_nothing_end_the_run_as_stalled_and_research_goes_on() {
    let environment = Environment::with_git();
    let words = "cat > /dev/null; echo 'I thought about it'\n";
    insta::assert_snapshot!(told(&environment, words, &["--stall-sessions", "1"]), @r"
    run RUN · relay, at most 10 sessions · agent.sh · Write two files.
    session 1 · CLOCK
      ended     without a handoff after TIME
      ! no usable handoff (PROGRESS.md: there is no such file; NEXT_PROMPT.md: there is no such file); rescue handoff written from what ekiden saw (session 1)
    session 2 · CLOCK
      ended     without a handoff after TIME
      ! no usable handoff (PROGRESS.md: there is no such file; NEXT_PROMPT.md: there is no such file); rescue handoff written from what ekiden saw (session 2)
      ! session 2: it left nothing new in the work tree, the result of the verification or the open items: 1 of 1

    stopped (3): stalled: 1 session in a row brought nothing new · 2 sessions · TIME · 1 file not committed
    what to do:  `ekiden log` shows where it hangs; add --research if files need not change
    problems   2 rescues (sessions 1, 2), 1 session without progress (2)
    report     .ekiden/runs/RUN/report.html
    to continue, once you know why:  ekiden resume
    --- exit code 3
    ");
    let resumed = environment.told(&["resume", "--research", "-m", "3"]);
    assert!(
        resumed.contains("session limit reached after 5 of 5"),
        "{resumed}"
    );
}

// shows: REL-32
#[test]
fn tests_that_were_taken_away_are_told_also_beside_a_large_change() {
    let environment = Environment::with_git();
    environment.write(
        "tests/test_a.py",
        "def test_a():\n    assert total() == 3\n",
    );
    environment.write("data.txt", "small\n");
    environment.commit_all();
    let cheat = "rm tests/test_a.py; head -c 17000000 /dev/zero | tr '\\0' x > data.txt\nstatus=ALL_COMPLETE\n";
    let script = format!("{cheat}{HAND_OVER}");
    let said = told(
        &environment,
        &script,
        &["--verify", "! test -e tests/test_a.py"],
    );
    assert!(said.contains("tests/test_a.py  deleted"), "{said}");
}

// shows: REL-08
#[test]
fn each_result_is_bound_to_the_tree_that_it_ran_on() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    let run = ["run", "task.md", "--agent", "rehearsal"];
    let verified = [&run[..], &["--verify", "test -e item-5.txt"]].concat();
    environment.run(&verified).expect(0);
    let mut surveyed = Value::Null;
    let mut trees = Vec::new();
    for record in environment.log() {
        let outcome = &record["event"]["event"]["outcome"];
        match outcome["kind"].as_str() {
            Some("surveyed") => surveyed = outcome["survey"]["Ok"]["tree"].clone(),
            Some("verified") => {
                let tree = &outcome["check"]["tree"];
                assert!(tree.is_string() && *tree == surveyed, "{record}");
                trees.push(tree.to_string());
            }
            _ => {}
        }
    }
    trees.dedup();
    assert!(trees.len() > 1, "{trees:?}");
}

// shows: REL-38
#[test]
fn a_reviewer_is_given_the_beginning_of_a_large_change() {
    let environment = Environment::with_git();
    environment.write("data.txt", "small\n");
    environment.commit_all();
    let item = "head -c 17000000 /dev/zero | tr '\\0' x > data.txt";
    let task = format!("Do it.\n\n- [ ] It\n\n  ```sh\n  {item}\n  ```\n");
    environment.write("task.md", &task);
    let args = ["run", "task.md", "--agent", "rehearsal", "--review"];
    environment.run(&args).expect(0);
    let prompt = environment.kept(2, "prompt.md");
    assert!(
        prompt.contains("diff --git a/data.txt b/data.txt"),
        "{prompt}"
    );
}

/// The prompts name a file as the agent's directory has it, committed or not.
// shows: REL-08, REL-38
#[test]
fn a_reviewer_reads_the_name_of_every_changed_file() {
    let environment = Environment::with_git();
    environment.write("web/old.txt", "a\n");
    environment.commit_all();
    environment.write("web/a.txt", "the user's\n");
    let script = r#"
note='the second is not'
if [ -e last.txt ]; then
  cat > /dev/null; echo '{"verdict":"pass","findings":[]}'; exit
elif [ -e new.txt ]; then
  git add new.txt; git -c user.name=a -c user.email=a commit -qm new; echo c > last.txt; status=ALL_COMPLETE
else
  echo b > old.txt; printf 'a\nb\n' > new.txt; status=IN_PROGRESS
fi
"#;
    environment.script("agent.sh", &format!("{script}{HAND_OVER}"));
    let agent = environment.dir().join("agent.sh").display().to_string();
    let run = [
        "run",
        "Write two files.",
        "--agent-command",
        &agent,
        "--review",
    ];
    environment
        .run(&[&run[..], &["--work-dir", "web"]].concat())
        .expect(0);
    let prompt = |session: u32| {
        environment.shell(&format!(
            "cp web/.ekiden/runs/*/sessions/{session}/prompt.md prompt.md"
        ));
        environment.read("prompt.md")
    };
    let changes =
        "¦ A new.txt\n¦ M old.txt\n¦ ?? a.txt\n¦ ?? last.txt\n¦ diff --git a/new.txt b/new.txt\n";
    assert!(prompt(3).contains(changes), "{}", prompt(3));
    assert!(prompt(3).contains("¦ diff --git a/last.txt b/last.txt\n¦ @@ -0,0 +1,1 @@\n¦ +c\n"));
    let measured = "relay began come last:\n¦ M old.txt\n¦ ?? new.txt\n¦ ?? a.txt\n";
    assert!(prompt(2).contains(measured), "{}", prompt(2));
}

// shows: REL-32
#[test]
fn tests_that_cannot_be_compared_are_told_as_such() {
    let environment = Environment::with_git();
    environment.write("tests/test_a.py", "def test_a(): pass\n");
    environment.commit_all();
    let large = "head -c 17000000 /dev/zero | tr '\\0' x > tests/test_a.py\nstatus=ALL_COMPLETE\n";
    let script = format!("{large}{HAND_OVER}");
    let check = "test $(wc -c < tests/test_a.py) -gt 99";
    let said = told(&environment, &script, &["--verify", check]);
    let unknown = "the verification passes, but it is not known whether tests were weakened: `git diff` gave no answer";
    assert!(said.contains(unknown), "{said}");
    assert!(!said.contains("warning:"), "{said}");
    let log = environment.told(&["log"]);
    assert!(log.contains(unknown), "{log}");
}

// shows: REL-32
#[test]
fn tests_that_were_taken_away_are_told_beside_are_told_beside_the_pass() {
    let environment = Environment::with_git();
    environment.write(
        "tests/test_a.py",
        "def test_a():\n    assert total() == 3\n",
    );
    environment.write(
        "tests/test_b.py",
        "def test_b():\n    assert total() == 3\n",
    );
    environment.commit_all();
    let cheat = "rm tests/test_a.py; sed -i s/def/@pytest.mark.skip\\\\ndef/ tests/test_b.py\nstatus=ALL_COMPLETE\n";
    let script = format!("{cheat}{HAND_OVER}");
    insta::assert_snapshot!(told(&environment, &script, &["--verify", "! test -e tests/test_a.py"]), @r"
    run RUN · relay, at most 10 sessions · agent.sh · Write two files.
    verification `! test -e tests/test_a.py` fails now, so a later pass ends the run
    session 1 · CLOCK
      ended     says all is done after TIME
      next      write the second file
      verify    passed in TIME
      ! the verification passes, but tests were weakened since the run began:
        tests/test_a.py  deleted
        tests/test_b.py  1 mark to skip tests

    verified complete · 1 session · TIME · 3 files not committed
    problems   1 sign of weakened tests (session 1)
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    ");
}

/// They are in no branch any more, and the run may end verified. It does not matter who made them.
// shows: REL-14
#[test]
fn commits_that_a_session_drops_are_told_once() {
    let environment = Environment::with_git();
    environment.write("kept.txt", "");
    environment.commit_all();
    environment.write("dropped.txt", "");
    environment.commit_all();
    let dropped = environment.git(&["rev-parse", "HEAD"]);
    let reset = "case $EKIDEN_SESSION in 1|3) git reset --quiet --hard HEAD~1;; esac\necho $EKIDEN_SESSION >> x\n";
    let script = format!(
        "{reset}git add x; git -c user.name=T -c user.email=t@example.invalid commit --quiet -m x\n\
         git rev-parse HEAD > .git/made.$EKIDEN_SESSION\n{HAND_OVER}"
    );
    let said = told(&environment, &script, &["-m", "3"]);
    let made = environment.read(".git/made.2");
    for (session, dropped) in [(1, dropped), (3, made)] {
        let warning = format!(
            "! session {session}: what is checked out no longer contains 1 commit that it had; `git branch NAME {}` keeps them",
            &dropped[..12]
        );
        assert!(said.contains(&warning), "{said}");
    }
    assert_eq!(said.matches("no longer contains").count(), 2, "{said}");
    let problems = "2 sessions that dropped commits (sessions 1, 3)";
    assert!(said.contains(problems), "{said}");
}

/// The next session could take its work for lost, and the user what they had stashed for theirs.
// shows: REL-01, REL-14
#[test]
fn what_a_session_leaves_in_gits_stash_is_told_once_and_to_the_next_sessions() {
    let environment = Environment::with_git();
    environment.write("kept.txt", "");
    environment.commit_all();
    environment.shell("echo mine > kept.txt && git stash --quiet");
    let stash =
        "test -e once || { echo half > kept.txt; git stash --quiet; touch once; }\necho x >> x\n";
    let script = format!("{stash}{HAND_OVER}");
    let said = told(&environment, &script, &["-m", "3"]);
    let warning =
        "! session 1: git's stash has 1 new entry since the run began; see `git stash list`";
    assert!(said.contains(warning), "{said}");
    assert_eq!(said.matches("git's stash has").count(), 1, "{said}");
    let problems = "1 stash that was left behind (session 1)";
    assert!(said.contains(problems), "{said}");
    for session in [2, 3] {
        let prompt = environment.kept(session, "prompt.md");
        let line = "New entries of git's stash since the relay began; they may hold unfinished work:\n\u{a6} 1\n";
        assert!(prompt.contains(line), "{prompt}");
    }
}

/// A submodule or a clone within the project is one line of `git status`, however often it changes.
// shows: REL-14
#[test]
fn work_in_a_repository_within_the_project_is_no_stall() {
    for commit in ["", "git -C inner commit -qam more; "] {
        let environment = Environment::with_git();
        let clone = "git -C inner init -q; git -C inner config user.name x; git -C inner config user.email x@x; \
                     echo 0 > inner/n; git -C inner add n; git -C inner commit -qm one";
        let first = format!("[ -e inner ] || {{ mkdir inner; {clone}; }}");
        let work = format!(
            "cat > /dev/null\n{first}\necho $RANDOM$$ >> inner/n\n{commit}echo 'I worked'\n"
        );
        let said = told(&environment, &work, &["--stall-sessions", "1", "-m", "4"]);
        assert!(
            said.contains("session limit reached after 4 of 4"),
            "{commit}: {said}"
        );
    }
}

/// A scratch directory, of which git tells nothing.
// shows: REL-14
#[test]
fn work_in_a_directory_that_git_ignores_is_no_stall() {
    let environment = Environment::new();
    environment.shell("git init -q .. && echo /project/ > ../.gitignore");
    let work = "cat > /dev/null\necho more >> z.txt\necho 'I worked'\n";
    let said = told(&environment, work, &["--stall-sessions", "1", "-m", "4"]);
    assert!(
        said.contains("session limit reached after 4 of 4"),
        "{said}"
    );
}

/// Beyond the files whose content is read, size and time tell.
// shows: REL-14
#[test]
fn work_behind_thousands_of_new_files_is_no_stall() {
    let environment = Environment::with_git();
    let many = "[ -e a ] || { mkdir a; (cd a; seq 1 2100 | xargs touch); }";
    let work = format!("cat > /dev/null\n{many}\necho more >> z.txt\necho 'I worked'\n");
    let said = told(&environment, &work, &["--stall-sessions", "1", "-m", "4"]);
    assert!(
        said.contains("session limit reached after 4 of 4"),
        "{said}"
    );
}
