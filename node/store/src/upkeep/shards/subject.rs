//! One data id: which of its shards are whole, and the missing ones made again from any k others.
//!
//! A rebuilt shard is written in windows, read back and verified where it lies, and only then
//! counts as healed. While it is written, the old one, if there is any, stays.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::{join, join_all};

use sherd_core::erasure::{Code, Geometry};
use sherd_core::id::{RegisterKey, SetId, ShardId, VolumeId};
use sherd_core::message;
use sherd_core::message::{ReadPurpose, ShardFileHeader, ShardRange};
use sherd_core::placement;
use sherd_core::record::{DataRef, Home};
use sherd_core::stripe::Layout;

use crate::cluster::SetView;
use crate::peer::VolumeRoute;
use crate::upkeep::deps::Deps;
use crate::upkeep::governor::admit;
use crate::upkeep::limits::{
    REBUILD_WINDOW_BYTES, REBUILD_WINDOW_PATIENCE, SHARD_LOOK_PATIENCE, SHARD_VERIFY_PATIENCE,
};
use crate::upkeep::pages::ask;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shards {
    /// Whole, verified.
    pub(crate) intact: Vec<u8>,
    /// Missing, rotten, or of another length.
    pub(crate) broken: Vec<u8>,
    /// On volumes that do not answer.
    pub(crate) unknown: Vec<u8>,
}

impl Shards {
    /// How many more losses the data can take.
    pub(crate) fn spare(&self, data: &DataRef) -> u8 {
        let intact = u8::try_from(self.intact.len()).unwrap_or(u8::MAX);
        intact.saturating_sub(data.data_shards)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RebuildError {
    /// Fewer than k shards are whole: nothing can be done until another volume comes back.
    #[error("{intact} of {needed} shards are whole")]
    TooFew { intact: usize, needed: usize },
    /// The reference describes no code, or not this set's.
    #[error("unknown geometry")]
    Geometry,
    /// A source failed on the way, or memory is short: try again.
    #[error("source: {0}")]
    Source(message::Error),
    /// The volume that shall hold it did not take it.
    #[error("target: {0}")]
    Target(message::Error),
    /// The bytes read back are not those written.
    #[error("the rebuilt shard does not verify")]
    NotHealed,
}

#[derive(Debug, Clone)]
pub(crate) struct HealSubject {
    pub(crate) key: RegisterKey,
    pub(crate) data: DataRef,
    set: Arc<SetView>,
    layout: Layout,
    code: Arc<Code>,
}

impl HealSubject {
    /// The data id with its set; an error when the two do not fit together.
    pub(crate) fn new(deps: &Deps, key: &RegisterKey, data: DataRef) -> Result<Self, RebuildError> {
        let set = Arc::clone(deps.cluster.set(data.set).ok_or(RebuildError::Geometry)?);
        let geometry =
            Geometry::new(data.data_shards, data.parity_shards).map_err(|_| RebuildError::Geometry)?;
        let layout =
            Layout::new(data.size, geometry, data.stripe_unit).map_err(|_| RebuildError::Geometry)?;
        if geometry.volumes() != set.routes.len() {
            return Err(RebuildError::Geometry);
        }
        Ok(Self { key: key.clone(), data, set, layout, code: Code::of(geometry) })
    }

    pub(crate) fn is_on(&self, set: SetId) -> bool {
        self.set.id == set
    }

    fn all(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.data.data_shards + self.data.parity_shards
    }

    pub(crate) fn home(&self, index: u8) -> VolumeId {
        self.route(index).volume
    }

    fn route(&self, index: u8) -> &VolumeRoute {
        &self.set.routes[placement::home(self.data.id, index, self.set.routes.len())]
    }

    /// Whether the volume that shall hold a shard has no room for it.
    pub(crate) fn is_full(&self, index: u8) -> bool {
        let route = self.route(index);
        route.peer.is_full(route.volume)
    }

    const fn shard(&self, index: u8) -> ShardId {
        ShardId { data: self.data.id, index }
    }

    pub(crate) fn shard_bytes(&self) -> u64 {
        self.layout.shard_bytes()
    }

    /// Looks at every shard; with `verify` its bytes are hashed, else it is only asked for.
    pub(crate) async fn look(&self, verify: bool) -> Shards {
        let answers =
            join_all(self.all().map(|index| async move { (index, self.bytes_of(index, verify).await) }));
        let mut shards = Shards::default();
        for (index, answer) in answers.await {
            match answer {
                Ok(bytes) if bytes == self.shard_bytes() => shards.intact.push(index),
                Ok(_) | Err(message::Error::NotFound | message::Error::Corrupt { .. }) => {
                    shards.broken.push(index);
                }
                Err(
                    message::Error::Full
                    | message::Error::Busy
                    | message::Error::Refused(_)
                    | message::Error::Unreachable { .. },
                ) => {
                    shards.unknown.push(index);
                }
            }
        }
        shards
    }

    async fn bytes_of(&self, index: u8, verify: bool) -> message::Result<u64> {
        let (route, shard, home) = (self.route(index), self.shard(index), self.data.home);
        if verify {
            ask(route.peer.verify_shard(route.volume, shard, home), SHARD_VERIFY_PATIENCE).await
        } else {
            ask(route.peer.shard_bytes(route.volume, shard, home), SHARD_LOOK_PATIENCE).await
        }
    }

    /// Makes one shard again from `intact` ones. A source that turns out rotten is left out and
    /// the shard begun again, while k others remain. Gives the bytes written.
    pub(crate) async fn rebuild(&self, deps: &Deps, index: u8, intact: &[u8]) -> Result<u64, RebuildError> {
        let needed = usize::from(self.data.data_shards);
        let mut sources: Vec<u8> = intact.iter().copied().filter(|source| *source != index).collect();
        loop {
            if sources.len() < needed {
                return Err(RebuildError::TooFew { intact: sources.len(), needed });
            }
            match self.rebuild_from(deps, index, &sources[..needed]).await {
                Ok(()) => break,
                Err((Some(source), _)) => sources.retain(|kept| *kept != source),
                Err((None, error)) => return Err(error),
            }
        }
        match self.bytes_of(index, true).await {
            Ok(bytes) if bytes == self.shard_bytes() => Ok(bytes),
            Ok(_) | Err(message::Error::NotFound | message::Error::Corrupt { .. }) => {
                Err(RebuildError::NotHealed)
            }
            Err(error) => Err(RebuildError::Target(error)),
        }
    }

    /// One try; names the source that failed.
    async fn rebuild_from(
        &self,
        deps: &Deps,
        index: u8,
        sources: &[u8],
    ) -> Result<(), (Option<u8>, RebuildError)> {
        let (route, shard) = (self.route(index), self.shard(index));
        let target = |error| (None, RebuildError::Target(error));
        let register = deps.cluster.target(self.key.clone());
        match self.data.home {
            Home::Packed => {
                let bytes = self.window(deps, index, sources, 0, self.shard_bytes()).await?;
                let put = route.peer.put_shard(route.volume, shard, &register, vec![bytes]);
                ask(put, REBUILD_WINDOW_PATIENCE).await.map(|_life| ()).map_err(target)
            }
            Home::File => {
                let header = ShardFileHeader {
                    shard,
                    key: self.key.clone(),
                    data_shards: self.data.data_shards,
                    parity_shards: self.data.parity_shards,
                    stripe_unit: self.data.stripe_unit,
                    shard_bytes: self.shard_bytes(),
                };
                let mut sink = route.peer.create_shard(route.volume, &register, header, true);
                let mut next = self.window_at(deps, index, sources, 0).await?;
                let mut end = 0;
                while let Some(bytes) = next {
                    end += bytes.len() as u64;
                    // The sources are read on while the target writes.
                    let written = ask(sink.append(vec![bytes]), REBUILD_WINDOW_PATIENCE);
                    let read = self.window_at(deps, index, sources, end);
                    let (written, read) = join(written, read).await;
                    written.map_err(target)?;
                    next = read?;
                }
                ask(sink.finish(), REBUILD_WINDOW_PATIENCE).await.map(|_life| ()).map_err(target)
            }
        }
    }

    /// The next window of a shard's file; `None` at its end.
    async fn window_at(
        &self,
        deps: &Deps,
        index: u8,
        sources: &[u8],
        offset: u64,
    ) -> Result<Option<Bytes>, (Option<u8>, RebuildError)> {
        match self.shard_bytes() - offset {
            0 => Ok(None),
            left => self.window(deps, index, sources, offset, left.min(REBUILD_WINDOW_BYTES)).await.map(Some),
        }
    }

    /// Computes one window of a shard from the same columns of k others.
    async fn window(
        &self,
        deps: &Deps,
        index: u8,
        sources: &[u8],
        offset: u64,
        length: u64,
    ) -> Result<Bytes, (Option<u8>, RebuildError)> {
        let used: Vec<VolumeId> = sources.iter().chain([&index]).map(|shard| self.home(*shard)).collect();
        admit(deps, &used, length).await;
        let reads = sources.iter().map(|source| async move {
            let route = self.route(*source);
            let (shard, home) = (self.shard(*source), self.data.home);
            let range = ShardRange { shard, home, offset, length, wanted: ReadPurpose::ByUpkeep };
            (*source, ask(route.peer.read_shard(route.volume, range), REBUILD_WINDOW_PATIENCE).await)
        });
        let mut columns: Vec<(u8, Bytes)> = Vec::with_capacity(sources.len());
        for (source, read) in join_all(reads).await {
            let bytes = read.map_err(|error| (Some(source), RebuildError::Source(error)))?;
            columns.push((source, joined(bytes)));
        }
        let present: Vec<(u8, &[u8])> = columns.iter().map(|(source, bytes)| (*source, &bytes[..])).collect();
        let bytes = usize::try_from(length).map_err(|_| (None, RebuildError::Geometry))?;
        let reconstruct = |out: &mut [u8]| {
            let result = self.code.reconstruct(&present, &mut [(index, out)]);
            result.map_err(|_| (None, RebuildError::Geometry))
        };
        // Pages of the pool go past the page cache. A crowd of requests may have taken them all;
        // a heal has two windows in hand, within the throttle, and does not wait.
        if let Some(mut out) = deps.stripes.buffer(bytes) {
            reconstruct(&mut out)?;
            return Ok(out.freeze(bytes));
        }
        let mut out = vec![0; bytes];
        reconstruct(&mut out)?;
        Ok(out.into())
    }
}

fn joined(buffers: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(buffers) {
        Ok([one]) => one,
        Err(many) => many.concat().into(),
    }
}
