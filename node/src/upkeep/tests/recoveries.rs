//! Volumes that go away, come back, or come back with nothing.

use std::sync::Arc;

use super::{DEADLINE, Directories, body};
use crate::upkeep::rebuild::Subject;
use crate::upkeep::recover::Stalled;
use crate::upkeep::{Context, Upkeep};
use crate::volumes::VolumeState;

/// Follows the volumes in the background until the test ends.
fn follow(context: &Arc<Context>) -> Upkeep {
    let upkeep = Upkeep::over(Arc::clone(context));
    upkeep.run(|context| async move { context.follow_volumes().await });
    upkeep
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_moved_away_is_offline_and_is_opened_again_when_it_is_back() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("before", &body(1, 100_000)).await;
    let volume = Arc::clone(&node.volumes.all()[1]);
    let away = volume.path().with_extension("away");
    std::fs::rename(volume.path(), &away).expect("moved away");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.put("while", &body(2, 100_000)).await;
    assert_eq!(node.get("before").await, Some(body(1, 100_000)));

    std::fs::rename(&away, volume.path()).expect("moved back");
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    assert_eq!(volume.opened_count(), 2);
    assert_eq!(node.get("while").await, Some(body(2, 100_000)));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_away_gets_what_it_missed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("before", &body(1, 100_000)).await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    node.context.note_peers(&volume).await;
    let away = volume.path().with_extension("away");
    std::fs::rename(volume.path(), &away).expect("moved away");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.put("while", &body(2, 2_000_000)).await;
    let (register, data) = (node.register("while").await, node.data("while").await);
    assert!(!node.context.rows_of(&register).await.are_equal());

    std::fs::rename(&away, volume.path()).expect("moved back");
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    node.context.came_back(volume.id()).await;
    assert!(node.context.rows_of(&register).await.are_same());
    while let Some(queued) = node.context.mrf.take(node.context.now_ms()) {
        let healed = node.context.heal(&queued).await;
        assert_eq!(healed, crate::upkeep::heal::Healed::Whole, "{queued:?}");
        node.context.mrf.healed(queued.id());
    }
    let subject = Subject::new(&node.context, &register, data).expect("fits its set");
    assert_eq!(subject.look(true).await.intact.len(), 4);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_volume_is_adopted_recovered_and_votes_with_its_shards() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = [("inline", 1_000), ("packed", 100_000), ("file", 2_500_000)];
    for (seed, (name, length)) in objects.iter().enumerate() {
        node.put(name, &body(seed as u64, *length)).await;
    }
    let volume = Arc::clone(&node.volumes.all()[0]);
    std::fs::remove_dir_all(volume.path()).expect("wiped");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.put("later", &body(9, 50_000)).await;
    std::fs::create_dir(volume.path()).expect("an empty directory");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;

    node.context.recover(&volume).await.expect("recovered");
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    let serving = volume.serving().expect("online");
    assert_eq!(serving.reader.answerer().incarnation.0, 2);
    assert!(serving.reader.answerer().votes);
    node.context.rebuild_shards(volume.id()).await.expect("shards are rebuilt");

    for name in ["inline", "packed", "file", "later"] {
        let register = node.register(name).await;
        let rows = node.context.rows_of(&register).await;
        assert!(rows.are_same() && rows.silent.is_empty(), "{name}: {rows:?}");
    }
    for name in ["packed", "file", "later"] {
        let (register, data) = (node.register(name).await, node.data(name).await);
        let subject = Subject::new(&node.context, &register, data).expect("fits its set");
        assert_eq!(subject.look(true).await.intact.len(), 4, "{name}");
    }
    // Two others leave: what the recovered one holds is needed now.
    for other in [2, 3] {
        let other = &node.volumes.all()[other];
        std::fs::rename(other.path(), other.path().with_extension("away")).expect("moved away");
        node.wait_for(other.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    }
    for (seed, (name, length)) in objects.iter().enumerate() {
        assert_eq!(node.get(name).await, Some(body(seed as u64, *length)), "{name}");
    }
    node.volumes.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vacant_directory_is_not_adopted_while_too_few_others_vote() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.close().await;
    for path in directories.paths().iter().take(3) {
        std::fs::remove_dir_all(path).expect("wiped");
        std::fs::create_dir(path).expect("an empty directory");
    }
    let node = directories.start().await;
    let vacant = Arc::clone(&node.volumes.all()[0]);
    assert!(matches!(vacant.state(), VolumeState::Vacant { .. }));
    let stalled = node.context.recover(&vacant).await;
    assert_eq!(stalled, Err(Stalled::Voters { voters: 1, needed: 2 }));
    assert!(matches!(vacant.state(), VolumeState::Vacant { .. }));
    assert!(std::fs::read_dir(vacant.path()).expect("readable").next().is_none(), "nothing was written");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_that_a_restart_cut_short_is_done_again() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    node.close().await;
    let wiped = &directories.paths()[3];
    std::fs::remove_dir_all(wiped).expect("wiped");
    std::fs::create_dir(wiped).expect("an empty directory");

    let node = directories.start().await;
    let volume = Arc::clone(&node.volumes.all()[3]);
    volume.adopt(sherd_core::id::Incarnation(2)).await.expect("adopted");
    node.wait_for(volume.id(), |state| *state == VolumeState::Recovering).await;
    node.close().await;

    let node = directories.start().await;
    let volume = Arc::clone(&node.volumes.all()[3]);
    assert_eq!(volume.state(), VolumeState::Recovering);
    let upkeep = follow(&node.context);
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    upkeep.stop().await;
    assert!(volume.serving().expect("online").reader.answerer().incarnation.0 > 2, "a life of its own");
    let register = node.register("a").await;
    assert!(node.context.rows_of(&register).await.are_same());
    node.close().await;
}
