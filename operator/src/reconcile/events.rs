//! Events of an object: one for each condition whose status or reason changed, and none while all stays
//! as it is. An event that cannot be published is logged and not retried: the status says the same.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder};

use super::apply::ChildChange;
use super::error::ReconcileError;
use super::rollout::EvictionResult;
use crate::api::{ConditionType, Reason, VolumeOrderKind, VolumeOrderRecord};
use crate::api_words::words;
use crate::lease::NAMESPACE_LEASE;
use crate::limits;

/// Publishes what changed between the last conditions and the next, for as long as
/// [`limits::EVENTS_TIME_MAX`]: the status is what is relied on, and it is written before.
pub(crate) async fn publish(
    recorder: &Recorder,
    reference: &ObjectReference,
    last: &[Condition],
    next: &[Condition],
    is_bad: fn(&Condition) -> bool,
) {
    let published = async {
        for condition in transitions(last, next) {
            let event = Event {
                type_: if is_bad(condition) { EventType::Warning } else { EventType::Normal },
                reason: condition.reason.clone(),
                note: Some(note(&format!("{}={}: {}", condition.type_, condition.status, condition.message))),
                action: condition.type_.clone(),
                secondary: None,
            };
            send(recorder, reference, &event).await;
        }
    };
    if tokio::time::timeout(limits::EVENTS_TIME_MAX, published).await.is_err() {
        tracing::warn!("publish events: no answer in time");
    }
}

/// Logs and publishes each child that was made, put back or changed.
pub(super) async fn publish_changes(
    recorder: &Recorder,
    reference: &ObjectReference,
    changes: &[(String, ChildChange)],
) {
    let published = async {
        for (child, change) in changes {
            let (reason, words) = match change {
                ChildChange::Created => ("ChildCreated", "was not there and is made"),
                ChildChange::PutBack => ("ChildPutBack", "was changed and is put back"),
                ChildChange::Changed => ("ChildChanged", "is changed to what is asked for"),
                ChildChange::NeverStarted => (
                    "PodReplaced",
                    "never started with its template, which is no longer asked for, and is made again",
                ),
                ChildChange::TemplateLost => (
                    "TemplateLost",
                    "gets the template that this operator builds, since the recorded one or its ConfigMap is gone",
                ),
                ChildChange::Orphaned => ("ChildReplaced", "cannot change and is made again; its pods stay"),
            };
            tracing::info!(
                cluster = reference.name,
                namespace = reference.namespace,
                child,
                reason,
                "{words}"
            );
            let event = Event {
                type_: EventType::Normal,
                reason: reason.to_owned(),
                note: Some(note(&format!("{child} {words}"))),
                action: "Apply".to_owned(),
                // Events that differ in nothing else are counted as one.
                secondary: child_reference(child, reference),
            };
            send(recorder, reference, &event).await;
        }
    };
    if tokio::time::timeout(limits::EVENTS_TIME_MAX, published).await.is_err() {
        tracing::warn!("publish events: no answer in time");
    }
}

fn child_reference(child: &str, cluster: &ObjectReference) -> Option<ObjectReference> {
    let (kind, name) = child.split_once(' ')?;
    Some(ObjectReference {
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        namespace: cluster.namespace.clone(),
        ..ObjectReference::default()
    })
}

/// Publishes what became of the eviction of a pod. One that a budget keeps is asked for again and again: the
/// recorder counts it.
pub(super) async fn publish_eviction(
    recorder: &Recorder,
    reference: &ObjectReference,
    step: &str,
    evicted: &Result<EvictionResult, ReconcileError>,
) {
    let (type_, reason, text) = match evicted {
        Ok(EvictionResult::Overtaken) => return,
        Ok(EvictionResult::Accepted) => (EventType::Normal, "PodEvicted", step.to_owned()),
        Ok(EvictionResult::Kept(words)) => (EventType::Normal, "EvictionKept", format!("{step}: {words}")),
        Ok(EvictionResult::Refused(words)) => {
            (EventType::Warning, "EvictionRefused", format!("{step}: {words}"))
        }
        Err(error) => (EventType::Warning, "EvictionRefused", error.to_string()),
    };
    let (cluster, namespace) = (&reference.name, &reference.namespace);
    tracing::info!(cluster, namespace, reason, "{text}");
    let event = Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note(&text)),
        action: "Evict".to_owned(),
        secondary: None,
    };
    send(recorder, reference, &event).await;
}

/// Publishes each order about a volume that was given or refused.
pub(super) async fn publish_orders(
    recorder: &Recorder,
    reference: &ObjectReference,
    orders: &[VolumeOrderRecord],
) {
    for VolumeOrderRecord { kind, order, accepted, message, time: _ } in orders {
        let words = match (kind, accepted) {
            (VolumeOrderKind::Vouch, true) => format!("{order}: its node lets the volume vote"),
            (VolumeOrderKind::Replace, true) => {
                format!("{order}: its node rebuilds the volume from the others")
            }
            (VolumeOrderKind::Vouch, false) => format!("vouch {order}: {message}"),
            (VolumeOrderKind::Replace, false) => format!("replace {order}: {message}"),
        };
        let (type_, reason) = match accepted {
            true => (EventType::Normal, "VolumeOrderGiven"),
            false => (EventType::Warning, "VolumeOrderRefused"),
        };
        let (cluster, namespace) = (&reference.name, &reference.namespace);
        tracing::info!(cluster, namespace, reason, "{words}");
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note(&words)),
            action: "Order".to_owned(),
            // Events that differ in nothing else are counted as one.
            secondary: child_reference(&format!("PersistentVolumeClaim {}", claim_of(order)), reference),
        };
        send(recorder, reference, &event).await;
    }
}

fn claim_of(order: &str) -> &str {
    order.split_once('=').map_or(order, |(claim, _)| claim)
}

/// Publishes that the API server dropped fields of a cluster's status.
pub(super) async fn publish_dropped(recorder: &Recorder, reference: &ObjectReference, fields: &[String]) {
    let text = format!(
        "the API server does not store {}: the definition of StorageClusters is of an older version; apply the definitions of the operator's version (helm upgrade of the chart that installs them)",
        fields.join(", ")
    );
    let (cluster, namespace) = (&reference.name, &reference.namespace);
    tracing::warn!(cluster, namespace, "{text}");
    let event = Event {
        type_: EventType::Warning,
        reason: "DefinitionOutdated".to_owned(),
        note: Some(note(&text)),
        action: "Report".to_owned(),
        secondary: None,
    };
    send(recorder, reference, &event).await;
}

/// Publishes that another installation of the operator works on this namespace.
pub(crate) async fn publish_foreign(
    recorder: &Recorder,
    reference: &ObjectReference,
    namespace: &str,
    other: &str,
) {
    let text = format!(
        "operator {other} works on namespace {namespace} (Lease {NAMESPACE_LEASE}): this one leaves its objects alone; uninstall one of the two or give them different watchNamespaces"
    );
    let event = Event {
        type_: EventType::Warning,
        reason: "AnotherOperator".to_owned(),
        note: Some(note(&text)),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    send(recorder, reference, &event).await;
}

/// Publishes that a user of a cluster has lost its right without its BucketUser's doing.
pub(crate) async fn publish_ended_user(recorder: &Recorder, cluster: &ObjectReference, text: &str) {
    let (name, namespace) = (&cluster.name, &cluster.namespace);
    tracing::warn!(cluster = name, namespace, "{text}");
    let event = Event {
        type_: EventType::Warning,
        reason: "UserEnded".to_owned(),
        note: Some(note(text)),
        action: "Sweep".to_owned(),
        secondary: None,
    };
    send(recorder, cluster, &event).await;
}

/// Publishes that the lease which says which operator manages the namespace could not be read. Another
/// installation may own the status, so it is not written.
pub(crate) async fn publish_unclaimed(recorder: &Recorder, reference: &ObjectReference, error: &str) {
    let event = Event {
        type_: EventType::Warning,
        reason: Reason::NotObserved.as_str().to_owned(),
        note: Some(note(error)),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    send(recorder, reference, &event).await;
}

async fn send(recorder: &Recorder, reference: &ObjectReference, event: &Event) {
    let published = recorder.publish(event, reference);
    match tokio::time::timeout(limits::EVENTS_TIME_MAX, published).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = words(&error), reason = event.reason, "publish an event"),
        Err(_) => tracing::warn!(reason = event.reason, "publish an event: no answer in time"),
    }
}

/// Cuts a text to what the API server takes as an event's note, which it counts in bytes.
pub(crate) fn note(text: &str) -> String {
    text[..text.floor_char_boundary(limits::EVENT_NOTE_BYTES_MAX)].to_owned()
}

/// The conditions whose status or reason changed. At first sight those that say nothing are left out.
pub(super) fn transitions<'a>(last: &[Condition], next: &'a [Condition]) -> Vec<&'a Condition> {
    let quiet = [Reason::NotNeeded, Reason::NotPaused, Reason::Waiting, Reason::AsAsked];
    let changed = |condition: &&Condition| {
        let last = last.iter().find(|last| last.type_ == condition.type_);
        match last {
            Some(last) => (&last.status, &last.reason) != (&condition.status, &condition.reason),
            None => !quiet.iter().any(|reason| reason.as_str() == condition.reason),
        }
    };
    next.iter().filter(changed).collect()
}

/// Whether a person should look at a cluster.
pub(super) fn is_bad(condition: &Condition) -> bool {
    let named = |types: &[ConditionType]| types.iter().any(|one| one.as_str() == condition.type_);
    let forms =
        condition.reason == Reason::Forming.as_str() || condition.reason == Reason::PodsNotReady.as_str();
    let warned = [Reason::NotRedundant, Reason::LimitTooSmall, Reason::StrayClaims];
    let not_redundant = warned.iter().any(|reason| reason.as_str() == condition.reason);
    let needs_person = [
        Reason::AuthorityChanged,
        Reason::AuthorityMissing,
        Reason::SecretMissing,
        Reason::SecretMalformed,
        Reason::SecretsDiffer,
        Reason::NameTaken,
        Reason::SettingsRefused,
        Reason::NotObserved,
        Reason::NodesSilent,
        Reason::NearlyFull,
        Reason::DataAtRisk,
        Reason::DataLost,
        Reason::GeometryDiffers,
        Reason::ResizeRefused,
        Reason::ResizeFailed,
    ];
    if needs_person.iter().any(|reason| reason.as_str() == condition.reason) {
        return true;
    }
    match condition.status.as_str() {
        "False" => {
            let good = [
                ConditionType::Ready,
                ConditionType::SpecValid,
                ConditionType::CredentialsReady,
                ConditionType::CertificatesReady,
                ConditionType::PoolsReady,
            ];
            let failed = [Reason::ApplyRejected, Reason::ApplyFailed];
            failed.iter().any(|reason| reason.as_str() == condition.reason) || (named(&good) && !forms)
        }
        // Healing needs no person; the loss before it had a warning of its own.
        "True" => {
            let passes = forms || condition.reason == Reason::Healing.as_str();
            not_redundant
                || !passes
                    && named(&[
                        ConditionType::Degraded,
                        ConditionType::UpgradeBlocked,
                        ConditionType::DeletionBlocked,
                    ])
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn condition(type_: &str, status: &str, reason: Reason) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.as_str().to_owned(),
            message: "words".to_owned(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    #[test]
    fn only_a_change_of_status_or_reason_is_an_event() {
        let forming = condition("Ready", "False", Reason::Forming);
        let serving = condition("Ready", "True", Reason::Serving);
        let mut reworded = forming.clone();
        reworded.message = "other words".to_owned();
        assert!(transitions(std::slice::from_ref(&forming), &[reworded]).is_empty());
        assert_eq!(transitions(std::slice::from_ref(&forming), std::slice::from_ref(&serving)).len(), 1);
        assert_eq!(transitions(&[], std::slice::from_ref(&forming)).len(), 1);
        assert!(transitions(&[], &[condition("Paused", "False", Reason::NotPaused)]).is_empty());
    }

    #[test]
    fn a_note_is_cut_by_bytes_between_characters() {
        assert_eq!(note("short"), "short");
        let long = format!("a{}", "ü".repeat(1_000));
        let cut = note(&long);
        assert_eq!(cut.len(), 1_023, "1,024 is in the middle of a character");
        assert!(long.starts_with(&cut));
    }

    #[test]
    fn a_warning_is_what_a_person_should_look_at() {
        for (condition, bad) in [
            (condition("Ready", "False", Reason::Forming), false),
            (condition("Ready", "False", Reason::QuorumLost), true),
            (condition("Ready", "True", Reason::Serving), false),
            (condition("SpecValid", "True", Reason::NotRedundant), true),
            (condition("Degraded", "True", Reason::NodeDown), true),
            (condition("Degraded", "False", Reason::Healed), false),
            (condition("Degraded", "True", Reason::Healing), false),
            (condition("Degraded", "True", Reason::Forming), false),
            (condition("Progressing", "False", Reason::ApplyRejected), true),
            (condition("Progressing", "False", Reason::ApplyFailed), true),
            (condition("Progressing", "False", Reason::NotObserved), true),
            (condition("Progressing", "False", Reason::NameTaken), true),
            (condition("Ready", "False", Reason::NodesSilent), true),
            (condition("Ready", "Unknown", Reason::AuthorityChanged), true),
            (condition("Progressing", "False", Reason::AuthorityMissing), true),
            (condition("Degraded", "Unknown", Reason::Waiting), false),
        ] {
            assert_eq!(
                is_bad(&condition),
                bad,
                "{} {} {}",
                condition.type_,
                condition.status,
                condition.reason
            );
        }
    }
}
