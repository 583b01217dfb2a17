//! Objects whose parts stand on a manifest page, looked at while the page cannot be read.

use std::path::{Path, PathBuf};

use sherd_core::heal::HealEntry;
use sherd_core::id::RegisterKey;
use sherd_core::record::{Body, DataRef, Home, PartRef, State, VersionKind, encode_manifest};
use sherd_core::register::EncodedValue;

use super::{Directories, Node, accept_value, body};
use crate::upkeep::rows::bring::HealOutcome;
use crate::upkeep::shards::check::{LookError, ShardLook};

/// An object of one part that stands on a page; all of its shards are files, and there.
struct Paged {
    register: RegisterKey,
    part: DataRef,
    page: DataRef,
}

impl Paged {
    async fn put(node: &Node) -> Self {
        node.put_everywhere("k", &body(1, 3_000_000)).await;
        let register = node.register("k").await;
        let part = stored(node, &register, body(2, 3_000_000)).await;
        let listed = PartRef { number: 1, tag: [0; 16], checksum: None, data: Some(part) };
        let page = stored(node, &register, encode_manifest(&[listed])).await;
        let mut value = node.registers().read(&register).await.expect("readable").expect("there").value;
        let State::Object(object) = &mut value.state else { panic!("not an object") };
        let VersionKind::Content(content) = &mut object.versions[0].kind else { panic!("deleted") };
        content.body = Body::Manifest { page, parts: 1 };
        let value = EncodedValue::new(value.encode(), bytes::Bytes::new());
        let set = node.workers.deps.cluster.set_of(&register);
        accept_value(node, &register, &set.routes, value, node.workers.deps.clock.tick()).await;
        for data in [&part, &page] {
            node.complete(&register, data).await;
        }
        Self { register, part, page }
    }

    /// Takes shards of the page away, so that it cannot be read.
    fn hide_page(&self, node: &Node) -> Vec<PathBuf> {
        let files: Vec<_> = (0..3).map(|index| node.file(&self.register, &self.page, index)).collect();
        for file in &files {
            std::fs::rename(file, file.with_extension("hidden")).expect("moved");
        }
        files
    }

    /// The entry that stands for the row and all that it names.
    fn row(&self) -> HealEntry {
        HealEntry { key: self.register.clone(), data: None, since_ms: 0 }
    }

    /// The page can be read again: what heals the row finds the part's shard missing, and it is made again.
    async fn heals(&self, node: &Node, page: Vec<PathBuf>, part: &Path) {
        assert!(node.workers.queue.mrf.contains(self.row().id()), "nobody would look again");
        assert!(
            matches!(node.workers.healer.heal(&self.row()).await, HealOutcome::Later { .. }),
            "not before"
        );
        for file in page {
            std::fs::rename(file.with_extension("hidden"), file).expect("moved");
        }
        assert_eq!(node.workers.healer.heal(&self.row()).await, HealOutcome::Whole);
        let missing = HealEntry { key: self.register.clone(), data: Some(self.part.into()), since_ms: 0 };
        assert!(node.workers.queue.mrf.contains(missing.id()));
        assert_eq!(node.workers.healer.heal(&missing).await, HealOutcome::Whole);
        assert!(part.exists());
    }
}

async fn stored(node: &Node, register: &RegisterKey, bytes: bytes::Bytes) -> DataRef {
    let size = bytes.len() as u64;
    let mut writer = node.stripes().write(&node.route(register), size, Home::File).await.expect("room");
    writer.push(bytes).await.expect("pushed");
    let mut staged = writer.seal().await.expect("sealed").durable().await.expect("durable");
    staged.set_named();
    staged.data()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_that_cannot_read_a_page_comes_back_to_what_it_lists() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let paged = Paged::put(&node).await;
    let missing = node.file(&paged.register, &paged.part, 1);
    std::fs::remove_file(&missing).expect("removed");
    let hidden = paged.hide_page(&node);

    let volume = node.home(&paged.register, &paged.part, 1);
    node.workers
        .scrubber
        .progress
        .change(volume, |progress| progress.wants_shards = true)
        .await
        .expect("stored");
    node.workers
        .follower
        .shards
        .rebuild_shards(volume)
        .await
        .expect("one page keeps nobody from coming back");
    let wants = node.wants_of(volume).await;
    assert!(wants.iter().any(|logged| logged.want.key == paged.register && logged.want.data.is_none()));
    assert_eq!(node.pass_over(volume).await.ended, 0, "not before the page is back");
    for file in hidden {
        std::fs::rename(file.with_extension("hidden"), file).expect("moved");
    }
    node.commit_everywhere(&paged.register).await;
    assert_eq!(node.pass_over(volume).await.left, 0);
    node.until_nothing_is_wanted(volume).await;
    assert!(missing.exists());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_that_cannot_read_a_page_comes_back_to_what_it_lists() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let paged = Paged::put(&node).await;
    let missing = node.file(&paged.register, &paged.part, 1);
    std::fs::remove_file(&missing).expect("removed");
    let hidden = paged.hide_page(&node);

    let set = node.workers.deps.cluster.set_of(&paged.register);
    node.workers
        .follower
        .comparer
        .catch_up_with(set.routes[1].volume, &set.routes[0], None)
        .await
        .expect("compared");
    paged.heals(&node, hidden, &missing).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_nobody_can_tell_of_is_not_taken_for_there() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let paged = Paged::put(&node).await;
    let homes: Vec<_> = (0..4).map(|index| node.home(&paged.register, &paged.part, index)).collect();
    assert_eq!(
        node.workers.scrubber.checker.check_register(&paged.register, ShardLook::For(homes[3])).await,
        Ok(())
    );
    node.take_away(homes[3]).await;
    for look in [ShardLook::Everywhere, ShardLook::WhileAllAnswer, ShardLook::For(homes[3])] {
        let outcome = node.workers.scrubber.checker.look_at_shards(&paged.register, look, 0).await;
        assert_eq!(outcome, Err(LookError::Unanswered));
    }
    assert_eq!(
        node.workers.scrubber.checker.check_register(&paged.register, ShardLook::For(homes[0])).await,
        Ok(())
    );
    node.close().await;
}
