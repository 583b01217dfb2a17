//! Who owns buckets, objects and uploads: one account, with an id that never changes.

use s3s::dto::{Initiator, Owner};

/// The account's canonical id: 64 hex digits, as AWS's are.
const ID: &str = "7368657264000000000000000000000000000000000000000000000000000001";
/// Its name.
const NAME: &str = "sherd";

/// The owner of everything.
pub(super) fn owner() -> Owner {
    Owner { display_name: Some(NAME.to_owned()), id: Some(ID.to_owned()) }
}

/// Whoever begins uploads.
pub(super) fn initiator() -> Initiator {
    Initiator { display_name: Some(NAME.to_owned()), id: Some(ID.to_owned()) }
}
