//! Bodies whose clients are slow hold no place, however many there are, and are taken whole.

use super::*;

/// Between two bytes of a slow client.
const PAUSE: Duration = Duration::from_secs(11);
/// A request that finds a place at once is answered within it: half of the time for which a silent body keeps
/// its own.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A listener with few places, whose service reads the body of each request and answers `done`, or 503 where
/// the body fails.
struct FewPlaces {
    served: Served,
    metrics: Metrics,
}

impl FewPlaces {
    fn start(requests_max: usize, queue_max: usize) -> Self {
        let metrics = Metrics::new(Durability::Fsync);
        let refusals = RequestRefusals::default();
        let service = guard(
            |request: Request<RequestBody>| async {
                let is_whole = request.into_body().collect().await.is_ok();
                let (api, status) = if is_whole { ("PutObject", 200) } else { ("GaveWay", 503) };
                let mut response = text("done");
                *response.status_mut() = status.try_into().expect("a status");
                (ApiName(api), response)
            },
            Admission::new(requests_max, queue_max, metrics.s3.clone(), refusals),
            SlowRequests::after(LONG),
            |_| {
                let mut refused = text("refused");
                *refused.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                refused
            },
            Arc::new(|_, _| {}),
        );
        let limits = ListenerLimits { connections_max: 256, ..PATIENT };
        let served = Served::start(limits, move |request| {
            let answer = service(request);
            async move {
                let (head, body) = answer.await.into_parts();
                let body = body.collect().await.unwrap_or_else(|never| panic!("{never}"));
                Response::from_parts(head, Full::new(body.to_bytes()))
            }
        });
        Self { served, metrics }
    }

    /// Begins a body of `len` bytes.
    async fn put(&self, len: usize) -> TcpStream {
        let mut stream = self.served.connect().await;
        let head = format!("PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("the server reads");
        stream
    }

    /// The status of a request without a body, and how long its answer took.
    async fn get(&self) -> (u16, Duration) {
        let begun = tokio::time::Instant::now();
        let answer = last_answer(&mut self.served.connect().await, GET_CLOSE).await;
        (status_of(&answer), begun.elapsed())
    }

    /// Requests with a place, in the queue, and without a place as they wait for their clients.
    fn counts(&self) -> [i64; 3] {
        let s3 = &self.metrics.s3;
        [&s3.requests_in_flight, &s3.requests_queued, &s3.requests_waiting_for_client].map(IntGauge::get)
    }
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("an answer has a status")
}

/// Reads what the server answers until it closes.
async fn answer_of(stream: &mut TcpStream) -> u16 {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server closes in order");
    status_of(&answer)
}

#[tokio::test(start_paused = true)]
async fn many_slow_bodies_fail_no_other_request_and_are_taken_whole() {
    const PLACES: usize = 64;
    const BODIES: usize = 2 * PLACES;
    const LEN: usize = 5;
    let node = FewPlaces::start(PLACES, 4 * PLACES);
    let mut bodies = Vec::new();
    for _ in 0..BODIES {
        bodies.push(node.put(LEN).await);
    }
    for round in 0..LEN {
        for body in &mut bodies {
            body.write_all(b"x").await.expect("the server reads");
            if round + 1 < LEN {
                let (status, took) = node.get().await;
                assert!(status == 200 && took < AT_ONCE, "{status} after {took:?} in round {round}");
            }
        }
        if round + 1 < LEN {
            let mut other = node.put(2).await;
            other.write_all(b"xx").await.expect("the server reads");
            assert_eq!(answer_of(&mut other).await, 200);
            tokio::time::sleep(PAUSE).await;
            assert_eq!(node.counts(), [0, 0, i64::try_from(BODIES).expect("few")]);
        }
    }
    for body in &mut bodies {
        assert_eq!(answer_of(body).await, 200);
    }
    assert_eq!((node.counts(), node.metrics.s3.requests_shed.get()), ([0; 3], 0));
    assert_eq!(node.served.end().await, 0);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bodies_that_may_wait_the_slowest_gives_way() {
    let node = FewPlaces::start(1, 8);
    let (mut slow, mut slower) = (node.put(10_000).await, node.put(10_000).await);
    for _ in 0..5 {
        slow.write_all(&[7; 1000]).await.expect("the server reads");
        slower.write_all(&[7; 10]).await.expect("the server reads");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(node.counts(), [0, 0, 2]);
    let mut third = node.put(2).await;
    third.write_all(b"x").await.expect("the server reads");
    assert_eq!(answer_of(&mut slower).await, 503);
    assert_eq!((node.counts(), node.metrics.s3.bodies_gave_way.get()), ([0, 0, 2], 1));
    third.write_all(b"x").await.expect("the server reads");
    slow.write_all(&[7; 5000]).await.expect("the server reads");
    assert_eq!((answer_of(&mut third).await, answer_of(&mut slow).await), (200, 200));
    assert_eq!(node.served.end().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_client_goes_on_sending_keeps_its_place() {
    const PIECE: usize = 300 << 10;
    let node = FewPlaces::start(1, 0);
    let mut body = node.put(10 * PIECE).await;
    for _ in 0..9 {
        body.write_all(&vec![7; PIECE]).await.expect("the server reads");
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(node.counts(), [1, 0, 0]);
        assert_eq!(node.get().await.0, 503);
    }
    body.write_all(&vec![7; PIECE]).await.expect("the server reads");
    assert_eq!(answer_of(&mut body).await, 200);
    assert_eq!((node.counts(), node.get().await.0), ([0; 3], 200));
    assert_eq!(node.served.end().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_that_goes_away_leaves_nothing() {
    let node = FewPlaces::start(1, 0);
    for _ in 0..3 {
        let body = node.put(10).await;
        tokio::time::sleep(PAUSE).await;
        assert_eq!(node.counts(), [0, 0, 1]);
        drop(body);
        tokio::time::sleep(PAUSE).await;
        assert_eq!(node.counts(), [0; 3]);
    }
    assert_eq!(node.get().await.0, 200);
    assert_eq!(node.served.end().await, 0);
}

/// Begins a request with a body of 4 bytes on a connection that stays.
async fn begin_small(stream: &mut TcpStream) {
    stream
        .write_all(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
        .await
        .expect("the server reads");
}

/// Sends its body, and reads the answer.
async fn end_small(stream: &mut TcpStream) {
    stream.write_all(b"abcd").await.expect("the server reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"done") {
        assert_ne!(stream.read_buf(&mut answer).await.expect("the connection stays"), 0);
    }
}

/// Sends requests whose bodies come just before they would give their places back, for 3.6 s together.
async fn send_slow_requests(stream: &mut TcpStream) {
    for _ in 0..4 {
        begin_small(stream).await;
        tokio::time::sleep(Duration::from_millis(900)).await;
        end_small(stream).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_request_of_a_slow_connection_holds_no_place_while_it_waits() {
    let node = FewPlaces::start(1, 0);
    let mut slow = node.served.connect().await;
    send_slow_requests(&mut slow).await;
    for pause in [0, 1, 5] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        begin_small(&mut slow).await;
        tokio::time::sleep(AT_ONCE / 2).await;
        assert_eq!((node.counts(), node.get().await.0), ([0, 0, 1], 200), "{pause} s after the last answer");
        end_small(&mut slow).await;
    }
    drop(slow);
    assert_eq!(node.served.end().await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_request_of_a_slow_connection_gives_way_before_new_connections() {
    let node = FewPlaces::start(1, 8);
    let mut slow = node.served.connect().await;
    send_slow_requests(&mut slow).await;
    begin_small(&mut slow).await;
    let mut others = Vec::new();
    for _ in 0..2 {
        others.push(node.put(2).await);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(answer_of(&mut slow).await, 503);
    assert_eq!((node.counts(), node.metrics.s3.bodies_gave_way.get()), ([0, 0, 2], 1));
    for other in &mut others {
        other.write_all(b"xx").await.expect("the server reads");
        assert_eq!(answer_of(other).await, 200);
    }
    assert_eq!(node.served.end().await, 0);
}
