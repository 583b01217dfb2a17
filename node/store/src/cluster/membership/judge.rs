//! The differences between the reports of two nodes. Pure; both sides of a ping judge alike.

use sherd_core::checksum::Digest;
use sherd_core::report::NodeReport;

/// The digest of a node without a master key, as it is shown.
const NO_MASTER_KEY: &str = "0000000000000000";

/// How another node differs from this one where all should be equal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerProblem {
    /// The configuration of the cluster.
    #[error("another configuration of the cluster: digest {other}, here {own}")]
    Configuration {
        /// Here.
        own: String,
        /// There.
        other: String,
    },
    /// The root credentials.
    #[error("other root credentials than here")]
    Credentials,
    /// The master keys, under which secrets of access keys are kept.
    #[error("another master key than here: {other}, here {own}")]
    MasterKey {
        /// Here.
        own: String,
        /// There.
        other: String,
    },
    /// The trusted certificate authorities.
    #[error("other trusted certificate authorities than here: {other}, here {own}")]
    Trust {
        /// Here.
        own: String,
        /// There.
        other: String,
    },
    /// The topology.
    #[error("another topology: digest {other}, here {own}")]
    Topology {
        /// Here.
        own: String,
        /// There.
        other: String,
    },
}

/// Compares two nodes. A field that one of them does not send is not compared.
pub fn judge(own: &NodeReport, other: &NodeReport) -> Vec<PeerProblem> {
    let mut problems = Vec::new();
    if let Some((own, other)) = differing(own.config_digest, other.config_digest) {
        problems.push(PeerProblem::Configuration { own, other });
    }
    if credentials_difference(own, other) == CredentialsDifference::All {
        problems.push(PeerProblem::Credentials);
    }
    if let Some((own, other)) = differing(own.master_key_digest, other.master_key_digest) {
        let named = |shown: String| if shown == NO_MASTER_KEY { "none".to_owned() } else { shown };
        problems.push(PeerProblem::MasterKey { own: named(own), other: named(other) });
    }
    let (own_cas, other_cas) = (authorities(own), authorities(other));
    if own_cas != other_cas && !own_cas.is_empty() && !other_cas.is_empty() {
        problems.push(PeerProblem::Trust { own: own_cas, other: other_cas });
    }
    if let Some((own, other)) = differing(own.topology_digest, other.topology_digest) {
        problems.push(PeerProblem::Topology { own, other });
    }
    problems
}

/// How the root credentials that two nodes accept differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialsDifference {
    /// Not at all, or one of the nodes does not say which it accepts.
    None,
    /// One accepts a pair that the other does not, beside a pair that both accept: one credential replaces
    /// another, and has come to one of the nodes.
    Some,
    /// No pair is accepted by both.
    All,
}

/// Compares the root credentials that two nodes accept, in any order.
pub(super) fn credentials_difference(own: &NodeReport, other: &NodeReport) -> CredentialsDifference {
    let (own, other) = (&own.credentials_proofs, &other.credentials_proofs);
    if own.is_empty() || other.is_empty() {
        return CredentialsDifference::None;
    }
    let shared_count = own.iter().filter(|proof| other.contains(proof)).count();
    match shared_count {
        0 => CredentialsDifference::All,
        count if count == own.len() && count == other.len() => CredentialsDifference::None,
        _ => CredentialsDifference::Some,
    }
}

/// Both digests as they are shown, where both are there and differ.
fn differing(own: Option<Digest>, other: Option<Digest>) -> Option<(String, String)> {
    let (own, other) = own.zip(other)?;
    (own != other).then(|| (shown(&own), shown(&other)))
}

/// The first bytes of a digest: enough to tell two apart.
fn shown(digest: &Digest) -> String {
    hex::encode(&digest[..8])
}

fn authorities(report: &NodeReport) -> String {
    let mut prints: Vec<String> = report.trusted_cas.iter().map(shown).collect();
    prints.sort();
    prints.join(" ")
}

#[cfg(test)]
mod tests {
    use sherd_core::id::ProcessId;

    use super::*;

    fn report() -> NodeReport {
        NodeReport {
            config_digest: Some([1; 32]),
            credentials_proofs: vec![[2; 32]],
            topology_digest: Some([3; 32]),
            master_key_digest: Some([6; 32]),
            trusted_cas: vec![[4; 32], [5; 32]],
            ..NodeReport::of("n1".to_owned(), ProcessId([1; 16]))
        }
    }

    #[test]
    fn equal_nodes_have_no_problems_whatever_the_order_of_their_authorities() {
        let mut other = report();
        other.trusted_cas.reverse();
        other.topology_digest = None;
        other.master_key_digest = None;
        assert_eq!(judge(&report(), &other), []);
    }

    #[test]
    fn credentials_differ_where_no_pair_is_accepted_by_both() {
        let accepting = |pairs: &[u8]| NodeReport {
            credentials_proofs: pairs.iter().map(|pair| [*pair; 32]).collect(),
            ..report()
        };
        for (own, other, expected) in [
            (&[1][..], &[1][..], CredentialsDifference::None),
            (&[1, 2], &[2, 1], CredentialsDifference::None),
            (&[1], &[], CredentialsDifference::None),
            (&[1], &[1, 2], CredentialsDifference::Some),
            (&[2], &[1, 2], CredentialsDifference::Some),
            (&[1, 2], &[2, 3], CredentialsDifference::Some),
            (&[1], &[2], CredentialsDifference::All),
            (&[1, 2], &[3, 4], CredentialsDifference::All),
        ] {
            let (own, other) = (accepting(own), accepting(other));
            assert_eq!(credentials_difference(&own, &other), expected, "{own:?} {other:?}");
            assert_eq!(credentials_difference(&other, &own), expected, "{other:?} {own:?}");
            let is_problem = judge(&own, &other).contains(&PeerProblem::Credentials);
            assert_eq!(is_problem, expected == CredentialsDifference::All);
        }
    }

    #[test]
    fn each_difference_is_named_with_both_sides_but_credentials_are_not_shown() {
        let other = NodeReport {
            config_digest: Some([0x11; 32]),
            credentials_proofs: vec![[0x22; 32]],
            topology_digest: Some([0x33; 32]),
            master_key_digest: Some([0; 32]),
            trusted_cas: vec![[0x44; 32]],
            ..report()
        };
        let said = judge(&report(), &other).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for word in ["1111111111111111, here 0101010101010101", "4444444444444444, here 0404040404040404 05"]
        {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(said.contains("3333333333333333, here 0303030303030303"), "{said}");
        assert!(said.contains("another master key than here: none, here 0606060606060606"), "{said}");
        assert!(said.contains("credentials") && !said.contains("2222") && !said.contains("0202"), "{said}");
    }
}
