//! The certificate of an admin, made on request.

use sherd_trust::{CertificateFacts, Role};

use super::*;

const ADMIN: &str = "/api/v1/namespaces/storage/secrets/demo-admin";

fn decoded(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("text");
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).expect("base64")
}

fn facts(server: &ApiServer) -> CertificateFacts {
    let certificate = decoded(&server.get(ADMIN).expect("made")["data"]["tls.crt"]);
    CertificateFacts::read_pem(&certificate).expect("a certificate of the cluster")
}

#[tokio::test]
async fn an_admin_has_a_certificate_for_a_day_while_it_is_asked_for() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(ADMIN), None);
    change_spec(&server, |spec| spec["adminCertificate"] = json!({"enabled": true}));
    step(&server).await.expect("reconciled");
    let (made, first) = (server.get(ADMIN).expect("made"), facts(&server));
    assert_eq!(first.identity.role, Role::Admin);
    assert_eq!(first.not_after_s, 1_800_000_000 + 86_400);
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u");
    let authority = server.get(AUTHORITY).expect("made");
    assert_eq!(made["data"]["ca.crt"], authority["data"]["ca.crt"]);

    step(&server).await.expect("reconciled");
    assert_eq!(server.get(ADMIN).expect("there")["data"], made["data"], "kept while it holds");
    let later = Context {
        now: || Timestamp::from_second(1_800_000_000 + 12 * 3_600 + 1).expect("a time"),
        ..context(&server)
    };
    reconcile(&later, &cluster(&server)).await.expect("reconciled");
    assert!(facts(&server).not_after_s > first.not_after_s, "renewed in time");

    let renewed = server.get(ADMIN).expect("there");
    change_spec(&server, |spec| spec["adminCertificate"] = json!({"enabled": false}));
    step(&server).await.expect("reconciled");
    assert_eq!(server.get(ADMIN), Some(renewed), "no Secret is deleted, and it ends by itself");
}

#[tokio::test]
async fn a_secret_of_a_person_with_its_name_is_not_taken() {
    let server = a_cluster();
    let theirs = json!({"apiVersion": "v1", "kind": "Secret", "data": {"theirs": "eWVz"},
        "metadata": {"name": "demo-admin", "namespace": "storage", "resourceVersion": "0"}});
    server.put(ADMIN, theirs.clone());
    change_spec(&server, |spec| spec["adminCertificate"] = json!({"enabled": true}));
    let _ = step(&server).await;
    assert_eq!(server.get(ADMIN), Some(theirs));
}
