//! The answer that a form asks for where its upload succeeds.

use http::{HeaderValue, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use sherd_signature::form_fields::FormFields;

/// All but the characters that a form leaves as they are in a value; a space is a plus sign (URL Standard,
/// `application/x-www-form-urlencoded`).
const FORM_VALUE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_').remove(b' ');

/// The answer that a form asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessAction {
    /// The address to go to.
    redirect: Option<String>,
    /// The status without an address.
    pub status: StatusCode,
}

impl SuccessAction {
    /// Reads the fields. An address or a status that cannot be used counts as absent, as on S3.
    pub fn of(fields: &FormFields) -> Self {
        let redirect = fields.get("success_action_redirect").or_else(|| fields.get("redirect"));
        let status = match fields.get("success_action_status") {
            Some("200") => StatusCode::OK,
            Some("201") => StatusCode::CREATED,
            _ => StatusCode::NO_CONTENT,
        };
        Self { redirect: redirect.filter(|url| is_absolute(url)).map(str::to_owned), status }
    }

    /// The address to go to, with the object in its query; `None` where the form has no usable one.
    pub fn location(&self, bucket: &str, key: &str, etag: &str) -> Option<HeaderValue> {
        let url = self.redirect.as_deref()?;
        let (url, anchor) = url.find('#').map_or((url, ""), |at| url.split_at(at));
        let separator = if url.contains('?') { '&' } else { '?' };
        let value = |text: &str| utf8_percent_encode(text, FORM_VALUE).to_string().replace(' ', "+");
        let (bucket, key, etag) = (value(bucket), value(key), value(&format!("\"{etag}\"")));
        let location = format!("{url}{separator}bucket={bucket}&key={key}&etag={etag}{anchor}");
        HeaderValue::try_from(location).ok()
    }
}

/// Whether a text is the address of a page that a browser can be sent to.
fn is_absolute(url: &str) -> bool {
    let host = url.split_once("://").and_then(|(scheme, rest)| {
        let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        rest.split(['/', '?', '#']).next().filter(|_| is_http)
    });
    let is_host = host.is_some_and(|host| host.parse::<http::uri::Authority>().is_ok());
    is_host && HeaderValue::try_from(url).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(pairs: &[(&str, &str)]) -> SuccessAction {
        let mut fields = FormFields::default();
        for (name, value) in pairs {
            fields.push((*name).to_owned(), value);
        }
        SuccessAction::of(&fields)
    }

    #[test]
    fn a_status_is_one_of_three() {
        for (value, status) in
            [("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204), ("2xx", 204)]
        {
            assert_eq!(action(&[("Success_Action_Status", value)]).status, status, "{value}");
        }
        assert_eq!(action(&[]).status, 204);
    }

    #[test]
    fn an_address_gets_the_object_into_its_query() {
        for (url, location) in [
            ("http://a.example/done", "http://a.example/done?bucket=b&key=u%2Fa+b%C3%A9%7E&etag=%22e%22"),
            (
                "HTTPS://a.example:8443?x=1&y=a b",
                "HTTPS://a.example:8443?x=1&y=a b&bucket=b&key=u%2Fa+b%C3%A9%7E&etag=%22e%22",
            ),
            ("http://[::1]/#top", "http://[::1]/?bucket=b&key=u%2Fa+b%C3%A9%7E&etag=%22e%22#top"),
        ] {
            let action = action(&[("success_action_redirect", url), ("redirect", "http://other")]);
            let sent = action.location("b", "u/a bé~", "e").expect(url);
            assert_eq!(sent.to_str().expect("text"), location);
        }
        assert!(action(&[("redirect", "http://old")]).location("b", "k", "e").is_some());
        for unusable in [
            "",
            "/relative",
            "ftp://a/b",
            "http://",
            "http:///a",
            "http://a b/",
            "http://a/\r\nx: y",
            "javascript://a",
        ] {
            let action = action(&[("success_action_redirect", unusable)]);
            assert_eq!(action.location("b", "k", "e"), None, "{unusable}");
        }
    }
}
