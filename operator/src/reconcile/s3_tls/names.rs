//! The names of S3's certificate: by the Services, by the domains of buckets, and those that a specification
//! adds.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rustls::pki_types::DnsName;

use crate::api::{S3Tls, StorageCluster, TlsMode, message};
use crate::names::Names;

/// The usual domain of a Kubernetes cluster; a pod cannot read which one it is in.
const CLUSTER_DOMAIN: &str = "cluster.local";

/// The messages of the rules that `spec.tls` breaks.
pub(in crate::reconcile) fn broken_rules(tls: &S3Tls) -> impl Iterator<Item = &'static str> {
    let S3Tls { mode, secret_ref, issuer_ref, extra_names, further_secrets } = tls;
    let rules = [
        ((*mode == TlsMode::Secret) == secret_ref.is_some(), message::TLS_SECRET),
        ((*mode == TlsMode::CertManager) == issuer_ref.is_some(), message::TLS_ISSUER),
        (*mode != TlsMode::None || further_secrets.is_empty(), message::TLS_FURTHER),
        (extra_names.iter().all(|name| is_name(name)), message::TLS_NAMES),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, message)| message)
}

fn is_name(name: &str) -> bool {
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_prefix("*.").unwrap_or(name);
    let is_lower =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
    is_lower && DnsName::try_from(name).is_ok()
}

/// Every name that a certificate is made for.
pub(super) fn all(cluster: &StorageCluster, names: &Names) -> BTreeSet<String> {
    let (service, headless, namespace) = (names.s3_service(), names.headless_service(), &names.namespace);
    let mut all: BTreeSet<String> = [
        service.clone(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.{CLUSTER_DOMAIN}"),
        format!("*.{headless}.{namespace}.svc"),
        format!("*.{headless}.{namespace}.svc.{CLUSTER_DOMAIN}"),
    ]
    .into();
    if cluster.spec.iam.enabled {
        let iam = names.iam_service();
        let inside = format!("{iam}.{namespace}.svc");
        all.extend([format!("{iam}.{namespace}"), format!("{inside}.{CLUSTER_DOMAIN}"), inside, iam]);
    }
    for domain in cluster.spec.gateway.all_domains() {
        all.extend([domain.to_owned(), format!("*.{domain}")]);
    }
    if cluster.spec.tls.mode == TlsMode::Operator {
        // For `kubectl port-forward`. Issuers of other programs may refuse it.
        all.insert("localhost".to_owned());
    }
    all.extend(cluster.spec.tls.extra_names.iter().map(|name| {
        // An address as a certificate's text says it.
        name.parse::<IpAddr>().map_or_else(|_| name.clone(), |address| address.to_string())
    }));
    all.retain(|name| is_name(name));
    all
}

/// The names that clients use for sure: of the reported endpoint, of buckets, and those that the
/// specification adds. A wildcard stands for one name below it.
pub(super) fn needed(cluster: &StorageCluster, names: &Names) -> Vec<String> {
    let endpoint = format!("{}.{}.svc", names.s3_service(), names.namespace);
    let domains = cluster.spec.gateway.all_domains();
    let domain = domains.into_iter().flat_map(|domain| [domain.to_owned(), format!("*.{domain}")]);
    let extra = cluster.spec.tls.extra_names.iter().cloned();
    let iam = cluster.spec.iam.enabled.then(|| format!("{}.{}.svc", names.iam_service(), names.namespace));
    let needed = std::iter::once(endpoint).chain(iam).chain(domain).chain(extra);
    needed.map(|name| name.strip_prefix("*.").map(|rest| format!("bucket.{rest}")).unwrap_or(name)).collect()
}

/// The names, sorted into those of DNS and addresses.
pub(in crate::reconcile) fn apart(names: &BTreeSet<String>) -> (Vec<&String>, Vec<&String>) {
    names.iter().partition(|name| name.parse::<IpAddr>().is_err())
}
