//! The certificate of S3 over its life: one that holds is kept, another one is issued again, and clients are
//! given each CA before a certificate is under it.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::pair::{ServedPair, certificates};
use super::*;
use crate::api::Reason;
use crate::limits;

const NOW: Duration = Duration::from_hours(500_000);
const DAY: Duration = Duration::from_hours(24);

fn cluster(tls: &Value) -> StorageCluster {
    let document = json!({
        "apiVersion": "sherd.dev/v1alpha1", "kind": "StorageCluster",
        "metadata": {"name": "demo", "namespace": "storage", "uid": "u"},
        "spec": {
            "pools": [{
                "name": "pool-0", "nodes": 4,
                "volumeClaimTemplate": {"resources": {"requests": {"storage": "1Gi"}}},
            }],
            "gateway": {"domain": "s3.example.com"},
            "tls": tls,
        },
    });
    serde_json::from_value(document).expect("of the right form")
}

fn by_operator() -> StorageCluster {
    cluster(&json!({"mode": "Operator", "extraNames": ["10.0.0.7", "FD00::7".to_lowercase()]}))
}

fn made(cluster: &StorageCluster, observed: &ObservedCluster, now: Duration) -> S3Material {
    let names = Names::new(cluster.metadata.name.as_deref().expect("a name"), "storage");
    material(cluster, &names, observed, now).expect("issued")
}

fn secret(texts: &[(&str, &str)]) -> Secret {
    let data = texts.iter().map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
    Secret { data: Some(data.collect()), ..Secret::default() }
}

fn authority_secret(material: &S3Material) -> Secret {
    let pair = material.authority.as_ref().expect("made");
    secret(&[("ca.crt", &pair.certificate), ("ca.key", &pair.key.0)])
}

fn certificate_secret(material: &S3Material) -> Secret {
    let pair = material.certificate.as_ref().expect("issued");
    let trusted = material.trusted.as_deref().expect("known");
    secret(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key.0), ("ca.crt", trusted)])
}

/// The Secrets after a material was applied.
fn applied(material: &S3Material) -> ObservedCluster {
    ObservedCluster {
        s3_authority: Some(authority_secret(material)),
        s3_certificate: Some(certificate_secret(material)),
        ..ObservedCluster::default()
    }
}

fn trusted(material: &S3Material) -> Vec<CertificateDer<'static>> {
    certificates(material.trusted.as_deref().expect("known").as_bytes()).expect("PEM")
}

fn pair(material: &S3Material) -> ServedPair {
    ServedPair::read(&certificate_secret(material)).expect("whole")
}

#[test]
fn a_client_that_trusts_the_ca_takes_the_certificate_by_each_of_its_names() {
    let material = made(&by_operator(), &ObservedCluster::default(), NOW);
    assert_eq!(material.serving, S3Serving::Tls("demo-s3-tls".to_owned()));
    let pair = pair(&material);
    assert!(pair.verifies(&trusted(&material), NOW));
    let other = made(&by_operator(), &ObservedCluster::default(), NOW);
    assert!(!pair.verifies(&trusted(&other), NOW), "of another CA");
    assert!(!pair.verifies(&trusted(&material), NOW + limits::S3_CERTIFICATE_LIFE + DAY), "after its end");
    let names = [
        "demo-s3",
        "demo-s3.storage",
        "demo-s3.storage.svc",
        "demo-s3.storage.svc.cluster.local",
        "demo-pool-0-3.demo-nodes.storage.svc",
        "s3.example.com",
        "photos.s3.example.com",
        "localhost",
        "10.0.0.7",
        "fd00::7",
    ];
    for name in names {
        assert!(pair.is_valid_for(name), "{name}");
    }
    for name in ["demo-s3.other.svc", "a.b.s3.example.com", "10.0.0.8"] {
        assert!(!pair.is_valid_for(name), "{name}");
    }
}

#[test]
fn what_holds_is_kept_byte_for_byte_and_is_renewed_after_two_thirds_of_its_life() {
    let cluster = by_operator();
    let first = made(&cluster, &ObservedCluster::default(), NOW);
    let observed = applied(&first);
    assert_eq!(made(&cluster, &observed, NOW), first);
    for days in [2, 59] {
        assert_eq!(made(&cluster, &observed, NOW + DAY * days), first, "after {days} days");
    }
    let renewed = made(&cluster, &observed, NOW + DAY * 60);
    assert_ne!(renewed.certificate, first.certificate);
    assert_eq!((&renewed.authority, &renewed.trusted), (&first.authority, &first.trusted));
    // A deleted certificate is issued again under the CA that clients have.
    let without = ObservedCluster { s3_certificate: None, ..observed };
    let again = made(&cluster, &without, NOW);
    assert_ne!(again.certificate, first.certificate);
    assert_eq!(again.trusted, first.trusted);
}

#[test]
fn other_names_and_a_broken_certificate_are_issued_again() {
    let first = made(&by_operator(), &ObservedCluster::default(), NOW);
    let observed = applied(&first);
    let more = cluster(&json!({"mode": "Operator", "extraNames": ["s3.example.org"]}));
    assert_ne!(made(&more, &observed, NOW).certificate, first.certificate);
    let mut broken = certificate_secret(&first);
    let key = made(&more, &observed, NOW).certificate.expect("issued").key.0;
    broken.data.as_mut().expect("data").insert("tls.key".to_owned(), ByteString(key.into_bytes()));
    let observed = ObservedCluster { s3_certificate: Some(broken), ..observed };
    assert_ne!(made(&by_operator(), &observed, NOW).certificate, first.certificate);
}

/// Clients that know the first CA alone go on until the renewal, and those that know both for good.
#[test]
fn a_ca_that_is_lost_is_followed_by_another_one_with_an_overlap() {
    let cluster = by_operator();
    let first = made(&cluster, &ObservedCluster::default(), NOW);
    let lost = ObservedCluster { s3_authority: None, ..applied(&first) };
    let second = made(&cluster, &lost, NOW + DAY * 10);
    assert_ne!(second.authority, first.authority);
    assert_eq!(second.certificate, first.certificate, "clients have not taken up the other CA");
    assert_eq!(trusted(&second).len(), 2);
    assert!(trusted(&second).contains(&trusted(&first)[0]));
    assert_eq!(made(&cluster, &applied(&second), NOW + DAY * 40), second, "nothing changes meanwhile");

    let third = made(&cluster, &applied(&second), NOW + DAY * 60);
    assert_ne!(third.certificate, first.certificate);
    assert!(!pair(&third).verifies(&trusted(&first), NOW + DAY * 60));
    assert!(pair(&third).verifies(&trusted(&second), NOW + DAY * 60));
    assert_eq!(trusted(&third).len(), 2, "nodes may still show the first one's");
    let settled = made(&cluster, &applied(&third), NOW + DAY * 62);
    assert_eq!((&settled.certificate, trusted(&settled).len()), (&third.certificate, 1));
}

#[test]
fn a_ca_is_followed_by_another_one_a_year_before_its_end() {
    let cluster = by_operator();
    let first = made(&cluster, &ObservedCluster::default(), NOW);
    let valid =
        made(&cluster, &ObservedCluster { s3_certificate: None, ..applied(&first) }, NOW + DAY * 3_280);
    assert_eq!(valid.authority, first.authority);
    let second = made(&cluster, &applied(&valid), NOW + DAY * 3_300);
    assert_ne!(second.authority, first.authority);
    assert_eq!((&second.certificate, trusted(&second).len()), (&valid.certificate, 2));
}

fn given(secret: Option<Secret>) -> ObservedCluster {
    ObservedCluster { s3_certificate: secret, ..ObservedCluster::default() }
}

fn with_pods(observed: ObservedCluster, volumes: &Value) -> ObservedCluster {
    let set = json!({"metadata": {"name": "demo-pool-0"}, "spec": {
        "selector": {}, "serviceName": "demo-nodes",
        "template": {"metadata": {}, "spec": {"containers": [], "volumes": volumes}},
    }});
    ObservedCluster { stateful_set: serde_json::from_value(set).expect("a set"), ..observed }
}

#[test]
fn pods_go_over_to_tls_once_a_node_takes_the_certificate_and_stay() {
    let cluster = cluster(&json!({"mode": "Secret", "secretRef": {"name": "mine"}}));
    let good = certificate_secret(&made(&by_operator(), &ObservedCluster::default(), NOW));
    let tls = || S3Serving::Tls("mine".to_owned());
    let serving = |observed: &ObservedCluster, now| made(&cluster, observed, now).serving;
    let in_clear = json!([{"name": "config"}]);
    let mounted = |name: &str| json!([{"name": "s3-tls", "secret": {"secretName": name}}]);
    assert_eq!(serving(&given(None), NOW), S3Serving::Awaited, "of a cluster that is made");
    assert_eq!(serving(&with_pods(given(None), &in_clear), NOW), S3Serving::Clear);
    assert_eq!(serving(&with_pods(given(Some(good.clone())), &in_clear), NOW), tls());
    assert_eq!(serving(&with_pods(given(None), &mounted("mine")), NOW), tls(), "a lost one");
    let former = S3Serving::Tls("demo-s3-tls".to_owned());
    assert_eq!(serving(&with_pods(given(None), &mounted("demo-s3-tls")), NOW), former);
    let late = NOW + DAY * 91;
    assert_eq!(serving(&with_pods(given(Some(good.clone())), &in_clear), late), S3Serving::Clear);
    assert_eq!(serving(&with_pods(given(Some(good)), &mounted("mine")), late), tls(), "an expired one");
}

#[test]
fn what_a_given_certificate_lacks_is_named() {
    let cluster = cluster(&json!({"mode": "Secret", "secretRef": {"name": "mine"}}));
    let names = Names::new("demo", "storage");
    let issued = made(&by_operator(), &ObservedCluster::default(), NOW);
    let good = certificate_secret(&issued);
    let fault = |secret: Option<Secret>, now: Duration| {
        look(&cluster, &names, &given(secret), seconds(now)).expect("TLS is asked for").fault
    };
    assert_eq!(fault(Some(good.clone()), NOW), None);
    let without = |key: &str| {
        let mut secret = good.clone();
        secret.data.as_mut().expect("data").remove(key);
        Some(secret)
    };
    let foreign = || {
        let key = made(&by_operator(), &ObservedCluster::default(), NOW).certificate.expect("issued").key.0;
        let mut secret = good.clone();
        secret.data.as_mut().expect("data").insert("tls.key".to_owned(), ByteString(key.into_bytes()));
        Some(secret)
    };
    let other = StorageCluster {
        metadata: kube::api::ObjectMeta { name: Some("other".to_owned()), ..cluster.metadata.clone() },
        ..by_operator()
    };
    let of_another = Some(certificate_secret(&made(&other, &ObservedCluster::default(), NOW)));
    for (secret, now, reason, words) in [
        (None, NOW, Reason::SecretMissing, "Secret mine"),
        (without("tls.key"), NOW, Reason::SecretMalformed, "lacks tls.key"),
        (without("tls.crt"), NOW, Reason::SecretMalformed, "lacks tls.crt"),
        (foreign(), NOW, Reason::SecretMalformed, "does not fit"),
        (Some(good.clone()), NOW + DAY * 76, Reason::CertificatesExpiring, "ends at"),
        (Some(good.clone()), NOW + DAY * 91, Reason::CertificatesExpiring, "ended at"),
        (Some(good.clone()), NOW.saturating_sub(DAY), Reason::CertificatesExpiring, "begins at"),
        (of_another, NOW, Reason::NameMismatch, "demo-s3.storage.svc"),
    ] {
        let (found, message) = fault(secret, now).expect("at fault");
        assert_eq!(found, reason, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn cert_manager_is_asked_for_names_where_its_api_is_there() {
    let cluster = cluster(&json!({"mode": "CertManager", "issuerRef": {"name": "internal"}}));
    let without = made(&cluster, &ObservedCluster::default(), NOW);
    assert_eq!((without.requested, without.serving), (None, S3Serving::Awaited));
    let observed = ObservedCluster {
        has_cert_manager: true,
        certificate_words: Some("the issuer is not ready".to_owned()),
        ..ObservedCluster::default()
    };
    let asked = made(&cluster, &observed, NOW);
    let names = asked.requested.expect("asked for");
    assert!(names.contains("demo-s3.storage.svc") && names.contains("*.s3.example.com"), "{names:?}");
    assert!(!names.contains("localhost"), "an issuer of others may refuse it");
    let look = look(&cluster, &Names::new("demo", "storage"), &observed, seconds(NOW)).expect("TLS");
    let (reason, message) = look.fault.expect("there is no Secret");
    assert_eq!(reason, Reason::SecretMissing);
    assert!(message.contains("Certificate demo-s3") && message.contains("issuer is not ready"), "{message}");
}
