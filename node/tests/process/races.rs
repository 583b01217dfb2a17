//! Many clients on one key: conditional writes have one winner, and every answer fits one order.
//!
//! `If-None-Match: *` and `If-Match` are compare-and-set. PUT, GET, HEAD, LIST, DELETE and both
//! conditions on a few keys are recorded and judged per key (I-5, I-7, I-13), also while the node is
//! killed and started again (I-3).

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::harness::data::{Body, Dice, Home};
use crate::harness::empty;
use crate::harness::s3::{Condition, Failure, Outcome, S3};
use crate::load::{Expected, Load, Plan, Step};

/// Clients that race.
const RACERS: usize = 8;
/// Races.
const ROUNDS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_creates_a_key() {
    let mut dice = Dice::of_this_run("create");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    for round in 0..ROUNDS {
        let key = format!("create/{round}");
        let winner = race(&s3, &mut dice, &key, &Condition::IfAbsent).await;
        assert_eq!(s3.get_settled(&key).await, Some(winner), "the winner's body is there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_replaces_what_all_have_seen() {
    let mut dice = Dice::of_this_run("replace");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let mut current = dice.body(Home::Inline);
    s3.put_settled("replace", current).await;
    for _ in 0..ROUNDS {
        current = race(&s3, &mut dice, "replace", &Condition::IfMatch(current.etag())).await;
        assert_eq!(s3.get_settled("replace").await, Some(current), "the winner's body is there");
    }
}

/// The last writer wins, and the others happened just before it: none is refused, and none is in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_writer_of_a_hot_key_is_refused() {
    let mut dice = Dice::of_this_run("hot");
    let load = Load::new("hot/");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    for writers in [2, 4, 8, 16, 32] {
        let keys = vec![load.key(writers)];
        let steps = vec![Step::Put(Home::Inline), Step::Put(Home::Inline), Step::Put(Home::Packed)];
        let plan = Plan { keys: keys.clone(), steps, expected: Expected::Done };
        let clients = load.start(&s3, &mut dice, writers, &plan);
        load.answers(8 * writers).await;
        load.stop(clients).await;
        load.read_all(&s3, &keys).await;
    }
    load.recorder.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_fits_one_order_per_key() {
    let mut dice = Dice::of_this_run("order");
    let load = Load::new("order/");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let keys: Vec<_> = (0..3).map(|key| load.key(key)).collect();
    let plan = Plan { keys: keys.clone(), steps: steps(), expected: Expected::Answered };
    let clients = load.start(&s3, &mut dice, RACERS, &plan);
    load.answers(1500).await;
    load.stop(clients).await;
    load.read_all(&s3, &keys).await;
    load.recorder.check();
    eprintln!("races: {} operations on {} keys", load.recorder.len(), keys.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_fits_one_order_across_kills() {
    let mut dice = Dice::of_this_run("order across kills");
    let load = Load::new("kills/");
    let mut node = empty().start().await;
    node.with_bucket().await;
    let keys: Vec<_> = (0..4).map(|key| load.key(key)).collect();
    let plan = Plan { keys: keys.clone(), steps: steps(), expected: Expected::Answered };
    for _ in 0..5 {
        let clients = load.start(&node.s3(), &mut dice, RACERS, &plan);
        load.answers(60 + dice.below(100)).await;
        let stopped = node.kill().await;
        load.stop(clients).await;
        node = stopped.start().await;
        node.until_ready().await;
    }
    load.read_all(&node.s3(), &keys).await;
    load.recorder.check();
    eprintln!("races: {} operations on {} keys over 5 kills", load.recorder.len(), keys.len());
}

/// Has all clients write to a key at once on the same condition, and returns the body of the winner.
async fn race(s3: &S3, dice: &mut Dice, key: &str, condition: &Condition) -> Body {
    let start = Arc::new(Barrier::new(RACERS));
    let mut racers = JoinSet::new();
    for _ in 0..RACERS {
        let home = if dice.below(4) == 0 { Home::Packed } else { Home::Inline };
        let body = dice.body(home);
        let (s3, start, key, condition) = (s3.clone(), Arc::clone(&start), key.to_owned(), condition.clone());
        racers.spawn(async move {
            start.wait().await;
            (body, s3.put_if(&key, body, condition).await)
        });
    }
    let outcomes: Vec<(Body, Outcome<()>)> = racers.join_all().await;
    let mut winners = Vec::new();
    for (body, outcome) in outcomes {
        match outcome {
            Ok(()) => winners.push(body),
            Err(Failure::Refused { status: 412, code }) => assert_eq!(code, "PreconditionFailed"),
            Err(other) => panic!("a loser got {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "one wins on {key}: {winners:?}");
    winners[0]
}

fn steps() -> Vec<Step> {
    let puts = [Home::Inline, Home::Inline, Home::Inline, Home::Packed].map(Step::Put);
    let others = [Step::Create, Step::Create, Step::Swap, Step::Swap, Step::Delete, Step::Delete];
    [&puts[..], &others, &[Step::Get; 4], &[Step::Head, Step::Head, Step::List, Step::List]].concat()
}
