//! Every operator, over values that are there, several and absent.

use crate::caller::Caller;
use crate::condition::Condition;
use crate::facts::{Facts, Values};
use crate::json;
use crate::key::KeyName;
use crate::pattern::Context;

/// The values of every key that the request is asked for.
struct Request<'a>(Option<&'a [&'a str]>);

impl Facts for Request<'_> {
    fn values(&self, name: KeyName, _: &str) -> Values<'_> {
        match self.0 {
            None => Values::Absent,
            Some([one]) if !name.is_multivalued() => Values::from(*one),
            Some(several) => Values::Many(several.iter().map(|value| (*value).into()).collect()),
        }
    }
}

fn parse(operator: &str, key: &str, values: &str) -> Result<Vec<Condition>, crate::malformed::Fault> {
    let text = format!(r#"{{"{operator}": {{"{key}": {values}}}}}"#);
    Condition::parse_all(&json::parse(text.as_bytes()).expect("JSON"), true)
}

fn holds(operator: &str, key: &str, values: &str, request: Option<&[&str]>) -> bool {
    let conditions =
        parse(operator, key, values).unwrap_or_else(|fault| panic!("{operator} {values}: {fault:?}"));
    let context = Context { caller: Caller::Anonymous, action: "", facts: &Request(request) };
    conditions.iter().all(|condition| condition.holds(context))
}

/// An operator, its values in the policy, the value of the request, and whether it holds.
#[rustfmt::skip]
const SINGLE: &[(&str, &str, &str, bool)] = &[
    ("StringEquals", r#""a""#, "a", true),
    ("StringEquals", r#""a""#, "A", false),
    ("StringEquals", r#""a*""#, "ab", false),
    ("StringEquals", r#"["a", "b"]"#, "b", true),
    ("StringEquals", r"[]", "b", false),
    ("StringNotEquals", r#"["a", "b"]"#, "b", false),
    ("StringNotEquals", r#"["a", "b"]"#, "c", true),
    ("StringNotEquals", r"[]", "c", true),
    ("StringEqualsIgnoreCase", r#""aB""#, "Ab", true),
    ("StringNotEqualsIgnoreCase", r#""aB""#, "Ab", false),
    ("StringLike", r#"["x", "a*c?"]"#, "abcd", true),
    ("StringLike", r#""a${*}""#, "ab", false),
    ("StringLike", r#""*""#, "", true),
    ("StringNotLike", r#"["x", "a*"]"#, "abcd", false),
    ("NumericEquals", r"10", "10.0", true),
    ("NumericEquals", r#""10""#, "10", true),
    ("NumericEquals", r#""10""#, "ten", false),
    ("NumericNotEquals", r#"["10", "11"]"#, "12", true),
    ("NumericNotEquals", r#"["10", "11"]"#, "11", false),
    ("NumericNotEquals", r#""10""#, "ten", true),
    ("NumericLessThan", r#""10""#, "9.99", true),
    ("NumericLessThan", r#""10""#, "10", false),
    ("NumericLessThanEquals", r#""10""#, "10", true),
    ("NumericGreaterThan", r#""-1""#, "0", true),
    ("NumericGreaterThan", r#"["100", "1"]"#, "2", true),
    ("NumericGreaterThanEquals", r#""10""#, "9", false),
    ("DateEquals", r#""2026-11-26T12:00:00Z""#, "2026-11-26T13:00:00+01:00", true),
    ("DateEquals", r#""2026-11-26""#, "2026-11-26T00:00:00.000Z", true),
    ("DateEquals", r#""1970-01-01T00:01Z""#, "60", true),
    ("DateNotEquals", r#""2026""#, "2026-01-01T00:00:00Z", false),
    ("DateLessThan", r#""2026-11""#, "2026-10-31T23:59:59.999Z", true),
    ("DateLessThanEquals", r#""2000-03-01""#, "2000-02-29T23:59:59Z", true),
    ("DateGreaterThan", r"1700000000", "1700000001", true),
    ("DateGreaterThan", r"1700000000", "yesterday", false),
    ("DateGreaterThanEquals", r#""2026-11-26T00:00:00-05:00""#, "2026-11-26T05:00:00Z", true),
    ("Bool", r#""true""#, "true", true),
    ("Bool", r"false", "FALSE", true),
    ("Bool", r#""true""#, "yes", false),
    ("BinaryEquals", r#""QmluYXJ5""#, "QmluYXJ5", true),
    ("BinaryEquals", r#""QmluYXJ5""#, "qmluyxj5", false),
    ("IpAddress", r#"["203.0.113.0/24", "2001:db8:1234:5678::/64"]"#, "203.0.113.7", true),
    ("IpAddress", r#""203.0.113.0/24""#, "::ffff:203.0.113.7", true),
    ("IpAddress", r#""2001:db8::/32""#, "2001:db8::1", true),
    ("IpAddress", r#""203.0.113.7""#, "203.0.113.8", false),
    ("IpAddress", r#""203.0.113.0/24""#, "unknown", false),
    ("NotIpAddress", r#"["203.0.113.0/24", "198.51.100.0/24"]"#, "198.51.100.1", false),
    ("NotIpAddress", r#"["203.0.113.0/24", "198.51.100.0/24"]"#, "192.0.2.1", true),
    ("ArnEquals", r#""arn:aws:iam::*:user/b*""#, "arn:aws:iam::000000000001:user/bob", true),
    ("ArnLike", r#""arn:aws:*:user/bob""#, "arn:aws:iam::000000000001:user/bob", false),
    ("ArnLike", r#""arn:aws:iam""#, "arn:aws:iam::000000000001:user/bob", true),
    ("ArnLike", r#""arn:aws:iam::*:user/bob""#, "bob", false),
    ("ArnNotEquals", r#""arn:aws:iam::000000000001:user/bob""#, "arn:aws:iam::000000000001:user/bob", false),
    ("ArnNotLike", r#"["arn:aws:iam::*:user/eve", "arn:aws:iam::*:root"]"#, "arn:aws:iam::000000000001:user/bob", true),
    ("Null", r#""true""#, "a", false),
    ("Null", r"false", "", true),
];

#[test]
fn operators_compare_one_value() {
    for (operator, values, value, expected) in SINGLE {
        let request = [*value];
        assert_eq!(
            holds(operator, "s3:prefix", values, Some(&request)),
            *expected,
            "{operator} {values} {value}"
        );
        if *operator != "Null" {
            let if_exists = format!("{operator}IfExists");
            assert_eq!(
                holds(&if_exists, "s3:prefix", values, Some(&request)),
                *expected,
                "{if_exists} {values}"
            );
        }
    }
}

#[test]
fn an_absent_key_matches_negated_operators_and_those_that_ask_whether_it_exists() {
    for (operator, values, _, _) in SINGLE.iter().filter(|(operator, ..)| *operator != "Null") {
        let is_negated = operator.contains("Not");
        assert_eq!(holds(operator, "s3:prefix", values, None), is_negated, "{operator}");
        assert!(holds(&format!("{operator}IfExists"), "s3:prefix", values, None), "{operator}IfExists");
        assert!(
            holds(&format!("ForAllValues:{operator}"), "aws:TagKeys", values, None),
            "ForAllValues:{operator}"
        );
        assert!(
            !holds(&format!("ForAnyValue:{operator}"), "aws:TagKeys", values, None),
            "ForAnyValue:{operator}"
        );
    }
    assert!(holds("Null", "s3:prefix", r#""true""#, None));
    assert!(!holds("Null", "s3:prefix", r#""false""#, None));
    assert!(holds("Null", "aws:TagKeys", r#""true""#, Some(&[])), "an empty set is absent");
}

#[test]
fn sets_are_compared_value_by_value() {
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str], bool)] = &[
        ("ForAllValues:StringEquals", r#"["a", "b"]"#, &["a", "b"], true),
        ("ForAllValues:StringEquals", r#"["a", "b"]"#, &["a", "c"], false),
        ("ForAllValues:StringEquals", r#"["a", "b"]"#, &[], true),
        ("ForAllValues:StringLike", r#"["k*"]"#, &["k1", "k2"], true),
        ("ForAllValues:StringNotEquals", r#"["a", "b"]"#, &["c", "d"], true),
        ("ForAllValues:StringNotEquals", r#"["a", "b"]"#, &["c", "a"], false),
        ("ForAnyValue:StringEquals", r#"["a", "b"]"#, &["c", "a"], true),
        ("ForAnyValue:StringEquals", r#"["a", "b"]"#, &["c", "d"], false),
        ("ForAnyValue:StringEquals", r#"["a", "b"]"#, &[], false),
        ("ForAnyValue:StringNotEquals", r#"["a", "b"]"#, &["a", "c"], true),
        ("ForAnyValue:StringNotEquals", r#"["a", "b"]"#, &["a", "b"], false),
        ("ForAnyValue:StringNotLikeIfExists", r#"["a"]"#, &[], true),
        // Without a modifier: as any of the values, and its negation.
        ("StringEquals", r#""a""#, &["a", "b"], true),
        ("StringNotEquals", r#""a""#, &["a", "b"], false),
    ];
    for (operator, values, request, expected) in table {
        assert_eq!(
            holds(operator, "aws:TagKeys", values, Some(request)),
            *expected,
            "{operator} {values} {request:?}"
        );
    }
    assert!(
        holds("ForAllValues:StringEquals", "s3:prefix", r#""a""#, Some(&[""])),
        "an empty text is an empty set"
    );
    assert!(!holds("ForAnyValue:StringLike", "s3:prefix", r#""*""#, Some(&[""])));
}

#[test]
fn a_variable_without_a_value_is_equal_to_nothing() {
    let prefix = Some(&["${aws:username}"][..]);
    assert!(!holds("StringEquals", "s3:prefix", r#""${aws:username}""#, prefix));
    assert!(holds("StringNotEquals", "s3:prefix", r#""${aws:username}""#, prefix));
    assert!(!holds(
        "StringLike",
        "s3:prefix",
        r#"["${aws:TagKeys}", "${aws:PrincipalTag/x}*"]"#,
        Some(&["x"])
    ));
    assert!(holds("StringEquals", "s3:prefix", r#""${aws:username, 'x'}""#, Some(&["x"])));
}

#[test]
fn names_of_keys_ignore_case() {
    assert!(holds("StringEquals", "S3:PREFIX", r#""a""#, Some(&["a"])));
    assert!(holds("StringEquals", "aws:principaltype", r#""Anonymous""#, None));
    assert!(holds("StringEquals", "AWS:userid", r#""anonymous""#, None));
}

#[test]
fn values_that_an_operator_cannot_compare_are_refused() {
    for (operator, values) in [
        ("NumericEquals", r#""ten""#),
        ("NumericEquals", r#""1e999""#),
        ("NumericEquals", r#""inf""#),
        ("NumericEquals", r#""${aws:username}""#),
        ("DateEquals", r#""yesterday""#),
        ("DateEquals", r#""2026-02-29""#),
        ("DateEquals", r#""2026-11-26T00:00:00""#),
        ("DateEquals", r#""99999999999999999999""#),
        ("Bool", r#""yes""#),
        ("IpAddress", r#""10.0.0.0/33""#),
        ("Null", r#""${aws:username}""#),
        ("StringEquals", r"{}"),
        ("StringEquals", r"null"),
        ("StringEquals", r#"[["a"]]"#),
    ] {
        assert!(parse(operator, "s3:prefix", values).is_err(), "{operator} {values}");
    }
    for operator in
        ["StringEqual", "stringequals", "NullIfExists", "ForAnyValue:Null", "ForAll:Bool", "IfExists"]
    {
        assert!(parse(operator, "s3:prefix", r#""true""#).is_err(), "{operator}");
    }
}
