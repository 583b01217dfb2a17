//! A volume that was cut off, and not opened again, finds by its own looks what it missed.

use std::sync::Arc;

use parking_lot::Mutex;

use sherd_core::id::{Ballot, Life, RegisterKey, Sequence};
use sherd_core::message::{Answer, Error, LookPage, LookScan};
use sherd_core::register::heal::look::PeerCursor;
use sherd_core::register::{CommitHint, Positions};
use sherd_volume::read::look;

use super::{DEADLINE, Directories, Node, accept_on, between_looks, body, key_of};
use crate::peer::VolumeRoute;
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::rows::look::VolumeLooks;
use crate::upkeep::rows::rows_of;

/// A row that these volumes accepted, and have noted as committed.
async fn row_on(node: &Node, name: &str, route: &[VolumeRoute]) -> RegisterKey {
    let register = node.register(name).await;
    let ballot = accept_on(node, &register, route).await;
    tell(node, &register, route, ballot).await;
    register
}

/// Says to volumes that a row is committed, and not everywhere; waits until they say so.
async fn tell(node: &Node, key: &RegisterKey, route: &[VolumeRoute], ballot: Ballot) {
    let target = node.workers.deps.cluster.target(key.clone());
    let commit = CommitHint { ballot, is_everywhere: false, positions: Positions::default() };
    for one in route {
        one.peer.commit(one.volume, &target, &commit);
    }
    let told = async {
        loop {
            let rows = rows_of(&node.workers.deps, key).await;
            let knows = |one: &VolumeRoute| rows.held.contains(&(one.volume, ballot, true));
            if route.iter().all(knows) {
                return;
            }
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, told).await.expect("they take the hint");
}

/// The set of a new bucket's keys; each of its volumes has noted the bucket as committed.
async fn route_of(node: &Node) -> Arc<[VolumeRoute]> {
    node.create_bucket().await;
    node.commit_everywhere(&RegisterKey::bucket(key_of("bucket"))).await;
    let register = node.register("a").await;
    node.workers.deps.cluster.set_of(&register).routes.clone().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_pulls_by_its_look_what_it_missed_without_a_report_of_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let route = route_of(&node).await;
    let (cut_off, others) = (route[0].volume, &route[1..]);
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(&script.prepares, |_, _| panic!("no ballot is spent"));
    let scans: Arc<Mutex<Vec<LookScan>>> = Arc::default();
    let seen = Arc::clone(&scans);
    says(&script.looks, move |_, scan: LookScan| {
        seen.lock().push(scan);
        Fate::<Answer<LookPage>>::Through
    });
    let looker = &gateway.workers.looker;
    let mut looks = VolumeLooks::default();
    let first = row_on(&node, "a", others).await;
    looker.look_of(cut_off, &mut looks).await;
    let rows = rows_of(&node.workers.deps, &first).await;
    assert!(rows.are_equal() && rows.held.len() == 4, "{rows:?}");
    assert_eq!(looker.status().pulled_count, 1, "from one of the three");
    assert_eq!(scans.lock().iter().filter(|scan| scan.cursor.is_none()).count(), 3, "nothing is noted yet");

    // From here on the peers' lists say enough.
    scans.lock().clear();
    let second = row_on(&node, "b", others).await;
    let before = looker.status();
    looker.look_of(cut_off, &mut looks).await;
    assert!(rows_of(&node.workers.deps, &second).await.are_equal());
    assert_eq!(looker.status().pulled_count, before.pulled_count + 1);
    assert_eq!(looker.status().rows_count, before.rows_count + 3, "one row of each peer");
    for peer in others {
        let durable = node.local(peer.volume).serving().expect("it serves").reader.answerer().durable;
        let cursor = looks.cursor(peer.volume).expect("it looked");
        assert!(cursor.sequence > Sequence(0) && cursor.sequence <= durable);
    }
    assert!(scans.lock().iter().all(|scan| scan.cursor.is_some()));
    drop((gateway, script));
    node.close().await;
}

/// The shard follows the row: the pull logs a want of what it names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_wants_the_shard_of_a_row_that_its_look_found() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let route = route_of(&node).await;
    let cut_off = route[0].volume;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let lost = || Error::Unreachable { reason: "cut off".to_owned() };
    says(
        &script.shard_puts,
        move |volume, _| {
            if volume == cut_off { Fate::Instead(Err(lost())) } else { Fate::Through }
        },
    );
    says(
        &script.accepts,
        move |volume, _| {
            if volume == cut_off { Fate::Instead(Err(lost())) } else { Fate::Through }
        },
    );
    gateway.put("a", &body(3, 100_000)).await;
    drop((gateway, script));
    let register = node.register("a").await;
    let looked = async {
        // The hint that it is committed may still be on its way.
        let mut looks = VolumeLooks::default();
        loop {
            node.workers.looker.look_of(cut_off, &mut looks).await;
            let rows = rows_of(&node.workers.deps, &register).await;
            if rows.are_same() && rows.held.len() == 4 {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, looked).await.expect("it gets the row");
    node.commit_everywhere(&register).await;
    let data = node.data("a").await;
    assert!(!node.wants_of(cut_off).await.is_empty());
    let gone = async {
        while !node.wants_of(cut_off).await.is_empty() {
            node.pass_over(cut_off).await;
            between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("its wants end");
    node.complete(&register, &data).await;
    assert_eq!(node.get("a").await, Some(body(3, 100_000)));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_the_volume_does_not_know_committed_is_not_passed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let route = route_of(&node).await;
    let (own, peer) = (&route[0], &route[1]);
    let looker = &node.workers.looker;
    let mut walk_due_ms = 0;
    let through = looker.look_at(own, peer, None, Some(&mut walk_due_ms)).await.expect("it shows");
    assert!(through.is_through(), "{through:?}");
    assert!(walk_due_ms > node.workers.deps.now_ms(), "it was a walk");
    assert!(looker.look_at(own, peer, None, None).await.is_none(), "a walk is not made in passing");
    let cursor = Some(through.cursor());

    let register = node.register("a").await;
    let ballot = accept_on(&node, &register, &route).await;
    let equal = looker.look_at(own, peer, cursor, None).await.expect("it shows");
    assert!(!equal.is_through(), "the same ballot on both may lose");
    assert!(equal.cursor().sequence >= through.cursor().sequence);
    tell(&node, &register, &route[..1], ballot).await;
    let passed = looker.look_at(own, peer, cursor, None).await.expect("it shows");
    assert!(passed.is_through(), "{passed:?}");
    assert!(passed.cursor().sequence > equal.cursor().sequence);

    // A higher row of its own, which may cover the one that is.
    let covered = row_on(&node, "b", &route[1..]).await;
    accept_on(&node, &covered, &route[..1]).await;
    let higher = looker.look_at(own, peer, Some(passed.cursor()), None).await.expect("it shows");
    assert!(!higher.is_through());
    // Rows that are not passed are brought in the end.
    let mut looks = VolumeLooks::default();
    looker.look_of(own.volume, &mut looks).await;
    node.commit_everywhere(&covered).await;
    looker.look_of(own.volume, &mut looks).await;
    let rows = rows_of(&node.workers.deps, &covered).await;
    assert!(rows.are_same() && rows.held.len() == 4, "{rows:?}");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_over_two_lives_or_a_list_that_lost_rows_is_void() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let route = route_of(&node).await;
    let (own, peer) = (&route[0], &route[1]);
    let register = row_on(&node, "a", &route[1..]).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let looker = &gateway.workers.looker;
    let serving = node.local(peer.volume).serving().expect("it serves");
    let Life(life) = serving.reader.answerer().life;
    let of_this_life = PeerCursor { life: Life(life), sequence: look::horizon(&serving.reader) };
    let scripted = gateway.workers.deps.cluster.set_of(&register).routes[1].clone();
    assert_eq!(scripted.volume, peer.volume);
    for (cursor, may_walk, change) in [
        (Some(of_this_life), false, Change::Nothing),
        (None, true, Change::Nothing),
        (None, false, Change::Nothing),
        (Some(of_this_life), true, Change::Horizon),
        (Some(of_this_life), true, Change::Votes),
        // The last one: from here on the life of before is over.
        (Some(of_this_life), true, Change::Life),
    ] {
        let reader = Arc::clone(&serving.reader);
        let mut page = 0;
        says(&script.looks, move |_, scan: LookScan| {
            page += 1;
            let mut from = reader.answerer();
            let mut shown = look::rows_behind(&reader, &LookScan { limit: 1, ..scan }).expect("it shows");
            if page == 1 {
                shown.next = shown.rows.first().map(|row| row.key.clone());
            } else {
                match change {
                    Change::Votes => from.votes = false,
                    Change::Life => from.life = Life(from.life.0 + 1),
                    Change::Horizon => shown.horizon = Sequence(u64::MAX),
                    Change::Nothing => {}
                }
            }
            Fate::Instead(Ok(Answer { from, result: Ok(shown) }))
        });
        let mut walk_due_ms = 0;
        let look = looker.look_at(own, &scripted, cursor, may_walk.then_some(&mut walk_due_ms)).await;
        let is_whole = matches!(change, Change::Nothing) && (cursor.is_some() || may_walk);
        assert_eq!(look.is_some(), is_whole, "{change:?} {cursor:?} {may_walk}: {look:?}");
    }
    // A node of before does not know the call.
    says(&script.looks, |_, _| Fate::Instead(Err(Error::Unreachable { reason: "unknown".to_owned() })));
    assert!(looker.look_at(own, &scripted, None, Some(&mut 0)).await.is_none());
    drop((gateway, script));
    node.close().await;
}

/// The change between the first page of a peer and its others.
#[derive(Debug, Clone, Copy)]
enum Change {
    Nothing,
    Horizon,
    Votes,
    Life,
}
