//! Certificates and host names of a Tenant: `spec.tls` and the domains of a StorageCluster.

use serde_json::{Value, json};

use super::error::InvalidTenant;
use super::left_out::{Fields, LeftOut};
use super::limits::{CERTIFICATE_NAMES_MAX, FURTHER_CERTIFICATES_MAX};

/// Converts `requestAutoCert`, `externalCertSecret` and `certConfig`. Without a word MinIO's operator makes a
/// certificate.
pub(super) fn convert(spec: &mut Fields, left_out: &mut Vec<LeftOut>) -> Result<Value, InvalidTenant> {
    let is_made = match spec.take_present("requestAutoCert") {
        None | Some(Value::Bool(true)) => true,
        Some(Value::Bool(false)) => false,
        Some(_) => {
            let path = spec.at("requestAutoCert");
            return Err(InvalidTenant::Field { path, expected: "true or false" });
        }
    };
    let mut secrets = Vec::new();
    for mut reference in spec.list("externalCertSecret")? {
        let (name, kind) = (reference.take("name"), reference.take("type"));
        let has_files = |kind: &Value| {
            kind.as_str()
                .is_some_and(|kind| kind == "kubernetes.io/tls" || kind.starts_with("cert-manager.io/"))
        };
        match name {
            Some(name) if kind.as_ref().is_none_or(has_files) => secrets.push(json!({"name": name})),
            _ => left_out.push(LeftOut {
                path: reference.path.clone(),
                reason: "a certificate is of a Secret of the type kubernetes.io/tls".to_owned(),
            }),
        }
        reference.leave_rest(left_out);
    }
    let mut names = Vec::new();
    let mut config = spec.object("certConfig")?;
    if is_made {
        names = config.texts("dnsNames", left_out);
    }
    config.leave_rest(left_out);
    names.retain(|name| {
        let is_taken = is_name(name.strip_prefix("*.").unwrap_or(name));
        if !is_taken {
            let reason = format!("{name:?} is no name of a host");
            left_out.push(LeftOut { path: "spec.certConfig.dnsNames".to_owned(), reason });
        }
        is_taken
    });
    cut(&mut names, CERTIFICATE_NAMES_MAX, "spec.certConfig.dnsNames", left_out);
    let mut tls = if is_made {
        json!({"mode": "Operator"})
    } else if secrets.is_empty() {
        return Ok(json!({"mode": "None"}));
    } else {
        json!({"mode": "Secret", "secretRef": secrets.remove(0)})
    };
    cut(&mut secrets, FURTHER_CERTIFICATES_MAX, "spec.externalCertSecret", left_out);
    if !secrets.is_empty() {
        tls["furtherSecrets"] = json!(secrets);
    }
    if !names.is_empty() {
        tls["extraNames"] = json!(names);
    }
    Ok(tls)
}

/// Reduces a domain, which may have a scheme, a port and a path, to its host.
pub(super) fn host(domain: &str) -> Option<String> {
    let host = domain.split_once("://").map_or(domain, |(_, host)| host);
    let host = host.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase();
    is_name(&host).then_some(host)
}

/// Drops and names what is beyond a number.
pub(super) fn cut<T>(listed: &mut Vec<T>, max: usize, path: &str, left_out: &mut Vec<LeftOut>) {
    if listed.len() > max {
        let reason =
            format!("{} beyond the first {max}, which are all that there may be", listed.len() - max);
        left_out.push(LeftOut { path: path.to_owned(), reason });
        listed.truncate(max);
    }
}

/// Whether this is the name of a host, in lower case.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().last()];
        label.len() <= 63
            && label.bytes().all(|byte| is_plain(byte) || byte == b'-')
            && ends.iter().all(|end| end.is_some_and(is_plain))
    };
    name.len() <= 253 && name.split('.').all(label)
}
