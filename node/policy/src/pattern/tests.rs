//! Wildcards, variables, and what is left of a pattern behind a beginning.

use std::cell::Cell;

use proptest::prelude::*;

use super::{Context, Glob, Pattern, Template, TextForm};
use crate::arn::ArnPattern;
use crate::caller::{Caller, CallingUser};
use crate::facts::{Facts, Values};
use crate::key::KeyName;

thread_local! {
    /// The steps of all matches of this thread.
    pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
}

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
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_of_several_words_match_as_the_plain_search_does(
        runs in proptest::collection::vec("[ab?]{50,150}", 1..3),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), "[ab\u{e9}]"), 0..3),
        around in "[ab\u{e9}]{0,70}", fill in "[ab\u{e9}\u{20ac}]",
    ) {
        let pattern = format!("*{}*", runs.join("*"));
        let mut letters: Vec<char> = format!("{around}{}", runs.join(&around)).chars().collect();
        for letter in letters.iter_mut().filter(|letter| **letter == '?') {
            *letter = fill.chars().next().expect("one");
        }
        for (at, letter) in edits {
            *at.get_mut(&mut letters) = letter.chars().next().expect("one");
        }
        let text: String = letters.iter().collect();
        let pattern_letters: Vec<char> = pattern.chars().collect();
        prop_assert_eq!(glob(&pattern).matches(&text), plainly_matches(&pattern_letters, &letters));
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
    fn values_without_regard_to_case_match_as_the_plain_comparison_does(
        pattern in "[abAB*?\u{e9}]{0,4}", text in "[abAB*?\u{e9}]{0,4}",
    ) {
        let context = Context { caller: bob(), action: "", facts: &() };
        let form = TextForm { wildcards: false, variables: true };
        let expected = pattern.eq_ignore_ascii_case(&text);
        prop_assert_eq!(Pattern::parse(&pattern, form).equals_ignoring_case(&text, context), expected);
        let open = Pattern::parse(&format!("${{aws:UserAgent, ''}}{pattern}"), form);
        prop_assert_eq!(open.equals_ignoring_case(&text, context), expected);
    }

    #[test]
    fn an_arn_matches_as_its_parts_plainly_do(
        pattern in "[ab*?:]{0,12}", text in "[ab\u{e9}:]{0,12}",
    ) {
        let parts = |text: &str| -> Vec<Vec<char>> {
            text.splitn(6, ':').map(|part| part.chars().collect()).collect()
        };
        let (wanted, given) = (parts(&pattern), parts(&text));
        let any = vec!['*'];
        let is_plain = !pattern.is_empty() && pattern.chars().all(|letter| letter == '*')
            || given.len() == 6
                && given.iter().enumerate().all(|(at, part)| plainly_matches(wanted.get(at).unwrap_or(&any), part));
        let context = Context { caller: bob(), action: "", facts: &() };
        prop_assert_eq!(ArnPattern::parse(&pattern, false).matches(&text, context), is_plain);
    }

    #[test]
    fn a_value_that_is_filled_in_matches_as_its_text_does(
        before in "[ab?*]{0,3}", value in "[ab*\u{e9}]{0,4}", behind in "[ab?*]{0,3}", text in "[ab*\u{e9}]{0,8}",
    ) {
        let context = Context { caller: bob(), action: "", facts: &Agent(&value) };
        let pattern = Pattern::parse(&format!("{before}${{aws:UserAgent}}{behind}"), FORM);
        let plain = format!("{before}{}{behind}", value.replace('*', "${*}"));
        prop_assert_eq!(pattern.matches(&text, context), Pattern::parse(&plain, FORM).matches(&text, context));
        prop_assert!(pattern.has_values(context));
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
        let context = Context { caller: bob(), action: "", facts: &() };
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
    let context = Context { caller: bob(), action: "", facts: &() };
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
    let context = Context { caller: star, action: "", facts: &() };
    assert!(!Pattern::parse("${aws:username}", FORM).matches("x", context));
    assert!(Pattern::parse("${aws:username}", FORM).matches("*", context));
}

#[test]
fn an_arn_has_six_parts_and_the_last_keeps_its_colons() {
    let parts = Template::parse("arn:aws:s3:::b/a:b:${s3:prefix}:c", FORM).segments();
    assert_eq!(parts.len(), 6);
    assert_eq!(Template::parse("arn:*", FORM).segments().len(), 2);
}

/// A request with that agent.
struct Agent<'a>(&'a str);

impl Facts for Agent<'_> {
    fn values(&self, name: KeyName, _: &str) -> Values<'_> {
        if name == KeyName::UserAgent { Values::from(self.0) } else { Values::Absent }
    }
}

/// The answer of a match, and its steps.
fn counted(pattern: &str, text: &str) -> (bool, usize) {
    let glob = glob(pattern);
    let before = STEPS.get();
    let matches = glob.matches(text);
    (matches, STEPS.get() - before)
}

#[test]
fn a_match_takes_steps_that_are_linear_without_question_marks() {
    let agents = "a".repeat(12_000);
    let table = [
        (format!("*{}b", "a".repeat(6000)), false),
        (format!("*{}b*", "a".repeat(6000)), false),
        (format!("*{}*", "a".repeat(6000)), true),
        ("*a".repeat(6000), true),
        (format!("{}b*", "*a".repeat(5999)), false),
        (format!("*{}*", vec!["aaaa"; 2000].join("*")), true),
        (format!("*{}*b*", vec!["ab"; 2000].join("*")), false),
        // At both ends a `?` costs as a letter does.
        (format!("{}*{}", "?a".repeat(2000), "a?".repeat(2000)), true),
    ];
    for (pattern, expected) in table {
        let (matches, steps) = counted(&pattern, &agents);
        assert_eq!(matches, expected, "{}", &pattern[..20]);
        assert!(steps <= pattern.len() + agents.len(), "{steps} steps of {}", &pattern[..20]);
    }
}

#[test]
fn a_question_mark_between_stars_costs_a_word_for_each_64_tokens_of_its_run() {
    let text = "a".repeat(12_000);
    let mixed: String = (b'!'..=b'~').cycle().take(6000).map(char::from).collect();
    for (run, expected) in [
        (format!("{}b", "a?".repeat(3000)), false),
        (format!("{}?b", "a".repeat(6000)), false),
        (format!("?{}", mixed.replace(['*', '?'], "+")), false),
        ("a?".repeat(3000), true),
        ("a?b".to_owned(), false),
    ] {
        let (matches, steps) = counted(&format!("*{run}*"), &text);
        assert_eq!(matches, expected, "{}", &run[..3]);
        let words = run.len().div_ceil(64);
        assert!(steps <= 5 * run.len() + text.len() * words, "{steps} steps of {}", &run[..3]);
    }
    // Runs behind each other share the text.
    let (matches, steps) = counted(&format!("*{}b*", "a?*".repeat(3000)), &text);
    assert!(!matches && steps <= 5 * 9000 + text.len(), "{steps} steps");
}

#[test]
fn values_that_make_a_pattern_too_long_for_a_text_are_not_filled_in() {
    let agent = "a".repeat(8000);
    let pattern = Pattern::parse(&"${aws:UserAgent}".repeat(500), FORM);
    let Pattern::Open(template) = &pattern else { panic!("the request answers its variables") };
    let context = Context { caller: bob(), action: "", facts: &Agent(&agent) };
    let asked = Cell::new(0);
    let filled = template.fill_with(1024, |key| {
        asked.set(asked.get() + 1);
        Some(context.values(key))
    });
    assert_eq!((filled, asked.get()), (None, 1), "the first value alone is longer");
    assert!(!pattern.matches(&"a".repeat(1024), context));
    assert!(pattern.has_values(context), "each of them has one");
    let short = Context { caller: bob(), action: "", facts: &Agent("ab") };
    assert!(pattern.matches(&"ab".repeat(500), short));
    assert!(!pattern.matches(&"ab".repeat(499), short));
}
