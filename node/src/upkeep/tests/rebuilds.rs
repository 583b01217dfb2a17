//! A volume's rebuild of its shards, and what is known of it.

use std::sync::Arc;

use sherd_core::heal::HealEntry;
use sherd_core::message::Error;

use super::{Directories, body};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::{OpeningStatus, Upkeep};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_a_restart_cut_short_is_known_before_the_volume_passes_for_whole() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("file", &body(1, 2_000_000)).await;
    let volume = Arc::clone(&node.volumes.all()[0]);
    node.context.remember(volume.id(), |progress| progress.wants_shards = true).await.expect("written");
    let (register, data) = (node.register("file").await, node.data("file").await);
    let damage = HealEntry { key: register, data: Some(data.into()), since_ms: 1 };
    let other = node.volumes.all()[2].id();
    node.context.route_to(other).expect("in a set").upkeep.heal_put(other, &damage).await.expect("noted");
    node.close().await;

    let node = directories.start().await;
    let volume = &node.volumes.all()[0];
    let upkeep = Upkeep::over(Arc::clone(&node.context));
    let standing = || upkeep.standing(volume.id(), volume.opened_count());
    assert_eq!((standing(), upkeep.status().mrf.len), (OpeningStatus::Unknown, 0));
    assert!(node.context.take_stock(volume.id()).await);
    assert!(matches!(standing(), OpeningStatus::Recovering(_)), "{:?}", standing());
    assert_eq!(upkeep.status().mrf.len, 1, "what the logs hold counts from here on");
    assert!(node.comes_back(volume).await);
    assert_eq!(standing(), OpeningStatus::Known);
    assert_eq!(
        upkeep.standing(volume.id(), volume.opened_count() + 1),
        OpeningStatus::Unknown,
        "a later opening"
    );
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_is_over_when_what_it_could_not_do_is_in_a_log() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("file", &body(1, 2_000_000)).await;
    let (register, data) = (node.register("file").await, node.data("file").await);
    for index in 0..3 {
        std::fs::remove_file(node.file(&register, &data, index)).expect("removed");
    }
    let volume = node.home(&register, &data, 0);
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    gateway.context.remember(volume, |progress| progress.wants_shards = true).await.expect("written");
    says(&script.heals, |_, _| Fate::Instead(Err(Error::Full)));
    assert!(gateway.context.rebuild_shards(volume).await.is_err(), "a kill would forget what is missing");
    assert!(gateway.context.progress(volume).await.expect("readable").wants_shards);

    says(&script.heals, |_, _| Fate::Through);
    gateway.context.rebuild_shards(volume).await.expect("queued");
    assert!(!gateway.context.progress(volume).await.expect("readable").wants_shards);
    assert!(gateway.context.mrf.are_all_logged());
    drop(gateway);
    node.close().await;
}
