//! How many descriptors the process may have, and how many of them connections of clients may take.
//!
//! A connection costs its client nothing and this process a descriptor. Volumes, logs and probes come first:
//! without descriptors a volume is busy, and a node that cannot be probed is killed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use sherd_core::limits::{SEGMENT_FILES_MAX, SHARD_FILES_MAX};

use crate::process::serve::limits::INDEX_FILES_MAX;
use crate::server::limits::{ADMIN_CONNECTIONS_MAX, IAM_CONNECTIONS_MAX};

/// The process itself: listeners, standard streams, the runtime's own, and files that are looked at for a
/// moment.
const PROCESS: usize = 64;
/// A volume, beside the files that it keeps open: directories, locks, spare segments, shards being written.
const VOLUME: usize = 32;
/// Clients get a share of the descriptors at least, even if volumes may then want more than there are:
/// they close files and open them again.
const CLIENTS_SHARE: usize = 4;

/// The limit of open files, which is the hard one from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DescriptorLimit(usize);

impl DescriptorLimit {
    /// Raises the soft limit to the hard one: the usual soft limit is 1024.
    pub(crate) fn raise() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised =
            current == maximum || setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
        let limit = if raised { maximum } else { current };
        Self(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX))
    }

    /// How many connections of clients a node with `volumes` volumes may have open, of those that its
    /// configuration allows.
    pub(crate) fn connections(self, volumes: usize, allowed: usize) -> usize {
        let (Self(limit), needed) = (self, needed(volumes));
        let left = limit.saturating_sub(needed).max(limit / CLIENTS_SHARE).max(1);
        if limit < needed {
            tracing::warn!(
                open_files = limit,
                needed,
                volumes,
                "the limit of open files is lower than what volumes may need: raise it, or requests get 503"
            );
        }
        if left < allowed {
            tracing::warn!(
                open_files = limit,
                needed_beside_connections = needed,
                connections_max = left,
                "the limit of open files allows fewer connections than limits.connections_max"
            );
        }
        left.min(allowed)
    }
}

/// Descriptors that a node with `volumes` volumes opens beside connections of clients.
const fn needed(volumes: usize) -> usize {
    // A shard file that is kept open may be open past the page cache, too.
    let volume = SEGMENT_FILES_MAX + 2 * SHARD_FILES_MAX + VOLUME;
    PROCESS + ADMIN_CONNECTIONS_MAX + IAM_CONNECTIONS_MAX + INDEX_FILES_MAX + volumes * volume
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_the_rest_of_the_node_leaves() {
        let plenty = DescriptorLimit(1 << 20);
        assert_eq!(plenty.connections(4, 4096), 4096);
        assert_eq!(DescriptorLimit(usize::MAX).connections(64, 1 << 20), 1 << 20);
        assert_eq!(DescriptorLimit(needed(4) + 4096).connections(4, 4096), 4096);
        assert_eq!(DescriptorLimit(needed(4) + 4095).connections(4, 4096), 4095);
        assert_eq!(DescriptorLimit(needed(4) + 4095).connections(4, 10), 10);
    }

    #[test]
    fn few_descriptors_are_shared() {
        assert_eq!(DescriptorLimit(256).connections(4, 4096), 64);
        assert_eq!(DescriptorLimit(2).connections(4, 4096), 1);
    }
}
