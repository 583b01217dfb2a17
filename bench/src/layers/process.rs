//! L6, S3 and storage in process: the node's whole service over real volumes, without sockets.

use std::sync::Arc;

use sherd_node::machine::system::SystemRng;
use sherd_node::process::open;

use super::clients::tasks;
use super::error::Error;
use super::service::ServiceClient;
use super::sign::Signer;
use super::storage::fill;
use super::store::OpenStore;
use super::work::Op;
use super::{Layer, Session};

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    let open = OpenStore::new(session.dir())?;
    let protocol = open::protocol(&open.config, &open.store, Arc::clone(&open.clock), &SystemRng);
    let failed = |op: Op| move |source| Layer::Process.failure(op, bytes, source);
    let filling = fill(open.store.objects(), session.filling(bytes));
    open.runtime.block_on(filling).map_err(failed(Op::Put))?;
    for (op, clients) in session.cells(Layer::Process, bytes) {
        let signer = Arc::new(Signer::new(&open.config.credentials, "127.0.0.1".to_owned()));
        let client = |work| ServiceClient { protocol: protocol.clone(), signer: Arc::clone(&signer), work };
        let team = session.team(op, bytes, clients).into_iter().map(client).collect();
        let measured = open.runtime.block_on(tasks(team, session.pace())).map_err(failed(op))?;
        session.note(Layer::Process, op, bytes, clients, &[], &measured);
    }
    open.close();
    Ok(())
}
