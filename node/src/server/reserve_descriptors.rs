//! The last descriptors of a process: a listener that has spare ones keeps them for the moment when there is
//! no other, and those that have none leave the last ones alone. To a probe, a node that cannot accept looks
//! like one that hangs.

use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::server::limits::REFILL_EVERY;
use parking_lot::Mutex;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// Descriptors that a listener without spare ones does not take.
const LEFT_ALONE: u64 = 8;

#[derive(Debug)]
pub(super) struct SpareDescriptors {
    held: Mutex<Vec<OwnedFd>>,
    wanted: usize,
}

impl SpareDescriptors {
    pub(super) fn new(wanted: usize) -> Self {
        let spares = Self { held: Mutex::default(), wanted };
        spares.refill();
        spares
    }

    /// Whether a connection would take one of the last descriptors: they are numbered from the lowest that
    /// is free.
    pub(super) fn are_scarce(&self) -> bool {
        if self.wanted > 0 {
            return false;
        }
        let Ok(next) = fcntl_dupfd_cloexec(std::io::stderr(), 0) else { return true };
        let number = u64::try_from(next.as_raw_fd()).expect("descriptors are numbered from 0");
        is_among_last(number, getrlimit(Resource::Nofile).current)
    }

    /// Closes a spare descriptor, where `error` says that descriptors are lacking. `false` when something
    /// else is lacking, or no spare is left.
    pub(super) fn give_up(&self, error: &std::io::Error) -> bool {
        let errno = Errno::from_io_error(error);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE)) && self.held.lock().pop().is_some()
    }

    /// Waits until it is time to refill; for ever where nothing is lacking.
    pub(super) async fn until_refill(&self) {
        if self.held.lock().len() < self.wanted {
            tokio::time::sleep(REFILL_EVERY).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Opens again the spare descriptors that were given up, as far as the limit allows.
    pub(super) fn refill(&self) {
        let mut held = self.held.lock();
        // Any descriptor will do; this one is always open.
        while held.len() < self.wanted
            && let Ok(spare) = fcntl_dupfd_cloexec(std::io::stderr(), 0)
        {
            held.push(spare);
        }
    }
}

/// Whether the descriptor of a number is one of the last below the limit, if there is one.
fn is_among_last(number: u64, limit: Option<u64>) -> bool {
    limit.is_some_and(|limit| number.saturating_add(LEFT_ALONE) >= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_is_given_up_for_lack_of_descriptors_alone_and_taken_back() {
        let spares = SpareDescriptors::new(1);
        assert!(!spares.give_up(&Errno::NOMEM.into()));
        assert!(spares.give_up(&Errno::MFILE.into()));
        assert!(!spares.give_up(&Errno::MFILE.into()), "it had one");
        spares.refill();
        assert!(spares.give_up(&Errno::NFILE.into()));
    }

    #[test]
    fn the_last_descriptors_below_the_limit_are_left_alone() {
        assert!(!is_among_last(247, Some(256)), "it and eight more are there");
        assert!(is_among_last(248, Some(256)));
        assert!(is_among_last(255, Some(256)));
        assert!(is_among_last(u64::MAX, Some(u64::MAX)));
        assert!(!is_among_last(u64::MAX, None), "without a limit none is the last");
    }
}
