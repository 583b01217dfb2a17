//! Access keys: made, listed, switched off, deleted; secrets under the master key; last uses.

use sherd_core::iam::KeyStatus;

use super::*;
use crate::upkeep::tests::{DEADLINE, Directories};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_good_while_it_is_active_and_its_user_lists_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let first = user_with_key(&iam, "Ada").await;
    let second = iam.create_access_key("ada").await.expect("created");
    assert!(is_over_limit(&iam.create_access_key("ada").await));
    assert_eq!(judged_by(&iam, &first).await, Some(Vec::new()));
    let listed = iam.access_keys("ada").await.expect("there");
    assert_eq!(listed, [first.key.clone(), second.key.clone()]);
    let id = first.key.id.as_str();
    iam.set_key_status("ada", id, KeyStatus::Inactive).await.expect("changed");
    assert_eq!(judged_by(&iam, &first).await, None);
    assert!(judged_by(&iam, &second).await.is_some());
    iam.set_key_status("ada", id, KeyStatus::Active).await.expect("changed");
    assert!(judged_by(&iam, &first).await.is_some());
    iam.delete_access_key("ada", id).await.expect("deleted");
    assert_eq!(judged_by(&iam, &first).await, None);
    assert!(is_missing(&iam.delete_access_key("ada", id).await));
    assert!(is_missing(&iam.set_key_status("ada", id, KeyStatus::Active).await));
    iam.create_user(user_of("bob")).await.expect("created");
    assert!(is_missing(&iam.delete_access_key("bob", second.key.id.as_str()).await), "it is ada's");
    assert!(is_missing(&iam.create_access_key("eve").await));
    // A record that a crash left beside its user gives nothing.
    let records = &iam.inner.records;
    let left = first.key.clone();
    let put = move |_: Option<sherd_core::iam::KeyRecord>| Ok((records::Step::Put(left.clone()), ()));
    records.change(&first.key.id.register(), put).await.expect("written");
    iam.forget();
    assert_eq!(judged_by(&iam, &first).await, None);
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
        [without.create_user(user_of("bob")).await.err(), without.create_access_key("ada").await.err()]
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
    let refused = other_node.create_access_key("bob").await.expect_err("it is good through no other node");
    assert!(matches!(refused, IamError::OtherMasterKey { .. }), "{refused}");
    for print in [master_key().fingerprint(), other.fingerprint()] {
        assert!(refused.to_string().contains(&print.to_string()), "{refused}");
    }
    assert_eq!(iam.access_keys("bob").await.expect("there"), []);
    iam.create_access_key("bob").await.expect("it is the account's");
    // Where no key is left, nothing is kept under the first one.
    for user in ["ada", "bob"] {
        for key in iam.access_keys(user).await.expect("there") {
            iam.delete_access_key(user, key.id.as_str()).await.expect("deleted");
        }
    }
    let left = key.key.clone();
    let put = move |_: Option<sherd_core::iam::KeyRecord>| Ok((records::Step::Put(left.clone()), ()));
    iam.inner.records.change(&key.key.id.register(), put).await.expect("a record that no user lists");
    let made = other_node.create_access_key("bob").await.expect("the first one");
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
