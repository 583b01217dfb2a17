//! HeadObject: everything that GetObject says, but for the bytes.

use s3s::Body;

use crate::answer::{Outcome, Response};
use crate::gateway::Gateway;
use crate::object::get_object::GetRequest;
use crate::request::Request;

pub(crate) async fn head(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let asked = GetRequest::of(request)?;
    let (_, described) = asked.read(|(info, range)| (info, range), |read| gateway.objects.head(read)).await?;
    Ok(described.with(Body::empty()))
}
