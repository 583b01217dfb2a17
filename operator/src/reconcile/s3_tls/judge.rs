//! Judges the Secret with S3's certificate: whether a node takes it, and what clients would refuse.

use k8s_openapi::jiff::Timestamp;

use super::names::needed;
use super::pair::{self, ServedPair};
use super::parts::S3Serving;
use crate::api::{Reason, StorageCluster, TlsMode};
use crate::limits;
use crate::names::Names;
use crate::reconcile::observe::ObservedCluster;

/// The certificate of S3 as it was observed.
#[derive(Debug, Clone)]
pub(in crate::reconcile) struct S3Look {
    /// The Secret.
    pub(super) secret: String,
    /// Whether a node takes what is in it.
    pub(super) is_usable: bool,
    /// Whether the certificate is valid for one of the names that clients use.
    pub(super) has_a_name: bool,
    /// The CAs that the Secret names.
    pub(super) trusted: Option<String>,
    /// When the first certificate of all ends, in seconds since the Unix epoch.
    pub(in crate::reconcile) ends_s: Option<i64>,
    /// Why a node or a client would refuse it.
    pub(in crate::reconcile) fault: Option<(Reason, String)>,
}

/// Looks at the certificate of a cluster that asks for TLS.
pub(in crate::reconcile) fn look(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    now_s: i64,
) -> Option<S3Look> {
    let tls = &cluster.spec.tls;
    let secret = match (tls.mode, &tls.secret_ref) {
        (TlsMode::None, _) | (TlsMode::Secret, None) => return None,
        (TlsMode::Secret, Some(given)) => given.name.clone(),
        (TlsMode::Operator, _) => names.s3_certificate(),
        (TlsMode::CertManager, _) => names.s3_issued_certificate(),
    };
    let mut look =
        S3Look { secret, is_usable: false, has_a_name: false, trusted: None, ends_s: None, fault: None };
    let Some(found) = &observed.s3_certificate else {
        let fault = (Reason::SecretMissing, missing(tls.mode, names, observed, &look.secret));
        // The operator is about to make its own.
        look.fault = (tls.mode != TlsMode::Operator).then_some(fault);
        return Some(look);
    };
    let authorities = pair::authorities(found, now_s);
    look.trusted = (!authorities.is_empty()).then(|| pair::pem(&authorities));
    let further: Vec<_> =
        tls.further_names().into_iter().map(|name| (name, further(observed, name))).collect();
    match ServedPair::read(found) {
        Ok(pair) => {
            look.is_usable = pair.is_valid_at(now_s);
            let all: Vec<&ServedPair> =
                further.iter().filter_map(|(_, further)| further.as_ref().ok()).chain([&pair]).collect();
            look.ends_s = all.iter().map(|pair| pair.facts.not_after_s).min();
            let needed = needed(cluster, names);
            look.has_a_name = needed.iter().any(|name| pair.is_valid_for(name));
            let lacks = |name: &&String| !all.iter().any(|pair| pair.is_valid_for(name));
            let lacks = needed.iter().find(lacks).map(|name| {
                let kept = kept(&look, observed).unwrap_or_default();
                let message =
                    format!("Secret {}: its certificate is not valid for {name}{kept}", look.secret);
                (Reason::NameMismatch, message)
            });
            let of_further = || {
                further.iter().find_map(|(name, further)| match further {
                    Ok(pair) => out_of_time(name, pair, now_s),
                    Err(fault) => Some(fault.clone()),
                })
            };
            look.fault = out_of_time(&look.secret, &pair, now_s).or(lacks).or_else(of_further);
        }
        Err(words) => {
            look.fault = Some((Reason::SecretMalformed, format!("Secret {}: {words}", look.secret)));
        }
    }
    Some(look)
}

/// A further certificate, or why nodes do not take it.
fn further(observed: &ObservedCluster, name: &str) -> Result<ServedPair, (Reason, String)> {
    let missing = || format!("Secret {name} of spec.tls.furtherSecrets is not there");
    let found = observed.s3_further.get(name).ok_or_else(|| (Reason::SecretMissing, missing()))?;
    ServedPair::read(found).map_err(|words| (Reason::SecretMalformed, format!("Secret {name}: {words}")))
}

/// The way in which pods serve on in place of a certificate that has none of the names.
fn kept(look: &S3Look, observed: &ObservedCluster) -> Option<String> {
    match super::serving(look, observed) {
        S3Serving::Tls(secret) if secret != look.secret => {
            Some(format!(", nor for another name of S3: pods go on with that of Secret {secret}"))
        }
        S3Serving::Clear => Some(", nor for another name of S3: pods go on in clear text".to_owned()),
        S3Serving::Tls(_) | S3Serving::Awaited => None,
    }
}

fn missing(mode: TlsMode, names: &Names, observed: &ObservedCluster, secret: &str) -> String {
    let request = names.s3_certificate_request();
    match mode {
        TlsMode::CertManager if !observed.has_cert_manager => {
            "the API cert-manager.io/v1 is not there: install cert-manager, or choose another tls.mode"
                .to_owned()
        }
        TlsMode::CertManager => {
            let said = observed.certificate_words.as_deref().unwrap_or("it says nothing yet");
            format!("Secret {secret} is not there yet: Certificate {request}: {said}")
        }
        _ => format!("Secret {secret} of spec.tls.secretRef is not there"),
    }
}

fn out_of_time(secret: &str, pair: &ServedPair, now_s: i64) -> Option<(Reason, String)> {
    let facts = &pair.facts;
    let date =
        |second| Timestamp::from_second(second).map_or_else(|_| second.to_string(), |at| at.to_string());
    let life = facts.not_after_s.saturating_sub(facts.not_before_s);
    let warning = i64::try_from(limits::CERTIFICATE_EXPIRING.as_secs()).unwrap_or(i64::MAX);
    // A certificate of a few days is reported later: in the last sixth of its life.
    let soon = now_s.saturating_add(warning.min(life / 6));
    let what = if now_s < facts.not_before_s {
        format!("begins at {}", date(facts.not_before_s))
    } else if now_s > facts.not_after_s {
        format!("ended at {}", date(facts.not_after_s))
    } else if soon > facts.not_after_s {
        format!("ends at {}", date(facts.not_after_s))
    } else {
        return None;
    };
    let message = format!("Secret {secret}: the certificate for clients of S3 {what}");
    Some((Reason::CertificatesExpiring, message))
}
