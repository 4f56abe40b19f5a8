//! The operations of a simulated disk: each is counted, and may fail or be the machine's last.

use std::ffi::OsString;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::tree::{Node, Tree, refused};
use super::{AtCrash, Fault, PlannedFault, SimDisk, State};
use ekiden_store::disk::{Cause, Disk, DiskError, DiskResult, Kind, Operation, Reach, Stat};

impl SimDisk {
    fn look<T>(
        &self,
        operation: Operation,
        path: &Path,
        look: impl FnOnce(&Tree) -> Result<T, Cause>,
    ) -> DiskResult<T> {
        let state = self.lock();
        let found = if state.crashed {
            Err(crashed())
        } else {
            state
                .check_permission(operation, path)
                .and_then(|()| look(&state.tree))
        };
        found.map_err(|cause| DiskError::new(operation, path, cause))
    }

    fn change(
        &self,
        operation: Operation,
        path: &Path,
        change: impl Fn(&mut Tree, Option<&Path>, Extent) -> Result<(), Cause>,
    ) -> DiskResult<()> {
        let mut state = self.lock();
        let allowed = state.check_permission(operation, path);
        allowed
            .and_then(|()| state.change(change))
            .map_err(|cause| DiskError::new(operation, path, cause))
    }

    fn write(
        &self,
        operation: Operation,
        path: &Path,
        at: u64,
        bytes: &[u8],
        reach: Reach,
    ) -> DiskResult<()> {
        self.change(operation, path, |tree, fence, extent| {
            let file = tree.file_mut(path, fence)?;
            let found = file.bytes().len() as u64;
            if found != at {
                return Err(Cause::Moved {
                    expected: at,
                    found,
                });
            }
            match extent {
                Extent::Whole => file.append(bytes),
                Extent::Half => file.append(&bytes[..bytes.len() / 2]),
                Extent::Nothing => {}
            }
            Ok(())
        })?;
        match reach {
            Reach::Cache => Ok(()),
            Reach::Disk => self.sync(operation, path),
        }
    }

    fn sync(&self, operation: Operation, path: &Path) -> DiskResult<()> {
        self.change(operation, path, |tree, fence, extent| {
            let file = tree.file_mut(path, fence)?;
            match extent {
                Extent::Whole => file.sync(),
                Extent::Half | Extent::Nothing => file.fail_sync(),
            }
            Ok(())
        })?;
        self.lock().syncs += 1;
        Ok(())
    }
}

/// How much of an operation happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Half,
    Nothing,
}

impl State {
    /// One counted operation: done, failed, or the machine's last.
    fn change(
        &mut self,
        change: impl Fn(&mut Tree, Option<&Path>, Extent) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        if self.crashed {
            return Err(crashed());
        }
        let op = self.ops;
        self.ops += 1;
        if let Some((_, at)) = self.crash.filter(|(crash, _)| *crash == op) {
            self.crashed = true;
            if at == AtCrash::Done {
                // Nobody is told how it went.
                let _ = change(&mut self.tree, self.fence.as_deref(), Extent::Whole);
            }
            return Err(crashed());
        }
        let Some(fault) = self.fault_at(op) else {
            return change(&mut self.tree, self.fence.as_deref(), Extent::Whole);
        };
        let extent = if fault == Fault::DiskFull {
            Extent::Half
        } else {
            Extent::Nothing
        };
        change(&mut self.tree, self.fence.as_deref(), extent)?;
        Err(fault.cause())
    }

    fn fault_at(&self, op: u64) -> Option<Fault> {
        let hits = |planned: &&PlannedFault| {
            if planned.lasting {
                planned.from <= op
            } else {
                planned.from == op
            }
        };
        self.faults.iter().find(hits).map(|planned| planned.fault)
    }
}

/// For operations that happen or do not.
fn only_whole(extent: Extent, change: impl FnOnce() -> Result<(), Cause>) -> Result<(), Cause> {
    match extent {
        Extent::Whole => change(),
        Extent::Half | Extent::Nothing => Ok(()),
    }
}

impl Disk for SimDisk {
    fn stat(&self, path: &Path) -> DiskResult<Option<Stat>> {
        self.look(Operation::Look, path, |tree| {
            Ok(tree.look(path)?.map(|node| match node {
                Node::File(file) => Stat {
                    kind: Kind::File,
                    len: file.bytes().len() as u64,
                },
                Node::Dir(_) => Stat {
                    kind: Kind::Dir,
                    len: 0,
                },
                Node::Link(_) => Stat {
                    kind: Kind::Link,
                    len: 0,
                },
            }))
        })
    }

    fn resolve(&self, path: &Path) -> DiskResult<PathBuf> {
        self.look(Operation::Look, path, |tree| tree.resolve(path))
    }

    fn read_link(&self, path: &Path) -> DiskResult<PathBuf> {
        self.look(Operation::Look, path, |tree| {
            tree.link(path)
                .ok_or_else(|| refused(io::ErrorKind::InvalidInput))
        })
    }

    fn read(&self, path: &Path, bytes_max: u64) -> DiskResult<Vec<u8>> {
        self.look(Operation::Read, path, |tree| {
            let content = tree.file(path)?.bytes();
            let bytes = content.len() as u64;
            if bytes > bytes_max {
                Err(Cause::TooLarge { bytes, bytes_max })
            } else {
                Ok(content.to_vec())
            }
        })
    }

    fn reader(&self, path: &Path, from: u64) -> DiskResult<Box<dyn Read + Send>> {
        self.look(Operation::Read, path, |tree| {
            let mut content = Cursor::new(tree.file(path)?.bytes().to_vec());
            content.set_position(from);
            let reader: Box<dyn Read + Send> = Box::new(content);
            Ok(reader)
        })
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<OsString>> {
        self.look(Operation::List, dir, |tree| tree.names(dir))
    }

    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        self.change(Operation::CreateDir, path, |tree, fence, extent| {
            only_whole(extent, || {
                tree.create(path, fence, Node::Dir(Arc::default()))
            })
        })
    }

    fn create_file(&self, path: &Path, bytes: &[u8], reach: Reach) -> DiskResult<()> {
        self.change(Operation::Create, path, |tree, fence, extent| {
            only_whole(extent, || {
                tree.create(path, fence, Node::File(Arc::default()))
            })
        })?;
        self.write(Operation::Create, path, 0, bytes, reach)
    }

    fn append(&self, path: &Path, at: u64, bytes: &[u8], reach: Reach) -> DiskResult<()> {
        self.write(Operation::Append, path, at, bytes, reach)
    }

    fn truncate(&self, path: &Path, len: u64) -> DiskResult<()> {
        self.change(Operation::Truncate, path, |tree, fence, extent| {
            let file = tree.file_mut(path, fence)?;
            only_whole(extent, || {
                file.truncate(usize::try_from(len).unwrap_or(usize::MAX));
                Ok(())
            })
        })?;
        self.sync(Operation::Truncate, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.change(Operation::Rename, to, |tree, fence, extent| {
            if let Some(target) = tree
                .link(to)
                .filter(|_| fence.is_some_and(|fence| to.starts_with(fence)))
            {
                return Err(Cause::IsLink {
                    link: to.to_owned(),
                    target,
                });
            }
            only_whole(extent, || tree.rename(from, to, fence))
        })
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.change(Operation::Remove, path, |tree, fence, extent| {
            only_whole(extent, || tree.remove(path, fence))
        })
    }

    fn remove_dir(&self, path: &Path) -> DiskResult<()> {
        self.change(Operation::Remove, path, |tree, fence, extent| {
            only_whole(extent, || tree.remove_dir(path, fence))
        })
    }

    fn create_link(&self, link: &Path, target: &Path) -> DiskResult<()> {
        self.change(Operation::Link, link, |tree, fence, extent| {
            only_whole(extent, || {
                tree.create(link, fence, Node::Link(target.to_owned()))
            })
        })
    }

    /// There are no permissions here; both files must exist.
    fn copy_mode(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.change(Operation::CopyMode, to, |tree, fence, _| {
            tree.file(from)?;
            tree.file_mut(to, fence).map(|_| ())
        })
    }

    fn make_private(&self, path: &Path) -> DiskResult<()> {
        self.change(Operation::CopyMode, path, |tree, fence, _| {
            tree.file_mut(path, fence).map(|_| ())
        })
    }

    fn sync_file(&self, path: &Path) -> DiskResult<()> {
        self.sync(Operation::Sync, path)
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.change(Operation::Sync, dir, |tree, fence, extent| {
            only_whole(extent, || tree.sync_dir(dir, fence))
        })?;
        self.lock().syncs += 1;
        Ok(())
    }

    fn syncs(&self) -> u64 {
        self.lock().syncs
    }
}

fn crashed() -> Cause {
    Cause::Io(io::Error::other("the simulated machine has crashed"))
}
