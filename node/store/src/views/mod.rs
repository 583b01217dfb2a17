//! Views: the content of registers that requests need, remembered for at most two seconds.
//!
//! A kind of views is a [`ViewSource`]: views of buckets are `object::bucket`'s, those of access keys and the
//! account `iam`'s. `cache` remembers them, `look_up` reads them once for all requests that need them, and
//! `forget` has the other nodes forget them after a change.

pub(crate) mod limits;
mod cache;
mod look_up;
mod forget;

pub(crate) use cache::{LookupStart, ViewCache};
pub(crate) use forget::{ChangedViews, ForgetCalls, ForgetRounds};
pub(crate) use look_up::{look_up, remembered};

#[cfg(test)]
pub(crate) use cache::LookupUnderWay;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::register::Failure;

/// Views of one kind: what they are, and how they are read.
pub(crate) trait ViewSource: Clone + Debug + Send + Sync + 'static {
    /// Names a view.
    type Name: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// A view.
    type View: Clone + Debug + Send + Sync + 'static;
    /// The reason why a read found no view.
    type Error: Clone + Debug + Send + Sync + From<Failure> + 'static;

    /// The bytes that a view counts for.
    fn weight(view: &Self::View) -> u64;

    /// How long a view may be taken, from the beginning of its read.
    fn period(_view: &Self::View) -> Duration {
        limits::VIEW_PERIOD
    }

    /// The views that are remembered.
    fn views(&self) -> &Arc<ViewCache<Self>>;

    /// Where reads run.
    fn tasks(&self) -> &TaskTracker;

    /// Reads a view and remembers it. `start` is from before.
    fn read_view(
        &self,
        name: &Self::Name,
        start: LookupStart,
    ) -> impl Future<Output = Result<Self::View, Self::Error>> + Send;
}
