//! Seals cross the seam page by page: into a volume that is rebuilt before it stores anything, and into one
//! that was away. How far peers are is asked of all of them at one time.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;

use sherd_core::id::{BucketId, ChangeId, Life, ProposerId, Timestamp};
use sherd_core::limits::SEALS_PAGE_MAX;
use sherd_core::message::{Answer, Control, Error};
use sherd_core::register::recover::Guarantees;

use super::{Directories, Node};
use crate::peer::UpkeepPeer as _;
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::final_seals::is_sealed_for_ever_on;
use crate::upkeep::final_seals::take_final_seal;
use crate::upkeep::final_seals::take_final_seals;
use crate::upkeep::recover::catch_up::peer_positions;
use crate::upkeep::recover::stall::RecoveryStall;
use crate::volumes::{LocalVolume, VolumeState};

/// Number of seals on the volumes: one page of deleted buckets, and three.
const BUCKETS: usize = SEALS_PAGE_MAX + 3;

fn bucket(number: usize) -> BucketId {
    BucketId((number as u128 + 1).to_be_bytes())
}

/// Seals buckets for ever on the volumes but the first.
async fn seal_many(node: &Node) {
    let routes = node.workers.deps.cluster.sets().iter().flat_map(|set| &set.routes);
    let first = node.volumes.all()[0].id();
    for route in routes.filter(|route| route.volume != first) {
        for numbers in (0..BUCKETS).collect::<Vec<_>>().chunks(1_000) {
            let control = |number| Control::SealForEver { bucket: bucket(number) };
            let answers = numbers.iter().map(|number| route.peer.control(route.volume, control(*number)));
            assert!(join_all(answers).await.into_iter().all(|answer| answer.is_ok()));
        }
    }
}

async fn wiped(node: &Node) -> Arc<LocalVolume> {
    let volume = Arc::clone(&node.volumes.all()[0]);
    std::fs::remove_dir_all(volume.path()).expect("wiped");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    std::fs::create_dir(volume.path()).expect("an empty directory");
    node.wait_for(volume.id(), |state| matches!(state, VolumeState::Vacant { .. })).await;
    volume
}

fn sealed(volume: &LocalVolume) -> BTreeSet<BucketId> {
    volume.serving().map_or_else(
        |_| BTreeSet::new(),
        |serving| serving.reader.all_seals().map(|(bucket, _)| bucket).collect(),
    )
}

/// Requests of a recovery, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Record,
    Seals,
    Take,
    RaiseFloor,
    Finish,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuilt_volume_has_the_seals_of_its_voters_before_it_stores_anything() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    seal_many(&node).await;
    let deletion = ChangeId { made: Timestamp::from_ms(1), proposer: ProposerId(7) };
    let under_way = BucketId([0xee; 16]);
    let epoch = node.workers.deps.cluster.epoch();
    super::sweeps::tell(&node, 1..4, &Control::Seal { bucket: under_way, deletion, epoch }).await;
    let volume = wiped(&node).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (controls, pages, rebuilt) = (Arc::clone(&asked), Arc::clone(&asked), Arc::clone(&volume));
    says(&script.controls, move |_, control| {
        controls.lock().push(match control {
            Control::RecordLife { .. } => Asked::Record,
            Control::TakeGuarantees { .. } => {
                assert_eq!(sealed(&rebuilt), BTreeSet::new());
                Asked::Take
            }
            Control::RaiseFloor { .. } => {
                assert_eq!(sealed(&rebuilt).len(), BUCKETS + 1, "it stores rows from here on");
                Asked::RaiseFloor
            }
            _ => Asked::Finish,
        });
        Fate::Through
    });
    says(&script.seals, move |_, _| {
        pages.lock().push(Asked::Seals);
        Fate::Through
    });
    gateway.workers.follower.recovery.recover(&volume).await.expect("recovered");
    let asked = std::mem::take(&mut *asked.lock());
    assert!(asked.is_sorted(), "{asked:?}");
    let pages = asked.iter().filter(|asked| **asked == Asked::Seals).count();
    assert_eq!(pages, 2 * 3, "of each of P = 2 voters a full page, the rest, and an empty one: {asked:?}");
    let serving = volume.serving().expect("it serves");
    assert!(serving.reader.answerer().votes);
    assert_eq!(serving.reader.held_seals(), [(under_way, vec![deletion])]);
    assert!((0..BUCKETS).all(|number| is_sealed_for_ever_on(
        &gateway.workers.deps,
        volume.id(),
        bucket(number)
    )));
    drop(serving);
    gateway.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_takes_nothing_over_while_the_seals_of_a_voter_cannot_be_read_to_the_end() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    super::sweeps::tell(&node, 1..4, &Control::SealForEver { bucket: bucket(1) }).await;
    let volume = wiped(&node).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let from = script.position(node.volumes.all()[1].id()).await.expect("it serves");
    let mut another_life = from.clone();
    another_life.life = Life(from.life.0 + 1);
    let mut recovering = from;
    recovering.votes = false;
    let empty = |from| Ok(Answer { from, result: Ok(Vec::new()) });
    let away = Err(Error::Unreachable { reason: "away".to_owned() });
    for heard in [away, empty(another_life), empty(recovering)] {
        says(&script.controls, |_, control| {
            assert!(!matches!(control, Control::TakeGuarantees { .. } | Control::RaiseFloor { .. }));
            Fate::<Answer<Guarantees>>::Through
        });
        // The second page of each.
        says(
            &script.seals,
            move |_, after| {
                if after.is_some() { Fate::Instead(heard.clone()) } else { Fate::Through }
            },
        );
        let stalled = gateway.workers.follower.recovery.recover(&volume).await;
        assert!(matches!(stalled, Err(RecoveryStall::Scan { .. })), "{stalled:?}");
        assert_eq!(sealed(&volume), BTreeSet::new());
    }
    says(&script.controls, |_, _| Fate::Through);
    says(&script.seals, |_, _| Fate::Through);
    gateway.workers.follower.recovery.recover(&volume).await.expect("recovered");
    assert_eq!(sealed(&volume), BTreeSet::from([bucket(1)]));
    gateway.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_was_away_takes_the_final_seals_of_all_pages() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    seal_many(&node).await;
    let volume = &node.volumes.all()[0];
    assert_eq!(sealed(volume), BTreeSet::new());
    take_final_seal(&node.workers.deps, volume.id(), bucket(5)).await;
    assert_eq!(sealed(volume), BTreeSet::from([bucket(5)]), "one alone");
    take_final_seals(&node.workers.deps, volume.id()).await;
    assert_eq!(sealed(volume).len(), BUCKETS);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_far_its_peers_are_is_asked_of_all_at_one_time() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let [own, hung] = [0, 1].map(|at| node.volumes.all()[at].id());
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    says(&script.positions, move |volume, ()| {
        *count.lock() += 1;
        if volume == hung { Fate::Silence } else { Fate::Through }
    });
    let mut positions = Box::pin(peer_positions(&gateway.workers.deps, own));
    assert!(futures::poll!(positions.as_mut()).is_pending(), "one says nothing");
    assert_eq!(*asked.lock(), 3, "and the others are asked all the same");
    assert_eq!(positions.await.len(), 2);
    gateway.close().await;
}
