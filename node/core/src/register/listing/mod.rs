//! Rows of a listing's scans that may be shown without a register read.
//!
//! A listing merges the ordered scans of at least P volumes of a set; these hold every committed
//! key. Volumes skip tombstones that they know to be committed, so "no row" says little: it may be
//! a deleted key or one never seen. A row counts only where P volumes returned one.
//!
//! The caller passes one entry for each scan whose reply counts (`quorum::voters`), from volumes of
//! the key's slot's set in the listing's epoch only, pending rows included. Guards I-13.

use crate::id::ObjectKey;
use crate::register::RowHead;
use crate::register::quorum::Quorums;

/// A row as a scan returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedEntry {
    /// Ballot, digest, committed flag.
    pub head: RowHead,
    /// Whether the value shows in this kind of listing; a tombstone does not.
    pub live: bool,
}

/// Whether a scan returns the row at all: everything but a tombstone known to be committed.
pub const fn is_listed(committed: bool, tombstone: bool) -> bool {
    !(committed && tombstone)
}

/// Treatment of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyDecision {
    /// The row of this entry is committed: show it if it is live.
    Take {
        /// Index of the entry.
        from: usize,
    },
    /// Ask the register.
    Read,
    /// No scan returned it: it is not there.
    Absent,
}

/// Treatment of a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrefixDecision {
    /// A live key is below it: show it.
    Take,
    /// Ask the register of this entry's witness: a live value shows the prefix, a dead one means
    /// that the scans seek again inside the prefix, after that key.
    Judge {
        /// Index of the entry.
        witness: usize,
    },
    /// This entry's witness is dead: seek again inside the prefix, after that key.
    Reseek {
        /// Index of the entry.
        witness: usize,
    },
    /// No scan returned a witness: nothing is below it.
    Absent,
}

/// Judges one key by what each counted scan returned for it.
///
/// Programmer error: fewer than P entries.
pub fn decide_key(rows: &[Option<ScannedEntry>], quorums: Quorums) -> KeyDecision {
    assert!(rows.len() >= quorums.prepare(), "fewer scans than P see not every committed key");
    judge(rows.iter().copied(), quorums)
}

/// Judges one common prefix by each counted scan's witness: its first key below the prefix that is
/// not a tombstone known to be committed.
///
/// A witness that P volumes name is taken like a key. Otherwise only a register read can tell; the
/// lowest witness comes first, since seeking goes upwards.
///
/// Programmer error: fewer than P entries.
pub fn decide_prefix(witnesses: &[Option<(&ObjectKey, ScannedEntry)>], quorums: Quorums) -> PrefixDecision {
    assert!(witnesses.len() >= quorums.prepare(), "fewer scans than P see not every committed key");
    let named = |key: &ObjectKey| {
        let rows = witnesses.iter().map(|entry| entry.filter(|(other, _)| *other == key).map(|(_, row)| row));
        judge(rows, quorums)
    };
    let live = |at: usize| witnesses.get(at).copied().flatten().is_some_and(|(_, row)| row.live);
    let mut lowest: Option<(usize, &ObjectKey)> = None;
    for (at, key) in witnesses.iter().enumerate().filter_map(|(at, entry)| entry.map(|(key, _)| (at, key))) {
        if matches!(named(key), KeyDecision::Take { from } if live(from)) {
            return PrefixDecision::Take;
        }
        if lowest.is_none_or(|(_, low)| key < low) {
            lowest = Some((at, key));
        }
    }
    match lowest {
        None => PrefixDecision::Absent,
        Some((witness, key)) if matches!(named(key), KeyDecision::Take { .. }) => {
            PrefixDecision::Reseek { witness }
        }
        Some((witness, _)) => PrefixDecision::Judge { witness },
    }
}

fn judge(rows: impl Iterator<Item = Option<ScannedEntry>> + Clone, quorums: Quorums) -> KeyDecision {
    let held = rows.enumerate().filter_map(|(at, row)| row.map(|row| (at, row)));
    let Some((from, top)) = held.clone().max_by_key(|(_, row)| row.head.ballot) else {
        return KeyDecision::Absent;
    };
    let same = held.clone().filter(|(_, row)| row.head.ballot == top.head.ballot);
    let seen_by_quorum = held.count() >= quorums.prepare();
    // A equal ballots do not show it, as they do in a read: a scan has no floors, and a row may be an adopted
    // copy.
    let committed = same.clone().any(|(_, row)| row.head.committed);
    if seen_by_quorum && committed { KeyDecision::Take { from } } else { KeyDecision::Read }
}

#[cfg(test)]
mod tests;
