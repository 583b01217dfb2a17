//! The state that every operation works on.

use sherd_store::iam::Iam;
use sherd_store::object::Objects;

/// The region that S3 calls by no name.
pub(super) const REGION_DEFAULT: &str = "us-east-1";

/// The operations of S3 on a store.
#[derive(Clone)]
pub struct Gateway {
    pub(super) objects: Objects,
    pub(super) iam: Iam,
    pub(super) region: String,
    pub(super) reserved_buckets: &'static [&'static str],
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("region", &self.region).finish_non_exhaustive()
    }
}
