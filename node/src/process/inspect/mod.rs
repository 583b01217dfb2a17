//! `sherd-node inspect DIR...`: what is in volumes that no node is using, and whether it is whole.
//!
//! Every directory is locked and opened as a start would open it: its log is replayed, a damaged index is
//! rebuilt from it. With `verify` every row, shard and file is read back and checked, and what the
//! directories hold together is compared: rows of a key, shards of a data id, parity. A volume that is
//! recovering is named, and not compared.

mod command;
mod findings;
mod limits;
mod unnamed;
mod verify;
mod volume;

pub use command::{InspectArgs, inspect};

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_core::env::{Clock, Rng};
use sherd_core::id::{Epoch, Timestamp};
use sherd_core::limits::ORPHAN_AGE_MS;
use sherd_core::message::{RowScan, UnsettledKind};
use sherd_core::register::position::OpeningId;
use sherd_core::register::sweep::horizon;
use sherd_core::topology::Topology;
use sherd_volume::Reader;
use sherd_volume::buffer::{BufferPool, PoolLimits};
use sherd_volume::disk::Disk;
use sherd_volume::error::Error;
use sherd_volume::format::Subject;
use sherd_volume::identity::{ExpectedIdentity, Identity};
use sherd_volume::index::lsm::IndexCache;
use sherd_volume::open::{Setup, open};
use sherd_volume::options::Options;
use sherd_volume::read::wants::wants;

use self::findings::{Report, UnnamedShards, VolumeReport};
use self::limits::{BUFFER_BYTES, PAGE};
use self::volume::{InspectError, InspectedVolume, read_error};
use sherd_store::volumes::directories::directory::identity_of;
use sherd_store::volumes::lsm_indexes;

/// Memory and files of the indexes.
const INDEX_CACHE: (u64, usize) = (32 << 20, 128);

/// The arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InspectRequest {
    /// Read everything back and compare it.
    pub verify: bool,
    /// Write the report as JSON instead of text.
    pub json: bool,
}

/// Inspects volumes and writes the report to `out`. Blocking.
///
/// # Errors
/// When the inspection itself did not work; what is wrong with the volumes' contents is in the report.
pub fn run(
    disk: &Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
    rng: &dyn Rng,
    directories: &[PathBuf],
    wanted: InspectRequest,
    out: &mut dyn Write,
) -> Result<Report, InspectError> {
    let limits = PoolLimits { cap_bytes: BUFFER_BYTES, stripe_bytes: 1 << 20, idle_bytes: 1 << 20 };
    let buffers = BufferPool::new(limits);
    let cache = IndexCache::new(INDEX_CACHE.0, INDEX_CACHE.1);
    let mut report = Report::default();
    let mut opened = Vec::new();
    let mut topology: Option<Topology> = None;
    for path in directories {
        let identity = identity_of(&**disk, path)?;
        let setup = Setup {
            disk: Arc::clone(disk),
            path: path.clone(),
            clock: Arc::clone(clock),
            index: lsm_indexes(cache.clone())(path),
            buffers: buffers.clone(),
            expected: ExpectedIdentity::default(),
            options: Options { spare_segments: 0, ballast_bytes: 0, ..Options::default() },
            opening: OpeningId::draw(rng),
        };
        let (volume, opening) = open(setup)?;
        judge_rotten(path, &volume.reader(), &opening.rotten, wanted, &mut report)
            .map_err(|source| read_error(path, source))?;
        let volume = InspectedVolume {
            path: path.clone(),
            id: identity.volume,
            reader: volume.reader(),
            _volume: volume,
        };
        let carried = carried(path, &identity, &mut report);
        let mut found =
            describe(&volume, &identity, carried.as_ref()).map_err(|source| read_error(path, source))?;
        if let Some(reason) = &opening.lost_state {
            found.state = format!("recovering, its state was lost: {reason}");
        }
        if let Some(reason) = &opening.lost_state
            && identity.lost.as_ref() != Some(reason)
        {
            report.problem(format!("{}: the volume lost state: {reason}", path.display()));
        }
        report.volumes.push(found);
        if topology
            .as_ref()
            .is_none_or(|newest| carried.as_ref().is_some_and(|one| one.epoch() > newest.epoch()))
        {
            topology = carried.or(topology);
        }
        // The set brings a recovering volume what it lacks: it counts as not given.
        if opening.lost_state.is_none() {
            opened.push(volume);
        }
    }
    if wanted.verify {
        verify::verify(&opened, topology.as_ref(), &mut report)?;
        let horizon = horizon(Timestamp::from_ms(clock.wall_ms()));
        unnamed::count(&opened, topology.as_ref(), horizon, &mut report.unnamed)?;
    }
    write_report(&report, wanted, out)?;
    Ok(report)
}

/// Separates rotten records that the volume still answers from, from those that were healed or replaced.
fn judge_rotten(
    path: &Path,
    reader: &Reader,
    rotten: &[Subject],
    wanted: InspectRequest,
    report: &mut Report,
) -> Result<(), Error> {
    for subject in rotten {
        let named_later = wanted.verify && matches!(subject, Subject::Shard { .. });
        match reader.verify(subject) {
            Ok(()) => report.superseded_rotten += 1,
            // Verification finds whether a register names it.
            Err(Error::Corrupt { .. }) if named_later => {}
            Err(Error::Corrupt { what }) => {
                report.problem(format!("{}: a record is rotten: {what}", path.display()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn carried(path: &Path, identity: &Identity, report: &mut Report) -> Option<Topology> {
    let stored = identity.topology.clone()?;
    match serde_json::from_value::<Topology>(stored) {
        Ok(topology) => Some(topology),
        Err(error) => {
            report.problem(format!("{}: its topology cannot be read: {error}", path.display()));
            None
        }
    }
}

/// Counts what a volume holds.
fn describe(
    volume: &InspectedVolume,
    identity: &Identity,
    topology: Option<&Topology>,
) -> Result<VolumeReport, Error> {
    let reader = &volume.reader;
    let status = reader.status();
    let (mut rows, mut tombstones) = (0, 0);
    let mut after = None;
    loop {
        let scan = RowScan { want_value: false, ..RowScan::all(Epoch::MAX, after.clone(), PAGE) };
        let page = reader.rows(&scan)?;
        rows += page.rows.len() as u64;
        tombstones += page.rows.iter().filter(|row| row.tombstone).count() as u64;
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let mut shard_files = 0;
    for directory in 0..=u8::MAX {
        shard_files += reader.shard_files().list(directory)?.len() as u64;
    }
    Ok(VolumeReport {
        path: volume.path.clone(),
        cluster: identity.cluster.to_string(),
        volume: identity.volume.to_string(),
        life: identity.life.0,
        state: format!("{:?}", status.state),
        epoch: topology.map(|topology| topology.epoch().0),
        segments: status.segments,
        live_bytes: status.live_bytes,
        rows,
        tombstones,
        unsettled: count_uncommitted(reader)?,
        packed_shards: count(|after| reader.shards(after.copied(), PAGE), |seen| seen.shard)?,
        shard_files,
        heals: count(|after| reader.heals(after.copied(), PAGE), |(id, _)| *id)?,
        wants: count(|after| wants(reader, after.copied(), PAGE), |logged| logged.id)?,
        releases: count(|after| reader.releases(after.copied(), PAGE), |(id, _)| *id)?,
    })
}

fn count_uncommitted(reader: &Reader) -> Result<u64, Error> {
    let (mut after, mut counted) = (None, 0);
    loop {
        let page = reader.unsettled(UnsettledKind::Uncommitted, after.as_ref(), PAGE)?;
        counted += page.rows.len() as u64;
        after = page.next;
        if after.is_none() {
            return Ok(counted);
        }
    }
}

fn count<T, K>(
    page: impl Fn(Option<&K>) -> Result<Vec<T>, Error>,
    key: impl Fn(&T) -> K,
) -> Result<u64, Error> {
    let mut after: Option<K> = None;
    let mut counted = 0;
    loop {
        let found = page(after.as_ref())?;
        counted += found.len() as u64;
        match found.last() {
            Some(last) if found.len() >= PAGE => after = Some(key(last)),
            Some(_) | None => return Ok(counted),
        }
    }
}

fn write_report(report: &Report, wanted: InspectRequest, out: &mut dyn Write) -> std::io::Result<()> {
    if wanted.json {
        serde_json::to_writer_pretty(&mut *out, report).map_err(std::io::Error::other)?;
        return writeln!(out);
    }
    for volume in &report.volumes {
        writeln!(out, "{}", volume.path.display())?;
        writeln!(out, "  cluster {} volume {}", volume.cluster, volume.volume)?;
        let epoch = volume.epoch.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
        writeln!(out, "  life {} state {} topology epoch {epoch}", volume.life, volume.state)?;
        writeln!(out, "  log {} segments, {} live bytes", volume.segments, volume.live_bytes)?;
        writeln!(
            out,
            "  rows {} (tombstones {}, unsettled {}), packed shards {}, shard files {}, heals {}, wants {}, \
             releases {}",
            volume.rows,
            volume.tombstones,
            volume.unsettled,
            volume.packed_shards,
            volume.shard_files,
            volume.heals,
            volume.wants,
            volume.releases
        )?;
    }
    if wanted.verify {
        writeln!(
            out,
            "verified {} registers ({} rows behind, {} unneeded) and {} data ids; {} shards belong on volumes that were not \
             given; {} unfinished shards that nothing names",
            report.registers,
            report.rows_behind,
            report.rows_unneeded,
            report.data_ids,
            report.shards_elsewhere,
            report.unnamed_broken
        )?;
        let UnnamedShards { count, bytes, noted_count, sweepable_count, data: _ } = &report.unnamed;
        let hours = ORPHAN_AGE_MS / 3_600_000;
        writeln!(
            out,
            "unnamed shards: {count}, {bytes} bytes; of them noted for release: {noted_count}, older than {hours} h: \
             {sweepable_count}"
        )?;
    }
    if report.superseded_rotten > 0 {
        writeln!(
            out,
            "{} rotten records that were healed or replaced; compaction removes them",
            report.superseded_rotten
        )?;
    }
    for problem in &report.problems {
        writeln!(out, "PROBLEM {problem}")?;
    }
    writeln!(out, "{} problems", report.problems_count)
}

#[cfg(test)]
mod tests;
