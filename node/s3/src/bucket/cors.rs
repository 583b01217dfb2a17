//! A bucket's cross-origin rules: those that PutBucketCors may store, and how they are shown again. Requests
//! are judged by them in `service/cors`.

use s3s::dto::{CORSRule, GetBucketCorsOutput};
use s3s::xml::{DeError, DeResult, Deserialize, Deserializer};
use sherd_core::config::ConfigKind;
use sherd_core::config::cors::{Cors, CorsMethod, CorsRule};
use sherd_core::limits::{CORS_ID_CHARS_MAX, CORS_RULES_MAX};

use crate::answer::{self, Outcome, Response};
use crate::error::not_configured;
use crate::gateway::Gateway;
use crate::head::{document, names};
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_store::object::Error;

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let config = gateway.objects.config(&bucket).await?;
    match config.cors().map_err(Error::from)? {
        Some(rules) => answer::document(&shown(rules)),
        None => Err(not_configured(Code::NoSuchCORSConfiguration, bucket.as_str()).into()),
    }
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let rules = checked(document::required(request.payload.into_document())?)?;
    gateway.objects.set_config(request.target.bucket_key(), rules).await?;
    Ok(answer::ok())
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.remove_config(request.target.bucket_key(), ConfigKind::Cors).await?;
    Ok(answer::no_content())
}

/// The rules of a document, before they are judged. `s3s` would take "1.5" and "3s" for numbers of seconds.
struct GivenRules(Vec<GivenRule>);

#[derive(Default)]
struct GivenRule {
    /// All of it but its methods.
    rule: CorsRule,
    methods: Vec<String>,
}

impl<'xml> Deserialize<'xml> for GivenRules {
    fn deserialize(parser: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut rules = Vec::new();
        parser.named_element("CORSConfiguration", |parser| {
            parser.for_each_element(|parser, name| match name {
                b"CORSRule" => GivenRule::read(parser).map(|rule| rules.push(rule)),
                _ => Err(DeError::UnexpectedTagName),
            })
        })?;
        if rules.is_empty() { Err(DeError::MissingField) } else { Ok(Self(rules)) }
    }
}

impl GivenRule {
    fn read(parser: &mut Deserializer<'_>) -> DeResult<Self> {
        let mut given = Self::default();
        let Self { rule, methods } = &mut given;
        parser.for_each_element(|parser, name| {
            match name {
                b"AllowedHeader" => rule.allowed_headers.push(parser.content()?),
                b"AllowedMethod" => methods.push(parser.content()?),
                b"AllowedOrigin" => rule.allowed_origins.push(parser.content()?),
                b"ExposeHeader" => rule.expose_headers.push(parser.content()?),
                b"ID" => document::once(&mut rule.id, parser.content()?)?,
                b"MaxAgeSeconds" => document::once(&mut rule.max_age_seconds, parser.text(seconds)?)?,
                _ => return Err(DeError::UnexpectedTagName),
            }
            Ok(())
        })?;
        let is_whole = !given.methods.is_empty() && !given.rule.allowed_origins.is_empty();
        if is_whole { Ok(given) } else { Err(DeError::MissingField) }
    }
}

/// A number of seconds: digits alone, and no more than SDKs can show.
fn seconds(text: &str) -> DeResult<u32> {
    let digits = Some(text.trim()).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let seconds = digits.and_then(|digits| digits.parse::<i32>().ok());
    seconds.and_then(|seconds| u32::try_from(seconds).ok()).ok_or(DeError::InvalidContent)
}

/// The rules that may be stored.
///
/// # Errors
/// InvalidRequest for what no rule may say, with AWS's messages.
fn checked(GivenRules(given): GivenRules) -> Result<Cors, Refusal> {
    if given.len() > CORS_RULES_MAX {
        let message =
            format!("The number of CORS rules should not exceed allowed limit of {CORS_RULES_MAX} rules.");
        return Err(invalid(message));
    }
    let rules = given.into_iter().map(checked_rule).collect::<Result<_, _>>()?;
    Ok(Cors { rules })
}

fn checked_rule(GivenRule { rule, methods }: GivenRule) -> Result<CorsRule, Refusal> {
    if rule.id.as_ref().is_some_and(|id| id.chars().count() > CORS_ID_CHARS_MAX) {
        let message = format!("ID length should not exceed allowed limit of {CORS_ID_CHARS_MAX}");
        return Err(Refusal::says(Code::InvalidArgument, message));
    }
    let method = |name: &String| {
        CorsMethod::of_name(name).ok_or_else(|| {
            let what = "Found unsupported HTTP method in CORS config. Unsupported method is";
            invalid(format!("{what} {name}"))
        })
    };
    let allowed_methods = methods.iter().map(method).collect::<Result<_, _>>()?;
    let (origins, headers, exposed) = (&rule.allowed_origins, &rule.allowed_headers, &rule.expose_headers);
    for (element, patterns) in [("AllowedOrigin", origins), ("AllowedHeader", headers)] {
        if let Some(pattern) = patterns.iter().find(|pattern| pattern.matches('*').count() > 1) {
            return Err(invalid(format!("{element} \"{pattern}\" can not have more than one wildcard.")));
        }
    }
    // No origin has a control character: it would stand in a header of an answer.
    if let Some(origin) = origins.iter().find(|origin| origin.chars().any(char::is_control)) {
        return Err(invalid(format!("AllowedOrigin \"{origin}\" contains invalid character.")));
    }
    if let Some(header) = exposed.iter().find(|header| header.contains('*')) {
        let what = "contains wildcard. We currently do not support wildcard for ExposeHeader.";
        return Err(invalid(format!("ExposeHeader \"{header}\" {what}")));
    }
    for (element, headers) in [("AllowedHeader", headers), ("ExposeHeader", exposed)] {
        if let Some(header) = headers.iter().find(|header| !header.is_empty() && !names::is_header(header)) {
            return Err(invalid(format!("{element} \"{header}\" contains invalid character.")));
        }
    }
    Ok(CorsRule { allowed_methods, ..rule })
}

fn invalid(message: String) -> Refusal {
    Refusal::says(Code::InvalidRequest, message)
}

/// Rules as the document that stored them had them.
fn shown(rules: &Cors) -> GetBucketCorsOutput {
    let some = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
    let rule = |rule: &CorsRule| CORSRule {
        allowed_headers: some(&rule.allowed_headers),
        allowed_methods: rule.allowed_methods.iter().map(|method| method.name().to_owned()).collect(),
        allowed_origins: rule.allowed_origins.clone(),
        expose_headers: some(&rule.expose_headers),
        id: rule.id.clone(),
        max_age_seconds: rule.max_age_seconds.and_then(|seconds| i32::try_from(seconds).ok()),
    };
    GetBucketCorsOutput { cors_rules: Some(rules.rules.iter().map(rule).collect()) }
}

/// The rules that a document says, and the document that shows them again.
///
/// # Errors
/// The refusal of a document that says none.
#[cfg(any(test, fuzzing))]
pub(crate) fn read(bytes: &[u8]) -> Result<(Cors, impl s3s::xml::Serialize), Refusal> {
    let rules = checked(document::of(bytes)?)?;
    let shown = shown(&rules);
    Ok((rules, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest message of AWS's that begins so.
    const METHOD: &str = "Found unsupported HTTP method in CORS config. Unsupported method is ";

    fn document(rules: &[&str]) -> String {
        let rules: Vec<String> = rules.iter().map(|rule| format!("<CORSRule>{rule}</CORSRule>")).collect();
        let (rules, namespace) = (rules.concat(), answer::NAMESPACE);
        format!("<CORSConfiguration xmlns=\"{namespace}\">{rules}</CORSConfiguration>")
    }

    fn rule(more: &str) -> String {
        format!("<AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>{more}")
    }

    #[test]
    fn rules_are_shown_as_they_were_put() {
        let whole = "<AllowedHeader>x-amz-*</AllowedHeader><AllowedHeader>Content-Type</AllowedHeader>\
                     <AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod>\
                     <AllowedOrigin>http://a.example:80</AllowedOrigin><AllowedOrigin></AllowedOrigin>\
                     <ExposeHeader>x-amz-id-2</ExposeHeader><ExposeHeader>ETag</ExposeHeader>\
                     <ID>a &amp; b</ID><MaxAgeSeconds>3000</MaxAgeSeconds>";
        let short = "<AllowedMethod>HEAD</AllowedMethod><AllowedOrigin>*</AllowedOrigin>";
        let document = document(&[whole, short, short]);
        let (rules, shown) = read(document.as_bytes()).expect("rules");
        assert_eq!(answer::text(&shown), document);
        assert_eq!(Cors::decode(rules.encode()), Ok(rules));
    }

    #[test]
    fn what_no_rule_may_say_is_refused_with_awss_words() {
        let header = |text: &str| rule(&format!("<AllowedHeader>{text}</AllowedHeader>"));
        let exposed = |text: &str| rule(&format!("<ExposeHeader>{text}</ExposeHeader>"));
        let origin = |text: &str| rule(&format!("<AllowedOrigin>{text}</AllowedOrigin>"));
        let method = |text: &str| rule(&format!("<AllowedMethod>{text}</AllowedMethod>"));
        for (rule, message) in [
            (method("MYMETHOD"), format!("{METHOD}MYMETHOD")),
            (method("OPTIONS"), format!("{METHOD}OPTIONS")),
            (method("get"), format!("{METHOD}get")),
            (method(""), METHOD.to_owned()),
            (
                origin("*example*.com"),
                "AllowedOrigin \"*example*.com\" can not have more than one wildcard.".to_owned(),
            ),
            (
                origin("http://a.example&#10;x: y"),
                "AllowedOrigin \"http://a.example\nx: y\" contains invalid character.".to_owned(),
            ),
            (header("x-*-*"), "AllowedHeader \"x-*-*\" can not have more than one wildcard.".to_owned()),
            (header("x y"), "AllowedHeader \"x y\" contains invalid character.".to_owned()),
            (
                exposed("x-*"),
                "ExposeHeader \"x-*\" contains wildcard. We currently do not support wildcard for ExposeHeader."
                    .to_owned(),
            ),
            (exposed("a&#13;&#10;b"), "ExposeHeader \"a\r\nb\" contains invalid character.".to_owned()),
        ] {
            let refusal = read(document(&[&rule]).as_bytes()).map(drop).expect_err(&rule);
            assert_eq!((refusal.code, &*refusal.message), (Code::InvalidRequest, &*message));
        }
    }

    #[test]
    fn a_document_that_is_of_no_schema_is_malformed() {
        let few = rule("");
        for document in [
            document(&[]),
            document(&[""]),
            document(&["<AllowedOrigin>*</AllowedOrigin>"]),
            document(&["<AllowedMethod>GET</AllowedMethod>"]),
            document(&[&rule("<MaxAgeSeconds>-1</MaxAgeSeconds>")]),
            document(&[&rule("<MaxAgeSeconds>1.5</MaxAgeSeconds>")]),
            document(&[&rule("<MaxAgeSeconds>3s</MaxAgeSeconds>")]),
            document(&[&rule("<MaxAgeSeconds/>")]),
            document(&[&rule("<MaxAgeSeconds>2147483648</MaxAgeSeconds>")]),
            document(&[&rule("<MaxAgeSeconds>1</MaxAgeSeconds><MaxAgeSeconds>1</MaxAgeSeconds>")]),
            document(&[&rule("<ID>a</ID><ID>b</ID>")]),
            document(&[&rule("<AllowedHeaders>*</AllowedHeaders>")]),
            document(&[&few]).replace("CORSConfiguration", "CorsConfiguration"),
            "no document".to_owned(),
        ] {
            let refusal = read(document.as_bytes()).map(drop).expect_err(&document);
            assert_eq!(refusal.code, Code::MalformedXML, "{document}");
        }
    }

    #[test]
    fn rules_have_the_limits_of_aws() {
        let one = rule("");
        let of = |count: usize| read(document(&vec![one.as_str(); count]).as_bytes()).map(drop);
        assert_eq!(of(100), Ok(()));
        let refusal = of(101).expect_err("one more");
        assert_eq!(
            &*refusal.message,
            "The number of CORS rules should not exceed allowed limit of 100 rules."
        );
        let id = |chars: usize| {
            let named = rule(&format!("<ID>{}</ID>", "\u{e9}".repeat(chars)));
            read(document(&[&named]).as_bytes()).map(drop).map_err(|refusal| refusal.code)
        };
        assert_eq!((id(255), id(256)), (Ok(()), Err(Code::InvalidArgument)));
    }
}
