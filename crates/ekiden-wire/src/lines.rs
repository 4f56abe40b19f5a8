//! Bytes in, lines out, with bounded memory for any input.
//!
//! A line within one chunk is passed on without a copy. A line that spans chunks is collected. Above
//! [`LINE_BYTES_MAX`] only its beginning is kept, and its length is counted. Chunk boundaries do not affect the
//! resulting lines.

use std::io::{self, Read};

use crate::limits::{LINE_BUFFER_KEPT, LINE_BYTES_MAX};

/// A line without its end (`\n` or `\r\n`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    Whole(&'a [u8]),
    /// A line longer than [`LINE_BYTES_MAX`].
    Oversized {
        /// Its length in bytes.
        len: u64,
        /// Its first [`LINE_BYTES_MAX`] bytes.
        head: &'a [u8],
    },
}

/// Splits a stream of chunks into lines.
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// The beginning of a line whose end has not come yet, at most [`LINE_BYTES_MAX`].
    held: Vec<u8>,
    /// The length of that line so far, kept or not.
    held_len: u64,
}

impl LineSplitter {
    /// A splitter at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk and passes on every line that ends in it.
    pub fn push(&mut self, chunk: &[u8], mut on_line: impl FnMut(Line<'_>)) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.held_len == 0 {
                on_line(ended(line, line.len() as u64));
            } else {
                self.hold(line);
                self.release(&mut on_line);
            }
            rest = after;
        }
        self.hold(rest);
    }

    /// Passes on the last line if the stream ended without a line end.
    pub fn finish(&mut self, mut on_line: impl FnMut(Line<'_>)) {
        if self.held_len > 0 {
            self.release(&mut on_line);
        }
    }

    /// How many bytes are kept between two chunks.
    pub fn retained_bytes(&self) -> usize {
        self.held.capacity()
    }

    fn hold(&mut self, part: &[u8]) {
        let room = LINE_BYTES_MAX - self.held.len();
        let kept = &part[..part.len().min(room)];
        if self.held.capacity() - self.held.len() < kept.len() {
            let wanted = (2 * self.held.len()).max(self.held.len() + kept.len());
            self.held
                .reserve_exact(wanted.min(LINE_BYTES_MAX) - self.held.len());
        }
        self.held.extend_from_slice(kept);
        self.held_len += part.len() as u64;
    }

    fn release(&mut self, on_line: &mut impl FnMut(Line<'_>)) {
        on_line(ended(&self.held, self.held_len));
        self.held_len = 0;
        self.held.clear();
        if self.held.capacity() > LINE_BUFFER_KEPT {
            self.held = Vec::new();
        }
    }
}

/// Reads to the end and passes on every line.
pub fn read_lines(mut source: impl Read, mut on_line: impl FnMut(Line<'_>)) -> io::Result<()> {
    let mut splitter = LineSplitter::new();
    let mut chunk = vec![0; LINE_BUFFER_KEPT];
    loop {
        match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => splitter.push(&chunk[..read], &mut on_line),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    splitter.finish(on_line);
    Ok(())
}

/// The line that `kept` is, whole or only its head.
fn ended(kept: &[u8], len: u64) -> Line<'_> {
    if len > LINE_BYTES_MAX as u64 {
        Line::Oversized {
            len,
            head: &kept[..LINE_BYTES_MAX],
        }
    } else {
        Line::Whole(kept.strip_suffix(b"\r").unwrap_or(kept))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut keep = |line: Line<'_>| match line {
            Line::Whole(line) | Line::Oversized { head: line, .. } => lines.push(line.to_vec()),
        };
        let mut splitter = LineSplitter::new();
        for chunk in chunks {
            splitter.push(chunk, &mut keep);
        }
        splitter.finish(&mut keep);
        lines
    }

    #[test]
    fn lines_end_where_they_should() {
        assert_eq!(split(&[b"a\nb\r\n\nc"]), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(split(&[b"a\r", b"\nb", b"", b"c\n"]), [&b"a"[..], b"bc"]);
        assert_eq!(split(&[b"", b"\n"]), [b""]);
        assert!(split(&[b""]).is_empty());
    }

    #[test]
    fn a_line_within_a_chunk_is_not_copied() {
        let chunk = b"one\ntwo\n".to_vec();
        let range = chunk.as_ptr_range();
        let mut splitter = LineSplitter::new();
        splitter.push(&chunk, |line| match line {
            Line::Whole(line) => assert!(range.contains(&line.as_ptr())),
            Line::Oversized { .. } => unreachable!("short lines"),
        });
        assert_eq!(splitter.retained_bytes(), 0);
    }

    // shows: AGT-08
    #[test]
    fn a_line_of_100_mb_is_bounded_in_memory() {
        let chunk = vec![b'x'; 1024 * 1024];
        let mut splitter = LineSplitter::new();
        let mut most = 0;
        for _ in 0..100 {
            splitter.push(&chunk, |_| unreachable!("no line end yet"));
            most = most.max(splitter.retained_bytes());
        }
        let mut seen = Vec::new();
        splitter.push(b"x\nnext\n", |line| match line {
            Line::Whole(line) => seen.push((line.len() as u64, line.len())),
            Line::Oversized { len, head } => seen.push((len, head.len())),
        });
        assert!(most <= LINE_BYTES_MAX, "{most} bytes kept");
        assert_eq!(seen, [(100 * 1024 * 1024 + 1, LINE_BYTES_MAX), (4, 4)]);
        assert_eq!(splitter.retained_bytes(), 0);
    }

    #[test]
    fn an_oversized_line_is_the_same_in_one_chunk() {
        let mut chunk = vec![b'x'; LINE_BYTES_MAX + 1];
        chunk.push(b'\n');
        let mut seen = 0;
        LineSplitter::new().push(&chunk, |line| match line {
            Line::Whole(_) => unreachable!("too long"),
            Line::Oversized { len, head } => {
                seen += 1;
                assert_eq!(
                    (len, head.len()),
                    (LINE_BYTES_MAX as u64 + 1, LINE_BYTES_MAX)
                );
            }
        });
        assert_eq!(seen, 1);
    }

    proptest! {
        // shows: AGT-08
        #[test]
        fn cuts_make_no_difference(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200), size in 1usize..20) {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(split(&chunks), split(&[&bytes]));
        }
    }
}
