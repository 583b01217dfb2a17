//! s3s, built so that it serves only what came through this layer.
//!
//! Without an authentication provider s3s runs no access check and would serve anybody; with one
//! it asks the check on every request. So it gets a provider that knows no key (this layer has
//! taken the signatures off) and a check that wants the context which only this layer makes.

use std::sync::Arc;

use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Error, S3ErrorCode, S3Result};

use super::Limits;
use super::context::RequestContext;

struct NoKeys;

#[async_trait::async_trait]
impl S3Auth for NoKeys {
    async fn get_secret_key(&self, _access_key: &str) -> S3Result<SecretKey> {
        Err(S3Error::new(S3ErrorCode::AccessDenied))
    }
}

struct GatedRequest;

#[async_trait::async_trait]
impl S3Access for GatedRequest {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let admitted = RequestContext::of(cx.extensions_mut()).map(|context| context.operation);
        // s3s has a router of its own: what was admitted as one operation never runs as another.
        match admitted {
            Some(operation) if operation.name() == cx.s3_op().name() => Ok(()),
            _ => Err(S3Error::new(S3ErrorCode::AccessDenied)),
        }
    }
}

/// Builds s3s over the operations.
pub(super) fn service(s3: impl S3, limits: &Limits) -> S3Service {
    let mut config = S3Config::default();
    config.xml_max_body_size = usize::try_from(limits.xml_bytes_max).unwrap_or(usize::MAX);
    let mut builder = S3ServiceBuilder::new(s3);
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder.set_auth(NoKeys);
    builder.set_access(GatedRequest);
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use s3s::{Body, S3Request, S3Response};

    struct Open;

    #[async_trait::async_trait]
    impl S3 for Open {
        async fn list_buckets(
            &self,
            _request: S3Request<s3s::dto::ListBucketsInput>,
        ) -> S3Result<S3Response<s3s::dto::ListBucketsOutput>> {
            Ok(S3Response::new(s3s::dto::ListBucketsOutput::default()))
        }
    }

    #[tokio::test]
    async fn s3s_serves_nobody_who_did_not_come_through_the_layer() {
        let service = service(Open, &Limits::default());
        let request = http::Request::get("/").header("host", "h").body(Body::empty()).expect("a request");
        let answer = service.call(request).await.expect("an answer");
        assert_eq!(answer.status(), 403);
    }
}
