//! What cleave, CASM and CCS left, taken over.

use expect_test::expect;

use crate::environment::Environment;

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
        .casmrc.json: planningModel=opus              not taken over: give `--planning-model` to `ekiden plan`, `split` and `build`
        .casmrc.json: validation.lint=false           not taken over: it is off
        .casmrc.json: validation.typeCheck=true       not taken over: a project's file may not set it: `--verify 'npx tsc --noEmit'`, or `ekiden config set verify 'npx tsc --noEmit'`
        --- exit code 0"#]].assert_eq(&environment.told(&["import"]));
    expect![[r#"
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
        CLEAVE_HANDOFF_THRESHOLD=55                   levels = 45,55,65 (it is so already)
        CLEAVE_PAUSE=10                               pause = 10 (it is so already)
        CLEAVE_SESSION=3                              not taken over: it was set for sessions, which find EKIDEN_RUN, EKIDEN_SESSION and their work dir here
        .cleave/config: MAX_SESSIONS=20               max_sessions = 20 (it is so already)
        .cleave/config: CLEAVE_PAUSE=5                not taken over: CLEAVE_PAUSE=10 says `10`
        .cleave/config: VERIFY=make test              not taken over: a project's file may not set it: `--verify 'make test'`, or `ekiden config set verify 'make test'`
        .cleave/config: SKIP_PERMISSIONS=1            not taken over: a permission bypass is never imported; you are asked when a run starts, or give `--skip-permissions` then
        .casmrc.json: colour=3                        not taken over: it has no counterpart
        .casmrc.json: maxTurnsPerSession=50           max_turns = 50 (it is so already)
        .casmrc.json: model=sonnet                    model = sonnet (it is so already)
        .casmrc.json: permissionMode=bypassPermissions  not taken over: a permission bypass is never imported; you are asked when a run starts, or give `--skip-permissions` then
        .casmrc.json: planningModel=opus              not taken over: give `--planning-model` to `ekiden plan`, `split` and `build`
        .casmrc.json: validation.lint=false           not taken over: it is off
        .casmrc.json: validation.typeCheck=true       not taken over: a project's file may not set it: `--verify 'npx tsc --noEmit'`, or `ekiden config set verify 'npx tsc --noEmit'`
        --- exit code 0"#]].assert_eq(&environment.told(&["import"]));
    assert_eq!(environment.read(".ekiden/config.toml"), once);
    // Every command works with the file that was made.
    environment.run(&["config", "show"]).expect(0);
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
        error: cannot import .casmrc.json: it is no JSON object: EOF while parsing a value at line 1 column 10
        hint: nothing of it was taken over; repair the file or move it away, and import again
        --- exit code 65"#]].assert_eq(&[outside, huge, binary, pipe, torn].join("\n"));
}
