//! The locks between the volume's thread and its readers, as a test can interleave them.
//!
//! They are `parking_lot`'s. In this crate's own tests each taking of one is a point at which
//! `shuttle` may let another thread run first, so a test explores the orders in which a step and the
//! lock-free answers of [`crate::Reader`] can meet. A thread waits for a lock outside of it, since
//! all of `shuttle`'s threads share one of the system's.

use parking_lot::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(test)]
        interleave(|| self.0.is_locked());
        self.0.lock()
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        #[cfg(test)]
        interleave(|| self.0.is_locked_exclusive());
        self.0.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        #[cfg(test)]
        interleave(|| self.0.is_locked());
        self.0.write()
    }
}

#[cfg(test)]
fn interleave(is_taken: impl Fn() -> bool) {
    if shuttle::current::try_get_current_task().is_none() {
        return;
    }
    shuttle::thread::yield_now();
    while is_taken() {
        shuttle::thread::yield_now();
    }
}
