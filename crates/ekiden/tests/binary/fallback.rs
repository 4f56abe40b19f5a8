//! On with another agent when one is out.

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Environment, items};
use crate::plan::{plan, repository, stage};
use crate::processes::expect_nothing_alive;
use crate::running::wait_until;

/// Two more accounts: one on which all goes well, and one that is at its limit for longer.
pub(crate) fn with_accounts(environment: Environment, first: &str) -> Environment {
    let program = env!("CARGO_BIN_EXE_ekiden");
    let scenario = |name: &str, act: &str| {
        let path = environment.path(name);
        std::fs::write(&path, act).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let does = |what: &str| format!("[[act]]\nat = \"call\"\ndo = {what}\n");
    let first = scenario("first.toml", &does(first));
    let row = |name: &str, act: &str| {
        let file = scenario(&format!("{name}.toml"), act);
        format!(
            "[agents.{name}]\nkind = \"rehearsal\"\naccount = \"/home/me/{name}\"\n\
             command = [\"env\", \"EKIDEN_REHEARSAL_SCENARIO={file}\", \"{program}\", \"__rehearsal\"]\n"
        )
    };
    let rows = row("second", "") + &row("late", &does("{ limit = 7200 }"));
    environment.write("../home/.config/ekiden/config.toml", &rows);
    environment.with("EKIDEN_REHEARSAL_SCENARIO", &first)
}

fn run<'a>(fallback: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = [
        "run",
        "task.md",
        "--agent",
        "rehearsal",
        "--fallback",
        fallback,
    ];
    [&run[..], more].concat()
}

// shows: REL-39
#[test]
fn another_account_goes_on_and_everybody_is_told_who_did_what() {
    let environment = with_accounts(repository(), "{ limit = 18000 }");
    environment.write("task.md", &items(3));
    let said = environment
        .run(&run("rehearsal:second", &["-g"]))
        .expect(0)
        .stdout;
    assert!(said.contains("session 1 · rehearsal · "), "{said}");
    assert!(
        said.contains("0 tool calls · the 5-hour limit is reached\nsession 1 · second · "),
        "{said}"
    );
    let log = environment.run(&["log", "--json"]).expect(0).stdout;
    assert!(
        log.contains("\"five_hour\"") && log.contains("\"agent\":\"second\""),
        "{log}"
    );
    let commit = environment.git(&["log", "-1", "--format=%(trailers:key=Ekiden-Agent)"]);
    assert_eq!(commit.trim(), "Ekiden-Agent: second");
    let report = std::fs::read_to_string(environment.run_dir().join("report.md")).unwrap();
    assert!(report.contains("1 · `second`"), "{report}");
    for (command, told) in [
        (&["sessions"][..], "says all is done · second"),
        (&["status"], " · second"),
    ] {
        let said = environment.run(command).expect(0).stdout;
        assert!(said.contains(told), "{command:?}: {said}");
    }
    expect_nothing_alive(&environment);
}

/// It depends on the agent at work, not on the one that the run began with.
// shows: REL-39, UIX-01
#[test]
fn next_is_refused_once_an_agent_has_taken_over_that_takes_no_messages() {
    let environment = with_accounts(repository(), "{ limit = 18000 }");
    let wait = "echo plain words; touch started; while [ ! -e go ]; do sleep 0.02; done";
    environment.script("agent.sh", wait);
    let rows = environment.read("../home/.config/ekiden/config.toml");
    let script = "[agents.script]\nkind = \"exec\"\ncommand = [\"./agent.sh\"]\n";
    environment.write("../home/.config/ekiden/config.toml", &(rows + script));
    environment.write("task.md", &items(1));
    let running = environment.start(&run("script", &["-m", "1", "--skip-permissions"]));
    wait_until("work", || environment.exists("started"));
    let said = environment.run(&["next"]).expect(1).stderr;
    assert!(
        said.contains("an agent of kind exec takes no messages"),
        "{said}"
    );
    environment.write("go", "");
    running.end();
    // What is said of its sessions depends on it, too.
    let log = environment.run(&["log"]).expect(0).stdout;
    assert_eq!(log.matches("tool calls").count(), 1, "{log}");
    let said = environment.run(&["show", "--events"]).expect(0).stdout;
    assert!(said.contains("plain words"), "{said}");
}

// shows: REL-39
#[test]
fn an_agent_that_may_take_over_or_review_must_be_there_before_the_run() {
    let environment = with_accounts(repository(), "none");
    environment.write("task.md", &items(1));
    let rows = environment.read("../home/.config/ekiden/config.toml");
    let gone = "[agents.gone]\nkind = \"rehearsal\"\ncommand = [\"no-such-program\"]\n";
    environment.write("../home/.config/ekiden/config.toml", &(rows + gone));
    environment.write("plan.toml", &plan(&[stage("A", "", "true", "true")]));
    environment.commit_all();
    let execute = [
        "execute",
        "plan.toml",
        "--yes",
        "--agent",
        "rehearsal",
        "--fallback",
        "gone",
    ];
    for command in [
        run("second,gone", &[]),
        run("second", &["--review=gone"]),
        execute.into(),
    ] {
        let said = environment.run(&command).expect(69).stderr;
        let why = "agent `gone`: `no-such-program` is not on PATH";
        assert!(said.contains(why), "{command:?}: {said}");
        assert!(
            said.contains("take it out of `fallback`, `review` or the manifest"),
            "{said}"
        );
    }
    let doctor = [
        "doctor",
        "--agent",
        "rehearsal",
        "--fallback",
        "second,gone",
    ];
    let said = environment.run(&doctor).expect(69).stdout;
    assert!(said.contains("ok       agent       second: "), "{said}");
    assert!(
        said.contains("gone: `no-such-program` is not on PATH"),
        "{said}"
    );
}

// shows: REL-39
#[test]
fn a_plan_of_twelve_stages_spreads_over_two_accounts() {
    let environment = with_accounts(repository(), "{ limit = 18000 }");
    let stages: Vec<String> = (0..12)
        .map(|n| {
            stage(
                &format!("S{n}"),
                "",
                &format!("echo {n} > s{n}"),
                &format!("test -e s{n}"),
            )
        })
        .collect();
    environment.write("plan.toml", &plan(&stages));
    environment.commit_all();
    let execute = [
        "execute",
        "plan.toml",
        "--yes",
        "--agent",
        "rehearsal",
        "--fallback",
        "second",
    ];
    let said = environment.run(&execute).expect(0).stdout;
    assert!(
        said.contains("12 of 12") || said.contains("12 stages"),
        "{said}"
    );
    let sessions = |agent: &str| said.matches(&format!(" · {agent} · ")).count();
    assert_eq!(sessions("second"), 12, "{said}");
    // Those that began beside each other met the limit; whoever began later knew of it.
    assert!((1..=3).contains(&sessions("rehearsal")), "{said}");
    expect_nothing_alive(&environment);
}

/// Two agents with budgets of their own.
fn with_budgets(first: &str, second: &str) -> Environment {
    let environment = with_accounts(Environment::with_git(), "none");
    environment.write("../first.toml", "");
    let rows = environment.read("../home/.config/ekiden/config.toml");
    let rows = rows.replacen(
        "[agents.second]\n",
        &format!(
            "[agents.rehearsal]\ntokens = \"{first}\"\n\n[agents.second]\ntokens = \"{second}\"\n"
        ),
        1,
    );
    environment.write("../home/.config/ekiden/config.toml", &rows);
    environment.write("task.md", &items(9));
    environment
}

// shows: REL-39
#[test]
fn an_agent_whose_budget_is_spent_hands_off_and_another_one_goes_on() {
    let environment = with_budgets("48.3k", "1M");
    let said = environment.run(&run("second", &[]));
    insta::assert_snapshot!(environment.normal(&said), @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · rehearsal · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 9 done
      next      The item "Item 4", with `echo made > item-4.txt`.
    session 2 · rehearsal · CLOCK
      budget    21k tokens used; session 2 is asked to hand off
      USAGE  handed off after TIME · 5 tool calls
      ! the budget of `rehearsal` has no room for another session: 48k of 48k tokens
      items     5 of 9 done
      next      The item "Item 6", with `echo made > item-6.txt`.
    session 3 · second · CLOCK
      USAGE  handed off after TIME · 6 tool calls
      items     8 of 9 done
      next      The item "Item 9", with `echo made > item-9.txt`.
    session 4 · second · CLOCK
      USAGE  says all is done after TIME · 3 tool calls
      items     9 of 9 done

    complete (not verified) · 4 sessions · TIME · 10 files not committed
    knowledge  4 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    "#);
    let status = environment.run(&["status"]);
    insta::assert_snapshot!(environment.normal(&status), @r#"
    RUN  relay  complete  session 4 of 10 · second · CLOCK to CLOCK   not verified   task.md
      rehearsal  48k of 48k tokens, spent
      second  44k of 1M tokens
    next  ekiden log RUN
    --- exit code 0
    "#);
    let report = std::fs::read_to_string(environment.run_dir().join("report.md")).unwrap();
    let row = report.lines().find(|line| line.contains("of 48k tokens"));
    assert!(
        row.is_some_and(|row| row.contains("rehearsal") && row.contains("spent")),
        "{report}"
    );
}

// shows: REL-39, REL-22
#[test]
fn when_the_budgets_of_all_agents_are_spent_the_run_ends_and_says_what_to_change() {
    let environment = with_budgets("30k", "30k");
    let said = environment.run(&run("second", &["--json"])).expect(3);
    let end: Value = serde_json::from_str(said.stdout.lines().last().unwrap()).unwrap();
    let agents = end["outcome"]["agents"].as_array().unwrap();
    let names: Vec<&Value> = agents.iter().map(|agent| &agent["agent"]).collect();
    assert_eq!(names, ["rehearsal", "second"], "{said}");
    assert_eq!(
        said.stdout.matches("\"agent_budget_spent\"").count(),
        2,
        "{said}"
    );
    // What was spent still counts, whoever takes the run up.
    let again = environment.run(&["resume"]);
    let used = agents[0]["spent"]["tokens"].as_u64().unwrap();
    let more = (30_000 + used).to_string();
    insta::assert_snapshot!(environment.normal(&again).replace(&more, "MORE"), @r#"
    run RUN continues · CLOCK · up to session 12

    stopped (3): no agent has budget for another session: rehearsal 25k of 30k tokens, second 26k of 30k tokens · 2 sessions · TIME · 6 of 9 items done · 7 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume --agent-tokens rehearsal=MORE
    --- exit code 3
    "#);
    // A budget that would count for nobody is refused.
    let nobody = ["resume", "--agent-tokens", "secnd=1M"];
    let said = environment.run(&nobody).expect(78).stderr;
    assert!(said.contains("there is no agent `secnd`"), "{said}");
    let more = ["resume", "--agent-tokens", "second=1M"];
    let said = environment.run(&more).expect(0).stdout;
    assert!(!said.contains(" · rehearsal · "), "{said}");
    assert!(environment.exists("item-9.txt"));
    let typed = run("second", &["--new", "--agent-budget", "secnd=1"]);
    let said = environment.run(&typed).expect(78).stderr;
    assert!(said.contains("there is no agent `secnd`"), "{said}");
}

/// The second meets a limit that ends later: the wait is for the first, and here it is too long.
// shows: REL-39
#[test]
fn all_at_their_limits_wait_for_the_earliest_reset() {
    let environment = with_accounts(Environment::with_git(), "{ limit = 3600 }");
    environment.write("task.md", &items(3));
    let said = environment.run(&run("late", &["--max-wait", "10m", "--json"]));
    let said = said.expect(3).stdout;
    let ended: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(ended["outcome"]["kind"], "limit_too_far", "{said}");
    let until = ended["outcome"]["until"].as_i64().unwrap() / 1000;
    let now: jiff::Timestamp = ended["time"].as_str().unwrap().parse().unwrap();
    let wait = until - now.as_second();
    assert!((3_600..3_700).contains(&wait), "{wait} s: {said}");
    assert_eq!(said.matches("\"session_started\"").count(), 2, "{said}");
}

/// ekiden tells the agent where the login is, and reads nothing there.
// shows: REL-39
#[test]
fn an_account_is_a_directory_that_the_agent_is_told() {
    for (kind, variable) in [("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")] {
        let environment = Environment::with_git();
        environment.script("agent.sh", &format!("echo ${variable} > ../told; sleep 60"));
        let row = format!(
            "[agents.mine]\nkind = \"{kind}\"\ncommand = \"./agent.sh\"\naccount = \"~/.mine\"\n"
        );
        environment.write("../home/.config/ekiden/config.toml", &row);
        let run = environment.start(&["run", "Do it.", "--agent", "mine", "--skip-permissions"]);
        wait_until("the agent", || environment.read("../told").ends_with('\n'));
        run.signal(Signal::KILL);
        run.end().expect(137);
        let home = environment.path("home/.mine");
        assert_eq!(environment.read("../told").trim(), home.to_str().unwrap());
        assert!(!home.exists());
    }
}

// shows: REL-39, AGT-06
#[test]
fn an_agent_that_takes_no_messages_is_not_told_to_wait_for_one() {
    let environment = with_accounts(repository(), "{ limit = 18000 }");
    environment.script("agent.sh", "cat > ../told; exit 1");
    let path = "../home/.config/ekiden/config.toml";
    let row = "[agents.script]\nkind = \"exec\"\ncommand = \"./agent.sh\"\n";
    environment.write(path, &(environment.read(path) + row));
    environment.write("task.md", &items(1));
    let run = environment.start(&run("script", &["--skip-permissions"]));
    wait_until("the second agent", || {
        environment.read("../told").contains("# Task")
    });
    run.signal(Signal::TERM);
    run.end();
    let told = environment.read("../told");
    assert!(
        told.contains("Hand off after you have finished 3 of the open items"),
        "{told}"
    );
    assert!(!told.contains("sends a message"), "{told}");
}
