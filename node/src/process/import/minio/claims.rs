//! The claims of a service account, which MinIO judges it by, and the time at which it expires. Pure.

use std::collections::BTreeMap;

use s3s::dto::{Timestamp, TimestampFormat};
use serde_json::{Value, json};

use super::conditions::Effect;
use super::iam_export::ServiceAccount;
use super::statement::Statement;

/// The claims of a service account of a user, or of root.
const CLAIMS: [&str; 6] =
    ["accessKey", "exp", "parent", "sa-policy", "sessionPolicy", "sessionPolicy-extracted"];
/// The times that mean never: that of Unix and that of Go.
const NEVER: [&str; 3] = ["", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"];

/// Checks that the claims of a service account say what its other members say.
pub(super) fn check_claims(account: &ServiceAccount) -> Result<(), String> {
    let none = BTreeMap::new();
    let claims = account.claims.as_ref().unwrap_or(&none);
    if let Some(other) = claims.keys().find(|claim| !CLAIMS.contains(&claim.as_str())) {
        return Err(format!("it has the claim {other}, as keys of LDAP and OpenID have"));
    }
    if claims.get("exp").is_some_and(|seconds| !is_expiration(seconds, account.expiration.as_deref())) {
        return Err("its claim exp is another time than its expiration".to_owned());
    }
    let kind = if account.policy.is_some() { "embedded-policy" } else { "inherited-policy" };
    let says = |claim: &str, wanted: &str| claims.get(claim).is_some_and(|value| value == wanted);
    if !says("parent", &account.parent) || !says("sa-policy", kind) {
        return Err(format!(
            "its claims do not say that {} is its parent and that it has {kind}",
            account.parent
        ));
    }
    Ok(())
}

/// Whether seconds since 1970 are zero, which means never, or the expiration.
fn is_expiration(seconds: &Value, expiration: Option<&str>) -> bool {
    let time = Timestamp::parse(TimestampFormat::EpochSeconds, &seconds.to_string()).ok();
    let known = expiration.and_then(|text| Timestamp::parse(TimestampFormat::DateTime, text).ok());
    *seconds == 0 || (time.is_some() && time == known)
}

/// Denies everything from the time on at which a key expires.
pub(super) fn expiry(expiration: Option<&str>) -> Option<Statement> {
    let expiration = expiration.filter(|time| !NEVER.contains(time))?;
    let keys = [("aws:CurrentTime".to_owned(), json!(expiration))].into();
    Some(Statement {
        effect: Effect::Deny,
        actions: vec!["*".to_owned()],
        not_actions: Vec::new(),
        resources: vec!["*".to_owned()],
        not_resources: Vec::new(),
        conditions: [("DateGreaterThanEquals".to_owned(), keys)].into(),
    })
}
