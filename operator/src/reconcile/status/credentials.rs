//! Whether the nodes accept the root credentials that they shall: by the proofs in their answers.

use crate::reconcile::nodes::NodeAnswers;
use crate::reconcile::words::listed;

/// Names the nodes that answer, and accept other pairs than those that they shall.
pub(super) fn loading(answers: &NodeAnswers, credentials_proofs: &[[u8; 32]]) -> Option<String> {
    if credentials_proofs.is_empty() {
        return None;
    }
    let behind = answers.iter().filter_map(|(pod, answer)| {
        // A node of an older build reports none.
        let reply = answer.as_ref().ok().filter(|reply| !reply.credentials_proofs.is_empty())?;
        (!are(&reply.credentials_proofs, credentials_proofs)).then_some(pod.as_str())
    });
    let behind: Vec<&str> = behind.collect();
    (!behind.is_empty()).then(|| {
        format!("nodes that do not accept what it says now, until they have loaded it: {}", listed(&behind))
    })
}

fn are(proofs: &[impl AsRef<[u8]>], wanted: &[[u8; 32]]) -> bool {
    proofs.len() == wanted.len() && proofs.iter().zip(wanted).all(|(proof, wanted)| proof.as_ref() == wanted)
}
