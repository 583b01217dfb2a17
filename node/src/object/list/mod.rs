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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use futures::FutureExt as _;
    use sherd_core::message::Error;

    use super::*;
    use crate::object::{CreateUpload, ObjectName, WriteConditions};
    use crate::peer::scripted::{Fate, says};
    use crate::register::RegisterTimeouts;
    use crate::upkeep::tests::{Directories, body, key_of};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn pages_of_uploads_end_after_enough_keys_and_lose_none() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        for n in 0..40 {
            node.put(&format!("p{}/k{n:02}", n / 20), &body(n, 10)).await;
        }
        for key in ["p0/k05", "p1/k39", "p1/new"] {
            let name = ObjectName { bucket: key_of("bucket"), key: key_of(key) };
            let attributes = sherd_core::record::Attributes::default();
            let create = CreateUpload { name, attributes, checksum: None };
            node.objects().create_upload(create).await.expect("an upload is begun");
        }
        for (delimiter, wanted) in
            [(None, vec!["p0/k05", "p1/k39", "p1/new"]), (Some("/"), vec!["p0/", "p1/"])]
        {
            let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                let request = ListUploads {
                    bucket: key_of("bucket"),
                    prefix: String::new(),
                    delimiter: delimiter.map(str::to_owned),
                    after,
                    max_uploads: 10,
                };
                let page = node.objects().list_uploads_among(request, 8).await.expect("a page");
                found.extend(page.entries.into_iter().map(|entry| match entry {
                    UploadEntry::Upload { key, .. } => key.as_str().to_owned(),
                    UploadEntry::Prefix(prefix) => prefix,
                }));
                pages += 1;
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, wanted);
            assert!(pages > 2, "{pages} pages of 8 keys for 40 of them");
        }
        node.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_key_that_only_its_register_can_tell_of_counts_towards_a_page_too() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        // Just written: no volume has been told yet that its row is committed.
        node.put("new", &body(1, 10)).await;
        let request = ListUploads {
            bucket: key_of("bucket"),
            prefix: String::new(),
            delimiter: None,
            after: None,
            max_uploads: 10,
        };
        let page = node.objects().list_uploads_among(request, 1).await.expect("a page");
        assert!(page.entries.is_empty());
        assert!(page.next.is_some(), "one key was looked at, and that was enough");
        node.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn pages_end_after_enough_deleted_keys_and_lead_to_what_is_behind_them() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        for n in 0..40 {
            let key = format!("p{}/k{n:02}", n / 20);
            node.put(&key, &body(n, 10)).await;
            let name = ObjectName { bucket: key_of("bucket"), key: key_of(&key) };
            node.objects().delete(name, WriteConditions::default()).await.expect("it is deleted");
            // Half of the tombstones are known to be committed, so that the volumes pass them.
            if n % 2 == 0 {
                node.registers().finish(&node.register(&key).await).await.expect("all volumes have it");
            }
        }
        for key in ["p0/k05x", "p1/k39x", "p1/z"] {
            node.put(key, &body(1, 10)).await;
        }
        for (delimiter, wanted) in
            [(None, vec!["p0/k05x", "p1/k39x", "p1/z"]), (Some("/"), vec!["p0/", "p1/"])]
        {
            let (mut found, mut after, mut empty, mut pages) = (Vec::new(), None, 0, 0);
            loop {
                let request = ListRequest {
                    bucket: key_of("bucket"),
                    prefix: String::new(),
                    delimiter: delimiter.map(str::to_owned),
                    after: after.clone(),
                    max_keys: 10,
                };
                let page = node.objects().list_among(request, 100, 4).await.expect("a page");
                pages += 1;
                empty += usize::from(page.entries.is_empty());
                found.extend(page.entries.into_iter().map(|entry| match entry {
                    ListEntry::Object { key, .. } => key.as_str().to_owned(),
                    ListEntry::Prefix(prefix) => prefix,
                }));
                let Some(next) = page.next else { break };
                assert!(after.as_ref().is_none_or(|after| *after < next), "{after:?}, then {next}");
                after = Some(next);
            }
            assert_eq!(found, wanted);
            assert!(empty > 0 && pages > 2, "{empty} of {pages} pages were empty");
        }
        node.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_common_prefix_that_one_set_shows_is_not_looked_for_among_the_tombstones_of_another() {
        const TOMBSTONES: usize = 60;
        let directories = Directories::new(16);
        let node = directories.start().await;
        node.create_bucket().await;
        let cluster = &node.objects().inner.cluster;
        assert_eq!(cluster.sets().len(), 2);
        let live_set = cluster.set_of(&node.register("p/a").await);
        let mut tombstones = Vec::new();
        for n in 0.. {
            let register = node.register(&format!("p/k{n:03}")).await;
            if !Arc::ptr_eq(&cluster.set_of(&register), &live_set) {
                tombstones.push(register);
            }
            if tombstones.len() == TOMBSTONES {
                break;
            }
        }
        for register in &tombstones {
            node.put(register.key.as_str(), &body(1, 10)).await;
            let name = ObjectName { bucket: key_of("bucket"), key: register.key.clone() };
            node.objects().delete(name, WriteConditions::default()).await.expect("it is deleted");
        }
        for register in &tombstones {
            node.commit_everywhere(register).await;
        }
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        says(&script.lists, {
            let calls = Arc::clone(&calls);
            move |_, ()| {
                calls.fetch_add(1, Ordering::Relaxed);
                Fate::Through
            }
        });
        let request = |after| ListRequest {
            bucket: key_of("bucket"),
            prefix: String::new(),
            delimiter: Some("/".to_owned()),
            after,
            max_keys: 10,
        };
        // Its witness is before or behind the tombstones; in the end its register alone can tell of it.
        let mut behind = String::from("p/z");
        while !Arc::ptr_eq(&cluster.set_of(&node.register(&behind).await), &live_set) {
            behind.push('z');
        }
        for (witness, told) in [("p/a", true), (&*behind, true), ("p/a", false)] {
            let register = node.register(witness).await;
            node.put(witness, &body(1, 10)).await;
            if told {
                node.commit_everywhere(&register).await;
            }
            calls.store(0, Ordering::Relaxed);
            let page = gateway.objects().list_among(request(None), 100, 8).await.expect("a page");
            assert!(matches!(&page.entries[..], [ListEntry::Prefix(prefix)] if prefix == "p/"), "{witness}");
            let (calls_count, voters) = (calls.load(Ordering::Relaxed), live_set.quorums().prepare());
            assert!(calls_count <= 4 * voters, "{calls_count} calls of {voters} voters in each set");
            if let Some(next) = page.next {
                let page = gateway.objects().list_among(request(Some(next)), 100, 8).await.expect("a page");
                assert!(page.entries.is_empty() && page.next.is_none(), "nothing is behind the prefix");
            }
            let name = ObjectName { bucket: key_of("bucket"), key: key_of(witness) };
            node.objects().delete(name, WriteConditions::default()).await.expect("it is deleted");
            node.commit_everywhere(&register).await;
        }
        node.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn volumes_that_are_busy_are_asked_again_and_never_taken_for_volumes_that_cannot_be_reached() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        node.put_everywhere("a", &body(1, 10)).await;
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        let left = std::sync::atomic::AtomicUsize::new(20);
        says(&script.lists, move |_, ()| {
            let busy = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if busy.is_ok() { Fate::Instead(Err(Error::Busy)) } else { Fate::Through }
        });
        let request = || ListRequest {
            bucket: key_of("bucket"),
            prefix: String::new(),
            delimiter: None,
            after: None,
            max_keys: 10,
        };
        let page = gateway.objects().list(request()).await.expect("they answer in the end");
        assert_eq!(page.entries.len(), 1);
        says(&script.lists, |_, ()| Fate::Instead(Err(Error::Busy)));
        let id = gateway.objects().bucket_id(&key_of("bucket")).await.expect("it is there");
        let query = Objects::query("", None, None, shows_object, 1);
        let query = Query { bucket: id, timeout: Duration::from_millis(100), ..query };
        let refused = gateway.objects().names(query, object_entry).await.map(|walk| walk.entries.len());
        assert_eq!(refused, Err(Failure::ScansBusy));
        node.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn all_sets_are_asked_before_any_has_answered() {
        let directories = Directories::new(16);
        let node = directories.start().await;
        node.create_bucket().await;
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        let inner = &gateway.objects().inner;
        assert_eq!(inner.cluster.sets().len(), 2);
        let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
        says(&script.lists, {
            let asked = Arc::clone(&asked);
            move |volume, ()| {
                asked.lock().push(volume);
                Fate::Silence
            }
        });
        let id = gateway.objects().bucket_id(&key_of("bucket")).await.expect("it is there");
        let query = Query { bucket: id, ..Objects::query("", None, None, shows_object, 1) };
        let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
        assert!(merge.next().now_or_never().is_none(), "none answers");
        for set in inner.cluster.sets() {
            let of_set = set.routes.iter().filter(|route| asked.lock().contains(&route.volume)).count();
            assert_eq!(of_set, set.quorums().prepare());
        }
        node.close().await;
    }

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
