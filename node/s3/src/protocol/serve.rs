//! Runs a request: admits it, hands it to what its row names, and completes the answer.

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use http_body::Body as HttpBody;
use s3s::Body;
use sherd_front::callers::Proof;
use sherd_front::decision::Fact;

use super::address::{self, Address, BadAddress};
use super::admitted::AdmittedRequest;
use super::audited;
use super::authorize::AskedOperation;
use super::body::TransportError;
use super::code::Code;
use super::context::{RequestId, Trailers};
use super::inner::Inner;
use super::intake::AddressedRequest;
use super::refusal::{Refusal, Side};
use super::respond::RespondContext;
use crate::answer;
use crate::error::{self, Failure, Outcome};
use crate::head::columns::VERSION_ID;
use crate::header::typed;
use crate::names;
use crate::operation::Operation;
use crate::request::{Payload, Request};
use sherd_store::observe::metrics::ApiName;

/// The region of a bucket. An SDK that signed for another region looks for it, and signs again: in the answer
/// of HeadBucket, and in that of a HEAD, which has no document.
const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");

impl Inner {
    /// Answers a request, and says which operation it was.
    pub(super) async fn answer<B>(
        &self,
        request: http::Request<B>,
        request_id: RequestId,
        proof: Proof,
    ) -> (ApiName, Response<Body>)
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let (parts, body) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        let uri = parts.uri.clone();
        let is_of_account = address::is_of_account(&parts);
        let address = Address::of(&parts, &self.domains);
        let audit = audited::begin(&parts, request_id, &address);
        let (host_id, path) = (&self.host_id, uri.path());
        let asked = RespondContext { request_id, host_id, path, is_head, is_of_account, audit };
        if parts.method == Method::OPTIONS {
            return (ApiName::default(), Box::pin(self.answer_preflight(&parts, address, &asked)).await);
        }
        // In memory of its own: requests of no other origin do without.
        let operations = self.operations.as_ref();
        let cors = match parts.headers.get(ORIGIN) {
            Some(origin) => Box::pin(self.cors.cross_origin(operations, origin, &parts, &address)).await,
            None => None,
        };
        let request = AddressedRequest { proof, parts, address, body };
        let (api, mut response) = self.serve(request, &uri, &asked).await;
        if let Some(cors) = cors {
            cors.add_to(response.headers_mut());
        }
        (api, response)
    }

    /// Answers a browser that asks before it sends a request.
    async fn answer_preflight(
        &self,
        parts: &Parts,
        address: Result<Address, BadAddress>,
        asked: &RespondContext<'_>,
    ) -> Response<Body> {
        let judged = match self.check_head(parts, &parts.uri).and_then(|_| address.map_err(Refusal::from)) {
            Ok(address) => self.cors.preflight(self.operations.as_ref(), &parts.headers, &address).await,
            Err(refusal) => Err(refusal),
        };
        let mut response = match judged {
            Ok(cors) => {
                let mut response = Response::new(Body::empty());
                cors.add_to(response.headers_mut());
                asked.finish(&mut response);
                response
            }
            Err(refusal) => {
                tracing::debug!(code = refusal.code.name(), "refused");
                asked.refuse(&refusal, Side::Layer)
            }
        };
        close_if(parts.headers.contains_key(EXPECT), &mut response);
        response
    }

    /// Admits a request and runs it.
    async fn serve<B>(
        &self,
        request: AddressedRequest<B>,
        uri: &Uri,
        asked: &RespondContext<'_>,
    ) -> (ApiName, Response<Body>)
    where
        B: HttpBody<Data = Bytes> + Unpin + Send + Sync + 'static,
        B::Error: Into<TransportError>,
    {
        let expects_continue = request.parts.headers.contains_key(EXPECT);
        let mut named = None;
        let admitted = self.admit(request, uri, &mut named).await;
        let api = named.map_or(ApiName::default(), |operation| ApiName(operation.name()));
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => {
                if let Some((kind, name)) = refusal.lacking() {
                    self.lacking.asked(kind, name);
                } else {
                    tracing::debug!(code = refusal.code.name(), "refused");
                }
                let mut response = asked.refuse(&refusal, Side::Layer);
                if refusal.is_for_region() || named.is_some_and(|named| named.columns().says_region) {
                    response.headers_mut().insert(BUCKET_REGION, self.region.clone());
                }
                close_if(expects_continue, &mut response);
                return (api, response);
            }
        };
        let outcome = admitted.outcome.clone();
        let mut response = self.perform(admitted, asked).await;
        let is_asked_for = outcome.is_some_and(|outcome| outcome.is_asked_for());
        close_if(expects_continue && !is_asked_for, &mut response);
        (api, response)
    }

    /// Runs the operation of an admitted request.
    async fn perform(&self, mut admitted: AdmittedRequest<'_>, asked: &RespondContext<'_>) -> Response<Body> {
        let operation = admitted.operation;
        let (outcome, room) = (admitted.outcome.clone(), admitted.room.take());
        let answer = match self.accept(admitted, asked.request_id).await {
            Ok(request) => self.run(operation, request).await,
            Err(refusal) => Err(refusal.into()),
        };
        // A fault of the body is answered before any result of the operation.
        if let Some(fault) = outcome.as_ref().and_then(|outcome| outcome.fault()) {
            tracing::debug!(error = %fault, "body failed");
            return asked.refuse(&Refusal::from(fault), Side::Layer);
        }
        let (mut response, code) = match answer {
            Ok(mut response) => {
                asked.finish(&mut response);
                (response, None)
            }
            Err(failure) => {
                let (grace, copies) = (self.operations.release_grace(), operation.columns().copies);
                let refusal = error::answer(grace, asked.request_id, copies, failure);
                (asked.refuse(&refusal, Side::Operation), Some(refusal.code.name()))
            }
        };
        self.note(operation, response.status(), code);
        self.xml_room.hold(&mut response, room);
        response
    }

    /// Runs an operation. One that waits for the tags of its object is judged by them first. Only a caller
    /// who may list the bucket is shown that a key is missing.
    async fn run(&self, operation: Operation, mut request: Request<'_>) -> Outcome<answer::Response> {
        if request.access.is_unlimited() || !operation.columns().existing_object {
            return self.operations.run(operation, request).await;
        }
        // A change of tags is judged where it is made.
        let waits = request.access.needs() == Some(Fact::Tags);
        if waits && !operation.columns().judges_itself {
            Box::pin(self.settle(operation.columns(), &mut request)).await?;
        }
        let (access, bucket) = (request.access.clone(), request.target.bucket_name().to_owned());
        match self.operations.run(operation, request).await {
            Err(Failure::Store(error)) => Err(access.shown(&bucket, error)?.into()),
            answered => answered,
        }
    }

    /// Makes the request that an operation reads: checks headers allowed once. Where a document had to
    /// arrive, the request is judged again: its caller and its bucket may be others by now.
    async fn accept<'a>(&self, admitted: AdmittedRequest<'a>, id: RequestId) -> Result<Request<'a>, Refusal> {
        let AdmittedRequest { headers, operation, mut target, query, mut access, call, .. } = admitted;
        let columns = operation.columns();
        if columns.body.is_document() && target.is_ok() {
            let (headers, source, asked_ms) = (&headers, access.source(), access.asked_ms());
            let asked = AskedOperation { columns, headers, query: &query, source, asked_ms, form_tags: None };
            access = Box::pin(self.authorize(access.caller().clone(), asked, &mut target)).await?;
        }
        let target = target?;
        check_once(&headers, columns.once)?;
        // An object's bucket is missed before what is asked of the object is judged.
        if target.is_in_missing_bucket() {
            return Err(Refusal::new(Code::NoSuchBucket));
        }
        let version = query.text(VERSION_ID).map(|id| names::version(VERSION_ID, &id)).transpose()?;
        Ok(Request {
            id,
            target,
            version,
            query,
            headers,
            source: access.source(),
            call,
            access,
            payload: Payload {
                checksum: admitted.checksum,
                md5: admitted.md5,
                length: admitted.length,
                body: admitted.body,
                trailers: Trailers(admitted.outcome),
            },
            form: admitted.form,
        })
    }

    /// Counts and logs what became of a request.
    fn note(&self, operation: Operation, status: StatusCode, code: Option<&str>) {
        if status == StatusCode::NOT_IMPLEMENTED {
            // The operation is here; some of what it was asked for is not.
            self.lacking.asked("Operation", operation.name());
        } else if status.is_server_error() {
            tracing::warn!(status = status.as_u16(), code, "request failed");
        } else {
            tracing::debug!(status = status.as_u16(), code, "answered");
        }
    }
}

/// Refuses a request in which a header is there twice that is allowed once, or is not text.
fn check_once(headers: &HeaderMap, names: &[&'static str]) -> Result<(), Refusal> {
    for name in names {
        let mut values = headers.get_all(*name).iter();
        let Some(value) = values.next() else { continue };
        if values.next().is_some() {
            return Err(Refusal::says(Code::InvalidRequest, format!("duplicate header: {name}")));
        }
        if value.to_str().is_err() {
            return Err(typed::invalid(name, value));
        }
    }
    Ok(())
}

/// Ends the connection behind an answer.
///
/// hyper says `100 Continue` when a body is asked for, so it never does for an empty one, and not for a
/// request that is refused before. A client may take such an early answer for that of its next request on the
/// connection, as botocore does, and wait for a body that never comes.
fn close_if(condition: bool, response: &mut Response<Body>) {
    if condition {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}
