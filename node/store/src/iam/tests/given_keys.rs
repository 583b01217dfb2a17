//! Keys that another store gave: taken with their ids and secrets, once, and whole after a cut.

use sherd_core::iam::KeyStatus;

use super::*;
use crate::upkeep::tests::Directories;

fn given(id: &str, secret: &str) -> GivenKey {
    GivenKey::parse(id, secret, KeyStatus::Active).expect("a key")
}

/// The secret of a good key.
async fn secret_of(iam: &Iam, id: &str) -> Option<String> {
    let view = iam.look_up_key(id).await.expect("readable")?;
    Some(view.secret.expose().to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_key_is_taken_once_with_its_id_and_its_secret() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    for name in ["ada", "eve"] {
        iam.create_user(user_of(name)).await.expect("created");
    }
    let key = given("Ada", "ada-secret");
    assert_eq!(secret_of(&iam, "Ada").await, None);
    assert_eq!(iam.find_given_key("nobody", &key).await.expect("read"), GivenKeyState::Free);
    let before = iam.import_access_key("ada", key.clone()).await.expect("taken");
    assert_eq!(before, GivenKeyState::Free);
    assert_eq!(secret_of(&iam, "Ada").await.as_deref(), Some("ada-secret"));
    // Again: nothing changes, also where its status was changed meanwhile.
    iam.set_key_status("ada", "Ada", KeyStatus::Inactive, None).await.expect("changed");
    let held = GivenKeyState::Held(KeyStatus::Inactive);
    assert_eq!(iam.find_given_key("ada", &key).await.expect("read"), held);
    assert_eq!(iam.import_access_key("ada", key.clone()).await.expect("there"), held);
    assert_eq!(secret_of(&iam, "Ada").await, None);
    // Another secret, and another user.
    let other = given("Ada", "other-secret");
    for (user, key) in [("ada", &other), ("eve", &key), ("nobody", &key)] {
        let refused = iam.find_given_key(user, key).await;
        assert!(matches!(refused, Err(IamError::KeyTaken(_))), "{user}: {refused:?}");
    }
    for (user, key) in [("ada", other), ("eve", key.clone())] {
        let refused = iam.import_access_key(user, key).await;
        assert!(matches!(refused, Err(IamError::KeyTaken(_))), "{user}: {refused:?}");
    }
    assert_eq!(iam.access_keys("ada").await.expect("there").keys.len(), 1);
    // An id of another case is another one. A user has two keys.
    iam.import_access_key("eve", given("ADA", "eve-secret")).await.expect("another id");
    iam.import_access_key("ada", given("ada.2", "ada-secret")).await.expect("the second");
    assert!(is_over_limit(&iam.import_access_key("ada", given("ada.3", "ada-secret")).await));
    assert!(is_missing(&iam.import_access_key("nobody", given("bob", "bob-secret")).await));
    // One that was deleted may be given again, to another user too.
    iam.delete_access_key("ada", "Ada").await.expect("deleted");
    iam.import_access_key("ada", given("ada.3", "ada-secret")).await.expect("there is room");
    iam.import_access_key("eve", key).await.expect("free");
    assert_eq!(secret_of(&iam, "Ada").await.as_deref(), Some("ada-secret"));
    node.close().await;
}

/// Each cut leaves a key that is not good or one that is there whole, and the same call again ends with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_import_of_a_key_gives_nothing_and_goes_on() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let gate = Arc::clone(&iam.inner.records.gate);
    iam.create_user(user_of("eve")).await.expect("created");
    for cut in 0.. {
        let (name, id) = (format!("user{cut}"), format!("key{cut}"));
        iam.create_user(user_of(&name)).await.expect("created");
        let key = given(&id, "given-secret");
        gate.cut_after(cut);
        let ended = iam.import_access_key(&name, key.clone()).await;
        gate.open();
        iam.forget();
        let listed = iam.access_keys(&name).await.expect("there").keys.len();
        let good = secret_of(&iam, &id).await;
        assert_eq!((listed, good.is_some()), if ended.is_ok() { (1, true) } else { (0, false) }, "{cut}");
        // A record that the cut left is kept for its user.
        let by_other = iam.import_access_key("eve", key.clone()).await;
        if by_other.is_ok() {
            assert!(ended.is_err(), "{cut}");
            iam.delete_access_key("eve", &id).await.expect("deleted");
        }
        iam.import_access_key(&name, key.clone()).await.expect("it goes on");
        assert_eq!(secret_of(&iam, &id).await.as_deref(), Some("given-secret"), "{cut}");
        let again = iam.import_access_key(&name, key).await.expect("it is there");
        assert_eq!(again, GivenKeyState::Held(KeyStatus::Active), "{cut}");
        if ended.is_ok() {
            assert!(cut > 4, "cut {cut} times");
            break;
        }
    }
    node.close().await;
}

/// The deletion of a key removes the record that it saw, and not the one of a later import.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_under_way_keeps_the_record_of_a_later_import() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (iam, slow) = (iam_of(&node, None), iam_of(&node, None));
    let gate = Arc::clone(&slow.inner.records.gate);
    iam.create_user(user_of("ada")).await.expect("created");
    let key = given("ada", "ada-secret");
    for held in 0.. {
        iam.import_access_key("ada", key.clone()).await.expect("taken");
        let mut deletion = Box::pin(slow.delete_access_key("ada", "ada"));
        let ended = gate.hold_after(held, &mut deletion).await;
        let again = iam.import_access_key("ada", key.clone()).await.expect("taken");
        gate.open();
        match &ended {
            Some(ended) => assert!(ended.is_ok(), "{ended:?}"),
            None => deletion.await.expect("deleted"),
        }
        iam.forget();
        let is_good = secret_of(&iam, "ada").await.is_some();
        let is_later = again == GivenKeyState::Free;
        assert!(is_good || !is_later, "held at {held}: a key that was given behind its deletion is good");
        if ended.is_some() {
            assert!(held > 3, "held {held} times");
            break;
        }
    }
    node.close().await;
}

#[test]
fn given_ids_and_secrets_have_rules() {
    let of = |id: &str, secret: &str| GivenKey::parse(id, secret, KeyStatus::Active);
    assert!(of("abc", "12345678").is_ok());
    assert!(of(&"k".repeat(64), &"s".repeat(128)).is_ok());
    for id in ["ab", "a/b", &"k".repeat(65)] {
        assert!(matches!(of(id, "12345678"), Err(IamError::GivenKeyId)), "{id}");
    }
    for secret in ["1234567", "with blank", &"s".repeat(129), "s\u{e4}cret-of-umlauts"] {
        assert!(matches!(of("abc", secret), Err(IamError::GivenSecret)), "{secret}");
    }
}
