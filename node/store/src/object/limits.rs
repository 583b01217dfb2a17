//! Limits of the verbs: how long they wait, how often they try again, how much they read at one time.

use std::time::Duration;

/// How long a volume may take for a page of a scan, before another is asked. A list holds room in memory
/// meanwhile, and a disk may hang for ever.
pub(super) const SCAN_PATIENCE: Duration = Duration::from_secs(15);
/// How long a page of the parts of an upload is waited for, before another volume is asked too. They are few.
pub(super) const SCAN_HEDGE: Duration = Duration::from_millis(500);
/// Bytes that all remembered views count for; those that were asked for longest ago go first.
pub(super) const BUCKET_VIEWS_BYTES_MAX: u64 = 16 << 20;
/// Stored policies with an idle Deny of which it is remembered that they were logged: 24 KiB.
pub(super) const IDLE_DENIALS_MAX: usize = 1024;
/// Bytes that a view counts for beside its configuration: of views without one 10,000 are remembered.
pub(super) const BUCKET_VIEW_BYTES: u64 = BUCKET_VIEWS_BYTES_MAX / 10_000;
/// Times that a request is tried again because its bucket was sealed and opened meanwhile.
pub(super) const SEALED_TRIES: usize = 16;
/// How long a request waits for a deletion of its bucket to end or to be undone.
pub(super) const SEALED_WAIT: Duration = Duration::from_secs(5);
/// Pause between two looks at a sealed bucket's register.
pub(super) const SEALED_PAUSE: Duration = Duration::from_millis(20);
/// Tries of a deletion before a bucket whose rows never settle is given up.
pub(super) const DELETION_TRIES: usize = 8;
/// Rows of one page of the listing that a deletion makes.
pub(super) const DELETION_PAGE_ROWS: usize = 256;
/// Keys in doubt that one try of a deletion reads and settles.
pub(super) const DELETION_SETTLE_MAX: usize = 1024;
/// How long a volume may take to make a seal durable, or to remove it.
pub(super) const SEAL_PATIENCE: Duration = Duration::from_secs(10);
/// How long the volumes that did not answer yet may take once A made a seal durable; they go on with it where
/// they can. A seal may take long, so a volume is not late for that: one that hangs and is asked for nothing
/// else would be waited for to the end. A deletion that settles a row waits four times, and may take two
/// seconds more beside a node that stops.
pub(super) const SEAL_REST_PATIENCE: Duration = Duration::from_millis(500);
/// How often the row of a deletion is written again: three times before it counts as left behind.
pub(super) const DELETION_RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long a page of the listing that a deletion makes may take.
pub(super) const DELETION_PAGE_PATIENCE: Duration = Duration::from_secs(30);
/// Parts of a closed upload that are looked at before they are tombstoned.
pub(super) const CLOSED_PARTS_PAGE: usize = 100;
/// Pause before a volume is asked again whose line of scans is full: a page takes a few milliseconds.
pub(super) const SCAN_BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Names that do not show that one page looks at, at most: some tenths of a second of work on one gateway.
pub(super) const HIDDEN_NAMES_MAX: usize = 10_000;
/// Tombstones known to be committed that one volume passes for one page, at most: a volume passes a million
/// of them in about a second. A bucket that was just emptied holds all of its keys as such for a day.
pub(super) const PASSED_ROWS_MAX: u64 = 100_000;
/// Rows that a list asks of one volume at one time, at most.
pub(super) const SCAN_ROWS_MAX: usize = 256;
/// Rows that a list asks of one volume at one time, at least.
pub(super) const SCAN_ROWS_MIN: usize = 2;
/// Times that a bucket's register is read again because a document that it named was gone, and that a
/// document is read: each is replaced between two reads, unless others configure the bucket all the time.
pub(super) const DOCUMENT_TRIES: usize = 8;
/// Times that a configuration is tried again because another one of its kind came between.
pub(super) const CONFIG_TRIES: usize = 16;
/// Bytes that a body of an expected length may have more: the line end behind the last boundary of a form,
/// which not every client writes, with room.
pub(super) const EXCESS_BYTES_MAX: usize = 64;
/// Bytes of a client's body that are here before memory for a stripe is asked for: what a client sends within
/// its first round trips. 16 KiB for each body that arrives lie beside the memory for stripes, 24 MiB for the
/// 1,536 that may arrive at 512 places.
pub(super) const FIRST_BYTES: usize = 16 << 10;
