//! A gate that each read and each write of a record passes: it ends a call there, as a crash does, or holds
//! it while another call runs.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::register::Failure;

/// Open, unless a test says otherwise.
#[derive(Debug, Default)]
pub(in crate::iam) struct Gate(Mutex<Mode>);

#[derive(Debug, Default)]
enum Mode {
    #[default]
    Open,
    /// This number of operations pass, and none behind them.
    Cut(usize),
    /// This number of operations pass; the next one waits.
    Hold(usize, Arc<Hold>),
}

#[derive(Debug)]
struct Hold {
    arrived: Semaphore,
    go: Semaphore,
}

impl Gate {
    pub(in crate::iam) async fn pass(&self) -> Result<(), Failure> {
        let hold = match &mut *self.0.lock() {
            Mode::Open => return Ok(()),
            Mode::Cut(0) => return Err(Failure::Unavailable),
            Mode::Cut(left) | Mode::Hold(left @ 1.., _) => {
                *left -= 1;
                return Ok(());
            }
            Mode::Hold(_, hold) => Arc::clone(hold),
        };
        hold.arrived.add_permits(1);
        // Closed when the call may go on.
        let _closed = hold.go.acquire().await;
        Ok(())
    }

    /// Lets a number of operations pass, and fails all behind them.
    pub(super) fn cut_after(&self, operations: usize) {
        *self.0.lock() = Mode::Cut(operations);
    }

    /// Runs a call until a number of operations are done and the next one waits; gives its answer where it
    /// ended before.
    pub(super) async fn hold_after<T>(
        &self,
        operations: usize,
        call: &mut (impl Future<Output = T> + Unpin),
    ) -> Option<T> {
        let hold = Arc::new(Hold { arrived: Semaphore::new(0), go: Semaphore::new(0) });
        *self.0.lock() = Mode::Hold(operations, Arc::clone(&hold));
        // Either side is safe to drop: the permit is for this one wait, and the call is the caller's.
        tokio::select! {
            biased;
            ended = call => Some(ended),
            _ = hold.arrived.acquire() => None,
        }
    }

    /// Lets everything pass.
    pub(super) fn open(&self) {
        if let Mode::Hold(_, hold) = std::mem::take(&mut *self.0.lock()) {
            hold.go.close();
        }
    }
}
