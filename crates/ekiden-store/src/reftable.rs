//! The branch that is checked out where git keeps its refs in tables: `gitformat-reftable` describes them.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// How much is read of a table. HEAD is before all branches, in the first block, and git writes blocks of 4 kB.
const BYTES_MAX: u64 = 64 * 1024;

/// The branch that HEAD names; none on a detached head.
pub(crate) fn branch(git_dir: &Path) -> Option<String> {
    let dir = git_dir.join("reftable");
    let tables = fs::read_to_string(dir.join("tables.list")).ok()?;
    let head = tables.lines().rev().find_map(|name| {
        let mut table = Vec::new();
        let file = File::open(dir.join(name)).ok()?;
        file.take(BYTES_MAX).read_to_end(&mut table).ok()?;
        head_in(&table)
    });
    head?.strip_prefix("refs/heads/").map(str::to_owned)
}

/// What HEAD names in this table, if it is in it; nothing on a detached head.
fn head_in(table: &[u8]) -> Option<String> {
    let (start, id_bytes) = match table.get(4..28)? {
        [1, ..] => (24, 20),
        [.., b's', b'2', b'5', b'6'] => (28, 32),
        _ => (28, 20),
    };
    // The block's kind and length; then the records, and numbers that end with their count.
    let &[b'r', a, b, c] = table.get(start..start + 4)? else {
        return None;
    };
    let block = table.get(..u32::from_be_bytes([0, a, b, c]) as usize)?;
    let (block, count) = block.split_last_chunk()?;
    let end = block
        .len()
        .checked_sub(3 * usize::from(u16::from_be_bytes(*count)))?;
    let (mut rest, mut name) = (block.get(start + 4..end)?, Vec::new());
    while name.as_slice() < b"HEAD" {
        name.truncate(number(&mut rest)?);
        let suffix = number(&mut rest)?;
        name.extend(rest.split_off(..suffix >> 3)?);
        number(&mut rest)?;
        let value_bytes = match suffix & 7 {
            3 => number(&mut rest)?,
            ids => ids * id_bytes,
        };
        let value = rest.split_off(..value_bytes)?;
        if name == b"HEAD" {
            return Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    None
}

/// Takes a number off the front: seven bits in each byte, the highest first, and all but the last are one less.
fn number(rest: &mut &[u8]) -> Option<usize> {
    let mut byte = *rest.split_off_first()?;
    let mut number = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = *rest.split_off_first()?;
        number = (number + 1).checked_mul(128)? | usize::from(byte & 0x7f);
    }
    Some(number)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table in which HEAD names a branch.
    pub(crate) fn naming(branch: &str) -> Vec<u8> {
        let length = u8::try_from(11 + branch.len()).expect("a short name");
        let record = [
            &b"\x00\x23HEAD\x00"[..],
            &[length],
            b"refs/heads/",
            branch.as_bytes(),
        ];
        table(1, b"", &record.concat())
    }

    fn table(version: u8, more: &[u8], records: &[u8]) -> Vec<u8> {
        let start = 24 + more.len();
        let length = u8::try_from(start + 4 + records.len() + 5).expect("a short table");
        let head = [&b"REFT"[..], &[version, 0, 16, 0], &[0; 16], more];
        let block = [&[b'r', 0, 0, length][..], records, &[0, 0, 28, 0, 1]];
        [head.concat(), block.concat(), b"log".to_vec()].concat()
    }

    // shows: HND-07
    #[test]
    fn what_head_names_is_read_from_the_table() {
        let on = b"\x00\x23HEAD\x00\x0frefs/heads/a/b1";
        let head = |table: &[u8]| head_in(table);
        assert_eq!(head(&table(1, b"", on)).as_deref(), Some("refs/heads/a/b1"));
        assert_eq!(
            head(&table(2, b"s256", on)).as_deref(),
            Some("refs/heads/a/b1")
        );
        // Others come before it.
        let other = [&b"\x00\x49CHERRY_PI"[..], b"\x00", &[7; 20]].concat();
        let shared = b"\x01\x1bEAD\x00\x01x";
        let both = [&other, &on[..]].concat();
        assert_eq!(
            head(&table(1, b"", &both)).as_deref(),
            Some("refs/heads/a/b1")
        );
        assert_eq!(head(&table(1, b"", &[&other[..], shared].concat())), None);
        assert_eq!(head(&table(1, b"", b"\x00\x53refs/heads\x00\x01x")), None);
    }

    #[test]
    fn what_is_no_table_names_nothing() {
        let whole = table(1, b"", b"\x00\x23HEAD\x00\x0frefs/heads/a/b1");
        for length in 0..whole.len() - 3 {
            assert_eq!(head_in(&whole[..length]), None);
        }
        assert_eq!(head_in(&table(1, b"", &[0xff; 40])), None);
        assert_eq!(head_in(&[b'r'; 200]), None);
    }
}
