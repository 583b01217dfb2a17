//! Reads objects and logs into the archive, by the caller's rights and within a time.

use std::io;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sherd_operator::api::{Bucket, BucketUser, StorageCluster};
use sherd_operator::names::CLUSTER_LABEL;
use tokio::time::{Instant, timeout, timeout_at};

use super::archive::Archive;
use super::redact::{redact_object, redact_text};
use crate::cluster::{FoundCluster, operators};
use crate::error::{PluginError, Right};
use crate::limits::{
    ANSWER_TIMEOUT, LINE_BYTES_MAX, SUPPORT_LOG_BYTES_MAX, SUPPORT_LOG_LINES_MAX, SUPPORT_OBJECTS_MAX,
    SUPPORT_PODS_MAX, SUPPORT_TIME_MAX,
};
use crate::logs;
use crate::session::Session;

/// Reads the objects and logs of a cluster, until a deadline.
pub(super) struct SupportReader<'a> {
    pub(super) session: &'a Session,
    pub(super) cluster: &'a FoundCluster,
    pub(super) deadline: Instant,
}

/// Objects of one kind.
struct Kind {
    /// The file.
    file: &'static str,
    /// The resource, as a Role names it.
    resource: &'static str,
    api: ApiResource,
}

/// The kinds of objects that have the cluster's label.
fn labelled() -> [Kind; 7] {
    let kind = |file, resource, api| Kind { file, resource, api };
    [
        kind("statefulsets.json", "statefulsets.apps", ApiResource::erase::<StatefulSet>(&())),
        kind("pods.json", "pods", ApiResource::erase::<Pod>(&())),
        kind("claims.json", "persistentvolumeclaims", ApiResource::erase::<PersistentVolumeClaim>(&())),
        kind("budgets.json", "poddisruptionbudgets.policy", ApiResource::erase::<PodDisruptionBudget>(&())),
        kind("services.json", "services", ApiResource::erase::<Service>(&())),
        kind("policies.json", "networkpolicies.networking.k8s.io", ApiResource::erase::<NetworkPolicy>(&())),
        kind("settings.json", "configmaps", ApiResource::erase::<ConfigMap>(&())),
    ]
}

impl SupportReader<'_> {
    /// Waits for something until the time of the archive is over; the error says why it is not in it.
    pub(super) async fn within<T>(
        &self,
        what: &str,
        asked: impl Future<Output = Result<T, PluginError>>,
    ) -> Result<T, String> {
        match timeout_at(self.deadline, asked).await {
            Ok(answer) => answer.map_err(|error| format!("{what}: {error}")),
            Err(_) => Err(format!("{what}: left out after {} s", SUPPORT_TIME_MAX.as_secs())),
        }
    }

    /// Adds the objects of the cluster, and versions.
    pub(super) async fn add_objects(&self, archive: &mut Archive) -> io::Result<()> {
        self.add_versions(archive).await?;
        let resource = ApiResource::erase::<StorageCluster>(&());
        let api = self.namespaced(&resource);
        let (name, namespace) = (&self.cluster.names.cluster, &self.cluster.names.namespace);
        let right = self.session.right("get", "storageclusters.sherd.dev", name);
        let read = self.session.ask(right, api.get(name));
        match self.within("storagecluster.json", read).await {
            Ok(object) => add_json(archive, "storagecluster.json", json!(object))?,
            Err(why) => archive.fault(why),
        }
        let labels = ListParams::default().labels(&format!("{CLUSTER_LABEL}={name}"));
        for Kind { file, resource, api } in labelled() {
            let right = self.session.right("list", resource, "");
            self.add_list(archive, file, right, self.namespaced(&api), &labels, |_| true).await?;
        }
        let is_event = |object: &Value| is_of_cluster(object, self.cluster);
        let events = self.namespaced(&ApiResource::erase::<Event>(&()));
        let right = self.session.right("list", "events", "");
        self.add_list(archive, "events.json", right, events, &ListParams::default(), is_event).await?;
        let names_cluster = |object: &Value| {
            let cluster = &object["spec"]["cluster"];
            let home = cluster["namespace"].as_str().or(object["metadata"]["namespace"].as_str());
            cluster["name"] == name.as_str() && home == Some(namespace)
        };
        let buckets = ApiResource::erase::<Bucket>(&());
        let users = ApiResource::erase::<BucketUser>(&());
        for (file, resource, kind) in [
            ("buckets.json", "buckets.sherd.dev", buckets),
            ("bucketusers.json", "bucketusers.sherd.dev", users),
        ] {
            self.add_everywhere(archive, file, resource, &kind, names_cluster).await?;
        }
        Ok(())
    }

    async fn add_versions(&self, archive: &mut Archive) -> io::Result<()> {
        let right = Right { name: "/version".to_owned(), ..self.session.right("get", "path", "") };
        let version = self.session.ask(right, self.session.client.apiserver_version());
        let kubernetes = match self.within("versions.txt", version).await {
            Ok(version) => version.git_version,
            Err(why) => {
                archive.fault(why);
                "unknown".to_owned()
            }
        };
        let own = env!("CARGO_PKG_VERSION");
        archive.add("versions.txt", &format!("kubectl-sherd {own}\nKubernetes {kubernetes}\n"))
    }

    fn namespaced(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.session.client.clone(), &self.session.namespace, kind)
    }

    /// Adds the objects of all namespaces that name the cluster, or, where the caller may not list those,
    /// of its own namespace.
    async fn add_everywhere(
        &self,
        archive: &mut Archive,
        file: &'static str,
        resource: &'static str,
        kind: &ApiResource,
        is_wanted: impl Fn(&Value) -> bool + Copy,
    ) -> io::Result<()> {
        let everywhere = Right { namespace: String::new(), ..self.session.right("list", resource, "") };
        let api = Api::all_with(self.session.client.clone(), kind);
        let params = ListParams::default();
        if !self.add_list(archive, file, everywhere, api, &params, is_wanted).await? {
            let right = self.session.right("list", resource, "");
            self.add_list(archive, file, right, self.namespaced(kind), &params, is_wanted).await?;
        }
        Ok(())
    }

    /// Adds the objects of a list that are wanted; false where it could not be read.
    async fn add_list(
        &self,
        archive: &mut Archive,
        file: &'static str,
        right: Right,
        api: Api<DynamicObject>,
        params: &ListParams,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> io::Result<bool> {
        let params = params.clone().limit(SUPPORT_OBJECTS_MAX);
        let list = match self.within(file, self.session.ask(right, api.list(&params))).await {
            Ok(list) => list,
            Err(why) => {
                archive.fault(why);
                return Ok(false);
            }
        };
        if list.metadata.continue_.is_some_and(|rest| !rest.is_empty()) {
            archive.fault(format!("{file}: only the first {SUPPORT_OBJECTS_MAX} of its list"));
        }
        let objects: Vec<Value> = list.items.iter().map(|object| json!(object)).filter(is_wanted).collect();
        add_json(archive, file, Value::Array(objects))?;
        Ok(true)
    }

    /// Adds the last of the logs of the cluster's pods.
    pub(super) async fn add_logs(&self, archive: &mut Archive) -> io::Result<()> {
        match self.within("logs", self.cluster.pods(self.session)).await {
            Ok(pods) => self.add_logs_of(archive, "logs", self.session, &pods).await?,
            Err(why) => archive.fault(why),
        }
        Ok(())
    }

    /// Adds the operator's pods and the last of their logs.
    pub(super) async fn add_operators(&self, archive: &mut Archive) -> io::Result<()> {
        match self.within("operator", operators(self.session)).await {
            Ok((home, pods)) => {
                add_json(archive, "operator-pods.json", json!(pods))?;
                self.add_logs_of(archive, "logs/operator", &home, &pods).await?;
            }
            Err(why) => archive.fault(why),
        }
        Ok(())
    }

    async fn add_logs_of(
        &self,
        archive: &mut Archive,
        folder: &str,
        home: &Session,
        pods: &[Pod],
    ) -> io::Result<()> {
        if pods.len() > SUPPORT_PODS_MAX {
            archive.fault(format!("{folder}: only those of the first {SUPPORT_PODS_MAX} pods"));
        }
        for pod in pods.iter().take(SUPPORT_PODS_MAX) {
            let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let has_restarted = containers.into_iter().any(|container| container.restart_count > 0);
            for previous in if has_restarted { &[false, true][..] } else { &[false] } {
                let kind = if *previous { ".previous" } else { "" };
                let file = format!("{folder}/{}{kind}.log", pod.name_any());
                let (text, fault) = self.log(home, pod, *previous).await;
                if let Some(why) = fault {
                    archive.fault(format!("{file}: {why}"));
                }
                archive.add(&file, &redact_text(&String::from_utf8_lossy(&text)))?;
            }
        }
        Ok(())
    }

    /// The last bytes of a pod's log, and why they are not whole.
    async fn log(&self, home: &Session, pod: &Pod, previous: bool) -> (Vec<u8>, Option<String>) {
        let params = LogParams {
            previous,
            timestamps: true,
            tail_lines: Some(SUPPORT_LOG_LINES_MAX),
            ..LogParams::default()
        };
        let (mut text, mut is_cut) = (Vec::new(), false);
        let reading = async {
            let mut lines = logs::lines(home, pod, params).await.map_err(|error| error.to_string())?;
            while let Some(line) = lines.next().await {
                let mut line = line.map_err(|error| error.to_string())?;
                // The parts of a long line are one again: a secret may stand on both sides of a cut.
                if line.len() > LINE_BYTES_MAX {
                    line.pop();
                }
                text.extend(line);
                // In large steps: each one moves what is kept.
                if text.len() > 2 * SUPPORT_LOG_BYTES_MAX {
                    text.drain(..text.len() - SUPPORT_LOG_BYTES_MAX);
                    is_cut = true;
                }
            }
            Ok(())
        };
        let left = self.deadline.saturating_duration_since(Instant::now()).min(ANSWER_TIMEOUT);
        let read = timeout(left, reading).await;
        let read = read.unwrap_or_else(|_| Err(format!("cut after {} s", left.as_secs())));
        let excess = text.len().saturating_sub(SUPPORT_LOG_BYTES_MAX);
        text.drain(..excess);
        (whole_lines(text, is_cut || excess > 0, read.is_err()), read.err())
    }
}

/// A log without the part of a line at an end where it was cut: half a secret looks like none.
fn whole_lines(mut text: Vec<u8>, is_begin_cut: bool, is_end_cut: bool) -> Vec<u8> {
    let is_end = |byte: &u8| *byte == b'\n';
    if is_begin_cut {
        text.drain(..text.iter().position(is_end).map_or(text.len(), |at| at + 1));
    }
    if is_end_cut {
        text.truncate(text.iter().rposition(is_end).map_or(0, |at| at + 1));
    }
    text
}

/// Whether an event is about the cluster or one of its objects, by their names.
fn is_of_cluster(event: &Value, cluster: &FoundCluster) -> bool {
    let FoundCluster { object, names, .. } = cluster;
    let involved = &event["involvedObject"];
    let (kind, name) = (involved["kind"].as_str(), involved["name"].as_str().unwrap_or_default());
    let pools = || object.spec.pools.iter();
    match kind {
        // A claim is named after its pod.
        Some("Pod") => pools().any(|pool| names.is_claim(&pool.name, &format!("v1-{name}"))),
        Some("PersistentVolumeClaim") => pools().any(|pool| names.is_claim(&pool.name, name)),
        Some("StatefulSet") => pools().any(|pool| names.pool(&pool.name) == name),
        // Names of other children may begin as those of another cluster do.
        Some("StorageCluster") => name == names.cluster,
        _ => name.strip_prefix(&names.cluster).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
    }
}

fn add_json(archive: &mut Archive, file: &str, mut value: Value) -> io::Result<()> {
    redact_object(&mut value);
    let text = serde_json::to_string_pretty(&value).map_err(io::Error::other)?;
    archive.add(file, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_cut_are_left_out() {
        let cut = |text: &str, begin, end| whole_lines(text.as_bytes().to_vec(), begin, end);
        assert_eq!(cut("half\na\nhalf", true, true), b"a\n");
        assert_eq!(cut("a\nb", false, false), b"a\nb");
        assert_eq!((cut("half", true, false), cut("half", false, true)), (vec![], vec![]));
    }
}
