//! The address of a client, and whether its bytes were encrypted: the peer's own, or as a trusted proxy says.
//!
//! ```text
//! client -> proxy (trusted) -> proxy (trusted) -> listener
//!           x-forwarded-for: client, proxy        the last address outside of the trusted networks
//! ```
//! A client can write both headers itself, so nothing before that address is read.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use ipnet::IpNet;
use sherd_front::audit::record::AuditRecord;
use sherd_front::source::Source;

use crate::audit::AuditLog;
use crate::server::limits::PROXIES_MAX;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The networks of the proxies whose word on their clients is taken. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Trusts every address in these networks.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// The source of a request from `peer`, on a connection with a version of TLS or without.
    pub(super) fn source(
        &self,
        peer: IpAddr,
        tls_version: Option<&'static str>,
        headers: &HeaderMap,
    ) -> Source {
        let peer = peer.to_canonical();
        let own = Source { address: peer, is_secure: tls_version.is_some(), tls_version };
        if !self.contain(peer) {
            return own;
        }
        let address = self.client(headers).unwrap_or(peer);
        match said_secure(headers) {
            Some(is_secure) => Source { address, is_secure, tls_version: None },
            None => Source { address, ..own },
        }
    }

    fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The last address outside of the trusted networks; the first one where all lie in them. `None` where an
    /// entry up to it cannot be read as an address, or there are too many.
    fn client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let mut first = None;
        for (count, entry) in entries(headers, &FORWARDED_FOR).enumerate() {
            let address = address_in(entry).filter(|_| count < PROXIES_MAX)?;
            if !self.contain(address) {
                return Some(address);
            }
            first = Some(address);
        }
        first
    }
}

/// The other side of a connection, as each request on it is introduced with.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// The version of TLS that the connection has.
    pub(super) tls_version: Option<&'static str>,
    pub(super) proxies: TrustedProxies,
    pub(super) audit: Option<ListenerAudit>,
}

/// The audit log, and the name in it of what a listener serves.
#[derive(Debug, Clone)]
pub(super) struct ListenerAudit {
    pub(super) log: AuditLog,
    pub(super) service: &'static str,
}

impl Peer {
    /// Adds the source of a request to its extensions, and its record, where there is an audit log.
    pub(super) fn introduce<B>(&self, request: &mut Request<B>) -> Option<AuditRecord> {
        let source = self.proxies.source(self.address.ip(), self.tls_version, request.headers());
        request.extensions_mut().insert(source);
        let ListenerAudit { log, service } = self.audit.as_ref()?;
        Some(log.begin(service, source, None, request))
    }
}

/// Whether the proxies say that the transport was secure; `None` where they say nothing.
fn said_secure(headers: &HeaderMap) -> Option<bool> {
    let mut said = None;
    for entry in entries(headers, &FORWARDED_PROTO) {
        said = Some(said != Some(false) && entry.eq_ignore_ascii_case(b"https"));
    }
    said
}

/// The entries of a list in a header, the last one first.
fn entries<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let values = headers.get_all(name).iter().rev().map(HeaderValue::as_bytes);
    let entries = values.flat_map(|value| value.rsplit(|byte| *byte == b','));
    entries.map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty())
}

/// The address in an entry, which may have a port, and brackets around one of IPv6.
fn address_in(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|with_port: SocketAddr| with_port.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a header"));
        }
        headers
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Proxies in 10.0.0.0/8 and fd00::/8.
    fn proxies() -> TrustedProxies {
        TrustedProxies::new(["10.0.0.0/8", "fd00::/8"].map(|text| text.parse().expect("a network")))
    }

    fn client(lines: &[&str]) -> String {
        let lines: Vec<_> = lines.iter().map(|value| ("x-forwarded-for", *value)).collect();
        proxies().source(ip("10.0.0.1"), None, &headers(&lines)).address.to_string()
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
        for (lines, expected) in [
            (&["203.0.113.9"][..], "203.0.113.9"),
            (&["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (&["192.0.2.7, 203.0.113.9 ,10.0.0.2,10.0.0.3"], "203.0.113.9"),
            (&["192.0.2.7", "203.0.113.9", "10.0.0.2"], "203.0.113.9"),
            (&["192.0.2.7, 203.0.113.9", "10.0.0.2, fd00::2"], "203.0.113.9"),
            (&["203.0.113.9:4711"], "203.0.113.9"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["[2001:db8::1]:4711, [fd00::3]:1"], "2001:db8::1"),
            (&["::ffff:203.0.113.9"], "203.0.113.9"),
            (&["203.0.113.9, ::ffff:10.0.0.2"], "203.0.113.9"),
            (&["203.0.113.9, ,,"], "203.0.113.9"),
            // All are proxies: the first one asked.
            (&["10.0.0.4, 10.0.0.2"], "10.0.0.4"),
        ] {
            assert_eq!(client(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn an_entry_that_is_no_address_makes_the_peer_count() {
        let many = vec!["10.0.0.2"; PROXIES_MAX].join(",");
        for lines in [
            &["unknown"][..],
            &["203.0.113.9, unknown, 10.0.0.2"],
            &["203.0.113.9, _hidden"],
            &["203.0.113.9, 10.0.0.2:"],
            &["203.0.113.9, 10.0.0.2:99999"],
            &["203.0.113.9, [fd00::2"],
            &["203.0.113.9, fd00::2]:1"],
            &["203.0.113.9, 10.0.0"],
            &["203.0.113.9, 010.0.0.2"],
            &["203.0.113.9", "\u{e4}"],
            &["for=203.0.113.9"],
            &["203.0.113.9", &many],
            &[""],
            &[],
        ] {
            assert_eq!(client(lines), "10.0.0.1", "{lines:?}");
        }
    }

    #[test]
    fn a_client_hides_its_address_behind_no_entry_of_its_own() {
        for forged in ["unknown", "10.0.0.9", "192.0.2.1, \u{e4}", "[", ","] {
            assert_eq!(client(&[forged, "203.0.113.9"]), "203.0.113.9", "{forged}");
        }
    }

    #[test]
    fn a_stranger_says_nothing_of_its_address_or_its_transport() {
        let said = headers(&[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https")]);
        let source = |proxies: TrustedProxies, peer, tls| proxies.source(ip(peer), tls, &said);
        let stranger = Source { address: ip("203.0.113.9"), is_secure: false, tls_version: None };
        assert_eq!(source(proxies(), "203.0.113.9", None), stranger);
        let encrypted = Source { is_secure: true, tls_version: Some("1.3"), ..stranger };
        assert_eq!(source(proxies(), "::ffff:203.0.113.9", Some("1.3")), encrypted);
        let nearest = Source { address: ip("10.0.0.1"), ..stranger };
        assert_eq!(source(TrustedProxies::default(), "10.0.0.1", None), nearest);
        let believed = Source { address: ip("192.0.2.1"), is_secure: true, tls_version: None };
        for tls in [None, Some("1.2")] {
            assert_eq!(source(proxies(), "::ffff:10.0.0.1", tls), believed, "the version is of the proxy");
        }
    }

    #[test]
    fn a_transport_is_secure_where_every_proxy_says_so() {
        for (lines, tls, expected) in [
            (&["https"][..], None, true),
            (&["HTTPS"], None, true),
            (&["https, https", " https"], None, true),
            (&["http"], Some("1.2"), false),
            (&["https, http"], Some("1.2"), false),
            (&["http, https"], Some("1.2"), false),
            (&["https", "wss"], Some("1.2"), false),
            (&["\u{e4}"], Some("1.2"), false),
            (&[], Some("1.2"), true),
            (&[","], None, false),
        ] {
            let lines: Vec<_> = lines.iter().map(|value| ("x-forwarded-proto", *value)).collect();
            let source = proxies().source(ip("10.0.0.1"), tls, &headers(&lines));
            assert_eq!(source.is_secure, expected, "{lines:?}");
        }
    }
}
