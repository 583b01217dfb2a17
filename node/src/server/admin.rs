//! The admin listener: `/metrics`, `/health/live`, `/health/serving`, `/health/ready`. No authentication, no
//! secrets, nothing that changes anything.
//!
//! Apart from the S3 listener, so that probes and scrapes get through when S3 is overloaded, and
//! so that a network policy can tell the two apart.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::health::Health;
use crate::server::limits::{ADMIN_CONNECTIONS_MAX, SCRAPES_PER_SECOND};
use crate::server::{Listener, ListenerLimits, Shutdown, serve};
use sherd_store::machine::reclaim::Reclaim;
use sherd_store::observe::metrics::{self, Metrics};

const ALLOWED: ListenerLimits = ListenerLimits {
    connections_max: ADMIN_CONNECTIONS_MAX,
    roomy_max: ADMIN_CONNECTIONS_MAX,
    // A probe and a scrape, and one of each that is late.
    spare_descriptors: 4,
    idle_timeout: Duration::from_mins(1),
    // A probe sends its head with its connection.
    head_timeout: Duration::from_secs(5),
    stall_timeout: Duration::from_secs(10),
    // A scrape is some 100 KB; a client that takes them byte by byte must not keep its place.
    answer_timeout: Some(Duration::from_secs(10)),
};

/// The last scrape, and how many were made in the second that it is of.
#[derive(Debug, Default)]
struct LastScrape(Mutex<Option<(Instant, u32, Bytes)>>);

impl LastScrape {
    fn encode(&self, metrics: &Metrics) -> Bytes {
        let mut last = self.0.lock();
        let now = Instant::now();
        let (begun, count) = match &*last {
            Some((begun, count, text)) if now.duration_since(*begun) < Duration::from_secs(1) => {
                if *count >= SCRAPES_PER_SECOND {
                    return text.clone();
                }
                (*begun, *count)
            }
            _ => (now, 0),
        };
        let text = Bytes::from(metrics.encode());
        *last = Some((begun, count + 1, text.clone()));
        text
    }
}

/// Serves until `shutdown` stops it.
pub async fn serve_admin(listener: Listener, shutdown: Shutdown, metrics: Arc<Metrics>, health: Arc<Health>) {
    let (traffic, scrape) = (metrics.admin.clone(), Arc::new(LastScrape::default()));
    let service = move |request: Request<_>| {
        let response = answer(&request, &metrics, &scrape, &health);
        async move { response }
    };
    serve(listener, ALLOWED, shutdown, traffic, Reclaim::default(), service).await;
}

/// Answers one request; the body of a HEAD's answer is dropped by the connection.
fn answer<B>(
    request: &Request<B>,
    metrics: &Metrics,
    scrape: &LastScrape,
    health: &Health,
) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let known = matches!(path, "/metrics" | "/health/live" | "/health/serving" | "/health/ready");
    if known && !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/metrics" => plain(StatusCode::OK, metrics::CONTENT_TYPE, scrape.encode(metrics)),
        "/health/live" => health_answer(HealthPath::Live, health),
        "/health/serving" => health_answer(HealthPath::Serving, health),
        "/health/ready" => health_answer(HealthPath::Ready, health),
        _ => plain(
            StatusCode::NOT_FOUND,
            "text/plain",
            "here are /metrics, /health/live, /health/serving and /health/ready\n",
        ),
    }
}

/// The kinds of health that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HealthPath {
    /// Whether the process answers.
    Live,
    /// Whether reads are served.
    Serving,
    /// Whether reads and writes are.
    Ready,
}

/// The answer to a question about health.
pub(super) fn health_answer(asked: HealthPath, health: &Health) -> Response<Full<Bytes>> {
    match asked {
        HealthPath::Live => plain(StatusCode::OK, "application/json", "{\"live\":true}\n"),
        HealthPath::Serving => {
            let state = health.serving();
            probe(state.serving, &state)
        }
        HealthPath::Ready => {
            let readiness = health.readiness();
            probe(readiness.ready, &readiness)
        }
    }
}

/// The answer of a probe: 200 or 503, with the reasons.
fn probe(is_well: bool, state: &impl serde::Serialize) -> Response<Full<Bytes>> {
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = serde_json::to_vec(state).expect("words, numbers and lists are JSON");
    body.push(b'\n');
    plain(status, "application/json", body)
}

fn plain(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use sherd_core::id::{ProcessId, VolumeId};
    use sherd_core::report::{NodeMoment, NodeReport, SetReport, VolumeCondition, VolumeReport};
    use sherd_volume::options::Durability;

    use super::*;

    async fn ask(method: Method, path: &str, health: &Health) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path).body(()).expect("a valid request");
        let (metrics, scrape) = (Metrics::new(Durability::None), LastScrape::default());
        let (parts, body) = answer(&request, &metrics, &scrape, health).into_parts();
        let body = body.collect().await.unwrap_or_else(|never| match never {}).to_bytes();
        (parts.status, String::from_utf8(body.to_vec()).expect("text"))
    }

    fn health(voting: usize) -> Health {
        let health = Health::opening(Durability::None, Duration::from_mins(10));
        let mut report = NodeReport::of("n1".to_owned(), ProcessId([1; 16]));
        report.volumes.push(VolumeReport {
            path: "/v1".to_owned(),
            condition: Some(VolumeCondition::Failed),
            reason: "EIO".to_owned(),
            ..VolumeReport::of(VolumeId([1; 16]))
        });
        let set = SetReport {
            set: 0,
            volumes: 4,
            voting,
            with_room: 4,
            taking_shards: voting,
            shards_needed: 3,
            write_quorum: 3,
            read_quorum: 2,
        };
        health.show(NodeMoment { sets: vec![set], ..NodeMoment::of(report) });
        health.serve();
        health
    }

    #[tokio::test]
    async fn live_is_200_even_when_nothing_is_ready() {
        assert_eq!(ask(Method::GET, "/health/live", &health(0)).await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn ready_follows_the_write_quorum_and_says_what_is_degraded() {
        let (status, body) = ask(Method::GET, "/health/ready", &health(3)).await;
        assert_eq!(status, StatusCode::OK);
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["durability"], "none");
        assert_eq!(body["phase"], "serving");
        assert_eq!(body["degraded_volumes"][0]["reason"], "EIO");
        assert_eq!(body["degraded_sets"], serde_json::json!([]));

        let (status, body) = ask(Method::GET, "/health/ready", &health(2)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["degraded_sets"][0]["write_quorum"], 3);
    }

    #[tokio::test]
    async fn problems_of_the_cluster_are_listed_and_make_no_node_unready() {
        let health = health(3);
        let problems = vec!["n2 has other root credentials".to_owned()];
        health.show(NodeMoment { problems, ..NodeMoment::clone(&health.moment()) });
        let (status, body) = ask(Method::GET, "/health/ready", &health).await;
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["problems"], serde_json::json!(["n2 has other root credentials"]));
        assert_eq!(status, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_a_hundred_scrapes_in_a_second_the_last_one_is_given() {
        let (metrics, scrape) = (Metrics::new(Durability::None), LastScrape::default());
        let shed = |text: &Bytes| {
            let text = std::str::from_utf8(text).expect("text");
            let line = text.lines().find_map(|line| line.strip_prefix("sherd_s3_requests_shed_total "));
            line.expect("it is declared").to_owned()
        };
        for count in 0..SCRAPES_PER_SECOND {
            assert_eq!(shed(&scrape.encode(&metrics)), count.to_string(), "it is of this moment");
            metrics.s3.requests_shed.inc();
        }
        assert_eq!(shed(&scrape.encode(&metrics)), (SCRAPES_PER_SECOND - 1).to_string());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(shed(&scrape.encode(&metrics)), SCRAPES_PER_SECOND.to_string());
    }

    #[tokio::test]
    async fn metrics_are_served_and_nothing_else_is() {
        let (status, body) = ask(Method::GET, "/metrics", &health(4)).await;
        assert_eq!(status, StatusCode::OK);
        assert!(body.contains("sherd_build_info{"), "{body}");
        assert_eq!(ask(Method::GET, "/", &health(4)).await.0, StatusCode::NOT_FOUND);
        assert_eq!(ask(Method::POST, "/metrics", &health(4)).await.0, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(ask(Method::DELETE, "/health/ready", &health(4)).await.0, StatusCode::METHOD_NOT_ALLOWED);
    }
}
