//! Settings and help: what is in force, and what the numbers mean.

use serde_json::Value;

use crate::environment::{Environment, items};

// shows: RUN-03
#[test]
fn a_setting_is_set_by_a_person_and_the_rest_stays() {
    let environment = Environment::new();
    let set = |args: &[&str]| environment.run(&[&["config", "set"], args].concat());
    set(&["max_sessions", "7"]).expect(0);
    set(&["allowed_tool", "Bash(make:*)", "Read"]).expect(0);
    set(&["max_sessions", "8"]).expect(0);
    set(&["--project", "pause", "3"]).expect(0);
    let own = std::fs::read_to_string(environment.path("home/.config/ekiden/config.toml")).unwrap();
    let lines = "allowed_tool = [\"Bash(make:*)\", \"Read\"]\nmax_sessions = 8\n";
    assert_eq!(own, lines);
    assert_eq!(environment.read(".ekiden/config.toml"), "pause = 3\n");
    set(&["max_sessions", "0"]).expect(2);
    let meant = set(&["max_session", "3"]).expect(2);
    assert!(
        meant.stderr.contains("did you mean `max_sessions`?"),
        "{meant}"
    );
    for (args, wanted) in [
        (["work_dir", "x"], "a variable: `--work-dir`, "),
        (["guard.line", "nonsense"], "(context, checkpoint, next, "),
    ] {
        let said = set(&args).expect(2);
        assert!(said.stderr.contains(wanted), "{said}");
    }
    set(&["--project", "verify", "make test"]).expect(2);
    let session = environment.with("EKIDEN_RUN", "7f3a0b1c");
    session
        .run(&["config", "set", "verify", "make test"])
        .expect(77);
}

// shows: SEC-06
#[test]
fn a_higher_limit_of_a_project_has_no_effect_before_an_approval() {
    let environment = Environment::new();
    let set = |value| environment.run(&["config", "set", "--project", "max_sessions", value]);
    insta::assert_snapshot!(set("20"), @r"
    max_sessions = 20  .ekiden/config.toml
    --- standard error
    warning: this raises your own limit, so it has no effect until you approve the file
    next  ekiden config approve
    --- exit code 0
    ");
    let lower = set("5").expect(0);
    assert!(!lower.stderr.contains("warning"), "{lower}");
    environment.run(&["config", "approve"]).expect(0);
}

// shows: RUN-03
#[test]
fn a_read_only_settings_file_is_not_changed() {
    let environment = Environment::new();
    environment.write(".ekiden/config.toml", "pause = 3\n");
    environment.shell("chmod a-w .ekiden/config.toml");
    let said = environment
        .run(&["config", "set", "--project", "pause", "4"])
        .expect(77);
    assert!(said.stderr.contains("it is read-only"), "{said}");
    assert_eq!(environment.read(".ekiden/config.toml"), "pause = 3\n");
}

// shows: RUN-03
#[test]
fn what_is_no_settings_file_is_refused_with_a_way_out() {
    let environment = Environment::new();
    let show = || environment.run(&["config", "show"]).expect(78);
    std::fs::create_dir_all(environment.path("project/.ekiden/config.toml")).unwrap();
    let said = show();
    assert!(said.stderr.contains("hint: it must be a file"), "{said}");
    std::fs::remove_dir(environment.path("project/.ekiden/config.toml")).unwrap();
    let text = b"model = '\xff'\n";
    std::fs::write(environment.path("project/.ekiden/config.toml"), text).unwrap();
    let said = show();
    assert!(said.stderr.contains("hint: save it as UTF-8"), "{said}");
}

/// Settings and task are in the first record; what stands in a file later is for later runs.
// shows: SEC-06
#[test]
fn what_a_run_was_started_with_holds_to_its_end() {
    let environment = Environment::new();
    environment.write("task.md", &items(5));
    environment
        .run(&["run", "task.md", "--agent", "rehearsal", "-m", "1"])
        .expect(3);
    let first = environment.log()[0].to_string();
    assert!(first.contains("Item 5"), "{first}");
    assert!(first.contains("\"ALL_COMPLETE\""), "{first}");
    let user = environment.path("home/.config/ekiden");
    std::fs::create_dir_all(&user).unwrap();
    let text = "verify = 'false'\ncompletion_marker = 'FINISHED'\n";
    std::fs::write(user.join("config.toml"), text).unwrap();
    environment.write("task.md", "- [ ] Another\n");
    let said = environment.run(&["resume"]).expect(0);
    assert!(said.stdout.contains("complete (not verified)"), "{said}");
    assert!(
        environment.exists("item-5.txt"),
        "the task of the start: {said}"
    );
}

// shows: RUN-03
#[test]
fn every_setting_says_where_it_comes_from() {
    let environment = Environment::new()
        .with("EKIDEN_PAUSE", "3")
        .with("EKIDEN_AGENT", "mine");
    environment.write(
        ".ekiden/config.toml",
        "max_sessions = 4\nlevels = [10, 20, 30]\n",
    );
    let user = environment.path("home/.config/ekiden");
    std::fs::create_dir_all(&user).unwrap();
    let text = "model = 'opus'\npause = 60\n[agents.mine]\nkind = 'exec'\ncommand = ['mine', '-p']\nbudget = 20\n";
    std::fs::write(user.join("config.toml"), text).unwrap();
    insta::assert_snapshot!(environment.run(&["config", "show"]), @r"
    max_sessions                4                                    .ekiden/config.toml:1
    work_dir                    .                                    default
    pause                       3                                    EKIDEN_PAUSE
    completion_marker           ALL_COMPLETE                         default
    verify                      -                                    default
    verify_timeout              120                                  default
    review                      off                                  default
    git_commit                  false                                default
    commit_subject              {subject}                            default
    branch                      -                                    default
    agent                       mine                                 EKIDEN_AGENT
    agent_command               -                                    default
    fallback                    -                                    default
    fallback_return             next-session                         default
    model                       opus                                 ~/.config/ekiden/config.toml:1
    models.work                 -                                    default
    models.plan                 -                                    default
    models.review               -                                    default
    permission_mode             -                                    default
    skip_permissions            false                                default
    allowed_tool                -                                    default
    safe_mode                   false                                default
    isolated                    false                                default
    tui                         false                                default
    subagents                   false                                default
    levels                      10,20,30                             .ekiden/config.toml:2
    context.cap_tokens          200000                               default
    session_timeout             30m                                  default
    max_turns                   -                                    default
    session_budget              -                                    default
    run_budget                  -                                    default
    session_tokens              -                                    default
    run_tokens                  -                                    default
    agent_budget                -                                    default
    agent_tokens                -                                    default
    max_wait                    6h                                   default
    on_rate_limit               wait                                 default
    quiet_hours                 -                                    default
    stall_sessions              3                                    default
    research                    false                                default
    plan.jobs                   3                                    default
    plan.retries                2                                    default
    fleet.trusted_keys          -                                    default
    fleet.sign_key              -                                    default
    validation.type_check       -                                    default
    validation.lint             -                                    default
    validation.test             -                                    default
    notify                      true                                 default
    notify.kinds                needs_you,limit,loop,done,failed     default
    notify.text                 false                                default
    notify.desktop              true                                 default
    notify.desktop_kinds        -                                    default
    notify.command              -                                    default
    notify.command_kinds        -                                    default
    notify.webhook              -                                    default
    notify.webhook_kinds        -                                    default
    notify.ntfy                 -                                    default
    notify.ntfy_kinds           -                                    default
    otel.endpoint               -                                    default
    tracker.kind                -                                    default
    tracker.linear.url          https://api.linear.app/graphql       default
    tracker.github.url          https://api.github.com               default
    tracker.github.repo         -                                    default
    tracker.local.dir           .issues                              default
    tracker.credential_command  -                                    default
    tracker.label               context-checkpointed                 default
    tracker.state               -                                    default
    tracker.branch              -                                    default
    tracker.on_complete         comment                              default
    tracker.document_url        -                                    default
    tracker.trust               -                                    default
    on_hangup                   continue                             default
    guard.wip                   ref                                  default
    guard.issue                 -                                    default
    memory.record               true                                 default
    memory.exclude              -                                    default
    memory.context              true                                 default
    mcp                         true                                 default
    guided                      false                                default
    verbose                     false                                default
    json                        false                                default
    trust_state                 false                                default
    state_dir                   -                                    default
    guard.levels                70,85,95                             default
    guard.reminder              true                                 default
    guard.l3                    refuse                               default
    guard.line                  context next issue phase checkpoint  default
    [agents.mine]  kind = exec, command = mine -p, budget = 20  ~/.config/ekiden/config.toml:3
    --- exit code 0
    ");

    let inside = environment.with("EKIDEN_RUN", "7f3a0b1c");
    let json = inside.run(&["config", "show", "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let agent = &json["agents"][0];
    let fields = ["kind", "account", "budget", "tokens"].map(|name| agent[name].as_str());
    assert_eq!(fields, [Some("exec"), None, Some("20"), None]);
    let pause = json["settings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|setting| setting["key"] == "pause");
    assert_eq!(
        pause.unwrap()["value"],
        "60",
        "inside a session no variable is inherited"
    );
}

// shows: SEC-11
#[test]
fn a_project_lowers_limits_and_raises_none_without_an_approval() {
    let environment = Environment::new();
    let user = environment.path("home/.config/ekiden");
    std::fs::create_dir_all(&user).unwrap();
    let own = "run_budget = 5\nsession_tokens = '400k'\nmax_sessions = 6\non_rate_limit = 'stop'\n\
               quiet_hours = '22:00-07:00'\nmax_wait = '0s'\nmax_turns = 0\nsession_timeout = '20m'\n";
    std::fs::write(user.join("config.toml"), own).unwrap();
    let project = "run_budget = 500\nsession_tokens = '300k'\nmax_sessions = 40\non_rate_limit = 'wait'\n\
                   quiet_hours = 'none'\nmax_wait = '1h'\nmax_turns = 50\nsession_timeout = 'none'\n\
                   context.cap_tokens = 0\nverify_timeout = 60\nsession_budget = 2\n\
                   research = true\n";
    environment.write(".ekiden/config.toml", project);
    let shown = |args: &[&str]| {
        let said = environment
            .run(&[&["config", "show"], args].concat())
            .expect(0);
        let is_limit = |line: &&str| line.contains("config.toml") || line.contains("--");
        said.stdout
            .lines()
            .filter(is_limit)
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(shown(&["--max-wait", "9h"]), @r"
    max_sessions                6                                    ~/.config/ekiden/config.toml:3 (not 40 of .ekiden/config.toml:3: it needs `ekiden config approve`)
    verify_timeout              60                                   .ekiden/config.toml:10
    context.cap_tokens          200000                               default (not 0 of .ekiden/config.toml:9: it needs `ekiden config approve`)
    session_timeout             20m                                  ~/.config/ekiden/config.toml:8 (not none of .ekiden/config.toml:8: it needs `ekiden config approve`)
    max_turns                   50                                   .ekiden/config.toml:7
    session_budget              2                                    .ekiden/config.toml:11
    run_budget                  5                                    ~/.config/ekiden/config.toml:1 (not 500 of .ekiden/config.toml:1: it needs `ekiden config approve`)
    session_tokens              300k                                 .ekiden/config.toml:2
    max_wait                    9h                                   --max-wait
    on_rate_limit               stop                                 ~/.config/ekiden/config.toml:4 (not wait of .ekiden/config.toml:4: it needs `ekiden config approve`)
    quiet_hours                 22:00-07:00                          ~/.config/ekiden/config.toml:5 (not none of .ekiden/config.toml:5: it needs `ekiden config approve`)
    research                    false                                default (not true of .ekiden/config.toml:12: it needs `ekiden config approve`)
    ");
    environment.write("task.md", "- [ ] It\n");
    let said = environment
        .run(&[
            "run",
            "task.md",
            "--agent",
            "rehearsal",
            "--quiet-hours",
            "none",
        ])
        .expect(0);
    insta::assert_snapshot!(said.stderr, @"
    warning: .ekiden/config.toml:3 would loosen `max_sessions` from 6 to 40, which needs your approval: `ekiden config approve`
    warning: .ekiden/config.toml:9 would loosen `context.cap_tokens` from 200000 to 0, which needs your approval: `ekiden config approve`
    warning: .ekiden/config.toml:8 would loosen `session_timeout` from 20m to none, which needs your approval: `ekiden config approve`
    warning: .ekiden/config.toml:1 would loosen `run_budget` from 5 to 500, which needs your approval: `ekiden config approve`
    warning: .ekiden/config.toml:6 would loosen `max_wait` from 0s to 1h, which needs your approval: `ekiden config approve`
    warning: .ekiden/config.toml:4 would loosen `on_rate_limit` from stop to wait, which needs your approval: `ekiden config approve`
    warning: .ekiden/config.toml:12 would loosen `research` from false to true, which needs your approval: `ekiden config approve`
    ");
    let planning = environment.run(&["plan", "a tea timer", "--agent", "rehearsal"]);
    assert_eq!(
        planning.expect(0).stderr.matches("would loosen").count(),
        said.stderr.lines().count() + 1,
        "and the quiet hours"
    );
    let settings = &environment.log()[0]["event"]["settings"];
    insta::assert_snapshot!(settings["bounds"]["run"], @r#"{"micro_usd":5000000,"tokens":null}"#);
    insta::assert_snapshot!(environment.told(&["config", "approve"]), @"
    .ekiden/config.toml:1  `run_budget` 500
    .ekiden/config.toml:3  `max_sessions` 40
    .ekiden/config.toml:4  `on_rate_limit` wait
    .ekiden/config.toml:5  `quiet_hours` none
    .ekiden/config.toml:6  `max_wait` TIME
    .ekiden/config.toml:8  `session_timeout` none
    .ekiden/config.toml:9  `context.cap_tokens` 0
    .ekiden/config.toml:12  `research` true
    approved until the file changes
    --- standard error
    next  ekiden config show
    --- exit code 0
    ");
    assert!(!shown(&[]).contains("config approve"), "{}", shown(&[]));
    environment.write(".ekiden/config.toml", &project.replace("500", "501"));
    let json = environment
        .run(&["config", "show", "--json"])
        .expect(0)
        .stdout;
    assert!(
        json.contains(r#""key":"run_budget","value":"5","origin":"user","place":"~/.config/ekiden/config.toml:1","not_approved":{"value":"501","place":".ekiden/config.toml:1"}"#),
        "{json}"
    );
}

// shows: RUN-06
#[test]
fn help_ends_with_the_exit_codes() {
    // The whole text stands in docs/commands, which a test keeps.
    let help = Environment::new().run(&["--help"]).expect(0).stdout;
    assert!(
        help.starts_with("Examples:\n  ekiden run task.md"),
        "{help}"
    );
    let last = "  128+n  ended by signal n: 130 after ctrl-c twice or `ekiden stop --now`, 143 after SIGTERM\n";
    assert!(
        help.contains("\nExit codes:\n  0      done") && help.ends_with(last),
        "{help}"
    );
}

// shows: SEC-06
#[test]
fn a_project_says_what_runs_once_a_person_has_approved_it() {
    let environment = Environment::new();
    let file = "verify = \"printf '\\u001b[2J'\"\n\n[agents.mine]\nkind = \"exec\"\ncommand = [\"sh\", \"agent.sh\"]\n\
                [agents.claude]\naccount = \"/repo/.cfg\"\ntokens = \"2M\"\n";
    environment.write(".ekiden/config.toml", file);
    insta::assert_snapshot!(environment.run(&["config", "show"]), @r"
    --- standard error
    error: .ekiden/config.toml:1: a project's own file may not set `verify`
    hint: it would decide which commands run, or who is notified, on the machine of everybody who clones the project
    hint: take the line out, then give `--verify` on the command line or put it into ~/.config/ekiden/config.toml
    hint: or read the file, and approve it as it is now: `ekiden config approve`
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.run(&["config", "approve", "--dry-run"]), @r"
    .ekiden/config.toml:1  `verify` printf '\u{1b}[2J'
    .ekiden/config.toml:3  [agents.mine] kind = exec, command = sh agent.sh
    .ekiden/config.toml:6  [agents.claude] account = /repo/.cfg, tokens = 2000000
    --- standard error
    next  ekiden config approve
    --- exit code 0
    ");
    environment.run(&["config", "show"]).expect(78);
    insta::assert_snapshot!(environment.run(&["config", "approve"]), @r"
    .ekiden/config.toml:1  `verify` printf '\u{1b}[2J'
    .ekiden/config.toml:3  [agents.mine] kind = exec, command = sh agent.sh
    .ekiden/config.toml:6  [agents.claude] account = /repo/.cfg, tokens = 2000000
    approved until the file changes
    --- standard error
    next  ekiden config show
    --- exit code 0
    ");
    let shown = environment.run(&["config", "show"]);
    assert!(shown.stdout.contains(".ekiden/config.toml:1"), "{shown}");
    // What the person sets in it does not need another approval.
    let set = ["config", "set", "--project", "pause", "3"];
    environment.run(&set).expect(0);
    environment.run(&["config", "show"]).expect(0);
    environment.write(".ekiden/config.toml", &file.replace("agent.sh", "other.sh"));
    insta::assert_snapshot!(environment.run(&["config", "show"]), @r"
    --- standard error
    error: .ekiden/config.toml:1: a project's own file may not set `verify`; the file changed since you approved it
    hint: it would decide which commands run, or who is notified, on the machine of everybody who clones the project
    hint: take the line out, then give `--verify` on the command line or put it into ~/.config/ekiden/config.toml
    hint: or read the file, and approve it as it is now: `ekiden config approve`
    --- exit code 78
    ");
    let approved = environment.run(&["config", "approve", "--json"]);
    let dir = environment.dir().display().to_string();
    insta::assert_snapshot!(approved.to_string().replace(&dir, "DIR"), @r#"
    {"v":1,"file":"DIR/.ekiden/config.toml","dry_run":false,"approved":[{"line":1,"what":"`verify`","value":"printf '\u001b[2J'"},{"line":3,"what":"[agents.mine]","value":"kind = exec, command = sh other.sh"},{"line":6,"what":"[agents.claude]","value":"account = /repo/.cfg, tokens = 2000000"}]}
    --- exit code 0
    "#);
    insta::assert_snapshot!(environment.run(&["config", "approve", "--remove"]), @r"
    no longer approved: the project's config.toml
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.run(&["config", "approve", "--remove", "--json"]), @r#"
    {"v":1,"withdrawn":[]}
    --- exit code 0
    "#);
    insta::assert_snapshot!(environment.run(&["config", "approve", "--remove"]), @r"
    nothing was approved for this project
    --- exit code 0
    ");
    environment.write(".ekiden/config.toml", "pause = 3\n");
    let instead = ["config", "show", "--verify", "make test"];
    environment.run(&instead).expect(0);
    insta::assert_snapshot!(environment.run(&["config", "approve"]), @r"
    .ekiden/config.toml sets nothing that needs an approval
    --- exit code 0
    ");
    let approved = environment.told(&["config", "approve", "--json"]);
    assert!(approved.contains("\"approved\":[]}"), "{approved}");
    let long = format!("true {} && sh agent.sh", "very ".repeat(60));
    environment.write(".ekiden/config.toml", &format!("verify = '{long}'\n"));
    let approved = environment.told(&["config", "approve"]);
    assert!(approved.contains(&long), "{approved}");
}

// shows: SEC-06
#[test]
fn a_session_approves_nothing() {
    let environment = Environment::new().with("EKIDEN_RUN", "7f3a0b1c");
    environment.write(".ekiden/config.toml", "verify = 'true'\n");
    insta::assert_snapshot!(environment.run(&["config", "approve"]), @r"
    --- standard error
    error: only a person can change or approve settings, and this is a session of ekiden
    hint: ask the person who runs it
    --- exit code 77
    ");
    std::fs::remove_file(environment.dir().join(".ekiden/config.toml")).unwrap();
    for refused in [
        &["setup"][..],
        &["setup", "--remove"],
        &["worker", "--remote", "r"],
    ] {
        let said = environment.run(refused).expect(77).stderr;
        assert!(said.starts_with("error: only a person can "), "{said}");
    }
    environment.run(&["setup", "--dry-run"]).expect(0);
}

// shows: UIX-11
#[test]
fn a_misspelt_variable_keeps_no_command_from_looking() {
    let environment = Environment::new().with("EKIDEN_MAX_SESION", "3");
    insta::assert_snapshot!(environment.run(&["status"]), @r"
    nothing has run here yet
    next  ekiden run TASK
    --- standard error
    warning: there is no setting `EKIDEN_MAX_SESION` in the environment; it is not used
    --- exit code 0
    ");
}

// shows: UIX-03
#[test]
fn what_needs_a_home_says_so_in_the_same_way() {
    let environment = Environment::with_git().with("HOME", "");
    for needs in [
        &["config", "set", "max_sessions", "3"][..],
        &["dash"],
        &["memory", "stats"],
        &["status", "--everywhere"],
        &["tracker", "status"],
    ] {
        let said = environment.run(needs).expect(78).stderr;
        assert!(said.starts_with("error: cannot find "), "{needs:?}: {said}");
        assert!(
            said.ends_with(": HOME is not set\nhint: set HOME\n"),
            "{needs:?}: {said}"
        );
    }
}

// shows: RUN-03
#[test]
fn several_values_that_commas_join_are_several_words() {
    let environment = Environment::new();
    let set = ["config", "set", "notify.kinds", "done", "failed"];
    environment.run(&set).expect(0);
    let shown = environment.run(&["config", "show"]).expect(0);
    assert!(shown.stdout.contains("done,failed"), "{}", shown.stdout);
}
