//! The examples, run as their README says.

use std::path::{Path, PathBuf};

use crate::environment::Environment;

/// What stands before our own arguments in the README.
const CARGO_RUN: &str = "cargo run -- ";

/// A repository with the examples in it.
fn environment() -> Environment {
    let environment = Environment::with_git();
    for path in files_below(&examples()) {
        let name = Path::new("examples").join(path.strip_prefix(examples()).unwrap());
        environment.write(
            name.to_str().unwrap(),
            &std::fs::read_to_string(path).unwrap(),
        );
    }
    environment.commit_all();
    environment
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let paths = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// The commands in the README's `sh` blocks: one for each of the first two examples, three for the
/// third, two for the plan.
fn commands() -> [String; 7] {
    let readme = std::fs::read_to_string(examples().join("README.md")).unwrap();
    let blocks = readme
        .split("```sh\n")
        .skip(1)
        .map(|block| block.split("\n```").next().unwrap().to_owned());
    blocks.collect::<Vec<_>>().try_into().unwrap()
}

/// Does what a line of the README says; tells what the program said, if it is one of ours.
fn done(environment: &Environment, line: &str) -> String {
    match line.strip_prefix(CARGO_RUN) {
        Some(args) => {
            let args = shlex::split(args).unwrap();
            environment.told(&args.iter().map(String::as_str).collect::<Vec<_>>())
        }
        None => {
            environment.shell(line);
            String::new()
        }
    }
}

// shows: OPS-01, AGT-05, UIX-02
#[test]
fn first_relay_is_done_in_three_sessions() {
    let environment = environment();
    let [command, ..] = commands();
    insta::assert_snapshot!(done(&environment, &command), @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · examples/first-relay/task.md
    verification `sh examples/first-relay/check.sh` fails now, so a later pass ends the run
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 9 done
      next      The item "Put both days into one list of ten", with `cat target/first-relay/outward.txt target/first-relay/retur…`.
      verify    failed in TIME
    session 2 · CLOCK
      USAGE  handed off after TIME · 6 tool calls
      items     6 of 9 done
      next      The item "Draw the stages, a mark for each kilometre", with `awk '{ bar = ""; for (i = 1; i <= $2; i++) bar = bar "="; p…`.
      verify    failed in TIME
    session 3 · CLOCK
      USAGE  says all is done after TIME · 5 tool calls
      items     9 of 9 done
      verify    passed in TIME

    verified complete · 3 sessions · TIME · 6 files not committed
    knowledge  3 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    "#);
    assert!(
        environment
            .read("target/first-relay/book.txt")
            .contains("In all 217.1 km in ten stages.")
    );
}

// shows: OPS-01, REL-07, REL-08
#[test]
fn with_verification_ends_verified() {
    let environment = environment();
    let [_, command, ..] = commands();
    insta::assert_snapshot!(done(&environment, &command), @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · examples/with-verification/task.md
    verification `sh examples/with-verification/check.sh` fails now, so a later pass ends the run
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 5 done
      next      The item "Leave no hyphen at either end", with `printf '%s\n' 's/^-//' 's/-$//' >> target/with-verification…`.
      verify    failed in TIME: ok 217.1 km
    session 2 · CLOCK
      USAGE  says all is done after TIME · 4 tool calls
      items     5 of 5 done
      verify    passed in TIME

    verified complete · 2 sessions · TIME · 2 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    "#);
    environment.shell("sh examples/with-verification/check.sh");
}

// shows: REL-07, RUN-11
#[test]
fn needs_a_person_asks_and_goes_on() {
    let environment = environment();
    let [_, _, command, approve, resume, ..] = commands();
    insta::assert_snapshot!(done(&environment, &command), @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · examples/needs-a-person/task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     2 of 4 done
      next      The item "Note how many copies to print: four for each of the ten stages", with `echo "copies: $((4 * 10))" > target/needs-a-person/print.txt`.
    session 2 · CLOCK
      USAGE  needs your input after TIME · 5 tool calls
      items     3 of 4 done
      next      The item "Put it into the outbox, if the race director approves", with `set -e cd target/needs-a-person grep -qsx approved approval…`.

    blocked (4): session 2 needs your input · 2 sessions · TIME · 3 of 4 items done · 2 files not committed
      - failed: Put it into the outbox, if the race director approves
        `set -e cd target/needs-a-person grep -qsx approved approval…`: exit code 1, last line: no line "approved" in target/needs-a-person/approval.txt
        It failed in two sessions. What has to change for it to pass?
    handoff    .ekiden/PROGRESS.md
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    answer     ekiden answer 'TEXT'     or: ekiden answer   (opens your editor)
    --- exit code 4
    "#);
    done(&environment, &approve);
    insta::assert_snapshot!(done(&environment, &resume), @r"
    run RUN continues · CLOCK · up to session 12
    session 3 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 3 tool calls
      items     4 of 4 done

    complete (not verified) · 3 sessions · TIME · 4 files not committed
    knowledge  3 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    ");
    assert!(environment.exists("target/needs-a-person/outbox/letter.txt"));
}

// shows: PLN-08, PLN-12, PLN-14
#[test]
fn the_plan_builds_a_calculator_from_nothing() {
    let environment = environment();
    environment.git(&["config", "--global", "user.name", "Me"]);
    environment.git(&["config", "--global", "user.email", "me@example.invalid"]);
    let [.., make, execute] = commands();
    environment.shell(&make);
    let told = done(&environment, &execute);
    for line in [
        // Which of the two is merged first is chance.
        "    ! changed the same lines as others: ops.h; it goes back to be fixed",
        "S03    ! changed files that it had not declared: ops.h",
        "S04    ! failed: all its sessions are used; the check failed in TIME (exit code 2); try 2 of 2 begins",
        "`main` is at",
        "verified complete · 7 sessions",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    environment.shell(
        "make -s -C target/calculator test && test \"$(target/calculator/calc 4 x 5)\" = 20",
    );
    let whole = environment.git(&[
        "-C",
        "target/calculator",
        "log",
        "--first-parent",
        "--format=%s",
    ]);
    assert_eq!(whole.lines().count(), 6, "{whole}");
    assert_eq!(
        environment.git(&["-C", "target/calculator", "status", "--porcelain"]),
        ""
    );
}

/// The measure of a reviewer counts what a scripted one finds: the part that is missing, and one fault that is none.
// shows: REL-38
#[test]
fn planted_faults_that_a_reviewer_finds_are_counted() {
    let environment = environment();
    let verdict = |findings: &str| format!("echo '{{\"verdict\": \"{findings}}}'\n");
    let finding = "findings\", \"findings\": [{\"place\": \"README.md\", \"reason\": \"it describes no program\", \"seen\": \"read it\"}]";
    let alarm = "findings\", \"findings\": [{\"place\": \"median.sh\", \"reason\": \"I would write it otherwise\", \"seen\": \"read it\"}]";
    let script = format!(
        "cat > /dev/null\nif ! grep -q median README.md; then {}elif grep -q 'NR > 0' median.sh; then echo Well.\n\
         elif grep -q 'sort -n' median.sh; then {}else {}fi\n",
        verdict(finding),
        verdict(alarm),
        verdict("pass\", \"findings\": []"),
    );
    environment.script("reviewer.sh", &script);
    let reviewer = environment.path("project/reviewer.sh");
    let row = format!("[agents.scripted]\nkind = \"exec\"\ncommand = [\"sh\", {reviewer:?}]\n");
    environment.write("../home/.config/ekiden/config.toml", &row);
    let program = env!("CARGO_BIN_EXE_ekiden");
    environment.shell(&format!(
        "EKIDEN='{program}' TMPDIR=\"$HOME\" sh examples/planted-faults/measure.sh scripted 2 > table"
    ));
    let table = environment.read("table");
    insta::assert_snapshot!(table.split("what each").next().unwrap(), @r"
    scripted
    planted         runs    found           95 % no verdict USD each
    false alarms       2        2    34 to 100 %          0    0.000
    part-missing       2        2    34 to 100 %          0    0.000
    wrong-case         2        0     0 to  66 %          2    0.000
    weakened-test      2        0     0 to  66 %          0    0.000
    ");
}
