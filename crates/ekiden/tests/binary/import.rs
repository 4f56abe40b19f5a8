//! What cleave, CASM and CCS left, taken over.

use std::time::Duration;

use ekiden_testkit::pty::Pty;
use expect_test::expect;

use crate::environment::{Environment, items, modes};
use crate::running::wait_until;

fn casmrc() -> Environment {
    let environment = Environment::new()
        .with("CLEAVE_PAUSE", "10")
        .with("CLEAVE_HANDOFF_THRESHOLD", "55")
        .with("CLEAVE_SESSION", "3");
    environment.write(
        ".casmrc.json",
        r#"{"model": "sonnet", "planningModel": "opus", "maxTurnsPerSession": 50, "permissionMode": "bypassPermissions",
            "validation": {"typeCheck": true, "lint": false}, "colour": 3}"#,
    );
    environment.write(
        ".cleave/config",
        "# mine\nMAX_SESSIONS=20\nCLEAVE_PAUSE=5\nVERIFY='make test'\nSKIP_PERMISSIONS=1\n",
    );
    environment
}

// shows: RUN-04
#[test]
fn settings_are_taken_over_key_by_key_and_what_has_no_counterpart_is_told() {
    let environment = casmrc();
    let before = environment.read(".casmrc.json");
    let dry = environment.told(&["import", "--dry-run"]);
    assert!(!environment.exists(".ekiden/config.toml"), "{dry}");
    expect![[r#"
        CLEAVE_HANDOFF_THRESHOLD=55                   levels = 45,55,65
        CLEAVE_PAUSE=10                               pause = 10
        CLEAVE_SESSION=3                              not taken over: it was set for sessions, which find EKIDEN_RUN, EKIDEN_SESSION and their work dir here
        .cleave/config: MAX_SESSIONS=20               max_sessions = 20; it is more than you allow, so it holds after `ekiden config approve`
        .cleave/config: CLEAVE_PAUSE=5                not taken over: CLEAVE_PAUSE=10 says `10`
        .cleave/config: VERIFY=make test              not taken over: a project's file may not set it: `--verify 'make test'`, or `ekiden config set verify 'make test'`
        .cleave/config: SKIP_PERMISSIONS=1            not taken over: a permission bypass is never imported; you are asked when a run starts, or give `--skip-permissions` then
        .casmrc.json: colour=3                        not taken over: it has no counterpart
        .casmrc.json: maxTurnsPerSession=50           max_turns = 50
        .casmrc.json: model=sonnet                    model = sonnet
        .casmrc.json: permissionMode=bypassPermissions  not taken over: a permission bypass is never imported; you are asked when a run starts, or give `--skip-permissions` then
        .casmrc.json: planningModel=opus              models.plan = opus
        .casmrc.json: validation.lint=false           not taken over: it is off
        .casmrc.json: validation.typeCheck=true       not taken over: a project's file may not set it: `ekiden config set validation.type_check 'npx tsc --noEmit'`
        --- exit code 0"#]].assert_eq(&environment.told(&["import"]));
    expect![[r#"
        models.plan = "opus"
        model = "sonnet"
        max_turns = 50
        max_sessions = 20
        pause = 10
        levels = "45,55,65"
    "#]]
    .assert_eq(&environment.read(".ekiden/config.toml"));
    assert_eq!(environment.read(".casmrc.json"), before);
}

// shows: RUN-04
#[test]
fn twice_is_the_same_as_once() {
    let environment = casmrc();
    environment.run(&["import"]).expect(0);
    let once = environment.read(".ekiden/config.toml");
    expect![[r#"
        CLEAVE_HANDOFF_THRESHOLD=55                   levels = 45,55,65 (already there)
        CLEAVE_PAUSE=10                               pause = 10 (already there)
        CLEAVE_SESSION=3                              not taken over: it was set for sessions, which find EKIDEN_RUN, EKIDEN_SESSION and their work dir here
        .cleave/config: MAX_SESSIONS=20               max_sessions = 20 (already there)
        .cleave/config: CLEAVE_PAUSE=5                not taken over: CLEAVE_PAUSE=10 says `10`
        .cleave/config: VERIFY=make test              not taken over: a project's file may not set it: `--verify 'make test'`, or `ekiden config set verify 'make test'`
        .cleave/config: SKIP_PERMISSIONS=1            not taken over: a permission bypass is never imported; you are asked when a run starts, or give `--skip-permissions` then
        .casmrc.json: colour=3                        not taken over: it has no counterpart
        .casmrc.json: maxTurnsPerSession=50           max_turns = 50 (already there)
        .casmrc.json: model=sonnet                    model = sonnet (already there)
        .casmrc.json: permissionMode=bypassPermissions  not taken over: a permission bypass is never imported; you are asked when a run starts, or give `--skip-permissions` then
        .casmrc.json: planningModel=opus              models.plan = opus (already there)
        .casmrc.json: validation.lint=false           not taken over: it is off
        .casmrc.json: validation.typeCheck=true       not taken over: a project's file may not set it: `ekiden config set validation.type_check 'npx tsc --noEmit'`
        --- exit code 0"#]].assert_eq(&environment.told(&["import"]));
    assert_eq!(environment.read(".ekiden/config.toml"), once);
    // Every command works with the file that was made.
    environment.run(&["config", "show"]).expect(0);
}

// shows: RUN-04, SEC-06, SEC-11
#[test]
fn what_was_approved_stays_approved_unless_a_limit_is_raised() {
    for (key, exit) in [("pause", 0), ("max_sessions", 78)] {
        let variable = format!("CLEAVE_{}", key.to_uppercase());
        let environment = Environment::new().with(&variable, "90");
        environment.write(".ekiden/config.toml", "verify = \"true\"\n");
        environment.run(&["config", "approve"]).expect(0);
        environment.run(&["import"]).expect(exit);
        let file = environment.read(".ekiden/config.toml");
        assert!(file.contains(&format!("{key} = 90")), "{file}");
        environment.run(&["config", "show"]).expect(exit);
    }
}

// shows: RUN-04
#[test]
fn a_key_without_a_value_and_a_comment_after_a_value_set_nothing() {
    let environment = Environment::new();
    environment.write(
        ".casmrc.json",
        r#"{"planningModel": null, "maxTurnsPerSession": null, "validation": null}"#,
    );
    environment.write(
        ".cleave/config",
        "export CLEAVE_PAUSE=\"5\" # seconds\nMODEL=sonnet # cheap\nVERIFY='make test' # quick\n",
    );
    expect![[r#"
        .cleave/config: CLEAVE_PAUSE=5    pause = 5
        .cleave/config: MODEL=sonnet      model = sonnet
        .cleave/config: VERIFY=make test  not taken over: a project's file may not set it: `--verify 'make test'`, or `ekiden config set verify 'make test'`
        --- exit code 0"#]].assert_eq(&environment.told(&["import"]));
}

// shows: RUN-04
#[test]
fn a_permission_bypass_is_never_taken_over() {
    let environment = Environment::new().with("CLEAVE_DANGEROUSLY_SKIP_PERMISSIONS", "1");
    environment.write(".casmrc.json", r#"{"permissionMode": "bypassPermissions"}"#);
    let said = environment.told(&["import"]);
    assert_eq!(
        said.matches("a permission bypass is never imported")
            .count(),
        2,
        "{said}"
    );
    assert!(!environment.exists(".ekiden/config.toml"));
}

// shows: RUN-04
#[test]
fn hostile_files_are_refused_and_nothing_is_taken_over() {
    let told = |prepare: &dyn Fn(&Environment)| {
        let environment = Environment::new().with("CLEAVE_PAUSE", "10");
        prepare(&environment);
        let said = environment.told(&["import"]);
        assert!(!environment.exists(".ekiden/config.toml"), "{said}");
        said
    };
    let outside = told(&|environment| {
        std::fs::write(environment.path("secret"), "{\"model\": \"mine\"}").unwrap();
        environment.shell("ln -s ../secret .casmrc.json");
    });
    let huge = told(&|environment| environment.shell("truncate -s 1G .casmrc.json"));
    let binary = told(&|environment| {
        environment.shell("mkdir .cleave; printf '\\377\\376' > .cleave/config");
    });
    let pipe = told(&|environment| environment.shell("mkfifo .casmrc.json"));
    let torn = told(&|environment| environment.write(".casmrc.json", "{\"model\": "));
    expect![[r#"
        --- standard error
        error: cannot import .casmrc.json: it leads out of the project, to ROOT/secret
        hint: nothing of it was taken over; repair the file or move it away, and import again
        --- exit code 65
        --- standard error
        error: cannot import .casmrc.json: it is larger than 1 MiB
        hint: nothing of it was taken over; repair the file or move it away, and import again
        --- exit code 65
        --- standard error
        error: cannot import .cleave/config: it is not UTF-8 text
        hint: nothing of it was taken over; repair the file or move it away, and import again
        --- exit code 65
        --- standard error
        error: cannot import .casmrc.json: it is not a file
        hint: nothing of it was taken over; repair the file or move it away, and import again
        --- exit code 65
        --- standard error
        error: cannot import .casmrc.json: it is not a JSON object: EOF while parsing a value at line 1 column 10
        hint: nothing of it was taken over; repair the file or move it away, and import again
        --- exit code 65"#]].assert_eq(&[outside, huge, binary, pipe, torn].join("\n"));
}

/// A project in which another program left one of the fixtures.
fn with_fixture(name: &str, as_dir: &str) -> Environment {
    let environment = Environment::new();
    let from =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/binary/fixtures/import");
    environment.shell(&format!("cp -r {}/{name} {as_dir}", from.display()));
    environment
}

/// Every file of cleave's, with its text.
fn tree(environment: &Environment) -> Vec<(std::path::PathBuf, String)> {
    let files = modes(&environment.dir().join(".cleave")).into_iter();
    files
        .map(|(path, _)| {
            (
                path.clone(),
                std::fs::read_to_string(path).unwrap_or_default(),
            )
        })
        .collect()
}

const REHEARSAL: [&str; 3] = ["import", "--agent", "rehearsal"];

/// In each edition, at its limit and killed; a session that was cut off has used its number.
// shows: RUN-15
#[test]
fn a_relay_of_cleave_continues_with_its_task_notes_knowledge_and_numbers() {
    for (name, next, done) in [
        ("shell-waits", 3, 2),
        ("shell-killed", 4, 2),
        ("sdk-waits", 3, 2),
        ("sdk-killed", 4, 2),
        ("v6-waits", 3, 2),
        ("v6-killed", 3, 1),
    ] {
        let environment = with_fixture(name, ".cleave");
        let before = tree(&environment);
        let said = environment.run(&REHEARSAL).expect(0);
        let first = format!("a run whose first session is {next}");
        assert!(said.to_string().contains(&first), "{name}: {said}");
        let end = "\nimported; nothing has run yet · 0 sessions ·";
        assert!(said.to_string().contains(end), "{said}");
        let status = environment.told(&["status"]);
        assert!(status.contains("   imported   "), "{status}");
        environment.run(&["report"]).expect(0);
        let report = format!(".ekiden/runs/{}/report.md", environment.runs()[0]);
        let report = environment.read(&report);
        assert!(!report.contains("asked to stop"), "{report}");
        environment.run(&["resume"]).expect(4);
        let prompt = environment.kept(next, "prompt.md");
        // The newest edition keeps no prompt: what it would go on with is the task.
        let task = match name.starts_with("v6") {
            true => format!(
                "# Task\n\n# Next\n\nMake part {} as the parts before it",
                done + 1
            ),
            false => "# Task\n\nMake the parts 1 to 4: `echo made > part-N.txt` for each.\n\n#"
                .to_owned(),
        };
        for part in [
            task,
            "¦ - The parts are made by make part-N (session 1).\n".to_owned(),
            format!("¦ ### Session {done} - "),
            format!("¦ - part {done} took one try\n"),
            "STATUS: IN_PROGRESS\n".to_owned(),
            format!("¦ Make part {} as the parts before it: echo made", done + 1),
        ] {
            assert!(prompt.contains(&part), "{name}: {part}: {prompt}");
        }
        for words in [
            "Persistent insights",
            "AUTOMATED",
            "auto-pruned",
            "ACCUMULATED",
        ] {
            assert!(!prompt.contains(words), "{name}: {words}: {prompt}");
        }
        assert_eq!(tree(&environment), before);
        // It is known again, also after it went on.
        let again = environment.run(&REHEARSAL).expect(0);
        assert!(again.to_string().contains("already there"), "{again}");
        assert_eq!(environment.runs().len(), 1);
    }
}

/// The agent is looked for before anything is written, and a second import says how a new task gets its run.
// shows: RUN-07, RUN-15
#[test]
fn an_import_without_its_agent_writes_nothing_and_a_new_task_needs_a_new_run() {
    let environment = with_fixture("shell-waits", ".cleave")
        .with("CLEAVE_MAX_SESSIONS", "10")
        .with("CLEAVE_PAUSE", "7");
    let missing = environment.run(&["import", "--agent-command", "/nowhere/agent"]);
    missing.expect(69);
    let task = [&REHEARSAL[..], &["--task", "nowhere.md"]].concat();
    environment.run(&task).expect(66);
    assert!(!environment.exists(".ekiden/config.toml"));
    let said = environment.run(&REHEARSAL).expect(0);
    let default = "max_sessions = 10 (the default)\n";
    assert!(said.stdout.contains(default), "{said}");
    assert!(!said.stdout.contains("stopping"), "{said}");
    let task = [&REHEARSAL[..], &["--task", "Make part 9"]].concat();
    let again = environment.run(&task).expect(0);
    let told = "`--new` makes another one with that task";
    assert!(again.stdout.contains(told), "{again}");
    assert_eq!(environment.runs().len(), 1);
    environment.run(&[&task[..], &["--new"]].concat()).expect(0);
    assert_eq!(environment.runs().len(), 2);
}

/// There another process makes the run, and all that is left of its error is the code.
// shows: RUN-15
#[test]
fn on_a_terminal_a_run_that_cannot_be_made_is_no_success() {
    let environment = with_fixture("shell-waits", ".cleave").with("TERM", "xterm");
    let wait =
        "- [ ] wait\n\n  ```sh\n  touch begun; while [ ! -e go ]; do sleep 0.02; done\n  ```\n";
    environment.write("wait.md", wait);
    let run = environment.start(&["run", "wait.md", "--agent", "rehearsal"]);
    wait_until("the run works", || environment.exists("begun"));
    let mut pty = Pty::spawn(environment.command(&[&REHEARSAL[..], &["--new"]].concat())).unwrap();
    let end = pty.wait(Duration::from_secs(60)).and_then(|end| end.code());
    assert_eq!(end, Some(75), "{}", pty.written());
    environment.write("go", "");
    run.end();
}

// shows: RUN-15
#[test]
fn a_finished_relay_is_not_begun_again_unless_there_is_another_task() {
    for name in ["shell-finished", "sdk-finished", "v6-finished"] {
        let environment = with_fixture(name, ".cleave");
        let said = environment.told(&REHEARSAL);
        assert!(
            said.contains("not taken over: its task is complete"),
            "{said}"
        );
        assert!(environment.runs().is_empty());
        let more = [&REHEARSAL[..], &["--task", "Now make part 5, too"]].concat();
        environment.run(&more).expect(0);
        environment.run(&["resume"]).expect(4);
        let prompt = environment.kept(3, "prompt.md");
        assert!(
            prompt.starts_with("# Task\n\nNow make part 5, too"),
            "{prompt}"
        );
        assert!(
            prompt.contains("¦ - The parts are made by make part-N (session 2).\n"),
            "{prompt}"
        );
    }
}

// shows: RUN-15
#[test]
fn earlier_sessions_of_cleave_are_listed_shown_and_gone_back_to() {
    let environment = with_fixture("sdk-waits", ".cleave");
    let theirs = |name: &str| environment.read(&format!(".cleave/logs/{name}"));
    environment.run(&REHEARSAL).expect(0);
    let listed = environment.told(&["sessions"]);
    for number in ["1", "2"] {
        let row = listed
            .lines()
            .find(|line| line.trim_start().starts_with(number));
        assert!(
            row.is_some_and(|row| row.ends_with("imported from .cleave")),
            "{listed}"
        );
    }
    let show = |args: &[&str]| {
        let said = environment.run(&[&["show"], args].concat()).expect(0);
        said.stdout
    };
    assert_eq!(
        show(&["1", "--next-prompt"]),
        theirs("session_1_next_prompt.md")
    );
    let prompt = show(&["1", "--prompt"]);
    assert_eq!(prompt.trim_end(), theirs("session_1_prompt.md"));
    let newest = show(&[]);
    assert!(
        newest.starts_with("session 2 of run ") && newest.contains("progress.md"),
        "{newest}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&show(&["2", "--json", "--progress"])).unwrap();
    assert_eq!(
        json["texts"]["progress.md"],
        theirs("session_2_progress.md")
    );
    let missing = environment.told(&["show", "1", "--verify"]);
    assert!(
        missing.contains(".cleave kept no verify.log of session 1"),
        "{missing}"
    );
    let changes = environment.run(&["diff", "1"]).expect(66);
    let known = ".cleave does not say what session 1 changed";
    assert!(changes.stderr.contains(known), "{}", changes.stderr);
    // Twice is the same as once.
    environment.run(&REHEARSAL).expect(0);
    environment.run(&["resume", "-r", "1", "-m", "1"]).expect(4);
    let prompt = environment.kept(2, "prompt.md");
    let left = theirs("session_1_next_prompt.md");
    let line = left
        .lines()
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(
        prompt.contains(line.expect("it says something")),
        "{prompt}"
    );
    assert_eq!(environment.runs().len(), 2);
    environment.run(&["resume", "-r", "7"]).expect(66);
}

// shows: RUN-15
#[test]
fn the_state_of_a_loop_is_taken_over_where_there_is_none() {
    let environment = Environment::new();
    let state = r#"{"version": "1.0.0", "iteration": 4, "context_checkpoint": {"active": true, "level": "L2", "percent_at_checkpoint": 87,
        "handoff_file": ".claude/handoffs/2026-01-07-1145.md", "current_todo_item": "Implement OAuth callback"},
        "context_history": [{"iteration": 1, "peak_percent": 45, "checkpoint": false}]}"#;
    environment.write(".claude/ralph-state.json", state);
    let dry = environment.told(&["import", "--dry-run"]);
    assert!(
        dry.contains(".claude/ralph-state.json  .ekiden/ralph-state.json"),
        "{dry}"
    );
    assert!(!environment.exists(".ekiden/ralph-state.json"));
    environment.run(&["import"]).expect(0);
    let taken: serde_json::Value =
        serde_json::from_str(&environment.read(".ekiden/ralph-state.json")).unwrap();
    assert_eq!(taken["context_checkpoint"]["percent_at_checkpoint"], 87);
    assert_eq!(
        (
            &taken["context_history"][0]["peak_percent"],
            &taken["iteration"]
        ),
        (&45.into(), &4.into())
    );
    let again = environment.told(&["import"]);
    assert!(again.contains("(already there)"), "{again}");
    environment.write(".ekiden/ralph-state.json", r#"{"version": 1}"#);
    let other = environment.told(&["import"]);
    assert!(
        other.contains("not taken over: .ekiden/ralph-state.json is there"),
        "{other}"
    );
    environment.write(".ekiden/ralph-state.json", r#"{"version": 2}"#);
    let newer = environment.run(&["import"]).expect(74).stderr.clone();
    assert!(newer.contains("it has version 2"), "{newer}");
    environment.shell("rm -r .ekiden");
    environment.write(".claude/ralph-state.json", r#"{"context_history": 3}"#);
    let wrong = environment.told(&["import"]);
    assert!(
        wrong.contains("not taken over: it is not the state of a loop"),
        "{wrong}"
    );
}

// shows: RUN-15
#[test]
fn an_unfinished_run_is_not_set_aside_unasked() {
    let environment = with_fixture("shell-waits", ".cleave");
    environment.write("task.md", &items(7));
    environment
        .run(&["run", "task.md", "--agent", "rehearsal", "-m", "1"])
        .expect(3);
    environment.run(&REHEARSAL).expect(1);
    assert_eq!(environment.runs().len(), 1);
    environment
        .run(&[&REHEARSAL[..], &["--new"]].concat())
        .expect(0);
    assert_eq!(environment.runs().len(), 2);
}

// shows: RUN-15
#[test]
fn handoffs_of_ccs_are_found_by_orient_and_imported_once() {
    let environment = Environment::new();
    let document = "---\nsession_date: \"2026-01-05\"\nsession_time: \"10:45\"\nbranch: \"feat/x\"\nlinear_issues: \"ANV-123\"\n\
                    checkpoint_trigger: \"L2 (context at 86%)\"\n---\n\n# Session Handoff: ANV-123 Port it\n\n## Checkpoint Reason\n\n\
                    The window was full.\n\n## Next Steps\n\n1. Port the lexer\n";
    environment.write(".claude/handoffs/2026-01-05-1045.md", document);
    environment.write(".claude/handoffs/notes.md", "mine\n");
    environment.shell("touch -d '2026-01-05 10:45' .claude/handoffs/2026-01-05-1045.md");
    let state = r#"{"version": "1.0.0", "currentLevel": "L1", "linearIssue": "ANV-123"}"#;
    environment.write(".claude/checkpoint-state.json", state);
    expect![[r#"
        .claude/handoffs/2026-01-05-1045.md  .ekiden/handoffs/2026-01-05-1045.md
        .claude/handoffs/notes.md            not taken over: its name is not a time such as 2026-01-07-1045.md
        .claude/checkpoint-state.json        not taken over: context use is measured anew, and the handoff that it names is listed above; unless the branch names its issue: `ekiden config set guard.issue ANV-123`
        --- exit code 0"#]].assert_eq(&environment.told(&["import"]));
    assert_eq!(
        environment.read(".ekiden/handoffs/2026-01-05-1045.md"),
        document
    );
    let modified = |name: &str| {
        let path = environment.dir().join(name).join("2026-01-05-1045.md");
        path.metadata().unwrap().modified().unwrap()
    };
    assert_eq!(modified(".ekiden/handoffs"), modified(".claude/handoffs"));
    let oriented = environment.told(&["orient"]);
    assert!(
        oriented.contains("Port the lexer") && oriented.contains("ANV-123 Port it"),
        "{oriented}"
    );
    let again = environment.told(&["import"]);
    assert!(
        again.contains(".ekiden/handoffs/2026-01-05-1045.md (already there)"),
        "{again}"
    );
    assert!(!environment.exists(".ekiden/handoffs/2026-01-05-1045-2.md"));
}

fn casm(third: &str) -> Environment {
    let environment = Environment::with_git();
    environment.git(&["config", "user.name", "Test"]);
    environment.git(&["config", "user.email", "test@example.invalid"]);
    let session = |id: &str, needs: &str, check: &str| {
        format!(
            r#"{{"id": "{id}", "name": "Part {id}", "description": "", "depends_on": [{needs}], "context_files": [],
                "output_files": [], "validation": {{"type": "{check}", "command": "test -f {id}.txt"}},
                "estimated_tokens": 1000, "max_turns": 20, "prompt": "- [ ] Make it\n\n  ```sh\n  echo made > {id}.txt\n  ```\n"}}"#
        )
    };
    let sessions = [
        session("S01", "", "command"),
        session("S02", "\"S01\"", "command"),
        session("S03", "\"S02\"", third),
    ];
    environment.write(
        ".casm/manifest.json",
        &format!(
            r#"{{"project": "Parts", "version": "1.0", "total_sessions": 3, "execution_model": "sequential",
                "created_at": "2026-01-05", "sessions": [{}]}}"#,
            sessions.join(",")
        ),
    );
    environment.write(
        ".casm/state.json",
        r#"{"projectDir": "/home/me", "manifestPath": ".casm/manifest.json", "startedAt": "2026-01-05T10:00:00Z", "sessions": {
            "S01": {"status": "completed", "result": {"success": true, "tokensUsed": 9000, "attempts": 1, "duration": 60000}},
            "S02": {"status": "running", "result": {"success": false, "tokensUsed": 2200, "attempts": 1, "duration": 3000}},
            "S03": {"status": "pending"}}}"#,
    );
    environment.write(".casmrc.json", r#"{"maxRetriesPerSession": 1}"#);
    environment.write(
        ".casm/handoffs/S01-part-s01.md",
        "- decided: one file for each part\n",
    );
    environment.write(".gitignore", ".casm/\n");
    environment
}

// shows: RUN-15
#[test]
fn a_plan_half_done_continues_and_what_is_done_counts_if_its_validation_passes() {
    let environment = casm("command");
    environment.write("S01.txt", "made\n");
    environment.commit_all();
    let said = environment
        .run(&[&REHEARSAL[..], &["--yes"]].concat())
        .expect(0);
    assert!(
        said.to_string().contains(".casm: 1 of 3 stages done"),
        "{said}"
    );
    let first = &environment.log()[0]["event"];
    let stages = &first["manifest"]["stages"];
    assert_eq!(stages[0]["part"]["take"], "assume", "{stages}");
    assert_eq!(
        (&stages[1]["part"]["take"], &stages[1]["part"]["retries"]),
        (&"run".into(), &1.into())
    );
    let status = environment.told(&["status"]);
    let row = status
        .lines()
        .find(|line| line.contains("S01"))
        .unwrap_or_default();
    assert!(
        row.contains("1:00") && row.contains("9k") && row.contains("before the import"),
        "{status}"
    );
    assert_eq!(status.matches("before the import").count(), 1, "{status}");
    let stats = environment.told(&["stats"]);
    assert!(!stats.contains("0 of 1)"), "{stats}");
    environment.run(&["resume"]).expect(0);
    assert_eq!(environment.read("S03.txt"), "made\n");
    let prompt = environment
        .run_dir()
        .join("stages/S02/sessions/1/prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(
        prompt.contains("decided: one file for each part"),
        "{prompt}"
    );
    let sessions = environment.run_dir().join("stages/S01/sessions");
    assert!(!sessions.exists(), "what was done is not done again");
    environment
        .run(&[&REHEARSAL[..], &["--yes"]].concat())
        .expect(0);
    assert_eq!(environment.runs().len(), 1);
    environment
        .run(&[&REHEARSAL[..], &["--yes", "--new"]].concat())
        .expect(0);
    assert_eq!(environment.runs().len(), 2);
}

/// The import stops before the check is over: nothing is known of the stage then.
// shows: RUN-15, PLN-16
#[test]
fn a_check_that_the_import_cuts_off_runs_again() {
    let environment = casm("command");
    let manifest = environment.read(".casm/manifest.json");
    environment.write(
        ".casm/manifest.json",
        &manifest.replace("test -f", "sleep 1; test -f"),
    );
    environment.write("S01.txt", "made\n");
    environment.commit_all();
    let said = environment
        .run(&[&REHEARSAL[..], &["--yes"]].concat())
        .expect(0);
    assert!(!said.to_string().contains("marked as done"), "{said}");
    let status = environment.told(&["status"]);
    assert!(!status.contains("marked as done"), "{status}");
    environment.run(&["resume"]).expect(0);
    let sessions = environment.run_dir().join("stages/S01/sessions");
    assert!(!sessions.exists(), "what was done is not done again");
}

// shows: RUN-15
#[test]
fn a_stage_that_only_its_program_calls_done_does_not_count() {
    let environment = casm("command");
    environment.write(".casmrc.json", r#"{"maxRetriesPerSession": 3}"#);
    environment
        .run(&[&REHEARSAL[..], &["--yes"]].concat())
        .expect(0);
    let stages = &environment.log()[0]["event"]["manifest"]["stages"];
    let retries = &stages[1]["part"]["retries"];
    assert_eq!(retries, 2, "more than the user's waits for approval");
    let said = environment.run(&["resume"]);
    assert!(
        said.to_string().contains("S01") && !said.to_string().contains("complete ("),
        "{said}"
    );
    said.expect(1);
    assert!(!environment.exists("S02.txt"));
}

// shows: RUN-15
#[test]
fn a_dry_run_finds_the_faults_that_would_end_the_import() {
    let environment = casm("command");
    let dry_run = ["import", "--dry-run", ".", "--new"];
    let said = environment.run(&dry_run).expect(0);
    let next = "next  ekiden import . --new\n";
    assert!(said.stderr.ends_with(next), "{said}");
    let manifest = environment.read(".casm/manifest.json");
    let faulty = manifest.replace("[\"S02\"]", "[\"S09\"]");
    environment.write(".casm/manifest.json", &faulty);
    let said = environment.run(&dry_run).expect(65);
    assert!(
        said.stderr.contains("S09") && !said.stderr.contains("next:"),
        "{said}"
    );
}

// shows: RUN-15
#[test]
fn a_plans_commands_are_approved_before_it_is_imported() {
    let environment = casm("command");
    environment.run(&REHEARSAL).expect(78);
    assert!(environment.runs().is_empty());
}

// shows: RUN-15
#[test]
fn hostile_state_is_refused_and_no_run_is_made() {
    let told = |line: &str| {
        let environment = with_fixture("shell-waits", ".cleave");
        std::fs::write(environment.path("secret"), "a secret\n").unwrap();
        environment.shell(line);
        let said = environment.told(&REHEARSAL);
        assert!(
            !environment.exists(".ekiden") && !said.contains("a secret"),
            "{said}"
        );
        said.lines().nth(1).unwrap_or_default().to_owned()
    };
    let said = [
        "ln -sf ../../secret .cleave/NEXT_PROMPT.md",
        "truncate -s 1G .cleave/KNOWLEDGE.md",
        "printf '\\377' > .cleave/PROGRESS.md",
        "rm -r .cleave/logs; ln -s ../.. .cleave/logs",
        "ln -sf ../../../secret .cleave/logs/session_1_progress.md",
        "truncate -s 1G .cleave/logs/session_2_prompt.md",
        "echo '[' > .cleave/status.json",
    ]
    .map(told);
    expect![[r#"
        error: cannot import .cleave/NEXT_PROMPT.md: it leads out of the project, to ROOT/secret
        error: cannot import .cleave/KNOWLEDGE.md: it is larger than 1 MiB
        error: cannot import .cleave/PROGRESS.md: it is not UTF-8 text
        error: cannot import .cleave/logs: it leads out of the project, to ROOT
        error: cannot import .cleave/logs/session_1_progress.md: it leads out of the project, to ROOT/secret
        error: cannot import .cleave/logs/session_2_prompt.md: it is larger than 1 MiB
        error: cannot import .cleave/status.json: it is not a JSON object: invalid type: sequence, expected a map at line 1 column 0"#]].assert_eq(&said.join("\n"));
}

/// What belongs to another user is read like anything else that a stranger may have written, and stays theirs.
// shows: RUN-15
#[test]
fn files_of_another_user_are_input_as_any() {
    use std::os::unix::fs::MetadataExt as _;
    let environment = with_fixture("shell-waits", ".cleave");
    let is_root = std::fs::metadata(environment.dir()).unwrap().uid() == 0;
    if !is_root {
        // Only root can give a file to another user.
        return;
    }
    environment.write(
        ".casmrc.json",
        r#"{"mode": "bypassPermissions", "model": "haiku"}"#,
    );
    environment.shell("chown -R 12345 .cleave .casmrc.json");
    let before = tree(&environment);
    let said = environment.told(&REHEARSAL);
    assert!(said.contains("a run whose first session is 3"), "{said}");
    assert!(
        !environment
            .read(".ekiden/config.toml")
            .contains("skip_permissions"),
        "{said}"
    );
    environment.run(&["resume"]).expect(4);
    assert_eq!(tree(&environment), before);
    let owner = environment
        .dir()
        .join(".cleave/PROGRESS.md")
        .metadata()
        .unwrap()
        .uid();
    assert_eq!(owner, 12345);
}

/// cleave 5 keeps a copy of the pipeline; its prompts lie in the project.
// shows: RUN-15
#[test]
fn a_pipeline_half_done_continues_with_the_stage_that_is_left() {
    let environment = with_fixture("sdk-pipeline", ".cleave");
    for name in ["one", "two"] {
        environment.write(
            &format!("{name}.md"),
            &format!("- [ ] Make it\n\n  ```sh\n  echo made > {name}.txt\n  ```\n"),
        );
    }
    environment.write("one.txt", "made before\n");
    environment.write(".cleave/shared/KNOWLEDGE.md", "- The port is 8080\n");
    environment
        .run(&[&REHEARSAL[..], &["--yes"]].concat())
        .expect(0);
    environment.run(&["resume"]).expect(0);
    assert_eq!(environment.read("one.txt"), "made before\n");
    assert_eq!(environment.read("two.txt"), "made\n");
    let prompt = environment
        .run_dir()
        .join("stages/two/sessions/1/prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(prompt.contains("The port is 8080"), "{prompt}");
}

/// cleave takes any text for a stage's name. A stage at work there left a handoff of its own.
// shows: RUN-15
#[test]
fn a_stage_of_a_pipeline_is_known_by_any_name_and_reads_what_its_sessions_left() {
    let environment = with_fixture("sdk-pipeline", ".cleave");
    environment.shell("sed -i 's/\\bone\\b/part one/; s/part one.md/one.md/' .cleave/pipeline*");
    let yaml = environment.read(".cleave/pipeline.yaml");
    let yaml = yaml.replace("requires:", "shareKnowledge: false\n    requires:");
    environment.write(".cleave/pipeline.yaml", &yaml);
    let missing = environment.run(&[&REHEARSAL[..], &["--yes"]].concat());
    let told = "does not exist beside the pipeline or in the work dir";
    assert!(missing.expect(65).stderr.contains(told));
    for name in ["one", "two"] {
        let item = format!("- [ ] Make it\n\n  ```sh\n  echo made > {name}.txt\n  ```\n");
        environment.write(&format!("{name}.md"), &item);
    }
    environment.write(".cleave/shared/KNOWLEDGE.md", "- The port is 8080\n");
    for (file, text) in [
        ("PROGRESS", "half of it"),
        ("NEXT_PROMPT", "the rest of it"),
    ] {
        environment.write(&format!(".cleave/stages/two/{file}.md"), text);
    }
    let said = environment.run(&[&REHEARSAL[..], &["--yes"]].concat());
    let told = ".cleave: 1 of 2 stages done";
    assert!(said.expect(0).stdout.contains(told));
    environment.run(&["resume"]).expect(0);
    assert!(!environment.exists("one.txt"), "it is not done again");
    let prompt = environment
        .run_dir()
        .join("stages/two/sessions/1/prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(prompt.contains("half of it") && prompt.contains("the rest of it"));
    assert!(!prompt.contains("8080"), "it shares no knowledge: {prompt}");
}

/// `casm execute --from` marks everything before as skipped, and a failure what needs it.
// shows: RUN-15
#[test]
fn a_session_that_casm_skipped_counts_unless_what_it_needs_failed() {
    for (states, done) in [
        (["skipped", "skipped", "running"], "2 of 3"),
        (["failed", "skipped", "skipped"], "0 of 3"),
        (["completed", "failed", "skipped"], "1 of 3"),
    ] {
        let environment = casm("command");
        let [one, two, three] = states;
        let state = format!(
            r#"{{"sessions": {{"S01": {{"status": "{one}"}}, "S02": {{"status": "{two}"}}, "S03": {{"status": "{three}"}}}}}}"#
        );
        environment.write(".casm/state.json", &state);
        let said = environment.told(&["import", "--dry-run"]);
        let told = format!(".casm: {done} stages done");
        assert!(said.contains(&told), "{states:?}: {said}");
    }
    let environment = casm("command");
    let state = r#"{"sessions": {"S01": {"status": "completed"}}}"#;
    environment.write(".casm/state.json", state);
    let said = environment.told(&["import", "--dry-run"]);
    let told = ".casm: 1 of 3 stages done             a run;";
    assert!(said.contains(told), "{said}");
    environment.write(
        ".casm/manifest.json",
        r#"{"project": "Parts", "sessions": ["#,
    );
    let said = environment.run(&["import", "--dry-run"]);
    assert!(!said.stdout.contains("nothing of it is left"), "{said}");
    said.expect(65);
}

// shows: RUN-15
#[test]
fn the_task_of_a_relay_is_the_one_that_its_newest_work_was_given() {
    let task = |file: &str, age: &str| {
        let environment = with_fixture("sdk-waits", ".cleave");
        let file = format!(".cleave/{file}");
        environment.write(&file, "7");
        environment.shell(&format!("touch -d '{age}' {file}"));
        let said = environment.run(&REHEARSAL).expect(0).stderr.clone();
        let line = said.lines().find(|line| line.contains("the task is"));
        line.unwrap_or_default().to_owned()
    };
    let of = |file: &str| format!("the task is taken from .cleave/{file}");
    let (first, next) = ("logs/session_1_prompt.md", "NEXT_PROMPT.md");
    let continued = ".continuation_prompt.md";
    assert_eq!(task(continued, "1 hour"), of(continued));
    assert_eq!(task(continued, "1 hour ago"), of(first));
    // cleave 6, after cleave 5.
    assert_eq!(task(".max_sessions", "1 hour"), of(next));
    assert_eq!(task(".max_sessions", "1 hour ago"), of(first));
}

// shows: RUN-15
#[test]
fn what_says_that_the_work_before_is_complete_says_nothing_of_this() {
    let is_complete = |what: &str| {
        let environment = with_fixture("sdk-waits", ".cleave");
        environment.shell(what);
        let said = environment.told(&["import", "--dry-run", "--agent", "rehearsal"]);
        said.contains("its task is complete")
    };
    let status = "sed -i 's/\"max_sessions\",/\"verified_complete\",/' .cleave/status.json";
    let signal = "echo TASK_FULLY_COMPLETE > .cleave/.handoff_signal";
    let old = "touch -d '1 hour ago' .cleave/status.json .cleave/.handoff_signal";
    for complete in [status, signal] {
        assert!(is_complete(complete), "{complete}");
        assert!(!is_complete(&format!("{complete}; {old}")), "{complete}");
    }
    let own = "echo 'STATUS: MIGRATION_DONE' > .cleave/PROGRESS.md
        echo '{\"completion_marker\": \"MIGRATION_DONE\"}' > .cleave/status.json";
    assert!(is_complete(own), "its own word counts");
}

// shows: RUN-15
#[test]
fn half_of_what_another_program_left_is_told() {
    let environment = casm("command");
    let import = |options: &[&str]| {
        let all = [&REHEARSAL[..], options].concat();
        environment.told(&all)
    };
    environment.shell("mv .casm/state.json kept.json");
    expect![[r#"
        .casmrc.json: maxRetriesPerSession=1  plan.retries = 1
        .casm/manifest.json                   not taken over: nothing of it was begun; `ekiden execute .casm/manifest.json` does it
        --- exit code 0"#]]
    .assert_eq(&import(&[]));
    environment.shell("mv kept.json .casm/state.json; mv .casm/manifest.json kept.json");
    expect![[r#"
        .casmrc.json: maxRetriesPerSession=1  plan.retries = 1 (already there)
        .casm/state.json                      not taken over: its plan is missing; put .casm/manifest.json back, and import again
        --- exit code 0"#]]
    .assert_eq(&import(&[]));
    expect![[r#"
        --- standard error
        error: cannot import with `--task`: no relay of cleave left anything there
        hint: `ekiden run TASK` starts work that continues nothing
        --- exit code 66"#]]
    .assert_eq(&import(&["--task", "Make part 9"]));
    environment.write(".cleave/KNOWLEDGE.md", "- The port is 8080\n");
    environment.write(".cleave/.active_relay", "1");
    environment.shell("rm -r .casm .casmrc.json");
    expect![[r#"
        .cleave/.active_relay  not taken over: cleave's hooks block sessions here while it exists; delete it, and run cleave's `setup.sh --uninstall`
        .cleave: 1 session     not taken over: no session handed off; `ekiden import --task TASK` starts work from what it knows
        --- exit code 0"#]]
    .assert_eq(&import(&[]));
    environment
        .run(&[&REHEARSAL[..], &["--task", "Make part 9"]].concat())
        .expect(0);
    environment.run(&["resume"]).expect(4);
    let prompt = environment.kept(2, "prompt.md");
    assert!(prompt.contains("The port is 8080"), "{prompt}");
}

// shows: RUN-15
#[test]
fn a_plan_that_is_done_hides_none_that_is_not() {
    let environment = casm("command");
    let state = environment.read(".casm/state.json");
    let state = state
        .replace("running", "completed")
        .replace("pending", "completed");
    environment.write(".casm/state.json", &state);
    environment.write(
        ".cleave/pipeline.yaml",
        "stages:\n  - name: one\n    prompt: one.md\n",
    );
    environment.write(
        ".cleave/pipeline_state.json",
        r#"{"stages": {"one": "pending"}}"#,
    );
    environment.write("one.md", "Make it.\n");
    let said = environment.told(&["import", "--dry-run"]);
    for told in [
        ".casm: 3 of 3 stages done             not taken over: nothing of it is left to do",
        ".cleave: 0 of 1 stage done            a run; what is done counts",
    ] {
        assert!(said.contains(told), "{said}");
    }
}

/// A project's file may not name commands.
// shows: RUN-04, RUN-15
#[test]
fn a_check_that_was_not_taken_over_is_there_in_a_new_run_once_it_is_set() {
    let environment = with_fixture("shell-waits", ".cleave").with("CLEAVE_VERIFY", "test -d .");
    let told = "set what was not taken over, then `ekiden import --new`";
    let check = || {
        let first = environment.log()[0]["event"].clone();
        first["manifest"]["stages"][0]["verification"]["command"].clone()
    };
    let said = environment.run(&REHEARSAL).expect(0);
    assert!(said.stderr.contains(told), "{said}");
    assert_eq!(check(), serde_json::Value::Null);
    environment
        .run(&["config", "set", "verify", "test -d ."])
        .expect(0);
    let said = environment.run(&[&REHEARSAL[..], &["--new"]].concat());
    let said = said.expect(0);
    assert!(!said.stderr.contains(told), "{said}");
    let known = "verify = test -d . (already there)";
    assert!(said.stdout.contains(known), "{said}");
    assert_eq!(check(), "test -d .");
}

// shows: RUN-15
#[test]
fn knowledge_without_headings_is_not_lost() {
    let environment = with_fixture("shell-waits", ".cleave");
    environment.write(
        ".cleave/KNOWLEDGE.md",
        "The port is 8080.\n\n- Tests need make\n",
    );
    environment.run(&REHEARSAL).expect(0);
    let knowledge = environment.read(".ekiden/KNOWLEDGE.md");
    assert!(
        knowledge.contains("- The port is 8080.\n- Tests need make\n"),
        "{knowledge}"
    );
}

// shows: RUN-15
#[test]
fn one_directory_of_theirs_can_be_named_also_from_another_project() {
    let environment = with_fixture("shell-waits", ".cleave");
    environment.write(".casmrc.json", "torn");
    environment.shell("mkdir ../old; mv .cleave .casmrc.json ../old");
    environment.run(&["import", "../old"]).expect(65);
    let said = environment.run(&["import", "../old/.cleave", "--agent", "rehearsal"]);
    let said = said.expect(0).to_string();
    assert!(said.contains("a run whose first session is 3"), "{said}");
    assert_eq!(environment.runs().len(), 1);
    expect![[r#"
        --- standard error
        error: cannot import from nowhere: No such file or directory (os error 2)
        --- exit code 66"#]]
    .assert_eq(&environment.told(&["import", "nowhere"]));
    expect![[r#"
        found nothing from cleave, CASM or CCS in .
        --- exit code 0"#]]
    .assert_eq(&environment.told(&["import"]));
}
