//! Clocks that are wrong: of all, of one gateway, of one volume. Others pay nothing for them, and writes go
//! on when they are set back.

use std::sync::Arc;

use sherd_core::id::{Ballot, ProposerId, Timestamp};
use sherd_core::limits::FOLLOW_BOUND_MS_MAX;
use sherd_core::message::ValueLimit;
use sherd_core::register::Prepare;

use super::{Directories, Node, body};
use crate::upkeep::pages::ask;
use crate::upkeep::rows::rows_of;
use crate::upkeep::tests::DEADLINE;

const HOUR_MS: u64 = 3_600_000;

/// How far the ballot of an object's row is ahead of true time.
async fn ahead_ms(node: &Node, key: &str) -> u64 {
    let register = node.register(key).await;
    let found = node.workers.deps.registers.read(&register).await.expect("readable").expect("there");
    found.ballot.time.as_ms().saturating_sub(node.workers.deps.wall_ms())
}

/// A node with an object, and a volume that promised as if its clock, and that of a gateway, were so far
/// ahead: the others promise nothing meanwhile, and so do not write down what the clock said.
async fn with_promise_ahead(directories: &Directories, volume: usize, ahead_ms: u64) -> Node {
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 1_000)).await;
    node.close().await;
    let node = directories.start_ahead(ahead_ms).await;
    let register = node.register("a").await;
    let ballot = Ballot { time: Timestamp::from_ms(node.workers.deps.wall_ms()), proposer: ProposerId(9) };
    let set = node.workers.deps.cluster.set_of(&register);
    let route =
        set.routes.iter().find(|route| route.volume == node.volumes.all()[volume].id()).expect("in it");
    let target = node.workers.deps.cluster.target(register.clone());
    let promised = route.peer.prepare(route.volume, &target, Prepare { ballot }, ValueLimit::NOTHING);
    assert!(ask(promised, DEADLINE).await.expect("it answers").result.is_ok(), "its own clock allows it");
    node.clock.set(0);
    node
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_were_all_ahead_and_are_set_back_stop_no_write() {
    for hours in [1, 23] {
        for volumes in [1, 4] {
            let directories = Directories::new(volumes);
            let node = directories.start_ahead(hours * HOUR_MS).await;
            node.create_bucket().await;
            node.put("a", &body(1, 100_000)).await;

            node.clock.set(0);
            node.put("a", &body(2, 1_000)).await;
            node.put("b", &body(3, 100_000)).await;
            node.close().await;

            let node = directories.start().await;
            node.put("a", &body(4, 100_000)).await;
            node.put("c", &body(5, 1_000)).await;
            assert_eq!(node.get("a").await, Some(body(4, 100_000)));
            assert_eq!(node.get("b").await, Some(body(3, 100_000)));
            assert_eq!(node.get("c").await, Some(body(5, 1_000)));
            node.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_whose_clock_alone_is_ahead_costs_nobody_elses_writes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 1_000)).await;
    let ahead = node.another_gateway(24 * HOUR_MS);
    assert!(ahead.try_put("a", &body(2, 1_000)).await.is_err(), "its ballots are from tomorrow");
    assert!(ahead.try_put("b", &body(2, 1_000)).await.is_err());

    node.put("a", &body(3, 1_000)).await;
    node.put("b", &body(4, 1_000)).await;
    assert!(ahead_ms(&node, "a").await < FOLLOW_BOUND_MS_MAX);

    ahead.clock.set(0);
    ahead.put("a", &body(5, 1_000)).await;
    ahead.put("c", &body(6, 100_000)).await;
    assert_eq!(node.get("a").await, Some(body(5, 1_000)), "it needs no restart");
    assert!(ahead_ms(&node, "c").await < FOLLOW_BOUND_MS_MAX);
    drop(ahead);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_whose_clock_alone_was_ahead_costs_that_volume_only() {
    for hours in [1, 23, 1_000] {
        let directories = Directories::new(4);
        let node = with_promise_ahead(&directories, 0, hours * HOUR_MS).await;
        node.put("a", &body(2, 1_000)).await;
        assert!(ahead_ms(&node, "a").await < FOLLOW_BOUND_MS_MAX, "three others are enough");
        node.close().await;

        let node = directories.start().await;
        node.put("a", &body(3, 1_000)).await;
        node.put("b", &body(4, 100_000)).await;
        assert!(ahead_ms(&node, "a").await < FOLLOW_BOUND_MS_MAX, "after a restart, too");
        assert!(ahead_ms(&node, "b").await < FOLLOW_BOUND_MS_MAX);
        let skewed = node.volumes.all()[0].id();
        let register = node.register("b").await;
        assert!(!rows_of(&node.workers.deps, &register).await.are_same(), "it refused what the others took");
        // Rows that it missed are reported, like those of a volume that does not answer.
        let mut node = node;
        let mut reports = node.reports.take().expect("nobody took them");
        let reported = async {
            while let Some((_, report)) = reports.received.recv().await {
                if matches!(report, crate::cluster::damage::Report::Heal(entry) if entry.key == register) {
                    return;
                }
            }
        };
        let in_time = tokio::time::timeout(DEADLINE, reported).await;
        assert!(in_time.is_ok(), "volume {skewed} lacks a row");
        node.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_recovers_beside_a_volume_from_tomorrow_takes_writes() {
    let directories = Directories::new(4);
    with_promise_ahead(&directories, 0, 48 * HOUR_MS).await.close().await;
    let wiped = directories.paths()[3].clone();
    std::fs::remove_dir_all(&wiped).expect("wiped");
    std::fs::create_dir(&wiped).expect("an empty directory");

    let node = directories.start().await;
    let volume = Arc::clone(&node.volumes.all()[3]);
    node.workers.follower.recovery.recover(&volume).await.expect("two others are no day ahead");
    node.put("b", &body(2, 1_000)).await;
    assert!(ahead_ms(&node, "b").await < FOLLOW_BOUND_MS_MAX);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_born_above_a_data_floor_that_a_volume_showed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    // A node with a bad clock sweeps, and its own volumes believe it.
    let floor = Timestamp::from_ms(node.workers.deps.wall_ms() + HOUR_MS);
    node.clock.set(48 * HOUR_MS);
    let register = node.register("a").await;
    for route in &node.workers.deps.cluster.set_of(&register).routes {
        let raise = sherd_core::message::Control::RaiseDataFloor { floor };
        let raised = ask(route.peer.control(route.volume, raise), DEADLINE).await.expect("it answers");
        assert!(raised.result.is_ok());
    }
    node.clock.set(0);
    assert!(node.try_put("a", &body(2, 100_000)).await.is_err(), "born before");
    node.put("a", &body(3, 100_000)).await;
    assert_eq!(node.get("a").await, Some(body(3, 100_000)));
    node.close().await;
}
