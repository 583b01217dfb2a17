//! Writes one body: cuts stripes, encodes, sends a shard to every volume of the set, and says when
//! enough of them are durable.
//!
//! ```text
//! StripeWriter --push--> ... --seal--> Syncing --durable--> Staged --named--> (a register names it)
//! ```
//!
//! While some stripes are being written the next is gathered, and digests may lag some stripes behind, both
//! as far as the budget has room. The memory of a stripe is taken with its first bytes, and not before: a
//! client that sends none holds none. Bytes that go to files of their own are gathered into buffers of the
//! pool, a shard's unit each: written past the page cache from there, and half-empty network buffers are
//! given back at once. Until `named`, dropping any of them removes what was written: no accept was sent, so
//! no other node names it.

use bytes::Bytes;

use sherd_core::id::{Life, RegisterKey, ShardId, VolumeId};
use sherd_core::message;
use sherd_core::message::{ShardFileHeader, Target};
use sherd_core::placement;
use sherd_core::record::{DataRef, Home};
use sherd_core::register::DurableShards;
use sherd_core::register::quorum::Lives;
use sherd_core::stripe::Layout;
use sherd_volume::buffer::{Buffer, BufferPool};
use tokio::time::Instant;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::digester::{BodyDigester, DigestQueue, DigestWindow};
use super::encode::{BufferList, cut_stripe, encode};
use super::limits::UNSEEN_STRIPES_MAX;
use super::{BudgetExhausted, Stripes, code_of};
use crate::cluster::damage::{Damage, GivenUpData};
use crate::cluster::durable::{GivenUpVolumes, VolumeSubset};
use crate::cluster::{KeyRoute, SetView};
use crate::machine::budget::{BudgetShare, Share};
use crate::observe::trace::{self, Phase};
use crate::peer::{self, APPENDS_UNDER_WAY_MAX, Gather, LATE_LOOK_EVERY, ShardSink};

/// Data could not be made durable; what was written of it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("too few volumes")]
    Quorum,
    #[error("volumes full")]
    Full,
    #[error("overloaded")]
    Overloaded,
}

impl From<BudgetExhausted> for WriteError {
    fn from(_: BudgetExhausted) -> Self {
        Self::Overloaded
    }
}

/// Removes unnamed data when dropped.
#[derive(Debug)]
struct UnnamedData {
    set: Arc<SetView>,
    data: DataRef,
    /// The register that was to name it.
    key: RegisterKey,
    armed: bool,
    /// The volumes that were sent a whole shard.
    sent_to: VolumeSubset,
    /// Volumes of `sent_to` that did not answer yet: a removal goes over the connection of calls, and may
    /// overtake a shard.
    unanswered: VolumeSubset,
    /// Where removals that fail, or that a shard may come behind, are looked after.
    damage: Damage,
}

impl UnnamedData {
    fn route(&self, index: usize) -> &peer::VolumeRoute {
        &self.set.routes[self.place(index)]
    }

    fn place(&self, index: usize) -> usize {
        placement::home(self.data.id, self.shard(index).index, self.set.routes.len())
    }

    /// Notes what a volume said of its shard. One that cannot be reached may have it, or get it later; one
    /// that is full or busy did not take it.
    fn answered<T>(&mut self, place: usize, said: &message::Result<T>) {
        let only = VolumeSubset::default().with(place);
        match said {
            Ok(_) => self.unanswered = self.unanswered.without(only),
            Err(message::Error::Full | message::Error::Busy) => {
                (self.sent_to, self.unanswered) = (self.sent_to.without(only), self.unanswered.without(only));
            }
            Err(_) => {}
        }
    }

    fn shard(&self, index: usize) -> ShardId {
        let index = u8::try_from(index).expect("a set has at most 32 volumes");
        ShardId { data: self.data.id, index }
    }
}

impl Drop for UnnamedData {
    fn drop(&mut self) {
        if self.armed {
            let mut removals = Vec::with_capacity(self.sent_to.count());
            for index in 0..self.set.routes.len() {
                let route = self.route(index);
                let removal = route.peer.delete_shard(route.volume, self.shard(index), self.data.home);
                if self.sent_to.has(self.place(index)) {
                    removals.push(removal);
                }
            }
            if !removals.is_empty() {
                let may_come_late = self.unanswered.count() > 0;
                let (key, data) = (self.key.clone(), self.data);
                self.damage.given_up(GivenUpData { key, data, removals, may_come_late });
            }
        }
    }
}

pub(crate) struct StripeWriter {
    stripes: Stripes,
    target: Target,
    unnamed: UnnamedData,
    layout: Layout,
    stripe: u64,
    gathered: StripeBuffer,
    digest_queue: Option<Arc<DigestQueue>>,
    /// The stripes that are still to be seen, in their order.
    unseen: VecDeque<DigestWindow>,
    sinks: Vec<Option<Box<dyn ShardSink>>>,
    /// The stripes that are being written, in their order.
    appending: VecDeque<AppendingStripe>,
    gathering_share: Option<Share>,
    /// The part in the budget of uploads of a body that goes to files.
    _taker: Option<BudgetShare>,
    failures: Failures,
}

impl std::fmt::Debug for StripeWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StripeWriter").field("data", &self.unnamed.data).finish_non_exhaustive()
    }
}

/// A stripe that is being written.
#[derive(Debug)]
struct AppendingStripe {
    answers: Gather<()>,
    /// The places that took it.
    appended: VolumeSubset,
    /// Until when it is waited for, once it is the first one.
    deadline: Option<Instant>,
    /// Whether its slowest answer was counted.
    is_counted: bool,
    _share: Arc<Share>,
}

/// Where shards failed, and why most of them did.
#[derive(Debug, Default)]
struct Failures {
    places: VolumeSubset,
    full: usize,
    busy: usize,
    /// Volumes that were lost to a node that was down.
    given_up: GivenUpVolumes,
}

impl Failures {
    fn add(&mut self, place: usize, error: &message::Error) {
        if !self.places.has(place) {
            self.places = self.places.with(place);
            self.full += usize::from(*error == message::Error::Full);
            self.busy += usize::from(*error == message::Error::Busy);
        }
    }

    /// Whether a write goes on with these shards. Where volumes do not answer it may have to wait until it
    /// shows that their node is down, for fewer are enough then; a volume that is full or busy is not down.
    async fn judge(&mut self, set: &SetView, shards: VolumeSubset) -> Result<(), WriteError> {
        let is_enough = match self.verdict() {
            WriteError::Quorum => set.become_enough(shards, self.places, &mut self.given_up).await,
            WriteError::Full | WriteError::Overloaded => set.are_enough(shards, self.given_up.places()),
        };
        if is_enough { Ok(()) } else { Err(self.verdict()) }
    }

    fn verdict(&self) -> WriteError {
        if self.full > 0 {
            WriteError::Full
        } else if self.busy > 0 {
            WriteError::Overloaded
        } else {
            WriteError::Quorum
        }
    }
}

impl Stripes {
    /// Begins a body of `size` bytes (at least 1) that the register at `route` will name.
    pub(crate) async fn write(
        &self,
        route: &KeyRoute,
        size: u64,
        home: Home,
    ) -> Result<StripeWriter, WriteError> {
        let KeyRoute { set, target } = route.clone();
        let taker = (home == Home::File).then(|| self.inner.uploads.join());
        let data = self.new_data(&set, size, home);
        let layout = Layout::new(size, set.geometry, data.stripe_unit)
            .expect("the size is at least 1 and the topology's geometry is valid");
        let gathering_share = self.inner.uploads.take(self.stripe_cost(&layout, 0, set.routes.len())).await?;
        let damage = self.inner.damage.clone();
        let key = target.key.clone();
        let (sent_to, unanswered) = (VolumeSubset::default(), VolumeSubset::default());
        let unnamed = UnnamedData { set, data, key, armed: true, sent_to, unanswered, damage };
        let sinks = match home {
            Home::Packed => Vec::new(),
            Home::File => open_sinks(&unnamed, &layout, &target),
        };
        let gathered = match home {
            Home::Packed => StripeBuffer::List(BufferList::default()),
            Home::File => StripeBuffer::Units(StripeUnits::default()),
        };
        Ok(StripeWriter {
            stripes: self.clone(),
            target,
            unnamed,
            layout,
            stripe: 0,
            gathered,
            digest_queue: None,
            unseen: VecDeque::new(),
            sinks,
            appending: VecDeque::new(),
            gathering_share: Some(gathering_share),
            _taker: taker,
            failures: Failures::default(),
        })
    }

    /// Counts the time of the slowest volume that was waited for with bytes of shards, answered or not.
    fn written<R: Unpin>(&self, data: &UnnamedData, answers: &Gather<R>) {
        let slowest = [answers.waits_for(), answers.slowest()].into_iter().flatten();
        if let Some((index, took)) = slowest.max_by_key(|(_, took)| *took) {
            let place = data.place(index);
            self.inner.metrics.written(data.set.homes[place].is_own, took);
            trace::called(|| data.set.call(Phase::ShardWrite, place, took), took);
        }
    }

    /// Memory of a stripe in flight: its shards, parity included.
    fn stripe_cost(&self, layout: &Layout, stripe: u64, volumes: usize) -> usize {
        let unit = usize::try_from(layout.unit(stripe)).expect("a stripe unit fits memory");
        self.inner.pool.class_bytes(unit) * volumes
    }
}

/// The bytes of the stripe that comes next.
#[derive(Debug)]
enum StripeBuffer {
    /// As they came.
    List(BufferList),
    /// In the pool.
    Units(StripeUnits),
}

impl StripeBuffer {
    const fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Units(units) => units.length,
        }
    }
}

/// The data shards of a stripe, one pooled buffer each, filled one after the other.
#[derive(Debug, Default)]
struct StripeUnits {
    buffers: Vec<Buffer>,
    length: usize,
}

impl StripeUnits {
    /// Copies from the front of `bytes` until they or the stripe's `shards` units are used up.
    fn fill(
        &mut self,
        bytes: &mut Bytes,
        unit: usize,
        shards: usize,
        pool: &BufferPool,
    ) -> Result<(), WriteError> {
        while !bytes.is_empty() && self.length < unit * shards {
            let at = self.length % unit;
            if at == 0 {
                self.buffers.push(pool.try_take(unit).ok_or(WriteError::Overloaded)?);
            }
            let part = bytes.split_to(bytes.len().min(unit - at));
            let buffer = self.buffers.last_mut().expect("taken above, or not full");
            buffer[at..at + part.len()].copy_from_slice(&part);
            self.length += part.len();
        }
        Ok(())
    }

    /// Hands the stripe out, zeros behind the end of its bytes.
    fn take(&mut self, shards: usize, unit: usize, pool: &BufferPool) -> Result<Vec<Vec<Bytes>>, WriteError> {
        let begun = self.length % unit;
        if let Some(last) = self.buffers.last_mut().filter(|_| begun > 0) {
            last[begun..].fill(0);
        }
        while self.buffers.len() < shards {
            let mut zeros = pool.try_take(unit).ok_or(WriteError::Overloaded)?;
            zeros.fill(0);
            self.buffers.push(zeros);
        }
        self.length = 0;
        Ok(self.buffers.drain(..).map(|buffer| vec![buffer.freeze(unit)]).collect())
    }
}

fn open_sinks(unnamed: &UnnamedData, layout: &Layout, target: &Target) -> Vec<Option<Box<dyn ShardSink>>> {
    (0..unnamed.set.routes.len())
        .map(|index| {
            let header = ShardFileHeader {
                shard: unnamed.shard(index),
                key: target.key.clone(),
                data_shards: unnamed.data.data_shards,
                parity_shards: unnamed.data.parity_shards,
                stripe_unit: unnamed.data.stripe_unit,
                shard_bytes: layout.shard_bytes(),
            };
            let route = unnamed.route(index);
            Some(route.peer.create_shard(route.volume, target, header, false))
        })
        .collect()
}

impl StripeWriter {
    /// Shows the bytes to a digester too, from the first to the last before [`Self::seal`] returns: only if
    /// they go to files.
    pub(crate) fn watched(self, digester: Arc<dyn BodyDigester>) -> Self {
        debug_assert_eq!(self.unnamed.data.home, Home::File, "packed bytes are no buffers of the pool");
        Self { digest_queue: Some(DigestQueue::before(digester)), ..self }
    }

    /// Takes the next bytes; waits while as many stripes are being written as may be, and for memory.
    pub(crate) async fn push(&mut self, bytes: Bytes) -> Result<(), WriteError> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            self.make_room().await?;
            let unit = self.unit();
            match &mut self.gathered {
                StripeBuffer::List(list) => list.push(std::mem::take(&mut bytes)),
                StripeBuffer::Units(units) => {
                    let shards = usize::from(self.unnamed.data.data_shards);
                    units.fill(&mut bytes, unit, shards, &self.stripes.inner.pool)?;
                }
            }
            let is_last = self.stripe + 1 >= self.layout.stripes();
            if is_last || self.gathered.len() < self.stripe_bytes() {
                return Ok(());
            }
            self.flush().await?;
        }
        Ok(())
    }

    /// Whether the next bytes begin a stripe whose memory is not taken yet.
    pub(crate) fn needs_room(&self) -> bool {
        self.gathering_share.is_none() && self.stripe < self.layout.stripes()
    }

    /// Takes the memory of the stripe that comes next, unless it is taken. No writer waits for a share while
    /// it holds one: what is being written comes first.
    pub(crate) async fn make_room(&mut self) -> Result<(), WriteError> {
        if !self.needs_room() {
            return Ok(());
        }
        let cost = self.stripes.stripe_cost(&self.layout, self.stripe, self.unnamed.set.routes.len());
        self.gathering_share = self.stripes.inner.uploads.try_take(cost);
        if self.gathering_share.is_none() {
            self.settled_up_to(0).await?;
            self.seen_up_to(0).await;
            self.gathering_share = Some(self.stripes.inner.uploads.take(cost).await?);
        }
        Ok(())
    }

    /// Whether a body of which `bytes_per_second` arrive is to be given up: another one waits for the memory
    /// of the stripe that is gathered.
    pub(crate) fn gives_way(&self, bytes_per_second: u64) -> bool {
        self.gathering_share.is_some() && self.stripes.inner.uploads.takes(bytes_per_second)
    }

    /// Ends the body. The last syncs are under way when this returns.
    pub(crate) async fn seal(mut self) -> Result<SyncingBody, WriteError> {
        let gather = match self.unnamed.data.home {
            Home::Packed => {
                let shards = self.encode_stripe()?;
                Gather::new(shards.into_iter().enumerate().map(|(index, payload)| {
                    let route = self.unnamed.route(index);
                    let shard = self.unnamed.shard(index);
                    (index, route.peer.put_shard(route.volume, shard, &self.target, payload))
                }))
            }
            Home::File => {
                self.flush().await?;
                self.settled_up_to(0).await?;
                self.seen_up_to(0).await;
                let sinks = self.sinks.iter_mut().enumerate();
                Gather::new(sinks.filter_map(|(index, sink)| Some((index, sink.take()?.finish()))))
            }
        };
        // A shard takes a sync: an answer that is there already is a refusal, and nothing was sent.
        let sent = gather.places().filter(|index| !gather.is_there(*index));
        let sent = sent.fold(VolumeSubset::default(), |sent, index| sent.with(self.unnamed.place(index)));
        (self.unnamed.sent_to, self.unnamed.unanswered) = (sent, sent);
        Ok(SyncingBody {
            timeouts: self.stripes.inner.timeouts,
            stripes: self.stripes,
            all_shards: self.unnamed.set.routes.len(),
            unnamed: self.unnamed,
            gather,
            failures: self.failures,
            _share: self.gathering_share,
        })
    }

    fn unit(&self) -> usize {
        usize::try_from(self.layout.unit(self.stripe)).expect("a stripe unit fits memory")
    }

    fn stripe_bytes(&self) -> usize {
        self.unit() * usize::from(self.unnamed.data.data_shards)
    }

    /// Writes the gathered stripe behind those that are being written.
    async fn flush(&mut self) -> Result<(), WriteError> {
        let length = self.gathered.len();
        let shards = self.encode_stripe()?;
        self.settled_up_to(APPENDS_UNDER_WAY_MAX - 1).await?;
        self.seen_up_to(UNSEEN_STRIPES_MAX - 1).await;
        let share = Arc::new(self.gathering_share.take().expect("a stripe is gathered under its share"));
        if let Some(queue) = &self.digest_queue {
            let data = shards[..usize::from(self.unnamed.data.data_shards)].concat();
            let digests = &self.stripes.inner.digests;
            self.unseen.push_back(queue.show(digests, data, length, Arc::clone(&share)));
        }
        let appends = shards.into_iter().enumerate().filter_map(|(index, bytes)| {
            let sink = self.sinks[index].as_mut()?;
            Some((index, sink.append(bytes)))
        });
        self.appending.push_back(AppendingStripe {
            answers: Gather::new(appends),
            appended: VolumeSubset::default(),
            deadline: None,
            is_counted: false,
            _share: share,
        });
        self.stripe += 1;
        Ok(())
    }

    /// Waits until at most this number of stripes is unseen.
    async fn seen_up_to(&mut self, unseen_max: usize) {
        while self.unseen.len() > unseen_max {
            let Some(first) = self.unseen.pop_front() else { break };
            first.wait().await;
        }
    }

    /// Cuts the gathered stripe into data shards and adds their parity.
    fn encode_stripe(&mut self) -> Result<Vec<Vec<Bytes>>, WriteError> {
        let data = &self.unnamed.data;
        let unit = self.unit();
        let data_shards = usize::from(data.data_shards);
        let mut shards = match &mut self.gathered {
            StripeBuffer::List(list) => cut_stripe(list, data_shards, unit),
            StripeBuffer::Units(units) => units.take(data_shards, unit, &self.stripes.inner.pool)?,
        };
        let code = code_of(data).expect("the topology's geometry is valid");
        let mut parity = (0..data.parity_shards)
            .map(|_| self.stripes.inner.pool.try_take(unit).ok_or(WriteError::Overloaded))
            .collect::<Result<Vec<Buffer>, WriteError>>()?;
        encode(&code, &shards, parity.iter_mut().map(|buffer| &mut buffer[..unit]).collect());
        shards.extend(parity.into_iter().map(|buffer| vec![buffer.freeze(unit)]));
        Ok(shards)
    }

    /// Waits until nothing is being written. While a client sends nothing this gives the memory back of what
    /// it sent before. Cancel-safe.
    pub(crate) async fn settle(&mut self) -> Result<(), WriteError> {
        self.settled_up_to(0).await
    }

    /// Waits until at most this number of stripes is being written. Cancel-safe.
    async fn settled_up_to(&mut self, appending_max: usize) -> Result<(), WriteError> {
        while self.appending.len() > appending_max {
            self.settle_first().await?;
        }
        Ok(())
    }

    /// Waits for the appends of the first stripe. A shard that fails, or whose volume is late, is left behind
    /// while enough others go on. Cancel-safe: the stripe stays the first one until it is settled.
    async fn settle_first(&mut self) -> Result<(), WriteError> {
        loop {
            let Some(AppendingStripe { answers, appended, deadline, .. }) = self.appending.front_mut() else {
                return Ok(());
            };
            let deadline =
                *deadline.get_or_insert_with(|| Instant::now() + self.stripes.inner.timeouts.shard);
            while let Some((index, result)) = answers.take_now() {
                match result {
                    Ok(()) => *appended = appended.with(self.unnamed.place(index)),
                    Err(error) => {
                        leave_behind(&mut self.sinks, &mut self.failures, &self.unnamed, index, &error);
                    }
                }
            }
            // A volume that was left behind earlier may still have taken its shard.
            let going_on = appended.without(self.failures.places);
            let are_unneeded = self.unnamed.set.are_enough(going_on, self.failures.given_up.places())
                && answers.places().all(|index| self.unnamed.route(index).is_late());
            if answers.is_empty() || are_unneeded || Instant::now() >= deadline {
                break;
            }
            let (all, look) = (answers.len(), Instant::now() + LATE_LOOK_EVERY);
            let gathered = tokio::time::timeout_at(look.min(deadline), answers.gathered(all));
            let _ended = trace::timed(Phase::ShardWrite, gathered).await;
        }
        if let Some(AppendingStripe { answers, is_counted, .. }) = self.appending.front_mut() {
            if !std::mem::replace(is_counted, true) {
                self.stripes.written(&self.unnamed, answers);
            }
            for index in answers.places() {
                leave_behind(&mut self.sinks, &mut self.failures, &self.unnamed, index, &too_slow());
            }
        }
        let left = VolumeSubset::first(self.unnamed.set.routes.len()).without(self.failures.places);
        self.failures.judge(&self.unnamed.set, left).await?;
        self.appending.pop_front();
        Ok(())
    }
}

fn leave_behind(
    sinks: &mut [Option<Box<dyn ShardSink>>],
    failures: &mut Failures,
    unnamed: &UnnamedData,
    index: usize,
    error: &message::Error,
) {
    sinks[index] = None;
    failures.add(unnamed.place(index), error);
}

fn too_slow() -> message::Error {
    message::Error::Unreachable { reason: "no answer in time".to_owned() }
}

/// A body whose last bytes have arrived and whose last syncs are under way.
#[derive(Debug)]
pub(crate) struct SyncingBody {
    timeouts: super::StripeTimeouts,
    stripes: Stripes,
    all_shards: usize,
    unnamed: UnnamedData,
    gather: Gather<Life>,
    failures: Failures,
    /// Memory of packed bytes until they are durable.
    _share: Option<Share>,
}

impl SyncingBody {
    /// Waits until the data is durable enough, and a little longer for the rest that is not late.
    pub(crate) async fn durable(mut self) -> Result<StagedData, WriteError> {
        let (mut durable, mut lives) = (VolumeSubset::default(), Vec::with_capacity(self.all_shards));
        // Enough volumes once are enough: a node that comes back meanwhile takes none away.
        let mut are_enough = false;
        let deadline = Instant::now() + self.timeouts.shard;
        let mut stragglers_until = None;
        while !self.gather.is_empty() {
            // Fewer are enough once a node is down.
            are_enough |= self.unnamed.set.are_enough(durable, self.failures.given_up.places());
            let (wanted, until) = if are_enough {
                let until = Instant::now() + self.timeouts.straggler;
                (self.gather.len(), *stragglers_until.get_or_insert(until))
            } else {
                (1, deadline.min(Instant::now() + LATE_LOOK_EVERY))
            };
            let are_unneeded =
                are_enough && self.gather.places().all(|index| self.unnamed.route(index).is_late());
            if !are_unneeded {
                let answers = tokio::time::timeout_at(until, self.gather.gathered(wanted));
                let _ended = trace::timed(Phase::ShardWrite, answers).await;
            }
            while let Some((index, finished)) = self.gather.take_now() {
                let place = self.unnamed.place(index);
                self.unnamed.answered(place, &finished);
                match finished {
                    Ok(life) => {
                        durable = durable.with(place);
                        lives.push((self.unnamed.set.routes[place].volume, life));
                    }
                    Err(error) => self.failures.add(place, &error),
                }
            }
            let is_over = if are_enough { stragglers_until } else { Some(deadline) };
            if are_unneeded || is_over.is_some_and(|until| Instant::now() >= until) {
                break;
            }
        }
        self.stripes.written(&self.unnamed, &self.gather);
        if !are_enough {
            self.failures.judge(&self.unnamed.set, durable).await?;
        }
        let is_missing = durable.count() < self.all_shards;
        let missing_since = is_missing.then(|| self.failures.given_up.since().unwrap_or_else(Instant::now));
        Ok(StagedData { missing_since, lives: lives.into(), unnamed: self.unnamed })
    }
}

/// Durable data that no register names yet.
#[derive(Debug)]
pub(crate) struct StagedData {
    unnamed: UnnamedData,
    missing_since: Option<Instant>,
    /// The volumes on which shards are durable, and in which of their lives.
    lives: Arc<[(VolumeId, Life)]>,
}

impl StagedData {
    pub(crate) const fn data(&self) -> DataRef {
        self.unnamed.data
    }

    /// For how long some shard has not been (known to be) durable, and a heal has to look after it; `None`
    /// where all are. A shard that was lost to a node that was down is missing since then.
    pub(crate) fn missing_for(&self) -> Option<Duration> {
        self.missing_since.map(|since| since.elapsed())
    }

    /// Where its shards are durable, for the accept that introduces it.
    pub(crate) fn durable_shards(&self) -> DurableShards {
        DurableShards { data: self.unnamed.data.id, lives: Arc::clone(&self.lives) }
    }

    /// Whether a volume with a shard is known to have begun another life since, in which the shard is gone.
    pub(crate) fn is_outlived(&self, known: &Lives) -> bool {
        self.lives.iter().any(|(volume, life)| known.is_over(*volume, *life))
    }

    /// An accept that names the data is about to be sent: from here on only a committed value
    /// decides about it.
    pub(crate) const fn set_named(&mut self) {
        self.unnamed.armed = false;
    }

    /// No volume took the accept that named it, and none ever will.
    pub(crate) const fn set_unnamed(&mut self) {
        self.unnamed.armed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sherd_volume::buffer::PoolLimits;

    proptest! {
        /// However the bytes arrive, the shards are those that a list of buffers is cut into.
        #[test]
        fn units_are_cut_as_a_list_is(
            buffers in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..700), 1..12),
            shards in 1_usize..6,
            missing in 0_usize..2000,
        ) {
            let pool = BufferPool::new(PoolLimits { cap_bytes: 8 << 20, stripe_bytes: 1 << 20, idle_bytes: 0 });
            let body: usize = buffers.iter().map(Vec::len).sum();
            let unit = (body + missing).div_ceil(shards);
            let (mut list, mut units) = (BufferList::default(), StripeUnits::default());
            for buffer in &buffers {
                let mut bytes = Bytes::copy_from_slice(buffer);
                list.push(bytes.clone());
                units.fill(&mut bytes, unit, shards, &pool).expect("the pool is large");
                prop_assert!(bytes.is_empty());
            }
            prop_assert_eq!(units.length, body);
            let cut = units.take(shards, unit, &pool).expect("the pool is large");
            let expected = cut_stripe(&mut list, shards, unit);
            prop_assert_eq!(cut.len(), shards);
            for (shard, expected) in cut.iter().zip(expected) {
                prop_assert_eq!(shard.concat(), expected.concat());
            }
        }
    }

    #[test]
    fn a_full_stripe_leaves_the_rest_of_the_bytes() {
        let pool = BufferPool::new(PoolLimits { cap_bytes: 4 << 20, stripe_bytes: 1 << 20, idle_bytes: 0 });
        let mut units = StripeUnits::default();
        let mut bytes = Bytes::from_static(&[1, 2, 3, 4, 5]);
        units.fill(&mut bytes, 2, 2, &pool).expect("the pool is large");
        assert_eq!(bytes.as_ref(), [5]);
        assert_eq!(units.take(2, 2, &pool).expect("the pool is large").concat().concat(), [1, 2, 3, 4]);
    }
}
