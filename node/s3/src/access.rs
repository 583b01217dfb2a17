//! Access control: the one place that decides, asked before an operation runs.

use super::auth::{Caller, Principal};

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

/// Decides. Cheap to ask: it answers from memory.
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
