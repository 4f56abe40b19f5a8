//! The report of a run, beside its log. Derived: the log can reproduce it at any time.

use std::path::Path;

use crate::disk::{Disk, DiskResult};
use crate::replace::replace_at_once;

/// Replaces both forms of a report. A reader sees the old one or the new one. The engine of a run and
/// `ekiden report` may write at the same time: each has its own temporary file, and the last one counts.
pub fn write_report(
    disk: &dyn Disk,
    (markdown_path, markdown): (&Path, &str),
    (html_path, html): (&Path, &str),
) -> DiskResult<()> {
    replace_at_once(disk, markdown_path, markdown.as_bytes())?;
    replace_at_once(disk, html_path, html.as_bytes())
}
