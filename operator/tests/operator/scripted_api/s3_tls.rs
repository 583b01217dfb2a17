//! S3 over TLS, as the API server sees it: which objects are made, when pods go over to it, and what is
//! reported meanwhile.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sherd_trust::{ServiceAuthority, ServiceFacts};

use super::*;

const S3_CA: &str = "/api/v1/namespaces/storage/secrets/demo-s3-ca";
const S3_TLS: &str = "/api/v1/namespaces/storage/secrets/demo-s3-tls";
const S3_ISSUED: &str = "/api/v1/namespaces/storage/secrets/demo-s3-issued";
const S3_CA_MAP: &str = "/api/v1/namespaces/storage/configmaps/demo-s3-ca";
const MINE: &str = "/api/v1/namespaces/storage/secrets/mine";
const CERTIFICATE: &str = "/apis/cert-manager.io/v1/namespaces/storage/certificates/demo-s3";
const CERT_MANAGER: &str = "/apis/cert-manager.io/v1";

fn with_tls(server: &ApiServer, tls: &Value) {
    change_spec(server, |spec| spec["tls"] = tls.clone());
}

/// The Secret that the pods' template takes the certificate from.
fn mounted(server: &ApiServer) -> Option<String> {
    let set = server.get(STATEFUL_SET).expect("made");
    let volumes = set["spec"]["template"]["spec"]["volumes"].as_array().expect("volumes").clone();
    let volume = volumes.into_iter().find(|volume| volume["name"] == "s3-tls")?;
    Some(volume["secret"]["secretName"].as_str().expect("a name").to_owned())
}

/// The pod as it runs: with the certificate of a Secret, or in clear text.
fn the_pod_runs_with(server: &ApiServer, secret: Option<&str>) {
    let path = "/api/v1/namespaces/storage/pods/demo-pool-0-0";
    let mut pod = server.get(path).expect("came up");
    let volume = secret.map(|name| json!({"name": "s3-tls", "secret": {"secretName": name}}));
    pod["spec"] = json!({"containers": [], "volumes": volume.into_iter().collect::<Vec<_>>()});
    server.put(path, pod);
}

/// A Secret as a person makes it, for the Service's name.
fn a_certificate() -> Value {
    a_certificate_for("demo-s3.storage.svc")
}

fn a_certificate_for(name: &str) -> Value {
    let now_ms = 1_799_990_000_000;
    let authority = ServiceAuthority::init("mine", now_ms).expect("made");
    let names = [name.to_owned()];
    let issued = authority.issue(&names, now_ms, Duration::from_hours(90 * 24)).expect("issued");
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "mine", "namespace": "storage", "uid": "mine"},
        "data": {
            "tls.crt": STANDARD.encode(issued.certificate),
            "tls.key": STANDARD.encode(issued.key),
            "ca.crt": STANDARD.encode(authority.certificate()),
        },
    })
}

#[tokio::test]
async fn the_operators_certificate_is_made_and_reported() {
    let server = a_cluster();
    with_tls(&server, &json!({"mode": "Operator"}));
    let operator = context(&server);
    let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(status.endpoint.as_deref(), Some("https://demo-s3.storage.svc:9000"));
    assert_eq!(mounted(&server).as_deref(), Some("demo-s3-tls"));
    let toml = server.get(&config(&server)).expect("made")["data"]["sherd.toml"].to_string();
    assert!(toml.contains("/s3-tls/tls.crt") && toml.contains("/s3-tls/tls.key"), "{toml}");
    assert_eq!(server.get(SERVICE).expect("made")["spec"]["ports"][0]["appProtocol"], "https");
    let (secret, map) = (server.get(S3_TLS).expect("made"), server.get(S3_CA_MAP).expect("made"));
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let given = map["data"]["ca.crt"].as_str().expect("text");
    assert_eq!(secret["data"]["ca.crt"], STANDARD.encode(given));
    assert!(server.get(S3_CA).expect("made")["metadata"]["ownerReferences"].is_null(), "it is kept");

    pods_come_up(&server);
    let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
    // The claims that came up with the pods are marked.
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    server.take_changes();
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(server.take_changes(), vec![], "nothing changes at rest");
    let metrics = String::from_utf8(operator.metrics.text().expect("a scrape")).expect("text");
    let series = "sherd_operator_s3_certificate_expiry_timestamp_seconds{cluster=\"demo\"";
    assert!(metrics.contains(series), "{metrics}");

    // Deleted, it comes back with another key under the same CA, and pods stay.
    let before = (server.get(STATEFUL_SET), server.get(S3_CA), map);
    server.delete(S3_TLS);
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    let again = server.get(S3_TLS).expect("made again");
    assert_ne!(again["data"]["tls.key"], secret["data"]["tls.key"]);
    assert_eq!(again["data"]["ca.crt"], secret["data"]["ca.crt"]);
    assert_eq!((server.get(STATEFUL_SET), server.get(S3_CA)), (before.0, before.1));
}

/// Buckets are hosts of each domain: nodes read all of them, and the certificate is for all.
#[tokio::test]
async fn each_domain_is_in_the_configuration_and_in_the_certificate() {
    let server = a_cluster();
    let domains = ["s3.example.com", "s3.example.org"];
    with_tls(&server, &json!({"mode": "Operator"}));
    // A domain that is named twice counts once.
    let gateway = json!({"domain": domains[0], "domains": domains});
    change_spec(&server, |spec| spec["gateway"] = gateway.clone());
    reconcile(&context(&server), &cluster(&server)).await.expect("reconciled");
    let toml = server.get(&config(&server)).expect("made")["data"]["sherd.toml"].clone();
    let toml = toml.as_str().expect("text");
    assert!(toml.contains("domains = [\"s3.example.com\", \"s3.example.org\"]\n"), "{toml}");
    let secret = server.get(S3_TLS).expect("made");
    let pem = STANDARD.decode(secret["data"]["tls.crt"].as_str().expect("text")).expect("base64");
    let leaf = CertificateDer::from_pem_slice(&pem).expect("a certificate");
    let named = ServiceFacts::read(&leaf).expect("readable").names;
    for name in domains.iter().flat_map(|domain| [(*domain).to_owned(), format!("*.{domain}")]) {
        assert!(named.contains(&name), "{name}: {named:?}");
    }
}

/// Pods have the folders of further Secrets whether these are there or not, and what they lack is said.
#[tokio::test]
async fn further_certificates_are_mounted_and_judged() {
    let server = a_cluster();
    with_tls(&server, &json!({"mode": "Operator"}));
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    step(&server).await.expect("reconciled");
    let before = server.get(STATEFUL_SET).expect("made")["spec"]["template"].clone();
    with_tls(
        &server,
        &json!({
            "mode": "Operator", "furtherSecrets": [{"name": "mine"}, {"name": "mine"}],
        }),
    );
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "SecretMissing");
    let words = message(&status, ConditionType::CertificatesReady);
    assert_eq!(words, "Secret mine of spec.tls.furtherSecrets is not there");
    let template = server.get(STATEFUL_SET).expect("made")["spec"]["template"].clone();
    assert_ne!(template, before, "another rollout");
    let volumes = template["spec"]["volumes"].as_array().expect("volumes");
    let volume = volumes.iter().find(|volume| volume["name"] == "s3-tls-further").expect("mounted");
    assert_eq!(
        volume["projected"]["sources"],
        json!([{"secret": {"name": "mine", "optional": true, "items": [
            {"key": "tls.crt", "path": "mine/tls.crt"}, {"key": "tls.key", "path": "mine/tls.key"},
        ]}}])
    );
    let variables = template["spec"]["containers"][0]["env"].as_array().expect("variables").clone();
    assert!(variables.contains(&json!({"name": "SHERD_TLS_FURTHER", "value": "/s3-tls-further/mine"})));
    let mut broken = a_certificate_for("b.example");
    broken["data"]["tls.key"] = json!("");
    server.put(MINE, broken);
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "SecretMalformed");
    server.put(MINE, a_certificate_for("b.example"));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
}

/// A name of the specification may be of any of the certificates.
#[tokio::test]
async fn names_that_the_first_certificate_lacks_may_be_of_a_further_one() {
    let server = a_cluster();
    server.put(MINE, a_certificate());
    let tls = json!({"mode": "Secret", "secretRef": {"name": "mine"}, "extraNames": ["s3.example"]});
    with_tls(&server, &tls);
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "False", "NameMismatch");
    let mut yours = a_certificate_for("s3.example");
    yours["metadata"]["name"] = json!("yours");
    server.put("/api/v1/namespaces/storage/secrets/yours", yours);
    change_spec(&server, |spec| spec["tls"]["furtherSecrets"] = json!([{"name": "yours"}]));
    let status = step(&server).await.expect("reported");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
}

/// The name of a person's Secret is not taken.
#[tokio::test]
async fn a_secret_of_others_with_the_certificates_name_is_left() {
    let server = a_cluster();
    with_tls(&server, &json!({"mode": "Operator"}));
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo-s3-tls"}});
    server.put(S3_TLS, foreign.clone());
    let status = step(&server).await.expect("reported");
    assert!(message(&status, ConditionType::Progressing).contains("Secret demo-s3-tls"));
    assert_eq!(server.get(S3_TLS), Some(foreign));
}

#[tokio::test]
async fn pods_in_clear_stay_so_until_the_named_secret_is_whole_and_over_tls_when_it_goes() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    the_pod_runs_with(&server, None);
    step(&server).await.expect("reconciled");
    let (in_clear, at) = (server.get(STATEFUL_SET), config(&server));
    with_tls(&server, &json!({"mode": "Secret", "secretRef": {"name": "mine"}}));
    server.delete(POLICY);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "False", "SecretMissing");
    says(&status, ConditionType::Ready, "True", "Serving");
    assert_eq!(status.endpoint.as_deref(), Some("http://demo-s3.storage.svc:9000"));
    assert_eq!(server.get(STATEFUL_SET), in_clear);
    assert!(server.get(POLICY).is_some(), "nothing else waits");

    let mut broken = a_certificate();
    broken["data"]["tls.key"] = json!("");
    server.put(MINE, broken);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "False", "SecretMalformed");
    assert_eq!(config(&server), at);

    let mine = a_certificate();
    server.put(MINE, mine.clone());
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
    assert_eq!(mounted(&server).as_deref(), Some("mine"));
    assert_ne!(config(&server), at);
    // Clients and gateways are sent to TLS when the pod serves it.
    assert_eq!(status.endpoint.as_deref(), Some("http://demo-s3.storage.svc:9000"));
    assert!(server.get(SERVICE).expect("made")["spec"]["ports"][0]["appProtocol"].is_null());
    the_pod_runs_with(&server, Some("mine"));
    let status = step(&server).await.expect("reconciled");
    assert_eq!(server.get(SERVICE).expect("made")["spec"]["ports"][0]["appProtocol"], "https");
    assert_eq!(status.endpoint.as_deref(), Some("https://demo-s3.storage.svc:9000"));
    let given = server.get(S3_CA_MAP).expect("made")["data"]["ca.crt"].as_str().expect("text").to_owned();
    assert_eq!(mine["data"]["ca.crt"], STANDARD.encode(given));
    assert_eq!(server.get(MINE), Some(mine), "the Secret is its maker's");

    server.delete(MINE);
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "False", "SecretMissing");
    assert_eq!(mounted(&server).as_deref(), Some("mine"));
    assert_eq!(status.endpoint.as_deref(), Some("https://demo-s3.storage.svc:9000"));
}

#[tokio::test]
async fn a_cluster_that_is_made_waits_for_its_certificate_and_never_serves_in_clear() {
    let server = a_cluster();
    with_tls(&server, &json!({"mode": "Secret", "secretRef": {"name": "mine"}}));
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "False", "SecretMissing");
    assert!(server.get(STATEFUL_SET).is_none() && server.get(AUTHORITY).is_some());
    server.put(MINE, a_certificate());
    step(&server).await.expect("reconciled");
    assert_eq!(mounted(&server).as_deref(), Some("mine"));
}

#[tokio::test]
async fn cert_manager_is_asked_where_it_is_and_pods_wait_for_its_secret() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    with_tls(&server, &json!({"mode": "CertManager", "issuerRef": {"name": "internal"}}));
    let status = step(&server).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "False", "SecretMissing");
    let words = message(&status, ConditionType::CertificatesReady);
    assert!(words.contains("cert-manager.io/v1 is not there"), "{words}");
    says(&status, ConditionType::Ready, "True", "Serving");
    assert!(server.get(CERTIFICATE).is_none());

    let resource = json!({"name": "certificates", "singularName": "certificate", "namespaced": true, "kind": "Certificate", "verbs": []});
    let api = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "cert-manager.io/v1", "resources": [resource]});
    server.put(CERT_MANAGER, api);
    step(&server).await.expect("reconciled");
    let asked = server.get(CERTIFICATE).expect("asked for");
    let issuer = json!({"name": "internal", "kind": "Issuer", "group": "cert-manager.io"});
    assert_eq!(
        (&asked["spec"]["issuerRef"], &asked["spec"]["secretName"]),
        (&issuer, &json!("demo-s3-issued"))
    );
    assert_eq!(asked["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(mounted(&server), None, "there is no certificate yet");

    // As cert-manager writes it.
    let mut secret = a_certificate();
    secret["metadata"] = json!({"name": "demo-s3-issued", "namespace": "storage", "uid": "s"});
    server.put(S3_ISSUED, secret.clone());
    let operator = context(&server);
    let status = reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
    assert_eq!(mounted(&server).as_deref(), Some("demo-s3-issued"));
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    server.take_changes();
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(server.take_changes(), vec![], "nothing changes at rest");
    assert_eq!(server.get(S3_ISSUED), Some(secret.clone()), "the Secret is its maker's");

    // The Certificate is left behind, and its Secret stays cert-manager's.
    with_tls(&server, &json!({"mode": "Operator"}));
    reconcile(&operator, &cluster(&server)).await.expect("reconciled");
    assert_eq!(mounted(&server).as_deref(), Some("demo-s3-tls"));
    assert_eq!(server.get(S3_ISSUED), Some(secret));
}

/// A certificate that the operator issued before is not taken for what a person names.
#[tokio::test]
async fn the_certificate_of_another_mode_stands_in_for_none() {
    let server = a_cluster();
    with_tls(&server, &json!({"mode": "Operator"}));
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    the_pod_runs_with(&server, Some("demo-s3-tls"));
    for tls in [
        json!({"mode": "Secret", "secretRef": {"name": "mine"}}),
        json!({"mode": "CertManager", "issuerRef": {"name": "internal"}}),
    ] {
        with_tls(&server, &tls);
        let status = step(&server).await.expect("reconciled");
        says(&status, ConditionType::CertificatesReady, "False", "SecretMissing");
        assert_eq!(mounted(&server).as_deref(), Some("demo-s3-tls"));
    }
}

/// A certificate that no client would take replaces neither one that is served nor clear text.
#[tokio::test]
async fn a_certificate_without_a_name_of_s3_is_not_rolled_out() {
    let mode = json!({"mode": "Secret", "secretRef": {"name": "mine"}});
    for serves in [Some("demo-s3-tls"), None] {
        let server = a_cluster();
        if serves.is_some() {
            with_tls(&server, &json!({"mode": "Operator"}));
        }
        step(&server).await.expect("reconciled");
        pods_come_up(&server);
        the_pod_runs_with(&server, serves);
        step(&server).await.expect("reconciled");
        let before = server.get(STATEFUL_SET);
        with_tls(&server, &mode);
        server.put(MINE, a_certificate_for("foo.example"));
        let status = step(&server).await.expect("reported");
        says(&status, ConditionType::CertificatesReady, "False", "NameMismatch");
        let words = message(&status, ConditionType::CertificatesReady);
        let kept = serves.map_or("in clear text".to_owned(), |secret| format!("Secret {secret}"));
        assert!(words.contains("not valid for demo-s3.storage.svc") && words.contains(&kept), "{words}");
        assert_eq!(server.get(STATEFUL_SET), before);
        // A certificate with one of the names, though not all, is what a public authority signs.
        change_spec(&server, |spec| spec["tls"]["extraNames"] = json!(["s3.example"]));
        server.put(MINE, a_certificate_for("s3.example"));
        let status = step(&server).await.expect("reconciled");
        says(&status, ConditionType::CertificatesReady, "False", "NameMismatch");
        assert_eq!(mounted(&server).as_deref(), Some("mine"));
        // Once it is served, it stays: another Secret is what a rollout would be for.
        server.put(MINE, a_certificate_for("foo.example"));
        step(&server).await.expect("reported");
        assert_eq!(mounted(&server).as_deref(), Some("mine"));
    }
}
