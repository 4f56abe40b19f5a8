//! `ekiden start`: the questions on a terminal, and the command line that comes of the answers.

use std::collections::BTreeSet;
use std::time::Duration;

use ekiden_testkit::pty::Pty;

use crate::environment::{Environment, items};

const WITHIN: Duration = Duration::from_secs(60);
const ENTER: &str = "\r";
const DOWN: &str = "\x1b[B";
const CTRL_C: &str = "\x03";
/// What is asked of a relay on an agent that needs no permissions.
const QUESTIONS: [&str; 9] = [
    "Where does the agent work?",
    "What is to be done?",
    "How large is it?",
    "Which command exits with 0 when it is done",
    "How many sessions at most?",
    "How many US dollars at most?",
    "How do you want to follow it?",
    "Should the agent ask you first?",
    "And now?",
];

fn project() -> Environment {
    let environment = Environment::new().with("TERM", "xterm");
    environment.write("task.md", &items(2));
    environment
}

fn asked(environment: &Environment, args: &[&str]) -> Pty {
    Pty::spawn(environment.command(args)).unwrap()
}

/// What a person sees.
fn screen(pty: &Pty, columns: u16) -> String {
    let mut parser = vt100::Parser::new(50, columns, 0);
    parser.process(pty.written().as_bytes());
    let lines = parser.screen().contents();
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[track_caller]
fn answer(pty: &mut Pty, question: &str, keys: &str) {
    let shown = pty.wait_until(WITHIN, |pty| {
        let written = pty.written();
        let last = written.rfind(question);
        // The help below the question is the last of it that is written.
        last.is_some_and(|at| written[at..].contains(']'))
    });
    assert!(shown, "`{question}` was never asked:\n{}", screen(pty, 100));
    pty.press(keys).unwrap();
}

/// The exit code, once this was shown: what was written last may be read after the end.
fn code(pty: &mut Pty, last: &str) -> Option<i32> {
    pty.wait_until(WITHIN, |pty| screen(pty, 100).contains(last));
    pty.wait(WITHIN).and_then(|end| end.code())
}

/// Every file of the work dir and of the home.
fn files(environment: &Environment) -> BTreeSet<String> {
    let root = environment.path("");
    let mut dirs = vec![root.clone()];
    let mut files = BTreeSet::new();
    while let Some(dir) = dirs.pop() {
        for entry in dir.read_dir().unwrap().flatten() {
            let path = entry.path();
            files.insert(path.strip_prefix(&root).unwrap().display().to_string());
            dirs.extend(path.is_dir().then_some(path));
        }
    }
    files
}

// shows: REL-26
#[test]
fn enter_takes_every_default_and_the_run_begins() {
    let environment = project();
    environment.write("Makefile", "test:\n\ttest -e item-2.txt\n");
    let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
    for question in QUESTIONS {
        answer(&mut pty, question, ENTER);
    }
    assert_eq!(code(&mut pty, "complete"), Some(0), "{}", screen(&pty, 100));
    let shown = screen(&pty, 100);
    let (questions, run) = shown.split_once("\nrun ").unwrap();
    insta::assert_snapshot!(questions, @r"
    > Where does the agent work? .
    > What is to be done? the file task.md
    > How large is it? one task: a relay of fresh sessions
    > Which command exits with 0 when it is done? make test
    > How many sessions at most? 10
    > How many US dollars at most? none
    > How do you want to follow it? watch it here
    > Should the agent ask you first? no: the task says all

      ekiden run --agent rehearsal --verify 'make test' task.md

    > And now? run it
    ");
    assert!(run.contains("verified"), "{run}");
}

/// No flag lifts a budget that is set, so "none" must not look as if it did.
// shows: REL-26
#[test]
fn a_budget_that_is_set_is_not_lifted() {
    let environment = project().with("EKIDEN_RUN_BUDGET", "5");
    let words = ["start", "--agent", "rehearsal", "--verify", "true", "-m2"];
    let mut pty = asked(&environment, &words);
    // A command that decides is for a relay, so it is not asked how large the task is.
    for question in &QUESTIONS[..2] {
        answer(&mut pty, question, ENTER);
    }
    answer(&mut pty, QUESTIONS[5], "none\r");
    answer(&mut pty, "it must be ", CTRL_C);
    assert_eq!(code(&mut pty, "nothing was started"), Some(130));
}

// shows: REL-26
#[test]
fn the_printed_line_starts_the_same_run() {
    let environment = project();
    environment.write("Cargo.toml", "");
    let mut pty = asked(
        &environment,
        &["start", "--agent", "rehearsal", "--pause", "1"],
    );
    pty.resize(40, 60).unwrap();
    answer(&mut pty, QUESTIONS[0], ENTER);
    answer(&mut pty, QUESTIONS[1], &[DOWN, DOWN, ENTER].concat());
    answer(&mut pty, "The task:", "one\r");
    answer(
        &mut pty,
        "more than one word",
        "\x7f\x7f\x7f-- it's \"done\"\r",
    );
    answer(&mut pty, QUESTIONS[2], ENTER);
    answer(&mut pty, QUESTIONS[3], "");
    insta::assert_snapshot!(screen(&pty, 60), @r#"
    > Where does the agent work? .
    > What is to be done? type it in a line
    > The task: -- it's "done"
    > How large is it? one task: a relay of fresh sessions
    ? Which command exits with 0 when it is done?
    > cargo test
      nothing: the agent says when it is done
      another command
    [up and down to move, enter to take it, esc to leave]
    "#);
    pty.press(&[DOWN, DOWN, ENTER].concat()).unwrap();
    answer(&mut pty, "The command:", "test -e 'a b' || true\r");
    answer(&mut pty, QUESTIONS[4], "0\r");
    answer(&mut pty, "a whole number from 1 to 10000", "\x7f3\r");
    answer(&mut pty, QUESTIONS[5], "2.50\r");
    answer(&mut pty, QUESTIONS[6], ENTER);
    answer(&mut pty, QUESTIONS[7], ENTER);
    answer(&mut pty, QUESTIONS[8], &[DOWN, ENTER].concat());
    assert_eq!(code(&mut pty, "only print it\nekiden "), Some(0));
    let shown = screen(&pty, 60);
    insta::assert_snapshot!(shown, @r#"
    > Where does the agent work? .
    > What is to be done? type it in a line
    > The task: -- it's "done"
    > How large is it? one task: a relay of fresh sessions
    > Which command exits with 0 when it is done? another comman
    d
    > The command: test -e 'a b' || true
    > How many sessions at most? 3
    > How many US dollars at most? 2.50
    > How do you want to follow it? watch it here
    > Should the agent ask you first? no: the task says all

      ekiden run --agent rehearsal --max-sessions 3 --pause 1 --run-budget 2.50 --verify "test -e 'a b' || true" -- "-- it's \"done\""

    > And now? only print it
    ekiden run --agent rehearsal --max-sessions 3 --pause 1 --run-budget 2.50 --verify "test -e 'a b' || true" -- "-- it's \"done\""
    "#);
    assert!(environment.runs().is_empty());
    let line = screen(&pty, 500);
    let line = line.lines().last().unwrap();
    let words = shlex::split(line.trim()).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).skip(1).collect();
    // A task without items is nothing that rehearsal can do.
    environment.run(&words).expect(4);
    let started = &environment.log()[0]["event"];
    let stage = &started["manifest"]["stages"][0];
    assert_eq!(stage["task"], "-- it's \"done\"");
    assert_eq!(stage["sessions_max"], 3);
    assert_eq!(started["settings"]["pause"], 1000);
}

// shows: REL-26
#[test]
fn ctrl_c_at_any_question_leaves_nothing() {
    let environment = project();
    let before = files(&environment);
    for (asked_before, leaving) in QUESTIONS.iter().enumerate() {
        let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
        for question in &QUESTIONS[..asked_before] {
            answer(&mut pty, question, ENTER);
        }
        let keys = if asked_before % 2 == 0 {
            CTRL_C
        } else {
            "\x1b"
        };
        answer(&mut pty, leaving, keys);
        assert_eq!(
            code(&mut pty, "nothing was started"),
            Some(130),
            "{}",
            screen(&pty, 100)
        );
        assert!(pty.is_sane());
        assert!(screen(&pty, 100).ends_with("nothing was started"));
    }
    assert_eq!(files(&environment), before);
}

// shows: REL-26
#[test]
fn a_task_from_the_editor_is_a_file_only_at_the_end() {
    let environment = project().with("EDITOR", "./editor");
    let drafts = environment.path("drafts");
    std::fs::create_dir(&drafts).unwrap();
    let environment = environment.with("TMPDIR", drafts.to_str().unwrap());
    environment.script("editor", "printf -- '- [ ] Make it\\n' > \"$1\"\n");
    let before = files(&environment);
    let start = || {
        let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
        answer(&mut pty, QUESTIONS[0], ENTER);
        answer(&mut pty, QUESTIONS[1], &[DOWN, ENTER].concat());
        for question in &QUESTIONS[2..8] {
            answer(&mut pty, question, ENTER);
        }
        pty
    };
    let draft = || {
        let draft = drafts.read_dir().unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&draft).unwrap();
        std::fs::remove_file(&draft).unwrap();
        text
    };
    let mut left = start();
    answer(&mut left, QUESTIONS[8], CTRL_C);
    let told = "what was written is kept in ";
    assert_eq!(code(&mut left, told), Some(130), "{}", screen(&left, 100));
    assert!(left.written().contains("nothing was started"));
    assert!(left.written().contains(told), "{}", left.written());
    assert_eq!(draft(), "- [ ] Make it\n");
    assert_eq!(files(&environment), before);
    // A file of that name has appeared meanwhile.
    let mut refused = start();
    environment.write("task-2.md", "");
    answer(&mut refused, QUESTIONS[8], &[DOWN, ENTER].concat());
    assert!(code(&mut refused, told).is_some_and(|code| code > 0));
    assert!(refused.written().contains(told), "{}", refused.written());
    assert_eq!(draft(), "- [ ] Make it\n");
    environment.shell("rm task-2.md");
    let mut printed = start();
    answer(&mut printed, QUESTIONS[8], &[DOWN, ENTER].concat());
    assert_eq!(code(&mut printed, "only print it\nekiden run"), Some(0));
    assert_eq!(environment.read("task-2.md"), "- [ ] Make it\n");
    assert!(screen(&printed, 100).ends_with("\nekiden run --agent rehearsal task-2.md"));
    assert_eq!(drafts.read_dir().unwrap().count(), 0);

    environment.script("editor", "echo 'an hour of work' > \"$1\"; exit 1\n");
    let mut refused = asked(&environment, &["start", "--agent", "rehearsal"]);
    answer(&mut refused, QUESTIONS[0], ENTER);
    answer(&mut refused, QUESTIONS[1], &[DOWN, ENTER].concat());
    assert!(code(&mut refused, told).is_some_and(|code| code > 0));
    assert_eq!(draft(), "an hour of work\n");
}

// shows: REL-26
#[test]
fn permissions_are_asked_for_where_the_client_needs_them() {
    let environment = project();
    let mut pty = asked(&environment, &["start"]);
    for question in &QUESTIONS[..6] {
        answer(&mut pty, question, ENTER);
    }
    answer(
        &mut pty,
        "What may the agent do without asking?",
        &[DOWN, DOWN, ENTER].concat(),
    );
    answer(&mut pty, QUESTIONS[6], &[DOWN, ENTER].concat());
    // There is no client here that could ask.
    answer(&mut pty, QUESTIONS[8], &[DOWN, ENTER].concat());
    assert_eq!(code(&mut pty, "only print it\nekiden "), Some(0));
    let shown = screen(&pty, 100);
    assert!(
        shown.ends_with("\nekiden run --skip-permissions --detach task.md"),
        "{shown}"
    );
    let told = "warning: agent `claude`: `claude` is not on PATH: install it";
    assert!(shown.contains(told), "{shown}");
}

// shows: REL-26
#[test]
fn a_large_task_becomes_a_plan() {
    let environment = project();
    let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
    answer(&mut pty, QUESTIONS[0], ENTER);
    answer(&mut pty, QUESTIONS[1], ENTER);
    answer(&mut pty, QUESTIONS[2], &[DOWN, ENTER].concat());
    answer(
        &mut pty,
        "How many sessions at most for each try of a stage?",
        ENTER,
    );
    for question in &QUESTIONS[5..8] {
        answer(&mut pty, question, ENTER);
    }
    answer(&mut pty, QUESTIONS[8], &[DOWN, ENTER].concat());
    assert_eq!(code(&mut pty, "only print it\nekiden "), Some(0));
    assert!(screen(&pty, 100).ends_with("\nekiden build --agent rehearsal task.md"));
}

/// It asks for no command that decides: its stages have validations of their own.
// shows: REL-26
#[test]
fn a_plan_is_told_how_to_be_carried_out() {
    let environment = project();
    environment.write("Cargo.toml", "");
    let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
    answer(&mut pty, QUESTIONS[0], ENTER);
    answer(&mut pty, QUESTIONS[1], ENTER);
    answer(&mut pty, QUESTIONS[2], &[DOWN, ENTER].concat());
    answer(&mut pty, "for each try of a stage?", ENTER);
    answer(&mut pty, QUESTIONS[5], ENTER);
    answer(&mut pty, QUESTIONS[6], &[DOWN, DOWN, ENTER].concat());
    answer(&mut pty, QUESTIONS[7], ENTER);
    answer(&mut pty, QUESTIONS[8], &[DOWN, ENTER].concat());
    assert_eq!(code(&mut pty, "only print it\nekiden "), Some(0));
    let shown = screen(&pty, 100);
    assert!(
        shown.ends_with("\nekiden build --agent rehearsal --yes task.md"),
        "{shown}"
    );
}

// shows: REL-26
#[test]
fn what_the_agent_asks_and_the_person_answers_becomes_part_of_the_task() {
    let environment = project();
    let task = format!("Green or black tea?\nHow many?\n\n{}", items(1));
    environment.write("task.md", &task);
    let before = files(&environment);
    let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
    for question in &QUESTIONS[..7] {
        answer(&mut pty, question, ENTER);
    }
    answer(&mut pty, QUESTIONS[7], &[DOWN, ENTER].concat());
    answer(&mut pty, "Green or black tea?", ENTER);
    answer(&mut pty, "How many?", "Twelve.\r");
    answer(&mut pty, QUESTIONS[8], ENTER);
    assert_eq!(code(&mut pty, "complete"), Some(0), "{}", screen(&pty, 100));
    let shown = screen(&pty, 100);
    let (_, questions) = shown.split_once("yes, up to").unwrap();
    let (questions, _) = questions.split_once("\nrun ").unwrap();
    insta::assert_snapshot!(questions, @r"
     five questions: a session that reads the task and the p
    roject
    session 1 · reads the task and the project, and asks
    > Green or black tea? As you think best.
    > How many? Twelve.

      ekiden run --agent rehearsal task-2.md

    > And now? run it
    ");
    let file = environment.read("task-2.md");
    let asked = "## Asked before the start\n\n- Green or black tea?\n\n  As you think best.\n\n- How many?\n\n  Twelve.\n";
    assert_eq!(file, format!("{}\n\n{asked}", task.trim_end()));
    assert_eq!(
        environment.log()[0]["event"]["manifest"]["stages"][0]["task"],
        file
    );
    // But for the new task and the run, only the session's own files are new.
    let new: Vec<String> = files(&environment).difference(&before).cloned().collect();
    assert!(
        new.iter().all(|file| !file.starts_with("project/")
            || file.contains(".ekiden")
            || file.contains("task-2")
            || file.contains("item-")),
        "{new:?}"
    );
}

/// What the agent asks about an issue, and is answered, is what the run is told of it.
// shows: REL-26
#[test]
fn an_issue_is_the_task() {
    let environment = project();
    let issue = "---\ntitle: Brew tea\n---\nGreen or black tea?\n";
    environment.write(".issues/tea.md", issue);
    let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
    answer(&mut pty, QUESTIONS[0], ENTER);
    answer(&mut pty, QUESTIONS[1], &(DOWN.repeat(4) + ENTER));
    answer(&mut pty, "Which issue?", "tea\r");
    for question in &QUESTIONS[2..7] {
        answer(&mut pty, question, ENTER);
    }
    answer(&mut pty, QUESTIONS[7], &[DOWN, ENTER].concat());
    answer(&mut pty, "Green or black tea?", "Green.\r");
    answer(&mut pty, QUESTIONS[8], &[DOWN, ENTER].concat());
    let line = "only print it\nekiden run --agent rehearsal --issue tea task-2.md";
    assert_eq!(code(&mut pty, line), Some(0), "{}", screen(&pty, 100));
    assert!(screen(&pty, 100).contains(line), "{}", screen(&pty, 100));
    let own = "## Asked before the start\n\n- ¦ Green or black tea?\n\n  Green.\n";
    assert_eq!(environment.read("task-2.md"), own);
}

// shows: REL-26
#[test]
fn an_agent_without_questions_or_that_cannot_ask_does_not_keep_the_run() {
    let environment = project();
    for (arguments, told) in [
        (
            vec!["start", "--agent", "rehearsal"],
            "the agent asks nothing",
        ),
        (
            vec!["start", "--agent", "rehearsal", "--agent-command", "false"],
            "the agent asks nothing: ",
        ),
    ] {
        let mut pty = asked(&environment, &arguments);
        for question in &QUESTIONS[..7] {
            answer(&mut pty, question, ENTER);
        }
        answer(&mut pty, QUESTIONS[7], &[DOWN, ENTER].concat());
        answer(&mut pty, QUESTIONS[8], &[DOWN, ENTER].concat());
        assert_eq!(code(&mut pty, "only print it\nekiden "), Some(0));
        let shown = screen(&pty, 200);
        assert!(shown.contains(told), "{shown}");
    }
    assert!(!environment.exists("task-2.md"));
}

// shows: REL-26
#[test]
fn a_run_without_a_task_offers_the_questions() {
    let environment = project();
    let mut pty = asked(&environment, &["run", "--agent", "rehearsal"]);
    let offered = pty.wait_until(WITHIN, |pty| pty.written().contains("1 to 3, or enter"));
    assert!(offered, "{}", pty.written());
    pty.press("2\n").unwrap();
    for question in QUESTIONS {
        answer(&mut pty, question, ENTER);
    }
    assert_eq!(code(&mut pty, "complete"), Some(0), "{}", screen(&pty, 100));
    assert_eq!(environment.runs().len(), 1);
}

// shows: REL-26, RUN-12
#[test]
fn an_unfinished_run_is_asked_about_first() {
    let environment = project().with("EDITOR", "false");
    let unfinished = ["run", "Make tea.", "--agent", "rehearsal"];
    environment.run(&unfinished).expect(4);
    let ask = |answers: &str| {
        let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
        answer(&mut pty, QUESTIONS[0], ENTER);
        answer(&mut pty, "is unfinished here. What now?", answers);
        pty
    };
    let mut left = ask(&[DOWN, DOWN, ENTER].concat());
    assert_eq!(code(&mut left, "nothing was started"), Some(130));
    let mut answered = ask(ENTER);
    let told = "editor `false`";
    assert_ne!(code(&mut answered, told), Some(0));
    assert!(answered.written().contains("answer its question"));
    assert!(answered.written().contains(told), "{}", answered.written());
    assert_eq!(environment.runs().len(), 1);
    let mut another = ask(&[DOWN, ENTER].concat());
    for question in &QUESTIONS[1..8] {
        answer(&mut another, question, ENTER);
    }
    answer(&mut another, QUESTIONS[8], &[DOWN, ENTER].concat());
    let line = "only print it\nekiden run --agent rehearsal --new task.md";
    assert_eq!(
        code(&mut another, line),
        Some(0),
        "{}",
        screen(&another, 100)
    );
}

// shows: REL-26
#[test]
fn without_a_terminal_nobody_is_asked() {
    let environment = project();
    insta::assert_snapshot!(environment.told(&["start"]), @r"
    --- standard error
    error: cannot ask questions without a terminal, with `--json` or in a session of ekiden
    hint: `ekiden run task.md` starts a run without questions
    hint: `ekiden init` writes a template of a task
    --- exit code 2
    ");
}

// shows: REL-26
#[test]
fn the_folder_that_a_variable_names_is_the_default() {
    let environment = project().with("EKIDEN_WORK_DIR", "other");
    environment.shell("mkdir other");
    let mut pty = asked(&environment, &["start", "--agent", "rehearsal"]);
    answer(&mut pty, QUESTIONS[0], CTRL_C);
    assert_eq!(code(&mut pty, "nothing was started"), Some(130));
    assert!(pty.written().contains("(other)"), "{}", pty.written());
}

// shows: REL-26
#[test]
fn what_was_typed_holds_for_a_run_that_is_continued() {
    let environment = project();
    let first = [
        "run",
        "task.md",
        "--agent",
        "rehearsal",
        "-m1",
        "--verify",
        "false",
    ];
    environment.run(&first).expect(3);
    let words = ["start", "--agent", "rehearsal", "-m3", "--run-budget", "7"];
    let mut pty = asked(&environment, &words);
    answer(&mut pty, QUESTIONS[0], ENTER);
    answer(&mut pty, "is unfinished here. What now?", ENTER);
    pty.wait(WITHIN);
    let log = environment.run(&["log", "--json"]).expect(0);
    let limit = r#""event":"run_resumed","ekiden":"0.1.0","session_max":4}"#;
    assert!(log.stdout.contains(limit), "{}", log.stdout);
}

// shows: REL-26
#[test]
fn no_plan_is_offered_where_a_flag_is_for_one_relay() {
    let environment = project();
    let mut pty = asked(&environment, &["start", "--agent", "rehearsal", "--guided"]);
    answer(&mut pty, QUESTIONS[0], ENTER);
    answer(&mut pty, QUESTIONS[1], ENTER);
    answer(&mut pty, QUESTIONS[3], CTRL_C);
    assert_eq!(code(&mut pty, "nothing was started"), Some(130));
    assert!(!pty.written().contains(QUESTIONS[2]));
}
