//! The ordered scans of all sets, merged key by key.
//!
//! ```text
//! set 0   volume 0  a   b   p/      \
//!         volume 2  a       p/       >  one decision per set and name  \
//! set 1   volume 5      c   p/      /                                    >  names in order
//!         volume 7      c           \  one decision per set and name    /
//! ```
//!
//! Every set is scanned on P of its volumes, page by page, and all sets that lack a page are asked at once. A volume
//! that is busy is asked again; one that fails, that began a new life
//! since it answered, or that still holds a seal of a deletion that was undone, is replaced by another
//! from where the listing is. A deletion that may end the bucket has sealed A of them, which leaves fewer
//! than P. What one name came to in one set is `sherd_core::register::listing`'s decision.
//!
//! A common prefix stands where its lowest witness does: volumes that are behind that one, inside the prefix, are not
//! asked before it is judged, and go behind the prefix where it shows.
//!
//! A walk ends where enough was looked at that does not show, too: what stands behind is the next page's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use sherd_core::id::{BucketId, Incarnation, ObjectKey};
use sherd_core::message;
use sherd_core::message::{
    Answer, LIST_PASSED_MAX, ListPage, ListScan, ListedRow, ScannedRow, behind, behind_prefix,
};
use sherd_core::record::{State, Value};
use sherd_core::register::Refusal;
use sherd_core::register::listing::{KeyDecision, PrefixDecision, ScannedEntry, decide_key, decide_prefix};

use crate::cluster::{Cluster, SetView};
use crate::peer::{LATE_LOOK_EVERY, ask_unless_busy};
use crate::register::{Failure, Registers};

/// Rows asked of one volume at one time, at most and at least.
const SCAN_ROWS_MAX: usize = 256;
const SCAN_ROWS_MIN: usize = 2;
/// Rows of all volumes together for each row that is wanted, when the walk begins: of a set with P = 2 each volume gives
/// twice the set's share of the names. The room that a list takes counts a row as 4 KiB, eight rows of 512 bytes.
const ROWS_FOR_WANTED: usize = 4;
/// What a key counts that only a register read shows not to show, in names that the scans alone show so: a read is a
/// round trip, a name some microseconds.
pub(super) const READ_COST: usize = 50;

/// What to scan.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) bucket: BucketId,
    pub(super) prefix: Bytes,
    pub(super) delimiter: Option<Bytes>,
    /// Only names at or behind this.
    pub(super) from: Bytes,
    /// Which place of each set is asked first: lists of one bucket are spread over its volumes.
    pub(super) start: usize,
    /// Whether a value shows in this listing.
    pub(super) shows: fn(&Value) -> bool,
    /// Rows worth asking for at one time.
    pub(super) wanted: usize,
    /// Names that may be looked at and not show; then the walk stops where it is.
    pub(super) hidden_max: usize,
    /// Rows that one volume may pass because no listing shows them; then the walk stops where it is, too.
    pub(super) passed_max: u64,
    /// How long a volume may take for a page, before another is asked.
    pub(super) timeout: Duration,
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
    /// No name, but enough was looked at: nothing up to here, this name included, is left out.
    Enough(Bytes),
}

#[derive(Debug)]
struct SetScan {
    set: Arc<SetView>,
    registers: Registers,
    query: Query,
    /// Rows asked of a volume at one time.
    rows: usize,
    epoch: sherd_core::id::Epoch,
    volumes: Vec<VolumeScan>,
    spare: VecDeque<usize>,
    /// Whether a volume answered that the bucket is sealed.
    met_seal: bool,
    /// The last name that was left behind: what comes up to it is known.
    passed: Option<Bytes>,
}

/// The scan of one volume.
#[derive(Debug)]
struct VolumeScan {
    place: usize,
    rows: VecDeque<ListedRow>,
    /// Where the next page begins.
    from: Bytes,
    /// The last name before that, where a page ended there.
    up_to: Option<Bytes>,
    /// Whether there is no next page.
    complete: bool,
    /// Rows that it passed because no listing shows them.
    passed_rows: u64,
    /// In which life the volume answered.
    life: Option<Incarnation>,
}

impl VolumeScan {
    const fn new(place: usize, from: Bytes) -> Self {
        Self { place, rows: VecDeque::new(), from, up_to: None, complete: false, passed_rows: 0, life: None }
    }

    /// Whether a page has to be fetched before its next name is known.
    fn is_dry(&self) -> bool {
        self.rows.is_empty() && !self.complete
    }

    /// Goes on behind this name, where anything can be there.
    fn go_behind(&mut self, name: &Bytes, from: Option<Bytes>) {
        self.complete = from.is_none();
        self.from = from.unwrap_or_default();
        self.up_to = Some(name.clone());
    }
}

fn name_of(listed: &ListedRow) -> &[u8] {
    match listed {
        ListedRow::Row(row) => row.key.key.as_bytes(),
        ListedRow::Prefix { prefix, .. } => prefix,
    }
}

impl Merge {
    /// Begins the scans.
    pub(super) fn new(cluster: &Cluster, registers: &Registers, query: &Query) -> Self {
        let sets = cluster.sets();
        let scan = |set| SetScan::new(set, registers, cluster.epoch(), (query, sets.len()));
        Self { sets: sets.iter().map(scan).collect(), hidden_left: query.hidden_max }
    }

    /// The next name that some set holds, in order.
    pub(super) async fn next(&mut self) -> Result<Option<Name>, Failure> {
        loop {
            if let Some(up_to) = self.fill().await? {
                return Ok(Some(Name::Enough(up_to)));
            }
            let Some(name) = self.lowest() else { return Ok(None) };
            match self.judge(&name) {
                Verdict::Show(shown) => {
                    self.pass(&name);
                    return Ok(Some(shown));
                }
                Verdict::Ask { witness, set } => {
                    return Ok(Some(Name::UnsurePrefix { prefix: name, witness, set }));
                }
                Verdict::Reseek { after } => {
                    if self.hide(1) {
                        return Ok(Some(Name::Enough(Bytes::copy_from_slice(after.as_bytes()))));
                    }
                }
                Verdict::Nothing => {
                    self.pass(&name);
                    if self.hide(1) {
                        return Ok(Some(Name::Enough(name)));
                    }
                }
            }
        }
    }

    /// Fetches pages until the lowest name is known, from all sets at once that may hold a lower one. Gives a name where
    /// enough was looked at before: nothing up to there is left out.
    async fn fill(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            for set in &mut self.sets {
                set.leave_former_lives()?;
            }
            let lowest = self.lowest_key();
            let lacks = |set: &SetScan| set.lacks(lowest.as_deref());
            if !self.sets.iter().any(lacks) || self.lowest_shows_anyway() {
                return Ok(None);
            }
            let is_enough =
                self.hidden_left == 0 || self.sets.iter().any(|set| lacks(set) && set.passed_enough());
            if is_enough && let Some(up_to) = self.looked_up_to() {
                return Ok(Some(up_to));
            }
            let mut fetches: FuturesUnordered<_> =
                self.sets.iter_mut().filter(|set| lacks(set)).map(SetScan::fetch).collect();
            while let Some(fetched) = fetches.next().await {
                fetched?;
            }
        }
    }

    fn lowest(&self) -> Option<Bytes> {
        self.sets.iter().filter_map(SetScan::lowest).min().map(Bytes::copy_from_slice)
    }

    /// The lowest key of all rows: it stands for the lowest name.
    fn lowest_key(&self) -> Option<Bytes> {
        let fronts = self.sets.iter().flat_map(|set| &set.volumes).filter_map(|volume| volume.rows.front());
        fronts.map(|listed| row_of(listed).key.key.as_bytes()).min().map(Bytes::copy_from_slice)
    }

    /// Whether the lowest name is a common prefix that one set shows, and every volume that has to be asked is inside
    /// it: what they hold there changes nothing.
    fn lowest_shows_anyway(&self) -> bool {
        let Some(name) = self.lowest() else { return false };
        let is_below = |set: &SetScan| {
            let dry = set.volumes.iter().filter(|volume| volume.is_dry());
            dry.map(|volume| &volume.from).any(|from| from[..] < name[..])
        };
        let shows = |set: &SetScan| {
            set.lowest() == Some(&name) && matches!(set.judge(&name), SetVerdict::Show(Name::Prefix(_)))
        };
        !self.sets.iter().any(is_below) && self.sets.iter().any(shows)
    }

    /// The last name before the first that was not looked at; `None` where the name before cannot be told. Every known
    /// row is behind it while a volume has to be asked: the lowest is judged before that.
    fn looked_up_to(&self) -> Option<Bytes> {
        let volumes = self.sets.iter().flat_map(|set| &set.volumes);
        let first =
            volumes.filter(|volume| volume.is_dry()).min_by(|one, other| one.from.cmp(&other.from))?;
        first.up_to.clone()
    }

    /// Counts what was looked at and does not show, in names; whether that is enough.
    pub(super) const fn hide(&mut self, names: usize) -> bool {
        self.hidden_left = self.hidden_left.saturating_sub(names);
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
                // The lowest witness first: looking goes upwards.
                SetVerdict::Ask(witness) => {
                    together = match together {
                        Verdict::Ask { witness: other, set } if other <= witness => {
                            Verdict::Ask { witness: other, set }
                        }
                        _ => Verdict::Ask { witness, set: index },
                    }
                }
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
    pub(super) fn pass(&mut self, name: &Bytes) {
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
    fn new(
        set: &Arc<SetView>,
        registers: &Registers,
        epoch: sherd_core::id::Epoch,
        (query, sets): (&Query, usize),
    ) -> Self {
        let start = query.start % set.routes.len();
        let mut places: VecDeque<usize> = set.prompt_first(start).into_iter().collect();
        let voters = set.quorums().prepare();
        let volumes =
            places.drain(..voters).map(|place| VolumeScan::new(place, query.from.clone())).collect();
        let rows = query.wanted.saturating_mul(ROWS_FOR_WANTED) / (voters * sets);
        Self {
            set: Arc::clone(set),
            registers: registers.clone(),
            query: query.clone(),
            rows: rows.clamp(SCAN_ROWS_MIN, SCAN_ROWS_MAX),
            epoch,
            volumes,
            spare: places,
            met_seal: false,
            passed: None,
        }
    }

    fn lowest(&self) -> Option<&[u8]> {
        self.volumes.iter().filter_map(|volume| volume.rows.front()).map(name_of).min()
    }

    /// Whether a volume has to be asked before the lowest key of all sets is known: it may hold that one or one below.
    fn lacks(&self, lowest: Option<&[u8]>) -> bool {
        let may_hold = |from: &[u8]| lowest.is_none_or(|lowest| from <= lowest);
        self.volumes.iter().any(|volume| volume.is_dry() && may_hold(&volume.from))
    }

    /// Where a listing goes on behind a name: behind all that is below it, where it is a common prefix. `None` where
    /// no name is behind it.
    fn bound_behind(&self, name: &[u8]) -> Option<Bytes> {
        let delimiter = self.query.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        let rest = name.strip_prefix(&self.query.prefix[..]);
        let is_prefix = delimiter.zip(rest).is_some_and(|(delimiter, rest)| rest.ends_with(delimiter));
        if is_prefix { behind_prefix(name) } else { Some(behind(name)) }
    }

    /// Whether a volume that has to be asked again has passed enough rows that no listing shows.
    fn passed_enough(&self) -> bool {
        self.volumes.iter().any(|volume| volume.is_dry() && volume.passed_rows >= self.query.passed_max)
    }

    /// Fetches a page for every volume that ran dry.
    async fn fetch(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + self.query.timeout;
        let dry = self.volumes.iter().enumerate().filter(|(_, scan)| scan.is_dry());
        let asked = dry.map(async |(index, scan)| (index, self.page_of(scan, deadline).await));
        for (index, answer) in join_all(asked).await {
            let volume = self.set.routes[self.volumes[index].place].volume;
            let answer = match answer {
                Some(Ok(answer)) => answer,
                // All of the set would be as busy soon.
                Some(Err(message::Error::Busy)) => return Err(Failure::ScansBusy),
                Some(Err(_)) | None => {
                    self.replace(index)?;
                    continue;
                }
            };
            self.registers.learn(volume, &answer.from);
            match answer.result {
                Ok(page) if answer.from.votes => self.take(index, answer.from.incarnation, page),
                Err(Refusal::Sealed) => {
                    self.met_seal = true;
                    self.replace(index)?;
                }
                Ok(_) | Err(_) => self.replace(index)?,
            }
        }
        Ok(())
    }

    /// A volume's next page. A busy one is asked again until the deadline; `None` where no answer came until then, or,
    /// where another can be asked instead, until it is late.
    async fn page_of(
        &self,
        scan: &VolumeScan,
        deadline: Instant,
    ) -> Option<message::Result<Answer<ListPage>>> {
        let request = ListScan {
            bucket: self.query.bucket,
            epoch: self.epoch,
            prefix: self.query.prefix.clone(),
            from: scan.from.clone(),
            delimiter: self.query.delimiter.clone(),
            limit: self.rows,
            // A whole page, also where little is left to be passed: a call that passes few rows costs as much.
            passed_max: u32::try_from(self.query.passed_max).unwrap_or(u32::MAX).min(LIST_PASSED_MAX),
            deletion: None,
        };
        let route = &self.set.routes[scan.place];
        let mut answer =
            std::pin::pin!(ask_unless_busy(deadline, || route.registers.list(route.volume, &request)));
        loop {
            let look = deadline.min(Instant::now() + LATE_LOOK_EVERY);
            if let Ok(answer) = tokio::time::timeout_at(look, answer.as_mut()).await {
                return Some(answer);
            }
            if look == deadline || (!self.spare.is_empty() && self.set.is_late(scan.place)) {
                return None;
            }
        }
    }

    /// Takes a page, but for the names that the listing has passed: a volume may have been asked for them before.
    fn take(&mut self, index: usize, life: Incarnation, page: ListPage) {
        let passed =
            |listed: &ListedRow| self.passed.as_ref().is_some_and(|passed| name_of(listed) <= &passed[..]);
        let up_to = page.next.as_ref().and_then(|next| name_before(next, page.entries.last()));
        let rows = page.entries.into_iter().skip_while(passed).collect();
        let scan = &mut self.volumes[index];
        (scan.rows, scan.up_to, scan.life) = (rows, up_to, Some(life));
        scan.passed_rows += u64::from(page.hidden);
        scan.complete = page.next.is_none();
        scan.from = page.next.unwrap_or_default();
    }

    /// What a volume said in a life that is over counts no more, also where the next name was to
    /// come from it (I-2).
    fn leave_former_lives(&mut self) -> Result<(), Failure> {
        let lives = self.registers.known_lives();
        for index in 0..self.volumes.len() {
            let VolumeScan { place, life, .. } = self.volumes[index];
            let volume = self.set.routes[place].volume;
            if life.is_some_and(|life| lives.is_over(volume, life)) {
                self.replace(index)?;
            }
        }
        Ok(())
    }

    /// Scans another volume from where the listing is. Where none is left, what becomes of a seal that
    /// was met is known to the bucket's register.
    fn replace(&mut self, index: usize) -> Result<(), Failure> {
        let none_left = if self.met_seal { Failure::Sealed } else { Failure::Unavailable };
        let place = self.spare.pop_front().ok_or(none_left)?;
        self.volumes[index] = VolumeScan::new(place, self.query.from.clone());
        if let Some(passed) = self.passed.clone() {
            let from = self.bound_behind(&passed);
            self.volumes[index].go_behind(&passed, from);
        }
        Ok(())
    }

    /// Leaves a name behind, and, where it is a common prefix, all that is below it.
    fn pass(&mut self, name: &Bytes) {
        self.passed = Some(name.clone());
        let from = self.bound_behind(name);
        for volume in &mut self.volumes {
            if volume.rows.front().is_some_and(|listed| name_of(listed) == name) {
                volume.rows.pop_front();
            }
            if volume.is_dry() && from.as_ref().is_none_or(|from| volume.from < *from) {
                volume.go_behind(name, from.clone());
            }
        }
    }

    /// Asks the volumes whose witness is at or before `after` again, from behind it.
    fn reseek(&mut self, prefix: &[u8], after: &ObjectKey) {
        for volume in &mut self.volumes {
            let is_behind = match volume.rows.front() {
                Some(ListedRow::Prefix { prefix: named, witness }) => {
                    named == prefix && witness.key.key <= *after
                }
                Some(ListedRow::Row(_)) | None => false,
            };
            if is_behind {
                volume.rows.clear();
                volume.from = behind(after.as_bytes());
                volume.up_to = Some(Bytes::copy_from_slice(after.as_bytes()));
                volume.complete = false;
            }
        }
    }

    fn judge(&self, name: &[u8]) -> SetVerdict {
        let entries: Vec<Option<&ListedRow>> = self
            .volumes
            .iter()
            .map(|volume| volume.rows.front().filter(|listed| name_of(listed) == name))
            .collect();
        let is_prefix = entries.iter().flatten().any(|listed| matches!(listed, ListedRow::Prefix { .. }));
        if is_prefix { self.judge_prefix(name, &entries) } else { self.judge_key(&entries) }
    }

    fn judge_key(&self, entries: &[Option<&ListedRow>]) -> SetVerdict {
        let judged: Vec<Option<ScannedEntry>> = entries
            .iter()
            .map(|entry| entry.map(|listed| ScannedEntry { head: row_of(listed).row.head, live: true }))
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

    fn judge_prefix(&self, name: &[u8], entries: &[Option<&ListedRow>]) -> SetVerdict {
        let witnesses: Vec<Option<(&ObjectKey, ScannedEntry)>> = entries
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
    fn judged(&self, row: &ScannedRow, value: Option<&Value>) -> ScannedEntry {
        let mut head = row.row.head;
        head.committed &= value.is_some();
        ScannedEntry { head, live: value.is_none_or(|value| (self.query.shows)(value)) }
    }
}

/// The last name before where a page goes on: the key that it goes on behind, or the common prefix.
fn name_before(next: &Bytes, last: Option<&ListedRow>) -> Option<Bytes> {
    match (next.split_last(), last) {
        (Some((0, key)), _) => Some(next.slice(..key.len())),
        (_, Some(ListedRow::Prefix { prefix, .. })) if behind_prefix(prefix).as_ref() == Some(next) => {
            Some(prefix.clone())
        }
        _ => None,
    }
}

fn row_of(listed: &ListedRow) -> &ScannedRow {
    match listed {
        ListedRow::Row(row) => row,
        ListedRow::Prefix { witness, .. } => witness,
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

#[cfg(test)]
mod tests;
