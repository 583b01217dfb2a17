//! L1, HTTP: the node's listener answering a constant, driven over loopback by the smallest client.
//!
//! A PUT's body is taken and dropped, a GET is answered with bytes that are at hand. The client signs
//! its heads, as it does before a whole node, and nobody here looks at the signature.

use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use sherd_node::observe::metrics::{ApiName, Metrics};
use sherd_node::server::RequestBody;

use super::clients::threads;
use super::error::Error;
use super::payload::Arena;
use super::server::Served;
use super::service::Pieces;
use super::sign::Signer;
use super::store::{Scratch, config, runtime};
use super::wire::WireClient;
use super::work::Numbers;
use super::{Layer, Session};

/// The one object.
const NUMBER: u64 = 0;

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    let scratch = Scratch::new(session.dir())?;
    let config = config(scratch.path())?;
    let runtime = runtime()?;
    let metrics = Metrics::shared(config.durability);
    let arena = session.arena().clone();
    let service = move |request| {
        let answer = constant(request, arena.clone(), bytes);
        async move { (ApiName::default(), answer.await) }
    };
    let served = Served::start(&runtime, &config, &metrics, service)?;
    for (op, clients) in session.cells(Layer::Http, bytes) {
        let signer = Arc::new(Signer::new(&config.credentials, served.address.to_string()));
        let team = session.team(op, bytes, clients).into_iter().map(|mut work| {
            work.numbers = Numbers::Round { next: NUMBER, count: 1 };
            WireClient::new(served.address, &signer, work)
        });
        let team = team.collect::<Result<Vec<_>, Error>>()?;
        let failed = |source| Layer::Http.failure(op, bytes, source);
        let measured = threads(team, session.pace()).map_err(failed)?;
        session.note(Layer::Http, op, bytes, clients, &[], &measured);
    }
    runtime.block_on(served.stop());
    Ok(())
}

async fn constant(mut request: Request<RequestBody>, arena: Arena, bytes: u64) -> Response<Pieces> {
    if request.method() == Method::GET {
        return Response::new(Pieces(arena.body(NUMBER, bytes)));
    }
    let mut got = 0;
    while let Some(Ok(frame)) = request.body_mut().frame().await {
        got += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
    }
    let mut response = Response::new(Pieces(arena.body(NUMBER, 0)));
    if got != bytes {
        *response.status_mut() = http::StatusCode::BAD_REQUEST;
    }
    response
}
