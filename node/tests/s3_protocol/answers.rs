//! The form of answers.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use sherd_node::log;

use crate::wire::{Asking, SECRET, Server};

#[tokio::test]
async fn every_error_says_what_and_which_request() {
    let server = Server::start().await;
    let missing = server.send(&Asking::new("GET", "/bucket/a%26b")).await;
    let refused = server.exchange(&Asking::new("GET", "/bucket/a%26b").bare(None)).await;
    let invalid = server.send(&Asking::new("POST", "/bucket/a%26b?uploadId=u").body(b"<nonsense")).await;
    for (answer, status, code) in
        [(&missing, 404, "NoSuchKey"), (&refused, 403, "AccessDenied"), (&invalid, 400, "MalformedXML")]
    {
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{}", answer.text());
        assert_eq!(answer.headers["content-type"], "application/xml");
        assert_eq!(answer.element("Resource").as_deref(), Some("/bucket/a%26b"));
        assert_eq!(answer.element("RequestId").as_ref(), answer.headers.get("x-amz-request-id"));
        assert_eq!(answer.element("HostId").as_deref(), Some("node-0"));
        assert_eq!(answer.headers["x-amz-id-2"], "node-0");
        assert!(answer.element("Message").is_some_and(|message| !message.is_empty()));
        assert!(answer.text().ends_with("</Error>"));
    }
    assert_ne!(missing.headers["x-amz-request-id"], refused.headers["x-amz-request-id"]);
}

#[tokio::test]
async fn good_answers_carry_their_ids_too() {
    let server = Server::start().await;
    server.memory.keep("bucket", "k", "abc");
    let answer = server.send(&Asking::new("GET", "/bucket/k")).await;
    assert_eq!((answer.status, &*answer.text()), (200, "abc"));
    assert_eq!(answer.headers["x-amz-request-id"].len(), 16);
    assert_eq!(answer.headers["content-length"], "3");
}

#[tokio::test]
async fn heads_have_no_body() {
    let server = Server::start().await;
    server.memory.keep("bucket", "k", "abc");
    let missing = server.send(&Asking::new("HEAD", "/bucket/none")).await;
    assert_eq!((missing.status, missing.body.len()), (404, 0));
    assert!(missing.headers.contains_key("x-amz-request-id"));
    let denied = server.exchange(&Asking::new("HEAD", "/bucket/k").bare(None)).await;
    assert_eq!((denied.status, denied.body.len()), (403, 0));
    let found = server.send(&Asking::new("HEAD", "/bucket/k")).await;
    assert_eq!((found.status, found.body.len()), (200, 0));
    assert_eq!(found.headers["content-length"], "3");
    let range = server.send(&Asking::new("HEAD", "/bucket/k").header("range", "bytes=0-1")).await;
    assert_eq!(range.status, 206, "an operation's own status");
}

#[tokio::test]
async fn unmodified_answers_have_no_body() {
    let server = Server::start().await;
    let answer = server.send(&Asking::new("GET", "/bucket/unmodified")).await;
    assert_eq!((answer.status, answer.body.len()), (304, 0));
}

#[tokio::test]
async fn overload_and_full_disks_keep_their_status_and_headers() {
    let server = Server::start().await;
    let overload = server.send(&Asking::new("GET", "/bucket/overload")).await;
    assert_eq!(overload.refusal(), (503, "SlowDown".to_owned()));
    assert!(overload.headers.contains_key("retry-after"));
    let full = server.send(&Asking::new("GET", "/bucket/full")).await;
    assert_eq!(full.refusal(), (507, "InsufficientStorage".to_owned()));
    assert_eq!(full.headers["x-mine"], "1");
    assert_eq!(full.headers["content-type"], "application/xml", "set headers do not cost the content type");
}

#[tokio::test]
async fn content_types_are_kept() {
    let server = Server::start().await;
    let put = Asking::new("PUT", "/bucket/k").body(b"a").header("content-type", "text/x-mine; charset=utf-8");
    assert_eq!(server.send(&put).await.status, 200);
    let stored = server.memory.object("bucket", "k").expect("stored");
    assert_eq!(stored.content_type.as_deref(), Some("text/x-mine; charset=utf-8"));
    let form =
        Asking::new("POST", "/bucket/form?uploads").header("content-type", "Multipart/Form-Data; boundary=x");
    assert_eq!(server.send(&form).await.status, 200);
    let stored = server.memory.object("bucket", "form").expect("begun");
    assert_eq!(stored.content_type.as_deref(), Some("Multipart/Form-Data; boundary=x"));
}

#[tokio::test]
async fn conditions_on_a_copys_destination_reach_the_operation() {
    let server = Server::start().await;
    let copy = Asking::new("PUT", "/bucket/k")
        .header("x-amz-copy-source", "/bucket/source")
        .header("if-none-match", "*")
        .unsigned("content-length", "0");
    assert_eq!(server.send(&copy).await.status, 200);
    let (headers, _) = server.memory.last_seen();
    assert_eq!(headers["if-none-match"], "*");
    assert!(!headers.contains_key("authorization"));
}

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn neither_signatures_nor_secrets_are_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = log::text("trace", move || writer.clone());
    // Global, for a subscriber of one thread misses spans that other threads entered before; so the log holds
    // every test's requests, and this one's are recognised by their key.
    tracing::subscriber::set_global_default(subscriber).expect("no other test logs");
    let server = Server::start().await;
    let good = Asking::new("PUT", "/bucket/logged").body(b"abc");
    let mut wrong = Asking::new("GET", "/bucket/logged");
    wrong.region = "mars-1";
    let presigned = Asking::new("GET", "/bucket/none").presigned(60);
    assert_eq!(server.send(&good).await.status, 200);
    server.send(&wrong).await;
    let answer = server.exchange(&presigned).await;
    assert_eq!(answer.status, 404);
    let logged = String::from_utf8(log.0.lock().clone()).expect("text");
    assert!(logged.contains("/bucket/logged"), "requests are logged: {logged}");
    assert!(!logged.contains(" s3s::"), "s3s says nothing: {logged}");
    let presigned = String::from_utf8(presigned).expect("ASCII");
    let (_, signature) = presigned.split_once("X-Amz-Signature=").expect("signed");
    for hidden in [SECRET, &good.seed(), &wrong.seed(), &signature[..64]] {
        assert!(!logged.contains(hidden), "{hidden} is in the log: {logged}");
    }
}

#[tokio::test]
async fn a_bucket_is_looked_up_once_by_requests_that_were_believed() {
    let server = Server::start().await;
    server.memory.keep("bucket", "k", "abc");
    server.send(&Asking::new("GET", "/bucket/k")).await;
    server.send(&Asking::new("GET", "/other?list-type=2")).await;
    assert_eq!(server.memory.looked_up(), ["bucket", "other"]);
    // An anonymous caller is judged by the bucket. A request without one, or for a new one, looks up none.
    // One that works on the bucket's register itself is judged by a view, too.
    let denied = server.exchange(&Asking::new("GET", "/bucket/k").bare(None)).await;
    let unnamed = server.send(&Asking::new("GET", "/Bad/k")).await;
    assert_eq!((denied.status, unnamed.status), (403, 400));
    for (method, target) in [("GET", "/"), ("PUT", "/new"), ("HEAD", "/b-1"), ("DELETE", "/b-2")] {
        server.send(&Asking::new(method, target)).await;
    }
    server.send(&Asking::new("GET", "/b-3?tagging")).await;
    assert_eq!(server.memory.looked_up(), ["bucket", "other", "bucket", "b-1", "b-2", "b-3"]);
}
