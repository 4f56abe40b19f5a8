//! Any command as an agent. It reads the protocol and the prompt from standard input, writes text to standard output,
//! and hands off only through files.
//!
//! Such an agent has no hooks, reports no usage and takes no message while it runs. So the protocol says after
//! how many items to hand off. Its exit code says how it ended: 0 means that the turn ended. The prompt is sent
//! after the files for this session are published, so a script that waits for the prompt finds them.

use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Counters, Traces};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::attempt::{Activity, AgentCommand, AttemptSpec, Engine, Report, unstarted};
use crate::child::{ChildEnd, StdinKind, spawn};
use crate::intake::{Excerpt, Intake, Keep};

/// How much of the end of both streams is kept: an error often explains the words just before it.
const WORDS_BYTES_MAX: usize = 1200;
/// How much is kept of a reviewer's, whose answer is at that end.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

pub(crate) async fn run(mut spec: AttemptSpec, engine: &mut Engine) -> AttemptEnded {
    let mut child = match spawn(spec.child([], &[], StdinKind::Piped)) {
        Ok(child) => child,
        Err(error) => return unstarted(&error),
    };
    if let Some(pid) = child.started().await {
        engine.tell(Report::Started { pid }).await;
    }
    let mut out = Intake::new(child.stdout.take(), Keep::First(0));
    let mut err = Intake::new(child.stderr.take(), Keep::First(0));
    let words_max = match spec.schema {
        Some(_) => ANSWER_BYTES_MAX,
        None => WORDS_BYTES_MAX,
    };
    let mut words = Excerpt::new(Keep::Last(words_max));
    let mut prompt = child.stdin.take().map(|stdin| (stdin, input(&spec)));
    let mut stopped = false;
    let end = loop {
        tokio::select! {
            bytes = out.more() => {
                let _ = spec.raw.write_all(bytes);
                words.add(bytes);
                if let Some(line) = last_line(bytes) {
                    engine.tell(Report::Activity(Activity::Words(line))).await;
                }
            }
            bytes = err.more() => words.add(bytes),
            command = engine.next() => match command {
                AgentCommand::Terminate => {
                    stopped = true;
                    child.terminate();
                }
                AgentCommand::Begin => drop(prompt.take().map(|(stdin, text)| tokio::spawn(feed(stdin, text)))),
                // Such an agent takes no message.
                AgentCommand::Say(_) | AgentCommand::Answer { .. } | AgentCommand::Interrupt | AgentCommand::Close => {}
            },
            end = child.wait() => break end,
        }
    };
    while let Some(bytes) = out.rest() {
        let _ = spec.raw.write_all(bytes);
        words.add(bytes);
    }
    while let Some(bytes) = err.rest() {
        words.add(bytes);
    }
    let words = words.text();
    AttemptEnded {
        counters: Counters {
            duration: engine.elapsed(),
            ..Counters::default()
        },
        traces: Traces {
            last_words: Some(words).filter(|words| !words.trim().is_empty()),
            ..Traces::default()
        },
        ..AttemptEnded::bare(cause(end, stopped))
    }
}

/// The agent has no system prompt, so the protocol comes first.
fn input(spec: &AttemptSpec) -> String {
    format!("{}\n\n{}", spec.protocol, spec.message.to_archive())
}

/// Writes the prompt. An agent does not have to read all of it.
async fn feed(mut stdin: pipe::Sender, text: String) {
    let _ = stdin.write_all(text.as_bytes()).await;
}

fn cause(end: ChildEnd, stopped: bool) -> EndCause {
    match end {
        ChildEnd::NotStarted(why) => EndCause::NeverStarted(why),
        ChildEnd::Exited(_) | ChildEnd::Signaled(_) | ChildEnd::KeeperLost if stopped => {
            EndCause::Stopped
        }
        ChildEnd::Exited(0) => EndCause::Completed,
        ChildEnd::Exited(exit) => EndCause::Crashed { exit },
        ChildEnd::Signaled(signal) => EndCause::Killed { signal },
        ChildEnd::KeeperLost => EndCause::Killed { signal: 9 },
    }
}

/// The last line that says something, cut to a length that can be shown.
fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.chars().take(200).collect())
}
