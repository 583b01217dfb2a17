//! Presigned URLs as SDKs make them by default: with Signature Version 2, and with the checksum of a body
//! that the signer did not have.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha1::Sha1;

use crate::wire::{ACCESS_KEY, Asking, NOW_MS, SECRET, Server};

/// A second in which URLs still hold.
const LATER: u64 = NOW_MS / 1000 + 60;

/// The target with a signature of Signature Version 2 over `lines`, which stand before the expiry, and
/// `resource`.
fn signed(target: &str, lines: &str, resource: &str, expires: u64) -> String {
    let text = format!("{lines}\n{expires}\n{resource}");
    let mac = Hmac::<Sha1>::new_from_slice(SECRET.as_bytes()).expect("any length");
    let signature = STANDARD.encode(mac.chain_update(text).finalize().into_bytes());
    let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
    let separator = if target.contains('?') { '&' } else { '?' };
    format!("{target}{separator}AWSAccessKeyId={ACCESS_KEY}&Signature={signature}&Expires={expires}")
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn urls_of_signature_version_2_put_and_get() {
    let server = Server::start().await;
    let target = signed("/bucket/a%20b", "PUT\n\nimage/png", "/bucket/a%20b", LATER);
    let put = Asking::new("PUT", &target).body(b"abc").unsigned("content-type", "image/png");
    let answer = server.exchange(&put.bare(None)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let stored = server.memory.object("bucket", "a b").expect("stored");
    assert_eq!((&stored.bytes[..], stored.content_type.as_deref()), (&b"abc"[..], Some("image/png")));

    let get = signed("/bucket/a%20b", "GET\n\n", "/bucket/a%20b", LATER);
    assert_eq!(server.exchange(&Asking::new("GET", &get).bare(None)).await.text(), "abc");
    let head = signed("/bucket/a%20b", "HEAD\n\n", "/bucket/a%20b", LATER);
    assert_eq!(server.exchange(&Asking::new("HEAD", &head).bare(None)).await.status, 200);
    let by_host = signed("/a%20b", "GET\n\n", "/my.bucket/a%20b", LATER);
    server.memory.keep("my.bucket", "a b", "other");
    let by_host = Asking::new("GET", &by_host).host("my.bucket.s3.test");
    assert_eq!(server.exchange(&by_host.bare(None)).await.text(), "other");
    // boto3 puts the headers that it signed into the query.
    let in_query = "/bucket/k?content-type=text%2Fplain&x-amz-meta-colour=blue";
    let in_query = signed(in_query, "PUT\n\ntext/plain", "x-amz-meta-colour:blue\n/bucket/k", LATER);
    let put = Asking::new("PUT", &in_query).body(b"abc");
    let answer = server.exchange(&put.bare(None)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let stored = server.memory.object("bucket", "k").expect("stored");
    assert_eq!(stored.content_type.as_deref(), Some("text/plain"));
    assert_eq!(stored.metadata["colour"], "blue");
}

#[tokio::test]
async fn urls_of_signature_version_2_are_refused_for_all_else() {
    let server = Server::start().await;
    server.memory.keep("bucket", "k", "abc");
    let get = |target: &str, expires| Asking::new("GET", &signed(target, "GET\n\n", "/bucket/k", expires));
    let refusal = async |request: Asking| server.exchange(&request.bare(None)).await.refusal();
    assert_eq!(server.exchange(&get("/bucket/k", LATER).bare(None)).await.status, 200);
    let denied = code(403, "AccessDenied");
    assert_eq!(refusal(get("/bucket/k", NOW_MS / 1000 - 1)).await, denied, "its time is over");
    assert_eq!(refusal(get("/bucket/k?prefix=a", LATER)).await, denied, "a parameter that is not signed");
    assert_eq!(refusal(get("/bucket/k?list-type=2", LATER)).await, denied);
    let wrong = code(403, "SignatureDoesNotMatch");
    let added = get("/bucket/k", LATER).unsigned("x-amz-meta-a", "b");
    assert_eq!(refusal(added).await, wrong, "a header of Amazon's that was not signed");
    assert_eq!(refusal(get("/bucket/k?acl", LATER)).await, wrong, "a sub-resource that was not signed");
    let other = Asking::new("HEAD", &signed("/bucket/k", "GET\n\n", "/bucket/k", LATER));
    assert_eq!(server.exchange(&other.bare(None)).await.status, 403, "signed for another method");
    for method in ["DELETE", "POST"] {
        let url = signed("/bucket/k", &format!("{method}\n\n"), "/bucket/k", LATER);
        assert_eq!(refusal(Asking::new(method, &url)).await, code(400, "InvalidRequest"), "{method}");
    }
    let both = get("/bucket/k", LATER);
    assert_eq!(server.exchange(&both.bare(Some("AWS a:b"))).await.refusal(), code(400, "InvalidArgument"));
    let missing = Asking::new("GET", "/bucket/k?AWSAccessKeyId=AKIDTEST&Expires=2000000000");
    assert_eq!(refusal(missing).await, denied);
    let no_number = Asking::new("GET", "/bucket/k?AWSAccessKeyId=AKIDTEST&Signature=abc&Expires=soon");
    assert_eq!(refusal(no_number).await, denied);
    let stranger = Asking::new("GET", "/bucket/k?AWSAccessKeyId=AKIDNOBODY&Signature=abc&Expires=2000000000");
    assert_eq!(refusal(stranger).await, code(403, "InvalidAccessKeyId"));
}

/// The SDK for JavaScript signs without a body and puts that body's checksum into the URL.
#[tokio::test]
async fn the_checksum_of_no_body_in_a_url_says_nothing_of_the_body() {
    let server = Server::start().await;
    let url = "/bucket/k?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32";
    let part = "/bucket/k?partNumber=1&uploadId=u&x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32";
    for target in [url, part] {
        let mut put = Asking::new("PUT", target).unsigned("content-length", "5");
        put.body = b"hello".to_vec();
        let answer = server.exchange(&put.presigned(60)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (headers, _) = server.memory.last_seen();
        assert!(
            !headers.contains_key("x-amz-checksum-crc32")
                && !headers.contains_key("x-amz-sdk-checksum-algorithm")
        );
    }
    let empty = Asking::new("PUT", url).unsigned("content-length", "0");
    assert_eq!(server.exchange(&empty.presigned(60)).await.status, 200);
    assert_eq!(server.memory.last_seen().0["x-amz-checksum-crc32"], "AAAAAA==", "here it is right");
    let mut other =
        Asking::new("PUT", "/bucket/k?x-amz-checksum-crc32=y%2FQ5Jg%3D%3D").unsigned("content-length", "5");
    other.body = b"hello".to_vec();
    server.exchange(&other.presigned(60)).await;
    assert_eq!(server.memory.last_seen().0["x-amz-checksum-crc32"], "y/Q5Jg==", "another is the body's");
}

/// The hash is part of what is signed, whether the URL names the header or not.
#[tokio::test]
async fn a_payload_that_a_url_is_not_signed_for_is_a_wrong_signature() {
    let server = Server::start().await;
    let put = |hash: &str| Asking::new("PUT", "/bucket/k").body(b"a").unsigned("x-amz-content-sha256", hash);
    for hash in ["0".repeat(64).as_str(), "nonsense", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"] {
        let answer = server.exchange(&put(hash).presigned(60)).await;
        assert_eq!(answer.refusal(), (403, "SignatureDoesNotMatch".to_owned()), "{hash}");
    }
    assert!(server.memory.calls().is_empty());
    assert_eq!(server.exchange(&put("UNSIGNED-PAYLOAD").presigned(60)).await.status, 200);
}
