//! Value that a read may return: `decide(replies)`.
//!
//! A value is returned only when it is known to be committed, or is being made so by this very
//! read. Ballots are compared, never values: the same value at two ballots is two proposals, and of
//! a minority each.
//!
//! The trap is the drop. A volume that answers "nothing" may have dropped a tombstone, while a
//! volume that was asked earlier still showed what that tombstone had replaced. So a row at or below
//! the floor of a "nothing" is asked for once more, after that "nothing" had come: by then every
//! volume holds the tombstone, nothing, or something newer. Guards I-7.

use crate::id::{Ballot, Epoch, VolumeId};
use crate::register::proposer::{HighestRow, highest};
use crate::register::quorum::{Lives, Quorums, Reply, is_current, voters};
use crate::register::{Refusal, Vote};

/// State of the read, beside the replies.
#[derive(Debug, Clone, Copy)]
pub struct ReadProgress<'a> {
    /// The set's quorums.
    pub quorums: Quorums,
    /// Volumes that were asked and may still answer.
    pub outstanding: usize,
    /// Lives of volumes known to the reader.
    pub lives: &'a Lives,
    /// Whether the read has waited about two commit times for another proposer to finish the write that it
    /// found.
    pub patience_over: bool,
}

/// Outcome of a read, judged by its replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadDecision {
    /// Undecided while volumes may still answer.
    Wait,
    /// This value is committed.
    Value(HighestRow),
    /// The register holds nothing.
    Absent,
    /// Ask these volumes once more and put their new replies in the place of the old ones.
    AskOnceMore {
        /// Holders of a row that may have been dropped in between.
        volumes: Vec<VolumeId>,
    },
    /// A write is under way: ask all volumes again, for about two commit times.
    AskAgain,
    /// The time for asking again is over: finish the write, by proposing what a prepare at a fresh ballot
    /// finds, unchanged; when it finds nothing the register is absent. Fewer than A volumes up: 503.
    Finish,
    /// Too many hold a seal: read the bucket's register.
    Sealed,
    /// Too many know a newer topology: fetch it.
    StaleEpoch {
        /// The highest epoch seen.
        epoch: Epoch,
    },
    /// Fewer than P volumes vote: 503.
    Unavailable,
}

/// Decides after the replies so far to a read, at most one of each volume, the latest.
pub fn decide_read(replies: &[Reply<Vote>], reading: ReadProgress<'_>) -> ReadDecision {
    let votes = voters(replies, reading.lives);
    let needed = reading.quorums.prepare();
    if votes.clone().count() < needed {
        return too_few(replies, reading);
    }
    let shown = votes.clone().map(|(reply, vote)| (reply.volume, vote));
    let Some(found) = highest(shown, reading.quorums) else { return ReadDecision::Absent };
    let outdated = maybe_dropped(votes.clone(), found.ballot);
    if !outdated.is_empty() {
        return ReadDecision::AskOnceMore { volumes: outdated };
    }
    if found.committed {
        return ReadDecision::Value(found);
    }
    if votes.filter(|(_, vote)| vote.row.is_none()).count() >= needed {
        return ReadDecision::Absent;
    }
    if reading.outstanding > 0 {
        ReadDecision::Wait
    } else if reading.patience_over {
        ReadDecision::Finish
    } else {
        ReadDecision::AskAgain
    }
}

/// The holders of a row of this ballot that were asked before a "nothing" had come whose floor
/// covers it.
fn maybe_dropped<'a>(
    votes: impl Iterator<Item = (&'a Reply<Vote>, &'a Vote)> + Clone,
    ballot: Ballot,
) -> Vec<VolumeId> {
    let nothings = votes.clone().filter(|(_, vote)| vote.row.is_none() && vote.floor >= ballot);
    let holders = votes.filter(|(_, vote)| vote.row.as_ref().is_some_and(|row| row.head.ballot == ballot));
    holders
        .filter(|(holder, _)| nothings.clone().any(|(nothing, _)| !holder.order.asked_after(nothing.order)))
        .map(|(holder, _)| holder.volume)
        .collect()
}

fn too_few(replies: &[Reply<Vote>], reading: ReadProgress<'_>) -> ReadDecision {
    if voters(replies, reading.lives).count() + reading.outstanding >= reading.quorums.prepare() {
        return ReadDecision::Wait;
    }
    let mut epoch_seen = None;
    for reply in replies.iter().filter(|reply| is_current(reply, replies, reading.lives)) {
        match reply.result {
            Err(Refusal::Sealed) => return ReadDecision::Sealed,
            Err(Refusal::StaleEpoch { epoch }) => epoch_seen = epoch_seen.max(Some(epoch)),
            _ => {}
        }
    }
    epoch_seen.map_or(ReadDecision::Unavailable, |epoch| ReadDecision::StaleEpoch { epoch })
}

#[cfg(test)]
mod tests;
