//! Buckets that are deleted while others write into them, delete them too, or take their deletion for
//! left behind.

use futures::future::join_all;

use sherd_core::register::seal::DeletionDecision;

use super::*;
use crate::upkeep::tests::{Directories, key_of};

/// Rounds of a race: in each, who comes first is the machine's choice.
const ROUNDS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_deletions_that_race_one_wins_and_the_others_find_nothing() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for _ in 0..ROUNDS / 4 {
        node.create_bucket().await;
        let outcomes = join_all((0..3).map(|_| node.objects().delete_bucket(key_of("bucket")))).await;
        let lost = |outcome: &&Result<()>| matches!(outcome, Err(Error::Missing(Missing::Bucket)));
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(lost).count(), 2, "{outcomes:?}");
    }
    node.close().await;
}

/// Its seals come after those that another gateway removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_was_undone_by_another_gateway_leaves_no_seal() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let (objects, key) = (node.objects(), RegisterKey::bucket(key_of("bucket")));
    let id = objects.bucket_id(&key.key).await.expect("there");
    let deletion = objects.new_deletion();
    let (active, deleting) = (BucketPhase::Active, BucketPhase::Deleting { deletion });
    for decision in [DeletionDecision::End, DeletionDecision::NotEmpty] {
        assert_eq!(objects.move_bucket(&key, id, active, deleting).await.expect("changed"), Ok(()));
        assert_eq!(objects.move_bucket(&key, id, deleting, active).await.expect("undone"), Ok(()));
        objects.seal_and_list(id, deletion).await;
        assert_eq!(node.seals().len(), 4, "it does not know yet");
        let moved = objects.conclude(&key, id, deletion, decision).await;
        assert_eq!(moved.expect("readable"), Err(NotMoved::OtherPhase));
        assert_eq!(node.seals(), []);
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_created_when_the_deletion_of_the_former_has_ended() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for _ in 0..ROUNDS / 4 {
        node.create_bucket().await;
        let created = node.objects().create_bucket(key_of("bucket"), String::new());
        let (deleted, created) = tokio::join!(node.objects().delete_bucket(key_of("bucket")), created);
        deleted.expect("nothing is in it");
        match created {
            Ok(()) => node.objects().delete_bucket(key_of("bucket")).await.expect("it is there"),
            Err(Error::BucketAlreadyOwnedByYou) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    node.close().await;
}
