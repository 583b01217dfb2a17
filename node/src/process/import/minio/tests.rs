//! The export of a MinIO that `testdata` has: six users, three groups, five policies of its own, six
//! service accounts and five buckets, all with made-up secrets. The users that it becomes, and imports that
//! are cut at every call.

use std::collections::BTreeSet;
use std::io::Cursor;

use serde_json::{Value, json};

use super::document::Document;
use super::iam_export::IamExport;
use super::narrowed::narrowed;
use super::observed::ObservedAccount;
use super::plan::{Call, Verdict, arn, plan};
use super::report::{Outcome, Report};
use super::wanted::{OWN_POLICY, WantedAccount, WantedUser};
use super::*;

const IAM: &[u8] = include_bytes!("testdata/iam.zip");

fn export() -> IamExport {
    IamExport::read(archive::read(Cursor::new(IAM)).expect("a zip file")).expect("an export")
}

fn wanted() -> WantedAccount {
    WantedAccount::of(&export(), Some("rootmade"))
}

fn user<'a>(wanted: &'a WantedAccount, name: &str) -> &'a WantedUser {
    wanted.users.iter().find(|user| user.name == name).unwrap_or_else(|| panic!("{name}"))
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn own(user: &WantedUser) -> Value {
    serde_json::from_str(user.own_policy.as_deref().expect("a policy of its own")).expect("JSON")
}

fn document(statements: &Value) -> Document {
    Document::of(&json!({"Version": "2012-10-17", "Statement": statements})).expect("a policy")
}

fn allowing(actions: &Value, resources: &Value) -> Value {
    json!({"Effect": "Allow", "Action": actions, "Resource": resources})
}

#[test]
fn users_and_groups_keep_their_names_policies_and_secrets() {
    let wanted = wanted();
    let policies: Vec<&str> = wanted.policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(policies, ["app", "consoleAdmin", "home", "nodelete", "readonly", "readwrite"]);
    let groups: Vec<_> = wanted.groups.iter().map(|group| (group.name.as_str(), &group.policies)).collect();
    let (of_devs, none) = (set(&["home", "nodelete"]), set(&[]));
    assert_eq!(groups, [("devs", &of_devs), ("empty", &none), ("idle", &none)], "idle is disabled");
    let ada = user(&wanted, "ada");
    assert_eq!((ada.secret.as_str(), ada.is_active, ada.path), ("ada-secret-1", true, "/"));
    assert_eq!((&ada.policies, &ada.groups), (&set(&["app", "nodelete"]), &set(&["devs", "empty"])));
    assert_eq!(ada.own_policy, None);
    assert!(!user(&wanted, "off").is_active);
    assert_eq!(user(&wanted, "Bob.Smith@example.com").policies, set(&["readwrite"]));
    assert_eq!(user(&wanted, "eve").policies, set(&[]), "admin has nothing of S3");
    assert_eq!(user(&wanted, "alone").policies, set(&[]));
}

#[test]
fn service_accounts_have_their_parents_rights_or_what_both_allow() {
    let wanted = wanted();
    let inherited = user(&wanted, "ADASERVICEACCOUNT001");
    assert_eq!(inherited.path, "/service-accounts/");
    // The parent's group has a policy by the parent's name, which the key has not.
    assert_eq!((&inherited.policies, &inherited.groups), (&set(&[]), &set(&[])));
    let text = inherited.own_policy.as_deref().expect("a policy");
    assert!(text.contains("arn:aws:s3:::home/ada/*") && text.contains("\"s3:prefix\":[\"ada/*\"]"), "{text}");
    assert!(text.contains("\"Deny\"") && !text.contains("aws:username"), "{text}");
    let narrow = own(user(&wanted, "ADASERVICEACCOUNT002"));
    let statements = narrow["Statement"].as_array().expect("a list");
    assert_eq!(statements[0]["Effect"], "Deny", "its parent's");
    let allowed: Vec<_> = statements[1..].iter().map(|one| (&one["Action"], &one["Resource"])).collect();
    let expected = [
        (json!(["s3:GetObject"]), json!(["arn:aws:s3:::app/*"])),
        (json!(["s3:ListBucket"]), json!(["arn:aws:s3:::app"])),
    ];
    assert_eq!(allowed, expected.each_ref().map(|(actions, resources)| (actions, resources)));
    let whole = own(user(&wanted, "bobs-key"));
    assert_eq!(whole["Statement"].as_array().map(Vec::len), Some(1), "its parent may do all");
    let lease = user(&wanted, "bobs-lease");
    assert_eq!(lease.policies, set(&["readwrite"]));
    let expiry = json!({"DateGreaterThanEquals": {"aws:CurrentTime": "2027-06-01T00:00:00Z"}});
    assert_eq!(
        (&own(lease)["Statement"][0]["Effect"], &own(lease)["Statement"][0]["Condition"]),
        (&json!("Deny"), &expiry)
    );
    assert_eq!(own(user(&wanted, "roots-reader"))["Statement"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_left_out_is_named_with_its_reason() {
    let left_out = |root| {
        let wanted = WantedAccount::of(&export(), root);
        wanted
            .left_out
            .into_iter()
            .map(|left| format!("{} {}: {}", left.what, left.name, left.reason))
            .collect::<Vec<_>>()
    };
    let lines = left_out(Some("rootmade"));
    for expected in [
        "policy admin: nothing is left of it: admin:* is no action here",
        "part of policy app: admin:ServerInfo is no action here",
        "part of policy consoleAdmin: kms:* is no action here",
        "policy jwt: nothing is left of it: it has the variable ${jwt:preferred_username}, which has no such value here",
        "part of group idle: it is disabled: it is made without its policies",
        "user odd:name: the id of a key here has 3 to 64 of the characters a-z, A-Z, 0-9 and _+.@-",
        "service account roots-key: it has all rights of root, as no policy restricts it",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} in {lines:#?}");
    }
    assert!(!lines.iter().any(|line| line.contains("diagnostics")), "nothing has it");
    let unknown = left_out(None);
    let of_root = |line: &&String| line.contains("--root-user");
    assert_eq!(unknown.iter().filter(of_root).count(), 2, "{unknown:#?}");
}

#[test]
fn statements_say_here_what_they_said() {
    let bucket = document(&json!([allowing(&json!("s3:*"), &json!("arn:aws:s3:::app/*"))]));
    assert_eq!(bucket.statements[0].resources, ["arn:aws:s3:::app", "arn:aws:s3:::app/*"]);
    let deeper = document(&json!([allowing(&json!(["s3:GetObject"]), &json!(["arn:aws:s3:::app/a/*"]))]));
    assert_eq!(deeper.statements[0].resources, ["arn:aws:s3:::app/a/*"]);
    let star = document(&json!([allowing(&json!("*"), &json!("*"))]));
    assert_eq!(star.statements[0].actions, ["s3:*"], "a star of IAM's would make users");
    let refused = |statements: Value| Document::of(&json!({"Statement": statements})).expect_err("refused");
    let deny_all_but = json!([{"Effect": "Deny", "NotAction": "s3:Get*", "Resource": "arn:aws:s3:::a/*"}]);
    assert_eq!(document(&deny_all_but).statements[0].not_actions, ["s3:Get*"]);
    let allow_all_but = json!([{"Effect": "Allow", "NotAction": "s3:Get*", "Resource": "arn:aws:s3:::a/*"}]);
    assert!(!refused(allow_all_but).denies);
    // A policy that denies is taken whole or not at all.
    let by_claim = json!({"StringEquals": {"jwt:sub": "a"}});
    let deny = json!({"Effect": "Deny", "Action": "s3:*", "Resource": "*", "Condition": by_claim});
    assert!(refused(json!([allowing(&json!("s3:*"), &json!("*")), deny])).denies);
    let unknown = json!([{"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Principals": "*"}]);
    assert!(refused(unknown).reason.contains("Principals"));
    let own_action =
        document(&json!([allowing(&json!(["s3:ListenNotification", "s3:GetObject"]), &json!("*"))]));
    assert_eq!(own_action.statements[0].actions, ["s3:GetObject"]);
    assert_eq!(own_action.left_out, ["s3:ListenNotification is no action here"]);
}

#[test]
fn patterns_of_buckets_match_no_objects_of_others() {
    let actions = json!(["s3:GetObject", "s3:ListBucket"]);
    let split = document(&json!([allowing(&actions, &json!("arn:aws:s3:::tenant-*-pub/*"))]));
    let said: Vec<_> =
        split.statements.iter().map(|one| (one.actions.join(" "), one.resources.join(" "))).collect();
    let expected =
        [("s3:ListBucket", "arn:aws:s3:::tenant-*-pub"), ("s3:GetObject", "arn:aws:s3:::tenant-*-pub/*")];
    assert_eq!(said, expected.map(|(actions, resources)| (actions.to_owned(), resources.to_owned())));
    let all = document(&json!([allowing(&json!("s3:*"), &json!("arn:aws:s3:::app?x/*"))]));
    let [buckets, objects] = &all.statements[..] else { panic!("{all:?}") };
    assert!(
        buckets.actions.contains(&"s3:ListBucket".to_owned()) && buckets.resources == ["arn:aws:s3:::app?x"]
    );
    assert!(!buckets.actions.contains(&"s3:PutObject".to_owned()));
    assert!(
        objects.actions.contains(&"s3:PutObject".to_owned()) && objects.resources == ["arn:aws:s3:::app?x/*"]
    );
    assert!(all.check().is_ok(), "it may be given");
    // A pattern that matched no bucket lists none.
    let none = document(&json!([allowing(&actions, &json!("arn:aws:s3:::*-pub"))]));
    assert_eq!(none.statements.len(), 1);
    assert_eq!(none.statements[0].actions, ["s3:GetObject"]);
    let refused = |statement: Value| Document::of(&json!({"Statement": [statement]})).expect_err("refused");
    let but = json!({"Effect": "Deny", "Action": "s3:*", "NotResource": "arn:aws:s3:::tenant-*-pub/*"});
    assert!(refused(but).denies);
}

#[test]
fn a_denial_is_whole() {
    let denying = |actions: Value, resources: Value| {
        document(&json!([{"Effect": "Deny", "Action": actions, "Resource": resources}])).statements
    };
    for text in ["app/", "app/**", "app/*", "app"] {
        let listing = denying(json!("s3:ListBucket"), json!(format!("arn:aws:s3:::{text}")));
        assert_eq!(listing[0].resources, ["arn:aws:s3:::app"], "{text}");
    }
    let but = json!([{"Effect": "Deny", "Action": "s3:ListBucket", "NotResource": "arn:aws:s3:::app/"}]);
    assert_eq!(document(&but).statements[0].not_resources, ["arn:aws:s3:::app"]);
    let object = denying(json!("s3:GetObject"), json!("arn:aws:s3:::app/a"));
    assert_eq!(object[0].resources, ["arn:aws:s3:::app/a", "arn:aws:s3:::app/a/"]);
    let reads = denying(json!("s3:GetObjectVersion"), json!("arn:aws:s3:::app/*"));
    assert_eq!(reads[0].actions, ["s3:GetObject", "s3:GetObjectVersion"], "MinIO denies both");
    // A denial about nothing that is here denies nothing, and takes no user's key.
    let own = json!({"Statement": [{"Effect": "Deny", "Action": "admin:*"}]});
    assert!(!Document::of(&own).expect_err("nothing is left").denies);
    for condition in [
        json!({"StringEquals": {"aws:userid": "ada"}}),
        json!({"StringEquals": {"aws:principaltype": "User"}}),
    ] {
        let by_user = json!({"Effect": "Deny", "Action": "s3:*", "Resource": "*", "Condition": condition});
        let refusal = Document::of(&json!({"Statement": [by_user]})).expect_err("refused");
        assert!(refusal.denies, "{refusal:?}");
    }
    let by_variable = json!({"Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::${aws:userid}/*"}]});
    assert!(Document::of(&by_variable).expect_err("refused").denies);
}

fn account(export: &mut IamExport) -> &mut super::iam_export::ServiceAccount {
    export.service_accounts.get_mut("ADASERVICEACCOUNT002").expect("there")
}

#[test]
fn a_service_account_is_what_its_claims_say() {
    let reason = |change: &dyn Fn(&mut IamExport)| {
        let mut export = export();
        change(&mut export);
        let wanted = WantedAccount::of(&export, Some("rootmade"));
        wanted.left_out.into_iter().find(|left| left.name == "ADASERVICEACCOUNT002").map(|left| left.reason)
    };
    assert_eq!(reason(&|_| {}), None);
    // Without its policy it would have all rights of its parent.
    let without_policy = reason(&|export| account(export).policy = None);
    assert!(without_policy.is_some_and(|reason| reason.contains("inherited-policy")));
    assert!(reason(&|export| account(export).claims = None).is_some());
    let with_claim = reason(&|export| {
        let claims = account(export).claims.as_mut().expect("there");
        claims.insert("ldapUser".to_owned(), json!("uid=ada"));
    });
    assert!(with_claim.is_some_and(|reason| reason.contains("ldapUser")));
}

#[test]
fn roots_name_stands_in_the_policy_of_its_service_account() {
    let mut export = export();
    let deny = json!({"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::home/${aws:username}/*"});
    let own = json!({"Statement": [allowing(&json!("s3:GetObject"), &json!("*")), deny]});
    export.service_accounts.get_mut("roots-reader").expect("there").policy = Some(own);
    let wanted = WantedAccount::of(&export, Some("rootmade"));
    let text = user(&wanted, "roots-reader").own_policy.clone().expect("a policy");
    assert!(text.contains("arn:aws:s3:::home/rootmade/*"), "{text}");
    let by_name = json!({"StringEquals": {"aws:username": "rootmade"}});
    let deny = json!({"Effect": "Deny", "Action": "s3:*", "Resource": "*", "Condition": by_name});
    export.service_accounts.get_mut("roots-reader").expect("there").policy =
        Some(json!({"Statement": [deny]}));
    let wanted = WantedAccount::of(&export, Some("rootmade"));
    assert!(wanted.left_out.iter().any(|left| left.name == "roots-reader"));
    assert!(root_name("uid=ada,ou=people").is_err() && root_name("minioadmin").is_ok());
}

#[test]
fn a_policy_that_is_not_taken_and_may_deny_takes_its_users_with_it() {
    let mut export = export();
    let deny = json!({"Effect": "Deny", "Action": "s3:*", "Resource": "*", "Condition": {"Null": {"ldap:user": "false"}}});
    export.policies.insert("nodelete".to_owned(), json!({"Statement": [deny]}));
    let wanted = WantedAccount::of(&export, Some("rootmade"));
    let names: Vec<&str> = wanted.users.iter().map(|user| user.name.as_str()).collect();
    for gone in ["ada", "eve", "ADASERVICEACCOUNT001", "ADASERVICEACCOUNT002"] {
        assert!(!names.contains(&gone), "{gone} in {names:?}");
        let reason = wanted.left_out.iter().find(|left| left.name == gone).map(|left| &left.reason);
        assert!(reason.is_some_and(|reason| reason.contains("nodelete, which denies")), "{gone}: {reason:?}");
    }
    assert!(names.contains(&"Bob.Smith@example.com"));
    assert!(!wanted.groups.iter().any(|group| group.name == "devs"));
}

#[test]
fn what_no_statement_says_is_not_narrowed() {
    let of = |action: &str, resource: &str| document(&json!([allowing(&json!(action), &json!(resource))]));
    let wide = of("s3:Get*", "arn:aws:s3:::a*");
    assert_eq!(narrowed(&wide, &[&of("s3:*Object", "*")]), None);
    let narrow = narrowed(&wide, &[&of("s3:GetObject", "arn:aws:s3:::ab")]).expect("said");
    assert_eq!(
        (&*narrow.statements[0].actions, &*narrow.statements[0].resources),
        (&["s3:GetObject".to_owned()][..], &["arn:aws:s3:::ab".to_owned()][..])
    );
    let nothing = narrowed(&wide, &[&of("s3:PutObject", "arn:aws:s3:::ab")]).expect("said");
    assert!(nothing.statements.is_empty());
    let with = |prefix: &str| {
        let condition = json!({"StringLike": {"s3:prefix": prefix}});
        document(
            &json!([{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*", "Condition": condition}]),
        )
    };
    assert_eq!(narrowed(&with("a/*"), &[&with("b/*")]), None, "no one condition says both");
    assert_eq!(
        narrowed(&with("a/*"), &[&with("a/*")]).map(|both| both.statements),
        Some(with("a/*").statements)
    );
}

/// Does a call to what is observed, as IAM does.
fn done(observed: &mut ObservedAccount, (action, parameters): &Call) {
    let get = |name: &str| {
        let found = parameters.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("{name} of {action}")).1.clone()
    };
    let parsed = |text: String| serde_json::from_str(&text).expect("JSON");
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
                is_marked: get("Tags.member.1.Key") == super::observed::MARK,
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
        "UntagUser" => observed.users.get_mut(&user()).expect("there").is_marked = false,
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
    let wanted = wanted();
    let all = steps(&wanted, &ObservedAccount::default()).len();
    assert!(all > 30, "{all} calls");
    for cut in 0..=all {
        let mut observed = ObservedAccount::default();
        let mut calls = 0;
        for call in steps(&wanted, &observed).iter().take(cut) {
            done(&mut observed, call);
            keys_have_no_more_rights(&wanted, &observed);
            calls += 1;
        }
        // Another process goes on.
        for call in &steps(&wanted, &observed) {
            done(&mut observed, call);
            keys_have_no_more_rights(&wanted, &observed);
            calls += 1;
        }
        assert_eq!(calls, all, "cut at {cut}: nothing is done twice");
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
    observed.users.get_mut("ada").expect("there").is_marked = true;
    let Some(Verdict::Finish(calls)) = of(&observed, "ada").pop() else { panic!("it goes on") };
    assert_eq!(calls.iter().map(|(action, _)| *action).collect::<Vec<_>>(), ["UntagUser"]);
}

#[test]
fn a_report_has_a_line_for_each_and_its_own_exit_code() {
    let mut report = Report::new(true);
    report.add(Outcome::Made, "user", "ada", "");
    assert_eq!(report.exit(), Exit::Done);
    report.add(Outcome::LeftOut, "user", "odd\n", "no \"name\"\nmade       user root");
    assert_eq!(report.exit(), Exit::InPart);
    let second = "left out   user odd\\n: no \"name\"\\nmade       user root";
    assert_eq!(report.text(), format!("made       user ada\n{second}\nmade 1, left out 1\n"));
    report.add(Outcome::Failed, "user", "eve", &"why".repeat(1_000));
    assert_eq!(report.exit(), Exit::Failed);
    assert!(report.text().len() < 1_000, "a reason is not longer than a few lines");
}

#[test]
fn what_is_no_export_is_refused() {
    assert!(archive::read(Cursor::new(b"PK no")).is_err());
    assert!(archive::read(Cursor::new(&IAM[..IAM.len() - 30])).is_err());
    let files = |text: &str| [("iam-assets/users.json".to_owned(), text.as_bytes().to_vec())].into();
    assert!(IamExport::read(files("[]")).is_err());
    assert!(IamExport::read(files("null")).is_ok_and(|export| export.users.is_empty()));
    assert!(IamExport::read(archive::read(Cursor::new(BUCKETS)).expect("a zip file")).is_err());
    // No error has a text of the file: a secret may stand where another one is expected.
    for text in [
        r#"{"ada": {"secretKey": 1234567890123, "status": "enabled"}}"#,
        r#"{"ada": "ada-secret-1"}"#,
        r#"{"ada": {"secretKey": "ada-secret-1", "status": {"ada-secret-1": 1}}}"#,
        r#"["ada-secret-1"#,
    ] {
        let error = IamExport::read(files(text)).expect_err("malformed");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("secret-1") && !shown.contains("1234567890123"), "{shown}");
        assert!(error.to_string().starts_with("iam-assets/users.json: line 1, column "), "{error}");
    }
    let unknown =
        IamExport::read(files(r#"{"ada": {"secretKey": "ada-secret-1", "status": "enabled", "new": 1}}"#));
    let wanted = WantedAccount::of(&unknown.expect("an export"), None);
    assert_eq!(wanted.left_out[0].reason, "new is not known");
    assert_eq!(wanted.users.len(), 1);
}

const BUCKETS: &[u8] = include_bytes!("testdata/buckets.zip");

#[test]
fn buckets_keep_tags_and_policies_and_the_rest_is_named() {
    let files = archive::read(Cursor::new(BUCKETS)).expect("a zip file");
    let (buckets, left_out) = buckets::wanted(&files);
    let names: Vec<&str> = buckets.iter().map(|bucket| bucket.name.as_str()).collect();
    assert_eq!(names, ["app", "home", "locked", "plain", "public"]);
    let counts: Vec<usize> = buckets.iter().map(|bucket| bucket.parts.len()).collect();
    assert_eq!(counts, [2, 0, 0, 0, 1]);
    let lines: Vec<_> =
        left_out.iter().map(|left| format!("{} {}: {}", left.what, left.name, left.reason)).collect();
    let expected = [
        "part of bucket app: lifecycle.xml: objects do not expire here",
        "part of bucket home: versioning.xml: objects have no versions here: Enabled",
        "part of bucket locked: object-lock.xml: objects cannot be locked here",
        "part of bucket locked: versioning.xml: objects have no versions here: Enabled",
    ];
    assert_eq!(lines[..4], expected);
    assert!(
        lines.len() == 5
            && lines[4].starts_with("part of bucket plain: quota.json: buckets have no quota here"),
        "{lines:?}"
    );
}

#[test]
fn a_policy_of_a_bucket_is_about_everyone_or_left_out() {
    let of = |statement: Value| {
        let text = json!({"Version": "2012-10-17", "Statement": [statement]}).to_string();
        let (buckets, left_out) =
            buckets::wanted(&[("app/policy.json".to_owned(), text.into_bytes())].into());
        let is_taken = !buckets[0].parts.is_empty();
        (is_taken, left_out.into_iter().map(|left| left.reason).collect::<Vec<_>>().join("; "))
    };
    let with = |effect: &str, principal: Value, action: &str| json!({"Effect": effect, "Principal": principal, "Action": [action], "Resource": ["arn:aws:s3:::app/*"]});
    assert_eq!(of(with("Allow", json!({"AWS": ["*"]}), "s3:GetObject")), (true, String::new()));
    assert_eq!(of(with("Allow", json!({"AWS": ["*", "ada"]}), "s3:GetObject")), (true, String::new()));
    for everyone in [json!("*"), json!({"AWS": ["x", "*"]})] {
        assert_eq!(of(with("Deny", everyone, "s3:DeleteObject")), (true, String::new()));
    }
    let (is_taken, reason) = of(with("Allow", json!({"AWS": ["ada"]}), "s3:GetObject"));
    assert!(!is_taken && reason.contains("others than everyone"), "{reason}");
    let (is_taken, reason) = of(with("Allow", json!("*"), "s3:ListenNotification"));
    assert!(!is_taken && reason.contains("s3:ListenNotification is no action here"), "{reason}");
    // A policy that denies is taken whole, or no statement is.
    let mut other = with("Deny", json!({"AWS": ["?"]}), "s3:GetObject");
    let not_principal = json!({"AWS": ["ada"]});
    for _ in 0..2 {
        let statements = json!([with("Allow", json!("*"), "s3:GetObject"), other]);
        let text = json!({"Version": "2012-10-17", "Statement": statements}).to_string();
        let (buckets, left_out) =
            buckets::wanted(&[("app/policy.json".to_owned(), text.into_bytes())].into());
        assert!(
            buckets[0].parts.is_empty() && left_out[0].reason.contains("others than everyone"),
            "{left_out:?}"
        );
        other = with("Deny", Value::Null, "s3:GetObject");
        other["NotPrincipal"] = not_principal.clone();
    }
}

#[test]
fn a_policy_of_a_bucket_opens_no_more_than_it_did() {
    let statement =
        json!({"Effect": "Allow", "Principal": "*", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::app/*"]});
    let text = json!({"Version": "2012-10-17", "Statement": [statement]}).to_string();
    let (buckets, _) = buckets::wanted(&[("app/policy.json".to_owned(), text.into_bytes())].into());
    let Some(buckets::Part::Policy { text, .. }) = buckets[0].parts.first() else {
        panic!("it has a policy")
    };
    // MinIO asks a bucket's policy for the bucket's name: this one lists nothing.
    let taken: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(taken["Statement"][0]["Resource"], json!(["arn:aws:s3:::app/*"]));
}
