//! `sherd-node import minio` into four nodes: keys sign requests with the ids and secrets that they had, may
//! do what they could, and a second run changes nothing. Its key is the one way to give a secret, and closed
//! to requests that a key signs.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{PublicAccessBlockConfiguration, Tag, Tagging};
use sherd_net::tls::{Role, TrustFiles};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::harness::binary;
use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::s3::done;
use crate::harness::users::AccessKey;

/// An export of a MinIO with made-up secrets.
const IAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/process/import/minio/testdata/iam.zip");
/// An export of its buckets.
const BUCKETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/process/import/minio/testdata/buckets.zip");

/// Runs `sherd-node import minio`; gives its exit code and what it printed.
async fn import(cluster: &TestCluster, admin: &TrustFiles, words: &[&str]) -> (Option<i32>, String) {
    let TrustFiles { ca, cert, key } = admin;
    let mut command = Command::new(binary());
    command.args(["import", "minio"]).args(words);
    command.args(["--endpoint", &cluster.addresses[1].to_string()]);
    for (flag, path) in [("--ca", ca), ("--cert", cert), ("--key", key)] {
        command.arg(flag).arg(path);
    }
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("asking does not panic").expect("the binary was built with the tests");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

fn code<T, E: ProvideErrorMetadata>(answered: Result<T, E>) -> Option<String> {
    answered.err().map(|error| error.code().unwrap_or("none").to_owned())
}

fn key(id: &str, secret: &str) -> AccessKey {
    AccessKey { id: id.to_owned(), secret: secret.to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_minio_go_on_signing() {
    let cluster = cluster_of(4).with_iam().start().await;
    cluster.until_whole().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let root = cluster.node(0).iam_client();
    let arguments = ["--iam", IAM, "--root-user", "rootmade"];
    let run = async |how: &str| import(&cluster, &admin, &[&arguments[..], &[how]].concat()).await;

    let (planned, text) = run("--plan").await;
    assert_eq!(planned, Some(7), "{text}");
    assert!(text.contains("to make    user ada\n") && text.contains("left out   policy admin: "), "{text}");
    assert!(!root.done("ListUsers", &[]).await.body.contains(">ada<"), "a plan makes nothing");
    let (applied, made) = run("--apply").await;
    assert_eq!(applied, Some(7), "{made}");
    assert!(made.contains("made       user ada\n") && !made.contains("failed"), "{made}");
    assert!(!made.contains("secret-"), "no secret is printed: {made}");

    let sdk = cluster.node(0).s3().sdk().clone();
    done("made", || sdk.create_bucket().bucket("app").send()).await;
    let (node, other) = (cluster.node(2), cluster.node(3));
    let ada = node.s3_with(&key("ada", "ada-secret-1"));
    let body = || ByteStream::from_static(b"body");
    done("its policy allows it", || ada.sdk().put_object().bucket("app").key("a").body(body()).send()).await;
    let denied = ada.sdk().delete_object().bucket("app").key("a").send().await;
    assert_eq!(code(denied).as_deref(), Some("AccessDenied"), "a policy of its own denies it");
    let reader = other.s3_with(&key("ADASERVICEACCOUNT002", "ada-service-secret-2"));
    done("it reads", || reader.sdk().get_object().bucket("app").key("a").send()).await;
    let denied = reader.sdk().put_object().bucket("app").key("b").body(body()).send().await;
    assert_eq!(code(denied).as_deref(), Some("AccessDenied"));
    let bob = other.s3_with(&key("bobs-lease", "bob-service-secret-4"));
    done("its parent may do all", || bob.sdk().delete_object().bucket("app").key("a").send()).await;
    for (id, secret, wanted) in [
        ("off", "off-secret-4", "InvalidAccessKeyId"),
        ("Ada", "ada-secret-1", "InvalidAccessKeyId"),
        ("ada", "ada-secret-2", "SignatureDoesNotMatch"),
        ("alone", "alone-secret-6", "AccessDenied"),
    ] {
        let listed = node.s3_with(&key(id, secret)).sdk().list_objects_v2().bucket("app").send().await;
        assert_eq!(code(listed).as_deref(), Some(wanted), "{id}");
    }

    let (again, text) = run("--apply").await;
    assert_eq!(again, Some(7), "{text}");
    let lines = |text: &str| text.trim_end().rsplit_once('\n').map(|(lines, _sums)| lines.to_owned());
    assert_eq!(lines(&text), lines(&made.replace("made       ", "is there   ")), "nothing is made twice");

    // The keys are disabled and enabled as all others.
    root.done("UpdateAccessKey", &[("UserName", "ada"), ("AccessKeyId", "ada"), ("Status", "Inactive")])
        .await;
    let listed = ada.sdk().list_objects_v2().bucket("app").send().await;
    assert_eq!(code(listed).as_deref(), Some("InvalidAccessKeyId"));
    let (_, text) = run("--apply").await;
    assert!(text.contains("differs    user ada: its key is Inactive\n"), "{text}");

    // A key that was deleted does not come back.
    root.done("DeleteAccessKey", &[("UserName", "ada"), ("AccessKeyId", "ada")]).await;
    let (_, text) = run("--apply").await;
    assert!(text.contains("differs    user ada: the user of this name has no such key"), "{text}");
    let listed = ada.sdk().list_objects_v2().bucket("app").send().await;
    assert_eq!(code(listed).as_deref(), Some("InvalidAccessKeyId"));
    let tags = root.done("ListUserTags", &[("UserName", "eve")]).await.body;
    assert!(!tags.contains("sherd-import"), "{tags}");

    // No request that a key signs gives one.
    let parameters = [
        ("UserName", "alone"),
        ("AccessKeyId", "given"),
        ("SecretAccessKey", "given-secret"),
        ("Status", "Active"),
    ];
    let (status, refusal) = root.refused("ImportAccessKey", &parameters).await;
    assert_eq!((status, refusal.as_str()), (403, "AccessDenied"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_of_a_minio_are_made_once_with_what_they_had() {
    let cluster = cluster_of(4).start().await;
    cluster.until_whole().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let run = async |how: &str| import(&cluster, &admin, &["--buckets", BUCKETS, how]).await;
    let sdk = cluster.node(0).s3().sdk().clone();
    let (planned, text) = run("--plan").await;
    assert_eq!(planned, Some(7), "{text}");
    assert!(text.contains("to make    bucket public: with policy, public\n"), "{text}");
    assert!(done("listed", || sdk.list_buckets().send()).await.buckets().is_empty(), "a plan makes nothing");
    let (applied, made) = run("--apply").await;
    assert_eq!(applied, Some(7), "{made}");
    assert!(made.contains("made       bucket app: with policy, tagging"), "{made}");
    assert_eq!(done("listed", || sdk.list_buckets().send()).await.buckets().len(), 5);
    let tags = done("it has tags", || sdk.get_bucket_tagging().bucket("app").send()).await;
    assert_eq!(tags.tag_set().len(), 2);
    let body = || ByteStream::from_static(b"open");
    done("root may", || sdk.put_object().bucket("public").key("a").body(body()).send()).await;
    let stranger = cluster.node(1).s3_anonymous();
    done("it is public", || stranger.sdk().get_object().bucket("public").key("a").send()).await;

    let (again, text) = run("--apply").await;
    assert_eq!((again, text.contains("made")), (Some(7), false), "{text}");
    // A part that a person changed stays, and a bucket that was closed is not opened again.
    let differs = async |line: &str| {
        let (code, text) = run("--apply").await;
        assert_eq!((code, text.contains(line)), (Some(7), true), "{text}");
    };
    done("deleted", || sdk.delete_bucket_tagging().bucket("app").send()).await;
    differs("differs    bucket app: the bucket of this name has no tagging\n").await;
    done("deleted", || sdk.delete_bucket_policy().bucket("public").send()).await;
    differs("differs    bucket public: the bucket of this name has no policy\n").await;
    let denied = stranger.sdk().get_object().bucket("public").key("a").send().await;
    assert_eq!(code(denied).as_deref(), Some("AccessDenied"));
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:GetObject",
        "Resource":"arn:aws:s3:::public/*"}]}"#;
    done("put", || sdk.put_bucket_policy().bucket("public").policy(policy).send()).await;
    differs("differs    bucket public: the bucket of this name has another policy\n").await;
    // A bucket of a run that was cut before its block went has the mark.
    done("deleted", || sdk.delete_bucket_policy().bucket("public").send()).await;
    let blocked = PublicAccessBlockConfiguration::builder().block_public_policy(true).build();
    sdk.put_public_access_block()
        .bucket("public")
        .public_access_block_configuration(blocked)
        .send()
        .await
        .expect("put");
    let mark = Tag::builder().key("sherd-import").value("under way").build().expect("a tag");
    let marking = Tagging::builder().tag_set(mark).build().expect("tags");
    done("put", || sdk.put_bucket_tagging().bucket("public").tagging(marking.clone()).send()).await;
    differs("finished   bucket public: with policy, public\n").await;
    done("it is public", || stranger.sdk().get_object().bucket("public").key("a").send()).await;
    let tags = sdk.get_bucket_tagging().bucket("public").send().await;
    assert_eq!(code(tags).as_deref(), Some("NoSuchTagSet"), "the mark is gone");
}

/// An export with one user, in a file.
fn export_of(path: &Path, name: &str, secret: &str) {
    let mut zip = ZipWriter::new(std::fs::File::create(path).expect("the folder is writable"));
    zip.start_file("iam-assets/users.json", SimpleFileOptions::default()).expect("a name");
    let users = serde_json::json!({name: {"secretKey": secret, "status": "enabled"}});
    zip.write_all(users.to_string().as_bytes()).expect("the disk has room");
    zip.finish().expect("the disk has room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_others_have_are_not_taken() {
    let cluster = cluster_of(4).with_iam().start().await;
    cluster.until_whole().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let root = cluster.node(0).iam_client();
    let file = cluster.node(0).dir().join("iam.zip");
    let path = file.to_str().expect("text");
    let apply = async |name: &str, secret: &str| {
        export_of(&file, name, secret);
        import(&cluster, &admin, &["--iam", path, "--apply"]).await
    };
    let (code, text) = apply(&root.access_key, "some-secret").await;
    assert_eq!(code, Some(7), "{text}");
    assert!(text.contains("is one of root"), "{text}");
    assert_eq!(apply("eve", "eve-secret-1").await.0, Some(0));
    assert_eq!(apply("eve", "eve-secret-1").await.0, Some(0));
    let (code, text) = apply("eve", "eve-secret-2").await;
    assert_eq!((code, text.contains("eve has another secret")), (Some(7), true), "{text}");
    root.done("CreateUser", &[("UserName", "bob")]).await;
    root.done("CreateAccessKey", &[("UserName", "bob")]).await;
    let (code, text) = apply("bob", "bob-secret-1").await;
    assert_eq!((code, text.contains("the user of this name has other keys")), (Some(7), true), "{text}");
}
