//! The tags that a write gives its object, where its caller may give them.

use sherd_core::record::ObjectTags;
use sherd_store::object::ObjectName;

use crate::access::facts::Facts;
use crate::access::{self, Access, WRITE_TAGS};
use crate::head::request_head::RequestHead;
use crate::head::tagging::GivenTags;
use crate::wire::refusal::Refusal;

/// The tags that a write gives its object, by its header or a field of its form, whose caller may give
/// them.
///
/// # Errors
/// As [`GivenTags::stored`]; AccessDenied where the caller may not.
pub(crate) fn permitted(
    head: &RequestHead<'_>,
    access: &Access,
    name: &ObjectName,
) -> Result<ObjectTags, Refusal> {
    let tags = head.tags().map_or_else(|| Ok(ObjectTags::default()), GivenTags::stored)?;
    if !tags.is_empty() {
        access.allow(WRITE_TAGS, access::object(name), Facts::of(head))?;
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use sherd_signature::form_fields::FormFields;

    use super::*;
    use crate::head::columns::{Columns, Verb};
    use crate::head::{form, names};
    use crate::wire::address::Level;
    use crate::wire::refusal::Code;

    #[test]
    fn a_write_with_tags_needs_the_right_to_give_them() {
        let name = names::object("bucket", "key").expect("a name");
        let other = names::object("bucket", "other").expect("a name");
        let access = Access::denying(WRITE_TAGS, &name);
        let given = |head: &RequestHead<'_>, name: &ObjectName| {
            permitted(head, &access, name).map(|tags| tags.count()).map_err(|refusal| refusal.code)
        };
        let code = |text, name: &ObjectName| given(&RequestHead::with(&[("x-amz-tagging", text)]), name);
        assert_eq!(code("a=b", &name), Err(Code::AccessDenied));
        assert_eq!(code("", &name), Ok(0));
        assert_eq!(code("a=b", &other), Ok(1));
        let by_form = |field: Option<&str>, name: &ObjectName| {
            let mut fields = FormFields::default();
            if let Some(field) = field {
                fields.push("tagging".to_owned(), field);
            }
            let columns = Columns::of("PostObject", Verb::Post, Level::Bucket, &[]);
            given(&form::of(RequestHead::with(&[]), &columns, &fields).expect("a form"), name)
        };
        let one = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
        assert_eq!(by_form(Some(one), &name), Err(Code::AccessDenied));
        assert_eq!(by_form(None, &name), Ok(0));
        assert_eq!(by_form(Some("<Tagging><TagSet/></Tagging>"), &name), Ok(0));
        assert_eq!(by_form(Some(one), &other), Ok(1));
    }
}
