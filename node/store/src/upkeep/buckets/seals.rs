//! Seals that the deletions of buckets left on volumes: removed, or made final.
//!
//! ```text
//! its bucket's register denies the deletion   -> removed
//! its bucket's register says deleted          -> final, on every volume
//! no bucket's register names its bucket       -> final, on every volume
//! ```
//! Last case: the gateway was killed after the deletion, before its volumes had the notice, and a new bucket
//! has the name: the register bears another id. Guards I-15.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join_all, try_join_all};

use sherd_core::id::{BucketId, ChangeId, ObjectKey, RegisterKey};
use sherd_core::message::Control;
use sherd_core::record::{BucketPhase, State};
use sherd_core::register::quorum::Reply;
use sherd_core::register::seal::{NameAnswers, SealFate, cover_all_names, is_nowhere, seal_fate};

use super::rows::{BucketRows, add_other_nodes};
use crate::register::Failure;
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{BUCKET_READS_AT_ONCE, VOLUME_PATIENCE};
use crate::upkeep::pages::ask;

pub(super) type HeldSeals = BTreeMap<BucketId, BTreeSet<ChangeId>>;

/// The seals on volumes of this node that are not final, of deletions that no gateway here works on.
pub(super) fn held_seals(deps: &Deps) -> HeldSeals {
    let mut held = HeldSeals::new();
    let serving = deps.volumes.all().iter().filter_map(|volume| volume.serving().ok());
    for (bucket, deletions) in serving.flat_map(|serving| serving.reader.held_seals()) {
        for deletion in deletions.into_iter().filter(|held| !deps.deletions.is_under_way(*held)) {
            held.entry(bucket).or_default().insert(deletion);
        }
    }
    held
}

/// Removes seals or makes them final. `rows` were read after the seals were seen. Rows of a volume here may
/// be old; for a bucket that none of them names the volumes of other nodes are asked, too.
pub(super) async fn judge_held_seals(deps: &Deps, held: &HeldSeals, rows: &mut BucketRows) {
    let mut nameless = Vec::new();
    for (id, deletions) in held {
        let is_named = match rows.by_id.get(id) {
            Some(row) => judge_seals(deps, &RegisterKey::bucket(row.name.clone()), *id, deletions).await,
            None => false,
        };
        if !is_named {
            nameless.push(*id);
        }
    }
    if !nameless.is_empty() {
        add_other_nodes(deps, rows, |set| set.routes.len()).await;
        judge_nameless_seals(deps, &nameless, rows).await;
    }
}

/// Makes the seals final whose buckets no register names any more.
async fn judge_nameless_seals(deps: &Deps, nameless: &[BucketId], rows: &BucketRows) {
    for bucket in named_nowhere(deps, nameless, rows).await {
        tracing::info!(?bucket, "deleted bucket had seals that its deletion left behind");
        send_to_every_volume(deps, &Control::SealForEver { bucket }).await;
    }
}

/// Buckets of `buckets` that no register names, if enough volumes were read to have all names; else none.
pub(super) async fn named_nowhere(deps: &Deps, buckets: &[BucketId], rows: &BucketRows) -> Vec<BucketId> {
    let sets = deps.cluster.sets();
    let replies: Vec<Vec<Reply<()>>> = sets.iter().map(|set| rows.replies_in(set)).collect();
    let answers: Vec<NameAnswers<'_>> = sets
        .iter()
        .zip(&replies)
        .map(|(set, replies)| NameAnswers { quorums: set.quorums(), replies })
        .collect();
    if buckets.is_empty() || !cover_all_names(&answers, &deps.registers.known_lives()) {
        return Vec::new();
    }
    // A register that cannot be read may be the one: the next look asks again.
    let Ok(named) = buckets_named(deps, &rows.names).await else { return Vec::new() };
    let lives = deps.registers.known_lives();
    buckets.iter().copied().filter(|id| is_nowhere(*id, &answers, &named, &lives)).collect()
}

/// Removes or makes final what the bucket's own register says of its seals; `false` where it says nothing, as
/// it does not name the bucket, or cannot be read.
async fn judge_seals(
    deps: &Deps,
    key: &RegisterKey,
    bucket: BucketId,
    deletions: &BTreeSet<ChangeId>,
) -> bool {
    let Ok(named) = bucket_named(deps, key).await else { return false };
    for deletion in deletions {
        // The read began after the seals were collected.
        let control = match seal_fate(bucket, *deletion, named, true) {
            SealFate::Keep => continue,
            SealFate::Remove => Control::Unseal { bucket, deletion: *deletion },
            SealFate::MakeFinal => Control::SealForEver { bucket },
        };
        send_to_every_volume(deps, &control).await;
    }
    named.is_some_and(|(id, _)| id == bucket)
}

/// The buckets that the registers of these names hold now.
async fn buckets_named(deps: &Deps, names: &BTreeSet<ObjectKey>) -> Result<BTreeSet<BucketId>, Failure> {
    let keys: Vec<RegisterKey> = names.iter().cloned().map(RegisterKey::bucket).collect();
    let mut all = BTreeSet::new();
    for keys in keys.chunks(BUCKET_READS_AT_ONCE) {
        let buckets = try_join_all(keys.iter().map(|key| bucket_named(deps, key))).await?;
        all.extend(buckets.into_iter().flatten().map(|(id, _)| id));
    }
    Ok(all)
}

async fn bucket_named(deps: &Deps, key: &RegisterKey) -> Result<Option<(BucketId, BucketPhase)>, Failure> {
    let found = deps.registers.read(key).await?;
    Ok(found.and_then(|found| match found.value.state {
        State::Bucket(bucket) => Some((bucket.id, bucket.phase)),
        State::Tombstone | State::Object(_) | State::Part(_) | State::UploadAttributes(_) => None,
    }))
}

async fn send_to_every_volume(deps: &Deps, control: &Control) {
    let routes = deps.cluster.sets().iter().flat_map(|set| &set.routes);
    let answers = routes.map(|route| ask(route.peer.control(route.volume, control.clone()), VOLUME_PATIENCE));
    join_all(answers).await;
}
