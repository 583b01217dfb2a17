//! The verdict on certificates: whether they end soon, and how far a replacement of the CA came.

use k8s_openapi::jiff::Timestamp;

use crate::api::Reason;
use crate::limits;
use crate::reconcile::condition::{FALSE, TRUE};
use crate::reconcile::rotate::{PlannedRotation, words};
use crate::rotation::{AuthorityRecord, RotationState, RotationStep};

/// The facts of a cluster's certificates.
#[derive(Debug, Clone, Copy)]
pub(super) struct CertificateFacts<'a> {
    /// The Secret with the CA.
    pub(super) secret: &'a str,
    /// The CAs, once there is one.
    pub(super) authority: Option<&'a AuthorityRecord>,
    /// The step of a replacement, where everything was applied.
    pub(super) rotation: Option<&'a PlannedRotation>,
    /// When the first of the nodes' certificates ends, in seconds since the Unix epoch.
    pub(super) first_expiry_s: Option<i64>,
    /// Whether everything was applied.
    pub(super) is_applied: bool,
    /// The time.
    pub(super) now: Timestamp,
}

/// Status, reason and message of a condition.
pub(super) type Verdict = (&'static str, Reason, String);

impl CertificateFacts<'_> {
    /// The verdict where everything was applied.
    pub(super) fn verdict(&self) -> Verdict {
        let (reason, message) = self.replacement();
        match self.expiring() {
            Some((status, expiring, ends)) if reason != Reason::Issued => {
                (status, expiring, format!("{ends}; {message}"))
            }
            Some(expiring) => expiring,
            None => (TRUE, reason, message),
        }
    }

    /// How far a replacement of the CA came, and why it waits.
    fn replacement(&self) -> (Reason, String) {
        let issued = format!("CA in Secret {}", self.secret);
        let (Some(record), Some(rotation)) = (self.authority, self.rotation) else {
            return (Reason::Issued, issued);
        };
        let why = match &rotation.step {
            RotationStep::Rest(None) => return (Reason::Issued, issued),
            RotationStep::Rest(Some(rest)) => return (Reason::Issued, format!("{issued}; {rest}")),
            RotationStep::Wait(why) => format!("waiting: {why}"),
            RotationStep::MakeNext(_) => {
                return (Reason::IntroducingAuthority, format!("{issued}; another CA is made"));
            }
            RotationStep::Record(_) => "done".to_owned(),
        };
        let reason = match record.state {
            RotationState::Switched { .. } => Reason::SwitchingAuthority,
            _ => Reason::IntroducingAuthority,
        };
        (reason, format!("{issued}; it is replaced: {}; {why}", words(record)))
    }

    /// Whether certificates end soon: the CA's own, or a node's that is not renewed or not loaded.
    pub(super) fn expiring(&self) -> Option<Verdict> {
        let authority_ends = self.authority.and_then(AuthorityRecord::not_after_s);
        let (what, ends) = [("the CA", authority_ends), ("a node's certificate", self.first_expiry_s)]
            .into_iter()
            .filter_map(|(what, ends)| Some((what, ends?)))
            .min_by_key(|(_, ends)| *ends)?;
        let soon = self.now.checked_add(limits::CERTIFICATE_EXPIRING).ok()?;
        let is_authority = authority_ends == Some(ends);
        let ends = Timestamp::from_second(ends).ok().filter(|ends| *ends < soon)?;
        let cause = match (self.is_applied, is_authority) {
            (true, true) => "the CA's end is the end of every certificate",
            (true, false) => "its pod has not loaded the one that was issued since",
            (false, _) => "none is renewed while the operator changes nothing",
        };
        Some((FALSE, Reason::CertificatesExpiring, format!("{what} ends at {ends}: {cause}")))
    }
}
