//! Takes secrets out of what goes into the archive: out of objects of Kubernetes by where a value stands,
//! and out of every text by how it looks.
//!
//! ```text
//! objects   Secrets' data, values of environment variables, the annotation with the object as it was
//! applied,           values behind names that end in password, secret, token, ...
//! texts     private keys, NAME=VALUE and "NAME": "VALUE" behind such names, user and password in a URL,
//!           24 letters and digits or more that look random: upper and lower case and digits
//! ```
//! It takes too much rather than too little.

use serde_json::{Map, Value};

/// Stands in place of a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// Characters of a text that is taken for a random one, at least. Secrets of access keys have 40.
const RANDOM_LENGTH: usize = 24;
/// Ends of the names of secrets, in lower case and without separators.
const NAMES: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secretkey",
    "secretaccesskey",
    "token",
    "apikey",
    "privatekey",
    "authorization",
    "signature",
    "cookie",
];
/// Arrays whose elements are environment variables.
const ENVIRONMENTS: [&str; 2] = ["env", "extraEnv"];
/// The annotation of kubectl with the object as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes the secrets out of an object of Kubernetes, and what no reader needs.
pub(super) fn redact_object(object: &mut Value) {
    match object {
        Value::Object(fields) => redact_fields(fields),
        Value::Array(elements) => {
            let mut is_behind_name = false;
            for element in elements {
                // A flag and its value, as two arguments.
                let named =
                    element.as_str().is_some_and(|text| text.starts_with('-') && is_secret_name(text));
                match element {
                    Value::String(text) if is_behind_name => REDACTED.clone_into(text),
                    element => redact_object(element),
                }
                is_behind_name = named;
            }
        }
        Value::String(text) => *text = redact_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_fields(fields: &mut Map<String, Value>) {
    fields.remove("managedFields");
    fields.remove(LAST_APPLIED);
    if fields.get("kind").and_then(Value::as_str) == Some("Secret") {
        fields.retain(|name, _| name != "data" && name != "stringData");
    }
    for (name, value) in fields {
        match value {
            Value::Array(variables) if ENVIRONMENTS.contains(&name.as_str()) => {
                for variable in variables.iter_mut().filter_map(Value::as_object_mut) {
                    if let Some(value) = variable.get_mut("value") {
                        *value = REDACTED.into();
                    }
                }
                variables.iter_mut().for_each(redact_object);
            }
            Value::String(text) if is_secret_name(name) => REDACTED.clone_into(text),
            value => redact_object(value),
        }
    }
}

/// Whether the value behind such a name is a secret.
fn is_secret_name(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|end| name.ends_with(end))
}

/// Takes the secrets out of a text.
pub(super) fn redact_text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    // Private keys reach over lines.
    while let Some((before, key)) = split_at_key(rest) {
        clean.push_str(&redact_lines(before));
        clean.push_str(REDACTED);
        rest = key;
    }
    clean + &redact_lines(rest)
}

/// The text before a private key in PEM, and that behind it; one that does not end reaches to the end.
fn split_at_key(text: &str) -> Option<(&str, &str)> {
    const END: &str = "PRIVATE KEY-----";
    let mut from = 0;
    loop {
        let begin = from + text.get(from..)?.find("-----BEGIN ")?;
        let head = &text[begin..];
        let label_end = head["-----BEGIN ".len()..].find("-----")? + "-----BEGIN ".len() + "-----".len();
        if head[..label_end].ends_with(END) {
            let behind = &head[label_end..];
            let end = behind.find(END).map_or(behind.len(), |at| at + END.len());
            return Some((&text[..begin], &behind[end..]));
        }
        from = begin + label_end;
    }
}

fn redact_lines(text: &str) -> String {
    text.split_inclusive('\n').map(redact_line).collect()
}

/// Letters of a token: those of names, of base64 and of hexadecimal.
fn is_of_token(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '+' | '/' | '%')
}

fn redact_line(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("://") {
            clean.push_str("://");
            rest = without_user(behind, &mut clean);
        } else if is_of_token(first) {
            let length = rest.find(|letter| !is_of_token(letter)).unwrap_or(rest.len());
            let (token, behind) = rest.split_at(length);
            clean.push_str(if is_random(token) { REDACTED } else { token });
            rest = if is_secret_name(token) { without_value(token, behind, &mut clean) } else { behind };
        } else {
            clean.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    clean
}

/// Leaves out the part of a URL before its host.
fn without_user<'a>(behind: &'a str, clean: &mut String) -> &'a str {
    let host = behind.find(['/', '?', '#', ' ', '"', '\'', '\n']).unwrap_or(behind.len());
    match behind[..host].rfind('@') {
        Some(at) => {
            clean.push_str(REDACTED);
            &behind[at..]
        }
        None => behind,
    }
}

/// Leaves out the value behind a name, where there is one: behind `=` or `:`, in quotes, in escaped quotes or
/// to the next space. That of a header Authorization or Cookie has several words, and reaches to the quote
/// or the end of the line.
fn without_value<'a>(name: &str, behind: &'a str, clean: &mut String) -> &'a str {
    let is_mark = |letter: char| matches!(letter, '"' | '\'' | '\\' | ' ' | '\t' | '=' | ':');
    let marks = behind.find(|letter| !is_mark(letter)).unwrap_or(behind.len());
    let (between, value) = behind.split_at(marks);
    if !between.contains(['=', ':']) || value.is_empty() || value.starts_with(['{', '[', '\n', ',']) {
        return behind;
    }
    clean.push_str(between);
    clean.push_str(REDACTED);
    let name = name.to_ascii_lowercase();
    let quote = between.chars().rev().find(|letter| matches!(letter, '"' | '\''));
    // The quote that closes the name is before the sign.
    let opens = between.rfind(['"', '\'']).is_some_and(|at| between[..at].contains(['=', ':']));
    let end = match quote.filter(|_| opens) {
        Some(quote) => end_of_quoted(value, quote, between.ends_with(&format!("\\{quote}"))),
        None if name.ends_with("authorization") || name.ends_with("cookie") => value.find(['"', '\n']),
        None => value.find([' ', '\t', '\n', '"', '\'', ',', '&', ';', '}', ')']),
    };
    &value[end.unwrap_or(value.len())..]
}

/// Where a quoted value ends: at the quote, with its backslash where the quotes themselves are escaped.
fn end_of_quoted(value: &str, quote: char, is_escaped: bool) -> Option<usize> {
    if is_escaped {
        return value.find(&format!("\\{quote}"));
    }
    let mut letters = value.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            letter if letter == quote || letter == '\n' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether a token looks as random letters do: long, with both cases and digits.
fn is_random(token: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| token.as_bytes().iter().any(kind);
    token.len() >= RANDOM_LENGTH
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzEXAMPLEKEY";

    #[test]
    fn texts_lose_what_looks_like_a_secret() {
        let pem = format!(
            "before -----BEGIN EC PRIVATE KEY-----\n{SECRET}\nhunter2\n-----END EC PRIVATE KEY----- after"
        );
        assert_eq!(redact_text(&pem), "before [redacted] after");
        assert_eq!(redact_text("a\n-----BEGIN PRIVATE KEY-----\\nhunter2"), "a\n[redacted]");
        for (text, clean) in [
            (format!("key {SECRET}, then"), "key [redacted], then".to_owned()),
            (
                "AWS_SECRET_ACCESS_KEY=hunter2 next".to_owned(),
                "AWS_SECRET_ACCESS_KEY=[redacted] next".to_owned(),
            ),
            ("--password=hunter2".to_owned(), "--password=[redacted]".to_owned()),
            (r#"{"password":"hun ter2","a":1}"#.to_owned(), r#"{"password":"[redacted]","a":1}"#.to_owned()),
            (r#""x":"{\"token\":\"hunter2\"}""#.to_owned(), r#""x":"{\"token\":\"[redacted]\"}""#.to_owned()),
            (r#""password":"hun\"ter2" b"#.to_owned(), r#""password":"[redacted]" b"#.to_owned()),
            ("secret_key = 'hunter 2' # x".to_owned(), "secret_key = '[redacted]' # x".to_owned()),
            (
                "authorization: AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=hunter2\nnext".to_owned(),
                "authorization: [redacted]\nnext".to_owned(),
            ),
            ("/b/k?X-Amz-Signature=hunter2&a=b".to_owned(), "/b/k?X-Amz-Signature=[redacted]&a=b".to_owned()),
            ("http://me:hunter2@host/x".to_owned(), "http://[redacted]@host/x".to_owned()),
        ] {
            assert_eq!(redact_text(&text), clean);
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "Secret demo-admin is not there: pods v1-demo-pool-0-0",
            "image sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            r#"{"time":"2026-11-28T22:12:01.000Z","level":"INFO","node":"demo-pool-0-0"}"#,
            "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
            "1234567890abcdef1234567890abcdef, http://demo-s3.default.svc:9000/a@b",
            "token: {",
            "",
        ] {
            assert_eq!(redact_text(text), text);
        }
    }

    #[test]
    fn objects_lose_values_by_where_they_stand() {
        let mut object = json!({
            "kind": "Pod",
            "metadata": {"managedFields": [1], "annotations": {(LAST_APPLIED): "hunter2", "note": "kept"}},
            "spec": {
                "containers": [{
                    "args": ["serve", "--token", "hunter2", "--dir", "/data"],
                    "env": [{"name": "A", "value": "hunter2"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
                }],
                "volumes": [{"name": "v", "secret": {"secretName": "demo-ca"}}],
                "password": "hunter2",
            },
            "items": [{"kind": "Secret", "data": {"a": "hunter2"}, "stringData": {"a": "hunter2"}}],
        });
        redact_object(&mut object);
        let text = object.to_string();
        assert!(!text.contains("hunter2") && !text.contains("managedFields"), "{text}");
        for kept in ["kept", "secretKeyRef", "demo-ca", "/data", "\"--token\""] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
    }
}
