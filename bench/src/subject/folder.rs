//! Folders of a started store and of a race: made for it, named after the process that made them, and removed
//! with all that is in them. Folders of a process that was killed are removed by the next one.

use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use super::tool::Tool;
use crate::host::proc;
use crate::limits::STORE_FOLDERS;

/// Prefix of the folders' names: no other folder is removed.
const FOLDER_PREFIX: &str = "sherd-bench-";

/// A folder that ends with its value.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Makes a folder in `parent` that carries this process's id, after removing those of killed runs.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new(name: &str, parent: &Path) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        remove_left_over(parent);
        let parent = fs::canonicalize(parent)?;
        for number in 0_u32.. {
            let folder = parent.join(format!("{FOLDER_PREFIX}{name}-{}-{number}", std::process::id()));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(folder)),
            }
        }
        unreachable!("numbers do not end")
    }

    /// Makes one with a folder for each disk of a store in it.
    pub(super) fn of_store(tool: &Tool, parent: &Path) -> io::Result<Self> {
        let folder = Self::new(&tool.name, parent)?;
        for number in 1..=STORE_FOLDERS {
            fs::create_dir(folder.0.join(number.to_string()))?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let disks: Vec<PathBuf> =
            fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        // A store may leave a million files: the disks' folders go side by side.
        thread::scope(|scope| {
            for disk in disks.iter().filter(|path| path.is_dir()) {
                // The removal of the parent tries the rest again and reports its error.
                scope.spawn(move || drop(fs::remove_dir_all(disk)));
            }
        });
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("sherd-bench: remove {}: {error}", self.0.display());
        }
    }
}

/// Removes the folders of runs that were killed: those whose process is gone.
fn remove_left_over(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut parts = name.strip_prefix(FOLDER_PREFIX).unwrap_or_default().rsplit('-');
        let (Some(Ok(_)), Some(Ok(pid))) =
            (parts.next().map(str::parse::<u32>), parts.next().map(str::parse::<u32>))
        else {
            continue;
        };
        if !proc::is_alive(pid) {
            // A folder that cannot be removed stays; the next run tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_ended_runs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let ended = format!("{FOLDER_PREFIX}x-{}-0", u32::MAX);
        let running = format!("{FOLDER_PREFIX}x-{}-0", std::process::id());
        let foreign = format!("backup-{}-0", u32::MAX);
        for name in [&ended, &running, &foreign] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_left_over(folder.path());
        let left = |name: &str| folder.path().join(name).exists();
        assert!(!left(&ended) && left(&running) && left(&foreign));
    }
}
