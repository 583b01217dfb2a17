//! Documents of buckets' configurations that no entry names: left by a crash beside the compare-and-set that
//! names one or replaces it, or by the deletion of the bucket.
//!
//! ```text
//! every 6 h    a document on a volume here, 48 h old -> its bucket's register, written again -> not named:
//!              removed
//! ```
//! An entry is proposed at most an hour after its document was written, and clocks are set back by a day at
//! most. An accept that is older than the register's new ballot is refused by A volumes. So a document that
//! the register does not name then is named by none later. Where P volumes of each set listed all names, and
//! no register of these holds a bucket of its id, the bucket is gone: ids are never used again.

use std::collections::BTreeMap;

use sherd_core::config::{ConfigEntry, Generation};
use sherd_core::id::{BucketId, ObjectKey, RegisterKey};
use sherd_core::limits::ORPHAN_AGE_MS;
use sherd_core::message::RowScan;
use sherd_core::record::{Bucket, BucketPhase, State};

use super::rows::{BucketRows, add_other_nodes, buckets_on};
use super::seals::named_nowhere;
use crate::peer::VolumeRoute;
use crate::register::{Failure, Proposal, Writer};
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{BUCKETS_PAGE, ROW_COST_BYTES, VOLUME_PATIENCE};
use crate::upkeep::pages::ask;

/// Removes documents that no bucket names.
#[derive(Debug)]
pub(crate) struct DocumentSweeper {
    deps: Deps,
}

impl DocumentSweeper {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone() }
    }

    /// Looks for leftovers until it is stopped.
    pub(crate) async fn sweep_documents(&self) {
        loop {
            tokio::time::sleep(self.deps.settings.sweep_every).await;
            self.look_for_leftovers().await;
        }
    }

    /// Removes the old documents on volumes of this node that no bucket names.
    pub(crate) async fn look_for_leftovers(&self) {
        let mut old = BTreeMap::new();
        let mut buckets = BucketRows::default();
        for route in self.deps.cluster.sets().iter().flat_map(|set| &set.routes) {
            if self.deps.volumes.get(route.volume).is_some() {
                self.old_documents_on(route, &mut old).await;
            }
        }
        if old.is_empty() {
            return;
        }
        for route in self.deps.cluster.sets().iter().flat_map(|set| &set.routes) {
            if self.deps.volumes.get(route.volume).is_some() {
                buckets_on(&self.deps, route, &mut buckets).await;
            }
        }
        if !add_other_nodes(&self.deps, &mut buckets, |set| set.quorums().prepare()).await {
            return;
        }
        // A bucket whose rows cannot be read is not seen, and its register names the document still.
        let unseen = old.values().map(|(bucket, _)| *bucket).filter(|id| !buckets.by_id.contains_key(id));
        let gone = named_nowhere(&self.deps, &unseen.collect::<Vec<_>>(), &buckets).await;
        for (name, (bucket, generation)) in old {
            self.deps.throttle.take(ROW_COST_BYTES).await;
            let is_leftover = match buckets.by_id.get(&bucket) {
                Some(row) => self.is_named(row.name.clone(), bucket, generation).await == Ok(false),
                None => gone.contains(&bucket),
            };
            if is_leftover {
                self.remove(&RegisterKey::bucket(name)).await;
            }
        }
    }

    async fn old_documents_on(
        &self,
        route: &VolumeRoute,
        old: &mut BTreeMap<ObjectKey, (BucketId, Generation)>,
    ) {
        let old_ms = self.deps.wall_ms().saturating_sub(ORPHAN_AGE_MS);
        let mut after = Some(Generation::before_all());
        while after.is_some() {
            let request = RowScan {
                want_value: false,
                ..RowScan::all(self.deps.cluster.epoch(), after.take(), BUCKETS_PAGE)
            };
            let Ok(answer) = ask(route.peer.rows(route.volume, &request), VOLUME_PATIENCE).await else {
                return;
            };
            let Ok(page) = answer.result else { return };
            for row in page.rows {
                // Generations of one bucket are neighbours in key order.
                let Some((bucket, generation)) = Generation::of_register(&row.key) else { return };
                if !row.tombstone && generation.0.made.as_ms() <= old_ms {
                    old.insert(row.key.key, (bucket, generation));
                }
            }
            after = page.next;
        }
    }

    /// Whether the bucket that its register holds names a document, behind all that was proposed before.
    async fn is_named(
        &self,
        name: ObjectKey,
        bucket: BucketId,
        generation: Generation,
    ) -> Result<bool, Failure> {
        let found = self.deps.registers.finish(&RegisterKey::bucket(name)).await?;
        let Some(State::Bucket(Bucket { id, phase, entries, .. })) = found.map(|found| found.value.state)
        else {
            return Ok(false);
        };
        let names_it = entries.iter().any(|entry| match ConfigEntry::decode(entry.bytes.clone()) {
            Ok(ConfigEntry::Document { generation: named, .. }) => named == generation,
            Ok(ConfigEntry::Inline(_)) => false,
            // A form of a later release may name it.
            Err(_) => true,
        });
        Ok(id == bucket && phase != BucketPhase::Deleted && names_it)
    }

    async fn remove(&self, document: &RegisterKey) {
        let gone = |state: Option<&State>| match state {
            Some(State::Object(_)) => Ok(Proposal::of(State::Tombstone)),
            _ => Err(()),
        };
        let ticket = self.deps.registers.begin(document);
        if self.deps.registers.change(ticket, Writer::new(gone)).await.is_ok() {
            tracing::info!(?document, "a document that no bucket names was removed");
        }
    }
}
