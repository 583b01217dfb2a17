//! Unneeded data and rows go, and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use sherd_core::heal::HealEntry;
use sherd_core::id::{ChangeId, DataId, PartKey, ProposerId, RegisterKey, SetId, ShardId, Timestamp};
use sherd_core::message;
use sherd_core::message::{Answer, Control, ShardFileHeader};
use sherd_core::record::{Bucket, BucketPhase, DataRef, State};
use sherd_core::register::Refusal;

use super::super::Upkeep;
use super::uploads::begun_upload;
use super::{Directories, Node, accept_on, body, key_of};
use crate::object::{Error, ListRequest, MissingResource, ObjectName, PartName, WriteConditions};
use crate::observe::metrics::VolumeFault;
use crate::peer::UpkeepPeer;
use crate::peer::scripted::{Fate, says};
use crate::register::{Proposal, RegisterTimeouts, Writer};
use crate::upkeep::final_seals::is_gone_for_ever;
use crate::upkeep::progress::SweepProgress;
use crate::upkeep::rows::bring::HealOutcome;
use crate::upkeep::rows::bring::heal_row;
use crate::upkeep::rows::rows_of;
use crate::upkeep::shards::subject::HealSubject;
use crate::upkeep::walks::suspects::Suspect;
use crate::upkeep::walks::sweep::encode_place;
use crate::volumes::VolumeState;

pub(super) const HOUR_MS: u64 = 3_600_000;

/// An object that was overwritten without releasing what it replaced, three days ago.
async fn with_an_orphan(directories: &Directories) -> (Node, RegisterKey, DataRef) {
    with_an_orphan_of(directories, 100_000).await
}

/// As [`with_an_orphan`], with an object of `bytes` bytes.
async fn with_an_orphan_of(directories: &Directories, bytes: usize) -> (Node, RegisterKey, DataRef) {
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, bytes)).await;
    let (register, orphan) = (node.register("a").await, node.data("a").await);
    node.put("a", &body(2, bytes)).await;
    node.clock.advance(72 * HOUR_MS);
    node.put("young", &body(3, bytes)).await;
    (node, register, orphan)
}

pub(super) async fn scrub_all(node: &Node) {
    for volume in node.volumes.all() {
        node.workers.scrubber.scrub_pass(volume).await.expect("the pass ends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_is_swept_and_named_data_stays() {
    let directories = Directories::new(4);
    let (node, register, orphan) = with_an_orphan(&directories).await;
    scrub_all(&node).await;
    assert_eq!(node.workers.sweeper.status().suspects_len, 1);
    node.workers.sweeper.sweep().await;
    assert_eq!(node.workers.sweeper.status().orphans_count, 1);
    let subject = HealSubject::new(&node.workers.deps, &register, orphan).expect("fits its set");
    assert_eq!(subject.look(false).await.broken.len(), 4, "every shard of the orphan is gone");
    assert_eq!(node.get("a").await, Some(body(2, 100_000)));
    assert_eq!(node.get("young").await, Some(body(3, 100_000)));
    node.close().await;
}

/// Shard files of an upload, on every volume, as a kill leaves them: without their ends, and where the power
/// went, too, without a header.
async fn with_a_killed_upload(directories: &Directories) -> (Node, RegisterKey, DataRef, Vec<PathBuf>) {
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 2_000_000)).await;
    let (register, kept) = (node.register("a").await, node.data("a").await);
    let birth = Timestamp::from_ms(node.workers.deps.wall_ms());
    let cut = DataRef { id: DataId { birth, proposer: ProposerId(1) }, ..kept };
    let mut files = Vec::new();
    for index in 0..4 {
        let header = ShardFileHeader {
            shard: ShardId { data: cut.id, index },
            key: register.clone(),
            data_shards: cut.data_shards,
            parity_shards: cut.parity_shards,
            stripe_unit: cut.stripe_unit,
            shard_bytes: 300_000,
        };
        let volume = node.home(&register, &cut, index);
        let (route, target) =
            (node.workers.deps.route_to(volume), node.workers.deps.cluster.target(register.clone()));
        let mut sink = route.expect("a route").peer.create_shard(volume, &target, header, false);
        sink.append(vec![body(2, 300_000)]).await.expect("appended");
        sink.finish().await.expect("durable");
        files.push(node.file(&register, &cut, index));
    }
    node.close().await;
    for (file, is_powered) in files.iter().zip([true, true, true, false]) {
        let mut stored = std::fs::read(file).expect("readable");
        let end = stored.len();
        stored[end - 1_000..].fill(0);
        if !is_powered {
            stored[..4096].fill(0);
        }
        std::fs::write(file, stored).expect("writable");
    }
    (directories.start().await, register, kept, files)
}

/// A gateway died while it wrote: shards are finished on three volumes, and the stream of the fourth broke.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_writer_abandoned_is_swept_without_a_scrub_when_it_is_old() {
    let directories = Directories::new(4);
    let (node, register, orphan) = with_an_orphan_of(&directories, 2_000_000).await;
    let kept = node.data("a").await;
    let abandoned = node.volumes.all()[3].abandoned();
    let young = node.register("young").await;
    for (data, key) in [(orphan.id, &register), (kept.id, &register), (node.data("young").await.id, &young)] {
        abandoned.note(data, key.clone());
    }
    let subject = HealSubject::new(&node.workers.deps, &register, orphan).expect("fits its set");
    let (fourth, shard) = (&node.volumes.all()[3], ShardId { data: orphan.id, index: 0 });
    let index =
        (0..4).find(|index| node.home(&register, &orphan, *index) == fourth.id()).expect("one of four");
    let route = node.workers.deps.route_to(fourth.id()).expect("a route");
    let removed = route.peer.delete_shard(fourth.id(), ShardId { index, ..shard }, orphan.home).await;
    assert_eq!(removed, Ok(()));
    node.workers.sweeper.sweep().await;
    let status = node.workers.sweeper.status();
    assert_eq!((status.suspects_len, status.orphans_count), (0, 1));
    assert_eq!(subject.look(false).await.broken.len(), 4, "every shard of it is gone");
    assert_eq!(node.get("a").await, Some(body(2, 2_000_000)), "its register names it");
    assert_eq!(
        abandoned.unseen_before(Timestamp::MAX).len(),
        1,
        "its writer may be about to name the young one"
    );
    let (gone, left) = (DataId { proposer: ProposerId(7), ..orphan.id }, node.data("young").await.id);
    node.clock.advance(120_000);
    let birth = node.workers.deps.now().minus_ms(90_000);
    abandoned.note(DataId { birth, ..gone }, young.clone());
    abandoned.note(left, register.clone());
    node.workers.sweeper.sweep().await;
    assert_eq!(abandoned.unseen_before(Timestamp::MAX), [], "all were looked up");
    let held = abandoned.take_older(Timestamp::MAX);
    assert_eq!(held, [(left, register)], "this register does not name it, and its shards are there");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_upload_left_is_swept_when_it_is_old() {
    let directories = Directories::new(4);
    let (node, register, kept, files) = with_a_killed_upload(&directories).await;
    let left = || files.iter().map(|file| file.exists()).collect::<Vec<_>>();
    scrub_all(&node).await;
    assert_eq!(node.workers.sweeper.status().suspects_len, 0, "its writer may be alive");
    assert_eq!(left(), [true; 4], "the last one's too, although nobody can tell whose it is");
    let serving = node.volumes.all().iter().map(|volume| volume.serving().expect("it serves"));
    let corrupt = serving.map(|serving| serving.faults.of(VolumeFault::Corrupt));
    assert_eq!(corrupt.sum::<u64>(), 0, "a kill is no sign of a bad disk");
    node.clock.advance(72 * HOUR_MS);
    node.put("time passes", &body(3, 1_000)).await;
    scrub_all(&node).await;
    assert_eq!(left(), [true, true, true, false], "not a byte of the last one is worth anything");
    assert_eq!(node.workers.sweeper.status().suspects_len, 1);
    node.workers.sweeper.sweep().await;
    assert_eq!(node.workers.sweeper.status().orphans_count, 1);
    assert_eq!(left(), [false; 4]);
    let subject = HealSubject::new(&node.workers.deps, &register, kept).expect("fits its set");
    assert_eq!(subject.look(false).await.intact.len(), 4);
    assert_eq!(node.get("a").await, Some(body(1, 2_000_000)));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_again_what_waited_to_be_judged() {
    let directories = Directories::new(4);
    let (node, register, orphan) = with_an_orphan(&directories).await;
    // On the volume of the first shard the walk goes over it to its end, and is cut short there.
    let first = node.home(&register, &orphan, 0);
    node.workers.scrubber.scrub_pass(node.local(first)).await.expect("the pass ends");
    assert_eq!(node.workers.sweeper.status().suspects_len, 1);
    assert!(
        node.workers.scrubber.progress.read(first).await.expect("readable").scrub.is_some(),
        "its place stays before"
    );
    node.close().await;
    let node = directories.start().await;
    node.clock.advance(73 * HOUR_MS);
    node.workers.scrubber.scrub_pass(node.local(first)).await.expect("the rest of it");
    node.workers.sweeper.sweep().await;
    assert_eq!(node.workers.sweeper.status().orphans_count, 1);
    assert_eq!(node.workers.sweeper.status().suspects_len, 0);
    node.workers.scrubber.scrub_pass(node.local(first)).await.expect("nothing waits any more");
    assert!(node.workers.scrubber.progress.read(first).await.expect("readable").scrub.is_none());
    assert_eq!(node.get("a").await, Some(body(2, 100_000)));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_that_cannot_be_judged_now_is_judged_later() {
    let directories = Directories::new(4);
    let (node, _, orphan) = with_an_orphan(&directories).await;
    scrub_all(&node).await;
    let pinned = node.workers.deps.pins.hold([(SetId(0), orphan.id)]);
    node.workers.sweeper.sweep().await;
    assert_eq!(
        (node.workers.sweeper.status().orphans_count, node.workers.sweeper.status().suspects_len),
        (0, 1)
    );
    drop(pinned);
    node.workers.sweeper.sweep().await;
    assert_eq!(
        (node.workers.sweeper.status().orphans_count, node.workers.sweeper.status().suspects_len),
        (1, 0)
    );
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sweeper_does_not_begin_its_period_anew_with_each_start() {
    let directories = Directories::new(4);
    let (node, register, orphan) = with_an_orphan(&directories).await;
    scrub_all(&node).await;
    let upkeep = Upkeep::over(Arc::clone(&node.workers));
    upkeep.run("sweep", |workers| async move { workers.sweeper.sweep_sets().await });
    let swept = async {
        while node.workers.sweeper.status().orphans_count == 0 {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(super::DEADLINE, swept).await.expect("swept long before the period is over");
    upkeep.stop().await;
    let subject = HealSubject::new(&node.workers.deps, &register, orphan).expect("fits its set");
    assert_eq!(subject.look(false).await.broken.len(), 4);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_of_tombstones_goes_on_where_it_was_cut_short() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let mut registers = Vec::new();
    for key in ["before", "place", "stands"] {
        node.put(key, &body(1, 1_000)).await;
        let name = ObjectName { bucket: key_of("bucket").into(), key: key_of(key) };
        node.objects.delete(name, WriteConditions::default()).await.expect("deleted");
        registers.push(node.register(key).await);
        heal_row(&node.workers.deps, &registers[registers.len() - 1]).await;
    }
    node.clock.advance(30 * HOUR_MS);
    // Commit marks ride with the frames that these writes make.
    for _ in 0..3 {
        node.put("other", &body(2, 1_000)).await;
    }
    let held = async |key: &RegisterKey| rows_of(&node.workers.deps, key).await.held.len();
    for volume in node.volumes.all() {
        let place = Some(encode_place(&registers[1]));
        let sweep = SweepProgress { began_ms: node.workers.deps.wall_ms(), place };
        let noted =
            node.workers.scrubber.progress.change(volume.id(), |progress| progress.sweep = Some(sweep)).await;
        noted.expect("the place is noted");
    }
    node.workers.sweeper.sweep().await;
    assert_eq!((held(&registers[0]).await, held(&registers[2]).await), (4, 0));
    node.workers.sweeper.sweep().await;
    assert_eq!(held(&registers[0]).await, 4, "the walk ended a moment ago");
    node.clock.advance(7 * HOUR_MS);
    node.workers.sweeper.sweep().await;
    assert_eq!(held(&registers[0]).await, 0, "the next walk is due");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_swept_while_a_volume_is_away() {
    let directories = Directories::new(4);
    let (node, register, orphan) = with_an_orphan(&directories).await;
    scrub_all(&node).await;
    let away = Arc::clone(&node.volumes.all()[3]);
    std::fs::rename(away.path(), away.path().with_extension("away")).expect("moved away");
    node.wait_for(away.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.workers.sweeper.sweep().await;
    assert_eq!(node.workers.sweeper.status().orphans_count, 0);
    let subject = HealSubject::new(&node.workers.deps, &register, orphan).expect("fits its set");
    assert_eq!(subject.look(false).await.intact.len(), 3);
    node.volumes.close(super::DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_tombstone_is_dropped_everywhere_and_a_young_one_stays() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    for key in ["old", "young"] {
        node.put(key, &body(1, 1_000)).await;
    }
    let delete = |key: &str| {
        let name = ObjectName { bucket: key_of("bucket").into(), key: key_of(key) };
        node.objects.delete(name, WriteConditions::default())
    };
    delete("old").await.expect("deleted");
    let old = node.register("old").await;
    heal_row(&node.workers.deps, &old).await;
    node.clock.advance(30 * HOUR_MS);
    delete("young").await.expect("deleted");
    let young = node.register("young").await;
    // The commit mark of the old row rides with the frames that these writes make.
    heal_row(&node.workers.deps, &old).await;
    node.put("other", &body(2, 1_000)).await;
    node.workers.sweeper.sweep().await;
    assert_eq!(rows_of(&node.workers.deps, &old).await.held, []);
    node.on_all_volumes(&young).await;
    assert_eq!(node.get("old").await, None);
    node.put("old", &body(3, 1_000)).await;
    assert_eq!(node.get("old").await, Some(body(3, 1_000)), "a dropped key can be written again");
    node.close().await;
}

/// A scrubber that read a register before a write to it suspects what that write names: the sweeper asks
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_that_its_register_names_stays() {
    let directories = Directories::new(4);
    let (node, key, _) = with_an_orphan(&directories).await;
    let named = node.data("a").await;
    node.workers.scrubber.suspects.add(Suspect { key, data: named.id, home: named.home });
    node.workers.sweeper.sweep().await;
    let status = node.workers.sweeper.status();
    assert_eq!((status.suspects_len, status.orphans_count), (0, 0));
    assert_eq!(node.get("a").await, Some(body(2, 100_000)));
    node.close().await;
}

/// Without a raised floor the volume could take an accept from before the tombstone, and show what was
/// deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tombstone_is_dropped_while_a_volume_does_not_raise_its_floor() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("old", &body(1, 1_000)).await;
    let name = ObjectName { bucket: key_of("bucket").into(), key: key_of("old") };
    node.objects.delete(name, WriteConditions::default()).await.expect("deleted");
    let old = node.register("old").await;
    heal_row(&node.workers.deps, &old).await;
    node.clock.advance(30 * HOUR_MS);
    // The commit mark rides with the frames that this write makes.
    node.put_everywhere("other", &body(2, 1_000)).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    gateway.clock.advance(30 * HOUR_MS);
    let one = node.volumes.all()[3].id();
    let from = script.guarantees(one).await.expect("it serves").from;
    let refused = [Err(message::Error::Busy), Ok(Answer { from, result: Err(Refusal::Recovering) })];
    for heard in refused {
        says(&script.controls, move |volume, control| {
            let is_meant = volume == one && matches!(control, Control::RaiseFloor { .. });
            if is_meant { Fate::Instead(heard.clone()) } else { Fate::Through }
        });
        gateway.workers.sweeper.sweep().await;
        assert_eq!(rows_of(&gateway.workers.deps, &old).await.held.len(), 4);
    }
    says(&script.controls, |_, _| Fate::Through);
    gateway.workers.sweeper.sweep().await;
    assert_eq!(rows_of(&gateway.workers.deps, &old).await.held, []);
    gateway.close().await;
}

/// Moves the bucket's register from one phase to another.
pub(super) async fn move_bucket(node: &Node, to: BucketPhase) {
    let moved = move |state: Option<&State>| match state {
        Some(State::Bucket(bucket)) => {
            let state = State::Bucket(Bucket { phase: to, ..bucket.clone() });
            Ok(Proposal::of(state))
        }
        _ => Err(()),
    };
    let ticket = node.workers.deps.registers.begin(&RegisterKey::bucket(key_of("bucket")));
    node.workers.deps.registers.change(ticket, Writer::new(moved)).await.expect("changed");
}

pub(super) async fn phase(node: &Node) -> BucketPhase {
    let found = node.workers.deps.registers.read(&RegisterKey::bucket(key_of("bucket"))).await;
    match found.expect("readable").expect("there").value.state {
        State::Bucket(bucket) => bucket.phase,
        other => panic!("not a bucket: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_lost_its_gateway_is_undone_with_its_seals() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("kept", &body(1, 1_000)).await;
    let register = node.register("kept").await;
    let deletion = seal(&node, 0..4).await;
    move_bucket(&node, BucketPhase::Deleting { deletion }).await;
    assert!(node.workers.deps.registers.read(&register).await.is_err(), "sealed");
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(node.get("kept").await, Some(body(1, 1_000)));
    assert_eq!(node.seals(), []);
    node.close().await;
}

/// However long its listing takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_this_process_works_on_is_left_alone() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let deletion = seal(&node, 0..4).await;
    let under_way = node.workers.deps.deletions.begin(deletion);
    move_bucket(&node, BucketPhase::Deleting { deletion }).await;
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(node.seals().len(), 4);
    drop(under_way);
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(node.seals(), [], "its task is gone");
    node.put("kept", &body(1, 1_000)).await;
    node.close().await;
}

/// The gateway was killed before its first seal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_without_a_seal_is_found_at_the_next_start() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.workers.deletion_watcher.look_after_buckets().await;
    let deletion =
        ChangeId { made: Timestamp::from_ms(node.workers.deps.wall_ms()), proposer: ProposerId(1) };
    move_bucket(&node, BucketPhase::Deleting { deletion }).await;
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(phase(&node).await, BucketPhase::Deleting { deletion }, "no rows are read without a reason");
    node.close().await;

    let node = directories.start().await;
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(phase(&node).await, BucketPhase::Active);
    node.objects.delete_bucket(key_of("bucket"), true).await.expect("nothing is in the way");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_seals_of_a_bucket_that_is_deleted_become_final() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    let deletion = seal(&node, 0..3).await;
    move_bucket(&node, BucketPhase::Deleting { deletion }).await;
    move_bucket(&node, BucketPhase::Deleted).await;
    assert!(!is_gone_for_ever(&node.workers.deps, &register), "its gateway was killed before it said so");
    node.workers.deletion_watcher.look_after_buckets().await;
    assert!(is_gone_for_ever(&node.workers.deps, &register));
    assert!(node.seals().iter().all(|(_, deletions)| deletions.is_empty()));
    assert_eq!(node.seals().len(), 4, "on every volume");
    node.close().await;
}

/// The register that could say so bears another bucket's id by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_seals_of_a_bucket_become_final_though_another_has_its_name() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    let entry = HealEntry { key: register.clone(), data: None, since_ms: 1 };
    let deletion = seal(&node, 0..3).await;
    assert_eq!(phase(&node).await, BucketPhase::Active);
    move_bucket(&node, BucketPhase::Deleting { deletion }).await;
    move_bucket(&node, BucketPhase::Deleted).await;
    node.create_bucket().await;
    assert!(
        matches!(node.workers.healer.heal(&entry).await, HealOutcome::Later { .. }),
        "nobody knows that it is gone"
    );
    node.workers.deletion_watcher.look_after_buckets().await;
    assert!(is_gone_for_ever(&node.workers.deps, &register));
    assert_eq!(node.seals().len(), 4, "on every volume");
    assert_eq!(node.workers.healer.heal(&entry).await, HealOutcome::Unnamed);
    node.put("a", &body(2, 1_000)).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_stays_while_the_volumes_that_know_its_bucket_are_away() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let volumes: Vec<_> = node.volumes.all().iter().map(|volume| volume.id()).collect();
    let bring_back = async |volume| {
        let path = node.local(volume).path();
        std::fs::rename(path.with_extension("away"), path).expect("moved back");
    };
    node.take_away(volumes[3]).await;
    node.create_bucket().await;
    bring_back(volumes[3]).await;
    node.back_online(volumes[3]).await;
    seal(&node, 3..4).await;
    for volume in &volumes[..3] {
        node.take_away(*volume).await;
    }
    let held = node.seals();
    assert!(matches!(&held[..], [(_, deletions)] if deletions.len() == 1), "{held:?}");
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(node.seals(), held, "no row names its bucket, and too few were asked");

    for volume in &volumes[..3] {
        bring_back(*volume).await;
    }
    for volume in &volumes[..3] {
        node.wait_for(*volume, |state| matches!(state, VolumeState::Unconfirmed { .. })).await;
    }
    node.workers.confirmer.confirm_volumes().await;
    for volume in &volumes[..3] {
        node.wait_for(*volume, |state| *state == VolumeState::Online).await;
    }
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(node.seals(), [], "its register names it, and no deletion");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_passes_a_volume_with_a_stale_seal() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 1_000)).await;
    seal(&node, 0..1).await;
    let list = async || {
        let request = ListRequest {
            bucket: key_of("bucket").into(),
            prefix: String::new(),
            delimiter: None,
            after: None,
            max_keys: 10,
        };
        node.objects.list(request).await.map(|page| page.entries.len())
    };
    assert_eq!(list().await.expect("the other volumes show it"), 1);
    node.workers.deletion_watcher.look_after_buckets().await;
    assert_eq!(node.seals(), [], "the register names no such deletion");
    // With seals on enough volumes that a deletion may have ended, the bucket's register decides.
    let deletion = seal(&node, 0..3).await;
    move_bucket(&node, BucketPhase::Deleting { deletion }).await;
    move_bucket(&node, BucketPhase::Deleted).await;
    assert!(matches!(list().await, Err(Error::Missing(MissingResource::Bucket))));
    node.close().await;
}

/// Seals the bucket on volumes of the node, as a deletion does.
pub(super) async fn seal(node: &Node, volumes: std::ops::Range<usize>) -> ChangeId {
    let made = Timestamp::from_ms(node.workers.deps.wall_ms());
    let deletion = ChangeId { made, proposer: ProposerId(1) };
    let bucket = node.register("any").await.bucket;
    let seal = Control::Seal { bucket, deletion, epoch: node.workers.deps.cluster.epoch() };
    tell(node, volumes, &seal).await;
    deletion
}

pub(super) async fn tell(node: &Node, volumes: std::ops::Range<usize>, control: &Control) {
    for volume in &node.volumes.all()[volumes] {
        let route = node.workers.deps.route_to(volume.id()).expect("a route");
        let answer = route.peer.control(volume.id(), control.clone()).await;
        answer.expect("answered").result.expect("done");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_on_a_minority_are_settled() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 1_000)).await;
    let register = node.register("a").await;
    let away = Arc::clone(&node.volumes.all()[0]);
    std::fs::rename(away.path(), away.path().with_extension("away")).expect("moved away");
    node.wait_for(away.id(), |state| matches!(state, VolumeState::Offline { .. })).await;
    node.put("a", &body(2, 1_000)).await;
    std::fs::rename(away.path().with_extension("away"), away.path()).expect("moved back");
    node.back_online(away.id()).await;
    assert!(!rows_of(&node.workers.deps, &register).await.are_same());
    // Past what the volume may have promised before it left.
    node.clock.advance(5_000);
    node.workers
        .scrubber
        .checker
        .check_register(&register, crate::upkeep::shards::check::ShardLook::Everywhere)
        .await
        .expect("it takes the order");
    assert!(rows_of(&node.workers.deps, &register).await.are_same());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_part_stays_while_its_upload_is_open() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (name, upload) = begun_upload(&node).await;
    let part = RegisterKey { part: Some(PartKey { upload, number: 1 }), ..node.register("a").await };
    let mut data = Vec::new();
    for seed in [1, 2] {
        let name = PartName { name: name.clone(), upload, number: 1 };
        node.objects.put_part(name, super::upload(&body(seed, 100_000))).await.expect("a part is stored");
        let found = node.workers.deps.registers.read(&part).await.expect("readable").expect("there");
        data.extend(found.value.data_refs());
    }
    let [replaced, current] = data[..] else { panic!("each part has data") };
    let whole = async |data| {
        let subject = HealSubject::new(&node.workers.deps, &part, data).expect("fits its set");
        subject.look(false).await.intact.len() == 4
    };
    for _ in 0..2 {
        node.clock.advance(72 * HOUR_MS);
        node.put("time passes", &body(3, 1_000)).await;
        scrub_all(&node).await;
        assert_eq!(
            node.workers.sweeper.status().suspects_len,
            1,
            "the replaced part is named by no register"
        );
        node.workers.sweeper.sweep().await;
        assert_eq!(node.workers.sweeper.status().orphans_count, 0);
        assert!(whole(replaced).await && whole(current).await);
    }
    node.objects.abort_upload(name, upload).await.expect("it is given up");
    node.clock.advance(72 * HOUR_MS);
    node.put("time passes", &body(4, 1_000)).await;
    scrub_all(&node).await;
    node.workers.sweeper.sweep().await;
    assert!(!whole(replaced).await, "once the upload is closed it goes");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_one_volume_never_got_is_brought_to_it_when_it_is_settled() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    let route = node.workers.deps.cluster.set_of(&register).routes.clone();
    let ballot = accept_on(&node, &register, &route[1..]).await;
    assert_eq!(rows_of(&node.workers.deps, &register).await.without, [route[0].volume]);
    let one = &route[1];
    node.workers.settler.settle_row(one, &register, ballot).await;
    let rows = rows_of(&node.workers.deps, &register).await;
    assert!(rows.are_same() && rows.held.len() == 4, "{rows:?}");

    // An overwrite without a result, which one volume missed.
    let ballot = accept_on(&node, &register, &route[1..]).await;
    let rows = rows_of(&node.workers.deps, &register).await;
    assert!(!rows.are_same() && rows.without.is_empty(), "it has the older one: {rows:?}");
    node.workers.settler.settle_row(one, &register, ballot).await;
    let queued = node.workers.queue.mrf.take(node.workers.deps.now_ms()).expect("it is about to be healed");
    assert_eq!(node.workers.healer.heal(&queued).await, HealOutcome::Whole);
    let rows = rows_of(&node.workers.deps, &register).await;
    assert!(rows.are_same() && rows.held.iter().all(|(_, held, _)| *held >= ballot), "{rows:?}");
    node.close().await;
}
