//! The policy of a bucket: put, shown as it was put, deleted, its status, and each way to be refused.

use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::types::{Delete, ObjectIdentifier, PublicAccessBlockConfiguration};

use super::wire::RawAnswer;
use super::*;
use crate::harness::raw::Raw;
use crate::harness::users::AccessKey;

/// A policy that lets everyone read the objects of a bucket.
pub(super) fn public(bucket: &str) -> String {
    format!(
        "{{\n  \"Version\": \"2012-10-17\",\n  \"Statement\": [{{\"Effect\": \"Allow\", \"Principal\": \"*\", \
         \"Action\": \"s3:GetObject\", \"Resource\": \"arn:aws:s3:::{bucket}/*\"}}]\n}}\n"
    )
}

/// A policy that lets the account read the objects of the bucket, with an id.
fn private(id: &str) -> String {
    format!(
        "{{\"Version\":\"2012-10-17\",\"Id\":\"{id}\",\"Statement\":[{{\"Effect\":\"Allow\",\"Principal\":\
         {{\"AWS\":\"arn:aws:iam::000000000001:root\"}},\"Action\":\"s3:GetObject\",\
         \"Resource\":\"arn:aws:s3:::{BUCKET}/*\"}}]}}"
    )
}

async fn let_in_the_public(client: &Client) {
    client.delete_public_access_block().bucket(BUCKET).send().await.expect("deleted");
}

#[tokio::test]
async fn a_policy_is_shown_as_it_was_put_until_it_is_deleted() {
    let (_node, client) = a_bucket().await;
    let put = |policy: String| client.put_bucket_policy().bucket(BUCKET).policy(policy).send();
    let get = async || client.get_bucket_policy().bucket(BUCKET).send().await;
    let is_public = async || {
        let status = client.get_bucket_policy_status().bucket(BUCKET).send().await.expect("a status");
        status.policy_status.and_then(|status| status.is_public)
    };
    let_in_the_public(&client).await;
    // Short ones lie in the bucket's record, long ones in a document.
    let long = private(&"i".repeat(20_000));
    for (policy, expected) in
        [(public(BUCKET), true), (private("short"), false), (long, false), (public(BUCKET), true)]
    {
        put(policy.clone()).await.expect("a policy");
        assert_eq!(get().await.expect("the policy").policy, Some(policy));
        assert_eq!(is_public().await, Some(expected));
    }
    for _ in 0..2 {
        client.delete_bucket_policy().bucket(BUCKET).send().await.expect("deleted");
        assert_eq!(code(get().await), is(404, "NoSuchBucketPolicy"));
    }
    let status = client.get_bucket_policy_status().bucket(BUCKET).send().await;
    assert_eq!(code(status), is(404, "NoSuchBucketPolicy"));
}

#[tokio::test]
async fn an_anonymous_reader_chooses_no_header_of_the_answer() {
    let (node, client) = a_bucket().await;
    let_in_the_public(&client).await;
    client.put_bucket_policy().bucket(BUCKET).policy(public(BUCKET)).send().await.expect("a policy");
    super::put(&client, "k", "text").await;
    let anonymous = node.s3_anonymous();
    let get = |client: &Client| client.get_object().bucket(BUCKET).key("k");
    get(anonymous.sdk()).send().await.expect("public");
    get(&client).response_content_type("text/html").send().await.expect("signed");
    for wanted in [
        get(anonymous.sdk()).response_content_type("text/html"),
        get(anonymous.sdk()).response_content_disposition("inline"),
    ] {
        let refusal = refused(wanted.send().await);
        assert_eq!((refusal.status, &*refusal.code), (400, "InvalidRequest"));
        assert_eq!(
            refusal.message,
            "Request specific response headers cannot be used for anonymous GET requests."
        );
    }
    let head = anonymous.sdk().head_object().bucket(BUCKET).key("k").response_content_type("text/html");
    assert_eq!(refused(head.send().await).status, 400);
}

#[tokio::test]
async fn a_batch_that_outlives_its_bucket_has_no_rights_in_the_next_of_that_name() {
    let (node, client) = a_bucket().await;
    let_in_the_public(&client).await;
    let policy = public(BUCKET).replace("GetObject", "DeleteObject");
    client.put_bucket_policy().bucket(BUCKET).policy(policy).send().await.expect("a policy");
    // A long document has the time that the bucket needs to be deleted and made again.
    let document = format!("<Delete>{}<Object><Key>k</Key></Object></Delete>", " ".repeat(640 << 10));
    let host = node.endpoint.strip_prefix("http://").expect("plain HTTP");
    let head = format!(
        "POST /{BUCKET}?delete HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\
         Content-MD5: rT3ViaM4MrTYzUmCfrj2UA==\r\n\r\n",
        document.len()
    );
    let mut stranger = Raw::idle(&node.endpoint).await;
    stranger.body(head.as_bytes()).await.expect("a new connection takes a head");
    assert_eq!(stranger.head().await.expect("an answer").status, 100, "it was let in");
    client.delete_bucket().bucket(BUCKET).send().await.expect("deleted");
    client.create_bucket().bucket(BUCKET).send().await.expect("another bucket");
    super::put(&client, "k", "private").await;
    stranger.body(document.as_bytes()).await.expect("it is read");
    assert_eq!(stranger.head().await.expect("an answer").status, 403);
    assert_eq!(super::get(&client, "k").await, b"private");
}

#[tokio::test]
async fn a_user_who_may_delete_nothing_is_answered_for_each_key() {
    let (node, client) = a_bucket().await;
    let user = node.s3_with(&node.users().user("ada").await);
    super::put(&client, "k", "kept").await;
    let listed = |key| ObjectIdentifier::builder().key(key).build().expect("a key");
    let keys = Delete::builder().objects(listed("k")).objects(listed("missing")).build().expect("keys");
    let batch = user.sdk().delete_objects().bucket(BUCKET).delete(keys).send().await.expect("a batch");
    let errors = batch.errors().iter().filter_map(|error| Some((error.key()?, error.code()?)));
    assert_eq!(errors.collect::<Vec<_>>(), [("k", "AccessDenied"), ("missing", "AccessDenied")]);
    assert!(batch.deleted().is_empty());
    assert_eq!(super::get(&client, "k").await, b"kept");
}

#[tokio::test]
async fn a_change_of_a_policy_is_answered_with_204() {
    let (_node, client) = a_bucket().await;
    let answer = RawAnswer::default();
    let seen = || answer.0.lock().expect("no holder panics").clone();
    let put = client.put_bucket_policy().bucket(BUCKET).policy(private("p"));
    let put = put.confirm_remove_self_bucket_access(true).customize().interceptor(answer.clone());
    put.send().await.expect("a policy");
    assert_eq!(seen().0, 204);
    let get = client.get_bucket_policy().bucket(BUCKET).customize().interceptor(answer.clone());
    get.send().await.expect("the policy");
    assert_eq!(seen(), (200, private("p")), "the text itself");
    let delete = client.delete_bucket_policy().bucket(BUCKET).customize().interceptor(answer.clone());
    delete.send().await.expect("deleted");
    assert_eq!(seen().0, 204);
}

#[tokio::test]
async fn a_policy_that_is_malformed_is_refused_in_the_words_of_s3() {
    let (_node, client) = a_bucket().await;
    let put = |policy: &str| client.put_bucket_policy().bucket(BUCKET).policy(policy).send();
    put(&private("before")).await.expect("a policy");
    let long = private(&"i".repeat(20_480));
    for (policy, message) in [
        ("no policy", "Policies must be valid JSON and the first byte must be '{'"),
        ("{\"Version\":\"2012-10-17\"}", "Missing required field Statement"),
        (&public("another"), "Policy has invalid resource"),
        (&public(BUCKET).replace("\"*\"", "{\"AWS\":\"alice\"}"), "Invalid principal in policy"),
        (&public(BUCKET).replace("s3:GetObject", "s3:Fetch"), "Policy has invalid action"),
        (&long, "Normalized policy document exceeds the maximum allowed size of 20480 bytes"),
    ] {
        let refusal = refused(put(policy).await);
        assert_eq!((refusal.status, &*refusal.code, &*refusal.message), (400, "MalformedPolicy", message));
    }
    assert_eq!(code(put("").await), is(400, "MissingRequestBodyError"));
    assert_eq!(code(put(&" ".repeat(70_000)).await), is(400, "MaxMessageLengthExceeded"));
    let kept = client.get_bucket_policy().bucket(BUCKET).send().await.expect("the policy");
    assert_eq!(kept.policy, Some(private("before")), "a refused change changes nothing");
    let nowhere = client.put_bucket_policy().bucket("nowhere").policy(public("nowhere")).send().await;
    assert_eq!(code(nowhere), is(404, "NoSuchBucket"));
}

#[tokio::test]
async fn a_header_that_an_operation_ignores_decides_nothing() {
    let (node, client) = a_bucket().await;
    let_in_the_public(&client).await;
    client.put_object().bucket(BUCKET).key("k").send().await.expect("an object");
    let anonymous = node.s3_anonymous();
    let statement = |effect: &str, operator: &str, key: &str, value: &str| {
        let condition = format!("\"Condition\":{{\"{operator}\":{{\"{key}\":\"{value}\"}}}}");
        format!(
            "{{\"Effect\":\"{effect}\",\"Principal\":\"*\",\"Action\":\"s3:*\",\"Resource\":\
             [\"arn:aws:s3:::{BUCKET}\",\"arn:aws:s3:::{BUCKET}/*\"],{condition}}}"
        )
    };
    for (header, value, key) in [
        ("x-amz-acl", "public-read", "s3:x-amz-acl"),
        ("x-amz-grant-read", "id=1", "s3:x-amz-grant-read"),
        ("x-amz-storage-class", "STANDARD", "s3:x-amz-storage-class"),
        ("x-amz-metadata-directive", "COPY", "s3:x-amz-metadata-directive"),
        ("x-amz-copy-source", "a/b", "s3:x-amz-copy-source"),
        ("x-amz-tagging", "project=x", "s3:RequestObjectTagKeys"),
        ("if-match", "*", "s3:if-match"),
    ] {
        let there = if key.ends_with("Keys") { "project" } else { value };
        let everyone = statement("Allow", "StringLike", "aws:UserAgent", "*");
        // An Allow that needs the header, and a Deny of requests without it.
        for (policy, reads) in [
            (statement("Allow", "StringLike", key, there), false),
            (format!("{everyone},{}", statement("Deny", "StringNotEquals", key, there)), false),
            (format!("{everyone},{}", statement("Deny", "StringLike", key, there)), true),
        ] {
            let policy = format!("{{\"Version\":\"2012-10-17\",\"Statement\":[{policy}]}}");
            client.put_bucket_policy().bucket(BUCKET).policy(policy).send().await.expect("a policy");
            let get = anonymous.sdk().get_object().bucket(BUCKET).key("k").customize();
            let list = anonymous.sdk().list_objects_v2().bucket(BUCKET).customize();
            let sent = move |request: &mut HttpRequest| {
                request.headers_mut().insert(header, value);
            };
            let got = get.mutate_request(sent).send().await.map(drop);
            let listed = list.mutate_request(sent).send().await.map(drop);
            if reads {
                got.expect("no key, no denial");
                listed.expect("no key, no denial");
            } else {
                assert_eq!(code(got), is(403, "AccessDenied"), "{key}");
                assert_eq!(code(listed), is(403, "AccessDenied"), "{key}");
            }
        }
    }
}

#[tokio::test]
async fn a_header_that_is_there_twice_is_judged_by_all_of_its_lines() {
    let (node, client) = a_bucket().await;
    let_in_the_public(&client).await;
    let statement = |effect: &str, condition: &str| {
        format!(
            "{{\"Effect\":\"{effect}\",\"Principal\":\"*\",\"Action\":\"s3:PutObject\",\"Resource\":\
             \"arn:aws:s3:::{BUCKET}/*\"{condition}}}"
        )
    };
    let anonymous = node.s3_anonymous();
    let there = client.put_object().bucket(BUCKET).key("k").body(ByteStream::from_static(b"1")).send().await;
    let etag = there.expect("an object").e_tag.expect("a tag");
    for (header, key, allowed, further) in [
        ("x-amz-website-redirect-location", "s3:x-amz-website-redirect-location", "/ok", "/../elsewhere"),
        ("if-match", "s3:if-match", "\"other\"", &*etag),
    ] {
        let quoted = serde_json::to_string(allowed).expect("a text");
        let others = format!(",\"Condition\":{{\"StringNotEquals\":{{\"{key}\":{quoted}}}}}");
        let statements = [statement("Allow", ""), statement("Deny", &others)].join(",");
        let policy = format!("{{\"Version\":\"2012-10-17\",\"Statement\":[{statements}]}}");
        client.put_bucket_policy().bucket(BUCKET).policy(policy).send().await.expect("a policy");
        for lines in [vec![further.to_owned()], vec![allowed.to_owned(), further.to_owned()]] {
            let put = anonymous.sdk().put_object().bucket(BUCKET).key("k").customize();
            let sent = move |request: &mut HttpRequest| {
                for line in &lines {
                    request.headers_mut().append(header, line.clone());
                }
            };
            assert_eq!(code(put.mutate_request(sent).send().await), is(403, "AccessDenied"), "{header}");
        }
    }
}

#[tokio::test]
async fn a_public_policy_is_refused_while_the_bucket_blocks_it() {
    let (_node, client) = a_bucket().await;
    let put = |policy: String| client.put_bucket_policy().bucket(BUCKET).policy(policy).send();
    let refusal = refused(put(public(BUCKET)).await);
    assert_eq!((refusal.status, &*refusal.code), (403, "AccessDenied"), "a new bucket blocks it");
    assert!(refusal.message.ends_with(
        "because public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access."
    ));
    put(private("p")).await.expect("a policy that is not public");
    let others = PublicAccessBlockConfiguration::builder()
        .block_public_acls(true)
        .ignore_public_acls(true)
        .restrict_public_buckets(true)
        .build();
    let block = client.put_public_access_block().bucket(BUCKET);
    block.public_access_block_configuration(others).send().await.expect("a block");
    put(public(BUCKET)).await.expect("a public policy");
    let all = PublicAccessBlockConfiguration::builder().block_public_policy(true).build();
    let block = client.put_public_access_block().bucket(BUCKET);
    block.public_access_block_configuration(all).send().await.expect("a block");
    let stays = client.get_bucket_policy().bucket(BUCKET).send().await.expect("the policy");
    assert_eq!(stays.policy, Some(public(BUCKET)), "policies from before stay");
    assert_eq!(code(put(public(BUCKET)).await), is(403, "AccessDenied"));
}

#[tokio::test]
async fn a_policy_names_users_that_exist() {
    let (node, client) = a_bucket().await;
    let of = |principal: &str| private("p").replace("arn:aws:iam::000000000001:root", principal);
    let put = |policy: String| client.put_bucket_policy().bucket(BUCKET).policy(policy).send();
    for principal in [
        "arn:aws:iam::000000000001:user/alice",
        "arn:aws:iam::111122223333:user/alice",
        "AIDA",
        "AIDAAAAAAAAAAAAAAAAAA",
        "AROAAAAAAAAAAAAAAAAAA",
    ] {
        let refusal = refused(put(of(principal)).await);
        assert_eq!((refusal.status, &*refusal.code), (400, "MalformedPolicy"), "{principal}");
        assert_eq!(refusal.message, "Invalid principal in policy");
    }
    put(of("000000000001")).await.expect("the account");
    let users = node.users();
    let made = users.done("CreateUser", &[("UserName", "bob")]).await;
    put(of(made.text("UserId").expect("an id"))).await.expect("a user that is there");
}

/// A policy that lets a principal read, and keeps it from what lies below `kept/`.
fn of_principal(principal: &str) -> String {
    format!(
        "{{\"Version\":\"2012-10-17\", \"Statement\":[{{\"Effect\":\"Allow\",\"Principal\":{{\"AWS\": \"{principal}\"}},\
         \"Action\":\"s3:*\",\"Resource\":\"arn:aws:s3:::{BUCKET}/*\",\"Condition\":{{\"StringNotEquals\":\
         {{\"aws:PrincipalArn\":\"{ALICE}/x\"}}}}}},\n{{\"Effect\":\"Deny\",\"Principal\":{{\"AWS\":[\"{principal}\"]}},\
         \"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::{BUCKET}/kept/*\"}}]}}\n"
    )
}

const ALICE: &str = "arn:aws:iam::000000000001:user/alice";
const READ_ALL: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}]}"#;

#[tokio::test]
async fn a_policy_is_about_the_users_that_it_named_when_it_was_put() {
    let (node, client) = a_bucket().await;
    let users = node.users();
    let shown = async || {
        let shown = client.get_bucket_policy().bucket(BUCKET).send().await.expect("the policy");
        shown.policy.expect("a text")
    };
    let alice = ("UserName", "alice");
    let key = users.user("alice").await;
    let id = users.done("GetUser", &[alice]).await.text("UserId").expect("an id").to_owned();
    put(&client, "k", "of all").await;
    put(&client, "kept/k", "of none").await;
    let policy = of_principal(ALICE);
    client.put_bucket_policy().bucket(BUCKET).policy(&policy).send().await.expect("a policy");
    assert_eq!(shown().await, policy, "as it was put");

    let read = async |key: &AccessKey, object: &str| {
        let s3 = node.s3_with(key);
        let read = s3.sdk().get_object().bucket(BUCKET).key(object).send().await;
        if read.is_ok() { is(200, "") } else { code(read) }
    };
    let denied = is(403, "AccessDenied");
    assert_eq!((read(&key, "k").await, read(&key, "kept/k").await), (is(200, ""), denied.clone()));

    // The user has another ARN and is the same user: it is granted the same, and denied the same.
    users.put_user_policy("alice", READ_ALL).await;
    users.done("UpdateUser", &[alice, ("NewPath", "/team/")]).await;
    assert_eq!((read(&key, "k").await, read(&key, "kept/k").await), (is(200, ""), denied.clone()));
    let moved = ALICE.replace("alice", "team/alice");
    assert_eq!(shown().await, of_principal(&moved), "by the ARN that the user has");
    users.delete_user_policy("alice").await;
    assert_eq!(read(&key, "k").await, is(200, ""));

    // The user is gone, and one that is made under its name has nothing of the policy.
    users.delete_key("alice", &key).await;
    users.done("DeleteUser", &[alice]).await;
    assert_eq!(shown().await, of_principal(&id), "by the id that no user has again");
    let key = users.user("alice").await;
    assert_eq!(read(&key, "k").await, denied);
    assert_eq!(shown().await, of_principal(&id));
    users.put_user_policy("alice", READ_ALL).await;
    assert_eq!(read(&key, "kept/k").await, is(200, ""), "it has no denial of the other user");
    users.delete_user_policy("alice").await;

    // A policy that is put again names the user of today, and an id stays an id.
    client.put_bucket_policy().bucket(BUCKET).policy(&policy).send().await.expect("a policy");
    assert_eq!((read(&key, "k").await, shown().await), (is(200, ""), policy));
    let id = users.done("GetUser", &[alice]).await.text("UserId").expect("an id").to_owned();
    client.put_bucket_policy().bucket(BUCKET).policy(of_principal(&id)).send().await.expect("a policy");
    assert_eq!((read(&key, "k").await, shown().await), (is(200, ""), of_principal(&id)));
}
