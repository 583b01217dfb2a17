//! Listings: pages of keys and common prefixes, in order, each acknowledged write included.
//!
//! `merge` gives one name after the other; here names become entries, and what the scans alone
//! cannot tell is asked of the register.

mod merge;

use bytes::Bytes;

use sherd_core::id::{BucketId, ObjectKey, RegisterKey};
use sherd_core::limits;
use sherd_core::record::{State, Value};

use super::get::info_of;
use super::{
    BucketInfo, BucketPage, ListEntry, ListPage, ListRequest, ListUploads, Objects, Result, SEALED_TRIES,
    Unavailable, UploadEntry, UploadPage,
};
use crate::register::Failure;
use merge::{Merge, Name, Query, shows_bucket, shows_object, shows_uploads};

/// One name that shows.
enum Shown {
    Key(ObjectKey, Value),
    Prefix(String),
}

impl Objects {
    /// Lists one page of a bucket's keys.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let ListRequest { bucket, prefix, delimiter, after, max_keys } = request;
        let max = page_size(max_keys);
        let mut page = ListPage { entries: Vec::new(), next: None };
        if max == 0 {
            self.bucket_id(&bucket).await?;
            return Ok(page);
        }
        let shown = self.page(&bucket, &prefix, delimiter.as_deref(), after, max + 1, shows_object).await?;
        let more = shown.len() > max;
        for shown in shown.into_iter().take(max) {
            page.entries.extend(object_entry(shown));
        }
        if more {
            page.next = page.entries.last().map(|entry| match entry {
                ListEntry::Object { key, .. } => key.as_str().to_owned(),
                ListEntry::Prefix(prefix) => prefix.clone(),
            });
        }
        Ok(page)
    }

    /// Lists one page of a bucket's open uploads.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn list_uploads(&self, request: ListUploads) -> Result<UploadPage> {
        let ListUploads { bucket, prefix, delimiter, after, max_uploads } = request;
        let max = page_size(max_uploads);
        let mut page = UploadPage { entries: Vec::new(), next: None };
        if max == 0 {
            self.bucket_id(&bucket).await?;
            return Ok(page);
        }
        let mut entries = Vec::new();
        // The uploads of the marker's own key that come behind the marker's upload.
        if let Some((key, Some(upload))) = &after {
            entries.extend(self.uploads_behind(&bucket, key, *upload).await?);
        }
        let behind = after.map(|(key, _)| key);
        let shown = self.page(&bucket, &prefix, delimiter.as_deref(), behind, max + 1, shows_uploads).await?;
        entries.extend(shown.into_iter().flat_map(upload_entries));
        if entries.len() > max {
            entries.truncate(max);
            page.next = entries.last().map(|entry| match entry {
                UploadEntry::Upload { key, id, .. } => (key.as_str().to_owned(), Some(*id)),
                UploadEntry::Prefix(prefix) => (prefix.clone(), None),
            });
        }
        page.entries = entries;
        Ok(page)
    }

    async fn uploads_behind(
        &self,
        bucket: &ObjectKey,
        key: &str,
        upload: sherd_core::id::UploadId,
    ) -> Result<Vec<UploadEntry>> {
        let Ok(key) = ObjectKey::new(key.to_owned()) else { return Ok(Vec::new()) };
        let name = super::ObjectName { bucket: bucket.clone(), key: key.clone() };
        let register = self.object_key(&name).await?;
        let Some(found) = self.find(bucket, &register).await? else { return Ok(Vec::new()) };
        let all = upload_entries(Shown::Key(key, found.value));
        let behind =
            all.iter().position(|entry| matches!(entry, UploadEntry::Upload { id, .. } if *id == upload));
        Ok(all.into_iter().skip(behind.map_or(0, |at| at + 1)).collect())
    }

    /// Lists one page of buckets.
    pub(super) async fn list_bucket_registers(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: u32,
    ) -> Result<BucketPage> {
        let max = usize::try_from(max).unwrap_or(usize::MAX).min(10_000);
        let mut query = Self::query(BucketId::SYSTEM, prefix, None, after.map(str::to_owned), shows_bucket);
        query.wanted = max.saturating_add(1);
        let shown = self.names(query, max.saturating_add(1)).await?;
        let more = shown.len() > max;
        let buckets: Vec<BucketInfo> = shown.into_iter().take(max).filter_map(bucket_info).collect();
        let next = buckets.last().filter(|_| more).map(|bucket| bucket.name.as_str().to_owned());
        Ok(BucketPage { buckets, next })
    }

    /// Up to `max` names of a bucket; begun anew where the bucket is sealed and opened meanwhile.
    async fn page(
        &self,
        bucket: &ObjectKey,
        prefix: &str,
        delimiter: Option<&str>,
        after: Option<String>,
        max: usize,
        shows: fn(&Value) -> bool,
    ) -> Result<Vec<Shown>> {
        for _ in 0..SEALED_TRIES {
            let id = self.bucket_id(bucket).await?;
            let mut query = Self::query(id, prefix, delimiter, after.clone(), shows);
            query.wanted = max;
            match self.names(query, max).await {
                Err(Failure::Sealed) => self.wait_unsealed(bucket, id).await?,
                other => return Ok(other?),
            }
        }
        Err(Unavailable::Quorum.into())
    }

    fn query(
        bucket: BucketId,
        prefix: &str,
        delimiter: Option<&str>,
        after: Option<String>,
        shows: fn(&Value) -> bool,
    ) -> Query {
        Query {
            bucket,
            prefix: Bytes::copy_from_slice(prefix.as_bytes()),
            delimiter: delimiter.map(|delimiter| Bytes::copy_from_slice(delimiter.as_bytes())),
            from: after.map(|after| behind(prefix, delimiter, after)).unwrap_or_default(),
            shows,
            wanted: 0,
        }
    }

    async fn names(&self, query: Query, max: usize) -> std::result::Result<Vec<Shown>, Failure> {
        let mut merge = Merge::new(&self.inner.cluster, &query);
        let mut shown = Vec::new();
        while shown.len() < max {
            let Some(name) = merge.next().await? else { break };
            match name {
                Name::Key { key, value } => shown.push(Shown::Key(key, *value)),
                Name::Prefix(prefix) => shown.extend(text(&prefix).map(Shown::Prefix)),
                Name::Unsure(key) => {
                    let found =
                        self.inner.registers.read(&RegisterKey::object(query.bucket, key.clone())).await?;
                    shown.extend(
                        found
                            .filter(|found| (query.shows)(&found.value))
                            .map(|found| Shown::Key(key, found.value)),
                    );
                }
                Name::UnsurePrefix { prefix, witness, set } => {
                    let found = self
                        .inner
                        .registers
                        .read(&RegisterKey::object(query.bucket, witness.clone()))
                        .await?;
                    if found.is_some_and(|found| (query.shows)(&found.value)) {
                        shown.extend(text(&prefix).map(Shown::Prefix));
                        merge.pass(&prefix);
                    } else {
                        merge.dead_witness(set, &prefix, &witness);
                    }
                }
            }
        }
        Ok(shown)
    }
}

/// Where a page begins: behind `after`, and behind everything below it where it is itself a common
/// prefix of this listing. 0xff is in no UTF-8 text, so it sorts behind every key of the prefix.
fn behind(prefix: &str, delimiter: Option<&str>, after: String) -> Bytes {
    let rest = after.strip_prefix(prefix);
    let is_prefix = delimiter.filter(|delimiter| !delimiter.is_empty()).is_some_and(|delimiter| {
        rest.is_some_and(|rest| rest.find(delimiter).is_some_and(|at| at + delimiter.len() == rest.len()))
    });
    let mut bytes = after.into_bytes();
    bytes.push(if is_prefix { 0xff } else { 0 });
    bytes.into()
}

fn page_size(asked: u32) -> usize {
    usize::try_from(asked.min(limits::LIST_KEYS_MAX)).expect("a page has at most 1000 keys")
}

/// A prefix of keys is cut at a delimiter that is text, so it is text too.
fn text(prefix: &Bytes) -> Option<String> {
    String::from_utf8(prefix.to_vec()).ok()
}

fn object_entry(shown: Shown) -> Option<ListEntry> {
    match shown {
        Shown::Prefix(prefix) => Some(ListEntry::Prefix(prefix)),
        Shown::Key(key, value) => {
            let State::Object(object) = &value.state else { return None };
            let (version, content) = object.current()?;
            let mut info = info_of(version, content);
            info.attributes = sherd_core::record::Attributes::default();
            Some(ListEntry::Object { key, info })
        }
    }
}

fn upload_entries(shown: Shown) -> Vec<UploadEntry> {
    match shown {
        Shown::Prefix(prefix) => vec![UploadEntry::Prefix(prefix)],
        Shown::Key(key, value) => {
            let State::Object(object) = value.state else { return Vec::new() };
            let entry = |upload: sherd_core::record::Upload| UploadEntry::Upload {
                key: key.clone(),
                id: upload.id,
                initiated_ms: upload.initiated_ms,
                checksum: upload.checksum,
            };
            object.uploads.into_iter().map(entry).collect()
        }
    }
}

fn bucket_info(shown: Shown) -> Option<BucketInfo> {
    match shown {
        Shown::Key(name, Value { state: State::Bucket(bucket), .. }) => {
            Some(BucketInfo { name, created_ms: bucket.created_ms, location: bucket.location })
        }
        Shown::Key(..) | Shown::Prefix(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_that_is_a_common_prefix_skips_all_below_it() {
        assert_eq!(&behind("", Some("/"), "a/".to_owned())[..], b"a/\xff");
        assert_eq!(&behind("", Some("/"), "a/b".to_owned())[..], b"a/b\0");
        assert_eq!(&behind("a/", Some("/"), "a/".to_owned())[..], b"a/\0");
        assert_eq!(&behind("a/", Some("/"), "a/b/".to_owned())[..], b"a/b/\xff");
        assert_eq!(&behind("", None, "a/".to_owned())[..], b"a/\0");
        assert_eq!(&behind("", Some("/"), "a/b/".to_owned())[..], b"a/b/\0");
    }
}
