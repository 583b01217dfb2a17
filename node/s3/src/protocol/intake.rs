//! Admits a request: every check that needs only its head, then what its operation needs of its body.
//!
//! Nothing polls the body before the signature is verified, so `Expect: 100-continue` is answered
//! 100 only to who may send: hyper writes it at the first poll.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_LENGTH, HOST, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Uri, Version};
use http_body::Body as HttpBody;
use sherd_core::md5::Md5;
use sherd_core::record::ChecksumAlgorithm;
use sherd_core::register::call::ClientCall;
use sherd_front::callers::{Caller, Proof};
use sherd_front::source::Source;
use sherd_front::verifier::VerifiedRequest;
use sherd_signature::error::AuthError;
use sherd_signature::payload::PayloadForm;
use sherd_signature::query::Query;

use crate::head::columns::{BodyUse, ChecksumUse, Columns};
use crate::operation::Operation;
use crate::operation::route::{NoOperation, route};
use crate::request::RequestBody;
use sherd_store::machine::budget::Share;
use sherd_store::observe::trace;

use super::address::{Address, BadAddress};
use super::admitted::{AdmittedRequest, DECODED_LENGTH, check_length, declared_length, declared_md5};
use super::audited;
use super::authorize::{AskedOperation, target_of};
use super::aws_chunked::ChunkedFraming;
use super::body::{BodyArrival, BodyOutcome, CheckedBody, CollectedBody, TransportError, collect};
use super::checksum::{self, DeclaredChecksum};
use super::code::Code;
use super::inner::Inner;
use super::limits::Limits;
use super::refusal::Refusal;
use super::{hoisted, xml};

/// The SHA-256 of nothing.
const EMPTY_SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// A request whose address was read, before anything of it is judged.
pub(super) struct AddressedRequest<B> {
    pub(super) proof: Proof,
    pub(super) parts: Parts,
    pub(super) address: Result<Address, BadAddress>,
    pub(super) body: B,
}

/// A body as it was taken in.
struct IntakeBody {
    body: RequestBody,
    outcome: Option<Arc<BodyOutcome>>,
    /// Room for it, where it is a document.
    room: Option<Share>,
    length: u64,
    md5: Option<[u8; 16]>,
}

/// The claims of a head that was verified.
struct Head {
    columns: &'static Columns,
    payload: PayloadForm,
    checksum: DeclaredChecksum,
}

impl Inner {
    /// Checks the size of a head and what no request goes without; returns its query.
    pub(super) fn check_head<'a>(&self, parts: &Parts, uri: &'a Uri) -> Result<Query<'a>, Refusal> {
        check_size(parts, &self.limits)?;
        check_host(parts)?;
        Query::parse(uri.query()).map_err(|_| Refusal::new(Code::InvalidURI))
    }

    /// Admits or refuses a request. `named` becomes the operation as soon as the head names one, also for a
    /// request that is refused.
    pub(super) async fn admit<'a, B>(
        &self,
        request: AddressedRequest<B>,
        uri: &'a Uri,
        named: &mut Option<Operation>,
    ) -> Result<AdmittedRequest<'a>, Refusal>
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let AddressedRequest { proof, mut parts, address, body } = request;
        let query = self.check_head(&parts, uri)?;
        let mut address = address?;
        let copies = hoisted::contains(&parts.headers, &query, "x-amz-copy-source");
        let routed = route(&parts.method, &address, &query, copies);
        if let Ok(operation) = &routed {
            *named = Some(*operation);
            audited::name_operation(&parts.extensions, *operation);
        }
        if let Ok(operation) = routed
            && operation.columns().body == BodyUse::Form
        {
            // Its signature is a field of the form: by its head it would only be denied. It has memory of its
            // own, so that the future of every other request is as small as without forms.
            return Box::pin(self.admit_form(operation, &parts, body, query, address)).await;
        }
        let verified = match proof {
            Proof::Signature => self.verifier.verify(&parts, &query, address.host_bucket.as_deref()).await,
            Proof::RootCertificate => Ok(VerifiedRequest::of_root()),
        };
        audited::name_caller(&parts.extensions, verified.as_ref().map(|verified| &verified.caller));
        let VerifiedRequest { caller, payload, frames, call_id } = verified?;
        let without_body = hoisted::empty_checksums(&parts.headers, &query);
        hoisted::hoist(&mut parts.headers, &query)?;
        let operation = served(routed, &caller)?;
        trace::name_operation(operation.name());
        tracing::Span::current().record("operation", operation.name());
        let columns = operation.columns();
        if columns.body == BodyUse::Object && has_body(&parts.headers) {
            for name in &without_body {
                parts.headers.remove(name);
            }
        }
        trace::name_bucket(&address.bucket);
        let mut target = target_of(&parts.headers, &mut address);
        let (headers, source) = (&parts.headers, Source::of(&parts.extensions));
        let asked_ms = self.verifier.now_ms();
        let asked = AskedOperation { columns, headers, query: &query, source, asked_ms, form_tags: None };
        let access = self.authorize(caller, asked, &mut target).await?;
        let checksum = self.check_features(&parts.headers, columns, payload.has_trailer())?;
        let framing = payload.is_framed().then(|| ChunkedFraming {
            signer: frames,
            trailer: checksum.trailer,
            signed_frame_bytes_max: self.limits.signed_frame_bytes_max,
        });
        let head = Head { columns, payload, checksum };
        let taken = self.take_body(&parts.headers, body, &head, framing).await?;
        let IntakeBody { body, outcome, room: document_room, length, md5 } = taken;
        if let Some(outcome) = &outcome {
            outcome.hold(access.caller().revocation());
        }
        let list_room = self.xml_room.for_list(columns, &query).await?;
        let call = call_of(&parts.headers, call_id, access.caller(), operation);
        let (checksum, room) = (head.checksum, document_room.or(list_room));
        Ok(AdmittedRequest {
            headers: parts.headers,
            operation,
            target,
            query,
            access,
            call,
            checksum,
            md5,
            length,
            body,
            form: None,
            outcome,
            room,
        })
    }

    /// Takes the body in.
    async fn take_body<B>(
        &self,
        headers: &HeaderMap,
        body: B,
        head: &Head,
        framing: Option<ChunkedFraming>,
    ) -> Result<IntakeBody, Refusal>
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let body_use = head.columns.body;
        let is_framed = framing.is_some();
        let length = match declared_length(headers, is_framed)? {
            Some(length) => length,
            None if body_use != BodyUse::Object && body.is_end_stream() => 0,
            None => return Err(Refusal::new(Code::MissingContentLength)),
        };
        check_length(length, head.columns, &self.limits)?;
        let digest = (body_use != BodyUse::None).then(|| declared_md5(headers)).transpose()?.flatten();
        let sha256 = match head.payload {
            PayloadForm::Sha256(sha256) => Some(sha256),
            PayloadForm::Unsigned | PayloadForm::SignedFrames { .. } | PayloadForm::UnsignedFrames => None,
        };
        if length == 0 && !is_framed && body.is_end_stream() && !body_use.is_document() {
            return match sha256 {
                Some(declared) if declared != EMPTY_SHA256 => {
                    Err(Refusal::from(&super::body::BodyError::Digest { declared, computed: EMPTY_SHA256 }))
                }
                _ => Ok(IntakeBody {
                    body: RequestBody::Empty,
                    outcome: None,
                    room: None,
                    length,
                    md5: digest,
                }),
            };
        }
        let arrival =
            framing.map_or(BodyArrival::Plain(sha256), |framing| BodyArrival::Framed(Box::new(framing)));
        let is_document = body_use.is_document();
        let mut timeouts = self.timeouts();
        if is_document {
            timeouts.whole =
                timeouts.whole.min(self.limits.document_whole + Duration::from_secs(length >> 15));
        }
        let checked = CheckedBody::new(body, arrival, length, timeouts);
        let outcome = checked.outcome();
        // An operation that is promised no bytes asks for none, and would never meet the fault.
        if body_use == BodyUse::Object && length > 0 {
            let body = RequestBody::Stream(checked.boxed());
            return Ok(IntakeBody { body, outcome: Some(outcome), room: None, length, md5: digest });
        }
        if is_document && length > 0 {
            return self.take_document(headers, checked, length, head, digest).await;
        }
        let collected = collect(checked).await.map_err(|error| Refusal::from(&error))?;
        if is_document {
            check_document(headers, head, &collected, digest)?;
        }
        Ok(IntakeBody { body: RequestBody::Empty, outcome: Some(outcome), room: None, length, md5: digest })
    }

    /// Takes a document when there is room for it.
    async fn take_document<B>(
        &self,
        headers: &HeaderMap,
        body: CheckedBody<B>,
        length: u64,
        head: &Head,
        digest: Option<[u8; 16]>,
    ) -> Result<IntakeBody, Refusal>
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let outcome = body.outcome();
        let arrival_room = self.xml_room.for_arrival(length).await?;
        let collected = collect(body).await.map_err(|error| Refusal::from(&error))?;
        check_document(headers, head, &collected, digest)?;
        let room = self.xml_room.for_document(length, xml::growth_max(&collected.bytes)).await?;
        drop(arrival_room);
        let readable = match head.columns.body {
            BodyUse::Json => collected.bytes,
            _ => readable(head.columns, collected.bytes, &self.limits)?,
        };
        let body = RequestBody::Document(readable);
        Ok(IntakeBody { body, outcome: Some(outcome), room: Some(room), length, md5: digest })
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

/// Whether a request says that it has bytes.
fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(DECODED_LENGTH).or_else(|| headers.get(CONTENT_LENGTH));
    length.is_some_and(|length| length != "0")
}

/// Checks a collected document against every digest that came with it.
fn check_document(
    headers: &HeaderMap,
    head: &Head,
    collected: &CollectedBody,
    declared_md5: Option<[u8; 16]>,
) -> Result<(), Refusal> {
    if let Some(declared) = declared_md5 {
        let computed: [u8; 16] = Md5::digest(&collected.bytes);
        if declared != computed {
            return Err(Refusal::bad_md5(&declared, &computed));
        }
    }
    // CompleteMultipartUpload carries the object's checksum, not its document's.
    let header = head.checksum.header.filter(|_| head.columns.checksum != ChecksumUse::JoinedObject);
    if let Some(algorithm) = header {
        let declared = headers.get(checksum::header(algorithm)).map_or(&b""[..], HeaderValue::as_bytes);
        check_checksum(algorithm, declared, &collected.bytes)?;
    }
    if let Some(trailer) = &collected.trailer {
        check_checksum(trailer.algorithm, trailer.value.as_bytes(), &collected.bytes)?;
    }
    let is_covered = declared_md5.is_some() || header.is_some() || collected.trailer.is_some();
    if head.columns.needs_digest && !is_covered {
        return Err(Refusal::says(
            Code::InvalidRequest,
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
        ));
    }
    Ok(())
}

/// A document as the parser can read it, once it is what was sent.
fn readable(columns: &Columns, document: Bytes, limits: &Limits) -> Result<Bytes, Refusal> {
    let bytes_max = usize::try_from(limits.xml_bytes_max).unwrap_or(usize::MAX);
    let plain = xml::with_sections_as_text(document, bytes_max);
    let readable = if columns.names_keys {
        plain.and_then(xml::with_plain_characters)
    } else {
        plain.filter(|document| xml::is_text(document))
    };
    // The parser keeps every element in memory, so they are counted before.
    let has_few = |document: &Bytes| {
        columns.counted.is_none_or(|(name, max)| xml::count_elements(document, name, max) <= max)
    };
    readable.filter(has_few).ok_or_else(|| Refusal::new(Code::MalformedXML))
}

fn check_checksum(algorithm: ChecksumAlgorithm, declared: &[u8], bytes: &[u8]) -> Result<(), Refusal> {
    if checksum::of(algorithm, bytes).as_bytes() == declared {
        return Ok(());
    }
    let message =
        format!("The {} you specified did not match the calculated checksum.", checksum::name(algorithm));
    Err(Refusal::says(Code::BadDigest, message))
}

/// The call that a write is a sending of: of its signer, by the id in a header that is signed.
fn call_of(
    headers: &HeaderMap,
    call_id: Option<&'static str>,
    caller: &Caller,
    operation: Operation,
) -> Option<ClientCall> {
    let id = headers.get(call_id?).filter(|id| operation.columns().conditions && !id.is_empty())?;
    Some(ClientCall::new(caller.access_key(), operation.name(), id.as_bytes()))
}
