//! A process that does not outlive the one that started it: the nodes of `dev --nodes`.
//!
//! The kernel sends SIGKILL when the parent's thread that started this process ends, however it ends. A
//! killed node loses nothing that it acknowledged.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The process cannot be tied to its parent.
#[derive(Debug, thiserror::Error)]
pub enum ParentError {
    /// The parent ended before this process was tied to it.
    #[error("process {parent}, which started this one, has ended")]
    Ended {
        /// Process id of the parent.
        parent: u32,
    },
    /// The kernel refuses.
    #[error("ask to end with the parent: {0}")]
    Refused(#[source] std::io::Error),
}

/// Ends this process from here on when `parent` ends.
///
/// # Errors
/// [`ParentError`] when `parent` is not the parent any more, or the kernel does not know the request.
pub fn end_with(parent: u32) -> Result<(), ParentError> {
    let asked = set_parent_process_death_signal(Some(Signal::KILL));
    asked.map_err(|errno| ParentError::Refused(errno.into()))?;
    // After the request: a parent that ended before it sends no signal, and is not the parent any more.
    let own = getppid().map(|pid| pid.as_raw_nonzero().get());
    if own.and_then(|pid| u32::try_from(pid).ok()) == Some(parent) {
        Ok(())
    } else {
        Err(ParentError::Ended { parent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_not_the_parent() {
        // A process is not its own parent. The request itself is harmless: the tests' parent outlives them.
        let own = std::process::id();
        assert!(matches!(end_with(own), Err(ParentError::Ended { parent }) if parent == own));
        set_parent_process_death_signal(None).expect("the request is withdrawn");
    }
}
