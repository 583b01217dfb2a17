//! The query API: takes a request in, verifies it, finds its action, asks whether the caller may, runs it.
//!
//! ```text
//! HTTP -> head -> body -> signature -> turn -> action -> rights -> action's work -> document
//! ```
//! A turn is for work: a request takes none before its signature is verified, as ids of keys are not secret.
//! Listeners hand requests to [`QueryApi::call`]; requests of operators and admins, whose certificates prove
//! them, come by [`QueryApi::call_as_root`]. Those take no turn: their number is bounded where they arrive,
//! and clients of the listener, however many, do not keep an admin from disabling a key.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use sherd_core::env::{Clock, Rng};
use sherd_front::audit::record::AuditRecord;
use sherd_front::callers::root_keys::RootKeys;
use sherd_front::callers::{Caller, Credentials, Proof};
use sherd_front::decision::origin::OriginFacts;
use sherd_front::source::Source;
use sherd_front::verifier::Verifier;
use sherd_store::iam::Iam;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::actions::{self, Action};
use super::answer::{Elements, Service, done, refused};
use super::auth::service_of;
use super::authorize;
use super::fault::Fault;
use super::form::{BadForm, Form};
use super::intake::{BodyIntake, TakenBody, collect};
use super::limits::{REQUESTS_MAX, TURN_WAIT_MAX};
use super::request::ActionRequest;

/// The inputs of the query API.
#[derive(Debug)]
pub struct QueryApiConfig {
    /// Users, groups, keys and policies.
    pub iam: Iam,
    /// The key pairs of root, whose ids no user may have.
    pub root: RootKeys,
    /// The access keys: root's, and those of users.
    pub credentials: Arc<dyn Credentials>,
    /// The region of the cluster, which tools may sign for beside us-east-1.
    pub region: String,
    /// The process's clock.
    pub clock: Arc<dyn Clock>,
    /// Where the ids of requests are drawn.
    pub rng: Arc<dyn Rng>,
}

/// Answers requests of IAM and STS. Cheap to clone; one for all connections.
#[derive(Debug, Clone)]
pub struct QueryApi {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    iam: Iam,
    root: RootKeys,
    verifier: Verifier,
    rng: Arc<dyn Rng>,
    intake: BodyIntake,
    turns: Semaphore,
}

/// A request that is whole, and whose caller is proven.
struct ProvenRequest {
    form: Form,
    caller: Caller,
    service: Service,
}

impl QueryApi {
    /// Builds it.
    pub fn new(config: QueryApiConfig) -> Self {
        let QueryApiConfig { iam, root, credentials, region, clock, rng } = config;
        let verifier = Verifier::new(&region, credentials, clock);
        let turns = Semaphore::new(REQUESTS_MAX);
        let intake = BodyIntake::new();
        Self { inner: Arc::new(Inner { iam, root, verifier, rng, intake, turns }) }
    }

    /// Answers a request of a listener: by its signature.
    pub async fn call<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.inner.answer(request, Proof::Signature).await
    }

    /// Answers a request as root's, without a signature. Its caller has proven who sends it: no listener of
    /// the query API calls this.
    pub async fn call_as_root(&self, request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
        self.inner.answer(request, Proof::RootCertificate).await
    }
}

impl Inner {
    async fn answer<B>(&self, request: Request<B>, proof: Proof) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let id = uuid(self.rng.next_id());
        let (head, body) = request.into_parts();
        let audit = AuditRecord::of(&head.extensions).cloned();
        if let Some(audit) = &audit {
            audit.name_request(&id);
        }
        let named = service_of(&head).unwrap_or(Service::Iam);
        let answered = match self.prove(&head, body, proof).await {
            Ok((proven, _turn)) => {
                let service = proven.service;
                if let Some(audit) = &audit {
                    audit.name_caller(proven.caller.arn());
                    if !proven.caller.is_certified() {
                        audit.name_access_key(proven.caller.access_key(), true);
                    }
                }
                self.run(&head, proven).await.map_err(|fault| (service, fault))
            }
            Err(fault) => Err((named, fault)),
        };
        match answered {
            Ok((action, caller, result)) => {
                tracing::info!(request_id = id, action = action.name, caller, "request to IAM");
                done(action.service, action.name, &result, &id)
            }
            Err((service, fault)) => {
                if let Some(audit) = &audit {
                    audit.fail(fault.code);
                }
                tracing::debug!(request_id = id, code = fault.code, "refused a request to IAM");
                refused(service, &fault, &id)
            }
        }
    }

    /// Takes a request in and proves its caller. Gives the turn that the request has, too.
    async fn prove<B>(
        &self,
        head: &Parts,
        body: B,
        proof: Proof,
    ) -> Result<(ProvenRequest, Option<SemaphorePermit<'_>>), Fault>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if head.uri.path() != "/" {
            return Err(Fault::new(
                "InvalidAction",
                StatusCode::NOT_FOUND,
                "Requests of IAM are for the path /.",
            ));
        }
        let (turn, body, caller) = match proof {
            Proof::Signature => {
                let from = Source::of(&head.extensions).address;
                let checked = self.verifier.check_head(head).await?;
                // The body's place in the intake ends when the request has a turn.
                let TakenBody { bytes, place: _place } = self.intake.take(from, body).await?;
                let caller = self.verifier.verify_body(&checked, &bytes).await?;
                let Ok(Ok(turn)) = timeout(TURN_WAIT_MAX, self.turns.acquire()).await else {
                    return Err(Fault::throttled());
                };
                (Some(turn), bytes, caller)
            }
            Proof::RootCertificate => (None, collect(body, |_| ()).await?, Caller::root()),
        };
        let form = match head.method {
            Method::GET => Form::parse(head.uri.query().unwrap_or_default().as_bytes()),
            // A URL that is presigned for a POST has its parameters in its query.
            Method::POST if is_form(head) => {
                let query = head.uri.query().unwrap_or_default().as_bytes();
                Form::parse(&[query, b"&", &body].concat())
            }
            _ => {
                let message = "Requests of IAM are forms in a POST, or the query of a GET.";
                return Err(Fault::new("InvalidAction", StatusCode::BAD_REQUEST, message));
            }
        };
        let form = form.map_err(|error| match error {
            BadForm::Member => Fault::new("MalformedInput", StatusCode::BAD_REQUEST, error.to_string()),
            BadForm::TooMany | BadForm::NotText | BadForm::Twice => {
                Fault::new("MalformedQueryString", StatusCode::NOT_FOUND, error.to_string())
            }
        })?;
        let by_version = match form.get("Version") {
            Some("2011-06-15") => Service::Sts,
            _ => Service::Iam,
        };
        let service = service_of(head).unwrap_or(by_version);
        Ok((ProvenRequest { form, caller, service }, turn))
    }

    /// Runs the action of a request, if its caller may; gives the action, who called, and the result.
    async fn run(
        &self,
        head: &Parts,
        proven: ProvenRequest,
    ) -> Result<(&'static Action, String, Elements), Fault> {
        let ProvenRequest { form, caller, service } = proven;
        let name = form.get("Action").ok_or_else(|| {
            let message = "The request is missing an action or a required parameter.";
            Fault::new("MissingAction", StatusCode::BAD_REQUEST, message)
        })?;
        let version = form.get("Version").unwrap_or_default();
        let known = (version == service.version()).then(|| actions::find(service, name)).flatten();
        let action = known.ok_or_else(|| {
            let version = if version.is_empty() { "NO_VERSION_SPECIFIED" } else { version };
            let message = format!("Could not find operation {name} for version {version}");
            Fault::new("InvalidAction", StatusCode::BAD_REQUEST, message)
        })?;
        if let Some(audit) = AuditRecord::of(&head.extensions) {
            audit.name_operation(action.name);
        }
        let user_agent =
            head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let request = ActionRequest {
            iam: self.iam.clone(),
            root: self.root.clone(),
            form,
            user_agent: user_agent.to_owned(),
            origin: OriginFacts {
                caller,
                source: Source::of(&head.extensions),
                asked_ms: self.verifier.now_ms(),
                region: None,
            },
        };
        authorize::check(&request, action.permission, action.subject).await?;
        let caller = format!("{} {}", request.own_arn(), request.origin.caller.access_key());
        let result = (action.run)(request).await?;
        Ok((action, caller.trim_end().to_owned(), result))
    }
}

/// Whether a request says that its body is a form, or says nothing of it.
fn is_form(head: &Parts) -> bool {
    head.headers
        .get(CONTENT_TYPE)
        .is_none_or(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"))
}

/// Sixteen random bytes as the id of a request.
fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a String takes every text");
    }
    text
}
