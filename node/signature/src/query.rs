//! A query string taken apart once, borrowed where it can be.
//!
//! Names are compared decoded, or `?%61cl` would pass a table that has `acl`. A name that is not text is
//! refused.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// One parameter.
#[derive(Debug, Clone)]
pub struct Pair<'a> {
    /// The name, decoded.
    pub name: Cow<'a, str>,
    /// The name as it came.
    pub raw_name: &'a str,
    /// The value as it came; empty for a name alone.
    pub raw_value: &'a str,
    /// Whether an equals sign stands behind its name.
    pub has_value: bool,
}

impl<'a> Pair<'a> {
    /// The value, decoded.
    ///
    /// # Errors
    /// [`BadQuery`] when it is not UTF-8.
    pub fn value(&self) -> Result<Cow<'a, str>, BadQuery> {
        decode(self.raw_value)
    }
}

/// The parameters of a request in their order.
#[derive(Debug, Clone, Default)]
pub struct Query<'a> {
    pairs: Vec<Pair<'a>>,
}

/// A query that does not decode to text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the query is not UTF-8")]
pub struct BadQuery;

impl<'a> Query<'a> {
    /// Takes a query string apart. Empty pairs (`&&`) are nothing.
    ///
    /// # Errors
    /// [`BadQuery`] when a name is not UTF-8.
    pub fn parse(query: Option<&'a str>) -> Result<Self, BadQuery> {
        let Some(query) = query else { return Ok(Self::default()) };
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
                let has_value = raw_name.len() < pair.len();
                Ok(Pair { name: decode(raw_name)?, raw_name, raw_value, has_value })
            })
            .collect::<Result<_, BadQuery>>()?;
        Ok(Self { pairs })
    }

    /// All parameters in their order.
    pub fn pairs(&self) -> &[Pair<'a>] {
        &self.pairs
    }

    /// Whether a parameter of that name is there.
    pub fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|pair| pair.name == name)
    }

    /// The first parameter of that name.
    pub fn get(&self, name: &str) -> Option<&Pair<'a>> {
        self.pairs.iter().find(|pair| pair.name == name)
    }

    /// The value of the first parameter of that name as an operation reads it: bytes that are not text are
    /// replaced.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let raw = self.get(name)?.raw_value;
        if raw.bytes().any(|byte| byte == b'+') {
            let spaced = raw.replace('+', " ");
            return Some(Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned()));
        }
        Some(percent_decode_str(raw).decode_utf8_lossy())
    }

    /// How many parameters have that name.
    pub fn count(&self, name: &str) -> usize {
        self.pairs.iter().filter(|pair| pair.name == name).count()
    }
}

fn decode(raw: &str) -> Result<Cow<'_, str>, BadQuery> {
    if raw.bytes().any(|byte| byte == b'+') {
        let spaced = raw.replace('+', " ");
        let text = percent_decode_str(&spaced).decode_utf8().map_err(|_| BadQuery)?;
        return Ok(Cow::Owned(text.into_owned()));
    }
    percent_decode_str(raw).decode_utf8().map_err(|_| BadQuery)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_decoded() {
        let query = Query::parse(Some("%61cl&&x=1&prefix=a+b%2Fc&x=2")).expect("text");
        assert!(query.has("acl"));
        assert_eq!(query.count("x"), 2);
        assert_eq!(query.pairs().len(), 4);
        let prefix = query.get("prefix").expect("there");
        assert_eq!(prefix.value().as_deref(), Ok("a b/c"));
        assert!(matches!(query.get("x").expect("there").name, Cow::Borrowed("x")));
    }

    #[test]
    fn an_operation_reads_any_value() {
        let query = Query::parse(Some("a=b+c%2F&b=%ff")).expect("names are text");
        let text = |name| query.text(name);
        assert_eq!((text("a").as_deref(), text("b").as_deref()), (Some("b c/"), Some("\u{FFFD}")));
        assert_eq!(text("c"), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        assert_eq!(Query::parse(Some("%ff=1")).map(|_| ()), Err(BadQuery));
        let query = Query::parse(Some("a=%ff")).expect("the name is text");
        assert_eq!(query.get("a").expect("there").value(), Err(BadQuery));
    }
}
