//! Requests beside the recorded ones, made from the tables of `requests.txt`: methods with each parameter and
//! each two of them, operations with each header, documents, signatures, and what a client may write on the
//! wire. How they are answered does not matter here, only that two builds answer alike.

use crate::message::{Answer, Head, Request};
use crate::moment;
use crate::recording::{Start, Step};
use crate::sign::{self, Plain};

/// The key pair of the generated requests.
const KEYS: (&str, &str) = ("GENERATED", "secret-of-the-generated");
/// The region that they are signed for.
const REGION: &str = "us-east-1";
/// Stands for the id of an upload, which is another one on each server.
const UPLOAD: &str = "an-upload-id-of-the-server";

/// The tables that the requests are made from.
const TABLES: &str = include_str!("requests.txt");

/// Methods that a request line may begin with.
const METHODS: &[&str] = &["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"];
/// Paths of a service, of buckets and of objects, there or not.
const PATHS: &[&str] = &["/", "/bucket", "/bucket/", "/missing", "/bucket/k", "/bucket/none", "/missing/k"];

const DELETE: &[u8] = b"<Delete><Object><Key>k</Key></Object></Delete>";
const COMPLETE: &[u8] =
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";

/// The lines of a table.
fn table(name: &str) -> impl Iterator<Item = &'static str> {
    let mut tables = TABLES.split("\n== ").map(|table| table.split_once('\n').unwrap_or((table, "")));
    let (_, lines) = tables.find(|(found, _)| *found == name).expect("a table of requests.txt");
    lines.lines().map(|line| if line == "(empty)" { "" } else { line })
}

/// The table of headers, as names and values.
fn headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    table("headers").map(|line| line.split_once(':').map_or((line, ""), |(name, value)| (name, value.trim())))
}

/// Every operation that has a body, an answer or a condition of its own: method, target, body.
fn operations() -> Vec<Plain> {
    let upload = |rest: &str| format!("/bucket/upload?{rest}uploadId={UPLOAD}");
    let of = Plain::new;
    vec![
        of("GET", "/"),
        of("GET", "/bucket"),
        of("GET", "/bucket?list-type=2"),
        of("GET", "/bucket?versions"),
        of("GET", "/bucket?uploads"),
        of("GET", "/bucket?location"),
        of("GET", "/bucket?policy"),
        of("HEAD", "/bucket"),
        of("PUT", "/bucket"),
        of("PUT", "/new-bucket"),
        of("PUT", "/bucket?tagging").with_body(b"<Tagging><TagSet/></Tagging>"),
        of("POST", "/bucket?delete").with_body(DELETE),
        of("DELETE", "/missing"),
        of("GET", "/bucket/k"),
        of("HEAD", "/bucket/k"),
        of("GET", "/bucket/none"),
        of("GET", "/bucket/k?attributes"),
        of("GET", "/bucket/k?acl"),
        of("PUT", "/bucket/k").with_body(b"abc"),
        of("PUT", "/bucket/new").with_body(b"abc"),
        of("DELETE", "/bucket/k"),
        of("PUT", "/bucket/copy").with_line("x-amz-copy-source", "/bucket/k"),
        of("POST", "/bucket/k?uploads"),
        of("PUT", &upload("partNumber=1&")).with_body(b"abc"),
        of("PUT", &upload("partNumber=2&")).with_line("x-amz-copy-source", "/bucket/k"),
        of("GET", &upload("")),
        of("POST", &upload("")).with_body(COMPLETE),
        of("OPTIONS", "/bucket/k"),
    ]
}

/// The sections by name: each is replayed on nodes of its own.
pub(crate) fn sections() -> Vec<(String, Vec<Step>)> {
    let mut sections = Vec::new();
    for method in METHODS {
        let all = table("sub-resources").chain(table("parameters"));
        let targets = all.flat_map(|query| PATHS.iter().map(move |path| format!("{path}?{query}")));
        let plain = PATHS.iter().map(|path| (*path).to_owned());
        let requests = plain.chain(targets).map(|target| Plain::new(method, &target));
        sections.push((format!("generated-parameters-{method}"), signed(requests)));
    }
    for method in ["GET", "PUT", "POST", "DELETE"] {
        for path in ["/bucket", "/bucket/k"] {
            let names: Vec<&str> = table("sub-resources").collect();
            let pairs = names.iter().enumerate().flat_map(|(index, one)| {
                names[index + 1..].iter().map(move |other| format!("{path}?{one}&{other}"))
            });
            let requests = pairs.map(|target| Plain::new(method, &target));
            let name = if path == "/bucket" { "bucket" } else { "object" };
            sections.push((format!("generated-pairs-{name}-{method}"), signed(requests)));
        }
    }
    for (index, operation) in operations().into_iter().enumerate() {
        let with = headers().map(|(name, value)| operation.clone().with_line(name, value));
        let name = format!("generated-headers-{index}-{}", operation.method);
        sections.push((name, signed(with)));
    }
    sections.push(("generated-conditions".to_owned(), signed(conditions())));
    sections.push(("generated-documents".to_owned(), signed(documents())));
    sections.push(("generated-addresses".to_owned(), signed(addresses())));
    sections.push(("generated-signatures".to_owned(), with_start(signatures())));
    sections.push(("generated-wire".to_owned(), with_start(wire())));
    sections
}

/// Each two of the conditions on reads, writes and copies.
fn conditions() -> Vec<Plain> {
    const CONDITIONS: &[&str] = &[
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "range",
        "x-amz-copy-source-if",
    ];
    let rows: Vec<(&str, &str)> =
        headers().filter(|(name, _)| CONDITIONS.iter().any(|start| name.starts_with(start))).collect();
    let mut requests = Vec::new();
    for (index, one) in rows.iter().enumerate() {
        for other in &rows[index + 1..] {
            let operations = [
                Plain::new("GET", "/bucket/k"),
                Plain::new("HEAD", "/bucket/k"),
                Plain::new("PUT", "/bucket/k").with_body(b"0123456789"),
                Plain::new("PUT", "/bucket/copy").with_line("x-amz-copy-source", "/bucket/k"),
            ];
            requests.extend(operations.map(|it| it.with_line(one.0, one.1).with_line(other.0, other.1)));
        }
    }
    requests
}

fn documents() -> Vec<Plain> {
    let upload = format!("/bucket/upload?uploadId={UPLOAD}");
    let targets = [
        ("POST", "/bucket?delete"),
        ("POST", &upload),
        ("POST", "/bucket/k?uploadId=bad"),
        ("PUT", "/new-bucket"),
        ("PUT", "/bucket?tagging"),
        ("POST", "/bucket/k?uploads"),
        ("GET", "/bucket/k"),
        ("DELETE", "/bucket/none"),
        ("PUT", "/bucket?policy"),
    ];
    let mut requests = Vec::new();
    for (method, target) in targets {
        for document in table("documents") {
            let md5 = sign::md5(document.as_bytes());
            let request = Plain::new(method, target).with_body(document.as_bytes());
            requests.push(request.clone());
            requests.push(request.with_line("content-md5", &md5));
        }
    }
    requests
}

fn addresses() -> Vec<Plain> {
    let mut requests = Vec::new();
    for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"] {
        for target in table("targets") {
            requests.push(Plain::new(method, target));
        }
        for host in table("hosts") {
            for target in ["/", "/k", "/bucket/k", "/?location", "/k?acl", "//k"] {
                requests.push(Plain::new(method, target).with_line("host", host));
            }
        }
        for len in [1023, 1024, 1025, 2000, 9000] {
            requests.push(Plain::new(method, &format!("/bucket/{}", "k".repeat(len))));
            requests.push(Plain::new(method, &format!("/bucket?list-type=2&prefix={}", "k".repeat(len))));
        }
    }
    requests
}

/// Requests whose signature is missing, wrong or of another form.
fn signatures() -> Vec<Request> {
    let now = moment::basic(moment::now_s());
    let fill = |text: &str| text.replace("DAY", &now[..8]).replace("NOW", &now).replace("KEY", KEYS.0);
    let operations = [
        Plain::new("GET", "/bucket/k"),
        Plain::new("GET", "/bucket/none"),
        Plain::new("HEAD", "/bucket/k"),
        Plain::new("PUT", "/bucket/k").with_body(b"abc"),
        Plain::new("GET", "/missing"),
        Plain::new("PUT", "/bucket/k?acl"),
        Plain::new("POST", "/bucket/k"),
        Plain::new("POST", "/bucket?delete").with_body(DELETE),
    ];
    let mut requests = Vec::new();
    for operation in &operations {
        requests.push(unsigned(operation));
        for value in table("authorizations") {
            requests.push(unsigned(&operation.clone().with_line("authorization", &fill(value))));
        }
        for date in table("dates") {
            requests.push(signed_one(&operation.clone().with_line("x-amz-date", date)));
            requests.push(unsigned(&operation.clone().with_line("x-amz-date", date)));
        }
        for query in table("presigned") {
            let separator = if operation.target.contains('?') { '&' } else { '?' };
            let target = format!("{}{separator}{}", operation.target, fill(query));
            requests.push(unsigned(&Plain { target: target.clone(), ..operation.clone() }));
            requests.push(signed_one(&Plain { target, ..operation.clone() }));
        }
    }
    requests
}

/// Requests as bytes: methods, versions, lengths and framing.
fn wire() -> Vec<Request> {
    let many = |count: usize| "h: x\r\n".repeat(count);
    let long = |len: usize| format!("h: {}\r\n", "x".repeat(len));
    let heads = [
        "GET /bucket/k HTTP/1.0\r\n".to_owned(),
        "GET /bucket/k HTTP/1.1\r\n".to_owned(),
        "GET /bucket/k HTTP/2.0\r\n".to_owned(),
        "get /bucket/k HTTP/1.1\r\nhost: x\r\n".to_owned(),
        "FOO /bucket/k HTTP/1.1\r\nhost: x\r\n".to_owned(),
        "GET  /bucket/k HTTP/1.1\r\nhost: x\r\n".to_owned(),
        "GET /bucket/k\r\nhost: x\r\n".to_owned(),
        "GET\r\n".to_owned(),
        "\r\n".to_owned(),
        "x\r\n".to_owned(),
        "GET /bucket/k HTTP/1.1\r\nhost: x\r\nhost: y\r\n".to_owned(),
        "CONNECT x:80 HTTP/1.1\r\nhost: x\r\n".to_owned(),
        "TRACE /bucket/k HTTP/1.1\r\nhost: x\r\n".to_owned(),
        "GET /bucket/k HTTP/1.1\r\nno colon\r\n".to_owned(),
        "GET /bucket/k HTTP/1.1\r\nhost: x\r\nbad name: x\r\n".to_owned(),
        "GET /bucket/k HTTP/1.1\r\nhost: x\r\na: \u{1}\r\n".to_owned(),
        "GET /bucket/k HTTP/1.1\r\nhost: x\r\n folded\r\n".to_owned(),
        "PUT /bucket/k HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n".to_owned(),
        "PUT /bucket/k HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n".to_owned(),
        "PUT /bucket/k HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n".to_owned(),
        "PUT /bucket/k HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\ncontent-length: 1\r\n".to_owned(),
        "PUT /bucket/k HTTP/1.1\r\nhost: x\r\n".to_owned(),
        "PUT /bucket/k HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n".to_owned(),
        "GET /bucket/k HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\nconnection: upgrade\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n".to_owned(),
        format!("GET /bucket/k HTTP/1.1\r\nhost: x\r\n{}", many(90)),
        format!("GET /bucket/k HTTP/1.1\r\nhost: x\r\n{}", many(110)),
        format!("GET /bucket/k HTTP/1.1\r\nhost: x\r\n{}", many(200)),
        format!("GET /bucket/k HTTP/1.1\r\nhost: x\r\n{}", long(7000)),
        format!("GET /bucket/k HTTP/1.1\r\nhost: x\r\n{}", long(17_000)),
        format!("GET /bucket/k HTTP/1.1\r\nhost: x\r\n{}", long(70_000)),
        format!("GET /bucket/{} HTTP/1.1\r\nhost: x\r\n", "k".repeat(20_000)),
    ];
    heads.iter().map(|head| raw(format!("{head}\r\n").as_bytes())).collect()
}

fn raw(bytes: &[u8]) -> Request {
    let body = bytes.to_vec();
    // Half-closed and not whole: the sending half is closed, and the server answers or closes.
    Request { connection: 1, head: None, body, is_whole: false, is_half_closed: true, recorded: None }
}

fn request(head: Head, body: Vec<u8>) -> Request {
    Request { connection: 1, head: Some(head), body, is_whole: true, is_half_closed: false, recorded: None }
}

fn signed_one(plain: &Plain) -> Request {
    let signed = sign::new(plain, KEYS, REGION, moment::now_s());
    request(signed.head, signed.body)
}

fn unsigned(plain: &Plain) -> Request {
    let Request { head, body, .. } = signed_one(plain);
    let mut head = head.expect("it was made with one");
    // The last line is the signature; a line that the request brought stands before it.
    head.lines.pop();
    request(head, body)
}

fn signed(requests: impl IntoIterator<Item = Plain>) -> Vec<Step> {
    with_start(requests.into_iter().map(|plain| signed_one(&plain)))
}

/// A start, a bucket with an object and an upload, and then the requests.
fn with_start(requests: impl IntoIterator<Item = Request>) -> Vec<Step> {
    let start = Start {
        how: "generated".to_owned(),
        volume_count: 4,
        access_key: KEYS.0.to_owned(),
        secret_key: KEYS.1.to_owned(),
        clock_s: moment::now_s(),
        lines: "domains = [\"s3.test\"]\n".to_owned(),
    };
    let object =
        Step::Object { bucket: "bucket".to_owned(), key: "k".to_owned(), body: b"0123456789".to_vec() };
    let mut upload = signed_one(&Plain::new("POST", "/bucket/upload?uploads"));
    let lines = vec![("content-type".to_owned(), " application/xml".to_owned())];
    let head = Head { first: "HTTP/1.1 200 OK".to_owned(), lines };
    let body = format!("<UploadId>{UPLOAD}</UploadId>").into_bytes();
    upload.recorded = Some(Answer { interim: Vec::new(), head, body, is_whole: true });
    let steps = [Step::Start(start), object, Step::Request(Box::new(upload))];
    steps.into_iter().chain(requests.into_iter().map(|request| Step::Request(Box::new(request)))).collect()
}
