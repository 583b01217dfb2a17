//! A relay between `sherd` and the node that breaks connections, or holds them, after a number of bytes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::fixture::node;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// The fate of the bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Pass,
    /// Closes each connection behind `bytes` of it, `times` times.
    Cut {
        bytes: u64,
        times: u32,
    },
    /// Holds all connections once `bytes` went.
    Hold {
        bytes: u64,
    },
}

#[derive(Debug)]
struct State {
    way: Way,
    rule: Rule,
    /// Bytes that went that way over all connections.
    passed: u64,
}

/// A relay to the shared node.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Relay {
    pub(crate) fn new(way: Way, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has an address");
        let state = Arc::new((Mutex::new(State { way, rule, passed: 0 }), Condvar::new()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(node()).expect("the node listens");
                let both = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
                let up = Arc::clone(&shared);
                thread::spawn(move || carry(client, server, Way::Up, &up));
                let down = Arc::clone(&shared);
                thread::spawn(move || carry(both.1, both.0, Way::Down, &down));
            }
        });
        Self { address, state }
    }

    /// Waits until connections are held.
    pub(crate) fn wait_until_held(&self) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().expect("no thread panics");
        while !matches!(state.rule, Rule::Hold { bytes } if state.passed >= bytes) {
            state = changed.wait(state).expect("no thread panics");
        }
    }

    /// Lets all bytes pass from here on, and counts them from zero.
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().expect("no thread panics");
        (state.rule, state.passed) = (Rule::Pass, 0);
        changed.notify_all();
    }

    /// Bytes that went the relay's way.
    pub(crate) fn passed(&self) -> u64 {
        self.state.0.lock().expect("no thread panics").passed
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, way: Way, state: &(Mutex<State>, Condvar)) {
    let mut buffer = vec![0; 64 << 10];
    let mut own = 0_u64;
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if !may_pass(way, bytes as u64, &mut own, state) || to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _closed_already = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn may_pass(way: Way, bytes: u64, own: &mut u64, (state, changed): &(Mutex<State>, Condvar)) -> bool {
    let mut state = state.lock().expect("no thread panics");
    if state.way != way {
        return true;
    }
    *own += bytes;
    state.passed += bytes;
    changed.notify_all();
    if let Rule::Cut { bytes, times } = &mut state.rule
        && *own >= *bytes
        && *times > 0
    {
        *times -= 1;
        return false;
    }
    while matches!(state.rule, Rule::Hold { bytes } if state.passed >= bytes) {
        state = changed.wait(state).expect("no thread panics");
    }
    true
}
