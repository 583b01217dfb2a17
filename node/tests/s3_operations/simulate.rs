//! Simulations, the keys that policies ask for, and the account's details, through IAM's query API.

use super::*;
use crate::harness::iam::{IamAnswer, IamClient};
use crate::harness::users::AccessKey;

const ARN: &str = "arn:aws:iam::000000000001:";
const OWN: &str = r#"{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Sid": "Reads", "Effect": "Allow", "Action": "s3:GetObject",
      "Resource": "arn:aws:s3:::bucket/${aws:username}/*"
    },
    {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket",
     "Condition": {"StringLike": {"s3:prefix": "ada/*"}}}
  ]
}"#;
const OF_GROUP: &str =
    r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:DeleteObject","Resource":"*"}}"#;
const MANAGED: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::bucket/kept/*"}]}"#;
const OF_BUCKET: &str = r#"{"Version":"2012-10-17","Statement":[
  {"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::000000000001:user/ada"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/shared/*"},
  {"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/ada/secret"}]}"#;

/// A node with a bucket, root's client of IAM, and a key of the user ada, with a policy of her own, one of a
/// group and a managed one.
async fn a_user() -> (Node, Client, IamClient, AccessKey) {
    let (node, client) = a_bucket().await;
    let (root, users) = (node.iam_client(), node.users());
    let key = users.user("ada").await;
    let ada = ("UserName", "ada");
    root.done("PutUserPolicy", &[ada, ("PolicyName", "own"), ("PolicyDocument", OWN)]).await;
    root.done("CreateGroup", &[("GroupName", "g")]).await;
    let of_group = [("GroupName", "g"), ("PolicyName", "of_group"), ("PolicyDocument", OF_GROUP)];
    root.done("PutGroupPolicy", &of_group).await;
    root.done("AddUserToGroup", &[ada, ("GroupName", "g")]).await;
    let made = root.done("CreatePolicy", &[("PolicyName", "keeps"), ("PolicyDocument", MANAGED)]).await;
    let arn = made.text("Arn").expect("an ARN");
    root.done("AttachUserPolicy", &[ada, ("PolicyArn", arn)]).await;
    (node, client, root, key)
}

/// The texts of all elements of a name.
fn texts<'a>(answer: &'a IamAnswer, element: &str) -> Vec<&'a str> {
    let parts = answer.body.split(&format!("<{element}>")).skip(1).collect::<Vec<_>>();
    let end = format!("</{element}>");
    parts.into_iter().filter_map(|part| part.split_once(&end)).map(|(text, _)| text).collect()
}

/// Simulates actions of ada's on resources.
async fn simulate(
    root: &IamClient,
    actions: &[&str],
    resources: &[&str],
    others: &[(&str, &str)],
) -> IamAnswer {
    let names = |list: &str, values: &[&str]| -> Vec<(String, String)> {
        let numbered = (1..).zip(values);
        numbered.map(|(number, value)| (format!("{list}.member.{number}"), (*value).to_owned())).collect()
    };
    let mut all = names("ActionNames", actions);
    all.extend(names("ResourceArns", resources));
    let source = format!("{ARN}user/ada");
    let mut parameters = vec![("PolicySourceArn", source.as_str())];
    parameters.extend(all.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    parameters.extend_from_slice(others);
    root.call("SimulatePrincipalPolicy", &parameters).await
}

#[tokio::test]
async fn a_simulation_names_the_statements_that_decide() {
    let (_node, _client, root, _key) = a_user().await;
    let read = simulate(&root, &["s3:GetObject"], &["arn:aws:s3:::bucket/ada/a"], &[]).await;
    assert_eq!(read.status, 200, "{}", read.body);
    let statement = "<member><SourcePolicyId>user_ada_own</SourcePolicyId><SourcePolicyType>IAM Policy</SourcePolicyType>\
                     <StartPosition><Line>4</Line><Column>5</Column></StartPosition><EndPosition><Line>7</Line><Column>6\
                     </Column></EndPosition></member>";
    let expected = format!(
        "<EvaluationResults><member><EvalActionName>s3:GetObject</EvalActionName><EvalResourceName>\
         arn:aws:s3:::bucket/ada/a</EvalResourceName><EvalDecision>allowed</EvalDecision><MatchedStatements>{statement}\
         </MatchedStatements><MissingContextValues></MissingContextValues><ResourceSpecificResults><member>\
         <EvalResourceName>arn:aws:s3:::bucket/ada/a</EvalResourceName><EvalResourceDecision>allowed\
         </EvalResourceDecision><MatchedStatements>{statement}</MatchedStatements><MissingContextValues>\
         </MissingContextValues></member></ResourceSpecificResults></member></EvaluationResults><IsTruncated>false\
         </IsTruncated>"
    );
    assert!(read.body.contains(&expected), "{}", read.body);

    // The most restrictive decision is that of the action.
    let objects = ["arn:aws:s3:::bucket/a", "arn:aws:s3:::bucket/kept/a"];
    let deletes = simulate(&root, &["s3:DeleteObject"], &objects, &[]).await;
    assert_eq!(texts(&deletes, "EvalDecision"), ["explicitDeny"]);
    assert_eq!(texts(&deletes, "EvalResourceDecision"), ["allowed", "explicitDeny"]);
    assert_eq!(texts(&deletes, "SourcePolicyId"), ["keeps", "group_g_of_group", "keeps"]);
    let lists = simulate(&root, &["s3:ListBucket"], &["arn:aws:s3:::bucket"], &[]).await;
    assert_eq!(texts(&lists, "EvalDecision"), ["implicitDeny"]);
    assert_eq!(texts(&lists, "MissingContextValues")[0], "<member>s3:prefix</member>");
    let prefix = [
        ("ContextEntries.member.1.ContextKeyName", "S3:Prefix"),
        ("ContextEntries.member.1.ContextKeyType", "string"),
        ("ContextEntries.member.1.ContextKeyValues.member.1", "ada/x"),
    ];
    let lists = simulate(&root, &["s3:ListBucket"], &["arn:aws:s3:::bucket"], &prefix).await;
    assert_eq!(texts(&lists, "EvalDecision"), ["allowed"]);
    assert_eq!(texts(&lists, "Line")[0], "8");

    // Policies that are not in force yet, and all actions a page at a time.
    let more = [("PolicyInputList.member.1", OF_GROUP), ("MaxItems", "2")];
    let actions = ["s3:DeleteObject", "s3:GetObject", "iam:GetUser"];
    let first = simulate(&root, &actions, &[], &more).await;
    assert_eq!(texts(&first, "EvalActionName"), actions[..2]);
    assert_eq!(texts(&first, "SourcePolicyId"), ["group_g_of_group", "PolicyInputList.1"]);
    assert!(!first.body.contains("ResourceSpecificResults"), "{}", first.body);
    assert_eq!((first.text("IsTruncated"), first.text("Marker")), (Some("true"), Some("2")));
    let last = simulate(&root, &actions, &[], &[more[0], ("Marker", "2")]).await;
    assert_eq!(
        (texts(&last, "EvalActionName"), last.text("IsTruncated")),
        (vec!["iam:GetUser"], Some("false"))
    );
    assert_eq!(texts(&last, "EvalDecision"), ["implicitDeny"]);
}

#[tokio::test]
async fn requests_are_answered_as_simulations_say() {
    let (node, client, root, key) = a_user().await;
    client.put_bucket_policy().bucket(BUCKET).policy(OF_BUCKET).send().await.expect("a policy");
    let shown = client.get_bucket_policy().bucket(BUCKET).send().await.expect("a policy").policy;
    let policy = shown.expect("a policy");
    let ada = node.s3_with(&key);
    for name in ["ada/a", "ada/secret", "shared/a", "bob/a", "kept/a"] {
        client.put_object().bucket(BUCKET).key(name).body(vec![1].into()).send().await.expect("stored");
    }
    let mut decisions = Vec::new();
    for name in ["ada/a", "ada/secret", "shared/a", "bob/a", "kept/a"] {
        let arn = format!("arn:aws:s3:::{BUCKET}/{name}");
        let others = [("ResourcePolicy", policy.as_str())];
        let said = simulate(&root, &["s3:GetObject", "s3:DeleteObject"], &[&arn], &others).await;
        let said: Vec<_> = texts(&said, "EvalDecision").into_iter().map(str::to_owned).collect();
        let got = ada.sdk().get_object().bucket(BUCKET).key(name).send().await;
        assert_eq!(got.is_ok(), said[0] == "allowed", "GET {name}: {said:?}");
        let deleted = ada.sdk().delete_object().bucket(BUCKET).key(name).send().await;
        assert_eq!(deleted.is_ok(), said[1] == "allowed", "DELETE {name}: {said:?}");
        decisions.extend(said);
    }
    for decision in ["allowed", "explicitDeny", "implicitDeny"] {
        assert!(decisions.iter().any(|said| said == decision), "{decisions:?}");
    }
}

#[tokio::test]
async fn given_policies_are_simulated_for_a_caller_whom_the_call_describes() {
    let (_node, _client, root, _key) = a_user().await;
    let all = [
        ("PolicyInputList.member.1", OWN),
        ("ActionNames.member.1", "s3:getobject"),
        ("ResourceArns.member.1", "arn:aws:s3:::bucket/bob/a"),
    ];
    let of = async |others: &[(&'static str, &'static str)]| {
        root.done("SimulateCustomPolicy", &[&all[..], others].concat()).await
    };
    let unknown = of(&[]).await;
    assert_eq!(
        (unknown.text("EvalDecision"), unknown.text("EvalActionName")),
        (Some("implicitDeny"), Some("s3:getobject"))
    );
    assert_eq!(texts(&unknown, "MissingContextValues")[0], "<member>aws:username</member>");
    let named = of(&[
        ("ContextEntries.member.1.ContextKeyName", "aws:username"),
        ("ContextEntries.member.1.ContextKeyType", "string"),
        ("ContextEntries.member.1.ContextKeyValues.member.1", "bob"),
    ]);
    assert_eq!(named.await.text("EvalDecision"), Some("allowed"));
    let bob = ("CallerArn", "arn:aws:iam::000000000001:user/bob");
    assert_eq!(of(&[bob]).await.text("EvalDecision"), Some("allowed"));
    let ada = ("CallerArn", "arn:aws:iam::000000000001:user/ada");
    let shared = [
        ada,
        ("ResourcePolicy", OF_BUCKET),
        all[0],
        all[1],
        ("ResourceArns.member.1", "arn:aws:s3:::bucket/shared/a"),
    ];
    let shared = root.done("SimulateCustomPolicy", &shared).await;
    assert_eq!(shared.text("EvalDecision"), Some("allowed"));
    assert_eq!(
        (shared.text("SourcePolicyId"), shared.text("SourcePolicyType")),
        (Some("ResourcePolicy"), Some("Resource Policy"))
    );
    // Bob has ada's policies.
    let source = ("PolicySourceArn", "arn:aws:iam::000000000001:user/ada");
    let as_bob = root.done("SimulatePrincipalPolicy", &[source, bob, all[1], all[2]]).await;
    assert_eq!(as_bob.text("EvalDecision"), Some("allowed"));
    let group = ("PolicySourceArn", "arn:aws:iam::000000000001:group/g");
    let group =
        root.done("SimulatePrincipalPolicy", &[group, ("ActionNames.member.1", "s3:DeleteObject")]).await;
    assert_eq!(
        (group.text("EvalDecision"), group.text("SourcePolicyId")),
        (Some("allowed"), Some("group_g_of_group"))
    );

    let keys = root.done("GetContextKeysForCustomPolicy", &all[..1]).await;
    assert_eq!(texts(&keys, "member"), ["aws:username", "s3:prefix"]);
    let input = (
        "PolicyInputList.member.1",
        r#"{"Statement":{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}}"#,
    );
    let keys = root.done("GetContextKeysForPrincipalPolicy", &[source, input]).await;
    assert_eq!(texts(&keys, "member"), ["aws:SecureTransport", "aws:username", "s3:prefix"]);
}

#[tokio::test]
async fn what_cannot_be_simulated_is_refused() {
    let (_node, _client, root, _key) = a_user().await;
    let custom = ("PolicyInputList.member.1", OWN);
    let (action, resource) =
        (("ActionNames.member.1", "s3:GetObject"), ("ResourceArns.member.1", "arn:aws:s3:::bucket/a"));
    let caller = ("CallerArn", "arn:aws:iam::000000000001:user/ada");
    let long = format!("{OWN}{}", " ".repeat(128 << 10));
    for (parameters, code, words) in [
        (vec![custom], "ValidationError", "actionNames"),
        (vec![action], "ValidationError", "policyInputList"),
        (vec![custom, ("ActionNames.member.1", "s3:Get*")], "InvalidInput", "Invalid action name: s3:Get*"),
        (vec![custom, ("ActionNames.member.1", "s3:ReadObject")], "InvalidInput", "Invalid action name"),
        (vec![custom, ("ActionNames.member.1", "GetObject")], "InvalidInput", "Invalid action name"),
        (vec![custom, action, ("ResourceArns.member.1", "bucket/a")], "InvalidInput", "Invalid resource ARN"),
        (
            vec![("PolicyInputList.member.1", "{}"), action],
            "InvalidInput",
            "PolicyInputList.1: Syntax errors",
        ),
        (vec![("PolicyInputList.member.1", &long), action], "InvalidInput", "bytes together"),
        (
            vec![custom, action, resource, ("ResourcePolicy", OF_BUCKET)],
            "InvalidInput",
            "CallerArn is required",
        ),
        (vec![custom, action, caller, ("ResourcePolicy", OF_BUCKET)], "InvalidInput", "of one bucket"),
        (
            vec![custom, action, caller, resource, ("ResourcePolicy", "{}")],
            "InvalidInput",
            "ResourcePolicy: ",
        ),
        (
            vec![
                custom,
                action,
                caller,
                ("ResourceArns.member.1", "arn:aws:s3:::other/a"),
                ("ResourcePolicy", OF_BUCKET),
            ],
            "InvalidInput",
            "invalid resource",
        ),
        (
            vec![custom, action, ("CallerArn", "arn:aws:iam::000000000001:role/r")],
            "InvalidInput",
            "CallerArn: ",
        ),
        (vec![custom, action, ("ResourceOwner", "arn:aws:iam::2:root")], "InvalidInput", "ResourceOwner: "),
        (
            vec![custom, action, ("PermissionsBoundaryPolicyInputList.member.1", OWN)],
            "InvalidInput",
            "no permissions boundaries",
        ),
        (vec![custom, action, ("Marker", "1")], "ValidationError", "Invalid Marker"),
        (vec![custom, action, ("MaxItems", "0")], "ValidationError", "maxItems"),
        (
            vec![
                custom,
                action,
                ("ContextEntries.member.1.ContextKeyName", "aws:SourceIp"),
                ("ContextEntries.member.1.ContextKeyType", "ip"),
                ("ContextEntries.member.1.ContextKeyValues.member.1", "here"),
            ],
            "InvalidInput",
            "The value here of the context key aws:SourceIp is no ip.",
        ),
    ] {
        let answer = root.call("SimulateCustomPolicy", &parameters).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{parameters:?}: {}", answer.body);
        assert!(answer.body.contains(words), "{words}: {}", answer.body);
    }
}

#[tokio::test]
async fn simulations_take_a_permission_and_a_principal() {
    let (node, _client, root, key) = a_user().await;
    let custom = ("PolicyInputList.member.1", OWN);
    let action = ("ActionNames.member.1", "s3:GetObject");
    for (source, status, code) in [
        ("arn:aws:iam::000000000001:user/bob", 404, "NoSuchEntity"),
        ("arn:aws:iam::000000000001:user/team/ada", 404, "NoSuchEntity"),
        ("arn:aws:iam::000000000001:root", 400, "InvalidInput"),
        ("arn:aws:iam::000000000002:user/ada", 400, "InvalidInput"),
    ] {
        let refused = root.refused("SimulatePrincipalPolicy", &[("PolicySourceArn", source), action]).await;
        assert_eq!(refused, (status, code.to_owned()), "{source}");
    }

    // Each takes its permission, the simulation of a principal at its ARN.
    let ada = root.with_key(&key.id, &key.secret);
    let own = ("PolicySourceArn", "arn:aws:iam::000000000001:user/ada");
    let other = ("PolicySourceArn", "arn:aws:iam::000000000001:group/g");
    let denied = (403, "AccessDenied".to_owned());
    assert_eq!(ada.refused("SimulatePrincipalPolicy", &[own, action]).await, denied);
    assert_eq!(ada.refused("SimulateCustomPolicy", &[custom, action]).await, denied);
    assert_eq!(ada.refused("GetContextKeysForPrincipalPolicy", &[own]).await, denied);
    assert_eq!(ada.refused("GetAccountAuthorizationDetails", &[]).await, denied);
    let document = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:SimulatePrincipalPolicy","Resource":"arn:aws:iam::*:user/${aws:username}"}}"#;
    node.users().put_user_policy("ada", document).await;
    ada.done("SimulatePrincipalPolicy", &[own, action]).await;
    assert_eq!(ada.refused("SimulatePrincipalPolicy", &[other, action]).await, denied);
}

#[tokio::test]
async fn the_accounts_details_are_listed_a_page_at_a_time() {
    let (_node, _client, root, _key) = a_user().await;
    root.done("CreateUser", &[("UserName", "Bob"), ("Tags.member.1.Key", "k"), ("Tags.member.1.Value", "v")])
        .await;
    let whole = root.done("GetAccountAuthorizationDetails", &[]).await;
    assert_eq!(texts(&whole, "UserName"), ["ada", "Bob"]);
    assert_eq!(whole.text("GroupList"), Some("<member>g</member>"));
    let attached = "<AttachedManagedPolicies><member><PolicyName>keeps</PolicyName><PolicyArn>\
                    arn:aws:iam::000000000001:policy/keeps</PolicyArn></member></AttachedManagedPolicies>";
    assert!(whole.body.contains(attached), "{}", whole.body);
    assert_eq!(texts(&whole, "PolicyName"), ["own", "keeps", "of_group", "keeps"]);
    assert!(whole.text("PolicyDocument").is_some_and(|text| text.starts_with("%7B%0A%20%20%22Version")));
    assert_eq!((whole.text("AttachmentCount"), whole.text("VersionId")), (Some("1"), Some("v1")));
    assert_eq!((whole.text("RoleDetailList"), whole.text("IsTruncated")), (Some(""), Some("false")));
    assert_eq!((whole.text("Key"), whole.text("Value")), (Some("k"), Some("v")));

    let (mut names, mut marker) = (Vec::new(), None::<String>);
    loop {
        let mut parameters = vec![("MaxItems", "1")];
        parameters.extend(marker.as_deref().map(|marker| ("Marker", marker)));
        let page = root.done("GetAccountAuthorizationDetails", &parameters).await;
        let ids: Vec<_> = ["UserId", "GroupId", "PolicyId"].iter().flat_map(|id| texts(&page, id)).collect();
        assert!(ids.len() <= 1, "{}", page.body);
        names.extend(ids.into_iter().map(str::to_owned));
        match page.text("Marker") {
            Some(next) => marker = Some(next.to_owned()),
            None => break,
        }
    }
    let all: Vec<_> = ["UserId", "GroupId", "PolicyId"].iter().flat_map(|id| texts(&whole, id)).collect();
    assert_eq!(names, all);
    let filtered = [("Filter.member.1", "Group"), ("Filter.member.2", "Role")];
    let groups = root.done("GetAccountAuthorizationDetails", &filtered).await;
    assert_eq!((texts(&groups, "GroupName"), groups.text("UserId")), (vec!["g"], None));
    let refused = root.refused("GetAccountAuthorizationDetails", &[("Filter.member.1", "Key")]).await;
    assert_eq!(refused, (400, "ValidationError".to_owned()));
    let refused = root.refused("GetAccountAuthorizationDetails", &[("Marker", "ada")]).await;
    assert_eq!(refused, (400, "ValidationError".to_owned()));
}

/// Patterns that are compared with all of a text, as many as a policy has room for.
fn a_long_policy() -> String {
    let patterns: Vec<_> = (0..600).map(|number| format!(r#""*{number:03}?""#)).collect();
    format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow","Action":"s3:*","Resource":"*",
            "Condition":{{"StringLike":{{"aws:UserAgent":[{}]}}}}}}}}"#,
        patterns.join(",")
    )
}

#[tokio::test]
async fn a_simulation_that_takes_long_to_judge_has_shorter_pages_or_is_refused() {
    let (node, _client) = a_bucket().await;
    let root = node.iam_client();
    let (policy, value) = (a_long_policy(), "v".repeat(8 << 10));
    let names: Vec<String> = (1..=60).map(|number| format!("ActionNames.member.{number}")).collect();
    let actions = ["s3:GetObject", "s3:PutObject", "iam:GetUser"];
    let mut parameters: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(actions.into_iter().cycle()).collect();
    for number in ["PolicyInputList.member.1", "PolicyInputList.member.2", "PolicyInputList.member.3"] {
        parameters.push((number, &policy));
    }
    let plain = root.done("SimulateCustomPolicy", &parameters).await;
    assert_eq!((texts(&plain, "EvalActionName").len(), plain.text("IsTruncated")), (60, Some("false")));
    for (name, value) in [
        ("ContextEntries.member.1.ContextKeyName", "aws:UserAgent"),
        ("ContextEntries.member.1.ContextKeyType", "stringList"),
        ("ContextEntries.member.1.ContextKeyValues.member.1", &value),
        ("ContextEntries.member.1.ContextKeyValues.member.2", &value),
        ("ContextEntries.member.1.ContextKeyValues.member.3", &value),
        ("ContextEntries.member.1.ContextKeyValues.member.4", &value),
    ] {
        parameters.push((name, value));
    }
    let (mut judged, mut pages, mut marker) = (0, 0, None::<String>);
    loop {
        let mut page = parameters.clone();
        page.extend(marker.as_deref().map(|marker| ("Marker", marker)));
        let answer = root.done("SimulateCustomPolicy", &page).await;
        judged += texts(&answer, "EvalActionName").len();
        pages += 1;
        marker = answer.text("Marker").map(str::to_owned);
        if marker.is_none() {
            break;
        }
    }
    assert!(judged == 60 && pages > 1, "{judged} actions on {pages} pages");
    let resources: Vec<String> = (1..=150).map(|number| format!("ResourceArns.member.{number}")).collect();
    parameters.extend(resources.iter().map(|name| (name.as_str(), "arn:aws:s3:::bucket/key")));
    let (status, code) = root.refused("SimulateCustomPolicy", &parameters).await;
    assert_eq!((status, &*code), (400, "InvalidInput"));
}
