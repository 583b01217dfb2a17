//! Ports of the nodes of `dev --nodes`: consecutive ones, or free ones where port 0 is asked for.
//!
//! A node's peers must know its port before it starts, so a free port is found by binding it and letting it
//! go. Another process can take it in between; the node then fails and is started again.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// How far a node's port for its peers is from its S3 port.
const NODE_PORT_OFFSET: u16 = 100;
/// The port of the first node's query API of IAM.
const IAM_PORT: u16 = 9300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodePorts {
    pub(crate) s3: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) iam: SocketAddr,
    pub(crate) node: SocketAddr,
}

/// The nodes cannot have the ports that were asked for.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The last node's port would be above 65535.
    #[error("{count} consecutive ports do not fit after {first}")]
    Range {
        /// The first node's address.
        first: SocketAddr,
        /// How many nodes there are.
        count: u16,
    },
    /// Two listeners get one address.
    #[error(
        "{address} would be the address of two listeners: choose --listen, --admin-listen, --iam-listen and --node-listen farther apart"
    )]
    Twice {
        /// The address.
        address: SocketAddr,
    },
    /// No free port is found.
    #[error("find a free port on {ip}: {source}")]
    Free {
        /// Where.
        ip: IpAddr,
        /// The system's reason.
        source: io::Error,
    },
}

/// Where the first node of each kind of listener is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstPorts {
    pub(crate) s3: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) iam: Option<SocketAddr>,
    pub(crate) node: Option<SocketAddr>,
}

/// The address of the query API where none is given: a free one where S3 takes a free one.
pub(crate) fn iam_or_default(iam: Option<SocketAddr>, s3: SocketAddr) -> SocketAddr {
    iam.unwrap_or_else(|| SocketAddr::new(loopback(s3.ip()), if s3.port() == 0 { 0 } else { IAM_PORT }))
}

/// Chooses the addresses of `count` nodes.
///
/// # Errors
/// [`PortError`] where they do not fit.
pub(crate) fn choose(count: u16, first: FirstPorts) -> Result<Vec<NodePorts>, PortError> {
    let FirstPorts { s3, admin, iam, node } = first;
    let iam = iam_or_default(iam, s3);
    let node = match node {
        Some(node) => node,
        None if s3.port() == 0 => SocketAddr::new(loopback(s3.ip()), 0),
        None => {
            let range = PortError::Range { first: s3, count };
            let port = s3.port().checked_add(NODE_PORT_OFFSET).ok_or(range)?;
            SocketAddr::new(loopback(s3.ip()), port)
        }
    };
    // Held until every port is chosen, so that no free port is found twice.
    let mut held = Vec::new();
    let mut addresses = |first| consecutive_or_free(first, count, &mut held);
    let (s3, admin, iam, node) = (addresses(s3)?, addresses(admin)?, addresses(iam)?, addresses(node)?);
    let mut taken = HashSet::new();
    for &address in s3.iter().chain(&admin).chain(&iam).chain(&node) {
        if !taken.insert(address) {
            return Err(PortError::Twice { address });
        }
    }
    let nodes = s3.into_iter().zip(admin).zip(iam).zip(node);
    Ok(nodes.map(|(((s3, admin), iam), node)| NodePorts { s3, admin, iam, node }).collect())
}

fn consecutive_or_free(
    first: SocketAddr,
    count: u16,
    held: &mut Vec<TcpListener>,
) -> Result<Vec<SocketAddr>, PortError> {
    if first.port() == 0 {
        let free = |source| PortError::Free { ip: first.ip(), source };
        let mut find = || {
            let listener = TcpListener::bind(first)?;
            let address = listener.local_addr()?;
            held.push(listener);
            Ok(address)
        };
        return (0..count).map(|_| find().map_err(free)).collect();
    }
    if first.port().checked_add(count - 1).is_none() {
        return Err(PortError::Range { first, count });
    }
    Ok((0..count).map(|number| SocketAddr::new(first.ip(), first.port() + number)).collect())
}

const fn loopback(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn choose(
        count: u16,
        s3: SocketAddr,
        admin: SocketAddr,
        node: Option<SocketAddr>,
    ) -> Result<Vec<NodePorts>, PortError> {
        super::choose(count, FirstPorts { s3, admin, iam: None, node })
    }

    #[test]
    fn nodes_take_the_ports_after_the_first_ones() {
        let nodes = choose(2, address("0.0.0.0:9000"), address("127.0.0.1:9200"), None).expect("they fit");
        let second = NodePorts {
            s3: address("0.0.0.0:9001"),
            admin: address("127.0.0.1:9201"),
            iam: address("127.0.0.1:9301"),
            node: address("127.0.0.1:9101"),
        };
        assert_eq!((nodes.len(), nodes[1]), (2, second));
        let elsewhere = Some(address("127.0.0.1:7000"));
        let nodes = choose(3, address("[::1]:9000"), address("127.0.0.1:9200"), elsewhere).expect("they fit");
        assert_eq!(nodes[2].node, address("127.0.0.1:7002"));
    }

    #[test]
    fn free_ports_are_all_different() {
        let any = address("127.0.0.1:0");
        let nodes = choose(16, any, any, None).expect("there are that many");
        let ports: HashSet<_> =
            nodes.iter().flat_map(|node| [node.s3, node.admin, node.iam, node.node]).collect();
        assert_eq!(ports.len(), 64);
        assert!(ports.iter().all(|address| address.port() != 0 && address.ip().is_loopback()));
    }

    #[test]
    fn ports_that_do_not_fit_are_refused() {
        let admin = address("127.0.0.1:9200");
        let error =
            choose(8, address("127.0.0.1:65530"), admin, Some(address("127.0.0.1:1"))).expect_err("8 ports");
        assert!(matches!(error, PortError::Range { .. }), "{error}");
        let error = choose(1, address("127.0.0.1:65530"), admin, None).expect_err("100 above");
        assert!(matches!(error, PortError::Range { .. }), "{error}");
        let error = choose(4, address("127.0.0.1:9198"), admin, None).expect_err("9200 twice");
        assert!(matches!(error, PortError::Twice { address } if address.port() == 9200), "{error}");
    }
}
