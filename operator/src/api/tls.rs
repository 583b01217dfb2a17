//! S3 over TLS: where the certificate that clients are shown comes from.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message;
use super::settings::SecretReference;

/// S3 over TLS.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(self.mode == 'Secret') == has(self.secretRef)").message(message::TLS_SECRET),
    validation = Rule::new("(self.mode == 'CertManager') == has(self.issuerRef)").message(message::TLS_ISSUER),
    validation = Rule::new("self.mode != 'None' || !has(self.furtherSecrets) || self.furtherSecrets.size() == 0").message(message::TLS_FURTHER),
    validation = Rule::new("!has(self.extraNames) || self.extraNames.all(name, name.matches('^([*][.])?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$') || name.matches('^[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*$'))").message(message::TLS_NAMES)
)]
pub struct S3Tls {
    /// Where the certificate comes from. None: S3 is served in clear.
    #[serde(default)]
    pub mode: TlsMode,
    /// With mode Secret: a Secret of the type kubernetes.io/tls in the cluster's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// With mode CertManager: the issuer that signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerReference>,
    /// Names and addresses beside those of the Services and of the gateway's domains that the certificate
    /// is made for, such as the load balancer's. With mode Secret they must be in the certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub extra_names: Vec<String>,
    /// Secrets of the type kubernetes.io/tls with further certificates. A client that asks for a name gets
    /// the first certificate that is valid for it; all others get that of the mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub further_secrets: Vec<SecretReference>,
}

impl S3Tls {
    /// Returns the names of the Secrets with further certificates, each once.
    pub fn further_names(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for SecretReference { name } in &self.further_secrets {
            if !all.contains(&name.as_str()) {
                all.push(name);
            }
        }
        all
    }
}

/// Where the certificate of S3 comes from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// From nowhere: S3 is served in clear.
    #[default]
    None,
    /// The operator has a CA for it and issues it.
    Operator,
    /// A Secret of the user, or of another program, holds it.
    Secret,
    /// cert-manager issues it for a Certificate that the operator makes.
    CertManager,
}

/// An issuer of cert-manager.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IssuerReference {
    /// The issuer's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Kind of the issuer: Issuer, ClusterIssuer, or that of an issuer of another program.
    #[serde(default = "issuer_kind")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// API group of the issuer.
    #[serde(default = "issuer_group")]
    #[schemars(length(min = 1, max = 253))]
    pub group: String,
}

fn issuer_kind() -> String {
    "Issuer".to_owned()
}

fn issuer_group() -> String {
    "cert-manager.io".to_owned()
}
