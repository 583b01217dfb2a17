//! The client's end of a connection, in clear or over TLS, on a socket that may not block.
//!
//! With TLS a socket is read and written in large pieces, and bytes are held on both ways: what was encrypted
//! and not sent ([`ClientStream::push`]), and what was read and not decrypted
//! ([`ClientStream::holds_bytes`]), of which no poll of the socket says anything.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::authority::TlsTrust;

/// Bytes that one call takes from a socket.
const READ_BYTES: usize = 256 << 10;
/// Bytes that are encrypted before they are sent.
const WRITE_BYTES: usize = 256 << 10;

/// A connection to a store.
#[derive(Debug)]
pub enum ClientStream {
    /// In clear.
    Clear(TcpStream),
    /// Over TLS.
    Tls(Box<TlsClient>),
}

/// A connection over TLS.
#[derive(Debug)]
pub struct TlsClient {
    socket: TcpStream,
    session: ClientConnection,
    /// Bytes that were read, from `begin` to `end` not decrypted yet.
    read: Vec<u8>,
    begin: usize,
    end: usize,
}

impl ClientStream {
    /// Connects, and does the handshake if there is a `trust`. The socket blocks, for `timeout` at most.
    ///
    /// # Errors
    /// The socket's error, or that of the handshake.
    pub fn connect(address: SocketAddr, trust: Option<&TlsTrust>, timeout: Duration) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, timeout)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let Some(TlsTrust(config)) = trust else { return Ok(Self::Clear(socket)) };
        let name = ServerName::from(address.ip());
        let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        let mut client = TlsClient { socket, session, read: vec![0; READ_BYTES], begin: 0, end: 0 };
        while client.session.is_handshaking() {
            client.session.complete_io(&mut client.socket)?;
        }
        client.session.set_buffer_limit(Some(WRITE_BYTES));
        Ok(Self::Tls(Box::new(client)))
    }

    /// Makes calls return instead of waiting.
    ///
    /// # Errors
    /// As the system says.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        self.socket().set_nonblocking(true)
    }

    /// Sends what is held; whether nothing is left.
    ///
    /// # Errors
    /// The socket's error.
    pub fn push(&mut self) -> io::Result<bool> {
        match self {
            Self::Clear(_) => Ok(true),
            Self::Tls(client) => client.push(),
        }
    }

    /// Whether bytes were read from the socket that no read has given yet.
    pub fn holds_bytes(&self) -> bool {
        match self {
            Self::Clear(_) => false,
            Self::Tls(client) => client.begin < client.end,
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Clear(socket) => socket,
            Self::Tls(client) => &client.socket,
        }
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl Read for ClientStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.read(buffer),
            Self::Tls(client) => client.read(buffer),
        }
    }
}

impl Write for ClientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.write_vectored(slices),
            Self::Tls(client) => client.write(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsClient {
    fn push(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.push()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.session.writer().write_vectored(slices)?;
        self.push()?;
        Ok(taken)
    }

    /// Gives what one read of the socket brought, as far as it fits.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            match self.session.reader().read(&mut buffer[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The end without a farewell: a store that closes a connection.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(filled),
                Err(error) => return Err(error),
            }
            if filled == buffer.len() {
                return Ok(filled);
            }
            if self.begin < self.end {
                self.begin += self.session.read_tls(&mut &self.read[self.begin..self.end])?;
                self.session.process_new_packets().map_err(io::Error::other)?;
            } else if filled > 0 {
                return Ok(filled);
            } else {
                (self.begin, self.end) = (0, self.socket.read(&mut self.read)?);
                if self.end == 0 {
                    // Notes the end of the connection.
                    self.session.read_tls(&mut io::empty())?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
