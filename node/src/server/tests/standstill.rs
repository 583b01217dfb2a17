//! Writes that lay in a socket while the process stood still: those whose clients have gone are not begun.

use super::*;

/// A standstill after which clients are still there, and one after which they have asked another node.
const SHORT: Duration = Duration::from_secs(1);
const LONG_ONE: Duration = Duration::from_secs(6);

const PUT: &str = "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
const DELETE: &str = "DELETE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// The act of a client behind its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Waits,
    EndsItsSide,
    Closes,
}

struct Counting {
    served: Served,
    begun: Arc<AtomicUsize>,
}

/// Serves `service` behind an admission.
fn guarded<S, F>(listener: Listener, service: S) -> Served
where
    S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = (ApiName, Response<Full<Bytes>>)> + Send + 'static,
{
    let admission = Admission::new(4, 4, Metrics::new(Durability::Fsync).s3, RequestRefusals::default());
    let slow = SlowRequests::after(LONG);
    let service = guard(service, admission, slow, |_| text("refused"), Arc::new(|_, _| {}));
    Served::on(listener, PATIENT, move |request| {
        let answer = service(request);
        async move {
            let (head, body) = answer.await.into_parts();
            let body = body.collect().await.unwrap_or_else(|never| panic!("{never}"));
            Response::from_parts(head, Full::new(body.to_bytes()))
        }
    })
}

impl Counting {
    /// A service that begins a request when it has its body, which it reads after a wait.
    fn start(wait: Duration) -> Self {
        Self::on(any_listener(), wait)
    }

    fn on(listener: Listener, wait: Duration) -> Self {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let served = guarded(listener, move |request: Request<RequestBody>| {
            let count = Arc::clone(&count);
            async move {
                tokio::time::sleep(wait).await;
                request.into_body().collect().await.expect("it comes whole");
                count.fetch_add(1, Ordering::Relaxed);
                (ApiName("PutObject"), text("done"))
            }
        });
        Self { served, begun }
    }

    /// Sends a request into the socket of the process, which then stands still. Returns whether it was begun,
    /// and its answer.
    async fn send(&self, request: &str, then: Then, stands_still: Duration) -> (bool, String) {
        // The standstills of before are over.
        tokio::time::sleep(pulse::LONG_DOUBT).await;
        let before = self.begun.load(Ordering::Relaxed);
        let mut stream = self.served.connect().await;
        stream.write_all(request.as_bytes()).await.expect("it fits the socket");
        if then == Then::EndsItsSide {
            stream.shutdown().await.expect("it is open");
        }
        let mut stream = (then != Then::Closes).then_some(stream);
        // No other task has run since the request was sent.
        tokio::time::advance(stands_still).await;
        let mut answer = String::new();
        if let Some(stream) = &mut stream {
            stream.read_to_string(&mut answer).await.expect("the server closes in order");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        (self.begun.load(Ordering::Relaxed) > before, answer)
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_client_has_gone_before_a_stopped_process_reads_it_is_not_begun() {
    let node = Counting::start(Duration::ZERO);
    for request in [PUT, DELETE] {
        for stands_still in [SHORT, LONG_ONE] {
            for then in [Then::Closes, Then::EndsItsSide] {
                let sent = node.send(request, then, stands_still).await;
                assert_eq!(sent, (false, String::new()), "{request} {then:?} {stands_still:?}");
            }
        }
        let (begun, answer) = node.send(request, Then::Waits, SHORT).await;
        assert!(begun && answer.ends_with("done"), "{request} {answer}");
        let sent = node.send(request, Then::Waits, LONG_ONE).await;
        assert_eq!(sent, (false, String::new()), "{request}: its client has given up");
    }
    let (begun, answer) = node.send(GET_CLOSE, Then::Waits, LONG_ONE).await;
    assert!(begun && answer.ends_with("done"), "a read changes nothing: {answer}");
    assert_eq!(node.served.end().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_goes_on_asks_nothing_of_those_who_ended_their_side() {
    let node = Counting::start(Duration::ZERO);
    for stands_still in [Duration::ZERO, SHORT, LONG_ONE] {
        node.send(GET_CLOSE, Then::Waits, stands_still).await;
        for request in [PUT, DELETE] {
            for then in [Then::Waits, Then::EndsItsSide] {
                let (begun, answer) = node.send(request, then, Duration::ZERO).await;
                assert!(begun && answer.ends_with("done"), "{request} {then:?} {answer}");
            }
            assert!(node.send(request, Then::Closes, Duration::ZERO).await.0, "{request}");
        }
    }
    assert_eq!(node.served.end().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_place_after_a_standstill_stays_in_doubt() {
    let node = Counting::start(limits::QUEUE_WAIT);
    let (begun, answer) = node.send(PUT, Then::Waits, LONG_ONE).await;
    assert_eq!((begun, answer), (false, String::new()), "its client has given up");
    assert_eq!(node.served.end().await, 0);
}

/// A presigned call of IAM is a GET.
#[tokio::test(start_paused = true)]
async fn where_any_method_changes_something_a_get_of_before_a_standstill_is_not_begun() {
    let node = Counting::on(any_listener().with_changes_by_any_method(), Duration::ZERO);
    let sent = node.send(GET_CLOSE, Then::Closes, SHORT).await;
    assert_eq!(sent, (false, String::new()));
    let sent = node.send(GET_CLOSE, Then::Waits, LONG_ONE).await;
    assert_eq!(sent, (false, String::new()));
    assert!(node.send(GET_CLOSE, Then::Waits, SHORT).await.0);
    assert_eq!(node.served.end().await, 0);
}

/// The store asks this before it proposes the change.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_read_before_a_long_standstill_is_given_up() {
    for (stands_still, given_up) in [(SHORT, "goes on"), (LONG_ONE, "given up")] {
        let served = guarded(any_listener(), move |request: Request<RequestBody>| async move {
            request.into_body().collect().await.expect("it comes whole");
            tokio::time::advance(stands_still).await;
            let trace = trace::current().expect("that of the request");
            (ApiName("PutObject"), text(if trace.is_given_up() { "given up" } else { "goes on" }))
        });
        for request in [PUT, DELETE] {
            let answer = last_answer(&mut served.connect().await, request).await;
            assert!(answer.ends_with(given_up), "{request} {stands_still:?} {answer}");
            tokio::time::sleep(pulse::LONG_DOUBT).await;
        }
        assert_eq!(served.end().await, 0);
    }
}
