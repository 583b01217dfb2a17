//! Takes in and proves a form that a browser uploads. Its signature, its policy and the headers of its object
//! are fields in its body, which is read up to the file first.
//!
//! ```text
//! head -> fields, at most 20 KB -> signature -> policy -> headers of a PUT -> the file, streamed
//! ```
//! A client that waits for `100 Continue` gets it before its signature is verified: the head has none.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::request::Parts;
use http_body::Body as HttpBody;
use sherd_core::limits::{KEY_BYTES_MAX, PUT_BYTES_MAX};
use sherd_front::source::Source;
use sherd_front::unproven::UnprovenCrowd;
use sherd_front::verifier::form::VerifiedForm;
use sherd_signature::error::AuthError;
use sherd_signature::form_fields::FormFields;
use sherd_signature::payload::PayloadForm;
use sherd_signature::post_policy::PostPolicy;
use sherd_signature::query::Query;
use sherd_store::observe::trace;

use crate::head::acl::UnsupportedAcl;
use crate::head::columns::Columns;
use crate::head::feature;
use crate::head::tagging;
use crate::operation::Operation;
use crate::request::RequestBody;
use crate::service::admitted::{
    ProvenForm, ProvenRequest, TakenBody, check_length, declared_length, declared_md5,
};
use crate::service::audited;
use crate::service::auth_refusal::missing_field;
use crate::service::intake::Intake;
use crate::service::judge::target_of;
use crate::service::prove::Prover;
use crate::wire::address::{Address, BadAddress, Level};
use crate::wire::body::form_file::{FormBody, FormFile};
use crate::wire::body::{BodyArrival, BodyError, BodyOutcome, CheckedBody, TransportError};
use crate::wire::code::Code;
use crate::wire::form::FormError;
use crate::wire::form::fields;
use crate::wire::form::parser::Delimiter;
use crate::wire::form::prelude::FileStart;
use crate::wire::form::request::FormRequest;
use crate::wire::limits::FORM_REST_BYTES_MAX;
use crate::wire::refusal::Refusal;

/// The end of a form behind its last delimiter.
const END: &[u8] = b"--\r\n";
/// The type of a form.
const FORM: &[u8] = b"multipart/form-data";
/// The sizes of a file that no policy bounds.
const ANY_SIZE: RangeInclusive<u64> = 0..=PUT_BYTES_MAX;
/// Headers of the request that would say something of the object, which its fields do.
const OF_OBJECT: [&str; 6] =
    ["x-amz-acl", "x-amz-meta-", "x-amz-checksum-", "x-amz-storage-class", "x-amz-tagging", "content-md5"];
/// Headers, and fields of their names, that would change what a PUT does and that forms do not have.
const OF_OTHER_WRITES: [&str; 3] = ["if-match", "if-none-match", "x-amz-copy-source"];

/// A form whose fields arrived, and whose file comes.
pub(super) struct ArrivedForm<B> {
    start: FileStart,
    file: FormFile<B>,
    outcome: Arc<BodyOutcome>,
    /// Bytes of the whole form, and of its end where nothing follows the file.
    length: u64,
    end_bytes: u64,
}

impl<B> ArrivedForm<B>
where
    B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
    B::Error: Into<TransportError>,
{
    /// The file as a body, once the caller is proven and judged.
    ///
    /// # Errors
    /// The refusal of a digest, of a file that is too large, and of the form's key.
    pub(super) fn into_body(self, request: &ProvenRequest<'_>) -> Result<TakenBody, Refusal> {
        let Self { start, file, outcome, length, end_bytes } = self;
        let md5 = declared_md5(&request.headers)?;
        let (sizes, key) = match request.form.as_deref() {
            Some(proven) => (proven.sizes.clone(), proven.key.clone()),
            None => (ANY_SIZE, Ok(())),
        };
        // Bytes of the file if nothing but the end of the form follows it.
        let expected = length.saturating_sub(start.prelude_bytes + end_bytes);
        let max = (*sizes.end()).min(PUT_BYTES_MAX);
        if expected.saturating_sub(FORM_REST_BYTES_MAX) > max {
            let error = FormError::FileTooLarge { size: expected, max };
            return Err(Refusal::from(&BodyError::from(error)));
        }
        key?;
        let body = RequestBody::Stream(file.bounded(*sizes.start()..=max, expected).boxed());
        Ok(TakenBody { body, outcome: Some(outcome), room: None, length: expected.min(max), md5 })
    }
}

impl Intake {
    /// Takes the fields of a form in.
    ///
    /// # Errors
    /// The refusal of a head or of fields that no form has, and of those that come too slowly.
    pub(super) async fn take_fields<B>(
        &self,
        columns: &Columns,
        head: &Parts,
        body: B,
    ) -> Result<ArrivedForm<B>, Refusal>
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let delimiter = delimiter_of(&head.headers)?;
        let length = declared_length(&head.headers, false)?;
        let length = length.ok_or_else(|| Refusal::new(Code::MissingContentLength))?;
        check_length(length, columns, &self.limits)?;
        let end_bytes = (delimiter.length() + END.len()) as u64;
        let body = CheckedBody::new(body, BodyArrival::Plain(None), length, self.timeouts());
        let outcome = body.outcome();
        let (start, file) = self.fields_of(FormBody::new(body, delimiter), head).await?;
        Ok(ArrivedForm { start, file, outcome, length, end_bytes })
    }

    /// Reads the fields of a form. None waits for a place: the slowest form gives way to it, as none of them
    /// is proven yet.
    async fn fields_of<B>(&self, form: FormBody<B>, head: &Parts) -> Result<(FileStart, FormFile<B>), Refusal>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<TransportError>,
    {
        let place = self.arriving_forms.enter(Source::of(&head.extensions).address).await;
        let place = place.map_err(|UnprovenCrowd| Refusal::new(Code::SlowDown))?;
        let fields = tokio::time::timeout(self.limits.document_whole, form.fields(&place));
        // The form is given up with its place: its body is read no further.
        tokio::select! {
            biased;
            read = fields => read.unwrap_or(Err(BodyError::Slow)).map_err(|error| Refusal::from(&error)),
            () = place.lost() => Err(Refusal::new(Code::SlowDown)),
        }
    }
}

impl Prover {
    /// Proves the caller of a form by its fields.
    ///
    /// # Errors
    /// The refusal of its signature, of its policy, and of fields that contradict the head.
    pub(super) async fn prove_form<'a, B>(
        &self,
        operation: Operation,
        head: &Parts,
        form: &ArrivedForm<B>,
        query: Query<'a>,
        address: Address,
    ) -> Result<ProvenRequest<'a>, Refusal> {
        let fields = &form.start.fields;
        let key = fields.get("key").ok_or_else(|| missing_field("key"))?;
        audited::name_key(&head.extensions, key);
        let verified = self.verifier.verify_form(fields, Source::of(&head.extensions).address).await;
        audited::name_caller(&head.extensions, verified.as_ref().map(|verified| &verified.caller));
        let VerifiedForm { caller, policy } = verified.map_err(refused)?;
        form.outcome.hold(caller.revocation());
        if head.headers.contains_key(AUTHORIZATION) {
            return Err(AuthError::TwoMechanisms.into());
        }
        let sizes = match policy {
            Some(policy) => self.judge_policy(policy, &address.bucket, fields)?,
            None => ANY_SIZE,
        };
        trace::name_bucket(&address.bucket);
        let headers = headers_of(operation.columns(), &head.headers, fields, self.unsupported_acl)?;
        let key = checked_key(key);
        let target = key
            .clone()
            .and_then(|key| target_of(&headers, &mut Address { level: Level::Object, key, ..address }));
        let asked_ms = self.verifier.now_ms();
        let request = FormRequest::of(fields);
        // A field that cannot be read gives no tags: the form is refused behind its file.
        let tags = tagging::of_field(request.tagging.as_deref().unwrap_or_default()).unwrap_or_default();
        let tags = tagging::given(&tags)?;
        Ok(ProvenRequest {
            operation,
            headers,
            query,
            target,
            caller,
            source: Source::of(&head.extensions),
            asked_ms,
            payload: PayloadForm::Unsigned,
            frames: None,
            call: None,
            form: Some(Box::new(ProvenForm { request, tags, sizes, key: key.map(drop) })),
        })
    }

    /// The sizes that a form's policy allows its file.
    fn judge_policy(
        &self,
        policy: &str,
        bucket: &str,
        fields: &FormFields,
    ) -> Result<RangeInclusive<u64>, Refusal> {
        let named: Vec<(&str, &str)> = std::iter::once(("bucket", bucket))
            .chain(fields.all().iter().map(|field| (field.name.as_str(), field.value.as_str())))
            .collect();
        Ok(PostPolicy::parse(policy)?.judge(self.verifier.now_ms(), &named)?)
    }
}

/// The delimiter of the parts of a form.
fn delimiter_of(headers: &HeaderMap) -> Result<Delimiter, Refusal> {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes().trim_ascii_start());
    let content_type = content_type.unwrap_or_default();
    let is_form = content_type.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM));
    if !is_form {
        return Err(Refusal::new(Code::PreconditionFailed)
            .with("Condition", "Bucket POST must be of the enclosure-type multipart/form-data"));
    }
    Delimiter::of(content_type).map_err(|_| Refusal::new(Code::MalformedPOSTRequest))
}

/// Why a signature is refused. The string that S3 signed stands in the answer twice: as text and as bytes.
fn refused(error: AuthError) -> Refusal {
    let bytes = match &error {
        AuthError::SignatureMismatch(mismatch) => Some(
            mismatch.string_to_sign.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
        ),
        _ => None,
    };
    let refusal = Refusal::from(error);
    match bytes {
        Some(bytes) => refusal.with("StringToSignBytes", bytes),
        None => refusal,
    }
}

/// The key that an object may have.
fn checked_key(key: &str) -> Result<String, Refusal> {
    match key.len() {
        0 => Err(Refusal::bad_argument("User key must have a length greater than 0.", "key", "")),
        bytes if bytes > KEY_BYTES_MAX => Err(BadAddress::KeyTooLong { bytes }.into()),
        _ => Ok(key.to_owned()),
    }
}

/// The headers of the object: those that the fields stand for. The request's own say nothing of it.
fn headers_of(
    columns: &Columns,
    head: &HeaderMap,
    fields: &FormFields,
    lists: UnsupportedAcl,
) -> Result<HeaderMap, Refusal> {
    let is_given = |name: &str| head.contains_key(name) || fields.get(name).is_some();
    if let Some(name) = OF_OTHER_WRITES.into_iter().find(|name| is_given(name)) {
        return Err(Refusal::new(Code::NotImplemented).with("Header", name));
    }
    let mut headers = fields::headers(fields)?;
    feature::check(head, columns, false, lists)?;
    for (name, value) in head {
        let is_of_object = OF_OBJECT.iter().any(|start| name.as_str().starts_with(start));
        if is_of_object && headers.get(name) != Some(value) {
            return Err(Refusal::says(
                Code::InvalidRequest,
                "Conflicting values provided in HTTP headers and POST form fields.",
            ));
        }
    }
    // The answer names the object by the host that was asked.
    if let Some(host) = head.get(HOST) {
        headers.insert(HOST, host.clone());
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
