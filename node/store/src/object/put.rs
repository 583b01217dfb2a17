//! PUT: bytes first, then the register.

use smallvec::SmallVec;

use sherd_core::id::ObjectKey;
use sherd_core::record::{
    Attributes, Body, Checksums, ConditionalChange, Content, Entries, KeptAnswer, ObjectTags, State, history,
};

use super::body::receive::{ReceivedBody, StoredBody};
use super::condition::{EarlierWrite, WriteRefusal, judge_write};
use super::digest::{DEFAULT_ALGORITHM, DigestValues};
use super::{Error, ObjectName, Objects, PutRequest, Result, WriteConditions, WriteOutcome};
use crate::cluster::KeyRoute;
use crate::register::{Inline, Proposal, QuorumRow, WriteTicket, Writer};

impl Objects {
    /// Judges the conditions of a put on what is there now, so that one which cannot succeed is refused
    /// before its body is taken. [`Self::put`] judges them again inside its compare-and-set. Where the
    /// register remembers a change of the same call, that may be this put, sent before: only its body
    /// decides.
    ///
    /// # Errors
    /// The conditions' refusal; none where the object cannot be read now.
    pub async fn foresee(&self, name: &ObjectName, conditions: &WriteConditions) -> Result<()> {
        let WriteConditions { if_match, if_none_match, call } = conditions;
        if if_match.is_none() && if_none_match.is_none() {
            return Ok(());
        }
        let is_repeated =
            |found: &QuorumRow| call.is_some_and(|call| call.may_be_among(&found.value.changes.conditional));
        match self.inner.under.find_object(name).await {
            Ok((_, Some(found))) if is_repeated(&found) => Ok(()),
            Ok((_, found)) => judge_write(conditions, found.as_ref().and_then(QuorumRow::object)),
            Err(error @ Error::Missing(_)) => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Stores an object.
    ///
    /// # Errors
    /// Any of [`super::Error`]; nothing changed unless it is `OutcomeUnknown`.
    pub async fn put(&self, request: PutRequest) -> Result<WriteOutcome> {
        let PutRequest { name, attributes, tags, conditions, upload } = request;
        let bucket = self.inner.under.view(&name.bucket).await?;
        let route = self.inner.under.route_in(&bucket, name.key);
        let computed = upload.checksum.is_none().then_some(DEFAULT_ALGORITHM);
        let received = self.inner.bodies.receive(&route, upload, computed).await?;
        let described = DescribedBody { received, attributes, tags };
        self.store_received(&bucket.name, &route, described, conditions).await
    }

    /// Stores an object as [`Self::put`] does, of about the announced number of bytes: its length shows at
    /// the end of its stream, and is 64 bytes more at most. An object of the announced length costs no more
    /// than a put.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn put_expecting(&self, request: PutRequest) -> Result<WriteOutcome> {
        let PutRequest { name, attributes, tags, conditions, upload } = request;
        let bucket = self.inner.under.view(&name.bucket).await?;
        let route = self.inner.under.route_in(&bucket, name.key);
        let computed = upload.checksum.is_none().then_some(DEFAULT_ALGORITHM);
        let received = self.inner.bodies.receive_expecting(&route, upload, computed).await?;
        let described = DescribedBody { received, attributes, tags };
        self.store_received(&bucket.name, &route, described, conditions).await
    }

    /// Makes a new current version of a body that has arrived.
    async fn store_received(
        &self,
        bucket: &ObjectKey,
        route: &KeyRoute,
        described: DescribedBody,
        conditions: WriteConditions,
    ) -> Result<WriteOutcome> {
        let DescribedBody { received, attributes, tags } = described;
        let size = received.size;
        // Prepare goes out beside the last syncs.
        let ticket = self.inner.under.registers.begin_at(route);
        let (digests, stored) = received.durable().await?;
        let DigestValues { md5, checksums } = digests;
        let content = NewContent { size, etag: stored.etag(md5), md5, attributes, tags, checksums };
        self.store_version(bucket, route, ticket, content, stored, conditions).await
    }

    /// Makes a new current version, as one compare-and-set with its conditions.
    pub(super) async fn store_version(
        &self,
        bucket: &ObjectKey,
        route: &KeyRoute,
        ticket: WriteTicket,
        content: NewContent,
        stored: StoredBody,
        conditions: WriteConditions,
    ) -> Result<WriteOutcome> {
        let modified_ms = self.now_ms();
        let body = stored.body();
        let heal = stored.heal(route.key(), modified_ms);
        let (bytes, staged) = stored.split();
        let inline = if bytes.is_empty() { Inline::Nothing } else { Inline::New };
        let written =
            WriteOutcome { etag: content.etag.clone(), modified_ms, checksums: content.checksums.clone() };
        let change = content.change(&conditions);
        let computed = content.etag.clone();
        let decide = move |state: Option<&State>| {
            let object = state.and_then(State::object);
            judge_write(&conditions, object).map_err(WriteRefusal::Refused)?;
            let put = history::put(object, modified_ms, content.with_body(body.clone()));
            Ok(Proposal { inline, heal: heal.clone(), ..Proposal::of(put.object.into()) })
        };
        let repeated = move |kept: &KeptAnswer, state: Option<&State>| {
            WriteRefusal::Repeated(EarlierWrite::of(kept, &computed, state.and_then(State::object)))
        };
        let writer = Writer::new(decide).sent_by(change, repeated).naming(staged).carrying(bytes);
        match self.inner.under.change_or(bucket, route, ticket, writer).await? {
            Ok(()) => Ok(written),
            Err(WriteRefusal::Repeated(earlier)) => Ok(earlier.answer(written)),
            Err(WriteRefusal::Refused(error)) => Err(error),
        }
    }
}

/// A body that has arrived, and what is stored beside it.
struct DescribedBody {
    received: ReceivedBody,
    attributes: Attributes,
    tags: ObjectTags,
}

/// The content of a new version beside the place of its bytes.
#[derive(Debug)]
pub(super) struct NewContent {
    pub(super) size: u64,
    pub(super) etag: String,
    pub(super) md5: Option<[u8; 16]>,
    pub(super) attributes: Attributes,
    pub(super) tags: ObjectTags,
    pub(super) checksums: Checksums,
}

impl NewContent {
    /// The change as it is remembered. Its MD5 and its checksums distinguish its bytes from others: a client
    /// that names another algorithm is never answered with a checksum that is not stored. The MD5 is the etag
    /// of every sending; without one, each sending has an etag of its own.
    fn change(&self, conditions: &WriteConditions) -> Option<ConditionalChange> {
        conditions.call?;
        let Self { size, etag, md5, attributes, tags, checksums } = self;
        let size = size.to_le_bytes();
        let algorithms: SmallVec<[u8; 1]> =
            checksums.iter().map(|checksum| checksum.algorithm as u8).collect();
        let mut wanted: Vec<&[u8]> = vec![&size[..]];
        wanted.extend(md5.iter().map(<[u8; 16]>::as_slice));
        wanted.push(&algorithms);
        wanted.extend(checksums.iter().map(|checksum| checksum.value.as_slice()));
        wanted.push(b"attributes");
        wanted.extend(attributes.pairs.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
        if !tags.is_empty() {
            wanted.extend([&b"tags"[..], tags.as_bytes()]);
        }
        let etag = md5.is_none().then(|| etag.as_str().into());
        conditions.change(KeptAnswer { etag, ..KeptAnswer::default() }, &wanted)
    }

    fn with_body(&self, body: Body) -> Content {
        let Self { size, etag, md5: _, attributes, tags, checksums } = self;
        let mut entries = Entries::default();
        tags.put_into(&mut entries);
        Content {
            size: *size,
            etag: etag.clone(),
            attributes: attributes.clone(),
            checksums: checksums.clone(),
            upload: None,
            body,
            entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::record::{Checksum, ChecksumAlgorithm};
    use sherd_core::register::call::ClientCall;

    use super::*;
    use crate::object::EtagMatch;

    #[test]
    fn a_put_with_other_checksums_is_no_sending_of_the_same_call() {
        let call = Some(ClientCall::new("key", "PutObject", b"id"));
        let conditions =
            WriteConditions { if_none_match: Some(EtagMatch::Any), call, ..WriteConditions::default() };
        // Of an empty body, both are zero.
        let token = |md5, algorithm| {
            let checksum = Checksum { algorithm, composite_of: None, value: [0; 4].as_slice().into() };
            let content = NewContent {
                size: 0,
                etag: "etag".to_owned(),
                md5,
                attributes: Attributes::default(),
                tags: ObjectTags::default(),
                checksums: std::iter::once(checksum).collect(),
            };
            content.change(&conditions).expect("a condition in a call").token
        };
        for md5 in [Some([7; 16]), None] {
            let first = token(md5, ChecksumAlgorithm::Crc32);
            assert_eq!(token(md5, ChecksumAlgorithm::Crc32), first);
            assert_ne!(token(md5, ChecksumAlgorithm::Crc32c), first);
        }
    }
}
