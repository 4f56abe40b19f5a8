//! Reads a child's output to its end and keeps a part of it.

use std::future::pending;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::unix::read_now;

/// Which part of a stream is kept, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    First(usize),
    Last(usize),
}

/// What is kept of one stream, or of several in the order of their bytes.
#[derive(Debug)]
pub(crate) struct Excerpt {
    keep: Keep,
    bytes: Vec<u8>,
    cut: bool,
}

impl Excerpt {
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            keep,
            bytes: Vec::new(),
            cut: false,
        }
    }

    pub(crate) fn add(&mut self, arrived: &[u8]) {
        match self.keep {
            Keep::First(max) => {
                let fits = arrived.len().min(max - self.bytes.len());
                self.bytes.extend_from_slice(&arrived[..fits]);
                self.cut |= fits < arrived.len();
            }
            Keep::Last(max) => {
                self.bytes.extend_from_slice(arrived);
                // Cut rarely: the longer the rest, the more it costs to move.
                if self.bytes.len() > 2 * max + ARRIVED_BYTES_MAX {
                    self.cut_to(max);
                }
            }
        }
    }

    fn cut_to(&mut self, max: usize) {
        let excess = self.bytes.len().saturating_sub(max);
        self.bytes.drain(..excess);
        self.cut |= excess > 0;
    }

    /// The bytes, and whether any are missing.
    fn end(mut self) -> (Vec<u8>, bool) {
        if let Keep::Last(max) = self.keep {
            self.cut_to(max);
        }
        (self.bytes, self.cut)
    }

    /// The same as text. Bytes that are not UTF-8 are replaced, and a character that was cut in two is
    /// left out.
    pub(crate) fn text(self) -> String {
        let (bytes, _) = self.end();
        let rest_of_character = bytes
            .iter()
            .take(3)
            .take_while(|byte| (0x80..0xc0).contains(*byte))
            .count();
        String::from_utf8_lossy(&bytes[rest_of_character..]).into_owned()
    }
}

/// How much is read at once. Large, since a busy command fills a whole pipe between two reads.
const ARRIVED_BYTES_MAX: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct Intake {
    pipe: Option<pipe::Receiver>,
    excerpt: Excerpt,
    /// Where bytes arrive.
    arrived: Box<[u8; ARRIVED_BYTES_MAX]>,
}

impl Intake {
    pub(crate) fn new(pipe: Option<pipe::Receiver>, keep: Keep) -> Self {
        Self {
            pipe,
            excerpt: Excerpt::new(keep),
            arrived: Box::new([0; ARRIVED_BYTES_MAX]),
        }
    }

    /// Takes in what comes next, and returns it. Waits forever after the end. Cancel safe.
    pub(crate) async fn more(&mut self) -> &[u8] {
        if let Some(pipe) = &mut self.pipe
            && let Ok(count @ 1..) = pipe.read(&mut self.arrived[..]).await
        {
            return self.take(count);
        }
        self.pipe = None;
        pending().await
    }

    /// Takes in a part of what has already arrived, and returns it.
    pub(crate) fn rest(&mut self) -> Option<&[u8]> {
        let count = read_now(self.pipe.as_ref()?, &mut self.arrived[..])?;
        Some(self.take(count))
    }

    fn take(&mut self, count: usize) -> &[u8] {
        let arrived = &self.arrived[..count];
        self.excerpt.add(arrived);
        arrived
    }

    /// What is kept, and whether anything is missing.
    pub(crate) fn kept(self) -> (Vec<u8>, bool) {
        self.excerpt.end()
    }

    /// The same as text, see [`Excerpt::text`].
    pub(crate) fn text(self) -> String {
        self.excerpt.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keep: Keep, pieces: &[&str]) -> (String, bool) {
        let excerpt = || {
            let mut excerpt = Excerpt::new(keep);
            pieces
                .iter()
                .for_each(|piece| excerpt.add(piece.as_bytes()));
            excerpt
        };
        (excerpt().text(), excerpt().end().1)
    }

    #[test]
    fn the_beginning_or_the_end_is_kept() {
        let text = ["one ", "two ", "three"];
        assert_eq!(kept(Keep::First(6), &text), ("one tw".to_owned(), true));
        assert_eq!(
            kept(Keep::First(13), &text),
            ("one two three".to_owned(), false)
        );
        assert_eq!(kept(Keep::Last(7), &text), ("o three".to_owned(), true));
        assert_eq!(
            kept(Keep::Last(13), &text),
            ("one two three".to_owned(), false)
        );
        assert_eq!(kept(Keep::Last(0), &text), (String::new(), true));
    }

    #[test]
    fn a_character_that_was_cut_is_left_out() {
        assert_eq!(kept(Keep::Last(4), &["aéé"]), ("éé".to_owned(), true));
        assert_eq!(kept(Keep::Last(3), &["aéé"]), ("é".to_owned(), true));
        assert_eq!(kept(Keep::Last(3), &["\u{1f600}"]), (String::new(), true));
    }

    #[tokio::test]
    async fn what_arrived_unheard_is_taken_in() {
        let (read, mut write) = std::io::pipe().unwrap();
        let mut intake = Intake::new(
            Some(pipe::Receiver::from_owned_fd(read.into()).unwrap()),
            Keep::First(9),
        );
        std::io::Write::write_all(&mut write, b"the end").unwrap();
        // The runtime has had no chance to hear of it.
        while intake.rest().is_some() {}
        assert_eq!(intake.kept().0, b"the end");
    }

    #[test]
    fn memory_is_bounded() {
        let mut excerpt = Excerpt::new(Keep::Last(1000));
        for _ in 0..1000 {
            excerpt.add(&[b'x'; 1000]);
            assert!(excerpt.bytes.len() <= 2 * 1000 + ARRIVED_BYTES_MAX);
        }
        assert_eq!(excerpt.end().0.len(), 1000);
    }
}
