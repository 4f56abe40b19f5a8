//! The agent's tools: commands in a shell, and files.
//!
//! A command runs in its own process group, as a real client's commands do, and writes its output to one pipe. It is
//! over when its shell ends, whatever it left behind: the agent does not wait for a daemon that still holds the pipe.

#![expect(
    clippy::disallowed_methods,
    reason = "this process plays a client: it starts its own tools, times them, and writes what its Write tool is told"
)]

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::checklist::Script;
use crate::intake::{Intake, Keep};
use crate::unix::pid_of;

/// How much of a command's output is kept, in bytes: its end, where failures are reported.
const OUTPUT_BYTES_MAX: usize = 6_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tool {
    Run(Script),
    Write { path: PathBuf, content: String },
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Ran(Ran),
    Written,
    /// The tool could not do it.
    Failed(String),
    /// The host refused the call.
    Denied(String),
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    /// Its exit code; 128 and more for a signal.
    pub(super) code: i32,
    /// The end of its output.
    pub(super) output: String,
    pub(super) took: Duration,
}

impl Tool {
    /// Name and input, as a client has them.
    pub(super) fn described(&self) -> (&'static str, Value) {
        match self {
            Self::Run(script) => ("Bash", json!({"command": script.text.trim_end()})),
            Self::Write { path, content } => {
                ("Write", json!({"file_path": path, "content": content}))
            }
        }
    }

    /// The result of the call, and its answer in words. Dropping this kills a command.
    pub(super) async fn carry_out(&self, dir: &Path) -> (Outcome, String) {
        let done = match self {
            Self::Run(script) => run(script, dir).await.map(|ran| {
                let words = ran.words();
                (Outcome::Ran(ran), words)
            }),
            Self::Write { path, content } => write(path, content).map(|()| {
                let words = format!("File created successfully at: {}", path.display());
                (Outcome::Written, words)
            }),
        };
        done.unwrap_or_else(|error| (Outcome::Failed(error.to_string()), error.to_string()))
    }
}

impl Outcome {
    pub(super) fn is_error(&self) -> bool {
        match self {
            Self::Ran(ran) => ran.code != 0,
            Self::Written => false,
            Self::Failed(_) | Self::Denied(_) => true,
        }
    }
}

impl Ran {
    /// As a client words it.
    fn words(&self) -> String {
        let output = self.output.trim_end();
        match self.code {
            0 if output.is_empty() => "(Bash completed with no output)".to_owned(),
            0 => output.to_owned(),
            code => format!("Exit code {code}\n{output}").trim_end().to_owned(),
        }
    }
}

/// Kills a command's process group when it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn run(script: &Script, dir: &Path) -> io::Result<Ran> {
    let started = Instant::now();
    let (output, input) = io::pipe()?;
    let mut child = Command::new(script.shell)
        .args(["-c", &script.text])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .process_group(0)
        .spawn()?;
    let mut group = Group(child.id().and_then(|id| pid_of(id.cast_signed())));
    let output = pipe::Receiver::from_owned_fd(output.into())?;
    let mut output = Intake::new(Some(output), Keep::Last(OUTPUT_BYTES_MAX));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = output.more() => {}
        }
    };
    group.0 = None;
    while output.rest().is_some() {}
    let signal = || 128 + status.signal().unwrap_or_default();
    Ok(Ran {
        code: status.code().unwrap_or_else(signal),
        output: output.text(),
        took: started.elapsed(),
    })
}

/// Writes a file with the directories above it.
fn write(path: &Path, content: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(text: &str) -> (i32, String) {
        let script = Script {
            shell: "sh",
            text: text.to_owned(),
        };
        let running = super::run(&script, Path::new("/"));
        let ran = tokio::time::timeout(Duration::from_secs(30), running);
        let ran = ran.await.unwrap().unwrap();
        (ran.code, ran.output)
    }

    #[tokio::test]
    async fn a_command_gives_its_exit_code_and_both_outputs_in_order() {
        assert_eq!(
            run("pwd; echo two >&2; echo three").await,
            (0, "/\ntwo\nthree\n".to_owned())
        );
        assert_eq!(run("cat; exit 7").await, (7, String::new()));
        assert_eq!(run("kill -TERM $$").await, (143, String::new()));
        assert_eq!(
            run("exec >&- 2>&-; sleep 0.1; exit 3").await,
            (3, String::new())
        );
    }

    #[tokio::test]
    async fn a_long_output_keeps_its_end() {
        let (code, output) =
            run("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done").await;
        assert_eq!((code, output.len()), (0, OUTPUT_BYTES_MAX));
        assert!(output.ends_with("line 4999\n"));
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_is_not_waited_for() {
        let (code, output) = run("sleep 60 & echo $!").await;
        assert_eq!(code, 0);
        let left = Pid::from_raw(output.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(left, Signal::KILL).unwrap();
    }
}
