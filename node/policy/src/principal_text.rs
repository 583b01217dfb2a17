//! The text of a bucket's policy with other words for its principals. All other text stays as it was sent.

/// The text with other words in place of the principals for which `by` gives some. The text is one that was
/// parsed: `Principal` and `NotPrincipal` are names of members in a statement alone.
pub(crate) fn replaced(document: &str, by: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(document.len());
    let mut rest = document;
    let mut depth = 0_usize;
    // The depth of the statement whose principals are being read.
    let mut statement = None;
    while let Some(at) = rest.find(['"', '{', '[', '}', ']', ',']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let mut length = 1;
        let mut other = None;
        match from.as_bytes().first() {
            Some(b'"') => {
                length = text_length(from);
                let (token, after) = from.split_at(length);
                let text: String = serde_json::from_str(token).unwrap_or_default();
                let is_name = after.trim_start().starts_with(':');
                match statement {
                    None if is_name && matches!(&*text, "Principal" | "NotPrincipal") => {
                        statement = Some(depth);
                    }
                    Some(_) if !is_name => other = by(&text),
                    _ => {}
                }
            }
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') => {
                depth = depth.saturating_sub(1);
                statement = statement.filter(|&of| of <= depth);
            }
            _ => statement = statement.filter(|&of| of != depth),
        }
        let (token, after) = from.split_at(length);
        match other {
            Some(other) => out.push_str(&serde_json::Value::String(other).to_string()),
            None => out.push_str(token),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Bytes of the text of JSON that begins here, with its quotation marks.
fn text_length(from: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in from.bytes().enumerate().skip(1) {
        if byte == b'"' && !is_escaped {
            return at + 1;
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    from.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_alone_are_replaced() {
        let by = |text: &str| (text == "ada").then(|| "b\"b".to_owned());
        for (text, expected) in [
            (r#"{"Principal": "ada", "Sid": "ada"}"#, r#"{"Principal": "b\"b", "Sid": "ada"}"#),
            (
                r#"{"Id":"ada", "Statement":[{ "Sid":"Principal", "NotPrincipal" : {"AWS":[ "x", "\u0061da" ]},"Condition":{"a":{"b":["ada"]}}},{"Resource":"ada","Principal":{"AWS":"ada"}}], "Version":"ada" } "#,
                r#"{"Id":"ada", "Statement":[{ "Sid":"Principal", "NotPrincipal" : {"AWS":[ "x", "b\"b" ]},"Condition":{"a":{"b":["ada"]}}},{"Resource":"ada","Principal":{"AWS":"b\"b"}}], "Version":"ada" } "#,
            ),
            (
                r#"{"Principal":{"ada":"\\\"ada","AWS":"é"},"x":"ada"}"#,
                r#"{"Principal":{"ada":"\\\"ada","AWS":"é"},"x":"ada"}"#,
            ),
            ("{\"Principal\":\"ada", "{\"Principal\":\"ada"),
            ("", ""),
        ] {
            assert_eq!(replaced(text, &by), expected);
            assert_eq!(replaced(text, &|_| None), text);
        }
    }
}
