//! How many requests are worked on, how many wait, and the answer to the others.
//!
//! Overload turns into 503s before memory grows: a place is held from a request's head to its
//! response's, and a request without a place waits in a bounded queue for a bounded time. A body that waits
//! for its client holds none ([`body_place`](super::body_place)), and bodies never have all. Also
//! where a panic in one request stays in that request, and where requests are counted.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use super::RequestBody;
use super::accept_failures::RareLine;
use super::body_place::{BodyPlace, PlaceOfRequest};
use super::request_places::{RequestPlace, RequestPlaces};
use super::waiting_bodies::WaitingBodies;
use crate::health::RequestRefusals;
use crate::server::limits::QUEUE_WAIT;
use bytes::Bytes;
use futures::FutureExt as _;
use http::header::ORIGIN;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as _;
use http_body_util::{Either, Full};
use parking_lot::Mutex;
use sherd_store::observe::metrics::{ApiName, S3Metrics};
use sherd_store::observe::trace::{self, Phase, RequestTrace, SlowRequests};
use tokio::time::Instant;

/// Why the service was not asked, or has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests wait already, or this one waited too long.
    Overloaded,
    /// The request's code panicked.
    Panicked,
}

/// Places for requests.
#[derive(Debug)]
pub struct Admission {
    places: Arc<RequestPlaces>,
    waiting: Arc<RequestPlaces>,
    bodies: Arc<WaitingBodies>,
    metrics: S3Metrics,
    refusals: RequestRefusals,
    refused_line: Mutex<RareLine>,
}

impl Admission {
    /// `requests_max` places, and as many as `queue_max` that wait for one. Requests that are turned away are
    /// noted in `refusals`.
    pub fn new(
        requests_max: usize,
        queue_max: usize,
        metrics: S3Metrics,
        refusals: RequestRefusals,
    ) -> Arc<Self> {
        let places = RequestPlaces::new(requests_max, metrics.requests_in_flight.clone());
        let waiting = RequestPlaces::new(queue_max, metrics.requests_queued.clone());
        let (count, gave_way) =
            (metrics.requests_waiting_for_client.clone(), metrics.bodies_gave_way.clone());
        let bodies = WaitingBodies::new(requests_max, count, gave_way);
        Arc::new(Self { places, waiting, bodies, metrics, refusals, refused_line: Mutex::default() })
    }

    /// Changes both numbers: more places are there at once, fewer as requests end.
    pub fn resize(&self, requests_max: usize, queue_max: usize) {
        self.places.resize(requests_max);
        self.waiting.resize(queue_max);
        self.bodies.resize(requests_max);
    }

    /// Takes a place; waits for one first where there is room to wait.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`] when there is neither, or the wait was too long.
    async fn enter(&self, has_body: bool) -> Result<RequestPlace, Refusal> {
        let place = if let Ok(place) = self.places.try_acquire(has_body) {
            self.metrics.queue_duration.observe(0.0);
            place
        } else {
            let begun = Instant::now();
            let place = trace::timed(Phase::Queue, self.wait(has_body)).await;
            self.metrics.queue_duration.observe(begun.elapsed().as_secs_f64());
            place.inspect_err(|_| self.note_refusal())?
        };
        self.refusals.let_in();
        Ok(place)
    }

    async fn wait(&self, has_body: bool) -> Result<RequestPlace, Refusal> {
        let _room = self.waiting.try_acquire(has_body).map_err(|_| Refusal::Overloaded)?;
        let place = tokio::time::timeout(QUEUE_WAIT, self.places.acquire(has_body)).await;
        place.map_err(|_| Refusal::Overloaded)
    }

    /// Runs `work` on a request in a place.
    async fn run<T>(
        &self,
        mut request: Request<RequestBody>,
        work: impl AsyncFnOnce(Request<RequestBody>) -> T,
    ) -> Result<T, Refusal> {
        let has_body = !request.body().is_end_stream();
        let place = self.enter(has_body).await?;
        if !has_body {
            request.body().may_begin().await;
            let result = work(request).await;
            drop(place);
            return Ok(result);
        }
        let shared = BodyPlace::new(place, Arc::clone(&self.places), Arc::clone(&self.bodies));
        let place = PlaceOfRequest(shared.clone());
        request.body_mut().hold(shared);
        let result = work(request).await;
        drop(place);
        Ok(result)
    }

    fn note_refusal(&self) {
        self.metrics.requests_shed.inc();
        self.refusals.refuse();
        if let Some(more) = self.refused_line.lock().count(Instant::now()) {
            let places = self.places.max();
            let (taken, queued) = (self.metrics.requests_in_flight.get(), self.metrics.requests_queued.get());
            let waiting_for_clients = self.metrics.requests_waiting_for_client.get();
            tracing::warn!(
                places,
                taken,
                queued,
                waiting_for_clients,
                more,
                "every place that it could have is taken: a request got 503"
            );
        }
    }
}

/// Adds to the headers of an answer that the service did not give those by which a page of another origin may
/// read it; the head is the request's.
pub type AllowPage = Arc<dyn Fn(&Parts, &mut HeaderMap) + Send + Sync>;

/// Puts `service` behind `admission`; `refuse` answers for it where it was not asked or panicked, and
/// `allow_page` completes that for a page of another origin.
/// Counts every answer, under the [`ApiName`] beside it; one that was slow is logged. The
/// [`ReadAhead`](sherd_store::machine::reclaim::ReadAhead) of an object's read is among the extensions of its
/// answer.
pub fn guard<S, F, B>(
    service: S,
    admission: Arc<Admission>,
    slow: SlowRequests,
    refuse: impl Fn(Refusal) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
    allow_page: AllowPage,
) -> impl Fn(Request<RequestBody>) -> GuardedFuture<B> + Clone + Send + Sync + 'static
where
    S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = (ApiName, Response<B>)> + Send + 'static,
    B: Send + 'static,
{
    move |request| {
        let (service, admission, trace) =
            (service.clone(), Arc::clone(&admission), RequestTrace::begin(&slow));
        let refuse = refuse.clone();
        let is_get = request.method() == Method::GET;
        let has_origin = request.headers().contains_key(ORIGIN);
        let page = has_origin.then(|| Box::new((head_of(&request), Arc::clone(&allow_page))));
        Box::pin(async move {
            // The call itself is inside: a panic before the first await is caught too.
            let work =
                async |request| AssertUnwindSafe(async { service(request).await }).catch_unwind().await;
            let refused = |refusal| {
                let mut response = refuse(refusal);
                if let Some((head, allow_page)) = page.as_deref() {
                    allow_page(head, response.headers_mut());
                }
                (ApiName::default(), response.map(Either::Right))
            };
            let (ApiName(api), mut response) = match trace.scope(admission.run(request, work)).await {
                Ok(Ok((api, response))) => (api, response.map(Either::Left)),
                Ok(Err(_)) => refused(Refusal::Panicked),
                Err(refusal) => refused(refusal),
            };
            let status = response.status().as_u16();
            if let Some(ahead) = trace.begun_read().filter(|_| is_get) {
                response.extensions_mut().insert(ahead.clone());
            }
            admission.metrics.answered(api, status, trace.answered(api, status).as_secs_f64());
            response
        })
    }
}

/// A copy of a request's head.
pub(super) fn head_of(request: &Request<RequestBody>) -> Parts {
    let mut head = Request::new(()).into_parts().0;
    head.method = request.method().clone();
    head.uri = request.uri().clone();
    head.version = request.version();
    head.headers = request.headers().clone();
    head
}

/// The answer of a guarded service.
pub type GuardedFuture<B> = std::pin::Pin<Box<dyn Future<Output = Response<Either<B, Full<Bytes>>>> + Send>>;

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use sherd_volume::options::Durability;

    use super::*;
    use sherd_store::observe::metrics::Metrics;

    fn admission(requests_max: usize, queue_max: usize) -> Arc<Admission> {
        let metrics = Metrics::new(Durability::Fsync).s3;
        Admission::new(requests_max, queue_max, metrics, RequestRefusals::default())
    }

    impl Admission {
        /// Runs `work` in the place of a request without a body.
        async fn run_bodiless<T>(&self, work: impl Future<Output = T>) -> Result<T, Refusal> {
            let _place = self.enter(false).await?;
            Ok(work.await)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_places_and_queue_a_request_is_refused_at_once() {
        let admission = admission(1, 1);
        let (end, ended) = oneshot::channel::<()>();
        let mut first = std::pin::pin!(admission.run_bodiless(ended));
        assert!(futures::poll!(first.as_mut()).is_pending());
        let mut second = std::pin::pin!(admission.run_bodiless(async { "second" }));
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert_eq!(admission.metrics.requests_queued.get(), 1);
        assert_eq!(admission.run_bodiless(async { "third" }).await, Err(Refusal::Overloaded));
        assert_eq!(admission.metrics.requests_shed.get(), 1);

        end.send(()).expect("the first waits for it");
        first.await.expect("it has a place").expect("the sender sent");
        assert_eq!(second.await, Ok("second"));
        assert_eq!(
            (admission.metrics.requests_queued.get(), admission.metrics.requests_in_flight.get()),
            (0, 0)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn other_numbers_hold_for_requests_under_way_and_for_those_that_wait() {
        let admission = admission(2, 0);
        let (end, ended) = oneshot::channel::<()>();
        let mut first = std::pin::pin!(admission.run_bodiless(ended));
        assert!(futures::poll!(first.as_mut()).is_pending());
        admission.resize(1, 1);
        let mut second = std::pin::pin!(admission.run_bodiless(std::future::pending::<()>()));
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert_eq!(admission.metrics.requests_queued.get(), 1, "there is one place, and room to wait");
        assert_eq!(admission.run_bodiless(async {}).await, Err(Refusal::Overloaded));
        end.send(()).expect("the first waits for it");
        first.await.expect("it has a place").expect("the sender sent");
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert_eq!(admission.run_bodiless(async {}).await, Err(Refusal::Overloaded));
        admission.resize(2, 1);
        assert_eq!(admission.run_bodiless(async { "third" }).await, Ok("third"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_without_end_is_refused() {
        let admission = admission(1, 1);
        let mut first = std::pin::pin!(admission.run_bodiless(std::future::pending::<()>()));
        assert!(futures::poll!(first.as_mut()).is_pending());
        assert_eq!(admission.run_bodiless(async {}).await, Err(Refusal::Overloaded));
    }

    #[tokio::test]
    async fn a_request_given_up_in_the_queue_leaves_no_trace() {
        let admission = admission(1, 1);
        let mut first = std::pin::pin!(admission.run_bodiless(std::future::pending::<()>()));
        assert!(futures::poll!(first.as_mut()).is_pending());
        {
            let mut second = Box::pin(admission.run_bodiless(async {}));
            assert!(futures::poll!(second.as_mut()).is_pending());
        }
        assert_eq!(admission.metrics.requests_queued.get(), 0);
        assert_eq!(admission.waiting.free_count(), 1);
    }
}
