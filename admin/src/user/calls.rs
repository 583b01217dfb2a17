//! Calls of IAM's query API over a connection with a certificate.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use sherd_proto::convert::http_call::HttpService;

use super::error::UserError;
use super::xml::Element;
use crate::ask::RequestClient;

/// The version of IAM's query API.
const VERSION: &str = "2010-05-08";

/// Calls actions as root.
#[derive(Debug)]
pub struct Calls {
    client: RequestClient,
    address: String,
}

impl Calls {
    /// Calls a node, which errors name by `address`.
    pub const fn new(client: RequestClient, address: String) -> Self {
        Self { client, address }
    }

    /// Calls an action, and gives its result; an empty one where the action has none.
    ///
    /// # Errors
    /// [`UserError`].
    pub async fn call(&mut self, action: &str, parameters: &[(&str, &str)]) -> Result<Element, UserError> {
        let all = [("Action", action), ("Version", VERSION)];
        let pairs = all.iter().chain(parameters);
        let form: Vec<String> = pairs.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let request = Request::post("/")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Bytes::from(form.join("&")))
            .expect("a method, a path and a header are a request");
        let answer = self.client.send(HttpService::Iam, request).await;
        let answer = answer.map_err(|source| UserError::Request { address: self.address.clone(), source })?;
        let no_document = || UserError::NoDocument { address: self.address.clone() };
        let text = std::str::from_utf8(answer.body()).map_err(|_| no_document())?;
        let document = Element::parse(text).ok_or_else(no_document)?;
        if let Some(error) = document.child("Error") {
            let (code, message) = (error.text("Code").to_owned(), error.text("Message").to_owned());
            return Err(UserError::Refused { code, message });
        }
        if !answer.status().is_success() {
            return Err(no_document());
        }
        Ok(document.result().cloned().unwrap_or_default())
    }

    /// Reads a resource of S3; `None` where it is not there.
    ///
    /// # Errors
    /// [`UserError`].
    pub async fn read(&mut self, uri: &str) -> Result<Option<String>, UserError> {
        let request = Request::get(uri).body(Bytes::new());
        self.s3(request.map_err(|_| UserError::NoDocument { address: self.address.clone() })?).await
    }

    /// Sends a request of S3, and gives its answer; `None` where the subject of the request is not there.
    ///
    /// # Errors
    /// [`UserError`].
    pub async fn s3(&mut self, request: Request<Bytes>) -> Result<Option<String>, UserError> {
        let no_document = || UserError::NoDocument { address: self.address.clone() };
        let answer = self.client.send(HttpService::S3, request).await;
        let answer = answer.map_err(|source| UserError::Request { address: self.address.clone(), source })?;
        let text = std::str::from_utf8(answer.body()).map_err(|_| no_document())?;
        if answer.status().is_success() {
            return Ok(Some(text.to_owned()));
        }
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let error = Element::parse(text).ok_or_else(no_document)?;
        let (code, message) = (error.text("Code").to_owned(), error.text("Message").to_owned());
        Err(UserError::Refused { code, message })
    }

    /// Calls an action that lists, page for page, and gives the members of its list.
    ///
    /// # Errors
    /// [`UserError`].
    pub async fn list(
        &mut self,
        action: &str,
        list: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<Element>, UserError> {
        let mut members = Vec::new();
        let mut marker = String::new();
        loop {
            let mut asked = parameters.to_vec();
            if !marker.is_empty() {
                asked.push(("Marker", &marker));
            }
            let page = self.call(action, &asked).await?;
            members.extend_from_slice(page.members(list));
            if page.text("IsTruncated") != "true" || page.text("Marker").is_empty() {
                return Ok(members);
            }
            page.text("Marker").clone_into(&mut marker);
        }
    }
}

/// A value as a form has it.
pub(super) fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a String takes every text");
        }
    }
    text
}

/// A value of an answer that is escaped, as documents are.
pub fn unescaped(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| *first == b'%').and_then(|code| hex::decode(code).ok());
        if let Some(code) = code {
            bytes.extend(code);
            rest = behind.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_the_same_behind_its_escapes() {
        let document = "{\"a\": \"50% of \u{fc}+\"}";
        assert_eq!(unescaped(&escaped(document)), document);
        assert_eq!(unescaped("100%"), "100%");
    }
}
