//! Listings: pages of keys and common prefixes, in order, each acknowledged write included.
//!
//! `merge` gives one name after the other; here names become entries, and what the scans alone
//! cannot tell is asked of the register.

mod merge;

use bytes::Bytes;

use sherd_core::id::{BucketId, ObjectKey, RegisterKey};
use sherd_core::limits;
use sherd_core::record::{Bucket, State, Value};

use super::get::info_of;
use super::{
    BucketInfo, BucketPage, ListEntry, ListPage, ListRequest, ListUploads, Objects, Result, SCAN_PATIENCE,
    SEALED_TRIES, UnavailableReason, UploadEntry, UploadPage,
};
use crate::register::Failure;
use merge::{Merge, Name, Query, READ_COST, shows_bucket, shows_object, shows_uploads};

/// Names that do not show that one page looks at, at most: some tenths of a second of work on one gateway.
const HIDDEN_NAMES_MAX: usize = 10_000;
/// Tombstones known to be committed that one volume passes for one page, at most: a volume passes a million of them in
/// about a second. A bucket that was just emptied holds all of its keys as such for a day.
const PASSED_ROWS_MAX: u64 = 100_000;

/// What a walk found.
struct Walk<E> {
    entries: Vec<E>,
    /// Where it stopped though there may be more.
    stopped: Option<String>,
}

/// One name that shows.
enum ListedName {
    Key(ObjectKey, Value),
    Prefix(String),
}

impl Objects {
    /// Lists one page of a bucket's keys.
    ///
    /// A page ends after enough tombstones, too: it may be short or empty and still have a next one.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.list_among(request, HIDDEN_NAMES_MAX, PASSED_ROWS_MAX).await
    }

    async fn list_among(&self, request: ListRequest, hidden_max: usize, passed_max: u64) -> Result<ListPage> {
        let ListRequest { bucket, prefix, delimiter, after, max_keys } = request;
        let max = page_size(max_keys);
        let mut page = ListPage { entries: Vec::new(), next: None };
        if max == 0 {
            // Nothing else asks whether it is there; a remembered id says that it was.
            self.head_bucket(bucket).await?;
            return Ok(page);
        }
        let query = Query {
            hidden_max,
            passed_max,
            ..Self::query(&prefix, delimiter.as_deref(), after, shows_object, max + 1)
        };
        let Walk { mut entries, stopped } = self.page(&bucket, query, object_entry).await?;
        let more = entries.len() > max;
        entries.truncate(max);
        page.entries = entries;
        page.next = stopped;
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
    /// Uploads lie in the rows of their objects, and no index names those that have some: a page walks the
    /// keys of its prefix. So a page ends after so many keys without an upload, too: it may be short or
    /// empty and still have a next one, and no request walks a whole bucket.
    ///
    /// # Errors
    /// Any of [`super::Error`].
    pub async fn list_uploads(&self, request: ListUploads) -> Result<UploadPage> {
        self.list_uploads_among(request, HIDDEN_NAMES_MAX).await
    }

    async fn list_uploads_among(&self, request: ListUploads, hidden_max: usize) -> Result<UploadPage> {
        let ListUploads { bucket, prefix, delimiter, after, max_uploads } = request;
        let max = page_size(max_uploads);
        let mut page = UploadPage { entries: Vec::new(), next: None };
        if max == 0 {
            // Nothing else asks whether it is there; a remembered id says that it was.
            self.head_bucket(bucket).await?;
            return Ok(page);
        }
        let mut entries = Vec::new();
        // The uploads of the marker's own key that come behind the marker's upload.
        if let Some((key, Some(upload))) = &after {
            entries.extend(self.uploads_behind(&bucket, key, *upload).await?);
        }
        let behind = after.map(|(key, _)| key);
        let mut query = Self::query(&prefix, delimiter.as_deref(), behind, shows_uploads, max + 1);
        query.hidden_max = hidden_max;
        let Walk { entries: behind, stopped } = self.page(&bucket, query, upload_entries).await?;
        entries.extend(behind);
        page.next = stopped.map(|key| (key, None));
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
        let all = upload_entries(ListedName::Key(key, found.value));
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
        let after = after.map(str::to_owned);
        // Clients that ask for all buckets in one page know of no next one.
        let query = Query {
            hidden_max: usize::MAX,
            passed_max: u64::MAX,
            ..Self::query(prefix, None, after, shows_bucket, max.saturating_add(1))
        };
        let Walk { entries: mut buckets, stopped: _ } = self.names(query, bucket_info).await?;
        let more = buckets.len() > max;
        buckets.truncate(max);
        let next = buckets.last().filter(|_| more).map(|bucket| bucket.name.as_str().to_owned());
        Ok(BucketPage { buckets, next })
    }

    /// Names of a bucket; begun anew where the bucket is sealed and opened meanwhile.
    async fn page<E, I: IntoIterator<Item = E>>(
        &self,
        bucket: &ObjectKey,
        query: Query,
        entries: fn(ListedName) -> I,
    ) -> Result<Walk<E>> {
        for _ in 0..SEALED_TRIES {
            let id = self.bucket_id(bucket).await?;
            match self.names(Query { bucket: id, ..query.clone() }, entries).await {
                // Another one that was made under its name is listed next.
                Err(Failure::Sealed) => drop(self.wait_unsealed(bucket, id).await?),
                other => return Ok(other?),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// What to ask for `wanted` names of the system's own namespace, or of a bucket that is put in.
    fn query(
        prefix: &str,
        delimiter: Option<&str>,
        after: Option<String>,
        shows: fn(&Value) -> bool,
        wanted: usize,
    ) -> Query {
        Query {
            bucket: BucketId::SYSTEM,
            prefix: Bytes::copy_from_slice(prefix.as_bytes()),
            delimiter: delimiter.map(|delimiter| Bytes::copy_from_slice(delimiter.as_bytes())),
            from: after.map(|after| behind(prefix, delimiter, after)).unwrap_or_default(),
            start: 0,
            shows,
            wanted,
            hidden_max: HIDDEN_NAMES_MAX,
            passed_max: PASSED_ROWS_MAX,
            timeout: SCAN_PATIENCE,
        }
    }

    /// Walks names until they make as many entries as are wanted. A name becomes entries at once: its value may have
    /// some mebibytes.
    async fn names<E, I: IntoIterator<Item = E>>(
        &self,
        query: Query,
        entries: fn(ListedName) -> I,
    ) -> std::result::Result<Walk<E>, Failure> {
        let mut start = [0];
        self.inner.rng.fill(&mut start);
        let query = Query { start: usize::from(start[0]), ..query };
        let mut merge = Merge::new(&self.inner.cluster, &self.inner.registers, &query);
        let mut walk = Walk { entries: Vec::new(), stopped: None };
        while walk.entries.len() < query.wanted {
            let Some(name) = merge.next().await? else { break };
            match name {
                Name::Key { key, value } => walk.entries.extend(entries(ListedName::Key(key, *value))),
                Name::Prefix(prefix) => {
                    walk.entries.extend(text(&prefix).map(ListedName::Prefix).into_iter().flat_map(entries));
                }
                Name::Unsure(key) => {
                    let found =
                        self.inner.registers.read(&RegisterKey::object(query.bucket, key.clone())).await?;
                    match found.filter(|found| (query.shows)(&found.value)) {
                        Some(found) => walk.entries.extend(entries(ListedName::Key(key, found.value))),
                        None if merge.hide(READ_COST) => {
                            walk.stopped = Some(key.as_str().to_owned());
                            break;
                        }
                        None => {}
                    }
                }
                Name::UnsurePrefix { prefix, witness, set } => {
                    let found = self
                        .inner
                        .registers
                        .read(&RegisterKey::object(query.bucket, witness.clone()))
                        .await?;
                    if found.is_some_and(|found| (query.shows)(&found.value)) {
                        walk.entries
                            .extend(text(&prefix).map(ListedName::Prefix).into_iter().flat_map(entries));
                        merge.pass(&prefix);
                    } else {
                        merge.dead_witness(set, &prefix, &witness);
                        // The walk ends with the next name, where that is enough.
                        merge.hide(READ_COST);
                    }
                }
                Name::Enough(up_to) => {
                    walk.stopped = text(&up_to);
                    break;
                }
            }
        }
        Ok(walk)
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

fn object_entry(shown: ListedName) -> Option<ListEntry> {
    match shown {
        ListedName::Prefix(prefix) => Some(ListEntry::Prefix(prefix)),
        ListedName::Key(key, value) => {
            let State::Object(object) = &value.state else { return None };
            let (version, content) = object.current()?;
            let mut info = info_of(version, content);
            info.attributes = sherd_core::record::Attributes::default();
            Some(ListEntry::Object { key, info })
        }
    }
}

fn upload_entries(shown: ListedName) -> Vec<UploadEntry> {
    match shown {
        ListedName::Prefix(prefix) => vec![UploadEntry::Prefix(prefix)],
        ListedName::Key(key, value) => {
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

fn bucket_info(shown: ListedName) -> Option<BucketInfo> {
    match shown {
        ListedName::Key(name, Value { state: State::Bucket(bucket), .. }) => {
            let Bucket { id: _, created_ms, location, phase: _, tags, entries: _ } = bucket;
            Some(BucketInfo { name, created_ms, location, tags })
        }
        ListedName::Key(..) | ListedName::Prefix(_) => None,
    }
}

#[cfg(test)]
mod tests;
