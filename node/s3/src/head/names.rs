//! Buckets, keys and versions as requests name them -> what the store calls them.
//!
//! The path is split already; here stands what a name may be. A bucket that is to be created
//! must obey AWS's naming rules to the letter; any other bucket only has to be a name at all, for
//! one that was never created is simply not there.

use std::fmt;

use sherd_core::id::{InvalidKey, ObjectKey, UploadId, VersionId, may_be_bucket};
use sherd_core::limits;

use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::ObjectName;

/// Prefixes that AWS keeps for itself.
const RESERVED_PREFIXES: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];
/// Suffixes that AWS keeps for itself.
const RESERVED_SUFFIXES: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

/// A bucket that exists or does not.
pub(crate) fn bucket(name: &str) -> Result<ObjectKey, Refusal> {
    ObjectKey::new(name.to_owned())
        .map_err(|_| Refusal::says(Code::InvalidBucketName, "The specified bucket is not valid."))
}

/// A bucket to create: AWS, "General purpose bucket naming rules".
pub(crate) fn new_bucket(name: &str) -> Result<ObjectKey, Refusal> {
    if is_bucket_name(name) {
        bucket(name)
    } else {
        Err(Refusal::says(Code::InvalidBucketName, "The specified bucket is not valid."))
    }
}

/// Whether a bucket with this name can be created: AWS, "General purpose bucket naming rules".
pub fn is_bucket_name(name: &str) -> bool {
    may_be_bucket(name)
        && !RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !RESERVED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Whether a text may be a header's name: a token of RFC 9110.
pub(crate) fn is_header(name: &str) -> bool {
    let is_sign = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_sign(byte))
}

/// An object's key.
pub(crate) fn key(key: impl Into<String>) -> Result<ObjectKey, Refusal> {
    ObjectKey::new(key.into()).map_err(|error| match error {
        InvalidKey::TooLong => Refusal::says(Code::KeyTooLongError, "Your key is too long"),
        InvalidKey::Empty | InvalidKey::NotUtf8 => {
            Refusal::says(Code::InvalidURI, "Couldn't parse the specified URI.")
        }
    })
}

/// An object in a bucket.
pub(crate) fn object(bucket_name: &str, object_key: &str) -> Result<ObjectName, Refusal> {
    Ok(ObjectName { bucket: bucket(bucket_name)?.into(), key: key(object_key)? })
}

/// An object that a request makes or replaces. XML has no way to write NUL, so a name with one would break
/// the list that it stands in; one that is there can still be read and deleted.
pub(crate) fn made(name: ObjectName) -> Result<ObjectName, Refusal> {
    if name.key.as_bytes().contains(&0) {
        return Err(Refusal::says(Code::InvalidURI, "Couldn't parse the specified URI."));
    }
    Ok(name)
}

/// A version that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamedVersion {
    /// `null`: the one that each object has without versioning.
    Null,
    /// A version that a bucket with versioning would have. No bucket has versioning, so it is not there.
    Other(VersionId),
}

impl NamedVersion {
    /// Checks that the version may be there.
    ///
    /// # Errors
    /// NoSuchVersion.
    pub(crate) fn check_exists(self) -> Result<(), Refusal> {
        match self {
            Self::Null => Ok(()),
            Self::Other(_) => Err(Refusal::new(Code::NoSuchVersion)),
        }
    }
}

impl fmt::Display for NamedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Other(id) => id.fmt(f),
        }
    }
}

/// The version that the `argument` of a request names: `null`, or 32 hexadecimal digits.
///
/// # Errors
/// InvalidArgument for any other text.
pub(crate) fn version(argument: &str, id: &str) -> Result<NamedVersion, Refusal> {
    let message = match id {
        "null" => return Ok(NamedVersion::Null),
        "" => "Version id cannot be the empty string",
        id => match VersionId::parse(id) {
            Ok(id) => return Ok(NamedVersion::Other(id)),
            Err(_) => "Invalid version id specified",
        },
    };
    Err(Refusal::bad_argument(message, argument, id))
}

/// An upload. A text that cannot be an id of ours never was an upload.
pub(crate) fn upload(id: &str) -> Result<UploadId, Refusal> {
    UploadId::parse(id).map_err(|_| no_such_upload())
}

/// The answer for an upload that is not there.
pub(crate) fn no_such_upload() -> Refusal {
    Refusal::says(
        Code::NoSuchUpload,
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been \
         aborted or completed.",
    )
}

/// A part's number, 1 to 10,000.
pub(crate) fn part_number(number: i32) -> Result<u16, Refusal> {
    u16::try_from(number).ok().filter(|number| (1..=limits::PARTS_MAX).contains(number)).ok_or_else(|| {
        let message =
            format!("Part number must be an integer between 1 and {}, inclusive", limits::PARTS_MAX);
        Refusal::bad_argument(message, "partNumber", &number.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names_obey_the_naming_rules() {
        let longest = "a".repeat(63);
        for name in ["abc", "a-b", "a.b.c", "1bucket", "bucket1", "a--b", "1.2.3", "1.2.3.4.5", &longest] {
            assert!(new_bucket(name).is_ok(), "{name}");
        }
        let too_long = "a".repeat(64);
        let bad = [
            "",
            "ab",
            &too_long,
            "Abc",
            "a_b",
            "-abc",
            "abc-",
            ".abc",
            "abc.",
            "a..b",
            "192.168.5.4",
            "xn--abc",
            "sthree-abc",
            "amzn-s3-demo-abc",
            "abc-s3alias",
            "abc--ol-s3",
            "abc.mrap",
            "abc--x-s3",
            "abc--table-s3",
            "käse",
            "a b",
            "a/b",
        ];
        for name in bad {
            let error = new_bucket(name).expect_err(name);
            assert_eq!(error.code, Code::InvalidBucketName, "{name}");
        }
    }

    #[test]
    fn keys_may_be_anything_up_to_1024_bytes() {
        for name in ["a", "a/", "/", "//", ".", "..", "../x", "\u{1F9F1}", "\u{1}", &"k".repeat(1024)] {
            assert_eq!(key(name).unwrap().as_str(), name);
        }
        assert_eq!(key("k".repeat(1025)).unwrap_err().code, Code::KeyTooLongError);
    }

    #[test]
    fn no_new_key_has_a_nul() {
        assert_eq!(made(object("bucket", "a\0b").unwrap()).unwrap_err().code, Code::InvalidURI);
        assert_eq!(made(object("bucket", "a\u{1}b").unwrap()).unwrap().key.as_str(), "a\u{1}b");
        assert_eq!(object("bucket", "a\0b").unwrap().key.as_str(), "a\0b", "what is there can be deleted");
    }

    #[test]
    fn only_the_null_version_is_there() {
        assert_eq!(version("versionId", "null"), Ok(NamedVersion::Null));
        assert_eq!(NamedVersion::Null.check_exists(), Ok(()));
        let id = "000000000000000000000000000000ff";
        let other = version("versionId", id).unwrap();
        assert_eq!(other.to_string(), id);
        assert_eq!(other.check_exists().unwrap_err().code, Code::NoSuchVersion);
    }

    #[test]
    fn a_text_that_is_no_version_id_is_invalid_by_name() {
        let invalid = "Invalid version id specified";
        let long = "0".repeat(33);
        for (id, message) in [
            ("", "Version id cannot be the empty string"),
            ("Null", invalid),
            ("3sL4kqtJlcpXroDTDmJ+rmSpXd3dIbrH", invalid),
            ("0000000000000000000000000000000", invalid),
            (&long, invalid),
        ] {
            let refused = version("versionId", id).unwrap_err();
            assert_eq!((refused.code, &*refused.message), (Code::InvalidArgument, message), "{id}");
            let named = [("ArgumentName", "versionId".to_owned()), ("ArgumentValue", id.to_owned())];
            assert_eq!(refused.details, named);
        }
    }

    #[test]
    fn part_numbers_run_from_1_to_10000() {
        assert_eq!(part_number(1).unwrap(), 1);
        assert_eq!(part_number(10_000).unwrap(), 10_000);
        for number in [i32::MIN, -1, 0, 10_001, 65_537, i32::MAX] {
            assert_eq!(part_number(number).unwrap_err().code, Code::InvalidArgument);
        }
    }

    #[test]
    fn a_text_that_is_no_upload_id_is_no_upload() {
        assert_eq!(upload("nonsense").unwrap_err().code, Code::NoSuchUpload);
        assert!(upload("00112233445566778899aabbccddeeff").is_ok());
    }
}
