//! The cases of the story. Each returns a short note, or the error that a person needs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use serde_json::json;
use sherd_e2e::command::run;
use sherd_e2e::history::Load;
use sherd_e2e::kubernetes::{Namespace, wait_for};
use sherd_e2e::prometheus::{Prometheus, Target, is_there};

use crate::operator_upgrade::OlderRelease;
use crate::{
    buckets, claims, credentials, drift, growth, hot, monitoring, one_host, operator_kill, operator_upgrade,
    plugin, quota, rollouts, tls, trust, withdrawal,
};

pub(crate) type CaseResult = Result<String, Box<dyn std::error::Error>>;

pub(crate) const CLUSTER: &str = "demo";
const PODS: &str = "app.kubernetes.io/name=sherd-node,sherd.dev/cluster=demo";
pub(crate) const OPERATORS: &str = "app.kubernetes.io/name=sherd-operator";
/// How long a cluster may take to be ready, or to heal: generous, for a machine that builds and tests
/// meanwhile.
const READY: Duration = Duration::from_mins(5);
/// How long a change of a child may take to be undone.
const MENDED: Duration = Duration::from_mins(3);
/// Writes before a pod is killed, and after another one of its name serves.
const WRITES_AROUND: u64 = 200;

/// State that the cases share.
pub(crate) struct Story {
    tag: String,
    /// The operator that is installed first, where it is upgraded later.
    older: Option<OlderRelease>,
    namespace: Namespace,
    client: Option<Client>,
    endpoint: String,
    kept: Vec<u8>,
}

impl Story {
    pub(crate) fn new(tag: String, older: Option<OlderRelease>) -> Self {
        let namespace = Namespace { name: "sherd-e2e".to_owned() };
        let kept = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        Self { tag, older, namespace, client: None, endpoint: String::new(), kept }
    }

    fn client(&self) -> Result<&Client, String> {
        self.client.as_ref().ok_or_else(|| "there is no client yet".to_owned())
    }

    async fn ready(&self, deadline: Duration) -> Result<Duration, String> {
        let look = || match self.namespace.condition(CLUSTER, "Ready") {
            Some((status, _)) if status == "True" => Ok(()),
            Some((status, reason)) => Err(format!("Ready={status} {reason}")),
            None => Err("no condition".to_owned()),
        };
        wait_for("Ready", deadline, look).await
    }

    /// Every pod serves and nothing is left to heal.
    async fn settled(&self) -> Result<Duration, String> {
        let look = || {
            let is = |condition: &str, expected: &str| match self.namespace.condition(CLUSTER, condition) {
                Some((status, _)) if status == expected => Ok(()),
                found => Err(format!("{condition}: {found:?}")),
            };
            is("Ready", "True")?;
            is("PoolsReady", "True")?;
            is("Degraded", "False")
        };
        wait_for("settled", READY, look).await
    }

    pub(crate) async fn installs_until_ready(&mut self) -> CaseResult {
        let namespace = self.namespace.name.clone();
        let (tag, chart) = match &self.older {
            Some(older) => (older.tag.as_str(), older.chart.clone()),
            None => (self.tag.as_str(), own_chart()),
        };
        let tag = format!("image.tag={tag}");
        run(
            "helm",
            &[
                "install",
                "sherd",
                &chart,
                "--namespace",
                &namespace,
                "--create-namespace",
                "--set",
                &tag,
                "--wait",
            ],
        )?;
        run("kubectl", &["label", "namespace", &namespace, "pod-security.kubernetes.io/enforce=restricted"])?;
        let example = root().join("deploy/examples/minimal.yaml");
        self.namespace.apply(&std::fs::read_to_string(example)?)?;
        let first = wait_for("a first status", MENDED, || {
            self.namespace.condition(CLUSTER, "Ready").map(|_| ()).ok_or_else(|| "no status".to_owned())
        });
        first.await?;
        let took = self.ready(READY).await?;
        self.endpoint = self.namespace.open_s3(CLUSTER)?;
        self.client = Some(self.namespace.client(CLUSTER, &self.endpoint)?);
        self.settled().await?;
        Ok(format!("(Ready after {:.1} s)", took.as_secs_f64()))
    }

    pub(crate) async fn upgrades_the_operator_under_load(&mut self) -> CaseResult {
        let Some(older) = self.older.take() else {
            eprintln!("SKIPPED upgrades_the_operator_under_load: SHERD_E2E_OLD_TAG names no older images");
            return Ok("(skipped)".to_owned());
        };
        let note = operator_upgrade::upgrade(&self.namespace, self.client()?, &self.tag).await?;
        Ok(format!("from {} {note}", older.tag))
    }

    pub(crate) async fn looks_at_it_by_the_plugin(&mut self) -> CaseResult {
        self.settled().await?;
        plugin::looks(&self.namespace).await
    }

    pub(crate) async fn survives_kills_in_a_rollout(&mut self) -> CaseResult {
        operator_kill::in_rollout(&self.namespace, self.client()?).await
    }

    pub(crate) async fn survives_kills_in_a_put_back(&mut self) -> CaseResult {
        operator_kill::in_put_back(&self.namespace, self.client()?).await
    }

    pub(crate) async fn survives_kills_in_a_rotation(&mut self) -> CaseResult {
        operator_kill::in_rotation(&self.namespace, self.client()?).await
    }

    pub(crate) async fn survives_kills_in_an_installation(&mut self) -> CaseResult {
        operator_kill::in_installation(&self.namespace).await
    }

    pub(crate) async fn puts_and_gets_through_the_service(&mut self) -> CaseResult {
        let client = self.client()?;
        client.create_bucket().bucket("kept").send().await?;
        let body = ByteStream::from(self.kept.clone());
        client.put_object().bucket("kept").key("object").body(body).send().await?;
        self.kept_object_is_there().await?;
        let listed = client.list_objects_v2().bucket("kept").send().await?;
        if listed.contents().len() != 1 {
            return Err(format!("{} objects are listed", listed.contents().len()).into());
        }
        Ok(format!("through {}", self.endpoint))
    }

    async fn kept_object_is_there(&self) -> CaseResult {
        let got = self.client()?.get_object().bucket("kept").key("object").send().await?;
        let bytes = got.body.collect().await?.into_bytes();
        if bytes.as_ref() == self.kept.as_slice() {
            Ok(String::new())
        } else {
            Err("other bytes came back".into())
        }
    }

    #[expect(clippy::unused_async, reason = "every case of the story is awaited")]
    pub(crate) async fn passes_the_charts_test(&mut self) -> CaseResult {
        let said = run("helm", &["test", "sherd", "--namespace", &self.namespace.name, "--timeout", "5m"])?;
        let passed = said.lines().any(|line| line.starts_with("Phase:") && line.ends_with("Succeeded"));
        if passed { Ok(String::new()) } else { Err(said.into()) }
    }

    /// The API server judges by the schema: what is refused never reaches the operator.
    #[expect(clippy::unused_async, reason = "every case of the story is awaited")]
    pub(crate) async fn refuses_contradictions(&mut self) -> CaseResult {
        let patched = |patch: serde_json::Value| {
            self.namespace.kubectl(&[
                "patch",
                "storagecluster",
                CLUSTER,
                "--type",
                "json",
                "--patch",
                &json!([patch]).to_string(),
            ])
        };
        let pool = "/spec/pools/0";
        let changes = [
            (json!({"op": "replace", "path": format!("{pool}/nodes"), "value": 3}), "nodes is immutable"),
            (
                json!({"op": "replace", "path": format!("{pool}/volumesPerNode"), "value": 2}),
                "volumesPerNode is immutable",
            ),
            (
                json!({"op": "replace", "path": format!("{pool}/name"), "value": "other"}),
                "cannot be removed or renamed",
            ),
            (
                json!({"op": "add", "path": format!("{pool}/erasure"), "value": {"setSize": 4, "parity": 1}}),
                "erasure is immutable",
            ),
            (
                json!({"op": "replace", "path": format!("{pool}/volumeClaimTemplate/resources/requests/storage"), "value": "1Mi"}),
                "volumes do not shrink",
            ),
        ];
        for (patch, message) in &changes {
            match patched(patch.clone()) {
                Ok(_) => return Err(format!("{patch} is accepted").into()),
                Err(error) if error.to_string().contains(message) => {}
                Err(error) => return Err(format!("{patch} is refused otherwise: {error}").into()),
            }
        }
        let example = std::fs::read_to_string(root().join("deploy/examples/minimal.yaml"))?;
        let other = |from: &str, to: &str| {
            self.namespace.apply(&example.replace("name: demo", "name: other").replace(from, to))
        };
        let documents = [
            ("nodes: 4", "nodes: 4\n      parityy: 2", "parityy"),
            ("nodes: 4", "nodes: 17", "no set size from 8 to 16"),
            ("nodes: 4", "nodes: 4\n      erasure: {setSize: 3, parity: 1}", "must divide"),
            ("nodes: 4", "nodes: 4\n      erasure: {setSize: 4, parity: 4}", "less than erasure.setSize"),
            ("nodes: 4", "nodes: 4\n      extraEnv: [{name: SHERD_VOLUMES, value: /}]", "extraEnv"),
            ("name: other", "name: a-name-that-is-far-too-long-for-it", "metadata.name"),
        ];
        for (from, to, message) in documents {
            match other(from, to) {
                Ok(_) => return Err(format!("{to} is accepted").into()),
                Err(error) if error.to_string().contains(message) => {}
                Err(error) => return Err(format!("{to} is refused otherwise: {error}").into()),
            }
        }
        Ok(format!("({} changes, {} documents)", changes.len(), documents.len()))
    }

    pub(crate) async fn repairs_drift(&mut self) -> CaseResult {
        // First: for certificates that are issued again pods are replaced.
        self.leaves_no_container_of_others().await?;
        let credentials = self.namespace.secret("demo-root-credentials").ok_or("no credentials")?;
        let configs = self.namespace.names("configmap", "sherd.dev/cluster=demo")?;
        let config = configs.first().ok_or("no configuration")?.clone();
        for (kind, name) in [
            ("service", "demo-s3"),
            ("service", "demo-nodes"),
            ("configmap", config.as_str()),
            ("secret", "demo-ca"),
            ("secret", "demo-recovery"),
            ("secret", "demo-master-key"),
            ("poddisruptionbudget", "demo-pool-0"),
            ("networkpolicy", "demo-node"),
            ("serviceaccount", "demo-node"),
            ("secret", "demo-root-credentials"),
            ("secret", "demo-pool-0-certificates"),
        ] {
            let uid = |object: serde_json::Value| object["metadata"]["uid"].clone();
            let before =
                self.namespace.get(kind, name).map(uid).ok_or_else(|| format!("no {kind} {name}"))?;
            self.namespace.kubectl(&["delete", kind, name])?;
            let look = || match self.namespace.get(kind, name).map(uid) {
                Some(after) if after != before => Ok(()),
                _ => Err("it is not back".to_owned()),
            };
            wait_for(&format!("{kind} {name}"), MENDED, look).await?;
        }
        if self.namespace.secret("demo-root-credentials") != Some(credentials) {
            return Err("the credentials came back as others".into());
        }
        self.namespace.kubectl(&[
            "patch",
            "statefulset",
            "demo-pool-0",
            "--type",
            "merge",
            "--patch",
            r#"{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}"#,
        ])?;
        self.namespace.kubectl(&[
            "patch",
            "service",
            "demo-s3",
            "--type",
            "merge",
            "--patch",
            r#"{"spec":{"type":"NodePort"}}"#,
        ])?;
        wait_for("edits are undone", MENDED, || {
            let set = self.namespace.get("statefulset", "demo-pool-0");
            let strategy = set.map(|set| set["spec"]["updateStrategy"]["type"].clone());
            let service = self.namespace.get("service", "demo-s3");
            let kind = service.map(|service| service["spec"]["type"].clone());
            if strategy == Some(json!("OnDelete")) && kind == Some(json!("ClusterIP")) {
                Ok(())
            } else {
                Err(format!("{strategy:?} {kind:?}"))
            }
        })
        .await?;
        self.settled().await?;
        self.kept_object_is_there().await
    }

    /// A container that cannot start goes out of the template again, and no pod is replaced for it.
    async fn leaves_no_container_of_others(&self) -> CaseResult {
        wait_for("the pods stay", rollouts::ROLLED, || rollouts::rests(&self.namespace)).await?;
        let containers = || {
            let set = self.namespace.get("statefulset", "demo-pool-0").ok_or("no StatefulSet")?;
            let containers = set["spec"]["template"]["spec"]["containers"].as_array().cloned();
            let names = containers.into_iter().flatten().map(|container| container["name"].clone());
            Ok::<Vec<_>, String>(names.collect())
        };
        let uids = || {
            let pods = self.namespace.names("pod", "sherd.dev/cluster=demo");
            let pods = pods.map_err(|error| error.to_string())?;
            let uid = |pod: &String| self.namespace.get("pod", pod).map(|pod| pod["metadata"]["uid"].clone());
            Ok::<Vec<_>, String>(pods.iter().map(uid).collect())
        };
        let before = uids()?;
        for patch in [
            r#"[{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "theirs", "image": "cannot-be-pulled.invalid/theirs:1"}}]"#,
            r#"[{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "nodex"}]"#,
        ] {
            let patched = ["patch", "statefulset", "demo-pool-0", "--type", "json", "--patch", patch];
            self.namespace.kubectl(&patched)?;
            wait_for("the template is the operator's", MENDED, || match containers()?.as_slice() {
                [name] if name == "node" => Ok(()),
                other => Err(format!("{other:?}")),
            })
            .await?;
            wait_for("the rollout rests", rollouts::ROLLED, || rollouts::rests(&self.namespace)).await?;
            let after = uids()?;
            if after != before {
                return Err(format!("a pod was replaced for {patch}: {before:?}, {after:?}").into());
            }
        }
        Ok(String::new())
    }

    pub(crate) async fn puts_every_field_of_every_child_back(&mut self) -> CaseResult {
        // The case before has certificates issued again, for which the pods are replaced.
        wait_for("the pods stay", rollouts::ROLLED, || rollouts::rests(&self.namespace)).await?;
        let note = drift::fuzz(&self.namespace, CLUSTER).await?;
        // The fuzzing asked for one more replica for a moment: its claims stay, as all do.
        let claim = "v1-demo-pool-0-4";
        self.namespace.kubectl(&[
            "delete",
            "persistentvolumeclaim",
            claim,
            "--ignore-not-found",
            "--wait=false",
        ])?;
        self.settled().await?;
        self.kept_object_is_there().await?;
        claims::lose_all(&self.namespace).await?;
        self.settled().await?;
        self.puts_and_gets_through_the_service().await?;
        Ok(note)
    }

    pub(crate) async fn gives_a_pod_its_bucket_and_no_other(&mut self) -> CaseResult {
        buckets::story(&self.namespace, self.client()?, &self.endpoint, &self.tag).await
    }

    /// One pod is asked to end; another is killed at once, and the operator with it. Between the two the
    /// cluster heals, as a person would wait for it.
    pub(crate) async fn loses_nothing_with_a_pod_and_the_operator(&mut self) -> CaseResult {
        let client = self.client()?.clone();
        let mut note = String::new();
        for (bucket, pod, at_once) in [("asked", "demo-pool-0-1", false), ("killed", "demo-pool-0-2", true)] {
            client.create_bucket().bucket(bucket).send().await?;
            let load = Load::start(&client, bucket, 8);
            load.goes_on_for(WRITES_AROUND).await?;
            let replaced = self.kill(pod, at_once).await;
            load.goes_on_for(WRITES_AROUND).await?;
            let report = load.finish(&client, bucket).await;
            let (acknowledged, reads) = (report.acknowledged, report.read);
            if !report.wrong.is_empty() {
                let (wrong, errors) = (report.wrong, report.errors.iter().take(5).collect::<Vec<_>>());
                return Err(format!(
                    "{bucket}: lost or wrong: {wrong:#?}; requests that failed: {errors:#?}"
                )
                .into());
            }
            if !report.errors.is_empty() {
                let (failed, first) = (report.errors.len(), report.errors.iter().take(5).collect::<Vec<_>>());
                return Err(
                    format!("{bucket}: {failed} requests failed beside {acknowledged}: {first:#?}").into()
                );
            }
            let slowest = report.slowest.as_secs_f64();
            write!(note, "({bucket}: {acknowledged} writes, {reads} reads, slowest {slowest:.1} s) ")?;
            replaced?;
            self.settled().await?;
        }
        Ok(note)
    }

    pub(crate) async fn replaces_pods_under_load(&mut self) -> CaseResult {
        rollouts::restart_under_load(&self.namespace, self.client()?).await
    }

    pub(crate) async fn puts_the_last_template_back(&mut self) -> CaseResult {
        rollouts::bad_image(&self.namespace, self.client()?).await
    }

    pub(crate) async fn replaces_root_credentials_under_load(&mut self) -> CaseResult {
        credentials::replace_under_load(&self.namespace, self.client()?, &self.endpoint).await
    }

    pub(crate) async fn changes_settings_under_load(&mut self) -> CaseResult {
        hot::change_under_load(&self.namespace, self.client()?).await
    }

    pub(crate) async fn rotates_the_ca_under_load(&mut self) -> CaseResult {
        trust::rotate_under_load(&self.namespace, self.client()?).await
    }

    pub(crate) async fn makes_another_ca_when_it_is_lost(&mut self) -> CaseResult {
        trust::lose_the_authority(&self.namespace, self.client()?).await
    }

    pub(crate) async fn drains_host_after_host(&mut self) -> CaseResult {
        rollouts::drain(&self.namespace, self.client()?).await
    }

    pub(crate) async fn keeps_an_object_on_one_host(&mut self) -> CaseResult {
        one_host::keeps_an_object(&self.tag).await
    }

    pub(crate) async fn says_that_a_quota_forbids_pods(&mut self) -> CaseResult {
        quota::story(&self.namespace).await
    }

    pub(crate) async fn grows_claims(&mut self) -> CaseResult {
        growth::story(&self.namespace).await
    }

    pub(crate) async fn serves_s3_over_tls(&mut self) -> CaseResult {
        tls::story(&self.namespace).await
    }

    /// Keeps the logs of all pods as they are now, in a folder of SHERD_E2E_LOGS with the case's name: later
    /// cases replace the pods.
    pub(crate) fn keep_logs(&self, case: &str) {
        let Ok(logs) = std::env::var("SHERD_E2E_LOGS") else { return };
        let folder = std::path::Path::new(&logs).join(case);
        let keep = || -> Result<(), Box<dyn std::error::Error>> {
            std::fs::create_dir_all(&folder)?;
            for pod in self.namespace.names("pod", "")? {
                let log = self.namespace.kubectl(&["logs", &pod, "--timestamps"]);
                std::fs::write(
                    folder.join(format!("{pod}.log")),
                    log.unwrap_or_else(|error| error.to_string()),
                )?;
            }
            Ok(())
        };
        if let Err(error) = keep() {
            eprintln!("e2e {case}: its logs are not all kept: {error}");
        }
    }

    /// Ends a pod, and waits until another one of its name serves.
    async fn kill(&self, pod: &str, at_once: bool) -> Result<(), Box<dyn std::error::Error>> {
        let now: &[&str] = if at_once { &["--grace-period=0", "--force"] } else { &[] };
        if at_once {
            for operator in self.namespace.names("pod", OPERATORS)? {
                self.namespace
                    .kubectl(&[&["delete", "pod", operator.as_str(), "--wait=false"], now].concat())?;
            }
        }
        let before = self.namespace.get("pod", pod).ok_or("no pod")?["metadata"]["uid"].clone();
        self.namespace.kubectl(&[&["delete", "pod", pod, "--wait=false"], now].concat())?;
        let look = || {
            let found = self.namespace.get("pod", pod).ok_or("it is not there")?;
            if found["metadata"]["uid"] == before {
                return Err("it is not replaced".to_owned());
            }
            let ready = found["status"]["containerStatuses"][0]["ready"] == true;
            if ready { Ok(()) } else { Err("its successor does not serve".to_owned()) }
        };
        wait_for(pod, READY, look).await?;
        Ok(())
    }

    pub(crate) async fn is_scraped_by_prometheus(&mut self) -> CaseResult {
        if let Err(error) = is_there() {
            eprintln!("SKIPPED is_scraped_by_prometheus: {error}");
            return Ok("(skipped)".to_owned());
        }
        opens_admin_ports(&self.namespace, CLUSTER)?;
        let namespace = &self.namespace.name;
        let node = |pod: String| Target {
            namespace: namespace.clone(),
            pod,
            port: 9200,
            job: "sherd-node",
            cluster: Some(CLUSTER.to_owned()),
        };
        let operator = |pod: String| Target {
            namespace: namespace.clone(),
            pod,
            port: 8080,
            job: "sherd-operator",
            cluster: None,
        };
        let nodes = self.namespace.names("pod", PODS)?;
        let operators = self.namespace.names("pod", OPERATORS)?;
        let count = (nodes.len(), operators.len());
        // A node that was replaced may have had no request yet. This one is refused, and counted.
        for pod in &nodes {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:9000/proxy/kept/object");
            match self.namespace.kubectl(&["get", "--raw", &path]) {
                Err(error)
                    if error.to_string().contains("orbidden")
                        || error.to_string().contains("AccessDenied") => {}
                answer => {
                    return Err(format!("{pod} answers a request without a signature: {answer:?}").into());
                }
            }
        }
        let targets: Vec<Target> =
            nodes.into_iter().map(node).chain(operators.into_iter().map(operator)).collect();
        let folder = std::env::temp_dir().join(format!("sherd-e2e-prometheus-{}", std::process::id()));
        let prometheus = Prometheus::start(&folder, 19_090, &targets)?;
        let expressions = [
            ("sherd_build_info", count.0),
            ("sum by (pod) (sherd_s3_requests_total)", count.0),
            ("sum by (pod) (sherd_volume_bytes)", count.0),
            ("count by (pod) (sherd_register_rounds_total)", count.0),
            // Of the operator that leads.
            ("sherd_operator_leader", 1),
            ("sum by (pod) (sherd_operator_reconcile_total)", 1),
            ("sum by (pod) (sherd_operator_condition{condition=\"Ready\"})", 1),
        ];
        for (expression, pods) in expressions {
            wait_for(expression, MENDED, || {
                let values = prometheus.query(expression).map_err(|error| error.to_string())?;
                let positive = values.values().filter(|value| **value > 0.0).count();
                if positive == pods { Ok(()) } else { Err(format!("{values:?}")) }
            })
            .await?;
        }
        let queries = monitoring::every_query_has_series(&prometheus, namespace, MENDED).await?;
        drop(prometheus);
        std::fs::remove_dir_all(&folder)?;
        Ok(format!("({} nodes, {} operators, {queries} queries)", count.0, count.1))
    }

    pub(crate) async fn keeps_data_when_it_is_deleted_and_adopts_it_again(&mut self) -> CaseResult {
        let secrets = ["demo-ca", "demo-root-credentials", "demo-master-key", "demo-recovery"];
        let data = |name: &&str| Some(self.namespace.get("secret", name)?["data"].clone());
        let before: Vec<_> = secrets.iter().map(data).collect();
        self.namespace.kubectl(&["delete", "storagecluster", CLUSTER])?;
        self.pods_are_gone().await?;
        let claims = self.namespace.names("persistentvolumeclaim", "sherd.dev/cluster=demo")?;
        if claims.len() != 4 {
            return Err(format!("{claims:?} are left").into());
        }
        self.namespace.apply(&std::fs::read_to_string(root().join("deploy/examples/minimal.yaml"))?)?;
        self.ready(READY).await?;
        self.settled().await?;
        let after: Vec<_> = secrets.iter().map(data).collect();
        if before != after || before.contains(&None) {
            return Err("CA, credentials or master key are others".into());
        }
        self.kept_object_is_there().await
    }

    pub(crate) async fn takes_withdrawn_rights_away(&mut self) -> CaseResult {
        let withdrawal = withdrawal::Withdrawal::new(&self.namespace, &self.endpoint)?;
        let by_lease = withdrawal.by_lease().await?;
        let by_finalizer = withdrawal.by_finalizer().await?;
        let adopt = async || {
            self.pods_are_gone().await?;
            self.namespace.apply(&std::fs::read_to_string(root().join("deploy/examples/minimal.yaml"))?)?;
            self.ready(READY).await?;
            Ok(String::new())
        };
        let by_cluster = withdrawal.by_cluster(adopt).await?;
        Ok(format!("by a Lease {by_lease}, a finalizer {by_finalizer}, a cluster {by_cluster}"))
    }

    async fn pods_are_gone(&self) -> Result<Duration, String> {
        let look = || {
            let pods = self.namespace.names("pod", PODS).map_err(|error| error.to_string())?;
            if pods.is_empty() { Ok(()) } else { Err(format!("{pods:?}")) }
        };
        wait_for("pods are gone", READY, look).await
    }

    pub(crate) async fn names_what_lost_claims_cost(&mut self) -> CaseResult {
        let note = claims::lose_three_of_four(&self.namespace).await?;
        self.settled().await?;
        self.kept_object_is_there().await?;
        Ok(note)
    }

    pub(crate) async fn leaves_data_and_definition_when_the_chart_goes(&mut self) -> CaseResult {
        run("helm", &["uninstall", "sherd", "--namespace", &self.namespace.name, "--wait"])?;
        run("kubectl", &["get", "customresourcedefinition", "storageclusters.sherd.dev"])?;
        let pods = self.namespace.names("pod", PODS)?;
        if pods.len() != 4 {
            return Err(format!("pods that are left: {pods:?}").into());
        }
        self.kept_object_is_there().await
    }
}

/// Lets the API server's proxy reach the nodes' metrics: it comes from that server's host, and not from a
/// labelled pod.
pub(crate) fn opens_admin_ports(
    namespace: &Namespace,
    cluster: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let open = r#"{"spec": {"networkPolicy": {"adminCidrs": ["0.0.0.0/0", "::/0"]}}}"#;
    namespace.kubectl(&["patch", "storagecluster", cluster, "--type=merge", "--patch", open])?;
    Ok(())
}

pub(crate) fn own_chart() -> String {
    root().join("charts/sherd").display().to_string()
}

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
