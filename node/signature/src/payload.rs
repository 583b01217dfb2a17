//! The form in which a request declares its body: `x-amz-content-sha256`.

/// How the body is covered by the signature, and how it is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadForm {
    /// One body with this SHA-256.
    Sha256([u8; 32]),
    /// One body that the signature does not cover.
    Unsigned,
    /// aws-chunked frames, each signed; with a signed trailer or without a trailer.
    SignedFrames {
        /// Whether a trailer follows.
        trailer: bool,
    },
    /// aws-chunked frames without signatures, and a trailer.
    UnsignedFrames,
}

/// The SHA-256 of nothing, in hex.
pub const EMPTY_SHA256_HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl PayloadForm {
    /// The word for an unsigned body; also what a presigned URL means when it says nothing.
    pub const UNSIGNED: &'static str = "UNSIGNED-PAYLOAD";

    /// Parses a header's value; nothing for words that are unknown or ask for SigV4A.
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            Self::UNSIGNED => Some(Self::Unsigned),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Some(Self::SignedFrames { trailer: false }),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => Some(Self::SignedFrames { trailer: true }),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Some(Self::UnsignedFrames),
            _ => {
                let mut hash = [0; 32];
                hex::decode_to_slice(value, &mut hash).ok()?;
                Some(Self::Sha256(hash))
            }
        }
    }

    /// Whether the body comes in aws-chunked frames.
    pub const fn is_framed(self) -> bool {
        matches!(self, Self::SignedFrames { .. } | Self::UnsignedFrames)
    }

    /// Whether a trailer follows the body.
    pub const fn has_trailer(self) -> bool {
        matches!(self, Self::SignedFrames { trailer: true } | Self::UnsignedFrames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_form() {
        assert_eq!(PayloadForm::parse("UNSIGNED-PAYLOAD"), Some(PayloadForm::Unsigned));
        let framed = PayloadForm::parse("STREAMING-UNSIGNED-PAYLOAD-TRAILER").expect("known");
        assert!(framed.is_framed() && framed.has_trailer());
        let plain = PayloadForm::parse("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").expect("known");
        assert!(plain.is_framed() && !plain.has_trailer());
        assert!(matches!(PayloadForm::parse(EMPTY_SHA256_HEX), Some(PayloadForm::Sha256([0xe3, ..]))));
        for text in ["", "unsigned-payload", "e3b0", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"] {
            assert_eq!(PayloadForm::parse(text), None, "{text}");
        }
    }
}
