//! L7, a real client: the AWS SDK for Rust over loopback to a whole node in this process.
//!
//! The SDK runs on a runtime of its own, with its default checksums and no retries. What it
//! allocates is part of the figures; the layer `node` has the node's share alone.

use std::time::{Duration, Instant};

use aws_sdk_s3::Client as S3;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::primitives::ByteStream;

use super::clients::{Client, tasks};
use super::error::{Error, Failure};
use super::node::Node;
use super::service::Pieces;
use super::sign::REGION;
use super::store::{BUCKET, runtime};
use super::work::{Op, Work, key};
use super::{Layer, Session};
use crate::alloc::uncounted;

/// Bodies up to this many bytes are handed to the SDK in one buffer, larger ones as a stream.
const BUFFER_BYTES_MAX: u64 = 16 << 20;

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    let node = Node::new(session, session.filling(bytes))?;
    let runtime = runtime()?;
    for (op, clients) in session.cells(Layer::Sdk, bytes) {
        // A client of its own for each: as many connections, as with other layers.
        let team: Vec<_> = session
            .team(op, bytes, clients)
            .into_iter()
            .map(|work| SdkClient { s3: client(&node), work })
            .collect();
        let failed = |source| Layer::Sdk.failure(op, bytes, source);
        let measured = runtime.block_on(tasks(team, session.pace())).map_err(failed)?;
        session.note(Layer::Sdk, op.label(), bytes, clients, &measured);
    }
    drop(runtime);
    node.stop();
    Ok(())
}

fn client(node: &Node) -> S3 {
    let pair = &node.config.credentials;
    let secret = pair.secret_access_key.expose();
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(format!("http://{}", node.served.address))
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new(&pair.access_key_id, secret, None, None, "bench"))
        .force_path_style(true)
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .build();
    S3::from_conf(config)
}

struct SdkClient {
    s3: S3,
    work: Work,
}

impl SdkClient {
    fn body(&self, number: u64) -> ByteStream {
        let body = self.work.body(number);
        if self.work.bytes <= BUFFER_BYTES_MAX {
            return ByteStream::from(body.collect::<Vec<_>>().concat());
        }
        ByteStream::from_body_1_x(Pieces(body))
    }

    async fn get(&self, number: u64) -> Result<Duration, Failure> {
        let mut expected = self.work.body(number);
        let begun = Instant::now();
        let asked = self.s3.get_object().bucket(BUCKET).key(key(number)).send().await;
        let mut answer = asked.map_err(|error| Failure::of(DisplayErrorContext(&error).to_string()))?;
        while let Some(bytes) = answer.body.next().await {
            if !expected.is_next(&bytes.map_err(Failure::of)?) {
                return Err(Failure::OtherBytes);
            }
        }
        let took = begun.elapsed();
        if expected.left() > 0 { Err(Failure::OtherBytes) } else { Ok(took) }
    }
}

impl Client for SdkClient {
    async fn one(&mut self) -> Result<Duration, Failure> {
        let number = self.work.next();
        if self.work.op == Op::Get {
            return self.get(number).await;
        }
        let body = uncounted(|| self.body(number));
        let length = i64::try_from(self.work.bytes).map_err(Failure::of)?;
        let begun = Instant::now();
        let put = self.s3.put_object().bucket(BUCKET).key(key(number)).content_length(length).body(body);
        put.send().await.map_err(|error| Failure::of(DisplayErrorContext(&error).to_string()))?;
        Ok(begun.elapsed())
    }

    async fn check(&mut self) -> Result<(), Failure> {
        match self.work.written() {
            Some(number) => self.get(number).await.map(drop),
            None => Ok(()),
        }
    }
}
