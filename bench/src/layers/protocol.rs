//! L2, the S3 protocol: the node's protocol service (authentication, s3s, headers) over operations
//! that store nothing. A PUT is drained, a GET answers the bytes that its key stands for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, TryStreamExt as _};
use s3s::dto::{ETag, GetObjectInput, GetObjectOutput, PutObjectInput, PutObjectOutput, StreamingBlob};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3, S3Request, S3Response, S3Result, StdError, s3_error};
use sherd_node::machine::system::{SystemClock, SystemRng};
use sherd_node::process::config::credentials::Credentials;
use sherd_node::s3::auth::{Secret, StaticCredentials};
use sherd_node::s3::protocol::{Config, Limits, Protocol};

use super::clients::tasks;
use super::error::Error;
use super::payload::{Arena, Body};
use super::service::ServiceClient;
use super::sign::{REGION, Signer};
use super::store::runtime;
use super::{Layer, Session};

/// The entity tag of whatever was put.
const ETAG: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// An object's bytes on their way out.
struct Answer(Body);

impl Stream for Answer {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next_piece().map(Ok))
    }
}

impl ByteStream for Answer {
    fn remaining_length(&self) -> RemainingLength {
        let left = usize::try_from(self.0.left());
        left.map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}

/// Operations that store nothing.
struct Nothing {
    arena: Arena,
    bytes: u64,
}

#[async_trait::async_trait]
impl S3 for Nothing {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let mut bytes = 0;
        if let Some(mut body) = request.input.body {
            while let Some(piece) = body.try_next().await.map_err(|_| s3_error!(IncompleteBody))? {
                bytes += piece.len() as u64;
            }
        }
        if bytes != self.bytes {
            return Err(s3_error!(IncompleteBody));
        }
        let e_tag = Some(ETag::Strong(ETAG.to_owned()));
        Ok(S3Response::new(PutObjectOutput { e_tag, ..PutObjectOutput::default() }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let number = request.input.key.strip_prefix('k').and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let number = number.ok_or_else(|| s3_error!(NoSuchKey))?;
        let output = GetObjectOutput {
            body: Some(StreamingBlob::new(Answer(self.arena.body(number, self.bytes)))),
            e_tag: Some(ETag::Strong(ETAG.to_owned())),
            ..GetObjectOutput::default()
        };
        Ok(S3Response::new(output))
    }
}

/// Measures the layer at one size.
///
/// # Errors
/// [`Error`]
pub(super) fn run(session: &mut Session, bytes: u64) -> Result<(), Error> {
    let runtime = runtime()?;
    let credentials = Credentials::random(&SystemRng);
    let secret = Secret::new(credentials.secret_access_key.expose());
    let config = Config {
        region: REGION.to_owned(),
        domains: Vec::new(),
        host_id: "bench".to_owned(),
        request_id_seed: 0,
        limits: Limits::default(),
    };
    let known = StaticCredentials::single(&credentials.access_key_id, secret);
    let store = Nothing { arena: session.arena().clone(), bytes };
    let protocol = Protocol::new(config, Arc::new(known), Arc::new(SystemClock::new()), store);
    for (op, clients) in session.cells(Layer::Protocol, bytes) {
        let signer = Arc::new(Signer::new(&credentials, "127.0.0.1".to_owned()));
        let client = |work| ServiceClient { protocol: protocol.clone(), signer: Arc::clone(&signer), work };
        let team = session.team(op, bytes, clients).into_iter().map(client).collect();
        let measured = runtime
            .block_on(tasks(team, session.pace()))
            .map_err(|source| Layer::Protocol.failure(op, bytes, source))?;
        session.note(Layer::Protocol, op, bytes, clients, &[], &measured);
    }
    Ok(())
}
