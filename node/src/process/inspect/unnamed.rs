//! Counts the shards of data that no row names.
//!
//! Each shard says which register is to name it, so each is looked up by itself and memory stays bounded: the
//! row of that key on every volume that was given, for a part also its object's, and the manifest pages that
//! they name. A value of any ballot counts: data that only a stale row names counts as named.
//! A row that cannot be read may name anything, so its shards are not counted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sherd_core::id::{DataId, RegisterKey, Timestamp};
use sherd_core::message::SeenShard;
use sherd_core::record::{DataRef, Value, decode_manifest};
use sherd_core::release::ReleaseEntry;
use sherd_core::topology::Topology;
use sherd_volume::error::Error;

use super::findings::{Report, UnnamedShards};
use super::verify::InspectedData;
use super::volume::{InspectError, InspectedVolume, read_error};
use crate::process::inspect::limits::{KEYS_MAX, LISTED_MAX, PAGE};

/// The data that the rows of a key name; `None` where some of it cannot be read.
type NamedByKey = Option<Arc<HashSet<DataId>>>;

struct NameLookup<'a> {
    volumes: &'a [InspectedVolume],
    topology: Option<&'a Topology>,
    /// The data that notes of replaced data name: 16 bytes for each data id that waits for its grace.
    noted: HashSet<DataId>,
    /// The keys that were looked up last.
    known: HashMap<RegisterKey, NamedByKey>,
}

/// Counts the shards of all volumes that no row names.
pub(super) fn count(
    volumes: &[InspectedVolume],
    topology: Option<&Topology>,
    horizon: Timestamp,
    found: &mut UnnamedShards,
) -> Result<(), InspectError> {
    let mut lookup = NameLookup { volumes, topology, noted: HashSet::new(), known: HashMap::new() };
    for volume in volumes {
        lookup.add_notes(volume).map_err(|source| read_error(&volume.path, source))?;
    }
    for volume in volumes {
        count_packed(volume, &mut lookup, horizon, found)
            .and_then(|()| count_files(volume, &mut lookup, horizon, found))
            .map_err(|source| read_error(&volume.path, source))?;
    }
    Ok(())
}

fn count_packed(
    volume: &InspectedVolume,
    lookup: &mut NameLookup<'_>,
    horizon: Timestamp,
    found: &mut UnnamedShards,
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = volume.reader.shards(after, PAGE)?;
        after = page.last().map(|seen| seen.shard);
        for seen in &page {
            if lookup.is_unnamed(seen) {
                // An index may be ahead of its log.
                let bytes = volume.reader.packed_len(seen.shard).unwrap_or(0);
                lookup.count(seen, bytes, horizon, found);
            }
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

fn count_files(
    volume: &InspectedVolume,
    lookup: &mut NameLookup<'_>,
    horizon: Timestamp,
    found: &mut UnnamedShards,
) -> Result<(), Error> {
    let files = volume.reader.shard_files();
    for directory in 0..=u8::MAX {
        for shard in files.list(directory)? {
            // Without a header its owner is unknown: verification names it.
            let Ok(header) = files.header(shard) else { continue };
            let seen = SeenShard { shard, key: header.key, is_whole: true };
            if lookup.is_unnamed(&seen) {
                lookup.count(&seen, header.shard_bytes, horizon, found);
            }
        }
    }
    Ok(())
}

impl NameLookup<'_> {
    fn add_notes(&mut self, volume: &InspectedVolume) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = volume.reader.releases(after, PAGE)?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|(id, _)| *id);
            // An entry that does not decode is dropped by upkeep.
            let entries = page.into_iter().filter_map(|(_, stored)| ReleaseEntry::decode(stored).ok());
            self.noted.extend(entries.flat_map(|entry| entry.data).map(|replaced| replaced.data.id));
            if is_last {
                return Ok(());
            }
        }
    }

    fn count(&self, seen: &SeenShard, bytes: u64, horizon: Timestamp, found: &mut UnnamedShards) {
        found.count += 1;
        found.bytes += bytes;
        found.noted_count += u64::from(self.noted.contains(&seen.shard.data));
        found.sweepable_count += u64::from(seen.shard.data.birth < horizon);
        if found.data.len() < LISTED_MAX {
            found.data.insert(format!("{} of {:?}", seen.shard.data, seen.key));
        }
    }

    fn is_unnamed(&mut self, seen: &SeenShard) -> bool {
        let object = RegisterKey::object(seen.key.bucket, seen.key.key.clone());
        let keys = if seen.key.part.is_some() { vec![seen.key.clone(), object] } else { vec![object] };
        keys.iter().all(|key| self.named_by(key).is_some_and(|named| !named.contains(&seen.shard.data)))
    }

    fn named_by(&mut self, key: &RegisterKey) -> NamedByKey {
        if let Some(known) = self.known.get(key) {
            return known.clone();
        }
        if self.known.len() >= KEYS_MAX {
            self.known.clear();
        }
        let named = self.look_up(key).map(Arc::new);
        self.known.insert(key.clone(), named.clone());
        named
    }

    fn look_up(&self, key: &RegisterKey) -> Option<HashSet<DataId>> {
        let mut named = HashSet::new();
        for volume in self.volumes {
            let Some(stored) = volume.reader.held_value(key).ok()? else { continue };
            let value = Value::decode(stored).ok()?;
            named.extend(value.data_refs().iter().map(|data| data.id));
            for page in value.state.manifest_pages() {
                named.extend(self.listed_on(key, page)?);
            }
        }
        Some(named)
    }

    /// The data that a manifest page lists; `None` where it cannot be read.
    fn listed_on(&self, key: &RegisterKey, page: DataRef) -> Option<Vec<DataId>> {
        // Verification reports the fault.
        let subject = InspectedData::new(self.volumes, self.topology?, key, page, &mut Report::default())?;
        let parts = decode_manifest(subject.read()?).ok()?;
        Some(parts.into_iter().filter_map(|part| part.data).map(|data| data.id).collect())
    }
}
