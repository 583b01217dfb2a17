//! Tokio's threads, and the thread that gives results to Python. A child of `fork` has none of its parent's
//! threads, and makes its own.

use std::sync::{Mutex, PoisonError, mpsc};

use pyo3::Python;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// A result on its way to Python.
type Delivery = Box<dyn FnOnce(Python<'_>) + Send>;

/// The threads of one process.
#[derive(Clone, Copy)]
pub(crate) struct Threads {
    process: u32,
    runtime: &'static Runtime,
    deliveries: &'static mpsc::Sender<Delivery>,
}

/// Locked only while the interpreter is: a thread that forks holds no half of it.
static THREADS: Mutex<Option<Threads>> = Mutex::new(None);

impl Threads {
    /// The threads of this process. They live as long as it: those of a parent are left as they are.
    pub(crate) fn get() -> PyResult<Self> {
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        match *threads {
            Some(threads) if threads.process == std::process::id() => Ok(threads),
            _ => Ok(*threads.insert(Self::start()?)),
        }
    }

    fn start() -> PyResult<Self> {
        let failed = |error: std::io::Error| PyRuntimeError::new_err(format!("start threads: {error}"));
        let runtime =
            Builder::new_multi_thread().thread_name("sherd").enable_all().build().map_err(failed)?;
        // Bounded by the calls that are under way: each has one result.
        let (sender, deliveries) = mpsc::channel::<Delivery>();
        let deliver = move || {
            while let Ok(first) = deliveries.recv() {
                let attached = Python::try_attach(|python| {
                    first(python);
                    deliveries.try_iter().for_each(|delivery| delivery(python));
                });
                if attached.is_none() {
                    // The interpreter ends.
                    return;
                }
            }
        };
        std::thread::Builder::new().name("sherd-results".to_owned()).spawn(deliver).map_err(failed)?;
        Ok(Self {
            process: std::process::id(),
            runtime: Box::leak(Box::new(runtime)),
            deliveries: Box::leak(Box::new(sender)),
        })
    }

    pub(crate) fn process(self) -> u32 {
        self.process
    }

    pub(crate) fn runtime(self) -> &'static Runtime {
        self.runtime
    }

    /// Runs work with the interpreter, on a thread that waits for it instead of those that move bytes.
    pub(crate) fn deliver(self, delivery: impl FnOnce(Python<'_>) + Send + 'static) {
        let _interpreter_has_ended = self.deliveries.send(Box::new(delivery));
    }
}
