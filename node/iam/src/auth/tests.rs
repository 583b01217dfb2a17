//! Presigned URLs as botocore 1.43.11 makes them (`SigV4QueryAuth`), at a fixed time, with AWS's example key.

use http::Request;
use sherd_signature::Secret;

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// 2026-11-28 12:00:00 UTC, when all of them were signed.
const SIGNED_MS: u64 = 1_795_867_200_000;
/// As EKS proves who calls: its header names the cluster.
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

/// Whether a request is signed by the example key; the code where it is refused by its head.
fn judge(head: &Parts, body: &[u8], now_ms: u64) -> Result<bool, &'static str> {
    let judged = JudgedHead::parse(head, "eu-central-1", now_ms).map_err(|fault| fault.code)?;
    let scope = judged.scope().map_err(|fault| fault.code)?;
    assert_eq!(scope.access_key, "AKIAIOSFODNN7EXAMPLE");
    let key = SigningKey::derive(&Secret::new(SECRET), scope.day, scope.region, scope.service);
    matches(&judged, scope, body, &key).map_err(|fault| fault.code)
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
