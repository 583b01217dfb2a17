//! The bytes that are moved: random, more than a core's own caches hold, over and over.

use std::sync::Arc;

use bytes::Bytes;

/// Bytes before they repeat: as many as are under way in a node, more than a core's own caches hold.
const PAYLOAD_BYTES: usize = 16 << 20;

/// Treatment of the bytes that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Compares each with what was sent.
    Compare,
    /// Only counts them.
    Count,
}

/// Random bytes, repeated.
#[derive(Debug, Clone)]
pub(super) struct Payload(Bytes);

/// Compares or counts what arrives.
#[derive(Debug)]
pub(super) struct Arrival {
    payload: Payload,
    check: Check,
    bytes: u64,
    is_right: bool,
}

impl Payload {
    pub(super) fn new() -> Self {
        let mut bytes = vec![0; PAYLOAD_BYTES];
        blake3::Hasher::new().update(b"sherd-bench floors").finalize_xof().fill(&mut bytes);
        Self(bytes.into())
    }

    /// All of them, once.
    pub(super) const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The first `bytes` of the repetition, in pieces of `unit`, which divides the payload.
    pub(super) fn pieces(&self, unit: usize, bytes: u64) -> impl Iterator<Item = Bytes> + Send + use<> {
        assert!(self.0.len().is_multiple_of(unit), "a piece lies in one payload");
        let (whole, count) = (self.0.clone(), usize::try_from(bytes).expect("a pass fits memory") / unit);
        let places = whole.len() / unit;
        (0..count).map(move |index| {
            let begin = index % places * unit;
            whole.slice(begin..begin + unit)
        })
    }

    pub(super) fn arrival(&self, check: Check) -> Arrival {
        Arrival { payload: self.clone(), check, bytes: 0, is_right: true }
    }
}

impl Arrival {
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        if self.check == Check::Count {
            self.bytes += bytes.len() as u64;
            return;
        }
        let payload = &self.payload.0;
        while !bytes.is_empty() {
            let place = usize::try_from(self.bytes % payload.len() as u64).expect("a place in memory");
            let (now, later) = bytes.split_at(bytes.len().min(payload.len() - place));
            self.is_right &= payload[place..place + now.len()] == *now;
            self.bytes += now.len() as u64;
            bytes = later;
        }
    }

    pub(super) const fn count(&self) -> u64 {
        self.bytes
    }

    /// Whether all `bytes` came, and each as it was sent.
    pub(super) const fn is_whole(&self, bytes: u64) -> bool {
        self.is_right && self.bytes == bytes
    }
}

/// An arrival that a task fills and its caller reads.
pub(super) type SharedArrival = Arc<parking_lot::Mutex<Arrival>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_differs_or_is_missing_is_seen() {
        let payload = Payload::new();
        let bytes = 24 << 20;
        let arrive = |change: &dyn Fn(usize, Bytes) -> Bytes| {
            let mut arrival = payload.arrival(Check::Compare);
            for (index, piece) in payload.pieces(1 << 20, bytes).enumerate() {
                arrival.take(&change(index, piece));
            }
            arrival.is_whole(bytes)
        };
        assert!(arrive(&|_, piece| piece));
        assert!(!arrive(&|index, piece| if index == 17 { piece.slice(1..) } else { piece }));
        assert!(!arrive(&|index, piece| if index == 17 { vec![7; piece.len()].into() } else { piece }));
    }
}
