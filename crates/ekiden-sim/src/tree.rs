//! The simulated names: what the cache says a directory holds, and what is on the disk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::SimFile;
use ekiden_store::disk::Cause;

/// The number of a file, directory or link, whatever its name.
pub(super) type Ino = u64;

pub(super) const ROOT: Ino = 0;

/// What a number stands for. Shared between copies of the disk until one changes it.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Arc<SimFile>),
    Dir(Arc<SimDir>),
    Link(PathBuf),
}

/// A name, shared between all copies of the disk.
pub(super) type Name = Arc<OsStr>;

/// A directory's names, in the cache and on the disk.
#[derive(Debug, Clone, Default)]
pub(super) struct SimDir {
    now: BTreeMap<Name, Ino>,
    durable: BTreeMap<Name, Ino>,
}

/// A change of names that happens as one, and whose directory has not been synced since.
#[derive(Debug, Clone)]
pub(super) struct NameOp(Vec<NameChange>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct NameChange {
    dir: Ino,
    name: Name,
    to: Option<Ino>,
}

impl SimDir {
    pub(super) fn names(&self) -> &BTreeMap<Name, Ino> {
        &self.now
    }
}

impl NameOp {
    /// A file system keeps the order of changes to the same name, so the later needs the earlier.
    pub(super) fn needs(&self, earlier: &Self) -> bool {
        let same = |a: &NameChange, b: &NameChange| a.dir == b.dir && a.name == b.name;
        self.0.iter().any(|a| earlier.0.iter().any(|b| same(a, b)))
    }

    /// The names that it changes, each with its directory.
    pub(super) fn names(&self) -> impl Iterator<Item = (Ino, &OsStr)> {
        self.0.iter().map(|change| (change.dir, &*change.name))
    }

    /// It gives a name to this file.
    pub(super) fn leads_to(&self, ino: Ino) -> bool {
        self.0.iter().any(|change| change.to == Some(ino))
    }

    fn touches(&self, dir: Ino) -> bool {
        self.0.iter().any(|change| change.dir == dir)
    }
}

/// All files and names of a simulated disk.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
    pending: Vec<NameOp>,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Dir(Arc::default()))]),
            next: ROOT + 1,
            pending: Vec::new(),
        }
    }

    pub(super) fn pending(&self) -> &[NameOp] {
        &self.pending
    }

    /// What a number stands for.
    pub(super) fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    /// What a name leads to: a node is only dropped when no name leads to it.
    pub(super) fn at(&self, ino: Ino) -> &Node {
        &self.nodes[&ino]
    }

    // ── Changing the cache ───────────────────────────────────────────────────────────────────

    /// Adds a new node under a free name.
    pub(super) fn create(
        &mut self,
        path: &Path,
        fence: Option<&Path>,
        node: Node,
    ) -> Result<(), Cause> {
        let (dir, name) = self.place(path, fence)?;
        if self.entry(dir, name).is_some() {
            return Err(refused(io::ErrorKind::AlreadyExists));
        }
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        self.change(vec![NameChange {
            dir,
            name: name.into(),
            to: Some(ino),
        }]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path, fence: Option<&Path>) -> Result<(), Cause> {
        let (dir, name) = self.place(path, fence)?;
        match self.entry(dir, name).map(|ino| &self.nodes[&ino]) {
            None => Err(refused(io::ErrorKind::NotFound)),
            Some(Node::Dir(_)) => Err(refused(io::ErrorKind::IsADirectory)),
            Some(Node::File(_) | Node::Link(_)) => {
                self.change(vec![NameChange {
                    dir,
                    name: name.into(),
                    to: None,
                }]);
                Ok(())
            }
        }
    }

    pub(super) fn remove_dir(&mut self, path: &Path, fence: Option<&Path>) -> Result<(), Cause> {
        let (dir, name) = self.place(path, fence)?;
        match self.entry(dir, name).map(|ino| &self.nodes[&ino]) {
            None => Err(refused(io::ErrorKind::NotFound)),
            Some(Node::File(_) | Node::Link(_)) => Err(refused(io::ErrorKind::NotADirectory)),
            Some(Node::Dir(found)) if !found.now.is_empty() => {
                Err(refused(io::ErrorKind::DirectoryNotEmpty))
            }
            Some(Node::Dir(_)) => {
                self.change(vec![NameChange {
                    dir,
                    name: name.into(),
                    to: None,
                }]);
                Ok(())
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        from: &Path,
        to: &Path,
        fence: Option<&Path>,
    ) -> Result<(), Cause> {
        let (from_dir, from_name) = self.place(from, fence)?;
        let (to_dir, to_name) = self.place(to, fence)?;
        let ino = self
            .entry(from_dir, from_name)
            .ok_or_else(|| refused(io::ErrorKind::NotFound))?;
        if self
            .entry(to_dir, to_name)
            .is_some_and(|there| matches!(self.nodes[&there], Node::Dir(_)))
        {
            return Err(refused(io::ErrorKind::IsADirectory));
        }
        self.change(vec![
            NameChange {
                dir: from_dir,
                name: from_name.into(),
                to: None,
            },
            NameChange {
                dir: to_dir,
                name: to_name.into(),
                to: Some(ino),
            },
        ]);
        Ok(())
    }

    /// The file at a path for a change. A link in its place is not followed.
    pub(super) fn file_mut(
        &mut self,
        path: &Path,
        fence: Option<&Path>,
    ) -> Result<&mut SimFile, Cause> {
        let (dir, name) = self.place(path, fence)?;
        let ino = self
            .entry(dir, name)
            .ok_or_else(|| refused(io::ErrorKind::NotFound))?;
        match self.nodes.get_mut(&ino) {
            Some(Node::File(file)) => Ok(Arc::make_mut(file)),
            Some(Node::Link(target)) => Err(Cause::IsLink {
                link: path.to_owned(),
                target: target.clone(),
            }),
            Some(Node::Dir(_)) | None => Err(refused(io::ErrorKind::IsADirectory)),
        }
    }

    fn change(&mut self, changes: Vec<NameChange>) {
        for change in &changes {
            self.apply(change, false);
        }
        self.pending.push(NameOp(changes));
    }

    fn apply(&mut self, change: &NameChange, durable: bool) {
        let Some(Node::Dir(dir)) = self.nodes.get_mut(&change.dir) else {
            return;
        };
        let dir = Arc::make_mut(dir);
        let names = if durable {
            &mut dir.durable
        } else {
            &mut dir.now
        };
        match change.to {
            Some(ino) => names.insert(change.name.clone(), ino),
            None => names.remove(&change.name),
        };
    }

    // ── Reaching the disk ────────────────────────────────────────────────────────────────────

    /// Puts the pending changes of a directory's names on the disk, and those that they need.
    pub(super) fn sync_dir(&mut self, path: &Path, fence: Option<&Path>) -> Result<(), Cause> {
        let (_, dir) = self.follow(path, fence, 0)?;
        self.dir(dir)?;
        let chosen = self.with_needs(|op| op.touches(dir));
        let pending = std::mem::take(&mut self.pending);
        for (op, chosen) in pending.into_iter().zip(chosen) {
            if chosen {
                op.0.iter().for_each(|change| self.apply(change, true));
            } else {
                self.pending.push(op);
            }
        }
        Ok(())
    }

    /// Everything that is in the cache is on the disk.
    pub(super) fn sync_all(&mut self) {
        for op in std::mem::take(&mut self.pending) {
            op.0.iter().for_each(|change| self.apply(change, true));
        }
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                Arc::make_mut(file).sync();
            }
        }
    }

    /// Marks the pending operations that are wanted, and all that those need.
    fn with_needs(&self, wanted: impl Fn(&NameOp) -> bool) -> Vec<bool> {
        let mut chosen: Vec<bool> = self.pending.iter().map(wanted).collect();
        for at in (0..chosen.len()).rev() {
            let (earlier, [later, ..]) = chosen.split_at_mut(at) else {
                break;
            };
            for (needed, op) in earlier.iter_mut().zip(&self.pending) {
                *needed |= *later && self.pending[at].needs(op);
            }
        }
        chosen
    }

    /// The tree after a power cut that only these of the pending name changes survive. Which bytes
    /// of its files survive is decided afterwards.
    pub(super) fn with_names(&self, survives: &[bool]) -> Self {
        let mut tree = Self {
            nodes: self.nodes.clone(),
            next: self.next,
            pending: Vec::new(),
        };
        for (op, _) in self
            .pending
            .iter()
            .zip(survives)
            .filter(|(_, survives)| **survives)
        {
            op.0.iter().for_each(|change| tree.apply(change, true));
        }
        tree.forget_cached_names();
        tree.drop_unreachable();
        tree
    }

    fn forget_cached_names(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::Dir(dir) = node
                && dir.now != dir.durable
            {
                let dir = Arc::make_mut(dir);
                dir.now = dir.durable.clone();
            }
        }
    }

    fn drop_unreachable(&mut self) {
        let mut reached = BTreeMap::new();
        let mut todo = vec![ROOT];
        while let Some(ino) = todo.pop() {
            if let Some(node) = self.nodes.remove(&ino) {
                if let Node::Dir(dir) = &node {
                    todo.extend(dir.now.values());
                }
                reached.insert(ino, node);
            }
        }
        self.nodes = reached;
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (Ino, &SimFile)> {
        self.nodes.iter().filter_map(|(ino, node)| match node {
            Node::File(file) => Some((*ino, &**file)),
            Node::Dir(_) | Node::Link(_) => None,
        })
    }

    /// A path of everything that the cache has a name for, directories included.
    pub(super) fn paths(&self) -> BTreeMap<Ino, PathBuf> {
        let mut paths = BTreeMap::from([(ROOT, PathBuf::from("/"))]);
        let mut todo = vec![ROOT];
        while let Some(ino) = todo.pop() {
            let Some(Node::Dir(dir)) = self.nodes.get(&ino) else {
                continue;
            };
            for (name, entry) in &dir.now {
                let path = paths[&ino].join(&**name);
                paths.insert(*entry, path);
                todo.push(*entry);
            }
        }
        paths
    }

    /// A number for everything that can be read, by name and content.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut todo = vec![ROOT];
        while let Some(ino) = todo.pop() {
            match &self.nodes[&ino] {
                Node::Dir(dir) => {
                    dir.now.keys().collect::<Vec<_>>().hash(&mut hasher);
                    todo.extend(dir.now.values());
                }
                Node::File(file) => file.bytes().hash(&mut hasher),
                Node::Link(target) => target.hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    pub(super) fn set_file(&mut self, ino: Ino, file: SimFile) {
        self.nodes.insert(ino, Node::File(Arc::new(file)));
    }
}

/// The error that the operating system would give.
pub(super) fn refused(kind: io::ErrorKind) -> Cause {
    Cause::Io(kind.into())
}
