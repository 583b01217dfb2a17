//! The proposer's decisions: after prepare, after accept, and after a conflict.
//!
//! ```text
//!   prepare ---> after_prepare ---> value made from the highest row ---> accept ---> after_accept
//!      ^              | Retry                                                             |
//!      |              v                                                     Conflict |  Committed
//!      +---- a higher ballot <---- TryAgain ---- after_conflict <---- prepare <------+
//! ```
//! A change has one id over all ballots that it takes, and a value carries the ids of its last sixteen: so a
//! writer whose accept ran into a conflict can tell whether another proposer finished its change. Guards I-4,
//! I-5, I-6, I-16 and I-17.

use crate::checksum::Digest;
use crate::id::{Ballot, ChangeId, Epoch, Timestamp, VolumeId};
use crate::limits::{CHANGE_IDS, FOLLOW_BOUND_MS_MAX, FOLLOW_STEP_MS_MAX};
use crate::record::Changes;
use crate::register::quorum::{Lives, Quorums, Reply, is_current, voters};
use crate::register::{Refusal, Row, Vote};

/// State of the prepare round, beside the replies.
#[derive(Debug, Clone, Copy)]
pub struct PrepareProgress<'a> {
    /// The set's quorums.
    pub quorums: Quorums,
    /// Volumes that were asked and may still answer.
    pub outstanding: usize,
    /// The asker's clock.
    pub now: Timestamp,
    /// Lives of volumes known to the proposer.
    pub lives: &'a Lives,
}

/// A decision, and the facts that the refusals carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<T> {
    /// The next step.
    pub outcome: T,
    /// Volumes whose clock is far from ours, to be reported; they count as unanswered.
    pub skewed: Vec<VolumeId>,
    /// A volume said that the bucket is sealed: its cached record must not be trusted any more, with any
    /// outcome.
    pub seal_seen: bool,
}

/// Outcome of a prepare, judged by its replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareOutcome {
    /// Undecided while volumes may still answer.
    Wait,
    /// A volumes promised: the value may be made and proposed.
    Prepared(PrepareResult),
    /// Too many volumes have a higher ballot: prepare again above this one.
    Retry {
        /// The highest bound worth following.
        above: Ballot,
    },
    /// Too many volumes refuse the ballot as too far ahead: prepare again at a ballot of the clock, if that
    /// is lower.
    TooFarAhead,
    /// Too many hold a seal: read the bucket's register.
    Sealed,
    /// Too many know a newer topology: fetch it.
    StaleEpoch {
        /// The highest epoch seen.
        epoch: Epoch,
    },
    /// Fewer than A volumes can promise: 503.
    Unavailable,
}

/// State that A promises showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrepareResult {
    /// The value to build on; `None` when none of them holds a row. A tombstone found here may have
    /// been dropped since its volume promised: that says the same, and nothing else can vanish.
    pub found: Option<HighestRow>,
    /// The highest floor among them. A floor at or above a change's first accept says that a
    /// tombstone made after it may have been dropped, and its history with it.
    pub floor: Ballot,
}

/// The highest row of a quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HighestRow {
    /// Ballot of the row.
    pub ballot: Ballot,
    /// The hash of the value's head.
    pub digest: Digest,
    /// Whether it is committed: one of them has it as committed, or A of them accepted it, see
    /// [`Vote::is_accepted`]. The commit hint comes later, and without the second rule a contended key would
    /// be settled again and again.
    pub committed: bool,
    /// Volumes that hold it, so that its bytes can be asked for.
    pub holders: Vec<VolumeId>,
}

/// A row that a volume showed with its promise and did not give when it was asked for: its device cannot read
/// the record, or the volume no longer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadableRow {
    /// The volume.
    pub volume: VolumeId,
    /// The ballot of the row. With another row the volume votes again.
    pub ballot: Ballot,
}

/// Outcome of an accept, judged by its replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptOutcome {
    /// Undecided while volumes may still answer.
    Wait,
    /// A voting volumes hold it durably: it is committed, answer the client.
    Committed,
    /// Too many volumes have a higher ballot. Another proposer may finish or replace the change: prepare
    /// above this ballot, then ask [`after_conflict`].
    Conflict {
        /// The highest bound worth following.
        above: Ballot,
    },
    /// Too many volumes refuse data this old: the change cannot be proposed again. It may still be finished
    /// by a proposer that finds it, so the outcome is unknown.
    DataTooOld,
    /// Too many hold a seal: read the bucket's register. The outcome is unknown.
    Sealed,
    /// Too many volumes have a newer topology. The outcome is unknown until a prepare there shows it.
    StaleEpoch {
        /// The highest epoch seen.
        epoch: Epoch,
    },
    /// Too few volumes answered. The outcome is unknown: prepare again, as after a conflict.
    Undecided,
}

/// A writer's record of its own tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tries {
    /// The change.
    pub change: ChangeId,
    /// The ballot of the first accept that was sent for it.
    pub first_accept: Ballot,
    /// The lowest count of changes that any of its accepts proposed. Lowest, since a drop sets the
    /// count back: a later try may propose a lower count than an earlier one.
    pub lowest_count: u64,
    /// The highest floor that any volume showed since the operation began.
    pub highest_floor: Ballot,
}

/// Fate of a change whose accept ran into a conflict, judged by the value that the next prepare found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AfterConflict {
    /// The found value contains the change and is committed: it has succeeded.
    Committed {
        /// Number of the try that went into the value.
        number: u16,
    },
    /// The found value contains the change, but may not be committed: propose it as it is at the
    /// prepared ballot; when that is committed the change has succeeded.
    Settle {
        /// Number of the try that went into the value.
        number: u16,
    },
    /// The change is not in the found value's history and, once a value is committed at the prepared ballot,
    /// never will be by itself: judge its condition again and propose it again.
    TryAgain,
    /// The change history is too short to tell: the outcome is unknown, and only the write that replaces this
    /// value may release its data.
    Unknown,
}

/// Decides after the replies so far to a prepare, without those whose row is `unreadable`.
///
/// A head comes from a volume's index, so a volume votes for a row that it may be unable to read. Where no
/// volume can give the highest row, a proposer that kept these votes would find the same row at every ballot,
/// and the key would be stuck. It names them here instead, and decides on the votes that are left.
///
/// That is safe because A promises must be left. Any A promises suffice for a decision, with any answers of
/// the other volumes: an unreadable row that was committed is held by A volumes, one of which is among any
/// other A, and that one shows this row or a later one. So a row that none of the A shows is not committed,
/// and never will be, since each of the A refuses its ballot now. The promise of a volume whose row is left
/// out must not count among the A: it may be the only one of them that holds the committed row.
///
/// The replies stay in `replies`: what they say of other volumes' lives, and their floors, count.
pub fn after_prepare(
    replies: &[Reply<Vote>],
    unreadable: &[UnreadableRow],
    progress: PrepareProgress<'_>,
) -> Decision<PrepareOutcome> {
    let is_unreadable = |volume: VolumeId, vote: &Vote| {
        let shown = |row: &Row, left_out: &UnreadableRow| {
            left_out.volume == volume && left_out.ballot == row.head.ballot
        };
        vote.row.as_ref().is_some_and(|row| unreadable.iter().any(|left_out| shown(row, left_out)))
    };
    let votes = voters(replies, progress.lives).filter(|(reply, vote)| !is_unreadable(reply.volume, vote));
    let promises = votes.clone().count();
    let needed = progress.quorums.accept();
    let refusals = RefusalSummary::of(replies, progress);
    let outcome = if promises >= needed {
        PrepareOutcome::Prepared(PrepareResult {
            found: highest(votes.map(|(reply, vote)| (reply.volume, vote)), progress.quorums),
            floor: voters(replies, progress.lives).map(|(_, vote)| vote.floor).max().unwrap_or_default(),
        })
    } else if promises + progress.outstanding >= needed {
        PrepareOutcome::Wait
    } else if refusals.sealed {
        PrepareOutcome::Sealed
    } else if let Some(epoch) = refusals.epoch {
        PrepareOutcome::StaleEpoch { epoch }
    } else if let Some(above) = refusals.followable(promises + progress.outstanding, needed) {
        PrepareOutcome::Retry { above }
    } else if refusals.are_too_far_ahead(promises + progress.outstanding, needed) {
        PrepareOutcome::TooFarAhead
    } else {
        PrepareOutcome::Unavailable
    };
    Decision { outcome, skewed: refusals.skewed, seal_seen: refusals.sealed }
}

/// Decides after the replies so far to an accept. A reply `Ok` says that the row is durable.
pub fn after_accept(replies: &[Reply<()>], progress: PrepareProgress<'_>) -> Decision<AcceptOutcome> {
    let accepts = voters(replies, progress.lives).count();
    let needed = progress.quorums.accept();
    let refusals = RefusalSummary::of(replies, progress);
    let outcome = if accepts >= needed {
        AcceptOutcome::Committed
    } else if accepts + progress.outstanding >= needed {
        AcceptOutcome::Wait
    } else if refusals.sealed {
        AcceptOutcome::Sealed
    } else if refusals.data_too_old {
        AcceptOutcome::DataTooOld
    } else if let Some(epoch) = refusals.epoch {
        AcceptOutcome::StaleEpoch { epoch }
    } else if let Some(above) = refusals.followable(accepts + progress.outstanding, needed) {
        AcceptOutcome::Conflict { above }
    } else {
        AcceptOutcome::Undecided
    };
    Decision { outcome, skewed: refusals.skewed, seal_seen: refusals.sealed }
}

/// Decides what became of a change, from the value that the prepare after a conflict found
/// (`Changes::default()` when it found nothing).
///
/// - Its id is there: it has succeeded, at the latest when the found value is committed. Without this rule a
///   change that another proposer finished is made twice.
/// - Sixteen or more changes since the lowest count proposed: the id may have been pushed out of the
///   ring, so its absence says nothing.
/// - A floor at or above the first accept: the change may have been committed, deleted and the tombstone
///   dropped, and count and ids started over.
pub fn after_conflict(found: &Changes, found_committed: bool, tries: &Tries) -> AfterConflict {
    let ring = u64::try_from(CHANGE_IDS).expect("a handful");
    if let Some(number) = found.number_of(tries.change) {
        return if found_committed {
            AfterConflict::Committed { number }
        } else {
            AfterConflict::Settle { number }
        };
    }
    let pushed_out = found.count >= tries.lowest_count.saturating_add(ring);
    let dropped = tries.highest_floor >= tries.first_accept;
    if pushed_out || dropped { AfterConflict::Unknown } else { AfterConflict::TryAgain }
}

/// Whether a refusal says that the volume's clock is far from ours: it counts as unanswered.
pub fn is_skewed(refusal: Refusal, now: Timestamp) -> bool {
    match refusal {
        Refusal::Below { bound } => bound.time > now.plus_ms(FOLLOW_BOUND_MS_MAX),
        Refusal::TooFarAhead { .. } => true,
        Refusal::StaleEpoch { .. } | Refusal::Sealed | Refusal::DataTooOld { .. } | Refusal::Recovering => {
            false
        }
    }
}

/// The highest row among votes.
pub(super) fn highest<'a>(
    votes: impl Iterator<Item = (VolumeId, &'a Vote)> + Clone,
    quorums: Quorums,
) -> Option<HighestRow> {
    let rows = votes.filter_map(|(volume, vote)| vote.row.as_ref().map(|row| (volume, row.head, vote)));
    let top = rows.clone().map(|(_, head, _)| head).max_by_key(|head| head.ballot)?;
    let same = rows.filter(|(_, head, _)| head.ballot == top.ballot);
    let accepted_count = same.clone().filter(|(.., vote)| vote.is_accepted()).count();
    Some(HighestRow {
        ballot: top.ballot,
        digest: top.digest,
        committed: accepted_count >= quorums.accept() || same.clone().any(|(_, head, _)| head.committed),
        holders: same.map(|(volume, ..)| volume).collect(),
    })
}

/// Summary of a round's refusals.
struct RefusalSummary {
    /// The highest bound up to four minutes past our clock, and how many voters named one.
    near: Option<Ballot>,
    near_count: usize,
    /// The bounds of voters that are farther ahead, up to where a step of all clocks may have been.
    far: Vec<Ballot>,
    /// How many voters refuse the ballot as too far ahead.
    too_far_ahead_count: usize,
    sealed: bool,
    epoch: Option<Epoch>,
    data_too_old: bool,
    skewed: Vec<VolumeId>,
}

impl RefusalSummary {
    fn of<T>(replies: &[Reply<T>], progress: PrepareProgress<'_>) -> Self {
        let mut all = Self {
            near: None,
            near_count: 0,
            far: Vec::new(),
            too_far_ahead_count: 0,
            sealed: false,
            epoch: None,
            data_too_old: false,
            skewed: Vec::new(),
        };
        let far_to = progress.now.plus_ms(FOLLOW_STEP_MS_MAX);
        for reply in replies.iter().filter(|reply| is_current(reply, replies, progress.lives)) {
            let votes = reply.from.votes;
            let Err(refusal) = reply.result else { continue };
            let is_skewed = is_skewed(refusal, progress.now);
            all.skewed.extend(is_skewed.then_some(reply.volume));
            match refusal {
                Refusal::Recovering => {}
                // Followed, a bound from a clock that is far ahead would drag every proposer's
                // ballots along, until the volumes with good clocks refuse them all.
                Refusal::Below { bound } if is_skewed => {
                    all.far.extend((votes && bound.time <= far_to).then_some(bound));
                }
                Refusal::Below { bound } => {
                    all.near = all.near.max(Some(bound));
                    all.near_count += usize::from(votes);
                }
                Refusal::TooFarAhead { .. } => all.too_far_ahead_count += usize::from(votes),
                Refusal::StaleEpoch { epoch } => all.epoch = all.epoch.max(Some(epoch)),
                Refusal::Sealed => all.sealed = true,
                Refusal::DataTooOld { .. } => all.data_too_old = true,
            }
        }
        all.far.sort_unstable();
        all
    }

    /// The ballot above which to try again, where that can reach `needed` voters at all.
    ///
    /// Where fewer than A can promise within four minutes, it was the clocks of all, and they were set
    /// back. Then it is the lowest bound that reaches enough voters: a higher one may be of a clock that
    /// is wrong by itself.
    fn followable(&self, reachable: usize, needed: usize) -> Option<Ballot> {
        let reachable = reachable + self.near_count;
        match needed.checked_sub(reachable + 1) {
            None => self.near,
            Some(further) => self.far.get(further).copied(),
        }
    }

    /// Whether those that refuse the ballot as too far ahead are why it is not promised.
    fn are_too_far_ahead(&self, reachable: usize, needed: usize) -> bool {
        reachable + self.near_count + self.too_far_ahead_count >= needed
    }
}

#[cfg(test)]
mod tests;
