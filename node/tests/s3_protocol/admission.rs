//! Requests that are let in, and for which operations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Request;
use http_body_util::Full;
use sha1::Sha1;
use sherd_s3::service::Limits;
use sherd_store::observe::metrics::ApiName;

use crate::memory::Memory;
use crate::wire::{ACCESS_KEY, Asking, SECRET, Server, TestClock, protocol, small_limits};

async fn refused(server: &Server, bytes: &[u8]) -> (u16, String) {
    server.exchange(bytes).await.refusal()
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// Metrics count it under its name, as they do what it is refused for.
#[tokio::test]
async fn a_refusal_names_the_operation_that_was_asked_for() {
    let protocol = protocol(TestClock::Still, Limits::default(), Memory::new(None));
    for (method, target, name) in [
        ("PUT", "/bucket/k", "PutObject"),
        ("GET", "/bucket/k?uploadId=u", "ListParts"),
        ("POST", "/bucket?delete", "DeleteObjects"),
        ("GET", "/bucket?noSuchThing", "Unknown"),
    ] {
        let request = Request::builder().method(method).uri(target).header("host", "s3.test");
        let request = request.body(Full::new(Bytes::new())).expect("a request");
        let (api, response) = protocol.call(request).await;
        assert_eq!((api, response.status().as_u16()), (ApiName(name), 403), "{method} {target}");
    }
}

/// A request on the public access block of the account.
fn of_account(method: &'static str) -> Asking {
    let asking = Asking::new(method, "/v20180820/configuration/publicAccessBlock");
    asking.header("x-amz-account-id", "000000000001")
}

/// A request of each operation on what a bucket or an object is configured with, and those that came after
/// them.
fn of_configuration() -> Vec<(&'static str, Asking)> {
    vec![
        ("GetBucketVersioning", Asking::new("GET", "/bucket?versioning")),
        ("GetBucketTagging", Asking::new("GET", "/bucket?tagging")),
        ("GetBucketPolicy", Asking::new("GET", "/bucket?policy")),
        ("GetBucketPolicyStatus", Asking::new("GET", "/bucket?policyStatus")),
        ("GetBucketCors", Asking::new("GET", "/bucket?cors")),
        ("GetBucketLifecycleConfiguration", Asking::new("GET", "/bucket?lifecycle")),
        ("GetBucketWebsite", Asking::new("GET", "/bucket?website")),
        ("GetBucketEncryption", Asking::new("GET", "/bucket?encryption")),
        ("GetBucketReplication", Asking::new("GET", "/bucket?replication")),
        ("GetPublicAccessBlock", Asking::new("GET", "/bucket?publicAccessBlock")),
        ("GetObjectLockConfiguration", Asking::new("GET", "/bucket?object-lock")),
        ("GetBucketLogging", Asking::new("GET", "/bucket?logging")),
        ("GetBucketNotificationConfiguration", Asking::new("GET", "/bucket?notification")),
        ("GetBucketAccelerateConfiguration", Asking::new("GET", "/bucket?accelerate")),
        ("GetBucketRequestPayment", Asking::new("GET", "/bucket?requestPayment")),
        ("GetBucketOwnershipControls", Asking::new("GET", "/bucket?ownershipControls")),
        ("GetBucketAcl", Asking::new("GET", "/bucket?acl")),
        (
            "GetObjectAttributes",
            Asking::new("GET", "/bucket/k?attributes&versionId=null")
                .header("x-amz-object-attributes", "ETag"),
        ),
        ("GetObjectAcl", Asking::new("GET", "/bucket/k?acl&versionId=null")),
        ("GetObjectTagging", Asking::new("GET", "/bucket/k?tagging&versionId=null")),
        ("GetObjectRetention", Asking::new("GET", "/bucket/k?retention&versionId=null")),
        ("GetObjectLegalHold", Asking::new("GET", "/bucket/k?legal-hold&versionId=null")),
        ("ListObjectVersions", Asking::new("GET", "/bucket?versions&key-marker=a&version-id-marker=null")),
        ("DeleteBucketPolicy", Asking::new("DELETE", "/bucket?policy")),
        ("DeleteBucketCors", Asking::new("DELETE", "/bucket?cors")),
        ("DeleteBucketLifecycle", Asking::new("DELETE", "/bucket?lifecycle")),
        (
            "PutBucketTagging",
            Asking::new("PUT", "/bucket?tagging")
                .body(b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"),
        ),
        ("PutBucketAcl", Asking::new("PUT", "/bucket?acl").header("x-amz-acl", "private")),
        ("PutObjectAcl", Asking::new("PUT", "/bucket/k?acl&versionId=null").header("x-amz-acl", "private")),
        ("PutBucketOwnershipControls", Asking::new("PUT", "/bucket?ownershipControls").body(b"<O/>")),
        ("PutBucketPolicy", Asking::new("PUT", "/bucket?policy").body(b"{}")),
        ("GetAccountPublicAccessBlock", of_account("GET")),
        ("PutAccountPublicAccessBlock", of_account("PUT").body(b"<P/>")),
        ("DeleteAccountPublicAccessBlock", of_account("DELETE")),
        ("PutPublicAccessBlock", Asking::new("PUT", "/bucket?publicAccessBlock").body(b"<P/>")),
        ("PutBucketRequestPayment", Asking::new("PUT", "/bucket?requestPayment").body(b"<R/>")),
        ("PutBucketAccelerateConfiguration", Asking::new("PUT", "/bucket?accelerate").body(b"<A/>")),
        ("PutBucketVersioning", Asking::new("PUT", "/bucket?versioning").body(b"<V/>")),
        ("PutBucketNotificationConfiguration", Asking::new("PUT", "/bucket?notification").body(b"<N/>")),
        ("PutBucketLogging", Asking::new("PUT", "/bucket?logging").body(b"<B/>")),
        (
            "PutBucketCors",
            Asking::new("PUT", "/bucket?cors").body(b"abc").header("content-md5", "kAFQmDzST7DWlj99KOF/cg=="),
        ),
        (
            "PutObjectTagging",
            Asking::new("PUT", "/bucket/k?tagging&versionId=null")
                .body(b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"),
        ),
        ("DeleteBucketTagging", Asking::new("DELETE", "/bucket?tagging")),
        ("DeleteBucketWebsite", Asking::new("DELETE", "/bucket?website")),
        ("DeleteBucketEncryption", Asking::new("DELETE", "/bucket?encryption")),
        ("DeleteBucketReplication", Asking::new("DELETE", "/bucket?replication")),
        ("DeleteBucketOwnershipControls", Asking::new("DELETE", "/bucket?ownershipControls")),
        ("DeletePublicAccessBlock", Asking::new("DELETE", "/bucket?publicAccessBlock")),
        ("DeleteObjectTagging", Asking::new("DELETE", "/bucket/k?tagging&versionId=null")),
    ]
}

#[tokio::test]
async fn every_operation_of_the_release_reaches_its_method() {
    let server = Server::start().await;
    let md5 = |body: &[u8]| {
        use md5::{Digest as _, Md5};
        STANDARD.encode(Md5::digest(body))
    };
    let delete = b"<Delete><Object><Key>k</Key></Object></Delete>";
    let complete = b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";
    let copy = |target| Asking::new("PUT", target).header("x-amz-copy-source", "/bucket/source");
    let requests = [
        ("ListBuckets", Asking::new("GET", "/")),
        ("CreateBucket", Asking::new("PUT", "/bucket")),
        ("HeadBucket", Asking::new("HEAD", "/bucket")),
        ("DeleteBucket", Asking::new("DELETE", "/bucket/")),
        ("GetBucketLocation", Asking::new("GET", "/bucket?location")),
        ("ListObjects", Asking::new("GET", "/bucket?prefix=a&max-keys=2")),
        ("ListObjectsV2", Asking::new("GET", "/bucket?list-type=2&x-id=ListObjectsV2")),
        ("ListMultipartUploads", Asking::new("GET", "/bucket?uploads")),
        (
            "DeleteObjects",
            Asking::new("POST", "/bucket?delete").body(delete).header("content-md5", &md5(delete)),
        ),
        ("PutObject", Asking::new("PUT", "/bucket/k").body(b"abc")),
        ("GetObject", Asking::new("GET", "/bucket/k")),
        ("HeadObject", Asking::new("HEAD", "/bucket/k?partNumber=1")),
        ("CopyObject", copy("/bucket/k")),
        ("CreateMultipartUpload", Asking::new("POST", "/bucket/k?uploads")),
        ("UploadPart", Asking::new("PUT", "/bucket/k?partNumber=1&uploadId=u").body(b"abc")),
        ("UploadPartCopy", copy("/bucket/k?partNumber=1&uploadId=u")),
        ("ListParts", Asking::new("GET", "/bucket/k?uploadId=u")),
        ("CompleteMultipartUpload", Asking::new("POST", "/bucket/k?uploadId=u").body(complete)),
        ("AbortMultipartUpload", Asking::new("DELETE", "/bucket/k?uploadId=u")),
        ("DeleteObject", Asking::new("DELETE", "/bucket/k?versionId=null")),
    ]
    .into_iter()
    .chain(of_configuration());
    let requests: Vec<_> = requests.collect();
    let names: Vec<_> = requests.iter().map(|(name, _)| *name).collect();
    for (name, request) in requests {
        let answer = server.send(&request).await;
        assert!((200..300).contains(&answer.status), "{name}: {} {}", answer.status, answer.text());
    }
    assert_eq!(server.memory.calls(), names);
    // A form is signed in its body, see below.
    let all = sherd_s3::operation::Operation::served().filter(|operation| operation.name() != "PostObject");
    assert_eq!(names.len(), all.count(), "no operation without its request here");
}

#[tokio::test]
async fn unknown_sub_resources_are_not_implemented() {
    let server = Server::start().await;
    for (method, target) in [
        ("PUT", "/bucket/k?renameObject"),
        ("PUT", "/bucket?abac"),
        ("GET", "/bucket?analytics&id=1"),
        ("GET", "/bucket?metadataTable"),
        ("PUT", "/bucket?lifecycle"),
        ("DELETE", "/bucket?inventory&id=1"),
        ("DELETE", "/bucket?metadataTable"),
        ("GET", "/bucket?session"),
        ("PUT", "/bucket?inventory&id=1"),
        ("GET", "/bucket/k?torrent"),
        ("POST", "/bucket/k?restore"),
        ("POST", "/bucket/k?select&select-type=2"),
        ("PUT", "/bucket/k?retention"),
        ("PUT", "/bucket/k?legal-hold"),
        ("PUT", "/bucket/k?notYetInvented"),
        ("GET", "/?x-id=ListDirectoryBuckets"),
        ("GET", "/bucket?events=put"),
    ] {
        let answer = server.send(&Asking::new(method, target)).await;
        assert_eq!(answer.refusal(), code(501, "NotImplemented"), "{method} {target}");
    }
    // A name in disguise: the signature covers both spellings.
    let disguised = String::from_utf8(Asking::new("PUT", "/bucket/k?retention").signed()).expect("ASCII");
    let disguised = disguised.replacen("?retention", "?%72etention", 1);
    assert_eq!(refused(&server, disguised.as_bytes()).await, code(501, "NotImplemented"));
    assert!(server.memory.calls().is_empty());
}

#[tokio::test]
async fn a_version_is_named_by_its_id_where_an_operation_takes_one() {
    let server = Server::start().await;
    for (method, target, message) in [
        ("GET", "/bucket/k?versionId=abc", "Invalid version id specified"),
        ("DELETE", "/bucket/k?versionId=", "Version id cannot be the empty string"),
        ("PUT", "/bucket/k?versionId=null", "This operation does not accept a version-id."),
        ("GET", "/bucket?versionId=null", "This operation does not accept a version-id."),
    ] {
        let answer = server.send(&Asking::new(method, target)).await;
        assert_eq!(answer.refusal(), code(400, "InvalidArgument"), "{method} {target}");
        assert_eq!(answer.element("Message").as_deref(), Some(message), "{method} {target}");
        assert_eq!(answer.element("ArgumentName").as_deref(), Some("versionId"));
    }
    assert!(server.memory.calls().is_empty());
}

#[tokio::test]
async fn a_form_is_known_by_its_type_before_its_signature() {
    let server = Server::start().await;
    let form = b"--x\r\ncontent-disposition: form-data; name=\"key\"\r\n\r\nk\r\n--x\r\n\
        content-disposition: form-data; name=\"file\"\r\n\r\nv\r\n--x--\r\n";
    // A browser sends no header of its own: the signature is in the form.
    let browser = Asking::new("POST", "/bucket").unsigned("content-type", "multipart/form-data; boundary=x");
    let answer = server.exchange(&browser.body(form).bare(None)).await;
    assert_eq!(answer.refusal(), code(403, "AccessDenied"), "no field signs it");
    let other = Asking::new("POST", "/bucket").unsigned("content-type", "text/plain");
    let answer = server.exchange(&other.body(form).bare(None)).await;
    assert_eq!(answer.refusal(), code(412, "PreconditionFailed"));
    let lacking = Asking::new("POST", "/bucket?somethingNew");
    let lacking = lacking.header("content-type", "multipart/form-data; boundary=x").body(form);
    assert_eq!(server.send(&lacking).await.refusal(), code(501, "NotImplemented"));
    let object = Asking::new("POST", "/bucket/k").header("content-type", "multipart/form-data; boundary=x");
    assert_eq!(server.send(&object.body(form)).await.refusal(), code(405, "MethodNotAllowed"));
    assert!(server.memory.calls().is_empty());
}

#[tokio::test]
async fn a_form_reaches_its_method_by_path_and_by_host() {
    let server = Server::start().await;
    for (target, host, bucket) in [
        ("/bucket", "s3.test", "bucket"),
        ("/bucket/", "s3.test", "bucket"),
        ("/", "my.bucket.s3.test", "my.bucket"),
    ] {
        let policy = format!(
            "{{\"expiration\": \"2013-05-24T00:01:00Z\", \"conditions\": [{{\"bucket\": \"{bucket}\"}}, {{\"key\": \"a/k\"}}]}}"
        );
        let policy = STANDARD.encode(policy);
        let mac = Hmac::<Sha1>::new_from_slice(SECRET.as_bytes()).expect("any length");
        let signature = STANDARD.encode(mac.chain_update(&policy).finalize().into_bytes());
        let fields = [
            ("key", "a/k"),
            ("AWSAccessKeyId", ACCESS_KEY),
            ("policy", &*policy),
            ("signature", &*signature),
            ("file", "abc"),
        ];
        let parts = fields.map(|(name, value)| {
            format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        });
        let form = Asking::new("POST", target).host(host).body((parts.concat() + "--x--\r\n").as_bytes());
        let form = form.unsigned("content-type", "multipart/form-data; boundary=x");
        let answer = server.exchange(&form.bare(None)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(server.memory.object(bucket, "a/k").expect("stored").bytes, "abc");
    }
    assert_eq!(server.memory.looked_up(), ["bucket", "bucket", "my.bucket"]);
}

#[tokio::test]
async fn methods_that_do_not_exist_are_not_allowed() {
    let server = Server::start().await;
    for (method, target) in [("POST", "/bucket/k"), ("DELETE", "/"), ("PUT", "/"), ("PATCH", "/bucket/k")] {
        let answer = server.send(&Asking::new(method, target)).await;
        assert_eq!(answer.refusal(), code(405, "MethodNotAllowed"), "{method} {target}");
    }
}

#[tokio::test]
async fn headers_for_features_that_are_lacking_are_not_implemented() {
    let server = Server::start().await;
    for (name, value) in [
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-mfa", "1 2"),
    ] {
        let answer = server.send(&Asking::new("PUT", "/bucket/k").body(b"a").header(name, value)).await;
        assert_eq!(answer.refusal(), code(501, "NotImplemented"), "{name}");
        assert_eq!(answer.element("Header").as_deref(), Some(name));
        // The same wish in the query of a presigned URL.
        let hoisted =
            Asking::new("PUT", &format!("/bucket/k?{name}={}", value.replace(['/', ' ', '=', ':'], "-")));
        assert_eq!(refused(&server, &hoisted.presigned(60)).await, code(501, "NotImplemented"), "{name}");
    }
    assert!(server.memory.calls().is_empty());
}

#[tokio::test]
async fn a_feature_that_is_not_implemented_is_named_in_the_answer_also_to_a_head() {
    let server = Server::start().await;
    let answer = server.send(&Asking::new("PUT", "/bucket?abac")).await;
    assert_eq!(answer.element("QueryParameter").as_deref(), Some("abac"));
    let head = |target| Asking::new("HEAD", target);
    for (request, name) in [
        (
            head("/bucket/k").header("x-amz-server-side-encryption-customer-key", "k"),
            "Header x-amz-server-side-encryption-customer-key",
        ),
        (head("/bucket/k?torrent"), "QueryParameter torrent"),
        (head("/bucket/k?t%C3%B6rrent"), "QueryParameter t?rrent"),
    ] {
        let answer = server.send(&request).await;
        assert_eq!((answer.status, answer.body.len()), (501, 0), "{name}");
        assert_eq!(answer.headers["x-amz-error-code"], "NotImplemented");
        let message = &answer.headers["x-amz-error-message"];
        assert!(message.ends_with(name), "{message}");
    }
    assert!(!server.send(&head("/bucket/none")).await.headers.contains_key("x-amz-error-code"));
}

#[tokio::test]
async fn headers_that_sdks_send_with_every_request_are_taken() {
    let server = Server::start().await;
    server.memory.keep("bucket", "k", "abc");
    for (name, value) in [
        ("x-amz-api-version", "2006-03-01"),
        // The SDK for Java, with every GetObject.
        ("x-amz-te", "append-md5"),
        ("x-amz-not-yet-invented", "1"),
    ] {
        for (method, target) in [("GET", "/bucket/k"), ("HEAD", "/bucket/k"), ("GET", "/bucket?list-type=2")]
        {
            let answer = server.send(&Asking::new(method, target).header(name, value)).await;
            assert_eq!(answer.status, 200, "{method} {target} {name}: {}", answer.text());
        }
    }
    let bypass = Asking::new("DELETE", "/bucket/k").header("x-amz-bypass-governance-retention", "true");
    assert_eq!(server.send(&bypass).await.status, 204, "nothing is locked");
}

#[tokio::test]
async fn a_bucket_is_served_to_who_expects_its_owner() {
    let server = Server::start().await;
    server.memory.keep("bucket", "k", "abc");
    let get = |owner| Asking::new("GET", "/bucket/k").header("x-amz-expected-bucket-owner", owner);
    assert_eq!(server.send(&get("000000000001")).await.text(), "abc");
    assert_eq!(server.send(&get("111122223333")).await.refusal(), code(403, "AccessDenied"));
    assert_eq!(server.send(&get("sherd")).await.refusal(), code(400, "InvalidBucketOwnerAWSAccountID"));
    let copy = Asking::new("PUT", "/bucket/copy").header("x-amz-copy-source", "/bucket/k");
    let copy = copy.header("x-amz-source-expected-bucket-owner", "111122223333");
    assert_eq!(server.send(&copy).await.refusal(), code(403, "AccessDenied"));
}

#[tokio::test]
async fn headers_in_a_presigned_query_are_headers() {
    let server = Server::start().await;
    let request = Asking::new("PUT", "/bucket/k?x-amz-meta-colour=blue%20green&x-id=PutObject")
        .unsigned("content-length", "0");
    assert_eq!(server.exchange(&request.presigned(60)).await.status, 200);
    let stored = server.memory.object("bucket", "k").expect("stored");
    assert_eq!(stored.metadata.get("colour").map(String::as_str), Some("blue green"));
    assert!(!server.memory.last_seen().0.contains_key("authorization"));
}

#[tokio::test]
async fn anonymous_requests_are_denied() {
    let server = Server::start().await;
    for target in ["/", "/bucket", "/bucket/k", "/bucket?policy", "/bucket?abac", "/nowhere?abac"] {
        let bytes = Asking::new("GET", target).bare(None);
        assert_eq!(refused(&server, &bytes).await, code(403, "AccessDenied"), "{target}");
    }
    for target in ["/nowhere", "/nowhere/k", "/nowhere?policy"] {
        let bytes = Asking::new("GET", target).bare(None);
        assert_eq!(refused(&server, &bytes).await, code(404, "NoSuchBucket"), "{target}");
    }
    // Before what is asked of the object, and before any byte of a body.
    let put = |header, value| Asking::new("PUT", "/bucket/k").body(b"abc").unsigned(header, value);
    for (header, value) in
        [("x-amz-server-side-encryption", "AES256"), ("content-md5", "nonsense"), ("expect", "100-continue")]
    {
        let answer = server.exchange(&put(header, value).bare(None)).await;
        assert_eq!(answer.refusal(), code(403, "AccessDenied"), "{header}");
    }
    let frames = put("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    assert_eq!(server.exchange(&frames.bare(None)).await.refusal(), code(403, "AccessDenied"));
    let delete = Asking::new("POST", "/bucket?delete").body(b"no document");
    assert_eq!(server.exchange(&delete.bare(None)).await.refusal(), code(403, "AccessDenied"));
    assert!(server.memory.calls().is_empty());
}

#[tokio::test]
async fn signatures_are_checked() {
    let server = Server::start().await;
    let good = Asking::new("GET", "/bucket");
    assert_eq!(server.send(&good).await.status, 200);
    let mut unknown = good.clone();
    unknown.access_key = "AKIDNOBODY";
    assert_eq!(server.send(&unknown).await.refusal(), code(403, "InvalidAccessKeyId"));
    let signed = String::from_utf8(good.signed()).expect("ASCII");
    let altered = signed.replacen("GET /bucket", "GET /bucked", 1);
    let answer = server.exchange(altered.as_bytes()).await;
    assert_eq!(answer.refusal(), code(403, "SignatureDoesNotMatch"));
    assert_eq!(answer.element("AWSAccessKeyId").as_deref(), Some(ACCESS_KEY));
    assert!(answer.element("CanonicalRequest").expect("there").starts_with("GET\n/bucked\n"));
    let presigned = String::from_utf8(good.presigned(60)).expect("ASCII");
    let altered = presigned.replacen("GET /bucket", "GET /bucked", 1);
    assert_eq!(refused(&server, altered.as_bytes()).await, code(403, "SignatureDoesNotMatch"));
}

#[tokio::test]
async fn scopes_are_for_this_service_and_region() {
    let server = Server::start().await;
    let scoped = |region, service| {
        let mut request = Asking::new("GET", "/bucket");
        (request.region, request.service) = (region, service);
        request
    };
    assert_eq!(server.send(&scoped("us-east-1", "s3")).await.status, 200);
    for (region, service) in [("eu-west-1", "sts"), ("eu-west-1", "iam"), ("mars-1", "s3")] {
        let answer = server.send(&scoped(region, service)).await;
        assert_eq!(answer.refusal(), code(400, "AuthorizationHeaderMalformed"), "{region} {service}");
        let bytes = scoped(region, service).presigned(60);
        assert_eq!(refused(&server, &bytes).await, code(400, "AuthorizationQueryParametersError"));
    }
    let answer = server.send(&scoped("mars-1", "s3")).await;
    assert_eq!(answer.element("Region").as_deref(), Some("eu-west-1"));
}

/// SDKs that signed for another region look for the right one in a header: a HEAD has nothing else.
#[tokio::test]
async fn answers_about_the_region_name_it_in_a_header() {
    let server = Server::start().await;
    let region = |answer: &crate::wire::Answer| answer.headers.get("x-amz-bucket-region").cloned();
    let right = Some("eu-west-1".to_owned());
    for (method, target) in [
        ("HEAD", "/bucket"),
        ("HEAD", "/bucket/k"),
        ("GET", "/bucket"),
        ("PUT", "/bucket/k"),
        ("DELETE", "/bucket"),
    ] {
        let mut request = Asking::new(method, target).unsigned("content-length", "0");
        request.region = "mars-1";
        let answer = server.send(&request).await;
        assert_eq!((answer.status, region(&answer)), (400, right.clone()), "{method} {target}");
        let answer = server.exchange(&request.presigned(60)).await;
        assert_eq!((answer.status, region(&answer)), (400, right.clone()), "{method} {target}, presigned");
    }
    let mut stranger = Asking::new("HEAD", "/bucket");
    stranger.access_key = "AKIDNOBODY";
    let answer = server.send(&stranger).await;
    assert_eq!((answer.status, region(&answer)), (403, right), "HeadBucket says it to strangers, too");
    let mut stranger = Asking::new("HEAD", "/bucket/k");
    stranger.access_key = "AKIDNOBODY";
    assert_eq!(region(&server.send(&stranger).await), None);
}

#[tokio::test]
async fn unsigned_headers_of_amazon_are_refused() {
    let server = Server::start().await;
    let request = Asking::new("PUT", "/bucket/k").body(b"a").unsigned("x-amz-meta-a", "b");
    let answer = server.send(&request).await;
    assert_eq!(answer.refusal(), code(403, "AccessDenied"));
    assert_eq!(answer.element("HeadersNotSigned").as_deref(), Some("x-amz-meta-a"));
    let other = Asking::new("GET", "/bucket").unsigned("x-amzn-trace-id", "Root=1");
    assert_eq!(server.send(&other).await.status, 200, "a proxy's header is not Amazon S3's");
}

#[tokio::test]
async fn presigned_urls_hold_seven_days_at_most() {
    let server = Server::start().await;
    let request = Asking::new("GET", "/bucket");
    assert_eq!(server.exchange(&request.presigned(604_800)).await.status, 200);
    for seconds in [604_801, 0, -1] {
        let answer = refused(&server, &request.presigned(seconds)).await;
        assert_eq!(answer, code(400, "AuthorizationQueryParametersError"), "{seconds}");
    }
    let mut old = request.clone();
    old.date = "20130523T235800Z";
    assert_eq!(server.exchange(&old.presigned(120)).await.status, 200, "the last second");
    let answer = server.exchange(&old.presigned(119)).await;
    assert_eq!(answer.refusal(), code(403, "AccessDenied"));
    assert_eq!(answer.element("Message").as_deref(), Some("Request has expired"));
}

#[tokio::test]
async fn clocks_that_are_off_are_refused() {
    let server = Server::start().await;
    for (date, status) in [
        ("20130523T234500Z", 200),
        ("20130524T001500Z", 200),
        ("20130523T234459Z", 403),
        ("20130524T001501Z", 403),
    ] {
        let mut request = Asking::new("GET", "/bucket");
        request.date = date;
        let answer = server.send(&request).await;
        assert_eq!(answer.status, status, "{date}");
        if status == 403 {
            assert_eq!(answer.element("Code").as_deref(), Some("RequestTimeTooSkewed"));
        }
    }
}

#[tokio::test]
async fn other_mechanisms_are_refused() {
    let server = Server::start().await;
    let request = Asking::new("GET", "/bucket");
    let v2 = request.bare(Some("AWS AKIDTEST:frJIUN8DYpKDtOLCwo//yllqDzg="));
    let answer = server.exchange(&v2).await;
    assert_eq!(answer.refusal(), code(400, "InvalidRequest"));
    assert!(answer.element("Message").expect("there").contains("Please use AWS4-HMAC-SHA256"));
    let bearer = request.bare(Some("Bearer abc"));
    assert_eq!(refused(&server, &bearer).await, code(400, "InvalidArgument"));
    let token = Asking::new("GET", "/bucket").header("x-amz-security-token", "t");
    assert_eq!(server.send(&token).await.refusal(), code(400, "InvalidToken"));
}

#[tokio::test]
async fn the_headers_that_a_signature_needs_must_be_there() {
    let server = Server::start().await;
    let signed = String::from_utf8(Asking::new("GET", "/bucket").signed()).expect("ASCII");
    let without = |name: &str| {
        let lines = signed.split("\r\n").filter(|line| !line.starts_with(name)).collect::<Vec<_>>();
        lines.join("\r\n").into_bytes()
    };
    assert_eq!(refused(&server, &without("x-amz-content-sha256")).await, code(400, "InvalidRequest"));
    assert_eq!(refused(&server, &without("x-amz-date")).await, code(403, "AccessDenied"));
    assert_eq!(refused(&server, &without("host")).await, code(400, "MissingSecurityHeader"));
    let nonsense = Asking::new("GET", "/bucket").payload("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD");
    assert_eq!(server.send(&nonsense).await.refusal(), code(400, "InvalidArgument"));
}

#[tokio::test]
async fn a_request_names_one_host_from_any_sender() {
    let server = Server::start().await;
    let request = Asking::new("GET", "/bucket");
    let as_text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("ASCII");
    for good in [request.signed(), request.presigned(60), request.bare(None)].map(as_text) {
        let hostless = good.replacen("host: 127.0.0.1\r\n", "", 1);
        let answer = server.exchange(hostless.as_bytes()).await;
        assert_eq!(answer.refusal(), code(400, "MissingSecurityHeader"), "{hostless}");
        assert_eq!(answer.element("MissingHeaderName").as_deref(), Some("host"));
        let twice = good.replacen("host: 127.0.0.1\r\n", "host: 127.0.0.1\r\nhost: 127.0.0.1\r\n", 1);
        assert_eq!(refused(&server, twice.as_bytes()).await, code(400, "InvalidRequest"), "{twice}");
    }
    // HTTP/1.0 has no host of its own: a signature still needs one.
    for (request, expected) in [
        (request.signed(), code(400, "MissingSecurityHeader")),
        (request.presigned(60), code(400, "MissingSecurityHeader")),
        (request.bare(None), code(403, "AccessDenied")),
    ] {
        let old = as_text(request).replacen("HTTP/1.1", "HTTP/1.0", 1).replacen("host: 127.0.0.1\r\n", "", 1);
        assert_eq!(refused(&server, old.as_bytes()).await, expected, "{old}");
    }
}

#[tokio::test]
async fn heads_have_limits() {
    let server = Server::start_with(TestClock::Still, small_limits()).await;
    let mut many = Asking::new("GET", "/bucket");
    for number in 0..20 {
        many = many.unsigned(&format!("a{number}"), "b");
    }
    assert_eq!(server.send(&many).await.refusal(), code(400, "RequestHeaderSectionTooLarge"));
    let long = Asking::new("GET", "/bucket").unsigned("a", &"b".repeat(2000));
    assert_eq!(server.send(&long).await.refusal(), code(400, "RequestHeaderSectionTooLarge"));
    let uri = Asking::new("GET", &format!("/bucket?prefix={}", "a".repeat(400)));
    assert_eq!(server.send(&uri).await.refusal(), code(414, "RequestURITooLong"));
}

#[tokio::test]
async fn keys_and_metadata_have_limits() {
    let server = Server::start().await;
    let key = |bytes: usize| Asking::new("PUT", &format!("/bucket/{}", "k".repeat(bytes))).body(b"a");
    assert_eq!(server.send(&key(1024)).await.status, 200);
    assert_eq!(server.send(&key(1025)).await.refusal(), code(400, "KeyTooLongError"));
    let metadata =
        |bytes: usize| Asking::new("PUT", "/bucket/k").body(b"a").header("x-amz-meta-a", &"v".repeat(bytes));
    assert_eq!(server.send(&metadata(2047)).await.status, 200);
    assert_eq!(server.send(&metadata(2048)).await.refusal(), code(400, "MetadataTooLarge"));
}

#[tokio::test]
async fn keys_are_what_the_path_says() {
    let server = Server::start().await;
    for (path, key) in [
        ("//a", "/a"),
        ("/a/../b", "a/../b"),
        ("/./a", "./a"),
        ("/a//b/", "a//b/"),
        ("/..", ".."),
        ("/%C3%A9%20%2B~", "é +~"),
    ] {
        let request = Asking::new("PUT", &format!("/bucket{path}")).body(key.as_bytes());
        assert_eq!(server.send(&request).await.status, 200, "{path}");
        assert_eq!(server.memory.object("bucket", key).expect(path).bytes, key.as_bytes());
    }
    let bad = Asking::new("GET", "/bucket/%ff");
    assert_eq!(server.send(&bad).await.refusal(), code(400, "InvalidURI"));
    let name = Asking::new("GET", "/Bad_Name");
    assert_eq!(server.send(&name).await.refusal(), code(400, "InvalidBucketName"));
}

#[tokio::test]
async fn buckets_may_be_hosts() {
    let server = Server::start().await;
    let put = Asking::new("PUT", "//deep/../key").host("my.bucket.s3.test:9000").body(b"abc");
    assert_eq!(server.send(&put).await.status, 200);
    assert_eq!(server.memory.object("my.bucket", "/deep/../key").expect("stored").bytes, "abc");
    let get = Asking::new("GET", "//deep/../key").host("my.bucket.s3.test");
    assert_eq!(server.exchange(&get.presigned(60)).await.text(), "abc");
    let list = Asking::new("GET", "/?list-type=2").host("my.bucket.s3.test");
    assert!(server.send(&list).await.text().contains("<Key>/deep/../key</Key>"));
    let path = Asking::new("GET", "/my.bucket//deep/../key").host("s3.test");
    assert_eq!(server.send(&path).await.text(), "abc");
    let hostile = Asking::new("PUT", "/").host("a?acl.s3.test");
    assert_eq!(server.send(&hostile).await.refusal(), code(400, "InvalidBucketName"));
}
