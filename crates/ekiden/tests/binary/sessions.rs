//! What each session saw, said, left and changed: `sessions`, `show`, `diff`.

use serde_json::Value;

use crate::environment::{Environment, items};

const RUN: [&str; 6] = [
    "run",
    "task.md",
    "--agent",
    "rehearsal",
    "--verify",
    "[ -e item-5.txt ]",
];

/// Items that are committed as they are made.
fn committed(count: u32) -> String {
    let commit = "git add item-*; git -c user.name=T -c user.email=t@example.invalid commit --quiet --message=made";
    items(count).replace(".txt\n", &format!(".txt; {commit}\n"))
}

fn relay_of_two() -> Environment {
    let environment = Environment::with_git();
    environment.write("task.md", &committed(5));
    environment.run(&RUN).expect(0);
    environment
}

// shows: UIX-04
#[test]
fn the_sessions_of_a_run_are_listed() {
    let environment = relay_of_two();
    let told = environment.told(&["sessions"]);
    let words: Vec<Vec<&str>> = told
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[0],
        [
            "#", "began", "took", "context", "calls", "items", "verify", "ended"
        ]
    );
    assert_eq!(
        (words[1][0], &words[1][5..]),
        ("1", &["6", "3/5", "failed", "handed", "off"][..])
    );
    assert_eq!(
        words[2][6..],
        ["5/5", "passed", "says", "all", "is", "done"]
    );
    assert_eq!(
        words[3..],
        [
            vec!["next", "ekiden", "show", "2"],
            vec!["---", "exit", "code", "0"]
        ]
    );
    let answer: Value =
        serde_json::from_str(&environment.run(&["sessions", "--json"]).expect(0).stdout).unwrap();
    let second = &answer["sessions"][1];
    assert_eq!(second["left"], "completion");
    assert_eq!(second["verification"]["kind"], "passed");
    assert_eq!(
        (&second["items_done"], &second["attempts"]),
        (&Value::from(5), &Value::from(1))
    );
}

// shows: UIX-04
#[test]
fn a_session_is_shown_with_all_that_is_kept_of_it() {
    let environment = relay_of_two();
    let show = |part: &str| environment.run(&["show", "1", part]).expect(0).stdout;
    assert_eq!(show("--prompt"), environment.kept(1, "prompt.md"));
    assert_eq!(show("--progress"), environment.kept(1, "progress.md"));
    assert_eq!(show("--next-prompt"), environment.kept(1, "next_prompt.md"));
    assert_eq!(show("--knowledge"), environment.kept(1, "knowledge.md"));
    assert!(
        show("--events").contains("\n  Bash      echo made > item-1.txt"),
        "{}",
        show("--events")
    );
    let stream = environment
        .run(&["show", "1", "--events", "--json"])
        .expect(0)
        .stdout;
    assert_eq!(stream, environment.kept(1, "events.jsonl"));
    insta::assert_snapshot!(environment.told(&["show", "2", "--next-prompt"]), @r"
    --- standard error
    error: session 2 left no next_prompt.md
    hint: `ekiden show 2` shows what there is
    --- exit code 66
    ");
    insta::assert_snapshot!(environment.told(&["show", "7"]), @r"
    --- standard error
    error: run RUN has no session 7: 2 sessions began
    hint: `ekiden sessions` lists them
    --- exit code 66
    ");
    let overview = environment.told(&["show", "1"]);
    assert!(overview.starts_with("session 1 of run RUN"), "{overview}");
    for said in [
        "  items     3 of 5 done\n",
        "  verify    failed",
        "  kept      events.jsonl",
        "  more      ekiden show 1 --prompt | --progress | --next-prompt | --knowledge | --events | --verify\n",
        "ekiden diff 1",
    ] {
        assert!(overview.contains(said), "{overview}");
    }
    let last = environment.told(&["show", "2"]);
    assert!(last.contains("--progress | "), "{last}");
    assert!(!last.contains("--next-prompt"), "{last}");
}

// shows: UIX-04
#[test]
fn what_is_gone_from_the_archive_is_taken_from_the_log_or_said_to_be_gone() {
    let environment = relay_of_two();
    let written = environment.kept(1, "prompt.md");
    std::fs::write(
        environment.session(1).join("prompt.md"),
        written.replace("items", "idols"),
    )
    .unwrap();
    let changed = environment.run(&["show", "1", "--prompt"]).expect(0);
    assert!(
        changed.stderr.contains("its hash differs"),
        "{}",
        changed.stderr
    );

    let progress = environment.kept(1, "progress.md");
    std::fs::remove_dir_all(environment.session(1)).unwrap();
    let from_log = environment.run(&["show", "1", "--progress"]).expect(0);
    assert_eq!(from_log.stdout, progress);
    assert!(
        from_log.stderr.contains("this is from the log"),
        "{}",
        from_log.stderr
    );
    insta::assert_snapshot!(environment.told(&["show", "1", "--prompt"]), @r"
    --- standard error
    error: prompt.md is not in the archive any more: .git/ekiden/root/runs/RUN/sessions/1
    hint: `ekiden show 1` shows what there is
    --- exit code 66
    ");
    // What there is of several parts is printed.
    let parts = environment.run(&["show", "1", "--prompt", "--progress"]);
    let parts = parts.expect(66).stdout;
    assert!(parts.contains(progress.trim_end()), "{parts}");
    let overview = environment.told(&["show", "1"]);
    let gone = "the archive of this session is gone";
    assert!(overview.contains(gone), "{overview}");
    let of_log = "ekiden show 1 --progress | --next-prompt | --knowledge | --verify\n";
    assert!(overview.contains(of_log), "{overview}");
}

// shows: UIX-04
#[test]
fn a_session_s_changes_are_shown() {
    let environment = relay_of_two();
    let told = environment.told(&["diff", "2"]);
    for said in [
        "  commit    ",
        "\n--- session 1: PROGRESS.md\n+++ session 2: PROGRESS.md\n",
        "\n-- [ ] Item 4\n",
        "\n+- [x] Item 4\n",
        "\ndiff --git a/item-4.txt b/item-4.txt\n",
        "\n+made\n",
    ] {
        assert!(told.contains(said), "no `{said}` in\n{told}");
    }
    assert!(
        !told.contains("b/item-3.txt") && !told.contains(".ekiden"),
        "{told}"
    );
    let stat = environment.told(&["diff", "2", "--stat"]);
    assert!(
        stat.contains(" item-4.txt | 1 +\n") && !stat.contains("\n+"),
        "{stat}"
    );

    // A commit that git has lost is said to be lost.
    environment.shell("git checkout --quiet --orphan anew && git branch --quiet -D main && git reflog expire --expire=now --all && git gc --quiet --prune=now");
    let lost = environment.told(&["diff", "2"]);
    assert!(
        lost.contains("which git no longer has") && lost.contains("+- [x] Item 4\n"),
        "{lost}"
    );
}

/// There the empty tree has another name.
// shows: UIX-04
#[test]
fn the_first_commit_of_a_repository_with_sha256_is_shown() {
    let environment = Environment::new();
    environment.shell(
        "git init -q --object-format=sha256; git config user.name x; git config user.email x@x",
    );
    environment.write("task.md", &items(1));
    environment.run(&[&RUN[..4], &["-g"]].concat()).expect(0);
    let told = environment.told(&["diff", "1"]);
    assert!(told.contains("\n+++ b/item-1.txt\n"), "{told}");
    assert!(told.contains(" ekiden: session 1 checkpoint\n"), "{told}");
}

// shows: UIX-04
#[test]
fn outside_git_nothing_is_known_of_the_files() {
    let environment = Environment::new();
    environment.write("task.md", &items(2));
    environment.run(&RUN[..4]).expect(0);
    let told = environment.told(&["diff", "1"]);
    assert!(
        told.starts_with("session 1 of run RUN · the work dir is not in a git repository, so what"),
        "{told}"
    );
    assert!(
        told.contains("\n--- nothing\n+++ session 1: PROGRESS.md\n"),
        "{told}"
    );
    let answer: Value =
        serde_json::from_str(&environment.run(&["diff", "1", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(
        (&answer["known"], &answer["patch"]),
        (&Value::from("no_git"), &Value::Null)
    );
}
