//! From a directory to a serving volume: identity, index, replay, and what state it is in.
//!
//! ```text
//! volume.json -> segments' headers -> index's persisted sequence -> replay from there
//!             -> is anything acknowledged gone? -> what replay found is synced -> serve
//! ```
//! The log is the truth. An index that is damaged, or that lacks what compaction has let go since, is wiped
//! and rebuilt from the log; one that only cannot be read at the moment is left alone, and the volume does
//! not open. Only a loss in the log is lost state, and then the volume opens as recovering with everything
//! that is readable. One that lost nothing by its own log votes once its peers confirmed it
//! ([`Volume::confirm`]).

pub(crate) mod damage;
pub(crate) mod locate;
pub(crate) mod rebuild;
pub(crate) mod report;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sherd_core::env::Clock;
use sherd_core::id::{Ballot, ClusterId, Life, Sequence, VolumeId};
use sherd_core::register::acceptor::after_restart;
use sherd_core::register::position::OpeningId;
use sherd_core::register::recover::opening::Opening;

use crate::buffer::BufferPool;
use crate::disk::Disk;
use crate::disk::ballast::Ballast;
use crate::disk::descriptor_limit::DescriptorLimitDisk;
use crate::error::{Error, OpenError};
use crate::format::Subject;
use crate::identity::failure::{FailureFile, FailureLatch};
use crate::identity::{self, ExpectedIdentity, Identity, IdentityFile, LostRange};
use crate::index::IndexError;
use crate::log::append::{Log, Tail};
use crate::log::durable::SpareSegments;
use crate::log::{self, Segments};
use crate::open::damage::{RottenRecords, queue_damage};
use crate::open::locate::LogFiles;
use crate::open::rebuild::{RestoredState, index_error, restore};
use crate::options::{Durability, Options};
use crate::read::reader::Reader;
use crate::read::recent::Recent;
use crate::read::view::{Counters, View, VolumeShared};
use crate::shard_file::ShardFiles;
use crate::state::promises::Promises;
use crate::state::{Recovery, SmallState};
use crate::sync::{Mutex, RwLock};
use crate::write::piggyback_queue::PiggybackQueue;
use crate::write::volume::Volume;

pub use crate::open::report::{IndexSource, OpenReport, RemovedFile};

/// Failure noted in volume.json while a first format is under way.
const UNFINISHED: &str = "format not finished";
/// The directory of shard files.
pub const SHARDS: &str = "shards";

/// Parts that a volume is opened with.
pub struct Setup {
    /// The disk, as all volumes on it use it.
    pub disk: Arc<dyn Disk>,
    /// The volume's directory.
    pub path: PathBuf,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The index.
    pub index: Box<dyn IndexSource>,
    /// The process's buffers.
    pub buffers: BufferPool,
    /// The owner that the directory must have.
    pub expected: ExpectedIdentity,
    /// How it is run.
    pub options: Options,
    /// Id drawn for this opening.
    pub opening: OpeningId,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Identity of a new volume.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVolume {
    /// Cluster of the volume.
    pub cluster: ClusterId,
    /// Id of the volume.
    pub volume: VolumeId,
    /// Number of the first life: 1, or above every one that its peers know.
    pub life: Life,
    /// Whether its cluster has served yet.
    pub phase: identity::Phase,
    /// Why the state of its life before is lost, when it takes a lost volume's place: it opens as
    /// recovering.
    pub lost: Option<String>,
}

fn io_error(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::refused(op, path, source)
}

/// Makes an empty directory a volume. Never done by [`open`]: an empty directory where a volume is expected
/// is an operator's decision.
///
/// # Errors
/// [`OpenError`]; a format that is interrupted is finished by the next [`open`].
pub fn create(disk: &Arc<dyn Disk>, path: &Path, new: NewVolume) -> Result<(), OpenError> {
    let _lock = identity::lock(disk.as_ref(), path)?;
    let NewVolume { cluster, volume, life, phase, lost } = new;
    let lost = Some(lost.unwrap_or_else(|| UNFINISHED.to_owned()));
    let identity = Identity {
        cluster,
        volume,
        life,
        phase,
        topology: None,
        failed: None,
        lost,
        noted_losses: Vec::new(),
    };
    IdentityFile::create(Arc::clone(disk), path, identity).map(drop)
}

/// Opens a volume.
///
/// In a directory that does not hold the volume's identity nothing is made: it may be what a filesystem is
/// mounted on, and that one is away.
///
/// # Errors
/// [`OpenError`]; `Damaged` also for an empty directory.
pub fn open(setup: Setup) -> Result<(Volume, OpenReport), OpenError> {
    let Setup { disk, path, clock, mut index, buffers, expected, options, opening } = setup;
    let disk: Arc<dyn Disk> = Arc::new(DescriptorLimitDisk::new(disk));
    let options = options.within_limits();
    let began_us = clock.monotonic_us();
    // The lock is a file, too.
    identity_in(&disk, &path, expected)?;
    let lock = identity::lock(disk.as_ref(), &path)?;
    let file = identity_in(&disk, &path, expected)?;
    let ballast = Arc::new(Ballast::new(Arc::clone(&disk), &path, options.ballast_bytes));
    let sticky = Arc::new(FailureFile { file, ballast: Arc::clone(&ballast), _lock: lock });
    let failure = Arc::new(FailureLatch::new(&sticky));
    let identity = sticky.file.identity();
    let is_new = identity.lost.as_deref() == Some(UNFINISHED);
    let segments = Arc::new(Segments::new(&disk));
    let (spares, mut restored) = make_directories(disk.as_ref(), &path, &sticky.file)
        .and_then(|()| read_in(&disk, &path, &options, &identity, &segments, index.as_mut()))
        .inspect_err(|error| {
            if let OpenError::Failed { reason, .. } = error {
                sticky.note_failure(reason);
            }
        })?;
    let end = Sequence(restored.tail.next.0.saturating_sub(1));
    restored.small.open(Opening { id: opening, end });
    ballast.make(clock.monotonic_us());
    let shared = VolumeShared {
        disk: Arc::clone(&disk),
        path,
        clock: Arc::clone(&clock),
        options,
        index: Arc::clone(&restored.index),
        recent: Recent::new(options.recent_bytes),
        segments,
        noted_losses: restored.noted_losses.clone(),
        spares: Arc::new(spares),
        ballast,
        buffers: buffers.clone(),
        view: RwLock::new(View {
            overlay: std::collections::BTreeMap::new(),
            version: 0,
            small: restored.small.clone(),
            durable: end,
        }),
        promises: Mutex::new(Promises::new(options.promises_bytes, Ballot::ZERO)),
        counters: Counters::default(),
        failure: Arc::clone(&failure),
        is_closing: AtomicBool::new(false),
    };
    let shards_path = shared.path.join(SHARDS);
    let shard_files =
        ShardFiles::of_volume(disk, shards_path, identity.cluster, buffers, failure, Some(clock));
    serve(Arc::new(shared), shard_files, sticky, restored, is_new, began_us)
}

fn identity_in(
    disk: &Arc<dyn Disk>,
    path: &Path,
    expected: ExpectedIdentity,
) -> Result<IdentityFile, OpenError> {
    IdentityFile::open(Arc::clone(disk), path, expected)?.ok_or_else(|| OpenError::Damaged {
        path: path.to_owned(),
        what: "it is empty, and no volume yet".to_owned(),
    })
}

/// Makes the directories that a volume lacks, durably: those of a format that was cut short, or lost. Where
/// it was taken away since its identity was read, nothing is made in its place.
fn make_directories(disk: &dyn Disk, path: &Path, identity: &IdentityFile) -> Result<(), OpenError> {
    for directory in [log::directory(path), path.join(SHARDS)] {
        match disk.file_id(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("stat", &directory)(error)),
            Ok(_) => continue,
        }
        let gone = |gone: identity::DirectoryGone| io::Error::new(io::ErrorKind::NotFound, gone);
        identity.still_here().map_err(gone).map_err(io_error("find the volume of", &directory))?;
        disk.create_dir(&directory).map_err(io_error("create", &directory))?;
    }
    disk.sync_dir(path).map_err(io_error("sync", path))
}

/// Reads in the content of a directory. On return all of it is durable, even if its writer did not sync:
/// names, spares, and every segment.
fn read_in(
    disk: &Arc<dyn Disk>,
    path: &Path,
    options: &Options,
    identity: &Identity,
    segments: &Segments,
    index: &mut dyn IndexSource,
) -> Result<(SpareSegments, RestoredState), OpenError> {
    let log_path = log::directory(path);
    let names: Vec<String> = disk
        .list(&log_path)
        .map_err(io_error("list", &log_path))?
        .into_iter()
        .filter(|entry| !entry.is_dir)
        .map(|entry| entry.name)
        .collect();
    let spares = SpareSegments::adopt(
        Arc::clone(disk),
        &log_path,
        &names,
        options.segment_bytes,
        options.spare_segments,
    )
    .map_err(io_error("read spares in", &log_path))?;
    // Without this a power cut may take the name of a segment back, and bring a segment back under the name
    // of a spare that was used since.
    disk.sync_dir(&log_path).map_err(io_error("sync", &log_path))?;
    if identity.lost.as_deref() == Some(UNFINISHED) && spares.is_short() {
        // Gives the first writes of a volume a spare segment, as all later ones have. Without space it does
        // without: a full disk shows when the segment is begun.
        let _ = spares.make_one();
    }
    let files = LogFiles {
        disk,
        path: &log_path,
        names: &names,
        volume: identity.volume,
        // A life that begins without its state begins without a log, too.
        is_whole: identity.lost.is_none(),
        is_formatted: identity.lost.as_deref() != Some(UNFINISHED),
        noted_losses: &identity.noted_losses,
        policy: options.unreadable,
        replay_bytes: options.replay_bytes,
        missed_rows_max: options.missed_rows_max,
        syncs: options.durability == Durability::Fsync,
    };
    let restored = restore(&files, segments, index)?;
    Ok((spares, restored))
}

#[derive(Debug)]
enum FirstWrite {
    /// The first frame of a log, with its first opening.
    Format,
    /// A life that begins because the state of the one before is lost: what is missing in the log, and which
    /// segments are kept.
    Life { noted_losses: Vec<LostRange>, unnamed: Vec<Subject> },
    /// The opening, and the phase that a recovery begins with where no record says it yet.
    Phase,
}

/// The life that a volume is opened in. One that begins is above the life that lost its state: it begins in
/// the log, and volume.json follows, which an opening that was cut short did not come to.
fn life_of(identity: &Identity, recovery: Option<Recovery>, is_lost: bool) -> Life {
    let noted = identity.life;
    if is_lost {
        return Life(noted.0.saturating_add(1));
    }
    let begun = recovery.filter(|_| identity.lost.is_some()).map(|known| known.life);
    begun.map_or(noted, |begun| begun.max(noted))
}

fn settle_life(
    sticky: &FailureFile,
    small: &mut SmallState,
    is_lost: bool,
    is_new: bool,
) -> Result<(), OpenError> {
    let identity = sticky.file.identity();
    let life = life_of(&identity, small.recovery, is_lost);
    if !is_lost && life != identity.life {
        sticky.begin_life(life)?;
    }
    small.life = life.0;
    small.is_recovering = identity.lost.is_some() && !is_new;
    if small.is_recovering && small.standing().votes() {
        // The log says that this life finished its recovery.
        sticky.note_whole()?;
        small.is_recovering = false;
    }
    Ok(())
}

fn serve(
    shared: Arc<VolumeShared>,
    shard_files: ShardFiles,
    sticky: Arc<FailureFile>,
    restored: RestoredState,
    is_new: bool,
    began_us: u64,
) -> Result<(Volume, OpenReport), OpenError> {
    let RestoredState {
        mut small,
        mut derived,
        tail,
        mut report,
        rotten,
        lost,
        noted_losses,
        unnamed,
        is_flushed,
        index: _,
    } = restored;
    let is_new = is_new && lost.is_none();
    // A filesystem that does not say how full it is counts as full: new data is refused.
    let _ = shared.measure_space();
    let is_whole = sticky.file.identity().lost.is_none() && lost.is_none() && rotten.named.is_empty();
    if !is_whole && !is_new && shared.is_full() {
        // A loss, and the queue of heals, come before everything else that needs space.
        shared.ballast.give_up();
    }
    let volume_id = sticky.file.identity().volume;
    match &lost {
        Some(reason) => sticky.note_loss(reason)?,
        None => sticky.remember(&noted_losses)?,
    }
    settle_life(&sticky, &mut small, lost.is_some(), is_new)?;
    report.lost_state = sticky.file.identity().lost.filter(|_| !is_new);
    small.settle();
    let restart = after_restart(&small.acceptor(Ballot::ZERO));
    shared.promises.lock().restart_bound = restart.restart_bound;
    shared.view.write().small = small.clone();
    shared.counters.live_bytes.store(derived.live_total(), Ordering::Relaxed);
    shared.counters.missed_rows.store(derived.missed_count(), Ordering::Relaxed);
    derived.settle_horizon(shared.view.read().durable);
    shared.counters.show_horizon(derived.horizon());
    shared.count_unmerged();
    report.took_us = shared.clock.monotonic_us().saturating_sub(began_us);
    let reader = Arc::new(Reader { shared: Arc::clone(&shared), shard_files, sticky: Arc::clone(&sticky) });
    let mut volume = Volume {
        id: volume_id,
        durable_bound: small.bound,
        durable_reading: small.clock_reading,
        log: log_of(&shared, volume_id, &tail),
        shared,
        reader,
        working: small,
        derived,
        piggyback: PiggybackQueue::default(),
        compaction: crate::write::compaction::Compaction::default(),
        sticky,
        queue: std::collections::VecDeque::new(),
        room: crate::write::plan::BatchPlan::default(),
        unprotected_since_us: None,
        unfolded_since_us: None,
        measured_us: 0,
        blocked_until_us: 0,
    };
    let first = match lost {
        Some(_) => FirstWrite::Life { noted_losses, unnamed },
        None if is_new => FirstWrite::Format,
        None => FirstWrite::Phase,
    };
    report.rotten_left = first_writes(&mut volume, &first, &rotten, is_flushed)?;
    report.rotten = rotten.named.into_iter().map(|record| record.subject).collect();
    Ok((volume, report))
}

fn log_of(shared: &VolumeShared, volume: VolumeId, tail: &Tail) -> Log {
    Log::new(
        volume,
        shared.options.segment_bytes,
        shared.options.durability == Durability::Fsync,
        Arc::clone(&shared.clock),
        Arc::clone(&shared.segments),
        Arc::clone(&shared.spares),
        tail,
    )
}

/// Makes the first writes, durable before any call is answered. Returns whether a rotten record is left that
/// is not queued.
fn first_writes(
    volume: &mut Volume,
    first: &FirstWrite,
    rotten: &RottenRecords,
    is_flushed: bool,
) -> Result<bool, OpenError> {
    let path = volume.shared.path.clone();
    let failed = |error| first_write_failed(path.clone(), error);
    match first {
        FirstWrite::Format => {
            // From here on there is a log, and its absence is a loss.
            volume.settle_phase().map_err(&failed)?;
            volume.sticky.note_whole()?;
        }
        FirstWrite::Life { unnamed, .. } => volume.start_over(unnamed).map_err(&failed)?,
        FirstWrite::Phase => volume.settle_opening().map_err(&failed)?,
    }
    let is_left = !rotten.named.is_empty() && !queue_damage(volume, rotten).map_err(&failed)?;
    if let FirstWrite::Life { noted_losses, .. } = first {
        // The checkpoint goes behind the loss, or the next opening finds it again and begins another life:
        // which happens if space for it is short.
        match volume.checkpoint() {
            Ok(()) | Err(Error::Full) => {}
            Err(error) => return Err(failed(error)),
        }
        // The log has the life, and no peer has seen it: a try that fails before this uses no life up.
        volume.sticky.begin_life_without(Life(volume.working.life), noted_losses)?;
    } else if is_flushed {
        // From here on the end of the replay is durable, and its segments may be compacted. Before it a crash
        // has the same segments replayed, and finds again what is rotten in them.
        volume.fold().map_err(failed)?;
        match volume.shared.index.flush() {
            Ok(()) | Err(IndexError::Full) => {}
            Err(error) => return Err(index_error(error, &path)),
        }
    }
    Ok(is_left)
}

fn first_write_failed(path: PathBuf, error: Error) -> OpenError {
    let source = match error {
        Error::Full => io::ErrorKind::StorageFull.into(),
        Error::Busy => io::ErrorKind::ResourceBusy.into(),
        Error::Failed { reason } => return OpenError::Failed { path, reason },
        other => return OpenError::Damaged { path, what: other.to_string() },
    };
    OpenError::Io { op: "write the log of", path, source }
}
