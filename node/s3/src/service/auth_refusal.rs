//! The one match from why a request is not believed to what S3 answers.

use http::header::{HeaderValue, RETRY_AFTER};

use sherd_signature::amz_date::AmzDate;
use sherd_signature::error::{AuthError, KeysUnavailable, MalformedAuth, Mismatch, Place};
use sherd_signature::post_policy::PolicyError;

use crate::wire::refusal::{Code, Refusal};

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Anonymous => Self::new(Code::AccessDenied),
            AuthError::TwoMechanisms => Self::says(
                Code::InvalidArgument,
                "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query \
                 string parameter or the Authorization header should be specified",
            ),
            AuthError::UnsupportedMechanism => Self::says(
                Code::InvalidRequest,
                "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
            ),
            AuthError::UnsupportedAuthorization => {
                Self::says(Code::InvalidArgument, "Unsupported Authorization Type")
                    .with("ArgumentName", "Authorization")
            }
            AuthError::Token => Self::new(Code::InvalidToken),
            AuthError::Malformed { place, reason } => malformed(place, reason),
            AuthError::MissingFormField { name } => missing_field(name),
            AuthError::FormField { name, value, reason } => malformed_field(name, &value, reason),
            AuthError::MissingV2Parameters => Self::says(
                Code::AccessDenied,
                "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters",
            ),
            AuthError::InvalidV2Expiry { given } => Self::says(
                Code::AccessDenied,
                format!("Invalid date (should be seconds since epoch): {given}"),
            ),
            AuthError::ParametersNotSigned { names } => Self::says(
                Code::AccessDenied,
                "There were parameters present in the request which Signature Version 2 does not sign",
            )
            .with("ParametersNotSigned", names),
            AuthError::MissingDate => Self::says(
                Code::AccessDenied,
                "AWS authentication requires a valid Date or x-amz-date header",
            ),
            AuthError::MissingHost => {
                Self::new(Code::MissingSecurityHeader).with("MissingHeaderName", "host")
            }
            AuthError::MissingPayloadHash => Self::says(
                Code::InvalidRequest,
                "Missing required header for this request: x-amz-content-sha256",
            ),
            AuthError::InvalidPayloadHash { given } => invalid_payload_hash(given),
            AuthError::HeadersNotSigned { names } => Self::says(
                Code::AccessDenied,
                "There were headers present in the request which were not signed",
            )
            .with("HeadersNotSigned", names),
            AuthError::Skewed { request_ms, server_ms, skew_ms_max } => Self::new(Code::RequestTimeTooSkewed)
                .with("RequestTime", AmzDate::from_ms(request_ms).as_str())
                .with("ServerTime", AmzDate::from_ms(server_ms).extended())
                .with("MaxAllowedSkewMilliseconds", skew_ms_max.to_string()),
            AuthError::Expired { expires_seconds, ended_ms, server_ms } => {
                expired(expires_seconds, ended_ms, server_ms)
            }
            AuthError::NotYetValid => Self::says(Code::AccessDenied, "Request is not yet valid"),
            AuthError::UnknownAccessKey { access_key } => {
                Self::new(Code::InvalidAccessKeyId).with("AWSAccessKeyId", access_key)
            }
            AuthError::KeysUnavailable(KeysUnavailable::Unreadable) => unavailable(),
            AuthError::KeysUnavailable(KeysUnavailable::Crowded) => Self::new(Code::SlowDown),
            AuthError::SignatureMismatch(mismatch) => mismatched(*mismatch),
            AuthError::BadUri => Self::new(Code::InvalidURI),
        }
    }
}

/// The key or the policies that decide cannot be read now; a later try may succeed.
pub(super) fn unavailable() -> Refusal {
    let refusal = Refusal::says(
        Code::ServiceUnavailable,
        "The access key or the policies of the request cannot be read. Please try again.",
    );
    refusal.with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

fn invalid_payload_hash(given: Box<str>) -> Refusal {
    Refusal::says(
        Code::InvalidArgument,
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
         STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 \
         value.",
    )
    .with("ArgumentName", "x-amz-content-sha256")
    .with("ArgumentValue", given)
}

fn expired(expires_seconds: Option<u64>, ended_ms: u64, server_ms: u64) -> Refusal {
    let refusal = Refusal::says(Code::AccessDenied, "Request has expired");
    let refusal = match expires_seconds {
        Some(seconds) => refusal.with("X-Amz-Expires", seconds.to_string()),
        None => refusal,
    };
    refusal
        .with("Expires", AmzDate::from_ms(ended_ms).extended())
        .with("ServerTime", AmzDate::from_ms(server_ms).extended())
}

fn mismatched(mismatch: Mismatch) -> Refusal {
    let Mismatch { access_key, string_to_sign, canonical_request, signature } = mismatch;
    let refusal = Refusal::new(Code::SignatureDoesNotMatch)
        .with("AWSAccessKeyId", access_key)
        .with("StringToSign", string_to_sign)
        .with("SignatureProvided", signature);
    match canonical_request {
        Some(request) => refusal.with("CanonicalRequest", request),
        None => refusal,
    }
}

/// Says that a form lacks a field in front of its file.
pub(super) fn missing_field(name: &'static str) -> Refusal {
    let message = format!(
        "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
    );
    Refusal::says(Code::InvalidArgument, message).with("ArgumentName", name).with("ArgumentValue", "")
}

/// Says what is wrong with a field of a form's signature.
fn malformed_field(name: &'static str, value: &str, reason: MalformedAuth) -> Refusal {
    let refusal = match reason {
        MalformedAuth::Date => {
            Refusal::says(Code::InvalidArgument, "X-Amz-Date must be formated via ISO8601 Long format")
        }
        reason => malformed(Place::Form, reason),
    };
    refusal.with("ArgumentName", name).with("ArgumentValue", value)
}

impl From<PolicyError> for Refusal {
    fn from(error: PolicyError) -> Self {
        let code = match &error {
            PolicyError::Document(_) => Code::InvalidPolicyDocument,
            PolicyError::Expired | PolicyError::ConditionFailed { .. } | PolicyError::ExtraFields { .. } => {
                Code::AccessDenied
            }
        };
        Self::says(code, error.to_string())
    }
}

fn malformed(place: Place, reason: MalformedAuth) -> Refusal {
    let (code, start) = match place {
        Place::Header => (Code::AuthorizationHeaderMalformed, "The authorization header is malformed; "),
        Place::Query => {
            (Code::AuthorizationQueryParametersError, "Error parsing the X-Amz-Credential parameter; ")
        }
        Place::Form => (Code::InvalidArgument, ""),
    };
    let says = |text: &str| Refusal::says(code, format!("{start}{text}"));
    match reason {
        MalformedAuth::Components => match place {
            Place::Header => says(
                "the authorization header requires three components: Credential, SignedHeaders, and Signature.",
            ),
            Place::Query | Place::Form => Refusal::says(
                code,
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, \
                 X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
            ),
        },
        MalformedAuth::Credential => says(
            "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
        ),
        MalformedAuth::Algorithm => Refusal::says(code, "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""),
        MalformedAuth::SignedHeaders => {
            Refusal::says(code, "The SignedHeaders must be lower-case header names, separated by semicolons.")
        }
        MalformedAuth::Date => {
            Refusal::says(code, "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
        }
        MalformedAuth::ScopeDay { scope, request } => says(&format!(
            "Invalid credential date \"{scope}\". This date is not the same as X-Amz-Date: \"{request}\"."
        )),
        MalformedAuth::Region { given, expected } => {
            says(&format!("the region '{given}' is wrong; expecting '{expected}'")).with("Region", expected)
        }
        MalformedAuth::Service { given } => {
            says(&format!("incorrect service \"{given}\". This endpoint belongs to \"s3\"."))
        }
        MalformedAuth::Terminator { given } => {
            says(&format!("incorrect terminal \"{given}\". This endpoint uses \"aws4_request\"."))
        }
        MalformedAuth::ExpiresNumber => Refusal::says(code, "X-Amz-Expires should be a number"),
        MalformedAuth::ExpiresTooSoon => Refusal::says(code, "X-Amz-Expires must be positive"),
        MalformedAuth::ExpiresTooLate => Refusal::says(
            code,
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be \
             less than 604800 seconds",
        ),
    }
}
