//! Names of peers, as certificates carry them.
//!
//! ```text
//! n1.node.6a0812f15d1e119c43c3e498e22f294a.sherd
//! |  |    |                                |
//! |  role cluster id                       fixed suffix
//! name: one DNS label
//! ```
//!
//! The dialler passes the whole name as TLS server name, so WebPKI verification compares it; the server reads
//! role and name from the client's certificate. Every text has one meaning: parsing what was written gives
//! the same identity, and anything else is refused.

use std::fmt;
use std::str::FromStr;

use sherd_core::id::ClusterId;

use crate::limits;

/// The last label of every name.
const SUFFIX: &str = "sherd";

/// Says which calls a peer may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Stores and serves: shards, registers, upkeep.
    Node,
    /// Runs the cluster: status, topology, orders.
    Operator,
    /// A person with a command line: as an operator.
    Admin,
}

impl Role {
    /// Every role, in the order in which they are listed to a person.
    pub const ALL: [Self; 3] = [Self::Node, Self::Operator, Self::Admin];

    /// Returns the label in a name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = InvalidIdentity;

    fn from_str(text: &str) -> Result<Self, InvalidIdentity> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(InvalidIdentity::Role)
    }
}

/// The holder of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIdentity {
    /// The configured name of a node, or the name that `ca issue` was given.
    pub name: String,
    /// Role, which decides the calls that it may make.
    pub role: Role,
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
}

/// Says why a text names no peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentity {
    /// Other parts than the scheme's.
    #[error("not <name>.<role>.<cluster id>.{SUFFIX}")]
    Form,
    /// The first label.
    #[error(
        "a name is 1 to {max} lower-case letters, digits and '-', with no '-' at either end",
        max = limits::NAME_LEN_MAX
    )]
    Name,
    /// The second label.
    #[error("a role is node, operator or admin")]
    Role,
    /// The third label.
    #[error("a cluster id is 32 lower-case hex digits")]
    Cluster,
}

impl PeerIdentity {
    /// Names a peer.
    ///
    /// # Errors
    /// [`InvalidIdentity::Name`] when the name is not one DNS label.
    pub fn new(name: &str, role: Role, cluster: ClusterId) -> Result<Self, InvalidIdentity> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=limits::NAME_LEN_MAX).contains(&name.len());
        if !fits || !name.bytes().all(plain) || name.starts_with('-') || name.ends_with('-') {
            return Err(InvalidIdentity::Name);
        }
        Ok(Self { name: name.to_owned(), role, cluster })
    }

    /// Writes the one DNS name of the peer's certificate.
    pub fn dns_name(&self) -> String {
        let Self { name, role, cluster } = self;
        format!("{name}.{role}.{cluster}.{SUFFIX}")
    }

    /// Parses a DNS name as [`Self::dns_name`] writes it.
    ///
    /// # Errors
    /// [`InvalidIdentity`] names the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, InvalidIdentity> {
        let labels: Vec<&str> = text.splitn(5, '.').collect();
        let [name, role, cluster, SUFFIX] = labels[..] else { return Err(InvalidIdentity::Form) };
        let is_lower = cluster.bytes().all(|byte| !byte.is_ascii_uppercase());
        let parsed = ClusterId::parse(cluster).ok().filter(|_| is_lower);
        Self::new(name, role.parse()?, parsed.ok_or(InvalidIdentity::Cluster)?)
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dns_name())
    }
}

pub(crate) fn domain(cluster: ClusterId) -> String {
    format!("{cluster}.{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLUSTER: ClusterId = ClusterId([0x6a; 16]);

    #[test]
    fn a_name_reads_as_it_was_written() {
        let identity = PeerIdentity::new("n1", Role::Node, CLUSTER).expect("a name");
        assert_eq!(identity.dns_name(), format!("n1.node.{}.sherd", "6a".repeat(16)));
        for role in Role::ALL {
            let identity = PeerIdentity { role, ..identity.clone() };
            assert_eq!(PeerIdentity::parse(&identity.dns_name()), Ok(identity));
        }
    }

    #[test]
    fn each_wrong_part_is_named() {
        let id = "6a".repeat(16);
        for (text, error) in [
            (format!("n1.node.{id}.other"), InvalidIdentity::Form),
            (format!("n1.node.{id}"), InvalidIdentity::Form),
            (format!("a.n1.node.{id}.sherd"), InvalidIdentity::Form),
            (format!("n1.node.{id}.sherd."), InvalidIdentity::Form),
            (String::new(), InvalidIdentity::Form),
            (format!("N1.node.{id}.sherd"), InvalidIdentity::Name),
            (format!("*.node.{id}.sherd"), InvalidIdentity::Name),
            (format!(".node.{id}.sherd"), InvalidIdentity::Name),
            (format!("-n1.node.{id}.sherd"), InvalidIdentity::Name),
            (format!("{}.node.{id}.sherd", "n".repeat(64)), InvalidIdentity::Name),
            (format!("n1.root.{id}.sherd"), InvalidIdentity::Role),
            (format!("n1.Node.{id}.sherd"), InvalidIdentity::Role),
            (format!("n1.node.{}.sherd", id.to_uppercase()), InvalidIdentity::Cluster),
            ("n1.node.6a.sherd".to_owned(), InvalidIdentity::Cluster),
        ] {
            assert_eq!(PeerIdentity::parse(&text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_that_parses_is_the_only_one_of_its_identity(text in "[a-zA-Z0-9.*-]{0,80}|[a-z0-9-]{1,9}[.](node|admin)[.][0-9a-f]{32}[.]sherd") {
            if let Ok(identity) = PeerIdentity::parse(&text) {
                prop_assert_eq!(identity.dns_name(), text);
            }
        }
    }
}
