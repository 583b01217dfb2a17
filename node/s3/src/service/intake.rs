//! Takes bodies in: what an operation needs of a body whose request may be run.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use sherd_core::md5::Md5;
use sherd_core::record::ChecksumAlgorithm;
use sherd_front::unproven::UnprovenWork;
use sherd_front::unproven::lane::UnprovenLane;
use sherd_signature::payload::PayloadForm;
use sherd_store::machine::quantity::LivePeriod;

use crate::head::checksum::text;
use crate::head::columns::{BodyUse, ChecksumUse, Columns};
use crate::head::length;
use crate::request::RequestBody;

use crate::service::admitted::{ProvenRequest, TakenBody, check_length};
use crate::service::room::XmlRoom;
use crate::wire::aws_chunked::ChunkedFraming;
use crate::wire::body::{
    BodyArrival, BodyError, BodyTimeouts, CheckedBody, ClientBody, CollectedBody, collect,
};
use crate::wire::checksum::{self, DeclaredChecksum};
use crate::wire::limits::Limits;
use crate::wire::refusal::{Code, Refusal};
use crate::wire::xml;

/// The SHA-256 of nothing.
const EMPTY_SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// The stage that takes bodies in.
pub(super) struct Intake {
    pub(super) limits: Limits,
    body_idle: LivePeriod,
    pub(super) xml_room: XmlRoom,
    /// Places of forms whose fields arrive.
    pub(super) arriving_forms: UnprovenLane,
}

impl Intake {
    /// Takes bodies within these limits.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            body_idle: LivePeriod::new(limits.body_idle),
            xml_room: XmlRoom::new(limits.xml_room_bytes),
            arriving_forms: UnprovenLane::new(UnprovenWork::S3Forms),
            limits,
        }
    }

    /// Returns the times of a body that begins at this moment.
    pub(super) fn timeouts(&self) -> BodyTimeouts {
        BodyTimeouts { idle: self.body_idle.get(), whole: self.limits.body_whole }
    }

    /// Has each body that begins from here on stand still for another time at most.
    pub(super) fn set_body_idle(&self, idle: Duration) {
        self.body_idle.set(idle);
    }

    /// Takes the body of a request in, whose checksum is declared.
    pub(super) async fn take<B: ClientBody>(
        &self,
        request: &mut ProvenRequest<'_>,
        checksum: &DeclaredChecksum,
        body: B,
    ) -> Result<TakenBody, Refusal> {
        let columns = request.columns();
        let body_use = columns.body;
        let framing = request.payload.is_framed().then(|| ChunkedFraming {
            signer: request.frames.take(),
            trailer: checksum.trailer,
            signed_frame_bytes_max: self.limits.signed_frame_bytes_max,
        });
        let is_framed = framing.is_some();
        let length = match length::declared(&request.head, is_framed)? {
            Some(length) => length,
            None if body_use != BodyUse::Object && body.is_end_stream() => 0,
            None => return Err(Refusal::new(Code::MissingContentLength)),
        };
        check_length(length, columns, &self.limits)?;
        let digest = (body_use != BodyUse::None).then(|| length::md5(&request.head)).transpose()?.flatten();
        let sha256 = match request.payload {
            PayloadForm::Sha256(sha256) => Some(sha256),
            PayloadForm::Unsigned | PayloadForm::SignedFrames { .. } | PayloadForm::UnsignedFrames => None,
        };
        if length == 0 && !is_framed && body.is_end_stream() && !body_use.is_document() {
            return match sha256 {
                Some(declared) if declared != EMPTY_SHA256 => {
                    Err(Refusal::from(&BodyError::Digest { declared, computed: EMPTY_SHA256 }))
                }
                _ => {
                    Ok(TakenBody { body: RequestBody::Empty, outcome: None, room: None, length, md5: digest })
                }
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
            return Ok(TakenBody { body, outcome: Some(outcome), room: None, length, md5: digest });
        }
        if is_document && length > 0 {
            return self.take_document(columns, checksum, checked, length, digest).await;
        }
        let collected = collect(checked).await.map_err(|error| Refusal::from(&error))?;
        if is_document {
            check_document(columns, checksum, &collected, digest)?;
        }
        Ok(TakenBody { body: RequestBody::Empty, outcome: Some(outcome), room: None, length, md5: digest })
    }

    /// Takes a document when there is room for it.
    async fn take_document<B: ClientBody>(
        &self,
        columns: &Columns,
        checksum: &DeclaredChecksum,
        body: CheckedBody<B>,
        length: u64,
        digest: Option<[u8; 16]>,
    ) -> Result<TakenBody, Refusal> {
        let outcome = body.outcome();
        let arrival_room = self.xml_room.for_arrival(length).await?;
        let collected = collect(body).await.map_err(|error| Refusal::from(&error))?;
        check_document(columns, checksum, &collected, digest)?;
        let room = self.xml_room.for_document(length, xml::growth_max(&collected.bytes)).await?;
        drop(arrival_room);
        let readable = match columns.body {
            BodyUse::Json => collected.bytes,
            _ => readable(columns, collected.bytes, &self.limits)?,
        };
        let body = RequestBody::Document(readable);
        Ok(TakenBody { body, outcome: Some(outcome), room: Some(room), length, md5: digest })
    }
}

/// Checks a collected document against every digest that came with it.
fn check_document(
    columns: &Columns,
    declared_checksum: &DeclaredChecksum,
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
    let header = declared_checksum.value.as_ref().filter(|_| columns.checksum != ChecksumUse::JoinedObject);
    if let Some(declared) = header {
        check_checksum(declared.algorithm, text(declared).as_bytes(), &collected.bytes)?;
    }
    if let Some(trailer) = &collected.trailer {
        check_checksum(trailer.algorithm, trailer.value.as_bytes(), &collected.bytes)?;
    }
    let is_covered = declared_md5.is_some() || header.is_some() || collected.trailer.is_some();
    if columns.needs_digest && !is_covered {
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
