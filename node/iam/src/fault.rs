//! Refusals, in the codes and the words of IAM and STS.

use http::StatusCode;
use sherd_store::iam::{IamError, InvalidTag};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The error code, such as `NoSuchEntity`.
    pub(crate) code: &'static str,
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// The error's message, for people.
    pub(crate) message: String,
}

impl Fault {
    /// A refusal of any code.
    pub(crate) fn new(code: &'static str, status: StatusCode, message: impl Into<String>) -> Self {
        Self { code, status, message: message.into() }
    }

    /// A parameter that is missing or breaks its rules.
    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new("ValidationError", StatusCode::BAD_REQUEST, message)
    }

    /// A request that cannot be followed although each of its parameters is one.
    pub(crate) fn invalid_input(message: impl Into<String>) -> Self {
        Self::new("InvalidInput", StatusCode::BAD_REQUEST, message)
    }

    /// A value of a parameter that breaks its rules, in the words in which AWS lists it.
    pub(crate) fn constraint(parameter: &str, value: &str, constraint: &str) -> Self {
        let name = lower_first(parameter);
        Self::validation(format!(
            "1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: {constraint}"
        ))
    }

    /// A parameter that is missing.
    pub(crate) fn missing(parameter: &str) -> Self {
        let name = lower_first(parameter);
        Self::validation(format!(
            "1 validation error detected: Value at '{name}' failed to satisfy constraint: Member must not be null"
        ))
    }

    /// An entity that the account does not have.
    pub(crate) fn no_such_entity(message: impl Into<String>) -> Self {
        Self::new("NoSuchEntity", StatusCode::NOT_FOUND, message)
    }

    /// A part of IAM that is not served.
    pub(crate) fn not_implemented(what: &str) -> Self {
        Self::new("NotImplemented", StatusCode::NOT_IMPLEMENTED, format!("{what} is not implemented."))
    }

    /// The server cannot say or do it now: the same request may succeed later.
    pub(crate) fn unavailable() -> Self {
        Self::new(
            "ServiceUnavailable",
            StatusCode::SERVICE_UNAVAILABLE,
            "The request has failed due to a temporary failure of the server.",
        )
    }

    /// Too many requests at one time.
    pub(crate) fn throttled() -> Self {
        Self::new("Throttling", StatusCode::BAD_REQUEST, "Rate exceeded")
    }

    /// A signature that does not prove the caller.
    pub(crate) fn signature(message: impl Into<String>) -> Self {
        Self::new("SignatureDoesNotMatch", StatusCode::FORBIDDEN, message)
    }

    /// An access key that is not good.
    pub(crate) fn unknown_key() -> Self {
        let message = "The security token included in the request is invalid.";
        Self::new("InvalidClientTokenId", StatusCode::FORBIDDEN, message)
    }

    /// A signature without one of its parts.
    pub(crate) fn incomplete(message: impl Into<String>) -> Self {
        Self::new("IncompleteSignature", StatusCode::BAD_REQUEST, message)
    }
}

impl From<IamError> for Fault {
    fn from(error: IamError) -> Self {
        let message = error.to_string();
        match error {
            IamError::NoSuchEntity(_) => Self::no_such_entity(message),
            IamError::EntityAlreadyExists { .. } | IamError::KeyTaken(_) => {
                Self::new("EntityAlreadyExists", StatusCode::CONFLICT, message)
            }
            IamError::DeleteConflict(_) => Self::new("DeleteConflict", StatusCode::CONFLICT, message),
            IamError::LimitExceeded(_) => Self::new("LimitExceeded", StatusCode::CONFLICT, message),
            IamError::ConcurrentModification => {
                Self::new("ConcurrentModification", StatusCode::CONFLICT, message)
            }
            IamError::Busy => Self::throttled(),
            IamError::SignerInactive => Self::unknown_key(),
            IamError::Invalid { field, source } => Self::validation(format!(
                "1 validation error detected: Value at '{field}' failed to satisfy constraint: {source}"
            )),
            IamError::Description | IamError::GivenKeyId | IamError::GivenSecret => Self::validation(message),
            IamError::MalformedPolicy(_) => {
                Self::new("MalformedPolicyDocument", StatusCode::BAD_REQUEST, message)
            }
            IamError::InvalidTag(InvalidTag::Key { .. } | InvalidTag::Value { .. }) => {
                Self::validation(message)
            }
            // Without the account's master key no later request succeeds either: SDKs would send one of 503
            // again.
            IamError::NoMasterKey
            | IamError::OtherMasterKey { .. }
            | IamError::InvalidTag(InvalidTag::Twice | InvalidTag::TwiceInAnyCase | InvalidTag::Reserved) => {
                Self::invalid_input(message)
            }
            IamError::Read(_) | IamError::Write(_) => {
                tracing::warn!(error = message, "a request to IAM failed");
                Self::unavailable()
            }
        }
    }
}

/// A parameter as messages name it: `UserName` is `userName`.
fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
