//! Each rule of Buckets and BucketUsers, as the API server judges it (CEL over the generated schema) and as
//! the operator does.

use kube::core::cel::{validate_cel, validate_cel_update};
use serde_json::{Value, json};
use sherd_operator::api::{Bucket, BucketUser, message};
use sherd_operator::buckets::validate;

fn bucket(name: &str, change: impl FnOnce(&mut Value)) -> Bucket {
    let mut document = json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "Bucket",
        "metadata": {"name": name, "namespace": "storage"},
        "spec": {"cluster": {"name": "demo"}},
    });
    change(&mut document["spec"]);
    serde_json::from_value(document).expect("of the right form")
}

fn user(change: impl FnOnce(&mut Value)) -> BucketUser {
    let mut document = json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "BucketUser",
        "metadata": {"name": "app", "namespace": "storage"},
        "spec": {"cluster": {"name": "demo"}, "buckets": [{"name": "photos", "access": "read"}]},
    });
    change(&mut document);
    serde_json::from_value(document).expect("of the right form")
}

/// Checks that both judges refuse a Bucket with this message, or accept it.
#[track_caller]
fn judged(expected: Option<&str>, bucket: &Bucket) {
    match (validate_cel(bucket), expected) {
        (Ok(()), None) => {}
        (Err(refused), Some(message)) => assert!(refused.to_string().contains(message), "CEL: {refused}"),
        (judged, expected) => panic!("CEL: {judged:?}, expected {expected:?}"),
    }
    match (validate::bucket(bucket), expected) {
        (Ok(_), None) => {}
        (Err(refused), Some(message)) => assert!(refused.iter().any(|one| one == message), "{refused:?}"),
        (judged, expected) => panic!("validate: {judged:?}, expected {expected:?}"),
    }
}

#[test]
fn a_bucket_has_a_name_that_fits_a_bucket_and_a_tag() {
    judged(None, &bucket("photos", |_| {}));
    judged(None, &bucket(&"a".repeat(63), |_| {}));
    judged(None, &bucket("a", |spec| spec["name"] = json!("photos")));
    judged(Some(message::BUCKET_OBJECT_NAME), &bucket("a", |_| {}));
    judged(
        Some(message::BUCKET_OBJECT_NAME),
        &bucket(&"a".repeat(64), |spec| spec["name"] = json!("photos")),
    );
    for name in ["ab", "Upper", "-a-", "a/b", "a?b", "a b"] {
        let bucket = bucket("photos", |spec| spec["name"] = json!(name));
        assert!(validate::bucket(&bucket).is_err(), "{name}");
    }
}

#[test]
fn the_operators_tag_is_reserved() {
    judged(None, &bucket("photos", |spec| spec["tags"] = json!({"sherd": "yes"})));
    judged(
        Some(message::RESERVED_TAG),
        &bucket("photos", |spec| spec["tags"] = json!({"sherd.dev/bucket": "other/other"})),
    );
}

#[test]
fn another_bucket_cluster_or_secret_is_another_object() {
    let changed = |message: Option<&str>, change: fn(&mut Value)| {
        let before = bucket("photos", |spec| spec["name"] = json!("before"));
        let after = bucket("photos", |spec| {
            spec["name"] = json!("before");
            change(spec);
        });
        match (validate_cel_update(&after, &before), message) {
            (Ok(()), None) => {}
            (Err(refused), Some(message)) => assert!(refused.to_string().contains(message), "{refused}"),
            (judged, expected) => panic!("{judged:?}, expected {expected:?}"),
        }
    };
    changed(None, |spec| spec["reclaimPolicy"] = json!("Delete"));
    changed(Some(message::BUCKET_NAME_KEPT), |spec| spec["name"] = json!("after"));
    changed(Some(message::BUCKET_NAME_KEPT), |spec| {
        spec.as_object_mut().expect("an object").remove("name");
    });
    changed(Some(message::CLUSTER_KEPT), |spec| spec["cluster"]["name"] = json!("other"));
    changed(Some(message::CLUSTER_KEPT), |spec| spec["cluster"]["namespace"] = json!("other"));

    let before = user(|_| {});
    for (message, after) in [
        (message::CLUSTER_KEPT, user(|user| user["spec"]["cluster"]["name"] = json!("other"))),
        (message::SECRET_NAME_KEPT, user(|user| user["spec"]["secretName"] = json!("other"))),
    ] {
        let refused = validate_cel_update(&after, &before).expect_err(message).to_string();
        assert!(refused.contains(message), "{refused}");
    }
    validate_cel_update(&user(|user| user["spec"]["buckets"] = json!([])), &before).expect("accepted");
    let given = |name: &str| user(|user| user["spec"]["secretRef"] = json!({"name": name}));
    for (after, before) in [(&given("one"), &before), (&before, &given("one"))] {
        let refused = validate_cel_update(after, before).expect_err("refused").to_string();
        assert!(refused.contains(message::SECRET_REF_KEPT), "{refused}");
    }
    validate_cel_update(&given("two"), &given("one")).expect("a rotation");
}

#[test]
fn a_user_has_a_secret_that_is_written_or_one_that_is_read() {
    let user = user(|user| {
        user["spec"]["secretName"] = json!("written");
        user["spec"]["secretRef"] = json!({"name": "read"});
    });
    let refused = validate_cel(&user).expect_err("refused").to_string();
    assert!(refused.contains(message::ONE_SECRET), "{refused}");
    assert_eq!(validate::user(&user).expect_err("refused"), [message::ONE_SECRET]);
}

#[test]
fn a_right_names_one_bucket_one_way() {
    let reference = json!({"name": "photos"});
    for right in [
        json!({"access": "read"}),
        json!({"access": "read", "name": "photos", "bucketRef": reference.clone()}),
    ] {
        let user = user(|user| user["spec"]["buckets"] = json!([right]));
        let refused = validate_cel(&user).expect_err("refused").to_string();
        assert!(refused.contains(message::ONE_BUCKET), "{refused}");
        assert!(validate::user(&user).expect_err("refused").contains(&message::ONE_BUCKET.to_owned()));
    }
    let user = user(|user| user["spec"]["buckets"] = json!([{"access": "admin", "bucketRef": reference}]));
    validate_cel(&user).expect("accepted");
    validate::user(&user).expect("accepted");
}

#[test]
fn a_user_has_a_name_that_iam_takes_an_overlap_in_range_and_a_document() {
    let (longest, longer) = ("a".repeat(56), "a".repeat(57));
    let named = |name: String| user(|user| user["metadata"]["name"] = json!(name));
    validate::user(&named(longest)).expect("64 with namespace and dot");
    assert_eq!(validate::user(&named(longer)).expect_err("65"), [message::USER_NAME]);
    let refused = validate_cel(&named("a".repeat(63))).expect_err("too long in every namespace").to_string();
    assert!(refused.contains(message::USER_NAME), "{refused}");
    for (overlap, holds) in
        [("0s", true), ("90m", true), ("30days", true), ("31days", false), ("soon", false)]
    {
        let user = user(|user| user["spec"]["rotation"] = json!({"overlap": overlap}));
        assert_eq!(validate::user(&user).is_ok(), holds, "{overlap}");
    }
    for (policy, holds) in [
        (json!({}), true),
        (json!("{}"), true),
        (json!("words: the store says what is wrong with them"), true),
        (json!([]), false),
        (json!(7), false),
    ] {
        let user = user(|user| user["spec"]["policy"] = policy.clone());
        assert_eq!(validate::user(&user).is_ok(), holds, "{policy}");
        let bucket = bucket("photos", |spec| spec["policy"] = policy.clone());
        assert_eq!(validate::bucket(&bucket).is_ok(), holds, "{policy}");
    }
}

/// The example is accepted by both judges, and the types have each of its fields.
#[test]
fn the_example_is_accepted() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/buckets.yaml");
    let text = std::fs::read_to_string(path).expect("an example");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let mut kinds = Vec::new();
    for document in documents {
        let kind = document["kind"].as_str().expect("a kind").to_owned();
        let again = match kind.as_str() {
            "Bucket" => {
                let bucket: Bucket = serde_json::from_value(document.clone()).expect("of the right form");
                judged(None, &bucket);
                serde_json::to_value(&bucket)
            }
            "BucketUser" => {
                let user: BucketUser = serde_json::from_value(document.clone()).expect("of the right form");
                validate_cel(&user).expect("accepted");
                validate::user(&user).expect("accepted");
                serde_json::to_value(&user)
            }
            kind => panic!("{kind} is not in the example"),
        };
        let missing = crate::rules::missing(&document, &again.expect("JSON"));
        assert_eq!(missing, Vec::<String>::new(), "{kind}");
        kinds.push(kind);
    }
    assert_eq!(kinds, ["Bucket", "BucketUser", "BucketUser", "BucketUser"]);
}
