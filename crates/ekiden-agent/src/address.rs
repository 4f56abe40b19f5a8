//! The path of a socket, short enough for a socket's address.
//!
//! An address has room for about a hundred bytes, and the path of a run's directory may be longer. On Linux an open
//! directory has a short name as well.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// What fits into an address on every platform.
const ADDRESS_BYTES_MAX: usize = 100;

/// A path to bind or reach a socket, as long as this lives.
#[derive(Debug)]
pub struct Address {
    path: PathBuf,
    /// Keeps the short name alive.
    _dir: Option<OwnedFd>,
}

impl Address {
    /// The address of a socket with this path.
    pub fn of(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= ADDRESS_BYTES_MAX {
            return Ok(Self {
                path: socket.to_owned(),
                _dir: None,
            });
        }
        let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if !cfg!(target_os = "linux") {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let dir = open(
            parent,
            OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY,
            Mode::empty(),
        )?;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir));
        Ok(Self {
            path: Path::new(&path).join(name),
            _dir: Some(dir),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test prepares its directory")]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_deep_down_is_reached() {
        let dir = tempfile::tempdir().expect("a directory");
        for deep in ["near", &format!("{}/{}", "d".repeat(120), "e".repeat(120))] {
            let socket = dir.path().join(deep).join("s");
            std::fs::create_dir_all(socket.parent().expect("a parent")).expect("made");
            let bound = Address::of(&socket).expect("an address");
            let _listener = UnixListener::bind(bound.path()).expect("bound");
            UnixStream::connect(Address::of(&socket).expect("an address").path()).expect("reached");
        }
    }
}
