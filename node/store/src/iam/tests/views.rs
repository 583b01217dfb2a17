//! Views of keys on several gateways to the same volumes, while one of them changes records.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::iam::{AccessKeyId, KeyStatus, PolicyVendor};
use sherd_core::id::ObjectKey;
use sherd_core::message;

use super::*;
use crate::cluster::asker::AskError;
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::tests::{DEADLINE, Directories};
use crate::views::limits::{FORGET_MARGIN, VIEW_PERIOD};

/// The other nodes: each forgets, or does not answer.
#[derive(Debug, Default)]
struct Others(Mutex<BTreeMap<String, Option<Iam>>>);

impl Others {
    fn of(nodes: impl IntoIterator<Item = Option<Iam>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new((2..).map(|n| format!("n{n}")).zip(nodes).collect())))
    }
}

#[async_trait::async_trait]
impl Gateways for Others {
    fn names(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    async fn forget_bucket(&self, _: &str, _: &ObjectKey) -> std::result::Result<(), AskError> {
        unreachable!("no bucket is changed here")
    }

    async fn revoke_key(&self, node: &str, key: AccessKeyId) -> std::result::Result<(), AskError> {
        let node = self.0.lock()[node].clone();
        match node {
            Some(iam) => iam.revoke_key(key),
            None => std::future::pending().await,
        }
        Ok(())
    }

    async fn forget_iam(&self, node: &str) -> std::result::Result<(), AskError> {
        let node = self.0.lock()[node].clone();
        match node {
            Some(iam) => iam.forget(),
            None => std::future::pending().await,
        }
        Ok(())
    }
}

/// A read asks no further volume because the first ones are slow: so reads can be counted.
fn unhedged() -> RegisterTimeouts {
    RegisterTimeouts { hedge: DEADLINE, ..RegisterTimeouts::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_of_iam_is_seen_by_the_next_request_through_each_node() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let gateways = [node.another_gateway(0), node.another_gateway(0), node.another_gateway(0)];
    let others: Vec<Iam> = gateways.iter().map(|gateway| iam_of(gateway, None)).collect();
    let iam = iam_of(&node, Some(Others::of(others.iter().cloned().map(Some))));
    let key = user_with_key(&iam, "ada").await;
    iam.create_policy(policy_of("read")).await.expect("created");
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    let (user, group) = (PolicyOwner::User("ada"), PolicyOwner::Group("ops"));
    let of_aws = ManagedName { vendor: PolicyVendor::Aws, name: "AWSDenyAll" };
    let deny_all = iam.policy(of_aws).await.expect("there").versions.remove(0);
    let all_see = async |wanted: Option<Vec<&str>>| {
        for other in others.iter().chain([&iam]) {
            let seen = judged_by(other, &key).await;
            assert_eq!(seen.as_ref().map(|seen| seen.iter().map(|text| &text[..]).collect()), wanted);
        }
    };
    for _ in 0..5 {
        all_see(Some(vec![])).await;
        iam.attach_policy(user, "read").await.expect("attached");
        all_see(Some(vec![ALLOW])).await;
        iam.put_inline_policy(group, "deny".to_owned(), DENY.to_owned()).await.expect("put");
        iam.add_user_to_group("ada", "ops").await.expect("added");
        all_see(Some(vec![DENY, ALLOW])).await;
        iam.create_policy_version("read", DENY.to_owned(), true).await.expect("added");
        all_see(Some(vec![DENY, DENY])).await;
        iam.set_default_policy_version("read", 1).await.expect("set");
        iam.delete_inline_policy(group, "deny").await.expect("deleted");
        all_see(Some(vec![ALLOW])).await;
        iam.attach_policy(group, of_aws).await.expect("attached");
        all_see(Some(vec![ALLOW, &deny_all.document])).await;
        iam.detach_policy(group, of_aws).await.expect("detached");
        all_see(Some(vec![ALLOW])).await;
        let id = key.key.id.as_str();
        iam.set_key_status("ada", id, KeyStatus::Inactive, None).await.expect("changed");
        all_see(None).await;
        iam.set_key_status("ada", id, KeyStatus::Active, None).await.expect("changed");
        iam.remove_user_from_group("ada", "ops").await.expect("removed");
        iam.detach_policy(user, "read").await.expect("detached");
        let versions = iam.policy("read").await.expect("there").versions;
        for version in versions.iter().filter(|version| version.number != 1) {
            iam.delete_policy_version("read", version.number).await.expect("deleted");
        }
    }
    // Each node remembers that a key is unknown, until it is made.
    let another = iam.create_access_key("ada", None).await.expect("created");
    all_see(Some(vec![])).await;
    iam.delete_access_key("ada", another.key.id.as_str()).await.expect("deleted");
    for other in &others {
        assert_eq!(judged_by(other, &another).await, None, "revoked");
        assert_eq!(other.account_view().await.expect("readable").public_access_block, None);
    }
    iam.set_account_public_access_block(Some(PublicAccessBlock::ALL)).await.expect("set");
    for other in &others {
        let account = other.account_view().await.expect("readable");
        assert_eq!(account.public_access_block, Some(PublicAccessBlock::ALL));
        assert_eq!(other.remembered_account(), Some(account));
    }
    for gateway in gateways {
        gateway.close().await;
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_iam_waits_for_a_node_that_does_not_answer_until_its_views_are_too_old() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let gateway = node.another_gateway(0);
    let silent = iam_of(&gateway, None);
    let key = user_with_key(&iam_of(&node, None), "ada").await;
    assert!(judged_by(&silent, &key).await.is_some());
    let iam = iam_of(&node, Some(Others::of([None])));
    let begun = Instant::now();
    iam.set_key_status("ada", key.key.id.as_str(), KeyStatus::Inactive, None).await.expect("changed");
    assert!(begun.elapsed() >= VIEW_PERIOD + FORGET_MARGIN);
    assert_eq!(judged_by(&silent, &key).await, None, "it read the records");
    // The first try of a deletion may have been committed, and its node have died before this one forgot.
    let begun = Instant::now();
    let refused = iam.delete_user("none").await;
    assert!(is_missing(&refused) && begun.elapsed() >= VIEW_PERIOD + FORGET_MARGIN);
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_composed_read_that_a_change_came_between_is_made_again() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(unhedged());
    let other = iam_of(&gateway, None);
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    iam.put_inline_policy(PolicyOwner::User("ada"), "p".to_owned(), ALLOW.to_owned()).await.expect("put");
    // The change comes, and is forgotten, behind the first read of the first composition.
    let (reads, forgetful) = (Arc::new(AtomicUsize::new(0)), other.clone());
    let counted = Arc::clone(&reads);
    says(&script.reads, move |_, _| {
        if counted.fetch_add(1, Ordering::Relaxed) == 1 {
            forgetful.forget();
        }
        Fate::Through
    });
    assert_eq!(judged_by(&other, &key).await, Some(vec![ALLOW.to_owned()]));
    let twice = reads.swap(100, Ordering::Relaxed);
    assert!(other.remembered_key(key.key.id.as_str()).is_some(), "the second one fills");
    other.forget();
    assert!(judged_by(&other, &key).await.is_some());
    let once = reads.load(Ordering::Relaxed) - 100;
    assert!(twice > once, "{twice} reads where a change came between, {once} where none did");
    // Where changes come between each time, nothing that was mixed is answered.
    let (forgetful, writer) = (other.clone(), iam.clone());
    let (runtime, changes) = (tokio::runtime::Handle::current(), AtomicUsize::new(0));
    says(&script.reads, move |_, _| {
        let value = changes.fetch_add(1, Ordering::Relaxed).to_string();
        let tags = vec![Tag { key: "k".to_owned(), value }];
        let change = writer.tag_user("ada", tags);
        tokio::task::block_in_place(|| runtime.block_on(change)).expect("changed");
        forgetful.forget();
        Fate::Through
    });
    other.forget();
    let refused = other.look_up_key(key.key.id.as_str()).await;
    assert_eq!(refused.err(), Some(IamReadError::Changing));
    // Where they are of other records, two reads behind each other show what was there between them: it is
    // answered, and no later request takes it.
    let forgetful = other.clone();
    says(&script.reads, move |_, _| {
        forgetful.forget();
        Fate::Through
    });
    let found = other.look_up_key(key.key.id.as_str()).await.expect("readable").expect("good");
    assert!(other.remembered_key(key.key.id.as_str()).is_none());
    let again = other.look_up_key(key.key.id.as_str()).await.expect("readable").expect("good");
    assert!(found.is_same_as(&again));
    says(&script.reads, |_, _| Fate::Through);
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_answers_no_request_by_an_old_view_of_a_key() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let short = RegisterTimeouts { operation: Duration::from_millis(10), ..RegisterTimeouts::default() };
    let (gateway, script) = node.scripted_gateway(short);
    let key = user_with_key(&iam_of(&node, None), "ada").await;
    let other = iam_of(&gateway, None);
    let id = key.key.id.as_str();
    let found = async {
        // Reads may be late where the machine is busy.
        while other.look_up_key(id).await.is_err() {}
    };
    tokio::time::timeout(DEADLINE, found).await.expect("read");
    let lost = || Fate::Instead(Err(message::Error::Unreachable { reason: "cut off".to_owned() }));
    says(&script.reads, move |_, _| lost());
    other.inner.views.cache.forget_all();
    let refused = other.look_up_key(id).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(other.remembered_key(id).is_none());
    says(&script.reads, |_, _| Fate::Through);
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_key_is_read_once_in_a_second_and_what_is_no_id_never() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(unhedged());
    let (iam, reads) = (iam_of(&gateway, None), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&reads);
    says(&script.reads, move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Fate::Through
    });
    for other in ["", "AK", "root key", "AKIA/AAAAAAAAAAAAAAA", &"A".repeat(10_000)] {
        assert!(matches!(iam.remembered_key(other), Some(KeyLookup::Unknown)));
        assert!(iam.look_up_key(other).await.expect("known to be none").is_none());
    }
    assert_eq!(reads.load(Ordering::Relaxed), 0);
    // An id of another store may have any letters of ids: it is read as one of this store is.
    let unknown = "AKIAAAAAAAAAAAAAAAAA";
    for unknown in ["ada", unknown] {
        assert!(iam.remembered_key(unknown).is_none());
        let found = futures::future::join_all((0..32).map(|_| iam.look_up_key(unknown))).await;
        assert!(found.into_iter().all(|found| found.expect("readable").is_none()));
        assert!(matches!(iam.remembered_key(unknown), Some(KeyLookup::Unknown)));
        let once = reads.swap(0, Ordering::Relaxed);
        assert!((1..=5).contains(&once), "one read of one register: {once}");
    }
    // A key that was good is known to have been so, also when all views are forgotten.
    let key = user_with_key(&iam, "ada").await;
    let good = key.key.id.as_str();
    assert!(!iam.was_good(unknown) && !iam.was_good(good), "it was not looked up yet");
    assert!(iam.look_up_key(good).await.expect("readable").is_some());
    iam.forget();
    assert!(iam.remembered_key(good).is_none() && iam.was_good(good));
    iam.set_key_status("ada", good, KeyStatus::Inactive, None).await.expect("changed");
    assert!(iam.look_up_key(good).await.expect("readable").is_none());
    assert!(!iam.was_good(good));
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_keeps_its_identity_while_no_record_changes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let name = IamName::Key(key.key.id);
    let start = iam.inner.views.cache.start(&name);
    let read = crate::views::ViewSource::read_view(&iam.inner.views, &name, start).await;
    let before = read.expect("readable").key().and_then(KeyLookup::view).expect("good");
    let start = iam.inner.views.cache.start(&name);
    let read = crate::views::ViewSource::read_view(&iam.inner.views, &name, start).await;
    let after = read.expect("readable").key().and_then(KeyLookup::view).expect("good");
    assert!(Arc::ptr_eq(&before.identity, &after.identity));
    // So it does where another record changed, or this one was written as it is.
    iam.create_user(user_of("bob")).await.expect("created");
    iam.update_user("ada", EntityUpdate::default()).await.expect("nothing to change");
    assert!(iam.remembered_key(key.key.id.as_str()).is_none(), "all views are forgotten");
    let after = iam.look_up_key(key.key.id.as_str()).await.expect("readable").expect("good");
    assert!(Arc::ptr_eq(&before.identity, &after.identity));
    iam.tag_user("ada", vec![Tag { key: "k".to_owned(), value: "v".to_owned() }]).await.expect("tagged");
    let changed = iam.look_up_key(key.key.id.as_str()).await.expect("readable").expect("good");
    assert!(!Arc::ptr_eq(&before.identity, &changed.identity));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_as_many_long_policies_as_may_be_is_remembered() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    // Ten are the user's, and ten of each of ten groups.
    let groups: Vec<String> = (0..10).map(|n| format!("g{n}")).collect();
    for group in &groups {
        iam.create_group(group.clone(), "/".to_owned()).await.expect("created");
        iam.add_user_to_group("ada", group).await.expect("added");
    }
    let owners = groups.iter().map(|group| PolicyOwner::Group(group)).chain([PolicyOwner::User("ada")]);
    let attached = owners.enumerate().map(async |(place, owner)| {
        for n in 0..10 {
            let name = format!("p{place}-{n}");
            let document = super::policies::sized(6_144);
            let policy = NewPolicy { document: document.clone(), ..policy_of(&name) };
            iam.create_policy(policy).await.expect("created");
            iam.create_policy_version(&name, document, false).await.expect("added");
            iam.attach_policy(owner, &name).await.expect("attached");
        }
    });
    futures::future::join_all(attached).await;
    let id = key.key.id.as_str();
    let view = iam.look_up_key(id).await.expect("readable").expect("good");
    let Identity::User(user) = &*view.identity else { panic!("not a user") };
    assert_eq!(user.policies.len(), 110);
    let is_kept = iam.inner.views.cache.last(&IamName::Key(key.key.id)).is_some();
    assert!(is_kept, "it counts for {} bytes", view.weight());
    // Composed again of the same records it is the same, although it lies elsewhere.
    let composed = async || {
        let found = iam.inner.views.composer.compose(key.key.id, None).await.expect("readable");
        found.view().expect("good")
    };
    let again = composed().await;
    assert!(again.is_same_as(&view) && !Arc::ptr_eq(&again.identity, &view.identity));
    iam.tag_user("ada", vec![Tag { key: "k".to_owned(), value: "v".to_owned() }]).await.expect("tagged");
    assert!(!composed().await.is_same_as(&view));
    // Nor is what was changed and changed back, be it within a millisecond.
    let before = composed().await;
    iam.untag_user("ada", vec!["k".to_owned()]).await.expect("untagged");
    assert!(!composed().await.is_same_as(&view) && !composed().await.is_same_as(&before));
    let (one, other) = (composed().await, composed().await);
    assert!(one.is_same_as(&other));
    node.close().await;
}
