//! The audit log: the handle that listeners and calls begin records with, and the thread that writes the
//! lines of those.
//!
//! ```text
//! listener -> AuditLog::begin -> AuditRecord ... dropped -> AuditQueue -> Writer -> file, or standard output
//! ```
//! Nothing of a request waits for the writer: lines that do not fit into the queue are dropped and counted.
//! `process` starts the log before the listeners serve and closes it behind the last request.

pub(crate) mod limits;
mod answer;
mod file;
mod writer;

use std::io;
use std::sync::Arc;

use http::Request;
use parking_lot::Mutex;
use sherd_core::env::Clock;
use sherd_front::audit::AuditedRequest;
use sherd_front::audit::queue::AuditQueue;
use sherd_front::audit::record::AuditRecord;
use sherd_front::source::Source;
use sherd_store::observe::metrics::AuditMetrics;
use tokio::sync::oneshot;

use self::limits::CLOSE_PATIENCE;
use self::writer::Writer;

pub use self::answer::AnswerCount;
pub use self::file::AuditTarget;

/// The audit log of a node. Clones are the same.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<AuditState>);

#[derive(Debug)]
struct AuditState {
    queue: Arc<AuditQueue>,
    node: String,
    clock: Arc<dyn Clock>,
    writer_ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl AuditLog {
    /// Starts the writer. A file that cannot be opened is tried again for as long as the process runs.
    ///
    /// # Errors
    /// The system's error where it gives no thread.
    pub fn start(
        target: AuditTarget,
        node: String,
        metrics: AuditMetrics,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let queue = Arc::new(AuditQueue::new(metrics.clone()));
        let (ended, writer_ended) = oneshot::channel();
        let writer = Writer::new(Arc::clone(&queue), target, metrics, Arc::clone(&clock));
        std::thread::Builder::new().name("sherd-audit".to_owned()).spawn(move || {
            writer.run();
            // The process does not wait for longer than its patience.
            let _ = ended.send(());
        })?;
        Ok(Self(Arc::new(AuditState { queue, node, clock, writer_ended: Mutex::new(Some(writer_ended)) })))
    }

    /// Begins the record of a request to an API, `s3` or `iam`, and puts it among the request's extensions.
    /// `certificate` is the name in its sender's, where it came over mutual TLS.
    pub fn begin<B>(
        &self,
        service: &'static str,
        source: Source,
        certificate: Option<&str>,
        request: &mut Request<B>,
    ) -> AuditRecord {
        let AuditState { queue, node, clock, .. } = &*self.0;
        let record = AuditRecord::begin(
            queue,
            &AuditedRequest {
                service,
                node,
                wall_ms: clock.wall_ms(),
                source,
                certificate,
                method: request.method(),
                headers: request.headers(),
            },
        );
        request.extensions_mut().insert(record.clone());
        record
    }

    /// Has the file opened again, as after it was moved away.
    pub fn reopen(&self) {
        self.0.queue.reopen();
    }

    /// Takes no more lines, and waits until those that are there are written, or cannot be for too long.
    pub async fn close(&self) {
        self.0.queue.close();
        let ended = self.0.writer_ended.lock().take();
        let Some(ended) = ended else { return };
        if tokio::time::timeout(CLOSE_PATIENCE, ended).await.is_err() {
            tracing::error!("the last audit lines cannot be written");
        }
    }
}
