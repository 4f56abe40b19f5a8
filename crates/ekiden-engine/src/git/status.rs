//! The one reader of `git status`.
//!
//! Surveys, commits, snapshots and merges all look at the work tree through it. It takes no lock and writes nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Git, GitError};

const STATUS: &str = "--no-optional-locks status --porcelain=v2 -z --branch --show-stash --no-ahead-behind \
                      --no-renames --ignore-submodules=none";
/// Ekiden's own files, wherever in the repository they are.
const EXCLUDE_OURS: &str = ":(exclude,top,glob)**/.ekiden/**";
/// Fields of an entry after its kind; the last one is the path.
const FIELDS_CHANGED: usize = 8;
const FIELDS_UNMERGED: usize = 10;

/// What git leaves in its directory during an operation, and the operation's name. No commit concludes
/// these. They come first, since a rebase also leaves traces of others.
pub(crate) const MOVING_HEAD: [(&str, &str); 3] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("BISECT_LOG", "a bisect"),
];
/// A commit concludes these.
const COMMITTING: [(&str, &str); 3] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
];

/// Which part of the repository to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The directory in which git runs.
    Dir,
    Repository,
    /// The same with ekiden's own directories: a project may keep `.ekiden/config.toml` in git.
    Everything,
    /// The same, with each untracked directory as one entry: for callers that only look.
    RepositoryInShort,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// The last commit's id; none before the first.
    pub(crate) head: Option<String>,
    /// The checked-out branch; none on a detached head.
    pub(crate) branch: Option<String>,
    /// The entries of the stash; 0 with git before 2.35.
    pub(crate) stashes: u32,
    pub(crate) entries: Vec<Entry>,
}

/// A path that differs from the last commit and that git does not ignore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// From the repository's root. It ends with a slash for a nested repository that is not a submodule.
    pub(crate) path: Vec<u8>,
    /// As in `git status --short`.
    pub(crate) code: String,
    /// Its object in the last commit, if it has one; of an unmerged file, our side's.
    pub(crate) committed: Option<String>,
    pub(crate) is_unmerged: bool,
    /// A submodule with uncommitted changes in it.
    pub(crate) is_dirty_submodule: bool,
    /// Only that: no commit in this repository can hold it.
    pub(crate) is_only_inside: bool,
    /// A submodule in which another commit is checked out, which nobody has staged.
    pub(crate) is_moved_submodule: bool,
}

/// The operation that git is in the middle of.
pub(crate) fn under_way(git_dir: &Path) -> Option<&'static str> {
    in_dir(git_dir, &MOVING_HEAD).or_else(|| in_dir(git_dir, &COMMITTING))
}

/// Which of these is there.
pub(crate) fn in_dir(
    git_dir: &Path,
    traces: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let mut found = traces
        .iter()
        .filter(|(name, _)| git_dir.join(name).exists());
    found.next().map(|(_, what)| *what)
}

impl Status {
    pub(crate) async fn read(git: &Git, scope: Scope) -> Result<Self, GitError> {
        let (untracked, place) = match scope {
            Scope::Dir => ("all", "."),
            Scope::Repository | Scope::Everything => ("all", ":/"),
            Scope::RepositoryInShort => ("normal", ":/"),
        };
        let untracked = format!("--untracked-files={untracked}");
        let args = [&untracked, "--", place, EXCLUDE_OURS];
        let args = match scope {
            Scope::Everything => &args[..3],
            Scope::Dir | Scope::Repository | Scope::RepositoryInShort => &args[..],
        };
        Ok(Self::parse(&git.fed(STATUS, args, b"").await?))
    }

    fn parse(answer: &[u8]) -> Self {
        let mut status = Self::default();
        for line in answer.split(|byte| *byte == 0) {
            if let Some(header) = line.strip_prefix(b"# ") {
                let header = String::from_utf8_lossy(header);
                match header.split_once(' ') {
                    Some(("branch.oid", id)) if id != "(initial)" => {
                        status.head = Some(id.to_owned());
                    }
                    Some(("branch.head", name)) if name != "(detached)" => {
                        status.branch = Some(name.to_owned());
                    }
                    Some(("stash", count)) => status.stashes = count.parse().unwrap_or(0),
                    Some(_) | None => {}
                }
            } else {
                status.entries.extend(entry(line));
            }
        }
        status
    }

    /// A tracked file differs.
    pub(crate) fn has_tracked(&self) -> bool {
        self.entries.iter().any(|entry| !entry.is_untracked())
    }
}

impl Entry {
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }

    pub(crate) fn is_untracked(&self) -> bool {
        self.code == "??"
    }

    /// It is no longer in the work tree, or something else has its name.
    pub(crate) fn is_deleted(&self) -> bool {
        self.code.contains('D')
    }

    /// Its place in the work tree with this root.
    pub(crate) fn place(&self, top: &Path) -> PathBuf {
        top.join(OsStr::from_bytes(&self.path))
    }

    /// A repository inside this one that git does not know.
    pub(crate) fn is_repository(&self) -> bool {
        self.is_untracked() && self.path.ends_with(b"/")
    }
}

fn entry(line: &[u8]) -> Option<Entry> {
    let (kind, rest) = (line.first()?, line.get(2..)?);
    let fields = match kind {
        b'?' => {
            return Some(Entry {
                path: rest.to_owned(),
                code: "??".to_owned(),
                ..Entry::default()
            });
        }
        // XY sub mH mI mW hH hI path
        b'1' => FIELDS_CHANGED,
        b'u' => FIELDS_UNMERGED,
        _ => return None,
    };
    let fields: Vec<&[u8]> = rest.splitn(fields, |byte| *byte == b' ').collect();
    let (code, submodule) = (*fields.first()?, *fields.get(1)?);
    let is_unmerged = *kind == b'u';
    // An unmerged one has h1 h2 h3 in place of hH hI: the common ancestor's, ours, and theirs.
    let committed = fields.get(if is_unmerged { 7 } else { 5 });
    let is_dirty = submodule.starts_with(b"S") && submodule[1..].iter().any(|c| b"MU".contains(c));
    Some(Entry {
        path: fields.last()?.to_vec(),
        code: String::from_utf8_lossy(code).replace('.', " "),
        committed: committed.and_then(|id| object(id)),
        is_unmerged,
        is_dirty_submodule: is_dirty,
        is_only_inside: is_dirty && submodule.get(1) == Some(&b'.') && code == b".M",
        is_moved_submodule: submodule.starts_with(b"SC") && code == b".M",
    })
}

/// An object's id; zeros are none.
fn object(id: &[u8]) -> Option<String> {
    let id = String::from_utf8_lossy(id).into_owned();
    Some(id).filter(|id| id.bytes().any(|byte| byte != b'0'))
}

/// The paths that git takes literally, from the repository's root, each followed by a NUL.
pub(crate) fn pathspecs<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<u8> {
    let mut text = Vec::new();
    for entry in entries {
        text.extend_from_slice(b":(top,literal)");
        text.extend_from_slice(&entry.path);
        text.push(0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-18, HND-002
    #[test]
    fn every_kind_of_change_is_read() {
        let id = "8baef1b4abc478178b004d62031cf7fe6db6f903";
        let zeros = "0".repeat(40);
        let answer = [
            format!("# branch.oid {id}"),
            "# branch.head work".to_owned(),
            format!("1 .M N... 100644 100644 100644 {id} {id} src/a b.rs"),
            format!("1 A. N... 000000 100644 100644 {zeros} {id} new.rs"),
            format!("1 AD N... 000000 100644 000000 {zeros} {id} gone.rs"),
            format!("1 .M SC.. 160000 160000 160000 {id} {id} module"),
            format!("1 .M S.M. 160000 160000 160000 {id} {id} dirty"),
            format!("1 .M SC.U 160000 160000 160000 {id} {id} both"),
            format!("u UU N... 100644 100644 100644 100644 {id} {id} {id} both.rs"),
            "? x\u{a0}y\n".to_owned(),
            "? other/".to_owned(),
            "! ignored".to_owned(),
            String::new(),
        ];
        let status = Status::parse(answer.join("\0").as_bytes());
        assert_eq!(status.head.as_deref(), Some(id));
        assert_eq!(status.branch.as_deref(), Some("work"));
        let told: Vec<_> = status
            .entries
            .iter()
            .map(|e| (e.code.as_str(), e.shown(), e.committed.is_some()))
            .collect();
        let expected = [
            (" M", "src/a b.rs", true),
            ("A ", "new.rs", false),
            ("AD", "gone.rs", false),
            (" M", "module", true),
            (" M", "dirty", true),
            (" M", "both", true),
            ("UU", "both.rs", true),
            ("??", "x\u{a0}y\n", false),
            ("??", "other/", false),
        ];
        assert_eq!(told, expected.map(|(c, p, o)| (c, p.to_owned(), o)));
        let named = |is: fn(&Entry) -> bool| -> Vec<String> {
            let entries = status.entries.iter().filter(|entry| is(entry));
            entries.map(Entry::shown).collect()
        };
        assert_eq!(named(|e| e.is_dirty_submodule), ["dirty", "both"]);
        assert_eq!(named(|e| e.is_only_inside), ["dirty"]);
        assert_eq!(named(|e| e.is_moved_submodule), ["module", "both"]);
        assert_eq!(named(Entry::is_repository), ["other/"]);
        assert_eq!(named(|e| e.is_unmerged), ["both.rs"]);
    }
}
