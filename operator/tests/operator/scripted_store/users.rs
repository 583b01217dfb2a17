//! BucketUsers: their rights, their policies, their keys through every cut, and their end.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sherd_operator::api::{AccessCondition, BucketUser};
use sherd_operator::buckets::NextLook;
use sherd_operator::buckets::user::reconcile;
use sherd_operator::reconcile::ReconcileError;

use super::store::{ScriptedUser, StoreFault};
use super::*;
use crate::scripted_api::server::Fault;

const APP: &str = "/apis/sherd.dev/v1alpha1/namespaces/team/bucketusers/app";
const SECRET: &str = "/api/v1/namespaces/team/secrets/app";
const PHOTOS: &str = "/apis/sherd.dev/v1alpha1/namespaces/team/buckets/photos";
const OTHERS: &str = "/apis/sherd.dev/v1alpha1/namespaces/storage/buckets/ledger";
const READY: AccessCondition = AccessCondition::Ready;
const POLICY: AccessCondition = AccessCondition::PolicyApplied;
const KEY: AccessCondition = AccessCondition::KeyReady;

async fn step(server: &ApiServer, store: &ScriptedStore) -> Result<NextLook, ReconcileError> {
    let user: BucketUser = serde_json::from_value(server.get(APP).expect("there")).expect("decodes");
    reconcile(&context(server, store), &user).await
}

/// A Bucket that has its bucket.
fn a_bucket(server: &ApiServer, path: &str, name: &str, spec: Value) {
    put(server, path, "Bucket", spec);
    change(server, path, |object| object["status"] = json!({"conditions": [], "bucket": name}));
}

/// A user of namespace `team` with a right to its Bucket `photos`.
fn a_user() -> (ApiServer, ScriptedStore) {
    let (server, store) = a_serving_cluster();
    a_bucket(&server, PHOTOS, "photos", json!({}));
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

fn keys(store: &ScriptedStore) -> Vec<String> {
    store.user("team.app").expect("made").keys.into_iter().map(|(id, _)| id).collect()
}

fn rotate(server: &ApiServer, text: &str) {
    change(server, APP, |user| user["metadata"]["annotations"] = json!({"sherd.dev/rotate": text}));
}

fn policy(store: &ScriptedStore, name: &str) -> Option<Value> {
    let user = store.user("team.app")?;
    user.policies.get(name).map(|text| serde_json::from_str(text).expect("JSON"))
}

#[tokio::test]
async fn a_user_gets_rights_and_a_secret_and_a_second_look_changes_nothing() {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    let user = store.user("team.app").expect("made");
    assert_eq!(user.path, "/kubernetes/team/");
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
async fn rights_are_the_documents_that_the_page_promises() {
    for (access, bucket_actions, object_action) in [
        ("read", json!(["s3:ListBucket", "s3:ListBucketVersions", "s3:GetBucketLocation"]), "s3:GetObject"),
        (
            "write",
            json!([
                "s3:ListBucket",
                "s3:ListBucketVersions",
                "s3:GetBucketLocation",
                "s3:ListBucketMultipartUploads"
            ]),
            "s3:PutObject",
        ),
        ("admin", json!(["s3:*"]), "s3:*"),
    ] {
        let (server, store) = a_user();
        change(&server, APP, |user| user["spec"]["buckets"][0]["access"] = json!(access));
        step(&server, &store).await.expect("reconciled");
        let policy = policy(&store, "buckets").expect("set");
        let statements = policy["Statement"].as_array().expect("statements");
        assert_eq!(statements[0]["Action"], bucket_actions);
        let objects = &statements[statements.len() - 2];
        assert!(objects["Action"].as_array().expect("actions").contains(&json!(object_action)));
        let resources = objects["Resource"].as_array().expect("resources");
        assert!(resources.contains(&json!("arn:aws:s3:::photos/*")), "{resources:?}");
        let denied = &statements[statements.len() - 1];
        assert_eq!(denied["Effect"], "Deny");
        assert!(denied["Action"].as_array().expect("actions").contains(&json!("s3:PutBucketTagging")));
    }
}

/// The right to write BucketUsers in one namespace gives no bucket of another.
#[tokio::test]
async fn a_namespace_gets_its_own_buckets_and_those_that_others_share() {
    let (server, store) = a_user();
    a_bucket(&server, OTHERS, "ledger", json!({"allowedNamespaces": ["payroll"]}));
    let grant = |server: &ApiServer, grant: Value| {
        change(server, APP, |user| user["spec"]["buckets"] = json!([grant]));
    };
    let of_ledger = json!({"bucketRef": {"name": "ledger", "namespace": "storage"}, "access": "read"});
    let refused = [
        (of_ledger.clone(), "BucketNotAllowed"),
        (
            json!({"bucketRef": {"name": "none", "namespace": "storage"}, "access": "read"}),
            "BucketNotAllowed",
        ),
        (json!({"bucketRef": {"name": "none"}, "access": "read"}), "BucketMissing"),
        (json!({"name": "ledger", "access": "read"}), "BucketNotAllowed"),
    ];
    for (right, reason) in refused {
        grant(&server, right);
        step(&server, &store).await.expect("reported");
        says(&server, APP, READY, "False", reason);
        assert_eq!(policy(&store, "buckets"), None);
    }
    // A Bucket that names another's bucket and does not have it gives nothing.
    put(&server, &PHOTOS.replace("photos", "mine"), "Bucket", json!({"name": "ledger"}));
    for right in [
        json!({"bucketRef": {"name": "mine"}, "access": "read"}),
        json!({"name": "ledger", "access": "read"}),
    ] {
        grant(&server, right);
        step(&server, &store).await.expect("reported");
        assert_eq!(policy(&store, "buckets"), None);
    }
    grant(&server, json!({"name": "photos", "access": "read"}));
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    change(&server, OTHERS, |bucket| bucket["spec"]["allowedNamespaces"] = json!(["team"]));
    grant(&server, of_ledger.clone());
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    assert!(policy(&store, "buckets").expect("set").to_string().contains("arn:aws:s3:::ledger"));
    // A right that is withdrawn is taken away.
    change(&server, OTHERS, |bucket| bucket["spec"]["allowedNamespaces"] = json!([]));
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "BucketNotAllowed");
    assert_eq!(policy(&store, "buckets"), None);
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketUsers"] = json!({"anyBucket": ["team"]}));
    grant(&server, json!({"name": "ledger", "access": "read"}));
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
}

#[tokio::test]
async fn a_document_goes_no_further_than_the_buckets() {
    let allow =
        |resource: Value| json!({"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": resource}});
    let refused = [
        allow(json!("*")),
        allow(json!("arn:aws:s3:::*")),
        allow(json!("arn:aws:s3:::photos*")),
        allow(json!("arn:aws:s3:::photo?")),
        allow(json!("arn:aws:s3:::${aws:username}/*")),
        allow(json!("arn:*:s3:::photos")),
        allow(json!(["arn:aws:s3:::photos/*", "arn:aws:s3:::ledger/*"])),
        allow(json!("arn:aws:iam::000000000001:user/*")),
        allow(json!(null)),
        json!({"Statement": [{"Effect": "Allow", "Action": "s3:*", "NotResource": "arn:aws:s3:::photos"}]}),
        json!({"Statement": [{"Effect": "Allow", "Action": "s3:*"}]}),
        json!({"Statement": [{"effect": "Allow", "Action": "s3:*", "Resource": "*"}]}),
        json!({"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::photos", "resource": "*"}]}),
        json!({"statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}),
        json!("{\"Statement\": {\"Effect\": \"Allow\""),
    ];
    for document in refused {
        let (server, store) = a_user();
        change(&server, APP, |user| user["spec"]["policy"] = document.clone());
        step(&server, &store).await.expect("reported");
        let message = says(&server, APP, POLICY, "False", "PolicyOutOfBounds");
        assert_eq!(policy(&store, "policy"), None, "{document}: {message}");
        assert!(policy(&store, "buckets").is_some(), "the rights hold");
        change(&server, CLUSTER, |cluster| cluster["spec"]["bucketUsers"] = json!({"anyBucket": ["*"]}));
        step(&server, &store).await.expect("reconciled");
        says(&server, APP, POLICY, "True", "AsAsked");
    }
    let taken = [
        allow(json!(["arn:aws:s3:::photos", "arn:aws:s3:::photos/${aws:username}/*"])),
        json!({"Version": "2012-10-17", "Id": "a", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*"}]}),
    ];
    for document in taken {
        let (server, store) = a_user();
        change(&server, APP, |user| user["spec"]["policy"] = document.clone());
        step(&server, &store).await.expect("reconciled");
        says(&server, APP, POLICY, "True", "AsAsked");
        assert_eq!(policy(&store, "policy"), Some(document));
        // With the right the document goes, though it was taken before.
        change(&server, APP, |user| user["spec"]["buckets"] = json!([]));
        step(&server, &store).await.expect("reported");
        assert_eq!(policy(&store, "buckets"), None);
    }
}

/// Readers of a text that has a key twice may each take another one of them.
#[tokio::test]
async fn a_document_is_sent_as_it_was_judged() {
    let (server, store) = a_user();
    let text = r#"{"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Resource": "arn:aws:s3:::photos"}}"#;
    change(&server, APP, |user| user["spec"]["policy"] = json!(text));
    step(&server, &store).await.expect("reconciled");
    let sent = store.user("team.app").expect("made").policies["policy"].clone();
    assert_eq!(sent.matches("Resource").count(), 1, "{sent}");
    assert!(!sent.contains("\"*\""), "{sent}");
}

#[tokio::test]
async fn policies_are_put_back_and_a_malformed_one_is_reported() {
    let (server, store) = a_user();
    change(&server, APP, |user| {
        user["spec"]["policy"] = json!({"Statement": {"Effect": "Allow", "Action": "Nonsense", "Resource": "arn:aws:s3:::photos"}});
    });
    step(&server, &store).await.expect("reported");
    let message = says(&server, APP, POLICY, "False", "MalformedPolicy");
    assert_eq!(message, "MalformedPolicyDocument: Syntax errors in policy.");
    says(&server, APP, KEY, "True", "AsAsked");
    change(&server, APP, |user| {
        user["spec"].as_object_mut().expect("an object").remove("policy");
    });
    store.state.lock().users.get_mut("team.app").expect("made").policies =
        [("buckets".to_owned(), "{}".to_owned()), ("by-hand".to_owned(), "{}".to_owned())].into();
    step(&server, &store).await.expect("reconciled");
    assert!(policy(&store, "buckets").expect("set").to_string().contains("photos"));
    assert!(policy(&store, "by-hand").is_some(), "what another attached stays");
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
    change(&server, SECRET, |secret| secret["data"]["BUCKET_NAME"] = json!("b3RoZXI="));
    step(&server, &store).await.expect("reconciled");
    assert_eq!(secret(&server)["BUCKET_NAME"], "photos");
    assert_eq!(keys(&store).len(), 1);
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
    assert_eq!(at, 7, "a Secret, a status and five requests");
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

#[tokio::test]
async fn names_of_others_are_not_taken() {
    let (server, store) = a_user();
    let theirs = json!({"kind": "Secret", "metadata": {"name": "app", "namespace": "team"}, "data": {"theirs": "eWVz"}});
    server.put(SECRET, theirs.clone());
    step(&server, &store).await.expect("reported");
    says(&server, APP, KEY, "False", "NameTaken");
    assert_eq!(server.get(SECRET), Some(theirs));
    assert_eq!(keys(&store), Vec::<String>::new(), "no key is made that no Secret can hold");

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
