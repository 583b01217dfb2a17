//! A row that a volume missed is brought to it although its writer is gone, and one that cannot be brought
//! holds up no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use sherd_core::heal::HealEntry;
use sherd_core::id::RegisterKey;
use sherd_core::message::{Error, UnsettledKind, ValueLimit};
use sherd_core::register::{CommitHint, Positions};

use super::{DEADLINE, Directories, Node, accept_on, body};
use crate::peer::VolumeRoute;
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::queue::entries::Spare;
use crate::upkeep::rows::bring::heal_row;
use crate::upkeep::rows::missed::MissedRows;
use crate::upkeep::rows::rows_of;
use crate::upkeep::rows::settle::RowsAhead;

/// More than the longest pause between two looks.
const LONG_US: u64 = 120_000_000;

async fn is_everywhere(node: &Node, register: &RegisterKey) -> bool {
    let rows = rows_of(&node.workers.deps, register).await;
    rows.are_same() && rows.held.len() == node.volumes.all().len()
}

/// The keys that a volume lists as missed.
async fn missed_on(volume: &VolumeRoute) -> Vec<RegisterKey> {
    let page = volume.peer.unsettled(volume.volume, UnsettledKind::Missed, None, 100).await;
    page.expect("it says").rows.into_iter().map(|row| row.key).collect()
}

/// Waits for a state of the volumes' lists, which change with the frames of other writes.
async fn until(node: &Node, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let so = async {
        while !is_so().await {
            node.put("other", &body(3, 1_000)).await;
        }
    };
    tokio::time::timeout(DEADLINE, so).await.unwrap_or_else(|_| panic!("{what}"));
}

/// The gateway's reports are lost with it, and with them the only other memory of what the volume missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_volume_missed_is_brought_to_it_although_its_gateway_is_gone() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, _) = node.scripted_gateway(RegisterTimeouts::default());
    node.create_bucket().await;
    node.put_everywhere("a", &body(1, 1_000)).await;
    let register = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    let (away, others) = (route[0].volume, &route[1..]);
    let path = node.local(away).path().to_owned();
    node.take_away(away).await;
    gateway.put("a", &body(2, 1_000)).await;
    drop(gateway);
    for volume in others {
        let lists = async || missed_on(volume).await.contains(&register);
        until(&node, "those that have it remember it", lists).await;
    }
    let look = async || {
        for volume in others {
            node.workers.missed.bring_missed_of(volume.volume, &mut MissedRows::default()).await;
        }
    };
    look().await;
    assert!(missed_on(&others[0]).await.contains(&register), "it cannot be brought yet");

    std::fs::rename(path.with_extension("away"), &path).expect("it is back");
    node.back_online(away).await;
    // After its opening it refuses ballots for a while.
    let brought = async || {
        look().await;
        is_everywhere(&node, &register).await
    };
    until(&node, "it is brought", brought).await;
    for volume in others {
        let is_forgotten = async || {
            look().await;
            !missed_on(volume).await.contains(&register)
        };
        until(&node, "no volume remembers it any more", is_forgotten).await;
    }
    assert_eq!(node.get("a").await, Some(body(2, 1_000)));
    node.close().await;
}

/// Rows that all volumes but the first of their set have, committed and listed as missed.
async fn missed_rows(node: &Node, names: &[&str]) -> (Vec<RegisterKey>, Arc<[VolumeRoute]>) {
    let mut registers = Vec::new();
    for name in names {
        registers.push(node.register(name).await);
    }
    let route: Arc<[VolumeRoute]> = node.workers.deps.cluster.set_of(&registers[0]).routes.clone().into();
    for register in &registers {
        let ballot = accept_on(node, register, &route[1..]).await;
        let target = node.workers.deps.cluster.target(register.clone());
        let commit = CommitHint { ballot, is_everywhere: false, positions: Positions::default() };
        for volume in &route[1..] {
            volume.peer.commit(volume.volume, &target, &commit);
        }
    }
    let counted = || node.local(route[1].volume).serving().expect("it serves").reader.status().missed_rows;
    let all_list = async || missed_on(&route[1]).await == registers && counted() >= registers.len() as u64;
    until(node, "they are listed", all_list).await;
    (registers, route)
}

/// A volume's clock may be behind for days: it answers, and takes no row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_takes_no_row_is_tried_with_one_key_a_look_and_each_key_has_its_turn() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (registers, route) = missed_rows(&node, &["a", "b", "c"]).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let (refusing, asked) = (route[0].volume, Arc::new(Mutex::new(Vec::new())));
    let asked_ballots = Arc::clone(&asked);
    says(&script.pulls, move |volume, row| {
        assert_eq!(volume, refusing, "the others have it");
        asked_ballots.lock().push(row.head.ballot);
        Fate::Instead(Err(Error::Busy))
    });
    says(&script.accepts, |_, _| panic!("nothing is written again for a volume that is busy"));
    let listing = route[1].volume;
    gateway.workers.settler.settle_volume(listing, &mut RowsAhead::default()).await;
    assert!(asked.lock().is_empty(), "what is committed holds up no row that is not");
    let mut missed = MissedRows::default();
    let mut asked_after = Vec::new();
    for _ in 0..3 {
        gateway.workers.missed.bring_missed_of(listing, &mut missed).await;
        // The next look is not due.
        gateway.workers.missed.bring_missed_of(listing, &mut missed).await;
        asked_after.push(asked.lock().len());
        gateway.clock.pass_us(LONG_US);
    }
    assert_eq!(asked_after, [1, 2, 3], "a look ends with the first row that is refused");
    for register in &registers {
        let (_, ballot, _) = rows_of(&node.workers.deps, register).await.held[0];
        assert!(asked.lock().contains(&ballot), "{register:?} was tried");
    }

    says(&script.pulls, |_, _| Fate::Through);
    let all_are_brought = async || {
        gateway.clock.pass_us(LONG_US);
        gateway.workers.missed.bring_missed_of(listing, &mut missed).await;
        for register in &registers {
            if !is_everywhere(&node, register).await {
                return false;
            }
        }
        true
    };
    until(&node, "each is brought", all_are_brought).await;
    until(&node, "no volume remembers them", async || missed_on(&route[1]).await.is_empty()).await;
    drop((gateway, script));
    node.close().await;
}

/// The volumes that have a row keep it at its ballot: none is behind again for the time of a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_volume_missed_is_pulled_at_its_own_ballot() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (registers, route) = missed_rows(&node, &["a", "b"]).await;
    let ballots = async || {
        let mut found = Vec::new();
        for register in &registers {
            found.extend(
                rows_of(&node.workers.deps, register).await.held.into_iter().map(|(_, held, _)| held),
            );
        }
        found
    };
    let before = ballots().await;
    assert_eq!(before.len(), 2 * 3);
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(&script.prepares, |_, _| panic!("no ballot is spent"));
    gateway.workers.missed.bring_missed_of(route[1].volume, &mut MissedRows::default()).await;
    for register in &registers {
        assert!(is_everywhere(&node, register).await, "{register:?}");
    }
    let after = ballots().await;
    assert!(after.len() == 2 * 4 && after.iter().all(|ballot| before.contains(ballot)), "{after:?}");
    drop((gateway, script));
    node.close().await;
}

/// A node of before does not know the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_volume_cannot_pull_is_written_again() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (registers, route) = missed_rows(&node, &["a"]).await;
    let (_, before, _) = rows_of(&node.workers.deps, &registers[0]).await.held[0];
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(&script.pulls, |_, _| {
        Fate::Instead(Err(Error::Unreachable { reason: "the call is not known".to_owned() }))
    });
    gateway.workers.missed.bring_missed_of(route[1].volume, &mut MissedRows::default()).await;
    let rows = rows_of(&node.workers.deps, &registers[0]).await;
    assert!(rows.are_same() && rows.held.len() == 4);
    assert!(rows.held.iter().all(|(_, ballot, _)| *ballot > before), "{rows:?}");
    drop((gateway, script));
    node.close().await;
}

/// A volume may be full for days; its missed rows are looked at without a write, and hold up no row of
/// another volume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_a_full_volume_lacks_hold_up_none_behind_them() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let route = node.workers.deps.cluster.set_of(&node.register("a").await).routes.clone();
    for (name, lacking) in [("a", 0), ("b", 0), ("c", 3)] {
        let lacking = route[lacking].volume;
        says(&script.accepts, move |volume, _| {
            let cut = || Fate::Instead(Err(Error::Unreachable { reason: "cut".to_owned() }));
            if volume == lacking { cut() } else { Fate::Through }
        });
        gateway.put(name, &body(1, 1_000)).await;
    }
    until(&node, "they are listed", async || missed_on(&route[1]).await.len() == 3).await;
    says(&script.accepts, |_, _| Fate::Through);
    script.full.lock().push(route[0].volume);
    gateway.workers.missed.bring_missed_of(route[1].volume, &mut MissedRows::default()).await;
    assert!(is_everywhere(&node, &node.register("c").await).await, "its volume has room");
    for name in ["a", "b"] {
        assert!(!is_everywhere(&node, &node.register(name).await).await, "{name} has no room");
    }
    drop((gateway, script));
    node.close().await;
}

/// Inline bytes that were changed on their way, or in the memory of the volume that read them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_not_those_of_a_row_are_not_pulled_with_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    let lacking = route[0].volume;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(&script.accepts, move |volume, _| {
        let cut = || Fate::Instead(Err(Error::Unreachable { reason: "cut".to_owned() }));
        if volume == lacking { cut() } else { Fate::Through }
    });
    gateway.put("a", &body(1, 1_000)).await;
    until(&node, "it is listed", async || missed_on(&route[1]).await.len() == 1).await;
    says(&script.accepts, |_, _| Fate::Through);
    says(&script.inlines, |_, _| Fate::Instead(Ok(bytes::Bytes::from(vec![7; 1_000]))));
    let pull_count = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pull_count);
    says(&script.pulls, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Fate::Through
    });
    heal_row(&gateway.workers.deps, &register).await;
    assert_eq!(pull_count.load(Ordering::Relaxed), 0);
    assert!(!is_everywhere(&node, &register).await, "other bytes are written nowhere");
    says(&script.inlines, |_, _| Fate::Through);
    heal_row(&gateway.workers.deps, &register).await;
    assert!(is_everywhere(&node, &register).await);
    drop((gateway, script));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotten_row_is_written_again_beside_a_full_volume_that_lacks_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (registers, route) = missed_rows(&node, &["a"]).await;
    let rows = rows_of(&node.workers.deps, &registers[0]).await;
    let (_, before, _) = rows.held[0];
    let (full, rotten) = (rows.without[0], rows.held[2].0);
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(
        &script.pulls,
        move |volume, _| {
            if volume == full { Fate::Instead(Err(Error::Full)) } else { Fate::Through }
        },
    );
    says(&script.reads, move |volume, values| {
        let corrupt = || Fate::Instead(Err(Error::Corrupt { what: "a row".to_owned() }));
        if volume == rotten && values != ValueLimit::NOTHING { corrupt() } else { Fate::Through }
    });
    script.full.lock().push(full);
    heal_row(&gateway.workers.deps, &registers[0]).await;
    let rows = rows_of(&node.workers.deps, &registers[0]).await;
    let healed = rows.held.iter().find(|(volume, ..)| *volume == rotten);
    assert!(healed.is_some_and(|(_, ballot, _)| *ballot > before), "{rows:?}");
    drop((gateway, script, route));
    node.close().await;
}

/// An idle cluster with a full volume is idle: neither the queue nor the lists try what only waits for room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_a_full_volume_lacks_are_tried_once_until_it_has_room() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let route = node.workers.deps.cluster.set_of(&node.register("a").await).routes.clone();
    let (full, listing) = (route[0].volume, route[1].volume);
    says(&script.accepts, move |volume, _| {
        let cut = || Fate::Instead(Err(Error::Unreachable { reason: "cut".to_owned() }));
        if volume == full { cut() } else { Fate::Through }
    });
    let mut registers = Vec::new();
    for name in ["a", "b", "c"] {
        gateway.put(name, &body(1, 1_000)).await;
        registers.push(node.register(name).await);
    }
    until(&node, "they are listed", async || missed_on(&route[1]).await.len() == 3).await;
    says(&script.accepts, |_, _| Fate::Through);
    script.full.lock().push(full);
    let read_count = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&read_count);
    says(&script.reads, move |volume, _| {
        count.fetch_add(usize::from(volume == full), Ordering::Relaxed);
        Fate::Through
    });
    let mrf = &gateway.workers.queue.mrf;
    for register in &registers {
        let entry = HealEntry { key: register.clone(), data: None, since_ms: 1 };
        mrf.add(entry, Spare(1), tokio::time::Instant::now());
    }
    let mut missed = MissedRows::default();
    let mut hours = async |hours: u64| {
        for _ in 0..hours * 30 {
            gateway.workers.missed.bring_missed_of(listing, &mut missed).await;
            while let Some(entry) = mrf.take(gateway.workers.deps.now_ms()) {
                gateway.workers.healer.heal_queued(&entry).await;
            }
            mrf.wake_for_room(|volume| script.full.lock().contains(volume));
            gateway.clock.pass_us(LONG_US);
        }
        (mrf.status().failed_count, read_count.swap(0, Ordering::Relaxed))
    };
    let (failed, reads) = hours(1).await;
    assert!(failed == 3 && reads > 0, "each is tried: {failed}, {reads}");
    let (failed, reads) = hours(10).await;
    assert_eq!(failed, 3, "none is tried again");
    assert!(reads <= 10 * 2 * registers.len(), "the list is walked once an hour: {reads}");

    script.full.lock().clear();
    hours(1).await;
    for register in &registers {
        assert!(is_everywhere(&node, register).await, "{register:?}");
    }
    drop((gateway, script));
    node.close().await;
}
