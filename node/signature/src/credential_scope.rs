//! The scope of a signature: `AKID/20130524/us-east-1/s3/aws4_request`.

/// A parsed `Credential`: whose key, and for which day, region and service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CredentialScope<'a> {
    /// The access key.
    pub access_key: &'a str,
    /// `yyyymmdd`.
    pub day: &'a str,
    /// The region that was signed for.
    pub region: &'a str,
    /// The service that was signed for.
    pub service: &'a str,
    /// The end of a scope; `aws4_request` in every valid one.
    pub terminator: &'a str,
    /// `day/region/service/terminator`, as it stands in the string to sign.
    pub scope: &'a str,
}

impl<'a> CredentialScope<'a> {
    /// Takes a credential apart; nothing when a part is missing or empty.
    ///
    /// Read from the right, so an access key may hold slashes.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.rsplitn(5, '/');
        let terminator = parts.next()?;
        let service = parts.next()?;
        let region = parts.next()?;
        let day = parts.next()?;
        let access_key = parts.next()?;
        if [terminator, service, region, day, access_key].iter().any(|part| part.is_empty()) {
            return None;
        }
        let scope = text.get(access_key.len() + 1..)?;
        Some(Self { access_key, day, region, service, terminator, scope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_comes_apart() {
        let parsed = CredentialScope::parse("a/b/20130524/us-east-1/s3/aws4_request").expect("five parts");
        assert_eq!(parsed.access_key, "a/b");
        assert_eq!(parsed.scope, "20130524/us-east-1/s3/aws4_request");
        assert_eq!((parsed.day, parsed.region, parsed.service), ("20130524", "us-east-1", "s3"));
        for text in ["", "a/20130524/us-east-1/s3", "/20130524/us-east-1/s3/aws4_request", "a//r/s3/x"] {
            assert_eq!(CredentialScope::parse(text), None, "{text}");
        }
    }
}
