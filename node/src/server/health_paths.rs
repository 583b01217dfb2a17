//! Health on the S3 listener, where a load balancer, a container's health check or a file that was written
//! for MinIO asks for it. Without authentication, and before a request waits for a place.
//!
//! Only paths that name no object by the host's bucket are these; buckets of their first words are not made.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::{Either, Full};

use super::RequestBody;
use super::admin::{self, HealthPath};
use super::admission::{GuardedFuture, head_of};
use crate::health::Health;

/// The buckets whose objects would have these paths.
pub const BUCKETS: [&str; 2] = ["health", "minio"];

/// Whether the host of a request names a bucket.
pub type NamesBucket = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// The health that a path asks for.
fn asked(path: &str) -> Option<HealthPath> {
    match path {
        "/health/live" | "/minio/health/live" => Some(HealthPath::Live),
        "/health/serving" | "/minio/health/cluster/read" => Some(HealthPath::Serving),
        "/health/ready" | "/minio/health/ready" | "/minio/health/cluster" => Some(HealthPath::Ready),
        _ => None,
    }
}

/// Puts the health paths before `service`, where there is a `health` to show.
pub fn before<S, B>(
    service: S,
    health: Option<Arc<Health>>,
    names_bucket: NamesBucket,
) -> impl Fn(Request<RequestBody>) -> GuardedFuture<B> + Clone + Send + Sync + 'static
where
    S: Fn(Request<RequestBody>) -> GuardedFuture<B> + Clone + Send + Sync + 'static,
    B: Send + 'static,
{
    move |request| -> GuardedFuture<B> {
        let answer = health.as_deref().and_then(|health| answer(&request, health, &names_bucket));
        match answer {
            Some(answer) => Box::pin(std::future::ready(answer.map(Either::Right))),
            None => service(request),
        }
    }
}

fn answer(
    request: &Request<RequestBody>,
    health: &Health,
    names_bucket: &NamesBucket,
) -> Option<Response<Full<Bytes>>> {
    let asked = asked(request.uri().path())?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read || names_bucket(&head_of(request)) {
        return None;
    }
    // The answer leaves out the reasons, which name volumes and nodes: the admin listener has them, which is
    // kept inside.
    let answer = admin::health_answer(asked, health);
    let is_well = answer.status().is_success();
    let word = match asked {
        HealthPath::Live => "live",
        HealthPath::Serving => "serving",
        HealthPath::Ready => "ready",
    };
    Some(answer.map(|_| Full::from(format!("{{\"{word}\":{is_well}}}\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_lies_in_a_bucket_that_is_not_made() {
        for path in [
            "/health/live",
            "/health/ready",
            "/health/serving",
            "/minio/health/live",
            "/minio/health/ready",
            "/minio/health/cluster",
            "/minio/health/cluster/read",
        ] {
            assert!(asked(path).is_some(), "{path}");
            assert!(BUCKETS.iter().any(|bucket| path.starts_with(&format!("/{bucket}/"))), "{path}");
        }
        for path in ["/health", "/health/live/", "/minio/health", "/b/health/live", "/"] {
            assert!(asked(path).is_none(), "{path}");
        }
    }
}
