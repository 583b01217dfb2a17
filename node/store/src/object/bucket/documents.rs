//! Documents of buckets' configurations: each a register of its own in the system namespace, with its bytes
//! as the body of an object.
//!
//! Written once under a fresh generation, before an entry names it; read through the entry that names it;
//! removed after that entry was replaced, or with the bucket.

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use std::sync::Arc;

use sherd_core::config::{ConfigEntry, ConfigKind, Generation};
use sherd_core::heal::HealEntry;
use sherd_core::id::{BucketId, RegisterKey};
use sherd_core::record::{Attributes, Body, Checksums, Content, Entries, Object, State, history};

use crate::cluster::Cluster;
use crate::object::body::Bodies;
use crate::object::error::{Error, Result, UnavailableReason};
use crate::object::limits::DOCUMENT_TRIES;
use crate::object::request::Upload;
use crate::register::{ChangeError, Failure, Inline, Proposal, Registers, RowAnswer, Writer};
use crate::stripe;

/// The documents of all buckets. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::object) struct Documents {
    pub(in crate::object) cluster: Arc<Cluster>,
    pub(in crate::object) registers: Registers,
    pub(in crate::object) bodies: Bodies,
}

impl Documents {
    /// Writes a document that no entry names yet.
    pub(super) async fn write(&self, register: RegisterKey, bytes: Bytes, now_ms: u64) -> Result<()> {
        let route = self.cluster.route(register);
        let size = bytes.len() as u64;
        let body = stream::once(async move { Ok(bytes) }).boxed();
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
        let heal = stored.missing().then(|| HealEntry {
            key: route.key().clone(),
            data: stored.data().map(Into::into),
            since_ms: now_ms,
        });
        let (inline, staged) = stored.split();
        let from = if inline.is_empty() { Inline::Nothing } else { Inline::New };
        let decide = move |_: Option<&State>| {
            let state = history::put(None, now_ms, content.clone()).object.into();
            Ok::<_, Error>(Proposal { inline: from, heal: heal.clone(), ..Proposal::of(state) })
        };
        let writer = Writer::new(decide).naming(staged).carrying(inline);
        match self.registers.change(ticket, writer).await {
            Ok(()) => Ok(()),
            Err(ChangeError::Refused(error)) => Err(error),
            Err(ChangeError::Sealed(_)) => Err(UnavailableReason::Sealed.into()),
            Err(ChangeError::Failed(failure)) => Err(failure.into()),
        }
    }

    /// Reads a document; `None` where it is gone.
    pub(super) async fn read(&self, register: RegisterKey) -> std::result::Result<Option<Bytes>, Failure> {
        let route = self.cluster.route(register);
        for _ in 0..DOCUMENT_TRIES {
            let Some(found) = self.registers.read_at(&route).await? else { return Ok(None) };
            let Some((_, content)) = found.object().and_then(Object::current) else { return Ok(None) };
            let data = match &content.body {
                Body::Inline { .. } => match self.registers.inline(&route, &found).await {
                    RowAnswer::Given(bytes) => return Ok(Some(bytes)),
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
            let mut body = stripe::read(&self.bodies.stripes, route.key(), data, 0..data.size);
            let mut bytes = BytesMut::new();
            while let Some(next) = body.next().await {
                bytes.extend_from_slice(&next.map_err(|_| Failure::Unavailable)?);
            }
            return Ok(Some(bytes.freeze()));
        }
        Err(Failure::Unavailable)
    }

    /// Removes the document that an entry names, where it names one. Where this fails, its age removes it.
    pub(super) async fn remove_named(&self, bucket: BucketId, kind: ConfigKind, entry: Option<&Bytes>) {
        let Some(generation) = generation_of(entry) else { return };
        let register = generation.register(bucket, kind);
        let remove = |state: Option<&State>| match state {
            Some(State::Object(_)) => Ok(Proposal::of(State::Tombstone)),
            _ => Err(()),
        };
        let removed = self.registers.change(self.registers.begin(&register), Writer::new(remove)).await;
        if let Err(ChangeError::Failed(failure)) = removed {
            tracing::debug!(?register, %failure, "a replaced document is left for now");
        }
    }
}

/// The document that an entry names.
pub(super) fn generation_of(entry: Option<&Bytes>) -> Option<Generation> {
    match ConfigEntry::decode(entry?.clone()) {
        Ok(ConfigEntry::Document { generation, .. }) => Some(generation),
        Ok(ConfigEntry::Inline(_)) | Err(_) => None,
    }
}
