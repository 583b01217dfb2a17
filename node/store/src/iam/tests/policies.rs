//! Policies: versions, sizes, counts.

use futures::FutureExt as _;
use sherd_core::iam::{ManagedPolicy, PolicyVendor, UserRecord};

use super::*;
use crate::upkeep::tests::Directories;

/// The document with white space that makes it longer.
fn spaced(document: &str, spaces: usize) -> String {
    format!("{document}{}", " ".repeat(spaces))
}

/// A document of this many characters.
pub(super) fn sized(chars: usize) -> String {
    let (head, tail) = (
        r#"{"Version":"2012-10-17","Id":""#,
        r#"","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#,
    );
    format!("{head}{}{tail}", "i".repeat(chars - head.len() - tail.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_version_of_a_managed_policy_is_in_force() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let made = iam.create_policy(policy_of("Read")).await.expect("created");
    assert_eq!(made.arn(), "arn:aws:iam::000000000001:policy/Read");
    iam.attach_policy(PolicyOwner::User("ada"), "read").await.expect("attached");
    assert_eq!(judged_by(&iam, &key).await, Some(vec![ALLOW.to_owned()]));
    let second = iam.create_policy_version("read", DENY.to_owned(), false).await.expect("added");
    assert_eq!(second.number, 2);
    assert_eq!(judged_by(&iam, &key).await, Some(vec![ALLOW.to_owned()]));
    iam.set_default_policy_version("read", 2).await.expect("set");
    assert_eq!(judged_by(&iam, &key).await, Some(vec![DENY.to_owned()]));
    assert_eq!(conflict(iam.delete_policy_version("read", 2).await), DeleteConflict::DefaultVersion);
    assert!(is_missing(&iam.set_default_policy_version("read", 9).await));
    for number in 3..=5 {
        let added = iam.create_policy_version("read", ALLOW.to_owned(), true).await.expect("added");
        assert_eq!(added.number, number);
    }
    assert!(is_over_limit(&iam.create_policy_version("read", ALLOW.to_owned(), true).await));
    iam.delete_policy_version("read", 1).await.expect("deleted");
    let added = iam.create_policy_version("read", DENY.to_owned(), true).await.expect("added");
    assert_eq!(added.number, 6, "no number is given twice");
    assert_eq!(judged_by(&iam, &key).await, Some(vec![DENY.to_owned()]));
    let (users, groups) = iam.entities_for_policy("read").await.expect("there");
    assert_eq!((users.len(), groups.len()), (1, 0));
    iam.detach_policy(PolicyOwner::User("ada"), "read").await.expect("detached");
    assert_eq!(conflict(iam.delete_policy("read").await), DeleteConflict::Versions);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_read_all_users_take_the_places_of_searches_and_counts_are_remembered() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    iam.create_user(user_of("ada")).await.expect("created");
    iam.create_policy(policy_of("read")).await.expect("created");
    assert_eq!(iam.entity_count(EntityKind::User).await.expect("counted"), 1);
    let searches = &iam.inner.records.searches;
    let held = [searches.take().await.expect("free"), searches.take().await.expect("free")];
    let again = iam.entity_count(EntityKind::User).now_or_never().expect("it is remembered");
    assert_eq!(again.expect("counted"), 1);
    let (entities, policies, deleted) = tokio::join!(
        iam.entities_for_policy("read"),
        iam.entity_count(EntityKind::Policy),
        iam.delete_policy("read")
    );
    assert!(matches!(entities, Err(IamError::Busy)), "{entities:?}");
    assert!(matches!(policies, Err(IamError::Busy)), "{policies:?}");
    assert!(matches!(deleted, Err(IamError::Busy)), "{deleted:?}");
    drop(held);
    assert_eq!(iam.entity_count(EntityKind::Policy).await.expect("counted"), 1);
    iam.delete_policy("read").await.expect("attached to nothing");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulations_keep_no_search_out() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    iam.create_policy(policy_of("read")).await.expect("created");
    let held = [iam.simulation_place().await.expect("free"), iam.simulation_place().await.expect("free")];
    assert!(iam.simulation_place().now_or_never().is_none(), "a third one waits");
    iam.delete_policy("read").await.expect("attached to nothing");
    drop(held);
    drop(iam.simulation_place().await.expect("given back"));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_have_awss_sizes_and_white_space_does_not_count() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    let (user, group) = (PolicyOwner::User("ada"), PolicyOwner::Group("ops"));
    for (owner, max) in [(user, 2_048), (group, 5_120)] {
        let put = |name: &str, document| iam.put_inline_policy(owner, name.to_owned(), document);
        put("a", spaced(&sized(max), 20_000)).await.expect("as long as may be");
        put("A", sized(max)).await.expect("in its place");
        assert!(is_over_limit(&put("b", ALLOW.to_owned()).await), "together too long");
        assert!(is_over_limit(&put("a", sized(max + 1)).await));
        put("a", sized(max - ALLOW.len())).await.expect("shorter");
        put("b", ALLOW.to_owned()).await.expect("together as long as may be");
    }
    iam.add_user_to_group("ada", "ops").await.expect("added");
    assert_eq!(judged_by(&iam, &key).await.map(|documents| documents.len()), Some(4));
    let managed = |document| NewPolicy { document, ..policy_of("long") };
    assert!(is_over_limit(&iam.create_policy(managed(sized(6_145))).await));
    assert!(is_over_limit(&iam.create_policy(managed(spaced(ALLOW, 200_000))).await));
    iam.create_policy(managed(spaced(&sized(6_144), 100_000))).await.expect("as long as may be");
    iam.attach_policy(user, "long").await.expect("attached");
    assert_eq!(judged_by(&iam, &key).await.map(|documents| documents.len()), Some(5));
    for bad in ["", "{}", "[]", r#"{"Statement":[{"Effect":"Maybe"}]}"#] {
        let refused = iam.put_inline_policy(user, "bad".to_owned(), bad.to_owned()).await;
        assert!(matches!(refused, Err(IamError::MalformedPolicy(_))), "{bad}: {refused:?}");
        let refused = iam.create_policy(NewPolicy { document: bad.to_owned(), ..policy_of("bad") }).await;
        assert!(matches!(refused, Err(IamError::MalformedPolicy(_))), "{bad}: {refused:?}");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_managed_policies_are_attached_at_most() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    let group = PolicyOwner::Group("ops");
    for n in 0..11 {
        iam.create_policy(policy_of(&format!("p{n}"))).await.expect("created");
        let attached = iam.attach_policy(group, &format!("p{n}")).await;
        assert!(attached.is_ok() == (n < 10) && (n < 10 || is_over_limit(&attached)), "{n}: {attached:?}");
    }
    iam.attach_policy(group, "P9").await.expect("it is attached");
    assert_eq!(iam.attached_policies(group).await.expect("there").len(), 10);
    // A policy that went without the group being seen makes room.
    iam.inner.records.clear(&EntityKind::Policy.register("p3").expect("a name")).await;
    iam.attach_policy(group, "p10").await.expect("attached");
    assert!(is_missing(&iam.attach_policy(group, "p3").await));
    assert!(is_missing(&iam.attach_policy(PolicyOwner::Group("none"), "p1").await));
    assert_eq!(conflict(iam.delete_group("ops").await), DeleteConflict::AttachedPolicies);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_policys_tags_have_a_case() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
    let tags = vec![tag("Costcenter", "1"), tag("a", "2"), tag("A", "3")];
    iam.create_policy(NewPolicy { tags, ..policy_of("read") }).await.expect("created");
    iam.tag_policy("read", vec![tag("costcenter", "4"), tag("A", "5")]).await.expect("tagged");
    iam.untag_policy("read", vec!["a".to_owned(), "COSTCENTER".to_owned()]).await.expect("untagged");
    let left = iam.policy("read").await.expect("there").tags;
    assert_eq!(left, [tag("Costcenter", "1"), tag("costcenter", "4"), tag("A", "5")]);
    let twice = iam.tag_policy("read", vec![tag("k", "1"), tag("k", "2")]).await;
    assert!(matches!(twice, Err(IamError::InvalidTag(InvalidTag::Twice))), "{twice:?}");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_of_aws_is_attached_and_one_that_the_program_has_not_gives_no_view() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let (user, group) = (PolicyOwner::User("ada"), PolicyOwner::Group("ops"));
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    iam.add_user_to_group("ada", "ops").await.expect("added");
    // The account may have one of the same name.
    iam.create_policy(policy_of("AWSDenyAll")).await.expect("created");
    iam.attach_policy(user, "AWSDenyAll").await.expect("attached");
    assert_eq!(judged_by(&iam, &key).await, Some(vec![ALLOW.to_owned()]));
    let deny = ManagedName { vendor: PolicyVendor::Aws, name: "awsdenyall" };
    for owner in [user, group, user] {
        iam.attach_policy(owner, deny).await.expect("attached");
    }
    let document = aws_policies()[0].default_version().expect("it has one").document.clone();
    let judges = judged_by(&iam, &key).await.expect("a good key");
    assert_eq!(judges, [ALLOW.to_owned(), document], "once, although it is attached twice");
    let (users, groups) = iam.entities_for_policy(deny).await.expect("there");
    assert_eq!((users.len(), groups.len()), (1, 1));
    iam.remove_user_from_group("ada", "ops").await.expect("removed");
    assert_eq!(conflict(iam.delete_group("ops").await), DeleteConflict::AttachedPolicies);
    iam.detach_policy(group, deny).await.expect("detached");
    iam.detach_policy(user, "AWSDenyAll").await.expect("detached");
    let attached = iam.attached_policies(user).await.expect("there");
    assert_eq!(attached.iter().map(ManagedPolicy::arn).collect::<Vec<_>>(), [aws_policies()[0].arn()]);

    // A record of a program that has more of them.
    let later = |user: &mut UserRecord| {
        user.policies.aws.push("LaterDeny".to_owned());
        Ok(())
    };
    iam.try_change_user("ada", later).await.expect("changed");
    let unknown = |name: &str| IamReadError::UnknownAwsPolicy { name: name.to_owned() };
    assert_eq!(iam.look_up_key(key.key.id.as_str()).await.err(), Some(unknown("LaterDeny")));
    let unlisted = iam.attached_policies(user).await;
    assert!(matches!(unlisted, Err(IamError::Read(error)) if error == unknown("LaterDeny")));
    let other = ManagedName { vendor: PolicyVendor::Aws, name: "Other" };
    assert!(
        is_missing(&iam.attach_policy(user, other).await)
            && is_missing(&iam.detach_policy(user, other).await)
    );
    let later = ManagedName { vendor: PolicyVendor::Aws, name: "LaterDeny" };
    iam.detach_policy(user, later).await.expect("detached");
    assert_eq!(judged_by(&iam, &key).await.map(|judges| judges.len()), Some(1));
    // Policies of AWS and of the account share the quota.
    let of_aws =
        aws_policies().iter().map(|policy| ManagedName { vendor: policy.vendor, name: &policy.name });
    for policy in of_aws {
        iam.attach_policy(user, policy).await.expect("ten");
    }
    assert!(is_over_limit(&iam.attach_policy(user, "AWSDenyAll").await));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_long_policies_ends_early_and_goes_on() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    // White space does not count for the size of a document.
    let document = format!("{ALLOW}{}", " ".repeat(120 << 10));
    let names: Vec<String> = (0..9).map(|n| format!("p{n}")).collect();
    for name in &names {
        iam.create_policy(NewPolicy { document: document.clone(), ..policy_of(name) })
            .await
            .expect("created");
        for _ in 0..4 {
            iam.create_policy_version(name, document.clone(), false).await.expect("added");
        }
    }
    let (mut found, mut pages, mut marker) = (Vec::new(), 0, None::<String>);
    loop {
        let page = iam.list_policies("/", marker.as_deref(), 1_000).await.expect("readable");
        found.extend(page.records.into_iter().map(|policy| policy.name));
        pages += 1;
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    assert_eq!(found, names);
    assert!(pages > 1, "5.4 MB in one page");
    node.close().await;
}
