//! Takes in and proves a form that a browser uploads. Its signature, its policy and the headers of its object
//! are fields in its body, which is read up to the file first.
//!
//! ```text
//! head -> fields, at most 20 KB -> signature -> policy -> headers of a PUT -> the file, streamed
//! ```
//! A client that waits for `100 Continue` gets it before its signature is verified: the head has none.

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures::StreamExt as _;
use http::Extensions;
use sherd_core::limits::{KEY_BYTES_MAX, PUT_BYTES_MAX};
use sherd_front::source::Source;
use sherd_front::unproven::UnprovenCrowd;
use sherd_front::verifier::form::VerifiedForm;
use sherd_signature::error::AuthError;
use sherd_signature::form_fields::FormFields;
use sherd_signature::payload::PayloadForm;
use sherd_signature::post_policy::PostPolicy;
use sherd_store::observe::trace;

use crate::head::columns::Columns;
use crate::head::request_head::RequestHead;
use crate::head::{form, length};
use crate::operation::Operation;
use crate::request::RequestBody;
use crate::service::admitted::{ProvenForm, ProvenRequest, TakenBody, check_length};
use crate::service::audited;
use crate::service::auth_refusal::missing_field;
use crate::service::intake::Intake;
use crate::service::judge::target_of;
use crate::service::prove::Prover;
use crate::wire::address::{Address, BadAddress, Level};
use crate::wire::body::form_file::{FormBody, FormFile};
use crate::wire::body::{BodyArrival, BodyError, BodyOutcome, CheckedBody, ClientBody};
use crate::wire::form::FormError;
use crate::wire::form::prelude::FileStart;
use crate::wire::form::success::SuccessAction;
use crate::wire::limits::FORM_REST_BYTES_MAX;
use crate::wire::refusal::{Code, Refusal};

/// The end of a form behind its last delimiter.
const END: &[u8] = b"--\r\n";
/// The sizes of a file that no policy bounds.
const ANY_SIZE: RangeInclusive<u64> = 0..=PUT_BYTES_MAX;
/// A form whose fields arrived, and whose file comes.
pub(super) struct ArrivedForm<B> {
    start: FileStart,
    file: FormFile<B>,
    outcome: Arc<BodyOutcome>,
    /// Bytes of the whole form, and of its end where nothing follows the file.
    length: u64,
    end_bytes: u64,
}

impl<B: ClientBody> ArrivedForm<B> {
    /// The file as a body, once the caller is proven and judged.
    ///
    /// # Errors
    /// The refusal of a digest, of a file that is too large, and of the form's key.
    pub(super) fn into_body(self, request: &ProvenRequest<'_>) -> Result<TakenBody, Refusal> {
        let Self { start, file, outcome, length, end_bytes } = self;
        let md5 = length::md5(&request.head)?;
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
    pub(super) async fn take_fields<B: ClientBody>(
        &self,
        columns: &Columns,
        head: &RequestHead<'_>,
        source: Source,
        body: B,
    ) -> Result<ArrivedForm<B>, Refusal> {
        let delimiter = form::delimiter(head)?;
        let length = length::declared(head, false)?;
        let length = length.ok_or_else(|| Refusal::new(Code::MissingContentLength))?;
        check_length(length, columns, &self.limits)?;
        let end_bytes = (delimiter.length() + END.len()) as u64;
        let body = CheckedBody::new(body, BodyArrival::Plain(None), length, self.timeouts());
        let outcome = body.outcome();
        let (start, file) = self.fields_of(FormBody::new(body, delimiter), source).await?;
        Ok(ArrivedForm { start, file, outcome, length, end_bytes })
    }

    /// Reads the fields of a form. None waits for a place: the slowest form gives way to it, as none of them
    /// is proven yet.
    async fn fields_of<B: ClientBody>(
        &self,
        form: FormBody<B>,
        source: Source,
    ) -> Result<(FileStart, FormFile<B>), Refusal> {
        let place = self.arriving_forms.enter(source.address).await;
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
        extensions: &Extensions,
        head: RequestHead<'a>,
        form: &ArrivedForm<B>,
        address: Address,
    ) -> Result<ProvenRequest<'a>, Refusal> {
        let fields = &form.start.fields;
        let key = fields.get("key").ok_or_else(|| missing_field("key"))?;
        audited::name_key(extensions, key);
        let source = Source::of(extensions);
        let verified = self.verifier.verify_form(fields, source.address).await;
        audited::name_caller(extensions, verified.as_ref().map(|verified| &verified.caller));
        let VerifiedForm { caller, policy } = verified.map_err(refused)?;
        form.outcome.hold(caller.revocation());
        if form::is_signed_twice(&head) {
            return Err(AuthError::TwoMechanisms.into());
        }
        let sizes = match policy {
            Some(policy) => self.judge_policy(policy, &address.bucket, fields)?,
            None => ANY_SIZE,
        };
        trace::name_bucket(&address.bucket);
        let head = form::of(head, operation.columns(), fields)?;
        let key = checked_key(key);
        let target = key
            .clone()
            .and_then(|key| target_of(&head, &mut Address { level: Level::Object, key, ..address }));
        let asked_ms = self.verifier.now_ms();
        let action = SuccessAction::of(fields);
        Ok(ProvenRequest {
            operation,
            head,
            target,
            caller,
            source,
            asked_ms,
            payload: PayloadForm::Unsigned,
            frames: None,
            call: None,
            form: Some(Box::new(ProvenForm { action, sizes, key: key.map(drop) })),
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

#[cfg(test)]
mod tests;
