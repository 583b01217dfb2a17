//! The device: writes and reads past the page cache, and reads of a file that is not in it.
//!
//! Only this process's time is counted: what the kernel's own threads do for it is not.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use sherd_volume::buffer::{Buffer, BufferPool, PoolLimits};
use sherd_volume::disk::real::RealDisk;
use sherd_volume::disk::{Disk as _, DiskFile, OpenMode};

use super::ends::{UNITS, named};
use super::gauge::{Gauge, Pass};
use super::payload::Payload;
use crate::question::error::Error;

/// Buffers of the pieces that are written, aligned as the device wants them.
pub(super) const POOL: PoolLimits =
    PoolLimits { cap_bytes: 64 << 20, stripe_bytes: 1 << 20, idle_bytes: 64 << 20 };

pub(super) fn measure(gauge: &mut Gauge<'_>) -> Result<(), Error> {
    let (folder, pool) = (gauge.bench.folder()?, BufferPool::new(POOL));
    let path = folder.path().join("file");
    for unit in UNITS {
        let file = create(&path, gauge.pass_bytes()).map_err(Error::at("make a file to measure with"))?;
        let source = aligned(&gauge.payload, unit, &pool);
        gauge.measure("write", &format!("direct-{}", named(unit)), |bytes, _| {
            for (piece, offset) in source.iter().cycle().zip(offsets(unit, bytes)) {
                file.write_at(&[IoSlice::new(piece)], offset)?;
            }
            file.sync_data()?;
            Ok(Pass::of(true))
        })?;
        drop(source);
        read(gauge, &path, unit, &pool)?;
        cold_read(gauge, &path, unit)?;
        std::fs::remove_file(&path).map_err(Error::at("remove the file"))?;
    }
    Ok(())
}

/// A file with all its blocks, which are written over: no measured write extends it.
fn create(path: &Path, bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
    let disk = RealDisk::new();
    disk.open(path, OpenMode::CreateNew)?.allocate(bytes)?;
    disk.open(path, OpenMode::WriteDirect)
}

/// The payload in buffers of a unit.
pub(super) fn aligned(payload: &Payload, unit: usize, pool: &BufferPool) -> Vec<Buffer> {
    let pieces = payload.pieces(unit, payload.bytes().len() as u64);
    pieces
        .map(|piece| {
            let mut buffer = pool.try_take(unit).expect("the pool holds the payload");
            buffer[..unit].copy_from_slice(&piece);
            buffer
        })
        .collect()
}

fn offsets(unit: usize, bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes).step_by(unit)
}

fn read(gauge: &mut Gauge<'_>, path: &Path, unit: usize, pool: &BufferPool) -> Result<(), Error> {
    let file = RealDisk::new().open(path, OpenMode::ReadDirect).map_err(Error::at("open the file"))?;
    let (payload, mut buffer) = (gauge.payload.clone(), pool.try_take(unit).expect("the pool has room"));
    gauge.measure("read", &format!("direct-{}", named(unit)), |bytes, check| {
        let mut arrival = payload.arrival(check);
        for offset in offsets(unit, bytes) {
            let count = file.read_at(&mut buffer[..unit], offset)?;
            arrival.take(&buffer[..count]);
        }
        Ok(Pass::of(arrival.is_whole(bytes)))
    })?;
    Ok(())
}

fn cold_read(gauge: &mut Gauge<'_>, path: &Path, unit: usize) -> Result<(), Error> {
    let file = OpenOptions::new().read(true).open(path).map_err(Error::at("open the file"))?;
    let (payload, mut buffer) = (gauge.payload.clone(), vec![0; unit]);
    gauge.measure("read", &format!("cold-{}", named(unit)), |bytes, check| {
        evict(&file)?;
        let mut arrival = payload.arrival(check);
        for offset in offsets(unit, bytes) {
            let count = file.read_at(&mut buffer[..unit], offset)?;
            arrival.take(&buffer[..count]);
        }
        Ok(Pass::of(arrival.is_whole(bytes)))
    })?;
    Ok(())
}

/// Takes the file out of the page cache: all of it was written past it.
fn evict(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}
