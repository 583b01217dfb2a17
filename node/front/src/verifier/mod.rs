//! Verifies that a request was signed by the key it names, from its head alone. The string that SigV2 signs
//! is in `sherd_signature::presigned_v2`; the signature of a form, which is in its body, in `form`;
//! signatures that cover the body, in `whole`.
//!
//! ```text
//! query or header -> scope -> clock -> secret -> canonical request -> signature
//! ```
//! The order is AWS's: a malformed request is refused before a wrong one, and no refusal shows a signature
//! to a caller that could not compute it.

pub mod form;
pub mod whole;

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, DATE, HOST};
use http::request::Parts;
use sha2::{Digest as _, Sha256};
use sherd_core::env::Clock;
use sherd_core::limits::HEADERS_MAX;

use sherd_signature::Secret;
use sherd_signature::amz_date::AmzDate;
use sherd_signature::authorization::{ALGORITHM, Authorization};
use sherd_signature::canonical::{CanonicalRequest, PathForm};
use sherd_signature::credential_scope::CredentialScope;
use sherd_signature::error::{AuthError, MalformedAuth, Mismatch, Place};
use sherd_signature::frames::FrameSigner;
use sherd_signature::payload::PayloadForm;
use sherd_signature::presigned::{PresignedQuery, SIGNATURE};
use sherd_signature::presigned_v2::{self, PresignedV2};
use sherd_signature::query::Query;
use sherd_signature::signing_key::{KeyCache, Signature, SigningKey};

use crate::callers::{AuthType, Caller, Credential, Credentials, SignatureFacts, session};
use crate::limits::SKEW_MS_MAX;
use crate::source::Source;

/// The service of signatures that cover the head alone.
const S3: &str = "s3";
/// The region every SDK falls back to, and IAM's; accepted beside the configured one.
const FALLBACK_REGION: &str = "us-east-1";

/// Checks signatures.
#[derive(Debug)]
pub struct Verifier {
    region: Box<str>,
    credentials: Arc<dyn Credentials>,
    clock: Arc<dyn Clock>,
    keys: KeyCache,
    sigv2_presigned: bool,
}

/// A request that is who it says it is.
#[derive(Debug)]
pub struct VerifiedRequest {
    /// The caller.
    pub caller: Caller,
    /// How its body is covered and framed.
    pub payload: PayloadForm,
    /// The signer of the frames of its body, when they are signed.
    pub frames: Option<FrameSigner>,
    /// The header that has the id of the client's call. The signature need not cover it.
    pub call_id: Option<&'static str>,
}

impl VerifiedRequest {
    /// A request without a signature that is known to be the root user's.
    pub fn of_root() -> Self {
        Self { caller: Caller::root(), payload: PayloadForm::Unsigned, frames: None, call_id: None }
    }
}

/// The signing key of a scope.
pub(super) struct ScopeKey {
    pub(super) key: SigningKey,
    /// Whether it is not kept.
    is_new: bool,
}

/// Headers that name a client's call over all times that it is sent: what the client chose itself, and what
/// AWS's SDKs send with everything.
const CALL_IDS: [&str; 2] = ["x-amz-client-token", "amz-sdk-invocation-id"];

/// The signature of a request, where it stands.
#[derive(Debug)]
enum SignaturePart<'a> {
    /// In the header, with the date of the request.
    Header(Authorization<'a>, AmzDate),
    /// In the query.
    Query(PresignedQuery<'a>),
}

impl SignaturePart<'_> {
    /// The claims of the signature; the payload is to be filled in.
    fn claim(&self) -> Result<Claim<'_>, AuthError> {
        let payload = PayloadForm::UNSIGNED;
        Ok(match self {
            Self::Header(authorization, date) => {
                let Authorization { credential, signed_headers, signature } = *authorization;
                Claim { place: Place::Header, credential, date: *date, signed_headers, signature, payload }
            }
            Self::Query(url) => {
                let PresignedQuery { credential, date, expires_seconds: _, signed_headers, signature } = url;
                let reason = MalformedAuth::Credential;
                let credential = CredentialScope::parse(credential);
                let credential = credential.ok_or(AuthError::Malformed { place: Place::Query, reason })?;
                Claim { place: Place::Query, credential, date: *date, signed_headers, signature, payload }
            }
        })
    }
}

/// The claims that header and presigned form have in common.
struct Claim<'a> {
    place: Place,
    credential: CredentialScope<'a>,
    date: AmzDate,
    signed_headers: &'a str,
    signature: &'a str,
    payload: &'a str,
}

impl Claim<'_> {
    /// Refuses a fault of the claim.
    fn check(&self, fault: Option<MalformedAuth>) -> Result<(), AuthError> {
        fault.map_or(Ok(()), |reason| Err(AuthError::Malformed { place: self.place, reason }))
    }

    /// The facts that policies name.
    const fn facts(&self) -> SignatureFacts {
        let auth_type = match self.place {
            Place::Header => AuthType::Header,
            Place::Query => AuthType::Query,
            Place::Form => AuthType::Form,
        };
        SignatureFacts { auth_type, signed_ms: Some(self.date.as_ms()), is_v4: true }
    }
}

thread_local! {
    /// The canonical request is built here, so that verifying allocates nothing once it has grown.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Verifier {
    /// Makes a verifier for a region. It takes SigV4 alone.
    pub fn new(region: &str, credentials: Arc<dyn Credentials>, clock: Arc<dyn Clock>) -> Self {
        Self { region: region.into(), credentials, clock, keys: KeyCache::default(), sigv2_presigned: false }
    }

    /// Takes URLs that are presigned with SigV2, too, or does not.
    #[must_use]
    pub fn with_sigv2_presigned(self, taken: bool) -> Self {
        Self { sigv2_presigned: taken, ..self }
    }

    /// Verifies a request by its head; `host_bucket` is the bucket that its host names.
    ///
    /// # Errors
    /// [`AuthError`] with the reason; none of them is worth a retry of the same request.
    pub async fn verify(
        &self,
        head: &Parts,
        query: &Query<'_>,
        host_bucket: Option<&str>,
    ) -> Result<VerifiedRequest, AuthError> {
        let mut authorizations = head.headers.get_all(AUTHORIZATION).iter();
        let header = authorizations.next();
        let presigned = PresignedQuery::is_in(query);
        let presigned_v2 = presigned_v2::is_in(query);
        if presigned_v2 && !self.sigv2_presigned {
            return Err(AuthError::UnsupportedMechanism);
        }
        let claims = [presigned, presigned_v2, header.is_some(), authorizations.next().is_some()];
        if claims.into_iter().filter(|there| *there).count() > 1 {
            return Err(AuthError::TwoMechanisms);
        }
        session::refuse(head, query)?;
        if presigned_v2 {
            return self.verify_presigned_v2(head, query, host_bucket).await;
        }
        if presigned {
            return self.verify_presigned(head, query).await;
        }
        let Some(header) = header else { return anonymous(head) };
        let header = header.to_str().map_err(|_| AuthError::UnsupportedAuthorization)?;
        let signed = SignaturePart::Header(Authorization::parse(header)?, request_date(head)?);
        let payload = head.headers.get("x-amz-content-sha256").ok_or(AuthError::MissingPayloadHash)?;
        let payload = payload.to_str().map_err(|_| AuthError::InvalidPayloadHash { given: "".into() })?;
        let claim = Claim { payload, ..signed.claim()? };
        self.check_scope(&claim)?;
        check_skew(&claim.date, self.clock.wall_ms())?;
        self.check_signature(head, query, &claim).await
    }

    async fn verify_presigned(&self, head: &Parts, query: &Query<'_>) -> Result<VerifiedRequest, AuthError> {
        let url = PresignedQuery::parse(query)?;
        let malformed = |reason| AuthError::Malformed { place: Place::Query, reason };
        let expires_seconds = url.expires_seconds.ok_or(malformed(MalformedAuth::Components))?;
        let signed = SignaturePart::Query(url);
        let claim = signed.claim()?;
        let in_query = match query.get("X-Amz-Content-Sha256").or_else(|| query.get("x-amz-content-sha256")) {
            Some(pair) => Some(pair.value().map_err(|_| AuthError::BadUri)?),
            None => None,
        };
        let in_header = match head.headers.get("x-amz-content-sha256") {
            Some(value) => {
                Some(value.to_str().map_err(|_| AuthError::InvalidPayloadHash { given: "".into() })?)
            }
            None => None,
        };
        let payload = in_header.or(in_query.as_deref()).unwrap_or(PayloadForm::UNSIGNED);
        let claim = Claim { payload, ..claim };
        self.check_scope(&claim)?;
        let server_ms = self.clock.wall_ms();
        if claim.date.as_ms() > server_ms.saturating_add(SKEW_MS_MAX) {
            return Err(AuthError::NotYetValid);
        }
        let ended_ms = claim.date.as_ms().saturating_add(expires_seconds * 1000);
        if server_ms > ended_ms {
            let expires_seconds = Some(expires_seconds);
            return Err(AuthError::Expired { expires_seconds, ended_ms, server_ms });
        }
        self.check_signature(head, query, &claim).await
    }

    async fn verify_presigned_v2(
        &self,
        head: &Parts,
        query: &Query<'_>,
        host_bucket: Option<&str>,
    ) -> Result<VerifiedRequest, AuthError> {
        let url = PresignedV2::parse(&head.method, query)?;
        url.check_time(self.clock.wall_ms())?;
        let payload = PresignedV2::payload(head, query)?;
        let credential = self.credential(&url.access_key, Source::of(&head.extensions).address).await?;
        url.check_signature(head, query, host_bucket, &credential.secret)?;
        self.credentials.note_use(&credential, S3, &self.region);
        let signature = SignatureFacts { auth_type: AuthType::Query, signed_ms: None, is_v4: false };
        Ok(VerifiedRequest {
            caller: Caller::new(&credential, signature),
            payload,
            frames: None,
            call_id: None,
        })
    }

    /// Looks up an access key that a request from an address names. One that is remembered takes no wait and
    /// no allocation.
    ///
    /// # Errors
    /// [`AuthError::UnknownAccessKey`], or `KeysUnavailable` while it cannot be looked up.
    pub async fn credential(&self, access_key: &str, from: IpAddr) -> Result<Credential, AuthError> {
        let found =
            self.credentials.credential(access_key, from).await.map_err(AuthError::KeysUnavailable)?;
        found.ok_or_else(|| AuthError::UnknownAccessKey { access_key: access_key.into() })
    }

    /// Whether SigV2 is taken where S3 takes it.
    pub(super) const fn takes_sigv2(&self) -> bool {
        self.sigv2_presigned
    }

    /// Our time.
    pub fn now_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// The key of a scope: a kept one, or a new one.
    pub(super) fn signing_key(&self, scope: &CredentialScope<'_>, secret: &Secret) -> ScopeKey {
        match self.keys.get(scope.access_key, secret, scope.day, scope.region) {
            Some(key) => ScopeKey { key, is_new: false },
            None => ScopeKey {
                key: SigningKey::derive(secret, scope.day, scope.region, scope.service),
                is_new: true,
            },
        }
    }

    /// Keeps a key that has just verified a signature, and notes its use.
    pub(super) fn keep(&self, scope: &CredentialScope<'_>, credential: &Credential, key: &ScopeKey) {
        if key.is_new {
            self.keys.put(scope.access_key, &credential.secret, scope.day, scope.region, &key.key);
        }
        self.credentials.note_use(credential, scope.service, scope.region);
    }

    /// The fault of a scope that is not for this day and region and one of these services. STS is in every
    /// region.
    fn scope_fault(
        &self,
        services: &[&str],
        scope: &CredentialScope<'_>,
        date: &AmzDate,
    ) -> Option<MalformedAuth> {
        let is_here = || [&*self.region, FALLBACK_REGION].contains(&scope.region) || scope.service == "sts";
        Some(if scope.terminator != "aws4_request" {
            MalformedAuth::Terminator { given: scope.terminator.into() }
        } else if !services.contains(&scope.service) {
            MalformedAuth::Service { given: scope.service.into() }
        } else if !is_here() {
            MalformedAuth::Region { given: scope.region.into(), expected: self.region.clone() }
        } else if scope.day != date.day() {
            MalformedAuth::ScopeDay { scope: scope.day.into(), request: date.day().into() }
        } else {
            return None;
        })
    }

    fn check_scope(&self, claim: &Claim<'_>) -> Result<(), AuthError> {
        let are_names = are_header_names(claim.signed_headers);
        let fault = self.scope_fault(&[S3], &claim.credential, &claim.date);
        claim.check(fault.or((!are_names).then_some(MalformedAuth::SignedHeaders)))
    }

    async fn check_signature(
        &self,
        head: &Parts,
        query: &Query<'_>,
        claim: &Claim<'_>,
    ) -> Result<VerifiedRequest, AuthError> {
        // The hash of the payload stands in what a URL is signed over in any case.
        let covered = (claim.place == Place::Query).then_some("x-amz-content-sha256");
        check_signed_headers(head, claim.signed_headers, covered)?;
        let payload = PayloadForm::parse(claim.payload)
            .ok_or_else(|| AuthError::InvalidPayloadHash { given: claim.payload.into() });
        // A URL that is signed over another payload is answered by its signature.
        let payload = if claim.place == Place::Query { payload } else { Ok(payload?) };
        let Claim { credential: scope, date, .. } = claim;
        let credential = self.credential(scope.access_key, Source::of(&head.extensions).address).await?;
        let key = self.signing_key(scope, &credential.secret);
        let signature = compare(head, query, claim, &key.key)?;
        let payload = payload?;
        self.keep(scope, &credential, &key);
        let frames = matches!(payload, PayloadForm::SignedFrames { .. })
            .then(|| FrameSigner::new(key.key, date, scope.scope, signature));
        let call_id = call_id(&head.headers);
        Ok(VerifiedRequest { caller: Caller::new(&credential, claim.facts()), payload, frames, call_id })
    }
}

/// A request without a signature. Its body is as it says, or not covered; signed frames need a key.
fn anonymous(head: &Parts) -> Result<VerifiedRequest, AuthError> {
    let payload = match head.headers.get("x-amz-content-sha256") {
        Some(given) => {
            let given = String::from_utf8_lossy(given.as_bytes());
            PayloadForm::parse(&given).ok_or_else(|| AuthError::InvalidPayloadHash { given: given.into() })?
        }
        None => PayloadForm::Unsigned,
    };
    if matches!(payload, PayloadForm::SignedFrames { .. }) {
        return Err(AuthError::Anonymous);
    }
    Ok(VerifiedRequest { caller: Caller::anonymous(), payload, frames: None, call_id: None })
}

/// Computes the signature and compares it. A path that is not written canonically is tried as it
/// came too: signers exist that take the wire's path for the canonical one, and both name the
/// same key.
fn compare(
    head: &Parts,
    query: &Query<'_>,
    claim: &Claim<'_>,
    key: &SigningKey,
) -> Result<Signature, AuthError> {
    let mut request = CanonicalRequest {
        method: head.method.as_str(),
        path: head.uri.path(),
        path_form: PathForm::Canonical,
        query,
        query_without: (claim.place == Place::Query).then_some(SIGNATURE),
        headers: &head.headers,
        authority: head.uri.authority().map(http::uri::Authority::as_str),
        signed_headers: claim.signed_headers,
        payload: claim.payload,
    };
    SCRATCH.with_borrow_mut(|canonical| {
        let mut sign = |form, canonical: &mut Vec<u8>| {
            request.path_form = form;
            canonical.clear();
            request.write(canonical).map_err(|_| AuthError::BadUri)?;
            let hash = hex_sha256(canonical);
            Ok(key.sign(&string_to_sign(claim, &hash)))
        };
        let signature = sign(PathForm::Canonical, canonical)?;
        if signature.matches(claim.signature.as_bytes()) {
            return Ok(signature);
        }
        let mismatch = Mismatch {
            access_key: claim.credential.access_key.into(),
            string_to_sign: String::from_utf8_lossy(&string_to_sign(claim, &hex_sha256(canonical)).concat())
                .into(),
            canonical_request: Some(String::from_utf8_lossy(canonical).into()),
            signature: claim.signature.into(),
        };
        if !head.uri.path().bytes().all(is_plain) {
            let signature = sign(PathForm::Verbatim, canonical)?;
            if signature.matches(claim.signature.as_bytes()) {
                return Ok(signature);
            }
        }
        Err(AuthError::SignatureMismatch(Box::new(mismatch)))
    })
}

/// The pieces of the string to sign over a canonical request with this hash.
fn string_to_sign<'a>(claim: &'a Claim<'_>, hash: &'a [u8; 64]) -> [&'a [u8]; 7] {
    let date = claim.date.as_str().as_bytes();
    [ALGORITHM.as_bytes(), b"\n", date, b"\n", claim.credential.scope.as_bytes(), b"\n", hash]
}

fn hex_sha256(bytes: &[u8]) -> [u8; 64] {
    let mut text = [0; 64];
    hex::encode_to_slice(Sha256::digest(bytes), &mut text).expect("32 bytes are 64 digits");
    text
}

/// Whether a byte of a path stands for itself in the canonical form.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/')
}

/// When a header-signed request says it was signed.
fn request_date(head: &Parts) -> Result<AmzDate, AuthError> {
    if let Some(date) = head.headers.get("x-amz-date") {
        return AmzDate::parse(date.as_bytes()).ok_or(AuthError::MissingDate);
    }
    let date = head.headers.get(DATE).ok_or(AuthError::MissingDate)?;
    AmzDate::parse_http(date.as_bytes()).ok_or(AuthError::MissingDate)
}

/// The name of the header that has the id of the client's call. The header need not be signed: boto3 and the
/// SDK for Rust add it behind the signature. A token that is made of it covers the caller and what is changed
/// under which condition, too, so a forged id makes calls look alike only where one caller asked for the same
/// change twice.
fn call_id(headers: &http::HeaderMap) -> Option<&'static str> {
    CALL_IDS.into_iter().find(|name| headers.contains_key(*name))
}

fn are_header_names(list: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase())
    };
    list.split(';').count() <= HEADERS_MAX && list.split(';').all(is_name)
}

/// Checks that a header-signed request was signed at most 15 minutes from now.
fn check_skew(date: &AmzDate, server_ms: u64) -> Result<(), AuthError> {
    let request_ms = date.as_ms();
    if request_ms.abs_diff(server_ms) > SKEW_MS_MAX {
        return Err(AuthError::Skewed { request_ms, server_ms, skew_ms_max: SKEW_MS_MAX });
    }
    Ok(())
}

/// Checks that the host and every `x-amz-*` header but one that is covered otherwise are signed. One that is
/// not could have been put there on the way.
fn check_signed_headers(head: &Parts, signed_headers: &str, covered: Option<&str>) -> Result<(), AuthError> {
    if !head.headers.contains_key(HOST) && head.uri.authority().is_none() {
        return Err(AuthError::MissingHost);
    }
    let is_signed =
        |name: &str| covered == Some(name) || signed_headers.split(';').any(|signed| signed == name);
    let host = (!is_signed("host")).then_some("host");
    let names = head.headers.keys().map(http::HeaderName::as_str);
    let mut unsigned = host
        .into_iter()
        .chain(names.filter(|name| name.starts_with("x-amz-") && !is_signed(name)))
        .peekable();
    if unsigned.peek().is_none() {
        return Ok(());
    }
    Err(AuthError::HeadersNotSigned { names: unsigned.collect::<Vec<_>>().join(", ") })
}

#[cfg(test)]
mod tests;
