//! A run that asks its user something, a run whose task the user is asked for, and directories around and below
//! a run.

use std::time::Duration;

use ekiden_testkit::pty::Pty;

use crate::environment::{Environment, items, slow_items};
use crate::running::wait_until;

const QUESTION: &str = "Keep the column legacy_id or drop it?";

/// A run whose first session asks.
fn blocked() -> Environment {
    blocked_with(&[])
}

fn blocked_with(flags: &[&str]) -> Environment {
    let environment = Environment::with_git().with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    let act =
        format!("[[act]]\nsession = 1\nat = \"prompt\"\ndo = {{ question = \"{QUESTION}\" }}\n");
    environment.write("scenario.toml", &act);
    environment.write("task.md", &items(2));
    let run = ["run", "task.md", "--agent", "rehearsal"];
    let said = environment.run(&[&run[..], flags].concat()).expect(4);
    assert!(said.stdout.contains(QUESTION), "{said}");
    assert!(said.stdout.contains("ekiden answer 'TEXT'"), "{said}");
    environment
}

// shows: REL-35
#[test]
fn an_answer_stands_in_the_next_prompt_as_the_users() {
    let environment = blocked();
    let status = environment.run(&["status"]).expect(0);
    assert!(status.stdout.contains(QUESTION), "{status}");
    assert!(environment.read(".ekiden/PROGRESS.md").contains(QUESTION));
    let silent = environment.run(&["answer"]).expect(2);
    assert!(silent.stderr.contains(QUESTION), "{silent}");
    let run = environment.runs()[0].clone();
    let silent = environment.run(&["answer", &run]).expect(2);
    let as_text = format!("if it is the answer, type `ekiden answer RUN {run}`");
    assert!(silent.stderr.contains(&as_text), "{silent}");
    let before = environment.log().len();
    environment.run(&["answer", "", "-m", "3"]).expect(65);
    assert_eq!(environment.log().len(), before);
    for other in [
        &["continue", "and more"][..],
        &["run", "task.md", "--agent", "rehearsal"],
    ] {
        let said = environment.run(other).stderr;
        assert!(said.contains("hint: `ekiden answer"), "{said}");
    }

    environment
        .run(&["answer", "Keep it, by trigger."])
        .expect(0);
    let prompt = environment.kept(2, "prompt.md");
    assert!(prompt.contains("From the user"), "{prompt}");
    assert!(prompt.contains("Keep it, by trigger."), "{prompt}");
    let log = environment.run(&["log"]).expect(0);
    assert!(
        log.stdout.contains("\nanswered: Keep it, by trigger.\n"),
        "{log}"
    );
    let again = environment.run(&["answer", "Keep it."]).expect(66);
    assert!(again.stderr.contains("has no question"), "{again}");
}

// shows: REL-35
#[test]
fn an_answer_is_told_which_older_run_asks() {
    let environment = blocked();
    let asks = environment.runs()[0].clone();
    let anew = ["run", "--new", "task.md", "--agent", "rehearsal"];
    environment.write("scenario.toml", "");
    environment.run(&anew).expect(0);
    let said = environment.run(&["answer", "Keep it."]).expect(66);
    let hint = format!("hint: run {asks} has one: `ekiden answer {asks} 'TEXT'` answers it");
    assert!(said.stderr.contains(&hint), "{said}");
    environment.run(&["answer", &asks, "Keep it."]).expect(0);
}

// shows: REL-35
#[test]
fn an_answer_may_be_written_in_an_editor() {
    let environment = blocked().with("EDITOR", "no-such-editor");
    environment.write("answer.md", "Drop it.\n");
    environment.run(&["answer", "-f", "answer.md"]).expect(0);
    assert!(environment.kept(2, "prompt.md").contains("Drop it."));
}

/// A terminal on which `ekiden answer` opens this shell script as the editor, with a word that has a space in it.
fn in_the_editor(environment: Environment, script: &str, code: i32) -> (Environment, String) {
    let environment = environment
        .with("TERM", "xterm")
        .with("EDITOR", "sh 'my editor.sh'");
    environment.write("my editor.sh", script);
    let mut pty = Pty::spawn(environment.command(&["answer"])).unwrap();
    let end = pty.wait(WITHIN).and_then(|end| end.code());
    assert_eq!(end, Some(code), "{}", pty.written());
    let written = pty.written();
    (environment, written)
}

// shows: REL-35
#[test]
fn in_the_editor_the_question_is_quoted_and_no_part_of_the_answer() {
    let write = r#"cp "$1" seen; { echo 'By trigger.'; tail -n +2 "$1"; echo '> not this'; echo; echo 'For a year.'; tail -n 1 "$1"; } > new; cp new "$1""#;
    let (environment, _) = in_the_editor(blocked(), &format!("{write}\n"), 0);
    let seen = environment.read("seen");
    assert!(seen.starts_with("\n> "), "the cursor is in an empty line");
    insta::assert_snapshot!(seen.trim_start(), @r"
    > Keep the column legacy_id or drop it?

    > Write your answer above. Lines that begin with `>` are left out.
    ");
    let prompt = environment.kept(2, "prompt.md");
    let from_user = prompt.split("From the user").nth(1).unwrap();
    assert!(from_user.contains("By trigger."), "{prompt}");
    assert!(from_user.contains("For a year."), "{prompt}");
    assert!(!prompt.contains("not this"), "{prompt}");
    assert!(!prompt.contains("Write your answer"), "{prompt}");
    assert!(!environment.run_dir().join("answer-main.md").exists());
}

// shows: REL-35
#[test]
fn what_was_written_is_kept_until_the_run_has_it() {
    let long = "echo 'Drop it.' >> \"$1\"; head -c 100000 /dev/zero | tr '\\0' a >> \"$1\"\n";
    let (environment, written) = in_the_editor(blocked(), long, 65);
    assert!(written.contains("opens the same text again"), "{written}");
    let fails = "grep -q 'Drop it.' \"$1\" && echo more >> \"$1\"; exit 3\n";
    let (environment, written) = in_the_editor(environment, fails, 1);
    assert!(written.contains("opens the same text again"), "{written}");
    let short = "grep -v aaa \"$1\" > new; cp new \"$1\"\n";
    let (environment, _) = in_the_editor(environment, short, 0);
    assert!(environment.kept(2, "prompt.md").contains("Drop it."));
    assert!(!environment.run_dir().join("answer-main.md").exists());
}

// shows: RUN-19
#[test]
fn from_a_directory_below_the_projects_run_is_found() {
    let environment = blocked_with(&["-g"]);
    let below = |args: &[&str]| environment.run_in("project/src/deep", args);
    let status = below(&["status"]).expect(0).stdout;
    assert!(
        status.contains("blocked") && status.contains(QUESTION),
        "{status}"
    );
    // So are its project's settings.
    let settings = "commit_subject = 'chore: {subject}'\nverify = 'true'\n\
                    [notify]\ncommand = ['./tell.sh']\n";
    environment.write(".ekiden/config.toml", settings);
    environment.shell("printf '#!/bin/sh\\ncat >> told\\n' > tell.sh; chmod +x tell.sh");
    let answer = ["answer", "Keep it."];
    let refused = below(&answer).expect(78).stderr;
    let dir = environment.dir().to_string_lossy().into_owned();
    let approve = ["config", "approve", "-d", &dir];
    let hint = format!("`ekiden {}`", approve.join(" "));
    assert!(refused.contains(&hint), "{refused}");
    below(&approve).expect(0);
    below(&answer).expect(0);
    assert!(environment.exists("item-1.txt"));
    assert!(environment.read("told").contains("complete"));
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s"]).trim(),
        "chore: ekiden: session 2 checkpoint"
    );
}

// shows: RUN-19
#[test]
fn a_run_inside_the_work_dir_of_a_running_one_is_refused() {
    let environment = Environment::with_git();
    environment.write("task.md", &slow_items(1));
    let package = environment.dir().join("package");
    std::fs::create_dir(&package).unwrap();
    let run = ["run", "../task.md", "--agent", "rehearsal"];
    let first = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    let output = environment
        .command(&run)
        .current_dir(&package)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(75), "{said}");
    assert!(
        said.contains("which overlaps with this directory"),
        "{said}"
    );
    let status = environment
        .command(&["status"])
        .current_dir(&package)
        .output()
        .unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("running"), "{status}");
    drop(first);
}

const WITHIN: Duration = Duration::from_secs(60);

// shows: RUN-01
#[test]
fn a_run_without_a_task_offers_the_last_one() {
    let environment = Environment::with_git().with("TERM", "xterm");
    environment.write("task.md", &items(1));
    environment
        .run(&["run", "task.md", "--agent", "rehearsal"])
        .expect(0);
    insta::assert_snapshot!(environment.told(&["run"]), @r"
    --- standard error
    error: no task is named
    hint: `ekiden run task.md`, or the task itself in quotes
    hint: `ekiden init` writes a template to fill in
    --- exit code 2
    ");
    let mut pty = Pty::spawn(environment.command(&["run", "--agent", "rehearsal"])).unwrap();
    let is_asked = pty.wait_until(WITHIN, |pty| pty.written().contains("1 to 4, or enter"));
    assert!(is_asked, "{}", pty.written());
    let offers = [
        "1  the last task again: task.md",
        "2  a new task in your editor: task-2.md",
        "3  be asked step by step, as by `ekiden start`",
        "4  help",
    ];
    offers
        .iter()
        .for_each(|offer| assert!(pty.written().contains(offer), "{}", pty.written()));
    pty.press("1\n").unwrap();
    assert_eq!(
        pty.wait(WITHIN).and_then(|end| end.code()),
        Some(0),
        "{}",
        pty.written()
    );
    assert_eq!(environment.runs().len(), 2);
}

// shows: RUN-01, RLP-09
#[test]
fn the_last_task_is_the_one_of_the_run_and_no_list() {
    let environment = Environment::new().with("TERM", "xterm");
    environment.write("task.md", "- [ ] Before\n");
    let run = [
        "run",
        "project/task.md",
        "-d",
        "project",
        "--agent",
        "rehearsal",
    ];
    environment.run_in("", &run).expect(0);
    environment.write("task.md", "- [ ] Here\n");
    std::fs::create_dir(environment.path("other")).unwrap();
    std::fs::write(environment.path("other/task.md"), "- [ ] There\n").unwrap();
    let mut command = environment.command(&["run", "--agent", "rehearsal", "-d", "../project"]);
    command.current_dir(environment.path("other"));
    let mut pty = Pty::spawn(command).unwrap();
    let is_asked = pty.wait_until(WITHIN, |pty| pty.written().contains("1 to 4, or enter"));
    assert!(is_asked, "{}", pty.written());
    pty.press("1\n").unwrap();
    assert_eq!(pty.wait(WITHIN).and_then(|end| end.code()), Some(0));
    let task = &environment.log()[0]["event"]["manifest"]["stages"][0]["task"];
    assert_eq!(task, "- [ ] Here\n");

    environment.write("PROMPT.md", "Do it.\n");
    environment.write("fix_plan.md", "- [ ] One\n");
    environment
        .run(&["ralph", "run", "--agent", "rehearsal"])
        .expect(0);
    let mut pty = Pty::spawn(environment.command(&["run", "--agent", "rehearsal"])).unwrap();
    let is_asked = pty.wait_until(WITHIN, |pty| pty.written().contains(", or enter"));
    assert!(is_asked, "{}", pty.written());
    assert!(!pty.written().contains("PROMPT.md"), "{}", pty.written());
    pty.press("\n").unwrap();
    assert_eq!(pty.wait(WITHIN).and_then(|end| end.code()), Some(2));
}

// shows: REL-35
#[test]
fn what_is_written_in_the_editor_answers_no_later_question() {
    let environment = blocked();
    let scenario = environment.read("scenario.toml");
    let later = scenario.replace("session = 1", "session = 2");
    environment.write(
        "scenario.toml",
        &[scenario, later.replace("Keep", "Empty")].concat(),
    );
    let ekiden = env!("CARGO_BIN_EXE_ekiden");
    let script = format!("'{ekiden}' answer 'Drop it.' > /dev/null; echo 'Yes.' > \"$1\"\n");
    let (environment, written) = in_the_editor(environment, &script, 66);
    assert!(written.contains("while the editor was open"), "{written}");
    assert_eq!(
        std::fs::read_to_string(environment.run_dir().join("answer-main.md")).unwrap(),
        "Yes.\n"
    );
    let status = environment.run(&["status"]).expect(0);
    assert!(status.stdout.contains("Empty the column"), "{status}");
}

// shows: RUN-01
#[test]
fn a_new_task_is_written_in_the_editor() {
    let environment = Environment::new().with("TERM", "xterm");
    let mark = environment.path("editor");
    std::fs::write(&mark, "#!/bin/sh\nprintf '# Rest\\n\\n- [ ] One\\n\\n  ```sh\\n  echo made > item-1.txt\\n  ```\\n' > \"$1\"\n").unwrap();
    let editor = format!("sh {}", mark.display());
    let environment = environment.with("EDITOR", &editor);
    let mut pty = Pty::spawn(environment.command(&["run", "--agent", "rehearsal"])).unwrap();
    let is_asked = pty.wait_until(WITHIN, |pty| pty.written().contains("1 to 3, or enter"));
    assert!(is_asked, "{}", pty.written());
    pty.press("1\n").unwrap();
    assert_eq!(
        pty.wait(WITHIN).and_then(|end| end.code()),
        Some(0),
        "{}",
        pty.written()
    );
    assert_eq!(environment.read("item-1.txt"), "made\n");
    assert!(environment.exists("task.md"));
}
