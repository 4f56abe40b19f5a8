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
    agent               mine          EKIDEN_AGENT
    agent_command       -             default
    model               opus          ~/.config/ekiden/config.toml:1
    permission_mode     -             default
    skip_permissions    false         default
    allowed_tool        -             default
    levels              10,20,30      .ekiden/config.toml:2
    context.cap_tokens  200000        default
    max_wait            6h            default
    json                false         default
    state_dir           -             default
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
    let help = Environment::new().run(&["--help"]).expect(0).stdout;
    insta::assert_snapshot!(help, @r"
    Runs long tasks on coding agents as a relay of fresh sessions

    Examples:
      ekiden run task.md --agent rehearsal        try it for free, without a model
      ekiden task.md --verify 'make test'         the same as `ekiden run task.md ...`
      ekiden run 'Port the parser to Rust' -m 5   the task itself, at most 5 sessions
      ekiden status                               what runs here, and how far it is
      ekiden resume                               carry on after any end

    Usage: ekiden [COMMAND] [OPTIONS]
           ekiden TASK [OPTIONS]

    Commands:
      run     Start a relay on a task, and watch it to its end
      resume  Carry an unfinished run on, after any end
      status  Show what runs here, and how far it is
      log     Tell the story of a run, word for word as `ekiden run` told it
      config  Show settings and where they come from

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Exit codes:
      0      done; a run is finished, and verified if it has a verification
      1      ended without finishing, or an unfinished run of another task is in the way
      2      wrong command line
      3      stopped early, or an unfinished run of the same task is here: `ekiden resume`
      4      blocked: a person is needed, then `ekiden resume`
      65     the task is empty or not text
      66     the task, the work dir or the run is not there
      69     the agent is missing, not logged in, or its service refuses it
      70     a fault in ekiden
      74     state or output cannot be read or written
      75     another run works in this directory
      77     the agent may not do what it needs
      78     a setting is wrong
      128+n  ended by signal n: 130 after ctrl-c twice, 143 after SIGTERM
    ");
}
