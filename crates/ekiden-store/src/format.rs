//! Versions of the files, and what a program may do with a file of another version.
//!
//! | the file is | read | write |
//! |---|---|---|
//! | of our version or older | yes | yes |
//! | newer, and says that our version can read it | yes | no |
//! | newer otherwise | no | no |
//! | not ours, or without a version | no | no |
//!
//! An old program must not write to a newer file even if it can read it: it would drop what it does not know. A
//! new version says in `readable_from` which versions can read it. So the newer program, which knows both
//! formats, makes the decision.
//!
//! Until the first release formats change without a new version, and kept logs are converted.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{FileFault, StoreError};

/// A kind of file, and the version that this program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The name that the file carries.
    pub name: &'static str,
    /// The newest version that this program knows.
    pub version: u32,
}

pub const LOG: Format = Format {
    name: "ekiden-log",
    version: 1,
};
/// The layout of the state directory.
pub const STATE: Format = Format {
    name: "ekiden-state",
    version: 1,
};
pub const STATUS: Format = Format {
    name: "ekiden-status",
    version: 1,
};

/// The receipt of `ekiden setup`.
pub const RECEIPT: Format = Format {
    name: "ekiden-setup",
    version: 1,
};

/// What a file says about its format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format: String,
    pub version: u32,
    /// The oldest version whose programs can read it; its own version if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readable_from: Option<u32>,
}

/// What a program may do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    /// It is newer: look, but do not touch.
    ReadOnly,
}

impl Format {
    /// The header that this program writes.
    pub fn header(self) -> Header {
        Header {
            format: self.name.to_owned(),
            version: self.version,
            readable_from: None,
        }
    }

    /// The header as one line of JSON.
    pub fn line(self) -> String {
        format!(
            "{{\"format\":\"{}\",\"version\":{}}}\n",
            self.name, self.version
        )
    }

    /// What this program may do with a file that begins with this line.
    pub fn check_line(self, path: &Path, line: &[u8]) -> Result<Access, StoreError> {
        match serde_json::from_slice(line) {
            Ok(header) => self.check(path, &header),
            Err(_) => Err(self.not_ours(path)),
        }
    }

    /// What this program may do with a file that has this header.
    pub fn check(self, path: &Path, header: &Header) -> Result<Access, StoreError> {
        if header.format != self.name {
            return Err(self.not_ours(path));
        }
        if header.version <= self.version {
            return Ok(Access::ReadWrite);
        }
        if header.readable_from.unwrap_or(header.version) <= self.version {
            return Ok(Access::ReadOnly);
        }
        let (found, known) = (header.version, self.version);
        let fault = FileFault::TooNew { found, known };
        Err(StoreError::file("read", path, fault))
    }

    /// The file is another program's, or has lost its header.
    pub fn not_ours(self, path: &Path) -> StoreError {
        let expected = self.name;
        StoreError::file("read", path, FileFault::NotOurs { expected })
    }
}

impl Access {
    /// An error unless writing is allowed.
    pub fn to_write(self, path: &Path) -> Result<(), StoreError> {
        match self {
            Self::ReadWrite => Ok(()),
            Self::ReadOnly => Err(StoreError::file("write to", path, FileFault::ReadOnly)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Format = Format {
        name: "ekiden-log",
        version: 3,
    };

    fn check(line: &str) -> Result<Access, StoreError> {
        THREE.check_line(Path::new("/log"), line.as_bytes())
    }

    #[test]
    fn our_own_header_is_what_we_write() {
        assert_eq!(
            serde_json::to_string(&LOG.header()).unwrap() + "\n",
            LOG.line()
        );
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
        assert!(matches!(
            access.to_write(Path::new("/log")),
            Err(StoreError::File {
                source: FileFault::ReadOnly,
                ..
            })
        ));
        for newer in [
            r#"{"format":"ekiden-log","version":4}"#,
            r#"{"format":"ekiden-log","version":5,"readable_from":4}"#,
        ] {
            assert!(
                matches!(
                    check(newer),
                    Err(StoreError::File {
                        source: FileFault::TooNew { known: 3, .. },
                        ..
                    })
                ),
                "{newer}"
            );
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for foreign in [
            "",
            "{}",
            "{\"seq\":1}",
            "\0\0\0\0",
            r#"{"format":"ekiden-state","version":1}"#,
        ] {
            assert!(
                matches!(
                    check(foreign),
                    Err(StoreError::File {
                        source: FileFault::NotOurs { .. },
                        ..
                    })
                ),
                "{foreign}"
            );
        }
    }
}
