//! A shard to a node's volume and back, as production calls it: a file of appended units, reads of as many.
//!
//! ```text
//! shard-write local   by the volume alone              shard-read local
//! shard-write call    the same by another node         shard-read call
//! shard-write net     the difference: the call alone   shard-read net
//! ```
//! A write is two files at a time, each append awaited before the next, and each file finished durable. A
//! read has several units under way, in order; its second and later passes find them in the page cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sherd_core::id::{
    BucketId, DataId, Epoch, ObjectKey, ProposerId, RegisterKey, ShardId, Timestamp, VolumeId,
};
use sherd_core::limits::STRIPE_UNIT_BYTES;
use sherd_core::message::{ReadPurpose, ShardFileHeader, ShardRange, Target};
use sherd_core::placement;
use sherd_core::record::Home;
use sherd_store::peer::VolumePeer;
use sherd_volume::buffer::BufferPool;

use super::device::{POOL, aligned};
use super::ends::{BoxError, runtime};
use super::gauge::{Gauge, Pass};
use super::node_pair::NodePair;
use super::payload::{Check, Payload};
use crate::question::error::Error;

const UNIT: usize = STRIPE_UNIT_BYTES as usize;
/// Files that are written at one time.
const FILES: u64 = 2;
/// Units of a read under way: three windows of a mebibyte of body on two data shards.
const READS: usize = 6;

pub(super) fn measure(gauge: &mut Gauge<'_>) -> Result<(), Error> {
    let (folder, runtime) = (gauge.bench.folder()?, runtime()?);
    let pair = runtime.block_on(NodePair::start(folder.path())).map_err(Error::at("start two nodes"))?;
    let pool = BufferPool::new(POOL);
    // Frozen buffers of a pool, as bodies are gathered into them.
    let units: Arc<[Bytes]> =
        aligned(&gauge.payload, UNIT, &pool).into_iter().map(|buffer| buffer.freeze(UNIT)).collect();
    let next = AtomicU64::new(1);
    let peers: [(&str, Arc<dyn VolumePeer>); 2] =
        [("local", Arc::new(pair.local.clone())), ("call", Arc::new(pair.remote.clone()))];
    let mut seconds = [[0.0; 2]; 2];
    for (index, (way, peer)) in peers.iter().enumerate() {
        let place = ShardPlace { peer: Arc::clone(peer), volume: pair.volume };
        seconds[0][index] = gauge.measure("shard-write", way, |bytes, check| {
            let numbers = next.fetch_add(FILES, Ordering::Relaxed);
            runtime.block_on(place.write_all(numbers, &units, bytes, check))
        })?;
        let stored = next.fetch_add(FILES, Ordering::Relaxed);
        let bytes = gauge.pass_bytes();
        let written = runtime.block_on(place.write_files(stored, &units, bytes));
        written.map_err(Error::at("write a shard"))?;
        let payload = gauge.payload.clone();
        seconds[1][index] = gauge.measure("shard-read", way, |bytes, check| {
            runtime.block_on(place.read_all(stored, bytes, &payload, check)).map(Pass::of)
        })?;
        runtime.block_on(place.remove(stored)).map_err(Error::at("remove a shard"))?;
    }
    let [[local_write, write], [local_read, read]] = seconds;
    gauge.difference("shard-write", "net", write, local_write);
    gauge.difference("shard-read", "net", read, local_read);
    drop(peers);
    runtime.block_on(pair.close());
    Ok(())
}

/// A volume, and the way to it.
struct ShardPlace {
    peer: Arc<dyn VolumePeer>,
    volume: VolumeId,
}

impl ShardPlace {
    /// Writes files, compares them if that is asked, and removes them.
    async fn write_all(
        &self,
        numbers: u64,
        units: &Arc<[Bytes]>,
        bytes: u64,
        check: Check,
    ) -> Result<Pass, BoxError> {
        self.write_files(numbers, units, bytes).await?;
        let is_right = match check {
            Check::Count => true,
            Check::Compare => self.read_units(numbers, units, bytes).await?,
        };
        self.remove(numbers).await?;
        Ok(Pass::of(is_right))
    }

    /// Writes `bytes` in files of the numbers from `numbers` on.
    async fn write_files(&self, numbers: u64, units: &Arc<[Bytes]>, bytes: u64) -> Result<(), BoxError> {
        let files = (numbers..numbers + FILES).map(|number| {
            let mut sink = self.peer.create_shard(self.volume, &target(), header(number, bytes), false);
            let units = Arc::clone(units);
            tokio::spawn(async move {
                for unit in units.iter().cycle().take(units_of(bytes)) {
                    sink.append(vec![unit.clone()]).await?;
                }
                sink.finish().await
            })
        });
        for written in futures::future::join_all(files).await {
            written??;
        }
        Ok(())
    }

    fn reads(
        &self,
        numbers: u64,
        bytes: u64,
    ) -> impl futures::Stream<Item = Result<Vec<Bytes>, sherd_core::message::Error>> + Send + 'static {
        let (peer, volume) = (Arc::clone(&self.peer), self.volume);
        let ranges = (numbers..numbers + FILES).flat_map(move |number| {
            (0..units_of(bytes) as u64).map(move |index| ShardRange {
                shard: shard(number),
                home: Home::File,
                offset: index * UNIT as u64,
                length: UNIT as u64,
                wanted: ReadPurpose::ByClient,
            })
        });
        stream::iter(ranges).map(move |range| peer.read_shard(volume, range)).buffered(READS)
    }

    /// Reads the files of `bytes` together; each has the beginning of the payload.
    async fn read_all(
        &self,
        numbers: u64,
        bytes: u64,
        payload: &Payload,
        check: Check,
    ) -> Result<bool, BoxError> {
        let (of_file, payload) = (bytes / FILES, payload.clone());
        let mut reads = self.reads(numbers, bytes);
        let reading = tokio::spawn(async move {
            let (mut arrival, mut is_right, mut whole) = (payload.arrival(check), true, 0);
            while let Some(pieces) = reads.try_next().await? {
                for piece in pieces {
                    arrival.take(&piece);
                }
                if arrival.count() >= of_file {
                    is_right &= arrival.is_whole(of_file);
                    whole += 1;
                    arrival = payload.arrival(check);
                }
            }
            Ok::<_, sherd_core::message::Error>(is_right && whole == FILES)
        });
        Ok(reading.await??)
    }

    /// Whether the files are these units.
    async fn read_units(&self, numbers: u64, units: &[Bytes], bytes: u64) -> Result<bool, BoxError> {
        let of_file = || units.iter().cycle().take(units_of(bytes));
        let expected: Vec<&Bytes> = (0..FILES).flat_map(|_| of_file()).collect();
        let read: Vec<Vec<Bytes>> = self.reads(numbers, bytes).try_collect().await?;
        let are_equal = |(pieces, unit): (&Vec<Bytes>, &&Bytes)| pieces.concat() == ***unit;
        Ok(read.len() == expected.len() && read.iter().zip(&expected).all(are_equal))
    }

    async fn remove(&self, numbers: u64) -> Result<(), BoxError> {
        for number in numbers..numbers + FILES {
            self.peer.delete_shard(self.volume, shard(number), Home::File).await?;
        }
        Ok(())
    }
}

/// Units of one file of a pass of `bytes`.
fn units_of(bytes: u64) -> usize {
    usize::try_from(bytes / FILES).expect("a pass fits memory") / UNIT
}

fn shard(number: u64) -> ShardId {
    ShardId { data: DataId { birth: Timestamp::from_ms(number), proposer: ProposerId(1) }, index: 0 }
}

fn key() -> RegisterKey {
    RegisterKey::object(BucketId([1; 16]), ObjectKey::new("floors".to_owned()).expect("a key"))
}

fn target() -> Target {
    let key = key();
    let slot = placement::slot(&key);
    Target::new(key, slot, Epoch::FIRST)
}

fn header(number: u64, bytes: u64) -> ShardFileHeader {
    ShardFileHeader {
        shard: shard(number),
        key: key(),
        data_shards: 1,
        parity_shards: 0,
        stripe_unit: STRIPE_UNIT_BYTES,
        shard_bytes: bytes / FILES,
    }
}
