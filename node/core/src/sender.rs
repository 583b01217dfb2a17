//! The senders among whom bounds are shared out: networks and not addresses.
//!
//! A host of IPv6 has a /64 at the least, and takes a new one of its 2^64 addresses for each connection
//! (RFC 4291, section 2.5.4; RFC 8981). A bound for each address would bound nothing. Used wherever what one
//! sender takes is weighed against what others do: places of connections and handshakes, and lanes of
//! unproven work.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Bits of an address of IPv6 by which senders differ.
const IPV6_BITS: u8 = 64;

/// An address of IPv4, or the /64 of one of IPv6. An IPv4-mapped address of IPv6 is one of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderNetwork(IpAddr);

impl SenderNetwork {
    /// The network of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - IPV6_BITS))))
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl fmt::Display for SenderNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(network) => write!(f, "{network}/{IPV6_BITS}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_slash_64_are_one_sender_and_mapped_ones_are_those_of_ipv4() {
        let of = |text: &str| SenderNetwork::of(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("::ffff:192.0.2.1"), of("::ffff:192.0.2.2"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        let shown = ["2001:db8:1:2::7", "::ffff:192.0.2.1", "192.0.2.1"].map(|text| of(text).to_string());
        assert_eq!(shown, ["2001:db8:1:2::/64", "192.0.2.1", "192.0.2.1"]);
    }
}
