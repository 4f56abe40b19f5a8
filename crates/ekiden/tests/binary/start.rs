//! Starting: what a task may be, what is refused before anything is created, who else works here.

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Environment, items, slow_items};
use crate::processes::expect_nothing_alive;
use crate::running::wait_until;

const REHEARSAL: [&str; 2] = ["--agent", "rehearsal"];

fn run(args: &[&'static str]) -> Vec<&'static str> {
    [args, &REHEARSAL].concat()
}

// shows: RUN-01
#[test]
fn a_task_is_a_file_standard_input_or_words() {
    let task = items(1);
    let ways: [&[&str]; 4] = [&["run", "task.md"], &["task.md"], &["run", "-"], &["run", &task]];
    for way in ways {
        let environment = Environment::new();
        environment.write("task.md", &task);
        environment.fed(&[way, &REHEARSAL].concat(), &task).expect(0);
        assert_eq!(environment.read(".ekiden/TASK.md"), task, "{way:?}");
        assert_eq!(environment.read("item-1.txt"), "made\n", "{way:?}");
    }
}

// shows: RUN-01, RUN-07
#[test]
fn what_cannot_begin_says_why_and_creates_nothing() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    environment.write("empty.md", " \n");
    std::fs::write(environment.dir().join("latin-1.md"), b"caf\xe9 au lait").unwrap();
    let told = |args: &[&'static str]| {
        let said = environment.told(&run(args));
        assert!(!environment.exists(".ekiden") && !environment.exists(".git/ekiden"), "{args:?}");
        said
    };
    insta::assert_snapshot!(told(&["run", "tidy"]), @r"
    --- standard error
    error: there is no file `tidy`
    hint: a task is a file, `-` for standard input, or words in quotes (more than one)
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["stauts"]), @r"
    --- standard error
    error: there is no file `stauts`
    hint: did you mean `ekiden status`?
    hint: a task is a file, `-` for standard input, or words in quotes (more than one)
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "."]), @r"
    --- standard error
    error: cannot read the task .: it is a directory
    hint: name a file; `--work-dir DIR` says where the agent works
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "empty.md"]), @r"
    --- standard error
    error: the task is empty: empty.md
    hint: write down what to do and how to see that it is done
    --- exit code 65
    ");
    insta::assert_snapshot!(told(&["run", "latin-1.md"]), @r"
    --- standard error
    error: cannot read the task latin-1.md: stream did not contain valid UTF-8
    --- exit code 65
    ");
    insta::assert_snapshot!(told(&["run", "task.md", "--work-dir", "elsewhere"]), @r"
    --- standard error
    error: cannot work in elsewhere: No such file or directory (os error 2)
    hint: name another directory with `--work-dir`, or create it
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "task.md", "-m", "0"]), @r"
    --- standard error
    error: `--max-sessions` must be a whole number from 1 to 10000, not `0`
    --- exit code 2
    ");
}

// shows: RUN-07
#[test]
fn an_agent_that_is_not_there_is_told_before_anything_is_created() {
    let environment = Environment::new();
    let empty = environment.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let environment = environment.with("PATH", empty.to_str().unwrap());
    environment.write("task.md", &items(1));
    insta::assert_snapshot!(environment.told(&["run", "task.md"]), @r"
    --- standard error
    error: cannot start a session: agent `claude`: `claude` is not on PATH
    hint: install it (npm install -g @anthropic-ai/claude-code), or try for free with `--agent rehearsal`
    --- exit code 69
    ");
    insta::assert_snapshot!(environment.told(&["run", "task.md", "--agent", "codex"]), @r"
    --- standard error
    error: there is no agent `codex`
    hint: there are: claude, rehearsal
    hint: any other program works for one run with `--agent-command 'PROGRAM ARGUMENTS'`
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.told(&["run", "task.md", "--agent-command", "./agent.sh"]), @r"
    --- standard error
    error: cannot start a session: agent `agent.sh`: `PROJECT/./agent.sh` is not there
    hint: name another with `--agent`
    --- exit code 69
    ");
    assert!(!environment.exists(".ekiden"));
}

// shows: RUN-12
#[test]
fn an_unfinished_run_is_in_the_way_until_it_is_set_aside() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(9));
    environment.write("other.md", &items(1));
    environment.run(&run(&["run", "task.md", "-m", "1"])).expect(3);
    insta::assert_snapshot!(environment.told(&run(&["run", "task.md"])), @r"
    --- standard error
    error: a run of this task is not finished here: RUN
    hint: `ekiden resume` carries it on
    hint: `--new` starts anew and keeps that one as it is
    --- exit code 3
    ");
    insta::assert_snapshot!(environment.told(&run(&["run", "other.md"])), @r"
    --- standard error
    error: a run of another task is not finished here: RUN
    hint: `ekiden resume` carries it on
    hint: `--new` starts anew and keeps that one as it is
    --- exit code 1
    ");

    let (first, left) = (environment.run_dir(), environment.read(".ekiden/handoff/NEXT_PROMPT.md"));
    let kept = |name: &str| std::fs::read_to_string(first.join(name)).unwrap();
    let log = kept("log.jsonl");
    assert_eq!(kept("sessions/1/next_prompt.md"), left);
    environment.run(&run(&["run", "other.md", "--new"])).expect(0);
    assert_eq!(environment.runs().len(), 2);
    assert_eq!(kept("log.jsonl"), log);
    assert_eq!(kept("sessions/1/next_prompt.md"), left);

    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    --- standard error
    error: cannot resume: there is no unfinished run here
    hint: `ekiden status` shows what ran here
    --- exit code 66
    ");
    insta::assert_snapshot!(environment.told(&["resume", &environment.runs()[0], "-m", "1"]), @r#"
    run RUN goes on · CLOCK · up to session 2
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     6 of 9 done
      next      The item "Item 7", with `echo made > item-7.txt`.

    stopped (3): session limit reached after 2 of 2 sessions · TIME · 6 of 9 items done · 8 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    to go on:  ekiden resume -m 1
    --- exit code 3
    "#);
    assert_eq!(environment.read("item-6.txt"), "made\n");
}

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

// shows: RUN-08
#[test]
fn a_second_run_is_refused_while_the_first_lives_and_no_longer() {
    let environment = Environment::with_git();
    environment.write("task.md", &slow_items(1));
    let first = environment.start(&run(&["run", "task.md"]));
    wait_until("work", || environment.exists("started"));
    let pid = first.pid().as_raw_nonzero().to_string();
    for args in [run(&["run", "task.md"]), run(&["run", "task.md", "--new"]), vec!["resume"]] {
        let second = environment.run(&args).expect(75);
        let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
        assert!(second.stderr.contains(&format!("pid {pid} on {host}, since ")), "{second}");
    }
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    --- standard error
    error: another run works in this directory: RUN, pid PID on HOST, since DATE
    hint: `ekiden status` shows it; ctrl-c where it runs stops it
    --- exit code 75
    ");
    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  running  session 1 of 10   working   task.md
    --- exit code 0
    ");

    first.signal(Signal::KILL);
    first.end().expect(137);
    expect_nothing_alive(&environment);
    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  interrupted  session 1 of 10   working   task.md
    next  ekiden resume
    --- exit code 0
    ");
    environment.run(&["resume"]).expect(0);
}

// shows: UIX-02
#[test]
fn json_is_one_object_a_line_and_the_log_says_it_again() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    let args = ["run", "task.md", "--json", "--verify", "test -e item-5.txt"];
    let said = environment.run(&[&args[..], &REHEARSAL].concat()).expect(0);
    let lines: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let run = &environment.runs()[0];
    assert!(lines.iter().all(|line| line["v"] == 1 && line["run"] == **run), "{said}");
    assert_eq!(said.stderr, "");
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    insta::assert_snapshot!(events.join("\n"), @r"
    run_started
    first_check
    session_started
    window
    level
    level
    attempt_ended
    handoff
    check
    session_started
    level
    attempt_ended
    handoff
    check
    run_ended
    ");
    assert_eq!(environment.run(&["log", "--json"]).expect(0).stdout, said.stdout);
}
