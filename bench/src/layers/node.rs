//! The whole node over loopback, driven by the smallest client: what a client that costs nothing
//! would see, and what the node alone allocates. Beside it stands L7, where the client is an SDK's.

use std::sync::Arc;

use futures::future::BoxFuture;
use sherd_node::observe::metrics::Metrics;
use sherd_node::process::config::Config;
use sherd_node::process::open::open;
use tokio::runtime::Runtime;

use super::clients::threads;
use super::error::{Error, Failure};
use super::server::Served;
use super::sign::Signer;
use super::store::{Scratch, config, runtime};
use super::wire::WireClient;
use super::work::{Numbers, Work};
use super::{Layer, Session};

/// A node in this process, without its admin listener and its signals.
pub(super) struct Node {
    pub(super) config: Config,
    pub(super) served: Served,
    runtime: Runtime,
    close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
    _scratch: Scratch,
}

impl Node {
    /// Opens a node on new volumes, with its bucket and the objects of `filling`.
    pub(super) fn new(session: &Session, filling: Work) -> Result<Self, Error> {
        let scratch = Scratch::new(session.dir())?;
        let config = config(scratch.path())?;
        let runtime = runtime()?;
        let metrics = Metrics::shared(config.durability);
        let opened = runtime.block_on(open(&config, &metrics)).map_err(Error::setup("open a node"))?;
        let served = Served::start(&runtime, &config, &metrics, opened.service)?;
        let node = Self { config, served, runtime, close: opened.close, _scratch: scratch };
        let mut client = WireClient::new(node.served.address, &node.signer(), filling)?;
        fill(&mut client).map_err(Error::setup("write the objects to read"))?;
        Ok(node)
    }

    /// Signs for this node, from now on.
    pub(super) fn signer(&self) -> Arc<Signer> {
        Arc::new(Signer::new(&self.config.credentials, self.served.address.to_string()))
    }

    /// Stops it and removes its volumes.
    pub(super) fn stop(self) {
        let Self { served, runtime, close, .. } = self;
        runtime.block_on(async {
            served.stop().await;
            close().await;
        });
    }
}

fn fill(client: &mut WireClient) -> Result<(), Failure> {
    client.make_bucket()?;
    let Numbers::Round { count, .. } = client.work.numbers else { return Ok(()) };
    (0..count).try_for_each(|number| client.put(number).map(drop))
}

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    let node = Node::new(session, session.filling(bytes))?;
    for (op, clients) in session.cells(Layer::Node, bytes) {
        let signer = node.signer();
        let client = |work| WireClient::new(node.served.address, &signer, work);
        let team = session.team(op, bytes, clients).into_iter().map(client);
        let team = team.collect::<Result<Vec<_>, Error>>()?;
        let failed = |source| Layer::Node.failure(op, bytes, source);
        let measured = threads(team, session.pace()).map_err(failed)?;
        session.note(Layer::Node, op, bytes, clients, &[], &measured);
    }
    node.stop();
    Ok(())
}
