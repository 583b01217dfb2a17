//! Names, paths and ids of IAM's entities, with AWS's rules for each.

use std::fmt;

use crate::env::Rng;
use crate::id::{ObjectKey, RegisterKey};
use crate::limits::{
    IAM_GROUP_NAME_CHARS_MAX, IAM_KEY_ID_CHARS_MAX, IAM_KEY_ID_CHARS_MIN, IAM_PATH_CHARS_MAX,
    IAM_POLICY_NAME_CHARS_MAX, IAM_USER_NAME_CHARS_MAX,
};

use super::ACCOUNT;

/// The letters of ids: base32 of RFC 4648.
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Letters of an id behind the four of its kind.
const ID_LETTERS: usize = 17;
/// Letters of a key's id behind the four of its kind.
const KEY_LETTERS: usize = 16;
/// The first letters of every key's id.
const KEY_PREFIX: &[u8; 4] = b"AKIA";

/// A name, a path or an id breaks its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntity {
    /// A name of a user, group or policy.
    #[error("a name has 1 to {max} of the characters a-z, A-Z, 0-9 and _+=,.@-")]
    Name {
        /// Characters that it may have.
        max: usize,
    },
    /// A path.
    #[error("a path begins and ends with a slash and has at most {IAM_PATH_CHARS_MAX} characters")]
    Path,
    /// An id.
    #[error("an id has four letters of its kind, and letters of base32")]
    Id,
}

/// The kinds of entities that have a name, a path and an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntityKind {
    /// A user.
    User,
    /// A group of users.
    Group,
    /// A managed policy.
    Policy,
}

impl EntityKind {
    /// The first part of its registers' names, with the slash behind it.
    pub const fn registers(self) -> &'static str {
        match self {
            Self::User => "iam/user/",
            Self::Group => "iam/group/",
            Self::Policy => "iam/policy/",
        }
    }

    /// Name of the kind as IAM writes it in ARNs and messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Policy => "policy",
        }
    }

    /// The register of the entity of a name, however it is capitalised.
    ///
    /// # Errors
    /// [`InvalidEntity::Name`] where no such entity can have the name.
    ///
    /// # Panics
    /// Never: the name of a register is a key.
    pub fn register(self, name: &str) -> Result<RegisterKey, InvalidEntity> {
        self.check_name(name)?;
        let name = format!("{}{}", self.registers(), name.to_ascii_lowercase());
        Ok(RegisterKey::bucket(ObjectKey::new(name).expect("some 140 letters")))
    }

    /// Checks a name.
    ///
    /// # Errors
    /// [`InvalidEntity::Name`].
    pub fn check_name(self, name: &str) -> Result<(), InvalidEntity> {
        let max = match self {
            Self::User => IAM_USER_NAME_CHARS_MAX,
            Self::Group => IAM_GROUP_NAME_CHARS_MAX,
            Self::Policy => IAM_POLICY_NAME_CHARS_MAX,
        };
        let is_good = (1..=max).contains(&name.len()) && name.bytes().all(is_of_names);
        if is_good { Ok(()) } else { Err(InvalidEntity::Name { max }) }
    }

    /// The ARN of an entity.
    pub fn arn(self, path: &str, name: &str) -> String {
        format!("arn:aws:iam::{ACCOUNT}:{}{path}{name}", self.word())
    }

    /// Name of the kind at the beginning of a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
            Self::Policy => "A policy",
        }
    }

    const fn id_prefix(self) -> &'static str {
        match self {
            Self::User => "AIDA",
            Self::Group => "AGPA",
            Self::Policy => "ANPA",
        }
    }
}

/// Checks the name of an inline policy.
///
/// # Errors
/// [`InvalidEntity::Name`].
pub fn check_policy_name(name: &str) -> Result<(), InvalidEntity> {
    EntityKind::Policy.check_name(name)
}

/// Checks a path: `/`, or more between slashes, of the printable characters of ASCII.
///
/// # Errors
/// [`InvalidEntity::Path`].
pub fn check_path(path: &str) -> Result<(), InvalidEntity> {
    let inner = path.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    let is_inner = |inner: &str| !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_graphic());
    let is_good = path == "/" || (path.len() <= IAM_PATH_CHARS_MAX && inner.is_some_and(is_inner));
    if is_good { Ok(()) } else { Err(InvalidEntity::Path) }
}

const fn is_of_names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'=' | b',' | b'.' | b'@' | b'-')
}

/// The id of a user (`AIDA...`), a group (`AGPA...`) or a managed policy (`ANPA...`): 21 letters, never given
/// twice.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityId(String);

impl EntityId {
    /// Draws one.
    pub fn draw(kind: EntityKind, rng: &dyn Rng) -> Self {
        let letters: [u8; ID_LETTERS] = draw_letters(rng);
        Self(kind.id_prefix().chars().chain(letters.map(char::from)).collect())
    }

    /// From its letters.
    ///
    /// # Errors
    /// [`InvalidEntity::Id`] where no id is written so.
    pub fn parse(text: String) -> Result<Self, InvalidEntity> {
        let kinds = [EntityKind::User, EntityKind::Group, EntityKind::Policy];
        let rest = kinds.iter().find_map(|kind| text.strip_prefix(kind.id_prefix()));
        match rest {
            Some(rest) if rest.len() == ID_LETTERS && rest.bytes().all(is_of_ids) => Ok(Self(text)),
            _ => Err(InvalidEntity::Id),
        }
    }

    /// Letters of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of an access key: one that was drawn here, `AKIA` and 16 letters, never given twice; or one that
/// another store gave its user, 3 to 64 of the characters a-z, A-Z, 0-9 and `_+.@-`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessKeyId {
    /// Letters of the id, and zeros behind them.
    letters: [u8; IAM_KEY_ID_CHARS_MAX],
    length: u8,
}

impl AccessKeyId {
    /// The first part of the names of all keys' registers.
    pub const REGISTERS: &'static str = "iam/key/";
    /// The first part of the names of the registers that hold keys' last uses.
    pub const USES: &'static str = "iam/use/";

    /// Draws one.
    pub fn draw(rng: &dyn Rng) -> Self {
        let letters: [u8; KEY_LETTERS] = draw_letters(rng);
        Self::of(KEY_PREFIX.iter().chain(&letters))
    }

    /// The id that these letters are; `None` where no key here can have such an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_long_enough = (IAM_KEY_ID_CHARS_MIN..=IAM_KEY_ID_CHARS_MAX).contains(&text.len());
        (is_long_enough && text.bytes().all(is_of_given_ids)).then(|| Self::of(text.as_bytes()))
    }

    /// From at most 64 letters.
    fn of<'a>(text: impl IntoIterator<Item = &'a u8>) -> Self {
        let mut id = Self { letters: [0; IAM_KEY_ID_CHARS_MAX], length: 0 };
        for (to, from) in id.letters.iter_mut().zip(text) {
            *to = *from;
            id.length += 1;
        }
        id
    }

    /// Letters of the name.
    ///
    /// # Panics
    /// Never: they are ASCII.
    pub fn as_str(&self) -> &str {
        let letters = self.letters.get(..usize::from(self.length)).expect("no longer than all");
        std::str::from_utf8(letters).expect("checked when it was made")
    }

    /// Whether it has not the form of those that are drawn here.
    pub fn is_given(&self) -> bool {
        let drawn = self.as_str().as_bytes().strip_prefix(KEY_PREFIX);
        !drawn.is_some_and(|letters| letters.len() == KEY_LETTERS && letters.iter().copied().all(is_of_ids))
    }

    /// The register of the key. Of a given id it has a tilde and the letters as they are: two ids may differ
    /// in case alone, and no other id has a tilde.
    pub fn register(self) -> RegisterKey {
        self.register_below(Self::REGISTERS)
    }

    /// The register of its last use.
    pub fn register_of_use(self) -> RegisterKey {
        self.register_below(Self::USES)
    }

    fn register_below(self, prefix: &str) -> RegisterKey {
        let name = if self.is_given() {
            format!("{prefix}~{self}")
        } else {
            format!("{prefix}{}", self.as_str().to_ascii_lowercase())
        };
        RegisterKey::bucket(ObjectKey::new(name).expect("at most 73 letters"))
    }
}

impl fmt::Debug for AccessKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for AccessKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const fn is_of_given_ids(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'.' | b'@' | b'-')
}

const fn is_of_ids(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7')
}

/// Each letter takes five bits of a random byte.
fn draw_letters<const N: usize>(rng: &dyn Rng) -> [u8; N] {
    let mut drawn = [0; N];
    rng.fill(&mut drawn);
    drawn.map(|byte| LETTERS.get(usize::from(byte % 32)).copied().unwrap_or(b'A'))
}
