//! The state of the layer between requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use sherd_core::env::Clock;
use sherd_front::callers::Credentials;
use sherd_front::decision::rights::Authorizer;
use sherd_front::unproven::UnprovenWork;
use sherd_front::unproven::lane::UnprovenLane;
use sherd_front::verifier::Verifier;

use super::acl::UnsupportedAcl;
use super::body::BodyTimeouts;
use super::checksum::DeclaredChecksum;
use super::context::RequestId;
use super::cors::CorsLookup;
use super::feature;
use super::lacking::LackingFeatures;
use super::limits::Limits;
use super::refusal::Refusal;
use super::room::XmlRoom;
use crate::head::columns::Columns;
use crate::operation::Operations;
use sherd_store::machine::quantity::LivePeriod;

/// Configuration of the layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The region that requests are signed for, beside `us-east-1`.
    pub region: String,
    /// Domains under which a bucket may be a host: `s3.example.com` for `b.s3.example.com`.
    pub domains: Vec<String>,
    /// Which node answers; shown as `x-amz-id-2` and HostId. Visible ASCII.
    pub host_id: String,
    /// A random number, different in every run: request ids start from it.
    pub request_id_seed: u64,
    /// Whether URLs that are presigned with Signature Version 2 are taken.
    pub sigv2_presigned: bool,
    /// How access control lists are treated that give access to others than the owner.
    pub unsupported_acl: UnsupportedAcl,
    /// Buckets that are not made: requests for their objects are answered before they come here.
    pub reserved_buckets: &'static [&'static str],
    /// Limits of a request.
    pub limits: Limits,
}

/// The state of the layer.
pub(super) struct Inner {
    pub(super) domains: Vec<String>,
    pub(super) region: HeaderValue,
    pub(super) host_id: HeaderValue,
    pub(super) limits: Limits,
    pub(super) unsupported_acl: UnsupportedAcl,
    body_idle: LivePeriod,
    pub(super) verifier: Verifier,
    pub(super) authorizer: Arc<Authorizer>,
    pub(super) operations: Arc<dyn Operations>,
    pub(super) lacking: LackingFeatures,
    pub(super) xml_room: XmlRoom,
    pub(super) cors: CorsLookup,
    /// Places of forms whose fields arrive.
    pub(super) arriving_forms: UnprovenLane,
    request_number: AtomicU64,
}

impl Inner {
    /// Builds the state.
    pub(super) fn new(
        config: Config,
        credentials: Arc<dyn Credentials>,
        clock: Arc<dyn Clock>,
        operations: Arc<dyn Operations>,
    ) -> Self {
        let Config {
            region,
            domains,
            host_id,
            request_id_seed,
            sigv2_presigned,
            unsupported_acl,
            limits,
            reserved_buckets: _,
        } = config;
        let visible: String = host_id.chars().filter(char::is_ascii_graphic).collect();
        Self {
            domains,
            region: HeaderValue::try_from(&region).expect("a region is letters, digits and hyphens"),
            host_id: HeaderValue::try_from(visible).expect("visible ASCII is a header value"),
            body_idle: LivePeriod::new(limits.body_idle),
            lacking: LackingFeatures::new(Arc::clone(&clock)),
            xml_room: XmlRoom::new(limits.xml_room_bytes),
            cors: CorsLookup::default(),
            arriving_forms: UnprovenLane::new(UnprovenWork::S3Forms),
            verifier: Verifier::new(&region, credentials, clock).with_sigv2_presigned(sigv2_presigned),
            authorizer: Arc::new(Authorizer::new(&region)),
            operations,
            unsupported_acl,
            request_number: AtomicU64::new(request_id_seed),
            limits,
        }
    }

    /// Checks the `x-amz-*` headers of a request.
    ///
    /// # Errors
    /// As [`feature::check`].
    pub(super) fn check_features(
        &self,
        headers: &HeaderMap,
        columns: &Columns,
        has_trailer: bool,
    ) -> Result<DeclaredChecksum, Refusal> {
        feature::check(headers, columns, has_trailer, self.unsupported_acl)
    }

    /// Returns the times of a body that begins at this moment.
    pub(super) fn timeouts(&self) -> BodyTimeouts {
        BodyTimeouts { idle: self.body_idle.get(), whole: self.limits.body_whole }
    }

    /// Has each body that begins from here on stand still for another time at most.
    pub(super) fn set_body_idle(&self, idle: Duration) {
        self.body_idle.set(idle);
    }

    /// Ids that neither repeat in a run nor show how many requests there were: a counter through
    /// the finaliser of SplitMix64, which is a bijection.
    pub(super) fn next_request_id(&self) -> RequestId {
        let mut number = self.request_number.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId::from_u64(number ^ (number >> 31))
    }
}
