//! The names of the faulty disk: directories as processes see them, as the device has them, and
//! the changes between the two.
//!
//! A change of names (create, rename, remove) is atomic: a crash keeps all of it or none. Which
//! changes a crash keeps is arbitrary; those that are kept happen in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Component, Path};

use super::chance::{Keep, SplitMix};
use super::content::FileNode;
use crate::disk::Entry;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(u64);

pub(super) type DirId = NodeId;

impl NodeId {
    pub(super) const fn inode(self) -> u64 {
        self.0
    }
}

pub(super) type Assignment = (DirId, String, Option<NodeId>);

type Names = BTreeMap<String, NodeId>;

#[derive(Debug, Clone)]
enum TreeNode {
    File { file: FileNode, handles: u64 },
    Dir { live: Names, durable: Names },
}

#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: BTreeMap<NodeId, TreeNode>,
    next: u64,
    pending: Vec<Vec<Assignment>>,
}

const ROOT: DirId = NodeId(2);

impl Tree {
    pub(super) fn new() -> Self {
        let root = TreeNode::Dir { live: Names::new(), durable: Names::new() };
        Self { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT.0 + 1, pending: Vec::new() }
    }

    fn add(&mut self, node: TreeNode) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    pub(super) fn new_file(&mut self) -> NodeId {
        self.add(TreeNode::File { file: FileNode::default(), handles: 0 })
    }

    fn names(&self, dir: DirId) -> io::Result<&Names> {
        match self.nodes.get(&dir) {
            Some(TreeNode::Dir { live, .. }) => Ok(live),
            Some(TreeNode::File { .. }) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut at = ROOT;
        for name in components(path)? {
            at = *self.names(at)?.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    pub(super) fn find_dir(&self, path: &Path) -> io::Result<DirId> {
        let dir = self.find(path)?;
        self.names(dir).map(|_| dir)
    }

    pub(super) fn names_mark(&self, path: &Path) -> io::Result<u64> {
        let dir = self.find(path)?;
        let mut hasher = std::hash::DefaultHasher::new();
        (dir, self.names(dir)?).hash(&mut hasher);
        Ok(hasher.finish())
    }

    pub(super) fn find_file(&self, path: &Path) -> io::Result<NodeId> {
        let node = self.find(path)?;
        if self.is_dir(node) { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(node) }
    }

    pub(super) fn is_dir(&self, node: NodeId) -> bool {
        matches!(self.nodes.get(&node), Some(TreeNode::Dir { .. }))
    }

    /// The directory that a path's last name stands in, and that name.
    pub(super) fn parent(&self, path: &Path) -> io::Result<(DirId, String)> {
        let mut names = components(path)?;
        let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let mut at = ROOT;
        for name in names {
            at = *self.names(at)?.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        self.names(at).map(|_| (at, name))
    }

    pub(super) fn file(&mut self, node: NodeId) -> io::Result<&mut FileNode> {
        match self.nodes.get_mut(&node) {
            Some(TreeNode::File { file, .. }) => Ok(file),
            Some(TreeNode::Dir { .. }) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn hold(&mut self, node: NodeId) {
        if let Some(TreeNode::File { handles, .. }) = self.nodes.get_mut(&node) {
            *handles += 1;
        }
    }

    pub(super) fn release(&mut self, node: NodeId) {
        if let Some(TreeNode::File { handles, .. }) = self.nodes.get_mut(&node) {
            *handles = handles.saturating_sub(1);
        }
    }

    pub(super) fn open_files(&self) -> u64 {
        let handles = self.nodes.values().map(|node| match node {
            TreeNode::File { handles, .. } => *handles,
            TreeNode::Dir { .. } => 0,
        });
        handles.sum()
    }

    pub(super) fn release_all(&mut self) {
        for node in self.nodes.values_mut() {
            if let TreeNode::File { handles, .. } = node {
                *handles = 0;
            }
        }
    }

    /// Space that files take: those with a name, and those open without one.
    pub(super) fn used(&self) -> u64 {
        let named = self.reachable(|node| match node {
            TreeNode::Dir { live, .. } => Some(live),
            TreeNode::File { .. } => None,
        });
        let spaces = self.nodes.iter().filter_map(|(id, node)| match node {
            TreeNode::File { file, handles } if *handles > 0 || named.contains(id) => Some(file.space()),
            TreeNode::File { .. } | TreeNode::Dir { .. } => None,
        });
        spaces.sum()
    }

    fn reachable(&self, names: impl Fn(&TreeNode) -> Option<&Names>) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::from([ROOT]);
        let mut ahead = vec![ROOT];
        while let Some(id) = ahead.pop() {
            let below = self.nodes.get(&id).and_then(&names).into_iter().flat_map(Names::values);
            ahead.extend(below.copied().filter(|id| found.insert(*id)));
        }
        found
    }

    pub(super) fn entries(&self, dir: DirId) -> Vec<Entry> {
        let names = self.names(dir).into_iter().flatten();
        names.map(|(name, node)| Entry { name: name.clone(), is_dir: self.is_dir(*node) }).collect()
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let mut at = ROOT;
        for name in components(path)? {
            at = if let Some(there) = self.names(at)?.get(name) {
                *there
            } else {
                let dir = self.add(TreeNode::Dir { live: Names::new(), durable: Names::new() });
                self.change(vec![(at, name.to_owned(), Some(dir))]);
                dir
            };
        }
        self.names(at).map(|_| ())
    }

    /// Changes names, visible at once, durable after a sync of their directories.
    pub(super) fn change(&mut self, change: Vec<Assignment>) {
        for assignment in &change {
            self.assign(assignment, false);
        }
        self.pending.push(change);
    }

    fn assign(&mut self, (dir, name, node): &Assignment, is_durable: bool) {
        if let Some(TreeNode::Dir { live, durable }) = self.nodes.get_mut(dir) {
            let names = if is_durable { durable } else { live };
            match node {
                Some(node) => names.insert(name.clone(), *node),
                None => names.remove(name),
            };
        }
    }

    /// Makes the names in a directory durable, with every earlier change of the same names.
    pub(super) fn sync(&mut self, dir: DirId) {
        let mut covered: BTreeSet<(DirId, String)> = BTreeSet::new();
        let mut now = Vec::new();
        let mut later = Vec::new();
        for change in std::mem::take(&mut self.pending).into_iter().rev() {
            let is_covered =
                change.iter().any(|(at, name, _)| *at == dir || covered.contains(&(*at, name.clone())));
            if is_covered {
                covered.extend(change.iter().map(|(at, name, _)| (*at, name.clone())));
                now.push(change);
            } else {
                later.push(change);
            }
        }
        for assignment in now.iter().rev().flatten() {
            self.assign(assignment, true);
        }
        later.reverse();
        self.pending = later;
    }

    /// Loses power: names and contents become what the device is left with.
    pub(super) fn crash(&mut self, keep: Keep, rng: &mut SplitMix) {
        let pending = std::mem::take(&mut self.pending);
        let style = rng.below(4);
        let until = rng.index(pending.len() + 1);
        for (index, change) in pending.iter().enumerate() {
            let is_kept = match keep {
                Keep::Nothing => false,
                Keep::Everything => true,
                Keep::Some if style == 0 => index < until,
                Keep::Some => rng.below(4) < style,
            };
            if is_kept {
                for assignment in change {
                    self.assign(assignment, true);
                }
            }
        }
        let left = self.reachable(|node| match node {
            TreeNode::Dir { durable, .. } => Some(durable),
            TreeNode::File { .. } => None,
        });
        self.nodes.retain(|id, _| left.contains(id));
        for node in self.nodes.values_mut() {
            match node {
                TreeNode::File { file, handles } => {
                    file.crash(keep, rng);
                    *handles = 0;
                }
                TreeNode::Dir { live, durable } => live.clone_from(durable),
            }
        }
    }
}

/// The names of a path, from the root on; a relative path starts there too.
fn components(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(text(name)?),
            Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(names)
}

fn text(name: &OsStr) -> io::Result<&str> {
    name.to_str().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
