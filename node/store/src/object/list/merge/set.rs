//! The scan of one set: P of its volumes, each replaced by a spare one where it fails, and one decision a
//! name.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::Instant;

use sherd_core::id::{Life, ObjectKey};
use sherd_core::message;
use sherd_core::message::{
    Answer, LIST_PASSED_MAX, ListPage, ListScan, ListedRow, ScannedRow, behind, behind_prefix,
};
use sherd_core::record::Value;
use sherd_core::register::Refusal;
use sherd_core::register::listing::{KeyDecision, PrefixDecision, ScannedEntry, decide_key, decide_prefix};

use super::query::{Name, Query};
use super::volume::{VolumeScan, name_of, row_of};
use crate::cluster::SetView;
use crate::object::limits::{SCAN_ROWS_MAX, SCAN_ROWS_MIN};
use crate::peer::{LATE_LOOK_EVERY, ask_unless_busy};
use crate::register::{Failure, Registers};

/// Rows of all volumes together for each row that is wanted, when the walk begins: of a set with P = 2 each
/// volume gives twice the set's share of the names. The room that a list takes counts a row as 4 KiB, eight
/// rows of 512 bytes.
const ROWS_FOR_WANTED: usize = 4;

/// The scan of one set: of P of its volumes.
#[derive(Debug)]
pub(super) struct SetScan {
    pub(super) set: Arc<SetView>,
    registers: Registers,
    query: Query,
    /// Rows asked of a volume at one time.
    rows: usize,
    epoch: sherd_core::id::Epoch,
    pub(super) volumes: Vec<VolumeScan>,
    spare: VecDeque<usize>,
    /// Whether a volume answered that the bucket is sealed.
    found_seal: bool,
    /// The last name that was left behind: what comes up to it is known.
    passed: Option<Bytes>,
}

/// The verdict of one set about one name.
pub(super) enum SetVerdict {
    Show(Name),
    Ask(ObjectKey),
    Reseek(ObjectKey),
    Nothing,
}

impl SetScan {
    pub(super) fn new(
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
            found_seal: false,
            passed: None,
        }
    }

    pub(super) fn lowest(&self) -> Option<&[u8]> {
        self.volumes.iter().filter_map(|volume| volume.rows.front()).map(name_of).min()
    }

    /// Whether a volume has to be asked before the lowest key of all sets is known: it may hold that one or
    /// one below.
    pub(super) fn lacks(&self, lowest: Option<&[u8]>) -> bool {
        let may_hold = |from: &[u8]| lowest.is_none_or(|lowest| from <= lowest);
        self.volumes.iter().any(|volume| volume.is_dry() && may_hold(&volume.from))
    }

    /// Where a listing goes on behind a name: behind all that is below it, where it is a common prefix.
    /// `None` where no name is behind it.
    fn bound_behind(&self, name: &[u8]) -> Option<Bytes> {
        let delimiter = self.query.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        let rest = name.strip_prefix(&self.query.prefix[..]);
        let is_prefix = delimiter.zip(rest).is_some_and(|(delimiter, rest)| rest.ends_with(delimiter));
        if is_prefix { behind_prefix(name) } else { Some(behind(name)) }
    }

    /// Whether a volume that has to be asked again has passed enough rows that no listing shows.
    pub(super) fn passed_enough(&self) -> bool {
        self.volumes.iter().any(|volume| volume.is_dry() && volume.passed_rows >= self.query.passed_max)
    }

    /// Fetches a page for every volume that ran dry.
    pub(super) async fn fetch(&mut self) -> Result<(), Failure> {
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
                Ok(page) if answer.from.votes => self.take(index, answer.from.life, page),
                Err(Refusal::Sealed) => {
                    self.found_seal = true;
                    self.replace(index)?;
                }
                Ok(_) | Err(_) => self.replace(index)?,
            }
        }
        Ok(())
    }

    /// A volume's next page. A busy one is asked again until the deadline; `None` where no answer came until
    /// then, or, where another can be asked instead, until it is late.
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
            // A whole page, also where little is left to be passed: a call that passes few rows costs as
            // much.
            passed_max: u32::try_from(self.query.passed_max).unwrap_or(u32::MAX).min(LIST_PASSED_MAX),
            deletion: None,
        };
        let route = &self.set.routes[scan.place];
        let mut answer =
            std::pin::pin!(ask_unless_busy(deadline, || route.peer.list(route.volume, &request)));
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

    /// Takes a page, but for the names that the listing has passed: a volume may have been asked for them
    /// before.
    fn take(&mut self, index: usize, life: Life, page: ListPage) {
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

    /// Drops the answers that volumes gave in an earlier life, even where the next name was to come from one
    /// (I-2).
    pub(super) fn leave_former_lives(&mut self) -> Result<(), Failure> {
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

    /// Scans another volume from where the listing is. Without one left, the bucket's register decides over a
    /// seal.
    fn replace(&mut self, index: usize) -> Result<(), Failure> {
        let none_left = if self.found_seal { Failure::Sealed } else { Failure::Unavailable };
        let place = self.spare.pop_front().ok_or(none_left)?;
        self.volumes[index] = VolumeScan::new(place, self.query.from.clone());
        if let Some(passed) = self.passed.clone() {
            let from = self.bound_behind(&passed);
            self.volumes[index].go_behind(&passed, from);
        }
        Ok(())
    }

    /// Leaves a name behind, and, where it is a common prefix, all that is below it.
    pub(super) fn pass(&mut self, name: &Bytes) {
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
    pub(super) fn reseek(&mut self, prefix: &[u8], after: &ObjectKey) {
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

    pub(super) fn judge(&self, name: &[u8]) -> SetVerdict {
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

fn decode(row: &ScannedRow) -> Option<Value> {
    row.row.value.clone().and_then(|head| Value::decode(head).ok())
}
