//! Roles that may call each method, by the certificate of the connection.
//!
//! A method that is not listed is refused, a new one as well. Called for every request
//! before a service sees it.

use tonic::Status;

use crate::tls::{PeerIdentity, Role};

const NODE: &[Role] = &[Role::Node];
const ORDERS: &[Role] = &[Role::Operator, Role::Admin];
const ALL: &[Role] = &[Role::Node, Role::Operator, Role::Admin];

const METHODS: [(&str, &[Role]); 16] = [
    ("/sherd.v1.RegisterService/Calls", NODE),
    ("/sherd.v1.ShardService/Calls", NODE),
    ("/sherd.v1.ShardService/Put", NODE),
    ("/sherd.v1.ShardService/Write", NODE),
    ("/sherd.v1.ShardService/Read", NODE),
    ("/sherd.v1.UpkeepService/Calls", NODE),
    ("/sherd.v1.AdminService/Ping", ALL),
    ("/sherd.v1.AdminService/Topology", ALL),
    ("/sherd.v1.AdminService/Status", ALL),
    ("/sherd.v1.AdminService/Form", NODE),
    ("/sherd.v1.AdminService/ForgetBucket", NODE),
    ("/sherd.v1.AdminService/ForgetIam", NODE),
    ("/sherd.v1.AdminService/RevokeKey", NODE),
    ("/sherd.v1.AdminService/ReplaceVolume", ORDERS),
    ("/sherd.v1.AdminService/Vouch", ORDERS),
    ("/sherd.v1.AdminService/Call", ORDERS),
];

/// Judges whether the peer may call the method at `path`; `nodes` are the names of the configured ones.
///
/// # Errors
/// `PERMISSION_DENIED`, naming role and method.
pub(super) fn judge(path: &str, peer: &PeerIdentity, nodes: &[String]) -> Result<(), Status> {
    let roles = METHODS.iter().find(|(method, _)| *method == path).map_or(&[][..], |(_, roles)| roles);
    let PeerIdentity { name, role, .. } = peer;
    if *role == Role::Node && !nodes.contains(name) {
        return Err(Status::permission_denied(format!("{name} is no node of the configuration here")));
    }
    if roles.contains(role) {
        return Ok(());
    }
    Err(Status::permission_denied(format!("{name} has the role {role}, which may not call {path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    use prost::Message;
    use sherd_core::id::ClusterId;

    fn identity(role: Role) -> PeerIdentity {
        PeerIdentity { name: "x".to_owned(), role, cluster: ClusterId([1; 16]) }
    }

    #[test]
    fn orders_are_for_operators_and_shards_for_nodes() {
        let refused = |path, role| judge(path, &identity(role), &["x".to_owned()]).is_err();
        assert!(!refused("/sherd.v1.AdminService/Vouch", Role::Operator));
        assert!(refused("/sherd.v1.AdminService/Vouch", Role::Node));
        assert!(!refused("/sherd.v1.ShardService/Put", Role::Node));
        assert!(refused("/sherd.v1.ShardService/Put", Role::Admin));
        assert!(refused("/sherd.v1.AdminService/Unheard", Role::Admin));
        let status = judge("/sherd.v1.ShardService/Put", &identity(Role::Admin), &[]).expect_err("refused");
        assert!(status.message().contains("admin") && status.message().contains("ShardService/Put"));
    }

    #[test]
    fn a_node_that_is_not_configured_may_call_nothing() {
        let status = judge("/sherd.v1.AdminService/Ping", &identity(Role::Node), &["n1".to_owned()]);
        let why = status.expect_err("refused");
        assert!(why.message().contains("x is no node of the configuration"), "{}", why.message());
        assert!(judge("/sherd.v1.AdminService/Ping", &identity(Role::Operator), &[]).is_ok());
    }

    #[test]
    fn every_method_of_the_services_has_its_roles() {
        let files = prost_types::FileDescriptorSet::decode(sherd_proto::DESCRIPTORS).expect("descriptors");
        let mut paths: Vec<_> = files
            .file
            .iter()
            .flat_map(|file| file.service.iter().map(move |service| (file, service)))
            .flat_map(|(file, service)| {
                service
                    .method
                    .iter()
                    .map(move |method| format!("/{}.{}/{}", file.package(), service.name(), method.name()))
            })
            .collect();
        let mut listed: Vec<_> = METHODS.iter().map(|(method, _)| (*method).to_owned()).collect();
        paths.sort_unstable();
        listed.sort_unstable();
        assert_eq!(paths, listed);
    }
}
