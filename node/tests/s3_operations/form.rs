//! Uploads by a form: what a browser sends, each kind of condition, each refusal, and the answers.

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use sha2::Sha256;
use sherd_core::limits::OBJECT_TAGS_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::harness::form::{BOUNDARY, Form, read_answer};
use crate::harness::wait::{LATER, bounded};

const FIELDS_MAX: usize = 20 << 10;

fn refusal(status: u16, code: &str, message: &str) -> (u16, String, String) {
    (status, code.to_owned(), message.to_owned())
}

async fn head(client: &Client, key: &str) -> HeadObjectOutput {
    client.head_object().bucket(BUCKET).key(key).send().await.expect("the object")
}

/// Whether no object is in the bucket.
async fn is_empty(client: &Client) -> bool {
    let list = client.list_objects_v2().bucket(BUCKET).send().await.expect("a list");
    list.contents().is_empty()
}

fn quoted_md5(bytes: &[u8]) -> String {
    format!("\"{}\"", hex::encode(Md5::digest(bytes)))
}

/// More forms of senders without any key than arrive at one time, of which a field begins and does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forms_that_drip_refuse_no_signed_form() {
    let (node, _client) = a_bucket().await;
    let address = node.endpoint.strip_prefix("http://").expect("plain HTTP");
    let drips = format!(
        "POST /{BUCKET} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 15000\r\n\
         Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n--{BOUNDARY}\r\n\
         Content-Disposition: form-data; name=\"key\"\r\n\r\nk"
    );
    let mut dripping = Vec::new();
    for number in 0..200 {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("the node listens");
        stream.write_all(drips.as_bytes()).await.expect("the node reads");
        dripping.push(stream);
        if number % 20 == 19 {
            let answer = Form::new(&node, BUCKET, "k", "v").v4(None).send().await;
            assert_eq!(answer.status, 204, "beside {number}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_form_stores_its_file_with_the_headers_that_its_fields_are() {
    let (node, client) = a_bucket().await;
    let file = "a photo";
    let form = Form::new(&node, BUCKET, "user/${filename}", file)
        .field("acl", "private")
        .field("Content-Type", "image/jpeg")
        .field("Cache-Control", "no-cache")
        .field("Content-Disposition", "inline")
        .field("Content-Encoding", "gzip")
        .field("Content-Language", "de")
        .field("Expires", "Thu, 01 Dec 2033 16:00:00 GMT")
        .field("X-Amz-Meta-Colour", "k\u{e4}se")
        .field("x-amz-meta-tag", "Ninja")
        .extra("x-amz-meta-tag", "Stallman")
        .field("x-amz-storage-class", "STANDARD")
        .extra("x-ignore-me", "1")
        .v4(None);
    let answer = form.send().await;
    assert_eq!(answer.status, 204, "{answer:?}");
    assert_eq!(answer.body, "");
    assert_eq!(answer.header("etag"), Some(&*quoted_md5(file.as_bytes())));
    assert_eq!(
        answer.header("location"),
        Some(&*format!("{}/{BUCKET}/user%2Fphoto.jpg", node.endpoint)),
        "a slash of a key is escaped"
    );
    assert_eq!(answer.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert!(answer.header("x-amz-checksum-crc64nvme").is_some(), "{answer:?}");
    assert_eq!(answer.header("content-type"), None);
    let stored = head(&client, "user/photo.jpg").await;
    assert_eq!(stored.content_type(), Some("image/jpeg"));
    assert_eq!(stored.cache_control(), Some("no-cache"));
    assert_eq!(stored.content_disposition(), Some("inline"));
    assert_eq!(stored.content_encoding(), Some("gzip"));
    assert_eq!(stored.content_language(), Some("de"));
    assert_eq!(stored.expires_string(), Some("Thu, 01 Dec 2033 16:00:00 GMT"));
    let metadata = stored.metadata().expect("metadata");
    assert_eq!(metadata["colour"], "=?UTF-8?B?a8Okc2U=?=");
    assert_eq!(metadata["tag"], "Ninja,Stallman");
    assert_eq!(get(&client, "user/photo.jpg").await, file.as_bytes());
}

#[tokio::test]
async fn a_form_is_signed_with_either_version_in_any_case() {
    let (node, client) = a_bucket().await;
    let form = Form::new(&node, BUCKET, "v2", "two").v2();
    assert_eq!(form.send().await.status, 204);
    assert_eq!(get(&client, "v2").await, b"two");
    let written = form.bytes();
    let text = String::from_utf8(written).expect("a text");
    for (name, other) in [
        ("\"key\"", "\"KEY\""),
        ("AWSAccessKeyId", "awsaccesskeyid"),
        ("policy", "Policy"),
        ("\"file\"", "\"File\""),
    ] {
        let answer = form.send_bytes(text.replace(name, other).as_bytes()).await;
        assert_eq!(answer.status, 204, "{other}: {answer:?}");
    }
    // A signature holds for seven days, within the time of the policy.
    for (signed, valid) in [(-3600, 7200), (-6 * 86_400, 7 * 86_400), (600, 60)] {
        let form = Form::new(&node, BUCKET, "k", "v").at(signed, valid).v4(None);
        let answer = form.send().await;
        assert_eq!(answer.status, 204, "signed {signed} s from now: {answer:?}");
    }
    let quoted = Form::new(&node, BUCKET, "k", "v")
        .header(&format!("content-type: Multipart/Form-Data; charset=utf-8; boundary=\"{BOUNDARY}\""))
        .v4(None);
    assert_eq!(quoted.send().await.status, 204);
}

#[tokio::test]
async fn a_form_asks_for_its_answer() {
    let (node, client) = a_bucket().await;
    let etag = quoted_md5(b"v");
    for (status, expected) in [("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204)] {
        let form = Form::new(&node, BUCKET, "a b/\u{e4}&", "v").field("success_action_status", status);
        let answer = form.v4(None).send().await;
        assert_eq!(answer.status, expected, "{status}: {answer:?}");
        let location = format!("{}/{BUCKET}/a%20b%2F%C3%A4%26", node.endpoint);
        assert_eq!(answer.header("location"), Some(&*location));
        if expected == 201 {
            assert_eq!(answer.header("content-type"), Some("application/xml"));
            let elements = format!(
                "<PostResponse><Location>{location}</Location><Bucket>{BUCKET}</Bucket>\
                 <Key>a b/\u{e4}&amp;</Key><ETag>{}</ETag></PostResponse>",
                etag.replace('"', "&quot;")
            );
            assert!(answer.body.ends_with(&elements), "{answer:?}");
        } else {
            assert_eq!(answer.body, "");
        }
        assert_eq!(answer.header("etag"), Some(&*etag));
    }
    let etag = etag.replace('"', "%22");
    for (field, url, expected) in [
        (
            "success_action_redirect",
            "http://localhost/done?x=1",
            Some(format!("http://localhost/done?x=1&bucket={BUCKET}&key=a%2Fb+c&etag={etag}")),
        ),
        (
            "redirect",
            "https://localhost",
            Some(format!("https://localhost?bucket={BUCKET}&key=a%2Fb+c&etag={etag}")),
        ),
        ("success_action_redirect", "/relative", None),
        ("success_action_redirect", "http://", None),
        ("success_action_redirect", "http://a\r\nx-injected: 1", None),
    ] {
        let form =
            Form::new(&node, BUCKET, "a/b c", "v").field(field, url).field("success_action_status", "200");
        let answer = form.v4(None).send().await;
        assert_eq!(answer.status, if expected.is_some() { 303 } else { 200 }, "{url}: {answer:?}");
        if expected.is_some() {
            assert_eq!(answer.header("location"), expected.as_deref());
        }
        assert_eq!((answer.body.as_str(), answer.header("x-injected")), ("", None));
    }
    assert_eq!(get(&client, "a/b c").await, b"v");
}

#[tokio::test]
async fn the_name_of_the_file_stands_for_its_variable() {
    let (node, client) = a_bucket().await;
    for (filename, key) in [
        (Some("C:\\Program Files\\directory1\\file.txt"), "user/file.txt"),
        (Some("/a/b c.txt"), "user/b c.txt"),
        (Some(""), "user/"),
        (None, "user/"),
    ] {
        let form = Form::new(&node, BUCKET, "user/${filename}", "v").filename(filename);
        // Conditions are about the name that was put in.
        let answer = form.condition(&format!("[\"eq\", \"$key\", \"{key}\"]")).v4(None).send().await;
        assert_eq!(answer.status, 204, "{filename:?}: {answer:?}");
        assert_eq!(get(&client, key).await, b"v");
    }
    let nameless = Form::new(&node, BUCKET, "${filename}", "v").filename(None).v4(None).send().await;
    assert_eq!(
        nameless.refusal(),
        refusal(400, "InvalidArgument", "User key must have a length greater than 0.")
    );
}

#[tokio::test]
async fn each_kind_of_condition_lets_pass_and_refuses() {
    let (node, client) = a_bucket().await;
    let form = |condition: &str| {
        let form =
            Form::new(&node, BUCKET, "user/a.png", "12345").field("Content-Type", "image/png,image/gif");
        form.field("X-Amz-Meta-A", "Value").condition(condition).v4(None)
    };
    for condition in [
        "{\"key\": \"user/a.png\"}",
        "{\"KEY\": \"user/a.png\"}",
        "[\"eq\", \"$x-amz-meta-a\", \"Value\"]",
        "[\"starts-with\", \"$key\", \"user/\"]",
        "[\"StArTs-WiTh\", \"$kEy\", \"\"]",
        "[\"starts-with\", \"$content-type\", \"image/\"]",
        "[\"content-length-range\", 5, 5]",
        "[\"content-length-range\", \"1\", \"10\"]",
        "{\"x-amz-meta-a\": \"V\\u0061lue\"}",
    ] {
        let answer = form(condition).send().await;
        assert_eq!(answer.status, 204, "{condition}: {answer:?}");
    }
    client.delete_object().bucket(BUCKET).key("user/a.png").send().await.expect("deleted");
    for (condition, written) in [
        ("{\"key\": \"user/b.png\"}", "[\"eq\", \"$key\", \"user/b.png\"]"),
        ("{\"bucket\": \"other\"}", "[\"eq\", \"$bucket\", \"other\"]"),
        ("[\"eq\", \"$X-Amz-Meta-A\", \"value\"]", "[\"eq\", \"$X-Amz-Meta-A\", \"value\"]"),
        ("[\"eq\", \"key\", \"user/a.png\"]", "[\"eq\", \"key\", \"user/a.png\"]"),
        ("[\"starts-with\", \"$key\", \"User/\"]", "[\"starts-with\", \"$key\", \"User/\"]"),
        ("[\"starts-with\", \"$acl\", \"\"]", "[\"starts-with\", \"$acl\", \"\"]"),
        (
            "[\"starts-with\", \"$Content-Type\", \"image/png\"]",
            "[\"starts-with\", \"$Content-Type\", \"image/png\"]",
        ),
        ("[\"content-length-range\", \"a\", \"9\"]", "[\"content-length-range\", \"a\", \"9\"]"),
    ] {
        let message = format!("Invalid according to Policy: Policy Condition failed: {written}");
        assert_eq!(form(condition).send().await.refusal(), refusal(403, "AccessDenied", &message));
    }
    for (condition, code, [kind, bound]) in [
        ("[\"content-length-range\", 0, 4]", "EntityTooLarge", ["MaxSizeAllowed", "4"]),
        ("[\"content-length-range\", 6, 9]", "EntityTooSmall", ["MinSizeAllowed", "6"]),
        ("[\"content-length-range\", 9, 6]", "EntityTooSmall", ["MinSizeAllowed", "9"]),
    ] {
        let answer = form(condition).send().await;
        assert_eq!((answer.status, answer.element("Code")), (400, Some(code)), "{answer:?}");
        assert_eq!((answer.element("ProposedSize"), answer.element(kind)), (Some("5"), Some(bound)));
    }
    assert!(is_empty(&client).await, "nothing is stored of what was refused");
}

#[tokio::test]
async fn every_field_needs_a_condition_and_the_policy_a_time() {
    let (node, client) = a_bucket().await;
    let form = || Form::new(&node, BUCKET, "k", "v");
    let denied =
        |message: &str| refusal(403, "AccessDenied", &format!("Invalid according to Policy: {message}"));
    let extra = form().extra("StorageClass", "a").extra("acl", "private").v4(None);
    assert_eq!(extra.send().await.refusal(), denied("Extra input fields: StorageClass, acl"));
    let without = form().without_conditions().condition("{\"key\": \"k\"}").v4(None);
    assert_eq!(without.send().await.refusal(), denied("Extra input fields: bucket"));
    assert_eq!(form().at(0, -60).v4(None).send().await.refusal(), denied("Policy expired."));
    assert_eq!(form().at(0, -60).v2().send().await.refusal(), denied("Policy expired."));
    for (policy, message) in [
        ("", "Expecting '{' but found End-of-Input"),
        ("bm8gSlNPTg==", "Invalid JSON."),
        ("not base64", "invalid Base64 encoding."),
        // {"conditions": []}
        ("eyJjb25kaXRpb25zIjogW119", "Policy missing expiration."),
        // {"expiration": "2033-01-01T00:00:00Z"}
        ("eyJleHBpcmF0aW9uIjogIjIwMzMtMDEtMDFUMDA6MDA6MDBaIn0=", "Policy missing conditions."),
        // {"expiration": "soon"}
        ("eyJleHBpcmF0aW9uIjogInNvb24ifQ==", "Invalid 'expiration' value: 'soon'"),
    ] {
        let message = format!("Invalid Policy: {message}");
        let refused = form().v4(Some(policy)).send().await.refusal();
        assert_eq!(refused, refusal(400, "InvalidPolicyDocument", &message));
    }
    assert!(is_empty(&client).await);
}

#[tokio::test]
async fn a_form_that_is_not_signed_well_is_refused() {
    let (node, client) = a_bucket().await;
    let form = || Form::new(&node, BUCKET, "k", "v");
    let argument = |message: &str| refusal(400, "InvalidArgument", message);
    let missing = |name: &str| {
        argument(&format!(
            "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
        ))
    };
    for (field, name) in [
        ("x-amz-algorithm", "X-Amz-Algorithm"),
        ("x-amz-credential", "X-Amz-Credential"),
        ("x-amz-date", "X-Amz-Date"),
        ("x-amz-signature", "X-Amz-Signature"),
        ("policy", "Policy"),
        ("key", "key"),
    ] {
        let answer = form().v4(None).forged(field, None).send().await;
        assert_eq!(answer.refusal(), missing(name));
        assert_eq!((answer.element("ArgumentName"), answer.element("ArgumentValue")), (Some(name), Some("")));
    }
    for (field, name) in
        [("AWSAccessKeyId", "AWSAccessKeyId"), ("signature", "Signature"), ("policy", "Policy")]
    {
        assert_eq!(form().v2().forged(field, None).send().await.refusal(), missing(name));
    }
    let anonymous = refusal(403, "AccessDenied", "Access Denied");
    assert_eq!(form().send().await.refusal(), anonymous);
    assert_eq!(form().extra("policy", "e30=").send().await.refusal(), anonymous);
    for (field, value, message) in [
        ("x-amz-algorithm", "AWS4-HMAC-SHA1", "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""),
        (
            "x-amz-credential",
            "AKIA",
            "the Credential is mal-formed; expecting \"&lt;YOUR-AKID&gt;/YYYYMMDD/REGION/SERVICE/aws4_request\".",
        ),
        ("x-amz-date", "2026-11-26", "X-Amz-Date must be formated via ISO8601 Long format"),
    ] {
        let answer = form().v4(None).forged(field, Some(value)).send().await;
        assert_eq!(answer.refusal(), argument(message));
        assert_eq!(answer.element("ArgumentValue"), Some(value));
    }
    let region = form().in_region("eu-west-7").v4(None).send().await;
    assert_eq!(region.refusal(), argument("the region 'eu-west-7' is wrong; expecting 'us-east-1'"));
    assert_eq!(region.element("Region"), Some("us-east-1"));
    let stranger = form().signed_by("AKIASTRANGER", "secret");
    for form in [stranger.clone().v4(None), stranger.v2()] {
        let answer = form.send().await;
        assert_eq!((answer.status, answer.element("Code")), (403, Some("InvalidAccessKeyId")));
    }
    let denied = |message: &str| refusal(403, "AccessDenied", message);
    assert_eq!(form().at(3600, 60).v4(None).send().await.refusal(), denied("Request is not yet valid"));
    let old = form().at(-8 * 86_400, 9 * 86_400).v4(None).send().await;
    assert_eq!(old.refusal(), denied("Request has expired"));
    let token = form().field("x-amz-security-token", "t").v4(None).send().await;
    assert_eq!(token.element("Code"), Some("InvalidToken"));
    let both = form().v4(None).extra("AWSAccessKeyId", "a").send().await;
    assert_eq!((both.status, both.element("Code")), (400, Some("InvalidArgument")));
    let header = form().v4(None).header("authorization: AWS4-HMAC-SHA256 Credential=a").send().await;
    assert_eq!((header.status, header.element("Code")), (400, Some("InvalidArgument")));
    assert!(is_empty(&client).await);
}

#[tokio::test]
async fn a_wrong_signature_is_answered_with_what_was_signed() {
    let (node, client) = a_bucket().await;
    let form = || Form::new(&node, BUCKET, "k", "v");
    let wrong = [form().v4(None), form().v2()];
    for (form, field) in wrong.into_iter().zip(["x-amz-signature", "signature"]) {
        let answer = form.clone().forged(field, Some("AAAA")).send().await;
        assert_eq!((answer.status, answer.element("Code")), (403, Some("SignatureDoesNotMatch")));
        let policy = form.value("policy").expect("a policy");
        assert_eq!(answer.element("StringToSign"), Some(policy));
        assert_eq!(answer.element("SignatureProvided"), Some("AAAA"));
        let bytes = answer.element("StringToSignBytes").expect("the bytes").replace(' ', "");
        assert_eq!(hex::decode(bytes).expect("digits"), policy.as_bytes());
        let answer = form.forged("policy", Some("e30=")).send().await;
        assert_eq!(answer.element("Code"), Some("SignatureDoesNotMatch"), "the policy is signed");
    }
    assert!(is_empty(&client).await);
}

#[tokio::test]
async fn a_body_that_is_no_form_is_refused() {
    let (node, client) = a_bucket().await;
    let form = || Form::new(&node, BUCKET, "k", "v");
    let other = form().header("content-type: text/html").v4(None).send().await;
    assert_eq!((other.status, other.element("Code")), (412, Some("PreconditionFailed")));
    assert_eq!(
        other.element("Condition"),
        Some("Bucket POST must be of the enclosure-type multipart/form-data")
    );
    let malformed = refusal(
        400,
        "MalformedPOSTRequest",
        "The body of your POST request is not well-formed multipart/form-data.",
    );
    let without = form().header("content-type: multipart/form-data").v4(None).send().await;
    assert_eq!(without.refusal(), malformed);
    let whole = form().v4(None);
    let text = String::from_utf8(whole.bytes()).expect("a text");
    for (body, what) in [
        (String::new(), "nothing"),
        ("no form at all".to_owned(), "a text"),
        (text.replace(BOUNDARY, "another"), "another boundary"),
        (text.replacen("form-data; name=\"key\"", "form-data", 1), "a part without a name"),
        (text.replace(&format!("\r\n--{BOUNDARY}--\r\n"), ""), "a file without an end"),
    ] {
        assert_eq!(whole.send_bytes(body.as_bytes()).await.refusal(), malformed, "{what}");
    }
    let number = refusal(
        400,
        "IncorrectNumberOfFilesInPostRequest",
        "POST requires exactly one file upload per request.",
    );
    let fileless = whole.send_bytes(text.replace("\"file\"", "\"photo\"").as_bytes()).await;
    assert_eq!(fileless.refusal(), number);
    let second = "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n\r\nw\r\n";
    let two = form().behind(format!("{second}--{BOUNDARY}").as_bytes()).v4(None).send().await;
    assert_eq!(two.refusal(), number);
    // Content of the file counts as a field.
    let long = text
        .replace("\"file\"", "\"photo\"")
        .replace("\r\n\r\nv\r\n", &format!("\r\n\r\n{}\r\n", "v".repeat(FIELDS_MAX)));
    let answer = whole.send_bytes(long.as_bytes()).await;
    assert_eq!(
        answer.refusal(),
        refusal(
            400,
            "MaxPostPreDataLengthExceeded",
            "Your POST request fields preceeding the upload file was too large."
        )
    );
    assert_eq!(answer.element("MaxPostPreDataLengthBytes"), Some("20480"));
    let chunked = form().header("transfer-encoding: chunked").v4(None);
    let body =
        [format!("{:x}\r\n", chunked.bytes().len()).as_bytes(), &chunked.bytes(), b"\r\n0\r\n\r\n"].concat();
    let answer = chunked.send_bytes(&body).await;
    assert_eq!((answer.status, answer.element("Code")), (411, Some("MissingContentLength")));
    let long = [&b"\r\n"[..], &b"x".repeat(2 << 20)].concat();
    let behind = form().behind(&long).v4(None).send().await;
    assert_eq!((behind.status, behind.element("Code")), (400, Some("MaxMessageLengthExceeded")));
    assert!(is_empty(&client).await);
}

/// A document of tags.
fn document(tags: &[(&str, &str)]) -> String {
    let tag = |(key, value)| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
    let tags: String = tags.iter().copied().map(tag).collect();
    format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")
}

#[tokio::test]
async fn a_form_gives_its_object_tags() {
    let (node, client) = a_bucket().await;
    let form = || Form::new(&node, BUCKET, "k", "v");
    let names: Vec<String> = (0..=OBJECT_TAGS_MAX).map(|number| number.to_string()).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let too_many = form().field("tagging", &document(&all)).v4(None).send().await;
    assert_eq!(too_many.refusal(), refusal(400, "BadRequest", "Object tags cannot be greater than 10"));
    let two = document(&[("colour", "blue"), ("a b", "")]);
    let denied =
        |message: &str| refusal(403, "AccessDenied", &format!("Invalid according to Policy: {message}"));
    let extra = form().extra("tagging", &two).v4(None).send().await;
    assert_eq!(extra.refusal(), denied("Extra input fields: tagging"));
    let condition = format!("{{\"tagging\": \"{two}\"}}");
    let other = form().extra("tagging", &document(&[])).condition(&condition).v4(None).send().await;
    assert_eq!(other.status, 403, "other tags than those that were signed: {other:?}");
    assert!(is_empty(&client).await, "nothing is stored of what was refused");
    let most = all.get(1..).expect("one less");
    for (tagging, count) in [(document(most), Some(10)), (document(&[]), None), (two, Some(2))] {
        let tagged = form().extra("tagging", &tagging);
        let answer = tagged.condition(&format!("{{\"tagging\": \"{tagging}\"}}")).v4(None).send().await;
        assert_eq!(answer.status, 204, "{tagging}: {answer:?}");
        assert_eq!(head(&client, "k").await.tag_count(), count, "{tagging}");
    }
    let tags = client.get_object_tagging().bucket(BUCKET).key("k").send().await.expect("tags");
    let tags: Vec<_> = tags.tag_set().iter().map(|tag| (tag.key(), tag.value())).collect();
    assert_eq!(tags, [("colour", "blue"), ("a b", "")]);
    assert_eq!(form().v4(None).send().await.status, 204);
    assert_eq!(head(&client, "k").await.tag_count(), None, "without the field the object has none");
}

#[tokio::test]
async fn a_form_is_judged_by_the_list_of_its_field() {
    let (node, client) = a_bucket().await;
    let key = node.users().user("ada").await;
    for (effect, allowed) in [("Allow", "bucket-owner-full-control"), ("Deny", "private")] {
        let all = if effect == "Deny" { r#"{"Effect":"Allow","Action":"s3:*","Resource":"*"},"# } else { "" };
        let policy = format!(
            r#"{{"Version":"2012-10-17","Statement":[{all}{{"Effect":"{effect}","Action":["s3:PutObject","s3:PutObjectAcl"],"Resource":"*",
                "Condition":{{"StringEquals":{{"s3:x-amz-acl":"bucket-owner-full-control"}}}}}}]}}"#
        );
        node.users().put_user_policy("ada", &policy).await;
        for list in ["private", "bucket-owner-full-control"] {
            let name = format!("{effect}/{list}");
            let form = Form::new(&node, BUCKET, &name, "v").field("acl", list);
            let answer = form.signed_by(&key.id, &key.secret).v4(None).send().await;
            assert_eq!(answer.status, if list == allowed { 204 } else { 403 }, "{name}: {answer:?}");
            let stored = client.head_object().bucket(BUCKET).key(&name).send().await;
            assert_eq!(stored.is_ok(), list == allowed, "{name}");
        }
        let without = Form::new(&node, BUCKET, "without", "v").signed_by(&key.id, &key.secret).v4(None);
        assert_eq!(without.send().await.status, if effect == "Deny" { 204 } else { 403 }, "{effect}");
    }
}

#[tokio::test]
async fn a_form_gives_its_object_an_address_to_redirect_to() {
    let (node, client) = a_bucket().await;
    let form = |address: &str| {
        Form::new(&node, BUCKET, "k", "v").field("x-amz-website-redirect-location", address).v4(None)
    };
    let refused = form("elsewhere").send().await;
    assert_eq!((refused.status, refused.element("Code")), (400, Some("InvalidRedirectLocation")));
    assert!(is_empty(&client).await);
    let answer = form("/other").send().await;
    assert_eq!((answer.status, answer.header("location").is_some()), (204, true), "{answer:?}");
    assert_eq!(head(&client, "k").await.website_redirect_location(), Some("/other"));
    let extra =
        Form::new(&node, BUCKET, "k", "v").extra("x-amz-website-redirect-location", "/other").v4(None);
    assert_eq!(extra.send().await.status, 403, "each field needs a condition");
}

#[tokio::test]
async fn fields_are_held_to_the_rules_of_the_headers_that_they_are() {
    let (node, client) = a_bucket().await;
    let answered = async |name: &str, value: &str| {
        let answer = Form::new(&node, BUCKET, "k", "v").field(name, value).v4(None).send().await;
        (answer.status, answer.element("Code").unwrap_or_default().to_owned())
    };
    for (name, value, status, code) in [
        ("x-amz-checksum-sha256", "AAAA", 400, "InvalidRequest"),
        ("x-amz-checksum-crc32", "AAAAAA==", 400, "BadDigest"),
        ("x-amz-checksum-algorithm", "SHA256", 400, "InvalidRequest"),
        ("Content-MD5", "AAAA", 400, "InvalidDigest"),
        ("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==", 400, "BadDigest"),
        ("x-amz-meta-a", "line\nline", 400, "InvalidArgument"),
        ("x-amz-server-side-encryption", "AES256", 501, "NotImplemented"),
        ("x-amz-copy-source", "/bucket/k", 501, "NotImplemented"),
        ("x-amz-something-new", "1", 501, "NotImplemented"),
        ("x-amz-storage-class", "GLACIER", 400, "InvalidStorageClass"),
        ("acl", "public-read", 400, "AccessControlListNotSupported"),
        ("x-amz-tagging", "a=b", 501, "NotImplemented"),
        ("tagging", "a=b", 400, "MalformedXML"),
        ("tagging", "<Tagging/>", 400, "MalformedXML"),
        ("tagging", &document(&[("a", "b")]).repeat(2), 400, "MalformedXML"),
        ("tagging", &document(&[("a", "b"), ("a", "c")]), 400, "InvalidTag"),
        ("tagging", &document(&[("aws:a", "b")]), 400, "InvalidTag"),
    ] {
        assert_eq!(answered(name, value).await, is(status, code), "{name}: {value}");
    }
    let long = answered("x-amz-meta-a", &"v".repeat(2048)).await;
    assert_eq!(long, is(400, "MetadataTooLarge"));
    let key = Form::new(&node, BUCKET, &"k".repeat(1025), "v").v4(None).send().await;
    assert_eq!(key.element("Code"), Some("KeyTooLongError"));
    let nowhere = Form::new(&node, "nowhere", "k", "v").v4(None).send().await;
    assert_eq!((nowhere.status, nowhere.element("Code")), (404, Some("NoSuchBucket")));
    let conflict =
        Form::new(&node, BUCKET, "k", "v").field("x-amz-meta-a", "1").header("x-amz-meta-a: 2").v4(None);
    assert_eq!(
        conflict.send().await.refusal(),
        refusal(400, "InvalidRequest", "Conflicting values provided in HTTP headers and POST form fields.")
    );
    assert!(is_empty(&client).await);
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, b"v");
    let crc = u32::try_from(crc).expect("32 bits").to_be_bytes();
    for (name, value) in [
        ("x-amz-checksum-crc32", STANDARD.encode(crc)),
        ("x-amz-checksum-sha256", STANDARD.encode(Sha256::digest(b"v"))),
        ("Content-MD5", STANDARD.encode(Md5::digest(b"v"))),
    ] {
        assert_eq!(answered(name, &value).await.0, 204, "{name}");
    }
}

#[tokio::test]
async fn a_file_of_any_length_is_stored_whatever_follows_it() {
    let (node, client) = a_bucket().await;
    let button = format!("\r\nContent-Disposition: form-data; name=\"submit\"\r\n\r\nUpload\r\n--{BOUNDARY}");
    for size in [0, 1, 4096, 300_000, 9_000_000] {
        let file = some_bytes(size);
        for behind in ["", &button] {
            let form = Form::new(&node, BUCKET, "k", file.clone()).behind(behind.as_bytes()).v4(None);
            let answer = form.send().await;
            assert_eq!((answer.status, answer.header("etag")), (204, Some(&*quoted_md5(&file))), "{size}");
            assert!(get(&client, "k").await == file, "{size} bytes, {behind:?}");
        }
        // Not every client ends its last line.
        let form = Form::new(&node, BUCKET, "k", file.clone()).v4(None);
        let mut body = form.bytes();
        body.truncate(body.len() - 2);
        assert_eq!(form.send_bytes(&body).await.header("etag"), Some(&*quoted_md5(&file)), "{size}");
    }
    let almost = format!("\r\n--{BOUNDARY}").into_bytes();
    let file = [&almost[..almost.len() - 1], b"\r\r\n\r\n--", &almost[..10]].concat();
    let answer = Form::new(&node, BUCKET, "k", file.clone()).v4(None).send().await;
    assert_eq!(answer.header("etag"), Some(&*quoted_md5(&file)), "what is no boundary is the file's");
}

#[tokio::test]
async fn a_range_is_held_while_a_file_arrives() {
    let (node, client) = a_bucket().await;
    for size in [100_000, 9_000_000] {
        let file = some_bytes(size);
        for (range, code) in [
            (format!("0, {}", size - 1), Some("EntityTooLarge")),
            (format!("0, {}", size / 4), Some("EntityTooLarge")),
            (format!("{}, 90000000", size + 1), Some("EntityTooSmall")),
            (format!("{size}, {size}"), None),
        ] {
            let form = Form::new(&node, BUCKET, "k", file.clone());
            let answer =
                form.condition(&format!("[\"content-length-range\", {range}]")).v4(None).send().await;
            assert_eq!(answer.element("Code"), code, "{size} in {range}: {answer:?}");
            assert_eq!(is_empty(&client).await, code.is_some());
        }
        client.delete_object().bucket(BUCKET).key("k").send().await.expect("deleted");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_file_leaves_no_object() {
    let (node, client) = a_bucket().await;
    for size in [4096, 9_000_000] {
        let form = Form::new(&node, BUCKET, "k", some_bytes(size)).v4(None);
        let body = form.bytes();
        for cut in [200, body.len() / 2, body.len() - 60, body.len() - 2] {
            let mut connection = form.connect().await;
            connection.write_all(form.head(body.len()).as_bytes()).await.expect("a head");
            connection.write_all(&body[..cut]).await.expect("some of the body");
            connection.shutdown().await.expect("open");
            let mut answer = Vec::new();
            // The node may answer or only close.
            drop(bounded("the end", LATER, connection.read_to_end(&mut answer)).await);
            assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
            assert!(is_empty(&client).await, "{cut} of {} bytes", body.len());
        }
    }
}

#[tokio::test]
async fn a_client_that_waits_for_the_continuation_gets_it() {
    let (node, client) = a_bucket().await;
    let form = Form::new(&node, BUCKET, "k", "v").header("expect: 100-continue").v4(None);
    let mut connection = form.connect().await;
    connection.write_all(form.head(form.bytes().len()).as_bytes()).await.expect("a head");
    let mut first = [0; 25];
    bounded("100 Continue", LATER, connection.read_exact(&mut first)).await.expect("a line");
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write_all(&form.bytes()).await.expect("the body");
    assert_eq!(read_answer(&mut connection).await.status, 204);
    assert_eq!(get(&client, "k").await, b"v");
}

#[tokio::test]
async fn a_file_with_its_boundary_inside_a_line_is_not_stored_up_to_there() {
    let (node, client) = a_bucket().await;
    let file = format!("one\r\n--{BOUNDARY}x\r\n\r\ntwo");
    let answer = Form::new(&node, BUCKET, "k", file).v4(None).send().await;
    assert_eq!((answer.status, answer.refusal().1.as_str()), (400, "MalformedPOSTRequest"));
    assert!(is_empty(&client).await);
}

#[tokio::test]
async fn a_long_name_in_many_places_makes_no_long_answer() {
    let (node, _client) = a_bucket().await;
    let form = Form::new(&node, BUCKET, "k", "v").filename(Some(&"n".repeat(9_000))).v4(None);
    let answer = form.forged("policy", Some(&"${filename}".repeat(900))).send().await;
    assert_eq!((answer.status, answer.refusal().1.as_str()), (400, "MaxPostPreDataLengthExceeded"));
    assert!(answer.body.len() < FIELDS_MAX, "{} bytes", answer.body.len());
}

#[tokio::test]
async fn the_address_is_that_by_which_a_trusted_proxy_was_reached() {
    for (lines, scheme) in [("", "http"), ("trusted_proxies = \"127.0.0.0/8\"\n", "https")] {
        let node = empty().serve(lines).start().await;
        node.client().create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
        let form = Form::new(&node, BUCKET, "k", "v").header("x-forwarded-proto: https").v4(None);
        let host = node.endpoint.trim_start_matches("http://");
        assert_eq!(form.send().await.header("location"), Some(&*format!("{scheme}://{host}/{BUCKET}/k")));
    }
}
