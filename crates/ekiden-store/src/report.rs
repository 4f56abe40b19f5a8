//! The report of a run, beside its log. Derived: the log can reproduce it at any time.

use crate::disk::{Disk, DiskResult};
use crate::layout::RunLayout;
use crate::replace::replace_at_once;

/// Replaces both forms of a report. A reader sees the old one or the new one. The engine of a run and
/// `ekiden report` may write at the same time: each has its own temporary file, and the last one counts.
pub fn write_report(
    disk: &dyn Disk,
    run: &RunLayout,
    markdown: &str,
    html: &str,
) -> DiskResult<()> {
    replace_at_once(disk, &run.report_markdown(), markdown.as_bytes())?;
    replace_at_once(disk, &run.report_html(), html.as_bytes())
}
