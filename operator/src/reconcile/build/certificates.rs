//! How a pod gets its certificate and the CAs that it trusts, out of the one Secret of its pool.
//!
//! A pod of a pool of several nodes sees the CAs, in a directory that follows the Secret, and two files: its
//! own certificate and key. A container keeps a file that is mounted by itself as it was when it started, so
//! a certificate that is issued again is another template. The only pod of a pool may see the whole Secret,
//! which has its key alone: it takes up another certificate without a restart.

use serde_json::{Value, json};

use super::parts::ChildParts;
use crate::names;

/// The files of a pod with its certificate and its key, as its environment names them.
pub(super) struct OwnFiles {
    pub(super) certificate: &'static str,
    pub(super) key: &'static str,
}

/// Whether each pod mounts its own certificate alone.
pub(super) fn are_apart(parts: &ChildParts<'_>) -> bool {
    parts.valid.pool().nodes > 1
}

/// The files that a node reads.
pub(super) fn own_files(parts: &ChildParts<'_>) -> OwnFiles {
    if are_apart(parts) {
        OwnFiles { certificate: "/certificate/node.crt", key: "/certificate/node.key" }
    } else {
        OwnFiles { certificate: "/certs/$(POD_NAME).crt", key: "/certs/$(POD_NAME).key" }
    }
}

/// The volumes of a pod.
pub(super) fn volumes(parts: &ChildParts<'_>) -> Vec<Value> {
    let name = parts.valid.names().certificates(&parts.valid.pool().name);
    // The process reads them as its group; others cannot, which the node insists on.
    let secret = json!({"secretName": name, "defaultMode": 0o440});
    let whole = |volume: &str| json!({"name": volume, "secret": secret});
    if !are_apart(parts) {
        return vec![whole("certs")];
    }
    let mut authorities = whole("certs");
    authorities["secret"]["items"] = json!([{"key": names::CA_CERTIFICATE, "path": names::CA_CERTIFICATE}]);
    vec![authorities, whole("certificate")]
}

/// The mounts of a container.
pub(super) fn mounts(parts: &ChildParts<'_>) -> Vec<Value> {
    let mut mounts = vec![json!({"name": "certs", "mountPath": "/certs", "readOnly": true})];
    if are_apart(parts) {
        let OwnFiles { certificate, key } = own_files(parts);
        mounts.extend([(certificate, "crt"), (key, "key")].map(|(path, ending)| {
            let file = format!("$(POD_NAME).{ending}");
            json!({"name": "certificate", "mountPath": path, "subPathExpr": file, "readOnly": true})
        }));
    }
    mounts
}
