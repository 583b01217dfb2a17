//! Small filesystems for volumes that are to run full, and volumes that cannot be written. They need to
//! mount.

use std::path::PathBuf;
use std::process::Command;

/// Filesystems over folders, unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounts(Vec<PathBuf>);

impl Mounts {
    /// A mount of this size (`640m`) over each folder; `None` where this user must not mount.
    pub(crate) fn new(folders: Vec<PathBuf>, size: &str) -> Option<Self> {
        let mut mounts = Self(Vec::new());
        for folder in folders {
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&folder);
            if !mount.output().is_ok_and(|output| output.status.success()) {
                return None;
            }
            mounts.0.push(folder);
        }
        Some(mounts)
    }

    /// Each folder over itself, as it is; nothing where this user must not mount.
    pub(crate) fn over(folders: Vec<PathBuf>) -> Option<Self> {
        let mut mounts = Self(Vec::new());
        for folder in folders {
            let bound = Command::new("mount").arg("--bind").args([&folder, &folder]).output();
            if !bound.is_ok_and(|output| output.status.success()) {
                return None;
            }
            mounts.0.push(folder);
        }
        Some(mounts)
    }

    /// Lets the folders with these numbers, from 1, be written or not. Each was bound over itself.
    pub(crate) fn are_writable(&self, numbers: &[usize], are_they: bool) {
        let options = if are_they { "remount,bind,rw" } else { "remount,bind,ro" };
        for number in numbers {
            let remounted = Command::new("mount").args(["-o", options]).arg(&self.0[number - 1]).output();
            let remounted = remounted.expect("mount was there a moment ago");
            assert!(remounted.status.success(), "{}", String::from_utf8_lossy(&remounted.stderr));
        }
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for folder in &self.0 {
            // Lazily: in a test that fails the node still runs.
            drop(Command::new("umount").arg("-l").arg(folder).output());
        }
    }
}
