//! What git says of the work tree at a checkpoint, within bounds.

use ekiden_core::guard::document::{ChangedFile, GitTree, WipState};
use ekiden_core::limits::CHECKPOINT_FILES_MAX;

use crate::commit::{under_way_in, under_way_question};
use crate::git::{Git, GitError};

/// The whole repository, since a session may edit beside the directory that it works in.
const STATUS: &[&str] = &[
    "-c",
    "core.fsmonitor=false",
    "--no-optional-locks",
    "status",
    "--porcelain=v2",
    "-z",
    "--no-renames",
    "--untracked-files=all",
    "--",
    ":/",
    EXCLUDE_OURS,
];
/// The same where so much is untracked that its list would be too long: directories by their name.
const STATUS_SHORT: &[&str] = &[
    "-c",
    "core.fsmonitor=false",
    "--no-optional-locks",
    "status",
    "--porcelain=v2",
    "-z",
    "--no-renames",
    "--untracked-files=normal",
    "--",
    ":/",
    EXCLUDE_OURS,
];
/// What is ekiden's own, wherever in the repository it lies.
const EXCLUDE_OURS: &str = ":(exclude,top,glob)**/.ekiden/**";
/// Fields of an entry behind its kind, and where its path begins.
const FIELDS_CHANGED: usize = 8;
const FIELDS_UNMERGED: usize = 10;

/// A work tree.
#[derive(Debug)]
pub(super) struct Looked {
    branch: Option<String>,
    /// The last commit's id; none before the first.
    pub(super) head_id: Option<String>,
    head: Option<String>,
    under_way: Option<String>,
    pub(super) entries: Vec<Entry>,
}

/// A path that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// From the repository's root.
    pub(super) path: Vec<u8>,
    /// As in `git status --short`.
    pub(super) code: String,
    /// Git does not know it yet.
    pub(super) untracked: bool,
    /// Only the index knows it: added, and gone from the work tree.
    pub(super) only_staged: bool,
    /// A submodule with changes of its own, which no commit of ours holds.
    pub(super) dirty_submodule: bool,
}

/// Looks at the work tree around the directory of `git`.
pub(super) async fn look(git: &Git) -> Result<Looked, GitError> {
    let status = match git.whole(STATUS).await {
        Err(GitError::NoAnswer { .. }) => git.whole(STATUS_SHORT).await?,
        status => status?,
    };
    let branch = git.run(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await.ok();
    let last = git.run(&["log", "-1", "--no-show-signature", "--no-color", "--format=%H%n%h %s"]).await.ok();
    let (head_id, head) = last.as_deref().and_then(|text| text.trim_end().split_once('\n')).unzip();
    let under_way = git.run(&under_way_question()).await.ok();
    let under_way = under_way.as_deref().and_then(under_way_in).map(str::to_owned);
    Ok(Looked {
        branch: branch.map(|name| name.trim().to_owned()),
        head_id: head_id.map(str::to_owned),
        head: head.map(str::to_owned),
        under_way,
        entries: read(&status),
    })
}

impl Looked {
    /// Whether git is in the middle of something.
    pub(super) fn under_way(&self) -> Option<&str> {
        self.under_way.as_deref()
    }

    /// The branch that is checked out.
    pub(super) fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// All that differs, as one text.
    pub(super) fn listing(&self) -> String {
        self.entries.iter().map(|entry| format!("{} {}\n", entry.code, entry.shown())).collect()
    }

    pub(super) fn into_tree(self, wip: WipState) -> GitTree {
        let changed = self.entries.iter().take(CHECKPOINT_FILES_MAX);
        let changed = changed.map(|entry| ChangedFile { code: entry.code.clone(), path: entry.shown() });
        GitTree {
            changed: changed.collect(),
            branch: self.branch,
            head: self.head,
            under_way: self.under_way,
            wip,
        }
    }
}

impl Entry {
    /// The path as text.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// Reads the answer of `git status --porcelain=v2 -z`.
fn read(status: &[u8]) -> Vec<Entry> {
    status.split(|byte| *byte == 0).filter_map(entry).collect()
}

fn entry(entry: &[u8]) -> Option<Entry> {
    let (kind, rest) = (entry.first()?, entry.get(2..)?);
    let (fields, untracked) = match kind {
        b'?' => {
            let none = Entry {
                path: rest.to_owned(),
                code: "??".to_owned(),
                untracked: true,
                only_staged: false,
                dirty_submodule: false,
            };
            return Some(none);
        }
        // XY sub mH mI mW hH hI path
        b'1' => (FIELDS_CHANGED, false),
        b'u' => (FIELDS_UNMERGED, false),
        _ => return None,
    };
    let fields: Vec<&[u8]> = rest.splitn(fields, |byte| *byte == b' ').collect();
    let (code, sub) = (*fields.first()?, *fields.get(1)?);
    Some(Entry {
        path: fields.last()?.to_vec(),
        code: String::from_utf8_lossy(code).replace('.', " "),
        untracked,
        only_staged: code == b"AD",
        dirty_submodule: sub.starts_with(b"S") && (sub.contains(&b'M') || sub.contains(&b'U')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: HND-002
    #[test]
    fn every_kind_of_change_is_read() {
        let id = "8baef1b4abc478178b004d62031cf7fe6db6f903";
        let status = [
            format!("1 .M N... 100644 100644 100644 {id} {id} src/a b.rs"),
            format!("1 AD N... 000000 100644 000000 {id} {id} gone.rs"),
            format!("1 .M S.M. 160000 160000 160000 {id} {id} module"),
            format!("u UU N... 100644 100644 100644 100644 {id} {id} {id} both.rs"),
            "? x\n\u{a0}y".to_owned(),
            "! ignored".to_owned(),
            String::new(),
        ];
        let read: Vec<_> = read(status.join("\0").as_bytes());
        let told: Vec<_> = read
            .iter()
            .map(|e| (e.code.as_str(), e.shown(), e.untracked, e.only_staged, e.dirty_submodule))
            .collect();
        let plain = |code, path: &str| (code, path.to_owned(), false, false, false);
        assert_eq!(
            told,
            [
                plain(" M", "src/a b.rs"),
                ("AD", "gone.rs".to_owned(), false, true, false),
                (" M", "module".to_owned(), false, false, true),
                plain("UU", "both.rs"),
                ("??", "x\n\u{a0}y".to_owned(), true, false, false),
            ]
        );
    }
}
