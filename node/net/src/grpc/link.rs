//! The two connections to one peer: one for small calls, one for the bytes of shards.
//!
//! Each has a task of [`super::keeper`]. Without a connection calls are answered `Unreachable` at once, with
//! the last reason: nothing queues behind a dead peer. While one is renewed there are two: calls go over the
//! new one, but for a commit whose accept has no answer on the old one yet. Node formation makes the links;
//! [`super::GrpcPeer`] calls through them.

use std::future::Future;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use sherd_core::id::{ClusterId, Epoch, VolumeId};
use sherd_core::message::{Error, Result};
use sherd_proto::convert::call::{RegisterStream, ShardStream, UpkeepStream};
use sherd_proto::sender::sender;
use sherd_proto::v1::Sender;
use sherd_proto::v1::admin_service_client::AdminServiceClient;

use super::calls::CallStream;
use super::connection::Connection;
use super::limits::{BYTE_STREAMS_MAX, RETURN_LOOK_EVERY, RETURN_MAX, UNITS_AHEAD_MAX};
use super::reply::unreachable;
use crate::tls::PeerIdentity;
use crate::wire::ConnectionAge;
use sherd_store::observe::metrics::LinkMetrics;
use sherd_store::peer::watch::CallWatch;

/// A peer and its address.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Whom the certificate at the other end must name.
    pub peer: PeerIdentity,
    /// Host and port.
    pub address: String,
    /// The cluster that both are of.
    pub cluster: ClusterId,
    /// The epoch of the topology in force; `None` before the first.
    pub epoch: Option<Epoch>,
    /// How old its connections become.
    pub age: ConnectionAge,
    /// Counters of the link.
    pub metrics: LinkMetrics,
}

/// The connections to one peer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Link(pub(super) Arc<LinkState>);

#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) config: LinkConfig,
    sender: Sender,
    pub(super) calls: RwLock<CallsLane>,
    pub(super) bytes: RwLock<Result<Connection, Arc<str>>>,
    byte_streams: Arc<Semaphore>,
    /// For stripe units that are sent before the append before them is answered.
    ahead: Arc<Semaphore>,
    /// When a connection was lost last.
    lost: Mutex<Option<Instant>>,
    pub(super) tasks: TaskTracker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Calls,
    Bytes,
}

/// The connections of small calls. Under one lock: a commit that found a connection and not the one before it
/// would overtake its accept there.
#[derive(Debug)]
pub(super) struct CallsLane {
    /// The connection that calls are sent over, or why it is missing.
    pub(super) current: Result<Arc<LiveCalls>, Arc<str>>,
    /// The one before it, while calls wait for their answers there.
    pub(super) retiring: Option<Arc<LiveCalls>>,
}

#[derive(Debug)]
pub(super) struct LiveCalls {
    pub(super) registers: CallStream<RegisterStream>,
    pub(super) shards: CallStream<ShardStream>,
    pub(super) upkeep: CallStream<UpkeepStream>,
    pub(super) admin: AdminServiceClient<Connection>,
}

impl CallsLane {
    fn current(&self) -> Result<Arc<LiveCalls>> {
        match &self.current {
            Ok(live) => Ok(Arc::clone(live)),
            Err(reason) => Err(unreachable(&**reason)),
        }
    }
}

impl Link {
    /// A link with no connection yet. [`super::keeper`] makes them.
    pub(super) fn new(config: LinkConfig, tasks: &TaskTracker) -> Self {
        let sender = sender(config.cluster, config.epoch);
        let not_yet: Arc<str> = "not connected yet".into();
        Self(Arc::new(LinkState {
            config,
            sender,
            calls: RwLock::new(CallsLane { current: Err(Arc::clone(&not_yet)), retiring: None }),
            bytes: RwLock::new(Err(not_yet)),
            byte_streams: Arc::new(Semaphore::new(BYTE_STREAMS_MAX)),
            ahead: Arc::new(Semaphore::new(UNITS_AHEAD_MAX as usize)),
            lost: Mutex::default(),
            tasks: tasks.clone(),
        }))
    }

    /// Whom it reaches.
    pub fn peer(&self) -> &PeerIdentity {
        &self.0.config.peer
    }

    /// Host and port that it dials.
    pub fn address(&self) -> &str {
        &self.0.config.address
    }

    /// Says why small calls do not reach the peer at this moment; `None` while they do.
    pub fn down_because(&self) -> Option<Arc<str>> {
        self.0.calls.read().current.as_ref().err().map(Arc::clone)
    }

    /// Notes that a connection ends, before its calls are answered.
    pub(super) fn note_lost(&self) {
        *self.0.lost.lock() = Some(Instant::now());
    }

    /// Whether such a connection was lost so short a time ago that it is expected back, or is back.
    pub(super) fn was_lost_lately(&self) -> bool {
        self.0.lost.lock().is_some_and(|lost| lost.elapsed() < RETURN_MAX)
    }

    /// Whether both connections are there.
    pub fn is_up(&self) -> bool {
        self.0.calls.read().current.is_ok() && self.0.bytes.read().is_ok()
    }

    /// Asks the peer about itself and its cluster, over the connection of small calls.
    ///
    /// # Errors
    /// [`Error::Unreachable`] without a connection.
    pub fn admin(&self) -> Result<AdminServiceClient<Connection>> {
        self.calls().map(|live| live.admin.clone())
    }

    /// Names this node in a frame or a request.
    pub fn sender(&self) -> Sender {
        self.0.sender.clone()
    }

    pub(super) fn calls(&self) -> Result<Arc<LiveCalls>> {
        self.0.calls.read().current()
    }

    /// The calls that a commit goes with: those that its accept for that volume may be among, for it must not
    /// overtake that. While a connection is renewed these are two, and the commit goes with both: where it is
    /// too early it is ignored, and twice is as good as once.
    pub(super) fn calls_for_commit(&self, volume: VolumeId) -> impl Iterator<Item = Arc<LiveCalls>> {
        let lane = self.0.calls.read();
        let retiring = lane.retiring.as_ref().filter(|retiring| retiring.registers.waits_for(volume));
        retiring.map(Arc::clone).into_iter().chain(lane.current().ok())
    }

    pub(super) fn bytes(&self) -> Result<Connection> {
        match &*self.0.bytes.read() {
            Ok(connection) => Ok(connection.clone()),
            Err(reason) => Err(unreachable(&**reason)),
        }
    }

    /// Waits for the next connection for bytes, while one is expected. Cancel-safe.
    pub(super) async fn bytes_again(&self) -> Result<Connection> {
        while self.0.bytes.read().is_err() && self.was_lost_lately() {
            tokio::time::sleep(RETURN_LOOK_EVERY).await;
        }
        self.bytes()
    }

    /// The connection that bytes go over.
    #[cfg(test)]
    pub(crate) fn connection_for_tests(&self) -> Result<Connection> {
        self.bytes()
    }

    /// A client of bytes that sends messages of any length.
    #[cfg(test)]
    pub(crate) fn bytes_for_tests(
        &self,
    ) -> Result<sherd_proto::v1::shard_service_client::ShardServiceClient<Connection>> {
        self.bytes().map(|connection| connection.shards().max_encoding_message_size(usize::MAX))
    }

    /// Places for stripe units that are sent before the append before them is answered.
    pub(super) fn ahead(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.ahead)
    }

    /// Runs a transfer of bytes to the volume that `watch` is of, if there is a place for one more.
    ///
    /// # Errors
    /// Nothing was begun. As [`CallWatch::transfer`] where the volume is late; [`Error::Busy`] where too many
    /// transfers to its node are under way.
    pub(super) fn transfer(
        &self,
        watch: &CallWatch,
        transfer: impl Future<Output = ()> + Send + 'static,
    ) -> Result<()> {
        let places = (
            watch.transfer()?,
            Arc::clone(&self.0.byte_streams).try_acquire_owned().map_err(|_| Error::Busy)?,
        );
        self.0.tasks.spawn(async move {
            transfer.await;
            drop(places);
        });
        Ok(())
    }
}
