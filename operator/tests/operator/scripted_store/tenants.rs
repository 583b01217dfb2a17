//! A namespace that is made again for another tenant gets nothing of the former one's.

use serde_json::json;
use sherd_operator::api::Bucket;
use sherd_operator::buckets::bucket::reconcile;

use super::store::ScriptedUser;
use super::users::{APP, PHOTOS, READY, a_user, step};
use super::*;

const MARK: &str = "sherd.dev/bucket";

async fn step_bucket(server: &ApiServer, store: &ScriptedStore) {
    let bucket: Bucket = serde_json::from_value(server.get(PHOTOS).expect("there")).expect("decodes");
    reconcile(&context(server, store), &bucket).await.expect("reconciled");
}

/// The objects of the new namespace have the same names, and the Kubernetes cluster took the former ones
/// away.
fn made_again(server: &ApiServer) {
    for path in [APP, PHOTOS, "/api/v1/namespaces/team/secrets/app"] {
        if server.get(path).is_some() {
            server.delete(path);
        }
    }
    put_namespace(server, "team", "1");
    let rights = json!([{"bucketRef": {"name": "photos"}, "access": "write"}]);
    put(server, APP, "BucketUser", json!({"buckets": rights}));
    put(server, PHOTOS, "Bucket", json!({}));
}

#[tokio::test]
async fn a_namespace_that_is_made_again_takes_up_no_bucket_of_the_former_one() {
    let (server, store) = a_user();
    step_bucket(&server, &store).await;
    says(&server, PHOTOS, READY, "True", "AsAsked");
    made_again(&server);
    step_bucket(&server, &store).await;
    let message = says(&server, PHOTOS, READY, "False", "BucketExists");
    assert!(message.contains("left by Bucket team/photos:"), "{message}");
    change(&server, PHOTOS, |bucket| {
        bucket["spec"] = json!({"cluster": bucket["spec"]["cluster"], "adopt": true});
    });
    step_bucket(&server, &store).await;
    says(&server, PHOTOS, READY, "False", "AdoptionNotAllowed");
    // Neither a right to it, nor its deletion.
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "BucketMissing");
    change(&server, PHOTOS, |bucket| bucket["spec"]["reclaimPolicy"] = json!("Delete"));
    step_bucket(&server, &store).await;
    begin_deletion(&server, PHOTOS);
    step_bucket(&server, &store).await;
    assert!(server.get(PHOTOS).is_none() && store.bucket("photos").is_some());
    assert_eq!(store.bucket("photos").expect("there").tags[MARK], "team/photos/team-0");
}

/// The Bucket of the mark may be there by its names and is another's nevertheless.
#[tokio::test]
async fn a_bucket_whose_namespace_was_made_again_is_not_taken() {
    let (server, store) = a_user();
    made_again(&server);
    let path = PHOTOS.replace("team", "storage");
    put(&server, &path, "Bucket", json!({"adopt": true}));
    let bucket: Bucket = serde_json::from_value(server.get(&path).expect("there")).expect("decodes");
    reconcile(&context(&server, &store), &bucket).await.expect("reconciled");
    says(&server, &path, READY, "True", "AsAsked");
    assert_eq!(store.bucket("photos").expect("there").tags[MARK], "storage/photos/storage-0");
}

#[tokio::test]
async fn a_namespace_that_is_made_again_gets_no_key_and_no_policy_of_the_former_one() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    let former = store.user("team.app").expect("made");
    {
        let mut state = store.state.lock();
        let user = state.users.get_mut("team.app").expect("made");
        user.policies.insert("by-hand".to_owned(), "{}".to_owned());
    }
    made_again(&server);
    // Also while its specification breaks a rule, nothing is given to the former one's keys.
    change(&server, APP, |user| user["spec"]["rotation"] = json!({"overlap": "31days"}));
    store.take_changes();
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "SpecInvalid");
    assert_eq!(store.take_changes(), Vec::<String>::new());
    change(&server, APP, |user| user["spec"]["rotation"] = json!({}));
    for lost_at in 0..30 {
        store.state.lock().lost_at = Some(lost_at);
        store.state.lock().calls.clear();
        step(&server, &store).await.expect("reported");
        store.mend();
    }
    step(&server, &store).await.expect("reconciled");
    let user = store.user("team.app").expect("made");
    assert_eq!(user.tags["sherd.dev/bucket-user"], "team-1/uid-of-team-app");
    assert!(!user.policies.contains_key("by-hand"), "{user:?}");
    assert!(user.keys.iter().all(|key| !former.keys.contains(key)), "{user:?}");
    assert_eq!(user.keys.iter().filter(|(_, active)| *active).count(), 1, "{user:?}");
}

/// A user that may tag users may take it.
#[tokio::test]
async fn a_user_without_a_mark_is_marked_again() {
    let (server, store) = a_user();
    let user = ScriptedUser { path: "/kubernetes/team/".to_owned(), ..ScriptedUser::default() };
    store.state.lock().users.insert("team.app".to_owned(), user);
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    let tags = store.user("team.app").expect("there").tags;
    assert_eq!(tags["sherd.dev/bucket-user"], "team-0/uid-of-team-app");
}

/// A status says nothing: others may write it.
#[tokio::test]
async fn a_mark_without_a_uid_is_no_objects() {
    let (server, store) = a_user();
    let bucket_with = |mark: &str| {
        let mut state = store.state.lock();
        state.buckets.get_mut("photos").expect("there").tags.insert(MARK.to_owned(), mark.to_owned());
    };
    bucket_with("team/photos");
    change(&server, PHOTOS, |bucket| bucket["status"] = json!({"conditions": [], "bucket": "photos"}));
    step_bucket(&server, &store).await;
    says(&server, PHOTOS, READY, "False", "BucketExists");
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "BucketMissing");
}
