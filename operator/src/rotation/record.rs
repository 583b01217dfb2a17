//! The record of a cluster's CAs, as its Secret and the copy of it hold it, and whether the cluster runs with
//! what a record says.

use std::collections::BTreeMap;

use sherd_core::id::ClusterId;
use sherd_trust::{Authority, AuthorityCertificate, AuthorityError, UnreadableCertificate};

use crate::names;
use crate::secret_text::SecretText;

/// A CA that can sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedAuthority {
    /// The CA's certificate, in PEM.
    pub certificate: String,
    /// The CA's key, in PEM.
    pub key: SecretText,
}

impl KeyedAuthority {
    /// The texts of an authority.
    pub fn of(authority: &Authority) -> Self {
        Self { certificate: authority.certificate().to_owned(), key: SecretText(authority.key()) }
    }

    /// Loads the authority.
    ///
    /// # Errors
    /// [`AuthorityError`] names the text and what is wrong with it.
    pub fn load(&self) -> Result<Authority, AuthorityError> {
        Authority::load(&self.certificate, &self.key.0)
    }
}

/// How far a replacement of the CA came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotationState {
    /// No replacement is under way.
    Steady {
        /// The CA.
        current: KeyedAuthority,
    },
    /// Nodes are given both, and show certificates of the current one.
    Introducing {
        /// The current CA.
        current: KeyedAuthority,
        /// The CA that takes its place.
        next: KeyedAuthority,
    },
    /// As `Introducing`, after the key of the current CA was lost: no certificate is issued that need not be.
    Lost {
        /// The certificates of the current CA, in PEM: two where it was lost while it was replaced.
        former: String,
        /// The CA that takes its place.
        next: KeyedAuthority,
    },
    /// Nodes are given both, and certificates of the new one.
    Switched {
        /// The new CA.
        current: KeyedAuthority,
        /// The certificates of the former one, in PEM. Its key is not kept.
        previous: String,
    },
}

/// The CAs of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityRecord {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// The CAs.
    pub state: RotationState,
    /// The text of the annotation that asked for the last replacement: each text asks once.
    pub request: Option<String>,
}

/// Says why a Secret holds no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordFault {
    /// A key is not there, or empty.
    #[error("it lacks {0}")]
    Lacks(&'static str),
    /// The cluster's id.
    #[error("{key} is malformed: {0}", key = names::CA_CLUSTER_ID)]
    Id(String),
    /// The state of the replacement.
    #[error("{key} says {0:?}, which this operator does not have", key = names::ROTATION)]
    State(String),
    /// A certificate.
    #[error("{key}: {source}")]
    Certificate {
        /// The key of the Secret.
        key: &'static str,
        /// Why it cannot be used.
        source: UnreadableCertificate,
    },
    /// A CA with its key.
    #[error("{key}: {source}")]
    Authority {
        /// The key of the Secret that the CA's key is under.
        key: &'static str,
        /// Why it cannot be used.
        source: AuthorityError,
    },
    /// A certificate is of another cluster than the Secret says.
    #[error(
        "{} says cluster {said}, and the certificate in {key} is of cluster {signed}",
        names::CA_CLUSTER_ID
    )]
    OtherCluster {
        /// The key of the Secret.
        key: &'static str,
        /// The cluster that the Secret names.
        said: ClusterId,
        /// The cluster that the certificate names.
        signed: String,
    },
}

impl AuthorityRecord {
    /// The record of a CA that no other one goes before.
    pub fn first(authority: &Authority, request: Option<String>) -> Self {
        let current = KeyedAuthority::of(authority);
        Self { cluster: authority.cluster(), state: RotationState::Steady { current }, request }
    }

    /// The record of a CA in the place of one whose key is lost, of which the certificates are left.
    pub fn after_loss(former: String, authority: &Authority, request: Option<String>) -> Self {
        let next = KeyedAuthority::of(authority);
        let state = RotationState::Lost { former, next };
        Self { cluster: authority.cluster(), state, request }
    }

    /// Reads the texts of a Secret.
    ///
    /// # Errors
    /// [`RecordFault`] names the key that is at fault.
    pub fn read(texts: &BTreeMap<String, String>) -> Result<Self, RecordFault> {
        let part = |key: &'static str| {
            texts.get(key).filter(|text| !text.is_empty()).cloned().ok_or(RecordFault::Lacks(key))
        };
        let id = part(names::CA_CLUSTER_ID)?;
        let cluster = ClusterId::parse(id.trim()).map_err(|error| RecordFault::Id(error.to_string()))?;
        let certificates = |key| {
            let text = part(key)?;
            check_certificates(key, &text, cluster)?;
            Ok(text)
        };
        let keyed = |certificate, key| {
            let read =
                KeyedAuthority { certificate: certificates(certificate)?, key: SecretText(part(key)?) };
            read.load().map_err(|source| RecordFault::Authority { key, source })?;
            Ok(read)
        };
        // A Secret that a person restored with the CA alone says nothing.
        let state = texts.get(names::ROTATION).map_or(names::ROTATION_STEADY, |text| text.trim());
        let state = match state {
            names::ROTATION_STEADY => {
                RotationState::Steady { current: keyed(names::CA_CERTIFICATE, names::CA_KEY)? }
            }
            names::ROTATION_INTRODUCING => RotationState::Introducing {
                current: keyed(names::CA_CERTIFICATE, names::CA_KEY)?,
                next: keyed(names::CA_NEXT_CERTIFICATE, names::CA_NEXT_KEY)?,
            },
            names::ROTATION_LOST => RotationState::Lost {
                former: certificates(names::CA_CERTIFICATE)?,
                next: keyed(names::CA_NEXT_CERTIFICATE, names::CA_NEXT_KEY)?,
            },
            names::ROTATION_SWITCHED => RotationState::Switched {
                current: keyed(names::CA_CERTIFICATE, names::CA_KEY)?,
                previous: certificates(names::CA_PREVIOUS_CERTIFICATE)?,
            },
            other => return Err(RecordFault::State(other.to_owned())),
        };
        let request = texts.get(names::ROTATION_REQUEST).filter(|text| !text.is_empty()).cloned();
        Ok(Self { cluster, state, request })
    }

    /// The record's texts, by key of the Secret. Keys that a state does not have are empty, and not left out:
    /// what a person wrote under them would stay, and a former key is to be gone.
    pub fn texts(&self) -> BTreeMap<&'static str, String> {
        let Self { cluster, state, request } = self;
        let (current, next, said) = match state {
            RotationState::Steady { current } => (Some(current), None, names::ROTATION_STEADY),
            RotationState::Introducing { current, next } => {
                (Some(current), Some(next), names::ROTATION_INTRODUCING)
            }
            RotationState::Lost { next, .. } => (None, Some(next), names::ROTATION_LOST),
            RotationState::Switched { current, .. } => (Some(current), None, names::ROTATION_SWITCHED),
        };
        let key = |authority: Option<&KeyedAuthority>| {
            authority.map(|authority| authority.key.0.clone()).unwrap_or_default()
        };
        let previous = match state {
            RotationState::Switched { previous, .. } => previous.clone(),
            _ => String::new(),
        };
        BTreeMap::from([
            (names::CA_CLUSTER_ID, cluster.to_string()),
            (names::CA_CERTIFICATE, self.current().to_owned()),
            (names::CA_KEY, key(current)),
            (names::CA_NEXT_CERTIFICATE, next.map(|next| next.certificate.clone()).unwrap_or_default()),
            (names::CA_NEXT_KEY, key(next)),
            (names::CA_PREVIOUS_CERTIFICATE, previous),
            (names::ROTATION, said.to_owned()),
            (names::ROTATION_REQUEST, request.clone().unwrap_or_default()),
        ])
    }

    /// The certificates of the current CA, in PEM.
    pub fn current(&self) -> &str {
        match &self.state {
            RotationState::Steady { current }
            | RotationState::Introducing { current, .. }
            | RotationState::Switched { current, .. } => &current.certificate,
            RotationState::Lost { former, .. } => former,
        }
    }

    /// The certificates of the CA that is trusted beside the current one, in PEM.
    pub fn other(&self) -> Option<&str> {
        match &self.state {
            RotationState::Steady { .. } => None,
            RotationState::Introducing { next, .. } | RotationState::Lost { next, .. } => {
                Some(&next.certificate)
            }
            RotationState::Switched { previous, .. } => Some(previous),
        }
    }

    /// All CAs that are trusted, in PEM, the current one first.
    pub fn bundle(&self) -> String {
        let texts = [Some(self.current()), self.other()];
        let mut bundle = String::new();
        for text in texts.into_iter().flatten() {
            bundle.push_str(text.trim_end());
            bundle.push('\n');
        }
        bundle
    }

    /// The CA that signs: the current one, or, where its key is lost, the one that takes its place.
    pub fn signer(&self) -> &KeyedAuthority {
        match &self.state {
            RotationState::Steady { current }
            | RotationState::Introducing { current, .. }
            | RotationState::Switched { current, .. } => current,
            RotationState::Lost { next, .. } => next,
        }
    }

    /// When the current CA ends, in seconds since the Unix epoch.
    pub fn not_after_s(&self) -> Option<i64> {
        read_all(self.current()).iter().map(|found| found.not_after_s).min()
    }

    /// The digest of the key of the current CA, as the status records it.
    pub fn key(&self) -> Option<String> {
        keys(self.current()).into_iter().next()
    }

    /// Judges whether a cluster runs with this record. `known` is the digest of the CA's key that the cluster
    /// is known to run with, if any is.
    ///
    /// # Errors
    /// [`OtherAuthority`] where it runs with a CA that the record does not have.
    pub fn accept(self, known: Option<&str>) -> Result<AcceptedAuthority, OtherAuthority> {
        let Some(known) = known else { return Ok(AcceptedAuthority { record: self, is_known: true }) };
        let is_known = |text: &str| keys(text).iter().any(|key| key == known);
        if is_known(self.current()) {
            return Ok(AcceptedAuthority { record: self, is_known: true });
        }
        let other = OtherAuthority { found: self.key().unwrap_or_default(), known: known.to_owned() };
        let Self { cluster, state, request } = self;
        match state {
            // Of before the switch, which was made: it goes on with the new CA.
            RotationState::Introducing { current: KeyedAuthority { certificate: previous, .. }, next }
            | RotationState::Lost { former: previous, next }
                if is_known(&next.certificate) =>
            {
                let state = RotationState::Switched { current: next, previous };
                Ok(AcceptedAuthority { record: Self { cluster, state, request }, is_known: true })
            }
            // The switch is recorded here, and in the status soon.
            RotationState::Switched { current, previous } if is_known(&previous) => {
                let state = RotationState::Switched { current, previous };
                Ok(AcceptedAuthority { record: Self { cluster, state, request }, is_known: false })
            }
            _ => Err(other),
        }
    }
}

/// A record that a cluster runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedAuthority {
    /// The CAs.
    pub record: AuthorityRecord,
    /// Whether the status names the current CA. Until it does, no certificate is issued again under it.
    pub is_known: bool,
}

impl AcceptedAuthority {
    /// The CAs, in PEM, whose certificates stay as they are.
    pub fn keeps(&self) -> Vec<&str> {
        match (&self.record.state, self.is_known) {
            (RotationState::Steady { .. }, _) | (RotationState::Switched { .. }, true) => {
                vec![self.record.current()]
            }
            _ => [Some(self.record.current()), self.record.other()].into_iter().flatten().collect(),
        }
    }

    /// Whether a certificate is issued again some time before its end. After the loss of a CA that would be
    /// under one that nodes do not trust yet.
    pub fn renews_early(&self) -> bool {
        !matches!(self.record.state, RotationState::Lost { .. })
    }
}

/// The record has another CA than the cluster runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAuthority {
    /// The digest of the key of its current CA.
    pub found: String,
    /// The digest of the key of the CA that the cluster runs with.
    pub known: String,
}

fn keys(certificates: &str) -> Vec<String> {
    read_all(certificates).iter().map(|found| found.key.to_string()).collect()
}

/// The certificates of a text that was checked when it was read.
pub(super) fn read_all(certificates: &str) -> Vec<AuthorityCertificate> {
    AuthorityCertificate::read_all(certificates).unwrap_or_default()
}

fn check_certificates(key: &'static str, text: &str, cluster: ClusterId) -> Result<(), RecordFault> {
    let read = AuthorityCertificate::read_all(text);
    let read = read.map_err(|source| RecordFault::Certificate { key, source })?;
    match read.iter().find(|found| found.cluster != Some(cluster)) {
        None => Ok(()),
        Some(other) => {
            let signed = other.cluster.map_or_else(|| "none".to_owned(), |id| id.to_string());
            Err(RecordFault::OtherCluster { key, said: cluster, signed })
        }
    }
}
