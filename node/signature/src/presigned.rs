//! The query parameters of a presigned URL, taken apart.

use std::borrow::Cow;

use crate::query::Query;

use super::amz_date::AmzDate;
use super::authorization::ALGORITHM;
use super::error::{AuthError, MalformedAuth, Place};
use super::limits::EXPIRES_SECONDS_MAX;

/// The query parameter that holds the signature, and is itself not signed.
pub const SIGNATURE: &str = "X-Amz-Signature";

/// The parameters that carry a presigned URL's signature; operations never see them.
pub const PARAMETERS: [&str; 7] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    SIGNATURE,
    "X-Amz-Security-Token",
];

/// A presigned URL's own claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresignedQuery<'a> {
    /// The credential, to be parsed as a scope.
    pub credential: Cow<'a, str>,
    /// When it was signed.
    pub date: AmzDate,
    /// How many seconds it holds: 1 to 604,800. S3 asks for it; STS and IAM do without.
    pub expires_seconds: Option<u64>,
    /// Names of the signed headers, separated by semicolons.
    pub signed_headers: Cow<'a, str>,
    /// The signature in hex.
    pub signature: Cow<'a, str>,
}

impl<'a> PresignedQuery<'a> {
    /// Whether a query claims to be presigned with SigV4.
    pub fn is_in(query: &Query<'_>) -> bool {
        ["X-Amz-Algorithm", "X-Amz-Credential", SIGNATURE].iter().any(|name| query.has(name))
    }

    /// Parses the parameters.
    ///
    /// # Errors
    /// [`AuthError`] when one is missing, stands twice or is not what it should be.
    pub fn parse(query: &Query<'a>) -> Result<Self, AuthError> {
        let malformed = |reason| AuthError::Malformed { place: Place::Query, reason };
        let value = |name| {
            let pair = query.get(name).filter(|_| query.count(name) == 1);
            let value = pair.and_then(|pair| pair.value().ok());
            value.filter(|value| !value.is_empty()).ok_or(malformed(MalformedAuth::Components))
        };
        let algorithm = value("X-Amz-Algorithm")?;
        let credential = value("X-Amz-Credential")?;
        let signature = value(SIGNATURE)?;
        let date = value("X-Amz-Date")?;
        let signed_headers = value("X-Amz-SignedHeaders")?;
        let expires = query.has("X-Amz-Expires").then(|| value("X-Amz-Expires")).transpose()?;
        if algorithm != ALGORITHM {
            return Err(malformed(MalformedAuth::Algorithm));
        }
        let date = AmzDate::parse(date.as_bytes()).ok_or(malformed(MalformedAuth::Date))?;
        let expires_seconds = expires.map(|expires| match expires.parse::<i64>() {
            Err(_) => Err(malformed(MalformedAuth::ExpiresNumber)),
            Ok(..=0) => Err(malformed(MalformedAuth::ExpiresTooSoon)),
            Ok(seconds) => match seconds.unsigned_abs() {
                seconds if seconds > EXPIRES_SECONDS_MAX => Err(malformed(MalformedAuth::ExpiresTooLate)),
                seconds => Ok(seconds),
            },
        });
        let expires_seconds = expires_seconds.transpose()?;
        Ok(Self { credential, date, expires_seconds, signed_headers, signature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(change: (&str, &str)) -> String {
        let pairs = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", "AKID%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"),
            ("X-Amz-Date", "20130524T000000Z"),
            ("X-Amz-Expires", "86400"),
            ("X-Amz-SignedHeaders", "host"),
            ("X-Amz-Signature", "ab"),
        ];
        let pairs =
            pairs.map(|(name, value)| format!("{name}={}", if name == change.0 { change.1 } else { value }));
        pairs.join("&")
    }

    fn refusal(change: (&str, &str)) -> Option<MalformedAuth> {
        let url = url(change);
        match PresignedQuery::parse(&Query::parse(Some(&url)).expect("a query")) {
            Err(AuthError::Malformed { place: Place::Query, reason }) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn a_presigned_url_comes_apart() {
        let url = url(("", ""));
        let query = Query::parse(Some(&url)).expect("a query");
        assert!(PresignedQuery::is_in(&query));
        let parsed = PresignedQuery::parse(&query).expect("well formed");
        assert_eq!(parsed.credential, "AKID/20130524/us-east-1/s3/aws4_request");
        assert_eq!(parsed.expires_seconds, Some(86_400));
    }

    #[test]
    fn every_parameter_is_checked() {
        assert_eq!(refusal(("X-Amz-Expires", "604800")), None);
        assert_eq!(refusal(("X-Amz-Expires", "1")), None);
        assert_eq!(refusal(("X-Amz-Expires", "604801")), Some(MalformedAuth::ExpiresTooLate));
        assert_eq!(refusal(("X-Amz-Expires", "0")), Some(MalformedAuth::ExpiresTooSoon));
        assert_eq!(refusal(("X-Amz-Expires", "-5")), Some(MalformedAuth::ExpiresTooSoon));
        assert_eq!(refusal(("X-Amz-Expires", "soon")), Some(MalformedAuth::ExpiresNumber));
        assert_eq!(refusal(("X-Amz-Date", "2013-05-24")), Some(MalformedAuth::Date));
        assert_eq!(refusal(("X-Amz-Algorithm", "AWS4-ECDSA-P256-SHA256")), Some(MalformedAuth::Algorithm));
        assert_eq!(refusal(("X-Amz-SignedHeaders", "")), Some(MalformedAuth::Components));
        assert_eq!(refusal(("X-Amz-Signature", "a&X-Amz-Signature=b")), Some(MalformedAuth::Components));
    }
}
