//! Forms that drip, and heads that contradict their fields.

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::StreamBody;

use sherd_front::unproven::UnprovenWork;

use super::*;
use crate::fuzzing::PROTOCOL;
use crate::wire::body::TransportError;

/// Sends a form whose body begins with these bytes and does not end.
async fn send(begin: &'static str) -> http::Response<s3s::Body> {
    let begin = stream::iter([Ok(http_body::Frame::data(Bytes::from_static(begin.as_bytes())))]);
    let body = StreamBody::new(begin.chain(stream::pending::<Result<_, TransportError>>()));
    let request = http::Request::post("http://s3.test/bucket").header(HOST, "s3.test");
    let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=b");
    PROTOCOL.call(request.header("content-length", "1000").body(body).expect("a request")).await.1
}

#[tokio::test(start_paused = true)]
async fn forms_that_drip_refuse_no_form_whose_fields_are_there() {
    const DRIPS: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk";
    const IS_WHOLE: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nf";
    let mut dripping = Vec::new();
    for _ in 0..UnprovenWork::S3Forms.max() {
        let mut form = Box::pin(send(DRIPS));
        assert!(futures::poll!(&mut form).is_pending());
        dripping.push(form);
    }
    let mut later = Vec::new();
    for form in dripping.drain(..8) {
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        let answer = send(IS_WHOLE).await;
        assert_eq!(answer.status(), http::StatusCode::FORBIDDEN, "judged: it is not signed");
        assert_eq!(form.await.status(), http::StatusCode::SERVICE_UNAVAILABLE, "it gave way");
        let mut next = Box::pin(send(DRIPS));
        assert!(futures::poll!(&mut next).is_pending());
        later.push(next);
    }
    for form in dripping.iter_mut().chain(&mut later) {
        assert!(futures::poll!(form).is_pending(), "one gives way for each");
    }
}

#[test]
fn a_key_has_a_length() {
    assert_eq!(checked_key("a").expect("a key"), "a");
    assert_eq!(checked_key("").expect_err("none").code, Code::InvalidArgument);
    assert_eq!(checked_key(&"k".repeat(1025)).expect_err("long").code, Code::KeyTooLongError);
}
