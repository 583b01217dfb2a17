//! Shards that go missing or rot, rows that fall behind: found, and made whole again.

use sherd_core::heal::{DamagedData, HealEntry};
use sherd_core::message::{Control, Error};
use sherd_core::record::{ObjectTags, Tag};

use std::time::Duration;

use super::sweeps::{seal, tell};
use super::{DEADLINE, Directories, Node, body, name};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::UpkeepTuning;
use crate::upkeep::progress::ScrubProgress;
use crate::upkeep::queue::entries::Spare;
use crate::upkeep::rows::bring::heal_row;
use crate::upkeep::rows::bring::{HealOutcome, Obstacle};
use crate::upkeep::shards::check::ShardLook;
use crate::upkeep::shards::subject::HealSubject;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_and_a_rotten_shard_file_are_rebuilt() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let bytes = body(1, 3_000_000);
    node.put("large", &bytes).await;
    let (register, data) = (node.register("large").await, node.data("large").await);
    std::fs::remove_file(node.file(&register, &data, 0)).expect("removed");
    let rotten = node.file(&register, &data, 3);
    let mut stored = std::fs::read(&rotten).expect("read");
    stored[700_000] ^= 1;
    std::fs::write(&rotten, stored).expect("written");

    let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
    let mut broken = subject.look(true).await.broken;
    broken.sort_unstable();
    assert_eq!(broken, [0, 3]);
    assert_eq!(node.get("large").await, Some(bytes.clone()), "two of four are enough to read");

    assert_eq!(node.workers.healer.heal_data(&register, data.id).await, HealOutcome::Whole);
    assert!(subject.look(true).await.broken.is_empty());
    // The healed ones alone give the object back.
    std::fs::remove_file(node.file(&register, &data, 1)).expect("removed");
    std::fs::remove_file(node.file(&register, &data, 2)).expect("removed");
    assert_eq!(node.get("large").await, Some(bytes));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_packed_shard_is_rebuilt() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let bytes = body(2, 100_000);
    node.put("packed", &bytes).await;
    let (register, data) = (node.register("packed").await, node.data("packed").await);
    let route = node.workers.deps.route_to(node.home(&register, &data, 2)).expect("a route");
    let shard = sherd_core::id::ShardId { data: data.id, index: 2 };
    route.peer.delete_shard(route.volume, shard, data.home).await.expect("deleted");
    let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
    assert_eq!(subject.look(false).await.broken, [2]);
    // As the volume's opening queues it: the register was not read yet.
    let entry = HealEntry { key: register, data: Some(DamagedData::Id(data.id)), since_ms: 1 };
    assert_eq!(node.workers.healer.heal(&entry).await, HealOutcome::Whole);
    assert!(subject.look(true).await.broken.is_empty());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_survive_a_heal_of_shards_and_of_a_row() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let tag = Tag { key: "k".to_owned(), value: "v".to_owned() };
    let tags = ObjectTags::encode(std::slice::from_ref(&tag)).expect("within limits");
    for (key, length) in [("inline", 1_000), ("packed", 100_000), ("large", 3_000_000)] {
        let bytes = body(5, length);
        node.put(key, &bytes).await;
        let register = node.register(key).await;
        // A volume that does not take the change, as one that is away: its row is healed.
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        let away = node.volumes.all()[1].id();
        let lost = || Fate::Instead(Err(Error::Unreachable { reason: "away".to_owned() }));
        says(&script.accepts, move |volume, _| if volume == away { lost() } else { Fate::Through });
        gateway.objects().set_tags(&name(key), tags.clone(), None).await.expect("tagged");
        drop(gateway);
        assert_eq!(heal_row(&node.workers.deps, &register).await, HealOutcome::Whole);
        if length > 1_000 {
            let data = node.data(key).await;
            let subject = HealSubject::new(&node.workers.deps, &register, data).expect("fits its set");
            let shard = sherd_core::id::ShardId { data: data.id, index: 2 };
            let route = node.workers.deps.route_to(node.home(&register, &data, 2)).expect("a route");
            route.peer.delete_shard(route.volume, shard, data.home).await.expect("deleted");
            assert_eq!(node.workers.healer.heal_data(&register, data.id).await, HealOutcome::Whole);
            assert!(subject.look(true).await.broken.is_empty());
        }
        assert_eq!(node.objects().tags(&name(key)).await.expect("readable"), std::slice::from_ref(&tag));
        assert_eq!(node.get(key).await, Some(bytes), "{key}");
    }
    node.close().await;
    let node = directories.start().await;
    for key in ["inline", "packed", "large"] {
        assert_eq!(node.objects().tags(&name(key)).await.expect("readable"), std::slice::from_ref(&tag));
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_a_sealed_bucket_waits_for_the_deletion() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(1, 1_000)).await;
    let register = node.register("a").await;
    // One volume that is sealed by itself, and all of them.
    for sealed in [0..1, 0..4] {
        seal(&node, sealed).await;
        let HealOutcome::Later { reason, .. } = heal_row(&node.workers.deps, &register).await else {
            panic!("it cannot be known to be whole");
        };
        assert_eq!(reason, "bucket sealed");
    }
    tell(&node, 0..4, &Control::SealForEver { bucket: register.bucket }).await;
    assert_eq!(heal_row(&node.workers.deps, &register).await, HealOutcome::Unnamed);
    node.workers
        .scrubber
        .checker
        .check_register(&register, ShardLook::Everywhere)
        .await
        .expect("all of it is there");
    let findings_count = node.workers.scrubber.status().findings_count;
    assert_eq!((findings_count, node.workers.queue.mrf.status().len), (0, 0), "nothing is wrong with it");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_nobody_names_needs_no_heal() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("a", &body(3, 100_000)).await;
    let (register, data) = (node.register("a").await, node.data("a").await);
    node.put("a", &body(4, 100_000)).await;
    assert_eq!(node.workers.healer.heal_data(&register, data.id).await, HealOutcome::Unnamed);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_shards_stay_queued_and_a_restart_loses_none() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("large", &body(5, 1_000_000)).await;
    let (register, data) = (node.register("large").await, node.data("large").await);
    let files: Vec<_> = (0..3).map(|index| node.file(&register, &data, index)).collect();
    let kept = std::fs::read(&files[0]).expect("read");
    for file in &files {
        std::fs::remove_file(file).expect("removed");
    }
    let entry = HealEntry { key: register.clone(), data: Some(data.into()), since_ms: 0 };
    node.workers.queue.put(entry.clone(), Spare(1)).await;
    assert!(matches!(node.workers.healer.heal_data(&register, data.id).await, HealOutcome::Later { .. }));
    node.close().await;

    std::fs::write(&files[0], kept).expect("written");
    let node = directories.start().await;
    assert_eq!(node.workers.queue.mrf.status().len, 0);
    node.workers.queue.load().await;
    assert_eq!(node.workers.queue.mrf.status().len, 1);
    let queued = node.workers.queue.mrf.take(node.workers.deps.now_ms()).expect("due");
    assert_eq!(queued.id(), entry.id());
    assert_eq!(node.workers.healer.heal(&queued).await, HealOutcome::Whole);
    node.close().await;
}

/// Damage that is young holds up no rollout: after a restart, and where the heal of a row finds its shards
/// missing, it must not look younger than it is.
#[tokio::test]
async fn damage_is_as_old_as_its_entry_says() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("large", &body(5, 1_000_000)).await;
    let (register, data) = (node.register("large").await, node.data("large").await);
    let age = Duration::from_secs(20);
    let since_ms = node.workers.deps.wall_ms() - 20_000;
    let is_old = |node: &Node| {
        node.workers.queue.mrf.status().oldest_found.is_some_and(|found| found.elapsed() >= age)
    };
    std::fs::remove_file(node.file(&register, &data, 0)).expect("removed");
    let row = HealEntry { key: register.clone(), data: None, since_ms };
    assert_eq!(node.workers.healer.heal(&row).await, HealOutcome::Whole);
    let shard = HealEntry { key: register, data: Some(data.into()), since_ms };
    assert!(node.workers.queue.mrf.contains(shard.id()) && is_old(&node));
    node.close().await;

    let node = directories.start().await;
    assert_eq!(node.workers.queue.mrf.status().oldest_found, None);
    node.workers.queue.load().await;
    assert!(node.workers.queue.mrf.contains(shard.id()) && is_old(&node));
    assert_eq!(node.workers.healer.heal(&shard).await, HealOutcome::Whole);
    node.close().await;
}

#[tokio::test]
async fn damage_is_in_the_logs_when_as_many_have_it_as_a_write_needs() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let register = node.register("a").await;
    let volumes: Vec<_> =
        node.workers.deps.cluster.set_of(&register).routes.iter().map(|route| route.volume).collect();
    let entry = HealEntry { key: register, data: None, since_ms: 0 };
    let (slow, taken) = (volumes[0], volumes[1]);
    for (others, is_logged) in [(true, true), (false, false)] {
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        says(&script.heals, move |volume, _| match (others, volume == slow) {
            (true, true) => Fate::Silence,
            (true, false) => Fate::Through,
            (false, _) => Fate::Instead(Err(Error::Full)),
        });
        let queued = gateway.workers.queue.put(entry.clone(), Spare(1));
        let queued = tokio::time::timeout(DEADLINE, queued).await.expect("it ends");
        assert_eq!(queued, is_logged);
        let counts = &gateway.workers.deps.report_counts;
        let lost = counts.lost_heals_count();
        assert_eq!(lost, u64::from(!is_logged), "volumes are compared again where no log took it");
        assert!(counts.are_logged(counts.made_heals_count(), lost), "it is not waited for");
        says(
            &script.heals,
            move |volume, _| {
                if volume == taken { Fate::Through } else { Fate::Instead(Err(Error::Full)) }
            },
        );
        assert!(gateway.workers.queue.put(entry.clone(), Spare(1)).await, "one log is enough for a kill");
        assert_eq!(gateway.workers.queue.mrf.status().len, 1);
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_scrub_period_moves_the_next_pass() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let deps = &node.workers.deps;
    let period = |hours| UpkeepTuning { scrub_pass: Duration::from_hours(hours), ..deps.settings.into() };
    deps.tuning.change(period(720), deps.wall_ms());
    let began_ms = deps.wall_ms();
    let changes = deps.tuning.changes();
    node.clock.advance(3 * 3_600_000);
    assert!(node.workers.scrubber.until_next_pass(began_ms) > Duration::from_hours(700));
    deps.tuning.change(period(2), deps.wall_ms());
    assert!(changes.has_changed().expect("it lives"), "the wait for the next pass is woken");
    assert_eq!(node.workers.scrubber.until_next_pass(began_ms), Duration::ZERO);
    deps.tuning.change(period(4), deps.wall_ms());
    let left = node.workers.scrubber.until_next_pass(began_ms);
    assert!(left > Duration::from_mins(30) && left <= Duration::from_hours(1), "{left:?}");
    node.close().await;
}

/// Of data of which too few shards are left no volume's room brings any back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_which_too_few_shards_are_left_does_not_wait_for_room() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("packed", &body(5, 100_000)).await;
    let (register, data) = (node.register("packed").await, node.data("packed").await);
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    *script.full.lock() = (0..3).map(|index| node.home(&register, &data, index)).collect();
    says(&script.shard_puts, |_, _| Fate::Instead(Err(Error::Full)));
    let mut waits_for_room = Vec::new();
    for index in 0..3 {
        let route = node.workers.deps.route_to(node.home(&register, &data, index)).expect("a route");
        let shard = sherd_core::id::ShardId { data: data.id, index };
        route.peer.delete_shard(route.volume, shard, data.home).await.expect("deleted");
        let HealOutcome::Later { obstacle, .. } = gateway.workers.healer.heal_data(&register, data.id).await
        else {
            panic!("it cannot be whole");
        };
        waits_for_room.push(matches!(obstacle, Obstacle::Room(_)));
    }
    assert_eq!(waits_for_room, [true, true, false], "two of four are enough, and one is not");
    drop((gateway, script));
    node.close().await;
}

/// Damage that a scrubber finds while the logs are full is not found again before its next pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_that_no_log_took_is_logged_when_it_cannot_be_healed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("large", &body(5, 1_000_000)).await;
    let (register, data) = (node.register("large").await, node.data("large").await);
    for index in 0..3 {
        std::fs::remove_file(node.file(&register, &data, index)).expect("removed");
    }
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(&script.heals, |_, _| Fate::Instead(Err(Error::Full)));
    let entry = HealEntry { key: register, data: Some(data.into()), since_ms: 0 };
    assert!(!gateway.workers.queue.put(entry.clone(), Spare(1)).await);
    says(&script.heals, |_, _| Fate::Through);
    let queued = gateway.workers.queue.mrf.take(gateway.workers.deps.now_ms()).expect("due");
    gateway.workers.healer.heal_queued(&queued).await;
    assert!(gateway.workers.queue.mrf.contains(entry.id()), "too few shards");
    drop(gateway);
    node.close().await;

    let node = directories.start().await;
    node.workers.queue.load().await;
    assert!(node.workers.queue.mrf.contains(entry.id()));
    node.close().await;
}

/// A place of the scrubber behind it would pass it over until the next pass, and a start would find it
/// nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_forgets_nothing_that_the_scrubber_found_while_no_log_took_it() {
    for is_orderly in [true, false] {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        node.put("large", &body(5, 1_000_000)).await;
        let (register, data) = (node.register("large").await, node.data("large").await);
        std::fs::remove_file(node.file(&register, &data, 2)).expect("removed");
        let volume = node.workers.deps.cluster.set_of(&register).routes[0].volume;
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        says(&script.heals, |_, _| Fate::Instead(Err(Error::Full)));
        gateway.clock.advance(3_600_000);
        gateway
            .workers
            .scrubber
            .progress
            .change(volume, |progress| progress.scrub = Some(begun()))
            .await
            .expect("noted");
        gateway.workers.scrubber.scrub_pass(gateway.local(volume)).await.expect("the pass ends");
        let entry = HealEntry { key: register, data: Some(data.into()), since_ms: 0 };
        assert!(
            gateway.workers.queue.mrf.contains(entry.id()) && !gateway.workers.queue.mrf.are_all_logged()
        );
        let progress = gateway.workers.scrubber.progress.read(volume).await.expect("readable");
        assert_eq!(progress.scrub, Some(begun()), "a restart looks again");

        says(&script.heals, |_, _| Fate::Through);
        if is_orderly {
            gateway.workers.follower.note_peers_at_end().await;
        } else {
            gateway.workers.queue.log_unlogged().await;
        }
        assert!(gateway.workers.queue.mrf.are_all_logged());
        drop(gateway);
        node.close().await;

        let node = directories.start().await;
        node.workers.queue.load().await;
        assert!(node.workers.queue.mrf.contains(entry.id()));
        node.close().await;
    }
}

fn begun() -> ScrubProgress {
    ScrubProgress { began_ms: 1, place: None }
}

/// A volume that is away for a night would fill the logs of the others with rows that nothing is wrong with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_away_is_no_damage_of_every_row() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("inline", &body(1, 1_000)).await;
    node.put("large", &body(2, 1_000_000)).await;
    let registers = [node.register("inline").await, node.register("large").await];
    for register in &registers {
        heal_row(&node.workers.deps, register).await;
    }
    let set = node.workers.deps.cluster.set_of(&registers[0]);
    let (away, compared) = (set.routes[3].volume, set.routes[0].volume);
    node.take_away(away).await;
    for register in &registers {
        let checked = node.workers.scrubber.checker.check_register(register, ShardLook::For(compared)).await;
        assert_eq!(checked, Ok(()));
        let HealOutcome::Later { obstacle, .. } = heal_row(&node.workers.deps, register).await else {
            panic!("the volume that is away has not said that it has the row")
        };
        assert_eq!(obstacle, Obstacle::Absence);
    }
    node.workers.scrubber.scrub_pass(node.local(compared)).await.expect("the pass ends");
    assert_eq!((node.workers.scrubber.status().findings_count, node.workers.queue.mrf.status().len), (0, 0));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scrubber_finds_what_rotted_and_what_is_missing() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("large", &body(6, 1_000_000)).await;
    let (register, data) = (node.register("large").await, node.data("large").await);
    let rotten = node.file(&register, &data, 1);
    let mut stored = std::fs::read(&rotten).expect("read");
    let middle = stored.len() / 2;
    stored[middle] ^= 4;
    std::fs::write(&rotten, stored).expect("written");
    let holder = node.local(node.home(&register, &data, 1));
    node.workers.scrubber.scrub_pass(holder).await.expect("the pass ends");
    let queued = node.workers.queue.mrf.take(node.workers.deps.now_ms()).expect("a finding");
    assert_eq!(queued.data, Some(data.into()));
    assert_eq!(node.workers.healer.heal(&queued).await, HealOutcome::Whole);
    assert_eq!(node.workers.scrubber.status().findings_count, 1);
    node.close().await;
}
