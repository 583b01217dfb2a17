//! Access control: the one place that decides, asked before an operation runs.

use super::auth::{Caller, Principal};
use super::protocol::code::Code;
use super::protocol::refusal::Refusal;
use sherd_store::object::ObjectName;

/// The action of a read of an object: what a copy does to its source.
pub(crate) const READ_OBJECT: &str = "s3:GetObject";
/// The action of the deletion of an object: what a batch does to each of its keys.
pub(crate) const DELETE_OBJECT: &str = "s3:DeleteObject";
/// The action of a read of an object's tags: what a copy that keeps them does to its source, and what a read
/// of an object does that says how many there are.
pub(crate) const READ_TAGS: &str = "s3:GetObjectTagging";
/// The action of a change of an object's tags: what a write of an object does that brings some.
pub(crate) const WRITE_TAGS: &str = "s3:PutObjectTagging";

/// The resource that a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// All buckets.
    Service,
    /// A bucket.
    Bucket(&'a str),
    /// An object, by its bucket and its key.
    Object(&'a str, &'a str),
}

impl<'a> Resource<'a> {
    /// An object.
    pub(crate) fn of(name: &'a ObjectName) -> Self {
        Self::Object(name.bucket.name().as_str(), name.key.as_str())
    }
}

/// Facts of a request that the conditions of a policy name.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Its headers.
    pub headers: &'a http::HeaderMap,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The caller may.
    Allowed,
    /// The caller may not.
    Denied,
}

/// Decides. Cheap to clone, and to ask: it answers from memory.
#[derive(Debug, Clone, Default)]
pub struct Authorizer {}

impl Authorizer {
    /// Whether `caller` may do `action` to `resource` in a request with these facts. Root, the only
    /// principal, may do everything.
    pub fn decide(
        &self,
        caller: &Caller,
        _action: &str,
        _resource: Resource<'_>,
        _facts: Facts<'_>,
    ) -> Decision {
        match caller.principal() {
            Principal::Root => Decision::Allowed,
        }
    }
}

/// The rights of the caller of one request. The frame asks for its operation; an operation that reads a
/// source, or works on the keys of a document, asks for each of those.
#[derive(Debug, Clone)]
pub struct Access {
    authorizer: Authorizer,
    caller: Caller,
    /// An action on an object that tests deny: root, the only principal, may do everything.
    #[cfg(test)]
    denied: Vec<(&'static str, ObjectName)>,
}

impl Access {
    /// Of a caller, as an authorizer decides.
    pub(crate) const fn new(authorizer: Authorizer, caller: Caller) -> Self {
        Self {
            authorizer,
            caller,
            #[cfg(test)]
            denied: Vec::new(),
        }
    }

    /// Asks whether the caller may do `action` to `resource`.
    ///
    /// # Errors
    /// AccessDenied.
    pub(crate) fn check(
        &self,
        action: &str,
        resource: Resource<'_>,
        facts: Facts<'_>,
    ) -> Result<(), Refusal> {
        #[cfg(test)]
        if self.denied.iter().any(|(denied, name)| *denied == action && Resource::of(name) == resource) {
            return Err(Refusal::new(Code::AccessDenied));
        }
        match self.authorizer.decide(&self.caller, action, resource, facts) {
            Decision::Allowed => Ok(()),
            Decision::Denied => Err(Refusal::new(Code::AccessDenied)),
        }
    }
}

#[cfg(test)]
impl Access {
    /// Root's, but for one action on one object.
    pub(crate) fn denying(action: &'static str, name: ObjectName) -> Self {
        let denied = vec![(action, name)];
        Self { denied, ..Self::new(Authorizer::default(), Caller::new("AKID")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_may_do_everything() {
        let (caller, headers) = (Caller::new("AKID"), http::HeaderMap::new());
        for (action, resource) in [
            ("s3:ListAllMyBuckets", Resource::Service),
            ("s3:DeleteBucket", Resource::Bucket("b")),
            ("s3:PutObject", Resource::Object("b", "k")),
        ] {
            let facts = Facts { headers: &headers };
            assert_eq!(Authorizer::default().decide(&caller, action, resource, facts), Decision::Allowed);
        }
    }
}
