//! Any command as an agent. It reads the protocol and the prompt from standard input, writes text to standard output,
//! and hands off only through files.
//!
//! Such an agent has no hooks, reports no usage and takes no message while it runs. So the protocol says after
//! how many items to hand off. Its exit code says how it ended: 0 means that the turn ended. The prompt is sent
//! after the files for this session are published, so a script that waits for the prompt finds them.

use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Counters, Traces};
use ekiden_core::text::{in_full, short};
use ekiden_wire::lines::{Line, LineSplitter};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::attempt::{Activity, AgentCommand, AttemptSpec, Engine, RawStream, Report, unstarted};
use crate::child::{ChildEnd, StdinKind, spawn};
use crate::intake::{Excerpt, Intake, Keep};

/// How much of the end of both streams is kept: an error often explains the words just before it.
const WORDS_BYTES_MAX: usize = 1200;
/// How much of the end of a reviewer's standard output is kept, where its answer is.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// A line is passed on up to here: more than is shown anywhere, so that a secret is not cut before it is masked.
const LINE_CHARS_MAX: usize = 1000;

pub(crate) async fn run(mut spec: AttemptSpec, engine: &mut Engine) -> AttemptEnded {
    let mut child = match spawn(spec.child([], &[], StdinKind::Piped)) {
        Ok(child) => child,
        Err(error) => return unstarted(in_full(&error)),
    };
    if let Some(pid) = child.started().await {
        engine.tell(Report::Started { pid }).await;
    }
    let mut out = Intake::new(child.stdout.take(), Keep::Last(ANSWER_BYTES_MAX));
    let mut err = Intake::new(child.stderr.take(), Keep::First(0));
    let mut output = Output {
        words: Excerpt::new(Keep::Last(WORDS_BYTES_MAX)),
        raw: RawStream::new(std::mem::replace(&mut spec.raw, Box::new(std::io::sink()))),
        lines: LineSplitter::new(),
    };
    let mut prompt = child.stdin.take().map(|stdin| (stdin, input(&spec)));
    let mut stopped = false;
    let end = loop {
        tokio::select! {
            bytes = out.more() => output.pass_on(bytes, engine).await,
            bytes = err.more() => output.pass_on(bytes, engine).await,
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
        output.pass_on(bytes, engine).await;
    }
    while let Some(bytes) = err.rest() {
        output.pass_on(bytes, engine).await;
    }
    if let Some(activity) = output.finish() {
        engine.tell(Report::Activity(activity)).await;
    }
    let (words, cause) = (output.words.text(), cause(end, stopped));
    let answer = out.text();
    let has_answered = spec.schema.is_some() && cause == EndCause::Completed;
    let words = match has_answered && !answer.trim().is_empty() {
        true => answer,
        false => words,
    };
    AttemptEnded {
        counters: Counters {
            duration: engine.elapsed(),
            ..Counters::default()
        },
        traces: Traces {
            last_words: Some(words).filter(|words| !words.trim().is_empty()),
            ..Traces::default()
        },
        ..AttemptEnded::bare(cause)
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

/// Where the agent's output goes, standard error too: into the raw stream whole, to people by lines.
struct Output {
    words: Excerpt,
    raw: RawStream,
    lines: LineSplitter,
}

impl Output {
    async fn pass_on(&mut self, bytes: &[u8], engine: &mut Engine) {
        self.words.add(bytes);
        for activity in self.take(bytes) {
            engine.tell(Report::Activity(activity)).await;
        }
    }

    /// Takes in bytes, and returns what to show of them.
    fn take(&mut self, bytes: &[u8]) -> Vec<Activity> {
        let warning = self.raw.keep(bytes).map(Activity::Warning);
        let mut shown = Vec::from_iter(warning);
        self.lines.push(bytes, |line| shown.extend(said(line)));
        shown
    }

    /// The last line, if the output does not end with a line end.
    fn finish(&mut self) -> Option<Activity> {
        let mut last = None;
        self.lines.finish(|line| last = said(line));
        last
    }
}

fn said(line: Line<'_>) -> Option<Activity> {
    let (Line::Whole(bytes) | Line::Oversized { head: bytes, .. }) = line;
    let text = String::from_utf8_lossy(bytes);
    (!text.trim().is_empty()).then(|| Activity::Words(short(&text, LINE_CHARS_MAX)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn output(raw: impl Write + Send + 'static) -> Output {
        Output {
            words: Excerpt::new(Keep::Last(WORDS_BYTES_MAX)),
            raw: RawStream::new(Box::new(raw)),
            lines: LineSplitter::new(),
        }
    }

    // shows: AGT-06, MEM-12
    #[test]
    fn whole_lines_are_shown_however_they_arrive() {
        let words = |text: &str| Activity::Words(text.to_owned());
        let mut output = output(std::io::sink());
        assert_eq!(
            output.take(b"one\n\ntwo\nghp_half \xc3"),
            [words("one"), words("two")]
        );
        assert_eq!(
            output.take(b"\xa9 of it\n"),
            [words("ghp_half \u{e9} of it")]
        );
        assert_eq!(output.take(b"the end"), []);
        assert_eq!(output.finish(), Some(words("the end")));
        let long = [&b"x".repeat(5000)[..], b"\n"].concat();
        let [Activity::Words(cut)] = &output.take(&long)[..] else {
            panic!("one line")
        };
        assert!(cut.ends_with("x…"), "{cut}");
    }

    // shows: AGT-06
    #[test]
    fn a_stream_that_cannot_be_saved_is_told_once() {
        let mut output = output(Full);
        let [Activity::Warning(told), Activity::Words(_)] = &output.take(b"one\n")[..] else {
            panic!("a warning and a line")
        };
        assert!(
            told.contains("the event stream is no longer saved"),
            "{told}"
        );
        assert_eq!(output.take(b"two\n").len(), 1);
    }
}
