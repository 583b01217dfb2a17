//! Access keys: made, listed, switched off, deleted; secrets under the master key; last uses.

use std::sync::atomic::{AtomicBool, Ordering};

use sherd_core::iam::KeyStatus;

use super::*;
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::upkeep::tests::{DEADLINE, Directories};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_good_while_it_is_active_and_its_user_lists_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let first = user_with_key(&iam, "Ada").await;
    let second = iam.create_access_key("ada", None).await.expect("created");
    assert!(is_over_limit(&iam.create_access_key("ada", None).await));
    assert_eq!(judged_by(&iam, &first).await, Some(Vec::new()));
    let listed = iam.access_keys("ada").await.expect("there").keys;
    let active = |key: &NewKey| (key.key.clone(), KeyStatus::Active);
    assert_eq!(listed, [active(&first), active(&second)]);
    let id = first.key.id.as_str();
    iam.set_key_status("ada", id, KeyStatus::Inactive, None).await.expect("changed");
    assert_eq!(judged_by(&iam, &first).await, None);
    assert!(judged_by(&iam, &second).await.is_some());
    iam.set_key_status("ada", id, KeyStatus::Active, None).await.expect("changed");
    assert!(judged_by(&iam, &first).await.is_some());
    iam.delete_access_key("ada", id).await.expect("deleted");
    assert_eq!(judged_by(&iam, &first).await, None);
    assert!(is_missing(&iam.delete_access_key("ada", id).await));
    assert!(is_missing(&iam.set_key_status("ada", id, KeyStatus::Active, None).await));
    iam.create_user(user_of("bob")).await.expect("created");
    assert!(is_missing(&iam.delete_access_key("bob", second.key.id.as_str()).await), "it is ada's");
    assert!(is_missing(&iam.create_access_key("eve", None).await));
    // A record that a crash left beside its user gives nothing.
    let records = &iam.inner.records;
    let left = first.key.clone();
    let put = move |_: Option<sherd_core::iam::KeyRecord>| Ok((records::Step::Put(left.clone()), ()));
    records.change(&first.key.id.register(), put).await.expect("written");
    iam.forget();
    assert_eq!(judged_by(&iam, &first).await, None);
    node.close().await;
}

/// A user keeps a call under way that gives it another key; its keys are made inactive meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_made_inactive_gives_its_user_no_other_key() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let (iam, slow) = (iam_of(&node, None), iam_of(&gateway, None));
    let (first, second) = (user_with_key(&iam, "ada").await, iam.create_access_key("ada", None).await);
    let (first, second) = (first.key, second.expect("created").key);
    let other = second.id.as_str();
    let signer = Some(Signer { user_id: first.user.id.to_string(), access_key: first.id.to_string() });
    iam.set_key_status("ada", other, KeyStatus::Inactive, signer.clone()).await.expect("changed");
    // The first key is made inactive between the decision of the call that it signed and the write.
    let (runtime, admin, name) = (tokio::runtime::Handle::current(), iam.clone(), first.id);
    let is_done = Arc::new(AtomicBool::new(false));
    says(&script.prepares, move |_, _| {
        if !is_done.swap(true, Ordering::Relaxed) {
            let change = admin.set_key_status("ada", name.as_str(), KeyStatus::Inactive, None);
            tokio::task::block_in_place(|| runtime.block_on(change)).expect("changed");
        }
        Fate::Through
    });
    let refused = slow.set_key_status("ada", other, KeyStatus::Active, signer.clone()).await;
    says(&script.prepares, |_, _| Fate::Through);
    assert!(matches!(refused, Err(IamError::SignerInactive)), "{refused:?}");
    let inactive = [&first, &second].map(|key| (key.clone(), KeyStatus::Inactive));
    assert_eq!(iam.access_keys("ada").await.expect("there").keys, inactive, "no state between had another");
    // A call that is dropped when it is under way leaves no more than one that is not.
    let mut dropped = Box::pin(slow.set_key_status("ada", other, KeyStatus::Active, signer.clone()));
    // On a slow machine it may have ended at once, by other threads.
    if let std::task::Poll::Ready(ended) = futures::poll!(&mut dropped) {
        assert!(matches!(ended, Err(IamError::SignerInactive)), "{ended:?}");
    }
    drop(dropped);
    iam.delete_access_key("ada", other).await.expect("deleted");
    let refused = slow.create_access_key("ada", signer.clone()).await;
    assert!(matches!(refused, Err(IamError::SignerInactive)), "{refused:?}");
    assert_eq!(iam.access_keys("ada").await.expect("there").keys, inactive[..1]);
    // A deleted key gives none either; a user's key goes for another user as it did when it signed.
    iam.delete_access_key("ada", first.id.as_str()).await.expect("deleted");
    assert!(iam.create_access_key("ada", signer.clone()).await.is_err());
    iam.create_user(user_of("bob")).await.expect("created");
    iam.create_access_key("bob", signer).await.expect("it is another user");
    gateway.close().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_under_another_master_key_is_no_unknown_key() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let other = MasterKey::new(&[8; MasterKey::BYTES]);
    let found = iam_with(&node, None, Some(other.clone())).look_up_key(key.key.id.as_str()).await;
    let wrapped = master_key().fingerprint();
    let refusal = found.expect_err("it cannot be opened");
    assert_eq!(refusal, IamReadError::OtherMasterKey { wrapped, own: other.fingerprint() });
    let without = iam_with(&node, None, None);
    let found = without.look_up_key(key.key.id.as_str()).await;
    assert_eq!(found.expect_err("it cannot be opened"), IamReadError::NoMasterKey { wrapped });
    for refused in
        [without.create_user(user_of("bob")).await.err(), without.create_access_key("ada", None).await.err()]
    {
        let refused = refused.expect("nothing can be kept");
        assert!(matches!(refused, IamError::NoMasterKey) && refused.to_string().contains("master_key_file"));
    }
    // The refusal is remembered as long as an unknown key, so that no later request reads the records for it.
    let view = without.inner.views.cache.last(&IamName::Key(key.key.id)).expect("remembered");
    assert!(matches!(view, IamView::Unusable(IamReadError::NoMasterKey { .. })), "{view:?}");
    assert_eq!(<IamViews as crate::views::ViewSource>::period(&view), limits::UNKNOWN_PERIOD);
    assert!(without.remembered_key(key.key.id.as_str()).is_none(), "it is not unknown");
    let shown = format!("{key:?} {iam:?}");
    assert!(!shown.contains(&**key.secret.expose()));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_made_under_another_master_key_than_those_that_are_there() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let other = MasterKey::new(&[8; MasterKey::BYTES]);
    let other_node = iam_with(&node, None, Some(other.clone()));
    let key = user_with_key(&iam, "ada").await;
    other_node.create_user(user_of("bob")).await.expect("it has no secret");
    let refused =
        other_node.create_access_key("bob", None).await.expect_err("it is good through no other node");
    assert!(matches!(refused, IamError::OtherMasterKey { .. }), "{refused}");
    for print in [master_key().fingerprint(), other.fingerprint()] {
        assert!(refused.to_string().contains(&print.to_string()), "{refused}");
    }
    assert_eq!(iam.access_keys("bob").await.expect("there").keys, []);
    iam.create_access_key("bob", None).await.expect("it is the account's");
    // Where the first one is lost, its keys are made inactive, and then others can be made.
    for user in ["ada", "bob"] {
        for (key, _) in iam.access_keys(user).await.expect("there").keys {
            let id = key.id.as_str();
            iam.set_key_status(user, id, KeyStatus::Inactive, None).await.expect("changed");
        }
    }
    let made = other_node.create_access_key("bob", None).await.expect("no active key is kept otherwise");
    other_node.delete_access_key("bob", made.key.id.as_str()).await.expect("deleted");
    for (key, _) in iam.access_keys("ada").await.expect("there").keys {
        iam.set_key_status("ada", key.id.as_str(), KeyStatus::Active, None).await.expect("changed");
    }
    assert!(other_node.create_access_key("bob", None).await.is_err());
    // Where no key is left, nothing is kept under the first one.
    for user in ["ada", "bob"] {
        for (key, _) in iam.access_keys(user).await.expect("there").keys {
            iam.delete_access_key(user, key.id.as_str()).await.expect("deleted");
        }
    }
    let left = key.key.clone();
    let put = move |_: Option<sherd_core::iam::KeyRecord>| Ok((records::Step::Put(left.clone()), ()));
    iam.inner.records.change(&key.key.id.register(), put).await.expect("a record that no user lists");
    let made = other_node.create_access_key("bob", None).await.expect("the first one");
    assert!(judged_by(&other_node, &made).await.is_some());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_use_of_a_key_is_written_once_in_a_while() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let id = key.key.id.as_str();
    assert_eq!(iam.key_owner(id).await.expect("there").last_use, None);
    let view = iam.look_up_key(id).await.expect("readable").expect("good");
    iam.note_use(&view, "s3", "us-east-1");
    let written = async {
        loop {
            if let Some(used) = iam.key_owner(id).await.expect("there").last_use {
                return used;
            }
            crate::upkeep::tests::between_looks().await;
        }
    };
    let used = tokio::time::timeout(DEADLINE, written).await.expect("written");
    assert_eq!((&used.service[..], &used.region[..]), ("s3", "us-east-1"));
    iam.note_use(&view, "iam", "us-east-1");
    node.registers().tasks().close();
    tokio::time::timeout(DEADLINE, node.registers().tasks().wait()).await.expect("nothing runs");
    let owner = iam.key_owner(id).await.expect("there");
    assert_eq!((owner.user_name, owner.last_use), ("ada".to_owned(), Some(used)), "not a second time");
    assert!(
        is_missing(&iam.key_owner("AKIAAAAAAAAAAAAAAAAA").await) && is_missing(&iam.key_owner("x").await)
    );
    node.close().await;
}
