//! How often and how fast upkeep works.

use std::time::Duration;

use sherd_core::limits;

/// How upkeep behaves.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Bytes per second that heals, recovery and scrubbing may move together; 0 for any number. Below it the
    /// calls of clients decide.
    pub heal_bytes_per_second: u64,
    /// Entries healed at one time.
    pub heal_tasks: usize,
    /// How long superseded data stays.
    pub release_grace: Duration,
    /// Between two renewals of the leases on what is read.
    pub lease_every: Duration,
    /// How old an unsettled row is before upkeep settles it.
    pub settle_after: Duration,
    /// Between two looks for unsettled rows, and for missed ones.
    pub settle_every: Duration,
    /// How long a row of a peer that its volume does not have in a look is left to those that write it.
    pub finish_after: Duration,
    /// How much longer than both the rows that an opening found may take to be settled, until it is tried
    /// again.
    pub found_patience: Duration,
    /// The time that a full pass of the scrubber is to take.
    pub scrub_pass: Duration,
    /// Between two walks of a volume's tombstones.
    pub sweep_every: Duration,
    /// Between two looks for what is to be swept: suspects, and walks that are due.
    pub sweep_look_every: Duration,
    /// Between two notes of where the scrubber's walk stands.
    pub note_every: Duration,
    /// Between two looks for deletions of buckets and seals that were left behind.
    pub buckets_every: Duration,
    /// How long another process' deletion of a bucket is seen under way before its gateway counts as gone.
    pub deletion_after: Duration,
    /// Between two tries to recover a volume.
    pub recover_every: Duration,
    /// How long a directory stays empty before a volume is rebuilt in it.
    pub adopt_after: Duration,
    /// How long after its opening a volume votes that too few peers confirm; never when not set.
    pub vouch_after: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heal_bytes_per_second: 0,
            heal_tasks: 2,
            release_grace: Duration::from_millis(limits::RELEASE_GRACE_MS),
            lease_every: Duration::from_millis(limits::LEASE_RENEW_MS),
            settle_after: Duration::from_secs(3),
            settle_every: Duration::from_secs(2),
            finish_after: Duration::from_millis(limits::FINISH_AFTER_MS),
            found_patience: Duration::from_secs(10),
            scrub_pass: Duration::from_hours(30 * 24),
            sweep_every: Duration::from_hours(6),
            sweep_look_every: Duration::from_mins(1),
            note_every: Duration::from_mins(1),
            buckets_every: Duration::from_secs(2),
            deletion_after: Duration::from_secs(30),
            recover_every: Duration::from_secs(2),
            adopt_after: Duration::from_millis(limits::ADOPT_AFTER_MS),
            vouch_after: None,
        }
    }
}
