//! The effect of a put, a delete and a change of tags on an object's versions. Pure: every verb that changes
//! versions (put, copy, complete, delete, tagging) calls it inside its register's compare-and-set, on the
//! value that the prepare found.
//!
//! All buckets are unversioned, so that a put replaces every version by one with the null id, and a delete
//! removes them. A bucket's versioning state will be one more argument of both and decide the new version's
//! id, which versions are replaced, and whether a delete adds a marker; a delete will also say which version
//! it is of. A lock on a version that would be replaced will be their error.

use super::{Content, Object, ObjectTags, State, Version, VersionKind};
use crate::id::VersionId;

/// An object after a change of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'a> {
    /// The object with its next versions. Its uploads are as they were.
    pub object: Object,
    /// The versions that it had before and has no more.
    pub replaced: &'a [Version],
}

/// The content as the newest version, made at `modified_ms` (milliseconds since the Unix epoch).
pub fn put(object: Option<&Object>, modified_ms: u64, content: Content) -> Change<'_> {
    let version = Version { id: VersionId::NULL, modified_ms, kind: VersionKind::Content(content) };
    change(object, vec![version])
}

/// The object without the version that a plain read sees. Where `replaced` is empty there was nothing to
/// delete.
pub fn delete(object: Option<&Object>) -> Change<'_> {
    change(object, Vec::new())
}

/// The object with other tags of the version that a plain read sees. All else of it stays; an object whose
/// newest version is a delete marker, or that has no version, stays as it is.
pub fn tag(object: &Object, tags: &ObjectTags) -> Object {
    let mut object = object.clone();
    if let Some(Version { kind: VersionKind::Content(content), .. }) = object.versions.first_mut() {
        tags.put_into(&mut content.entries);
    }
    object
}

fn change(object: Option<&Object>, versions: Vec<Version>) -> Change<'_> {
    let (replaced, uploads) =
        object.map_or_else(Default::default, |object| (object.versions.as_slice(), object.uploads.clone()));
    Change { object: Object { versions, uploads }, replaced }
}

impl From<Object> for State {
    /// An object without versions and uploads is a tombstone.
    fn from(object: Object) -> Self {
        if object.versions.is_empty() && object.uploads.is_empty() {
            Self::Tombstone
        } else {
            Self::Object(object)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::UploadId;
    use crate::record::{Attributes, Body, Checksums, Entries, Tag, Upload};

    fn content(size: u64) -> Content {
        Content {
            size,
            etag: String::new(),
            attributes: Attributes::default(),
            checksums: Checksums::new(),
            upload: None,
            body: Body::Inline { hash: [0; 32] },
            entries: Entries::default(),
        }
    }

    /// The null version of a body of this size.
    fn null(size: u64) -> Version {
        Version { id: VersionId::NULL, modified_ms: 5, kind: VersionKind::Content(content(size)) }
    }

    #[test]
    fn a_put_replaces_what_is_there_and_a_delete_removes_it() {
        let upload = Upload { id: UploadId([1; 16]), initiated_ms: 1, attributes: None, checksum: None };
        let nothing: Option<Object> = None;
        let is_open = vec![upload];
        let object =
            |versions: Vec<Version>, uploads: &[Upload]| Object { versions, uploads: uploads.to_vec() };
        for (before, after_put, after_delete, replaced) in [
            (nothing, object(vec![null(2)], &[]), State::Tombstone, vec![]),
            (Some(object(vec![], &[])), object(vec![null(2)], &[]), State::Tombstone, vec![]),
            (Some(object(vec![null(1)], &[])), object(vec![null(2)], &[]), State::Tombstone, vec![null(1)]),
            (
                Some(object(vec![], &is_open)),
                object(vec![null(2)], &is_open),
                State::Object(object(vec![], &is_open)),
                vec![],
            ),
            (
                Some(object(vec![null(1)], &is_open)),
                object(vec![null(2)], &is_open),
                State::Object(object(vec![], &is_open)),
                vec![null(1)],
            ),
        ] {
            let put = put(before.as_ref(), 5, content(2));
            assert_eq!(put, Change { object: after_put, replaced: &replaced }, "{before:?}");
            let delete = delete(before.as_ref());
            assert_eq!(delete.replaced, replaced, "{before:?}");
            assert_eq!(State::from(delete.object), after_delete, "{before:?}");
        }
    }

    #[test]
    fn tags_change_the_newest_version_alone() {
        let tagged = |tags: &ObjectTags| {
            let mut entries = Entries::default();
            entries.set(7, b"another"[..].into());
            tags.put_into(&mut entries);
            let kind = VersionKind::Content(Content { entries, ..content(2) });
            Version { kind, ..null(2) }
        };
        let tags = |value: &str| {
            let tag = Tag { key: "k".to_owned(), value: value.to_owned() };
            ObjectTags::encode(&[tag]).expect("within limits")
        };
        let marker = Version { kind: VersionKind::DeleteMarker, ..null(1) };
        let uploads =
            vec![Upload { id: UploadId([1; 16]), initiated_ms: 1, attributes: None, checksum: None }];
        let object = |versions: &[Version]| Object { versions: versions.to_vec(), uploads: uploads.clone() };
        let none = ObjectTags::default();
        for (before, after) in [(&none, tags("1")), (&tags("1"), tags("2")), (&tags("1"), none.clone())] {
            let before = object(&[tagged(before), tagged(&tags("old"))]);
            assert_eq!(tag(&before, &after), object(&[tagged(&after), tagged(&tags("old"))]));
        }
        for unreadable in [object(&[]), object(&[marker, tagged(&tags("1"))])] {
            assert_eq!(tag(&unreadable, &tags("2")), unreadable);
        }
    }
}
