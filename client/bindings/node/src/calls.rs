//! Calls that are under way: each can be cancelled and counts its bytes, and all end with their environment.

use std::sync::atomic::{AtomicU64, Ordering};

use napi::bindgen_prelude::{Env, PromiseRaw, ToNapiValue, block_on, spawn};
use napi_derive::napi;
use sherd_client::{Error, Progress, Service};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::convert::{failed, number};
use crate::limits::CLEANUP_TIMEOUT;

/// An environment of JavaScript: the process, or one of its workers. Work does not outlive it.
#[napi]
pub struct Environment {
    ended: CancellationToken,
    tasks: TaskTracker,
}

#[napi]
impl Environment {
    /// Makes the one of the thread that calls. When that ends (`process.exit`, `worker.terminate`), it waits
    /// until all that was begun is cleaned up.
    #[napi(constructor)]
    pub fn new(env: Env) -> napi::Result<Self> {
        let (ended, tasks) = (CancellationToken::new(), TaskTracker::new());
        let environment = Self { ended: ended.clone(), tasks: tasks.clone() };
        let _never_removed = env.add_env_cleanup_hook((), move |()| {
            ended.cancel();
            tasks.close();
            let _left_behind = block_on(async { tokio::time::timeout(CLEANUP_TIMEOUT, tasks.wait()).await });
        })?;
        Ok(environment)
    }

    /// Makes the control of a call.
    #[napi]
    pub fn control(&self) -> Control {
        let (progress, _events) = Progress::new();
        Control { cancelled: self.ended.child_token(), progress, tasks: self.tasks.clone() }
    }
}

/// Cancels one call or stream, and counts its bytes.
#[napi]
#[derive(Clone)]
pub struct Control {
    cancelled: CancellationToken,
    progress: Progress,
    tasks: TaskTracker,
}

#[napi]
impl Control {
    /// Ends the work. Its promise is rejected when it is cleaned up.
    #[napi]
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Bytes that moved.
    #[napi(getter)]
    pub fn bytes(&self) -> i64 {
        load(&self.progress.counters().bytes)
    }

    /// Bytes that are to be moved, as far as that is known.
    #[napi(getter)]
    pub fn total(&self) -> i64 {
        load(&self.progress.counters().bytes_planned)
    }

    /// The service as this call uses it.
    pub(crate) fn service(&self, service: &Service) -> Service {
        service.cancelled_by(self.cancelled.clone()).reporting_to(self.progress.clone())
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Runs a task that the end of the environment waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        spawn(self.tasks.track_future(task));
    }

    /// Starts work that this control's token ends, and waits until it is cleaned up.
    pub(crate) fn start<'env, T: ToNapiValue + Send + 'static>(
        &self,
        env: &'env Env,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> napi::Result<PromiseRaw<'env, T>> {
        let (cancelled, work) = (self.cancelled.clone(), self.tasks.track_future(work));
        env.spawn_future(async move {
            let late = async {
                cancelled.cancelled().await;
                tokio::time::sleep(CLEANUP_TIMEOUT).await;
            };
            tokio::select! {
                // Work that is dropped is cleaned up behind it.
                biased;
                ended = work => ended.map_err(|error| failed(&error)),
                () = late => Err(failed(&Error::Cancelled)),
            }
        })
    }

    /// Starts work that leaves nothing to clean up: it is dropped when this control's token ends it.
    pub(crate) fn start_plain<'env, T: ToNapiValue + Send + 'static>(
        &self,
        env: &'env Env,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> napi::Result<PromiseRaw<'env, T>> {
        let cancelled = self.cancelled.clone();
        env.spawn_future(async move {
            let ended = tokio::select! {
                // Each piece is taken or left.
                biased;
                () = cancelled.cancelled() => Err(Error::Cancelled),
                ended = work => ended,
            };
            ended.map_err(|error| failed(&error))
        })
    }
}

fn load(count: &AtomicU64) -> i64 {
    number(count.load(Ordering::Relaxed))
}
