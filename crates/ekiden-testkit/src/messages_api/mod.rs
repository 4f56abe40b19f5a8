//! A fake Messages API on a loopback port: what the real client talks to in tests.
//!
//! A *model*, a Rust closure, sees each request and decides the reply; [`script`] makes one from a
//! list. The server does the rest: it streams or answers at once as the client asks, counts tokens
//! harmlessly, and keeps every request for the test to look at.
//!
//! ```text
//!  client ── POST /v1/messages ──► routes ──► model(&Request) ──► Reply
//!         ◄── events, JSON, an error status, silence, a drop ────────┘
//! ```
//!
//! Requests of the client's own making (titles, summaries) never reach the model: see [`Thread`].
//! The model is called by one request at a time, in the order in which they arrived.
//!
//! The server has a thread and a runtime of its own, so a test needs neither. It ends with the
//! [`MessagesApi`]; a reply that is still held or stalled then is cut off.

mod reply;
mod request;
mod server;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

pub use reply::{Block, Ending, Gate, Message, Reply, Status, Usage};
pub use request::{Request, Thread, ToolResult, script};
use server::Shared;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct MessagesApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MessagesApi {
    /// Starts a server whose replies `model` decides.
    ///
    /// # Panics
    ///
    /// If no loopback port can be opened: then no test that needs one can run.
    pub fn start(model: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let listener =
            std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port can be opened");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared::new(Box::new(model)));
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || server::run(listener, served, stopped));
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// What the client calls `ANTHROPIC_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, in the order in which they arrived.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests()
    }

    /// The requests of the main thread so far: those that a relay's session makes itself.
    pub fn main_requests(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.thread() == Thread::Main);
        requests
    }

    /// The first request that `wanted` accepts, past or to come, or `None` after `deadline`.
    pub fn wait_for(
        &self,
        deadline: Duration,
        wanted: impl Fn(&Request) -> bool,
    ) -> Option<Request> {
        self.shared.wait_for(deadline, wanted)
    }
}

impl Drop for MessagesApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server's thread was already printed there, and a second one here
            // would abort the test and hide its own failure.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
