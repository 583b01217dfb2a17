//! Signatures of IAM and STS, which cover the body of a request: SigV4 in the `Authorization` header or in
//! the query of a presigned URL.
//!
//! ```text
//! header, query -> scope -> clock -> key -> body -> key -> canonical request, with its hash -> signature
//! ```
//! The head is checked before the body is read, so a client that sends no more than a head is answered.
//! The key is looked up again when the body is whole, as it may have been disabled in between.

use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use sherd_signature::amz_date::AmzDate;
use sherd_signature::authorization::Authorization;
use sherd_signature::error::AuthError;
use sherd_signature::presigned::PresignedQuery;
use sherd_signature::query::Query;
use sherd_signature::signing_key::SigningKey;

use super::{Claim, SignaturePart, Verifier, check_signed_headers, check_skew, compare};
use crate::callers::{Caller, session};
use crate::source::Source;

/// The services whose signatures cover the body.
const SERVICES: [&str; 2] = ["iam", "sts"];

/// A request whose head is right in all but its signature.
#[derive(Debug)]
pub struct CheckedHead<'a> {
    head: &'a Parts,
    query: Query<'a>,
    signed: SignaturePart<'a>,
}

/// The service that a request is signed for, as its signature names it.
pub fn signed_service(head: &Parts) -> Option<String> {
    let query = Query::parse(head.uri.query()).ok()?;
    let signed = part_of(head, &query).ok()?;
    Some(signed.claim().ok()?.credential.service.to_owned())
}

/// The signature of a request, which has one, and says in `x-amz-date` when it was made.
fn part_of<'a>(head: &'a Parts, query: &Query<'a>) -> Result<SignaturePart<'a>, AuthError> {
    let mut headers = head.headers.get_all(AUTHORIZATION).iter();
    let (header, second) = (headers.next(), headers.next());
    match (header, PresignedQuery::is_in(query) || second.is_some()) {
        (Some(_), true) => Err(AuthError::TwoMechanisms),
        (None, false) => Err(AuthError::Anonymous),
        (None, true) => PresignedQuery::parse(query).map(SignaturePart::Query),
        (Some(header), false) => {
            let header = header.to_str().map_err(|_| AuthError::UnsupportedAuthorization)?;
            let authorization = Authorization::parse(header)?;
            let date = head.headers.get("x-amz-date").and_then(|date| AmzDate::parse(date.as_bytes()));
            Ok(SignaturePart::Header(authorization, date.ok_or(AuthError::MissingDate)?))
        }
    }
}

impl Verifier {
    /// Checks the head of a request whose body has not been read: the form of its signature, its scope, its
    /// clock, the names of signed headers, and whether its key is good. A presigned URL holds as long as any
    /// signature, 15 minutes from its date, with every time that it gives: STS ignores `X-Amz-Expires`, and
    /// clients that present a URL to others later than that says rely on it
    /// (kubernetes-sigs/aws-iam-authenticator, pkg/token).
    ///
    /// # Errors
    /// [`AuthError`] with the reason.
    pub async fn check_head<'a>(&self, head: &'a Parts) -> Result<CheckedHead<'a>, AuthError> {
        let query = Query::parse(head.uri.query()).map_err(|_| AuthError::BadUri)?;
        let signed = part_of(head, &query)?;
        session::refuse(head, &query)?;
        let claim = signed.claim()?;
        claim.check(self.scope_fault(&SERVICES, &claim.credential, &claim.date))?;
        check_skew(&claim.date, self.now_ms())?;
        if !head.headers.contains_key(HOST) {
            return Err(AuthError::MissingHost);
        }
        check_signed_headers(head, claim.signed_headers, None)?;
        let from = Source::of(&head.extensions).address;
        self.credential(claim.credential.access_key, from).await?;
        Ok(CheckedHead { head, query, signed })
    }

    /// Verifies the signature of a request whose body is here.
    ///
    /// # Errors
    /// [`AuthError`] with the reason.
    pub async fn verify_body(&self, checked: &CheckedHead<'_>, body: &[u8]) -> Result<Caller, AuthError> {
        let CheckedHead { head, query, signed } = checked;
        let payload = super::hex_sha256(body);
        let payload = std::str::from_utf8(&payload).expect("64 hex digits");
        let claim = Claim { payload, ..signed.claim()? };
        let Claim { credential: scope, .. } = &claim;
        let credential = self.credential(scope.access_key, Source::of(&head.extensions).address).await?;
        // Kept keys are of one service: these are derived each time.
        let key = SigningKey::derive(&credential.secret, scope.day, scope.region, scope.service);
        compare(head, query, &claim, &key)?;
        self.credentials.note_use(&credential, scope.service, scope.region);
        Ok(Caller::new(&credential, claim.facts()))
    }
}
