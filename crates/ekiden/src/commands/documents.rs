//! The handoff documents of a work dir, for commands.

use std::sync::Arc;

use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::RealDisk;
use ekiden_store::documents::Documents;

pub(super) fn documents(workspace: &Workspace) -> Documents {
    let disk = Arc::new(RealDisk::fenced(&workspace.dir));
    Documents::of(disk, &workspace.dir, &workspace.state_dir)
}
