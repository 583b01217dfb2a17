//! Wants: what the volumes of a node log that they lack, and how the node's pass brings and ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sherd_core::id::{Life, ShardId, VolumeId};
use sherd_core::message::Error;
use sherd_core::record::{DataRef, ObjectTags, Tag};
use sherd_volume::read::wants::LoggedWant;

use super::uploads::{until_closed, uploaded};
use super::{DEADLINE, Directories, Node, between_looks, body, name};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::shards::subject::HealSubject;
use crate::upkeep::shards::wants::PassOutcome;
use crate::volumes::VolumeState;

impl Node {
    pub(super) async fn wants_of(&self, volume: VolumeId) -> Vec<LoggedWant> {
        self.local(volume).serving().expect("it serves").wants(None, 100).await.expect("readable")
    }

    /// Wants of all volumes since they were opened.
    pub(super) fn wants_logged(&self) -> u64 {
        let serving = self.volumes.all().iter().filter_map(|volume| volume.serving().ok());
        serving.map(|serving| serving.reader.status().wants_logged).sum()
    }

    pub(super) async fn pass_over(&self, volume: VolumeId) -> PassOutcome {
        let serving = self.local(volume).serving().expect("it serves");
        self.workers.wants.pass_over(volume, serving).await
    }

    /// Waits until the ends of a pass are in the log.
    pub(super) async fn until_nothing_is_wanted(&self, volume: VolumeId) {
        let ended = async {
            while !self.wants_of(volume).await.is_empty() {
                between_looks().await;
            }
        };
        tokio::time::timeout(DEADLINE, ended).await.expect("its wants end");
    }

    fn broken(&self, key: &sherd_core::id::RegisterKey, data: DataRef) -> HealSubject {
        HealSubject::new(&self.workers.deps, key, data).expect("fits its set")
    }
}

const ENDED: PassOutcome = PassOutcome { ended: 1, left: 0 };
const LEFT: PassOutcome = PassOutcome { ended: 0, left: 1 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_all_volumes_logs_no_want() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let tag = Tag { key: "k".to_owned(), value: "v".to_owned() };
    let tags = ObjectTags::encode(std::slice::from_ref(&tag)).expect("within limits");
    for (seed, (key, length)) in (0..).zip([("inline", 1_000), ("packed", 100_000), ("file", 2_500_000)]) {
        node.put_everywhere(key, &body(seed, length)).await;
        node.put_everywhere(key, &body(seed + 10, length)).await;
        node.objects().set_tags(&name(key), tags.clone(), None).await.expect("tagged");
        node.on_all_volumes(&node.register(key).await).await;
    }
    assert_eq!(node.wants_logged(), 0);
    node.close().await;
}

/// Puts an object of which one volume gets the row and no shard; the volume, and the data.
async fn put_without_a_shard(node: &Node, key: &str) -> (VolumeId, DataRef) {
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let lacks = node.volumes.all()[1].id();
    let lost = || Fate::Instead(Err(Error::Unreachable { reason: "cut off".to_owned() }));
    says(&script.shard_puts, move |volume, _| if volume == lacks { lost() } else { Fate::Through });
    gateway.put(key, &body(3, 100_000)).await;
    drop(gateway);
    node.on_all_volumes(&node.register(key).await).await;
    (lacks, node.data(key).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_got_the_row_and_no_shard_wants_it_and_its_node_brings_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (lacks, data) = put_without_a_shard(&node, "a").await;
    let register = node.register("a").await;
    let wants = node.wants_of(lacks).await;
    assert_eq!(wants.len(), 1);
    assert_eq!((&wants[0].want.key, wants[0].want.data), (&register, Some(data.into())));
    assert_eq!(node.wants_logged(), 1, "no other volume lacks anything");

    assert_eq!(node.pass_over(lacks).await, ENDED);
    node.until_nothing_is_wanted(lacks).await;
    assert!(node.broken(&register, data).look(true).await.broken.is_empty());
    node.close().await;
}

/// A shard that a life acknowledged which ended before the row came was lost with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_replaced_between_shard_and_row_wants_its_shard() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let volume = Arc::clone(&node.volumes.all()[1]);
    let before = volume.serving().expect("it serves").reader.answerer().life;
    std::fs::remove_dir_all(volume.path()).expect("wiped");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    std::fs::create_dir(volume.path()).expect("an empty directory");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
    node.workers.follower.recovery.recover(&volume).await.expect("recovered");
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    assert!(volume.serving().expect("it serves").reader.answerer().life > before);

    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let replaced = volume.id();
    says(&script.shard_puts, move |volume, _: ShardId| {
        if volume == replaced { Fate::<Life>::Instead(Ok(before)) } else { Fate::Through }
    });
    gateway.put("a", &body(3, 100_000)).await;
    drop(gateway);
    let register = node.register("a").await;
    node.on_all_volumes(&register).await;
    let data = node.data("a").await;
    let wants = node.wants_of(replaced).await;
    assert_eq!(wants.iter().map(|logged| logged.want.data).collect::<Vec<_>>(), [Some(data.into())]);
    assert_eq!(node.pass_over(replaced).await, ENDED);
    node.until_nothing_is_wanted(replaced).await;
    assert!(node.broken(&register, data).look(true).await.broken.is_empty());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_want_of_overwritten_data_ends_by_the_own_committed_row() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (lacks, data) = put_without_a_shard(&node, "a").await;
    let register = node.register("a").await;
    node.put_everywhere("a", &body(4, 100_000)).await;
    node.commit_everywhere(&register).await;
    assert_eq!(node.pass_over(lacks).await, ENDED);
    node.until_nothing_is_wanted(lacks).await;
    assert_eq!(node.broken(&register, data).look(false).await.broken.len(), 1, "nothing is brought for it");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_want_stays_while_too_few_shards_are_there_and_after_another_node_ended_its_reports() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    let (lacks, data) = put_without_a_shard(&node, "a").await;
    let register = node.register("a").await;
    let others: Vec<_> = (0..4).filter(|index| node.home(&register, &data, *index) != lacks).collect();
    for index in &others {
        let route = node.workers.deps.route_to(node.home(&register, &data, *index)).expect("a route");
        let shard = ShardId { data: data.id, index: *index };
        route.peer.delete_shard(route.volume, shard, data.home).await.expect("deleted");
    }
    assert_eq!(node.pass_over(lacks).await, LEFT);
    for id in node.logged_heals().await.into_iter().chain(node.reported_heals()) {
        for route in &node.workers.deps.cluster.set_of(&register).routes {
            route.peer.heal_done(route.volume, id);
        }
    }
    let gone = async {
        while !node.logged_heals().await.is_empty() {
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("the reports end");
    assert_eq!(node.wants_of(lacks).await.len(), 1, "only its own node ends a want");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_upload_is_wanted_by_each_volume_and_ends_there() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (part, complete) = uploaded(&node).await;
    assert_eq!(node.wants_logged(), 0);
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    script.drops_commits.store(true, Ordering::Relaxed);
    gateway.objects().complete_upload(complete).await.expect("completed");
    until_closed(&gateway, &part).await;
    drop(gateway);
    let register = node.register("a").await;
    node.on_all_volumes(&register).await;
    let volumes = node.volume_ids();
    for volume in &volumes {
        let wants = node.wants_of(*volume).await;
        assert_eq!(wants.len(), 1);
        assert_eq!((&wants[0].want.key, wants[0].want.data), (&register, None));
    }
    assert_eq!(node.pass_over(volumes[0]).await, LEFT, "its row is not known committed");

    node.commit_everywhere(&register).await;
    for volume in &volumes {
        assert_eq!(node.pass_over(*volume).await, ENDED);
        node.until_nothing_is_wanted(*volume).await;
    }
    assert_eq!(node.workers.queue.mrf.status().healed_bytes, 0, "all of it was there");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_whose_shard_a_volume_lacks_comes_there_with_the_completed_upload() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (part, complete) = uploaded(&node).await;
    let found = node.registers().read(&part).await.expect("readable").expect("a row");
    let data = found.value.data_refs()[0];
    let route = node.workers.deps.route_to(node.home(&part, &data, 2)).expect("a route");
    let shard = ShardId { data: data.id, index: 2 };
    route.peer.delete_shard(route.volume, shard, data.home).await.expect("deleted");
    node.objects().complete_upload(complete).await.expect("completed");
    let register = node.register("a").await;
    node.on_all_volumes(&register).await;
    node.commit_everywhere(&register).await;
    assert_eq!(node.pass_over(route.volume).await, ENDED);
    assert!(node.broken(&register, data).look(true).await.broken.is_empty());
    node.close().await;
}
