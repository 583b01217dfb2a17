//! A node that stands still (SIGSTOP) keeps nobody waiting for long: its connections stay open and say nothing.
//!
//! PUTs up to 8 MiB, GETs and DELETEs through the other nodes are answered within 25 s from the moment in which
//! it stops, and what was acknowledged is there when it goes on.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::harness::cluster::cluster_of;
use crate::harness::data::{Body, Dice};
use crate::harness::wait::bounded;

/// How long any answer may take.
const ANSWER: Duration = Duration::from_secs(25);
/// Sizes of the objects.
const SIZES: [usize; 4] = [1 << 10, 200 << 10, 1 << 20, 8 << 20];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_while_a_node_stands_still() {
    let mut dice = Dice::of_this_run("paused");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let mut old = Vec::new();
    for (number, len) in SIZES.into_iter().enumerate() {
        let body = Body { id: dice.next(), len };
        clients[number % 3].put(&format!("old/{number}"), body).await.expect("a healthy cluster");
        old.push(body);
    }
    let paused = 3;
    cluster.node(paused).signal(Signal::STOP);
    let mut requests = JoinSet::new();
    for (number, len) in SIZES.into_iter().enumerate() {
        for (gateway, s3) in clients.iter().take(paused).enumerate() {
            let (s3, body, was) = (s3.clone(), Body { id: dice.next(), len }, old[number]);
            requests.spawn(async move {
                let key = format!("new/{gateway}-{number}");
                let begin = Instant::now();
                let read = bounded("a GET", ANSWER, s3.get(&format!("old/{number}"))).await;
                assert_eq!(read, Ok(Some(was)));
                bounded("a PUT", ANSWER, s3.put(&key, body)).await.expect("three of four nodes take it");
                let read = bounded("a GET", ANSWER, s3.get(&key)).await;
                assert_eq!(read, Ok(Some(body)));
                if gateway == 0 {
                    bounded("a DELETE", ANSWER, s3.delete(&key)).await.expect("three of four nodes take it");
                }
                (gateway, key, body, begin.elapsed())
            });
        }
    }
    let done = requests.join_all().await;
    cluster.node(paused).signal(Signal::CONT);
    let slowest = done.iter().map(|(.., elapsed)| *elapsed).max().expect("there are requests");
    eprintln!("paused: the slowest row of requests took {slowest:?}");
    cluster.node(paused).until_ready().await;
    for (gateway, key, body, _) in done {
        let wanted = (gateway != 0).then_some(body);
        assert_eq!(clients[paused].get_settled(&key).await, wanted, "{key} through the node that goes on");
    }
}
