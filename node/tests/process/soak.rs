//! Ten minutes of mixed load on a fixed set of keys: puts of every home, overwrites, deletes, uploads that
//! are completed and given up, reads, listings. The node's resources (memory, descriptors, files, bytes under
//! its volumes) are read every ten seconds and printed; over the second half nothing may grow beyond a bound.
//! `SHERD_SOAK_MINUTES` says how long, at least four.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::harness::data::{Body, Dice, Home};
use crate::harness::s3::{BUCKET, Failure, PART, S3};
use crate::harness::{Node, empty};

/// Keys that the load works on.
const KEYS: usize = 200;
/// Clients, and how often each begins a request: enough that everything happens, and little enough that
/// what is replaced within the grace of two minutes fits any disk.
const CLIENTS: usize = 4;
const EVERY: Duration = Duration::from_millis(100);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// One look at the node.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    seconds: f64,
    requests: f64,
    anonymous_mib: f64,
    descriptors: f64,
    files: f64,
    volumes_mib: f64,
}

/// A figure of a sample, and by how much it may grow over the second half: a share of its mean there, or
/// this much where that is more.
struct Bound {
    name: &'static str,
    of: fn(&Sample) -> f64,
    share: f64,
    least: f64,
}

const BOUNDS: [Bound; 4] = [
    Bound { name: "anonymous memory, MiB", of: |sample| sample.anonymous_mib, share: 0.10, least: 12.0 },
    Bound { name: "open descriptors", of: |sample| sample.descriptors, share: 0.10, least: 16.0 },
    Bound { name: "files under the volumes", of: |sample| sample.files, share: 0.10, least: 100.0 },
    Bound { name: "MiB under the volumes", of: |sample| sample.volumes_mib, share: 0.10, least: 192.0 },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: ten of them, or SHERD_SOAK_MINUTES"]
async fn mixed_load_makes_nothing_grow() {
    let minutes = std::env::var("SHERD_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let whole = Duration::from_mins(minutes);
    assert!(minutes >= 4, "the grace for readers alone takes two minutes");
    let mut dice = Dice::of_this_run("soak");
    let node = empty().serve("upkeep.release_grace = \"2m\"").start().await;
    let s3 = node.with_bucket().await;
    let requests = Arc::new(AtomicU64::new(0));
    let stopped = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (s3, dice) = (s3.clone(), dice.split());
        clients.spawn(client(s3, dice, Arc::clone(&requests), Arc::clone(&stopped)));
    }
    let mut samples = Vec::new();
    let began = Instant::now();
    let mut looks = interval(LOOK_EVERY);
    eprintln!(
        "{:>6} {:>9} {:>10} {:>6} {:>8} {:>12}",
        "s", "requests", "anon MiB", "fds", "files", "volumes MiB"
    );
    while began.elapsed() < whole {
        looks.tick().await;
        let sample = look(&node, began, &requests).await;
        eprintln!(
            "{:6.0} {:9.0} {:10.1} {:6.0} {:8.0} {:12.1}",
            sample.seconds,
            sample.requests,
            sample.anonymous_mib,
            sample.descriptors,
            sample.files,
            sample.volumes_mib
        );
        samples.push(sample);
        assert!(clients.try_join_next().is_none(), "a client ended before its order");
    }
    stopped.store(true, Ordering::Relaxed);
    clients.join_all().await;
    node.until_healed().await;
    let broken = judge(&samples);
    assert_eq!(broken, Vec::<String>::new());
    node.stop().await.is_clean();
}

/// Prints how much each figure grew over the second half, and says which grew too much.
fn judge(samples: &[Sample]) -> Vec<String> {
    let half = samples.split_at(samples.len() / 2).1;
    let mut broken = Vec::new();
    for Bound { name, of, share, least } in BOUNDS {
        let points: Vec<(f64, f64)> = half.iter().map(|sample| (sample.seconds, of(sample))).collect();
        let (grown, mean) = growth(&points);
        let allowed = (mean * share).max(least);
        eprintln!(
            "soak: {name}: {mean:.1} on average, {grown:+.1} over the second half, {allowed:.1} allowed"
        );
        if grown > allowed {
            broken.push(format!("{name}: {grown:+.1} of {allowed:.1}"));
        }
    }
    broken
}

/// By how much a line through the points rises from the first to the last, and their mean.
fn growth(points: &[(f64, f64)]) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "some dozens of samples")]
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let together: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let span = points.last().zip(points.first()).map_or(0.0, |(last, first)| last.0 - first.0);
    if spread > 0.0 { (together / spread * span, y) } else { (0.0, y) }
}

async fn look(node: &Node, began: Instant, requests: &AtomicU64) -> Sample {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", node.pid())).expect("it runs").count();
    let anonymous_kib = node.memory_kib("RssAnon");
    let volumes = node.volumes();
    let walked = tokio::task::spawn_blocking(move || volumes.iter().map(|volume| walk(volume)).collect());
    let walked: Vec<(u64, u64)> = walked.await.expect("walking does not panic");
    let (files, bytes) = walked.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    Sample {
        seconds: began.elapsed().as_secs_f64(),
        requests: requests.load(Ordering::Relaxed) as f64,
        anonymous_mib: anonymous_kib as f64 / 1024.0,
        descriptors: descriptors as f64,
        files: files as f64,
        volumes_mib: bytes as f64 / 1_048_576.0,
    }
}

/// Files below a folder, and the bytes that they take on the disk. Files that go away meanwhile are left out.
fn walk(folder: &Path) -> (u64, u64) {
    let mut found = (0, 0);
    let mut left: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => left.push(entry.path()),
                Ok(metadata) => found = (found.0 + 1, found.1 + metadata.blocks() * 512),
                Err(_) => {}
            }
        }
    }
    found
}

async fn client(s3: S3, mut dice: Dice, requests: Arc<AtomicU64>, stopped: Arc<AtomicBool>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stopped.load(Ordering::Relaxed) {
        ticks.tick().await;
        let key = format!("soak/{}", dice.below(KEYS));
        let outcome = step(&s3, &mut dice, &key).await;
        assert!(outcome.is_ok(), "{key}: {outcome:?}");
        requests.fetch_add(1, Ordering::Relaxed);
    }
}

/// One request, or the few of an upload.
async fn step(s3: &S3, dice: &mut Dice, key: &str) -> Result<(), Failure> {
    match dice.below(100) {
        0..20 => s3.put(key, dice.body(Home::Inline)).await,
        20..35 => s3.put(key, dice.body(Home::Packed)).await,
        35..40 => s3.put(key, dice.body(Home::File)).await,
        40..42 => {
            let len = PART + usize::try_from(dice.within(1..=1 << 18)).expect("a small number");
            s3.upload(key, Body { id: dice.next(), len }).await
        }
        42..44 => {
            give_up(s3, key).await;
            Ok(())
        }
        44..60 => s3.delete(key).await,
        60..90 => s3.get(key).await.map(drop),
        90..97 => s3.head(key).await.map(drop),
        _ => s3.list("soak/").await.map(drop),
    }
}

/// Begins an upload, sends a part twice, and gives it up.
async fn give_up(s3: &S3, key: &str) {
    let sdk = s3.sdk();
    let begun = sdk.create_multipart_upload().bucket(BUCKET).key(key).send().await.expect("an upload");
    let upload = begun.upload_id.expect("an upload has an id");
    for byte in [1, 2] {
        let part = sdk.upload_part().bucket(BUCKET).key(key).upload_id(&upload).part_number(1);
        part.body(vec![byte; 1 << 20].into()).send().await.expect("a part");
    }
    let aborted = sdk.abort_multipart_upload().bucket(BUCKET).key(key).upload_id(upload).send().await;
    aborted.expect("it is given up");
}

#[test]
fn growth_is_distinguished_from_noise() {
    let flat = [(0.0, 10.0), (1.0, 12.0), (2.0, 8.0), (3.0, 10.0)];
    assert!(growth(&flat).0.abs() < 2.0);
    let rising = [(0.0, 10.0), (1.0, 20.0), (2.0, 30.0)];
    let (grown, mean) = growth(&rising);
    assert!((grown - 20.0).abs() < 1e-9 && (mean - 20.0).abs() < 1e-9);
    let sample = |seconds: f64, descriptors: f64| Sample {
        seconds,
        requests: 0.0,
        anonymous_mib: 40.0,
        descriptors,
        files: 100.0,
        volumes_mib: 500.0,
    };
    let samples: Vec<Sample> = (0..20).map(|n| sample(f64::from(n), f64::from(n) * 10.0)).collect();
    let broken = judge(&samples);
    assert!(broken.len() == 1 && broken[0].starts_with("open descriptors"), "{broken:?}");
    let steady: Vec<Sample> = (0..20).map(|n| sample(f64::from(n), 60.0)).collect();
    assert_eq!(judge(&steady), Vec::<String>::new());
}
