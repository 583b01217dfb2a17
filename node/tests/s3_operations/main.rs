//! Every S3 operation and every error of it, through AWS's own SDK, against a whole node.
//!
//! Each test has a node to itself. Parts that the SDK cannot send (a malformed range, a header twice) are put
//! into its requests before they are signed; parts that it does not show are read from the raw answer.

#[path = "../harness/mod.rs"]
mod harness;

mod attributes;
mod audit;
mod aws_policies;
mod bucket;
mod checksum;
mod checksum_algorithms;
mod conditional;
mod configuration;
mod copy;
mod cors;
mod delete;
mod etag;
mod form;
mod iam;
mod iam_renames;
mod keys;
mod letter;
mod listing;
mod metrics;
mod multipart;
mod multipart_checksums;
mod multipart_listing;
mod object;
mod policy;
mod public_access;
mod read;
mod restart;
mod root_keys;
mod settings;
mod simulate;
mod surface;
mod tag_rights;
mod tagging;
mod tls;
mod version_ids;
mod versions;
mod walk_through;
mod wire;

use std::fmt::Debug;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use harness::{Node, empty, node};

/// The bucket of nearly every test.
const BUCKET: &str = "bucket";
/// The least that a part has which is not the last.
const PART: usize = 5 << 20;

/// A node with a bucket, and a client of it.
async fn a_bucket() -> (Node, Client) {
    let node = node().await;
    let client = node.client();
    client.create_bucket().bucket(BUCKET).send().await.expect("a new bucket");
    (node, client)
}

/// Puts an object and returns its entity tag.
async fn put(client: &Client, key: &str, body: impl Into<Vec<u8>>) -> String {
    let body = ByteStream::from(body.into());
    let put = client.put_object().bucket(BUCKET).key(key).body(body).send().await.expect("an object");
    put.e_tag.expect("an object has an entity tag")
}

/// Reads an object whole.
async fn get(client: &Client, key: &str) -> Vec<u8> {
    let object = client.get_object().bucket(BUCKET).key(key).send().await.expect("the object");
    object.body.collect().await.expect("all of it").to_vec()
}

/// Bytes that repeat at no power of two.
fn some_bytes(len: usize) -> Vec<u8> {
    (0..=250_u8).cycle().take(len).collect()
}

/// How a request was refused.
#[derive(Debug)]
struct Refusal {
    status: u16,
    code: String,
    message: String,
    answer: HttpResponse,
}

impl Refusal {
    fn header(&self, name: &str) -> Option<&str> {
        self.answer.headers().get(name)
    }

    /// The XML of the answer.
    fn document(&self) -> &str {
        let bytes = self.answer.body().bytes().expect("an error is read whole");
        std::str::from_utf8(bytes).expect("an error is text")
    }
}

/// The refusal of a request that must be refused.
fn refused<T: Debug, E: ProvideErrorMetadata + Debug>(result: Result<T, SdkError<E>>) -> Refusal {
    let error = result.expect_err("the request is refused");
    let code = error.code().unwrap_or_default().to_owned();
    let message = error.message().unwrap_or_default().to_owned();
    let answer = error.into_raw();
    Refusal { status: answer.status().as_u16(), code, message, answer }
}

/// The answer behind an error of the SDK.
trait IntoRaw {
    fn into_raw(self) -> HttpResponse;
}

impl<E: Debug> IntoRaw for SdkError<E> {
    fn into_raw(self) -> HttpResponse {
        match self {
            Self::ServiceError(error) => error.into_raw(),
            Self::ResponseError(error) => error.into_raw(),
            other => panic!("the node answers: {other:?}"),
        }
    }
}

/// Status and code of a refusal.
fn code<T: Debug, E: ProvideErrorMetadata + Debug>(result: Result<T, SdkError<E>>) -> (u16, String) {
    let refusal = refused(result);
    (refusal.status, refusal.code)
}

/// The expected result of [`code`].
fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}
