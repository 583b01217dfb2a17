//! The signature of a request: SigV4 in the `Authorization` header or in the query of a presigned URL, for
//! service `iam` in the region of IAM, or for `sts` in any.
//!
//! ```text
//! header, query -> scope -> clock -> key -> body -> key -> canonical request, with its hash -> signature
//! ```
//! The head is judged before the body is read, so a client that sends no more than a head is answered.
//! The key is looked up again when the body is whole, as it may have been disabled in between.
//!
//! The keys of root are those of the configuration. Every other one is looked up as requests of S3 do.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::request::Parts;
use sha2::{Digest as _, Sha256};
use sherd_front::callers::root_keys::RootKeys;
use sherd_front::callers::{AccessKey, AuthType, Caller, SignatureFacts};
use sherd_front::unproven::lane::UnprovenLane;
use sherd_front::unproven::{UnprovenCrowd, UnprovenWork};
use sherd_signature::amz_date::AmzDate;
use sherd_signature::authorization::Authorization;
use sherd_signature::canonical::{CanonicalRequest, PathForm};
use sherd_signature::credential_scope::CredentialScope;
use sherd_signature::error::{AuthError, MalformedAuth};
use sherd_signature::presigned::{PresignedQuery, SIGNATURE};
use sherd_signature::query::Query;
use sherd_signature::signing_key::SigningKey;
use sherd_store::iam::{Iam, KeyLookup, KeyView};

use super::answer::Service;
use super::fault::Fault;
use super::limits::SKEW_MS_MAX;

/// The region of IAM.
const IAM_REGION: &str = "us-east-1";

/// Verifies requests.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// The key pairs of root.
    root: RootKeys,
    /// The region of the cluster, which tools may sign for beside that of IAM.
    region: String,
    /// The keys of users.
    iam: Iam,
    /// Look-ups of keys that were never good here, before a signature is verified.
    look_ups: UnprovenLane,
}

/// The service that a request is signed for, as its signature names it; refusals are in its form.
pub(crate) fn service_of(head: &Parts) -> Option<Service> {
    let query = Query::parse(head.uri.query()).ok()?;
    let claim = SignatureClaim::of(head, &query).ok()?;
    match claim.scope()?.service {
        "sts" => Some(Service::Sts),
        "iam" => Some(Service::Iam),
        _ => None,
    }
}

/// The signature of a request, where it stands.
#[derive(Debug)]
enum SignatureClaim<'a> {
    Header(Authorization<'a>, AmzDate),
    Query(PresignedQuery<'a>),
}

impl<'a> SignatureClaim<'a> {
    fn of(head: &'a Parts, query: &Query<'a>) -> Result<Self, Fault> {
        let mut headers = head.headers.get_all(AUTHORIZATION).iter();
        let (header, second) = (headers.next(), headers.next());
        match (header, PresignedQuery::is_in(query) || second.is_some()) {
            (Some(_), true) => Err(Fault::incomplete(
                "A request has one signature: in its Authorization header, or in its query string.",
            )),
            (Some(header), false) => Self::of_header(head, header),
            (None, true) => PresignedQuery::parse(query).map(Self::Query).map_err(|error| unread(&error)),
            (None, false) => {
                Err(Fault::new("MissingAuthenticationToken", http::StatusCode::FORBIDDEN, MISSING))
            }
        }
    }

    fn of_header(head: &Parts, header: &'a HeaderValue) -> Result<Self, Fault> {
        let malformed = "Authorization header is not of the form of Signature Version 4.";
        let header = header.to_str().map_err(|_| Fault::incomplete(malformed))?;
        let authorization = Authorization::parse(header).map_err(|_| Fault::incomplete(malformed))?;
        let date = head.headers.get("x-amz-date").and_then(|date| AmzDate::parse(date.as_bytes()));
        let date = date.ok_or_else(|| {
            Fault::incomplete("Authorization header requires existence of a 'X-Amz-Date' header.")
        })?;
        Ok(Self::Header(authorization, date))
    }

    /// The credential; none where that of a URL has not five parts.
    fn scope(&self) -> Option<CredentialScope<'_>> {
        match self {
            Self::Header(authorization, _) => Some(authorization.credential),
            Self::Query(url) => CredentialScope::parse(&url.credential),
        }
    }

    fn date(&self) -> AmzDate {
        match self {
            Self::Header(_, date) => *date,
            Self::Query(url) => url.date,
        }
    }

    fn signed_headers(&self) -> &str {
        match self {
            Self::Header(authorization, _) => authorization.signed_headers,
            Self::Query(url) => &url.signed_headers,
        }
    }

    fn signature(&self) -> &str {
        match self {
            Self::Header(authorization, _) => authorization.signature,
            Self::Query(url) => &url.signature,
        }
    }
}

/// A request whose head is right in all but its signature.
#[derive(Debug)]
pub(crate) struct JudgedHead<'a> {
    head: &'a Parts,
    query: Query<'a>,
    claim: SignatureClaim<'a>,
}

impl<'a> JudgedHead<'a> {
    /// Takes the signature apart, and checks scope, clock and the names of signed headers. A presigned URL
    /// holds as long as any signature, 15 minutes from its date, with every time that it gives: STS ignores
    /// `X-Amz-Expires`, and clients that present a URL to others later than that says rely on it
    /// (kubernetes-sigs/aws-iam-authenticator, pkg/token).
    fn parse(head: &'a Parts, region: &str, now_ms: u64) -> Result<Self, Fault> {
        let query = Query::parse(head.uri.query()).map_err(|_| bad_query())?;
        let claim = SignatureClaim::of(head, &query)?;
        let is_token = |name: &str| name.eq_ignore_ascii_case(TOKEN);
        if head.headers.contains_key(TOKEN) || query.pairs().iter().any(|pair| is_token(&pair.name)) {
            return Err(Fault::unknown_key());
        }
        let judged = Self { head, query, claim };
        judged.check_scope(region)?;
        check_clock(&judged.claim.date(), now_ms)?;
        let signed_headers = judged.claim.signed_headers();
        let is_signed = |name: &str| signed_headers.split(';').any(|signed| signed == name);
        let has_host = is_signed("host") && head.headers.contains_key(HOST);
        let unsigned =
            |name: &&http::HeaderName| name.as_str().starts_with("x-amz-") && !is_signed(name.as_str());
        if !has_host || head.headers.keys().any(|name| unsigned(&name)) {
            return Err(Fault::signature(
                "'Host' or ':authority' and all 'x-amz-' headers must be a 'SignedHeader' in the AWS Authorization.",
            ));
        }
        Ok(judged)
    }

    fn check_scope(&self, region: &str) -> Result<(), Fault> {
        let scope = self.scope()?;
        if scope.terminator != "aws4_request" {
            return Err(Fault::signature(
                "Credential should be scoped with a valid terminator: 'aws4_request'.",
            ));
        }
        match scope.service {
            "sts" => {}
            "iam" if scope.region == IAM_REGION || scope.region == region => {}
            "iam" => return Err(Fault::signature("Credential should be scoped to a valid region.")),
            _ => return Err(Fault::signature("Credential should be scoped to correct service: 'iam'.")),
        }
        if scope.day != self.claim.date().day() {
            return Err(Fault::signature(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.",
            ));
        }
        Ok(())
    }

    fn scope(&self) -> Result<CredentialScope<'_>, Fault> {
        self.claim.scope().ok_or_else(|| {
            Fault::incomplete("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term")
        })
    }
}

impl Verifier {
    /// A verifier of these keys.
    pub(crate) fn new(root: RootKeys, region: String, iam: Iam) -> Self {
        Self { root, region, iam, look_ups: UnprovenLane::new(UnprovenWork::IamKeys) }
    }

    /// The key pairs of root.
    pub(crate) const fn root(&self) -> &RootKeys {
        &self.root
    }

    /// Judges the head of a request from an address, whose body has not been read: the form of its signature,
    /// its scope, its clock, and whether its key is good. `now_ms` is our time.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn judge_head<'a>(
        &self,
        head: &'a Parts,
        from: IpAddr,
        now_ms: u64,
    ) -> Result<JudgedHead<'a>, Fault> {
        let judged = JudgedHead::parse(head, &self.region, now_ms)?;
        let access_key = judged.scope()?.access_key;
        if self.root.get(access_key).is_some() {
            return Ok(judged);
        }
        match self.iam.remembered_key(access_key) {
            Some(KeyLookup::Unknown) => return Err(Fault::unknown_key()),
            Some(KeyLookup::Known(_)) => {}
            None if self.iam.was_good(access_key) => drop(self.look_up(access_key).await?),
            // The key may be made up: of such look-ups the oldest gives way, and none waits.
            None => {
                let place = self.look_ups.enter(from).await.map_err(|UnprovenCrowd| Fault::throttled())?;
                // Cancel-safe: others that wait for the same look-up go on.
                tokio::select! {
                    biased;
                    found = self.look_up(access_key) => drop(found?),
                    () = place.lost() => return Err(Fault::throttled()),
                }
            }
        }
        Ok(judged)
    }

    /// Verifies the signature of a request whose body is here.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn verify(&self, judged: &JudgedHead<'_>, body: &[u8]) -> Result<Caller, Fault> {
        let scope = judged.scope()?;
        let credential = match self.root.get(scope.access_key) {
            Some(root) => root,
            None => self.look_up(scope.access_key).await?.into(),
        };
        let key = SigningKey::derive(&credential.secret, scope.day, scope.region, scope.service);
        if !matches(judged, scope, body, &key)? {
            return Err(Fault::signature(MISMATCH));
        }
        if let AccessKey::Stored(view) = &credential.access_key {
            self.iam.note_use(view, scope.service, scope.region);
        }
        let auth_type = match judged.claim {
            SignatureClaim::Header(..) => AuthType::Header,
            SignatureClaim::Query(_) => AuthType::Query,
        };
        let signed_ms = Some(judged.claim.date().as_ms());
        Ok(Caller::new(&credential, SignatureFacts { auth_type, signed_ms, is_v4: true }))
    }

    async fn look_up(&self, access_key: &str) -> Result<Arc<KeyView>, Fault> {
        let found = self.iam.look_up_key(access_key).await.map_err(|error| {
            tracing::warn!(%error, "an access key cannot be looked up");
            Fault::unavailable()
        })?;
        found.ok_or_else(Fault::unknown_key)
    }
}

/// The token of a session, and sessions do not exist here.
const TOKEN: &str = "x-amz-security-token";
const MISSING: &str = "Request is missing Authentication Token";
const MISMATCH: &str = "The request signature we calculated does not match the signature you provided. Check your \
                        AWS Secret Access Key and signing method. Consult the service documentation for details.";

fn check_clock(date: &AmzDate, now_ms: u64) -> Result<(), Fault> {
    let (signed, now) = (date.as_str(), AmzDate::from_ms(now_ms));
    if date.as_ms() + SKEW_MS_MAX < now_ms {
        let oldest = AmzDate::from_ms(now_ms - SKEW_MS_MAX);
        let message = format!(
            "Signature expired: {signed} is now earlier than {} ({} - 15 min.)",
            oldest.as_str(),
            now.as_str()
        );
        return Err(Fault::signature(message));
    }
    if date.as_ms() > now_ms + SKEW_MS_MAX {
        let newest = AmzDate::from_ms(now_ms + SKEW_MS_MAX);
        let message = format!(
            "Signature not yet current: {signed} is still later than {} ({} + 15 min.)",
            newest.as_str(),
            now.as_str()
        );
        return Err(Fault::signature(message));
    }
    Ok(())
}

/// Whether the signature is that of the request. The hash of the body is computed here, and not
/// taken from a header.
fn matches(
    judged: &JudgedHead<'_>,
    scope: CredentialScope<'_>,
    body: &[u8],
    key: &SigningKey,
) -> Result<bool, Fault> {
    let JudgedHead { head, query, claim } = judged;
    let payload = hex::encode(Sha256::digest(body));
    let mut canonical = Vec::new();
    let request = CanonicalRequest {
        method: head.method.as_str(),
        path: head.uri.path(),
        path_form: PathForm::Canonical,
        query,
        query_without: matches!(claim, SignatureClaim::Query(_)).then_some(SIGNATURE),
        headers: &head.headers,
        authority: None,
        signed_headers: claim.signed_headers(),
        payload: &payload,
    };
    request.write(&mut canonical).map_err(|_| bad_query())?;
    let hash = hex::encode(Sha256::digest(&canonical));
    let signature = key.sign(&[
        b"AWS4-HMAC-SHA256\n",
        claim.date().as_str().as_bytes(),
        b"\n",
        scope.scope.as_bytes(),
        b"\n",
        hash.as_bytes(),
    ]);
    Ok(signature.matches(claim.signature().as_bytes()))
}

fn bad_query() -> Fault {
    Fault::new(
        "MalformedQueryString",
        http::StatusCode::NOT_FOUND,
        "The query string contains a syntax error.",
    )
}

/// The refusal of a presigned URL whose signature cannot be read.
fn unread(error: &AuthError) -> Fault {
    let AuthError::Malformed { reason, .. } = error else { return Fault::incomplete(error.to_string()) };
    Fault::incomplete(match reason {
        MalformedAuth::Algorithm => "Unsupported AWS 'algorithm'.",
        MalformedAuth::Date => "Date must be in ISO-8601 'basic format'.",
        MalformedAuth::ExpiresNumber | MalformedAuth::ExpiresTooSoon | MalformedAuth::ExpiresTooLate => {
            "X-Amz-Expires must be a number of seconds from 1 to 604800."
        }
        _ => {
            "AWS query-string parameters must include 'X-Amz-Algorithm', 'X-Amz-Credential', \
             'X-Amz-Signature', 'X-Amz-SignedHeaders' and 'X-Amz-Date', each once. Re-examine the query-string \
             parameters."
        }
    })
}

#[cfg(test)]
mod tests;
