//! Prints for a run without ever blocking it.
//!
//! A terminal may accept nothing for hours: after ctrl-s, over a connection that hangs, in a pager that
//! nobody scrolls. A run blocked in a write would answer no hook and order no handoff. So a separate thread
//! prints the run's output, in order. While that thread is behind, frames of the live view are dropped;
//! lines never are.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use ekiden_agent::with_default_signals;

use crate::exit::Exit;

/// How long a terminal may accept nothing at the end of a program before we give up on it.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Answer,
    Messages,
}

#[derive(Debug)]
pub struct BackgroundWriter {
    pieces: Sender<(Stream, Vec<u8>)>,
    /// The result of each piece.
    written: Receiver<io::Result<()>>,
    /// Pieces without a result so far.
    open: usize,
    /// The first failure on standard output.
    failure: Option<io::Error>,
}

impl BackgroundWriter {
    /// Starts to print to these.
    pub fn start(
        mut answer: impl Write + Send + 'static,
        mut messages: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let (pieces, to_print) = mpsc::channel::<(Stream, Vec<u8>)>();
        let (done, written) = mpsc::channel();
        let print = move || {
            for (stream, bytes) in to_print {
                let printed = match stream {
                    Stream::Answer => answer.write_all(&bytes).and_then(|()| answer.flush()),
                    // If a message cannot be printed, nothing can report that.
                    Stream::Messages => {
                        let _ = messages.write_all(&bytes).and_then(|()| messages.flush());
                        Ok(())
                    }
                };
                if done.send(printed).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("printing".to_owned())
            .spawn(print)?;
        Ok(Self {
            pieces,
            written,
            open: 0,
            failure: None,
        })
    }

    pub fn print(&mut self, stream: Stream, bytes: &[u8]) {
        if self.pieces.send((stream, bytes.to_vec())).is_ok() {
            self.open += 1;
        }
    }

    /// The reader has not accepted everything yet.
    pub fn is_behind(&mut self) -> bool {
        while let Ok(printed) = self.written.try_recv() {
            self.take(printed);
        }
        self.open > 0
    }

    /// Waits until everything is printed. For a pipe or a file it waits as any program does; what `gives_up`,
    /// such as one that prints to a terminal, waits a while for a reader that accepts nothing.
    pub fn finish(&mut self, gives_up: bool) -> io::Result<()> {
        while self.open > 0 {
            match self.written.recv_timeout(PATIENCE) {
                Ok(printed) => self.take(printed),
                Err(RecvTimeoutError::Timeout) if !gives_up => {}
                Err(_) => break,
            }
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// The same at the end of the program. After a signal, or if one comes now, it waits for no reader that hangs.
    pub fn end(&mut self, to_terminal: bool, exit: Exit) -> io::Result<()> {
        let gives_up = to_terminal || matches!(exit, Exit::Signal(_));
        with_default_signals(|| self.finish(gives_up))
    }

    fn take(&mut self, printed: io::Result<()>) {
        self.open -= 1;
        if let Err(error) = printed {
            self.failure.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes a piece when it is let, and what it took.
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

    fn slow() -> (BackgroundWriter, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let ((go, take), (taken, took)) = (mpsc::channel(), mpsc::channel());
        (
            BackgroundWriter::start(Slow { take, taken }, io::sink()).unwrap(),
            go,
            took,
        )
    }

    // shows: UIX-02
    #[test]
    fn nobody_waits_for_a_reader_that_takes_nothing() {
        let (mut beside, go, took) = slow();
        for line in ["one\n", "two\n"] {
            beside.print(Stream::Answer, line.as_bytes());
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
        let (mut beside, go, _took) = slow();
        beside.print(Stream::Answer, b"one\n");
        assert!(beside.finish(true).is_ok());
        assert!(beside.is_behind());
        drop(go);
    }

    #[test]
    fn what_went_wrong_is_told_once() {
        let (mut beside, go, _took) = slow();
        drop(go);
        beside.print(Stream::Answer, b"one\n");
        assert!(beside.finish(false).is_err());
        assert!(beside.finish(false).is_ok());
    }
}
