//! The page's table of headers, held by the table in `head/feature`.

use http::{HeaderName, HeaderValue};

use crate::head::feature;
use crate::head::request_head::RequestHead;
use crate::operation::Operation;

use super::root;

/// A value that asks for a feature, of the headers that take some.
const ASKING: &[(&str, &str)] = &[
    ("x-amz-acl", "public-read"),
    ("x-amz-bucket-object-lock-enabled", "true"),
    ("x-amz-object-ownership", "ObjectWriter"),
    ("x-amz-storage-class", "GLACIER"),
];

/// The code of the refusal of an operation that has a header; `None` where it is taken.
fn refused(operation: Operation, name: &str, value: &str) -> Option<&'static str> {
    let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
    let head = RequestHead::from_iter([(name, HeaderValue::from_str(value).expect("a value"))]);
    feature::check(&head, operation.columns(), false).err().map(|refusal| refusal.code.name())
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The code that a cell says; `None` where the header is ignored or taken.
fn code_in(cell: &str) -> Option<&str> {
    let mut words = cell.split([' ', ',', ':']);
    match words.next() {
        Some("501") => Some("NotImplemented"),
        Some("400") => words.next(),
        _ => None,
    }
}

#[test]
fn headers_are_treated_as_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/s3.md")).expect("the page");
    let (_, table) = page.split_once("| header | writes | reads |\n|---|---|---|\n").expect("the table");
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in rows {
        let [names, writes, reads] = row.trim_matches('|').split(" | ").collect::<Vec<_>>()[..] else {
            panic!("a row has three cells: {row}");
        };
        for name in quoted(names) {
            let sample = name.replace('*', if name.ends_with("-*") { "read" } else { "" });
            let asking = ASKING.iter().find(|(asking, _)| *asking == name).map_or("x", |(_, value)| *value);
            assert_eq!(refused(Operation::GetObject, &sample, asking), code_in(reads), "reads: {row}");
            // The operations that a cell names take the header, the others do not.
            let is_named = writes.contains("PutObject");
            let expected = if is_named { None } else { code_in(writes) };
            assert_eq!(refused(Operation::PutObject, &sample, asking), expected, "writes: {row}");
            for taken in quoted(writes) {
                assert_eq!(refused(Operation::PutObject, &sample, taken), None, "{taken}: {row}");
            }
        }
    }
}
