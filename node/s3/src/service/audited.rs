//! Names in the record of a request what the protocol finds out about it, where there is an audit log.

use http::request::Parts;
use http::{Extensions, Method};
use sherd_front::audit::record::AuditRecord;
use sherd_front::callers::Caller;
use sherd_signature::error::AuthError;

use crate::operation::Operation;
use crate::wire::address::{Address, BadAddress};
use crate::wire::context::RequestId;

/// The name of a caller without a signature.
const ANONYMOUS: &str = "anonymous";

/// Names what a request is, before anything of it is judged. Returns its record.
pub(super) fn begin(
    parts: &Parts,
    id: RequestId,
    address: &Result<Address, BadAddress>,
) -> Option<AuditRecord> {
    let audit = AuditRecord::of(&parts.extensions)?;
    audit.name_request(id.as_str());
    if let Ok(Address { bucket, key, .. }) = address {
        audit.name_object(bucket, key);
    }
    if parts.method == Method::OPTIONS {
        audit.name_operation("Preflight");
        audit.name_caller(ANONYMOUS);
    }
    Some(audit.clone())
}

/// Names the operation.
pub(super) fn name_operation(extensions: &Extensions, operation: Operation) {
    if let Some(audit) = AuditRecord::of(extensions) {
        audit.name_operation(operation.name());
    }
}

/// Names the key that a field of a form gives.
pub(super) fn name_key(extensions: &Extensions, key: &str) {
    if let Some(audit) = AuditRecord::of(extensions) {
        audit.name_object("", key);
    }
}

/// Names the caller, or the access key that was not proven to be the caller's.
pub(super) fn name_caller(extensions: &Extensions, caller: Result<&Caller, &AuthError>) {
    let Some(audit) = AuditRecord::of(extensions) else { return };
    if let Ok(caller) = caller {
        audit.name_caller(caller.arn());
        if !caller.access_key().is_empty() {
            audit.name_access_key(caller.access_key(), true);
        }
    }
    if let Err(AuthError::Anonymous) = caller {
        audit.name_caller(ANONYMOUS);
    }
    if let Err(AuthError::UnknownAccessKey { access_key }) = caller {
        audit.name_access_key(access_key, false);
    }
    if let Err(AuthError::SignatureMismatch(mismatch)) = caller {
        audit.name_access_key(&mismatch.access_key, true);
    }
}
