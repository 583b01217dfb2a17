//! The limits of a listener that may change while it serves.
//!
//! A connection keeps the times that were in force when it was accepted; the number of connections changes at
//! once, and idle ones give way where it shrinks.

use std::sync::Arc;

use parking_lot::Mutex;

use super::ListenerLimits;
use crate::server::limits::HANDSHAKES_MAX;
use sherd_net::tls::ConnectionPlaces;

/// One place of ten stays free for the next connection, as long as others can give way.
const PLACES_PER_RESERVED: usize = 10;

/// The limits of a listener and its places. Clones share them.
#[derive(Debug, Clone)]
pub struct LiveLimits(Arc<LimitsState>);

#[derive(Debug)]
struct LimitsState {
    limits: Mutex<ListenerLimits>,
    connections: ConnectionPlaces,
    handshakes: ConnectionPlaces,
}

impl LiveLimits {
    /// Changes the limits for connections that are accepted from here on, and how many may be open.
    pub fn change(&self, limits: ListenerLimits) {
        let LimitsState { limits: current, connections, handshakes } = &*self.0;
        *current.lock() = limits;
        connections.resize(limits.connections_max, reserve(limits));
        handshakes.resize(handshakes_max(limits), 0);
    }

    /// Returns the limits of a connection that is accepted at this moment.
    pub(super) fn now(&self) -> ListenerLimits {
        *self.0.limits.lock()
    }

    /// Returns the places of connections.
    pub(super) fn connections(&self) -> &ConnectionPlaces {
        &self.0.connections
    }

    /// Returns the places of handshakes.
    pub(super) fn handshakes(&self) -> &ConnectionPlaces {
        &self.0.handshakes
    }
}

impl From<ListenerLimits> for LiveLimits {
    fn from(limits: ListenerLimits) -> Self {
        let connections = ConnectionPlaces::with_reserve(limits.connections_max, reserve(limits));
        let handshakes = ConnectionPlaces::new(handshakes_max(limits));
        Self(Arc::new(LimitsState { limits: Mutex::new(limits), connections, handshakes }))
    }
}

const fn reserve(limits: ListenerLimits) -> usize {
    limits.connections_max / PLACES_PER_RESERVED
}

/// Half of a listener's places are never taken by handshakes.
fn handshakes_max(limits: ListenerLimits) -> usize {
    (limits.connections_max / 2).clamp(1, HANDSHAKES_MAX)
}
