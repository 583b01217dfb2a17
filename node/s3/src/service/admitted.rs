//! The states of a request on its way to its operation, and the bounds on its body.
//!
//! ```text
//! AddressedRequest -> ProvenRequest -> AdmittedRequest -> Request
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;

use http::request::Parts;
use sherd_core::limits::PUT_BYTES_MAX;
use sherd_core::register::call::ClientCall;
use sherd_front::callers::{Caller, Proof};
use sherd_front::source::Source;
use sherd_signature::frames::FrameSigner;
use sherd_signature::payload::PayloadForm;
use sherd_store::machine::budget::Share;

use crate::access::Access;
use crate::head::columns::{BodyUse, Columns};
use crate::head::feature;
use crate::head::request_head::RequestHead;
use crate::operation::Operation;
use crate::request::{RequestBody, Target};

use crate::wire::address::{Address, BadAddress};
use crate::wire::body::BodyOutcome;
use crate::wire::checksum::DeclaredChecksum;
use crate::wire::form::success::SuccessAction;
use crate::wire::limits::{FORM_FIELDS_BYTES_MAX, FORM_REST_BYTES_MAX, Limits, UNWANTED_BYTES_MAX};
use crate::wire::refusal::{Code, Refusal};

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
    /// The head, with the headers that a presigned URL carries in its query, or that the fields of a form
    /// give.
    pub(super) head: RequestHead<'a>,
    /// The bucket or object of the address, or the fault of its name.
    pub(super) target: Result<Target, Refusal>,
    pub(super) caller: Caller,
    pub(super) source: Source,
    /// When it was proven, in milliseconds since the Unix epoch.
    pub(super) asked_ms: u64,
    pub(super) payload: PayloadForm,
    /// The signer of the frames of its body, where they are signed.
    pub(super) frames: Option<FrameSigner>,
    /// The call that it is a sending of, where a header has the id of one.
    pub(super) call: Option<ClientCall>,
    pub(super) form: Option<Box<ProvenForm>>,
}

impl ProvenRequest<'_> {
    /// The columns of its operation.
    pub(super) fn columns(&self) -> &'static Columns {
        self.operation.columns()
    }

    /// Checks the `x-amz-*` headers.
    ///
    /// # Errors
    /// As [`feature::check`].
    pub(super) fn check_features(&self) -> Result<DeclaredChecksum, Refusal> {
        feature::check(&self.head, self.columns(), self.payload.has_trailer())
    }
}

/// The fields of a form whose caller is proven.
pub(super) struct ProvenForm {
    /// The answer that it asks for.
    pub(super) action: SuccessAction,
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
