//! Why a verb of the store failed, by what the client is answered. `s3/error.rs` holds the one match
//! from here to S3's codes.

use sherd_core::config::UndecodableKind;
use sherd_core::record::{Attributes, ChecksumAlgorithm, ChecksumKind};

use crate::register::Failure;
use crate::stripe::{ReadError, WriteError};

/// A verb failed. Unless it says otherwise, nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named resource is not there.
    #[error(transparent)]
    Missing(#[from] MissingResource),
    /// The request contradicts itself, its limits, or what is stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The body did not arrive as announced.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A condition of the request does not hold.
    #[error("precondition failed: {header}")]
    PreconditionFailed {
        /// The header that failed.
        header: &'static str,
    },
    /// The version has other tags than the request named: those that decided on it.
    #[error("the object has other tags by now")]
    TagsChanged,
    /// The reader has this version already (304).
    #[error("not modified")]
    NotModified {
        /// The entity tag that the reader has.
        etag: String,
        /// When it was made, in milliseconds since the Unix epoch.
        modified_ms: u64,
        /// Headers of the version, as a read would answer them.
        attributes: Attributes,
    },
    /// The bucket's name is taken by this owner already.
    #[error("bucket already owned by you")]
    BucketAlreadyOwnedByYou,
    /// The bucket still has objects, or writes under way.
    #[error("bucket not empty")]
    BucketNotEmpty,
    /// The bucket has a tag of root's, and another than root would delete it.
    #[error("root alone deletes the bucket")]
    BucketReserved,
    /// A deletion of the bucket is under way, and does not end soon.
    #[error("the bucket is being deleted")]
    BucketBusy,
    /// Too much at once, or too few volumes: come back later.
    #[error(transparent)]
    Unavailable(#[from] UnavailableReason),
    /// No space for new data; deletes still work.
    #[error("insufficient storage")]
    Full,
    /// The change may or may not take effect: too many others came between.
    #[error("outcome unknown")]
    OutcomeUnknown,
    /// The node broke one of its own invariants; said once in the log with the request's id.
    #[error("internal: {what}")]
    Internal {
        /// The fault.
        what: String,
    },
}

/// The named resource is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissingResource {
    /// No such bucket.
    #[error("no such bucket")]
    Bucket,
    /// No such key.
    #[error("no such key")]
    Key,
    /// No such version of the key.
    #[error("no such version")]
    Version,
    /// No such upload.
    #[error("no such upload")]
    Upload,
}

/// The request is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The range lies behind the end.
    #[error("range not satisfiable")]
    Range {
        /// The object's size.
        size: u64,
    },
    /// No such part number in the object.
    #[error("invalid part number")]
    PartNumber,
    /// Complete names a part that was not uploaded, or with another ETag or checksum.
    #[error("invalid part {number}")]
    Part {
        /// The number it was listed under.
        number: u16,
        /// The ETag it was listed with.
        etag: String,
    },
    /// Complete lists a part without its checksum, though the object's is made of its parts'.
    #[error("the {algorithm:?} of part {number} is missing")]
    PartChecksumMissing {
        /// The part's number.
        number: u16,
        /// The upload's algorithm.
        algorithm: ChecksumAlgorithm,
    },
    /// A part or a Complete comes with another checksum than its upload's.
    #[error("checksum {actual:?} where the upload has {expected:?}")]
    ChecksumAlgorithm {
        /// The upload's, where it names one.
        expected: Option<ChecksumAlgorithm>,
        /// The one that came, where one did.
        actual: Option<ChecksumAlgorithm>,
    },
    /// Complete names another kind of checksum than its upload's.
    #[error("the upload's checksum is of the kind {upload:?}")]
    ChecksumKind {
        /// The upload's, where it has one.
        upload: Option<ChecksumKind>,
    },
    /// Complete announces another size than its parts have together.
    #[error("{announced} bytes announced, the parts have {computed}")]
    ObjectSize {
        /// Announced.
        announced: u64,
        /// The size of all parts together.
        computed: u64,
    },
    /// Complete lists parts out of order.
    #[error("parts out of order")]
    PartOrder,
    /// A part other than the last is under 5 MiB.
    #[error("part {number} is too small")]
    PartTooSmall {
        /// Number of the part.
        number: u16,
        /// Bytes of the part.
        size: u64,
        /// ETag of the part.
        etag: String,
    },
    /// More bytes than one PUT, part or object may have.
    #[error("entity too large")]
    TooLarge {
        /// The size that was asked for.
        size: u64,
        /// The size that is allowed.
        max: u64,
    },
    /// Too many uploads are open on one key.
    #[error("too many open uploads on one key")]
    TooManyUploads,
    /// A change of a bucket's tags by a caller who must leave this one as it is.
    #[error("tag {key} is reserved")]
    ReservedTag {
        /// The tag's key.
        key: String,
        /// Whether the change leaves it out, and does not add it or give it another value.
        is_removed: bool,
    },
    /// A copy onto itself that changes nothing.
    #[error("copy onto itself without a change")]
    CopyOntoItself,
    /// The bucket's name breaks the rules.
    #[error("invalid bucket name")]
    BucketName,
    /// An argument has a value that the operation does not take.
    #[error("invalid argument {name}")]
    Argument {
        /// The header or parameter.
        name: &'static str,
    },
}

/// The body is not what was announced.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Content-MD5 differs.
    #[error("Content-MD5 differs")]
    BadDigest {
        /// Announced.
        expected: [u8; 16],
        /// Of the bytes that arrived.
        computed: [u8; 16],
    },
    /// A checksum header or trailer differs.
    #[error("{0:?} differs")]
    ChecksumMismatch(ChecksumAlgorithm),
    /// The checksum of a multipart object differs from the one that Complete announces.
    #[error("{0:?} of the whole differs")]
    WholeChecksumMismatch(ChecksumAlgorithm),
    /// Fewer or more bytes than announced.
    #[error("{got} bytes instead of {expected}")]
    Length {
        /// Announced.
        expected: u64,
        /// Arrived.
        got: u64,
    },
    /// The stream itself failed: signature, framing, deadline, or a lost connection. The source is
    /// the protocol layer's.
    #[error("body stream")]
    Stream(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Not at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    /// Too few volumes of the key's set answer: writes need A, reads P.
    #[error("too few volumes")]
    Quorum,
    /// Too few verified shards of the data can be reached.
    #[error("too few shards")]
    Data,
    /// A queue or the buffer pool is full.
    #[error("overloaded")]
    Overloaded,
    /// More lists are under way than the volumes can serve.
    #[error("too many lists")]
    ListsBusy,
    /// The bucket is sealed by a deletion that may be undone.
    #[error("bucket sealed")]
    Sealed,
}

/// The result of the store's verbs.
pub type Result<T> = std::result::Result<T, Error>;

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable => UnavailableReason::Quorum.into(),
            Failure::Sealed => UnavailableReason::Sealed.into(),
            Failure::Overloaded => UnavailableReason::Overloaded.into(),
            Failure::ScansBusy => UnavailableReason::ListsBusy.into(),
            Failure::Full => Self::Full,
            Failure::OverLimit(over) => Invalid::Argument { name: over.field }.into(),
            Failure::OutcomeUnknown => Self::OutcomeUnknown,
        }
    }
}

impl From<UndecodableKind> for Error {
    fn from(undecodable: UndecodableKind) -> Self {
        Self::Internal { what: undecodable.to_string() }
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Quorum => UnavailableReason::Quorum.into(),
            WriteError::Full => Self::Full,
            WriteError::Overloaded => UnavailableReason::Overloaded.into(),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Shards => UnavailableReason::Data.into(),
            ReadError::Overloaded => UnavailableReason::Overloaded.into(),
            ReadError::Geometry => Self::Internal { what: "a version names an unknown code".to_owned() },
        }
    }
}
