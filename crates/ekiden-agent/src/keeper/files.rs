//! The files that an engine hands to a keeper: the child's standard streams and the lock.
//!
//! They travel as a message on the control socket, which is the keeper's standard input. So the
//! engine never makes a descriptor inheritable, not even for a moment: another child that is started
//! at that moment by another thread would keep a pipe open for ever.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// A message carries at least one byte.
const LETTER: [u8; 1] = *b"F";

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
    pub(crate) fn send(&self, socket: &UnixStream) -> io::Result<()> {
        let mut fds = vec![self.stdin.as_fd(), self.stdout.as_fd(), self.stderr.as_fd()];
        fds.extend(self.lock.as_ref().map(AsFd::as_fd));
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        assert!(fits, "there is room for four descriptors");
        rustix::io::retry_on_intr(|| {
            sendmsg(socket, &[IoSlice::new(&LETTER)], &mut ancillary, SendFlags::empty())
        })?;
        Ok(())
    }

    /// Takes the files out of `socket`. The process must be single-threaded.
    ///
    /// # Errors
    ///
    /// It is no socket, or its first message holds no files: the keeper was started by hand.
    pub(crate) fn receive(socket: &UnixStream) -> io::Result<Self> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut letter = [0];
        rustix::io::retry_on_intr(|| {
            let mut into = [IoSliceMut::new(&mut letter)];
            recvmsg(socket, &mut into, &mut ancillary, RecvFlags::empty())
        })?;
        Self::open(&mut ancillary)
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
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn files_arrive_in_their_order() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        let (mut read, write) = io::pipe().expect("a pipe");
        let null = || OwnedFd::from(File::open("/dev/null").expect("the null device"));
        let files = ChildFiles { stdin: null(), stdout: write.into(), stderr: null(), lock: None };
        files.send(&here).expect("sent");
        drop(files);

        let received = ChildFiles::receive(&there).expect("received");
        assert!(received.lock.is_none());
        File::from(received.stdout).write_all(b"out").expect("written");
        let mut text = String::new();
        read.read_to_string(&mut text).expect("read to the end");
        assert_eq!(text, "out");
    }

    #[test]
    fn a_message_without_files_is_refused() {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        (&here).write_all(b"hello").expect("written");
        assert!(ChildFiles::receive(&there).is_err());
        drop(here);
    }
}
