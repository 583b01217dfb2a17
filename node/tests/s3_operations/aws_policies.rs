//! AWS's managed policies: a user that has one, what is refused, and how they are listed.

use crate::harness::data::Body;
use crate::harness::node;

const READ_ALL: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}]}"#;

#[tokio::test]
async fn a_user_with_a_policy_of_aws_reads_and_does_not_write() {
    let node = node().await;
    let root = node.iam_client();
    let owner = node.with_bucket().await;
    let body = Body { id: 1, len: 100 };
    owner.put("key", body).await.expect("put");
    let key = node.users().user("ada").await;
    let ada = ("UserName", "ada");
    let named = |name: &str| format!("arn:aws:iam::aws:policy/{name}");
    let arn = named("AmazonS3ReadOnlyAccess");
    assert!(node.s3_with(&key).get("key").await.is_err());
    root.done("AttachUserPolicy", &[ada, ("PolicyArn", &arn)]).await;
    assert_eq!(node.s3_with(&key).get("key").await, Ok(Some(body)));
    assert!(node.s3_with(&key).put("other", body).await.is_err(), "it reads alone");

    assert_eq!(root.done("ListAttachedUserPolicies", &[ada]).await.text("PolicyArn"), Some(&*arn));
    let policy = root.done("GetPolicy", &[("PolicyArn", &arn)]).await;
    assert_eq!(policy.text("PolicyId"), Some("ANPAIZTJ4DXE7G6AGAE6M"));
    assert_eq!((policy.text("AttachmentCount"), policy.text("DefaultVersionId")), (Some("1"), Some("v3")));
    let version = [("PolicyArn", &*arn), ("VersionId", "v3")];
    let version = root.done("GetPolicyVersion", &version).await;
    assert!(version.text("Document").is_some_and(|document| document.contains("s3%3AGet%2A")), "{version:?}");
    let entities = root.done("ListEntitiesForPolicy", &[("PolicyArn", &arn)]).await;
    assert_eq!(entities.text("UserName"), Some("ada"));
    assert_eq!(root.refused("DeleteUser", &[ada]).await, (409, "DeleteConflict".to_owned()));

    let denied = (403, "AccessDenied".to_owned());
    let tags = [("Tags.member.1.Key", "a"), ("Tags.member.1.Value", "")];
    for (action, more) in [
        ("DeletePolicy", &[][..]),
        ("CreatePolicyVersion", &[("PolicyDocument", READ_ALL)]),
        ("DeletePolicyVersion", &[("VersionId", "v3")]),
        ("SetDefaultPolicyVersion", &[("VersionId", "v3")]),
        ("TagPolicy", &tags),
        ("UntagPolicy", &[("TagKeys.member.1", "a")]),
    ] {
        let parameters = [&[("PolicyArn", &*arn)][..], more].concat();
        assert_eq!(root.refused(action, &parameters).await, denied, "{action}");
    }
    let elsewhere = [ada, ("PolicyArn", &named("ViewOnlyAccess"))];
    assert_eq!(root.refused("AttachUserPolicy", &elsewhere).await, (404, "NoSuchEntity".to_owned()));
    let deny = named("AWSDenyAll");
    root.done("AttachUserPolicy", &[ada, ("PolicyArn", &deny)]).await;
    assert!(node.s3_with(&key).get("key").await.is_err(), "a deny wins");
    for arn in [&deny, &arn] {
        root.done("DetachUserPolicy", &[ada, ("PolicyArn", arn)]).await;
    }
    assert!(node.s3_with(&key).get("key").await.is_err());
}

#[tokio::test]
async fn policies_are_listed_by_scope_page_by_page() {
    let node = node().await;
    let root = node.iam_client();
    for name in ["a", "b", "c"] {
        root.done("CreatePolicy", &[("PolicyName", name), ("PolicyDocument", READ_ALL)]).await;
    }
    for (scope, count) in [("Local", 3), ("AWS", 10), ("All", 13)] {
        for size in ["1", "3", "4", "100"] {
            let (mut arns, mut marker) = (Vec::new(), None::<String>);
            loop {
                let mut parameters = vec![("Scope", scope), ("MaxItems", size)];
                parameters.extend(marker.as_deref().map(|marker| ("Marker", marker)));
                let page = root.done("ListPolicies", &parameters).await;
                arns.extend(
                    page.body
                        .split("<Arn>")
                        .skip(1)
                        .map(|rest| rest.split('<').next().unwrap_or_default().to_owned()),
                );
                marker = page.text("Marker").map(str::to_owned);
                if marker.is_none() {
                    break;
                }
            }
            let mut once = arns.clone();
            once.sort();
            once.dedup();
            assert_eq!((arns.len(), once.len()), (count, count), "{scope} {size}: {arns:?}");
        }
    }
    let below = root.done("ListPolicies", &[("PathPrefix", "/job-function/")]).await.body;
    assert!(below.matches("<Arn>").count() == 1 && below.contains("policy/job-function/ViewOnlyAccess<"));
    let attached = [("Scope", "AWS"), ("OnlyAttached", "true")];
    assert!(!root.done("ListPolicies", &attached).await.body.contains("<Arn>"));
    root.done("CreateGroup", &[("GroupName", "g")]).await;
    let arn = ("PolicyArn", "arn:aws:iam::aws:policy/ReadOnlyAccess");
    root.done("AttachGroupPolicy", &[("GroupName", "g"), arn]).await;
    assert_eq!(root.done("ListPolicies", &attached).await.text("Arn"), Some(arn.1));
}
