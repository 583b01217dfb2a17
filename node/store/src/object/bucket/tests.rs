//! Buckets that are deleted while others write into them, delete them too, or take their deletion for
//! left behind.

use std::time::Duration;

use futures::future::join_all;

use sherd_core::id::VolumeId;
use sherd_core::message;
use sherd_core::message::{Control, UnsettledKind, ValueLimit};
use sherd_core::record::Object;
use sherd_core::register::seal::DeletionDecision;
use sherd_core::register::{CommitHint, Positions};

use super::*;
use crate::object::{
    BucketRef, BucketView, ListRequest, NewBucket, ObjectName, Objects, PutRequest, ReadConditions,
    ReadRequest, Span, WriteConditions,
};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::tests::{DEADLINE, Directories, Node, body, key_of, upload};

/// Rounds of a race: in each, who comes first is the machine's choice.
const ROUNDS: usize = 200;
/// How much later a deletion begins than what it races, at most.
const MOMENTS: usize = 40;

async fn put(node: &Node, name: &ObjectName) -> Result<()> {
    let request = PutRequest {
        name: name.clone(),
        attributes: sherd_core::record::Attributes::default(),
        tags: sherd_core::record::ObjectTags::default(),
        conditions: WriteConditions::default(),
        upload: upload(&body(1, 100)),
    };
    node.objects().put(request).await.map(drop)
}

async fn is_there(node: &Node, name: &ObjectName) -> bool {
    let conditions = ReadConditions::default();
    node.objects().get(ReadRequest { name: name.clone(), span: Span::Whole, conditions }).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_races_the_deletion_of_its_bucket_is_told_nothing_wrong() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for round in 0..ROUNDS {
        let bucket = key_of(&format!("bucket-{round}"));
        node.objects().create_bucket(bucket.clone(), NewBucket::default()).await.expect("created");
        let names = ["a", "b", "c"].map(|key| ObjectName { bucket: bucket.clone().into(), key: key_of(key) });
        let puts = join_all(names.iter().map(|name| put(&node, name)));
        let deletion = async {
            for _ in 0..round % MOMENTS {
                tokio::task::yield_now().await;
            }
            node.objects().delete_bucket(bucket.clone(), true).await
        };
        let (puts, deleted) = tokio::join!(puts, deletion);
        assert!(matches!(deleted, Ok(()) | Err(Error::BucketNotEmpty)), "{deleted:?}");
        for (name, put) in names.iter().zip(puts) {
            match put {
                Ok(()) => assert!(is_there(&node, name).await, "{name:?} was acknowledged; {deleted:?}"),
                // Unknown, where a volume took it that the deletion did not hear of.
                Err(Error::Missing(MissingResource::Bucket) | Error::OutcomeUnknown) => {
                    assert!(deleted.is_ok(), "the bucket is there");
                }
                Err(other) => panic!("{name:?}: {other:?}; {deleted:?}"),
            }
        }
    }
    node.close().await;
}

/// Deletes a bucket as another gateway would that finds it empty; `sealed_count` volumes are sealed.
async fn delete_elsewhere(objects: &Objects, bucket: ObjectKey, id: BucketId, sealed_count: usize) {
    let buckets = &objects.inner.buckets;
    let (route, deletion) = (buckets.route(bucket), buckets.new_deletion());
    let (deleting, epoch) = (BucketPhase::Deleting { deletion }, objects.inner.under.cluster.epoch());
    let moved = buckets.move_bucket(&route, id, BucketPhase::Active, deleting, true).await;
    assert_eq!(moved.expect("changed"), Ok(()));
    for route in objects.inner.under.cluster.sets()[0].routes.iter().take(sealed_count) {
        let sealed = route.peer.control(route.volume, Control::Seal { bucket: id, deletion, epoch }).await;
        assert!(matches!(&sealed, Ok(answer) if answer.result.is_ok()), "{sealed:?}");
    }
    let moved = buckets.move_bucket(&route, id, deleting, BucketPhase::Deleted, true).await;
    assert_eq!(moved.expect("changed"), Ok(()));
}

/// A gateway may have shown a row before the bucket went if any volume took it: then "no such bucket" would
/// be false. A row that no volume took is never seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_told_that_its_bucket_is_gone_only_where_no_volume_took_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for sealed_count in [4, 3] {
        let (objects, bucket) = (node.objects(), key_of(&format!("bucket-{sealed_count}")));
        objects.create_bucket(bucket.clone(), NewBucket::default()).await.expect("created");
        let id = objects.bucket(&bucket).await.expect("there").id;
        let route = node.route(&RegisterKey::object(id, key_of("a")));
        let (elsewhere, name) = (objects.clone(), bucket.clone());
        // Between the prepare and the accept.
        let decide = move |_: Option<&State>| {
            let deleted = delete_elsewhere(&elsewhere, name.clone(), id, sealed_count);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(deleted));
            Ok(Proposal::of(State::Object(Object::default())))
        };
        let ticket = node.registers().begin_at(&route);
        let told = objects.inner.under.change(&bucket, &route, ticket, Writer::new(decide)).await;
        let mut taken_count = 0;
        for volume in &objects.inner.under.cluster.sets()[0].routes {
            let rows = volume.peer.unsettled(volume.volume, UnsettledKind::Uncommitted, None, 10);
            let rows = rows.await.expect("readable").rows;
            taken_count += rows.iter().filter(|row| row.key == *route.key()).count();
        }
        match told {
            Err(Error::Missing(MissingResource::Bucket)) => assert_eq!((sealed_count, taken_count), (4, 0)),
            Err(Error::OutcomeUnknown) => assert_eq!((sealed_count, taken_count), (3, 1)),
            other => panic!("{sealed_count} volumes are sealed: {other:?}"),
        }
    }
    node.close().await;
}

/// A gateway remembers the id of a bucket that another has deleted, for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_no_names_asks_whether_its_bucket_is_there() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (objects, bucket) = (node.objects(), key_of("bucket"));
    objects.create_bucket(bucket.clone(), NewBucket::default()).await.expect("created");
    let view = objects.bucket(&bucket).await.expect("it is there");
    let list = || {
        let (prefix, delimiter, after) = (String::new(), None, None);
        objects.list(ListRequest { bucket: bucket.clone().into(), prefix, delimiter, after, max_keys: 0 })
    };
    assert!(list().await.is_ok_and(|page| page.entries.is_empty()));
    objects.delete_bucket(bucket.clone(), true).await.expect("deleted");
    let views = &objects.inner.under.views;
    views.fill(views.start(&view.name), &view.name.clone(), view);
    let listed = list().await;
    assert!(matches!(listed, Err(Error::Missing(MissingResource::Bucket))), "{listed:?}");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_takes_what_its_request_found_of_the_bucket() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let objects = node.objects();
    let list = |bucket: BucketRef| {
        let (prefix, delimiter, after) = (String::new(), None, None);
        objects.list(ListRequest { bucket, prefix, delimiter, after, max_keys: 10 })
    };
    let found = objects.bucket_of_request(key_of("bucket")).await;
    let view = found.view().expect("it is there").clone();
    assert_eq!(objects.remembered_bucket(&view.name), Some(view.clone()));
    let name = ObjectName { bucket: found.clone(), key: key_of("a") };
    put(&node, &name).await.expect("stored");
    assert!(is_there(&node, &ObjectName { bucket: key_of("bucket").into(), ..name.clone() }).await);
    // Objects lie under the id: another one shows none of those that the bucket of that name has.
    let elsewhere = BucketRef::from(BucketView { id: BucketId([9; 16]), ..view });
    assert!(!is_there(&node, &ObjectName { bucket: elsewhere.clone(), ..name.clone() }).await);
    assert!(list(elsewhere).await.expect("listed").entries.is_empty());
    assert_eq!(list(found).await.expect("listed").entries.len(), 1);
    // A failure of the look-up is the verb's, though the bucket is there by now.
    let missing = objects.bucket_of_request(key_of("missing")).await;
    let BucketRef::Failed { error, .. } = missing else { panic!("there is no such bucket: {missing:?}") };
    let failed = BucketRef::Failed { name: key_of("bucket"), error };
    let outcome = put(&node, &ObjectName { bucket: failed.clone(), ..name }).await;
    assert!(matches!(outcome, Err(Error::Missing(MissingResource::Bucket))), "{outcome:?}");
    let outcome = objects.delete_many(failed.clone(), Vec::new()).await;
    assert!(matches!(outcome, Err(Error::Missing(MissingResource::Bucket))), "{outcome:?}");
    assert!(matches!(list(failed).await, Err(Error::Missing(MissingResource::Bucket))));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_deletions_that_race_one_wins_and_the_others_find_nothing() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for _ in 0..ROUNDS / 4 {
        node.create_bucket().await;
        let outcomes = join_all((0..3).map(|_| node.objects().delete_bucket(key_of("bucket"), true))).await;
        let lost = |outcome: &&Result<()>| matches!(outcome, Err(Error::Missing(MissingResource::Bucket)));
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(lost).count(), 2, "{outcomes:?}");
    }
    node.close().await;
}

/// The deletion's seals come after those that another gateway removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_was_undone_by_another_gateway_leaves_no_seal() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let buckets = &node.objects().inner.buckets;
    let route = buckets.route(key_of("bucket"));
    let id = node.objects().bucket(&key_of("bucket")).await.expect("there").id;
    let deletion = buckets.new_deletion();
    let (active, deleting) = (BucketPhase::Active, BucketPhase::Deleting { deletion });
    for decision in [DeletionDecision::End, DeletionDecision::NotEmpty] {
        assert_eq!(buckets.move_bucket(&route, id, active, deleting, true).await.expect("changed"), Ok(()));
        assert_eq!(buckets.move_bucket(&route, id, deleting, active, true).await.expect("undone"), Ok(()));
        buckets.seal_and_list(id, deletion).await;
        assert_eq!(node.seals().len(), 4, "it does not know yet");
        let moved = buckets.conclude(&route, id, deletion, decision).await;
        assert_eq!(moved.expect("readable"), Err(PhaseError::OtherPhase));
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
        let created = node.objects().create_bucket(key_of("bucket"), NewBucket::default());
        let (deleted, created) = tokio::join!(node.objects().delete_bucket(key_of("bucket"), true), created);
        deleted.expect("nothing is in it");
        match created {
            Ok(()) => node.objects().delete_bucket(key_of("bucket"), true).await.expect("it is there"),
            Err(Error::BucketAlreadyOwnedByYou) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    node.close().await;
}

/// Other nodes see by the ballot that a deletion is not left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_row_of_a_deletion_is_written_anew_while_it_lists() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let buckets = &node.objects().inner.buckets;
    let route = buckets.route(key_of("bucket"));
    let id = node.objects().bucket(&key_of("bucket")).await.expect("there").id;
    let deleting = BucketPhase::Deleting { deletion: buckets.new_deletion() };
    assert_eq!(
        buckets.move_bucket(&route, id, BucketPhase::Active, deleting, true).await.expect("changed"),
        Ok(())
    );
    let ballot = async || node.registers().read(route.key()).await.expect("readable").expect("there").ballot;
    let before = ballot().await;
    let listing = async {
        while ballot().await == before {
            crate::upkeep::tests::between_looks().await;
        }
    };
    let listed = buckets.kept_alive(&route, Duration::from_millis(1), listing);
    tokio::time::timeout(DEADLINE, listed).await.expect("it is written anew");
    let moved = buckets.move_bucket(&route, id, deleting, BucketPhase::Deleted, true).await;
    assert_eq!(moved.expect("changed"), Ok(()), "it is the same deletion");
    node.close().await;
}

/// Leaves tombstones that one volume missed while it was away, over rows that it has as committed. The volume
/// votes again before it is healed.
async fn deleted_without(node: &Node, away: VolumeId, keys: &[&str]) {
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let lost = || Fate::Instead(Err(message::Error::Unreachable { reason: "away".to_owned() }));
    says(&script.accepts, move |volume, _| if volume == away { lost() } else { Fate::Through });
    let cluster = &node.objects().inner.under.cluster;
    for key in keys {
        node.put_everywhere(key, &body(1, 100)).await;
        let register = node.register(key).await;
        let (set, target) = (cluster.set_of(&register), cluster.target(register.clone()));
        let route = set.routes.iter().find(|route| route.volume == away).expect("of the set");
        let is_told = async {
            loop {
                let vote = route.peer.read(away, &target, ValueLimit::NOTHING).await.expect("it answers");
                let head = vote.result.expect("it votes").row.expect("it has it").head;
                if head.committed {
                    return;
                }
                // A hint rides with the frame of another write.
                let (is_everywhere, positions) = (true, Positions::default());
                let commit = CommitHint { ballot: head.ballot, is_everywhere, positions };
                route.peer.commit(away, &target, &commit);
                let other = RegisterKey::object(BucketId([7; 16]), key_of("other"));
                let told = node.registers().change(node.registers().begin(&other), tombstone()).await;
                told.expect("a healthy node");
            }
        };
        tokio::time::timeout(DEADLINE, is_told).await.expect("told in time");
        let told = gateway.registers().change(gateway.registers().begin(&register), tombstone()).await;
        told.expect("three of four take it");
    }
}

fn tombstone() -> Writer<()> {
    Writer::new(|_| Ok(Proposal::of(State::Tombstone)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_goes_although_a_volume_missed_that_its_objects_were_deleted() {
    for is_one_more_away in [false, true] {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let routes = &node.objects().inner.under.cluster.sets()[0].routes;
        let [silent, behind] = [routes[0].volume, routes[3].volume];
        node.create_bucket().await;
        deleted_without(&node, behind, &["a", "b", "c"]).await;
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        says(&script.controls, move |volume, _| {
            let lost = || Fate::Instead(Err(message::Error::Unreachable { reason: "away".to_owned() }));
            if is_one_more_away && volume == silent { lost() } else { Fate::Through }
        });
        let deleted = gateway.objects().delete_bucket(key_of("bucket"), true).await;
        assert!(deleted.is_ok(), "one more away: {is_one_more_away}: {deleted:?}");
        node.close().await;
    }
}

/// A key that one volume alone shows as live is looked up, and is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_stays_for_an_object_beside_others_that_a_volume_does_not_know_to_be_deleted() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let away = node.objects().inner.under.cluster.sets()[0].routes[3].volume;
    node.create_bucket().await;
    deleted_without(&node, away, &["a", "b"]).await;
    node.put_everywhere("z", &body(1, 100)).await;
    let deleted = node.objects().delete_bucket(key_of("bucket"), true).await;
    assert!(matches!(deleted, Err(Error::BucketNotEmpty)), "{deleted:?}");
    assert!(node.get("z").await.is_some());
    node.close().await;
}
