//! Buckets: made, put back, adopted, refused and let go.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sherd_operator::api::{AccessCondition, Bucket};
use sherd_operator::buckets::NextLook;
use sherd_operator::buckets::bucket::reconcile;
use sherd_operator::reconcile::ReconcileError;

use super::store::{ScriptedBucket, StoreFault};
use super::*;
use crate::scripted_api::server::Fault;

const PHOTOS: &str = "/apis/sherd.dev/v1alpha1/namespaces/storage/buckets/photos";
const TEAMS: &str = "/apis/sherd.dev/v1alpha1/namespaces/team/buckets/photos";
const MARK: &str = "sherd.dev/bucket";
const READY: AccessCondition = AccessCondition::Ready;

async fn step(server: &ApiServer, store: &ScriptedStore, path: &str) -> Result<NextLook, ReconcileError> {
    let bucket: Bucket = serde_json::from_value(server.get(path).expect("there")).expect("decodes");
    reconcile(&context(server, store), &bucket).await
}

fn everything() -> Value {
    json!({
        "policy": {"Version": "2012-10-17", "Statement": []},
        "publicAccessBlock": {"blockPublicPolicy": false},
        "cors": [{"allowedOrigins": ["*"], "allowedMethods": ["GET"], "maxAgeSeconds": 60}],
        "tags": {"team": "blue"},
    })
}

fn there(store: &ScriptedStore, name: &str, tags: &[(&str, &str)]) {
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let bucket = ScriptedBucket { tags, ..ScriptedBucket::default() };
    store.state.lock().buckets.insert(name.to_owned(), bucket);
}

#[tokio::test]
async fn a_bucket_is_made_with_its_mark_and_configured_and_a_second_look_changes_nothing() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", everything());
    let look = step(&server, &store, PHOTOS).await.expect("reconciled");
    assert_eq!(look, NextLook::After(Duration::from_mins(5)));
    says(&server, PHOTOS, READY, "True", "AsAsked");
    says(&server, PHOTOS, AccessCondition::PolicyApplied, "True", "AsAsked");
    let bucket = store.bucket("photos").expect("made");
    assert_eq!(bucket.tags[MARK], "storage/photos/storage-0");
    assert_eq!(bucket.tags["team"], "blue");
    assert_eq!(
        bucket.documents["publicAccessBlock"],
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>\
         <IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>false</BlockPublicPolicy>\
         <RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>"
    );
    let changes = store.take_changes();
    assert_eq!(
        changes,
        ["PUT /photos", "PUT /photos?publicAccessBlock", "PUT /photos?policy", "PUT /photos?cors"],
        "the limits come before the policy that they judge"
    );
    let object = server.get(PHOTOS).expect("there");
    assert_eq!(object["status"]["bucket"], "photos");
    assert!(object["metadata"]["finalizers"].is_null(), "a bucket that stays keeps no object");
    server.take_changes();
    step(&server, &store, PHOTOS).await.expect("reconciled");
    assert_eq!(store.take_changes(), Vec::<String>::new());
    let changes: Vec<_> =
        server.take_changes().into_iter().filter(|(_, at)| !at.contains("leases")).collect();
    assert_eq!(changes, vec![]);
}

#[tokio::test]
async fn what_the_object_names_is_put_back_and_all_else_stays() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", everything());
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let asked = store.bucket("photos").expect("made");
    {
        let mut state = store.state.lock();
        let bucket = state.buckets.get_mut("photos").expect("there");
        bucket.tags =
            [("mine".to_owned(), "yes".to_owned()), (MARK.to_owned(), "storage/photos/storage-0".to_owned())]
                .into();
        bucket.documents.clear();
        bucket.documents.insert("policy".to_owned(), "{}".to_owned());
    }
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let mended = store.bucket("photos").expect("there");
    assert_eq!(mended.documents, asked.documents);
    assert_eq!(mended.tags["mine"], "yes", "another's tag");
    assert_eq!(
        (mended.tags[MARK].as_str(), mended.tags["team"].as_str()),
        ("storage/photos/storage-0", "blue")
    );

    put(&server, PHOTOS, "Bucket", json!({}));
    server.delete(PHOTOS);
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", json!({}));
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let documents = [("policy".to_owned(), "{}".to_owned()), ("cors".to_owned(), "<C/>".to_owned())];
    store.state.lock().buckets.get_mut("photos").expect("there").documents.extend(documents.clone());
    step(&server, &store, PHOTOS).await.expect("reconciled");
    assert_eq!(store.bucket("photos").expect("there").documents, documents.into());
}

#[tokio::test]
async fn a_part_that_is_no_longer_named_is_undone() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", everything());
    step(&server, &store, PHOTOS).await.expect("reconciled");
    change(&server, PHOTOS, |object| {
        object["spec"] = json!({"cluster": {"name": "demo", "namespace": "storage"}});
    });
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let bucket = store.bucket("photos").expect("there");
    assert_eq!(bucket.tags.keys().collect::<Vec<_>>(), [MARK]);
    assert!(!bucket.documents.contains_key("policy") && !bucket.documents.contains_key("cors"));
    assert!(!bucket.documents["publicAccessBlock"].contains("false"), "as a new bucket has it");
    says(&server, PHOTOS, AccessCondition::PolicyApplied, "True", "NotNeeded");
}

/// The status of a Bucket may be written by other clients.
#[tokio::test]
async fn a_status_takes_no_tag_of_roots_away() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", everything());
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let tags = [("sherd.dev/class".to_owned(), "secret".to_owned()), ("mine".to_owned(), "yes".to_owned())];
    store.state.lock().buckets.get_mut("photos").expect("there").tags.extend(tags);
    change(&server, PHOTOS, |bucket| bucket["status"]["tagKeys"] = json!(["sherd.dev/class", "mine"]));
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let tags = store.bucket("photos").expect("there").tags;
    assert_eq!(tags.keys().collect::<Vec<_>>(), [MARK, "sherd.dev/class", "team"]);
}

#[tokio::test]
async fn a_malformed_policy_is_reported_with_the_stores_words_and_the_rest_is_set() {
    let (server, store) = a_serving_cluster();
    let mut spec = everything();
    spec["policy"] = json!("{\"Statement\": \"Nonsense\"}");
    put(&server, PHOTOS, "Bucket", spec);
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let message = says(&server, PHOTOS, AccessCondition::PolicyApplied, "False", "MalformedPolicy");
    assert_eq!(message, "MalformedPolicy: Policy has invalid action");
    says(&server, PHOTOS, READY, "False", "MalformedPolicy");
    assert!(store.bucket("photos").expect("made").documents.contains_key("cors"));
    assert_eq!(server.get(PHOTOS).expect("there")["status"]["bucket"], "photos");

    change(&server, PHOTOS, |object| object["spec"]["policy"] = json!(7));
    step(&server, &store, PHOTOS).await.expect("reported");
    says(&server, PHOTOS, READY, "False", "SpecInvalid");
}

#[tokio::test]
async fn a_refused_configuration_is_reported_and_the_rest_is_set() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", everything());
    store.fail(
        "PUT /photos?cors",
        StoreFault::Refused(400, "InvalidRequest", "Found unsupported HTTP method"),
    );
    store.fail("PUT /photos?policy", StoreFault::Refused(501, "NotImplemented", "not here"));
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let message = says(&server, PHOTOS, READY, "False", "Refused");
    assert_eq!(message, "InvalidRequest: Found unsupported HTTP method");
    says(&server, PHOTOS, AccessCondition::PolicyApplied, "False", "PolicyRefused");
    assert!(store.bucket("photos").expect("made").documents.contains_key("publicAccessBlock"));
    assert_eq!(server.get(PHOTOS).expect("there")["status"]["bucket"], "photos", "it is this object's");
    store.mend();
    // A refusal that passes by itself is tried again soon, and nothing of the last status is lost.
    store.fail("PUT /photos?cors", StoreFault::Refused(503, "SlowDown", "Reduce your request rate"));
    let look = step(&server, &store, PHOTOS).await.expect("reported");
    assert_eq!(look, NextLook::After(Duration::from_secs(10)));
    assert_eq!(server.get(PHOTOS).expect("there")["status"]["bucket"], "photos");
}

#[tokio::test]
async fn a_bucket_that_is_there_is_taken_only_by_adoption() {
    let (server, store) = a_serving_cluster();
    there(&store, "photos", &[("mine", "yes")]);
    put(&server, PHOTOS, "Bucket", everything());
    step(&server, &store, PHOTOS).await.expect("reported");
    says(&server, PHOTOS, READY, "False", "BucketExists");
    assert_eq!(store.take_changes(), Vec::<String>::new(), "nothing of it is changed");
    change(&server, PHOTOS, |object| object["spec"]["adopt"] = json!(true));
    step(&server, &store, PHOTOS).await.expect("reconciled");
    says(&server, PHOTOS, READY, "True", "AsAsked");
    let tags = store.bucket("photos").expect("there").tags;
    assert_eq!((tags["mine"].as_str(), tags[MARK].as_str()), ("yes", "storage/photos/storage-0"));
}

/// A status lasts longer than a bucket, and others may write it.
#[tokio::test]
async fn the_status_makes_no_bucket_an_objects_own() {
    let (server, store) = a_serving_cluster();
    there(&store, "photos", &[]);
    put(&server, PHOTOS, "Bucket", json!({"reclaimPolicy": "Delete"}));
    change(&server, PHOTOS, |object| object["status"] = json!({"conditions": [], "bucket": "photos"}));
    step(&server, &store, PHOTOS).await.expect("reported");
    says(&server, PHOTOS, READY, "False", "BucketExists");
    assert!(server.get(PHOTOS).expect("there")["status"]["bucket"].is_null());
    change(&server, PHOTOS, |object| object["status"]["bucket"] = json!("photos"));
    begin_deletion(&server, PHOTOS);
    step(&server, &store, PHOTOS).await.expect("let go");
    assert_eq!(store.take_changes(), Vec::<String>::new());
    assert!(server.get(PHOTOS).is_none() && store.bucket("photos").is_some());
}

/// Without the rule a namespace could take any bucket of the cluster by naming it.
#[tokio::test]
async fn another_namespace_adopts_only_what_the_cluster_allows() {
    let (server, store) = a_serving_cluster();
    there(&store, "photos", &[]);
    put(&server, TEAMS, "Bucket", json!({"adopt": true}));
    step(&server, &store, TEAMS).await.expect("reported");
    says(&server, TEAMS, READY, "False", "AdoptionNotAllowed");
    assert!(server.get(TEAMS).expect("there")["status"]["bucket"].is_null());
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketUsers"] = json!({"anyBucket": ["team"]}));
    step(&server, &store, TEAMS).await.expect("reconciled");
    says(&server, TEAMS, READY, "True", "AsAsked");
}

#[tokio::test]
async fn of_two_objects_for_one_bucket_the_marked_one_has_it() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", json!({}));
    step(&server, &store, PHOTOS).await.expect("reconciled");
    put(&server, TEAMS, "Bucket", json!({"adopt": true}));
    step(&server, &store, TEAMS).await.expect("reported");
    let message = says(&server, TEAMS, READY, "False", "BucketTaken");
    assert_eq!(message, "bucket photos is another namespace's", "a tenant learns no name of another");
    // The deletion of the second Bucket does not touch the bucket.
    change(&server, TEAMS, |object| object["spec"]["reclaimPolicy"] = json!("Delete"));
    step(&server, &store, TEAMS).await.expect("reported");
    begin_deletion(&server, TEAMS);
    step(&server, &store, TEAMS).await.expect("let go");
    assert!(server.get(TEAMS).is_none() && store.bucket("photos").is_some());
    // The first goes and leaves it: a third of its namespace may adopt it, and one of its name takes it up.
    server.delete(PHOTOS);
    let other = PHOTOS.replace("photos", "other");
    put(&server, &other, "Bucket", json!({"name": "photos"}));
    step(&server, &store, &other).await.expect("reported");
    let message = says(&server, &other, READY, "False", "BucketExists");
    assert!(message.contains("left by Bucket storage/photos"), "{message}");
    put(&server, PHOTOS, "Bucket", json!({}));
    step(&server, &store, PHOTOS).await.expect("reconciled");
    says(&server, PHOTOS, READY, "True", "AsAsked");
}

#[tokio::test]
async fn a_namespace_that_the_cluster_does_not_list_gets_nothing() {
    let (server, store) = a_serving_cluster();
    let path = TEAMS.replace("team", "stranger");
    put(&server, &path, "Bucket", json!({}));
    step(&server, &store, &path).await.expect("reported");
    says(&server, &path, READY, "False", "NamespaceNotAllowed");
    put(&server, &path, "Bucket", json!({"cluster": {"name": "demo"}}));
    step(&server, &store, &path).await.expect("reported");
    says(&server, &path, READY, "False", "ClusterMissing");
    assert!(store.state.lock().calls.is_empty(), "no node is asked");
}

#[tokio::test]
async fn a_bucket_to_be_deleted_waits_until_it_is_empty() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", json!({"reclaimPolicy": "Delete"}));
    step(&server, &store, PHOTOS).await.expect("reconciled");
    store.state.lock().buckets.get_mut("photos").expect("made").objects = 3;
    begin_deletion(&server, PHOTOS);
    step(&server, &store, PHOTOS).await.expect("waits");
    let message = says(&server, PHOTOS, AccessCondition::DeletionBlocked, "True", "BucketNotEmpty");
    assert!(message.contains("Retain"), "{message}");
    says(&server, PHOTOS, READY, "False", "Deleting");
    assert_eq!(store.bucket("photos").expect("there").objects, 3, "objects are never deleted");
    store.state.lock().buckets.get_mut("photos").expect("there").objects = 0;
    step(&server, &store, PHOTOS).await.expect("let go");
    assert!(server.get(PHOTOS).is_none() && store.bucket("photos").is_none());
}

#[tokio::test]
async fn what_keeps_a_deletion_is_said_and_ends() {
    for (spec, mend) in
        [(json!({"reclaimPolicy": "Delete"}), "retain"), (json!({"reclaimPolicy": "Delete"}), "cluster")]
    {
        let (server, store) = a_serving_cluster();
        put(&server, PHOTOS, "Bucket", spec);
        step(&server, &store, PHOTOS).await.expect("reconciled");
        assert_eq!(server.get(PHOTOS).expect("there")["metadata"]["finalizers"], json!([MARK]));
        begin_deletion(&server, PHOTOS);
        store.fail("photos", StoreFault::Silent);
        step(&server, &store, PHOTOS).await.expect("waits");
        says(&server, PHOTOS, AccessCondition::DeletionBlocked, "True", "NodesSilent");
        if mend == "retain" {
            change(&server, PHOTOS, |object| object["spec"]["reclaimPolicy"] = json!("Retain"));
        } else {
            server.delete(CLUSTER);
        }
        step(&server, &store, PHOTOS).await.expect("let go");
        assert!(server.get(PHOTOS).is_none(), "{mend}");
        assert!(store.bucket("photos").is_some());
    }
}

/// A namespace that is being deleted takes no lease any more: that of the cluster, too.
#[tokio::test]
async fn an_object_is_let_go_without_a_lease() {
    let (server, store) = a_serving_cluster();
    put(&server, TEAMS, "Bucket", json!({"reclaimPolicy": "Delete"}));
    step(&server, &store, TEAMS).await.expect("reconciled");
    server.fail(Method::GET, "namespaces/storage/leases", Fault::Code(403));
    step(&server, &store, TEAMS).await.expect_err("not worked on");
    begin_deletion(&server, TEAMS);
    step(&server, &store, TEAMS).await.expect("let go");
    assert!(server.get(TEAMS).is_none() && store.bucket("photos").is_none());
}

#[tokio::test]
async fn silent_nodes_are_reported_and_nothing_of_the_last_status_is_lost() {
    let (server, store) = a_serving_cluster();
    put(&server, PHOTOS, "Bucket", everything());
    step(&server, &store, PHOTOS).await.expect("reconciled");
    let before = server.get(PHOTOS).expect("there")["status"].clone();
    store.fail("photos", StoreFault::Silent);
    step(&server, &store, PHOTOS).await.expect("reported");
    says(&server, PHOTOS, READY, "Unknown", "NodesSilent");
    let after = server.get(PHOTOS).expect("there")["status"].clone();
    for kept in ["bucket", "applied", "tagKeys", "endpoint"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
}

/// The answer to each request in turn is lost, as with an operator that ends there: the next reconcile goes
/// on.
#[tokio::test]
async fn a_reconcile_that_is_cut_at_any_request_is_gone_on_with() {
    for lost_at in 0.. {
        let (server, store) = a_serving_cluster();
        put(&server, PHOTOS, "Bucket", everything());
        store.state.lock().lost_at = Some(lost_at);
        step(&server, &store, PHOTOS).await.expect("reported");
        let requests = store.state.lock().calls.len();
        store.mend();
        step(&server, &store, PHOTOS).await.expect("reconciled");
        says(&server, PHOTOS, READY, "True", "AsAsked");
        let bucket = store.bucket("photos").expect("made");
        assert_eq!((bucket.documents.len(), bucket.tags.len()), (3, 2), "{lost_at}");
        if lost_at >= requests {
            break;
        }
    }
}
