//! Access control lists: as in a bucket of AWS with Object Ownership `BucketOwnerEnforced`, its default since
//! April 2023. They decide nothing, and the only one that is taken gives the owner full control.

use http::HeaderValue;
use s3s::dto::{ObjectCannedACL, ObjectOwnership};

use crate::wire::refusal::{Code, Refusal};

/// The lists that leave everything to the owner.
const OWNERS: [&str; 2] = [ObjectCannedACL::PRIVATE, ObjectCannedACL::BUCKET_OWNER_FULL_CONTROL];
/// The others that AWS has names for.
const OTHERS: [&str; 6] = [
    ObjectCannedACL::PUBLIC_READ,
    ObjectCannedACL::PUBLIC_READ_WRITE,
    ObjectCannedACL::AUTHENTICATED_READ,
    ObjectCannedACL::AWS_EXEC_READ,
    ObjectCannedACL::BUCKET_OWNER_READ,
    "log-delivery-write",
];

/// How lists are treated that give access to others than the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsupportedAcl {
    /// Refused, as by AWS.
    Refuse,
    /// Ignored, together with those that are taken: a write is answered as if it had brought no list, and a
    /// list that is put is answered 200. Nothing is stored of it.
    Ignore,
}

/// Whether a header brings a list or a part of one; named without its `x-amz-`.
pub(crate) fn is_list(rest: &str) -> bool {
    rest == "acl" || rest.starts_with("grant-")
}

/// Judges a list by its name, the value of `x-amz-acl`.
///
/// # Errors
/// `not_supported` for a list that gives access to others than the owner, InvalidArgument for a name that AWS
/// does not have.
pub(crate) fn canned(value: &HeaderValue, not_supported: Code) -> Result<(), Refusal> {
    let name = String::from_utf8_lossy(value.as_bytes());
    if OWNERS.contains(&&*name) {
        Ok(())
    } else if OTHERS.contains(&&*name) {
        Err(Refusal::new(not_supported))
    } else {
        Err(Refusal::bad_argument(Code::InvalidArgument.message(), "x-amz-acl", &name))
    }
}

/// Judges the ownership that a bucket is made with, the value of `x-amz-object-ownership`.
///
/// # Errors
/// AccessControlListNotSupported for one with lists, InvalidArgument for one that AWS does not have.
pub(crate) fn ownership(value: &HeaderValue) -> Result<(), Refusal> {
    const HEADER: &str = "x-amz-object-ownership";
    match value.to_str().unwrap_or_default() {
        ObjectOwnership::BUCKET_OWNER_ENFORCED => Ok(()),
        ObjectOwnership::BUCKET_OWNER_PREFERRED | ObjectOwnership::OBJECT_WRITER => {
            Err(Refusal::new(Code::AccessControlListNotSupported))
        }
        other => {
            let message = format!("Invalid {HEADER} header: {other}");
            Err(Refusal::says(Code::InvalidArgument, message)
                .with("ArgumentName", HEADER)
                .with("ArgumentValue", other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owners_control_is_taken() {
        let lacking = Code::AccessControlListNotSupported;
        let code = |name| canned(&HeaderValue::from_static(name), lacking).map_err(|refusal| refusal.code);
        for name in OWNERS {
            assert_eq!(code(name), Ok(()));
        }
        for name in OTHERS {
            assert_eq!(code(name), Err(lacking), "{name}");
        }
        for name in ["", "Private", "everyone"] {
            assert_eq!(code(name), Err(Code::InvalidArgument), "{name}");
        }
    }

    #[test]
    fn a_bucket_is_its_owners() {
        let code = |name| ownership(&HeaderValue::from_static(name)).map_err(|refusal| refusal.code);
        assert_eq!(code("BucketOwnerEnforced"), Ok(()));
        assert_eq!(code("ObjectWriter"), Err(Code::AccessControlListNotSupported));
        assert_eq!(code("BucketOwnerPreferred"), Err(Code::AccessControlListNotSupported));
        assert_eq!(code("mine"), Err(Code::InvalidArgument));
    }
}
