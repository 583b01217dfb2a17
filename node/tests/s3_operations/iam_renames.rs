//! UpdateUser and UpdateGroup with another name, as clients see them: answers, refusals, who may, and what
//! policies of buckets say of a user that was renamed.

use super::*;
use crate::harness::iam::IamClient;

const ARN: &str = "arn:aws:iam::000000000001:";
const DENY_DELETE: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"s3:DeleteObject","Resource":"*"}]}"#;

/// Status, code and words of a refusal.
async fn refusal(client: &IamClient, action: &str, parameters: &[(&str, &str)]) -> (u16, String, String) {
    let answer = client.call(action, parameters).await;
    (answer.status, answer.code().to_owned(), answer.text("Message").unwrap_or_default().to_owned())
}

fn says(status: u16, code: &str, words: &str) -> (u16, String, String) {
    (status, code.to_owned(), words.to_owned())
}

async fn a_user(root: &IamClient, name: &str) -> IamClient {
    root.done("CreateUser", &[("UserName", name)]).await;
    let key = root.done("CreateAccessKey", &[("UserName", name)]).await;
    root.with_key(key.text("AccessKeyId").expect("an id"), key.text("SecretAccessKey").expect("a secret"))
}

#[tokio::test]
async fn a_user_and_a_group_have_other_names_and_keep_the_rest() {
    let node = node().await;
    let root = node.iam_client();
    let user = a_user(&root, "ada").await;
    let id = root.done("GetUser", &[("UserName", "ada")]).await.text("UserId").expect("an id").to_owned();
    root.done("CreateGroup", &[("GroupName", "ops")]).await;
    root.done("AddUserToGroup", &[("UserName", "ada"), ("GroupName", "ops")]).await;
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "p"), ("PolicyDocument", DENY_DELETE)])
        .await;
    let renamed = [("UserName", "ADA"), ("NewUserName", "Eve"), ("NewPath", "/team/")];
    let answer = root.done("UpdateUser", &renamed).await;
    assert!(
        answer.body.starts_with("<UpdateUserResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">")
    );
    root.done("UpdateGroup", &[("GroupName", "ops"), ("NewGroupName", "Admins")]).await;

    let eve = [("UserName", "eve")];
    let got = root.done("GetUser", &eve).await;
    let arn = format!("{ARN}user/team/Eve");
    assert_eq!(
        (got.text("UserId"), got.text("Arn"), got.text("UserName")),
        (Some(&*id), Some(&*arn), Some("Eve"))
    );
    assert_eq!(user.caller_identity().await.text("Arn"), Some(&*arn));
    assert_eq!(user.done("GetUser", &[]).await.text("UserName"), Some("Eve"));
    let keys = root.done("ListAccessKeys", &eve).await;
    assert_eq!((keys.text("UserName"), keys.text("AccessKeyId")), (Some("Eve"), Some(&*user.access_key)));
    let last_use = root.done("GetAccessKeyLastUsed", &[("AccessKeyId", &user.access_key)]).await;
    assert_eq!(last_use.text("UserName"), Some("Eve"));
    assert_eq!(root.done("ListUserPolicies", &eve).await.text("member"), Some("p"));
    assert_eq!(root.done("ListGroupsForUser", &eve).await.text("GroupName"), Some("Admins"));
    let group = root.done("GetGroup", &[("GroupName", "admins")]).await;
    assert_eq!((group.text("GroupName"), group.text("UserName")), (Some("Admins"), Some("Eve")));
    let details = root.done("GetAccountAuthorizationDetails", &[]).await;
    assert!(details.body.contains("<GroupList><member>Admins</member></GroupList>"), "{}", details.body);

    let gone = "The user with name ada cannot be found.";
    assert_eq!(refusal(&root, "GetUser", &[("UserName", "ada")]).await, says(404, "NoSuchEntity", gone));
    let again = refusal(&root, "UpdateUser", &[("UserName", "ada"), ("NewUserName", "x")]).await;
    assert_eq!(again, says(404, "NoSuchEntity", gone));
    // Another user of the name has nothing of it.
    let other = a_user(&root, "ada").await;
    assert_ne!(other.caller_identity().await.text("UserId"), Some(&*id));
    assert!(!root.done("ListUserPolicies", &[("UserName", "ada")]).await.body.contains("<member>"));
    let taken = refusal(&root, "UpdateUser", &[eve[0], ("NewUserName", "Ada")]).await;
    assert_eq!(taken, says(409, "EntityAlreadyExists", "User with name Ada already exists."));
    root.done("CreateGroup", &[("GroupName", "ops")]).await;
    let taken = refusal(&root, "UpdateGroup", &[("GroupName", "admins"), ("NewGroupName", "OPS")]).await;
    assert_eq!(taken, says(409, "EntityAlreadyExists", "Group with name OPS already exists."));
    let (status, code, words) = refusal(&root, "UpdateUser", &[eve[0], ("NewUserName", "a b")]).await;
    assert_eq!((status, &*code), (400, "ValidationError"));
    assert!(words.contains("at 'newUserName' failed to satisfy constraint"), "{words}");
    // Lists are by the names of today, each user once.
    let listed = root.done("ListUsers", &[]).await.body;
    let names: Vec<_> =
        listed.split("<UserName>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    assert_eq!(names, ["ada", "Eve"]);
}

#[tokio::test]
async fn a_rename_takes_the_permission_at_both_names() {
    let node = node().await;
    let root = node.iam_client();
    let user = a_user(&root, "ada").await;
    let document = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:Update*","Resource":
        ["arn:aws:iam::000000000001:user/dev/*","arn:aws:iam::000000000001:user/bob",
         "arn:aws:iam::000000000001:group/dev/*"]}]}"#;
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "dev"), ("PolicyDocument", document)])
        .await;
    for name in ["bob", "root-like"] {
        root.done("CreateUser", &[("UserName", name)]).await;
    }
    root.done("CreateUser", &[("UserName", "eve"), ("Path", "/dev/")]).await;
    root.done("CreateGroup", &[("GroupName", "g"), ("Path", "/dev/")]).await;
    let denied = |target: &str| {
        let words = format!(
            "User: {ARN}user/ada is not authorized to perform: iam:UpdateUser on resource: {ARN}{target} because \
             no identity-based policy allows the iam:UpdateUser action"
        );
        says(403, "AccessDenied", &words)
    };
    let rename = async |from: &str, to: &str| {
        refusal(&user, "UpdateUser", &[("UserName", from), ("NewUserName", to)]).await
    };
    assert_eq!(rename("bob", "admin").await, denied("user/admin"), "not at the new name");
    assert_eq!(rename("root-like", "bob").await, denied("user/root-like"), "not at the old name");
    let moved = [("UserName", "eve"), ("NewUserName", "bob"), ("NewPath", "/admin/")];
    assert_eq!(refusal(&user, "UpdateUser", &moved).await, denied("user/admin/bob"));
    user.done("UpdateUser", &[("UserName", "eve"), ("NewUserName", "zoe")]).await;
    let away = [("UserName", "bob"), ("NewUserName", "bo"), ("NewPath", "/dev/")];
    user.done("UpdateUser", &away).await;
    user.done("UpdateGroup", &[("GroupName", "g"), ("NewGroupName", "h")]).await;
    let zoe = root.done("GetUser", &[("UserName", "zoe")]).await;
    assert_eq!(zoe.text("Arn"), Some(&*format!("{ARN}user/dev/zoe")));
    assert_eq!(refusal(&root, "GetUser", &[("UserName", "admin")]).await.0, 404);
}

/// As on AWS: the policy names the user, which has another ARN, and no user that has its former one.
#[tokio::test]
async fn a_policy_of_a_bucket_goes_on_to_name_a_user_that_was_renamed() {
    let (node, client) = a_bucket().await;
    let users = node.users();
    let of = |principal: &str| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"AWS":"{principal}"}},"Action":"s3:GetObject","Resource":"arn:aws:s3:::{BUCKET}/*"}}]}}"#
        )
    };
    let shown = async || {
        let shown = client.get_bucket_policy().bucket(BUCKET).send().await.expect("the policy");
        shown.policy.expect("a text")
    };
    let put_policy =
        async |principal: &str| client.put_bucket_policy().bucket(BUCKET).policy(of(principal)).send().await;
    put(&client, "k", "v").await;
    let key = users.user("ada").await;
    let may_read = async |key| {
        let s3 = node.s3_with(key);
        s3.sdk().get_object().bucket(BUCKET).key("k").send().await.is_ok()
    };
    put_policy(&format!("{ARN}user/ada")).await.expect("a policy");
    for (from, to) in [("ada", "eve"), ("eve", "zoe")] {
        users.done("UpdateUser", &[("UserName", from), ("NewUserName", to)]).await;
        assert!(may_read(&key).await, "{to}");
        assert_eq!(shown().await, of(&format!("{ARN}user/{to}")));
    }
    let other = users.user("ada").await;
    assert!(!may_read(&other).await && may_read(&key).await);
    assert_eq!(shown().await, of(&format!("{ARN}user/zoe")));
    put_policy(&format!("{ARN}user/zoe")).await.expect("a policy");
    assert!(may_read(&key).await);
    users.done("UpdateUser", &[("UserName", "zoe"), ("NewUserName", "kim")]).await;
    assert_eq!(code(put_policy(&format!("{ARN}user/zoe")).await), is(400, "MalformedPolicy"));
    assert!(may_read(&key).await);
    assert_eq!(shown().await, of(&format!("{ARN}user/kim")));
}

/// Calls that name no user are judged by the user that they are about, which need not be the caller.
#[tokio::test]
async fn a_user_asks_of_the_key_and_the_policies_of_another() {
    let node = node().await;
    let root = node.iam_client();
    let (ada, eve) = (a_user(&root, "ada").await, a_user(&root, "eve").await);
    let all = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:*","Resource":"*"}]}"#;
    root.done("PutUserPolicy", &[("UserName", "ada"), ("PolicyName", "p"), ("PolicyDocument", all)]).await;
    let last_use = ada.done("GetAccessKeyLastUsed", &[("AccessKeyId", &eve.access_key)]).await;
    assert_eq!(last_use.text("UserName"), Some("eve"));
    let of_eve = format!("{ARN}user/eve");
    let asked = [("PolicySourceArn", &*of_eve), ("ActionNames.member.1", "s3:GetObject")];
    let simulated = ada.done("SimulatePrincipalPolicy", &asked).await;
    assert_eq!(simulated.text("EvalDecision"), Some("implicitDeny"));
    assert_eq!(ada.done("ListAccessKeys", &[]).await.text("UserName"), Some("ada"));
}
