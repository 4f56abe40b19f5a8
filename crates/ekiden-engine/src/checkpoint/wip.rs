//! Commits a watched session's work in progress: a snapshot under `refs/ekiden/wip/<session>`.
//!
//! *To restore it*: `git checkout --no-overlay refs/ekiden/wip/<session> -- :/`
//!
//! With [`Wip::Branch`], git makes the commit on the branch, with the repository's own index. If that is not
//! possible (a merge, a lock, no name to commit under), the commit goes under the ref and a warning says so.

use ekiden_core::guard::checkpoint::{Wip, issue_of_branch, wip_subject};
use ekiden_core::guard::document::WipState;
use ekiden_store::disk::Disk;
use ekiden_store::layout::StateLayout;

use crate::git::flood::{flooded, is_in};
use crate::git::snapshot::{self, Tree};
use crate::git::status::Status;
use crate::git::{Git, GitError};
use crate::workspace::Workspace;
use ekiden_core::text::in_full;

/// A part of a ref's name, in characters.
const NAME_CHARS_MAX: usize = 64;

pub(super) struct Job<'a> {
    pub(super) git: &'a Git,
    pub(super) disk: &'a dyn Disk,
    pub(super) state: &'a StateLayout,
    /// The last part of the ref.
    pub(super) name: String,
    pub(super) request: &'a super::Request,
    pub(super) status: &'a Status,
    pub(super) under_way: Option<&'static str>,
}

/// The result, and its tree: if the tree differs the next time, the work has continued.
pub(super) type Saved = (WipState, Option<String>);

/// The last part of the ref: the session, or the work tree if no session asks.
pub(super) fn name(session: Option<&str>, workspace: &Workspace) -> String {
    let whole = match (session.filter(|id| !id.is_empty()), workspace.worktree()) {
        (Some(session), _) => session.to_owned(),
        (None, Some(worktree)) => format!("manual-{worktree}"),
        (None, None) => "manual".to_owned(),
    };
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '-' {
        true => c,
        false => '_',
    };
    whole.chars().map(plain).take(NAME_CHARS_MAX).collect()
}

impl Job<'_> {
    /// Keeps what is not committed. The state reports any failure.
    pub(super) async fn save(&self) -> Saved {
        if self.request.wip == Wip::Off {
            return (WipState::Off, None);
        }
        if self.status.entries.is_empty() {
            return (WipState::Clean, None);
        }
        let mut note = None;
        if self.request.wip == Wip::Branch {
            match self.on_branch().await {
                Ok(saved) => return saved,
                Err(error) => note = Some(format!("It is not on the branch: {}", in_full(&error))),
            }
        }
        self.under_ref(note).await.unwrap_or_else(|error| {
            let why = in_full(&error);
            (WipState::Failed { why }, None)
        })
    }

    async fn on_branch(&self) -> Result<Saved, GitError> {
        if let Some(what) = self.under_way {
            return GitError::refused(format!("{what} is under way"));
        }
        if self.status.branch.is_none() {
            return GitError::refused("no branch is checked out");
        }
        if !self.git.knows_committer().await {
            return GitError::refused("git does not know who you are");
        }
        let git = self.git.clone().quiet();
        let mut entries = self.status.entries.clone();
        // `git add` refuses a path that the index no longer has, such as that of a file that was moved by `git mv`.
        entries.retain(|entry| entry.code != "D ");
        let flooded = flooded(&entries, &[])?;
        entries.retain(|entry| !is_in(entry, &flooded));
        let (paths, mut left_out) = snapshot::choose(&entries, &git.top().await?);
        left_out.extend(
            flooded
                .iter()
                .map(|dir| format!("{dir} (too many new files)")),
        );
        let unread = snapshot::add(&git, &paths).await?;
        let commit = "-c commit.gpgSign=false commit --quiet --no-verify";
        git.run(commit, &["-m", &self.subject()]).await?;
        let state = WipState::Saved {
            commit: git.line("rev-parse HEAD", &[]).await?,
            name: None,
            note: unread,
            left_out,
        };
        Ok((state, Some(git.line("rev-parse", &["HEAD^{tree}"]).await?)))
    }

    async fn under_ref(&self, note: Option<String>) -> Result<Saved, GitError> {
        let index = self.state.wip_index(&self.name);
        let Tree {
            id,
            left_out,
            unread,
        } = snapshot::write_tree(self.git, self.disk, &index, self.status).await?;
        let head = self.status.head.as_deref();
        if let Some(head) = head
            && self
                .git
                .line("rev-parse", &[&format!("{head}^{{tree}}")])
                .await?
                == id
        {
            let state = match left_out.first() {
                None => WipState::Clean,
                Some(first) => WipState::Failed {
                    why: format!("none of it goes into a commit: {first}"),
                },
            };
            return Ok((state, Some(id)));
        }
        let name = format!("refs/ekiden/wip/{}", self.name);
        let commit = snapshot::keep(self.git, &id, head, &self.subject(), &name).await?;
        let state = WipState::Saved {
            commit,
            name: Some(name),
            note: note.or(unread),
            left_out,
        };
        Ok((state, Some(id)))
    }

    fn subject(&self) -> String {
        if let Some(subject) = &self.request.subject {
            return subject.to_owned();
        }
        let of_branch = self.status.branch.as_deref().and_then(issue_of_branch);
        wip_subject(self.request.issue.clone().or(of_branch).as_deref())
    }
}
