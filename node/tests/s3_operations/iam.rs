//! IAM's query API on a node: what its actions do, each code with which it refuses, and who may.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::data::Body;
use crate::harness::iam::{IamClient, form};
use crate::harness::{Node, empty, node};

const READ_ALL: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}]}"#;
/// A document of the version before the one that managed policies have to have.
const OLD: &str =
    r#"{"Version":"2008-10-17","Statement":[{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}]}"#;
const ARN: &str = "arn:aws:iam::000000000001:";

async fn a_node() -> (Node, IamClient) {
    let node = node().await;
    let root = node.iam_client();
    (node, root)
}

/// Makes a user with a key, and a client with it.
async fn a_user(root: &IamClient, name: &str) -> IamClient {
    root.done("CreateUser", &[("UserName", name)]).await;
    let key = root.done("CreateAccessKey", &[("UserName", name)]).await;
    root.with_key(key.text("AccessKeyId").expect("an id"), key.text("SecretAccessKey").expect("a secret"))
}

fn refusal(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn a_user_has_keys_policies_and_groups_from_its_making_to_its_end() {
    let (_node, root) = a_node().await;
    let made = root
        .done(
            "CreateUser",
            &[
                ("UserName", "ada"),
                ("Path", "/team/"),
                ("Tags.member.1.Key", "a"),
                ("Tags.member.1.Value", "b@c"),
            ],
        )
        .await;
    assert!(
        made.body.starts_with("<CreateUserResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">")
    );
    assert_eq!(made.text("Arn"), Some(&*format!("{ARN}user/team/ada")));
    assert_eq!((made.text("Key"), made.text("Value")), (Some("a"), Some("b@c")));
    assert!(made.text("UserId").is_some_and(|id| id.starts_with("AIDA")));
    let ada = [("UserName", "ada")];

    let key = root.done("CreateAccessKey", &ada).await;
    let (id, secret) =
        (key.text("AccessKeyId").expect("an id"), key.text("SecretAccessKey").expect("a secret"));
    let listed = root.done("ListAccessKeys", &ada).await;
    assert_eq!((listed.text("AccessKeyId"), listed.text("Status")), (Some(id), Some("Active")));
    assert!(!listed.body.contains(secret), "a secret is given once");
    let user = root.with_key(id, secret);
    let me = user.caller_identity().await;
    assert_eq!((me.status, me.text("Arn")), (200, Some(&*format!("{ARN}user/team/ada"))));
    let last = root.done("GetAccessKeyLastUsed", &[("AccessKeyId", id)]).await;
    assert_eq!(last.text("UserName"), Some("ada"));

    root.done("PutUserPolicy", &[ada[0], ("PolicyName", "own"), ("PolicyDocument", READ_ALL)]).await;
    let policy = root.done("GetUserPolicy", &[ada[0], ("PolicyName", "own")]).await;
    let document = policy.text("PolicyDocument").expect("a document");
    assert!(document.starts_with("%7B%22Version%22%3A%222012-10-17%22"), "{document}");
    assert_eq!(root.done("ListUserPolicies", &ada).await.text("member"), Some("own"));

    let managed = root.done("CreatePolicy", &[("PolicyName", "m"), ("PolicyDocument", READ_ALL)]).await;
    let arn = managed.text("Arn").expect("an ARN");
    assert_eq!((arn, managed.text("AttachmentCount")), (&*format!("{ARN}policy/m"), Some("0")));
    root.done("AttachUserPolicy", &[ada[0], ("PolicyArn", arn)]).await;
    assert_eq!(root.done("ListAttachedUserPolicies", &ada).await.text("PolicyArn"), Some(arn));
    assert_eq!(root.done("GetPolicy", &[("PolicyArn", arn)]).await.text("AttachmentCount"), Some("1"));
    let entities = root.done("ListEntitiesForPolicy", &[("PolicyArn", arn)]).await;
    assert_eq!(entities.text("UserName"), Some("ada"));

    root.done("CreateGroup", &[("GroupName", "g")]).await;
    root.done("AddUserToGroup", &[ada[0], ("GroupName", "g")]).await;
    assert_eq!(root.done("GetGroup", &[("GroupName", "g")]).await.text("UserName"), Some("ada"));
    assert_eq!(root.done("ListGroupsForUser", &ada).await.text("GroupName"), Some("g"));

    // Each key, policy and membership keeps the user from being deleted.
    let conflict = refusal(409, "DeleteConflict");
    assert_eq!(root.refused("DeleteUser", &ada).await, conflict);
    root.done("DeleteAccessKey", &[ada[0], ("AccessKeyId", id)]).await;
    assert_eq!(user.caller_identity().await.code(), "InvalidClientTokenId");
    assert_eq!(root.refused("DeleteUser", &ada).await, conflict);
    root.done("DeleteUserPolicy", &[ada[0], ("PolicyName", "own")]).await;
    root.done("DetachUserPolicy", &[ada[0], ("PolicyArn", arn)]).await;
    assert_eq!(root.refused("DeleteUser", &ada).await, conflict);
    assert_eq!(root.refused("DeleteGroup", &[("GroupName", "g")]).await, conflict);
    root.done("RemoveUserFromGroup", &[ada[0], ("GroupName", "g")]).await;
    root.done("DeleteUser", &ada).await;
    root.done("DeleteGroup", &[("GroupName", "g")]).await;
    root.done("DeletePolicy", &[("PolicyArn", arn)]).await;
    assert_eq!(root.refused("GetUser", &ada).await, refusal(404, "NoSuchEntity"));
}

#[tokio::test]
async fn a_managed_policy_has_versions_and_one_is_in_force() {
    let (_node, root) = a_node().await;
    let made = root.done("CreatePolicy", &[("PolicyName", "m"), ("PolicyDocument", READ_ALL)]).await;
    let arn = made.text("Arn").expect("an ARN").to_owned();
    let named = ("PolicyArn", arn.as_str());
    let tag = |key, value| [named, ("Tags.member.1.Key", key), ("Tags.member.1.Value", value)];
    for (key, value) in [("team", "a"), ("Team", "b"), ("cost", "")] {
        root.done("TagPolicy", &tag(key, value)).await;
    }
    root.done("UntagPolicy", &[named, ("TagKeys.member.1", "cost"), ("TagKeys.member.2", "TEAM")]).await;
    let tags = root.done("ListPolicyTags", &[named]).await;
    let both = ["<Key>Team</Key><Value>b</Value>", "<Key>team</Key><Value>a</Value>"];
    assert!(tags.body.matches("<Key>").count() == 2 && both.iter().all(|tag| tags.body.contains(tag)));
    let second = [named, ("PolicyDocument", READ_ALL), ("SetAsDefault", "true")];
    let second = root.done("CreatePolicyVersion", &second).await;
    assert_eq!((second.text("VersionId"), second.text("IsDefaultVersion")), (Some("v2"), Some("true")));
    let conflict = refusal(409, "DeleteConflict");
    assert_eq!(root.refused("DeletePolicyVersion", &[named, ("VersionId", "v2")]).await, conflict);
    assert_eq!(root.refused("DeletePolicy", &[named]).await, conflict);
    root.done("SetDefaultPolicyVersion", &[named, ("VersionId", "v1")]).await;
    let first = root.done("GetPolicyVersion", &[named, ("VersionId", "v1")]).await;
    assert_eq!(first.text("IsDefaultVersion"), Some("true"));
    root.done("DeletePolicyVersion", &[named, ("VersionId", "v2")]).await;
    assert_eq!(root.refused("GetPolicyVersion", &[named, ("VersionId", "v2")]).await.1, "NoSuchEntity");
    for _ in 0..4 {
        root.done("CreatePolicyVersion", &[named, ("PolicyDocument", READ_ALL)]).await;
    }
    let old = root.refused("CreatePolicyVersion", &[named, ("PolicyDocument", OLD)]).await;
    assert_eq!(old, refusal(400, "MalformedPolicyDocument"));
    let sixth = root.refused("CreatePolicyVersion", &[named, ("PolicyDocument", READ_ALL)]).await;
    assert_eq!(sixth, refusal(409, "LimitExceeded"));
}

#[tokio::test]
async fn refusals_have_the_codes_of_iam() {
    let (_node, root) = a_node().await;
    let user = a_user(&root, "ada").await;
    let named = ("UserName", "ada");
    let long = "u".repeat(65);
    for (action, parameters, status, code) in [
        ("CreateUser", vec![("UserName", "Ada")], 409, "EntityAlreadyExists"),
        ("CreateUser", vec![], 400, "ValidationError"),
        ("CreateUser", vec![("UserName", "a/b")], 400, "ValidationError"),
        ("CreateUser", vec![("UserName", &long)], 400, "ValidationError"),
        ("CreateUser", vec![("UserName", "x"), ("Path", "x")], 400, "ValidationError"),
        ("GetUser", vec![("UserName", "bob")], 404, "NoSuchEntity"),
        ("GetLoginProfile", vec![named], 404, "NoSuchEntity"),
        ("ListUsers", vec![("MaxItems", "1001")], 400, "ValidationError"),
        (
            "PutUserPolicy",
            vec![named, ("PolicyName", "p"), ("PolicyDocument", "{}")],
            400,
            "MalformedPolicyDocument",
        ),
        (
            "CreatePolicy",
            vec![("PolicyName", "old"), ("PolicyDocument", OLD)],
            400,
            "MalformedPolicyDocument",
        ),
        (
            "AttachUserPolicy",
            vec![named, ("PolicyArn", "arn:aws:iam::aws:policy/AmazonEC2FullAccess")],
            404,
            "NoSuchEntity",
        ),
        ("AttachUserPolicy", vec![named, ("PolicyArn", "no-arn")], 400, "ValidationError"),
        ("CreateAccessKey", vec![], 400, "ValidationError"),
        (
            "UpdateAccessKey",
            vec![named, ("AccessKeyId", "AKIAAAAAAAAAAAAAAAAA"), ("Status", "Active")],
            404,
            "NoSuchEntity",
        ),
        (
            "UpdateAccessKey",
            vec![named, ("AccessKeyId", &user.access_key), ("Status", "Off")],
            400,
            "ValidationError",
        ),
        ("UpdateUser", vec![named, ("NewUserName", "")], 400, "ValidationError"),
        ("UpdateUser", vec![("UserName", "bob"), ("NewUserName", "eve")], 404, "NoSuchEntity"),
        ("UpdateGroup", vec![("GroupName", "g"), ("NewGroupName", "h")], 404, "NoSuchEntity"),
        ("CreateRole", vec![("RoleName", "r")], 400, "InvalidAction"),
    ] {
        assert_eq!(root.refused(action, &parameters).await, refusal(status, code), "{action} {parameters:?}");
    }
    root.done("CreateAccessKey", &[named]).await;
    assert_eq!(root.refused("CreateAccessKey", &[named]).await, refusal(409, "LimitExceeded"));
    let missing = root.send("POST", "Version=2010-05-08").await;
    assert_eq!((missing.status, missing.code()), (400, "MissingAction"));
    let other = root.send("POST", &form(&[("Action", "ListUsers"), ("Version", "2011-06-15")])).await;
    assert_eq!((other.status, other.code()), (400, "InvalidAction"));
    let twice = root.send("POST", "Action=ListUsers&Action=GetUser&Version=2010-05-08").await;
    assert_eq!((twice.status, twice.code()), (404, "MalformedQueryString"));
}

#[tokio::test]
async fn tags_and_lists_of_another_form_are_refused_and_answers_are_xml() {
    let (_node, root) = a_node().await;
    let user = a_user(&root, "ada").await;
    let named = ("UserName", "ada");
    let (tagged, key, value) = ("TagUser", "Tags.member.1.Key", "Tags.member.1.Value");
    for (action, parameters, status, code) in [
        (tagged, vec![named, (key, "a\u{fffe}"), (value, "")], 400, "ValidationError"),
        (tagged, vec![named, (key, "a"), (value, "\u{b}")], 400, "ValidationError"),
        (tagged, vec![named, (key, "a<b>"), (value, "")], 400, "ValidationError"),
        (tagged, vec![named, (key, "aws:a"), (value, "")], 400, "InvalidInput"),
        (tagged, vec![named], 400, "ValidationError"),
        (tagged, vec![named, ("Tags", "")], 400, "InvalidInput"),
        (tagged, vec![named, ("Tags.member.0.Key", "a"), ("Tags.member.0.Value", "")], 400, "MalformedInput"),
        (tagged, vec![named, ("Tags.member.-1.Key", "a")], 400, "MalformedInput"),
        (tagged, vec![named, ("Tags.member.99999999999999999999.Key", "a")], 400, "MalformedInput"),
        (
            tagged,
            vec![named, ("Tags.member.2.Key", "a"), ("Tags.member.2.Value", "")],
            400,
            "ValidationError",
        ),
        ("UntagUser", vec![named, ("TagKeys.member.0", "a")], 400, "MalformedInput"),
    ] {
        assert_eq!(root.refused(action, &parameters).await, refusal(status, code), "{action} {parameters:?}");
    }
    let odd = root.call("GetPolicy", &[("PolicyArn", "arn:aws:iam::1:policy/\u{fffe}\u{1}<")]).await;
    assert_eq!((odd.status, odd.code()), (400, "ValidationError"));
    assert!(odd.body.contains("policy/\u{fffd}\u{fffd}&lt;"), "{}", odd.body);
    for list in [
        "ListRoles",
        "ListInstanceProfiles",
        "ListServerCertificates",
        "ListSAMLProviders",
        "ListOpenIDConnectProviders",
    ] {
        let empty = root.done(list, &[]).await;
        assert!(empty.body.contains(&format!("<{list}Result><")) && !empty.body.contains("<member>"));
        assert_eq!(user.refused(list, &[]).await, refusal(403, "AccessDenied"));
    }
}

#[tokio::test]
async fn a_caller_is_proven_by_its_signature_alone() {
    let (_node, root) = a_node().await;
    let of = |change: &dyn Fn(&mut IamClient)| {
        let mut client = root.clone();
        change(&mut client);
        client
    };
    for (client, code) in [
        (of(&|client| client.secret = "another".to_owned()), "SignatureDoesNotMatch"),
        (of(&|client| client.access_key = "AKIAAAAAAAAAAAAAAAAA".to_owned()), "InvalidClientTokenId"),
        (of(&|client| client.access_key = "unlike-a-key".to_owned()), "InvalidClientTokenId"),
        (of(&|client| client.scope = ("s3", "us-east-1")), "SignatureDoesNotMatch"),
        (of(&|client| client.scope = ("iam", "eu-west-1")), "SignatureDoesNotMatch"),
        (of(&|client| client.ahead_s = 16 * 60), "SignatureDoesNotMatch"),
        (of(&|client| client.ahead_s = -16 * 60), "SignatureDoesNotMatch"),
    ] {
        assert_eq!(client.refused("ListUsers", &[]).await, refusal(403, code), "{client:?}");
    }
    let late = of(&|client| client.ahead_s = -16 * 60).call("ListUsers", &[]).await;
    assert!(late.body.contains("Signature expired: "), "{}", late.body);
    let unsigned =
        root.raw("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
    assert_eq!((unsigned.status, unsigned.code()), (403, "MissingAuthenticationToken"));
    let halves = "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: AWS4-HMAC-SHA256 Credential=a\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n";
    assert_eq!(root.raw(halves).await.code(), "IncompleteSignature");
    // Either of two signatures could be the one that another reader of the request goes by.
    let body = form(&[("Action", "ListUsers"), ("Version", "2010-05-08")]);
    let signed = root.head("POST", &body);
    let line = signed.lines().find(|line| line.starts_with("Authorization: ")).expect("it is signed");
    for second in [line, "Authorization: Basic YTpi"] {
        let twice = signed.replacen(line, &format!("{line}\r\n{second}"), 1) + &body;
        let answer = root.raw(&twice).await;
        assert_eq!((answer.status, answer.code()), (400, "IncompleteSignature"), "{twice}");
    }
    assert_eq!(root.raw(&(signed + &body)).await.status, 200);
    // The query of a GET is signed, and does the same.
    let got = root.send("GET", &form(&[("Action", "ListUsers"), ("Version", "2010-05-08")])).await;
    assert_eq!((got.status, got.text("IsTruncated")), (200, Some("false")));
    let root_identity = root.caller_identity().await;
    assert_eq!(root_identity.text("Arn"), Some(&*format!("{ARN}root")));
    let long = format!("Action=ListUsers&Version=2010-05-08&X={}", "x".repeat(512 << 10));
    assert_eq!(root.send("POST", &long).await.status, 413);
}

/// The body of each request never comes: a node that reads it first answers with another code.
#[tokio::test]
async fn a_head_is_judged_before_its_body_arrives() {
    let (_node, root) = a_node().await;
    let body = "x".repeat(400_000);
    let unsigned = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\nConnection: close\r\n\r\n";
    let of = |change: &dyn Fn(&mut IamClient)| {
        let mut client = root.clone();
        change(&mut client);
        client.head("POST", &body)
    };
    for (head, code) in [
        (unsigned.to_owned(), "MissingAuthenticationToken"),
        (of(&|client| client.access_key = "AKIAAAAAAAAAAAAAAAAA".to_owned()), "InvalidClientTokenId"),
        (of(&|client| client.access_key = "unlike-a-key".to_owned()), "InvalidClientTokenId"),
        (of(&|client| client.scope = ("iam", "eu-west-1")), "SignatureDoesNotMatch"),
        (of(&|client| client.ahead_s = -16 * 60), "SignatureDoesNotMatch"),
        (root.head("POST", &"x".repeat((512 << 10) + 1)), "RequestEntityTooLarge"),
    ] {
        assert_eq!(root.raw(&head).await.code(), code, "{head}");
    }
}

/// More connections than there are, of senders that know ids of keys and no secret, with bodies that do not
/// come.
async fn throttle_nobody(root: &IamClient, ids: &[String]) {
    let mut stalled = Vec::new();
    for len in [60_000, 400_000] {
        for id in ids.iter().cycle().take(300) {
            stalled.push(root.with_key(id, "made up").stall(len).await);
            if stalled.len() % 20 == 0 {
                root.done("ListUsers", &[]).await;
            }
        }
        let long = "x".repeat(100_000);
        let answer = root.call("ListUsers", &[("Long", &long)]).await;
        assert_eq!(answer.status, 200, "a long body has room, too: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_without_bodies_by_one_id_throttle_no_signed_call() {
    let (_node, root) = a_node().await;
    throttle_nobody(&root, std::slice::from_ref(&root.access_key)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_without_bodies_by_many_ids_throttle_no_signed_call() {
    let (_node, root) = a_node().await;
    let mut ids = vec!["AKIAAAAAAAAAAAAAAAAA".to_owned()];
    for number in 0..12 {
        ids.push(a_user(&root, &format!("u{number}")).await.access_key);
    }
    throttle_nobody(&root, &ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_heads_on_all_connections_throttle_no_signed_call() {
    let (_node, root) = a_node().await;
    let address = root.endpoint.strip_prefix("http://").expect("plain HTTP");
    let mut halves = Vec::new();
    for _ in 0..300 {
        let mut half = TcpStream::connect(address).await.expect("the node listens");
        half.write_all(b"POST / HTTP/1.1\r\nHost: a\r\n").await.expect("the node reads heads");
        halves.push(half);
    }
    for _ in 0..10 {
        root.done("ListUsers", &[]).await;
    }
}

#[tokio::test]
async fn presigned_requests_are_answered_as_signed_ones() {
    let (_node, root) = a_node().await;
    let ada = a_user(&root, "ada").await;
    let sts = |client: &IamClient| IamClient { scope: ("sts", "eu-central-1"), ..client.clone() };
    let identity = [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")];
    for (client, arn) in [(&root, "root"), (&ada, "user/ada")] {
        for method in ["GET", "POST"] {
            let url = sts(client).presign(method, &identity, 60);
            let answer = client.present(method, &url).await;
            assert_eq!((answer.status, answer.text("Arn")), (200, Some(&*format!("{ARN}{arn}"))), "{method}");
        }
    }
    let list = [("Action", "ListUsers"), ("Version", "2010-05-08")];
    let listed = root.present("GET", &root.presign("GET", &list, 604_800)).await;
    assert_eq!((listed.status, listed.text("UserName")), (200, Some("ada")));
    assert_eq!(ada.present("GET", &ada.presign("GET", &list, 60)).await.code(), "AccessDenied");

    let late = IamClient { ahead_s: -16 * 60, ..sts(&ada) }.presign("GET", &identity, 604_800);
    let late = ada.present("GET", &late).await;
    assert_eq!((late.status, late.code()), (403, "SignatureDoesNotMatch"));
    assert!(late.body.contains("Signature expired: ") && late.body.contains("sts.amazonaws.com"), "{late:?}");
    let forged = sts(&ada).presign("GET", &identity, 60).replace("ada", "eve") + "0";
    assert_eq!(ada.present("GET", &forged).await.code(), "SignatureDoesNotMatch");
    let url = sts(&ada).presign("GET", &identity, 60);
    root.done("DeleteAccessKey", &[("UserName", "ada"), ("AccessKeyId", &ada.access_key)]).await;
    assert_eq!(ada.present("GET", &url).await.code(), "InvalidClientTokenId");
}

#[tokio::test]
async fn users_may_what_their_policies_allow() {
    let (_node, root) = a_node().await;
    let user = a_user(&root, "ada").await;
    assert_eq!(user.done("GetUser", &[]).await.text("UserName"), Some("ada"));
    let deny = READ_ALL.replace("Allow", "Deny").replace("s3:Get*", "iam:GetUser");
    let own = [("UserName", "ada"), ("PolicyName", "own"), ("PolicyDocument", &deny)];
    root.done("PutUserPolicy", &own).await;
    let denied = user.call("GetUser", &[]).await;
    assert_eq!((denied.status, denied.code()), (403, "AccessDenied"));
    assert!(denied.body.contains("explicit deny"), "{}", denied.body);
    root.done("DeleteUserPolicy", &own[..2]).await;
    let denied = user.call("ListUsers", &[]).await;
    assert_eq!((denied.status, denied.code()), (403, "AccessDenied"));
    let words = format!(
        "User: {ARN}user/ada is not authorized to perform: iam:ListUsers on resource: * because no identity-based \
         policy allows the iam:ListUsers action"
    );
    assert_eq!(denied.text("Message"), Some(&*words));
    let document = r#"{"Version":"2012-10-17","Statement":[
        {"Effect":"Allow","Action":"iam:*","Resource":"*"},
        {"Effect":"Deny","Action":"iam:DeleteUser","Resource":"arn:aws:iam::000000000001:user/kept/*"}]}"#;
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "iam"), ("PolicyDocument", document)])
        .await;
    user.done("CreateUser", &[("UserName", "bob"), ("Path", "/kept/")]).await;
    user.done("CreateUser", &[("UserName", "eve")]).await;
    let kept = user.call("DeleteUser", &[("UserName", "bob")]).await;
    assert_eq!((kept.status, kept.code()), (403, "AccessDenied"));
    assert!(kept.body.contains("with an explicit deny in an identity-based policy"), "{}", kept.body);
    user.done("DeleteUser", &[("UserName", "eve")]).await;
}

#[tokio::test]
async fn conditions_see_the_policy_that_is_given_or_taken_and_the_tags_of_the_subject() {
    let (_node, root) = a_node().await;
    let user = a_user(&root, "ada").await;
    let mut arns = vec![];
    for name in ["Admin", "Reader"] {
        let policy = [("PolicyName", name), ("PolicyDocument", READ_ALL), ("Path", "/x/")];
        arns.push(root.done("CreatePolicy", &policy).await.text("Arn").expect("an ARN").to_owned());
    }
    let (admin, reader) = (&*arns[0], &*arns[1]);
    let document = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"iam:*","Resource":"*"}},
            {{"Effect":"Deny","Action":["iam:Attach*","iam:Detach*"],"Resource":"*",
              "Condition":{{"ArnEquals":{{"iam:PolicyARN":"{admin}"}}}}}},
            {{"Effect":"Deny","Action":"iam:DeleteUser","Resource":"*",
              "Condition":{{"StringEquals":{{"iam:ResourceTag/team":"finance"}}}}}},
            {{"Effect":"Deny","Action":["iam:TagUser","iam:DeletePolicy"],"Resource":"*",
              "Condition":{{"Null":{{"aws:ResourceTag/Team":"false"}}}}}}]}}"#
    );
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "iam"), ("PolicyDocument", &document)])
        .await;
    let tags = [("Tags.member.1.Key", "team"), ("Tags.member.1.Value", "finance")];
    let (bob, eve) = (("UserName", "bob"), ("UserName", "eve"));
    root.done("CreateUser", &[&[bob][..], &tags].concat()).await;
    root.done("CreateUser", &[eve]).await;
    root.done("CreateGroup", &[("GroupName", "g")]).await;
    let denied = refusal(403, "AccessDenied");

    for owner in [bob, ("GroupName", "g")] {
        let [attach, detach] = ["Attach", "Detach"].map(|verb| {
            format!("{verb}{}Policy", owner.0.strip_suffix("Name").expect("the name of a user or a group"))
        });
        assert_eq!(user.refused(&attach, &[owner, ("PolicyArn", admin)]).await, denied);
        user.done(&attach, &[owner, ("PolicyArn", reader)]).await;
        user.done(&detach, &[owner, ("PolicyArn", reader)]).await;
        root.done(&attach, &[owner, ("PolicyArn", admin)]).await;
        // A policy that is detached is found by its name, in any case.
        for spelt in [admin.to_owned(), format!("{ARN}policy/x/ADMIN"), format!("{ARN}policy/Admin")] {
            let refused = user.refused(&detach, &[owner, ("PolicyArn", &spelt)]).await;
            assert_eq!(refused, denied, "{spelt}");
        }
    }
    assert_eq!(user.refused("DeleteUser", &[bob]).await, denied);
    user.done("DeleteUser", &[eve]).await;
    assert_eq!(user.refused("TagUser", &[&[bob][..], &tags].concat()).await, denied);
    let tagged = [&[("PolicyName", "t"), ("PolicyDocument", READ_ALL)][..], &tags].concat();
    let tagged = root.done("CreatePolicy", &tagged).await.text("Arn").expect("an ARN").to_owned();
    assert_eq!(user.refused("DeletePolicy", &[("PolicyArn", &tagged)]).await, denied);
    user.done("DeletePolicy", &[("PolicyArn", reader)]).await;

    let unknown = document.replace("iam:ResourceTag/team", "iam:Unknown");
    let put = [("UserName", "ada"), ("PolicyName", "iam"), ("PolicyDocument", &*unknown)];
    let answer = root.call("PutUserPolicy", &put).await;
    assert_eq!((answer.status, answer.code()), (400, "MalformedPolicyDocument"));
    assert!(answer.body.contains("iam:unknown is not supported"), "{}", answer.body);
}

#[tokio::test]
async fn a_move_takes_the_permission_at_both_paths() {
    let (_node, root) = a_node().await;
    let user = a_user(&root, "ada").await;
    let document = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:*","Resource":
        ["arn:aws:iam::000000000001:user/dev/*","arn:aws:iam::000000000001:group/dev/*"]}]}"#;
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "dev"), ("PolicyDocument", document)])
        .await;
    let denied = refusal(403, "AccessDenied");
    for (kind, name) in [("User", ("UserName", "bob")), ("Group", ("GroupName", "ops"))] {
        let [create, update, get] = ["Create", "Update", "Get"].map(|verb| format!("{verb}{kind}"));
        user.done(&create, &[name, ("Path", "/dev/")]).await;
        user.done(&update, &[name, ("NewPath", "/dev/more/")]).await;
        let away = user.call(&update, &[name, ("NewPath", "/admin/")]).await;
        let target = format!("{ARN}{}/admin/{}", kind.to_lowercase(), name.1);
        assert_eq!((away.status, away.code()), (403, "AccessDenied"));
        assert!(away.body.contains(&target), "{}", away.body);
        let stays = format!("{ARN}{}/dev/more/{}", kind.to_lowercase(), name.1);
        assert_eq!(root.done(&get, &[name]).await.text("Arn"), Some(&*stays));
        root.done(&update, &[name, ("NewPath", "/admin/")]).await;
        let back = user.refused(&update, &[name, ("NewPath", "/dev/")]).await;
        assert_eq!(back, denied, "it may not be taken from another path");
    }
    // `Path` of a request names the resource only where an entity is made.
    for (action, name) in [("DeleteUser", ("UserName", "eve")), ("DeleteGroup", ("GroupName", "eve"))] {
        assert_eq!(user.refused(action, &[name, ("Path", "/dev/")]).await, denied, "{action}");
    }
    let elsewhere = user.refused("CreateUser", &[("UserName", "bob"), ("Path", "/admin/")]).await;
    assert_eq!(elsewhere, denied);
}

#[tokio::test]
async fn tags_of_what_is_made_take_the_permission_to_tag() {
    let (_node, root) = a_node().await;
    let user = a_user(&root, "ada").await;
    let document = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:*","Resource":"*"},
        {"Effect":"Deny","Action":["iam:TagUser","iam:TagPolicy"],"Resource":"*"}]}"#;
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "iam"), ("PolicyDocument", document)])
        .await;
    let tags = [("Tags.member.1.Key", "team"), ("Tags.member.1.Value", "finance")];
    let policy = [("PolicyName", "m"), ("PolicyDocument", READ_ALL)];
    for (action, plain, permission) in [
        ("CreateUser", &[("UserName", "bob")][..], "iam:TagUser"),
        ("CreatePolicy", &policy[..], "iam:TagPolicy"),
    ] {
        let denied = user.call(action, &[plain, &tags].concat()).await;
        assert_eq!((denied.status, denied.code()), (403, "AccessDenied"), "{action}");
        assert!(denied.body.contains(permission), "{}", denied.body);
        user.done(action, plain).await;
    }
}

#[tokio::test]
async fn without_a_master_key_no_key_is_made_and_the_message_says_why() {
    let node = empty().serve("iam_listen = \"127.0.0.1:0\"\n").start().await;
    node.until_ready().await;
    let root = node.iam_client();
    let refused = root.call("CreateUser", &[("UserName", "ada")]).await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidInput"));
    assert!(refused.body.contains("master_key_file"), "{}", refused.body);
    assert_eq!(root.done("ListUsers", &[]).await.text("IsTruncated"), Some("false"));
}

#[tokio::test]
async fn a_user_whose_policies_are_too_long_to_be_remembered_is_served() {
    let node = node().await;
    let owner = node.with_bucket().await;
    let (body, users) = (Body { id: 1, len: 100 }, node.users());
    owner.put("key", body).await.expect("put");
    let key = users.user("ada").await;
    // White space does not count for the size of a policy, and is kept.
    let long = format!("{READ_ALL}{}", " ".repeat(125_000));
    for n in 0..10 {
        let name = format!("p{n}");
        users.done("CreatePolicy", &[("PolicyName", &name), ("PolicyDocument", &long)]).await;
        let arn = format!("{ARN}policy/{name}");
        users.done("AttachUserPolicy", &[("UserName", "ada"), ("PolicyArn", &arn)]).await;
    }
    assert_eq!(node.s3_with(&key).get("key").await, Ok(Some(body)));
}

#[tokio::test]
async fn parameters_are_judged_before_entities_are_looked_up() {
    let (_node, root) = a_node().await;
    let (nobody, long_path) = (("UserName", "nobody"), format!("/{}", "x".repeat(512)));
    let (long_id, status) = ("A".repeat(129), ("Status", "Active"));
    let pattern = "Member must satisfy regular expression pattern: \\u002F[\\u0021-\\u007F]*";
    let length = |bound: &str| format!("Member must have length {bound}");
    let value = |bound: &str| format!("Member must have value {bound}");
    for (action, parameters, at, constraint) in [
        ("ListUsers", vec![("PathPrefix", "invalid")], "pathPrefix", pattern.to_owned()),
        ("ListGroups", vec![("PathPrefix", "/a b/")], "pathPrefix", pattern.to_owned()),
        (
            "ListPolicies",
            vec![("PathPrefix", &*long_path)],
            "pathPrefix",
            length("less than or equal to 512"),
        ),
        ("ListAttachedUserPolicies", vec![nobody, ("PathPrefix", "x/")], "pathPrefix", pattern.to_owned()),
        (
            // Ids of other stores have 3 characters or more.
            "GetAccessKeyLastUsed",
            vec![("AccessKeyId", "ab")],
            "accessKeyId",
            length("greater than or equal to 16"),
        ),
        (
            "UpdateAccessKey",
            vec![nobody, status, ("AccessKeyId", &*long_id)],
            "accessKeyId",
            length("less than or equal to 128"),
        ),
        (
            "DeleteAccessKey",
            vec![nobody, ("AccessKeyId", "AKIA/AAAAAAAAAAAAAAA")],
            "accessKeyId",
            "Member must satisfy regular expression pattern: [\\w]+".to_owned(),
        ),
        ("ListAccessKeys", vec![nobody, ("MaxItems", "-1")], "maxItems", value("greater than or equal to 1")),
        ("ListUserTags", vec![nobody, ("MaxItems", "0")], "maxItems", value("greater than or equal to 1")),
        (
            "ListUserPolicies",
            vec![nobody, ("MaxItems", "1001")],
            "maxItems",
            value("less than or equal to 1000"),
        ),
        (
            "ListGroupsForUser",
            vec![nobody, ("MaxItems", "1001")],
            "maxItems",
            value("less than or equal to 1000"),
        ),
        ("ListMFADevices", vec![nobody, ("MaxItems", "-1")], "maxItems", value("greater than or equal to 1")),
    ] {
        let answer = root.call(action, &parameters).await;
        assert_eq!((answer.status, answer.code()), (400, "ValidationError"), "{action} {parameters:?}");
        let (_, given) = parameters[parameters.len() - 1];
        let words = format!(
            "1 validation error detected: Value '{given}' at '{at}' failed to satisfy constraint: {constraint}"
        );
        assert_eq!(answer.text("Message"), Some(&*words));
    }
    let number = root.refused("ListUsers", &[("MaxItems", "ten")]).await;
    assert_eq!(number, refusal(400, "MalformedInput"));
    root.done("ListUsers", &[("PathPrefix", "/team")]).await;
    let unknown = root.refused("GetAccessKeyLastUsed", &[("AccessKeyId", &"A".repeat(128))]).await;
    assert_eq!(unknown, refusal(404, "NoSuchEntity"));
    let summary = root.done("GetAccountSummary", &[]).await.body;
    for (quota, max) in [("UsersQuota", 5_000), ("GroupsQuota", 300), ("PoliciesQuota", 1_500)] {
        assert!(summary.contains(&format!("<key>{quota}</key><value>{max}</value>")), "{summary}");
    }
}

#[tokio::test]
async fn keys_of_a_users_tags_have_no_case() {
    let (_node, root) = a_node().await;
    let user = a_user(&root, "ada").await;
    let tag = |key, value| [("UserName", "ada"), ("Tags.member.1.Key", key), ("Tags.member.1.Value", value)];
    root.done("TagUser", &tag("Dep", "1")).await;
    root.done("TagUser", &tag("dEP", "2")).await;
    let tags = root.done("ListUserTags", &[("UserName", "ada")]).await.body;
    assert!(tags.contains("<Key>dEP</Key><Value>2</Value>") && !tags.contains("<Key>Dep"), "{tags}");
    let document = READ_ALL.replace("s3:Get*", "iam:ListUsers").replace(
        r#""Resource":"*""#,
        r#""Resource":"*","Condition":{"StringEquals":{"AWS:principaltag/DEP":"2"}}"#,
    );
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "own"), ("PolicyDocument", &document)])
        .await;
    user.done("ListUsers", &[]).await;
    root.done("UntagUser", &[("UserName", "ada"), ("TagKeys.member.1", "DEP")]).await;
    assert!(!root.done("ListUserTags", &[("UserName", "ada")]).await.body.contains("<Key>"));
    assert_eq!(user.refused("ListUsers", &[]).await, refusal(403, "AccessDenied"));
}

/// The blocks of the page that run the `aws` command, against this node. Skipped where the command is
/// missing.
#[tokio::test]
async fn the_walk_through_of_the_page_works() {
    if std::process::Command::new("aws").arg("--version").output().is_err() {
        eprintln!("skipped: aws is not installed");
        return;
    }
    let node = node().await;
    let page = include_str!("../../../docs/operations/users.md");
    let (_, part) = page.split_once("## With the aws command").expect("a section");
    let (part, _) = part.split_once("## With sherd-node user").expect("the section behind it");
    let blocks: String =
        part.split("```sh\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    let iam = node.iam.as_deref().expect("it serves IAM");
    let script = format!("set -euo pipefail\n{blocks}")
        .replace("http://127.0.0.1:9300", iam)
        .replace("http://127.0.0.1:9000", &node.endpoint);
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script]).env("AWS_ACCESS_KEY_ID", &node.access_key);
    bash.env("AWS_SECRET_ACCESS_KEY", &node.secret_key);
    let output = tokio::task::spawn_blocking(move || bash.output()).await;
    let output = output.expect("it does not panic").expect("bash is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
