//! Judgements as a table: what Kubernetes and the nodes say decides the conditions.

#![expect(clippy::needless_pass_by_value, reason = "documents are written where they are passed")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sherd_core::id::ClusterId;
use sherd_operator::api::{ClusterStatus, ConditionType, Reason, StorageCluster};
use sherd_operator::reconcile::NodeAnswers;
use sherd_operator::reconcile::build::live_digest;
use sherd_operator::reconcile::image::ImageName;
use sherd_operator::reconcile::observe::ObservedCluster;
use sherd_operator::reconcile::plan::{Blockage, BlockedPart};
use sherd_operator::reconcile::rotate::PlannedRotation;
use sherd_operator::reconcile::status::{Evidence, Outcome, judge};
use sherd_operator::rotation::{AuthorityRecord, RotationStep};
use sherd_proto::v1::{
    ConfigStatus, Formation, NodeStatus, SetStatus, StatusReply, VolumeReport, VolumeState,
};
use sherd_trust::Authority;

const PODS: [&str; 4] = ["demo-pool-0-0", "demo-pool-0-1", "demo-pool-0-2", "demo-pool-0-3"];

fn cluster() -> StorageCluster {
    let document = json!({
        "apiVersion": "sherd.dev/v1alpha1",
        "kind": "StorageCluster",
        "metadata": {"name": "demo", "namespace": "storage", "generation": 3},
        "spec": {"pools": [{
            "name": "pool-0",
            "nodes": 4,
            "volumeClaimTemplate": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
        }]},
    });
    serde_json::from_value(document).expect("of the right form")
}

fn pod(name: &str, status: Value) -> k8s_openapi::api::core::v1::Pod {
    let labels = json!({"controller-revision-hash": "new"});
    let document = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "node", "image": "sherd-node:1"}]},
        "status": status,
    });
    serde_json::from_value(document).expect("a pod")
}

fn ready(name: &str) -> k8s_openapi::api::core::v1::Pod {
    pod(name, json!({"conditions": [{"type": "Ready", "status": "True"}]}))
}

fn container(state: Value, last: Value) -> Value {
    json!({"containerStatuses": [{
        "name": "node", "image": "sherd-node:1", "imageID": "", "ready": false, "restartCount": 1,
        "state": state, "lastState": last,
    }]})
}

fn pods(pods: Vec<k8s_openapi::api::core::v1::Pod>) -> ObservedCluster {
    ObservedCluster { pods, ..ObservedCluster::default() }
}

fn all_ready() -> ObservedCluster {
    pods(PODS.map(ready).to_vec())
}

/// A formed cluster of one set of four in which all is well.
fn reply() -> StatusReply {
    let volume = |node: &str| VolumeReport {
        node: node.to_owned(),
        path: "/data/v1".to_owned(),
        state: VolumeState::Online.into(),
        healed: true,
        ..VolumeReport::default()
    };
    let node = |name: &str| NodeStatus {
        name: name.to_owned(),
        up: true,
        version: "0.1.0".to_owned(),
        ..NodeStatus::default()
    };
    StatusReply {
        formation: Some(Formation { formed: true, ..Formation::default() }),
        nodes: PODS.map(node).to_vec(),
        volumes: PODS.map(volume).to_vec(),
        sets: vec![SetStatus {
            volumes: 4,
            accept: 3,
            prepare: 2,
            voting: 4,
            healed: 4,
            takes_shards: true,
            ..SetStatus::default()
        }],
        ..StatusReply::default()
    }
}

fn answers(reply: &StatusReply) -> NodeAnswers {
    PODS.iter().map(|pod| ((*pod).to_owned(), Ok(reply.clone()))).collect()
}

fn authority(cluster: [u8; 16]) -> AuthorityRecord {
    let made = Authority::init(ClusterId(cluster), 1_800_000_000_000).expect("made");
    AuthorityRecord::first(&made, None)
}

/// No replacement is under way.
fn rest(record: &AuthorityRecord) -> PlannedRotation {
    PlannedRotation { step: RotationStep::Rest(None), named_key: record.key() }
}

/// Everything was applied, at the epoch.
fn evidence<'a>(
    cluster: &'a StorageCluster,
    observed: &'a ObservedCluster,
    answers: &'a NodeAnswers,
) -> Evidence<'a> {
    Evidence {
        cluster,
        outcome: Outcome::Applied,
        rollout: None,
        remarks: &[],
        observed,
        growth: None,
        answers,
        orders: &[],
        authority: None,
        rotation: None,
        first_expiry_s: None,
        credentials_proofs: &[],
        image: Some(ImageName::tagged("sherd-node", "1")),
        now: Timestamp::UNIX_EPOCH,
    }
}

fn judged(outcome: Outcome, observed: &ObservedCluster, answers: &NodeAnswers) -> ClusterStatus {
    judge(&Evidence { outcome, ..evidence(&cluster(), observed, answers) })
}

#[track_caller]
fn says(status: &ClusterStatus, condition: ConditionType, value: &str, reason: Reason, words: &str) {
    let found = status.conditions.iter().find(|found| found.type_ == condition.as_str()).expect("reported");
    let expected = (value, reason.as_str());
    assert_eq!((found.status.as_str(), found.reason.as_str()), expected, "{condition:?}: {}", found.message);
    assert!(found.message.contains(words), "{condition:?}: {}", found.message);
}

#[test]
fn a_cluster_in_which_all_is_well_is_ready() {
    let status = judged(Outcome::Applied, &all_ready(), &answers(&reply()));
    says(&status, ConditionType::Ready, "True", Reason::Serving, "4 of 4 nodes");
    says(&status, ConditionType::PoolsReady, "True", Reason::AsAsked, "");
    says(&status, ConditionType::Progressing, "False", Reason::AsAsked, "");
    says(&status, ConditionType::Degraded, "False", Reason::Healed, "");
    says(&status, ConditionType::UpgradeBlocked, "False", Reason::NotNeeded, "");
    assert_eq!(status.conditions.len(), ConditionType::ALL.len());
    assert_eq!(status.observed_generation, Some(3));
    assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(3)));
    assert_eq!(
        (status.nodes_ready.as_deref(), status.volumes_online.as_deref(), status.version.as_deref()),
        (Some("4/4"), Some("4/4"), Some("0.1.0"))
    );
    assert_eq!(status.endpoint.as_deref(), Some("http://demo-s3.storage.svc:9000"));
}

#[test]
fn at_first_sight_it_forms_and_names_the_pods() {
    let status = judged(Outcome::Applied, &ObservedCluster::default(), &NodeAnswers::new());
    says(&status, ConditionType::Ready, "False", Reason::Forming, "demo-pool-0-0, demo-pool-0-1");
    says(&status, ConditionType::Degraded, "Unknown", Reason::Waiting, "");
    says(&status, ConditionType::Progressing, "True", Reason::Forming, "demo-pool-0-3");
}

#[test]
fn while_it_forms_the_nodes_say_whom_they_wait_for() {
    let mut forming = reply();
    forming.formation = Some(Formation {
        formed: false,
        waiting_for: vec![PODS[2].to_owned()],
        reason: "no answer".to_owned(),
        formed_before: false,
    });
    let status = judged(Outcome::Applied, &ObservedCluster::default(), &answers(&forming));
    says(
        &status,
        ConditionType::Ready,
        "False",
        Reason::Forming,
        "waiting for pods demo-pool-0-2: no answer",
    );
}

#[test]
fn a_set_without_its_quorum_is_not_ready() {
    let mut short = reply();
    short.sets[0].voting = 2;
    let mut cluster = cluster();
    cluster.status = Some(judged(Outcome::Applied, &all_ready(), &answers(&reply())));
    let (observed, short) = (pods(vec![ready(PODS[0])]), answers(&short));
    let status = judge(&evidence(&cluster, &observed, &short));
    says(&status, ConditionType::Ready, "False", Reason::QuorumLost, "demo-pool-0-1");
    let mut full = reply();
    full.sets[0].takes_shards = false;
    let status = judged(Outcome::Applied, &all_ready(), &answers(&full));
    says(&status, ConditionType::Ready, "False", Reason::QuorumLost, "no writes: 0");
}

/// A node that is cut off from the others sees no quorum; the others decide.
#[test]
fn the_view_of_a_node_that_is_cut_off_does_not_count() {
    let mut cut_off = reply();
    cut_off.sets[0].voting = 1;
    cut_off.nodes.iter_mut().skip(1).for_each(|node| node.up = false);
    let mut answers = answers(&reply());
    answers.insert(PODS[0].to_owned(), Ok(cut_off));
    let status = judged(Outcome::Applied, &all_ready(), &answers);
    says(&status, ConditionType::Ready, "True", Reason::Serving, "");
}

#[test]
fn what_is_missing_is_named_as_degraded() {
    let degraded = |change: fn(&mut StatusReply), reason, words: &str| {
        let mut reply = reply();
        change(&mut reply);
        let status = judged(Outcome::Applied, &all_ready(), &answers(&reply));
        says(&status, ConditionType::Degraded, "True", reason, words);
        says(&status, ConditionType::Ready, "True", Reason::Serving, "");
    };
    degraded(|reply| reply.nodes[2].up = false, Reason::NodeDown, PODS[2]);
    degraded(
        |reply| reply.volumes[1].state = VolumeState::Failed.into(),
        Reason::VolumeDown,
        "demo-pool-0-1 /data/v1 (failed)",
    );
    degraded(|reply| reply.volumes[3].healed = false, Reason::Healing, "1 volumes");
    degraded(
        |reply| reply.problems.push("credentials differ".to_owned()),
        Reason::NodeProblem,
        "credentials differ",
    );
    let mut silent = answers(&reply());
    silent.insert(PODS[3].to_owned(), Err("connection refused".to_owned()));
    let status = judged(Outcome::Applied, &all_ready(), &silent);
    says(&status, ConditionType::Degraded, "True", Reason::NodeDown, PODS[3]);
}

/// Volumes of a new cluster open one after another. One that was whole, or should be by now, has a fault.
#[test]
fn parts_that_come_up_for_the_first_time_are_no_fault() {
    let (observed, mut reply) = (all_ready(), reply());
    reply.volumes[1].state = VolumeState::Opening.into();
    let answers = answers(&reply);
    let judged = |made: &str, last: Option<Reason>| {
        let mut cluster = cluster();
        let made: Timestamp = made.parse().expect("a time");
        cluster.metadata.creation_timestamp = Some(Time(made));
        let conditions = last.into_iter().map(|reason| Condition {
            type_: ConditionType::Degraded.as_str().to_owned(),
            status: String::new(),
            reason: reason.as_str().to_owned(),
            message: String::new(),
            last_transition_time: Time(made),
            observed_generation: None,
        });
        cluster.status = Some(ClusterStatus { conditions: conditions.collect(), ..ClusterStatus::default() });
        judge(&evidence(&cluster, &observed, &answers))
    };
    let (young, old) = ("1969-12-31T23:50:01Z", "1969-12-31T23:50:00Z");
    for last in [None, Some(Reason::Waiting), Some(Reason::Forming)] {
        let status = judged(young, last);
        says(&status, ConditionType::Degraded, "True", Reason::Forming, "demo-pool-0-1 /data/v1 (opening)");
        says(&judged(old, last), ConditionType::Degraded, "True", Reason::VolumeDown, "");
    }
    for last in [Reason::Healed, Reason::Healing, Reason::NodesSilent, Reason::NotObserved] {
        says(&judged(young, Some(last)), ConditionType::Degraded, "True", Reason::VolumeDown, "");
    }
}

#[test]
fn pods_that_do_not_start_say_why() {
    let cause = |status: Value, reason, words: &str| {
        let judged = judged(Outcome::Applied, &pods(vec![pod(PODS[0], status)]), &NodeAnswers::new());
        says(&judged, ConditionType::PoolsReady, "False", reason, words);
        says(&judged, ConditionType::Ready, "False", Reason::Forming, words);
    };
    let pulling = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
    cause(container(pulling, json!({})), Reason::ImagePullFailed, "sherd-node:1");
    let ended = json!({"terminated": {"exitCode": 2, "message": "first\nparity: out of range\n"}});
    let crashing = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
    cause(container(crashing, ended), Reason::ContainerFailing, "exit code 2: parity: out of range");
    let unconfigured =
        json!({"waiting": {"reason": "CreateContainerConfigError", "message": "secret mine not found"}});
    cause(container(unconfigured, json!({})), Reason::ContainerFailing, "secret mine not found");
    let unschedulable = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
    }]});
    let why = "demo-pool-0-0: 0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims";
    cause(unschedulable, Reason::Unschedulable, why);
}

#[test]
fn a_container_that_runs_again_is_no_trouble() {
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let ended = json!({"terminated": {"exitCode": 1, "message": "once"}});
    let observed = pods(vec![pod(PODS[0], container(running, ended))]);
    let status = judged(Outcome::Applied, &observed, &NodeAnswers::new());
    says(&status, ConditionType::PoolsReady, "False", Reason::PodsNotReady, PODS[0]);
}

#[test]
fn a_storage_class_that_is_missing_is_named() {
    let observed = ObservedCluster { storage_class_missing: true, ..ObservedCluster::default() };
    let status = judged(Outcome::Applied, &observed, &NodeAnswers::new());
    says(&status, ConditionType::PoolsReady, "False", Reason::StorageClassMissing, "StorageClass fast");
}

#[test]
fn what_a_person_must_mend_is_at_its_condition() {
    let nothing = ObservedCluster::default();
    let invalid = Outcome::Invalid(vec!["parity".to_owned()]);
    let status = judged(invalid, &nothing, &NodeAnswers::new());
    says(&status, ConditionType::SpecValid, "False", Reason::SpecInvalid, "parity");
    says(&status, ConditionType::Ready, "False", Reason::SpecInvalid, "parity");
    says(&status, ConditionType::CredentialsReady, "Unknown", Reason::Waiting, "");

    let blockage =
        |part, reason| Outcome::Blocked(Blockage { part, reason, message: "Secret mine".to_owned() });
    let missing = blockage(BlockedPart::Credentials, Reason::SecretMissing);
    let status = judged(missing, &nothing, &NodeAnswers::new());
    says(&status, ConditionType::CredentialsReady, "False", Reason::SecretMissing, "mine");
    says(&status, ConditionType::Ready, "False", Reason::SecretMissing, "mine");

    let gone = blockage(BlockedPart::Certificates, Reason::AuthorityMissing);
    let status = judged(gone, &all_ready(), &answers(&reply()));
    says(&status, ConditionType::CertificatesReady, "False", Reason::AuthorityMissing, "mine");
    says(&status, ConditionType::Ready, "True", Reason::Serving, "");

    let refused = Outcome::Rejected("apply StatefulSet demo-pool-0: forbidden".to_owned());
    let status = judged(refused, &nothing, &NodeAnswers::new());
    says(&status, ConditionType::Progressing, "False", Reason::ApplyRejected, "forbidden");
    let words = "demo-pool-0-3: apply StatefulSet demo-pool-0: forbidden";
    says(&status, ConditionType::Ready, "False", Reason::Forming, words);
}

#[test]
fn pods_of_an_older_template_are_named() {
    let set = json!({"metadata": {"generation": 2}, "spec": {"selector": {}, "serviceName": "", "template": {}},
        "status": {"replicas": 4, "observedGeneration": 2, "updateRevision": "newer"}});
    let stateful_set = Some(serde_json::from_value(set).expect("a StatefulSet"));
    let observed = ObservedCluster { stateful_set, ..all_ready() };
    let status = judged(Outcome::Applied, &observed, &answers(&reply()));
    says(&status, ConditionType::UpgradeBlocked, "True", Reason::UpdatePending, "demo-pool-0-0");
    says(&status, ConditionType::Ready, "True", Reason::Serving, "");
}

/// A person who replaces them sees when clients may go over.
#[test]
fn nodes_that_do_not_accept_the_root_credentials_yet_are_named() {
    let (cluster, observed) = (cluster(), all_ready());
    let [former, next] = [[1; 32], [2; 32]];
    let accepts = |pairs: &[[u8; 32]]| StatusReply {
        credentials_proofs: pairs.iter().map(|pair| pair.to_vec().into()).collect(),
        ..reply()
    };
    let judged = |answers: &NodeAnswers| {
        let credentials_proofs = &[next, former];
        judge(&Evidence { credentials_proofs, ..evidence(&cluster, &observed, answers) })
    };
    let mut answers = answers(&accepts(&[next, former]));
    says(&judged(&answers), ConditionType::CredentialsReady, "True", Reason::Generated, "demo");
    for pairs in [&[former][..], &[former, next], &[next]] {
        answers.insert(PODS[1].to_owned(), Ok(accepts(pairs)));
        let reason = Reason::LoadingCredentials;
        says(&judged(&answers), ConditionType::CredentialsReady, "True", reason, PODS[1]);
    }
    answers.insert(PODS[1].to_owned(), Err("silent".to_owned()));
    says(&judged(&answers), ConditionType::CredentialsReady, "True", Reason::Generated, "demo");
}

#[test]
fn the_time_of_a_condition_is_that_of_its_last_change() {
    let mut cluster = cluster();
    let [ca, other] = [[0x6a; 16], [0x7b; 16]].map(authority);
    let (observed, well) = (all_ready(), answers(&reply()));
    let rest = rest(&ca);
    let accepted = evidence(&cluster, &observed, &well);
    let first = Evidence { authority: Some(&ca), rotation: Some(&rest), ..accepted };
    cluster.status = Some(judge(&first));
    let later = Timestamp::from_second(1_000).expect("a time");
    let mut degraded = reply();
    degraded.nodes[0].up = false;
    let degraded = answers(&degraded);
    let second = judge(&Evidence {
        authority: Some(&other),
        image: None,
        now: later,
        ..evidence(&cluster, &observed, &degraded)
    });
    let since = |condition: ConditionType| {
        let found = second.conditions.iter().find(|found| found.type_ == condition.as_str());
        found.expect("reported").last_transition_time.0
    };
    assert_eq!(since(ConditionType::Ready), Timestamp::UNIX_EPOCH);
    assert_eq!(since(ConditionType::Degraded), later);
    assert_eq!(second.image.as_deref(), Some("sherd-node:1"), "what was recorded stays");
    assert_eq!(second.cluster_id, Some("6a".repeat(16)), "whatever CA is in the Secret by then");
    assert_eq!(second.authority_key, ca.key());
}

/// A tag that was mistyped runs nowhere, and must not be what a reverted specification means.
#[test]
fn an_image_is_recorded_once_a_pod_serves_with_it() {
    let (mut cluster, well) = (cluster(), answers(&reply()));
    let recorded = |status: &ClusterStatus| status.recorded_image.clone().map(|image| image.tag);
    let waiting = pods(vec![pod(PODS[0], json!({}))]);
    let first = judge(&evidence(&cluster, &waiting, &well));
    assert_eq!((first.image.as_deref(), recorded(&first)), (None, None));
    let all = all_ready();
    let served = judge(&evidence(&cluster, &all, &well));
    assert_eq!(served.image.as_deref(), Some("sherd-node:1"));
    assert_eq!(recorded(&served), Some(Some("1".to_owned())));
    cluster.status = Some(served);
    let mistyped = Some(ImageName::tagged("sherd-node", "typo"));
    let mistyped = judge(&Evidence { image: mistyped, ..evidence(&cluster, &all, &well) });
    assert_eq!(mistyped.image.as_deref(), Some("sherd-node:1"));
}

/// People who are called would look for dead pods.
#[test]
fn volumes_without_room_are_told_from_volumes_that_are_gone() {
    let mut full = reply();
    full.sets[0].takes_shards = false;
    for volume in &mut full.volumes {
        volume.state = VolumeState::Full.into();
    }
    let status = judged(Outcome::Applied, &all_ready(), &answers(&full));
    says(&status, ConditionType::Ready, "False", Reason::Full, "demo-pool-0-1 /data/v1 (full)");
    says(&status, ConditionType::Degraded, "True", Reason::Full, "demo-pool-0-1");
    full.sets[0].voting = 1;
    let status = judged(Outcome::Applied, &all_ready(), &answers(&full));
    says(&status, ConditionType::Ready, "False", Reason::QuorumLost, "");
}

#[test]
fn a_volume_with_little_room_left_is_named_before_it_is_full() {
    let mut near = reply();
    for volume in &mut near.volumes {
        (volume.total_bytes, volume.free_bytes) = (1_000_000, 200_000);
    }
    let status = judged(Outcome::Applied, &all_ready(), &answers(&near));
    says(&status, ConditionType::Ready, "True", Reason::Serving, "");
    near.volumes[1].free_bytes = 90_000;
    let status = judged(Outcome::Applied, &all_ready(), &answers(&near));
    says(&status, ConditionType::Ready, "True", Reason::NearlyFull, "demo-pool-0-1 /data/v1 (9 % free)");
    says(&status, ConditionType::Degraded, "False", Reason::Healed, "");
}

/// Nodes that come up for the first time have lost nothing.
#[test]
fn a_quorum_that_was_never_there_is_not_lost() {
    let mut cluster = cluster();
    let mut coming = reply();
    coming.sets.clear();
    let (observed, coming) = (pods(vec![ready(PODS[0])]), answers(&coming));
    let first = judge(&evidence(&cluster, &observed, &coming));
    says(&first, ConditionType::Ready, "False", Reason::Forming, "demo-pool-0-1");
    cluster.status = Some(first);
    let second = judge(&evidence(&cluster, &observed, &coming));
    says(&second, ConditionType::Ready, "False", Reason::Forming, "demo-pool-0-1");
    let all = all_ready();
    let stuck = judge(&evidence(&cluster, &all, &coming));
    says(&stuck, ConditionType::Ready, "False", Reason::QuorumLost, "none");
    cluster.status = Some(judged(Outcome::Applied, &all_ready(), &answers(&reply())));
    let lost = judge(&evidence(&cluster, &observed, &coming));
    says(&lost, ConditionType::Ready, "False", Reason::QuorumLost, "demo-pool-0-1");
}

/// A CA that was refused must not become the one that the right one is compared with.
#[test]
fn of_an_authority_that_was_refused_nothing_is_recorded() {
    let (cluster, observed, silent) = (cluster(), all_ready(), NodeAnswers::new());
    let refused = Blockage {
        part: BlockedPart::Certificates,
        reason: Reason::AuthorityMissing,
        message: "of another cluster".to_owned(),
    };
    let ca = authority([0x6a; 16]);
    let status = judge(&Evidence {
        outcome: Outcome::Blocked(refused),
        authority: Some(&ca),
        ..evidence(&cluster, &observed, &silent)
    });
    assert_eq!((status.cluster_id, status.authority_key), (None, None));
}

#[test]
fn a_formed_cluster_of_which_no_node_answers_is_not_forming() {
    let mut cluster = cluster();
    cluster.status = Some(judged(Outcome::Applied, &all_ready(), &answers(&reply())));
    let (observed, silent) = (ObservedCluster::default(), NodeAnswers::new());
    let status = judge(&evidence(&cluster, &observed, &silent));
    says(&status, ConditionType::Ready, "False", Reason::NodesSilent, "demo-pool-0-0");
    says(&status, ConditionType::Degraded, "True", Reason::NodesSilent, "");
    says(&status, ConditionType::Progressing, "True", Reason::PodsNotReady, "");
    // Pods that pass their probe: the operator may be the one that is cut off.
    let well = all_ready();
    let status = judge(&evidence(&cluster, &well, &silent));
    says(&status, ConditionType::Ready, "Unknown", Reason::NodesSilent, "no node answers the operator");
    says(&status, ConditionType::Degraded, "Unknown", Reason::NodesSilent, "");
    let status = judge(&Evidence {
        outcome: Outcome::Blocked(Blockage {
            part: BlockedPart::Certificates,
            reason: Reason::AuthorityChanged,
            message: "another key".to_owned(),
        }),
        ..evidence(&cluster, &observed, &silent)
    });
    says(&status, ConditionType::Ready, "Unknown", Reason::AuthorityChanged, "another key");
    says(&status, ConditionType::CertificatesReady, "False", Reason::AuthorityChanged, "");
    says(&status, ConditionType::Degraded, "Unknown", Reason::Waiting, "");
}

#[test]
fn names_that_are_taken_leave_running_nodes_ready() {
    let blockage = Blockage {
        part: BlockedPart::Names,
        reason: Reason::NameTaken,
        message: "ConfigMap demo-config".to_owned(),
    };
    let taken = Outcome::Blocked(blockage);
    let status = judged(taken.clone(), &all_ready(), &answers(&reply()));
    says(&status, ConditionType::Ready, "True", Reason::Serving, "");
    says(&status, ConditionType::Progressing, "False", Reason::NameTaken, "demo-config");
    let status = judged(taken, &ObservedCluster::default(), &NodeAnswers::new());
    says(&status, ConditionType::Ready, "False", Reason::NameTaken, "demo-config");
    says(&status, ConditionType::CertificatesReady, "Unknown", Reason::Waiting, "");
}

/// While a cluster is paused or its specification invalid, no certificate is renewed; and none outlives the
/// CA.
#[test]
fn certificates_that_end_soon_are_reported() {
    let day = 24 * 3_600;
    let cluster = cluster();
    let (mut observed, well) = (all_ready(), answers(&reply()));
    observed.authority = Some(k8s_openapi::api::core::v1::Secret::default());
    for (outcome, days, reason) in [
        (Outcome::PausedBySpec, 14, Reason::CertificatesExpiring),
        (Outcome::Invalid(vec!["contradictory".to_owned()]), 14, Reason::CertificatesExpiring),
        (Outcome::PausedBySpec, 16, Reason::Issued),
    ] {
        let expected = if days < 15 { ("False", "nothing") } else { ("True", "demo-ca") };
        let first_expiry_s = Some(days * day);
        let status = judge(&Evidence { outcome, first_expiry_s, ..evidence(&cluster, &observed, &well) });
        says(&status, ConditionType::CertificatesReady, expected.0, reason, expected.1);
    }
    let ca = authority([0x6a; 16]);
    let now = Timestamp::from_second(ca.not_after_s().expect("read") - day).expect("a time");
    let first_expiry_s = ca.not_after_s();
    let last = Evidence { authority: Some(&ca), first_expiry_s, now, ..evidence(&cluster, &observed, &well) };
    let status = judge(&last);
    says(&status, ConditionType::CertificatesReady, "False", Reason::CertificatesExpiring, "the CA");
}

/// A node runs with the settings once it reports the digest of their file.
#[test]
fn settings_are_loaded_once_each_node_reports_their_file() {
    let template =
        json!({"spec": {"containers": [{"name": "node", "env": [{"name": "SHERD_LIVE_CONFIG"}]}]}});
    let set = json!({"spec": {"selector": {}, "serviceName": "", "template": template}});
    let set = serde_json::from_value(set).expect("a StatefulSet");
    let observed = ObservedCluster { stateful_set: Some(set), ..all_ready() };
    let digest = live_digest(&cluster().spec.config, None).to_vec();
    let running = |live: &[u8], refused: &str| StatusReply {
        config: Some(ConfigStatus {
            generation: 2,
            live_sha256: live.to_vec().into(),
            refused: refused.to_owned(),
        }),
        ..reply()
    };
    let mut nodes = answers(&running(&digest, ""));
    let loaded = |nodes: &NodeAnswers, value: &str, reason, words: &str| {
        let status = judged(Outcome::Applied, &observed, nodes);
        says(&status, ConditionType::SettingsLoaded, value, reason, words);
    };
    loaded(&nodes, "True", Reason::AsAsked, "");
    nodes.insert(PODS[1].to_owned(), Err("it is not there".to_owned()));
    loaded(&nodes, "Unknown", Reason::Forming, PODS[1]);
    let mut formed = cluster();
    formed.status = Some(ClusterStatus { version: Some("0.1.0".to_owned()), ..ClusterStatus::default() });
    let silent = judge(&evidence(&formed, &observed, &nodes));
    says(&silent, ConditionType::SettingsLoaded, "Unknown", Reason::NodesSilent, PODS[1]);
    nodes.insert(PODS[2].to_owned(), Ok(running(&[7; 32], "")));
    loaded(&nodes, "False", Reason::LoadingSettings, PODS[2]);
    loaded(&nodes, "False", Reason::LoadingSettings, "the kubelet brings them");
    let invalid = judged(Outcome::Invalid(vec!["scrubPeriod".to_owned()]), &observed, &nodes);
    let words = "the operator changes nothing now";
    says(&invalid, ConditionType::SettingsLoaded, "False", Reason::LoadingSettings, words);
    nodes.insert(PODS[3].to_owned(), Ok(running(&[7; 32], "live.toml: no such\nkey")));
    loaded(&nodes, "False", Reason::SettingsRefused, "demo-pool-0-3: live.toml: no such key");
    loaded(&NodeAnswers::new(), "Unknown", Reason::Waiting, "");
}
