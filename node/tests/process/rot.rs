//! Bytes rot on disk under a running node, and no reader ever sees it.
//!
//! Shard files are overwritten, cut and deleted, packed shards and rows overwritten in the log, on
//! as many volumes as the code has parity. Every read returns the right bytes. Healing puts back
//! what was lost: then the other volumes may be taken away.

use std::collections::BTreeMap;

use crate::harness::data::{Body, Dice, Home};
use crate::harness::s3::S3;
use crate::harness::wait::{LATER, eventually};
use crate::harness::{Node, empty, volumes};

/// Objects of each home.
const OBJECTS: usize = 6;
/// Shards that carry the data itself, which a read of a healthy object asks for.
const DATA_SHARDS: u8 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_on_two_volumes_is_never_served_and_heals() {
    let mut dice = Dice::of_this_run("rot");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let objects = put_objects(&s3, &mut dice).await;
    node.until_whole().await;

    let before = node.metrics().await.get("sherd_mrf_healed_total");
    let rotten = rot(&node, &objects, &mut dice);
    eprintln!("rot: {rotten} places on two volumes");
    assert!(rotten >= OBJECTS, "the damage is there");
    for _ in 0..3 {
        read_all(&s3, &objects).await;
    }
    heals(&node, &s3, &objects, before).await;

    // Two volumes that were never damaged go; what is left was rotten.
    volumes::remove(&node.volume(3));
    volumes::remove(&node.volume(4));
    node.until_state(3, "offline").await;
    node.until_state(4, "offline").await;
    read_all(&s3, &objects).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_is_found_by_who_verifies_the_volumes() {
    let mut dice = Dice::of_this_run("rot");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let objects = put_objects(&s3, &mut dice).await;
    node.until_whole().await;
    let stopped = node.stop().await;
    stopped.is_clean();
    let files = volumes::shard_files(&stopped.volume(1));
    files.first().expect("large objects have shard files").rot();
    stopped.inspect().expect_err("an overwritten shard file is no clean volume");

    // The node serves what it can verify, as before.
    let node = stopped.start().await;
    node.until_ready().await;
    read_all(&node.s3(), &objects).await;
}

async fn put_objects(s3: &S3, dice: &mut Dice) -> BTreeMap<String, Body> {
    let mut objects = BTreeMap::new();
    for home in Home::ALL {
        for number in 0..OBJECTS {
            let (key, body) = (format!("{home:?}/{number}"), dice.body(home));
            s3.put(&key, body).await.expect("a healthy node");
            objects.insert(key, body);
        }
    }
    objects
}

async fn read_all(s3: &S3, objects: &BTreeMap<String, Body>) {
    for (key, body) in objects {
        let found = s3.get_settled(key).await;
        assert_eq!(found, Some(*body), "{key}");
    }
}

/// Damages the first two volumes, and returns in how many places. Only data shards: a read of a
/// healthy object does not ask for parity, so rot there waits for the scrubber.
fn rot(node: &Node, objects: &BTreeMap<String, Body>, dice: &mut Dice) -> usize {
    let mut places = 0;
    for number in [1, 2] {
        let files = volumes::shard_files(&node.volume(number));
        for file in files.iter().filter(|file| file.index < DATA_SHARDS) {
            match dice.below(3) {
                0 => file.rot(),
                1 => file.cut(),
                _ => file.delete(),
            }
            places += 1;
        }
        places += rot_in_log(node, number, objects);
    }
    places
}

/// Overwrites pieces of small bodies wherever they lie in a volume's log: near both ends, so that
/// the data shards of a packed object rot wherever they are.
fn rot_in_log(node: &Node, number: usize, objects: &BTreeMap<String, Body>) -> usize {
    let small = objects.iter().filter(|(key, _)| !key.starts_with("File/"));
    let bodies: Vec<Vec<u8>> = small.map(|(_, body)| body.bytes()).collect();
    let needles: Vec<&[u8]> =
        bodies.iter().flat_map(|bytes| [&bytes[100..], &bytes[bytes.len() - 100..]]).collect();
    volumes::rot_in_log(&node.volume(number), &needles)
}

/// Waits until reads find nothing to heal any more.
async fn heals(node: &Node, s3: &S3, objects: &BTreeMap<String, Body>, before: f64) {
    eventually("what reads found is healed", LATER, async || {
        read_all(s3, objects).await;
        let metrics = node.metrics().await;
        let (queue, healed) = (metrics.get("sherd_mrf_queue_length"), metrics.get("sherd_mrf_healed_total"));
        if queue > 0.0 || healed <= before {
            return Err(format!("{queue} entries wait, {} are healed", healed - before));
        }
        // Another round of reads must find nothing.
        read_all(s3, objects).await;
        let again = node.metrics().await;
        let found = again.get("sherd_mrf_healed_total") - healed + again.get("sherd_mrf_queue_length");
        if found > 0.0 { Err(format!("reads found {found} more")) } else { Ok(()) }
    })
    .await;
    eprintln!("rot: {} heals", node.metrics().await.get("sherd_mrf_healed_total") - before);
}
