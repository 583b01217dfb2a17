//! A refusal of a request and its XML: Code, Message, elements of the code, Resource, RequestId, HostId. And
//! the error codes, as AWS documents them ("List of error codes").

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};

use crate::wire::xml::needs_reference;

/// The side that refuses a request. Their documents differ in nothing that a parser sees, and in these bytes
/// since the first release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The layer before the operations: its documents have a line end behind the declaration.
    Layer,
    /// An operation: the apostrophes of its message are escaped.
    Operation,
}

/// A refusal: a code, a message, and the elements that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The error code, which brings its status.
    pub code: Code,
    /// The message; the code's own unless the case has a better one.
    pub message: Cow<'static, str>,
    /// Further elements of the document, in order.
    pub details: Vec<(&'static str, String)>,
    /// Headers of the answer, beside those that every answer has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// A refusal with the code's own message.
    pub fn new(code: Code) -> Self {
        Self::says(code, code.message())
    }

    /// A refusal with a message of its own.
    pub fn says(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), details: Vec::new(), headers: Vec::new() }
    }

    /// Names an argument that cannot be used, and what was sent.
    pub fn bad_argument(message: impl Into<Cow<'static, str>>, name: &str, value: &str) -> Self {
        Self::says(Code::InvalidArgument, message).with("ArgumentName", name).with("ArgumentValue", value)
    }

    /// Says that a header has to be there.
    pub fn missing_header(name: &str) -> Self {
        Self::says(Code::InvalidRequest, format!("missing header: {name}"))
    }

    /// Says that a header cannot have its value.
    pub fn bad_header(name: &str, value: &HeaderValue) -> Self {
        let text = String::from_utf8_lossy(value.as_bytes());
        Self::bad_argument(format!("invalid header: {name}: {value:?}"), name, &text)
    }

    /// Says that `Content-MD5` differs. S3 writes the one in hexadecimal digits and the other in base64.
    pub fn bad_md5(expected: &[u8; 16], computed: &[u8; 16]) -> Self {
        Self::says(Code::BadDigest, "The Content-MD5 you specified did not match what we received.")
            .with("CalculatedDigest", STANDARD.encode(computed))
            .with("ExpectedDigest", hex::encode(expected))
    }

    /// Adds an element.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The kind and the name of a lacking feature, where that is the reason.
    pub(crate) fn lacking(&self) -> Option<(&'static str, &str)> {
        let (kind, name) = self.details.first().filter(|_| self.code == Code::NotImplemented)?;
        Some((kind, name))
    }

    /// Whether the reason is the region that the request was signed for.
    pub(crate) fn is_for_region(&self) -> bool {
        self.details.iter().any(|(name, _)| *name == "Region")
    }

    /// Writes the document up to, and without, Resource.
    pub(crate) fn open(&self, side: Side) -> String {
        let mut xml = String::with_capacity(512);
        xml.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
        if side == Side::Layer {
            xml.push('\n');
        }
        xml.push_str("<Error>");
        element(&mut xml, "Code", self.code.name());
        match side {
            Side::Layer => element(&mut xml, "Message", &self.message),
            Side::Operation => {
                xml.push_str("<Message>");
                for (at, piece) in self.message.split('\'').enumerate() {
                    xml.push_str(if at > 0 { "&apos;" } else { "" });
                    escape(&mut xml, piece);
                }
                xml.push_str("</Message>");
            }
        }
        for (name, value) in &self.details {
            element(&mut xml, name, value);
        }
        xml
    }
}

/// Appends an element with text.
pub(crate) fn element(xml: &mut String, name: &str, text: &str) {
    xml.push('<');
    xml.push_str(name);
    xml.push('>');
    escape(xml, text);
    xml.push_str("</");
    xml.push_str(name);
    xml.push('>');
}

/// Appends text, escaped; control characters as references, as AWS writes them.
fn escape(xml: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            _ if needs_reference(character) => {
                write!(xml, "&#x{:X};", u32::from(character)).expect("a string takes everything");
            }
            _ => xml.push(character),
        }
    }
}

/// Declares the codes: name, status, message.
macro_rules! codes {
    ($($name:ident $status:ident $message:literal,)*) => {
        /// An error code of S3.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(
                #[doc = $message]
                $name,
            )*
        }

        impl Code {
            /// The code as it stands in the document.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The status it is answered with.
            pub const fn status(self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)*
                }
            }

            /// The message where the case has none of its own.
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$name => $message,)*
                }
            }
        }

    };
}

codes! {
    AccessControlListNotSupported BAD_REQUEST "The bucket does not allow ACLs",
    AccessDenied FORBIDDEN "Access Denied",
    AccessForbidden FORBIDDEN "Access Forbidden",
    AuthorizationHeaderMalformed BAD_REQUEST "The authorization header that you provided is not valid.",
    AuthorizationQueryParametersError BAD_REQUEST "The authorization query parameters that you provided are not valid.",
    BadDigest BAD_REQUEST "The Content-MD5 or checksum value that you specified did not match what the server received.",
    BadRequest BAD_REQUEST "Bad Request",
    BucketAlreadyExists CONFLICT "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please select a different name and try again.",
    BucketAlreadyOwnedByYou CONFLICT "Your previous request to create the named bucket succeeded and you already own it.",
    BucketNotEmpty CONFLICT "The bucket you tried to delete is not empty",
    ConditionalRequestConflict CONFLICT "The conditional request cannot succeed due to a conflicting operation against this resource.",
    EntityTooLarge BAD_REQUEST "Your proposed upload exceeds the maximum allowed size",
    EntityTooSmall BAD_REQUEST "Your proposed upload is smaller than the minimum allowed size",
    IllegalLocationConstraintException BAD_REQUEST "The specified location constraint is incompatible for the region specific endpoint this request was sent to.",
    IllegalVersioningConfigurationException BAD_REQUEST "The versioning configuration specified in the request is invalid.",
    IncompleteBody BAD_REQUEST "The request body terminated unexpectedly",
    IncorrectNumberOfFilesInPostRequest BAD_REQUEST "POST requires exactly one file upload per request.",
    InsufficientStorage INSUFFICIENT_STORAGE "There is not enough space left to store the object.",
    InternalError INTERNAL_SERVER_ERROR "We encountered an internal error. Please try again.",
    InvalidAccessKeyId FORBIDDEN "The AWS Access Key Id you provided does not exist in our records.",
    InvalidArgument BAD_REQUEST "Invalid Argument",
    InvalidBucketAclWithObjectOwnership BAD_REQUEST "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
    InvalidBucketName BAD_REQUEST "The specified bucket is not valid.",
    InvalidBucketOwnerAWSAccountID BAD_REQUEST "The value of the expected bucket owner parameter must be an AWS Account ID...",
    InvalidChunkSizeError FORBIDDEN "Only the last chunk is allowed to have a size less than 8192 bytes",
    InvalidDigest BAD_REQUEST "The Content-MD5 you specified was invalid",
    InvalidLocationConstraint BAD_REQUEST "The specified location-constraint is not valid",
    InvalidPart BAD_REQUEST "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.",
    InvalidPartNumber RANGE_NOT_SATISFIABLE "The requested partnumber is not satisfiable",
    InvalidPartOrder BAD_REQUEST "The list of parts was not in ascending order. Parts must be ordered by part number.",
    InvalidPolicyDocument BAD_REQUEST "The content of the form does not meet the conditions specified in the policy document.",
    InvalidRange RANGE_NOT_SATISFIABLE "The requested range is not satisfiable",
    InvalidRedirectLocation BAD_REQUEST "The website redirect location is not valid",
    InvalidRequest BAD_REQUEST "Invalid Request",
    InvalidStorageClass BAD_REQUEST "The storage class you specified is not valid",
    InvalidTag BAD_REQUEST "The tag provided was not a valid tag.",
    InvalidToken BAD_REQUEST "The provided token is malformed or otherwise invalid.",
    InvalidURI BAD_REQUEST "Couldn't parse the specified URI.",
    KeyTooLongError BAD_REQUEST "Your key is too long",
    MalformedACLError BAD_REQUEST "The XML you provided was not well-formed or did not validate against our published schema",
    MalformedPOSTRequest BAD_REQUEST "The body of your POST request is not well-formed multipart/form-data.",
    MalformedPolicy BAD_REQUEST "Policies must be valid JSON and the first byte must be '{'",
    MalformedTrailerError BAD_REQUEST "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    MalformedXML BAD_REQUEST "The XML you provided was not well-formed or did not validate against our published schema",
    MaxMessageLengthExceeded BAD_REQUEST "Your request was too big.",
    MaxPostPreDataLengthExceeded BAD_REQUEST "Your POST request fields preceeding the upload file was too large.",
    MetadataTooLarge BAD_REQUEST "Your metadata headers exceed the maximum allowed metadata size",
    MethodNotAllowed METHOD_NOT_ALLOWED "The specified method is not allowed against this resource.",
    MissingContentLength LENGTH_REQUIRED "You must provide the Content-Length HTTP header.",
    MissingRequestBodyError BAD_REQUEST "MissingRequestBodyError",
    MissingSecurityHeader BAD_REQUEST "Your request is missing a required header",
    NoSuchBucket NOT_FOUND "The specified bucket does not exist",
    NoSuchBucketPolicy NOT_FOUND "The bucket policy does not exist",
    NoSuchCORSConfiguration NOT_FOUND "The CORS configuration does not exist",
    NoSuchKey NOT_FOUND "The specified key does not exist.",
    NoSuchLifecycleConfiguration NOT_FOUND "The lifecycle configuration does not exist",
    NoSuchPublicAccessBlockConfiguration NOT_FOUND "The public access block configuration was not found",
    NoSuchTagSet NOT_FOUND "The TagSet does not exist",
    NoSuchUpload NOT_FOUND "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.",
    NoSuchVersion NOT_FOUND "The specified version does not exist.",
    NoSuchWebsiteConfiguration NOT_FOUND "The specified bucket does not have a website configuration",
    NotImplemented NOT_IMPLEMENTED "A header or query you provided implies functionality that is not implemented",
    NotModified NOT_MODIFIED "Not Modified",
    ObjectLockConfigurationNotFoundError NOT_FOUND "Object Lock configuration does not exist for this bucket",
    OperationAborted CONFLICT "A conflicting conditional operation is currently in progress against this resource. Please try again.",
    OwnershipControlsNotFoundError NOT_FOUND "The bucket ownership controls were not found",
    PreconditionFailed PRECONDITION_FAILED "At least one of the pre-conditions you specified did not hold",
    ReplicationConfigurationNotFoundError NOT_FOUND "The replication configuration was not found",
    RequestTimeTooSkewed FORBIDDEN "The difference between the request time and the current time is too large.",
    RequestHeaderSectionTooLarge BAD_REQUEST "Your request header section exceeds the maximum allowed size.",
    RequestTimeout BAD_REQUEST "Your socket connection to the server was not read from or written to within the timeout period.",
    RequestURITooLong URI_TOO_LONG "The request URI exceeds the maximum allowed length.",
    ServerSideEncryptionConfigurationNotFoundError NOT_FOUND "The server side encryption configuration was not found",
    ServiceUnavailable SERVICE_UNAVAILABLE "Service is unable to handle request.",
    SignatureDoesNotMatch FORBIDDEN "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
    SlowDown SERVICE_UNAVAILABLE "Please reduce your request rate.",
    TooManyBuckets BAD_REQUEST "You have attempted to create more buckets than allowed.",
    UnexpectedContent BAD_REQUEST "The body has more bytes than the Content-Length HTTP header specified",
    UserKeyMustBeSpecified BAD_REQUEST "The key must not be empty",
    XAmzContentSHA256Mismatch BAD_REQUEST "The provided 'x-amz-content-sha256' header does not match what was computed.",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut xml = String::new();
        element(&mut xml, "A", "<b>&\"\r\u{1}é");
        assert_eq!(xml, "<A>&lt;b&gt;&amp;&quot;&#xD;&#x1;é</A>");
    }

    #[test]
    fn a_document_opens_with_code_message_and_details() {
        let xml = Refusal::new(Code::EntityTooLarge).with("MaxSizeAllowed", "5").open(Side::Layer);
        assert!(xml.ends_with("</Message><MaxSizeAllowed>5</MaxSizeAllowed>"), "{xml}");
        assert!(xml.contains("?>\n<Error><Code>EntityTooLarge</Code><Message>Your proposed upload"));
        let xml = Refusal::says(Code::InvalidPart, "the part's tag").open(Side::Operation);
        assert!(
            xml.ends_with("?><Error><Code>InvalidPart</Code><Message>the part&apos;s tag</Message>"),
            "{xml}"
        );
    }

    #[test]
    fn a_code_has_a_name_a_message_and_a_status() {
        assert_eq!(Code::NoSuchKey.name(), "NoSuchKey");
        assert_eq!(Code::NoSuchKey.message(), "The specified key does not exist.");
        assert_eq!(Code::SlowDown.status(), 503);
    }
}
