//! A document is split without a model, and the plan is carried out.

use ekiden_testkit::trackers::{FakeGitHub, ServiceFault, TrackerServer};

use crate::environment::Environment;
use crate::plan::repository;

/// Two sections of so many items that the rehearsal agent can do, after some words.
fn spec(words: usize, items: usize) -> String {
    let filler = "More words of it. ".repeat(words);
    let filler = filler.trim_end();
    let section = |title: &str, file: &str, count: usize| {
        let items = (1..=count).map(|n| {
            format!("- [ ] Write {file}{n}\n\n  ```sh\n  echo {n} > {file}{n}\n  ```\n\n")
        });
        format!("## {title}\n\n{filler}\n\n{}", items.collect::<String>())
    };
    format!(
        "# Letters\n\nIn short.\n\n{}{}It needs the Small letters first.\n",
        section("Small letters", "a", items),
        section("Large letters", "b", items)
    )
}

fn environment(words: usize, items: usize) -> Environment {
    let environment = repository();
    environment.write("spec.md", &spec(words, items));
    environment.commit_all();
    environment
}

// shows: SHD-001
#[test]
fn a_document_is_shown_in_parts_and_nothing_is_written() {
    let environment = environment(1, 12);
    insta::assert_snapshot!(environment.told(&["shard", "spec.md"]), @r"
    spec.md · about 102k tokens, 62% of the usable window · 3 parts
      S01  Small letters                             23%  lines 5-55
      S02  Small letters (continued), Large letters  23%  lines 57-107  needs S01 (the same section)
      S03  Large letters (continued)                 23%  lines 109-157  needs S01 (names “Small letters”), S02 (the same section)

    next  ekiden shard spec.md -o plan.toml
    --- exit code 0
    ");
    assert!(!environment.exists("plan.toml"));
    insta::assert_snapshot!(environment.told(&["shard", "spec.md", "--into", "1"]), @r"
    spec.md · about 102k tokens, 62% of the usable window · 1 part
      S01  Small letters, Large letters  62%  lines 5-157

    next  ekiden run spec.md
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.told(&["shard", "spec.md", "--max", "0"]), @r"
    --- standard error
    error: invalid value '0' for '--max <PERCENT>': not a share from 1% to 100%, such as 30%

    For more information, try '--help'.
    --- exit code 2
    ");
}

// shows: SHD-001
#[test]
fn the_plan_quotes_each_part_whole_and_is_carried_out() {
    let environment = environment(1, 2);
    insta::assert_snapshot!(environment.told(&["shard", "spec.md", "--into", "2", "-o", "plan.toml"]), @r"
    spec.md · about 22k tokens, 14% of the usable window · 2 parts
      S01  Small letters   9%  lines 5-19
      S02  Large letters   9%  lines 21-37  needs S01 (names “Small letters”)

    next  ekiden execute plan.toml
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.read("plan.toml"), @r#"
    format = 1
    project = "spec.md"
    description = "Parts of spec.md, made by ekiden."

    [[stage]]
    id = "S01"
    name = "Small letters"
    estimate_tokens = 14050
    prompt = """
    Do part 1 of 2 of spec.md: Small letters. It stands below, whole. Do all of it, and leave these parts to other sessions:
    - S02: Large letters

    The document begins, for all parts:

    # Letters

    In short.

    Your part:

    ## Small letters

    More words of it.

    - [ ] Write a1

      ```sh
      echo 1 > a1
      ```

    - [ ] Write a2

      ```sh
      echo 2 > a2
      ```
    """

    [[stage]]
    id = "S02"
    name = "Large letters"
    description = "needs S01 (names “Small letters”)"
    needs = ["S01"]
    estimate_tokens = 14061
    prompt = """
    Do part 2 of 2 of spec.md: Large letters. It stands below, whole. Do all of it, and leave these parts to other sessions:
    - S01: Small letters (done, you build on it)

    The document begins, for all parts:

    # Letters

    In short.

    Your part:

    ## Large letters

    More words of it.

    - [ ] Write b1

      ```sh
      echo 1 > b1
      ```

    - [ ] Write b2

      ```sh
      echo 2 > b2
      ```

    It needs the Small letters first.
    """
    "#);
    insta::assert_snapshot!(environment.told(&["shard", "spec.md", "-o", "plan.toml"]), @r"
    --- standard error
    error: plan.toml exists already
    hint: it was left as it is; `--force` writes over it
    hint: `--output` names another manifest
    --- exit code 74
    ");
    insta::assert_snapshot!(environment.told(&["execute", "plan.toml", "--dry-run", "--agent", "rehearsal"]), @r"
    spec.md · 2 stages, at most 3 at a time, each in a worktree
    wave 1
      S01  Small letters   about 14k tokens · no validation
    wave 2
      S02  Large letters   needs S01 · about 14k tokens · no validation
    about 28k tokens in all, as the manifest says
    --- exit code 0
    ");
    let told = environment.told(&["execute", "plan.toml", "--agent", "rehearsal", "--yes"]);
    assert!(told.trim_end().ends_with("--- exit code 0"), "{told}");
    assert!(environment.exists("a2") && environment.exists("b2"));
}

// shows: SHD-001
#[test]
fn a_part_too_long_for_a_task_goes_into_a_file_that_its_stage_is_shown() {
    let environment = environment(400, 12);
    insta::assert_snapshot!(environment.told(&["shard", "spec.md", "-o", "plan.toml"]), @r"
    spec.md · about 107k tokens, 65% of the usable window · 3 parts
      S01  Small letters                             25%  lines 5-55
      S02  Small letters (continued), Large letters  25%  lines 57-107  needs S01 (the same section)
      S03  Large letters (continued)                 23%  lines 109-157  needs S01 (names “Small letters”), S02 (the same section)

    next  ekiden execute plan.toml
    --- exit code 0
    ");
    let manifest = environment.read("plan.toml");
    assert!(
        manifest.contains("context = [\"plan.parts/S02.md\"]"),
        "{manifest}"
    );
    assert!(
        environment
            .read("plan.parts/S01.md")
            .starts_with("# Letters\n\nIn short.\n\n## Small letters\n")
    );
    let told = environment.told(&["execute", "plan.toml", "--dry-run", "--agent", "rehearsal"]);
    assert!(told.trim_end().ends_with("--- exit code 0"), "{told}");
    insta::assert_snapshot!(environment.told(&["shard", "spec.md", "-o", "../plan.toml"]), @r"
    --- standard error
    error: cannot write ../plan.toml: it lies outside of the work dir, and its parts would too
    hint: name another `--output`
    --- exit code 66
    ");
}

// shows: SHD-002
#[test]
fn a_run_and_an_estimate_of_a_large_document_suggest_its_parts() {
    let environment = environment(1, 12);
    insta::assert_snapshot!(environment.told(&["checkpoint", "--estimate", "spec.md"]), @r"
    Estimate    about 102k, 62% of the usable window: 410 for the text, 24 open items, and what any task takes
    Advice      shard it first
      - shard: split it into smaller tasks, each under 30% of the window
      - checkpoint first: `ekiden checkpoint`, then begin it in a fresh session with `ekiden orient`
      - proceed: do it in this session all the same
    spec.md may take about 62% of the usable window. Shard it first, into 3 parts:
      S01  Small letters                             23%  lines 5-55
      S02  Small letters (continued), Large letters  23%  lines 57-107  needs S01 (the same section)
      S03  Large letters (continued)                 23%  lines 109-157  needs S01 (names “Small letters”), S02 (the same section)
    `ekiden shard spec.md -o plan.toml` writes them as a plan, `ekiden shard spec.md --issues ISSUE` makes sub-issues of them.
    --- exit code 0
    ");
    let missing = environment.run(&["checkpoint", "--estimate", "spce.md"]);
    let missing = missing.expect(66).stderr;
    assert!(missing.contains("did you mean `spec.md`?"), "{missing}");
    let told = environment.told(&["run", "spec.md", "--agent", "claude"]);
    let suggestion = "spec.md may take about 62% of the usable window. Shard it first, into 3 parts:\n  S01  Small letters  ";
    assert!(told.contains(suggestion), "{told}");
    assert!(told.contains("works through it all the same"), "{told}");
    let told = environment.told(&["run", "spec.md", "--agent", "rehearsal", "-m", "1"]);
    assert!(!told.contains("Shard it"), "its window is another: {told}");
}

// shows: SHD-001
#[test]
fn a_planner_may_name_the_parts_and_what_they_need() {
    let environment = environment(1, 2).with("EKIDEN_AGENT", "rehearsal");
    let plain = ["shard", "spec.md", "--into", "2", "--json"];
    let parts = |args: &[&str]| -> serde_json::Value {
        let said = environment.run(args).expect(0).stdout;
        serde_json::from_str(said.lines().last().unwrap()).unwrap()
    };
    let (before, after) = (
        parts(&plain),
        parts(&[&plain[..], &["--with-model"]].concat()),
    );
    let of = |answer: &serde_json::Value, key: &str| {
        let shards = answer["shards"].as_array().unwrap();
        shards
            .iter()
            .map(|shard| shard[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of(&after, "title"),
        ["Do: Small letters", "Do: Large letters"]
    );
    assert_eq!(of(&after, "range"), of(&before, "range"), "the cuts stay");
    assert_eq!(after["shards"][1]["needs"][0]["id"], "S01");
    assert!(environment.runs().is_empty());
}

// shows: SHD-003
#[test]
fn sub_issues_are_made_once_somebody_agrees_and_not_twice() {
    let environment = environment(1, 2);
    environment.run(&["issue", "new", "Letters"]).expect(0);
    let issues = ["shard", "spec.md", "--into", "2", "--issues", "letters"];
    insta::assert_snapshot!(environment.told(&issues), @r"
    --- standard error
    error: no sub-issue of letters was made: nobody agreed
    hint: answer yes on a terminal, or add `--yes`
    --- exit code 78
    ");
    let agreed = [&issues[..], &["--yes"]].concat();
    insta::assert_snapshot!(environment.told(&agreed), @r"
    spec.md · about 22k tokens, 14% of the usable window · 2 parts
      S01  Small letters   9%  lines 5-19
      S02  Large letters   9%  lines 21-37  needs S01 (names “Small letters”)
      issue     s01-small-letters
      issue     s02-large-letters
    --- exit code 0
    ");
    let shown = environment.told(&["issue", "show", "s02-large-letters"]);
    assert!(shown.contains("It needs the Small letters first.\n\nLines 21-37 of spec.md, about 9% of a session's usable window; needs S01"), "{shown}");
    environment.run(&agreed).expect(0);
    let misspelled = ["shard", "spec.md", "--issues", "leters", "--yes"];
    let said = environment.run(&misspelled).expect(66);
    let text = "error: cannot make the sub-issues: local: leters is not there";
    assert!(said.stderr.contains(text), "{said}");
    let listed = environment.told(&["issue", "list"]);
    assert_eq!(listed.matches("letters").count(), 5, "{listed}");
}

/// A file that the document names has grown since, and with it the size of the parts.
// shows: SHD-003
#[test]
fn parts_whose_size_has_changed_are_not_made_again() {
    let environment = environment(1, 2);
    let spec = environment.read("spec.md");
    let spec = spec.replace("More words of it.", "As `notes.md` says.");
    environment.write("spec.md", &spec);
    environment.write("notes.md", "short\n");
    environment.run(&["issue", "new", "Letters"]).expect(0);
    let issues = ["shard", "spec.md", "--into", "2", "--issues", "letters"];
    let agreed = [&issues[..], &["--yes"]].concat();
    let made = environment.run(&agreed).expect(0).stdout;
    environment.write("notes.md", &"More words of it. ".repeat(2_000));
    assert_ne!(environment.run(&agreed).expect(0).stdout, made);
    let listed = environment.run(&["issue", "list"]).expect(0).stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
}

// shows: SHD-003, MEM-12
#[test]
fn sub_issues_have_no_secret() {
    let environment = environment(1, 2);
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let spec = environment.read("spec.md");
    let spec = spec.replace("Small letters", &format!("Small {secret}"));
    environment.write(
        "spec.md",
        &spec.replace("More words of it.", &format!("Push with {secret}.")),
    );
    environment.run(&["issue", "new", "Letters"]).expect(0);
    let issues = [
        "shard", "spec.md", "--into", "2", "--issues", "letters", "--yes",
    ];
    environment.run(&issues).expect(0);
    let files = std::fs::read_dir(environment.dir().join(".issues")).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let all: String = texts.collect();
    assert!(all.contains("title: S01 Small [masked: "), "{all}");
    assert!(all.contains("Push with [masked: "), "{all}");
    assert!(!all.contains(&secret), "{all}");
}

fn with_github(environment: Environment, server: &TrackerServer<FakeGitHub>) -> Environment {
    environment
        .with("EKIDEN_TRACKER_GITHUB_URL", &server.url(""))
        .with("EKIDEN_TRACKER_GITHUB_REPO", "me/app")
        .with("EKIDEN_TRACKER_KIND", "github")
        .with("GITHUB_TOKEN", "token")
}

// shows: SHD-003
#[test]
fn sub_issues_and_plan_are_made_by_the_same_command_after_a_failure() {
    let server = TrackerServer::start(FakeGitHub::with("me/app", &["Letters"]));
    let environment = with_github(environment(1, 2), &server);
    let shard = ["shard", "spec.md", "--into", "2", "--issues", "#1"];
    let shard = [&shard[..], &["-o", "plan.toml", "--yes"]].concat();
    // The second part does not arrive.
    server.fake().fault_at(6, ServiceFault::NoAnswer);
    environment.run(&shard).expect(69);
    assert!(!environment.exists("plan.toml"));
    environment.run(&shard).expect(0);
    assert!(environment.exists("plan.toml"));
    let titles = |server: &TrackerServer<FakeGitHub>| {
        let fake = server.fake();
        let issues = fake.service.issues.iter();
        issues.map(|issue| issue.title.clone()).collect::<Vec<_>>()
    };
    let made = ["Letters", "S01 Small letters", "S02 Large letters"];
    assert_eq!(titles(&server), made);
}

// shows: SHD-003
#[test]
fn parts_that_are_too_long_for_github_are_refused_with_a_size_that_fits() {
    let server = TrackerServer::start(FakeGitHub::with("me/app", &["Letters"]));
    let environment = with_github(repository(), &server);
    let words = "More words of it. ".repeat(100);
    let section = |title: &str| {
        let paragraphs = (1..=40).map(|number| format!("Word {number}. {words}\n\n"));
        format!("## {title}\n\n{}", paragraphs.collect::<String>())
    };
    let spec = format!("# Letters\n\n{}{}", section("Small"), section("Large"));
    environment.write("spec.md", &spec);
    let issues = ["shard", "spec.md", "--issues", "#1", "--yes"];
    insta::assert_snapshot!(environment.told(&issues), @r"
    --- standard error
    error: cannot make the sub-issues: S01 is longer than the 65,536 characters that GitHub takes
    hint: `--max 18%` makes parts that fit
    --- exit code 65
    ");
    assert_eq!(server.fake().service.issues.len(), 1);
    let smaller = [&issues[..], &["--max", "18%"]].concat();
    environment.run(&smaller).expect(0);
    assert!(server.fake().service.issues.len() > 2);
}

// shows: SHD-001
#[test]
fn no_planner_is_asked_for_a_plan_that_cannot_be_written() {
    let environment = environment(1, 2);
    environment.write("plan.toml", "mine\n");
    let with_model = ["--with-model", "--agent", "rehearsal"];
    for output in ["plan.toml", "../plan.toml", "new.json", "new.yaml"] {
        let words = ["shard", "spec.md", "--into", "2", "-o", output];
        let said = environment.run(&[&words[..], &with_model].concat());
        assert!(!said.to_string().contains("session 1"), "{said}");
        assert!(said.stderr.starts_with("error: "), "{said}");
    }
    let json = ["shard", "spec.md", "--into", "2", "-o", "new.json"];
    let said = environment.run(&json).expect(2);
    assert!(said.stderr.ends_with("hint: name it new.toml\n"), "{said}");
}

/// The line below the table does what was shown.
// shows: SHD-001
#[test]
fn the_next_command_repeats_what_was_chosen() {
    let environment = environment(1, 2);
    environment.shell("mkdir '../a b' && mv spec.md \"../a b/my spec.md\"");
    let next = |args: &[&str]| {
        let said = environment.run(args).expect(0).stdout;
        let next = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("next  "));
        next.unwrap().to_owned()
    };
    let spec = ["shard", "../a b/my spec.md", "-d", "../a b"];
    let shown = next(&[&spec[..], &["--into", "2"]].concat());
    let there = environment.path("a b");
    let there = there.display();
    assert_eq!(
        shown,
        format!("ekiden shard '../a b/my spec.md' --into 2 -o '{there}/plan.toml' -d '{there}'")
    );
    let program = env!("CARGO_BIN_EXE_ekiden");
    environment.shell(&shown.replacen("ekiden", program, 1));
    let text = std::fs::read_to_string(environment.path("a b/plan.toml")).unwrap();
    assert_eq!(text.matches("[[stage]]").count(), 2);
    let shown = next(&[&spec[..], &["--max", "10", "-o", "../a b/other.toml"]].concat());
    let execute = format!("ekiden execute '{there}/other.toml' -d '{there}'");
    assert_eq!(shown, execute);
    let shown = next(&[&spec[..], &["--max", "10"]].concat());
    assert!(shown.contains(" --max 10% "), "{shown}");
    let shown = next(&["init", "my task.md", "-d", "../a b"]);
    let run = format!("ekiden run '{there}/my task.md' -d '{there}'");
    assert_eq!(shown, format!("{run} --verify 'COMMAND' --agent rehearsal"));
}
