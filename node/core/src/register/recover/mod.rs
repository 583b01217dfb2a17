//! How a volume that lost its state comes to vote again: the barrier, step by step.
//!
//! ```text
//! recovering volume                          P voters of each of its sets
//!   | -- which life comes next? -------------> |  highest life known of it
//!   | -- record my new life -----------------> |  durable; replies of older lives are void from here
//!   | <-- bound, floor, highest, data floors - |  reported after that, with the lives it has
//!   | -- seals, page by page ----------------> |  all that stood when it recorded
//!   |   F = the maximum; own floor := F, their seals, lives, data floor: durable;
//!   |   from here it stores writes above F, uncounted
//!   | -- raise your floor to F --------------> |  durable
//!   | -- scan -------------------------------> |  rows
//!   |   adopts the highest row of each key; all durable: it votes
//! ```
//! The lost volume promised and accepted together with the other volumes of a quorum, and at least one of
//! these is among the P. F closes every promise that it may have given; the scan after the floors finds
//! everything that it may have helped to commit; later writes are above F and reach it directly.
//!
//! Seals are read apart from the reports, because they are as many as buckets were ever deleted. A deletion
//! that counts a seal of the lost volume's old life counts A - 1 other volumes, and one of these is among the
//! P. Had that voter sealed after it recorded the new life, its answer would have named that life, and the
//! old one would not count: so it sealed before. Its report is later than that, and a reading that begins
//! after the report has come finds the seal on any page, unless it was removed meanwhile: then the deletion
//! was undone first, and nothing relies on the seal. A seal that is placed while the pages are read may be
//! missed, and belongs to a deletion that does not count the old life. The seals are durable on the
//! recovering volume before it stores a write or a row: in its new life it accepts nothing under a seal that
//! counted on it. Guards I-11 and I-12.

pub mod confirm;
pub mod opening;
pub mod outlook;

use std::collections::BTreeMap;

use crate::id::{Ballot, BucketId, Life, Timestamp, VolumeId};
use crate::limits::CLOCK_STEP_MS_MAX;
use crate::register::RowHead;
use crate::register::quorum::{Lives, Quorums, Reply, voters};
use crate::register::seal::{Seals, StoredSeals};

/// Durable guarantees of a volume, as it reports them. Its seals are read apart, page by page: they are as
/// many as buckets were deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Guarantees {
    /// The highest ballot that it may have promised: what it did promise since its start, or the
    /// bound at that start. Not the bound that its clock keeps extending: reported to a recovery, the
    /// clock of one volume would become the floor of a whole set.
    pub bound: Ballot,
    /// Ballots at or below are refused.
    pub floor: Ballot,
    /// The highest ballot of any row.
    pub highest: Ballot,
    /// Accepts that introduce older data are refused.
    pub data_floor: Timestamp,
    /// Lives of peers in its durable state.
    pub lives: Vec<(VolumeId, Life)>,
}

impl Guarantees {
    /// Whether what it guarantees lies more than a day ahead: as a voter of a recovery it would close
    /// the others to every proposer, for none follows so far.
    pub fn is_far_ahead(&self, now: Timestamp) -> bool {
        self.bound.max(self.floor).max(self.highest).time > now.plus_ms(CLOCK_STEP_MS_MAX)
    }

    /// The life that it has recorded for a volume; the first if it recorded no loss.
    pub fn life_of(&self, volume: VolumeId) -> Life {
        let known = self.lives.iter().filter(|(peer, _)| *peer == volume).map(|(_, life)| *life);
        known.max().unwrap_or(Life(1))
    }
}

/// Joint guarantees of the P voters of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barrier {
    /// F: no ballot at or below it is accepted by these voters or by the recovering volume again,
    /// once all of them have it as their floor.
    pub floor: Ballot,
    /// Volumes to scan, each in the life in which it reported.
    pub voters: Vec<(VolumeId, Life)>,
    /// Guarantees that the recovering volume makes durable before it stores any write: F as `floor`, the
    /// highest data floor, the highest lives. With it go the voters' seals ([`may_take`]).
    pub guarantees: Guarantees,
}

/// Treatment of a row that a voter's scan returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Adoption {
    /// Store it, with its committed flag.
    Take,
    /// Keep what is there, and note that it is committed.
    LearnCommitted,
    /// Keep what is there.
    Keep,
}

/// The life to record for a volume that lost its state: one more than the highest that P voters, or
/// the volume itself, know. `None` with fewer than P voters.
///
/// Any P of the other volumes intersect any other P of them, so a life is never given twice; with a life
/// given twice the replies of the first could not be distinguished from those of the second.
pub fn next_life(
    volume: VolumeId,
    own: Life,
    known: &[Reply<Guarantees>],
    quorums: Quorums,
    lives: &Lives,
) -> Option<Life> {
    let reports = || voters(known, lives).filter(|(reply, _)| reply.volume != volume);
    if reports().count() < quorums.prepare() {
        return None;
    }
    let heard = lives.of(volume).unwrap_or(own);
    let highest = reports().map(|(_, report)| report.life_of(volume)).fold(own.max(heard), Ord::max);
    Some(Life(highest.0.saturating_add(1)))
}

/// Step 1, for one set: what its voters guarantee together, from reports that each made after it had durably
/// recorded `life`. `None` while fewer than P such reports are there; one more than a day ahead of `now`, the
/// clock of the caller, does not count while it is so.
///
/// A report made before the recording may be overtaken by an acceptance that still counts the lost
/// volume's old reply; the scan would miss it.
pub fn barrier(
    volume: VolumeId,
    life: Life,
    reports: &[Reply<Guarantees>],
    quorums: Quorums,
    lives: &Lives,
    now: Timestamp,
) -> Option<Barrier> {
    let recorded = || {
        let others = voters(reports, lives).filter(|(reply, _)| reply.volume != volume);
        others.filter(|(_, report)| report.life_of(volume) == life && !report.is_far_ahead(now))
    };
    if recorded().count() < quorums.prepare() {
        return None;
    }
    let mut guarantees = merge(recorded().map(|(_, report)| report));
    // A voter's own life belongs to the lives that it reports: no other voter may have it.
    for (reply, _) in recorded() {
        merge_life(&mut guarantees.lives, reply.volume, reply.from.life);
    }
    Some(Barrier {
        floor: guarantees.floor,
        voters: recorded().map(|(reply, _)| (reply.volume, reply.from.life)).collect(),
        guarantees,
    })
}

/// Joins the guarantees of several voters. Its floor is F: the maximum of every bound, floor and highest
/// ballot.
pub fn merge<'a>(reports: impl Iterator<Item = &'a Guarantees>) -> Guarantees {
    let mut all = Guarantees::default();
    for report in reports {
        let Guarantees { bound, floor, highest, data_floor, lives } = report;
        all.floor = all.floor.max(*bound).max(*floor).max(*highest);
        all.data_floor = all.data_floor.max(*data_floor);
        for (peer, life) in lives {
            merge_life(&mut all.lives, *peer, *life);
        }
    }
    all.bound = all.floor;
    all.highest = all.floor;
    all
}

fn merge_life(all: &mut Vec<(VolumeId, Life)>, peer: VolumeId, life: Life) {
    match all.iter_mut().find(|(known, _)| *known == peer) {
        Some((_, known)) => *known = (*known).max(life),
        None if life > Life(1) => all.push((peer, life)),
        None => {}
    }
}

/// The seals that several voters hold together, by bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VoterSeals(BTreeMap<BucketId, Seals>);

impl VoterSeals {
    /// Adds one page of what a voter holds.
    pub fn add(&mut self, page: Vec<StoredSeals>) {
        for (bucket, deletions) in page {
            let held = self.0.entry(bucket).or_insert(Seals::Open);
            *held = std::mem::take(held).merged(&Seals::from_stored(&deletions));
        }
    }

    /// All of them, in the form of the pages.
    pub fn into_stored(self) -> Vec<StoredSeals> {
        let stored = |(bucket, seals): (BucketId, Seals)| Some((bucket, seals.to_stored()?));
        self.0.into_iter().filter_map(stored).collect()
    }
}

/// Step 1, second half: whether the recovering volume may take over what the voters guarantee. The seals of
/// each of them were read to the end, in the life in which it reported, by a reading that began after its
/// report had come. A seal read before its holder recorded the life may be older than one that a deletion
/// counts.
pub fn may_take(barrier: &Barrier, reports: &[Reply<Guarantees>], read: &[Reply<()>], lives: &Lives) -> bool {
    barrier.voters.iter().all(|(volume, life)| {
        let report = reports.iter().find(|reply| reply.volume == *volume && reply.from.life == *life);
        voters(read, lives).any(|(reply, ())| {
            reply.volume == *volume
                && reply.from.life == *life
                && report.is_some_and(|report| reply.order.asked_after(report.order))
        })
    })
}

/// Step 2: whether every voter of the barrier has F as its durable floor, in the life in which it
/// reported. Scanned earlier, a voter can still accept a ballot at or below F after its scan.
pub fn may_scan(barrier: &Barrier, confirmations: &[Reply<Guarantees>], lives: &Lives) -> bool {
    barrier.voters.iter().all(|(volume, life)| {
        voters(confirmations, lives).any(|(reply, report)| {
            reply.volume == *volume && reply.from.life == *life && report.floor >= barrier.floor
        })
    })
}

/// Step 3, for one row of a scan: what to do with it, given the recovering volume's own row.
pub fn adopt(own: Option<&RowHead>, found: &RowHead) -> Adoption {
    match own {
        Some(own) if own.ballot > found.ballot => Adoption::Keep,
        Some(own) if own.ballot == found.ballot && found.committed && !own.committed => {
            Adoption::LearnCommitted
        }
        Some(own) if own.ballot == found.ballot => Adoption::Keep,
        _ => Adoption::Take,
    }
}

/// Whether a set is recovered: every voter of the barrier, in the life in which it reported, was
/// scanned to the end, each scan begun after that voter's confirmation of F had come, and everything
/// found is durable. The volume votes when all its sets are recovered.
pub fn may_vote(
    barrier: &Barrier,
    confirmations: &[Reply<Guarantees>],
    scans: &[Reply<()>],
    lives: &Lives,
) -> bool {
    may_scan(barrier, confirmations, lives)
        && barrier.voters.iter().all(|(volume, life)| {
            let confirmed =
                confirmations.iter().find(|reply| reply.volume == *volume).map(|reply| reply.order);
            voters(scans, lives).any(|(reply, ())| {
                reply.volume == *volume
                    && reply.from.life == *life
                    && confirmed.is_some_and(|order| reply.order.asked_after(order))
            })
        })
}

#[cfg(test)]
mod tests;
