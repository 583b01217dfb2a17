//! The ordered scans of all sets, merged key by key.
//!
//! ```text
//! set 0   volume 0  a   b   p/      \
//!         volume 2  a       p/       >  one decision per set and name  \
//! set 1   volume 5      c   p/      /                                    >  names in order
//!         volume 7      c           \  one decision per set and name    /
//! ```
//!
//! Every set is scanned on P of its volumes, page by page, and all sets that lack a page are asked at once. A
//! volume that is busy is asked again; one that fails, that began a new life since it answered, or that still
//! holds a seal of a deletion that was undone, is replaced by another from where the listing is. A deletion
//! that may end the bucket has sealed A of them, which leaves fewer than P. The outcome of one name in one
//! set is `sherd_core::register::listing`'s decision.
//!
//! A common prefix stands where its lowest witness does: volumes that are behind that one, inside the prefix,
//! are not asked before it is judged, and go behind the prefix where it shows.
//!
//! A walk ends where enough was looked at that does not show, too: what stands behind is the next page's.

pub(super) mod query;
mod set;
mod volume;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

use sherd_core::id::ObjectKey;

use crate::cluster::Cluster;
use crate::register::{Failure, Registers};
use query::{Name, Query};
use set::{SetScan, SetVerdict};
use volume::row_of;

/// Cost of a hidden key that took a register read, counted in keys that the scans hid: a read is a round
/// trip, a key some microseconds.
pub(super) const READ_COST: usize = 50;

/// The scans of all sets.
#[derive(Debug)]
pub(super) struct Merge {
    sets: Vec<SetScan>,
    /// Names that may still be passed without showing one.
    hidden_left: usize,
}

impl Merge {
    /// Begins the scans.
    pub(super) fn new(cluster: &Cluster, registers: &Registers, query: &Query) -> Self {
        let sets = cluster.sets();
        let scan = |set| SetScan::new(set, registers, cluster.epoch(), (query, sets.len()));
        Self { sets: sets.iter().map(scan).collect(), hidden_left: query.hidden_max }
    }

    /// The next name that some set holds, in order.
    pub(super) async fn next(&mut self) -> Result<Option<Name>, Failure> {
        loop {
            if let Some(up_to) = self.fill().await? {
                return Ok(Some(Name::Enough(up_to)));
            }
            let Some(name) = self.lowest() else { return Ok(None) };
            match self.judge(&name) {
                Verdict::Show(shown) => {
                    self.pass(&name);
                    return Ok(Some(shown));
                }
                Verdict::Ask { witness, set } => {
                    return Ok(Some(Name::UnsurePrefix { prefix: name, witness, set }));
                }
                Verdict::Reseek { after } => {
                    if self.hide(1) {
                        return Ok(Some(Name::Enough(Bytes::copy_from_slice(after.as_bytes()))));
                    }
                }
                Verdict::Nothing => {
                    self.pass(&name);
                    if self.hide(1) {
                        return Ok(Some(Name::Enough(name)));
                    }
                }
            }
        }
    }

    /// Fetches pages until the lowest name is known, from all sets at once that may hold a lower one. Gives a
    /// name where enough was looked at before: nothing up to there is left out.
    async fn fill(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            for set in &mut self.sets {
                set.leave_former_lives()?;
            }
            let lowest = self.lowest_key();
            let lacks = |set: &SetScan| set.lacks(lowest.as_deref());
            if !self.sets.iter().any(lacks) || self.lowest_shows_anyway() {
                return Ok(None);
            }
            let is_enough =
                self.hidden_left == 0 || self.sets.iter().any(|set| lacks(set) && set.passed_enough());
            if is_enough && let Some(up_to) = self.looked_up_to() {
                return Ok(Some(up_to));
            }
            let mut fetches: FuturesUnordered<_> =
                self.sets.iter_mut().filter(|set| lacks(set)).map(SetScan::fetch).collect();
            while let Some(fetched) = fetches.next().await {
                fetched?;
            }
        }
    }

    fn lowest(&self) -> Option<Bytes> {
        self.sets.iter().filter_map(SetScan::lowest).min().map(Bytes::copy_from_slice)
    }

    /// The lowest key of all rows: it stands for the lowest name.
    fn lowest_key(&self) -> Option<Bytes> {
        let fronts = self.sets.iter().flat_map(|set| &set.volumes).filter_map(|volume| volume.rows.front());
        fronts.map(|listed| row_of(listed).key.key.as_bytes()).min().map(Bytes::copy_from_slice)
    }

    /// Whether the lowest name is a common prefix that one set shows, and every volume that has to be asked
    /// is inside it: what they hold there changes nothing.
    fn lowest_shows_anyway(&self) -> bool {
        let Some(name) = self.lowest() else { return false };
        let is_below = |set: &SetScan| {
            let dry = set.volumes.iter().filter(|volume| volume.is_dry());
            dry.map(|volume| &volume.from).any(|from| from[..] < name[..])
        };
        let shows = |set: &SetScan| {
            set.lowest() == Some(&name) && matches!(set.judge(&name), SetVerdict::Show(Name::Prefix(_)))
        };
        !self.sets.iter().any(is_below) && self.sets.iter().any(shows)
    }

    /// The last name before the first that was not looked at; `None` where that name is not known. Every
    /// known row is behind it while a volume has to be asked: the lowest is judged before that.
    fn looked_up_to(&self) -> Option<Bytes> {
        let volumes = self.sets.iter().flat_map(|set| &set.volumes);
        let first =
            volumes.filter(|volume| volume.is_dry()).min_by(|one, other| one.from.cmp(&other.from))?;
        first.up_to.clone()
    }

    /// Counts what was looked at and does not show, in names; whether that is enough.
    pub(super) const fn hide(&mut self, names: usize) -> bool {
        self.hidden_left = self.hidden_left.saturating_sub(names);
        self.hidden_left == 0
    }

    /// The verdict of the sets about the lowest name: one that shows it is enough; a prefix
    /// that none shows is looked into where its witness' register decides, else behind its dead witnesses.
    fn judge(&mut self, name: &Bytes) -> Verdict {
        let mut together = Verdict::Nothing;
        for index in 0..self.sets.len() {
            if self.sets[index].lowest() != Some(name) {
                continue;
            }
            match self.sets[index].judge(name) {
                SetVerdict::Show(shown) => return Verdict::Show(shown),
                // The lowest witness first: looking goes upwards.
                SetVerdict::Ask(witness) => {
                    together = match together {
                        Verdict::Ask { witness: other, set } if other <= witness => {
                            Verdict::Ask { witness: other, set }
                        }
                        _ => Verdict::Ask { witness, set: index },
                    }
                }
                SetVerdict::Reseek(after) => {
                    self.sets[index].reseek(name, &after);
                    // Nothing shows up to the lowest of the dead witnesses.
                    together = match together {
                        Verdict::Nothing => Verdict::Reseek { after },
                        Verdict::Reseek { after: other } => Verdict::Reseek { after: after.min(other) },
                        other => other,
                    };
                }
                SetVerdict::Nothing => {}
            }
        }
        together
    }

    /// Leaves a name behind in every set.
    pub(super) fn pass(&mut self, name: &Bytes) {
        for set in &mut self.sets {
            set.pass(name);
        }
    }

    /// The witness of a prefix was dead: looks behind it, inside the prefix.
    pub(super) fn dead_witness(&mut self, set: usize, prefix: &[u8], witness: &ObjectKey) {
        self.sets[set].reseek(prefix, witness);
    }
}

/// The verdict of all sets about one name.
enum Verdict {
    Show(Name),
    Ask { witness: ObjectKey, set: usize },
    Reseek { after: ObjectKey },
    Nothing,
}

#[cfg(test)]
mod tests;
