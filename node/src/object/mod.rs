//! The verbs of the store.
//!
//! What a verb is asked and what it answers is in `request`, why it failed in `error`. Each verb
//! has a file of its own, and reads downwards: `stripe` for bytes, `register` for the state of a
//! key, `peer` for the volumes below both.

mod digest;
mod error;
mod request;

pub use error::{BodyError, Error, Invalid, Missing, Result, Unavailable};
pub use request::{
    BodyStream, BucketInfo, BucketPage, ByteStream, CompleteUpload, CopyPart, CopyRequest, CreateUpload,
    DeleteOutcome, EtagMatch, ExpectedChecksum, ListEntry, ListPage, ListRequest, ListUploads, ListedPart,
    ObjectInfo, ObjectName, ObjectRead, PartInfo, PartName, PartPage, PutRequest, ReadConditions,
    ReadRequest, Span, Upload, UploadEntry, UploadPage, WriteConditions, Written,
};
