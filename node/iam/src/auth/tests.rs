//! Presigned URLs as botocore 1.43.11 makes them (`SigV4QueryAuth`), at a fixed time, with AWS's example key.

use std::sync::Arc;

use futures::FutureExt as _;
use http::Request;
use http::header::HOST;
use sherd_core::env::Clock;
use sherd_front::callers::StaticCredentials;
use sherd_front::verifier::Verifier;
use sherd_signature::Secret;

use super::*;

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
/// 15 minutes.
const SKEW_MS_MAX: u64 = 900_000;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// 2026-11-28 12:00:00 UTC, when all of them were signed.
const SIGNED_MS: u64 = 1_795_867_200_000;
/// A request of EKS to prove who calls: its header names the cluster.
const EKS: &str = "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256\
    &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261128%2Feu-central-1%2Fsts%2Faws4_request\
    &X-Amz-Date=20261128T120000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id\
    &X-Amz-Signature=b103fabeb0b1bd8e723e3e8f8cadb65c11f34197b291ef25f019ee82d7fa448a";
const POST: &str = "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256\
    &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261128%2Fus-east-1%2Fsts%2Faws4_request\
    &X-Amz-Date=20261128T120000Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host\
    &X-Amz-Signature=6c7298a3ff59ec95c2d3a72cd52227a48d6cb316adea27225085dcb2b6488c95";
const IAM: &str = "/?Action=GetUser&Version=2010-05-08&UserName=a%20b%2Bc%40d&X-Amz-Algorithm=AWS4-HMAC-SHA256\
    &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261128%2Fus-east-1%2Fiam%2Faws4_request\
    &X-Amz-Date=20261128T120000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host\
    &X-Amz-Signature=7ffee0cf475f99a5375d06f1cd9895e991b32fc0c65007c70dfccdd1f05ce0cb";

fn head(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let request = Request::builder().method(method).uri(uri).header(HOST, "iam.test:9001");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).expect("a request").into_parts().0
}

#[derive(Debug)]
struct SetClock(u64);

impl Clock for SetClock {
    fn wall_ms(&self) -> u64 {
        self.0
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

/// Whether a request is signed by the example key; the refusal where it is refused by its head.
fn verify(head: &Parts, body: &[u8], now_ms: u64) -> Result<bool, Fault> {
    let credentials = Arc::new(StaticCredentials::single(KEY, Secret::new(SECRET)));
    let verifier = Verifier::new("eu-central-1", credentials, Arc::new(SetClock(now_ms)));
    let checked = verifier.check_head(head).now_or_never().expect("a static key takes no wait")?;
    match verifier.verify_body(&checked, body).now_or_never().expect("a static key takes no wait") {
        Ok(caller) => Ok(caller.access_key() == KEY),
        Err(AuthError::SignatureMismatch(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn judge(head: &Parts, body: &[u8], now_ms: u64) -> Result<bool, &'static str> {
    verify(head, body, now_ms).map_err(|fault| fault.code)
}

#[test]
fn presigned_urls_of_sts_and_iam_are_verified() {
    let cluster = [("x-k8s-aws-id", "prod cluster")];
    for (method, uri, headers) in [("GET", EKS, &cluster[..]), ("POST", POST, &[]), ("GET", IAM, &[])] {
        assert_eq!(judge(&head(method, uri, headers), b"", SIGNED_MS), Ok(true), "{uri}");
        assert_eq!(judge(&head(method, uri, headers), b"Action=ListUsers", SIGNED_MS), Ok(false), "{uri}");
        let changed = uri.replace("Version=20", "Version=21");
        assert_eq!(judge(&head(method, &changed, headers), b"", SIGNED_MS), Ok(false), "{changed}");
    }
    assert_eq!(judge(&head("POST", EKS, &cluster), b"", SIGNED_MS), Ok(false), "signed for a GET");
    for headers in [&[][..], &[("x-k8s-aws-id", "other")]] {
        assert_eq!(judge(&head("GET", EKS, headers), b"", SIGNED_MS), Ok(false), "of another cluster");
    }
    let named = |uri| service_of(&head("GET", uri, &[])).map(Service::name);
    assert_eq!((named(EKS), named(IAM), named("/")), (Some("sts"), Some("iam"), None));
}

/// 15 minutes, as STS does: it ignores `X-Amz-Expires`.
#[test]
fn a_presigned_url_holds_for_fifteen_minutes_whatever_it_says() {
    for uri in [POST, IAM] {
        for (now_ms, judged) in [
            (SIGNED_MS + SKEW_MS_MAX, Ok(true)),
            (SIGNED_MS - SKEW_MS_MAX, Ok(true)),
            (SIGNED_MS + SKEW_MS_MAX + 1, Err("SignatureDoesNotMatch")),
            (SIGNED_MS - SKEW_MS_MAX - 1, Err("SignatureDoesNotMatch")),
        ] {
            let method = if uri == POST { "POST" } else { "GET" };
            assert_eq!(judge(&head(method, uri, &[]), b"", now_ms), judged, "{uri} at {now_ms}");
        }
    }
    let short = [("x-k8s-aws-id", "prod cluster")];
    assert_eq!(
        judge(&head("GET", EKS, &short), b"", SIGNED_MS + 840_000),
        Ok(true),
        "60 s, after 14 minutes"
    );
}

#[test]
fn malformed_presigned_urls_are_refused_by_their_heads() {
    for (from, to, code) in [
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256", "IncompleteSignature"),
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256&", "", "IncompleteSignature"),
        ("X-Amz-Expires=900", "X-Amz-Expires=0", "IncompleteSignature"),
        ("X-Amz-Expires=900", "X-Amz-Expires=604801", "IncompleteSignature"),
        ("X-Amz-Date=20261128T120000Z", "X-Amz-Date=2026-11-28", "IncompleteSignature"),
        ("X-Amz-Date=20261128T120000Z", "X-Amz-Date=20261127T235959Z", "SignatureDoesNotMatch"),
        ("%2Faws4_request", "", "IncompleteSignature"),
        ("%2Fiam%2F", "%2Fs3%2F", "SignatureDoesNotMatch"),
        ("us-east-1%2Fiam", "us-west-9%2Fiam", "SignatureDoesNotMatch"),
        ("SignedHeaders=host", "SignedHeaders=date", "SignatureDoesNotMatch"),
        ("&X-Amz-Expires", "&X-Amz-Security-Token=t&X-Amz-Expires", "InvalidClientTokenId"),
        ("&X-Amz-Expires", "&X-Amz-Date=20261128T120000Z&X-Amz-Expires", "IncompleteSignature"),
    ] {
        let uri = IAM.replace(from, to);
        assert_ne!(uri, IAM, "{from}");
        assert_eq!(judge(&head("GET", &uri, &[]), b"", SIGNED_MS), Err(code), "{to}");
    }
    let without_time = IAM.replace("&X-Amz-Expires=900", "");
    assert_eq!(judge(&head("GET", &without_time, &[]), b"", SIGNED_MS), Ok(false), "read, and not so signed");
    let twice = [("authorization", "AWS4-HMAC-SHA256 Credential=a/20261128/us-east-1/iam/aws4_request")];
    assert_eq!(judge(&head("GET", IAM, &twice), b"", SIGNED_MS), Err("IncompleteSignature"));
    assert_eq!(
        judge(&head("GET", "/?Action=GetUser", &[]), b"", SIGNED_MS),
        Err("MissingAuthenticationToken")
    );
    assert_eq!(
        judge(&head("GET", IAM, &[("x-amz-other", "1")]), b"", SIGNED_MS),
        Err("SignatureDoesNotMatch")
    );
}

#[test]
fn a_refusal_of_a_head_says_its_reason() {
    const SCOPE: &str = "20261128/us-east-1/iam/aws4_request";
    let signed = |key: &str, scope: &str| {
        format!("AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders=host;x-amz-date, Signature=ab")
    };
    let said = |authorization: &str, more: (&'static str, &str), now_ms| {
        let headers = [("authorization", authorization), ("x-amz-date", "20261128T120000Z"), more];
        verify(&head("POST", "/", &headers), b"", now_ms).expect_err("refused")
    };
    let plain = ("accept", "*/*");
    let by_header = |authorization: &str| said(authorization, plain, SIGNED_MS);
    let right = signed(KEY, SCOPE);
    for (fault, code, message) in [
        (
            by_header("Basic YTpi"),
            "IncompleteSignature",
            "Authorization header is not of the form of Signature Version 4.",
        ),
        (
            by_header(&signed(KEY, "20261128/us-east-1/iam")),
            "IncompleteSignature",
            "Authorization header is not of the form of Signature Version 4.",
        ),
        (
            by_header(&signed(KEY, "20261128/us-east-1/iam/aws4")),
            "SignatureDoesNotMatch",
            "Credential should be scoped with a valid terminator: 'aws4_request'.",
        ),
        (
            by_header(&signed(KEY, "20261128/us-east-1/s3/aws4_request")),
            "SignatureDoesNotMatch",
            "Credential should be scoped to correct service: 'iam'.",
        ),
        (
            by_header(&signed(KEY, "20261128/us-west-9/iam/aws4_request")),
            "SignatureDoesNotMatch",
            "Credential should be scoped to a valid region.",
        ),
        (
            by_header(&signed(KEY, "20261127/us-west-9/sts/aws4_request")),
            "SignatureDoesNotMatch",
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.",
        ),
        (
            by_header(&signed("OTHER", SCOPE)),
            "InvalidClientTokenId",
            "The security token included in the request is invalid.",
        ),
        (
            said(&right, ("x-amz-security-token", "t"), SIGNED_MS),
            "InvalidClientTokenId",
            "The security token included in the request is invalid.",
        ),
        (
            said(&right, ("x-amz-other", "1"), SIGNED_MS),
            "SignatureDoesNotMatch",
            "'Host' or ':authority' and all 'x-amz-' headers must be a 'SignedHeader' in the AWS Authorization.",
        ),
        (
            said(&right, plain, SIGNED_MS + SKEW_MS_MAX + 1000),
            "SignatureDoesNotMatch",
            "Signature expired: 20261128T120000Z is now earlier than 20261128T120001Z (20261128T121501Z - 15 min.)",
        ),
        (
            said(&right, plain, SIGNED_MS - SKEW_MS_MAX - 1000),
            "SignatureDoesNotMatch",
            "Signature not yet current: 20261128T120000Z is still later than 20261128T115959Z (20261128T114459Z + 15 \
             min.)",
        ),
        (
            verify(&head("POST", "/", &[("authorization", &right)]), b"", SIGNED_MS).expect_err("no date"),
            "IncompleteSignature",
            "Authorization header requires existence of a 'X-Amz-Date' header.",
        ),
    ] {
        assert_eq!((fault.code, &*fault.message), (code, message));
    }
    let headers = [("authorization", &*right), ("x-amz-date", "20261128T120000Z")];
    assert_eq!(judge(&head("POST", "/", &headers), b"", SIGNED_MS), Ok(false), "right but for its signature");
}
