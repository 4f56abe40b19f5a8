//! Checkpoints by hand: the document, the commit of work in progress, and what stays as it was.

use std::path::PathBuf;

use serde_json::Value;

use crate::environment::Environment;

const SESSION: &str = "0f2f56bf-5149-4505-ac0e-6c4df0442042";

/// A repository with a file of instructions, on a branch that names an issue.
fn repository() -> Environment {
    let environment = Environment::with_git().with("CLAUDE_CODE_SESSION_ID", SESSION);
    environment.git(&["switch", "--quiet", "--create", "feature/ANV-123-profile"]);
    environment.write(
        "CLAUDE.md",
        "# App\n\n## Error Handling\n\n## File Conventions\n",
    );
    environment.write("src/a.rs", "one\n");
    environment.write(".gitignore", "target/\n");
    // Else git guesses a name from the machine's.
    environment.git(&["config", "user.useConfigOnly", "true"]);
    environment.commit_all();
    environment
}

/// Changes of every kind, some of them staged.
fn dirty(environment: &Environment) {
    environment.write("src/a.rs", "staged\n");
    environment.git(&["add", "src/a.rs"]);
    environment.write("src/a.rs", "staged and more\n");
    environment.write("src/new.rs", "new\n");
    environment.write("target/built", "ignored\n");
}

fn wip_ref() -> String {
    format!("refs/ekiden/wip/{SESSION}")
}

fn asked(environment: &Environment, args: &[&str]) -> Value {
    let args = [args, &["--json"]].concat();
    serde_json::from_str(&environment.run(&args).expect(0).stdout).unwrap()
}

/// Makes a document; its text.
fn made(environment: &Environment) -> String {
    asked(environment, &["handoff", "--new"])["document"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The document without what differs from run to run.
fn normal(environment: &Environment, document: &str) -> String {
    let commit = environment.git(&["rev-parse", &wip_ref()]);
    let head = environment.git(&["rev-parse", "--short", "HEAD"]);
    let document = document
        .replace(commit.trim(), "COMMIT")
        .replace(&commit[..12], "COMMIT");
    let document = document.replace(head.trim(), "HEAD");
    let lines = document.lines().map(|line| match line.split_once(": ") {
        Some((key @ ("session_date" | "session_time" | "checkpoint_mark"), _)) => {
            format!("{key}: ...")
        }
        Some(_) | None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What git says of the person's own: branch, index, files.
fn own(environment: &Environment) -> [String; 4] {
    [
        environment.git(&["rev-parse", "HEAD"]),
        environment.git(&["symbolic-ref", "HEAD"]),
        environment.git(&["ls-files", "--stage"]),
        environment.git(&["status", "--porcelain"]),
    ]
}

// shows: CHK-004, CHK-12, HND-001, HND-002, HND-003, HND-005
#[test]
fn a_checkpoint_keeps_the_work_and_leaves_the_persons_own_as_it_was() {
    let environment = repository();
    dirty(&environment);
    let before = own(&environment);
    let document = made(&environment);
    insta::assert_snapshot!(normal(&environment, &document), @r#"
    ---
    session_date: ...
    session_time: ...
    branch: feature/ANV-123-profile
    linear_issues: ANV-123
    checkpoint_trigger: manual
    session: 0f2f56bf-5149-4505-ac0e-6c4df0442042
    wip_commit: COMMIT
    checkpoint_mark: ...
    ---

    # Session Handoff: ANV-123

    ## Checkpoint Reason

    The checkpoint was asked for.

    ## Context to Reload

    - **CLAUDE.md**: Sections Error Handling; File Conventions

    ## Remaining Context Budget

    Unknown: the usage of the original session is not known.

    ## Git Status

    - Branch: feature/ANV-123-profile
    - Last commit: HEAD begin
    - Work in progress: commit COMMIT under refs/ekiden/wip/0f2f56bf-5149-4505-ac0e-6c4df0442042
    - See it: `git show refs/ekiden/wip/0f2f56bf-5149-4505-ac0e-6c4df0442042`; bring it back: `git checkout --no-overlay refs/ekiden/wip/0f2f56bf-5149-4505-ac0e-6c4df0442042 -- :/` (undoes later changes of tracked files)

    Modified files (2):

    - `MM` src/a.rs
    - `??` src/new.rs

    ## Done

    _Empty: the agent fills in what is done, each item with the command that showed it and its result._

    ## Decisions

    _Empty: the agent fills in what was decided, on which facts, and what comes next._

    ## Blockers

    _Empty: the agent fills in what failed or is in the way, or "none"._

    ## What the Transcript Shows

    Nothing: there was no transcript to read.

    ## Issue State

    - Issue: ANV-123

    ## Next Steps

    1. Review the uncommitted changes in src/a.rs, src/new.rs: `git status`.

    ## Resume

    Start a fresh session in this project and run `ekiden orient`.
    "#);
    assert_eq!(own(&environment), before);
    let show = |args: &[&str]| environment.git(args);
    assert_eq!(show(&["log", "-1", "--format=%s|%P", &wip_ref()]).trim(), {
        format!("[WIP] ANV-123 - checkpoint|{}", before[0].trim())
    });
    assert_eq!(
        show(&["ls-tree", "-r", "--name-only", &wip_ref()])
            .lines()
            .collect::<Vec<_>>(),
        [".gitignore", "CLAUDE.md", "src/a.rs", "src/new.rs",]
    );
    assert_eq!(
        show(&["show", &format!("{}:src/a.rs", wip_ref())]),
        "staged and more\n"
    );
    assert!(
        !environment
            .state()
            .join(format!("guard/{SESSION}.index"))
            .exists()
    );
}

// shows: CHK-004
#[test]
fn lost_work_comes_back_from_the_ref() {
    let environment = repository();
    dirty(&environment);
    environment.shell("rm CLAUDE.md");
    let document = made(&environment);
    environment.git(&["reset", "--quiet", "--hard"]);
    environment.git(&["clean", "--quiet", "-fd"]);
    assert_eq!(
        (
            environment.read("src/a.rs"),
            environment.exists("src/new.rs")
        ),
        ("one\n".into(), false)
    );
    let command = document.split_once("bring it back: `").unwrap().1;
    let command = command.split_once('`').unwrap().0;
    // All of it, whichever directory the agent is in, and what was deleted is gone again.
    environment.shell(&format!("mkdir -p docs && cd docs && {command}"));
    assert_eq!(environment.read("src/a.rs"), "staged and more\n");
    assert_eq!(environment.read("src/new.rs"), "new\n");
    assert!(!environment.exists("CLAUDE.md"));
}

// shows: MEM-001
#[test]
fn a_checkpoint_outside_of_a_session_is_of_no_session() {
    let environment = repository().with("CLAUDE_CODE_SESSION_ID", "");
    made(&environment);
    let observed = asked(&environment, &["memory", "recent"])["observations"].clone();
    let from = &observed[0]["from"];
    assert_eq!(from["branch"], "feature/ANV-123-profile", "{observed}");
    assert_eq!(from["session"], Value::Null, "{observed}");
}

// shows: CHK-10
#[test]
fn asked_again_nothing_is_made_again() {
    let environment = repository();
    dirty(&environment);
    let first = asked(&environment, &["handoff", "--new"]);
    assert_eq!(asked(&environment, &["handoff", "--new"]), {
        let mut again = first.clone();
        again["new"] = false.into();
        again
    });
    let commit = environment.git(&["rev-parse", &wip_ref()]);
    environment.write("src/a.rs", "more\n");
    let second = asked(&environment, &["handoff", "--new"]);
    assert_ne!(second["file"], first["file"]);
    let earlier = environment.git(&["rev-parse", &format!("{}@{{1}}", wip_ref())]);
    assert_eq!(earlier, commit, "the reflog keeps it");
    assert!(
        second["document"]
            .as_str()
            .unwrap()
            .contains("The document before it of this session: ")
    );
}

// shows: CHK-004
#[test]
fn no_hook_runs_and_nobody_need_be_known_to_git() {
    let environment = repository();
    dirty(&environment);
    for hook in [
        "pre-commit",
        "post-index-change",
        "reference-transaction",
        "post-commit",
    ] {
        environment.script(&format!(".git/hooks/{hook}"), "echo ran >> ../ran; exit 1");
    }
    let document = made(&environment);
    assert!(document.contains("under refs/ekiden/wip/"), "{document}");
    assert!(!environment.path("ran").exists() && !environment.exists("ran"));
    let author = environment.git(&["log", "-1", "--format=%an %cn", &wip_ref()]);
    assert_eq!(author.trim(), "ekiden ekiden");
}

// shows: CHK-004
#[test]
fn odd_repositories_make_no_difference() {
    // Before the first commit.
    let empty = Environment::new().with("CLAUDE_CODE_SESSION_ID", SESSION);
    empty.git(&["init", "--quiet", "--initial-branch=main"]);
    empty.write("a", "a\n");
    assert!(made(&empty).contains("- Last commit: none yet\n"));
    assert_eq!(empty.git(&["show", &format!("{}:a", wip_ref())]), "a\n");

    // A locked index, a repository inside, a file too large, a path that is none to git.
    let odd = repository();
    dirty(&odd);
    odd.shell(
        "mkdir inner && git -C inner init --quiet; truncate -s 30M big.bin; touch -- ':(top)x' 'a\nb' -x",
    );
    odd.write(".git/index.lock", "");
    let before = own(&odd);
    let document = made(&odd);
    assert_eq!(own(&odd), before);
    assert!(
        document.contains("- Not in it: big.bin (30 MB)\n"),
        "{document}"
    );
    assert!(
        document.contains("- Not in it: inner/ (a repository of its own"),
        "{document}"
    );
    let files = odd.git(&["ls-tree", "-rz", "--name-only", &wip_ref()]);
    let files: Vec<&str> = files.split_terminator('\0').collect();
    let wanted = [
        "-x",
        ".gitignore",
        ":(top)x",
        "CLAUDE.md",
        "a\nb",
        "src/a.rs",
        "src/new.rs",
    ];
    assert_eq!(files, wanted);

    // A filter that is not installed, as git-lfs may be.
    let filtered = repository();
    filtered.write(".gitattributes", "*.bin filter=gone\n");
    filtered.git(&["config", "filter.gone.clean", "no-such-program"]);
    filtered.git(&["config", "filter.gone.required", "true"]);
    dirty(&filtered);
    filtered.write("large.bin", "large\n");
    let document = made(&filtered);
    let left_out = "- Not in it: large.bin (git cannot take it in)\n";
    assert!(document.contains(left_out), "{document}");
    let kept = filtered.git(&["show", &format!("{}:src/a.rs", wip_ref())]);
    assert_eq!(kept, "staged and more\n");

    // In the middle of a merge with a conflict.
    let merge = repository();
    merge.git(&["switch", "--quiet", "--create", "other"]);
    merge.write("src/a.rs", "theirs\n");
    merge.commit_all();
    merge.git(&["switch", "--quiet", "-"]);
    merge.write("src/a.rs", "ours\n");
    merge.commit_all();
    merge.shell("! git -c user.name=T -c user.email=t@e merge other >/dev/null");
    let before = own(&merge);
    let document = made(&merge);
    assert_eq!(own(&merge), before);
    assert!(document.contains("- Under way: a merge\n"), "{document}");
    assert!(
        document.contains("1. Finish a merge, which git has in progress.\n"),
        "{document}"
    );
    assert!(
        merge
            .git(&["show", &format!("{}:src/a.rs", wip_ref())])
            .contains("<<<<<<< HEAD\nours\n")
    );
}

// shows: CHK-004, HND-002
#[test]
fn without_git_and_where_git_fails_there_is_a_document() {
    let without = Environment::new();
    without.write("a", "a\n");
    assert!(made(&without).contains("\nNo git repository.\n"));
    let broken = repository();
    dirty(&broken);
    broken.write(".git/HEAD", "rubbish");
    let document = made(&broken);
    assert!(document.contains("\nNo git repository.\n"), "{document}");
    let unread = repository();
    unread.write(".git/index", "rubbish");
    let told = unread.told(&["checkpoint"]);
    assert!(
        told.contains("Work in progress: not kept in git\n"),
        "{told}"
    );
    let unusable = repository();
    dirty(&unusable);
    unusable.write(".git/objects/info/alternates", "");
    unusable.shell("rm -rf .git/objects/??");
    let document = made(&unusable);
    assert!(
        document.contains("could not be") && document.contains("## Next Steps"),
        "{document}"
    );
}

// shows: CHK-004
#[test]
fn the_settings_say_where_the_work_goes() {
    let off = repository()
        .with("EKIDEN_GUARD_WIP", "off")
        .with("EKIDEN_GUARD_ISSUE", "#7");
    dirty(&off);
    let document = made(&off);
    assert!(
        document.contains("- Work in progress is not committed, as the settings say.\n"),
        "{document}"
    );
    assert!(document.contains("\nissue: \"#7\"\n"), "{document}");
    assert_eq!(off.git(&["for-each-ref", "refs/ekiden"]), "");

    let branch = repository().with("EKIDEN_GUARD_WIP", "branch");
    branch.git(&["config", "user.name", "Mia"]);
    branch.git(&["config", "user.email", "mia@example.invalid"]);
    dirty(&branch);
    branch.git(&["mv", "CLAUDE.md", "AGENTS.md"]);
    branch.script(".git/hooks/pre-commit", "exit 1");
    let of_tool = |number: &u32| branch.write(&format!("node_modules/{number}.js"), "");
    (0..2_001).collect::<Vec<u32>>().iter().for_each(of_tool);
    let document = made(&branch);
    assert!(document.contains(" on the branch\n"), "{document}");
    assert!(document.contains("Modified files (2001):"), "{document}");
    let id = branch.git(&["rev-parse", "HEAD"]);
    for line in [
        format!(
            "- Last commit: {}",
            branch.git(&["log", "-1", "--format=%h %s"]).trim()
        ),
        format!("commit of work in progress: `git show {}`.", &id[..12]),
    ] {
        assert!(document.contains(&line), "{document}");
    }
    let left_out = "node_modules/ (too many new files)";
    assert!(document.contains(left_out), "{document}");
    assert_eq!(
        branch.git(&["log", "-1", "--format=%s %an"]).trim(),
        "[WIP] ANV-123 - checkpoint Mia"
    );
    assert_eq!(branch.git(&["status", "--porcelain"]), "?? node_modules/\n");

    branch.write(".git/info/exclude", "node_modules/\n");
    branch.write("src/a.rs", "more\n");
    let document = made(&branch);
    assert!(
        document.contains("\nNo uncommitted changes.\n"),
        "{document}"
    );
    assert!(!document.contains("Review the uncommitted"), "{document}");
    assert_eq!(asked(&branch, &["handoff", "--new"])["new"], false);

    let nobody = repository().with("EKIDEN_GUARD_WIP", "branch");
    dirty(&nobody);
    let document = made(&nobody);
    assert!(
        document.contains("- It is not on the branch: git does not know who you are\n"),
        "{document}"
    );
    assert!(document.contains(" under refs/ekiden/wip/"), "{document}");
}

/// Nor are its sessions told in an issue that it names.
// shows: CHK-004, TRK-05
#[test]
fn a_project_that_was_cloned_has_no_commits_made_on_a_branch() {
    for line in ["wip = \"branch\"", "issue = \"them/theirs#9\""] {
        let environment = repository();
        environment.write(".ekiden/config.toml", &format!("[guard]\n{line}\n"));
        let said = environment.run(&["handoff", "--new"]);
        assert_eq!(said.code, 78, "{said}");
    }
}

/// A transcript of the session, where the client keeps it.
fn transcript(environment: &Environment, lines: &[&str]) -> PathBuf {
    let path = environment
        .path("home")
        .join(format!(".claude/projects/-project/{SESSION}.jsonl"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

// shows: HND-003, HND-09
#[test]
fn where_nobody_named_an_issue_there_is_none() {
    let environment = Environment::with_git();
    let document = made(&environment);
    assert!(document.contains("Issue: none named"), "{document}");
    let told = environment.told(&["orient"]);
    assert!(told.contains("\nissue       Issue: none named\n"), "{told}");
}

// shows: HND-004
#[test]
fn a_handoff_of_this_branch_is_shown_before_a_newer_one_of_another() {
    let environment = Environment::with_git();
    made(&environment);
    environment.git(&["switch", "--quiet", "--create", "other"]);
    environment.write("more.txt", "more");
    environment.run(&["handoff", "--new"]).expect(0);
    assert!(environment.told(&["orient"]).contains("other"));
    environment.git(&["switch", "--quiet", "-"]);
    let told = environment.told(&["orient"]);
    assert!(!told.contains("other"), "{told}");
}

/// It is there for the next session that a person starts.
// shows: HND-004, MON-08
#[test]
fn a_session_of_a_run_reads_a_handoff_and_leaves_it_unread() {
    let environment = repository();
    made(&environment);
    let of_run = environment
        .with("CLAUDE_CODE_SESSION_ID", "another")
        .with("EKIDEN_RUN", "7f3a0b1c");
    let marks = of_run.dir().join(".git/ekiden/root/guard/consumed");
    let consumed = || std::fs::read_dir(&marks).map_or(0, Iterator::count);
    let told = of_run.told(&["orient"]);
    assert!(told.contains("ANV-123"), "{told}");
    insta::assert_snapshot!(of_run.told(&["handoff", "--new"]), @r"
    --- standard error
    error: cannot watch this session: it is one of a run of ekiden
    hint: its run hands it off by itself; `ekiden status` shows how far it is
    --- exit code 65
    ");
    assert_eq!(consumed(), 0);
    let mut of_a_person = of_run.command(&["orient"]);
    of_a_person.env_remove("EKIDEN_RUN").output().unwrap();
    assert_eq!(consumed(), 1);
}

// shows: SHD-002, HND-004
#[test]
fn a_session_on_a_part_of_a_plan_hands_on_to_the_next_part() {
    let environment = repository();
    let section = |title: &str| format!("## {title}\n\n{}\n", "- [ ] do it well\n".repeat(40));
    let spec = format!("# Spec\n\n{}{}", section("Lexer"), section("Parser"));
    environment.write("spec.md", &spec);
    environment
        .run(&["shard", "spec.md", "--into", "2", "-o", "plan.toml"])
        .expect(0);
    let steps = |prompt: &str| {
        let line =
            serde_json::json!({"type": "user", "uuid": prompt, "message": {"content": prompt}});
        transcript(&environment, &[&line.to_string()]);
        environment.run(&["handoff", "--new"]).expect(0);
        environment.told(&["orient"])
    };
    let first = steps("Do S01 of plan.toml");
    assert!(
        first.contains("When S01 of plan.toml is done, the next part is S02: Parser"),
        "{first}"
    );
    let last = steps("Do S02 of plan.toml, then stop");
    assert!(!last.contains("the next part"), "{last}");
    let by_file = steps("Do what plan.parts/S01.md says");
    assert!(
        by_file.contains("asked to do S02 of plan.toml"),
        "{by_file}"
    );
    let none = steps("Read plan.toml");
    assert!(!none.contains("the next part"), "{none}");
}

// shows: HND-004, HND-006, HND-09, HND-005
#[test]
fn scenario_5_a_session_ends_and_the_next_one_orients_itself() {
    let environment = repository();
    dirty(&environment);
    environment.write("docs/spec-profile.md", "# Spec\n");
    transcript(
        &environment,
        &[
            r#"{"type":"user","uuid":"1","message":{"content":"Build the profile page, see docs/spec-profile.md."}}"#,
            r#"{"type":"assistant","uuid":"2","message":{"id":"m","model":"x","content":[{"type":"tool_use","id":"t","name":"TodoWrite","input":{"todos":[{"content":"form","status":"completed"},{"content":"avatar","status":"in_progress"}]}}]}}"#,
            r#"{"type":"assistant","uuid":"3","message":{"id":"n","model":"x","content":[{"type":"text","text":"The form is done."}]}}"#,
        ],
    );
    let asked = asked(&environment, &["handoff"]);
    assert_eq!(
        asked["fill_in"],
        serde_json::json!(["Done", "Decisions", "Blockers"])
    );
    let file = PathBuf::from(asked["file"].as_str().unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    let filled = text.replace(
        "_Empty: the agent fills in what was decided, on which facts, and what comes next._",
        "- uploads go through src/a.rs",
    );
    assert_ne!(filled, text);
    std::fs::write(&file, filled).unwrap();

    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    let normal = |text: String| text.replace(&name, "NAME").replace(&name[..10], "DATE");
    let next = environment
        .with("CLAUDE_CODE_SESSION_ID", "another")
        .with("CLAUDECODE", "1");
    insta::assert_snapshot!(normal(next.told(&["orient"])), @"
    handoff     .ekiden/handoffs/NAME
    made        ¦ DATE CLOCK
    reason      ¦ manual
    about       ¦ ANV-123 Build the profile page, see docs/spec-profile.md.
    task        ¦ Build the profile page, see docs/spec-profile.md.
    branch      ¦ feature/ANV-123-profile
    issue       ¦ Issue: ANV-123
    reload      ¦ **CLAUDE.md**: Sections Error Handling; File Conventions
                ¦ **Active Spec**: docs/spec-profile.md
    decided     ¦ uploads go through src/a.rs
    next steps  ¦ 1. Continue: avatar
                ¦ 2. Review the uncommitted changes in src/a.rs, docs/spec-profile.md, src/new.rs: `git status`.
                ¦ 3. Read the agent's last words in the document and continue from there.
    --- exit code 0
    ");
    assert!(
        next.state().join("guard/consumed").join(&name).exists(),
        "it is not loaded again by itself"
    );
    assert_eq!(name.len(), "2026-01-07-1045.md".len());

    // Its own document knows where the work comes from, also for the session after it.
    let of_next = made(&next);
    for known in [
        "The work began with: Build the profile page, see docs/spec-profile.md.\n".to_owned(),
        format!("The document that this session continued from: {name}\n"),
        "**Active Spec**: docs/spec-profile.md\n".to_owned(),
        "uploads go through src/a.rs\n".to_owned(),
    ] {
        assert!(of_next.contains(&known), "{known}: {of_next}");
    }
    let third = next.with("CLAUDE_CODE_SESSION_ID", "a third");
    let told = third.told(&["orient"]);
    assert!(
        told.contains("began with  ¦ Build the profile page"),
        "{told}"
    );
    let of_third = made(&third);
    assert!(
        of_third.contains("The work began with: Build"),
        "{of_third}"
    );
}

// shows: HND-09
#[test]
fn where_there_is_nothing_to_go_on_from_that_is_said() {
    let environment = Environment::new();
    insta::assert_snapshot!(environment.told(&["orient"]), @r#"
    no handoff here yet: nothing to continue from
    next  ekiden handoff
    --- exit code 0
    "#);
    let json: Value =
        serde_json::from_str(&environment.run(&["orient", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"v": 1, "handoff": null, "relay": null})
    );
    assert!(!environment.exists(".ekiden"));
}

// shows: HND-09
#[test]
fn a_relay_that_is_not_finished_is_something_to_go_on_from() {
    let environment = Environment::new();
    environment.write("task.md", &crate::environment::items(7));
    environment
        .run(&["run", "task.md", "--agent", "rehearsal", "-m", "1"])
        .expect(3);
    insta::assert_snapshot!(environment.told(&["orient"]), @r#"
    RUN  relay  stopped  session 1 of 1 · CLOCK to CLOCK   all its sessions are used   task.md
    next  ekiden resume -m 1
    notes       .ekiden/NEXT_PROMPT.md
    --- exit code 0
    "#);
}

// shows: HND-001
#[test]
fn a_document_is_private_and_git_does_not_see_it() {
    let environment = repository();
    made(&environment);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    let modes = crate::environment::modes(&environment.dir().join(".ekiden/handoffs"));
    assert!(matches!(modes[..], [(_, 0o600)]), "{modes:?}");
}
