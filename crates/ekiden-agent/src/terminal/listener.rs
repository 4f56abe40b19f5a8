//! The socket on which hooks ask. Each caller has its own task, which reads the question, waits for the answer and
//! writes it. So a caller that hangs blocks nothing else.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use super::hook::Asker;
use crate::address::Address;

/// Questions that wait for the attempt's task; a full channel holds the callers back.
const QUESTIONS_MAX: usize = 64;
/// The most that is read of a question. A call of a tool may carry a whole file.
const QUESTION_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Question {
    pub(super) asker: Asker,
    pub(super) json: String,
    /// Takes the answer. Dropped: there is none.
    pub(super) answer: oneshot::Sender<String>,
}

/// The socket, as long as this lives.
#[derive(Debug)]
pub(super) struct Listener {
    socket: PathBuf,
    questions: mpsc::Receiver<Question>,
    task: tokio::task::JoinHandle<()>,
}

impl Listener {
    /// Listens. What lies at the path is removed: it is what an earlier attempt left.
    pub(super) fn bind(socket: &Path) -> io::Result<Self> {
        let address = Address::of(socket)?;
        remove(address.path());
        let listener = UnixListener::bind(address.path())?;
        let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
        let task = tokio::spawn(accept(listener, sender));
        Ok(Self {
            socket: socket.to_owned(),
            questions,
            task,
        })
    }

    /// The next question. Cancel safe.
    pub(super) async fn next(&mut self) -> Question {
        match self.questions.recv().await {
            Some(question) => question,
            // The task of the socket ends only with this.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        if let Ok(address) = Address::of(&self.socket) {
            remove(address.path());
        }
    }
}

fn remove(path: &Path) {
    // There usually is none; where it stays, binding says so.
    let _ = rustix::fs::unlink(path);
}

async fn accept(listener: UnixListener, questions: mpsc::Sender<Question>) {
    while let Ok((caller, _)) = listener.accept().await {
        tokio::spawn(serve(caller, questions.clone()));
    }
}

/// Answers one caller. One that goes away, or asks nothing valid, gets no answer.
async fn serve(mut caller: UnixStream, questions: mpsc::Sender<Question>) {
    let mut bytes = Vec::new();
    let mut bounded = (&mut caller).take(QUESTION_BYTES_MAX);
    if bounded.read_to_end(&mut bytes).await.is_err() {
        return;
    }
    let text = String::from_utf8_lossy(&bytes);
    let Some((asker, json)) = text.split_once('\n') else {
        return;
    };
    let Some(asker) = Asker::named(asker) else {
        return;
    };
    let (answer, answered) = oneshot::channel();
    let question = Question {
        asker,
        json: json.to_owned(),
        answer,
    };
    if questions.send(question).await.is_err() {
        return;
    }
    if let Ok(answer) = answered.await {
        let _ = caller.write_all(answer.as_bytes()).await;
    }
}
