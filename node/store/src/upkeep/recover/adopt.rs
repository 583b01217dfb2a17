//! Step 3 of the barrier: the voters are scanned side by side, key by key, and the highest row of
//! each key is adopted with its committed flag.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use sherd_core::id::{Epoch, RegisterKey};
use sherd_core::message;
use sherd_core::message::{AdoptedRow, RowScan, ScannedRow};
use sherd_core::record::{State, Value};
use sherd_core::register::quorum::{Order, Reply};
use sherd_core::register::recover::Barrier;
use sherd_core::register::{Answerer, EncodedValue, RowHead};

use super::attempt::RecoveryTry;
use super::stall::RecoveryStall;
use super::status::Recoveries;
use crate::peer::VolumeRoute;
use crate::upkeep::deps::Deps;
use crate::upkeep::governor::admit;
use crate::upkeep::limits::PAGE_PATIENCE;
use crate::upkeep::pages::{ask, read_whole};
use crate::upkeep::recover::limits::{ADOPT_PAGE, ADOPT_TRIES, BATCH_BYTES, BATCH_ROWS};

struct VoterScan {
    route: VolumeRoute,
    epoch: Epoch,
    rows: VecDeque<ScannedRow>,
    after: Option<RegisterKey>,
    is_done: bool,
    /// The answerer of the pages so far: one and the same life, or the scan is void.
    from: Option<Answerer>,
    asked: u32,
}

/// A row to adopt, and who showed it.
struct ChosenRow {
    key: RegisterKey,
    head: RowHead,
    /// Absent where the holder could not read it.
    value: Option<Bytes>,
    holder: VolumeRoute,
    /// Whether one of those that hold this ballot lists it, since another volume may lack it.
    is_missed: bool,
}

/// The order in which rows are scanned: objects by bucket and key, then parts by upload and number.
fn scan_order(key: &RegisterKey) -> (bool, [u8; 16], [u8; 16], u16, &[u8]) {
    let (upload, number) = key.part.map_or(([0; 16], 0), |part| (part.upload.0, part.number));
    (key.part.is_some(), key.bucket.0, upload, number, key.key.as_bytes())
}

impl VoterScan {
    fn new(route: VolumeRoute, epoch: Epoch, asked: u32) -> Self {
        Self { route, epoch, rows: VecDeque::new(), after: None, is_done: false, from: None, asked }
    }

    fn failed(&self, reason: impl std::fmt::Display) -> RecoveryStall {
        RecoveryStall::Scan { volume: self.route.volume, reason: reason.to_string() }
    }

    /// Fetches the next page where the last is used up.
    async fn fill(&mut self) -> Result<(), RecoveryStall> {
        if self.is_done || !self.rows.is_empty() {
            return Ok(());
        }
        let request = RowScan::all(self.epoch, self.after.clone(), ADOPT_PAGE);
        let answer = ask(self.route.peer.rows(self.route.volume, &request), PAGE_PATIENCE).await;
        let answer = answer.map_err(|error| self.failed(error))?;
        let page = answer.result.map_err(|refusal| self.failed(refusal))?;
        if let Some(before) = &self.from
            && (before.life != answer.from.life || !answer.from.votes)
        {
            return Err(self.failed("it began a new life"));
        }
        self.from = Some(answer.from);
        self.after = page.next;
        self.is_done = self.after.is_none();
        self.rows = page.rows.into();
        Ok(())
    }
}

/// Takes the lowest key of all scans off them, with its highest row. `None` when all are at the end.
fn next_key(scans: &mut [VoterScan]) -> Option<ChosenRow> {
    let fronts = scans.iter().filter_map(|scan| scan.rows.front());
    let key =
        fronts.map(|row| &row.key).min_by(|one, other| scan_order(one).cmp(&scan_order(other)))?.clone();
    let mut chosen: Option<ChosenRow> = None;
    for scan in scans {
        if scan.rows.front().is_none_or(|row| row.key != key) {
            continue;
        }
        let Some(ScannedRow { row, is_missed, .. }) = scan.rows.pop_front() else { continue };
        let holder = scan.route.clone();
        match &mut chosen {
            Some(chosen) if chosen.head.ballot > row.head.ballot => {}
            Some(chosen) if chosen.head.ballot == row.head.ballot => {
                chosen.head.committed |= row.head.committed;
                chosen.is_missed |= is_missed;
                if chosen.value.is_none() {
                    (chosen.value, chosen.holder) = (row.value, holder);
                }
            }
            _ => {
                let (head, value) = (row.head, row.value);
                chosen = Some(ChosenRow { key: key.clone(), head, value, holder, is_missed });
            }
        }
    }
    chosen
}

#[derive(Debug)]
pub(super) struct RowAdopter {
    deps: Deps,
    recoveries: Arc<Recoveries>,
}

impl RowAdopter {
    pub(super) fn new(deps: &Deps, recoveries: &Arc<Recoveries>) -> Self {
        Self { deps: deps.clone(), recoveries: Arc::clone(recoveries) }
    }

    /// Scans the voters of the barrier and adopts what they hold. Gives the scans as replies.
    pub(super) async fn adopt_rows(
        &self,
        own: &VolumeRoute,
        attempt: &RecoveryTry,
        barrier: &Barrier,
    ) -> Result<Vec<Reply<()>>, RecoveryStall> {
        let (epoch, asked) = (self.deps.cluster.epoch(), attempt.now());
        let mut scans: Vec<VoterScan> =
            attempt.sources().iter().map(|route| VoterScan::new(route.clone(), epoch, asked)).collect();
        debug_assert_eq!(scans.len(), barrier.voters.len(), "every voter of the barrier is scanned");
        let mut batch = Vec::new();
        let mut batch_bytes = 0;
        loop {
            for filled in join_all(scans.iter_mut().map(VoterScan::fill)).await {
                filled?;
            }
            // Until one of them is used up, the lowest of the fronts is the lowest of all.
            while scans.iter().all(|scan| scan.is_done || !scan.rows.is_empty()) {
                let Some(chosen) = next_key(&mut scans) else { break };
                batch_bytes += chosen.value.as_ref().map_or(0, Bytes::len);
                batch.push(chosen);
                if batch.len() >= BATCH_ROWS || batch_bytes >= BATCH_BYTES {
                    self.adopt_batch(own, std::mem::take(&mut batch)).await?;
                    batch_bytes = 0;
                }
            }
            if scans.iter().all(|scan| scan.is_done && scan.rows.is_empty()) {
                break;
            }
        }
        self.adopt_batch(own, batch).await?;
        let arrived = attempt.now() + 1;
        scans
            .into_iter()
            .map(|scan| match &scan.from {
                Some(from) => Ok(Reply {
                    volume: scan.route.volume,
                    from: from.clone(),
                    order: Order { asked: scan.asked, arrived },
                    result: Ok(()),
                }),
                None => Err(scan.failed("it was never asked")),
            })
            .collect()
    }

    async fn adopt_batch(&self, own: &VolumeRoute, batch: Vec<ChosenRow>) -> Result<(), RecoveryStall> {
        if batch.is_empty() {
            return Ok(());
        }
        let rows = join_all(batch.into_iter().map(|chosen| with_inline(&self.deps, chosen))).await;
        let rows = rows.into_iter().filter_map(Result::transpose).collect::<Result<Vec<AdoptedRow>, _>>()?;
        let count = rows.len() as u64;
        let bytes: usize = rows.iter().map(|row| row.value.head.len() + row.value.inline.len()).sum();
        admit(&self.deps, &[own.volume], bytes as u64).await;
        let answer = ask(own.peer.adopt(own.volume, rows), PAGE_PATIENCE).await;
        let answer = answer.map_err(|error| RecoveryStall::Own(error.to_string()))?;
        answer.result.map_err(|refusal| RecoveryStall::Own(refusal.to_string()))?;
        self.recoveries.adopted(own.volume, count);
        Ok(())
    }
}

/// Fetches what the scan did not bring: inline bytes, and a value that could not be read.
/// `Ok(None)` when the row was dropped meanwhile.
async fn with_inline(deps: &Deps, mut chosen: ChosenRow) -> Result<Option<AdoptedRow>, RecoveryStall> {
    let holder = chosen.holder.clone();
    let failed = |reason: String| RecoveryStall::Scan { volume: holder.volume, reason };
    let target = deps.cluster.target(chosen.key.clone());
    for _ in 0..ADOPT_TRIES {
        if let Some(value) = &chosen.value {
            let state = state_of(value).map_err(failed)?;
            if !state.has_inline() {
                return Ok(Some(chosen.adopted(value.clone(), Bytes::new())));
            }
            let inline = holder.peer.inline(holder.volume, &target, chosen.head.ballot);
            match ask(inline, PAGE_PATIENCE).await {
                Ok(inline) if state.check_inline(&inline).is_ok() => {
                    return Ok(Some(chosen.adopted(value.clone(), inline)));
                }
                Err(message::Error::NotFound) => {}
                Ok(_) | Err(message::Error::Corrupt { .. }) => {
                    write_anew(deps, &chosen.key).await.map_err(failed)?;
                }
                Err(error) => return Err(failed(error.to_string())),
            }
        } else {
            write_anew(deps, &chosen.key).await.map_err(failed)?;
        }
        // The row moved on; what stands there now is above it.
        let answer = read_whole(&holder, &target, PAGE_PATIENCE).await;
        match answer {
            Ok(answer) => {
                let vote = answer.result.map_err(|refusal| failed(refusal.to_string()))?;
                let Some(row) = vote.row else { return Ok(None) };
                (chosen.head, chosen.value) = (row.head, row.value);
                // Nothing says whether the newer one is everywhere.
                chosen.is_missed = true;
            }
            Err(message::Error::Corrupt { .. }) => chosen.value = None,
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    Err(failed("a row cannot be read, or changes faster than it can be read".to_owned()))
}

/// A voter's row is rotten: the others write it again, above every ballot that it may have had.
async fn write_anew(deps: &Deps, key: &RegisterKey) -> Result<(), String> {
    deps.registers.finish(key).await.map(drop).map_err(|failure| failure.to_string())
}

impl ChosenRow {
    fn adopted(&self, head: Bytes, inline: Bytes) -> AdoptedRow {
        let value = EncodedValue::new(head, inline);
        AdoptedRow { key: self.key.clone(), head: self.head, value, is_missed: self.is_missed }
    }
}

fn state_of(head: &Bytes) -> Result<State, String> {
    let value = Value::decode(head.clone()).map_err(|error| format!("a row does not decode: {error}"))?;
    Ok(value.state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::{BucketId, ObjectKey, PartKey, UploadId};

    #[test]
    fn scans_go_through_objects_first_and_then_through_parts() {
        let name = |name: &str| ObjectKey::new(name.to_owned()).expect("a key");
        let object = |bucket: u8, key: &str| RegisterKey::object(BucketId([bucket; 16]), name(key));
        let part = |bucket: u8, upload: u8, number: u16, key: &str| {
            let part = PartKey { upload: UploadId([upload; 16]), number };
            RegisterKey::part(BucketId([bucket; 16]), name(key), part)
        };
        let ordered = [
            object(1, "a"),
            object(1, "ab"),
            object(1, "b"),
            object(2, "a"),
            part(1, 1, 9, "z"),
            part(1, 2, 1, "a"),
            part(1, 2, 300, "a"),
            part(2, 1, 1, "a"),
        ];
        for pair in ordered.windows(2) {
            assert!(scan_order(&pair[0]) < scan_order(&pair[1]), "{pair:?}");
        }
    }
}
