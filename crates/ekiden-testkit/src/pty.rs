//! A program on a terminal of its own, for tests of what a person sees and presses.
//!
//! The terminal is a pty whose other end is read by a thread, so that the program never blocks on a
//! full one. What it wrote stays, byte for byte.

#![expect(
    unsafe_code,
    reason = "a session with a controlling terminal is made between fork and exec"
)]

use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcgetpgrp, tcsetwinsize, ttyname};

/// How often what is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What we write ourselves, behind all that the program wrote. A terminal ignores it.
const MARK: u8 = 0;

const ROWS: u16 = 30;
const COLUMNS: u16 = 100;

/// A program and its terminal.
pub struct Pty {
    child: Child,
    /// None once it was hung up.
    master: Option<File>,
    reader: Option<Reader>,
    /// Kept open, so that the terminal outlives the program and can be looked at.
    terminal: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
}

/// The thread that takes what is written.
struct Reader {
    /// Ends it when it is dropped.
    stop: PipeWriter,
    thread: JoinHandle<()>,
}

impl Reader {
    fn start(master: &File, written: Arc<Mutex<Vec<u8>>>) -> io::Result<Self> {
        let mut master = master.try_clone()?;
        let (stopped, stop) = io::pipe()?;
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let mut fds = [
                    PollFd::new(&stopped, PollFlags::IN),
                    PollFd::new(&master, PollFlags::IN),
                ];
                if poll(&mut fds, None).is_err() || !fds[0].revents().is_empty() {
                    return;
                }
                let Ok(count @ 1..) = master.read(&mut bytes) else {
                    return;
                };
                written
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&bytes[..count]);
            }
        });
        Ok(Self { stop, thread })
    }

    fn end(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

impl Pty {
    /// Starts a program on a terminal of 100 columns and 30 rows.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        // Nobody else may hold this end: the terminal is gone when the test lets go of it.
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        fcntl_setfd(&master, FdFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = name.to_str().map_err(io::Error::other)?;
        let terminal = OwnedFd::from(File::options().read(true).write(true).open(path)?);
        tcsetwinsize(
            &terminal,
            Winsize {
                ws_row: ROWS,
                ws_col: COLUMNS,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        )?;
        command
            .stdin(terminal.try_clone()?)
            .stdout(terminal.try_clone()?)
            .stderr(terminal.try_clone()?);
        // SAFETY: the closure makes three system calls and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                // Under `nohup` the tests inherit an ignored SIGHUP; the window of a person does not.
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                setsid()?;
                Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
            });
        }
        let child = command.spawn()?;
        let master = File::from(master);
        let written = Arc::new(Mutex::new(Vec::new()));
        let reader = Some(Reader::start(&master, Arc::clone(&written))?);
        Ok(Self {
            child,
            master: Some(master),
            reader,
            terminal,
            written,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What was written to the terminal so far.
    pub fn written(&self) -> String {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).replace(char::from(MARK), "")
    }

    /// What stands on the screen now, unless it was given another size. A program writes only what differs from what
    /// stood there, so words may be whole here that were never written as such.
    pub fn screen(&self) -> String {
        let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        parser.process(&written);
        parser.screen().contents()
    }

    /// Gives the terminal another size.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        Ok(tcsetwinsize(
            &self.terminal,
            Winsize {
                ws_row: rows,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        )?)
    }

    pub fn press(&mut self, keys: &str) -> io::Result<()> {
        let master = self.master.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        master.write_all(keys.as_bytes())
    }

    /// Takes nothing any more, as a connection that hangs; and the terminal is full.
    pub fn stall(&mut self) -> io::Result<()> {
        self.stop_reading();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK;
        let terminal = open(ttyname(&self.terminal, Vec::new())?, flags, Mode::empty())?;
        let fill = || std::iter::from_fn(|| rustix::io::write(&terminal, b".").ok()).count();
        // The system moves what was written on by and by, and takes more after that.
        while fill() > 0 {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Closes the window: the terminal is gone.
    pub fn hang_up(&mut self) {
        self.stop_reading();
        self.master = None;
    }

    fn stop_reading(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.end();
        }
    }

    /// The processes of the terminal's session that are there.
    pub fn processes(&self) -> Vec<u32> {
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| session_of(*pid) == Some(self.pid()))
            .collect()
    }

    /// Waits until something is so; whether it came to be within the time.
    pub fn wait_until(&mut self, within: Duration, mut so: impl FnMut(&mut Self) -> bool) -> bool {
        let started = Instant::now();
        while started.elapsed() < within {
            if so(self) {
                return true;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        so(self)
    }

    /// The program's end, if it came within the time. By then all that it wrote was read, unless nobody reads any more.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let mut end = None;
        self.wait_until(within, |pty| {
            end = pty.child.try_wait().ok().flatten();
            end.is_some()
        });
        let marks = self.marks();
        if end.is_some()
            && self.reader.is_some()
            && rustix::io::write(&self.terminal, &[MARK]).is_ok()
        {
            self.wait_until(within, |pty| pty.marks() > marks);
        }
        end
    }

    fn marks(&self) -> usize {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.iter().filter(|byte| **byte == MARK).count()
    }

    /// The terminal echoes what is pressed and hands off whole lines, as a shell wants it.
    pub fn is_sane(&self) -> bool {
        let sane = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcgetattr(&self.terminal).is_ok_and(|modes| modes.local_modes.contains(sane))
    }

    /// The process group in the foreground.
    pub fn foreground(&self) -> Option<i32> {
        tcgetpgrp(self.master.as_ref()?)
            .ok()
            .map(|group| group.as_raw_nonzero().get())
    }
}

/// The session of a process that lives, from the sixth field of its state.
fn session_of(pid: u32) -> Option<u32> {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = state.rsplit_once(')')?.1.split_ascii_whitespace();
    let lives = fields.next()? != "Z";
    fields.nth(2)?.parse().ok().filter(|_| lives)
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_terminal_of_its_own() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "stty size; read -r line; echo \"got $line\"; stty raw -echo; sleep 100",
        ]);
        let mut pty = Pty::spawn(command).unwrap();
        let within = Duration::from_secs(20);
        assert!(pty.wait_until(within, |pty| pty.written().contains("30 100")));
        assert!(pty.is_sane());
        pty.press("it\n").unwrap();
        assert!(
            pty.wait_until(within, |pty| pty.written().contains("got it")
                && !pty.is_sane())
        );
        assert_eq!(pty.foreground(), i32::try_from(pty.pid()).ok());
    }
}
