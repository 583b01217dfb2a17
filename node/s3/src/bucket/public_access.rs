//! The public access block of a bucket, and the document that says one.

use s3s::dto::PublicAccessBlockConfiguration;
use s3s::xml::{DeError, DeResult, Deserialize, Deserializer};
use sherd_core::config::ConfigKind;
use sherd_core::config::public_access::{PublicAccessBlock, PublicAccessSetting};

use crate::answer::{self, Outcome, Response};
use crate::error::not_configured;
use crate::gateway::Gateway;
use crate::head::document;
use crate::request::Request;
use crate::wire::refusal::Code;
use sherd_store::object::Error;

pub(crate) async fn get(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = request.target.bucket_key();
    let config = gateway.objects.config(&bucket).await?;
    match config.public_access_block().map_err(Error::from)? {
        Some(block) => answer::document(&shown(**block)),
        None => Err(not_configured(Code::NoSuchPublicAccessBlockConfiguration, bucket.as_str()).into()),
    }
}

pub(crate) async fn put(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let GivenBlock(block) = document::required(request.payload.into_document())?;
    gateway.objects.set_config(request.target.bucket_key(), block).await?;
    Ok(answer::ok())
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.remove_config(request.target.bucket_key(), ConfigKind::PublicAccessBlock).await?;
    Ok(answer::no_content())
}

/// The block that a document says. A setting that it does not name is off.
pub(super) struct GivenBlock(pub(super) PublicAccessBlock);

impl<'xml> Deserialize<'xml> for GivenBlock {
    fn deserialize(parser: &mut Deserializer<'xml>) -> DeResult<Self> {
        let (mut block, mut named) = (PublicAccessBlock::default(), PublicAccessBlock::default());
        parser.named_element("PublicAccessBlockConfiguration", |parser| {
            parser.for_each_element(|parser, name| {
                let setting = setting_of(name).ok_or(DeError::UnexpectedTagName)?;
                if named.has(setting) {
                    return Err(DeError::DuplicateField);
                }
                named = named.with(setting);
                if parser.text(flag)? {
                    block = block.with(setting);
                }
                Ok(())
            })
        })?;
        Ok(Self(block))
    }
}

fn setting_of(name: &[u8]) -> Option<PublicAccessSetting> {
    Some(match name {
        b"BlockPublicAcls" => PublicAccessSetting::BlockPublicAcls,
        b"IgnorePublicAcls" => PublicAccessSetting::IgnorePublicAcls,
        b"BlockPublicPolicy" => PublicAccessSetting::BlockPublicPolicy,
        b"RestrictPublicBuckets" => PublicAccessSetting::RestrictPublicBuckets,
        _ => return None,
    })
}

/// A boolean as AWS documents it for these elements: `TRUE` or `FALSE`; SDKs write them in lower case.
fn flag(text: &str) -> DeResult<bool> {
    match text.trim() {
        text if text.eq_ignore_ascii_case("true") => Ok(true),
        text if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(DeError::InvalidContent),
    }
}

/// A block as a document shows it.
pub(super) fn shown(block: PublicAccessBlock) -> PublicAccessBlockConfiguration {
    let is_on = |setting| Some(block.has(setting));
    PublicAccessBlockConfiguration {
        block_public_acls: is_on(PublicAccessSetting::BlockPublicAcls),
        ignore_public_acls: is_on(PublicAccessSetting::IgnorePublicAcls),
        block_public_policy: is_on(PublicAccessSetting::BlockPublicPolicy),
        restrict_public_buckets: is_on(PublicAccessSetting::RestrictPublicBuckets),
    }
}

/// The block that a document says, and the document that shows it again.
///
/// # Errors
/// The refusal of a document that says none.
#[cfg(any(test, fuzzing))]
pub(crate) fn read(
    bytes: &[u8],
) -> Result<(PublicAccessBlock, impl s3s::xml::Serialize), crate::wire::refusal::Refusal> {
    let GivenBlock(block) = document::of(bytes)?;
    Ok((block, shown(block)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(inside: &str) -> Result<PublicAccessBlock, Code> {
        let (namespace, name) = (answer::NAMESPACE, "PublicAccessBlockConfiguration");
        let document = format!("<{name} xmlns=\"{namespace}\">{inside}</{name}>");
        read(document.as_bytes()).map(|(block, _)| block).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_block_is_shown_as_it_was_put() {
        let document = "<PublicAccessBlockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                        <BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>false</IgnorePublicAcls>\
                        <BlockPublicPolicy>false</BlockPublicPolicy>\
                        <RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
        let (block, shown) = read(document.as_bytes()).expect("a block");
        assert!(block.has(PublicAccessSetting::BlockPublicAcls));
        assert!(!block.has(PublicAccessSetting::BlockPublicPolicy));
        let shown = answer::text(&shown);
        let (again, _) = read(shown.as_bytes()).expect("as it is shown");
        assert_eq!(again, block);
        for (name, value) in [("BlockPublicAcls", "true"), ("BlockPublicPolicy", "false")] {
            assert!(shown.contains(&format!("<{name}>{value}</{name}>")), "{shown}");
        }
    }

    #[test]
    fn settings_that_are_not_named_are_off() {
        assert_eq!(block(""), Ok(PublicAccessBlock::default()));
        let policy = PublicAccessBlock::default().with(PublicAccessSetting::BlockPublicPolicy);
        assert_eq!(block("<BlockPublicPolicy>TRUE</BlockPublicPolicy>"), Ok(policy));
    }

    #[test]
    fn what_is_no_block_is_malformed() {
        for inside in [
            "<BlockPublicPolicy/>",
            "<BlockPublicPolicy>1</BlockPublicPolicy>",
            "<BlockPublicPolicy>yes</BlockPublicPolicy>",
            "<BlockPublicPolicy>true</BlockPublicPolicy><BlockPublicPolicy>true</BlockPublicPolicy>",
            "<blockPublicPolicy>true</blockPublicPolicy>",
            "<BlockEverything>true</BlockEverything>",
        ] {
            assert_eq!(block(inside), Err(Code::MalformedXML), "{inside}");
        }
        assert_eq!(read(b"<Block/>").map(drop).map_err(|refusal| refusal.code), Err(Code::MalformedXML));
    }
}
