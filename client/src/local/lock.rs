//! The lock of a file that one process at a time writes.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Instant;

use crate::limits::{LOCK_EVERY, LOCK_TIMEOUT};

/// Locks a file, and returns whether it could be: another process may have it. A process that was killed has
/// it until the system has taken it apart, which is waited for. Blocks.
pub(crate) fn lock(file: &File) -> io::Result<bool> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if begin.elapsed() >= LOCK_TIMEOUT => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_EVERY),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
