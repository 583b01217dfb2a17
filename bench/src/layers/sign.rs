//! Signs requests as the clients of S3 do: SigV4 in the `Authorization` header, with a payload that
//! is not signed, so that one head serves any body.

use sha2::{Digest as _, Sha256};
use sherd_core::env::Clock as _;
use sherd_node::machine::system::SystemClock;
use sherd_node::process::config::credentials::Credentials;
use sherd_node::s3::auth::Secret;
use sherd_node::s3::auth::amz_date::AmzDate;
use sherd_node::s3::auth::signing_key::SigningKey;

/// What stands for the payload's hash.
pub(crate) const PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// What is signed of the headers.
const SIGNED_HEADERS: &str = "host;x-amz-content-sha256;x-amz-date";
/// The region that is signed for.
pub(crate) const REGION: &str = sherd_node::process::config::REGION;

/// Signs in the name of one access key, at one time. Signatures are good for a quarter of an hour.
#[derive(Debug)]
pub(crate) struct Signer {
    key: SigningKey,
    host: String,
    date: String,
    scope: String,
    access_key: String,
}

impl Signer {
    /// Signs for `host`, from now on.
    pub(crate) fn new(credentials: &Credentials, host: String) -> Self {
        let date = AmzDate::from_ms(SystemClock::new().wall_ms());
        let secret = Secret::new(credentials.secret_access_key.expose());
        Self {
            key: SigningKey::derive(&secret, date.day(), REGION, "s3"),
            host,
            date: date.as_str().to_owned(),
            scope: format!("{}/{REGION}/s3/aws4_request", date.day()),
            access_key: credentials.access_key_id.clone(),
        }
    }

    /// The value of `Host`.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The value of `x-amz-date`.
    pub(crate) fn date(&self) -> &str {
        &self.date
    }

    /// The value of `Authorization` for a request without a query, whose path needs no escapes.
    /// `scratch` holds the canonical request meanwhile; `out` gets the value appended.
    pub(crate) fn authorize(&self, method: &str, path: &str, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let Self { key, host, date, scope, access_key } = self;
        scratch.clear();
        for part in [
            method,
            "\n",
            path,
            "\n\nhost:",
            host,
            "\nx-amz-content-sha256:",
            PAYLOAD,
            "\nx-amz-date:",
            date,
            "\n\n",
            SIGNED_HEADERS,
            "\n",
            PAYLOAD,
        ] {
            scratch.extend_from_slice(part.as_bytes());
        }
        let mut hash = [0; 64];
        hex::encode_to_slice(Sha256::digest(&*scratch), &mut hash).expect("32 bytes are 64 digits");
        let signature =
            key.sign(&[b"AWS4-HMAC-SHA256\n", date.as_bytes(), b"\n", scope.as_bytes(), b"\n", &hash]);
        for part in [
            "AWS4-HMAC-SHA256 Credential=",
            access_key,
            "/",
            scope,
            ", SignedHeaders=",
            SIGNED_HEADERS,
            ", Signature=",
        ] {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(signature.as_bytes());
    }
}
