//! How long a peer may take before its callers go on without it. Each with where its number comes from.

use std::time::Duration;

/// A call that is unanswered for this time makes its volume late. When a node stops, a request waits this
/// long for it and may take 2 s in all; a disk that is merely busy answers sooner.
pub(super) const LATE_AFTER: Duration = Duration::from_millis(1500);
/// How exactly that is measured.
pub(super) const LATE_STEP: Duration = Duration::from_millis(100);
/// How long a volume is avoided that gave no answer to the last call that was overdue. Then one caller tries
/// it, and waits for it once more.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(10);
/// How often a caller that waits for many looks whether all that are left are late.
pub(crate) const LATE_LOOK_EVERY: Duration = LATE_STEP;

/// How long a scan of what a request lists may wait for its turn on a volume: it is refused `Busy` then, so
/// that a volume with many scans to do is not late for that. Half a second is left for the page before it,
/// and for the answer's way.
pub(super) const SCAN_WAIT_MAX: Duration = Duration::from_secs(1);
/// The pause before a volume is asked again that answered that its line of scans is full, and the longest: a
/// page takes a few milliseconds.
pub(super) const BUSY_PAUSE_MIN: Duration = Duration::from_millis(10);
pub(super) const BUSY_PAUSE_MAX: Duration = Duration::from_millis(160);

/// Appends of one shard without an answer. Four units of 256 KiB, from each of the stripes of a body, keep a
/// link of 1 ms full at 1 GB/s.
pub const APPENDS_UNDER_WAY_MAX: usize = 4;

/// How long the steps of a shard that is verified wait for their turns in all; those left go without. At the
/// least pace of healing these are 240 MiB, on a device of 200 MiB/s 4 GiB.
pub const VERIFY_TURNS_MAX: Duration = Duration::from_mins(4);

/// Transfers of bytes to one volume while a call to it is overdue. Each may hold a stripe's shard of 1 MiB,
/// which the bytes of bodies under way no longer count once the write goes on without that volume.
pub(super) const LATE_TRANSFERS_MAX: usize = 32;

const _: () = {
    assert!(LATE_AFTER.as_millis().is_multiple_of(LATE_STEP.as_millis()), "a call is late after whole steps");
    assert!(
        SCAN_WAIT_MAX.as_millis() + 4 * LATE_STEP.as_millis() < LATE_AFTER.as_millis(),
        "it is refused before"
    );
};
