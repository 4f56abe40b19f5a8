//! The report of a run, beside its log. Derived: it can be made anew from the log at any time.

use std::path::Path;

use crate::disk::{Disk, DiskResult};
use crate::layout::RunLayout;
use crate::replace::{Durability, replace_by, temporary_of_process};

/// Puts both forms of a report in place. Whoever reads sees the old one or the new one. The engine of a run and `ekiden
/// report` may write at the same time: each has its own temporary file, and the last one counts.
pub fn write_report(
    disk: &dyn Disk,
    run: &RunLayout,
    markdown: &str,
    html: &str,
) -> DiskResult<()> {
    let write = |path: &Path, text: &str| {
        let temporary = temporary_of_process(path);
        replace_by(disk, &temporary, path, text.as_bytes(), Durability::Derived)
    };
    write(&run.report_markdown(), markdown)?;
    write(&run.report_html(), html)
}
