//! A client's end against rustls' own server on a blocking socket.

use std::net::TcpListener;
use std::thread;

use rustls::{ServerConnection, StreamOwned};

use super::*;
use crate::tls::authority::BenchAuthority;

const TIMEOUT: Duration = Duration::from_secs(10);
const BYTES: usize = 3_000_000;

fn body() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

/// Echoes `BYTES` bytes over TLS, and closes.
fn an_echo(authority: &BenchAuthority) -> SocketAddr {
    let config = authority.server(&[b"http/1.1"]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let Ok((socket, _)) = listener.accept() else { return };
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
        let mut bytes = vec![0; BYTES];
        // A client that trusts another authority ends the handshake.
        if stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes).unwrap();
        }
    });
    address
}

#[test]
fn bytes_are_sent_and_read_whole_by_a_socket_that_does_not_block() {
    let authority = BenchAuthority::new().unwrap();
    let trust = authority.trust().unwrap();
    let mut stream = ClientStream::connect(an_echo(&authority), Some(&trust), TIMEOUT).unwrap();
    stream.set_nonblocking().unwrap();
    let would_block = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    let (body, mut sent) = (body(), 0);
    while sent < body.len() {
        match stream.write(&body[sent..]) {
            Ok(count) => sent += count,
            Err(error) if would_block(&error) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    while !stream.push().unwrap() {
        thread::yield_now();
    }
    // Smaller than what one read of the socket brings: bytes are held between the calls.
    let (mut read, mut buffer, mut held) = (Vec::new(), vec![0; 50_000], false);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => read.extend_from_slice(&buffer[..count]),
            Err(error) if would_block(&error) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        held |= stream.holds_bytes();
    }
    assert!(read == body, "{} of {} bytes", read.len(), body.len());
    assert!(held && !stream.holds_bytes());
}

#[test]
fn a_store_of_another_authority_is_refused() {
    let address = an_echo(&BenchAuthority::new().unwrap());
    let trust = BenchAuthority::new().unwrap().trust().unwrap();
    let error = ClientStream::connect(address, Some(&trust), TIMEOUT).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}
