//! Work that comes to its end though the request that waits for it is dropped meanwhile: no other gateway
//! does what follows a first accept.

use tokio_util::task::TaskTracker;

use super::error::{Error, Result};
use crate::observe::trace;

/// Begins work in a task of its own, and gives its end. Shutdown waits for the task, too.
pub(super) fn to_the_end<R: Send + 'static>(
    tasks: &TaskTracker,
    what: &'static str,
    work: impl Future<Output = Result<R>> + Send + 'static,
) -> impl Future<Output = Result<R>> + Send + 'static {
    let task = tasks.spawn(trace::inherited(work));
    async move { task.await.map_err(|error| Error::Internal { what: format!("{what}: {error}") })? }
}
