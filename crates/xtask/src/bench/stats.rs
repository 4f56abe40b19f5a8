//! How long statistics over a gigabyte of transcripts take, and how much memory they hold.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::{Row, sessions};
use crate::shell::{self, Program};

const FILES: usize = 100;
const FILE_BYTES: usize = 10_000_000;
const TIME_MAX: Duration = Duration::from_secs(10);
const MEMORY_BYTES_MAX: u64 = 100_000_000;
/// What the client writes about a whole session.
const COST: &str = r#"{"type":"cost-state","modelUsage":{"opus":{"inputTokens":1000000,"costUSD":5.0}}}
"#;
/// How often the program is sampled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let directory = sessions::place();
    shell::clear(&directory)?;
    let rows = measure_in(&directory);
    shell::remove(&directory)?;
    rows
}

fn measure_in(directory: &Path) -> Result<Vec<Row>, String> {
    let home = directory.join("home");
    for file in 0..FILES {
        let path = home.join(format!(".claude/projects/-work-{}/{file}.jsonl", file % 7));
        shell::write(&path, &transcript(file))?;
    }
    let stats = Program::new(
        shell::target_dir().join("release/ekiden"),
        &["stats", "--threshold", "--days", "3650", "--work-dir"],
    );
    let stats = stats
        .arg(directory)
        .with("HOME", home)
        .with("GIT_CEILING_DIRECTORIES", directory);
    let mut memory_bytes = None;
    let (watched, took) = shell::timed(|| {
        stats.watch(0, LOOK_EVERY, |pid| {
            memory_bytes = sessions::look(pid)
                .map(|look| look.memory_bytes)
                .or(memory_bytes);
        })
    });
    watched?;
    let mut rows = vec![time(took)];
    rows.extend(memory_bytes.map(memory));
    Ok(rows)
}

/// A session as the client writes it: tool results, text and calls, each response in two lines.
fn transcript(session: usize) -> String {
    let (result, words) = ("result ".repeat(700), "word ".repeat(200));
    let mut text = String::with_capacity(FILE_BYTES + 10_000);
    for number in 0.. {
        if text.len() >= FILE_BYTES {
            break;
        }
        let (minute, context) = (number / 6 % 60, 20_000 + number % 100 * 1_500);
        let head = |kind: &str, second: usize| {
            format!(
                r#"{{"type":"{kind}","cwd":"/work/shop","timestamp":"2026-01-01T06:{minute:02}:{:02}.000Z","message":"#,
                number % 6 * 10 + second
            )
        };
        let response = |block: String| {
            format!(
                r#"{{"id":"m{session}-{number}","model":"opus","role":"assistant","content":[{block}],"usage":{{"input_tokens":5,"cache_read_input_tokens":{context},"cache_creation_input_tokens":900,"output_tokens":300}}}}}}"#
            )
        };
        let tool = if number % 3 == 0 { "Edit" } else { "Read" };
        let asked = format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{number}","content":"{result}"}}]}}}}"#
        );
        let said = response(format!(r#"{{"type":"text","text":"{words}"}}"#));
        let called = response(format!(
            r#"{{"type":"tool_use","id":"t{}","name":"{tool}","input":{{"file_path":"/work/shop/a.rs","old_string":"{words}"}}}}"#,
            number + 1
        ));
        let written = writeln!(
            text,
            "{}{asked}\n{}{said}\n{}{called}",
            head("user", 0),
            head("assistant", 4),
            head("assistant", 5)
        );
        written.expect("a text can be written to");
    }
    text.push_str(COST);
    text
}

fn time(took: Duration) -> Row {
    Row {
        what: "`ekiden stats` of 1 GB of transcripts".to_owned(),
        figure: format!("{:.1} s", took.as_secs_f64()),
        baseline: "-".to_owned(),
        promise: format!("less than {} s", TIME_MAX.as_secs()),
        kept: took < TIME_MAX,
    }
}

fn memory(bytes: u64) -> Row {
    Row {
        what: "memory for them".to_owned(),
        figure: format!("{} MB", bytes.div_ceil(1_000_000)),
        baseline: "-".to_owned(),
        promise: format!("less than {} MB", MEMORY_BYTES_MAX / 1_000_000),
        kept: bytes < MEMORY_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_can_be_missed_and_each_line_is_json() {
        assert!(time(Duration::from_secs(9)).kept && !time(TIME_MAX).kept);
        assert!(memory(99_000_000).kept && !memory(MEMORY_BYTES_MAX).kept);
        let text = transcript(3);
        assert!(text.len() >= FILE_BYTES && text.len() < FILE_BYTES + 10_000);
        for line in text.lines().take(30) {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}
