//! Sessions of STS do not exist here: a request that brings the token of one is refused.

use http::request::Parts;
use sherd_signature::error::AuthError;
use sherd_signature::query::Query;

/// The header, parameter or field with the token of a session.
pub(crate) const TOKEN: &str = "x-amz-security-token";

/// Refuses a request that brings a token.
///
/// # Errors
/// [`AuthError::Token`].
pub(crate) fn refuse(head: &Parts, query: &Query<'_>) -> Result<(), AuthError> {
    let is_token = |name: &str| name.eq_ignore_ascii_case(TOKEN);
    if head.headers.contains_key(TOKEN) || query.pairs().iter().any(|pair| is_token(&pair.name)) {
        return Err(AuthError::Token);
    }
    Ok(())
}
