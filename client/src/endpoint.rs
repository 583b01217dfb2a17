//! Where a service is and how its buckets are addressed: `scheme://host/bucket/key` or
//! `scheme://bucket.host/key`.

use sherd_signature::signer::encode_path;

use crate::error::EndpointError;

/// How buckets stand in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum AddressingStyle {
    /// In the host of AWS, in the path elsewhere
    #[default]
    Auto,
    /// In the path
    Path,
    /// In the host
    Virtual,
}

/// A service of S3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    is_tls: bool,
    authority: String,
    addressing: AddressingStyle,
}

/// The place of a request: its origin, the value of `host`, and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: String,
    /// Encoded, begins with a slash.
    pub(crate) path: String,
}

impl Endpoint {
    /// Reads `http://host:port` or `https://host`.
    ///
    /// # Errors
    /// [`EndpointError::Url`].
    pub fn parse(url: &str, addressing: AddressingStyle) -> Result<Self, EndpointError> {
        let malformed = |reason| EndpointError::Url { url: url.to_owned(), reason };
        let uri: http::Uri =
            url.parse().map_err(|_| malformed("an endpoint is http://HOST:PORT or https://HOST"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(malformed("an endpoint begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or(malformed("an endpoint has a host"))?;
        if authority.as_str().contains('@') {
            return Err(malformed("an endpoint has no user or password: use `sherd alias set`"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(malformed("an endpoint has no path"));
        }
        Ok(Self { is_tls, authority: authority.as_str().to_owned(), addressing })
    }

    /// Returns AWS's own endpoint of a region.
    pub fn aws(region: &str, addressing: AddressingStyle) -> Self {
        Self { is_tls: true, authority: format!("s3.{region}.amazonaws.com"), addressing }
    }

    pub(crate) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// `https://host:port`.
    pub(crate) fn url(&self) -> String {
        self.origin(&self.authority)
    }

    pub(crate) fn origin(&self, host: &str) -> String {
        format!("{}://{host}", if self.is_tls { "https" } else { "http" })
    }

    /// The place of a bucket, of a key in it, or of the service itself.
    pub(crate) fn place(&self, bucket: Option<&str>, key: Option<&str>) -> Place {
        let key = encode_path(key.unwrap_or_default());
        match bucket {
            None => Place { host: self.authority.clone(), path: "/".to_owned() },
            Some(bucket) if self.is_in_host(bucket) => {
                Place { host: format!("{bucket}.{}", self.authority), path: format!("/{key}") }
            }
            Some(bucket) => {
                let bucket = encode_path(bucket);
                let path = if key.is_empty() { format!("/{bucket}") } else { format!("/{bucket}/{key}") };
                Place { host: self.authority.clone(), path }
            }
        }
    }

    /// A name with dots is not covered by the certificate of `*.host`.
    fn is_in_host(&self, bucket: &str) -> bool {
        let host = self.authority.split(':').next().unwrap_or_default();
        match self.addressing {
            AddressingStyle::Path => false,
            AddressingStyle::Virtual => true,
            AddressingStyle::Auto => {
                host.ends_with(".amazonaws.com") && !(self.is_tls && bucket.contains('.'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, addressing: AddressingStyle, bucket: &str, key: &str) -> (String, String) {
        let endpoint = Endpoint::parse(url, addressing).expect("an endpoint");
        let Place { host, path } = endpoint.place(Some(bucket), (!key.is_empty()).then_some(key));
        (host, path)
    }

    #[test]
    fn buckets_stand_in_the_path_or_in_the_host() {
        let of = |host: &str, path: &str| (host.to_owned(), path.to_owned());
        let local = "http://127.0.0.1:9000";
        assert_eq!(place(local, AddressingStyle::Auto, "b", "a b//c"), of("127.0.0.1:9000", "/b/a%20b//c"));
        assert_eq!(place(local, AddressingStyle::Auto, "b", ""), of("127.0.0.1:9000", "/b"));
        assert_eq!(place("https://s.example", AddressingStyle::Virtual, "b", "k"), of("b.s.example", "/k"));
        let aws = "https://s3.eu-west-1.amazonaws.com";
        assert_eq!(place(aws, AddressingStyle::Auto, "b", ""), of("b.s3.eu-west-1.amazonaws.com", "/"));
        assert_eq!(place(aws, AddressingStyle::Auto, "b.c", "k"), of("s3.eu-west-1.amazonaws.com", "/b.c/k"));
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for url in ["", "localhost:9000", "ftp://a", "http://", "http://a/b", "http://a?b", "http://u:p@a"] {
            assert!(Endpoint::parse(url, AddressingStyle::Auto).is_err(), "{url}");
        }
    }
}
