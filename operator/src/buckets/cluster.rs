//! Finds the StorageCluster of a Bucket or BucketUser: whether it is there, whether this namespace may use
//! it, and its CA and nodes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::api::{AccessReason, StorageCluster, TlsMode, lists};
use crate::calls::ClusterCalls;
use crate::limits;
use crate::names::{CA_CERTIFICATE, Names};
use crate::reconcile::{Context, ReconcileError, trust_of};

/// A StorageCluster whose nodes can be asked.
#[derive(Debug)]
pub(super) struct UsableCluster {
    pub(super) calls: ClusterCalls,
    /// Where S3 is reached within the Kubernetes cluster.
    pub(super) endpoint: String,
    /// The CAs that S3's certificate is verified by, in PEM, where they are not those of the system.
    pub(super) authorities: Option<String>,
    /// The region that requests are signed for.
    pub(super) region: String,
    /// Whether the asking namespace may name any bucket.
    pub(super) any_bucket: bool,
}

/// Why a StorageCluster cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    pub(super) reason: AccessReason,
    pub(super) message: String,
}

/// A StorageCluster as a namespace finds it.
#[derive(Debug)]
pub(super) enum FoundCluster {
    Usable(Box<UsableCluster>),
    Unusable(Unusable),
    /// The operator may not look into the cluster's namespace: another operator may.
    Unwatched(Unusable),
    /// The StorageCluster is not there: nothing of it is left to be set or removed.
    Gone(Unusable),
}

/// Finds a cluster for an object of `namespace`. An object that is being deleted finds it also where the
/// cluster no longer lists its namespace: the lists are about what may be made.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(super) async fn find(
    context: &Context,
    name: &str,
    cluster_namespace: &str,
    namespace: &str,
    is_deleted: bool,
) -> Result<FoundCluster, ReconcileError> {
    let unusable = |reason, message: String| FoundCluster::Unusable(Unusable { reason, message });
    let clusters: Api<StorageCluster> = Api::namespaced(context.client.clone(), cluster_namespace);
    let cluster = match clusters.get_opt(name).await {
        Ok(Some(cluster)) => cluster,
        Ok(None) => {
            let message = format!("StorageCluster {name} is not in namespace {cluster_namespace}");
            return Ok(FoundCluster::Gone(Unusable { reason: AccessReason::ClusterMissing, message }));
        }
        // A namespace that the operator does not watch is not its to look into. Of those of tenants it sees
        // no StorageCluster.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let message = format!("the operator does not watch namespace {cluster_namespace} of the cluster");
            return Ok(FoundCluster::Unwatched(Unusable { reason: AccessReason::ClusterMissing, message }));
        }
        Err(source) => return Err(ReconcileError::api("read", "StorageCluster".into(), name, source)),
    };
    let is_own = cluster_namespace == namespace;
    if !is_own && !is_deleted && !lists(&cluster.spec.bucket_namespaces, namespace) {
        let message = format!(
            "StorageCluster {name} in namespace {cluster_namespace} does not list {namespace} in spec.bucketNamespaces"
        );
        return Ok(unusable(AccessReason::NamespaceNotAllowed, message));
    }
    let names = Names::new(name, cluster_namespace);
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), cluster_namespace);
    let secret = names.authority();
    let found = secrets.get_opt(&secret).await;
    let found = found.map_err(|source| ReconcileError::api("read", "Secret".into(), &secret, source))?;
    let Some(trust) = found.as_ref().and_then(trust_of) else {
        let message = format!("StorageCluster {name} has no CA yet: Secret {secret}");
        return Ok(unusable(AccessReason::ClusterNotReady, message));
    };
    let pods = serving_pods(context, &names).await?;
    if pods.is_empty() {
        let message = format!("no pod of StorageCluster {name} serves");
        return Ok(unusable(AccessReason::ClusterNotReady, message));
    }
    let now = Duration::from_secs(u64::try_from((context.now)().as_second()).unwrap_or(0));
    let calls = ClusterCalls::new(std::sync::Arc::clone(&context.calls), trust, &names, pods, now);
    let reported = cluster.status.and_then(|status| status.endpoint);
    let (is_over_tls, port) = (cluster.spec.tls.mode != TlsMode::None, cluster.spec.gateway.service.port());
    let endpoint = reported.unwrap_or_else(|| names.endpoint(is_over_tls, port));
    Ok(FoundCluster::Usable(Box::new(UsableCluster {
        calls,
        authorities: authorities(context, &names, &endpoint).await?,
        endpoint,
        region: cluster.spec.config.region.clone().unwrap_or_else(|| "us-east-1".to_owned()),
        any_bucket: is_own || lists(&cluster.spec.bucket_users.any_bucket, namespace),
    })))
}

/// The CAs that the operator publishes for clients of a cluster that serves S3 over TLS.
async fn authorities(
    context: &Context,
    names: &Names,
    endpoint: &str,
) -> Result<Option<String>, ReconcileError> {
    if !endpoint.starts_with("https:") {
        return Ok(None);
    }
    let name = names.s3_authority();
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &names.namespace);
    let found = maps.get_opt(&name).await;
    let found = found.map_err(|source| ReconcileError::api("read", "ConfigMap".into(), &name, source))?;
    Ok(found.and_then(|found| found.data?.remove(CA_CERTIFICATE)))
}

/// The pods of a cluster that pass their readiness probe.
async fn serving_pods(context: &Context, names: &Names) -> Result<Vec<String>, ReconcileError> {
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &names.namespace);
    let selector: Vec<String> =
        names.selector().iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(",")).limit(limits::LIST_MAX);
    let listed = pods.list(&params).await;
    let listed =
        listed.map_err(|source| ReconcileError::api("list", "Pod".into(), "of the cluster", source))?;
    let is_ready = |pod: &&Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    Ok(listed.items.iter().filter(is_ready).map(ResourceExt::name_any).collect())
}
