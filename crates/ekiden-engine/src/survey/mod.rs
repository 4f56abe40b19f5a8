//! A look at the work tree: what a program can find out, a program writes down.
//!
//! A survey writes nothing, neither index nor objects, and takes no lock, so it can run while a person works
//! there. In a repository, git reports what changed (`git`). Elsewhere the survey looks at every file that no
//! ignore rule names (`walk`).
//!
//! It produces two fingerprints. `tree` changes whenever a file does. `substance` leaves out text that only tells
//! the time (`content`), so a session that touches a timestamp has done nothing.

mod content;
mod fingerprint;
mod git;
mod walk;

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ekiden_core::event::Survey;
use ekiden_core::guard::estimate::named_files;
use ekiden_core::handoff::{OpenItems, open_items};
use ekiden_core::relay::ITEMS_FILE;
use ekiden_store::disk::{Disk, RealDisk};

use crate::git::Git;
use crate::workspace::Workspace;
use ekiden_core::text::in_full;

/// The largest list of items that is read, in bytes.
const ITEMS_BYTES_MAX: u64 = 1024 * 1024;

/// The files that ekiden's own output goes to, such as that of `nohup ekiden run task.md > run.log`: they grow although
/// no session changes anything.
struct OwnOutput(Vec<(u64, u64)>);

impl OwnOutput {
    fn find() -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let copies = [out.as_fd(), err.as_fd()].map(|stream| stream.try_clone_to_owned());
        let found = copies.into_iter().flatten();
        let found = found.filter_map(|stream| File::from(stream).metadata().ok());
        Self(
            found
                .filter(Metadata::is_file)
                .map(|file| id(&file))
                .collect(),
        )
    }

    fn is(&self, path: &Path) -> bool {
        let is_own = |file: &Metadata| self.0.contains(&id(file));
        !self.0.is_empty() && path.metadata().is_ok_and(|file| is_own(&file))
    }
}

fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// The commits that a survey of the work tree starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Since {
    /// The commit at the previous survey: newer ones are reported. Empty if there was none yet.
    pub last: Option<String>,
    /// The commit at the run's first survey: what happened to its tests is reported.
    pub first: Option<String>,
    /// The commit from which the size of the changes is measured.
    pub base: Option<String>,
    /// The relay works through a list of items, so the survey reads it.
    pub items: bool,
    /// A reviewer will read all changes.
    pub diff: bool,
    /// The file of the run's issue, from the work dir. ekiden writes its comment there, so it is left out.
    pub issue: Option<String>,
}

/// Looks at the work tree. If dropped before it is done, it ends what it started.
pub(crate) async fn survey(git: Git, workspace: Workspace, since: Since) -> Result<Survey, String> {
    let workspace_dir = workspace.dir.clone();
    let items = since.items.then(|| items(&workspace_dir));
    let survey = if workspace.git.is_none() {
        walk::survey(workspace, &since).await?
    } else {
        let survey = git::survey(&git, &workspace, &since).await;
        survey.map_err(|error| in_full(&error))?
    };
    let items = items.flatten();
    let open = items.iter().flat_map(|items| &items.open);
    let sizes = open.map(|item| (item.clone(), sizes_of(&workspace_dir, item)));
    Ok(Survey {
        item_files: sizes.filter(|(_, sizes)| !sizes.is_empty()).collect(),
        items,
        ..survey
    })
}

/// The sizes of the files that an item names, in bytes.
fn sizes_of(dir: &Path, item: &str) -> Vec<u64> {
    let files = named_files(item).into_iter();
    let files = files.filter_map(|file| dir.join(file).metadata().ok());
    let files = files.filter(std::fs::Metadata::is_file);
    files.map(|file| file.len()).collect()
}

/// The list of items in the work dir. None if it is no text, or too large for a list.
pub(crate) fn items(dir: &Path) -> Option<OpenItems> {
    let beneath = Disk::read(
        &RealDisk::fenced(dir),
        &dir.join(ITEMS_FILE),
        ITEMS_BYTES_MAX,
    );
    let text = String::from_utf8(beneath.ok()?).ok()?;
    Some(open_items(&text))
}
