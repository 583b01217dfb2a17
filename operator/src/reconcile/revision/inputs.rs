//! A digest of the inputs of the pods' template: the parts of a cluster that reach its pods. It is stored
//! beside the template that was built of them, and operators of other versions compare it: while it stays,
//! they keep that template.
//!
//! So its form is persistent. A field that a cluster does not set adds nothing to it, so that a field that a
//! later version has beside them changes no digest.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::api::{NodeSettings, RecordedTemplate, StorageCluster};
use crate::names::RESTART_ANNOTATION;
use crate::reconcile::material::Material;
use crate::reconcile::plan::Plan;
use crate::reconcile::s3_tls::S3Serving;

/// Parts of the specification that reach no pod, each as its path. Another part counts as an input.
const OF_NO_POD: [&[&str]; 10] = [
    &["paused"],
    &["upgrade"],
    &["bucketNamespaces"],
    &["adminCertificate"],
    &["bucketUsers"],
    &["networkPolicy"],
    &["deletionPolicy"],
    &["gateway", "service"],
    &["iam", "port"],
    // The Secrets that pods mount are inputs, and no other part.
    &["tls"],
];
/// Parts of an image that the plan decides.
const OF_IMAGE: [&str; 3] = ["repository", "tag", "digest"];

/// Digests of the inputs of a cluster's template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputDigests {
    /// Of all, as operators of every version compare them.
    pub(super) all: String,
    /// Of all but the settings that running nodes take from a live file.
    pub(super) fixed: String,
}

impl InputDigests {
    /// Whether a recorded template was built of these. Settings that running nodes take do not count.
    pub(super) fn are_of(&self, recorded: &RecordedTemplate) -> bool {
        recorded.inputs == self.all || recorded.fixed_inputs == self.fixed
    }
}

/// Returns the digests of the inputs of a cluster's template.
pub(super) fn digests(cluster: &StorageCluster, plan: &Plan, material: &Material) -> InputDigests {
    // Another field that reaches the pods' template must be added, and is left out where it is not set.
    // Running pods stay as they are where the API server says something else of itself than before.
    let Plan {
        image,
        pull_policy: _,
        pull_secrets: _,
        users: _,
        authority: _,
        is_formed: _,
        credentials: _,
        rotation_request: _,
        made_credentials: _,
        master_key: _,
        pods: _,
        certificates: _,
    } = plan;
    let Material {
        cluster: _,
        authority: _,
        credentials: _,
        accepted: _,
        master_key: _,
        certificates_digest,
        certificates: _,
        s3,
        // The certificate of an admin is in no pod.
        admin: _,
    } = material;
    let mut fixed = cluster.clone();
    fixed.spec.config = without_hot(&cluster.spec.config);
    let digest = |cluster: &StorageCluster| {
        digest_of_parts(cluster, &image.to_string(), certificates_digest, &s3.serving)
    };
    InputDigests { all: digest(cluster), fixed: digest(&fixed) }
}

/// The settings that a node takes only when it starts.
fn without_hot(settings: &NodeSettings) -> NodeSettings {
    let NodeSettings {
        region,
        inline_max,
        pack_max,
        buffer_cap,
        index_cache,
        audit_log,
        trusted_proxies,
        ..
    } = settings.clone();
    let unset = NodeSettings::default();
    NodeSettings {
        region,
        inline_max,
        pack_max,
        buffer_cap,
        index_cache,
        audit_log,
        trusted_proxies,
        ..unset
    }
}

/// The digest, with what was decided beside the specification: the image, the digest of the certificates, and
/// where the certificate of S3 is.
fn digest_of_parts(cluster: &StorageCluster, image: &str, certificates: &str, serving: &S3Serving) -> String {
    let mut document = json!({
        "spec": of_pods(cluster),
        "image": image,
        // Nodes follow them as a file.
        "credentials": "",
        "certificates": certificates,
        "restart": cluster.annotations().get(RESTART_ANNOTATION),
    });
    if let S3Serving::Tls(secret) = serving {
        document["s3Certificate"] = json!(secret);
        let further = cluster.spec.tls.further_names();
        if !further.is_empty() {
            document["s3FurtherCertificates"] = json!(further);
        }
    }
    // An empty security context is not the same as an absent one, and `of_pods` leaves both out.
    let given = cluster.spec.pools.first().and_then(|pool| pool.pod_security_context);
    if let Some(given) = given {
        document["podSecurityContext"] = json!(given);
    }
    digest_of(&document)
}

/// A short digest of a document: equal documents have one text, since their fields are sorted.
pub(super) fn digest_of(document: &Value) -> String {
    hex::encode(Sha256::digest(document.to_string())).chars().take(16).collect()
}

/// The parts of the specification that reach pods, without those that are as if they were absent.
fn of_pods(cluster: &StorageCluster) -> Value {
    let mut spec = json!(cluster.spec);
    for path in OF_NO_POD {
        remove(&mut spec, path);
    }
    for part in OF_IMAGE {
        remove(&mut spec, &["image", part]);
    }
    let unset = unset();
    for pool in spec["pools"].as_array_mut().into_iter().flatten() {
        remove(pool, &["volumeClaimTemplate"]);
        leave_out(pool, &unset["pools"][0]);
    }
    leave_out(&mut spec, &unset);
    spec
}

fn remove(value: &mut Value, path: &[&str]) {
    match path {
        [] => {}
        [last] => {
            if let Some(fields) = value.as_object_mut() {
                fields.remove(*last);
            }
        }
        [first, rest @ ..] => {
            if let Some(below) = value.get_mut(*first) {
                remove(below, rest);
            }
        }
    }
}

/// A specification in which nothing is set. A part that is absent as a whole, and has fields with a default,
/// is named here.
fn unset() -> Value {
    let document = json!({
        "image": {},
        "pools": [{"name": "", "nodes": 0, "volumeClaimTemplate": {"resources": {"requests": {"storage": "0"}}}}],
    });
    let read = serde_json::from_value::<crate::api::StorageClusterSpec>(document);
    read.map_or(Value::Null, |spec| json!(spec))
}

/// Removes the fields that are as in a specification in which nothing is set.
fn leave_out(value: &mut Value, unset: &Value) {
    let (Some(fields), Some(unset)) = (value.as_object_mut(), unset.as_object()) else { return };
    fields.retain(|name, field| {
        let Some(unset) = unset.get(name) else { return !field.is_null() };
        leave_out(field, unset);
        *field != *unset && !field.is_null() && *field != json!({})
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(change: impl FnOnce(&mut Value)) -> StorageCluster {
        let mut document = json!({
            "apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster",
            "metadata": {"name": "demo", "namespace": "storage"},
            "spec": {
                "pools": [{
                    "name": "pool-0", "nodes": 4, "volumesPerNode": 2,
                    "volumeClaimTemplate": {"resources": {"requests": {"storage": "1Gi"}}},
                    "resources": {"limits": {"memory": "2Gi"}},
                    "podAnnotations": {"empty": ""},
                }],
                "image": {"tag": "1", "pullPolicy": "Always"},
                "gateway": {"domain": "s3.example.com"},
                "config": {"region": "eu-north-1"},
            },
        });
        change(&mut document);
        serde_json::from_value(document).expect("a cluster")
    }

    fn of(cluster: &StorageCluster, tag: &str) -> String {
        digest_of_parts(cluster, &format!("sherd-node:{tag}"), "", &S3Serving::Clear)
    }

    /// With another digest every cluster would be restarted by the next version of its operator.
    #[test]
    fn the_digest_of_a_cluster_never_changes() {
        assert_eq!(of(&cluster(|_| {}), "1"), "31e36b16e55cb673");
        let minimal = cluster(|document| {
            document["spec"] = json!({"pools": [{
                "name": "pool-0", "nodes": 4,
                "volumeClaimTemplate": {"resources": {"requests": {"storage": "1Gi"}}},
            }]});
        });
        let seen = of_pods(&minimal);
        assert_eq!(seen, json!({"pools": [{"name": "pool-0", "nodes": 4}]}), "nothing but what is set");
    }

    #[test]
    fn a_part_that_reaches_pods_counts_and_no_other() {
        let before = of(&cluster(|_| {}), "1");
        let of_pods: [fn(&mut Value); 9] = [
            |document| document["metadata"]["annotations"] = json!({"sherd.dev/restart": "now"}),
            |document| document["spec"]["config"]["region"] = json!("eu-west-1"),
            |document| document["spec"]["config"]["logLevel"] = json!("debug"),
            |document| document["spec"]["gateway"] = json!({}),
            |document| document["spec"]["image"] = json!({}),
            |document| document["spec"]["credentials"] = json!({"secretRef": {"name": "mine"}}),
            |document| document["spec"]["pools"][0]["podAnnotations"] = json!({}),
            |document| document["spec"]["pools"][0]["podSecurityContext"] = json!({}),
            |document| document["spec"]["pools"][0]["resources"]["limits"]["memory"] = json!("3Gi"),
        ];
        for change in of_pods {
            assert_ne!(of(&cluster(change), "1"), before);
        }
        let of_no_pod: [fn(&mut Value); 9] = [
            |document| document["metadata"]["annotations"] = json!({"other": "now"}),
            |document| document["spec"]["paused"] = json!(true),
            |document| document["spec"]["upgrade"] = json!({"healthTimeout": "1h", "followOperator": true}),
            |document| document["spec"]["bucketNamespaces"] = json!(["*"]),
            |document| document["spec"]["adminCertificate"] = json!({"enabled": true}),
            |document| document["spec"]["networkPolicy"] = json!({"enabled": false}),
            |document| document["spec"]["gateway"]["service"] = json!({"type": "NodePort"}),
            |document| document["spec"]["image"]["tag"] = json!("as the plan says"),
            |document| {
                let requests = json!({"requests": {"storage": "2Gi"}});
                document["spec"]["pools"][0]["volumeClaimTemplate"]["resources"] = requests;
            },
        ];
        for change in of_no_pod {
            assert_eq!(of(&cluster(change), "1"), before);
        }
        for name in NodeSettings::HOT {
            let value = if name.ends_with("Max") { json!(7) } else { json!("7") };
            let changed = cluster(|document| document["spec"]["config"][name] = value);
            assert_ne!(of(&changed, "1"), before, "{name}");
            let config = without_hot(&changed.spec.config);
            let fixed =
                StorageCluster { spec: crate::api::StorageClusterSpec { config, ..changed.spec }, ..changed };
            assert_eq!(of(&fixed, "1"), before, "{name}");
        }
        assert_ne!(of(&cluster(|_| {}), "2"), before);
    }
}
