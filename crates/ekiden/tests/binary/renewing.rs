//! Follow-up work on a complete run, an edited task, and going on from an earlier session.

use rustix::process::Signal;

use crate::environment::{Environment, items, slow_items};
use crate::processes::expect_nothing_alive;
use crate::running::wait_until;

const REHEARSAL: [&str; 2] = ["--agent", "rehearsal"];

/// A task whose items make other files.
fn more_items(count: u32) -> String {
    items(count)
        .replace("Item ", "Part ")
        .replace("item-", "part-")
}

fn complete() -> Environment {
    let environment = Environment::with_git();
    environment.write("task.md", &items(4));
    environment
        .run(&["run", "task.md", REHEARSAL[0], REHEARSAL[1]])
        .expect(0);
    environment
}

// shows: RUN-13
#[test]
fn follow_up_work_begins_anew_and_loses_nothing() {
    let environment = complete();
    let last = u32::try_from(
        environment
            .run_dir()
            .join("sessions")
            .read_dir()
            .unwrap()
            .count(),
    )
    .unwrap();
    let report = environment.kept(last, "progress.md");
    let knowledge = environment.read(".ekiden/KNOWLEDGE.md");
    let facts: Vec<&str> = knowledge
        .lines()
        .filter(|line| line.starts_with("- "))
        .collect();
    environment.write("next.md", &more_items(4));
    let follow_up = environment.told(&["continue", "-f", "next.md", "-m", "1"]);
    insta::assert_snapshot!(follow_up, @r#"
    run RUN continues · CLOCK · up to session 2 · next.md
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 4 done
      next      The item "Part 4", with `echo made > part-4.txt`.

    stopped (3): session limit reached after 2 of 2 sessions · TIME · 3 of 4 items done · 9 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume -m 10
    --- exit code 3
    "#);
    assert_eq!(environment.read(".ekiden/TASK.md"), more_items(4));
    assert_eq!(environment.kept(last, "progress.md"), report);
    for fact in facts {
        assert!(
            environment.read(".ekiden/KNOWLEDGE.md").contains(fact),
            "{fact}"
        );
    }
    let prompt = environment.kept(last + 1, "prompt.md");
    assert!(
        prompt.starts_with(&format!("# Task\n\n{}", more_items(4))),
        "{prompt}"
    );
    assert!(
        prompt.contains("The task before this one is done."),
        "{prompt}"
    );
    let report_line = report
        .lines()
        .find(|line| line.starts_with("STATUS"))
        .unwrap();
    assert!(prompt.contains(&format!("¦ > {report_line}\n")), "{prompt}");
    environment.run(&["resume", "-m", "5"]).expect(0);
    assert_eq!(environment.read("part-4.txt"), "made\n");
    assert_eq!(environment.runs().len(), 1);
}

// shows: RUN-13
#[test]
fn what_is_published_for_a_follow_up_is_in_progress() {
    let environment = complete();
    environment.write("next.md", &slow_items(1));
    let run = environment.start(&["continue", "-f", "next.md"]);
    wait_until("work", || environment.exists("started"));
    let published = environment.read(".ekiden/PROGRESS.md");
    let notes = environment.read(".ekiden/NEXT_PROMPT.md");
    run.signal(Signal::TERM);
    run.end().expect(143);
    assert!(published.contains("\nSTATUS: IN_PROGRESS\n"), "{published}");
    assert!(notes.contains("\n> STATUS: ALL_COMPLETE\n"), "{notes}");
}

// shows: RUN-13
#[test]
fn only_a_complete_run_is_followed_up() {
    let environment = Environment::with_git();
    let told = |args: &[&str]| environment.told(args);
    insta::assert_snapshot!(told(&["continue", "and now the docs"]), @r"
    --- standard error
    error: cannot find a run here
    hint: `ekiden run TASK` starts one
    --- exit code 66
    ");
    environment.write("task.md", &items(7));
    environment
        .run(&["run", "task.md", REHEARSAL[0], REHEARSAL[1], "-m", "1"])
        .expect(3);
    insta::assert_snapshot!(told(&["continue", "and now the docs"]), @r"
    --- standard error
    error: run RUN is not finished, so nothing can follow up on it
    hint: `ekiden resume RUN` continues it; add `--task FILE` for an edited task
    --- exit code 1
    ");
    insta::assert_snapshot!(told(&["continue"]), @r"
    --- standard error
    error: `ekiden continue` needs PROMPT
    hint: for example `ekiden continue 'Now add rate limiting to the API'`
    hint: see `ekiden continue --help`
    --- exit code 2
    ");
    insta::assert_snapshot!(told(&["continue", "and now the docs", "-f", "task.md"]), @r"
    --- standard error
    error: the argument '[PROMPT]' cannot be used with '--file <FILE>'

    Usage: ekiden continue <PROMPT | -f FILE | --from-pr> [OPTIONS]

    For more information, try '--help'.
    --- exit code 2
    ");
    insta::assert_snapshot!(told(&["continue", "-f", "absent.md"]), @r"
    --- standard error
    error: there is no file `absent.md`
    hint: name the task by a file, `-` for standard input, or more than one word in quotes
    --- exit code 66
    ");
}

// shows: RUN-13, RUN-11
#[test]
fn follow_up_work_that_is_killed_goes_on() {
    let environment = complete();
    environment.write("next.md", &slow_items(2));
    let run = environment.start(&["continue", "-f", "next.md"]);
    wait_until("work", || environment.exists("started"));
    run.signal(Signal::KILL);
    run.end().expect(137);
    expect_nothing_alive(&environment);
    environment.run(&["continue", "-f", "next.md"]).expect(1);
    environment.run(&["resume"]).expect(0);
    assert_eq!(environment.read(".ekiden/TASK.md"), slow_items(2));
}

// shows: RUN-16
#[test]
fn an_edited_task_goes_to_the_next_session() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(7));
    environment
        .run(&["run", "task.md", REHEARSAL[0], REHEARSAL[1], "-m", "1"])
        .expect(3);
    environment.write("task.md", &items(5));
    insta::assert_snapshot!(environment.told(&["resume", "--task", "absent.md"]), @r"
    --- standard error
    error: there is no file `absent.md`
    hint: name the task by a file, `-` for standard input, or more than one word in quotes
    --- exit code 66
    ");
    insta::assert_snapshot!(environment.told(&["resume", "--task", "task.md"]), @r"
    run RUN continues · CLOCK · up to session 2
    the task has changed: task.md
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 4 tool calls
      items     5 of 5 done

    complete (not verified) · 2 sessions · TIME · 6 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    ");
    assert_eq!(environment.read(".ekiden/TASK.md"), items(5));
    let prompt = environment.kept(2, "prompt.md");
    assert!(
        prompt.starts_with(&format!("# Task\n\n{}", items(5))),
        "{prompt}"
    );
    assert!(prompt.contains("The user has changed the task"), "{prompt}");
}

// shows: RUN-16
#[test]
fn going_back_is_a_run_of_its_own() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(12));
    environment
        .run(&["run", "task.md", REHEARSAL[0], REHEARSAL[1], "-m", "3"])
        .expect(3);
    let (first, notes) = (environment.run_dir(), environment.kept(1, "next_prompt.md"));
    let kept = |name: &str| std::fs::read_to_string(first.join(name)).unwrap();
    let (log, third) = (kept("log.jsonl"), kept("sessions/3/progress.md"));
    insta::assert_snapshot!(environment.told(&["resume", "-r", "9"]), @r"
    --- standard error
    error: cannot continue from session 9 of RUN: there is no handoff of it; the newest is that of session 3
    hint: `ekiden sessions RUN` shows what there is
    --- exit code 66
    ");
    insta::assert_snapshot!(environment.told(&["resume", "-r", "0"]), @r"
    --- standard error
    error: invalid value '0' for '--resume-from <N>': `0` is not a session number (1 or more)

    For more information, try '--help'.
    --- exit code 2
    ");
    insta::assert_snapshot!(environment.told(&["resume", "-r", "1", "-m", "1"]), @r#"
    run RUN · relay, at most 1 session · rehearsal, hands off at 60% · task.md · from session 1 of RUN
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     6 of 12 done
      next      The item "Item 7", with `echo made > item-7.txt`.

    stopped (3): session limit reached after 1 of 1 sessions · TIME · 6 of 12 items done · 10 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume -m 1
    --- standard error
    warning: task.md may take up to 2 sessions, and may have 1; `-m 2` allows more
    --- exit code 3
    "#);
    assert_eq!(environment.runs().len(), 2);
    assert_eq!(
        (kept("log.jsonl"), kept("sessions/3/progress.md")),
        (log, third)
    );
    let prompt = environment.kept(2, "prompt.md");
    assert!(
        prompt.contains("This is session 2.") && prompt.contains("The user went back"),
        "{prompt}"
    );
    for line in notes.lines().filter(|line| !line.is_empty()) {
        assert!(prompt.contains(&format!("¦ {line}\n")), "{line}\n{prompt}");
    }
    assert!(!environment.session(1).exists());

    environment.write("task.md", &items(6));
    let first = first.file_name().unwrap().to_str().unwrap().to_owned();
    environment
        .run(&["resume", &first, "-r", "2", "--task", "task.md"])
        .expect(0);
    assert!(
        environment
            .kept(3, "prompt.md")
            .contains("The user has changed the task")
    );
    let said = environment
        .run(&["run", "task.md", REHEARSAL[0], REHEARSAL[1], "-r", "3"])
        .expect(0);
    assert!(said.stdout.contains("\nsession 4 "), "{said}");
    assert!(
        !environment
            .kept(4, "prompt.md")
            .contains("The user has changed the task")
    );
}

// shows: RUN-16
#[test]
fn going_back_to_before_follow_up_work_is_to_the_task_of_then() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(6));
    environment
        .run(&["run", "task.md", REHEARSAL[0], REHEARSAL[1]])
        .expect(0);
    environment
        .run(&[
            "continue",
            "And then:\n\n- [ ] Summary\n",
            "--run-tokens",
            "9M",
        ])
        .expect(0);
    let said = environment.run(&["resume", "-r", "1"]).expect(0);
    let status = environment.told(&["status", "--json"]);
    assert!(status.contains(r#""tokens":9000000"#), "{status}");
    assert!(
        said.stdout.contains("task.md · from session 1 of"),
        "{said}"
    );
    let prompt = environment.kept(2, "prompt.md");
    assert!(
        prompt.contains("Item 6") && !prompt.contains("The user has changed the task"),
        "{prompt}"
    );
}
