//! Conditions as they are written, of every kind of object: when they changed, and how the status that has
//! them is stored.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::ReconcileError;
use crate::limits;
use crate::names::STATUS_FIELD_MANAGER;

pub(crate) const TRUE: &str = "True";
pub(crate) const FALSE: &str = "False";
pub(crate) const UNKNOWN: &str = "Unknown";

/// A condition without its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionText<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// Whether the message of the last condition stays, where both have the same reason and object.
    ///
    /// A failure's text may differ with each try (a port, a time). Each change of the status begins a
    /// reconcile, which would come before its wait is over; so what failed at the same object keeps its first
    /// text.
    pub(crate) keeps_message: bool,
}

/// The condition as it is written: its time is the last one's while its status stays.
pub(crate) fn dated(
    last: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
    text: ConditionText<'_>,
) -> Condition {
    let ConditionText { type_, status, reason, message, keeps_message } = text;
    let last = last.iter().find(|last| last.type_ == type_);
    let since = last.filter(|last| last.status == status).map(|last| last.last_transition_time.clone());
    let same = last.filter(|last| {
        let at = |text: &str| text.split(": ").next().map(str::to_owned);
        keeps_message && last.reason == reason && at(&last.message) == at(message)
    });
    let message = same.map_or(message, |last| &last.message);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.chars().take(limits::MESSAGE_CHARACTERS_MAX).collect(),
        last_transition_time: since.unwrap_or(Time(now)),
        observed_generation: generation,
    }
}

/// Writes a status, where it differs from the one that is there. Returns the object as it is stored then;
/// `None` where nothing was written.
///
/// # Errors
/// [`ReconcileError::Api`].
pub(crate) async fn write<K, S>(
    client: &Client,
    object: &K,
    last: Option<&S>,
    status: &S,
) -> Result<Option<K>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    S: Serialize + PartialEq,
{
    if last == Some(status) {
        return Ok(None);
    }
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let name = object.name_any();
    let patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        // Bound to the object that was judged: its successor of the same name, or a later state, gets its own
        // verdict.
        "metadata": {"uid": object.uid(), "resourceVersion": object.resource_version()},
        "status": status,
    });
    let params = PatchParams::apply(STATUS_FIELD_MANAGER).force();
    match api.patch_status(&name, &params, &Patch::Apply(patch)).await {
        Ok(written) => Ok(Some(written)),
        // The object was deleted or changed meanwhile; a change begins a reconcile.
        Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => Ok(None),
        Err(source) => Err(ReconcileError::api("write the status of", K::kind(&()), &name, source)),
    }
}
