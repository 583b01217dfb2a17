//! Features that clients ask for and do not get: each is said at WARN once a minute.
//!
//! A client that asks for what is not implemented mostly asks with every request. The log names
//! the header, the parameter or the operation, and is not flooded; names that clients make up take bounded
//! memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sherd_core::env::Clock;
use sherd_core::limits::{LACKING_NAME_BYTES_MAX, LACKING_NAMES_MAX};

use crate::wire::limits::LACKING_LOG_EVERY_US;

/// The features that were asked for lately.
pub(super) struct LackingFeatures {
    clock: Arc<dyn Clock>,
    names: Mutex<HashMap<String, MentionCounts>>,
}

/// How often one name was asked for.
struct MentionCounts {
    said_us: u64,
    unsaid_count: u64,
}

impl LackingFeatures {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, names: Mutex::new(HashMap::new()) }
    }

    /// Notes that a client asked for a feature, and logs it unless that was done within a minute.
    pub(super) fn asked(&self, kind: &str, name: &str) {
        match self.count(name) {
            Some(0) => tracing::warn!(kind, name, "a client asks for what is not implemented"),
            Some(more) => tracing::warn!(kind, name, more, "clients ask for what is not implemented"),
            None => tracing::debug!(kind, name, "not implemented"),
        }
    }

    /// How often a name was asked for since it was last said; `None` where it must not be said now.
    fn count(&self, name: &str) -> Option<u64> {
        let name = name.get(..name.floor_char_boundary(LACKING_NAME_BYTES_MAX)).unwrap_or(name);
        let now_us = self.clock.monotonic_us();
        let is_due =
            |mentions: &MentionCounts| now_us.saturating_sub(mentions.said_us) >= LACKING_LOG_EVERY_US;
        let mut names = self.names.lock();
        if let Some(mentions) = names.get_mut(name) {
            if !is_due(mentions) {
                mentions.unsaid_count += 1;
                return None;
            }
            mentions.said_us = now_us;
            return Some(std::mem::take(&mut mentions.unsaid_count));
        }
        if names.len() >= LACKING_NAMES_MAX {
            names.retain(|_, mentions| !is_due(mentions));
            if names.len() >= LACKING_NAMES_MAX {
                return None;
            }
        }
        names.insert(name.to_owned(), MentionCounts { said_us: now_us, unsaid_count: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn wall_ms(&self) -> u64 {
            0
        }
        fn monotonic_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_name_is_said_once_a_minute_with_how_often_it_was_asked_for() {
        let clock = Arc::new(SetClock::default());
        let features = LackingFeatures::new(Arc::<SetClock>::clone(&clock));
        assert_eq!((features.count("a"), features.count("b")), (Some(0), Some(0)));
        assert_eq!((features.count("a"), features.count("a")), (None, None));
        clock.0.store(LACKING_LOG_EVERY_US, Ordering::Relaxed);
        assert_eq!((features.count("a"), features.count("b")), (Some(2), Some(0)));
        assert_eq!(features.count("a"), None);
    }

    #[test]
    fn made_up_names_take_bounded_memory_and_make_way_after_a_minute() {
        let clock = Arc::new(SetClock::default());
        let features = LackingFeatures::new(Arc::<SetClock>::clone(&clock));
        for number in 0..LACKING_NAMES_MAX {
            assert_eq!(features.count(&format!("{number:>9999}")), if number == 0 { Some(0) } else { None });
        }
        for number in 1..LACKING_NAMES_MAX {
            assert_eq!(features.count(&number.to_string()), Some(0));
        }
        assert_eq!(features.count("one more"), None);
        assert!(features.names.lock().iter().all(|(name, _)| name.len() <= LACKING_NAME_BYTES_MAX));
        clock.0.store(LACKING_LOG_EVERY_US, Ordering::Relaxed);
        assert_eq!(features.count("one more"), Some(0));
        assert_eq!(features.names.lock().len(), 1);
    }
}
