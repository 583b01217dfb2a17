//! Keeps the two connections of a link: dials, opens, renews them in time, and dials again when one broke.
//!
//! ```text
//! dial -> open -> shown to callers -- renewal: dial and open the next --> next shown to callers
//!   ^                 |                                                   this one ends with its last call
//!   +---- pause <- ended
//! ```
//! A connection that is renewed is replaced before it is let go, so callers always find one. Calls and bytes
//! under way on it end there, or are cut: when its certificates were replaced long ago, or when more than 16
//! later connections carry something, too. A connection that cannot be renewed, since the peer no longer
//! trusts this node's certificates or this node the peer's, is cut at its age, and the link is down with the
//! reason of the last try.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, join3, select_all};
use tokio::io::AsyncBufReadExt as _;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use sherd_core::env::Rng;
use sherd_proto::convert::call::{NumberedCalls, RegisterStream, ShardStream, UpkeepStream};
use sherd_proto::limits::MESSAGE_BYTES_MAX;
use sherd_proto::v1::admin_service_client::AdminServiceClient;
use sherd_proto::v1::register_service_client::RegisterServiceClient;
use sherd_proto::v1::upkeep_service_client::UpkeepServiceClient;

use super::calls::{CallStream, CallTable};
use super::connection::{Connection, ConnectionTasks, DriverEnd, origin};
use super::limits::{DRAINING_MAX, OPEN_MAX, RECONNECT_MAX, RECONNECT_MIN, SWEEP_EVERY};
use super::link::{CallsLane, Lane, Link, LinkConfig, LiveCalls};
use super::status::{error_chain, status_with_causes};
use crate::tls::{CertificateFacts, HandshakeFailure, Trust};

#[derive(Clone)]
struct LinkKeeper {
    link: Link,
    trust: Trust,
    rng: Arc<dyn Rng>,
}

struct OpenConnection {
    live: LiveLane,
    dialled: Instant,
    /// Ready when the certificates that it was dialled with were replaced too long ago.
    outlived: BoxFuture<'static, ()>,
    driving: JoinHandle<DriverEnd>,
    tasks: ConnectionTasks,
}

/// The connections of a lane that were renewed and end with their last call, the oldest first.
#[derive(Default)]
struct DrainingConnections(VecDeque<(CancellationToken, JoinHandle<()>)>);

/// Why a connection takes no further call.
enum ConnectionEnd {
    /// Broken, or ended by the peer.
    Closed(String),
    /// This node must not use it any more.
    Cut(String),
}

enum LiveLane {
    Calls(Arc<LiveCalls>, CallReaders),
    Bytes(Connection),
}

/// The readers of the replies of the three streams of calls. When dropped, they answer the calls that wait.
struct CallReaders {
    tables: CallTables,
    registers: BoxFuture<'static, String>,
    shards: BoxFuture<'static, String>,
    upkeep: BoxFuture<'static, String>,
}

#[derive(Clone)]
struct CallTables {
    registers: Arc<CallTable<RegisterStream>>,
    shards: Arc<CallTable<ShardStream>>,
    upkeep: Arc<CallTable<UpkeepStream>>,
}

impl DrainingConnections {
    /// Adds one. Beyond the bound it cuts the oldest and returns true: long bodies must not keep later
    /// connections from their renewal, or those would outlive their certificates.
    fn add(&mut self, cut: CancellationToken, ending: JoinHandle<()>) -> bool {
        self.0.retain(|(_, ending)| !ending.is_finished());
        self.0.push_back((cut, ending));
        let oldest = if self.0.len() > DRAINING_MAX { self.0.pop_front() } else { None };
        oldest.is_some_and(|(cut, _)| {
            cut.cancel();
            true
        })
    }
}

impl CallTables {
    fn end(&self, reason: &str) {
        self.registers.end(reason);
        self.shards.end(reason);
        self.upkeep.end(reason);
    }
}

impl CallReaders {
    /// Reads until the first stream ends, and says why. Cancel-safe.
    async fn any_ended(&mut self) -> String {
        let Self { tables: _, registers, shards, upkeep } = self;
        select_all([registers, shards, upkeep]).await.0
    }

    /// Reads until all streams have ended.
    async fn all_ended(&mut self) {
        let Self { tables: _, registers, shards, upkeep } = self;
        join3(registers, shards, upkeep).await;
    }
}

impl Drop for CallReaders {
    fn drop(&mut self) {
        self.tables.end("this node gave the connection up");
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
        let link = Self::new(config, tasks);
        let keeper = LinkKeeper { link: link.clone(), trust: trust.clone(), rng: Arc::clone(rng) };
        for lane in [Lane::Calls, Lane::Bytes] {
            let (keeper, stop) = (keeper.clone(), stop.clone());
            tasks.spawn(async move { keeper.keep(lane, &stop).await });
        }
        link
    }
}

impl LinkKeeper {
    async fn keep(&self, lane: Lane, stop: &CancellationToken) {
        let mut pause = RECONNECT_MIN;
        // Connections from before one was lost count, too.
        let mut draining = DrainingConnections::default();
        loop {
            let begun = Instant::now();
            // Cancel-safe: what is dropped of a connection closes it, and all is over then.
            let reason = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                reason = self.stay_connected(lane, &mut draining, stop) => reason,
            };
            tracing::debug!(peer = %self.link.peer().name, ?lane, %reason, "connection to a peer ended");
            self.show_down(lane, reason.into());
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
        self.show_down(lane, "this node is stopping".into());
    }

    /// Half of a pause to the whole.
    fn jittered(&self, pause: Duration) -> Duration {
        let half_us = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(half_us + self.rng.next_u64() % half_us)
    }

    /// Connects, and renews the connection until one ends that no other replaces. Gives why it did.
    async fn stay_connected(
        &self,
        lane: Lane,
        draining: &mut DrainingConnections,
        stop: &CancellationToken,
    ) -> String {
        let mut open = match self.open(lane).await {
            Ok(open) => open,
            Err(reason) => return reason,
        };
        loop {
            self.show(&open.live);
            let dialled = open.dialled;
            // Cancel-safe: replies that were not read are read by the next wait, and a dial that is dropped
            // closes its socket.
            let renewed = tokio::select! {
                biased;
                end = open.ended() => Err(end),
                renewed = self.renew(lane, dialled) => renewed.map_err(ConnectionEnd::Cut),
            };
            match renewed {
                Ok(next) => {
                    let old = std::mem::replace(&mut open, next);
                    self.replace(&old.live, &open.live);
                    self.drain(lane, old, draining, stop);
                }
                Err(end) => return self.give_up(lane, open, end, draining, stop),
            }
        }
    }

    /// Ends what goes over a connection that no other replaces.
    fn give_up(
        &self,
        lane: Lane,
        open: OpenConnection,
        end: ConnectionEnd,
        draining: &mut DrainingConnections,
        stop: &CancellationToken,
    ) -> String {
        let reason = match &end {
            ConnectionEnd::Closed(reason) | ConnectionEnd::Cut(reason) => reason.clone(),
        };
        self.link.note_lost();
        match (&open.live, end) {
            (LiveLane::Calls(_, readers), _) => readers.tables.end(&reason),
            // A peer that stops takes no further request, and ends those that are under way.
            (LiveLane::Bytes(_), ConnectionEnd::Closed(_)) => self.drain(lane, open, draining, stop),
            (LiveLane::Bytes(_), ConnectionEnd::Cut(_)) => {}
        }
        reason
    }

    /// Waits until a connection is to be renewed, and dials until another one is open.
    ///
    /// # Errors
    /// Why the last try failed, at the age at which the old one must end.
    async fn renew(&self, lane: Lane, dialled: Instant) -> Result<OpenConnection, String> {
        let age = self.link.0.config.age;
        tokio::time::sleep_until(dialled + age.renewal(self.rng.as_ref())).await;
        let deadline = (dialled + age.max()).max(Instant::now() + age.max() / 2);
        let mut failed = "no try ended".to_owned();
        let tries = async {
            loop {
                match self.open(lane).await {
                    Ok(open) => return open,
                    Err(reason) => {
                        tracing::debug!(peer = %self.link.peer().name, ?lane, %reason, "renew a connection");
                        failed = reason;
                    }
                }
                tokio::time::sleep(self.jittered(RECONNECT_MAX)).await;
            }
        };
        let open = tokio::time::timeout_at(deadline, tries).await;
        open.map_err(|_elapsed| format!("too old, and no other connection could be made: {failed}"))
    }

    /// Lets callers find the next connection in place of an old one, which takes no further call.
    fn replace(&self, old: &LiveLane, next: &LiveLane) {
        let metrics = &self.link.0.config.metrics;
        if let (LiveLane::Calls(old, _), LiveLane::Calls(next, _)) = (old, next) {
            let (current, retiring) = (Ok(Arc::clone(next)), Some(Arc::clone(old)));
            *self.link.0.calls.write() = CallsLane { current, retiring };
            metrics.calls_renewed.inc();
        } else {
            self.show(next);
            metrics.bytes_renewed.inc();
        }
    }

    /// Lets a connection end with what is under way on it, among a bounded number of others.
    fn drain(
        &self,
        lane: Lane,
        old: OpenConnection,
        draining: &mut DrainingConnections,
        stop: &CancellationToken,
    ) {
        let cut = stop.child_token();
        let ending = self.let_end(old, cut.clone());
        if draining.add(cut, ending) {
            tracing::warn!(
                peer = %self.link.peer().name, ?lane,
                "cut the oldest of the renewed connections, since too many others carry something, too"
            );
        }
    }

    /// Waits in a task for what is under way on a connection, until that is cut.
    fn let_end(&self, old: OpenConnection, cut: CancellationToken) -> JoinHandle<()> {
        let link = self.link.clone();
        self.link.0.tasks.spawn(async move {
            // Cancel-safe: what is dropped is cut off.
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = old.finish(&link) => {}
            }
        })
    }

    /// Lets callers find a connection.
    fn show(&self, live: &LiveLane) {
        match live {
            LiveLane::Calls(live, _) => self.link.0.calls.write().current = Ok(Arc::clone(live)),
            LiveLane::Bytes(connection) => *self.link.0.bytes.write() = Ok(connection.clone()),
        }
    }

    /// Lets callers find none.
    fn show_down(&self, lane: Lane, reason: Arc<str>) {
        match lane {
            Lane::Calls => self.link.0.calls.write().current = Err(reason),
            Lane::Bytes => *self.link.0.bytes.write() = Err(reason),
        }
    }

    /// Dials, and opens what goes over the connection.
    async fn open(&self, lane: Lane) -> Result<OpenConnection, String> {
        // Before the handshake: certificates that change meanwhile make the connection an old one.
        let (dialled, generation, trust) = (Instant::now(), self.trust.generation(), self.trust.clone());
        let age = self.link.0.config.age;
        let outlived = async move { age.outlived(&trust, generation).await }.boxed();
        let (connection, driving, tasks) = self.dial().await?;
        let live = match lane {
            Lane::Calls => {
                let opened = tokio::time::timeout(OPEN_MAX, self.open_streams(connection)).await;
                let opened = opened.map_err(|_elapsed| "the peer opened no stream in time".to_owned())?;
                let (live, readers) = opened.map_err(|status| status_with_causes(&status))?;
                LiveLane::Calls(Arc::new(live), readers)
            }
            Lane::Bytes => LiveLane::Bytes(connection),
        };
        Ok(OpenConnection { live, dialled, outlived, driving, tasks })
    }

    async fn dial(&self) -> Result<(Connection, JoinHandle<DriverEnd>, ConnectionTasks), String> {
        let LinkConfig { peer, address, metrics, .. } = &self.link.0.config;
        let mut stream = self.trust.connect(address, peer).await.map_err(|error| error_chain(&error))?;
        // The peer speaks first. Where it refuses this node's certificate, which it sees last, its first
        // words are why.
        match tokio::time::timeout(OPEN_MAX, stream.fill_buf()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(HandshakeFailure::from_io(error).to_string()),
            Err(_elapsed) => return Err("the peer did not open HTTP/2 in time".to_owned()),
        }
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let facts = shown.and_then(|certificate| CertificateFacts::read(certificate).ok());
        let tasks = ConnectionTasks::new(&self.link.0.tasks);
        match tokio::time::timeout(OPEN_MAX, Connection::open(stream, &tasks)).await {
            Ok(Ok((connection, driving))) => {
                metrics.peer_certificate_expiry_s.set(facts.map_or(0, |facts| facts.not_after_s));
                Ok((connection, driving, tasks))
            }
            Ok(Err(error)) => Err(format!("open HTTP/2: {}", error_chain(&error))),
            Err(_elapsed) => Err("the peer did not open HTTP/2 in time".to_owned()),
        }
    }

    async fn open_streams(&self, connection: Connection) -> Result<(LiveCalls, CallReaders), Status> {
        let (registers, register_frames) = CallStream::new(self.link.sender());
        let (shards, shard_frames) = CallStream::new(self.link.sender());
        let (upkeep, upkeep_frames) = CallStream::new(self.link.sender());
        let mut register_client = RegisterServiceClient::with_origin(connection.clone(), origin())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let mut shard_client = connection.shards();
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
        let tables =
            CallTables { registers: registers.table(), shards: shards.table(), upkeep: upkeep.table() };
        let readers = CallReaders {
            registers: reader(&self.link, &tables.registers, register_replies.into_inner()),
            shards: reader(&self.link, &tables.shards, shard_replies.into_inner()),
            upkeep: reader(&self.link, &tables.upkeep, upkeep_replies.into_inner()),
            tables,
        };
        Ok((LiveCalls { registers, shards, upkeep, admin }, readers))
    }
}

impl OpenConnection {
    /// Returns why the connection takes no further call. Cancel-safe.
    async fn ended(&mut self) -> ConnectionEnd {
        let Self { live, driving, outlived, .. } = self;
        let readers_end = async {
            match live {
                LiveLane::Calls(_, readers) => readers.any_ended().await,
                LiveLane::Bytes(_) => std::future::pending().await,
            }
        };
        // Cancel-safe: all arms are.
        tokio::select! {
            biased;
            reason = readers_end => ConnectionEnd::Closed(reason),
            ended = driving => ConnectionEnd::Closed(driver_end(ended)),
            () = outlived => ConnectionEnd::Cut("its certificates were replaced long ago".to_owned()),
        }
    }

    /// Waits for what is under way on a connection that takes no further call, as long as its certificates
    /// allow.
    async fn finish(self, link: &Link) {
        let Self { live, outlived, tasks, .. } = self;
        // Cancel-safe: what is dropped is cut off with the tasks.
        tokio::select! {
            biased;
            () = outlived => {}
            () = live.finish(link, &tasks) => {}
        }
    }
}

impl LiveLane {
    async fn finish(self, link: &Link, tasks: &ConnectionTasks) {
        match self {
            Self::Calls(live, mut readers) => {
                let close = async {
                    // Commits follow their accepts here until none waits.
                    let mut looks = tokio::time::interval(SWEEP_EVERY);
                    while live.registers.is_waiting() {
                        looks.tick().await;
                    }
                    let mut lane = link.0.calls.write();
                    if lane.retiring.as_ref().is_some_and(|other| Arc::ptr_eq(other, &live)) {
                        lane.retiring = None;
                    }
                    drop(lane);
                    // The last caller that holds it closes the streams behind the calls that were queued.
                    drop(live);
                };
                tokio::join!(close, readers.all_ended());
            }
            Self::Bytes(connection) => drop(connection),
        }
        tasks.ended().await;
    }
}

/// Reads the replies of a stream until it ends; its calls that wait then are unreachable.
fn reader<S: NumberedCalls>(
    link: &Link,
    table: &Arc<CallTable<S>>,
    replies: tonic::Streaming<S::Replies>,
) -> BoxFuture<'static, String> {
    let (link, table) = (link.clone(), Arc::clone(table));
    async move {
        let reason = table.answer_calls(replies).await;
        link.note_lost();
        table.end(&reason);
        reason
    }
    .boxed()
}

fn driver_end(ended: Result<DriverEnd, tokio::task::JoinError>) -> String {
    match ended {
        Ok(Some(Ok(()))) => "the peer closed the connection".to_owned(),
        Ok(Some(Err(error))) => format!("the connection broke: {}", error_chain(&error)),
        Ok(None) | Err(_) => "the connection was cut off".to_owned(),
    }
}
