//! The kinds of objects that are reconciled: what begins a reconcile beside a change of the object, what one
//! is, and how a failure that it could not report itself is reported.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::api::{ApiResource, PartialObjectMeta};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;

use super::scope::{GuardedObject, Scope, WatchedKind, jittered};
use crate::api::{AccessCondition, Bucket, BucketUser, StorageCluster};
use crate::buckets::{self, NextLook};
use crate::limits;
use crate::names::{BUCKET_USER_LABEL, CLUSTER_LABEL};
use crate::reconcile::{
    Context, ReconcileError, close_budgets, publish_unclaimed, reconcile, report_unobserved,
};

/// A kind of objects that is reconciled.
pub(super) trait ReconciledKind: WatchedKind {
    /// The name in metrics and log lines.
    const CONTROLLER: &'static str;

    /// The least time between the begins of two reconciles of one object.
    fn apart() -> Duration {
        Duration::ZERO
    }

    /// Makes the controller, which a change of an object begins a reconcile of.
    fn controller(scope: &Scope) -> Controller<GuardedObject<Self>> {
        scope.controller()
    }

    /// Adds what else begins a reconcile.
    fn watch(
        context: &Context,
        scope: &Scope,
        controller: Controller<GuardedObject<Self>>,
    ) -> Controller<GuardedObject<Self>>;

    /// Reconciles one object, and returns when it is looked at again.
    fn step(&self, context: &Context) -> impl Future<Output = Result<Action, ReconcileError>> + Send;

    /// Returns the longest wait after such a failure.
    fn retry_max(_: &ReconcileError) -> Duration {
        limits::RETRY_MAX
    }

    /// Takes back what may not stand while an object cannot be judged.
    fn secure(_: &Context, _: &GuardedObject<Self>) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Reports a failure; it `lasts` where earlier reconciles failed, too, or the API server refuses.
    fn report(
        &self,
        context: &Context,
        error: &ReconcileError,
        lasts: bool,
    ) -> impl Future<Output = ()> + Send;
}

/// A kind whose condition Ready metrics show.
pub(super) trait ReadyKind: ReconciledKind {
    /// The kind's name in Kubernetes.
    const KIND: &'static str;

    /// Status and reason of its condition Ready, once there is one.
    fn ready(&self) -> Option<(&str, &str)>;
}

impl ReadyKind for Bucket {
    const KIND: &'static str = "Bucket";

    fn ready(&self) -> Option<(&str, &str)> {
        ready(&self.status.as_ref()?.conditions)
    }
}

impl ReadyKind for BucketUser {
    const KIND: &'static str = "BucketUser";

    fn ready(&self) -> Option<(&str, &str)> {
        ready(&self.status.as_ref()?.conditions)
    }
}

fn ready(conditions: &[Condition]) -> Option<(&str, &str)> {
    let found = conditions.iter().find(|condition| condition.type_ == AccessCondition::Ready.as_str())?;
    Some((&found.status, &found.reason))
}

impl ReconciledKind for StorageCluster {
    const CONTROLLER: &'static str = "storagecluster";

    fn apart() -> Duration {
        limits::RECONCILES_APART
    }

    fn controller(scope: &Scope) -> Controller<GuardedObject<Self>> {
        scope.controller_of_changes()
    }

    fn watch(
        context: &Context,
        scope: &Scope,
        controller: Controller<GuardedObject<Self>>,
    ) -> Controller<GuardedObject<Self>> {
        let kinds = [
            ApiResource::erase::<Secret>(&()),
            ApiResource::erase::<ServiceAccount>(&()),
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<NetworkPolicy>(&()),
            ApiResource::erase::<PodDisruptionBudget>(&()),
            ApiResource::erase::<StatefulSet>(&()),
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<PersistentVolumeClaim>(&()),
        ];
        // The label names the cluster, so that children without an owner trigger a reconcile, too.
        kinds.into_iter().fold(controller, |controller, resource| {
            scope.watch_cached(controller, &context.cache, resource, CLUSTER_LABEL)
        })
    }

    async fn step(&self, context: &Context) -> Result<Action, ReconcileError> {
        reconcile(context, self).await?;
        Ok(Action::requeue(jittered(limits::RESYNC)))
    }

    /// An open disruption budget is judged again as soon as after a success; one that was not judged is
    /// closed.
    fn retry_max(error: &ReconcileError) -> Duration {
        if error.is_unjudged() { limits::RETRY_MAX } else { limits::RESYNC }
    }

    async fn secure(context: &Context, guarded: &GuardedObject<Self>) {
        close(context, guarded).await;
    }

    async fn report(&self, context: &Context, error: &ReconcileError, lasts: bool) {
        if error.is_unjudged() {
            close(context, self).await;
        }
        if let ReconcileError::NamespaceLease { .. } = error
            && lasts
        {
            publish_unclaimed(&context.recorder, &self.object_ref(&()), &error.to_string()).await;
        }
        if !error.is_unreported() || !lasts {
            return;
        }
        let reported = report_unobserved(context, self, error);
        match tokio::time::timeout(limits::REQUEST_TIME_MAX, reported).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "report a cluster that cannot be looked at"),
            Err(_) => tracing::warn!("report a cluster that cannot be looked at: no answer"),
        }
    }
}

impl ReconciledKind for Bucket {
    const CONTROLLER: &'static str = "bucket";

    fn watch(
        _: &Context,
        _: &Scope,
        controller: Controller<GuardedObject<Self>>,
    ) -> Controller<GuardedObject<Self>> {
        controller
    }

    async fn step(&self, context: &Context) -> Result<Action, ReconcileError> {
        Ok(action(buckets::bucket::reconcile(context, self).await?))
    }

    async fn report(&self, context: &Context, error: &ReconcileError, lasts: bool) {
        if lasts {
            publish_unclaimed(&context.recorder, &self.object_ref(&()), &error.to_string()).await;
        }
    }
}

impl ReconciledKind for BucketUser {
    const CONTROLLER: &'static str = "bucketuser";

    fn watch(
        _: &Context,
        scope: &Scope,
        controller: Controller<GuardedObject<Self>>,
    ) -> Controller<GuardedObject<Self>> {
        // A list of Secrets would show all of a tenant's: where one is edited or gone shows at the next look.
        let controller = if scope.name.is_of_tenants {
            controller
        } else {
            scope.watch_labelled::<Self, Secret>(controller, BUCKET_USER_LABEL)
        };
        // A Bucket that gets its bucket, is shared otherwise or goes changes the rights of the users that
        // name it.
        let users = controller.store();
        controller.watches(scope.api::<PartialObjectMeta<Bucket>>(), watcher::Config::default(), move |_| {
            let refers =
                |user: &GuardedObject<Self>| user.0.as_ref().is_ok_and(|user| !user.spec.buckets.is_empty());
            let users = users.state().into_iter().filter(|user| refers(user));
            users.map(|user| ObjectRef::from_obj(user.as_ref())).collect::<Vec<_>>()
        })
    }

    async fn step(&self, context: &Context) -> Result<Action, ReconcileError> {
        Ok(action(buckets::user::reconcile(context, self).await?))
    }

    async fn report(&self, context: &Context, error: &ReconcileError, lasts: bool) {
        if lasts {
            publish_unclaimed(&context.recorder, &self.object_ref(&()), &error.to_string()).await;
        }
    }
}

/// Closes the disruption budgets of a cluster that was not judged.
async fn close(context: &Context, cluster: &(impl Resource<DynamicType = ()> + Sync)) {
    match tokio::time::timeout(limits::REQUEST_TIME_MAX, close_budgets(context, cluster)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "close the budget of a cluster that is not judged"),
        Err(_) => tracing::warn!("close the budget of a cluster that is not judged: no answer"),
    }
}

fn action(look: NextLook) -> Action {
    match look {
        NextLook::OnChange => Action::await_change(),
        NextLook::After(time) => Action::requeue(jittered(time)),
    }
}
