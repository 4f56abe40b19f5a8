//! Opens the paths that a project names, and never leaves the project to do so (SEC-09).
//!
//! A project, its plans and its settings may come from a stranger, with links among their files. Each part of a
//! path is opened separately, relative to the directory before it, and never through a link; the parts of a
//! link's target replace the link. `..` returns to a directory that is still open. So nobody can slip a link in
//! between a check and the use, and this needs no help from the kernel.
//!
//! The project is the repository that contains the directory, or else the directory itself: a link from one
//! part of a repository to another is the project's own business. No path may name git's own files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

#[derive(Debug)]
pub struct Found {
    pub file: File,
    /// Where it is, with links resolved.
    pub path: PathBuf,
}

/// A name cannot be followed. Reads well after the name.
#[derive(Debug, thiserror::Error)]
pub enum NotInside {
    #[error("leads out of the project, to {}", to.display())]
    LeadsOut { to: PathBuf },
    #[error("leads to {}, which belongs to git", to.display())]
    OfGit { to: PathBuf },
    #[error("is a link that leads back to itself")]
    Circle,
    #[error("does not exist")]
    Absent,
    #[error("is not a file")]
    NotAFile,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl NotInside {
    /// It is refused, rather than missing or broken.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::LeadsOut { .. } | Self::OfGit { .. } => true,
            Self::Circle | Self::Absent | Self::NotAFile | Self::Io(_) => false,
        }
    }
}

/// Opens the file or directory that `name` refers to in `dir`. Does not wait for a pipe.
pub fn open(dir: &Path, name: &Path) -> Result<Found, NotInside> {
    let dir = dir.canonicalize()?;
    let top = top_of(&dir);
    let walk = Walk {
        top,
        root: open_at(rustix::fs::CWD, top.as_os_str(), OFlags::DIRECTORY)?,
        inside: Vec::new(),
        links: 0,
    };
    let within = dir.strip_prefix(top).unwrap_or(Path::new(""));
    walk.follow(&within.join(name))
}

/// Opens the regular file that `name` refers to in `dir`.
pub fn open_file(dir: &Path, name: &Path) -> Result<Found, NotInside> {
    let found = open(dir, name)?;
    match found.file.metadata()?.is_file() {
        true => Ok(found),
        false => Err(NotInside::NotAFile),
    }
}

/// The top of the repository that a directory is in, or the directory itself.
fn top_of(dir: &Path) -> &Path {
    let mut above = dir.ancestors();
    above
        .find(|above| above.join(".git").symlink_metadata().is_ok())
        .unwrap_or(dir)
}

struct Walk<'a> {
    top: &'a Path,
    root: OwnedFd,
    /// The open directories below the top, each in the one before; the last may be a file.
    inside: Vec<(OsString, OwnedFd)>,
    links: usize,
}

impl Walk<'_> {
    fn follow(mut self, path: &Path) -> Result<Found, NotInside> {
        let mut left = parts(path);
        while let Some(part) = left.pop() {
            if part == ".." {
                if self.inside.pop().is_none() {
                    return Err(self.leads_out(Path::new(".."), &left));
                }
                continue;
            }
            if part.eq_ignore_ascii_case(".git") {
                let to = self.here().join(part);
                return Err(NotInside::OfGit { to });
            }
            match rustix::fs::readlinkat(self.handle(), &part, Vec::new()) {
                Ok(target) => {
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    self.link(&target, &mut left)?;
                }
                // It is not a link.
                Err(Errno::INVAL) => {
                    let is_last = left.is_empty();
                    let kind = if is_last {
                        OFlags::empty()
                    } else {
                        OFlags::DIRECTORY
                    };
                    let next = open_at(self.handle(), &part, kind)?;
                    self.inside.push((part, next));
                }
                Err(errno) => return Err(of_errno(errno)),
            }
        }
        let path = self.here();
        let handle = self.inside.pop().map_or(self.root, |(_, handle)| handle);
        Ok(Found {
            file: handle.into(),
            path,
        })
    }

    /// Puts the parts of a link's target before the remaining ones.
    fn link(&mut self, target: &Path, left: &mut Vec<OsString>) -> Result<(), NotInside> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(NotInside::Circle);
        }
        let within = if target.is_absolute() {
            let resolved = || fs::canonicalize(target).ok();
            let within = target.strip_prefix(self.top).map(Path::to_owned).ok();
            let within =
                within.or_else(|| Some(resolved()?.strip_prefix(self.top).ok()?.to_owned()));
            let Some(within) = within else {
                return Err(self.leads_out(target, left));
            };
            self.inside.clear();
            within
        } else {
            target.to_owned()
        };
        left.extend(parts(&within));
        Ok(())
    }

    fn handle(&self) -> BorrowedFd<'_> {
        let last = self.inside.last();
        last.map_or(self.root.as_fd(), |(_, handle)| handle.as_fd())
    }

    fn here(&self) -> PathBuf {
        let names = self.inside.iter().map(|(name, _)| name.as_os_str());
        names.fold(self.top.to_owned(), |path, name| path.join(name))
    }

    /// Where the rest of a path would lead, by its text.
    fn leads_out(&self, next: &Path, left: &[OsString]) -> NotInside {
        let rest: PathBuf = left.iter().rev().collect();
        let mut to = PathBuf::new();
        for part in self.here().join(next).join(rest).components() {
            match part {
                Component::ParentDir => {
                    to.pop();
                }
                Component::CurDir => {}
                Component::Normal(_) | Component::RootDir | Component::Prefix(_) => to.push(part),
            }
        }
        NotInside::LeadsOut { to }
    }
}

/// The parts of a path, the last one first. An absolute path starts from the top.
fn parts(path: &Path) -> Vec<OsString> {
    let named = path.components().rev().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    named.collect()
}

fn open_at(dir: BorrowedFd<'_>, name: &OsStr, kind: OFlags) -> Result<OwnedFd, NotInside> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags | kind, Mode::empty()).map_err(of_errno)
}

fn of_errno(errno: Errno) -> NotInside {
    match io::Error::from(errno) {
        error if error.kind() == io::ErrorKind::NotFound => NotInside::Absent,
        error if error.kind() == io::ErrorKind::NotADirectory => NotInside::Absent,
        error => NotInside::Io(error),
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test lays out the files that are read"
)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A secret beside a project that has a directory for work.
    fn project() -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("project/.git")).unwrap();
        fs::create_dir_all(top.join("project/apps/web/src")).unwrap();
        fs::write(top.join("secret"), "outside").unwrap();
        fs::write(top.join("project/.git/config"), "token").unwrap();
        fs::write(top.join("project/shared.md"), "shared").unwrap();
        fs::write(top.join("project/apps/web/src/a.md"), "a").unwrap();
        (temp, top)
    }

    fn said(dir: &Path, name: &str) -> String {
        match open_file(dir, Path::new(name)) {
            Err(error) => error.to_string(),
            Ok(mut found) => {
                let mut text = String::new();
                found.file.read_to_string(&mut text).unwrap();
                text
            }
        }
    }

    // shows: SEC-09
    #[test]
    fn no_link_leads_out_and_those_within_are_followed() {
        let (_temp, top) = project();
        let web = top.join("project/apps/web");
        for (link, target) in [
            ("out", "../../../secret"),
            ("up", "../../.."),
            ("etc", "/etc"),
            ("chain", "up"),
            ("absolute", top.join("project/shared.md").to_str().unwrap()),
            ("beside", "../../shared.md"),
            ("src/deep", "../src/../src"),
            ("round", "round"),
            ("config", "../../.git/config"),
            ("nowhere", "gone"),
        ] {
            symlink(target, web.join(link)).unwrap();
        }
        let out = |to: &Path| format!("leads out of the project, to {}", to.display());
        for (name, expected) in [
            ("src/a.md", "a".to_owned()),
            ("./src//../src/a.md", "a".to_owned()),
            ("absolute", "shared".to_owned()),
            ("beside", "shared".to_owned()),
            ("src/deep/a.md", "a".to_owned()),
            ("out", out(&top.join("secret"))),
            ("up/secret", out(&top.join("secret"))),
            ("chain/secret", out(&top.join("secret"))),
            ("../../../secret", out(&top.join("secret"))),
            ("etc/passwd", out(Path::new("/etc/passwd"))),
            ("etc", out(Path::new("/etc"))),
            ("round", "is a link that leads back to itself".to_owned()),
            ("nowhere", "does not exist".to_owned()),
            ("src/a.md/b", "does not exist".to_owned()),
            ("src", "is not a file".to_owned()),
        ] {
            assert_eq!(said(&web, name), expected, "{name}");
        }
        for name in ["config", "../../.git/config", "../../.GIT/config"] {
            assert!(said(&web, name).ends_with("which belongs to git"), "{name}");
        }
        let found = open(&web, Path::new("src/deep")).unwrap();
        assert_eq!(found.path, web.join("src"));
    }

    // shows: SEC-09
    #[test]
    fn without_a_repository_the_directory_is_the_project() {
        let (_temp, top) = project();
        fs::remove_dir_all(top.join("project/.git")).unwrap();
        let web = top.join("project/apps/web");
        symlink("../../shared.md", web.join("beside")).unwrap();
        assert_eq!(
            said(&web, "beside"),
            format!(
                "leads out of the project, to {}",
                top.join("project/shared.md").display()
            )
        );
    }

    // shows: SEC-09
    #[test]
    fn a_pipe_is_no_file_and_is_not_waited_for() {
        let (_temp, top) = project();
        rustix::fs::mkfifoat(rustix::fs::CWD, top.join("project/pipe"), Mode::RUSR).unwrap();
        assert_eq!(said(&top.join("project"), "pipe"), "is not a file");
    }
}
