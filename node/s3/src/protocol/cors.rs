//! CORS preflight: browsers ask before they sign, so it is answered before signatures are looked
//! at. No bucket has a CORS configuration, and the answers are AWS's for such a bucket.

use http::HeaderMap;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};

use super::address::Level;
use super::code::Code;
use super::refusal::Refusal;

/// The answer to an OPTIONS request.
pub(super) fn preflight(headers: &HeaderMap, level: Level) -> Refusal {
    if !headers.contains_key(ORIGIN) {
        return Refusal::says(Code::BadRequest, "Insufficient information. Origin request header needed.");
    }
    let method = headers.get(ACCESS_CONTROL_REQUEST_METHOD).and_then(|method| method.to_str().ok());
    let Some(method) = method.filter(|method| matches!(*method, "GET" | "PUT" | "HEAD" | "POST" | "DELETE"))
    else {
        let method = method.unwrap_or("null");
        return Refusal::says(Code::BadRequest, format!("Invalid Access-Control-Request-Method: {method}"));
    };
    let resource = match level {
        Level::Service => "SERVICE",
        Level::Bucket => "BUCKET",
        Level::Object => "OBJECT",
    };
    Refusal::says(Code::AccessForbidden, "CORSResponse: CORS is not enabled for this bucket.")
        .with("Method", method)
        .with("ResourceType", resource)
}
