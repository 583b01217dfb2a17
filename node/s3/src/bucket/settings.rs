//! Settings of which every bucket has the same value: access control lists, payment, acceleration,
//! versioning, events and logs. A write of that value is answered 200 and stores nothing; one of another
//! value is refused.

use s3s::dto::{
    AccelerateConfiguration, BucketAccelerateStatus, Payer, Permission, RequestPaymentConfiguration,
};
use s3s::xml::{DeError, DeResult, Deserialize, DeserializeContent, Deserializer};

use crate::answer::{self, Outcome, Response};
use crate::gateway::Gateway;
use crate::head::acl::UnsupportedAcl;
use crate::head::request_head::RequestHead;
use crate::head::{document, owner};
use crate::request::{Payload, Request};
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::{ReadConditions, ReadRequest, Span};

pub(crate) async fn put_bucket_acl(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.head_bucket(request.target.bucket_key()).await?;
    check_acl(&request.head, request.payload)?;
    Ok(answer::ok())
}

pub(crate) async fn put_object_acl(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let null_version = request.names_null_version();
    let Request { target, head, payload, .. } = request;
    let (name, conditions) = (target.object(), ReadConditions::default());
    gateway.objects.head(ReadRequest { name, span: Span::Whole, conditions }).await?;
    check_acl(&head, payload)?;
    Ok(answer::of_version(answer::ok(), null_version))
}

pub(crate) async fn put_request_payment(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let payment: RequestPaymentConfiguration = document::required(request.payload.into_document())?;
    gateway.objects.head_bucket(request.target.bucket_key()).await?;
    match payment.payer.as_str() {
        Payer::BUCKET_OWNER => Ok(answer::ok()),
        Payer::REQUESTER => {
            Err(Refusal::says(Code::InvalidRequest, "Requester Pays cannot be enabled on this bucket").into())
        }
        _ => Err(Refusal::new(Code::MalformedXML).into()),
    }
}

pub(crate) async fn put_acceleration(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let acceleration: AccelerateConfiguration = document::required(request.payload.into_document())?;
    gateway.objects.head_bucket(request.target.bucket_key()).await?;
    match acceleration.status.as_ref().map(BucketAccelerateStatus::as_str) {
        Some(BucketAccelerateStatus::SUSPENDED) => Ok(answer::ok()),
        Some(BucketAccelerateStatus::ENABLED) => {
            let message = "S3 Transfer Acceleration cannot be enabled on this bucket";
            Err(Refusal::says(Code::InvalidRequest, message).into())
        }
        _ => Err(Refusal::new(Code::MalformedXML).into()),
    }
}

pub(crate) async fn put_versioning(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let given: GivenVersioning = document::required(request.payload.into_document())?;
    gateway.objects.head_bucket(request.target.bucket_key()).await?;
    match (given.status.as_deref(), given.mfa_delete.as_deref()) {
        (None, _) => Err(Refusal::new(Code::IllegalVersioningConfigurationException).into()),
        (Some("Suspended"), None | Some("Disabled")) => Ok(answer::ok()),
        (Some("Enabled" | "Suspended"), None | Some("Disabled" | "Enabled")) => {
            Err(lacking("PutBucketVersioning").into())
        }
        _ => Err(Refusal::new(Code::MalformedXML).into()),
    }
}

pub(crate) async fn put_notification(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let operation = "PutBucketNotificationConfiguration";
    turn_off(gateway, request, operation, "NotificationConfiguration", EVENTS).await
}

pub(crate) async fn put_logging(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let operation = "PutBucketLogging";
    turn_off(gateway, request, operation, "BucketLoggingStatus", &["LoggingEnabled"]).await
}

/// Says that what an operation would turn on is not there.
fn lacking(operation: &str) -> Refusal {
    Refusal::says(Code::NotImplemented, "The operation you asked for is not implemented")
        .with("Operation", operation)
}

/// The elements of a document that turns events on.
const EVENTS: &[&str] =
    &["TopicConfiguration", "QueueConfiguration", "CloudFunctionConfiguration", "EventBridgeConfiguration"];

/// Turns off what is off in every bucket, by a document without an element.
///
/// # Errors
/// NotImplemented where the document has one of `features`, MalformedXML for any other.
async fn turn_off(
    gateway: &Gateway,
    request: Request<'_>,
    operation: &str,
    root: &str,
    features: &[&str],
) -> Outcome<Response> {
    let document = request.payload.into_document();
    let document = document.ok_or_else(|| Refusal::new(Code::MissingRequestBodyError))?;
    let is_on = turns_on(&document, root, features).map_err(|_| Refusal::new(Code::MalformedXML))?;
    gateway.objects.head_bucket(request.target.bucket_key()).await?;
    if is_on {
        return Err(lacking(operation).into());
    }
    Ok(answer::ok())
}

/// Whether a document has an element of these. Any other would be taken for none.
fn turns_on(document: &[u8], root: &str, features: &[&str]) -> DeResult<bool> {
    let mut is_on = false;
    let mut parser = Deserializer::new(document);
    let read = parser.named_element(root, |parser| {
        parser.for_each_element(|_, name| {
            if !features.iter().any(|feature| feature.as_bytes() == name) {
                return Err(DeError::UnexpectedTagName);
            }
            is_on = true;
            // Read no further: what it says decides nothing.
            Err(DeError::InvalidContent)
        })
    });
    if is_on { Ok(true) } else { read.and_then(|()| parser.expect_eof()).map(|()| false) }
}

/// The document of PutBucketVersioning.
#[derive(Default)]
struct GivenVersioning {
    status: Option<String>,
    mfa_delete: Option<String>,
}

impl<'xml> Deserialize<'xml> for GivenVersioning {
    fn deserialize(parser: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut given = Self::default();
        parser.named_element("VersioningConfiguration", |parser| {
            parser.for_each_element(|parser, name| {
                let field = match name {
                    b"Status" => &mut given.status,
                    b"MfaDelete" => &mut given.mfa_delete,
                    _ => return Err(DeError::UnexpectedTagName),
                };
                document::once(field, parser.content()?)
            })
        })?;
        Ok(given)
    }
}

/// Checks the list of a request, which is named by a header, judged before, or written as a document.
/// A list that is ignored must be well-formed, too.
fn check_acl(head: &RequestHead<'_>, payload: Payload) -> Result<(), Refusal> {
    match (head.has_list(), payload.into_document()) {
        (true, None) => Ok(()),
        (true, Some(_)) => {
            Err(Refusal::says(Code::UnexpectedContent, "This request does not support content"))
        }
        (false, None) => {
            Err(Refusal::new(Code::MissingSecurityHeader).with("MissingHeaderName", "x-amz-acl"))
        }
        (false, Some(bytes)) => {
            let list: AccessControlList =
                document::of(&bytes).map_err(|_| Refusal::new(Code::MalformedACLError))?;
            let is_taken = head.lists() == UnsupportedAcl::Ignore || list.is_owners();
            if is_taken { Ok(()) } else { Err(Refusal::new(Code::AccessControlListNotSupported)) }
        }
    }
}

/// An access control list as far as it is looked at: the ids that stand in it, and what they may do.
#[derive(Default)]
pub(crate) struct AccessControlList {
    owner: Option<String>,
    grants: Option<Vec<SentGrant>>,
}

/// A grant of it.
#[derive(Default)]
struct SentGrant {
    /// The canonical id; `None` for a group and an address.
    id: Option<String>,
    permission: Option<Permission>,
}

impl AccessControlList {
    /// Whether it gives full control to the owner, and nothing to others.
    pub(crate) fn is_owners(&self) -> bool {
        let is_owner = |id: &Option<String>| id.as_deref().is_some_and(owner::is_owner);
        let [grant] = self.grants.as_deref().unwrap_or_default() else { return false };
        let has_all =
            grant.permission.as_ref().is_some_and(|given| given.as_str() == Permission::FULL_CONTROL);
        (self.owner.is_none() || is_owner(&self.owner)) && is_owner(&grant.id) && has_all
    }
}

impl<'xml> Deserialize<'xml> for AccessControlList {
    fn deserialize(parser: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut list = Self::default();
        parser.named_element("AccessControlPolicy", |parser| {
            parser.for_each_element(|parser, name| match name {
                b"Owner" => id_in(parser).map(|id| list.owner = id),
                b"AccessControlList" if list.grants.is_none() => {
                    list.grants = Some(Vec::new());
                    parser.for_each_element(|parser, name| match name {
                        b"Grant" => {
                            let grant = SentGrant::deserialize_content(parser)?;
                            list.grants.get_or_insert_default().push(grant);
                            Ok(())
                        }
                        _ => Err(DeError::UnexpectedTagName),
                    })
                }
                _ => Err(DeError::UnexpectedTagName),
            })
        })?;
        if list.grants.is_none() { Err(DeError::MissingField) } else { Ok(list) }
    }
}

impl<'xml> DeserializeContent<'xml> for SentGrant {
    fn deserialize_content(parser: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut grant = Self::default();
        parser.for_each_element(|parser, name| match name {
            b"Grantee" => id_in(parser).map(|id| grant.id = id),
            b"Permission" => parser.content().map(|given| grant.permission = Some(given)),
            _ => Err(DeError::UnexpectedTagName),
        })?;
        Ok(grant)
    }
}

/// The canonical id of an owner or a grantee; `None` where it is named in another way, beside it or instead.
fn id_in(parser: &mut Deserializer<'_>) -> DeResult<Option<String>> {
    let (mut id, mut is_other) = (None, false);
    parser.for_each_element(|parser, name| match name {
        b"ID" => parser.content().map(|given| id = Some(given)),
        b"DisplayName" => parser.content::<String>().map(drop),
        b"EmailAddress" | b"URI" => {
            is_other = true;
            parser.content::<String>().map(drop)
        }
        _ => Err(DeError::UnexpectedTagName),
    })?;
    Ok(id.filter(|_| !is_other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_without_an_element_turns_nothing_on() {
        let is_on = |document: &str| turns_on(document.as_bytes(), "NotificationConfiguration", EVENTS).ok();
        let whole = |inside: &str| format!("<NotificationConfiguration>{inside}</NotificationConfiguration>");
        for off in ["<NotificationConfiguration/>", &whole(""), &whole(" \n")] {
            assert_eq!(is_on(off), Some(false), "{off}");
        }
        for feature in EVENTS {
            assert_eq!(is_on(&whole(&format!("<{feature}><Id>a</Id></{feature}>"))), Some(true), "{feature}");
        }
        for other in ["", "<Other/>", &whole("<Topics/>"), &(whole("") + "<More/>")] {
            assert_eq!(is_on(other), None, "{other}");
        }
    }

    fn is_owners(document: &str) -> Result<bool, Code> {
        let list: Result<AccessControlList, _> = document::of(document.as_bytes());
        list.map(|list| list.is_owners()).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_list_is_the_owners_when_it_gives_them_all_and_others_nothing() {
        let id = owner::owner().id.unwrap();
        let policy = |owner: &str, grants: &str| {
            format!(
                "<AccessControlPolicy><Owner><ID>{owner}</ID><DisplayName>x</DisplayName></Owner>\
                 <AccessControlList>{grants}</AccessControlList></AccessControlPolicy>"
            )
        };
        let grant = |grantee: &str, permission: &str| {
            let kind = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"";
            format!("<Grant><Grantee {kind}>{grantee}</Grantee><Permission>{permission}</Permission></Grant>")
        };
        let mine = grant(&format!("<ID>{id}</ID>"), "FULL_CONTROL");
        assert_eq!(is_owners(&policy(&id, &mine)), Ok(true));
        let everyone = "<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>";
        for other in [
            policy(&id, ""),
            policy("another", &mine),
            policy(&id, &mine.repeat(2)),
            policy(&id, &grant(&format!("<ID>{id}</ID>"), "READ")),
            policy(&id, &grant("<ID>another</ID>", "FULL_CONTROL")),
            policy(&id, &grant(everyone, "FULL_CONTROL")),
            policy(&id, &grant(&format!("<ID>{id}</ID>{everyone}"), "FULL_CONTROL")),
        ] {
            assert_eq!(is_owners(&other), Ok(false), "{other}");
        }
        for malformed in
            ["<AccessControlPolicy/>", "<AccessControlPolicy><A/></AccessControlPolicy>", "<Acl/>", "no"]
        {
            assert_eq!(is_owners(malformed), Err(Code::MalformedXML), "{malformed}");
        }
    }
}
