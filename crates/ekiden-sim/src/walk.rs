//! Finding what a path names in the simulated tree, as a kernel does it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::file::SimFile;
use super::tree::{Ino, Node, ROOT, SimDir, Tree, refused};
use ekiden_store::disk::Cause;

/// Links in a row that are followed.
const HOPS_MAX: u32 = 40;

impl Tree {
    /// The node at a path, its last link not followed.
    pub(super) fn look(&self, path: &Path) -> Result<Option<&Node>, Cause> {
        if path.parent().is_none() {
            return Ok(self.node(ROOT));
        }
        match self.place(path, None) {
            Ok((dir, name)) => Ok(self.entry(dir, name).and_then(|ino| self.node(ino))),
            Err(Cause::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// The file at a path, links followed.
    pub(super) fn file(&self, path: &Path) -> Result<&SimFile, Cause> {
        let (_, ino) = self.follow(path, None, 0)?;
        match self.at(ino) {
            Node::File(file) => Ok(file),
            Node::Dir(_) | Node::Link(_) => Err(Cause::NotAFile),
        }
    }

    pub(super) fn names(&self, path: &Path) -> Result<Vec<OsString>, Cause> {
        let (_, ino) = self.follow(path, None, 0)?;
        Ok(self
            .dir(ino)?
            .names()
            .keys()
            .map(|name| name.to_os_string())
            .collect())
    }

    pub(super) fn resolve(&self, path: &Path) -> Result<PathBuf, Cause> {
        Ok(self.follow(path, None, 0)?.0)
    }

    /// Whether a symbolic link stands at the path, and where it leads.
    pub(super) fn link(&self, path: &Path) -> Option<PathBuf> {
        match self.look(path) {
            Ok(Some(Node::Link(target))) => Some(target.clone()),
            Ok(Some(Node::File(_) | Node::Dir(_)) | None) | Err(_) => None,
        }
    }

    pub(super) fn dir(&self, ino: Ino) -> Result<&SimDir, Cause> {
        match self.at(ino) {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) | Node::Link(_) => Err(refused(io::ErrorKind::NotADirectory)),
        }
    }

    pub(super) fn entry(&self, dir: Ino, name: &OsStr) -> Option<Ino> {
        self.dir(dir).ok()?.names().get(name).copied()
    }

    /// The directory that holds a path, and the name in it.
    pub(super) fn place<'p>(
        &self,
        path: &'p Path,
        fence: Option<&Path>,
    ) -> Result<(Ino, &'p OsStr), Cause> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Cause::NotPlain);
        };
        let (_, dir) = self.follow(parent, fence, 0)?;
        self.dir(dir)?;
        Ok((dir, name))
    }

    /// Follows a path to its end. Beneath the fence a link is an error.
    pub(super) fn follow(
        &self,
        path: &Path,
        fence: Option<&Path>,
        hops: u32,
    ) -> Result<(PathBuf, Ino), Cause> {
        let mut asked = PathBuf::from("/");
        let (mut real, mut at) = (PathBuf::from("/"), ROOT);
        for component in path.components() {
            asked.push(component);
            let guarded = fence.is_some_and(|fence| asked != fence && asked.starts_with(fence));
            match component {
                Component::Normal(name) => {
                    (real, at) = self.enter(real, at, name, hops, guarded)?;
                }
                Component::ParentDir if guarded => return Err(Cause::NotPlain),
                Component::ParentDir => {
                    real.pop();
                    (real, at) = self.follow(&real, None, hops)?;
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok((real, at))
    }

    fn enter(
        &self,
        mut real: PathBuf,
        at: Ino,
        name: &OsStr,
        hops: u32,
        guarded: bool,
    ) -> Result<(PathBuf, Ino), Cause> {
        let next = *self
            .dir(at)?
            .names()
            .get(name)
            .ok_or_else(|| refused(io::ErrorKind::NotFound))?;
        match self.at(next) {
            Node::Link(target) if guarded => Err(Cause::IsLink {
                link: real.join(name),
                target: target.clone(),
            }),
            Node::Link(_) if hops == HOPS_MAX => Err(refused(io::ErrorKind::Other)),
            Node::Link(target) => self.follow(&real.join(target), None, hops + 1),
            Node::File(_) | Node::Dir(_) => {
                real.push(name);
                Ok((real, next))
            }
        }
    }
}
