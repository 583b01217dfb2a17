//! The buckets that the rows of volumes show: read through one volume after the other, here and on other
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

use sherd_core::config::Generation;
use sherd_core::iam;
use sherd_core::id::{Ballot, BucketId, ObjectKey};
use sherd_core::message::{RowScan, ScannedRow};
use sherd_core::record::{Bucket, BucketPhase, State, Value};
use sherd_core::register::quorum::{Order, Reply};

use crate::cluster::SetView;
use crate::peer::VolumeRoute;
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{BUCKETS_PAGE, VOLUME_PATIENCE};
use crate::upkeep::pages::ask;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BucketRow {
    pub(super) name: ObjectKey,
    pub(super) phase: BucketPhase,
    pub(super) ballot: Ballot,
}

#[derive(Debug, Default)]
pub(super) struct BucketRows {
    /// The bucket that each row holds.
    pub(super) by_id: BTreeMap<BucketId, BucketRow>,
    /// The names of all rows, those without a bucket among them.
    pub(super) names: BTreeSet<ObjectKey>,
    /// Volumes that were read through, each in one life in which it voted.
    pub(super) replies: Vec<Reply<()>>,
}

impl BucketRows {
    pub(super) fn replies_in(&self, set: &SetView) -> Vec<Reply<()>> {
        self.replies.iter().filter(|reply| set.place_of(reply.volume).is_some()).cloned().collect()
    }

    fn add(&mut self, row: ScannedRow) {
        if Generation::of_register(&row.key).is_some() || iam::is_register(&row.key) {
            return;
        }
        self.names.insert(row.key.key.clone());
        let ballot = row.row.head.ballot;
        let value = row.row.value.and_then(|head| Value::decode(head).ok());
        if let Some(State::Bucket(Bucket { id, phase, .. })) = value.map(|value| value.state) {
            let found = BucketRow { name: row.key.key, phase, ballot };
            let rank = |row: &BucketRow| (matches!(row.phase, BucketPhase::Deleting { .. }), row.ballot);
            if self.by_id.get(&id).is_none_or(|known| rank(known) < rank(&found)) {
                self.by_id.insert(id, found);
            }
        }
    }
}

/// Adds the buckets that volumes of other nodes know, until as many of each set were read through as are
/// `wanted`; whether they were. Those that were read before count.
pub(super) async fn add_other_nodes(
    deps: &Deps,
    buckets: &mut BucketRows,
    wanted: impl Fn(&SetView) -> usize,
) -> bool {
    let mut are_enough = true;
    for set in deps.cluster.sets() {
        for route in set.routes.iter().filter(|route| deps.volumes.get(route.volume).is_none()) {
            let is_known = buckets.replies.iter().any(|reply| reply.volume == route.volume);
            if !is_known && buckets.replies_in(set).len() < wanted(set) {
                buckets_on(deps, route, buckets).await;
            }
        }
        are_enough &= buckets.replies_in(set).len() >= wanted(set);
    }
    are_enough
}

/// Adds the buckets that a volume has rows of; `false` where it cannot be read through. A bucket that any
/// volume shows as deleting counts as that.
pub(super) async fn buckets_on(deps: &Deps, route: &VolumeRoute, buckets: &mut BucketRows) -> bool {
    let mut after = None;
    let (mut life, mut all_there) = (None, true);
    loop {
        let request = RowScan::all(deps.cluster.epoch(), after, BUCKETS_PAGE);
        let Ok(answer) = ask(route.peer.rows(route.volume, &request), VOLUME_PATIENCE).await else {
            return false;
        };
        let from = answer.from;
        deps.registers.learn(route.volume, &from);
        let Ok(page) = answer.result else { return false };
        // A walk counts only if all its pages came from one life of a voting volume.
        all_there &= from.votes && *life.get_or_insert(from.life) == from.life;
        let mut is_last = page.next.is_none();
        // Records of IAM lie one behind the other: the rest of them is not read.
        let ends_in_iam = page.rows.last().is_some_and(|row| iam::is_register(&row.key));
        for row in page.rows {
            // The system's own namespace comes first.
            if row.key.bucket != BucketId::SYSTEM || row.key.part.is_some() {
                is_last = true;
                break;
            }
            buckets.add(row);
        }
        if is_last {
            let order = Order { asked: 0, arrived: 0 };
            let reply = Reply { volume: route.volume, from, order, result: Ok(()) };
            buckets.replies.extend(all_there.then_some(reply));
            return all_there;
        }
        after = if ends_in_iam { Some(iam::behind_all()) } else { page.next };
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use sherd_core::iam::Account;
    use sherd_core::id::RegisterKey;

    use super::*;
    use crate::iam::{Iam, IamConfig, MasterKey, NewUser};
    use crate::machine::system::SystemRng;
    use crate::object::NewBucket;
    use crate::upkeep::tests::{Directories, key_of};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn records_of_iam_are_no_names_of_buckets_and_stay() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let config = IamConfig {
            objects: node.objects().clone(),
            rng: std::sync::Arc::new(SystemRng),
            master_key: Some(MasterKey::new(&[1; MasterKey::BYTES])),
            others: None,
        };
        let iam = Iam::new(config);
        let create = |n: usize| {
            let user = NewUser { name: format!("u{n}"), path: "/".to_owned(), tags: Vec::new() };
            iam.create_user(user)
        };
        let mut created = stream::iter(0..BUCKETS_PAGE + 3).map(create).buffer_unordered(32);
        while let Some(created) = created.next().await {
            created.expect("created");
        }
        drop(created);
        iam.set_account_public_access_block(None).await.expect("set");
        for name in ["a", "iam", "zz"] {
            node.objects().create_bucket(key_of(name), NewBucket::default()).await.expect("created");
            node.commit_everywhere(&RegisterKey::bucket(key_of(name))).await;
        }
        for route in node.workers.deps.cluster.sets().iter().flat_map(|set| &set.routes) {
            let mut rows = BucketRows::default();
            assert!(buckets_on(&node.workers.deps, route, &mut rows).await);
            assert_eq!(rows.names.iter().map(ObjectKey::as_str).collect::<Vec<_>>(), ["a", "iam", "zz"]);
            assert_eq!(rows.by_id.len(), 3);
        }
        node.workers.documents.look_for_leftovers().await;
        assert!(iam.user("u0").await.is_ok());
        let account = node.registers().read(&Account::register()).await.expect("readable");
        assert!(account.is_some_and(|found| found.object().is_some()));
        node.close().await;
    }
}
