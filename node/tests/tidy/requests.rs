//! A request's headers are parsed once, and the needs of an operation stand in its row: counts the places
//! that take a map of headers, and those that name an operation outside its table.

use super::scan::{all_words, is_name};
use super::source::Source;

/// `HeaderMap` as the type of a parameter or a field.
pub(crate) fn header_maps(source: &Source) -> Vec<usize> {
    let code = &source.production;
    let is_type = |at: &usize| !code[at + "HeaderMap".len()..].starts_with("::") && is_declared(&code[..*at]);
    all_words(code, "HeaderMap").filter(is_type).collect()
}

/// Whether the code before a type ends with a name's colon, around all that wraps the type.
fn is_declared(before: &str) -> bool {
    let mut rest = before;
    loop {
        rest = rest.trim_end();
        let shorter = rest
            .strip_suffix("::")
            .map(|path| path.trim_end_matches(|letter: char| letter.is_alphanumeric() || letter == '_'))
            .or_else(|| rest.strip_suffix(['&', '<', '(']))
            .or_else(|| rest.strip_suffix("mut"))
            .or_else(|| rest.strip_suffix("Option"))
            .or_else(|| rest.strip_suffix("Arc"))
            .or_else(|| without_lifetime(rest));
        match shorter {
            Some(shorter) => rest = shorter,
            None => return rest.ends_with(':'),
        }
    }
}

fn without_lifetime(text: &str) -> Option<&str> {
    let name = text.bytes().rev().take_while(|&byte| is_name(byte)).count();
    text[..text.len() - name].strip_suffix('\'').filter(|_| name > 0)
}

/// Operations of S3 that production code names outside the folder of their table.
pub(crate) fn operations_outside(source: &Source) -> Vec<usize> {
    let of_table = source.path.split('/').any(|part| part == "operation");
    let code = &source.production;
    let is_named = |at: &usize| {
        let rest = code[at + "Operation".len()..].strip_prefix("::");
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    if of_table { vec![] } else { all_words(code, "Operation").filter(is_named).collect() }
}

#[test]
fn parameters_and_fields_of_headers_are_counted() {
    let count = |text: &str| header_maps(&Source::new("node/s3/src/a.rs", text)).len();
    for text in [
        "fn a(headers: &HeaderMap) {}",
        "fn a(b: u8, headers: &mut http::HeaderMap<HeaderValue>) {}",
        "struct A<'a> { headers: &'a HeaderMap, }",
        "struct A { headers: HeaderMap }",
        "fn a(headers: Option<&HeaderMap>) {}",
        "fn a((method, headers): (&Method, &HeaderMap)) {} struct B { headers: HeaderMap }",
    ] {
        assert_eq!(count(text), 1, "{text}");
    }
    for text in [
        "use http::{HeaderMap, Method};",
        "use http::HeaderMap;",
        "let a = HeaderMap::new();",
        "let a = A { headers: HeaderMap::new() };",
        "fn a() -> HeaderMap {}",
        "// headers: HeaderMap",
        "#[cfg(test)] fn a(headers: &HeaderMap) {}",
        "struct A { headers: HeaderMapped }",
    ] {
        assert_eq!(count(text), 0, "{text}");
    }
}

#[test]
fn operations_that_are_named_outside_the_table_are_counted() {
    let text = "use a::Operation; if b == Operation::PutObject || matches!(b, a::Operation::GetObject | Operation::of()) {}\n\
                // Operation::PutObject\n#[cfg(test)] mod tests { fn c() { Operation::PutObject } }";
    let count = |path: &str| operations_outside(&Source::new(path, text)).len();
    assert_eq!(count("node/s3/src/protocol/a.rs"), 2);
    assert_eq!(count("node/iam/src/a.rs"), 2);
    assert_eq!(count("node/s3/src/operation/a.rs"), 0);
    assert_eq!(count("node/s3/src/a/tests.rs"), 0);
}
