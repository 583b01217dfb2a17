//! A volume's rebuild of its shards, and what is known of it.

use std::sync::Arc;

use sherd_core::heal::HealEntry;

use super::{DEADLINE, Directories, body};
use crate::upkeep::shards::subject::HealSubject;
use crate::upkeep::{OpeningStatus, Upkeep};
use crate::volumes::VolumeState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_a_restart_cut_short_is_known_before_the_volume_passes_for_whole() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("file", &body(1, 2_000_000)).await;
    let volume = Arc::clone(&node.volumes.all()[0]);
    node.workers
        .scrubber
        .progress
        .change(volume.id(), |progress| progress.wants_shards = true)
        .await
        .expect("written");
    let (register, data) = (node.register("file").await, node.data("file").await);
    let damage = HealEntry { key: register, data: Some(data.into()), since_ms: 1 };
    let other = node.volumes.all()[2].id();
    node.workers.deps.route_to(other).expect("in a set").peer.heal_put(other, &damage).await.expect("noted");
    node.close().await;

    let node = directories.start().await;
    let volume = &node.volumes.all()[0];
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    let standing = || upkeep.standing(volume.id(), volume.opened_count());
    assert_eq!((standing(), upkeep.status().mrf.len), (OpeningStatus::Unknown, 0));
    assert!(node.workers.follower.load_known_damage(volume.id()).await);
    assert!(matches!(standing(), OpeningStatus::Recovering(_)), "{:?}", standing());
    assert_eq!(upkeep.status().mrf.len, 1, "what the logs hold counts from here on");
    assert!(node.comes_back(volume).await);
    assert_eq!(standing(), OpeningStatus::Known);
    assert_eq!(
        upkeep.standing(volume.id(), volume.opened_count() + 1),
        OpeningStatus::Unknown,
        "a later opening"
    );
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_lacks_shards_wants_them_in_its_own_log_and_is_over_when_nothing_is_missing() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("file", &body(1, 2_000_000)).await;
    let (register, data) = (node.register("file").await, node.data("file").await);
    let missing: Vec<_> = (0..3).map(|index| node.file(&register, &data, index)).collect();
    for path in &missing {
        std::fs::rename(path, path.with_extension("aside")).expect("moved away");
    }
    let volume = node.home(&register, &data, 0);
    node.workers
        .scrubber
        .progress
        .change(volume, |progress| progress.wants_shards = true)
        .await
        .expect("written");
    node.workers.follower.shards.rebuild_shards(volume).await.expect("wanted");
    let wants = node.wants_of(volume).await;
    assert_eq!(wants.iter().map(|logged| logged.want.data).collect::<Vec<_>>(), [Some(data.into())]);
    assert_eq!(node.wants_logged(), 1, "in its own log alone");
    assert_eq!(node.logged_heals().await, []);
    assert!(node.workers.scrubber.progress.read(volume).await.expect("readable").wants_shards);
    let is_listed = || node.workers.recoveries.wants_shards(volume);
    assert!(is_listed(), "it does not hold what it should");

    for path in &missing[1..] {
        std::fs::rename(path.with_extension("aside"), path).expect("moved back");
    }
    node.workers.follower.shards.rebuild_shards(volume).await.expect("rebuilt");
    assert!(!node.workers.scrubber.progress.read(volume).await.expect("readable").wants_shards);
    assert!(!is_listed());
    node.close().await;
}

/// The index outlived them, and names them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_that_went_with_the_end_of_a_log_are_rebuilt() {
    // The second cut goes through a frame behind a shard that is whole in it: compaction lets it go all the
    // same.
    for cut in [250_000, 298_000] {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        let names: Vec<String> = (0..12).map(|n| format!("packed-{n}")).collect();
        for (seed, name) in (0..).zip(&names) {
            node.put_everywhere(name, &body(seed, 100_000)).await;
            node.complete(&node.register(name).await, &node.data(name).await).await;
        }
        node.close().await;
        let mut log = std::fs::read_dir(directories.paths()[0].join("log")).expect("a log");
        let segment = log.next().expect("a segment").expect("readable").path();
        let file = std::fs::File::options().write(true).open(&segment).expect("writable");
        file.set_len(cut).expect("cut");

        let node = directories.start().await;
        let volume = Arc::clone(&node.volumes.all()[0]);
        assert!(matches!(volume.state(), VolumeState::Recovering), "{:?}", volume.state());
        node.workers.follower.recovery.recover(&volume).await.expect("recovered");
        node.workers.follower.shards.rebuild_shards(volume.id()).await.expect("shards are rebuilt");
        let compacted = async {
            while segment.exists() {
                crate::upkeep::tests::between_looks().await;
            }
        };
        tokio::time::timeout(DEADLINE, compacted).await.expect("its segment is compacted");
        for name in &names {
            let (register, data) = (node.register(name).await, node.data(name).await);
            let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
            assert_eq!(subject.look(true).await.intact.len(), 4, "{name}, cut at {cut}");
        }
        node.close().await;
    }
}
