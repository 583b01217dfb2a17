//! The generator against a small server that is overloaded at times and lies at others: every fault is
//! counted by its kind, and never as an operation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};
use sherd_bench::client::payload::Payloads;
use sherd_bench::client::sign::Credentials;
use sherd_bench::load::keys::Keys;
use sherd_bench::load::run::{Outcome, Plan, Target, run};
use sherd_bench::load::schedule::Limit;
use sherd_bench::load::sizes::Size;
use sherd_bench::load::tally::Fault;
use sherd_bench::load::work::Op;
use sherd_bench::subject::{Endpoint, Subject};
use sherd_bench::tls::authority::BenchAuthority;

const SIZE: u64 = 100_000;

/// The server's fault in its n-th request, counted from 0.
#[derive(Clone, Copy)]
enum Whim {
    Honest,
    FlipsOneByteOf(u64),
    SaysSlowDownEvery(u64),
    FailsInside(u64),
    CutsShort(u64),
    HangsUpOn(u64),
    SendsLess(u64),
    NeverAnswers(u64),
    EndsEachAnswerByHangingUp,
}

/// The stored objects, and the number of requests.
#[derive(Default)]
struct Store {
    objects: HashMap<String, Vec<u8>>,
    requests: u64,
    uploads: HashMap<String, Vec<u8>>,
}

/// Starts a server of one whim; it ends with the process.
fn a_server_that(whim: Whim) -> SocketAddr {
    a_server_over(whim, |stream| stream)
}

/// The same over TLS.
fn a_server_with_a_certificate(whim: Whim, authority: &BenchAuthority) -> SocketAddr {
    let config = authority.server(&[b"http/1.1"]).unwrap();
    a_server_over(whim, move |stream| {
        StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream)
    })
}

fn a_server_over<S: Read + Write + 'static>(
    whim: Whim,
    over: impl Fn(TcpStream) -> S + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let store = Arc::new(Mutex::new(Store::default()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (store, over) = (Arc::clone(&store), over.clone());
            thread::spawn(move || serve(over(stream.unwrap()), &store, whim));
        }
    });
    address
}

/// Answers requests until the client, or a whim, ends the connection.
fn serve<S: Read + Write>(stream: S, store: &Mutex<Store>, whim: Whim) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let (method, target) =
            line.split_once(' ').map(|(method, rest)| (method.to_owned(), rest.to_owned()))?;
        let target = target.split(' ').next().unwrap().to_owned();
        let (mut length, mut signed) = (0, false);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line == "\r\n" {
                break;
            }
            let (name, value) = line.split_once(':').unwrap();
            match name {
                "content-length" => length = value.trim().parse().unwrap(),
                "authorization" => signed = value.contains("AWS4-HMAC-SHA256 Credential=id/"),
                _ => {}
            }
        }
        assert!(signed, "{line} is not signed");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut store = store.lock().unwrap();
        let index = store.requests;
        store.requests += 1;
        let mut answer = store.answer(&method, &target, body);
        drop(store);
        let end = answer.len();
        match whim {
            Whim::FlipsOneByteOf(n) if n == index => answer[end - 77] ^= 1,
            Whim::SaysSlowDownEvery(n) if index % n == n - 1 => {
                answer = with_status("503 Slow Down", b"<Error><Code>SlowDown</Code></Error>");
            }
            Whim::FailsInside(n) if n == index => {
                answer =
                    with_status("500 Internal Server Error", b"<Error><Code>InternalError</Code></Error>");
            }
            Whim::CutsShort(n) if n == index => {
                reader.get_mut().write_all(&answer[..end - 10]).ok()?;
                return None;
            }
            Whim::HangsUpOn(n) if n == index => return None,
            Whim::NeverAnswers(n) if n == index => continue,
            Whim::EndsEachAnswerByHangingUp => {
                let head = std::str::from_utf8(&answer[..17]).unwrap().lines().next().unwrap().len();
                let body = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
                reader.get_mut().write_all(&[&answer[..head], &answer[body..]].concat()).ok()?;
                return None;
            }
            Whim::SendsLess(n) if n == index => {
                let begin = end - usize::try_from(SIZE).unwrap();
                answer = with_status("200 OK", &answer[begin..end - 1]);
            }
            _ => {}
        }
        reader.get_mut().write_all(&answer).ok()?;
        reader.get_mut().flush().ok()?;
    }
}

impl Store {
    fn answer(&mut self, method: &str, target: &str, body: Vec<u8>) -> Vec<u8> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match (method, query) {
            ("GET", query) if query.starts_with("list-type=2") => self.listing(query),
            ("GET", _) => match self.objects.get(path) {
                Some(object) => with_status("200 OK", object),
                None => with_status("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>"),
            },
            ("HEAD", _) => {
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", self.objects[path].len()).into()
            }
            ("PUT", "") => {
                self.objects.insert(path.to_owned(), body);
                with_status("200 OK", b"")
            }
            ("PUT", _) => {
                self.uploads.entry(path.to_owned()).or_default().extend(body);
                b"HTTP/1.1 200 OK\r\nETag: \"part\"\r\nContent-Length: 0\r\n\r\n".to_vec()
            }
            ("POST", "uploads=") => chunked("<InitiateMultipartUploadResult><UploadId>u/1</UploadId></x>"),
            ("POST", "delete=") => {
                let keys = String::from_utf8(body).unwrap();
                let count = keys.matches("<Key>").count();
                chunked(&format!("<DeleteResult>{}</DeleteResult>", "<Deleted></Deleted>".repeat(count)))
            }
            ("POST", "uploadId=u%2F1") => {
                let object = self.uploads.remove(path).unwrap();
                self.objects.insert(path.to_owned(), object);
                chunked("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
            }
            ("DELETE", _) => {
                self.objects.remove(path);
                b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
            }
            other => panic!("{other:?}"),
        }
    }

    fn listing(&self, query: &str) -> Vec<u8> {
        let value = |name: &str| {
            let (_, rest) = query.split_once(&format!("{name}=")).unwrap();
            rest.split('&').next().unwrap().replace("%2F", "/")
        };
        let after = format!("/bucket/{}", value("start-after"));
        let mut names: Vec<&String> = self.objects.keys().filter(|name| **name > after).collect();
        names.sort();
        let mut xml = "<ListBucketResult>".to_owned();
        for name in names.iter().take(value("max-keys").parse().unwrap()) {
            xml.extend(["<Contents><Key>", name.strip_prefix("/bucket/").unwrap(), "</Key></Contents>"]);
        }
        chunked(&(xml + "</ListBucketResult>"))
    }
}

fn with_status(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn chunked(text: &str) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in text.as_bytes().chunks(50) {
        write!(answer, "{:x}\r\n", piece.len()).unwrap();
        answer.extend_from_slice(piece);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    answer
}

/// The generator beside the server, with the objects that it has written.
struct Bench {
    subject: Subject,
    payloads: Payloads,
    keys: Keys,
}

impl Bench {
    fn against(whim: Whim) -> Self {
        let credentials =
            Credentials { access_key: "id".into(), secret_key: "secret".into(), region: "r".into() };
        Self {
            subject: Subject::at(a_server_that(whim), "liar", credentials),
            payloads: Payloads::with_pool(1, 1 << 20),
            keys: Keys::new("p/", Size(SIZE)),
        }
    }

    fn measure(&mut self, plan: &Plan) -> Outcome {
        let target = Target { subject: &self.subject, bucket: "bucket", payloads: &self.payloads };
        run(&target, plan, &mut self.keys).unwrap()
    }

    fn count(&mut self, op: Op, clients: usize, count: u64) -> Outcome {
        self.measure(&Plan { page: 7, ..Plan::new(op, clients, Limit::Count(count)) })
    }
}

/// Asserts that of `count` operations all but `faults` were right.
fn assert_all_but(outcome: &Outcome, count: u64, faults: &[(Fault, u64)]) {
    assert_eq!(outcome.tally.faults, faults.iter().cloned().collect::<BTreeMap<_, _>>());
    let wrong: u64 = faults.iter().map(|(_, times)| times).sum();
    assert_eq!((outcome.tally.ops, outcome.tally.latency.len()), (count - wrong, count - wrong));
}

#[test]
fn clients_are_spread_over_all_nodes_of_a_store() {
    let mut bench = Bench::against(Whim::Honest);
    let other = Endpoint { address: a_server_that(Whim::Honest), host: "other".to_owned(), tls: None };
    bench.subject.others.push(other);
    assert_all_but(&bench.count(Op::Put, 2, 40), 40, &[]);
    // These two nodes share nothing: each has the objects that its own client wrote.
    bench.subject.others.clear();
    let found = bench.count(Op::Get, 2, 200).tally;
    assert!(found.ops > 0 && found.errors() > 0, "{found:?}");
}

#[test]
fn an_honest_server_has_no_faults_at_any_operation() {
    let mut bench = Bench::against(Whim::Honest);
    assert_all_but(&bench.count(Op::Put, 4, 30), 30, &[]);
    for op in [Op::Get, Op::Head, Op::List] {
        let outcome = bench.count(op, 4, 40);
        assert_all_but(&outcome, 40, &[]);
        let first_bytes = if op == Op::Get { 40 } else { 0 };
        assert_eq!(outcome.tally.first_byte.len(), first_bytes, "of objects that are read: {op}");
    }
    let two_threads = Plan { threads: 2, ..Plan::new(Op::Get, 5, Limit::Count(51)) };
    assert_all_but(&bench.measure(&two_threads), 51, &[]);
    let mix = Some("put:20,get:50,head:10,delete:20".parse().unwrap());
    assert_all_but(&bench.measure(&Plan { mix, ..Plan::new(Op::Mixed, 4, Limit::Count(200)) }), 200, &[]);
    let there = bench.keys.count();
    assert_all_but(&bench.count(Op::Get, 4, 100), 100, &[]);
    assert_all_but(&bench.count(Op::Delete, 4, 5), 5, &[]);
    assert_eq!(bench.keys.count(), there - 5);
    // The objects run out before the count is reached.
    let pages = (there - 5).div_ceil(7);
    assert_all_but(&bench.count(Op::DeleteObjects, 2, 1000), pages, &[]);
    assert_eq!(bench.keys.count(), 0);
}

#[test]
fn bytes_are_sent_and_judged_over_tls() {
    let authority = BenchAuthority::new().unwrap();
    let mut bench = Bench::against(Whim::FlipsOneByteOf(25));
    bench.subject.endpoint = Endpoint {
        address: a_server_with_a_certificate(Whim::FlipsOneByteOf(25), &authority),
        host: "tls".to_owned(),
        tls: Some(authority.trust().unwrap()),
    };
    assert_all_but(&bench.count(Op::Put, 4, 20), 20, &[]);
    assert_all_but(&bench.count(Op::Get, 4, 40), 40, &[(Fault::WrongBytes, 1)]);
    bench.subject.endpoint.tls = Some(BenchAuthority::new().unwrap().trust().unwrap());
    let refused = bench.count(Op::Get, 1, 2);
    assert_eq!(refused.tally.ops, 0, "of another authority: {:?}", refused.tally.faults);
}

#[test]
fn multipart_uploads_become_the_objects_that_are_read() {
    let mut bench = Bench::against(Whim::Honest);
    let part_bytes = 30_000;
    let uploads = Plan { part_bytes, ..Plan::new(Op::Multipart, 2, Limit::Count(6)) };
    let outcome = bench.measure(&uploads);
    assert_all_but(&outcome, 6, &[]);
    assert_eq!(outcome.tally.bytes, 6 * SIZE);
    assert_all_but(&bench.count(Op::Get, 2, 12), 12, &[]);
}

#[test]
fn one_wrong_byte_among_millions_is_found() {
    let mut bench = Bench::against(Whim::FlipsOneByteOf(25));
    assert_all_but(&bench.count(Op::Put, 3, 20), 20, &[]);
    assert_all_but(&bench.count(Op::Get, 3, 20), 20, &[(Fault::WrongBytes, 1)]);
}

#[test]
fn overload_is_counted_apart_and_what_it_left_out_is_not_read() {
    let mut bench = Bench::against(Whim::SaysSlowDownEvery(5));
    assert_all_but(&bench.count(Op::Put, 3, 50), 50, &[(Fault::SlowDown, 10)]);
    assert_eq!(bench.keys.count(), 40);
    // Reads of the ten would be 404.
    assert_all_but(&bench.count(Op::Get, 3, 100), 100, &[(Fault::SlowDown, 20)]);
}

#[test]
fn other_failures_are_counted_by_status_and_code() {
    let mut bench = Bench::against(Whim::FailsInside(12));
    assert_all_but(&bench.count(Op::Put, 2, 10), 10, &[]);
    let fault = Fault::Status(500, "InternalError".to_owned());
    assert_all_but(&bench.count(Op::Get, 2, 10), 10, &[(fault, 1)]);
}

#[test]
fn connections_that_end_are_faults_and_made_anew() {
    for (whim, fault) in [
        (Whim::CutsShort(12), Fault::Connection("closed within an answer".to_owned())),
        (Whim::HangsUpOn(12), Fault::Connection("closed before an answer".to_owned())),
    ] {
        let mut bench = Bench::against(whim);
        assert_all_but(&bench.count(Op::Put, 2, 10), 10, &[]);
        assert_all_but(&bench.count(Op::Get, 2, 30), 30, &[(fault, 1)]);
    }
}

#[test]
fn an_operation_that_stands_still_ends_as_a_fault() {
    let mut bench = Bench::against(Whim::NeverAnswers(12));
    assert_all_but(&bench.count(Op::Put, 2, 10), 10, &[]);
    let plan = Plan { stall: Duration::from_secs(3), ..Plan::new(Op::Get, 2, Limit::Count(10)) };
    assert_all_but(&bench.measure(&plan), 10, &[(Fault::Timeout, 1)]);
}

#[test]
fn answers_that_last_until_the_connection_ends_are_whole() {
    let mut bench = Bench::against(Whim::EndsEachAnswerByHangingUp);
    assert_all_but(&bench.count(Op::Put, 2, 10), 10, &[]);
    assert_all_but(&bench.count(Op::Get, 2, 10), 10, &[]);
}

#[test]
fn an_object_that_is_too_short_is_not_an_operation() {
    let mut bench = Bench::against(Whim::SendsLess(12));
    assert_all_but(&bench.count(Op::Put, 2, 10), 10, &[]);
    let outcome = bench.count(Op::Get, 2, 10);
    assert_eq!((outcome.tally.ops, outcome.tally.errors()), (9, 1));
}

#[test]
fn an_open_loop_sends_what_is_due_and_reports_the_rate() {
    let mut bench = Bench::against(Whim::Honest);
    assert_all_but(&bench.count(Op::Put, 2, 10), 10, &[]);
    let plan = Plan { rate: Some(1000.0), threads: 2, ..Plan::new(Op::Head, 4, Limit::Count(100)) };
    assert_all_but(&bench.measure(&plan), 100, &[]);
}

#[test]
fn nobody_listening_is_a_fault_and_no_endless_loop() {
    let mut bench = Bench::against(Whim::Honest);
    // A port that was just given back.
    bench.subject.endpoint.address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = bench.measure(&Plan::new(Op::Put, 3, Limit::Time(Duration::from_millis(150))));
    assert_eq!(outcome.tally.ops, 0);
    assert!((1..10).contains(&outcome.tally.errors()), "{:?}", outcome.tally.faults);
}
