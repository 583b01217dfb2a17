//! Why a request is not believed: a variant for each answer that S3 gives.
//!
//! A service turns these into its own codes. An answer may repeat text that its client sent, and
//! never one that the server computed from a secret.

/// An access key cannot be looked up now. The same request may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeysUnavailable {
    /// The records of the key cannot be read.
    #[error("access keys cannot be looked up")]
    Unreadable,
    /// Too many keys that are not known here wait for their look-ups.
    #[error("too many unknown access keys are looked up")]
    Crowded,
}

/// Where the malformed thing stood; it decides the error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the `Authorization` header.
    Header,
    /// In the query of a presigned URL.
    Query,
    /// In a field of a form.
    Form,
}

/// The malformed part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MalformedAuth {
    /// A component or parameter is missing, unknown or stands twice.
    Components,
    /// The credential has not five parts.
    Credential,
    /// The algorithm is not `AWS4-HMAC-SHA256`.
    Algorithm,
    /// The signed headers are not a list of lower-case header names.
    SignedHeaders,
    /// The date is not `yyyymmddThhmmssZ`.
    Date,
    /// The scope's day is not the request's.
    ScopeDay {
        /// In the scope.
        scope: Box<str>,
        /// In the request.
        request: Box<str>,
    },
    /// The scope's region is not this one's.
    Region {
        /// In the scope.
        given: Box<str>,
        /// The region that is served.
        expected: Box<str>,
    },
    /// The scope's service is not `s3`.
    Service {
        /// In the scope.
        given: Box<str>,
    },
    /// The scope does not end in `aws4_request`.
    Terminator {
        /// In the scope.
        given: Box<str>,
    },
    /// The expiry is not a number.
    ExpiresNumber,
    /// The expiry is zero or negative.
    ExpiresTooSoon,
    /// The expiry is beyond seven days.
    ExpiresTooLate,
}

/// A signature that is not the one we compute, with what it should have been computed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The access key.
    pub access_key: Box<str>,
    /// The string to sign.
    pub string_to_sign: String,
    /// The canonical request inside it; SigV2 has none.
    pub canonical_request: Option<String>,
    /// The signature that was sent.
    pub signature: Box<str>,
}

/// Why a request is refused before its body is looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request carries no signature at all.
    #[error("the request is anonymous")]
    Anonymous,
    /// The request carries a signature in the header and one in the query.
    #[error("the request is signed twice")]
    TwoMechanisms,
    /// The request is signed with SigV4A, or with SigV2 where that is not taken.
    #[error("the signing mechanism is not supported")]
    UnsupportedMechanism,
    /// The `Authorization` header is in none of AWS's forms.
    #[error("the authorization type is not supported")]
    UnsupportedAuthorization,
    /// The request carries a session token, and sessions do not exist here.
    #[error("session tokens are not valid here")]
    Token,
    /// Something in header or query is not well formed.
    #[error("malformed: {reason:?}")]
    Malformed {
        /// Where.
        place: Place,
        /// What.
        reason: MalformedAuth,
    },
    /// A form lacks a field of its signature.
    #[error("the form has no field {name}")]
    MissingFormField {
        /// The field.
        name: &'static str,
    },
    /// A field of a form's signature is not well formed, or for another day, region or service.
    #[error("the field {name} is malformed: {reason:?}")]
    FormField {
        /// The field.
        name: &'static str,
        /// The field's value.
        value: Box<str>,
        /// The fault of the value.
        reason: MalformedAuth,
    },
    /// A SigV2 URL lacks one of its three parameters, or has one twice.
    #[error("a parameter of the signature is missing")]
    MissingV2Parameters,
    /// The expiry of a SigV2 URL is not a number of seconds since the Unix epoch.
    #[error("the expiry is no number")]
    InvalidV2Expiry {
        /// The text as it was sent.
        given: Box<str>,
    },
    /// A SigV2 URL has parameters that its signature does not cover.
    #[error("parameters are not signed")]
    ParametersNotSigned {
        /// Names of the parameters, separated by commas.
        names: String,
    },
    /// Neither `x-amz-date` nor `Date` says when the request was signed.
    #[error("the request has no valid date")]
    MissingDate,
    /// The request names no host.
    #[error("the request has no host")]
    MissingHost,
    /// The request does not say what its body's hash is.
    #[error("x-amz-content-sha256 is missing")]
    MissingPayloadHash,
    /// The value of the body's hash has none of the known forms.
    #[error("x-amz-content-sha256 is invalid")]
    InvalidPayloadHash {
        /// The text as it was sent.
        given: Box<str>,
    },
    /// Headers that must be signed are not.
    #[error("headers are not signed")]
    HeadersNotSigned {
        /// Names of the headers, separated by commas.
        names: String,
    },
    /// The request was signed more than the allowed skew away from the server's clock.
    #[error("the request time is too skewed")]
    Skewed {
        /// When it says it was signed.
        request_ms: u64,
        /// Our time.
        server_ms: u64,
        /// How far apart they may be, in milliseconds.
        skew_ms_max: u64,
    },
    /// A presigned URL's time is over.
    #[error("the presigned url has expired")]
    Expired {
        /// How long it held, in seconds; SigV2 says only when it ended.
        expires_seconds: Option<u64>,
        /// When it ended.
        ended_ms: u64,
        /// Our time.
        server_ms: u64,
    },
    /// A presigned URL's time has not come.
    #[error("the presigned url is not valid yet")]
    NotYetValid,
    /// The access key is unknown.
    #[error("the access key is unknown")]
    UnknownAccessKey {
        /// The access key.
        access_key: Box<str>,
    },
    /// The access key cannot be looked up now.
    #[error(transparent)]
    KeysUnavailable(KeysUnavailable),
    /// The signature is wrong.
    #[error("the signature does not match")]
    SignatureMismatch(Box<Mismatch>),
    /// Path or query cannot be decoded.
    #[error("the uri cannot be decoded")]
    BadUri,
}
