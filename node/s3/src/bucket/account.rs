//! The public access block of the account: operations of S3 Control, which SDKs sign for `s3`.
//!
//! Its settings count in every bucket beside the bucket's own.

use std::io::Write;

use s3s::dto::PublicAccessBlockConfiguration;
use s3s::xml::{SerResult, Serialize, Serializer};

use super::public_access::{self, GivenBlock};
use crate::answer::{self, Outcome, Response};
use crate::gateway::Gateway;
use crate::head::document;
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};

/// The namespace of S3 Control's documents.
const NAMESPACE: &str = "http://awss3control.amazonaws.com/doc/2018-08-20/";

pub(crate) async fn get_public_access_block(gateway: &Gateway, _request: Request<'_>) -> Outcome<Response> {
    match gateway.iam.account_view().await?.public_access_block {
        Some(block) => answer::document(&AccountBlock(public_access::shown(block))),
        None => Err(Refusal::new(Code::NoSuchPublicAccessBlockConfiguration).into()),
    }
}

pub(crate) async fn put_public_access_block(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let GivenBlock(block) = document::required(request.payload.into_document())?;
    gateway.iam.set_account_public_access_block(Some(block)).await?;
    Ok(answer::ok())
}

pub(crate) async fn delete_public_access_block(
    gateway: &Gateway,
    _request: Request<'_>,
) -> Outcome<Response> {
    gateway.iam.set_account_public_access_block(None).await?;
    Ok(answer::no_content())
}

/// A block as a document of S3 Control.
struct AccountBlock(PublicAccessBlockConfiguration);

impl Serialize for AccountBlock {
    fn serialize<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        serializer.content_with_ns("PublicAccessBlockConfiguration", NAMESPACE, &self.0)
    }
}
