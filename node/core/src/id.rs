//! The names of things: newtypes for every id, so that two neighbouring integers of one type never
//! change places unseen.
//!
//! Ids that are born at random are 16 bytes and print as 32 hex digits. Ids that order events in
//! time (ballots, data ids, change ids) carry a hybrid timestamp and the random number of the
//! process that made them, which together never repeat.

use std::fmt;
use std::net::Ipv4Addr;

use bytes::Bytes;

use crate::limits;

/// Declares a 16-byte random id with hex display and parsing.
macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// Parses 32 hex digits.
            ///
            /// # Errors
            /// [`InvalidId`] when the text is anything else.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                parse_hex_16(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

random_id! {
    /// Names a cluster; every volume carries it, and refuses another's.
    ClusterId
}
random_id! {
    /// Names a volume: one directory on its own filesystem, the unit of failure. A volume that is
    /// wiped and rebuilt keeps its id and gets the next [`Life`].
    VolumeId
}
random_id! {
    /// Names a node: one process that owns volumes.
    NodeId
}
random_id! {
    /// Names one run of a node: drawn at its start.
    ProcessId
}
random_id! {
    /// Names a bucket for as long as it lives; never used again after the bucket is deleted.
    BucketId
}
random_id! {
    /// Names one version of an object. All zeros is S3's `null` version.
    VersionId
}
random_id! {
    /// Names a multipart upload.
    UploadId
}

impl BucketId {
    /// The namespace in which the registers of buckets themselves live.
    pub const SYSTEM: Self = Self([0; 16]);
}

impl VersionId {
    /// The version of objects in buckets without versioning.
    pub const NULL: Self = Self([0; 16]);
}

/// The text was not 32 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 hex digits")]
pub struct InvalidId;

fn parse_hex_16(text: &str) -> Result<[u8; 16], InvalidId> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(InvalidId);
    }
    u128::from_str_radix(text, 16).map(u128::to_be_bytes).map_err(|_| InvalidId)
}

/// A hybrid timestamp: 48 bits of wall-clock milliseconds above 16 bits of counter.
///
/// Reaches the year 10889. Ordered as time is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Before every event.
    pub const ZERO: Self = Self(0);
    /// After every event.
    pub const MAX: Self = Self(u64::MAX);

    /// The first timestamp of a millisecond.
    pub const fn from_ms(ms: u64) -> Self {
        let max = u64::MAX >> 16;
        Self((if ms > max { max } else { ms }) << 16)
    }

    /// The wall-clock part in milliseconds since the Unix epoch.
    pub const fn as_ms(self) -> u64 {
        self.0 >> 16
    }

    /// The raw bits, as they are stored.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// From the raw bits.
    pub const fn from_u64(bits: u64) -> Self {
        Self(bits)
    }

    /// Moves forward by milliseconds, stopping at the end of time.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(Self::from_ms(ms).0))
    }

    /// Moves back by milliseconds, stopping at zero.
    #[must_use]
    pub const fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(Self::from_ms(ms).0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms+{}", self.as_ms(), self.0 & 0xffff)
    }
}

/// The random number of one proposer: a run of a process, or what goes on in it under another number after
/// its clock was set back. Two never share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProposerId(pub u64);

impl fmt::Debug for ProposerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Declares an id made of a timestamp and its maker.
macro_rules! stamped_id {
    ($(#[$doc:meta])* $name:ident { $time:ident }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name {
            /// When it was made.
            pub $time: Timestamp,
            /// The process that made it.
            pub proposer: ProposerId,
        }

        impl $name {
            /// Below every id that is ever made.
            pub const ZERO: Self = Self { $time: Timestamp::ZERO, proposer: ProposerId(0) };
            /// The width of the stored form.
            pub const BYTES: usize = 16;

            /// The stored form: timestamp, then maker, both big endian, so bytes sort as ids do.
            pub fn to_bytes(self) -> [u8; 16] {
                let wide = u128::from(self.$time.as_u64()) << 64 | u128::from(self.proposer.0);
                wide.to_be_bytes()
            }

            /// From the stored form.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                let wide = u128::from_be_bytes(bytes);
                let time = u64::try_from(wide >> 64).expect("the upper half of 128 bits is 64 bits");
                let maker = u64::try_from(wide & u128::from(u64::MAX)).expect("masked to 64 bits");
                Self { $time: Timestamp::from_u64(time), proposer: ProposerId(maker) }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:016x}.{:016x})"), self.$time.as_u64(), self.proposer.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}{:016x}", self.$time.as_u64(), self.proposer.0)
            }
        }
    };
}

stamped_id! {
    /// The number of one try to change a register; every try in the cluster has its own.
    Ballot { time }
}

impl Ballot {
    /// At or above every one: as a floor, one under which no row counts as accepted.
    pub const MAX: Self = Self { time: Timestamp::MAX, proposer: ProposerId(u64::MAX) };
}

stamped_id! {
    /// Names the bytes of one body (or one manifest page). Fresh for every write, so no file is
    /// ever written twice under one name. Belongs to one key for ever.
    DataId { birth }
}
stamped_id! {
    /// Names one intended change of a register, the same over all ballots that it takes.
    ChangeId { made }
}

/// Number of a volume's life: one more with each loss of its state; 1 for a volume that never lost it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Life(pub u32);

/// Number of the topology that placed a request or a row; grows with every change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the topology that a cluster is formed with. None is lower, so a volume has seen it
    /// without a record.
    pub const FIRST: Self = Self(1);
    /// Not below any other epoch: for callers that ask under any topology.
    pub const MAX: Self = Self(u64::MAX);
}

/// Part of the key space, 0 to 16,383.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u16);

/// An erasure set, by its place in the topology.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SetId(pub u32);

/// One shard of one data id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId {
    /// The data that its bytes belong to.
    pub data: DataId,
    /// Index among the k + m shards, data shards first.
    pub index: u8,
}

/// A log position on one volume; strictly increasing, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Behind every other.
    pub const MAX: Self = Self(u64::MAX);
}

/// An object's key: 1 to 1,024 bytes of UTF-8. Also the name of a bucket, in
/// [`BucketId::SYSTEM`]. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Bytes);

/// Why bytes are not an object key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// No bytes at all.
    #[error("a key has at least one byte")]
    Empty,
    /// Longer than S3 allows.
    #[error("a key has at most {max} bytes", max = limits::KEY_BYTES_MAX)]
    TooLong,
    /// Not text.
    #[error("a key is UTF-8")]
    NotUtf8,
}

impl ObjectKey {
    /// Checks and wraps a key.
    ///
    /// # Errors
    /// [`InvalidKey`] when the bytes are empty, too long, or not UTF-8.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, InvalidKey> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if bytes.len() > limits::KEY_BYTES_MAX {
            return Err(InvalidKey::TooLong);
        }
        if std::str::from_utf8(&bytes).is_err() {
            return Err(InvalidKey::NotUtf8);
        }
        Ok(Self(bytes))
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("checked when the key was made")
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One part of one upload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartKey {
    /// The upload it belongs to.
    pub upload: UploadId,
    /// S3's 1 to 10,000, or [`PartKey::ATTRIBUTES`].
    pub number: u16,
}

impl PartKey {
    /// The number under which an upload's attributes lie.
    pub const ATTRIBUTES: u16 = 0;
}

/// Names one register: an object, a part of an upload, or (in [`BucketId::SYSTEM`]) a bucket.
///
/// A part's register lives in the slot of its object's key, so an upload never spans sets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RegisterKey {
    /// The bucket it hangs under.
    pub bucket: BucketId,
    /// The object's key.
    pub key: ObjectKey,
    /// Part number, for a part's register.
    pub part: Option<PartKey>,
}

impl RegisterKey {
    /// The register of an object.
    pub const fn object(bucket: BucketId, key: ObjectKey) -> Self {
        Self { bucket, key, part: None }
    }

    /// The register of one part of an upload to `key`.
    pub const fn part(bucket: BucketId, key: ObjectKey, part: PartKey) -> Self {
        Self { bucket, key, part: Some(part) }
    }

    /// The register of the bucket itself.
    pub const fn bucket(name: ObjectKey) -> Self {
        Self { bucket: BucketId::SYSTEM, key: name, part: None }
    }
}

/// Whether a request may name a bucket so, which may not be there.
pub fn may_be_bucket(name: &str) -> bool {
    let letter_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|&byte| letter_or_digit(byte) || byte == b'-' || byte == b'.')
        && bytes.first().copied().is_some_and(letter_or_digit)
        && bytes.last().copied().is_some_and(letter_or_digit)
        && !name.contains("..")
        && name.parse::<Ipv4Addr>().is_err()
        && !name.starts_with("xn--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamped_ids_sort_as_their_bytes() {
        let id = |time, maker| Ballot { time: Timestamp::from_u64(time), proposer: ProposerId(maker) };
        let ids = [id(0, 0), id(0, 9), id(1, 0), id(1, u64::MAX), id(u64::MAX, 3)];
        for pair in ids.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[0].to_bytes() < pair[1].to_bytes());
        }
        for ballot in ids {
            assert_eq!(Ballot::from_bytes(ballot.to_bytes()), ballot);
        }
    }

    #[test]
    fn random_ids_print_and_parse() {
        let id = BucketId([0xab; 16]);
        assert_eq!(BucketId::parse(&id.to_string()), Ok(id));
        assert_eq!(BucketId::parse("+0000000000000000000000000000001"), Err(InvalidId));
        assert_eq!(BucketId::parse("ab"), Err(InvalidId));
    }

    #[test]
    fn keys_are_checked() {
        assert_eq!(ObjectKey::new(""), Err(InvalidKey::Empty));
        assert!(ObjectKey::new(vec![b'a'; 1024]).is_ok());
        assert_eq!(ObjectKey::new(vec![b'a'; 1025]), Err(InvalidKey::TooLong));
        assert_eq!(ObjectKey::new(vec![0xff]), Err(InvalidKey::NotUtf8));
        assert!(ObjectKey::new("..//\u{1F9F1}").is_ok());
    }
}
