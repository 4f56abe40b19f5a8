//! The socket on which hooks ask. Each caller has a task that reads the question, waits for the answer and writes it.

use std::io;
use std::path::PathBuf;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::hook::Asker;
use crate::address::{Socket, question};

/// Questions that wait for the attempt's task; a full channel makes the callers wait.
const QUESTIONS_MAX: usize = 64;
/// How much is read of a question. A tool call may carry a whole file.
const QUESTION_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Question {
    pub(super) asker: Asker,
    pub(super) json: String,
    /// Receives the answer. If dropped, there is none.
    pub(super) answer: oneshot::Sender<String>,
}

/// The listening socket, until this is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    questions: mpsc::Receiver<Question>,
    _socket: Socket,
}

impl Listener {
    /// Listens. Removes what is at the path: an earlier attempt left it.
    pub(super) fn bind(path: PathBuf) -> io::Result<Self> {
        let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
        let _socket = Socket::listen(path, move |caller| serve(caller, sender.clone()))?;
        Ok(Self { questions, _socket })
    }

    /// The next question. Cancel safe.
    pub(super) async fn next(&mut self) -> Question {
        match self.questions.recv().await {
            Some(question) => question,
            // The socket's task ends only with this.
            None => std::future::pending().await,
        }
    }
}

/// Answers one caller. One that goes away, or asks nothing valid, gets no answer.
async fn serve(mut caller: UnixStream, questions: mpsc::Sender<Question>) {
    let Some(bytes) = question(&mut caller, QUESTION_BYTES_MAX).await else {
        return;
    };
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
