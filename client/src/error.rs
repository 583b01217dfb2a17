//! Errors by what a caller can do: ask for a right, try later, name another path, copy again.

use std::io;
use std::path::PathBuf;

/// A failure of an operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service refused the request.
    #[error("{resource}: {refusal}")]
    Refused {
        /// `s3://bucket/key`, or the endpoint.
        resource: String,
        /// The service's own words.
        refusal: Box<Refusal>,
    },
    /// No attempt got an answer.
    #[error("{resource}: no answer from {endpoint} in {attempts} attempts: {failure}")]
    NoAnswer {
        /// `s3://bucket/key`, or the endpoint.
        resource: String,
        /// The address that was asked.
        endpoint: String,
        /// Attempts that were made.
        attempts: u32,
        /// The last failure.
        #[source]
        failure: ExchangeFailure,
    },
    /// The service answered what no S3 server does.
    #[error("{resource}: the answer cannot be read: {what}")]
    Malformed {
        /// `s3://bucket/key`, or the endpoint.
        resource: String,
        /// The part of it.
        what: &'static str,
    },
    /// A file or folder cannot be used.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// The action: `open`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A file changed or shrank between the beginning and the end of its upload, or before it was removed.
    #[error("{} changed while it was read; copy it again", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
    },
    /// An object was overwritten or removed while its ranges were read.
    #[error("{resource} was overwritten while it was read; nothing was written, copy it again")]
    ObjectChanged {
        /// The object.
        resource: String,
    },
    /// The bytes that arrived are not those that were stored.
    #[error("{resource}: {algorithm} of what was received is {computed}, and the store has {stored}")]
    Checksum {
        /// The object.
        resource: String,
        /// `CRC64NVME`, ...
        algorithm: &'static str,
        /// Of the bytes that arrived, in Base64.
        computed: String,
        /// Of the object, in Base64.
        stored: String,
    },
    /// A key or a file's name has no counterpart on the other side.
    #[error("{name}: {reason}")]
    Name {
        /// The key or path.
        name: String,
        /// Why.
        reason: NameFault,
    },
    /// The sizes that were asked for are not those that S3 takes.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Credentials are missing or cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The endpoint or its certificates cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The work was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// A refusal with the service's own code and words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({status}){}{message}{}", if message.is_empty() { "" } else { ": " }, self.hint())]
pub struct Refusal {
    /// HTTP's status.
    pub status: u16,
    /// The code, `NoSuchKey`; made of the status where the answer has no body.
    pub code: String,
    /// The words.
    pub message: String,
    /// The request's id on the server; empty if it gave none.
    pub request_id: String,
}

impl Refusal {
    /// Whether the bucket, key or upload is not there.
    pub fn is_absent(&self) -> bool {
        self.status == 404
    }

    /// Whether the caller lacks the right or valid credentials.
    pub fn is_denied(&self) -> bool {
        matches!(self.status, 401 | 403)
    }

    fn hint(&self) -> &'static str {
        match self.code.as_str() {
            "SignatureDoesNotMatch" => "; check the secret key and the region",
            "InvalidAccessKeyId" => {
                "; this endpoint has no such access key: check alias, profile or variables"
            }
            "RequestTimeTooSkewed" => "; set this machine's clock",
            "NoSuchBucket" => "; make it with `sherd mb`",
            "BucketNotEmpty" => "; `sherd rb --force` removes what is in it",
            _ => "",
        }
    }
}

/// Why an attempt got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeFailure {
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(String),
    /// No byte moved for a time.
    #[error("no byte moved for {seconds} s")]
    Stalled {
        /// The time.
        seconds: u64,
    },
    /// The answer ended early.
    #[error("the answer ended after {received} of {expected} bytes")]
    CutShort {
        /// Bytes that arrived.
        received: u64,
        /// Bytes that were announced.
        expected: u64,
    },
    /// The service asked to come back later until the attempts were used up.
    #[error("{0}")]
    Busy(Box<Refusal>),
}

/// Why a key or a file's name has no counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// A file's name is not UTF-8; keys are.
    #[error("the name is not UTF-8, and keys of S3 are; rename it")]
    NotUtf8,
    /// The key would leave the target folder, or name it.
    #[error("the key has a part that is empty, `.` or `..`, and would not stay below the target")]
    Outside,
    /// The key has a zero byte.
    #[error("the key has a character that no file's name may have")]
    Character,
    /// The bucket or key is missing.
    #[error("bucket and key have at least one character")]
    Empty,
    /// The key is longer than S3 takes.
    #[error("the key is longer than 1,024 bytes")]
    Long,
    /// The key ends in a slash and has bytes.
    #[error("the key ends in `/` as a folder does, and has bytes")]
    FolderWithBytes,
    /// The file is a socket, a pipe or a device.
    #[error("neither a file nor a folder; it is left out")]
    Special,
    /// Source and target are one object, or one lies below the other.
    #[error("source and target overlap; a copy would go on for ever, and a move remove what it made")]
    Overlap,
    /// A second source of the command has the same name at the target.
    #[error("another source of this command has the same name at the target; copy them one by one")]
    Twice,
    /// The file lies outside of the folder, where a link in it leads.
    #[error("it lies behind a link of the folder, and is not removed")]
    BehindLink,
    /// Links lead around in a circle.
    #[error("this link leads back to a folder above it")]
    Loop,
}

/// Sizes that S3 does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No request could be sent.
    #[error("workers must be 1 to {max}", max = crate::limits::WORKERS_MAX)]
    Workers,
    /// The part is smaller or larger than S3 takes.
    #[error("a part must be of 5 MiB to 5 GiB")]
    PartSize,
    /// The object would have more than 10,000 parts.
    #[error("{bytes} bytes in parts of {part_bytes} are more than 10,000 parts; ask for larger ones")]
    TooManyParts {
        /// Bytes of the object.
        bytes: u64,
        /// Bytes of a part.
        part_bytes: u64,
    },
    /// No request would be sent, or for ever.
    #[error("attempts must be 1 to {max}", max = crate::limits::ATTEMPTS_MAX)]
    Attempts,
    /// The object does not belong into memory.
    #[error("{bytes} bytes are not read into memory, up to 5 GiB are; read the object as a stream")]
    Held {
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// A presigned URL is valid for as long as S3 takes.
    #[error("a presigned URL is valid for 1 second to 7 days")]
    Expiry,
}

/// Credentials that are not there or not readable.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// No source has any.
    #[error(
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or run `sherd alias set`"
    )]
    Nowhere,
    /// The profile is in no file.
    #[error("profile {0} is neither in the credentials nor in the config file of AWS")]
    NoProfile(String),
    /// A source has one half of a pair.
    #[error("{0} has an access key or a secret key, and not both")]
    Half(String),
    /// A file cannot be read.
    #[error("read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// An alias is not kept.
    #[error("no alias {0}: `sherd alias set {0} URL` makes it, `sherd alias ls` shows those there are")]
    NoAlias(String),
}

/// An endpoint that cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address cannot be an endpoint.
    #[error("{url}: {reason}")]
    Url {
        /// As it was given.
        url: String,
        /// The form that it must have.
        reason: &'static str,
    },
    /// The certificates to trust cannot be read.
    #[error("certificates of {}: {reason}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Values cannot be signed.
    #[error(transparent)]
    Sign(#[from] sherd_signature::signer::SignError),
}

impl Error {
    /// Makes an error of a file operation.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// Makes an error about a key or path.
    pub(crate) fn name(name: impl Into<String>, reason: NameFault) -> Self {
        Self::Name { name: name.into(), reason }
    }

    /// Whether what was asked for is not there.
    pub fn is_absent(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => refusal.is_absent(),
            Self::File { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// A word for programs: `refused`, `no_answer`, ...
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::NoAnswer { .. } => "no_answer",
            Self::Malformed { .. } => "malformed_answer",
            Self::File { .. } => "file",
            Self::SourceChanged { .. } => "source_changed",
            Self::ObjectChanged { .. } => "object_changed",
            Self::Checksum { .. } => "checksum",
            Self::Name { .. } => "name",
            Self::Plan(_) => "plan",
            Self::Credentials(_) => "credentials",
            Self::Endpoint(_) => "endpoint",
            Self::Cancelled => "cancelled",
        }
    }
}
