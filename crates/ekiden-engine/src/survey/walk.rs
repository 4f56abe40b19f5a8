//! The work tree where there is no git: every file that no ignore rule names.
//!
//! A small file counts by its content, so that touching or writing it anew changes nothing; a large
//! one by its size and time. `.gitignore` and `.ignore` are obeyed as if git were there.
//!
//! The walk has bounds in files and bytes. Beyond them there is no survey: a fingerprint of a part would
//! say "nothing changed" of the rest.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use ekiden_core::event::Survey;
use ekiden_core::hash::sha256_hex;
use ekiden_core::limits;
use walkdir::{DirEntry, WalkDir};

use super::content::Content;
use super::rules::Ignored;
use crate::workspace::Workspace;

/// The most files that are looked at.
const FILES_MAX: usize = 20_000;
/// The most bytes that are read of all files together; the rest counts by size and time.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Directories in which other programs keep what is theirs.
const NOT_OURS: &[&str] = &[".git", ".hg", ".svn", ".jj", ".ekiden"];

/// Looks at the work tree. Dropped, the walk ends at the next file.
pub(super) async fn survey(workspace: Workspace) -> Result<Survey, String> {
    let stop = Stop(Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop.0);
    let walk = tokio::task::spawn_blocking(move || {
        Walk { dir: workspace.dir, without: workspace.state_dir, stopped }.look()
    });
    let limit = std::time::Duration::from_millis(limits::SURVEY_TIMEOUT.0);
    match tokio::time::timeout(limit, walk).await {
        Ok(Ok(survey)) => survey,
        Ok(Err(panic)) => Err(panic.to_string()),
        Err(_) => Err(format!("the work dir took longer than {} to look at", limits::SURVEY_TIMEOUT)),
    }
}

/// Ends the walk when nobody waits for it any more.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Walk {
    dir: PathBuf,
    without: PathBuf,
    stopped: Arc<AtomicBool>,
}

impl Walk {
    fn look(&self) -> Result<Survey, String> {
        let (mut tree, mut substance) = (String::new(), String::new());
        let (mut files, mut bytes) = (0, 0);
        for entry in self.entries() {
            // What vanishes meanwhile or may not be read is as good as absent.
            let Some((entry, metadata)) = entry.ok().and_then(seen) else { continue };
            files += 1;
            bytes += metadata.len();
            if files > FILES_MAX {
                return Err(format!(
                    "more than {FILES_MAX} files and no git; a .gitignore can leave some out"
                ));
            }
            let name = entry.path().strip_prefix(&self.dir).unwrap_or(entry.path()).display().to_string();
            let content = content(entry.path(), &metadata, bytes <= BYTES_MAX);
            let timeless = content.substance.as_ref().unwrap_or(&content.whole);
            substance.push_str(&format!("{name}\0{timeless}\n"));
            tree.push_str(&format!("{name}\0{}\n", content.whole));
        }
        if self.stopped.load(Ordering::Relaxed) {
            return Err("cancelled".to_owned());
        }
        let (tree, substance) = (sha256_hex(tree.as_bytes()), sha256_hex(substance.as_bytes()));
        let substance = (substance != tree).then_some(substance);
        Ok(Survey { tree, substance, ..Survey::default() })
    }

    fn entries(&self) -> impl Iterator<Item = walkdir::Result<DirEntry>> + '_ {
        let mut ignored = Ignored::default();
        let ours = move |entry: &DirEntry| {
            let name = entry.file_name().to_str().unwrap_or_default();
            let is_ours = entry.depth() == 0 || !NOT_OURS.contains(&name) && entry.path() != self.without;
            // Looked at here, since rules may leave out very much.
            is_ours && !self.stopped.load(Ordering::Relaxed) && !ignored.leaves_out(entry)
        };
        WalkDir::new(&self.dir).sort_by_file_name().into_iter().filter_entry(ours)
    }
}

/// A file or a link, with what is known of it.
fn seen(entry: DirEntry) -> Option<(DirEntry, Metadata)> {
    let metadata = entry.path().symlink_metadata().ok()?;
    (!metadata.is_dir()).then_some((entry, metadata))
}

fn content(path: &Path, metadata: &Metadata, may_read: bool) -> Content {
    let read = if may_read { Content::of(path) } else { Ok(None) };
    let unread = || Content { whole: described(path, metadata), substance: None };
    read.unwrap_or(None).unwrap_or_else(unread)
}

/// A link by where it leads, anything else by size and time.
fn described(path: &Path, metadata: &Metadata) -> String {
    if let Ok(target) = path.read_link() {
        return format!("-> {}", target.display());
    }
    let modified = metadata.modified().and_then(|at| at.duration_since(UNIX_EPOCH).map_err(io::Error::other));
    format!("{} bytes at {:?}", metadata.len(), modified.map(|at| at.as_nanos()).ok())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests make the project that is looked at")]

    use std::fs;

    use super::*;

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            let project = Self(tempfile::tempdir().unwrap());
            project.write("src/main.rs", "fn main() {}\n").write(".gitignore", "target/\n*.log\n")
        }

        fn write(self, name: &str, text: &str) -> Self {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn look(&self) -> Survey {
            let (dir, without) = (self.0.path().to_owned(), self.0.path().join("state"));
            Walk { dir, without, stopped: Arc::default() }.look().unwrap()
        }
    }

    // shows: REL-14
    #[test]
    fn another_content_name_or_file_is_another_tree() {
        let project = Project::new();
        let before = project.look();
        assert_eq!(project.look(), before);
        let project = project.write("src/main.rs", "fn main() { }\n");
        let after = project.look();
        assert_ne!(after.tree, before.tree);
        assert_ne!(project.write("new.txt", "").look().tree, after.tree);
    }

    // shows: REL-14
    #[test]
    fn writing_the_same_again_is_the_same_tree() {
        let project = Project::new();
        let before = project.look();
        let long_ago = UNIX_EPOCH + std::time::Duration::from_secs(1000);
        fs::File::open(project.0.path().join("src/main.rs")).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(project.look(), before);
    }

    // shows: REL-14
    #[test]
    fn what_ignore_rules_name_and_what_is_ekidens_or_gits_does_not_count() {
        let project = Project::new();
        let before = project.look();
        let project = project
            .write("target/debug/app", "x")
            .write("run.log", "x")
            .write(".ekiden/PROGRESS.md", "x")
            .write("state/log.jsonl", "x")
            .write("lib/.git/HEAD", "x");
        assert_eq!(project.look(), before);
        assert_ne!(project.write(".hidden", "x").look().tree, before.tree);
    }

    // shows: REL-14
    #[test]
    fn a_file_that_tells_the_time_has_the_same_substance() {
        let project = Project::new().write("LAST_RUN", "2026-11-21T10:00:00Z\n");
        let before = project.look();
        let after = project.write("LAST_RUN", "2026-11-21T11:30:00Z\n").look();
        assert_ne!(after.tree, before.tree);
        assert_eq!(after.substance(), before.substance());
    }

    #[test]
    fn a_large_file_counts_by_its_size_and_time() {
        let project = Project::new().write("data.bin", &"x".repeat(300 * 1024));
        let before = project.look();
        assert_ne!(project.write("data.bin", &"x".repeat(300 * 1024 + 1)).look().tree, before.tree);
    }

    #[test]
    fn a_walk_that_nobody_waits_for_ends() {
        let project = Project::new();
        let (dir, stopped) = (project.0.path().to_owned(), Arc::new(AtomicBool::new(true)));
        let walk = Walk { dir, without: PathBuf::from("/none"), stopped };
        assert_eq!(walk.look(), Err("cancelled".to_owned()));
    }
}
