//! Listening sockets. `[::]` takes IPv4, too, with any setting of `net.ipv6.bindv6only`, so that one
//! address serves machines of IPv4, of IPv6 and of both; a machine without IPv6 listens on `0.0.0.0` instead.
//! Clients of IPv4 are then seen under mapped addresses, as `::ffff:10.0.0.7`: who compares addresses takes
//! `to_canonical`. Used by the listeners of `server` and of the cluster.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait in the kernel to be accepted; it takes fewer where `net.core.somaxconn` is below.
const BACKLOG: u32 = 1024;

/// Listens on an address; port 0 takes a free one.
///
/// # Errors
/// The system's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if address.is_ipv6() && address.ip().is_unspecified() {
        return listen_dual(dual_socket(), address);
    }
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    bind(socket?, address)
}

/// A socket for connections of both families.
fn dual_socket() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v6()?;
    SockRef::from(&socket).set_only_v6(false)?;
    Ok(socket)
}

/// Listens with the socket for both families, or on IPv4 where the system gave none.
fn listen_dual(socket: io::Result<TcpSocket>, address: SocketAddr) -> io::Result<TcpListener> {
    let missing = match socket {
        Ok(socket) => return bind(socket, address),
        Err(missing) => missing,
    };
    let instead = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    let listener = bind(TcpSocket::new_v4()?, instead)?;
    tracing::info!(%address, %instead, error = %missing, "this machine has no IPv6: listens on IPv4 alone");
    Ok(listener)
}

fn bind(socket: TcpSocket, address: SocketAddr) -> io::Result<TcpListener> {
    // A process that is started again takes its port from connections that have ended.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    fn any() -> SocketAddr {
        "[::]:0".parse().expect("an address")
    }

    async fn is_reached(listener: &TcpListener, ip: &str) {
        let port = listener.local_addr().expect("bound").port();
        let client = TcpStream::connect((ip, port)).await.expect(ip);
        let (_, from) = listener.accept().await.expect("one is waiting");
        let own = client.local_addr().expect("connected");
        assert_eq!((from.ip().to_canonical(), from.port()), (own.ip(), own.port()), "{ip}");
    }

    #[tokio::test]
    async fn every_address_of_ipv6_is_every_address_of_ipv4_too() {
        let listener = listen(any()).expect("a free port");
        is_reached(&listener, "127.0.0.1").await;
        let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
        assert_eq!(listener.local_addr().expect("bound").is_ipv6(), TcpSocket::new_v6().is_ok());
        if has_ipv6 {
            assert!(!SockRef::from(&listener).only_v6().expect("a socket of IPv6"));
            is_reached(&listener, "::1").await;
        }
    }

    #[tokio::test]
    async fn a_machine_without_ipv6_listens_on_ipv4() {
        let missing = io::Error::from(io::ErrorKind::Unsupported);
        let listener = listen_dual(Err(missing), any()).expect("a free port");
        assert!(listener.local_addr().expect("bound").ip() == Ipv4Addr::UNSPECIFIED);
        is_reached(&listener, "127.0.0.1").await;
    }

    #[tokio::test]
    async fn a_taken_port_is_refused_and_not_looked_for_in_ipv4() {
        let taken = listen(any()).expect("a free port").local_addr().expect("bound");
        let _holder = listen(taken).expect("it was given up");
        assert_eq!(listen(taken).expect_err("taken").kind(), io::ErrorKind::AddrInUse);
        let one = listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        assert!(one.local_addr().expect("bound").ip().is_loopback());
    }
}
