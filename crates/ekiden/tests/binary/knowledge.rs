//! `ekiden knowledge`: to read, to edit, to measure.

use std::fs::File;

use rustix::process::Signal;

use crate::environment::{Environment, slow_items};
use crate::judging::HAND_OVER;
use crate::running::wait_until;

/// An editor that does this to the file.
fn with_editor(environment: Environment, words: &str) -> Environment {
    environment.with("EDITOR", "false").with("VISUAL", words)
}

/// A session that learned something, by an agent that always says the same.
fn one_session(environment: &Environment) {
    let fact = "printf '%s\\n' '## Core Knowledge' '' '- Files are written by cat.' '' '## Session Log' '' \\\n  \
                '- It went well.' > \"$to/KNOWLEDGE.md\"\n";
    environment.script(
        "agent.sh",
        &format!("status=IN_PROGRESS; note=new\n{HAND_OVER}{fact}"),
    );
    environment
        .run(&[
            "run",
            "Write two files.",
            "--agent-command",
            "./agent.sh",
            "-m",
            "1",
        ])
        .expect(3);
}

/// What `show` says, without the day.
fn shown(environment: &Environment) -> String {
    let shown = environment.told(&["knowledge", "show"]);
    let day = shown
        .split("### Session 1 - ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .unwrap();
    shown.replace(day, "DAY")
}

// shows: REL-30
#[test]
fn knowledge_is_shown_and_measured() {
    let environment = Environment::with_git();
    one_session(&environment);
    insta::assert_snapshot!(shown(&environment), @r"
    # Knowledge

    ## Core Knowledge

    - Files are written by cat.

    ## Session Log

    ### Session 1 - DAY

    - It went well.
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.told(&["knowledge", "stats"]), @r"
    run          RUN
    facts        1
    size         11 of 3000 tokens
    next prompt  all fit into a prompt
    log          1 session kept
    corrected    0 facts
    --- exit code 0
    ");
    let json = environment.told(&["knowledge", "stats", "--json"]);
    assert!(
        json.contains(r#""facts":1,"pinned":0,"tokens":11,"tokens_max":3000,"left_out":0"#),
        "{json}"
    );
}

// shows: REL-17, REL-30
#[test]
fn an_edit_stands_and_the_next_session_knows_it() {
    let environment = with_editor(
        Environment::with_git(),
        "sed -i '/^## Core/a\\\n\\\n- pinned: mine'",
    );
    one_session(&environment);
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    2 facts in .ekiden/KNOWLEDGE.md; the next session reads the file
    --- exit code 0
    ");
    assert!(
        environment
            .told(&["knowledge", "show"])
            .contains("- pinned: mine")
    );
    let resumed = environment.told(&["resume", "-m", "1"]);
    assert!(
        resumed.contains("after your edit, KNOWLEDGE.md has"),
        "{resumed}"
    );
    assert!(
        environment
            .kept(2, "prompt.md")
            .contains("¦ - pinned: mine")
    );
    assert!(
        environment
            .told(&["knowledge", "show"])
            .contains("- pinned: mine")
    );
    assert!(!environment.exists(".ekiden/KNOWLEDGE.edit.md"));
}

// shows: REL-30
#[test]
fn an_edit_that_would_lose_words_is_refused_and_kept() {
    let environment = with_editor(
        Environment::with_git(),
        "sed -i '1iA stray remark.\\nAnother.'",
    );
    one_session(&environment);
    let before = environment.read(".ekiden/KNOWLEDGE.md");
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    error: cannot save the edit: it would lose lines 1, 2
    hint: put it under `## Core Knowledge`, or under `### Session N - date` in `## Session Log`
    hint: your text is kept in .ekiden/KNOWLEDGE.edit.md; `ekiden knowledge edit` continues with it
    --- exit code 65
    ");
    assert_eq!(environment.read(".ekiden/KNOWLEDGE.md"), before);
    let environment = environment.with("VISUAL", "sed -i 1,2d");
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    nothing changed
    --- standard error
    warning: continuing with your earlier edit, which was not saved
    --- exit code 0
    ");
}

// shows: REL-30
#[test]
fn without_a_terminal_and_an_editor_nothing_is_edited() {
    let environment = Environment::with_git();
    one_session(&environment);
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    error: cannot edit knowledge: there is no terminal for an editor
    hint: a program in $EDITOR can change the file without one
    --- exit code 2
    ");
    assert!(!environment.exists(".ekiden/KNOWLEDGE.edit.md"));
}

// shows: REL-30
#[test]
fn nobody_edits_while_a_session_runs() {
    let environment = with_editor(Environment::with_git(), "true");
    environment.write("task.md", &slow_items(2));
    let running = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("the agent works", || environment.exists("started"));
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    error: cannot edit knowledge, since session 1 is at work
    hint: `ekiden pause` pauses the run after this session; then edit, and `ekiden unpause`
    --- exit code 75
    ");
    drop(running);
}

/// When a wait, a pause or the end begins, the engine still has to write the file that an edit replaces.
// shows: REL-17
#[test]
fn nobody_edits_what_the_engine_is_about_to_write() {
    let environment = with_editor(Environment::with_git(), "sed -i s/cat/dog/");
    one_session(&environment);
    environment.edit_log(|log| {
        let written = log.lines().position(|line| line.contains("\"published\""));
        let lines: Vec<_> = log.split_inclusive('\n').take(written.unwrap()).collect();
        lines.concat()
    });
    // As its engine does while it works.
    let lock = File::open(environment.dir().join(".git/ekiden/root/lock")).unwrap();
    lock.lock().unwrap();
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    error: cannot edit knowledge, since the run is still writing it
    hint: try again in a moment; if that does not help, its disk may be full
    --- exit code 75
    ");
}

// shows: REL-17
#[test]
fn an_edit_outlasts_the_stop_of_a_paused_run() {
    let environment = with_editor(Environment::with_git(), "sed -i s/cat/dog/");
    let agent =
        "touch started; until test -e go; do sleep 0.05; done; status=IN_PROGRESS; note=new\n";
    let fact = "printf '%s\\n' '## Core Knowledge' '' '- Written by cat.' > \"$to/KNOWLEDGE.md\"\n";
    environment.script("agent.sh", &format!("{agent}{HAND_OVER}{fact}"));
    let mut run = environment.start(&["run", "Write a file.", "--agent-command", "./agent.sh"]);
    wait_until("the agent works", || environment.exists("started"));
    environment.run(&["pause"]).expect(0);
    environment.write("go", "");
    run.wait_for("paused before session 2");
    environment.run(&["knowledge", "edit"]).expect(0);
    run.signal(Signal::INT);
    run.end().expect(3);
    assert!(
        environment
            .read(".ekiden/KNOWLEDGE.md")
            .contains("- Written by dog.")
    );
}

// shows: REL-30
#[test]
fn an_edit_that_was_broken_off_does_not_undo_later_sessions() {
    let environment = with_editor(
        Environment::with_git(),
        "sh -c 'sed -i s/cat/dog/ \"$0\"; exit 1'",
    );
    one_session(&environment);
    environment.run(&["knowledge", "edit"]).expect(1);
    let agent = environment.read("agent.sh");
    environment.script("agent.sh", &agent.replace("written by cat", "read by cat"));
    environment.run(&["resume", "-m", "2"]).expect(3);
    let before = environment.read(".ekiden/KNOWLEDGE.md");
    assert!(before.contains("- Files are read by cat."), "{before}");
    let environment = environment.with("VISUAL", "true");
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    error: cannot take over your edit: KNOWLEDGE.md has changed since you began it; it would take out:
      - Files are read by cat.
    hint: your text is kept in .ekiden/KNOWLEDGE.edit.md; move it away, and `ekiden knowledge edit` begins with what is known now
    --- exit code 75
    ");
    assert_eq!(environment.read(".ekiden/KNOWLEDGE.md"), before);
}

// shows: REL-30
#[test]
fn of_an_edit_that_a_session_overtook_it_is_said_where_it_is() {
    let environment = with_editor(
        Environment::with_git(),
        "sh -c 'sed -i s/cat/dog/ \"$0\"; until test -e closed; do sleep 0.05; done'",
    );
    one_session(&environment);
    let edit = environment.start(&["knowledge", "edit"]);
    wait_until("the editor is open", || {
        environment
            .read(".ekiden/KNOWLEDGE.edit.md")
            .contains("dog")
    });
    environment.script("agent.sh", "touch started; sleep 60\n");
    let running = environment.start(&["resume", "-m", "2"]);
    wait_until("the agent works", || environment.exists("started"));
    environment.write("closed", "");
    insta::assert_snapshot!(environment.normal(&edit.end()), @r"
    --- standard error
    error: cannot edit knowledge, since session 2 is at work
    hint: `ekiden pause` pauses the run after this session; then edit, and `ekiden unpause`
    hint: your text is kept in .ekiden/KNOWLEDGE.edit.md
    --- exit code 75
    ");
    drop(running);
}

// shows: REL-30
#[test]
fn an_editor_that_is_missing_or_fails_changes_nothing() {
    let environment = with_editor(Environment::with_git(), "/no/such/editor --wait");
    one_session(&environment);
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    error: cannot start the editor `/no/such/editor`: No such file or directory (os error 2)
    hint: name your editor in $VISUAL or $EDITOR
    hint: your text is kept in .ekiden/KNOWLEDGE.edit.md; `ekiden knowledge edit` continues with it
    --- exit code 66
    ");
    let environment = environment.with("VISUAL", "");
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    warning: continuing with your earlier edit, which was not saved
    error: cannot edit knowledge: the editor `false` ended with exit status: 1
    hint: your text is kept in .ekiden/KNOWLEDGE.edit.md; `ekiden knowledge edit` continues with it
    --- exit code 1
    ");
}

// shows: REL-30
#[test]
fn an_edit_that_leaves_nothing_changes_nothing() {
    let environment = with_editor(Environment::with_git(), "truncate -s 0");
    one_session(&environment);
    let before = shown(&environment);
    insta::assert_snapshot!(environment.told(&["knowledge", "edit"]), @r"
    --- standard error
    error: cannot save the edit: it is empty, so nothing was changed
    hint: to remove all facts, leave the line `## Core Knowledge`
    --- exit code 65
    ");
    assert_eq!(shown(&environment), before);
    assert!(!environment.exists(".ekiden/KNOWLEDGE.edit.md"));
}
