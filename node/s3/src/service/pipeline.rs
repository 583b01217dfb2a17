//! The pipeline of a request: its stages, run one after the other, and its answer.

use std::sync::Arc;

use http::header::{CONNECTION, EXPECT, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Method, Response, Uri};
use s3s::Body;
use sherd_core::env::Clock;
use sherd_front::callers::{Credentials, Proof};
use sherd_front::decision::Fact;
use sherd_front::decision::rights::Authorizer;
use sherd_front::source::Source;
use sherd_front::verifier::Verifier;
use sherd_signature::query::Query;

use crate::answer;
use crate::answer::{Failure, Outcome};
use crate::error::{self};
use crate::head::acl::UnsupportedAcl;
use crate::head::columns::BodyUse;
use crate::head::copy_source;
use crate::operation::route::{NoOperation, route};
use crate::operation::{Operation, Operations};
use crate::request::{Payload, Request};
use crate::service::admitted::{AddressedRequest, AdmittedRequest, TakenBody};
use crate::service::audited;
use crate::service::intake::Intake;
use crate::service::judge::Judge;
use crate::service::prove::Prover;
use crate::service::respond::{RespondContext, Responder};
use crate::wire::address::{Address, BadAddress};
use crate::wire::body::ClientBody;
use crate::wire::context::{RequestId, Trailers};
use crate::wire::limits::Limits;
use crate::wire::refusal::{Code, Refusal, Side};
use sherd_store::observe::metrics::ApiName;
use sherd_store::observe::trace;

/// Configuration of the layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The region that requests are signed for, beside `us-east-1`.
    pub region: String,
    /// Domains under which a bucket may be a host: `s3.example.com` for `b.s3.example.com`.
    pub domains: Vec<String>,
    /// The node that answers; shown as `x-amz-id-2` and HostId. Visible ASCII.
    pub host_id: String,
    /// A random number, different in every run: request ids start from it.
    pub request_id_seed: u64,
    /// Whether URLs that are presigned with Signature Version 2 are taken.
    pub sigv2_presigned: bool,
    /// How access control lists are treated that give access to others than the owner.
    pub unsupported_acl: UnsupportedAcl,
    /// Buckets that are not made: requests for their objects are answered before they come here.
    pub reserved_buckets: &'static [&'static str],
    /// Limits of a request.
    pub limits: Limits,
}

/// The stages that a request passes, each with its own state:
///
/// ```text
/// address -> prove -> judge -> take in -> run -> respond
/// ```
pub(super) struct Pipeline {
    pub(super) domains: Vec<String>,
    prover: Prover,
    judge: Judge,
    pub(super) intake: Intake,
    pub(super) operations: Arc<dyn Operations>,
    pub(super) responder: Responder,
}

impl Pipeline {
    /// Builds the stages over the operations.
    pub(super) fn new(
        config: Config,
        credentials: Arc<dyn Credentials>,
        clock: Arc<dyn Clock>,
        operations: Arc<dyn Operations>,
    ) -> Self {
        let Config {
            region,
            domains,
            host_id,
            request_id_seed,
            sigv2_presigned,
            unsupported_acl,
            limits,
            reserved_buckets: _,
        } = config;
        let verifier = Verifier::new(&region, credentials, Arc::clone(&clock));
        let verifier = Arc::new(verifier.with_sigv2_presigned(sigv2_presigned));
        let authorizer = Authorizer::new(&region);
        Self {
            domains,
            prover: Prover::new(Arc::clone(&verifier), unsupported_acl, limits.clone()),
            judge: Judge::new(verifier, authorizer, Arc::clone(&operations)),
            intake: Intake::new(limits),
            operations,
            responder: Responder::new(&region, &host_id, request_id_seed, clock),
        }
    }

    /// Answers a request, and says which operation it was.
    pub(super) async fn answer<B: ClientBody>(
        &self,
        request: http::Request<B>,
        request_id: RequestId,
        proof: Proof,
    ) -> (ApiName, Response<Body>) {
        let (parts, body) = request.into_parts();
        let uri = parts.uri.clone();
        let address = Address::of(&parts, &self.domains);
        let audit = audited::begin(&parts, request_id, &address);
        let asked = self.responder.to(&parts, &uri, request_id, audit);
        if parts.method == Method::OPTIONS {
            return (ApiName::default(), Box::pin(self.answer_preflight(&parts, address, &asked)).await);
        }
        // In memory of its own: requests of no other origin do without.
        let operations = self.operations.as_ref();
        let cors = match parts.headers.get(ORIGIN) {
            Some(origin) => {
                Box::pin(self.judge.cors.cross_origin(operations, origin, &parts, &address)).await
            }
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
        let judged =
            match self.prover.check_head(parts, &parts.uri).and_then(|_| address.map_err(Refusal::from)) {
                Ok(address) => {
                    self.judge.cors.preflight(self.operations.as_ref(), &parts.headers, &address).await
                }
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
    async fn serve<B: ClientBody>(
        &self,
        request: AddressedRequest<B>,
        uri: &Uri,
        asked: &RespondContext<'_>,
    ) -> (ApiName, Response<Body>) {
        let expects_continue = request.parts.headers.contains_key(EXPECT);
        let mut named = None;
        let admitted = self.admit(request, uri, &mut named).await;
        let api = named.map_or(ApiName::default(), |operation| ApiName(operation.name()));
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => {
                let says_region = named.is_some_and(|named| named.columns().says_region);
                let mut response = self.responder.refuse(&refusal, says_region, asked);
                close_if(expects_continue, &mut response);
                return (api, response);
            }
        };
        let outcome = admitted.taken.outcome.clone();
        let mut response = self.perform(admitted, asked).await;
        let is_asked_for = outcome.is_some_and(|outcome| outcome.is_asked_for());
        close_if(expects_continue && !is_asked_for, &mut response);
        (api, response)
    }

    /// Admits or refuses a request. `named` becomes the operation as soon as the head names one, also for a
    /// request that is refused.
    async fn admit<'a, B: ClientBody>(
        &self,
        request: AddressedRequest<B>,
        uri: &'a Uri,
        named: &mut Option<Operation>,
    ) -> Result<AdmittedRequest<'a>, Refusal> {
        let AddressedRequest { proof, parts, address, body } = request;
        let query = self.prover.check_head(&parts, uri)?;
        let address = address?;
        let copies = copy_source::is_named(&parts.headers, &query);
        let routed = route(&parts.method, &address, &query, copies);
        if let Ok(operation) | Err(NoOperation::Unserved(operation)) = &routed {
            audited::name_operation(&parts.extensions, *operation);
        }
        if let Ok(operation) = &routed {
            *named = Some(*operation);
            if operation.columns().body == BodyUse::Form {
                // A form is proven by its fields: by its head it would only be denied. It has memory of
                // its own, so that the future of every other request is as small as without forms.
                return Box::pin(self.admit_form(*operation, parts, body, query, address)).await;
            }
        }
        let mut proven = self.prover.prove(proof, parts, query, address, routed).await?;
        let access = self.judge.authorize(&mut proven).await?;
        let checksum = proven.check_features()?;
        let mut taken = self.intake.take(&mut proven, &checksum, body).await?;
        if let Some(outcome) = &taken.outcome {
            outcome.hold(access.caller().revocation());
        }
        let list_room = self.intake.xml_room.for_list(proven.columns(), &proven.head).await?;
        taken.room = taken.room.or(list_room);
        Ok(AdmittedRequest { proven, access, checksum, taken })
    }

    /// Admits or refuses a form.
    async fn admit_form<'a, B: ClientBody>(
        &self,
        operation: Operation,
        parts: Parts,
        body: B,
        query: Query<'a>,
        address: Address,
    ) -> Result<AdmittedRequest<'a>, Refusal> {
        trace::name_operation(operation.name());
        tracing::Span::current().record("operation", operation.name());
        let head = self.prover.head(parts.headers, query);
        let source = Source::of(&parts.extensions);
        let form = self.intake.take_fields(operation.columns(), &head, source, body).await?;
        let extensions = &parts.extensions;
        let mut proven = self.prover.prove_form(operation, extensions, head, &form, address).await?;
        let access = self.judge.authorize(&mut proven).await?;
        let checksum = proven.check_features()?;
        let taken = form.into_body(&proven)?;
        Ok(AdmittedRequest { proven, access, checksum, taken })
    }

    /// Runs the operation of an admitted request.
    async fn perform(&self, mut admitted: AdmittedRequest<'_>, asked: &RespondContext<'_>) -> Response<Body> {
        let operation = admitted.proven.operation;
        let (outcome, room) = (admitted.taken.outcome.clone(), admitted.taken.room.take());
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
        self.responder.note(operation.name(), response.status(), code);
        self.intake.xml_room.hold(&mut response, room);
        response
    }

    /// Runs an operation. One that waits for the tags of its object is judged by them first. Only a caller
    /// who may list the bucket is shown that a key is missing.
    async fn run(&self, operation: Operation, mut request: Request<'_>) -> Outcome<answer::Response> {
        let columns = operation.columns();
        if request.access.is_unlimited() || !columns.existing_object {
            return self.operations.run(operation, request).await;
        }
        // A change of tags is judged where it is made.
        if request.access.needs() == Some(Fact::Tags) && !columns.judges_itself {
            Box::pin(self.judge.settle(columns, &mut request)).await?;
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
        let AdmittedRequest { mut proven, mut access, checksum, taken } = admitted;
        let columns = proven.columns();
        if columns.body.is_document() && proven.target.is_ok() {
            proven.caller = access.caller().clone();
            access = Box::pin(self.judge.authorize(&mut proven)).await?;
        }
        let target = proven.target?;
        proven.head.check_once(columns.once)?;
        // An object's bucket is missed before what is asked of the object is judged.
        if target.is_in_missing_bucket() {
            return Err(Refusal::new(Code::NoSuchBucket));
        }
        let TakenBody { body, outcome, room: _, length, md5 } = taken;
        Ok(Request {
            id,
            target,
            version: proven.head.version()?,
            head: proven.head,
            source: proven.source,
            call: proven.call,
            access,
            payload: Payload { checksum, md5, length, body, trailers: Trailers(outcome) },
            form: proven.form.map(|form| form.action),
        })
    }
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
