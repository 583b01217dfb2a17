//! Why a command on users failed, in words for the person who gave it.

use std::io;
use std::path::PathBuf;

use super::limits::DOCUMENT_BYTES_MAX;
use crate::ask::RequestError;

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The file of a document cannot be read.
    #[error("read {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A document is too long.
    #[error("{path} has more than the {DOCUMENT_BYTES_MAX} bytes that a policy may have", path = path.display())]
    LongFile {
        /// The document's file.
        path: PathBuf,
    },
    /// No bucket can have such a name.
    #[error("{name:?} is no name of a bucket: --read and --write take those, and --file any other policy")]
    NoBucket {
        /// The name.
        name: String,
    },
    /// The keys of a user do not come to rest.
    #[error("user {user} makes access keys all the time: delete its policies, or the user")]
    KeysChange {
        /// The user.
        user: String,
    },
    /// The keys are inactive, and some requests go on.
    #[error(
        "the keys are inactive, but {nodes} did not confirm that requests under way there have ended: those go on \
         until they are done; run the command again, or stop these nodes"
    )]
    NotEnded {
        /// The nodes.
        nodes: String,
    },
    /// S3 lacks the action.
    #[error("{name}: S3 has no such action; s3:GetObject is one")]
    NoAction {
        /// The action's name.
        name: String,
    },
    /// The action and the resource do not fit.
    #[error("{action} is about {target}, and {resource} is {given}")]
    OtherTarget {
        /// The action.
        action: String,
        /// The kind of resource that it is about.
        target: &'static str,
        /// The resource.
        resource: String,
        /// The kind of that.
        given: &'static str,
    },
    /// A value of a condition key is malformed.
    #[error("{given:?} is no KEY=VALUE: --context takes those, such as aws:SourceIp=10.0.0.1")]
    NoContext {
        /// The text.
        given: String,
    },
    /// Neither a key nor a user is named so.
    #[error(
        "{given} is no access key and no user of the account. Keys of root stand in the configuration of nodes: root may do all that no policy of a bucket denies"
    )]
    NoCaller {
        /// The name.
        given: String,
    },
    /// The node did not answer.
    #[error("{address}: {source}")]
    Request {
        /// The node.
        address: String,
        /// Why.
        source: RequestError,
    },
    /// IAM refuses, by its code and in its words.
    #[error("{code}: {message}")]
    Refused {
        /// The code.
        code: String,
        /// The words.
        message: String,
    },
    /// The answer cannot be read.
    #[error("{address}: the answer is no document of IAM")]
    NoDocument {
        /// The node.
        address: String,
    },
}
