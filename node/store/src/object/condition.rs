//! Conditions on reads and writes, judged on what a register holds; and how a write under conditions is
//! recognised when its client sends it again.

use sherd_core::record::{ConditionalChange, Content, KeptAnswer, Object, ObjectTags};

use super::{Error, EtagMatch, MissingResource, ReadConditions, Result, WriteConditions, WriteOutcome};

/// Why a write makes nothing.
#[derive(Debug)]
pub(super) enum WriteRefusal {
    /// An earlier sending of its call made it.
    Repeated(EarlierWrite),
    /// Refused: the change cannot be made.
    Refused(Error),
}

/// The result of an earlier sending of a call.
#[derive(Debug)]
pub(super) struct EarlierWrite {
    etag: String,
    /// When, while its version is the current one.
    modified_ms: Option<u64>,
}

impl EarlierWrite {
    /// By what is remembered of its answer, the etag that this sending computed, and what the register holds.
    pub(super) fn of(kept: &KeptAnswer, computed: &str, object: Option<&Object>) -> Self {
        let etag = kept.etag.as_deref().unwrap_or(computed);
        let current = object.and_then(Object::current).filter(|(_, content)| content.etag == etag);
        Self { etag: etag.to_owned(), modified_ms: current.map(|(version, _)| version.modified_ms) }
    }

    /// Entity tag, without quotes.
    pub(super) fn etag(&self) -> &str {
        &self.etag
    }

    /// Returns the answer of the earlier write; a field that is not remembered is as a repeated write would
    /// give it.
    pub(super) fn answer(self, written: WriteOutcome) -> WriteOutcome {
        let Self { etag, modified_ms } = self;
        WriteOutcome { etag, modified_ms: modified_ms.unwrap_or(written.modified_ms), ..written }
    }
}

impl WriteConditions {
    /// The change as it is remembered, unless the request has no condition or no call: `wanted` distinguishes
    /// what it stores from everything else that the same call could store. `answer` is what a sending that
    /// wants the same cannot compute. The register adds when it was proposed.
    pub(super) fn change(&self, answer: KeptAnswer, wanted: &[&[u8]]) -> Option<ConditionalChange> {
        let Self { if_match, if_none_match, call } = self;
        let call = call.as_ref().filter(|_| if_match.is_some() || if_none_match.is_some())?;
        let mut pieces: Vec<&[u8]> = Vec::new();
        for (name, condition) in [("if-match", if_match), ("if-none-match", if_none_match)] {
            let Some(condition) = condition else { continue };
            pieces.push(name.as_bytes());
            match condition {
                EtagMatch::Any => pieces.push(b"*"),
                EtagMatch::OneOf(tags) => pieces.extend(tags.iter().map(String::as_bytes)),
            }
        }
        pieces.push(b"wanted");
        pieces.extend_from_slice(wanted);
        Some(ConditionalChange { token: call.token(&pieces), second: 0, answer })
    }
}

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
    if conditions.tags.as_ref().is_some_and(|tags| *tags != ObjectTags::of(&content.entries)) {
        return Err(Error::TagsChanged);
    }
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
    use sherd_core::record::{Attributes, Body, Checksums, Entries};
    use sherd_core::register::call::ClientCall;

    use super::*;

    fn content(etag: &str) -> Content {
        Content {
            size: 1,
            etag: etag.to_owned(),
            attributes: Attributes::default(),
            checksums: Checksums::new(),
            upload: None,
            body: Body::Inline { hash: [0; 32] },
            entries: Entries::default(),
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
        let conditions = WriteConditions { if_match: Some(EtagMatch::Any), ..WriteConditions::default() };
        assert!(matches!(judge_write(&conditions, None), Err(Error::Missing(MissingResource::Key))));
        let conditions =
            WriteConditions { if_none_match: Some(EtagMatch::Any), ..WriteConditions::default() };
        assert!(judge_write(&conditions, None).is_ok());
    }

    #[test]
    fn a_write_is_remembered_by_its_call_its_conditions_and_what_it_stores() {
        let call = Some(ClientCall::new("key", "PutObject", b"id"));
        let absent =
            || WriteConditions { if_none_match: Some(EtagMatch::Any), call, ..WriteConditions::default() };
        let token = |conditions: WriteConditions, body: &[u8]| {
            conditions.change(KeptAnswer::default(), &[body]).map(|change| change.token)
        };
        let first = token(absent(), b"body");
        assert!(first.is_some());
        assert_eq!(token(absent(), b"body"), first);
        assert_ne!(token(absent(), b"other body"), first);
        let matching = |tags: &[&str]| WriteConditions {
            if_match: Some(EtagMatch::OneOf(tags.iter().map(ToString::to_string).collect())),
            call,
            ..WriteConditions::default()
        };
        let tokens = [&["a"][..], &["b"], &["a", "b"], &["ab"]].map(|tags| token(matching(tags), b"body"));
        for (at, token) in tokens.iter().enumerate() {
            assert!(token.is_some() && *token != first && !tokens[..at].contains(token));
        }
        assert_eq!(
            token(WriteConditions { call, ..WriteConditions::default() }, b"body"),
            None,
            "no condition"
        );
        assert_eq!(token(absent().in_call(None), b"body"), None, "no call");
    }
}
