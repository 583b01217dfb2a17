//! The listener of IAM's query API: users, groups, keys and policies, by signed requests.
//!
//! Apart from the S3 listener, so that a network policy can tell the two apart, and so that users can be
//! changed while S3 is overloaded. A panic of a request ends its connection, and nothing else.

use std::time::Duration;

use http::Request;
use sherd_iam::{QueryApi, UNPROVEN_MAX};
use sherd_store::machine::reclaim::Reclaim;
use sherd_store::observe::metrics::Traffic;
use sherd_store::observe::trace::{RequestTrace, SlowRequests};

use crate::server::limits::IAM_CONNECTIONS_MAX;
use crate::server::{Listener, ListenerLimits, RequestBody, Shutdown, serve};

// Requests that are not proven leave connections to those that are, however many there are.
const _: () = assert!(UNPROVEN_MAX * 4 <= IAM_CONNECTIONS_MAX * 3);

const ALLOWED: ListenerLimits = ListenerLimits {
    connections_max: IAM_CONNECTIONS_MAX,
    roomy_max: IAM_CONNECTIONS_MAX,
    spare_descriptors: 2,
    idle_timeout: Duration::from_mins(1),
    head_timeout: Duration::from_secs(10),
    stall_timeout: Duration::from_secs(10),
    // An answer is a document of some 100 KB at most.
    answer_timeout: Some(Duration::from_secs(30)),
};

/// Serves until `shutdown` stops it.
pub async fn serve_iam(listener: Listener, shutdown: Shutdown, traffic: Traffic, api: QueryApi) {
    let none_is_slow = SlowRequests::after(Duration::ZERO);
    let service = move |request: Request<RequestBody>| {
        let api = api.clone();
        let work = async move {
            request.body().may_begin().await;
            api.call(request).await
        };
        let trace = RequestTrace::begin(&none_is_slow);
        async move { trace.scope(work).await }
    };
    let listener = listener.with_changes_by_any_method();
    serve(listener, ALLOWED, shutdown, traffic, Reclaim::default(), service).await;
}
