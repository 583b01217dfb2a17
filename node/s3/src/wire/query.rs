//! Parameters of a query, read as what an operation takes them for.

use std::borrow::Cow;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use sherd_signature::query::Query;

use crate::wire::refusal::Refusal;

/// The value of the first parameter of that name, read as what it should be.
///
/// # Errors
/// InvalidArgument for any other value.
pub fn parsed<T: FromStr>(query: &Query<'_>, name: &str) -> Result<Option<T>, Refusal> {
    let Some(text) = query.text(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| invalid(name, &text))
}

/// URL query text, in which a plus sign is a blank, decoded, and whether it is UTF-8. Other bytes are
/// replaced.
pub(crate) fn decoded(text: &str) -> (String, bool) {
    let spaced = text.replace('+', " ");
    let bytes: Cow<'_, [u8]> = percent_decode_str(&spaced).into();
    (String::from_utf8_lossy(&bytes).into_owned(), str::from_utf8(&bytes).is_ok())
}

/// Says that a parameter cannot have a value.
pub fn invalid(name: &str, value: &str) -> Refusal {
    Refusal::bad_argument(format!("invalid query: {name}: {value}"), name, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::refusal::Code;

    #[test]
    fn a_value_is_what_it_should_be_or_refused() {
        let query = Query::parse(Some("n=-7&x=7x")).expect("names are text");
        assert_eq!((parsed::<i32>(&query, "c"), parsed(&query, "n")), (Ok(None), Ok(Some(-7))));
        let refused = parsed::<i32>(&query, "x").expect_err("no number");
        assert_eq!((refused.code, &*refused.message), (Code::InvalidArgument, "invalid query: x: 7x"));
    }
}
