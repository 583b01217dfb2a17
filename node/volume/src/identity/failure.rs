//! The one way in which a volume fails: code that gets a refusal which no retry mends sets the latch, and
//! from there on every call is refused.
//!
//! ```text
//! refused call -> FaultClass -> full, busy: an answer, and the volume goes on
//!                            -> fatal:      the latch; volume.json, if the disk is broken for good
//! ```
//! Called by the log's thread, by readers, and by writers of shard files. Two facts must survive even a log
//! that cannot be written, and stand in volume.json: that the volume failed, and that it lost its state.

use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock, Weak};

use rustix::io::Errno;

use sherd_core::id::Life;

use crate::disk::ballast::Ballast;
use crate::error::{Error, FaultClass, OpenError};
use crate::identity::{Identity, IdentityFile, LostRange, VolumeLock};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureSpan {
    /// Until the volume is opened again: its disk may be well.
    Run,
    /// Until it is replaced: its disk may have lost what it was given.
    Life,
}

#[derive(Debug, Default)]
pub(crate) struct FailureLatch {
    reason: OnceLock<String>,
    /// Where a failure for life is noted; none for shard files without a volume. It is not held here: a shard
    /// file that is written for hours shall not keep the directory locked when the volume has ended.
    sticky: Option<Weak<FailureFile>>,
}

impl FailureLatch {
    /// Of a volume, whose identity is held weakly.
    pub(crate) fn new(sticky: &Arc<FailureFile>) -> Self {
        Self { reason: OnceLock::new(), sticky: Some(Arc::downgrade(sticky)) }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.reason() {
            Some(reason) => Err(Error::Failed { reason: reason.to_owned() }),
            None => Ok(()),
        }
    }

    /// Fails the volume for all callers. The first reason stays.
    pub(crate) fn fail(&self, span: FailureSpan, reason: &str) -> Error {
        let reason = self.reason.get_or_init(|| reason.to_owned()).clone();
        let sticky = self.sticky.as_ref().filter(|_| span == FailureSpan::Life);
        if let Some(sticky) = sticky.and_then(Weak::upgrade) {
            sticky.note_failure(&reason);
        }
        Error::Failed { reason }
    }

    /// Does something while the volume's directory is locked, and nothing once it may be another opening's.
    pub(crate) fn while_locked(&self, act: impl FnOnce()) {
        match self.sticky.as_ref().map(Weak::upgrade) {
            Some(None) => {}
            Some(Some(_held)) => act(),
            None => act(),
        }
    }

    /// Meaning of a refused call of the disk.
    pub(crate) fn judge(&self, op: &str, error: &io::Error) -> Error {
        match FaultClass::of(error) {
            FaultClass::Full => Error::Full,
            FaultClass::Busy => Error::Busy,
            FaultClass::Fatal => self.fail(span_of(error), &format!("{op}: {error}")),
        }
    }

    /// Meaning of a refused call that wrote nothing: earlier writes are not in doubt, so the volume fails for
    /// a run at most.
    pub(crate) fn judge_harmless(&self, op: &str, error: &io::Error) -> Error {
        match FaultClass::of(error) {
            FaultClass::Full => Error::Full,
            FaultClass::Busy => Error::Busy,
            FaultClass::Fatal => self.fail(FailureSpan::Run, &format!("{op}: {error}")),
        }
    }

    /// Meaning of a refused change of volume.json.
    pub(crate) fn judge_identity(&self, error: &OpenError) -> Error {
        match error {
            OpenError::Io { op, path, source } => self.judge(&format!("{op} {}", path.display()), source),
            other => self.fail(FailureSpan::Run, &other.to_string()),
        }
    }
}

/// How long a fatal refusal lasts. Where the directory is not there any more, nothing is known of the disk:
/// it may be mounted again.
fn span_of(error: &io::Error) -> FailureSpan {
    let is_away = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(Errno::STALE.raw_os_error());
    if is_away { FailureSpan::Run } else { FailureSpan::Life }
}

#[derive(Debug)]
pub(crate) struct FailureFile {
    pub(crate) file: IdentityFile,
    pub(crate) ballast: Arc<Ballast>,
    pub(crate) _lock: VolumeLock,
}

impl FailureFile {
    /// Changes volume.json. On a full disk the ballast makes room for it: its statements about a volume must
    /// not be lost for want of space, and a volume that does not open for that reason cannot free any.
    fn update(&self, change: impl Fn(&mut Identity)) -> Result<(), OpenError> {
        let is_full = |error: &OpenError| matches!(error, OpenError::Io { source, .. } if FaultClass::of(source) == FaultClass::Full);
        match self.file.update(&change) {
            Err(error) if is_full(&error) && self.ballast.give_up() => self.file.update(change),
            noted => noted,
        }
    }

    /// Notes why the volume failed; the first reason stays. If even this cannot be written, the next open
    /// tries the disk again and fails by itself.
    pub(crate) fn note_failure(&self, reason: &str) {
        let _ = self.update(|identity| identity.fail(reason));
    }

    pub(crate) fn begin_life(&self, life: Life) -> Result<(), OpenError> {
        self.update(|identity| identity.life = life)
    }

    /// Begins a life because of what is missing in the log, and remembers that.
    pub(crate) fn begin_life_without(&self, life: Life, noted_losses: &[LostRange]) -> Result<(), OpenError> {
        self.update(|identity| {
            identity.life = life;
            identity.noted_losses = noted_losses.to_vec();
        })
    }

    /// Forgets what is not missing any more.
    pub(crate) fn remember(&self, noted_losses: &[LostRange]) -> Result<(), OpenError> {
        self.update(|identity| identity.noted_losses = noted_losses.to_vec())
    }

    /// Notes that the state was lost. The next life begins when the log has it.
    pub(crate) fn note_loss(&self, reason: &str) -> Result<(), OpenError> {
        self.update(|identity| identity.lost = Some(reason.to_owned()))
    }

    /// Notes that a later state is known than the one that is here, and begins the life that recovers: after
    /// every one that is known.
    pub(crate) fn declare_lost(&self, reason: &str, remembered: Life) -> Result<(), OpenError> {
        self.update(|identity| {
            let highest = identity.life.max(remembered);
            identity.life = Life(highest.0.saturating_add(1));
            identity.lost = Some(reason.to_owned());
        })
    }

    pub(crate) fn note_whole(&self) -> Result<(), OpenError> {
        self.update(|identity| identity.lost = None)
    }
}
