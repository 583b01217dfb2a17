//! What two nodes find when they compare what they say of themselves. Pure; both sides of a ping judge alike.

use sherd_proto::v1::NodeState;

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

/// Compares two nodes. What one of them does not say is not compared.
pub fn judge(own: &NodeState, other: &NodeState) -> Vec<PeerProblem> {
    let differ = |own: &[u8], other: &[u8]| !own.is_empty() && !other.is_empty() && own != other;
    let mut problems = Vec::new();
    if differ(&own.config_digest, &other.config_digest) {
        let (own, other) = (shown(&own.config_digest), shown(&other.config_digest));
        problems.push(PeerProblem::Configuration { own, other });
    }
    if differ(&own.credentials_proof, &other.credentials_proof) {
        problems.push(PeerProblem::Credentials);
    }
    let (own_cas, other_cas) = (authorities(own), authorities(other));
    if differ(own_cas.as_bytes(), other_cas.as_bytes()) {
        problems.push(PeerProblem::Trust { own: own_cas, other: other_cas });
    }
    if differ(&own.topology_digest, &other.topology_digest) {
        let (own, other) = (shown(&own.topology_digest), shown(&other.topology_digest));
        problems.push(PeerProblem::Topology { own, other });
    }
    problems
}

/// The first bytes of a digest: enough to tell two apart.
fn shown(digest: &[u8]) -> String {
    hex::encode(&digest[..digest.len().min(8)])
}

fn authorities(state: &NodeState) -> String {
    let mut shown: Vec<String> = state.trusted_cas.iter().map(|fingerprint| shown(fingerprint)).collect();
    shown.sort();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> NodeState {
        NodeState {
            config_digest: vec![1; 32].into(),
            credentials_proof: vec![2; 32].into(),
            topology_digest: vec![3; 32].into(),
            trusted_cas: vec![vec![4; 32].into(), vec![5; 32].into()],
            ..NodeState::default()
        }
    }

    #[test]
    fn equal_nodes_have_no_problems_whatever_the_order_of_their_authorities() {
        let mut other = state();
        other.trusted_cas.reverse();
        other.topology_digest.clear();
        assert_eq!(judge(&state(), &other), []);
    }

    #[test]
    fn each_difference_is_named_with_both_sides_but_credentials_are_not_shown() {
        let other = NodeState {
            config_digest: vec![0x11; 32].into(),
            credentials_proof: vec![0x22; 32].into(),
            topology_digest: vec![0x33; 32].into(),
            trusted_cas: vec![vec![0x44; 32].into()],
            ..NodeState::default()
        };
        let said = judge(&state(), &other).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for word in ["1111111111111111, here 0101010101010101", "4444444444444444, here 0404040404040404 05"]
        {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(said.contains("3333333333333333, here 0303030303030303"), "{said}");
        assert!(said.contains("credentials") && !said.contains("2222") && !said.contains("0202"), "{said}");
    }
}
