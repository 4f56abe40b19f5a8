//! One simulated file: what the cache holds, and what of it is on the disk.

/// A file's bytes, and how they differ from those on the disk.
#[derive(Debug, Clone, Default)]
pub(super) struct SimFile {
    bytes: Vec<u8>,
    unsynced: Option<Unsynced>,
    /// A sync has failed: later ones report success and move nothing.
    sync_is_dead: bool,
}

/// On the disk are the first `kept` bytes of the cache, followed by `tail`.
#[derive(Debug, Clone)]
struct Unsynced {
    kept: usize,
    tail: Vec<u8>,
}

/// What becomes of a file's unsynced bytes in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileLoss {
    /// None of them reached the disk.
    Lost,
    /// This many of them did, from the first on.
    Prefix(usize),
    /// The new length did, but this many of them, from the first on, are zero.
    Holed(usize),
    Whole,
}

impl SimFile {
    /// A file that is on the disk already.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            unsynced: None,
            sync_is_dead: false,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.note_change(self.bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.note_change(len.min(self.bytes.len()));
        self.bytes.truncate(len);
    }

    /// From here on only the first `kept` bytes are surely the same in cache and disk.
    fn note_change(&mut self, kept: usize) {
        let Some(unsynced) = &mut self.unsynced else {
            self.unsynced = Some(Unsynced {
                kept,
                tail: self.bytes[kept..].to_vec(),
            });
            return;
        };
        if kept < unsynced.kept {
            unsynced
                .tail
                .splice(0..0, self.bytes[kept..unsynced.kept].iter().copied());
            unsynced.kept = kept;
        }
    }

    pub(super) fn sync(&mut self) {
        if !self.sync_is_dead {
            self.unsynced = None;
        }
    }

    pub(super) fn fail_sync(&mut self) {
        self.sync_is_dead = true;
    }

    pub(super) fn sync_is_dead(&self) -> bool {
        self.sync_is_dead
    }

    /// How many bytes of the cache are not on the disk.
    fn added(&self) -> usize {
        self.unsynced
            .as_ref()
            .map_or(0, |unsynced| self.bytes.len() - unsynced.kept)
    }

    /// The losses that [`super::SimDisk::survivors`] tries: none for a synced file.
    pub(super) fn losses(&self) -> Vec<FileLoss> {
        if self.unsynced.is_none() {
            return Vec::new();
        }
        match self.added() {
            0 | 1 => vec![FileLoss::Lost, FileLoss::Whole],
            added => {
                let half = added / 2;
                vec![
                    FileLoss::Lost,
                    FileLoss::Prefix(half),
                    FileLoss::Holed(half),
                    FileLoss::Whole,
                ]
            }
        }
    }

    /// A loss drawn by chance, torn at any byte.
    pub(super) fn draw_loss(&self, draw: &mut impl FnMut(usize) -> usize) -> FileLoss {
        let at = draw(self.added() + 1);
        match draw(4) {
            0 => FileLoss::Lost,
            1 => FileLoss::Prefix(at),
            2 => FileLoss::Holed(at),
            _ => FileLoss::Whole,
        }
    }

    /// The file as it is found after the power cut.
    pub(super) fn survive(&self, loss: FileLoss) -> Self {
        let Some(unsynced) = &self.unsynced else {
            return Self::durable(&self.bytes);
        };
        let (kept, added) = self.bytes.split_at(unsynced.kept);
        let rest = match loss {
            FileLoss::Lost => unsynced.tail.clone(),
            FileLoss::Prefix(len) => added[..len.min(added.len())].to_vec(),
            FileLoss::Holed(len) => {
                let zeros = len.min(added.len());
                [&vec![0; zeros], &added[zeros..]].concat()
            }
            FileLoss::Whole => added.to_vec(),
        };
        Self::durable(&[kept, &rest].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(file: &SimFile, loss: FileLoss) -> String {
        String::from_utf8(file.survive(loss).bytes).expect("text")
    }

    #[test]
    fn unsynced_bytes_may_be_lost_torn_holed_or_kept() {
        let mut file = SimFile::durable(b"one\n");
        file.append(b"two\n");
        assert_eq!(after(&file, FileLoss::Lost), "one\n");
        assert_eq!(after(&file, FileLoss::Prefix(2)), "one\ntw");
        assert_eq!(after(&file, FileLoss::Holed(2)), "one\n\0\0o\n");
        assert_eq!(after(&file, FileLoss::Whole), "one\ntwo\n");
        file.sync();
        assert!(file.losses().is_empty());
    }

    #[test]
    fn a_cut_may_be_lost_too() {
        let mut file = SimFile::durable(b"abcdef");
        file.append(b"gh");
        file.truncate(3);
        file.append(b"X");
        assert_eq!(after(&file, FileLoss::Lost), "abcdef");
        assert_eq!(after(&file, FileLoss::Prefix(0)), "abc");
        assert_eq!(after(&file, FileLoss::Whole), "abcX");
    }

    #[test]
    fn after_a_failed_sync_the_next_one_proves_nothing() {
        let mut file = SimFile::default();
        file.append(b"x");
        file.fail_sync();
        file.sync();
        assert_eq!(after(&file, FileLoss::Lost), "");
        // A machine that was started anew knows nothing of it.
        let mut file = SimFile::durable(b"");
        file.fail_sync();
        let mut file = file.survive(FileLoss::Whole);
        file.append(b"x");
        file.sync();
        assert_eq!(after(&file, FileLoss::Lost), "x");
    }
}
