//! The remains of deleted buckets on volumes: open uploads with their parts, tombstones, what a minority
//! took.
//!
//! ```text
//! a final seal on a volume of this node -> grace -> data that the bucket's rows name, deleted
//!                                                 -> rows, dropped
//! ```
//! Only a final seal says that no request ever reads these rows again; a deletion under way may be taken
//! back. The data goes before the row: what a crash leaves in between is found again by the row. Each opening
//! of a volume is read through once for each of its sealed buckets, and again when the scrubber finds a row
//! of one. Data without a row is the sweeper's. Guards I-15.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use sherd_core::id::{BucketId, ObjectKey, PartKey, RegisterKey, UploadId, VolumeId};
use sherd_core::message;
use sherd_core::message::{RowScan, ScannedRow};
use sherd_core::record::{DataRef, Value};

use crate::peer::VolumeRoute;
use crate::register::refs::listed_on;
use crate::upkeep::deps::Deps;
use crate::upkeep::final_seals::is_final;
use crate::upkeep::governor::admit;
use crate::upkeep::limits::{
    BUCKETS_PER_LOOK, REMAINS_AGAIN_MS, REMAINS_LOOK_EVERY, REMAINS_PAGE, ROW_COST_BYTES, SILENCE_MS,
    VOLUME_PATIENCE,
};
use crate::upkeep::pages::ask;
use crate::upkeep::release::{ReleaseOutcome, Releaser};
use crate::upkeep::shards::subject::HealSubject;

/// The work that is left for a bucket that is sealed for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BucketClearing {
    /// Earliest time of the next walk over its rows, in monotonic milliseconds.
    Due(u64),
    /// Nothing of it is left.
    Done,
}

/// An opening of a volume, and what is to be done in it for each bucket that is sealed for ever there.
#[derive(Debug, Default)]
struct OpeningClearings {
    opening: u32,
    /// How many buckets were sealed for ever at the last look at their seals. None of those ever goes: as
    /// many of them are the same ones.
    sealed_count: usize,
    /// The buckets that something is left of, and from when on each is looked through.
    due: BTreeMap<BucketId, u64>,
    /// The others, as many as were ever deleted: 16 bytes each, and never walked.
    done: HashSet<BucketId>,
}

#[derive(Debug, Default)]
struct BucketRemains(Mutex<HashMap<VolumeId, OpeningClearings>>);

impl BucketRemains {
    /// Takes note of the buckets that are sealed for ever now; their seals are read only where there are more
    /// than at the last look. Gives those that are due.
    fn due(
        &self,
        (volume, opening): (VolumeId, u32),
        (sealed_count, sealed): (usize, impl Iterator<Item = BucketId>),
        (now_ms, grace_ms): (u64, u64),
    ) -> Vec<BucketId> {
        let mut known = self.0.lock();
        let known = known.entry(volume).or_default();
        if known.opening != opening {
            *known = OpeningClearings { opening, ..OpeningClearings::default() };
        }
        if known.sealed_count != sealed_count {
            for bucket in sealed.filter(|bucket| !known.done.contains(bucket)) {
                known.due.entry(bucket).or_insert(now_ms.saturating_add(grace_ms));
            }
            known.sealed_count = sealed_count;
        }
        let waiting = known.due.iter().map(|(bucket, due_ms)| (*due_ms, *bucket));
        let mut due: Vec<(u64, BucketId)> = waiting.filter(|(due_ms, _)| *due_ms <= now_ms).collect();
        // Longest waits first: a bucket that cannot be cleared must not hold up the others.
        due.sort_unstable();
        due.into_iter().take(BUCKETS_PER_LOOK).map(|(_, bucket)| bucket).collect()
    }

    fn looked_through(&self, (volume, opening): (VolumeId, u32), bucket: BucketId, clearing: BucketClearing) {
        if let Some(known) = self.0.lock().get_mut(&volume)
            && known.opening == opening
        {
            match clearing {
                BucketClearing::Due(due_ms) => drop(known.due.insert(bucket, due_ms)),
                BucketClearing::Done => {
                    known.due.remove(&bucket);
                    known.done.insert(bucket);
                }
            }
        }
    }

    fn look_again(&self, volume: VolumeId, bucket: BucketId) {
        if let Some(known) = self.0.lock().get_mut(&volume)
            && known.done.remove(&bucket)
        {
            known.due.insert(bucket, 0);
        }
    }
}

/// Clears away what volumes of this node hold of deleted buckets.
#[derive(Debug)]
pub(crate) struct RemainsCleaner {
    deps: Deps,
    releaser: Arc<Releaser>,
    remains: BucketRemains,
}

impl RemainsCleaner {
    pub(crate) fn new(deps: &Deps, releaser: &Arc<Releaser>) -> Self {
        Self { deps: deps.clone(), releaser: Arc::clone(releaser), remains: BucketRemains::default() }
    }

    /// Has a bucket that counted as cleared looked through again, as a volume shows a row of it.
    pub(crate) fn look_again(&self, volume: VolumeId, bucket: BucketId) {
        self.remains.look_again(volume, bucket);
    }

    pub(crate) async fn clear_deleted_buckets(&self) {
        loop {
            self.look_for_remains().await;
            tokio::time::sleep(REMAINS_LOOK_EVERY).await;
        }
    }

    /// Clears away what this node's volumes hold of buckets that are sealed for ever, where it is due.
    pub(crate) async fn look_for_remains(&self) {
        let grace_ms = self.deps.tuning.longest_grace_ms(self.deps.wall_ms());
        for own in self.deps.cluster.sets().iter().flat_map(|set| &set.routes) {
            let Some(local) = self.deps.volumes.get(own.volume) else { continue };
            let opening = (own.volume, local.opened_count());
            // A recovering volume still gets rows.
            let Some(serving) = local.state().votes().then(|| local.serving().ok()).flatten() else {
                continue;
            };
            // The count first: what is sealed behind it is looked at by the next look.
            let sealed_count = serving.reader.final_seals_count();
            let sealed = serving.reader.all_seals().filter(is_final).map(|(bucket, _)| bucket);
            for bucket in self.remains.due(opening, (sealed_count, sealed), (self.deps.now_ms(), grace_ms)) {
                self.deps.throttle.take(0).await;
                let clearing = if self.clear_bucket(own, bucket).await {
                    BucketClearing::Done
                } else {
                    BucketClearing::Due(self.deps.now_ms().saturating_add(REMAINS_AGAIN_MS))
                };
                self.remains.looked_through(opening, bucket, clearing);
            }
        }
    }

    /// Clears a bucket away on one volume; `false` when something of it has to stay for now.
    async fn clear_bucket(&self, own: &VolumeRoute, bucket: BucketId) -> bool {
        let mut is_clear = true;
        for after in [before_objects(bucket), before_parts(bucket)] {
            let is_in_table = |key: &RegisterKey| key.part.is_some() == after.part.is_some();
            let mut request = RowScan::all(self.deps.cluster.epoch(), Some(after.clone()), REMAINS_PAGE);
            loop {
                let Ok(answer) = ask(own.peer.rows(own.volume, &request), VOLUME_PATIENCE).await else {
                    return false;
                };
                let Ok(page) = answer.result else { return false };
                let within = |key: &RegisterKey| is_in_table(key) && key.bucket <= bucket;
                for row in page.rows.iter().filter(|row| is_in_table(&row.key) && row.key.bucket == bucket) {
                    admit(&self.deps, &[own.volume], ROW_COST_BYTES).await;
                    let began_ms = self.deps.now_ms();
                    is_clear &= self.clear_row(own, row).await;
                    if !is_clear && self.deps.now_ms().saturating_sub(began_ms) >= SILENCE_MS {
                        // Each further row would wait as long for the same volume.
                        return false;
                    }
                }
                let is_last = page.rows.iter().any(|row| !within(&row.key));
                match page.next {
                    Some(next) if !is_last && within(&next) => request.after = Some(next),
                    Some(_) | None => break,
                }
            }
        }
        is_clear
    }

    /// Deletes the data of a row on every volume, then drops the row on this one. Data under a reader's lease
    /// stays, and its row.
    async fn clear_row(&self, own: &VolumeRoute, scanned: &ScannedRow) -> bool {
        let ScannedRow { key, row, tombstone: _, is_missed: _ } = scanned;
        // Data whose row is rotten is left to the sweep. A failed read may be a fault of the moment.
        if row.value.is_none() {
            let verified = ask(own.peer.verify_row(own.volume, key), VOLUME_PATIENCE).await;
            if !matches!(verified, Err(message::Error::Corrupt { .. } | message::Error::NotFound)) {
                return false;
            }
        }
        let value = row.value.clone().and_then(|head| Value::decode(head).ok());
        if let Some(value) = value {
            let pages = value.state.manifest_pages();
            for data in value.data_refs() {
                let is_page = pages.contains(&data) && !self.is_page_lost(key, data).await;
                if self.releaser.release_data_id(key, data, is_page).await != ReleaseOutcome::Done {
                    return false;
                }
            }
        }
        let target = self.deps.cluster.target(key.clone());
        let dropped = ask(own.peer.drop_row(own.volume, &target, row.head.ballot), VOLUME_PATIENCE).await;
        dropped.is_ok_and(|answer| answer.result.is_ok())
    }

    /// Whether a manifest page cannot be read although every volume answered: it went with the row of another
    /// volume, or with its object while this volume was away. Its shards that are still there are left to the
    /// sweep.
    async fn is_page_lost(&self, key: &RegisterKey, page: DataRef) -> bool {
        if listed_on(&self.deps.stripes, key, page).await.is_ok() {
            return false;
        }
        match HealSubject::new(&self.deps, key, page) {
            Ok(subject) => {
                let shards = subject.look(true).await;
                shards.unknown.is_empty() && shards.intact.len() < usize::from(page.data_shards)
            }
            Err(_) => true,
        }
    }
}

/// Any key of the id before a bucket's: rows behind it are all of the bucket's objects, and at most a few
/// others.
fn before_objects(bucket: BucketId) -> RegisterKey {
    let id = u128::from_be_bytes(bucket.0).saturating_sub(1);
    RegisterKey::object(BucketId(id.to_be_bytes()), ObjectKey::new("a").expect("a letter is a key"))
}

/// The same for its parts.
fn before_parts(bucket: BucketId) -> RegisterKey {
    let part = PartKey { upload: UploadId([0; 16]), number: 0 };
    RegisterKey { part: Some(part), ..before_objects(bucket) }
}

#[cfg(test)]
mod tests {
    use sherd_core::message::Control;
    use sherd_core::record::State;

    use super::*;
    use crate::peer::scripted::{Fate, says};
    use crate::register::tests::{files, naming, stage};
    use crate::register::{Proposal, RegisterTimeouts, Writer};
    use crate::upkeep::tests::{Directories, Node, key_of};

    fn key(bucket: u8, name: &str) -> RegisterKey {
        RegisterKey::object(BucketId([bucket; 16]), key_of(name))
    }

    async fn write(node: &Node, key: &RegisterKey, writer: Writer<()>) {
        let registers = node.registers();
        registers.change(registers.begin(key), writer).await.expect("a healthy node");
        registers.finish(key).await.expect("every volume has it");
    }

    async fn tombstone(node: &Node, key: &RegisterKey) {
        write(node, key, Writer::new(|_| Ok(Proposal::of(State::Tombstone)))).await;
    }

    async fn seal_for_ever(node: &Node, bucket: u8) {
        for route in &node.workers.deps.cluster.set_of(&key(bucket, "a")).routes {
            let control = Control::SealForEver { bucket: BucketId([bucket; 16]) };
            let answer = route.peer.control(route.volume, control).await;
            assert!(answer.is_ok_and(|answer| answer.result.is_ok()));
        }
    }

    async fn rows(own: &VolumeRoute, node: &Node) -> Vec<RegisterKey> {
        let request = RowScan::all(node.workers.deps.cluster.epoch(), None, 1_000);
        let page = own.peer.rows(own.volume, &request).await.expect("it serves").result.expect("not refused");
        page.rows.into_iter().map(|row| row.key).collect()
    }

    #[tokio::test]
    async fn a_deleted_bucket_of_several_pages_goes_to_its_last_row_and_its_neighbours_stay() {
        let directories = Directories::new(1);
        let node = directories.start().await;
        let neighbours = [key(6, "a"), key(6, "z"), key(80, "a"), key(80, "z")];
        for neighbour in &neighbours {
            tombstone(&node, neighbour).await;
        }
        // The last one's rows are the volume's last.
        for (bucket, count) in [
            (7, 2 * REMAINS_PAGE - 2),
            (71, 2 * REMAINS_PAGE),
            (72, REMAINS_PAGE + 1),
            (200, 2 * REMAINS_PAGE),
        ] {
            let keys: Vec<_> = (0..count).map(|n| key(bucket, &format!("{n:03}"))).collect();
            futures::future::join_all(keys.iter().map(|key| tombstone(&node, key))).await;
            seal_for_ever(&node, bucket).await;
            let own = &node.workers.deps.cluster.set_of(&key(bucket, "a")).routes[0];
            assert_eq!(rows(own, &node).await.len(), count + neighbours.len());
            assert!(node.workers.remains.clear_bucket(own, BucketId([bucket; 16])).await);
            assert_eq!(rows(own, &node).await, neighbours);
        }
        node.close().await;
    }

    /// The bucket is looked through again: its row names the data that is to be removed.
    #[tokio::test]
    async fn a_bucket_is_not_clear_while_one_of_its_rows_has_to_stay() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        let staged = stage(&gateway, 1).await;
        let data = staged.data();
        let named: Writer<()> = Writer::new(move |_| Ok(Proposal::of(naming(data, 1))));
        for name in ["a", "c"] {
            tombstone(&gateway, &key(7, name)).await;
        }
        write(&gateway, &key(7, "b"), named.naming(Some(staged))).await;
        seal_for_ever(&gateway, 7).await;
        says(&script.releases, |_, _| Fate::Instead(Err(message::Error::Busy)));
        let own = &gateway.workers.deps.cluster.set_of(&key(7, "a")).routes[0];
        assert!(!gateway.workers.remains.clear_bucket(own, BucketId([7; 16])).await);
        assert_eq!(rows(own, &gateway).await, [key(7, "b")]);
        says(&script.releases, |_, _| Fate::Through);
        assert!(gateway.workers.remains.clear_bucket(own, BucketId([7; 16])).await);
        assert_eq!((rows(own, &gateway).await, files(&directories, data)), (Vec::new(), 0));
        gateway.close().await;
    }

    #[test]
    fn a_bucket_is_looked_through_once_for_each_opening_when_its_grace_is_over() {
        let (remains, volume) = (BucketRemains::default(), VolumeId([1; 16]));
        let [first, second] = [BucketId([1; 16]), BucketId([2; 16])];
        let due = |opening, sealed: &[BucketId], now_ms| {
            remains.due((volume, opening), (sealed.len(), sealed.iter().copied()), (now_ms, 600))
        };
        assert_eq!(due(1, &[first], 1_000), []);
        assert_eq!(due(1, &[first, second], 1_599), []);
        assert_eq!(due(1, &[first, second], 1_600), [first]);
        remains.looked_through((volume, 1), first, BucketClearing::Done);
        assert_eq!(due(1, &[first, second], 2_199), [second]);
        remains.looked_through((volume, 1), second, BucketClearing::Due(9_000));
        assert_eq!(due(1, &[first, second], 3_000), [], "something of it had to stay");
        remains.look_again(volume, first);
        assert_eq!(due(1, &[first, second], 3_000), [first]);
        assert_eq!(due(2, &[first, second], 4_000), [], "another opening may hold what this one did not");
        remains.looked_through((volume, 1), first, BucketClearing::Done);
        assert_eq!(due(2, &[first, second], 4_600), [first, second], "the walk began before that");
        remains.looked_through((volume, 2), first, BucketClearing::Done);
        remains.looked_through((volume, 2), second, BucketClearing::Done);
        let unread = std::iter::from_fn(|| panic!("as many are sealed as before"));
        assert_eq!(remains.due((volume, 2), (2, unread), (9_000, 600)), []);
        assert_eq!(remains.0.lock()[&volume].due.len(), 0, "what is done is not walked again");
    }

    #[test]
    fn a_walk_of_a_bucket_begins_before_all_that_it_holds() {
        let bucket = BucketId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        let lowest = RegisterKey::object(bucket, ObjectKey::new("\0").expect("a key"));
        assert!(before_objects(bucket).bucket < lowest.bucket);
        assert!(before_parts(bucket).bucket < bucket && before_parts(bucket).part.is_some());
    }
}
