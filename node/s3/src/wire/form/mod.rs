//! Forms that a browser sends to a bucket: their parts, their fields, and the answer that they ask for.
//! Nothing here reads from a connection.

pub mod fields;
pub mod parser;
pub mod prelude;
pub mod success;
pub mod tail;

/// Why the body of a form is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The body is not well-formed `multipart/form-data`, or ends before its file does.
    #[error("the form is malformed")]
    Malformed,
    /// The fields before the file take too many bytes.
    #[error("the fields of the form are too long")]
    FieldsTooLong,
    /// The form has no file, or more than one.
    #[error("the form has {count} files")]
    FileCount {
        /// Files that were seen.
        count: u8,
    },
    /// Too many bytes stand behind its file.
    #[error("{bytes} bytes stand behind the file of the form")]
    RestTooLong {
        /// Bytes that came.
        bytes: u64,
    },
    /// The file is smaller than the policy allows.
    #[error("the file has {size} bytes and needs {min}")]
    FileTooSmall {
        /// The bytes of the file.
        size: u64,
        /// Bytes that it has to have.
        min: u64,
    },
    /// The file is larger than the policy, or S3, allows.
    #[error("the file has {size} bytes and may have {max}")]
    FileTooLarge {
        /// The bytes of the file, if nothing but the end of the form follows them.
        size: u64,
        /// Bytes that it may have.
        max: u64,
    },
}

impl From<parser::MalformedForm> for FormError {
    fn from(_: parser::MalformedForm) -> Self {
        Self::Malformed
    }
}
