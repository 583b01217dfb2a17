//! Documents: registers of the system namespace with their bytes as the body of an object, stored and read as
//! a whole. Configurations of buckets and the records of IAM are such.
//!
//! A document is written over what its writer has read of it, by one compare-and-set: the body of an object
//! is its bytes' hash, or the id of its data, so that another body is never taken for it.

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use std::sync::Arc;

use sherd_core::id::RegisterKey;
use sherd_core::record::{Attributes, Body, Checksums, Content, Entries, Object, State, history};

use crate::cluster::Cluster;
use crate::object::body::Bodies;
use crate::object::error::{Error, Result, UnavailableReason};
use crate::object::limits::DOCUMENT_TRIES;
use crate::object::request::{Upload, UploadBody};
use crate::register::{ChangeError, Failure, Inline, Proposal, Registers, RowAnswer, Writer};
use crate::stripe;

/// All documents. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Documents {
    pub(in crate::object) cluster: Arc<Cluster>,
    pub(in crate::object) registers: Registers,
    pub(in crate::object) bodies: Bodies,
}

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    /// Distinguishes it from what its register had before and will have.
    pub(crate) body: Body,
    /// Changes of its register since that was made: one more with each write, also one of the same bytes.
    pub(crate) changes: u64,
}

/// Why a document was not changed.
#[derive(Debug)]
pub(crate) enum DocumentRefusal {
    /// The stored generation is not the one that the writer expected.
    Conflict,
    Failed(Error),
}

/// The body that a writer expects in the register of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ExpectedBody {
    Anything,
    Nothing,
    Body(Body),
}

impl ExpectedBody {
    fn is(&self, state: Option<&State>) -> bool {
        let found = state.and_then(State::object).and_then(Object::current).map(|(_, content)| &content.body);
        match self {
            Self::Anything => true,
            Self::Nothing => found.is_none(),
            Self::Body(body) => found == Some(body),
        }
    }
}

impl Documents {
    /// The registers that documents lie in.
    pub(crate) const fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Writes a document over any other.
    pub(crate) async fn write(&self, register: RegisterKey, bytes: Bytes, now_ms: u64) -> Result<()> {
        match self.store(register, bytes, now_ms, ExpectedBody::Anything).await {
            Ok(()) => Ok(()),
            Err(DocumentRefusal::Conflict) => Err(UnavailableReason::Quorum.into()),
            Err(DocumentRefusal::Failed(error)) => Err(error),
        }
    }

    /// Writes a document over the one that was read, or where there was none.
    pub(crate) async fn replace(
        &self,
        register: RegisterKey,
        before: Option<Body>,
        bytes: Bytes,
        now_ms: u64,
    ) -> std::result::Result<(), DocumentRefusal> {
        let expected = before.map_or(ExpectedBody::Nothing, ExpectedBody::Body);
        self.store(register, bytes, now_ms, expected).await
    }

    async fn store(
        &self,
        register: RegisterKey,
        bytes: Bytes,
        now_ms: u64,
        expected: ExpectedBody,
    ) -> std::result::Result<(), DocumentRefusal> {
        let route = self.cluster.route(register);
        let size = bytes.len() as u64;
        let body = UploadBody::Stored(stream::once(async move { Ok(bytes) }).boxed());
        let upload = Upload { size, body, md5: None, checksum: None };
        let received = self.bodies.receive(&route, upload, None).await?;
        let ticket = self.registers.begin_at(&route);
        let (digests, stored) = received.durable().await?;
        let content = Content {
            size,
            etag: stored.etag(digests.md5),
            attributes: Attributes::default(),
            checksums: Checksums::new(),
            upload: None,
            body: stored.body(),
            entries: Entries::default(),
        };
        let heal = stored.heal(route.key(), now_ms);
        let (inline, staged) = stored.split();
        let from = if inline.is_empty() { Inline::Nothing } else { Inline::New };
        let decide = move |state: Option<&State>| {
            if !expected.is(state) {
                return Err(DocumentRefusal::Conflict);
            }
            let put = history::put(state.and_then(State::object), now_ms, content.clone());
            Ok(Proposal { inline: from, heal: heal.clone(), ..Proposal::of(put.object.into()) })
        };
        let writer = Writer::new(decide).naming(staged).carrying(inline);
        ended(self.registers.change(ticket, writer).await)
    }

    /// Reads a document; `None` where it is gone.
    pub(crate) async fn read(&self, register: RegisterKey) -> std::result::Result<Option<Document>, Failure> {
        let route = self.cluster.route(register);
        for _ in 0..DOCUMENT_TRIES {
            let Some(found) = self.registers.read_at(&route).await? else { return Ok(None) };
            let Some((_, content)) = found.object().and_then(Object::current) else { return Ok(None) };
            let (body, changes) = (content.body.clone(), found.value.changes.count);
            let data = match &body {
                Body::Inline { .. } => match self.registers.inline(&route, &found).await {
                    RowAnswer::Given(bytes) => {
                        return Ok(Some(Document { bytes, body, changes }));
                    }
                    RowAnswer::MovedOn => continue,
                    // Volumes that were not asked may hold what these cannot read: a write finds it.
                    RowAnswer::Corrupt => {
                        self.registers.finish_at(&route).await?;
                        continue;
                    }
                    RowAnswer::Late => return Err(Failure::Unavailable),
                },
                Body::Data(data) => *data,
                Body::Parts(_) | Body::Manifest { .. } => return Err(Failure::Unavailable),
            };
            let mut read = stripe::read(&self.bodies.stripes, route.key(), data, 0..data.size);
            let mut bytes = BytesMut::new();
            while let Some(next) = read.next().await {
                bytes.extend_from_slice(&next.map_err(|_| Failure::Unavailable)?);
            }
            return Ok(Some(Document { bytes: bytes.freeze(), body, changes }));
        }
        Err(Failure::Unavailable)
    }

    /// Removes the document that was read, or whichever is there.
    pub(crate) async fn remove(
        &self,
        register: &RegisterKey,
        before: Option<Body>,
    ) -> std::result::Result<(), DocumentRefusal> {
        let expected = before.map_or(ExpectedBody::Anything, ExpectedBody::Body);
        let remove = move |state: Option<&State>| match state {
            Some(State::Object(_)) if expected.is(state) => Ok(Proposal::of(State::Tombstone)),
            _ => Err(DocumentRefusal::Conflict),
        };
        ended(self.registers.change(self.registers.begin(register), Writer::new(remove)).await)
    }
}

fn ended(
    changed: std::result::Result<(), ChangeError<DocumentRefusal>>,
) -> std::result::Result<(), DocumentRefusal> {
    changed.map_err(|error| match error {
        ChangeError::Refused(refusal) => refusal,
        ChangeError::Sealed(_) => DocumentRefusal::Failed(UnavailableReason::Sealed.into()),
        ChangeError::Failed(failure) => failure.into(),
    })
}

impl<E: Into<Error>> From<E> for DocumentRefusal {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
