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
    let shown = format!("{key:?} {iam:?}");
    assert!(!shown.contains(&**key.secret.expose()));
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
