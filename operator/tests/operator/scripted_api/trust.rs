//! The CA is replaced, or made again after it was lost, by operators that are killed after each reconcile:
//! the Secrets and the status are all that they have. Nodes load their Secret when a test asks for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use sherd_proto::v1::LoadedTrust;
use sherd_trust::AuthorityCertificate;

use super::*;

/// A second after the clock of the operator.
const NOW: Duration = Duration::from_secs(1_800_000_001);

/// Nodes that answer with what they have loaded; nothing of an older build.
#[derive(Default)]
struct LoadingNodes(Mutex<Option<LoadedTrust>>);

impl StatusSource for LoadingNodes {
    fn ask(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        now: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>> {
        let (loaded, answer) = (self.0.lock().clone(), WellNodes.ask(trust, question, now));
        // A node that trusts the operator's CA, and shows a certificate that the operator trusts.
        let signer = AuthorityCertificate::read_all(trust.signer.certificate()).expect("a CA");
        let is_met = loaded.as_ref().is_none_or(|loaded| {
            let roots = AuthorityCertificate::read_all(&trust.roots).expect("CAs");
            loaded.trusted_cas.iter().any(|print| print[..] == signer[0].fingerprint)
                && roots.iter().any(|root| loaded.certificate_ca[..] == root.fingerprint)
        });
        Box::pin(async move {
            let reply = StatusReply { trust: loaded, ..answer.await? };
            if is_met { Ok(reply) } else { Err("the certificate is of an unknown authority".to_owned()) }
        })
    }

    fn order(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        order: NodeOrder,
        now: Duration,
    ) -> BoxFuture<'static, Result<String, String>> {
        WellNodes.order(trust, question, order, now)
    }
}

/// A cluster that serves, and its nodes.
struct Served {
    server: ApiServer,
    nodes: Arc<LoadingNodes>,
}

impl Served {
    async fn of(nodes: usize) -> Self {
        let served = Self { server: a_cluster(), nodes: Arc::default() };
        change_spec(&served.server, |spec| spec["pools"][0]["nodes"] = json!(nodes));
        served.reconcile().await;
        pods_come_up(&served.server);
        let first = served.server.get("/api/v1/namespaces/storage/pods/demo-pool-0-0").expect("there");
        for pod in 1..nodes {
            let name = format!("demo-pool-0-{pod}");
            let mut pod = first.clone();
            pod["metadata"]["name"] = json!(name);
            served.server.put(&format!("/api/v1/namespaces/storage/pods/{name}"), pod);
        }
        served.load();
        served.reconcile().await;
        served
    }

    fn operator(&self) -> Context {
        Context { nodes: Arc::clone(&self.nodes) as Arc<dyn StatusSource>, ..context(&self.server) }
    }

    /// One reconcile of an operator that remembers nothing.
    async fn reconcile(&self) -> ClusterStatus {
        reconcile(&self.operator(), &cluster(&self.server)).await.expect("reconciled")
    }

    /// The text under a key of a Secret.
    fn text(&self, path: &str, key: &str) -> Option<String> {
        let secret = self.server.get(path)?;
        let bytes = STANDARD.decode(secret["data"][key].as_str()?).expect("base64");
        Some(String::from_utf8(bytes).expect("text"))
    }

    /// The nodes load what is in their Secret: the CAs, and, as containers that start again, certificates.
    fn load(&self) {
        let bundle = self.text(CERTIFICATES, "ca.crt").expect("CAs");
        let leaf = self.text(CERTIFICATES, "demo-pool-0-0.crt").expect("a certificate");
        let trusted = AuthorityCertificate::read_all(&bundle).expect("CAs");
        let roots = CertificateDer::pem_slice_iter(bundle.as_bytes()).map(|root| root.expect("PEM"));
        let issuer = roots.zip(&trusted).find(|(root, _)| is_of(root, &leaf)).expect("it is trusted").1;
        *self.nodes.0.lock() = Some(LoadedTrust {
            trusted_cas: trusted.iter().map(|one| one.fingerprint.to_vec().into()).collect(),
            certificate_ca: issuer.fingerprint.to_vec().into(),
            certificate_expires_s: 1_900_000_000,
        });
    }

    fn annotate(&self, annotation: &str, text: &str) {
        let mut cluster = self.server.get(CLUSTER).expect("there");
        cluster["metadata"]["annotations"][annotation] = json!(text);
        self.server.put(CLUSTER, cluster);
    }

    /// The digest of the renewal in the pods' template.
    fn renewal(&self) -> Value {
        let set = self.server.get(STATEFUL_SET).expect("made");
        set["spec"]["template"]["metadata"]["annotations"]["sherd.dev/certificates"].clone()
    }

    fn leaf(&self) -> Option<String> {
        self.text(CERTIFICATES, "demo-pool-0-0.crt")
    }

    fn trusted(&self) -> usize {
        let bundle = self.text(CERTIFICATES, "ca.crt").expect("CAs");
        AuthorityCertificate::read_all(&bundle).expect("CAs").len()
    }

    /// Goes from the record of the next CA to the end, and returns the last status.
    async fn finish(&self) -> ClusterStatus {
        let (leaf, renewal) = (self.leaf(), self.renewal());
        let status = self.reconcile().await;
        says(&status, ConditionType::CertificatesReady, "True", "IntroducingAuthority");
        assert_eq!((self.trusted(), self.leaf()), (2, leaf.clone()), "all are given both, and nothing else");
        self.load();
        self.reconcile().await;
        assert_eq!(self.text(AUTHORITY, "rotation").as_deref(), Some("switched"));
        let key = reported(&self.server).authority_key;
        let status = self.reconcile().await;
        assert_ne!(status.authority_key, key, "the status names the new CA");
        assert_eq!(self.leaf(), leaf, "before a certificate of it is issued");
        let status = self.reconcile().await;
        says(&status, ConditionType::CertificatesReady, "True", "SwitchingAuthority");
        let message = message(&status, ConditionType::CertificatesReady);
        assert!(message.contains("a certificate of the former CA: demo-pool-0-0"), "{message}");
        assert_eq!(self.trusted(), 2);
        assert_ne!(self.leaf(), leaf);
        assert_eq!(self.renewal() == renewal, renewal.is_null(), "pods that mount files are replaced");
        let (leaf, renewal) = (self.leaf(), self.renewal());
        self.load();
        self.reconcile().await;
        let status = self.reconcile().await;
        assert_eq!((self.trusted(), self.leaf(), self.renewal()), (1, leaf, renewal));
        self.load();
        let status_after = self.reconcile().await;
        says(&status_after, ConditionType::CertificatesReady, "True", "Issued");
        assert_eq!(status_after.authority_key, status.authority_key);
        status_after
    }
}

fn is_of(root: &CertificateDer<'static>, leaf: &str) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a CA");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let leaf = CertificateDer::from_pem_slice(leaf.as_bytes()).expect("PEM");
    let now = UnixTime::since_unix_epoch(NOW);
    verifier.expect("a root").verify_client_cert(&leaf, &[], now).is_ok()
}

/// Nodes of one host take everything up as they run; others are replaced for their certificates.
#[tokio::test]
async fn the_authority_is_replaced_once_for_each_text_of_the_annotation() {
    for nodes in [1, 3] {
        let served = Served::of(nodes).await;
        let (kept, key) = ([CREDENTIALS, MASTER_KEY], served.text(AUTHORITY, "ca.key").expect("made"));
        let before = kept.map(|path| served.server.get(path).expect("made")["data"].clone());
        let id = served.text(AUTHORITY, "cluster-id");
        served.annotate("sherd.dev/rotate-ca", "r1");
        served.reconcile().await;
        for path in [AUTHORITY, RECOVERY] {
            let next = served.text(path, "next.key").expect("recorded");
            assert!(next.starts_with("-----BEGIN PRIVATE KEY"), "{path}");
        }
        Box::pin(served.finish()).await;
        for path in [AUTHORITY, RECOVERY] {
            assert_eq!(served.text(path, "cluster-id"), id);
            let data = served.server.get(path).expect("there")["data"].clone();
            let kept = data.as_object().expect("texts").values();
            assert!(kept.into_iter().all(|text| *text != json!(STANDARD.encode(&key))), "the key is gone");
            assert_eq!((&data["next.key"], &data["previous.crt"]), (&json!(""), &json!("")));
        }
        assert_eq!(kept.map(|path| served.server.get(path).expect("there")["data"].clone()), before);
        for reason in ["IntroducingAuthority", "SwitchingAuthority"] {
            assert!(events(&served.server).contains(&reason.to_owned()), "{reason}");
        }
        let rested = served.server.get(AUTHORITY);
        served.reconcile().await;
        assert_eq!(served.server.get(AUTHORITY), rested, "one text asks once");
        served.annotate("sherd.dev/rotate-ca", "r2");
        served.reconcile().await;
        assert_eq!(served.text(AUTHORITY, "rotation").as_deref(), Some("introducing"));
    }
}

/// Another operator writes both Secrets while this one asks its nodes.
struct OvertakenWhileAsking {
    nodes: Arc<LoadingNodes>,
    server: ApiServer,
}

impl StatusSource for OvertakenWhileAsking {
    fn ask(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        now: Duration,
    ) -> BoxFuture<'static, Result<StatusReply, String>> {
        for path in [AUTHORITY, RECOVERY] {
            let mut secret = self.server.get(path).expect("made");
            secret["metadata"]["resourceVersion"] = json!("a later one");
            self.server.put(path, secret);
        }
        self.nodes.ask(trust, question, now)
    }

    fn order(
        &self,
        trust: &Arc<ClusterTrust>,
        question: NodeQuestion,
        order: NodeOrder,
        now: Duration,
    ) -> BoxFuture<'static, Result<String, String>> {
        self.nodes.order(trust, question, order, now)
    }
}

/// An operator that was suspended while another one led would end the only copy of a CA's key.
#[tokio::test]
async fn no_step_is_written_over_a_record_that_was_written_meanwhile() {
    let served = Served::of(1).await;
    served.annotate("sherd.dev/rotate-ca", "r1");
    let nodes = OvertakenWhileAsking { nodes: Arc::clone(&served.nodes), server: served.server.clone() };
    let operator = Context { nodes: Arc::new(nodes), ..served.operator() };
    reconcile(&operator, &cluster(&served.server)).await.expect("reconciled");
    for path in [AUTHORITY, RECOVERY] {
        assert_eq!(served.text(path, "next.key").as_deref(), Some(""), "{path}");
    }
    served.reconcile().await;
    assert_eq!(
        served.text(AUTHORITY, "rotation").as_deref(),
        Some("introducing"),
        "it begins with what is there"
    );
}

/// A node that does not say what it has loaded may have loaded nothing.
#[tokio::test]
async fn nodes_of_an_older_build_hold_a_replacement_up() {
    let served = Served::of(1).await;
    *served.nodes.0.lock() = None;
    served.annotate("sherd.dev/rotate-ca", "r1");
    for _ in 0..3 {
        served.reconcile().await;
    }
    let status = served.reconcile().await;
    says(&status, ConditionType::CertificatesReady, "True", "IntroducingAuthority");
    let message = message(&status, ConditionType::CertificatesReady);
    assert!(message.contains("older build") && message.contains("demo-pool-0-0"), "{message}");
    assert_eq!(served.text(AUTHORITY, "rotation").as_deref(), Some("introducing"));
}

/// An older Secret would take the nodes' trust away from certificates that other nodes show.
#[tokio::test]
async fn a_secret_of_before_the_switch_takes_nothing_back() {
    let served = Served::of(1).await;
    let steady = [AUTHORITY, RECOVERY].map(|path| served.server.get(path).expect("made"));
    served.annotate("sherd.dev/rotate-ca", "r1");
    served.reconcile().await;
    served.reconcile().await;
    let introducing = [AUTHORITY, RECOVERY].map(|path| served.server.get(path).expect("made"));
    served.load();
    for _ in 0..3 {
        served.reconcile().await;
    }
    let (switched, mounted) = (served.text(AUTHORITY, "ca.key"), served.server.get(CERTIFICATES));
    let put = |secrets: &[Value; 2]| {
        for (path, secret) in [AUTHORITY, RECOVERY].iter().zip(secrets) {
            served.server.put(path, secret.clone());
        }
    };
    // The Secret has the key of the new CA: the operator goes on with it.
    put(&introducing);
    let status = served.reconcile().await;
    says(&status, ConditionType::CertificatesReady, "True", "SwitchingAuthority");
    assert_eq!(served.text(AUTHORITY, "ca.key"), switched);
    // The Secret has no key of the new CA, and the copy has.
    served.server.put(AUTHORITY, steady[0].clone());
    served.reconcile().await;
    assert_eq!(served.text(AUTHORITY, "ca.key"), switched);
    // Neither has the key of the new CA.
    put(&steady);
    let status = served.reconcile().await;
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityChanged");
    let words = message(&status, ConditionType::CertificatesReady);
    assert!(words.contains("than the one that the nodes run with"), "{words}");
    let bytes = |secret: Option<Value>| secret.map(|secret| secret["data"].clone());
    assert_eq!(bytes(served.server.get(CERTIFICATES)), bytes(mounted), "nodes keep what they have");
}

/// The certificate of the former CA is in the Secret that the nodes mount.
#[tokio::test]
async fn an_authority_that_is_lost_for_good_is_made_again_without_an_outage() {
    for nodes in [1, 3] {
        let served = Served::of(nodes).await;
        let kept = [CREDENTIALS, MASTER_KEY];
        let before = kept.map(|path| served.server.get(path).expect("made")["data"].clone());
        let (id, leaf) = (served.text(AUTHORITY, "cluster-id").expect("an id"), served.leaf());
        for path in [AUTHORITY, RECOVERY] {
            served.server.delete(path);
        }
        let status = served.reconcile().await;
        says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
        let words = message(&status, ConditionType::CertificatesReady);
        assert!(words.contains(&format!("sherd.dev/new-ca={id}")), "{words}");
        for wrong in ["0b".repeat(16), "mine".to_owned()] {
            served.annotate("sherd.dev/new-ca", &wrong);
            let status = served.reconcile().await;
            says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
            let words = message(&status, ConditionType::CertificatesReady);
            assert!(words.contains(&wrong) && words.contains(&id), "{words}");
            assert!(served.server.get(AUTHORITY).is_none());
        }
        served.annotate("sherd.dev/new-ca", &id);
        served.reconcile().await;
        assert_eq!(served.text(AUTHORITY, "rotation").as_deref(), Some("lost"));
        assert_eq!((served.trusted(), served.leaf()), (2, leaf));
        Box::pin(served.finish()).await;
        assert_eq!(served.text(AUTHORITY, "cluster-id").as_deref(), Some(id.as_str()));
        assert_eq!(kept.map(|path| served.server.get(path).expect("there")["data"].clone()), before);
        let made = served.text(AUTHORITY, "ca.key");
        served.reconcile().await;
        assert_eq!(served.text(AUTHORITY, "ca.key"), made, "the annotation stays, and asks for no other");
    }
}

/// The certificate of the CA that running nodes trust is lost: they cannot be given another one.
#[tokio::test]
async fn without_the_certificate_of_the_former_authority_the_cluster_is_made_again() {
    let served = Served::of(1).await;
    let id = served.text(AUTHORITY, "cluster-id").expect("an id");
    for path in [AUTHORITY, RECOVERY, CERTIFICATES] {
        served.server.delete(path);
    }
    served.annotate("sherd.dev/new-ca", &id);
    let status = served.reconcile().await;
    says(&status, ConditionType::CertificatesReady, "False", "AuthorityMissing");
    let words = message(&status, ConditionType::CertificatesReady);
    assert!(words.contains("demo-pool-0-certificates") && words.contains("make it again"), "{words}");
    let mut again = served.server.get(CLUSTER).expect("there");
    again["metadata"]["uid"] = json!("another");
    again.as_object_mut().expect("an object").remove("status");
    served.server.put(CLUSTER, again);
    *served.nodes.0.lock() = None;
    let status = served.reconcile().await;
    says(&status, ConditionType::CertificatesReady, "True", "Issued");
    assert_eq!(served.text(AUTHORITY, "cluster-id"), Some(id));
}
