//! Laws of decisions, over random policies and requests.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;

use super::cases::{BUCKET, Case, Chance, FactTable, statement};
use crate::fuzzing::plain;
use crate::{
    BucketRules, Effect, ExplainedRights, Facts, Identity, KeyName, Policy, PolicyForm, Resource, Rights,
    UserIdentity, Values, Verdict,
};

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
    fn an_explanation_has_the_verdict_of_rights_and_the_statements_that_give_it(seed: u64) {
        let case = Case::new(seed);
        let identity = case.identity();
        let is_root = matches!(*identity, Identity::Root);
        let rights = ExplainedRights::new(identity, Some(case.rules()));
        let explanation = rights.explain(case.action, case.resource(), &case.facts);
        prop_assert_eq!(explanation.verdict, case.decide(), "{:#?}", case);
        let has = |effect| explanation.statements.iter().any(|found| found.matches() && found.effect == effect);
        let by_statements = match (has(Effect::Deny), has(Effect::Allow)) {
            (true, _) => Verdict::DeniedExplicitly,
            (false, true) => Verdict::Allowed,
            (false, false) if is_root => Verdict::Allowed,
            (false, false) => Verdict::DeniedImplicitly,
        };
        prop_assert_eq!(by_statements, explanation.verdict, "{:#?} {:#?}", explanation, case);
        let decides = explanation.deciding().count() > 0;
        prop_assert_eq!(decides, has(Effect::Deny) || has(Effect::Allow), "{:#?}", explanation);
    }

    #[test]
    fn rights_that_are_settled_by_facts_decide_as_before(seed: u64) {
        let case = Case::new(seed);
        let rights = Rights::new(&case.identity(), Some(&case.rules()));
        for differing in [&[][..], &[KeyName::SourceIp], &[KeyName::VersionId, KeyName::TagKeys, KeyName::Prefix]] {
            for actions in [[case.action; 2], ["s3:PutObject", case.action], ["s3:ListBucket", case.action]] {
                let settled = rights.settled(&case.facts, &actions, differing);
                let verdict = settled.decide(case.action, case.resource(), &case.facts);
                prop_assert_eq!(verdict, case.decide(), "{:?} {:?} {:#?}", actions, differing, case);
            }
        }
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
    fn rights_within_a_boundary_allow_what_both_allow_and_deny_what_either_denies(seed: u64) {
        let case = Case::new(seed);
        // The same caller, whose own policies are those of the boundary.
        let mut bounding = Case::new(seed);
        bounding.own = Case::new(!seed).own;
        let boundary = bounding.own_policies();
        let alone = Rights::new(&bounding.identity(), None);
        let by_boundary = alone.decide(case.action, case.resource(), &case.facts);
        for bucket in [None, Some(case.rules())] {
            let whole = Rights::new(&case.identity(), bucket.as_ref());
            let before = whole.decide(case.action, case.resource(), &case.facts);
            let within = whole.within(&boundary);
            let after = within.decide(case.action, case.resource(), &case.facts);
            prop_assert!(before == Verdict::Allowed || after == before, "{:?} {:?} {:#?}", before, after, case);
            if before == Verdict::Allowed && case.who > 1 {
                prop_assert_eq!(after, by_boundary, "{:#?}", case);
            }
            let is_object = matches!(case.resource(), Resource::Object(..));
            prop_assert!(after != Verdict::Allowed || !is_object || within.may_allow(case.action), "{:#?}", case);
            let nothing = within.within(&[]);
            prop_assert_ne!(nothing.decide(case.action, case.resource(), &case.facts), Verdict::Allowed);
            prop_assert!(!nothing.may_allow(case.action));
        }
    }

    #[test]
    fn an_explicit_deny_is_by_the_identity_where_its_own_policies_alone_deny(seed: u64) {
        let case = Case::new(seed);
        let (own, whole) =
            (Rights::new(&case.identity(), None), Rights::new(&case.identity(), Some(&case.rules())));
        if case.decide() == Verdict::DeniedExplicitly {
            let is_own = own.decide(case.action, case.resource(), &case.facts) == Verdict::DeniedExplicitly;
            for rights in [&whole, &whole.settled(&case.facts, &[case.action; 2], &[])] {
                let found = rights.is_denied_by_identity(case.action, case.resource(), &case.facts);
                prop_assert_eq!(found, is_own, "{:#?}", case);
            }
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
    let mut case = Case::new(0);
    case.own = vec![vec![
        r#"{"Effect": "Allow", "Action": "s3:*", "NotResource":
            ["arn:aws:s3:::data/${aws:UserAgent}*", "arn:aws:s3:::data/${aws:PrincipalTag/none}/*"]}"#
            .to_owned(),
    ]];
    case.shared.clear();
    (case.who, case.action, case.key) = (3, "s3:GetObject", Some("other"));
    case.facts = FactTable::of(&[("aws:UserAgent", "curl/8")]);
    let plain = plain::decide(&case.identity(), &case.rules(), case.action, case.resource(), &case.facts);
    assert_eq!(plain, Verdict::DeniedImplicitly);
    assert_eq!(case.decide(), plain, "{case:#?}");
}

/// Counts how often each of two keys is asked for.
#[derive(Default)]
struct CountedFacts {
    agents: Cell<u32>,
    versions: Cell<u32>,
}

impl Facts for CountedFacts {
    fn values(&self, name: KeyName, _: &str) -> Values<'_> {
        let (count, value) = match name {
            KeyName::UserAgent => (&self.agents, "tool/1"),
            KeyName::VersionId => (&self.versions, "null"),
            _ => return Values::Absent,
        };
        count.set(count.get() + 1);
        value.into()
    }
}

#[test]
fn settled_rights_ask_only_for_the_keys_that_differ() {
    let document = r#"{"Statement": [
        {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::data/kept/*",
         "Condition": {"StringLike": {"aws:UserAgent": "*tool*"}}},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:DeleteObjectVersion", "Resource": "arn:aws:s3:::data/*",
         "Condition": {"StringLike": {"aws:UserAgent": "tool*"}, "StringEquals": {"s3:VersionId": "null"}}}]}"#;
    let form = PolicyForm::Bucket { name: "data" };
    let policy = Policy::parse(document.as_bytes(), form).expect("a policy");
    let rules = BucketRules {
        name: "data".to_owned(),
        policy: Some(Arc::new(policy)),
        restrict_public_buckets: false,
    };
    let rights = Rights::new(&Arc::new(Identity::Anonymous), Some(&rules));
    let facts = CountedFacts::default();
    let settled =
        rights.settled(&facts, &["s3:DeleteObject", "s3:DeleteObjectVersion"], &[KeyName::VersionId]);
    assert_eq!((facts.agents.get(), facts.versions.get()), (2, 0));
    for key in ["a", "kept/b", "c"] {
        let object = Resource::Object("data", key);
        assert_eq!(settled.decide("s3:DeleteObjectVersion", object, &facts), Verdict::Allowed);
        let expected = if key == "kept/b" { Verdict::DeniedExplicitly } else { Verdict::DeniedImplicitly };
        assert_eq!(settled.decide("s3:DeleteObject", object, &facts), expected, "{key}");
    }
    assert_eq!((facts.agents.get(), facts.versions.get()), (2, 3));
}

#[test]
fn rights_weigh_what_they_keep_in_memory_and_keep_no_policy() {
    let resources: Vec<String> =
        (0..200).map(|number| format!(r#""arn:aws:s3:::data/{number:020}/*""#)).collect();
    let document = format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Action": "s3:Get*", "Resource": [{}],
            "Condition": {{"StringLike": {{"aws:UserAgent": "{}*${{aws:Referer}}"}}}}}}}}"#,
        resources.join(", "),
        "a".repeat(3000),
    );
    let policy = Policy::parse(document.as_bytes(), PolicyForm::Identity).expect("a policy");
    let user = UserIdentity {
        arn: "arn:aws:iam::000000000001:user/bob".to_owned(),
        name: "bob".to_owned(),
        id: "AIDA0123456789ABCDEF".to_owned(),
        tags: vec![("team".to_owned(), "b".repeat(256))],
        policies: vec![Arc::new(policy)],
    };
    let identity = Arc::new(Identity::User(user));
    let rules = BucketRules { name: "data".to_owned(), ..BucketRules::default() };
    let rights = Rights::new(&identity, Some(&rules));
    // Texts behind the bucket's name, their globs, the condition, the tag.
    let least = 200 * (22 + 40) + 3000 + 256;
    assert!(rights.bytes() > least && rights.bytes() < 2 * least, "{} of {least}", rights.bytes());
    let elsewhere = BucketRules { name: "other".to_owned(), ..BucketRules::default() };
    assert!(Rights::new(&identity, Some(&elsewhere)).bytes() < 1500, "no statement is about it");
    assert!(Rights::new(&identity, None).bytes() > 200 * 6 * size_of::<String>(), "patterns of six parts");
    assert_eq!(Arc::strong_count(&identity), 1);
}
