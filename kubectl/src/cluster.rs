//! The StorageCluster that is asked about, its pods and its operators.
//!
//! Of the specification only the parts are read that are needed, so that an object of another version of the
//! operator can be read, too.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ApiResource, ListParams, Object};
use kube::{Api, ResourceExt as _};
use serde::{Deserialize, Serialize};
use sherd_admin::plain::plain;
use sherd_operator::api::{ClusterStatus, StorageCluster};
use sherd_operator::lease::NAMESPACE_LEASE;
use sherd_operator::names::{Names, OPERATOR_NAME};

use crate::error::PluginError;
use crate::limits::{CLUSTERS_LISTED_MAX, SUPPORT_OBJECTS_MAX};
use crate::session::{Session, list_params};

/// The parts of a specification that are needed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KnownSpec {
    /// The pools.
    pub pools: Vec<KnownPool>,
}

/// The parts of a pool that are needed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownPool {
    /// The pool's name.
    pub name: String,
}

/// A StorageCluster, as far as it is needed.
pub type KnownCluster = Object<KnownSpec, ClusterStatus>;

/// The StorageCluster that is asked about.
#[derive(Debug, Clone)]
pub struct FoundCluster {
    /// The object.
    pub object: KnownCluster,
    /// The names of its children.
    pub names: Names,
}

impl FoundCluster {
    /// Reads the StorageCluster of this name, or the only one of the namespace.
    ///
    /// # Errors
    /// [`PluginError`]: the namespace has none or several, or it cannot be read.
    pub async fn find(session: &Session, name: Option<&str>) -> Result<Self, PluginError> {
        let resource = ApiResource::erase::<StorageCluster>(&());
        let api: Api<KnownCluster> =
            Api::namespaced_with(session.client.clone(), &session.namespace, &resource);
        let object = if let Some(name) = name {
            session.ask(session.right("get", "storageclusters.sherd.dev", name), api.get(name)).await?
        } else {
            let params = ListParams::default().limit(CLUSTERS_LISTED_MAX);
            let right = session.right("list", "storageclusters.sherd.dev", "");
            let mut found = session.ask(right, api.list(&params)).await?.items;
            let namespace = session.namespace.clone();
            if found.len() > 1 {
                let names: Vec<String> = found.iter().map(|object| plain(&object.name_any())).collect();
                return Err(PluginError::SeveralClusters { namespace, names: names.join(", ") });
            }
            found.pop().ok_or(PluginError::NoCluster { namespace })?
        };
        let names = Names::new(&object.name_any(), &session.namespace);
        Ok(Self { object, names })
    }

    /// Lists its pods, by name.
    ///
    /// # Errors
    /// [`PluginError`].
    pub async fn pods(&self, session: &Session) -> Result<Vec<Pod>, PluginError> {
        let params = list_params(&self.names.selector(), SUPPORT_OBJECTS_MAX);
        let api: Api<Pod> = Api::namespaced(session.client.clone(), &session.namespace);
        let found = session.ask(session.right("list", "pods", ""), api.list(&params)).await?;
        Ok(by_name(found.items))
    }

    /// Lists its disruption budgets.
    ///
    /// # Errors
    /// [`PluginError`].
    pub async fn budgets(&self, session: &Session) -> Result<Vec<PodDisruptionBudget>, PluginError> {
        let params = list_params(&self.names.labels(), SUPPORT_OBJECTS_MAX);
        let api: Api<PodDisruptionBudget> = Api::namespaced(session.client.clone(), &session.namespace);
        let right = session.right("list", "poddisruptionbudgets.policy", "");
        Ok(session.ask(right, api.list(&params)).await?.items)
    }
}

/// Lists the pods of the operator that works on the session's namespace, and their namespace: its name is in
/// the Lease by which it holds the namespace.
///
/// # Errors
/// [`PluginError`].
pub async fn operators(session: &Session) -> Result<(Session, Vec<Pod>), PluginError> {
    let leases: Api<Lease> = Api::namespaced(session.client.clone(), &session.namespace);
    let right = session.right("get", "leases.coordination.k8s.io", NAMESPACE_LEASE);
    let lease = session.ask(right, leases.get(NAMESPACE_LEASE)).await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    let Some((namespace, _)) = holder.split_once('/') else {
        let namespace = &session.namespace;
        return Err(PluginError::NoPod(format!("no operator works on namespace {namespace}")));
    };
    let home = Session { client: session.client.clone(), namespace: namespace.to_owned() };
    let labels = BTreeMap::from([("app.kubernetes.io/name".to_owned(), OPERATOR_NAME.to_owned())]);
    let api: Api<Pod> = Api::namespaced(home.client.clone(), namespace);
    let params = list_params(&labels, SUPPORT_OBJECTS_MAX);
    let found = home.ask(home.right("list", "pods", ""), api.list(&params)).await?;
    Ok((home, by_name(found.items)))
}

fn by_name(mut pods: Vec<Pod>) -> Vec<Pod> {
    pods.sort_by_key(Pod::name_any);
    pods
}
