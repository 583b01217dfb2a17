//! Certificates of a cluster: how their names are written (`name`), how they are read (`certificate`), and
//! how a certificate authority makes them (`authority`), and those of S3 for clients (`service`); and the
//! proof of root credentials (`proof`).
//!
//! Pure functions over PEM and DER: no file, no network, no clock. The node builds its TLS on this, and
//! `sherd-node ca`, `dev --nodes` and the operator issue with it. A node's certificate has exactly one name,
//! `<name>.<role>.<cluster id>.sherd`, and no address: addresses may change.

pub mod authority;
pub mod certificate;
pub mod limits;
pub mod name;
pub mod proof;
pub mod service;

pub use authority::{Authority, AuthorityError, IssuedCertificate};
pub use certificate::{AuthorityCertificate, AuthorityKeyDigest, CertificateFacts, UnreadableCertificate};
pub use name::{InvalidIdentity, PeerIdentity, Role};
pub use proof::credentials_proof;
pub use service::{ServiceAuthority, ServiceCertificate, ServiceFacts};
