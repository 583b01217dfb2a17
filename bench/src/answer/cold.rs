//! Reads that find nothing in the page cache, and the proof that they found nothing there.
//!
//! The kernel keeps what somebody has mapped and drops the rest, without a word about either. So a
//! measurement that is called cold counts what the process read from the device meanwhile.

use std::io;
use std::path::Path;

use super::Error;
use crate::result::Row;

/// A measurement that began with nothing in the page cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cold {
    /// Bytes that this process had read from devices by then.
    read_before: u64,
}

impl Cold {
    /// Takes every file below a folder out of the page cache.
    pub(super) fn begin(folder: &Path) -> Result<Self, Error> {
        evict(folder).map_err(Error::at("empty the page cache"))?;
        Ok(Self { read_before: read_from_devices().map_err(Error::at("look at what is read"))? })
    }

    /// Flags the row of a cold measurement that handed out so many bytes, if fewer came from the device.
    pub(super) fn end(cold: Option<Self>, mut row: Row, bytes: u64) -> Result<Row, Error> {
        let Some(Self { read_before }) = cold else { return Ok(row) };
        let read_now = read_from_devices().map_err(Error::at("look at what was read"))?;
        let from_device = read_now.saturating_sub(read_before);
        if from_device < bytes {
            row.flags
                .push(format!("not cold: {} % from the device", from_device.saturating_mul(100) / bytes));
        }
        Ok(row)
    }
}

/// Writes what is not written yet, and drops the pages of every file below a folder.
fn evict(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            evict(&entry.path())?;
        } else {
            let file = std::fs::File::open(entry.path())?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Bytes that this process has had read from devices (proc(5), `read_bytes` of `/proc/pid/io`).
fn read_from_devices() -> io::Result<u64> {
    let counters = std::fs::read_to_string("/proc/self/io")?;
    let bytes = counters.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    bytes.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| io::Error::other("no read_bytes"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Command;

    const BYTES: usize = 1 << 20;
    /// Set in a process that only runs this test: what others read in the same process counts too.
    const CHILD: &str = "SHERD_TEST_COLD";

    /// Whether files of this folder come from a device.
    pub(in crate::answer) fn has_device(folder: &Path) -> bool {
        rustix::fs::statfs(folder).unwrap().f_type != libc::TMPFS_MAGIC
    }

    fn flags_of_a_read(folder: &Path) -> Vec<String> {
        let cold = Cold::begin(folder).unwrap();
        let mut found = Vec::new();
        std::fs::File::open(folder.join("file")).unwrap().read_to_end(&mut found).unwrap();
        Cold::end(Some(cold), Row::new([]), found.len() as u64).unwrap().flags
    }

    #[test]
    fn a_row_is_flagged_when_the_page_cache_kept_the_file() {
        if std::env::var_os(CHILD).is_some() {
            return kept_and_not_kept();
        }
        let name = "answer::cold::tests::a_row_is_flagged_when_the_page_cache_kept_the_file";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        assert!(child.status.success(), "{child:?}");
    }

    fn kept_and_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; BYTES]).unwrap();
        if !has_device(folder.path()) {
            assert_eq!(flags_of_a_read(folder.path()), ["not cold: 0 % from the device"]);
            return;
        }
        assert!(flags_of_a_read(folder.path()).is_empty());
        #[expect(unsafe_code, reason = "maps a file")]
        // SAFETY: Nobody writes the file while it is mapped.
        let map = unsafe { memmap2::Mmap::map(&std::fs::File::open(&path).unwrap()) }.unwrap();
        assert!(map.iter().all(|byte| *byte == 7), "every page is mapped");
        assert_eq!(flags_of_a_read(folder.path()), ["not cold: 0 % from the device"]);
        drop(map);
        assert!(flags_of_a_read(folder.path()).is_empty());
    }
}
