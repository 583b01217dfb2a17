//! Keys are bytes of text and nothing else: no path, no file name, no normal form.

use super::*;

fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "a",
        "a/b",
        "a/",
        "a//b",
        "/a",
        "//",
        "/",
        ".x",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/./b",
        "a b",
        "a+b",
        "a%2Fb",
        "a%",
        "a?b=c",
        "a#b",
        "a&b",
        "a;b",
        "a'b\"c",
        "<a>",
        "a\\b",
        "a:b",
        "a*b",
        "~a",
        "käse",
        "ka\u{308}se",
        "日本語/キー",
        "\u{1F9F1}",
        "\u{10FFFF}",
        "-",
        "con",
        "credentials.env",
    ]
    .map(str::to_owned)
    .into();
    keys.push("k".repeat(1024));
    keys.push("\u{e4}".repeat(512));
    keys
}

#[tokio::test]
async fn every_key_holds_an_object_of_its_own() {
    let (_node, client) = a_bucket().await;
    let mut keys = keys();
    for key in &keys {
        put(&client, key, format!("body of {key}")).await;
    }
    for key in &keys {
        assert_eq!(get(&client, key).await, format!("body of {key}").into_bytes(), "{key:?}");
    }
    let listed = client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    let listed: Vec<&str> = listed.contents().iter().filter_map(|object| object.key()).collect();
    keys.sort_unstable();
    assert_eq!(listed, keys, "in the order of their bytes");
    for key in &keys {
        client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
        assert_eq!(
            code(client.head_object().bucket(BUCKET).key(key).send().await),
            is(404, "NotFound"),
            "{key:?}"
        );
    }
    client.delete_bucket().bucket(BUCKET).send().await.unwrap();
}

#[tokio::test]
async fn a_key_of_1025_bytes_is_too_long() {
    let (_node, client) = a_bucket().await;
    let key = "k".repeat(1025);
    let too_long = is(400, "KeyTooLongError");
    assert_eq!(code(client.put_object().bucket(BUCKET).key(&key).send().await), too_long);
    assert_eq!(code(client.get_object().bucket(BUCKET).key(&key).send().await), too_long);
    assert_eq!(code(client.delete_object().bucket(BUCKET).key(&key).send().await), too_long);
}

#[tokio::test]
async fn control_characters_in_keys_survive_an_encoded_listing() {
    let (_node, client) = a_bucket().await;
    let keys = ["a\tb", "a\nb", "a\rb", "a\u{1}b"];
    for key in keys {
        put(&client, key, key).await;
        assert_eq!(get(&client, key).await, key.as_bytes(), "{key:?}");
    }
    let encoding = aws_sdk_s3::types::EncodingType::Url;
    let listed = client.list_objects_v2().bucket(BUCKET).encoding_type(encoding).send().await.unwrap();
    let listed: Vec<&str> = listed.contents().iter().filter_map(|object| object.key()).collect();
    assert_eq!(listed, ["a%01b", "a%09b", "a%0Ab", "a%0Db"]);
}

#[tokio::test]
async fn line_ends_in_keys_survive_a_plain_listing() {
    let (_node, client) = a_bucket().await;
    let keys = ["a\tb", "a\nb", "a\rb"];
    for key in keys {
        put(&client, key, "v").await;
    }
    let listed = client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    let listed: Vec<&str> = listed.contents().iter().filter_map(|object| object.key()).collect();
    assert_eq!(listed, keys);
}

/// XML cannot write it, so a list with such a key could not be read.
#[tokio::test]
async fn a_new_key_has_no_nul() {
    let (_node, client) = a_bucket().await;
    let (key, refused) = ("a\0b", is(400, "InvalidURI"));
    let body = ByteStream::from_static(b"v");
    assert_eq!(code(client.put_object().bucket(BUCKET).key(key).body(body).send().await), refused);
    assert_eq!(code(client.create_multipart_upload().bucket(BUCKET).key(key).send().await), refused);
    put(&client, "source", "v").await;
    let copy = client.copy_object().bucket(BUCKET).key(key).copy_source(format!("{BUCKET}/source"));
    assert_eq!(code(copy.send().await), refused);
    assert_eq!(code(client.head_object().bucket(BUCKET).key(key).send().await), is(404, "NotFound"));
}
