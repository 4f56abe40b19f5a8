//! The limits on what is read and kept, each with the reason for its size.

use std::time::Duration;

/// How long a log's line may be. A record holds a run's whole manifest and task, or the texts of a handoff;
/// this is far above both and still fits in memory.
pub const LOG_LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How much is read of a small file of ours: a header, a status, a lock's holder.
pub const SMALL_FILE_BYTES_MAX: u64 = 256 * 1024;
/// How much is read about sessions on other machines: far above what ten thousand of them need.
pub const AT_WORK_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much is read of git's exclude file.
pub const EXCLUDE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much is kept of a session's event stream: far above a full window's, and low enough that a flood does not
/// fill the disk.
pub const STREAM_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How much is read of a watched session's log: some thousand times what one writes.
pub const GUARD_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The first pause between two checks of a lock that is still held.
pub const LOCK_PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause between two checks: a restart may wait this much longer than it needs to.
pub const LOCK_PAUSE_MAX: Duration = Duration::from_millis(50);
/// How long a process waits for a work dir that another process holds, before it is refused.
pub const HELD_PATIENCE: Duration = Duration::from_millis(500);
/// How long a refused process waits for the holder to write who it is.
pub const HOLDER_PATIENCE: Duration = Duration::from_millis(50);
/// How much is read of a handoff document: far above what one may have.
pub const DOCUMENT_BYTES_MAX: u64 = 64 * 1024;
/// How many documents one minute may have. Only a program out of control makes more.
pub const DOCUMENTS_A_MINUTE_MAX: u32 = 100;
/// How many of the newest documents by name are ordered by when they were made: a hook reads the mark of each.
/// Local times differ by a day or so.
pub const DOCUMENTS_ORDERED_MAX: usize = 100;
/// How much is read of a write that waits for a tracker: a handoff document with its frame.
pub const OUTBOX_FILE_BYTES_MAX: u64 = 256 * 1024;
