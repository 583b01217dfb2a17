//! Bodies that identify themselves: a reader can tell which write one is from, and that every byte is there.
//!
//! A body begins with its id and its length and goes on with a stream of pseudo-random bytes made
//! from them: half of one and half of another is never taken for either.

use std::ops::RangeInclusive;

use md5::{Digest as _, Md5};

/// Bytes before the stream: id and length.
pub(crate) const HEAD_BYTES: usize = 16;

/// The body of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Body {
    /// Number of the write.
    pub(crate) id: u64,
    /// Bytes, at least [`HEAD_BYTES`].
    pub(crate) len: usize,
}

impl Body {
    /// Content of the body.
    pub(crate) fn bytes(self) -> Vec<u8> {
        assert!(self.len >= HEAD_BYTES, "a body has room for its head");
        let mut bytes = Vec::with_capacity(self.len);
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&(self.len as u64).to_le_bytes());
        let stream = blake3::Hasher::new().update(&bytes).finalize_xof();
        bytes.resize(self.len, 0);
        let mut stream = stream;
        stream.fill(&mut bytes[HEAD_BYTES..]);
        bytes
    }

    /// Finds the write that these bytes are from.
    ///
    /// # Errors
    /// The fault, if they are not one write's: cut, mixed or changed.
    pub(crate) fn recognise(bytes: &[u8]) -> Result<Self, String> {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        };
        let (Some(id), Some(len)) = (word(0), word(8)) else {
            return Err(format!("{} bytes have no head", bytes.len()));
        };
        let body = Self { id, len: usize::try_from(len).map_err(|error| error.to_string())? };
        if body.len != bytes.len() {
            return Err(format!("{} bytes of a body of {len}", bytes.len()));
        }
        let right = body.bytes();
        if right == bytes {
            return Ok(body);
        }
        let at = right.iter().zip(bytes).position(|(right, found)| right != found);
        Err(format!("body {id} of {len} bytes differs at {at:?}"))
    }

    /// The entity tag of one PUT of it.
    pub(crate) fn etag(self) -> String {
        format!("\"{}\"", hex::encode(Md5::digest(self.bytes())))
    }

    /// The entity tag of an upload of it in parts of `part` bytes.
    pub(crate) fn etag_in_parts(self, part: usize) -> String {
        let bytes = self.bytes();
        let parts = bytes.chunks(part);
        let count = parts.len();
        let digests: Vec<u8> = parts.flat_map(Md5::digest).collect();
        format!("\"{}-{count}\"", hex::encode(Md5::digest(digests)))
    }
}

/// Where a set of 2+2 keeps an object's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Home {
    /// In its row.
    Inline,
    /// As shards in the log.
    Packed,
    /// As shards that are files.
    File,
}

impl Home {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Inline, Self::Packed, Self::File];

    /// Sizes of objects that live there.
    pub(crate) const fn sizes(self) -> RangeInclusive<u64> {
        match self {
            Self::Inline => 1 << 10..=8 << 10,
            Self::Packed => (8 << 10) + 1..=512 << 10,
            Self::File => 1 << 20..=4 << 20,
        }
    }
}

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// From a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From `SHERD_TEST_SEED`, or from the system; printed, so that a failure can be tried again.
    pub(crate) fn of_this_run(story: &str) -> Self {
        let given = std::env::var("SHERD_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| getrandom::u64().expect("the system has entropy"));
        eprintln!("{story}: SHERD_TEST_SEED={seed}");
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of a range.
    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.next() % (range.end() - range.start() + 1)
    }

    /// An index below a length.
    pub(crate) fn below(&mut self, len: usize) -> usize {
        usize::try_from(self.next() % len as u64).expect("below a usize")
    }

    /// Dice of their own for a worker.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// A new body of a size that lives in `home`.
    pub(crate) fn body(&mut self, home: Home) -> Body {
        let len = usize::try_from(self.within(home.sizes())).expect("a few mebibytes");
        Body { id: self.next(), len }
    }
}

#[test]
fn a_body_is_recognised_and_nothing_like_it_is() {
    let mut dice = Dice::new(1);
    let (one, other) = (dice.body(Home::Packed), dice.body(Home::Packed));
    let bytes = one.bytes();
    assert_eq!(Body::recognise(&bytes), Ok(one));
    assert!(Body::recognise(&bytes[..bytes.len() - 1]).is_err(), "cut");
    assert!(Body::recognise(&bytes[..3]).is_err(), "without a head");
    let mut changed = bytes.clone();
    changed[5000] ^= 1;
    assert!(Body::recognise(&changed).is_err(), "changed");
    let mut mixed = other.bytes();
    mixed[..HEAD_BYTES].copy_from_slice(&bytes[..HEAD_BYTES]);
    mixed.resize(one.len, 0);
    assert!(Body::recognise(&mixed).is_err(), "mixed");
}
