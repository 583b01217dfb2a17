//! Keys as paths below a folder. A key that would leave the folder has no path.

use std::path::{Path, PathBuf};

use crate::error::{Error, NameFault};
use crate::limits::KEY_BYTES_MAX;

/// Returns the path of a key, relative to what was asked for, below a folder.
pub(crate) fn path_of(folder: &Path, key: &str) -> Result<PathBuf, Error> {
    let mut path = folder.to_owned();
    for part in key.split('/') {
        if matches!(part, "" | "." | "..") {
            return Err(Error::name(key, NameFault::Outside));
        }
        if part.contains('\0') {
            return Err(Error::name(key, NameFault::Character));
        }
        path.push(part);
    }
    Ok(path)
}

/// Returns the key of a name below a prefix.
pub(crate) fn key_of(prefix: &str, name: &str) -> Result<String, Error> {
    let key = format!("{prefix}{name}");
    if key.len() > KEY_BYTES_MAX { Err(Error::name(key, NameFault::Long)) } else { Ok(key) }
}

/// The name of a path's last part.
pub(crate) fn file_name(path: &Path) -> Result<&str, Error> {
    let name = path.file_name().ok_or_else(|| Error::name(path.display().to_string(), NameFault::Outside))?;
    name.to_str().ok_or_else(|| Error::name(path.display().to_string(), NameFault::NotUtf8))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_stays_below_its_folder_or_has_no_path() {
        let path = |key: &str| path_of(Path::new("/t"), key).ok();
        assert_eq!(path("a/b c"), Some(PathBuf::from("/t/a/b c")));
        assert_eq!(path("..."), Some(PathBuf::from("/t/...")));
        for key in ["", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".", "./a", "a/./b", "a\0b"] {
            assert_eq!(path(key), None, "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn no_key_leaves_its_folder(key in "[./a\\\\]{0,12}") {
            if let Ok(path) = path_of(Path::new("/t"), &key) {
                let expected = format!("/t/{key}");
                prop_assert_eq!(path.to_str(), Some(expected.as_str()));
                prop_assert!(path.components().all(|part| part != std::path::Component::ParentDir));
            }
        }
    }
}
