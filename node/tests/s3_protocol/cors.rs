//! Cross-origin requests: which answers say that a page of another origin may read them, and preflights.

use sherd_core::config::cors::{Cors, CorsMethod, CorsRule};
use sherd_s3::service::Limits;

use crate::memory::Memory;
use crate::wire::{Answer, Asking, Server, TestClock, protocol, small_limits};

const ORIGIN: &str = "https://a.example";
const VARIES: &str = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";

fn rule(origin: &str, methods: &[CorsMethod], headers: &[&str]) -> CorsRule {
    CorsRule {
        allowed_origins: vec![origin.to_owned()],
        allowed_methods: methods.to_vec(),
        allowed_headers: headers.iter().map(|&header| header.to_owned()).collect(),
        ..CorsRule::default()
    }
}

/// Rules for a page that may do everything, and for others that may read.
fn rules() -> Cors {
    let page = CorsRule {
        expose_headers: vec!["ETag".to_owned(), "x-amz-request-id".to_owned()],
        max_age_seconds: Some(3000),
        ..rule(ORIGIN, CorsMethod::ALL, &["content-type", "x-amz-*"])
    };
    Cors { rules: vec![page, rule("*", &[CorsMethod::Get], &[])] }
}

async fn a_server() -> Server {
    let server = Server::start().await;
    server.memory.configure("bucket", Some(rules()));
    server.memory.configure("plain", None);
    server.memory.keep("bucket", "k", "abc");
    server
}

/// The headers of an answer that are for browsers.
fn said(answer: &Answer) -> Vec<(&str, &str)> {
    let is_said = |name: &str| name.starts_with("access-control-") || name == "vary";
    let mut said: Vec<_> = answer.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    said.retain(|(name, _)| is_said(name));
    said.sort_unstable();
    said
}

fn said_to_the_page() -> Vec<(&'static str, &'static str)> {
    vec![
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "GET, PUT, POST, DELETE, HEAD"),
        ("access-control-allow-origin", ORIGIN),
        ("access-control-expose-headers", "ETag, x-amz-request-id"),
        ("access-control-max-age", "3000"),
        ("vary", VARIES),
    ]
}

#[tokio::test]
async fn every_answer_may_be_read_by_the_page_that_a_rule_allows() {
    let server = a_server().await;
    let asking = |method, target: &str| Asking::new(method, target).unsigned("origin", ORIGIN);
    let changed = |mut asking: Asking, change: fn(&mut Asking)| {
        change(&mut asking);
        asking
    };
    let yesterday = || changed(asking("GET", "/bucket/k"), |asking| asking.date = "20130523T000000Z");
    let requests = [
        (asking("GET", "/bucket/k").signed(), 200),
        (asking("HEAD", "/bucket/k").signed(), 200),
        (asking("PUT", "/bucket/new").body(b"abc").signed(), 200),
        (asking("DELETE", "/bucket/new").signed(), 204),
        (asking("GET", "/").host("bucket.s3.test").signed(), 200),
        (asking("GET", "/bucket/k").presigned(60), 200),
        // Refused by the operation.
        (asking("GET", "/bucket/none").signed(), 404),
        (asking("HEAD", "/bucket/none").signed(), 404),
        (asking("GET", "/bucket/unmodified").signed(), 304),
        (asking("GET", "/bucket/overload").signed(), 503),
        (asking("GET", "/bucket/full").signed(), 507),
        // Refused before a signature was believed.
        (asking("GET", "/bucket/k").bare(None), 403),
        (asking("GET", "/bucket/k").bare(Some("AWS4-HMAC-SHA256 nonsense")), 400),
        (changed(asking("GET", "/bucket/k"), |asking| asking.access_key = "OTHER").signed(), 403),
        (yesterday().signed(), 403),
        (yesterday().presigned(60), 403),
        (asking("GET", "/bucket/k").header("x-amz-meta-a", &"v".repeat(17 << 10)).signed(), 400),
        // Refused for its head, for its body.
        (asking("GET", "/bucket?unknown").signed(), 501),
        (asking("PUT", "/bucket/k").signed(), 411),
        (asking("PUT", "/bucket/k").header("x-amz-storage-class", "NONE").body(b"abc").signed(), 400),
        (
            changed(asking("PUT", "/bucket/k").body(b"abc"), |asking| asking.body = b"abd".to_vec()).signed(),
            400,
        ),
        (asking("POST", "/bucket?delete").body(b"<nonsense").signed(), 400),
    ];
    for (bytes, status) in requests {
        let answer = server.exchange(&bytes).await;
        let request = String::from_utf8_lossy(&bytes);
        assert_eq!(answer.status, status, "{request}\n{}", answer.text());
        assert_eq!(said(&answer), said_to_the_page(), "{request}");
    }
}

#[tokio::test]
async fn requests_that_no_rule_allows_are_answered_as_without_rules() {
    let server = a_server().await;
    server.memory.keep("plain", "k", "abc");
    let get = |target| Asking::new("GET", target);
    for request in [
        get("/bucket/k"),
        get("/plain/k").unsigned("origin", ORIGIN),
        Asking::new("PUT", "/bucket/k").body(b"abc").unsigned("origin", "https://b.example"),
        get("/").unsigned("origin", ORIGIN),
        // A request with a preflight's headers is judged by those.
        get("/bucket/k")
            .unsigned("origin", "https://b.example")
            .unsigned("access-control-request-method", "PUT"),
        get("/bucket/k").unsigned("origin", ORIGIN).unsigned("access-control-request-headers", "range"),
        get("/bucket/k").unsigned("origin", ORIGIN).unsigned("access-control-request-headers", "a b"),
    ] {
        let answer = server.send(&request).await;
        assert_eq!((answer.status, said(&answer)), (200, vec![]), "{request:?}");
    }
    let any = server.send(&get("/bucket/k").unsigned("origin", "null")).await;
    let read =
        [("access-control-allow-methods", "GET"), ("access-control-allow-origin", "*"), ("vary", VARIES)];
    assert_eq!(said(&any), read);
}

#[tokio::test]
async fn an_answer_in_place_of_the_layers_may_be_read_too() {
    let memory = Memory::new(None);
    memory.configure("bucket", Some(rules()));
    let protocol = protocol(TestClock::Still, Limits::default(), memory);
    let allowed = |target: &str, origin: Option<&str>| {
        let request = http::Request::put(target).header("host", "s3.test");
        let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
        let mut headers = http::HeaderMap::new();
        protocol.allow_page(&request.body(()).expect("a request").into_parts().0, &mut headers);
        headers.get("access-control-allow-origin").map(|origin| origin.to_str().expect("text").to_owned())
    };
    assert_eq!(allowed("/bucket/k", Some(ORIGIN)).as_deref(), Some(ORIGIN));
    for (target, origin) in [("/bucket/k", None), ("/bucket/k", Some("null")), ("/other/k", Some(ORIGIN))] {
        assert_eq!(allowed(target, origin), None, "{target} {origin:?}");
    }
}

#[tokio::test]
async fn a_preflight_is_answered_by_the_first_rule_that_allows_it() {
    let server = a_server().await;
    let ask = |origin: &str, method: &str, headers: &[&str]| {
        let ask = Asking::new("OPTIONS", "/bucket/no%20object?partNumber=1&uploadId=u");
        let ask = ask.unsigned("origin", origin).unsigned("access-control-request-method", method);
        let lines = headers.iter();
        lines.fold(ask, |ask, line| ask.unsigned("access-control-request-headers", line))
    };
    let mut whole = said_to_the_page();
    whole.insert(1, ("access-control-allow-headers", "x-amz-date, content-type"));
    for (request, expected) in [
        (ask(ORIGIN, "PUT", &["X-Amz-Date, Content-Type"]), whole.clone()),
        (ask(ORIGIN, "DELETE", &["x-amz-date", "content-type"]), whole),
        (ask(ORIGIN, "HEAD", &[]), said_to_the_page()),
        (ask(ORIGIN, "GET", &[""]).host("bucket.s3.test"), said_to_the_page()),
        (
            ask("https://b.example", "GET", &[]),
            vec![
                ("access-control-allow-methods", "GET"),
                ("access-control-allow-origin", "*"),
                ("vary", VARIES),
            ],
        ),
    ] {
        let answer = server.exchange(&request.bare(None)).await;
        assert_eq!((answer.status, &*answer.text()), (200, ""), "{request:?}");
        assert_eq!(answer.headers["content-length"], "0");
        assert_eq!(answer.headers["x-amz-request-id"].len(), 16);
        assert_eq!(said(&answer), expected, "{request:?}");
    }
    assert_eq!(server.memory.calls(), Vec::<&str>::new(), "a preflight runs nothing");
}

#[tokio::test]
async fn a_preflight_is_refused_with_awss_words() {
    let server = a_server().await;
    let no_origin = "Insufficient information. Origin request header needed.";
    let not_allowed = "CORSResponse: This CORS request is not allowed. This is usually because the evalution of \
                       Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers \
                       are not whitelisted by the resource&apos;s CORS spec.";
    let not_enabled = "CORSResponse: CORS is not enabled for this bucket.";
    let no_bucket = "CORSResponse: Bucket not found";
    let method = |name: &str| format!("Invalid Access-Control-Request-Method: {name}");
    let b = "https://b.example";
    let forbidden = |method, resource| (403, Some(method), Some(resource));
    let bad = (400, None, None);
    for (target, origin, named, headers, message, (status, element, resource)) in [
        ("/bucket/k", None, Some("PUT"), None, no_origin, bad),
        ("/bucket/k", Some(""), Some("PUT"), None, no_origin, bad),
        ("/bucket/k", Some(ORIGIN), None, None, &method("null"), bad),
        ("/bucket/k", Some(ORIGIN), Some("PATCH"), None, &method("PATCH"), bad),
        ("/bucket/k", Some(ORIGIN), Some("put"), None, &method("put"), bad),
        (
            "/bucket/k",
            Some(ORIGIN),
            Some("PUT"),
            Some("a b"),
            "Access-Control-Request-Headers &quot;a b&quot; contains invalid character.",
            bad,
        ),
        ("/bucket/k", Some(b), Some("PUT"), None, not_allowed, forbidden("PUT", "OBJECT")),
        ("/bucket", Some(b), Some("PUT"), None, not_allowed, forbidden("PUT", "BUCKET")),
        ("/bucket/k", Some(b), Some("GET"), Some("range"), not_allowed, forbidden("GET", "OBJECT")),
        ("/plain/k", Some(b), Some("PUT"), None, not_enabled, forbidden("PUT", "BUCKET")),
        ("/plain/k", Some(b), None, None, not_enabled, forbidden("OPTIONS", "BUCKET")),
        ("/nowhere/k", Some(b), Some("GET"), None, no_bucket, forbidden("GET", "BUCKET")),
        ("/", Some(b), Some("GET"), None, no_bucket, forbidden("GET", "BUCKET")),
    ] {
        let mut ask = Asking::new("OPTIONS", target);
        for (name, value) in [
            ("origin", origin),
            ("access-control-request-method", named),
            ("access-control-request-headers", headers),
        ] {
            ask = value.into_iter().fold(ask, |ask, value| ask.unsigned(name, value));
        }
        let answer = server.exchange(&ask.bare(None)).await;
        let code = if status == 400 { "BadRequest" } else { "AccessForbidden" };
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{ask:?}");
        assert_eq!(
            answer.element("Message").map(|said| said.replace('\'', "&apos;")).as_deref(),
            Some(message)
        );
        assert_eq!(answer.element("Method").as_deref(), element, "{ask:?}");
        assert_eq!(answer.element("ResourceType").as_deref(), resource, "{ask:?}");
        assert_eq!(said(&answer), [], "{ask:?}");
    }
}

#[tokio::test]
async fn a_preflight_is_held_to_the_limits_of_a_request() {
    let server = Server::start_with(TestClock::Still, small_limits()).await;
    server.memory.configure("bucket", Some(rules()));
    let ask = || Asking::new("OPTIONS", "/bucket/k").unsigned("origin", ORIGIN);
    let long = ask().unsigned("x-amz-meta-a", &"v".repeat(3000));
    let refused = server.exchange(&long.bare(None)).await;
    assert_eq!(refused.refusal(), (400, "RequestHeaderSectionTooLarge".to_owned()));
    let many = ask().unsigned("access-control-request-method", "PUT");
    let many = many.unsigned("access-control-request-headers", &["a"; 257].join(","));
    assert_eq!(server.exchange(&many.bare(None)).await.refusal(), (403, "AccessForbidden".to_owned()));
}

#[tokio::test]
async fn only_names_that_a_bucket_may_have_are_looked_up_for_strangers() {
    let server = a_server().await;
    for (target, origin) in [
        ("/UPPER/k", None),
        ("/", Some(ORIGIN)),
        ("/UPPER/k", Some(ORIGIN)),
        ("/a/k", Some(ORIGIN)),
        ("/192.168.0.1/k", Some(ORIGIN)),
    ] {
        for method in ["GET", "OPTIONS"] {
            let ask = Asking::new(method, target).unsigned("access-control-request-method", "GET");
            let ask = origin.into_iter().fold(ask, |ask, origin| ask.unsigned("origin", origin));
            server.exchange(&ask.bare(None)).await;
        }
    }
    assert_eq!(server.memory.looked_up(), Vec::<String>::new());
    let stranger = Asking::new("GET", "/other/k").unsigned("origin", ORIGIN);
    assert_eq!(server.exchange(&stranger.bare(None)).await.status, 403);
    assert_eq!(server.memory.looked_up(), ["other", "other"], "for its rules, and for its policy");
}
