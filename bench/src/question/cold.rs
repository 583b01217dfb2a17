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
    /// Bytes that this process had read from devices by then; `None` where nobody counts them.
    read_before: Option<u64>,
}

impl Cold {
    /// Takes every file below a folder out of the page cache.
    pub(super) fn begin(folder: &Path) -> Result<Self, Error> {
        evict(folder).map_err(Error::at("empty the page cache"))?;
        Ok(Self { read_before: read_from_devices() })
    }

    /// Flags the row of a cold measurement that handed out so many bytes, unless as many came from the
    /// device.
    pub(super) fn end(cold: Option<Self>, mut row: Row, bytes: u64) -> Row {
        let Some(Self { read_before }) = cold else { return row };
        match read_before.zip(read_from_devices()).map(|(before, now)| now.saturating_sub(before)) {
            Some(from_device) if from_device >= bytes => {}
            Some(from_device) => {
                let percent = from_device.saturating_mul(100) / bytes;
                row.flags.push(format!("not cold: {percent} % from the device"));
            }
            None => row.flags.push("not known to be cold".to_owned()),
        }
        row
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

/// Bytes that this process has had read from devices (proc(5), `read_bytes` of `/proc/pid/io`), where
/// the kernel counts them.
fn read_from_devices() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Command;

    const BYTES: usize = 1 << 20;
    /// Set in a process that only runs this test: what others read in the same process counts too.
    const CHILD: &str = "SHERD_TEST_COLD";

    /// Whether reads from this folder can be seen to be cold. Not everywhere: tmpfs has no device, ZFS keeps
    /// a cache of its own, and what the network brings is not counted.
    pub(in crate::question) fn can_be_seen(folder: &Path) -> bool {
        let magic = rustix::fs::statfs(folder).unwrap().f_type;
        let is_known =
            [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC].contains(&magic);
        let can_be_seen = is_known && read_from_devices().is_some();
        if !can_be_seen {
            eprintln!("SKIPPED: whether reads are cold cannot be seen in {}", folder.display());
        }
        can_be_seen
    }

    fn flags_of_a_read(folder: &Path) -> Vec<String> {
        let cold = Cold::begin(folder).unwrap();
        let mut found = Vec::new();
        std::fs::File::open(folder.join("file")).unwrap().read_to_end(&mut found).unwrap();
        Cold::end(Some(cold), Row::new([]), found.len() as u64).flags
    }

    #[test]
    fn a_row_is_flagged_when_the_page_cache_kept_the_file() {
        let folder = tempfile::tempdir().unwrap();
        if !can_be_seen(folder.path()) {
            return;
        }
        if std::env::var_os(CHILD).is_some() {
            return kept_and_not_kept(folder.path());
        }
        let name = "question::cold::tests::a_row_is_flagged_when_the_page_cache_kept_the_file";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        assert!(child.status.success(), "{child:?}");
    }

    fn kept_and_not_kept(folder: &Path) {
        let path = folder.join("file");
        // Bytes that no filesystem makes fewer of.
        let mut bytes = vec![0; BYTES];
        getrandom::fill(&mut bytes).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        assert!(flags_of_a_read(folder).is_empty());
        #[expect(unsafe_code, reason = "maps a file")]
        // SAFETY: Nobody writes the file while it is mapped.
        let map = unsafe { memmap2::Mmap::map(&std::fs::File::open(&path).unwrap()) }.unwrap();
        assert_eq!(*map, *bytes, "every page is mapped");
        assert_eq!(flags_of_a_read(folder), ["not cold: 0 % from the device"]);
        drop(map);
        assert!(flags_of_a_read(folder).is_empty());
    }
}
