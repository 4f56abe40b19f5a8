//! Observations by their places in the truth.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use ekiden_core::observation::Observation;
use ekiden_store::memory::MemoryFiles;

/// A file's number in the upper bits, the byte where a line begins in the lower ones.
const AT_BITS: u32 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinePlace {
    pub(crate) segment: i64,
    pub(crate) at: u64,
    pub(crate) len: usize,
}

impl LinePlace {
    /// As one number, which takes few bytes in a database.
    pub(crate) fn packed(self) -> i64 {
        self.segment << AT_BITS | self.at.cast_signed()
    }

    pub(crate) fn unpacked(packed: i64, len: usize) -> Self {
        Self {
            segment: packed >> AT_BITS,
            at: (packed & ((1 << AT_BITS) - 1)).cast_unsigned(),
            len,
        }
    }
}

/// The files of the truth, each opened when it is first needed.
#[derive(Debug)]
pub(crate) struct Texts {
    files: MemoryFiles,
    names: HashMap<i64, String>,
    open: HashMap<i64, File>,
    buffer: Vec<u8>,
}

impl Texts {
    pub(crate) fn new(files: MemoryFiles) -> Self {
        Self {
            files,
            names: HashMap::new(),
            open: HashMap::new(),
            buffer: Vec::new(),
        }
    }

    pub(crate) fn name(&mut self, segment: i64, name: &str) {
        self.names.insert(segment, name.to_owned());
    }

    pub(crate) fn name_of(&self, segment: i64) -> Option<&str> {
        self.names.get(&segment).map(String::as_str)
    }

    /// The bytes of a line; `None` if the file is gone or shorter.
    pub(crate) fn line(&mut self, place: LinePlace) -> Option<&[u8]> {
        let file = match self.open.entry(place.segment) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let path = self.files.path(self.names.get(&place.segment)?);
                entry.insert(File::open(path).ok()?)
            }
        };
        self.buffer.resize(place.len, 0);
        file.read_exact_at(&mut self.buffer, place.at).ok()?;
        Some(&self.buffer)
    }

    /// An observation; `None` if it has been forgotten in the meantime.
    pub(crate) fn observation(&mut self, place: LinePlace) -> Option<Observation> {
        serde_json::from_slice(self.line(place)?).ok()
    }
}
