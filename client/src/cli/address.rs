//! Addresses of the command line: `s3://bucket/key`, `alias://bucket/key`, a path, or `-`.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::credentials::alias::is_alias_name;

/// The word of the service that environment and profile name.
pub(crate) const S3: &str = "s3";

/// A bucket or key of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteAddress {
    /// `s3`, or an alias.
    pub(crate) scheme: String,
    /// Empty for the service itself.
    pub(crate) bucket: String,
    /// A key or the beginning of keys; empty for the bucket.
    pub(crate) key: String,
}

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Remote(RemoteAddress),
    Local(PathBuf),
    /// Standard input or output.
    Standard,
}

impl RemoteAddress {
    /// The key as the beginning of all keys below it: with a slash at its end, unless it is empty.
    pub(crate) fn prefix(&self) -> String {
        let needs_slash = !self.key.is_empty() && !self.key.ends_with('/');
        format!("{}{}", self.key, if needs_slash { "/" } else { "" })
    }

    /// The part of the key behind its last slash.
    pub(crate) fn file_name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the address names one object.
    pub(crate) fn is_object(&self) -> bool {
        !self.bucket.is_empty() && !self.key.is_empty() && !self.key.ends_with('/')
    }
}

impl std::fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.key.is_empty() { "" } else { "/" };
        write!(f, "{}://{}{separator}{}", self.scheme, self.bucket, self.key)
    }
}

impl Address {
    /// Reads an address of the command line. A path that has `://` in it can be written `./...`.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::Standard);
        }
        let Some((scheme, rest)) = text.to_str().and_then(|text| text.split_once("://")) else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        if scheme != S3 && !is_alias_name(scheme) {
            return Err(format!(
                "{scheme}:// is neither s3:// nor an alias; a path is written ./{scheme}://"
            ));
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() && !key.is_empty() {
            return Err(format!("the bucket is missing: {scheme}://BUCKET/KEY"));
        }
        let (scheme, bucket, key) = (scheme.to_owned(), bucket.to_owned(), key.to_owned());
        Ok(Self::Remote(RemoteAddress { scheme, bucket, key }))
    }

    /// Reads an address that must be of a service.
    pub(crate) fn parse_remote(text: &OsStr) -> Result<RemoteAddress, String> {
        match Self::parse(text)? {
            Self::Remote(remote) => Ok(remote),
            Self::Local(_) | Self::Standard => {
                Err("an address is s3://BUCKET/KEY or ALIAS://BUCKET/KEY".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> Option<(String, String, String)> {
        let RemoteAddress { scheme, bucket, key } = Address::parse_remote(OsStr::new(text)).ok()?;
        Some((scheme, bucket, key))
    }

    #[test]
    fn addresses_come_apart_and_keys_stay_as_they_are() {
        let of = |parts: [&str; 3]| Some((parts[0].to_owned(), parts[1].to_owned(), parts[2].to_owned()));
        assert_eq!(remote("s3://b/a//b/../c?d"), of(["s3", "b", "a//b/../c?d"]));
        assert_eq!(remote("prod://b"), of(["prod", "b", ""]));
        assert_eq!(remote("s3://"), of(["s3", "", ""]));
        assert_eq!(remote("s3://b//k"), of(["s3", "b", "/k"]));
        for text in ["s3:///k", "https://a/b", "a.b://c", "./s3:/b", "-"] {
            assert_eq!(remote(text), None, "{text}");
        }
        let local = Address::parse(OsStr::new("dir/s3:/b"));
        assert_eq!(local, Ok(Address::Local(PathBuf::from("dir/s3:/b"))));
    }

    #[test]
    fn a_folder_ends_in_a_slash() {
        let prefix = |text: &str| Address::parse_remote(OsStr::new(text)).map(|remote| remote.prefix());
        assert_eq!(prefix("s3://b/logs"), Ok("logs/".to_owned()), "and logs2/ is not below it");
        assert_eq!(prefix("s3://b/logs/"), Ok("logs/".to_owned()));
        assert_eq!(prefix("s3://b"), Ok(String::new()));
    }
}
