//! An accepted connection: bytes of a verified peer, and who it is.
//!
//! tonic puts [`ConnectedPeer`] into the extensions of each request that arrives over it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sherd_trust::PeerIdentity;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// A connection of a peer whose certificate was verified.
#[derive(Debug)]
pub struct AcceptedStream {
    /// The peer at the other end.
    pub peer: PeerIdentity,
    /// The generation of the certificates that verified it.
    pub generation: u64,
    stream: TlsStream<TcpStream>,
}

/// The sender of a request: in the request's extensions.
#[derive(Debug, Clone)]
pub struct ConnectedPeer(Arc<PeerIdentity>);

impl ConnectedPeer {
    /// Wraps the identity of a peer, for calls that come from no connection.
    pub fn new(identity: PeerIdentity) -> Self {
        Self(Arc::new(identity))
    }

    /// Returns the peer's name, role and cluster.
    pub fn identity(&self) -> &PeerIdentity {
        &self.0
    }
}

impl AcceptedStream {
    pub(crate) fn new(peer: PeerIdentity, generation: u64, stream: TlsStream<TcpStream>) -> Self {
        Self { peer, generation, stream }
    }
}

impl Connected for AcceptedStream {
    type ConnectInfo = ConnectedPeer;

    fn connect_info(&self) -> ConnectedPeer {
        ConnectedPeer::new(self.peer.clone())
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
