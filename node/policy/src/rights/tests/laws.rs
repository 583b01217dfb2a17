//! Laws of decisions, over random policies and requests.

use proptest::prelude::*;

use super::cases::{BUCKET, Case, Chance, statement};
use crate::fuzzing::plain;
use crate::{Policy, PolicyForm, Resource, Rights, Verdict};

/// A statement of an effect that is taken.
fn another(chance: &mut Chance, form: PolicyForm<'_>, effect: &str) -> String {
    loop {
        let text = statement(chance, form);
        let is_wanted = text.contains(&format!(r#""Effect": "{effect}""#));
        let document = super::cases::document(std::slice::from_ref(&text));
        if is_wanted && Policy::parse(document.as_bytes(), form).is_ok() {
            return text;
        }
    }
}

/// The case with one statement more, in a policy of the identity or in the bucket's.
fn with_another(seed: u64, effect: &str) -> Case {
    let mut case = Case::new(seed);
    let mut chance = Chance::new(!seed);
    if chance.one_in(2) {
        let text = another(&mut chance, PolicyForm::Bucket { name: BUCKET }, effect);
        let at = chance.below(case.shared.len() + 1);
        case.shared.insert(at, text);
    } else {
        let text = another(&mut chance, PolicyForm::Identity, effect);
        case.own.push(vec![text]);
    }
    // Whether a policy is public depends on all of it: one more statement may take the others' grants away.
    case.restrict_public_buckets = false;
    case
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rights_decide_as_the_plain_interpretation_of_all_statements(seed: u64) {
        let case = Case::new(seed);
        let plain = plain::decide(&case.identity(), &case.rules(), case.action, case.resource(), &case.facts);
        prop_assert_eq!(case.decide(), plain, "{:#?}", case);
    }

    #[test]
    fn an_object_is_never_allowed_where_no_request_may_be(seed: u64) {
        let case = Case::new(seed);
        let rights = Rights::new(&case.identity(), Some(&case.rules()));
        let is_allowed = case.decide() == Verdict::Allowed;
        if is_allowed && matches!(case.resource(), Resource::Object(..)) {
            prop_assert!(rights.may_allow(case.action), "{:#?}", case);
        }
    }

    #[test]
    fn another_deny_never_grants(seed: u64) {
        let mut before = Case::new(seed);
        before.restrict_public_buckets = false;
        let after = with_another(seed, "Deny");
        if before.decide() != Verdict::Allowed {
            prop_assert_ne!(after.decide(), Verdict::Allowed, "{:#?}", after);
        }
        if before.decide() == Verdict::DeniedExplicitly {
            prop_assert_eq!(after.decide(), Verdict::DeniedExplicitly);
        }
    }

    #[test]
    fn another_allow_never_takes_away(seed: u64) {
        let mut before = Case::new(seed);
        before.restrict_public_buckets = false;
        let after = with_another(seed, "Allow");
        if before.decide() == Verdict::Allowed {
            prop_assert_eq!(after.decide(), Verdict::Allowed, "{:#?}", after);
        }
    }

    #[test]
    fn a_deny_that_matches_wins(seed: u64) {
        let mut case = Case::new(seed);
        let everything = r#"{"Effect": "Deny", "Principal": "*", "NotAction": "s3:DeleteBucket",
            "Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/*"]}"#;
        case.shared.push(everything.to_owned());
        let is_of_root = case.who == 0 && case.action.ends_with("BucketPolicy");
        let expected = if is_of_root { Verdict::Allowed } else { Verdict::DeniedExplicitly };
        prop_assert_eq!(case.decide(), expected, "{:#?}", case);
    }

    #[test]
    fn the_order_of_statements_and_policies_means_nothing(seed: u64) {
        let before = Case::new(seed);
        let mut after = Case::new(seed);
        after.own.reverse();
        after.own.iter_mut().for_each(|policy| policy.reverse());
        after.shared.reverse();
        prop_assert_eq!(before.decide(), after.decide());
    }

    #[test]
    fn statements_of_one_policy_may_stand_in_several(seed: u64) {
        let before = Case::new(seed);
        let mut after = Case::new(seed);
        after.own = after.own.into_iter().flatten().map(|statement| vec![statement]).collect();
        prop_assert_eq!(before.decide(), after.decide());
    }
}

#[test]
fn the_random_cases_have_every_verdict_and_every_caller() {
    let mut counts = std::collections::HashMap::new();
    for seed in 0..2000 {
        let case = Case::new(seed);
        *counts.entry((case.who.min(2), format!("{:?}", case.decide()))).or_insert(0) += 1;
    }
    // All three callers, each allowed and denied explicitly; all but the root denied implicitly.
    assert_eq!(counts.len(), 8, "{counts:?}");
    assert!(counts.values().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn not_resource_with_an_open_variable_beside_one_without_a_value_matches_nothing() {
    let case = Case::new(18_430_727_877_528_917_551);
    let plain = plain::decide(&case.identity(), &case.rules(), case.action, case.resource(), &case.facts);
    assert_eq!(plain, Verdict::DeniedImplicitly);
    assert_eq!(case.decide(), plain, "{case:#?}");
}
