//! The facts that every request has: its caller, source, time, region and signature.

use std::sync::Arc;

use sherd_policy::{KeyName, Values};
use sherd_signature::amz_date::AmzDate;

use crate::callers::{AuthType, Caller};
use crate::source::Source;

/// The caller of a request, and where and when it came from there. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OriginFacts {
    /// The caller.
    pub caller: Caller,
    /// The place that the request came from.
    pub source: Source,
    /// When the request was admitted, in milliseconds since the Unix epoch.
    pub asked_ms: u64,
    /// The region that the request is for; `None` for a service that has none.
    pub region: Option<Arc<str>>,
}

impl OriginFacts {
    /// The values of a key; `None` for one that the service answers. Actions of S3 alone have S3's keys.
    pub(super) fn values(&self, name: KeyName, is_of_s3: bool) -> Option<Values<'_>> {
        let Self { caller, source, asked_ms, region } = self;
        let signature = caller.signature();
        Some(match name {
            KeyName::SourceIp => source.address.to_string().into(),
            KeyName::SecureTransport => Values::from(if source.is_secure { "true" } else { "false" }),
            KeyName::CurrentTime => AmzDate::from_ms(*asked_ms).extended().into(),
            KeyName::EpochTime => (asked_ms / 1000).to_string().into(),
            KeyName::RequestedRegion => region.as_deref().into(),
            KeyName::TlsVersion if is_of_s3 => source.tls_version.into(),
            KeyName::AuthType if is_of_s3 => signature.map(|signature| auth_type(signature.auth_type)).into(),
            KeyName::SignatureAge if is_of_s3 => {
                let signed_ms = signature.and_then(|signature| signature.signed_ms);
                signed_ms.map(|signed_ms| asked_ms.saturating_sub(signed_ms).to_string()).into()
            }
            KeyName::SignatureVersion if is_of_s3 => {
                let version = |is_v4| if is_v4 { "AWS4-HMAC-SHA256" } else { "AWS" };
                signature.map(|signature| version(signature.is_v4)).into()
            }
            _ => return None,
        })
    }
}

const fn auth_type(auth_type: AuthType) -> &'static str {
    match auth_type {
        AuthType::Header => "REST-HEADER",
        AuthType::Query => "REST-QUERY-STRING",
        AuthType::Form => "POST",
    }
}
