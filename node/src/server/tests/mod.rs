//! A listener and real sockets: what is served, what is refused, and how it ends.

mod crowd;
mod slow_bodies;
mod standstill;

use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt as _, Full};
use sherd_front::source::Source;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use sherd_volume::options::Durability;

use super::*;
use crate::health::RequestRefusals;
use sherd_store::machine::pulse;
use sherd_store::observe::metrics::{ApiName, Metrics};
use sherd_store::observe::trace::{self, SlowRequests};

const LONG: Duration = Duration::from_hours(1);
const PATIENT: ListenerLimits = ListenerLimits {
    connections_max: 16,
    roomy_max: 16,
    spare_descriptors: 1,
    idle_timeout: LONG,
    head_timeout: LONG,
    stall_timeout: LONG,
    answer_timeout: None,
};

/// A listener on a free port.
fn any_listener() -> Listener {
    Listener::bind("test", "127.0.0.1:0".parse().expect("an address")).expect("a free port")
}

/// A listener on a free port, serving `service`.
struct Served {
    address: SocketAddr,
    shutdown: Shutdown,
    task: JoinHandle<()>,
    traffic: Traffic,
}

impl Served {
    fn start<S, F>(allowed: ListenerLimits, service: S) -> Self
    where
        S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        Self::on(any_listener(), allowed, service)
    }

    fn on<S, F>(listener: Listener, allowed: ListenerLimits, service: S) -> Self
    where
        S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let (address, shutdown) = (listener.address(), Shutdown::new());
        let traffic = Metrics::new(Durability::Fsync).s3.traffic;
        let task = tokio::spawn(serve(
            listener,
            allowed,
            shutdown.clone(),
            traffic.clone(),
            Reclaim::default(),
            service,
        ));
        Self { address, shutdown, task, traffic }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the listener accepts")
    }

    async fn end(self) -> usize {
        self.shutdown.stop();
        self.task.await.expect("the server does not panic");
        assert_eq!(self.traffic.connections.get(), 0);
        self.shutdown.cut_count()
    }
}

/// The listener gets no event when a descriptor is freed.
#[tokio::test(start_paused = true)]
async fn spare_descriptors_are_taken_back_although_nobody_comes() {
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (shutdown, mut shortage) = (Shutdown::new(), Shortage::default());
    let spares = SpareDescriptors::new(2);
    let give_up = || spares.give_up(&rustix::io::Errno::MFILE.into());
    assert!(give_up() && give_up() && !give_up());
    let accepted = next("test", &tcp, &spares, &shutdown, &mut shortage);
    assert!(tokio::time::timeout(2 * limits::REFILL_EVERY, accepted).await.is_err(), "nobody connects");
    assert!(give_up() && give_up() && !give_up(), "as many as before, and no more");
}

fn text(text: &'static str) -> Response<Full<Bytes>> {
    Response::new(Full::from(text))
}

/// Sends a request and reads until the connection closes.
async fn last_answer(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server closes in order");
    answer
}

const GET_CLOSE: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn a_taken_address_is_named_in_the_error() {
    let taken = Listener::bind("first", "127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let error = Listener::bind("S3", taken.address()).expect_err("taken");
    assert!(
        error.to_string().starts_with(&format!("S3 listener cannot bind {}: ", taken.address())),
        "{error}"
    );
}

#[tokio::test]
async fn a_request_is_answered_and_names_the_address_of_its_client() {
    let served = Served::start(PATIENT, |request| async move {
        Response::new(Full::from(format!("client {}", Source::of(request.extensions()).address)))
    });
    let mut stream = served.connect().await;
    let answer = last_answer(&mut stream, GET_CLOSE).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("client 127.0.0.1"), "{answer}");
    assert_eq!(served.end().await, 0);
}

#[tokio::test]
async fn beyond_the_limit_connections_wait_for_one_that_has_a_request() {
    let one = ListenerLimits { connections_max: 1, ..PATIENT };
    let entered = Arc::new(AtomicUsize::new(0));
    let (seen, go, entered_once) = (Arc::clone(&entered), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (wait, enter) = (Arc::clone(&go), Arc::clone(&entered_once));
    let served = Served::start(one, move |_| {
        let (seen, wait, enter) = (Arc::clone(&seen), Arc::clone(&wait), Arc::clone(&enter));
        async move {
            seen.fetch_add(1, Ordering::AcqRel);
            enter.notify_one();
            wait.notified().await;
            text("done")
        }
    });
    let mut first = served.connect().await;
    first.write_all(GET_CLOSE.as_bytes()).await.expect("accepted");
    entered_once.notified().await;
    let mut second = served.connect().await;
    second.write_all(GET_CLOSE.as_bytes()).await.expect("the kernel takes it");
    assert_eq!((entered.load(Ordering::Acquire), served.traffic.connections.get()), (1, 1));
    go.notify_one();
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.expect("answered");
    go.notify_one();
    second.read_to_string(&mut answer).await.expect("answered after the first");
    assert_eq!(answer.matches("done").count(), 2);
    assert_eq!(served.end().await, 0);
}

/// A read buffer that grew stays large for as long as its connection is open.
#[tokio::test]
async fn among_many_connections_one_that_read_a_long_body_is_closed_after_its_answer() {
    let crowded = ListenerLimits { roomy_max: 1, ..PATIENT };
    let served = Served::start(crowded, |request: Request<RequestBody>| async move {
        request.into_body().collect().await.expect("the body comes");
        text("")
    });
    let put = async |stream: &mut TcpStream, bytes: usize| {
        let head = format!("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("the server reads");
        stream.write_all(&vec![7; bytes]).await.expect("the server reads");
        let mut answer = vec![0; 1024];
        let length = stream.read(&mut answer).await.expect("the server answers");
        String::from_utf8_lossy(&answer[..length]).contains("connection: close")
    };
    let mut long = served.connect().await;
    assert!(!put(&mut long, 1 << 20).await, "it is alone");
    let mut short = served.connect().await;
    assert!(!put(&mut short, 100).await, "its buffer is small");
    assert!(put(&mut long, 100).await, "its buffer is large");
    drop((long, short));
    assert_eq!(served.end().await, 0);
}

/// Requests that come behind it and are not read reset no connection before the client has its answer.
#[tokio::test]
async fn a_client_that_is_told_to_close_in_a_crowd_has_its_answer_although_it_sent_more() {
    let crowded = ListenerLimits { roomy_max: 0, ..PATIENT };
    let served = Served::start(crowded, |request: Request<RequestBody>| async move {
        request.into_body().collect().await.expect("the body comes");
        text("had it")
    });
    let mut stream = served.connect().await;
    let put = format!("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", 1 << 20);
    stream.write_all(put.as_bytes()).await.expect("the server reads");
    stream.write_all(&vec![7; 1 << 20]).await.expect("the server reads");
    let more = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(400_000);
    let (mut answers, mut requests) = stream.into_split();
    let sender = tokio::spawn(async move { requests.write_all(more.as_bytes()).await.map(|()| requests) });
    let mut answer = String::new();
    answers.read_to_string(&mut answer).await.expect("the server closes in order");
    assert!(answer.ends_with("had it"), "{answer}");
    sender.await.expect("it does not panic").expect("the server hears it out");
    drop(answers);
    served.end().await;
}

/// A client that sends heads without waiting for answers does not fill a buffer for bodies with them.
#[tokio::test]
async fn between_bodies_little_is_read_at_a_time() {
    let (asked, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let service = {
        let (asked, goes_on) = (Arc::clone(&asked), Arc::clone(&goes_on));
        move |_: Request<RequestBody>| {
            let (asked, goes_on) = (Arc::clone(&asked), Arc::clone(&goes_on));
            async move {
                asked.notify_one();
                goes_on.notified().await;
                text("")
            }
        }
    };
    let served = Served::start(PATIENT, service);
    let (mut answers, mut requests) = served.connect().await.into_split();
    let heads = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(10_000);
    let sender = tokio::spawn(async move { requests.write_all(heads.as_bytes()).await.map(|()| requests) });
    let reader = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut tokio::io::sink()).await });
    asked.notified().await;
    for _ in 0..1_000 {
        goes_on.notify_one();
        asked.notified().await;
    }
    // 1,000 heads are 27,000 bytes.
    let received = served.traffic.received_bytes.get();
    assert!((27_000..=27_027 + 8192).contains(&received), "{received} bytes");
    sender.abort();
    reader.abort();
    served.task.abort();
}

#[tokio::test]
async fn stopping_lets_a_request_under_way_end_and_closes_idle_connections() {
    let (entered_once, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (enter, wait) = (Arc::clone(&entered_once), Arc::clone(&go));
    let served = Served::start(PATIENT, move |_| {
        let (enter, wait) = (Arc::clone(&enter), Arc::clone(&wait));
        async move {
            enter.notify_one();
            wait.notified().await;
            text("finished")
        }
    });
    let (mut busy, mut idle) = (served.connect().await, served.connect().await);
    busy.write_all(GET.as_bytes()).await.expect("accepted");
    entered_once.notified().await;
    served.shutdown.stop();
    let mut nothing = Vec::new();
    idle.read_to_end(&mut nothing).await.expect("closed in order");
    assert!(nothing.is_empty());
    assert!(TcpStream::connect(served.address).await.is_err() || !served.task.is_finished());
    go.notify_one();
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.expect("answered, then closed");
    assert!(answer.ends_with("finished"), "{answer}");
    assert_eq!(served.end().await, 0);
}

#[tokio::test]
async fn a_request_that_does_not_end_is_cut_and_counted() {
    let entered_once = Arc::new(Notify::new());
    let enter = Arc::clone(&entered_once);
    let served = Served::start(PATIENT, move |_| {
        enter.notify_one();
        std::future::pending()
    });
    let mut stream = served.connect().await;
    stream.write_all(GET.as_bytes()).await.expect("accepted");
    entered_once.notified().await;
    served.shutdown.stop();
    served.shutdown.abort();
    assert_eq!(served.end().await, 1);
}

#[tokio::test]
async fn a_connection_that_sends_no_request_is_closed() {
    let hasty = ListenerLimits { idle_timeout: Duration::from_millis(20), ..PATIENT };
    let served = Served::start(hasty, |_| async { text("never") });
    let mut stream = served.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost:").await.expect("accepted");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("closed in order");
    assert!(!String::from_utf8_lossy(&answer).contains("never"));
    assert_eq!(served.end().await, 0);
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused_and_not_collected() {
    let served = Served::start(PATIENT, |_| async { text("never") });
    let mut stream = served.connect().await;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\nConnection: close\r\n\r\n",
        "a".repeat(HEAD_BYTES_MAX)
    );
    // The server may close before it read all of it.
    let _unread = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 431 ") && !answer.contains("never"), "{answer}");
    assert_eq!(served.end().await, 0);
}

#[tokio::test]
async fn an_answer_that_does_not_wait_for_the_body_reaches_a_client_that_sends_all_of_it() {
    let served = Served::start(PATIENT, |_| async { text("early") });
    let mut stream = served.connect().await;
    let body = vec![0; 16 << 20];
    let head = format!("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    stream.write_all(&body).await.expect("the server goes on reading behind its answer");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server closes in order");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("early"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(served.end().await, 0);
}

#[tokio::test]
async fn a_panic_stays_in_its_request_and_both_are_counted() {
    let metrics = Metrics::new(Durability::Fsync);
    let admission = Admission::new(4, 4, metrics.s3.clone(), RequestRefusals::default());
    let guarded = guard(
        |request: Request<RequestBody>| {
            assert!(request.uri().path() != "/panic", "as asked");
            async { (ApiName("GetObject"), text("fine")) }
        },
        admission,
        SlowRequests::after(Duration::ZERO),
        |refusal| if refusal == Refusal::Panicked { text("caught") } else { text("refused") },
        Arc::new(|head, headers| {
            headers.insert("x-page", head.headers["origin"].clone());
        }),
    );
    let served = Served::start(PATIENT, move |request| {
        let answer = guarded(request);
        async move {
            let (head, body) = answer.await.into_parts();
            let body = body.collect().await.unwrap_or_else(|never| panic!("{never}"));
            Response::from_parts(head, Full::new(body.to_bytes()))
        }
    });
    let mut stream = served.connect().await;
    let answer =
        last_answer(&mut stream, &format!("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n{GET_CLOSE}")).await;
    assert!(answer.contains("caught") && answer.ends_with("fine"), "{answer}");
    assert!(!answer.contains("x-page"), "{answer}");
    let scraped = String::from_utf8(metrics.encode()).expect("text");
    for api in ["GetObject", "Unknown"] {
        assert!(
            scraped.contains(&format!("sherd_s3_requests_total{{api=\"{api}\",code=\"200\"}} 1\n")),
            "{scraped}"
        );
    }
    let of_a_page = format!("GET /panic HTTP/1.1\r\nHost: x\r\nOrigin: a page\r\n\r\n{GET_CLOSE}");
    let answer = last_answer(&mut served.connect().await, &of_a_page).await;
    assert_eq!(answer.matches("x-page: a page\r\n").count(), 1, "the answer of the guard alone: {answer}");
    assert_eq!(served.end().await, 0);
}
