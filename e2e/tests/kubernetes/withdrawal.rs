//! Rights that end however their BucketUser ends: a tenant with Kubernetes' role `edit` writes a Lease into
//! its namespace; a finalizer is removed while no operator runs; a cluster is deleted before its BucketUser
//! and adopted. An admin's certificate lists the users that are left.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Credentials;
use sherd_e2e::command::{run, run_with};
use sherd_e2e::kubernetes::{Namespace, client_with, wait_for};

use crate::cases::{CLUSTER, CaseResult, OPERATORS, own_chart};

/// How long a BucketUser or a new leader may take to do its work.
const DONE: Duration = Duration::from_mins(3);
/// Five minutes until the next look, and time for it on a busy machine.
const LOOKED_AT: Duration = Duration::from_mins(7);
/// The namespace of the Bucket, and that of the tenant that it is shared with.
const OWNER: &str = "sherd-e2e-owner";
const TENANT: &str = "sherd-e2e-tenant";

const BUCKET: &str = "
apiVersion: sherd.dev/v1alpha1
kind: Bucket
metadata: {name: withdrawn}
spec: {cluster: {name: demo, namespace: sherd-e2e}, allowedNamespaces: [sherd-e2e-tenant], adopt: true}
";

/// The tenant may write Leases, and a person with the role `edit` wrote this one.
const LEASE: &str = r#"
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: sherd-clusters}
spec: {holderIdentity: mallory, leaseDurationSeconds: 3600, renewTime: "2099-01-01T00:00:00.000000Z"}
"#;

/// A tenant of a StorageCluster with a share in another one's bucket.
pub(crate) struct Withdrawal<'a> {
    namespace: &'a Namespace,
    endpoint: &'a str,
    tenant: Namespace,
}

impl<'a> Withdrawal<'a> {
    /// Makes both namespaces, with the operator's Role in them, and lists them in the StorageCluster.
    pub(crate) fn new(
        namespace: &'a Namespace,
        endpoint: &'a str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        for name in [OWNER, TENANT] {
            run("kubectl", &["create", "namespace", name])?;
        }
        let namespaces = format!("bucketNamespaces={{{OWNER},{TENANT}}}");
        let chart = own_chart();
        let upgrade =
            ["upgrade", "sherd", &chart, "--namespace", &namespace.name, "--reset-then-reuse-values"];
        run("helm", &[&upgrade[..], &["--set", &namespaces, "--wait"]].concat())?;
        let withdrawal = Self { namespace, endpoint, tenant: Namespace { name: TENANT.to_owned() } };
        withdrawal.tenant.kubectl(&[
            "create",
            "rolebinding",
            "mallory",
            "--clusterrole=edit",
            "--user=mallory",
        ])?;
        withdrawal.list(&[OWNER, TENANT])?;
        Namespace { name: OWNER.to_owned() }.apply(BUCKET)?;
        Ok(withdrawal)
    }

    /// Lists namespaces that may use the cluster.
    fn list(&self, namespaces: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
        let change = serde_json::json!({"spec": {"bucketNamespaces": namespaces}}).to_string();
        self.namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", &change])?;
        Ok(())
    }

    /// Makes a BucketUser, and returns a client with its key.
    async fn user(&self, name: &str) -> Result<Client, Box<dyn std::error::Error>> {
        let object = format!(
            "
apiVersion: sherd.dev/v1alpha1
kind: BucketUser
metadata: {{name: {name}}}
spec:
  cluster: {{name: demo, namespace: sherd-e2e}}
  buckets: [{{bucketRef: {{name: withdrawn, namespace: {OWNER}}}, access: write}}]
"
        );
        self.tenant.apply(&object)?;
        wait_for(name, DONE, || match self.tenant.condition_of("bucketuser", name, "Ready") {
            Some((status, _)) if status == "True" => Ok(()),
            found => Err(format!("{found:?}")),
        })
        .await?;
        let secret = self.tenant.secret(name).ok_or("no Secret")?;
        let part = |key: &str| secret.get(key).cloned().ok_or_else(|| format!("no {key}"));
        let (id, secret) = (part("AWS_ACCESS_KEY_ID")?, part("AWS_SECRET_ACCESS_KEY")?);
        let client = client_with(self.endpoint, Credentials::new(id, secret, None, None, "e2e"));
        put(&client).await?;
        Ok(client)
    }

    /// Kubernetes' role `edit` is the tenant's: a Lease of its own keeps no right that is withdrawn.
    pub(crate) async fn by_lease(&self) -> CaseResult {
        let client = self.user("frozen").await?;
        self.tenant.kubectl(&["auth", "can-i", "create", "leases", "--as=mallory"])?;
        run_with("kubectl", &["--namespace", TENANT, "apply", "--as=mallory", "-f", "-"], LEASE)?;
        self.list(&[OWNER])?;
        let took = refused(&client, LOOKED_AT).await?;
        self.list(&[OWNER, TENANT])?;
        self.tenant.kubectl(&["annotate", "bucketuser", "frozen", "look=now"])?;
        works(&client, DONE).await?;
        self.tenant.kubectl(&["delete", "lease", "sherd-clusters"])?;
        self.tenant.kubectl(&["delete", "bucketuser", "frozen", "--timeout=2m"])?;
        Ok(format!("(refused after {} s)", took.as_secs()))
    }

    /// While no operator runs, a finalizer is removed and the object deleted. An admin sees the user that is
    /// left.
    pub(crate) async fn by_finalizer(&self) -> CaseResult {
        let client = self.user("vanished").await?;
        let operator = self.scale(0).await?;
        let none = r#"{"metadata": {"finalizers": null}}"#;
        let patch = ["patch", "bucketuser", "vanished", "--as=mallory", "--type=merge", "--patch", none];
        self.tenant.kubectl(&patch)?;
        self.tenant.kubectl(&["delete", "bucketuser", "vanished", "--as=mallory", "--timeout=1m"])?;
        put(&client).await?;
        self.namespace.kubectl(&["scale", &operator, "--replicas=2"])?;
        let took = refused(&client, DONE).await?;
        let events = self.namespace.kubectl(&["get", "events", "--output=jsonpath={.items[*].reason}"])?;
        if !events.split_whitespace().any(|reason| reason == "UserEnded") {
            return Err(format!("no event UserEnded: {events}").into());
        }
        self.lists_users("vanished").await?;
        Ok(format!("(refused {} s after an operator was asked for)", took.as_secs()))
    }

    /// Lists the users in a pod with the certificate of an admin.
    async fn lists_users(&self, expected: &str) -> Result<(), Box<dyn std::error::Error>> {
        let change = r#"{"spec": {"adminCertificate": {"enabled": true}}}"#;
        self.namespace.kubectl(&["patch", "storagecluster", CLUSTER, "--type=merge", "--patch", change])?;
        wait_for("an admin's certificate", DONE, || {
            self.namespace.secret("demo-admin").map(|_| ()).ok_or_else(|| "no Secret".to_owned())
        })
        .await?;
        let pod = self.namespace.get("pod", "demo-pool-0-0").ok_or("no pod")?;
        let image = pod["spec"]["containers"][0]["image"].as_str().ok_or("no image")?.to_owned();
        let restricted =
            serde_json::json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        let overrides = serde_json::json!({"spec": {
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "admin",
                "volumeMounts": [{"name": "admin", "mountPath": "/admin"}],
                "securityContext": restricted,
            }],
            "volumes": [{"name": "admin", "secret": {"secretName": "demo-admin", "defaultMode": 288}}],
        }});
        let (image, overrides) = (format!("--image={image}"), format!("--overrides={overrides}"));
        let pod =
            ["run", "admin", "--rm", "-i", "--quiet", "--restart=Never", "--labels=sherd.dev/admin=true"];
        let how = ["--override-type=strategic", "--image-pull-policy=IfNotPresent", &image, &overrides, "--"];
        let list = ["user", "list", "--endpoint", "demo-nodes:9100", "--ca", "/admin/ca.crt"];
        let certificate = ["--cert", "/admin/tls.crt", "--key", "/admin/tls.key"];
        let said = self.namespace.kubectl(&[&pod[..], &how, &list, &certificate].concat())?;
        if said.contains(&format!("{TENANT}.{expected}")) { Ok(()) } else { Err(said.into()) }
    }

    /// The cluster is deleted, then the BucketUser, as an application is pruned, and the cluster is adopted.
    pub(crate) async fn by_cluster(&self, adopt: impl AsyncFnOnce() -> CaseResult) -> CaseResult {
        let client = self.user("pruned").await?;
        self.namespace.kubectl(&["delete", "storagecluster", CLUSTER])?;
        self.tenant.kubectl(&["delete", "bucketuser", "pruned", "--timeout=2m"])?;
        adopt().await?;
        self.list(&[OWNER, TENANT])?;
        let took = refused(&client, DONE).await?;
        Ok(format!("(refused {} s after the cluster was ready)", took.as_secs()))
    }

    /// Ends the operators, and returns their Deployment once none is left.
    async fn scale(&self, replicas: usize) -> Result<String, Box<dyn std::error::Error>> {
        let deployments = self.namespace.names("deployment", "app.kubernetes.io/name=sherd-operator")?;
        let name = format!("deployment/{}", deployments.first().ok_or("no operator")?);
        self.namespace.kubectl(&["scale", &name, &format!("--replicas={replicas}")])?;
        wait_for("no operator runs", DONE, || {
            let left = self.namespace.names("pod", OPERATORS).map_err(|error| error.to_string())?;
            if left.len() == replicas { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await?;
        Ok(name)
    }
}

async fn put(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    client.put_object().bucket("withdrawn").key("object").body(vec![1].into()).send().await?;
    Ok(())
}

/// Waits until a key works.
async fn works(client: &Client, deadline: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let begun = std::time::Instant::now();
    loop {
        match put(client).await {
            Ok(()) => return Ok(()),
            Err(error) if begun.elapsed() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Waits until a key is refused, and says how long that took.
async fn refused(client: &Client, deadline: Duration) -> Result<Duration, Box<dyn std::error::Error>> {
    let begun = std::time::Instant::now();
    loop {
        match client.put_object().bucket("withdrawn").key("object").body(vec![1].into()).send().await {
            Err(error) if error.raw_response().is_some_and(|answer| answer.status().as_u16() == 403) => {
                return Ok(begun.elapsed());
            }
            _ if begun.elapsed() > deadline => return Err("the key works on".into()),
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}
