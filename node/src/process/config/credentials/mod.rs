//! The root credentials: where they come from, and how they are kept out of sight.
//!
//! No pair is a default. A pair comes from two variables, or from a file of
//! `KEY=VALUE` lines that a shell can source too; `dev` makes such a file once. The file may hold a secondary
//! pair, which is accepted too while clients change from one to the other. A [`Secret`] prints as dots, so no
//! log line, error or debug output carries one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::config::limits::CREDENTIALS_BYTES_MAX;
use crate::process::config::private_file::{self, PrivateFileError};
use base64::Engine as _;
use sherd_core::env::Rng;

/// The variable with the access key id.
pub const ACCESS_KEY_VARIABLE: &str = "SHERD_ACCESS_KEY_ID";
/// The variable with the secret.
pub const SECRET_KEY_VARIABLE: &str = "SHERD_SECRET_ACCESS_KEY";
/// The name of a credentials file that is made.
pub(crate) const CREDENTIALS_FILE: &str = "credentials.env";
/// The line of a credentials file with the access key id.
pub const ACCESS_KEY_LINE: &str = "AWS_ACCESS_KEY_ID";
/// The line of a credentials file with the secret.
pub const SECRET_KEY_LINE: &str = "AWS_SECRET_ACCESS_KEY";

/// The line of a credentials file with the access key id of the secondary pair.
pub const SECONDARY_ACCESS_KEY_LINE: &str = "AWS_ACCESS_KEY_ID_SECONDARY";
/// The line of a credentials file with the secret of the secondary pair.
pub const SECONDARY_SECRET_KEY_LINE: &str = "AWS_SECRET_ACCESS_KEY_SECONDARY";

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself: for signing, and to print a pair that was made here.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An access key id and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name that a client gives itself.
    pub access_key_id: String,
    /// The secret that it signs with.
    pub secret_access_key: Secret,
}

/// The key pairs that are accepted as root's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootPairs {
    /// The pair of most clients.
    pub first: Credentials,
    /// Another one, with another id, while clients change from one to the other.
    pub secondary: Option<Credentials>,
}

/// The reason why credentials are missing.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCredentials {
    /// Neither variables nor a file.
    #[error(
        "no credentials: set {ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}, or credentials_file; there is no default"
    )]
    Absent,
    /// Half of the credentials is missing.
    #[error("{missing} is not set, though the other half of the credentials is")]
    Half {
        /// The variable that is not set.
        missing: &'static str,
    },
    /// The file cannot be read or written, or is open to others.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// A line is not `KEY=VALUE`, or names a key twice or one that is not known.
    #[error("{path}:{line}: expected {ACCESS_KEY_LINE}=... and {SECRET_KEY_LINE}=..., and for a secondary pair {SECONDARY_ACCESS_KEY_LINE}=... and {SECONDARY_SECRET_KEY_LINE}=..., once each", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The file ends without one of the two.
    #[error("{path} has no line {missing}=...", path = path.display())]
    MissingLine {
        /// The file.
        path: PathBuf,
        /// The key that it lacks.
        missing: &'static str,
    },
    /// The two pairs of a file have one access key id.
    #[error("{path}: {ACCESS_KEY_LINE} and {SECONDARY_ACCESS_KEY_LINE} are one id: a secondary pair has another", path = path.display())]
    SameId {
        /// The file.
        path: PathBuf,
    },
    /// The access key id cannot stand in a signature's scope.
    #[error("the access key id has 3 to 128 letters, digits, '.', '-' or '_'")]
    AccessKeyId,
    /// The secret is too short to be one.
    #[error("the secret access key has 8 to 128 visible ASCII characters")]
    SecretAccessKey,
}

impl Credentials {
    fn new(access_key_id: String, secret: String) -> Result<Self, InvalidCredentials> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if !(3..=128).contains(&access_key_id.len()) || !access_key_id.bytes().all(plain) {
            return Err(InvalidCredentials::AccessKeyId);
        }
        if !(8..=128).contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidCredentials::SecretAccessKey);
        }
        Ok(Self { access_key_id, secret_access_key: Secret(secret) })
    }

    /// Takes the pair from the variables, `None` when neither is set. An empty variable is not set.
    ///
    /// # Errors
    /// [`InvalidCredentials`] when only one is set, or one is malformed.
    pub fn from_variables(
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, InvalidCredentials> {
        Self::from_pair(variable, [ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE])
    }

    /// As [`Self::from_variables`], of variables with these names: of the id and of the secret.
    ///
    /// # Errors
    /// As there.
    pub fn from_pair(
        variable: &dyn Fn(&str) -> Option<String>,
        [id, secret]: [&'static str; 2],
    ) -> Result<Option<Self>, InvalidCredentials> {
        let read = |name| variable(name).filter(|value| !value.is_empty());
        match (read(id), read(secret)) {
            (Some(id), Some(secret)) => Self::new(id, secret).map(Some),
            (None, None) => Ok(None),
            (Some(_), None) => Err(InvalidCredentials::Half { missing: secret }),
            (None, Some(_)) => Err(InvalidCredentials::Half { missing: id }),
        }
    }

    fn lines(&self) -> String {
        let Self { access_key_id, secret_access_key: Secret(secret) } = self;
        format!("{ACCESS_KEY_LINE}={access_key_id}\n{SECRET_KEY_LINE}={secret}\n")
    }

    /// Makes a random pair: 100 bits of id, 240 of secret.
    pub fn random(rng: &dyn Rng) -> Self {
        const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let mut id_bytes = [0; 20];
        rng.fill(&mut id_bytes);
        let letter = |byte: u8| char::from(ALPHABET[usize::from(byte % 32)]);
        let access_key_id = id_bytes.into_iter().map(letter).collect();
        let mut secret_bytes = [0; 30];
        rng.fill(&mut secret_bytes);
        let secret = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret_bytes);
        Self::new(access_key_id, secret).expect("20 letters and digits, 40 visible characters")
    }

    /// Writes the pair to a new file of mode 0600. A crash leaves the whole file or none.
    ///
    /// # Errors
    /// [`InvalidCredentials::File`] says which step failed.
    pub fn write_new(&self, path: &Path) -> Result<(), InvalidCredentials> {
        Ok(private_file::write_new(path, self.lines().as_bytes())?)
    }
}

impl From<Credentials> for RootPairs {
    fn from(first: Credentials) -> Self {
        Self { first, secondary: None }
    }
}

impl RootPairs {
    /// Reads one or two pairs from a file whose permission bits all lie within `allowed_mode`.
    ///
    /// # Errors
    /// [`InvalidCredentials`] when it cannot be read, is open to others, or is malformed.
    pub fn from_file(path: &Path, allowed_mode: u32) -> Result<Self, InvalidCredentials> {
        let bytes = private_file::read(path, allowed_mode, CREDENTIALS_BYTES_MAX)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let source = io::Error::from(io::ErrorKind::InvalidData);
            PrivateFileError::Io { op: "read", path: path.to_owned(), source }
        })?;
        Self::parse(&text, path)
    }

    /// Reads the pairs of a file, or makes a random one where the file is not there.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn find_or_make(path: &Path, allowed_mode: u32, rng: &dyn Rng) -> Result<Self, InvalidCredentials> {
        match Self::from_file(path, allowed_mode) {
            Err(InvalidCredentials::File(error)) if error.is_missing() => {
                let made = Credentials::random(rng);
                made.write_new(path)?;
                Ok(made.into())
            }
            found => found,
        }
    }

    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, InvalidCredentials> {
        let (mut first, mut secondary) = ([None, None], [None, None]);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = || InvalidCredentials::Line { path: path.to_owned(), line: index + 1 };
            let (key, value) = line.split_once('=').ok_or_else(bad)?;
            let [first_id, first_secret] = &mut first;
            let [secondary_id, secondary_secret] = &mut secondary;
            let place = match key {
                ACCESS_KEY_LINE => first_id,
                SECRET_KEY_LINE => first_secret,
                SECONDARY_ACCESS_KEY_LINE => secondary_id,
                SECONDARY_SECRET_KEY_LINE => secondary_secret,
                _ => return Err(bad()),
            };
            if place.replace(value.to_owned()).is_some() {
                return Err(bad());
            }
        }
        let pair = |[id, secret]: [Option<String>; 2], names: [&'static str; 2]| {
            let missing = |missing| InvalidCredentials::MissingLine { path: path.to_owned(), missing };
            let [id_name, secret_name] = names;
            Credentials::new(id.ok_or_else(|| missing(id_name))?, secret.ok_or_else(|| missing(secret_name))?)
        };
        let first = pair(first, [ACCESS_KEY_LINE, SECRET_KEY_LINE])?;
        let secondary = match secondary {
            [None, None] => None,
            lines => Some(pair(lines, [SECONDARY_ACCESS_KEY_LINE, SECONDARY_SECRET_KEY_LINE])?),
        };
        if secondary.as_ref().is_some_and(|other| other.access_key_id == first.access_key_id) {
            return Err(InvalidCredentials::SameId { path: path.to_owned() });
        }
        Ok(Self { first, secondary })
    }

    /// The lines of a file with these pairs.
    #[cfg(any(test, fuzzing))]
    pub(super) fn lines(&self) -> String {
        let Self { first, secondary } = self;
        let secondary =
            secondary.as_ref().map(|Credentials { access_key_id, secret_access_key: Secret(secret) }| {
                format!("{SECONDARY_ACCESS_KEY_LINE}={access_key_id}\n{SECONDARY_SECRET_KEY_LINE}={secret}\n")
            });
        first.lines() + &secondary.unwrap_or_default()
    }

    /// The pairs, the first one first.
    pub fn each(&self) -> impl Iterator<Item = &Credentials> {
        let Self { first, secondary } = self;
        std::iter::once(first).chain(secondary)
    }
}

#[cfg(test)]
mod tests;
