//! The next step of a replacement of the CA, and why it waits.

use sherd_proto::v1::LoadedTrust;

use super::record::{AcceptedAuthority, AuthorityRecord, KeyedAuthority, RotationState, read_all};
use crate::limits;
use crate::rollout::{NodeAnswers, listed};

/// The facts that a step is decided by.
#[derive(Debug, Clone, Copy)]
pub struct RotationInput<'a> {
    /// The record that the cluster runs with.
    pub accepted: &'a AcceptedAuthority,
    /// Whether the copy that is there holds the same record. No step is taken before, so that the copy is
    /// never two steps behind.
    pub is_copied: bool,
    /// The text of the annotation that asks for another CA.
    pub request: Option<&'a str>,
    /// Every pod of the specification.
    pub pods: &'a [String],
    /// The nodes' answers.
    pub answers: &'a NodeAnswers,
    /// Seconds since the Unix epoch.
    pub now_s: i64,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotationStep {
    /// No replacement is under way, and none is due. The text says what is left of the last one.
    Rest(Option<String>),
    /// The replacement waits, and why.
    Wait(String),
    /// A CA is to be made, and recorded as the next one.
    MakeNext(KeyedAuthority),
    /// This record takes the place of the one that is there.
    Record(AuthorityRecord),
}

/// Decides the next step.
pub fn next_step(input: &RotationInput<'_>) -> RotationStep {
    let AcceptedAuthority { record, is_known } = input.accepted;
    let moved = |state| RotationStep::Record(AuthorityRecord { state, ..record.clone() });
    let doubt = match &record.state {
        RotationState::Steady { current } => {
            let asked = input.request.filter(|request| !request.is_empty());
            let is_asked = asked.is_some() && asked != record.request.as_deref();
            let renewed_s = i64::try_from(limits::AUTHORITY_RENEWED.as_secs()).unwrap_or(i64::MAX);
            let is_due =
                record.not_after_s().is_some_and(|ends| ends < input.now_s.saturating_add(renewed_s));
            if is_asked || is_due {
                return RotationStep::MakeNext(current.clone());
            }
            return RotationStep::Rest(distrusting(input, record));
        }
        RotationState::Introducing { .. } | RotationState::Lost { .. } => lacking(input, record),
        RotationState::Switched { .. } if !*is_known => {
            let about = || "the status is about to name the new CA".to_owned();
            Some(lacking(input, record).unwrap_or_else(about))
        }
        RotationState::Switched { .. } => unswitched(input, record),
    };
    if let Some(doubt) = doubt {
        return RotationStep::Wait(doubt);
    }
    if !input.is_copied {
        return RotationStep::Wait("the copy of the CA is about to be written".to_owned());
    }
    match &record.state {
        RotationState::Introducing { current: KeyedAuthority { certificate: previous, .. }, next }
        | RotationState::Lost { former: previous, next } => {
            moved(RotationState::Switched { current: next.clone(), previous: previous.clone() })
        }
        RotationState::Steady { current } | RotationState::Switched { current, .. } => {
            moved(RotationState::Steady { current: current.clone() })
        }
    }
}

/// The digest of the CA's key that the status is to name: that of a new one once every node trusts both. From
/// then on a record without the new CA is refused, and certificates are issued under it. `last` is the one
/// that the status names.
pub fn named_key(input: &RotationInput<'_>, last: Option<&str>) -> Option<String> {
    let AcceptedAuthority { record, is_known } = input.accepted;
    let last = last.map(str::to_owned);
    if *is_known {
        return last.or_else(|| record.key());
    }
    if lacking(input, record).is_some() { last } else { record.key() }
}

/// When the first certificate ends that a node has loaded, in seconds since the Unix epoch. One that was
/// issued again may be loaded later.
pub fn first_loaded_end_s(answers: &NodeAnswers) -> Option<i64> {
    let loaded = answers.values().flatten().filter_map(|reply| reply.trust.as_ref());
    let ends = loaded.map(|loaded| loaded.certificate_expires_s).filter(|ends| *ends > 0);
    ends.min().and_then(|ends| i64::try_from(ends).ok())
}

impl AuthorityRecord {
    /// The record with a CA that is to take the place of the current one.
    #[must_use]
    pub fn introducing(&self, current: KeyedAuthority, next: KeyedAuthority, request: Option<&str>) -> Self {
        Self {
            cluster: self.cluster,
            state: RotationState::Introducing { current, next },
            request: request.map(str::to_owned).or_else(|| self.request.clone()),
        }
    }
}

/// Names the nodes that do not trust all CAs of the record.
fn lacking(input: &RotationInput<'_>, record: &AuthorityRecord) -> Option<String> {
    let wanted = read_all(&record.bundle());
    let trusts_all = |loaded: &LoadedTrust| {
        wanted.iter().all(|one| loaded.trusted_cas.iter().any(|found| found[..] == one.fingerprint))
    };
    first_doubt(input, "nodes that do not trust the next CA yet", trusts_all)
}

/// Names the nodes that do not show a certificate of the current CA.
fn unswitched(input: &RotationInput<'_>, record: &AuthorityRecord) -> Option<String> {
    let wanted = read_all(record.current());
    let shows = |loaded: &LoadedTrust| wanted.iter().any(|one| loaded.certificate_ca[..] == one.fingerprint);
    first_doubt(input, "nodes that show a certificate of the former CA", shows)
}

/// Names the nodes that trust another CA than that of the record.
fn distrusting(input: &RotationInput<'_>, record: &AuthorityRecord) -> Option<String> {
    let wanted = read_all(&record.bundle());
    let trusts_no_other = |loaded: &LoadedTrust| {
        loaded.trusted_cas.iter().all(|found| wanted.iter().any(|one| found[..] == one.fingerprint))
    };
    let said = said(input);
    let nodes = said.iter().filter(|(_, loaded)| loaded.is_ok_and(|loaded| !trusts_no_other(loaded)));
    let nodes: Vec<&str> = nodes.map(|(pod, _)| *pod).collect();
    (!nodes.is_empty()).then(|| format!("nodes that trust the former CA, too: {}", listed(&nodes)))
}

/// Why a step cannot be taken: nodes that are silent, that do not say what they have loaded, or that have not
/// loaded what it needs.
fn first_doubt(
    input: &RotationInput<'_>,
    lack: &str,
    has_loaded: impl Fn(&LoadedTrust) -> bool,
) -> Option<String> {
    let said = said(input);
    let named = |judge: &dyn Fn(&Result<&LoadedTrust, Silence>) -> bool| -> Vec<&str> {
        said.iter().filter(|(_, loaded)| judge(loaded)).map(|(pod, _)| *pod).collect()
    };
    let causes = [
        ("nodes that do not answer", named(&|loaded| *loaded == Err(Silence::NoAnswer))),
        (
            "nodes of an older build, which do not say what they have loaded (give them this one's image)",
            named(&|loaded| *loaded == Err(Silence::OlderBuild)),
        ),
        (lack, named(&|loaded| loaded.is_ok_and(|loaded| !has_loaded(loaded)))),
    ];
    let (cause, nodes) = causes.into_iter().find(|(_, nodes)| !nodes.is_empty())?;
    Some(format!("{cause}: {}", listed(&nodes)))
}

/// Why nothing is known of the certificates that a node has loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    NoAnswer,
    OlderBuild,
}

/// The certificates that each pod's node says it has loaded.
fn said<'a>(input: &RotationInput<'a>) -> Vec<(&'a str, Result<&'a LoadedTrust, Silence>)> {
    let of = |pod: &'a String| {
        let answer = input.answers.get(pod).and_then(|answer| answer.as_ref().ok());
        let loaded = answer.ok_or(Silence::NoAnswer).and_then(|reply| {
            let loaded = reply.trust.as_ref().filter(|loaded| !loaded.trusted_cas.is_empty());
            loaded.ok_or(Silence::OlderBuild)
        });
        (pod.as_str(), loaded)
    };
    input.pods.iter().map(of).collect()
}
