//! Shard files that a kill left without their ends: no sign of a bad disk, and healed or swept. One whose end
//! has rotted is one.

use std::path::{Path, PathBuf};

use sherd_core::id::{RegisterKey, VolumeId};
use sherd_core::record::DataRef;

use super::sweeps::{HOUR_MS, scrub_all};
use super::{Directories, Node, body};
use crate::observe::metrics::VolumeFault;
use crate::upkeep::limits::ABANDONED_AFTER_MS;
use crate::upkeep::rows::bring::HealOutcome;
use crate::upkeep::shards::subject::HealSubject;
use crate::volumes::VolumeState;

/// Makes a finished file what it was before its table and its footer were written.
fn take_end(file: impl AsRef<Path>) {
    let file = file.as_ref();
    let mut stored = std::fs::read(file).expect("readable");
    let end = stored.len();
    stored[end - 10_000..].fill(0);
    std::fs::write(file, stored).expect("writable");
}

/// An object of which every volume has its shard, in files.
async fn put(node: &Node, key: &str, seed: u64) -> (RegisterKey, DataRef) {
    node.put_everywhere(key, &body(seed, 2_000_000)).await;
    let (register, data) = (node.register(key).await, node.data(key).await);
    node.complete(&register, &data).await;
    (register, data)
}

fn corrupt(node: &Node, volume: VolumeId) -> u64 {
    node.local(volume).serving().expect("it serves").faults.of(VolumeFault::Corrupt)
}

/// Each gateway whose stream of a shard broke looks every time whether it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_register_names_is_swept_and_is_no_fault_of_its_volume() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (register, cut) = put(&node, "a", 1).await;
    put(&node, "a", 2).await;
    let files: Vec<PathBuf> = (0..4).map(|index| node.file(&register, &cut, index)).collect();
    node.close().await;
    files.iter().for_each(take_end);
    let mut stored = std::fs::read(&files[3]).expect("readable");
    stored[..4096].fill(0);
    std::fs::write(&files[3], stored).expect("writable");
    let node = directories.start().await;
    let subject = HealSubject::new(&node.workers.deps, &register, cut).expect("fits its set");

    node.clock.advance(2 * ABANDONED_AFTER_MS);
    for _ in 0..10 {
        for volume in node.volumes.all() {
            volume.abandoned().note(cut.id, register.clone());
        }
        node.workers.sweeper.sweep().await;
        assert_eq!(subject.look(true).await.broken.len(), 4, "none of them is whole");
    }
    scrub_all(&node).await;
    assert!(files.iter().all(|file| file.exists()), "its writer may be alive");

    node.clock.advance(72 * HOUR_MS);
    put(&node, "time passes", 3).await;
    scrub_all(&node).await;
    node.workers.sweeper.sweep().await;
    assert_eq!(node.workers.sweeper.status().orphans_count, 1);
    assert!(!files.iter().any(|file| file.exists()));
    for volume in node.volume_ids() {
        assert_eq!(corrupt(&node, volume), 0, "a kill is no sign of a bad disk");
        assert_eq!(node.local(volume).state(), VolumeState::Online);
    }
    assert_eq!(node.get("a").await, Some(body(2, 2_000_000)));
    node.close().await;
}

/// The write was acknowledged without the volume that was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_register_names_is_healed_and_only_a_rotten_end_is_a_fault_of_its_volume() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (register, data) = put(&node, "a", 1).await;
    let (unfinished, rotten) = (node.file(&register, &data, 0), node.file(&register, &data, 3));
    node.close().await;
    take_end(&unfinished);
    let mut stored = std::fs::read(&rotten).expect("readable");
    let footer = stored.len() - 20;
    stored[footer] ^= 4;
    std::fs::write(&rotten, stored).expect("writable");
    let node = directories.start().await;

    scrub_all(&node).await;
    let queued = node.workers.queue.mrf.take(node.workers.deps.now_ms()).expect("a finding");
    assert_eq!(queued.data, Some(data.into()));
    assert_eq!(node.get("a").await, Some(body(1, 2_000_000)));
    assert_eq!(node.workers.healer.heal(&queued).await, HealOutcome::Whole);
    let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
    assert_eq!(subject.look(true).await.intact.len(), 4);
    assert_eq!(corrupt(&node, node.home(&register, &data, 0)), 0, "it was never finished");
    assert!(corrupt(&node, node.home(&register, &data, 3)) > 0, "it was finished, and has rotted");
    node.close().await;
}
