//! Reads a range of a body: the data shards where they are whole, any k shards where they are not.
//!
//! The range is walked in windows. While the caller sends one window, the next ones are being read. Whole
//! stripes of files are read from the k shards that cost least ([`sources`](super::sources)), and what is
//! missing is computed once for the window. Of other windows a piece that is missing, rotten or late is
//! computed from the same columns of k other shards, so a range read stays a range read. Damage that was
//! found is reported for healing.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use smallvec::SmallVec;

use sherd_core::erasure::Geometry;
use sherd_core::id::{RegisterKey, ShardId};
use sherd_core::message;
use sherd_core::message::{ReadPurpose, ShardRange};
use sherd_core::placement;
use sherd_core::record::{DataRef, Home};
use sherd_core::stripe::{Layout, Piece};

use sherd_volume::buffer::Buffer;
use tokio::time::Instant;

use std::sync::Arc;
use std::time::Duration;

use super::ahead::{BytesAhead, ReadStep};
use super::limits::{BUSY_PAUSE, COMPUTED_DATA_SHARDS_MAX, REBUILD_HEDGE, WINDOW_BYTES_MIN};
use super::sources::{self, SHARDS_USUAL, ShardColumns, ShardIndexes, ShardPlace};
use super::{BudgetExhausted, ReleaseWait, Stripes, code_of};
use crate::cluster::SetView;
use crate::cluster::pins::PinGuard;
use crate::machine::budget::{Share, with_share};
use crate::observe::trace::{self, Phase, RequestTrace};
use crate::peer::{HedgedGather, LATE_LOOK_EVERY, Pending, VolumeRoute};

/// Bytes of a body that are read at one time, or of each shard where whole stripes are, if all readers have
/// room.
const WINDOW_BYTES: u64 = 1 << 20;
/// Windows that are being read while one is sent: enough that no volume waits for the sending.
const WINDOWS_AHEAD: usize = 3;

/// Bytes could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("too few shards")]
    Shards,
    #[error("overloaded")]
    Overloaded,
    #[error("unknown geometry")]
    Geometry,
}

impl From<BudgetExhausted> for ReadError {
    fn from(_: BudgetExhausted) -> Self {
        Self::Overloaded
    }
}

/// The verified bytes of `range` (not empty, within the data), in order.
pub(crate) fn read(
    stripes: &Stripes,
    key: &RegisterKey,
    data: DataRef,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes, ReadError>> {
    read_for(trace::current(), stripes, key, data, range)
}

/// Reads as [`read`] does, for a request whose task may be another one.
pub(crate) fn read_for(
    request: Option<RequestTrace>,
    stripes: &Stripes,
    key: &RegisterKey,
    data: DataRef,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes, ReadError>> {
    bytes_of(StripeRead::new(request, stripes, key, data, range))
}

/// Reads as [`read`] does on a node with these shards: bits of their numbers.
#[cfg(test)]
pub(super) fn read_on(
    own: u32,
    stripes: &Stripes,
    key: &RegisterKey,
    data: DataRef,
) -> BoxStream<'static, Result<Bytes, ReadError>> {
    let reading = StripeRead::new(None, stripes, key, data, 0..data.size);
    bytes_of(reading.map(|reading| StripeRead { own, ..reading }))
}

fn bytes_of(reading: Option<StripeRead>) -> BoxStream<'static, Result<Bytes, ReadError>> {
    Box::pin(stream::try_unfold(reading, |reading| async move {
        let Some(mut reading) = reading else { return Err(ReadError::Geometry) };
        let next = reading.next().await?;
        Ok(next.map(|bytes| (bytes, Some(reading))))
    }))
}

struct StripeRead {
    stripes: Stripes,
    key: RegisterKey,
    data: DataRef,
    layout: Layout,
    set: Arc<SetView>,
    ahead: BytesAhead<ShardWindow>,
    _pinned: PinGuard,
    /// Shards that failed: not asked first again. Those of late volumes are not among them, for these may
    /// answer again in the middle of a read.
    failed: u32,
    /// Shards on this node.
    own: u32,
    /// Of the request that reads: its body is read by another task than its head is made by.
    trace: Option<RequestTrace>,
}

/// A window that is not read yet.
struct NextWindow {
    end: u64,
    /// Memory that it takes, in bytes.
    cost: usize,
    /// The shards that it is read from, where they are not those of the data alone.
    sources: Option<ShardIndexes>,
}

/// Pieces that are being read, those of a shard in one read.
struct ShardWindow {
    pieces: Pieces,
    reads: SmallVec<[ShardRead; SHARDS_USUAL]>,
    share: Share,
}

type Pieces = SmallVec<[Piece; 2 * SHARDS_USUAL]>;

/// A window's read of one shard: pieces that lie one behind the other in it.
struct ShardRead {
    columns: Piece,
    /// Not where others are read in its place.
    pending: Option<Pending<Vec<Bytes>>>,
}

/// The bytes of a shard that a window's pieces are cut from, in order; `None` where they are computed.
type ShardBytes = (u8, Option<ShardColumns>);
type FoundShards = SmallVec<[ShardBytes; SHARDS_USUAL]>;

impl StripeRead {
    fn new(
        request: Option<RequestTrace>,
        stripes: &Stripes,
        key: &RegisterKey,
        data: DataRef,
        range: Range<u64>,
    ) -> Option<Self> {
        let geometry = Geometry::new(data.data_shards, data.parity_shards).ok()?;
        let layout = Layout::new(data.size, geometry, data.stripe_unit).ok()?;
        let set = Arc::clone(stripes.inner.cluster.set(data.set)?);
        if set.routes.len() != geometry.volumes() {
            return None;
        }
        let home = |index: u8| &set.homes[placement::home(data.id, index, set.routes.len())];
        let all = 0..data.data_shards + data.parity_shards;
        let own = all.filter(|index| home(*index).is_own).fold(0, |own, index| own | 1 << index);
        let ahead = BytesAhead::new(range);
        if let Some(request) = &request {
            ahead.hand_to(request.read_ahead());
        }
        Some(Self {
            own,
            stripes: stripes.clone(),
            key: key.clone(),
            data,
            layout,
            set,
            ahead,
            _pinned: stripes.pin([&data]),
            failed: 0,
            trace: request,
        })
    }

    fn place(&self, index: usize) -> usize {
        let index = u8::try_from(index).expect("a set has at most 32 volumes");
        placement::home(self.data.id, index, self.set.routes.len())
    }

    fn route(&self, index: usize) -> &VolumeRoute {
        &self.set.routes[self.place(index)]
    }

    fn has_failed(&self, index: usize) -> bool {
        self.failed & (1 << index) != 0
    }

    /// Whether others are read in place of this shard: it failed, or its volume is late and enough others are
    /// neither.
    fn is_avoided(&self, index: usize) -> bool {
        self.has_failed(index) || (self.route(index).is_late() && self.can_do_without(index))
    }

    fn is_given_up(&self, index: usize) -> bool {
        self.has_failed(index) || (self.route(index).has_overdue() && self.can_do_without(index))
    }

    /// Whether k other shards can be read soon. Where they cannot, the one is waited for: k others cost k
    /// times the reads, and some of them are late, too.
    fn can_do_without(&self, wanted: usize) -> bool {
        let needed = usize::from(self.data.data_shards);
        let is_prompt = |index: &usize| !self.has_failed(*index) && !self.route(*index).is_late();
        let others = (0..self.set.routes.len()).filter(|index| *index != wanted);
        others.filter(is_prompt).take(needed).count() == needed
    }

    async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            let window = match self.ahead.step(|| self.stripes.inner.downloads.join()) {
                ReadStep::Pass(bytes) => return Ok(Some(bytes)),
                ReadStep::Collect(window) => window,
                ReadStep::End => return Ok(None),
                ReadStep::Begin => {
                    let next = self.next_window();
                    let share = self.stripes.inner.downloads.take(next.cost).await?;
                    self.begin_window(next, share)
                }
            };
            // Reads ahead only where there is room: no reader waits for a share while its window holds one.
            while self.ahead.has_further(WINDOWS_AHEAD) {
                let next = self.next_window();
                let Some(share) = self.stripes.inner.downloads.try_take(next.cost) else { break };
                let window = self.begin_window(next, share);
                self.ahead.push(window);
            }
            self.collect(window).await?;
        }
    }

    /// The next window: the more read at one time, the less each of them holds.
    fn next_window(&self) -> NextWindow {
        let (fair, left) = (self.stripes.inner.downloads.fair_bytes(), self.ahead.left());
        self.window_of_stripes(&left, fair).unwrap_or_else(|| {
            let end = left.end.min(left.start.saturating_add(window_bytes(fair)));
            let cost = usize::try_from(end - left.start).expect("a window fits memory");
            NextWindow { end, cost, sources: None }
        })
    }

    /// A window that ends with a stripe, where other shards than those of the data are to be read and this
    /// window and those ahead have room: for what is read and for what is computed.
    fn window_of_stripes(&self, left: &Range<u64>, fair_bytes: usize) -> Option<NextWindow> {
        let sources = self.sources().filter(|sources| self.has_parity(sources))?;
        let stripes = WINDOW_BYTES / u64::from(self.data.stripe_unit);
        let stripe = self.layout.stripe_bytes();
        let end = left.end.min((left.start / stripe + stripes) * stripe);
        let columns = end.checked_sub(left.start)?.div_ceil(u64::from(self.data.data_shards));
        let columns = usize::try_from(columns).expect("a window fits memory");
        let parity = sources.iter().filter(|shard| **shard >= self.data.data_shards).count();
        let cost = self.stripes.inner.pool.class_bytes(columns) * (sources.len() + parity);
        let windows =
            (left.end - left.start).div_ceil((stripes * stripe).max(1)).min(1 + WINDOWS_AHEAD as u64);
        let has_room = stripes > 0 && cost as u64 * windows <= fair_bytes as u64;
        has_room.then_some(NextWindow { end, cost, sources: Some(sources) })
    }

    /// The shards that whole stripes are read from; `None` where fewer than k can be read soon. Packed shards
    /// lie in the caches of their volumes, so that all nodes read the same ones.
    fn sources(&self) -> Option<ShardIndexes> {
        if self.data.home == Home::Packed {
            return None;
        }
        let needed = usize::from(self.data.data_shards);
        let is_readable = |index: &usize| !self.has_failed(*index) && !self.route(*index).is_late();
        let place = |index: usize| {
            // Computing a byte takes one of each data shard: in wide codes that costs more than it saves.
            let is_cheap = index < needed || needed <= COMPUTED_DATA_SHARDS_MAX;
            let is_own = is_cheap && self.own & (1 << index) != 0;
            let place = if is_own { ShardPlace::OwnNode } else { ShardPlace::OtherNode };
            (u8::try_from(index).expect("a set has at most 32 volumes"), place)
        };
        let readable = (0..self.set.routes.len()).filter(is_readable).map(place);
        sources::cheapest(readable, self.data.data_shards)
    }

    fn has_parity(&self, shards: &[u8]) -> bool {
        shards.iter().any(|shard| *shard >= self.data.data_shards)
    }

    /// Starts the reads of the next window.
    fn begin_window(&self, window: NextWindow, share: Share) -> ShardWindow {
        let range = self.ahead.begin(window.end);
        let pieces: Pieces = self.layout.pieces(range).collect();
        let mut reads = SmallVec::<[ShardRead; SHARDS_USUAL]>::new();
        for piece in &pieces {
            // Pieces of a window that lie in one shard lie there one behind the other.
            match reads.iter_mut().find(|read| read.columns.shard == piece.shard) {
                Some(read) => read.columns.length += piece.length,
                None => reads.push(ShardRead { columns: *piece, pending: None }),
            }
        }
        if let (Some(columns), Some(sources)) = (self.whole_stripes(&reads), window.sources) {
            let read = |shard: &u8| ShardRead { columns: Piece { shard: *shard, ..columns }, pending: None };
            reads = sources.iter().map(read).collect();
        }
        for ShardRead { columns, pending } in &mut reads {
            let index = usize::from(columns.shard);
            *pending = (!self.is_avoided(index)).then(|| self.ask(index, columns));
        }
        ShardWindow { pieces, reads, share }
    }

    /// The columns of a window where they are those of every data shard.
    fn whole_stripes(&self, reads: &[ShardRead]) -> Option<Piece> {
        let columns = reads.first()?.columns;
        let is_same =
            |read: &ShardRead| (read.columns.offset, read.columns.length) == (columns.offset, columns.length);
        let is_whole = reads.len() == usize::from(self.data.data_shards) && reads.iter().all(is_same);
        is_whole.then_some(columns)
    }

    /// Asks one shard for the columns of a piece.
    fn ask(&self, index: usize, piece: &Piece) -> Pending<Vec<Bytes>> {
        let route = self.route(index);
        let index = u8::try_from(index).expect("a set has at most 32 volumes");
        let shard = ShardId { data: self.data.id, index };
        let Piece { offset, length, .. } = *piece;
        let range = ShardRange { shard, home: self.data.home, offset, length, wanted: ReadPurpose::ByClient };
        let read = || route.peer.read_shard(route.volume, range);
        match &self.trace {
            Some(request) => trace::call_for(request.id(), read),
            None => read(),
        }
    }

    async fn collect(&mut self, window: ShardWindow) -> Result<(), ReadError> {
        let ShardWindow { pieces, reads, mut share } = window;
        let mut ready = VecDeque::new();
        let asked: ShardIndexes = reads.iter().map(|read| read.columns.shard).collect();
        let mut found = FoundShards::new();
        for ShardRead { columns, pending } in reads {
            let whole = match pending {
                Some(pending) => self.wait(&columns, pending).await,
                None => None,
            };
            // Each shard has a part of its own: a slow client holds no more than it was given.
            let length = usize::try_from(columns.length).expect("a window fits memory");
            let whole = whole.map(|bytes| {
                let own = Arc::new(share.split(length));
                bytes.into_iter().map(|bytes| with_share(bytes, &own)).collect()
            });
            found.push((columns.shard, whole));
        }
        let share = Arc::new(share);
        if found.iter().any(|(shard, _)| self.has_parity(&[*shard])) {
            self.compute(&mut found, &share).await?;
        }
        for piece in pieces {
            let bytes = found.iter_mut().find(|(shard, _)| *shard == piece.shard);
            if let Some((_, Some(bytes))) = bytes {
                cut(bytes, piece.length, &mut ready);
                continue;
            }
            // A shard that was not asked because others were to be read in its place, and those failed.
            let index = usize::from(piece.shard);
            let is_left = !asked.contains(&piece.shard) && !self.is_avoided(index);
            let own = if is_left { self.wait(&piece, self.ask(index, &piece)).await } else { None };
            let bytes = match own {
                Some(bytes) => bytes,
                None => vec![self.rebuild(&piece).await?],
            };
            ready.extend(bytes.into_iter().map(|bytes| with_share(bytes, &share)));
        }
        self.ahead.collected(ready);
        Ok(())
    }

    /// Computes the data shards of a window that were not read, where k shards were.
    async fn compute(&self, found: &mut FoundShards, share: &Arc<Share>) -> Result<(), ReadError> {
        found.retain(|(_, bytes)| bytes.is_some());
        if found.len() < usize::from(self.data.data_shards) {
            return Ok(());
        }
        let length = found[0].1.iter().flatten().map(Bytes::len).sum();
        let is_known = |shard: &u8| found.iter().any(|(known, _)| known == shard);
        let missing = (0..self.data.data_shards).filter(|shard| !is_known(shard));
        let known = found.iter().filter_map(|(shard, bytes)| Some((*shard, bytes.as_ref()?)));
        let computed = self.computed(known.collect(), missing.collect(), length).await?;
        let columns = |bytes: Bytes| Some(ShardColumns::from([with_share(bytes, share)]));
        found.extend(computed.into_iter().map(|(shard, bytes)| (shard, columns(bytes))));
        Ok(())
    }

    /// Computes `length` bytes of some shards from those of k others.
    async fn computed(
        &self,
        known: Vec<(u8, &ShardColumns)>,
        missing: ShardIndexes,
        length: usize,
    ) -> Result<Vec<(u8, Bytes)>, ReadError> {
        let code = code_of(&self.data).ok_or(ReadError::Geometry)?;
        let deadline = Instant::now() + self.stripes.inner.timeouts.shard;
        let mut computed = Vec::with_capacity(missing.len());
        for shard in missing {
            computed.push((shard, self.buffer(length, deadline).await?));
        }
        sources::compute(&code, &known, &mut computed).map_err(|_| ReadError::Shards)?;
        Ok(computed.into_iter().map(|(shard, out)| (shard, out.freeze(length))).collect())
    }

    /// Memory for a shard's bytes, once there is some.
    async fn buffer(&self, length: usize, deadline: Instant) -> Result<Buffer, ReadError> {
        let mut released = ReleaseWait::default();
        loop {
            match self.stripes.inner.pool.try_take(length) {
                Some(buffer) => return Ok(buffer),
                None if Instant::now() < deadline => released.wait(&self.stripes, BUSY_PAUSE).await,
                None => return Err(ReadError::Overloaded),
            }
        }
    }

    /// Waits for one shard's bytes, until its volume is late and others do; a failure is remembered and,
    /// where it is damage, reported.
    async fn wait(&mut self, piece: &Piece, mut pending: Pending<Vec<Bytes>>) -> Option<Vec<Bytes>> {
        let shard = piece.shard;
        let deadline = Instant::now() + self.stripes.inner.timeouts.shard;
        let mut released = ReleaseWait::default();
        loop {
            let begun = Instant::now();
            let answer = loop {
                // A volume that is given up by now may have answered before.
                let is_given_up = self.is_given_up(usize::from(shard));
                let look = if is_given_up { Duration::ZERO } else { LATE_LOOK_EVERY };
                match tokio::time::timeout(look, &mut pending).await {
                    Ok(answer) => break Some(answer),
                    Err(_elapsed) if is_given_up => break None,
                    Err(_elapsed) if Instant::now() >= deadline => {
                        self.failed |= 1 << shard;
                        break None;
                    }
                    Err(_elapsed) => {}
                }
            };
            self.waited(begun, Some((usize::from(shard), pending.took())));
            match answer {
                Some(Ok(bytes)) => return Some(bytes),
                // No buffer, for the moment: what others hold comes back, and another shard would
                // find as little.
                Some(Err(message::Error::Busy)) if Instant::now() < deadline => {
                    released.wait(&self.stripes, BUSY_PAUSE).await;
                    pending = self.ask(usize::from(shard), piece);
                }
                Some(Err(error)) => {
                    self.note(usize::from(shard), &error);
                    return None;
                }
                None => return None,
            }
        }
    }

    /// Counts a wait for shards, and the answer that took longest of those waited for.
    fn waited(&self, since: Instant, slowest: Option<(usize, Duration)>) {
        let call = slowest.map(|(shard, took)| (self.place(shard), took));
        if let Some((place, took)) = call {
            self.stripes.inner.metrics.read(self.set.homes[place].is_own, took);
        }
        if let Some(request) = &self.trace {
            request.add(Phase::ShardRead, since.elapsed());
            if let Some((place, took)) = call {
                request.called(|| self.set.call(Phase::ShardRead, place, took), took);
            }
        }
    }

    fn note(&mut self, shard: usize, error: &message::Error) {
        self.failed |= 1 << shard;
        match error {
            message::Error::NotFound | message::Error::Corrupt { .. } => {
                self.stripes.inner.damage.data(&self.key, self.data);
            }
            message::Error::Full
            | message::Error::Busy
            | message::Error::Refused(_)
            | message::Error::Unreachable { .. } => {}
        }
    }

    /// Computes a piece of a data shard from the same columns of k others.
    async fn rebuild(&mut self, piece: &Piece) -> Result<Bytes, ReadError> {
        let needed = usize::from(self.data.data_shards);
        let all = self.set.routes.len();
        let wanted = usize::from(piece.shard);
        // Failed volumes come last: a late one may still answer.
        let mut order: Vec<usize> = (0..all).filter(|index| *index != wanted).collect();
        order.sort_by_cached_key(|index| (self.has_failed(*index), self.route(*index).is_late()));
        let deadline = Instant::now() + self.stripes.inner.timeouts.shard;
        let mut asked = HedgedGather::new(order, REBUILD_HEDGE, deadline);
        let mut columns: Vec<(u8, ShardColumns)> = Vec::with_capacity(needed);
        let mut released = ReleaseWait::default();
        while columns.len() < needed {
            let begun = Instant::now();
            let answer = asked.next(needed - columns.len(), |index| self.ask(index, piece)).await;
            let slowest = if answer.is_some() { asked.slowest() } else { asked.waits_for() };
            self.waited(begun, slowest);
            match answer {
                Some((index, Ok(bytes))) => {
                    let index = u8::try_from(index).expect("a set has at most 32 volumes");
                    columns.push((index, bytes.into()));
                }
                Some((index, Err(message::Error::Busy))) if Instant::now() < deadline => {
                    released.wait(&self.stripes, BUSY_PAUSE).await;
                    asked.ask_again(index);
                }
                Some((index, Err(error))) => self.note(index, &error),
                None => return Err(ReadError::Shards),
            }
        }
        let length = usize::try_from(piece.length).expect("a piece fits memory");
        let known = columns.iter().map(|(index, bytes)| (*index, bytes)).collect();
        let computed = self.computed(known, ShardIndexes::from_slice(&[piece.shard]), length).await?;
        computed.into_iter().next().map(|(_, bytes)| bytes).ok_or(ReadError::Shards)
    }
}

/// Bytes of a window if each reader may hold `fair_bytes`: a power of two, so that windows end where hashes
/// do.
fn window_bytes(fair_bytes: usize) -> u64 {
    let fair = u64::try_from(fair_bytes).unwrap_or(u64::MAX).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES);
    1 << fair.ilog2()
}

/// Moves the first `length` bytes of some buffers behind others.
fn cut(buffers: &mut VecDeque<Bytes>, length: u64, ready: &mut VecDeque<Bytes>) {
    let mut left = usize::try_from(length).expect("a piece fits memory");
    while left > 0 {
        let Some(first) = buffers.front_mut() else { return };
        if first.len() > left {
            ready.push_back(first.split_to(left));
            return;
        }
        left -= first.len();
        ready.extend(buffers.pop_front());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_out_of_buffers_of_other_lengths() {
        let mut buffers: VecDeque<Bytes> = [&b"abc"[..], b"defg", b"h"].map(Bytes::from_static).into();
        let mut ready = VecDeque::new();
        for length in [2, 3, 3] {
            let before = ready.len();
            cut(&mut buffers, length, &mut ready);
            let bytes: usize = ready.range(before..).map(Bytes::len).sum();
            assert_eq!(bytes as u64, length);
        }
        assert!(buffers.is_empty());
        let joined: Vec<u8> = ready.into_iter().flatten().collect();
        assert_eq!(joined, b"abcdefgh");
    }

    #[test]
    fn windows_shrink_with_the_number_of_readers() {
        assert_eq!(window_bytes(64 << 20), 1 << 20);
        assert_eq!(window_bytes((1 << 20) - 1), 512 << 10);
        assert_eq!(window_bytes((64 << 20) / 300), 128 << 10);
        assert_eq!(window_bytes(0), 64 << 10);
    }
}
