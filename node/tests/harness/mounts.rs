//! Small filesystems for volumes that are to run full. They need to mount.

use std::path::PathBuf;
use std::process::Command;

/// Small filesystems, unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounts(Vec<PathBuf>);

impl Mounts {
    /// One of this size (`640m`) over each folder; nothing where this user must not mount.
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
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for folder in &self.0 {
            // Lazily: in a test that fails the node still runs.
            drop(Command::new("umount").arg("-l").arg(folder).output());
        }
    }
}
