//! The `Authorization` header of SigV4, taken apart.

use super::credential_scope::CredentialScope;
use super::error::{AuthError, MalformedAuth, Place};

/// The only signing algorithm that is served.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The three components of the header, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authorization<'a> {
    /// The access key, and the scope that it signed for.
    pub credential: CredentialScope<'a>,
    /// Names of the signed headers, separated by semicolons.
    pub signed_headers: &'a str,
    /// The signature in hex.
    pub signature: &'a str,
}

impl<'a> Authorization<'a> {
    /// Parses the value of an `Authorization` header.
    ///
    /// # Errors
    /// [`AuthError`] for another mechanism and for a header that lacks a component.
    pub fn parse(value: &'a str) -> Result<Self, AuthError> {
        let value = value.trim();
        let Some(rest) = value.strip_prefix(ALGORITHM) else {
            let aws = value.starts_with("AWS ") || value.starts_with("AWS4-");
            return Err(if aws {
                AuthError::UnsupportedMechanism
            } else {
                AuthError::UnsupportedAuthorization
            });
        };
        if !rest.starts_with([' ', '\t']) {
            return Err(AuthError::UnsupportedMechanism);
        }
        let malformed = |reason| AuthError::Malformed { place: Place::Header, reason };
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for component in rest.split(',') {
            let (name, value) =
                component.trim().split_once('=').ok_or(malformed(MalformedAuth::Components))?;
            let slot = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => return Err(malformed(MalformedAuth::Components)),
            };
            if slot.replace(value).is_some() {
                return Err(malformed(MalformedAuth::Components));
            }
        }
        let (Some(credential), Some(signed_headers), Some(signature)) =
            (credential, signed_headers, signature)
        else {
            return Err(malformed(MalformedAuth::Components));
        };
        let credential = CredentialScope::parse(credential).ok_or(malformed(MalformedAuth::Credential))?;
        Ok(Self { credential, signed_headers, signature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIAL: &str = "Credential=AKID/20130524/us-east-1/s3/aws4_request";

    #[test]
    fn components_come_in_any_order_with_or_without_blanks() {
        for text in [
            format!("AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host;x-amz-date, Signature=ab"),
            format!("AWS4-HMAC-SHA256 Signature=ab,SignedHeaders=host;x-amz-date,{CREDENTIAL}"),
        ] {
            let parsed = Authorization::parse(&text).expect("well formed");
            assert_eq!(parsed.credential.access_key, "AKID");
            assert_eq!((parsed.signed_headers, parsed.signature), ("host;x-amz-date", "ab"));
        }
    }

    #[test]
    fn other_mechanisms_are_told_apart() {
        for text in
            ["AWS AKID:frJIUN8DYpKDtOLCwo//yllqDzg=", "AWS4-ECDSA-P256-SHA256 a=b", "AWS4-HMAC-SHA256x"]
        {
            assert!(matches!(Authorization::parse(text), Err(AuthError::UnsupportedMechanism)), "{text}");
        }
        for text in ["Bearer token", "Basic dXNlcg==", ""] {
            assert!(matches!(Authorization::parse(text), Err(AuthError::UnsupportedAuthorization)), "{text}");
        }
    }

    #[test]
    fn missing_repeated_and_foreign_components_are_refused() {
        for rest in [
            format!("{CREDENTIAL}, SignedHeaders=host"),
            format!("{CREDENTIAL}, SignedHeaders=host, Signature=a, Signature=b"),
            format!("{CREDENTIAL}, SignedHeaders=host, Signature=a, More=b"),
            "Credential=AKID, SignedHeaders=host, Signature=a".to_owned(),
        ] {
            let text = format!("AWS4-HMAC-SHA256 {rest}");
            assert!(matches!(Authorization::parse(&text), Err(AuthError::Malformed { .. })), "{text}");
        }
    }
}
