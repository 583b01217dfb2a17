//! How far the growth of one claim is, by what Kubernetes says of it. Plain functions over values.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::api::Pool;
use crate::reconcile::quantity::bytes;

const STORAGE: &str = "storage";

/// The size that a specification asks for.
#[derive(Debug, Clone)]
pub(crate) struct AskedSize {
    /// The size as it is written.
    pub(crate) quantity: Quantity,
    bytes: u128,
}

impl AskedSize {
    /// The size of a pool's claims; nothing where it cannot be read.
    pub(crate) fn of(pool: &Pool) -> Option<Self> {
        let quantity = pool.volume_claim_template.resources.requests.storage.clone();
        Some(Self { bytes: bytes(&quantity)?, quantity })
    }

    /// Whether a claim has the size: a PersistentVolume may be larger than its claim asks for.
    pub(super) fn is_had_by(&self, claim: &PersistentVolumeClaim) -> bool {
        is_bound(claim) && capacity(claim).and_then(bytes).unwrap_or(0) >= self.bytes
    }

    /// Whether a claim, or a template of claims, asks for the size.
    pub(super) fn is_asked_by(&self, claim: &PersistentVolumeClaim) -> bool {
        requested(claim).and_then(bytes) == Some(self.bytes)
    }

    /// The size of the next claim beside some that are there: the size itself, or the most that one of them
    /// asks for and will have. A claim that is not bound may ask for what no storage has, and does not count;
    /// one whose growth fails counts with what it has.
    pub(super) fn of_next_claim(&self, claims: &[PersistentVolumeClaim]) -> Quantity {
        let sizes = claims.iter().filter(|claim| is_bound(claim)).filter_map(|claim| match failure(claim) {
            Some(_) => asked_and_had(claim),
            None => requested(claim),
        });
        let larger = largest(sizes).filter(|size| bytes(size) > Some(self.bytes));
        larger.unwrap_or_else(|| self.quantity.clone())
    }
}

/// The change that a claim needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimChange {
    /// No change, or none that the claim can take.
    Keep,
    /// The claim asks for less than the specification, and has less.
    Grow,
    /// The claim asks for more, in vain, and has less.
    Lower,
}

/// How far the growth of a claim is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimStage {
    /// The claim has the size.
    Grown,
    /// The claim cannot be asked for the size, in words.
    Refused(String),
    /// The claim asks for less than the size.
    Unasked,
    /// The claim asks for less, and the API server did not judge the request, in words.
    Unanswered(String),
    /// The claim asks for less, and cannot be asked for more before it is bound.
    Unbound,
    /// The claim's disk does not have the size yet.
    AtResizer,
    /// The claim's disk has the size, and its filesystem does not.
    AtKubelet,
    /// The claim does not get what it asks for, in Kubernetes' words.
    Failed(String),
    /// The claim asks for more.
    Larger,
}

impl ClaimStage {
    /// The words of the API server or of Kubernetes; empty where a stage has none.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Refused(words) | Self::Failed(words) | Self::Unanswered(words) => words,
            _ => "",
        }
    }
}

/// Decides what is asked of a claim. One that is not bound takes no other size.
pub(crate) fn change(claim: &PersistentVolumeClaim, asked: &AskedSize) -> ClaimChange {
    let requested = requested(claim).and_then(bytes).filter(|_| is_bound(claim));
    let Some(requested) = requested else { return ClaimChange::Keep };
    match requested.cmp(&asked.bytes) {
        _ if asked.is_had_by(claim) => ClaimChange::Keep,
        Ordering::Less => ClaimChange::Grow,
        Ordering::Greater if failure(claim).is_some() => ClaimChange::Lower,
        Ordering::Equal | Ordering::Greater => ClaimChange::Keep,
    }
}

/// Judges how far the growth of a claim is.
pub(crate) fn stage(claim: &PersistentVolumeClaim, asked: &AskedSize) -> ClaimStage {
    let Some(requested) = requested(claim).and_then(bytes) else { return ClaimStage::Grown };
    let is_bound = is_bound(claim);
    if requested < asked.bytes {
        return match is_bound {
            true if asked.is_had_by(claim) => ClaimStage::Grown,
            true => ClaimStage::Unasked,
            false => ClaimStage::Unbound,
        };
    }
    if is_bound
        && capacity(claim).and_then(bytes).unwrap_or(0) < requested
        && let Some(words) = failure(claim)
    {
        return ClaimStage::Failed(words);
    }
    if requested > asked.bytes {
        return ClaimStage::Larger;
    }
    if !is_bound || asked.is_had_by(claim) {
        return ClaimStage::Grown;
    }
    let at_kubelet = ["NodeResizePending", "NodeResizeInProgress"];
    let is_at_kubelet = has_condition(claim, "FileSystemResizePending").is_some()
        || resize_status(claim).is_some_and(|status| at_kubelet.contains(&status));
    if is_at_kubelet { ClaimStage::AtKubelet } else { ClaimStage::AtResizer }
}

/// Returns the most that a claim among these both asks for and has, 0 where none is bound; nothing without a
/// claim.
pub(crate) fn largest_claimed(claims: &[PersistentVolumeClaim]) -> Option<Quantity> {
    let claimed = largest(claims.iter().filter_map(asked_and_had));
    (!claims.is_empty()).then(|| claimed.unwrap_or_else(|| Quantity("0".to_owned())))
}

/// The largest quantity among these.
fn largest<'a>(quantities: impl Iterator<Item = &'a Quantity>) -> Option<Quantity> {
    quantities.max_by_key(|quantity| bytes(quantity)).cloned()
}

fn storage(sizes: Option<&BTreeMap<String, Quantity>>) -> Option<&Quantity> {
    sizes?.get(STORAGE)
}

/// The size that a claim asks for.
fn requested(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    storage(claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref())
}

/// The size that a claim has.
fn capacity(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    storage(claim.status.as_ref()?.capacity.as_ref())
}

/// The smaller of the sizes that a claim asks for and has.
fn asked_and_had(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    [requested(claim)?, capacity(claim)?].into_iter().min_by_key(|size| bytes(size))
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
}

fn resize_status(claim: &PersistentVolumeClaim) -> Option<&str> {
    let statuses = claim.status.as_ref()?.allocated_resource_statuses.as_ref()?;
    statuses.get(STORAGE).map(String::as_str)
}

/// The message of a condition that is True.
fn has_condition<'a>(claim: &'a PersistentVolumeClaim, name: &str) -> Option<&'a str> {
    let mut conditions = claim.status.as_ref()?.conditions.iter().flatten();
    let found = conditions.find(|found| found.type_ == name && found.status == "True")?;
    Some(found.message.as_deref().unwrap_or_default())
}

/// Why the resizer or the kubelet does not grow a claim: a condition (Kubernetes 1.31), or the state of an
/// error that is not tried again.
fn failure(claim: &PersistentVolumeClaim) -> Option<String> {
    let errors = ["ControllerResizeError", "NodeResizeError"];
    let worded = errors.iter().find_map(|error| Some(format!("{error}: {}", has_condition(claim, error)?)));
    let is_failure = |status: &&str| status.ends_with("Infeasible") || status.ends_with("Failed");
    worded.or_else(|| resize_status(claim).filter(is_failure).map(str::to_owned))
}
