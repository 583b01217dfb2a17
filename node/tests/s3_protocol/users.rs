//! Requests of users and of anonymous callers, by their policies and by those of buckets: the answers, the
//! order of refusals, and the work before them.

use std::sync::Arc;

use bytes::Bytes;
use sherd_core::config::ConfigValue;
use sherd_core::config::policy::BucketPolicy;
use sherd_core::record::ChecksumAlgorithm;
use sherd_front::callers::{AccessKey, Credential, StaticCredentials};
use sherd_policy::{Identity, Policy, PolicyForm, UserIdentity};
use sherd_s3::{service::Limits, wire::checksum};
use sherd_signature::Secret;

use crate::memory::Memory;
use crate::wire::{ACCESS_KEY, Asking, SECRET, Server, TestClock, protocol_over};

const APP: &str = "AKIAAPP";

/// A policy of one statement.
fn policy(effect: &str, principal: &str, action: &str, resource: &str, condition: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}",{principal}"Action":"{action}",
            "Resource":"arn:aws:s3:::{resource}"{condition}}}]}}"#
    )
}

fn allowing(action: &str, resource: &str) -> String {
    policy("Allow", "", action, resource, "")
}

/// A server with a user of these policies.
async fn a_server(policies: &[String]) -> Server {
    let parse = |text: &String| {
        let parsed = Policy::parse(text.as_bytes(), PolicyForm::Identity);
        Arc::new(parsed.unwrap_or_else(|error| panic!("{error}: {text}")))
    };
    let user = Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/app".to_owned(),
        name: "app".to_owned(),
        id: "AIDAAPP".to_owned(),
        tags: Vec::new(),
        policies: policies.iter().map(parse).collect(),
    });
    let credentials: StaticCredentials =
        [credential(APP, user), credential(ACCESS_KEY, Identity::Root)].into_iter().collect();
    let memory = Memory::new(None);
    let operations = Arc::new(memory.clone());
    let protocol = protocol_over(TestClock::Still, Limits::default(), Arc::new(credentials), operations);
    let server = Server::of(protocol, memory).await;
    server.memory.keep("bucket", "k", "abc");
    server
}

/// A key with the secret that requests are signed with.
fn credential(access_key: &str, identity: Identity) -> Credential {
    Credential {
        access_key: AccessKey::Static(access_key.into()),
        secret: Secret::new(SECRET),
        identity: Arc::new(identity),
    }
}

/// Gives `bucket` a policy. Every user that it names has an id: the one of the requests `AIDAAPP`, others
/// another.
fn put_policy(server: &Server, text: &str) {
    let form = PolicyForm::Bucket { name: "bucket" };
    let sent = Policy::parse(text.as_bytes(), form).unwrap_or_else(|error| panic!("{error}: {text}"));
    let id = |arn: &str| if arn.ends_with(":user/app") { "AIDAAPP" } else { "AIDAOTHEROTHEROTHERS" };
    let users = sent.users().map(|arn| (arn.to_owned(), id(arn).to_owned())).collect();
    let value = ConfigValue::from(BucketPolicy::new("bucket", sent, users).expect("each user has an id"));
    server.memory.store_policy("bucket", value.encode());
}

fn of_user(method: &'static str, target: &str) -> Asking {
    let mut asking = Asking::new(method, target);
    asking.access_key = APP;
    asking
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn a_user_may_do_what_its_policies_allow() {
    let copy = |target: &str| of_user("PUT", target).header("x-amz-copy-source", "/bucket/k");
    let tagged = of_user("PUT", "/bucket/k").body(b"v").header("x-amz-acl", "private");
    for (allowed, request, status) in [
        (allowing("s3:GetObject", "bucket/*"), of_user("GET", "/bucket/k"), 200),
        (allowing("s3:GetObject", "bucket/*"), of_user("HEAD", "/bucket/k"), 200),
        (allowing("s3:GetObject", "bucket/*"), of_user("GET", "/bucket/k?versionId=null"), 403),
        (allowing("s3:GetObjectVersion", "bucket/*"), of_user("GET", "/bucket/k?versionId=null"), 200),
        (allowing("s3:GetObject", "other/*"), of_user("GET", "/bucket/k"), 403),
        (allowing("s3:GetObject", "bucket/*"), of_user("PUT", "/bucket/k").body(b"v"), 403),
        (allowing("s3:PutObject", "bucket/*"), of_user("PUT", "/bucket/k").body(b"v"), 200),
        (allowing("s3:PutObject", "bucket/*"), tagged.clone(), 403),
        (allowing("s3:PutObject*", "bucket/*"), tagged, 200),
        (
            allowing("s3:PutObject", "bucket/*"),
            of_user("PUT", "/bucket/k?partNumber=1&uploadId=u").body(b"v"),
            200,
        ),
        (allowing("s3:PutObject", "bucket/*"), copy("/bucket/c"), 200),
        (allowing("s3:DeleteObject", "bucket/*"), of_user("DELETE", "/bucket/k"), 204),
        (allowing("s3:DeleteObject", "bucket/*"), of_user("DELETE", "/bucket/k?versionId=null"), 403),
        (
            allowing("s3:DeleteObject", "bucket/*"),
            of_user("DELETE", "/bucket/k").header("if-match", "\"e\""),
            403,
        ),
        (allowing("s3:ListBucket", "bucket"), of_user("GET", "/bucket?list-type=2"), 200),
        (allowing("s3:ListBucket", "bucket"), of_user("HEAD", "/bucket"), 200),
        (allowing("s3:ListBucket", "bucket/*"), of_user("HEAD", "/bucket"), 403),
        (allowing("s3:GetObjectAttributes", "bucket/*"), of_user("GET", "/bucket/k?attributes"), 403),
        (allowing("s3:ListAllMyBuckets", "*"), of_user("GET", "/"), 200),
        (allowing("s3:ListBucket", "*"), of_user("GET", "/"), 403),
        (allowing("s3:CreateBucket", "bucket"), of_user("PUT", "/bucket"), 200),
        (allowing("s3:CreateBucket", "other"), of_user("PUT", "/bucket"), 403),
    ] {
        let server = a_server(std::slice::from_ref(&allowed)).await;
        let answer = server.send(&request).await;
        assert_eq!(answer.status, status, "{allowed}: {request:?}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_refusal_names_the_user_the_action_and_the_resource() {
    let answer = a_server(&[]).await.send(&of_user("GET", "/bucket/k")).await;
    assert_eq!(answer.refusal(), is(403, "AccessDenied"));
    let message = answer.element("Message").expect("a message").replace("&quot;", "\"");
    assert_eq!(
        message,
        "User: arn:aws:iam::000000000001:user/app is not authorized to perform: s3:GetObject on resource: \
         \"arn:aws:s3:::bucket/k\" because no identity-based policy allows the s3:GetObject action"
    );
}

#[tokio::test]
async fn refusals_come_in_the_order_of_s3() {
    let server = a_server(&[allowing("s3:GetObject", "bucket/a/*")]).await;
    let answer = async |request: Asking| server.send(&request).await.refusal();
    let mut unknown = of_user("GET", "/nowhere/k");
    unknown.access_key = "AKIANOBODY";
    assert_eq!(answer(unknown).await, is(403, "InvalidAccessKeyId"));
    assert_eq!(answer(of_user("GET", "/nowhere/k")).await, is(404, "NoSuchBucket"));
    let encrypted =
        |key: &str| of_user("PUT", key).body(b"v").header("x-amz-server-side-encryption", "AES256");
    assert_eq!(answer(encrypted("/nowhere/k")).await, is(404, "NoSuchBucket"));
    assert_eq!(answer(encrypted("/bucket/k")).await, is(403, "AccessDenied"));
    let mut wrong = of_user("PUT", "/bucket/k").body(b"v");
    wrong.body = b"w".to_vec();
    assert_eq!(answer(wrong).await, is(403, "AccessDenied"), "the body is not read");
    assert_eq!(answer(of_user("GET", "/bucket?abac")).await, is(501, "NotImplemented"));
    assert!(server.memory.calls().is_empty());
}

#[tokio::test]
async fn a_missing_key_is_shown_to_callers_who_may_list() {
    let reader = allowing("s3:GetObject", "bucket/*");
    let server = a_server(std::slice::from_ref(&reader)).await;
    assert_eq!(server.send(&of_user("GET", "/bucket/none")).await.refusal(), is(403, "AccessDenied"));
    assert_eq!(server.send(&of_user("HEAD", "/bucket/none")).await.status, 403);
    let server = a_server(&[reader, allowing("s3:ListBucket", "bucket")]).await;
    assert_eq!(server.send(&of_user("GET", "/bucket/none")).await.refusal(), is(404, "NoSuchKey"));
    assert_eq!(server.send(&Asking::new("GET", "/bucket/none")).await.refusal(), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn a_policy_by_tags_is_judged_where_the_object_is_read() {
    let condition = r#","Condition":{"StringEquals":{"s3:ExistingObjectTag/stage":"open"}}"#;
    let server = a_server(&[policy("Allow", "", "s3:GetObject", "bucket/*", condition)]).await;
    for (tag, status) in [(None, 403), (Some("shut"), 403), (Some("open"), 200)] {
        if let Some(tag) = tag {
            server.memory.tag("bucket", "k", ("stage", tag));
        }
        assert_eq!(server.send(&of_user("GET", "/bucket/k")).await.status, status, "{tag:?}");
    }
    assert_eq!(server.send(&of_user("GET", "/bucket/none")).await.refusal(), is(403, "AccessDenied"));
}

#[tokio::test]
async fn a_bucket_policy_lets_anonymous_callers_in() {
    let server = a_server(&[]).await;
    put_policy(&server, &policy("Allow", r#""Principal":"*","#, "s3:GetObject", "bucket/*", ""));
    let get = Asking::new("GET", "/bucket/k").bare(None);
    assert_eq!(server.exchange(&get).await.status, 200);
    let put = Asking::new("PUT", "/bucket/k").body(b"v").bare(None);
    assert_eq!(server.exchange(&put).await.refusal(), is(403, "AccessDenied"));
    assert_eq!(server.send(&of_user("GET", "/bucket/k")).await.status, 200, "a user is one of all");
    let list = Asking::new("GET", "/bucket").bare(None);
    assert_eq!(server.exchange(&list).await.refusal(), is(403, "AccessDenied"));
    let none = Asking::new("GET", "/bucket/none").bare(None);
    assert_eq!(server.exchange(&none).await.refusal(), is(403, "AccessDenied"));
}

#[tokio::test]
async fn a_caller_who_may_delete_nothing_is_refused_before_a_document_arrives_that_takes_room() {
    let other = r#""Principal":{"AWS":"arn:aws:iam::000000000001:user/other"},"#;
    // The document never ends: its last byte is not sent.
    let unended = |asking: Asking| asking.body(b"<Delete>").relabelled("content-length", "70000");
    for policies in [
        &[][..],
        &[allowing("s3:GetObject", "bucket/*")],
        &[allowing("s3:DeleteObject", "other/*"), allowing("s3:DeleteObject", "bucket")],
    ] {
        let server = a_server(policies).await;
        put_policy(&server, &policy("Allow", other, "s3:*", "bucket/*", ""));
        let anonymous = unended(Asking::new("POST", "/bucket?delete")).bare(None);
        assert_eq!(server.exchange(&anonymous).await.refusal(), is(403, "AccessDenied"));
        let of_user = unended(of_user("POST", "/bucket?delete"));
        assert_eq!(server.send(&of_user).await.refusal(), is(403, "AccessDenied"), "{policies:?}");
    }
    let document = b"<Delete><Object><Key>k</Key></Object></Delete>";
    let crc = checksum::of(ChecksumAlgorithm::Crc32, document);
    let request = of_user("POST", "/bucket?delete").body(document).header("x-amz-checksum-crc32", &crc);
    // Each key is judged by its name, also where none may be deleted.
    for allowed in ["s3:DeleteObject", "s3:GetObject"] {
        let server = a_server(&[allowing(allowed, "bucket/tmp/*")]).await;
        assert_eq!(server.send(&request).await.status, 200, "{allowed}");
        assert_eq!(server.exchange(&request.bare(None)).await.refusal(), is(403, "AccessDenied"));
    }
    let server = a_server(&[]).await;
    let framed = of_user("POST", "/bucket?delete").framed("STREAMING-UNSIGNED-PAYLOAD-TRAILER", 70_000, b"8");
    assert_eq!(server.send(&framed).await.refusal(), is(403, "AccessDenied"), "by its length without frames");
}

#[tokio::test]
async fn a_bucket_policy_denies_root_all_but_the_policy() {
    let server = a_server(&[allowing("s3:*", "*")]).await;
    put_policy(&server, &policy("Deny", r#""Principal":"*","#, "s3:GetObject", "bucket/*", ""));
    for request in [Asking::new("GET", "/bucket/k"), of_user("GET", "/bucket/k")] {
        let answer = server.send(&request).await;
        assert_eq!(answer.refusal(), is(403, "AccessDenied"));
        let message = answer.element("Message").expect("a message");
        assert!(message.ends_with("with an explicit deny in a resource-based policy"), "{message}");
    }
    assert_eq!(server.send(&Asking::new("PUT", "/bucket/k").body(b"v")).await.status, 200);
    // A policy that cannot be read stands for none: only root goes on, to put it right.
    server.memory.store_policy("bucket", Bytes::from_static(b"no policy"));
    for request in [Asking::new("GET", "/bucket/k"), of_user("GET", "/bucket/k")] {
        assert_eq!(server.send(&request).await.refusal(), is(503, "ServiceUnavailable"));
    }
    assert_eq!(server.send(&Asking::new("DELETE", "/bucket?policy")).await.status, 204);
}
