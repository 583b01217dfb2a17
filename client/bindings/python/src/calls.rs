//! A call that is under way: it can be cancelled, and counts its bytes.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use pyo3::prelude::*;
use sherd_client::{Error, Progress, Service};
use tokio_util::sync::CancellationToken;

use crate::convert::{Failure, ToPython};
use crate::limits::CLEANUP_TIMEOUT;
use crate::runtime::Threads;

/// A call that is under way.
#[pyclass(frozen, module = "sherd_client._native")]
pub(crate) struct Call {
    cancelled: CancellationToken,
    progress: Progress,
}

#[pymethods]
impl Call {
    /// Ends the work. The callback is called when it is cleaned up.
    fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Bytes that moved, and bytes that are to be moved as far as that is known.
    fn progress(&self) -> (u64, u64) {
        let counters = self.progress.counters();
        (counters.bytes.load(Ordering::Relaxed), counters.bytes_planned.load(Ordering::Relaxed))
    }
}

/// Starts work of a service. `done` is called once, with a value and None, or with None and a failure.
pub(crate) fn start<T, F>(
    service: &Service,
    done: Py<PyAny>,
    work: impl FnOnce(Service) -> F,
) -> PyResult<Call>
where
    T: ToPython + Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (progress, _events) = Progress::new();
    let cancelled = CancellationToken::new();
    let service = service.cancelled_by(cancelled.clone()).reporting_to(progress.clone());
    run(cancelled.clone(), done, work(service))?;
    Ok(Call { cancelled, progress })
}

/// Starts work beside transfers, without progress.
pub(crate) fn start_plain<T: ToPython + Send + 'static>(
    done: Py<PyAny>,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> PyResult<Call> {
    let (progress, _events) = Progress::new();
    let cancelled = CancellationToken::new();
    let cancellable = {
        let cancelled = cancelled.clone();
        async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => Err(Error::Cancelled),
                ended = work => ended,
            }
        }
    };
    run(cancelled.clone(), done, cancellable)?;
    Ok(Call { cancelled, progress })
}

fn run<T: ToPython + Send + 'static>(
    cancelled: CancellationToken,
    done: Py<PyAny>,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> PyResult<()> {
    let threads = Threads::get()?;
    let work = AssertUnwindSafe(work).catch_unwind();
    threads.runtime().spawn(async move {
        let late = async {
            cancelled.cancelled().await;
            tokio::time::sleep(CLEANUP_TIMEOUT).await;
        };
        let ended = tokio::select! {
            // Work that is dropped is cleaned up behind it.
            biased;
            ended = work => ended.map_or(Err(Failure::panic()), |ended| ended.map_err(Failure::of)),
            () = late => Err(Failure::of(Error::Cancelled)),
        };
        threads.deliver(move |python| {
            let value = ended.map(|value| value.to_python(python));
            let called = match value {
                Ok(Ok(value)) => done.call1(python, (value, python.None())),
                Ok(Err(error)) => done.call1(python, (python.None(), Failure::text(&error.to_string()))),
                Err(failure) => done.call1(python, (python.None(), failure)),
            };
            if let Err(error) = called {
                error.write_unraisable(python, None);
            }
        });
    });
    Ok(())
}
