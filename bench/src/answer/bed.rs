//! One volume with the threads that it has in a node, asked as the node asks it.
//!
//! Beside it stands a folder of shard files without a volume, so that files can also be written by as
//! many threads as there are writers: the best that a file for each shard could do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use sherd_core::env::{Clock, HybridClock};
use sherd_core::id::{
    BucketId, ClusterId, DataId, Epoch, ObjectKey, ProposerId, RegisterKey, ShardId, VolumeId,
};
use sherd_core::limits::STRIPE_UNIT_BYTES;
use sherd_core::placement;
use sherd_core::record::Home;
use sherd_core::topology::Wish;
use sherd_node::machine::system::{SystemClock, SystemRng};
use sherd_node::peer::{LocalPeer, Peer, ShardRange, Wanted};
use sherd_node::volumes::form::{FormationConfig, form_or_find};
use sherd_node::volumes::{Pace, Volumes, VolumesConfig, lsm_indexes};
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::options::Options;
use sherd_volume::request::{ShardFileHeader, Target};
use sherd_volume::shard_file::ShardFiles;

use super::Error;
use super::cold::Cold;

/// Memory for bytes that are being read: more than any measurement here needs at one time.
const POOL_BYTES: usize = 2 << 30;
/// Memory of the index, and files it keeps open.
const INDEX: (u64, usize) = (64 << 20, 256);
/// How long the volume may take to open and to close.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks at the spare segments.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The volume.
#[derive(Debug)]
pub(super) struct Bed {
    volumes: Volumes,
    peer: LocalPeer,
    volume: VolumeId,
    clock: HybridClock,
    spares: usize,
    path: PathBuf,
    alone: ShardFiles,
}

/// Bytes for readers, as many as they ask for.
pub(super) fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { cap_bytes: POOL_BYTES, stripe_bytes: 1 << 20, idle_bytes: 64 << 20 })
}

/// That register, as its volumes know it.
pub(super) fn target() -> Target {
    let key = register();
    let slot = placement::slot(&key);
    Target::new(key, slot, Epoch::FIRST)
}

/// The register that shards of measurements are named by.
fn register() -> RegisterKey {
    let key = ObjectKey::new("measured/object".to_owned()).expect("a valid key");
    RegisterKey::object(BucketId([7; 16]), key)
}

impl Bed {
    /// Makes a volume in `folder`, opens it, and waits until its spare segments are there.
    pub(super) async fn make(folder: &Path, options: Options) -> Result<Self, Error> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (path, alone) = (folder.join("volume"), folder.join("alone"));
        for folder in [&path, &alone] {
            disk.create_dir(folder).map_err(Error::at("make the volume's folder"))?;
        }
        let wish = Wish { set_volumes: None, parity_shards: None };
        let forming =
            FormationConfig { disk: Arc::clone(&disk), directories: vec![path.clone()], zone: None, wish };
        let formation = form_or_find(&forming, &SystemRng).map_err(Error::at("form a volume"))?;
        let (volume, _) = *formation.volumes.first().expect("one directory makes one volume");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let volumes = Volumes::start(&VolumesConfig {
            disk: Arc::clone(&disk),
            clock: Arc::clone(&clock),
            buffers: pool(),
            index: lsm_indexes(IndexCache::new(INDEX.0, INDEX.1)),
            options,
            cluster: formation.cluster,
            topology: Arc::clone(&formation.topology),
            volumes: formation.volumes,
            pace: Pace::default(),
        })
        .map_err(Error::at("start the volume"))?;
        volumes.settled(PATIENCE).await;
        for volume in volumes.all() {
            volume.vouch().await.map_err(Error::at("let the volume vote"))?;
        }
        let alone = ShardFiles::new(disk, alone, ClusterId([9; 16]), pool());
        let bed = Self {
            peer: LocalPeer::new(volumes.clone()),
            volumes,
            volume,
            clock: HybridClock::new(clock),
            spares: options.spare_segments,
            path: folder.to_owned(),
            alone,
        };
        bed.settle().await?;
        Ok(bed)
    }

    /// A shard that nobody has named yet.
    pub(super) fn new_shard(&self) -> ShardId {
        ShardId { data: DataId { birth: self.clock.tick(), proposer: ProposerId(1) }, index: 0 }
    }

    /// Writes a shard into the log or into a file, through the volume's queues.
    pub(super) async fn put(&self, shard: ShardId, home: Home, bytes: Bytes) -> Result<(), Error> {
        let written = match home {
            Home::Packed => self.peer.put_shard(self.volume, shard, &target(), vec![bytes]).await,
            Home::File => {
                let header = header(shard, bytes.len() as u64);
                let mut sink = self.peer.create_shard(self.volume, &target(), header, false);
                match sink.append(vec![bytes]).await {
                    Ok(()) => sink.finish().await,
                    Err(error) => Err(error),
                }
            }
        };
        written.map_err(Error::at("write a shard"))
    }

    /// Shard files that any thread may write, in a folder of their own.
    pub(super) const fn alone(&self) -> &ShardFiles {
        &self.alone
    }

    /// Reads a whole shard.
    pub(super) async fn get(&self, shard: ShardId, home: Home, length: u64) -> Result<Vec<Bytes>, Error> {
        let range = ShardRange { shard, home, offset: 0, length, wanted: Wanted::ByClient };
        self.peer.read_shard(self.volume, range).await.map_err(Error::at("read a shard"))
    }

    /// Takes the volume's files out of the page cache.
    pub(super) fn cold(&self) -> Result<Cold, Error> {
        Cold::begin(&self.path)
    }

    /// Waits until the spare segments that the log took are replaced: what one measurement used up is
    /// not made during the next.
    pub(super) async fn settle(&self) -> Result<(), Error> {
        for round in 0_u64.. {
            let status = self.volumes.status();
            let open = status.first().and_then(|status| status.open.as_ref());
            let open = open.ok_or("it is not open").map_err(Error::at("look at the volume"))?;
            if open.spares >= self.spares {
                break;
            }
            if round.is_multiple_of(16) {
                // The log asks for upkeep when it writes.
                let shard = self.new_shard();
                self.put(shard, Home::Packed, Bytes::from_static(b"!")).await?;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Closes the volume in order.
    pub(super) async fn close(self) -> Result<(), Error> {
        match self.volumes.close(PATIENCE).await.first() {
            None => Ok(()),
            Some((_, reason)) => Err(Error::at("close the volume")(reason.clone())),
        }
    }
}

/// The header of a shard file that holds one shard of measurements.
pub(super) fn header(shard: ShardId, bytes: u64) -> ShardFileHeader {
    ShardFileHeader {
        shard,
        key: register(),
        data_shards: 1,
        parity_shards: 0,
        stripe_unit: STRIPE_UNIT_BYTES,
        shard_bytes: bytes,
    }
}

/// Writes a shard file on this thread.
pub(super) fn put_file(files: &ShardFiles, shard: ShardId, bytes: Bytes) -> Result<(), Error> {
    let mut writer =
        files.create(&header(shard, bytes.len() as u64)).map_err(Error::at("make a shard file"))?;
    writer.append(&[bytes]).map_err(Error::at("write a shard file"))?;
    writer.finish().map_err(Error::at("finish a shard file"))
}
