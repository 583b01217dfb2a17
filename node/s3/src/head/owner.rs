//! The owner of buckets, objects and uploads: one account, with ids that never change.

use s3s::dto::{Grant, Grantee, Initiator, Owner, Permission, Type};

/// The account's number, as `x-amz-expected-bucket-owner` names it: 12 digits, as AWS's are.
pub(crate) const ACCOUNT: &str = "000000000001";

/// The account's canonical id: 64 hex digits, as AWS's are.
const ID: &str = "7368657264000000000000000000000000000000000000000000000000000001";
/// The account's name.
const NAME: &str = "sherd";

/// Whether an id is the owner's.
pub(crate) fn is_owner(id: &str) -> bool {
    id == ID
}

/// The owner of everything.
pub(crate) fn owner() -> Owner {
    Owner { display_name: Some(NAME.to_owned()), id: Some(ID.to_owned()) }
}

/// The initiator of every upload.
pub(crate) fn initiator() -> Initiator {
    Initiator { display_name: Some(NAME.to_owned()), id: Some(ID.to_owned()) }
}

/// The one grant of every access control list, as where the owner's policies alone decide.
pub(crate) fn full_control() -> Grant {
    let grantee = Grantee {
        display_name: Some(NAME.to_owned()),
        email_address: None,
        id: Some(ID.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    Grant { grantee: Some(grantee), permission: Some(Permission::from_static(Permission::FULL_CONTROL)) }
}
