//! A job: one file or object that is to be copied or moved. Jobs are planned into a bounded channel, and a
//! fixed number of tasks takes them from it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::copy::ObjectSide;
use super::engine::{Engine, blocking};
use super::progress::Event;
use crate::client::Client;
use crate::error::{Error, NameFault};
use crate::limits::JOBS_AHEAD_MAX;
use crate::payload::FileStamp;
use crate::s3::objects::{ObjectAttributes, ObjectName};

/// One end of a job.
#[derive(Debug, Clone)]
pub enum JobEnd {
    /// A file of this machine.
    File(PathBuf),
    /// An object of a service, with the word that its URL begins with.
    Object {
        /// The service.
        client: Client,
        /// The object.
        object: ObjectName,
        /// `s3`, or the alias.
        scheme: String,
    },
}

impl std::fmt::Display for JobEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Object { object, scheme, .. } => write!(f, "{scheme}://{}/{}", object.bucket, object.key),
        }
    }
}

/// One file or object that is to be copied or moved.
#[derive(Debug, Clone)]
pub struct Job {
    /// Where it is.
    pub source: JobEnd,
    /// Where it is to be.
    pub target: JobEnd,
    /// Bytes, where they are known.
    pub bytes: Option<u64>,
    /// Headers and tags to store it with; none keeps those of an object, and finds those of a file.
    pub attributes: Option<ObjectAttributes>,
    /// Whether the source is removed once the target is there.
    pub is_move: bool,
}

impl Job {
    const fn verb(&self) -> &'static str {
        if self.is_move { "move" } else { "copy" }
    }
}

/// Removes a file that is as it was when it was read. Blocks.
fn remove_unchanged(path: &Path, stamp: FileStamp) -> Result<(), Error> {
    let metadata = std::fs::metadata(path).map_err(Error::file("remove", path))?;
    if FileStamp::of(&metadata) != stamp {
        return Err(Error::SourceChanged { path: path.to_owned() });
    }
    std::fs::remove_file(path).map_err(Error::file("remove", path))
}

/// A sender of jobs.
pub type Jobs = mpsc::Sender<Job>;

impl Engine {
    /// Runs the jobs that a planner sends, as many at one time as there are workers. A job that fails is an
    /// event, and the others go on. Where all are cancelled, the planner's channel is closed.
    pub async fn run(&self, plan: impl AsyncFnOnce(Jobs)) {
        let (jobs, receiver) = mpsc::channel(JOBS_AHEAD_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut workers = JoinSet::new();
        for _ in 0..self.settings().workers {
            let (engine, receiver) = (self.clone(), Arc::clone(&receiver));
            workers.spawn(async move {
                loop {
                    let job = receiver.lock().await.recv().await;
                    let Some(job) = job else { return };
                    if engine.run_job(job).await.is_break() {
                        return;
                    }
                }
            });
        }
        drop(receiver);
        plan(jobs).await;
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    /// Runs a job. Breaks off where it was cancelled, and others will be, too.
    async fn run_job(&self, job: Job) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        let event = match self.transfer(&job).await {
            Ok(bytes) => Event::Done {
                verb: job.verb(),
                source: job.source.to_string(),
                target: Some(job.target.to_string()),
                bytes,
            },
            Err(error) => {
                if matches!(error, Error::Cancelled) {
                    flow = ControlFlow::Break(());
                }
                Event::Failed { verb: job.verb(), source: job.source.to_string(), error }
            }
        };
        self.progress().report(event).await;
        flow
    }

    async fn transfer(&self, job: &Job) -> Result<u64, Error> {
        let kept = job.attributes.as_ref();
        let read = match (&job.source, &job.target) {
            (JobEnd::File(path), JobEnd::Object { client, object, .. }) => {
                let attributes = kept.cloned().unwrap_or_default();
                let stamp = self.upload(client, path, object, &attributes).await?;
                if job.is_move {
                    let path = path.clone();
                    blocking(move || remove_unchanged(&path, stamp)).await?;
                }
                return Ok(stamp.bytes);
            }
            (JobEnd::Object { client, object, .. }, JobEnd::File(path)) => {
                self.download(client, object, path, job.bytes).await?
            }
            (JobEnd::Object { client, object, .. }, JobEnd::Object { client: to, object: target, .. }) => {
                if client.is_same_service(to) && object == target {
                    return Err(Error::name(job.source.to_string(), NameFault::Overlap));
                }
                let from = ObjectSide { client, object };
                self.copy(from, ObjectSide { client: to, object: target }, kept).await?
            }
            (JobEnd::File(path), JobEnd::File(_)) => {
                let source = std::io::Error::from(std::io::ErrorKind::Unsupported);
                return Err(Error::file("copy to a file", path)(source));
            }
        };
        if let JobEnd::Object { client, object, .. } = &job.source
            && job.is_move
        {
            client.delete_unchanged(object, &read.etag).await?;
        }
        Ok(read.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_since_it_was_read_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "before").unwrap();
        let stamp = FileStamp::of(&std::fs::metadata(&path).unwrap());
        std::fs::write(&path, "longer than before").unwrap();
        assert!(matches!(remove_unchanged(&path, stamp), Err(Error::SourceChanged { .. })));
        let stamp = FileStamp::of(&std::fs::metadata(&path).unwrap());
        remove_unchanged(&path, stamp).unwrap();
        assert!(!path.exists());
    }
}
