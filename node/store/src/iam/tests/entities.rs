//! Users and groups: names, paths, lists, memberships, deletions.

use super::*;
use crate::upkeep::tests::Directories;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_unique_without_regard_to_case_and_keep_theirs() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let made = iam.create_user(user_of("Ada")).await.expect("created");
    assert_eq!(iam.user("aDA").await.expect("there"), made);
    assert_eq!(made.name, "Ada");
    let again = iam.create_user(user_of("ADA")).await;
    assert!(matches!(again, Err(IamError::EntityAlreadyExists { kind: EntityKind::User, .. })), "{again:?}");
    iam.delete_user("ada").await.expect("it has nothing");
    assert!(is_missing(&iam.user("Ada").await) && is_missing(&iam.delete_user("Ada").await));
    let remade = iam.create_user(user_of("ada")).await.expect("created");
    assert_ne!(remade.id, made.id);
    for name in ["", "a/b", "a b", &"u".repeat(65)] {
        let refused = iam.create_user(user_of(name)).await;
        assert!(matches!(refused, Err(IamError::Invalid { field: "userName", .. })), "{refused:?}");
    }
    let user = NewUser { path: "/no/end".to_owned(), ..user_of("other") };
    assert!(matches!(iam.create_user(user).await, Err(IamError::Invalid { field: "path", .. })));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_are_listed_by_name_below_a_path_page_by_page_and_no_bucket_shows_them() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    let iam = iam_of(&node, None);
    for (name, path) in [("e", "/x/"), ("B", "/x/y/"), ("d", "/"), ("a", "/x/"), ("c", "/xy/")] {
        let user = NewUser { path: path.to_owned(), ..user_of(name) };
        iam.create_user(user).await.expect("created");
    }
    iam.create_group("group".to_owned(), "/x/".to_owned()).await.expect("created");
    let (mut pages, mut marker) = (Vec::new(), None);
    loop {
        let page = iam.list_users("/x/", marker.as_deref(), 2).await.expect("listed");
        pages.push(page.records.into_iter().map(|user| user.name).collect::<Vec<_>>());
        match page.next {
            Some(next) => marker = Some(next),
            None => break,
        }
    }
    assert_eq!(pages, [vec!["a", "B"], vec!["e"]]);
    let all = iam.list_users("/", None, 100).await.expect("listed");
    assert_eq!(all.records.len(), 5);
    iam.update_user("d", EntityUpdate { path: Some("/x/".to_owned()), name: None }).await.expect("changed");
    let moved = iam.list_users("/x/", Some("b"), 100).await.expect("listed").records;
    assert_eq!(moved.iter().map(|user| &user.name[..]).collect::<Vec<_>>(), ["d", "e"]);
    for max in [1, 100] {
        let buckets = node.objects().list_buckets("", None, max).await.expect("listed");
        assert_eq!(buckets.buckets.iter().map(|bucket| bucket.name.as_str()).collect::<Vec<_>>(), ["bucket"]);
        assert_eq!(buckets.next, None);
    }
    for prefix in ["iam/", "iam/user/", "i"] {
        let buckets = node.objects().list_buckets(prefix, None, 100).await.expect("listed");
        assert!(buckets.buckets.is_empty() && buckets.next.is_none());
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_user_or_a_group_has_must_go_before_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let user = PolicyOwner::User("ada");
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    iam.create_policy(policy_of("read")).await.expect("created");
    iam.add_user_to_group("ADA", "OPS").await.expect("added");
    iam.add_user_to_group("ada", "ops").await.expect("it is in it");
    assert_eq!(iam.groups_of_user("ada").await.expect("there").len(), 1);
    assert_eq!(iam.group_users("ops", None, 10).await.expect("there").records.len(), 1);
    iam.attach_policy(user, "READ").await.expect("attached");
    iam.put_inline_policy(user, "inline".to_owned(), ALLOW.to_owned()).await.expect("put");
    assert_eq!(conflict(iam.delete_user("ada").await), DeleteConflict::AccessKeys);
    iam.delete_access_key("ada", key.key.id.as_str()).await.expect("deleted");
    assert_eq!(conflict(iam.delete_user("ada").await), DeleteConflict::InlinePolicies);
    iam.delete_inline_policy(user, "INLINE").await.expect("deleted");
    assert_eq!(conflict(iam.delete_user("ada").await), DeleteConflict::AttachedPolicies);
    assert_eq!(conflict(iam.delete_policy("read").await), DeleteConflict::Attached);
    iam.detach_policy(user, "read").await.expect("detached");
    assert!(is_missing(&iam.detach_policy(user, "read").await));
    iam.delete_policy("read").await.expect("deleted");
    assert_eq!(conflict(iam.delete_user("ada").await), DeleteConflict::Memberships);
    assert_eq!(conflict(iam.delete_group("ops").await), DeleteConflict::Members);
    iam.remove_user_from_group("ada", "ops").await.expect("removed");
    assert!(is_missing(&iam.remove_user_from_group("ada", "ops").await));
    iam.delete_user("ada").await.expect("it has nothing");
    iam.delete_group("ops").await.expect("it is empty");
    node.close().await;
}

/// As two calls through two nodes may leave it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_names_a_record_that_was_made_again_gives_nothing_and_holds_nothing_back() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let group = PolicyOwner::Group("ops");
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    iam.create_policy(policy_of("read")).await.expect("created");
    iam.add_user_to_group("ada", "ops").await.expect("added");
    iam.attach_policy(PolicyOwner::User("ada"), "read").await.expect("attached");
    iam.put_inline_policy(group, "deny".to_owned(), DENY.to_owned()).await.expect("put");
    assert_eq!(judged_by(&iam, &key).await, Some(vec![DENY.to_owned(), ALLOW.to_owned()]));
    // Deletions of the group and the policy came in between, and did not see the user.
    for kind in [EntityKind::Group, EntityKind::Policy] {
        let register = kind.register(if kind == EntityKind::Group { "ops" } else { "read" });
        iam.inner.records.clear(&register.expect("a name")).await;
    }
    iam.forget();
    assert_eq!(judged_by(&iam, &key).await, Some(Vec::new()));
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    iam.create_policy(policy_of("read")).await.expect("created");
    iam.put_inline_policy(group, "deny".to_owned(), DENY.to_owned()).await.expect("put");
    assert_eq!(judged_by(&iam, &key).await, Some(Vec::new()), "others of the same names");
    assert!(iam.groups_of_user("ada").await.expect("there").is_empty());
    assert!(iam.attached_policies(PolicyOwner::User("ada")).await.expect("there").is_empty());
    iam.delete_policy("read").await.expect("it is attached to nothing");
    iam.delete_access_key("ada", key.key.id.as_str()).await.expect("deleted");
    iam.delete_user("ada").await.expect("it has nothing that is there");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_have_awss_limits_and_replace_those_of_their_keys() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
    let tags = |user: &sherd_core::iam::UserRecord| {
        user.tags.iter().map(|tag| format!("{}={}", tag.key, tag.value)).collect::<Vec<_>>()
    };
    let user = NewUser { tags: vec![tag("a", "1"), tag("b", "2")], ..user_of("ada") };
    iam.create_user(user).await.expect("created");
    iam.tag_user("ada", vec![tag("A", "3"), tag("c", "")]).await.expect("tagged");
    assert_eq!(tags(&iam.user("ada").await.expect("there")), ["b=2", "A=3", "c="]);
    iam.untag_user("ada", vec!["B".to_owned(), "none".to_owned()]).await.expect("untagged");
    assert_eq!(tags(&iam.user("ada").await.expect("there")), ["A=3", "c="], "in any case");
    let (key, value) = (InvalidTag::Key { place: 1 }, InvalidTag::Value { place: 2 });
    let bad = [
        (vec![tag("", "v")], key),
        (vec![tag(&"k".repeat(129), "v")], key),
        (vec![tag("a\u{fffe}", "v")], key),
        (vec![tag("a\n", "v")], key),
        (vec![tag("a;b", "v")], key),
        (vec![tag("j", "v"), tag("k", &"v".repeat(257))], value),
        (vec![tag("j", "v"), tag("k", "\u{0}")], value),
        (vec![tag("j", "v"), tag("k", "\u{7f}")], value),
        (vec![tag("k", "1"), tag("K", "2")], InvalidTag::TwiceInAnyCase),
        (vec![tag("aws:k", "v")], InvalidTag::Reserved),
        (vec![tag("AWS:k", "v")], InvalidTag::Reserved),
    ];
    for (bad, why) in bad {
        let refused = iam.tag_user("ada", bad).await;
        assert!(matches!(refused, Err(IamError::InvalidTag(found)) if found == why), "{refused:?}");
    }
    iam.tag_user("ada", vec![tag("\u{fc} \u{65e5}_.:/=+-@", "\u{a0}1")]).await.expect("tagged");
    iam.untag_user("ada", vec!["\u{fc} \u{65e5}_.:/=+-@".to_owned()]).await.expect("untagged");
    let many = (0..49).map(|n| tag(&format!("k{n}"), "v")).collect();
    assert!(is_over_limit(&iam.tag_user("ada", many).await), "51 together");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_is_in_ten_groups_at_most() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    iam.create_user(user_of("ada")).await.expect("created");
    for n in 0..11 {
        iam.create_group(format!("g{n}"), "/".to_owned()).await.expect("created");
        let added = iam.add_user_to_group("ada", &format!("g{n}")).await;
        assert_eq!(added.is_ok(), n < 10, "{n}: {added:?}");
        assert!(n < 10 || is_over_limit(&added));
    }
    // A group that went without its members being seen makes room.
    iam.inner.records.clear(&EntityKind::Group.register("g3").expect("a name")).await;
    iam.add_user_to_group("ada", "g10").await.expect("added");
    let groups = iam.groups_of_user("ada").await.expect("there");
    assert_eq!(groups.len(), 10);
    node.close().await;
}
