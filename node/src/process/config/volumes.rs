//! Directories of the node's volumes: patterns expanded, then checked on the machine.
//!
//! `/data/v{1...4}` stands for four paths; `{01...10}` keeps the zeros; several braces multiply.
//! A volume must exist already: an unmounted filesystem must not turn into a new, empty volume on
//! the root disk.

#![expect(clippy::disallowed_methods, reason = "says whether a directory can be a volume at all")]

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::pattern::{self, InvalidPattern};
use crate::process::config::limits::VOLUMES_MAX;

/// Why the volumes as written are not volumes.
#[derive(Debug, thiserror::Error)]
pub enum InvalidVolumes {
    /// No volume is named.
    #[error("no volume is named")]
    None,
    /// Braces without a numeric range in them.
    #[error("{pattern:?}: a range is written {{1...4}}, first number not above the last")]
    Range {
        /// The pattern as written.
        pattern: String,
    },
    /// More than a node can have.
    #[error("more than {VOLUMES_MAX} volumes")]
    TooMany,
    /// A path that depends on where the process was started.
    #[error("{path} is relative: a volume is named by its absolute path")]
    Relative {
        /// The path as expanded.
        path: PathBuf,
    },
    /// Two names of one directory.
    #[error("{first} and {second} are the same directory: each volume is a directory of its own")]
    Same {
        /// Named first.
        first: PathBuf,
        /// Named again.
        second: PathBuf,
    },
    /// Not there.
    #[error("{path} does not exist: mount or make it first")]
    Absent {
        /// The volume.
        path: PathBuf,
    },
    /// There, and something else.
    #[error("{path} is not a directory")]
    NotDirectory {
        /// The volume.
        path: PathBuf,
    },
    /// There, but not for this process.
    #[error("{path} cannot be written by this process: {source}")]
    Unwritable {
        /// The volume.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Expands patterns into paths, in the order written. Says nothing of what is on the machine.
///
/// # Errors
/// [`InvalidVolumes`] for no path, a bad range, too many paths, or a relative one.
pub fn expand(patterns: &[String]) -> Result<Vec<PathBuf>, InvalidVolumes> {
    let mut paths = Vec::new();
    for pattern in patterns {
        let expanded = pattern::expand(pattern, VOLUMES_MAX).map_err(|why| match why {
            InvalidPattern::Range => InvalidVolumes::Range { pattern: pattern.clone() },
            InvalidPattern::TooMany => InvalidVolumes::TooMany,
        })?;
        if paths.len() + expanded.len() > VOLUMES_MAX {
            return Err(InvalidVolumes::TooMany);
        }
        paths.extend(expanded.into_iter().map(PathBuf::from));
    }
    if paths.is_empty() {
        return Err(InvalidVolumes::None);
    }
    match paths.iter().find(|path| path.is_relative()) {
        Some(path) => Err(InvalidVolumes::Relative { path: path.clone() }),
        None => Ok(paths),
    }
}

/// Checks on the machine that every path is a directory of its own, and that this process can use one of them
/// at least. A disk that failed, or whose filesystem went read-only, is an offline volume of a node that
/// serves the others; it is taken up when it can be written again.
///
/// # Errors
/// [`InvalidVolumes`] names the first path that cannot be a volume at all, or, where none can be used, the
/// first.
pub fn check(paths: &[PathBuf]) -> Result<(), InvalidVolumes> {
    let mut seen: HashMap<(u64, u64), &Path> = HashMap::new();
    let mut unusable: Vec<InvalidVolumes> = Vec::new();
    for path in paths {
        let unwritable = |source| InvalidVolumes::Unwritable { path: path.clone(), source };
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(InvalidVolumes::Absent { path: path.clone() });
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(unwritable(error)),
            Err(error) => {
                unusable.push(unwritable(error));
                continue;
            }
        };
        if !metadata.is_dir() {
            return Err(InvalidVolumes::NotDirectory { path: path.clone() });
        }
        // By device and inode, so that neither a symbolic link nor `/data/../data` hides a twin.
        if let Some(first) = seen.insert((metadata.dev(), metadata.ino()), path) {
            return Err(InvalidVolumes::Same { first: first.to_owned(), second: path.clone() });
        }
        if let Err(errno) = rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
            unusable.push(unwritable(errno.into()));
        }
    }
    if unusable.len() < paths.len() {
        return Ok(());
    }
    unusable.into_iter().next().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let paths = expand(&patterns).expect("a valid pattern");
        paths.into_iter().map(|path| path.to_str().expect("made from text").to_owned()).collect()
    }

    fn refused(patterns: &[&str]) -> InvalidVolumes {
        let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        expand(&patterns).expect_err("an invalid pattern")
    }

    #[test]
    fn a_range_becomes_one_path_per_number() {
        assert_eq!(expanded(&["/data/v{1...3}", "/more"]), ["/data/v1", "/data/v2", "/data/v3", "/more"]);
        assert_eq!(expanded(&["/data/v{9...11}"]), ["/data/v9", "/data/v10", "/data/v11"]);
        assert_eq!(expanded(&["/data/v{2...2}"]), ["/data/v2"]);
    }

    #[test]
    fn leading_zeros_are_kept() {
        assert_eq!(expanded(&["/v{08...10}"]), ["/v08", "/v09", "/v10"]);
        assert_eq!(expanded(&["/v{0...1}"]), ["/v0", "/v1"]);
    }

    #[test]
    fn several_ranges_multiply() {
        assert_eq!(expanded(&["/r{1...2}/v{1...2}"]), ["/r1/v1", "/r1/v2", "/r2/v1", "/r2/v2"]);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for pattern in
            ["/v{4...1}", "/v{1..4}", "/v{a...b}", "/v{1...4", "/v1}", "/v{}", "/v{-1...2}", "/v}{1...2}"]
        {
            assert!(matches!(refused(&[pattern]), InvalidVolumes::Range { .. }), "{pattern}");
        }
    }

    #[test]
    fn absurdly_many_volumes_are_refused_without_making_them() {
        assert!(matches!(refused(&["/v{1...99999999999}"]), InvalidVolumes::TooMany));
        assert!(matches!(refused(&["/v{1...1000}/w{1...1000}"]), InvalidVolumes::TooMany));
        assert!(matches!(refused(&["/v{1...1000}", "/w{1...1000}"]), InvalidVolumes::TooMany));
    }

    #[test]
    fn relative_paths_and_no_paths_are_refused() {
        assert!(matches!(refused(&["/a", "data/v1"]), InvalidVolumes::Relative { .. }));
        assert!(matches!(refused(&[]), InvalidVolumes::None));
    }

    #[test]
    fn one_directory_under_two_names_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let volume = dir.path().join("v1");
        let link = dir.path().join("v2");
        std::fs::create_dir(&volume).expect("a new directory");
        std::os::unix::fs::symlink(&volume, &link).expect("a new link");
        check(std::slice::from_ref(&volume)).expect("one volume");
        assert!(matches!(check(&[volume, link]), Err(InvalidVolumes::Same { .. })));
    }

    #[test]
    fn a_missing_directory_and_a_file_are_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("file");
        std::fs::write(&file, b"").expect("a new file");
        assert!(matches!(check(&[file]), Err(InvalidVolumes::NotDirectory { .. })));
        assert!(matches!(check(&[dir.path().join("absent")]), Err(InvalidVolumes::Absent { .. })));
    }

    #[test]
    fn a_path_that_cannot_be_reached_is_refused_with_the_systems_reason() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("file");
        std::fs::write(&file, b"").expect("a new file");
        let below_a_file = file.join("v1");
        assert!(matches!(
            check(&[below_a_file]),
            Err(InvalidVolumes::Unwritable { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory
        ));
    }
}
