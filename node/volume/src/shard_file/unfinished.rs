//! Shard files that were never finished. A writer claims its file meanwhile; the rest of one after a crash is
//! shown like any other file, so that the sweep of orphans judges it by the register that its header names.
//!
//! ```text
//! header  end      read        shown
//! whole   whole    its bytes   as whole
//! whole   zeros    unfinished  as not whole: named, it is healed; not named and old, it is swept
//! whole   other    corrupt     the same. It has rotted, or the power went while its end was written
//! zeros   zeros    unfinished  never: cleared away when it is old, for not a byte can be vouched for
//! rotten  zeros    corrupt     the same
//! none    other    corrupt     never: a finished file that has rotted, which a heal replaces
//! ```
//! That a row names the data does not say that this file was ever finished: a write is acknowledged without
//! its slowest volumes.

use std::io;
use std::sync::atomic::Ordering;

use sherd_core::id::{ShardId, Timestamp};
use sherd_core::message::SeenShard;
use sherd_core::register::sweep::horizon;

use super::format::FOOTER_BYTES;
use super::{NamedShard, ShardFiles, ShardFilesState};
use crate::disk::{DiskFile, OpenMode};
use crate::error::Error;

/// The claim of a file's writer: no other thread writes the file, shows it or clears it away until this is
/// dropped.
#[derive(Debug)]
pub(super) struct WriteClaim {
    files: ShardFiles,
    pub(super) shard: ShardId,
    pub(super) is_heal: bool,
}

impl WriteClaim {
    /// Of a new file. It can be there only where the same request came twice. One that comes late, when its
    /// shard is healed already, would remove what was healed if it gave up.
    pub(super) fn of_create(files: &ShardFiles, shard: ShardId) -> Result<Self, Error> {
        let mut claims = files.shared.claims.lock();
        if claims.has_heal(shard) {
            return Err(Error::Busy);
        }
        if !claims.creates.insert(shard) {
            return Err(Error::Corrupt {
                what: format!("shard file {}: is being written", NamedShard(shard)),
            });
        }
        drop(claims);
        Ok(Self { files: files.clone(), shard, is_heal: false })
    }

    /// Of a heal: a writer that gives up removes its file, and would remove what was healed.
    pub(super) fn of_heal(files: &ShardFiles, shard: ShardId) -> Result<Self, Error> {
        let mut claims = files.shared.claims.lock();
        if claims.has(shard) {
            return Err(Error::Busy);
        }
        claims.heals.insert(shard);
        drop(claims);
        Ok(Self { files: files.clone(), shard, is_heal: true })
    }
}

impl Drop for WriteClaim {
    fn drop(&mut self) {
        let claims = &mut *self.files.shared.claims.lock();
        let claimed = if self.is_heal { &mut claims.heals } else { &mut claims.creates };
        claimed.remove(&self.shard);
    }
}

impl ShardFiles {
    /// The header of a shard's file; `None` if it does not exist, is being written, or cannot be attributed.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Failed`].
    pub fn seen(&self, shard: ShardId) -> Result<Option<SeenShard>, Error> {
        // Looked at first: a file that is finished meanwhile is whole.
        if self.shared.claims.lock().has(shard) {
            return Ok(None);
        }
        match self.header(shard) {
            Ok(header) => return Ok(Some(SeenShard { shard, key: header.key, is_whole: true })),
            Err(Error::Corrupt { .. } | Error::Unfinished { .. }) => {}
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        }
        match self.shared.header_alone(shard) {
            Ok(header) => Ok(Some(SeenShard { shard, key: header.key, is_whole: false })),
            Err(Error::Corrupt { .. } | Error::Unfinished { .. }) => {
                self.clear_away(shard);
                Ok(None)
            }
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many files were removed that had neither header nor end.
    pub fn cleared_away(&self) -> u64 {
        self.shared.cleared.load(Ordering::Relaxed)
    }

    /// Removes a file that has neither header nor end. The next listing finds what could not be removed.
    fn clear_away(&self, shard: ShardId) {
        let ShardFilesState { claims, disk, failure, clock, cleared, .. } = &*self.shared;
        // A writer that outlived an opening may still write it, and its claim is not known here. And a volume
        // that failed changes nothing.
        let is_old = clock
            .as_ref()
            .is_none_or(|clock| shard.data.birth < horizon(Timestamp::from_ms(clock.wall_ms())));
        if !is_old || failure.check().is_err() {
            return;
        }
        // Held over the removal: a heal of this shard begins before it or after it.
        let claims = claims.lock();
        let header = self.shared.header_alone(shard);
        if claims.has(shard) || !matches!(header, Err(Error::Corrupt { .. } | Error::Unfinished { .. })) {
            return;
        }
        let path = self.shared.path(shard);
        let file = disk.open(&path, OpenMode::Read);
        if file.is_ok_and(|file| was_never_ended(&*file).unwrap_or(false)) {
            failure.while_locked(|| {
                let is_removed = disk.remove(&path).is_ok();
                cleared.fetch_add(u64::from(is_removed), Ordering::Relaxed);
            });
        }
    }
}

/// Whether nothing was written where a footer ends a file. A finished file was synced with its footer.
pub(super) fn was_never_ended(file: &dyn DiskFile) -> io::Result<bool> {
    let mut end = [0; FOOTER_BYTES];
    let from = file.length()?.saturating_sub(FOOTER_BYTES as u64);
    let read = file.read_at(&mut end, from)?;
    Ok(end.iter().take(read).all(|byte| *byte == 0))
}
