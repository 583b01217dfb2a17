//! The export of a MinIO that `testdata` has: six users, three groups, five policies of its own, six
//! service accounts and five buckets, all with made-up secrets. The users that it becomes, and imports that
//! are cut at every call.

mod runs;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::document::Document;
use super::iam_export::IamExport;
use super::narrowed::narrowed;
use super::observed::{Mark, ObservedAccount};
use super::plan::{Call, Verdict, arn, plan};
use super::report::{Outcome, Report};
use super::wanted::{LeftOut, OWN_POLICY, WantedAccount, WantedUser};
use super::*;

const IAM: &[u8] = include_bytes!("../testdata/iam.zip");

fn export() -> IamExport {
    IamExport::read(archive::read(IAM).expect("a zip file")).expect("an export")
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
    let (of_devs, none, of_idle) = (set(&["home", "nodelete"]), set(&[]), set(&["readonly"]));
    assert_eq!(groups, [("devs", &of_devs), ("empty", &none), ("idle", &of_idle)]);
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
fn no_key_in_a_disabled_group_is_active() {
    let active = |wanted: &WantedAccount, names: [&str; 3]| names.map(|name| user(wanted, name).is_active);
    let others = ["eve", "Bob.Smith@example.com", "bobs-key"];
    let of_ada = ["ada", "ADASERVICEACCOUNT001", "ADASERVICEACCOUNT002"];
    // MinIO gives eve nothing, as one of her groups is disabled.
    let wanted = wanted();
    assert_eq!(active(&wanted, others), [false, true, true]);
    assert_eq!(active(&wanted, of_ada), [true; 3]);
    assert_eq!(user(&wanted, "eve").groups, set(&["devs", "idle"]));
    assert!(import_key(user(&wanted, "eve")).1.contains(&("Status", "Inactive".to_owned())));
    let mut export = export();
    export.groups.get_mut("idle").expect("there").members = Some(vec!["ada".to_owned()]);
    let wanted = WantedAccount::of(&export, Some("rootmade"));
    assert_eq!(active(&wanted, others), [true; 3]);
    assert_eq!(active(&wanted, of_ada), [false; 3], "with its service accounts");
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
        "part of group idle: it is disabled: the keys of its members are inactive",
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

/// MinIO asks the plain action also of a request that names a version, and the store asks the one on
/// versions.
#[test]
fn rights_to_versions_go_with_those_to_objects() {
    let of = |effect: &str, key: &str, actions: Value| {
        let statement = json!({"Effect": effect, key: actions, "Resource": "arn:aws:s3:::app/*"});
        Document::of(&json!({"Statement": [statement]}))
    };
    let denied =
        of("Deny", "Action", json!(["s3:GetObject", "s3:DeleteObject", "s3:*Tagging"])).expect("taken");
    assert_eq!(
        denied.statements.iter().flat_map(|statement| statement.actions.clone()).collect::<BTreeSet<_>>(),
        set(&[
            "s3:*Tagging",
            "s3:DeleteObject",
            "s3:DeleteObjectVersion",
            "s3:GetObject",
            "s3:GetObjectVersion"
        ])
    );
    let lone = of("Allow", "Action", json!(["s3:PutObject", "s3:DeleteObjectVersion", "s3:*VersionTagging"]));
    let allowed = lone.expect("taken");
    assert_eq!(allowed.statements[0].actions, ["s3:PutObject"]);
    assert_eq!(allowed.left_out.len(), 2, "{:?}", allowed.left_out);
    let both = of("Allow", "Action", json!(["s3:DeleteObject", "s3:DeleteObjectVersion"])).expect("taken");
    assert_eq!(both.statements[0].actions, ["s3:DeleteObject", "s3:DeleteObjectVersion"]);
    let all_but =
        of("Deny", "NotAction", json!(["s3:PutObject", "s3:GetObjectVersionTagging"])).expect("taken");
    let named = all_but.statements.iter().flat_map(|statement| statement.not_actions.clone());
    assert_eq!(named.collect::<BTreeSet<_>>(), set(&["s3:PutObject"]));
}

#[test]
fn a_denial_with_an_action_of_minio_itself_is_about_all_resources() {
    for actions in [json!("*"), json!(["admin:ServerInfo", "s3:GetObject"])] {
        let denial = json!([{"Effect": "Deny", "Action": actions, "Resource": "arn:aws:s3:::secret/*"}]);
        assert_eq!(document(&denial).statements[0].resources, ["*"], "{actions}");
        let but = json!([{"Effect": "Deny", "Action": actions, "NotResource": "arn:aws:s3:::secret/*"}]);
        let document = document(&but);
        let denied = &document.statements[0];
        assert_eq!(
            (denied.resources.join(" "), denied.not_resources.len()),
            ("*".to_owned(), 0),
            "{actions}"
        );
    }
    // An export has the resource * as its kind and its pattern.
    assert_eq!(
        document(&json!([allowing(&json!("s3:GetObject"), &json!(["**"]))])).statements[0].resources,
        ["*"]
    );
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
    // MinIO gives it the policies of its own groups, too.
    let in_group = |name: &str| {
        let groups = Some(vec![name.to_owned()]);
        reason(&|export| account(export).groups.clone_from(&groups))
    };
    assert_eq!(in_group("devs"), None);
    assert!(in_group("idle").is_some_and(|reason| reason.contains("in the group idle")));
    let expiring = |seconds: Value| {
        reason(&|export| {
            account(export).expiration = Some("2027-06-01T00:00:00Z".to_owned());
            account(export).claims.as_mut().expect("there").insert("exp".to_owned(), seconds.clone());
        })
    };
    assert_eq!([json!(0), json!(1_811_808_000)].map(&expiring), [None, None]);
    for other in [json!(1_811_808_001), json!("never"), Value::Null] {
        assert!(expiring(other).is_some_and(|reason| reason.contains("exp")));
    }
}

#[test]
fn a_key_that_never_expires_has_no_denial() {
    for (expiration, has_denial) in [
        ("0001-01-01T00:00:00Z", false),
        ("1970-01-01T00:00:00Z", false),
        ("1970-01-01T00:00:00+05:00", true),
        ("2027-06-01T00:00:00Z", true),
    ] {
        let mut export = export();
        export.service_accounts.get_mut("bobs-lease").expect("there").expiration =
            Some(expiration.to_owned());
        let wanted = WantedAccount::of(&export, None);
        let found = wanted.users.iter().find(|user| user.name == "bobs-lease");
        // A key whose expiration is malformed may be left out.
        assert_eq!(found.is_none_or(|user| user.own_policy.is_some()), has_denial, "{expiration}");
    }
}

#[test]
fn a_user_that_has_the_policies_of_an_sts_user_is_left_out() {
    let mut export = export();
    for name in ["alone", "ada"] {
        let mapping = serde_json::from_value(json!({"policy": "readwrite"})).expect("a mapping");
        export.sts_policies.insert(name.to_owned(), mapping);
    }
    let wanted = WantedAccount::of(&export, None);
    let is_taken = |name: &str| wanted.users.iter().any(|user| user.name == name);
    assert!(is_taken("ada") && !is_taken("alone"), "ada has policies of her own");
    let is_named = |left: &LeftOut| left.what == "user" && left.name == "alone";
    assert!(wanted.left_out.iter().any(is_named), "{:?}", wanted.left_out);
}

#[test]
fn a_name_that_differs_in_case_alone_is_left_out() {
    let mut export = export();
    let other = json!({"secretKey": "eve-secret-3", "status": "enabled"});
    export.users.insert("EVE".to_owned(), serde_json::from_value(other).expect("a user"));
    let wanted = WantedAccount::of(&export, None);
    let left = wanted.left_out.iter().find(|left| left.name == "eve").expect("left out");
    assert_eq!(left.reason, "its name is EVE in another case");
}

#[test]
fn what_is_too_long_is_refused_before_it_is_worked_through() {
    let buckets = |count: usize| (0..count).map(|number| format!("arn:aws:s3:::bucket-{number}/*"));
    let refusal = |statement: Value| Document::of(&json!({"Statement": [statement]})).expect_err("refused");
    let mut long = allowing(&json!("s3:GetObject"), &json!(buckets(4_000).collect::<Vec<_>>()));
    assert_eq!(refusal(long.clone()).reason, "it has more than 65536 bytes");
    assert!(!refusal(long.clone()).denies);
    long["Effect"] = json!("Deny");
    assert!(refusal(long).denies);
    let many = allowing(&json!("s3:*"), &json!(buckets(1_600).collect::<Vec<_>>()));
    assert!(refusal(many).reason.contains("more than 1500 resources"));
    let stars = allowing(&json!("s3:*"), &json!(format!("arn:aws:s3:::a{}", "*".repeat(2_000))));
    assert!(refusal(stars).reason.contains("more than 2000 bytes"));
    // A central directory is counted before it is read.
    let read = archive::read(&b"PK\x01\x02".repeat(100_001));
    assert!(matches!(read, Err(ArchiveError::Entries)), "{read:?}");
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

#[test]
fn a_report_has_a_line_for_each_and_its_own_exit_code() {
    let mut out = Vec::new();
    let mut report = Report::new(true, &mut out);
    report.add(Outcome::Made, "user", "ada", "");
    assert_eq!(report.exit(), Exit::Done);
    report.add(Outcome::LeftOut, "user", "odd\n", "no \"name\"\nmade       user root");
    assert_eq!(report.exit(), Exit::InPart);
    report.end();
    let second = "left out   user odd\\n: no \"name\"\\nmade       user root";
    let text = String::from_utf8(out).expect("a text");
    assert_eq!(text, format!("made       user ada\n{second}\nmade 1, left out 1\n"));
    let mut out = Vec::new();
    let mut report = Report::new(true, &mut out);
    report.add(Outcome::Failed, "user", "eve", &"why".repeat(1_000));
    assert_eq!(report.exit(), Exit::Failed);
    assert!(out.len() < 1_000, "a reason is not longer than a few lines");
}

#[test]
fn what_is_no_export_is_refused() {
    assert!(archive::read(b"PK no").is_err());
    assert!(archive::read(&IAM[..IAM.len() - 30]).is_err());
    let files = |text: &str| [("iam-assets/users.json".to_owned(), text.as_bytes().to_vec())].into();
    assert!(IamExport::read(files("[]")).is_err());
    assert!(IamExport::read(files("null")).is_ok_and(|export| export.users.is_empty()));
    assert!(IamExport::read(archive::read(BUCKETS).expect("a zip file")).is_err());
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

const BUCKETS: &[u8] = include_bytes!("../testdata/buckets.zip");

#[test]
fn buckets_keep_tags_and_policies_and_the_rest_is_named() {
    let files = archive::read(BUCKETS).expect("a zip file");
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

#[test]
fn a_policy_of_a_bucket_that_was_deleted_before_the_mark_went_stays_deleted() {
    let policy = buckets::Part::Policy { text: "{}".to_owned(), is_public: true };
    let (tags, cors) = (buckets::Part::Tags("<t/>".to_owned()), buckets::Part::Cors("<c/>".to_owned()));
    let lines = |due: &[&buckets::Part]| {
        let requests = buckets::finishing("app", due).into_iter();
        requests.map(|request| format!("{} {}", request.method(), request.uri())).collect::<Vec<_>>()
    };
    let (due, deleted) = buckets::due(vec![&policy, &tags, &cors], Some(Mark::UnderWay));
    let (mark, block) = ("PUT /app?tagging", "DELETE /app?publicAccessBlock");
    assert_eq!(lines(&due), ["PUT /app?cors", mark, block, "PUT /app?policy", "PUT /app?tagging"]);
    assert!(deleted.is_empty());
    let marking = buckets::finishing("app", &due).swap_remove(1).into_body();
    let marking = Element::parse(std::str::from_utf8(&marking).expect("text")).expect("an element");
    assert_eq!(Mark::of(marking.members("TagSet")), Some(Mark::Opening));
    let (due, deleted) = buckets::due(vec![&policy, &tags, &cors], Some(Mark::Opening));
    assert_eq!((due, deleted), (vec![&tags], vec![&policy, &cors]));
    assert_eq!(lines(&[]), ["DELETE /app?tagging"], "the mark ends");
}

#[test]
fn a_tag_that_would_be_the_mark_is_left_out() {
    let text = "<Tagging><TagSet><Tag><Key>sherd-import</Key><Value>a</Value></Tag></TagSet></Tagging>";
    let files = [("app/tagging.xml".to_owned(), text.as_bytes().to_vec())].into();
    let (buckets, left_out) = buckets::wanted(&files);
    assert!(buckets[0].parts.is_empty());
    assert_eq!(left_out[0].reason, "tagging.xml: a tag sherd-import is the mark of an import here");
}
