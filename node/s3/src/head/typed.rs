//! Headers that are a flag or a number.

use std::str::FromStr;

use http::{HeaderMap, HeaderValue};

use crate::wire::refusal::Refusal;

/// A flag: `true` or `false`.
///
/// # Errors
/// InvalidArgument for any other value but an empty one, which counts as absent.
pub(crate) fn flag(headers: &HeaderMap, name: &str) -> Result<Option<bool>, Refusal> {
    let Some(value) = present(headers, name) else { return Ok(None) };
    match value.as_bytes() {
        b"true" | b"True" => Ok(Some(true)),
        b"false" | b"False" => Ok(Some(false)),
        _ => Err(invalid(name, value)),
    }
}

/// A number, of which what stands behind its digits is ignored.
///
/// # Errors
/// InvalidArgument for a value that does not begin with a number that fits; an empty one counts as absent.
pub(crate) fn number<T: FromStr>(headers: &HeaderMap, name: &str) -> Result<Option<T>, Refusal> {
    let Some(value) = present(headers, name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| invalid(name, value))?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let end = text.len() - unsigned.len() + digits;
    let number = text.get(..end).filter(|_| digits > 0).and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| invalid(name, value))
}

/// Says that a header cannot have a value.
pub(crate) fn invalid(name: &str, value: &HeaderValue) -> Refusal {
    let text = String::from_utf8_lossy(value.as_bytes());
    Refusal::bad_argument(format!("invalid header: {name}: {value:?}"), name, &text)
}

fn present<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a HeaderValue> {
    headers.get(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::code::Code;

    fn with(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([("x-amz-a".parse().expect("a name"), HeaderValue::from_static(value))])
    }

    #[test]
    fn flags_are_true_or_false() {
        for (value, flag) in [("true", Some(true)), ("True", Some(true)), ("false", Some(false)), ("", None)]
        {
            assert_eq!(super::flag(&with(value), "x-amz-a"), Ok(flag), "{value}");
        }
        for value in ["TRUE", "FALSE", "1", "yes"] {
            let refused = super::flag(&with(value), "x-amz-a").expect_err(value);
            assert_eq!(refused.message, format!("invalid header: x-amz-a: \"{value}\""));
        }
        assert_eq!(super::flag(&with("true"), "x-amz-b"), Ok(None));
    }

    #[test]
    fn numbers_end_where_their_digits_end() {
        for (value, number) in
            [("7", Some(7)), ("-7", Some(-7)), ("+7", Some(7)), ("7x", Some(7)), ("", None)]
        {
            assert_eq!(super::number::<i64>(&with(value), "x-amz-a"), Ok(number), "{value}");
        }
        for value in ["x", "-", " 7", "99999999999999999999"] {
            assert_eq!(
                super::number::<i64>(&with(value), "x-amz-a").expect_err(value).code,
                Code::InvalidArgument
            );
        }
    }
}
