//! The two connections to one peer, and what keeps them: one for small calls, one for the bytes of shards.
//!
//! Each has a task that dials, opens, waits for the end and dials again after a pause. While there is no
//! connection calls are answered `Unreachable` at once, with the last reason: nothing queues behind a dead
//! peer. Node formation makes the links; [`super::GrpcPeer`] calls through them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use parking_lot::RwLock;
use tokio::io::AsyncBufReadExt as _;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Status, Streaming};

use sherd_core::env::Rng;
use sherd_core::id::{ClusterId, Epoch};
use sherd_core::message::{Error, Result};
use sherd_proto::limits::MESSAGE_BYTES_MAX;
use sherd_proto::sender::sender;
use sherd_proto::v1::admin_service_client::AdminServiceClient;
use sherd_proto::v1::register_service_client::RegisterServiceClient;
use sherd_proto::v1::shard_service_client::ShardServiceClient;
use sherd_proto::v1::upkeep_service_client::UpkeepServiceClient;
use sherd_proto::v1::{RegisterReplies, Sender, ShardReplies, UpkeepReplies};

use super::calls::{CallStream, unreachable};
use super::connection::{Connection, Driver};
use super::limits::{BYTE_STREAMS_MAX, OPEN_MAX, RECONNECT_MAX, RECONNECT_MIN};
use super::registers::RegisterCallService;
use super::shards::ShardCallService;
use super::upkeep::UpkeepCallService;
use super::{told, told_by};
use crate::peer::wire;
use crate::trust::{HandshakeFailure, PeerIdentity, Trust};

/// The scheme and authority that requests name; the connection alone says who is asked.
const ORIGIN: &str = "https://sherd";

/// Which peer, and where.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Whom the certificate at the other end must name.
    pub peer: PeerIdentity,
    /// Host and port.
    pub address: String,
    /// The cluster that both are of.
    pub cluster: ClusterId,
    /// The epoch of the topology in force; `None` while there is none.
    pub epoch: Option<Epoch>,
}

/// The connections to one peer. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Link(Arc<LinkState>);

#[derive(Debug)]
struct LinkState {
    config: LinkConfig,
    sender: Sender,
    calls: RwLock<Result<Arc<LiveCalls>, Arc<str>>>,
    bytes: RwLock<Result<ShardServiceClient<Connection>, Arc<str>>>,
    byte_streams: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// A connection of small calls, with its three streams.
#[derive(Debug)]
pub(super) struct LiveCalls {
    pub(super) registers: CallStream<RegisterCallService>,
    pub(super) shards: CallStream<ShardCallService>,
    pub(super) upkeep: CallStream<UpkeepCallService>,
    admin: AdminServiceClient<Connection>,
}

/// The replies of the three streams.
struct ReplyStreams {
    registers: Streaming<RegisterReplies>,
    shards: Streaming<ShardReplies>,
    upkeep: Streaming<UpkeepReplies>,
}

/// Cuts a connection off.
struct ConnectionCut(AbortHandle);

impl Drop for ConnectionCut {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ends the streams of a connection, however its task ends.
struct StreamsEnd<'a>(&'a LiveCalls, &'a str);

impl Drop for StreamsEnd<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

impl LiveCalls {
    fn end(&self, reason: &str) {
        self.registers.end(reason);
        self.shards.end(reason);
        self.upkeep.end(reason);
    }
}

impl Link {
    /// Begins to connect; the connections are kept until `stop`, by tasks on `tasks`.
    pub fn start(
        config: LinkConfig,
        trust: &Trust,
        rng: &Arc<dyn Rng>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let sender = sender(config.cluster, config.epoch);
        let not_yet: Arc<str> = "not connected yet".into();
        let link = Self(Arc::new(LinkState {
            config,
            sender,
            calls: RwLock::new(Err(Arc::clone(&not_yet))),
            bytes: RwLock::new(Err(not_yet)),
            byte_streams: Arc::new(Semaphore::new(BYTE_STREAMS_MAX)),
            tasks: tasks.clone(),
        }));
        let keeper = LinkKeeper { link: link.clone(), trust: trust.clone(), rng: Arc::clone(rng) };
        let (calls, bytes) = (keeper.clone(), keeper);
        let (stop_calls, stop_bytes) = (stop.clone(), stop.clone());
        tasks.spawn(async move { calls.keep_calls(&stop_calls).await });
        tasks.spawn(async move { bytes.keep_bytes(&stop_bytes).await });
        link
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
        self.0.calls.read().as_ref().err().map(Arc::clone)
    }

    /// Whether both connections are there.
    pub fn is_up(&self) -> bool {
        self.0.calls.read().is_ok() && self.0.bytes.read().is_ok()
    }

    /// Asks the peer about itself and its cluster, over the connection of small calls.
    ///
    /// # Errors
    /// [`Error::Unreachable`] while there is no connection.
    pub fn admin(&self) -> Result<AdminServiceClient<Connection>> {
        self.calls().map(|live| live.admin.clone())
    }

    /// Names this node in a frame or a request.
    pub fn sender(&self) -> Sender {
        self.0.sender.clone()
    }

    pub(super) fn calls(&self) -> Result<Arc<LiveCalls>> {
        match &*self.0.calls.read() {
            Ok(live) => Ok(Arc::clone(live)),
            Err(reason) => Err(unreachable(&**reason)),
        }
    }

    pub(super) fn bytes(&self) -> Result<ShardServiceClient<Connection>> {
        match &*self.0.bytes.read() {
            Ok(client) => Ok(client.clone()),
            Err(reason) => Err(unreachable(&**reason)),
        }
    }

    /// A client of bytes that sends messages of any length.
    #[cfg(test)]
    pub(crate) fn bytes_for_tests(&self) -> Result<ShardServiceClient<Connection>> {
        self.bytes().map(|client| client.max_encoding_message_size(usize::MAX))
    }

    /// Runs a transfer of bytes, if there is a place for one more.
    ///
    /// # Errors
    /// [`Error::Busy`]: nothing was begun.
    pub(super) fn transfer(&self, transfer: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let place = Arc::clone(&self.0.byte_streams).try_acquire_owned().map_err(|_| Error::Busy)?;
        self.0.tasks.spawn(async move {
            transfer.await;
            drop(place);
        });
        Ok(())
    }
}

/// Keeps the connections of a link.
#[derive(Clone)]
struct LinkKeeper {
    link: Link,
    trust: Trust,
    rng: Arc<dyn Rng>,
}

impl LinkKeeper {
    async fn keep_calls(&self, stop: &CancellationToken) {
        let slot = &self.link.0.calls;
        self.keep(stop, || self.calls_once(), |reason| *slot.write() = Err(reason)).await;
    }

    async fn keep_bytes(&self, stop: &CancellationToken) {
        let slot = &self.link.0.bytes;
        self.keep(stop, || self.bytes_once(), |reason| *slot.write() = Err(reason)).await;
    }

    /// Connects again and again, with a pause that doubles while connections do not last.
    async fn keep<F: Future<Output = String>>(
        &self,
        stop: &CancellationToken,
        connect: impl Fn() -> F,
        down: impl Fn(Arc<str>),
    ) {
        let mut pause = RECONNECT_MIN;
        loop {
            let begun = Instant::now();
            // Cancel-safe: what is dropped of a connection closes it, and all is over then.
            let reason = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                reason = connect() => reason,
            };
            tracing::debug!(peer = %self.link.peer().name, %reason, "connection to a peer ended");
            down(reason.into());
            pause = if begun.elapsed() > RECONNECT_MAX * 2 { RECONNECT_MIN } else { pause };
            let jittered = self.jittered(pause);
            pause = (pause * 2).min(RECONNECT_MAX);
            // Cancel-safe: neither arm holds anything.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(jittered) => {}
            }
        }
        down("this node is stopping".into());
    }

    /// Half of a pause to the whole.
    fn jittered(&self, pause: Duration) -> Duration {
        let half_us = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(half_us + self.rng.next_u64() % half_us)
    }

    /// Connects for small calls, and answers them until the connection ends. Gives why it did.
    async fn calls_once(&self) -> String {
        let (generation, connection, driver) = match self.dial().await {
            Ok(dialled) => dialled,
            Err(reason) => return reason,
        };
        let driving = self.link.0.tasks.spawn(driver);
        let _cut = ConnectionCut(driving.abort_handle());
        let (live, replies) = match tokio::time::timeout(OPEN_MAX, self.open_streams(connection)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(status)) => return told(&status),
            Err(_elapsed) => return "the peer opened no stream in time".to_owned(),
        };
        let live = Arc::new(live);
        let _end = StreamsEnd(&live, "this node is stopping");
        *self.link.0.calls.write() = Ok(Arc::clone(&live));
        // Cancel-safe: whichever ends first ends all of them.
        let reason = tokio::select! {
            biased;
            reason = live.registers.answer_calls(replies.registers) => reason,
            reason = live.shards.answer_calls(replies.shards) => reason,
            reason = live.upkeep.answer_calls(replies.upkeep) => reason,
            ended = driving => connection_end(ended),
            () = wire::outlived(&self.trust, generation) => "its certificate was replaced an hour ago".to_owned(),
        };
        live.end(&reason);
        reason
    }

    /// Connects for bytes, and gives why the connection ended.
    async fn bytes_once(&self) -> String {
        let (generation, connection, driver) = match self.dial().await {
            Ok(dialled) => dialled,
            Err(reason) => return reason,
        };
        let driving = self.link.0.tasks.spawn(driver);
        let _cut = ConnectionCut(driving.abort_handle());
        let client = ShardServiceClient::with_origin(connection, origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        *self.link.0.bytes.write() = Ok(client);
        // Cancel-safe: whichever ends first ends both.
        tokio::select! {
            biased;
            ended = driving => connection_end(ended),
            () = wire::outlived(&self.trust, generation) => "its certificate was replaced an hour ago".to_owned(),
        }
    }

    async fn dial(&self) -> Result<(u64, Connection, Driver), String> {
        // Before the handshake: a certificate that changes meanwhile makes the connection an old one.
        let generation = self.trust.generation();
        let LinkConfig { peer, address, .. } = &self.link.0.config;
        let mut stream = self.trust.connect(address, peer).await.map_err(|error| told_by(&error))?;
        // The peer speaks first. Where it refuses this node's certificate, which it sees last, its first words are why.
        match tokio::time::timeout(OPEN_MAX, stream.fill_buf()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(HandshakeFailure::from_io(error).to_string()),
            Err(_elapsed) => return Err("the peer did not open HTTP/2 in time".to_owned()),
        }
        match tokio::time::timeout(OPEN_MAX, Connection::open(stream, &self.link.0.tasks)).await {
            Ok(Ok((connection, driver))) => Ok((generation, connection, driver)),
            Ok(Err(error)) => Err(format!("open HTTP/2: {}", told_by(&error))),
            Err(_elapsed) => Err("the peer did not open HTTP/2 in time".to_owned()),
        }
    }

    async fn open_streams(&self, connection: Connection) -> Result<(LiveCalls, ReplyStreams), Status> {
        let (registers, register_frames) = CallStream::new(self.link.sender());
        let (shards, shard_frames) = CallStream::new(self.link.sender());
        let (upkeep, upkeep_frames) = CallStream::new(self.link.sender());
        let mut register_client = RegisterServiceClient::with_origin(connection.clone(), origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let mut shard_client = ShardServiceClient::with_origin(connection.clone(), origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let mut upkeep_client = UpkeepServiceClient::with_origin(connection.clone(), origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let (register_replies, shard_replies, upkeep_replies) = futures::try_join!(
            register_client.calls(register_frames),
            shard_client.calls(shard_frames),
            upkeep_client.calls(upkeep_frames),
        )?;
        let admin = AdminServiceClient::with_origin(connection, origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let replies = ReplyStreams {
            registers: register_replies.into_inner(),
            shards: shard_replies.into_inner(),
            upkeep: upkeep_replies.into_inner(),
        };
        Ok((LiveCalls { registers, shards, upkeep, admin }, replies))
    }
}

fn origin() -> Uri {
    Uri::from_static(ORIGIN)
}

fn connection_end(ended: Result<Result<(), hyper::Error>, tokio::task::JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "the peer closed the connection".to_owned(),
        Ok(Err(error)) => format!("the connection broke: {}", told_by(&error)),
        Err(_panic_or_cut) => "the connection was cut off".to_owned(),
    }
}
