//! Why the memory does not answer.

use ekiden_store::disk::DiskError;
use rusqlite::ErrorCode;

/// Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("use the index of the memory")]
    Index(#[from] rusqlite::Error),
    #[error("find observation `{0}`: there is none in the memory")]
    Unknown(String),
    #[error("choose between {count} observations that begin with `{prefix}`")]
    Ambiguous { prefix: String, count: usize },
    #[error("write the index of the memory: another process has been at it for too long")]
    Busy,
}

impl MemoryError {
    /// The database has to be set aside and rebuilt.
    pub(crate) fn is_damage(&self) -> bool {
        let Self::Index(error) = self else {
            return false;
        };
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        )
    }

    /// The disk is full, read-only, or fails.
    pub fn takes_nothing(&self) -> bool {
        let Self::Index(error) = self else {
            return matches!(self, Self::Disk(_));
        };
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::ReadOnly
                    | ErrorCode::CannotOpen
                    | ErrorCode::SystemIoFailure
            )
        )
    }
}
