//! The notes of an opened volume's peers decide whether it votes.

use std::sync::Arc;

use sherd_core::heal::HealEntry;
use sherd_core::id::RegisterKey;

use super::{DEADLINE, Directories, body, follow, key_of};
use crate::peer::{LocalPeer, UpkeepPeer};
use crate::upkeep::Upkeep;
use crate::upkeep::rows::rows_of;
use crate::volumes::VolumeState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_rolled_back_is_recovered() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    node.close().await;
    let path = &directories.paths()[2];
    let snapshot = path.with_extension("snapshot");
    copy(path, &snapshot);

    let node = directories.start().await;
    node.put("b", &body(2, 100_000)).await;
    // The peers' notes on the volume came with these writes.
    node.put("c", &body(3, 100_000)).await;
    node.close().await;
    std::fs::remove_dir_all(path).expect("removed");
    std::fs::rename(&snapshot, path).expect("the snapshot is restored");

    let node = directories.start().await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    node.wait_for(volume.id(), |state| *state == VolumeState::Recovering).await;
    node.workers.follower.recovery.recover(&volume).await.expect("recovered");
    for name in ["a", "b", "c"] {
        let rows = rows_of(&node.workers.deps, &node.register(name).await).await;
        let newest = rows.held.iter().map(|(_, ballot, _)| *ballot).max();
        let own = rows.held.iter().find(|(holder, _, _)| *holder == volume.id());
        assert_eq!(own.map(|(_, ballot, _)| *ballot), newest, "{name}");
        assert!(newest.is_some(), "{name}");
    }
    for other in [0, 1, 3] {
        assert_eq!(node.volumes.all()[other].state(), VolumeState::Online);
    }
    node.close().await;
}

/// Shards, heals, refusals and compaction write to its log before it votes: by then it is further than its
/// peers remember.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_rolled_back_is_recovered_whatever_it_wrote_before_its_peers_answered() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    node.close().await;
    let paths = directories.paths();
    let snapshot = paths[2].with_extension("snapshot");
    copy(&paths[2], &snapshot);

    let node = directories.start().await;
    node.put("b", &body(2, 100_000)).await;
    // The peers' notes on the volume came with these writes.
    node.put("c", &body(3, 100_000)).await;
    let sent = node.volumes.all()[2].serving().expect("it serves").reader.answerer().position();
    node.close().await;
    std::fs::remove_dir_all(&paths[2]).expect("removed");
    std::fs::rename(&snapshot, &paths[2]).expect("the snapshot is restored");
    for other in [0, 1, 3] {
        std::fs::rename(&paths[other], paths[other].with_extension("away")).expect("moved away");
    }

    let node = directories.start().await;
    let upkeep = follow(&node.workers);
    let volume = Arc::clone(&node.volumes.all()[2]);
    assert!(matches!(volume.state(), VolumeState::Unconfirmed { .. }), "{:?}", volume.state());
    let own = LocalPeer::new(node.volumes.clone());
    let mut entries = (0..).map(|since_ms| HealEntry {
        key: RegisterKey::bucket(key_of(&format!("entry {since_ms}"))),
        data: None,
        since_ms,
    });
    let durable = || volume.serving().expect("it serves").reader.answerer().durable;
    while durable() <= sent.durable {
        let entry = entries.next().expect("they do not end");
        own.heal_put(volume.id(), &entry).await.expect("one that does not vote takes entries, too");
    }
    for other in [0, 1, 3] {
        std::fs::rename(paths[other].with_extension("away"), &paths[other]).expect("moved back");
    }
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    let life = volume.serving().expect("it serves").reader.answerer().life;
    assert!(life > sent.life, "it has lost state, and was recovered");
    for name in ["a", "b", "c"] {
        let rows = rows_of(&node.workers.deps, &node.register(name).await).await;
        let newest = rows.held.iter().map(|(_, ballot, _)| *ballot).max();
        let own = rows.held.iter().find(|(holder, _, _)| *holder == volume.id());
        assert_eq!(own.map(|(_, ballot, _)| *ballot), newest, "{name}");
    }
    upkeep.stop().await;
    node.volumes.close(DEADLINE).await;
}

/// A restart drops what its peers noted of the opening before, and nothing else: each has notes of two
/// openings at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_do_not_make_peers_remember_ever_more() {
    let directories = Directories::new(3);
    let node = directories.start().await;
    node.create_bucket().await;
    node.close().await;
    for restart in 0..5 {
        let node = directories.start().await;
        let upkeep = follow(&node.workers);
        node.put(&format!("key {restart}"), &body(restart, 100_000)).await;
        for volume in node.volumes.all() {
            node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
            let memory = volume.serving().expect("it serves").reader.memory();
            assert_eq!(memory.openings.openings().len(), 2 + usize::try_from(restart).expect("few"));
            assert!(memory.positions.len() <= 2 * 2, "restart {restart}: {:?}", memory.positions);
        }
        upkeep.stop().await;
        node.volumes.close(DEADLINE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_does_not_vote_before_enough_peers_said_what_they_remember() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    node.close().await;
    let away = directories.paths().into_iter().skip(2);
    let away: Vec<_> = away.map(|path| (path.clone(), path.with_extension("away"))).collect();
    for (path, away) in &away {
        std::fs::rename(path, away).expect("moved away");
    }

    let node = directories.start().await;
    let volume = Arc::clone(&node.volumes.all()[0]);
    let waits = volume.state();
    assert!(matches!(&waits, VolumeState::Unconfirmed { .. }), "{waits:?}");
    let upkeep = follow(&node.workers);
    let names = |path: &std::path::Path| {
        let path = path.display().to_string();
        move |state: &VolumeState| {
            let waits = matches!(state, VolumeState::Unconfirmed { .. });
            let reason = state.reason().unwrap_or_default();
            waits && reason.contains("1 of 2") && reason.contains(&path)
        }
    };
    node.wait_for(volume.id(), names(&away[0].0)).await;
    let register = sherd_core::id::RegisterKey::bucket(super::key_of("bucket"));
    let rows = rows_of(&node.workers.deps, &register).await;
    assert_eq!((rows.held.len(), rows.silent.len()), (0, 4), "nobody votes: {rows:?}");

    std::fs::rename(&away[0].1, &away[0].0).expect("moved back");
    for number in 0..3 {
        node.wait_for(node.volumes.all()[number].id(), |state| *state == VolumeState::Online).await;
    }
    assert_eq!(node.get("a").await, Some(body(1, 100_000)));
    upkeep.stop().await;
    node.volumes.close(DEADLINE).await;
}

/// The old disk is back, and the only peer that is there has no note of later writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_disk_does_not_vote_with_a_peer_that_knows_no_better() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let upkeep = follow(&node.workers);
    let [old, ignorant] = [0, 1].map(|n| Arc::clone(&node.volumes.all()[n]));
    let paths = directories.paths();
    let aside = |n: usize| paths[n].with_extension("aside");
    // Rebuilt while the ignorant one is away: two others record the new life.
    for volume in [&ignorant, &old] {
        std::fs::rename(volume.path(), volume.path().with_extension("aside")).expect("moved away");
        node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    }
    std::fs::create_dir(&paths[0]).expect("an empty mount point");
    node.wait_for(old.id(), |state| *state == VolumeState::Online).await;
    node.put("after", &body(1, 100_000)).await;
    upkeep.stop().await;
    node.volumes.close(DEADLINE).await;

    std::fs::rename(&paths[0], paths[0].with_extension("rebuilt")).expect("moved away");
    for n in [2, 3] {
        std::fs::rename(&paths[n], aside(n)).expect("moved away");
    }
    for n in [0, 1] {
        std::fs::rename(aside(n), &paths[n]).expect("moved back");
    }
    let node = directories.start().await;
    let states = || [0, 1].map(|n| node.volumes.all()[n].state());
    assert!(states().iter().all(|state| matches!(state, VolumeState::Unconfirmed { .. })), "{:?}", states());
    let upkeep = follow(&node.workers);
    std::fs::rename(aside(2), &paths[2]).expect("moved back");
    let old = Arc::clone(&node.volumes.all()[0]);
    node.wait_for(old.id(), |state| *state == VolumeState::Recovering).await;
    upkeep.stop().await;
    node.volumes.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_for_which_somebody_vouches_votes_though_its_peers_are_gone() {
    let directories = Directories::new(2);
    let node = directories.start().await;
    node.create_bucket().await;
    node.close().await;
    let path = &directories.paths()[1];
    std::fs::rename(path, path.with_extension("away")).expect("moved away");
    let directories = directories.vouching();
    let node = directories.start().await;
    let upkeep = follow(&node.workers);
    node.wait_for(node.volumes.all()[0].id(), |state| *state == VolumeState::Online).await;
    upkeep.stop().await;
    node.volumes.close(DEADLINE).await;
}

/// Stops a node while some of its volumes are being rebuilt, before they vote.
async fn cut_short(directories: &Directories, lost: &[usize]) {
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    node.close().await;
    for n in lost {
        std::fs::remove_dir_all(&directories.paths()[*n]).expect("wiped");
        std::fs::create_dir(&directories.paths()[*n]).expect("an empty directory");
    }
    let node = directories.start().await;
    for n in lost {
        let volume = Arc::clone(&node.volumes.all()[*n]);
        volume.adopt(sherd_core::id::Life(2)).await.expect("adopted");
        node.wait_for(volume.id(), |state| *state == VolumeState::Recovering).await;
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_waits_for_ever_says_so_and_what_ends_it() {
    for (volumes, lost) in [(2, vec![1]), (4, vec![2, 3])] {
        let directories = Directories::new(volumes);
        cut_short(&directories, &lost).await;

        let node = directories.start().await;
        let upkeep = follow(&node.workers);
        let says = |state: &VolumeState| {
            let reason = state.reason().unwrap_or_default();
            reason.contains("does not come back by itself") && reason.contains("serve --vouch")
        };
        node.wait_for(node.volumes.all()[0].id(), says).await;
        let stuck: Vec<String> = upkeep.stuck_sets().iter().map(ToString::to_string).collect();
        for path in directories.paths() {
            assert!(stuck[0].contains(&path.display().to_string()), "{stuck:?}");
        }
        upkeep.stop().await;
        node.volumes.close(DEADLINE).await;

        let directories = directories.vouching();
        let node = directories.start().await;
        let upkeep = follow(&node.workers);
        for volume in node.volumes.all() {
            node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
        }
        assert_eq!(upkeep.stuck_sets(), []);
        assert_eq!(node.get("a").await, Some(body(1, 100_000)));
        upkeep.stop().await;
        node.volumes.close(DEADLINE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_waits_for_a_volume_to_come_back_is_not_stuck() {
    let directories = Directories::new(4);
    cut_short(&directories, &[3]).await;
    let away = &directories.paths()[2];
    std::fs::rename(away, away.with_extension("away")).expect("moved away");

    let node = directories.start().await;
    let upkeep = follow(&node.workers);
    let waits = |state: &VolumeState| state.reason().is_some_and(|reason| reason.contains("1 of 2"));
    node.wait_for(node.volumes.all()[0].id(), waits).await;
    assert_eq!(upkeep.stuck_sets(), []);
    std::fs::rename(away.with_extension("away"), away).expect("moved back");
    for volume in node.volumes.all() {
        node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    }
    upkeep.stop().await;
    node.volumes.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fewer_volumes_than_a_read_needs_are_not_vouched_for() {
    let directories = Directories::new(4);
    cut_short(&directories, &[1, 2, 3]).await;
    let directories = directories.vouching();
    let node = directories.start().await;
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    for n in [1, 2, 3] {
        node.wait_for(node.volumes.all()[n].id(), |state| *state == VolumeState::Recovering).await;
    }
    let stuck: Vec<String> = upkeep.stuck_sets().iter().map(ToString::to_string).collect();
    assert!(stuck[0].contains("vouching for them is not enough"), "{stuck:?}");
    node.volumes.close(DEADLINE).await;
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).expect("made");
    for entry in std::fs::read_dir(from).expect("listed") {
        let entry = entry.expect("listed");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("typed").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}
