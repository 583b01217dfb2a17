//! Connections that ask for nothing, in numbers, and clients that break off: neither keeps others out.

use std::net::Ipv4Addr;
use std::pin::pin;

use tokio::net::TcpSocket;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

/// How long a test waits for what must come.
const SOON: Duration = Duration::from_mins(1);
/// An address of this machine that is not the healthy client's.
const FLOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Connections of a flood: far more than there are places.
const FLOOD_MAX: usize = 200;

impl Served {
    /// Connects from an address of this machine.
    async fn connect_from(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((from, 0).into()).expect("an address of this machine");
        soon(socket.connect(self.address)).await.expect("the listener accepts")
    }

    /// Connections from an address that ask for nothing.
    async fn flood(&self, from: Ipv4Addr) -> Vec<TcpStream> {
        let mut flood = Vec::new();
        for _ in 0..FLOOD_MAX {
            flood.push(self.connect_from(from).await);
        }
        flood
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it comes in time")
}

/// Sends a request and reads one answer of a service that answers `done`.
async fn is_answered(stream: &mut TcpStream, request: &str) {
    soon(stream.write_all(request.as_bytes())).await.expect("the server reads");
    until_done(stream).await;
}

async fn until_done(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"done") {
        let mut byte = [0];
        let count = soon(stream.read(&mut byte)).await.expect("the server answers");
        assert_eq!(count, 1, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&byte);
    }
}

/// Requests that wait until the test lets them go on.
#[derive(Clone)]
struct HeldService {
    begun: mpsc::UnboundedSender<()>,
    /// Requests under way.
    under_way: Arc<AtomicUsize>,
    go: Arc<Semaphore>,
}

struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl HeldService {
    fn new() -> (Self, mpsc::UnboundedReceiver<()>) {
        let (begun, begins) = mpsc::unbounded_channel();
        (Self { begun, under_way: Arc::default(), go: Arc::new(Semaphore::new(0)) }, begins)
    }

    async fn answer(self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let _counted = UnderWay(self.under_way);
        request.into_body().collect().await.expect("the body comes");
        self.begun.send(()).expect("the test listens");
        self.go.acquire().await.expect("it is never closed").forget();
        text("done")
    }

    /// Waits until no request is under way.
    async fn is_idle(&self) {
        soon(async {
            while self.under_way.load(Ordering::Acquire) > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn idle_connections_from_one_address_keep_no_request_out() {
    let served = Served::start(PATIENT, |_| async { text("done") });
    let flood = served.flood(Ipv4Addr::LOCALHOST).await;
    is_answered(&mut served.connect().await, GET).await;
    assert!(served.traffic.connections.get() <= 16, "no more than there are places");
    let turned_away = served.traffic.connections_turned_away.get();
    assert!(turned_away >= (FLOOD_MAX - 16) as u64, "{turned_away} gave way");
    drop(flood);
    served.end().await;
}

/// The client opens a connection for each that gives way.
#[tokio::test]
async fn a_flood_that_refreshes_itself_does_not_keep_another_address_out() {
    let served = Served::start(PATIENT, |_| async { text("done") });
    let mut flood = served.flood(FLOOD).await;
    let mut healthy = served.connect().await;
    let (first, second) = GET.split_at(9);
    soon(healthy.write_all(first.as_bytes())).await.expect("the server reads");
    flood.extend(served.flood(FLOOD).await);
    is_answered(&mut healthy, second).await;
    flood.extend(served.flood(FLOOD).await);
    // Idle for a while now, and still the only one of its address.
    is_answered(&mut healthy, GET).await;
    drop(flood);
    served.end().await;
}

/// Each of them asked once, was answered, and stays.
#[tokio::test]
async fn connections_that_were_answered_and_stay_keep_no_request_out() {
    let served = Served::start(PATIENT, |_| async { text("done") });
    let mut stay = Vec::new();
    for _ in 0..FLOOD_MAX {
        let mut stream = served.connect().await;
        is_answered(&mut stream, GET).await;
        stay.push(stream);
    }
    drop(stay);
    served.end().await;
}

#[tokio::test]
async fn a_request_under_way_is_never_cut_by_a_flood() {
    let (service, mut begins) = HeldService::new();
    let held = service.clone();
    let served = Served::start(PATIENT, move |request| held.clone().answer(request));
    let mut busy = Vec::new();
    // Of the flood's own address, and all but one of the places.
    for number in 0..15 {
        let mut stream = served.connect().await;
        let request =
            if number % 2 == 0 { GET } else { "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx" };
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        soon(begins.recv()).await.expect("it is begun");
        busy.push(stream);
    }
    let flood = served.flood(Ipv4Addr::LOCALHOST).await;
    service.go.add_permits(busy.len());
    for mut stream in busy {
        until_done(&mut stream).await;
    }
    drop(flood);
    served.end().await;
}

#[tokio::test]
async fn a_head_that_is_dribbled_is_closed_and_an_idle_connection_is_not() {
    let hasty = ListenerLimits { head_timeout: Duration::from_millis(50), ..PATIENT };
    let served = Served::start(hasty, |_| async { text("done") });
    let mut idle = served.connect().await;
    is_answered(&mut idle, GET).await;
    for has_asked_before in [false, true] {
        let mut stream = served.connect().await;
        if has_asked_before {
            is_answered(&mut stream, GET).await;
        }
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.expect("the server reads");
        let (mut answers, mut requests) = stream.into_split();
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        let dribble = async {
            loop {
                ticks.tick().await;
                if requests.write_all(b"x").await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let mut answer = Vec::new();
        tokio::select! {
            biased;
            () = dribble => unreachable!("it has no end"),
            // Closed in order, or reset for what came meanwhile.
            _ = soon(answers.read_to_end(&mut answer)) => assert!(answer.is_empty()),
        }
    }
    // For longer than a head may take.
    is_answered(&mut idle, GET).await;
    drop(idle);
    served.end().await;
}

#[tokio::test]
async fn an_answer_that_is_read_byte_by_byte_has_an_end_where_answers_are_short() {
    let hasty = ListenerLimits { answer_timeout: Some(Duration::from_millis(50)), ..PATIENT };
    let served = Served::start(hasty, |_| async { Response::new(Full::from(vec![7; 64 << 20])) });
    let mut stream = served.connect().await;
    stream.write_all(GET.as_bytes()).await.expect("the server reads");
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    soon(async {
        let mut byte = [0];
        while served.traffic.connections.get() == 0 {
            tokio::task::yield_now().await;
        }
        while served.traffic.connections.get() > 0 {
            ticks.tick().await;
            let _count = stream.read(&mut byte).await;
        }
    })
    .await;
    served.end().await;
}

#[tokio::test]
async fn reads_whose_clients_went_away_are_given_up() {
    let (service, mut begins) = HeldService::new();
    let held = service.clone();
    let many = ListenerLimits { connections_max: 400, roomy_max: 400, ..PATIENT };
    let served = Served::start(many, move |request| held.clone().answer(request));
    for way in ["closed", "reset", "half closed"] {
        let mut clients = Vec::new();
        for number in 0..100 {
            let mut stream = served.connect().await;
            let method = if number % 2 == 0 { "GET" } else { "HEAD" };
            let list = format!("{method} /?list-type=2 HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(list.as_bytes()).await.expect("the server reads");
            clients.push(stream);
        }
        for _ in &clients {
            soon(begins.recv()).await.expect("it is begun");
        }
        for stream in &mut clients {
            match way {
                "closed" => {}
                "reset" => stream.set_zero_linger().expect("it is open"),
                _ => stream.shutdown().await.expect("it is open"),
            }
        }
        if way != "half closed" {
            clients.clear();
        }
        service.is_idle().await;
    }
    // The request was given up, and not answered.
    service.go.add_permits(1);
    is_answered(&mut served.connect().await, GET).await;
    served.end().await;
}

#[tokio::test]
async fn what_is_no_read_or_has_others_behind_it_is_answered_to_a_client_that_ended_its_side() {
    let (service, mut begins) = HeldService::new();
    let held = service.clone();
    let served = Served::start(PATIENT, move |request| held.clone().answer(request));
    let put = "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx";
    let delete = "DELETE / HTTP/1.1\r\nHost: x\r\n\r\n";
    let get_with_body = "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx";
    let (two, put_and_get) = (GET.repeat(2), format!("{put}{GET}"));
    for (requests, count) in [(put, 1), (delete, 1), (get_with_body, 1), (two.as_str(), 2), (&put_and_get, 2)]
    {
        let mut stream = served.connect().await;
        stream.write_all(requests.as_bytes()).await.expect("the server reads");
        soon(begins.recv()).await.expect("it is begun");
        stream.shutdown().await.expect("it is open");
        let mut answers = String::new();
        let mut reading = pin!(stream.read_to_string(&mut answers));
        assert!(timeout(Duration::from_millis(50), reading.as_mut()).await.is_err(), "it is held");
        service.go.add_permits(count);
        for _ in 1..count {
            soon(begins.recv()).await.expect("the next is begun");
        }
        soon(reading).await.expect("answered, then closed");
        assert_eq!(answers.matches("done").count(), count, "{requests}");
    }
    served.end().await;
}

/// The next request came while the first was worked on.
#[tokio::test]
async fn a_request_that_comes_while_another_is_worked_on_is_answered_behind_it() {
    let (service, mut begins) = HeldService::new();
    let held = service.clone();
    let served = Served::start(PATIENT, move |request| held.clone().answer(request));
    let mut stream = served.connect().await;
    stream.write_all(GET.as_bytes()).await.expect("the server reads");
    soon(begins.recv()).await.expect("it is begun");
    let received = served.traffic.received_bytes.get();
    stream.write_all(GET.as_bytes()).await.expect("the kernel takes it");
    soon(async {
        while served.traffic.received_bytes.get() == received {
            tokio::task::yield_now().await;
        }
    })
    .await;
    stream.shutdown().await.expect("it is open");
    service.go.add_permits(2);
    let mut answers = String::new();
    soon(stream.read_to_string(&mut answers)).await.expect("answered, then closed");
    assert_eq!(answers.matches("done").count(), 2, "{answers}");
    served.end().await;
}
