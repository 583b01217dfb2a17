//! How a bucket is configured: entries of its record, changed by one compare-and-set of its register.

use bytes::Bytes;

use sherd_core::config::{ConfigEntry, ConfigKind, ConfigValue};
use sherd_core::id::ObjectKey;
use sherd_core::limits::CONFIG_INLINE_BYTES_MAX;
use sherd_core::record::{Bucket, State};

use super::{Buckets, active_in, proposal};
use crate::object::error::{Invalid, Result};

impl Buckets {
    /// Configures one kind, in place of what the bucket had of it.
    pub(in crate::object) async fn set_config(&self, name: ObjectKey, value: &ConfigValue) -> Result<()> {
        let (kind, bytes) = (value.kind(), value.encode());
        if bytes.len() > CONFIG_INLINE_BYTES_MAX {
            let (size, max) = (bytes.len() as u64, CONFIG_INLINE_BYTES_MAX as u64);
            return Err(Invalid::TooLarge { size, max }.into());
        }
        self.change_entry(name, kind, Some(ConfigEntry::Inline(bytes).encode())).await
    }

    /// Removes one kind.
    pub(in crate::object) async fn remove_config(&self, name: ObjectKey, kind: ConfigKind) -> Result<()> {
        self.change_entry(name, kind, None).await
    }

    async fn change_entry(&self, name: ObjectKey, kind: ConfigKind, entry: Option<Bytes>) -> Result<()> {
        let decide = move |state: Option<&State>| {
            let bucket = active_in(state)?;
            let mut entries = bucket.entries.clone();
            match &entry {
                Some(bytes) => entries.set(kind.number(), bytes.clone()),
                None => entries.remove(kind.number()),
            }
            Ok(proposal(Bucket { entries, ..bucket.clone() }))
        };
        self.change_everywhere(name, decide).await
    }
}

#[cfg(test)]
mod tests;
