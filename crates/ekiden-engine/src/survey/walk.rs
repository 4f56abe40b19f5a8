//! The work tree without git: every file that no ignore rule names.
//!
//! A small file counts by its content, so touching it or rewriting the same content changes nothing. A large file
//! counts by its size and time. `.gitignore` and `.ignore` work as they do in git.
//!
//! The walk is bounded in files and bytes. A larger work tree gets no survey: the fingerprint of a part would
//! claim that the rest has not changed.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use ekiden_core::event::Survey;
use ekiden_core::hash::sha256_hex;
use ekiden_core::limits;
use ignore::{DirEntry, WalkBuilder};

use super::content::Content;
use super::{OwnOutput, Since};
use crate::workspace::Workspace;

/// How many files the walk looks at.
const FILES_MAX: usize = 20_000;
/// How many bytes of all files together are read; the rest counts by size and time.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Directories in which other programs keep their files.
const NOT_OURS: &[&str] = &[".git", ".hg", ".svn", ".jj", ".ekiden"];
/// The files that hold ignore rules. Reading one that is a pipe or a device would never end, and reading a huge
/// one would take far too long.
const RULE_FILES: [&str; 2] = [".gitignore", ".ignore"];
const RULE_BYTES_MAX: u64 = 256 * 1024;

/// Looks at the work tree. If dropped, the walk ends at the next file.
pub(super) async fn survey(workspace: Workspace, since: &Since) -> Result<Survey, String> {
    let issue = since.issue.as_ref().map(|file| workspace.dir.join(file));
    let stop = Stop(Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop.0);
    let walk = tokio::task::spawn_blocking(move || {
        Walk {
            dir: workspace.dir,
            without: [workspace.state_dir].into_iter().chain(issue).collect(),
            stopped,
        }
        .look()
    });
    let limit = std::time::Duration::from_millis(limits::SURVEY_TIMEOUT.0);
    match tokio::time::timeout(limit, walk).await {
        Ok(Ok(survey)) => survey,
        Ok(Err(panic)) => Err(panic.to_string()),
        Err(_) => Err(format!(
            "the work dir took longer than {} to look at",
            limits::SURVEY_TIMEOUT
        )),
    }
}

/// Cancels the walk when its result is no longer wanted.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Walk {
    dir: PathBuf,
    /// The state directory and the file of the run's issue, which may be in the work dir.
    without: Vec<PathBuf>,
    stopped: Arc<AtomicBool>,
}

impl Walk {
    fn look(&self) -> Result<Survey, String> {
        let (mut tree, mut substance) = (String::new(), String::new());
        let (mut files, mut bytes) = (0, 0);
        let odd = Arc::new(OnceLock::new());
        // The walker does not ask about the directory that it starts in.
        if let Some(file) = odd_rules(&self.dir) {
            return Err(refused(&file));
        }
        for entry in self.entries(Arc::clone(&odd)) {
            // Files that vanish meanwhile or may not be read count as absent.
            let Some((path, metadata)) = entry.ok().and_then(file) else {
                continue;
            };
            files += 1;
            bytes += metadata.len();
            if files > FILES_MAX {
                return Err(format!(
                    "more than {FILES_MAX} files and no git; a .gitignore can leave some out"
                ));
            }
            let name = path.strip_prefix(&self.dir).unwrap_or(&path).display();
            let content = content(&path, &metadata, bytes <= BYTES_MAX);
            let timeless = content.substance.as_ref().unwrap_or(&content.whole);
            substance.push_str(&format!("{name}\0{timeless}\n"));
            tree.push_str(&format!("{name}\0{}\n", content.whole));
        }
        if self.stopped.load(Ordering::Relaxed) {
            return Err("cancelled".to_owned());
        }
        if let Some(file) = odd.get() {
            return Err(refused(file));
        }
        let (tree, substance) = (
            sha256_hex(tree.as_bytes()),
            sha256_hex(substance.as_bytes()),
        );
        let substance = (substance != tree).then_some(substance);
        Ok(Survey {
            tree,
            substance,
            ..Survey::default()
        })
    }

    /// Every file that the project's own ignore rules leave in, in order. Rules outside the work dir do not
    /// count, so that the same files have the same fingerprint for everybody. `odd` receives a rules file that
    /// cannot be read; the walk ends there.
    fn entries(&self, odd: Arc<OnceLock<PathBuf>>) -> ignore::Walk {
        let (without, stopped) = (self.without.clone(), Arc::clone(&self.stopped));
        let own = OwnOutput::find();
        let is_odd = move |dir: &Path| {
            if let Some(file) = odd_rules(dir) {
                let _ = odd.set(file);
            }
            odd.get().is_some()
        };
        WalkBuilder::new(&self.dir)
            .standard_filters(false)
            .ignore(true)
            .git_ignore(true)
            .require_git(false)
            .sort_by_file_name(std::ffi::OsStr::cmp)
            .filter_entry(move |entry| {
                let name = entry.file_name().to_str().unwrap_or_default();
                // Checked here too, since rules may leave out very much.
                !stopped.load(Ordering::Relaxed)
                    && !NOT_OURS.contains(&name)
                    && !without.iter().any(|own| entry.path() == own)
                    && !own.is(entry.path())
                    && !is_odd(entry.path())
            })
            .build()
    }
}

/// A file of ignore rules in this directory that must not be read.
fn odd_rules(dir: &Path) -> Option<PathBuf> {
    let mut files = RULE_FILES.map(|name| dir.join(name)).into_iter();
    files.find(|file| {
        file.metadata()
            .is_ok_and(|found| !found.is_file() || found.len() > RULE_BYTES_MAX)
    })
}

fn refused(file: &Path) -> String {
    format!(
        "{} is not a regular file of at most 256 KiB",
        file.display()
    )
}

/// A file or a link, with what is known of it.
fn file(entry: DirEntry) -> Option<(PathBuf, Metadata)> {
    let metadata = entry.path().symlink_metadata().ok()?;
    (!metadata.is_dir()).then(|| (entry.into_path(), metadata))
}

fn content(path: &Path, metadata: &Metadata, may_read: bool) -> Content {
    let read = if may_read {
        Content::of(path)
    } else {
        Ok(None)
    };
    let unread = || Content {
        whole: described(path, metadata),
        substance: None,
    };
    read.unwrap_or(None).unwrap_or_else(unread)
}

/// A link by its target, anything else by size and time.
fn described(path: &Path, metadata: &Metadata) -> String {
    if let Ok(target) = path.read_link() {
        return format!("-> {}", target.display());
    }
    let modified = metadata
        .modified()
        .and_then(|at| at.duration_since(UNIX_EPOCH).map_err(io::Error::other));
    format!(
        "{} bytes at {:?}",
        metadata.len(),
        modified.map(|at| at.as_nanos()).ok()
    )
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "tests make the project that is looked at, and ask git"
    )]

    use std::fs;

    use super::*;

    struct Project(tempfile::TempDir);

    impl Project {
        fn new() -> Self {
            let project = Self(tempfile::tempdir().unwrap());
            project
                .write("src/main.rs", "fn main() {}\n")
                .write(".gitignore", "target/\n*.log\n")
        }

        fn write(self, name: &str, text: &str) -> Self {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn look(&self) -> Survey {
            let (dir, without) = (self.0.path().to_owned(), self.0.path().join("state"));
            Walk {
                dir,
                without: vec![without],
                stopped: Arc::default(),
            }
            .look()
            .unwrap()
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
        fs::File::open(project.0.path().join("src/main.rs"))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
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
        assert_ne!(
            project
                .write("data.bin", &"x".repeat(300 * 1024 + 1))
                .look()
                .tree,
            before.tree
        );
    }

    #[test]
    fn a_walk_that_nobody_waits_for_ends() {
        let project = Project::new();
        let (dir, stopped) = (project.0.path().to_owned(), Arc::new(AtomicBool::new(true)));
        let walk = Walk {
            dir,
            without: Vec::new(),
            stopped,
        };
        assert_eq!(walk.look(), Err("cancelled".to_owned()));
    }

    fn files_left(dir: &Path) -> Vec<String> {
        let walk = Walk {
            dir: dir.to_owned(),
            without: Vec::new(),
            stopped: Arc::default(),
        };
        let files = walk.entries(Arc::default()).flatten().filter_map(file);
        let mut names: Vec<_> = files
            .map(|(path, _)| path.strip_prefix(dir).unwrap().display().to_string())
            .collect();
        names.sort();
        names
    }

    fn files_left_by_git(dir: &Path) -> Vec<String> {
        let git = |words: &str| {
            let mut command = std::process::Command::new("git");
            command
                .current_dir(dir)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .args(words.split(' '));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        git("init --quiet");
        let found = git("ls-files -z --others --exclude-standard");
        let mut names: Vec<_> = found.split_terminator('\0').map(str::to_owned).collect();
        names.sort();
        names
    }

    /// A project with rules at its top and in `d/`.
    fn with_rules(top: &str, below: &str) -> Project {
        let places = [
            "a", "b", "ab", "a.b", "#a", "!b", "d/a", "d/b", "d/e/a", "d/e/b", "e/d/a", "d/d/e",
        ];
        places
            .iter()
            .fold(Project(tempfile::tempdir().unwrap()), |project, place| {
                project.write(place, "")
            })
            .write(".gitignore", top)
            .write("d/.gitignore", below)
    }

    // shows: REL-14
    #[test]
    fn rules_mean_what_they_mean_to_git() {
        for (top, below) in [
            ("a\n", "!a\n"),
            ("/a\nd/e/\n", "!e/\n"),
            ("*\n!d/\n!d/e/\n!b\n", "a\n"),
            ("d/**\n!d/e\n", ""),
            ("**/e/a\n\\#a\n\\!b\n# b\n", ""),
            ("a  \r\nab\\ \n", "b/\n[!b]\n"),
            ("d/*/a\n", "**/b\n"),
            ("\u{feff}a\n", "![a-b]\n"),
            ("a\\\\  \n", "\\a \n"),
        ] {
            let project = with_rules(top, below);
            let dir = project.0.path();
            assert_eq!(files_left(dir), files_left_by_git(dir), "{top:?} {below:?}");
        }
    }

    #[test]
    fn an_ignore_file_counts_before_gits() {
        let project = with_rules("a\nb\n", "").write(".ignore", "!a\n");
        let left = files_left(project.0.path());
        assert!(
            left.contains(&"a".to_owned()) && !left.contains(&"b".to_owned()),
            "{left:?}"
        );
    }

    // shows: REL-14
    #[test]
    fn an_ignore_file_that_would_be_read_without_end_is_an_error() {
        let look = |project: &Project| {
            let walk = Walk {
                dir: project.0.path().to_owned(),
                without: Vec::new(),
                stopped: Arc::default(),
            };
            walk.look().unwrap_err()
        };
        let project = with_rules("a\n", "");
        std::os::unix::fs::symlink("/dev/zero", project.0.path().join("d/.ignore")).unwrap();
        assert!(look(&project).contains("d/.ignore is not a regular file"));
        let project = with_rules("a\n", "");
        let top = project.0.path().join(".gitignore");
        fs::remove_file(&top).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &top, rustix::fs::Mode::RWXU).unwrap();
        assert!(look(&project).contains(".gitignore is not a regular file"));
    }
}
