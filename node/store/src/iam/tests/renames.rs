//! Renames: a crash at each of their operations, other calls between each two of them, and their refusals.

use std::collections::BTreeMap;

use sherd_core::iam::{EntityId, UserRecord};

use super::*;
use crate::upkeep::tests::Directories;

fn to(name: &str) -> EntityUpdate {
    EntityUpdate { name: Some(name.to_owned()), path: None }
}

fn exists<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(IamError::EntityAlreadyExists { .. }))
}

/// The documents and the name by which a key's requests are judged.
async fn judged_as(iam: &Iam, key: &NewKey) -> (String, Vec<String>) {
    iam.forget();
    let documents = judged_by(iam, key).await.expect("it is good");
    let view = iam.look_up_key(key.key.id.as_str()).await.expect("readable").expect("it is good");
    (view.user_name.clone(), documents)
}

/// The names of all users, in their order.
async fn listed(iam: &Iam) -> Vec<String> {
    let page = iam.list_users("/", None, 1000).await.expect("listed");
    let mut names: Vec<_> = page.records.into_iter().map(|user| user.name).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renamed_user_keeps_all_but_its_name() {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "Ada").await;
    iam.create_group("ops".to_owned(), "/".to_owned()).await.expect("created");
    iam.add_user_to_group("ada", "ops").await.expect("added");
    iam.put_inline_policy(PolicyOwner::Group("ops"), "p".to_owned(), DENY.to_owned()).await.expect("put");
    iam.create_policy(policy_of("read")).await.expect("created");
    iam.attach_policy(PolicyOwner::User("ada"), "read").await.expect("attached");
    iam.create_user(user_of("bob")).await.expect("created");
    let before = iam.user("ada").await.expect("there");
    let rights = vec![DENY.to_owned(), ALLOW.to_owned()];
    // Away from its first name, on to another, in another case, and home.
    for (from, next, path) in
        [("ada", "Eve", "/"), ("EVE", "zoe", "/x/"), ("zoe", "ZOE", "/x/"), ("zoe", "aDa", "/x/")]
    {
        assert!(exists(&iam.update_user(from, to("BOB")).await), "{from}");
        let update = EntityUpdate { path: Some(path.to_owned()), ..to(next) };
        iam.update_user(from, update).await.expect("renamed");
        let after = iam.user(next).await.expect("there");
        let expected = UserRecord {
            name: next.to_owned(),
            path: path.to_owned(),
            home: after.home.clone(),
            ..before.clone()
        };
        assert_eq!(after, expected);
        assert_eq!(judged_as(&iam, &key).await, (next.to_owned(), rights.clone()));
        assert_eq!(iam.user(from).await.is_ok(), from.eq_ignore_ascii_case(next));
        assert_eq!(iam.key_owner(key.key.id.as_str()).await.expect("there").user_name, next);
        assert_eq!(iam.access_keys(next).await.expect("there").user_name, next);
        assert_eq!(listed(&iam).await.len(), 2);
        assert_eq!(iam.group_users("ops", None, 9).await.expect("there").records, [after]);
    }
    for bad in ["", "a b", &"u".repeat(65)] {
        let refused = iam.update_user("ada", to(bad)).await;
        assert!(matches!(refused, Err(IamError::Invalid { field: "newUserName", .. })), "{refused:?}");
    }
    assert!(is_missing(&iam.update_user("eve", to("other")).await));
    let register = EntityKind::User.register("eve").expect("a name");
    let left = iam.inner.records.objects.documents().read(register).await.expect("readable");
    assert_eq!(left, None, "a name that was left has no register");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_left_is_another_users_and_no_right_goes_with_it() {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let first = user_with_key(&iam, "a").await;
    iam.put_inline_policy(PolicyOwner::User("a"), "p".to_owned(), ALLOW.to_owned()).await.expect("put");
    iam.update_user("a", to("b")).await.expect("renamed");
    // A second user under the name, whose register the first one lives in.
    let second = user_with_key(&iam, "a").await;
    assert_eq!(judged_as(&iam, &second).await, ("a".to_owned(), vec![]));
    assert_eq!(judged_as(&iam, &first).await, ("b".to_owned(), vec![ALLOW.to_owned()]));
    assert!(exists(&iam.create_user(user_of("A")).await) && exists(&iam.update_user("b", to("a")).await));
    assert_eq!(listed(&iam).await, ["a", "b"]);
    // The names go round.
    iam.update_user("a", to("c")).await.expect("renamed");
    iam.update_user("b", to("a")).await.expect("renamed: it goes home");
    iam.update_user("c", to("b")).await.expect("renamed");
    assert_eq!(judged_as(&iam, &first).await, ("a".to_owned(), vec![ALLOW.to_owned()]));
    assert_eq!(judged_as(&iam, &second).await, ("b".to_owned(), vec![]));
    assert_eq!(iam.entity_count(EntityKind::User).await.expect("counted"), 2);
    iam.delete_access_key("b", second.key.id.as_str()).await.expect("deleted");
    iam.delete_user("b").await.expect("it has nothing");
    assert!(is_missing(&iam.user("b").await));
    let third = iam.create_user(user_of("b")).await.expect("created");
    assert_eq!((third.home, listed(&iam).await), ("b".to_owned(), vec!["a".to_owned(), "b".to_owned()]));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_renamed_group_keep_what_it_denies() {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let iam = iam_of(&node, None);
    let key = user_with_key(&iam, "ada").await;
    let deny = async |group: &str| {
        let group = PolicyOwner::Group(group);
        iam.put_inline_policy(group, "p".to_owned(), DENY.to_owned()).await.expect("put");
    };
    let denials = async || judged_as(&iam, &key).await.1.len();
    iam.create_group("g".to_owned(), "/".to_owned()).await.expect("created");
    deny("g").await;
    iam.add_user_to_group("ada", "g").await.expect("added");
    iam.update_group("g", to("h")).await.expect("renamed");
    assert_eq!(denials().await, 1);
    // A group of the former name is another group: the user may be in both.
    iam.create_group("g".to_owned(), "/".to_owned()).await.expect("created");
    deny("g").await;
    assert_eq!(denials().await, 1);
    iam.add_user_to_group("ada", "g").await.expect("added");
    iam.add_user_to_group("ada", "h").await.expect("it is in it");
    assert_eq!(denials().await, 2);
    let user = iam.user("ada").await.expect("there");
    assert!(user.groups[1].is_by_id(), "{user:?}");
    iam.update_group("g", to("i")).await.expect("renamed");
    assert_eq!(denials().await, 2);
    let names = async || {
        let groups = iam.groups_of_user("ada").await.expect("there");
        groups.into_iter().map(|group| group.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["h", "i"]);
    assert_eq!(conflict(iam.delete_group("h").await), DeleteConflict::InlinePolicies);
    iam.remove_user_from_group("ada", "i").await.expect("removed");
    assert!(is_missing(&iam.remove_user_from_group("ada", "g").await));
    assert_eq!((denials().await, names().await), (1, vec!["h".to_owned()]));
    node.close().await;
}

/// Behind each crash the user has one name and all its rights, and the same call ends the rename.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_each_operation_leaves_the_user_whole_under_one_name() {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let (iam, crashing) = (iam_of(&node, None), iam_of(&node, None));
    let gate = &crashing.inner.records.gate;
    // The names that the user had before, and the name that it is to have.
    let ways: [(&[&str], &str); 4] =
        [(&["a"], "b"), (&["a", "b"], "c"), (&["a", "b"], "a"), (&["a", "b", "c"], "b")];
    for (way, (before, next)) in ways.iter().enumerate() {
        for operations in 0.. {
            let named = |name: &str| format!("{name}-{way}-{operations}");
            let key = user_with_key(&iam, &named(before[0])).await;
            let (group, first) = (named("g"), named(before[0]));
            iam.create_group(group.clone(), "/".to_owned()).await.expect("created");
            iam.put_inline_policy(PolicyOwner::Group(&group), "p".to_owned(), DENY.to_owned())
                .await
                .expect("put");
            iam.add_user_to_group(&first, &group).await.expect("added");
            for pair in before.windows(2) {
                iam.update_user(&named(pair[0]), to(&named(pair[1]))).await.expect("renamed");
            }
            let (last, next) = (named(before[before.len() - 1]), named(next));
            gate.cut_after(operations);
            let ended = crashing.update_user(&last, to(&next)).await;
            gate.cut_after(operations);
            let group_ended = crashing.update_group(&group, to(&named("h"))).await;
            let (name, rights) = judged_as(&iam, &key).await;
            assert_eq!(rights, [DENY], "{way} {operations}");
            assert!(name == next || (ended.is_err() && name == last), "{way} {operations}: {name}");
            let other = if name == next { &last } else { &next };
            assert!(is_missing(&iam.user(other).await));
            assert_eq!(iam.user(&name).await.expect("there").id, key.key.user.id);
            let listed = iam.list_users("/", None, 1000).await.expect("listed").records;
            assert_eq!(listed.iter().filter(|user| user.id == key.key.user.id).count(), 1);
            // Other calls go on from there: the name that is free is taken, and the rename is ended.
            if name == last && operations % 2 == 0 {
                iam.update_user(&last, to(&next)).await.expect("renamed");
                assert_eq!(judged_as(&iam, &key).await, (next, vec![DENY.to_owned()]));
            } else {
                let made = user_with_key(&iam, other).await;
                assert_eq!(judged_as(&iam, &made).await, (other.clone(), vec![]));
                assert_eq!(judged_as(&iam, &key).await, (name, vec![DENY.to_owned()]));
            }
            if ended.is_ok() && group_ended.is_ok() {
                break;
            }
        }
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_each_operation_of_a_creation_or_a_deletion_leaves_one_or_none() {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let (iam, crashing) = (iam_of(&node, None), iam_of(&node, None));
    let gate = &crashing.inner.records.gate;
    for operations in 0.. {
        let named = |name: &str| format!("{name}-{operations}");
        let (left, taken) = (named("a"), named("b"));
        let first = iam.create_user(user_of(&left)).await.expect("created");
        iam.update_user(&left, to(&taken)).await.expect("renamed");
        gate.cut_after(operations);
        let made = crashing.create_user(user_of(&left)).await;
        let found = iam.user(&left).await;
        assert!(found.is_ok() || made.is_err(), "{operations}");
        let expected = 1 + usize::from(found.is_ok());
        let mine = listed(&iam).await.into_iter().filter(|name| name.ends_with(&named("")));
        assert_eq!(mine.count(), expected, "{operations}");
        assert_eq!(exists(&iam.create_user(user_of(&left)).await), found.is_ok());
        assert_eq!(iam.user(&taken).await.expect("there").id, first.id);
        gate.cut_after(operations);
        let deleted = crashing.delete_user(&taken).await;
        let found = iam.user(&taken).await;
        assert!(found.is_err() || deleted.is_err(), "{operations}");
        if found.is_ok() {
            iam.delete_user(&taken).await.expect("it has nothing");
        }
        iam.create_user(user_of(&taken)).await.expect("the name is free");
        assert_ne!(iam.user(&taken).await.expect("there").id, first.id);
        assert!(iam.user(&left).await.is_ok());
        if made.is_ok() && deleted.is_ok() {
            break;
        }
    }
    node.close().await;
}

/// A call of a race. Names are those of the race.
#[derive(Debug, Clone, Copy)]
enum Call {
    Rename(&'static str, &'static str),
    Create(&'static str),
    Delete(&'static str),
    /// Gives the user an inline policy.
    Deny(&'static str),
    AddKey(&'static str),
    /// Adds the user to the group `g`.
    Join(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Done,
    Missing,
    Exists,
    /// The user has something.
    Conflict,
    /// Other calls came between again and again.
    Again,
}

/// A user, as a race sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// The number of the user among those that were there before.
    before: Option<usize>,
    policies: usize,
    keys: usize,
    groups: usize,
}

type Names = BTreeMap<&'static str, Seen>;

const NAMES: [&str; 4] = ["u", "v", "w", "x"];

impl Call {
    /// The call as one step: its answer, and the names behind it.
    fn model(self, names: &mut Names) -> Answer {
        let mut on = |name: &str, change: fn(&mut Seen)| match names.get_mut(name) {
            Some(seen) => {
                change(seen);
                Answer::Done
            }
            None => Answer::Missing,
        };
        match self {
            Self::Deny(name) => on(name, |seen| seen.policies = 1),
            Self::AddKey(name) => on(name, |seen| seen.keys += 1),
            Self::Join(name) => on(name, |seen| seen.groups = 1),
            Self::Create(name) if names.contains_key(name) => Answer::Exists,
            Self::Create(name) => {
                names.insert(name, Seen { before: None, policies: 0, keys: 0, groups: 0 });
                Answer::Done
            }
            Self::Delete(name) => match names.get(name) {
                None => Answer::Missing,
                Some(Seen { policies: 0, keys: 0, groups: 0, .. }) => {
                    names.remove(name);
                    Answer::Done
                }
                Some(_) => Answer::Conflict,
            },
            Self::Rename(from, next) => {
                let Some(seen) = names.get(from).copied() else { return Answer::Missing };
                if names.contains_key(next) {
                    return Answer::Exists;
                }
                names.remove(from);
                names.insert(next, seen);
                Answer::Done
            }
        }
    }

    async fn run(self, iam: Iam, race: String) -> Answer {
        let named = |name: &str| format!("{name}-{race}");
        let answer = match self {
            Self::Rename(from, next) => iam.update_user(&named(from), to(&named(next))).await,
            Self::Create(name) => iam.create_user(user_of(&named(name))).await.map(drop),
            Self::Delete(name) => iam.delete_user(&named(name)).await,
            Self::Deny(name) => {
                let owner = named(name);
                iam.put_inline_policy(PolicyOwner::User(&owner), "p".to_owned(), DENY.to_owned()).await
            }
            Self::AddKey(name) => iam.create_access_key(&named(name), None).await.map(drop),
            Self::Join(name) => iam.add_user_to_group(&named(name), "g").await,
        };
        match answer {
            Ok(()) => Answer::Done,
            Err(IamError::NoSuchEntity(_)) => Answer::Missing,
            Err(IamError::EntityAlreadyExists { .. }) => Answer::Exists,
            Err(IamError::DeleteConflict(_)) => Answer::Conflict,
            Err(IamError::ConcurrentModification) => Answer::Again,
            Err(other) => panic!("{self:?}: {other}"),
        }
    }
}

/// The users of a race by their names, each of which is listed once.
async fn seen(iam: &Iam, race: &str, before: &[EntityId]) -> Names {
    let mut names = Names::new();
    for name in NAMES {
        match iam.user(&format!("{name}-{race}")).await {
            Ok(user) => {
                let before = before.iter().position(|id| *id == user.id);
                let (policies, keys) = (user.policies.inline.len(), user.keys.len());
                names.insert(name, Seen { before, policies, keys, groups: user.groups.len() });
            }
            Err(error) => assert!(matches!(error, IamError::NoSuchEntity(_)), "{error}"),
        }
    }
    let ending = format!("-{race}");
    let listed = listed(iam).await.into_iter().filter(|name| name.ends_with(&ending)).collect::<Vec<_>>();
    assert_eq!(listed, names.keys().map(|name| format!("{name}{ending}")).collect::<Vec<_>>());
    names
}

/// The answers of two calls, where the first is held behind a number of operations while the second runs;
/// `None` where the first has ended by then.
async fn race(nodes: &[Iam; 2], calls: [Call; 2], names: &str, operations: usize) -> Option<[Answer; 2]> {
    let gate = &nodes[0].inner.records.gate;
    let mut first = Box::pin(calls[0].run(nodes[0].clone(), names.to_owned()));
    let ended = gate.hold_after(operations, &mut first).await;
    let is_whole = ended.is_some();
    let second = calls[1].run(nodes[1].clone(), names.to_owned()).await;
    gate.open();
    let first = match ended {
        Some(first) => first,
        None => first.await,
    };
    (!is_whole).then_some([first, second])
}

/// Two calls have the answers, and leave the names, of one behind the other.
async fn are_as_in_a_row(setup: &[Call], pairs: &[[Call; 2]]) {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let nodes = [iam_of(&node, None), iam_of(&node, None)];
    let iam = &nodes[1];
    iam.create_group("g".to_owned(), "/".to_owned()).await.expect("created");
    for (at, &pair) in pairs.iter().enumerate() {
        for operations in 0.. {
            let names = format!("{at}-{operations}");
            for call in setup {
                assert_eq!(call.run(iam.clone(), names.clone()).await, Answer::Done, "{call:?}");
            }
            let mut ids = Vec::new();
            for name in NAMES {
                ids.extend(iam.user(&format!("{name}-{names}")).await.ok().map(|user| user.id));
            }
            let before = seen(iam, &names, &ids).await;
            let Some(answers) = race(&nodes, pair, &names, operations).await else { break };
            let after = seen(iam, &names, &ids).await;
            let is_order = |order: [usize; 2]| {
                let mut names = before.clone();
                let is_answer =
                    |&at: &usize| answers[at] == Answer::Again || pair[at].model(&mut names) == answers[at];
                order.iter().all(is_answer) && names == after
            };
            assert!(is_order([0, 1]) || is_order([1, 0]), "{pair:?} {operations}: {answers:?} {after:?}");
        }
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_rename_and_another_call_are_as_in_a_row() {
    let setup = [Call::Create("u"), Call::Create("w")];
    let rename = Call::Rename("u", "v");
    let others = [
        Call::Rename("w", "v"),
        Call::Rename("u", "x"),
        Call::Rename("v", "u"),
        Call::Rename("w", "u"),
        Call::Create("u"),
        Call::Create("v"),
        Call::Delete("u"),
        Call::Deny("u"),
        Call::Deny("v"),
        Call::AddKey("u"),
        Call::Join("u"),
        rename,
    ];
    are_as_in_a_row(&setup, &others.map(|other| [rename, other])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_first_rename_comes_between_is_as_in_a_row_with_it() {
    let setup = [Call::Create("u"), Call::Create("w")];
    let calls = [
        Call::Rename("w", "v"),
        Call::Create("v"),
        Call::Delete("u"),
        Call::Deny("u"),
        Call::AddKey("u"),
        Call::Join("u"),
    ];
    are_as_in_a_row(&setup, &calls.map(|call| [call, Call::Rename("u", "v")])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rename_away_from_a_second_name_and_another_call_are_as_in_a_row() {
    let setup = [Call::Create("x"), Call::Rename("x", "u"), Call::Create("w")];
    let away = Call::Rename("u", "v");
    let others = [Call::Rename("w", "v"), Call::Create("v"), Call::Create("u"), Call::Delete("u")];
    let away = others.map(|other| [away, other]);
    let home = Call::Rename("u", "x");
    let others = [
        Call::Rename("w", "x"),
        Call::Create("x"),
        Call::Create("u"),
        Call::Delete("u"),
        Call::Rename("u", "v"),
    ];
    let home = others.map(|other| [home, other]);
    are_as_in_a_row(&setup, &[away.as_slice(), home.as_slice()].concat()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_a_name_that_was_left_is_made_and_renamed_as_in_a_row() {
    let setup = [Call::Create("u"), Call::Rename("u", "v")];
    let make = Call::Create("u");
    let others = [Call::Rename("v", "u"), Call::Rename("v", "x"), Call::Delete("v"), Call::Delete("u"), make];
    are_as_in_a_row(&setup, &others.map(|other| [make, other])).await;
    let setup = [Call::Create("u"), Call::Rename("u", "v"), Call::Create("u")];
    let rename = Call::Rename("u", "x");
    let others = [Call::Rename("v", "u"), Call::Rename("v", "x"), Call::Delete("u"), Call::Deny("u")];
    are_as_in_a_row(&setup, &others.map(|other| [rename, other])).await;
}

/// Searches decide what may be deleted: they pass over no user that is renamed meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_finds_a_user_once_that_is_renamed_while_it_reads() {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let (iam, searching) = (iam_of(&node, None), iam_of(&node, None));
    iam.create_policy(policy_of("read")).await.expect("created");
    for name in ["b", "m", "y"] {
        iam.create_user(user_of(name)).await.expect("created");
    }
    iam.attach_policy(PolicyOwner::User("m"), "read").await.expect("attached");
    let gate = &searching.inner.records.gate;
    for (operations, (from, next)) in
        [("m", "z"), ("z", "a"), ("a", "z"), ("z", "m"), ("m", "a"), ("a", "m")].into_iter().enumerate()
    {
        let mut search = Box::pin(searching.entities_for_policy("read"));
        let ended = gate.hold_after(operations, &mut search).await;
        iam.update_user(from, to(next)).await.expect("renamed");
        gate.open();
        let (users, groups) = match ended {
            Some(found) => found,
            None => search.await,
        }
        .expect("searched");
        assert_eq!((users.len(), groups.len()), (1, 0), "{operations}");
    }
    node.close().await;
}

/// A call that read a group, or a policy, before it was deleted and made again takes nothing of the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_call_about_a_former_group_or_policy_takes_no_right_or_denial() {
    let directories = Directories::new(4).without_syncs();
    let node = directories.start().await;
    let (iam, late) = (iam_of(&node, None), iam_of(&node, None));
    let key = user_with_key(&iam, "ada").await;
    let (ada, gate) = (PolicyOwner::User("ada"), &late.inner.records.gate);
    let mut documents = 0;
    for operations in 1..4 {
        let name = format!("of-{operations}");
        iam.create_group(name.clone(), "/".to_owned()).await.expect("created");
        let mut add = Box::pin(late.add_user_to_group("ada", &name));
        let ended = gate.hold_after(operations, &mut add).await;
        if ended.is_none() && iam.delete_group(&name).await.is_ok() {
            iam.create_group(name.clone(), "/".to_owned()).await.expect("created");
            let group = PolicyOwner::Group(&name);
            iam.put_inline_policy(group, "p".to_owned(), DENY.to_owned()).await.expect("put");
            iam.add_user_to_group("ada", &name).await.expect("added");
            documents += 1;
        }
        gate.open();
        let _either = if ended.is_none() { add.await.err() } else { None };
        assert_eq!(judged_as(&iam, &key).await.1.len(), documents, "{name}");

        iam.create_policy(policy_of(&name)).await.expect("created");
        let mut attach = Box::pin(late.attach_policy(ada, name.as_str()));
        let ended = gate.hold_after(operations, &mut attach).await;
        if ended.is_none() && iam.delete_policy(&name).await.is_ok() {
            iam.create_policy(policy_of(&name)).await.expect("created");
            iam.attach_policy(ada, name.as_str()).await.expect("attached");
        }
        gate.open();
        let _either = if ended.is_none() { attach.await.err() } else { None };
        documents += 1;
        assert_eq!(judged_as(&iam, &key).await.1.len(), documents, "{name}");
    }
    assert!(documents >= 4, "{documents}");
    node.close().await;
}
