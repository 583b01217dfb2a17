//! A bucket's ownership controls: `BucketOwnerEnforced`, as new buckets have them, or deleted. Other
//! ownerships would give access control lists an effect, and are refused.

use s3s::dto::{self, ObjectOwnership, OwnershipControlsRule};
use sherd_core::config::ownership::OwnershipControls;

use crate::answer::{self, Outcome, Response};
use crate::error::not_configured;
use crate::gateway::Gateway;
use crate::head::document;
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::Error;

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let config = gateway.objects.config(&bucket).await?;
    match config.ownership_controls().map_err(Error::from)?.map(|stored| **stored).unwrap_or_default() {
        OwnershipControls::BucketOwnerEnforced => {
            let object_ownership = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED);
            let rules = vec![OwnershipControlsRule { object_ownership }];
            answer::document(&dto::OwnershipControls { rules })
        }
        OwnershipControls::Deleted => {
            Err(not_configured(Code::OwnershipControlsNotFoundError, bucket.as_str()).into())
        }
    }
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let controls: dto::OwnershipControls = document::required(request.payload.into_document())?;
    let bucket = request.target.bucket_key();
    gateway.objects.head_bucket(bucket.clone()).await?;
    let [rule] = controls.rules.as_slice() else { return Err(Refusal::new(Code::MalformedXML).into()) };
    match rule.object_ownership.as_str() {
        ObjectOwnership::BUCKET_OWNER_ENFORCED => {
            gateway.objects.set_config(bucket, OwnershipControls::BucketOwnerEnforced).await?;
            Ok(answer::ok())
        }
        ObjectOwnership::BUCKET_OWNER_PREFERRED | ObjectOwnership::OBJECT_WRITER => {
            Err(Refusal::new(Code::AccessControlListNotSupported).into())
        }
        _ => Err(Refusal::new(Code::MalformedXML).into()),
    }
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.set_config(request.target.bucket_key(), OwnershipControls::Deleted).await?;
    Ok(answer::no_content())
}
