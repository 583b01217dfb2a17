//! Signatures of the frames of an aws-chunked body (AWS, "Signature calculations for the authorization
//! header: transferring payload in multiple chunks").

use std::fmt;

use super::amz_date::AmzDate;
use super::payload::EMPTY_SHA256_HEX;
use super::signing_key::{Signature, SigningKey};

/// Signs the frames and the trailer of an aws-chunked body, each over the one before.
#[derive(Clone)]
pub struct FrameSigner {
    key: SigningKey,
    /// `date \n scope \n`.
    context: Box<[u8]>,
    previous: Signature,
}

impl fmt::Debug for FrameSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameSigner(..)")
    }
}

impl FrameSigner {
    /// Makes the signer of a body whose request has the signature `seed`.
    pub fn new(key: SigningKey, date: &AmzDate, scope: &str, seed: Signature) -> Self {
        let context = format!("{}\n{scope}\n", date.as_str()).into_bytes().into_boxed_slice();
        Self { key, context, previous: seed }
    }

    /// Signs the next frame, whose payload has this hash.
    pub fn frame(&mut self, payload_sha256: &[u8; 32]) -> Signature {
        let mut hash = [0; 64];
        hex::encode_to_slice(payload_sha256, &mut hash).expect("32 bytes are 64 digits");
        self.previous = self.key.sign(&[
            b"AWS4-HMAC-SHA256-PAYLOAD\n",
            &self.context,
            self.previous.as_bytes(),
            b"\n",
            EMPTY_SHA256_HEX.as_bytes(),
            b"\n",
            &hash,
        ]);
        self.previous
    }

    /// Signs the trailer, whose lines (`name:value\n` each) have this hash.
    pub fn trailer(&mut self, lines_sha256: &[u8; 32]) -> Signature {
        let mut hash = [0; 64];
        hex::encode_to_slice(lines_sha256, &mut hash).expect("32 bytes are 64 digits");
        let previous = self.previous;
        self.previous =
            self.key.sign(&[b"AWS4-HMAC-SHA256-TRAILER\n", &self.context, previous.as_bytes(), b"\n", &hash]);
        self.previous
    }
}
