//! Nodes that store together, and the one among them that this process is.
//!
//! Table `[cluster]` is the same on every node but for `node`, `cert` and `key`. The order of the nodes
//! counts (the first one forms the cluster), their addresses may change, and several nodes need
//! certificates. [`ClusterConfig`] is valid as a whole: `Config::resolve` makes it, peers and formation
//! read it.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sherd_core::id::ClusterId;
use sherd_core::limits::NODES_MAX;

use super::pattern::{self, InvalidPattern};
use super::settings::ClusterSettings;
use crate::process::config::limits::{HOST_BYTES_MAX, LABEL_BYTES_MAX};
use sherd_store::machine::quantity::Period;

/// The name of a cluster that is given none.
const NAME: &str = "sherd";
/// How long connections live where that is not said, and at most: a certificate or an authority that is
/// replaced since it must no longer be trusted is out of use as much later.
const RECONNECT_AFTER: Period = Period(Duration::from_hours(1));
/// Calls that are under way when a connection is renewed have half of it, and a small one takes up to 5 s.
const RECONNECT_AFTER_MIN: Period = Period(Duration::from_secs(20));

/// A cluster, as it is configured on one of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Id of the cluster; certificates and volumes carry it.
    pub id: ClusterId,
    /// Name of the cluster, for people.
    pub name: String,
    /// Nodes of the cluster in order.
    pub nodes: Vec<NodeAddress>,
    /// The ordinal of this node among them.
    pub node: usize,
    /// Volumes of one set, where that is asked for.
    pub set_size: Option<usize>,
    /// Certificates; nothing only where there is one node.
    pub files: Option<ClusterFiles>,
    /// Where this node serves its peers.
    pub node_listen: SocketAddr,
    /// The age at which connections between nodes have ended.
    pub reconnect_after: Duration,
}

/// A node, and where its peers find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// A DNS label.
    pub name: String,
    /// Host and port.
    pub address: String,
}

/// Absolute paths of the certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFiles {
    /// Of the authority that signed every node's certificate.
    pub ca: PathBuf,
    /// This node's certificate.
    pub cert: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
}

impl ClusterConfig {
    /// Returns this node.
    ///
    /// # Panics
    /// Never: the ordinal was found in the list.
    pub fn own(&self) -> &NodeAddress {
        &self.nodes[self.node]
    }
}

/// Why table `[cluster]` names no cluster.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCluster {
    /// A key of a cluster without the rest of it.
    #[error("missing: a cluster needs `cluster.id` and `cluster.nodes`")]
    Missing,
    /// A listener for other nodes, and no cluster.
    #[error("there is no table [cluster], and so no node that would connect")]
    Alone,
    /// No id.
    #[error("{id:?} is not the id of a cluster: 32 hex digits, as `sherd-node ca init` prints them")]
    Id {
        /// The id as written.
        id: String,
    },
    /// No label of a DNS name.
    #[error("{name:?} is not a name: 1 to 63 lower-case letters, digits and '-', neither first nor last")]
    Name {
        /// The name as written or expanded.
        name: String,
    },
    /// Without `@`, or with nothing on one side.
    #[error("{node:?} is not written name@host:port")]
    Node {
        /// The node as written.
        node: String,
    },
    /// Braces without a numeric range in them.
    #[error("{node:?}: {why}")]
    Pattern {
        /// The node as written.
        node: String,
        /// The fault.
        why: InvalidPattern,
    },
    /// The two patterns differ in length.
    #[error("{node:?} stands for {names} names and {addresses} addresses")]
    Unequal {
        /// The node as written.
        node: String,
        /// On the left.
        names: usize,
        /// On the right.
        addresses: usize,
    },
    /// No host and port.
    #[error("{address:?} is not an address: host:port, the port above 0")]
    Address {
        /// The address as expanded.
        address: String,
    },
    /// One name or address twice.
    #[error("{text} is named twice")]
    Twice {
        /// The text as expanded.
        text: String,
    },
    /// More than a cluster can have, or none.
    #[error("{count} nodes are not 1 to {NODES_MAX}")]
    Count {
        /// The number as expanded.
        count: usize,
    },
    /// This node is not among them.
    #[error("{name:?} is not one of the nodes: {}", known.join(", "))]
    Unknown {
        /// The name as written.
        name: String,
        /// Up to eight of those there are.
        known: Vec<String>,
    },
    /// This node is not named, and there are several.
    #[error("missing: which of the {count} nodes is this one")]
    Unnamed {
        /// How many there are.
        count: usize,
    },
    /// Some of the three files without the others, or several nodes without any.
    #[error(
        "missing: several nodes need `cluster.ca`, `cluster.cert` and `cluster.key`; one node may have none of them"
    )]
    Files,
    /// Connections would live too long, or end before their calls.
    #[error("{value} is not within {RECONNECT_AFTER_MIN} to {RECONNECT_AFTER}")]
    ReconnectAfter {
        /// The value as written.
        value: Period,
    },
    /// A relative path, and no directory from which it counts.
    #[error("{path}: {source}", path = path.display())]
    Path {
        /// The path as written.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Judges table `[cluster]` and the address for the nodes.
///
/// # Errors
/// [`InvalidCluster`] and the key that has to change.
pub fn judge(
    settings: ClusterSettings,
    node_listen: Option<SocketAddr>,
) -> Result<Option<ClusterConfig>, (&'static str, InvalidCluster)> {
    // A node alone may have it, too; it is judged with the hot keys.
    let settings = ClusterSettings { formed: None, ..settings };
    if settings == ClusterSettings::default() {
        return node_listen.map_or(Ok(None), |_| Err(("node_listen", InvalidCluster::Alone)));
    }
    let ClusterSettings { id, name, nodes, node, set_size, ca, cert, key, reconnect_after, formed: _ } =
        settings;
    let id = id.ok_or(("cluster.id", InvalidCluster::Missing))?;
    let id = ClusterId::parse(&id).map_err(|_| ("cluster.id", InvalidCluster::Id { id }))?;
    let name = name.unwrap_or_else(|| NAME.to_owned());
    if !is_label(&name) {
        return Err(("cluster.name", InvalidCluster::Name { name }));
    }
    let written = nodes.ok_or(("cluster.nodes", InvalidCluster::Missing))?;
    let nodes = expand(&written.0).map_err(|why| ("cluster.nodes", why))?;
    let node = ordinal(&nodes, node).map_err(|why| ("cluster.node", why))?;
    let files = match (ca, cert, key) {
        (None, None, None) if nodes.len() == 1 => None,
        (ca, cert, key) => Some(ClusterFiles {
            ca: absolute("cluster.ca", ca)?,
            cert: absolute("cluster.cert", cert)?,
            key: absolute("cluster.key", key)?,
        }),
    };
    let node_listen = node_listen.unwrap_or_else(|| default_listen(&nodes[node].address));
    let set_size = set_size.map(usize::from);
    let reconnect_after = reconnect_after.unwrap_or(RECONNECT_AFTER);
    if !(RECONNECT_AFTER_MIN..=RECONNECT_AFTER).contains(&reconnect_after) {
        let value = reconnect_after;
        return Err(("cluster.reconnect_after", InvalidCluster::ReconnectAfter { value }));
    }
    let reconnect_after = reconnect_after.0;
    Ok(Some(ClusterConfig { id, name, nodes, node, set_size, files, node_listen, reconnect_after }))
}

/// Makes a path absolute: a relative one counts from where the process was started, which it leaves.
fn absolute(key: &'static str, path: Option<PathBuf>) -> Result<PathBuf, (&'static str, InvalidCluster)> {
    let path = path.ok_or((key, InvalidCluster::Files))?;
    std::path::absolute(&path).map_err(|source| (key, InvalidCluster::Path { path, source }))
}

/// Expands `name@host:port`, each possibly a pattern, into the nodes in the order written.
///
/// # Errors
/// [`InvalidCluster`] for a text that cannot be a node, for a name or an address that stands twice, and for
/// too many.
pub fn expand(written: &[String]) -> Result<Vec<NodeAddress>, InvalidCluster> {
    let mut nodes = Vec::new();
    for node in written {
        let (names, addresses) =
            node.split_once('@').ok_or_else(|| InvalidCluster::Node { node: node.clone() })?;
        let expanded = |side| {
            pattern::expand(side, NODES_MAX)
                .map_err(|why| InvalidCluster::Pattern { node: node.clone(), why })
        };
        let (names, addresses) = (expanded(names)?, expanded(addresses)?);
        if names.len() != addresses.len() {
            let (names, addresses) = (names.len(), addresses.len());
            return Err(InvalidCluster::Unequal { node: node.clone(), names, addresses });
        }
        nodes.extend(names.into_iter().zip(addresses).map(|(name, address)| NodeAddress { name, address }));
        if nodes.len() > NODES_MAX {
            return Err(InvalidCluster::Count { count: nodes.len() });
        }
    }
    if nodes.is_empty() {
        return Err(InvalidCluster::Count { count: 0 });
    }
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for NodeAddress { name, address } in &nodes {
        if !is_label(name) {
            return Err(InvalidCluster::Name { name: name.clone() });
        }
        if !is_address(address) {
            return Err(InvalidCluster::Address { address: address.clone() });
        }
        for (seen, text) in [(&mut names, name), (&mut addresses, address)] {
            if !seen.insert(text.to_ascii_lowercase()) {
                return Err(InvalidCluster::Twice { text: text.clone() });
            }
        }
    }
    Ok(nodes)
}

fn ordinal(nodes: &[NodeAddress], own: Option<String>) -> Result<usize, InvalidCluster> {
    match own {
        None if nodes.len() == 1 => Ok(0),
        None => Err(InvalidCluster::Unnamed { count: nodes.len() }),
        Some(name) => nodes.iter().position(|node| node.name == name).ok_or_else(|| {
            let known = nodes.iter().take(8).map(|node| node.name.clone()).collect();
            InvalidCluster::Unknown { name, known }
        }),
    }
}

/// Says whether certificates can carry this text as one label of their name.
fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL_BYTES_MAX).contains(&text.len())
        && text.bytes().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_address(text: &str) -> bool {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return address.port() != 0 && !address.ip().is_unspecified();
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let label = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(plain);
    host.len() <= HOST_BYTES_MAX
        && host.strip_suffix('.').unwrap_or(host).split('.').all(label)
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// Returns all addresses of the machine, with the port that peers dial: a name may have addresses of both
/// families.
fn default_listen(address: &str) -> SocketAddr {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_default();
    let ip = match address.parse::<SocketAddr>() {
        Ok(SocketAddr::V4(_)) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(written: &[&str]) -> Vec<String> {
        let written: Vec<_> = written.iter().map(|&text| text.to_owned()).collect();
        let nodes = expand(&written).expect("nodes");
        nodes.into_iter().map(|NodeAddress { name, address }| format!("{name}@{address}")).collect()
    }

    fn refused(written: &[&str]) -> String {
        let written: Vec<_> = written.iter().map(|&text| text.to_owned()).collect();
        expand(&written).expect_err("no nodes").to_string()
    }

    #[test]
    fn patterns_of_names_and_addresses_run_together() {
        assert_eq!(
            expanded(&["n{1...3}@127.0.0.1:{9100...9102}"]),
            ["n1@127.0.0.1:9100", "n2@127.0.0.1:9101", "n3@127.0.0.1:9102"]
        );
        assert_eq!(
            expanded(&["s-{0...1}@s-{0...1}.s.store.svc:9100", "extra@[::1]:9"]),
            ["s-0@s-0.s.store.svc:9100", "s-1@s-1.s.store.svc:9100", "extra@[::1]:9"]
        );
    }

    #[test]
    fn what_is_no_node_is_refused_by_name() {
        for (written, expected) in [
            (vec!["n1"], "\"n1\" is not written name@host:port"),
            (vec!["n{1...2}@h{1...3}:1"], "stands for 2 names and 3 addresses"),
            (vec!["n{2...1}@h:1"], "a range is written {1...4}"),
            (vec!["n{1...2}@h:1"], "\"n{1...2}@h:1\" stands for 2 names and 1 addresses"),
            (vec!["N1@h:1"], "\"N1\" is not a name"),
            (vec!["-a@h:1"], "\"-a\" is not a name"),
            (vec!["a.b@h:1"], "\"a.b\" is not a name"),
            (vec!["a@h"], "\"h\" is not an address"),
            (vec!["a@h:0"], "\"h:0\" is not an address"),
            (vec!["a@h:+1"], "\"h:+1\" is not an address"),
            (vec!["a@0.0.0.0:1"], "\"0.0.0.0:1\" is not an address"),
            (vec!["a@:1"], "\":1\" is not an address"),
            (vec!["a@h h:1"], "\"h h:1\" is not an address"),
            (vec!["a@h:1", "a@h:2"], "a is named twice"),
            (vec!["a@h:1", "b@H:1"], "H:1 is named twice"),
            (vec!["a{1...2000}@h:{1...2000}"], "the ranges stand for too many"),
            (vec!["a{1...1024}@h:{1...1024}", "b@h:2000"], "1025 nodes are not 1 to 1024"),
            (vec![], "0 nodes are not 1 to 1024"),
        ] {
            let text = refused(&written);
            assert!(text.contains(expected), "{written:?}: {text}");
        }
    }

    #[test]
    fn a_node_listens_on_the_port_that_its_peers_dial() {
        assert_eq!(default_listen("s-0.s.svc:9100").to_string(), "[::]:9100");
        assert_eq!(default_listen("10.0.0.7:9100").to_string(), "0.0.0.0:9100");
        assert_eq!(default_listen("[::1]:9101").to_string(), "[::]:9101");
    }
}
