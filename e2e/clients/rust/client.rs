//! The steps of e2e/clients/README.md with the AWS SDK for Rust at its default settings.
//!
//! SHERD_ENDPOINT names the store; credentials and region come from the environment. The SDK has no manager
//! of transfers: parts are sent one by one.

use std::env;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::presigning::{PresignedRequest, PresigningConfig};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    ChecksumAlgorithm, ChecksumMode, CompletedMultipartUpload, CompletedPart, CorsConfiguration, CorsRule,
    Delete, ObjectIdentifier, PolicyStatus, PublicAccessBlockConfiguration, Tag, Tagging, TaggingDirective,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const SMALL: &[u8] = b"small";
/// CRC32 of `SMALL`, as S3 writes it.
const SMALL_CRC32: &str = "dUXqEw==";
const LARGE_BYTES: usize = 6 << 20;
/// Bytes of every part but the last.
const PART_BYTES: usize = 8 << 20;
/// Bytes of what is sent in parts.
const MULTIPART_BYTES: usize = 20 << 20;

struct Story {
    s3: Client,
    bucket: String,
    large: Vec<u8>,
}

impl Story {
    fn new(endpoint: &str) -> Outcome<Self> {
        let (id, secret) = (env::var("AWS_ACCESS_KEY_ID")?, env::var("AWS_SECRET_ACCESS_KEY")?);
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .endpoint_url(endpoint)
            .region(Region::new(env::var("AWS_REGION")?))
            .credentials_provider(Credentials::new(id, secret, None, None, "environment"))
            // An address in place of a name has no place for the bucket but the path.
            .force_path_style(true)
            .build();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        Ok(Self {
            s3: Client::from_conf(config),
            bucket: format!("rust-{now}"),
            large: bytes_of(1, LARGE_BYTES),
        })
    }

    async fn put_body(&self, key: &str, body: &[u8]) -> Outcome {
        let body = ByteStream::from(body.to_vec());
        self.s3.put_object().bucket(&self.bucket).key(key).body(body).send().await?;
        Ok(())
    }

    async fn holds(&self, key: &str, expected: &[u8]) -> Outcome {
        let found = self.s3.get_object().bucket(&self.bucket).key(key).send().await?;
        same(&found.body.collect().await?.into_bytes(), expected)
    }

    async fn create_bucket(&self) -> Outcome {
        self.s3.create_bucket().bucket(&self.bucket).send().await?;
        Ok(())
    }

    async fn put(&self) -> Outcome {
        self.put_body("small", SMALL).await?;
        self.put_body("large", &self.large).await?;
        self.put_body("empty", b"").await
    }

    async fn get(&self) -> Outcome {
        self.holds("small", SMALL).await?;
        self.holds("large", &self.large).await?;
        self.holds("empty", b"").await?;
        let range = self.s3.get_object().bucket(&self.bucket).key("large").range("bytes=5-14").send().await?;
        same(&range.body.collect().await?.into_bytes(), &self.large[5..15])
    }

    async fn head(&self) -> Outcome {
        let found = self.s3.head_object().bucket(&self.bucket).key("large").send().await?;
        equal(&found.content_length(), &i64::try_from(LARGE_BYTES).ok())?;
        refused(404, self.s3.head_object().bucket(&self.bucket).key("missing").send().await)
    }

    async fn checksum(&self) -> Outcome {
        let put =
            self.s3.put_object().bucket(&self.bucket).key("checksum").body(ByteStream::from_static(SMALL));
        put.checksum_algorithm(ChecksumAlgorithm::Crc32).checksum_crc32(SMALL_CRC32).send().await?;
        let get = self.s3.get_object().bucket(&self.bucket).key("checksum");
        let found = get.checksum_mode(ChecksumMode::Enabled).send().await?;
        equal(&found.checksum_crc32(), &Some(SMALL_CRC32))?;
        same(&found.body.collect().await?.into_bytes(), SMALL)
    }

    async fn list(&self) -> Outcome {
        let expected: Vec<_> = (0..5).map(|number| format!("list/{number}/")).collect();
        for prefix in &expected {
            self.put_body(&format!("{prefix}a"), SMALL).await?;
        }
        let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix("list/").delimiter("/").max_keys(2);
        let (mut pages, mut found) = (list.into_paginator().send(), Vec::new());
        while let Some(page) = pages.next().await {
            found.extend(
                page?.common_prefixes().iter().filter_map(|prefix| prefix.prefix().map(str::to_owned)),
            );
        }
        equal(&found, &expected)
    }

    async fn multipart(&self) -> Outcome {
        let (key, body) = ("multipart", bytes_of(2, MULTIPART_BYTES));
        let upload = self.s3.create_multipart_upload().bucket(&self.bucket).key(key);
        let upload = upload.tagging("sent=in+parts").send().await?;
        let upload = upload.upload_id().ok_or("an upload without an id")?;
        let mut parts = CompletedMultipartUpload::builder();
        for (number, bytes) in (1..).zip(body.chunks(PART_BYTES)) {
            let part = self.s3.upload_part().bucket(&self.bucket).key(key).upload_id(upload);
            let part = part.part_number(number).body(ByteStream::from(bytes.to_vec())).send().await?;
            // The default checksum of a part is of no use without the others, and need not be named.
            parts = parts.parts(CompletedPart::builder().part_number(number).set_e_tag(part.e_tag).build());
        }
        let complete = self.s3.complete_multipart_upload().bucket(&self.bucket).key(key).upload_id(upload);
        complete.multipart_upload(parts.build()).send().await?;
        self.holds(key, &body).await?;
        self.tagged(key, &[("sent", "in parts")]).await
    }

    async fn copy(&self) -> Outcome {
        let source = format!("{}/large", self.bucket);
        self.s3.copy_object().bucket(&self.bucket).key("copy").copy_source(source).send().await?;
        self.holds("copy", &self.large).await
    }

    async fn conditional_put(&self) -> Outcome {
        let once = || self.s3.put_object().bucket(&self.bucket).key("once").if_none_match("*");
        once().body(ByteStream::from_static(SMALL)).send().await?;
        refused(412, once().body(ByteStream::from(self.large.clone())).send().await)?;
        self.holds("once", SMALL).await
    }

    async fn tagged(&self, key: &str, expected: &[(&str, &str)]) -> Outcome {
        let found = self.s3.get_object_tagging().bucket(&self.bucket).key(key).send().await?;
        equal(&pairs(found.tag_set()), &expected.to_vec())
    }

    async fn object_tags(&self) -> Outcome {
        let put =
            self.s3.put_object().bucket(&self.bucket).key("tagged").body(ByteStream::from_static(SMALL));
        put.tagging("kind=first&note=two%20words%2B").send().await?;
        self.tagged("tagged", &[("kind", "first"), ("note", "two words+")]).await?;
        let found = self.s3.get_object().bucket(&self.bucket).key("tagged").send().await?;
        equal(&found.tag_count(), &Some(2))?;
        let put = self.s3.put_object_tagging().bucket(&self.bucket).key("tagged");
        put.tagging(tagging(&[("kind", "second")])?).send().await?;
        self.tagged("tagged", &[("kind", "second")]).await?;
        let source = format!("{}/tagged", self.bucket);
        let copy = || self.s3.copy_object().bucket(&self.bucket).copy_source(&source);
        copy().key("with its tags").send().await?;
        self.tagged("with its tags", &[("kind", "second")]).await?;
        let replace = copy().key("with others").tagging_directive(TaggingDirective::Replace);
        replace.tagging("kind=third").send().await?;
        self.tagged("with others", &[("kind", "third")]).await?;
        self.s3.delete_object_tagging().bucket(&self.bucket).key("tagged").send().await?;
        self.tagged("tagged", &[]).await
    }

    async fn bucket_tags(&self) -> Outcome {
        let get = || self.s3.get_bucket_tagging().bucket(&self.bucket).send();
        let tags = [("cost", "1"), ("kind", "a bucket")];
        code("NoSuchTagSet", get().await)?;
        self.s3.put_bucket_tagging().bucket(&self.bucket).tagging(tagging(&tags)?).send().await?;
        equal(&pairs(get().await?.tag_set()), &tags.to_vec())?;
        self.s3.delete_bucket_tagging().bucket(&self.bucket).send().await?;
        code("NoSuchTagSet", get().await)
    }

    async fn cors(&self) -> Outcome {
        let get = || self.s3.get_bucket_cors().bucket(&self.bucket).send();
        code("NoSuchCORSConfiguration", get().await)?;
        let rule = CorsRule::builder().id("pages").allowed_origins("http://*.test").allowed_methods("GET");
        let rule =
            rule.allowed_methods("PUT").allowed_headers("*").expose_headers("ETag").max_age_seconds(300);
        let rules = vec![rule.build()?];
        let cors = CorsConfiguration::builder().set_cors_rules(Some(rules.clone())).build()?;
        self.s3.put_bucket_cors().bucket(&self.bucket).cors_configuration(cors).send().await?;
        equal(&get().await?.cors_rules(), &rules.as_slice())?;
        self.s3.delete_bucket_cors().bucket(&self.bucket).send().await?;
        code("NoSuchCORSConfiguration", get().await)
    }

    async fn policy(&self) -> Outcome {
        let get = || self.s3.get_bucket_policy().bucket(&self.bucket).send();
        let everyone = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":"*",
                "Action":"s3:GetObject","Resource":"arn:aws:s3:::{}/*"}}]}}"#,
            self.bucket
        );
        let put = || self.s3.put_bucket_policy().bucket(&self.bucket).policy(&everyone).send();
        code("NoSuchBucketPolicy", get().await)?;
        code("AccessDenied", put().await)?;
        self.s3.delete_public_access_block().bucket(&self.bucket).send().await?;
        let block = self.s3.get_public_access_block().bucket(&self.bucket).send().await;
        code("NoSuchPublicAccessBlockConfiguration", block)?;
        put().await?;
        equal(&get().await?.policy(), &Some(everyone.as_str()))?;
        let status = self.s3.get_bucket_policy_status().bucket(&self.bucket).send().await?;
        equal(&status.policy_status().and_then(PolicyStatus::is_public), &Some(true))?;
        let block = PublicAccessBlockConfiguration::builder()
            .block_public_policy(true)
            .restrict_public_buckets(true)
            .build();
        let put_block = self.s3.put_public_access_block().bucket(&self.bucket);
        put_block.public_access_block_configuration(block).send().await?;
        self.s3.delete_bucket_policy().bucket(&self.bucket).send().await?;
        code("NoSuchBucketPolicy", get().await)
    }

    async fn presigned_get(&self) -> Outcome {
        let get = self.s3.get_object().bucket(&self.bucket).key("large");
        same(&http(&get.presigned(an_hour()?).await?, b"").await?.1, &self.large)
    }

    async fn presigned_head(&self) -> Outcome {
        let head = self.s3.head_object().bucket(&self.bucket).key("large");
        let (head, body) = http(&head.presigned(an_hour()?).await?, b"").await?;
        equal(&head.to_lowercase().contains(&format!("\r\ncontent-length: {LARGE_BYTES}\r\n")), &true)?;
        same(&body, b"")
    }

    async fn presigned_put(&self) -> Outcome {
        let put = self.s3.put_object().bucket(&self.bucket).key("presigned");
        http(&put.presigned(an_hour()?).await?, SMALL).await?;
        self.holds("presigned", SMALL).await
    }

    async fn delete(&self) -> Outcome {
        self.s3.delete_object().bucket(&self.bucket).key("small").send().await?;
        let listed = self.s3.list_objects_v2().bucket(&self.bucket).send().await?;
        let mut objects = Delete::builder();
        for object in listed.contents() {
            objects = objects.objects(ObjectIdentifier::builder().set_key(object.key.clone()).build()?);
        }
        let deleted = self.s3.delete_objects().bucket(&self.bucket).delete(objects.build()?).send().await?;
        equal(&deleted.errors().len(), &0)?;
        let left = self.s3.list_objects_v2().bucket(&self.bucket).send().await?;
        equal(&left.key_count(), &Some(0))
    }

    async fn delete_bucket(&self) -> Outcome {
        self.s3.delete_bucket().bucket(&self.bucket).send().await?;
        Ok(())
    }
}

/// Bytes that do not repeat (splitmix64).
fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    let words = (1..).map(|step: u64| {
        let mut mixed = seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    });
    words.flatten().take(len).collect()
}

fn an_hour() -> Outcome<PresigningConfig> {
    Ok(PresigningConfig::expires_in(Duration::from_hours(1))?)
}

fn same(found: &[u8], expected: &[u8]) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("found {} bytes that are not the {} expected", found.len(), expected.len()).into())
}

fn equal<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}").into()) }
}

/// Succeeds where a request was refused with this status.
fn refused<T, E>(status: u16, result: Result<T, SdkError<E>>) -> Outcome
where
    SdkError<E>: std::error::Error + 'static,
{
    match result {
        Err(SdkError::ServiceError(error)) => equal(&error.raw().status().as_u16(), &status),
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("succeeded, expected {status}").into()),
    }
}

/// Succeeds where a request was refused with this code.
fn code<T, E: ProvideErrorMetadata>(code: &str, result: Result<T, SdkError<E>>) -> Outcome {
    equal(&result.err().as_ref().and_then(ProvideErrorMetadata::code), &Some(code))
}

fn tagging(tags: &[(&str, &str)]) -> Outcome<Tagging> {
    let tags = tags.iter().map(|(key, value)| Tag::builder().key(*key).value(*value).build());
    Ok(Tagging::builder().set_tag_set(Some(tags.collect::<Result<_, _>>()?)).build()?)
}

/// Tags in the order of their keys.
fn pairs(tags: &[Tag]) -> Vec<(&str, &str)> {
    let mut pairs: Vec<_> = tags.iter().map(|tag| (tag.key(), tag.value())).collect();
    pairs.sort_unstable();
    pairs
}

/// Sends a request as a program without an S3 library does, and returns the answer's head and body.
async fn http(signed: &PresignedRequest, body: &[u8]) -> Outcome<(String, Vec<u8>)> {
    let address = signed.uri().strip_prefix("http://").ok_or("plain HTTP")?;
    let (host, path) = address.split_once('/').ok_or("a path")?;
    let (method, len) = (signed.method(), body.len());
    let head = format!(
        "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or("an answer without a head")?;
    let body = answer.split_off(end + 4);
    let head = String::from_utf8_lossy(&answer).into_owned();
    if head.starts_with("HTTP/1.1 200 ") {
        return Ok((head, body));
    }
    Err(format!("{head}{}", String::from_utf8_lossy(&body)).into())
}

fn step(name: &str, outcome: Outcome) -> bool {
    match outcome {
        Ok(()) => {
            println!("{name}\tok");
            true
        }
        Err(error) => {
            println!("{name}\tFAILED {}", format!("{error:?}").replace('\n', " "));
            false
        }
    }
}

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let story = Story::new(&env::var("SHERD_ENDPOINT")?)?;
    let done = [
        step("create bucket", story.create_bucket().await),
        step("put", story.put().await),
        step("get", story.get().await),
        step("head", story.head().await),
        step("checksum", story.checksum().await),
        step("list", story.list().await),
        step("multipart", story.multipart().await),
        step("copy", story.copy().await),
        step("conditional put", story.conditional_put().await),
        step("tags", story.object_tags().await),
        step("bucket tags", story.bucket_tags().await),
        step("cors", story.cors().await),
        step("policy", story.policy().await),
        step("presigned get", story.presigned_get().await),
        step("presigned head", story.presigned_head().await),
        step("presigned put", story.presigned_put().await),
        step("delete", story.delete().await),
        step("delete bucket", story.delete_bucket().await),
    ];
    Ok(if done.iter().all(|done| *done) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
