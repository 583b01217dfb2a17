//! The proposer: rounds over the volumes of a key's set, around the decisions of
//! [`sherd_core::register`].
//!
//! Nothing here decides: code here asks volumes, collects the answers that come in time, passes them to the
//! core's functions and carries out their decisions. `read` returns committed values only. A change makes a
//! new value from the one it finds, as one compare-and-set; writers of one key share it: `writers` holds
//! those that wait, `writer` one of them, `batch` those at work, `change` their rounds, `hint` the work after
//! a commit.

mod failure;
mod limits;
mod key_writers;
mod turn;
mod writers;
mod writer;
mod batch;
mod ballots;
mod contention;
mod change;
mod hint;
mod room;
mod read;
pub(crate) mod refs;
mod round;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use sherd_core::checksum::Digest;
use sherd_core::env::{HybridClock, Rng};
use sherd_core::id::{Ballot, ProposerId, Timestamp, VolumeId};
use sherd_core::message;
use sherd_core::record::{Body, Content, Object, State, Value};
use sherd_core::register::Answerer;
use sherd_core::register::quorum::Lives;
use sherd_volume::buffer::BufferPool;

use crate::cluster::damage::Damage;
use crate::cluster::{Cluster, KeyRoute, SetView};
use crate::machine::budget::{Budget, CapShares};
use crate::machine::reclaim::Reclaim;
use crate::observe::metrics::Metrics;
use crate::observe::trace::{self, Phase};
use crate::peer::HedgedGather;

pub use failure::Failure;
pub use writer::{ChangeError, Inline, Proposal, Writer};
pub use writers::WriteTicket;

use self::limits::{SECOND_LOOKS_MAX, SKEW_LOG_EVERY, VALUE_PATIENCE};
use contention::Contention;
use key_writers::Writers;
use room::ValueRoom;

/// How long the rounds wait.
#[derive(Debug, Clone, Copy)]
pub struct RegisterTimeouts {
    /// For the replies of one round.
    pub round: Duration,
    /// For a whole operation, its retries included.
    pub operation: Duration,
    /// For the volumes asked first, before a read asks the others too.
    pub hedge: Duration,
    /// For another proposer to commit the write that a read found, at least: about two commit times where
    /// those are short.
    pub commit: Duration,
}

impl Default for RegisterTimeouts {
    fn default() -> Self {
        Self {
            round: Duration::from_secs(5),
            operation: Duration::from_secs(20),
            hedge: Duration::from_millis(100),
            commit: Duration::from_millis(60),
        }
    }
}

/// A row that a quorum showed for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumRow {
    pub(crate) ballot: Ballot,
    /// The hash of the stored head.
    pub(crate) digest: Digest,
    pub(crate) committed: bool,
    pub(crate) holders: Vec<VolumeId>,
    /// Stored head of the row.
    pub(crate) head: Bytes,
    /// Decoded value.
    pub value: Value,
    /// Memory for values that both take.
    pub(crate) room: ValueRoom,
}

/// Answer of the volumes that showed a row, to the question for the rest of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowAnswer<T> {
    /// This, from one of them or from another volume of the set.
    Given(T),
    /// A volume that showed it has another row by now: read the register again.
    MovedOn,
    /// At least one of them cannot read it, and the others do not answer. Asked again they say the same.
    Corrupt,
    /// No holder answers.
    Late,
}

/// Reasons of the volumes that did not return a row.
#[derive(Debug, Clone, Copy, Default)]
struct RowRefusals {
    moved_on: bool,
    corrupt: bool,
}

impl RowRefusals {
    /// Whether the row is known to have moved on, and none but late volumes could still give it: a look at
    /// the newer row takes less time than they do.
    fn are_enough(self, set: &SetView, mut left: impl Iterator<Item = usize>) -> bool {
        self.moved_on && left.all(|place| set.is_late(place))
    }

    /// The answer of all of them together.
    const fn together<T>(self) -> RowAnswer<T> {
        match self {
            Self { moved_on: true, corrupt: _ } => RowAnswer::MovedOn,
            Self { moved_on: false, corrupt: true } => RowAnswer::Corrupt,
            Self { moved_on: false, corrupt: false } => RowAnswer::Late,
        }
    }
}

impl QuorumRow {
    /// Whether bytes are those that the row keeps inline, by the hash in its head. Other bytes came from a
    /// volume, or a way to it, that cannot be believed.
    fn has_inline(&self, bytes: &[u8]) -> bool {
        let mut contents = self.value.state.inline_contents();
        let Some(Content { size, body: Body::Inline { hash }, .. }) = contents.next() else {
            return bytes.is_empty();
        };
        // Several lie one behind the other, and each is verified where it is served.
        contents.next().is_some() || (bytes.len() as u64 == *size && blake3::hash(bytes).as_bytes() == hash)
    }

    /// The row without what only the writers of its key need: its open uploads, its stored head, and the room
    /// of both. A reader holds this while it waits for other answers.
    #[must_use]
    pub(crate) fn for_reading(mut self) -> Self {
        if let State::Object(object) = &mut self.value.state {
            object.uploads = Vec::new();
        }
        self.head = Bytes::new();
        self.room = ValueRoom::default();
        self
    }

    /// The object, unless the key was deleted.
    pub(crate) fn object(&self) -> Option<&Object> {
        self.value.state.object()
    }
}

/// The registers, as this process proposes to them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Registers {
    inner: Arc<RegistersShared>,
}

#[derive(Debug)]
struct RegistersShared {
    cluster: Arc<Cluster>,
    clock: Arc<HybridClock>,
    rng: Arc<dyn Rng>,
    proposer: ProposerId,
    ballots: ballots::Ballots,
    births: Arc<HybridClock>,
    timeouts: RegisterTimeouts,
    lives: RwLock<Arc<Lives>>,
    /// When each volume was last named as skewed.
    skew_logged: Mutex<HashMap<VolumeId, Instant>>,
    writers: Writers,
    contention: Contention,
    /// For looking once more at volumes that refused what others took.
    second_looks: Semaphore,
    damage: Damage,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    /// For long values.
    values: Budget,
}

/// The budget for long values that a pool's cap leaves. Those that wait for it ask no connection for
/// anything: it is given back within a request's time.
pub fn value_budget(pool: &BufferPool) -> Budget {
    let bytes = CapShares::of(pool.usage().cap_bytes).values;
    Budget::new(bytes, VALUE_PATIENCE, Reclaim::default())
}

/// Parts that the registers are built from.
#[derive(Debug)]
pub struct RegistersConfig {
    /// The topology in force.
    pub cluster: Arc<Cluster>,
    /// The clock of ballots.
    pub clock: Arc<HybridClock>,
    /// Where ids and pauses are drawn.
    pub rng: Arc<dyn Rng>,
    /// This process, in the ballots and ids that it makes.
    pub proposer: ProposerId,
    /// The clock that data ids are born by.
    pub births: Arc<HybridClock>,
    /// How long volumes may take.
    pub timeouts: RegisterTimeouts,
    /// Where damage is reported.
    pub damage: Damage,
    /// Counters of rounds, conflicts and outcomes.
    pub metrics: Arc<Metrics>,
    /// Where stragglers of decided rounds are waited for.
    pub tasks: TaskTracker,
    /// Memory that long values may take.
    pub values: Budget,
}

impl Registers {
    /// Builds the proposer.
    pub fn new(config: RegistersConfig) -> Self {
        let RegistersConfig { cluster, clock, rng, proposer, births, timeouts, .. } = config;
        let RegistersConfig { damage, metrics, tasks, values, .. } = config;
        let inner = RegistersShared {
            ballots: ballots::Ballots::new(Arc::clone(clock.wall()), Arc::clone(&rng), proposer),
            lives: RwLock::new(Arc::new(Lives::default())),
            writers: Writers::default(),
            contention: Contention::new(),
            skew_logged: Mutex::new(HashMap::new()),
            cluster,
            clock,
            rng,
            proposer,
            births,
            timeouts,
            second_looks: Semaphore::new(SECOND_LOOKS_MAX),
            damage,
            metrics,
            tasks,
            values,
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn proposer(&self) -> ProposerId {
        self.inner.proposer
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.inner.tasks
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.inner.clock.wall().wall_ms())
    }

    pub(crate) fn known_lives(&self) -> Arc<Lives> {
        Arc::clone(&self.inner.lives.read())
    }

    /// Reports volumes whose clocks are far from this node's.
    fn note_skew(&self, volumes: &[VolumeId]) {
        for volume in volumes {
            self.inner.metrics.register.skewed.inc();
            let now = Instant::now();
            let mut logged = self.inner.skew_logged.lock();
            if logged.get(volume).is_none_or(|last| now.duration_since(*last) >= SKEW_LOG_EVERY) {
                logged.insert(*volume, now);
                tracing::warn!(%volume, "the volume's clock is far from this node's; it counts as unanswered");
            }
        }
    }

    /// Data that is born from here on lies above a data floor.
    pub(crate) fn note_data_floor(&self, floor: Timestamp) {
        self.inner.births.tick_above(floor);
    }

    /// Adds the lives that an answer names; copies only if one is higher than known.
    pub(crate) fn learn(&self, volume: VolumeId, from: &Answerer) {
        let news = {
            let known = self.inner.lives.read();
            let newer = |id, life| known.of(id).is_none_or(|known| known < life);
            newer(volume, from.life) || from.peers.iter().any(|(peer, life)| newer(*peer, *life))
        };
        if news {
            let mut known = self.inner.lives.write();
            let mut lives = Lives::clone(&known);
            lives.learn_from(volume, from);
            *known = Arc::new(lives);
        }
    }

    /// Reads the inline bytes of a found value: from the volumes that showed it, or from any other that has
    /// it, too.
    ///
    /// That others do not have it says nothing: a write that was cut short is on few volumes.
    pub(crate) async fn inline(&self, route: &KeyRoute, found: &QuorumRow) -> RowAnswer<Bytes> {
        let _timer = trace::timer(Phase::Register);
        self.found_inline(route, found).await
    }

    async fn found_inline(&self, route: &KeyRoute, found: &QuorumRow) -> RowAnswer<Bytes> {
        let KeyRoute { set, target } = route;
        let mut refusals = RowRefusals::default();
        let mut holders = self.hedged(holders_first(set, &found.holders));
        let inline = |place: usize| {
            let route = &set.routes[place];
            route.peer.inline(route.volume, target, found.ballot)
        };
        while let Some((place, answer)) = holders.next(1, inline).await {
            match answer {
                Ok(bytes) if found.has_inline(&bytes) => return RowAnswer::Given(bytes),
                Err(message::Error::NotFound) => {
                    refusals.moved_on |= found.holders.contains(&set.routes[place].volume);
                }
                Ok(_) | Err(message::Error::Corrupt { .. }) => {
                    refusals.corrupt = true;
                    self.inner.damage.row(&target.key);
                }
                Err(_) => {}
            }
            if refusals.are_enough(set, holders.places()) {
                break;
            }
        }
        refusals.together()
    }

    /// Asks in this order for what one of them can give, all of them within the time of one round.
    fn hedged<R: Unpin>(&self, order: Vec<usize>) -> HedgedGather<R> {
        let RegisterTimeouts { round, hedge, .. } = self.inner.timeouts;
        HedgedGather::new(order, hedge, Instant::now() + round)
    }
}

/// The places of a set, those that hold the row first, and of each kind those that are late behind the
/// others.
fn holders_first(set: &SetView, holders: &[VolumeId]) -> Vec<usize> {
    let mut places = set.prompt_first(0).into_vec();
    places.sort_by_key(|place| !holders.contains(&set.routes[*place].volume));
    places
}

#[cfg(test)]
pub(crate) mod tests;
