//! Tags by which policies decide: a request is judged by those that it gives, wherever it names them.

use aws_sdk_s3::types::{CreateBucketConfiguration, ObjectAttributes, Tag, Tagging, TaggingDirective};
use futures::future::{self, Either};

use super::*;
use crate::harness::form::Form;
use crate::harness::users::AccessKey;

/// Makes a user who may do everything but what `statement` denies.
async fn a_user(node: &Node, denied: &str) -> AccessKey {
    let key = node.users().user("ada").await;
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"s3:*","Resource":"*"}},{denied}]}}"#
    );
    node.users().put_user_policy("ada", &policy).await;
    key
}

/// Denies an action where a condition key has a value.
fn denied(action: &str, key: &str, value: &str) -> String {
    format!(
        r#"{{"Effect":"Deny","Action":"{action}","Resource":"*","Condition":{{"StringEquals":{{"{key}":"{value}"}}}}}}"#
    )
}

#[tokio::test]
async fn a_form_is_judged_by_the_tags_of_its_field() {
    for action in ["s3:PutObject", "s3:PutObjectTagging"] {
        let (node, client) = a_bucket().await;
        let key = a_user(&node, &denied(action, "s3:RequestObjectTag/class", "secret")).await;
        let post = async |class: &str| {
            let document = format!(
                "<Tagging><TagSet><Tag><Key>class</Key><Value>{class}</Value></Tag></TagSet></Tagging>"
            );
            let form = Form::new(&node, BUCKET, class, "v").field("tagging", &document);
            let answer = form.signed_by(&key.id, &key.secret).v4(None).send().await;
            (answer.status, answer.element("Code").unwrap_or_default().to_owned())
        };
        assert_eq!(post("public").await, (204, String::new()), "{action}");
        assert_eq!(post("secret").await, (403, "AccessDenied".to_owned()), "{action}");
        let tagged =
            client.get_object_tagging().bucket(BUCKET).key("public").send().await.expect("an object");
        assert_eq!(tagged.tag_set().len(), 1);
        client.head_object().bucket(BUCKET).key("secret").send().await.expect_err("it is not stored");
    }
}

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build().expect("key and value")
}

/// Such a tag says whose a bucket is: rights to tag or delete a bucket must not be enough to take its name.
#[tokio::test]
async fn tags_that_are_roots_are_given_changed_and_removed_by_root_alone() {
    let (node, root) = a_bucket().await;
    let nothing = r#"{"Effect":"Deny","Action":"iam:*","Resource":"*"}"#;
    let user = node.s3_with(&a_user(&node, nothing).await);
    let user = user.sdk();
    let put = async |client: &Client, tags: &[Tag]| {
        let set = Tagging::builder().set_tag_set(Some(tags.to_vec())).build().expect("a set");
        client.put_bucket_tagging().bucket(BUCKET).tagging(set).send().await
    };
    let tags = async || root.get_bucket_tagging().bucket(BUCKET).send().await.expect("tags").tag_set;
    let (mark, mine) = (tag("sherd.dev/bucket", "a/data"), tag("team", "blue"));
    put(&root, &[mark.clone(), mine.clone()]).await.expect("root's");
    let (added, removed) =
        ("System tags cannot be added/updated by requester", "System tags cannot be removed by requester");
    for (given, message) in [
        (vec![tag("sherd.dev/bucket", "b/data")], added),
        (vec![mark.clone(), tag("sherd.dev/other", "")], added),
        (vec![mine], removed),
        (vec![], removed),
    ] {
        let refusal = refused(put(user, &given).await);
        assert_eq!((&*refusal.code, &*refusal.message), ("InvalidTag", message), "{given:?}");
    }
    let refusal = refused(user.delete_bucket_tagging().bucket(BUCKET).send().await);
    assert_eq!((refusal.status, &*refusal.message), (400, removed));
    assert_eq!(tags().await.len(), 2, "a refused change changes nothing");
    let kept = [mark, tag("team", "red")];
    put(user, &kept).await.expect("with root's as it is");
    assert_eq!(tags().await, kept);
    assert_eq!(code(user.delete_bucket().bucket(BUCKET).send().await), is(403, "AccessDenied"));
    assert_eq!(tags().await, kept, "it is as it was");
    root.put_object().bucket(BUCKET).key("k").send().await.expect("it takes objects");
    root.delete_object().bucket(BUCKET).key("k").send().await.expect("deleted");
    root.delete_bucket_tagging().bucket(BUCKET).send().await.expect("root's");
    put(user, &[tag("team", "red")]).await.expect("none is root's");
    user.delete_bucket_tagging().bucket(BUCKET).send().await.expect("none is root's");
    put(&root, &kept).await.expect("root's");
    root.delete_bucket().bucket(BUCKET).send().await.expect("root deletes it");
    root.create_bucket().bucket(BUCKET).send().await.expect("made again");
    user.delete_bucket().bucket(BUCKET).send().await.expect("no tag is root's");
}

#[tokio::test]
async fn a_new_bucket_gets_no_tag_of_roots_and_none_without_the_right() {
    let (node, root) = a_bucket().await;
    let key = a_user(&node, r#"{"Effect":"Deny","Action":"iam:*","Resource":"*"}"#).await;
    let user = node.s3_with(&key);
    let create = async |client: &Client, tags: &[Tag]| {
        let made = CreateBucketConfiguration::builder().set_tags(Some(tags.to_vec())).build();
        client.create_bucket().bucket("new").create_bucket_configuration(made).send().await
    };
    let roots = [tag("sherd.dev/bucket", "b/data")];
    assert_eq!(code(create(user.sdk(), &roots).await), is(400, "InvalidTag"));
    node.users()
        .put_user_policy(
            "ada",
            r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:CreateBucket","Resource":"*"}]}"#,
        )
        .await;
    assert_eq!(code(create(user.sdk(), &[tag("team", "blue")]).await), is(403, "AccessDenied"));
    assert_eq!(code(root.head_bucket().bucket("new").send().await), is(404, "NotFound"));
    create(user.sdk(), &[]).await.expect("without tags");
    root.delete_bucket().bucket("new").send().await.expect("deleted");
    create(&root, &roots).await.expect("root's");
}

/// The keys of AWS for the tags that a request gives to what is not an object.
#[tokio::test]
async fn the_tags_that_a_bucket_gets_may_be_denied() {
    let (node, root) = a_bucket().await;
    let denied = denied("s3:*", "aws:RequestTag/team", "finance");
    let key = a_user(&node, &denied).await;
    let user = node.s3_with(&key);
    let create = async |name: &str, team: &str| {
        let made = CreateBucketConfiguration::builder().tags(tag("team", team)).build();
        code(user.sdk().create_bucket().bucket(name).create_bucket_configuration(made).send().await)
    };
    let put = async |team: &str| {
        let tags = Tagging::builder().tag_set(tag("team", team)).build().expect("tags");
        user.sdk().put_bucket_tagging().bucket(BUCKET).tagging(tags).send().await
    };
    assert_eq!(create("new", "finance").await, is(403, "AccessDenied"));
    assert_eq!(code(root.head_bucket().bucket("new").send().await), is(404, "NotFound"));
    put("blue").await.expect("no tag that is denied");
    assert_eq!(code(put("finance").await), is(403, "AccessDenied"));
    let tags = root.get_bucket_tagging().bucket(BUCKET).send().await.expect("tags").tag_set;
    assert_eq!(tags, [tag("team", "blue")]);
    user.sdk().delete_bucket_tagging().bucket(BUCKET).send().await.expect("it gives no tag");
}

/// A right to a bucket's name that holds while the bucket is the one that it was given to.
#[tokio::test]
async fn a_right_may_depend_on_roots_tags_of_the_bucket_and_on_no_other_tag() {
    let (node, root) = a_bucket().await;
    let key = node.users().user("ada").await;
    let allow = |tag: &str, value: &str| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"s3:*","Resource":["arn:aws:s3:::{BUCKET}","arn:aws:s3:::{BUCKET}/*"],"Condition":{{"StringEquals":{{"s3:BucketTag/{tag}":"{value}"}}}}}}]}}"#
        )
    };
    node.users().put_user_policy("ada", &allow("sherd.dev/bucket", "a/data")).await;
    let user = node.s3_with(&key);
    let get = async || code(user.sdk().get_object().bucket(BUCKET).key("k").send().await);
    let mark = async |tags: &[Tag]| {
        let set = Tagging::builder().set_tag_set(Some(tags.to_vec())).build().expect("a set");
        root.put_bucket_tagging().bucket(BUCKET).tagging(set).send().await.expect("root's");
    };
    assert_eq!(get().await, is(403, "AccessDenied"), "without a mark");
    mark(&[tag("sherd.dev/bucket", "a/data"), tag("team", "blue")]).await;
    assert_eq!(get().await, is(404, "NoSuchKey"));
    user.sdk().put_object().bucket(BUCKET).key("k").send().await.expect("allowed");
    user.sdk().copy_object().bucket(BUCKET).key("l").copy_source("bucket/k").send().await.expect("allowed");
    let delete =
        async |key: &str| root.delete_object().bucket(BUCKET).key(key).send().await.expect("deleted");
    delete("k").await;
    delete("l").await;
    root.delete_bucket().bucket(BUCKET).send().await.expect("empty");
    let made = CreateBucketConfiguration::builder().tags(tag("sherd.dev/bucket", "b/data")).build();
    let create = root.create_bucket().bucket(BUCKET).create_bucket_configuration(made);
    create.send().await.expect("made again");
    assert_eq!(get().await, is(403, "AccessDenied"), "the bucket of another");
    node.users().put_user_policy("ada", &allow("team", "blue")).await;
    mark(&[tag("team", "blue")]).await;
    assert_eq!(
        get().await,
        is(403, "AccessDenied"),
        "as in a bucket of S3 without access control by attributes"
    );
}

#[tokio::test]
async fn a_copy_that_keeps_tags_is_judged_by_those_of_its_source() {
    for action in ["s3:PutObject", "s3:PutObjectTagging"] {
        let (node, client) = a_bucket().await;
        let key = a_user(&node, &denied(action, "s3:RequestObjectTag/class", "secret")).await;
        let user = node.s3_with(&key);
        for class in ["public", "secret"] {
            let put = client.put_object().bucket(BUCKET).key(class).tagging(format!("class={class}"));
            put.send().await.expect("an object");
        }
        let copy = |source: &str, tags: &str| {
            let copy = user.sdk().copy_object().bucket(BUCKET).key("copy").tagging(tags);
            copy.copy_source(format!("{BUCKET}/{source}"))
        };
        let kept = copy("secret", "class=public").send().await;
        assert_eq!(code(kept), is(403, "AccessDenied"), "{action}: the header does not count");
        copy("public", "class=secret").send().await.expect("the header does not count");
        let replaced = |tags| copy("secret", tags).tagging_directive(TaggingDirective::Replace).send();
        assert_eq!(code(replaced("class=secret").await), is(403, "AccessDenied"), "{action}");
        replaced("class=public").await.expect("tags that may be given");
    }
}

#[tokio::test]
async fn headers_of_a_copy_hide_no_tags_of_another_write() {
    for action in ["s3:PutObject", "s3:PutObjectTagging"] {
        let (node, _client) = a_bucket().await;
        let key = a_user(&node, &denied(action, "s3:RequestObjectTag/class", "secret")).await;
        let user = node.s3_with(&key);
        let create = |class: &str| {
            let create = user.sdk().create_multipart_upload().bucket(BUCKET).key("k");
            let create = create.tagging(format!("class={class}")).customize().mutate_request(|request| {
                request.headers_mut().insert("x-amz-copy-source", "bucket/other");
                request.headers_mut().insert("x-amz-tagging-directive", "COPY");
            });
            create.send()
        };
        assert_eq!(code(create("secret").await), is(403, "AccessDenied"), "{action}");
        create("public").await.expect("tags that may be given");
    }
}

#[tokio::test]
async fn tags_that_may_not_be_read_are_not_copied() {
    let (node, client) = a_bucket().await;
    let key = a_user(&node, &denied("s3:GetObjectTagging", "s3:ExistingObjectTag/hidden", "yes")).await;
    let user = node.s3_with(&key);
    for (name, tags) in [("hidden", "hidden=yes"), ("shown", "hidden=no"), ("bare", "")] {
        client.put_object().bucket(BUCKET).key(name).tagging(tags).send().await.expect("an object");
    }
    let copy = |source: &str| {
        let copy = user.sdk().copy_object().bucket(BUCKET).key("copy");
        copy.copy_source(format!("{BUCKET}/{source}")).send()
    };
    assert_eq!(code(copy("hidden").await), is(403, "AccessDenied"));
    for name in ["shown", "bare"] {
        copy(name).await.expect(name);
    }
}

#[tokio::test]
async fn only_who_may_read_the_tags_of_an_object_is_told_how_many_there_are() {
    let (node, client) = a_bucket().await;
    let key = a_user(&node, &denied("s3:GetObjectTagging", "s3:ExistingObjectTag/hidden", "yes")).await;
    let user = node.s3_with(&key);
    for (name, count) in [("hidden", None), ("shown", Some(1))] {
        let tags = if count.is_some() { "hidden=no" } else { "hidden=yes" };
        client.put_object().bucket(BUCKET).key(name).tagging(tags).send().await.expect("an object");
        let got = user.sdk().get_object().bucket(BUCKET).key(name).send().await.expect("an object");
        assert_eq!(got.tag_count(), count, "{name}");
        let roots = client.get_object().bucket(BUCKET).key(name).send().await.expect("an object");
        assert_eq!(roots.tag_count(), Some(1), "{name}");
    }
}

/// Lets `others` run until `first` has ended.
async fn while_others(first: impl Future<Output = ()> + Unpin, others: impl Future<Output = ()> + Unpin) {
    match future::select(first, others).await {
        Either::Left(_) => {}
        Either::Right(_) => panic!("the others go on"),
    }
}

/// How often an owner changes an object while another works on it.
const CHANGES: usize = 60;

#[tokio::test]
async fn a_change_of_tags_replaces_those_that_allowed_it() {
    let (node, client) = a_bucket().await;
    let key = a_user(&node, &denied("s3:*ObjectTagging", "s3:ExistingObjectTag/locked", "yes")).await;
    let user = node.s3_with(&key);
    let tagging = |key| Tagging::builder().tag_set(tag(key, "yes")).build().expect("a set");
    let set = |client: &Client, key| {
        client.put_object_tagging().bucket(BUCKET).key("k").tagging(tagging(key)).send()
    };
    put(&client, "k", "v").await;
    let owner = async {
        for _ in 0..CHANGES {
            set(&client, "locked").await.expect("locked");
            for _ in 0..3 {
                let tags = client.get_object_tagging().bucket(BUCKET).key("k").send().await.expect("tags");
                assert_eq!(tags.tag_set()[0].key(), "locked", "nothing replaces these tags");
            }
            assert_eq!(code(set(user.sdk(), "mine").await), is(403, "AccessDenied"));
            set(&client, "open").await.expect("unlocked");
        }
    };
    let others = async {
        loop {
            let deleted = user.sdk().delete_object_tagging().bucket(BUCKET).key("k").send();
            // Each of them is answered as it is judged: allowed, denied, or too often changed.
            let _ = future::join(Box::pin(set(user.sdk(), "mine")), Box::pin(deleted)).await;
        }
    };
    while_others(Box::pin(owner), Box::pin(others)).await;
}

#[tokio::test]
async fn what_may_not_be_read_is_not_copied_when_it_takes_the_place_of_what_may() {
    let (node, client) = a_bucket().await;
    let key = a_user(&node, &denied("s3:GetObject*", "s3:ExistingObjectTag/class", "secret")).await;
    let user = node.s3_with(&key);
    let store = async |class: &str| {
        let put = client.put_object().bucket(BUCKET).key("k").tagging(format!("class={class}"));
        put.body(class.as_bytes().to_vec().into()).send().await.expect("an object");
    };
    store("public").await;
    let owner = async {
        for _ in 0..CHANGES {
            store("secret").await;
            store("public").await;
        }
    };
    let source = format!("{BUCKET}/k");
    let others = async {
        loop {
            let copy = user.sdk().copy_object().bucket(BUCKET).key("copy").copy_source(&source);
            let copy = copy.tagging_directive(TaggingDirective::Replace);
            if copy.send().await.is_ok() {
                assert_eq!(get(&client, "copy").await, b"public");
            }
            let attributes = user.sdk().get_object_attributes().bucket(BUCKET).key("k");
            let attributes = attributes.object_attributes(ObjectAttributes::Etag);
            if let Ok(attributes) = attributes.send().await {
                assert_eq!(
                    attributes.e_tag(),
                    Some("4c9184f37cff01bcdc32dc486ec36961"),
                    "that of \"public\""
                );
            }
        }
    };
    while_others(Box::pin(owner), Box::pin(others)).await;
}
