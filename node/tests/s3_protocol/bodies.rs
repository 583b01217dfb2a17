//! Bodies on their way in: framed, verified, bounded.

use std::fmt::Write as _;
use std::time::Duration;

use sherd_core::record::ChecksumAlgorithm;
use sherd_s3::{service::Limits, wire::checksum};

use crate::wire::{Asking, EMPTY, Server, TestClock, small_limits, unsigned_frames};

const SIGNED: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
const SIGNED_TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
/// The CRC-32 of `123456789`.
const CRC32: &str = "x-amz-checksum-crc32:y/Q5Jg==";

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

fn put() -> Asking {
    Asking::new("PUT", "/bucket/k")
}

/// A request with an unsigned framed body of `123456789`.
fn unsigned_framed(trailer: &str) -> Asking {
    put().header("x-amz-trailer", "x-amz-checksum-crc32").framed(
        UNSIGNED_TRAILER,
        9,
        &unsigned_frames(&[b"123456789"], trailer),
    )
}

/// A request with signed frames; `spoil` may change what travels.
fn signed_framed(payloads: &[&[u8]], trailer: bool, spoil: impl FnOnce(String) -> String) -> Asking {
    let length = payloads.iter().map(|payload| payload.len()).sum();
    let form = if trailer { SIGNED_TRAILER } else { SIGNED };
    let mut request = put().header("content-encoding", "aws-chunked").framed(form, length, b"");
    if trailer {
        request = request.header("x-amz-trailer", "x-amz-checksum-crc32");
    }
    let mut previous = request.seed();
    let mut framed = String::new();
    for payload in payloads.iter().copied().chain([&b""[..]]) {
        previous = request.frame(&previous, payload);
        write!(framed, "{:x};chunk-signature={previous}\r\n", payload.len()).expect("a string");
        if !payload.is_empty() {
            write!(framed, "{}\r\n", String::from_utf8_lossy(payload)).expect("a string");
        }
    }
    if trailer {
        let signature = request.trailer(&previous, &format!("{CRC32}\n"));
        write!(framed, "{CRC32}\r\nx-amz-trailer-signature:{signature}\r\n").expect("a string");
    }
    request.body = spoil(framed + "\r\n").into_bytes();
    with_length(request)
}

/// Says how long what travels is, in place of what was said before.
fn with_length(request: Asking) -> Asking {
    let length = request.body.len().to_string();
    request.relabelled("content-length", &length)
}

#[tokio::test]
async fn a_signed_body_arrives_and_a_changed_one_does_not() {
    let server = Server::start().await;
    assert_eq!(server.send(&put().body(b"abc")).await.status, 200);
    assert_eq!(server.memory.object("bucket", "k").expect("stored").bytes, "abc");
    let mut changed = Asking::new("PUT", "/bucket/other").body(b"abc");
    changed.body = b"abd".to_vec();
    let answer = server.send(&changed).await;
    assert_eq!(answer.refusal(), code(400, "XAmzContentSHA256Mismatch"));
    assert!(server.memory.object("bucket", "other").is_none());
    let hash = put().unsigned("content-length", "0").payload(&"ab".repeat(32));
    assert_eq!(server.send(&hash).await.refusal(), code(400, "XAmzContentSHA256Mismatch"));
    let get = Asking::new("GET", "/bucket/k").payload(&"ab".repeat(32));
    assert_eq!(server.send(&get).await.refusal(), code(400, "XAmzContentSHA256Mismatch"));
}

#[tokio::test]
async fn an_unsigned_body_needs_a_length() {
    let server = Server::start().await;
    let unsigned = put().body(b"abc").payload("UNSIGNED-PAYLOAD");
    assert_eq!(server.send(&unsigned).await.status, 200);
    let mut streamed = put().payload("UNSIGNED-PAYLOAD").unsigned("transfer-encoding", "chunked");
    streamed.body = b"3\r\nabc\r\n0\r\n\r\n".to_vec();
    assert_eq!(server.send(&streamed).await.refusal(), code(411, "MissingContentLength"));
    assert_eq!(server.send(&put()).await.refusal(), code(411, "MissingContentLength"));
    let framed = put().payload(UNSIGNED_TRAILER).unsigned("content-length", "5");
    assert_eq!(server.send(&framed).await.refusal(), code(411, "MissingContentLength"));
}

#[tokio::test]
async fn an_unsigned_frame_of_any_size_passes_as_it_comes() {
    let server = Server::start().await;
    let total = 4 << 20;
    let framed = unsigned_frames(&[&vec![b'a'; total]], "x-amz-checksum-crc32:AAAAAA==");
    let request =
        put().header("x-amz-trailer", "x-amz-checksum-crc32").framed(UNSIGNED_TRAILER, total, &framed);
    let bytes = request.signed();
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let mut connection = server.connect().await;
    let mut arrived = server.memory.arrived.subscribe();
    connection.send(first).await;
    // The frame is not over, and its bytes are there.
    tokio::select! {
        biased;
        // Cancel safe: a watch loses nothing. The other arm ends the test.
        arrived = arrived.wait_for(|bytes| *bytes > total / 4) => drop(arrived.expect("the store lives")),
        answer = connection.answer() => panic!("answered before the frame was over: {answer:?}"),
    }
    connection.send(rest).await;
    assert_eq!(connection.answer().await.status, 200);
    let stored = server.memory.object("bucket", "k").expect("stored");
    assert_eq!(stored.bytes.len(), total);
    assert!(stored.pieces > 1);
}

#[tokio::test]
async fn a_trailer_reaches_the_operation() {
    let server = Server::start().await;
    for request in [
        unsigned_framed(CRC32),
        unsigned_framed(CRC32).header("content-encoding", "aws-chunked"),
        signed_framed(&[b"123456789"], true, |framed| framed),
    ] {
        let answer = server.send(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let stored = server.memory.object("bucket", "k").expect("stored");
        assert_eq!(stored.bytes, "123456789");
        assert_eq!(stored.trailer.as_deref(), Some("y/Q5Jg=="));
        assert_eq!(stored.size, 9, "the length without frames");
    }
}

#[tokio::test]
async fn presigned_bodies_may_be_framed() {
    let server = Server::start().await;
    let framed = unsigned_frames(&[b"123456789"], CRC32);
    let mut request = put()
        .header("x-amz-trailer", "x-amz-checksum-crc32")
        .header("x-amz-content-sha256", UNSIGNED_TRAILER)
        .header("x-amz-decoded-content-length", "9")
        .unsigned("content-length", &framed.len().to_string());
    request.body = framed;
    let answer = server.exchange(&request.presigned(60)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(server.memory.object("bucket", "k").expect("stored").bytes, "123456789");
}

#[tokio::test]
async fn trailers_are_what_was_declared() {
    let server = Server::start().await;
    for (trailer, expected) in [
        ("x-amz-checksum-crc32:y/Q5", code(400, "InvalidRequest")),
        ("x-amz-checksum-crc32c:y/Q5Jg==", code(400, "MalformedTrailerError")),
        ("nonsense", code(400, "MalformedTrailerError")),
        ("", code(400, "MalformedTrailerError")),
    ] {
        assert_eq!(server.send(&unsigned_framed(trailer)).await.refusal(), expected, "{trailer}");
    }
    // A body that ends before its trailer does is cut short.
    let whole = unsigned_frames(&[b"123456789"], CRC32);
    let cut = whole.strip_suffix(b"\r\n").expect("an end");
    let mut other = whole.clone();
    *other.last_mut().expect("a byte") = b'X';
    for bytes in [cut, cut.strip_suffix(b"\r\n").expect("a line's end"), &other, b"9\r\n123456789\r\n0\r\n"] {
        let request = put().header("x-amz-trailer", "x-amz-checksum-crc32");
        let answer = server.send(&request.framed(UNSIGNED_TRAILER, 9, bytes)).await;
        assert_eq!(answer.refusal(), code(400, "IncompleteBody"), "{}", String::from_utf8_lossy(bytes));
    }
    let undeclared = put().body(b"a").header("x-amz-trailer", "x-amz-checksum-crc32");
    assert_eq!(server.send(&undeclared).await.refusal(), code(400, "MalformedTrailerError"));
    assert!(server.memory.object("bucket", "k").is_none());
}

/// The SDK for Java announces a trailer over http and sends none: the header has the checksum.
#[tokio::test]
async fn a_trailer_may_be_announced_for_the_checksum_of_the_header() {
    let server = Server::start().await;
    let signed = |name: &str, value: &str| {
        let mut request = put()
            .header("x-amz-checksum-crc32", value)
            .header("x-amz-trailer", name)
            .header("x-amz-decoded-content-length", "9")
            .payload(SIGNED);
        let mut signature = request.seed();
        let mut framed = String::new();
        for payload in ["123456789", ""] {
            signature = request.frame(&signature, payload.as_bytes());
            write!(framed, "{:x};chunk-signature={signature}\r\n{payload}\r\n", payload.len())
                .expect("a string");
        }
        request.body = framed.into_bytes();
        let length = request.body.len().to_string();
        request.unsigned("content-length", &length)
    };
    let same = server.send(&signed("x-amz-checksum-crc32", "y/Q5Jg==")).await;
    assert_eq!(same.status, 200, "{}", same.text());
    assert_eq!(server.memory.object("bucket", "k").expect("stored").bytes, "123456789");
    let (_, checksum) = server.memory.last_seen();
    assert_eq!(checksum.trailer, None, "operations wait for no trailer");
    assert_eq!(checksum.value, checksum::of_whole(ChecksumAlgorithm::Crc32, b"y/Q5Jg=="));
    let other = server.send(&signed("x-amz-checksum-crc32c", "y/Q5Jg==")).await;
    assert_eq!(other.refusal(), code(400, "InvalidRequest"));
    let both = unsigned_framed(CRC32).header("x-amz-checksum-crc32", "y/Q5Jg==");
    assert_eq!(server.send(&both).await.refusal(), code(400, "InvalidRequest"), "a trailer that comes");
}

#[tokio::test]
async fn frames_that_are_none_are_incomplete_bodies() {
    let server = Server::start().await;
    for framed in ["3\r\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "x\r\nhello\r\n0\r\n\r\n", "hello"] {
        let request = put().framed(UNSIGNED_TRAILER, 5, framed.as_bytes());
        assert_eq!(server.send(&request).await.refusal(), code(400, "IncompleteBody"), "{framed:?}");
    }
    assert!(server.memory.object("bucket", "k").is_none());
}

#[tokio::test]
async fn signatures_of_frames_and_trailers_are_checked() {
    let server = Server::start().await;
    let long = vec![b'a'; 8192];
    let payloads: [&[u8]; 2] = [&long, b"123456789"];
    let good = signed_framed(&payloads, false, |framed| framed);
    assert_eq!(server.send(&good).await.status, 200);
    let spoilt = |at: &'static str, trailer| {
        let payloads: [&[u8]; 2] = if trailer { [b"", b"123456789"] } else { [&long, b"123456789"] };
        let payloads = if trailer { &payloads[1..] } else { &payloads[..] };
        signed_framed(payloads, trailer, |mut framed| {
            let digit = framed.find(at).expect("there") + at.len();
            let other = if framed.as_bytes()[digit] == b'a' { "b" } else { "a" };
            framed.replace_range(digit..=digit, other);
            framed
        })
    };
    for (at, trailer) in [
        ("2000;chunk-signature=", false),
        ("\r\n9;chunk-signature=", false),
        ("\r\n0;chunk-signature=", false),
        ("x-amz-trailer-signature:", true),
        ("x-amz-checksum-crc32:", true),
    ] {
        let answer = server.send(&spoilt(at, trailer)).await;
        assert_eq!(answer.refusal(), code(403, "SignatureDoesNotMatch"), "{at}");
    }
}

#[tokio::test]
async fn a_signed_frame_over_the_limit_is_refused() {
    let server = Server::start().await;
    let head = format!("1000001;chunk-signature={EMPTY}\r\n");
    let request = put().framed(SIGNED, (16 << 20) + 1, head.as_bytes());
    let answer = server.send(&request).await;
    assert_eq!(answer.refusal(), code(403, "InvalidChunkSizeError"));
    let short = put().framed(UNSIGNED_TRAILER, 2, &unsigned_frames(&[b"a", b"b"], ""));
    assert_eq!(server.send(&short).await.refusal(), code(403, "InvalidChunkSizeError"));
}

#[tokio::test]
async fn framed_bodies_are_as_long_as_they_say() {
    let server = Server::start().await;
    let framed = |decoded| put().framed(UNSIGNED_TRAILER, decoded, &unsigned_frames(&[b"abc"], ""));
    assert_eq!(server.send(&framed(3)).await.status, 200);
    for decoded in [2, 4] {
        assert_eq!(server.send(&framed(decoded)).await.refusal(), code(400, "IncompleteBody"), "{decoded}");
    }
    let more = [&unsigned_frames(&[b"abc"], "")[..], b"more"].concat();
    let extra = put().framed(UNSIGNED_TRAILER, 3, &more);
    assert_eq!(server.send(&extra).await.refusal(), code(400, "InvalidRequest"));
    let empty = put().framed(UNSIGNED_TRAILER, 0, b"0\r\nnonsense\r\n\r\n");
    assert_eq!(server.send(&empty).await.refusal(), code(400, "MalformedTrailerError"));
}

#[tokio::test]
async fn bodies_that_end_early_are_incomplete() {
    let server = Server::start().await;
    let whole = put().body(b"abcdef").signed();
    let answer = server.exchange(&whole[..whole.len() - 1]).await;
    assert_eq!(answer.refusal(), code(400, "IncompleteBody"));
    let framed = unsigned_framed(CRC32).signed();
    let answer = server.exchange(&framed[..framed.len() - 20]).await;
    assert_eq!(answer.refusal(), code(400, "IncompleteBody"));
    assert!(server.memory.object("bucket", "k").is_none());
}

#[tokio::test]
async fn bodies_have_a_largest_size() {
    let server = Server::start_with(TestClock::Still, small_limits()).await;
    let put = |length: &str| put().unsigned("content-length", length).payload("UNSIGNED-PAYLOAD");
    let answer = server.send(&put("5368709121")).await;
    assert_eq!(answer.refusal(), code(400, "EntityTooLarge"));
    assert_eq!(answer.element("MaxSizeAllowed").as_deref(), Some("5368709120"));
    let document = Asking::new("POST", "/bucket?delete").body(&[b' '; 301]);
    assert_eq!(server.send(&document).await.refusal(), code(400, "MaxMessageLengthExceeded"));
    let unwanted = Asking::new("GET", "/bucket/k").unsigned("content-length", "70000");
    assert_eq!(server.send(&unwanted).await.refusal(), code(400, "MaxMessageLengthExceeded"));
}

#[tokio::test]
async fn a_body_that_stands_still_is_given_up() {
    let server = Server::start_with(TestClock::Still, small_limits()).await;
    let whole = put().body(b"abcdef").signed();
    let mut connection = server.connect().await;
    connection.send(&whole[..whole.len() - 1]).await;
    let answer = connection.answer().await;
    assert_eq!(answer.refusal(), code(400, "RequestTimeout"));
    assert_eq!(answer.headers.get("connection").map(String::as_str), Some("close"));
}

/// Documents have room in memory before they arrive: a client that sends one byte now and then would keep it.
#[tokio::test]
async fn a_document_that_trickles_is_given_up() {
    let limits = Limits { document_whole: Duration::from_millis(20), ..Limits::default() };
    let server = Server::start_with(TestClock::Still, limits).await;
    let whole = delete("a").signed();
    let mut object = put().body(b"abcdef").signed();
    let last = object.split_off(object.len() - 1);
    let (mut document, mut slower) = (server.connect().await, server.connect().await);
    slower.send(&object).await;
    document.send(&whole[..whole.len() - 1]).await;
    assert_eq!(document.answer().await.refusal(), code(400, "RequestTimeout"));
    slower.send(&last).await;
    assert_eq!(slower.answer().await.status, 200, "an object may take longer");
}

/// A parsed element takes more memory than a short element itself.
#[tokio::test]
async fn a_document_with_too_many_elements_is_not_even_read() {
    let server = Server::start().await;
    let parts = |count| {
        let parts = "<Part></Part>".repeat(count);
        let document = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        Asking::new("POST", "/bucket/k?uploadId=u1").body(document.as_bytes())
    };
    assert_eq!(server.send(&parts(10_001)).await.refusal(), code(400, "MalformedXML"));
    let many = "</Key></Object><Object><Key>k".repeat(1000);
    assert_eq!(server.send(&delete(&many)).await.refusal(), code(400, "MalformedXML"));
    assert_eq!(server.memory.calls(), Vec::<&str>::new());
    server.send(&parts(10_000)).await;
    let thousand = "</Key></Object><Object><Key>k".repeat(999);
    assert_eq!(server.send(&delete(&thousand)).await.status, 200);
    assert_eq!(server.memory.calls(), ["CompleteMultipartUpload", "DeleteObjects"]);
}

#[tokio::test]
async fn a_body_is_asked_for_only_after_its_sender_is_verified() {
    let server = Server::start().await;
    let request = put().body(b"abc").unsigned("expect", "100-continue");
    let whole = request.signed();
    let (head, body) = whole.split_at(whole.len() - 3);
    let mut connection = server.connect().await;
    connection.send(head).await;
    assert!(connection.head().await.starts_with("HTTP/1.1 100"));
    connection.send(body).await;
    assert_eq!(connection.answer().await.status, 200);
    let mut stranger = request;
    stranger.access_key = "AKIDNOBODY";
    let whole = stranger.signed();
    let mut connection = server.connect().await;
    connection.send(&whole[..whole.len() - 3]).await;
    assert_eq!(connection.answer().await.refusal(), code(403, "InvalidAccessKeyId"));
}

/// A client that asked to continue and got its answer at once must not use the connection again:
/// botocore reads the answer to its next request wrongly then, and waits.
#[tokio::test]
async fn an_answer_that_came_before_continue_ends_the_connection() {
    let server = Server::start().await;
    let empty = server.send(&put().body(b"").unsigned("expect", "100-continue")).await;
    assert_eq!(empty.status, 200);
    assert_eq!(empty.headers.get("connection").map(String::as_str), Some("close"));
    let mut stranger = put().body(b"abc").unsigned("expect", "100-continue");
    stranger.access_key = "AKIDNOBODY";
    let refused = server.send(&stranger).await;
    assert_eq!(refused.headers.get("connection").map(String::as_str), Some("close"));
}

#[tokio::test]
async fn documents_are_verified_before_they_are_read() {
    let server = Server::start().await;
    let document = b"<Delete><Object><Key>k</Key></Object></Delete>";
    let post = || Asking::new("POST", "/bucket?delete").body(document);
    let crc = checksum::of(ChecksumAlgorithm::Crc32, document);
    assert_eq!(server.send(&post().header("x-amz-checksum-crc32", &crc)).await.status, 200);
    for (request, expected) in [
        (post(), code(400, "InvalidRequest")),
        (post().header("content-md5", "nonsense"), code(400, "InvalidDigest")),
        (post().header("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="), code(400, "BadDigest")),
        (post().header("x-amz-checksum-crc32", "y/Q5Jg=="), code(400, "BadDigest")),
        (post().header("x-amz-checksum-crc32", "y/Q5"), code(400, "InvalidRequest")),
    ] {
        assert_eq!(server.send(&request).await.refusal(), expected);
    }
    let differs = server.send(&post().header("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")).await;
    assert_eq!(differs.element("ExpectedDigest").as_deref(), Some("d41d8cd98f00b204e9800998ecf8427e"));
    assert!(differs.element("CalculatedDigest").is_some_and(|digest| digest.ends_with("==")));
    let framed = Asking::new("POST", "/bucket?delete").header("x-amz-trailer", "x-amz-checksum-crc32");
    let trailer = |crc: &str| unsigned_frames(&[document], &format!("x-amz-checksum-crc32:{crc}"));
    let good = framed.clone().framed(UNSIGNED_TRAILER, document.len(), &trailer(&crc));
    assert_eq!(server.send(&good).await.status, 200);
    let bad = framed.framed(UNSIGNED_TRAILER, document.len(), &trailer("y/Q5Jg=="));
    assert_eq!(server.send(&bad).await.refusal(), code(400, "BadDigest"));
    assert_eq!(server.memory.calls(), ["DeleteObjects", "DeleteObjects"]);
}

fn delete(written: &str) -> Asking {
    let document = format!("<Delete><Object><Key>{written}</Key></Object></Delete>");
    let crc = checksum::of(ChecksumAlgorithm::Crc32, document.as_bytes());
    Asking::new("POST", "/bucket?delete").body(document.as_bytes()).header("x-amz-checksum-crc32", &crc)
}

/// XML has no way to write them, but a listing contains them.
#[tokio::test]
async fn a_key_of_any_characters_is_deleted_however_it_is_written() {
    let server = Server::start().await;
    for (key, answered, written) in [
        ("a\u{1}", "a&#x1;", &["a\u{1}", "a&#x1;", "a&#1;", "a&#x0001;"][..]),
        ("a\u{FFFF}", "a&#xFFFF;", &["a\u{FFFF}", "a&#xFFFF;", "a&#65535;"]),
        ("a\0", "a&#x0;", &["a\0", "a&#x0;", "a&#0;"]),
        ("\u{1F9F1}", "\u{1F9F1}", &["\u{1F9F1}", "&#x1F9F1;", "&#129521;"]),
        ("a\r<&", "a&#xD;&lt;&amp;", &["a&#xD;&lt;&amp;", "a&#13;&#60;&#x26;"]),
    ] {
        for written in written {
            server.memory.keep("bucket", key, "v");
            let answer = server.send(&delete(written)).await;
            assert_eq!(answer.status, 200, "{written:?}: {}", answer.text());
            assert!(server.memory.object("bucket", key).is_none(), "{written:?}");
            assert_eq!(answer.element("Key").as_deref(), Some(answered), "{written:?}");
        }
    }
}

#[tokio::test]
async fn references_to_no_character_are_malformed() {
    let server = Server::start().await;
    for written in ["a&#xD800;", "a&#x110000;", "a&#99999999999;", "a&#x;", "a&#+1;", "a&nothing;", "a&#1"] {
        let answer = server.send(&delete(written)).await;
        assert_eq!(answer.refusal(), code(400, "MalformedXML"), "{written:?}");
    }
    assert!(server.memory.calls().is_empty());
}

/// The text between the marks of a section is the key, without marks or references in it.
#[tokio::test]
async fn a_section_names_the_key_that_it_writes() {
    let server = Server::start().await;
    for (key, written) in [
        ("ab", "a<![CDATA[b]]>"),
        ("ab", "<![CDATA[ab]]>"),
        ("a&#1;b", "<![CDATA[a&#1;b]]>"),
        ("a&amp;b", "<![CDATA[a&amp;b]]>"),
        ("</Key>", "<![CDATA[</Key>]]>"),
        ("a]]>b\u{1}", "<![CDATA[a]]]]><!-- <![CDATA[c --><![CDATA[>b]]>&#1;"),
    ] {
        for key in [key, "a", "b", "a\u{1}b", "a&b"] {
            server.memory.keep("bucket", key, "v");
        }
        let answer = server.send(&delete(written)).await;
        assert_eq!(answer.status, 200, "{written:?}: {}", answer.text());
        assert!(server.memory.object("bucket", key).is_none(), "{written:?}");
        for other in ["a", "b", "a\u{1}b", "a&b"] {
            assert!(server.memory.object("bucket", other).is_some(), "{written:?} took {other:?}");
        }
    }
    for malformed in ["a<![CDATA[b", "a<![CDATA[b]]", "<![CDATA[</Key><Key>a"] {
        assert_eq!(server.send(&delete(malformed)).await.refusal(), code(400, "MalformedXML"), "{malformed}");
    }
    assert!(server.memory.object("bucket", "a").is_some());
}

#[tokio::test]
async fn a_section_in_any_other_document_is_text() {
    let server = Server::start().await;
    let complete = |etag: &str| {
        let document = format!(
            "<CompleteMultipartUpload><Part><ETag>{etag}</ETag><PartNumber><![CDATA[1]]></PartNumber></Part>\
             </CompleteMultipartUpload>"
        );
        Asking::new("POST", "/bucket/k?uploadId=u1").body(document.as_bytes())
    };
    assert_eq!(server.send(&complete("<![CDATA[&#1;]]>")).await.status, 200);
    for malformed in ["<![CDATA[\u{1}]]>", "<![CDATA[a]]>&#1;", "<![CDATA[a"] {
        assert_eq!(server.send(&complete(malformed)).await.refusal(), code(400, "MalformedXML"));
    }
}

/// Only a list of keys has a use for them.
#[tokio::test]
async fn any_other_document_with_characters_that_xml_has_not_is_malformed() {
    let server = Server::start().await;
    for character in ["\u{1}", "&#x1;", "&#1;", "\u{FFFF}", "&#xFFFF;"] {
        let document = format!(
            "<CompleteMultipartUpload><Part><ETag>{character}</ETag><PartNumber>1</PartNumber></Part>\
             </CompleteMultipartUpload>"
        );
        let complete = Asking::new("POST", "/bucket/k?uploadId=u1").body(document.as_bytes());
        assert_eq!(server.send(&complete).await.refusal(), code(400, "MalformedXML"), "{character:?}");
    }
    assert!(server.memory.calls().is_empty());
}

#[tokio::test]
async fn checksum_headers_have_their_shape() {
    let server = Server::start().await;
    let with = |name, value| put().body(b"123456789").header(name, value);
    assert_eq!(server.send(&with("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")).await.status, 200);
    let (headers, _) = server.memory.last_seen();
    assert_eq!(headers["x-amz-checksum-crc64nvme"], "rosUhgp5mIg=");
    assert_eq!(
        server.send(&with("x-amz-checksum-sha1", "short")).await.refusal(),
        code(400, "InvalidRequest")
    );
    let two = with("x-amz-checksum-crc32", "y/Q5Jg==").header("x-amz-checksum-crc32c", "4waSgw==");
    assert_eq!(server.send(&two).await.refusal(), code(400, "InvalidRequest"));
    assert_eq!(server.send(&with("content-md5", "nonsense")).await.refusal(), code(400, "InvalidDigest"));
}
