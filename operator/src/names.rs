//! Names and labels of a cluster's children, and the ports of its nodes. They are persistent: claims
//! and certificates carry them, so a change of one is a migration.

use std::collections::BTreeMap;

use sherd_core::id::ClusterId;

/// The manager of fields of children in server-side apply.
pub const FIELD_MANAGER: &str = "sherd-operator";
/// The label of a Secret that names the BucketUser whose key it holds.
pub const BUCKET_USER_LABEL: &str = "sherd.dev/bucket-user";
/// The annotation of a BucketUser whose change asks for another key; of a Secret, the text that its key was
/// made for.
pub const ROTATE_ANNOTATION: &str = "sherd.dev/rotate";
/// The annotation of a BucketUser's Secret with a digest of its key, which shows an edit of either.
pub const KEY_DIGEST_ANNOTATION: &str = "sherd.dev/key-digest";
/// The finalizer of Buckets that are deleted with their bucket.
pub const BUCKET_FINALIZER: &str = "sherd.dev/bucket";
/// The finalizer of BucketUsers.
pub const USER_FINALIZER: &str = "sherd.dev/bucket-user";
/// The beginning of a bucket's tags that root alone changes.
pub const ROOTS_TAGS: &str = "sherd.dev/";
/// The tag of a bucket that names the Bucket which has it, as `namespace/name/uid`, the uid of the namespace.
pub const BUCKET_TAG: &str = "sherd.dev/bucket";
/// The path that the users of BucketUsers are below.
pub const USERS_PATH: &str = "/kubernetes/";
/// The tag of a user that says for which BucketUser it was made: the uids of its namespace and of itself,
/// with a slash between them.
pub const USER_TAG: &str = "sherd.dev/bucket-user";
/// The tag of a user whose keys a sweep made inactive: when, in seconds since the Unix epoch.
pub const USER_ENDED_TAG: &str = "sherd.dev/ended";
/// The manager of fields of the status.
pub const STATUS_FIELD_MANAGER: &str = "sherd-operator-status";
/// The label that names a child's cluster.
pub const CLUSTER_LABEL: &str = "sherd.dev/cluster";
/// The label that names a pod's or claim's pool.
pub const POOL_LABEL: &str = "sherd.dev/pool";
/// The label of a claim that names the cluster's id.
pub const CLUSTER_ID_LABEL: &str = "sherd.dev/cluster-id";
/// The annotation of a pod that names the configuration that it began with.
pub const CONFIG_ANNOTATION: &str = "sherd.dev/config";
/// The annotation of a template whose pods mount their own certificate alone: a digest of the renewal.
pub const CERTIFICATES_ANNOTATION: &str = "sherd.dev/certificates";
/// The annotation of the copy of a cluster's Secrets with a digest of its values.
pub const RECOVERY_DIGEST_ANNOTATION: &str = "sherd.dev/recovery-digest";
/// The label by which tools group the objects of an application.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// The annotation of a cluster whose change restarts every node, one after the other; a pod has the text that
/// it was made for.
pub const RESTART_ANNOTATION: &str = "sherd.dev/restart";
/// The annotation of a cluster that asks for another CA: each text once.
pub const ROTATE_AUTHORITY_ANNOTATION: &str = "sherd.dev/rotate-ca";
/// The annotation of a cluster whose CA is lost for good, with the cluster's id: another CA is made for it.
pub const NEW_AUTHORITY_ANNOTATION: &str = "sherd.dev/new-ca";
/// The annotation of a cluster with orders: these volumes lost nothing, and vote.
pub const VOUCH_ANNOTATION: &str = "sherd.dev/vouch";
/// The annotation of a cluster with orders: the old disks of these volumes do not come back.
pub const REPLACE_ANNOTATION: &str = "sherd.dev/replace-volume";
/// The annotation of a cluster with an order: all its volumes are lost, and it forms again, empty.
pub const FORM_EMPTY_ANNOTATION: &str = "sherd.dev/form-empty";
/// The annotation of a claim with the geometry that its cluster was formed with.
pub const GEOMETRY_ANNOTATION: &str = "sherd.dev/geometry";
/// The label of a pod that names the revision of the template that it was made of; Kubernetes sets it.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// The label of pods that scrape nodes, in any namespace: a person sets it.
pub const SCRAPER_LABEL: &str = "sherd.dev/scraper";
/// The label of pods that may reach the node port, with a certificate, in the cluster's namespace: a person
/// sets it.
pub const ADMIN_LABEL: &str = "sherd.dev/admin";
/// Label of hosts: the host's name.
pub const HOST_LABEL: &str = "kubernetes.io/hostname";
/// Label of hosts: the architecture of their processors.
pub const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";
/// The label of everything that the operator makes.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Value of `MANAGED_BY_LABEL`.
pub const MANAGED_BY: &str = "sherd-operator";
/// The value of `app.kubernetes.io/name` on the operator's own pods, as the chart sets it.
pub const OPERATOR_NAME: &str = "sherd-operator";

/// S3.
pub const S3_PORT: u16 = 9000;
/// The query API of IAM and STS.
pub const IAM_PORT: u16 = 9300;
/// Between nodes, and from the operator.
pub const NODE_PORT: u16 = 9100;
/// Metrics and health.
pub const ADMIN_PORT: u16 = 9200;

/// Keys of a Secret with credentials.
pub const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
/// Keys of a Secret with credentials.
pub const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";
/// The keys of a pair of root credentials: of its id and of its secret.
pub const CREDENTIALS_KEYS: [&str; 2] = [ACCESS_KEY, SECRET_KEY];
/// The keys of a second pair, which nodes accept, too.
pub const SECONDARY_CREDENTIALS_KEYS: [&str; 2] =
    ["AWS_ACCESS_KEY_ID_SECONDARY", "AWS_SECRET_ACCESS_KEY_SECONDARY"];
/// The key of the Secret with the root credentials that nodes accept, and its file in a pod.
pub const NODE_CREDENTIALS: &str = "credentials.env";
/// The key of a Secret of the type kubernetes.io/tls with the certificate.
pub const TLS_CERTIFICATE: &str = "tls.crt";
/// The key of a Secret of the type kubernetes.io/tls with the certificate's key.
pub const TLS_KEY: &str = "tls.key";
/// Keys of the CA's Secret.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// Keys of the CA's Secret.
pub const CA_KEY: &str = "ca.key";
/// Keys of the CA's Secret.
pub const CA_CLUSTER_ID: &str = "cluster-id";

/// Key of the CA's Secret and of the copy: the CA that takes the place of the current one.
pub const CA_NEXT_CERTIFICATE: &str = "next.crt";
/// Key of the CA's Secret and of the copy: its key.
pub const CA_NEXT_KEY: &str = "next.key";
/// Key of the CA's Secret and of the copy: the former CA, while certificates of it are shown.
pub const CA_PREVIOUS_CERTIFICATE: &str = "previous.crt";
/// Key of the CA's Secret and of the copy: how far a replacement of the CA came.
pub const ROTATION: &str = "rotation";
/// Value of `ROTATION` while no replacement is under way.
pub const ROTATION_STEADY: &str = "steady";
/// Value of `ROTATION` until every node trusts both CAs.
pub const ROTATION_INTRODUCING: &str = "introducing";
/// Value of `ROTATION` until every node trusts both CAs, after the current CA was lost.
pub const ROTATION_LOST: &str = "lost";
/// Value of `ROTATION` until every node shows a certificate of the new CA.
pub const ROTATION_SWITCHED: &str = "switched";
/// Key of the CA's Secret and of the copy: the text of the annotation that asked for the last replacement.
pub const ROTATION_REQUEST: &str = "rotation-request";

/// The key of the Secret with the master key, and its file in a pod.
pub const MASTER_KEY: &str = "master.key";

/// The key of the ConfigMap with the settings that running nodes take, and its file in a pod.
pub const LIVE_CONFIG: &str = "live.toml";
/// The variable of a container that names this file.
pub const LIVE_CONFIG_VARIABLE: &str = "SHERD_LIVE_CONFIG";

/// The names of one cluster's children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The cluster's name.
    pub cluster: String,
    /// The cluster's namespace.
    pub namespace: String,
}

impl Names {
    /// Returns the names of a cluster's children.
    pub fn new(cluster: &str, namespace: &str) -> Self {
        Self { cluster: cluster.to_owned(), namespace: namespace.to_owned() }
    }

    /// Returns the Service that S3 clients use.
    pub fn s3_service(&self) -> String {
        format!("{}-s3", self.cluster)
    }

    /// Returns the Service that clients of IAM use.
    pub fn iam_service(&self) -> String {
        format!("{}-iam", self.cluster)
    }

    /// Returns the Secret with the CA of S3 and its key, and the ConfigMap with the CAs that clients trust.
    pub fn s3_authority(&self) -> String {
        format!("{}-s3-ca", self.cluster)
    }

    /// Returns the Secret with the certificate of S3 that the operator issues.
    pub fn s3_certificate(&self) -> String {
        format!("{}-s3-tls", self.cluster)
    }

    /// Returns the Secret with the certificate of S3 that cert-manager issues: not the operator's,
    /// since a Certificate may outlive the mode that asked for it, and is then renewed.
    pub fn s3_issued_certificate(&self) -> String {
        format!("{}-s3-issued", self.cluster)
    }

    /// Returns the Certificate that asks cert-manager for it.
    pub fn s3_certificate_request(&self) -> String {
        self.s3_service()
    }

    /// Returns the address of S3 within the Kubernetes cluster, at this port of its Service, over TLS or in
    /// clear. The port that clients take anyway is left out.
    pub fn endpoint(&self, is_over_tls: bool, port: i32) -> String {
        let (scheme, usual) = if is_over_tls { ("https", 443) } else { ("http", 80) };
        let port = if port == usual { String::new() } else { format!(":{port}") };
        format!("{scheme}://{}.{}.svc{port}", self.s3_service(), self.namespace)
    }

    /// Returns the Service that gives pods their names.
    pub fn headless_service(&self) -> String {
        format!("{}-nodes", self.cluster)
    }

    /// Returns the name that those of the ConfigMaps with `sherd.toml` begin with.
    pub fn configs(&self) -> String {
        format!("{}-config", self.cluster)
    }

    /// Whether a ConfigMap has the name of one with a `sherd.toml`, also of operators that made a single one.
    pub fn is_config(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.configs());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// Returns the ConfigMap with the `sherd.toml` of this digest.
    pub fn config(&self, digest: &str) -> String {
        format!("{}-{digest}", self.configs())
    }

    /// Returns the ConfigMap with the settings that running nodes take.
    pub fn live(&self) -> String {
        format!("{}-live", self.cluster)
    }

    /// Returns the Secret with a copy of what cannot be made again.
    pub fn recovery(&self) -> String {
        format!("{}-recovery", self.cluster)
    }

    /// Returns the Secret with the root credentials that the operator makes.
    pub fn credentials(&self) -> String {
        format!("{}-root-credentials", self.cluster)
    }

    /// Returns the Secret with the root credentials that nodes accept, which their pods mount.
    pub fn node_credentials(&self) -> String {
        format!("{}-node-credentials", self.cluster)
    }

    /// Returns the Secret with the CA and its key.
    pub fn authority(&self) -> String {
        format!("{}-ca", self.cluster)
    }

    /// Returns the Secret with the master key, under which nodes keep the secrets of access keys.
    pub fn master_key(&self) -> String {
        format!("{}-master-key", self.cluster)
    }

    /// Returns the Secret with the certificates of a pool's nodes.
    pub fn certificates(&self, pool: &str) -> String {
        format!("{}-{pool}-certificates", self.cluster)
    }

    /// Returns the Secret with the certificate of an admin.
    pub fn admin_certificate(&self) -> String {
        format!("{}-admin", self.cluster)
    }

    /// Returns the service account of the nodes, and the name of their network policy.
    pub fn node(&self) -> String {
        format!("{}-node", self.cluster)
    }

    /// Returns the StatefulSet of a pool, and its disruption budget.
    pub fn pool(&self, pool: &str) -> String {
        format!("{}-{pool}", self.cluster)
    }

    /// Returns the pods of a pool, by ordinal.
    pub fn pods(&self, pool: &str, nodes: i32) -> Vec<String> {
        (0..nodes).map(|ordinal| format!("{}-{ordinal}", self.pool(pool))).collect()
    }

    /// Returns the claims of a pool's volumes, as the StatefulSet's controller names them.
    pub fn claims(&self, pool: &str, nodes: i32, volumes_per_node: i32) -> Vec<String> {
        let of_pod = |pod: String| (1..=volumes_per_node).map(move |volume| format!("v{volume}-{pod}"));
        self.pods(pool, nodes).into_iter().flat_map(of_pod).collect()
    }

    /// Whether a claim has the name of one of the pool's, as the StatefulSet's controller gives it:
    /// `v<number>-<pod>`.
    pub fn is_claim(&self, pool: &str, claim: &str) -> bool {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let named = || {
            let (volume, pod) = claim.strip_prefix('v')?.split_once('-')?;
            let ordinal = pod.strip_prefix(&self.pool(pool))?.strip_prefix('-')?;
            Some(is_number(volume) && is_number(ordinal))
        };
        named().unwrap_or(false)
    }

    /// Returns the address that a pod's node is dialled at.
    pub fn node_address(&self, pod: &str) -> String {
        format!("{pod}.{}.{}.svc:{NODE_PORT}", self.headless_service(), self.namespace)
    }

    /// Returns the labels that select the cluster's pods.
    pub fn selector(&self) -> BTreeMap<String, String> {
        [("app.kubernetes.io/name", "sherd-node"), (CLUSTER_LABEL, &self.cluster)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    /// Returns the labels of every child.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
        labels.insert(INSTANCE_LABEL.to_owned(), self.cluster.clone());
        labels
    }

    /// Returns the labels of what outlives the cluster: no application that it is a part of may prune it.
    pub fn kept_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.remove(INSTANCE_LABEL);
        labels
    }
}

/// Returns the annotations of what outlives its cluster: Argo CD neither prunes it nor shows it as a
/// difference.
pub fn kept_annotations() -> BTreeMap<String, String> {
    [
        ("argocd.argoproj.io/sync-options", "Prune=false"),
        ("argocd.argoproj.io/compare-options", "IgnoreExtraneous"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Returns the name in a node's certificate.
pub fn certificate_name(pod: &str, cluster: ClusterId) -> String {
    format!("{pod}.node.{cluster}.sherd")
}
