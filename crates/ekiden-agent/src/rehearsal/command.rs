//! The agent's tools: commands in a shell, and files.
//!
//! A command runs in a process group of its own, as a real client's do, with its output in one pipe.
//! It is over when its shell ends, whatever that left behind: a daemon that still holds the pipe is
//! not waited for.

#![expect(
    clippy::disallowed_methods,
    reason = "this process plays a client: it starts its own tools, times them, and writes what its Write tool is told"
)]

use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process_group};

use super::checklist::Script;
use crate::unix::poll_until;

/// Kept of a command's output: its end, where failures are told.
const OUTPUT_BYTES_MAX: usize = 6_000;

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    /// Its exit code; 128 and more for a signal.
    pub(super) code: i32,
    /// The end of what it wrote.
    pub(super) output: String,
    /// How long it ran.
    pub(super) took: Duration,
}

/// A command at work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    group: Option<Pid>,
}

impl Running {
    /// Ends the command and what it started, as far as that stayed in its group.
    pub(super) fn kill(self) {
        if let Some(group) = self.group {
            // It may have ended by itself meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Starts a command and returns at once. `over` is called from another thread when it has ended.
pub(super) fn start(
    script: &Script,
    dir: &Path,
    over: impl FnOnce(io::Result<Ran>) + Send + 'static,
) -> io::Result<Running> {
    let started = Instant::now();
    let (output, child) = spawn(script, dir)?;
    let running = Running { group: Pid::from_raw(child.id().cast_signed()) };
    thread::spawn(move || {
        let ended = attend(child, output).map(|(status, output)| Ran {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            output: String::from_utf8_lossy(&output).into_owned(),
            took: started.elapsed(),
        });
        over(ended);
    });
    Ok(running)
}

/// Writes a file as a client's Write tool does: with the directories above it.
pub(super) fn write_file(path: &Path, content: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, content)
}

/// The names in a directory, sorted.
pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = std::fs::read_dir(dir)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<String>>>()?;
    names.sort_unstable();
    Ok(names)
}

fn spawn(script: &Script, dir: &Path) -> io::Result<(PipeReader, Child)> {
    let (output, input) = io::pipe()?;
    let child = Command::new(script.shell)
        .args(["-c", &script.text])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .process_group(0)
        .spawn()?;
    Ok((output, child))
}

/// Reads what the command writes until its shell ends.
fn attend(child: Child, mut output: PipeReader) -> io::Result<(ExitStatus, Vec<u8>)> {
    rustix::io::ioctl_fionbio(&output, true)?;
    let (ended, waiter) = end_of(child)?;
    let mut kept = Vec::new();
    let mut open = true;
    loop {
        let mut fds = vec![PollFd::new(&ended, PollFlags::IN)];
        if open {
            fds.push(PollFd::new(&output, PollFlags::IN));
        }
        poll_until(&mut fds, None)?;
        let over = !fds[0].revents().is_empty();
        open = open && drain(&mut output, &mut kept)?;
        if over {
            return Ok((joined(waiter)?, kept));
        }
    }
}

/// A pipe whose end means that the process has ended, and the thread that waits for it.
fn end_of(mut child: Child) -> io::Result<(PipeReader, JoinHandle<io::Result<ExitStatus>>)> {
    let (ended, held) = io::pipe()?;
    let waiter = thread::spawn(move || {
        let status = child.wait();
        drop(held);
        status
    });
    Ok((ended, waiter))
}

fn joined(waiter: JoinHandle<io::Result<ExitStatus>>) -> io::Result<ExitStatus> {
    waiter.join().unwrap_or_else(|_panic| Err(io::Error::other("the waiting thread is gone")))
}

/// Reads all that is there. Says whether more may come.
fn drain(output: &mut PipeReader, kept: &mut Vec<u8>) -> io::Result<bool> {
    let mut chunk = [0; 4096];
    loop {
        match output.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(read) => {
                kept.extend_from_slice(&chunk[..read]);
                let surplus = kept.len().saturating_sub(OUTPUT_BYTES_MAX);
                kept.drain(..surplus);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn begin(text: &str) -> (Running, mpsc::Receiver<io::Result<Ran>>) {
        let (sender, receiver) = mpsc::channel();
        let script = Script { shell: "sh", text: text.to_owned() };
        let running = start(&script, Path::new("/"), move |ran| sender.send(ran).unwrap()).unwrap();
        (running, receiver)
    }

    fn run(text: &str) -> (i32, String) {
        let ran = begin(text).1.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
        (ran.code, ran.output)
    }

    #[test]
    fn a_command_gives_its_exit_code_and_both_outputs_in_order() {
        assert_eq!(run("pwd; echo two >&2; echo three"), (0, "/\ntwo\nthree\n".to_owned()));
        assert_eq!(run("cat; exit 7"), (7, String::new()));
        assert_eq!(run("kill -TERM $$"), (143, String::new()));
        assert_eq!(run("exec >&- 2>&-; sleep 0.1; exit 3"), (3, String::new()));
    }

    #[test]
    fn a_long_output_keeps_its_end() {
        let (code, output) = run("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done");
        assert_eq!((code, output.len()), (0, OUTPUT_BYTES_MAX));
        assert!(output.ends_with("line 4999\n"));
    }

    #[test]
    fn what_a_command_leaves_behind_is_not_waited_for() {
        let (code, output) = run("sleep 60 & echo $!");
        assert_eq!(code, 0);
        let left = Pid::from_raw(output.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(left, Signal::KILL).unwrap();
    }

    #[test]
    fn a_command_can_be_killed() {
        let (running, over) = begin("sleep 60; echo no");
        running.kill();
        let ran = over.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
        assert_eq!((ran.code, ran.output.as_str()), (137, ""));
    }
}
