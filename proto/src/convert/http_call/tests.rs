//! Requests of HTTP services there and back.

use sherd_core::id::ClusterId;

use super::*;
use crate::sender::sender;

fn message() -> v1::CallRequest {
    let request = Request::put("/b/k?tagging").header("x-amz-tagging", "a=b").body(Bytes::from("text"));
    let request = request.expect("a request");
    request_to_wire(sender(ClusterId([1; 16]), None), HttpService::Iam, request).expect("it is short")
}

#[test]
fn a_request_and_its_answer_travel() {
    let (service, request) = request_from_wire(message()).expect("a request");
    assert_eq!((service, request.method(), request.uri().path()), (HttpService::Iam, &Method::PUT, "/b/k"));
    assert_eq!(request.uri().query(), Some("tagging"));
    assert_eq!(request.headers()["content-length"], "4");
    assert_eq!(request.headers()["x-amz-tagging"], "a=b");
    assert_eq!(request.body(), "text");
    let answer = Response::builder().status(404).header("etag", "x").body(Bytes::from("none"));
    let reply = reply_to_wire(sender(ClusterId([1; 16]), None), answer.expect("an answer"));
    let reply = reply_from_wire(reply.expect("it is short")).expect("an answer");
    assert_eq!((reply.status().as_u16(), &reply.headers()["etag"]), (404, &HeaderValue::from_static("x")));
    assert_eq!(reply.body(), "none");
}

#[test]
fn what_is_no_request_is_refused_by_its_field() {
    let header = |name: &str, value: &'static [u8]| {
        vec![v1::CallHeader { name: name.to_owned(), value: Bytes::from_static(value) }]
    };
    for (message, field) in [
        (v1::CallRequest { service: 0, ..message() }, "service of a call"),
        (v1::CallRequest { service: 9, ..message() }, "service of a call"),
        (v1::CallRequest { method: "P T".to_owned(), ..message() }, "method of a call"),
        (v1::CallRequest { uri: "http://elsewhere/b".to_owned(), ..message() }, "uri of a call"),
        (v1::CallRequest { uri: "*".to_owned(), ..message() }, "uri of a call"),
        (v1::CallRequest { uri: format!("/{}", "a".repeat(16 << 10)), ..message() }, "uri of a call"),
        (v1::CallRequest { headers: header("Authorization", b"x"), ..message() }, "headers of a call"),
        (v1::CallRequest { headers: header("host", b"x"), ..message() }, "headers of a call"),
        (v1::CallRequest { headers: header("a b", b"x"), ..message() }, "headers of a call"),
        (v1::CallRequest { headers: header("a", b"x\r\ny: z"), ..message() }, "headers of a call"),
        (
            v1::CallRequest { headers: vec![header("a", b"x").remove(0); 129], ..message() },
            "headers of a call",
        ),
        (v1::CallRequest { body: vec![0; (1 << 20) + 1].into(), ..message() }, "body of a call"),
    ] {
        assert_eq!(request_from_wire(message).expect_err(field).field, field);
    }
    let reply = v1::CallReply { status: 99, ..v1::CallReply::default() };
    assert_eq!(reply_from_wire(reply).expect_err("no status").field, "status of a call");
}
