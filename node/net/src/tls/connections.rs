//! Handshakes: a TCP connection becomes one of a verified peer, on either side, within a limit.
//!
//! Each handshake is done with the files of its moment. With TLS 1.3 a client's part ends before the server
//! has verified the client's certificate: a refusal reaches the client with its first read, and
//! [`HandshakeFailure::from_io`] reads it off that.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use sherd_trust::PeerIdentity;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::tls::Trust;
use crate::tls::error::{AcceptError, ConnectError, HandshakeFailure};
use crate::tls::limits;
use crate::tls::material::ALPN;
use crate::tls::stream::{AcceptedStream, DialledStream, Socket};
use crate::tls::verify::{Expectation, PeerVerifier};

impl Trust {
    /// Does the server's side of a handshake: the client must be a peer of this cluster, in any role.
    ///
    /// # Errors
    /// [`AcceptError`], which the listener logs through a [`RefusalLog`](crate::tls::RefusalLog).
    pub async fn accept(&self, stream: TcpStream) -> Result<AcceptedStream, AcceptError> {
        let loaded = self.loaded();
        let material = &loaded.material;
        let webpki = Arc::clone(&material.clients);
        let peer = Arc::new(PeerVerifier::new(webpki, self.own().cluster, Expectation::AnyPeer));
        let config = material.server_config(Arc::clone(&peer));
        // Small calls must not wait for more bytes. A connection without the option still works.
        let _slower = stream.set_nodelay(true);
        let handshake = TlsAcceptor::from(Arc::new(config)).accept(read_ahead(stream));
        let accepted = timeout(limits::ACCEPT_TIMEOUT, handshake).await;
        let accepted = accepted.map_err(|_| AcceptError::TimedOut)?;
        let mut stream =
            accepted.map_err(|error| AcceptError::Handshake(peer.name(HandshakeFailure::from_io(error))))?;
        stream.get_mut().1.set_buffer_limit(Some(limits::RECORDS_BYTES_MAX));
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(AcceptError::Handshake(HandshakeFailure::Protocol));
        }
        let identity = peer.identity().ok_or(AcceptError::Handshake(HandshakeFailure::NoCertificate))?;
        Ok(AcceptedStream::new(identity, loaded.generation, stream))
    }

    /// Connects to `expected` at `address`, `host:port`: resolves it, tries its addresses in turn, and
    /// verifies that the host there is `expected`.
    ///
    /// # Errors
    /// [`ConnectError`] says how far it came.
    pub async fn connect(
        &self,
        address: &str,
        expected: &PeerIdentity,
    ) -> Result<DialledStream, ConnectError> {
        let dialled = self.dial(address, Expectation::Named(expected.clone())).await?;
        Ok(dialled.0)
    }

    /// Connects to the node at `address`, under any name of this cluster, and returns its identity: for a
    /// command line that is given an address.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_any_node(
        &self,
        address: &str,
    ) -> Result<(DialledStream, PeerIdentity), ConnectError> {
        self.dial(address, Expectation::AnyNode).await
    }

    async fn dial(
        &self,
        address: &str,
        expected: Expectation,
    ) -> Result<(DialledStream, PeerIdentity), ConnectError> {
        let deadline = Instant::now() + limits::CONNECT_TIMEOUT;
        let resolved = timeout_at(deadline, tokio::net::lookup_host(address)).await;
        let resolved = resolved.map_err(|_| ConnectError::TimedOut { address: address.to_owned() })?;
        let resolve = |source| ConnectError::Resolve { address: address.to_owned(), source };
        let addresses: Vec<_> = resolved.map_err(resolve)?.take(limits::ADDRESSES_MAX).collect();
        let mut last = resolve(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        for (index, &socket) in addresses.iter().enumerate() {
            // Each address gets its share of the time that is left: a silent one must not take it all.
            let left = deadline.saturating_duration_since(Instant::now());
            let shares = u32::try_from(addresses.len() - index).unwrap_or(1);
            match timeout(left / shares, self.handshake(address, socket, &expected)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => last = error,
                Err(_) => last = ConnectError::TimedOut { address: address.to_owned() },
            }
        }
        Err(last)
    }

    async fn handshake(
        &self,
        address: &str,
        socket: SocketAddr,
        expected: &Expectation,
    ) -> Result<(DialledStream, PeerIdentity), ConnectError> {
        let failed = |failure| ConnectError::Handshake { address: address.to_owned(), failure };
        let stream = TcpStream::connect(socket).await;
        let stream =
            stream.map_err(|source| ConnectError::Connect { address: address.to_owned(), source })?;
        // Small calls must not wait for more bytes. A connection without the option still works.
        let _slower = stream.set_nodelay(true);
        let loaded = self.loaded();
        let material = &loaded.material;
        let webpki = Arc::clone(&material.servers);
        let peer = Arc::new(PeerVerifier::new(webpki, self.own().cluster, expected.clone()));
        let config = material.client_config(Arc::clone(&peer));
        let name = match expected {
            Expectation::Named(expected) => expected.dns_name(),
            // A server has one certificate and shows it for every name.
            Expectation::AnyNode | Expectation::AnyPeer => self.own().dns_name(),
        };
        let name = ServerName::try_from(name);
        let invalid = |_| failed(HandshakeFailure::Tls(rustls::Error::General("no DNS name".to_owned())));
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name.map_err(invalid)?, read_ahead(stream)).await;
        let mut stream = stream.map_err(|error| failed(peer.name(HandshakeFailure::from_io(error))))?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(failed(HandshakeFailure::Protocol));
        }
        let identity = peer.identity().ok_or_else(|| failed(HandshakeFailure::NoCertificate))?;
        stream.get_mut().1.set_buffer_limit(Some(limits::RECORDS_BYTES_MAX));
        Ok((stream, identity))
    }
}

/// rustls reads 4 KiB at a time: those come from memory.
fn read_ahead(stream: TcpStream) -> Socket {
    BufReader::with_capacity(limits::READ_AHEAD_BYTES, stream)
}
