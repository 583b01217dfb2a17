//! The tags of an object: read, and changed as one compare-and-set that leaves all else of it as it is.
//!
//! A change is made on the version that the compare-and-set finds as the current one, whichever writer made
//! that. Bytes, entity tag and time of the version stay, so conditional writes and reads under way go on.

use sherd_core::record::{Object, ObjectTags, State, Tag, history};

use super::bucket::look_up::BucketRegisters;
use super::{Error, MissingResource, ObjectName, Result};
use crate::register::{Inline, Proposal, QuorumRow, Writer};

/// Why a change of tags changes nothing.
#[derive(Debug)]
enum TaggingRefusal {
    /// The object has these tags.
    Same,
    /// Tags differ from those that the change was to replace.
    Changed,
    /// The key has no current version.
    Missing,
}

/// The tags of an object, in the order in which they were given.
pub(super) async fn of(under: &BucketRegisters, name: &ObjectName) -> Result<Vec<Tag>> {
    let (_, found) = under.find_object(name).await?;
    let object = found.as_ref().and_then(QuorumRow::object);
    let (_, content) = object.and_then(Object::current).ok_or(MissingResource::Key)?;
    let tags = ObjectTags::of(&content.entries).decode();
    tags.map_err(|error| Error::Internal { what: format!("the tags of an object: {error}") })
}

/// Gives an object other tags, in place of `replaced` where those are named.
pub(super) async fn set(
    under: &BucketRegisters,
    name: &ObjectName,
    tags: ObjectTags,
    replaced: Option<ObjectTags>,
) -> Result<()> {
    let route = under.route(name).await?;
    let ticket = under.registers.begin_at(&route);
    let decide = move |state: Option<&State>| {
        let object = state.and_then(State::object).ok_or(TaggingRefusal::Missing)?;
        let (_, content) = object.current().ok_or(TaggingRefusal::Missing)?;
        let existing = ObjectTags::of(&content.entries);
        // First: the change itself may have made them, by a proposal whose outcome was not known.
        if existing == tags {
            return Err(TaggingRefusal::Same);
        }
        if replaced.as_ref().is_some_and(|replaced| *replaced != existing) {
            return Err(TaggingRefusal::Changed);
        }
        let tagged = history::tag(object, &tags);
        Ok(Proposal { inline: Inline::Kept, ..Proposal::of(State::Object(tagged)) })
    };
    match under.change_or(name.bucket.name(), &route, ticket, Writer::new(decide)).await? {
        Ok(()) | Err(TaggingRefusal::Same) => Ok(()),
        Err(TaggingRefusal::Changed) => Err(Error::TagsChanged),
        Err(TaggingRefusal::Missing) => Err(MissingResource::Key.into()),
    }
}

#[cfg(test)]
mod tests;
