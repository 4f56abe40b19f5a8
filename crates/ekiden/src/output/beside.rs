//! Printing beside a run, which must not wait for whoever reads.
//!
//! A terminal may take nothing for hours: ctrl-s, a connection that hangs, a pager that nobody scrolls. A
//! run that waited in a write would answer no hook, order no handoff, and stop. So another thread prints
//! what the run says, in its order. What moves is left out while it is behind; lines are never left out.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a terminal may take nothing at the end of a program, before it is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a piece goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Answer,
    /// Standard error.
    Talk,
}

/// A thread that prints.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    queue: Arc<Queue>,
}

/// One end of it, for one stream.
#[derive(Debug)]
pub struct Handle {
    queue: Arc<Queue>,
    stream: Stream,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<(Stream, Vec<u8>)>,
    /// A piece is being written.
    writing: bool,
    /// Pieces that were written.
    written: u64,
    /// What went wrong on standard output, until it is told.
    failure: Option<io::Error>,
}

impl Beside {
    /// Begins to print to these.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub fn start(
        mut answer: impl Write + Send + 'static,
        mut talk: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let beside = Self::default();
        let queue = Arc::clone(&beside.queue);
        std::thread::Builder::new().name("printing".to_owned()).spawn(move || {
            loop {
                let (stream, bytes) = queue.next();
                let written = match stream {
                    Stream::Answer => answer.write_all(&bytes).and_then(|()| answer.flush()),
                    Stream::Talk => talk.write_all(&bytes).and_then(|()| talk.flush()),
                };
                queue.done(stream, written);
            }
        })?;
        Ok(beside)
    }

    /// An end for a stream.
    #[must_use]
    pub fn handle(&self, stream: Stream) -> Handle {
        Handle { queue: Arc::clone(&self.queue), stream }
    }

    /// Whoever reads has not taken all of it yet.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.queue.lock().is_behind()
    }

    /// Waits until everything is printed. A terminal that takes nothing is given up after a while; a pipe
    /// or a file is waited for, as any program does.
    ///
    /// # Errors
    ///
    /// What went wrong on standard output and was not told yet.
    pub fn finish(&self, to_terminal: bool) -> io::Result<()> {
        let mut state = self.queue.lock();
        while state.is_behind() {
            let before = state.written;
            let waited = self.queue.changed.wait_timeout(state, PATIENCE);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = now;
            if to_terminal && timeout.timed_out() && state.written == before {
                break;
            }
        }
        state.failure.take().map_or(Ok(()), Err)
    }
}

impl State {
    fn is_behind(&self) -> bool {
        self.writing || !self.pieces.is_empty()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> (Stream, Vec<u8>) {
        let mut state = self.lock();
        loop {
            if let Some(piece) = state.pieces.pop_front() {
                state.writing = true;
                return piece;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, stream: Stream, written: io::Result<()>) {
        let mut state = self.lock();
        state.writing = false;
        state.written += 1;
        if let Err(error) = written
            && stream == Stream::Answer
        {
            state.failure.get_or_insert(error);
        }
        self.changed.notify_all();
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.queue.lock();
        if self.stream == Stream::Answer
            && let Some(error) = state.failure.take()
        {
            return Err(error);
        }
        state.pieces.push_back((self.stream, bytes.to_vec()));
        self.queue.changed.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes a piece when it is told to, and what it took.
    struct Slow {
        take: mpsc::Receiver<()>,
        taken: mpsc::Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.take.recv().map_err(io::Error::other)?;
            let _ = self.taken.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Beside, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let ((go, take), (taken, took)) = (mpsc::channel(), mpsc::channel());
        (Beside::start(Slow { take, taken }, io::sink()).unwrap(), go, took)
    }

    // shows: UIX-02
    #[test]
    fn nobody_waits_for_a_reader_that_takes_nothing() {
        let (beside, go, took) = slow();
        let mut answer = beside.handle(Stream::Answer);
        for line in ["one\n", "two\n"] {
            answer.write_all(line.as_bytes()).unwrap();
        }
        assert!(beside.is_behind());
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert!(beside.finish(false).is_ok());
        assert_eq!(took.try_iter().collect::<Vec<_>>(), ["one\n", "two\n"]);
        assert!(!beside.is_behind());
    }

    #[test]
    fn a_terminal_is_given_up_in_the_end() {
        let (beside, go, _took) = slow();
        beside.handle(Stream::Answer).write_all(b"one\n").unwrap();
        assert!(beside.finish(true).is_ok());
        assert!(beside.is_behind());
        drop(go);
    }

    #[test]
    fn what_went_wrong_is_told_once() {
        let (beside, go, _took) = slow();
        drop(go);
        let mut answer = beside.handle(Stream::Answer);
        answer.write_all(b"one\n").unwrap();
        assert!(beside.finish(false).is_err());
        assert!(beside.finish(false).is_ok());
    }
}
