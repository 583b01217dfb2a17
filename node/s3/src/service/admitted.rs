//! The states of a request on its way to its operation, and the claims of its head about its body.
//!
//! ```text
//! AddressedRequest -> ProvenRequest -> AdmittedRequest -> Request
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use sherd_core::limits::PUT_BYTES_MAX;
use sherd_core::record::Tag;
use sherd_core::register::call::ClientCall;
use sherd_front::callers::{Caller, Proof};
use sherd_front::source::Source;
use sherd_signature::frames::FrameSigner;
use sherd_signature::payload::PayloadForm;
use sherd_signature::query::Query;
use sherd_store::machine::budget::Share;

use crate::access::Access;
use crate::head::columns::{BodyUse, Columns};
use crate::operation::Operation;
use crate::request::{RequestBody, Target};

use crate::wire::address::{Address, BadAddress};
use crate::wire::body::BodyOutcome;
use crate::wire::checksum::DeclaredChecksum;
use crate::wire::code::Code;
use crate::wire::form::request::FormRequest;
use crate::wire::limits::{FORM_FIELDS_BYTES_MAX, FORM_REST_BYTES_MAX, Limits, UNWANTED_BYTES_MAX};
use crate::wire::refusal::Refusal;

/// The header with the length of a body without its frames.
pub(super) const DECODED_LENGTH: &str = "x-amz-decoded-content-length";

/// A request whose address was read, before anything of it is judged.
pub(super) struct AddressedRequest<B> {
    pub(super) proof: Proof,
    pub(super) parts: Parts,
    pub(super) address: Result<Address, BadAddress>,
    pub(super) body: B,
}

/// A request whose operation is named and whose caller is proven.
pub(super) struct ProvenRequest<'a> {
    pub(super) operation: Operation,
    /// The headers, with those that a presigned URL carries in its query, or that the fields of a form give.
    pub(super) headers: HeaderMap,
    pub(super) query: Query<'a>,
    /// The bucket or object of the address, or the fault of its name.
    pub(super) target: Result<Target, Refusal>,
    pub(super) caller: Caller,
    pub(super) source: Source,
    /// When it was proven, in milliseconds since the Unix epoch.
    pub(super) asked_ms: u64,
    pub(super) payload: PayloadForm,
    /// The signer of the frames of its body, where they are signed.
    pub(super) frames: Option<FrameSigner>,
    /// The call that it is a sending of, where its signature vouches for that.
    pub(super) call: Option<ClientCall>,
    pub(super) form: Option<Box<ProvenForm>>,
}

impl ProvenRequest<'_> {
    /// The columns of its operation.
    pub(super) fn columns(&self) -> &'static Columns {
        self.operation.columns()
    }
}

/// The fields of a form whose caller is proven.
pub(super) struct ProvenForm {
    /// Fields that no header stands for.
    pub(super) request: FormRequest,
    /// The tags that it gives.
    pub(super) tags: Vec<Tag>,
    /// The sizes that its policy allows its file.
    pub(super) sizes: RangeInclusive<u64>,
    /// The fault of its key, which is answered behind those of the file.
    pub(super) key: Result<(), Refusal>,
}

/// A body that was taken in, or that its operation reads.
pub(super) struct TakenBody {
    pub(super) body: RequestBody,
    /// The outcome of reading it, where there is something to be read.
    pub(super) outcome: Option<Arc<BodyOutcome>>,
    /// Room for the document, or for the list that is answered.
    pub(super) room: Option<Share>,
    /// Bytes without frames.
    pub(super) length: u64,
    pub(super) md5: Option<[u8; 16]>,
}

/// A request that was admitted: proven, judged by its head, with its body taken in.
pub(super) struct AdmittedRequest<'a> {
    pub(super) proven: ProvenRequest<'a>,
    /// The rights of its caller, which cover the operation.
    pub(super) access: Access,
    pub(super) checksum: DeclaredChecksum,
    pub(super) taken: TakenBody,
}

/// The length of the body without its frames; nothing when none is declared.
pub(super) fn declared_length(headers: &HeaderMap, is_framed: bool) -> Result<Option<u64>, Refusal> {
    if is_framed && !headers.contains_key(DECODED_LENGTH) {
        return Err(Refusal::new(Code::MissingContentLength));
    }
    let value = if is_framed { headers.get(DECODED_LENGTH) } else { headers.get(CONTENT_LENGTH) };
    let Some(value) = value else { return Ok(None) };
    // `+5` is a number to Rust and none to HTTP.
    let digits = value.to_str().ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or_else(|| {
        let name = if is_framed { DECODED_LENGTH } else { "content-length" };
        Refusal::says(Code::InvalidArgument, "The length is not a number").with("ArgumentName", name)
    })
}

/// Refuses a body that is longer than those of its kind may be.
pub(super) fn check_length(length: u64, columns: &Columns, limits: &Limits) -> Result<(), Refusal> {
    let body_use = columns.body;
    let (max, code) = match body_use {
        BodyUse::Object => (PUT_BYTES_MAX, Code::EntityTooLarge),
        BodyUse::Form => {
            (PUT_BYTES_MAX + FORM_FIELDS_BYTES_MAX as u64 + FORM_REST_BYTES_MAX, Code::EntityTooLarge)
        }
        BodyUse::Xml | BodyUse::Json => {
            let max = limits.xml_bytes_max.min(columns.document_bytes_max);
            (max, Code::MaxMessageLengthExceeded)
        }
        BodyUse::None => (UNWANTED_BYTES_MAX, Code::MaxMessageLengthExceeded),
    };
    if length <= max {
        return Ok(());
    }
    let (proposed, allowed) = match body_use {
        BodyUse::Object | BodyUse::Form => ("ProposedSize", "MaxSizeAllowed"),
        BodyUse::Xml | BodyUse::Json | BodyUse::None => ("MessageLength", "MaxMessageLengthBytes"),
    };
    Err(Refusal::new(code).with(proposed, length.to_string()).with(allowed, max.to_string()))
}

/// The MD5 that a head declares.
pub(super) fn declared_md5(headers: &HeaderMap) -> Result<Option<[u8; 16]>, Refusal> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    let mut digest = [0; 18];
    match STANDARD.decode_slice(value.as_bytes(), &mut digest) {
        Ok(16) => Ok(digest.first_chunk().copied()),
        _ => {
            Err(Refusal::new(Code::InvalidDigest)
                .with("Content-MD5", String::from_utf8_lossy(value.as_bytes())))
        }
    }
}
