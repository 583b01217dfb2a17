//! Reads everything back, and compares what the volumes hold together.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use sherd_core::erasure::{Code, Geometry};
use sherd_core::id::{Ballot, Epoch, RegisterKey, ShardId};
use sherd_core::message::{RowScan, Target};
use sherd_core::placement;
use sherd_core::record::{DataRef, Home, State, Value, decode_manifest};
use sherd_core::register::quorum::Quorums;
use sherd_core::register::seal::Seals;
use sherd_core::stripe::Layout;
use sherd_core::topology::{Set, Topology};
use sherd_volume::error::Error;
use sherd_volume::lookup::{Lookup, Source};

use super::findings::Report;
use super::volume::{InspectError, InspectedVolume, read_error};
use crate::process::inspect::limits::{PAGE, PAGE_BYTES_MAX, STEP_BYTES, WINDOW_BYTES};

/// A row as one volume holds it.
struct HeldRow {
    volume: usize,
    ballot: Ballot,
    committed: bool,
    value: Option<Bytes>,
}

pub(super) fn verify(
    volumes: &[InspectedVolume],
    topology: Option<&Topology>,
    report: &mut Report,
) -> Result<(), InspectError> {
    for volume in volumes {
        verify_shards(volume, report).map_err(|source| read_error(&volume.path, source))?;
    }
    let Some(topology) = topology else {
        report.problem("no volume carries a topology: what they hold together is not compared".to_owned());
        while let Some((data, _)) = report.broken.first_key_value() {
            report.named(*data);
        }
        return Ok(());
    };
    // Pages of every volume are merged by key, so that memory stays bounded.
    let mut after: Option<RegisterKey> = None;
    report.knows_uploads = true;
    while let Some(page) = next_page(volumes, after.as_ref(), report)? {
        after = page.last_key_value().map(|(order, _)| order.key.clone());
        for (OrderedKey { key, .. }, held) in page {
            verify_register(volumes, topology, &key, &held, report);
        }
    }
    for (upload, key) in std::mem::take(&mut report.without_attributes) {
        report.problem(format!("{key:?}: the attributes of its open upload {upload} are gone"));
    }
    report.unnamed_broken = report.broken.values().map(|shards| shards.len() as u64).sum();
    Ok(())
}

/// Every packed shard and shard file of one volume, by itself.
fn verify_shards(volume: &InspectedVolume, report: &mut Report) -> Result<(), Error> {
    let InspectedVolume { path, reader, .. } = volume;
    let mut after = None;
    loop {
        let page = reader.shards(after, PAGE)?;
        after = page.last().map(|seen| seen.shard);
        for seen in &page {
            if let Err(error) = reader.verify_packed(seen.shard) {
                let what = format!("{}: packed shard {}: {error}", path.display(), NamedData(seen.shard));
                report.broken.entry(seen.shard.data).or_default().push(what);
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    for directory in 0..=u8::MAX {
        for shard in reader.shard_files().list(directory)? {
            let checked = reader.shard_files().check(shard).and_then(|mut check| {
                while !check.step(STEP_BYTES)? {}
                Ok(())
            });
            if let Err(error) = checked {
                let what = format!("{}: shard file {}: {error}", path.display(), NamedData(shard));
                report.broken.entry(shard.data).or_default().push(what);
            }
        }
    }
    Ok(())
}

struct NamedData(ShardId);

impl std::fmt::Display for NamedData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0.data, self.0.index)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct OrderedKey {
    key: RegisterKey,
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let order = |key: &RegisterKey| {
            let (upload, number) = key.part.map_or(([0; 16], 0), |part| (part.upload.0, part.number));
            (key.part.is_some(), key.bucket.0, upload, number, key.key.clone())
        };
        order(&self.key).cmp(&order(&other.key))
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The next keys of all volumes together, up to the first page that ends; `None` at the end.
fn next_page(
    volumes: &[InspectedVolume],
    after: Option<&RegisterKey>,
    report: &mut Report,
) -> Result<Option<BTreeMap<OrderedKey, Vec<HeldRow>>>, InspectError> {
    let mut keys: BTreeMap<OrderedKey, Vec<HeldRow>> = BTreeMap::new();
    let mut end: Option<OrderedKey> = None;
    for (index, volume) in volumes.iter().enumerate() {
        let mut from = after.cloned();
        // A page may be empty and not the last one.
        let page = loop {
            let scan = RowScan::all(Epoch::MAX, from.clone(), PAGE);
            let page = volume.reader.rows(&scan).map_err(|source| read_error(&volume.path, source))?;
            match (&page.next, page.rows.is_empty()) {
                (Some(next), true) => from = Some(next.clone()),
                _ => break page,
            }
        };
        if page.next.is_some()
            && let Some(last) = page.rows.last()
        {
            let last = OrderedKey { key: last.key.clone() };
            end = Some(match end {
                Some(end) => end.min(last),
                None => last,
            });
        }
        for scanned in page.rows {
            let head = scanned.row.head;
            if scanned.row.value.is_none() {
                report.problem(format!("{}: row of {:?} cannot be read", volume.path.display(), scanned.key));
            }
            keys.entry(OrderedKey { key: scanned.key }).or_default().push(HeldRow {
                volume: index,
                ballot: head.ballot,
                committed: head.committed,
                value: scanned.row.value,
            });
        }
    }
    // Behind the first end some volume may hold more rows of a key.
    if let Some(end) = end {
        keys.retain(|key, _| *key <= end);
    }
    Ok(if keys.is_empty() { None } else { Some(keys) })
}

/// The rows of one key over the volumes of its set, and the data that its value keeps alive.
fn verify_register(
    volumes: &[InspectedVolume],
    topology: &Topology,
    key: &RegisterKey,
    held: &[HeldRow],
    report: &mut Report,
) {
    report.registers += 1;
    let members = topology.set_of(placement::slot(key)).volumes();
    let given: BTreeSet<usize> =
        (0..volumes.len()).filter(|index| members.contains(&volumes[*index].id)).collect();
    for one in held.iter().filter(|one| !given.contains(&one.volume)) {
        let path = volumes[one.volume].path.display();
        report.problem(format!("{path}: holds a row of {key:?}, which is not of its set"));
    }
    let Some(newest) = held.iter().filter(|one| given.contains(&one.volume)).max_by_key(|one| one.ballot)
    else {
        return;
    };
    // A equal rows are what a committed value stands on; the others are behind, and upkeep's work.
    // Without the flag a value on fewer is a write that was never acknowledged.
    let with_newest = held.iter().filter(|one| one.ballot == newest.ballot).count();
    let accept = Quorums::of(members.len()).accept();
    let is_committed = held.iter().any(|one| one.ballot == newest.ballot && one.committed);
    if is_committed && with_newest + members.len() - given.len() < accept {
        report.problem(format!("{key:?}: only {with_newest} rows hold its committed value, {accept} must"));
    }
    report.rows_behind += given.len().saturating_sub(with_newest) as u64;
    let heads = held.iter().filter(|one| one.ballot == newest.ballot).filter_map(|one| one.value.as_ref());
    let distinct: BTreeSet<&Bytes> = heads.collect();
    if distinct.len() > 1 {
        report.problem(format!("{key:?}: its value differs between volumes at one ballot"));
    }
    let Some(stored) = distinct.first() else {
        report.knows_uploads = false;
        return;
    };
    let sees_every_value = given.len() >= Quorums::of(members.len()).prepare();
    match Value::decode(Bytes::clone(stored)) {
        Ok(_) if is_unneeded(volumes, sees_every_value, key, report) => {
            report.rows_unneeded += 1;
        }
        Ok(value) => {
            note_uploads(sees_every_value, key, &value.state, report);
            verify_value(volumes, topology, key, &value, held, report);
        }
        Err(error) => {
            report.knows_uploads = false;
            report.problem(format!("{key:?}: its value does not decode: {error}"));
        }
    }
}

/// Notes the uploads that an object has open, and where their attributes are found. All objects come before
/// all parts.
fn note_uploads(sees_every_value: bool, key: &RegisterKey, state: &State, report: &mut Report) {
    match state {
        State::Object(object) => {
            report.open_uploads.extend(object.uploads.iter().map(|upload| upload.id));
            let elsewhere = object.uploads.iter().filter(|upload| upload.attributes.is_none());
            if sees_every_value {
                report.without_attributes.extend(elsewhere.map(|upload| (upload.id, key.clone())));
            }
        }
        State::UploadAttributes(_) => {
            key.part.and_then(|part| report.without_attributes.remove(&part.upload));
        }
        State::Tombstone | State::Part(_) | State::Bucket(_) => {}
    }
}

/// Whether a row names nothing any more that is needed: that of a deleted bucket, and that of a part whose
/// upload is closed. The data that it names has gone, or belongs to the object. Upkeep removes such rows.
fn is_unneeded(
    volumes: &[InspectedVolume],
    sees_every_value: bool,
    key: &RegisterKey,
    report: &Report,
) -> bool {
    let is_gone = volumes.iter().any(|volume| volume.reader.seals_of(key.bucket) == Seals::Final);
    // All objects come before all parts. With fewer volumes of the set than see every value an upload may be
    // open elsewhere.
    let is_closed =
        |upload| report.knows_uploads && sees_every_value && !report.open_uploads.contains(&upload);
    is_gone || key.part.is_some_and(|part| is_closed(part.upload))
}

fn verify_value(
    volumes: &[InspectedVolume],
    topology: &Topology,
    key: &RegisterKey,
    value: &Value,
    held: &[HeldRow],
    report: &mut Report,
) {
    if value.state.has_inline() {
        let target = Target::new(key.clone(), placement::slot(key), Epoch::MAX);
        for one in held {
            let volume = &volumes[one.volume];
            if let Err(error) =
                volume.reader.inline(&target, one.ballot, Source::Device).and_then(Lookup::or_busy)
            {
                report.problem(format!("{}: inline bytes of {key:?}: {error}", volume.path.display()));
            }
        }
    }
    let pages = value.state.manifest_pages();
    for data in value.data_refs() {
        let Some(subject) = InspectedData::new(volumes, topology, key, data, report) else { continue };
        subject.verify(report);
        if pages.contains(&data) {
            match subject.read().and_then(|bytes| decode_manifest(bytes).ok()) {
                Some(parts) => {
                    for listed in parts.into_iter().filter_map(|part| part.data) {
                        if let Some(subject) = InspectedData::new(volumes, topology, key, listed, report) {
                            subject.verify(report);
                        }
                    }
                }
                None => report.problem(format!("{key:?}: its manifest page {} cannot be read", data.id)),
            }
        }
    }
}

/// One data id over the volumes that were given.
pub(super) struct InspectedData<'a> {
    key: &'a RegisterKey,
    data: DataRef,
    layout: Layout,
    code: std::sync::Arc<Code>,
    /// By shard index; `None` on a volume that was not given.
    homes: Vec<Option<&'a InspectedVolume>>,
}

impl<'a> InspectedData<'a> {
    pub(super) fn new(
        volumes: &'a [InspectedVolume],
        topology: &Topology,
        key: &'a RegisterKey,
        data: DataRef,
        report: &mut Report,
    ) -> Option<Self> {
        let Some(members) = topology.set(data.set).map(Set::volumes) else {
            report.problem(format!("{key:?}: {} is of set {}, which is not there", data.id, data.set.0));
            return None;
        };
        let geometry = Geometry::new(data.data_shards, data.parity_shards).ok();
        let geometry = geometry.filter(|geometry| geometry.volumes() == members.len());
        let layout = geometry.and_then(|geometry| Layout::new(data.size, geometry, data.stripe_unit).ok());
        let (Some(geometry), Some(layout)) = (geometry, layout) else {
            report.problem(format!("{key:?}: {} has a geometry that is not its set's", data.id));
            return None;
        };
        let home = |index| {
            let volume = members[placement::home(data.id, index, members.len())];
            volumes.iter().find(|opened| opened.id == volume)
        };
        let homes = (0..data.data_shards + data.parity_shards).map(home).collect();
        Some(Self { key, data, layout, code: Code::of(geometry), homes })
    }

    fn read_shard(
        &self,
        volume: &InspectedVolume,
        index: u8,
        range: std::ops::Range<u64>,
    ) -> Result<Bytes, Error> {
        let shard = ShardId { data: self.data.id, index };
        let buffers = match self.data.home {
            Home::Packed => volume.reader.packed(shard, range, Source::Device)?,
            Home::File => volume.reader.shard_files().read(shard, range, Source::Device)?,
        };
        Ok(buffers.or_busy()?.concat().into())
    }

    /// Every shard is there with its bytes, and the parity is that of the data.
    fn verify(&self, report: &mut Report) {
        report.data_ids += 1;
        report.named(self.data.id);
        report.shards_elsewhere += self.homes.iter().filter(|home| home.is_none()).count() as u64;
        let mut bad = BTreeSet::new();
        let mut offset = 0;
        while offset < self.layout.shard_bytes() {
            let end = (offset + WINDOW_BYTES).min(self.layout.shard_bytes());
            self.verify_window(offset..end, &mut bad, report);
            offset = end;
        }
    }

    fn verify_window(&self, range: std::ops::Range<u64>, bad: &mut BTreeSet<u8>, report: &mut Report) {
        let mut columns: Vec<(u8, Bytes)> = Vec::new();
        for (index, home) in (0..).zip(&self.homes) {
            let Some(volume) = home else { continue };
            match self.read_shard(volume, index, range.clone()) {
                Ok(bytes) => columns.push((index, bytes)),
                Err(error) => {
                    if bad.insert(index) {
                        let path = volume.path.display();
                        report.problem(format!(
                            "{path}: shard {index} of {} of {:?}: {error}",
                            self.data.id, self.key
                        ));
                    }
                }
            }
        }
        let needed = usize::from(self.data.data_shards);
        let (sources, others) = columns.split_at(needed.min(columns.len()));
        if sources.len() < needed {
            return;
        }
        let sources: Vec<(u8, &[u8])> = sources.iter().map(|(index, bytes)| (*index, &bytes[..])).collect();
        for (index, bytes) in others {
            let mut expected = vec![0; bytes.len()];
            let made = self.code.reconstruct(&sources, &mut [(*index, &mut expected)]);
            if (made.is_err() || expected != bytes[..]) && bad.insert(*index) {
                report.problem(format!(
                    "{:?}: shard {index} of {} does not agree with the others",
                    self.key, self.data.id
                ));
            }
        }
    }

    /// The bytes themselves, where all data shards can be read; only for manifest pages.
    pub(super) fn read(&self) -> Option<Bytes> {
        if self.data.size > PAGE_BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        for piece in self.layout.pieces(0..self.data.size) {
            let volume = (*self.homes.get(usize::from(piece.shard))?)?;
            let range = piece.offset..piece.offset + piece.length;
            bytes.extend_from_slice(&self.read_shard(volume, piece.shard, range).ok()?);
        }
        Some(bytes.into())
    }
}
