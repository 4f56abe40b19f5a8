//! Changes samples by chance and gives them to a reader, which must not panic.
//!
//! So many inputs as `EKIDEN_FUZZ_INPUTS` says, from the seed `EKIDEN_FIRST_SEED`; `cargo xtask soak` tries far more. The message
//! of a failure names the seed and holds the input.

use std::panic::{RefUnwindSafe, catch_unwind};

use ekiden_sim::Chance;

/// Inputs of each reader, unless the environment says otherwise.
const INPUTS: u64 = 500;
/// No input is longer, in bytes.
const BYTES_MAX: usize = 64 * 1024;
/// What parsers have fallen over: numbers out of range, halves of characters, beginnings without ends.
const ODD: [&[u8]; 24] = [
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\"",
    b"\\",
    b"\\ud83d",
    b"{",
    b"}",
    b"[[[[[[[[",
    b"]",
    b":",
    b",",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"```",
    b"- [ ] ",
    b"# ",
    b"---\n",
    b"@\x1b[2J",
];

/// Gives changed samples to the reader.
///
/// # Panics
///
/// The reader panics at one of them.
pub fn fuzz(name: &str, samples: &[Vec<u8>], reader: impl Fn(&[u8]) + RefUnwindSafe) {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let first: u64 = number("EKIDEN_FIRST_SEED").unwrap_or(1);
    let count = number("EKIDEN_FUZZ_INPUTS").unwrap_or(INPUTS);
    for seed in first..first.saturating_add(count) {
        let input = changed(samples, &mut Chance(seed));
        let read = catch_unwind(|| reader(&input));
        assert!(
            read.is_ok(),
            "{name} panics; repeat it with EKIDEN_FIRST_SEED={seed} EKIDEN_FUZZ_INPUTS=1:\n{}",
            input.escape_ascii()
        );
    }
}

fn changed(samples: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut text = samples[chance.below(samples.len())].clone();
    for _ in 0..=chance.below(6) {
        let (from, to) = stretch(chance, text.len());
        match chance.below(7) {
            0 => text[from..to]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << chance.below(8)),
            1 => drop(text.drain(from..to)),
            2 => text.truncate(from),
            3 => {
                let piece = text[from..to].repeat(1 + chance.below(40));
                text.splice(to..to, piece);
            }
            4 => {
                let other = &samples[chance.below(samples.len())];
                let (begin, end) = stretch(chance, other.len());
                text.splice(from..to, other[begin..end].iter().copied());
            }
            _ => {
                let odd = ODD[chance.below(ODD.len())].repeat(1 + chance.below(3));
                text.splice(from..from.max(to.min(from + 2)), odd);
            }
        }
        text.truncate(BYTES_MAX);
    }
    text
}

/// A stretch of a text of this length, mostly a short one.
fn stretch(chance: &mut Chance, length: usize) -> (usize, usize) {
    let from = chance.below(length + 1);
    let most = if chance.below(4) == 0 { length } else { 16 };
    let to = (from + chance.below(most + 1)).min(length);
    (from, to)
}
