//! Listings: pages of keys and common prefixes, in order, each acknowledged write included.
//!
//! `merge` gives one name after the other; here names become entries, and a name that the scans leave
//! in doubt is read from its register. One builder makes the pages of all three listings.

mod merge;

use std::sync::Arc;

use bytes::Bytes;

use sherd_core::env::Rng;
use sherd_core::id::{BucketId, ObjectKey, RegisterKey, UploadId};
use sherd_core::limits;
use sherd_core::record::{Attributes, BucketPhase, State, Upload, Value};

use super::bucket;
use super::bucket::look_up::BucketRegisters;
use super::error::{Result, UnavailableReason};
use super::limits::{HIDDEN_NAMES_MAX, PASSED_ROWS_MAX, SCAN_PATIENCE, SEALED_TRIES};
use super::request::{
    BucketInfo, BucketPage, ListEntry, ListPage, ListRequest, ListUploads, ObjectInfo, ObjectName,
    UploadEntry, UploadPage,
};
use super::view::BucketRef;
use crate::register::Failure;
use merge::query::{Name, Query};
use merge::{Merge, READ_COST};

/// The entries that a walk found.
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

/// The listings of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Listings {
    under: BucketRegisters,
    rng: Arc<dyn Rng>,
}

impl Listings {
    pub(super) const fn new(under: BucketRegisters, rng: Arc<dyn Rng>) -> Self {
        Self { under, rng }
    }

    /// Lists one page of a bucket's keys.
    pub(super) async fn objects(&self, request: ListRequest) -> Result<ListPage> {
        self.objects_among(request, HIDDEN_NAMES_MAX, PASSED_ROWS_MAX).await
    }

    async fn objects_among(
        &self,
        request: ListRequest,
        hidden_max: usize,
        passed_max: u64,
    ) -> Result<ListPage> {
        let ListRequest { bucket, prefix, delimiter, after, max_keys } = request;
        let max = page_size(max_keys);
        if max == 0 {
            // Nothing else asks whether it is there; a remembered view says that it was.
            self.under.stored(bucket.name()).await?;
            return Ok(ListPage { entries: Vec::new(), next: None });
        }
        let query = query(&prefix, delimiter.as_deref(), after, shows_object, max + 1);
        let query = Query { hidden_max, passed_max, ..query };
        let walk = self.walk(&bucket, query, object_entry).await?;
        let (entries, next) = page(
            walk,
            max,
            |stopped| stopped,
            |last| match last {
                ListEntry::Object { key, .. } => key.as_str().to_owned(),
                ListEntry::Prefix(prefix) => prefix.clone(),
            },
        );
        Ok(ListPage { entries, next })
    }

    /// Lists one page of a bucket's open uploads.
    pub(super) async fn uploads(&self, request: ListUploads) -> Result<UploadPage> {
        self.uploads_among(request, HIDDEN_NAMES_MAX).await
    }

    async fn uploads_among(&self, request: ListUploads, hidden_max: usize) -> Result<UploadPage> {
        let ListUploads { bucket, prefix, delimiter, after, max_uploads } = request;
        let max = page_size(max_uploads);
        if max == 0 {
            // As with keys.
            self.under.stored(bucket.name()).await?;
            return Ok(UploadPage { entries: Vec::new(), next: None });
        }
        let mut entries = Vec::new();
        // The uploads of the marker's own key that come behind the marker's upload.
        if let Some((key, Some(upload))) = &after {
            entries.extend(self.uploads_behind(&bucket, key, *upload).await?);
        }
        let behind = after.map(|(key, _)| key);
        let query = query(&prefix, delimiter.as_deref(), behind, shows_uploads, max + 1);
        let mut walk = self.walk(&bucket, Query { hidden_max, ..query }, upload_entries).await?;
        entries.append(&mut walk.entries);
        let (entries, next) = page(
            Walk { entries, ..walk },
            max,
            |stopped| (stopped, None),
            |last| match last {
                UploadEntry::Upload { key, id, .. } => (key.as_str().to_owned(), Some(*id)),
                UploadEntry::Prefix(prefix) => (prefix.clone(), None),
            },
        );
        Ok(UploadPage { entries, next })
    }

    async fn uploads_behind(
        &self,
        bucket: &BucketRef,
        key: &str,
        upload: UploadId,
    ) -> Result<Vec<UploadEntry>> {
        let Ok(key) = ObjectKey::new(key.to_owned()) else { return Ok(Vec::new()) };
        let name = ObjectName { bucket: bucket.clone(), key: key.clone() };
        let route = self.under.route(&name).await?;
        let Some(found) = self.under.find(bucket.name(), &route).await? else { return Ok(Vec::new()) };
        let all = upload_entries(ListedName::Key(key, found.value));
        let behind =
            all.iter().position(|entry| matches!(entry, UploadEntry::Upload { id, .. } if *id == upload));
        Ok(all.into_iter().skip(behind.map_or(0, |at| at + 1)).collect())
    }

    /// Lists names of documents: those that begin with `prefix` and come behind `after`. The second value is
    /// where the next page begins.
    pub(super) async fn documents(
        &self,
        prefix: &str,
        after: Option<String>,
        max: usize,
    ) -> Result<(Vec<ObjectKey>, Option<String>)> {
        let walk = self.names(query(prefix, None, after, shows_object, max + 1), name_entry).await?;
        Ok(page(walk, max, |stopped| stopped, |last| last.as_str().to_owned()))
    }

    /// Lists buckets by name: those that begin with `prefix` and come behind `after`. Documents of the system
    /// have a slash in their names: they are passed as the two common prefixes that they have.
    pub(super) async fn buckets(&self, prefix: &str, after: Option<&str>, max: u32) -> Result<BucketPage> {
        self.buckets_among(prefix, after, max, HIDDEN_NAMES_MAX).await
    }

    async fn buckets_among(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: u32,
        hidden_max: usize,
    ) -> Result<BucketPage> {
        let max = usize::try_from(max).unwrap_or(usize::MAX).min(10_000);
        if prefix.contains('/') {
            return Ok(BucketPage { buckets: Vec::new(), next: None });
        }
        let after = after.map(str::to_owned);
        let query = query(prefix, Some("/"), after, shows_bucket_or_document, max.saturating_add(1));
        let walk = self.names(Query { hidden_max, ..query }, bucket_entry).await?;
        let (buckets, next) = page(walk, max, |stopped| stopped, |last| last.name.as_str().to_owned());
        Ok(BucketPage { buckets, next })
    }

    /// Walks names of a bucket; begins again where the bucket is sealed and opened meanwhile.
    async fn walk<E, I: IntoIterator<Item = E>>(
        &self,
        bucket: &BucketRef,
        query: Query,
        entries: fn(ListedName) -> I,
    ) -> Result<Walk<E>> {
        let mut bucket = self.under.view(bucket).await?;
        for _ in 0..SEALED_TRIES {
            match self.names(Query { bucket: bucket.id, ..query.clone() }, entries).await {
                // Another one that was made under its name is listed next.
                Err(Failure::Sealed) => bucket = self.under.unsealed(&bucket).await?,
                other => return Ok(other?),
            }
        }
        Err(UnavailableReason::Sealed.into())
    }

    /// Walks names until they make as many entries as are wanted. A name becomes entries at once: its value
    /// may have some mebibytes.
    async fn names<E, I: IntoIterator<Item = E>>(
        &self,
        query: Query,
        entries: fn(ListedName) -> I,
    ) -> std::result::Result<Walk<E>, Failure> {
        let mut start = [0];
        self.rng.fill(&mut start);
        let query = Query { start: usize::from(start[0]), ..query };
        let mut merge = Merge::new(&self.under.cluster, &self.under.registers, &query);
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
                        self.under.registers.read(&RegisterKey::object(query.bucket, key.clone())).await?;
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
                    let witness_key = RegisterKey::object(query.bucket, witness.clone());
                    let found = self.under.registers.read(&witness_key).await?;
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

/// Cuts what a walk found to a page of at most `max` entries, and says where the next one begins: where the
/// walk stopped, or behind the page's last entry.
fn page<E, M>(
    walk: Walk<E>,
    max: usize,
    stopped_at: fn(String) -> M,
    behind: impl Fn(&E) -> M,
) -> (Vec<E>, Option<M>) {
    let Walk { mut entries, stopped } = walk;
    let mut next = stopped.map(stopped_at);
    if entries.len() > max {
        entries.truncate(max);
        next = entries.last().map(behind);
    }
    (entries, next)
}

/// The query for `wanted` names of the system's own namespace, or of a bucket that is put in.
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
            let info = ObjectInfo { attributes: Attributes::default(), ..ObjectInfo::of(version, content) };
            Some(ListEntry::Object { key, info })
        }
    }
}

fn upload_entries(shown: ListedName) -> Vec<UploadEntry> {
    match shown {
        ListedName::Prefix(prefix) => vec![UploadEntry::Prefix(prefix)],
        ListedName::Key(key, value) => {
            let State::Object(object) = value.state else { return Vec::new() };
            let entry = |upload: Upload| UploadEntry::Upload {
                key: key.clone(),
                id: upload.id,
                initiated_ms: upload.initiated_ms,
                checksum: upload.checksum,
            };
            object.uploads.into_iter().map(entry).collect()
        }
    }
}

fn name_entry(shown: ListedName) -> Option<ObjectKey> {
    match shown {
        ListedName::Key(key, _) => Some(key),
        ListedName::Prefix(_) => None,
    }
}

fn bucket_entry(shown: ListedName) -> Option<BucketInfo> {
    match shown {
        ListedName::Key(name, Value { state: State::Bucket(bucket), .. }) => {
            Some(bucket::info_of(name, bucket))
        }
        ListedName::Key(..) | ListedName::Prefix(_) => None,
    }
}

/// Values that show as objects.
fn shows_object(value: &Value) -> bool {
    matches!(&value.state, State::Object(object) if object.current().is_some())
}

/// Values that show as buckets, or below the common prefixes of documents.
fn shows_bucket_or_document(value: &Value) -> bool {
    let is_bucket = matches!(&value.state, State::Bucket(bucket) if bucket.phase != BucketPhase::Deleted);
    is_bucket || shows_object(value)
}

/// Values that show as keys with open uploads.
fn shows_uploads(value: &Value) -> bool {
    matches!(&value.state, State::Object(object) if !object.uploads.is_empty())
}

#[cfg(test)]
mod tests;
