//! The bench's own view of a store: stores what a row begins with, verifies what a tool stored, removes it.
//!
//! Nothing here is code of a tool or asks one: a tool that lies to itself is found. Errors here are the
//! store's and end the race; they are never counted against a tool.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::course::CourseFiles;
use super::error::{Error, Fault, RunFailure};
use crate::client::ask::{self, Connection, Request};
use crate::client::payload::Payloads;
use crate::client::request::{Body, Deletion, Headers, Part, in_query};
use crate::client::response::between;
use crate::limits::{ANSWER_TEXT_BYTES_MAX, ASK_TIMEOUT, BUCKET_POLL, WITNESS_CONNECTIONS, WITNESS_PAGE};
use crate::subject::Subject;

/// A bucket of a store, and the contents of its objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Witness<'a> {
    pub(super) subject: &'a Subject,
    pub(super) bucket: &'a str,
    pub(super) payloads: &'a Payloads,
}

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredObject {
    bytes: u64,
    /// The tag and the time as the store writes them; both change when the object is stored again.
    etag: String,
    modified: String,
}

/// The objects below a prefix, by the rest of their names.
pub(super) type ObjectList = BTreeMap<String, StoredObject>;

/// One page of a listing.
#[derive(Debug)]
struct Page {
    /// Keys as they stand in XML, and their objects.
    objects: Vec<(String, StoredObject)>,
    has_more: bool,
}

impl Witness<'_> {
    /// Lists the objects below a prefix, and ends behind `wanted` of them: then one is too many.
    pub(super) fn list(&self, prefix: &str, wanted: u64) -> Result<ObjectList, Error> {
        let (mut connection, mut listing) = (self.connection(0), ObjectList::new());
        let (folder, mut after) = (format!("{prefix}/"), String::new());
        loop {
            let page = self.page(&mut connection, &folder, &after)?;
            for (key, object) in page.objects {
                let key = unescaped(&key);
                listing.insert(key.strip_prefix(&folder).unwrap_or(&key).to_owned(), object);
                after = key;
            }
            if !page.has_more || listing.len() as u64 > wanted {
                return Ok(listing);
            }
        }
    }

    /// Reads all objects below a prefix and compares names and bytes with those of the files.
    pub(super) fn verify(&self, prefix: &str, files: &CourseFiles<'_>) -> Result<ObjectList, RunFailure> {
        let listing = self.list(prefix, files.count)?;
        files.verify_names(listing.keys())?;
        if let Some((name, _)) = listing.iter().find(|(_, object)| object.bytes != files.bytes) {
            return Err(Fault::Bytes { name: name.clone() }.into());
        }
        self.each::<RunFailure>(files, &|connection, index| {
            let (key, content) = (key(prefix, index), files.content(index));
            let (mut at, mut is_right) = (0, true);
            self.ask(connection, &Request::get(&key, ""), "read an object", &mut |piece| {
                is_right = is_right && self.payloads.verify(content, at, piece).is_ok();
                at += piece.len() as u64;
            })?;
            let is_whole = is_right && at == files.bytes;
            if is_whole { Ok(()) } else { Err(Fault::Bytes { name: CourseFiles::name(index) }.into()) }
        })?;
        Ok(listing)
    }

    /// Stores an object for each file below a prefix.
    pub(super) fn store(&self, prefix: &str, files: &CourseFiles<'_>) -> Result<(), Error> {
        self.each(files, &|connection, index| {
            let body = Body::Object(Part { key: files.content(index), at: 0, end: files.bytes });
            let key = key(prefix, index);
            let request = Request { method: "PUT", key: &key, query: "", headers: Headers::NONE, body };
            self.text(connection, &request, "store an object").map(drop)
        })
    }

    /// Removes all objects below a prefix, or all of the bucket for an empty one.
    pub(super) fn remove(&self, prefix: &str) -> Result<(), Error> {
        let mut connection = self.connection(0);
        let folder = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        loop {
            let page = self.page(&mut connection, &folder, "")?;
            let wanted = page.objects.len();
            if wanted > 0 {
                // Keys go back as they came, in XML.
                let names = page.objects.iter().map(|(key, _)| move |xml: &mut String| xml.push_str(key));
                let Deletion { xml, headers } = Deletion::of(names);
                let request = Request {
                    method: "POST",
                    key: "",
                    query: Deletion::QUERY,
                    headers: Headers { more: &headers, ..Headers::NONE },
                    body: Body::Text(xml.as_bytes()),
                };
                let text = self.text(&mut connection, &request, "remove objects")?;
                if memchr::memmem::find_iter(&text, b"<Deleted>").count() != wanted {
                    return Err(wrong("remove objects", 200, &text));
                }
            }
            if !page.has_more {
                return Ok(());
            }
        }
    }

    /// Lists a page, which shows that the store answers.
    pub(super) fn ping(&self) -> Result<(), Error> {
        self.page(&mut self.connection(0), "", "").map(drop)
    }

    fn page(&self, connection: &mut Connection, folder: &str, after: &str) -> Result<Page, Error> {
        let mut query = format!("list-type=2&max-keys={WITNESS_PAGE}&prefix={}", in_query(folder));
        if !after.is_empty() {
            query.push_str("&start-after=");
            query.push_str(&in_query(after));
        }
        let text = self.text(connection, &Request::get("", &query), "list")?;
        Page::parse(&text).ok_or_else(|| wrong("list", 200, &text))
    }

    /// Does something for each file, on several connections. The first failure ends all.
    fn each<E: Send>(
        &self,
        files: &CourseFiles<'_>,
        one: &(impl Fn(&mut Connection, u64) -> Result<(), E> + Sync),
    ) -> Result<(), E> {
        let next = AtomicU64::new(0);
        let work = &|worker: usize| {
            let mut connection = self.connection(worker);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= files.count {
                    return Ok(());
                }
                one(&mut connection, index).inspect_err(|_| next.store(files.count, Ordering::Relaxed))?;
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..WITNESS_CONNECTIONS).map(|worker| scope.spawn(move || work(worker))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
        })
    }

    /// A connection to one of the nodes.
    fn connection(&self, number: usize) -> Connection {
        let nodes = self.subject.endpoints().count();
        let node = self.subject.endpoints().nth(number % nodes).expect("a store has a node");
        let place = (node.address, node.host.as_str());
        Connection::new(place, node.tls.as_ref(), &self.subject.credentials, self.bucket)
    }

    /// Sends a request, which is `what` in errors, again while the store answers 503. The pieces of the body
    /// that comes with 200 go to `take`; with another status it is an error.
    fn ask(
        &self,
        connection: &mut Connection,
        request: &Request<'_>,
        what: &'static str,
        take: &mut impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let mut text = Vec::new();
            let head = connection.ask(request, self.payloads, &mut |head, piece| match head.status {
                200 => take(piece),
                _ => keep(&mut text, piece),
            })?;
            match head.status {
                200 => return Ok(()),
                503 if begin.elapsed() < ASK_TIMEOUT => thread::park_timeout(BUCKET_POLL),
                status => return Err(wrong(what, status, &text)),
            }
        }
    }

    /// The text that comes with 200.
    fn text(
        &self,
        connection: &mut Connection,
        request: &Request<'_>,
        what: &'static str,
    ) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        self.ask(connection, request, what, &mut |piece| keep(&mut text, piece))?;
        Ok(text)
    }
}

impl Page {
    /// Reads an answer; nothing where it is not one.
    fn parse(text: &[u8]) -> Option<Self> {
        let end = memchr::memmem::find(text, b"</ListBucketResult>")?;
        let mut rest = text.get(..end)?;
        let has_more = between(rest, "<IsTruncated>", "</IsTruncated>").as_deref() == Some("true");
        let mut objects = Vec::new();
        while let Some(begin) = memchr::memmem::find(rest, b"<Contents>") {
            let length = memchr::memmem::find(&rest[begin..], b"</Contents>")?;
            let object = &rest[begin..begin + length];
            let part = |name: &str| between(object, &format!("<{name}>"), &format!("</{name}>"));
            let (bytes, etag) = (part("Size")?.parse().ok()?, part("ETag").unwrap_or_default());
            objects.push((part("Key")?, StoredObject { bytes, etag, modified: part("LastModified")? }));
            rest = &rest[begin + length..];
        }
        Some(Self { objects, has_more })
    }
}

fn key(prefix: &str, index: u64) -> String {
    format!("{prefix}/{}", CourseFiles::name(index))
}

fn keep(text: &mut Vec<u8>, piece: &[u8]) {
    let room = ANSWER_TEXT_BYTES_MAX - text.len();
    text.extend_from_slice(&piece[..piece.len().min(room)]);
}

fn wrong(what: &'static str, status: u16, text: &[u8]) -> Error {
    ask::Error::Status { what, status, text: String::from_utf8_lossy(text).into_owned() }.into()
}

/// A key out of XML.
fn unescaped(key: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&#39;", "'")];
    let text = entities.iter().fold(key.to_owned(), |text, (entity, letter)| text.replace(entity, letter));
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_stores_write_it() {
        let object = |key: &str| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>then</LastModified><ETag>&#34;e&#34;</ETag>\
                 <Size>16</Size></Contents>"
            )
        };
        let text = |more: &str| {
            let objects = object("p/a") + &object("p/b &amp;lt;");
            format!("<?xml?><ListBucketResult><IsTruncated>{more}</IsTruncated>{objects}</ListBucketResult>")
        };
        let page = Page::parse(text("true").as_bytes()).unwrap();
        assert!(page.has_more && !Page::parse(text("false").as_bytes()).unwrap().has_more);
        let keys: Vec<String> = page.objects.iter().map(|(key, _)| unescaped(key)).collect();
        assert_eq!(keys, ["p/a", "p/b &lt;"]);
        assert_eq!((page.objects[0].1.bytes, page.objects[0].1.modified.as_str()), (16, "then"));
        let cut = text("false").replace("</ListBucketResult>", "");
        assert!(Page::parse(cut.as_bytes()).is_none(), "a page that is cut is no page");
        assert!(Page::parse(text("false").replace("<Size>16", "<Size>x").as_bytes()).is_none());
    }
}
