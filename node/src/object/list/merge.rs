//! The ordered scans of all sets, merged key by key.
//!
//! ```text
//! set 0   volume 0  a   b   p/      \
//!         volume 2  a       p/       >  one decision per set and name  \
//! set 1   volume 5      c   p/      /                                    >  names in order
//!         volume 7      c           \  one decision per set and name    /
//! ```
//!
//! Every set is scanned on P of its volumes, page by page; a volume that fails, or still holds a seal
//! of a deletion that was undone, is replaced by another. A deletion that may end the bucket has sealed
//! A of them, which leaves fewer than P. What one name came to in one set is
//! `sherd_core::register::listing`'s decision.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use sherd_core::id::{BucketId, ObjectKey};
use sherd_core::record::{State, Value};
use sherd_core::register::Refusal;
use sherd_core::register::listing::{
    KeyDecision, Listed as Judged, PrefixDecision, decide_key, decide_prefix,
};
use sherd_volume::list::{ListScan, Listed, ScannedRow, after_key};

use crate::cluster::{Cluster, SetView};
use crate::register::Failure;

/// Rows asked of one volume at one time.
const SCAN_ROWS: usize = 256;

/// What to scan.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) bucket: BucketId,
    pub(super) prefix: Bytes,
    pub(super) delimiter: Option<Bytes>,
    /// Only names at or behind this.
    pub(super) from: Bytes,
    /// Whether a value shows in this listing.
    pub(super) shows: fn(&Value) -> bool,
    /// Rows worth asking for at one time.
    pub(super) wanted: usize,
    /// Names that may be looked at and not show; then the walk stops where it is.
    pub(super) hidden_max: usize,
}

/// The scans of all sets.
#[derive(Debug)]
pub(super) struct Merge {
    sets: Vec<SetScan>,
    /// Names that may still be met without showing.
    hidden_left: usize,
}

/// One name, and what the sets say about it.
#[derive(Debug)]
pub(super) enum Name {
    /// A key, with its row's value.
    Key {
        /// The key.
        key: ObjectKey,
        /// Its committed value, as one volume has it.
        value: Box<Value>,
    },
    /// A key of which only its register can tell.
    Unsure(ObjectKey),
    /// A common prefix.
    Prefix(Bytes),
    /// A common prefix of which only this key's register can tell.
    UnsurePrefix {
        /// The prefix.
        prefix: Bytes,
        /// Its lowest witness.
        witness: ObjectKey,
        /// Which set said so.
        set: usize,
    },
    /// None, but enough was looked at: nothing up to here is left out.
    Enough(Bytes),
}

#[derive(Debug)]
struct SetScan {
    set: Arc<SetView>,
    query: Query,
    epoch: sherd_core::id::Epoch,
    volumes: Vec<VolumeScan>,
    spare: VecDeque<usize>,
    /// Whether a volume answered that the bucket is sealed.
    met_seal: bool,
}

/// The scan of one volume.
#[derive(Debug)]
struct VolumeScan {
    place: usize,
    rows: VecDeque<Listed>,
    /// Where the next page begins.
    from: Bytes,
    /// Whether there is no next page.
    complete: bool,
}

impl VolumeScan {
    /// Whether a page has to be fetched before its next name is known.
    fn is_dry(&self) -> bool {
        self.rows.is_empty() && !self.complete
    }
}

fn name_of(listed: &Listed) -> &[u8] {
    match listed {
        Listed::Row(row) => row.key.key.as_bytes(),
        Listed::Prefix { prefix, .. } => prefix,
    }
}

impl Merge {
    /// Begins the scans.
    pub(super) fn new(cluster: &Cluster, query: &Query) -> Self {
        let sets = cluster.sets().iter().map(|set| SetScan::new(set, cluster.epoch(), query));
        Self { sets: sets.collect(), hidden_left: query.hidden_max }
    }

    /// The next name that some set holds, in order.
    pub(super) async fn next(&mut self) -> Result<Option<Name>, Failure> {
        loop {
            for set in &mut self.sets {
                set.fill().await?;
            }
            let Some(name) = self.sets.iter().filter_map(SetScan::lowest).min().map(Bytes::copy_from_slice)
            else {
                return Ok(None);
            };
            match self.judge(&name) {
                Verdict::Show(shown) => {
                    self.pass(&name);
                    return Ok(Some(shown));
                }
                Verdict::Ask { witness, set } => {
                    return Ok(Some(Name::UnsurePrefix { prefix: name, witness, set }));
                }
                Verdict::Reseek { after } => {
                    if self.hide() {
                        return Ok(Some(Name::Enough(Bytes::copy_from_slice(after.as_bytes()))));
                    }
                }
                Verdict::Nothing => {
                    self.pass(&name);
                    if self.hide() {
                        return Ok(Some(Name::Enough(name)));
                    }
                }
            }
        }
    }

    /// Counts a name that does not show; whether that is enough of them.
    pub(super) const fn hide(&mut self) -> bool {
        self.hidden_left = self.hidden_left.saturating_sub(1);
        self.hidden_left == 0
    }

    /// What the sets together say about the lowest name: one that shows it is enough; a prefix
    /// that none shows is looked into where a register can tell, else behind its dead witnesses.
    fn judge(&mut self, name: &Bytes) -> Verdict {
        let mut together = Verdict::Nothing;
        for index in 0..self.sets.len() {
            if self.sets[index].lowest() != Some(name) {
                continue;
            }
            match self.sets[index].judge(name) {
                SetVerdict::Show(shown) => return Verdict::Show(shown),
                SetVerdict::Ask(witness) => together = Verdict::Ask { witness, set: index },
                SetVerdict::Reseek(after) => {
                    self.sets[index].reseek(name, &after);
                    // Nothing shows up to the lowest of the dead witnesses.
                    together = match together {
                        Verdict::Nothing => Verdict::Reseek { after },
                        Verdict::Reseek { after: other } => Verdict::Reseek { after: after.min(other) },
                        other => other,
                    };
                }
                SetVerdict::Nothing => {}
            }
        }
        together
    }

    /// Leaves a name behind in every set.
    pub(super) fn pass(&mut self, name: &[u8]) {
        for set in &mut self.sets {
            set.pass(name);
        }
    }

    /// The witness of a prefix was dead: looks behind it, inside the prefix.
    pub(super) fn dead_witness(&mut self, set: usize, prefix: &[u8], witness: &ObjectKey) {
        self.sets[set].reseek(prefix, witness);
    }
}

/// What all sets together say about one name.
enum Verdict {
    Show(Name),
    Ask { witness: ObjectKey, set: usize },
    Reseek { after: ObjectKey },
    Nothing,
}

/// What one set says about one name.
enum SetVerdict {
    Show(Name),
    Ask(ObjectKey),
    Reseek(ObjectKey),
    Nothing,
}

impl SetScan {
    fn new(set: &Arc<SetView>, epoch: sherd_core::id::Epoch, query: &Query) -> Self {
        let voters = set.quorums().prepare();
        let volumes = (0..voters).map(|place| VolumeScan {
            place,
            rows: VecDeque::new(),
            from: query.from.clone(),
            complete: false,
        });
        Self {
            set: Arc::clone(set),
            query: query.clone(),
            epoch,
            volumes: volumes.collect(),
            spare: (voters..set.reach.len()).collect(),
            met_seal: false,
        }
    }

    fn lowest(&self) -> Option<&[u8]> {
        self.volumes.iter().filter_map(|volume| volume.rows.front()).map(name_of).min()
    }

    /// Whether some volume has to be asked before the next name is known.
    fn reseeking(&self) -> bool {
        self.volumes.iter().any(VolumeScan::is_dry)
    }

    /// Fetches a page for every volume that ran dry.
    async fn fill(&mut self) -> Result<(), Failure> {
        while self.reseeking() {
            let dry = self.volumes.iter().enumerate().filter(|(_, scan)| scan.is_dry());
            let asked: Vec<_> = dry
                .map(|(index, scan)| {
                    let request = ListScan {
                        bucket: self.query.bucket,
                        epoch: self.epoch,
                        prefix: self.query.prefix.clone(),
                        from: scan.from.clone(),
                        delimiter: self.query.delimiter.clone(),
                        limit: self.query.wanted.clamp(1, SCAN_ROWS),
                        deletion: None,
                    };
                    let reach = &self.set.reach[scan.place];
                    (index, reach.peer.list(reach.volume, &request))
                })
                .collect();
            for (index, pending) in asked {
                match pending.await {
                    Ok(answer) => match answer.result {
                        Ok(page) if answer.from.votes => {
                            let scan = &mut self.volumes[index];
                            scan.rows = page.entries.into();
                            scan.complete = page.next.is_none();
                            scan.from = page.next.unwrap_or_default();
                        }
                        Err(Refusal::Sealed) => {
                            self.met_seal = true;
                            self.replace(index)?;
                        }
                        Ok(_) | Err(_) => self.replace(index)?,
                    },
                    Err(_) => self.replace(index)?,
                }
            }
        }
        Ok(())
    }

    /// Scans another volume from where this one stopped. Where none is left, what becomes of a seal
    /// that was met is known to the bucket's register.
    fn replace(&mut self, index: usize) -> Result<(), Failure> {
        let none_left = if self.met_seal { Failure::Sealed } else { Failure::Unavailable };
        self.volumes[index].place = self.spare.pop_front().ok_or(none_left)?;
        Ok(())
    }

    fn pass(&mut self, name: &[u8]) {
        for volume in &mut self.volumes {
            if volume.rows.front().is_some_and(|listed| name_of(listed) == name) {
                volume.rows.pop_front();
            }
        }
    }

    /// Asks the volumes whose witness is at or before `after` again, from behind it.
    fn reseek(&mut self, prefix: &[u8], after: &ObjectKey) {
        for volume in &mut self.volumes {
            let behind = match volume.rows.front() {
                Some(Listed::Prefix { prefix: named, witness }) => {
                    named == prefix && witness.key.key <= *after
                }
                Some(Listed::Row(_)) | None => false,
            };
            if behind {
                volume.rows.clear();
                volume.from = after_key(after);
                volume.complete = false;
            }
        }
    }

    fn judge(&self, name: &[u8]) -> SetVerdict {
        let entries: Vec<Option<&Listed>> = self
            .volumes
            .iter()
            .map(|volume| volume.rows.front().filter(|listed| name_of(listed) == name))
            .collect();
        let is_prefix = entries.iter().flatten().any(|listed| matches!(listed, Listed::Prefix { .. }));
        if is_prefix { self.judge_prefix(name, &entries) } else { self.judge_key(&entries) }
    }

    fn judge_key(&self, entries: &[Option<&Listed>]) -> SetVerdict {
        let judged: Vec<Option<Judged>> = entries
            .iter()
            .map(|entry| entry.map(|listed| Judged { head: row_of(listed).row.head, live: true }))
            .collect();
        let row = |at: usize| entries[at].map(row_of).expect("named by the decision");
        match decide_key(&judged, self.set.quorums()) {
            KeyDecision::Absent => SetVerdict::Nothing,
            KeyDecision::Read => {
                let any = entries.iter().flatten().next().expect("absent when no volume has it");
                SetVerdict::Show(Name::Unsure(row_of(any).key.key.clone()))
            }
            KeyDecision::Take { from } => match decode(row(from)) {
                Some(value) if (self.query.shows)(&value) => {
                    SetVerdict::Show(Name::Key { key: row(from).key.key.clone(), value: Box::new(value) })
                }
                Some(_) => SetVerdict::Nothing,
                None => SetVerdict::Show(Name::Unsure(row(from).key.key.clone())),
            },
        }
    }

    fn judge_prefix(&self, name: &[u8], entries: &[Option<&Listed>]) -> SetVerdict {
        let witnesses: Vec<Option<(&ObjectKey, Judged)>> = entries
            .iter()
            .map(|entry| entry.map(row_of).map(|row| (&row.key.key, self.judged(row, decode(row).as_ref()))))
            .collect();
        let key_of = |at: usize| witnesses[at].map(|(key, _)| key.clone()).expect("named by the decision");
        match decide_prefix(&witnesses, self.set.quorums()) {
            PrefixDecision::Take => SetVerdict::Show(Name::Prefix(Bytes::copy_from_slice(name))),
            PrefixDecision::Judge { witness } => SetVerdict::Ask(key_of(witness)),
            PrefixDecision::Reseek { witness } => SetVerdict::Reseek(key_of(witness)),
            PrefixDecision::Absent => SetVerdict::Nothing,
        }
    }

    /// A row that does not decode is not known to be dead, so it counts as live and uncommitted:
    /// its register decides.
    fn judged(&self, row: &ScannedRow, value: Option<&Value>) -> Judged {
        let mut head = row.row.head;
        head.committed &= value.is_some();
        Judged { head, live: value.is_none_or(|value| (self.query.shows)(value)) }
    }
}

fn row_of(listed: &Listed) -> &ScannedRow {
    match listed {
        Listed::Row(row) => row,
        Listed::Prefix { witness, .. } => witness,
    }
}

fn decode(row: &ScannedRow) -> Option<Value> {
    row.row.value.clone().and_then(|head| Value::decode(head).ok())
}

/// Values that show as objects.
pub(super) fn shows_object(value: &Value) -> bool {
    matches!(&value.state, State::Object(object) if object.current().is_some())
}

/// Values that show as buckets.
pub(super) fn shows_bucket(value: &Value) -> bool {
    matches!(&value.state, State::Bucket(bucket) if bucket.phase != sherd_core::record::BucketPhase::Deleted)
}

/// Values that show as keys with open uploads.
pub(super) fn shows_uploads(value: &Value) -> bool {
    matches!(&value.state, State::Object(object) if !object.uploads.is_empty())
}
