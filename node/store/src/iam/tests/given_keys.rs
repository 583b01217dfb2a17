//! Keys that another store gave: taken with their ids and secrets, once, and whole after a cut.

use sherd_core::iam::{KeyRecord, KeyStatus};

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
    assert_eq!(key.find(&iam, "nobody").await.expect("read"), GivenKeyState::Free);
    let before = key.clone().give(&iam, "ada").await.expect("taken");
    assert_eq!(before, GivenKeyState::Free);
    assert_eq!(secret_of(&iam, "Ada").await.as_deref(), Some("ada-secret"));
    // Again: nothing changes, also where its status was changed meanwhile.
    iam.set_key_status("ada", "Ada", KeyStatus::Inactive, None).await.expect("changed");
    let held = GivenKeyState::Held(KeyStatus::Inactive);
    assert_eq!(key.find(&iam, "ada").await.expect("read"), held);
    assert_eq!(key.clone().give(&iam, "ada").await.expect("there"), held);
    assert_eq!(secret_of(&iam, "Ada").await, None);
    // Another secret, and another user.
    let other = given("Ada", "other-secret");
    for (user, key) in [("ada", &other), ("eve", &key), ("nobody", &key)] {
        let refused = key.find(&iam, user).await;
        assert!(matches!(refused, Err(IamError::KeyTaken(_))), "{user}: {refused:?}");
    }
    for (user, key) in [("ada", other), ("eve", key.clone())] {
        let refused = key.give(&iam, user).await;
        assert!(matches!(refused, Err(IamError::KeyTaken(_))), "{user}: {refused:?}");
    }
    assert_eq!(iam.access_keys("ada").await.expect("there").keys.len(), 1);
    // An id of another case is another one. A user has two keys.
    given("ADA", "eve-secret").give(&iam, "eve").await.expect("another id");
    given("ada.2", "ada-secret").give(&iam, "ada").await.expect("the second");
    assert!(is_over_limit(&given("ada.3", "ada-secret").give(&iam, "ada").await));
    assert!(is_missing(&given("bob", "bob-secret").give(&iam, "nobody").await));
    // A deleted key may be given again, to another user too.
    iam.delete_access_key("ada", "Ada").await.expect("deleted");
    given("ada.3", "ada-secret").give(&iam, "ada").await.expect("there is room");
    key.give(&iam, "eve").await.expect("free");
    assert_eq!(secret_of(&iam, "Ada").await.as_deref(), Some("ada-secret"));
    node.close().await;
}

/// Each cut leaves a key that is not good or one that is there whole, and the same call again ends with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_takes_the_place_of_another_one_of_the_same_users_key_alone() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    for name in ["ada", "eve"] {
        iam.create_user(user_of(name)).await.expect("created");
    }
    given("app", "first-secret").give(&iam, "ada").await.expect("taken");
    let second = GivenKey { replaces: true, ..given("app", "second-secret") };
    let refused = second.clone().give(&iam, "eve").await;
    assert!(matches!(refused, Err(IamError::KeyTaken(_))), "{refused:?}");
    assert_eq!(second.find(&iam, "ada").await.expect("read"), GivenKeyState::OtherSecret);
    assert_eq!(secret_of(&iam, "app").await.as_deref(), Some("first-secret"));
    assert_eq!(second.clone().give(&iam, "ada").await.expect("replaced"), GivenKeyState::OtherSecret);
    assert_eq!(secret_of(&iam, "app").await.as_deref(), Some("second-secret"));
    assert_eq!(second.give(&iam, "ada").await.expect("there"), GivenKeyState::Held(KeyStatus::Active));
    // A key that was made inactive stays so with another secret.
    iam.set_key_status("ada", "app", KeyStatus::Inactive, None).await.expect("changed");
    let third = GivenKey { replaces: true, ..given("app", "third-secret") };
    third.give(&iam, "ada").await.expect("replaced");
    assert_eq!(secret_of(&iam, "app").await, None);
    iam.set_key_status("ada", "app", KeyStatus::Active, None).await.expect("changed");
    assert_eq!(secret_of(&iam, "app").await.as_deref(), Some("third-secret"));
    assert_eq!(iam.access_keys("ada").await.expect("there").keys.len(), 1);
    node.close().await;
}

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
        let ended = key.clone().give(&iam, &name).await;
        gate.open();
        iam.forget();
        let listed = iam.access_keys(&name).await.expect("there").keys.len();
        let good = secret_of(&iam, &id).await;
        assert_eq!(listed == 1, good.is_some(), "{cut}: not good, or there whole");
        assert!(good.is_some() || ended.is_err(), "{cut}");
        // A record that the cut left is kept for its user.
        let by_other = key.clone().give(&iam, "eve").await;
        if by_other.is_ok() {
            assert!(listed == 0 && ended.is_err(), "{cut}");
            iam.delete_access_key("eve", &id).await.expect("deleted");
        }
        // The secret may be another one by then, unless its user lists it.
        let later = if listed == 0 { given(&id, "later-secret") } else { key };
        later.clone().give(&iam, &name).await.expect("it goes on");
        let secret = secret_of(&iam, &id).await;
        assert_eq!(secret.as_deref(), Some(&**later.secret.expose()), "{cut}");
        let again = later.give(&iam, &name).await.expect("it is there");
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
        key.clone().give(&iam, "ada").await.expect("taken");
        let mut deletion = Box::pin(slow.delete_access_key("ada", "ada"));
        let ended = gate.hold_after(held, &mut deletion).await;
        let again = key.clone().give(&iam, "ada").await.expect("taken");
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

/// Of two imports of an id with two secrets one is acknowledged, and its secret is the one that is good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_import_keeps_its_secret_beside_another_one() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (iam, slow) = (iam_of(&node, None), iam_of(&node, None));
    let gate = Arc::clone(&slow.inner.records.gate);
    iam.create_user(user_of("ada")).await.expect("created");
    let (one, other) = (given("ada", "first-secret"), given("ada", "other-secret"));
    // The state that a cut import leaves: a record that its user does not list.
    let orphan = async || {
        let cut = iam_of(&node, None);
        for operations in 0.. {
            cut.inner.records.gate.cut_after(operations);
            assert!(one.clone().give(&cut, "ada").await.is_err(), "it is cut");
            let left = iam.inner.records.read::<KeyRecord>(one.id.register()).await.expect("readable");
            if left.is_some() {
                break;
            }
        }
        assert!(iam.access_keys("ada").await.expect("there").keys.is_empty());
    };
    for held in 0.. {
        if held % 2 == 0 {
            orphan().await;
        }
        let mut first = Box::pin(one.clone().give(&slow, "ada"));
        let ended = gate.hold_after(held / 2, &mut first).await;
        let second = other.clone().give(&iam, "ada").await;
        gate.open();
        let is_last = ended.is_some();
        let first = match ended {
            Some(ended) => ended,
            None => first.await,
        };
        iam.forget();
        let good = secret_of(&iam, "ada").await;
        let wanted = match (&first, &second) {
            (Ok(_), Err(IamError::KeyTaken(_))) => "first-secret",
            (Err(IamError::KeyTaken(_)), Ok(_)) => "other-secret",
            both => panic!("held at {held}: {both:?}"),
        };
        assert_eq!(good.as_deref(), Some(wanted), "held at {held}");
        iam.delete_access_key("ada", "ada").await.expect("deleted");
        if is_last {
            assert!(held > 8, "held {held} times");
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
