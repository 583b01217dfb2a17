//! Exit codes.

use std::process::ExitCode;

use crate::error::Error;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done; `diff` found both sides equal.
    Done,
    /// Something failed and the rest was done; `diff` found differences.
    Some,
    /// The command line was refused.
    Usage,
    /// The bucket, object or file is not there.
    Absent,
    /// The right is lacking, or credentials.
    Denied,
    /// No answer.
    Silent,
    /// Interrupted by SIGINT.
    Interrupted,
    /// The reader of standard output went away.
    Unread,
    /// Ended by SIGTERM.
    Terminated,
}

/// The codes as `--help` lists them.
pub(crate) const TEXT: &str = "\
Exit codes:
  0    all was done; diff: both sides are equal
  1    something failed, the rest was done; diff: there are differences
  2    the command line was refused
  3    the bucket, object or file is not there
  4    access denied, or no credentials
  5    the endpoint does not answer
  130  interrupted; what was under way is cleaned up. A second interrupt ends at once
  141  the reader of the output went away; likewise
  143  terminated; likewise";

impl Exit {
    /// The end of a command whose only object failed so.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Cancelled => Self::Interrupted,
            error if error.is_absent() => Self::Absent,
            Error::Refused { refusal, .. } if refusal.is_denied() => Self::Denied,
            Error::Credentials(_) => Self::Denied,
            Error::NoAnswer { .. } => Self::Silent,
            Error::Plan(_) | Error::Endpoint(_) => Self::Usage,
            Error::Refused { .. }
            | Error::Malformed { .. }
            | Error::File { .. }
            | Error::SourceChanged { .. }
            | Error::ObjectChanged { .. }
            | Error::Checksum { .. }
            | Error::Name { .. } => Self::Some,
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Some => 1,
            Self::Usage => 2,
            Self::Absent => 3,
            Self::Denied => 4,
            Self::Silent => 5,
            Self::Interrupted => 130,
            Self::Unread => 141,
            Self::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
