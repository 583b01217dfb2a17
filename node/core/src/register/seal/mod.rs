//! Deleting a bucket: nothing may be written into it between "it is empty" and "it is gone".
//!
//! ```text
//! bucket's register             volumes of every set
//!   | active -> deleting(id)       |
//!   |                    seal(id) -> A of every set, durable: every request is answered `sealed`
//!   |                    list ----> those same volumes, each after its own seal
//!   | nothing live or unsettled on A of them: deleting(id) -> deleted
//!   | otherwise: deleting(id) -> active, then unseal(id), then read and settle what was in doubt
//! ```
//! A tombstone that A of them accepted at one ballot is gone, whether they know it committed or not.
//!
//! A, not P: a write needs A volumes, so every write after the seals reaches one that refuses it, and every
//! write acknowledged before them is on one that was listed. Guards I-14 and I-15.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Ballot, BucketId, ChangeId, ObjectKey};
use crate::record::BucketPhase;
use crate::register::quorum::{Lives, Quorums, Reply, voters};

/// The seals that a volume holds on one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub enum Seals {
    /// None: requests are answered.
    #[default]
    Open,
    /// Seals of deletions under way, side by side: a second deletion's seal must not go away with the first
    /// one's.
    Held(Vec<ChangeId>),
    /// The bucket is deleted; its id never comes back, nor does the seal ever go.
    Final,
}

/// The seals of one bucket as they are stored and sent: the deletions that hold it, none for a final seal.
pub type StoredSeals = (BucketId, Vec<ChangeId>);

impl Seals {
    /// From the stored list of deletions: an empty list is a final seal.
    pub fn from_stored(deletions: &[ChangeId]) -> Self {
        if deletions.is_empty() { Self::Final } else { Self::Held(deletions.to_vec()) }
    }

    /// The stored list of deletions; `None` for an open bucket, of which nothing is stored.
    pub fn to_stored(&self) -> Option<Vec<ChangeId>> {
        match self {
            Self::Open => None,
            Self::Held(deletions) => Some(deletions.clone()),
            Self::Final => Some(Vec::new()),
        }
    }

    /// Whether requests for the bucket are answered `sealed`.
    pub fn is_sealed(&self) -> bool {
        *self != Self::Open
    }

    /// With the seal of one deletion.
    #[must_use]
    pub fn sealed(self, deletion: ChangeId) -> Self {
        match self {
            Self::Open => Self::Held(vec![deletion]),
            Self::Held(mut deletions) => {
                if !deletions.contains(&deletion) {
                    deletions.push(deletion);
                }
                Self::Held(deletions)
            }
            Self::Final => Self::Final,
        }
    }

    /// Without the seal of one deletion, and only that.
    #[must_use]
    pub fn unsealed(self, deletion: ChangeId) -> Self {
        match self {
            Self::Held(mut deletions) => {
                deletions.retain(|held| *held != deletion);
                if deletions.is_empty() { Self::Open } else { Self::Held(deletions) }
            }
            other => other,
        }
    }

    /// With everything that another volume holds.
    #[must_use]
    pub fn merged(self, other: &Self) -> Self {
        match other {
            Self::Open => self,
            Self::Final => Self::Final,
            Self::Held(deletions) => deletions.iter().fold(self, |all, deletion| all.sealed(*deletion)),
        }
    }
}

/// Meaning of a row for a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowFate {
    /// A tombstone known to be committed: nothing is there.
    Gone,
    /// A value known to be committed: the bucket is not empty.
    Live,
    /// Not known to be committed: it may be an acknowledged write, or a delete that never became
    /// one. It is settled before the next try.
    Unsettled,
}

/// Judges one row that the listing of a sealed volume found.
pub const fn row_fate(committed: bool, tombstone: bool) -> RowFate {
    match (committed, tombstone) {
        (true, true) => RowFate::Gone,
        (true, false) => RowFate::Live,
        (false, _) => RowFate::Unsettled,
    }
}

/// A row that a sealed volume does not know to be committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnsettledRemains {
    /// Key of the row.
    pub key: ObjectKey,
    /// Ballot of the row.
    pub ballot: Ballot,
    /// Whether its value holds no object.
    pub is_tombstone: bool,
    /// Whether it counts as accepted by this volume, by the floor that its page was answered with:
    /// [`RowHead::is_accepted`](super::RowHead::is_accepted).
    pub is_accepted: bool,
}

/// Rows that one sealed volume still holds under the bucket's id, reported in one life from the first page to
/// the last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Remains {
    /// Keys whose row is live on this volume, which may have missed their tombstones.
    pub live: Vec<ObjectKey>,
    /// Rows that are unsettled.
    pub unsettled: Vec<UnsettledRemains>,
    /// Whether these are all: a list that was cut says nothing about what is not in it.
    pub is_complete: bool,
}

impl Remains {
    /// Whether the volume holds nothing that could be live, where these tombstones are known to be committed.
    fn is_empty_beside(&self, gone: &BTreeSet<(&ObjectKey, Ballot)>) -> bool {
        let is_gone = |row: &UnsettledRemains| gone.contains(&(&row.key, row.ballot));
        self.is_complete && self.live.is_empty() && self.unsettled.iter().all(is_gone)
    }
}

/// The tombstones that A of these volumes accepted at one ballot. Each is committed, as it is where A votes
/// of a read carry one ballot; that the volumes were not asked at one moment changes nothing, for what A
/// accepted once is committed for ever. Copies count as little as there.
fn gone<'a>(
    listed: impl Iterator<Item = &'a Remains>,
    quorums: Quorums,
) -> BTreeSet<(&'a ObjectKey, Ballot)> {
    let mut accepted: BTreeMap<(&ObjectKey, Ballot), usize> = BTreeMap::new();
    for row in listed.flat_map(|remains| &remains.unsettled).filter(|row| row.is_tombstone && row.is_accepted)
    {
        *accepted.entry((&row.key, row.ballot)).or_default() += 1;
    }
    accepted.into_iter().filter(|(_, count)| *count >= quorums.accept()).map(|(row, _)| row).collect()
}

/// The answers of one set.
#[derive(Debug, Clone, Copy)]
pub struct SetAnswers<'a> {
    /// The set's quorums.
    pub quorums: Quorums,
    /// Volumes that sealed the bucket under this deletion's id, durably.
    pub seals: &'a [Reply<()>],
    /// Rows that each still holds.
    pub remains: &'a [Reply<Remains>],
}

/// Next step of the deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeletionDecision {
    /// Empty: a CAS from `deleting(deletion)` to `deleted` ends it.
    End,
    /// Back to active by CAS first, then this deletion's seals are removed: `BucketNotEmpty`.
    NotEmpty,
    /// Undone in the same way, but the rows there may be uncommitted or deleted: read and settle them, then
    /// try again under a fresh deletion id.
    Settle,
    /// Too few volumes were sealed and listed: back to active, then unseal; 503.
    Unavailable,
}

/// Decides over all sets of the bucket.
///
/// Counted are volumes that sealed and were listed after that, both in one life, which must be their
/// current one. A volume listed before its own seal can take a write in between.
///
/// A of them that hold nothing are enough, with any rows on the others: an acknowledged write is on one of
/// any A, or was replaced there, and the other rows there can no longer be committed, since these A refuse
/// it. So a volume that missed the tombstones of a bucket while it was away does not keep the bucket.
///
/// A tombstone that A of them accepted at one ballot is committed, and counts as nothing wherever it is.
///
/// Where A of them do not hold nothing, a key is live when P show it as live: N - A volumes at most missed
/// the last write to it, which is fewer than P. A key that fewer show may have been deleted; only its
/// register can say.
///
/// Programmer error: no sets, of which all would be empty.
pub fn decide_deletion(sets: &[SetAnswers<'_>], lives: &Lives) -> DeletionDecision {
    assert!(!sets.is_empty(), "a bucket is spread over all sets");
    let (mut is_live, mut is_in_doubt, mut enough) = (false, false, true);
    for set in sets {
        let listed = || {
            voters(set.remains, lives).filter(|(reply, _)| {
                voters(set.seals, lives).any(|(seal, ())| {
                    seal.volume == reply.volume
                        && seal.from.life == reply.from.life
                        && reply.order.asked_after(seal.order)
                })
            })
        };
        let tombstones = gone(listed().map(|(_, remains)| remains), set.quorums);
        let empty_count = listed().filter(|(_, remains)| remains.is_empty_beside(&tombstones)).count();
        if empty_count >= set.quorums.accept() {
            continue;
        }
        enough &= listed().count() >= set.quorums.accept();
        is_in_doubt |= listed().any(|(_, remains)| !remains.is_empty_beside(&tombstones));
        let mut shown: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        for key in listed().flat_map(|(_, remains)| &remains.live) {
            *shown.entry(key).or_default() += 1;
        }
        is_live |= shown.values().any(|count| *count >= set.quorums.prepare());
    }
    match (is_live, is_in_doubt, enough) {
        (true, _, _) => DeletionDecision::NotEmpty,
        (false, true, _) => DeletionDecision::Settle,
        (false, false, true) => DeletionDecision::End,
        (false, false, false) => DeletionDecision::Unavailable,
    }
}

/// Treatment of a seal that upkeep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SealFate {
    /// The deletion may still be going on, or nothing is known: the seal stays.
    Keep,
    /// The deletion was undone: remove the seal.
    Remove,
    /// The bucket is deleted: make it final on all volumes of all sets.
    MakeFinal,
}

/// Judges a seal of `deletion` on `bucket` by what the bucket's own register says (`None`: it holds
/// no bucket), in an uncached read.
///
/// `begun_after_seen` says that the read began after the seal was seen. An older read may be from
/// before that deletion began, and would take away a seal that a deletion relies on. Nor is a seal
/// removed on the word of a register that does not name the bucket: its deletion may be complete.
pub fn seal_fate(
    bucket: BucketId,
    deletion: ChangeId,
    register: Option<(BucketId, BucketPhase)>,
    begun_after_seen: bool,
) -> SealFate {
    match register {
        _ if !begun_after_seen => SealFate::Keep,
        Some((named, phase)) if named == bucket => match phase {
            BucketPhase::Deleting { deletion: current } if current == deletion => SealFate::Keep,
            BucketPhase::Active | BucketPhase::Deleting { .. } => SealFate::Remove,
            BucketPhase::Deleted => SealFate::MakeFinal,
        },
        _ => SealFate::Keep,
    }
}

/// Volumes of one set that listed the names of all bucket registers that they have a row of.
#[derive(Debug, Clone, Copy)]
pub struct NameAnswers<'a> {
    /// The set's quorums.
    pub quorums: Quorums,
    /// Answers of volumes that listed them, and voted in one life from before the first name until after the
    /// last: a volume that recovers may still get rows behind those that it has listed.
    pub replies: &'a [Reply<()>],
}

/// Whether a bucket is deleted of which a seal was seen, though its register bears another bucket's name by
/// now: which register that was, a seal does not say.
///
/// `named` are the buckets that the registers of all names held, listed and read after the seal was seen. A
/// bucket is sealed only while its register is known to hold it, and A volumes have a row of that register
/// from then on: P volumes of each set list its name. A register that was read names the bucket until it is
/// deleted, and an id is never used again.
pub fn is_nowhere(
    bucket: BucketId,
    sets: &[NameAnswers<'_>],
    named: &BTreeSet<BucketId>,
    lives: &Lives,
) -> bool {
    !named.contains(&bucket) && cover_all_names(sets, lives)
}

/// Whether the names of all bucket registers that existed before were listed.
pub fn cover_all_names(sets: &[NameAnswers<'_>], lives: &Lives) -> bool {
    let covers_all = |set: &NameAnswers<'_>| voters(set.replies, lives).count() >= set.quorums.prepare();
    !sets.is_empty() && sets.iter().all(covers_all)
}

#[cfg(test)]
mod tests;
