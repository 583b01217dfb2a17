//! Conditions on reads and writes, and that exactly one of many writers wins.

use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};

use super::*;

const WRITERS: usize = 16;

#[tokio::test]
async fn reads_obey_all_four_conditions() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "v").await;
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    let modified = head.last_modified().unwrap().secs();
    let (before, after) = (DateTime::from_secs(modified - 60), DateTime::from_secs(modified + 60));
    let get = || client.get_object().bucket(BUCKET).key("k");

    get().if_match(&etag).send().await.unwrap();
    get().if_match(etag.trim_matches('"')).send().await.unwrap();
    get().if_match("*").send().await.unwrap();
    get().if_match(format!("\"other\", {etag}")).send().await.unwrap();
    get().if_none_match("\"other\"").send().await.unwrap();
    get().if_modified_since(before).send().await.unwrap();
    get().if_unmodified_since(after).send().await.unwrap();

    let failed = refused(get().if_match("\"other\"").send().await);
    assert_eq!((failed.status, failed.code.as_str()), (412, "PreconditionFailed"));
    assert!(failed.document().contains("<Condition>If-Match</Condition>"), "{}", failed.document());
    assert_eq!(code(get().if_unmodified_since(before).send().await), is(412, "PreconditionFailed"));
    for unmodified in [
        refused(get().if_none_match(&etag).send().await),
        refused(get().if_none_match(format!("W/{etag}")).send().await),
        refused(get().if_none_match("*").send().await),
        refused(get().if_modified_since(after).send().await),
    ] {
        assert_eq!(unmodified.status, 304);
        assert_eq!(unmodified.header("etag"), Some(etag.as_str()));
        assert!(unmodified.header("last-modified").is_some());
        assert!(unmodified.document().is_empty());
    }
}

/// RFC 9110, section 15.4.5.
#[tokio::test]
async fn an_answer_that_nothing_changed_says_how_long_a_copy_may_be_kept() {
    let (_node, client) = a_bucket().await;
    let put = client.put_object().bucket(BUCKET).key("k").cache_control("max-age=9").metadata("m", "1");
    let put = put.expires(DateTime::from_secs(4_000_000_000)).content_type("a/b").send().await.unwrap();
    let etag = put.e_tag().unwrap();
    for unmodified in [
        refused(client.get_object().bucket(BUCKET).key("k").if_none_match(etag).send().await),
        refused(client.head_object().bucket(BUCKET).key("k").if_none_match(etag).send().await),
    ] {
        assert_eq!(unmodified.status, 304);
        assert_eq!(unmodified.header("cache-control"), Some("max-age=9"));
        assert_eq!(unmodified.header("expires"), Some("Tue, 02 Oct 2096 07:06:40 GMT"));
        assert_eq!(unmodified.header("etag"), Some(etag));
        assert_eq!(unmodified.header("x-amz-meta-m"), None);
    }
    let overridden = client.get_object().bucket(BUCKET).key("k").response_cache_control("no-store");
    let overridden = refused(overridden.if_none_match(etag).send().await);
    assert_eq!((overridden.status, overridden.header("cache-control")), (304, Some("no-store")));
}

#[tokio::test]
async fn conditions_on_tags_win_over_dates() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "v").await;
    let (past, future) = (DateTime::from_secs(1), DateTime::from_secs(4_000_000_000));
    let get = || client.get_object().bucket(BUCKET).key("k");
    get().if_match(&etag).if_unmodified_since(past).send().await.unwrap();
    get().if_none_match("\"other\"").if_modified_since(future).send().await.unwrap();
}

#[tokio::test]
async fn an_invalid_date_is_not_a_condition() {
    let (_node, client) = a_bucket().await;
    put(&client, "k", "v").await;
    let get = client.get_object().bucket(BUCKET).key("k").customize().mutate_request(|request| {
        request.headers_mut().insert("if-modified-since", "tomorrow");
        request.headers_mut().insert("if-unmodified-since", "yesterday");
    });
    get.send().await.unwrap();
}

#[tokio::test]
async fn a_head_obeys_conditions_too() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "v").await;
    let head = || client.head_object().bucket(BUCKET).key("k");
    head().if_match(&etag).send().await.unwrap();
    assert_eq!(refused(head().if_match("\"x\"").send().await).status, 412);
    assert_eq!(refused(head().if_none_match(&etag).send().await).status, 304);
}

#[tokio::test]
async fn a_put_creates_only_what_is_not_there() {
    let (_node, client) = a_bucket().await;
    let put = || client.put_object().bucket(BUCKET).key("k").if_none_match("*");
    put().send().await.unwrap();
    assert_eq!(code(put().send().await), is(412, "PreconditionFailed"));
    client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    put().send().await.unwrap();
    let other = client.put_object().bucket(BUCKET).key("k").if_none_match("\"etag\"").send().await;
    assert_eq!(code(other), is(501, "NotImplemented"));
    let both =
        client.put_object().bucket(BUCKET).key("k").if_none_match("*").if_match("\"etag\"").send().await;
    assert_eq!(code(both), is(501, "NotImplemented"));
}

#[tokio::test]
async fn a_put_replaces_only_what_it_names() {
    let (_node, client) = a_bucket().await;
    let put_if = |etag: &str| client.put_object().bucket(BUCKET).key("k").if_match(etag);
    assert_eq!(code(put_if("\"none\"").send().await), is(404, "NoSuchKey"));
    let etag = put(&client, "k", "1").await;
    assert_eq!(code(put_if("\"none\"").send().await), is(412, "PreconditionFailed"));
    let body = ByteStream::from_static(b"2");
    let second = put_if(&etag).body(body).send().await.unwrap();
    assert_eq!(code(put_if(&etag).send().await), is(412, "PreconditionFailed"));
    assert_eq!(get(&client, "k").await, b"2");
    put_if(second.e_tag().unwrap()).send().await.unwrap();
}

#[tokio::test]
async fn a_delete_removes_only_what_it_names() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "1").await;
    let delete = |etag: &str| client.delete_object().bucket(BUCKET).key("k").if_match(etag).send();
    assert_eq!(code(delete("\"none\"").await), is(412, "PreconditionFailed"));
    delete(&etag).await.unwrap();
    put(&client, "k", "2").await;
    delete("*").await.unwrap();
    assert_eq!(code(client.head_object().bucket(BUCKET).key("k").send().await), is(404, "NotFound"));
}

/// A client that lost the tag it meant to send must not write, or read, as if it had meant none.
#[tokio::test]
async fn an_empty_tag_is_refused_and_nothing_is_done() {
    let (_node, client) = a_bucket().await;
    let etag = put(&client, "k", "1").await;
    let upload = client.create_multipart_upload().bucket(BUCKET).key("k").send().await.unwrap();
    let id = upload.upload_id().expect("an upload has an id");
    let part = client.upload_part().bucket(BUCKET).key("k").upload_id(id).part_number(1);
    let part = part.body(ByteStream::from_static(b"2")).send().await.unwrap();
    let part = CompletedPart::builder().part_number(1).e_tag(part.e_tag().expect("a tag")).build();
    let parts = CompletedMultipartUpload::builder().parts(part).build();
    for name in ["if-match", "if-none-match"] {
        for blank in ["", "  "] {
            let refused = is(400, "InvalidArgument");
            let empty = move |request: &mut HttpRequest| drop(request.headers_mut().insert(name, blank));
            let put = client.put_object().bucket(BUCKET).key("k").body(ByteStream::from_static(b"3"));
            assert_eq!(code(put.customize().mutate_request(empty).send().await), refused, "{name}");
            let complete = client.complete_multipart_upload().bucket(BUCKET).key("k").upload_id(id);
            let complete = complete.multipart_upload(parts.clone()).customize().mutate_request(empty);
            assert_eq!(code(complete.send().await), refused, "{name}");
            let delete = client.delete_object().bucket(BUCKET).key("k").customize().mutate_request(empty);
            assert_eq!(code(delete.send().await), refused, "{name}");
            let get = client.get_object().bucket(BUCKET).key("k").customize().mutate_request(empty);
            assert_eq!(code(get.send().await), refused, "{name}");
            let head = client.head_object().bucket(BUCKET).key("k").customize().mutate_request(empty);
            assert_eq!(self::refused(head.send().await).status, 400, "{name}");
        }
    }
    let found = client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(found.e_tag(), Some(etag.as_str()));
}

/// Runs the puts at once and returns the bodies of those that succeeded; all others must have
/// failed by their condition. No two bodies of all rounds are the same, nor are their entity tags.
async fn race(round: usize, put: impl Fn() -> PutObjectFluentBuilder) -> Vec<String> {
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let body = format!("round {round}, writer {writer}");
        let put = put().body(ByteStream::from(body.clone().into_bytes()));
        tasks.spawn(async move { (put.send().await, body) });
    }
    let mut winners = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (result, body) = done.expect("a writer does not panic");
        match result {
            Ok(_) => winners.push(body),
            // AWS answers 409 where it found another write in flight.
            Err(error) => assert!(matches!(refused(Err::<(), _>(error)).status, 409 | 412)),
        }
    }
    winners
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_many_creates_a_key() {
    let (_node, client) = a_bucket().await;
    for round in 0..8 {
        let key = format!("k{round}");
        let put = || client.put_object().bucket(BUCKET).key(&key).if_none_match("*");
        let winners = race(round, put).await;
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(Some(get(&client, &key).await), winners.into_iter().next().map(String::into_bytes));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_many_replaces_a_version() {
    let (_node, client) = a_bucket().await;
    let mut etag = put(&client, "k", "start").await;
    for round in 0..8 {
        let winners = race(round, || client.put_object().bucket(BUCKET).key("k").if_match(&etag)).await;
        assert_eq!(winners.len(), 1, "{winners:?}");
        let object = client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
        object.e_tag().expect("an entity tag").clone_into(&mut etag);
        let body = object.body.collect().await.unwrap().to_vec();
        assert_eq!(Some(body), winners.into_iter().next().map(String::into_bytes));
    }
}
