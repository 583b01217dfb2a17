//! Proves a request by its head: its operation is named, and its caller by a signature or a certificate.
//!
//! Nothing polls the body before the signature is verified, so `Expect: 100-continue` is answered
//! 100 only to who may send: hyper writes it at the first poll.

use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Uri, Version};
use sherd_core::register::call::ClientCall;
use sherd_front::callers::{Caller, Proof};
use sherd_front::source::Source;
use sherd_front::verifier::{VerifiedRequest, Verifier};
use sherd_signature::error::AuthError;
use sherd_signature::query::Query;
use sherd_store::observe::trace;

use crate::head::columns::BodyUse;
use crate::operation::Operation;
use crate::operation::route::NoOperation;

use crate::head::acl::UnsupportedAcl;
use crate::head::request_head::RequestHead;
use crate::service::admitted::ProvenRequest;
use crate::service::audited;
use crate::service::judge::target_of;
use crate::wire::address::Address;
use crate::wire::limits::Limits;
use crate::wire::refusal::{Code, Refusal};

/// The stage that proves requests.
pub(super) struct Prover {
    pub(super) verifier: Arc<Verifier>,
    unsupported_acl: UnsupportedAcl,
    limits: Limits,
}

impl Prover {
    /// Proves requests with heads within these limits.
    pub(super) const fn new(
        verifier: Arc<Verifier>,
        unsupported_acl: UnsupportedAcl,
        limits: Limits,
    ) -> Self {
        Self { verifier, unsupported_acl, limits }
    }

    /// Checks the size of a head and what no request goes without; returns its query.
    pub(super) fn check_head<'a>(&self, parts: &Parts, uri: &'a Uri) -> Result<Query<'a>, Refusal> {
        check_size(parts, &self.limits)?;
        check_host(parts)?;
        Query::parse(uri.query()).map_err(|_| Refusal::new(Code::InvalidURI))
    }

    /// The head of a request as it came.
    pub(super) const fn head<'a>(&self, headers: HeaderMap, query: Query<'a>) -> RequestHead<'a> {
        RequestHead::new(headers, query, self.unsupported_acl)
    }

    /// Proves the caller of a request without a form. The refusal of a missing signature comes before that
    /// of an operation that is not served.
    ///
    /// # Errors
    /// The refusal of its signature, of its operation, or of a header in its query.
    pub(super) async fn prove<'a>(
        &self,
        proof: Proof,
        parts: Parts,
        query: Query<'a>,
        mut address: Address,
        routed: Result<Operation, NoOperation>,
    ) -> Result<ProvenRequest<'a>, Refusal> {
        let verified = match proof {
            Proof::Signature => self.verifier.verify(&parts, &query, address.host_bucket.as_deref()).await,
            Proof::RootCertificate => Ok(VerifiedRequest::of_root()),
        };
        audited::name_caller(&parts.extensions, verified.as_ref().map(|verified| &verified.caller));
        let VerifiedRequest { caller, payload, frames, call_id } = verified?;
        let takes_object = matches!(&routed, Ok(operation) if operation.columns().body == BodyUse::Object);
        let head = self.head(parts.headers, query).without_signature(takes_object)?;
        let operation = served(routed, &caller)?;
        trace::name_operation(operation.name());
        tracing::Span::current().record("operation", operation.name());
        trace::name_bucket(&address.bucket);
        Ok(ProvenRequest {
            operation,
            target: target_of(&head, &mut address),
            call: call_of(&head, call_id, &caller, operation),
            head,
            caller,
            source: Source::of(&parts.extensions),
            asked_ms: self.verifier.now_ms(),
            payload,
            frames,
            form: None,
        })
    }
}

/// The operation of a request. A caller without a signature does not learn what is served.
fn served(routed: Result<Operation, NoOperation>, caller: &Caller) -> Result<Operation, Refusal> {
    if routed.is_err() && caller.is_anonymous() {
        return Err(AuthError::Anonymous.into());
    }
    Ok(routed?)
}

fn check_size(parts: &Parts, limits: &Limits) -> Result<(), Refusal> {
    let uri_bytes = parts.uri.path().len() + parts.uri.query().map_or(0, str::len);
    if uri_bytes > limits.uri_bytes_max {
        return Err(
            Refusal::new(Code::RequestURITooLong).with("MaxSizeAllowed", limits.uri_bytes_max.to_string())
        );
    }
    let header_bytes: usize =
        parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if parts.headers.len() > limits.header_count_max || header_bytes > limits.header_bytes_max {
        return Err(Refusal::new(Code::RequestHeaderSectionTooLarge)
            .with("MaxSizeAllowed", limits.header_bytes_max.to_string()));
    }
    Ok(())
}

/// HTTP/1.1 has one host (RFC 9112, section 3.2). Before that version it may be left out; then
/// no signature can cover it.
fn check_host(parts: &Parts) -> Result<(), Refusal> {
    let host_count = parts.headers.get_all(HOST).iter().count();
    match host_count {
        _ if parts.version != Version::HTTP_11 => Ok(()),
        0 => Err(AuthError::MissingHost.into()),
        1 => Ok(()),
        _ => Err(Refusal::says(Code::InvalidRequest, "There is more than one Host header")),
    }
}

/// The call that a write is a sending of: of its signer, by the id in a header, which need not be signed.
fn call_of(
    head: &RequestHead<'_>,
    call_id: Option<&'static str>,
    caller: &Caller,
    operation: Operation,
) -> Option<ClientCall> {
    let id = head.call_id(call_id?).filter(|_| operation.columns().conditions)?;
    Some(ClientCall::new(caller.access_key(), operation.name(), id))
}
