//! The tags that a write gives its object, where its caller may give them.

use http::HeaderMap;
use sherd_core::record::ObjectTags;
use sherd_store::object::ObjectName;

use crate::access::facts::{DocumentFacts, Facts};
use crate::access::{self, Access, WRITE_TAGS};
use crate::head::tagging::{given, of_field, of_header};
use crate::wire::refusal::Refusal;

/// The tags in the `x-amz-tagging` of a write of an object, whose caller may give it tags.
///
/// # Errors
/// As [`of_header`]; AccessDenied where the caller may not.
pub(crate) fn permitted(
    headers: &HeaderMap,
    access: &Access,
    name: &ObjectName,
) -> Result<ObjectTags, Refusal> {
    may_be_given(of_header(headers)?, Facts::of(headers), access, name)
}

/// The tags in the field `tagging` of a form, whose caller may give them; without the field none.
///
/// # Errors
/// As [`of_field`]; AccessDenied where the caller may not.
pub(crate) fn permitted_by_form(
    field: Option<&str>,
    headers: &HeaderMap,
    access: &Access,
    name: &ObjectName,
) -> Result<ObjectTags, Refusal> {
    let tags = of_field(field.unwrap_or_default())?;
    let given = given(&tags)?;
    may_be_given(tags, Facts::of(headers).with_document(DocumentFacts::Tags(&given)), access, name)
}

fn may_be_given(
    tags: ObjectTags,
    facts: Facts<'_>,
    access: &Access,
    name: &ObjectName,
) -> Result<ObjectTags, Refusal> {
    if !tags.is_empty() {
        access.allow(WRITE_TAGS, access::object(name), facts)?;
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::head::names;
    use crate::wire::code::Code;

    #[test]
    fn a_write_with_tags_needs_the_right_to_give_them() {
        let name = names::object("bucket", "key").expect("a name");
        let access = Access::denying(WRITE_TAGS, &name);
        let code = |text: &'static str, name: &ObjectName| {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static("x-amz-tagging"),
                HeaderValue::from_static(text),
            )]);
            permitted(&headers, &access, name).map(|tags| tags.count()).map_err(|refusal| refusal.code)
        };
        assert_eq!(code("a=b", &name), Err(Code::AccessDenied));
        assert_eq!(code("", &name), Ok(0));
        let other = names::object("bucket", "other").expect("a name");
        assert_eq!(code("a=b", &other), Ok(1));
        let by_form = |field, name: &ObjectName| {
            let tags = permitted_by_form(field, &HeaderMap::new(), &access, name);
            tags.map(|tags| tags.count()).map_err(|refusal| refusal.code)
        };
        let one = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
        assert_eq!(by_form(Some(one), &name), Err(Code::AccessDenied));
        assert_eq!(by_form(None, &name), Ok(0));
        assert_eq!(by_form(Some("<Tagging><TagSet/></Tagging>"), &name), Ok(0));
        assert_eq!(by_form(Some(one), &other), Ok(1));
    }
}
