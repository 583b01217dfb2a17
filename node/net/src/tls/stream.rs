//! An accepted connection: bytes of a verified peer, and who it is.
//!
//! tonic puts [`ConnectedPeer`] into the extensions of each request that arrives over it.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sherd_trust::PeerIdentity;
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// The socket below a connection between nodes.
pub(crate) type Socket = BufReader<TcpStream>;
/// A connection to a node whose certificate was verified.
pub type DialledStream = tokio_rustls::client::TlsStream<Socket>;

/// A connection of a peer whose certificate was verified.
#[derive(Debug)]
pub struct AcceptedStream {
    /// The peer at the other end.
    pub peer: PeerIdentity,
    /// The generation of the certificates that verified it.
    pub generation: u64,
    stream: TlsStream<Socket>,
}

/// The sender of a request: in the request's extensions.
#[derive(Debug, Clone)]
pub struct ConnectedPeer {
    identity: Arc<PeerIdentity>,
    address: Option<IpAddr>,
}

impl ConnectedPeer {
    /// A peer with this certificate, at an address if its connection has one.
    pub fn new(identity: PeerIdentity, address: Option<IpAddr>) -> Self {
        Self { identity: Arc::new(identity), address: address.map(|address| address.to_canonical()) }
    }

    /// Returns the peer's name, role and cluster.
    pub fn identity(&self) -> &PeerIdentity {
        &self.identity
    }

    /// The address that the peer connected from; one of IPv4 is never written as one of IPv6.
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }
}

impl AcceptedStream {
    pub(crate) fn new(peer: PeerIdentity, generation: u64, stream: TlsStream<Socket>) -> Self {
        Self { peer, generation, stream }
    }
}

impl Connected for AcceptedStream {
    type ConnectInfo = ConnectedPeer;

    fn connect_info(&self) -> ConnectedPeer {
        let address = self.stream.get_ref().0.get_ref().peer_addr().ok().map(|address| address.ip());
        ConnectedPeer::new(self.peer.clone(), address)
    }
}

impl AsyncRead for AcceptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for AcceptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
