//! The report of a run, beside its log. Derived: it can be made anew from the log at any time.

use crate::disk::{Disk, DiskResult};
use crate::layout::RunLayout;
use crate::replace::replace_at_once;

/// Puts both forms of a report in place. Whoever reads sees the old one or the new one. The engine of a run and `ekiden
/// report` may write at the same time: each has its own temporary file, and the last one counts.
pub fn write_report(
    disk: &dyn Disk,
    run: &RunLayout,
    markdown: &str,
    html: &str,
) -> DiskResult<()> {
    replace_at_once(disk, &run.report_markdown(), markdown.as_bytes())?;
    replace_at_once(disk, &run.report_html(), html.as_bytes())
}
