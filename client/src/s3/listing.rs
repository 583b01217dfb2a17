//! Lists of objects in the order of their keys, page by page, read ahead of their reader.

use std::time::SystemTime;

use http::Method;
use tokio::sync::mpsc;

use crate::client::{Call, Client};
use crate::document::{self, ListPage};
use crate::error::Error;
use crate::limits::ENTRIES_AHEAD_MAX;

/// An object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEntry {
    /// The key.
    pub key: String,
    /// Bytes.
    pub bytes: u64,
    /// The time at which it was stored.
    pub modified: Option<SystemTime>,
    /// The entity tag with its quotes.
    pub etag: String,
    /// The storage class; none is `STANDARD`.
    pub storage_class: Option<String>,
}

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEntry {
    /// An object.
    Object(ObjectEntry),
    /// A beginning that keys share up to the delimiter, which it ends with.
    Prefix(String),
}

impl ListEntry {
    /// The key, or the common beginning of keys.
    pub fn name(&self) -> &str {
        match self {
            Self::Object(object) => &object.key,
            Self::Prefix(prefix) => prefix,
        }
    }
}

/// The objects that are asked for.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// The bucket.
    pub bucket: String,
    /// The beginning of the keys.
    pub prefix: String,
    /// Whether keys that share a beginning up to a slash behind the prefix are one line.
    pub is_by_folder: bool,
}

/// Entries in the order of their names; an error ends them.
pub type Entries = mpsc::Receiver<Result<ListEntry, Error>>;

impl Client {
    /// Lists objects. A page is asked for while the one before it is read.
    pub fn list(&self, query: ListQuery) -> Entries {
        let (sender, receiver) = mpsc::channel(ENTRIES_AHEAD_MAX);
        let client = self.clone();
        self.spawn(async move {
            if let Err(error) = client.list_to(&query, &sender).await {
                let _reader_is_gone = sender.send(Err(error)).await;
            }
        });
        receiver
    }

    async fn list_to(
        &self,
        query: &ListQuery,
        sender: &mpsc::Sender<Result<ListEntry, Error>>,
    ) -> Result<(), Error> {
        let mut token: Option<String> = None;
        loop {
            let page = self.page(query, token.as_deref()).await?;
            for entry in entries(&page, query)? {
                if sender.send(Ok(entry)).await.is_err() {
                    return Ok(());
                }
            }
            if !page.is_truncated {
                return Ok(());
            }
            // A list that ends early would pass for the whole one: a sync would remove what it lacks.
            match page.next_continuation_token {
                Some(next) if Some(&next) != token.as_ref() => token = Some(next),
                _ => return Err(malformed(query, "more pages follow, and the next one cannot be asked for")),
            }
        }
    }

    async fn page(&self, query: &ListQuery, token: Option<&str>) -> Result<ListPage, Error> {
        let mut call = Call::bucket(Method::GET, &query.bucket).query("list-type", "2");
        call = call.query("encoding-type", "url").query("prefix", query.prefix.as_str());
        if query.is_by_folder {
            call = call.query("delimiter", "/");
        }
        if let Some(token) = token {
            call = call.query("continuation-token", token);
        }
        let body = self.document(&call).await?;
        document::read(&body).ok_or_else(|| malformed(query, NO_LIST))
    }
}

/// The lines of a page in order: its objects and its common beginnings come apart.
fn entries(page: &ListPage, query: &ListQuery) -> Result<Vec<ListEntry>, Error> {
    let encoding = page.encoding_type.as_deref();
    let decoded = |text: &str| match document::decoded(text, encoding) {
        None => Err(malformed(query, NO_LIST)),
        Some(name) if name.starts_with(&query.prefix) => Ok(name),
        // A removal of all below a prefix takes each key of the list.
        Some(_) => Err(malformed(query, "it has keys that were not asked for")),
    };
    let mut found = Vec::with_capacity(page.contents.len() + page.common_prefixes.len());
    for object in &page.contents {
        found.push(ListEntry::Object(ObjectEntry {
            key: decoded(&object.key)?,
            bytes: object.size,
            modified: humantime::parse_rfc3339_weak(&object.last_modified).ok(),
            etag: object.etag.clone(),
            storage_class: object.storage_class.clone(),
        }));
    }
    for prefix in &page.common_prefixes {
        found.push(ListEntry::Prefix(decoded(&prefix.prefix)?));
    }
    if !page.common_prefixes.is_empty() {
        found.sort_by(|one, other| one.name().cmp(other.name()));
    }
    Ok(found)
}

const NO_LIST: &str = "the body is not a list of objects";

fn malformed(query: &ListQuery, what: &'static str) -> Error {
    Error::Malformed { resource: format!("s3://{}/{}", query.bucket, query.prefix), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_objects_of_a_page_are_in_one_order() {
        let text = "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents><Contents><Key>c</Key>\
                    <Size>2</Size></Contents><CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes></ListBucketResult>";
        let page: ListPage = document::read(text.as_bytes()).expect("a page");
        let found = entries(&page, &ListQuery::default()).expect("decodes");
        assert_eq!(found.iter().map(ListEntry::name).collect::<Vec<_>>(), ["a", "b/", "c"]);
        let query = ListQuery { prefix: "a".to_owned(), ..ListQuery::default() };
        assert!(entries(&page, &query).is_err(), "`c` was not asked for");
    }
}
