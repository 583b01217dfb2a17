//! The file of the master key: 32 bytes, closed to others.

use std::path::{Path, PathBuf};

use sherd_core::env::Rng;
use sherd_store::iam::MasterKey;

use super::private_file::{self, PrivateFileError};

/// The name of a file that is made.
pub(crate) const FILE: &str = "master.key";

/// The file of the master key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidMasterKey {
    /// The file cannot be read or written, or is open to others.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The file has another length than a key.
    #[error("{path} has {} bytes: a master key is {} random bytes", .bytes.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string()), MasterKey::BYTES, path = path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes of the file; `None` where there are more than a key has.
        bytes: Option<usize>,
    },
}

/// Reads the master key from a file whose permission bits all lie within `allowed_mode`.
///
/// # Errors
/// [`InvalidMasterKey`] when it cannot be read, is open to others, or has not 32 bytes.
pub fn from_file(path: &Path, allowed_mode: u32) -> Result<MasterKey, InvalidMasterKey> {
    let bytes = private_file::read(path, allowed_mode, MasterKey::BYTES as u64 + 1)?;
    let Ok(key) = <&[u8; MasterKey::BYTES]>::try_from(&bytes[..]) else {
        let bytes = (bytes.len() < MasterKey::BYTES).then_some(bytes.len());
        return Err(InvalidMasterKey::Length { path: path.to_owned(), bytes });
    };
    Ok(MasterKey::new(key))
}

/// Reads the master key, or makes a random one where the file is not there.
///
/// # Errors
/// As [`from_file`].
pub fn find_or_make(path: &Path, allowed_mode: u32, rng: &dyn Rng) -> Result<MasterKey, InvalidMasterKey> {
    match from_file(path, allowed_mode) {
        Err(InvalidMasterKey::File(error)) if error.is_missing() => {
            let mut bytes = [0; MasterKey::BYTES];
            rng.fill(&mut bytes);
            private_file::write_new(path, &bytes)?;
            Ok(MasterKey::new(&bytes))
        }
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use sherd_store::machine::system::SystemRng;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("master.key");
        let made = find_or_make(&path, 0o600, &SystemRng).expect("made");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(find_or_make(&path, 0o600, &SystemRng).expect("found"), made);
        assert_eq!(from_file(&path, 0o660).expect("found"), made);
    }

    #[test]
    fn a_file_of_another_length_or_open_to_others_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("master.key");
        for (length, said) in [(0, "has 0 bytes"), (31, "has 31 bytes"), (33, "has more bytes")] {
            private_file::write_new(&path, &vec![7; length]).expect("written");
            let refused = from_file(&path, 0o660).expect_err("of another length").to_string();
            assert!(refused.contains(said) && refused.contains("32 random bytes"), "{refused}");
        }
        private_file::write_new(&path, &[7; 32]).expect("written");
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, open).expect("it is ours");
        let refused = from_file(&path, 0o660).expect_err("open to others");
        assert!(matches!(refused, InvalidMasterKey::File(PrivateFileError::Mode { mode: 0o644, .. })));
        let missing = from_file(&folder.path().join("none"), 0o660).expect_err("not there");
        assert!(missing.to_string().starts_with("open "), "{missing}");
    }
}
