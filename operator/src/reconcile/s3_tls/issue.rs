//! Issues the certificate of S3 under a CA of its own.
//!
//! Clients take up another CA when they read it again, which takes hours or weeks. So a CA that is lost or
//! ends is followed by another one which clients are given at once, and the certificate stays under the first
//! one until it is renewed. The first one leaves what clients are given a day after nothing of it is in use.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use rustls::pki_types::CertificateDer;
use sherd_trust::{AuthorityError, ServiceAuthority};

use super::names as s3_names;
use super::pair::{self, ServedPair};
use super::parts::{S3KeyPair, S3Material, S3Serving, seconds};
use crate::api::StorageCluster;
use crate::limits;
use crate::names::{self, Names, TLS_CERTIFICATE, TLS_KEY};
use crate::reconcile::error::MaterialError;
use crate::reconcile::observe::ObservedCluster;
use crate::secret_text::SecretText;

pub(super) fn material(
    cluster: &StorageCluster,
    names: &Names,
    observed: &ObservedCluster,
    now: Duration,
) -> Result<S3Material, MaterialError> {
    let wanted = s3_names::all(cluster, names);
    let failed = |source| MaterialError::Issue { name: names.s3_service(), source };
    let found = observed.s3_authority.as_ref().and_then(|secret| load(secret, now));
    let authority = if let Some(found) = found {
        found
    } else {
        let name = format!("S3 of {}/{}", names.namespace, names.cluster);
        ServiceAuthority::init(&name, millis(now)).map_err(failed)?
    };
    let current = pair::certificates(authority.certificate().as_bytes()).unwrap_or_default();
    let former = former(observed, &current, seconds(now));
    let secret = observed.s3_certificate.as_ref();
    let trusted = [current.clone(), former.clone()].concat();
    let kept = secret.and_then(|secret| {
        let pair = ServedPair::read(secret).ok()?;
        let holds = pair.facts.names == wanted
            && pair.verifies(&trusted, now)
            && seconds(now) < renewed_at(pair.facts.not_after_s);
        Some((secret, pair)).filter(|_| holds)
    });
    let (certificate, keeps_former) = match kept {
        Some((secret, pair)) => {
            let is_new =
                seconds(now) < pair.facts.not_before_s.saturating_add(secs(limits::S3_FORMER_CA_KEPT));
            (
                texts(secret).ok_or(AuthorityError::Clock).map_err(failed)?,
                is_new || !pair.verifies(&current, now),
            )
        }
        None => (issue(&authority, &wanted, now).map_err(failed)?, true),
    };
    let trusted = if keeps_former { trusted } else { current };
    Ok(S3Material {
        serving: S3Serving::Tls(names.s3_certificate()),
        is_reached_by_tls: false,
        authority: Some(S3KeyPair {
            certificate: authority.certificate().to_owned(),
            key: SecretText(authority.key()),
        }),
        certificate: Some(certificate),
        trusted: Some(pair::pem(&trusted)),
        requested: None,
    })
}

/// The CA of a Secret, where it is whole and does not end within the time of the certificates that it signs.
fn load(secret: &Secret, now: Duration) -> Option<ServiceAuthority> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| std::str::from_utf8(&data.get(key)?.0).ok();
    let authority = ServiceAuthority::load(text(names::CA_CERTIFICATE)?, text(names::CA_KEY)?).ok()?;
    let last = seconds(now).saturating_add(secs(limits::S3_AUTHORITY_RENEWED));
    (authority.not_after_s() > last).then_some(authority)
}

/// The CAs that clients were given before: as the certificate's Secret and that of the CA name them.
fn former(
    observed: &ObservedCluster,
    current: &[CertificateDer<'static>],
    now_s: i64,
) -> Vec<CertificateDer<'static>> {
    let mut former: Vec<CertificateDer<'static>> = Vec::new();
    let secrets = [&observed.s3_certificate, &observed.s3_authority];
    for found in secrets.into_iter().flatten().flat_map(|secret| pair::authorities(secret, now_s)) {
        if !current.contains(&found) && !former.contains(&found) {
            former.push(found);
        }
    }
    former.truncate(limits::S3_FORMER_CAS_MAX);
    former
}

fn issue(
    authority: &ServiceAuthority,
    names: &BTreeSet<String>,
    now: Duration,
) -> Result<S3KeyPair, AuthorityError> {
    let names: Vec<String> = names.iter().cloned().collect();
    let issued = authority.issue(&names, millis(now), limits::S3_CERTIFICATE_LIFE)?;
    Ok(S3KeyPair { certificate: issued.certificate, key: SecretText(issued.key) })
}

fn texts(secret: &Secret) -> Option<S3KeyPair> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(S3KeyPair { certificate: text(TLS_CERTIFICATE)?, key: SecretText(text(TLS_KEY)?) })
}

/// When a certificate that ends then is issued again: after two thirds of its life.
fn renewed_at(not_after_s: i64) -> i64 {
    not_after_s.saturating_sub(secs(limits::S3_CERTIFICATE_LIFE) / 3)
}

fn secs(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn millis(now: Duration) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
