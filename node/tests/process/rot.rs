//! Bytes rot on disk under a running node, and no reader ever sees it.
//!
//! Shard files are overwritten, cut and deleted, packed shards and rows overwritten in the log, on
//! as many volumes as the code has parity. Every read returns the right bytes. Healing puts back
//! what was lost: then the other volumes may be taken away.

use std::collections::BTreeMap;
use std::path::Path;

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
    let mut objects = put_objects(&s3, &mut dice).await;
    node.until_whole().await;

    let before = node.metrics().await.get("sherd_mrf_healed_total");
    let rotten = rot(&node, &objects, &mut dice);
    eprintln!("rot: {rotten} places on two volumes");
    assert!(rotten >= OBJECTS, "the damage is there");
    for _ in 0..3 {
        read_all(&s3, &objects).await;
    }
    heals(&node, &s3, &objects, before).await;

    // Two volumes that were never damaged go; what is left was rotten. Of a row one copy is read, so
    // reads have not seen every rotten one: those wait for the scrubber.
    lose(&node, &[3, 4]).await;
    objects.retain(|key, _| !key.starts_with("Inline/"));
    read_all(&s3, &objects).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scrubber_finds_what_no_read_asks_for() {
    let mut dice = Dice::of_this_run("scrub");
    let node = empty().serve("upkeep.scrub_period = \"1h\"").start().await;
    let s3 = node.with_bucket().await;
    let mut objects = put_objects(&s3, &mut dice).await;
    // Rows of the last minute are their writers' business, so a pass leaves inline bytes alone.
    objects.retain(|key, _| !key.starts_with("Inline/"));
    node.until_whole().await;

    let stopped = node.stop().await;
    let mut rotten = 0;
    for volume in [1, 2].map(|number| stopped.volume(number)) {
        for file in volumes::shard_files(&volume) {
            if dice.below(2) == 0 {
                file.rot();
            } else {
                file.cut();
            }
            rotten += 1;
        }
        rotten += rot_in_log(&volume, &objects);
    }
    eprintln!("scrub: {rotten} places on two volumes");

    // A pass begins with the process. No client reads.
    let node = stopped.start().await;
    node.until_ready().await;
    eventually("every volume is scrubbed and healed", LATER, async || {
        let metrics = node.metrics().await;
        let [passes, queue, found, healed] = [
            "sherd_scrub_passes_total",
            "sherd_mrf_queue_length",
            "sherd_scrub_damaged_total",
            "sherd_mrf_healed_total",
        ]
        .map(|name| metrics.get(name));
        let done = passes >= 4.0 && queue <= 0.0 && found >= 1.0 && healed >= 1.0;
        let seen = format!("{passes} passes, {found} places found, {healed} healed, {queue} wait");
        if done { Ok(()) } else { Err(seen) }
    })
    .await;
    lose(&node, &[3, 4]).await;
    read_all(&node.s3(), &objects).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_is_found_by_who_verifies_the_volumes() {
    let mut dice = Dice::of_this_run("inspect");
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

/// Takes volumes away, and waits until the node has seen it.
async fn lose(node: &Node, numbers: &[usize]) {
    for number in numbers {
        volumes::remove(&node.volume(*number));
    }
    for number in numbers {
        node.until_state(*number, "offline").await;
    }
}

async fn put_objects(s3: &S3, dice: &mut Dice) -> BTreeMap<String, Body> {
    let mut objects = BTreeMap::new();
    for home in Home::ALL {
        for number in 0..OBJECTS {
            let (key, body) = (format!("{home:?}/{number}"), dice.body(home));
            s3.put_settled(&key, body).await;
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
        places += rot_in_log(&node.volume(number), objects);
    }
    places
}

/// Overwrites pieces of small bodies wherever they lie in a volume's log: near both ends, so that
/// the data shards of a packed object rot wherever they are.
fn rot_in_log(volume: &Path, objects: &BTreeMap<String, Body>) -> usize {
    let small = objects.iter().filter(|(key, _)| !key.starts_with("File/"));
    let bodies: Vec<Vec<u8>> = small.map(|(_, body)| body.bytes()).collect();
    let needles: Vec<&[u8]> =
        bodies.iter().flat_map(|bytes| [&bytes[100..], &bytes[bytes.len() - 100..]]).collect();
    volumes::rot_in_log(volume, &needles)
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
