//! The failure of an operation.

use sherd_store::iam::{IamError, IamReadError};
use sherd_store::object::Error;

use crate::wire::refusal::{Code, Refusal};

/// An operation failed: in the store, or before it came there.
#[derive(Debug)]
pub enum Failure {
    /// In the store.
    Store(Error),
    /// Before: the request asks for what S3 refuses.
    Request(Refusal),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Request(refusal)
    }
}

impl From<IamReadError> for Failure {
    fn from(error: IamReadError) -> Self {
        tracing::error!(%error, "a record of the account cannot be read");
        Refusal::new(Code::ServiceUnavailable).into()
    }
}

impl From<IamError> for Failure {
    fn from(error: IamError) -> Self {
        match error {
            IamError::Read(error) => error.into(),
            IamError::Write(error) => error.into(),
            IamError::Busy => Refusal::new(Code::SlowDown).into(),
            IamError::ConcurrentModification => Refusal::new(Code::OperationAborted).into(),
            error => {
                tracing::error!(%error, "a record of the account cannot be changed");
                Refusal::new(Code::InternalError).into()
            }
        }
    }
}

/// The result of an operation.
pub type Outcome<T> = Result<T, Failure>;
