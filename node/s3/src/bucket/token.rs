//! Continuation tokens: opaque to clients, checked when they come back.
//!
//! ```text
//! token   := base64url(kind u8, name, crc u32 little endian over kind and name)
//! ```
//!
//! The name is where the next page begins. The checksum finds typing errors and tokens of another
//! listing; it is not a secret: a caller with the right to list may begin anywhere.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crc_fast::CrcAlgorithm;

use crate::wire::refusal::Refusal;

/// The listing that a token belongs to. The numbers stand in tokens that clients hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ListingKind {
    /// ListBuckets.
    Buckets = 1,
    /// ListObjectsV2.
    Objects = 2,
}

/// The token that continues a listing behind `name`.
pub(crate) fn encode(listing: ListingKind, name: &str) -> String {
    let mut bytes = vec![listing as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&crc(&bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The name behind which a listing continues.
///
/// # Errors
/// InvalidArgument for anything that [`encode`] did not make for this listing.
pub(crate) fn decode(listing: ListingKind, token: &str) -> Result<String, Refusal> {
    name_in(listing, token).ok_or_else(|| {
        Refusal::bad_argument("The continuation token provided is incorrect", "continuation-token", token)
    })
}

fn name_in(listing: ListingKind, token: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (checked, sum) = bytes.split_last_chunk::<4>()?;
    let (kind, name) = checked.split_first()?;
    if crc(checked) != *sum || *kind != listing as u8 {
        return None;
    }
    String::from_utf8(name.to_vec()).ok()
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    u32::try_from(sum).expect("a CRC-32 has 32 bits").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::refusal::Code;

    proptest! {
        #[test]
        fn tokens_come_back(name in ".{0,40}") {
            prop_assert_eq!(decode(ListingKind::Objects, &encode(ListingKind::Objects, &name)).unwrap(), name);
        }

        #[test]
        fn nonsense_is_refused_and_never_panics(token in ".{0,60}") {
            if let Ok(name) = decode(ListingKind::Objects, &token) {
                prop_assert_eq!(encode(ListingKind::Objects, &name), token);
            }
        }
    }

    #[test]
    fn a_changed_token_is_refused() {
        let token = encode(ListingKind::Objects, "photos/2026");
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let error = decode(ListingKind::Objects, &changed).expect_err(&changed);
            assert_eq!(error.code, Code::InvalidArgument);
        }
        for text in ["", "AAAA", "photos", "=", &token[1..]] {
            assert!(decode(ListingKind::Objects, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_token_belongs_to_one_listing() {
        assert!(decode(ListingKind::Buckets, &encode(ListingKind::Objects, "a")).is_err());
    }
}
