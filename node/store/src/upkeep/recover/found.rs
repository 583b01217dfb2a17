//! Rows that a volume's opening found unsettled: waited for before the volume passes for known.
//!
//! ```text
//! found --> settled, or another write took effect over it          -> done
//!       --> A volumes vote for it                                  -> the opening is tried again
//!       --> volumes are there, and too slow to answer              -> a while longer
//!       --> too few vote: away, recovering, sealed, or unreadable  -> not waited for
//! ```
//! A row that a seal kept from being waited for is looked at again when the seal has gone: until it is
//! settled the volume does not pass for known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use sherd_core::id::{Ballot, BucketId, RegisterKey, VolumeId};
use sherd_volume::index::table::row_key;

use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::is_gone_for_ever;
use crate::upkeep::pages::walk_unsettled;
use crate::upkeep::recover::limits::{FOUND_LOOK_EVERY, FOUND_ROWS_MAX, LATE_PATIENCE};
use crate::upkeep::rows::{Rows, readable_rows_of, rows_of};
use crate::upkeep::shards::check::RegisterChecker;

/// One row of each bucket that was not waited for, as the bucket was sealed.
type SealedRows = BTreeMap<BucketId, RegisterKey>;

/// Unsettled rows of a stretch of a volume's keys, as they were found.
#[derive(Debug, Default)]
pub(crate) struct FoundRows {
    behind: Option<RegisterKey>,
    pub(crate) rows: HashMap<RegisterKey, Ballot>,
    /// Where the stretch ends; `None` for the end of the volume.
    pub(crate) last: Option<RegisterKey>,
    sealed: SealedRows,
}

impl FoundRows {
    /// Whether a key lies behind the stretch, in the order in which volumes show their rows.
    fn ends_before(&self, key: &RegisterKey) -> bool {
        self.last.as_ref().is_some_and(|last| row_key(key) > row_key(last))
    }
}

/// The prospect of a row that is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowProspect {
    /// A volumes vote for it: with their votes any row is settled, of any age and life, by an identity
    /// write.
    Settles,
    /// A volumes would vote for it if the late ones answered.
    Late,
    /// A volumes would vote for it if they could read their rows.
    Unreadable,
    /// The others are away, recover, or are sealed.
    Blocked,
}

impl RowProspect {
    fn of(rows: &Rows, needed: usize) -> Self {
        let votes = rows.held.len() + rows.without.len();
        if votes >= needed {
            Self::Settles
        } else if votes + rows.late.len() >= needed {
            Self::Late
        } else if votes + rows.late.len() + rows.rotten.len() >= needed {
            Self::Unreadable
        } else {
            Self::Blocked
        }
    }
}

/// The prospect of the rows of a stretch that are not settled, where none of them settles.
#[derive(Debug, Default)]
struct RowOutlook {
    is_late: bool,
    unreadable: Vec<RegisterKey>,
    sealed: SealedRows,
}

/// Waits for the rows that openings of this node's volumes found unsettled.
#[derive(Debug)]
pub(crate) struct FoundRowsWaiter {
    deps: Deps,
    checker: Arc<RegisterChecker>,
    /// The rows that each volume's opening did not wait for as they were sealed.
    left_out: Mutex<HashMap<VolumeId, SealedRows>>,
}

impl FoundRowsWaiter {
    pub(crate) fn new(deps: &Deps, checker: &Arc<RegisterChecker>) -> Self {
        Self { deps: deps.clone(), checker: Arc::clone(checker), left_out: Mutex::default() }
    }

    /// Waits until the rows are settled that a volume did not know to be committed when this began. `false`
    /// where that takes too long although it can be done, or the volume does not say: it has to be tried
    /// again.
    ///
    /// Those very rows are asked for, and no clock: ballots are ahead of it for 2 s
    /// after an opening, and by what it was set back. A write that took effect in the place of a row decides
    /// it.
    ///
    /// Rows that cannot be settled yet are not waited for, or a set with too many volumes away, and a bucket
    /// whose deletion was cut short, would keep a volume from `online` for as long: these are rows for which
    /// fewer than A volumes vote. (Seals go with their deletion, or the rows do.) A volume whose own life is
    /// over is restarted before it comes here.
    pub(crate) async fn found_rows_settled(&self, volume: VolumeId) -> bool {
        let soon = self.deps.settings.settle_after
            + self.deps.settings.settle_every
            + self.deps.settings.found_patience;
        let deadline = Instant::now() + soon;
        let (mut behind, mut sealed) = (None, SealedRows::new());
        loop {
            let Some(mut found) = self.find_rows(volume, behind.as_ref(), deadline).await else {
                return false;
            };
            if !self.stretch_settled(volume, &mut found, deadline).await {
                return false;
            }
            sealed.append(&mut found.sealed);
            let Some(last) = found.last else { break };
            behind = Some(last);
        }
        self.left_out.lock().insert(volume, sealed);
        true
    }

    /// The same for one stretch.
    async fn stretch_settled(&self, volume: VolumeId, found: &mut FoundRows, deadline: Instant) -> bool {
        while !found.rows.is_empty() {
            let left = self.rows_left(volume, found, 1).await;
            if left.is_some_and(|left| left.is_empty()) {
                break;
            }
            if Instant::now() >= deadline {
                let Some(outlook) = self.outlook(volume, found).await else { return false };
                if !outlook.is_late || Instant::now() >= deadline + LATE_PATIENCE {
                    self.do_without(volume, found, outlook).await;
                    break;
                }
            }
            tokio::time::sleep(FOUND_LOOK_EVERY).await;
        }
        true
    }

    /// The next rows that a volume does not know to be committed; `None` where it does not say in time.
    pub(crate) async fn find_rows(
        &self,
        volume: VolumeId,
        behind: Option<&RegisterKey>,
        deadline: Instant,
    ) -> Option<FoundRows> {
        let sealed = self.sealed_in_set(volume);
        loop {
            let mut found = FoundRows { behind: behind.cloned(), ..FoundRows::default() };
            let said = walk_unsettled(&self.deps, volume, behind, |key, ballot| {
                if sealed.contains(&key.bucket) {
                    found.sealed.entry(key.bucket).or_insert_with(|| key.clone());
                } else {
                    found.rows.insert(key.clone(), ballot);
                }
                found.last = (found.rows.len() >= FOUND_ROWS_MAX).then_some(key);
                found.last.is_none()
            });
            if said.await {
                return Some(found);
            }
            if Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(FOUND_LOOK_EVERY).await;
        }
    }

    /// Up to `limit` of the rows that were found and are not decided; `None` where the volume does not say.
    /// Those that another write decided are not asked for again.
    pub(crate) async fn rows_left(
        &self,
        volume: VolumeId,
        found: &mut FoundRows,
        limit: usize,
    ) -> Option<Vec<RegisterKey>> {
        let (mut left, mut replaced) = (Vec::new(), Vec::new());
        let said = walk_unsettled(&self.deps, volume, found.behind.as_ref(), |key, ballot| {
            if found.ends_before(&key) {
                return false;
            }
            match found.rows.get(&key) {
                Some(known) if *known == ballot => left.push(key),
                Some(known) => replaced.push((key, *known)),
                None => {}
            }
            left.len() < limit
        });
        if !said.await {
            return None;
        }
        for (key, ballot) in replaced {
            if left.len() >= limit {
                break;
            }
            if self.is_decided_over(&key, ballot).await {
                found.rows.remove(&key);
            } else {
                left.push(key);
            }
        }
        Some(left)
    }

    /// Whether a write took effect over the row of a ballot. One that only some volumes took, an identity
    /// write that was cut short among them, leaves what the row holds as undecided as it was.
    async fn is_decided_over(&self, key: &RegisterKey, ballot: Ballot) -> bool {
        let quorums = self.deps.cluster.set_of(key).quorums();
        let rows = rows_of(&self.deps, key).await;
        rows.held.iter().any(|(_, held, _)| *held > ballot && rows.is_committed(*held, quorums))
    }

    /// The prospect of the rows that are left; `None` where any of them settles, or it is not known
    /// what is left.
    async fn outlook(&self, volume: VolumeId, found: &mut FoundRows) -> Option<RowOutlook> {
        let left = self.rows_left(volume, found, usize::MAX).await?;
        // All rows of a volume are its set's: away, slow and sealed volumes are so for the whole bucket.
        let mut known = HashSet::new();
        let mut outlook = RowOutlook::default();
        for key in left {
            if known.contains(&key.bucket) {
                continue;
            }
            let (prospect, is_sealed) = self.prospect(&key).await;
            match prospect {
                RowProspect::Settles => return None,
                RowProspect::Unreadable => {
                    outlook.unreadable.push(key);
                    continue;
                }
                RowProspect::Late => outlook.is_late = true,
                RowProspect::Blocked => {}
            }
            known.insert(key.bucket);
            if is_sealed {
                outlook.sealed.insert(key.bucket, key);
            }
        }
        Some(outlook)
    }

    /// The prospect of a row, and whether volumes are sealed for it.
    async fn prospect(&self, key: &RegisterKey) -> (RowProspect, bool) {
        let quorums = self.deps.cluster.set_of(key).quorums();
        let needed = quorums.accept();
        let mut rows = rows_of(&self.deps, key).await;
        // A row that A volumes accepted is committed without being read. Any other is proposed again, by
        // those that can read it.
        if RowProspect::of(&rows, needed) == RowProspect::Settles && !rows.are_settled(quorums) {
            rows = readable_rows_of(&self.deps, key).await;
        }
        (RowProspect::of(&rows, needed), !rows.sealed.is_empty())
    }

    /// Goes on without the rows of a stretch that cannot be settled now. A row that is unreadable is damage:
    /// it does not become readable by waiting.
    async fn do_without(&self, volume: VolumeId, found: &mut FoundRows, outlook: RowOutlook) {
        let RowOutlook { is_late: _, unreadable, sealed } = outlook;
        found.sealed.extend(sealed);
        if let Some(key) = unreadable.first() {
            let count = unreadable.len();
            tracing::error!(%volume, count, ?key, "rows that are not settled cannot be read on enough volumes");
        }
        for key in &unreadable {
            self.checker.found_row(key).await;
        }
        tracing::info!(%volume, "rows that its opening found wait for other volumes of the set");
    }

    /// Whether rows that a volume's opening did not wait for, as they were sealed, can be settled by now.
    pub(crate) async fn are_left_out_rows_back(&self, volume: VolumeId) -> bool {
        let sealed = self.left_out.lock().get(&volume).cloned().unwrap_or_default();
        for (bucket, key) in sealed {
            if is_gone_for_ever(&self.deps, &key) {
                if let Some(rows) = self.left_out.lock().get_mut(&volume) {
                    rows.remove(&bucket);
                }
                continue;
            }
            let needed = self.deps.cluster.set_of(&key).quorums().accept();
            if RowProspect::of(&rows_of(&self.deps, &key).await, needed) == RowProspect::Settles {
                return true;
            }
        }
        false
    }

    /// The buckets that too many volumes of a set have sealed, so that too few are left to settle a row.
    /// Counts the volumes of this node only: the seals of others show in their answers.
    fn sealed_in_set(&self, volume: VolumeId) -> HashSet<BucketId> {
        let Some(set) = self.deps.set_with(volume) else { return HashSet::new() };
        let local = set.routes.iter().filter_map(|route| self.deps.volumes.get(route.volume)?.serving().ok());
        let mut counts: HashMap<BucketId, usize> = HashMap::new();
        for serving in local {
            for (bucket, _) in serving.reader.all_seals() {
                *counts.entry(bucket).or_default() += 1;
            }
        }
        let is_sealed = |sealed: usize| set.routes.len() - sealed < set.quorums().accept();
        counts.into_iter().filter(|(_, sealed)| is_sealed(*sealed)).map(|(bucket, _)| bucket).collect()
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::id::{ObjectKey, PartKey, ProposerId, Timestamp, UploadId};

    use super::*;

    #[test]
    fn a_volume_that_is_slow_is_not_away_and_one_that_cannot_read_is_not_slow() {
        let volumes = |count: u8| (0..count).map(|n| VolumeId([n; 16])).collect::<Vec<_>>();
        let ballot = Ballot { time: Timestamp::from_ms(1), proposer: ProposerId(1) };
        let held = |count: u8| volumes(count).into_iter().map(|volume| (volume, ballot, false)).collect();
        let of = |rows: Rows| RowProspect::of(&rows, 3);
        assert_eq!(of(Rows { held: held(2), without: volumes(1), ..Rows::default() }), RowProspect::Settles);
        let silent = Rows { held: held(2), silent: volumes(2), ..Rows::default() };
        assert_eq!(of(silent.clone()), RowProspect::Blocked);
        assert_eq!(of(Rows { late: volumes(1), ..silent.clone() }), RowProspect::Late);
        assert_eq!(of(Rows { held: held(1), late: volumes(1), ..silent }), RowProspect::Blocked);
        let rotten = Rows { without: volumes(2), rotten: volumes(2), ..Rows::default() };
        assert_eq!(of(rotten.clone()), RowProspect::Unreadable);
        assert_eq!(of(Rows { late: volumes(1), ..rotten }), RowProspect::Late);
        assert_eq!(of(Rows { held: held(2), sealed: volumes(2), ..Rows::default() }), RowProspect::Blocked);
    }

    #[test]
    fn a_stretch_ends_where_volumes_show_what_is_behind_it() {
        let object = |name: &str| {
            RegisterKey::object(BucketId([1; 16]), ObjectKey::new(name.to_owned()).expect("a key"))
        };
        let part = |name: &str| {
            let part = PartKey { upload: UploadId([1; 16]), number: 1 };
            RegisterKey { part: Some(part), ..object(name) }
        };
        let found = FoundRows { last: Some(object("b")), ..FoundRows::default() };
        assert!(!found.ends_before(&object("a")) && !found.ends_before(&object("b")));
        assert!(found.ends_before(&object("ba")));
        assert!(found.ends_before(&part("a")), "parts come behind all objects");
        assert!(!FoundRows::default().ends_before(&part("z")), "it goes to the end of the volume");
    }
}
