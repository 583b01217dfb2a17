//! Conditions on reads and writes, judged on what a register holds.

use sherd_core::record::{Content, Object};

use super::{Error, MissingResource, ReadConditions, Result, WriteConditions};

/// Judges a write's conditions on the current version. Called inside the register's
/// compare-and-set, so what it says holds at the moment of the write.
pub(super) fn judge_write(conditions: &WriteConditions, object: Option<&Object>) -> Result<()> {
    let etag = object.and_then(Object::current).map(|(_, content)| content.etag.as_str());
    if let Some(wanted) = &conditions.if_match {
        if etag.is_none() {
            return Err(MissingResource::Key.into());
        }
        if !wanted.matches(etag) {
            return Err(Error::PreconditionFailed { header: "If-Match" });
        }
    }
    if conditions.if_none_match.as_ref().is_some_and(|unwanted| unwanted.matches(etag)) {
        return Err(Error::PreconditionFailed { header: "If-None-Match" });
    }
    Ok(())
}

/// Judges a read's conditions in the order of RFC 9110, section 13.2.2: an entity tag that is
/// asked for decides alone, times only where no tag was given.
pub(super) fn judge_read(conditions: &ReadConditions, content: &Content, modified_ms: u64) -> Result<()> {
    let etag = content.etag.as_str();
    let modified = modified_ms / 1000;
    if let Some(wanted) = &conditions.if_match {
        if !wanted.matches(Some(etag)) {
            return Err(Error::PreconditionFailed { header: "If-Match" });
        }
    } else if conditions.if_unmodified_since.is_some_and(|since| modified > since) {
        return Err(Error::PreconditionFailed { header: "If-Unmodified-Since" });
    }
    let not_modified = match &conditions.if_none_match {
        Some(known) => known.matches(Some(etag)),
        None => conditions.if_modified_since.is_some_and(|since| modified <= since),
    };
    if not_modified {
        let attributes = content.attributes.clone();
        return Err(Error::NotModified { etag: etag.to_owned(), modified_ms, attributes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sherd_core::record::{Attributes, Body, Checksums};

    use super::*;
    use crate::object::EtagMatch;

    fn content(etag: &str) -> Content {
        Content {
            size: 1,
            etag: etag.to_owned(),
            attributes: Attributes::default(),
            checksums: Checksums::new(),
            upload: None,
            body: Body::Inline { hash: [0; 32] },
        }
    }

    fn one(tag: &str) -> EtagMatch {
        EtagMatch::OneOf(vec![tag.to_owned()])
    }

    #[test]
    fn a_matching_tag_outweighs_an_old_date() {
        let conditions = ReadConditions {
            if_match: Some(one("a")),
            if_unmodified_since: Some(1),
            ..ReadConditions::default()
        };
        assert!(judge_read(&conditions, &content("a"), 5_000).is_ok());
        assert!(matches!(judge_read(&conditions, &content("b"), 500), Err(Error::PreconditionFailed { .. })));
    }

    #[test]
    fn a_differing_tag_outweighs_an_unmodified_date() {
        let conditions = ReadConditions {
            if_none_match: Some(one("a")),
            if_modified_since: Some(9),
            ..ReadConditions::default()
        };
        assert!(judge_read(&conditions, &content("b"), 1_000).is_ok());
        assert!(matches!(judge_read(&conditions, &content("a"), 99_000), Err(Error::NotModified { .. })));
    }

    #[test]
    fn a_match_on_nothing_is_a_missing_key() {
        let conditions = WriteConditions { if_match: Some(EtagMatch::Any), if_none_match: None };
        assert!(matches!(judge_write(&conditions, None), Err(Error::Missing(MissingResource::Key))));
        let conditions = WriteConditions { if_match: None, if_none_match: Some(EtagMatch::Any) };
        assert!(judge_write(&conditions, None).is_ok());
    }
}
