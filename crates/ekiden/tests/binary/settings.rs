//! Settings and help: what is in force, and what the numbers mean.

use serde_json::Value;

use crate::environment::Environment;

// shows: RUN-03
#[test]
fn every_setting_says_where_it_comes_from() {
    let environment = Environment::new().with("EKIDEN_PAUSE", "3").with("EKIDEN_AGENT", "mine");
    environment.write(".ekiden/config.toml", "max_sessions = 4\nlevels = [10, 20, 30]\n");
    let user = environment.path("home/.config/ekiden");
    std::fs::create_dir_all(&user).unwrap();
    let text = "model = 'opus'\npause = 60\n[agents.mine]\nkind = 'exec'\ncommand = ['mine', '-p']\n";
    std::fs::write(user.join("config.toml"), text).unwrap();
    insta::assert_snapshot!(environment.run(&["config", "show"]), @r"
    max_sessions        4             .ekiden/config.toml:1
    work_dir            .             default
    pause               3             EKIDEN_PAUSE
    completion_marker   ALL_COMPLETE  default
    verify              -             default
    verify_timeout      120           default
    git_commit          false         default
    branch              -             default
    agent               mine          EKIDEN_AGENT
    agent_command       -             default
    model               opus          ~/.config/ekiden/config.toml:1
    permission_mode     -             default
    skip_permissions    false         default
    allowed_tool        -             default
    safe_mode           false         default
    isolated            false         default
    tui                 false         default
    subagents           false         default
    levels              10,20,30      .ekiden/config.toml:2
    context.cap_tokens  200000        default
    session_timeout     30m           default
    max_turns           -             default
    session_budget      -             default
    run_budget          -             default
    session_tokens      -             default
    run_tokens          -             default
    max_wait            6h            default
    on_rate_limit       wait          default
    quiet_hours         -             default
    stall_sessions      3             default
    research            false         default
    notify              true          default
    guard.wip           ref           default
    guard.issue         -             default
    guided              false         default
    verbose             false         default
    json                false         default
    state_dir           -             default
    guard.levels        70,85,95      default
    guard.reminder      true          default
    [agents.mine]  ~/.config/ekiden/config.toml:3
    --- exit code 0
    ");

    let inside = environment.with("EKIDEN_RUN", "7f3a0b1c");
    let json = inside.run(&["config", "show", "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let pause = json["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == "pause");
    assert_eq!(pause.unwrap()["value"], "60", "inside a session no variable is inherited");
}

// shows: RUN-06
#[test]
fn help_ends_with_the_exit_codes() {
    // The whole text stands in docs/commands, which a test keeps.
    let help = Environment::new().run(&["--help"]).expect(0).stdout;
    assert!(help.starts_with("Examples:\n  ekiden run task.md"), "{help}");
    let last = "  128+n  ended by signal n: 130 after ctrl-c twice, 143 after SIGTERM\n";
    assert!(help.contains("\nExit codes:\n  0      done") && help.ends_with(last), "{help}");
}

// shows: SEC-06
#[test]
fn a_project_says_what_runs_once_a_person_has_approved_it() {
    let environment = Environment::new();
    let file = "verify = \"printf '\\u001b[2J'\"\n\n[agents.mine]\nkind = \"exec\"\ncommand = [\"sh\", \"agent.sh\"]\n";
    environment.write(".ekiden/config.toml", file);
    insta::assert_snapshot!(environment.run(&["status"]), @r"
    --- standard error
    error: .ekiden/config.toml:1: a project's own file may not set `verify`
    hint: it would decide what runs on the machine of everybody who clones the project
    hint: give `--verify` on the command line, or put it into ~/.config/ekiden/config.toml
    hint: or read the file, and approve it as it is now: `ekiden config approve`
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.run(&["config", "approve"]), @r"
    .ekiden/config.toml:1  `verify` printf '\u{1b}[2J'
    .ekiden/config.toml:3  [agents.mine] sh agent.sh
    approved, until the file changes
    --- standard error
    next: ekiden config show
    --- exit code 0
    ");
    let shown = environment.run(&["config", "show"]);
    assert!(shown.stdout.contains(".ekiden/config.toml:1"), "{shown}");
    environment.write(".ekiden/config.toml", &file.replace("agent.sh", "other.sh"));
    insta::assert_snapshot!(environment.run(&["status"]), @r"
    --- standard error
    error: .ekiden/config.toml:1: a project's own file may not set `verify`, and the file is not the one that was approved
    hint: it would decide what runs on the machine of everybody who clones the project
    hint: give `--verify` on the command line, or put it into ~/.config/ekiden/config.toml
    hint: or read the file, and approve it as it is now: `ekiden config approve`
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.run(&["config", "approve", "--json"]), @r#"
    {"v":1,"file":".ekiden/config.toml","approved":[{"line":1,"what":"`verify`","value":"printf '\u001b[2J'"},{"line":3,"what":"[agents.mine]","value":"sh other.sh"}]}
    --- exit code 0
    "#);
    insta::assert_snapshot!(environment.run(&["config", "approve", "--remove"]), @r"
    .ekiden/config.toml is not approved any more
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.run(&["config", "approve", "--remove"]), @r"
    .ekiden/config.toml was not approved
    --- exit code 0
    ");
    environment.write(".ekiden/config.toml", "pause = 3\n");
    insta::assert_snapshot!(environment.run(&["config", "approve"]), @r"
    .ekiden/config.toml says nothing that needs an approval
    --- exit code 0
    ");
}

// shows: SEC-06
#[test]
fn a_session_approves_nothing() {
    let environment = Environment::new().with("EKIDEN_RUN", "7f3a0b1c");
    environment.write(".ekiden/config.toml", "verify = 'true'\n");
    insta::assert_snapshot!(environment.run(&["config", "approve"]), @r"
    --- standard error
    error: an approval is a person's, and this is a session of ekiden
    hint: run it yourself, outside of the session
    --- exit code 78
    ");
}
