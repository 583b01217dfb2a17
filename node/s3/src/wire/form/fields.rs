//! The fields of a form as a PUT: the name of the file in their values, and the headers that they stand for.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use sherd_signature::form_fields::{Field, FormFields};

use super::FormError;
use crate::wire::limits::FORM_FIELDS_BYTES_MAX;
use crate::wire::refusal::{Code, Refusal};
use crate::wire::system_headers::SYSTEM;

/// The variable that stands for the name of the file.
const FILENAME: &str = "${filename}";
/// Fields that carry the signature, and say nothing about the object.
const OF_SIGNATURE: [&str; 5] =
    ["x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature", "x-amz-security-token"];
/// Headers of a copy: a form uploads.
const OF_COPY: &str = "x-amz-copy-source";

/// Puts the name of the file in the place of its variable, in every field: what stands behind the last
/// slash or backslash of the name that was sent, and nothing where none was sent.
///
/// # Errors
/// [`FormError::FieldsTooLong`] where the values become longer than fields may be: a long name in the
/// place of many variables takes far more bytes than came.
pub(crate) fn expand(fields: &mut FormFields, filename: Option<&str>) -> Result<(), FormError> {
    let name = filename.and_then(|path| path.rsplit(['/', '\\']).next()).unwrap_or_default();
    let mut bytes = 0;
    for value in fields.values_mut() {
        let variables = value.matches(FILENAME).count();
        bytes += value.len() - variables * FILENAME.len() + variables * name.len();
        if bytes > FORM_FIELDS_BYTES_MAX {
            return Err(FormError::FieldsTooLong);
        }
        if variables > 0 {
            *value = value.replace(FILENAME, name);
        }
    }
    Ok(())
}

/// The headers of a PUT that the fields stand for.
///
/// # Errors
/// InvalidArgument for a field that no header can carry, NotImplemented for the source of a copy.
pub(crate) fn headers(fields: &FormFields) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    for Field { name, value } in fields.all() {
        let lower = name.to_ascii_lowercase();
        let header = match lower.as_str() {
            // S3 wants the checksum that a form says it has, as it does of an SDK.
            "x-amz-checksum-algorithm" => "x-amz-sdk-checksum-algorithm",
            "acl" => "x-amz-acl",
            "content-md5" => "content-md5",
            name if name.starts_with(OF_COPY) => {
                return Err(Refusal::new(Code::NotImplemented).with("Header", name));
            }
            name if OF_SIGNATURE.contains(&name) => continue,
            name if name.starts_with("x-amz-") || SYSTEM.iter().any(|known| known == name) => name,
            _ => continue,
        };
        let unusable = || Refusal::bad_argument("The value of a form field is not valid", name, value);
        let header = HeaderName::from_bytes(header.as_bytes()).map_err(|_| unusable())?;
        let value = HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|_| unusable())?;
        headers.insert(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> FormFields {
        let mut fields = FormFields::default();
        for (name, value) in pairs {
            fields.push((*name).to_owned(), value);
        }
        fields
    }

    #[test]
    fn the_name_of_the_file_is_the_end_of_its_path() {
        for (filename, key) in [
            (Some("photo.jpg"), "user/photo.jpg"),
            (Some("C:\\Program Files\\directory1\\file.txt"), "user/file.txt"),
            (Some("/home/a\\b/c d.txt"), "user/c d.txt"),
            (Some("folder/"), "user/"),
            (Some(""), "user/"),
            (None, "user/"),
        ] {
            let mut fields =
                fields(&[("key", "user/${filename}"), ("x-amz-meta-a", "${filename}${filename}")]);
            expand(&mut fields, filename).expect("short");
            assert_eq!(fields.get("key"), Some(key), "{filename:?}");
        }
    }

    #[test]
    fn a_long_name_in_many_places_is_too_long() {
        let variables = |count| fields(&[("policy", &*FILENAME.repeat(count)), ("key", "k")]);
        let most = (FORM_FIELDS_BYTES_MAX - 1) / 100;
        let mut whole = variables(most);
        assert_eq!(expand(&mut whole, Some(&"n".repeat(100))), Ok(()));
        assert_eq!(whole.get("policy").map(str::len), Some(most * 100));
        assert_eq!(expand(&mut variables(most + 1), Some(&"n".repeat(100))), Err(FormError::FieldsTooLong));
        assert_eq!(expand(&mut variables(900), Some(&"n".repeat(10_000))), Err(FormError::FieldsTooLong));
    }

    #[test]
    fn fields_stand_for_headers() {
        let form = fields(&[
            ("key", "k"),
            ("ACL", "private"),
            ("content-TYPE", "image/png"),
            ("X-Amz-Meta-Colour", " blue "),
            ("x-amz-date", "20151229T000000Z"),
            ("success_action_status", "201"),
            ("x-amz-checksum-algorithm", "SHA256"),
            ("x-ignore-me", "1"),
        ]);
        let put = headers(&form).expect("headers");
        let mut names: Vec<_> = put.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                ("content-type", &b"image/png"[..]),
                ("x-amz-acl", b"private"),
                ("x-amz-meta-colour", b"blue"),
                ("x-amz-sdk-checksum-algorithm", b"SHA256"),
            ]
        );
        for (name, value, code) in [
            ("x-amz-meta-a", "line\nline", Code::InvalidArgument),
            ("x-amz-meta-a b", "v", Code::InvalidArgument),
            ("x-amz-copy-source", "/b/k", Code::NotImplemented),
        ] {
            assert_eq!(headers(&fields(&[(name, value)])).expect_err(name).code, code);
        }
    }
}
