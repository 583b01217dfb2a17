//! The means of a verb: the services, the engine, and the output.

use std::ffi::OsStr;

use serde_json::json;

use super::exit::Exit;
use super::output::Output;
use super::remotes::Remotes;
use crate::error::Error;
use crate::transfer::engine::Engine;
use crate::transfer::job::{Job, Jobs};
use crate::transfer::progress::Event;

/// The means of one command.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) remotes: Remotes,
    pub(crate) engine: Engine,
    pub(crate) output: Output,
    pub(crate) is_dry_run: bool,
}

/// Why a verb ended before its work.
#[derive(Debug)]
pub(crate) enum VerbError {
    /// The command line asks for what cannot be.
    Usage(String),
    /// The work failed.
    Failed(Error),
}

impl From<Error> for VerbError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// How a verb ended; failures of single objects are events.
pub(crate) type VerbResult = Result<Exit, VerbError>;

/// Makes a refusal of the command line.
pub(crate) fn usage<T>(text: impl Into<String>) -> Result<T, VerbError> {
    Err(VerbError::Usage(text.into()))
}

impl Session {
    /// Sends a job to the workers, or says what it would be.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once the command ends early: no more is to be planned.
    pub(crate) async fn plan(&self, jobs: &Jobs, job: Job) -> Result<(), Error> {
        if self.output.is_stopped() {
            return Err(Error::Cancelled);
        }
        let bytes = job.bytes.unwrap_or(0);
        self.engine.progress().planned(bytes);
        if self.is_dry_run {
            let verb = if job.is_move { "move" } else { "copy" };
            let (source, target) = (job.source.to_string(), Some(job.target.to_string()));
            self.engine.progress().report(Event::Planned { verb, source, target, bytes }).await;
            return Ok(());
        }
        jobs.send(job).await.map_err(|_| Error::Cancelled)
    }

    /// Reports what cannot be planned.
    pub(crate) async fn fail(&self, verb: &'static str, source: impl Into<String>, error: Error) {
        self.engine.progress().planned(0);
        self.engine.progress().report(Event::Failed { verb, source: source.into(), error }).await;
    }

    /// Prints a number of what was removed or would be.
    pub(crate) fn say(&self, event: &'static str, name: &str) {
        self.output.note(|| json!({ "event": event, "source": name }), || format!("{event} {name}"));
    }
}

/// A text of the command line as it is shown.
pub(crate) fn shown(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}
