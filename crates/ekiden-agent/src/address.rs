//! Sockets in the file system, with paths short enough for a socket's address.
//!
//! An address has room for about a hundred bytes, and the path of a run's directory may be longer. On Linux an open
//! directory also has a short name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use tokio::io::AsyncReadExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// What fits into an address on every platform.
const ADDRESS_BYTES_MAX: usize = 100;

/// Callers served at a time; the next one waits.
const CALLERS_MAX: usize = 64;
/// How long a caller may take to ask. Each of ours asks at once.
const ASKING_MAX: Duration = Duration::from_secs(30);
/// The pause after the system refused to accept a caller.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A path to bind or reach a socket, valid as long as this lives.
#[derive(Debug)]
pub struct Address {
    pub path: PathBuf,
    /// Keeps the short name alive.
    _dir: Option<OwnedFd>,
}

impl Address {
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

    fn remove(&self) {
        // Usually there is none. If one stays, binding reports it.
        let _ = rustix::fs::unlink(&self.path);
    }
}

/// A socket that serves callers, as long as this lives.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Socket {
    /// Listens at this path, within a runtime. Removes what is there, since its owner is gone. Each caller has
    /// its own task, so one that hangs blocks nobody; `serve` is called as soon as a caller has come.
    pub fn listen<F>(
        path: PathBuf,
        serve: impl Fn(UnixStream) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let address = Address::of(&path)?;
        address.remove();
        let listener = UnixListener::bind(&address.path)?;
        let places = Arc::new(Semaphore::new(CALLERS_MAX));
        let task = tokio::spawn(async move {
            while let Ok(place) = Arc::clone(&places).acquire_owned().await {
                match listener.accept().await {
                    Ok((caller, _)) => {
                        let served = serve(caller);
                        tokio::spawn(async move {
                            served.await;
                            drop(place);
                        });
                    }
                    // There may be no room for another open file until somebody closes one.
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                }
            }
        });
        Ok(Self { path, task })
    }
}

/// Everything that a caller asks, up to a size. None if it goes away or takes too long.
pub async fn question(caller: &mut UnixStream, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut bounded = caller.take(bytes_max);
    let read = timeout(ASKING_MAX, bounded.read_to_end(&mut bytes)).await;
    matches!(read, Ok(Ok(_))).then_some(bytes)
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
        if let Ok(address) = Address::of(&self.path) {
            address.remove();
        }
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
            let _listener = UnixListener::bind(&bound.path).expect("bound");
            UnixStream::connect(&Address::of(&socket).expect("an address").path).expect("reached");
        }
    }
}
