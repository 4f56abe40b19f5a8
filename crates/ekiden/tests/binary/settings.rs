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
