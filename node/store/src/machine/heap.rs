//! Memory that the allocator keeps for later: little of it where the process holds much.
//!
//! mimalloc gives free pages back a second after they became free, when a thread allocates then. Under a
//! storm of requests, heals and lists by many threads a quarter of the process' memory were such pages.
//! Giving them back at once costs a PUT of 4 KiB some processor time, so that is only done near the process'
//! bound of 256 MiB.

#![expect(clippy::disallowed_methods, reason = "/proc is the kernel's answer, not a file of the node")]

/// Anonymous memory from which on free pages are given back at once: half of what a node may use.
const TIGHT_FROM_BYTES: u64 = 128 << 20;
/// Anonymous memory below which they are kept again.
const EASY_BELOW_BYTES: u64 = 96 << 20;
/// How long free pages are kept otherwise, in milliseconds: mimalloc's default.
const DELAY_MS: std::ffi::c_long = 1000;
/// `mi_option_purge_delay`, in both versions of mimalloc.h that the crate has.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// How eagerly the allocator gives memory back.
#[derive(Debug, Default)]
pub struct Heap {
    is_tight: bool,
}

impl Heap {
    /// Looks at how much the process holds, and gives back what it does not need.
    pub fn trim(&mut self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let Some(kib) = status_number(&status, "RssAnon") else { return };
        let was_tight = self.is_tight;
        self.is_tight = is_tight(was_tight, kib.saturating_mul(1024));
        let delay_ms = if self.is_tight { 0 } else { DELAY_MS };
        #[expect(unsafe_code, reason = "the allocator's crate wraps neither call")]
        // SAFETY: Both calls take plain values. The option is one aligned word that allocating threads read,
        // and only this one writes, after the allocator initialised it.
        unsafe {
            if self.is_tight {
                // Before the first change of the delay: what became free until then waits for the old one,
                // and without a delay only the pages of one call at a time are looked at, unless all of them
                // are asked for.
                libmimalloc_sys::mi_collect(!was_tight);
            }
            if self.is_tight != was_tight {
                libmimalloc_sys::mi_option_set(PURGE_DELAY, delay_ms);
            }
        }
    }
}

fn is_tight(was_tight: bool, anonymous_bytes: u64) -> bool {
    anonymous_bytes >= if was_tight { EASY_BELOW_BYTES } else { TIGHT_FROM_BYTES }
}

/// The number behind `name:` in /proc/self/status.
pub(crate) fn status_number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_memory_makes_it_tight_until_there_is_little() {
        let sizes = [0, 120, 128, 300, 100, 96, 95, 120].map(|mib: u64| mib << 20);
        let mut tight = false;
        let seen = sizes.map(|bytes| {
            tight = is_tight(tight, bytes);
            tight
        });
        assert_eq!(seen, [false, false, true, true, true, true, false, false]);
    }

    /// The number of the option is that of the header that the crate was built from.
    #[test]
    fn the_option_is_that_of_the_delay() {
        #[expect(unsafe_code, reason = "the allocator's crate wraps no options")]
        // SAFETY: It takes and gives plain values.
        let delay_ms = unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay_ms, DELAY_MS);
    }

    #[test]
    fn status_numbers_need_their_whole_name() {
        let status = "VmRSSx:\t1 kB\nVmRSS:\t   2048 kB\nThreads:\t9\n";
        assert_eq!(status_number(status, "VmRSS"), Some(2048));
        assert_eq!(status_number(status, "Threads"), Some(9));
        assert_eq!(status_number(status, "RssAnon"), None);
    }
}
