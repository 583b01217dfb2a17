//! Many lists beside writes: a bucket that was just emptied costs its lister work, and costs no other request
//! its place.
//!
//! A hundred lists at a time of a bucket of deleted keys, through all nodes, while writers put objects of 64
//! KiB and of 1 MiB: none of either is refused, and each list is empty to its end (I-13). How long they take
//! is judged by nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use tokio::task::JoinSet;

use crate::harness::cluster::cluster_of;
use crate::harness::data::{Body, Dice, Home};
use crate::harness::s3::{BUCKET, S3, done, outcome};

/// Keys that were put and deleted.
const KEYS: usize = 400;
/// Lists at a time, and how many each lister makes.
const LISTERS: usize = 100;
const LISTS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_lists_of_an_emptied_bucket_refuse_no_write_and_none_is_refused() {
    let mut dice = Dice::of_this_run("lists");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    empty(&clients[0], &mut dice).await;

    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for (number, s3) in clients.iter().enumerate() {
        for len in [64 << 10, 1 << 20] {
            let (s3, stop, mut dice) = (s3.clone(), Arc::clone(&stop), dice.split());
            writers.spawn(async move {
                let mut written = 0;
                while written == 0 || !stop.load(Ordering::Relaxed) {
                    let key = format!("written/{number}-{len}");
                    let body = Body { len, ..dice.body(Home::File) };
                    s3.put_settled(&key, body).await;
                    written += 1;
                }
                written
            });
        }
    }
    let mut listers = JoinSet::new();
    for number in 0..LISTERS {
        let s3 = clients[number % clients.len()].clone();
        listers.spawn(async move {
            for _ in 0..LISTS {
                listed(&s3).await;
            }
        });
    }
    while let Some(lister) = listers.join_next().await {
        lister.expect("a list beside writes");
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = 0;
    while let Some(writer) = writers.join_next().await {
        written += writer.expect("a write beside lists");
    }
    eprintln!("lists: {} lists beside {written} writes", LISTERS * LISTS);
}

/// Puts keys and deletes them again.
async fn empty(s3: &S3, dice: &mut Dice) {
    for number in 0..KEYS {
        s3.put_settled(&format!("deleted/{number:04}"), dice.body(Home::Inline)).await;
    }
    let key =
        |number| ObjectIdentifier::builder().key(format!("deleted/{number:04}")).build().expect("a key");
    let delete = Delete::builder().set_objects(Some((0..KEYS).map(key).collect())).build().expect("objects");
    let delete = s3.sdk().delete_objects().bucket(BUCKET).delete(delete);
    let deleted = done("a deletion", || delete.clone().send()).await;
    assert!(deleted.errors().is_empty());
}

/// Lists what was deleted, page by page, to the end: nothing.
async fn listed(s3: &S3) {
    let mut token = None;
    loop {
        let list = s3.sdk().list_objects_v2().bucket(BUCKET).prefix("deleted/").set_continuation_token(token);
        let page = outcome(list.send().await).expect("a list beside writes");
        assert_eq!(page.contents().len(), 0);
        token = page.next_continuation_token().map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
}
