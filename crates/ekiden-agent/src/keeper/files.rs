//! What an engine gives to a keeper: the command, the child's standard streams, the lock.
//!
//! All of it travels as a message on the control socket, which is the keeper's standard input. So the engine
//! never makes a descriptor inheritable, not even for a moment. If it did, another child that a different
//! thread starts at that moment would keep a pipe open forever.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::keeper::ChildCommand;

/// How long a keeper may take to read its command. One that takes longer hangs.
const READ_TIME: Duration = Duration::from_secs(5);
/// The length of the command travels with the files.
type Length = [u8; 8];

/// Sends the command and the files to the keeper at the other end of `control`.
pub(crate) fn send(
    control: &UnixStream,
    command: &ChildCommand,
    files: &ChildFiles,
) -> io::Result<()> {
    let command = serde_json::to_vec(command)?;
    control.set_write_timeout(Some(READ_TIME))?;
    files.send(control, (command.len() as u64).to_le_bytes())?;
    { control }.write_all(&command)
}

pub(crate) fn receive(socket: &UnixStream) -> io::Result<(ChildCommand, ChildFiles)> {
    let (files, length) = ChildFiles::receive(socket)?;
    let mut command = Vec::new();
    socket
        .take(u64::from_le_bytes(length))
        .read_to_end(&mut command)?;
    Ok((serde_json::from_slice(&command)?, files))
}

#[derive(Debug)]
pub(crate) struct ChildFiles {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// A locked file. The lock is free when the last process that holds the file is gone.
    pub(crate) lock: Option<File>,
}

impl ChildFiles {
    /// Puts the files into `socket`, for the process at its other end.
    fn send(&self, socket: &UnixStream, length: Length) -> io::Result<()> {
        let mut fds = vec![self.stdin.as_fd(), self.stdout.as_fd(), self.stderr.as_fd()];
        fds.extend(self.lock.as_ref().map(AsFd::as_fd));
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        assert!(fits, "there is room for four descriptors");
        // Rust programs ignore SIGPIPE, so a keeper that is gone is an error and no signal.
        rustix::io::retry_on_intr(|| {
            let sent = [IoSlice::new(&length)];
            sendmsg(socket, &sent, &mut ancillary, SendFlags::empty())
        })?;
        Ok(())
    }

    /// Takes the files out of `socket`.
    fn receive(socket: &UnixStream) -> io::Result<(Self, Length)> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut length = Length::default();
        rustix::io::retry_on_intr(|| {
            let mut into = [IoSliceMut::new(&mut length)];
            // Such a small message arrives whole.
            recvmsg(socket, &mut into, &mut ancillary, RecvFlags::empty())
        })?;
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        for fd in &fds {
            fcntl_setfd(fd, FdFlags::CLOEXEC)?;
        }
        let mut fds = fds.into_iter();
        let (Some(stdin), Some(stdout), Some(stderr)) = (fds.next(), fds.next(), fds.next()) else {
            return Err(ErrorKind::InvalidData.into());
        };
        let files = Self {
            stdin,
            stdout,
            stderr,
            lock: fds.next().map(File::from),
        };
        Ok((files, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(args: &[&str]) -> ChildCommand {
        ChildCommand {
            grace: Duration::from_millis(3000),
            on_terminal: false,
            program: "/bin/sh".into(),
            args: args.iter().map(Into::into).collect(),
            dir: "/".into(),
            env_set: vec![(
                "A".into(),
                std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]),
            )],
        }
    }

    #[test]
    fn a_command_and_its_files_arrive_as_they_were() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let (mut read, write) = io::pipe().expect("a pipe");
        let null = || OwnedFd::from(File::open("/dev/null").expect("the null device"));
        let files = ChildFiles {
            stdin: null(),
            stdout: write.into(),
            stderr: null(),
            lock: None,
        };
        let given = command(&["-c", ""]);
        send(&here, &given, &files).expect("sent");
        // What follows is for whoever listens next.
        (&here).write_all(b"T").expect("a command");
        drop(files);

        let (command, received) = receive(&there).expect("received");
        assert_eq!(command, given);
        assert!(received.lock.is_none());
        File::from(received.stdout)
            .write_all(b"out")
            .expect("written");
        let mut text = String::new();
        read.read_to_string(&mut text).expect("read to the end");
        assert_eq!(text, "out");
        let mut order = [0];
        (&there).read_exact(&mut order).expect("the order");
        assert_eq!(&order, b"T");
    }

    #[test]
    fn a_message_without_files_is_refused() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        (&here).write_all(b"hello there").expect("written");
        assert!(receive(&there).is_err());
        drop(here);
        assert!(
            receive(&there).is_err(),
            "no process has a command any more"
        );
    }
}
