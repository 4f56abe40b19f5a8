//! What the guard costs a session that a person started: each tool call waits for its hooks.
//!
//! The bench uses a transcript of 50 MB and a state directory as after a long day. It compares the guard
//! with a program that does nothing with the same input, and with what people usually write such hooks in.

use std::path::{Path, PathBuf};

use super::start::empty_program;
use super::{Row, median};
use crate::shell::{self, Program};

/// Pairs of calls. Each takes a millisecond or two.
const PAIRS: usize = 200;
/// Calls of slow programs.
const SLOW: usize = 15;
/// The most that a call may cost, compared to a program that does nothing.
const EXTRA_MS_MAX: f64 = 2.0;
/// The total time of the slowest of a hundred calls.
const P99_MS_MAX: f64 = 10.0;
/// Calls at the same time.
const AT_ONCE: usize = 32;
/// Their time, compared to as many programs that do nothing.
const AT_ONCE_TIMES_MAX: f64 = 2.0;
/// How much faster than what people use.
const TIMES_FASTER: f64 = 20.0;
const TRANSCRIPT_BYTES: usize = 50_000_000;
const SESSION: &str = "5afeba7c-2d1b-4052-8781-47e7f3b03bf3";

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let stage = Stage::set(&shell::target_dir().join("bench/guard"))?;
    let ekiden = shell::target_dir().join("release/ekiden");
    let call = |words: &[&str]| stage.program(Program::new(&ekiden, words));
    let empty = stage.program(Program::new(empty_program()?, &[]));
    let hook = call(&["hook", "PostToolBatch"]);
    let mut rows = vec![
        alone("`ekiden hook PostToolBatch`", &hook, &empty)?,
        alone(
            "`ekiden hook PreToolUse`",
            &call(&["hook", "PreToolUse"]),
            &empty,
        )?,
        alone("`ekiden statusline`", &call(&["statusline"]), &empty)?,
        at_once(&hook, &empty)?,
    ];
    rows.extend(others(&stage, &hook)?);
    Ok(rows)
}

/// A project with a long day behind it.
struct Stage {
    input: PathBuf,
    project: PathBuf,
}

impl Stage {
    fn set(directory: &Path) -> Result<Self, String> {
        shell::clear(directory)?;
        let (project, transcript) = (
            directory.join("project"),
            directory.join("transcript.jsonl"),
        );
        shell::write(
            &project.join(".git/HEAD"),
            "ref: refs/heads/feature/ANV-123\n",
        )?;
        shell::write(&transcript, &transcript_of(TRANSCRIPT_BYTES))?;
        let log = project.join(format!(".git/ekiden/root/guard/{SESSION}.jsonl"));
        shell::write(&log, &log_of(200))?;
        let input = directory.join("input.json");
        let call = format!(
            r#"{{"session_id":"{SESSION}","transcript_path":"{}","cwd":"{}","hook_event_name":"PostToolBatch","model":{{"id":"claude-opus-5-5"}},"context_window":{{"context_window_size":1000000,"total_input_tokens":300000}},"tool_calls":[{{"tool_name":"Bash","tool_input":{{"command":"ls"}},"tool_response":"{}"}}]}}"#,
            transcript.display(),
            project.display(),
            "x".repeat(20_000),
        );
        shell::write(&input, &call)?;
        Ok(Self { input, project })
    }

    fn program(&self, program: Program) -> Program {
        program
            .fed(&self.input)
            .with("CLAUDE_PROJECT_DIR", self.project.as_os_str())
    }
}

/// Responses with tools and their large results between them.
fn transcript_of(bytes: usize) -> String {
    let result = "y".repeat(6_000);
    let mut text = String::with_capacity(bytes + 10_000);
    let mut turn = 0_u32;
    while text.len() < bytes {
        turn += 1;
        let second = turn % 60;
        text += &format!(
            "{{\"type\":\"assistant\",\"isSidechain\":false,\"timestamp\":\"2026-11-21T14:00:{second:02}.000Z\",\"message\":{{\"id\":\"m{turn}\",\"model\":\"claude-opus-5-5\",\"usage\":{{\"input_tokens\":300000}}}}}}\n{{\"type\":\"user\",\"message\":{{\"content\":\"{result}\"}}}}\n"
        );
    }
    text
}

fn log_of(records: u32) -> String {
    (0..records)
        .map(|at| {
            format!(
                "{{\"time\":{at},\"event\":\"tested\",\"passed\":{}}}\n",
                at % 2 == 0
            )
        })
        .collect()
}

// shows: MON-005
fn alone(what: &str, call: &Program, empty: &Program) -> Result<Row, String> {
    let (mut calls, mut empties) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        calls.push(call.time()?.as_secs_f64() * 1e3);
        empties.push(empty.time()?.as_secs_f64() * 1e3);
    }
    let slowest = percentile_99(&calls);
    let (call, empty) = (median(calls), median(empties));
    Ok(Row {
        what: what.to_owned(),
        figure: format!("{call:.2} ms, p99 {slowest:.2} ms"),
        baseline: format!("empty program {empty:.2} ms, {:.1} times", call / empty),
        promise: format!("at most {EXTRA_MS_MAX} ms more, p99 at most {P99_MS_MAX} ms"),
        kept: call - empty <= EXTRA_MS_MAX && slowest <= P99_MS_MAX,
    })
}

fn percentile_99(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(sorted.len() * 99 / 100)
        .copied()
        .unwrap_or(f64::NAN)
}

fn at_once(call: &Program, empty: &Program) -> Result<Row, String> {
    let (mut calls, mut empties) = (Vec::new(), Vec::new());
    for _ in 0..SLOW {
        calls.push(together(call)?);
        empties.push(together(empty)?);
    }
    let (call, empty) = (median(calls), median(empties));
    Ok(Row {
        what: format!("{AT_ONCE} hooks at once"),
        figure: format!("{call:.1} ms"),
        baseline: format!(
            "{AT_ONCE} empty programs {empty:.1} ms, {:.1} times",
            call / empty
        ),
        promise: format!("at most {AT_ONCE_TIMES_MAX} times"),
        kept: call <= empty * AT_ONCE_TIMES_MAX,
    })
}

/// How long this many calls take from the first start to the last end.
fn together(program: &Program) -> Result<f64, String> {
    let (ended, took) = shell::timed(|| {
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..AT_ONCE)
                .map(|_| scope.spawn(|| program.time()))
                .collect();
            calls
                .into_iter()
                .map(|call| {
                    call.join()
                        .unwrap_or_else(|_| Err("a call panicked".to_owned()))
                })
                .collect()
        })
    });
    let ended: Result<Vec<_>, String> = ended;
    ended.map(|_| took.as_secs_f64() * 1e3)
}

/// The same work in the languages that people write hooks in: the last lines of the transcript, and the
/// input. Languages that are not installed are left out.
fn others(stage: &Stage, hook: &Program) -> Result<Vec<Row>, String> {
    let jq = "i=$(cat); t=$(printf %s \"$i\" | jq -r .transcript_path); s=$(printf %s \"$i\" | jq -r .session_id); \
              u=$(tail -n 20 \"$t\" | jq -r 'select(.type==\"assistant\") | .message.usage.input_tokens' | tail -1); \
              jq -n --arg u \"$u\" --arg s \"$s\" '{$s,$u}'";
    let node = "const fs=require('fs');const i=JSON.parse(fs.readFileSync(0));const f=fs.openSync(i.transcript_path);\
                const n=fs.fstatSync(f).size;const b=Buffer.alloc(65536);fs.readSync(f,b,0,65536,n-65536);\
                console.log(b.toString().split('\\n').filter(l=>l.includes('assistant')).length)";
    let python = "import json,sys;i=json.load(sys.stdin);f=open(i['transcript_path'],'rb');f.seek(-65536,2);\
                  print(sum(b'assistant' in l for l in f.read().split(b'\\n')))";
    let candidates = [
        ("jq", "sh", ["-c", jq]),
        ("node", "node", ["-e", node]),
        ("python3", "python3", ["-c", python]),
    ];
    let mut figures = Vec::new();
    for (name, program, arguments) in candidates {
        if Program::new(name, &["--version"]).output().is_err() {
            continue;
        }
        let other = stage.program(Program::new(program, &arguments));
        let times: Result<Vec<f64>, String> = (0..SLOW)
            .map(|_| other.time().map(|took| took.as_secs_f64() * 1e3))
            .collect();
        figures.push((name, median(times?)));
    }
    let own: Result<Vec<f64>, String> = (0..SLOW * 3)
        .map(|_| hook.time().map(|took| took.as_secs_f64() * 1e3))
        .collect();
    let own = median(own?);
    Ok(figures
        .into_iter()
        .map(|(name, figure)| other_row(name, figure, own))
        .collect())
}

fn other_row(name: &str, figure: f64, own: f64) -> Row {
    Row {
        what: format!("the same hook in {name}"),
        figure: format!("{figure:.1} ms"),
        baseline: format!("`ekiden hook` {own:.2} ms, {:.0} times", figure / own),
        promise: format!("ours {TIMES_FASTER} times faster"),
        kept: figure >= own * TIMES_FASTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_a_hundred_is_found() {
        let figures: Vec<f64> = (0..200).map(f64::from).collect();
        assert!((percentile_99(&figures) - 198.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_transcript_is_as_long_as_it_shall_be() {
        let text = transcript_of(100_000);
        assert!(text.len() >= 100_000 && text.ends_with('\n'));
    }
}
