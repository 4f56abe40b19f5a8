//! What an engine hands to a keeper: the errand, the child's standard streams, the lock.
//!
//! All of it travels as a message on the control socket, which is the keeper's standard input. So the
//! engine never makes a descriptor inheritable, not even for a moment: another child that is started
//! at that moment by another thread would keep a pipe open for ever.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::keeper::Errand;

/// How long a keeper may take to read its errand. One that takes longer hangs.
const READ_TIME: Duration = Duration::from_secs(5);
/// With the files goes the length of the errand.
type Length = [u8; 8];

/// Hands the errand and the files over to the keeper at the other end of `control`.
///
/// # Errors
///
/// It is dead or hangs. It has not begun then, and will not.
pub(crate) fn hand_over(control: &UnixStream, errand: &Errand, files: &ChildFiles) -> io::Result<()> {
    let errand = serde_json::to_vec(errand)?;
    control.set_write_timeout(Some(READ_TIME))?;
    files.send(control, (errand.len() as u64).to_le_bytes())?;
    { control }.write_all(&errand)
}

/// Waits for the errand and takes it over, with the files. The process must be single-threaded.
///
/// # Errors
///
/// Nobody has an errand any more, or `socket` is none: the keeper was started by hand.
pub(crate) fn take_over(socket: &UnixStream) -> io::Result<(Errand, ChildFiles)> {
    let (files, length) = ChildFiles::receive(socket)?;
    let mut errand = Vec::new();
    socket.take(u64::from_le_bytes(length)).read_to_end(&mut errand)?;
    Ok((serde_json::from_slice(&errand)?, files))
}

/// The descriptors of one child.
#[derive(Debug)]
pub(crate) struct ChildFiles {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// A locked file. The lock is free when the last process that holds the file is gone.
    pub(crate) lock: Option<File>,
}

impl ChildFiles {
    /// Puts the files into `socket`, to be taken out by whoever has its other end.
    fn send(&self, socket: &UnixStream, length: Length) -> io::Result<()> {
        let mut fds = vec![self.stdin.as_fd(), self.stdout.as_fd(), self.stderr.as_fd()];
        fds.extend(self.lock.as_ref().map(AsFd::as_fd));
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        assert!(fits, "there is room for four descriptors");
        rustix::io::retry_on_intr(|| {
            sendmsg(socket, &[IoSlice::new(&length)], &mut ancillary, SendFlags::NOSIGNAL)
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
            // So few bytes come whole.
            recvmsg(socket, &mut into, &mut ancillary, RecvFlags::empty())
        })?;
        Ok((Self::open(&mut ancillary)?, length))
    }

    fn open(ancillary: &mut RecvAncillaryBuffer<'_>) -> io::Result<Self> {
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
        Ok(Self { stdin, stdout, stderr, lock: fds.next().map(File::from) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::AgentPlace;

    fn errand(args: &[&str]) -> Errand {
        Errand {
            grace: Duration::from_millis(3000),
            place: AgentPlace::Alone,
            program: "/bin/sh".into(),
            args: args.iter().map(Into::into).collect(),
            dir: "/".into(),
            env_set: vec![("A".into(), std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]))],
        }
    }

    #[test]
    fn an_errand_and_its_files_arrive_as_they_were() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let (mut read, write) = io::pipe().expect("a pipe");
        let null = || OwnedFd::from(File::open("/dev/null").expect("the null device"));
        let files = ChildFiles { stdin: null(), stdout: write.into(), stderr: null(), lock: None };
        let given = errand(&["-c", ""]);
        hand_over(&here, &given, &files).expect("handed over");
        // What follows is for whoever listens next.
        (&here).write_all(b"T").expect("an order");
        drop(files);

        let (errand, received) = take_over(&there).expect("taken over");
        assert_eq!(errand, given);
        assert!(received.lock.is_none());
        File::from(received.stdout).write_all(b"out").expect("written");
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
        assert!(take_over(&there).is_err());
        drop(here);
        assert!(take_over(&there).is_err(), "nobody has an errand any more");
    }
}
