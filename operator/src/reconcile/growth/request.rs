//! The requests by which claims grow, and why one cannot be sent.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::stage::{AskedSize, ClaimChange};
use crate::limits;
use crate::reconcile::error::ReconcileError;

/// The answer to one request.
#[derive(Debug)]
pub(super) enum ClaimAnswer {
    /// The claim asks for the size.
    Taken(Box<PersistentVolumeClaim>),
    /// The claim cannot ask for the size, in words.
    Refused(String),
    /// The API server did not judge the request, in words.
    Unanswered(String),
    /// The claim changed since it was seen, or too many requests before it were refused or not judged.
    Later,
}

/// Sends the requests of one reconcile.
pub(super) struct ClaimRequests<'a> {
    client: &'a Client,
    claims: Api<PersistentVolumeClaim>,
    asked: &'a AskedSize,
    /// Why claims of a class do not grow, by class; nothing where they do.
    classes: BTreeMap<String, Option<String>>,
    /// Requests that the API server refused or did not judge.
    failed: usize,
}

impl<'a> ClaimRequests<'a> {
    pub(super) fn new(client: &'a Client, namespace: &str, asked: &'a AskedSize) -> Self {
        let claims = Api::namespaced(client.clone(), namespace);
        Self { client, claims, asked, classes: BTreeMap::new(), failed: 0 }
    }

    /// Asks for the size for one claim. A request that fails on its way is sent again by the next reconcile.
    pub(super) async fn send(&mut self, claim: &PersistentVolumeClaim, change: ClaimChange) -> ClaimAnswer {
        self.try_send(claim, change).await.unwrap_or_else(|error| {
            self.failed += 1;
            ClaimAnswer::Unanswered(error.to_string())
        })
    }

    async fn try_send(
        &mut self,
        claim: &PersistentVolumeClaim,
        change: ClaimChange,
    ) -> Result<ClaimAnswer, ReconcileError> {
        if self.failed >= limits::GROWTHS_REFUSED_MAX {
            return Ok(ClaimAnswer::Later);
        }
        if change == ClaimChange::Grow
            && let Some(words) = self.refusal_of_class(claim).await?
        {
            return Ok(ClaimAnswer::Refused(words));
        }
        // Of the claim as it was seen: a person may have raised it further.
        let patch = json!({
            "metadata": {"uid": claim.uid(), "resourceVersion": claim.resource_version()},
            "spec": {"resources": {"requests": {"storage": self.asked.quantity}}},
        });
        let name = claim.name_any();
        match self.claims.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(taken) => Ok(ClaimAnswer::Taken(Box::new(taken))),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(ClaimAnswer::Later),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                self.failed += 1;
                Ok(ClaimAnswer::Refused(status.message))
            }
            Err(source) => Err(ReconcileError::api("patch", "PersistentVolumeClaim".into(), &name, source)),
        }
    }

    /// Why the class of a claim lets it not grow.
    async fn refusal_of_class(
        &mut self,
        claim: &PersistentVolumeClaim,
    ) -> Result<Option<String>, ReconcileError> {
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let Some(class) = class.filter(|class| !class.is_empty()) else {
            return Ok(Some("it has no storage class, and Kubernetes grows none without".to_owned()));
        };
        if let Some(known) = self.classes.get(class) {
            return Ok(known.clone());
        }
        let words = look_at_class(self.client, class).await?;
        self.classes.insert(class.to_owned(), words.clone());
        Ok(words)
    }
}

/// Why claims of a class do not grow; nothing where they do.
async fn look_at_class(client: &Client, name: &str) -> Result<Option<String>, ReconcileError> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    match classes.get_opt(name).await {
        Ok(Some(class)) if class.allow_volume_expansion == Some(true) => Ok(None),
        Ok(Some(_)) => Ok(Some(format!("StorageClass {name} has not allowVolumeExpansion: true"))),
        Ok(None) => Ok(Some(format!("StorageClass {name} is not there"))),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(Some(format!("the operator may not read StorageClass {name}: {}", status.message)))
        }
        Err(source) => Err(ReconcileError::api("read", "StorageClass".into(), name, source)),
    }
}
