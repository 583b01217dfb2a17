//! BucketUsers: their keys through every cut, their Secrets, and their end.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sherd_operator::api::{AccessCondition, BucketUser};
use sherd_operator::buckets::NextLook;
use sherd_operator::buckets::user::reconcile;
use sherd_operator::reconcile::ReconcileError;

use super::store::{ScriptedBucket, ScriptedUser, StoreFault};
use super::*;
use crate::scripted_api::server::Fault;

pub(super) const APP: &str = "/apis/sherd.dev/v1alpha1/namespaces/team/bucketusers/app";
const SECRET: &str = "/api/v1/namespaces/team/secrets/app";
pub(super) const PHOTOS: &str = "/apis/sherd.dev/v1alpha1/namespaces/team/buckets/photos";
pub(super) const READY: AccessCondition = AccessCondition::Ready;
pub(super) const KEY: AccessCondition = AccessCondition::KeyReady;

pub(super) async fn step(server: &ApiServer, store: &ScriptedStore) -> Result<NextLook, ReconcileError> {
    let user: BucketUser = serde_json::from_value(server.get(APP).expect("there")).expect("decodes");
    reconcile(&context(server, store), &user).await
}

/// A Bucket that has its bucket.
pub(super) fn a_bucket(server: &ApiServer, store: &ScriptedStore, path: &str, spec: Value) {
    put(server, path, "Bucket", spec);
    let parts: Vec<&str> = path.split('/').collect();
    let mark = format!("{0}/{1}/{0}-0", parts[5], parts[7]);
    let tags = [("sherd.dev/bucket".to_owned(), mark)].into();
    let bucket = ScriptedBucket { tags, ..ScriptedBucket::default() };
    store.state.lock().buckets.insert(parts[7].to_owned(), bucket);
}

/// A user of namespace `team` with a right to its Bucket `photos`.
pub(super) fn a_user() -> (ApiServer, ScriptedStore) {
    let (server, store) = a_serving_cluster();
    a_bucket(&server, &store, PHOTOS, json!({}));
    let rights = json!([{"bucketRef": {"name": "photos"}, "access": "write"}]);
    put(&server, APP, "BucketUser", json!({"buckets": rights}));
    (server, store)
}

fn secret(server: &ApiServer) -> std::collections::BTreeMap<String, String> {
    let secret = server.get(SECRET).expect("there");
    let decode = |(key, value): (&String, &Value)| {
        let bytes =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, value.as_str().expect("text"));
        (key.clone(), String::from_utf8(bytes.expect("base64")).expect("text"))
    };
    secret["data"].as_object().expect("data").iter().map(decode).collect()
}

/// The key of the Secret, which must work.
#[track_caller]
fn working_key(server: &ApiServer, store: &ScriptedStore) -> String {
    let secret = secret(server);
    let key = secret["AWS_ACCESS_KEY_ID"].clone();
    assert_eq!(secret["AWS_SECRET_ACCESS_KEY"], format!("secret of {key}"));
    let user = store.user("team.app").expect("made");
    assert!(user.keys.contains(&(key.clone(), true)), "{key} is none of {:?}", user.keys);
    key
}

pub(super) fn keys(store: &ScriptedStore) -> Vec<String> {
    store.user("team.app").expect("made").keys.into_iter().map(|(id, _)| id).collect()
}

fn rotate(server: &ApiServer, text: &str) {
    change(server, APP, |user| user["metadata"]["annotations"] = json!({"sherd.dev/rotate": text}));
}

#[tokio::test]
async fn a_user_gets_rights_and_a_secret_and_a_second_look_changes_nothing() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    let user = store.user("team.app").expect("made");
    assert_eq!(user.path, "/kubernetes/team/");
    let mark = ("sherd.dev/bucket-user".to_owned(), "team-0/uid-of-team-app".to_owned());
    assert_eq!(user.tags, [mark].into());
    let secret = secret(&server);
    let expected = [
        ("AWS_ACCESS_KEY_ID", "AKIA0000000000000001"),
        ("AWS_ENDPOINT_URL", "http://demo-s3.storage.svc:9000"),
        ("AWS_ENDPOINT_URL_S3", "http://demo-s3.storage.svc:9000"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_SECRET_ACCESS_KEY", "secret of AKIA0000000000000001"),
        ("BUCKET_NAME", "photos"),
    ];
    assert_eq!(secret, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let object = server.get(SECRET).expect("made");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-of-team-app");
    let status = &server.get(APP).expect("there")["status"];
    assert!(!status.to_string().contains("secret of"), "{status}");
    store.take_changes();
    server.take_changes();
    step(&server, &store).await.expect("reconciled");
    assert_eq!(store.take_changes(), Vec::<String>::new());
    let changes: Vec<_> =
        server.take_changes().into_iter().filter(|(_, at)| !at.contains("leases")).collect();
    assert_eq!(changes, vec![]);
}

#[tokio::test]
async fn a_user_is_suspended_and_its_keys_work_again_afterwards() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    rotate(&server, "now");
    step(&server, &store).await.expect("reconciled");
    let before = (keys(&store), working_key(&server, &store));
    let active = || {
        let keys = store.user("team.app").expect("there").keys;
        keys.into_iter().filter(|(_, active)| *active).count()
    };
    let suspend = |suspended: bool| change(&server, APP, |user| user["spec"]["suspended"] = json!(suspended));
    suspend(true);
    // Policies that cannot be asked for keep no key active.
    store.fail("GetUserPolicy", StoreFault::Silent);
    step(&server, &store).await.expect("reported");
    assert_eq!(active(), 0);
    store.mend();
    let look = step(&server, &store).await.expect("reconciled");
    assert_eq!(look, NextLook::After(Duration::from_mins(5)));
    says(&server, APP, READY, "False", "Suspended");
    says(&server, APP, KEY, "False", "Suspended");
    // A key that is made by hand is not active for long, and no other takes its place.
    store.state.lock().users.get_mut("team.app").expect("there").keys[0].1 = true;
    step(&server, &store).await.expect("reconciled");
    assert_eq!((active(), keys(&store)), (0, before.0.clone()));
    // Also where the object is refused otherwise.
    change(&server, APP, |user| user["spec"]["rotation"] = json!({"overlap": "soon"}));
    store.state.lock().users.get_mut("team.app").expect("there").keys[0].1 = true;
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "SpecInvalid");
    assert_eq!(active(), 0);
    change(&server, APP, |user| user["spec"]["rotation"] = json!({}));
    suspend(false);
    step(&server, &store).await.expect("reconciled");
    assert_eq!((active(), (keys(&store), working_key(&server, &store))), (2, before));
    says(&server, APP, READY, "True", "AsAsked");
    assert!(server.get(APP).expect("there")["status"]["suspended"].is_null());
}

#[tokio::test]
async fn a_namespace_that_is_withdrawn_keeps_no_active_key() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    let key = working_key(&server, &store);
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!([]));
    store.fail("UpdateAccessKey", StoreFault::Silent);
    step(&server, &store).await.expect("reported");
    says(&server, APP, KEY, "Unknown", "NodesSilent");
    store.mend();
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "NamespaceNotAllowed");
    says(&server, APP, KEY, "False", "Suspended");
    assert_eq!(store.user("team.app").expect("there").keys, [(key.clone(), false)]);
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!(["team"]));
    step(&server, &store).await.expect("reconciled");
    assert_eq!(working_key(&server, &store), key);
}

/// Neither a specification that breaks a rule nor an object without its finalizer keeps keys.
#[tokio::test]
async fn nothing_of_an_object_keeps_the_keys_of_a_namespace_that_is_withdrawn() {
    let edits: [fn(&mut Value); 2] = [
        |user| user["spec"]["rotation"] = json!({"overlap": "31days"}),
        |user| user["metadata"]["finalizers"] = json!([]),
    ];
    for edit in edits {
        let (server, store) = a_user();
        step(&server, &store).await.expect("reconciled");
        let key = working_key(&server, &store);
        change(&server, APP, edit);
        change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!([]));
        step(&server, &store).await.expect("reported");
        says(&server, APP, READY, "False", "NamespaceNotAllowed");
        says(&server, APP, KEY, "False", "Suspended");
        assert_eq!(store.user("team.app").expect("there").keys, [(key, false)]);
    }
}

/// Nor does a specification that breaks a rule keep rights.
#[tokio::test]
async fn rights_of_a_broken_specification_are_judged_again_and_its_keys_stay() {
    let (server, store) = a_user();
    change(&server, APP, |user| {
        user["spec"]["policy"] =
            json!({"Statement": {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "*"}});
    });
    step(&server, &store).await.expect("reconciled");
    let key = working_key(&server, &store);
    change(&server, APP, |user| user["spec"]["rotation"] = json!({"overlap": "31days"}));
    store.take_changes();
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "SpecInvalid");
    assert_eq!(store.take_changes(), Vec::<String>::new(), "all is as it was asked for");
    // A policy that cannot be read may deny something.
    let document = server.get(APP).expect("there")["spec"]["policy"].clone();
    change(&server, APP, |user| user["spec"]["policy"] = json!(7));
    step(&server, &store).await.expect("reported");
    assert_eq!(store.rights("team.app"), Vec::<String>::new());
    change(&server, APP, |user| user["spec"]["policy"] = document);
    step(&server, &store).await.expect("reported");
    assert_eq!(store.rights("team.app").len(), 1);
    change(&server, APP, |user| {
        user["spec"]["buckets"] =
            json!([{"name": "*", "access": "read"}, {"bucketRef": {"name": "gone"}, "access": "read"}]);
    });
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "SpecInvalid");
    assert_eq!(store.rights("team.app"), Vec::<String>::new());
    assert_eq!(working_key(&server, &store), key);
    // Nothing is made of a BucketUser that was never valid.
    let (server, store) = a_user();
    change(&server, APP, |user| user["spec"]["rotation"] = json!({"overlap": "31days"}));
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "SpecInvalid");
    assert_eq!(store.user("team.app"), None);
}

#[tokio::test]
async fn a_rotation_leaves_the_former_key_its_time() {
    let (server, store) = a_user();
    change(&server, APP, |user| user["spec"]["rotation"] = json!({"overlap": "10m"}));
    step(&server, &store).await.expect("reconciled");
    let first = working_key(&server, &store);
    rotate(&server, "2027-01");
    let look = step(&server, &store).await.expect("reconciled");
    assert_eq!(look, NextLook::After(Duration::from_mins(5)));
    let second = working_key(&server, &store);
    assert_ne!(first, second);
    assert_eq!(keys(&store), [first.clone(), second.clone()]);
    says(&server, APP, KEY, "True", "Rotating");
    pass(Duration::from_secs(9 * 60 + 50));
    let look = step(&server, &store).await.expect("reconciled");
    assert_eq!(look, NextLook::After(Duration::from_secs(10)));
    assert_eq!(keys(&store).len(), 2);
    pass(Duration::from_secs(10));
    store.take_changes();
    step(&server, &store).await.expect("reconciled");
    assert_eq!(store.take_changes(), ["UpdateAccessKey", "DeleteAccessKey"]);
    assert_eq!(keys(&store), [second]);
    says(&server, APP, KEY, "True", "AsAsked");
}

#[tokio::test]
async fn a_second_rotation_ends_the_overlap_of_the_first() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    let first = working_key(&server, &store);
    rotate(&server, "1");
    step(&server, &store).await.expect("reconciled");
    let second = working_key(&server, &store);
    rotate(&server, "2");
    step(&server, &store).await.expect("reconciled");
    let third = working_key(&server, &store);
    assert_eq!(keys(&store), [second, third]);
    assert!(!keys(&store).contains(&first));
}

#[tokio::test]
async fn a_secret_that_is_lost_or_edited_gets_another_key() {
    let edits: [fn(&ApiServer); 3] = [
        |server| server.delete(SECRET),
        |server| change(server, SECRET, |secret| secret["data"]["AWS_SECRET_ACCESS_KEY"] = json!("b3RoZXI=")),
        |server| change(server, SECRET, |secret| secret["data"] = json!({})),
    ];
    for edit in edits {
        let (server, store) = a_user();
        step(&server, &store).await.expect("reconciled");
        let first = working_key(&server, &store);
        edit(&server);
        step(&server, &store).await.expect("reconciled");
        let second = working_key(&server, &store);
        assert_eq!(keys(&store), [first, second.clone()], "pods that run have the first one");
        pass(Duration::from_hours(1));
        step(&server, &store).await.expect("reconciled");
        assert_eq!(keys(&store), [second]);
    }
    // Another variable is put back without another key.
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    change(&server, SECRET, |secret| {
        secret["data"]["BUCKET_NAME"] = json!("b3RoZXI=");
        secret["data"]["MINE"] = json!("b3RoZXI=");
        let mine = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "mine"});
        secret["metadata"]["ownerReferences"].as_array_mut().expect("owners").push(mine);
    });
    step(&server, &store).await.expect("reconciled");
    assert_eq!(secret(&server)["BUCKET_NAME"], "photos");
    assert_eq!(keys(&store).len(), 1);
    // Without a bucket none has a name there; additions of others stay.
    change(&server, APP, |user| user["spec"]["buckets"] = json!([]));
    step(&server, &store).await.expect("reconciled");
    let kept = secret(&server);
    assert!(!kept.contains_key("BUCKET_NAME") && kept.contains_key("MINE"), "{kept:?}");
    let owners = server.get(SECRET).expect("there")["metadata"]["ownerReferences"].clone();
    assert_eq!(owners.as_array().expect("owners").len(), 2, "{owners}");
}

#[tokio::test]
async fn a_key_that_was_disabled_in_the_cluster_is_replaced() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    let first = working_key(&server, &store);
    store.state.lock().users.get_mut("team.app").expect("made").keys[0].1 = false;
    step(&server, &store).await.expect("reconciled");
    let second = working_key(&server, &store);
    assert_eq!(keys(&store), [second]);
    assert!(!keys(&store).contains(&first));
}

/// Cuts a rotation at each request of the cluster, and at each write of the API server: the Secret's key
/// works at every moment, the next reconcile goes on, and no key is left over.
#[tokio::test]
async fn a_rotation_that_is_cut_anywhere_is_gone_on_with() {
    let mut cuts: Vec<Option<usize>> = vec![None, None];
    let mut at = 0;
    while at < cuts.len() {
        let (server, store) = a_user();
        step(&server, &store).await.expect("reconciled");
        let first = working_key(&server, &store);
        rotate(&server, "now");
        store.take_changes();
        match (cuts[at], at) {
            (Some(lost_at), _) => store.state.lock().lost_at = Some(lost_at),
            (None, 0) => server.fail(Method::PATCH, "secrets/app", Fault::Broken),
            (None, _) => server.fail(Method::PATCH, "/status", Fault::Broken),
        }
        let _ = step(&server, &store).await;
        if at == 0 {
            cuts.extend((0..store.state.lock().calls.len()).map(Some));
        }
        working_key(&server, &store);
        store.mend();
        server.mend();
        step(&server, &store).await.expect("reconciled");
        let second = working_key(&server, &store);
        assert_ne!(first, second, "cut {at}");
        assert_eq!(keys(&store), [first, second.clone()], "cut {at}: pods that run have the first one");
        pass(Duration::from_hours(1));
        step(&server, &store).await.expect("reconciled");
        assert_eq!(keys(&store), [second], "cut {at}");
        at += 1;
    }
    assert_eq!(at, 10, "a Secret, a status and eight requests");
}

#[tokio::test]
async fn a_first_reconcile_that_is_cut_anywhere_is_gone_on_with() {
    for lost_at in 0.. {
        let (server, store) = a_user();
        store.state.lock().lost_at = Some(lost_at);
        step(&server, &store).await.expect("reported");
        let requests = store.state.lock().calls.len();
        store.mend();
        step(&server, &store).await.expect("reconciled");
        working_key(&server, &store);
        assert_eq!(keys(&store).len(), 1, "cut {lost_at}");
        says(&server, APP, READY, "True", "AsAsked");
        if lost_at >= requests {
            break;
        }
    }
}

/// A pod that takes the Secret as its environment waits until it is there, and reads it once.
#[tokio::test]
async fn a_secret_is_not_there_before_its_key_is() {
    let (server, store) = a_user();
    store.fail("CreateAccessKey", StoreFault::Refused(501, "NotImplemented", "there is no master key"));
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "Refused");
    assert_eq!(server.get(SECRET), None);
    store.mend();
    // A key whose Secret could not be made is replaced.
    server.fail(Method::POST, "secrets", Fault::Code(500));
    step(&server, &store).await.expect_err("tried again");
    server.mend();
    step(&server, &store).await.expect("reconciled");
    assert_eq!(keys(&store), [working_key(&server, &store)]);
}

#[tokio::test]
async fn names_of_others_are_not_taken() {
    let (server, store) = a_user();
    let theirs = json!({"kind": "Secret", "metadata": {"name": "app", "namespace": "team"}, "data": {"theirs": "eWVz"}});
    server.put(SECRET, theirs.clone());
    step(&server, &store).await.expect("reported");
    says(&server, APP, KEY, "False", "NameTaken");
    assert_eq!(server.get(SECRET), Some(theirs.clone()));
    assert_eq!(keys(&store), Vec::<String>::new(), "no key is made that no Secret can hold");

    // Made by a person after it was looked for.
    let (server, store) = a_user();
    server.put(SECRET, theirs.clone());
    server.fail(Method::GET, "secrets/app", Fault::Code(404));
    step(&server, &store).await.expect("reported");
    says(&server, APP, KEY, "False", "NameTaken");
    assert_eq!((server.get(SECRET), keys(&store)), (Some(theirs), Vec::new()));

    let (server, store) = a_user();
    let theirs = ScriptedUser { path: "/people/".to_owned(), ..ScriptedUser::default() };
    store.state.lock().users.insert("team.app".to_owned(), theirs.clone());
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "NameTaken");
    assert_eq!(store.user("team.app"), Some(theirs.clone()));
    begin_deletion(&server, APP);
    step(&server, &store).await.expect("let go");
    assert_eq!((server.get(APP), store.user("team.app")), (None, Some(theirs)));
}

#[tokio::test]
async fn a_user_goes_with_its_object_and_says_what_keeps_it() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    assert_eq!(server.get(APP).expect("there")["metadata"]["finalizers"], json!(["sherd.dev/bucket-user"]));
    store.state.lock().users.get_mut("team.app").expect("made").groups.push("by-hand".to_owned());
    begin_deletion(&server, APP);
    store.fail("DeleteUser", StoreFault::Refused(503, "ServiceUnavailable", "no quorum"));
    step(&server, &store).await.expect("waits");
    let message = says(&server, APP, AccessCondition::DeletionBlocked, "True", "Refused");
    assert_eq!(message, "ServiceUnavailable: no quorum");
    store.mend();
    step(&server, &store).await.expect("let go");
    assert_eq!((server.get(APP), store.user("team.app")), (None, None));

    // With its cluster gone there is nothing to remove it from.
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    begin_deletion(&server, APP);
    server.delete(CLUSTER);
    step(&server, &store).await.expect("let go");
    assert_eq!(server.get(APP), None);
}

#[tokio::test]
async fn a_cluster_without_a_master_key_says_why_there_are_no_users() {
    let (server, store) = a_user();
    store.fail("GetUser", StoreFault::Refused(501, "NotImplemented", "there is no master key"));
    step(&server, &store).await.expect("reported");
    let message = says(&server, APP, READY, "False", "Refused");
    assert_eq!(message, "NotImplemented: there is no master key");
}
