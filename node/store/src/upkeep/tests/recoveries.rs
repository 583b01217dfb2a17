//! Volumes that go away, come back, or come back with nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Life, NodeId, RegisterKey, Sequence};
use sherd_core::message::{RowScan, ValueLimit};
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::{Accept, EncodedValue, Prepare, Refusal};
use sherd_core::report::{VolumeCondition, VolumeReport, VolumeStanding};
use sherd_volume::request::Op;

use super::{DEADLINE, Directories, Node, accept_at, body, follow, key_of, tombstone};
use crate::upkeep::progress::VolumeProgress;
use crate::upkeep::recover::stall::RecoveryStall;
use crate::upkeep::rows::rows_of;
use crate::upkeep::rows::tell_committed;
use crate::upkeep::shards::subject::HealSubject;
use crate::upkeep::workers::Workers;
use crate::upkeep::{OpeningStatus, Upkeep};
use crate::volumes::{LocalVolume, VolumeState};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_moved_away_is_offline_and_is_opened_again_when_it_is_back() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let volume = Arc::clone(&node.volumes.all()[1]);
    let has_promised = || volume.serving().expect("it serves").has_promised;
    assert!(!has_promised(), "it is new, and refuses no ballot");
    node.put("before", &body(1, 100_000)).await;
    let away = volume.path().with_extension("away");
    std::fs::rename(volume.path(), &away).expect("moved away");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.put("while", &body(2, 100_000)).await;
    assert_eq!(node.get("before").await, Some(body(1, 100_000)));

    std::fs::rename(&away, volume.path()).expect("moved back");
    node.back_online(volume.id()).await;
    assert_eq!(volume.opened_count(), 2);
    assert!(has_promised(), "ballots of the first life are refused for a while");
    assert_eq!(node.get("while").await, Some(body(2, 100_000)));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_directory_waits_for_its_disk() {
    let directories = Directories::new(4).with_patience_for_disks(Duration::from_hours(1));
    let node = directories.start().await;
    let upkeep = follow(&node.workers);
    let volume = Arc::clone(&node.volumes.all()[1]);
    let away = volume.path().with_extension("away");
    std::fs::rename(volume.path(), &away).expect("moved away");
    std::fs::create_dir(volume.path()).expect("an empty mount point");
    let waits = |state: &VolumeState| matches!(state, VolumeState::Vacant { reason } if reason.contains("1h after that was seen, unless its disk"));
    node.wait_for(volume.id(), waits).await;
    std::fs::remove_dir(volume.path()).expect("nothing was made in it");
    std::fs::rename(&away, volume.path()).expect("moved back");
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    assert_eq!(volume.serving().expect("online").reader.answerer().life.0, 1);
    upkeep.stop().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_comes_back_after_its_volume_was_rebuilt_is_recovered() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let upkeep = follow(&node.workers);
    let volume = Arc::clone(&node.volumes.all()[1]);
    let in_life = |life: u32| {
        let volume = Arc::clone(&volume);
        move |state: &VolumeState| {
            *state == VolumeState::Online
                && volume.serving().is_ok_and(|serving| serving.reader.answerer().life.0 >= life)
        }
    };
    let away = volume.path().with_extension("away");
    std::fs::rename(volume.path(), &away).expect("moved away");
    std::fs::create_dir(volume.path()).expect("an empty mount point");
    node.wait_for(volume.id(), in_life(2)).await;
    node.put("while", &body(1, 100_000)).await;

    std::fs::rename(volume.path(), volume.path().with_extension("rebuilt")).expect("moved away");
    std::fs::rename(&away, volume.path()).expect("moved back");
    node.wait_for(volume.id(), in_life(3)).await;
    upkeep.stop().await;
    let rows = rows_of(&node.workers.deps, &node.register("while").await).await;
    assert!(rows.are_same() && rows.silent.is_empty(), "{rows:?}");
    node.close().await;
}

/// Heals all that is queued for a volume that came back.
async fn heal_what_is_queued(node: &Node) {
    while let Some(queued) = node.workers.queue.mrf.take(node.workers.deps.now_ms()) {
        let healed = node.workers.healer.heal(&queued).await;
        assert_eq!(healed, crate::upkeep::rows::bring::HealOutcome::Whole, "{queued:?}");
        node.workers.queue.mrf.healed(queued.id(), node.workers.deps.now_ms(), || {});
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_away_gets_what_it_missed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("before", &body(1, 100_000)).await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    node.note_peers(&volume, volume.opened_count()).await;
    let away = volume.path().with_extension("away");
    std::fs::rename(volume.path(), &away).expect("moved away");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.put("while", &body(2, 2_000_000)).await;
    let (register, data) = (node.register("while").await, node.data("while").await);
    assert!(!rows_of(&node.workers.deps, &register).await.are_equal());

    std::fs::rename(&away, volume.path()).expect("moved back");
    node.back_online(volume.id()).await;
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    let opening = volume.opened_count();
    assert!(node.workers.follower.load_known_damage(volume.id()).await);
    assert_eq!(upkeep.standing(volume.id(), opening), OpeningStatus::Unknown, "no log says what it missed");
    // Rows whose hint it missed before it left: no other worker settles rows here.
    let known = async {
        // Once more where no log took in time what was found.
        while upkeep.standing(volume.id(), opening) != OpeningStatus::Known {
            assert!(node.comes_back(&volume).await);
            assert_eq!(volume.opened_count(), opening);
        }
    };
    tokio::time::timeout(DEADLINE, known).await.expect("it is known what it missed");
    heal_what_is_queued(&node).await;
    assert!(rows_of(&node.workers.deps, &register).await.are_same());
    let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
    assert_eq!(subject.look(true).await.intact.len(), 4);
    node.close().await;
}

/// A kill can come before what a volume missed was queued: its peers' logs have hardly grown since they were
/// noted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_compared_after_a_restart_although_its_peers_hardly_wrote_meanwhile() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    node.note_peers(&volume, volume.opened_count()).await;
    // Brings the notes into a frame.
    node.put("before", &body(1, 1_000)).await;
    node.take_away(volume.id()).await;
    node.put("while", &body(2, 1_000)).await;
    let register = node.register("while").await;
    // The report of its missed row is dropped with the node.
    node.close().await;
    std::fs::rename(volume.path().with_extension("away"), volume.path()).expect("moved back");

    let node = directories.start().await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    assert_eq!(volume.serving().expect("it serves").reader.peers().len(), 3, "they were noted");
    assert_eq!(rows_of(&node.workers.deps, &register).await.without, [volume.id()]);
    assert!(node.comes_back(&volume).await);
    heal_what_is_queued(&node).await;
    assert!(rows_of(&node.workers.deps, &register).await.are_same());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_does_not_wait_until_heals_are_paid_for() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    node.take_away(volume.id()).await;
    node.put("while", &body(2, 100_000)).await;
    std::fs::rename(volume.path().with_extension("away"), volume.path()).expect("moved back");
    node.back_online(volume.id()).await;
    let Workers { follower, deps, .. } = &*node.workers;
    deps.throttle.set_bytes_per_second(1);
    let set = deps.cluster.set_of(&node.register("while").await);
    let route = set.routes.iter().find(|route| route.volume != volume.id()).expect("a peer");
    // Moved at once, and owed from then on.
    deps.throttle.take(1 << 30).await;
    let compared = follower.comparer.catch_up_with(volume.id(), route, None);
    assert_eq!(tokio::time::timeout(DEADLINE, compared).await, Ok(Ok(())));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_what_is_remembered_do_not_undo_each_other() {
    let directories = Directories::new(1);
    let node = directories.start().await;
    let volume = node.volumes.all()[0].id();
    let count = |progress: &mut VolumeProgress| progress.scrub.get_or_insert_default().began_ms += 1;
    let changed = join_all((0..50).map(|_| node.workers.scrubber.progress.change(volume, count))).await;
    assert!(changed.iter().all(Result::is_ok), "{changed:?}");
    let remembered = node.workers.scrubber.progress.read(volume).await.expect("readable");
    assert_eq!(remembered.scrub.map(|scrub| scrub.began_ms), Some(50));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_away_is_compared_as_a_whole_with_peers_that_were_rebuilt_meanwhile() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    let serving = volume.serving().expect("it serves");
    for peer in node.volumes.all().iter().filter(|peer| peer.id() != volume.id()) {
        // Notes of earlier lives reach further than the peers' logs of the present ones.
        let (life, opening) = (Life(0), OpeningId(1));
        let position = Position { life, opening, durable: Sequence(1 << 20) };
        let noted = serving.submit(Op::PeerSeen { volume: peer.id(), position });
        assert!(noted.is_ok());
    }
    drop(serving);
    // Brings the notes into a frame.
    node.put("before", &body(1, 1_000)).await;
    let away = volume.path().with_extension("away");
    std::fs::rename(volume.path(), &away).expect("moved away");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.put("while", &body(2, 1_000)).await;
    let register = node.register("while").await;

    std::fs::rename(&away, volume.path()).expect("moved back");
    node.back_online(volume.id()).await;
    assert_eq!(volume.serving().expect("it serves").reader.peers().len(), 3);
    assert_eq!(rows_of(&node.workers.deps, &register).await.without, [volume.id()]);
    assert!(node.comes_back(&volume).await);
    heal_what_is_queued(&node).await;
    assert!(rows_of(&node.workers.deps, &register).await.are_same());
    node.close().await;
}

/// The rows that it gets come behind what its log holds when it is asked how far that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_recovers_is_compared_when_it_has_its_rows() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let [behind, wiped] = [2, 1].map(|at| Arc::clone(&node.volumes.all()[at]));
    node.take_away(behind.id()).await;
    node.put("while", &body(1, 1_000)).await;
    let register = node.register("while").await;
    std::fs::rename(behind.path().with_extension("away"), behind.path()).expect("moved back");
    node.back_online(behind.id()).await;
    std::fs::remove_dir_all(wiped.path()).expect("wiped");
    node.wait_for(wiped.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    std::fs::create_dir(wiped.path()).expect("an empty directory");
    node.wait_for(wiped.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
    assert!(rows_of(&node.workers.deps, &register).await.without.contains(&behind.id()));

    let set = node.workers.deps.cluster.set_of(&register);
    let place = set.place_of(wiped.id()).expect("in the set");
    let compared = async {
        while wiped.serving().is_err() {
            crate::upkeep::tests::between_looks().await;
        }
        node.workers.follower.comparer.catch_up_with(behind.id(), &set.routes[place], None).await
    };
    let (compared, recovered) = tokio::join!(compared, node.workers.follower.recovery.recover(&wiped));
    recovered.expect("recovered");
    assert_eq!(compared, Ok(()));
    // For 2 s after an opening it may refuse the ballot; then it waits in the queue.
    let queued = HealEntry { key: register.clone(), data: None, since_ms: 0 };
    let rows = rows_of(&node.workers.deps, &register).await;
    let is_found = !rows.without.contains(&behind.id()) || node.workers.queue.mrf.contains(queued.id());
    assert!(is_found, "{rows:?}");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_away_for_a_moment_is_compared_further_and_one_in_another_life_is_not() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&register).routes[1].clone();
    let volume = node.volumes.get(route.volume).expect("a volume of this node");
    let life = volume.serving().expect("it serves").reader.answerer().life;
    let request = RowScan::all(node.workers.deps.cluster.epoch(), None, 10);
    node.on_all_volumes(&RegisterKey::bucket(key_of("bucket"))).await;
    node.take_away(volume.id()).await;
    let back = async {
        std::fs::rename(volume.path().with_extension("away"), volume.path()).expect("moved back");
        node.back_online(volume.id()).await;
    };
    let (page, ()) = tokio::join!(node.workers.follower.comparer.changed_rows(&route, &request, life), back);
    assert_eq!(page.map(|page| page.rows.len()), Ok(1), "the bucket");
    let other = node.workers.follower.comparer.changed_rows(&route, &request, Life(life.0 + 1)).await;
    assert!(other.is_err_and(|reason| reason.contains("another life")));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_that_was_not_compared_with_its_peers_is_not_told_how_far_they_are() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let volume = Arc::clone(&node.volumes.all()[2]);
    let compared = volume.opened_count();
    node.take_away(volume.id()).await;
    std::fs::rename(volume.path().with_extension("away"), volume.path()).expect("moved back");
    node.back_online(volume.id()).await;
    let frame = HealEntry { key: node.register("a").await, data: None, since_ms: 1 };
    let route = node.workers.deps.route_to(volume.id()).expect("in a set");
    let noted = async || {
        // Notes ride with what comes next.
        route.peer.heal_put(volume.id(), &frame).await.expect("noted");
        volume.serving().expect("it serves").reader.peers()
    };
    node.note_peers(&volume, compared).await;
    assert_eq!(noted().await, []);
    node.note_peers(&volume, volume.opened_count()).await;
    assert_eq!(noted().await.len(), 3);
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

    node.workers.follower.recovery.recover(&volume).await.expect("recovered");
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    let serving = volume.serving().expect("online");
    assert_eq!(serving.reader.answerer().life.0, 2);
    assert!(serving.reader.answerer().votes);
    node.workers.follower.shards.rebuild_shards(volume.id()).await.expect("shards are rebuilt");

    for name in ["inline", "packed", "file", "later"] {
        let register = node.register(name).await;
        let rows = rows_of(&node.workers.deps, &register).await;
        assert!(rows.are_same() && rows.silent.is_empty(), "{name}: {rows:?}");
    }
    for name in ["packed", "file", "later"] {
        let (register, data) = (node.register(name).await, node.data(name).await);
        let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
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

/// Five volumes, three of which commit. Two accepted a row, and the later one that excludes it was promised
/// by the others. One of these loses its state and adopts the earlier row, with the later one out of reach:
/// three show the earlier row now, and it was never committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_a_recovering_volume_copied_is_no_vote_for_it() {
    let directories = Directories::new(5);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("contested").await;
    let set = node.workers.deps.cluster.set_of(&register);
    let target = node.workers.deps.cluster.target(register.clone());
    let [early, late] = [(); 2].map(|()| node.workers.deps.clock.tick());
    let early = accept_at(&node, &register, &set.routes[..2], early).await;
    let late = accept_at(&node, &register, &set.routes[3..], late).await;
    let promise = set.routes[2].peer.prepare(
        set.routes[2].volume,
        &target,
        Prepare { ballot: late },
        ValueLimit::NOTHING,
    );
    promise.await.expect("answered").result.expect("promised");

    node.take_away(set.routes[3].volume).await;
    let lost = Arc::clone(node.local(set.routes[4].volume));
    std::fs::remove_dir_all(lost.path()).expect("wiped");
    node.wait_for(lost.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    std::fs::create_dir(lost.path()).expect("an empty directory");
    node.wait_for(lost.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
    node.workers.follower.recovery.recover(&lost).await.expect("recovered");
    node.wait_for(lost.id(), |state| *state == VolumeState::Online).await;

    let rows = rows_of(&node.workers.deps, &register).await;
    let shown = rows.held.iter().filter(|(_, ballot, _)| *ballot == early).count();
    assert_eq!(shown, 3, "the third is a copy: {rows:?}");
    tell_committed(&node.workers.deps, &register, &rows);
    let value = EncodedValue::new(tombstone().encode(), bytes::Bytes::new());
    let accept = Accept {
        ballot: early,
        value,
        introduces: Vec::new(),
        finishes: false,
        positions: Arc::default(),
        origin: sherd_core::register::ValueOrigin::default(),
    };
    let accepted = set.routes[4].peer.accept(lost.id(), &target, &accept, None).await;
    let accepted = accepted.expect("answered").result;
    assert!(matches!(accepted, Err(Refusal::Below { .. })), "the one that it copied: {accepted:?}");
    node.registers().read(&register).await.expect("four of five are there").expect("a row");
    let rows = rows_of(&node.workers.deps, &register).await;
    let above = rows.held.iter().filter(|(_, ballot, _)| *ballot > late).count();
    assert!(above >= 3, "it is written anew, above what excluded it, before it is shown: {rows:?}");
    node.close().await;
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
    // No volume with rows is left.
    node.volumes.all()[3].vouch().await.expect("it serves");
    let stalled = node.workers.follower.recovery.recover(&vacant).await;
    assert_eq!(stalled, Err(RecoveryStall::Voters { voters: 1, needed: 2 }));
    assert!(matches!(vacant.state(), VolumeState::Vacant { .. }));
    assert!(std::fs::read_dir(vacant.path()).expect("readable").next().is_none(), "nothing was written");
    node.close().await;
}

/// Waits for as long as the follower of the volumes takes for a number of looks.
async fn looked(node: &Node, times: usize) {
    let mut ticks = tokio::time::interval(node.workers.deps.settings.recover_every);
    for _ in 0..times {
        ticks.tick().await;
    }
}

fn is_empty(volume: &LocalVolume) -> bool {
    std::fs::read_dir(volume.path()).expect("readable").next().is_none()
}

/// The shapes of sets that a node of its own has: with as many volumes lost as parity shards the others
/// rebuild them, and with one more nothing is written, also where more vote than a barrier asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_directories_are_filled_by_time_only_from_enough_data() {
    for (volumes, parity) in [(4, 2), (4, 1), (8, 3), (8, 4)] {
        let directories = Directories::new(volumes).with_parity(parity).without_syncs().vouching();
        let mut node = directories.start().await;
        node.create_bucket().await;
        node.put("before", &body(1, 300_000)).await;
        let lost: Vec<_> = node.volumes.all()[..=parity].iter().map(Arc::clone).collect();
        for volume in &lost {
            std::fs::rename(volume.path(), volume.path().with_extension("away")).expect("moved away");
            std::fs::create_dir(volume.path()).expect("an empty mount point");
        }
        for volume in &lost {
            node.wait_for(volume.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
        }
        let upkeep = Upkeep::over(Arc::clone(&node.workers));
        upkeep.run_all(node.reports.take().expect("taken once"));
        let left = volumes - parity - 1;
        let words = format!("{left} other volumes of its set hold their data, where {} are", left + 1);
        let waits =
            |state: &VolumeState| matches!(state, VolumeState::Vacant { reason } if reason.contains(&words));
        for volume in &lost {
            node.wait_for(volume.id(), waits).await;
        }
        looked(&node, 5).await;
        assert!(lost.iter().all(|volume| is_empty(volume)), "{volumes} volumes, parity {parity}");
        let stuck: Vec<String> = upkeep.stuck_sets().iter().map(ToString::to_string).collect();
        assert!(stuck.len() == 1 && stuck[0].contains("Bring a lost volume back as it was"), "{stuck:?}");

        // One comes back as it was, and the wait ends by itself.
        let back = &lost[0];
        std::fs::remove_dir(back.path()).expect("nothing was made in it");
        std::fs::rename(back.path().with_extension("away"), back.path()).expect("moved back");
        for volume in &lost {
            node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
        }
        let life = |volume: &LocalVolume| volume.serving().expect("online").reader.answerer().life.0;
        assert_eq!(life(back), 1, "it has what it had");
        assert!(lost[1..].iter().all(|volume| life(volume) >= 2), "rebuilt");
        upkeep.stop().await;
        assert_eq!(upkeep.stuck_sets(), []);
        assert_eq!(node.get("before").await, Some(body(1, 300_000)));
        node.close().await;
    }
}

/// A node that died while its volume waited for confirmation may come back with nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_directories_are_not_filled_on_the_last_report_of_a_dead_node() {
    let directories = Directories::new(8).with_parity(3).without_syncs();
    let node = directories.start().await;
    node.create_bucket().await;
    let dead = node.volumes.all()[7].id();
    node.take_away(dead).await;
    let lost: Vec<_> = node.volumes.all()[..3].iter().map(Arc::clone).collect();
    for volume in &lost {
        std::fs::rename(volume.path(), volume.path().with_extension("away")).expect("moved away");
        std::fs::create_dir(volume.path()).expect("an empty mount point");
        node.wait_for(volume.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
    }
    let other = node.another_node(0..7);
    let remote = other.workers.deps.cluster.remote();
    let report = VolumeReport {
        condition: Some(VolumeCondition::Opening),
        standing: VolumeStanding::Unconfirmed,
        is_open: true,
        ..VolumeReport::of(dead)
    };
    remote.replace(NodeId([9; 16]), &[report]);
    remote.node_is_down(NodeId([9; 16]), "n9 is down");
    let upkeep = follow(&other.workers);
    let waits = |state: &VolumeState| matches!(state, VolumeState::Vacant { reason } if reason.contains("4 other volumes of its set hold their data"));
    for volume in &lost {
        node.wait_for(volume.id(), waits).await;
    }
    looked(&node, 5).await;
    assert!(lost.iter().all(|volume| is_empty(volume)));
    let stuck: Vec<String> = upkeep.stuck_sets().iter().map(ToString::to_string).collect();
    assert!(stuck.len() == 1 && stuck[0].contains("4 are there with their data, where 5 are"), "{stuck:?}");
    upkeep.stop().await;
    drop(other);
    node.close().await;
}

/// The volume that the order was for votes, and holds nothing: the others are not filled from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_fills_an_empty_directory_that_too_few_others_can_fill() {
    let directories = Directories::new(8).with_parity(3).without_syncs();
    let mut node = directories.start().await;
    node.create_bucket().await;
    let objects = [("packed", 100_000), ("file", 2_500_000)];
    for (seed, (name, length)) in (1..).zip(objects) {
        node.put_everywhere(name, &body(seed, length)).await;
        node.complete(&node.register(name).await, &node.data(name).await).await;
    }
    let lost: Vec<_> = node.volumes.all()[..4].iter().map(Arc::clone).collect();
    for volume in &lost {
        std::fs::rename(volume.path(), volume.path().with_extension("away")).expect("moved away");
        std::fs::create_dir(volume.path()).expect("an empty mount point");
        node.wait_for(volume.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
    }
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    upkeep.run_all(node.reports.take().expect("taken once"));
    upkeep.adopt_now(lost[0].id(), lost[0].opened_count());
    node.wait_for(lost[0].id(), |state| *state == VolumeState::Online).await;
    let is_listed = || node.workers.recoveries.wants_shards(lost[0].id());
    // The wait for the disks is over at once for those that are left.
    let known = async {
        loop {
            let opening = lost[0].opened_count();
            let since = node.workers.follower.comparison_point(opening);
            if node.workers.recoveries.is_known(lost[0].id(), since) {
                return;
            }
            super::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, known).await.expect("it is compared with the others");
    looked(&node, 5).await;
    assert!(is_listed(), "its shards could not be rebuilt");
    assert!(lost[1..].iter().all(|volume| is_empty(volume)), "five vote, and four hold their data");
    let stuck = upkeep.stuck_sets();
    assert_eq!(stuck.len(), 1, "{stuck:?}");

    let back = &lost[1];
    std::fs::remove_dir(back.path()).expect("nothing was made in it");
    std::fs::rename(back.path().with_extension("away"), back.path()).expect("moved back");
    for volume in &lost {
        node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    }
    let rebuilt = async {
        while lost.iter().any(|volume| node.workers.recoveries.wants_shards(volume.id())) {
            super::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, rebuilt).await.expect("nothing is missing any more");
    for (seed, (name, length)) in (1..).zip(objects) {
        assert_eq!(node.get(name).await, Some(body(seed, length)), "{name}");
    }
    assert_eq!(upkeep.stuck_sets(), []);
    upkeep.stop().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wait_for_a_disk_begins_again_with_enough_others() {
    let directories = Directories::new(4).with_patience_for_disks(Duration::from_hours(1)).vouching();
    let node = directories.start().await;
    let lost: Vec<_> = node.volumes.all()[..3].iter().map(Arc::clone).collect();
    for volume in &lost {
        std::fs::rename(volume.path(), volume.path().with_extension("away")).expect("moved away");
        std::fs::create_dir(volume.path()).expect("an empty mount point");
        node.wait_for(volume.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
    }
    let upkeep = follow(&node.workers);
    let says = |words: &'static str| move |state: &VolumeState| matches!(state, VolumeState::Vacant { reason } if reason.contains(words));
    node.wait_for(lost[1].id(), says("1 other volumes of its set hold their data")).await;
    std::fs::remove_dir(lost[0].path()).expect("nothing was made in it");
    std::fs::rename(lost[0].path().with_extension("away"), lost[0].path()).expect("moved back");
    node.wait_for(lost[1].id(), says("it is rebuilt there 1h after")).await;
    assert!(is_empty(&lost[1]) && is_empty(&lost[2]));
    upkeep.stop().await;
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
    volume.adopt(sherd_core::id::Life(2)).await.expect("adopted");
    node.wait_for(volume.id(), |state| *state == VolumeState::Recovering).await;
    node.close().await;

    let node = directories.start().await;
    let volume = Arc::clone(&node.volumes.all()[3]);
    assert_eq!(volume.state(), VolumeState::Recovering);
    let upkeep = follow(&node.workers);
    node.wait_for(volume.id(), |state| *state == VolumeState::Online).await;
    upkeep.stop().await;
    assert!(volume.serving().expect("online").reader.answerer().life.0 > 2, "a life of its own");
    let register = node.register("a").await;
    assert!(rows_of(&node.workers.deps, &register).await.are_same());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_work_heals_and_recovers_by_itself() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    node.put("large", &body(1, 2_000_000)).await;
    let (register, data) = (node.register("large").await, node.data("large").await);
    let reports = node.reports.take().expect("taken once");
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    upkeep.run_all(reports);
    let wiped = Arc::clone(&node.volumes.all()[1]);
    // A file that background work makes while its directory is being emptied makes that fail.
    while wiped.path().exists() {
        drop(std::fs::remove_dir_all(wiped.path()));
    }
    node.wait_for(wiped.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    std::fs::create_dir(wiped.path()).expect("an empty directory");
    node.wait_for(wiped.id(), |state| *state == VolumeState::Online).await;
    // A reader finds a shard missing and reports it.
    let lost = (0..2).map(|index| node.file_on(&register, &data, index)).find(|path| path.exists());
    std::fs::remove_file(lost.expect("a data shard has a file")).expect("removed");
    assert_eq!(node.get("large").await, Some(body(1, 2_000_000)));
    let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
    let whole = async {
        while subject.look(false).await.intact.len() < 4 {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, whole).await.expect("healed in time");
    upkeep.pause(true);
    assert!(upkeep.status().is_paused);
    upkeep.pause(false);
    upkeep.stop().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heal_takes_nobodys_word_of_a_life_that_is_over() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 1_000)).await;
    let register = node.register("a").await;
    let former = node.volumes.all()[0].id();
    node.on_all_volumes(&register).await;
    node.outlive(former).await;
    let rows = rows_of(&node.workers.deps, &register).await;
    assert_eq!((rows.held.len(), rows.silent), (3, vec![former]));
    node.close().await;
}
