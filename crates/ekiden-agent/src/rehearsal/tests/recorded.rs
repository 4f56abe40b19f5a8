//! The order of lines, beside what the real client was recorded to write.

use serde_json::Value;

use super::host::short;
use super::*;

/// What the real client wrote, in short, without what it wrote for hooks that are not ours.
fn recorded(name: &str) -> Vec<String> {
    let path = format!(
        "{}/../ekiden-wire/fixtures/claude/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let written = lines.filter(|line| line["direction"] == "from_client");
    written
        .map(|line| short(&line["line"]))
        .filter(|line| line != "asks UserPromptSubmit")
        .collect()
}

/// The kinds of the lines up to the first result. How many files a model writes, and what it says
/// before a call, does not matter here.
fn kinds(lines: &[String]) -> Vec<&str> {
    let turn = lines.iter().take_while(|line| !line.starts_with("end "));
    let kinds = turn.map(|line| match line.split_once(' ') {
        Some(("asks" | "system", _)) | None => line.as_str(),
        Some((kind, _)) => kind,
    });
    let mut steps: Vec<&str> = Vec::new();
    for kind in kinds.filter(|kind| *kind != "says") {
        steps.push(kind);
        let call = ["calls", "asks PreToolUse", "result"];
        if steps.ends_with(&[call, call].concat()) {
            steps.truncate(steps.len() - call.len());
        }
    }
    steps
}

// shows: AGT-12
#[test]
fn the_lines_come_in_the_order_of_the_real_client() {
    let dir = temp();
    let mut host = begin(&dir, &task(2));
    host.answers.hold.push(
        "ekiden: this conversation ends with a handoff in x, which still needs this.".to_owned(),
    );
    host.until("calls Bash");
    host.say("order", &[order()]);
    host.until("end 0");
    let mut ours = end(host, &dir).0;
    let mut real = recorded("relay-session.jsonl");
    // The host here does not wait for answers, so the two begin in another order.
    for lines in [&mut ours, &mut real] {
        lines.retain(|line| !line.starts_with("answers"));
    }
    assert_eq!(kinds(&ours), kinds(&real));
}

// shows: AGT-12
#[test]
fn an_interrupted_turn_ends_as_the_real_clients() {
    let dir = temp();
    let mut host = begin(&dir, "- [ ] wait\n```sh\nsleep 60\n```\n");
    host.until("asks PreToolUse");
    host.write(&control::interrupt("r2"));
    host.until("cancelled");
    host.hang_up();
    let (seen, result) = host.close();
    result.unwrap();
    let from = |lines: &[String]| -> Vec<String> {
        let from = lines
            .iter()
            .rposition(|line| line.starts_with("answers r2"))
            .unwrap();
        let words = lines[from..]
            .iter()
            .map(|line| line.split(' ').next().unwrap().to_owned());
        words.take(5).collect()
    };
    let real = recorded("interrupt-queue-resume.jsonl");
    assert_eq!(from(&seen), from(&real));
    assert!(
        seen.contains(&"end 0 aborted_tools".to_owned())
            && real.contains(&"end 0 aborted_tools".to_owned())
    );
}
