//! Aliases: names for an endpoint and the keys for it, in one file that only its owner may read.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::endpoint::AddressingStyle;
use crate::error::{CredentialsError, Error};

/// The mode of the file: it has secrets.
const MODE: u32 = 0o600;

/// An endpoint, and the keys for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// `http://host:port` or `https://host`.
    pub endpoint: String,
    /// The access key; none for requests without a signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// The secret key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
    /// The region that requests are signed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// How buckets stand in a URL.
    #[serde(default)]
    pub addressing: AddressingStyle,
    /// A file of certificates that are trusted instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for Alias {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alias").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// All aliases of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aliases {
    /// By name.
    #[serde(default)]
    pub alias: BTreeMap<String, Alias>,
}

impl Aliases {
    /// Reads the file; one that is not there has no alias. Blocks.
    ///
    /// # Errors
    /// [`CredentialsError::Unreadable`], [`CredentialsError::Malformed`].
    pub fn read(path: &Path) -> Result<Self, CredentialsError> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).map_err(|error| CredentialsError::Malformed {
                path: path.to_owned(),
                reason: error.message().to_owned(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(CredentialsError::Unreadable { path: path.to_owned(), source }),
        }
    }

    /// Replaces the file at once, readable by its owner alone. Blocks.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        let text = toml::to_string(self).expect("names and texts are TOML");
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let written = (|| {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(MODE).open(&temporary)?;
            // A file that was there keeps its mode when it is opened.
            file.set_permissions(std::fs::Permissions::from_mode(MODE))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)
        })();
        written.map_err(Error::file("write", path))
    }

    /// Returns the alias of a name.
    ///
    /// # Errors
    /// [`CredentialsError::NoAlias`].
    pub fn get(&self, name: &str) -> Result<&Alias, CredentialsError> {
        self.alias.get(name).ok_or_else(|| CredentialsError::NoAlias(name.to_owned()))
    }
}

/// Whether a name may be an alias: it begins a URL, `name://bucket/key`.
pub fn is_alias_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(is_letter) && !["s3", "http", "https", "file"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_come_back_from_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sherd/aliases.toml");
        assert_eq!(Aliases::read(&path).unwrap(), Aliases::default());
        let alias = Alias {
            endpoint: "http://127.0.0.1:9000".to_owned(),
            access_key: Some("A".to_owned()),
            secret_key: Some("hidden".to_owned()),
            region: None,
            addressing: AddressingStyle::Path,
            ca: None,
        };
        assert!(!format!("{alias:?}").contains("hidden"));
        let aliases = Aliases { alias: [("local".to_owned(), alias)].into() };
        aliases.write(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        aliases.write(&path).unwrap();
        assert_eq!(Aliases::read(&path).unwrap(), aliases);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        std::fs::write(&path, "[alias.a]\nendpont = 1\n").unwrap();
        assert!(matches!(Aliases::read(&path), Err(CredentialsError::Malformed { .. })));
    }

    #[test]
    fn names_of_aliases_cannot_be_schemes() {
        let good = ["prod-1", "a_b", "s3", "https", "", "a.b", "a/b"];
        let good: Vec<_> = good.into_iter().filter(|name| is_alias_name(name)).collect();
        assert_eq!(good, ["prod-1", "a_b"]);
    }
}
