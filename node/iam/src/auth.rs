//! The signature of a request: SigV4 in the `Authorization` header, for service `iam` in the region of IAM,
//! or for `sts` in any.
//!
//! ```text
//! header -> scope -> clock -> key -> body -> key -> canonical request, with its hash -> signature
//! ```
//! The head is judged before the body is read, so a client that sends no more than a head is answered.
//! The key is looked up again when the body is whole, as it may have been disabled in between.
//!
//! The keys of root are those of the configuration. Every other one is looked up as requests of S3 do.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use sha2::{Digest as _, Sha256};
use sherd_policy::{Identity, ROOT_ARN};
use sherd_s3::auth::Secret;
use sherd_s3::auth::amz_date::AmzDate;
use sherd_s3::auth::authorization::Authorization;
use sherd_s3::auth::canonical::{CanonicalRequest, PathForm};
use sherd_s3::auth::root_keys::RootKeys;
use sherd_s3::auth::signing_key::SigningKey;
use sherd_s3::protocol::query::Query;
use sherd_store::iam::{Iam, KeyLookup, KeyView};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answer::Service;
use super::fault::Fault;
use super::limits::{LOOK_UPS_MAX, SKEW_MS_MAX, TURN_WAIT_MAX};

/// The region of IAM.
const IAM_REGION: &str = "us-east-1";

/// A caller that is proven.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Its identity.
    pub(crate) identity: Arc<Identity>,
    /// The key that signed; empty for a caller that a certificate proves.
    pub(crate) access_key: String,
}

impl Caller {
    /// Its ARN.
    pub(crate) fn arn(&self) -> &str {
        match &*self.identity {
            Identity::User(user) => &user.arn,
            Identity::Root | Identity::Anonymous => ROOT_ARN,
        }
    }

    /// Root, proven by a certificate.
    pub(crate) fn root() -> Self {
        Self { identity: Arc::new(Identity::Root), access_key: String::new() }
    }
}

/// Verifies requests.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// The key pairs of root.
    root: RootKeys,
    /// The region of the cluster, which tools may sign for beside that of IAM.
    region: String,
    /// The keys of users.
    iam: Iam,
    /// Bounds the look-ups of keys that are not remembered, before a signature is verified.
    look_ups: Semaphore,
}

/// The service that a request is signed for, as its header names it; refusals are in its form.
pub(crate) fn service_of(head: &Parts) -> Option<Service> {
    let header = head.headers.get(AUTHORIZATION)?.to_str().ok()?;
    match Authorization::parse(header).ok()?.credential.service {
        "sts" => Some(Service::Sts),
        "iam" => Some(Service::Iam),
        _ => None,
    }
}

/// A request whose head is right in all but its signature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgedHead<'a> {
    head: &'a Parts,
    authorization: Authorization<'a>,
    date: AmzDate,
}

impl<'a> JudgedHead<'a> {
    /// Takes the headers of the signature apart, and checks scope, clock and the names of signed headers.
    fn parse(head: &'a Parts, region: &str, now_ms: u64) -> Result<Self, Fault> {
        let missing = || Fault::new("MissingAuthenticationToken", http::StatusCode::FORBIDDEN, MISSING);
        let header = head.headers.get(AUTHORIZATION).ok_or_else(missing)?;
        let header = header.to_str().map_err(|_| missing())?;
        let authorization = Authorization::parse(header).map_err(|_| {
            Fault::incomplete("Authorization header is not of the form of Signature Version 4.")
        })?;
        if head.headers.contains_key("x-amz-security-token") {
            return Err(Fault::unknown_key());
        }
        let date = head.headers.get("x-amz-date").and_then(|date| AmzDate::parse(date.as_bytes()));
        let date = date.ok_or_else(|| {
            Fault::incomplete("Authorization header requires existence of a 'X-Amz-Date' header.")
        })?;
        let scope = &authorization.credential;
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
        if scope.day != date.day() {
            return Err(Fault::signature(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.",
            ));
        }
        check_clock(&date, now_ms)?;
        let is_signed = |name: &str| authorization.signed_headers.split(';').any(|signed| signed == name);
        let has_host = is_signed("host") && head.headers.contains_key(HOST);
        let unsigned =
            |name: &&http::HeaderName| name.as_str().starts_with("x-amz-") && !is_signed(name.as_str());
        if !has_host || head.headers.keys().any(|name| unsigned(&name)) {
            return Err(Fault::signature(
                "'Host' or ':authority' and all 'x-amz-' headers must be a 'SignedHeader' in the AWS Authorization.",
            ));
        }
        Ok(Self { head, authorization, date })
    }

    fn access_key(&self) -> &'a str {
        self.authorization.credential.access_key
    }
}

impl Verifier {
    /// A verifier of these keys.
    pub(crate) fn new(root: RootKeys, region: String, iam: Iam) -> Self {
        Self { root, region, iam, look_ups: Semaphore::new(LOOK_UPS_MAX) }
    }

    /// Judges the head of a request whose body has not been read: the form of its signature, its scope, its
    /// clock, and whether its key is good. `now_ms` is our time.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn judge_head<'a>(&self, head: &'a Parts, now_ms: u64) -> Result<JudgedHead<'a>, Fault> {
        let judged = JudgedHead::parse(head, &self.region, now_ms)?;
        if self.root.get(judged.access_key()).is_some() {
            return Ok(judged);
        }
        // Only look-ups that read registers wait for each other.
        match self.iam.remembered_key(judged.access_key()) {
            Some(KeyLookup::Unknown) => return Err(Fault::unknown_key()),
            Some(KeyLookup::Known(_)) => return Ok(judged),
            None => {}
        }
        let Ok(Ok(_turn)) = timeout(TURN_WAIT_MAX, self.look_ups.acquire()).await else {
            return Err(Fault::throttled());
        };
        self.look_up(judged.access_key()).await.map(|_| judged)
    }

    /// Verifies the signature of a request whose body is here.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn verify(&self, judged: JudgedHead<'_>, body: &[u8]) -> Result<Caller, Fault> {
        let (scope, access_key) = (&judged.authorization.credential, judged.access_key().to_owned());
        let (caller, secret, view) = if let Some(root) = self.root.get(&access_key) {
            (Caller { access_key, ..Caller::root() }, root.secret, None)
        } else {
            let view = self.look_up(&access_key).await?;
            let caller = Caller { identity: Arc::clone(&view.identity), access_key };
            (caller, Secret::new(Arc::clone(view.secret.expose())), Some(view))
        };
        let key = SigningKey::derive(&secret, scope.day, scope.region, scope.service);
        if !matches(&judged, body, &key)? {
            return Err(Fault::signature(MISMATCH));
        }
        if let Some(view) = view {
            self.iam.note_use(&view, scope.service, scope.region);
        }
        Ok(caller)
    }

    async fn look_up(&self, access_key: &str) -> Result<Arc<KeyView>, Fault> {
        let found = self.iam.look_up_key(access_key).await.map_err(|error| {
            tracing::warn!(%error, "an access key cannot be looked up");
            Fault::unavailable()
        })?;
        found.ok_or_else(Fault::unknown_key)
    }
}

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
fn matches(judged: &JudgedHead<'_>, body: &[u8], key: &SigningKey) -> Result<bool, Fault> {
    let JudgedHead { head, authorization, date } = judged;
    let bad_query = || {
        Fault::new(
            "MalformedQueryString",
            http::StatusCode::NOT_FOUND,
            "The query string contains a syntax error.",
        )
    };
    let query = Query::parse(head.uri.query()).map_err(|_| bad_query())?;
    let payload = hex::encode(Sha256::digest(body));
    let mut canonical = Vec::new();
    let request = CanonicalRequest {
        method: head.method.as_str(),
        path: head.uri.path(),
        path_form: PathForm::Canonical,
        query: &query,
        query_without: None,
        headers: &head.headers,
        authority: None,
        signed_headers: authorization.signed_headers,
        payload: &payload,
    };
    request.write(&mut canonical).map_err(|_| bad_query())?;
    let hash = hex::encode(Sha256::digest(&canonical));
    let signature = key.sign(&[
        b"AWS4-HMAC-SHA256\n",
        date.as_str().as_bytes(),
        b"\n",
        authorization.credential.scope.as_bytes(),
        b"\n",
        hash.as_bytes(),
    ]);
    Ok(signature.matches(authorization.signature.as_bytes()))
}
