//! Signature version 4 for a benchmark's client: everything that stays the same is computed once.
//!
//! The signing key holds for a day and stays as a keyed HMAC; dates are printed once a second. A
//! request costs the hash of its canonical form and one HMAC. Bodies are `UNSIGNED-PAYLOAD`: they are
//! verified byte by byte on the way back, and hashing them here would measure the client.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Stands in place of the hash of a body that is not hashed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// Names of signed headers around that of a checksum, which stands between them in the alphabet.
const SIGNED_HEADERS: [&str; 2] = ["host", "x-amz-content-sha256;x-amz-date"];

/// Credentials of the requests.
#[derive(Clone)]
pub struct Credentials {
    /// Name of the key pair.
    pub access_key: String,
    /// The key pair's secret, never printed.
    pub secret_key: String,
    /// Region that requests are signed for.
    pub region: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// The signed parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct Canonical<'a> {
    /// `GET`, `PUT`, ...
    pub method: &'a str,
    /// Path, percent-encoded.
    pub path: &'a str,
    /// Query in the order of its names, percent-encoded, each with its `=`; empty for none.
    pub query: &'a str,
    /// The `host` header.
    pub host: &'a str,
    /// A header with a checksum of the body, `x-amz-checksum-...`, and its value.
    pub checksum: Option<(&'a str, &'a str)>,
    /// Hash of the body in hex, or [`UNSIGNED_PAYLOAD`].
    pub payload: &'a str,
}

/// Signs the requests of one thread.
#[derive(Debug)]
pub struct Signer {
    credentials: Credentials,
    /// Seconds since the Unix epoch that `date` stands for.
    second: u64,
    /// `20130524T000000Z`
    date: String,
    /// `20130524/us-east-1/s3/aws4_request`
    scope: String,
    /// HMAC keyed with the day's signing key.
    keyed: Hmac<Sha256>,
}

impl Signer {
    /// A signer for `credentials`.
    pub fn new(credentials: Credentials) -> Self {
        let mut signer =
            Self { credentials, second: 0, date: String::new(), scope: String::new(), keyed: keyed(b"") };
        signer.set_time(0);
        signer
    }

    /// Signs the following requests as of `second` since the Unix epoch.
    pub fn set_time(&mut self, second: u64) {
        if second == self.second && !self.date.is_empty() {
            return;
        }
        let date = date(second);
        let same_day = self.date.get(..8) == date.get(..8);
        self.second = second;
        self.date = date;
        if !same_day {
            self.renew_key();
        }
    }

    /// Appends the headers that authenticate `request` to `out`, each with its line's end: `host`, that of
    /// the checksum, `x-amz-date`, `x-amz-content-sha256` and `authorization`.
    pub fn sign(&self, request: &Canonical<'_>, out: &mut Vec<u8>) {
        let Canonical { method, path, query, host, checksum, payload } = *request;
        let [first, last] = SIGNED_HEADERS;
        let mut hasher = Sha256::new();
        for piece in [method, "\n", path, "\n", query, "\nhost:", host] {
            hasher.update(piece);
        }
        for piece in checksum.iter().flat_map(|(name, value)| ["\n", name, ":", value]) {
            hasher.update(piece);
        }
        for piece in ["\nx-amz-content-sha256:", payload, "\nx-amz-date:", &self.date, "\n\n", first, ";"] {
            hasher.update(piece);
        }
        for piece in checksum.iter().flat_map(|(name, _)| [name, ";"]).chain([last, "\n", payload]) {
            hasher.update(piece);
        }
        let mut hash = [0; 64];
        hex::encode_to_slice(hasher.finalize(), &mut hash).expect("a hash is 64 digits");
        let mut mac = self.keyed.clone();
        for piece in ["AWS4-HMAC-SHA256\n", &self.date, "\n", &self.scope, "\n"] {
            mac.update(piece.as_bytes());
        }
        mac.update(&hash);
        let mut signature = [0; 64];
        hex::encode_to_slice(mac.finalize().into_bytes(), &mut signature).expect("a MAC is 64 digits");
        let head = ["host: ", host, "\r\nx-amz-date: ", &self.date, "\r\nx-amz-content-sha256: ", payload];
        let sum = checksum.iter().flat_map(|(name, value)| ["\r\n", name, ": ", value]);
        let authorization = [
            "\r\nauthorization: AWS4-HMAC-SHA256 Credential=",
            &self.credentials.access_key,
            "/",
            &self.scope,
            ",SignedHeaders=",
            first,
            ";",
        ];
        let names = checksum.iter().flat_map(|(name, _)| [*name, ";"]).chain([last, ",Signature="]);
        for piece in head.into_iter().chain(sum).chain(authorization).chain(names) {
            out.extend_from_slice(piece.as_bytes());
        }
        out.extend_from_slice(&signature);
        out.extend_from_slice(b"\r\n");
    }

    fn renew_key(&mut self) {
        let day = self.date.get(..8).expect("a date begins with its day");
        let Credentials { access_key: _, secret_key, region } = &self.credentials;
        let mut key = mac(format!("AWS4{secret_key}").as_bytes(), day.as_bytes());
        for piece in [region.as_str(), "s3", "aws4_request"] {
            key = mac(&key, piece.as_bytes());
        }
        self.scope = format!("{day}/{region}/s3/aws4_request");
        self.keyed = keyed(&key);
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("an HMAC takes a key of any length")
}

fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    keyed(key).chain_update(message).finalize().into_bytes().into()
}

/// `second` since the Unix epoch as `20130524T000000Z`.
fn date(second: u64) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(second)).to_string();
    time.replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 24 May 2013, midnight: the day of the examples that AWS publishes for signature version 4.
    const PUBLISHED_DAY: u64 = 1_369_353_600;
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn signature(query: &str) -> String {
        let mut signer = Signer::new(Credentials {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            region: "us-east-1".to_owned(),
        });
        signer.set_time(PUBLISHED_DAY);
        let host = "examplebucket.s3.amazonaws.com";
        let mut out = Vec::new();
        let request = Canonical { method: "GET", path: "/", query, host, checksum: None, payload: EMPTY };
        signer.sign(&request, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("x-amz-date: 20130524T000000Z\r\n"), "{text}");
        assert!(
            text.contains("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"),
            "{text}"
        );
        text.trim_end().rsplit('=').next().unwrap().to_owned()
    }

    #[test]
    fn the_published_examples_get_their_published_signatures() {
        assert_eq!(
            signature("lifecycle="),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("max-keys=2&prefix=J"),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn dates_are_right_around_leap_days_and_years() {
        for (second, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_599, "20241231T235959Z"),
            (1_735_689_600, "20250101T000000Z"),
        ] {
            assert_eq!(date(second), expected);
        }
    }

    #[test]
    fn the_key_follows_the_day() {
        let credentials =
            Credentials { access_key: "a".into(), secret_key: "secret".into(), region: "r".into() };
        let request =
            Canonical { method: "GET", path: "/", query: "", host: "h", checksum: None, payload: EMPTY };
        let mut moved = Signer::new(credentials.clone());
        moved.set_time(PUBLISHED_DAY);
        moved.set_time(PUBLISHED_DAY + 86_400);
        let mut fresh = Signer::new(credentials.clone());
        fresh.set_time(PUBLISHED_DAY + 86_400);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        moved.sign(&request, &mut one);
        fresh.sign(&request, &mut other);
        assert_eq!(one, other);
        assert!(!format!("{credentials:?}").contains("secret\""));
    }
}
