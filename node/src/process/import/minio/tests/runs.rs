//! Runs of an import: what a cut leaves, what another run goes on with, and what persons change between two.

use super::*;

/// Does a call to what is observed, as IAM does.
fn done(observed: &mut ObservedAccount, (action, parameters): &Call) {
    let get = |name: &str| {
        let found = parameters.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("{name} of {action}")).1.clone()
    };
    let parsed = |text: String| serde_json::from_str(&text).expect("JSON");
    let mark = || {
        let (key, value) = (get("Tags.member.1.Key"), get("Tags.member.1.Value"));
        let tag = Element::parse(&format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>"));
        Mark::of(&[tag.expect("an element")])
    };
    let (user, group) = (|| get("UserName").to_lowercase(), || get("GroupName").to_lowercase());
    match *action {
        "CreatePolicy" => {
            let document = parsed(get("PolicyDocument"));
            assert!(observed.policies.insert(get("PolicyName").to_lowercase(), document).is_none());
        }
        "CreateGroup" => {
            assert!(observed.groups.insert(group(), super::observed::ObservedGroup::default()).is_none());
        }
        "AttachGroupPolicy" => {
            observed.groups.get_mut(&group()).expect("there").policies.insert(get("PolicyArn"));
        }
        "CreateUser" => {
            let made = super::observed::ObservedUser {
                name: get("UserName"),
                path: get("Path"),
                mark: mark(),
                ..Default::default()
            };
            assert!(observed.users.insert(user(), made).is_none());
        }
        "PutUserPolicy" => {
            let (name, document) = (get("PolicyName"), parsed(get("PolicyDocument")));
            observed.users.get_mut(&user()).expect("there").inline.insert(name, document);
        }
        "AttachUserPolicy" => {
            observed.users.get_mut(&user()).expect("there").policies.insert(get("PolicyArn"));
        }
        "AddUserToGroup" => {
            observed.users.get_mut(&user()).expect("there").groups.insert(get("GroupName"));
            observed.groups.get_mut(&group()).expect("there").has_members = true;
        }
        "TagUser" => observed.users.get_mut(&user()).expect("there").mark = mark(),
        "UntagUser" => observed.users.get_mut(&user()).expect("there").mark = None,
        "ImportAccessKey" => {
            observed.users.get_mut(&user()).expect("there").keys.insert(get("AccessKeyId"));
        }
        other => panic!("{other}"),
    }
}

fn steps(wanted: &WantedAccount, observed: &ObservedAccount) -> Vec<Call> {
    let steps = plan(wanted, observed).into_iter().flat_map(|entity| match entity.verdict {
        Verdict::Make(steps) | Verdict::Finish(steps) => steps,
        Verdict::Equal => Vec::new(),
        other => panic!("{} {}: {other:?}", entity.what, entity.name),
    });
    steps.collect()
}

/// The verdict on the entity of a name, which no other one has.
fn verdict(wanted: &WantedAccount, observed: &ObservedAccount, name: &str) -> Verdict {
    let mut entities = plan(wanted, observed).into_iter();
    entities.find(|entity| entity.name == name).unwrap_or_else(|| panic!("{name}")).verdict
}

/// All that an import made.
fn imported(wanted: &WantedAccount) -> ObservedAccount {
    let mut observed = ObservedAccount::default();
    for call in &steps(wanted, &observed) {
        done(&mut observed, call);
    }
    observed
}

/// No key is there whose user has not all that is attached to it, and to its groups.
fn keys_have_no_more_rights(wanted: &WantedAccount, observed: &ObservedAccount) {
    for user in &wanted.users {
        let Some(found) = observed.users.get(&user.name.to_lowercase()) else { continue };
        if found.keys.is_empty() {
            continue;
        }
        let arns =
            |policies: &BTreeSet<String>| policies.iter().map(|name| arn(name)).collect::<BTreeSet<_>>();
        assert_eq!(found.policies, arns(&user.policies), "{}", user.name);
        assert_eq!(found.groups, user.groups, "{}", user.name);
        assert_eq!(found.inline.contains_key(OWN_POLICY), user.own_policy.is_some(), "{}", user.name);
        for group in wanted.groups.iter().filter(|group| user.groups.contains(&group.name)) {
            assert_eq!(observed.groups[&group.name].policies, arns(&group.policies), "{}", group.name);
        }
    }
}

#[test]
fn an_import_that_is_cut_at_any_call_gives_no_rights_and_goes_on() {
    let all = steps(&wanted(), &ObservedAccount::default());
    assert!(all.len() > 30, "{} calls", all.len());
    for cut in 0..=all.len() {
        let (mut wanted, mut observed, mut calls) = (wanted(), ObservedAccount::default(), cut);
        for call in &all[..cut] {
            done(&mut observed, call);
            keys_have_no_more_rights(&wanted, &observed);
        }
        // A key that may have been given, and deleted by a person, is not given again.
        if let Some(("ImportAccessKey", parameters)) = all.get(cut) {
            let name = &parameters[0].1;
            assert!(matches!(verdict(&wanted, &observed, name), Verdict::Differs(_)), "{name}");
            wanted.users.retain(|user| user.name != *name);
            calls += 2;
        }
        // Another process goes on.
        for call in &steps(&wanted, &observed) {
            done(&mut observed, call);
            keys_have_no_more_rights(&wanted, &observed);
            calls += 1;
        }
        assert_eq!(calls, all.len(), "cut at {cut}: nothing is done twice");
        assert_eq!(steps(&wanted, &observed), [], "cut at {cut}: it is all there");
    }
}

#[test]
fn what_differs_stays_and_who_needs_it_is_withheld() {
    let wanted = wanted();
    let mut observed = ObservedAccount::default();
    for call in &steps(&wanted, &ObservedAccount::default()) {
        done(&mut observed, call);
    }
    let verdicts = |observed: &ObservedAccount| {
        let entities = plan(&wanted, observed).into_iter();
        let other = entities.filter(|entity| entity.verdict != Verdict::Equal);
        other.map(|entity| (entity.name, entity.verdict)).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&observed), []);
    // An admin detached a policy behind the import.
    observed.users.get_mut("ada").expect("there").policies.clear();
    let found = verdicts(&observed);
    assert!(matches!(&found[..], [(name, Verdict::Differs(_))] if name == "ada"), "{found:?}");
    observed.groups.get_mut("devs").expect("there").policies.clear();
    let found = verdicts(&observed);
    let of = |name: &str| found.iter().find(|(known, _)| known == name).map(|(_, verdict)| verdict);
    assert!(matches!(of("devs"), Some(Verdict::Differs(_))), "{found:?}");
    assert!(matches!(of("eve"), Some(Verdict::Withheld(_))), "{found:?}");
    // A policy of the same name was there before.
    let mut before = ObservedAccount::default();
    before.policies.insert("home".to_owned(), json!({"Statement": []}));
    let found = verdicts(&before);
    let of = |name: &str| found.iter().find(|(known, _)| known == name).map(|(_, verdict)| verdict);
    assert!(matches!(of("home"), Some(Verdict::Differs(_))), "{found:?}");
    for withheld in ["devs", "ada", "eve"] {
        assert!(matches!(of(withheld), Some(Verdict::Withheld(_))), "{withheld}: {found:?}");
    }
    assert!(matches!(of("alone"), Some(Verdict::Make(_))), "{found:?}");
}

#[test]
fn a_key_that_was_deleted_stays_deleted() {
    let wanted = wanted();
    let mut observed = ObservedAccount::default();
    let all = steps(&wanted, &observed);
    for call in &all {
        done(&mut observed, call);
    }
    let of = |observed: &ObservedAccount, name: &str| {
        let entities = plan(&wanted, observed).into_iter();
        entities.filter(|entity| entity.name == name).map(|entity| entity.verdict).collect::<Vec<_>>()
    };
    let mut later = ObservedAccount::default();
    for call in &all {
        done(&mut later, call);
    }
    let ada = later.users.get_mut("ada").expect("there");
    assert!(ada.keys.remove("ada"));
    assert!(matches!(&of(&later, "ada")[..], [Verdict::Differs(why)] if why.contains("no such key")));
    // Detached policies do not come back either, nor those of a user of the account's own.
    later.users.get_mut("ada").expect("there").policies.clear();
    assert!(matches!(&of(&later, "ada")[..], [Verdict::Differs(_)]));
    // A run that was cut has left its mark: behind the key there is nothing but its end.
    observed.users.get_mut("ada").expect("there").mark = Some(Mark::Opening);
    let Some(Verdict::Finish(calls)) = of(&observed, "ada").pop() else { panic!("it goes on") };
    assert_eq!(calls.iter().map(|(action, _)| *action).collect::<Vec<_>>(), ["UntagUser"]);
}

#[test]
fn a_key_that_was_deleted_before_the_mark_went_stays_deleted() {
    let wanted = wanted();
    let mut observed = ObservedAccount::default();
    for call in &steps(&wanted, &observed) {
        done(&mut observed, call);
        if *call == import_key(user(&wanted, "ada")) {
            break;
        }
    }
    let ada = observed.users.get_mut("ada").expect("there");
    assert!(ada.mark.is_some() && ada.keys.remove("ada"));
    let found = verdict(&wanted, &observed, "ada");
    assert!(matches!(&found, Verdict::Differs(why) if why.contains("no such key")), "{found:?}");
}

#[test]
fn a_policy_that_was_detached_from_an_empty_group_stays_detached() {
    let wanted = wanted();
    let mut observed = imported(&wanted);
    for name in ["devs", "idle"] {
        let group = observed.groups.get_mut(name).expect("there");
        group.policies.clear();
        group.has_members = false;
    }
    observed.users.values_mut().for_each(|user| user.groups.clear());
    for name in ["devs", "idle"] {
        let found = verdict(&wanted, &observed, name);
        assert!(matches!(found, Verdict::Differs(_)), "{name}: {found:?}");
    }
    // A run that was cut among the groups has made none of their users.
    observed.users.remove("eve");
    assert!(matches!(verdict(&wanted, &observed, "idle"), Verdict::Finish(_)));
    assert!(matches!(verdict(&wanted, &observed, "devs"), Verdict::Differs(_)), "ada is there");
    observed.users.get_mut("ada").expect("there").mark = Some(Mark::UnderWay);
    assert!(matches!(verdict(&wanted, &observed, "devs"), Verdict::Finish(_)));
}

#[test]
fn a_policy_of_a_group_without_users_stays_detached() {
    let mut export = export();
    export.groups.get_mut("idle").expect("there").members = None;
    let wanted = WantedAccount::of(&export, None);
    let mut observed = imported(&wanted);
    observed.groups.get_mut("idle").expect("there").policies.clear();
    assert!(matches!(verdict(&wanted, &observed, "idle"), Verdict::Differs(_)));
    observed.users.clear();
    assert!(matches!(verdict(&wanted, &observed, "idle"), Verdict::Finish(_)));
}

#[test]
fn names_that_are_there_in_another_case_are_the_same() {
    let wanted = wanted();
    let mut observed = imported(&wanted);
    let arns = |names: [&str; 2]| -> BTreeSet<String> { names.map(arn).into() };
    let ada = observed.users.get_mut("ada").expect("there");
    (ada.policies, ada.groups) = (arns(["App", "NoDelete"]), set(&["Devs", "EMPTY"]));
    observed.groups.get_mut("devs").expect("there").policies = arns(["HOME", "noDelete"]);
    assert_eq!(steps(&wanted, &observed), []);
}
