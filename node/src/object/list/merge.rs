//! The ordered scans of all sets, merged key by key.
//!
//! ```text
//! set 0   volume 0  a   b   p/      \
//!         volume 2  a       p/       >  one decision per set and name  \
//! set 1   volume 5      c   p/      /                                    >  names in order
//!         volume 7      c           \  one decision per set and name    /
//! ```
//!
//! Every set is scanned on P of its volumes, page by page; a volume that fails, that began a new life
//! since it answered, or that still holds a seal of a deletion that was undone, is replaced by another
//! from where the listing is. A deletion that may end the bucket has sealed A of them, which leaves fewer
//! than P. What one name came to in one set is `sherd_core::register::listing`'s decision.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use sherd_core::id::{BucketId, Incarnation, ObjectKey};
use sherd_core::message;
use sherd_core::message::{ListPage, ListScan, ListedRow, ScannedRow};
use sherd_core::record::{State, Value};
use sherd_core::register::Refusal;
use sherd_core::register::listing::{KeyDecision, PrefixDecision, ScannedEntry, decide_key, decide_prefix};

use crate::cluster::{Cluster, SetView};
use crate::peer::{LATE_LOOK_EVERY, Pending};
use crate::register::{Failure, Registers};

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
    /// None, but enough was looked at: nothing up to here is left out.
    Enough(Bytes),
}

#[derive(Debug)]
struct SetScan {
    set: Arc<SetView>,
    registers: Registers,
    query: Query,
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
    /// Whether there is no next page.
    complete: bool,
    /// In which life the volume answered.
    life: Option<Incarnation>,
}

impl VolumeScan {
    const fn new(place: usize, from: Bytes) -> Self {
        Self { place, rows: VecDeque::new(), from, complete: false, life: None }
    }

    /// Whether a page has to be fetched before its next name is known.
    fn is_dry(&self) -> bool {
        self.rows.is_empty() && !self.complete
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
        let sets = cluster.sets().iter().map(|set| SetScan::new(set, registers, cluster.epoch(), query));
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
    fn new(set: &Arc<SetView>, registers: &Registers, epoch: sherd_core::id::Epoch, query: &Query) -> Self {
        let mut places: VecDeque<usize> = set.prompt_first(0).into_iter().collect();
        let voters = places.drain(..set.quorums().prepare());
        let volumes = voters.map(|place| VolumeScan::new(place, query.from.clone())).collect();
        Self {
            set: Arc::clone(set),
            registers: registers.clone(),
            query: query.clone(),
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

    /// Whether some volume has to be asked before the next name is known.
    fn reseeking(&self) -> bool {
        self.volumes.iter().any(VolumeScan::is_dry)
    }

    /// Fetches a page for every volume that ran dry.
    async fn fill(&mut self) -> Result<(), Failure> {
        loop {
            self.leave_former_lives()?;
            if !self.reseeking() {
                return Ok(());
            }
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
                    let route = &self.set.routes[scan.place];
                    (index, route.registers.list(route.volume, &request))
                })
                .collect();
            let deadline = Instant::now() + self.query.timeout;
            for (index, pending) in asked {
                let place = self.volumes[index].place;
                let volume = self.set.routes[place].volume;
                let Some(Ok(answer)) = self.answer_of(place, pending, deadline).await else {
                    self.replace(index)?;
                    continue;
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
        }
    }

    /// Waits for a volume's answer until the deadline; where another can be asked instead, until it is late.
    async fn answer_of<R: Unpin>(
        &self,
        place: usize,
        mut pending: Pending<R>,
        deadline: Instant,
    ) -> Option<message::Result<R>> {
        loop {
            let look = deadline.min(Instant::now() + LATE_LOOK_EVERY);
            if let Ok(answer) = tokio::time::timeout_at(look, &mut pending).await {
                return Some(answer);
            }
            if look == deadline || (!self.spare.is_empty() && self.set.is_late(place)) {
                return None;
            }
        }
    }

    /// Takes a page, but for the names that the listing has passed: a volume that replaced another
    /// begins with the last of them.
    fn take(&mut self, index: usize, life: Incarnation, page: ListPage) {
        let passed =
            |listed: &ListedRow| self.passed.as_ref().is_some_and(|passed| name_of(listed) <= &passed[..]);
        let rows = page.entries.into_iter().skip_while(passed).collect();
        let scan = &mut self.volumes[index];
        (scan.rows, scan.life) = (rows, Some(life));
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
        let from = self.passed.clone().unwrap_or_else(|| self.query.from.clone());
        self.volumes[index] = VolumeScan::new(place, from);
        Ok(())
    }

    fn pass(&mut self, name: &Bytes) {
        self.passed = Some(name.clone());
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
                Some(ListedRow::Prefix { prefix: named, witness }) => {
                    named == prefix && witness.key.key <= *after
                }
                Some(ListedRow::Row(_)) | None => false,
            };
            if behind {
                volume.rows.clear();
                volume.from = sherd_core::message::behind(after.as_bytes());
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
mod tests {
    use super::super::super::{Objects, SCAN_PATIENCE};
    use super::*;
    use crate::upkeep::tests::{DEADLINE, Directories, body, key_of};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_volume_in_a_life_that_is_over_is_replaced_where_the_listing_is() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        for key in ["a", "b", "b/c", "d"] {
            node.put(key, &body(1, 100)).await;
        }
        let inner = &node.objects().inner;
        let bucket = node.objects().bucket_id(&key_of("bucket")).await.expect("it was created");
        let query = Query {
            bucket,
            prefix: Bytes::new(),
            delimiter: Some(Bytes::from_static(b"/")),
            from: Bytes::new(),
            shows: shows_object,
            wanted: 1,
            hidden_max: 10,
            timeout: SCAN_PATIENCE,
        };
        let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
        let mut names = Vec::new();
        let volumes: Vec<_> = merge.sets[0].set.routes.iter().map(|route| route.volume).collect();
        while let Some(name) = merge.next().await.expect("enough volumes vote") {
            names.push(match name {
                // A write waits for A volumes, and tells of its commit later.
                Name::Key { key, .. } | Name::Unsure(key) => key.as_str().to_owned(),
                Name::Prefix(prefix) | Name::UnsurePrefix { prefix, .. } => {
                    String::from_utf8(prefix.to_vec()).expect("UTF-8")
                }
                Name::Enough(_) => panic!("none is hidden"),
            });
            if names.len() == 2 {
                node.outlive(volumes[0]).await;
            }
        }
        assert_eq!(names, ["a", "b", "b/", "d"]);
        assert!(merge.sets[0].volumes.iter().all(|scan| scan.place != 0), "the first was left");

        // With a former life and one more volume there are too few.
        node.take_away(volumes[2]).await;
        node.take_away(volumes[3]).await;
        let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
        assert_eq!(merge.next().await.expect_err("one volume votes"), Failure::Unavailable);
        node.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_volume_whose_reads_hang_is_replaced() {
        let directories = Directories::new(4);
        let node = directories.start().await;
        node.create_bucket().await;
        node.put_everywhere("a", &body(1, 100)).await;
        let inner = &node.objects().inner;
        let bucket = node.objects().bucket_id(&key_of("bucket")).await.expect("it was created");
        let query =
            Query { timeout: Duration::from_millis(50), ..Objects::query("", None, None, shows_object, 1) };
        let query = Query { bucket, ..query };
        let hung = node.hang_reads(inner.cluster.sets()[0].routes[0].volume);
        let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
        let name = merge.next().await.expect("the others answer");
        assert!(matches!(name, Some(Name::Key { key, .. } | Name::Unsure(key)) if key.as_str() == "a"));
        // The next one does not wait for it.
        let query = Query { timeout: Duration::from_hours(1), ..query };
        let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
        let name = tokio::time::timeout(DEADLINE, merge.next()).await.expect("in time");
        assert!(name.is_ok_and(|name| name.is_some()));
        drop(hung);
        node.close().await;
    }
}
