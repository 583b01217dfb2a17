//! Wildcards, variables, and what is left of a pattern behind a beginning.

use proptest::prelude::*;

use super::{Context, Glob, Pattern, Template, TextForm};
use crate::caller::{Caller, CallingUser};

const FORM: TextForm = TextForm { wildcards: true, variables: true };

fn bob() -> Caller<'static> {
    Caller::User(CallingUser {
        arn: "arn:aws:iam::000000000001:user/bob",
        name: "bob",
        id: "AIDA0",
        tags: &[],
    })
}

fn glob(text: &str) -> Glob {
    Pattern::parse(text, TextForm { wildcards: true, variables: false })
        .fixed()
        .cloned()
        .expect("no variables")
}

/// Tries every length of every `*`.
fn plainly_matches(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skipped| plainly_matches(rest, &text[skipped..])),
        Some((letter, rest)) => {
            text.first().is_some_and(|first| letter == first || *letter == '?')
                && plainly_matches(rest, &text[1..])
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_glob_matches_as_the_plain_search_does(pattern in "[ab\u{e9}*?]{0,8}", text in "[ab\u{e9}\u{20ac}]{0,8}") {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        prop_assert_eq!(glob(&pattern).matches(&text), plainly_matches(&letters(&pattern), &letters(&text)));
    }

    #[test]
    fn a_glob_behind_a_beginning_matches_as_the_whole(
        pattern in "[ab\u{e9}*?]{0,8}", beginning in "[ab\u{e9}]{0,4}", rest in "[ab\u{e9}]{0,5}",
    ) {
        let whole = glob(&pattern);
        let left = whole.after(&beginning);
        let matches = left.iter().any(|glob| glob.matches(&rest));
        prop_assert_eq!(matches, whole.matches(&format!("{beginning}{rest}")), "{:?}", left);
    }

    #[test]
    fn any_text_is_a_pattern(pattern in "[a${},'* ]{0,12}", text in "[a${},'* ]{0,12}") {
        let context = Context { caller: bob(), facts: &() };
        let _ = Pattern::parse(&pattern, FORM).matches(&text, context);
        let itself = Pattern::parse(&text, TextForm { wildcards: false, variables: false });
        prop_assert!(itself.matches(&text, context));
    }
}

#[test]
fn variables_stand_for_values() {
    let table = [
        ("${aws:username}", "bob", true),
        ("${AWS:UserName}/*", "bob/x", true),
        ("${ aws:username , 'eve' }", "bob", true),
        ("a${*}", "a*", true),
        ("a${*}", "ab", false),
        ("a${?}${$}", "a?$", true),
        ("${aws:PrincipalTag/team}", "", false),
        ("${aws:PrincipalTag/team}", "${aws:PrincipalTag/team}", false),
        ("${aws:PrincipalTag/team, 'it''s * ?'}", "it's * ?", true),
        ("${aws:PrincipalTag/team, 'a*'}", "ab", false),
        ("${aws:username}${aws:PrincipalTag/team,''}", "bob", true),
        // Not variables, and so texts.
        ("${aws:username", "${aws:username", true),
        ("${}", "${}", true),
        ("$aws", "$aws", true),
    ];
    let context = Context { caller: bob(), facts: &() };
    for (pattern, text, expected) in table {
        assert_eq!(Pattern::parse(pattern, FORM).matches(text, context), expected, "{pattern} {text}");
        let filled = Pattern::parse(pattern, FORM).for_caller(bob());
        assert_eq!(filled.is_some_and(|filled| filled.matches(text, context)), expected, "{pattern} {text}");
    }
    let old = Pattern::parse("${aws:username}", TextForm { wildcards: true, variables: false });
    assert!(old.matches("${aws:username}", context), "version 2008-10-17 has no variables");
}

#[test]
fn a_value_with_wildcards_means_itself() {
    let star = Caller::User(CallingUser { arn: "a", name: "*", id: "AIDA0", tags: &[] });
    let context = Context { caller: star, facts: &() };
    assert!(!Pattern::parse("${aws:username}", FORM).matches("x", context));
    assert!(Pattern::parse("${aws:username}", FORM).matches("*", context));
}

#[test]
fn an_arn_has_six_parts_and_the_last_keeps_its_colons() {
    let parts = Template::parse("arn:aws:s3:::b/a:b:${s3:prefix}:c", FORM).segments();
    assert_eq!(parts.len(), 6);
    assert_eq!(Template::parse("arn:*", FORM).segments().len(), 2);
}

#[test]
fn a_pattern_of_many_stars_ends_soon() {
    let pattern = glob(&"a*".repeat(500));
    let text = "a".repeat(1024);
    assert!(pattern.matches(&text));
    assert!(!glob(&format!("{}b", "a*".repeat(500))).matches(&text));
}
