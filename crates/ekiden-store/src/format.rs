//! Versions of the files, and what a program may do with a file of another version.
//!
//! | the file is | read | write |
//! |---|---|---|
//! | of our version or older | yes | yes |
//! | newer, and says that our version can read it | yes | no |
//! | newer otherwise | no | no |
//! | not ours, or without a version | no | no |
//!
//! An old program must not write into a newer file even if it can read it: it would leave out what
//! it does not know. A new version says in `readable_from` from which version on programs can read
//! it, so the decision is the newer program's, which knows both.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A kind of file and the version that this program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The name that the file carries.
    pub name: &'static str,
    /// The newest version that this program knows.
    pub version: u32,
}

/// The log of a run.
pub const LOG: Format = Format { name: "ekiden-log", version: 1 };
/// The layout of the state directory.
pub const STATE: Format = Format { name: "ekiden-state", version: 1 };
/// `status.json`.
pub const STATUS: Format = Format { name: "ekiden-status", version: 1 };

/// The receipt of `ekiden setup`.
pub const RECEIPT: Format = Format { name: "ekiden-setup", version: 1 };

/// What a file says of its format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Which kind of file it is.
    pub format: String,
    /// Its version.
    pub version: u32,
    /// The oldest version whose programs can read it; its own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readable_from: Option<u32>,
}

/// What may be done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// It is newer: look, but do not touch.
    ReadOnly,
}

/// A file's format does not allow what was wanted. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It is something else.
    #[error("use `{}`: it is not an `{expected}` file", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
    },
    /// It is too new to be read.
    #[error("read `{}`: it has version {found}, this program knows up to {known}", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// It is too new to be written.
    #[error("write to `{}`: it belongs to a newer ekiden", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
}

impl FormatError {
    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOurs { .. } => "nothing was changed; move the file away if it is not yours",
            Self::TooNew { .. } | Self::ReadOnly { .. } => "nothing was changed; use the newer ekiden",
        }
    }
}

impl Format {
    /// The header that this program writes.
    #[must_use]
    pub fn header(self) -> Header {
        Header { format: self.name.to_owned(), version: self.version, readable_from: None }
    }

    /// The header as one line of JSON.
    #[must_use]
    pub fn line(self) -> String {
        format!("{{\"format\":\"{}\",\"version\":{}}}\n", self.name, self.version)
    }

    /// What may be done with a file that begins with this line.
    pub fn check_line(self, path: &Path, line: &[u8]) -> Result<Access, FormatError> {
        let header: Header = serde_json::from_slice(line)
            .map_err(|_| FormatError::NotOurs { path: path.to_owned(), expected: self.name })?;
        self.check(path, &header)
    }

    /// What may be done with a file of this header.
    pub fn check(self, path: &Path, header: &Header) -> Result<Access, FormatError> {
        if header.format != self.name {
            return Err(FormatError::NotOurs { path: path.to_owned(), expected: self.name });
        }
        if header.version <= self.version {
            return Ok(Access::ReadWrite);
        }
        if header.readable_from.unwrap_or(header.version) <= self.version {
            return Ok(Access::ReadOnly);
        }
        Err(FormatError::TooNew { path: path.to_owned(), found: header.version, known: self.version })
    }
}

impl Access {
    /// An error unless writing is allowed.
    pub fn to_write(self, path: &Path) -> Result<(), FormatError> {
        match self {
            Self::ReadWrite => Ok(()),
            Self::ReadOnly => Err(FormatError::ReadOnly { path: path.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Format = Format { name: "ekiden-log", version: 3 };

    fn check(line: &str) -> Result<Access, FormatError> {
        THREE.check_line(Path::new("/log"), line.as_bytes())
    }

    #[test]
    fn our_own_header_is_what_we_write() {
        assert_eq!(serde_json::to_string(&LOG.header()).unwrap() + "\n", LOG.line());
        assert!(matches!(check(&THREE.line()), Ok(Access::ReadWrite)));
    }

    // shows: DUR-05
    #[test]
    fn newer_files_are_read_where_they_allow_it_and_never_written() {
        let older = r#"{"format":"ekiden-log","version":1}"#;
        assert!(matches!(check(older), Ok(Access::ReadWrite)));
        let compatible = r#"{"format":"ekiden-log","version":5,"readable_from":3,"more":true}"#;
        let access = check(compatible).unwrap();
        assert_eq!(access, Access::ReadOnly);
        assert!(matches!(access.to_write(Path::new("/log")), Err(FormatError::ReadOnly { .. })));
        for newer in [
            r#"{"format":"ekiden-log","version":4}"#,
            r#"{"format":"ekiden-log","version":5,"readable_from":4}"#,
        ] {
            assert!(matches!(check(newer), Err(FormatError::TooNew { known: 3, .. })), "{newer}");
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for foreign in ["", "{}", "{\"seq\":1}", "\0\0\0\0", r#"{"format":"ekiden-state","version":1}"#] {
            assert!(matches!(check(foreign), Err(FormatError::NotOurs { .. })), "{foreign}");
        }
    }
}
