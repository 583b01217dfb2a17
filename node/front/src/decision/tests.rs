//! Questions of both services: what is asked of whom, what a decision waits for, and who denied.

use std::sync::Arc;

use sherd_policy::{BucketRules, Identity, Policy, PolicyForm, UserIdentity};
use sherd_signature::Secret;

use super::*;
use crate::callers::{AccessKey, AuthType, Caller, Credential, SignatureFacts};
use crate::source::Source;

/// 2015-10-21T07:28:00Z.
const NOW_MS: u64 = 1_445_412_480_000;

/// A service whose one own key waits for a fact.
struct Waiting(Option<Fact>);

impl ServiceFacts for Waiting {
    fn user_agent(&self) -> Values<'_> {
        "app/1".into()
    }

    fn values(&self, name: KeyName, tag: &str) -> Result<Values<'_>, Fact> {
        match (name, tag) {
            (KeyName::ExistingObjectTag, "stage") => self.0.map_or(Ok("open".into()), Err),
            _ => Ok(Values::Absent),
        }
    }
}

fn policy(effect: &str, condition: &str, principal: &str) -> Policy {
    let text = format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"{effect}","Action":"s3:GetObject",
            "Resource":"arn:aws:s3:::b/*","Condition":{condition}{principal}}}}}"#
    );
    let form = if principal.is_empty() { PolicyForm::Identity } else { PolicyForm::Bucket { name: "b" } };
    Policy::parse(text.as_bytes(), form).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The answer to a user with these policies, beside which stands that of a bucket.
fn decide(own: Vec<Policy>, shared: Option<Policy>, facts: &Waiting) -> (Decision, Result<(), Denial>) {
    let identity = Arc::new(Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/app".to_owned(),
        name: "app".to_owned(),
        id: "AIDAAPP".to_owned(),
        tags: vec![],
        policies: own.into_iter().map(Arc::new).collect(),
    }));
    let rules = BucketRules { name: "b".to_owned(), policy: shared.map(Arc::new), ..BucketRules::default() };
    let rights = Rights::new(&identity, Some(&rules));
    let (access_key, secret) = (AccessKey::Static("AKIAAPP".into()), Secret::new("secret"));
    let signature =
        SignatureFacts { auth_type: AuthType::Header, signed_ms: Some(NOW_MS - 5000), is_v4: true };
    let origin = OriginFacts {
        caller: Caller::new(&Credential { access_key, secret, identity }, signature),
        source: Source { address: [192, 0, 2, 7].into(), is_secure: true, tls_version: Some("1.3") },
        asked_ms: NOW_MS,
        region: Some("eu-west-1".into()),
    };
    let (action, resource) = ("s3:GetObject", Resource::Object("b", "k"));
    let question = Question { rights: &rights, origin: &origin, facts, action, resource };
    (question.decide(), question.decide_by_known())
}

const OPEN: &str = r#"{"StringEquals":{"s3:ExistingObjectTag/stage":"open"}}"#;
const HERE: &str = r#"{"IpAddress":{"aws:SourceIp":"192.0.2.0/24"}}"#;
const ELSEWHERE: &str = r#"{"IpAddress":{"aws:SourceIp":"198.51.100.0/24"}}"#;

#[test]
fn a_decision_waits_for_a_fact_that_it_depends_on_and_for_no_other() {
    let allow = |condition| vec![policy("Allow", condition, "")];
    let waiting = Waiting(Some(Fact::Tags));
    assert_eq!(decide(allow(OPEN), None, &waiting), (Decision::Needs(Fact::Tags), Err(Denial::Implicit)));
    assert_eq!(decide(allow(OPEN), None, &Waiting(None)), (Decision::Allowed, Ok(())));
    assert_eq!(decide(allow(HERE), None, &waiting), (Decision::Allowed, Ok(())));
    let denied = (Decision::Denied(Denial::Implicit), Err(Denial::Implicit));
    assert_eq!(decide(allow(ELSEWHERE), None, &waiting), denied);
    assert!(Fact::Tags > Fact::Document, "who needs both is asked for the tags");
}

#[test]
fn a_denial_names_the_kind_of_policy_that_denies() {
    let everyone = r#","Principal":"*""#;
    let own = || policy("Deny", HERE, "");
    let shared = || policy("Deny", HERE, everyone);
    let by = |own, shared| decide(own, shared, &Waiting(None)).1;
    assert_eq!(by(vec![own()], None), Err(Denial::ByIdentity));
    assert_eq!(by(vec![], Some(shared())), Err(Denial::ByResource));
    assert_eq!(by(vec![own()], Some(shared())), Err(Denial::ByIdentity));
    assert_eq!(by(vec![policy("Deny", ELSEWHERE, "")], Some(shared())), Err(Denial::ByResource));
}

#[test]
fn every_request_has_the_facts_of_its_origin() {
    for (operator, key, value) in [
        ("Bool", "aws:SecureTransport", "true"),
        ("DateLessThan", "aws:CurrentTime", "2015-10-21T07:28:01Z"),
        ("NumericEquals", "aws:EpochTime", "1445412480"),
        ("StringEquals", "aws:RequestedRegion", "eu-west-1"),
        ("StringEquals", "aws:UserAgent", "app/1"),
        ("NumericEquals", "s3:TlsVersion", "1.3"),
        ("StringEquals", "s3:authType", "REST-HEADER"),
        ("NumericEquals", "s3:signatureAge", "5000"),
        ("StringEquals", "s3:signatureversion", "AWS4-HMAC-SHA256"),
    ] {
        let condition = format!(r#"{{"{operator}":{{"{key}":"{value}"}}}}"#);
        let decided = decide(vec![policy("Allow", &condition, "")], None, &Waiting(None));
        assert_eq!(decided, (Decision::Allowed, Ok(())), "{key}");
    }
}
