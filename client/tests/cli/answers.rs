//! Answers that make a client try again, correct itself, or give up.

use crate::fixture::{Ended, Sherd};
use crate::scripted::Scripted;

const LIST: &str = "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>";

fn ls(server: &Scripted, more: &[&str]) -> Ended {
    let sherd = Sherd::new();
    let arguments = [&["ls", "s3://b"], more].concat();
    Ended::of(sherd.command_at(server.address, &arguments).output().expect("it runs"))
}

fn error(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>words</Message></Error>")
}

#[test]
fn a_busy_service_is_asked_again_with_a_new_signature_and_the_same_id() {
    let slow = error("SlowDown");
    let server = Scripted::new(&[
        ("503 Slow Down", &slow),
        ("429 Too Many Requests\r\nretry-after: 0", ""),
        ("500 Internal Server Error", ""),
        ("200 OK", &slow),
        ("200 OK", LIST),
    ]);
    let ended = ls(&server, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ids = server.headers("amz-sdk-invocation-id");
    assert_eq!(ids.len(), 5);
    assert!(ids[..4].iter().all(|id| *id == ids[0] && id.len() == 36), "{ids:?}");
    let attempts = server.headers("amz-sdk-request");
    assert_eq!(attempts[..3], ["attempt=1; max=8", "attempt=2; max=8", "attempt=3; max=8"]);
    assert!(server.headers("authorization").iter().all(|text| text.starts_with("AWS4-HMAC-SHA256 ")));
}

#[test]
fn attempts_have_an_end() {
    let slow = error("SlowDown");
    let server = Scripted::new(&[("503 Slow Down", &slow)]);
    let ended = ls(&server, &["--attempts", "3"]);
    assert_eq!((ended.code, server.heads().len()), (Some(5), 3), "{ended:?}");
    assert!(ended.err.contains("SlowDown (503): words"), "{ended:?}");
}

#[test]
fn a_refusal_is_not_tried_again() {
    let denied = error("AccessDenied");
    let server = Scripted::new(&[("403 Forbidden", &denied)]);
    let ended = ls(&server, &[]);
    assert_eq!((ended.code, server.heads().len()), (Some(4), 1), "{ended:?}");
}

#[test]
fn a_wrong_region_is_taken_from_the_answer_once() {
    let wrong = error("AuthorizationHeaderMalformed");
    let server =
        Scripted::new(&[("400 Bad Request\r\nx-amz-bucket-region: eu-west-7", &wrong), ("200 OK", LIST)]);
    assert_eq!(ls(&server, &[]).code, Some(0));
    let scopes = server.headers("authorization");
    assert!(scopes[0].contains("/us-east-1/s3/") && scopes[1].contains("/eu-west-7/s3/"), "{scopes:?}");
    let head = "400 Bad Request\r\nx-amz-bucket-region: eu-west-7";
    let server = Scripted::new(&[(head, &wrong)]);
    assert_eq!((ls(&server, &[]).code, server.heads().len()), (Some(1), 2));
}

#[test]
fn a_clock_that_is_off_is_taken_from_the_answer_once() {
    let skewed = error("RequestTimeTooSkewed");
    let head = "403 Forbidden\r\ndate: Fri, 24 May 2013 00:00:00 GMT";
    let server = Scripted::new(&[(head, &skewed), ("200 OK", LIST)]);
    assert_eq!(ls(&server, &[]).code, Some(0));
    let dates = server.headers("x-amz-date");
    assert!(!dates[0].starts_with("2013") && dates[1].starts_with("20130524T0000"), "{dates:?}");
    let server = Scripted::new(&[(head, &skewed)]);
    let ended = ls(&server, &[]);
    assert_eq!((ended.code, server.heads().len()), (Some(4), 2), "{ended:?}");
}

#[test]
fn a_body_that_is_not_what_was_stored_is_no_file() {
    let sherd = Sherd::new();
    let head = "200 OK\r\netag: \"e\"\r\nx-amz-checksum-crc64nvme: AAAAAAAAAAA=";
    let server = Scripted::new(&[(head, "damaged")]);
    let copy = ["cp", "s3://b/k", "down/k"];
    let ended = Ended::of(sherd.command_at(server.address, &copy).output().expect("it runs"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("CRC64NVME of what was received is"), "{ended:?}");
    assert_eq!(sherd.files("down"), [""; 0]);
}

#[test]
fn an_object_that_is_overwritten_while_it_is_moved_stays() {
    let sherd = Sherd::new();
    let (head, refused) = ("200 OK\r\netag: \"e\"", error("PreconditionFailed"));
    let server = Scripted::new(&[(head, "text"), (head, "text"), ("412 Precondition Failed", &refused)]);
    let moved = ["mv", "s3://b/k", "down/k"];
    let ended = Ended::of(sherd.command_at(server.address, &moved).output().expect("it runs"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("was overwritten while it was read"), "{ended:?}");
    let heads = server.heads();
    assert_eq!(heads.len(), 3);
    assert!(heads[2][0].starts_with("DELETE "), "{heads:?}");
    assert_eq!(server.headers("if-match")[2], "\"e\"");
    assert_eq!(sherd.files("down"), ["k"]);
}

#[test]
fn what_is_no_answer_of_s3_is_said() {
    let server = Scripted::new(&[("200 OK", "<html>a portal</html>")]);
    let ended = ls(&server, &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("the answer cannot be read"), "{ended:?}");
}

#[test]
fn a_list_that_ends_early_is_an_error_and_nothing_is_removed() {
    let sherd = Sherd::new();
    let kept = sherd.write("down/kept", "text");
    sherd.write("down/a", "1");
    for next in ["", "<NextContinuationToken>t</NextContinuationToken>"] {
        let page = LIST.replace("<Contents>", &format!("<IsTruncated>true</IsTruncated>{next}<Contents>"));
        let server = Scripted::new(&[("200 OK", &page)]);
        let folder = sherd.text("down");
        let sync = ["sync", "s3://b", &folder, "--delete", "--compare", "size"];
        let ended = Ended::of(sherd.command_at(server.address, &sync).output().expect("it runs"));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("the answer cannot be read"), "{ended:?}");
        assert!(std::fs::exists(&kept).unwrap());
    }
}

#[test]
fn bytes_of_another_range_are_not_taken() {
    let sherd = Sherd::new();
    let head = ("200 OK\r\netag: \"e\"", "content");
    for range in ["content-range: bytes 1-4/7", "content-range: bytes 0-4/7", "x: y"] {
        let answer = format!("206 Partial Content\r\netag: \"e\"\r\n{range}");
        let server = Scripted::new(&[head, (&answer, "cont")]);
        let read = ["head", "-c", "4", "s3://b/k"];
        let ended = Ended::of(sherd.command_at(server.address, &read).output().expect("it runs"));
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.err.contains("another range was asked for"), "{ended:?}");
    }
}

#[test]
fn a_clock_that_is_off_is_found_by_a_refusal_without_a_code() {
    let sherd = Sherd::new();
    let head = "403 Forbidden\r\ndate: Fri, 24 May 2013 00:00:00 GMT";
    let server = Scripted::new(&[(head, ""), ("200 OK\r\netag: \"e\"", "")]);
    let stat = sherd.command_at(server.address, &["stat", "s3://b/k"]).output().expect("it runs");
    assert_eq!(Ended::of(stat).code, Some(0));
    assert!(server.headers("x-amz-date")[1].starts_with("20130524T0000"), "{:?}", server.heads());
    let now = httpdate::fmt_http_date(std::time::SystemTime::now());
    let server = Scripted::new(&[(&format!("403 Forbidden\r\ndate: {now}"), "")]);
    let stat = sherd.command_at(server.address, &["stat", "s3://b/k"]).output().expect("it runs");
    assert_eq!((Ended::of(stat).code, server.heads().len()), (Some(4), 1), "a right clock changes nothing");
}

#[test]
fn an_error_in_a_success_counts_by_its_code() {
    let sherd = Sherd::new();
    let server = Scripted::new(&[("200 OK", &error("AccessDenied"))]);
    let ended = Ended::of(sherd.command_at(server.address, &["mb", "s3://b"]).output().expect("it runs"));
    assert_eq!(server.heads().len(), 1, "{ended:?}");
    assert!(ended.err.contains("AccessDenied (200)"), "{ended:?}");
}

#[test]
fn an_upload_whose_end_is_refused_is_removed() {
    let sherd = Sherd::new();
    let file = sherd.write("file", vec![7; 18 << 20]);
    let start = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    let (part, refused) = (("200 OK\r\netag: \"p\"", ""), error("InvalidPart"));
    let end = [("400 Bad Request", refused.as_str()), ("204 No Content", "")];
    let server = Scripted::new(&[&[("200 OK", start), part, part, part][..], &end].concat());
    let copy = ["cp", &file, "s3://b/k", "--workers", "1"];
    let ended = Ended::of(sherd.command_at(server.address, &copy).output().expect("it runs"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let heads = server.heads();
    assert!(heads[4][0].starts_with("POST ") && heads[5][0].starts_with("DELETE "), "{heads:?}");
    assert_eq!(sherd.journals(), [""; 0]);
}

#[test]
fn headers_and_bytes_that_go_to_another_service_are_of_one_version() {
    let sherd = Sherd::new();
    let set = ["alias", "set", "node", &format!("http://{}", crate::fixture::node()), "tester"];
    assert_eq!(sherd.fed(b"tester-secret\n", &set).code, Some(0));
    let part = "206 Partial Content\r\netag: \"e\"\r\ncontent-range: bytes 0-3/4";
    let server = Scripted::new(&[("200 OK\r\netag: \"e\"", "text"), (part, "text")]);
    let copy = ["cp", "s3://b/k", &format!("node://{}/k", sherd.bucket)];
    let ended = Ended::of(sherd.command_at(server.address, &copy).output().expect("it runs"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(server.headers("if-match")[1], "\"e\"");
    assert_eq!(sherd.ok(&["cat", &sherd.url("k")]), "text");
}

#[test]
fn keys_outside_of_what_was_asked_for_are_not_removed() {
    let server = Scripted::new(&[("200 OK", LIST)]);
    let sherd = Sherd::new();
    let ended = sherd.command_at(server.address, &["rm", "-r", "s3://b/other"]).output().expect("it runs");
    let ended = Ended::of(ended);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("keys that were not asked for"), "{ended:?}");
    assert!(server.heads().iter().all(|head| head[0].starts_with("GET ")), "nothing was removed");
}

#[test]
fn a_fault_of_a_key_that_was_not_sent_is_no_success() {
    let fault = "<DeleteResult><Error><Key>p%2Fa</Key><Code>AccessDenied</Code></Error></DeleteResult>";
    let list = LIST.replace("<Key>a", "<Key>p/a");
    let server = Scripted::new(&[("200 OK", &list), ("200 OK", fault)]);
    let sherd = Sherd::new();
    let ended = sherd.command_at(server.address, &["rm", "-r", "s3://b/p/"]).output().expect("it runs");
    let ended = Ended::of(ended);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("keys that were not to be deleted"), "{ended:?}");
}
