//! Keys that stay, go and are made, as a table.

use std::time::Duration;

use sherd_operator::api::{BucketUserStatus, FormerKey};
use sherd_operator::buckets::user::keys::{KeyFacts, KeyPlan, SecretKey, plan};
use sherd_operator::calls::iam::ListedKey;

const NOW: i64 = 1_000;
const OVERLAP: Duration = Duration::from_secs(100);

struct Case {
    /// The keys of the cluster; one in capitals is disabled.
    keys: &'static [&'static str],
    secret: Option<(&'static str, Option<&'static str>)>,
    last: Option<&'static str>,
    former: Option<(&'static str, i64)>,
    rotate: Option<&'static str>,
    expected: (&'static [&'static str], bool, Option<(&'static str, i64)>),
}

fn planned(case: &Case) -> KeyPlan {
    let listed = |id: &&str| ListedKey {
        id: id.to_lowercase(),
        active: id.chars().all(|letter| !letter.is_uppercase()),
    };
    let keys: Vec<ListedKey> = case.keys.iter().map(listed).collect();
    let secret =
        case.secret.map(|(id, asked)| SecretKey { id: id.to_owned(), asked: asked.map(str::to_owned) });
    let status = BucketUserStatus {
        access_key_id: case.last.map(str::to_owned),
        former_key: case.former.map(former),
        ..BucketUserStatus::default()
    };
    plan(&KeyFacts {
        keys: &keys,
        secret: secret.as_ref(),
        status: &status,
        rotate: case.rotate,
        overlap: OVERLAP,
        now_s: NOW,
    })
}

fn former((id, ends_at): (&str, i64)) -> FormerKey {
    FormerKey { access_key_id: id.to_owned(), ends_at }
}

const CASES: &[Case] = &[
    // No key and no Secret.
    Case { keys: &[], secret: None, last: None, former: None, rotate: None, expected: (&[], true, None) },
    // Cut before the first Secret.
    Case {
        keys: &["a"],
        secret: None,
        last: None,
        former: None,
        rotate: None,
        expected: (&["a"], true, None),
    },
    // All is well; an annotation that the key was made for asks for nothing.
    Case {
        keys: &["a"],
        secret: Some(("a", None)),
        last: Some("a"),
        former: None,
        rotate: None,
        expected: (&[], false, None),
    },
    Case {
        keys: &["a"],
        secret: Some(("a", Some("x"))),
        last: Some("a"),
        former: None,
        rotate: Some("x"),
        expected: (&[], false, None),
    },
    // An annotation that is gone asks for nothing.
    Case {
        keys: &["a"],
        secret: Some(("a", Some("x"))),
        last: Some("a"),
        former: None,
        rotate: None,
        expected: (&[], false, None),
    },
    // Another text of the annotation.
    Case {
        keys: &["a"],
        secret: Some(("a", None)),
        last: Some("a"),
        former: None,
        rotate: Some("x"),
        expected: (&[], true, Some(("a", 1_100))),
    },
    // Cut after the key was made.
    Case {
        keys: &["a", "b"],
        secret: Some(("a", None)),
        last: Some("a"),
        former: None,
        rotate: Some("x"),
        expected: (&["b"], true, Some(("a", 1_100))),
    },
    // Cut after the Secret was written.
    Case {
        keys: &["a", "b"],
        secret: Some(("b", Some("x"))),
        last: Some("a"),
        former: None,
        rotate: Some("x"),
        expected: (&[], false, Some(("a", 1_100))),
    },
    // The overlap, and its end.
    Case {
        keys: &["a", "b"],
        secret: Some(("b", Some("x"))),
        last: Some("b"),
        former: Some(("a", 1_001)),
        rotate: Some("x"),
        expected: (&[], false, Some(("a", 1_001))),
    },
    Case {
        keys: &["a", "b"],
        secret: Some(("b", Some("x"))),
        last: Some("b"),
        former: Some(("a", 1_000)),
        rotate: Some("x"),
        expected: (&["a"], false, None),
    },
    // A rotation within the overlap of another.
    Case {
        keys: &["a", "b"],
        secret: Some(("b", Some("x"))),
        last: Some("b"),
        former: Some(("a", 1_050)),
        rotate: Some("y"),
        expected: (&["a"], true, Some(("b", 1_100))),
    },
    // The Secret was lost, also within an overlap, also with a cut.
    Case {
        keys: &["a"],
        secret: None,
        last: Some("a"),
        former: None,
        rotate: None,
        expected: (&[], true, Some(("a", 1_100))),
    },
    Case {
        keys: &["a", "b"],
        secret: None,
        last: Some("b"),
        former: Some(("a", 1_050)),
        rotate: None,
        expected: (&["a"], true, Some(("b", 1_100))),
    },
    Case {
        keys: &["a", "b"],
        secret: None,
        last: Some("a"),
        former: None,
        rotate: None,
        expected: (&["b"], true, Some(("a", 1_100))),
    },
    // A key was disabled or removed in the cluster.
    Case {
        keys: &["A"],
        secret: Some(("a", None)),
        last: Some("a"),
        former: None,
        rotate: None,
        expected: (&["a"], true, None),
    },
    Case {
        keys: &[],
        secret: Some(("a", None)),
        last: Some("a"),
        former: None,
        rotate: None,
        expected: (&[], true, None),
    },
    Case {
        keys: &["A", "b"],
        secret: Some(("b", None)),
        last: Some("b"),
        former: Some(("a", 1_050)),
        rotate: None,
        expected: (&["a"], false, None),
    },
    // A key that was made by hand.
    Case {
        keys: &["a", "c"],
        secret: Some(("a", None)),
        last: Some("a"),
        former: None,
        rotate: None,
        expected: (&["c"], false, None),
    },
    // The status was lost: no key is known to be unused.
    Case {
        keys: &["a", "b"],
        secret: Some(("b", None)),
        last: None,
        former: None,
        rotate: None,
        expected: (&[], false, Some(("a", 1_100))),
    },
];

#[test]
fn every_state_has_its_plan() {
    for (at, case) in CASES.iter().enumerate() {
        let (remove, make, kept) = case.expected;
        let remove = remove.iter().map(|id| (*id).to_owned()).collect();
        let expected = KeyPlan { remove, make, former: kept.map(former), resume: Vec::new() };
        assert_eq!(planned(case), expected, "case {at}");
    }
}

/// The keys that were in use work again after a suspension, and no other does.
#[test]
fn keys_that_were_suspended_are_resumed() {
    let listed = |id: &str| ListedKey { id: id.to_owned(), active: false };
    let keys = [listed("a"), listed("b")];
    let secret = SecretKey { id: "a".to_owned(), asked: None };
    let mut status = BucketUserStatus {
        access_key_id: Some("a".to_owned()),
        former_key: Some(former(("b", 1_001))),
        suspended: true,
        ..BucketUserStatus::default()
    };
    let planned = |status: &BucketUserStatus, now_s: i64| {
        let facts =
            KeyFacts { keys: &keys, secret: Some(&secret), status, rotate: None, overlap: OVERLAP, now_s };
        plan(&facts)
    };
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let resumed = planned(&status, NOW);
    assert_eq!((resumed.resume, resumed.remove, resumed.make), (ids(&["a", "b"]), ids(&[]), false));
    let later = planned(&status, 1_001);
    assert_eq!(
        (later.resume, later.remove, later.make),
        (ids(&["a"]), ids(&["b"]), false),
        "its overlap ended"
    );
    // A key that leaked is not in force again beside the one that is asked for meanwhile.
    for secret in [Some(&secret), None] {
        let rotate = Some("x");
        let facts = KeyFacts { keys: &keys, secret, status: &status, rotate, overlap: OVERLAP, now_s: NOW };
        let rotated = plan(&facts);
        assert_eq!((rotated.resume, rotated.remove, rotated.make), (ids(&[]), ids(&["a", "b"]), true));
        assert_eq!(rotated.former, None);
    }
    status.suspended = false;
    let by_hand = planned(&status, NOW);
    assert_eq!((by_hand.resume, by_hand.remove, by_hand.make), (ids(&[]), ids(&["a", "b"]), true));
}

/// In every state the Secret's key stays while it works, and two keys at most are there in the end.
#[test]
fn no_plan_removes_the_secrets_key_or_exceeds_the_quota() {
    let ids = [None, Some("a"), Some("b")];
    let lists: [&'static [&'static str]; 8] =
        [&[], &["a"], &["b"], &["a", "b"], &["A", "b"], &["a", "B"], &["A"], &["A", "B"]];
    for keys in lists {
        for secret in ids {
            for last in ids {
                for other in ids {
                    for rotate in [None, Some("x")] {
                        let secret = secret.map(|id| (id, None));
                        let former = other.map(|id| (id, 1_050));
                        let expected: (&[&str], bool, _) = (&[], false, None);
                        let case = Case { keys, secret, last, former, rotate, expected };
                        let plan = planned(&case);
                        let left = keys.iter().filter(|id| !plan.remove.contains(&id.to_lowercase())).count();
                        assert!(left + usize::from(plan.make) <= 2, "{keys:?} {secret:?} {last:?} {plan:?}");
                        if let Some((id, _)) = secret.filter(|(id, _)| keys.contains(id)) {
                            assert!(!plan.remove.iter().any(|removed| removed == id), "{plan:?}");
                        }
                    }
                }
            }
        }
    }
}
