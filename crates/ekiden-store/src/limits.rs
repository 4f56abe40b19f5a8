//! The limits of what is read and kept, each with the reason for its size.

use std::time::Duration;

/// The most that a log's line may have. A record holds a run's whole manifest and task, or the texts
/// of a handoff; this is far above both and still fits in memory.
pub const LOG_LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most that is read of a small file of ours: a header, a status, a lock's holder.
pub const SMALL_FILE_BYTES_MAX: u64 = 256 * 1024;
/// The most that is read of what sessions on other machines do: far above ten thousand of them.
pub const AT_WORK_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The most that is read of git's exclude file.
pub const EXCLUDE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The most that is kept of a session's event stream: far above a full window's, and a flood does not
/// fill the disk.
pub const STREAM_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most that is read of a watched session's log: some thousand times what one writes.
pub const GUARD_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The first pause between two looks at a lock that is still held.
pub const LOCK_PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause between two looks: what a restart may wait too long.
pub const LOCK_PAUSE_MAX: Duration = Duration::from_millis(50);
/// How long who wants to work waits for a work dir that another process holds, before it is refused.
pub const HELD_PATIENCE: Duration = Duration::from_millis(500);
/// How long a refused process waits for the holder to have written who it is.
pub const HOLDER_PATIENCE: Duration = Duration::from_millis(50);
/// The most that is read of a handoff document: far above what one may have.
pub const DOCUMENT_BYTES_MAX: u64 = 64 * 1024;
/// Documents of one minute. More are a program that runs wild.
pub const DOCUMENTS_A_MINUTE_MAX: u32 = 100;
/// The newest documents by name, which are ordered by when they were made: a hook reads the mark of each. Local times
/// differ by a day or so.
pub const DOCUMENTS_ORDERED_MAX: usize = 100;
/// The most that is read of a write that waits for a tracker: a handoff document with its frame.
pub const OUTBOX_FILE_BYTES_MAX: u64 = 256 * 1024;
