//! How far each volume of this node is since it was opened, for health: whether it is known what it lacks,
//! and what is being brought back.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;

use sherd_core::id::VolumeId;

use super::notes::ComparisonPoint;

/// The step of a recovery in which shards are rebuilt.
pub(super) const SHARDS: &str = "shards";

/// How far a volume is since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpeningStatus {
    /// Not looked at yet: neither the queue nor [`Self::Recovering`] covers what it lacks.
    Unknown,
    /// Rows or shards are being brought back.
    Recovering(RecoveryStatus),
    /// All that it lacks is in the queue.
    Known,
}

/// A volume on its way back, for health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryStatus {
    /// The step under way: `registers` or `shards`.
    pub step: &'static str,
    /// Why it does not go on, if it does not.
    pub stalled: Option<String>,
    /// Rows adopted in this try.
    pub rows_count: u64,
    /// Bytes of shards that are still missing, as far as they were counted.
    pub shard_bytes_left: u64,
    /// Milliseconds until all shards are there, at the pace so far.
    pub eta_ms: Option<u64>,
}

impl fmt::Display for RecoveryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.stalled {
            return write!(f, "waits: {why}");
        }
        if self.step != SHARDS {
            return write!(f, "gets its rows: {} so far", self.rows_count);
        }
        if self.shard_bytes_left == 0 {
            return f.write_str("looks for the shards that it lacks");
        }
        write!(f, "gets its shards: {} MiB left", self.shard_bytes_left.div_ceil(1 << 20))?;
        self.eta_ms.map_or(Ok(()), |eta_ms| write!(f, ", about {} s", eta_ms / 1000))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct RecoveryRun {
    pub(super) step: &'static str,
    pub(super) stalled: Option<String>,
    pub(super) rows_count: u64,
    bytes_done: u64,
    bytes_left: u64,
    /// Since when the missing shards are counted and rebuilt.
    shards_since_ms: Option<u64>,
}

impl RecoveryRun {
    fn status(&self, now_ms: u64) -> RecoveryStatus {
        let passed_ms = self.shards_since_ms.map(|since_ms| now_ms.saturating_sub(since_ms));
        RecoveryStatus {
            step: self.step,
            stalled: self.stalled.clone(),
            rows_count: self.rows_count,
            shard_bytes_left: self.bytes_left,
            eta_ms: passed_ms
                .and_then(|passed_ms| passed_ms.saturating_mul(self.bytes_left).checked_div(self.bytes_done)),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recoveries {
    running: Mutex<BTreeMap<VolumeId, RecoveryRun>>,
    /// Since when it is known of each volume what it lacks: all of that is done or queued.
    known: Mutex<BTreeMap<VolumeId, ComparisonPoint>>,
}

impl Recoveries {
    pub(super) fn change(&self, volume: VolumeId, change: impl FnOnce(&mut RecoveryRun)) {
        change(self.running.lock().entry(volume).or_default());
    }

    pub(super) fn stalled_by(&self, volume: VolumeId) -> Option<String> {
        self.running.lock().get(&volume).and_then(|running| running.stalled.clone())
    }

    pub(crate) fn adopted(&self, volume: VolumeId, rows: u64) {
        self.change(volume, |running| running.rows_count += rows);
    }

    /// Shards begin, or another pass over them does: `bytes_left` bytes are missing.
    pub(crate) fn shards_left(&self, volume: VolumeId, bytes_left: u64, now_ms: u64) {
        self.change(volume, |running| {
            let is_first = running.step != SHARDS || running.shards_since_ms.is_none();
            if is_first || running.stalled.is_some() {
                *running =
                    RecoveryRun { step: SHARDS, shards_since_ms: Some(now_ms), ..RecoveryRun::default() };
            }
            running.bytes_left = bytes_left;
        });
    }

    pub(crate) fn shard_done(&self, volume: VolumeId, bytes: u64) {
        self.change(volume, |running| {
            running.bytes_done += bytes;
            running.bytes_left = running.bytes_left.saturating_sub(bytes);
        });
    }

    pub(crate) fn end(&self, volume: VolumeId) {
        self.running.lock().remove(&volume);
    }

    /// A walk over the shards came to its end, and some could not be rebuilt: the volume is listed until
    /// another walk finds them.
    pub(super) fn shards_queued(&self, volume: VolumeId) {
        let why = "shards of it cannot be rebuilt from the volumes that are there; it wants them".to_owned();
        self.change(volume, |running| (running.step, running.stalled) = (SHARDS, Some(why)));
    }

    /// Whether a walk over the shards of a volume did not find all of them yet.
    pub(crate) fn wants_shards(&self, volume: VolumeId) -> bool {
        self.running.lock().get(&volume).is_some_and(|running| running.step == SHARDS)
    }

    /// From here on it is known what this opening of a volume lacks. Shards that are queued are still listed.
    pub(crate) fn know(&self, volume: VolumeId, since: ComparisonPoint) {
        self.known.lock().insert(volume, since);
        if !self.wants_shards(volume) {
            self.end(volume);
        }
    }

    /// The list of what it lacks is not all any more.
    pub(crate) fn doubt(&self, volume: VolumeId) {
        self.known.lock().remove(&volume);
    }

    pub(crate) fn is_known(&self, volume: VolumeId, since: ComparisonPoint) -> bool {
        self.known.lock().get(&volume) == Some(&since)
    }

    /// How far an opening of a volume is. A recovery is listed before it is known to be complete, and what is
    /// not recovered is queued before it leaves the list: so read the list last, and the queue after it.
    pub(crate) fn standing(&self, volume: VolumeId, since: ComparisonPoint, now_ms: u64) -> OpeningStatus {
        let is_known = self.is_known(volume, since);
        match self.running.lock().get(&volume) {
            Some(running) => OpeningStatus::Recovering(running.status(now_ms)),
            None if is_known => OpeningStatus::Known,
            None => OpeningStatus::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: ComparisonPoint = ComparisonPoint { opening: 1, lost_reports: 0 };

    #[test]
    fn the_time_that_is_left_is_counted_from_where_shards_began() {
        let recoveries = Recoveries::default();
        let volume = VolumeId([1; 16]);
        let said = |now_ms| match recoveries.standing(volume, SINCE, now_ms) {
            OpeningStatus::Recovering(status) => status.to_string(),
            standing => panic!("{standing:?}"),
        };
        let began_ms = 1_795_000_000_000;
        recoveries.adopted(volume, 12);
        assert_eq!(said(began_ms), "gets its rows: 12 so far");
        // State at a restart, before the shards are counted.
        recoveries.change(volume, |running| running.step = "shards");
        assert_eq!(said(began_ms), "looks for the shards that it lacks");
        recoveries.shards_left(volume, 100 << 20, began_ms);
        assert_eq!(said(began_ms), "gets its shards: 100 MiB left");
        recoveries.shard_done(volume, 20 << 20);
        assert_eq!(said(began_ms + 5_000), "gets its shards: 80 MiB left, about 20 s");
        recoveries.change(volume, |running| running.stalled = Some("no voters".to_owned()));
        assert_eq!(said(began_ms), "waits: no voters");
        recoveries.end(volume);
        assert_eq!(recoveries.standing(volume, SINCE, began_ms), OpeningStatus::Unknown);
    }
}
