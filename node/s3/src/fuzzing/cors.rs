//! Cross-origin rules: those that are read are shown and read again as the same, and they match as a slow
//! reading of AWS's words does.

use bytes::Bytes;
use sherd_core::config::cors::{Cors, CorsMethod, CorsRequest, CorsRule};
use sherd_core::limits::CORS_RULES_MAX;

use crate::answer;
use crate::bucket::cors;

/// A document, or stored rules, and behind NULs an origin, a method and headers.
pub fn cross_origin(input: &[u8]) {
    if let Ok(rules) = Cors::decode(Bytes::copy_from_slice(input)) {
        assert_eq!(rules.encode(), input);
    }
    let mut fields = input.split(|byte| *byte == 0);
    let Ok((rules, shown)) = cors::read(fields.next().unwrap_or_default()) else { return };
    assert!((1..=CORS_RULES_MAX).contains(&rules.rules.len()));
    assert_eq!(Cors::decode(rules.encode()).as_ref(), Ok(&rules));
    let shown = answer::document(&shown).expect("rules are a document").into_body();
    let again = cors::read(&shown.bytes().expect("in memory")).map(|(rules, _)| rules);
    assert_eq!(again.as_ref().ok(), Some(&rules), "{again:?}");
    let origin = fields.next().unwrap_or_default();
    let mut texts = fields.filter_map(|field| std::str::from_utf8(field).ok());
    let Some(method) = texts.next().and_then(CorsMethod::of_name) else { return };
    let headers: Vec<&str> = texts.collect();
    let request = CorsRequest { origin, method, headers: &headers };
    let expected = rules.rules.iter().find(|rule| allows(rule, request));
    assert_eq!(rules.matching(request), expected);
}

/// Whether a rule allows a request, tried place by place.
fn allows(rule: &CorsRule, request: CorsRequest<'_>) -> bool {
    let CorsRequest { origin, method, headers } = request;
    let is_header = |asked: &&str| {
        let asked = asked.to_ascii_lowercase();
        rule.allowed_headers.iter().any(|allowed| fits(&allowed.to_ascii_lowercase(), asked.as_bytes()))
    };
    rule.allowed_origins.iter().any(|allowed| fits(allowed, origin))
        && rule.allowed_methods.contains(&method)
        && headers.iter().all(is_header)
}

fn fits(pattern: &str, text: &[u8]) -> bool {
    let mut parts = pattern.split('*').map(str::as_bytes);
    match (parts.next(), parts.next()) {
        (Some(start), Some(end)) => (0..=text.len()).any(|cut| {
            let (front, back) = text.split_at(cut);
            front == start && (0..=back.len()).any(|cut| back.split_at(cut).1 == end)
        }),
        (start, _) => start == Some(text),
    }
}
