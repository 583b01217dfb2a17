//! Whether a file or object is the same on both sides, by what a list says of it.

use std::path::Path;

use md5::{Digest as _, Md5};

use super::side::SideEntry;
use crate::limits::{FRAME_BYTES, SAME_TIME};
use crate::transfer::engine::blocking;
use crate::transfer::job::JobEnd;

/// Properties by which two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum Comparison {
    /// Sizes, and the target is not older than the source
    #[default]
    Time,
    /// Sizes alone
    Size,
    /// Sizes and ETags: a file's MD5 is computed; where an ETag is not an MD5, times decide
    Etag,
}

/// Whether `target` is what `source` would be copied to.
pub(crate) async fn is_same(source: &SideEntry, target: &SideEntry, comparison: Comparison) -> bool {
    if source.bytes != target.bytes {
        return false;
    }
    match comparison {
        Comparison::Size => true,
        Comparison::Time => is_not_older(source, target),
        Comparison::Etag => match (&source.etag, &target.etag) {
            (Some(one), Some(other)) if one == other => true,
            _ => match (md5(source).await, md5(target).await) {
                (Some(one), Some(other)) => one == other,
                _ => is_not_older(source, target),
            },
        },
    }
}

fn is_not_older(source: &SideEntry, target: &SideEntry) -> bool {
    match (source.modified, target.modified) {
        (Some(source), Some(target)) => source <= target + SAME_TIME,
        _ => false,
    }
}

/// The MD5 of a file, or of an object whose ETag is one.
async fn md5(entry: &SideEntry) -> Option<String> {
    match (&entry.end, &entry.etag) {
        (JobEnd::Object { .. }, Some(etag)) => {
            let plain = etag.trim_matches('"');
            (plain.len() == 32 && plain.bytes().all(|byte| byte.is_ascii_hexdigit()))
                .then(|| plain.to_owned())
        }
        (JobEnd::File(path), _) => {
            let path = path.clone();
            blocking(move || file_md5(&path)).await.ok()
        }
        (JobEnd::Object { .. }, None) => None,
    }
}

fn file_md5(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let (mut md5, mut buffer) = (Md5::new(), vec![0; FRAME_BYTES]);
    loop {
        match std::io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(hex::encode(md5.finalize())),
            bytes => md5.update(buffer.get(..bytes).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn entry(bytes: u64, second: u64) -> SideEntry {
        SideEntry {
            name: String::new(),
            bytes,
            modified: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second)),
            etag: None,
            end: JobEnd::File(PathBuf::from("/none")),
            is_behind_link: false,
        }
    }

    #[tokio::test]
    async fn sizes_and_times_decide() {
        let same = async |source, target, comparison| is_same(&source, &target, comparison).await;
        assert!(same(entry(1, 5), entry(1, 9), Comparison::Time).await, "uploaded later");
        assert!(same(entry(1, 5), entry(1, 5), Comparison::Time).await);
        assert!(!same(entry(1, 9), entry(1, 5), Comparison::Time).await, "changed since");
        assert!(!same(entry(1, 5), entry(2, 9), Comparison::Time).await);
        assert!(same(entry(1, 9), entry(1, 5), Comparison::Size).await);
        assert!(!same(entry(1, 9), entry(1, 5), Comparison::Etag).await, "without ETags times decide");
    }

    #[test]
    fn the_md5_of_a_file_is_its_plain_etag() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(file_md5(&path).unwrap(), "5d41402abc4b2a76b9719d911017c592");
    }
}
