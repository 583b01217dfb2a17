//! The signature of a request in IAM's words: the service that it names, and why a request is not believed.
//! `sherd_front::verifier::whole` verifies it.

use http::StatusCode;
use http::request::Parts;
use sherd_front::verifier::whole::signed_service;
use sherd_signature::amz_date::AmzDate;
use sherd_signature::error::{AuthError, KeysUnavailable, MalformedAuth, Place};

use super::answer::Service;
use super::fault::Fault;

/// The service that a request is signed for, as its signature names it; refusals are in its form.
pub(crate) fn service_of(head: &Parts) -> Option<Service> {
    match signed_service(head)?.as_str() {
        "sts" => Some(Service::Sts),
        "iam" => Some(Service::Iam),
        _ => None,
    }
}

impl From<AuthError> for Fault {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Anonymous => {
                let message = "Request is missing Authentication Token";
                Self::new("MissingAuthenticationToken", StatusCode::FORBIDDEN, message)
            }
            AuthError::TwoMechanisms => Self::incomplete(
                "A request has one signature: in its Authorization header, or in its query string.",
            ),
            AuthError::UnsupportedMechanism | AuthError::UnsupportedAuthorization => {
                Self::incomplete(BAD_HEADER)
            }
            AuthError::Malformed { place, reason } => malformed(place, &reason),
            AuthError::MissingDate => {
                Self::incomplete("Authorization header requires existence of a 'X-Amz-Date' header.")
            }
            AuthError::Token | AuthError::UnknownAccessKey { access_key: _ } => Self::unknown_key(),
            AuthError::MissingHost | AuthError::HeadersNotSigned { names: _ } => Self::signature(
                "'Host' or ':authority' and all 'x-amz-' headers must be a 'SignedHeader' in the AWS Authorization.",
            ),
            AuthError::Skewed { request_ms, server_ms, skew_ms_max } => {
                skewed(request_ms, server_ms, skew_ms_max)
            }
            AuthError::KeysUnavailable(KeysUnavailable::Unreadable) => Self::unavailable(),
            AuthError::KeysUnavailable(KeysUnavailable::Crowded) => Self::throttled(),
            AuthError::SignatureMismatch(_) => Self::signature(
                "The request signature we calculated does not match the signature you provided. Check your AWS \
                 Secret Access Key and signing method. Consult the service documentation for details.",
            ),
            AuthError::BadUri => {
                let message = "The query string contains a syntax error.";
                Self::new("MalformedQueryString", StatusCode::NOT_FOUND, message)
            }
            // Faults of requests to S3 alone.
            AuthError::MissingFormField { .. }
            | AuthError::FormField { .. }
            | AuthError::MissingV2Parameters
            | AuthError::InvalidV2Expiry { .. }
            | AuthError::ParametersNotSigned { .. }
            | AuthError::MissingPayloadHash
            | AuthError::InvalidPayloadHash { .. }
            | AuthError::Expired { .. }
            | AuthError::NotYetValid => Self::incomplete(error.to_string()),
        }
    }
}

const BAD_HEADER: &str = "Authorization header is not of the form of Signature Version 4.";

/// The refusal of a clock that is off by more than 15 minutes.
fn skewed(request_ms: u64, server_ms: u64, skew_ms_max: u64) -> Fault {
    let at = |ms| AmzDate::from_ms(ms).as_str().to_owned();
    let (signed, now) = (at(request_ms), at(server_ms));
    Fault::signature(if request_ms < server_ms {
        let oldest = at(server_ms - skew_ms_max);
        format!("Signature expired: {signed} is now earlier than {oldest} ({now} - 15 min.)")
    } else {
        let newest = at(server_ms + skew_ms_max);
        format!("Signature not yet current: {signed} is still later than {newest} ({now} + 15 min.)")
    })
}

/// The refusal of a signature whose parts are not well formed, or are for another service, region or day.
fn malformed(place: Place, reason: &MalformedAuth) -> Fault {
    match reason {
        MalformedAuth::Terminator { .. } => {
            Fault::signature("Credential should be scoped with a valid terminator: 'aws4_request'.")
        }
        MalformedAuth::Service { .. } => {
            Fault::signature("Credential should be scoped to correct service: 'iam'.")
        }
        MalformedAuth::Region { .. } => Fault::signature("Credential should be scoped to a valid region."),
        MalformedAuth::ScopeDay { .. } => Fault::signature(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP.",
        ),
        _ if place == Place::Header => Fault::incomplete(BAD_HEADER),
        MalformedAuth::Credential => Fault::incomplete(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term",
        ),
        MalformedAuth::Algorithm => Fault::incomplete("Unsupported AWS 'algorithm'."),
        MalformedAuth::Date => Fault::incomplete("Date must be in ISO-8601 'basic format'."),
        MalformedAuth::ExpiresNumber | MalformedAuth::ExpiresTooSoon | MalformedAuth::ExpiresTooLate => {
            Fault::incomplete("X-Amz-Expires must be a number of seconds from 1 to 604800.")
        }
        MalformedAuth::Components | MalformedAuth::SignedHeaders => Fault::incomplete(
            "AWS query-string parameters must include 'X-Amz-Algorithm', 'X-Amz-Credential', 'X-Amz-Signature', \
             'X-Amz-SignedHeaders' and 'X-Amz-Date', each once. Re-examine the query-string parameters.",
        ),
    }
}

#[cfg(test)]
mod tests;
