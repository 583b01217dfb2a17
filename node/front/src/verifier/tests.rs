//! The examples that AWS publishes for S3, and one refusal after the other.

use futures::FutureExt as _;
use sherd_signature::Secret;

use super::*;
use crate::callers::StaticCredentials;

/// 2013-05-24T00:00:00Z, when AWS's examples were signed.
const EXAMPLE_MS: u64 = 1_369_353_600_000;
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[derive(Debug)]
struct At(u64);

impl Clock for At {
    fn wall_ms(&self) -> u64 {
        self.0
    }
    fn monotonic_us(&self) -> u64 {
        0
    }
}

fn verifier(region: &str, now_ms: u64) -> Verifier {
    let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    let keys = StaticCredentials::single("AKIAIOSFODNN7EXAMPLE", secret);
    Verifier::new(region, Arc::new(keys), Arc::new(At(now_ms)))
}

fn head(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

fn authorization(signed: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={signed},Signature={signature}"
    )
}

/// The result of a verification by keys that take no wait.
fn now<T>(verified: impl Future<Output = T>) -> T {
    verified.now_or_never().expect("a static key takes no wait")
}

fn verify(verifier: &Verifier, head: &Parts) -> Result<VerifiedRequest, AuthError> {
    let query = Query::parse(head.uri.query()).expect("a query");
    now(verifier.verify(head, &query, None))
}

/// A GET as in AWS's examples, with the header values given.
fn get(uri: &str, signed: &str, signature: &str, more: &[(&str, &str)]) -> Parts {
    let authorization = authorization(signed, signature);
    let mut headers = vec![
        ("host", "examplebucket.s3.amazonaws.com"),
        ("authorization", &*authorization),
        ("x-amz-content-sha256", EMPTY),
        ("x-amz-date", "20130524T000000Z"),
    ];
    headers.extend_from_slice(more);
    head("GET", uri, &headers)
}

#[test]
fn the_published_get_object_verifies() {
    let head = get(
        "/test.txt",
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        &[("range", "bytes=0-9")],
    );
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    for round in 0..2 {
        let proof = verify(&verifier, &head).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(proof.caller.access_key(), "AKIAIOSFODNN7EXAMPLE");
        assert!(proof.frames.is_none());
    }
}

#[test]
fn a_call_is_named_by_the_client_or_by_its_sdk() {
    let call_id_of = |headers: &[(&str, &str)]| {
        let all = [&[("range", "bytes=0-9")], headers].concat();
        let head = get(
            "/test.txt",
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            &all,
        );
        verify(&verifier("us-east-1", EXAMPLE_MS), &head).map(|proof| proof.call_id)
    };
    assert_eq!(call_id_of(&[]).expect("it verifies"), None);
    let unsigned = call_id_of(&[("amz-sdk-invocation-id", "1d2c")]);
    assert_eq!(unsigned.expect("boto3 does not sign it"), Some("amz-sdk-invocation-id"));
    call_id_of(&[("x-amz-client-token", "mine")]).expect_err("x-amz-* headers are signed");
    let both = get("/", "", "", &[("amz-sdk-invocation-id", "1d2c"), ("x-amz-client-token", "mine")]);
    assert_eq!(call_id(&both.headers), Some("x-amz-client-token"), "the client's own comes first");
}

#[test]
fn the_published_put_object_verifies() {
    let authorization = authorization(
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
    let head = head(
        "PUT",
        "/test$file.text",
        &[
            ("host", "examplebucket.s3.amazonaws.com"),
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("authorization", &authorization),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
        ],
    );
    let proof = verify(&verifier("us-east-1", EXAMPLE_MS), &head).expect("AWS's own example");
    assert!(matches!(proof.payload, PayloadForm::Sha256([0x44, 0xce, ..])));
}

#[test]
fn the_published_bucket_requests_verify() {
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let signed = "host;x-amz-content-sha256;x-amz-date";
    for (uri, signature) in [
        ("/?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ] {
        verify(&verifier, &get(uri, signed, signature, &[])).unwrap_or_else(|error| panic!("{uri}: {error}"));
    }
}

const PRESIGNED: &str = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
    &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
    &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
    &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

#[test]
fn the_published_presigned_url_verifies_until_it_expires() {
    let head = head("GET", PRESIGNED, &[("host", "examplebucket.s3.amazonaws.com")]);
    let day_ms = 86_400_000;
    for now in [EXAMPLE_MS, EXAMPLE_MS - SKEW_MS_MAX, EXAMPLE_MS + day_ms] {
        let proof = verify(&verifier("us-east-1", now), &head).expect("AWS's own example");
        assert_eq!(proof.payload, PayloadForm::Unsigned);
    }
    let late = verify(&verifier("us-east-1", EXAMPLE_MS + day_ms + 1), &head);
    assert!(matches!(late, Err(AuthError::Expired { expires_seconds: Some(86_400), .. })));
    let early = verify(&verifier("us-east-1", EXAMPLE_MS - SKEW_MS_MAX - 1), &head);
    assert!(matches!(early, Err(AuthError::NotYetValid)));
}

#[test]
fn the_published_framed_uploads_verify_down_to_the_last_frame_and_trailer() {
    let signed = "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;\
                  x-amz-decoded-content-length;x-amz-storage-class";
    let plain = authorization(signed, "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    let with_trailer = authorization(
        "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;\
         x-amz-storage-class;x-amz-trailer",
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    );
    let headers = |authorization, payload| {
        vec![
            ("host", "s3.amazonaws.com"),
            ("content-encoding", "aws-chunked"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("authorization", authorization),
            ("x-amz-content-sha256", payload),
        ]
    };
    let mut first = headers(&*plain, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    first.push(("content-length", "66824"));
    let mut second = headers(&*with_trailer, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER");
    second.push(("x-amz-trailer", "x-amz-checksum-crc32c"));
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let payloads = [65_536, 1024, 0].map(|length| Sha256::digest(vec![b'a'; length]).into());
    let expected = [
        [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ],
        [
            "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
        ],
    ];
    for (headers, signatures) in [first, second].iter().zip(expected) {
        let head = head("PUT", "/examplebucket/chunkObject.txt", headers);
        let mut frames = verify(&verifier, &head).expect("AWS's own example").frames.expect("signed frames");
        for (payload, signature) in payloads.iter().zip(signatures) {
            assert!(frames.frame(payload).matches(signature.as_bytes()), "{signature}");
        }
        if headers.iter().any(|(name, _)| *name == "x-amz-trailer") {
            let lines = Sha256::digest(b"x-amz-checksum-crc32c:sOO8/Q==\n").into();
            let signature = b"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";
            assert!(frames.trailer(&lines).matches(signature));
        }
    }
}

#[test]
fn a_path_that_was_signed_as_it_came_verifies() {
    let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    let key = SigningKey::derive(&secret, "20130524", "us-east-1", "s3");
    let signed = "host;x-amz-content-sha256;x-amz-date";
    let canonical = format!(
        "GET\n/a%2fb=c\n\nhost:examplebucket.s3.amazonaws.com\nx-amz-content-sha256:{EMPTY}\n\
         x-amz-date:20130524T000000Z\n\n{signed}\n{EMPTY}"
    );
    let hash = hex_sha256(canonical.as_bytes());
    let signature =
        key.sign(&[b"AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n", &hash]);
    let signature = String::from_utf8_lossy(signature.as_bytes()).into_owned();
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    verify(&verifier, &get("/a%2fb=c", signed, &signature, &[])).expect("signed verbatim");
    let other = verify(&verifier, &get("/a%2fb=d", signed, &signature, &[]));
    assert!(matches!(other, Err(AuthError::SignatureMismatch(_))));
}

fn refused(verifier: &Verifier, head: &Parts) -> AuthError {
    verify(verifier, head).expect_err("must be refused")
}

const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";
const SIGNATURE_OF_LIST: &str = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
const LIST: &str = "/?max-keys=2&prefix=J";

#[test]
fn a_changed_request_does_not_match() {
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let changed = refused(&verifier, &get("/?max-keys=3&prefix=J", SIGNED, SIGNATURE_OF_LIST, &[]));
    let AuthError::SignatureMismatch(mismatch) = changed else { panic!("{changed}") };
    let canonical = mismatch.canonical_request.expect("SigV4 has one");
    assert!(canonical.starts_with("GET\n/\nmax-keys=3&prefix=J\n"));
    assert!(mismatch.string_to_sign.starts_with("AWS4-HMAC-SHA256\n20130524T000000Z\n"));
    for signature in ["", "34b4", &SIGNATURE_OF_LIST.to_uppercase()] {
        let refusal = refused(&verifier, &get(LIST, SIGNED, signature, &[]));
        assert!(matches!(refusal, AuthError::SignatureMismatch(_)), "{refusal}");
    }
}

#[test]
fn a_clock_that_is_off_is_refused_after_fifteen_minutes() {
    let head = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
    for now in [EXAMPLE_MS - SKEW_MS_MAX, EXAMPLE_MS + SKEW_MS_MAX] {
        verify(&verifier("us-east-1", now), &head).expect("within the skew");
    }
    for now in [EXAMPLE_MS - SKEW_MS_MAX - 1, EXAMPLE_MS + SKEW_MS_MAX + 1] {
        assert!(matches!(refused(&verifier("us-east-1", now), &head), AuthError::Skewed { .. }));
    }
}

#[test]
fn only_this_region_and_the_fallback_are_accepted() {
    let head = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
    verify(&verifier("eu-west-1", EXAMPLE_MS), &head).expect("us-east-1 is always accepted");
    let mut other = head;
    let value = authorization(SIGNED, SIGNATURE_OF_LIST).replace("us-east-1", "eu-north-1");
    other.headers.insert(AUTHORIZATION, value.parse().expect("a value"));
    let refusal = refused(&verifier("eu-west-1", EXAMPLE_MS), &other);
    let AuthError::Malformed { place: Place::Header, reason: MalformedAuth::Region { given, expected } } =
        refusal
    else {
        panic!("{refusal}")
    };
    assert_eq!((&*given, &*expected), ("eu-north-1", "eu-west-1"));
}

#[test]
fn a_scope_for_something_else_is_refused() {
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let with = |from: &str, to: &str| {
        let mut head = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
        let value = authorization(SIGNED, SIGNATURE_OF_LIST).replace(from, to);
        head.headers.insert(AUTHORIZATION, value.parse().expect("a value"));
        match refused(&verifier, &head) {
            AuthError::Malformed { place: Place::Header, reason } => reason,
            other => panic!("{other}"),
        }
    };
    assert_eq!(with("/s3/", "/sts/"), MalformedAuth::Service { given: "sts".into() });
    assert_eq!(with("aws4_request", "aws5"), MalformedAuth::Terminator { given: "aws5".into() });
    let days = MalformedAuth::ScopeDay { scope: "20130523".into(), request: "20130524".into() };
    assert_eq!(with("20130524", "20130523"), days);
    assert_eq!(with("Headers=host;", "Headers=Host;"), MalformedAuth::SignedHeaders);
    assert_eq!(with("Headers=host;", "Headers=;"), MalformedAuth::SignedHeaders);
}

#[test]
fn what_is_not_signed_is_refused() {
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let extra = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[("x-amz-acl", "private")]);
    assert!(
        matches!(refused(&verifier, &extra), AuthError::HeadersNotSigned { names } if names == "x-amz-acl")
    );
    let hostless = get(LIST, "x-amz-content-sha256;x-amz-date", SIGNATURE_OF_LIST, &[]);
    assert!(
        matches!(refused(&verifier, &hostless), AuthError::HeadersNotSigned { names } if names == "host")
    );
    let presigned = [("host", "examplebucket.s3.amazonaws.com"), ("x-amz-meta-a", "b")];
    let refusal = refused(&verifier, &head("GET", PRESIGNED, &presigned));
    assert!(matches!(refusal, AuthError::HeadersNotSigned { names } if names == "x-amz-meta-a"));
}

#[test]
fn what_is_missing_is_named() {
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let without = |name: &str| {
        let mut head = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
        head.headers.remove(name);
        refused(&verifier, &head)
    };
    assert_eq!(without("x-amz-date"), AuthError::MissingDate);
    assert_eq!(without("x-amz-content-sha256"), AuthError::MissingPayloadHash);
    assert_eq!(without("host"), AuthError::MissingHost);
}

#[test]
fn a_request_without_a_signature_is_anonymous() {
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let payload = |given: &str| {
        let mut head = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
        head.headers.remove("authorization");
        head.headers.insert("x-amz-content-sha256", given.parse().expect("a value"));
        verify(&verifier, &head).map(|request| {
            assert!(request.caller.is_anonymous() && request.frames.is_none() && request.call_id.is_none());
            request.payload
        })
    };
    assert!(matches!(payload(EMPTY), Ok(PayloadForm::Sha256(_))));
    assert_eq!(payload("UNSIGNED-PAYLOAD"), Ok(PayloadForm::Unsigned));
    assert_eq!(payload("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), Ok(PayloadForm::UnsignedFrames));
    assert_eq!(payload("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Err(AuthError::Anonymous));
    assert!(matches!(payload("nonsense"), Err(AuthError::InvalidPayloadHash { .. })));
    let bare = head("GET", "/k", &[("host", "examplebucket.s3.amazonaws.com")]);
    let bare = verify(&verifier, &bare).expect("an anonymous request");
    assert_eq!((bare.payload, bare.caller.access_key()), (PayloadForm::Unsigned, ""));
}

/// Keys that are not remembered: one is looked up, one cannot be.
#[derive(Debug)]
struct Elsewhere;

impl Credentials for Elsewhere {
    fn credential<'a>(&'a self, access_key: &'a str, _: std::net::IpAddr) -> crate::callers::KeyLookup<'a> {
        futures::future::Either::Right(Box::pin(async move {
            tokio::task::yield_now().await;
            match access_key {
                "AKIAIOSFODNN7EXAMPLE" => Err(sherd_signature::error::KeysUnavailable::Unreadable),
                _ => Ok(None),
            }
        }))
    }
}

#[tokio::test]
async fn a_key_is_looked_up_once_the_claims_are_sound() {
    let verifier = Verifier::new("us-east-1", Arc::new(Elsewhere), Arc::new(At(EXAMPLE_MS)));
    let mut head = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
    let query = Query::parse(head.uri.query()).expect("a query");
    let refused = verifier.verify(&head, &query, None).await.map(drop);
    assert_eq!(refused, Err(AuthError::KeysUnavailable(sherd_signature::error::KeysUnavailable::Unreadable)));
    head.headers.remove("x-amz-date");
    assert_eq!(verifier.verify(&head, &query, None).await.map(drop), Err(AuthError::MissingDate));
}

#[test]
fn other_ways_in_are_closed() {
    let verifier = verifier("us-east-1", EXAMPLE_MS);
    let host = ("host", "examplebucket.s3.amazonaws.com");
    let v2 = head("GET", "/k?AWSAccessKeyId=AKID&Expires=1&Signature=a", &[host]);
    assert_eq!(refused(&verifier, &v2), AuthError::UnsupportedMechanism);
    let both = head("GET", PRESIGNED, &[host, ("authorization", "AWS4-HMAC-SHA256 x")]);
    assert_eq!(refused(&verifier, &both), AuthError::TwoMechanisms);
    for second in ["Basic YTpi", &authorization(SIGNED, SIGNATURE_OF_LIST)] {
        let mut twice = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
        twice.headers.append(AUTHORIZATION, second.parse().expect("a value"));
        assert_eq!(refused(&verifier, &twice), AuthError::TwoMechanisms, "{second}");
    }
    let token = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[("x-amz-security-token", "t")]);
    assert_eq!(refused(&verifier, &token), AuthError::Token);
    let token = format!("{PRESIGNED}&X-Amz-Security-Token=t");
    assert_eq!(refused(&verifier, &head("GET", &token, &[host])), AuthError::Token);
    let mut stranger = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
    let value = authorization(SIGNED, SIGNATURE_OF_LIST).replace("AKIAIOSFODNN7EXAMPLE", "AKIDNOBODY");
    stranger.headers.insert(AUTHORIZATION, value.parse().expect("a value"));
    assert!(matches!(refused(&verifier, &stranger), AuthError::UnknownAccessKey { .. }));
    let mut body = get(LIST, SIGNED, SIGNATURE_OF_LIST, &[]);
    body.headers.insert("x-amz-content-sha256", "nonsense".parse().expect("a value"));
    assert!(matches!(refused(&verifier, &body), AuthError::InvalidPayloadHash { .. }));
}

#[test]
fn signature_version_2_is_taken_in_the_query_where_it_is_allowed() {
    let target = "/photos/puppy.jpg?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D\
                  &Expires=1175139620";
    let url = head("GET", target, &[("host", "johnsmith.s3.amazonaws.com")]);
    let query = Query::parse(url.uri.query()).expect("a query");
    let at = |ms| verifier("us-east-1", ms);
    let taken = at(1_175_139_620_000).with_sigv2_presigned(true);
    let proof = now(taken.verify(&url, &query, Some("johnsmith"))).expect("AWS's own example");
    assert_eq!((proof.caller.access_key(), proof.payload), ("AKIAIOSFODNN7EXAMPLE", PayloadForm::Unsigned));
    assert!(proof.frames.is_none());
    let refused = now(at(1_175_139_620_000).verify(&url, &query, Some("johnsmith")));
    assert_eq!(refused.map(drop), Err(AuthError::UnsupportedMechanism));
    let late = at(1_175_139_620_001).with_sigv2_presigned(true);
    let late = now(late.verify(&url, &query, Some("johnsmith")));
    assert!(matches!(late, Err(AuthError::Expired { expires_seconds: None, .. })));
    let header = head(
        "GET",
        "/photos/puppy.jpg",
        &[("authorization", "AWS AKIAIOSFODNN7EXAMPLE:NpgCjnDzrM+WFzoENXmpNDUsSn8=")],
    );
    assert_eq!(verify(&taken, &header).map(drop), Err(AuthError::UnsupportedMechanism));
    let twice = head("GET", target, &[("host", "h"), ("authorization", "AWS a:b")]);
    assert_eq!(verify(&taken, &twice).map(drop), Err(AuthError::TwoMechanisms));
    for more in ["x-amz-security-token=t", "X-Amz-Security-Token=t"] {
        let with_token = head("GET", &format!("{target}&{more}"), &[("host", "h")]);
        assert_eq!(verify(&taken, &with_token).map(drop), Err(AuthError::Token));
    }
}
