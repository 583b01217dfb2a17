//! Replaced data goes after its grace, when nothing names it, and not before.

use std::time::Duration;

use futures::future::join_all;

use sherd_core::id::{PartKey, RegisterKey, SetId, ShardId, UploadId};
use sherd_core::limits;
use sherd_core::message;
use sherd_core::message::Control;
use sherd_core::record::{DataRef, Home};

use super::super::release::ReleaseOutcome;
use super::sweeps::{HOUR_MS, seal, tell};
use super::uploads::{begun_upload, put_back, until_closed, uploaded};
use super::{Directories, Node, between_looks, body};
use crate::cluster::damage::{Report, Reports};
use crate::object::{CompleteUpload, ListedPart, PartName, WriteConditions};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::UpkeepTuning;
use crate::upkeep::limits::OVERDUE_AFTER_MS;
use crate::upkeep::rows::bring::HealOutcome;
use crate::upkeep::shards::subject::HealSubject;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_that_may_be_taken_back_is_no_proof_that_data_may_go() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    let (register, data) = (node.register("a").await, node.data("a").await);
    let deletion = seal(&node, 0..4).await;
    let released = node.workers.releaser.release_data_id(&register, data, false).await;
    assert_eq!(released, ReleaseOutcome::Later, "the deletion may be undone");
    let part = PartKey { upload: UploadId([1; 16]), number: 1 };
    let part = RegisterKey { part: Some(part), ..register.clone() };
    assert!(node.workers.releaser.may_be_carried(&part).await, "a Complete may come to an end after that");
    tell(&node, 0..4, &Control::Unseal { bucket: register.bucket, deletion }).await;
    assert_eq!(node.get("a").await, Some(body(1, 100_000)));
    node.put("a", &body(2, 100_000)).await;
    tell(&node, 0..4, &Control::SealForEver { bucket: register.bucket }).await;
    assert!(!node.workers.releaser.may_be_carried(&part).await);
    let released = node.workers.releaser.release_data_id(&register, data, false).await;
    assert_eq!(released, ReleaseOutcome::Done, "the bucket is gone for ever");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn superseded_data_goes_when_its_last_reader_let_go() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    let old = node.data("a").await;
    node.put("a", &body(2, 100_000)).await;
    let mut reports = node.reports.take().expect("taken once");
    let report = loop {
        match reports.received.try_recv().expect("a report").1 {
            report @ Report::Superseded { .. } => break report,
            Report::Heal(_) => {}
        }
    };
    let Report::Superseded { key, data, pages } = report else { panic!("just matched") };
    assert_eq!((data, pages), (vec![old], vec![]));
    let pinned = node.workers.deps.pins.hold([(SetId(0), old.id)]);
    assert_eq!(node.workers.releaser.release_data_id(&key, old, false).await, ReleaseOutcome::InUse);
    let subject = HealSubject::new(&node.workers.deps, &key, old).expect("fits its set");
    assert_eq!(subject.look(false).await.intact.len(), 4);
    drop(pinned);
    assert_eq!(node.workers.releaser.release_data_id(&key, old, false).await, ReleaseOutcome::Done);
    assert_eq!(subject.look(false).await.broken.len(), 4);
    // Named data is never released, even when it is reported.
    let named = node.data("a").await;
    assert_eq!(node.workers.releaser.release_data_id(&key, named, false).await, ReleaseOutcome::Named);
    assert_eq!(node.get("a").await, Some(body(2, 100_000)));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_again_what_was_replaced() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    let (register, old) = (node.register("a").await, node.data("a").await);
    node.put("a", &body(2, 100_000)).await;
    let (key, data) = superseded(&mut node.reports.take().expect("taken once"));
    node.workers.releaser.queue_release(&key, &data, &[]);
    node.close().await;
    let node = directories.start().await;
    assert_eq!(notes(&node).await, 2, "two volumes noted it");
    node.clock.advance(limits::RELEASE_GRACE_MS / 2);
    node.workers.releaser.read_notes().await;
    assert_eq!(node.workers.releaser.status().len, 1, "held once");
    assert!(!node.workers.releaser.release_what_is_due().await, "readers of it may still be there");
    let node = {
        node.close().await;
        directories.start().await
    };
    // As by a clock that is ahead of the one that wrote the note: readers of this moment may have no lease
    // yet.
    node.clock.advance(limits::RELEASE_GRACE_MS + 1_000);
    node.workers.releaser.read_notes().await;
    assert!(!node.workers.releaser.release_what_is_due().await, "a reader takes its lease within a minute");
    let subject = HealSubject::new(&node.workers.deps, &register, old).expect("fits its set");
    let released = async {
        while subject.look(false).await.broken.len() < 4 {
            // By little: a volume whose clock goes on by minutes seems to hang.
            if !node.workers.releaser.release_what_is_due().await {
                node.clock.pass_us(10_000_000);
                between_looks().await;
            }
        }
    };
    tokio::time::timeout(super::DEADLINE, released).await.expect("its space is given back");
    until_forgotten(&node).await;
    node.close().await;
}

/// Waits until no volume has a note of replaced data. A control that a hanging volume missed is sent again
/// when its note is overdue.
async fn until_forgotten(node: &Node) {
    let forgotten = async {
        while notes(node).await > 0 {
            // The mark of the release rides with the frames of this write.
            drop(node.try_put("forgotten", &body(3, 1_000)).await);
            node.workers.releaser.read_overdue_notes().await;
            if !node.workers.releaser.release_what_is_due().await {
                node.clock.pass_us(10_000_000);
            }
        }
    };
    tokio::time::timeout(super::DEADLINE, forgotten).await.expect("the notes go, too");
}

/// Notes of replaced data on all volumes; one where a volume does not answer.
async fn notes(node: &Node) -> usize {
    let mut count = 0;
    for volume in node.volumes.all() {
        let route = node.workers.deps.route_to(volume.id()).expect("a route");
        count += route.peer.releases(volume.id(), None, 100).await.map_or(1, |page| page.len());
    }
    count
}

/// The next report of superseded data.
fn superseded(reports: &mut Reports) -> (RegisterKey, Vec<DataRef>) {
    loop {
        match reports.received.try_recv().expect("a report").1 {
            Report::Superseded { key, data, .. } => return (key, data),
            Report::Heal(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_part_is_released_when_its_upload_is_closed() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    let mut reports = node.reports.take().expect("taken once");
    let (name, upload) = begun_upload(&node).await;
    for seed in [1, 2] {
        let name = PartName { name: name.clone(), upload, number: 1 };
        node.objects.put_part(name, super::upload(&body(seed, 100_000))).await.expect("a part is stored");
    }
    let (key, data) = superseded(&mut reports);
    let [replaced] = data[..] else { panic!("one part was replaced") };
    assert!(node.workers.releaser.may_be_carried(&key).await, "a Complete may have read it");
    node.objects.abort_upload(name, upload).await.expect("it is given up");
    assert!(!node.workers.releaser.may_be_carried(&key).await);
    assert_eq!(node.workers.releaser.release_data_id(&key, replaced, false).await, ReleaseOutcome::Done);
    let subject = HealSubject::new(&node.workers.deps, &key, replaced).expect("fits its set");
    assert_eq!(subject.look(false).await.broken.len(), 4);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_part_that_a_complete_carried_stays() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (name, upload) = begun_upload(&node).await;
    let part = PartName { name: name.clone(), upload, number: 1 };
    let stored =
        node.objects.put_part(part, super::upload(&body(1, 100_000))).await.expect("a part is stored");
    let parts = vec![ListedPart { number: 1, etag: stored.etag, checksum: None }];
    let conditions = WriteConditions::default();
    let complete =
        CompleteUpload { name, upload, parts, checksum: None, checksum_kind: None, size: None, conditions };
    node.objects.complete_upload(complete).await.expect("an object");
    let key = RegisterKey { part: Some(PartKey { upload, number: 1 }), ..node.register("a").await };
    let carried = node.workers.deps.registers.read(&node.register("a").await).await.expect("readable");
    let [carried] = carried.expect("there").value.data_refs()[..] else { panic!("one part") };
    // As after a Complete that had read the part before another replaced it.
    assert!(!node.workers.releaser.may_be_carried(&key).await, "the upload is closed");
    let released = node.workers.releaser.release_data_id(&key, carried, false).await;
    assert_eq!(released, ReleaseOutcome::Done, "nothing is left to do");
    assert_eq!(node.get("a").await, Some(body(1, 100_000)));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_whose_client_went_away_closes_its_parts() {
    for _ in 0..50 {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        let (part, complete) = uploaded(&node).await;
        let is_cut_short = {
            // The request is dropped after its accept took effect and before its answer; unless its own tasks
            // came to the end of it between two looks.
            let mut request = Box::pin(node.objects.complete_upload(complete));
            loop {
                if node.get("a").await.is_some() {
                    break true;
                }
                if futures::poll!(&mut request).is_ready() {
                    break false;
                }
            }
        };
        until_closed(&node, &part).await;
        assert_eq!(node.get("a").await, Some(body(1, 100_000)));
        node.close().await;
        if is_cut_short {
            return;
        }
    }
    panic!("each request had its answer before its object was seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_that_is_repeated_closes_the_parts_that_the_first_one_left() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (part, complete) = uploaded(&node).await;
    let stored = node.workers.deps.registers.read(&part).await.expect("readable").expect("there").value.state;
    node.objects.complete_upload(complete.clone()).await.expect("an object");
    until_closed(&node, &part).await;
    put_back(&node, &part, stored).await;
    node.objects.complete_upload(complete).await.expect("the same object");
    until_closed(&node, &part).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_is_closed_late_reports_nothing_that_its_object_names() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    let (part, complete) = uploaded(&node).await;
    let stored = node.workers.deps.registers.read(&part).await.expect("readable").expect("there").value.state;
    node.objects.complete_upload(complete).await.expect("an object");
    until_closed(&node, &part).await;
    put_back(&node, &part, stored).await;
    node.clock.advance(30 * HOUR_MS);
    node.workers.scrubber.parts.close_old_part(&part).await;
    until_closed(&node, &part).await;
    let mut reports = node.reports.take().expect("taken once");
    while let Ok((_, report)) = reports.received.try_recv() {
        assert!(matches!(report, Report::Heal(_)), "the object names what the part named: {report:?}");
    }
    assert_eq!(node.get("a").await, Some(body(1, 100_000)));
    node.close().await;
}

/// The object that took the part over was replaced, and its bytes released, before the part was closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_a_crash_left_open_wants_nothing_healed_that_its_object_let_go() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (part, complete) = uploaded(&node).await;
    let stored = node.workers.deps.registers.read(&part).await.expect("readable").expect("there").value.state;
    node.objects.complete_upload(complete).await.expect("an object");
    until_closed(&node, &part).await;
    let (object, data) = (node.register("a").await, stored.data_refs()[0]);
    put_back(&node, &part, stored).await;
    node.put("a", &body(2, 100_000)).await;
    assert_eq!(node.workers.releaser.release_data_id(&object, data, false).await, ReleaseOutcome::Done);
    assert_eq!(node.workers.healer.heal_data(&part, data.id).await, HealOutcome::Unnamed);
    until_closed(&node, &part).await;
    node.close().await;
}

/// A shorter grace that is set meanwhile holds for what is replaced later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_replaced_under_a_longer_grace_keeps_it() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    node.put("a", &body(2, 100_000)).await;
    let (key, data) = superseded(&mut node.reports.take().expect("taken once"));
    let (gateway, _) = node.scripted_gateway(RegisterTimeouts::default());
    let grace =
        |ms| UpkeepTuning { release_grace: Duration::from_millis(ms), ..node.workers.deps.settings.into() };
    for workers in [&node.workers, &gateway.workers] {
        workers.deps.tuning.change(grace(limits::RELEASE_GRACE_MS), workers.deps.wall_ms());
    }
    gateway.workers.releaser.queue_release(&key, &data, &[]);
    node.put("b", &body(3, 1_000)).await;
    until_notes(&node, 2).await;
    for workers in [&node.workers, &gateway.workers] {
        workers.deps.tuning.change(grace(limits::RELEASE_GRACE_MS_MIN), workers.deps.wall_ms() + 60_000);
    }
    node.clock.advance(limits::RELEASE_GRACE_MS_MIN + OVERDUE_AFTER_MS + 1_000);
    gateway.clock.pass_us((limits::RELEASE_GRACE_MS_MIN + 1_000) * 1_000);
    assert!(!gateway.workers.releaser.release_what_is_due().await, "its gateway keeps it");
    node.clock.pass_us(10_000_000);
    node.workers.releaser.read_overdue_notes().await;
    assert_eq!(node.workers.releaser.status().len, 0, "it is not overdue for the others either");
    node.close().await;
}

/// The gateway that replaced it is gone, and the volumes that have its notes were not opened since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_only_noted_replaced_data_releases_it_once_its_gateway_does_not() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    let (register, old) = (node.register("a").await, node.data("a").await);
    // The volumes were opened before that, and their notes read.
    node.workers.releaser.read_notes().await;
    node.put("a", &body(2, 100_000)).await;
    let (key, data) = superseded(&mut node.reports.take().expect("taken once"));
    let (gateway, _) = node.scripted_gateway(RegisterTimeouts::default());
    gateway.workers.releaser.queue_release(&key, &data, &[]);
    drop(gateway);
    node.put("b", &body(3, 1_000)).await;
    until_notes(&node, 2).await;
    node.workers.releaser.read_notes().await;
    node.workers.releaser.read_overdue_notes().await;
    assert_eq!(node.workers.releaser.status().len, 0, "its gateway has it");
    node.clock.advance(limits::RELEASE_GRACE_MS - limits::RELEASE_GRACE_MS_MIN + 30_000);
    node.clock.pass_us(10_000_000);
    node.workers.releaser.read_overdue_notes().await;
    assert_eq!(node.workers.releaser.status().len, 1, "taken up before its grace is over");
    assert!(!node.workers.releaser.release_what_is_due().await, "its gateway comes first");
    let subject = HealSubject::new(&node.workers.deps, &register, old).expect("fits its set");
    let released = async {
        while subject.look(false).await.broken.len() < 4 {
            if !node.workers.releaser.release_what_is_due().await {
                node.clock.pass_us(limits::RELEASE_GRACE_MS_MIN * 1_000);
            }
        }
    };
    tokio::time::timeout(super::DEADLINE, released).await.expect("its space is given back");
    until_forgotten(&node).await;
    node.close().await;
}

/// As above, but the gateway is there and was first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_its_gateway_released_is_not_released_again() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    node.workers.releaser.read_notes().await;
    node.put("a", &body(2, 100_000)).await;
    let (key, data) = superseded(&mut node.reports.take().expect("taken once"));
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    gateway.workers.releaser.queue_release(&key, &data, &[]);
    node.put("b", &body(3, 1_000)).await;
    until_notes(&node, 2).await;
    node.clock.advance(limits::RELEASE_GRACE_MS + 30_000);
    node.workers.releaser.read_overdue_notes().await;
    assert_eq!(node.workers.releaser.status().len, 1);
    gateway.clock.pass_us((limits::RELEASE_GRACE_MS + 1_000) * 1_000);
    assert!(gateway.workers.releaser.release_what_is_due().await);
    assert_eq!(script.released.lock().len(), 2, "both notes are done");
    node.put("b", &body(4, 1_000)).await;
    until_notes(&node, 0).await;
    node.clock.pass_us(limits::RELEASE_GRACE_MS_MIN * 1_000);
    let emptied = async {
        while node.workers.releaser.status().len > 0 {
            node.workers.releaser.release_what_is_due().await;
        }
    };
    tokio::time::timeout(super::DEADLINE, emptied).await.expect("it leaves the queue");
    assert_eq!(node.workers.releaser.status().released_count, 0);
    node.close().await;
}

/// Waits until `count` notes of replaced data are in the logs.
async fn until_notes(node: &Node, count: usize) {
    let noted = async {
        while notes(node).await != count {
            between_looks().await;
        }
    };
    tokio::time::timeout(super::DEADLINE, noted).await.expect("the notes are there in time");
}

/// On one volume its removal comes first and the shard after it, or the removal does not get there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_its_writer_did_not_reach_is_released_after_a_grace() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    let register = node.register("a").await;
    for is_overtaken in [true, false] {
        let (mut gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        let slow = gateway.workers.deps.cluster.set_of(&register).routes[0].volume;
        says(
            &script.shard_puts,
            move |volume, _| {
                if is_overtaken && volume == slow { Fate::Silence } else { Fate::Through }
            },
        );
        says(&script.shard_deletes, move |volume, _| {
            let cut_off = message::Error::Unreachable { reason: "cut off".to_owned() };
            match volume == slow {
                true if is_overtaken => Fate::Instead(Ok(())),
                true => Fate::Instead(Err(cut_off)),
                false => Fate::Through,
            }
        });
        let data = given_up(&gateway, &register).await;
        let mut from_writers = gateway.reports.as_mut().expect("not taken").take_given_up().expect("once");
        tokio::time::timeout(super::DEADLINE, async {
            // Cancel-safe: the test is over with it.
            tokio::select! {
                biased;
                () = gateway.workers.reports.follow_given_up(&mut from_writers) => panic!("the gateway is there"),
                () = async {
                    while gateway.workers.releaser.status().len == 0 {
                        between_looks().await;
                    }
                } => {}
            }
        })
        .await
        .expect("it is queued");
        let is_left = async || {
            let route = node.workers.deps.route_to(slow).expect("a route");
            let shards = (0..4).map(|index| ShardId { data: data.id, index });
            let asked = shards.map(|shard| route.peer.shard_bytes(slow, shard, data.home));
            join_all(asked).await.iter().any(Result::is_ok)
        };
        tokio::time::timeout(super::DEADLINE, async {
            while !is_left().await {
                between_looks().await;
            }
        })
        .await
        .expect("the shard comes, and stays");
        let released = async {
            while is_left().await {
                if !gateway.workers.releaser.release_what_is_due().await {
                    gateway.clock.pass_us(limits::RELEASE_GRACE_MS * 1_000);
                }
            }
        };
        tokio::time::timeout(super::DEADLINE, released).await.expect("its space is given back");
    }
    assert_eq!(node.get("a").await, Some(body(1, 100_000)));
    node.close().await;
}

/// A writer whose every shard and every removal was answered leaves nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_was_given_up_and_removed_is_forgotten() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 100_000)).await;
    let register = node.register("a").await;
    let (mut gateway, _script) = node.scripted_gateway(RegisterTimeouts::default());
    let data = given_up(&gateway, &register).await;
    let Node { workers, reports, .. } = &mut gateway;
    let mut from_writers = reports.take().expect("not taken").take_given_up().expect("once");
    let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
    tokio::time::timeout(super::DEADLINE, async {
        // Cancel-safe: the test is over with it.
        tokio::select! {
            biased;
            () = workers.reports.follow_given_up(&mut from_writers) => panic!("the gateway is there"),
            () = async {
                while subject.look(false).await.broken.len() < 4 {
                    between_looks().await;
                }
            } => {}
        }
    })
    .await
    .expect("its writer removes it");
    assert_eq!(workers.releaser.status().len, 0);
    node.close().await;
}

/// Packed data that a gateway writes under a key, and gives up before an accept names it.
async fn given_up(gateway: &Node, key: &RegisterKey) -> DataRef {
    let mut writer =
        gateway.stripes().write(&gateway.route(key), 100_000, Home::Packed).await.expect("there is room");
    writer.push(body(2, 100_000)).await.expect("taken");
    let staged = writer.seal().await.expect("sent").durable().await.expect("on three volumes");
    staged.data()
}
