//! Plans as a table: what there is and what is asked for decides what is made, kept or refused.

#![expect(clippy::needless_pass_by_value, reason = "documents are written where they are passed")]

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use sherd_core::id::ClusterId;
use sherd_operator::api::{Reason, StorageCluster};
use sherd_operator::reconcile::image::ImageName;
use sherd_operator::reconcile::observe::{ForeignObject, ObservedCluster};
use sherd_operator::reconcile::plan::{AuthorityPlan, Blockage, BlockedPart, CredentialsPlan, Plan, plan};
use sherd_operator::reconcile::validate::validate;
use sherd_operator::rotation::AuthorityRecord;
use sherd_operator::secret_text::{AcceptedCredentials, RootCredentials, SecretText};
use sherd_trust::{Authority, AuthorityKeyDigest};

const ID: &str = "6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a";

fn cluster(spec: Value, status: Value) -> StorageCluster {
    let mut document = json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "StorageCluster",
        "metadata": {"name": "demo", "namespace": "storage"},
        "spec": {"pools": [{
            "name": "pool-0",
            "nodes": 2,
            "volumeClaimTemplate": {"resources": {"requests": {"storage": "1Gi"}}},
        }]},
        "status": status,
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        document["spec"][key] = value.clone();
    }
    serde_json::from_value(document).expect("of the right form")
}

fn secret(texts: Value) -> Secret {
    let texts = texts.as_object().expect("texts").iter();
    let data =
        texts.map(|(key, text)| (key.clone(), ByteString(text.as_str().expect("text").as_bytes().to_vec())));
    Secret { data: Some(data.collect()), ..Secret::default() }
}

fn authority() -> Value {
    let made = Authority::init(ClusterId([0x6a; 16]), 1_800_000_000_000).expect("made");
    json!({"cluster-id": ID, "ca.crt": made.certificate(), "ca.key": made.key()})
}

fn claims(id: &str) -> ObservedCluster {
    let claim = json!({"metadata": {"name": "v1-demo-pool-0-0", "labels": {"sherd.dev/cluster-id": id}}});
    ObservedCluster {
        claims: vec![serde_json::from_value(claim).expect("a claim")],
        ..ObservedCluster::default()
    }
}

/// A cluster of which all Secrets are there.
fn kept(authority: Value) -> ObservedCluster {
    let credentials = json!({"AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "longenough"});
    ObservedCluster {
        authority: Some(secret(authority)),
        credentials: Some(secret(credentials)),
        master_key: Some(secret(json!({"master.key": "k".repeat(32)}))),
        ..claims(ID)
    }
}

fn planned(cluster: &StorageCluster, observed: &ObservedCluster) -> Result<Plan, Blockage> {
    let fallback = ImageName::tagged("sherd-node", "2");
    plan(&validate(cluster).expect("valid"), observed, &fallback)
}

fn nothing() -> ObservedCluster {
    ObservedCluster::default()
}

#[test]
fn a_first_sight_makes_everything() {
    let plan = planned(&cluster(json!({}), Value::Null), &nothing()).expect("planned");
    assert_eq!(plan.authority, AuthorityPlan::Make);
    assert_eq!(plan.credentials, CredentialsPlan::Generated);
    assert_eq!(plan.pods, ["demo-pool-0-0", "demo-pool-0-1"]);
    assert_eq!(plan.image.to_string(), "sherd-node:2");
}

#[test]
fn an_image_that_is_recorded_outlives_an_upgrade_of_the_operator() {
    let image = |spec: Value, recorded: &str| {
        let of = |repository: &str, tag: Option<&str>| json!({"repository": repository, "tag": tag});
        let recorded = match recorded.rsplit_once(':') {
            None => Value::Null,
            Some((repository, "")) => json!({"recordedImage": of(repository, None)}),
            Some((repository, tag)) => json!({"recordedImage": of(repository, Some(tag))}),
        };
        planned(&cluster(spec, recorded), &nothing()).expect("planned").image.to_string()
    };
    assert_eq!(image(json!({}), ""), "sherd-node:2");
    assert_eq!(image(json!({}), "sherd-node:1"), "sherd-node:1");
    assert_eq!(image(json!({"image": {"tag": "3"}}), "sherd-node:1"), "sherd-node:3");
    assert_eq!(image(json!({"image": {"repository": "r:5000/n"}}), "sherd-node:1"), "r:5000/n:1");
    assert_eq!(image(json!({}), "r:5000/n:1"), "r:5000/n:1");
    assert_eq!(image(json!({}), "r:5000/n:"), "r:5000/n");
}

/// A recorded image with a digest is read as it was.
#[test]
fn an_image_with_a_digest_stays_what_it_is() {
    let (one, two) = (format!("sha256:{}", "1".repeat(64)), format!("sha256:{}", "2".repeat(64)));
    let image = |spec: Value, recorded: Value| {
        planned(&cluster(spec, recorded), &nothing()).expect("planned").image.to_string()
    };
    let recorded =
        json!({"recordedImage": {"repository": "n", "tag": "1", "digest": one}, "image": "other:9"});
    assert_eq!(image(json!({}), recorded.clone()), format!("n:1@{one}"));
    assert_eq!(
        image(json!({"image": {"tag": "3"}}), recorded.clone()),
        "n:3",
        "another tag is another image"
    );
    assert_eq!(image(json!({"image": {"digest": two}}), recorded.clone()), format!("n@{two}"));
    assert_eq!(image(json!({"image": {"repository": "r/n"}}), recorded), format!("r/n:1@{one}"));
}

#[test]
fn an_authority_that_is_there_is_kept() {
    let texts = authority();
    let observed = kept(texts.clone());
    let plan = planned(&cluster(json!({}), json!({"clusterId": ID})), &observed).expect("planned");
    let texts = texts.as_object().expect("texts").iter();
    let texts = texts.map(|(key, text)| (key.clone(), text.as_str().expect("text").to_owned())).collect();
    let record = AuthorityRecord::read(&texts).expect("whole");
    let expected = AuthorityPlan::Keep(record.accept(None).expect("no other is known"));
    assert_eq!(plan.authority, expected);
}

#[track_caller]
fn blocked(
    observed: &ObservedCluster,
    cluster: &StorageCluster,
    part: BlockedPart,
    reason: Reason,
    words: &str,
) {
    let blockage = planned(cluster, observed).expect_err("blocked");
    assert_eq!((blockage.part, blockage.reason), (part, reason), "{}", blockage.message);
    assert!(blockage.message.contains(words), "{}", blockage.message);
}

/// A second CA would leave nodes that do not trust each other, and volumes of another cluster.
#[test]
fn an_authority_that_is_gone_is_never_replaced() {
    let fresh = cluster(json!({}), Value::Null);
    let formed = cluster(json!({}), json!({"clusterId": ID}));
    blocked(&claims(ID), &fresh, BlockedPart::Certificates, Reason::AuthorityMissing, ID);
    blocked(&nothing(), &formed, BlockedPart::Certificates, Reason::AuthorityMissing, "demo-ca");
    let other = ObservedCluster {
        authority: Some(secret(authority())),
        ..claims("7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b")
    };
    blocked(&other, &fresh, BlockedPart::Certificates, Reason::AuthorityMissing, "7b7b");
    // Claims of two clusters, and the CA is that of the first.
    let mut mixed = ObservedCluster { authority: Some(secret(authority())), ..claims(ID) };
    mixed.claims.extend(other.claims);
    blocked(&mixed, &formed, BlockedPart::Certificates, Reason::AuthorityMissing, "7b7b");
}

/// Claims that lost their labels, or were restored without them, are still a user's data.
#[test]
fn claims_by_name_alone_stop_the_making_of_an_authority() {
    let observed = ObservedCluster { foreign_claims: vec![foreign("v1-demo-pool-0-0", None)], ..nothing() };
    let fresh = cluster(json!({}), Value::Null);
    let part = BlockedPart::Certificates;
    blocked(&observed, &fresh, part, Reason::AuthorityMissing, "v1-demo-pool-0-0: restore the Secret");
    // Another cluster's data is not to be deleted for this one.
    let claims = vec![foreign("v1-demo-pool-0-0", Some("demo-pool"))];
    let observed = ObservedCluster { foreign_claims: claims, ..nothing() };
    let blockage = planned(&fresh, &observed).expect_err("blocked");
    assert!(blockage.message.contains("StorageCluster demo-pool's"), "{}", blockage.message);
    assert!(!blockage.message.contains("delete"), "{}", blockage.message);
}

fn foreign(object: &str, cluster: Option<&str>) -> ForeignObject {
    ForeignObject { object: object.to_owned(), cluster: cluster.map(str::to_owned) }
}

/// A CA of the same cluster id with another key: certificates and credentials would change under running
/// pods.
#[test]
fn another_authority_of_the_same_cluster_is_refused() {
    let [former, texts] = [(); 2].map(|()| authority());
    let text = |texts: &Value| texts["ca.crt"].as_str().expect("text").to_owned();
    let (first, second) = (text(&former), text(&texts));
    let digest = |text: &str| AuthorityKeyDigest::read(text).expect("a certificate").to_string();
    let observed = kept(texts);
    let part = BlockedPart::Certificates;
    let recorded = |key: &str| cluster(json!({}), json!({"clusterId": ID, "authorityKey": key}));
    blocked(&observed, &recorded(&digest(&first)), part, Reason::AuthorityChanged, &digest(&first));
    planned(&recorded(&digest(&second)), &observed).expect("the one that is recorded");
    // The status was lost: what the pods mount says it.
    let mounted = |text: &str| ObservedCluster {
        certificates: Some(secret(json!({"ca.crt": text}))),
        ..observed.clone()
    };
    let fresh = cluster(json!({}), Value::Null);
    blocked(&mounted(&first), &fresh, part, Reason::AuthorityChanged, "demo-ca");
    planned(&fresh, &mounted(&second)).expect("the same one");
    // The recorded key goes first: an edited Secret of certificates is put right, not followed.
    planned(&recorded(&digest(&second)), &mounted(&first)).expect("an edit");
    planned(&fresh, &observed).expect("nothing runs with another one");
}

#[test]
fn objects_of_others_stop_every_change() {
    let observed = ObservedCluster {
        foreign: vec![
            foreign("ConfigMap demo-config", None),
            foreign("StatefulSet demo-pool-0", Some("demo-pool")),
        ],
        ..nothing()
    };
    let fresh = cluster(json!({}), Value::Null);
    for words in [
        "ConfigMap demo-config: delete or rename it, or label it",
        "sherd.dev/cluster=demo to give",
        "StatefulSet demo-pool-0 is StorageCluster demo-pool's: give this cluster",
    ] {
        blocked(&observed, &fresh, BlockedPart::Names, Reason::NameTaken, words);
    }
}

#[test]
fn an_authority_that_lacks_a_part_is_named() {
    let fresh = cluster(json!({}), Value::Null);
    for key in ["cluster-id", "ca.crt", "ca.key"] {
        for text in [None, Some("")] {
            let mut texts = authority();
            match text {
                None => drop(texts.as_object_mut().expect("texts").remove(key)),
                Some(text) => texts[key] = json!(text),
            }
            let observed = ObservedCluster { authority: Some(secret(texts)), ..nothing() };
            blocked(&observed, &fresh, BlockedPart::Certificates, Reason::SecretMalformed, key);
        }
    }
    let mut texts = authority();
    texts["cluster-id"] = json!("six");
    let observed = ObservedCluster { authority: Some(secret(texts)), ..nothing() };
    blocked(&observed, &fresh, BlockedPart::Certificates, Reason::SecretMalformed, "cluster-id");
}

/// Under a key of another CA nothing could be issued that the nodes trust.
#[test]
fn an_authority_whose_parts_do_not_fit_is_named() {
    let [mut texts, other] = [(); 2].map(|()| authority());
    texts["ca.key"] = other["ca.key"].clone();
    let observed = ObservedCluster { authority: Some(secret(texts)), ..nothing() };
    let (fresh, part) = (cluster(json!({}), Value::Null), BlockedPart::Certificates);
    blocked(&observed, &fresh, part, Reason::SecretMalformed, "does not fit");
}

#[test]
fn credentials_of_the_user_are_used_when_they_are_well_formed() {
    let given = cluster(json!({"credentials": {"secretRef": {"name": "mine"}}}), Value::Null);
    let part = BlockedPart::Credentials;
    blocked(&nothing(), &given, part, Reason::SecretMissing, "mine");
    let with = |texts: Value| ObservedCluster { credentials: Some(secret(texts)), ..nothing() };
    let good =
        json!({"AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "long enough?".replace(' ', "-")});
    let plan = planned(&given, &with(good.clone())).expect("planned");
    let credentials = RootCredentials {
        access_key_id: "root".to_owned(),
        secret_access_key: SecretText("long-enough?".to_owned()),
    };
    let provided = |credentials| CredentialsPlan::Provided { secret: "mine".to_owned(), credentials };
    assert_eq!(plan.credentials, provided(credentials.clone().into()));
    // A second pair, while the first one is replaced.
    let second = |id: &str, key: &str| {
        let mut texts = good.clone();
        texts["AWS_ACCESS_KEY_ID_SECONDARY"] = json!(id);
        texts[key] = json!("another-long-one");
        texts
    };
    let both = planned(&given, &with(second("next", "AWS_SECRET_ACCESS_KEY_SECONDARY"))).expect("planned");
    let secondary = RootCredentials {
        access_key_id: "next".to_owned(),
        secret_access_key: SecretText("another-long-one".to_owned()),
    };
    let pairs = AcceptedCredentials { first: credentials, secondary: Some(secondary) };
    assert_eq!(both.credentials, provided(pairs));
    for (texts, named) in [
        (second("root", "AWS_SECRET_ACCESS_KEY_SECONDARY"), "AWS_ACCESS_KEY_ID_SECONDARY"),
        (second("no spaces", "AWS_SECRET_ACCESS_KEY_SECONDARY"), "AWS_ACCESS_KEY_ID_SECONDARY"),
        (second("next", "another"), "AWS_SECRET_ACCESS_KEY_SECONDARY"),
    ] {
        blocked(&with(texts), &given, part, Reason::SecretMalformed, named);
    }
    for (key, text) in [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_ACCESS_KEY_ID", "no spaces"),
        ("AWS_SECRET_ACCESS_KEY", "short"),
        ("AWS_SECRET_ACCESS_KEY", "a line\nand another"),
    ] {
        let mut texts = good.clone();
        texts[key] = json!(text);
        blocked(&with(texts), &given, part, Reason::SecretMalformed, key);
    }
}

#[test]
fn a_recorded_image_stays_until_the_cluster_follows_its_operator() {
    let recorded = json!({"recordedImage": {"repository": "sherd-node", "tag": "1"}});
    let follows = cluster(json!({"upgrade": {"followOperator": true}}), recorded.clone());
    assert_eq!(planned(&follows, &nothing()).expect("planned").image.to_string(), "sherd-node:2");
    let stays = cluster(json!({}), recorded);
    assert_eq!(planned(&stays, &nothing()).expect("planned").image.to_string(), "sherd-node:1");
}
