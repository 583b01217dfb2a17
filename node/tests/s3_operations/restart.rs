//! Acknowledged writes are there after a stop and after a kill.

use super::*;

#[tokio::test]
async fn answered_writes_survive_a_stop() {
    let (node, client) = a_bucket().await;
    let body = some_bytes(3 << 20);
    put(&client, "small", "v").await;
    put(&client, "large", body.clone()).await;
    put(&client, "gone", "v").await;
    client.delete_object().bucket(BUCKET).key("gone").send().await.unwrap();
    let node = node.stop().await.start().await;
    let client = node.client();
    assert_eq!(get(&client, "small").await, b"v");
    assert_eq!(get(&client, "large").await, body);
    assert_eq!(code(client.get_object().bucket(BUCKET).key("gone").send().await), is(404, "NoSuchKey"));
}

#[tokio::test]
async fn answered_writes_survive_a_kill() {
    let (mut node, mut client) = a_bucket().await;
    for round in 0..3 {
        for number in 0..20 {
            put(&client, &format!("{round}/{number}"), some_bytes(number * 9_973)).await;
        }
        node = node.kill().await.start().await;
        client = node.client();
        for number in 0..20 {
            assert_eq!(get(&client, &format!("{round}/{number}")).await, some_bytes(number * 9_973));
        }
    }
    let listed = client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    assert_eq!(listed.key_count(), Some(60));
}

#[tokio::test]
async fn an_open_upload_survives_a_kill() {
    let (node, client) = a_bucket().await;
    let upload = multipart::begin(&client, "k").await;
    let first = multipart::send_part(&client, "k", &upload, 1, some_bytes(PART)).await;
    let node = node.kill().await.start().await;
    let client = node.client();
    let second = multipart::send_part(&client, "k", &upload, 2, b"tail".to_vec()).await;
    let parts =
        aws_sdk_s3::types::CompletedMultipartUpload::builder().set_parts(Some(vec![first, second])).build();
    let complete = client.complete_multipart_upload().bucket(BUCKET).key("k").upload_id(&upload);
    complete.multipart_upload(parts).send().await.unwrap();
    let expected: Vec<u8> = some_bytes(PART).into_iter().chain(*b"tail").collect();
    assert_eq!(get(&client, "k").await, expected);
}
